"""The plan of a measured job, for a terminal."""

from __future__ import annotations

from pellucid.capacity.measured.plan import JobPlan, StepPlan
from pellucid.capacity.report import amount, percent, seconds_text, table

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
