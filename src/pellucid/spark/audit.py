"""The audit of a recorded run on Spark, for traces that no single machine holds.

The same rules as in `pellucid.failures.audit.rules`, as DataFrames: a rule compares a step with the one before it in its
task (a window over task and generation), or a message with its producer (a join by stream, generation and number).  Steps
stay where they are; what comes to the driver is the graph (its tasks and streams), one row for each crash, one for each task
in each generation, and the first few violations of each kind.

A window has one partition for each task in each generation: Spark sorts it on disk where it does not fit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import Audit, answer
from pellucid.failures.audit.recorded import COORDINATOR, FIRST_EPOCH, schema, tasks_on_record
from pellucid.failures.audit.words import KINDS, Violation
from pellucid.spark.audit_crashes import CrashRules
from pellucid.spark.audit_frames import FIELDS, Small, least_after, steps_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["audit_on_spark"]

_KEPT = 50  # snapshots that a run may keep of each task


def audit_on_spark(trace: DataFrame | str | os.PathLike[str], *, spark: SparkSession | None = None, limit: int = 5,
                   tasks: Iterable[str] = ()) -> Audit:  # fmt: skip
    """Audit a trace: a DataFrame with its columns, or the place of a recorded run (a path, or an address such as ``s3a://…``).

    The answer is the one of `pellucid.failures.audit.audit`.
    """
    began = time.monotonic()
    df = _read(trace, spark)
    known = [] if hasattr(trace, "sparkSession") else tasks_on_record(trace)
    found = _Rules(steps_of(df), limit, {*tasks, *known})
    found.run()
    return answer(found.sizes, found.counts, found.first, found.explained(), "spark", time.monotonic() - began)


def _read(trace: Any, spark: SparkSession | None) -> DataFrame:
    from pellucid.failures.audit.recorded import trace_files, unfinished
    from pellucid.spark.session import session

    if hasattr(trace, "sparkSession"):
        df = trace
    else:
        made = spark or session(name="pellucid-audit")
        place = os.fspath(trace)
        if "://" not in place and unfinished(place):
            raise UsageError(f"{place}: has steps that are not in Parquet yet (the run was killed, or goes on): let the same command come to its end, or "
                             "audit it without --engine spark")  # fmt: skip
        paths = [place] if "://" in place else [str(path.resolve()) for path in trace_files(place)]
        df = made.read.parquet(*paths)
    missing = [name for name in schema().names if name not in df.columns and name != "time"]
    if missing:
        raise DataError(f"trace: no column {missing[0]!r}: a trace has {', '.join(schema().names)}")
    return df


class _Rules(CrashRules):
    """The rules in the order of the checks, and what they found."""

    def __init__(self, steps: DataFrame, limit: int, tasks: set[str]) -> None:
        super().__init__(steps)
        self.known, self.limit = tasks, limit
        self.counts: dict[tuple[bool, str], int] = {}
        self.first: list[Violation] = []
        self.sizes = (0, 0, 0)
        self.kept: dict[int, tuple[int, int]] = {}
        self.committed = FIRST_EPOCH - 1

    def run(self) -> None:
        """Ask everything, in two jobs for a right trace: the steps and the orders, then what was sent against what was received."""
        self.small = self._gather()
        placed = self._placed(self.steps).persist()
        try:
            self._count_kept(placed)
            self._ends(placed)
            self._graph()
            self._recoveries()
            self._ask(self._of_steps(placed))
            consumed, produced = self._flat(placed, "consumed"), self._flat(placed, "produced")
            self._in_order(placed, consumed, produced, kept=False)
            self._ask(self._commits(placed.select(*self.steps.columns)))
            undone = any(discarded for _, discarded in self.kept.values())
            if undone:
                self._ask(self._replayed(placed))
            self._answer()
            once = not {"two-producers", "fifo-produced", "fifo-consumed", "index"} & {kind for _, kind in self.counts}
            self._ask(self._delivered(consumed, produced, kept=False, once=once))
            self._answer()
            if undone and not self._joins():
                self._explanation(placed)
                self._answer()
        finally:
            placed.unpersist()

    def _gather(self) -> Small:
        import numpy as np
        from pyspark.sql import functions as F

        from pellucid.failures.audit.crashes import common_epochs
        from pellucid.failures.audit.rules import UNKNOWN

        per = self.steps.groupBy("task", "generation").agg(
            F.max(F.when(F.col("rule") == "SNAPSHOT", F.col("epoch"))).alias("snapshot"),
            F.max(F.when(F.col("is_border"), F.col("epoch"))).alias("border"),
            F.max(F.when(F.col("rule") == "COMMIT", F.col("epoch"))).alias("commit"),
            F.count("*").alias("steps"), F.sum(F.size("consumed") + F.size("produced")).alias("messages"),
            F.max((F.col("rule") == "F-FAIL").cast("int")).alias("failed"),
            F.max(((F.size("heard") > 0) | (F.size("told") > 0)).cast("int")).alias("acks"),
            F.collect_list(F.when(F.col("rule").isin("F-RECOVER", "F-LOST"), F.struct("task", "generation", "index", "rule", "epoch"))).alias("crashes"),
        ).collect()  # fmt: skip
        crashes = [crash for row in per for crash in row.crashes]
        self.acknowledged = any(row.acks for row in per)
        self.durable_on_record = any(row.snapshot is not None or row.commit is not None for row in per)
        targets: dict[int, int] = {}
        self.recoveries = sorted((r for r in crashes if r.rule == "F-RECOVER"), key=lambda r: (r.generation, r.task, r.index))
        for row in self.recoveries:
            targets.setdefault(row.generation, row.epoch)
        size = max(max((r.generation for r in per), default=0), max(targets, default=0)) + 1
        starts = {g: targets.get(g) if g else FIRST_EPOCH - 1 for g in range(size)}
        after: dict[int, int | None] = {g: targets.get(g + 1) for g in range(size)}
        cuts = least_after(after)
        tasks = sorted(({r.task for r in per} | self.known) - {COORDINATOR})
        atomic = not any(r.snapshot is not None for r in per)
        whole = self._complete(F.col("is_border") if atomic else F.col("rule") == "SNAPSHOT", len(tasks))
        lost = [(r.generation, tasks.index(r.task), r.epoch) for r in crashes if r.rule == "F-LOST" and r.task in tasks]
        stored = common_epochs(np.array([UNKNOWN if starts[g] is None else starts[g] for g in range(size)], dtype=np.int64),
                               np.array([g for g, _ in whole], dtype=np.int64), np.array([e for _, e in whole], dtype=np.int64), lost)  # fmt: skip
        common = {g: int(stored.common[g]) for g in range(size)}
        reached = {g: max([common[g], starts[g] or 0, *(e for of, e in whole if of == g)]) if any(stored.lost) else common[g] for g in range(size)}
        seen: dict[tuple[str, int], int] = {}
        for task in {r.task for r in per if r.commit is not None}:
            by = {r.generation: r.commit for r in per if r.task == task and r.commit is not None}
            for g in range(1, size):
                before = [e for h, e in by.items() if h < g]
                if before:
                    seen[task, g] = max(before)
        self.failed = {r.generation for r in per if r.failed} | {g for g in range(size) if stored.lost[g]}
        self.sizes = (sum(r.steps for r in per), sum(r.messages for r in per), len(tasks))
        visible: dict[str, int] = {}
        for row in per:
            if row.commit is not None:
                visible[row.task] = max(row.commit, visible.get(row.task, row.commit))
        self.committed = min(visible.values(), default=FIRST_EPOCH - 1)
        return Small(
            tasks, starts, cuts, [], [], {(r.task, r.generation): r.border for r in per if r.border is not None}, common, reached,
            {g: stored.lost[g] for g in range(size)}, after, seen, atomic,
        )  # fmt: skip

    def _ends(self, placed: DataFrame) -> None:
        """The graph, and where each stream begins and ends in each generation."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        moved = reduce(DataFrame.unionAll, (
            placed.select(F.lit(side).alias("side"), "task", "generation", "index", "kept_step", F.posexplode(side).alias("at", "m"))
            for side in ("consumed", "produced")))  # fmt: skip
        n = F.when(F.col("kept_step"), F.col("m.n"))
        rows = moved.groupBy("side", "task", "generation", F.col("m.stream").alias("stream")).agg(
            F.min("index").alias("index"), F.min(n).alias("low"), F.max(n).alias("high")).collect()  # fmt: skip
        self.small.inputs = sorted({(r.task, r.stream) for r in rows if r.side == "consumed"})
        first: dict[tuple[str, str], tuple[int, int]] = {}
        for r in rows:
            if r.side == "produced":
                first[r.task, r.stream] = min((r.generation, r["index"]), first.get((r.task, r.stream), (r.generation, r["index"])))
        self.small.outputs = sorted((*pair, *place) for pair, place in first.items())
        self.ranges = sorted((r.side, r.task, r.stream, r.generation, r.low, r.high) for r in rows if r.low is not None)

    def _complete(self, durable: Column, tasks: int) -> list[tuple[int, int]]:
        """The last epochs of each generation of which every task has a snapshot: a recovery can go to no other."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        whole = self.steps.filter(durable).groupBy("generation", "epoch").agg(F.countDistinct("task").alias("tasks")).filter(F.col("tasks") == tasks)
        newest = Window.partitionBy("generation").orderBy(F.desc("epoch"))
        rows = whole.withColumn("place", F.row_number().over(newest)).filter(F.col("place") <= _KEPT).collect()
        return sorted((row.generation, row.epoch) for row in rows)

    def _count_kept(self, placed: DataFrame) -> None:
        from pyspark.sql import functions as F

        kept = F.col("kept_step")
        late = kept & F.col("cut").isNotNull() & (F.col("next_border").isNull() | (F.col("next_border") > F.col("cut")))
        rows = placed.groupBy("task", "generation").agg(
            F.count("*").alias("steps"), F.sum(F.col("work").cast("long")).alias("work"), F.sum(kept.cast("long")).alias("kept"),
            F.min("index").alias("low"), F.max("index").alias("high"), F.min("recorded").alias("recorded"),
            F.max((F.col("index") != F.col("index_before") + 1).cast("int")).alias("jumps"), F.max(late.cast("int")).alias("late"),
            F.min(F.when(kept, F.col("epoch"))).alias("first"), F.max(F.when(kept, F.col("epoch") + F.col("is_border").cast("long"))).alias("due"),
            F.max(F.when(kept & F.col("is_border"), F.col("epoch"))).alias("border"),
        ).collect()  # fmt: skip
        self.segments = sorted(rows, key=lambda r: (r.task, r.generation))
        for r in rows:
            kept_there, undone = self.kept.get(r.generation, (0, 0))
            self.kept[r.generation] = (kept_there + r.kept, undone + r.work - r.kept)
        ends: dict[str, int] = {}
        for r in self.segments:
            self.regular &= not r.jumps and r.recorded == r.generation and r.low == ends.get(r.task, -1) + 1
            ends[r.task] = r.high

    def _joins(self) -> bool:
        """Whether the kept steps are a failure-free run because each generation is right and one goes on where the other ended.

        Within a generation the kept steps of a task come first, so what is right in it stays right without the others.  What
        remains is that every kept step is in a kept snapshot, that all tasks end at the same border, and that epochs and
        numbers go on from one generation to the next.
        """
        asked = {"fifo", "messages", "alignment", "snapshot", "well-formed", "streams"}
        if any(KINDS[kind][0] in asked for _, kind in self.counts) or any(r.late for r in self.segments):
            return False
        busy = {r.task for r in self.segments if r.work}
        for generation, cut in self.small.cuts.items():
            borders = {r.task: r.border for r in self.segments if r.generation == generation and r.kept}
            if cut is not None and borders and (set(borders) != busy or len(set(borders.values())) > 1):
                return False
        due: dict[str, int] = {}
        for r in self.segments:
            if r.kept:
                if r.first != due.get(r.task, FIRST_EPOCH):
                    return False
                due[r.task] = r.due
        wanted: dict[tuple[str, str, str], int] = {}
        for side, task, stream, _, low, high in self.ranges:
            if low != wanted.get((side, task, stream), 0):
                return False
            wanted[side, task, stream] = high + 1
        return True

    def _say(self, violation: Violation) -> None:
        key = (violation.kept, violation.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        if sum((v.kept, v.kind) == key for v in self.first) < self.limit:
            self.first.append(violation)

    def _answer(self) -> None:
        """All violations in one job: how many of each kind, and the first few, which is all that leaves the cluster."""
        from pyspark.sql import DataFrame, Window
        from pyspark.sql import functions as F

        order = [F.col(name) for name in ("task", "generation", "index", "stream", "n", "a", "b", "other")]
        kind = Window.partitionBy("kept", "kind")
        rows = (reduce(DataFrame.unionByName, self.asked).withColumn("place", F.row_number().over(kind.orderBy(*order)))
                .withColumn("count", F.count("*").over(kind)).filter(F.col("place") <= self.limit).collect())  # fmt: skip
        self.asked = []
        for row in rows:
            self.counts[row.kept, row.kind] = row["count"]
            self.first.append(Violation(**{name: row[name] for name in (*FIELDS, "kept")}))

    def _graph(self) -> None:
        from pellucid.failures.audit.rules import way_back

        producers: dict[str, list[str]] = {}
        for task, stream, generation, index in self.small.outputs:
            before = producers.setdefault(stream, [])
            if before:
                self._say(Violation("two-producers", task, generation, index, stream, other=before[-1]))
            before.append(task)
        above: dict[str, set[str]] = {}
        for task, stream in self.small.inputs:
            above.setdefault(task, set()).update(producers.get(stream, []))
        for task in sorted(above):
            way = way_back(task, above)
            if way:
                self._say(Violation("cycle", task, 0, -1, other=" → ".join(way)))
                break

    def _recoveries(self) -> None:
        small = self.small
        seen: set[int] = set()
        before = 0
        for row in self.recoveries:
            place = (row.task, row.generation, row["index"])
            if row.generation in seen:
                self._say(Violation("recovery-twice", *place))
                continue
            seen.add(row.generation)
            if row.generation == 0:
                continue
            ended = range(before, row.generation)
            common = small.common[row.generation - 1]
            if row.epoch < common and self.durable_on_record:
                self._say(Violation("recovery-low", *place, a=row.epoch, b=common))
            for task in small.tasks if row.epoch > common else ():
                known = [small.last_border[task, g] for g in ended if (task, g) in small.last_border]
                if max(known, default=FIRST_EPOCH - 1) < row.epoch:
                    reached = max([*known, small.starts[before] or 0, FIRST_EPOCH - 1])
                    self._say(Violation("recovery-high", *place, a=row.epoch, b=reached, other=task))
                    break
            if not self.failed & set(ended) and any(self.kept.get(g, (0, 0))[1] for g in ended):
                self._say(Violation("recovery-idle", *place))
            before = row.generation

    def explained(self) -> Any:
        """The failure-free trace, counted."""
        from pellucid.failures.audit.kept import Explained

        small = self.small
        order = sorted(small.starts)
        kept = tuple(self.kept.get(g, (0, 0))[0] for g in order)
        discarded = tuple(self.kept.get(g, (0, 0))[1] for g in order)
        recovered = tuple(start for g in order if g and (start := small.starts[g]) is not None)
        return Explained(kept, discarded, recovered, small.common[order[-1]], self.committed)
