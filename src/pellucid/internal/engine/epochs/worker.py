"""A worker: one fused kernel between its inputs and its readers.

A batch of pushes goes through the kernel as it comes.  Where the events of several streams meet, each push takes what
every stream has for it: the push numbers say which, so that the result does not depend on who was faster.  At a border
the state is copied (`Engine.save`), the border goes on, and the copy becomes durable in the background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import StateError, StepError
from pellucid.internal.base import faults
from pellucid.internal.data.columns import Batch, Column, Output, Strings
from pellucid.internal.engine.epochs.dead_letters import STREAM, of_failures
from pellucid.internal.engine.epochs.messages import (
    BORDER,
    EVENTS,
    ChannelMessage,
    Events,
    Outbox,
    as_arrays,
    kind_of,
    positions_of,
)
from pellucid.internal.engine.epochs.recording import digest
from pellucid.internal.engine.epochs.store import Damaged, Snapshot
from pellucid.internal.engine.epochs.task import Context, TaskProcess
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.kernel.exchange import joined as both_of
from pellucid.internal.engine.saved.objects import Changed
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.expr.types import STR, Type
from pellucid.internal.graph.model import Graph

if TYPE_CHECKING:
    from pellucid.internal.engine.timed.engine import TimedEngine


class Worker(TaskProcess):
    """Runs a graph, or a part of one."""

    def __init__(
        self, context: Context, graph: Graph, key: Type | None, wanted: list[tuple[str, ...]], *, lenient: bool = False
    ) -> None:
        super().__init__(context)
        self.graph, self.key = graph, key
        self.engine = Engine(graph, key=key)
        self._names = [graph.nodes[i].id for i in graph.sources]
        self._wanted = wanted  # the streams that each reader takes, in the order of the outboxes
        self._lenient = lenient  # a push on which a step fails is undone, and told

    def restore(self, snapshot: Snapshot | None) -> None:
        """Load the kernel's state."""
        restored(self.context, self.engine, snapshot)

    def run(self) -> None:
        """Take batches and borders until the end."""
        context = self.context
        while True:
            kind, until, heads = context.next()
            noted = [message.noted(box.name) for box, message in heads] if context.recorder else []
            if kind == EVENTS:
                faults.point("worker:event")
                first, epoch = heads[0][1].first, heads[0][1].epoch
                parts = {name: events for _, message in heads for name, events in message.parts.items()}
                found = self._push(parts, first)
                # then what comes next is the border, and no waiting for it
                closes = all(message.closes for _, message in heads)
                batches = [
                    (box, ChannelMessage(EVENTS, epoch, first, until, {n: found[n] for n in names}, closes=closes))
                    for box, names in zip(context.outboxes, self._wanted, strict=True)
                ]
                context.send(batches, "I-EVENT", noted)
                context.pushes = until
            elif kind == BORDER:
                self._border(heads[0][1].epoch, until, noted)
            else:
                forgotten = self.engine.forgotten
                if forgotten:
                    context.link.send(forgotten=forgotten)
                context.end()
                return

    def _border(self, epoch: int, until: int, noted: list[Any]) -> None:
        context = self.context
        faults.point("worker:border")
        data = self.engine.save()
        mark = digest(data) if context.recorder else None
        borders: list[tuple[Outbox, ChannelMessage]] = [
            (box, ChannelMessage(BORDER, epoch, until, until)) for box in context.outboxes
        ]
        context.send(borders, "I-BORDER", noted, mark)
        context.snapshot(lambda: Snapshot(context.name, epoch, until, payload=data), epoch, len(data), mark)
        context.now = epoch + 1

    def _push(self, parts: dict[str, Events], first: int) -> dict[str, Events]:
        batch, positions = joined(self.graph, self._names, parts, first, self.key)
        failed: list[StepError] | None = [] if self._lenient else None
        if not batch.count:
            nothing = {name: nothing_of(self.graph.nodes[i].type, self.key) for name, i in self.graph.outputs}
            return nothing if failed is None else {**nothing, STREAM: of_failures([])}
        base = self.engine.pushed
        try:
            outputs = self.engine.push_batch(batch, positions=True, failed=failed)
        except StepError as error:
            raise placed(error, base, positions, first) from None
        found = {o.name: events_of_output(o, base, positions, first, self.key) for o in outputs}
        if failed is not None:
            found[STREAM] = of_failures([(_number(e, base, positions, first), e) for e in failed])
        return found


def restored(context: Context, engine: Engine | TimedEngine, snapshot: Snapshot | None) -> None:
    """Let an engine go on from a snapshot; one that cannot be loaded is reported as damaged."""
    if snapshot is None:
        return
    try:
        engine.load(snapshot.payload)
    except Changed:
        raise  # no older snapshot would do
    except StateError as error:
        context.damaged(Damaged(f"{context.store.path(context.name, snapshot.epoch)}: {error}"))


