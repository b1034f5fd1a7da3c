"""Streams of a batch as columns, and functions of events over them.

The rules are those of `engine.timed.plan`: an event has a stamp, a time (if its stream has times), the key
that came with the data beside that of its stream, and itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, events_of
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.columns.inner import inside
from pellucid.internal.engine.timed.columns.order import canonical, numbers
from pellucid.internal.engine.timed.columns.rows import Rows, kind_of, leaves_of
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.plan import MOVED
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, STR, OptionalType, RecordType, TupleType, Type
from pellucid.internal.graph.model import Graph, Node


@dataclass
class Flow:
    """The events of one stream in a batch, in the order in which they were put out."""

    stamp: Any
    time: Any  # None: the stream's events have no times
    key: list[Any]  # the leaves of the key that came with the data, then those of the stream's own
    value: list[Any]

    def __len__(self) -> int:
        return len(self.stamp)

    def at(self, which: Any) -> Flow:
        """Some of them."""
        time = None if self.time is None else self.time[which]
        return Flow(self.stamp[which], time, [c[which] for c in self.key], [c[which] for c in self.value])

    def rows(self) -> Rows:
        """As the steps by event time take them."""
        return Rows(self.time, self.key, self.value)


def nothing(keys: Sequence[Type], value: Type, timed: bool) -> Flow:
    """No events."""
    none = np.zeros(0, np.int64)
    return Flow(
        none,
        none if timed else None,
        [np.zeros(0, kind_of(t)) for t in keys],
        [np.zeros(0, kind_of(t)) for t in leaves_of(value)],
    )


def moved(time: Any, key: list[Any], value: list[Any]) -> Flow:
    """Events that come because the clock moved."""
    return Flow(np.full(len(time), MOVED, np.int64), time, key, value)


def behind(parts: Sequence[Flow]) -> Flow:
    """One part after the other."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return Flow(
        np.concatenate([p.stamp for p in parts]),
        np.concatenate([p.time for p in parts]) if parts[0].time is not None else None,
        [np.concatenate(c) for c in zip(*[p.key for p in parts], strict=True)],
        [np.concatenate(c) for c in zip(*[p.value for p in parts], strict=True)],
    )


def together(flows: Sequence[Flow]) -> Any:
    """The order in which the events of several streams come: row numbers of all of them, one stream behind the other in
    the order that counts where stamps are equal."""
    return np.argsort(np.concatenate([f.stamp for f in flows]), kind="stable")


def in_order(flow: Flow, keys: Sequence[Type], value: Type, texts: Texts, before: Sequence[Any] = ()) -> Flow:
    """Events that the clock has let out, in the order in which they come: by time, key, what else counts, and the
    event."""
    if len(flow) < 2:
        return flow
    words = [numbers(t, c, texts) for t, c in zip(keys, flow.key, strict=True)]
    return flow.at(canonical([flow.time, *words, *before], leaves_of(value), flow.value, texts))


def event_at(t: Type, columns: Sequence[Any], row: int, texts: Texts) -> Any:
    """One event, as the user knows it."""
    some = [c[row : row + 1] for c in columns]
    return events_of(t, [outside(leaf, c, texts) for leaf, c in zip(leaves_of(t), some, strict=True)])[0]


def outside(t: Type, column: Any, texts: Texts) -> Any:
    """A leaf's column as any engine takes it."""
    return texts.column(column) if t == STR else column


# ---------------------------------------------------------------- values that may be missing


def maybe_columns(t: Type, columns: Sequence[Any], there: Any, texts: Texts) -> list[Any]:
    """Events as those of the type that `graph.timing.maybe` makes of theirs; missing where they are not
    ``there`` (None: all are)."""
    if isinstance(t, (RecordType, TupleType)):
        out, at = [], 0
        for part in [p for _, p in t.fields] if isinstance(t, RecordType) else t.items:
            out += maybe_columns(part, columns[at : at + part.width], there, texts)
            at += part.width
        return out
    n = len(columns[0])
    whole = list(columns) if isinstance(t, OptionalType) else [np.ones(n, np.bool_), *columns]
    kinds = leaves_of(t) if isinstance(t, OptionalType) else (BOOL, *leaves_of(t))
    if there is None or there.all():
        return whole
    empty = int(texts.taken([""])[0]) if STR in kinds else 0
    return [np.where(there, c, c.dtype.type(empty if kind == STR else 0)) for kind, c in zip(kinds, whole, strict=True)]


def missing_columns(t: Type, count: int, texts: Texts) -> list[Any]:
    """The event that is missing, so many times."""
    some = [np.zeros(count, kind_of(leaf)) for leaf in leaves_of(t)]
    return maybe_columns(t, some, np.zeros(count, np.bool_), texts) if count else _empty(t)


def _empty(t: Type) -> list[Any]:
    from pellucid.internal.graph.timing import maybe

    return [np.zeros(0, kind_of(leaf)) for leaf in leaves_of(maybe(t))]


# ---------------------------------------------------------------- functions


class Evaluated:
    """A function of an event, over columns: a choice of columns if it is one, else what a kernel makes of it.

    An error has the number of the row as its position.
    """

    def __init__(self, node: Node, takes: Type, texts: Texts, mode: str) -> None:
        fn = node.fn
        assert fn is not None and fn.result is not None
        self.types, self.takes, self.texts = leaves_of(fn.result), takes, texts
        self.picked = _picked(fn)
        self._node, self._mode = node, mode
        self._engine = self._made() if self.picked is None else None

    def _made(self) -> Engine:
        node, source = self._node, Node("in", "source", (), self.takes)
        assert node.fn is not None and node.fn.result is not None
        mapped = Node(node.id, "map", (0,), node.fn.result, node.fn, where=node.where)
        return Engine(Graph(node.id, (source, mapped), (0,), (("out", 1),)), mode=self._mode)

    @property
    def why_plain(self) -> str | None:
        """Why it is not compiled, or None."""
        return None if self._engine is None else self._engine.why_plain

    def __call__(self, columns: Sequence[Any]) -> list[Any]:
        """The leaves of what the function gives."""
        if self.picked is not None:
            return [columns[j] for j in self.picked]
        assert self._engine is not None
        n = len(columns[0])
        if not n:
            return [np.zeros(0, kind_of(t)) for t in self.types]
        given = [outside(t, c, self.texts) for t, c in zip(leaves_of(self.takes), columns, strict=True)]
        self._engine.state.pushed = 0  # it remembers nothing: positions are rows of this call
        try:
            (output,) = self._engine.push_batch(Batch(n, [given], [None]))
        except StepError as error:
            mapped, self._engine = self._engine.graph.nodes[1], self._made()
            text = str(error).replace(mapped.describe(), self._node.describe(), 1)
            raise type(error)(text, step=error.step, position=error.position, why=error.why) from error.__cause__
        return [inside(t, c, self.texts, True) for t, c in zip(self.types, output.columns, strict=True)]


def _picked(fn: Function) -> list[int] | None:
    """The leaves of the event that a function gives as they are; None if it does anything to them."""
    if fn.traced is None or any(leaf.op != "var" for leaf in fn.traced.outputs):
        return None
    return [int(leaf.value) for leaf in fn.traced.outputs]
