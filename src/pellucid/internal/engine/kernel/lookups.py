"""Answers that only Python can give, kept in tables: how a kernel runs functions that look inside text.

A text is a number in a kernel, its code, so ``s.upper()`` is computed once for each text and then looked up.  A table
holds, for the arguments that came so far, the answer, or that the function fails on them.  Where there is none yet,
the kernel asks the host in the middle of its loop: so a function is called exactly where it would have been, also on
texts that another one made in the same push, and what it makes is a new text with a code of its own.

Nothing of this is saved.  Codes change when texts are forgotten; then the tables start again.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from pellucid.internal.engine.kernel.emit.pen import by_code
from pellucid.internal.engine.kernel.layout import Opened, encode, is_float
from pellucid.internal.engine.state import TextTable
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.rewrite import Pure
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, ListType, Type

_MOST = 1 << 20  # answers in a table that is searched: beyond, it starts again
_HOST = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
_OK, _RAISES, _OVERFLOWS = 1, 2, 3


class Lookups:
    """The tables of one kernel."""

    def __init__(
        self, functions: Sequence[tuple[Pure, tuple[Type, ...]]], compiled: bool, longest: int | None = None
    ) -> None:
        self.functions, self.compiled, self.longest = functions, compiled, longest or 0
        self.strings: TextTable | None = None
        self.trouble: BaseException | None = None
        self.tables: list[Any] = []

    def of(self, strings: TextTable) -> None:
        """Make the tables ready for a call of the kernel, with the codes that texts have now."""
        if strings is self.strings or not self.functions:
            return
        self.strings = strings
        if not self.compiled:
            self.tables = [
                _Rows(f, strings) if isinstance(f, Opened) else _Answers(f, kinds, strings)
                for f, kinds in self.functions
            ]
            return
        import numpy as np

        self.given, self.given_floats = np.zeros(8, np.int64), np.zeros(8, np.float64)
        self.room = np.zeros(len(self.functions), np.int64)
        self.tables = [
            _Elements(f, strings, self.longest) if isinstance(f, Opened) else _Table(f, kinds, strings)
            for f, kinds in self.functions
        ]
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
            if isinstance(t, _Elements):
                out |= {f"LN{at}": t.sizes} | {f"LX{at}_{j}": leaf for j, leaf in enumerate(t.leaves)}
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

    def fill(self, t: ListType, codes: Any) -> None:
        """Lists of this type are about to come: look into all of them at once, if a step asks for their elements."""
        for table in self.tables:
            if isinstance(table, _Elements) and table.list.item == t.item:
                import numpy as np

                table.fill(np.unique(codes))

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
        from pellucid.internal.engine.kernel.prims import moved

        moved(states, values, keys, self.width, self.states, self.values, self.keys)
        self.room -= int((states != 0).sum())


# ---------------------------------------------------------------- the elements of lists

_MOST_ELEMENTS = 1 << 21  # that are kept: beyond, the table starts again


def _rows(t: ListType, text: str, strings: TextTable) -> list[list[Any]]:
    """The leaves of the elements of a list as a kernel stores them, leaf by leaf."""
    found, width = t.rows(text), len(t.kinds)
    columns = [found[j::width] for j in range(width)]
    return [
        column if kind in (INT, FLOAT) else [encode(kind, v, strings) for v in column]
        for kind, column in zip(t.kinds, columns, strict=True)
    ]


def _stored(kind: Type, column: list[Any], strings: TextTable) -> list[Any]:
    """A leaf of elements, as JSON has it, as a kernel stores it."""
    if isinstance(kind, EnumType):
        places = {m.name: i for i, m in enumerate(kind.members)}
        return [places[name] for name in column]
    return [strings.setdefault(v) for v in column] if kind == STR else column


class _Rows(dict[int, list[tuple[Any, ...]]]):
    """For CPython: the elements of a list, by its code."""

    def __init__(self, f: Opened, strings: TextTable) -> None:
        super().__init__()
        self.list, self.strings, self.kept = f.list, strings, 0

    def __missing__(self, code: int) -> list[tuple[Any, ...]]:
        found = list(zip(*_rows(self.list, self.strings.texts[code], self.strings), strict=True))
        self.kept += len(found) + 1
        if self.kept > _MOST_ELEMENTS:
            self.clear()
            self.kept = len(found) + 1
        self[code] = found
        return found


class _Elements(_Table):
    """For compiled kernels: the leaves of the elements of all lists, one list after the other, and by a list's code
    where it begins; there stands how many it has, and behind that its elements."""

    def __init__(self, f: Opened, strings: TextTable, longest: int) -> None:
        super().__init__(f, (STR,), strings)
        self.list, self.push = f.list, f.lists * (longest + 1)  # what one push may add
        self.answer = self.add
        self._empty(max(1 << 16, 4 * self.push))

    def _empty(self, size: int) -> None:
        import numpy as np

        self.used, self.sizes = 0, np.zeros(size, np.int64)
        self.leaves = [np.zeros(size, np.float64 if is_float(t) else np.int64) for t in self.list.kinds]
        self.states[:] = 0

    def fill(self, codes: Any) -> None:
        """Put all these lists behind the others at once: asking for each costs more than its elements do."""
        import numpy as np

        if len(self.states) < len(self.strings.texts):
            super().grow()
        fresh = codes[self.states[codes] == 0]
        if not len(fresh):
            return
        lists = json.loads("[[" + "],[".join([self.strings.texts[c] for c in fresh.tolist()]) + "]]")
        width = len(self.list.kinds)
        sizes = np.fromiter(map(len, lists), np.int64, len(lists)) // width
        more = int(sizes.sum()) + len(fresh)
        if self.used + more > _MOST_ELEMENTS:
            if self.used:  # start again, with these alone
                self._empty(len(self.sizes))
                self.fill(codes)
            return  # if those are too many, too, they are asked for
        while len(self.sizes) - self.used - more <= self.push:
            self._enlarge()
        starts = self.used + np.cumsum(sizes + 1) - (sizes + 1)
        places = np.arange(int(sizes.sum())) + np.repeat(starts + 1 - (np.cumsum(sizes) - sizes), sizes)
        flat = list(chain.from_iterable(lists))
        for j, (leaf, kind) in enumerate(zip(self.leaves, self.list.kinds, strict=True)):
            leaf[places] = _stored(kind, flat[j::width], self.strings)
        self.sizes[starts], self.values[fresh], self.states[fresh] = sizes, starts, _OK
        self.used += more

    def _enlarge(self) -> None:
        import numpy as np

        size = 2 * len(self.sizes)
        self.sizes = np.resize(self.sizes, size)
        self.leaves = [np.resize(leaf, size) for leaf in self.leaves]

    def add(self, given: Sequence[Any]) -> tuple[int, Any]:
        """Put a list behind the others; where it begins."""
        columns = _rows(self.list, self.strings.texts[given[0]], self.strings)
        begin, size = self.used, len(columns[0])
        self.sizes[begin] = size
        for leaf, column in zip(self.leaves, columns, strict=True):
            leaf[begin + 1 : begin + 1 + size] = column
        self.used += size + 1
        return _OK, begin

    def keep(self, slot: int, given: Sequence[Any], state: int, value: Any) -> int:
        """Write where the list begins; whether another push may add what it can."""
        left = super().keep(slot, given, state, value)
        return min(left, len(self.sizes) - self.used - self.push)

    def grow(self) -> None:
        """Make room: for more texts, and for more elements, or start again where they are too many."""
        if self.room <= 0 or len(self.states) < len(self.strings.texts):
            super().grow()
        if len(self.sizes) - self.used <= self.push:
            if self.used > _MOST_ELEMENTS:
                self._empty(len(self.sizes))
                return
            self._enlarge()
