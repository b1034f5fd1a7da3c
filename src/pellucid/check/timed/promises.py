"""The promises of event time, watched while a pipeline runs: what has come and what was emitted is kept beside it.

Each timed step is held to what it promises on its own, given the rows that came to it and how it judged them; so a
wrong answer is reported where it was made.  That rows within their lateness are never late, and that then the whole
pipeline answers as a batch of all rows would, is asked of the pipeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.timed.machine import PLAIN, At, Finish, Judged, Move, Rows, Seen, Silent, frozen
from pellucid.check.timed.meaning import MEANING, windows_of
from pellucid.errors import LateError, StepError
from pellucid.internal.engine.timed.clock import BEGINNING, END, _before, feeders
from pellucid.internal.engine.timed.literal import Item, Literal, Row
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import Windowed, shown_time
from pellucid.internal.model.sheet import event_text

SAYS = {
    "clock": "no clock ever goes back",
    "complete": "nothing is emitted for a time that was complete before",
    "once": "the answer of a window is emitted once",
    "prompt": "a window is emitted as soon as the clock says that it is complete",
    "accounted": "every event is in each of its windows' answers or came too late for it, never both",
    "batch": "promise 1: the answers are those of a batch of the rows that were accepted",
    "in time": "promise 2: within their lateness no rows are late, and the answers are those of a batch of all of them",
}
ALL = tuple(SAYS)
FIXED = ("tumbling", "sliding")


@dataclass
class Past:
    """What has come, and what was emitted: for each step the rows that came to it (input, keys, time, event, and in
    which windows it counts: None for all, () for one that came too late), the events of each window's last answer, and
    what was emitted; the rows and the outputs of the whole; and whether all came in time."""

    given: dict[str, list[tuple[int, Any, int, Any, Any]]] = field(default_factory=dict)
    answers: dict[str, dict[Any, tuple[Any, ...]]] = field(default_factory=dict)
    put: dict[str, list[tuple[Any, int, Any]]] = field(default_factory=dict)
    rows: list[tuple[str, Any]] = field(default_factory=list)
    out: dict[str, list[Any]] = field(default_factory=dict)
    in_time: bool = True
    idle: frozenset[str] = frozenset()  # the steps `at` that are declared idle, and have had no event since
    clock: dict[str, int] = field(default_factory=dict)  # of what each window reads, worked out from what came

    def copy(self) -> Past:
        """One that can be written on."""
        return Past(
            {k: list(v) for k, v in self.given.items()},
            {k: dict(v) for k, v in self.answers.items()},
            {k: list(v) for k, v in self.put.items()},
            list(self.rows),
            {k: list(v) for k, v in self.out.items()},
            self.in_time,
            self.idle,
            dict(self.clock),
        )

    def key(self) -> Any:
        """As a value: in which order things came does not matter."""
        parts = (self.given, self.answers, self.put, self.rows, self.out)
        return *(frozen(part, False) for part in parts), self.in_time, self.idle, frozenset(self.clock.items())


class Promises:
    """What is watched of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = {n.id: n for n in graph.nodes if n.processor.timed and n.kind not in PLAIN}
        self.unstated = [n for n in self.steps.values() if n.kind not in MEANING]
        self.outputs = _lasting(graph)
        before = _before(graph)
        self._feeders = feeders(graph)
        self._windows = {
            step: tuple(graph.nodes[at].id for at in before[node.inputs[0]])
            for step, node in self.steps.items()
            if node.sub is not None
        }
        self._batch: dict[Any, dict[str, Counter[Any]] | None] = {}

    def after(self, past: Past, move: Move, seen: Seen, then: At) -> tuple[Past, list[tuple[str, str]]]:
        """What is remembered after a move, and which promises it broke: their names, and in words how."""
        now, broken = past.copy(), []
        if isinstance(move, Rows):
            now.rows += move.rows
        for where, before, after in seen.clocks:
            if after < before:
                clock = next(t for t in self.graph.clocks if t is not None)
                words = f"{shown_time(clock, before)} to {shown_time(clock, after)}"
                broken.append(("clock", f"the clock of {where} goes back from {words}"))
        for step, judged in seen.steps.items():
            broken += self._judge(now, self.steps[step], judged)
        if seen.failed is None:
            broken += self._prompt(now, move, seen, then)
        for name in self.outputs:
            now.out.setdefault(name, []).extend(map(_value, seen.outputs.get(name, ())))
        if seen.behind or isinstance(move, Silent):
            now.in_time = False
        if now.in_time:
            broken += self._in_time(now, seen)
        if seen.failed is None and isinstance(move, Finish):
            for step, node in self.steps.items():
                broken += self._accounted(now, node, step)
                broken += self._as_a_batch(now, node, step)
            if now.in_time:
                broken += self._as_all_rows(now)
        return now, broken

    # ------------------------------------------------------------ one step, in one batch

    def _judge(self, now: Past, node: Node, judged: Judged) -> Iterator[tuple[str, str]]:
        allowed = node.timing.allowed if node.timing is not None else 0
        late = Counter((number, _row(item)) for number, item, _, _ in judged.late)
        missed = {_row(item): (start, end) for _, item, start, end in judged.late}
        given = now.given.setdefault(node.id, [])
        for number, item in judged.came:
            counts: Any = None
            if late[number, _row(item)]:
                late[number, _row(item)] -= 1
                counts = ()
                start, end = missed[_row(item)]
                if node.kind in FIXED and start is not None and end is not None:
                    counts = tuple(w for w in windows_of(node, item.at) if not (start <= w[0] and w[1] <= end))
            given.append((number, item.keys, item.at, item.value, counts))
        answers, put = now.answers.setdefault(node.id, {}), now.put.setdefault(node.id, [])
        for keys, start, end, events in judged.answers:
            answers[keys, start, end] = events
        for item in judged.put:
            if item.time is not None and item.at < judged.clock and not allowed:
                clock = self._clock(node)
                yield (
                    "complete",
                    f"{node.id} emits {event_text(item.value)} for {shown_time(clock, item.at)}, and the clock was "
                    f"at {_clock_text(clock, judged.clock)} before",
                )
            if isinstance(item.value, Windowed) and node.sub is not None:
                same = [p for p in put if p[0] == item.keys and _edges(p[2]) == _edges(item.value)]
                if same and not allowed:
                    yield "once", f"{node.id} puts the window from {item.value.start} to {item.value.end} out again"
                for before in same:
                    put.remove(before)  # of one that is corrected the last counts
                if same and not allowed:
                    put += same
            put.append((item.keys, item.at, item.value))

    def _clock(self, node: Node) -> Any:
        return self.graph.clocks[node.inputs[0]]

    # ------------------------------------------------------------ the clock, computed again

    def _prompt(self, now: Past, move: Move, seen: Seen, then: At) -> Iterator[tuple[str, str]]:
        """The clock of what each window reads, from what came alone; what it completes must be out."""
        if isinstance(move, Silent):
            now.idle |= {at for at, by in self._feeders.items() if move.source in by}
        now.idle -= {at for at, times in seen.times.items() if times}
        for step, ats in self._windows.items():
            clock = _clock_of(self.graph, ats, then, now.idle, self._feeders)
            now.clock[step] = clock = max(clock, now.clock.get(step, BEGINNING))
            for keys, edges in self._complete(now, step, clock):
                if (keys, *edges) not in now.answers.get(step, {}):
                    t = self._clock(self.steps[step])
                    window = f"the window from {shown_time(t, edges[0])} to {shown_time(t, edges[1])}"
                    yield "prompt", f"{step}: the clock is at {_clock_text(t, clock)}, and {window} is not out"
                    break

    def _complete(self, now: Past, step: str, clock: int) -> Iterator[tuple[Any, tuple[int, int]]]:
        """The windows with accepted events that are complete at a time."""
        node = self.steps[step]
        assert node.timing is not None
        taken: dict[Any, list[int]] = {}
        for _, keys, time, _, counts in now.given.get(step, []):
            if node.kind in FIXED:
                windows = windows_of(node, time) if counts is None else counts
                yield from ((keys, w) for w in windows if clock >= w[1])
            elif counts is None:
                taken.setdefault(keys, []).append(time)
        gap = node.timing.gap or 0
        for keys, times in taken.items():
            ordered = sorted(times)
            first = ordered[0]
            for time, following in zip(ordered, [*ordered[1:], None], strict=True):
                if following is None or following - time > gap:
                    if clock > time + gap:
                        yield keys, (first, time + gap + 1)
                    first = following if following is not None else first

    # ------------------------------------------------------------ at the end

    def _accounted(self, now: Past, node: Node, step: str) -> Iterator[tuple[str, str]]:
        """Each event and window: in the window's answer, or reported late for it, and not both."""
        if node.sub is None:
            return
        found: Counter[Any] = Counter()
        for (keys, start, end), events in now.answers.get(step, {}).items():
            edges = (start, end) if node.kind in FIXED else ()
            found.update((keys, edges, time, frozen(value)) for time, value in events)
        wanted: Counter[Any] = Counter()
        shown: dict[Any, tuple[int, Any, bool]] = {}
        for _, keys, time, value, counts in now.given.get(step, []):
            windows = windows_of(node, time) if node.kind in FIXED else [()]
            for edges in windows:
                pair = (keys, edges, time, frozen(value))
                late = counts is not None and edges not in counts
                wanted[pair] += not late
                shown[pair] = time, value, late
        clock = self._clock(node)
        for pair in dict.fromkeys((*wanted, *found)):
            if wanted[pair] == found[pair]:
                continue
            time, value, late = shown.get(pair, (pair[2], pair[3], False))
            window = f" of the window from {shown_time(clock, pair[1][0])}" if pair[1] else ""
            event = f"{event_text(value)} of {shown_time(clock, time)}"
            if found[pair] < wanted[pair]:
                yield "accounted", f"{step}: {event} is in no answer{window}, and was not said to be late"
            elif late:
                yield "accounted", f"{step}: {event} was said to be late, and is in the answer{window} all the same"
            else:
                yield "accounted", f"{step}: {event} is in the answers{window} {found[pair]} times"
            return

    def _as_a_batch(self, now: Past, node: Node, step: str) -> Iterator[tuple[str, str]]:
        if node.kind not in MEANING:
            return
        rows: list[list[Any]] = [[] for _ in node.inputs]
        for number, keys, time, value, counts in now.given.get(step, []):
            if counts != () or node.kind in FIXED:
                rows[number].append((keys, time, value, counts))
        try:
            wanted = Counter(_answer(a) for a in MEANING[node.kind](self.graph, node, rows))
        except StepError:
            return
        found = Counter(_answer(a) for a in now.put.get(step, []))
        if wanted != found:
            yield "batch", f"{step}: {_apart(found, wanted)}"

    # ------------------------------------------------------------ all rows in time

    def _in_time(self, now: Past, seen: Seen) -> Iterator[tuple[str, str]]:
        if isinstance(seen.failed, LateError):
            yield "in time", f"{seen.failed.step} fails on an event that came within its lateness"
        for step, judged in seen.steps.items():
            for _, item, _, _ in judged.late[:1]:
                if seen.failed is None:
                    yield "in time", f"{step}: {event_text(item.value)} came within its lateness, and is late"

    def _as_all_rows(self, now: Past) -> Iterator[tuple[str, str]]:
        key = frozen(now.rows, False)
        if key not in self._batch:
            self._batch[key] = batch_of(self.graph, now.rows, self.outputs) if not self.unstated else None
        wanted = self._batch[key]
        for name, values in now.out.items() if wanted is not None else ():
            found = Counter(values)
            if wanted is not None and found != wanted[name]:
                yield "in time", f"{name}: {_apart(found, wanted[name])}"


