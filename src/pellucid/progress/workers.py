"""What an operator may send, and the clock of several workers.

The clock is right as long as every message that is sent is counted.  So an operator sends by a `Capability`: the right
to send at one output, for messages of one time or later ones.  It comes from a message that is being taken (later by
the summary from its input to the output) or from a capability that is held, and is counted until it is dropped.  It
never comes from the frontier of an input: that a time is still possible there does not mean that this operator holds
it, and a worker that has heard more may have let it pass already.  A `Notificator` keeps the times that were asked for,
and returns them when no frontier is at or before them.

Each of several workers has a view of its own, from what the others broadcast.  No worker sees all pointstamps.  Each
tells the others of every step it takes: which pointstamps it used up, which it made.  A message takes its time, and
what one worker says may come before what another one said earlier; so a view lags behind and may even count below zero.
It is never *ahead* (it never lets a time pass that some pointstamp could still lead to) if

1. the changes of a step go out in one broadcast; or, over channels that keep their order, the increases before the
   decreases; and
2. each pointstamp that a step makes is strictly after one that the same step uses up: something that could result
   in it.

`Worker.commit` refuses a step that breaks the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from pellucid.errors import UsageError
from pellucid.progress.antichain import Antichain, ChangeBatch
from pellucid.progress.reachability import Arcs, Builder, Location, PathSummaries, Tracker, arcs_of
from pellucid.progress.times import NATURAL, Order, Time, hashed, several


class Counts(Protocol):
    """Where changes of counts go: a `Tracker`, or a `Worker`, which tells the others."""

    arcs: Arcs

    def update(self, location: Location, time: Time, diff: int) -> None:
        """A change of a count."""


class Capability:
    """The right to send at an output, for messages of a time or later ones; `Operator` makes it.

    >>> from pellucid.progress import Builder, Source
    >>> graph = Builder(); graph.add_node("count", 1, 1, [[0]])
    >>> clock = graph.build()
    >>> held = Operator(clock, "count").start(0, 3)
    >>> later = held.delayed(5); held.drop(); clock.propagate_all(); clock.frontier(Source("count"))
    Antichain([5])
    >>> later.delayed(4)
    Traceback (most recent call last):
    pellucid.errors.UsageError: count.out0: a capability for 5 gives none for 4: 5 ≤ 4 does not hold
    >>> later.try_delayed(4)
    """

    def __init__(self, counts: Counts, source: Location, time: Time) -> None:
        self.counts, self.source, self.order = counts, source, counts.arcs.orders[counts.arcs.at[source]]
        self.time = self.order.check(time, str(source))
        self.held = True
        counts.update(source, time, 1)

    def _check(self) -> None:
        if not self.held:
            raise UsageError(f"{self.source}: the capability for {self.time!r} was dropped")

    def try_delayed(self, time: Time) -> Capability | None:
        """Another one, for this time; None if this time is not at or after its own."""
        self._check()
        return Capability(self.counts, self.source, time) if self.order.less_equal(self.time, time) else None

    def delayed(self, time: Time) -> Capability:
        """Another one, for a time that is at or after its own."""
        later = self.try_delayed(time)
        if later is None:
            raise UsageError(
                f"{self.source}: a capability for {self.time!r} gives none for {time!r}: {self.time!r} ≤ {time!r} does "
                "not hold"
            )
        return later

    def downgrade(self, time: Time) -> None:
        """Move it on to this time, which must be at or after its own."""
        later = self.delayed(time)
        self.drop()
        self.time, self.held, later.held = later.time, True, False

    def drop(self) -> None:
        """Nothing will be sent with it any more."""
        self._check()
        self.held = False
        self.counts.update(self.source, self.time, -1)

    def __repr__(self) -> str:
        return f"Capability({self.source}, {self.time!r}{'' if self.held else ', dropped'})"


class Operator:
    """A node as its code sees it: it takes messages, holds capabilities, and sends.

    >>> from pellucid.progress import Builder, Source, Target
    >>> graph = Builder()
    >>> graph.add_node("read", 0, 1, []); graph.add_node("count", 1, 1, [[0]])
    >>> graph.add_edge(Source("read"), Target("count"))
    >>> clock = graph.build()
    >>> reads, counts = Operator(clock, "read"), Operator(clock, "count")
    >>> held = reads.start(0, 3); reads.send(held, 0); held.downgrade(4)
    >>> with counts.take(0, 3):
    ...     later = counts.capability(0, 3)
    >>> clock.propagate_all(); clock.frontier(Source("count")), clock.frontier(Target("count"))
    (Antichain([3]), Antichain([4]))

    The input's frontier is no reason for a capability:

    >>> counts.capability(0, 4).drop(); later.drop(); counts.capability(0, 4)
    Traceback (most recent call last):
    pellucid.errors.UsageError: count.out0: nothing that node count holds gives a ...
    """

    def __init__(self, counts: Counts, node: object) -> None:
        if not isinstance(getattr(counts, "arcs", None), Arcs):
            raise UsageError(f"Operator({counts!r}, …): a clock is expected, as Builder.build makes it, or a Worker")
        self.counts, self.node, self.started = counts, node, False
        if all(place.node != node for place in counts.arcs.places):
            raise UsageError(f"there is no node {node!r} in the graph")
        self._held: list[Capability] = []
        self._taking: tuple[int, Time] | None = None

    def start(self, output: int, time: Time) -> Capability:
        """A capability with which it begins, before it has done anything."""
        if self.started:
            raise UsageError(
                f"node {self.node}: it has begun; a capability now comes from a message or from another one"
            )
        return self._keep(Capability(self.counts, self._source(output), time))

    def _source(self, output: int) -> Location:
        source = Location(self.node, "out", output)
        if source not in self.counts.arcs.at:
            raise UsageError(f"{source} is not in the graph")
        return source

    def _keep(self, one: Capability) -> Capability:
        self._held = [held for held in self._held if held.held] + [one]
        return one

    @contextmanager
    def take(self, input: int, time: Time) -> Iterator[None]:
        """Take a message from an input; while it is being taken, it gives capabilities."""
        target = Location(self.node, "in", input)
        if target not in self.counts.arcs.at:
            raise UsageError(f"{target} is not in the graph")
        self.started, self._taking = True, (self.counts.arcs.at[target], time)
        try:
            yield
        finally:
            self._taking = None
            self.counts.update(target, time, -1)

    def capability(self, output: int, time: Time) -> Capability:
        """A capability for a time, from the message that is being taken or from one that is held."""
        source = self._source(output)
        arcs = self.counts.arcs
        at = arcs.at[source]
        order = arcs.orders[at]
        order.check(time, str(source))
        if self._taking is not None:
            for there, way in arcs.ways[self._taking[0]]:
                least = way.results_in(self._taking[1]) if there == at else None
                if least is not None and order.le(least, time):
                    return self._keep(Capability(self.counts, source, time))
        for held in self._held:
            if held.held and held.source == source and order.le(held.time, time):
                return self._keep(held.delayed(time))
        raise UsageError(
            f"{source}: nothing that node {self.node} holds gives a capability for {time!r}: it takes no message now "
            f"that leads there, and holds no capability at or before {time!r}; that the input's frontier still has "
            f"{time!r} does not count: another worker may know already that it has passed. Keep a capability "
            "while it is needed"
        )

    def send(self, capability: Capability, output: int) -> None:
        """Send a message of the capability's time at an output: it must be a capability for that output."""
        self.started = True
        source = self._source(output)
        capability._check()
        if capability.source != source:
            raise UsageError(
                f"{source}: a capability for {capability.source} cannot be used here; ask for one for output {output}"
            )
        arcs = self.counts.arcs
        for there, _ in arcs.ways[arcs.at[source]]:
            self.counts.update(arcs.places[there], capability.time, 1)


