"""How a push that failed half-way is taken back.

A kernel that may have to notes what stands in a word or a queue's cell before it changes it, from the start of each
push on; what lives in local variables it copies.  If the push fails, the host puts all back, the last change first.
That costs what the push did, however large the state is.

Outputs need nothing: they are written behind all that can fail.  A key that is new stays, with the state that every key
begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr.codegen import CodeWriter

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState

CALL_RAISED = 3  # a code of failure: a function that Python called for a plain kernel raised


class UndoLog:
    """Writes the lines of a kernel that note what a push changes; none if it ``is_on`` not."""

    def __init__(self, is_on: bool, w: CodeWriter) -> None:
        self.is_on, self._w = is_on, w
        self.arrays: dict[str, int] = {}  # what the log of a compiled kernel speaks of, by numbers
        self.floats: set[str] = set()  # queues' columns that are arrays of floats
        self._sites = 0  # how often the text notes something, loops counted

    @property
    def catches(self) -> bool:
        """Whether the text itself sees to a function that raises; else the exception leaves the kernel."""
        return self.is_on and not self._w.numba

    def note(self, array: str, index: str, times: int = 1) -> None:
        """A place is about to change, at most so many times in a push for one event."""
        if not self.is_on:
            return
        if not self._w.numba:
            self._w.line(f"U.append(({array}, {index}, {array}[{index}]))")
            return
        if array.startswith("SF"):
            array = f"SI{array[2:]}"  # the same words: the bits of a float are kept
        number = self.arrays.setdefault(array, len(self.arrays))
        self._sites += times
        kind = "UF" if array in self.floats else "UI"
        self._w.line(f"UA[u] = {number}; UX[u] = {index}; {kind}[u] = {array}[{index}]; u += 1")

    def around(self, kept: Sequence[str], params: list[str]) -> tuple[list[str], list[str]]:
        """The lines with which a push begins, and those for one that failed; ``kept`` are the local variables that a
        push changes."""
        if not self.is_on:
            return [], []
        numba = self._w.numba
        params += ["UA", "UX", "UI", "UF"] if numba else ["U"]
        begin = [f"z{name} = {name}" for name in kept] + (["u = 0"] if numba else ["U.clear()"])
        back = "; ".join([f"{name} = z{name}" for name in kept] + (["M[3] = u"] if numba else []))
        return begin, [f"if 0 < code <= {CALL_RAISED}: {back or 'pass'}"]

    def room(self, capacities: Sequence[int | None]) -> int:
        """How many notes one push may make."""
        return self._sites * max(capacity or 1 for capacity in capacities)


def log_of(kernel: Kernel) -> dict[str, Any]:
    """Room for what a push changes, as arguments of the kernel."""
    if not kernel.undo:
        return {}
    if not kernel.numba:
        return {"U": []}
    import numpy as np

    room = max(kernel.log_room, 1)
    return {**{name: np.zeros(room, np.int64) for name in ("UA", "UX", "UI")}, "UF": np.zeros(room, np.float64)}


def undo_push(kernel: Kernel, state: EngineState, arguments: dict[str, Any]) -> None:
    """Put back what the push changed that failed."""
    if not kernel.numba:
        for array, index, old in reversed(arguments["U"]):
            array[index] = old
        for q, cells in enumerate(state.cells):  # those that it added
            for column in cells:
                del column[state.meta[state.queue_at(q) + 1] :]
        return
    numbers, places, words, floats = (arguments[name] for name in ("UA", "UX", "UI", "UF"))
    for at in reversed(range(int(state.meta[3]))):
        array = arguments[kernel.logged[numbers[at]]]
        array[places[at]] = (floats if array.dtype == floats.dtype else words)[at]
    state.meta[3] = 0
