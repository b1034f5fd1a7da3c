"""The stages of a plan over columns: a kernel for each segment, an operator for each timed step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pellucid.data.columns import Batch
from pellucid.engine.kernel.engine import Engine
from pellucid.engine.timed.calendar import day_start, windows_of
from pellucid.engine.timed.clock import END, Clocks
from pellucid.engine.timed.columns.asof import AsOf
from pellucid.engine.timed.columns.dedup import Dedup
from pellucid.engine.timed.columns.held.sessions import RunningSessions
from pellucid.engine.timed.columns.held.windows import HeldWindows
from pellucid.engine.timed.columns.inner import Inner, inside
from pellucid.engine.timed.columns.joins import IntervalJoin
from pellucid.engine.timed.columns.rows import LEAST, MOST, Kinds, Rows, later, leaves_of
from pellucid.engine.timed.columns.sessions import Sessions
from pellucid.engine.timed.columns.spans import Days, Spans
from pellucid.engine.timed.columns.texts import Texts
from pellucid.engine.timed.columns.windows import Answers, FixedWindows, LateRows, WindowFailed
from pellucid.engine.timed.flows import (
    Evaluated,
    Flow,
    behind,
    event_at,
    in_order,
    maybe_columns,
    missing_columns,
    moved,
    nothing,
    outside,
    together,
)
from pellucid.engine.timed.plan import Segment, Timed
from pellucid.engine.timed.words import late_error, no_such_time, no_time, sub_failed
from pellucid.errors import StepError, known
from pellucid.expr.types import OptionalType, TupleType, Type
from pellucid.expr.types.times import DAY
from pellucid.graph.model import Graph
from pellucid.graph.timing import missing


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
            raise _moved(error, self.run.push_of(int(stamps[at]))) from error.__cause__

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
            if node.key is not None and found is not None:  # under forget nobody asks for keys
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


def _moved(error: StepError, push: int) -> StepError:
    """The same error at another push."""
    text = str(error).replace(f"push {error.position:,} ", f"push {push:,} ", 1)
    return type(error)(text, step=error.step, position=push, why=error.why)


class Step:
    """A timed step: its node, and what all kinds share.  Operators with a state have ``op``."""

    op: Any = None

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

    def limits(self) -> tuple[int, int]:
        """The least and the greatest time that there is."""
        assert self.clock is not None
        return self.clock.limits()[0] or (LEAST, MOST)


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
            raise _moved(error, self.push(flow, error.position)) from error.__cause__
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


class Windows(Step):
    """What windows share."""

    op: FixedWindows | Sessions

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.node.sub is not None
        self.inner = Inner(self.node.sub, self.texts, run.mode)

    @property
    def why_plain(self) -> str | None:
        return self.inner.why_plain

    def put(self, flows: list[Flow]) -> Flow:
        (flow,) = flows
        wrong = self.first_wrong(flow) if len(flow) else None
        if wrong is not None:  # an event that is late may come before it
            some = flow.at(slice(0, wrong))
            self.note(self.too_late(some, self.op.take(some.rows(), before(self.now()))))
            assert self.clock is not None
            time = int(flow.time[wrong])
            raise no_such_time(self.node, self.event(flow, wrong), time, self.clock, self.push(flow, wrong))
        self.note(self.too_late(flow, self.op.take(flow.rows(), before(self.now()))))
        if not self.run.moving:
            return self.nothing()
        try:
            found = self.closed()
        except WindowFailed as failed:
            assert self.clock is not None
            push = self.run.push_of(2**62)
            raise sub_failed(self.node, self.clock, failed.start, failed.end, failed.error, push) from (
                failed.error.__cause__
            )
        return self.answers(found)

    def closed(self) -> Answers:
        """The answers that are complete; the running ones, if they are told now, are noted for the step `early`."""
        if not isinstance(self.op, (HeldWindows, RunningSessions)):
            return self.op.close(self.after())
        found = self.op.close(self.after(), self.tells())
        early = self.answers(self.op.so_far)
        self.run.early_now[self.stage.step] = Flow(early.stamp, None, early.key, early.value)
        return found

    def tells(self) -> bool:
        """Whether running answers are told now."""
        assert self.timing is not None
        if not self.run.early:
            return False
        clocks, stream = self.run.clocks, self.stage.inputs[0]
        return self.timing.tells(self.now(), clocks.after(stream, self.stage.step))

    @staticmethod
    def answers(found: Answers) -> Flow:
        """As they go on."""
        return moved(found.end - 1, found.key, [found.start, found.end, *found.value])

    def first_wrong(self, flow: Flow) -> int | None:
        """The first event whose window is not within the times that there are; None if all are."""
        raise NotImplementedError


class Fixed(Windows):
    """Tumbling and sliding windows."""

    op: FixedWindows

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        t = self.timing
        assert t is not None and t.size is not None and t.every is not None
        if t.tz is None:
            spans = Spans(t.size, t.every, t.origin % t.every)  # the same windows, with small numbers
        else:
            tz = t.tz
            spans = Days(t.size // DAY, t.every // DAY, t.origin // DAY, lambda day: day_start(tz, day))
        more = self.inner, self.kinds(), self.texts
        held = t.allowed or t.early is not None
        self.op = HeldWindows(spans, *more, t.allowed, t.early is not None) if held else FixedWindows(spans, *more)

    def first_wrong(self, flow: Flow) -> int | None:
        t, (least, most) = self.timing, self.limits()
        assert t is not None and t.size is not None and t.every is not None
        reach = abs(t.origin) + 2 * t.size + 2 * t.every + (2 * DAY if t.tz is not None else 0)
        near = (flow.time < min(least + reach, MOST)) | (flow.time > max(most - reach, LEAST))
        for at in np.flatnonzero(near).tolist():  # hardly ever any
            try:
                windows = windows_of(t, int(flow.time[at]))
            except OverflowError:
                return int(at)
            if any(not least <= edge <= most for window in windows for edge in window):
                return int(at)
        return None


class Session(Windows):
    """Sessions."""

    op: Sessions

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.timing is not None and self.timing.gap is not None
        self.gap = self.timing.gap
        kind = Sessions if self.timing.early is None else RunningSessions
        self.op = kind(self.gap, self.inner, self.kinds(), self.texts)

    def first_wrong(self, flow: Flow) -> int | None:
        last = self.limits()[1] - self.gap - 1
        if int(flow.time.max()) <= last:
            return None
        return int(np.argmax(flow.time > max(last, LEAST))) if last >= LEAST else 0


class TwoSides(Step):
    """Steps with two inputs: which of their events are late, in the order in which they came."""

    def judged(self, flows: list[Flow]) -> tuple[list[Flow], list[Any], Any]:
        """What is not late; the places of those among all events of the batch, and the stamps by places."""
        order = [0, 1] if self.stage.inputs[0] <= self.stage.inputs[1] else [1, 0]
        sequence = together([flows[i] for i in order])
        place = np.empty(len(sequence), np.int64)
        place[sequence] = np.arange(len(sequence))
        places = [np.zeros(0, np.int64)] * 2
        places[order[0]], places[order[1]] = place[: len(flows[order[0]])], place[len(flows[order[0]]) :]
        stamps = np.concatenate([flows[i].stamp for i in order])[sequence]
        late = [self.behind_clock(flows[i], i) for i in (0, 1)]
        first = [int(places[i][late[i].which[0]]) if len(late[i]) else len(place) for i in (0, 1)]
        sent = [(i, self.too_late(flows[i], late[i], i)) for i in sorted((0, 1), key=lambda i: first[i])]
        found = [(i, flow) for i, flow in sent if flow is not None]
        if len(found) == 2:
            both = behind([flow for _, flow in found])
            at = np.argsort(np.concatenate([places[i][late[i].which] for i, _ in found]), kind="stable")
            self.note(both.at(at))
        elif found:
            self.note(found[0][1])
        for i in (0, 1):
            if len(late[i]):
                kept = np.ones(len(flows[i]), np.bool_)
                kept[late[i].which] = False
                flows = [flow.at(kept) if j == i else flow for j, flow in enumerate(flows)]
                places[i] = places[i][kept]
        return flows, places, stamps


class Join(TwoSides):
    """The interval join."""

    op: IntervalJoin

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        t = self.timing
        assert t is not None and t.low is not None and t.high is not None
        self.low, self.high, self.how = t.low, t.high, t.how
        self.op = IntervalJoin(t.low, t.high, t.how, self.kinds(0), self.kinds(1), self.texts)

    def put(self, flows: list[Flow]) -> Flow:
        (left, right), places, stamps = self.judged(flows)
        pairs = self.op.take(left.rows(), right.rows(), *places)
        a, b = pairs.left, pairs.right
        value = [
            *(maybe_columns(self.sides[0].type, a.value, None, self.texts) if self.how == "full" else a.value),
            *(b.value if self.how == "inner" else maybe_columns(self.sides[1].type, b.value, None, self.texts)),
        ]
        out = Flow(stamps[pairs.place], np.maximum(a.time, b.time), a.key, value)
        if not self.run.moving:
            return out
        alone = self.op.give_up(self.after(0), self.after(1))
        if self.how == "inner" or not any(map(len, alone)):
            return out
        return behind([out, self._alone(*alone)])

    def _alone(self, left: Rows, right: Rows) -> Flow:
        """Rows without a partner, with the last time at which they could have found one."""
        parts = []
        for number, rows, by in ((0, left, self.high), (1, right, -self.low)):
            least, most = self.limits()
            wrong = [t for t in rows.time.tolist() if not least <= t + by <= most] if len(rows) else []
            if wrong:
                at = int(np.argmax(rows.time == wrong[0]))
                event = event_at(self.sides[number].type, rows.value, at, self.texts)
                assert self.clock is not None
                raise no_such_time(self.node, event, wrong[0], self.clock, self.run.push_of(2**62))
            types = [side.type for side in self.sides]
            own = rows.value
            if number or self.how == "full":
                own = maybe_columns(types[number], rows.value, None, self.texts)
            other = missing_columns(types[1 - number], len(rows), self.texts)
            if number or len(rows):
                value = [*other, *own] if number else [*own, *other]
                parts.append(moved(later(rows.time, by), rows.key, value))
        flow = behind(parts) if self.how == "full" else parts[0]
        assert isinstance(self.node.type, TupleType)
        return in_order(flow, self.keys, self.node.type, self.texts, [self._second(flow, self.node.type.items[0])])

    def _second(self, flow: Flow, t: Type) -> Any:
        """1 where the left event is missing, or might as well be: such rows come after the others."""
        nobody = missing(t)
        if t.problem(nobody) is not None:
            return np.zeros(len(flow), np.int64)
        same = np.ones(len(flow), np.bool_)
        for leaf, value, column in zip(leaves_of(t), t.flatten(nobody), flow.value, strict=False):
            same &= column == inside(leaf, [value], self.texts)[0]
        return same.astype(np.int64)


class AsOfStep(TwoSides):
    """As-of, and lookup in a table that changes."""

    op: AsOf

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.timing is not None
        self.how = self.timing.how
        self.op = AsOf(self.timing.within, self.kinds(0), self.kinds(1), self.texts)

    def put(self, flows: list[Flow]) -> Flow:
        (left, right), _, _ = self.judged(flows)
        self.op.take(left.rows(), right.rows())
        if not self.run.moving:
            return self.nothing()
        asked, found, there = self.op.put(self.after(0), self.after(1))
        flow = moved(asked.time, asked.key, [*asked.value, *found.value])
        if self.how == "left":
            flow.value = [*asked.value, *maybe_columns(self.sides[1].type, found.value, there, self.texts)]
        else:
            flow = flow.at(there)
        return in_order(flow, self.keys, self.node.type, self.texts)


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
        (flow,) = flows
        late = self.behind_clock(flow)
        self.note(self.too_late(flow, late))
        if len(late):
            kept = np.ones(len(flow), np.bool_)
            kept[late.which] = False
            flow = flow.at(kept)
        try:
            like = self.like(flow.value)
        except StepError as error:
            raise _moved(error, self.push(flow, error.position)) from error.__cause__
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


STEPS: dict[str, Callable[[Run, Timed], Step]] = {
    "at": At, "tumbling": Fixed, "sliding": Fixed, "session": Session, "join": Join, "as_of": AsOfStep,
    "lookup": AsOfStep, "dedup": DedupStep, "late": LateStep,
    "early": EarlyStep,
}  # fmt: skip


def step_of(run: Run, stage: Timed) -> Step:
    """The step that runs a timed stage."""
    return known(STEPS, run.graph.nodes[stage.step].kind, "the engine of event time")(run, stage)
