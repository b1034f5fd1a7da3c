"""A worker of a pipeline by event time: an epoch is a batch.

Rows are taken as they come, and judged by the clock at the beginning of their epoch.  Its border moves the clock; what
is complete then belongs to the epoch, as if the last push of it had put it out, and goes before the border.  The
snapshot has the clock and all that waits for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.errors import StateError, StepError
from pellucid.internal.base import faults
from pellucid.internal.data.columns import Output
from pellucid.internal.engine.epochs.recording import digest
from pellucid.internal.engine.epochs.store import Snapshot
from pellucid.internal.engine.epochs.tasks.messages import BORDER, EVENTS, ChannelMessage, Events, as_arrays
from pellucid.internal.engine.epochs.tasks.task import Context, TaskProcess
from pellucid.internal.engine.epochs.tasks.worker import events_of_output, joined, nothing_of, placed, restored
from pellucid.internal.engine.kernel.pieces import joined as both_of
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph


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
        """What the border put out: with the last push of its epoch."""
        leaves = [leaf for _, leaf in output.type.leaves()]
        columns = [as_arrays(leaf, c) for leaf, c in zip(leaves, output.columns, strict=True)]
        keys = None
        if self.key is not None and output.keys is not None:
            keys = [as_arrays(leaf, c) for (_, leaf), c in zip(self.key.leaves(), output.keys, strict=True)]
        return Events(columns, np.full(len(output), until - 1, dtype=np.int64), keys)
