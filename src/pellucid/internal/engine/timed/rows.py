"""The texts of a run: one table for all columns of all its steps, in which a text is its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, Strings, columns_of, events_of
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import COMPILE_FROM, Engine
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type
from pellucid.internal.graph.model import Graph, forgetting

_TABLES = 16  # of other engines, that are remembered


class Texts:
    """A table of texts.

    >>> texts = Texts()
    >>> texts.taken(["b", "a", "b"]).tolist(), texts.ranks(np.array([0, 1, 0])).tolist()
    ([0, 1, 0], [1, 0, 1])
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.put(texts)

    def put(self, texts: Iterable[str]) -> None:
        """Exactly these texts, from now on."""
        self.values: list[str] = list(texts)
        self._codes = {text: i for i, text in enumerate(self.values)}
        self._known: dict[int, tuple[Any, Any]] = {}  # tables of others, and what their codes are here
        self._ranks: Any = None  # of all texts, as long as there are no more

    def __len__(self) -> int:
        return len(self.values)

    def _code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.values))
        if code == len(self.values):
            self.values.append(text)
        return code

    def taken(self, column: Any, engines: bool = False) -> Any:
        """A column of texts, of any kind, as codes of this table.  ``engines`` says that its own table is an engine's,
        which only grows."""
        if not isinstance(column, Strings):
            return np.fromiter(map(self._code, column), dtype=np.int64, count=len(column))
        if column.values is self.values:
            return np.ascontiguousarray(column.codes, dtype=np.int64)
        if len(column.codes) < len(column.values):  # a few rows of a long table
            used, places = np.unique(column.codes, return_inverse=True)
            return self.taken([column.values[c] for c in used.tolist()])[places]
        codes = self._map(column.values) if engines else self.taken(list(column.values))
        return codes[column.codes]

    def _map(self, values: Sequence[str]) -> Any:
        """The codes of another table's texts; that of an engine only grows, and is looked at once."""
        last, table = self._known.get(id(values), (None, None))
        if last is not values or table is None:
            table = np.zeros(0, dtype=np.int64)
        if len(table) < len(values):
            table = np.concatenate([table, self.taken(list(values[len(table) :]))])
        self._known = self._known if len(self._known) < _TABLES else {}
        self._known[id(values)] = (values, table)
        return table

    def column(self, codes: Any) -> Strings:
        """Codes as a column of texts, as any engine takes it; a few of many bring only their own texts."""
        if len(codes) * 4 >= len(self.values):
            return Strings(codes, self.values)
        used, places = np.unique(codes, return_inverse=True)
        return Strings(places.astype(np.int64), [self.values[c] for c in used.tolist()])

    def ranks(self, codes: Any) -> Any:
        """Numbers in the order of the texts, by code points."""
        if self._ranks is not None and len(self._ranks) == len(self.values):
            return self._ranks[codes]
        if len(codes) * 4 < len(self.values):
            used, places = np.unique(codes, return_inverse=True)
            return self._ranked([self.values[c] for c in used.tolist()])[places]
        self._ranks = self._ranked(self.values)
        return self._ranks[codes]

    @staticmethod
    def _ranked(texts: list[str]) -> Any:
        ranks = np.empty(len(texts), dtype=np.int64)
        ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return ranks


# Events as rows of arrays: a time, the leaves of a key, the leaves of a value.  Texts are codes of `Texts`.

LEAST, MOST = -(2**63), 2**63 - 1


def kind_of(t: Type) -> Any:
    """The type of the array that holds a leaf.

    >>> from pellucid.internal.expr.types import STR
    >>> kind_of(STR)
    dtype('int64')
    """
    return np.dtype(np.float64 if t == FLOAT else np.bool_ if t == BOOL else np.int64)


@dataclass(frozen=True)
class Kinds:
    """The leaves of a stream's keys and of its events."""

    key: tuple[Type, ...]
    value: tuple[Type, ...]

    @staticmethod
    def of(key: Type | None, value: Type) -> Kinds:
        """Of a stream with keys of one type, or none, and events of another."""
        return Kinds(leaves_of(key) if key is not None else (), leaves_of(value))

    @property
    def arrays(self) -> list[Any]:
        """The types of the arrays: the key's, then the value's."""
        return [kind_of(t) for t in (*self.key, *self.value)]

    def texts(self) -> list[bool]:
        """Which of them are codes of texts."""
        return [t == STR for t in (*self.key, *self.value)]

    def none(self) -> Rows:
        """No rows."""
        return Rows(
            np.zeros(0, np.int64),
            [np.zeros(0, kind_of(t)) for t in self.key],
            [np.zeros(0, kind_of(t)) for t in self.value],
        )