def joined(graph: Graph, names: list[str], parts: dict[str, Events], first: int, key: Type | None) -> tuple[Batch, Any]:
    """The events of some streams as pushes for a kernel, and the number of each push (None: from ``first`` on).

    >>> from pellucid import merge, pipeline
    >>> graph = pipeline(lambda x, y: merge(x, y), x=int, y=int).graph
    >>> parts = {"x": Events([np.array([5, 6])], np.array([1, 4])), "y": Events([np.array([7])], np.array([4]))}
    >>> batch, positions = joined(graph, ["x", "y"], parts, 0, None)
    >>> positions.tolist(), batch.masks[0], batch.masks[1].tolist()  # no mask where there is an event in every push
    ([1, 4], None, [False, True])
    """
    if len(names) == 1:
        events = parts.get(names[0]) or nothing_of(graph[names[0]].type, key)
        return Batch(
            len(events),
            [events.columns],
            [None],
            [events.keys] if key is not None and events.keys is not None else None,
        ), events.positions
    given = [parts.get(name) or nothing_of(graph[name].type, key) for name in names]
    live = [e for e in given if len(e)]
    count = max((len(e) for e in given), default=0)
    if all(e.positions is None and len(e) == count for e in live):
        positions: Any = None
        rows: list[Any] = [slice(None)] * len(given)
        total = count
    else:
        numbers = [positions_of(e, first) for e in given]
        positions = np.unique(np.concatenate(numbers))
        rows = [np.searchsorted(positions, n) for n in numbers]
        total = len(positions)
    columns, masks, keys = [], [], []
    for name, events, at in zip(names, given, rows, strict=True):
        whole = len(events) == total
        leaves = [leaf for _, leaf in graph[name].type.leaves()]
        columns.append(
            [c if whole else _spread(leaf, c, at, total) for leaf, c in zip(leaves, events.columns, strict=True)]
        )
        mask = None if whole else np.zeros(total, dtype=bool)
        if mask is not None and len(events):
            mask[at] = True
        masks.append(mask)
        if key is not None:
            kinds = [leaf for _, leaf in key.leaves()]
            found = events.keys if events.keys is not None else [_blank(leaf) for leaf in kinds]
            keys.append([c if whole else _spread(leaf, c, at, total) for leaf, c in zip(kinds, found, strict=True)])
    return Batch(total, columns, list(masks), keys if key is not None else None), positions


def _spread(t: Type, column: Column, at: Any, total: int) -> Column:
    """A column with gaps where there is no event."""
    if isinstance(column, Strings):
        codes = np.zeros(total, dtype=np.int64)
        if len(column):
            codes[at] = column.codes
        return Strings(codes, column.values or [""])
    out: Any = np.zeros(total, dtype=kind_of(t))
    if len(column):
        out[at] = column
    spread: Column = out
    return spread


def _blank(t: Type) -> Column:
    if t == STR:
        return Strings(np.zeros(0, dtype=np.int64), [])
    return np.zeros(0, dtype=kind_of(t))


def nothing_of(t: Type, key: Type | None) -> Events:
    empty = np.zeros(0, dtype=np.int64)
    return Events(
        [_blank(leaf) for _, leaf in t.leaves()],
        empty,
        [_blank(leaf) for _, leaf in key.leaves()] if key is not None else None,
    )


def events_of_output(output: Output, base: int, positions: Any, first: int, key: Type | None) -> Events:
    leaves = [leaf for _, leaf in output.type.leaves()]
    columns = [as_arrays(leaf, c) for leaf, c in zip(leaves, output.columns, strict=True)]
    local = np.asarray(output.positions, dtype=np.int64) - base
    numbers = local + first if positions is None else positions[local]
    keys = None
    if key is not None and output.keys is not None and output.key_type is not None:
        keys = [as_arrays(leaf, c) for (_, leaf), c in zip(output.key_type.leaves(), output.keys, strict=True)]
    return Events(columns, numbers, keys)


def _number(error: StepError, base: int, positions: Any, first: int) -> int:
    """The number in the whole run of the push that failed."""
    at = error.position - base
    return first + at if positions is None else int(positions[at]) if 0 <= at < len(positions) else error.position


def placed(error: StepError, base: int, positions: Any, first: int) -> StepError:
    """The error with the number of the push in the whole run, not in this worker."""
    number = _number(error, base, positions, first)
    text = str(error).replace(f"push {error.position:,} ", f"push {number:,} ", 1)
    return type(error)(text, step=error.step, position=number)


