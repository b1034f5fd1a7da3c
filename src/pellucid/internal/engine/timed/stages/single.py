"""Timed steps that take events one by one: what an event's time is, dedup, and the streams of late and early events."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.engine.timed.columns.dedup import Dedup
from pellucid.internal.engine.timed.columns.rows import Kinds, Rows, leaves_of
from pellucid.internal.engine.timed.flows import Evaluated, Flow, moved
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.stages.step import Run, Step, at_push
from pellucid.internal.engine.timed.words import no_time
from pellucid.internal.expr.types import OptionalType


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
        self.op.take(Rows(flow.time, [*flow.key, *like], flow.value), None)
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
