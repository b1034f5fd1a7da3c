"""A queue of a system during one push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.check.slot import Slot
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.types import INT, simplest

if TYPE_CHECKING:
    from pellucid.check.run import Run

__all__ = ["Queue"]


class Queue:
    """A queue during one push: what it held, then what came, then what is left."""

    def __init__(self, run: Run, id: str, step: str, slots: list[Slot]) -> None:
        self.run, self.id, self.step = run, id, step
        self.kinds = [e.type for e in slots[0].leaves]
        self.inner = run.fresh is None
        if self.inner:  # a window's inner run: the queue is a list that starts empty with the run
            self.length: Expr = run.cells.get((step, f"{id}.length"), n.const(0))
            self.items = list(run.held.get(id, []))
            self.bound = len(self.items) + len(slots)
        else:
            assert run.queue is not None
            self.bound = run.queue(id)
            self.length = run.cell(step, f"{id}.length", INT, 0, self.bound + 1, "length", id)
            self.items = [
                tuple(
                    run.cell(step, f"{id}.{i}.{j}", t, simplest(t), run.domain.modulus if t == INT else None, "item", id)
                    for j, t in enumerate(self.kinds)
                )
                for i in range(self.bound)
            ]
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        for s in slots:  # room for all that comes, beyond the bound; what stays must fit again
            self.items.append(empty)
            for i in range(len(self.items)):
                here = n.and_(s.present, n.eq(self.length, n.const(i)))
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
        self.length = n.ite(when, n.sub(self.length, n.const(1)), self.length)

    def store(self) -> None:
        run = self.run
        run.lengths[self.id] = self.length
        run.cells[self.step, f"{self.id}.length"] = self.length
        if self.inner:
            run.held[self.id] = self.items
            return
        run.overflow = n.or_(run.overflow, n.lt(n.const(self.bound), self.length))
        for i in range(self.bound):
            for j in range(len(self.kinds)):
                run.cells[self.step, f"{self.id}.{i}.{j}"] = self.items[i][j]
