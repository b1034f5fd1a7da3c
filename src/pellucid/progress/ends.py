"""The ends of 64 bits, which nobody chose: how far from them the numbers of a time have to stay.

A coordinate that decides alone may come to either end: beyond the upper one there is no time, so it leads nowhere, and
below the lower one there are all, so it leads to the first (`pellucid.progress.summaries.shift`).  Among coordinates
that decide one after the other (`Lexicographic`, the counters of a loop inside a loop) that is not so:
``(1, 2**63 - 1)`` with one more in its last number leads to no time that begins with 1, and yet there are later ones,
such as ``(2, 0)``, that lead on.  A clock that keeps the least times would forget them.  So times that could come that
far on their way through the graph are refused by name, where they come in: each location adds to a time at most once
before the time comes back to it later, so nothing moves by more than the sum of what all locations add.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.progress.rows import layout, pack
from pellucid.progress.summaries import Chain, Set, Shift, Summary, Tagged
from pellucid.progress.times import LEAST, MOST, Domains, Order, Time


class Ends(NamedTuple):
    """For coordinates that must stay away from an end: the least and the greatest number that they may begin with."""

    low: dict[int, int]
    high: dict[int, int]

    def refuse(self, order: Order, time: Time, where: str) -> None:
        """An error for a time that is too near an end.

        >>> from pellucid.progress import Integers, Lexicographic
        >>> Ends({}, {1: MOST - 1}).refuse(Lexicographic(Integers(), Integers()), (7, MOST), "a.in0")
        Traceback (most recent call last):
        pellucid.errors.UsageError: a.in0: the time (7, 9223372036854775807) is too near the end of 64 bits: ...
        """
        if not self.low and not self.high:
            return
        inner, shown = order, time
        if isinstance(order, Domains):
            inner, shown = order.domains[time[0]], time[1]
        if layout(inner) is None:
            return
        for p, n in enumerate(pack(inner, shown)):
            low, high = self.low.get(p, LEAST), self.high.get(p, MOST)
            if not low <= n <= high:
                span = f"at most {high}" if n > high else f"at least {low}"
                raise UsageError(
                    f"{where}: the time {time!r} is too near the end of 64 bits: on its way through the graph its "
                    f"number {n} could leave them, and later times that may still come would be forgotten; it may be "
                    f"{span}"
                )


def ends(orders: Sequence[Order], ways: Sequence[Iterable[tuple[int, Summary]]]) -> Ends:
    """How far from the ends the times of a graph have to stay; refuse a graph in which there is no room left."""
    below, above = _bound(orders)
    if not below and not above:
        return Ends({}, {})
    down, up = dict.fromkeys(below, 0), dict.fromkeys(above, 0)
    for leads in ways:
        most_down, most_up = dict.fromkeys(below, 0), dict.fromkeys(above, 0)
        for _, way in leads:
            for shift in shifts(way):
                for p, move in enumerate(shift.moves):
                    if isinstance(move, int):
                        if p in below:
                            most_down[p] = max(most_down[p], -move)
                        if p in above:
                            most_up[p] = max(most_up[p], move)
        for p, n in most_down.items():
            down[p] += n
        for p, n in most_up.items():
            up[p] += n
    found = Ends({p: LEAST + n for p, n in down.items() if n}, {p: MOST - n for p, n in up.items() if n})
    for leads in ways:
        for _, way in leads:
            _check_set(way, found)
    for p in {*found.low, *found.high}:
        if found.low.get(p, LEAST) > found.high.get(p, MOST) or down.get(p, 0) > MOST or up.get(p, 0) > MOST:
            raise PipelineError(
                f"the summaries of the graph move number {p} of a time by more than 64 bits hold, where numbers decide "
                "one after the other: take smaller ones"
            )
    return found


def _bound(orders: Iterable[Order]) -> tuple[set[int], set[int]]:
    """The coordinates that must not leave 64 bits at the lower end, and at the upper one."""
    below: set[int] = set()
    above: set[int] = set()
    for order in set(orders):
        for one in order.domains.values() if isinstance(order, Domains) else (order,):
            shape = layout(one)
            at = 0
            for size in shape.groups if shape is not None else ():
                assert shape is not None
                for p in range(at, at + size) if size > 1 else ():
                    if shape.low[p] == LEAST:
                        below.add(p)
                    if p > at and shape.high[p] == MOST:
                        above.add(p)
                at += size
    return below, above


def shifts(way: Summary) -> Iterator[Shift]:
    """What a summary adds, wherever it does."""
    if isinstance(way, Shift):
        yield way
    elif isinstance(way, Tagged):
        for _, inner in way.ways.values():
            yield from shifts(inner)
    elif isinstance(way, Chain):
        for inner in way.ways:
            yield from shifts(inner)


def _check_set(way: Summary, found: Ends) -> None:
    for shift in shifts(way):
        for p, move in enumerate(shift.moves):
            if isinstance(move, Set) and not found.low.get(p, LEAST) <= move.to <= found.high.get(p, MOST):
                raise PipelineError(
                    f"the summary {shift} sets a number to {move.to}, which is too near the end of 64 bits: what the "
                    "graph adds to it later leads out of them"
                )
