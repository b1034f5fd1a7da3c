"""The literal semantics, in closed form: a queue of two comes about exactly if a tuple can find no worker.

While one tuple is worked on, a spout can emit ⌈time ÷ gap⌉ more.  If that many, of all spouts that a bolt hears, are no
more than its workers, then every tuple finds one, and no queue has more than the tuple that has just come.  If they are
more, every round leaves some: time passes until all spouts may emit again (as printed, time does not wait for takes and
emits), the workers take what they can, and the spouts emit all they can before the first worker ends.  So every limit
from 2 on has the same answer.

A bolt that hears another bolt which tuples can reach has no bound at any rate: only the bolt under analysis has to take
before a spout emits.  So the queue of the other one is filled first, as long as you like, and then it emits one
tuple after the other while the bolt under analysis takes none: a flag holds back spouts, and no bolt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as One

from pellucid.capacity.flow.bounds import Network, Plan, Runner, flows, plan_for, unbounded
from pellucid.capacity.steps import EMIT, FLAGS, Literal, Place, Step, Worker, places_of, workers_of
from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.errors import UsageError


@dataclass(frozen=True)
class LiteralBound:
    """Of the bolt under analysis: *bounded* (never more than 1), *unbounded* (every limit is reached), or *unknown*.

    ``tuples`` is how many spouts can bring while one is worked on; ``through``, where other bolts make it unbounded,
    the way of the tuples: a spout, and the bolts up to the one that the bolt under analysis hears.
    """

    bolt: str
    status: One["bounded", "unbounded", "unknown"]
    tuples: int
    workers: int
    why: str = ""
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.through:
            return f"{self.bolt}: {self.status}: {self.why}"
        many = f"{self.tuples} can come while one is worked on, and there {'is' if self.workers == 1 else 'are'}"
        words = f"{self.bolt}: {self.status}: {many} {self.workers} worker{'' if self.workers == 1 else 's'}"
        return f"{words}; {self.why}" if self.why else words


def literal_bound(topology: Topology, bolt: str) -> LiteralBound:
    """Whether the queue of the bolt under analysis has a bound in the literal semantics.

    >>> from pellucid.capacity import figure_1
    >>> print(literal_bound(figure_1(gap="0.8"), "B1"))
    B1: unbounded: 2 can come while one is worked on, and there is 1 worker
    >>> print(literal_bound(figure_1(gap=1, workers=2), "B2"))
    B2: bounded: 2 can come while one is worked on, and there are 2 workers
    >>> print(literal_bound(figure_1(gap=9), "B3"))
    B3: unbounded: B1 need not take while spouts emit, and then emits all that waits before B3 takes any
    """
    b = topology.bolt(bolt)
    if b.workers is ANY:
        raise UsageError(
            f"bolt {bolt} has ANY number of workers: the bound is of a given number, as in given(workers=2)."
        )
    workers = workers_of(topology, bolt)
    heard = [topology.spouts[s].gap for s in b.hears if s in topology.spouts]
    tuples = sum(math.ceil(b.time / gap) for gap in heard)
    through = _through(topology, bolt)
    if through:
        why = f"{through[-1]} need not take while spouts emit, and then emits all that waits before {bolt} takes any"
        return LiteralBound(bolt, "unbounded", tuples, workers, why, through)
    if b.queue == "per worker" and workers > 1:
        return LiteralBound(bolt, "unknown", tuples, workers, "any worker's queue may be given the next tuple")
    if tuples > workers:
        return LiteralBound(bolt, "unbounded", tuples, workers)
    if len(heard) < len(b.hears):
        why = "it hears itself" if bolt in b.hears else "it hears bolts that put out no more than what waits at first"
        return LiteralBound(bolt, "unknown", tuples, workers, why)
    if b.initial:
        return LiteralBound(bolt, "unknown", tuples, workers, "its queue is not empty at the beginning")
    return LiteralBound(bolt, "bounded", tuples, workers)


def _through(topology: Topology, bolt: str) -> tuple[str, ...]:
    """A shortest way of tuples from a spout to another bolt that this one hears; () if there is none."""
    ways: dict[str, tuple[str, ...]] = {s: (s,) for s in topology.spouts}
    found = list(ways)
    for name in found:  # it grows meanwhile
        if name in topology.bolts and not topology.bolts[name].ratio:
            continue  # nothing comes out of it
        if name in topology.bolts and name != bolt and name in topology.bolts[bolt].hears:
            return ways[name]
        for after in topology.listeners(name):
            if after not in ways:
                ways[after] = (*ways[name], after)
                found.append(after)
    return ()


def literal_run(
    topology: Topology, bolt: str, length: int, most: int, *, observe: Observation = "any"
) -> tuple[Step, ...]:
    """A run in which the queue gets so long: through other bolts, or in rounds that each leave some tuples."""
    bound = literal_bound(topology, bolt)
    if bound.status != "unbounded":
        said = "it is bounded" if bound.status == "bounded" else f"whether it does is unknown, since {bound.why}"
        raise UsageError(f"the queue of {bolt} does not grow for ever: {said}.")
    run = _Run(Literal(topology, bolt), most)
    settled = observe == "settled"
    length += bound.workers if settled else 0  # so many may be taken once nothing else comes
    if bound.through:
        run.fill((*bound.through, bolt), length)
    else:
        _rounds(run, topology, bolt, length)
    if settled:
        run.settle()
    return tuple(run.steps)


def _rounds(run: _Run, topology: Topology, bolt: str, length: int) -> None:
    """The spouts that the bolt hears bring more than it can take, again and again."""
    b = topology.bolts[bolt]
    waits = []
    for s in b.hears:
        if s in topology.spouts:
            gap = topology.spouts[s].gap
            many = math.ceil(b.time / gap)
            apart = gap + (b.time - (many - 1) * gap) / (2 * many)  # all of them before the first worker ends
            waits += [(n * apart, s) for n in range(many)]
    gaps = [topology.spouts[s].gap for s in b.hears if s in topology.spouts]
    while run.waits(bolt) < length:
        now = Fraction(0)
        run.do(Step("time_elapse", by=max([*gaps, b.time]) + 1))
        for when, s in sorted(waits):
            if when > now:
                run.do(Step("time_elapse", by=when - now))
                now = when
            run.work(bolt)
            run.do(Step("spout_emit", s, run.to(s, 1, bolt)))
            if run.waits(bolt) >= length:
                break


class _Run:
    """The machine, and what it did."""

    def __init__(self, machine: Literal, most: int) -> None:
        self.machine, self.most = machine, most
        self.at, self.steps = machine.start(), list[Step]()

    def waits(self, bolt: str) -> int:
        """The length of a bolt's queue; of its first worker's, if each has one."""
        return self.at.lengths[self.machine.place[places_of(self.machine.topology, bolt)[0]]]

    def do(self, step: Step) -> None:
        """One step, which is possible."""
        why = self.machine.why_not(self.at, step)
        assert why is None, (step, why)
        if len(self.steps) >= self.most:
            raise UsageError(f"a run that is long enough has more than {self.most:,} steps: most= allows for more.")
        self.steps.append(step)
        self.at = self.machine.after(self.at, step)

    def flags(self) -> None:
        """All flags are set, so that bolts and spouts may go on."""
        while self.at.flags.set_flags != "No":
            self.do(next(Step(f) for f in FLAGS if self.machine.why_not(self.at, Step(f)) is None))

    def work(self, bolt: str, towards: str | None = None) -> None:
        """The flags are set, and the bolt under analysis takes and emits until no flag asks for it."""
        while True:
            self.flags()
            if not self.at.flags.do_take and not self.at.flags.do_emit:
                return
            for w in self.machine.mine:
                worker = self.machine.workers[w]
                if self.at.status[w] == EMIT:
                    self.emit(worker, towards)
                    break
                if self.machine.can_take(self.at, w):
                    self.do(Step("bolt_take", worker))
                    break

    def fill(self, way: tuple[str, ...], length: int) -> None:
        """Make the queue of the last bolt of a way so long, by first making those before it long enough."""
        *before, goal = way
        giver, analysed = before[-1], self.machine.bolt
        if giver in self.machine.spouts:
            while self.waits(goal) < length:
                self._emitted(giver, goal)
            return
        if giver == analysed:  # it works as soon as it can, so that its queue need not be long
            wait = self.machine.topology.bolts[giver].time
            while self.waits(goal) < length:
                self._emitted(before[-2], giver)
                self.do(Step("time_elapse", by=wait))
                self.work(analysed, goal)
            return
        bolt, worker = self.machine.topology.bolts[giver], Worker(giver, 0)
        self.fill(tuple(before), math.ceil((length + 1) / bolt.ratio))
        while self.waits(goal) < length:
            self.flags()
            self.do(Step("bolt_take", worker))
            self.do(Step("time_elapse", by=bolt.time))
            self.flags()
            self.emit(worker, goal)

    def settle(self) -> None:
        """Every worker that can take or emit does so."""
        self.flags()
        while (w := self.machine.acts(self.at)) is not None:
            worker = self.machine.workers[w]
            if self.at.status[w] == EMIT:
                self.emit(worker, self.machine.bolt)
            else:
                self.do(Step("bolt_take", worker))
            self.flags()

    def emit(self, worker: Worker, goal: str | None) -> None:
        """All that is due."""
        due = self.machine.due(self.at, self.machine.bolt_of[self.machine.worker[worker]])
        self.do(Step("bolt_emit", worker, self.to(worker.bolt, due, goal)))

    def _emitted(self, spout: str, goal: str) -> None:
        """One tuple more of a spout, before which the bolt under analysis does what it has to."""
        self.do(Step("time_elapse", by=self.machine.topology.spouts[spout].gap + 1))
        self.work(self.machine.bolt)
        self.do(Step("spout_emit", spout, self.to(spout, 1, goal)))

    def to(self, name: str, count: int, goal: str | None) -> tuple[Place, ...]:
        """Where tuples go: as many as can to the first queue of this bolt."""
        choices = list(self.machine.deliveries(name, count))
        if goal is None:
            return choices[0]
        first = places_of(self.machine.topology, goal)[0]
        return max(choices, key=lambda to: to.count(first))


# Runs that make an unbounded queue as long as one likes.
#
# The flow that shows that more comes than is served is turned into a schedule, and the machine runs it (`runs`).  Where
# the flow needs stores, they are filled first, one phase each (*prepare and drain*); how much that is follows from how
# long the later phases take.  Without stores the run ends in a *growing loop*.


@dataclass(frozen=True)
class Growth:
    """A run that makes a queue at least so long.

    ``phases`` says which bolt is filled when (up to which step); ``loop``, if there is one, is a part of the run that
    can be repeated for ever: from which step, to which, and by how many tuples the queue is longer each time.
    """

    bolt: str
    length: int
    steps: tuple[Step, ...]
    phases: tuple[tuple[str, int], ...]
    loop: tuple[int, int, int] | None = None

    @property
    def kind(self) -> str:
        """How it is done, in words."""
        if len(self.phases) > 1:
            return "prepare and drain"
        return "growing loop" if self.loop else "growing run"


def grow(
    topology: Topology, bolt: str, length: int, *, observe: Observation | None = None, most: int = 1_000_000
) -> Growth:
    """A run in which the queue of an unbounded bolt gets as long as asked; `replay` accepts its steps.

    >>> from pellucid.capacity import figure_1, replay
    >>> t = figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3})
    >>> found = grow(t, "B3", 5)
    >>> found.kind, [b for b, _ in found.phases], replay(t, found.steps).longest("B3")
    ('prepare and drain', ['B1', 'B3'], 5)
    >>> grow(t, "B2", 5)
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: the queue of B2 does not grow for ever: it is bounded.

    In the literal semantics the bolt is the one under analysis.

    >>> t = figure_1(gap="9.2").given(semantics="literal")
    >>> replay(t, grow(t, "B2", 5).steps, bolt="B2").longest("B2")
    5
    """
    if topology.semantics == "literal":
        steps = literal_run(topology, bolt, length, most, observe=observe or topology.observe)
        return Growth(bolt, length, steps, ((bolt, len(steps)),))
    status = flows(topology)[bolt].status
    if status != "unbounded":
        said = "it is bounded" if status == "bounded" else "whether it does is unknown"
        raise UsageError(f"the queue of {bolt} does not grow for ever: {said}.")
    network = Network(topology)
    plans = _plans(network, network.of[bolt][0])
    spare = 2
    while True:
        found = _attempt(network, plans, length, observe or topology.observe, spare, most)
        if found is not None:
            return found
        spare *= 2  # a store was empty too early: by how much is a matter of single tuples, which flow does not see


def _plans(network: Network, goal: Place) -> list[Plan]:
    """What is to be filled, in this order; the goal last."""
    stocked = unbounded(network)
    order = list(stocked)
    plans: dict[Place, Plan] = {}
    wanted = [goal]
    for place in wanted:  # it grows meanwhile
        plans[place] = plan_for(network, place, stocked[place])
        wanted += [p for p in plans[place].stores if p not in wanted]
    return sorted(plans.values(), key=lambda plan: order.index(plan.place))


def _attempt(
    network: Network, plans: list[Plan], length: int, observe: Observation, spare: int, most: int
) -> Growth | None:
    """A run by these plans; None if a store was empty before the goal was reached."""
    needs, lasts = [0] * len(plans), [Fraction(0)] * len(plans)
    for i in range(len(plans) - 1, -1, -1):
        later = sum(lasts[i + 1 :], Fraction(0))
        needs[i] = length if i == len(plans) - 1 else math.ceil(network.speed[plans[i].place] * later) + spare
        lasts[i] = (needs[i] + 2 * spare) / plans[i].growth
    run = Runner(network)
    phases, loop = [], None
    for i, plan in enumerate(plans):
        last = i == len(plans) - 1
        loop = run.fill(plan, needs[i], observe if last else "any", most, len(plans) == 1)
        if loop is None:
            return None
        phases.append((plan.place if isinstance(plan.place, str) else plan.place[0], len(run.steps)))
    bolt = phases[-1][0]
    return Growth(bolt, length, tuple(run.steps), tuple(phases), loop or None)
