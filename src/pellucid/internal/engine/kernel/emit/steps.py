"""What each kind of step becomes in a kernel: one function for each, and the shapes that several of them have.

Steps that always fire together share one flag, and a step all of whose inputs share it needs no queue at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.internal.engine.kernel.emit.flows import Flow, Pen
from pellucid.internal.engine.kernel.emit.forget import write_forget
from pellucid.internal.engine.kernel.emit.lookups import write_elements
from pellucid.internal.engine.kernel.emit.state import QueueWriter, StateCell, Storage
from pellucid.internal.engine.kernel.emit.timers import write_timers
from pellucid.internal.engine.kernel.emit.window import write_window
from pellucid.internal.engine.kernel.layout import Opened, encode, leaf_types, opens
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import INT, ListType
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.loop import Emitter


def do_map(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None
    fn = node.fn
    return image(e, node, ins[0], caps[i], lambda values, key: e.call(node, fn, values))


def image(e: Pen, node: Node, flow: Flow, cap: int | None, of: Callable[[list[str], str | None], list[str]]) -> Flow:
    """A step that makes one event of each."""
    if flow.many is None:
        with e.when(flow.present):
            results = e.named(of(flow.values, flow.key))
        return e.same(flow, results)
    out = e.fresh_flow(node, cap, flow.key is not None)
    with e.each(flow) as (values, key):
        e.push(out, of(values, key), key)
    return out


def do_filter(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None
    fn = node.fn
    return gate(e, node, ins[0], caps[i], lambda values, key: (e.call(node, fn, values)[0], []))


def gate(
    e: Pen, node: Node, flow: Flow, cap: int | None, keep: Callable[[list[str], str | None], tuple[str, list[str]]]
) -> Flow:
    """A step that lets some events through: whether it does, and what it puts behind their leaves."""
    if flow.many is None:
        there = e.w.fresh("p")
        if flow.present is not None:
            e.w.line(f"{there} = False")
        with e.when(flow.present):
            flag, more = keep(flow.values, flow.key)
            e.w.line(f"{there} = {flag}")
        return Flow(there, [*flow.values, *more], flow.key)
    out = e.fresh_flow(node, cap, flow.key is not None)
    with e.each(flow) as (values, key):
        values = e.named(values)
        flag, more = keep(values, key)
        with e.w.block(f"if {flag}:"):
            e.push(out, [*values, *more], key)
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


def do_cumulate(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None and node.state is not None
    cells = state_cells(e, node, store)

    def advance(values: Sequence[str], key: str | None) -> list[str]:
        assert node.fn is not None
        old = e.copied([c.load(key) for c in cells])
        new = e.named(e.call(node, node.fn, [*old, *values]))
        for cell, value in zip(cells, new, strict=True):
            cell.store(key, value)
        return new

    return image(e, node, ins[0], caps[i], advance)


def state_cells(e: Pen, node: Node, store: Storage) -> list[StateCell]:
    assert node.state is not None
    leaves = node.state.flatten(node.start)
    return [
        store.word(f"state{'.' + path if path else ''}", t, encode(t, leaf, e.w.strings))
        for (path, t), leaf in zip(node.state.leaves(), leaves, strict=True)
    ]


def do_decimate(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    cell = store.word("count", INT, 0)

    def keep(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
        count, flag = e.w.fresh("c"), e.w.fresh("p")
        e.w.line(f"{count} = {cell.load(key)}")
        e.w.line(f"{flag} = {count} == 0")
        cell.store(key, f"{count} + 1 if {count} + 1 < {node.k} else 0")
        return flag, []

    return gate(e, node, ins[0], caps[i], keep)


def do_trim(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    cell = store.word("count", INT, 0)

    def keep(values: Sequence[str], key: str | None) -> tuple[str, list[str]]:
        count, flag = e.w.fresh("c"), e.w.fresh("p")
        e.w.line(f"{count} = {cell.load(key)}")
        e.w.line(f"{flag} = {count} >= {node.k}")
        with e.w.block(f"if not {flag}:"):
            cell.store(key, f"{count} + 1")
        return flag, []

    return gate(e, node, ins[0], caps[i], keep)


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
        return flag, before

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
    out = e.fresh_flow(node, caps[i], flow.key is not None)
    if node.on_time is not None:
        cells = state_cells(e, node, store) if node.state is not None else [store.word("state", INT, node.start)]
        return write_timers(e, node, flow, out, store, cells)
    if not e.written(fn):
        return opaque_task(e, node, fn, flow, out, store)
    assert fn.runs is not None
    cells = state_cells(e, node, store)
    width, size = len(cells), node.type.width
    with e.each(flow) as (values, key):
        old = e.copied([c.load(key) for c in cells])
        results = e.named(e.call(node, fn, [*old, *values]))
        for cell, value in zip(cells, results[:width], strict=True):
            cell.store(key, value)
        count, slots = results[width], results[width + 1 :]
        for s in range(len(fn.runs.slots)):
            with e.w.block(f"if {count} > {s}:"):
                e.push(out, slots[s * size : (s + 1) * size], key)
    return out


def opaque_task(e: Pen, node: Node, fn: Function, flow: Flow, out: Flow, store: Storage) -> Flow:
    assert not e.numba
    e.opaque = True
    site = e.layout.site(node, fn)
    cells = state_cells(e, node, store) if node.state is not None else [store.word("state", INT, node.start)]
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


def do_apply(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    assert node.fn is not None
    fn = node.fn

    def fire(values: list[list[str]], out: Flow, key: str | None) -> None:
        e.push(out, e.call(node, fn, [v for leaves in values for v in leaves]), key)

    if together(ins):
        with e.when(ins[0].present):
            results = e.named(e.call(node, fn, [v for f in ins for v in f.values]))
        return e.same(ins[0], results)
    return waiting(e, node, ins, caps, i, store, fire)


def do_filter_by(e: Pen, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    def fire(values: list[list[str]], out: Flow, key: str | None) -> None:
        with e.w.block(f"if {values[1][0]}:"):
            e.push(out, values[0], key)

    if together(ins):
        return gate(e, node, ins[0], 1, lambda values, key: (ins[1].values[0], []))
    return waiting(e, node, ins, caps, i, store, fire)


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
                fire([q.take(key) for q in queues], out, key)
    return out


def do_window(e: Emitter, node: Node, ins: list[Flow], caps: list[int | None], i: int, store: Storage) -> Flow:
    return write_window(e, node, ins[0], caps[i], store)


STEPS: dict[str, Callable[..., Flow]] = {
    "map": do_map, "filter": do_filter, "filter_by": do_filter_by, "apply": do_apply, "cumulate": do_cumulate,
    "decimate": do_decimate, "trim": do_trim, "lag": do_lag, "window": do_window, "task": do_task,
    "merge": do_merge, "key_by": do_key_by, "forget": do_forget, "explode": do_explode,
}  # fmt: skip
