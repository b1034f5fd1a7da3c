"""A bucket of keys of a streaming query by event time: its engine, with the clock, between two micro-batches."""

from __future__ import annotations

import json
from typing import Any

from pellucid.errors import StateError
from pellucid.internal.engine.timed.literal import fed_by
from pellucid.spark.job import SparkJob
from pellucid.spark.timed.clock import counted, heard
from pellucid.spark.timed.rows import TimedRunner


class TimedBucket:
    """What is kept of some keys, and how far time has come in the whole stream.

    ``heard`` has when a source of each step `at` had its last row, by the beginnings of micro-batches: one with
    ``idle=`` that has been silent for so long holds nobody back.  All buckets are told the same, so they decide the
    same; and the beginning of a micro-batch is in Spark's offset log, so that it is decided again as it was.

    ``rows`` of each source, of its own keys, and when its last micro-batch ``began``, are for who looks from outside.
    """

    def __init__(self, job: SparkJob) -> None:
        self.runner = TimedRunner(job)
        self.heard: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.began: int | None = None
        self.snapshot: Any = None  # the one it was loaded from, for its keeper
        self.read_as = None  # no row waits as it came

    def run(self, rows: Any) -> list[Any]:
        """One micro-batch: its rows are judged by the clock as it was, which then moves, once."""
        told = heard(self.runner.fields, rows)
        runner, engine = self.runner, self.runner.engine
        out = list(runner.take(told.rows))
        for source, count in counted(runner.fields, told.rows).items():
            self.rows[source] = self.rows.get(source, 0) + count
        self.began = told.began if told.began is not None else self.began
        seen = engine.seen() if told.seen is None else told.seen
        self._silence(told.sources, told.began)
        out += runner.move(seen)
        return out

    def _silence(self, sources: set[str], began: int | None) -> None:
        engine = self.runner.engine
        told = {i for source in sources for i in fed_by(engine.graph, source)}
        for i, node in enumerate(engine.graph.nodes):
            if node.kind != "at" or node.timing is None or began is None:
                continue
            last = began if i in told else self.heard.setdefault(node.id, began)
            self.heard[node.id] = last
            if node.timing.idle is not None and began - last >= node.timing.idle:
                engine.clocks.idle(i)

    @property
    def about(self) -> dict[str, Any]:
        """What can be known of it without reading its state."""
        return {"late": dict(self.runner.engine.late), "clock": self.runner.engine.clock}

    def save(self) -> tuple[bytes, bytes]:
        """The state, and what else there is to keep."""
        return self.runner.engine.save(), json.dumps(self._extra(), sort_keys=True).encode()

    def _extra(self) -> dict[str, Any]:
        return {"heard": self.heard, "rows": self.rows, "began": self.began}

    def load(self, state: Any, extra: Any, *, same: bool, drop: tuple[str, ...] = ()) -> None:
        """Go on from there, if it is the same pipeline."""
        if not same:
            raise StateError(
                f"the state was left by another pipeline, or another version of {self.runner.job.graph.name}: one by "
                "event time is not carried over yet; go on with the pipeline as it was, or begin anew with a new state "
                "folder and a new checkpoint"
            )
        self.runner.engine.load(state)
        kept = json.loads(bytes(extra))
        self.heard = {str(step): int(at) for step, at in kept["heard"].items()}
        self.rows = {str(source): int(count) for source, count in kept.get("rows", {}).items()}
        self.began = kept.get("began")


def late_counts(state: str) -> dict[str, int]:
    """How many events have come too late in a streaming query by event time, for each step, from its state folder: each
    of them once, also those that ``late="drop"`` let go, and after restarts, too::

        late_counts("state")   # {'minutes': 3}
    """
    from pellucid.spark.state.store import Store

    store = Store(state)
    found: dict[str, int] = {}
    for bucket in store.buckets():
        for step, count in ((store.about(bucket) or {}).get("late") or {}).items():
            found[step] = found.get(step, 0) + int(count)
    return found