class Notificator:
    """The times that were asked for; each is handed out once, with how often it was asked for, when no frontier is at
    or before it, earlier ones first.

    >>> asked = Notificator()
    >>> for time in (5, 3, 3): asked.notify_at(time)
    >>> asked.next([Antichain([4])]), asked.next([Antichain([4])]), asked.next([Antichain()])
    ((3, 2), None, (5, 1))
    """

    def __init__(self, order: Order = NATURAL) -> None:
        self.order = order
        self.pending: dict[Time, int] = {}

    def notify_at(self, time: Time) -> None:
        """Ask for a time.

        >>> asked = Notificator(); asked.notify_at(5); asked.pending
        {5: 1}
        """
        self.order.check(time, "notify_at")
        self.pending[time] = self.pending.get(time, 0) + 1

    def next(self, frontiers: Iterable[Antichain]) -> tuple[Time, int] | None:
        """A complete time that was asked for, with no earlier complete one asked for; None if there is none.

        >>> asked = Notificator(); asked.notify_at((2, 1)); asked.notify_at((1, 2)); asked.next([Antichain([(3, 3)])])
        ((1, 2), 1)
        """
        known = several(frontiers, "frontiers: ", "[clock.frontier(Target('count'))]")
        for frontier in known:
            if not isinstance(frontier, Antichain):
                raise UsageError(f"frontiers: {frontier!r} is no Antichain: give those of clock.frontier(…)")
        complete = [time for time in self.pending if not any(frontier.less_equal(time) for frontier in known)]
        first = Antichain(complete, self.order).elements()
        return (first[0], self.pending.pop(first[0])) if first else None


