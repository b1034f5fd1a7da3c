"""Pipelines by event time on data: which engine runs one, and columns through the literal one.

An engine of event time is pushed batch by batch (`push_batch`, of which the rows are judged by the clock at its
beginning), and told of the end (`finish_batch`); both give what came out, an `Output` for each output of the graph,
with the keys that came with the data if it runs per key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pellucid.errors import StateError, UsageError
from pellucid.internal.data.bind import keeps_nan
from pellucid.internal.data.columns import Batch, Output, columns_of, events_of
from pellucid.internal.engine.kernel.exchange import batch_given, cut, joined, shown
from pellucid.internal.engine.timed.literal import Item, Literal, Row, fed_by
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, refuse_key


class TimedEngine(Protocol):
    """What an engine of event time can do.  ``pushed`` is how many pushes there have been, ``early`` whether windows
    tell what they have so far: in a run over all there is nothing is early."""

    pushed: int
    early: bool

    @property
    def late(self) -> dict[str, int]:
        """How many events have come too late for each step."""

    def push_batch(self, batch: Batch) -> list[Output]:
        """One batch of rows."""

    def finish_batch(self) -> list[Output]:
        """The end of the input."""

    def push(self, *data: Any, **named: Any) -> Any:
        """A chunk of events for each source, as one batch: events in lists, of several outputs by name."""

    def finish(self) -> Any:
        """The end of the input, as `push` gives it."""

    def idle(self, source: str) -> None:
        """Nothing has come from a source for long: it holds nobody back, until its next event."""


def engine_of(graph: Graph, key: Type | None = None, *, mode: str = "auto", nan: str = "fail") -> TimedEngine:
    """The engine that runs a graph by event time."""
    from pellucid.internal.engine.timed.engine import TimedEngine as Columns

    return Columns(graph, key=key, mode=mode, nan=nan)


def run_batch(graph: Graph, key: Type | None, batch: Batch) -> list[Output]:
    """All there is, as one batch, and then the end of the input."""
    engine = engine_of(graph, key)
    engine.early = False
    parts = [engine.push_batch(batch), engine.finish_batch()]
    return [joined(outputs) for outputs in zip(*parts, strict=True)]


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
        from pellucid.internal.engine.timed.engine import TimedEngine as Columns

        self.engine = Columns(graph, key=key)
        self.engine.early = False

    def take(self, batch: Batch, *, positions: bool = False) -> list[Output]:
        """Some of the rows: what comes with them."""
        return self.engine.take(batch, positions=positions)

    def end(self) -> list[Output]:
        """There are no more: what is complete now."""
        parts = [self.engine.move(), self.engine.finish_batch()]
        return [joined(outputs) for outputs in zip(*parts, strict=True)]


def trace_batch(graph: Graph, key: Type | None, batch: Batch) -> list[dict[str, list[Any]]]:
    """Push by push, each a batch of its own (of several sources, source by source); what the end puts out is one more.

    >>> from pellucid import pipeline
    >>> counts = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.trim(1)), x=int)
    >>> [found["out"] for found in trace_batch(counts.graph, None, Batch(3, [[[1, 2, 7]]]))]
    [[], [], [Windowed(start=0, end=5, value=2)], []]
    """
    traces: list[dict[str, list[Any]]] = [{name: [] for name, _ in graph.outputs} for _ in range(batch.count + 1)]
    engine = engine_of(graph, key)
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


class LiteralEngine:
    """The literal meaning behind the interface of an engine.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.trim(1)), x=int)
    >>> engine = LiteralEngine(p.graph)
    >>> engine.push([1, 2]), engine.push([7, 8]), engine.finish()
    ([], [Windowed(start=0, end=5, value=2)], [Windowed(start=5, end=10, value=8)])
    """

    def __init__(self, graph: Graph, *, key: Type | None = None, mode: str = "auto", nan: str = "fail") -> None:
        if mode not in ("auto", "numba", "python"):
            raise UsageError(f"mode must be 'auto', 'numba' or 'python', found {mode!r}")
        if mode == "numba":
            raise UsageError(f"{graph.name} cannot be compiled: the literal engine never is")
        if key is not None:
            refuse_key(graph)
        self.graph, self.key, self._nan = graph, key, keeps_nan(nan)
        self._run = Literal(graph, key)
        self.pushed = 0

    @property
    def late(self) -> dict[str, int]:
        """How many events have come too late for each step."""
        return self._run.late

    def push_batch(self, batch: Batch) -> list[Output]:
        """One batch of rows."""
        rows = list(rows_of(self.graph, self.key, batch, self.pushed))
        self.pushed += batch.count
        return self._outputs(self._run.batch(rows))

    def finish_batch(self) -> list[Output]:
        """The end of the input."""
        return self._outputs(self._run.finish())

    def push(self, *data: Any, **named: Any) -> Any:
        """A chunk of events for each source, as one batch; several outputs come as a dict by name."""
        batch, arrays = batch_given(self.graph, self.key, self.pushed, self._nan, data, named)
        return shown(self.push_batch(batch), arrays)

    def finish(self) -> Any:
        """The end of the input, as `push` gives it."""
        return shown(self.finish_batch(), False)

    def save(self) -> bytes:
        """Refused: what this engine keeps is Python objects."""
        raise StateError(f"{self.graph.name}: the state of the literal engine cannot be saved: it is kept word by word")

    def load(self, saved: bytes) -> None:
        """Refused, as `save` is."""
        self.save()

    def idle(self, source: str) -> None:
        """Nothing has come from a source for long: it holds nobody back, until its next event."""
        names = [self.graph.nodes[i].id for i in self.graph.sources]
        if source not in names:
            raise UsageError(f"{self.graph.name} has no source {source!r}: it has {', '.join(names)}")
        if not fed_by(self.graph, source):
            raise UsageError(f"{self.graph.name}: the times of {source!r} are not said (at), so it holds nobody back")
        self._run.idle(source)

    def _outputs(self, found: dict[str, list[Item]]) -> list[Output]:
        out = []
        for name, i in self.graph.outputs:
            t, items = self.graph.nodes[i].type, found[name]
            keys = columns_of(self.key, [item.outer for item in items]) if self.key is not None else None
            out.append(Output(name, t, columns_of(t, [item.value for item in items]), None, self.key, keys))
        return out


def rows_of(graph: Graph, key: Type | None, batch: Batch, first: int = 0) -> Iterator[Row]:
    """The rows of a batch, push by push, in each source by source."""
    sources: list[tuple[str, Sequence[Any], Any, Sequence[Any] | None]] = []
    for s, i in enumerate(graph.sources):
        node = graph.nodes[i]
        mask = batch.masks[s] if s < len(batch.masks) else None
        keys = events_of(key, batch.keys[s]) if key is not None and batch.keys is not None else None
        sources.append((node.id, events_of(node.type, batch.columns[s]), mask, keys))
    for push in range(batch.count):
        for name, events, mask, own in sources:
            if mask is None or mask[push]:
                yield Row(name, events[push], own[push] if own is not None else None, first + push)
