"""A plan for a measured job: who keeps up, how many workers each step needs, how long until the backlog is gone.

Three answers stand side by side, since they answer different questions: the *least* workers that keep up with the
average at all (our line), the workers that keep the queue below a limit for the bursts that were seen (the curve), and
the production formula, which leaves room for lag and restarts (`scale`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any, TypeAlias

from pellucid.capacity.measured.job import BatchCost, Job, MeasuredStep, batch_cost
from pellucid.capacity.measured.read import arrivals_of
from pellucid.capacity.report import amount, percent, seconds_text, table
from pellucid.errors import UsageError
from pellucid.internal.model import Status, combined

# Bursts: the most that came in any window of a length, and how long a queue gets by that.
#
# The *empirical arrival curve* of a recording says for each length of a window how many events came in the fullest
# window of that length.  It bounds the queue for every stream that is no burstier than the recording, whatever the
# order of its bursts (network calculus; Cruz, 1991).  With W workers that need t for an event, the n-th begins at the
# latest of ``arrival(n - k * W) + k * t``; so a tuple that waits at some time came not more than ``k * t`` after those
# that it waits for, and the queue is at most ``curve(k * t) - k * W`` for some k.  The recording itself reaches this
# bound. Between two lengths that were measured the curve is taken for the longer one: the bound stays one.

EXACT = 1500  # arrivals up to which every length is looked at


@dataclass(frozen=True)
class Curve:
    """The most events in a window: ``most[i]`` in one of ``windows[i]`` seconds (its ends included); after the longest
    one, ``most[-1]``.  ``exact``: it steps up at these lengths and nowhere else.

    >>> curve = Curve((0.0, 1.0, 4.0), (2, 3, 6))
    >>> curve(0), curve(0.5), curve(9)
    (2, 3, 6)
    """

    windows: tuple[float, ...]
    most: tuple[int, ...]
    exact: bool = False

    def __post_init__(self) -> None:
        if len(self.windows) != len(self.most) or not self.windows or list(self.windows) != sorted(set(self.windows)):
            raise UsageError("a curve needs windows, each longer than the one before, and a number of events for each")

    def __call__(self, length: float) -> int:
        """The most in a window of this length, or more where it was not measured."""
        if self.exact:
            return self.most[max(0, bisect_right(self.windows, length) - 1)]
        return self.most[min(bisect_left(self.windows, length), len(self.most) - 1)]

    @property
    def rate(self) -> float:
        """Events per second over all of it."""
        return self.most[-1] / self.windows[-1] if self.windows[-1] > 0 else float("inf")

    def queue(self, time: float | Fraction, workers: int = 1) -> int:
        """No queue before so many workers, each busy for ``time`` with an event, is ever longer (an event that is being
        worked on does not wait any more; one that comes at the same time does until all have come).

        >>> Curve((0.0, 1.0, 4.0), (2, 3, 6)).queue(time=1), Curve((0.0, 1.0, 4.0), (2, 3, 6)).queue(time=1, workers=2)
        (4, 2)
        """
        self._check(time, workers)
        return max(self.most[0], *(count - workers * rounds for _, count, rounds in self._rounds(time)))

    def delay(self, time: float | Fraction, workers: int = 1) -> float:
        """No event waits longer before it is taken, if they are taken in their order.

        >>> arrival_curve([0, 0, 0, 5]).delay(time=1, workers=2), arrival_curve([0, 2, 4]).delay(3)
        (1.0, 2.0)
        """
        self._check(time, workers)
        # of those that came within a length, the last one waits for as many rounds as there are before it
        return max(0.0, *(float((count - 1) // workers * time - length) for length, count, _ in self._rounds(time)))

    def _check(self, time: float | Fraction, workers: int) -> None:
        if time <= 0 or workers < 1:
            raise UsageError("a queue needs a time above 0 and 1 worker or more")

    def _rounds(self, time: float | Fraction) -> list[tuple[float, int, int]]:
        """Least lengths, the events in them, and how often each worker is done in that time, rounded up."""
        if self.exact:
            return [(w, count, int(-(-w // time))) for w, count in zip(self.windows, self.most, strict=True)]
        longer = [(w, count, int(w // time) + 1) for w, count in zip(self.windows, self.most[1:], strict=False)]
        return [(0.0, self.most[0], 0), *longer]

    def workers(self, time: float | Fraction, limit: int, *, most: int = 1_000_000) -> int | None:
        """The fewest workers for which no more than ``limit`` wait; None if no number up to ``most`` is enough.

        >>> curve = arrival_curve([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
        >>> curve.workers(1, limit=5), curve.workers(1, limit=4), curve.workers(1, limit=3)
        (2, 3, None)
        """
        if self.queue(time, most) > limit:
            return None
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if self.queue(time, middle) <= limit:
                high = middle
            else:
                low = middle + 1
        return low

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"windows": list(self.windows), "most": list(self.most)}


Arrival: TypeAlias = "float | tuple[float, int] | tuple[float, float, int]"


def arrival_curve(arrivals: Iterable[Arrival], windows: Sequence[float] | None = None) -> Curve:
    """The curve of events that came at these times, or of so many at each, or of so many between two times, and it is
    not known when (then each may have come at either end).  ``windows`` are all lengths that occur, of up to 1,500
    times, and else 1, 2 and 5 of every power of ten.

    >>> arrival_curve([0, 0, 3, 4])
    Curve(windows=(0.0, 1.0, 3.0, 4.0), most=(2, 2, 3, 4), exact=True)
    >>> arrival_curve([(0, 2), (3, 1), (4, 1)], windows=[1, 10])
    Curve(windows=(1.0, 10.0), most=(2, 4), exact=False)
    >>> arrival_curve([(0, 1, 5), (1, 2, 7), (2, 3, 5)], windows=[0, 1])
    Curve(windows=(0.0, 1.0), most=(12, 17), exact=False)
    """
    spans = _spans(arrivals)
    if not spans:
        raise UsageError("an arrival curve needs an arrival")
    before = [0]
    for _, _, count in spans:
        before.append(before[-1] + count)
    if windows is not None:
        lengths = [float(w) for w in sorted(set(windows))]
    elif len(spans) <= EXACT:
        return _all_lengths(spans, before)
    else:
        gaps = [b[0] - a[1] for a, b in pairwise(spans) if b[0] > a[1]]
        lengths = window_lengths(min(gaps, default=1.0), spans[-1][0] - spans[0][1])
    return Curve(tuple(lengths), tuple(_most(spans, before, length) for length in lengths))


def _spans(arrivals: Iterable[Arrival]) -> list[tuple[float, float, int]]:
    """From when to when each came, in order; those of one time together."""
    counts: dict[tuple[float, float], int] = {}
    for one in arrivals:
        first, last, count = (
            (one, one, 1) if not isinstance(one, tuple) else one if len(one) == 3 else (one[0], one[0], one[1])
        )
        if first > last or count < 0:
            raise UsageError(f"an arrival of {count} events from {first} to {last} cannot be")
        if count:
            counts[float(first), float(last)] = counts.get((float(first), float(last)), 0) + int(count)
    spans = [(first, last, count) for (first, last), count in sorted(counts.items())]
    if any(a[1] > b[1] for a, b in pairwise(spans)):
        raise UsageError(
            "times between which events came may not lie inside others: give those of one source at a time"
        )
    return spans


def _all_lengths(spans: Sequence[tuple[float, float, int]], before: Sequence[int]) -> Curve:
    """Every length that occurs; of many, only those at which the curve steps up."""
    best: dict[float, int] = {}
    for i, (_, end, _) in enumerate(spans):
        for j in range(i, len(spans)):
            length, count = max(0.0, spans[j][0] - end), before[j + 1] - before[i]
            if count > best.get(length, 0):
                best[length] = count
    windows, most = list[float](), list[int]()
    for length in sorted(best):
        count = max(best[length], most[-1] if most else 0)
        if not most or count > most[-1] or len(best) <= 64:
            windows.append(length)
            most.append(count)
    return Curve(tuple(windows), tuple(most), exact=True)


def _most(spans: Sequence[tuple[float, float, int]], before: Sequence[int], length: float) -> int:
    """Two fingers over the times."""
    best, j = 0, 0
    for i, (_, end, _) in enumerate(spans):
        while j < len(spans) and spans[j][0] <= end + length:
            j += 1
        best = max(best, before[j] - before[i])
    return best


def window_lengths(shortest: float, longest: float) -> list[float]:
    """0, and 1, 2 and 5 of every power of ten from one length to another.

    >>> window_lengths(0.03, 12)
    [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    out, power = [0.0], -9
    shortest = max(shortest, 1e-6)
    while True:
        for digit in (1, 2, 5):
            length = float(Fraction(digit) * Fraction(10) ** power)
            following = float(Fraction({1: 2, 2: 5, 5: 10}[digit]) * Fraction(10) ** power)
            if following > shortest:
                out.append(length)
            if length >= longest:
                return out
        power += 1


# How many workers a measured step needs: the formula that autoscalers use in production, and what limits it.
#
# ``needed = lag / catch_up + rate * restart / catch_up + rate / target``: events per second to work off what waits, to
# work off what comes in while the job restarts, and to keep up with what comes with some room left (Flink's autoscaler,
# `AutoScalerUtils.getTargetProcessingCapacity`; rounded).  What a step must take is what comes to the sources, times
# what goes out for each event on the way.  The formula knows averages only; what bursts do is in the curves beside it.
#
# - A step never gets more workers than it has partitions or keys, and not more than ``1 / share`` of its hottest
# key,
#   which is one worker's.
# - A step that cannot grow passes its limit upstream: it makes no sense that the steps before it take more than it
# can.

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Scaling:
    """What is wanted: the defaults are those of Flink's autoscaler.

    >>> Scaling(target=0)
    Traceback (most recent call last):
    pellucid.errors.UsageError: target: 0 is not above 0 and at most 1: workers that are never busy are never enough.
    """

    target: float = 0.7  # how busy a worker may be, on average
    catch_up: float = 1800.0  # seconds in which what waits is to be done; 0: it is not looked at
    restart: float = 300.0  # seconds that the job stands still when workers are added

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise UsageError(
                f"target: {self.target} is not above 0 and at most 1: workers that are never busy are never enough."
            )
        for name in ("catch_up", "restart"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name}: {getattr(self, name)} is no number of seconds.")


def needed_capacity(rate: float, lag_rate: float, *, target: float, catch_up: float, restart: float = 0.0) -> float:
    """Events per second that a step has to be able to take; ``lag_rate`` is lag / catch_up.

    >>> needed_capacity(100, 500, target=0.8, catch_up=2, restart=1)
    675.0
    >>> needed_capacity(100, 0, target=0, catch_up=0)
    inf
    """
    target = min(1.0, max(0.0, target))
    if target == 0:
        return float("inf")
    again = 0.0 if catch_up == 0 else rate * restart / catch_up
    return float(floor(Fraction(repr(float(lag_rate + again))) + Fraction(repr(rate / target)) + Fraction(1, 2)))


def workers_for(
    workers: int,
    needed: float,
    capacity: float,
    *,
    most: int = NO_LIMIT,
    lower: int = 1,
    upper: int | None = None,
    max_scale_down: float = 1.0,
    max_scale_up: float = NO_LIMIT,
) -> int:
    """How many workers take ``needed`` events per second, if ``workers`` take ``capacity``: by proportion, within what
    may change at a time, then by `round_workers`.

    >>> workers_for(10, 74, 100, most=720), workers_for(10, 10, 100, most=720, max_scale_down=0.6)
    (8, 4)
    """
    if capacity <= 0:
        raise UsageError(f"a capacity of {capacity} events per second cannot be scaled")
    factor = Fraction(_exact(needed)) / _exact(capacity) if needed < float("inf") else Fraction(NO_LIMIT)
    factor = min(max(factor, 1 - _exact(max_scale_down)), 1 + _exact(max_scale_up))
    return round_workers(workers, factor, most=most, lower=lower, upper=upper)


def round_workers(
    workers: int, factor: float | Fraction, *, most: int = NO_LIMIT, lower: int = 1, upper: int | None = None
) -> int:
    """``workers * factor``, rounded up, not below ``lower`` and not above ``upper`` or ``most``; then raised to the
    next number that ``most`` (partitions, groups of keys) can be divided by, if that is at most the half: each worker
    has as many of them.

    >>> round_workers(6, 0.8, most=720), round_workers(16, 1.5, most=128, lower=60), round_workers(200, 2, most=720)
    (5, 64, 400)
    """
    upper = NO_LIMIT if upper is None else upper
    if lower > upper:
        raise UsageError(f"at least {lower} and at most {upper} workers: there is no such number")
    ceiling = min(most, upper)
    count = min(max(lower, min(ceil(_exact(factor) * workers), NO_LIMIT)), ceiling)
    if most < NO_LIMIT:
        for even in range(count, min(most // 2, ceiling) + 1):
            if most % even == 0:
                return even
    return count


def _exact(value: float | Fraction) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


@dataclass(frozen=True)
class Needed:
    """What a step needs, and what keeps it from getting it."""

    step: str
    rate: float  # events per second that come to it, if all before it keeps up
    catch_up: float  # and those that wait, shared over the time to catch up
    needed: float  # events per second that it has to be able to take
    capacity: float | None  # and that it can take now
    workers: int  # now
    wanted: int | None  # workers; None if its capacity is not known
    limited: str = ""  # why it does not get what it needs
    possible: float | None = None  # events per second that come to it, if a limit further down holds the sources back

    def document(self) -> dict[str, Any]:
        """As plain data."""
        found = asdict(self)
        return {**found, "needed": None if found["needed"] == float("inf") else found["needed"]}


def target_rates(job: Job, *, catch_up: float) -> dict[str, tuple[float, float]]:
    """For each step the events per second that come if nothing is held back, and those per second that work off the
    lag: of sources what was measured, of the others what those that they hear put out.

    >>> first = MeasuredStep("in", rate=150.0, processed=100.0, lag=1000.0, out=200.0)
    >>> steps = {"in": first, "sink": MeasuredStep("sink", hears=("in",))}
    >>> target_rates(Job("j", "flink", steps), catch_up=2)
    {'in': (150.0, 500.0), 'sink': (300.0, 1000.0)}
    """
    out: dict[str, tuple[float, float]] = {}
    for name in job.order():
        step = job.steps[name]
        if not step.hears:
            lag = (step.lag or 0.0) / catch_up if catch_up else 0.0
            out[name] = (step.arrivals or 0.0, lag)
            continue
        rates = [(out[heard], _edge(job, heard, name)) for heard in step.hears]
        out[name] = (sum(rate * share for (rate, _), share in rates), sum(lag * share for (_, lag), share in rates))
    return out


def _edge(job: Job, heard: str, name: str) -> float:
    """Events that come to a step for each one that another takes."""
    before, after = job.steps[heard], job.steps[name]
    if not before.processed:
        return 0.0
    if after.hears == (heard,) and after.arrivals is not None:
        return after.arrivals / before.processed  # what was taken is measured best
    return before.ratio if before.ratio is not None else 1.0


def scale(job: Job, wanted: Scaling = Scaling()) -> dict[str, Needed]:  # noqa: B008 - it cannot change
    """What each step needs.

    >>> steps = {"in": MeasuredStep("in", rate=100.0, processed=100.0, busy=0.5, out=100.0),
    ...          "slow": MeasuredStep("slow", processed=100.0, busy=0.9, partitions=2, hears=("in",))}
    >>> found = scale(Job("j", "flink", steps), Scaling(target=0.3, catch_up=0))
    >>> found["in"].wanted, found["slow"].wanted, found["slow"].limited
    (2, 2, '2 partitions are not enough: 3 workers would be needed')
    >>> round(found["in"].possible, 1)
    66.7
    """
    rates = target_rates(job, catch_up=wanted.catch_up)
    raw: dict[str, tuple[float, int | None, float]] = {}
    for name, step in job.steps.items():
        rate, lag = rates[name]
        needed = needed_capacity(rate, lag, target=wanted.target, catch_up=wanted.catch_up, restart=wanted.restart)
        raw[name] = (needed, *_possible(step, needed))
    factors = {name: min(1.0, most / needed) if needed else 1.0 for name, (needed, _, most) in raw.items()}
    held = _upstream(job, factors)
    out: dict[str, Needed] = {}
    for name, step in job.steps.items():
        needed, free, most = raw[name]
        rate, lag = rates[name]
        by, factor = held[name]
        wants, limited = free, ""
        if free is not None and most < needed:
            wants, limited = step.most, _why(step, free)
        elif factor < 1 and free is not None:
            limited = f"{by} cannot take more, and holds the sources back"
            wants = _possible(step, needed * factor)[0]
        out[name] = Needed(
            name, rate, lag, needed, step.capacity, step.workers, wants, limited, rate * factor if factor < 1 else None
        )
    return out


def _possible(step: MeasuredStep, needed: float) -> tuple[int | None, float]:
    """The workers that would be needed, and the most events per second that it can ever take."""
    if step.capacity is None or step.held:
        return None, float("inf")
    each = step.capacity / step.workers
    free = workers_for(step.workers, needed, step.capacity)
    most = each * step.most if step.most is not None else float("inf")
    if step.skew is not None:  # its worker has nothing else to do, and is not fast enough
        most = min(most, each / step.skew)
    return free, most


def _why(step: MeasuredStep, free: int) -> str:
    would = f"{free} workers would be needed"
    if step.skew is not None and step.most == ceil(Fraction(1) / _exact(step.skew)):
        part = f"{100 * step.skew:.0f} % of its events have one key or partition, which one worker takes"
        return f"{part}: more than {step.most} workers do not help"
    if step.most == step.partitions:
        return f"{_count(step.partitions, 'partition')} not enough: {would}"
    return f"{_count(step.keys, 'key')} not enough: {would}"


def _count(count: int | None, word: str) -> str:
    return f"1 {word} is" if count == 1 else f"{count} {word}s are"


def _upstream(job: Job, factors: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """For each step the part of its rate that the sources may send at most, and which step says so."""
    reach: dict[str, tuple[str, float]] = {}
    for name in reversed(job.order()):
        below = [(factors[name], name)] + [(reach[other][1], reach[other][0]) for other in job.listeners(name)]
        factor, by = min(below)
        reach[name] = (by, factor)
    # a step hears sources that are held back for another one's sake: it gets the least of what they may send
    out: dict[str, tuple[str, float]] = {}
    for name in job.order():
        heard = [(out[h][1], out[h][0]) for h in job.steps[name].hears]
        own = (reach[name][1], reach[name][0])
        factor, by = min([own, *([max(heard)] if heard else [])])
        out[name] = (by, factor)
    return out


@dataclass(frozen=True)
class StepPlan:
    """What is planned for one step.

    ``status`` is about what was measured: bounded by that (it kept up, and below its limit where there is one),
    refuted, or unknown, where something was not measured.  A recording is no proof.
    """

    step: MeasuredStep
    status: Status
    why: str
    least: int | None  # workers that keep up with the average
    needed: Needed  # and by the production formula
    longest: int | None  # that can wait, for the bursts that were seen
    limit: int | None = None
    for_limit: int | None = None  # workers for the limit
    largest_rate: float | None = None  # that may come to it, for it and for all steps behind it
    batch: BatchCost | None = None  # where it works in micro-batches
    settled: float | None = None  # rows of a batch in the long run

    @property
    def drain(self) -> float | None:
        """Seconds until what waits is done, if events come as they do; None if never, or if it is not known."""
        step, rate = self.step, self.largest_rate
        if step.lag is None or step.arrivals is None or rate is None:
            return None
        return step.lag / (rate - step.arrivals) if rate > step.arrivals else None

    def document(self) -> dict[str, Any]:
        """As plain data."""
        step = self.step
        return {
            "step": step.name, "status": self.status, "why": self.why, "rate": step.arrivals,
            "processed": step.processed, "busy": step.busy, "capacity": step.capacity, "utilisation": step.load,
            "lag": step.lag, "seconds_to_drain": self.drain, "workers": step.workers, "most_workers": step.most,
            "least_workers": self.least, "longest_queue": self.longest, "limit": self.limit,
            "workers_for_limit": self.for_limit, "largest_safe_rate": self.largest_rate, "state_rows": step.state,
            "state_bytes": step.state_bytes, "skew": step.skew, "settled_batch": self.settled,
            "batch": None if self.batch is None else {"fixed": self.batch.fixed, "row": self.batch.row},
            "production": self.needed.document(),
        }  # fmt: skip


@dataclass(frozen=True)
class JobPlan:
    """The plan for a job; ``advice`` says what to change first, and what that brings."""

    job: Job
    scaling: Scaling
    steps: Mapping[str, StepPlan]
    advice: tuple[str, ...]
    curve: Curve | None = None

    @property
    def asked(self) -> Mapping[str, StepPlan]:
        """The steps that have a queue: of a local run, whose steps are one loop, the pipeline as a whole."""
        return dict(list(self.steps.items())[: 1 if self.job.kind == "local" else None])

    @property
    def status(self) -> Status:
        """Refuted if one step falls behind, bounded by what was measured if all keep up."""
        return combined(step.status for step in self.asked.values())

    @property
    def bound(self) -> str:
        """What was measured, and so what the answer is about."""
        job = self.job
        time = f"{seconds_text(job.seconds)}" if job.seconds else "one look"
        counts = {"spark": "batch", "local": "sample"}
        if job.kind in counts and job.samples:
            many, word = len(job.samples), counts[job.kind]
            time += f" in {many} {word if many == 1 else word + ('es' if word == 'batch' else 's')}"
        return f"{time}, at rates that were not measured (--rate)" if job.assumed else time

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "job": self.job.name,
            "kind": self.job.kind,
            "seconds": self.job.seconds,
            "status": self.status,
            "bound": self.bound,
            "steps": [step.document() for step in self.steps.values()],
            "advice": list(self.advice),
            "notes": list(self.job.notes),
            "curve": None if self.curve is None else self.curve.document(),
        }


def plan_job(job: Job, *, limits: Mapping[str, int] | None = None, scaling: Scaling = Scaling()) -> JobPlan:  # noqa: B008
    """Plan a measured job; ``limits`` are queues that should stay below so many events.

    >>> steps = {"read": MeasuredStep("read", rate=90.0, processed=90.0, busy=0.3, out=90.0),
    ...          "enrich": MeasuredStep("enrich", processed=60.0, growth=30.0, busy=1.0, lag=300.0, hears=("read",))}
    >>> found = plan_job(Job("late", "flink", steps))
    >>> found.status, found.steps["read"].status, found.steps["enrich"].least
    ('refuted', 'bounded', 2)
    >>> print(found.advice[0])
    enrich first: 2 workers instead of 1 keep up with 90 events a second (now 60, so 30 more wait every second)
    """
    limits = dict(limits or {})
    for name, limit in limits.items():
        job.step(name)
        if limit < 1:
            raise UsageError(f"limit {name}={limit}: expected 1 or more events")
    found = scale(job, scaling)
    curve = _curve(job)
    fed = {name: _fed(step, found[name]) for name, step in job.steps.items()}
    steps = {}
    for name, step in fed.items():
        own = curve if name == _first(job) else None
        seen = _seen(job) if name == _first(job) else 0
        plan = _plan(step, found[name], own, limits.get(name), _batches(job, name), seen)
        steps[name] = replace(plan, largest_rate=_largest(job, fed, name))
    return JobPlan(job, scaling, steps, tuple(_advice(job, steps, found)), curve)


def _first(job: Job) -> str:
    """The step whose queue the samples are about."""
    return job.sources()[0]


def _fed(step: MeasuredStep, needed: Needed) -> MeasuredStep:
    """What comes to a step if the steps before it keep up; measured, where none is before it."""
    return replace(step, rate=needed.rate) if step.hears else step


def _largest(job: Job, fed: Mapping[str, MeasuredStep], name: str) -> float | None:
    """What may come to a step, so that it and those behind it keep up: as many times what comes now as the least of
    them can take."""
    reached, rate = [name], fed[name].arrivals
    for one in reached:  # it grows meanwhile
        reached += [other for other in job.listeners(one) if other not in reached]
    loads = [fed[one].load for one in reached]
    if rate is None or not rate or any(load is None for load in loads):
        return fed[name].usable
    return rate / max(load for load in loads if load)


def _curve(job: Job) -> Curve | None:
    """Of the batches that were recorded; where they come from files, nothing came, and of other rates none is known."""
    if job.assumed:
        return None
    spans = [span for span in arrivals_of(job) if span[2]] if job.step(_first(job)).arrivals is not None else []
    return arrival_curve(spans) if len(spans) > 1 else None


def _seen(job: Job) -> int:
    """The most that waited in the recording."""
    if job.assumed:
        return 0
    return int(max((s.waiting or 0.0 for s in job.samples), default=0.0))


def _batches(job: Job, name: str) -> BatchCost | None:
    if job.kind != "spark" or name != _first(job) or any(sample.left for sample in job.samples[1:]):
        return None
    return batch_cost(job.samples)


def _plan(
    step: MeasuredStep, needed: Needed, curve: Curve | None, limit: int | None, batch: BatchCost | None, seen: int
) -> StepPlan:
    capacity, arrivals = step.usable, step.arrivals
    if step.capacity is None or capacity is None or arrivals is None:
        missing = "how busy it is was" if capacity is None else "at which rate events come was"
        why = "no events came while it was measured" if step.processed == 0 else f"{missing} not measured"
        return StepPlan(step, "unknown", why, None, needed, None, limit)
    each = step.capacity / step.workers
    least = None if step.held else max(1, ceil(arrivals / each) + (arrivals % each == 0 and arrivals > 0))
    longest, for_limit = _longest(curve, batch, each, step.workers, limit)
    longest = None if longest is None else max(longest, seen)
    # A recording has an end, and what comes then is not in its curve: fewer workers than keep up are never enough.
    for_limit = None if for_limit is None or least is None else max(for_limit, least)
    settled = batch.settled(arrivals) if batch is not None else None
    status: Status
    if arrivals >= capacity:
        status, why = "refuted", f"{arrivals - capacity:.4g} more events wait every second"
        if step.held:
            why = (
                f"{arrivals:.4g} events came a second and {capacity:.4g} were taken, though its workers were busy only "
                f"{100 * (step.busy or 0.0):.0f} % of the time: more workers do not help"
            )
        elif arrivals == capacity:
            why = "exactly as much comes as it can take: what waits once, waits for ever"
        longest = None
    elif limit is not None and seen >= limit:
        status, why = "refuted", f"{seen} waited while it was measured, and the limit is {limit}"
    elif limit is not None and (longest is None or longest >= limit):
        known = "not known" if longest is None else f"up to {longest}"
        status, why = (
            ("unknown" if longest is None else "refuted"),
            f"what can wait is {known}, and the limit is {limit}",
        )
    else:
        status, why = "bounded", f"{100 * arrivals / capacity:.0f} % of what it can take comes"
    return StepPlan(
        step, status, why, least, needed, longest, limit, for_limit, batch=batch, settled=settled,
    )  # fmt: skip


def _longest(
    curve: Curve | None, batch: BatchCost | None, each: float, workers: int, limit: int | None
) -> tuple[int | None, int | None]:
    """The most that can wait for the bursts that were seen, and the workers for a limit."""
    if curve is None:
        return None, None
    if batch is not None:  # what waits, waits for the next batch
        most = batch.longest(curve)
        return None if most is None else int(most), None
    time = 1 / each
    return curve.queue(time, workers), None if limit is None else curve.workers(time, limit - 1)


def _advice(job: Job, steps: Mapping[str, StepPlan], needed: Mapping[str, Needed]) -> list[str]:
    """What to change first: the step with the least capacity for what comes to it."""
    known = [plan for plan in steps.values() if plan.step.load is not None]
    if not known:
        first = job.step(_first(job))
        if first.usable is not None:
            takes = f"{first.name} takes {first.usable:.4g} events a second: say at which rate they will come"
            return [takes, *(_where_time_goes(job) if job.kind == "local" else [])]
        if first.processed == 0:
            return ["no events came while it was measured: record it while they do"]
        return ["measure how busy the steps are: without that nothing can be planned"]
    out = []
    alone = [plan for plan in known if plan.step.name == _first(job)] if job.kind == "local" else []
    worst = max(alone or known, key=lambda plan: plan.step.load or 0.0)
    step, wants = worst.step, needed[worst.step.name]
    assert step.capacity is not None and step.usable is not None and step.arrivals is not None
    if worst.status == "refuted" and step.arrivals >= step.usable:
        if step.held:
            out.append(
                f"{step.name} first: find what holds it back (a limit for each trigger, the trigger's interval, a slow "
                "step behind it): its workers have time"
            )
        elif step.skew is not None and step.usable < step.capacity:
            out.append(
                f"{step.name} first: {100 * step.skew:.0f} % of its events have one key or partition, which one worker "
                f"takes: not more than {step.usable:.4g} events a second may come, whatever the workers"
            )
        elif step.most is not None and worst.least is not None and worst.least > step.most:
            out.append(
                f"{step.name} first: {wants.limited or f'it can have {step.most} workers at most'}; until its input "
                f"has more parts, not more than {step.capacity / step.workers * step.most:.4g} events a second may come"
            )
        else:
            unit = "workers" if job.kind != "spark" else "times the cores"
            out.append(
                f"{step.name} first: {worst.least} {unit} instead of {step.workers} keep up with {step.arrivals:.4g} "
                f"events a second (now {step.capacity:.4g}, so {step.arrivals - step.capacity:.4g} more wait every "
                "second)"
            )
    elif step.load == 0:
        out.append(f"nothing comes now; {step.name} takes {step.usable:.4g} events a second")
    elif step.load is not None:
        out.append(
            f"{step.name} is the first to give way: it takes {step.usable:.4g} events a second, {1 / step.load:.3g} "
            "times what comes now"
        )
    if job.kind == "local":
        out += _where_time_goes(job)
    for plan in steps.values():
        if plan.status == "refuted" and plan.limit is not None and plan.for_limit:
            out.append(_enough(job, plan))
        if plan.batch is not None and plan.settled is not None:
            seconds = max(plan.batch.every, plan.batch.seconds(plan.settled))
            out.append(
                f"{plan.step.name}: batches settle at {plan.settled:.0f} rows and {seconds:.3g} s, of which "
                f"{plan.batch.fixed:.3g} s are there before the first row"
            )
        if plan.drain and plan.drain >= 1:
            out.append(f"{plan.step.name}: what waits ({plan.step.lag:.0f}) is done in {seconds_text(plan.drain)}")
        if plan.needed.limited:
            out.append(f"{plan.step.name}: {plan.needed.limited}")
    return list(dict.fromkeys(out))


def _enough(job: Job, plan: StepPlan) -> str:
    """How many workers a limit needs."""
    one = plan.for_limit == 1
    unit = "times the cores" if job.kind == "spark" else "worker" if one else "workers"
    first = f", once the {plan.step.lag:.0f} that wait are done" if (plan.step.lag or 0) >= (plan.limit or 0) else ""
    verb = "keeps" if one and job.kind != "spark" else "keep"
    return f"{plan.step.name}: {plan.for_limit} {unit} {verb} its queue below {plan.limit}{first}"


def _where_time_goes(job: Job) -> list[str]:
    """Of a local run, whose steps are one loop: which of them takes most of its time."""
    whole, *steps = job.steps.values()
    inside = sum(step.busy or 0.0 for step in steps)
    if not whole.busy or not steps or not inside:
        return []
    busiest = max(steps, key=lambda step: step.busy or 0.0)
    share = min(1.0, inside / whole.busy)
    if share < 0.5:
        return [f"its steps take {100 * share:.0f} % of its time: the rest is reading and writing"]
    return [f"{busiest.name} takes {100 * min(1.0, (busiest.busy or 0.0) / whole.busy):.0f} % of its time"]


# The plan of a measured job, for a terminal.

_HEAD = (
    "step", "verdict", "rate /s", "can take /s", "safe /s", "in use", "waits", "done in", "can wait", "workers",
    "least", "most", "for limit", "production", "state rows",
)  # fmt: skip


def plan_text(plan: JobPlan) -> str:
    """Table, production line, advice.

    >>> from pellucid.capacity.measured import Job, MeasuredStep, plan_job
    >>> steps = {"read": MeasuredStep("read", rate=90.0, processed=90.0, busy=0.3, workers=2)}
    >>> print(plan_text(plan_job(Job("late", "flink", steps, seconds=60.0))))
    late (flink): bounded by what was measured: 1 min
    step  verdict   rate /s  can take /s  in use  workers  least  production
    read  keeps up       90          300    30 %        2      1           1
    <BLANKLINE>
    production: lag / 30 min + rate * 5 min / 30 min + rate / 0.7, as Flink's autoscaler: read 144/s
    first: read is the first to give way: it takes 300 events a second, 3.33 times what comes now
    """
    job = plan.job
    by = "from" if plan.status == "unknown" else "by"
    rows = [_row(job.kind, step, name in plan.asked) for name, step in plan.steps.items()]
    out = [f"{job.name} ({job.kind}): {plan.status} {by} what was measured: {plan.bound}", table(_HEAD, rows)]
    notes = [f"{s.step.name}: {s.why}" for s in plan.asked.values() if s.status != "bounded"]
    out += ["", *notes, _production(plan)]
    out += [f"{'first' if i == 0 else 'then'}: {line}" for i, line in enumerate(plan.advice)]
    out += [f"note: {note}" for note in job.notes]
    return "\n".join(out)


def _row(kind: str, plan: StepPlan, asked: bool) -> list[str]:
    step = plan.step
    falls = step.load is not None and step.load >= 1
    verdict = {"bounded": "keeps up", "refuted": "falls behind" if falls else "over limit"}
    waits = "∞" if falls else "" if plan.longest is None else amount(plan.longest)
    return [
        step.name,
        verdict.get(plan.status, "unknown") if asked else "",
        amount(step.arrivals),
        amount(step.usable),
        amount(plan.largest_rate) if _held_back(plan) else "",
        percent(step.load),
        amount(step.lag, none=""),
        ("never" if plan.drain is None else seconds_text(plan.drain)) if step.lag and step.load is not None else "",
        waits,
        str(step.workers) if kind != "local" else "",
        amount(plan.least, none="") if kind != "local" else "",
        amount(step.most, none=""),
        amount(plan.for_limit, none=""),
        amount(plan.needed.wanted, none="") if kind != "local" else "",
        amount(step.state, none=""),
    ]


def _held_back(plan: StepPlan) -> bool:
    """Whether a step behind it can take less than it can."""
    rate, usable = plan.largest_rate, plan.step.usable
    return rate is not None and usable is not None and rate < usable * (1 - 1e-9)


def _production(plan: JobPlan) -> str:
    wanted = plan.scaling
    needs = ", ".join(f"{n.step} {amount(n.needed)}/s" for n in (s.needed for s in plan.asked.values()) if n.rate)
    catch_up = seconds_text(wanted.catch_up)
    lag = f"lag / {catch_up} + rate * {seconds_text(wanted.restart)} / {catch_up} + " if wanted.catch_up else ""
    return f"production: {lag}rate / {wanted.target:g}, as Flink's autoscaler: {needs or 'nothing comes'}"
