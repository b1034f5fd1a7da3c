"""Streams of a batch as columns, what the steps of a plan share, and the steps that read one stream.

The rules are those of `engine.timed.plan`: an event has a stamp, a time (if its stream has times), the key that came
with the data beside that of its stream, and itself.  A segment of ordinary steps is run by a kernel (`Ordinary`); a
timed step is a `Step`, most of which have an operator with a state (``op``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, events_of
from pellucid.internal.engine.kernel.emit.steps import Untimely
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.clock import END, Clocks, late_error, never_done, no_time, not_ahead
from pellucid.internal.engine.timed.plan import MOVED, Segment, Timed
from pellucid.internal.engine.timed.rows import (
    LEAST,
    MOST,
    Kinds,
    Rows,
    Texts,
    Waiting,
    inside,
    kind_of,
    later,
    leaves_of,
)
from pellucid.internal.engine.timed.sorting import Keys, canonical, longer, many, numbers, order_by
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, INT, STR, OptionalType, RecordType, TupleType, Type
from pellucid.internal.graph.model import Graph, Node


@dataclass
class Flow:
    """The events of one stream in a batch, in the order in which they were emitted."""

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


# ---------------------------------------------------------------- what timed steps share


@dataclass
class LateRows:
    """Rows that came too late, in the order in which they came: which of the batch, and what they missed."""

    which: Any  # row numbers
    start: Any = None  # of the windows that they missed
    end: Any = None

    def __len__(self) -> int:
        return len(self.which)


class Run(Protocol):
    """What a stage knows of the run that it is a stage of."""

    graph: Graph
    key: Type | None
    mode: str
    texts: Texts
    clocks: Clocks
    late: dict[str, int]
    late_now: dict[int, Flow]
    early_now: dict[int, Flow]
    early: bool  # whether windows tell what they have so far: not in a run over all there is
    moving: bool  # whether the clock moves after these rows, or more of them come before it does

    def push_of(self, stamp: int) -> int: ...


def before(clock: int) -> int | None:
    """A clock by which events are judged; None: it has not begun, so that nothing is late."""
    return None if clock < LEAST else clock


def upto(clock: int) -> int | None:
    """A clock up to which times are complete; None: all are."""
    return None if clock >= END else max(clock, LEAST)


def at_push(error: StepError, push: int) -> StepError:
    """The same error at another push."""
    text = str(error).replace(f"push {error.position:,} ", f"push {push:,} ", 1)
    return type(error)(text, step=error.step, position=push, why=error.why)


class Step:
    """A timed step: its node, and what all kinds share.  Operators with a state have ``op``; ``engine`` is a kernel
    that has a state beside it."""

    op: Any = None
    engine: Engine | None = None

    def __init__(self, run: Run, stage: Timed) -> None:
        self.run, self.stage = run, stage
        graph = run.graph
        self.node, self.texts = graph.nodes[stage.step], run.texts
        self.sides = [graph.nodes[i] for i in stage.inputs]
        outer = leaves_of(run.key) if run.key is not None else ()
        self.outer = len(outer)
        self.keys = [*outer, *(leaves_of(self.node.key) if self.node.key is not None else ())]
        self.timing = self.node.timing
        self.clock = graph.clocks[stage.inputs[0]]

    def kinds(self, number: int = 0) -> Kinds:
        """The leaves of what an input brings."""
        return Kinds(tuple(self.keys), leaves_of(self.sides[number].type))

    @property
    def why_plain(self) -> str | None:
        """Why it is not compiled, or None."""
        return None

    def go(self, streams: list[Flow]) -> None:
        """Take what came, let the clock move if it does, put what comes out into the streams."""
        streams[self.stage.step] = self.put([streams[i] for i in self.stage.inputs])

    def put(self, flows: list[Flow]) -> Flow:
        """What comes out."""
        raise NotImplementedError

    def now(self, number: int = 0) -> int:
        """The clock of an input, by which its events are judged."""
        return self.run.clocks.now(self.stage.inputs[number], self.stage.step)

    def after(self, number: int = 0) -> int | None:
        """The clock that it moves to."""
        return upto(self.run.clocks.after(self.stage.inputs[number], self.stage.step))

    def nothing(self) -> Flow:
        """No event of its own."""
        return nothing(self.keys, self.node.type, self.run.graph.clocks[self.stage.step] is not None)

    def event(self, flow: Flow, row: int, number: int = 0) -> Any:
        """An event that came."""
        return event_at(self.sides[number].type, flow.value, row, self.texts)

    def push(self, flow: Flow, row: int) -> int:
        """With which push it came."""
        return self.run.push_of(int(flow.stamp[row]))

    def too_late(self, flow: Flow, late: LateRows, number: int = 0) -> Flow | None:
        """Events that came too late: counted, and taken by the step `late`, dropped, or an error; if taken, as they go
        there."""
        if not len(late):
            return None
        assert self.timing is not None and self.clock is not None
        node, now = self.node, self.now(number)
        fails = not self.stage.late_taken and self.timing.late == "fail"
        self.run.late[node.id] = self.run.late.get(node.id, 0) + (1 if fails else len(late))
        if fails:
            at = int(late.which[0])
            edges = (None, None) if late.start is None else (int(late.start[0]), int(late.end[0]))
            raise late_error(
                node, self.clock, self.event(flow, at, number), int(flow.time[at]), now, self.push(flow, at), *edges
            )
        if not self.stage.late_taken:
            return None
        some, n = flow.at(late.which), len(late)
        value = some.value
        if len(self.sides) == 2:
            own = maybe_columns(self.sides[number].type, some.value, None, self.texts)
            other = missing_columns(self.sides[1 - number].type, n, self.texts)
            value = [*own, *other] if number == 0 else [*other, *own]
        there = np.full(n, late.start is not None)
        zero = np.zeros(n, np.int64)
        edges_ = [zero, zero] if late.start is None else [late.start, late.end]
        value = [*value, some.time, np.full(n, now, np.int64), there, edges_[0], there, edges_[1]]
        return Flow(some.stamp, None, some.key, value)

    def note(self, late: Flow | None) -> None:
        """What the step `late` takes."""
        if late is not None:
            self.run.late_now[self.stage.step] = late

    def behind_clock(self, flow: Flow, number: int = 0) -> LateRows:
        """The events before the clock of their stream."""
        now = before(self.now(number))
        if now is None or not len(flow) or int(flow.time.min()) >= now:
            return LateRows(np.zeros(0, np.int64))
        return LateRows(np.flatnonzero(flow.time < now))

    def in_time(self, flow: Flow) -> Flow:
        """The events that are not before the clock; of the others it is seen to what becomes of them."""
        late = self.behind_clock(flow)
        self.note(self.too_late(flow, late))
        if not len(late):
            return flow
        kept = np.ones(len(flow), np.bool_)
        kept[late.which] = False
        return flow.at(kept)

    def limits(self) -> tuple[int, int]:
        """The least and the greatest time that there is."""
        assert self.clock is not None
        return self.clock.limits()[0] or (LEAST, MOST)


# ---------------------------------------------------------------- ordinary steps


class Ordinary:
    """A segment of ordinary steps, by the kernel: one event per push."""

    def __init__(self, run: Run, segment: Segment) -> None:
        self.run, self.segment = run, segment
        self.outer = leaves_of(run.key) if run.key is not None else ()
        self.engine = Engine(segment.graph, key=run.key, mode=run.mode)
        self.keyed = self._only_keys()

    def _only_keys(self) -> Evaluated | None:
        """The function of a key, if the segment is one key_by that only hands on what it reads: no kernel need know of
        its keys."""
        if len(self.segment.steps) != 1 or self.segment.inputs[0].keyed is not None:
            return None
        node = self.run.graph.nodes[self.segment.steps[0]]
        if node.kind != "key_by":
            return None
        return Evaluated(node, self.segment.inputs[0].type, self.run.texts, self.run.mode)

    @property
    def why_plain(self) -> str | None:
        """Why it is not compiled, or None."""
        return self.engine.why_plain

    def go(self, streams: list[Flow]) -> None:
        """Run over what came, and put what comes out into the streams."""
        flows = [streams[c.stream] for c in self.segment.inputs]
        timed = flows[0].time is not None
        n = sum(map(len, flows))
        if not n:
            for i in self.segment.outputs:
                node = self.run.graph.nodes[i]
                own = leaves_of(node.key) if node.key is not None else ()
                streams[i] = nothing([*self.outer, *own], node.type, timed)
            return
        try:
            if self.keyed is not None:
                (flow,) = flows
                streams[self.segment.outputs[0]] = Flow(
                    flow.stamp, flow.time, [*flow.key[: len(self.outer)], *self.keyed(flow.value)], flow.value
                )
                return
            self._push(streams, flows, n, timed)
        except StepError as error:
            stamps = np.sort(np.concatenate([f.stamp for f in flows]), kind="stable")
            at = error.position - (0 if self.keyed is not None else self.engine.pushed)
            raise at_push(error, self.run.push_of(int(stamps[at]))) from error.__cause__

    def _push(self, streams: list[Flow], flows: list[Flow], n: int, timed: bool) -> None:
        texts, first = self.run.texts, self.engine.pushed
        outer = [f.key[: len(self.outer)] for f in flows]
        columns, masks = [], []
        place: list[Any] = [None]
        if len(flows) > 1:
            inverse = np.empty(n, np.int64)
            inverse[together(flows)] = np.arange(n)
            place = np.split(inverse, np.cumsum([len(f) for f in flows])[:-1])
        for crossing, flow, at in zip(self.segment.inputs, flows, place, strict=True):
            given = [*flow.key[len(self.outer) :], *flow.value] if crossing.keyed is not None else flow.value
            kind = crossing.type if crossing.keyed is None else TupleType((crossing.keyed, crossing.type))
            columns.append([outside(t, _spread(c, at, n), texts) for t, c in zip(leaves_of(kind), given, strict=True)])
            masks.append(None if at is None else _spread(np.ones(len(flow), np.bool_), at, n))
        stamp = _gathered([f.stamp for f in flows], place, n)
        time = _gathered([f.time for f in flows], place, n) if timed else None
        keys = [_gathered([o[j] for o in outer], place, n) for j in range(len(self.outer))]
        shown = [outside(t, c, texts) for t, c in zip(self.outer, keys, strict=True)]
        batch = Batch(n, columns, masks, [shown for _ in flows] if self.run.key is not None else None)
        outputs = self.engine.push_batch(batch, positions=True)
        for i, output in zip(self.segment.outputs, outputs, strict=True):
            node = self.run.graph.nodes[i]
            at = np.asarray(output.positions, dtype=np.int64) - first
            whole = len(at) == n and bool((at == np.arange(n)).all())
            own: list[Any] = []
            found = output.inner if self.run.key is not None else output.keys
            if node.key is not None and found is not None:  # under forget keys are not asked for
                own = [inside(t, c, texts, True) for t, c in zip(leaves_of(node.key), found, strict=True)]
            streams[i] = Flow(
                stamp if whole else stamp[at],
                None if time is None else time if whole else time[at],
                [*(c if whole else c[at] for c in keys), *own],
                [inside(t, c, texts, True) for t, c in zip(leaves_of(node.type), output.columns, strict=True)],
            )


def _spread(column: Any, at: Any, n: int) -> Any:
    """A column with its rows at these places, anything elsewhere."""
    if at is None:
        return column
    out = np.zeros(n, column.dtype)
    out[at] = column
    return out


def _gathered(columns: Sequence[Any], place: Sequence[Any], n: int) -> Any:
    """Columns of several streams as one."""
    if len(columns) == 1:
        return columns[0]
    out = np.empty(n, columns[0].dtype)
    for column, at in zip(columns, place, strict=True):
        out[at] = column
    return out


_SOME = 1 << 12


# ---------------------------------------------------------------- steps that read one stream


def first_ones(groups: Any, times: Any, last: Any, known: Any, within: int, keep: Any) -> None:
    """Mark the rows that are kept: those of which no kept row of the same group is at most so much earlier.

    Rows come by group and time; ``last`` is when each group's last kept row was, if ``known``.
    """
    for i in range(len(groups)):
        group, t = groups[i], int(times[i])
        since = int(last[group])
        # Times rise, so a difference below 0 is one that has left 64 bits: it is greater than any length of time.
        if not known[group] or t - since > within or t - since < 0:
            keep[i] = known[group] = True
            last[group] = t


class Dedup:
    """Keeps the first in event time.  ``kinds.key`` is what makes two events the same; the first leaves of it, ``own``
    in number, are the stream's own key, by which answers are put in order.

    >>> from pellucid.internal.expr.types import INT
    >>> dedup = Dedup(5, Kinds((INT,), (INT,)), Texts())
    >>> rows = Rows(np.array([7, 3, 12]), [np.array([1, 1, 1])], [np.array([70, 30, 120])])
    >>> dedup.take(rows)
    >>> dedup.put(13).value[0].tolist()
    [30, 120]
    """

    def __init__(self, within: int, kinds: Kinds, texts: Texts, own: int = 0) -> None:
        self.within, self.kinds, self.texts, self.own = within, kinds, texts, own
        self._rows = Waiting(kinds.arrays)
        self._start()

    def _start(self) -> None:
        self._keys = Keys(self.kinds.key)
        self._last, self._known = np.zeros(16, np.int64), np.zeros(16, np.bool_)
        self._tidied = 0

    def __len__(self) -> int:
        return len(self._rows) + int(self._known.sum())

    def take(self, rows: Rows) -> None:
        """Rows that are not late."""
        self._rows.add(rows.time, rows.columns())

    def put(self, clock: int | None) -> Rows:
        """The events that are kept, of those whose time is complete; by time, then by the event."""
        columns = self._rows.take(None if clock is None else clock - 1)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        if not len(rows):
            return rows
        key = self._keys.of(rows.key, len(rows))
        order = canonical([key, rows.time], self.kinds.value, rows.value, self.texts)
        self._last, self._known = longer(self._last, self._keys.count), longer(self._known, self._keys.count)
        key, keep = key[order], np.zeros(len(rows), np.bool_)

        mark = first_ones
        if many(len(rows)):
            from pellucid.internal.engine.timed.compiled import first_ones as mark
        mark(key, rows.time[order], self._last, self._known, self.within, keep)
        rows = rows.at(order[keep])
        self._tidy(clock)
        own = zip(self.kinds.key[: self.own], rows.key[: self.own], strict=True)
        words = [numbers(t, c, self.texts) for t, c in own]
        return rows.at(canonical([rows.time, *words], self.kinds.value, rows.value, self.texts))

    def _tidy(self, clock: int | None) -> None:
        """Forget the keys whose last kept event is further back than the clock looks, now and then."""
        if clock is None or self._keys.count <= 2 * self._tidied + _SOME:
            return
        count = self._keys.count
        alive = np.flatnonzero(self._known[:count] & (later(self._last[:count], self.within) >= clock))
        self._restore([*(c[alive] for c in self._keys.columns()), self._last[alive]])
        self._tidied = len(alive)

    def _kept(self) -> list[Any]:
        known = np.flatnonzero(self._known[: self._keys.count])
        return [*(c[known] for c in self._keys.columns()), self._last[known]]

    def _restore(self, columns: list[Any]) -> None:
        self._start()
        if len(columns[-1]):
            key = self._keys.of(columns[:-1], len(columns[-1]))
            self._last, self._known = longer(self._last, self._keys.count), longer(self._known, self._keys.count)
            self._last[key], self._known[key] = columns[-1], True

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value], [*self.kinds.key, INT]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self._rows.columns(), self._kept()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._rows.put(groups[0])
        self._restore(groups[1])


class At(Step):
    """What an event's time is."""

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        self.time = Evaluated(self.node, self.sides[0].type, self.texts, run.mode)

    @property
    def why_plain(self) -> str | None:
        return self.time.why_plain

    def put(self, flows: list[Flow]) -> Flow:
        (flow,) = flows
        try:
            columns = self._times(flow)
        except StepError as error:
            self._times(flow.at(slice(0, error.position)))  # an event without a time may come before it
            raise at_push(error, self.push(flow, error.position)) from error.__cause__
        if len(flow):
            self.run.clocks.saw(self.stage.step, int(columns.max()))
        return Flow(flow.stamp, columns, flow.key, flow.value)

    def _times(self, flow: Flow) -> Any:
        columns = self.time(flow.value)
        assert self.node.fn is not None
        if isinstance(self.node.fn.result, OptionalType):
            if not columns[0].all():
                at = int(np.argmin(columns[0]))
                raise no_time(self.node, self.event(flow, at), self.push(flow, at))
            columns = columns[1:]
        return columns[0]


