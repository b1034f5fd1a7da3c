"""A measured job: its steps, what came to them, how busy they were, what waits.

Spark, Flink and the local engine measure different things; each reader puts them into these fields and leaves out
what it does not know (None: not measured, never a guess).  Times are seconds, rates are events per second.

The one number that plans are made of is `MeasuredStep.capacity`, the events per second that a step could take if it
were always busy: those that it did take, divided by the share of its time that it was busy; of micro-batches, which
cost something before their first row, what is left when they are long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations, pairwise
from statistics import median
from typing import Any

from pellucid.errors import DataError, UsageError, nearest


@dataclass(frozen=True)
class Sample:
    """One look at a job: from ``at`` on, ``seconds`` of work for ``events`` that had come.

    ``at`` counts from the first sample; ``left`` is what had come before and was not taken, ``waiting`` what had come
    when that work was done.
    """

    at: float
    events: int
    seconds: float
    waiting: float | None = None
    left: float | None = None


@dataclass(frozen=True)
class MeasuredStep:
    """A step as it was measured.

    >>> step = MeasuredStep("parse", rate=80.0, processed=80.0, busy=0.4, workers=2, out=160.0)
    >>> step.capacity, step.ratio, step.load
    (200.0, 2.0, 0.4)
    """

    name: str
    rate: float | None = None  # events that come, per second
    processed: float | None = None  # events that it gets through, per second
    busy: float | None = None  # the share of their time that its workers work, 0 to 1
    able: float | None = None  # events per second that it could take, where that is known otherwise
    lag: float | None = None  # events that wait
    growth: float | None = None  # of the lag, per second, where there always was one
    out: float | None = None  # events that it emits, per second
    workers: int = 1
    partitions: int | None = None  # of its input: no more workers than that have something to do
    keys: int | None = None  # different keys, or groups of keys: likewise
    state: int | None = None  # rows that it holds
    state_bytes: int | None = None
    skew: float | None = None  # the share of all its events that its busiest key or partition has, 0 to 1
    hears: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rate", "processed", "busy", "able", "lag", "out"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise DataError(f"step {self.name}: {name} is {value}: expected a number that is not below 0")
        for name in ("workers", "partitions", "keys"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"step {self.name}: {name} is {value}: expected 1 or more")
        if self.skew is not None and not 0 < self.skew <= 1:
            raise DataError(f"step {self.name}: skew is {self.skew}: expected a part of all events, up to 1")

    @property
    def capacity(self) -> float | None:
        """Events per second if all its workers worked all the time; None if nothing came, or busy is not known.  Of a
        step that falls behind it is not more than what it got through: there was always something to do.

        >>> MeasuredStep("late", rate=150.0, processed=100.0, busy=0.2, growth=50.0).capacity
        100.0
        """
        if self.able is None and not (self.processed and self.busy):
            return None
        able = self.able if self.able is not None else (self.processed or 0.0) / (self.busy or 1.0)
        if self.behind and self.arrivals is not None and self.growth is not None:
            return min(able, self.arrivals - self.growth) or None
        return able

    @property
    def behind(self) -> bool:
        """Whether what waits grew, by more than 1 % of what came, while it was measured."""
        return self.growth is not None and self.arrivals is not None and self.growth > 0.01 * self.arrivals

    @property
    def held(self) -> bool:
        """Whether it falls behind though its workers have time: then more of them do not help."""
        return self.behind and self.busy is not None and self.busy < 0.9

    @property
    def usable(self) -> float | None:
        """What of its capacity can be used: a hot key is one worker's, and the step is done when that worker is.

        >>> MeasuredStep("count", processed=400.0, busy=0.5, workers=2, skew=0.8).usable
        500.0
        """
        if self.capacity is None or self.skew is None:
            return self.capacity
        return min(self.capacity, self.capacity / self.workers / self.skew)

    @property
    def arrivals(self) -> float | None:
        """Events per second that come to its queue: those that are taken, and those that wait since."""
        if self.rate is not None:
            return self.rate
        if self.processed is None or self.growth is None:
            return None
        return max(0.0, self.processed + self.growth)

    @property
    def ratio(self) -> float | None:
        """Events out for each one in."""
        if self.out is None or not self.processed:
            return None
        return self.out / self.processed

    @property
    def load(self) -> float | None:
        """Arrivals by what it can use of its capacity: above 1 the lag grows for ever."""
        if self.arrivals is None or self.usable is None:
            return None
        return self.arrivals / self.usable

    @property
    def most(self) -> int | None:
        """The most workers that have something to do: partitions, keys, and 1 / the share of a hot key."""
        known = [n for n in (self.partitions, self.keys) if n is not None]
        if self.skew is not None:
            known.append(-int(-1 // self.skew))  # rounded up
        return min(known, default=None)


@dataclass(frozen=True)
class Job:
    """The steps of a job by name, and how it was measured.

    >>> job = Job("flights", "flink", {"parse": MeasuredStep("parse", rate=80.0)}, seconds=10.0)
    >>> job.step("parse").rate, job.sources()
    (80.0, ['parse'])
    >>> job.step("parze")
    Traceback (most recent call last):
    pellucid.errors.UsageError: the job flights has no step parze; did you mean 'parse'?
    """

    name: str
    kind: str  # spark, flink or local
    steps: Mapping[str, MeasuredStep]
    seconds: float = 0.0  # that were measured
    samples: tuple[Sample, ...] = ()
    notes: tuple[str, ...] = field(default=())
    assumed: bool = False  # whether events come at rates that were not measured (`with_rates`)

    def __post_init__(self) -> None:
        for step in self.steps.values():
            for heard in step.hears:
                if heard not in self.steps:
                    raise DataError(
                        f"{self.name}: step {step.name} hears {heard}, which is not there"
                        f"{nearest(heard, list(self.steps))}"
                    )
        self.order()

    def step(self, name: str) -> MeasuredStep:
        """A step by its name."""
        if name not in self.steps:
            raise UsageError(f"the job {self.name} has no step {name}{nearest(name, list(self.steps))}")
        return self.steps[name]

    def listeners(self, name: str) -> list[str]:
        """The steps that hear one."""
        return [other for other, step in self.steps.items() if name in step.hears]

    def sources(self) -> list[str]:
        """The steps that hear no other."""
        return [name for name, step in self.steps.items() if not step.hears]

    def order(self) -> list[str]:
        """The steps, each after all those that it hears."""
        left, done = dict(self.steps), list[str]()
        while left:
            ready = [name for name, step in left.items() if not any(h in left for h in step.hears)]
            if not ready:
                raise DataError(f"{self.name}: the steps {', '.join(left)} hear each other in a circle")
            done += ready
            for name in ready:
                del left[name]
        return done

    def with_workers(self, workers: Mapping[str, int]) -> Job:
        """The same measurements, made with so many workers: where the measuring system does not say."""
        steps = dict(self.steps)
        for name, count in workers.items():
            steps[name] = replace(self.step(name), workers=count)
        return replace(self, steps=steps)

    def with_rates(self, rates: Mapping[str, float]) -> Job:
        """The same steps, if so many events came: what if there are twice as many?

        >>> job = Job("late", "flink", {"parse": MeasuredStep("parse", processed=80.0, busy=0.4)})
        >>> job.with_rates({"parse": 160.0}).steps["parse"].load
        0.8
        """
        steps = dict(self.steps)
        for name, rate in rates.items():
            step = self.step(name)
            if step.hears:
                raise UsageError(f"rate {name}={rate:g}: events come to the sources ({', '.join(self.sources())}) only")
            if not 0 <= rate < float("inf"):
                raise UsageError(f"rate {name}={rate:g}: expected events per second")
            if step.held:
                raise UsageError(
                    f"rate {name}={rate:g}: what {name} can take was not measured: {step.arrivals:.4g} events came a "
                    f"second and {step.capacity or 0.0:.4g} were taken, while its workers were busy only "
                    f"{100 * (step.busy or 0.0):.0f} % of the time: measure it without what holds it back"
                )
            steps[name] = replace(step, rate=rate, growth=None, able=step.capacity)
        return replace(self, steps=steps, assumed=bool(rates) or self.assumed)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        steps = [{**_known(step), "capacity": step.capacity, "load": step.load} for step in self.steps.values()]
        return {"name": self.name, "kind": self.kind, "seconds": self.seconds, "steps": steps, "notes": [*self.notes]}


def _known(step: MeasuredStep) -> dict[str, Any]:
    found = asdict(step)
    return {f.name: list(found[f.name]) if f.name == "hears" else found[f.name] for f in fields(MeasuredStep)}


def number(value: Any, what: str) -> float | None:
    """A number of a JSON document; None for what is left out and for NaN, which Spark and Flink write as a text.

    >>> number("12.5", "rate"), number("NaN", "rate"), number(None, "rate")
    (12.5, None, None)
    """
    if value is None:
        return None
    try:
        found = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise DataError(f"{what}: expected a number, got {value!r}")
    return found if abs(found) < float("inf") else None


def counted(value: Any, what: str) -> float:
    """A number that has to be there: of events, or of seconds.

    >>> counted(12, "numInputRows"), counted("0.5", "seconds")
    (12.0, 0.5)
    >>> counted(-3, "batch 7: numInputRows")
    Traceback (most recent call last):
    pellucid.errors.DataError: batch 7: numInputRows: expected a number that is not below 0, got -3
    """
    found = number(value, what)
    if found is None or found < 0:
        raise DataError(f"{what}: expected a number that is not below 0, got {value!r}")
    return found


def objects(value: Any, what: str) -> list[Mapping[str, Any]]:
    """A list of objects of a JSON document.

    >>> objects([{"a": 1}], "sources"), objects(None, "stateOperators")
    ([{'a': 1}], [])
    """
    found = [] if value is None else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, Mapping) for one in found):
        raise DataError(f"{what}: expected a list of objects, got {value!r}")
    return list(found)


def only(steps: Iterable[MeasuredStep]) -> dict[str, MeasuredStep]:
    """Steps by name; two of one name are distinguished by a number."""
    out: dict[str, MeasuredStep] = {}
    for step in steps:
        name, more = step.name, 2
        while name in out:
            name, more = f"{step.name} {more}", more + 1
        out[name] = replace(step, name=name)
    return out


# Micro-batches: what one costs, and what follows from that for the lag.
#
# A batch costs something before its first row (planning, offsets, a commit) and something for each row.  What takes
# all that waits, works on it and then looks again, as Spark does without a limit per trigger, is never done: while it
# works, more comes.  At ``rate`` rows a second the batches settle at ``rate * (fixed + row * n) = n`` rows, if ``rate *
# row`` is below 1; otherwise each one is longer than the one before, and the lag grows for ever.


@dataclass(frozen=True)
class BatchCost:
    """Seconds for a batch: ``fixed``, and ``row`` for each row in it.

    >>> cost = BatchCost(fixed=0.5, row=0.001)
    >>> cost.seconds(1000), cost.capacity, cost.settled(500)
    (1.5, 1000.0, 500.0)
    >>> cost.settled(1000) is None, cost.growth(1500)
    (True, 500.0)
    """

    fixed: float
    row: float
    every: float = 0.0  # seconds from one batch to the next, if it is done by then (the trigger)

    def seconds(self, rows: float) -> float:
        """How long a batch of so many rows takes."""
        return self.fixed + self.row * rows

    @property
    def capacity(self) -> float:
        """Rows per second in arbitrarily long batches: what no rate may reach."""
        return 1 / self.row if self.row > 0 else float("inf")

    def settled(self, rate: float) -> float | None:
        """The rows of a batch, which are those that came during the one before, when nothing changes any more; None if
        it never settles."""
        load = rate * self.row
        return rate * max(self.every, self.fixed / (1 - load)) if load < 1 else None

    def growth(self, rate: float) -> float:
        """Rows per second by which the lag grows in the long run."""
        return max(0.0, rate - self.capacity)

    def next_rows(self, rate: float, rows: float) -> float:
        """What waits when a batch of so many rows is done."""
        return rate * max(self.every, self.seconds(rows))

    def largest_rate(self, rows: float) -> float:
        """The highest rate at which no batch settles above so many rows."""
        return rows / max(self.every, self.seconds(rows))

    def longest(self, curve: Callable[[float], float], *, rounds: int = 10_000) -> float | None:
        """The most rows that a batch can have, if no window of any length has more arrivals than ``curve`` says: the
        least length d, not below ``every``, with ``fixed + row * curve(d) <= d``; None if there is none.

        >>> round(BatchCost(0.5, 0.001).longest(lambda length: 100 + 500 * length))
        700
        """
        length = max(self.every, self.fixed)
        for _ in range(rounds):
            longer = max(self.every, self.seconds(curve(length)))
            if longer <= length * (1 + 1e-12):
                return curve(length)
            length = longer
        return None


def batch_cost(samples: Iterable[Sample]) -> BatchCost | None:
    """What batches cost, by Theil and Sen: the median of the slopes between any two, so that the first batch, which
    starts Python, does not count for more than one.  None if all batches are equally long, or longer ones cost less.

    >>> batch_cost([Sample(0, 100, 0.6), Sample(1, 200, 0.7), Sample(2, 300, 0.8), Sample(3, 100, 9.0)])
    BatchCost(fixed=0.5, row=0.001, every=1)
    """
    samples = list(samples)
    points = _thinned([(s.events, s.seconds) for s in samples if s.events > 0])
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if a[0] != b[0]]
    if not slopes:
        return None
    row = median(slopes)
    fixed = median(seconds - row * rows for rows, seconds in points)
    if row < 0:  # the longer ones came when there was less else to do: nothing can be said about a row
        return None
    if fixed < 0:  # nothing costs less than nothing
        row, fixed = median(seconds / rows for rows, seconds in points), 0.0
    return BatchCost(round(fixed, 9), round(row, 9), _every(samples))


def _every(samples: Sequence[Sample]) -> float:
    """The time from one batch to the next, where most of them wait for it."""
    waits = [b.at - a.at for a, b in pairwise(samples) if b.at - a.at > 1.02 * a.seconds]
    if 2 * len(waits) <= len(samples) - 1:
        return 0.0
    usual = median(waits)
    return round(usual, 3) if sum(abs(w - usual) < 0.1 * usual for w in waits) * 2 > len(waits) else 0.0


def _thinned(points: Sequence[tuple[int, float]], most: int = 600) -> Sequence[tuple[int, float]]:
    """All pairs of many batches would take long: every n-th of them is enough."""
    return points if len(points) <= most else points[:: -(-len(points) // most)]


def predicted(cost: BatchCost, rate: float, seconds: float, *, first: float = 0.0) -> list[tuple[float, float]]:
    """When each batch begins and how many rows it takes, at an even rate; ``first`` rows wait at the start.

    >>> [(at, round(rows)) for at, rows in predicted(BatchCost(0.5, 0.001), 500, 3)]
    [(0.0, 0), (0.5, 250), (1.25, 375), (2.125, 438)]
    """
    if rate < 0 or seconds < 0:
        raise UsageError("a rate and a time must not be below 0")
    at, rows, out = 0.0, first, list[tuple[float, float]]()
    while at < seconds:
        out.append((at, rows))
        took = max(cost.every, cost.seconds(rows), 1e-3)
        at, rows = at + took, rate * took
    return out
