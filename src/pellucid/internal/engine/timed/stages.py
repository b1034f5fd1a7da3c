"""The stages of a plan over columns: a kernel for each segment, an operator for each timed step.

* ``step``: what stages share
* ``ordinary``: a segment of ordinary steps
* ``single``: `at`, dedup, and the streams of late and early events
* ``windows``: fixed windows and sessions
* ``pairs``: join, as-of and lookup
* ``timers``: the task that is told of times
"""

from __future__ import annotations

from collections.abc import Callable

from pellucid.errors import known
from pellucid.internal.engine.timed.joins import AsOfStep, Join
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.sessions import Fixed, Session
from pellucid.internal.engine.timed.steps import At, DedupStep, EarlyStep, LateStep, Ordinary, Run, Step, Timers

__all__ = ["STEPS", "Ordinary", "Run", "Step", "step_of"]

STEPS: dict[str, Callable[[Run, Timed], Step]] = {
    "at": At, "tumbling": Fixed, "sliding": Fixed, "session": Session, "join": Join, "as_of": AsOfStep,
    "lookup": AsOfStep, "dedup": DedupStep, "timers": Timers, "late": LateStep,
    "early": EarlyStep,
}  # fmt: skip


def step_of(run: Run, stage: Timed) -> Step:
    """The step that runs a timed stage."""
    return known(STEPS, run.graph.nodes[stage.step].kind, "the engine of event time")(run, stage)
