"""Summaries of domains, and functions of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pellucid.errors import PellucidError, PipelineError, UsageError
from pellucid.progress.given import named
from pellucid.progress.rows import unpack
from pellucid.progress.summaries.shift import Shift
from pellucid.progress.summaries.way import Chain, Same, Summary, on_samples
from pellucid.progress.times import Domains, Order, Time


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
