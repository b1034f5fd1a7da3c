"""Exact decisions about small topologies by regions of clocks: slow, simple, and complete.

A clock is a whole number of units and the rank of its fraction (0: none); ranks of different clocks say which fraction
is greater.  That is all a timed automaton can see (Alur and Dill), so what is found here is true of all real times.
Spouts are *ready* once their clock is above the gap (strictly); how much above is of no interest.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import Any

from pellucid.capacity import ANY, Bolt, Spout, Topology

# A topology as the judges write it down, drawn by chance, and the same for Pellucid.
#
# Nothing here knows how Pellucid decides anything: `Case` is plain data, and `Case.topology` is where it is told.


@dataclass(frozen=True)
class Step:
    """A bolt: how long a tuple takes, whom it hears, its workers (None: any number), and the rest."""

    time: Fraction
    hears: tuple[str, ...]
    workers: int | None = 1
    ratio: Fraction = Fraction(1)
    own: bool = False
    initial: int = 0


@dataclass(frozen=True)
class Case:
    """A topology: gaps of spouts and bolts by name."""

    spouts: dict[str, Fraction]
    bolts: dict[str, Step]
    copies: bool = False
    literal: bool = False
    notes: dict[str, object] = field(default_factory=dict)

    def listeners(self, name: str) -> list[str]:
        """Who hears it."""
        return [b for b, step in self.bolts.items() if name in step.hears]

    def above(self, bolt: str) -> set[str]:
        """The bolts and spouts that can matter for a bolt, with itself."""
        found, todo = {bolt}, [bolt]
        while todo:
            at = todo.pop()
            new = [h for h in (self.bolts[at].hears if at in self.bolts else ()) if h not in found]
            found.update(new)
            todo += new
        return found

    def workers(self, **numbers: int | None) -> Case:
        """The same with other workers."""
        return replace(self, bolts={b: replace(s, workers=numbers.get(b, s.workers)) for b, s in self.bolts.items()})

    def gap(self, gap: Fraction) -> Case:
        """The same with one gap for every spout."""
        return replace(self, spouts=dict.fromkeys(self.spouts, gap))

    def topology(self, observe: str = "any") -> Topology:
        """The same as Pellucid has it."""
        return Topology(
            {s: Spout(gap=gap) for s, gap in self.spouts.items()},
            {
                b: Bolt(
                    time=s.time,
                    hears=list(s.hears),
                    workers=ANY if s.workers is None else s.workers,
                    ratio=s.ratio,
                    queue="per worker" if s.own else "shared",
                    initial=s.initial,
                )
                for b, s in self.bolts.items()
            },
            "all" if self.copies else "one",
            "literal" if self.literal else "urgent",
            observe,
        )


TIMES = ("1", "1", "1", "1/2", "2", "3/2", "3/4")
GAPS = ("1/2", "3/4", "4/5", "1", "1", "3/2", "2", "2", "5/2", "3")
RATIOS = ("1/2", "2", "3/2", "2/3", "1/3")


def draw(r: random.Random, *, literal: bool = False) -> Case:
    """A small topology: one or two spouts, one to three bolts, mostly without a circle."""
    spouts = {f"S{i}": Fraction(r.choice(GAPS)) for i in range(r.choice((1, 1, 2)))}
    if r.random() < 0.4:
        spouts = dict.fromkeys(spouts, next(iter(spouts.values())))
    bolts: dict[str, Step] = {}
    plain = literal or r.random() < 0.5
    for i in range(r.choice((1, 2, 2, 3))):
        sources = [*spouts, *bolts]
        hears = r.sample(sources, r.choice((1, 1, 2)) if len(sources) > 1 else 1)
        bolts[f"B{i}"] = Step(
            Fraction(r.choice(TIMES)),
            tuple(hears),
            r.choice((1, 1, 1, 2, 2, 3)),
            Fraction(1) if plain or r.random() < 0.6 else Fraction(r.choice(RATIOS)),
            not plain and r.random() < 0.2,
            0 if plain or r.random() < 0.8 else r.choice((1, 2)),
        )
    case = Case(spouts, bolts, r.random() < 0.4, literal)
    if all(case.listeners(s) for s in spouts):
        return case
    return draw(r, literal=literal)


def figure_1(
    gap: str, workers: tuple[int, int, int] = (1, 1, 1), *, copies: bool = False, literal: bool = False
) -> Case:
    """The paper's topology."""
    one = Fraction(1)
    first, second, third = workers
    return Case(
        {"S1": Fraction(gap), "S2": Fraction(gap)},
        {"B1": Step(one, ("S1",), first), "B2": Step(one, ("S1", "S2"), second), "B3": Step(one, ("B1", "B2"), third)},
        copies,
        literal,
    )


# Runs, applied step by step with exact times: what queues they make, or why one of the steps is not possible.


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
