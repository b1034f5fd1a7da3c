"""The literal semantics: the transitions of the paper's appendix as they are printed, for any topology.

Only one bolt is *under analysis* (the paper's bolt 1): its takes and emits come before those of spouts, by flags that
are set again after every step, *DoTake* first, then *DoEmit*, then the system may go on (*SetFlags* = DT, DE, No).  The
other bolts take and emit when they like.  Time may pass whenever *CanTimeElapse* is true, whatever the flags say and
beyond the end of tuples, but not twice in a row.  Transitions that set a flag to false because no worker is idle (or
emits) come twice, as in the paper: ``…F2``, ``…F1`` for several workers, ``…F2a``, ``…F1a`` for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pellucid.capacity.steps.machine import EMIT, IDLE, Situation, Steps, Time
from pellucid.capacity.steps.step import FLAGS, Step
from pellucid.capacity.topology import Topology


class Flags(NamedTuple):
    """*CanTimeElapse*, *DoTake*, *DoEmit* and *SetFlags*, as they are initially (4)."""

    can_time_elapse: bool = True
    do_take: bool = False
    do_emit: bool = False
    set_flags: str = "No"


class Literal(Steps):
    """The machine of the literal semantics, with a bolt under analysis.

    >>> from pellucid.capacity import figure_1
    >>> machine = Literal(figure_1(gap="0.8"), "B1", delays=["9/10"])
    >>> [str(step) for step, _ in machine.steps(machine.start())]
    ['time_elapse 9/10']
    >>> ((_, at),) = machine.steps(machine.start())
    >>> [str(step) for step, _ in machine.steps(at)]
    ['setDoTake_F1']
    """

    def __init__(self, topology: Topology, bolt: str, *, delays: Collection[Time] = ()) -> None:
        topology.bolt(bolt)
        super().__init__(topology, delays=delays)
        self.bolt = bolt
        self.mine = [w for w, worker in enumerate(self.workers) if worker.bolt == bolt]

    def start(self) -> Situation:
        """The initial state (4), (5)."""
        return super().start()._replace(flags=Flags())

    def thinkable(self, at: Situation) -> Iterator[Step]:
        """Steps of which some are possible."""
        yield from super().thinkable(at)
        for action in FLAGS:
            yield Step(action)

    def why_not(self, at: Situation, step: Step) -> str | None:
        """Why a step is not possible, by its guard as printed; None if it is."""
        wrong = self.unnamed(step)
        if wrong is not None:
            return wrong
        flags: Flags = at.flags
        if step.action == "time_elapse":  # (13)
            return None if flags.can_time_elapse else "CanTimeElapse is false"
        if step.action in FLAGS:  # (6) to (9), and those of DoEmit
            return self._flag(at, step.action)
        if flags.set_flags != "No":
            return f"SetFlags is {flags.set_flags}: the flags are set first"
        if step.action == "spout_emit":  # (10)
            assert isinstance(step.who, str)
            s = self.spouts[step.who]
            if not self.hears[step.who]:
                return "nobody hears it"
            if at.stime[s] <= self.gap[s]:
                return f"Stime is {at.stime[s]}, and it needs more than {self.gap[s]}"
            if flags.do_take or flags.do_emit:
                return f"{'DoTake' if flags.do_take else 'DoEmit'} is true"
            return self.misdelivered(step.who, step.to, 1)
        w = self.worker[step.who]  # type: ignore[index]
        analysed = self.workers[w].bolt == self.bolt
        if step.action == "bolt_emit":  # (11)
            if at.status[w] != EMIT:
                return f"its state is {at.status[w]}, not E"
            if analysed and not flags.do_emit:
                return "DoEmit is false"
            return self.misdelivered(self.workers[w].bolt, step.to, self.due(at, self.bolt_of[w]))
        if at.status[w] != IDLE:  # bolt_take (12)
            return f"its state is {at.status[w]}, not I"
        if at.lengths[self.queue_of[w]] < 1:
            return "its queue is empty"
        return "DoTake is false" if analysed and not flags.do_take else None

    def _flag(self, at: Situation, action: str) -> str | None:
        expected = "DT" if action.startswith("setDoTake") else "DE"
        if at.flags.set_flags != expected:
            return f"SetFlags is {at.flags.set_flags}, not {expected}"
        waiting = any(at.lengths[self.queue_of[w]] > 0 for w in self.mine)
        takes = any(self.can_take(at, w) for w in self.mine)
        emits = any(at.status[w] == EMIT for w in self.mine)
        several = len(self.mine) > 1
        guards = {
            "setDoTake_T": (takes, "no worker is idle with a tuple in its queue"),
            "setDoTake_F1": (not waiting, "the queue is not empty"),
            "setDoTake_F2": (waiting and not takes and several, "it is for several workers, none of them idle"),
            "setDoTake_F2a": (waiting and not takes and not several, "it is for one worker that is not idle"),
            "setDoEmit_T": (emits, "no worker is in state E"),
            "setDoEmit_F1": (not emits and several, "it is for several workers, none of them in state E"),
            "setDoEmit_F1a": (not emits and not several, "it is for one worker that is not in state E"),
        }
        holds, why = guards[action]
        return None if holds else why

    def after(self, at: Situation, step: Step) -> Situation:
        """What comes after a step that is possible."""
        flags: Flags = at.flags
        if step.action.startswith("setDoTake"):
            return at._replace(flags=flags._replace(do_take=step.action == "setDoTake_T", set_flags="DE"))
        if step.action.startswith("setDoEmit"):
            return at._replace(flags=flags._replace(do_emit=step.action == "setDoEmit_T", set_flags="No"))
        then = super().after(at, step)
        return then._replace(flags=flags._replace(can_time_elapse=step.action != "time_elapse", set_flags="DT"))
