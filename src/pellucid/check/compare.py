"""Two pipelines side by side: step-wise and sequence equivalence, conservative approximation (seed 001, section 4.1).

Both get the same sources in one graph (Figure 4a); for sequence equivalence their outputs go into an equality step whose
queues bridge the delay between them (Figure 4b).
"""

from __future__ import annotations

from typing import Any

from pellucid.check.slot import TRUE, Slot
from pellucid.check.system import System
from pellucid.errors import TypeMismatch, UsageError
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.types import BOOL
from pellucid.graph.build import assemble, instantiate, source
from pellucid.graph.model import Graph
from pellucid.graph.stream import apply

__all__ = ["beside", "differs", "no_longer_implied"]


def beside(a: Any, b: Any, *, joined: bool = False) -> Graph:
    """One graph with the outputs ``a`` and ``b`` of two pipelines over the same sources.

    With ``joined`` also ``same``: whether their i-th events are equal.
    """
    ins = [[(g.nodes[i].id, g.nodes[i].type) for i in g.sources] for g in (a.graph, b.graph)]
    if [t for _, t in ins[0]] != [t for _, t in ins[1]]:
        shown = ["(" + ", ".join(f"{name}: {t}" for name, t in side) + ")" for side in ins]
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: their sources are {shown[0]} and {shown[1]}")
    outs = [[g.nodes[i].type for _, i in g.outputs] for g in (a.graph, b.graph)]
    if outs[0] != outs[1] or len(outs[0]) != 1:
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: they put out {outs[0]} and {outs[1]}")
    sources = [source(name, t) for name, t in ins[0]]
    # The graphs as they were built: calling the functions again might see other closures.
    (left,), (right,) = (instantiate(p.graph, sources, ids=False).values() for p in (a, b))
    outputs = {"a": left, "b": right}
    if joined:
        outputs["same"] = apply(lambda u, v: u == v, left, right, id="same")
    return assemble(f"{a.name} and {b.name}", sources, outputs)


def _in_order(slots: tuple[Slot, ...]) -> tuple[Expr, list[tuple[Expr, ...]]]:
    """How many events a stream carries in the step, and the i-th of them."""
    if len(slots) == 1:
        return n.int_of_bool(slots[0].present), [slots[0].leaves]
    count: Expr = n.const(0)
    items: list[tuple[Expr, ...]] = [slots[-1].leaves for _ in slots]
    for s in slots:
        for i in range(len(items)):
            here = n.and_(s.present, n.eq(count, n.const(i)))
            items[i] = tuple(n.ite(here, x, y) for x, y in zip(s.leaves, items[i], strict=True))
        count = n.ite(s.present, n.add(count, n.const(1)), count)
    return count, items


@n.values_only()
def differs(system: System, a: str = "a", b: str = "b") -> Expr:
    """In this step the two streams do not carry the same events."""
    (many, left), (other, right) = _in_order(system.streams[a][1]), _in_order(system.streams[b][1])
    bad = n.not_(n.eq(many, other))
    for i in range(min(len(left), len(right))):
        same = TRUE
        for x, y in zip(left[i], right[i], strict=True):
            same = n.and_(same, n.eq(x, y))
        bad = n.or_(bad, n.and_(n.and_(n.lt(n.const(i), many), n.lt(n.const(i), other)), n.not_(same)))
    return bad


@n.values_only()
def no_longer_implied(system: System, a: str = "a", b: str = "b") -> Expr:
    """In this step the two do not carry as many events, or ``a`` says true in a place where ``b`` does not."""
    if system.streams[a][0] != BOOL or system.streams[b][0] != BOOL:
        raise UsageError("implies compares pipelines that put out Booleans")
    (many, left), (other, right) = _in_order(system.streams[a][1]), _in_order(system.streams[b][1])
    bad = n.not_(n.eq(many, other))
    for i, ((x,), (y,)) in enumerate(zip(left, right, strict=False)):
        bad = n.or_(bad, n.and_(n.and_(n.lt(n.const(i), many), n.lt(n.const(i), other)), n.and_(x, n.not_(y))))
    return bad
