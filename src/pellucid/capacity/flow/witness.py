"""Runs that make an unbounded queue as long as one likes.

The flow that shows that more comes than is served is turned into a schedule, and the machine runs it (`runs`).  Where
the flow needs stores, they are filled first, one phase each (*prepare and drain*); how much that is follows from how
long the later phases take.  Without stores the run ends in a *growing loop*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.flow.bounds import flows
from pellucid.capacity.flow.literal import literal_run
from pellucid.capacity.flow.network import Network
from pellucid.capacity.flow.runs import Plan, Runner, plan_for, unbounded
from pellucid.capacity.steps.step import Place, Step
from pellucid.capacity.topology import Observation, Topology
from pellucid.errors import UsageError


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
