"""A graph cut at its timed steps: stages, in the order in which a batch goes through them.

A **timed step** (`Processor.timed`) stands alone: it follows the clock.  The ordinary steps between timed steps make
**segments**, each an ordinary `Graph` of its own, that the interpreter or a kernel runs, knowing nothing of time.

How it is cut: the *level* of a step is the greatest of the levels of the steps it reads, one more for each timed one
among them; the ordinary steps of one level that streams connect form a segment.  Stages go level by level, in each the
segments first and then its timed steps, all in the order of the graph: what a stage reads is complete when its turn
comes.

What every engine that runs a plan keeps to, so that all do the same:

* **Rows of a batch** are numbered: that is an event's *stamp*.  A push that brings events to several sources is several
  rows, in the order of the graph's sources.  What is emitted because the clock moved has the stamp `MOVED`, which is
  after all rows.
* **A stream** of a batch is a list of events with stamp, time (None where the graph's ``clocks`` have none) and key, in
  the order in which they were emitted.
* **A segment** takes one event per push: the events of its inputs sorted by (stamp, position of the stream's step in
  the whole graph, place in its stream).  What such a push emits has the stamp and the time of the event that it
  took.
* **A timed step** takes the events of its inputs by (stamp, position of the stream's step, number of the input, place
  in its stream), judges each by its clock of that input (`Clocks.now` of the stream, for this step), and then lets the
  clocks move to `Clocks.after` and emits what is complete.  What comes with a row (`at`, `late`, pairs of a `join`)
  has that row's stamp; what comes because the clock moved (windows, also corrected or running answers,
  `as_of`, `lookup`, `dedup`, rows of a `join` without a partner) has `MOVED`, sorted by (time of the answer, key, start
  of the window, event), all canonically (`engine.timed.order`); of rows of a join without a partner, left ones
  before right ones of the same time and key.
* **The time of an event** is that of the push that put it out; timed steps give times of their own: a window's answer
  its end - 1, a pair the later of the two times, a row of a join without a partner the last time at which it could
  still have found one (a: time + high; b: time - low), but not before its own, the others
  the event's own; `late` and `early` have none.
* **Keys**: a stream under a key carries the key of each event beside it.  Where such a stream goes into a segment, the
  segment's source has events ``(key, event)``, which are keyed again and taken apart (`Crossing.keyed`).  What a
  segment emits under a key carries it (`Output.keys` of a kernel).  A key that comes with the data (``key=`` of a
  table) is not in the plan: an engine that runs per key gives each key ordinary states of its own, and its
  timed steps keep (that key, the stream's key) apart; one clock serves all keys together.

>>> from pellucid import pipeline
>>> def busy(x):
...     counted = x.at(lambda v: v, id="at").tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), id="count")
...     return counted.filter(lambda w: w.value > 1, id="busy")
>>> print(plan_of(pipeline(busy, x=int).graph))
at ← x
count ← at
[busy] ← count
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import var
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import TupleType, Type
from pellucid.internal.graph.model import Graph, Node

#: The stamp of what is emitted because the clock moved: after all rows of a batch.
MOVED = 2**62


@dataclass(frozen=True)
class Crossing:
    """A stream that goes into a segment: the position of its step in the whole graph, the name of the segment's source
    for it, the type of its events, and that of its keys if it has some: then the source's events are (key, event)."""

    stream: int
    name: str
    type: Type
    keyed: Type | None


