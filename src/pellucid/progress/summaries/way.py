"""What a summary is; the one that changes nothing; and several, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.errors import PipelineError
from pellucid.progress.times import Order, Time


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

        The ends of 64 bits do not count, which are a bound that nobody chose.

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
