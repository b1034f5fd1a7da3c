"""Summaries: how the least time of a message grows on its way from one place to another.

A `Summary` takes a time of one domain to a time of another, or nowhere: a time that would leave its domain (an
overflow) is a message that cannot come.  Every summary is monotone.  One is *less or equal* another if, wherever
the other leads, it leads at least as early: then the other says nothing more.

- `Shift`: for times of whole numbers (`Integers`, products of them, lexicographic ones, loop counters): each coordinate
  has something added, or is set, or is dropped or begun at the end; `enter`, `leave` and `feedback` are such;
- `Tagged`: for `Domains`: which domain becomes which, and how;
- `Step`: a function of your own, tried on samples;
- `Same`: the time as it is, for any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.progress.rows import layout, pack, unpack
from pellucid.progress.times import LEAST, MOST, Domains, Integers, Lexicographic, Loop, Order, Product, Time  # noqa: F401


class Summary:
    """A monotone way from times of ``source`` to times of ``target``."""

    source: Order
    target: Order

    def results_in(self, time: Time) -> Time | None:
        """The time at the end of the way; None if the time leads nowhere.

        >>> advance(Integers(0, 9), 5).results_in(3), advance(Integers(0, 9), 5).results_in(7)
        (8, None)
        """
        raise NotImplementedError

    def followed_by(self, other: Summary) -> Summary | None:
        """This way and then the other one; None if no time gets through.

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

        >>> advance(Integers(), 1).less_equal(advance(Integers(), 2))
        True
        """
        raise NotImplementedError

    def goes_back(self) -> Time | None:
        """For a way from a domain to itself: a time that is not before the one it leads to; None if there is none.

        >>> advance(Integers(0), 1).goes_back(), advance(Integers(0), -1).goes_back()
        (None, 1)
        """
        raise NotImplementedError

    def stands(self) -> Time | None:
        """For a way from a domain to itself: a time that it leads to itself; None if there is none.

        >>> advance(Integers(0), 1).stands(), advance(Integers(0), 0).stands()
        (None, 0)
        """
        raise NotImplementedError

    def forgets(self) -> tuple[Time, Time] | None:
        """A time that leads nowhere, and a later one that leads on; None if there are none.  A clock keeps the least
        times only: with such a way it would forget what the later one leads to.

        The ends of 64 bits do not count, which are a bound that nobody chose.

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


# ---------------------------------------------------------------- coordinates


