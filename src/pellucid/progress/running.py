"""Run a graph; and why is a time not complete?

`run` delivers messages and notifications one after the other, with the incremental clock in charge.  This is one
behaviour of the graph's machine (`pellucid.progress.semantics`), for any times, listed or not.  Messages are counted at
the inputs that they wait for, and requests at the outputs of their nodes, at the times at which something may come from
them; a notification is delivered when the clock says that its time is complete.  All goes by summaries: a node that
declares none passes times on as they are, and a message that comes earlier than that is refused where it is sent.

`why_not` takes what is pending (messages on edges, requests at nodes): of the graph at its start, of a situation on the
way, a list, or what a clock has counted.  Of a node it says why the node is not notified of the time; of an edge, why a
message of that time may still come there.  The answer is a text, and a picture of the frontier at every location.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from pellucid.errors import StepError, UsageError, nearest
from pellucid.progress.antichain import Antichain
from pellucid.progress.could_result_in import (
    Pointstamp,
    Proof,
    Relation,
    builder_of,
    check_declared,
    summaries_of,
    usual,
)
from pellucid.progress.graph import Event, Graph, Message, Notified, Received, Result
from pellucid.progress.picture import frontier_svg
from pellucid.progress.reachability import PathSummaries, Source, Target, Tracker
from pellucid.progress.semantics import Mess, Not, Semantics, Situation
from pellucid.progress.times import Time, named, several, whole

# ---------------------------------------------------------------- run


@dataclass(frozen=True)
class Ran:
    """What became of a run: what came out on each output edge, the steps, and the states of the nodes at the end."""

    outputs: Mapping[str, tuple[Message, ...]]
    steps: tuple[Mess | Not, ...]
    states: Mapping[str, Any]


def run(
    graph: Graph,
    inputs: Mapping[str, Iterable[Message]] | None = None,
    *,
    seed: int | None = None,
    limit: int = 1_000_000,
) -> Ran:
    """Run a graph until nothing is left to be done; at most ``limit`` steps.

    ``seed`` draws what comes next by chance; without it messages go before notifications, earlier notifications of a
    node before later ones, and edges and nodes in their order.

    >>> from pellucid.progress.graph import Node, buffer
    >>> count = Node(lambda n, e, m: (n + 1, [m.time], {}), lambda n, t: (0, [], {"out": [Message(t, n)]}), state=0)
    >>> edges = {"in": (None, "read"), "raw": ("read", "count"), "out": ("count", None)}
    >>> graph = Graph({"read": buffer("raw"), "count": count}, edges)
    >>> run(graph, {"in": [Message(1), Message(1), Message(1)]}).outputs
    {'out': (Message(time=1, value=3),)}
    """
    if not isinstance(graph, Graph):
        raise UsageError(f"run takes a progress.Graph, found a {type(graph).__name__}")
    whole(limit, "limit=", 0)
    named(inputs or {}, "inputs=", "{'in': [Message(1)]}")
    running = _Running(graph.declaring(), inputs or {}, None if seed is None else Random(seed))
    for _ in range(limit):
        if not running.step():
            return Ran(running.outputs(), tuple(running.steps), dict(running.states))
    raise StepError(
        f"{graph.name}: not done after {limit:,} steps: a loop that never ends, or limit= is too small for these inputs"
    )


@dataclass
class _Running:
    graph: Graph
    inputs: Mapping[str, Iterable[Message]]
    chance: Random | None
    steps: list[Mess | Not] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_declared(self.graph)
        self.clock = builder_of(self.graph).build()
        self.queues: dict[str, deque[Message]] = {e: deque() for e in self.graph.edges}
        self.states = {p: node.initial[0][0] for p, node in self.graph.nodes.items()}
        self.waits: dict[str, list[Time]] = {p: [] for p in self.graph.nodes}
        for edge, messages in self.inputs.items():
            if edge not in self.graph.inputs:
                have = ", ".join(self.graph.inputs) or "none"
                raise UsageError(f"inputs=: {edge!r} is no input edge of {self.graph.name}: {have} is")
            if isinstance(messages, Message):
                raise UsageError(f"inputs= of {edge}: {messages!r} is one message: give a list of them")
            for m in several(messages, f"inputs= of {edge}: ", "[Message(1), Message(2)]"):
                if not isinstance(m, Message):
                    raise UsageError(f"inputs= of {edge}: {m!r} is no message: write Message(time, value)")
                self.graph.order.check(m.time, f"inputs= of {edge}")
                self._put(edge, m)
        for p, node in self.graph.nodes.items():
            for t in node.initial[0][1]:
                self._ask(p, t)
        self.clock.propagate_all()

    def step(self) -> bool:
        """One message or notification; whether there was one."""
        ready: list[tuple[str, Event]] = [
            (p, Received(e, queue[0])) for e, queue in self.queues.items() if queue and (p := self.graph.target[e])
        ]
        if not ready or self.chance is not None:
            ready += [(p, Notified(t)) for p in self.waits for t in self._complete_times(p)]
        if not ready:
            for p, times in self.waits.items():
                if times:  # no summary should allow that
                    raise StepError(
                        f"{self.graph.name}: nothing is left to be done: {why_not(self.clock, p, times[0])}"
                    )
            return False
        p, event = ready[0] if self.chance is None else self.chance.choice(ready)
        result = self.graph.does(p, self.states[p], event)
        self._take(p, event, result)
        return True

    def outputs(self) -> dict[str, tuple[Message, ...]]:
        """What waits on the output edges."""
        return {e: tuple(self.queues[e]) for e in self.graph.outputs}

    def _take(self, p: str, event: Event, result: Result) -> None:
        self.states[p] = result.state
        for edge, messages in zip(self.graph.out[p], result.messages, strict=True):
            for m in messages:
                self._put(edge, m)
        for t in result.requests:
            if not self.graph.order.less_equal(event.time, t) and t not in self.waits[p]:
                raise StepError(
                    f"node {p!r}, {event}: asks for {t}, which is in the past (Condition 1): {event.time} is not at or "
                    f"before {t}",
                    step=p,
                )
        if isinstance(event, Received):  # what follows from it was counted before it goes: the clock never runs ahead
            self.queues[event.edge].popleft()
            self._count(event.edge, event.message.time, -1)
            self.steps.append(Mess(p, event.edge, event.message))
        else:
            self.waits[p].remove(event.time)
            self._hold(p, event.time, -1)
            self.steps.append(Not(p, event.time))
        for t in result.requests:
            self._ask(p, t)
        self.clock.propagate_all()

    def _complete_times(self, p: str) -> list[Time]:
        """The times that a node may be notified of, those first before which there is no other."""
        complete = [t for t in self.waits[p] if self._complete(p, t)]
        first = Antichain(complete, self.graph.order).elements()
        return first if self.chance is None else [*first, *(t for t in complete if t not in first)]

    def _complete(self, p: str, time: Time) -> bool:
        return not self.graph.into[p] or self.clock.complete(p, time)

    def _put(self, edge: str, m: Message) -> None:
        self.queues[edge].append(m)
        self._count(edge, m.time, 1)

    def _count(self, edge: str, time: Time, by: int) -> None:
        p = self.graph.target[edge]
        if p is not None:
            self.clock.update_target(Target(p, self.graph.into[p].index(edge)), time, by)

    def _ask(self, p: str, time: Time) -> None:
        if time not in self.waits[p]:
            self.waits[p].append(time)
            self._hold(p, time, 1)

    def _hold(self, p: str, time: Time, by: int) -> None:
        for i, edge in enumerate(self.graph.out[p]):
            for s in summaries_of(self.graph, p, None, edge):
                then = s.results_in(time) if s.source.holds(time) else None
                if then is not None:
                    self.clock.update_source(Source(p, i), then, by)


# ---------------------------------------------------------------- why not


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
            done = "can be notified of" if node else "gets no more messages at or before"
            return f"{self.location} {done} {self.time}: nothing that is pending could still reach it"
        count = len(self.holds)
        many = f"{count} pointstamp{' holds' if count == 1 else 's hold'} it back"
        says = "is not notified of" if node else "may still get messages at or before"
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
    """Why a node is not notified of a time, or why messages of that time may still come on an edge.

    ``pending`` is a situation of the graph's machine, or pairs of a location and a time; without it the graph's start,
    with ``inputs`` on its input edges.  ``relation`` is the exact one,
    or that by summaries where what nodes can do cannot be listed, unless given.  In place of a graph, a clock that
    runs: there a location is a node, or a port as in ``"count.in0"``.

    >>> from pellucid.progress.graph import Node, buffer
    >>> edges = {"i": (None, "read"), "e": ("read", "count")}
    >>> graph = Graph({"read": buffer("e"), "count": Node()}, edges, times=[1, 2])
    >>> print(why_not(graph, "count", 2, pending=[("i", 1), ("count", 2)]))
    count is not notified of 2: 1 pointstamp holds it back
      a message at 1 on i: i at 1 → read at 1 → e at 1
        read, at its start, on message 1 on i sends 1 on e
    the frontier, the least times that may still come:
      read   1
      count  1  ← here
      i      1
      e      1
    >>> print(why_not(graph, "count", 2, pending=[("count", 2)]))
    count can be notified of 2: nothing that is pending could still reach it
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