# A worker of a pipeline by event time: an epoch is a batch.
#
# Rows are taken as they come, and judged by the clock at the beginning of their epoch.  Its border moves the clock;
# what
# is complete then belongs to the epoch, as if the last push of it had put it out, and goes before the border.  The
# snapshot has the clock and all that waits for it.


class TimedWorker(TaskProcess):
    """Runs a whole graph by event time."""

    def __init__(self, context: Context, graph: Graph, key: Type | None, wanted: list[tuple[str, ...]]) -> None:
        super().__init__(context)
        self.graph, self.key = graph, key
        self.engine = TimedEngine(graph, key=key)
        self._names = [graph.nodes[i].id for i in graph.sources]
        self._wanted = wanted  # the streams that each reader takes, in the order of the outboxes

    def restore(self, snapshot: Snapshot | None) -> None:
        """Load the engine's state."""
        restored(self.context, self.engine, snapshot)

    def run(self) -> None:
        """Take rows and borders until the end."""
        context = self.context
        while True:
            kind, until, heads = context.next()
            box, message = heads[0]  # there is one source task
            noted = [message.noted(box.name)] if context.recorder else []
            if kind == EVENTS and message.told is not None:
                self._send(message.epoch, until, until, self._moved(until, message.told), noted, closes=True)
            elif kind == EVENTS:
                faults.point("worker:event")
                self._send(message.epoch, message.first, until, self._take(message.parts, message.first), noted)
                context.pushes = until
            elif kind == BORDER:
                self._border(message.epoch, until, noted)
            else:
                context.link.send(late=self.engine.late)
                if self.engine.forgotten:
                    context.link.send(forgotten=self.engine.forgotten)
                context.end()
                return

    def _send(
        self, epoch: int, first: int, until: int, found: dict[str, Events], noted: list[Any], *, closes: bool = False
    ) -> None:
        self.context.send(
            [
                (box, ChannelMessage(EVENTS, epoch, first, until, {n: found[n] for n in names}, closes=closes))
                for box, names in zip(self.context.outboxes, self._wanted, strict=True)
            ],
            "I-EVENT",
            noted,
        )

    def _take(self, parts: dict[str, Events], first: int) -> dict[str, Events]:
        batch, positions = joined(self.graph, self._names, parts, first, self.key)
        if not batch.count:
            return {name: nothing_of(self.graph.nodes[i].type, self.key) for name, i in self.graph.outputs}
        self._refuse_after_the_end(parts, first)
        base = self.engine.pushed
        try:
            outputs = self.engine.take(batch, positions=True)
        except StepError as error:
            raise placed(error, base, positions, first) from None
        return {o.name: events_of_output(o, base, positions, first, self.key) for o in outputs}

    def _refuse_after_the_end(self, parts: dict[str, Events], first: int) -> None:
        for name in self._names:
            if name in parts and len(parts[name]) and self.engine.has_ended(name):
                raise StateError(
                    f"source {name!r}: a row came as push {first:,} or later, after the end of its input: then every "
                    "time was complete, and its windows are written. By event time an input that was read to its end "
                    "cannot grow: start anew in another folder"
                )

    def _moved(self, until: int, told: dict[str, Any]) -> dict[str, Events]:
        """The clock moves, as the source tells with the last message of an epoch: what is complete then."""
        engine, position = self.engine, self.graph.position
        for at in told.get("idle", ()):
            engine.clocks.idle(position[at])
        engine.clocks.end(position[at] for at in told.get("ended", ()))
        try:
            outputs = engine.move()
            if told.get("end"):
                outputs = [both_of(parts) for parts in zip(outputs, engine.finish_batch(), strict=True)]
        except StepError as error:  # of no single push
            raise type(error)(str(error), step=error.step) from None
        return {o.name: self._answers(o, until) for o in outputs}

    def _border(self, epoch: int, until: int, noted: list[Any]) -> None:
        context = self.context
        faults.point("worker:border")
        data = self.engine.save()
        mark = digest(data) if context.recorder else None
        borders = [(box, ChannelMessage(BORDER, epoch, until, until)) for box in context.outboxes]
        context.send(borders, "I-BORDER", noted, mark)
        context.snapshot(lambda: Snapshot(context.name, epoch, until, payload=data), epoch, len(data), mark)
        context.now = epoch + 1

    def _answers(self, output: Output, until: int) -> Events:
        """What the border completes: with the last push of its epoch."""
        leaves = [leaf for _, leaf in output.type.leaves()]
        columns = [as_arrays(leaf, c) for leaf, c in zip(leaves, output.columns, strict=True)]
        keys = None
        if self.key is not None and output.keys is not None:
            keys = [as_arrays(leaf, c) for (_, leaf), c in zip(self.key.leaves(), output.keys, strict=True)]
        return Events(columns, np.full(len(output), until - 1, dtype=np.int64), keys)
