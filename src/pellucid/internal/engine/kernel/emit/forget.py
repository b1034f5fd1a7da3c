"""``key_by(f).forget(after=N)`` in a kernel: a row for each key that is held.

A row has the number of its key's last event in the whole stream.  An event whose key has no row, or one whose session
is over, gets a new row: the rows of keys that are given up are taken back by the host, between pushes
(`engine.state.EngineState.give_up`), because within one push an event of the old session may still be on its
way through the steps behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pellucid.internal.engine.kernel.emit.state import Storage
from pellucid.internal.engine.kernel.layout import NEVER
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.flows import Flow, Pen


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
