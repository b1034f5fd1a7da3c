"""The fast engine of event time: batches as columns through the stages of a plan.

It means what `engine.timed.literal` means.  Its state is plain columns, one table of texts for all of them,
and the states of the kernels of the ordinary steps.

>>> from pellucid import pipeline
>>> def counts(x):
...     return x.at(lambda v: v, lateness=2).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
>>> engine = TimedEngine(pipeline(counts, x=int).graph)
>>> engine.push([9, 11, 8]), engine.push([7, 12])
([], [Windowed(start=0, end=10, value=3)])
>>> engine.finish()
[Windowed(start=10, end=20, value=2)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import PellucidError, StateError, UsageError, known
from pellucid.internal.base import container
from pellucid.internal.base.container import Buffer
from pellucid.internal.data.bind import keeps_nan
from pellucid.internal.data.columns import Batch, Output, Strings
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.kernel.exchange import batch_given, cut, joined, shown
from pellucid.internal.engine.saved.form import BROKEN, DamagedState, pack_texts, unpack_texts
from pellucid.internal.engine.timed.clock import BEGINNING, ENDED, Clocks
from pellucid.internal.engine.timed.literal import fed_by
from pellucid.internal.engine.timed.loops import STEPS
from pellucid.internal.engine.timed.plan import MOVED, Segment, plan_of
from pellucid.internal.engine.timed.rows import Texts, inside, kind_of, leaves_of
from pellucid.internal.engine.timed.steps import Flow, Ordinary, Step, nothing
from pellucid.internal.expr.types import STR, Type
from pellucid.internal.graph.model import Graph, refuse_key

if TYPE_CHECKING:
    from pellucid.internal.engine.timed.why.answer import Progress

_MANY_TEXTS = 1 << 20


class TimedEngine:
    """A running pipeline by event time.  ``key`` is the type of a key that comes with the data, ``mode`` and ``nan``
    are as in `engine.kernel.engine.Engine`.

    ``late`` counts the events that came too late, for each timed step that has seen one.
    """

    def __init__(self, graph: Graph, *, key: Type | None = None, mode: str = "auto", nan: str = "fail") -> None:
        if mode not in ("auto", "numba", "python"):
            raise UsageError(f"mode must be 'auto', 'numba' or 'python', found {mode!r}")
        if key is not None:
            refuse_key(graph)
        self.graph, self.key, self.mode, self._nan = graph, key, mode, keeps_nan(nan)
        self.texts, self.clocks = Texts(), Clocks(graph)
        self.late: dict[str, int] = {}
        self.late_now: dict[int, Flow] = {}
        self.early_now: dict[int, Flow] = {}
        self.moving = self.early = True
        self.pushed = 0
        self._first = 0  # the number of the first push of this batch
        self._push = 0  # that of the last one that brought a row
        self._ended = False
        self._failed: str | None = None
        self._enough_texts = _MANY_TEXTS
        self._outer = leaves_of(key) if key is not None else ()
        self.stages: list[Ordinary | Step] = []
        for stage in plan_of(graph).stages:
            if isinstance(stage, Segment):
                self.stages.append(Ordinary(self, stage))
            else:
                make = known(STEPS, graph.nodes[stage.step].kind, "the engine of event time")
                self.stages.append(make(self, stage))

    @property
    def why_plain(self) -> str | None:
        """Why the pipeline is not compiled in all its parts, a line for each reason; None if it is."""
        lines = []
        for stage in self.stages:
            if stage.why_plain is not None:
                place = "" if isinstance(stage, Ordinary) else f"{stage.node.describe()}: "
                lines += [line if line.startswith("step ") else place + line for line in stage.why_plain.splitlines()]
        return "\n".join(lines) or None

    @property
    def clock(self) -> dict[str, int | None]:
        """How far event time has come, for each step that says what an event's time is: the watermark, None before its
        first event.

        >>> from pellucid import pipeline
        >>> engine = TimedEngine(pipeline(lambda x: x.at(lambda v: v, lateness=2, id="when"), x=int).graph)
        >>> engine.push([9])
        [9]
        >>> engine.clock
        {'when': 7}
        """
        marks = self.clocks.marks.items()
        return {self.graph.nodes[i].id: None if mark == BEGINNING else mark for i, mark in marks}

    @property
    def forgotten(self) -> dict[str, int]:
        """How many keys each ``forget`` has given up, by step."""
        ordinary = [stage for stage in self.stages if isinstance(stage, Ordinary)]
        return {step: count for stage in ordinary for step, count in stage.engine.forgotten.items()}

    @property
    def waiting(self) -> dict[str, int]:
        """How many rows each step keeps."""
        return {
            stage.node.id: len(stage.op) for stage in self.stages if isinstance(stage, Step) and stage.op is not None
        }

    def progress(self) -> Progress:
        """Why what waits here is not done: what holds it back, and by which way (see `Pipeline.progress`).

        >>> from pellucid import pipeline
        >>> p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w, id="tens"), x=int)
        >>> engine = TimedEngine(p.graph)
        >>> engine.push([3])
        []
        >>> [str(hold) for waits in engine.progress().waiting("tens") for hold in waits.holds]
        ['x by when → tens']
        """
        from pellucid.internal.engine.timed.why.answer import progress_of

        return progress_of(self.graph, [self])

    # ------------------------------------------------------------ data in, data out

    def push(self, *data: Any, **named: Any) -> Any:
        """Push a chunk of events for each source, which is one batch; returns what it emits, as `Engine.push`."""
        batch, arrays = batch_given(self.graph, self.key, self.pushed, self._nan, data, named)
        return shown(self.push_batch(batch), arrays)

    def finish(self) -> Any:
        """The end of the input, at which every time is complete: what that emits, as `push` gives it."""
        return shown(self.finish_batch(), False)

    def push_batch(self, batch: Batch, *, positions: bool = False) -> list[Output]:
        """Push columns, one batch: all its rows are judged by the clock at its beginning, which moves at its end.

        With ``positions`` the outputs have the push of each event, -1 where it came because the clock moved.
        """
        streams = self._given(batch)
        return self._through(streams, batch.count, positions)

    def take(self, batch: Batch, *, positions: bool = False) -> list[Output]:
        """Some rows of a batch that more may follow: judged as all of its rows are, by the clock at its beginning; no
        clock moves, so that nothing becomes complete.  What comes out is what comes with rows.

        Rows that are taken in several parts, and then `move`, emit what one `push_batch` of all of them does.

        >>> from pellucid import pipeline
        >>> from pellucid.internal.data.columns import Batch
        >>> p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w), x=int)
        >>> engine = TimedEngine(p.graph)
        >>> [out.events() for out in engine.take(Batch(2, [[[11, 3]]])) + engine.take(Batch(1, [[[4]]]))]
        [[], []]
        >>> engine.seen()
        {'when': 11}
        >>> [out.events() for out in engine.move()]
        [[Windowed(start=0, end=10, value=4)]]
        """
        streams = self._given(batch)
        self.moving = False
        try:
            return self._through(streams, batch.count, positions)
        finally:
            self.moving = True

    def seen(self) -> dict[str, int]:
        """The greatest time that each step `at` has seen since the clock moved last, by the step's id; a step that has
        seen none is not there.  Times are whole numbers here, in the smallest unit of their type."""
        return {self.graph.nodes[i].id: time for i, time in self.clocks.seen.items()}

    def move(self, marks: Mapping[str, int] | None = None, *, positions: bool = False) -> list[Output]:
        """The end of a batch whose rows were taken: the clock moves once, and what is complete comes out.

        ``marks`` are the greatest times that the steps `at` have seen elsewhere, as `seen` gives them there: an engine
        that has only some of a batch's rows moves as if it had seen them all.

        >>> from pellucid import pipeline
        >>> from pellucid.internal.data.columns import Batch
        >>> p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w), x=int)
        >>> engine = TimedEngine(p.graph)
        >>> [len(out) for out in engine.take(Batch(1, [[[4]]]))]
        [0]
        >>> [out.events() for out in engine.move({"when": 10})]
        [[Windowed(start=0, end=10, value=4)]]
        """
        self._ready()
        for step, time in (marks or {}).items():
            at = self.graph.position.get(step)
            if at is None or self.graph.nodes[at].kind != "at":
                names = ", ".join(self.graph.nodes[i].id for i in self.clocks.marks)
                raise UsageError(
                    f"{self.graph.name} has no step {step!r} that says what an event's time is: it has {names}"
                )
            self.clocks.saw(at, time)
        return self._through(self._nothing(), 0, positions)

    def _given(self, batch: Batch) -> list[Flow]:
        """The rows of a batch that was pushed."""
        if not isinstance(batch, Batch):
            raise UsageError(
                f"push_batch takes a Batch of columns, found {type(batch).__name__}: lists and arrays go to "
                "push, a table to the pipeline itself, as in p(table, key='user')"
            )
        self._ready()
        if self._ended and batch.count:
            raise StateError("an event came after the end of the input")
        return self._streams(batch)

    def finish_batch(self, *, positions: bool = False) -> list[Output]:
        """The end of the input: what that emits, as `push_batch` gives it."""
        self._ready()
        self.clocks.end()
        self._ended = True
        return self._through(self._nothing(), 0, positions)

    def idle(self, source: str) -> None:
        """Nothing has come from a source for long: it holds no clock back, until its next event."""
        names = [self.graph.nodes[i].id for i in self.graph.sources]
        if source not in names:
            raise UsageError(f"{self.graph.name} has no source {source!r}: it has {', '.join(names)}")
        steps = fed_by(self.graph, source)
        if not steps:
            raise UsageError(f"{self.graph.name}: the times of {source!r} are not given (at), so no clock waits for it")
        for at in steps:
            self.clocks.idle(at)

    def has_ended(self, source: str) -> bool:
        """Whether a source's input has come to its end, so that no row of it may come any more."""
        return self._ended or any(self.clocks.status[at] == ENDED for at in fed_by(self.graph, source))

    def _ready(self) -> None:
        if self._failed is not None:
            raise StateError(f"this engine was stopped {self._failed}: load a saved state, or make a new one")

    def _nothing(self) -> list[Flow]:
        """Streams without events."""
        out = []
        for i, node in enumerate(self.graph.nodes):
            own = leaves_of(node.key) if node.key is not None else ()
            out.append(nothing([*self._outer, *own], node.type, self.graph.clocks[i] is not None))
        return out

    def _streams(self, batch: Batch) -> list[Flow]:
        """The rows of a batch: push by push, in each source by source."""
        streams, several = self._nothing(), len(self.graph.sources)
        self._first = self.pushed
        for s, i in enumerate(self.graph.sources):
            mask: Any = batch.masks[s] if s < len(batch.masks) else None
            rows = None if mask is None else np.flatnonzero(np.asarray(mask, dtype=np.bool_))
            if batch.keys is None and self.key is not None:
                raise UsageError(f"{self.graph.name} runs per key here, but the batch has no key columns")
            keys = batch.keys[s] if batch.keys is not None and self.key is not None else []
            stamp = np.arange(batch.count) if rows is None else rows
            parts = []
            for kinds, columns in ((self._outer, keys), (leaves_of(self.graph.nodes[i].type), batch.columns[s])):
                arrays = [self._taken(t, c) for t, c in zip(kinds, columns, strict=True)]
                parts.append(arrays if rows is None or len(rows) == batch.count else [c[rows] for c in arrays])
            if len(stamp):
                self._push = max(self._push, self._first + int(stamp[-1]))
            streams[i] = Flow(stamp * several + s, None, *parts)
        return streams

    def _taken(self, t: Type, column: Any) -> Any:
        """A column that came, as an array of its own: it may be kept."""
        array = inside(t, column, self.texts)
        given = column.codes if isinstance(column, Strings) else column
        return array.copy() if isinstance(given, np.ndarray) and np.may_share_memory(array, given) else array

    def push_of(self, stamp: int) -> int:
        """The number of the push that a row came with; of what the clock has let out, the last one."""
        return self._push if stamp >= MOVED else self._first + stamp // len(self.graph.sources)

    def body(self, graph: Graph, key: Type | None) -> TimedEngine | Engine:
        """The engine of a loop's body, which is a pipeline like any other."""
        if graph.timed:
            return TimedEngine(graph, key=key, mode=self.mode, nan="keep")
        return Engine(graph, key=key, mode=self.mode, nan="keep")

    def _through(self, streams: list[Flow], count: int, positions: bool) -> list[Output]:
        self.late_now, self.early_now = {}, {}
        try:
            for stage in self.stages:
                stage.go(streams)
        except BaseException as error:  # also Ctrl-C: what was done of the batch cannot be undone
            at = error.position if hasattr(error, "position") else self._push
            self._failed = (
                f"at push {at:,}" if isinstance(error, PellucidError) else f"by {type(error).__name__} at push {at:,}"
            )
            raise
        if self.moving:
            self.clocks.settle()
        self.late_now, self.early_now = {}, {}
        outputs = [self._output(name, i, streams[i], positions) for name, i in self.graph.outputs]
        self.pushed += count
        if len(self.texts) > self._enough_texts:
            self._forget_texts()
        return outputs

    def _output(self, name: str, i: int, flow: Flow, positions: bool) -> Output:
        node = self.graph.nodes[i]
        if self.graph.readers(i):  # a step that reads it may keep the same arrays
            flow = Flow(flow.stamp, flow.time, [c.copy() for c in flow.key], [c.copy() for c in flow.value])
        columns = [self._shown(t, c) for t, c in zip(leaves_of(node.type), flow.value, strict=True)]
        key = self.key if self.key is not None else node.key
        keys = None
        if key is not None and flow.key:  # that of the data comes first, and is all there is of it
            keys = [self._shown(t, c) for t, c in zip(leaves_of(key), flow.key, strict=False)]
        at = None
        if positions:
            several = len(self.graph.sources)
            at = np.where(flow.stamp >= MOVED, -1, self._first + flow.stamp // several)
        return Output(name, node.type, columns, at, key if keys is not None else None, keys)

    def _shown(self, t: Type, column: Any) -> Any:
        return Strings(column, self.texts.values) if t == STR else column

    def _forget_texts(self) -> None:
        """Drop the texts that nothing mentions any more: memory follows the state, not the input."""
        steps = [stage for stage in self.stages if isinstance(stage, Step) and stage.op is not None]
        saved = [stage.op.saved() for stage in steps]
        used = np.zeros(len(self.texts), np.bool_)
        for stage, (_, groups) in zip(steps, saved, strict=True):
            for t, column in _columns(stage, groups):
                if t == STR:
                    used[column] = True
        codes = np.cumsum(used) - 1
        values = [self.texts.values[c] for c in np.flatnonzero(used).tolist()]
        self.texts.put(values)
        for stage, (words, groups) in zip(steps, saved, strict=True):
            types = stage.op.layout()
            stage.op.load(
                words,
                [
                    [codes[c] if t == STR else c for t, c in zip(kinds, columns, strict=True)]
                    for kinds, columns in zip(types, groups, strict=True)
                ],
            )
        self._enough_texts = max(_MANY_TEXTS, 2 * len(self.texts))

    # ------------------------------------------------------------ state

    def save(self) -> bytes:
        """The state as bytes, for this or another process.

        >>> from pellucid import pipeline
        >>> p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w), x=int)
        >>> first, second = TimedEngine(p.graph), TimedEngine(p.graph)
        >>> first.push([7])
        []
        >>> second.load(first.save())
        >>> second.push([11])
        [Windowed(start=0, end=10, value=7)]
        """
        if self._failed is not None:
            raise StateError("the state of an engine that stopped in the middle of a push is not saved")
        blocks: list[Any] = list(pack_texts(self.texts.values))
        about: list[Any] = []
        for stage in self.stages:
            if isinstance(stage, Ordinary):
                blocks.append(stage.engine.save())
            elif stage.op is not None:
                words, groups = stage.op.saved()
                about.append(words)
                blocks += [np.ascontiguousarray(column) for _, column in _columns(stage, groups)]
                blocks += [stage.engine.save()] if stage.engine is not None else []
        head = {
            "pipeline": self.graph.name, "digest": self.graph.digest, "key": str(self.key), "pushed": self.pushed,
            "push": self._push, "ended": self._ended, "late": self.late, "clocks": self.clocks.save(), "steps": about,
            "texts": self._enough_texts,  # so that it forgets them where it would have
        }  # fmt: skip
        return container.pack("times", head, [b.view(np.uint8) if isinstance(b, np.ndarray) else b for b in blocks])

    def load(self, data: Buffer) -> None:
        """Go on from a saved state; refused if it is damaged or of another pipeline."""
        if not container.is_one(data):
            raise StateError("this is no saved state of Pellucid: expected what save() returned")
        try:
            found = container.unpack(data, "times")
        except container.OtherVersion as error:
            raise StateError(container.refused("the saved state", error)) from None
        except container.Broken as error:
            raise DamagedState(error) from None
        head = found.head
        if head.get("digest") != self.graph.digest or head.get("key") != str(self.key):
            what = "another key" if head.get("digest") == self.graph.digest else "another pipeline, or another version"
            raise StateError(
                f"the saved state is of {what} of {head.get('pipeline')!r}, and this engine runs {self.graph.name!r}: "
                "load it into an engine of the pipeline that saved it, or start again"
            )
        try:
            self._load(head, list(found.blocks))
        except BROKEN as error:
            self._failed = "while a state was loaded"
            raise DamagedState(error) from None
        self._failed = None

    def _load(self, head: dict[str, Any], blocks: list[memoryview]) -> None:
        parts = iter(blocks)
        self.texts.put(unpack_texts(next(parts), next(parts)))
        words = iter(head["steps"])
        for stage in self.stages:
            if isinstance(stage, Ordinary):
                stage.engine.load(next(parts))
            elif stage.op is not None:
                groups = []
                for kinds in stage.op.layout():
                    columns = [np.frombuffer(next(parts), dtype=kind_of(t)).copy() for t in kinds]
                    if len({len(c) for c in columns}) > 1:
                        raise DamagedState("it has not as many rows as it says")
                    for t, c in zip(kinds, columns, strict=True):
                        if t == STR and len(c) and not 0 <= int(c.min()) <= int(c.max()) < len(self.texts):
                            raise DamagedState("it has a text that is not there")
                    groups.append(columns)
                stage.op.load(next(words), groups)
                if stage.engine is not None:
                    stage.engine.load(next(parts))
        if next(parts, None) is not None:
            raise DamagedState("there is more behind its end")
        self.clocks.load(head["clocks"])
        self.pushed, self._push, self._ended = int(head["pushed"]), int(head["push"]), bool(head["ended"])
        self.late = {str(step): int(count) for step, count in head["late"].items()}
        self._enough_texts = int(head.get("texts", self._enough_texts))


def _columns(stage: Step, groups: list[list[Any]]) -> list[tuple[Type, Any]]:
    """The columns that a step saves, with their types."""
    types = stage.op.layout()
    return [(t, c) for kinds, columns in zip(types, groups, strict=True) for t, c in zip(kinds, columns, strict=True)]


# ---------------------------------------------------------------- over all there is


class Finite:
    """All rows of a run that ends, chunk by chunk: they are one batch, so that nothing is late.

    >>> from pellucid import pipeline
    >>> run = Finite(pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.trim(1)), x=int).graph)
    >>> [len(out) for chunk in ([7, 8], [1, 2]) for out in run.take(Batch(2, [[chunk]]))]
    [0, 0]
    >>> [out.events() for out in run.end()]
    [[Windowed(start=0, end=5, value=2), Windowed(start=5, end=10, value=8)]]
    """

    def __init__(self, graph: Graph, key: Type | None = None) -> None:
        self.engine = TimedEngine(graph, key=key)
        self.engine.early = False

    def take(self, batch: Batch, *, positions: bool = False) -> list[Output]:
        """Some of the rows: what comes with them."""
        return self.engine.take(batch, positions=positions)

    def end(self) -> list[Output]:
        """There are no more: what is complete now."""
        parts = [self.engine.move(), self.engine.finish_batch()]
        return [joined(outputs) for outputs in zip(*parts, strict=True)]


def run_batch(graph: Graph, key: Type | None, batch: Batch) -> list[Output]:
    """All there is, as one batch, and then the end of the input."""
    run = Finite(graph, key)
    return [joined(outputs) for outputs in zip(run.take(batch), run.end(), strict=True)]


def trace_batch(graph: Graph, key: Type | None, batch: Batch) -> list[dict[str, list[Any]]]:
    """Push by push, each a batch of its own (of several sources, source by source); what the end emits is one more.

    >>> from pellucid import pipeline
    >>> counts = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.trim(1)), x=int)
    >>> [found["out"] for found in trace_batch(counts.graph, None, Batch(3, [[[1, 2, 7]]]))]
    [[], [], [Windowed(start=0, end=5, value=2)], []]
    """
    traces: list[dict[str, list[Any]]] = [{name: [] for name, _ in graph.outputs} for _ in range(batch.count + 1)]
    engine = TimedEngine(graph, key=key)
    for push, single in _singles(graph, batch):
        engine.pushed = push  # for messages
        for output in engine.push_batch(single):
            traces[push][output.name] += output.events()
    for output in engine.finish_batch():
        traces[-1][output.name] += output.events()
    return traces


def _singles(graph: Graph, batch: Batch) -> Iterator[tuple[int, Batch]]:
    """The events of a batch one by one, each with the number of its push."""
    several = range(len(graph.sources))
    masks = [batch.masks[s] if s < len(batch.masks) else None for s in several]
    for push in range(batch.count):
        columns = [[cut(c, push, push + 1) for c in batch.columns[s]] for s in several]
        keys = [[cut(c, push, push + 1) for c in of] for of in batch.keys] if batch.keys is not None else None
        for s in several:
            mask = masks[s]
            if mask is None or mask[push]:
                yield push, Batch(1, columns, [[s == other] for other in several], keys)
