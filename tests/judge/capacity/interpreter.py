"""Runs, applied step by step with exact times: what queues they make, or why one of the steps is not possible."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from .case import Case


class Refused(Exception):  # noqa: N818 - an answer, not a mistake
    """A step that is not possible."""


class World:
    """Where a run has come to.  Steps are taken apart by their fields ``action``, ``who``, ``to`` and ``by`` only."""

    def __init__(self, case: Case, bolt: str | None = None) -> None:
        self.case, self.bolt = case, bolt
        self.time = Fraction(0)
        self.since = dict.fromkeys(case.spouts, Fraction(0))
        self.state: dict[tuple[str, int], str] = {}
        self.left: dict[tuple[str, int], Fraction] = {}
        self.queues: dict[Any, int] = {}
        self.acc = dict.fromkeys(case.bolts, Fraction(0))
        self.emitted = 0
        self.elapse, self.flags, self.take, self.emit = True, "No", False, False
        for b, step in case.bolts.items():
            many = step.workers or 0
            for i in range(many):
                self.state[b, i], self.left[b, i] = "I", Fraction(0)
                if step.own:
                    self.queues[b, i] = step.initial // many + (i < step.initial % many)
            if not step.own:
                self.queues[b] = step.initial

    def length(self, bolt: str) -> int:
        """Of the queue, or the longest of its workers'."""
        if not self.case.bolts[bolt].own:
            return self.queues[bolt]
        return max(self.queues[bolt, i] for i in range(self.case.bolts[bolt].workers or 0))

    def queue(self, w: tuple[str, int]) -> Any:
        """The key of the queue of a worker."""
        return w if self.case.bolts[w[0]].own else w[0]

    def can_take(self, w: tuple[str, int]) -> bool:
        """Whether it is idle and something waits for it."""
        return self.state[w] == "I" and self.queues[self.queue(w)] > 0

    def settled(self) -> bool:
        """Whether no bolt can do anything before time passes."""
        return not any(self.can_take(w) or self.state[w] == "E" for w in self.state)

    def check(self, fine: bool, why: str) -> None:
        if not fine:
            raise Refused(f"at {self.time}: {why}")

    def put(self, name: str, to: Sequence[Any], due: int) -> None:
        """Tuples into queues: so many as are due, each to one who hears it, or a copy to each."""
        names = [t[0] if isinstance(t, tuple) else t for t in to]
        listeners = self.case.listeners(name)
        if self.case.copies:
            self.check(sorted(names) == sorted(listeners * due), f"{name} → {to}")
        else:
            self.check(len(names) == due and set(names) <= set(listeners), f"{name} → {to}")
        for t in to:
            key = (t[0], t[1]) if isinstance(t, tuple) else t
            self.check(key in self.queues, f"no queue {key}")
            self.queues[key] += 1

    def apply(self, step: Any) -> None:
        """One step."""
        literal, action = self.case.literal, step.action
        if action == "time_elapse":
            self.check(step.by > 0, "no time passes")
            if literal:
                self.check(self.elapse, "time passed last")
            else:
                self.check(self.settled(), "bolts come first")
                self.check(all(self.left[w] >= step.by for w in self.state if self.state[w] == "X"), "beyond an end")
            self.time += step.by
            for s in self.since:
                self.since[s] += step.by
            for w, what in self.state.items():
                if what == "X":
                    self.left[w] = max(self.left[w] - step.by, Fraction(0))
                    if not self.left[w]:
                        self.state[w] = "E" if self.case.listeners(w[0]) else "I"
            self.elapse, self.flags = False, "DT"
        elif action == "spout_emit":
            self.check(self.since[step.who] > self.case.spouts[step.who], f"too early for {step.who}")
            if literal:
                self.check(self.flags == "No" and not self.take and not self.emit, "flags")
            else:
                self.check(self.settled(), "bolts come first")
            self.put(step.who, step.to, 1)
            self.since[step.who] = Fraction(0)
            self.emitted += 1
            self.elapse, self.flags = True, "DT"
        elif action == "bolt_take":
            w = (step.who[0], step.who[1])
            self.check(self.can_take(w), f"{w} cannot take")
            if literal:
                self.check(self.flags == "No" and (w[0] != self.bolt or self.take), "flags")
            self.queues[self.queue(w)] -= 1
            self.state[w], self.left[w] = "X", self.case.bolts[w[0]].time
            self.elapse, self.flags = True, "DT"
        elif action == "bolt_emit":
            w = (step.who[0], step.who[1])
            self.check(self.state[w] == "E", f"{w} cannot emit")
            if literal:
                self.check(self.flags == "No" and (w[0] != self.bolt or self.emit), "flags")
            acc = self.acc[w[0]] + self.case.bolts[w[0]].ratio
            self.put(w[0], step.to, int(acc))
            self.acc[w[0]] = acc - int(acc)
            self.state[w] = "I"
            self.elapse, self.flags = True, "DT"
        elif action.startswith("setDo"):
            self.flag(action)
        else:
            raise Refused(f"what is {action}?")

    def flag(self, action: str) -> None:
        """The flag transitions of the appendix, (6) to (9) and those for emits."""
        bolt = self.bolt
        assert self.case.literal and bolt is not None
        workers = [w for w in self.state if w[0] == bolt]
        name, _, which = action.partition("_")
        if name == "setDoTake":
            self.check(self.flags == "DT", "not the time for DoTake")
            can = any(self.can_take(w) for w in workers)
            fine = {
                "T": can,
                "F1": self.length(bolt) == 0,
                "F2": self.length(bolt) > 0 and not can and len(workers) > 1,
            }
            fine["F2a"] = self.length(bolt) > 0 and not can and len(workers) == 1
            self.check(fine[which], action)
            self.take, self.flags = which == "T", "DE"
        else:
            self.check(self.flags == "DE", "not the time for DoEmit")
            can = any(self.state[w] == "E" for w in workers)
            self.check(
                {"T": can, "F1": not can and len(workers) > 1, "F1a": not can and len(workers) == 1}[which], action
            )
            self.emit, self.flags = which == "T", "No"


def lengths(case: Case, bolt: str, steps: Sequence[Any]) -> tuple[dict[str, int], int, Fraction]:
    """The longest queue in any and in a settled state, how many emits of spouts, and how long it took; or `Refused`."""
    world = World(case, bolt)
    longest = {"any": world.length(bolt), "settled": world.length(bolt) if world.settled() else 0}
    for step in steps:
        world.apply(step)
        longest["any"] = max(longest["any"], world.length(bolt))
        if world.settled():
            longest["settled"] = max(longest["settled"], world.length(bolt))
    return longest, world.emitted, world.time
