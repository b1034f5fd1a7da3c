"""The search: every interleaving, with crashes, paired with what can still explain it; breadth first.

First the failure-free graph is built (R \\ F); then the faulty one, each situation with the number of its set of
candidates (`candidates.py`).  An empty set ends the search: the way there is a shortest one if
nothing was reduced. Situations from which nothing can be done although an epoch of the input is missing in the output
are dead ends: they refute liveness (`pellucid.failures.checker.search.liveness` looks at cycles, too).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise

from pellucid.failures.checker.search.candidates import Candidates
from pellucid.failures.checker.search.packed import BITS, Moves, Packed
from pellucid.failures.checker.search.reduce import ample, can_reduce, can_reduce_crashes
from pellucid.failures.checker.sinks import Own, Transactional
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.model import FFail, FRecover, TraceStep
from pellucid.internal.model import Budget, CutShort

_SETS = (1 << BITS) - 1


@dataclass
class Explored:
    """What a search saw: ``unexplained`` and ``dead_end`` are situations, ``parents`` says how each was reached."""

    packed: Packed
    parents: dict[int, int]
    transitions: int = 0
    unexplained: int | None = None
    dead_end: int | None = None
    why: str = ""  # what cut it short
    failure_free: int = 0

    @property
    def states(self) -> int:
        """How many situations (each with its candidates)."""
        return len(self.parents)

    def path(self, end: int) -> list[int]:
        """The situations from the first to this one."""
        way = [end]
        while (before := self.parents[way[-1]]) >= 0:
            way.append(before)
        return way[::-1]


def failure_free(packed: Packed, budget: Budget, *, reduce: bool) -> tuple[Candidates, int]:
    """The failure-free graph as candidates for explanations, and its size."""
    reducing = reduce and can_reduce(packed)
    start = packed.pack(packed.system.start())
    number, order = {start: 0}, [start]
    successors: list[list[int]] = []
    for x in order:
        if not len(successors) & 1023 or budget.full(len(order)):
            budget.look(len(order), len(order) - len(successors))
        moves = _moves(packed, x)
        chosen = ample(packed, x, moves) if reducing else None
        after = []
        for found in moves if chosen is None else [chosen]:
            for difference in found.quiet + found.loud:
                y = x + difference
                if y not in number:
                    number[y] = len(order)
                    order.append(y)
                after.append(number[y])
        successors.append(after)
    return Candidates(successors, [packed.see(x) for x in order]), len(order)


def explore(
    system: CrashSystem, budget: Budget, *, reduce: bool = True, reduce_free: bool | None = None, stop: bool = True
) -> Explored:
    """Search until something unexplained is found (``stop``) or everything has been seen.

    ``reduce`` leaves out interleavings (`reduce.py`) of faulty executions, ``reduce_free`` of
    failure-free ones.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> found = explore(CrashSystem(c, crashes=1), Budget(60.0, 2_000_000), reduce=False)
    >>> found.states, found.unexplained, found.dead_end
    (9, None, None)
    """
    packed = Packed(system)
    start = packed.pack(system.start())
    found = Explored(packed, {})
    try:
        candidates, found.failure_free = failure_free(
            packed, budget, reduce=reduce if reduce_free is None else reduce_free
        )
        first = start + (1 << packed.set_shift) + system.crashes * packed.one_crash
        found.parents[first] = -1
        _search(found, candidates, first, budget, reduce, stop)
    except CutShort as cut:
        found.why = str(cut)
    return found


def _search(found: Explored, candidates: Candidates, first: int, budget: Budget, reduce: bool, stop: bool) -> None:
    packed, parents = found.packed, found.parents
    fuse, reducing = reduce and can_reduce_crashes(packed), reduce and can_reduce(packed)
    observation = packed.system.observation
    own = isinstance(observation, Own)  # it may even look at volatile states
    # out(lcs(c)) = out(c), and no recovery changes what a sink holds
    hidden = packed.system.rules.paper_recovery and (observation.durable or isinstance(observation, Transactional))
    tables = list(zip(range(len(packed.tasks)), packed.moves, packed.masks, strict=True))
    whole, set_shift, one_crash, last = packed.whole, packed.set_shift, packed.one_crash, packed.system.last
    see, recover, learn = packed.see, packed.recover, packed.learn
    transitions, done, most = 0, 0, budget.max_states or sys.maxsize

    def shown(x: int) -> int:
        """The situation with the set of candidates that its observation leaves."""
        at = x >> set_shift & _SETS
        seen = see(x)
        if seen != candidates.seen(at):
            x += (candidates.after(at, seen) - at) << set_shift
        return x

    layer = [first]
    while layer:
        following: list[int] = []
        for x in layer:
            done += 1
            if not done & 2047 or len(parents) > most:
                found.transitions = transitions
                budget.look(len(parents), len(layer) + len(following))
            if reducing:
                chosen = ample(packed, x, _moves(packed, x))
                if chosen is not None:
                    for difference in chosen.quiet + chosen.loud:  # a border that does not raise gce shows nothing
                        transitions += 1
                        y = x + difference
                        if y not in parents:
                            parents[y] = x
                            following.append(y)
                    continue
            stuck, broken, may_crash, news = True, False, x >= one_crash, []
            for i, table, mask in tables:
                moves = table.get(x & mask)
                quiet, loud, fail, _ = moves if moves is not None else learn(i, x & mask)
                for difference in quiet:
                    transitions += 1
                    y = x + difference
                    if y not in parents:
                        parents[y] = x
                        following.append(y)
                if loud:
                    news += [shown(x + difference) for difference in loud]
                    stuck = False
                elif quiet:
                    stuck = False
                if fail is None:
                    broken = True
                elif may_crash and not fuse:
                    if own:
                        news.append(shown(x + fail))
                        continue
                    transitions += 1
                    y = x + fail
                    if y not in parents:
                        parents[y] = x
                        following.append(y)
            if broken or (fuse and may_crash):
                y = recover(x) + (x & ~whole) - (0 if broken else one_crash)
                news.append(y if hidden else shown(y))
            if stuck and not broken and found.dead_end is None and packed.committed(x) < last:
                found.dead_end = x
            for y in news:
                transitions += 1
                if y not in parents:
                    parents[y] = x
                    if not y >> set_shift & _SETS:
                        if found.unexplained is None:
                            found.unexplained = y
                        if stop:
                            found.transitions = transitions
                            return
                    following.append(y)
        layer = following
    found.transitions = transitions


def _moves(packed: Packed, x: int) -> list[Moves]:
    found = []
    for i, (table, mask) in enumerate(zip(packed.moves, packed.masks, strict=True)):
        moves = table.get(x & mask)
        found.append(moves if moves is not None else packed.learn(i, x & mask))
    return found


def successors(packed: Packed, x: int) -> list[tuple[TraceStep, int]]:
    """The literal steps of a situation with their labels, as integers with crashes but without candidates."""
    steps = packed.system.steps(packed.unpack(x & ~(_SETS << packed.set_shift)))
    return [(label, packed.pack(after) + after.crashes * packed.one_crash) for label, after in steps]


def labels_to(found: Explored, end: int) -> list[TraceStep]:
    """The trace to a situation: the literal step between each two on the way (two, where a crash was one move)."""
    packed, labels = found.packed, []
    bare = ~(_SETS << packed.set_shift)
    way = found.path(end)
    for x, y in pairwise(way):
        label = next((label for label, after in successors(packed, x) if after == y & bare), None)
        if label is not None:
            labels.append(label)
        else:
            labels += [FFail(packed.tasks[0]), FRecover()]
    return labels
