"""Times that are multiples of a step: a lower bound, by looking at every state.

A grid sees only some of the runs, so what it reaches can be reached, and what it does not reach may be reachable
all the same: with one spout at gap 0.9, a step of 0.1 finds no queue of two, which there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.steps import Situation, Step, Steps, Time, machine_of, plain
from pellucid.capacity.topology import Bolt, Number, Observation, Spout, Topology, exact
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Search


@dataclass(frozen=True)
class Grid:
    """What was found: the longest queues, runs that reach them, and whether it is all that the grid has.

    ``complete`` is false if a queue grew beyond ``most`` (what is behind was not looked at) or the budget was spent.
    """

    longest: dict[str, int]
    runs: dict[str, tuple[Step, ...]]
    complete: bool
    states: int
    why: str = ""


def grid(
    topology: Topology,
    *,
    step: Number,
    most: int = 8,
    bolt: str | None = None,
    limit: int | None = None,
    observe: Observation | None = None,
    budget: Budget | None = None,
) -> Grid:
    """Explore all runs in which time passes by multiples of ``step``.

    States in which some queue holds more than ``most`` are not left.  With a ``limit`` the search ends at the first
    state in which the queue of ``bolt`` has reached it: the run is one with the fewest steps.  ``bolt`` is also the
    bolt under analysis, which the literal semantics needs.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(gap="0.9")}, {"B": Bolt(time=1, hears="S")})
    >>> grid(t, step="0.1").longest, grid(t, step="0.05", most=1).longest
    ({'B': 1}, {'B': 2})
    """
    size, observe = exact(step, "the step of a grid"), observe or topology.observe
    for name, b in topology.bolts.items():
        if (b.time / size).denominator != 1:
            raise UsageError(f"the time {b.time} of bolt {name} is no multiple of the grid's step {size}.")
    if limit is not None and bolt is None:
        raise UsageError("limit= is of one bolt's queue: bolt= names it.")
    units = _in_steps(topology, size)
    longest_wait = math.floor(max([s.gap for s in units.spouts.values()] + [b.time for b in units.bolts.values()])) + 1
    delays = [1] if topology.semantics == "urgent" else list(range(1, longest_wait + 1))
    machine = machine_of(units, bolt=bolt, delays=delays)
    search: Search[Situation, Step] = Search(
        [machine.start()], lambda at: _steps(machine, at, most), budget or Budget(None, 200_000)
    )
    best: dict[str, tuple[int, Situation]] = {b: (-1, machine.start()) for b in topology.bolts}
    why, beyond = "", False
    try:
        for at, _ in search:
            beyond = beyond or max(at.lengths) > most
            if observe == "settled" and not machine.settled(at):
                continue
            for name in best:
                length = machine.length(at, name)
                if length > best[name][0]:
                    best[name] = length, at
            if limit is not None and bolt is not None and best[bolt][0] >= limit:
                why = "the limit was reached"
                break
    except CutShort as cut:
        why = str(cut)
    if beyond and not why:
        why = f"a queue grew beyond {most}"
    runs = {
        name: tuple(s._replace(by=s.by * size) if s.by is not None else s for s in search.way(at))
        for name, (_, at) in best.items()
    }
    return Grid({name: max(n, 0) for name, (n, _) in best.items()}, runs, not why, len(search.parents), why)


def _in_steps(topology: Topology, size: Fraction) -> Topology:
    """The same with the grid's step as the unit of time."""
    spouts = {name: Spout(s.gap / size) for name, s in topology.spouts.items()}
    bolts = {
        name: Bolt(b.time / size, b.hears, workers=b.workers, ratio=b.ratio, queue=b.queue, initial=b.initial)
        for name, b in topology.bolts.items()
    }
    return topology.given(spouts=spouts, bolts=bolts)


def _steps(machine: Steps, at: Situation, most: int) -> Iterator[tuple[Step, Situation]]:
    """The steps, where a spout that may emit is not asked how long it could have: that keeps the states finite."""
    if max(at.lengths) > most:
        return
    for label, then in machine.steps(at):
        if label.action == "time_elapse":
            stime = tuple(min(t, _enough(gap)) for t, gap in zip(then.stime, machine.gap, strict=True))
            yield label, then._replace(stime=stime)
        else:
            yield label, then


def _enough(gap: Time) -> Time:
    return math.floor(plain(Fraction(gap))) + 1