@dataclass(frozen=True)
class Segment:
    """Ordinary steps (their positions in the whole graph) as a graph of their own.

    ``outputs`` are the streams that are wanted elsewhere: by other stages, or as outputs of the whole graph; the name
    of the graph's output for each is the id of its step.
    """

    steps: tuple[int, ...]
    graph: Graph
    inputs: tuple[Crossing, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Timed:
    """A timed step by its position, what it reads, and whether its late events are taken by a step `late`."""

    step: int
    inputs: tuple[int, ...]
    late_taken: bool


Stage: TypeAlias = "Segment | Timed"


@dataclass(frozen=True)
class Plan:
    """The stages of a graph, in order."""

    graph: Graph
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        name = [node.id for node in self.graph.nodes]
        lines = []
        for stage in self.stages:
            if isinstance(stage, Segment):
                inside, reads = ", ".join(name[i] for i in stage.steps), [c.stream for c in stage.inputs]
                lines.append(f"[{inside}] ← {', '.join(name[i] for i in reads)}")
            else:
                lines.append(f"{name[stage.step]} ← {', '.join(name[i] for i in stage.inputs)}")
        return "\n".join(lines)


def plan_of(graph: Graph) -> Plan:
    """The stages of a graph."""
    level = levels(graph)
    stages: list[Stage] = []
    taken = {node.inputs[0] for node in graph.nodes if node.kind == "late"}
    for now in range(max(level, default=0) + 1):
        ordinary = [
            i for i, n in enumerate(graph.nodes) if level[i] == now and not n.processor.timed and n.kind != "source"
        ]
        stages += [_segment(graph, part) for part in _parts(graph, ordinary)]
        for i, node in enumerate(graph.nodes):
            if level[i] == now and node.processor.timed:
                stages.append(Timed(i, node.inputs, i in taken))
    return Plan(graph, tuple(stages))


def levels(graph: Graph) -> list[int]:
    """The level of each step.

    >>> from pellucid import pipeline
    >>> levels(pipeline(lambda x: x.map(lambda v: v + 1).at(lambda v: v).map(lambda v: v), x=int).graph)
    [0, 0, 0, 1]
    """
    found: list[int] = []
    for node in graph.nodes:
        found.append(max((found[i] + graph.nodes[i].processor.timed for i in node.inputs), default=0))
    return found


def _parts(graph: Graph, steps: Sequence[int]) -> list[list[int]]:
    """The steps split into parts with no stream between them, in order."""
    part = {i: i for i in steps}

    def root(i: int) -> int:
        while part[i] != i:
            i = part[i]
        return i

    for i in steps:
        for j in graph.nodes[i].inputs:
            if j in part:
                a, b = root(i), root(j)
                part[max(a, b)] = min(a, b)
    roots = sorted({root(i) for i in steps})
    return [[i for i in steps if root(i) == r] for r in roots]


def _segment(graph: Graph, steps: Sequence[int]) -> Segment:
    inside = set(steps)
    streams = sorted({j for i in steps for j in graph.nodes[i].inputs if j not in inside})
    crossings = tuple(Crossing(j, graph.nodes[j].id, graph.nodes[j].type, graph.nodes[j].key) for j in streams)
    nodes: list[Node] = []
    at: dict[int, int] = {}
    sources = []
    for c in crossings:
        sources.append(len(nodes))
        nodes.append(Node(c.name, "source", (), c.type if c.keyed is None else TupleType((c.keyed, c.type))))
        if c.keyed is not None:
            pair = TupleType((c.keyed, c.type))
            key, event = _taken(_first, pair, 0), _taken(_second, pair, 1)
            nodes.append(Node(f"{c.name}.key", "key_by", (len(nodes) - 1,), pair, key, key=c.keyed))
            nodes.append(Node(f"{c.name}.event", "map", (len(nodes) - 1,), c.type, event, key=c.keyed))
        at[c.stream] = len(nodes) - 1
    for i in steps:
        node = graph.nodes[i]
        at[i] = len(nodes)
        nodes.append(replace(node, inputs=tuple(at[j] for j in node.inputs)))
    given = {i for _, i in graph.outputs}
    wanted = tuple(i for i in steps if i in given or any(r not in inside for r, _ in graph.readers(i)))
    name = f"{graph.name}, from {graph.nodes[steps[0]].id!r}"
    own = Graph(name, tuple(nodes), tuple(sources), tuple((graph.nodes[i].id, at[i]) for i in wanted))
    return Segment(tuple(steps), own, crossings, wanted)


def _taken(f: Callable[..., Any], pair: TupleType, which: int) -> Function:
    """The function that takes a part of a pair, as data: not traced, because the classes of records need not be known
    by their names where a plan is made."""
    first, result = sum(t.width for t in pair.items[:which]), pair.items[which]
    leaves = [t for _, t in pair.leaves()][first : first + result.width]
    outputs = tuple(var(first + i, t) for i, t in enumerate(leaves))
    return Function(f, (pair,), result, None, False, Traced((pair,), result, outputs), None)


def _first(pair):  # type: ignore[no-untyped-def]
    return pair[0]


def _second(pair):  # type: ignore[no-untyped-def]
    return pair[1]
