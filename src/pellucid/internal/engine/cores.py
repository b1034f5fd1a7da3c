"""On how many cores a run goes: on all of them where that pays, with the same events out.

A run per key can be shared among cores (`engine.kernel.buckets`).  Sharing out costs some nanoseconds for each
row, more than a cheap pipeline takes for its work: so it is tried with the first rows, and the faster way is taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from pellucid.errors import PellucidError, StepError, UsageError, option
from pellucid.internal.data.columns import Batch, Output
from pellucid.internal.data.tables.ready import chosen
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.kernel.pieces import cut
from pellucid.internal.engine.kernel.times import StepTimes
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph

_FROM = 1 << 17  # rows in the first batch: below, it is not worth a thought
_TRIED = 1 << 15
_PAYS = 0.9  # of the time on one core: less counts as faster


def cores_here() -> int:
    """How many cores this process may use.

    >>> cores_here() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_cores(cores: Any) -> int | None:
    """What a user may say: a number, or None for as many as pay.

    >>> check_cores(2), check_cores(None)
    (2, None)
    >>> check_cores(0)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: cores=0: expected a whole number from 1 on, or None for as many as pay
    """
    if cores is None or (type(cores) is int and cores >= 1):
        return cores
    raise UsageError(f"{option('cores', cores)}: expected a whole number from 1 on, or None for as many as pay")


class OnCores:
    """An engine for one run, on one core or on several, which the first batch decides; ``push_batch`` is that of
    `Engine`.

    ``cores`` is how many are wanted, None: as many as pay.  ``one_key`` says that all sources have the same key in a
    push, so that a push is of one bucket.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> run = OnCores(total.graph, key=INT, cores=2)
    >>> run.push_batch(Batch(3, [[[1, 2, 3]]], keys=[[[7, 8, 7]]]))[0].events(), run.cores
    ([1, 2, 4], 2)
    """

    def __init__(
        self, graph: Graph, *, key: Type | None, cores: int | None = None, one_key: bool = True, timed: bool = False
    ) -> None:
        self.graph, self.key, self.wanted = graph, key, check_cores(cores)
        self._engine: Any = Engine(graph, key=key, timed=timed)
        self.why_plain: str | None = self._engine.why_plain
        self.cores = 1
        self.why_one = self._why_one(one_key)
        self._decided = False

    def _why_one(self, one_key: bool) -> str | None:
        """Why it goes on one core whatever comes, or None."""
        if self.wanted == 1 or (self.wanted is None and cores_here() == 1):
            return "there is one" if self.wanted is None else "so it was said"
        if self.key is None:
            return f"only the keys of a run with {option('key')} can be shared among cores"
        if self.why_plain is not None:
            return "a step is called in plain Python, which runs on one"
        if self._engine.opens_lists:
            return "it puts out the elements of lists, and how long they are is found out on one"
        if len(self.graph.sources) > 1 and not one_key:
            return f"its inputs go row by row, and a row's keys may differ; with {option('order')} they are the same"
        return None

    @property
    def compiled(self) -> bool:
        """Whether the loop is compiled by now."""
        return self.cores > 1 or bool(self._engine.state.compiled)

    @property
    def forgotten(self) -> dict[str, int]:
        """How many keys each ``forget`` has given up, of which there is none in a run per key."""
        return {} if self.key is not None else dict(self._engine.forgotten)

    @property
    def times(self) -> StepTimes:
        """How long each step took, if it was asked for."""
        found: StepTimes = self._engine.times
        return found

    def stop_timing(self) -> None:
        """Run the rest without looking at the clock."""
        if self.cores == 1:
            self._engine.timed = False

    def push_batch(
        self, batch: Batch, *, positions: bool = False, failed: list[StepError] | None = None
    ) -> list[Output]:
        """Push columns."""
        if not self._decided and batch.count:
            self._decided = True
            self._decide(batch, failed is not None)
        outputs: list[Output] = self._engine.push_batch(batch, positions=positions, failed=failed)
        return outputs

    def _decide(self, batch: Batch, undo: bool) -> None:
        if self.why_one is not None:
            return
        if self.wanted is None:
            if batch.count < _FROM:
                self.why_one = "there are few rows"
                return
            self.why_one = self._try(batch, cores_here(), undo)
            if self.why_one is not None:
                return
        from pellucid.internal.engine.kernel.buckets import KeyBuckets

        self.cores = self.wanted or cores_here()
        self._engine = KeyBuckets(Engine(self.graph, key=self.key, mode="numba", timed=self._engine.timed), self.cores)

    def _try(self, batch: Batch, cores: int, undo: bool) -> str | None:
        """Run the first rows in both ways, and throw away what comes out; why not on several cores, or None.

        With many keys each has few of the first rows, and what it remembers is nearly empty; so they are also run as
        rows of one key, and the longer time counts for the work.
        """
        from pellucid.internal.engine.kernel.buckets import KeyBuckets

        base = Engine(self.graph, key=self.key, mode="numba")
        some, few = _first(batch, _TRIED), _first(batch, 16)

        def seconds(trial: Any, rows: Batch, clock: Callable[[], float]) -> float:
            failed: list[StepError] | None = [] if undo else None
            trial.push_batch(few, positions=True, failed=failed)  # compile, start the threads
            start = clock()
            trial.push_batch(rows, positions=True, failed=failed)
            return clock() - start

        try:
            # of one thread its own time, whatever else the machine does; of several what it takes until they are done
            one, full = (seconds(base.sibling(), rows, time.thread_time) for rows in (some, _of_one_key(some)))
            several = min(seconds(KeyBuckets(base.sibling(), cores), some, time.perf_counter) for _ in range(2))
            sharing = max(several - one / cores, 0.0)
        except PellucidError:
            return "a step fails at once"
        work = max(one, full)
        if sharing + work / cores < _PAYS * work:
            return None
        return (
            f"sharing the keys out takes longer than it saves: {1000 * sharing:.1f} ms for {1000 * work:.1f} ms of "
            f"work on the first {some.count:,} rows"
        )


def _of_one_key(batch: Batch) -> Batch:
    """The same rows as if all had the key of the first."""
    same = [[chosen(c, [0] * batch.count) for c in columns] for columns in batch.keys or []]
    return Batch(batch.count, batch.columns, batch.masks, same)


def _first(batch: Batch, count: int) -> Batch:
    """The first rows of a batch."""
    count = min(count, batch.count)
    return Batch(
        count,
        [[cut(c, 0, count) for c in columns] for columns in batch.columns],
        [None if m is None else m[:count] for m in batch.masks],
        None if batch.keys is None else [[cut(c, 0, count) for c in columns] for columns in batch.keys],
    )
