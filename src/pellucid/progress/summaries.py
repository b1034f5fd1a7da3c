"""Summaries: how the least time of a message grows on its way from one place to another.

A `Summary` takes a time of one domain to the least time of another at which something may come, or nowhere: beyond
the last time of a domain (an overflow) no message can come; before its first one, from the first on.  Every summary
is monotone.  One is *less or equal* another if, wherever the other leads, it leads at least as early: then the
other says nothing more.

- `Shift`: for times of whole numbers (`Integers`, products of them, lexicographic ones, loop counters): each
  coordinate has something added, or is set, or is dropped or begun at the end; `enter`, `leave` and `feedback` are
  such;
- `Tagged`: for `Domains`: which domain becomes which, and how;
- `Step`: a function of your own, tried on samples;
- `Same`: the time as it is, for any order.

What leads out of the target's times: a summary says how early something may come *at the least*, so a time stands for
all that are at or after it.  Beyond the upper end there is none: it leads nowhere.  Below the lower end there are all:
it leads to the first.  Where a coordinate decides alone, that is a window (the least and the greatest number that get
through as they are; smaller ones do as if they were the least), and windows can be composed.  Among coordinates that
decide one after the other a number beyond the end would have to be carried to the one before; bounds that were chosen
are refused there (`Shift.forgets`), and the ends of 64 bits are kept away from (`pellucid.progress.reachability`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple

from pellucid.errors import PellucidError, PipelineError, UsageError
from pellucid.progress.times import (
    LEAST,
    MOST,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    Order,
    Product,
    Time,
    named,
    several,
    whole,
)

__all__ = [
    "Chain",
    "Same",
    "Set",
    "Shift",
    "Step",
    "Summary",
    "Tagged",
    "advance",
    "enter",
    "feedback",
    "leave",
    "summary",
]


class Layout(NamedTuple):
    """The times of an order as rows of whole numbers: their bounds, and which of them decide together, one after the
    other (the groups; between groups all have to be before)."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    groups: tuple[int, ...]  # how many coordinates each group has


def layout(order: Order) -> Layout | None:
    """How the times of an order are rows of whole numbers; None if they are not.

    >>> layout(Loop(Loop(Integers(0, 9)))).groups, layout(Loop(Integers(0))).low
    ((1, 2), (0, 0))
    """
    if isinstance(order, Integers):
        return Layout((order.low,), (order.high,), (1,))
    if isinstance(order, Loop):
        root, counter = layout(order.root), Integers(0)
        if root is None:
            return None
        low, high = (counter.low,) * order.depth, (counter.high,) * order.depth
        return Layout(root.low + low, root.high + high, (*root.groups, order.depth))
    if isinstance(order, (Product, Lexicographic)):
        parts = [layout(part) for part in order.parts]
        if any(p is None or (isinstance(order, Lexicographic) and len(p.groups) > 1) for p in parts):
            return None
        low = tuple(n for p in parts if p for n in p.low)
        high = tuple(n for p in parts if p for n in p.high)
        groups = tuple(n for p in parts if p for n in p.groups)
        return Layout(low, high, groups if isinstance(order, Product) else (len(low),))
    return None


def pack(order: Order, time: Time) -> tuple[int, ...]:
    """A time as its coordinates.

    >>> pack(Product(Integers(), Lexicographic(Integers(), Integers())), (1, (2, 3)))
    (1, 2, 3)
    """
    if isinstance(order, Integers):
        return (time,)
    if isinstance(order, Loop):
        around = time[: order.width] if order.flat else time[0]
        return (*pack(order.root, around), *time[order.width :])
    if isinstance(order, (Product, Lexicographic)):
        return tuple(n for part, t in zip(order.parts, time, strict=True) for n in pack(part, t))
    raise AssertionError(order)


def unpack(order: Order, row: tuple[int, ...]) -> Time:
    """Coordinates as the time that they are.

    >>> unpack(Product(Integers(), Lexicographic(Integers(), Integers())), (1, 2, 3))
    (1, (2, 3))
    """
    if isinstance(order, Integers):
        return row[0]
    if isinstance(order, Loop):
        around = unpack(order.root, row[: -order.depth])
        return (around if order.flat else (around,)) + row[-order.depth :]
    if isinstance(order, (Product, Lexicographic)):
        out, at = [], 0
        for part in order.parts:
            here = layout(part)
            assert here is not None
            out.append(unpack(part, row[at : at + len(here.low)]))
            at += len(here.low)
        return tuple(out)
    raise AssertionError(order)


