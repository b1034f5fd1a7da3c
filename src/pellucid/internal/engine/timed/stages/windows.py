"""Windows by event time over columns: fixed ones, and sessions."""

from __future__ import annotations

import numpy as np

from pellucid.internal.engine.timed.calendar import day_start, windows_of
from pellucid.internal.engine.timed.columns.held.sessions import RunningSessions
from pellucid.internal.engine.timed.columns.held.windows import HeldWindows
from pellucid.internal.engine.timed.columns.inner import Inner
from pellucid.internal.engine.timed.columns.rows import LEAST, MOST
from pellucid.internal.engine.timed.columns.sessions import Sessions
from pellucid.internal.engine.timed.columns.spans import Days, Spans
from pellucid.internal.engine.timed.columns.windows import Answers, FixedWindows, WindowFailed
from pellucid.internal.engine.timed.flows import Flow, moved
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.stages.step import Run, Step, before
from pellucid.internal.engine.timed.words import no_such_time, sub_failed
from pellucid.internal.expr.types.times import DAY


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
