"""A worker: one engine between its inputs and its readers.

A batch of pushes goes through the kernel as it comes.  Where the events of several streams meet, each push takes what
every stream has for it: the push numbers say which, so that the result does not depend on which sender was faster.  At
a border the state is copied (`Engine.save`), the border travels on, and the copy becomes durable in the background.

By event time (`TimedWorker`) an epoch is a batch: rows are judged by the clock at the beginning of their epoch.  Its
border moves the clock; what is complete then belongs to the epoch, as if its last push had emitted it, and is sent
before the border.  The snapshot has the clock and all that waits for it.
"""

from __future__ import annotations

from typing import Any

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


class Worker(TaskProcess):
    """Runs a graph, or a part of one."""

    engine: Engine | TimedEngine

    def __init__(
        self, context: Context, graph: Graph, key: Type | None, wanted: list[tuple[str, ...]], *, lenient: bool = False
    ) -> None:
        super().__init__(context)
        self.graph, self.key = graph, key
        self.engine = self._engine()
        self._names = [graph.nodes[i].id for i in graph.sources]
        self._wanted = wanted  # the streams that each reader takes, in the order of the outboxes
        self._lenient = lenient  # a push on which a step fails is undone, and reported

    def _engine(self) -> Engine | TimedEngine:
        return Engine(self.graph, key=self.key)

    def restore(self, snapshot: Snapshot | None) -> None:
        """Let the engine resume from a snapshot; one that cannot be loaded is reported as damaged."""
        if snapshot is None:
            return
        try:
            self.engine.load(snapshot.payload)
        except Changed:
            raise  # no older snapshot would do
        except StateError as error:
            path = self.context.store.path(self.context.name, snapshot.epoch)
            self.context.damaged(Damaged(f"{path}: {error}"))

    def run(self) -> None:
        """Take batches and borders until the end."""
        context = self.context
        while True:
            kind, until, heads = context.next()
            noted = [message.noted(box.name) for box, message in heads] if context.recorder else []
            if kind == EVENTS:
                self._events([message for _, message in heads], until, noted)
            elif kind == BORDER:
                self._border(heads[0][1].epoch, until, noted)
            else:
                self._end()
                return

    def _events(self, messages: list[ChannelMessage], until: int, noted: list[Any]) -> None:
        faults.point("worker:event")
        parts = {name: events for message in messages for name, events in message.parts.items()}
        found = self._push(parts, messages[0].first)
        # then what comes next is the border, and no waiting for it
        closes = all(message.closes for message in messages)
        self._send(messages[0].epoch, messages[0].first, until, found, noted, closes)
        self.context.pushes = until

    def _send(
        self, epoch: int, first: int, until: int, found: dict[str, Events], noted: list[Any], closes: bool
    ) -> None:
        batches = [
            (box, ChannelMessage(EVENTS, epoch, first, until, {n: found[n] for n in names}, closes=closes))
            for box, names in zip(self.context.outboxes, self._wanted, strict=True)
        ]
        self.context.send(batches, "I-EVENT", noted)

    def _border(self, epoch: int, until: int, noted: list[Any]) -> None:
        context = self.context
        faults.point("worker:border")
        data = self.engine.save()
        mark = digest(data) if context.recorder else None
        borders = [(box, ChannelMessage(BORDER, epoch, until, until)) for box in context.outboxes]
        context.send(borders, "I-BORDER", noted, mark)
        context.snapshot(lambda: Snapshot(context.name, epoch, until, payload=data), epoch, len(data), mark)
        context.now = epoch + 1

    def _end(self) -> None:
        if self.engine.forgotten:
            self.context.link.send(forgotten=self.engine.forgotten)
        self.context.end()

    def _push(self, parts: dict[str, Events], first: int) -> dict[str, Events]:
        batch, positions = joined(self.graph, self._names, parts, first, self.key)
        failed: list[StepError] | None = [] if self._lenient else None
        if not batch.count:
            nothing = {name: nothing_of(self.graph.nodes[i].type, self.key) for name, i in self.graph.outputs}
            return nothing if failed is None else {**nothing, STREAM: of_failures([])}
        base = self.engine.pushed
        try:
            outputs = self._outputs(batch, failed)
        except StepError as error:
            raise placed(error, base, positions, first) from None
        found = {o.name: events_of_output(o, base, positions, first, self.key) for o in outputs}
        if failed is not None:
            found[STREAM] = of_failures([(_number(e, base, positions, first), e) for e in failed])
        return found

    def _outputs(self, batch: Batch, failed: list[StepError] | None) -> list[Output]:
        assert isinstance(self.engine, Engine)
        return self.engine.push_batch(batch, positions=True, failed=failed)


class TimedWorker(Worker):
    """Runs a whole graph by event time."""

    engine: TimedEngine

    def _engine(self) -> TimedEngine:
        return TimedEngine(self.graph, key=self.key)

    def _outputs(self, batch: Batch, failed: list[StepError] | None) -> list[Output]:
        return self.engine.take(batch, positions=True)

    def _events(self, messages: list[ChannelMessage], until: int, noted: list[Any]) -> None:
        (message,) = messages  # there is one source task
        if message.clock is not None:
            self._send(message.epoch, until, until, self._moved(until, message.clock), noted, True)
        else:
            super()._events(messages, until, noted)

    def _push(self, parts: dict[str, Events], first: int) -> dict[str, Events]:
        for name in self._names:
            if name in parts and len(parts[name]) and self.engine.has_ended(name):
                raise StateError(
                    f"source {name!r}: a row came as push {first:,} or later, after the end of its input: then every "
                    "time was complete, and its windows are written. By event time an input that was read to its end "
                    "cannot grow: start again in another folder"
                )
        return super()._push(parts, first)

    def _moved(self, until: int, clock: dict[str, Any]) -> dict[str, Events]:
        """Move the clock, as the last message of an epoch says: what is complete then, with the last push."""
        engine, position = self.engine, self.graph.position
        for at in clock.get("idle", ()):
            engine.clocks.idle(position[at])
        engine.clocks.end(position[at] for at in clock.get("ended", ()))
        try:
            outputs = engine.move()
            if clock.get("end"):
                outputs = [both_of(parts) for parts in zip(outputs, engine.finish_batch(), strict=True)]
        except StepError as error:  # of no single push
            raise type(error)(str(error), step=error.step) from None
        return {o.name: _events(o, np.full(len(o), until - 1, dtype=np.int64), self.key) for o in outputs}

    def _end(self) -> None:
        self.context.link.send(late=self.engine.late)
        super()._end()


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
    """What an engine put into an output, with the number of each event's push in the whole run."""
    local = np.asarray(output.positions, dtype=np.int64) - base
    return _events(output, local + first if positions is None else positions[local], key)


def _events(output: Output, numbers: Any, key: Type | None) -> Events:
    columns = [as_arrays(leaf, c) for (_, leaf), c in zip(output.type.leaves(), output.columns, strict=True)]
    keys = None
    if key is not None and output.keys is not None:
        kind = output.key_type or key
        keys = [as_arrays(leaf, c) for (_, leaf), c in zip(kind.leaves(), output.keys, strict=True)]
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
