"""A plan for a measured job: who keeps up, how many workers each step needs, how long until the backlog is gone.

Three answers stand side by side, since they answer different questions: the *least* workers that keep up with the
average at all (our line), the workers that keep the queue below a limit for the bursts that were seen (the curve), and
the production formula, which leaves room for lag and restarts (`scale`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from pellucid.capacity.measured.batches import BatchCost, batch_cost
from pellucid.capacity.measured.curves import Curve, arrival_curve
from pellucid.capacity.measured.job import Job, MeasuredStep
from pellucid.capacity.measured.scale import Needed, Scaling, scale
from pellucid.capacity.measured.spark import arrivals_of
from pellucid.capacity.report import seconds_text
from pellucid.errors import UsageError
from pellucid.internal.model import Status, combined


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
    """What comes to a step if the steps before it keep up; measured, where nobody is before it."""
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
