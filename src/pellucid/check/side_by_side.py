"""Two pipelines side by side: the same in every push, or the same sequence whatever the delay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import Room
from pellucid.check.system.variables import Slot
from pellucid.errors import StepError, TypeMismatch, UsageError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT, EnumType, OptionalType, RecordType, TupleType, Type
from pellucid.internal.graph.build import assemble, instantiate, source
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import apply

# A pipeline beside one whose records are declared elsewhere.
#
# Of two versions of a job, in two files, each has its own ``class Flight``: two classes to Python, one class to a user
# who compares the versions. Where they are alike (the same name, fields and types; of enums the same members), the
# second pipeline is asked over the first one's: its sources make its own records of them, its outputs the first one's
# again. Of two versions one may also emit None, and the other never does.


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A pipeline over another one's records."""

    name: str
    graph: Graph


def same_shape(a: Type, b: Type) -> bool:
    """Whether two types are written the same, wherever they are.

    >>> from pellucid.internal.expr.types import type_of
    >>> one, other = (type_of(dataclasses.make_dataclass("P", [("x", int)], frozen=True)) for _ in range(2))
    >>> one == other, same_shape(one, other)
    (False, True)
    """
    if isinstance(a, EnumType) and isinstance(b, EnumType):
        return a.cls.__name__ == b.cls.__name__ and [(m.name, m.value) for m in a.members] == [
            (m.name, m.value) for m in b.members
        ]
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return same_shape(a.inner, b.inner)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.items) == len(b.items) and all(map(same_shape, a.items, b.items))
    if isinstance(a, RecordType) and isinstance(b, RecordType):
        return (
            a.cls.__name__ == b.cls.__name__
            and [name for name, _ in a.fields] == [name for name, _ in b.fields]
            and all(same_shape(s, t) for (_, s), (_, t) in zip(a.fields, b.fields, strict=True))
        )
    return a == b


def fitted(a: Any, b: Any) -> Any:
    """The second pipeline, over the records of the first if its own are alike; else as it is."""
    mine, theirs = ([p.graph.nodes[i].type for i in p.graph.sources] for p in (a, b))
    outs = [[p.graph.nodes[i].type for _, i in p.graph.outputs] for p in (a, b)]
    if (mine, outs[0]) == (theirs, outs[1]) or (len(mine), len(outs[0])) != (len(theirs), len(outs[1])):
        return b
    if not all(map(same_shape, [*mine, *outs[0]], [*theirs, *outs[1]])):
        return b
    names = [b.graph.nodes[i].id for i in b.graph.sources]
    sources = [source(name, t) for name, t in zip(names, mine, strict=True)]
    own = [s if u == v else s.map(_other(u, v)) for s, u, v in zip(sources, mine, theirs, strict=True)]
    made = instantiate(b.graph, own)
    outputs = {
        name: s if u == v else s.map(_other(v, u))
        for (name, s), u, v in zip(made.items(), outs[0], outs[1], strict=True)
    }
    return Fitted(b.name, assemble(b.graph.name, sources, outputs))


def with_missing(p: Any, other: Any) -> Any:
    """A pipeline as one that may emit None, too, if the other may: so ``int`` is compared with ``int | None``.

    >>> from pellucid import pipeline
    >>> maybe = pipeline(lambda x: x.map(lambda v: v if v > 0 else None), x=int)
    >>> never = with_missing(pipeline(lambda x: x.map(lambda v: v), x=int), maybe)
    >>> never.graph.nodes[never.graph.outputs[0][1]].type
    int | None
    """
    mine, theirs = ([q.graph.nodes[i].type for _, i in q.graph.outputs] for q in (p, other))
    if len(mine) != 1 or len(theirs) != 1 or theirs[0] != OptionalType(mine[0]):
        return p
    sources = [source(p.graph.nodes[i].id, p.graph.nodes[i].type) for i in p.graph.sources]
    ((name, out),) = instantiate(p.graph, sources).items()
    return Fitted(p.name, assemble(p.graph.name, sources, {name: out.map(lambda event: event, to=theirs[0])}))


def _other(a: Type, b: Type) -> Callable[[Any], Any]:
    """An event of one type as the other, by what it holds: plain Python, traced as a user's function is."""
    if isinstance(a, EnumType) and isinstance(b, EnumType):
        pairs = list(zip(a.members, b.members, strict=True))

        def member(value: Any) -> Any:
            for mine, theirs in pairs[:-1]:
                if value == mine:
                    return theirs
            return pairs[-1][1]

        return member
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        inner = _other(a.inner, b.inner)
        return lambda value: None if value is None else inner(value)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        each = [_other(s, t) for s, t in zip(a.items, b.items, strict=True)]
        return lambda value: tuple(other(item) for other, item in zip(each, value, strict=True))
    if isinstance(a, RecordType) and isinstance(b, RecordType):
        fields = [(name, _other(s, t)) for (name, s), (_, t) in zip(a.fields, b.fields, strict=True)]
        return lambda value: b.cls(**{name: other(getattr(value, name)) for name, other in fields})
    return lambda value: value


# When two events are the same: NaN is itself, though Python finds it unequal to itself, and a zero is one whatever its
# sign.


def same_event(a: Any, b: Any) -> bool:
    """Whether two events are the same.

    >>> same_event(float("nan"), float("nan")), same_event((1, 0.0), (1, -0.0)), same_event(1.0, 2.0)
    (True, True, False)
    """
    if a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b):
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_event, a, b))
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(same_event(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return False


def same_leaf(x: Expr, y: Expr) -> Expr:
    """The same of leaves, as an expression.

    >>> same_leaf(n.var(0, FLOAT), n.var(0, FLOAT)).value
    True
    """
    if x is y:
        return n.TRUE
    equal = n.eq(x, y)
    if x.type != FLOAT or y.type != FLOAT:
        return equal
    return n.or_(equal, n.and_(n.not_(n.eq(x, x)), n.not_(n.eq(y, y))))


# Two pipelines side by side: step-wise and sequence equivalence, conservative approximation (Model Checking of Stream
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
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: they emit {outs[0]} and {outs[1]}")
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
        same = n.all_of(same_leaf(x, y) for x, y in zip(left[i], right[i], strict=True))
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
        raise UsageError("implies compares pipelines that emit Booleans")
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
        if len(left) != len(right) or not all(
            same_event(x, y) or (implied and y) for x, y in zip(left, right, strict=True)
        ):
            return True
    return False
