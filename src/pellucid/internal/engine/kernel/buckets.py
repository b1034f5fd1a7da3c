"""A run per key on several cores: the keys in buckets, a thread for each, what comes out put together again.

A compiled kernel needs no interpreter while it runs, so threads run truly beside each other.  Each bucket of keys has
an engine of its own; the rows of a batch go to the engine of their key, in their order; the events that come out are
put in the order of their pushes.  As keys know nothing of each other, that is exactly what one engine emits, and
which bucket a key is in shows nowhere.  Where a step fails, all buckets finish the piece at hand, and the first failure
in the order of the pushes is the one that one engine would have met.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from pellucid.errors import StateError, StepError
from pellucid.internal.data.columns import Batch, Column, Output, Strings
from pellucid.internal.engine.kernel.engine import Engine, StepTimes
from pellucid.internal.engine.kernel.exchange import joined
from pellucid.internal.engine.kernel.layout import leaf_types
from pellucid.internal.engine.kernel.prims import mix_in, sorted_rows
from pellucid.internal.expr.types import STR

_PIECE = 1 << 17  # rows that are shared out at a time: while they run, the next ones are shared out
_SLOTS = 1 << 10  # many more than cores, so that large keys can be balanced
_MANY_STRINGS = 1 << 20


class KeyBuckets:
    """An engine that runs per key, on several cores; ``push_batch`` is that of `Engine`.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> two = KeyBuckets(Engine(total.graph, key=INT, mode="numba"), 2)
    >>> (out,) = two.push_batch(Batch(3, [[[1, 2, 3]]], keys=[[[7, 8, 7]]]))
    >>> out.events()
    [1, 2, 4]
    """

    def __init__(self, first: Engine, cores: int) -> None:
        assert first.key is not None and first.why_plain is None and not first.pushed
        self.graph, self.key = first.graph, first.key
        self.engines = [first, *(first.sibling() for _ in range(cores - 1))]
        self.pushed = 0
        self._pool = ThreadPoolExecutor(cores, thread_name_prefix="pellucid-keys")
        self._owners: Any = None  # the bucket of each slot
        self._hashes: Any = np.zeros(0, np.int64)  # of texts by their codes
        self._enough_strings = _MANY_STRINGS
        self._failed: str | None = None

    @property
    def times(self) -> StepTimes:
        """The times of all buckets together."""
        out = StepTimes(self.graph)
        for engine in self.engines:
            out.join(engine.times)
        return out

    def push_batch(
        self, batch: Batch, *, positions: bool = False, failed: list[StepError] | None = None
    ) -> list[Output]:
        """Push columns."""
        if self._failed is not None:
            raise StateError(f"this engine was stopped {self._failed}: make a new one")
        try:
            parts = list(self._parts(batch, failed))
        except BaseException as error:
            at = error.position if isinstance(error, StepError) else self.pushed
            self._failed = f"at push {at:,}"
            raise
        self.pushed += batch.count
        outputs = [joined(of_output) for of_output in zip(*parts, strict=True)]
        if not positions:
            outputs = [Output(o.name, o.type, o.columns) for o in outputs]
        self._forget_texts()
        return outputs

    def _parts(self, batch: Batch, failed: list[StepError] | None) -> Iterator[list[Output]]:
        """What the pieces of a batch emit.  While the kernels run over one, the next is shared out here."""
        running: list[Future[list[Output]]] = []
        own: list[list[StepError] | None] = [None if failed is None else [] for _ in self.engines]
        undo = failed is not None
        for start in range(0, max(batch.count, 1), _PIECE):
            columns, shares = self._shared_out(batch, start, min(start + _PIECE, batch.count), undo)
            done = _settled(running)
            running = [
                self._pool.submit(self._run, engine, columns, rows, self.pushed + start, mine)
                for engine, rows, mine in zip(self.engines, shares, own, strict=True)
            ]
            if done:
                yield _in_order(done)
        yield _in_order(_settled(running))
        if failed is not None:
            failed += sorted((error for mine in own for error in mine or ()), key=lambda error: error.position)

    def _shared_out(self, batch: Batch, start: int, stop: int, undo: bool) -> tuple[dict[str, Any], list[Any]]:
        """A piece of a batch as the kernels read it, and the rows of each bucket."""
        first = self.engines[0]
        first.state.to_compiled()
        kernel = first._kernel(True, True, undo)
        first._called(kernel)  # compiled once, not in every thread
        columns = first.exchange.inputs(kernel, batch, start, stop)
        slots = self._slots(columns, stop - start)
        if self._owners is None:
            self._owners = _balanced(slots, len(self.engines))
        ends = np.zeros(len(self.engines), np.int64)
        rows = sorted_rows(self._owners[slots], ends)
        return columns, np.split(rows, ends[:-1])

    def _slots(self, columns: dict[str, Any], count: int) -> Any:
        """A number below `_SLOTS` for the key of each push; of several sources, the key of one that is there."""
        found = np.zeros(count, np.int64)
        for s in range(len(self.graph.sources)):
            mixed = np.zeros(count, np.uint64)
            for j, t in enumerate(leaf_types(self.key)):
                column = columns[f"key{s}_{j}"]
                mix_in(mixed, self._text_hashes()[column] if t == STR else column.astype(np.int64, copy=False))
            slots = (mixed >> np.uint64(20)).astype(np.int64) & (_SLOTS - 1)
            found = slots if not s else np.where(columns[f"mask{s}"], slots, found)
        return found

    def _text_hashes(self) -> Any:
        """By the code of a text a number that stays when codes change."""
        texts = self.engines[0].state.texts()
        have = len(self._hashes)
        if have < len(texts):
            more = np.fromiter(map(hash, texts[have:]), np.int64)
            self._hashes = np.concatenate([self._hashes, more])
        return self._hashes

    @staticmethod
    def _run(
        engine: Engine, columns: dict[str, Any], rows: Any, first: int, failed: list[StepError] | None
    ) -> list[Output]:
        """Run one bucket over its rows of a piece; in a thread."""
        engine.state.to_compiled()
        mine = {name: column.take(rows) for name, column in columns.items()}
        kernel = engine._kernel(True, True, failed is not None)
        return engine._run(kernel, mine, len(rows), rows + first, failed)

    def _forget_texts(self) -> None:
        """As one engine does it, of all buckets together."""
        first, *others = [engine.state for engine in self.engines]
        if len(first.strings) > self._enough_strings:
            first.forget_strings(others=others)
            self._enough_strings = max(_MANY_STRINGS, 2 * len(first.strings))
            self._hashes = self._hashes[:0]


def _balanced(slots: Any, buckets: int) -> Any:
    """Give the slots to buckets so that each has about as many rows: the largest first, to the bucket with least."""
    counts = np.bincount(slots, minlength=_SLOTS)
    owners = np.zeros(_SLOTS, np.uint8 if buckets <= 256 else np.uint16)
    loads = [(0, bucket) for bucket in range(buckets)]
    for slot in np.argsort(-counts, kind="stable").tolist():
        load, bucket = heapq.heappop(loads)
        owners[slot] = bucket
        heapq.heappush(loads, (load + int(counts[slot]) + 1, bucket))
    return owners


def _settled(running: list[Future[list[Output]]]) -> list[list[Output]]:
    """What all buckets emit; of their failures the one that comes first in the stream."""
    failures = [error for error in [future.exception() for future in running] if error is not None]
    if failures:
        raise min(failures, key=lambda error: error.position if isinstance(error, StepError) else -1)
    return [future.result() for future in running]


def _in_order(buckets: list[list[Output]]) -> list[Output]:
    """The events of all buckets in the order of their pushes."""
    out = []
    for parts in zip(*buckets, strict=True):
        whole = joined(parts)
        at = whole.positions
        if len(at):
            least = int(at.min())
            order = sorted_rows(at - least, np.zeros(int(at.max()) - least + 1, np.int64))
            whole.columns = [_taken(c, order) for c in whole.columns]
            whole.positions = at[order]
            whole.keys = [_taken(c, order) for c in whole.keys or []]
        out.append(whole)
    return out


def _taken(column: Any, rows: Any) -> Column:
    taken: Column = Strings(column.codes[rows], column.values) if isinstance(column, Strings) else column[rows]
    return taken
