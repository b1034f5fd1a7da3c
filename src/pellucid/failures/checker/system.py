"""The system that is checked: tasks, rules, sinks, and how often it may crash; explored here literally.

A `Situation` is a configuration with what the sinks hold and how many crashes may still come.  `CrashSystem.steps`
gives its successors by the literal rules, one by one, with nothing packed, remembered or left out: it is what
counterexamples are replayed on, and the yardstick for the fast search in `pellucid.failures.checker.search.packed`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.failures.checker.calls import Calls
from pellucid.failures.checker.rules import Rules, input_streams, sink_streams
from pellucid.failures.checker.sinks import Observation, Transactional
from pellucid.failures.model import (
    FL,
    Configuration,
    FFail,
    FRecover,
    Map,
    Message,
    Produce,
    TraceStep,
    gce,
    on_stream,
)


@dataclass(frozen=True, slots=True)
class Situation:
    """A configuration and what surrounds it."""

    c: Configuration
    held: Map[str, Any]  # of every durable sink
    crashes: int  # how many may still come


class CrashSystem:
    """An initial configuration under a set of rules, seen through an observation.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> system = CrashSystem(c, crashes=1)
    >>> [str(label) for label, _ in system.steps(system.start())]
    ['I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩', 'F-FAIL t']
    """

    def __init__(
        self,
        c: Configuration,
        *,
        crashes: int,
        rules: Rules | None = None,
        observation: Observation | None = None,
        sinks: Sequence[str] | None = None,
    ) -> None:
        self.rules = rules if rules is not None else Rules()
        self.observation = observation if observation is not None else Transactional()
        self.crashes = crashes
        self.calls = Calls(c.Pi)
        self.c = self.rules.start(dataclasses.replace(c, Pi=self.calls.tasks))
        self.inputs = input_streams(c)
        self.sinks = tuple(sinks) if sinks is not None else sink_streams(c)
        self.last = max((m.e for m in c.D), default=0)  # the last epoch of the input

    def start(self, *, crashes: int | None = None) -> Situation:
        """Before the first step."""
        held = Map({s: self.observation.empty() for s in self.sinks} if self.observation.durable else {})
        return Situation(self.c, held, self.crashes if crashes is None else crashes)

    def steps(self, at: Situation, *, failures: bool = True) -> list[tuple[TraceStep, Situation]]:
        """All steps from here; a task that has failed already does not fail again, for that changes nothing."""
        c = at.c
        found: list[tuple[TraceStep, Situation]] = []
        for label, after in self.rules.steps(c):
            found.append((label, Situation(after, written(self, c, label, at.held), at.crashes)))
        if failures and at.crashes:
            for p in c.Pi:
                if c.Sigma[p].volatile is not FL:
                    found.append((FFail(p), dataclasses.replace(at, c=self.rules.fail(c, p), crashes=at.crashes - 1)))
        recovered = self.rules.recover(c) if failures else None
        if recovered is not None:
            found.append((FRecover(), dataclasses.replace(at, c=recovered)))
        return found

    def see(self, at: Situation) -> Hashable:
        """What is observed."""
        return self.observation.see(at.c, at.held)

    def complete(self, at: Situation) -> bool:
        """Whether every input epoch is in the output (Theorem 6.10)."""
        return gce(at.c) >= self.last


def written(system: CrashSystem, c: Configuration, label: TraceStep, held: Map[str, Any]) -> Map[str, Any]:
    """What the sinks hold after a step of a task."""
    if not held or isinstance(label, FFail | FRecover):
        return held
    numbers, changed = dict(label.N), dict[str, Any]()
    there: dict[str, set[Message]] = {}
    for x in label.X:
        n = numbers[x.s]
        numbers[x.s] = n + 1
        if isinstance(x, Produce) and x.s in held:
            message = Message(n, x.s, x.e, x.d)
            on = there.setdefault(x.s, set(on_stream(c.M, x.s)))
            changed[x.s] = system.observation.write(changed.get(x.s, held[x.s]), message, frozenset(on))
            on.add(message)
    return held.updated(changed) if changed else held
