"""Why is a time not complete?  The pointstamps that hold it back, and the way by which each could still get there.

``why_not(graph, location, time)`` takes what is pending (messages on edges, requests at nodes): of the graph at its
start, of a situation on the way, or a list.  Of a node it says why the node is not told of the time; of an edge, why a
message of that time may still come there.  The answer is a text, and a picture of the frontier at every location.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pellucid.errors import UsageError, nearest
from pellucid.progress.could_result_in import Pointstamp, Proof, Relation, usual
from pellucid.progress.graph import Graph, Message
from pellucid.progress.reachability import PathSummaries, Tracker
from pellucid.progress.semantics import Semantics, Situation
from pellucid.progress.times import Time, several
from pellucid.progress.why.picture import frontier_svg


@dataclass(frozen=True)
class WhyNot:
    """Why a time is not complete at a location; true if something holds it back."""

    location: str
    time: Time
    holds: tuple[tuple[Pointstamp, Proof], ...]
    frontier: Mapping[str, tuple[Time, ...]]  # by location, the least times that may still come
    nodes: frozenset[str]  # the locations at which requests wait; messages wait at the others
    ties: tuple[tuple[str, str], ...]  # from each location to the next
    here: frozenset[str] = frozenset()  # of a node of a clock: its inputs
    ports: bool = False  # of a clock: what is pending at an output is the right to send there

    def __bool__(self) -> bool:
        return bool(self.holds)

    def __str__(self) -> str:
        node = self.location in self.nodes
        if not self.holds:
            done = "can be told of" if node else "gets no more messages at or before"
            return f"{self.location} {done} {self.time}: nothing that is pending could still reach it"
        count = len(self.holds)
        many = f"{count} pointstamp{' holds' if count == 1 else 's hold'} it back"
        says = "is not told of" if node else "may still get messages at or before"
        lines = [f"{self.location} {says} {self.time}: {many}"]
        for point, proof in self.holds:
            lines.append(f"  {self._pending(point)}: {' → '.join(f'{x} at {t}' for x, t in proof.path)}")
            lines += [f"    {why}" for why in proof.because if " leads to " not in why]
        lines.append("the frontier, the least times that may still come:")
        width = max(map(len, self.frontier))
        for x, times in self.frontier.items():
            mark = "  ← here" if x == self.location or x in self.here else ""
            lines.append(f"  {x:{width}}  {', '.join(map(str, times)) or 'complete'}{mark}")
        return "\n".join(lines)

    def _pending(self, point: Pointstamp) -> str:
        if self.ports and point.location in self.nodes:
            return f"{point.location} may still send at {point.time}"
        if point.location in self.nodes:
            return (
                f"{point.location} itself waits for {point.time}"
                if point.location == self.location
                else (f"{point.location} waits for {point.time}")
            )
        return f"a message at {point.time} on {point.location}"

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "location": self.location,
            "time": str(self.time),
            "complete": not self.holds,
            "holds": [
                {
                    "location": point.location,
                    "time": str(point.time),
                    "path": [{"location": x, "time": str(t)} for x, t in proof.path],
                    "because": list(proof.because),
                }
                for point, proof in self.holds
            ],
            "frontier": {x: [str(t) for t in times] for x, times in self.frontier.items()},
        }

    def picture(self) -> str:
        """The graph with the frontier at each location, as SVG; the ways that hold the time back stand out."""
        first = str(self).partition("\n")[0]
        on_the_way = {(a.location, b.location) for _, p in self.holds for a, b in zip(p.path, p.path[1:], strict=False)}
        held = {point.location: "" for point, _ in self.holds}
        for point, _ in self.holds:
            held[point.location] += (", " if held[point.location] else "") + str(point.time)
        return frontier_svg(
            self.frontier, self.ties, self.nodes, title=first, here=self.location, held=held, way=on_the_way
        )

    def _repr_html_(self) -> str:
        return self.picture()


def why_not(
    graph: Graph | Tracker,
    location: str,
    time: Time,
    *,
    pending: Situation | Iterable[tuple[str, Time]] | None = None,
    inputs: Mapping[str, Iterable[Message]] | None = None,
    relation: Relation | None = None,
) -> WhyNot:
    """Why a node is not told of a time, or why messages of that time may still come on an edge.

    ``pending`` is a situation of the graph's machine, or pairs of a location and a time; without it the graph's start,
    with ``inputs`` on its input edges.  ``relation`` is the exact one,
    or that by summaries where what nodes can do cannot be listed, unless given.  In place of a graph, a clock that
    runs: there a location is a node, or a port as in ``"count.in0"``.

    >>> from pellucid.progress.graph import Node, buffer
    >>> edges = {"i": (None, "read"), "e": ("read", "count")}
    >>> graph = Graph({"read": buffer("e"), "count": Node()}, edges, times=[1, 2])
    >>> print(why_not(graph, "count", 2, pending=[("i", 1), ("count", 2)]))
    count is not told of 2: 1 pointstamp holds it back
      a message at 1 on i: i at 1 → read at 1 → e at 1
        read, at its start, on message 1 on i sends 1 on e
    the frontier, the least times that may still come:
      read   1
      count  1  ← here
      i      1
      e      1
    >>> print(why_not(graph, "count", 2, pending=[("count", 2)]))
    count can be told of 2: nothing that is pending could still reach it
    """
    if isinstance(graph, Tracker):
        if pending is not None or inputs is not None or relation is not None:
            raise UsageError("why_not: a clock knows what is pending: leave pending=, inputs= and relation= out")
        return _of_clock(graph, location, time)
    if not isinstance(graph, Graph):
        raise UsageError(f"why_not takes a progress.Graph or a clock that runs, found a {type(graph).__name__}")
    graph.known(location)
    relation = relation or usual(graph)
    relation.number((location, time))
    points = _pending(graph, pending, inputs, relation)
    goals = graph.into[location] if location in graph.nodes else (location,)
    holds = []
    for point in points:
        proofs = [proof for e in goals if (proof := relation.prove(point, (e, time), closed=True)) is not None]
        if proofs:
            holds.append((point, min(proofs, key=len)))
    return WhyNot(location, time, tuple(holds), frontier(relation, points), frozenset(graph.nodes), tuple(_ties(graph)))


def _ties(graph: Graph) -> Iterator[tuple[str, str]]:
    for edge, (a, b) in graph.edges.items():
        if a is not None:
            yield a, edge
        if b is not None:
            yield edge, b


def _of_clock(clock: Tracker, location: str, time: Time) -> WhyNot:
    """The same of a clock that runs: its locations are the ports of its nodes."""
    places = {str(place): place for place in clock.arcs.places}
    named: dict[str, list[str]] = {}
    for name, place in places.items():
        named.setdefault(str(place.node), [])
        if place.is_target:
            named[str(place.node)].append(name)
    location = location if isinstance(location, str) else str(location)  # a node may be a number, a port a Target
    if location not in places and location not in named:
        known = [*named, *places]
        raise UsageError(
            f"{location!r} is no location of the clock: its nodes and ports are {', '.join(known)}"
            f"{nearest(str(location), known)}"
        )
    goals = [location] if location in places else named[location]
    for goal in goals:
        clock.arcs.orders[clock.arcs.at[places[goal]]].check(time, goal)
    paths = PathSummaries(clock.arcs)
    holds = []
    for (place, t), count in clock.pointstamps():
        proofs = [paths.could_result_in(place, t, places[goal], time) for goal in goals] if count > 0 else []
        found = [proof for proof in proofs if proof is not None]
        if found:
            steps = tuple(Pointstamp(str(x), u) for x, u in min(found, key=len))
            because = tuple(f"{a} leads to {b}" for a, b in pairwise(steps))
            point = Pointstamp(str(place), t)
            holds.append((point, Proof(point, Pointstamp(steps[-1].location, time), steps, because)))
    least = {name: tuple(clock.frontier(place)) for name, place in places.items()}
    ties = (
        (str(clock.arcs.places[a]), str(clock.arcs.places[b])) for a, to in enumerate(clock.arcs.ways) for b, _ in to
    )
    sources = frozenset(name for name, place in places.items() if place.is_source)
    ways = tuple(dict.fromkeys(ties))
    return WhyNot(location, time, tuple(holds), least, sources, ways, frozenset(goals), ports=True)


def _pending(
    graph: Graph,
    pending: Situation | Iterable[tuple[str, Time]] | None,
    inputs: Mapping[str, Iterable[Message]] | None,
    relation: Relation,
) -> list[Pointstamp]:
    machine = Semantics(graph, relation, inputs=inputs or {})
    if pending is None:
        pending = next(machine.steps(None))[1]
    elif inputs is not None:
        raise UsageError("why_not: pending= says what is on the edges already: leave inputs= out")
    if isinstance(pending, Situation):
        return list(machine.pending(pending))
    such = "[('in', 1), ('count', 2)], pairs of a location and a time"
    points = []
    for point in several(pending, "pending=", such):
        if not isinstance(point, (tuple, list)) or len(point) != 2:
            raise UsageError(f"pending=: {point!r}: expected {such}")
        points.append(Pointstamp(*point))
    for point in points:
        relation.number(point)
    return points


def frontier(relation: Relation, points: Iterable[tuple[str, Time]]) -> dict[str, tuple[Time, ...]]:
    """For each location the least times in the clock of these pointstamps."""
    leq = relation.graph.order.less_equal
    clock: dict[str, list[Time]] = {x: [] for x in relation.graph.locations}
    for x, t in relation.close(points):
        clock[x].append(t)
    found: dict[str, tuple[Time, ...]] = {}
    for x, times in clock.items():
        least = [t for t in times if not any(u != t and leq(u, t) and not leq(t, u) for u in times)]
        found[x] = tuple(sorted(least, key=relation.times.index))
    return found