class DedupStep(Step):
    """The first of like events."""

    op: Dedup

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.timing is not None and self.timing.within is not None
        self.like = Evaluated(self.node, self.sides[0].type, self.texts, run.mode)
        kinds = Kinds((*self.keys, *self.like.types), leaves_of(self.sides[0].type))
        self.op = Dedup(self.timing.within, kinds, self.texts, len(self.keys))

    @property
    def why_plain(self) -> str | None:
        return self.like.why_plain

    def put(self, flows: list[Flow]) -> Flow:
        flow = self.in_time(flows[0])
        try:
            like = self.like(flow.value)
        except StepError as error:
            raise at_push(error, self.push(flow, error.position)) from error.__cause__
        self.op.take(Rows(flow.time, [*flow.key, *like], flow.value))
        if not self.run.moving:
            return self.nothing()
        rows = self.op.put(self.after())
        return moved(rows.time, rows.key[: len(self.keys)], rows.value)


class LateStep(Step):
    """The events that came too late for another step."""

    def put(self, flows: list[Flow]) -> Flow:
        return self.run.late_now.get(self.stage.inputs[0]) or self.nothing()


class EarlyStep(Step):
    """The answers that windows have so far."""

    def put(self, flows: list[Flow]) -> Flow:
        return self.run.early_now.get(self.stage.inputs[0]) or self.nothing()