def leaves_of(t: Type) -> tuple[Type, ...]:
    """The types of the leaves."""
    return tuple(kind for _, kind in t.leaves())


def picked(columns: Sequence[Any], which: Any) -> list[Any]:
    """Some rows of columns; of one that is there more than once, as a time that is a field of the event, a single copy.

    >>> time = np.array([5, 6, 7])
    >>> one, other = picked([time, time], slice(0, 2))
    >>> one.tolist(), one is other
    ([5, 6], True)
    """
    made: dict[int, Any] = {}
    for column in columns:
        if id(column) not in made:
            made[id(column)] = column[which]
    return [made[id(column)] for column in columns]


@dataclass
class Rows:
    """Some events of one stream."""

    time: Any
    key: list[Any]
    value: list[Any]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, which: Any) -> Rows:
        """Those that an index, a mask or a slice says."""
        time, *columns = picked([self.time, *self.key, *self.value], which)
        return Rows.made(time, columns, len(self.key))

    def columns(self) -> list[Any]:
        """Key and value."""
        return [*self.key, *self.value]

    @staticmethod
    def made(time: Any, columns: Sequence[Any], keys: int) -> Rows:
        """The opposite of `columns`, with the time."""
        return Rows(time, list(columns[:keys]), list(columns[keys:]))