def batch_of(graph: Graph, rows: list[tuple[str, Any]], outputs: tuple[str, ...]) -> dict[str, Counter[Any]] | None:
    """What each output has in the end, where all rows are known: by the meaning of each step; None where one fails."""
    run = _AllRows(graph)
    ats = [node.id for node in graph.nodes if node.kind == "at"]
    ordered = sorted(rows, key=lambda row: (row[0], repr(frozen(row[1]))))
    try:
        found = run.batch([Row(source, event) for source, event in ordered], ats)
    except StepError:
        return None
    return {name: Counter(_value(item.value) for item in found[name]) for name in outputs}


class _AllRows(Literal):
    """The steps between timed ones as the literal engine does them, the timed ones as they mean."""

    def _timed(self, stage: Timed, streams: list[list[Item]]) -> list[Item]:
        node = self.graph.nodes[stage.step]
        if node.kind not in MEANING:
            return super()._timed(stage, streams)
        rows = [[(item.keys, item.at, item.value, None) for item in streams[j]] for j in stage.inputs]
        for place, (keys, time, value) in enumerate(MEANING[node.kind](self.graph, node, rows)):
            # What a task emits on one event, or on one notification, stays in its own order.
            self._put(keys, time, value, place if node.kind == "timers" else 0)
        return self._in_order(node)