# The task that is notified of times, over columns: events wait for their time, and a kernel calls its functions.
#
# The kernel has the states and the times that were asked for, by key (`engine.kernel.emit.timers`).  When the clock
# moves, it gets the events that are complete, by time; and then, for each key that has asked for a time which is
# complete by now, the news of that.


class InOrder:
    """Events that wait until their time is complete; they go by time, key and event.

    >>> from pellucid.internal.expr.types import INT
    >>> waiting = InOrder(Kinds((INT,), (INT,)), Texts())
    >>> waiting.take(Rows(np.array([7, 3, 3]), [np.array([1, 1, 1])], [np.array([70, 31, 30])]))
    >>> waiting.put(6).value[0].tolist(), len(waiting)
    ([30, 31], 1)
    """

    def __init__(self, kinds: Kinds, texts: Texts) -> None:
        self.kinds, self.texts = kinds, texts
        self._rows = Waiting(kinds.arrays)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows) -> None:
        """More of them."""
        self._rows.add(rows.time, rows.columns())

    def put(self, last: int | None) -> Rows:
        """Those up to a time; None: all."""
        columns = self._rows.take(last)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        if len(rows) < 2:
            return rows
        words = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
        return rows.at(canonical([rows.time, *words], self.kinds.value, rows.value, self.texts))

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self._rows.columns()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._rows.put(groups[0])