class Summary:
    """A monotone way from times of ``source`` to times of ``target``."""

    source: Order
    target: Order

    def results_in(self, time: Time) -> Time | None:
        """The time at the end of the way; None if the time leads nowhere.

        >>> from pellucid.progress import Integers
        >>> from pellucid.progress.summaries import advance
        >>> advance(Integers(0, 9), 5).results_in(3), advance(Integers(0, 9), 5).results_in(7)
        (8, None)
        """
        raise NotImplementedError

    def followed_by(self, other: Summary) -> Summary | None:
        """This way and then the other one; None if no time gets through.

        >>> from pellucid.progress import Integers
        >>> from pellucid.progress.summaries import advance, enter
        >>> both = advance(Integers(), 5).followed_by(advance(Integers(), 2))
        >>> both.results_in(1), advance(Integers(0, 9), 5).followed_by(advance(Integers(0, 9), 5))
        (8, None)
        >>> enter(Integers()).followed_by(advance(Integers(), 1))
        Traceback (most recent call last):
        pellucid.errors.PipelineError: summaries cannot be composed: one ends in times of integers of 64 bits with 1
        loop counter, the next begins with times of integers of 64 bits
        """
        if self.target != other.source:
            raise PipelineError(
                f"summaries cannot be composed: one ends in times of {self.target}, the next begins with times of "
                f"{other.source}"
            )
        return self._then(other)

    def less_equal(self, other: Summary) -> bool:
        """Whether it is at least as early wherever the other leads.

        >>> from pellucid.progress import Integers
        >>> from pellucid.progress.summaries import advance
        >>> advance(Integers(), 1).less_equal(advance(Integers(), 2))
        True
        """
        raise NotImplementedError

    def goes_back(self) -> Time | None:
        """For a way from a domain to itself: a time that is not before the one it leads to; None if there is none.

        >>> from pellucid.progress import Integers
        >>> from pellucid.progress.summaries import advance
        >>> advance(Integers(0), 1).goes_back(), advance(Integers(0), -1).goes_back()
        (None, 1)
        """
        raise NotImplementedError

    def stands(self) -> Time | None:
        """For a way from a domain to itself: a time that it leads to itself; None if there is none.

        >>> from pellucid.progress import Integers
        >>> from pellucid.progress.summaries import advance
        >>> advance(Integers(0), 1).stands(), advance(Integers(0), 0).stands()
        (None, 0)
        """
        raise NotImplementedError

    def forgets(self) -> tuple[Time, Time] | None:
        """A time that leads nowhere, and a later one that leads on; None if there are none.  A clock keeps the least
        times only: with such a way it would forget what the later one leads to.

        The ends of 64 bits do not count, which are no bound that a user chose.

        >>> from pellucid.progress import Integers, Lexicographic
        >>> from pellucid.progress.summaries import advance
        >>> advance(Integers(0, 9), -1).forgets(), advance(Integers(0, 9), 1).forgets()
        ((0, 1), None)
        >>> advance(Lexicographic(Integers(0, 3), Integers(0, 3)), (0, 1)).forgets()
        ((0, 3), (1, 0))
        """
        return None

    def _then(self, other: Summary) -> Summary | None:
        raise NotImplementedError


class Same(Summary):
    """The time as it is.

    >>> from pellucid.progress import Ordered
    >>> Same(Ordered(str)).results_in("a")
    'a'
    """

    def __init__(self, order: Order) -> None:
        self.source = self.target = order

    def results_in(self, time: Time) -> Time | None:
        return time

    def _then(self, other: Summary) -> Summary | None:
        return other

    def less_equal(self, other: Summary) -> bool:
        return isinstance(other, Same) or (other.source == other.target and other.goes_back() is None)

    def goes_back(self) -> Time | None:
        return None

    def stands(self) -> Time | None:
        example = self.source.example()
        return "any" if example is None else example

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.source == other.source

    def __hash__(self) -> int:
        return hash((Same, self.source))

    def __str__(self) -> str:
        return "+0"

    __repr__ = __str__


def on_samples(way: Summary, samples: Iterable[Time], back: bool) -> Time | None:
    for time in samples:
        then = way.results_in(time)
        if then is not None and (way.source.same(time, then) if not back else not way.source.le(time, then)):
            return time
    return None


class Chain(Summary):
    """Summaries one after the other that have no simpler form."""

    def __init__(self, ways: tuple[Summary, ...]) -> None:
        self.ways, self.source, self.target = ways, ways[0].source, ways[-1].target

    def results_in(self, time: Time) -> Time | None:
        then: Time | None = time
        for way in self.ways:
            then = None if then is None else way.results_in(then)
        return then

    def _then(self, other: Summary) -> Summary | None:
        if isinstance(other, Same):
            return self
        last = self.ways[-1].followed_by(other)
        if last is None:
            return None
        return Chain(self.ways[:-1] + (last.ways if isinstance(last, Chain) else (last,)))

    def less_equal(self, other: Summary) -> bool:
        same = isinstance(other, Chain) and len(self.ways) == len(other.ways)
        return same and all(a.less_equal(b) for a, b in zip(self.ways, other.ways, strict=True))  # type: ignore[attr-defined]

    def _samples(self) -> list[Time]:
        known = [t for way in self.ways if way.source == self.source for t in getattr(way, "samples", ())]  # of a Step
        return known or [self.source.example()]

    def goes_back(self) -> Time | None:
        return on_samples(self, self._samples(), back=True)

    def stands(self) -> Time | None:
        return on_samples(self, self._samples(), back=False)

    def __str__(self) -> str:
        return ", ".join(map(str, self.ways))

    __repr__ = __str__


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