def _clock_of(
    graph: Graph, ats: tuple[str, ...], then: At, idle: frozenset[str], by: Mapping[str, tuple[str, ...]]
) -> int:
    """The rule: the least of the greatest times seen, less their lateness, of those that are active; if none is, the
    end of time if all have ended, else the greatest."""
    over = {at for at in ats if then.over or then.ended.issuperset(by[at])}
    marks = {}
    for at in ats:
        timing = graph[at].timing
        assert timing is not None
        marks[at] = then.greatest[at] - timing.lateness if at in then.greatest else BEGINNING
    active = [marks[at] for at in ats if at not in over and at not in idle]
    if active:
        return min(active)
    return END if over == set(ats) else max(marks.values())


def _lasting(graph: Graph) -> tuple[str, ...]:
    """The outputs that the promises speak of: not what comes of late events, or of answers so far."""
    other: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if node.kind in ("late", "early") or other & set(node.inputs):
            other.add(i)
    return tuple(name for name, i in graph.outputs if i not in other)


def _row(item: Item) -> Any:
    return frozen(item.keys), item.at, frozen(item.value)


def _value(value: Any) -> Any:
    return frozen(value), event_text(value)


def _edges(value: Windowed[Any, Any]) -> tuple[Any, Any]:
    return value.start, value.end


def _answer(answer: tuple[Any, int, Any]) -> Any:
    keys, time, value = answer
    return frozen(keys), time, frozen(value), event_text(value)


def _apart(found: Counter[Any], wanted: Counter[Any]) -> str:
    """Two sets of answers that should be the same, in words."""

    def shown(some: Counter[Any]) -> str:
        texts = sorted(a[-1] if isinstance(a, tuple) and isinstance(a[-1], str) else str(a) for a in some.elements())
        return ", ".join(texts[:3]) + (", …" if len(texts) > 3 else "")

    more, less = found - wanted, wanted - found
    if more and less:
        return f"it emits {shown(more)}, and a batch of the same rows {shown(less)}"
    if more:
        return f"it emits {shown(more)}, which a batch of the same rows does not have"
    return f"it does not emit {shown(less)}, which a batch of the same rows has"


def _clock_text(clock: Any, units: int) -> str:
    return "the end" if units >= END else shown_time(clock, units)
