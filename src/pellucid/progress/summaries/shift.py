"""Coordinates that something is added to, or that are set.

What leads out of the target's times: a summary says how early something may come *at the least*, so a time stands for
all that are at or after it.  Beyond the upper end there is none: it leads nowhere.  Below the lower end there are all:
it leads to the first.  Where a coordinate decides alone, that is a window (the least and the greatest number that get
through as they are; smaller ones do as if they were the least), and windows can be composed.  Among coordinates that
decide one after the other a number beyond the end would have to be carried to the one before; bounds that were chosen
are refused there (`Shift.forgets`), and the ends of 64 bits are kept away from (`pellucid.progress.ends`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.progress.given import several, whole
from pellucid.progress.rows import layout, pack, unpack
from pellucid.progress.summaries.way import Chain, Same, Summary
from pellucid.progress.times import LEAST, MOST, Order, Time


class Set(NamedTuple):
    """A coordinate that becomes this number, whatever it was.

    >>> from pellucid.progress import Integers, Lexicographic
    >>> from pellucid.progress.summaries import summary
    >>> summary(Lexicographic(Integers(), Integers()), (1, Set(0))).results_in((7, 5))
    (8, 0)
    """

    to: int


class Shift(Summary):
    """What becomes of each coordinate: ``moves`` has a number to add, or a `Set`, for each coordinate of the target."""

    def __init__(
        self,
        source: Order,
        target: Order,
        moves: Iterable[int | Set],
        window: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        here, there = layout(source), layout(target)
        if here is None or there is None:
            raise UsageError(f"times of {target if here else source} are not whole numbers: give a Step or a Tagged")
        self.source, self.target, self.here, self.there = source, target, here, there
        self.moves = tuple(several(moves, "moves=", "[0, 1]"))
        for move in self.moves:
            whole(move.to if isinstance(move, Set) else move, "a number of a summary: ")
        if len(self.moves) != len(there.low):
            raise UsageError(f"a summary to times of {target} has {len(there.low)} numbers; {self.moves!r} has not")
        bounds = list(zip(here.low, here.high, strict=True) if window is None else window)
        self.alone, self.first = _alone(here.groups, there.groups), _first(here.groups, there.groups)
        self.empty = False
        for p, move in enumerate(self.moves):
            if isinstance(move, Set):
                outside = not there.low[p] <= move.to <= there.high[p]
                if outside and window is None:
                    raise UsageError(f"Set({move.to}): this number is in no time of {target}")
                self.empty |= outside
                continue
            if p >= len(bounds):
                raise UsageError(
                    f"times of {source} have no coordinate {p}: nothing can be added to it; write Set({move!r})"
                )
            low, high = bounds[p]
            first, last = max(low, there.low[p] - move), min(high, there.high[p] - move)
            bounds[p] = first, last
            if low <= last < first and self.alone[p]:  # whatever it was, it is below the first
                self.moves = (*self.moves[:p], Set(there.low[p]), *self.moves[p + 1 :])
                bounds[p] = low, last
        self.window = tuple(bounds)
        self.empty |= any(low > high for low, high in self.window)
        at = 0
        for size in there.groups:
            group = self.moves[at : at + size]
            if any(isinstance(a, Set) and not isinstance(b, Set) for a, b in pairwise(group)):
                raise UsageError(
                    f"{self}: in lexicographic times a number that comes after one that is set must be set, too; "
                    "otherwise a later time could lead to an earlier one"
                )
            at += size

    def results_in(self, time: Time) -> Time | None:
        row = self.row(pack(self.source, time))
        return None if row is None else unpack(self.target, row)

    def row(self, row: tuple[int, ...]) -> tuple[int, ...] | None:
        """The same, for coordinates."""
        if self.empty:
            return None
        through = list(row)
        for p, (low, high) in enumerate(self.window):
            if self.alone[p]:
                through[p] = max(row[p], low)
            if self.first[p] and through[p] > high:
                return None
        moved = [m.to if isinstance(m, Set) else through[p] + m for p, m in enumerate(self.moves)]
        at = 0
        for size in self.there.groups:
            if not _carry(moved, at, at + size, self.there.low, self.there.high):
                return None
            at += size
        return tuple(moved)

    def _then(self, other: Summary) -> Summary | None:
        if isinstance(other, Same):
            return self
        if not isinstance(other, Shift) or self.carries or other.carries:
            return Chain((self, other))
        window, middle = list(self.window), list(self.moves)
        for p, (low, high) in enumerate(other.window):
            move = self.moves[p]
            alone = other.alone[p] and (p >= len(self.alone) or self.alone[p])
            if isinstance(move, Set):
                if move.to > high or (move.to < low and not alone):
                    return None
                middle[p] = Set(max(move.to, low))
                continue
            first, last = max(window[p][0], low - move), min(window[p][1], high - move)
            if window[p][0] <= last < first and alone:  # whatever it was, it is below what gets through as it is
                first, middle[p] = window[p][0], Set(low)
            window[p] = first, last
        moves: list[int | Set] = []
        for p, move in enumerate(other.moves):
            before = middle[p] if p < len(middle) else 0
            if isinstance(move, Set):
                moves.append(move)
            else:
                moves.append(Set(before.to + move) if isinstance(before, Set) else before + move)
        out = Shift(self.source, other.target, moves, window)
        return None if out.empty or self.empty or other.empty else out

    def less_equal(self, other: Summary) -> bool:
        if isinstance(other, Same):
            other = Shift(other.source, other.target, [0] * len(self.moves))
        if not isinstance(other, Shift):
            return False
        inside = all(self._reaches(other, p) for p in range(len(self.window)))
        return other.empty or (inside and not self.empty and self._before(other) is None)

    def _reaches(self, other: Shift, p: int) -> bool:
        """Whether, in one coordinate, what gets through the other gets through it, and none later for being small."""
        (a, b), (c, d) = self.window[p], other.window[p]
        if d > b or a <= c:
            return d <= b
        if not self.alone[p] or p >= len(self.moves):
            return self.alone[p]
        one, two = self.moves[p], other.moves[p]
        return (one.to if isinstance(one, Set) else a + one) <= (two.to if isinstance(two, Set) else c + two)

    def _before(self, other: Shift) -> int | None:
        """The first group in which it may be later than the other one; None if it never is."""
        at = 0
        for number, size in enumerate(self.there.groups):
            for p in range(at, at + size):
                least = _least_difference(self.moves[p], other.moves[p], other.window[p : p + 1])
                if least > 0:  # always before: what follows in the group does not count
                    break
                if least < 0:
                    return number
            at += size
        return None

    def goes_back(self) -> Time | None:
        same = Shift(self.source, self.target, [0] * len(self.moves), self.window)
        if same._before(self) is None:
            return None
        for row in product(*map(self._telling, range(len(self.window)))):
            tried = unpack(self.source, row)
            then = self.results_in(tried)
            if then is not None and not self.target.le(tried, then):
                return tried
        raise AssertionError(self)

    def _telling(self, p: int) -> list[int]:
        """The numbers of a coordinate on which a difference shows, small ones first."""
        (low, high), move = self.window[p], self.moves[p]
        known = {low, high, 0, 1, *((move.to, move.to + 1) if isinstance(move, Set) else ())}
        return sorted((n for n in known if low <= n <= high), key=abs)

    def stands(self) -> Time | None:
        at = 0
        for size in self.there.groups:
            decides = next((move for move in self.moves[at : at + size] if move != 0), 0)
            if isinstance(decides, int) and decides > 0:
                return None
            at += size
        for row in product(*map(self._standing, range(len(self.window)))):
            if self.row(row) == row:
                return unpack(self.source, row)
        return None

    def _standing(self, p: int) -> list[int]:
        """The numbers of a coordinate that may lead to themselves: any, if it stays; what it is set to; the first."""
        (low, high), move = self.window[p], self.moves[p]
        if isinstance(move, Set):
            return [move.to] if self.here.low[p] <= move.to <= self.here.high[p] else []
        known = [min(max(0, low), high), self.here.low[p]] if move == 0 else [low + move, self.here.low[p]]
        return [n for n in dict.fromkeys(known) if self.here.low[p] <= n <= self.here.high[p]]

    def forgets(self) -> tuple[Time, Time] | None:
        return next((pair for _, pair in self._forgotten()), None)

    @property
    def carries(self) -> bool:
        """Whether a number that leaves bounds that were chosen would have to be carried to the one before it."""
        return not all(self.alone) and any(not self.alone[p] for p, _ in self._forgotten())

    def _forgotten(self) -> Iterator[tuple[int, tuple[Time, Time]]]:
        """Coordinates of which a number leads nowhere and a later time leads on, with such times."""
        if self.empty:
            return
        through = [min(max(0, low), high) for low, high in self.window]  # a time that leads on
        for groups in (self.here.groups, self.there.groups):
            at = 0
            for size in groups:
                for p in range(at, min(at + size, len(self.window))):
                    (low, high), least, most = self.window[p], self.here.low[p], self.here.high[p]
                    kept = p < len(self.moves)
                    clamped = least == LEAST and (self.alone[p] or not kept or self.there.low[p] == LEAST)
                    if least < low and not clamped:
                        yield p, self._pair(through, {p: low - 1}, {p: low})
                    wide = [q for q in range(at, p) if self.window[q][0] < self.window[q][1]]
                    if high < most and wide and not (most == MOST and (not kept or self.there.high[p] == MOST)):
                        q, (first, _) = wide[-1], self.window[wide[-1]]
                        yield p, self._pair(through, {q: first, p: high + 1}, {q: first + 1, p: low})
                at += size

    def _pair(self, through: list[int], *changes: dict[int, int]) -> tuple[Time, Time]:
        a, b = (unpack(self.source, tuple(by.get(p, n) for p, n in enumerate(through))) for by in changes)
        return a, b

    def _key(self) -> tuple[Any, ...]:
        return self.source, self.target, self.moves, self.window

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shift) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        words = [f"={m.to}" if isinstance(m, Set) else f"{m:+d}" for m in self.moves]
        dropped = ["drop"] * (len(self.here.low) - len(self.moves))
        return words[0] if len(words) == 1 and not dropped else f"({', '.join(words + dropped)})"

    __repr__ = __str__


def _alone(here: tuple[int, ...], there: tuple[int, ...]) -> list[bool]:
    """For each coordinate of the source whether it decides alone, there and, where it is kept, in the target."""
    one, two = ([size == 1 for size in groups for _ in range(size)] for groups in (here, there))
    return [alone and (p >= len(two) or two[p]) for p, alone in enumerate(one)]


def _first(here: tuple[int, ...], there: tuple[int, ...]) -> list[bool]:
    """For each coordinate of the source whether none decides before it, there and, where it is kept, in the target."""
    one, two = ([n == 0 for size in groups for n in range(size)] for groups in (here, there))
    return [first and (p >= len(two) or two[p]) for p, first in enumerate(one)]


def _carry(row: list[int], at: int, end: int, low: tuple[int, ...], high: tuple[int, ...]) -> bool:
    """Coordinates that decide one after the other become those of the least time at or after them; False: there is
    none."""
    out = next((p for p in range(at, end) if not low[p] <= row[p] <= high[p]), None)
    if out is None:
        return True
    if row[out] > high[out]:
        one = next((p for p in range(out - 1, at - 1, -1) if row[p] < high[p]), None)
        if one is None:
            return False
        row[one] += 1
        out = one + 1
    row[out:end] = low[out:end]
    return True


def _least_difference(a: int | Set, b: int | Set, window: tuple[tuple[int, int], ...]) -> int:
    """The least of what ``b`` leads to minus what ``a`` leads to, for the numbers of a window."""
    low, high = window[0] if window else (0, 0)
    if isinstance(a, Set):
        return b.to - a.to if isinstance(b, Set) else low + b - a.to
    return b.to - high - a if isinstance(b, Set) else b - a