def behind(parts: Sequence[Rows]) -> Rows:
    """Rows one part behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([p.time for p in parts]),
        [np.concatenate(c) for c in zip(*[p.key for p in parts], strict=True)],
        [np.concatenate(c) for c in zip(*[p.value for p in parts], strict=True)],
    )


def later(times: Any, by: int) -> Any:
    """Times moved by so much; what leaves 64 bits stays at their end, where no clock but the last gets.

    >>> later(np.array([1, MOST]), 5).tolist()
    [6, 9223372036854775807]
    """
    if not len(times) or not by:
        return times
    least, most = int(times.min()) + by, int(times.max()) + by
    if least >= LEAST and most <= MOST:
        return times + by
    return np.clip(times.astype(object) + by, LEAST, MOST).astype(np.int64)


# Rows that wait for the clock.
#
# Each row has a time at which it is due.  Rows come in any order, and those go that are due by now.  They lie in a
# few runs, each at least twice as long as the next; a run is sorted when a small part of it is taken for the first
# time.  So a row costs a logarithm, however many wait and however little comes or goes at a time.


class _Run:
    """Columns, the first being what is due; from ``start`` on they wait still."""

    __slots__ = ("columns", "least", "most", "rising", "start")

    def __init__(self, columns: list[Any], rising: bool = False) -> None:
        self.columns, self.start, self.rising = columns, 0, rising
        self.least, self.most = int(columns[0].min()), int(columns[0].max())

    def __len__(self) -> int:
        return len(self.columns[0]) - self.start

    def left(self) -> list[Any]:
        return [c[self.start :] for c in self.columns] if self.start else self.columns

    def taken(self, limit: int, whole: bool) -> list[Any]:
        """What is due up to a limit, of a run that has more; it is gone then.  ``whole``: rows that are not due may be
        among what is given, too."""
        if not self.rising:
            later = np.flatnonzero(self.columns[0] > limit)
            if 2 * len(later) < len(self.columns[0]):  # what is left is less than half: no need to sort it now
                out = self.columns if whole else picked(self.columns, np.flatnonzero(self.columns[0] <= limit))
                self.columns = picked(self.columns, later)
                self.least = int(self.columns[0].min())
                return out
            order = np.argsort(self.columns[0], kind="stable")
            self.columns, self.rising = picked(self.columns, order), True  # nothing was taken of it yet
        stop = int(np.searchsorted(self.columns[0], limit, side="right"))
        out = [c[self.start : stop] for c in self.columns]
        self.start = stop
        self.least = int(self.columns[0][stop])
        if stop * 2 > len(self.columns[0]):  # give the memory back
            self.columns, self.start = [c[stop:].copy() for c in self.columns], 0
        return out


class Waiting:
    """Rows by what is due.

    >>> waiting = Waiting([np.int64])
    >>> waiting.add(np.array([5, 1, 3]), [np.array([50, 10, 30])])
    >>> [c.tolist() for c in waiting.take(3)], len(waiting)
    ([[1, 3], [10, 30]], 1)
    >>> [c.tolist() for c in waiting.take(None)]
    [[5], [50]]
    """

    def __init__(self, kinds: Sequence[Any]) -> None:
        self.kinds = [np.dtype(np.int64), *map(np.dtype, kinds)]
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def least(self) -> int | None:
        """When the first of them is due."""
        return min((run.least for run in self._runs), default=None)

    def add(self, due: Any, columns: Sequence[Any]) -> None:
        """More rows."""
        if not len(due):
            return
        self._runs.append(_Run([due, *columns]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._merge()

    def _merge(self) -> None:
        last, before = self._runs.pop(), self._runs.pop()
        # Sorted at the next take only: until then, runs are merged by putting one behind the other.
        self._runs.append(_Run([np.concatenate(pair) for pair in zip(before.left(), last.left(), strict=True)]))

    def take(self, limit: int | None, *, whole: bool = False) -> list[Any]:
        """The columns of all rows that are due at ``limit`` or before it (None: of all), the first being what is due;
        they are gone then.  With ``whole`` others may be among them, which wait on: it saves a copy."""
        found: list[list[Any]] = []
        kept: list[_Run] = []
        for run in self._runs:
            if limit is None or run.most <= limit:
                found.append(run.left())
                continue
            if run.least <= limit:
                found.append(run.taken(limit, whole))
            kept.append(run)
        self._runs = kept
        return self._joined(found)

    def _joined(self, parts: list[list[Any]]) -> list[Any]:
        if len(parts) == 1:
            return parts[0]
        return [
            np.concatenate([p[j] for p in parts]) if parts else np.zeros(0, kind) for j, kind in enumerate(self.kinds)
        ]

    def columns(self) -> list[Any]:
        """All that waits; nothing goes."""
        return self._joined([run.left() for run in self._runs])

    def put(self, columns: Sequence[Any]) -> None:
        """Exactly these rows wait."""
        self._runs = [_Run(list(columns))] if len(columns[0]) else []


# A sub-pipeline over many groups of rows at once: the kernel runs it with the number of the group as the key, and of
# what it puts out for a group the last is the answer.

_ROWS = 1 << 20  # of one call of the kernel
_WORDS = 1 << 23
_MANY_TEXTS = 1 << 20


class Failed(Exception):  # noqa: N818 - reads as what it is
    """The sub-pipeline failed on a row: in which group, and how."""

    def __init__(self, group: int, error: StepError) -> None:
        super().__init__(str(error))
        self.group, self.error = group, error


class Inner:
    """A sub-pipeline, given once and run over groups as often as need be."""

    def __init__(self, graph: Graph, texts: Texts, mode: str = "auto") -> None:
        self.graph, self.texts = graph, texts
        self.takes, self.puts = graph.nodes[graph.sources[0]].type, graph.nodes[graph.outputs[0][1]].type
        self.types = leaves_of(self.puts)
        self.kinds = [kind_of(t) for t in self.types]
        self._engine = Engine(graph, key=INT, mode=mode) if forgetting(graph) is None else None
        self._rows = 0
        self._used = used_leaves(graph)
        self._each = all(n.processor.puts == "each" and n.processor.inputs in ("none", "one") for n in graph.nodes)

    @property
    def why_plain(self) -> str | None:
        """Why it is not compiled, or None."""
        return "it gives up keys (forget)" if self._engine is None else self._engine.why_plain

    def last(self, starts: Any, values: list[Any], gather: Any) -> tuple[Any, list[Any]]:
        """For groups that begin at these rows (and end where the next begins, the last at the end of all): the numbers
        of those with an answer, rising, and the columns of the answers.  ``gather`` says where the rows are in the
        columns of values."""
        n, groups = len(gather), len(starts)
        ends = np.append(starts[1:], n)
        answered, columns = [], []
        width = max(sum(r.width for r in self._engine.state.layout.regions), 1) if self._engine is not None else 1
        first = 0
        while first < groups:
            begin = int(starts[first])
            stop = int(np.searchsorted(ends, begin + _ROWS, side="right"))
            stop = min(max(stop, first + 1), first + max(_WORDS // width, 1), groups)
            found, out = self._part(starts[first:stop] - begin, values, gather[begin : int(ends[stop - 1])], first)
            answered.append(found + first)
            columns.append(out)
            first = stop
        if not answered:
            return np.zeros(0, np.int64), [np.zeros(0, kind_of(t)) for t in self.types]
        return np.concatenate(answered), [np.concatenate(c) for c in zip(*columns, strict=True)]

    def _part(self, starts: Any, values: list[Any], rows: Any, first: int) -> tuple[Any, list[Any]]:
        """The answers of some of the groups."""
        lengths = np.diff(starts, append=len(rows))
        number = np.repeat(np.arange(len(starts)), lengths)
        if self._rows < COMPILE_FROM or len(self._used) == len(values):
            part = [c[rows] for c in values]
        else:  # what no step reads is left out
            none = {c.dtype: np.zeros(len(rows), c.dtype) for c in values}
            part = [c[rows] if j in self._used else none[c.dtype] for j, c in enumerate(values)]
        try:
            return self._of(number, part, starts + lengths - 1)
        except StepError:
            pass
        try:  # once more, for the words of the error
            return self._of(number, [c[rows] for c in values], starts + lengths - 1)
        except StepError as error:
            raise Failed(first + int(number[error.position]), error) from error.__cause__

    def _of(self, number: Any, part: list[Any], ends: Any) -> tuple[Any, list[Any]]:
        self._rows += len(number)
        given = [self.outside(t, c) for t, c in zip(leaves_of(self.takes), part, strict=True)]
        if self._engine is None:
            return self._literal(number, events_of(self.takes, given))
        if self._engine.mode == "auto" and self._rows >= COMPILE_FROM and self._engine.why_plain is None:
            self._engine.mode = "numba"
        if len(self._engine.state.strings) > _MANY_TEXTS:  # of groups that are over
            self._engine = Engine(self.graph, key=INT, mode=self._engine.mode)
        engine = self._engine.sibling()
        batch = Batch(len(number), [given], [None], [[number]])
        if self._each:  # of each group the last
            (output,) = engine.push_batch(batch)
            return number[ends], [
                self.inside(t, _some(c, ends)) for t, c in zip(self.types, output.columns, strict=True)
            ]
        (output,) = engine.push_batch(batch, positions=True)
        if not len(output):
            return np.zeros(0, np.int64), [np.zeros(0, kind_of(t)) for t in self.types]
        of = number[np.asarray(output.positions, dtype=np.int64)]
        at = np.flatnonzero(np.append(of[1:] != of[:-1], True))
        return of[at], [self.inside(t, _some(c, at)) for t, c in zip(self.types, output.columns, strict=True)]

    def _literal(self, number: Any, events: list[Any]) -> tuple[Any, list[Any]]:
        """One group after the other, word by word."""
        answered: list[int] = []
        values: list[Any] = []
        inner, of = Interpreter(self.graph), -1
        name = self.graph.nodes[self.graph.sources[0]].id
        for i, (group, event) in enumerate(zip(number.tolist(), events, strict=True)):
            if group != of:
                inner, of = Interpreter(self.graph), group
            inner.pushed = i
            for value in inner.push({name: event})[self.graph.outputs[0][0]][-1:]:
                if answered[-1:] == [group]:
                    values[-1] = value
                else:
                    answered.append(group)
                    values.append(value)
        columns = columns_of(self.puts, values)
        return np.array(answered, np.int64), [self.inside(t, c) for t, c in zip(self.types, columns, strict=True)]

    def outside(self, t: Type, column: Any) -> Any:
        """A column of codes and numbers as any engine takes it."""
        return self.texts.column(column) if t == STR else column

    def inside(self, t: Type, column: Any) -> Any:
        """A column of any kind as an array."""
        return inside(t, column, self.texts, True)


def inside(t: Type, column: Any, texts: Texts, engines: bool = False) -> Any:
    """A leaf's column of any kind as an array; texts as codes.  ``engines`` is as in `Texts.taken`.

    >>> from pellucid.internal.expr.types import BOOL
    >>> inside(BOOL, [True, False], Texts()).tolist()
    [True, False]
    """
    if t == STR:
        return texts.taken(column, engines)
    if isinstance(column, list) and isinstance(t, EnumType):
        places = {member: i for i, member in enumerate(t.members)}
        column = [places[v] for v in column]
    return np.ascontiguousarray(column, dtype=kind_of(t))


def _some(column: Any, at: Any) -> Any:
    if isinstance(column, Strings):
        return Strings(column.codes[at], column.values)
    return [column[i] for i in at.tolist()] if isinstance(column, list) else column[at]


def used_leaves(graph: Graph) -> set[int]:
    """The leaves of its source's events that a sub-pipeline looks at.

    >>> from pellucid import pipeline
    >>> used_leaves(pipeline(lambda x: x.map(lambda e: e[1] + 1), x=tuple[int, int]).graph)
    {1}
    """
    (source,) = graph.sources
    width = graph.nodes[source].type.width
    if any(i == source for _, i in graph.outputs):
        return set(range(width))
    used: set[int] = set()
    for i, _ in graph.readers(source):
        node = graph.nodes[i]
        if node.kind not in ("map", "cumulate") or node.fn is None or node.fn.runs is None:
            return set(range(width))  # others pass the whole event on, or to an opaque function
        skip = node.state.width if node.kind == "cumulate" and node.state is not None else 0
        used |= {int(e.value) - skip for e in walk(*node.fn.runs.roots()) if e.op == "var" and int(e.value) >= skip}
    return used
