"""Answers that only Python can give, kept in tables: how a kernel runs functions that look inside text.

A text is a number in a kernel, its code, so ``s.upper()`` is computed once for each text and then looked up.  A table
holds, for the arguments that came so far, the answer, or that the function fails on them.  Where there is none yet,
the kernel asks the host in the middle of its loop: so a function is called exactly where it would have been, also on
texts that another one made in the same push, and what it makes is a new text with a code of its own.

Nothing of this is saved.  Codes change when texts are forgotten; then the tables start anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.engine.kernel.emit_lookups import by_code
from pellucid.engine.kernel.layout import encode, is_float
from pellucid.engine.state import TextTable
from pellucid.expr.operations import Overflow64
from pellucid.expr.text import Pure
from pellucid.expr.types import BOOL, INT, STR, EnumType, Type

_MOST = 1 << 20  # answers in a table that is searched: beyond, it starts anew
_HOST = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
_OK, _RAISES, _OVERFLOWS = 1, 2, 3


class Lookups:
    """The tables of one kernel."""

    def __init__(self, functions: Sequence[tuple[Pure, tuple[Type, ...]]], compiled: bool) -> None:
        self.functions, self.compiled = functions, compiled
        self.strings: TextTable | None = None
        self.trouble: BaseException | None = None
        self.tables: list[Any] = []

    def of(self, strings: TextTable) -> None:
        """Make the tables ready for a call of the kernel, with the codes that texts have now."""
        if strings is self.strings or not self.functions:
            return
        self.strings = strings
        if not self.compiled:
            self.tables = [_Answers(f, kinds, strings) for f, kinds in self.functions]
            return
        import numpy as np

        self.given, self.given_floats = np.zeros(8, np.int64), np.zeros(8, np.float64)
        self.room = np.zeros(len(self.functions), np.int64)
        self.tables = [_Table(f, kinds, strings) for f, kinds in self.functions]
        for at, table in enumerate(self.tables):
            self.room[at] = table.room
        self.host = _HOST(self.asked)  # kept: C does not
        self.address = ctypes.cast(self.host, ctypes.c_void_p).value

    def arguments(self) -> dict[str, Any]:
        """The kernel's arguments by name."""
        if not self.functions:
            return {}
        if not self.compiled:
            return {f"L{at}": table for at, table in enumerate(self.tables)}
        out: dict[str, Any] = {"LA": self.given, "LF": self.given_floats, "LP": self.address, "LR": self.room}
        for at, t in enumerate(self.tables):
            out |= {f"LS{at}": t.states, f"LV{at}": t.values, f"LK{at}": t.keys}
        return out

    def asked(self, at: int, slot: int) -> None:
        """The kernel asks a function; called from C, through which no exception may pass."""
        try:
            table, floats = self.tables[at], self.given_floats
            given = [floats[j] if f else self.given[j] for j, f in enumerate(table.floats)]
            state, value = table.answer(given)
            self.given[6] = state
            (floats if table.float else self.given)[7] = value
            self.room[at] = table.keep(slot, given, state, value)
        except BaseException as error:  # Ctrl-C, out of memory
            self.trouble = error
            self.given[6] = _RAISES
            self.room[:] = 0  # the kernel comes back at the next push, should this answer not stop it

    def check(self) -> None:
        """Raise what could not be raised inside the kernel."""
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble

    def grow(self, at: int) -> None:
        """Make room in a table."""
        self.tables[at].grow()
        self.room[at] = self.tables[at].room


def _asker(f: Pure, kinds: tuple[Type, ...], strings: TextTable) -> Callable[..., tuple[int, Any]]:
    """The function on leaves as a kernel stores them: how it went, and the answer as a kernel stores it."""
    texts = strings.texts
    real: list[Callable[[Any], Any]] = []
    for t in kinds:
        if t == STR:
            real.append(texts.__getitem__)
        elif isinstance(t, EnumType):
            real.append(t.members.__getitem__)
        else:
            real.append(bool if t == BOOL else int if t == INT else float)
    result, zero = f.result, 0.0 if is_float(f.result) else 0
    call = f.f

    def ask(given: Sequence[Any]) -> tuple[int, Any]:
        try:
            value = call(*[of(g) for of, g in zip(real, given, strict=True)])
        except Overflow64:
            return _OVERFLOWS, zero
        except Exception:
            return _RAISES, zero
        return _OK, encode(result, value, strings)

    return ask


class _Answers(dict[Any, Any]):
    """A table for CPython: None where the function raises, the table itself where an int leaves 64 bits."""

    def __init__(self, f: Pure, kinds: tuple[Type, ...], strings: TextTable) -> None:
        super().__init__()
        self.ask, self.single, self.bool = _asker(f, kinds, strings), len(kinds) == 1, f.result == BOOL

    def __missing__(self, key: Any) -> Any:
        value = self.asked(*((key,) if self.single else key))
        if len(self) >= _MOST:
            self.clear()
        self[key] = value
        return value

    def asked(self, *given: Any) -> Any:
        """The answer, asked now."""
        state, value = self.ask(given)
        if state == _OK:
            return value != 0 if self.bool else value
        return None if state == _RAISES else self


class _Table:
    """A table for compiled kernels: by the code of a text, or searched for."""

    def __init__(self, f: Pure, kinds: tuple[Type, ...], strings: TextTable) -> None:
        self.answer = _asker(f, kinds, strings)
        self.strings, self.width, self.by_code = strings, len(kinds), by_code(kinds)
        self.float, self.floats = is_float(f.result), [is_float(t) for t in kinds]
        self._make(len(strings.texts) + 1024 if self.by_code else 1 << 12)

    def _make(self, size: int) -> None:
        import numpy as np

        self.states = np.zeros(size, np.int8)
        self.values = np.zeros(size, np.float64 if self.float else np.int64)
        self.keys = np.zeros(1 if self.by_code else size * self.width, np.int64)
        self.room = size // 2

    def keep(self, slot: int, given: Sequence[Any], state: int, value: Any) -> int:
        """Write an answer where the kernel will look; how many more fit."""
        if self.by_code:
            if slot < len(self.states):
                self.states[slot], self.values[slot] = state, value
            else:
                self.room = 0  # a text that is newer than the table: make it longer before the next push
            return self.room
        if self.room > 0:
            self.states[slot], self.values[slot] = state, value
            for j, (g, is_a_float) in enumerate(zip(given, self.floats, strict=True)):
                self.keys[slot * self.width + j] = g.view("int64") if is_a_float else g
            self.room -= 1
        return self.room

    def grow(self) -> None:
        """Make room for twice as many; the answers so far are kept, unless they are too many."""
        states, values, keys = self.states, self.values, self.keys
        if self.by_code:
            self._make(2 * len(self.strings.texts) + 1024)
            self.states[: len(states)], self.values[: len(values)] = states, values
            return
        if len(states) >= 2 * _MOST:
            self._make(len(states))
            return
        self._make(2 * len(states))
        from pellucid.engine.kernel.prims import moved

        moved(states, values, keys, self.width, self.states, self.values, self.keys)
        self.room -= int((states != 0).sum())
