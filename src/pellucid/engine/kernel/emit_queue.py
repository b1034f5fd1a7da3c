"""Queues in a kernel: linked cells in a pool, with the two ends and the length in the state's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.engine.kernel.layout import QueueLayout
from pellucid.expr.types import BOOL, INT, Type

if TYPE_CHECKING:
    from pellucid.engine.kernel.emit import Emitter
    from pellucid.engine.kernel.emit_state import Storage


class QueueWriter:
    """Writes the code of one queue.

    In a window's inner run the queue can hold no more than the window's events, so its pool is a scratch
    array that starts empty with every run; elsewhere the pool belongs to the state and may grow.
    """

    def __init__(self, e: Emitter, store: Storage, id: str, leaves: tuple[Type, ...], burst: int | None) -> None:
        self.e, self.leaves = e, leaves
        self.head = store.word(f"{id}.head", INT, -1)
        self.tail = store.word(f"{id}.tail", INT, -1)
        self.count = store.word(f"{id}.length", INT, 0)
        if store.region is None:
            room = (burst or 1) * e.window_size()
            stem = e.w.fresh("q")
            self.free, self.bump, self.live = f"{stem}f", f"{stem}b", f"{stem}l"
            self.next, self.cells = f"{stem}n", [f"{stem}_{j}" for j in range(len(leaves))]
            e.resets += [(self.free, "-1"), (self.bump, "0"), (self.live, "0")]
            if e.numba:
                e.scratch.append((self.next, INT, room))
                e.scratch += [(cell, t, room) for cell, t in zip(self.cells, leaves, strict=True)]
            else:
                e.resets += [(name, "[]") for name in (self.next, *self.cells)]
            self.fixed = e.numba
        else:
            q = len(e.layout.queues)
            e.layout.queues.append(QueueLayout(id, leaves, burst))
            self.free, self.bump, self.live = f"qf{q}", f"qb{q}", f"ql{q}"
            self.next, self.cells = f"Q{q}n", [f"Q{q}_{j}" for j in range(len(leaves))]
            self.fixed = e.numba

    def length(self, key: str | None) -> str:
        """How many events wait."""
        return self.count.load(key)

    def put(self, values: list[str], key: str | None) -> None:
        """Add an event at the end."""
        w = self.e.w
        cell = w.fresh("c")
        stored = [f"int({v})" if t == BOOL else v for v, t in zip(values, self.leaves, strict=True)]
        with w.block(f"if {self.free} != -1:"):
            w.line(f"{cell} = {self.free}; {self.free} = {self.next}[{cell}]")
        with w.block("else:"):
            w.line(f"{cell} = {self.bump}; {self.bump} += 1")
            if not self.fixed:
                w.line(f"{self.next}.append(-1)")
                for name in self.cells:
                    w.line(f"{name}.append(0)")
        w.line(f"{self.next}[{cell}] = -1; {self.live} += 1")
        for name, value in zip(self.cells, stored, strict=True):
            w.line(f"{name}[{cell}] = {value}")
        with w.block(f"if {self.count.load(key)} == 0:"):
            self.head.store(key, cell)
        with w.block("else:"):
            w.line(f"{self.next}[{self.tail.load(key)}] = {cell}")
        self.tail.store(key, cell)
        self.count.store(key, f"{self.count.load(key)} + 1")

    def take(self, key: str | None) -> list[str]:
        """Remove the first event; return its leaves."""
        w = self.e.w
        cell = w.fresh("c")
        w.line(f"{cell} = {self.head.load(key)}")
        out = []
        for name, t in zip(self.cells, self.leaves, strict=True):
            value = w.fresh("v")
            w.line(f"{value} = {name}[{cell}] != 0" if t == BOOL else f"{value} = {name}[{cell}]")
            out.append(value)
        self.head.store(key, f"{self.next}[{cell}]")
        w.line(f"{self.next}[{cell}] = {self.free}; {self.free} = {cell}; {self.live} -= 1")
        self.count.store(key, f"{self.count.load(key)} - 1")
        return out
