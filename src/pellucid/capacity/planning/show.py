"""The plan of a topology, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pellucid.capacity.planning.changes import Change
from pellucid.capacity.planning.plan import BoltPlan, Plan
from pellucid.capacity.report import amount, percent, table
from pellucid.capacity.topology import ANY, Topology

_HEAD = (
    "bolt", "verdict", "workers", "longest", "in use", "limit", "least workers", "least gap", "bounded from",
    "largest rate", "backlog", "done in", "meanwhile",
)  # fmt: skip


def plan_text(plan: Plan, advice: Sequence[Change] = ()) -> str:
    """Table, reasons, advice.

    >>> from pellucid.capacity import figure_1
    >>> from pellucid.capacity.planning import changes, plan
    >>> found = plan(figure_1(gap="0.8", workers={"B2": 3, "B3": 4}), {"B1": 2}, only=("B1",))
    >>> print(plan_text(found, changes(found)))
    bolt  verdict  workers    longest  in use  limit  least workers  least gap  bounded from  largest rate
    B1    refuted        1  unbounded   125 %      2              2          1             1             1
    <BLANKLINE>
    B1: 1.25 can come per unit of time (5/4 that S1 emits), and 1 is served
    first: 2 workers for B1 (instead of 1): B1 unbounded → 1
    or: a gap of 1 for every spout (at most 1 tuple per unit of time): B1 unbounded → 1
    """
    out = [table(_HEAD, [_row(plan.topology, bolt) for bolt in plan.bolts.values()])]
    said = [plan.warning] if plan.warning else []
    said += [line for bolt in plan.bolts.values() for line in _why(bolt)]
    said += [f"{'first' if i == 0 else 'or'}: {change}" for i, change in enumerate(advice)]
    return "\n".join([*out, *(["", *said] if said else [])])


def _row(topology: Topology, plan: BoltPlan) -> list[str]:
    bolt = topology.bolts[plan.bolt]
    assert bolt.workers is not ANY
    alone, meanwhile = plan.drain(bolt.workers, bolt.time)
    urgent = topology.semantics == "urgent"
    return [
        plan.bolt,
        plan.status,
        str(bolt.workers),
        _longest(plan),
        percent(plan.flow.utilisation) if urgent and plan.flow.utilisation is not None else "",
        "" if plan.limit is None else str(plan.limit),
        "" if plan.workers is None else _least(plan.workers.status, plan.workers.workers),
        "" if plan.gap is None else _least(plan.gap.status, plan.gap.gap),
        "" if plan.bounded_from is None else _least(plan.bounded_from.status, plan.bounded_from.gap),
        amount(plan.largest_rate, none=""),
        str(plan.backlog) if plan.backlog else "",
        amount(alone) if plan.backlog else "",
        _meanwhile(plan, meanwhile) if plan.backlog else "",
    ]


def _meanwhile(plan: BoltPlan, time: Fraction | None) -> str:
    if plan.flow.inflow is None:
        return "unknown"
    return "never" if time is None else amount(time)


def _longest(plan: BoltPlan) -> str:
    if plan.unbounded:
        return "unbounded"
    if plan.longest is not None:
        return str(plan.longest)
    if plan.at_most is not None:
        return f"≤ {plan.at_most}"
    return "bounded" if plan.flow.status == "bounded" else "unknown"


def _least(status: str, value: int | Fraction | None) -> str:
    always = f"≤ {amount(value)}" if value else "any"  # where nothing is known of gaps below that one
    return {"at": amount(value), "never": "none", "always": always}.get(status, "unknown")


def _why(plan: BoltPlan) -> list[str]:
    out = []
    flow = plan.flow
    if plan.unbounded and flow.inflow is None:
        out.append(plan.why)  # of the literal semantics, which has its own reasons
    elif plan.unbounded:
        first = f", once {' and '.join(flow.stores)} {'was' if len(flow.stores) == 1 else 'were'} filled"
        out.append(
            f"{plan.bolt}: {amount(flow.inflow)} can come per unit of time ({flow.why}){first if flow.stores else ''}, "
            f"and {amount(flow.capacity)} {'is' if flow.capacity == 1 else 'are'} served"
        )
    elif plan.status == "unknown":
        reason = f"{flow.why}; {plan.why}" if flow.status == "unknown" and flow.why else plan.why
        out.append(f"{plan.bolt}: unknown: {reason}")
    if plan.workers is not None and plan.workers.status == "never":
        out.append(f"{plan.bolt}: {plan.workers}")
    return out
