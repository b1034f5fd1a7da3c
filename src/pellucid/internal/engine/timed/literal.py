"""The literal meaning of pipelines by event time: slow, obvious, and the oracle for every other engine.

One function per timed kind, with its rule in words; the ordinary steps between them are done by the literal
interpreter.  What a batch is, in which order its events come to a step, and how events get their times is in
`engine.timed.plan`; *C* is the clock of the stream that a step reads (`engine.timed.clock`), as it
was when the batch began where events are judged, and as it has moved to where answers are emitted.

>>> from pellucid import pipeline
>>> def counts(x):
...     return x.at(lambda v: v, lateness=2).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
>>> run = Literal(pipeline(counts, x=int).graph)
>>> [item.value for item in run.batch([Row("x", 9), Row("x", 11), Row("x", 8)])["out"]]  # 8 and 9 may still be joined
[]
>>> [item.value for item in run.batch([Row("x", 7), Row("x", 12)])["out"]]
[Windowed(start=0, end=10, value=3)]
>>> [item.value for item in run.finish()["out"]]
[Windowed(start=10, end=20, value=2)]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

from pellucid.errors import DataError, StateError, StepError, known
from pellucid.internal.engine.interpreter import Interpreter, call
from pellucid.internal.engine.timed.clock import (
    Clocks,
    body_failed,
    late_error,
    never_done,
    no_such_time,
    no_time,
    not_ahead,
    ranking,
    sub_failed,
    too_many_rounds,
    windows_of,
)
from pellucid.internal.engine.timed.plan import MOVED, Segment, Timed, plan_of
from pellucid.internal.expr.types import TupleType, Type, conform
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timed import AGAIN, IN, MOST_ALONE, MOST_EVENTS, OUT, pair_form
from pellucid.internal.graph.timing import Late, Windowed, in_range, missing, value_of


@dataclass(frozen=True)
class Row:
    """An event for a source; the key that comes with the data, if the pipeline runs per key; for messages, the number
    of its push."""

    source: str
    event: Any
    key: Any = None
    push: int = 0


@dataclass(frozen=True)
class Item:
    """An event in a stream: the row that it came with (`MOVED`: it came because the clock moved), its time, the key
    that came with the data and that of `key_by`, and itself; for messages, the push."""

    stamp: int
    time: int | None
    outer: Any
    key: Any
    value: Any
    push: int = 0

    @property
    def at(self) -> int:
        """The time of an event that has one."""
        assert self.time is not None
        return self.time

    @property
    def keys(self) -> tuple[Any, Any]:
        """Both keys: what a timed step keeps apart."""
        return self.outer, self.key


class Literal:
    """Runs a graph batch by batch.  ``outer`` is the type of a key that comes with the data.

    ``late`` counts the events that came too late, for each timed step that has seen one.
    """

    def __init__(self, graph: Graph, outer: Type | None = None) -> None:
        self.graph, self.outer, self.plan, self.clocks = graph, outer, plan_of(graph), Clocks(graph)
        self.late: dict[str, int] = {}
        self.state: dict[int, Any] = {}
        self._ordinary: dict[Any, Interpreter] = {}  # for each outer key
        self._late_now: dict[int, list[Item]] = {}
        self._early_now: dict[int, list[Item]] = {}
        self._moved: list[tuple[int, Item]] = []  # what the clock has completed, and of which side of a join it is
        self._ended = False
        self._push = 0
        self._bodies: dict[Any, _Body] = {}  # of loops, by step and keys

    # ------------------------------------------------------------ batches

    def batch(self, rows: Iterable[Row], ends: Iterable[str] = ()) -> dict[str, list[Item]]:
        """A batch of rows: what it emits, for each output.  With it the input of the steps `at` that are named
        ends."""
        self.clocks.end(self.graph.position[step] for step in ends)
        streams: list[list[Item]] = [[] for _ in self.graph.nodes]
        for stamp, row in enumerate(rows):
            node = self.graph[row.source]
            try:
                event = conform(node.type, row.event)
            except ValueError as error:
                raise DataError(f"source {node.id!r}, push {row.push:,}: {error}") from None
            streams[self.graph.position[node.id]].append(Item(stamp, None, row.key, None, event, row.push))
            self._push = row.push
        return self._through(streams)

    def finish(self) -> dict[str, list[Item]]:
        """The end of the input, at which every time is complete: what that emits."""
        self.clocks.end()
        self._ended = True
        return self._through([[] for _ in self.graph.nodes])

    def idle(self, source: str) -> None:
        """Nothing has come from a source for long: from the next batch on it holds no clock back."""
        for at in fed_by(self.graph, source):
            self.clocks.idle(at)

    def _through(self, streams: list[list[Item]]) -> dict[str, list[Item]]:
        if self._ended and any(streams):
            raise StateError("an event came after the end of the input")
        self._late_now, self._early_now = {}, {}
        for stage in self.plan.stages:
            if isinstance(stage, Segment):
                self._segment(stage, streams)
            else:
                streams[stage.step] = self._timed(stage, streams)
        self.clocks.settle()
        return {name: streams[i] for name, i in self.graph.outputs}

    def _segment(self, segment: Segment, streams: list[list[Item]]) -> None:
        """Each event is a push of its own; what it emits has its stamp and its time."""
        came = [(i.stamp, c.stream, n, i) for c in segment.inputs for n, i in enumerate(streams[c.stream])]
        for _, stream, _, item in sorted(came, key=lambda c: c[:3]):
            if item.outer not in self._ordinary:
                self._ordinary[item.outer] = Interpreter(self.graph, ordinary=True)
            run = self._ordinary[item.outer]
            run.pushed = item.push
            events: dict[int, list[tuple[Any, Any]]] = {stream: [(item.key, item.value)]}
            for i in segment.steps:
                node = self.graph.nodes[i]
                events[i] = run.step(node, [events.get(j, []) for j in node.inputs])
                streams[i] += [replace(item, key=key, value=value) for key, value in events[i]]
            run.give_up()

    def _timed(self, stage: Timed, streams: list[list[Item]]) -> list[Item]:
        """What a timed step emits: first what comes with rows, then what the clock has completed, in order."""
        node = self.graph.nodes[stage.step]
        came = [
            (item.stamp, j, number, n, item)
            for number, j in enumerate(stage.inputs)
            for n, item in enumerate(streams[j])
        ]
        events = [(number, item) for _, _, number, _, item in sorted(came, key=lambda c: c[:4])]
        self._moved = []
        with_rows = known(self.STEPS, node.kind, "the literal engine of event time")(self, stage, node, events)
        return with_rows + self._in_order(node)

    def _in_order(self, node: Node) -> list[Item]:
        """What a step has emitted because the clock moved, in order."""
        outer, key = ranking(self.outer), ranking(node.key)
        rank = ranking(node.type)  # a window's answer begins with its start
        moved = sorted(self._moved, key=lambda m: (m[1].at, outer(m[1].outer), key(m[1].key), m[0], rank(m[1].value)))
        self._moved = []
        return [item for _, item in moved]

    def _so_far(self, stage: Timed, node: Node, windows: list[tuple[Any, int, int, list[Any]]]) -> None:
        """Running answers of windows: they go to `early`, in the order in which answers come, and have no time."""
        answers, self._moved = self._moved, []
        for window in windows:
            self._answer(node, *window)
        self._early_now[stage.step] = [replace(item, time=None) for item in self._in_order(node)]
        self._moved = answers

    # ------------------------------------------------------------ what the timed steps share

    def _now(self, stage: Timed, number: int = 0) -> int:
        """The clock by which events of an input are judged."""
        return self.clocks.now(stage.inputs[number], stage.step)

    def _after(self, stage: Timed, number: int = 0) -> int:
        """The clock of an input as it has moved to."""
        return self.clocks.after(stage.inputs[number], stage.step)

    def _too_late(
        self, stage: Timed, item: Item, number: int = 0, start: int | None = None, end: int | None = None
    ) -> None:
        """An event came too late: it is counted, and goes to `late`, or is dropped because that was said, or ends the
        run."""
        node = self.graph.nodes[stage.step]
        clock, now = self._type(node), self._now(stage, number)
        assert node.timing is not None
        self.late[node.id] = self.late.get(node.id, 0) + 1
        if stage.late_taken:
            value = item.value
            if len(node.inputs) == 2:
                other = missing(self.graph.nodes[node.inputs[1 - number]].type)
                value = (value, other) if number == 0 else (other, value)
            edges = [None if edge is None else value_of(clock, edge) for edge in (start, end)]
            late = Late(value, value_of(clock, item.at), value_of(clock, now), *edges)
            self._late_now.setdefault(stage.step, []).append(replace(item, time=None, value=late))
        elif node.timing.late == "fail":
            raise late_error(node, clock, item.value, item.at, now, item.push, start, end)

    def _put(self, keys: tuple[Any, Any], time: int, value: Any, side: int = 0) -> None:
        """An answer that is out because the clock moved."""
        self._moved.append((side, Item(MOVED, time, *keys, value, self._push)))

    def _type(self, node: Node) -> Type:
        """The type of the times of what a timed step reads."""
        clock = self.graph.clocks[node.inputs[0]]
        assert clock is not None
        return clock

    def _answer(self, node: Node, keys: tuple[Any, Any], start: int, end: int, events: list[Any]) -> None:
        """The answer of a window: the sub-pipeline sees its events by time, and where times are equal by the whole
        event; the last that it emits is the value, and its time the last one of the window."""
        assert node.sub is not None
        clock, rank = self._type(node), ranking(self.graph.nodes[node.inputs[0]].type)
        inner, last = Interpreter(node.sub), []
        for value in [e[1] for e in sorted(events, key=lambda e: (e[0], rank(e[1])))]:
            try:
                last += inner.push({"in": value})["out"]
            except StepError as error:
                raise sub_failed(node, clock, start, end, error, self._push) from error.__cause__
        if last:
            self._put(keys, end - 1, Windowed(value_of(clock, start), value_of(clock, end), last[-1]))

    # ------------------------------------------------------------ the timed kinds

    def step_at(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """Each event has the time that the function gives; the greatest one seen moves the clock."""
        assert node.fn is not None
        clock, out = self.graph.clocks[stage.step], []
        assert clock is not None
        for _, item in events:
            time = call(node, node.fn, (item.value,), item.push)
            if time is None:
                raise no_time(node, item.value, item.push)
            (units,) = clock.flatten(time)
            self.clocks.saw(stage.step, units)
            out.append(replace(item, time=units))
        return out

    def step_fixed(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """Fixed windows [start, end).  Closed iff C ≥ end; emitted once, when closed, if not empty.  An event counts in
        each of its windows that is open; if some are closed, it is late once, with the windows that it missed.

        With an allowed lateness an event counts in a window as long as C < end + allowed; if the window was closed
        already, its answer is emitted again at the end of the batch.  Early: at the end of a batch at which running
        answers are due, those of the open windows that have got an event since the last ones."""
        assert node.timing is not None
        allowed, now, after = node.timing.allowed, self._now(stage), self._after(stage)
        kept, unshown = self.state.setdefault(stage.step, ({}, set()))  # (keys, start, end): events
        fresh = set()
        for _, item in events:
            try:
                windows = windows_of(node.timing, item.at)
            except OverflowError:
                windows = []
            if not windows or not all(in_range(self._type(node), edge) for window in windows for edge in window):
                raise no_such_time(node, item.value, item.at, self._type(node), item.push)
            missed = [w for w in windows if now >= w[1] + allowed]
            for start, end in windows:
                if (start, end) not in missed:
                    kept.setdefault((item.keys, start, end), []).append((item.at, item.value))
                    fresh.add((item.keys, start, end))
            if missed:
                self._too_late(stage, item, 0, missed[0][0], missed[-1][1])
        for window in [w for w in kept if after >= w[2]]:
            keys, start, end = window
            if now < end or window in fresh:
                self._answer(node, keys, start, end, kept[window])
            if after >= end + allowed:
                del kept[window]
        if node.timing.early is not None:
            unshown |= fresh
        if node.timing.tells(now, after):
            self._so_far(stage, node, [(*w, events) for w, events in kept.items() if w in unshown and after < w[2]])
            unshown.clear()
        return []

    def step_session(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """Sessions, per key: events at distance ≤ gap are together.  Closed iff C > last + gap, strictly; emitted with
        start = first, end = last + gap + 1.  An event with t ≥ C is never late; one with t < C is taken only inside an
        open session of its key (first ≤ t ≤ last + gap), else late.  Early: as of fixed windows."""
        assert node.timing is not None and node.timing.gap is not None
        gap = node.timing.gap
        kept = self.state.setdefault(
            stage.step, {}
        )  # keys: sessions, each a list of events, and whether a running answer had them
        for _, item in events:
            t, mine = item.at, kept.setdefault(item.keys, [])
            if not in_range(self._type(node), t + gap + 1):
                raise no_such_time(node, item.value, t, self._type(node), item.push)
            if t < self._now(stage) and not any(_first(s) <= t <= _last(s) + gap for s in mine):
                self._too_late(stage, item, 0, t, t + gap + 1)
                continue
            near = [s for s in mine if _first(s) - gap <= t <= _last(s) + gap]
            joined = [event for session in near for event in session] + [(t, item.value, False)]
            kept[item.keys] = [s for s in mine if not any(s is n for n in near)] + [joined]
        for keys, sessions in list(kept.items()):
            for session in sessions:
                if self._after(stage) > _last(session) + gap:
                    self._answer(node, keys, _first(session), _last(session) + gap + 1, session)
            kept[keys] = [s for s in sessions if self._after(stage) <= _last(s) + gap]
            if not kept[keys]:
                del kept[keys]
        if node.timing.tells(self._now(stage), self._after(stage)):
            open_ = [(keys, s) for keys, sessions in kept.items() for s in sessions]
            unshown = [(keys, s) for keys, s in open_ if not all(shown for _, _, shown in s)]
            self._so_far(stage, node, [(keys, _first(s), _last(s) + gap + 1, s) for keys, s in unshown])
            for _, s in unshown:
                s[:] = [(t, value, True) for t, value, _ in s]
        return []

    def step_join(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """Interval join: lo ≤ b.t - a.t ≤ hi, same key.  A pair comes when its second event does.  a is given up iff
        the clock of b > a.t + hi, strictly, and b iff the clock of a > b.t - lo; rows of left and full joins that have
        found no partner come exactly then, with the last time at which they could have found one, but never one before
        their own: what follows may have passed that.  Late is t < the clock by which the other side's rows were given
        up: its own.
        """
        timing = node.timing
        assert timing is not None and timing.low is not None and timing.high is not None
        sides: list[list[_Waiting]] = self.state.setdefault(stage.step, [[], []])
        ranks = [ranking(self.graph.nodes[i].type) for i in node.inputs]
        out = []
        for number, item in events:
            if item.at < self._now(stage, number):
                self._too_late(stage, item, number)
                continue
            mine, other = _Waiting(item), 1 - number
            rank = ranks[other]
            found = []
            for partner in sides[other]:
                a, b = (mine.item, partner.item) if number == 0 else (partner.item, mine.item)
                if partner.item.keys == item.keys and timing.low <= b.at - a.at <= timing.high:
                    found.append(partner)
            for partner in sorted(found, key=lambda p: (p.item.at, rank(p.item.value))):
                mine.found = partner.found = True
                a, b = (mine.item, partner.item) if number == 0 else (partner.item, mine.item)
                out.append(replace(item, time=max(a.at, b.at), value=(a.value, b.value)))
            sides[number].append(mine)
        assert isinstance(node.type, TupleType)
        for number, late_by, alone in ((0, timing.high, ("left", "full")), (1, -timing.low, ("full",))):
            over = self._after(stage, 1 - number)
            for waiting in sides[number]:
                last = waiting.item.at + late_by
                if over > last and not waiting.found and timing.how in alone:
                    time = max(last, waiting.item.at)
                    if not in_range(self._type(node), time):
                        item = waiting.item
                        raise no_such_time(node, item.value, item.at, self._type(node), item.push)
                    nothing = missing(node.type.items[1 - number])
                    value = waiting.item.value
                    self._put(waiting.item.keys, time, (value, nothing) if number == 0 else (nothing, value), number)
            sides[number] = [w for w in sides[number] if over <= w.item.at + late_by]
        return out

    def step_as_of(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """As-of: the latest b not after a (≤), at most `within` old (≤); answered when the clock of b > a.t; of equal
        times the greatest in canonical order.  (Lookup in a table that changes: the same without `within`.)  Late is
        t < the clock of its own stream."""
        assert node.timing is not None and isinstance(node.type, TupleType)
        waiting, changes = self.state.setdefault(stage.step, ([], []))
        for number, item in events:
            if item.at < self._now(stage, number):
                self._too_late(stage, item, number)
            else:
                (waiting, changes)[number].append(item)
        rank = ranking(self.graph.nodes[node.inputs[1]].type)
        changes.sort(key=lambda b: (b.at, rank(b.value)))
        for a in [a for a in waiting if self._after(stage, 1) > a.at]:
            before = [b for b in changes if b.keys == a.keys and b.at <= a.at]
            within = node.timing.within
            if before and (within is None or a.at - before[-1].at <= within):
                self._put(a.keys, a.at, (a.value, before[-1].value))
            elif node.timing.how == "left":
                self._put(a.keys, a.at, (a.value, missing(node.type.items[1])))
        # An event that is still to be answered has a time that is not before both clocks: of the changes up to there
        # only the last of each key can be its partner.
        over = min(self._after(stage, 0), self._after(stage, 1))
        last = {b.keys: b for b in changes if b.at <= over}
        changes[:] = [b for b in changes if b.at > over or last[b.keys] is b]
        waiting[:] = [a for a in waiting if self._after(stage, 1) <= a.at]
        return []

    def step_dedup(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """Dedup keeps the first in event time: kept iff no kept row of its key is ≤ within earlier; emitted when C > t;
        forgotten when C > t + within.  Late is t < C."""
        assert node.timing is not None and node.timing.within is not None and node.fn is not None
        within = node.timing.within
        waiting, kept = self.state.setdefault(stage.step, ([], {}))  # kept: the time of the last one kept
        for _, item in events:
            if item.at < self._now(stage):
                self._too_late(stage, item)
            else:
                waiting.append((item, call(node, node.fn, (item.value,), item.push)))
        rank = ranking(node.type)
        waiting.sort(key=lambda w: (w[0].at, rank(w[0].value)))
        for item, like in waiting:
            if self._after(stage) > item.at:
                before = kept.get((item.keys, like))
                if before is None or item.at - before > within:
                    kept[item.keys, like] = item.at
                    self._put(item.keys, item.at, item.value)
        waiting[:] = [w for w in waiting if self._after(stage) <= w[0].at]
        for key in [k for k, t in kept.items() if self._after(stage) > t + within]:
            del kept[key]
        return []

    def step_timers(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """The task that is notified of times, per key.  Its events come to it when C > t, by (time, then the whole
        event).  It is notified once of a time t that it has asked for, when C > t, behind the events of t and before
        all later ones.  On an event of t it may ask for times ≥ t, notified of t for times > t.  What it emits has the
        time t.  Late is t < C."""
        assert node.fn is not None and node.on_time is not None
        waiting, kept = self.state.setdefault(stage.step, ([], {}))
        for _, item in events:
            if item.at < self._now(stage):
                self._too_late(stage, item)
            else:
                waiting.append(item)
        over, clock = self._after(stage), self._type(node)
        outer, key, rank = ranking(self.outer), ranking(node.key), ranking(self.graph.nodes[node.inputs[0]].type)
        due: list[Any] = []  # what is complete, the first in front: events before the news of their time

        def add(time: int, keys: Any, event: Any = None) -> None:
            place = time, outer(keys[0]), key(keys[1])
            heappush(due, (*place, *((1, ()) if event is None else (0, rank(event.value))), next(number), keys, event))

        number = count()
        for item in [i for i in waiting if over > i.at]:
            add(item.at, item.keys, item)
        for keys, mine in kept.items():
            for time in [t for t in mine.times if over > t]:
                add(time, keys)
        waiting[:] = [i for i in waiting if over <= i.at]
        while due:
            time, *_, keys, event = heappop(due)
            mine = kept.setdefault(keys, _TaskState(copy.deepcopy(node.start)))
            named = [k for k, there in zip(keys, (self.outer, node.key), strict=True) if there is not None]
            if event is None:
                mine.times.discard(time)
                if mine.alone >= MOST_ALONE:
                    raise never_done(node, clock, named, time, self._push)
            fn, what = (node.fn, event.value) if event is not None else (node.on_time, value_of(clock, time))
            mine.alone = mine.alone + 1 if event is None else 0
            mine.state, put_out, asked = call(node, fn, (mine.state, what), self._push)
            for value in put_out:
                self._put(keys, time, value, len(self._moved))
            for (t,) in map(clock.flatten, asked):
                if t < time or (t == time and event is None):
                    raise not_ahead(node, clock, named, time, t, event is None, self._push)
                if t not in mine.times:
                    mine.times.add(t)
                    if over > t:
                        add(t, keys)
        return []

    def step_late(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """The events that came too late for the step that it reads, in the order in which they came."""
        return list(self._late_now.get(node.inputs[0], []))

    def step_early(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """The running answers of the windows that it reads."""
        return list(self._early_now.get(node.inputs[0], []))

    def step_iterate(self, stage: Timed, node: Node, events: list[tuple[int, Item]]) -> list[Item]:
        """A loop, for each key one of its own.  Without times the events of one row are round 0, as they come; with
        times all of one time, in canonical order, when C > t, time after time.  Late is t < C."""
        rank = ranking(self.graph.nodes[node.inputs[0]].type)
        outer, key = ranking(self.outer), ranking(node.key)
        if self.graph.clocks[stage.step] is None:
            out: list[Item] = []
            by_row: dict[int, dict[Any, list[Item]]] = {}
            for _, item in events:
                by_row.setdefault(item.stamp, {}).setdefault(item.keys, []).append(item)
            for rows in by_row.values():
                for keys in sorted(rows, key=lambda k: (outer(k[0]), key(k[1]))):
                    first = rows[keys][0]
                    left = self._rounds(stage, node, keys, [item.value for item in rows[keys]], None, first.push)
                    out += [replace(first, value=value) for value in left]
            return out
        waiting = self.state.setdefault(stage.step, [])
        for _, item in events:
            if item.at < self._now(stage):
                self._too_late(stage, item)
            else:
                waiting.append(item)
        due = [item for item in waiting if self._after(stage) > item.at]
        waiting[:] = [item for item in waiting if self._after(stage) <= item.at]
        for time in sorted({item.at for item in due}):
            now = [item for item in due if item.at == time]
            for keys in sorted({item.keys for item in now}, key=lambda k: (outer(k[0]), key(k[1]))):
                values = sorted((item.value for item in now if item.keys == keys), key=rank)
                for place, value in enumerate(self._rounds(stage, node, keys, values, time, self._push)):
                    self._put(keys, time, value, place)
        return []

    def _rounds(
        self, stage: Timed, node: Node, keys: tuple[Any, Any], going: list[Any], time: int | None, push: int
    ) -> list[Any]:
        """What leaves a loop that begins with these events: round after round what the body emits goes in again,
        until it emits nothing, or, where it does not say what leaves, what it took."""
        assert node.sub is not None and node.timing is not None
        clock, rank = self.graph.clocks[stage.step], ranking(self.graph.nodes[node.inputs[0]].type)
        body = self._bodies.setdefault((stage.step, keys), _Body(node.sub))
        left, rounds = [], 0
        while going and rounds != node.timing.rounds:
            if rounds == node.timing.limit or len(going) > MOST_EVENTS:
                raise too_many_rounds(node, clock, time, rounds, going, push)
            rounds += 1
            took = going
            try:
                going, out = body.round(took, push)
            except StepError as error:
                raise body_failed(node, clock, time, rounds, error, push) from error.__cause__
            left += out
            settled = node.timing.rounds is None and not pair_form(node.sub)
            if settled and sorted(map(rank, going)) == sorted(map(rank, took)):
                break
        return left if pair_form(node.sub) else going

    STEPS: ClassVar[dict[str, Callable[..., list[Item]]]] = {
        "iterate": step_iterate,
        "at": step_at, "tumbling": step_fixed, "sliding": step_fixed, "session": step_session, "join": step_join,
        "as_of": step_as_of, "lookup": step_as_of, "dedup": step_dedup, "timers": step_timers, "late": step_late,
        "early": step_early,
    }  # fmt: skip


class _Body:
    """The body of a loop: what it remembers stays, from round to round and from time to time."""

    def __init__(self, graph: Graph) -> None:
        self.run = Literal(graph) if graph.timed else Interpreter(graph)
        self.rounds = 0  # of all times

    def round(self, events: list[Any], push: int) -> tuple[list[Any], list[Any]]:
        """One round: what goes round, and what leaves the loop."""
        if isinstance(self.run, Literal):
            found = self.run.batch([Row(IN, (self.rounds, event), None, push) for event in events])
            self.rounds += 1
            return [item.value for item in found[AGAIN]], [item.value for item in found.get(OUT, [])]
        again, out = [], []
        for event in events:
            self.run.pushed = push
            put = self.run.push({IN: event})
            again += put[AGAIN]
            out += put.get(OUT, [])
        return again, out


@dataclass
class _Waiting:
    """A row of a join, and whether it has found a partner."""

    item: Item
    found: bool = False


@dataclass
class _TaskState:
    """What a task keeps of a key: its state, the times that it has asked for, and of how many it was notified since its
    last event."""

    state: Any
    times: set[int] = field(default_factory=set)
    alone: int = 0


def _first(session: Sequence[tuple[Any, ...]]) -> int:
    return min(int(event[0]) for event in session)


def _last(session: Sequence[tuple[Any, ...]]) -> int:
    return max(int(event[0]) for event in session)


def fed_by(graph: Graph, source: str) -> list[int]:
    """The steps `at` that the events of a source come to.

    >>> from pellucid import pipeline
    >>> fed_by(pipeline(lambda x, y: (x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int).graph, "y")
    [3]
    """
    reached = {graph.position[source]}
    found = []
    for i, node in enumerate(graph.nodes):
        if reached & set(node.inputs):
            if node.kind == "at":
                found.append(i)
            elif not node.processor.timed:
                reached.add(i)
    return found