class Set(NamedTuple):
    """A coordinate that becomes this number, whatever it was.

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
        self.moves = tuple(moves)
        if len(self.moves) != len(there.low):
            raise UsageError(f"a summary to times of {target} has {len(there.low)} numbers; {self.moves!r} has not")
        bounds = list(zip(here.low, here.high, strict=True) if window is None else window)
        self.empty = False
        for p, move in enumerate(self.moves):
            if isinstance(move, Set):
                self.empty |= not there.low[p] <= move.to <= there.high[p]
                continue
            if p >= len(bounds):
                raise UsageError(
                    f"times of {source} have no coordinate {p}: nothing can be added to it; write Set({move!r})"
                )
            low, high = bounds[p]
            bounds[p] = max(low, there.low[p] - move), min(high, there.high[p] - move)
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
        if self.empty or not all(low <= n <= high for n, (low, high) in zip(row, self.window, strict=True)):
            return None
        return tuple(m.to if isinstance(m, Set) else row[p] + m for p, m in enumerate(self.moves))

    def _then(self, other: Summary) -> Summary | None:
        if isinstance(other, Same):
            return self
        if not isinstance(other, Shift):
            return _Chain((self, other))
        window = list(self.window)
        for p, (low, high) in enumerate(other.window):
            move = self.moves[p]
            if isinstance(move, Set):
                if not low <= move.to <= high:
                    return None
            else:
                window[p] = max(window[p][0], low - move), min(window[p][1], high - move)
        moves: list[int | Set] = []
        for p, move in enumerate(other.moves):
            before = self.moves[p] if p < len(self.moves) else 0
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
        inside = all(a <= c and d <= b for (a, b), (c, d) in zip(self.window, other.window, strict=True))
        return other.empty or (inside and not self.empty and self._before(other) is None)

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
        row = []
        for p, move in enumerate(self.moves):
            low, high = self.window[p]
            if isinstance(move, Set):
                if not low <= move.to <= high:
                    return None
                row.append(move.to)
            elif move:
                return None
            else:
                row.append(min(max(0, low), high))
        return unpack(self.source, tuple(row))

    def forgets(self) -> tuple[Time, Time] | None:
        if self.empty:
            return None
        through = [min(max(0, low), high) for low, high in self.window]  # a time that leads on
        at = 0
        for size in self.here.groups:
            for p in range(at, at + size):
                (low, high), least, most = self.window[p], self.here.low[p], self.here.high[p]
                if LEAST < least < low:
                    return self._pair(through, {p: low - 1}, {p: low})
                wide = [q for q in range(at, p) if self.window[q][0] < self.window[q][1]]
                if high < most < MOST and wide:
                    q, (first, _) = wide[-1], self.window[wide[-1]]
                    return self._pair(through, {q: first, p: high + 1}, {q: first + 1, p: low})
            at += size
        return None

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


def _least_difference(a: int | Set, b: int | Set, window: tuple[tuple[int, int], ...]) -> int:
    """The least of what ``b`` leads to minus what ``a`` leads to, for the numbers of a window."""
    low, high = window[0] if window else (0, 0)
    if isinstance(a, Set):
        return b.to - a.to if isinstance(b, Set) else low + b - a.to
    return b.to - high - a if isinstance(b, Set) else b - a


# ---------------------------------------------------------------- domains, and your own


class Tagged(Summary):
    """Which domain becomes which, and how; times of a domain that is not named lead nowhere.

    >>> clocks = Domains({"gmt": Integers(), "pst": Integers()})
    >>> to_pst = Tagged(clocks, {"gmt": ("pst", advance(Integers(), -8))})
    >>> to_pst.results_in(("gmt", 12)), to_pst.results_in(("pst", 12))
    (('pst', 4), None)
    """

    def __init__(self, order: Order, ways: Mapping[str, tuple[str, Summary]]) -> None:
        if not isinstance(order, Domains):
            raise UsageError(f"Tagged: {order} has no domains; it is for times of Domains")
        for tag, (to, way) in ways.items():
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
            return _Chain((self, other))
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
    >>> from pellucid.progress import Ordered
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
        then = self.function(time)
        return None if then is None else self.target.check(then, f"{self.name} of {time!r}")

    def _then(self, other: Summary) -> Summary | None:
        return self if isinstance(other, Same) else _Chain((self, other))

    def less_equal(self, other: Summary) -> bool:
        return self is other  # of two functions it is not known for all times

    def goes_back(self) -> Time | None:
        return _on_samples(self, self.samples, back=True)

    def stands(self) -> Time | None:
        return _on_samples(self, self.samples, back=False)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def _on_samples(way: Summary, samples: Iterable[Time], back: bool) -> Time | None:
    for time in samples:
        then = way.results_in(time)
        if then is not None and (way.source.same(time, then) if not back else not way.source.le(time, then)):
            return time
    return None


class _Chain(Summary):
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
        return _Chain(self.ways[:-1] + (last.ways if isinstance(last, _Chain) else (last,)))

    def less_equal(self, other: Summary) -> bool:
        same = isinstance(other, _Chain) and len(self.ways) == len(other.ways)
        return same and all(a.less_equal(b) for a, b in zip(self.ways, other.ways, strict=True))  # type: ignore[attr-defined]

    def _samples(self) -> list[Time]:
        known = [t for way in self.ways if isinstance(way, Step) and way.source == self.source for t in way.samples]
        return known or [self.source.example()]

    def goes_back(self) -> Time | None:
        return _on_samples(self, self._samples(), back=True)

    def stands(self) -> Time | None:
        return _on_samples(self, self._samples(), back=False)

    def __str__(self) -> str:
        return ", ".join(map(str, self.ways))

    __repr__ = __str__


# ---------------------------------------------------------------- short ways to say it


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
    return Shift(inner, inner, [0] * (len(shape.low) - 1 if shape else 0) + [by])
