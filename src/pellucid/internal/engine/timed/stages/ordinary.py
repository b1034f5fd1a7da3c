"""A segment of ordinary steps over columns, by the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.columns.inner import inside
from pellucid.internal.engine.timed.columns.rows import leaves_of
from pellucid.internal.engine.timed.flows import Evaluated, Flow, nothing, outside, together
from pellucid.internal.engine.timed.plan import Segment
from pellucid.internal.engine.timed.stages.step import Run, at_push
from pellucid.internal.expr.types import TupleType


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
            raise at_push(error, self.run.push_of(int(stamps[at]))) from error.__cause__

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