class Timers(Step):
    """The task that is notified of times."""

    op: InOrder
    engine: Engine

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        self.op = InOrder(self.kinds(), self.texts)
        self.key = TupleType(tuple(self.keys)) if self.keys else None
        node = self.node
        assert self.clock is not None
        given, put = TupleType((BOOL, self.clock, self.sides[0].type)), TupleType((self.clock, node.type))
        source = Node("in" if node.id != "in" else "source", "source", (), given)
        self.task = Node(
            node.id, "task", (0,), put, node.fn, start=node.start, state=node.state, where=node.where,
            on_time=node.on_time,
        )  # fmt: skip
        graph = Graph(node.id, (source, self.task), (0,), (("out", 1),))
        self.engine = Engine(graph, key=self.key, mode=run.mode)
        self._tidied = 0

    @property
    def why_plain(self) -> str | None:
        why = self.engine.why_plain
        return None if why is None else why.replace(self.task.describe(), self.node.describe())

    def put(self, flows: list[Flow]) -> Flow:
        flow = self.in_time(flows[0])
        self.op.take(flow.rows())
        clock = self.after()
        if not self.run.moving or clock == LEAST:
            return self.nothing()
        last = MOST if clock is None else clock - 1
        rows = self.op.put(None if clock is None else last)
        parts = [self._called(rows, np.zeros(len(rows), np.bool_))]
        due = self._due(last)
        if len(due):
            parts.append(self._called(due, np.ones(len(due), np.bool_)))
        self._tidy()
        return self._in_order(behind(parts))

    def _called(self, rows: Rows, tick: Any) -> Flow:
        """What the kernel emits on events, or on the news that times are complete."""
        n, types = len(rows), [t for _, t in self.sides[0].type.leaves()]
        if not n:
            return self.nothing()
        event = [outside(t, c, self.texts) for t, c in zip(types, rows.value, strict=True)]
        keys = [outside(t, c, self.texts) for t, c in zip(self.keys, rows.key, strict=True)]
        first = self.engine.pushed
        try:
            (output,) = self.engine.push_batch(
                Batch(n, [[tick, rows.time, *event]], [None], [keys] if self.key is not None else None), positions=True
            )
        except Untimely as wrong:
            raise self._untimely(wrong, rows, wrong.position - first) from None
        except StepError as error:
            text = str(error).replace(self.task.describe(), self.node.describe(), 1)
            same = type(error)(text, step=error.step, position=error.position, why=error.why)
            raise at_push(same, self.run.push_of(MOVED)) from error.__cause__
        time, *value = output.columns
        own = zip(self.keys, output.keys or [], strict=True)
        leaves = zip([t for _, t in self.node.type.leaves()], value, strict=True)
        return moved(
            inside(INT, time, self.texts, True),
            [inside(t, c, self.texts, True) for t, c in own],
            [inside(t, c, self.texts, True) for t, c in leaves],
        )

    def _untimely(self, wrong: Untimely, rows: Rows, row: int) -> StepError:
        assert self.clock is not None
        outer = self.run.key
        parts = [(outer, rows.key[: self.outer])] if outer is not None else []
        parts += [(self.node.key, rows.key[self.outer :])] if self.node.key is not None else []
        keys = [event_at(t, columns, row, self.texts) for t, columns in parts]
        push = self.run.push_of(MOVED)
        if wrong.endless:
            return never_done(self.node, self.clock, keys, wrong.now, push)
        return not_ahead(self.node, self.clock, keys, wrong.now, wrong.asked, wrong.told, push)

    def _due(self, last: int) -> Rows:
        """The keys that have asked for a time up to ``last``, with that time; the columns of events are any."""
        times, keys, _ = self.asked(last)
        blank = [np.zeros(len(times), c.dtype) for c in self.kinds().none().value]
        return Rows(np.full(len(times), last, np.int64), keys, blank)

    def asked(self, last: int = MOST) -> tuple[Any, list[Any], Any]:
        """Of each key that has asked for a time up to ``last``: the first such time, the key's columns, and how many
        times it waits for in all."""
        state = self.engine.state
        r = state.layout.region_of[None]
        count = int(state.meta[state.region_at(r)])
        words = np.asarray(self._words(r, count), dtype=np.int64).reshape(2, count)
        some = np.flatnonzero(words[1] > 0)
        times = np.asarray(state.cells[0][1], dtype=np.int64)[words[0][some]]
        rows, times = some[times <= last], times[times <= last]
        keys: list[Any] = []
        if self.key is not None and len(rows):
            columns = self.engine.exchange.key_columns(self.key, r, rows if state.compiled else rows.tolist())
            keys = [inside(t, c, self.texts, True) for t, c in zip(self.keys, columns, strict=True)]
        elif self.key is not None:
            keys = self.kinds().none().key
        return times, keys, words[1][rows]

    def _words(self, r: int, count: int) -> list[Any]:
        """Of each key the first cell of the times that wait, and how many do."""
        state = self.engine.state
        width = state.layout.regions[r].width
        labels = [word.label for word in state.layout.regions[r].words]
        wanted = [labels.index(f"{self.node.id}.0.{end}") for end in ("head", "length")]
        return [state.rows[r][at : count * width : width] for at in wanted]

    def _tidy(self) -> None:
        """Give up keys whose state is as it was at the start and that wait for no time, now and then: they are as if
        they had never been."""
        state = self.engine.state
        r = state.layout.region_of[None]
        region, count = state.layout.regions[r], int(state.meta[state.region_at(r)])
        if self.key is None or self.node.any_object or count <= 2 * self._tidied + _SOME:
            return
        held = np.asarray(self._words(r, count)[1], dtype=np.int64) > 0
        for at, word in enumerate(region.words):
            if word.label.split(".")[0] == "state":
                column = state.rows[r][at : count * region.width : region.width]
                if state.compiled:  # the bits, also those of floats
                    held |= column != state.templates[r][at]
                else:
                    held |= np.array([repr(v) != repr(state.templates[r][at]) for v in column], dtype=np.bool_)
        rows = np.flatnonzero(held)
        self._tidied = state.keep_rows(r, rows if state.compiled else rows.tolist())

    def _in_order(self, flow: Flow) -> Flow:
        """By time and key; of one time and key as they were emitted."""
        if len(flow) < 2:
            return flow
        words = [numbers(t, c, self.texts) for t, c in zip(self.keys, flow.key, strict=True)]
        return flow.at(order_by([flow.time, *words]))
