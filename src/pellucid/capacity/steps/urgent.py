"""The urgent semantics: a worker that can take or emit does so before time passes and before any spout emits.

It differs from the paper's in what the paper says that it means: takes and emits of *all* bolts are urgent (section
4.1), time does not pass beyond the end of a tuple, and there is no *CanTimeElapse*, with which a final bolt that ends
on an empty queue would stop the world.
"""

from __future__ import annotations

from pellucid.capacity.steps.machine import EMIT, EXECUTE, IDLE, Situation, Steps
from pellucid.capacity.steps.step import FLAGS, Step, named


class Urgent(Steps):
    """The machine of the urgent semantics.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> machine = Urgent(Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S", initial=1)}), delays=[1, 2])
    >>> at = machine.start()
    >>> [str(step) for step, _ in machine.steps(at)]
    ['bolt_take B[0]']
    >>> ((_, at),) = machine.steps(at)
    >>> [str(step) for step, _ in machine.steps(at)]  # 2 would be beyond the end of the tuple
    ['time_elapse 1']
    >>> machine.why_not(at, Step("spout_emit", "S", ("B",)))
    'only 0 has passed since the last emit, and it needs more than 1'
    """

    def why_not(self, at: Situation, step: Step) -> str | None:
        """Why a step is not possible; None if it is."""
        wrong = self.unnamed(step)
        if wrong is not None:
            return wrong
        if step.action == "spout_emit":
            assert isinstance(step.who, str)
            s = self.spouts[step.who]
            if not self.hears[step.who]:
                return "nobody hears it"
            if at.stime[s] <= self.gap[s]:
                return f"only {at.stime[s]} has passed since the last emit, and it needs more than {self.gap[s]}"
            return self._urgent(at) or self.misdelivered(step.who, step.to, 1)
        if step.action == "bolt_take":
            w = self.worker[step.who]  # type: ignore[index]
            if at.status[w] != IDLE:
                return f"it {_DOES[at.status[w]]}"
            if at.lengths[self.queue_of[w]] < 1:
                return "its queue is empty"
            return None
        if step.action == "bolt_emit":
            w = self.worker[step.who]  # type: ignore[index]
            if at.status[w] != EMIT:
                return f"it {_DOES[at.status[w]]}"
            b = self.bolt_of[w]
            return self.misdelivered(self.workers[w].bolt, step.to, self.due(at, b))
        if step.action in FLAGS:
            return "it is a step of the literal semantics"
        assert step.by is not None
        for w, status in enumerate(at.status):
            if status == EXECUTE and at.left[w] < step.by:
                return f"{self.workers[w]} ends its tuple in {at.left[w]}"
        return self._urgent(at)

    def _urgent(self, at: Situation) -> str | None:
        w = self.acts(at)
        if w is None:
            return None
        return f"{named(self.workers[w])} can {'emit' if at.status[w] == EMIT else 'take'}, which comes first"


_DOES = {IDLE: "is idle", EXECUTE: "executes a tuple", EMIT: "has to emit first"}
