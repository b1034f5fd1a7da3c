"""Two pipelines side by side: the same in every push, or the same sequence whatever the delay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import Room
from pellucid.check.system.variables import TRUE, Slot
from pellucid.errors import StepError, TypeMismatch, UsageError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT
from pellucid.internal.graph.build import assemble, instantiate, source
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import apply

# When two events are the same: NaN is itself, though Python finds it unequal to itself, and a zero is one whatever
# its
# sign.


def alike(a: Any, b: Any) -> bool:
    """Whether two events are the same.

    >>> alike(float("nan"), float("nan")), alike((1, 0.0), (1, -0.0)), alike(1.0, 2.0)
    (True, True, False)
    """
    if a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b):
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(alike(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return False


def alike_leaves(x: Expr, y: Expr) -> Expr:
    """The same of leaves, as an expression.

    >>> alike_leaves(n.var(0, FLOAT), n.var(0, FLOAT)).value
    True
    """
    if x is y:
        return n.TRUE
    equal = n.eq(x, y)
    if x.type != FLOAT or y.type != FLOAT:
        return equal
    return n.or_(equal, n.and_(n.not_(n.eq(x, x)), n.not_(n.eq(y, y))))


# Two pipelines side by side: step-wise and sequence equivalence, conservative approximation (Model Checking of
# Stream
# Processing Pipelines, 2021, section 4.1).
#
# Both get the same sources in one graph (Figure 4a); for sequence equivalence their outputs go into an equality step
# whose queues bridge the delay between them (Figure 4b).


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


def side_by_side(
    graph: Graph, domain: Domain, queue: int | Mapping[str, int] | Room, *, strict: bool = False
) -> System:
    """The system of a graph made by `beside`, in which the two fail each for itself."""
    return build_system(graph, domain, queue, strict=strict, sides={"a": ["a"], "b": ["b"]})


def fail_apart(system: System, a: str = "a", b: str = "b") -> Expr:
    """By now one of the two pipelines has failed, and the other has not; they overflow together, and then nothing is
    said."""
    if not system.failures:
        return n.FALSE
    return n.and_(n.not_(system.overflow), n.not_(n.eq(system.failures[a], system.failures[b])))


@n.values_only()
def differs(system: System, a: str = "a", b: str = "b") -> Expr:
    """In this step the two streams do not carry the same events, or only one of the pipelines has failed."""
    (many, left), (other, right) = _in_order(system.streams[a][1]), _in_order(system.streams[b][1])
    bad = n.not_(n.eq(many, other))
    for i in range(min(len(left), len(right))):
        same = TRUE
        for x, y in zip(left[i], right[i], strict=True):
            same = n.and_(same, alike_leaves(x, y))
        bad = n.or_(bad, n.and_(n.and_(n.lt(n.const(i), many), n.lt(n.const(i), other)), n.not_(same)))
    return n.or_(_unless_over(system, bad), fail_apart(system))


def _unless_over(system: System, bad: Expr) -> Expr:
    """A push that needs more room says nothing."""
    return n.and_(n.not_(system.overflow), bad) if system.failures else bad


@n.values_only()
def no_longer_implied(system: System, a: str = "a", b: str = "b") -> Expr:
    """In this step the two do not carry as many events, ``a`` says true in a place where ``b`` does not, or only one
    has failed."""
    if system.streams[a][0] != BOOL or system.streams[b][0] != BOOL:
        raise UsageError("implies compares pipelines that put out Booleans")
    (many, left), (other, right) = _in_order(system.streams[a][1]), _in_order(system.streams[b][1])
    bad = n.not_(n.eq(many, other))
    for i, ((x,), (y,)) in enumerate(zip(left, right, strict=False)):
        bad = n.or_(bad, n.and_(n.and_(n.lt(n.const(i), many), n.lt(n.const(i), other)), n.and_(x, n.not_(y))))
    return n.or_(_unless_over(system, bad), fail_apart(system))


def apart(graphs: Sequence[Graph], pushes: Sequence[dict[str, Any]], *, implied: bool = False) -> bool:
    """Whether two pipelines really come apart on these pushes, run on the interpreter: other outputs, or one fails
    alone.

    With ``implied`` the first may say false where the second says true.
    """
    runs = [Interpreter(g) for g in graphs]
    for push in pushes:
        seen: list[list[Any] | None] = []
        for g, run in zip(graphs, runs, strict=True):
            names = [graphs[0].nodes[i].id for i in graphs[0].sources]
            own = [g.nodes[i].id for i in g.sources]
            try:
                (out,) = run.push(
                    {mine: push[name] for mine, name in zip(own, names, strict=True) if name in push}
                ).values()
                seen.append(out)
            except StepError:
                seen.append(None)
        left, right = seen
        if left is None or right is None:
            return (left is None) != (right is None)
        if len(left) != len(right) or not all(alike(x, y) or (implied and y) for x, y in zip(left, right, strict=True)):
            return True
    return False
