"""Exact decisions about small topologies by regions of clocks: slow, simple, and complete.

A clock is a whole number of units and the rank of its fraction (0: none); ranks of different clocks say which fraction
is greater.  That is all a timed automaton can see (Alur and Dill), so what is found here is true of all real times.
Spouts are *ready* once their clock is above the gap (strictly); how much above is of no interest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from .case import Case

IDLE, EMIT, BUSY = 0, 1, 2
READY = (-1, -1)
Clock = tuple[int, int]
#: what a worker does, its clock, and its own queue where it has one
Worker = tuple[int, Clock, int]
NONE: Clock = (0, 0)


def unit(case: Case) -> Fraction:
    """The greatest number of which all times are multiples."""
    times = [g for g in case.spouts.values() if g] + [b.time for b in case.bolts.values()]
    return reduce(
        lambda a, b: Fraction(
            math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
        ),
        times,
    )


@dataclass
class Found:
    """``first[observe][n]``: the fewest emits (or steps) after which the queue is n long; ``done``: nothing else can
    happen; ``levels``: all runs with at most so many were looked at."""

    first: dict[str, dict[int, int]]
    done: bool
    levels: int
    states: int

    def says(self, observe: str, limit: int) -> str:
        """Whether the queue stays below a limit."""
        if limit in self.first[observe]:
            return "refuted"
        return "proved" if self.done else "unknown"

    def longest(self, observe: str) -> int:
        """The longest of all that was seen."""
        return max(self.first[observe], default=0)


class Regions:
    """The steps of a topology, for the queue of one bolt."""

    def __init__(self, case: Case, bolt: str, *, whole: bool = False) -> None:
        self.case, self.bolt, self.free = case, bolt, not whole
        matter = set(case.bolts) | set(case.spouts) if whole else case.above(bolt)
        self.spouts = [s for s in case.spouts if s in matter]
        self.bolts = [b for b in case.bolts if b in matter]
        self.at = self.bolts.index(bolt)
        u = unit(case)
        self.gaps = [int(case.spouts[s] / u) for s in self.spouts]
        self.times = [int(case.bolts[b].time / u) for b in self.bolts]
        self.own = [case.bolts[b].own for b in self.bolts]
        self.ratio = [case.bolts[b].ratio for b in self.bolts]
        self.final = [not case.listeners(b) for b in self.bolts]
        index = {b: i for i, b in enumerate(self.bolts)}
        self.to = {n: [index.get(b) for b in case.listeners(n)] for n in (*self.spouts, *self.bolts)}

    def starts(self) -> Iterator[Any]:
        """The beginning; what waits then is spread evenly where each worker has a queue."""
        bolts = []
        for b in self.bolts:
            step = self.case.bolts[b]
            assert step.workers is not None
            own = [(step.initial + i) // step.workers if step.own else 0 for i in range(step.workers)]
            bolts.append((0 if step.own else step.initial, Fraction(0), tuple((IDLE, NONE, q) for q in own)))
        yield (NONE,) * len(self.spouts), tuple(bolts)

    def length(self, state: Any) -> int:
        """Of the queue that is asked for: where workers have their own, of the longest."""
        queue, _, workers = state[1][self.at]
        return max(q for _, _, q in workers) if self.own[self.at] else queue

    def put(self, bolts: tuple[Any, ...], name: str, count: int) -> set[tuple[Any, ...]]:
        """All ways in which so many tuples go to those who hear."""
        found = {bolts}
        for _ in range(count):
            choices = [[i] for i in self.to[name]] if not self.case.copies else [self.to[name]]
            now = set()
            for b, targets in itertools.product(found, choices):
                some = {b}
                for target in targets:
                    if target is not None:
                        some = {n for s in some for n in self.give(s, target)}
                now |= some
            found = now
        return found

    def give(self, bolts: tuple[Any, ...], to: int) -> set[tuple[Any, ...]]:
        """One tuple to one bolt."""
        queue, acc, workers = bolts[to]
        if not self.own[to]:
            return {(*bolts[:to], (queue + 1, acc, workers), *bolts[to + 1 :])}
        found = set()
        for i, (kind, clock, q) in enumerate(workers):
            new = tuple(sorted((*workers[:i], (kind, clock, q + 1), *workers[i + 1 :])))
            found.add((*bolts[:to], (queue, acc, new), *bolts[to + 1 :]))
        return found

    def takes(self, state: Any, which: int) -> Iterator[Any]:
        """Takes of one bolt."""
        spouts, bolts = state
        queue, acc, workers = bolts[which]
        for i, (kind, _, q) in enumerate(workers):
            if kind != IDLE or not (q if self.own[which] else queue) or workers[i] in workers[:i]:
                continue
            busy = (BUSY, NONE, q - 1 if self.own[which] else q)
            new = tuple(sorted((*workers[:i], busy, *workers[i + 1 :])))
            yield spouts, (*bolts[:which], (queue - (not self.own[which]), acc, new), *bolts[which + 1 :])

    def emits(self, state: Any, which: int) -> Iterator[Any]:
        """Emits of one bolt."""
        spouts, bolts = state
        queue, acc, workers = bolts[which]
        for i, (kind, _, q) in enumerate(workers):
            if kind != EMIT or workers[i] in workers[:i]:
                continue
            acc += self.ratio[which]
            due = int(acc)
            new = tuple(sorted((*workers[:i], (IDLE, NONE, q), *workers[i + 1 :])))
            after = (*bolts[:which], (queue, acc - due, new), *bolts[which + 1 :])
            for to in self.put(after, self.bolts[which], due):
                yield spouts, to
            acc = bolts[which][1]

    def urgent(self, state: Any) -> list[Any]:
        """What bolts can do at once."""
        return [s for w in range(len(self.bolts)) for s in (*self.takes(state, w), *self.emits(state, w))]

    def spout_emits(self, state: Any) -> Iterator[Any]:
        """What spouts can do."""
        spouts, bolts = state
        for i, clock in enumerate(spouts):
            if clock == READY and self.to[self.spouts[i]]:
                for to in self.put(bolts, self.spouts[i], 1):
                    yield normal(((*spouts[:i], NONE, *spouts[i + 1 :]), to))

    def later(self, state: Any) -> Any:
        """The next region as time passes; None if nothing changes any more."""
        spouts, bolts = state
        clocks = [c for c in spouts if c != READY] + [c for _, _, ws in bolts for k, c, _ in ws if k == BUSY]
        if not clocks:
            return None
        if any(not r for _, r in clocks):
            new = tuple(
                c if c == READY else READY if not c[1] and c[0] >= gap else (c[0], c[1] + 1)
                for c, gap in zip(spouts, self.gaps, strict=True)
            )
            moved = tuple(
                (q, a, tuple((k, (c[0], c[1] + 1), o) if k == BUSY else (k, c, o) for k, c, o in ws))
                for q, a, ws in bolts
            )
            return normal((new, moved))
        top = max(r for _, r in clocks)
        new = tuple(c if c == READY or c[1] < top else (c[0] + 1, 0) for c in spouts)
        parts = []
        for (q, a, ws), time, final in zip(bolts, self.times, self.final, strict=True):
            now = []
            for k, c, o in ws:
                if k == BUSY and c[1] == top:
                    c = (c[0] + 1, 0)
                    if c[0] == time:
                        k, c = (IDLE if final else EMIT), NONE
                now.append((k, c, o))
            parts.append((q, a, tuple(sorted(now))))
        return normal((new, tuple(parts)))

    def explore(self, most: int, *, budget: int = 40_000, levels: int = 10**9) -> Found:
        """All that can be reached, emit by emit, until the queue is ``most`` long in a settled state."""
        first: dict[str, dict[int, int]] = {"any": {}, "settled": {}}
        seen = set(self.starts())
        level, now = 0, list(seen)
        while now and level <= levels:
            after: list[Any] = []
            while now:
                state = now.pop()
                n = self.length(state)
                for k in range(1, n + 1):
                    first["any"].setdefault(k, level)
                new = self.urgent(state)
                if not new:
                    for k in range(1, n + 1):
                        first["settled"].setdefault(k, level)
                    later = self.later(state)
                    new = [] if later is None else [later]
                    for s in self.spout_emits(state):
                        if s not in seen:
                            seen.add(s)
                            after.append(s)
                for s in new:
                    if s not in seen:
                        seen.add(s)
                        now.append(s)
                if len(seen) > budget:
                    return Found(
                        {o: {k: v for k, v in f.items() if v < level} for o, f in first.items()},
                        False,
                        level - 1,
                        len(seen),
                    )
            if most in first["settled"]:
                return Found(first, False, level, len(seen))
            now, level = after, level + 1
        return Found(first, not now, level - 1, len(seen))


def normal(state: Any) -> Any:
    """Ranks of fractions without holes, and workers in order."""
    spouts, bolts = state
    ranks = {c[1] for c in spouts if c != READY} | {c[1] for _, _, ws in bolts for k, c, _ in ws if k == BUSY}
    order = {r: i for i, r in enumerate(sorted(ranks | {0}))}
    return (
        tuple(c if c == READY else (c[0], order[c[1]]) for c in spouts),
        tuple(
            (q, a, tuple(sorted((k, (c[0], order[c[1]]) if k == BUSY else c, o) for k, c, o in ws)))
            for q, a, ws in bolts
        ),
    )


class Literal(Regions):
    """The transitions as the paper prints them, the bolt under analysis being the one that has the flags.

    A state has also CanTimeElapse, SetFlags (No, DT, DE), DoTake and DoEmit.  Time passes by anything above 0, also
    beyond the end of a tuple; it needs CanTimeElapse and nothing of SetFlags, as printed in (13).

    Other bolts matter, since whatever they do lets time pass again.  Unless the ``whole`` is asked for they are left
    out and time may always pass: that allows more, so that what is not reached then is not reached at all.
    """

    def moves(self, full: Any) -> Iterator[tuple[bool, Any]]:
        """Each with whether it is an emit of a spout."""
        state, (elapse, flags, take, emit) = full
        _, bolts = state
        queue, _, workers = bolts[self.at]
        if elapse or self.free:
            for after in self.passes(state):
                yield False, (after, (False, "DT", take, emit))
        if flags == "DT":
            can = any(k == IDLE and (o if self.own[self.at] else queue) for k, _, o in workers)
            yield False, (state, (elapse, "DE", can, emit))
        elif flags == "DE":
            yield False, (state, (elapse, "No", take, any(k == EMIT for k, _, _ in workers)))
        else:
            system = (True, "DT", take, emit)
            if not take and not emit:
                for s in self.spout_emits(state):
                    yield True, (s, system)
            for w in range(len(self.bolts)):
                if w != self.at or emit:
                    for s in self.emits(state, w):
                        yield False, (normal(s), system)
                if w != self.at or take:
                    for s in self.takes(state, w):
                        yield False, (normal(s), system)

    def passes(self, state: Any) -> Iterator[Any]:
        """Where any time above 0 can lead."""
        spouts, bolts = state
        exact = [c for c in spouts if c != READY and not c[1]] + [
            c for _, _, ws in bolts for k, c, _ in ws if k == BUSY and not c[1]
        ]
        seen = set()
        if not exact:
            seen.add(state)
            yield state
        at = self.later(state)
        while at is not None and at not in seen:
            seen.add(at)
            yield at
            at = self.later(at)

    def search(self, most: int, *, by: str = "steps", budget: int = 40_000) -> Found:
        """The fewest steps, or emits of spouts, for each length."""
        first: dict[str, dict[int, int]] = {"any": {}, "settled": {}}
        start = [(s, (True, "No", False, False)) for s in self.starts()]
        seen, now, level = set(start), start, 0
        while now:
            after: list[Any] = []
            while now:
                full = now.pop()
                for k in range(1, self.length(full[0]) + 1):
                    first["any"].setdefault(k, level)
                if most in first["any"]:
                    return Found(first, False, level, len(seen))
                for counts, s in self.moves(full):
                    if s not in seen:
                        seen.add(s)
                        (after if counts or by == "steps" else now).append(s)
                if len(seen) > budget:
                    return Found(
                        {o: {k: v for k, v in f.items() if v < level} for o, f in first.items()},
                        False,
                        level - 1,
                        len(seen),
                    )
            now, level = after, level + 1
        return Found(first, True, level - 1, len(seen))