Stamp = tuple[Location, Time]
Change = tuple[Stamp, int]


class Worker:
    """One worker's view.  A step is `update` (or what an `Operator` does), then `commit`, whose changes are for all the
    others to `hear`; a worker has heard its own steps.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder(); graph.add_node("read", 0, 1, []); graph.add_node("count", 1, 0, [[]])
    >>> graph.add_edge(Source("read"), Target("count"))
    >>> one, two = (Worker(graph, [((Source("read"), 0), 1)]) for _ in range(2))
    >>> one.update(Source("read"), 0, -1); one.update(Target("count"), 0, 1); step = one.commit()
    >>> one.frontier(Source("read")), two.frontier(Source("read"))
    (Antichain([]), Antichain([0]))
    >>> two.hear(step); two.frontier(Source("read")), two.frontier(Target("count"))
    (Antichain([]), Antichain([0]))
    >>> two.update(Source("read"), 5, 1); two.commit()
    Traceback (most recent call last):
    pellucid.errors.UsageError: a step makes (read.out0, 5) out of nothing: it uses ...
    """

    def __init__(self, graph: Builder | Arcs, start: Iterable[Change] = ()) -> None:
        """``start``: the pointstamps with which all workers begin, known to all."""
        self.arcs = arcs_of(graph)
        self.paths = PathSummaries(self.arcs)
        self.view = Tracker(self.arcs)
        self.step = ChangeBatch()
        self.view.update_iter(start)
        self.view.propagate_all()

    def update(self, location: Location, time: Time, diff: int) -> None:
        """A change in the step that is being taken."""
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            raise UsageError(f"{location!s} is not in the graph")
        self.arcs.check(at, time)
        self.step.update((location, time), diff)

    def commit(self) -> list[Change]:
        """Take the step; returns what the others must hear, in one piece."""
        changes = self.step.drain()
        unfounded = next(from_nothing(self.paths, changes), None)
        if unfounded is not None:
            location, time = unfounded
            raise UsageError(
                f"a step makes ({location}, {time!r}) out of nothing: it uses up no pointstamp that could result in "
                "it; a worker that hears of it late would be ahead of the clock until then"
            )
        self.hear(changes)
        return changes

    def hear(self, changes: Iterable[Change]) -> None:
        """Take in the whole step of another worker."""
        self.view.update_iter(changes)
        self.view.propagate_all()

    def frontier(self, location: Location) -> Antichain:
        """What may still come to a location, as far as this worker knows."""
        return self.view.frontier(location)


def from_nothing(paths: PathSummaries, changes: Iterable[Change]) -> Iterator[Stamp]:
    """The pointstamps that a step makes and that are not strictly after one that it uses up.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder(); graph.add_node(0, 1, 1, [[0]])
    >>> step = [((Target(0), 3), -1), ((Source(0), 3), 1), ((Source(0), 2), 1)]
    >>> [(str(at), time) for at, time in from_nothing(PathSummaries(graph), step)]
    [('0.out0', 2)]
    """
    known = ChangeBatch(changes).into_inner()  # changes of one pointstamp are one change: what is used up is not made
    used = [stamp for stamp, diff in known if diff < 0]
    for (location, time), diff in known:
        if diff > 0 and not any(paths.could_result_in(at, t, location, time) is not None for at, t in used):
            yield location, time
