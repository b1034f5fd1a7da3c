"""The clock: which times may still come to each location, kept as messages come and go.

`Tracker` counts the pointstamps for which work may remain: messages under way at targets, and the right to send at
sources (what an operator holds, or will send when it is notified).  `propagate_all` brings the frontier of every
location up to date: the least times that some pointstamp could still lead to there, by the summaries on its way.  A
notification for a time may be delivered when no input of its node has a frontier at or before it (`Tracker.complete`).

There are two, with the same answers:

- `Literal`: after every change the frontiers are computed anew from the path summaries.  This is the meaning.
- `Plain`: for any order of times.  Each location has a `MutableAntichain` of its own pointstamps and one of what comes
  from there and from elsewhere; only changes of frontiers travel on, and a pointstamp is looked at only when no other
  one that waits could result in it, so each is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from pellucid.errors import UsageError
from pellucid.internal.model.components import components
from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
from pellucid.progress.builder import Arcs, Location, Source, Target  # noqa: F401 - the examples use them
from pellucid.progress.given import hashed, several, whole
from pellucid.progress.paths import Label, PathSummaries, spread
from pellucid.progress.times import Time

MODES = ("auto", "plain", "literal")


class Tracker:
    """The clock of a graph; `Builder.build` makes it."""

    def __init__(self, arcs: Arcs) -> None:
        self.arcs = arcs
        self._pushed = ChangeBatch()
        self._inputs: dict[object, list[int]] = {}  # of each node
        self._failed = ""  # why a propagation ended half-way

    # ------------------------------------------------------------ what changes

    def update_source(self, source: Location, time: Time, diff: int) -> None:
        """So many more (or fewer) rights to send at an output, for messages of this time or later ones.

        >>> clock = _example(); clock.update_source(Source("count"), 3, 1); clock.propagate_all()
        >>> clock.frontier(Source("count"))
        Antichain([3])
        """
        if not (isinstance(source, Location) and source.is_source):
            raise UsageError(f"update_source: {source!s} is no output; give a Source(node, port)")
        self.update(source, time, diff)

    def update_target(self, target: Location, time: Time, diff: int) -> None:
        """So many more (or fewer) messages of this time under way to an input.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> clock.frontier(Source("count"))
        Antichain([4])
        """
        if not (isinstance(target, Location) and target.is_target):
            raise UsageError(f"update_target: {target!s} is no input; give a Target(node, port)")
        self.update(target, time, diff)

    def update(self, location: Location, time: Time, diff: int) -> None:
        """The same, for either.

        >>> _example().update(Target("sum"), 3, 1)
        Traceback (most recent call last):
        pellucid.errors.UsageError: sum.in0 is not in the graph; its locations are count.in0, count.out0
        """
        at = self._at(location)
        self._goes()
        self.arcs.check(at, time)
        if isinstance(diff, bool) or not isinstance(diff, int):
            raise UsageError(f"{location}: the change {diff!r} of a count is not a whole number")
        self._update(at, time, diff)

    def update_iter(self, updates: Iterable[tuple[tuple[Location, Time], int]]) -> None:
        """Several changes, in the form in which `pushed` gives them.

        >>> clock = _example(); clock.update_iter([((Target("count"), 3), 1), ((Target("count"), 5), 1)])
        >>> clock.propagate_all(); clock.frontier(Target("count"))
        Antichain([3])
        """
        known = several(updates, "updates: ", "[((Target('count'), 3), 1)]")
        for change in known:  # all of them, before the first one counts
            pair = isinstance(change, (tuple, list)) and len(change) == 2
            if not pair or not isinstance(change[0], (tuple, list)) or len(change[0]) != 2:
                raise UsageError(f"the update {change!r}: a pair is expected, as in ((Target('count'), 3), 1)")
            self.arcs.check(self._at(change[0][0]), change[0][1])
            whole(change[1], f"{change[0][0]}: the change of a count: ")
        for (location, time), diff in known:
            self.update(location, time, diff)

    def propagate_all(self) -> None:
        """Bring all frontiers up to date.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.frontier(Target("count"))
        Antichain([])
        >>> clock.propagate_all(); clock.frontier(Target("count"))
        Antichain([3])
        """
        raise NotImplementedError

    # ------------------------------------------------------------ what is so

    def pushed(self) -> ChangeBatch:
        """How frontiers changed since it was drained last: of ``(location, time)`` by +1 or −1.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> [(str(at), time, diff) for (at, time), diff in clock.pushed().drain()]
        [('count.in0', 3, 1), ('count.out0', 4, 1)]
        """
        self._goes()
        return self._pushed

    def frontier(self, location: Location) -> Antichain:
        """The least times that may still come to a location, as of the last `propagate_all`.

        >>> _example().frontier(Target("count")).is_empty()
        True
        """
        self._goes()
        return self._frontier(self._at(location))

    def complete(self, node: object, time: Time) -> bool:
        """Whether no message of this time or an earlier one can come to any input of the node any more: its
        notification may be delivered.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> clock.complete("count", 2), clock.complete("count", 3)
        (True, False)
        """
        if not self._inputs:
            for at, place in enumerate(self.arcs.places):
                known = self._inputs.setdefault(place.node, [])
                if place.is_target:
                    known.append(at)
        self._goes()
        if not hashed(node) or node not in self._inputs:
            raise UsageError(f"there is no node {node!r} in the graph")
        return not any(self._frontier(at).less_equal(time) for at in self._inputs[node])

    def pointstamps(self) -> list[tuple[tuple[Location, Time], int]]:
        """What was counted, and is not back at zero.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 2); clock.propagate_all()
        >>> [(str(at), time, count) for (at, time), count in clock.pointstamps()]
        [('count.in0', 3, 2)]
        """
        raise NotImplementedError

    def _at(self, location: Location) -> int:
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            known = ", ".join(map(str, self.arcs.places[:8])) + (", …" if len(self.arcs.places) > 8 else "")
            raise UsageError(f"{location!s} is not in the graph; its locations are {known}")
        return at

    def _goes(self) -> None:
        """Refuse to say more after a propagation that ended half-way."""
        if self._failed:
            raise UsageError(f"this clock stopped, and what it would say now would be wrong: {self._failed}")

    def _update(self, at: int, time: Time, diff: int) -> None:
        raise NotImplementedError

    def _frontier(self, at: int) -> Antichain:
        raise NotImplementedError


class Literal(Tracker):
    """The meaning: frontiers computed anew from the counts and the path summaries."""

    def __init__(self, arcs: Arcs) -> None:
        super().__init__(arcs)
        self.paths = PathSummaries(arcs)
        self.counts = ChangeBatch()
        self.frontiers = [Antichain(order=order) for order in arcs.orders]

    def _update(self, at: int, time: Time, diff: int) -> None:
        self.counts.update((at, time), diff)

    def propagate_all(self) -> None:
        new = [Antichain(order=order) for order in self.arcs.orders]
        for (at, time), count in self.counts:
            if count > 0:
                for there, labels in self.paths.labels(at).items():
                    for label in labels:
                        least = label.summary.results_in(time)
                        if least is not None:
                            new[there].insert(least)
        for place, old, now in zip(self.arcs.places, self.frontiers, new, strict=True):
            for time in old:
                self._pushed.update((place, time), -1)
            for time in now:
                self._pushed.update((place, time), 1)
        self.frontiers = new

    def pointstamps(self) -> list[tuple[tuple[Location, Time], int]]:
        return [((self.arcs.places[at], time), count) for (at, time), count in self.counts]

    def _frontier(self, at: int) -> Antichain:
        return Antichain(self.frontiers[at], self.arcs.orders[at])


class Plain(Tracker):
    """Incremental, for any order of times."""

    def __init__(self, arcs: Arcs) -> None:
        super().__init__(arcs)
        self.own = [MutableAntichain(order=order) for order in arcs.orders]
        self.reached = [MutableAntichain(order=order) for order in arcs.orders]
        self.waiting: list[tuple[int, Time, int]] = []
        self.settled = 0  # how many changes were looked at so far: what the clock has cost
        graph = {n: [there for there, _ in ways] for n, ways in enumerate(arcs.ways)}
        parts = list(components(graph))
        self.rank = dict.fromkeys(graph, 0)
        self.inside: dict[int, set[int]] = {}  # for locations on a loop: those that they can go round with
        for rank, part in enumerate(reversed(parts)):
            for n in part:
                self.rank[n] = rank
                if len(part) > 1 or n in graph[n]:
                    self.inside[n] = set(part)
        self._labels: dict[int, dict[int, list[Label]]] = {}

    def _update(self, at: int, time: Time, diff: int) -> None:
        self.waiting.append((at, time, diff))

    def propagate_all(self) -> None:
        self._goes()
        try:
            self._propagate()
        except Exception as error:  # of a summary or an order of one's own
            self._failed = str(error)
            raise

    def _propagate(self) -> None:
        todo: dict[int, ChangeBatch] = {}  # by rank: what comes before is settled first
        ranks: list[int] = []

        def push(at: int, time: Time, diff: int) -> None:
            rank = self.rank[at]
            if rank not in todo:
                todo[rank] = ChangeBatch()
                heappush(ranks, rank)
            todo[rank].update((at, time), diff)

        changed: dict[int, ChangeBatch] = {}
        for at, time, diff in self.waiting:
            changed.setdefault(at, ChangeBatch()).update(time, diff)
        self.waiting.clear()
        for at, batch in changed.items():
            for time, diff in self.own[at].update_iter(batch):
                push(at, time, diff)
        while ranks:
            rank = heappop(ranks)
            batch = todo[rank]
            while not batch.is_empty():
                self._settle(batch, push)
            del todo[rank]

    def _settle(self, batch: ChangeBatch, push: Callable[[int, Time, int], None]) -> None:
        """One of the pointstamps that wait, of which no other one could result in it."""
        known = [key for key, _ in batch._net.items()]
        at, time = next(key for key in known if not any(self._before(other, key) for other in known if other != key))
        diff = batch._net[at, time]
        self.settled += 1
        batch.update((at, time), -diff)
        for then, change in self.reached[at].update_iter([(time, diff)]):
            self._pushed.update((self.arcs.places[at], then), change)
            for there, way in self.arcs.ways[at]:
                least = way.results_in(then)
                if least is not None:
                    push(there, least, change)

    def _before(self, one: tuple[int, Time], two: tuple[int, Time]) -> bool:
        (at, time), (there, then) = one, two
        if at == there:
            order = self.arcs.orders[at]
            return order.le(time, then) and not order.le(then, time)
        if at not in self.inside:
            return False
        if at not in self._labels:
            self._labels[at] = spread(self.arcs, at, self.inside[at])[0]
        for label in self._labels[at].get(there, ()):
            least = label.summary.results_in(time)
            if least is not None and self.arcs.orders[there].le(least, then):
                return True
        return False

    def pointstamps(self) -> list[tuple[tuple[Location, Time], int]]:
        places = zip(self.arcs.places, self.own, strict=True)
        return [((place, time), count) for place, own in places for time, count in own.updates()]

    def _frontier(self, at: int) -> Antichain:
        return self.reached[at].frontier()


def tracker(arcs: Arcs, mode: str = "auto") -> Tracker:
    """The clock for a graph whose loops all advance."""
    if mode not in MODES:
        raise UsageError(f"mode={mode!r}: one of {', '.join(MODES)} is known")
    return Literal(arcs) if mode == "literal" else Plain(arcs)


def _example() -> Tracker:
    """For the examples above."""
    from pellucid.progress.builder import Builder

    graph = Builder()
    graph.add_node("count", 1, 1, [[1]])
    return graph.build("plain")
