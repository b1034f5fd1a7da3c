"""Graphs put together (4.3): two graphs that share edges as one graph, and `Spec₁₂`, what their specifications say
together.

``compose(a, b)`` is the whole graph: an output edge of one that is an input edge of the other becomes internal.
``Spec12(a, b, …)`` is the conjunction: every step is a step of the first (or none) and a step of the second (or none),
both see the same queues, and not both act on their input and output edges at once.  *Clock* is one clock, that of the
whole graph, for both.

The two are not the same.  `visible_difference` compares what can be seen from outside, up to stuttering; what it finds:

- with inputs that are given at the start and outputs that stay, both show the same, as long as no node takes a message
  from the other graph and answers it in the same step;
- such a node is stuck in Spec₁₂: the other graph would see an output edge get shorter and an input edge get longer at
  once, and neither Inp nor Outp says that.  A buffer node between them helps;
- an environment that acts (Inp, Outp) may act on one graph while the other makes a step: in the whole these are two
  steps, with something to be seen between them;
- as complete behaviours Spec₁₂ also has two internal steps at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.internal.model import Budget, Machine
from pellucid.progress.graph import Graph
from pellucid.progress.reach.relation import Relation
from pellucid.progress.semantics.machine import Action, Inp, Mess, Not, Outp, Semantics, Situation


def compose(a: Graph, b: Graph) -> Graph:
    """Two graphs as one: an edge that leaves one and enters the other connects them.

    >>> from pellucid.progress.graph import buffer
    >>> one = Graph({"p": buffer("x")}, {"i": (None, "p"), "x": ("p", None)}, times=[0])
    >>> two = Graph({"q": buffer("o")}, {"x": (None, "q"), "o": ("q", None)}, times=[0])
    >>> whole = compose(one, two)
    >>> whole.inputs, whole.internal, whole.outputs
    (('i',), ('x',), ('o',))
    >>> compose(one, one)
    Traceback (most recent call last):
    pellucid.errors.PipelineError: the graphs cannot be put together: both have the node 'p': ...
    """
    for given in (a, b):
        if not isinstance(given, Graph):
            raise UsageError(f"compose takes two progress.Graphs, found a {type(given).__name__}")
    for what, ours, theirs in (
        ("node", a.nodes, b.nodes), ("input edge", a.inputs, b.inputs), ("internal edge", a.internal, b.internal),
        ("output edge", a.outputs, b.outputs),
    ):  # fmt: skip
        if shared := [x for x in ours if x in theirs]:
            raise PipelineError(
                f"the graphs cannot be put together: both have the {what} {shared[0]!r}: give one of them another name"
            )
    for one, other in ((a, b), (b, a)):
        outer = (*other.inputs, *other.outputs, *other.nodes)
        if shared := [x for x in one.internal if x in outer] + [x for x in one.nodes if x in other.edges]:
            raise PipelineError(
                f"the graphs cannot be put together: {shared[0]!r} is inside one of them and stands in the other, too: "
                "give one of them another name"
            )
    if a.order != b.order:
        raise PipelineError(f"the graphs cannot be put together: one has times of {a.order}, the other of {b.order}")
    edges = dict(a.edges)
    for e, (source, target) in b.edges.items():
        before = edges.get(e, (None, None))
        edges[e] = (source if source is not None else before[0], target if target is not None else before[1])
    times: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for graph in (a, b):
        for x in graph.locations:
            times[x] = (*times.get(x, ()), *graph.times_at(x)) if graph.finite else ()
            if x in graph.edges:
                values[x] = (*values.get(x, ()), *graph.values_at(x))
    listed = times if a.finite and b.finite else None
    name = f"{a.name} and {b.name}"
    return Graph({**a.nodes, **b.nodes}, edges, order=a.order, times=listed, values=values, name=name)


class Both(NamedTuple):
    """A step of the first graph and one of the second, at once; None where one does nothing."""

    first: Action | None
    second: Action | None

    def __str__(self) -> str:
        return " & ".join(str(label) for label in self if label is not None)


class Spec12(Semantics):
    """Spec₁ ∧ Spec₂ ∧ □[¬(Acts₁ ∧ Acts₂)], with the clock of the whole graph for both.

    It is a machine over the situations of the whole graph.  ``parts`` are the two graphs.
    """

    def __init__(self, parts: tuple[Graph, Graph], relation: Relation, **more: Any) -> None:
        super().__init__(relation.graph, relation, **more)
        self.parts = parts
        self.between = frozenset(set(parts[0].edges) & set(parts[1].edges))

    def steps(self, at: Situation | None, *, failures: bool = True) -> Iterator[tuple[Any, Situation]]:
        """All joint steps, except those in which neither does anything."""
        if at is None:
            yield from super().steps(at)
            return
        first, second = (list(self._of(at, part)) for part in self.parts)
        for (one, a), (two, b) in ((x, y) for x in first for y in second):
            if one is None and two is None:
                continue
            then = self._joined(at, one, a, two, b)
            if then is not None:
                yield Both(one, two), then

    def _of(self, at: Situation, part: Graph) -> Iterator[tuple[Action | None, Situation]]:
        """What one graph can do by itself, as far as the edges go that it does not share; and nothing."""
        yield None, at
        for label, then in self.acts(at):
            if label.node in part.nodes:
                yield label, then
        if at.arrivals:
            yield from self.inp(at, [e for e in part.inputs if e not in self.between])
        if self.take:
            yield from self.outp(at, [e for e in part.outputs if e not in self.between])

    def _joined(
        self, at: Situation, one: Action | None, a: Situation, two: Action | None, b: Situation
    ) -> Situation | None:
        """Both steps at once, if each graph can see it as one step of its own and not both act."""
        for graph, label, then, others in ((self.parts[1], two, a, one), (self.parts[0], one, b, two)):
            if isinstance(others, Mess | Not) and not self._seen_as_one(at, then, graph, label):
                return None
        if self._acts(at, a, self.parts[0], one) and self._acts(at, b, self.parts[1], two):
            return None
        arrivals = at.arrivals - (at.arrivals - a.arrivals) - (at.arrivals - b.arrivals)
        if arrivals < 0:
            return None
        return Situation(
            tuple(y if y != x else z for x, y, z in zip(at.queues, a.queues, b.queues, strict=True)),
            tuple(
                x if p in self.parts[0].nodes else y for p, x, y in zip(self.graph.nodes, a.local, b.local, strict=True)
            ),
            tuple(
                x if p in self.parts[0].nodes else y
                for p, x, y in zip(self.graph.nodes, a.requests, b.requests, strict=True)
            ),
            arrivals,
        )

    def _seen_as_one(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """What the other graph did to the shared edges, together with this one's own step, is one step of this graph:
        Inp if its inputs got longer, Outp if its outputs got shorter, anything if they stayed."""
        changed = {e for e in self.between if at.queues[self.edge[e]] != then.queues[self.edge[e]]}
        if not changed:
            return True
        if changed <= set(graph.inputs):
            return label is None or isinstance(label, Inp)
        if changed <= set(graph.outputs):
            return label is None or isinstance(label, Outp)
        return False

    def _acts(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """Acts_j: an input edge got shorter, or an output edge longer."""
        if not isinstance(label, Mess | Not):
            return False
        length = [
            (len(at.queues[self.edge[e]]), len(then.queues[self.edge[e]])) for e in (*graph.inputs, *graph.outputs)
        ]
        inputs = len(graph.inputs)
        return any(b < a for a, b in length[:inputs]) or any(b > a for a, b in length[inputs:])


@dataclass(frozen=True)
class Difference:
    """A sequence of visible states that one machine has and the other has not: ``only`` says which, ``labels`` are its
    steps there."""

    only: int  # 0 or 1
    seen: tuple[Any, ...]
    labels: tuple[Any, ...]


def visible_difference(one: Machine, other: Machine, budget: Budget | None = None) -> Difference | None:
    """A shortest externally visible behaviour, without stuttering, that only one of two machines has; None if they show
    the same.

    Goes through the sets of states in which each can be after what was seen so far.
    """
    budget = budget or Budget(None, 200_000)
    machines = (one, other)
    first = tuple(_still(m, {m.start(): ()}, budget) for m in machines)
    waiting: list[tuple[tuple[dict[Any, Any], dict[Any, Any]], tuple[Any, ...]]] = [((first[0], first[1]), ())]
    known = {(frozenset(first[0]), frozenset(first[1]))}
    for pair, seen in waiting:  # it grows meanwhile
        budget.look(len(known), len(waiting))
        after = tuple(_next(m, states) for m, states in zip(machines, pair, strict=True))
        for view in dict.fromkeys([*after[0], *after[1]]):
            for i in (0, 1):
                if view not in after[1 - i]:
                    labels = next(iter(after[i][view].values()))
                    return Difference(i, (*seen, view), labels)
            both = tuple(_still(m, found[view], budget) for m, found in zip(machines, after, strict=True))
            key = frozenset(both[0]), frozenset(both[1])
            if key not in known:
                known.add(key)
                waiting.append(((both[0], both[1]), (*seen, view)))
    return None


def _still(machine: Machine, states: dict[Any, Any], budget: Budget) -> dict[Any, Any]:
    """All states that are reached without anything to be seen, each with the labels that led there."""
    found, waiting = dict(states), list(states)
    for at in waiting:
        for label, then in machine.steps(at):
            if then not in found and machine.see(then) == machine.see(at):
                found[then] = (*found[at], label)
                waiting.append(then)
    return found


def _next(machine: Machine, states: dict[Any, Any]) -> dict[Any, dict[Any, Any]]:
    """By what is seen then: the states after one more visible step."""
    found: dict[Any, dict[Any, Any]] = {}
    for at, labels in states.items():
        for label, then in machine.steps(at):
            view = machine.see(then)
            if view != machine.see(at):
                found.setdefault(view, {}).setdefault(then, (*labels, label))
    return found