class Tagged(Summary):
    """Which domain becomes which, and how; times of a domain that is not named lead nowhere.

    >>> from pellucid.progress import Integers
    >>> from pellucid.progress.summaries import advance
    >>> clocks = Domains({"gmt": Integers(), "pst": Integers()})
    >>> to_pst = Tagged(clocks, {"gmt": ("pst", advance(Integers(), -8))})
    >>> to_pst.results_in(("gmt", 12)), to_pst.results_in(("pst", 12))
    (('pst', 4), None)
    """

    def __init__(self, order: Order, ways: Mapping[str, tuple[str, Summary]]) -> None:
        if not isinstance(order, Domains):
            raise UsageError(f"Tagged: {order} has no domains; it is for times of Domains")
        for tag, pair in named(ways, "Tagged: ways=", "{'gmt': ('pst', a summary)}").items():
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Summary):
                raise UsageError(f"Tagged: {tag!r} leads to {pair!r}: a pair of a domain and a summary is expected")
            to, way = pair
            for name, wanted in ((tag, way.source), (to, way.target)):
                if order.domains.get(name) != wanted:
                    raise UsageError(f"Tagged: the domain {name!r} has no times of {wanted}; {order} are known")
        self.source = self.target = self.order = order
        self.ways = dict(ways)

    def results_in(self, time: Time) -> Time | None:
        if time[0] not in self.ways:
            return None
        to, way = self.ways[time[0]]
        then = way.results_in(time[1])
        return None if then is None else (to, then)

    def _then(self, other: Summary) -> Summary | None:
        if isinstance(other, Same):
            return self
        if not isinstance(other, Tagged):
            return Chain((self, other))
        ways: dict[str, tuple[str, Summary]] = {}
        for tag, (middle, way) in self.ways.items():
            if middle in other.ways:
                to, rest = other.ways[middle]
                whole = way.followed_by(rest)
                if whole is not None:
                    ways[tag] = (to, whole)
        return Tagged(self.order, ways) if ways else None

    def less_equal(self, other: Summary) -> bool:
        if isinstance(other, Same):
            other = Tagged(self.order, {tag: (tag, Same(order)) for tag, order in self.order.domains.items()})
        return isinstance(other, Tagged) and all(
            tag in self.ways and self.ways[tag][0] == to and self.ways[tag][1].less_equal(way)
            for tag, (to, way) in other.ways.items()
        )

    def goes_back(self) -> Time | None:
        for tag, (to, way) in self.ways.items():
            if tag != to:
                time = _some(way)
            else:
                time = way.goes_back()
            if time is not None:
                return (tag, time)
        return None

    def forgets(self) -> tuple[Time, Time] | None:
        for tag, (_, way) in self.ways.items():
            pair = way.forgets()
            if pair is not None:
                return (tag, pair[0]), (tag, pair[1])
        return None

    def stands(self) -> Time | None:
        for tag, (to, way) in self.ways.items():
            if tag == to and (time := way.stands()) is not None:
                return (tag, time)
        return None

    def __str__(self) -> str:
        return "{" + ", ".join(f"{tag}→{to} {way}" for tag, (to, way) in self.ways.items()) + "}"

    __repr__ = __str__


def _some(way: Summary) -> Time:
    """A time that leads somewhere."""
    if isinstance(way, Shift):
        return unpack(way.source, tuple(min(max(0, low), high) for low, high in way.window))
    return way.source.example()


