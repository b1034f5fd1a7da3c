"""Run a graph: messages and notifications one after the other, with the incremental clock in charge.

This is one behaviour of the graph's machine (`pellucid.progress.semantics`), for any times, listed or not.  Messages
are counted at the inputs that they wait for, and requests at the outputs of their nodes, at the times at which
something may come from them; a notification is delivered when the clock says that its time is complete.  All goes by
summaries: a node that declares none passes times on as they are, and a message that comes earlier than that is refused
where it is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pellucid.errors import StepError, UsageError
from pellucid.progress.antichain import Antichain
from pellucid.progress.could_result_in import builder_of, check_declared, summaries_of
from pellucid.progress.graph import Event, Graph, Message, Notified, Received, Result
from pellucid.progress.reachability import Source, Target
from pellucid.progress.semantics import Mess, Not
from pellucid.progress.times import Time, named, several, whole
from pellucid.progress.why import why_not


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
        self.clock = builder_of(self.graph).build("plain")
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
            ready += [(p, Notified(t)) for p in self.waits for t in self._told(p)]
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

    def _told(self, p: str) -> list[Time]:
        """The times that a node may be told of, those first before which there is no other."""
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
