"""What the stages of a plan share: what they know of their run, and a timed step over columns."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.clock import END, Clocks
from pellucid.internal.engine.timed.columns.rows import LEAST, MOST, Kinds, leaves_of
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.windows import LateRows
from pellucid.internal.engine.timed.flows import Flow, event_at, maybe_columns, missing_columns, nothing
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.words import late_error
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph


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