class Step(Summary):
    """A function of your own from times to times (None: nowhere), tried on ``samples``: it must be monotone.

    >>> from datetime import date, timedelta
    >>> from pellucid.progress import Integers, Ordered
    >>> days = [date(2013, 1, d) for d in (1, 2, 3)]
    >>> Step("the next day", lambda t: t + timedelta(days=1), Ordered(date), samples=days).results_in(days[0])
    datetime.date(2013, 1, 2)
    >>> Step("mirrored", lambda t: -t, Integers(), samples=[1, 2])
    Traceback (most recent call last):
    pellucid.errors.PipelineError: mirrored is not monotone: 1 ≤ 2, but it takes them to -1 and -2
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Time], Time | None],
        source: Order,
        target: Order | None = None,
        *,
        samples: Iterable[Time] | None = None,
    ) -> None:
        self.name, self.function = name, function
        if not callable(function):
            raise UsageError(f"{name}: {function!r} cannot be called: give a function of a time")
        self.source, self.target = source, source if target is None else target
        self.samples = list(getattr(source, "samples", ()) if samples is None else samples)
        if not self.samples:
            raise UsageError(f"{name}: give samples=, some times on which it is tried")
        ends = [(source.check(t, f"{name}: samples="), self.results_in(t)) for t in self.samples]
        for a, x in ends:
            for b, y in ends:
                if source.le(a, b) and y is not None and (x is None or not self.target.le(x, y)):
                    raise PipelineError(f"{name} is not monotone: {a!r} ≤ {b!r}, but it takes them to {x!r} and {y!r}")

    def results_in(self, time: Time) -> Time | None:
        try:
            then = self.function(time)
        except PellucidError:
            raise
        except Exception as error:
            raise UsageError(f"{self.name} of {time!r}: {type(error).__name__}: {error}") from error
        return None if then is None else self.target.check(then, f"{self.name} of {time!r}")

    def _then(self, other: Summary) -> Summary | None:
        return self if isinstance(other, Same) else Chain((self, other))

    def less_equal(self, other: Summary) -> bool:
        return self is other  # of two functions it is not known for all times

    def goes_back(self) -> Time | None:
        return on_samples(self, self.samples, back=True)

    def stands(self) -> Time | None:
        return on_samples(self, self.samples, back=False)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def summary(order: Order, given: Any, to: Order | None = None, where: str = "") -> Summary:
    """What a user gives for a summary: a `Summary`, or for times of whole numbers what is added: a number, or a tuple
    of numbers in the form of a time; 0 is the time as it is, of any order.

    >>> summary(Integers(), 1), summary(Product(Integers(), Integers()), (0, 1))
    (+1, (+0, +1))
    >>> summary(Integers(), (0, 1), where="node 3, input 0 to output 0")
    Traceback (most recent call last):
    pellucid.errors.UsageError: node 3, input 0 to output 0: (0, 1) is no summary of times of integers of 64 bits: ...
    """
    target = order if to is None else to
    at = f"{where}: " if where else ""
    if isinstance(given, Summary):
        if (given.source, given.target) != (order, target):
            raise UsageError(
                f"{at}the summary {given} goes from times of {given.source} to times of {given.target}; here times of "
                f"{order} come in and times of {target} go out"
            )
        return given
    shape = layout(order)
    if order == target and shape is not None and not isinstance(given, bool):
        flat = [given] if isinstance(given, (int, Set)) else list(_flat(given))
        if flat == [0]:
            flat = [0] * len(shape.low)
        if len(flat) == len(shape.low) and all(isinstance(n, (int, Set)) for n in flat):
            return Shift(order, target, flat)
    elif order == target and given == 0:
        return Same(order)
    example = order.example() if shape is not None else 0
    raise UsageError(
        f"{at}{given!r} is no summary of times of {order}{'' if order == target else f' to times of {target}'}: "
        f"give what is added, in the form of a time (such as {example!r}), or a Shift, Tagged or Step"
    )


def _flat(given: Any) -> Iterable[Any]:
    if isinstance(given, (tuple, list)) and not isinstance(given, Set):
        for part in given:
            yield from _flat(part)
    else:
        yield given


def advance(order: Order, by: Any) -> Summary:
    """Something is added.

    >>> advance(Integers(), 3).results_in(4)
    7
    """
    return summary(order, by)


def enter(outer: Order) -> Summary:
    """Into a loop: its counter begins at 0.

    >>> enter(Integers()).results_in(7), enter(Loop(Integers())).results_in((7, 3))
    ((7, 0), (7, 3, 0))
    """
    shape = layout(outer)
    return Shift(outer, Loop(outer), [0] * (len(shape.low) if shape else 0) + [Set(0)])


def leave(inner: Order) -> Summary:
    """Out of a loop: its counter is dropped.

    >>> leave(Loop(Integers())).results_in((7, 3))
    7
    """
    if not isinstance(inner, Loop):
        raise UsageError(f"leave: {inner} are not the times of a loop; give the Loop that is left")
    shape = layout(inner)
    return Shift(inner, inner.outer, [0] * (len(shape.low) - 1 if shape else 0))


def feedback(inner: Order, by: int = 1) -> Summary:
    """Once more round the loop.

    >>> feedback(Loop(Integers())).results_in((7, 3))
    (7, 4)
    """
    if not isinstance(inner, Loop):
        raise UsageError(f"feedback: {inner} are not the times of a loop; give the Loop that goes round")
    shape = layout(inner)
    whole(by, "feedback: by=")
    return Shift(inner, inner, [0] * (len(shape.low) - 1 if shape else 0) + [by])
