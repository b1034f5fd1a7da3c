"""Did this run keep the promise?  The audit of a recorded trace.

A run that recorded its steps carries its own evidence.  The audit asks the rules of the model of every step and
message: are streams FIFO and was every message produced before it was consumed; do borders separate the epochs; is
every snapshot causally consistent and complete (Figure 3); do recoveries go to the greatest common epoch; is an epoch
made visible once, and only when every task has it; was the replay the same.  Last it builds the failure-free trace that
explains the run (Theorem 6.9) and asks the rules of that, too.  Each check can say no, and says where and why.

The times in a trace are not looked at: clocks of several machines prove nothing.  That a commit came after the
snapshots of all tasks is seen from the acknowledgements that it waited for, which are messages like others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.failures.audit.findings import CHECKS, KINDS, Violation
from pellucid.internal.model import Judgement, Status
from pellucid.internal.model.sheet import versioned
from pellucid.internal.model.verdict import check_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from pellucid.failures.audit.rules import Explained

__all__ = ["Audit", "audit"]


@dataclass(frozen=True)
class Audit(Judgement):
    """The answer of an audit; true if everything holds.

    ``violations`` has the first few of each kind, ``counts`` how many there are in each check.
    """

    steps: int
    messages: int
    tasks: int
    checks: tuple[str, ...]  # those that were asked
    counts: dict[str, int]
    violations: tuple[Violation, ...]
    explained: Explained | None
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def status(self) -> Status:
        """Proved: nothing is wrong."""
        return "refuted" if any(self.counts.values()) else "proved"

    def __str__(self) -> str:
        rate = f", {self.steps / self.seconds:,.0f} steps/s" if self.seconds > 0 else ""
        lines = [f"{self.steps:,} steps of {self.tasks} tasks, {self.messages:,} messages ({self.seconds:.2f} s{rate})"]
        if self.explained is not None:
            lines.append(_story(self.explained))
        lines += check_lines(self.checks, CHECKS, self.counts, self.violations)
        lines += [f"  note: {note}" for note in self.notes]
        lines.append("The run kept the promise." if self.proved else "The run broke the promise.")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        e = self.explained
        return {
            "status": self.status, "holds": self.holds, "seconds": round(self.seconds, 6),
            "steps": self.steps, "messages": self.messages, "tasks": self.tasks,
            "checks": {check: self.counts.get(check, 0) for check in self.checks},
            "violations": [v.document() for v in self.violations],
            "explanation": None if e is None else {
                "kept": sum(e.kept), "discarded": sum(e.discarded), "recovered_to": list(e.recovered),
                "epochs": e.epochs, "committed": e.committed},
            "notes": list(self.notes),
        }  # fmt: skip

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        return versioned({"verb": "audit", **self.document()}, indent=indent)


def _story(e: Explained) -> str:
    crashes = len(e.recovered)
    if not crashes:
        return f"no crash; {e.epochs} epochs complete, {e.committed} visible"
    back = ", ".join(map(str, e.recovered[:8])) + ("…" if crashes > 8 else "")
    return (f"{crashes} recover{'ies' if crashes > 1 else 'y'} (to epoch {back}): {sum(e.kept):,} steps kept, "
            f"{sum(e.discarded):,} discarded; "
            f"{e.epochs} epochs complete, {e.committed} visible")  # fmt: skip


def audit(trace: pa.Table | str | os.PathLike[str], *, limit: int = 5, tasks: Iterable[str] = ()) -> Audit:
    """Audit a trace: a table, or the place of a recorded run.  Of each kind the first ``limit`` violations are
    reported.

    ``tasks`` names tasks that may have no step on record; a state folder knows them itself.

    >>> from pellucid.failures.audit.record import trace_table
    >>> a, b = {"task": "a", "epoch": 1}, {"task": "b", "epoch": 1}
    >>> source = [a | {"index": 0, "rule": "SOURCE", "produced": [("s", 0, False, 7)]},
    ...           a | {"index": 1, "rule": "I-BORDER", "produced": [("s", 1, True, 0)], "state": 1}]
    >>> sink = [b | {"index": 0, "rule": "I-EVENT", "consumed": [("s", 0, False, 7)]},
    ...         b | {"index": 1, "rule": "I-BORDER", "consumed": [("s", 1, True, 0)], "state": 7},
    ...         b | {"index": 2, "rule": "COMMIT"}]
    >>> audit(trace_table(source + sink)).holds
    True
    >>> early = [sink[0], {**sink[2], "index": 1}, {**sink[1], "index": 2}]
    >>> print(audit(trace_table(source + early)).violations[0])
    b, step 1: it makes epoch 1 visible before its own snapshot of that epoch is on record
    """
    import pyarrow as pa

    from pellucid.failures.audit import rules
    from pellucid.failures.audit.record import USED, checked, columns, parts_of, tasks_on_record

    began = time.monotonic()
    if isinstance(trace, pa.Table):
        c = columns(checked(trace, "trace"), tasks)
    else:
        c = columns(parts_of(trace, USED), [*tasks, *tasks_on_record(trace)])
    found = rules.Findings(limit)
    targets = rules.recoveries(c, found)
    c = rules.well_formed(c, found, set(targets))
    f = rules.frame(c, targets)
    rules.streams(f, found)
    rules.fifo(f, found)
    rules.delivery(f, found)
    rules.alignment(f, found)
    rules.snapshots(f, found)
    rules.replay(f, found)
    stored = rules.archives(f)
    rules.recovery(f, found, stored)
    committed = rules.commits(f, found, stored)
    explained = rules.explanation(f, found, committed, stored)
    sizes = (len(c), len(c.consumed) + len(c.produced), len(rules.tasks_of(c)))
    counts: dict[str, int] = {}
    for (alone, kind), count in found.counts.items():
        check = "explanation" if alone else KINDS[kind][0]
        counts[check] = counts.get(check, 0) + count
    order = list(CHECKS)
    told = sorted(found.first, key=lambda v: (order.index(v.check), v.task, v.index, v.kind, v.stream or "", v.n or 0))
    checks = tuple(check for check in CHECKS if check != "output")
    return Audit(*sizes, checks, counts, tuple(told), explained, time.monotonic() - began)
