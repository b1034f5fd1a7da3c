"""Loops that do not advance the time: refused, because a notification inside would wait for itself.

A loop whose way back takes some time to itself satisfies the paper's Condition 2, and a clock for it would never let
that time pass.  One that takes a time to an earlier one, or to one that is in no order with it, breaks Condition 2: a
node sends into the past.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pellucid.errors import PipelineError
from pellucid.internal.model.components import components
from pellucid.progress.builder import Arcs, Location
from pellucid.progress.paths import Label, spread
from pellucid.progress.summaries import Same, Shift, Summary
from pellucid.progress.times import Time


class Loop(NamedTuple):
    """A loop, what it does to a time, and a time that shows it."""

    places: tuple[Location, ...]
    summary: Summary
    time: Time
    then: Time
    back: bool  # to a time that is not later, and not the same

    @property
    def reason(self) -> str:
        """Why it is refused, in words."""
        way = " → ".join(map(str, self.places))
        node = next(place.node for place in self.places if place.is_target)
        if self.back:
            return (
                f"the loop {way} leads into the past: its summary {self.summary} takes the time {self.time!r} to "
                f"{self.then!r}, so ({node}, {self.time!r}) could result in a message for {self.then!r} into node "
                f"{node}, and {self.time!r} ≤ {self.then!r} does not hold (Condition 2); let it advance the time"
            )
        return (
            f"the loop {way} does not advance the time: a notification at node {node} for the time {self.time!r} would "
            f"never come, because what it sends could come back to it with the time {self.time!r}; give one of its "
            "nodes a summary that advances the time"
        )


def knots(arcs: Arcs) -> list[list[int]]:
    """The parts of the graph in which one can go round, in no order."""
    graph = {n: [there for there, _ in ways] for n, ways in enumerate(arcs.ways)}
    return [part for part in components(graph) if len(part) > 1 or part[0] in graph[part[0]]]


def standing_loop(arcs: Arcs) -> Loop | None:
    """A loop that does not advance the time, if there is one."""
    for part in knots(arcs):
        inside = set(part)
        found = _by_steps(arcs, part, inside) if _only_forward(arcs, part, inside) else _by_paths(arcs, part, inside)
        if found is not None:
            return found
    return None


def refuse_standing_loops(arcs: Arcs) -> None:
    """An error for a graph that has a loop which does not advance the time."""
    found = standing_loop(arcs)
    if found is not None:
        raise PipelineError(found.reason)


def _only_forward(arcs: Arcs, part: list[int], inside: Collection[int]) -> bool:
    """Whether every single step stays in one domain and adds nothing negative: then a loop stands still only if each of
    its steps does."""
    order = arcs.orders[part[0]]
    for n in part:
        for there, way in arcs.ways[n]:
            if there in inside and not isinstance(way, Same):
                if not isinstance(way, Shift) or way.source != way.target:
                    return False
                if not all(isinstance(move, int) and move >= 0 for move in way.moves):
                    return False
        if arcs.orders[n] != order:
            return False
    return True


def stays(way: Summary) -> bool:
    """Whether a single step leaves a time as it is."""
    return isinstance(way, Same) or (isinstance(way, Shift) and all(move == 0 for move in way.moves))


def _by_steps(arcs: Arcs, part: list[int], inside: Collection[int]) -> Loop | None:
    still = {n: [there for there, way in arcs.ways[n] if there in inside and stays(way)] for n in part}
    for knot in components(still):
        if len(knot) > 1 or knot[0] in still[knot[0]]:
            within = set(knot)
            start = min(n for n in knot if arcs.places[n].is_target)
            before = {start: start}
            todo = [start]
            for n in todo:
                for there in still[n]:
                    if there == start:
                        way = [n]
                        while way[-1] != start:
                            way.append(before[way[-1]])
                        return _loop(arcs, Label(Same(arcs.orders[start]), (*reversed(way), start)))
                    if there in within and there not in before:
                        before[there] = n
                        todo.append(there)
    return None


def _by_paths(arcs: Arcs, part: list[int], inside: set[int]) -> Loop | None:
    left = set(inside)
    alike = _adds(arcs, part, inside)
    for start in sorted(part, key=lambda n: (not arcs.places[n].is_target, n)):
        for label in spread(arcs, start, left)[1]:
            found = _loop(arcs, label)
            if found is not None:
                return found
        if alike:
            left.discard(start)  # all loops through it advance, from wherever one begins
    return None


def _adds(arcs: Arcs, part: list[int], inside: set[int]) -> bool:
    """Whether every step adds something: then a loop does the same from each of its places.  One that goes through
    other domains, or sets or drops a coordinate, may lead a time nowhere from one place and into the past from
    another."""
    ways = [way for n in part for there, way in arcs.ways[n] if there in inside]
    return all(
        isinstance(way, Same)
        or (isinstance(way, Shift) and way.source == way.target and all(isinstance(move, int) for move in way.moves))
        for way in ways
    )


def _loop(arcs: Arcs, label: Label) -> Loop | None:
    way, places = label.summary, tuple(arcs.places[n] for n in label.way)
    for time, back in ((way.goes_back(), True), (way.stands(), False)):
        if time is not None:
            return Loop(places, way, time, way.results_in(time), back)
    return None
