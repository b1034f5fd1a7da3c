"""The kernel: a whole pipeline as the text of one fused loop.

One turn of the loop is one push.  The steps stand in the order of the graph; a stream that carries at
most one event per push is a few local variables and a flag, and one that can carry several is a small
buffer.  Steps that always fire together share one flag, and a step all of whose inputs share it needs
no queue at all.

The text comes in two dialects (see `pellucid.expr.codegen`): compiled by Numba, or run by CPython
for small inputs and for functions that could not be traced.  Both keep state in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pellucid.engine.kernel.emit_forget import write_forget
from pellucid.engine.kernel.emit_lookups import lookers, write_elements
from pellucid.engine.kernel.emit_state import QueueWriter, StateCell, Storage, array_of, finders
from pellucid.engine.kernel.emit_window import write_window
from pellucid.engine.kernel.layout import KernelLayout, Opened, capacity, dense, encode, is_float, leaf_types, opens
from pellucid.engine.kernel.undo import CALL_RAISED, UndoLog
from pellucid.errors import known
from pellucid.expr.codegen import CodeWriter, TooDeep
from pellucid.expr.function import Function
from pellucid.expr.types import BOOL, INT, ListType, Type
from pellucid.graph.model import Graph, Node

GROW_REGION = 10  # codes above the failures: the host makes room and comes back
GROW_QUEUE = 11
GROW_LOOKUP = 12
#: Whether a push is timed: one of 32, and not always the same of those, as steps may have a rhythm of their own.
SAMPLED = "((i * 2654435769) >> 27) & 31 == 0"


@dataclass(frozen=True)
class Kernel:
    """The text of a kernel and what the host must know to call it."""

    source: str
    layout: KernelLayout
    numba: bool
    positions: bool
    params: tuple[str, ...]  # names of the arguments, in order
    capacity: tuple[int | None, ...]  # of each output: events per push
    masked: bool  # sources may be silent in a push
    timed: bool = False  # it tells how long its steps take
    undo: bool = False  # a push that fails can be undone: it leaves a log of what it changed
    logged: tuple[str, ...] = ()  # the arrays that the log of a compiled kernel speaks of, by their numbers
    log_room: int = 0  # how many entries one push may have there
    longest: int = 0  # how many elements of a list it is made for


@dataclass
class _Flow:
    """A stream inside the loop."""

    present: str | None  # a flag; None: in every push; for a buffer unused
    values: list[str]  # local variables, or buffers
    key: str | None  # the variable (buffer) with the row number
    many: str | None = None  # the variable that counts events, if it is a buffer


def emit(
    graph: Graph,
    *,
    numba: bool,
    external: Type | None = None,
    positions: bool = False,
    timed: bool = False,
    undo: bool = False,
    longest: int | None = None,
) -> Kernel:
    """Write the kernel of a graph.  ``external`` is the type of a key column that comes with the data; a ``timed`` one
    looks at the clock behind each step, in some of the pushes; with ``undo`` it notes what a push changes, so that the
    host can take a push back that failed half-way.  ``longest`` is how many elements a list in the data has at most:
    the compiled form needs to know that."""
    return Emitter(graph, numba, external, positions, timed, undo, longest).run()


class Emitter:
    def __init__(
        self,
        graph: Graph,
        numba: bool,
        external: Type | None,
        positions: bool,
        timed: bool,
        undo: bool,
        longest: int | None,
    ) -> None:
        self.graph, self.numba, self.positions, self.timed, self.longest = graph, numba, positions, timed, longest
        self.layout = KernelLayout(graph, external)
        self.w = CodeWriter(numba)
        self.undo = UndoLog(undo, self.w)
        self.locals_: list[tuple[str, int, int, Type]] = []  # words kept in local variables
        self.resets: list[tuple[str, str]] = []  # words of a window's inner run
        self.scratch: list[tuple[str, Type, int]] = []
        self.inner: list[Graph] = []  # the sub-pipelines of the windows being written
        self.windows: list[int] = []  # and their sizes
        self.opaque = False

    # ------------------------------------------------------------ the whole

    def run(self) -> Kernel:
        g, w = self.graph, self.w
        external = self.layout.external
        root = self.layout.region(None)
        masked = len(g.sources) > 1 or self.undo.is_on  # a row that could not be read is no event
        caps: list[int | None] = [1] * len(g.nodes)
        w.depth = 3 if self.undo.catches else 2
        flows: dict[int, _Flow] = {}
        params = ["n", "i", "M", "ei", "ef"]
        if self.timed:
            params += ["T", "C"]
            w.line(f"tick = {SAMPLED}")
            w.line("if tick: last = _clock()")
        for s, at in enumerate(g.sources):
            node = g.nodes[at]
            flow = _Flow(f"has{s}" if masked else None, [f"x{s}_{j}" for j in range(node.type.width)], None)
            columns = [f"in{s}_{j}" for j in range(node.type.width)]
            params += columns
            if masked:
                params.append(f"mask{s}")
                w.line(f"has{s} = mask{s}[i]")
            with self.when(flow.present):
                for name, column in zip(flow.values, columns, strict=True):
                    w.line(f"{name} = {column}[i]")
                if external is not None:
                    keys = [f"key{s}_{j}" for j in range(external.width)]
                    params += keys
                    flow.key = f"row{s}"  # no fresh name begins like this
                    self.find(root, flow.key, [f"{k}[i]" for k in keys])
            self.layout.regions[root].new_keys += external is not None
            flows[at] = flow
            self.clock(at, flow)
        self.nodes(g, caps, flows, root_of=self.layout.region)
        for o, (_, at) in enumerate(g.outputs):
            self.output(o, g.nodes[at], flows[at])
        if self.timed:
            self.clock(len(g.nodes), None)
            self.clock(len(g.nodes) + 1, None)  # nothing in between: what looking at the clock costs
        w.line("i += 1")
        body = w.lines
        self.layout.lookups = list(w.lookups.items())
        source = self.assemble(body, params)
        self.layout.strings = list(w.strings)
        return Kernel(
            source,
            self.layout,
            self.numba,
            self.positions,
            tuple(params),
            tuple(caps[at] for _, at in g.outputs),
            masked,
            self.timed,
            self.undo.is_on,
            tuple(self.undo.arrays),
            self.undo.room(caps),
            self.longest or 0,
        )

    def clock(self, at: int, flow: _Flow | None) -> None:
        """Behind a step: count its events, and, in a push that is timed, note how long it took."""
        if not self.timed:
            return
        if flow is not None:
            with self.when(flow.present):
                self.w.line(f"C[{at}] += {flow.many or 1}")
        self.w.line(f"if tick: now = _clock(); T[{at}] += now - last; last = now")

    def assemble(self, body: list[str], params: list[str]) -> str:
        g, layout = self.graph, self.layout
        head: list[str] = []
        tail: list[str] = []
        checks: list[str] = []
        kept: list[str] = []  # what is in local variables, and changes in a push
        m = 4  # M: 0 position, 1 code, 2 site, 3 unused; then regions, outputs, queues
        for r, region in enumerate(layout.regions):
            params += [f"SI{r}", f"SF{r}"]
            if region.keys:
                params += [f"TI{r}", f"K{r}", f"H{r}"]
                params += [f"D{r}"] if self.numba and dense(region) else []
                if self.numba:
                    head.append(f"room{r} = K{r}.size // {len(region.keys)} - M[{m + r}]")
                    checks.append(f"if _rare(room{r} < {region.new_keys}): code = {GROW_REGION}; site = {r}; break")
                elif region.forgets:  # the host looks which keys are given up
                    params.append(f"R{r}")
                    checks.append(f"if M[{m + r}] > R{r}: code = {GROW_REGION}; site = {r}; break")
        for name, r, at, t in self.locals_:
            array = array_of(r, t)
            head.append(f"{name} = ({array}[{at}] != 0)" if t == BOOL else f"{name} = {array}[{at}]")
            tail.append(f"{array}[{at}] = int({name})" if t == BOOL else f"{array}[{at}] = {name}")
            kept.append(name)
        m += len(layout.regions)
        for o, (_, at) in enumerate(g.outputs):
            params += [f"O{o}_{j}" for j in range(g.nodes[at].type.width)]
            params += [f"P{o}"] if self.positions else []
            params += [f"G{o}"] if self.positions and self.keyed(g.nodes[at]) else []
            head.append(f"no{o} = M[{m + o}]")
            tail.append(f"M[{m + o}] = no{o}")
        m += len(g.outputs)
        for q, queue in enumerate(layout.queues):
            params += [f"Q{q}n", *[f"Q{q}_{j}" for j in range(len(queue.leaves))]]
            at = m + 3 * q
            head.append(f"qf{q} = M[{at}]; qb{q} = M[{at + 1}]; ql{q} = M[{at + 2}]")
            tail.append(f"M[{at}] = qf{q}; M[{at + 1}] = qb{q}; M[{at + 2}] = ql{q}")
            kept += [f"qf{q}", f"qb{q}", f"ql{q}"]
            if self.numba:
                checks.append(f"if _rare(ql{q} + {queue.burst} > Q{q}n.size): code = {GROW_QUEUE}; site = {q}; break")
        for name, t, size in self.scratch:
            if self.numba:
                head.append(f"{name} = np.zeros({size}, np.{'float64' if is_float(t) else 'int64'})")
            else:
                head.append(f"{name} = [0] * {size}")
        params += ["opaque"] if self.opaque else []
        if layout.lookups and self.numba:
            params += ["LA", "LF", "LP", "LR"]
            checks += [
                f"if _rare(LR[{at}] <= 0): code = {GROW_LOOKUP}; site = {at}; break"
                for at in range(len(layout.lookups))
            ]
        for at in range(len(layout.lookups)):
            params += [f"LS{at}", f"LV{at}", f"LK{at}"] if self.numba else [f"L{at}"]
            f = layout.lookups[at][0]
            if self.numba and isinstance(f, Opened):
                params += [f"LN{at}", *(f"LX{at}_{j}" for j in range(len(f.list.kinds)))]
        begin, undone = self.undo.around(kept, params)
        head += begin  # so that they have a type, whatever happens
        lines = [
            finders(self.layout, self.numba),
            lookers(self.layout, self.numba),
            f"def kernel({', '.join(params)}):",
            "    code = 0; site = 0",
            *(["    last = 0; now = 0"] if self.timed else []),
        ]
        lines += ["    " + text for text in head]
        lines += ["    while i < n:"]
        lines += ["        " + text for text in checks]
        lines += ["        M[0] = i"] if self.opaque else []
        lines += ["        " + text for text in begin]
        lines += (
            ["        try:", *body, f"        except _StepError: code = {CALL_RAISED}; break"]
            if self.undo.catches
            else body
        )
        lines += ["    " + text for text in [*undone, *tail]]
        lines += ["    M[0] = i; M[1] = code; M[2] = site"]
        text = "\n".join(lines) + "\n"
        for r, region in enumerate(layout.regions):
            text = text.replace(f"{{W{r}}}", str(region.width))
        return text

    def keyed(self, node: Node) -> bool:
        if self.graph.forgotten_by[self.graph.position[node.id]] is not None:
            return False  # the row of a key that is given up becomes that of another
        return node.key is not None or self.layout.external is not None

    # ------------------------------------------------------------ helpers for emission

    @contextmanager
    def when(self, flag: str | None) -> Iterator[None]:
        if flag is None:
            yield
        else:
            with self.w.block(f"if {flag}:"):
                yield

    def literal(self, t: Type, start: Any) -> str:
        if t == BOOL:
            return str(bool(start))
        if is_float(t):
            return (
                f"float('{start}')" if start != start or start in (float("inf"), float("-inf")) else repr(float(start))
            )
        return f"({start})" if start != -(2**63) else "_MIN"

    def object(self, start: Any) -> str:
        """A fresh copy of a state that is any Python object, from the host."""
        self.opaque = True
        self.layout.objects.append(start)
        return f"opaque[-{len(self.layout.objects)}]()"

    def find(self, r: int, name: str, keys: Sequence[str]) -> None:
        w = self.w
        if not self.numba:
            w.line(f"{name} = find{r}(H{r}, K{r}, SI{r}, TI{r}, M, {', '.join(f'int({k})' for k in keys)})")
            return
        leaves = self.copied([f"int({k})" for k in keys])

        def search() -> None:
            w.line(f"{name} = find{r}(H{r}, K{r}, {', '.join(leaves)})")
            with w.block(f"if _rare({name} < 0):"):
                w.line(f"{name} = make{r}(H{r}, K{r}, SI{r}, TI{r}, M, {', '.join(leaves)}); room{r} -= 1")

        if dense(self.layout.regions[r]):
            w.line(f"{name} = {leaves[0]}")
            with w.block(f"if _rare(not 0 <= {name} < D{r}):"):
                search()
        else:
            search()

    @contextmanager
    def each(self, flow: _Flow) -> Iterator[tuple[list[str], str | None]]:
        """Visit every event of a stream: yields its leaves and its row number."""
        if flow.many is None:
            with self.when(flow.present):
                yield flow.values, flow.key
            return
        j = self.w.fresh("j")
        with self.w.loop(f"for {j} in range({flow.many}):"):
            yield [f"{v}[{j}]" for v in flow.values], f"{flow.key}[{j}]" if flow.key else None

    def fresh_flow(self, node: Node, cap: int | None, keyed: bool) -> _Flow:
        """An empty output stream; `push` adds events to it."""
        w = self.w
        name = w.fresh("y")
        values = [f"{name}_{j}" for j in range(node.type.width)]
        key = f"{name}_k" if keyed else None
        if cap == 1:
            w.line(f"{name}_p = False")
            return _Flow(f"{name}_p", values, key)
        w.line(f"{name}_c = 0")
        if self.numba:
            kinds = leaf_types(node.type)
            for value, t in zip(values, kinds, strict=True):
                self.scratch.append((value, t, cap or 1))
            if key:
                self.scratch.append((key, INT, cap or 1))
        else:
            for value in [*values, *([key] if key else [])]:
                w.line(f"{value} = []")
        return _Flow(None, values, key, f"{name}_c")

    def push(self, flow: _Flow, values: Sequence[str], key: str | None) -> None:
        w = self.w
        pairs = list(zip(flow.values, values, strict=True)) + ([(flow.key, key)] if flow.key and key else [])
        if flow.many is None:
            for name, value in pairs:
                if name != value:
                    w.line(f"{name} = {value}")
            w.line(f"{flow.present} = True")
            return
        for name, value in pairs:
            w.line(f"{name}[{flow.many}] = {value}" if self.numba else f"{name}.append({value})")
        w.line(f"{flow.many} += 1")

    def named(self, values: Sequence[str]) -> list[str]:
        """Values as plain names, so that they are computed once."""
        out = []
        for value in values:
            if value.isidentifier():
                out.append(value)
            else:
                name = self.w.fresh("v")
                self.w.line(f"{name} = {value}")
                out.append(name)
        return out

    def copied(self, values: Sequence[str]) -> list[str]:
        """Values in names of their own: a word of state may change before its old value is used."""
        out = []
        for value in values:
            name = self.w.fresh("v")
            self.w.line(f"{name} = {value}")
            out.append(name)
        return out

    def call(self, node: Node, fn: Function, leaves: Sequence[str]) -> list[str]:
        """Apply a function to an event's leaves; return the leaves of its result."""
        site = self.layout.site(node, fn)
        leaves = self.named(leaves)
        if fn.runs is not None:
            roots = fn.runs.roots()
            mark = len(self.w.lines), self.w.depth
            try:
                kinds = [t for p in fn.params for t in leaf_types(p)]
                return self.w.function(roots, leaves, kinds, site)
            except TooDeep:
                if self.numba:
                    raise
                del self.w.lines[mark[0] :]
                self.w.depth = mark[1]
        assert not self.numba
        self.opaque = True
        assert fn.result is not None
        names = [self.w.fresh("t") for _ in range(fn.result.width)]
        self.w.line(f"{', '.join(names)}, = opaque[{site}]({', '.join(leaves)})")
        return names

    # ------------------------------------------------------------ the steps

    def nodes(self, g: Graph, caps: list[int | None], flows: dict[int, _Flow], root_of: Any) -> None:
        for i, node in enumerate(g.nodes):
            if node.kind == "source":
                continue
            forgets = g.forgotten_by[i]
            region = None
            if root_of is not None:
                region = root_of(node.key, None if forgets is None else g.nodes[forgets])
            store = Storage(self, node, region)
            ins = [flows[j] for j in node.inputs]
            keyed = node.key is not None or (root_of is not None and self.layout.external is not None)
            caps[i] = capacity(node, [caps[j] for j in node.inputs], keyed, self.longest)
            flows[i] = known(self.STEPS, node.kind, "the kernel")(self, node, ins, caps, i, store)
            if flows[i].many is None:
                caps[i] = 1
            if g is self.graph:  # not the steps inside a window: they are part of its time
                self.clock(i, flows[i])

    def same(self, flow: _Flow, values: list[str]) -> _Flow:
        return _Flow(flow.present, values, flow.key)

    def do_map(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None
        fn = node.fn
        return self.image(node, ins[0], caps[i], lambda values, key: self.call(node, fn, values))

    def image(
        self, node: Node, flow: _Flow, cap: int | None, of: Callable[[list[str], str | None], list[str]]
    ) -> _Flow:
        """A step that makes one event of each."""
        if flow.many is None:
            with self.when(flow.present):
                results = self.named(of(flow.values, flow.key))
            return self.same(flow, results)
        out = self.fresh_flow(node, cap, flow.key is not None)
        with self.each(flow) as (values, key):
            self.push(out, of(values, key), key)
        return out

    def do_filter(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None
        fn = node.fn
        return self.gate(node, ins[0], caps[i], lambda values, key: (self.call(node, fn, values)[0], []))

    def do_key_by(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None and store.region is not None
        (flow,) = ins
        region = self.layout.regions[store.region]
        region.new_keys += caps[i] or 1
        external = self.layout.external

        def row(values: Sequence[str], key: str | None) -> str:
            assert node.fn is not None
            leaves = self.named(self.call(node, node.fn, values))
            if external is not None:
                parent = key
                before = self.graph.nodes[node.inputs[0]].key
                if before is not None:  # keyed already: its row knows the row of the outer key
                    r = self.layout.region(before)
                    parent = f"K{r}[{key} * {len(self.layout.regions[r].keys)}]"
                leaves = [str(parent), *leaves]
            name = self.w.fresh("k")
            assert store.region is not None
            self.find(store.region, name, leaves)
            return name

        if flow.many is None:
            with self.when(flow.present):
                name = row(flow.values, flow.key)
            return _Flow(flow.present, flow.values, name)
        out = self.fresh_flow(node, caps[i], True)
        with self.each(flow) as (values, key):
            values = self.named(values)
            self.push(out, values, row(values, key))
        return out

    def do_forget(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        return write_forget(self, node, ins[0], caps[i], store)

    def do_cumulate(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None and node.state is not None
        cells = self.state_cells(node, store)

        def advance(values: Sequence[str], key: str | None) -> list[str]:
            assert node.fn is not None
            old = self.copied([c.load(key) for c in cells])
            new = self.named(self.call(node, node.fn, [*old, *values]))
            for cell, value in zip(cells, new, strict=True):
                cell.store(key, value)
            return new

        return self.image(node, ins[0], caps[i], advance)

    def state_cells(self, node: Node, store: Storage) -> list[StateCell]:
        assert node.state is not None
        leaves = node.state.flatten(node.start)
        return [
            store.word(f"state{'.' + path if path else ''}", t, encode(t, leaf, self.w.strings))
            for (path, t), leaf in zip(node.state.leaves(), leaves, strict=True)
        ]

    def do_decimate(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        cell = store.word("count", INT, 0)

        def keep(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
            count, flag = self.w.fresh("c"), self.w.fresh("p")
            self.w.line(f"{count} = {cell.load(key)}")
            self.w.line(f"{flag} = {count} == 0")
            cell.store(key, f"{count} + 1 if {count} + 1 < {node.k} else 0")
            return flag, []

        return self.gate(node, ins[0], caps[i], keep)

    def do_trim(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        cell = store.word("count", INT, 0)

        def keep(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
            count, flag = self.w.fresh("c"), self.w.fresh("p")
            self.w.line(f"{count} = {cell.load(key)}")
            self.w.line(f"{flag} = {count} >= {node.k}")
            with self.w.block(f"if not {flag}:"):
                cell.store(key, f"{count} + 1")
            return flag, []

        return self.gate(node, ins[0], caps[i], keep)

    def do_lag(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        rings = [store.ring(f"ring{j}", t, node.earlier) for j, t in enumerate(leaf_types(self.type_at(node, 0)))]
        at, seen = store.word("at", INT, 0), store.word("seen", INT, 0)

        def take(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
            """Put the event in the place of the one k before it; whether there was one, and which."""
            place, count, flag = self.w.fresh("c"), self.w.fresh("c"), self.w.fresh("p")
            self.w.line(f"{place} = {at.load(key)}")
            before = self.copied([ring.load(self, key, place) for ring in rings])
            for ring, value in zip(rings, values, strict=True):
                ring.store(self, key, place, value)
            at.store(key, f"{place} + 1 if {place} + 1 < {node.k} else 0")
            self.w.line(f"{count} = {seen.load(key)}")
            self.w.line(f"{flag} = {count} >= {node.k}")
            with self.w.block(f"if not {flag}:"):
                seen.store(key, f"{count} + 1")
            return flag, before

        return self.gate(node, ins[0], caps[i], take)

    def gate(
        self, node: Node, flow: _Flow, cap: int | None, keep: Callable[[list[str], str | None], tuple[str, list[str]]]
    ) -> _Flow:
        """A step that lets some events through: whether it does, and what it puts behind their leaves."""
        if flow.many is None:
            there = self.w.fresh("p")
            if flow.present is not None:
                self.w.line(f"{there} = False")
            with self.when(flow.present):
                flag, more = keep(flow.values, flow.key)
                self.w.line(f"{there} = {flag}")
            return _Flow(there, [*flow.values, *more], flow.key)
        out = self.fresh_flow(node, cap, flow.key is not None)
        with self.each(flow) as (values, key):
            values = self.named(values)
            flag, more = keep(values, key)
            with self.w.block(f"if {flag}:"):
                self.push(out, [*values, *more], key)
        return out

    def do_merge(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        if len(ins) == 1:
            return ins[0]
        out = self.fresh_flow(node, caps[i], ins[0].key is not None)
        for flow in ins:
            with self.each(flow) as (values, key):
                self.push(out, values, key)
        return out

    def do_task(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None
        (flow,) = ins
        fn = node.fn
        out = self.fresh_flow(node, caps[i], flow.key is not None)
        if fn.runs is None:
            return self.opaque_task(node, fn, flow, out, store)
        cells = self.state_cells(node, store)
        width, size = len(cells), node.type.width
        with self.each(flow) as (values, key):
            old = self.copied([c.load(key) for c in cells])
            results = self.named(self.call(node, fn, [*old, *values]))
            for cell, value in zip(cells, results[:width], strict=True):
                cell.store(key, value)
            count, slots = results[width], results[width + 1 :]
            for s in range(len(fn.runs.slots)):
                with self.w.block(f"if {count} > {s}:"):
                    self.push(out, slots[s * size : (s + 1) * size], key)
        return out

    def opaque_task(self, node: Node, fn: Function, flow: _Flow, out: _Flow, store: Storage) -> _Flow:
        assert not self.numba
        self.opaque = True
        site = self.layout.site(node, fn)
        cells = self.state_cells(node, store) if node.state is not None else [store.word("state", INT, node.start)]
        with self.each(flow) as (values, key):
            events = self.w.fresh("t")
            args = [*[c.load(key) for c in cells], *values]
            new = [self.w.fresh("t") for _ in cells]
            self.w.line(f"{', '.join(new)}, {events} = opaque[{site}]({', '.join(args)})")
            for cell, value in zip(cells, new, strict=True):
                cell.store(key, value)
            row = self.w.fresh("r")
            with self.w.loop(f"for {row} in {events}:"):
                self.push(out, [f"{row}[{j}]" for j in range(node.type.width)], key)
        return out

    def do_explode(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None
        (flow,) = ins
        fn = node.fn
        out = self.fresh_flow(node, caps[i], flow.key is not None)
        with self.each(flow) as (values, key):
            values = self.named(values)
            head = values if node.beside else []
            results = self.named(self.call(node, fn, values))
            if opens(node):
                assert isinstance(fn.result, ListType)
                with write_elements(self.w, Opened.of(fn.result, caps[node.inputs[0]]), results[0]) as leaves:
                    self.push(out, [*head, *leaves], key)
            else:
                assert fn.runs is not None and fn.runs.event is not None
                count, slots, size = results[0], results[1:], fn.runs.event.width
                for s in range(len(fn.runs.slots)):
                    with self.w.block(f"if {count} > {s}:"):
                        self.push(out, [*head, *slots[s * size : (s + 1) * size]], key)
        return out

    # ------------------------------------------------------------ steps that wait

    def do_apply(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        assert node.fn is not None
        fn = node.fn

        def fire(values: list[list[str]], out: _Flow, key: str | None) -> None:
            self.push(out, self.call(node, fn, [v for leaves in values for v in leaves]), key)

        if self.together(ins):
            with self.when(ins[0].present):
                results = self.named(self.call(node, fn, [v for f in ins for v in f.values]))
            return self.same(ins[0], results)
        return self.waiting(node, ins, caps, i, store, fire)

    def do_filter_by(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        def fire(values: list[list[str]], out: _Flow, key: str | None) -> None:
            with self.w.block(f"if {values[1][0]}:"):
                self.push(out, values[0], key)

        if self.together(ins):
            return self.gate(node, ins[0], 1, lambda values, key: (ins[1].values[0], []))
        return self.waiting(node, ins, caps, i, store, fire)

    def together(self, ins: list[_Flow]) -> bool:
        """Whether all inputs bring exactly one event in exactly the same pushes, under the same key."""
        first = ins[0]
        return all(f.many is None and f.present == first.present and f.key == first.key for f in ins)

    def waiting(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage, fire: Any) -> _Flow:
        out = self.fresh_flow(node, caps[i], ins[0].key is not None)
        types = [leaf_types(self.type_at(node, j)) for j in range(len(ins))]
        queues = [QueueWriter(self, store, f"{node.id}.{j}", types[j], caps[node.inputs[j]]) for j in range(len(ins))]
        for j, flow in enumerate(ins):
            with self.each(flow) as (values, key):
                key = self.named([key])[0] if key else None
                queues[j].put(self.named(values), key)
                ready = " and ".join(q.length(key) + " > 0" for q in queues)
                # One event came, so at most one is due.
                with self.w.block(f"if {ready}:"):
                    fire([q.take(key) for q in queues], out, key)
        return out

    def type_at(self, node: Node, j: int) -> Type:
        return self.current.nodes[node.inputs[j]].type

    @property
    def current(self) -> Graph:
        """The graph whose steps are being written: the innermost window's."""
        return self.inner[-1] if self.inner else self.graph

    def window_size(self) -> int:
        """How many events one run of the innermost sub-pipeline gets."""
        return self.windows[-1]

    @staticmethod
    def flow(present: str | None, values: list[str], key: str | None) -> _Flow:
        """A stream that is there already."""
        return _Flow(present, values, key)

    def do_window(self, node: Node, ins: list[_Flow], caps: list[int | None], i: int, store: Storage) -> _Flow:
        return write_window(self, node, ins[0], caps[i], store)

    STEPS: ClassVar[dict[str, Callable[..., _Flow]]] = {
        "map": do_map, "filter": do_filter, "filter_by": do_filter_by, "apply": do_apply, "cumulate": do_cumulate,
        "decimate": do_decimate, "trim": do_trim, "lag": do_lag, "window": do_window, "task": do_task,
        "merge": do_merge, "key_by": do_key_by, "forget": do_forget, "explode": do_explode,
    }  # fmt: skip

    # ------------------------------------------------------------ outputs

    def output(self, o: int, node: Node, flow: _Flow) -> None:
        with self.each(flow) as (values, key):
            for j, value in enumerate(values):
                self.w.line(f"O{o}_{j}[no{o}] = {value}" if self.numba else f"O{o}_{j}.append({value})")
            if self.positions:
                self.w.line(f"P{o}[no{o}] = i" if self.numba else f"P{o}.append(i)")
                if self.keyed(node):
                    self.w.line(f"G{o}[no{o}] = {key}" if self.numba else f"G{o}.append({key})")
            self.w.line(f"no{o} += 1")
