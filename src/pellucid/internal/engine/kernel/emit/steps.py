"""What each kind of step becomes in a kernel: one function for each, and the shapes that several of them have.

Steps that always fire together share one flag, and a step all of whose inputs share it needs no queue at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.errors import known
from pellucid.internal.engine.kernel.emit.pen import Flow, Pen, QueueWriter, StateCell, Storage, write_elements
from pellucid.internal.engine.kernel.emit.window import write_window
from pellucid.internal.engine.kernel.layout import NEVER, Opened, encode, leaf_types, opens
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import TRUE, Expr
from pellucid.internal.expr.types import INT, ListType, Type
from pellucid.internal.graph.model import Node
from pellucid.internal.graph.processors import cells_of, meaning_of
from pellucid.internal.graph.timed import MOST_ALONE

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.loop import Emitter
    from pellucid.internal.engine.kernel.emit.pen import Flow, Pen

# ``key_by(f).forget(after=N)`` in a kernel: a row for each key that is held.
#
# A row has the number of its key's last event in the whole stream.  An event whose key has no row, or one whose session
# is over, gets a new row: the rows of keys that are given up are taken back by the host, between pushes
# (`engine.state.EngineState.give_up`), because within one push an event of the old session may still be on its way
# through the steps behind.


def write_forget(e: Pen, node: Node, flow: Flow, cap: int | None, store: Storage) -> Flow:
    """Write one such step; returns its output stream."""
    assert node.fn is not None and store.region is not None
    fn, r, w = node.fn, store.region, e.w
    region = e.layout.regions[r]
    region.new_keys += cap or 1
    whole = Storage(e, node, e.layout.region(None))
    events, begun = whole.word("events", INT, 0), whole.word("begun", INT, 0)
    last = store.word("last", INT, NEVER)
    region.last = last.at or 0

    def row(values: Sequence[str]) -> str:
        leaves = e.copied([f"int({k})" for k in e.named(e.call(node, fn, values))])
        name, args = w.fresh("k"), ", ".join(leaves)
        w.line(f"{name} = find{r}(H{r}, K{r}, {args})")
        with w.block(f"if {name} < 0 or {events.load(None)} - {last.load(name)} - 1 >= {node.k}:"):
            with w.block(f"if {name} >= 0:"):
                place = w.fresh("c") if e.numba else f"({args},)"
                if e.numba and e.undo.is_on:
                    w.line(f"{place} = place{r}(H{r}, K{r}, {args})")
                e.undo.note(f"H{r}", place)
                last.store(name, str(NEVER))
            w.line(f"{name} = make{r}(H{r}, K{r}, SI{r}, TI{r}, M, {args})" + (f"; room{r} -= 1" if e.numba else ""))
            begun.store(None, f"{begun.load(None)} + 1")
        last.store(name, events.load(None))
        events.store(None, f"{events.load(None)} + 1")
        return name

    if flow.many is None:
        with e.when(flow.present):
            name = row(flow.values)
        return e.flow(flow.present, flow.values, name)
    out = e.fresh_flow(node, cap, True)
    with e.each(flow) as (values, _):
        values = e.named(values)
        e.push(out, values, row(values))
    return out


# A task that is notified of times, in a kernel: one turn of the loop is one call of one of its two functions.
#
# Its events are ``(tick, time, event)``: an event and its time, or (``tick``) only the news that a time is complete.
# Of each key they come in the order of time.  The times that a key has asked for wait in a list, the first one in
# front.  In a turn it is notified of that one if it is due, which it is before the time of what came (of a tick: not
# after it), and then the same push takes another turn; otherwise the event is taken.  So any number of times may be
# delivered in a push, while a turn needs no more room than one call does.

NOT_AHEAD = 4  # codes of failure: a time was asked for that is over,
ENDLESS = 5  # or one after the other, without an event between


class Untimely(Exception):  # noqa: N818 - reads as what it is
    """A kernel stopped at a time: whether it asked on and on, in which function, what for and when."""

    def __init__(self, endless: bool, told: bool, asked: int, now: int, position: int) -> None:
        super().__init__(f"push {position:,}")
        self.endless, self.told, self.asked, self.now, self.position = endless, told, asked, now, position


class TimesWriter(QueueWriter):
    """Writes the code of the times that wait: in their order, each once."""

    def first(self, key: str | None) -> str:
        """The first of them, if there is one."""
        return f"{self.cells[0]}[{self.head.load(key)}]"

    def ask(self, time: str, key: str | None) -> None:
        """Add a time, if it is not there already.  Most are later than all that wait, so the end is tried first."""
        w, (cell,), link = self.e.w, self.cells, self.next
        before, at, new = w.fresh("c"), w.fresh("c"), w.fresh("c")
        w.line(f"{before} = -1; {at} = -1")
        with w.block(f"if {self.count.load(key)} > 0:"):
            with w.block(f"if {cell}[{self.tail.load(key)}] < {time}:"):
                w.line(f"{before} = {self.tail.load(key)}")
            with w.block("else:"):
                w.line(f"{at} = {self.head.load(key)}")
                with w.block(f"while {cell}[{at}] < {time}:"):
                    w.line(f"{before} = {at}; {at} = {link}[{at}]")
        with w.block(f"if {at} == -1 or {cell}[{at}] != {time}:"):
            with w.block(f"if {self.free} != -1:"):
                w.line(f"{new} = {self.free}; {self.free} = {link}[{new}]")
            with w.block("else:"):
                w.line(f"{new} = {self.bump}; {self.bump} += 1")
                if not self.fixed:
                    w.line(f"{link}.append(-1); {cell}.append(0)")
            w.line(f"{link}[{new}] = {at}; {cell}[{new}] = {time}; {self.live} += 1")
            with w.block(f"if {before} == -1:"):
                self.head.store(key, new)
            with w.block("else:"):
                w.line(f"{link}[{before}] = {new}")
            with w.block(f"if {at} == -1:"):
                self.tail.store(key, new)
            self.count.store(key, f"{self.count.load(key)} + 1")


def write_timers(e: Pen, node: Node, flow: Flow, out: Flow, store: Storage, cells: list[StateCell]) -> Flow:
    """The step that takes events and tells of times."""
    assert node.fn is not None and node.on_time is not None and not e.undo.is_on
    w, key = e.w, flow.key
    e.again = True
    most = max(len(fn.runs.times) if fn.runs is not None else 1 for fn in (node.fn, node.on_time))
    waiting = TimesWriter(e, store, f"{node.id}.0", (INT,), most)
    alone = store.word("alone", INT, 0)
    tick, time, *event = flow.values
    due, first = w.fresh("p"), w.fresh("v")
    w.line(f"again = False; {due} = False; {first} = 0")
    with w.block(f"if {waiting.length(key)} > 0:"):
        w.line(f"{first} = {waiting.first(key)}")
        w.line(f"{due} = {first} < {time} or ({tick} and {first} == {time})")
    with w.block(f"if {due}:"):
        w.line("again = True")
        waiting.take(key)
        with w.block(f"if {alone.load(key)} >= {MOST_ALONE}:"):
            _fail(e, ENDLESS, e.layout.site(node, node.on_time), first, first)
        alone.store(key, f"{alone.load(key)} + 1")
        _turn(e, node, node.on_time, [first], first, out, key, cells, waiting)
    with w.block(f"elif not {tick}:"):
        alone.store(key, "0")
        _turn(e, node, node.fn, event, time, out, key, cells, waiting)
    return out


def _turn(
    e: Pen,
    node: Node,
    fn: Function,
    args: Sequence[str],
    now: str,
    out: Flow,
    key: str | None,
    cells: list[StateCell],
    waiting: TimesWriter,
) -> None:
    """One call: the state, what it emits, and the times that it asks for."""
    w, width, size = e.w, len(cells), node.type.width - 1
    old = e.copied([c.load(key) for c in cells])
    if not e.written(fn):
        assert not e.numba
        e.opaque = True
        site = e.layout.site(node, fn)
        new, events, times = [w.fresh("t") for _ in cells], w.fresh("t"), w.fresh("t")
        w.line(f"{', '.join(new)}, {events}, {times} = opaque[{site}]({', '.join([*old, *args])})")
        for cell, value in zip(cells, new, strict=True):
            cell.store(key, value)
        row, asked = w.fresh("r"), w.fresh("r")
        with w.loop(f"for {row} in {events}:"):
            e.push(out, [now, *(f"{row}[{j}]" for j in range(size))], key)
        with w.loop(f"for {asked} in {times}:"):
            _ask(e, node, fn, asked, now, key, waiting, site)
        return
    assert fn.runs is not None
    results = e.named(e.call(node, fn, [*old, *args]))
    site = len(e.layout.sites) - 1
    for cell, value in zip(cells, results[:width], strict=True):
        cell.store(key, value)
    count, rest, slots = results[width], results[width + 1 :], len(fn.runs.slots)
    for s in range(slots):
        with w.block(f"if {count} > {s}:"):
            e.push(out, [now, *rest[s * size : (s + 1) * size]], key)
    many, wanted = rest[slots * size], rest[slots * size + 1 :]
    for s, asked in enumerate(wanted):
        with w.block(f"if {many} > {s}:"):
            _ask(e, node, fn, asked, now, key, waiting, site)


def _ask(
    e: Pen, node: Node, fn: Function, asked: str, now: str, key: str | None, waiting: TimesWriter, site: int
) -> None:
    """A time that is asked for: not before the present one, and if it is notified of that one now, after it."""
    over = "<=" if fn is node.on_time else "<"
    with e.w.block(f"if {asked} {over} {now}:"):
        _fail(e, NOT_AHEAD, site, asked, now)
    waiting.ask(asked, key)


def _fail(e: Pen, code: int, site: int, asked: str, now: str) -> None:
    e.w.line(f"code = {code}; site = {site}; ei[0] = {asked}; ei[1] = {now}")
    e.w.line("break")


def do_step(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    """A step as the table of processors defines it."""
    step = DefinedStep(e, node, [t for j in range(len(ins)) for t in leaf_types(e.type_at(node, j))], store)
    flow, cap = ins[0], caps[i]
    if node.queued:
        if not together(ins):
            return waiting(e, node, ins, caps, i, store, step.push)
        flow = e.same(flow, [v for f in ins for v in f.values])
    if flow.many is None and node.processor.puts == "each":
        with e.when(flow.present):
            ((_, results),) = step.at(flow.values, flow.key)
            results = e.named(results)
        return e.same(flow, results)
    if flow.many is None and node.processor.puts == "some":
        return gate(e, node, flow, cap, lambda values, key: step.at(values, key)[0])
    out = e.fresh_flow(node, cap, flow.key is not None)
    with e.each(flow) as (values, key):
        step.push(out, e.named(values), key)
    return out


class DefinedStep:
    """Writes what the table of processors says of a step: its cells are words of state, its function is called, and its
    updates and conditions become lines."""

    def __init__(self, e: Pen, node: Node, kinds: Sequence[Type], store: Storage) -> None:
        self.e, self.node, self.kinds = e, node, kinds
        self.means = meaning_of(node, "the kernel")
        self.cells = cells_of(node, kinds)
        self.words = [store.word(c.label, c.type, encode(c.type, c.start, e.w.strings)) for c in self.cells]
        self.names: list[str] = []

    def push(self, out: Flow, values: Sequence[str], key: str | None) -> None:
        """Put what the step emits for an event into a stream."""
        for when, leaves in self.at(values, key):
            with self.e.when(None if when == "True" else when):
                self.e.push(out, leaves, key)

    def at(self, values: Sequence[str], key: str | None) -> list[tuple[str, list[str]]]:
        """Write what the step does at an event; return what it emits: each where a condition holds, by its leaves."""
        self.names = []
        now = self.variables(self.e.copied([word.load(key) for word in self.words]), [c.type for c in self.cells])
        event = self.variables(values, self.kinds)
        made = self.means(self.node, now, event, self.call)
        emits = [(self.text(when), [self.text(leaf) for leaf in leaves]) for when, leaves in made.emits]
        for word, old, new in zip(self.words, now, made.after, strict=True):
            if new.op == "ite" and old in new.args[1:]:  # a guarded update
                guard, new = (n.not_(new.args[0]), new.args[2]) if new.args[1] is old else new.args[:2]
                with self.e.w.block(f"if {self.text(guard)}:"):
                    word.store(key, self.text(new))
            elif new is not old:
                word.store(key, self.text(new))
        return emits

    def variables(self, names: Sequence[str], kinds: Sequence[Type]) -> list[Expr]:
        first = len(self.names)
        self.names += names
        return [n.var(i, t) for i, t in enumerate(kinds, first)]

    def call(self, leaves: Sequence[Expr], when: Expr = TRUE) -> list[Expr]:
        fn = self.node.fn
        assert fn is not None and fn.result is not None and when is TRUE
        results = self.e.named(self.e.call(self.node, fn, [self.text(leaf) for leaf in leaves]))
        return self.variables(results, [r.type for r in fn.runs.roots()] if fn.runs else leaf_types(fn.result))

    def text(self, e: Expr) -> str:
        """An expression of a definition, which never fails: counts stay within their bounds."""
        if e.op == "var":
            return self.names[int(e.value)]
        if e.op == "const":
            return self.e.w.constant(e)
        args = [self.text(a) if a.op in ("var", "const") else f"({self.text(a)})" for a in e.args]
        return str(known(_TEXT, e.op, "a step in the kernel", "operation").format(*args))


_TEXT = {
    "add": "{} + {}", "sub": "{} - {}", "eq": "{} == {}", "lt": "{} < {}", "le": "{} <= {}", "not": "not {}",
    "and": "{} and {}", "or": "{} or {}", "ite": "{1} if {0} else {2}",
}  # fmt: skip


def gate(
    e: Pen, node: Node, flow: Flow, cap: int | None, keep: Callable[[list[str], str | None], tuple[str, list[str]]]
) -> Flow:
    """A step that lets some events through: whether it does, and the leaves of what it emits then."""
    if flow.many is None:
        there = e.w.fresh("p")
        if flow.present is not None:
            e.w.line(f"{there} = False")
        with e.when(flow.present):
            flag, leaves = keep(flow.values, flow.key)
            e.w.line(f"{there} = {flag}")
        return Flow(there, leaves, flow.key)
    out = e.fresh_flow(node, cap, flow.key is not None)
    with e.each(flow) as (values, key):
        flag, leaves = keep(e.named(values), key)
        with e.w.block(f"if {flag}:"):
            e.push(out, leaves, key)
    return out


def do_key_by(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None and store.region is not None
    (flow,) = ins
    region = e.layout.regions[store.region]
    region.new_keys += caps[i] or 1
    external = e.layout.external

    def row(values: Sequence[str], key: str | None) -> str:
        assert node.fn is not None
        leaves = e.named(e.call(node, node.fn, values))
        if external is not None:
            parent = key
            before = e.graph.nodes[node.inputs[0]].key
            if before is not None:  # keyed already: its row knows the row of the outer key
                r = e.layout.region(before)
                parent = f"K{r}[{key} * {len(e.layout.regions[r].keys)}]"
            leaves = [str(parent), *leaves]
        name = e.w.fresh("k")
        assert store.region is not None
        e.find(store.region, name, leaves)
        return name

    if flow.many is None:
        with e.when(flow.present):
            name = row(flow.values, flow.key)
        return Flow(flow.present, flow.values, name)
    out = e.fresh_flow(node, caps[i], True)
    with e.each(flow) as (values, key):
        values = e.named(values)
        e.push(out, values, row(values, key))
    return out


def do_forget(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    return write_forget(e, node, ins[0], caps[i], store)


def state_cells(e: Pen, node: Node, store: Storage) -> list[StateCell]:
    assert node.state is not None
    leaves = node.state.flatten(node.start)
    return [
        store.word(f"state{'.' + path if path else ''}", t, encode(t, leaf, e.w.strings))
        for (path, t), leaf in zip(node.state.leaves(), leaves, strict=True)
    ]


def do_lag(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    rings = [store.ring(f"ring{j}", t, node.earlier) for j, t in enumerate(leaf_types(e.type_at(node, 0)))]
    at, seen = store.word("at", INT, 0), store.word("seen", INT, 0)

    def take(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
        """Put the event in the place of the one k before it; whether there was one, and which."""
        place, count, flag = e.w.fresh("c"), e.w.fresh("c"), e.w.fresh("p")
        e.w.line(f"{place} = {at.load(key)}")
        before = e.copied([ring.load(e, key, place) for ring in rings])
        for ring, value in zip(rings, values, strict=True):
            ring.store(e, key, place, value)
        at.store(key, f"{place} + 1 if {place} + 1 < {node.k} else 0")
        e.w.line(f"{count} = {seen.load(key)}")
        e.w.line(f"{flag} = {count} >= {node.k}")
        with e.w.block(f"if not {flag}:"):
            seen.store(key, f"{count} + 1")
        return flag, [*values, *before]

    return gate(e, node, ins[0], caps[i], take)


def do_merge(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    if len(ins) == 1:
        return ins[0]
    out = e.fresh_flow(node, caps[i], ins[0].key is not None)
    for flow in ins:
        with e.each(flow) as (values, key):
            e.push(out, values, key)
    return out


def do_task(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None
    (flow,) = ins
    fn = node.fn
    if node.on_time is not None or not e.written(fn):
        out = e.fresh_flow(node, caps[i], flow.key is not None)
        cells = state_cells(e, node, store) if node.state is not None else [store.word("state", INT, node.start)]
        if node.on_time is not None:
            return write_timers(e, node, flow, out, store, cells)
        return opaque_task(e, node, fn, flow, out, cells)
    return do_step(e, node, ins, caps, i, store)


def opaque_task(e: Pen, node: Node, fn: Function, flow: Flow, out: Flow, cells: list[StateCell]) -> Flow:
    assert not e.numba
    e.opaque = True
    site = e.layout.site(node, fn)
    with e.each(flow) as (values, key):
        events = e.w.fresh("t")
        args = [*[c.load(key) for c in cells], *values]
        new = [e.w.fresh("t") for _ in cells]
        e.w.line(f"{', '.join(new)}, {events} = opaque[{site}]({', '.join(args)})")
        for cell, value in zip(cells, new, strict=True):
            cell.store(key, value)
        row = e.w.fresh("r")
        with e.w.loop(f"for {row} in {events}:"):
            e.push(out, [f"{row}[{j}]" for j in range(node.type.width)], key)
    return out


def do_explode(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None
    (flow,) = ins
    fn = node.fn
    out = e.fresh_flow(node, caps[i], flow.key is not None)
    with e.each(flow) as (values, key):
        values = e.named(values)
        head = values if node.beside else []
        if opens(node):
            assert isinstance(fn.result, ListType)
            (code,) = e.named(e.call(node, fn, values))
            with write_elements(e.w, Opened.of(fn.result, caps[node.inputs[0]]), code) as leaves:
                e.push(out, [*head, *leaves], key)
        elif e.written(fn):
            assert fn.runs is not None and fn.runs.event is not None
            count, *slots = e.named(e.call(node, fn, values))
            size = fn.runs.event.width
            for s in range(len(fn.runs.slots)):
                with e.w.block(f"if {count} > {s}:"):
                    e.push(out, [*head, *slots[s * size : (s + 1) * size]], key)
        else:
            e.opaque = True
            row = e.w.fresh("r")
            with e.w.loop(f"for {row} in opaque[{e.layout.site(node, fn)}]({', '.join(values)}):"):
                e.push(out, [*head, *(f"{row}[{j}]" for j in range(node.type.width - len(head)))], key)
    return out


def together(ins: list[Flow]) -> bool:
    """Whether all inputs bring exactly one event in exactly the same pushes, under the same key."""
    first = ins[0]
    return all(f.many is None and f.present == first.present and f.key == first.key for f in ins)


def waiting(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage, fire: Any) -> Flow:
    out = e.fresh_flow(node, caps[i], ins[0].key is not None)
    types = [leaf_types(e.type_at(node, j)) for j in range(len(ins))]
    queues = [QueueWriter(e, store, f"{node.id}.{j}", types[j], caps[node.inputs[j]]) for j in range(len(ins))]
    for j, flow in enumerate(ins):
        with e.each(flow) as (values, key):
            key = e.named([key])[0] if key else None
            queues[j].put(e.named(values), key)
            ready = " and ".join(q.length(key) + " > 0" for q in queues)
            # One event came, so at most one is due.
            with e.w.block(f"if {ready}:"):
                fire(out, [leaf for q in queues for leaf in q.take(key)], key)
    return out


def do_window(e: Emitter, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    return write_window(e, node, ins[0], caps[i], store)


#: What is written by hand: for speed, or because a definition of single events does not say it.
STEPS: dict[str, Callable[..., Flow]] = {
    "lag": do_lag, "window": do_window, "task": do_task, "merge": do_merge, "key_by": do_key_by, "forget": do_forget,
    "explode": do_explode,
}  # fmt: skip
