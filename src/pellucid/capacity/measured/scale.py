"""How many workers a measured step needs: the formula that autoscalers use in production, and what limits it.

``needed = lag / catch_up + rate * restart / catch_up + rate / target``: events per second to work off what waits, to
work off what comes in while the job restarts, and to keep up with what comes with some room left (Flink's autoscaler,
`AutoScalerUtils.getTargetProcessingCapacity`; rounded).  What a step must take is what comes to the sources, times what
goes out for each event on the way.  The formula knows averages only; what bursts do is told by the curves beside it.

- A step never gets more workers than it has partitions or keys, and not more than ``1 / share`` of its hottest key,
  which is one worker's.
- A step that cannot grow passes its limit upstream: it makes no sense that the steps before it take more than it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from pellucid.capacity.measured.job import Job, MeasuredStep
from pellucid.errors import UsageError

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
