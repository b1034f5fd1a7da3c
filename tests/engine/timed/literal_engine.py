"""The literal meaning of event time behind the interface of an engine, so that tests can hold both side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pellucid.internal.data.bind import keeps_nan
from pellucid.internal.data.columns import Batch, Output, columns_of, events_of
from pellucid.internal.engine.kernel.exchange import batch_given, shown
from pellucid.internal.engine.timed.literal import Item, Literal, Row
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph


class LiteralEngine:
    """The literal meaning behind the interface of an engine.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.trim(1)), x=int)
    >>> engine = LiteralEngine(p.graph)
    >>> engine.push([1, 2]), engine.push([7, 8]), engine.finish()
    ([], [Windowed(start=0, end=5, value=2)], [Windowed(start=5, end=10, value=8)])
    """

    def __init__(self, graph: Graph, *, key: Type | None = None, nan: str = "fail") -> None:
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

    def idle(self, source: str) -> None:
        """Nothing has come from a source for long: it holds nobody back, until its next event."""
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
