"""The literal semantics, in closed form: a queue of two comes about exactly if a tuple can find no worker.

While one tuple is worked on, a spout can emit ⌈time ÷ gap⌉ more.  If that many, of all spouts that a bolt hears, are no
more than its workers, then every tuple finds one, and no queue has more than the tuple that has just come.  If they are
more, every round leaves some: time passes until all spouts may emit again (as printed, time does not wait for takes and
emits), the workers take what they can, and the spouts emit all they can before the first worker ends.  So every limit
from 2 on has the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as One

from pellucid.capacity.steps.literal import Literal
from pellucid.capacity.steps.machine import workers_of
from pellucid.capacity.steps.step import FLAGS, Step, Worker
from pellucid.capacity.topology import ANY, Topology
from pellucid.errors import UsageError


@dataclass(frozen=True)
class LiteralBound:
    """Of the bolt under analysis: *bounded* (never more than 1), *unbounded* (every limit is reached), or *unknown*.

    ``tuples`` is how many can come while one is worked on.
    """

    bolt: str
    status: One["bounded", "unbounded", "unknown"]
    tuples: int
    workers: int
    why: str = ""

    def __str__(self) -> str:
        many = f"{self.tuples} can come while one is worked on, and there {'is' if self.workers == 1 else 'are'}"
        words = f"{self.bolt}: {self.status}: {many} {self.workers} worker{'' if self.workers == 1 else 's'}"
        return f"{words}; {self.why}" if self.why else words


def literal_bound(topology: Topology, bolt: str) -> LiteralBound:
    """Whether the queue of the bolt under analysis is bounded in the literal semantics.

    >>> from pellucid.capacity import figure_1
    >>> print(literal_bound(figure_1(gap="0.8"), "B1"))
    B1: unbounded: 2 can come while one is worked on, and there is 1 worker
    >>> print(literal_bound(figure_1(gap=1, workers=2), "B2"))
    B2: bounded: 2 can come while one is worked on, and there are 2 workers
    """
    b = topology.bolt(bolt)
    if b.workers is ANY:
        raise UsageError(
            f"bolt {bolt} has ANY number of workers: the bound is of a given number, as in given(workers=2)."
        )
    workers = workers_of(topology, bolt)
    heard = [topology.spouts[s].gap for s in b.hears if s in topology.spouts]
    tuples = sum(math.ceil(b.time / gap) for gap in heard)
    if b.queue == "per worker" and workers > 1:
        return LiteralBound(bolt, "unknown", tuples, workers, "somebody chooses the queue of a worker")
    if tuples > workers:
        return LiteralBound(bolt, "unbounded", tuples, workers)
    if len(heard) < len(b.hears):
        return LiteralBound(bolt, "unknown", tuples, workers, "it hears bolts, which emit when they like")
    if b.initial:
        return LiteralBound(bolt, "unknown", tuples, workers, "its queue is not empty at the beginning")
    return LiteralBound(bolt, "bounded", tuples, workers)


def literal_run(topology: Topology, bolt: str, length: int, most: int) -> tuple[Step, ...]:
    """Rounds that each leave some tuples, until the queue is so long."""
    bound = literal_bound(topology, bolt)
    if bound.status != "unbounded":
        said = "it is bounded" if bound.status == "bounded" else f"whether it does is unknown, since {bound.why}"
        raise UsageError(f"the queue of {bolt} does not grow for ever: {said}.")
    run, b = _Run(Literal(topology, bolt), most), topology.bolts[bolt]
    waits = []
    for s in b.hears:
        if s in topology.spouts:
            gap = topology.spouts[s].gap
            many = math.ceil(b.time / gap)
            apart = gap + (b.time - (many - 1) * gap) / (2 * many)  # all of them before the first worker ends
            waits += [(n * apart, s) for n in range(many)]
    gaps = [topology.spouts[s].gap for s in b.hears if s in topology.spouts]
    while run.machine.length(run.at, bolt) < length:
        now = Fraction(0)
        run.do(Step("time_elapse", by=max([*gaps, b.time]) + 1))
        for when, s in sorted(waits):
            if when > now:
                run.do(Step("time_elapse", by=when - now))
                now = when
            run.work(bolt)
            run.do(Step("spout_emit", s, next(to for to in run.machine.deliveries(s, 1) if bolt in run.bolts(to))))
            if run.machine.length(run.at, bolt) >= length:
                break
    return tuple(run.steps)


class _Run:
    """The machine, and what it did."""

    def __init__(self, machine: Literal, most: int) -> None:
        self.machine, self.most = machine, most
        self.at, self.steps = machine.start(), list[Step]()

    def do(self, step: Step) -> None:
        """One step, which is possible."""
        why = self.machine.why_not(self.at, step)
        assert why is None, (step, why)
        if len(self.steps) >= self.most:
            raise UsageError(f"a run that is long enough has more than {self.most:,} steps: most= allows for more.")
        self.steps.append(step)
        self.at = self.machine.after(self.at, step)

    def work(self, bolt: str) -> None:
        """The flags are set, and the bolt takes and emits until no flag asks for it."""
        while True:
            while self.at.flags.set_flags != "No":
                self.do(next(Step(f) for f in FLAGS if self.machine.why_not(self.at, Step(f)) is None))
            if not self.at.flags.do_take and not self.at.flags.do_emit:
                return
            for w in self.machine.mine:
                worker = self.machine.workers[w]
                if self.at.status[w] == "E":
                    due = self.machine.due(self.at, self.machine.bolt_of[w])
                    self.do(Step("bolt_emit", worker, next(self.machine.deliveries(bolt, due))))
                    break
                if self.machine.can_take(self.at, w):
                    self.do(Step("bolt_take", worker))
                    break

    def bolts(self, to: tuple[str | Worker, ...]) -> list[str]:
        """Whose queues these are."""
        return [place if isinstance(place, str) else place[0] for place in to]
