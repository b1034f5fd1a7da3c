"""A sub-pipeline over many groups of rows at once: the kernel runs it with the number of the group as the key, and of
what it puts out for a group the last is the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, Strings, columns_of, events_of
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import COMPILE_FROM, Engine
from pellucid.internal.engine.timed.columns.rows import kind_of, leaves_of
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.types import INT, STR, EnumType, Type
from pellucid.internal.graph.memory import forgetting
from pellucid.internal.graph.model import Graph

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
        else:  # what nobody reads is left out
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
            return set(range(width))  # others hand the whole event on, or show it to a function that nobody can read
        skip = node.state.width if node.kind == "cumulate" and node.state is not None else 0
        used |= {int(e.value) - skip for e in walk(*node.fn.runs.roots()) if e.op == "var" and int(e.value) >= skip}
    return used
