"""A queue of a system during one push, and what becomes of what does not fit.

A system has finitely many variables, a queue of a pipeline holds whatever comes.  Three ways to deal with that:

* ``overflow``: a push that needs more than the bound stops the system, and says so; what happens up to there is exact;
* ``deep``: the length is any number, and exact; of the events only the first few are known.  One that moves up from behind them is
  **any** event that the stream could have carried: the system can do all that the pipeline can, and perhaps more;
* ``many``: the same with a length that is known up to the bound only, so that there are finitely many states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.check.slot import FALSE, Slot
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.types import INT, simplest

if TYPE_CHECKING:
    from pellucid.check.run import Run

__all__ = ["Queue", "Room"]


@dataclass(frozen=True)
class Room:
    """How many events of each queue a system knows, and what it does with more.

    ``watch`` are the queues that may stop the system, None all of them: what a question does not depend on may overflow unseen.

    >>> Room({"join.0": 5}).of("join.0"), Room({"join.0": 5}).of("join.1"), Room(2).of("join.1")
    (5, 3, 2)
    """

    bounds: int | Mapping[str, int] = 3
    beyond: str = "overflow"  # or deep, many
    watch: frozenset[str] | None = None

    def of(self, id: str) -> int:
        """The bound of one queue."""
        return self.bounds if isinstance(self.bounds, int) else self.bounds.get(id, 3)


class Queue:
    """A queue during one push: what it held, then what came, then what is left."""

    def __init__(self, run: Run, id: str, step: str, slots: list[Slot], takes: int) -> None:
        self.run, self.id, self.step = run, id, step
        self.kinds = [e.type for e in slots[0].leaves]
        self.inner = run.room is None
        self.beyond = "overflow" if run.room is None else run.room.beyond
        self.many = FALSE  # more wait than are counted
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        behind = 0
        if run.room is None:  # a window's inner run: the queue is a list that starts empty with the run
            self.length: Expr = run.cells.get((step, f"{id}.length"), n.const(0))
            self.items = list(run.held.get(id, []))
            self.bound = len(self.items) + len(slots)
        else:
            self.bound = run.room.of(id)
            size = {"overflow": self.bound + 1, "many": self.bound + 2}.get(self.beyond)
            self.length = run.cell(step, f"{id}.length", INT, 0, size, "length", id)
            self.items = [
                tuple(
                    run.cell(step, f"{id}.{i}.{j}", t, simplest(t), run.domain.modulus if t == INT else None, "item", id)
                    for j, t in enumerate(self.kinds)
                )
                for i in range(self.bound)
            ]
            if self.beyond == "many":
                self.many = n.lt(n.const(self.bound), self.length)
            if self.beyond != "overflow":  # room for all that may be taken: what moves up was not known
                assert run.guess is not None
                behind = max(takes, len(slots))
                for j in range(behind):
                    there = n.or_(self.many, n.lt(n.const(self.bound + j), self.length))
                    some = run.guess.event(f"{id} behind {self.bound + j}", slots, self.items[-1] if self.items else empty)
                    self.items.append(tuple(n.ite(there, a, b) for a, b in zip(some, empty, strict=True)))
        for at, s in enumerate(slots):  # room for all that comes, beyond the bound; what stays must fit again
            if at >= behind:
                self.items.append(empty)
            known = n.and_(s.present, n.not_(self.many))  # else it is one of those behind, of which any may be any event
            for i in range(len(self.items)):
                here = n.and_(known, n.eq(self.length, n.const(i)))
                self.items[i] = tuple(n.ite(here, a, b) for a, b in zip(s.leaves, self.items[i], strict=True))
            self.length = n.ite(s.present, n.add(self.length, n.const(1)), self.length)

    @property
    def some(self) -> Expr:
        return n.not_(n.eq(self.length, n.const(0)))

    def take(self, when: Expr) -> None:
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        shifted = [*self.items[1:], empty]
        self.items = [
            tuple(n.ite(when, a, b) for a, b in zip(new, old, strict=True))
            for new, old in zip(shifted, self.items, strict=True)
        ]
        less = n.sub(self.length, n.const(1))
        if self.beyond == "many":  # there were more than the bound: as many may be left, or the bound
            assert self.run.guess is not None
            more = n.and_(self.many, n.lt(n.const(self.bound), self.length))
            less = n.ite(n.and_(more, self.run.guess.chance(f"{self.id} has more")), self.length, less)
        self.length = n.ite(when, less, self.length)

    def store(self) -> None:
        run = self.run
        if self.beyond == "many":
            most = n.const(self.bound + 1)
            self.length = n.ite(n.lt(most, self.length), most, self.length)
        run.lengths[self.id] = self.length
        run.cells[self.step, f"{self.id}.length"] = self.length
        if self.inner:
            run.held[self.id] = self.items
            return
        assert run.room is not None
        if self.beyond == "overflow" and (run.room.watch is None or self.id in run.room.watch):
            run.overflow = n.or_(run.overflow, n.lt(n.const(self.bound), self.length))
        for i in range(self.bound):
            for j in range(len(self.kinds)):
                run.cells[self.step, f"{self.id}.{i}.{j}"] = self.items[i][j]
