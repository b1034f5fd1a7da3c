"""Two pipelines on the same events, and what one of them has put out ahead of the other.

Each keeps its own state and fails for itself.  What one puts out waits until the other puts out its own at the same
place of the sequence; the two are compared and both are taken away.  A failure is the last thing in a sequence: it
waits and is compared like an event.

So two pipelines put out the same sequence in a run iff no two things that are compared differ, and nothing waits for
ever: it is not so that from some push on something waits and nothing is compared (`Race.stuck`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pellucid.check.belief.alike import alike_leaves
from pellucid.check.system.build import System, build_system
from pellucid.check.system.cells import Cells
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import FALSE, TRUE, Slot
from pellucid.errors import TypeMismatch
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, INT, simplest


@dataclass(frozen=True)
class Pair:
    """Two systems on the same events: ``first`` and ``second`` are what each may put out in a push, its failure
    last."""

    system: System
    first: tuple[Slot, ...]
    second: tuple[Slot, ...]
    fails: bool  # whether one of them might
    queues: bool  # whether one of them has queues, for which a search has room for so many events only
    stutters: bool  # a push in which all sources are silent changes nothing
    sides: tuple[System, System]  # each by itself

    @n.values_only()
    def hurried(self) -> Pair | None:
        """The pair with an event in every push, where that leaves out nothing that matters.  It is for proofs: a run of
        it shows no silence."""
        if not self.stutters or len(self.comes) != 1 or self.system.assume is not n.TRUE:
            return None
        system = self.system
        leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
        leaves[self.comes[0].value] = TRUE

        def moved(slots: Sequence[Slot]) -> tuple[Slot, ...]:
            return tuple(Slot(e[0], tuple(e[1:])) for e in (substitute([s.present, *s.leaves], leaves) for s in slots))

        return dataclasses.replace(
            self,
            system=system.mapped(lambda exprs: substitute(exprs, leaves)),
            first=moved(self.first),
            second=moved(self.second),
        )

    def speaks(self, slots: Sequence[Slot]) -> Expr:
        """In this push something is put out, or it fails."""
        out = FALSE
        for s in slots:
            out = n.or_(out, s.present)
        return out

    @property
    def comes(self) -> list[Expr]:
        """Of each source whether it brings an event."""
        have = len(self.system.state)
        return [n.var(have + i, v.type) for i, v in enumerate(self.system.inputs) if v.role == "present"]


@dataclass(frozen=True)
class Race:
    """A pair with what waits: at most so much, beyond it the system stops."""

    system: System
    differs: Expr  # two things at the same place of the sequences are not equal
    beyond: Expr  # more waits, here or in a queue of the two, than there is room for
    stuck: Expr  # something waits after this push, and nothing was compared in it
    comes: tuple[Expr, ...]


@n.values_only()
def pair(a: Any, b: Any, domain: Domain, queue: int | Mapping[str, int]) -> Pair:
    """Two pipelines with the same sources, side by side.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> one, two = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda x: x.decimate(2), x=int)
    >>> [v.name.split("-")[0] for v in pair(one, two, domain_of(None), 3).system.state]
    ['1::stopped', '1:trim', '2::stopped', '2:decimate']
    """
    # What is assumed is assumed of the events of both: the first system knows it, under its own names of the sources.
    left = build_system(a.graph, domain, _own(a, queue))
    right = build_system(b.graph, dataclasses.replace(domain, assume=()), _own(b, queue))
    if [t for _, t in left.sources] != [t for _, t in right.sources]:
        shown = ["(" + ", ".join(f"{name}: {t}" for name, t in s.sources) + ")" for s in (left, right)]
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: their sources are {shown[0]} and {shown[1]}")
    outs = [[p.graph.nodes[i].type for _, i in p.graph.outputs] for p in (a, b)]
    if outs[0] != outs[1] or len(outs[0]) != 1:
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: they put out {outs[0]} and {outs[1]}")
    have = len(left.state) + len(right.state)
    given: list[Expr] = [n.var(have + i, v.type) for i, v in enumerate(left.inputs)]
    moved, state, at = [], [], 0
    for system, mark in ((left, "1:"), (right, "2:")):
        own: list[Expr] = [n.var(at + i, v.type) for i, v in enumerate(system.state)]
        moved.append(system.mapped(partial(substitute, leaves=[*own, *given])))
        state += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in system.state]
        at += len(own)
    one, two = moved
    # Once one of them has come to the end of a queue nothing more is said of either.
    queues = bool(a.graph.queues() or b.graph.queues())
    stop = n.or_(one.overflow, two.overflow) if queues else FALSE
    before: list[Expr] = [n.var(i, v.type) for i, v in enumerate(state)]
    following = [n.ite(stop, old, new) for old, new in zip(before, (*one.next, *two.next), strict=True)]
    for i in (0, len(left.state)):
        following[i] = n.ite(stop, n.const(1), following[i])
    sides = []
    fails = any(s.failed.op != "const" or s.failed.value for s in moved)
    for s, p, stopped in ((one, a, before[0]), (two, b, before[len(left.state)])):
        slots = [Slot(n.and_(slot.present, n.not_(stop)), slot.leaves) for slot in s.streams[p.graph.outputs[0][0]][1]]
        if fails:
            nothing = tuple(n.const(simplest(t)) for _, t in outs[0][0].leaves())
            slots = [Slot(slot.present, (FALSE, *slot.leaves)) for slot in slots]
            now = n.and_(n.and_(s.failed, n.not_(n.eq(stopped, n.const(2)))), n.not_(stop))
            slots.append(Slot(now, (TRUE, *nothing)))
        sides.append(tuple(slots))
    system = dataclasses.replace(
        one, name=f"{a.name} and {b.name}", state=tuple(state), next=tuple(following), streams={}, lengths={},
        bounds={}, overflow=stop, failed=n.or_(one.failed, two.failed), graph=None,
    )  # fmt: skip
    return Pair(system, sides[0], sides[1], fails, queues, all(map(_stutters, (left, right))), (left, right))


def _stutters(system: System) -> bool:
    """Whether a push in which every source is silent changes nothing and puts out nothing, as simplification shows."""
    variables = (*system.state, *system.inputs)
    leaves: list[Expr] = [FALSE if v.role == "present" else n.var(i, v.type) for i, v in enumerate(variables)]
    there = [s.present for _, slots in system.streams.values() for s in slots]
    after = substitute([*there, *system.next], leaves)
    still = zip(after[len(there) :], leaves, strict=False)
    return all(e is FALSE for e in after[: len(there)]) and all(e is leaf for e, leaf in still)


def _own(p: Any, queue: int | Mapping[str, int]) -> int | Mapping[str, int]:
    if isinstance(queue, int):
        return queue
    known = {id for id, _, _ in p.graph.queues()}
    return {id: size for id, size in queue.items() if id in known}


@n.values_only()
def race(both: Pair, room: int) -> Race:
    """The pair with room for so many outputs of one that the other has not come to yet."""
    cells = Cells(both.system)
    lines = [
        _Line(cells, mark, slots, room, both.system.domain.modulus)
        for mark, slots in (("1", both.first), ("2", both.second))
    ]
    differs = compared = FALSE
    for at, slots in enumerate((both.first, both.second)):
        own, other = lines[at], lines[1 - at]
        for s in slots:
            waits = n.and_(s.present, other.some)
            same = TRUE
            for x, y in zip(s.leaves, other.items[0], strict=True):
                same = n.and_(same, alike_leaves(x, y))
            differs = n.or_(differs, n.and_(waits, n.not_(same)))
            compared = n.or_(compared, waits)
            other.take(waits)
            own.append(n.and_(s.present, n.not_(waits)), s.leaves)
    beyond = n.or_(both.system.overflow, n.or_(*[n.lt(n.const(room), line.length) for line in lines]))
    ended = cells.add("ended", BOOL, False)
    beyond = n.or_(ended, beyond)
    cells.follow(ended, beyond)
    for line in lines:
        line.store()
    stuck = n.and_(n.and_(n.or_(lines[0].some, lines[1].some), n.not_(compared)), n.not_(beyond))
    roots = [n.and_(differs, n.not_(beyond)), beyond, stuck, *both.comes]
    system, (differs, beyond, stuck, *comes) = cells.done(roots)
    # What goes beyond stops all: there is one state for it.
    last = next(i for i, v in enumerate(system.state) if v.name == "ended")
    following = [
        e if i == last else n.ite(beyond, n.var(i, v.type), e)
        for i, (v, e) in enumerate(zip(system.state, system.next, strict=True))
    ]
    return Race(
        dataclasses.replace(system, next=tuple(following), overflow=beyond), differs, beyond, stuck, tuple(comes)
    )


class _Line:
    """What one of the two has put out and the other has not, during one push."""

    def __init__(self, cells: Cells, mark: str, slots: Sequence[Slot], room: int, modulus: int | None) -> None:
        self.cells, self.room = cells, room
        kinds = [e.type for e in slots[0].leaves]
        self.nothing = tuple(n.const(simplest(t)) for t in kinds)
        self.cell = cells.add(f"ahead{mark}:length", INT, 0, size=room + 1)
        sizes = [modulus if t == INT else None for t in kinds]
        self.held = [
            tuple(
                cells.add(f"ahead{mark}:{i}.{j}", t, simplest(t), size=size)
                for j, (t, size) in enumerate(zip(kinds, sizes, strict=True))
            )
            for i in range(room)
        ]
        self.length, self.items = self.cell, [*self.held, *[self.nothing for _ in slots]]

    @property
    def some(self) -> Expr:
        return n.not_(n.eq(self.length, n.const(0)))

    def take(self, when: Expr) -> None:
        shifted = [*self.items[1:], self.nothing]
        self.items = [
            tuple(n.ite(when, x, y) for x, y in zip(new, old, strict=True))
            for new, old in zip(shifted, self.items, strict=True)
        ]
        self.length = n.ite(when, n.sub(self.length, n.const(1)), self.length)

    def append(self, when: Expr, leaves: Sequence[Expr]) -> None:
        for i in range(len(self.items)):
            here = n.and_(when, n.eq(self.length, n.const(i)))
            self.items[i] = tuple(n.ite(here, x, y) for x, y in zip(leaves, self.items[i], strict=True))
        self.length = n.ite(when, n.add(self.length, n.const(1)), self.length)

    def store(self) -> None:
        self.cells.follow(self.cell, self.length)
        for held, items in zip(self.held, self.items[: self.room], strict=True):
            for cell, item in zip(held, items, strict=True):
                self.cells.follow(cell, item)
