"""The audit of a recorded run on Spark, for traces that no single machine holds.

The rules are those of `pellucid.failures.audit`, the same code: Spark sorts the steps into pieces, workers ask the
rules of one piece at a time, with NumPy, and send its messages on; these are sorted by stream and number, and other
workers match what was sent with what was received. Steps stay where they are; what comes to the driver is the graph
(its tasks and streams), one row for each crash, a few for each task in each generation (and for each piece, where a
trace is long), and the first few violations of each kind.

* ``carrier``: what is asked of Spark; ``blobs``: steps on their way to the workers
* ``cutting``: into which pieces a trace is cut, and what a piece must know of the others
* ``workers``: the rules of a piece; ``ends``: what only the driver can say, from the sums of all pieces
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pellucid.engine.epochs.recording import ACK, COORDINATOR, schema
from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import Audit, answer
from pellucid.failures.audit.cells import CellSum, IndexSpan, Numbers, Passed, in_all, union
from pellucid.failures.audit.crashes import common_epochs
from pellucid.failures.audit.kept import Explained
from pellucid.failures.audit.pieces import Known, Merged, TraceSegment
from pellucid.failures.audit.recorded import FIRST_EPOCH, tasks_on_record, trace_files, unfinished
from pellucid.failures.audit.rules import NEVER, UNKNOWN, later_cuts, limits
from pellucid.failures.audit.words import Violation
from pellucid.spark.audit import ends
from pellucid.spark.audit.blobs import Spanned, TraceCut, pack_worker, span_worker, survey_worker
from pellucid.spark.audit.carrier import SparkCarrier
from pellucid.spark.audit.cutting import cells_of, ghosts_of, pieces_of, places_of
from pellucid.spark.audit.workers import again_worker, messages_worker, replay_worker, steps_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["audit_on_spark"]

Row: TypeAlias = tuple[str, str, str, int, Numbers]  # side, task, stream, generation, and the numbers
_KEPT = 50  # snapshots that a run may keep of each task
PIECE = 1 << 17  # steps: a worker takes less than a hundred megabytes for them


def audit_on_spark(trace: DataFrame | str | os.PathLike[str], *, spark: SparkSession | None = None, limit: int = 5,
                   tasks: Iterable[str] = (), piece: int = PIECE) -> Audit:  # fmt: skip
    """Audit a trace: a DataFrame with its columns, or the place of a recorded run (a path, or an address such as
    ``s3a://…``).

    The answer is the one of `pellucid.failures.audit.audit`.  ``piece``: about so many steps does a worker hold at a
    time.
    """
    began = time.monotonic()
    df = _read(trace, spark)
    known = [] if hasattr(trace, "sparkSession") else tasks_on_record(trace)
    asked = _Asked(SparkCarrier(df), limit, {*tasks, *known}, piece)
    explained = asked.run()
    first = [v for some in asked.found.first.values() for v in some]
    return answer(asked.sizes, asked.found.counts, first, explained, "spark", time.monotonic() - began)


def _read(trace: Any, spark: SparkSession | None) -> DataFrame:
    from pellucid.spark.session import session

    if hasattr(trace, "sparkSession"):
        df = trace
    else:
        made = spark or session(name="pellucid-audit")
        place = os.fspath(trace)
        if "://" not in place and unfinished(place):
            raise UsageError(
                f"{place}: the run was killed or still goes on, and its last steps are not in Parquet yet, which is "
                "all that Spark reads: audit it without Spark, or let the same run command come to its end first"
            )
        paths = [place] if "://" in place else [str(path.resolve()) for path in trace_files(place)]
        df = made.read.parquet(*paths)
    missing = [name for name in schema().names if name not in df.columns and name != "time"]
    if missing:
        raise DataError(f"trace: no column {missing[0]!r}: a trace has {', '.join(schema().names)}")
    return df


class _Asked:
    """One audit: what the workers summed up about the trace, and what they found."""

    def __init__(self, carrier: Any, limit: int, tasks: set[str], piece: int) -> None:
        self.carrier, self.limit, self.piece = carrier, limit, piece
        self.found = Merged(limit)
        first = _look(carrier)
        self.crashes = sorted(first.crashes, key=lambda row: (row[1], row[2], row[0]))
        self.recoveries = [row for row in self.crashes if row[3] == "F-RECOVER"]
        self.targets: dict[int, int] = {}
        for _, recorded, _, _, epoch in self.recoveries:
            self.targets.setdefault(max(recorded, 0), epoch)
        self.generations = max([0, *(generation for _, generation in first.spans), *self.targets]) + 1
        self.starts, self.ends = limits(self.targets, self.generations)
        self.cuts = later_cuts(self.ends)
        self.names = sorted({task for task, _ in first.spans} | tasks)
        self.number = {name: at for at, name in enumerate(self.names)}
        self.cells = cells_of(first.spans.values(), piece)
        self.piece_of = pieces_of(self.cells, piece)
        self.sizes = (
            sum(s.steps for s in first.spans.values()),
            0,
            len([name for name in self.names if name != COORDINATOR]),
        )
        pieces = len(set(self.piece_of))
        # a few pieces each; more than Spark is set to have, if the trace is long
        self.partitions = max(1, min(pieces, max(carrier.partitions, pieces // 8)))
        self.buckets = max(1, pieces)

    def run(self) -> Explained:
        """Ask everything, of a trace that is read twice."""
        if not self.cells:
            return Explained((0,), (0,), (), FIRST_EPOCH - 1, FIRST_EPOCH - 1)
        wanted = sorted({int(e) for e in self.starts if e not in (FIRST_EPOCH - 1, UNKNOWN)})
        self.carrier.pack(
            pack_worker(TraceCut(places_of(self.cells), self.piece_of, self.cuts.tolist(), wanted, self.piece)),
            self.partitions,
        )
        try:
            return self._asked()
        finally:
            self.carrier.close()

    def _asked(self) -> Explained:
        self.sums = self._surveyed()
        self.whole = [
            (self.cells[at].task, self.cells[at].generation, one.whole) for at, one in sorted(self.sums.items())
        ]
        self.atomic = all(passed.snapshot is None for _, _, passed in self.whole)
        moved, kept = (
            _streams(self.whole),
            _streams(
                [
                    (self.cells[at].task, self.cells[at].generation, s.kept)
                    for at, s in sorted(self.sums.items())
                    if s.kept
                ]
            ),
        )
        self.sizes = (self.sizes[0], sum(row[4].messages for row in moved if not row[2].startswith(ACK)), self.sizes[2])
        known = self._known(moved)
        self.found.merge(self._through(known))
        segments = ends.joined(self.found.segments)
        if not ends.in_order(self.found.ends):
            for row in self.carrier.disorder(self.limit):
                self.found.counts[False, row.kind] = row["count"]
                self.found.first.setdefault((False, row.kind), []).append(
                    Violation(row.kind, row.task, row.generation, row["index"], a=row.a)
                )
        story = ends.Ends(self.names, known, self.starts, self.cuts, segments, moved, kept, self.found)
        story.graph()
        story.recoveries(self.recoveries, self.whole)
        self._replayed(known)
        if self.generations > 1 and story.kept() < self.sizes[0] and not story.goes_on():
            self.found.merge(self._through(self._alone(known, segments, kept)))
        return story.explained(self.whole)

    def _surveyed(self) -> dict[int, CellSum]:
        out: dict[int, CellSum] = {}
        for note in self.carrier.survey(survey_worker):
            some = pickle.loads(note)
            if isinstance(some, str):
                raise DataError(some)
            out |= some
        return out

    def _known(self, moved: list[Row]) -> Known:
        """What every piece must know of the whole."""
        streams = sorted({stream for _, _, stream, _, _ in moved})
        lost = [
            (max(recorded, 0), self.number[task], epoch)
            for task, recorded, _, rule, epoch in self.crashes
            if rule == "F-LOST"
        ]
        whole = self._complete()
        stored = common_epochs(
            self.starts,
            np.array([g for g, _ in whole], dtype=np.int64),
            np.array([e for _, e in whole], dtype=np.int64),
            lost,
        )
        last = np.full((len(self.names), self.generations), UNKNOWN, dtype=np.int64)
        for task, generation, passed in self.whole:
            if passed.border is not None:
                last[self.number[task], generation] = max(passed.border, last[self.number[task], generation])
        storing = {
            self.number[task]
            for task, _, passed in self.whole
            if (passed.border if self.atomic else passed.snapshot) is not None
        }
        known = Known(
            self.names, streams, self.targets, self.generations, self.atomic, (last[0], last[0]), last,
            self._stream_starts(streams), last.reshape(-1), stored, np.array(sorted(storing), dtype=np.int64),
            any(s.startswith(ACK) for s in streams),
            sorted({name for one in self.sums.values() for name in one.unknown}), self.limit,
        )  # fmt: skip
        return self._with_graph(known, moved)

    def _complete(self) -> list[tuple[int, int]]:
        """The last epochs of each generation of which every task has a snapshot: a recovery can go to no other."""
        stored: dict[int, dict[str, list[tuple[int, int]]]] = {}
        for at, one in self.sums.items():
            cell = self.cells[at]
            stored.setdefault(cell.generation, {}).setdefault(cell.task, []).extend(one.stored[0 if self.atomic else 1])
        out: list[tuple[int, int]] = []
        for generation, by in stored.items():
            mine = [some for task, some in by.items() if task != COORDINATOR]
            whole = in_all([union(some) for some in mine]) if len(mine) == self.sizes[2] else []
            newest = [epoch for low, high in reversed(whole) for epoch in range(high, max(low, high - _KEPT) - 1, -1)]
            out += [(generation, epoch) for epoch in newest[:_KEPT]]
        return sorted(out)

    def _with_graph(self, known: Known, moved: list[Row]) -> Known:
        place = {name: at for at, name in enumerate(known.streams)}
        pairs = {
            (side, self.number[task], place[stream]) for side, task, stream, _, _ in moved if not stream.startswith(ACK)
        }
        consumers = np.array(sorted((t, s) for side, t, s in pairs if side == "consumed"), dtype=np.int64).reshape(
            -1, 2
        )
        made = np.array(sorted(t for side, t, _ in pairs if side == "produced"), dtype=np.int64)
        degrees = (
            np.bincount(consumers[:, 0], minlength=len(self.names)),
            np.bincount(made, minlength=len(self.names)),
        )
        return replace(known, degrees=degrees, consumers=consumers)

    def _stream_starts(self, streams: list[str]) -> Any:
        """By stream and generation: the first number, which is the one after the border gone back to (Definition
        4.5)."""
        out = np.full((max(len(streams), 1), self.generations), UNKNOWN, dtype=np.int64)
        out[:, self.starts == FIRST_EPOCH - 1] = 0
        place = {name: at for at, name in enumerate(streams)}
        sent = sorted(
            (self.cells[at].generation, n, stream, epoch)
            for at, one in self.sums.items()
            for (stream, epoch), n in one.borders.items()
        )
        for made, n, stream, epoch in sent:  # later ones win
            for generation in np.flatnonzero(self.starts == epoch).tolist():
                if made < generation:
                    out[place[stream], generation] = n + 1
        return out

    def _alone(self, known: Known, segments: list[TraceSegment], kept: list[Row]) -> Known:
        """The same for the kept steps as one generation (Theorem 6.9)."""
        last = np.full(len(self.names), UNKNOWN, dtype=np.int64)
        for s in segments:
            last[s.task] = max(last[s.task], s.border) if s.border != -NEVER else last[s.task]
        starts = np.zeros((max(len(known.streams), 1), 1), dtype=np.int64)
        alone = replace(
            known, targets={}, generations=1, stream_starts=starts, last_border=last, kept=True, cuts=self.cuts
        )
        return self._with_graph(alone, kept)

    def _through(self, known: Known) -> Merged:
        """All steps, and then all messages, through the workers."""
        ghosts = ghosts_of(self.cells, self.piece_of, self.sums, atomic=self.atomic, kept=known.kept)
        return self._merged(
            self.carrier.through(steps_worker(known, ghosts, self.buckets), messages_worker(known), self.partitions)
        )

    def _replayed(self, known: Known) -> None:
        """What was done again: the epochs that a recovery took back, in all generations."""
        ranges: dict[str, list[list[int]]] = {}
        worked = (
            (int(self.cuts[self.cells[at].generation]) + 1, one.top, self.cells[at].task)
            for at, one in self.sums.items()
            if one.top is not None
        )
        for low, high, task in sorted(row for row in worked if row[1] >= row[0]):
            mine = ranges.setdefault(task, [])
            if mine and low <= mine[-1][1] + 1:
                mine[-1][1] = max(mine[-1][1], high)
            else:
                mine.append([low, high])
        if ranges:
            commits = [
                {"task": t, "generation": g, "index": -1, "rule": "COMMIT", "epoch": p.commit}
                for t, g, p in self.whole
                if p.commit is not None
            ]
            self.found.merge(
                self._merged(
                    self.carrier.through(
                        again_worker(ranges, self.buckets), replay_worker(known, commits), self.partitions
                    )
                )
            )

    def _merged(self, notes: list[bytes]) -> Merged:
        out = Merged(self.limit)
        for note in notes:
            out.merge(pickle.loads(note))
        return out


def _look(carrier: Any) -> Spanned:
    """How long the trace is, and its crashes."""
    out = Spanned({}, [])
    for note in carrier.flat(span_worker):
        some: Spanned = pickle.loads(note)
        if some.empty is not None:
            raise DataError(f"trace: column {some.empty!r} is empty in some row")
        out.crashes += some.crashes
        for key, s in some.spans.items():
            mine = out.spans.setdefault(key, IndexSpan(*key, 0, s.low, s.high))
            mine.steps, mine.low, mine.high = mine.steps + s.steps, min(mine.low, s.low), max(mine.high, s.high)
    return out


def _streams(sums: list[tuple[str, int, Passed]]) -> list[Row]:
    return [
        (side, task, stream, generation, numbers)
        for task, generation, passed in sums
        for (side, stream), numbers in passed.streams.items()
    ]
