"""Path summaries: between any two locations, the ways of which none says less than another.

They give the conservative *could-result-in*: a message or a notification at one location and time may lead to one at
another location if a path's summary takes its time to one that is not later.  Every answer comes with the path, and the
time at each location on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from pellucid.errors import UsageError
from pellucid.progress.antichain import Antichain
from pellucid.progress.builder import Arcs, Builder, Location, arcs_of
from pellucid.progress.given import hashed
from pellucid.progress.summaries import Same, Summary
from pellucid.progress.times import Time


class Path(NamedTuple):
    """A way through the graph, and what it does to a time."""

    summary: Summary
    places: tuple[Location, ...]

    def __str__(self) -> str:
        return f"{' → '.join(map(str, self.places))}: {self.summary}"


class Label(NamedTuple):
    """A way that has come so far."""

    summary: Summary
    way: tuple[int, ...]


def spread(arcs: Arcs, start: int, within: Collection[int] | None = None) -> tuple[dict[int, list[Label]], list[Label]]:
    """From one location: the labels of the simple paths to each other one, without those that say nothing more; and
    the loops back to the start."""
    labels: dict[int, list[Label]] = {start: [Label(Same(arcs.orders[start]), (start,))]}
    loops: list[Label] = []
    todo = deque([(start, labels[start][0])])
    while todo:
        here, label = todo.popleft()
        if label not in labels[here]:  # another one says all of it by now
            continue
        for there, way in arcs.ways[here]:
            if within is not None and there not in within:
                continue
            whole = label.summary.followed_by(way)
            if whole is None:
                continue
            longer = Label(whole, (*label.way, there))
            if there == start:
                loops.append(longer)
            elif there not in label.way:
                known = labels.setdefault(there, [])
                if not any(other.summary.less_equal(whole) for other in known):
                    known[:] = [other for other in known if not whole.less_equal(other.summary)] + [longer]
                    todo.append((there, longer))
    return labels, loops


class PathSummaries:
    """The path summaries of a graph, computed for a location when it is asked for.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder()
    >>> for n, by in enumerate([0, 0, 1]): graph.add_node(n, 1, 1, [[by]])
    >>> for n in range(3): graph.add_edge(Source(n), Target((n + 1) % 3))
    >>> paths = PathSummaries(graph)
    >>> print(*paths.between(Source(0), Target(0)))
    0.out0 → 1.in0 → 1.out0 → 2.in0 → 2.out0 → 0.in0: +1
    """

    def __init__(self, graph: Builder | Arcs) -> None:
        self.arcs = arcs_of(graph)
        self._from: dict[int, dict[int, list[Label]]] = {}

    def _at(self, location: Location) -> int:
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            raise UsageError(
                f"{location!s} is not in the graph; its locations are {', '.join(map(str, self.arcs.places[:8]))}"
            )
        return at

    def labels(self, start: int) -> dict[int, list[Label]]:
        """From one location, by number."""
        if start not in self._from:
            self._from[start] = spread(self.arcs, start)[0]
        return self._from[start]

    def between(self, start: Location, end: Location) -> list[Path]:
        """The summaries of all paths, without those that say nothing more; from a location to itself the empty path.

        >>> from pellucid.progress import Source, Target
        >>> graph = Builder(); graph.add_node(0, 1, 1, [[[3, 5]]])
        >>> paths = PathSummaries(graph)
        >>> paths.between(Target(0), Source(0))[0].summary, paths.between(Source(0), Target(0))
        (+3, [])
        """
        found = self.labels(self._at(start)).get(self._at(end), [])
        return [Path(label.summary, tuple(self.arcs.places[n] for n in label.way)) for label in found]

    def could_result_in(
        self, start: Location, time: Time, end: Location, then: Time
    ) -> list[tuple[Location, Time]] | None:
        """The proof that ``(start, time)`` could result in ``(end, then)``: a path, and the least time at each of its
        locations; None if it could not.

        >>> from pellucid.progress import Source, Target
        >>> graph = Builder(); graph.add_node(0, 1, 1, [[2]])
        >>> proof = PathSummaries(graph).could_result_in(Target(0), 3, Source(0), 7)
        >>> [(str(at), t) for at, t in proof]
        [('0.in0', 3), ('0.out0', 5)]
        >>> PathSummaries(graph).could_result_in(Target(0), 3, Source(0), 4)
        """
        one, two = self._at(start), self._at(end)
        self.arcs.check(one, time)
        order = self.arcs.orders[two]
        order.check(then, str(end))
        for label in self.labels(one).get(two, ()):
            least = label.summary.results_in(time)
            if least is not None and order.le(least, then):
                return list(self._times(label.way, time, then))
        return None

    def _times(self, way: tuple[int, ...], time: Time, then: Time) -> Iterator[tuple[Location, Time]]:
        """The times along a way; where an arc has several summaries, one that keeps within the end."""
        for at, t in zip(way, self._along(way, time, then), strict=True):
            yield self.arcs.places[at], t

    def _along(self, way: tuple[int, ...], time: Time, then: Time) -> list[Time]:
        came: list[dict[Time, Time]] = [{time: time}]  # at each location, the times there and those before them
        for here, there in pairwise(way):
            steps = [summary for to, summary in self.arcs.ways[here] if to == there]
            ends = {end: t for t in came[-1] for s in steps if (end := s.results_in(t)) is not None}
            order = self.arcs.orders[there]
            least = Antichain(ends, order).elements()  # a later one leads to nothing that they do not lead to
            came.append({end: ends[end] for end in least})
        found = [next(t for t in came[-1] if self.arcs.orders[way[-1]].le(t, then))]
        for known in reversed(came[1:]):
            found.append(known[found[-1]])
        return found[::-1]
