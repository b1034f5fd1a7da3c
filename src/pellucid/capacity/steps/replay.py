"""The judge: a run is what its steps make of it, one after the other, or it is refused at the first that is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from pellucid.capacity.steps.machine import Situation, Steps, machine_of
from pellucid.capacity.steps.step import Step, Worker
from pellucid.capacity.topology import Observation, Topology
from pellucid.errors import UsageError
from pellucid.internal.model import Run


@dataclass(frozen=True)
class Replay:
    """What happened: ``situations`` and ``times`` have one entry more than ``steps``, for the beginning."""

    topology: Topology
    steps: tuple[Step, ...]
    situations: tuple[Situation, ...]
    times: tuple[Fraction, ...]
    machine: Steps = field(repr=False, compare=False)

    def lengths(self, bolt: str) -> list[int]:
        """The queue of a bolt in every state; if each worker has one, the longest of them."""
        self.topology.bolt(bolt)
        return [self.machine.length(at, bolt) for at in self.situations]

    def settled(self) -> list[bool]:
        """Of which states the takes and emits of that instant are done."""
        return [self.machine.settled(at) for at in self.situations]

    def longest(self, bolt: str, observe: Observation | None = None) -> int:
        """How long the queue of a bolt got, in any state or in a settled one; as the topology says, unless told.

        >>> from pellucid.capacity import Bolt, Spout, Topology, replay
        >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
        >>> r = replay(t, [Step("time_elapse", by=Fraction(3, 2)), Step("spout_emit", "S", ("B",)),
        ...                Step("bolt_take", Worker("B", 0))])
        >>> r.longest("B"), r.longest("B", "settled")
        (1, 0)
        """
        observe = observe or self.topology.observe
        lengths = self.lengths(bolt)
        if observe == "any":
            return max(lengths)
        return max((n for n, settled in zip(lengths, self.settled(), strict=True) if settled), default=0)

    def busy(self) -> dict[Worker, list[tuple[Fraction, Fraction]]]:
        """For each worker, from when to when it has a tuple in hand; the last may end after the run does."""
        found: dict[Worker, list[tuple[Fraction, Fraction]]] = {w: [] for w in self.machine.workers}
        for step, at in zip(self.steps, self.times, strict=False):
            if step.action == "bolt_take":
                worker = Worker(*step.who)  # type: ignore[misc]
                found[worker].append((at, at + self.topology.bolts[worker.bolt].time))
        return found

    def counterexample(self, why: str = "") -> Run:
        """The run with a table, a picture, a document and a replay of its own, as every counterexample has them.

        >>> from pellucid.capacity import Bolt, Spout, Topology, replay
        >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
        >>> run = replay(t, [Step("time_elapse", by=Fraction(3, 2)), Step("spout_emit", "S", ("B",))])
        >>> print(run.counterexample("the queue is not empty"))
        step        0                1
                    time_elapse 3/2  spout_emit S → B
        queue of B                   1
        B[0]
                                     ^ the queue is not empty
        """
        bolt = getattr(self.machine, "bolt", None)
        delays = sorted({step.by for step in self.steps if step.by is not None})
        machine = machine_of(self.topology, bolt=bolt, delays=delays)
        order = machine.place
        steps = tuple(
            step._replace(
                who=step.who if step.who is None or isinstance(step.who, str) else Worker(*step.who),
                to=tuple(sorted(step.to, key=lambda place: order[place])),
            )
            for step in self.steps
        )
        return Run((), steps, None, why, machine)

    @property
    def emits(self) -> int:
        """How many tuples the spouts have emitted."""
        return sum(step.action == "spout_emit" for step in self.steps)


def replay(topology: Topology, steps: Iterable[Step], *, bolt: str | None = None) -> Replay:
    """Apply steps one by one; the first that is not possible is refused.

    ``bolt`` is the bolt under analysis, which the literal semantics needs.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
    >>> wait = Step("time_elapse", by=Fraction(3, 2))
    >>> r = replay(t, [wait, Step("spout_emit", "S", ("B",)), Step("bolt_take", Worker("B", 0))])
    >>> r.lengths("B"), r.times[-1], r.busy()[Worker("B", 0)]
    ([0, 0, 1, 0], Fraction(3, 2), [(Fraction(3, 2), Fraction(5, 2))])
    >>> replay(t, [wait, Step("spout_emit", "S", ("B",)), wait])
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: step 2 (time_elapse 3/2) is not possible at time 3/2: B[0] can take, which comes first.
    """
    machine = machine_of(topology, bolt=bolt)
    done: list[Step] = []
    path, times = [machine.start()], [Fraction(0)]
    for i, step in enumerate(steps):
        why = machine.why_not(path[-1], step)
        if why is not None:
            raise UsageError(f"step {i} ({step}) is not possible at time {times[-1]}: {why}.")
        done.append(step)
        path.append(machine.after(path[-1], step))
        times.append(times[-1] + (step.by or 0))
    return Replay(topology, tuple(done), tuple(path), tuple(times), machine)
