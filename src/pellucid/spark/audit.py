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
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import Audit, answer
from pellucid.failures.audit.recorded import ACK, COORDINATOR, FIRST_EPOCH, RULES, schema, tasks_on_record
from pellucid.failures.audit.words import Violation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["audit_on_spark"]

_KEPT = 50  # snapshots that a run may keep of each task
_FIELDS = ("kind", "task", "generation", "index", "stream", "n", "a", "b", "other")


def audit_on_spark(trace: DataFrame | str | os.PathLike[str], *, spark: SparkSession | None = None, limit: int = 5,
                   tasks: Iterable[str] = ()) -> Audit:  # fmt: skip
    """Audit a trace: a DataFrame with its columns, or the place of a recorded run (a path, or an address such as ``s3a://…``).

    The answer is the one of `pellucid.failures.audit.audit`.
    """
    began = time.monotonic()
    df = _read(trace, spark)
    steps = _steps(df).persist()
    try:
        known = [] if hasattr(trace, "sparkSession") else tasks_on_record(trace)
        found = _Rules(steps, limit, {*tasks, *known})
        found.run()
    finally:
        steps.unpersist()
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


def _steps(df: DataFrame) -> DataFrame:
    """The columns of the audit, with what a step's own row says."""
    from pyspark.sql import functions as F

    def graph(side: str) -> Column:
        return F.filter(side, lambda m: ~m["stream"].startswith(ACK))

    def acks(side: str) -> Column:
        return F.filter(side, lambda m: m["stream"].startswith(ACK))

    plain = df.select(
        "task", F.col("generation").cast("long").alias("recorded"), F.greatest(F.col("generation").cast("long"), F.lit(0)).alias("generation"),
        F.col("index").cast("long").alias("index"), "rule", F.col("epoch").cast("long").alias("epoch"), F.col("state").cast("long").alias("state"),
        graph("consumed").alias("consumed"), graph("produced").alias("produced"), acks("consumed").alias("heard"), acks("produced").alias("told"),
    )  # fmt: skip
    border = (F.col("rule") == "I-BORDER") | ((F.col("rule") == "SOURCE") & F.exists("produced", lambda m: m["border"]))
    return plain.withColumn("is_border", border).withColumn("work", F.col("rule").isin("SOURCE", "I-EVENT", "I-BORDER"))


@dataclass
class _Small:
    """What fits on the driver: the graph, the crashes, the ends of the generations."""

    tasks: list[str]
    starts: dict[int, int | None]
    cuts: dict[int, int | None]
    inputs: list[tuple[str, str]]  # task, stream
    outputs: list[tuple[str, str, Any]]
    last_border: dict[tuple[str, int], int]
    common: dict[int, int]  # gce at the end of a generation
    reached: dict[int, int]  # the greatest epoch that was common in it, also if it was found damaged afterwards
    lost: dict[int, bool]
    ends: dict[int, int | None]  # the epoch that the recovery at its end went to
    visible: dict[tuple[str, int], int]  # by task: what it had made visible before a generation
    atomic: bool


class _Rules:
    """One audit: the rules in the order of the checks, and what they found."""

    def __init__(self, steps: DataFrame, limit: int, tasks: set[str]) -> None:
        self.known = tasks
        self.steps, self.limit, self.spark = steps, limit, steps.sparkSession
        self.counts: dict[tuple[bool, str], int] = {}
        self.first: list[Violation] = []
        self.asked: list[DataFrame] = []
        self.sizes = (0, 0, 0)
        self.kept: dict[int, tuple[int, int]] = {}
        self.committed = FIRST_EPOCH - 1
        self.acknowledged = False

    def run(self) -> None:
        """Ask everything."""
        self.small = self._gather()
        self._graph()
        placed = self._placed(self.steps).persist()
        try:
            self._count_kept(placed)
            self._recoveries()
            self._ask(self._of_steps(placed))
            self._messages(placed, kept=False)
            self._ask(self._commits(self.steps))
            if any(discarded for _, discarded in self.kept.values()):
                self._ask(self._replayed(placed))
                self._explanation()
            self._answer()
        finally:
            placed.unpersist()

    # What comes to the driver.

    def _gather(self) -> _Small:
        import numpy as np
        from pyspark.sql import DataFrame
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
        targets: dict[int, int] = {}
        self.recoveries = sorted((r for r in crashes if r.rule == "F-RECOVER"), key=lambda r: (r.generation, r.task, r.index))
        for row in self.recoveries:
            targets.setdefault(row.generation, row.epoch)
        size = max(max((r.generation for r in per), default=0), max(targets, default=0)) + 1
        starts = {g: targets.get(g) if g else FIRST_EPOCH - 1 for g in range(size)}
        after: dict[int, int | None] = {g: targets.get(g + 1) for g in range(size)}
        cuts = _least_after(after)
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
        moved = reduce(DataFrame.unionAll, (self.steps.select(F.lit(side).alias("side"), "task", "generation", "index", F.posexplode(side).alias("at", "m"))
                                            for side in ("consumed", "produced")))  # fmt: skip
        pairs = moved.groupBy("side", "task", F.col("m.stream").alias("stream")).agg(
            F.min(F.struct("generation", "index", "at", F.col("m.n").alias("n"))).alias("first")).collect()  # fmt: skip
        sides = [[r for r in pairs if r.side == side] for side in ("consumed", "produced")]
        return _Small(
            tasks, starts, cuts, sorted((r.task, r.stream) for r in sides[0]), sorted((r.task, r.stream, r.first) for r in sides[1]),
            {(r.task, r.generation): r.border for r in per if r.border is not None}, common, reached, {g: stored.lost[g] for g in range(size)}, after,
            seen, atomic,
        )  # fmt: skip

    def _complete(self, durable: Column, tasks: int) -> list[tuple[int, int]]:
        """The last epochs of each generation of which every task has a snapshot: a recovery can go to no other."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        whole = self.steps.filter(durable).groupBy("generation", "epoch").agg(F.countDistinct("task").alias("tasks")).filter(F.col("tasks") == tasks)
        newest = Window.partitionBy("generation").orderBy(F.desc("epoch"))
        rows = whole.withColumn("place", F.row_number().over(newest)).filter(F.col("place") <= _KEPT).collect()
        return sorted((row.generation, row.epoch) for row in rows)

    def _table(self, rows: list[Any], schema: str) -> DataFrame:
        from pyspark.sql import functions as F

        return F.broadcast(self.spark.createDataFrame(rows, schema))

    def _say(self, violation: Violation) -> None:
        key = (violation.kept, violation.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        if sum((v.kept, v.kind) == key for v in self.first) < self.limit:
            self.first.append(violation)

    def _ask(self, violations: DataFrame, *, kept: bool = False) -> None:
        from pyspark.sql import functions as F

        self.asked.append(violations.withColumn("kept", F.lit(kept)))

    def _answer(self) -> None:
        """All violations in one job: how many of each kind, and the first few, which is all that leaves the cluster."""
        from pyspark.sql import DataFrame, Window
        from pyspark.sql import functions as F

        order = [F.col(name) for name in ("task", "generation", "index", "stream", "n", "a", "b", "other")]
        kind = Window.partitionBy("kept", "kind")
        rows = (reduce(DataFrame.unionByName, self.asked).withColumn("place", F.row_number().over(kind.orderBy(*order)))
                .withColumn("count", F.count("*").over(kind)).filter(F.col("place") <= self.limit).collect())  # fmt: skip
        for row in rows:
            self.counts[row.kept, row.kind] = row["count"]
            self.first.append(Violation(**{name: row[name] for name in (*_FIELDS, "kept")}))

    # The rules.

    def _graph(self) -> None:
        from pellucid.failures.audit.rules import way_back

        producers: dict[str, list[str]] = {}
        for task, stream, first in self.small.outputs:
            before = producers.setdefault(stream, [])
            if before:
                self._say(Violation("two-producers", task, first.generation, first["index"], stream, other=before[-1]))
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
            if row.epoch < common:
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

    def _placed(self, steps: DataFrame) -> DataFrame:
        """Beside each step: the one before it, the snapshot that has it, whether its task had failed."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        starts = [(g, s, self.small.cuts[g]) for g, s in self.small.starts.items()]
        back = Window.partitionBy("task", "generation").orderBy(F.desc("index"))
        run = Window.partitionBy("task", "generation").orderBy("index")
        work = Window.partitionBy("task", "generation", "work").orderBy("index")
        out = steps.join(self._table(starts, "generation long, start long, cut long"), "generation", "left")
        out = out.withColumn("next_border", F.last(F.when(F.col("is_border"), F.col("epoch")), ignorenulls=True).over(back))
        out = out.withColumn("failed", F.max((F.col("rule") == "F-FAIL").cast("int")).over(run.rowsBetween(Window.unboundedPreceding, -1)))
        due = F.lag(F.col("epoch") + F.col("is_border").cast("long")).over(work)
        out = out.withColumn("due", due).withColumn("row", F.row_number().over(work))
        return out.withColumn("kept_step", F.col("work") & (F.col("cut").isNull() | (F.col("epoch") <= F.col("cut"))))

    def _count_kept(self, placed: DataFrame) -> None:
        from pyspark.sql import functions as F

        totals = placed.filter("work").groupBy("generation").agg(F.sum(F.col("kept_step").cast("long")), F.count("*")).collect()
        self.kept = {row[0]: (row[1], row[2] - row[1]) for row in totals}

    def _of_steps(self, placed: DataFrame) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        known = [0, *(g for g, start in self.small.starts.items() if g and start is not None)]
        all_in_task = Window.partitionBy("task").orderBy("index", "generation")
        before = F.coalesce(F.lag("index").over(all_in_task), F.lit(-1))
        was = F.lag("recorded").over(all_in_task)
        rule = F.col("rule")

        def count(side: str, border: bool | None = None) -> Column:
            chosen = F.col(side) if border is None else F.filter(side, lambda m: m["border"] if border else ~m["border"])
            return F.size(chosen).cast("long")

        took, took_borders, made, made_borders = count("consumed", False), count("consumed", True), count("produced", False), count("produced", True)
        moved = count("consumed") + count("produced")
        inputs, outputs = self._degree(self.small.inputs), self._degree([(t, s) for t, s, _ in self.small.outputs])
        joined = placed.withColumn("before", before).withColumn("was", was) \
            .join(inputs.withColumnRenamed("degree", "ins"), "task", "left").join(outputs.withColumnRenamed("degree", "outs"), "task", "left")  # fmt: skip
        ins, outs = F.coalesce("ins", F.lit(0)), F.coalesce("outs", F.lit(0))
        names = sorted(set(RULES))
        checks = [
            _no("unknown-rule", ~rule.isin(names), other=rule),
            _no("index", F.col("index") != F.col("before") + 1, a=F.col("before") + 1),
            _no("generation-back", F.col("recorded") < F.col("was"), a=F.col("was")),
            _no("generation-unknown", ~F.col("recorded").isin(known) & ~rule.isin("F-FAIL", "F-LOST")),
            _no("event-shape", (rule == "I-EVENT") & ((took + took_borders == 0) | (took_borders != 0)), a=took, b=took_borders),
            _no("border-shape", (rule == "I-BORDER") & ((took != 0) | (made != 0)), a=took, b=made),
            _no("source-shape", (rule == "SOURCE") & ((took + took_borders != 0) | (made * made_borders != 0)), a=took + took_borders, b=made_borders),
            _no("quiet-shape", rule.isin("SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER") & (moved != 0), a=moved, other=rule),
            _no("after-fail", (F.col("failed") == 1) & ~rule.isin("F-FAIL", "F-LOST")),
            _no("no-snapshot", (rule == "I-BORDER") & F.col("state").isNull()),
            *self._epochs(),
            _no("border-inputs", F.col("is_border") & (count("consumed") != ins), a=count("consumed"), b=ins),
            _no("border-outputs", F.col("is_border") & (count("produced") != outs), a=count("produced"), b=outs),
        ]
        early = placed.filter(rule == "I-EVENT").select("task", F.col("generation"), "index", F.explode("produced").alias("m")).filter("m.border")
        early = early.select(F.lit("border-early").alias("kind"), "task", "generation", "index", F.col("m.stream").alias("stream"), F.col("m.n").alias("n"),
                             *(F.lit(None).cast(t).alias(x) for x, t in (("a", "long"), ("b", "long"), ("other", "string"))))  # fmt: skip
        # The first two rules are about what is recorded, the others about the trace in order.
        return _exploded(joined, checks).unionByName(early)

    def _epochs(self) -> list[Column]:
        from pyspark.sql import functions as F

        first, epoch = F.col("row") == 1, F.col("epoch")
        return [
            _no("epoch", F.col("work") & ~first & (epoch != F.col("due")), a=F.col("due"), b=epoch),
            _no("epoch-start", F.col("work") & first & (epoch != F.col("start") + 1), a=F.col("start") + 1, b=epoch),
        ]

    def _degree(self, pairs: list[tuple[str, str]]) -> DataFrame:
        degrees: dict[str, int] = {}
        for task, _ in pairs:
            degrees[task] = degrees.get(task, 0) + 1
        return self._table(list(degrees.items()), "task string, degree long")

    def _flat(self, placed: DataFrame, side: str) -> DataFrame:
        from pyspark.sql import functions as F

        return placed.select("task", "generation", "index", "epoch", "next_border", F.posexplode(side).alias("at", "m")).select(
            "task", "generation", "index", "epoch", "next_border", "at", F.col("m.stream").alias("stream"), F.col("m.n").alias("n"),
            F.col("m.border").alias("border"), F.col("m.digest").alias("digest"),
        )  # fmt: skip

    def _messages(self, placed: DataFrame, *, kept: bool) -> None:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        consumed, produced = self._flat(placed, "consumed"), self._flat(placed, "produced")
        starts = self._stream_starts(produced, kept)
        for flat, kind in ((consumed, "fifo-consumed"), (produced, "fifo-produced")):
            run = Window.partitionBy("task", "stream", "generation").orderBy("index", "at")
            ordered = flat.withColumn("before", F.lag("n").over(run)).join(starts, ["stream", "generation"], "left")
            n = F.col("n")
            wrong = [_no(kind, n != F.col("before") + 1, a=F.col("before") + 1, message=True),
                     _no(f"{kind}-start", F.col("before").isNull() & (n != F.col("first")), a=F.col("first"), message=True)]  # fmt: skip
            self._ask(_exploded(ordered, wrong), kept=kept)
        self._ask(self._delivered(consumed, produced, kept), kept=kept)

    def _stream_starts(self, produced: DataFrame, kept: bool) -> DataFrame:
        """By stream and generation: the first number, which is the one after the border gone back to (Definition 4.5)."""
        from pyspark.sql import functions as F

        names = sorted({s for _, s, _ in self.small.outputs} | {s for _, s in self.small.inputs})
        whole = {0: FIRST_EPOCH - 1} if kept else self.small.starts
        base = [(s, g, 0) for s in names for g, start in whole.items() if start == FIRST_EPOCH - 1]
        others = [(g, start) for g, start in whole.items() if start not in (None, FIRST_EPOCH - 1)]
        rows = list(base)
        if others:
            wanted = self._table(others, "next long, epoch long")
            last = produced.filter("border").join(wanted, "epoch").filter(F.col("generation") < F.col("next")).groupBy("stream", "next").agg(
                F.max(F.struct("generation", "n")).alias("last")).collect()  # fmt: skip
            rows += [(r.stream, r.next, r["last"].n + 1) for r in last]
        return self._table(rows, "stream string, generation long, first long")

    def _delivered(self, consumed: DataFrame, produced: DataFrame, kept: bool) -> DataFrame:
        from pyspark.sql import functions as F

        key = ["stream", "generation", "n"]
        fields = ["task", "index", "at", "epoch", "next_border", "border", "digest"]
        sent = produced.groupBy(*key).agg(F.min(F.struct(*fields)).alias("p"))
        readers = self._table([(s, t) for t, s in self.small.inputs], "stream string, task string")
        last: dict[tuple[str, int], int] = {}
        for (task, generation), epoch in self.small.last_border.items():
            cut = self.small.cuts[generation]
            if kept and cut is not None and epoch > cut:
                epoch = cut
            end = (task, 0 if kept else generation)
            last[end] = max(epoch, last.get(end, epoch))
        ends = self._table([(t, g, e) for (t, g), e in last.items()], "task string, generation long, last_border long")
        expected = sent.join(readers, "stream", "inner")
        got = consumed.select("stream", "generation", "n", "task", F.struct("index", "epoch", "next_border", "border", "digest").alias("c"))
        pairs = expected.join(got, [*key, "task"], "full_outer").join(ends, ["task", "generation"], "left")
        p, c = F.col("p"), F.col("c")
        both = p.isNotNull() & c.isNotNull()
        at: dict[str, Any] = {"task": F.col("task"), "index": c["index"], "message": True}
        sent_by = {"other": p["task"]}
        crossed = [
            _no("never-sent", p.isNull(), **at),
            _no("altered", both & (p["digest"] != c["digest"]), a=p["digest"], b=c["digest"], **sent_by, **at),
            _no("kind-changed", both & (p["border"] != c["border"]), a=p["border"].cast("long"), b=c["border"].cast("long"), **sent_by, **at),
            _no("epoch-crossed", both & (p["epoch"] != c["epoch"]), a=p["epoch"], b=c["epoch"], **sent_by, **at),
            _no("orphan", both & c["next_border"].isNotNull() & (p["next_border"].isNull() | (c["next_border"] < p["next_border"])), a=c["next_border"],
                **sent_by, **at),
            _no("in-flight", p["next_border"].isNotNull() & (c.isNull() | c["next_border"].isNull() | (c["next_border"] > p["next_border"]))
                & (F.col("last_border") >= p["next_border"]), task=p["task"], index=p["index"], message=True, a=p["next_border"], other=F.col("task")),
        ]  # fmt: skip
        return _exploded(pairs, crossed)

    def _replayed(self, placed: DataFrame) -> DataFrame:
        """What was done again: the same epoch of the same task, from the same snapshot, after the same messages."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        undone = placed.filter(F.col("work") & ~F.col("kept_step")).select("task", "epoch").distinct()
        part = placed.filter("work").join(undone, ["task", "epoch"], "left_semi")
        run = Window.partitionBy("task", "generation", "epoch").orderBy("index")
        # Where borders come by time, a source may end its epoch earlier or later the second time: that is no other message.
        border = ((F.col("rule") == "SOURCE") & F.col("is_border")).cast("int")
        part = part.withColumn("ordinal", F.row_number().over(run) * 2 + border)
        part = part.withColumn("history", F.bit_xor(F.xxhash64("ordinal", "consumed")).over(run)).withColumn("made", F.xxhash64("produced"))
        borders = placed.filter("is_border").select("task", (F.col("epoch") + 1).alias("epoch"), F.col("generation").alias("of"), F.col("state").alias("old"))
        runs = part.select("task", "epoch", "generation").distinct()
        began = runs.join(borders, ["task", "epoch"], "left").filter(F.col("of").isNull() | (F.col("of") <= F.col("generation"))) \
            .groupBy("task", "epoch", "generation").agg(F.max(F.struct("of", "old")).alias("from"))  # fmt: skip
        part = part.join(began, ["task", "epoch", "generation"], "left").withColumn("old", F.coalesce(F.col("from.old"), F.lit(0)))
        again = Window.partitionBy("task", "epoch", "ordinal", "history", "old").orderBy("generation")
        for name in ("made", "state", "generation"):
            part = part.withColumn(f"first_{name}", F.first(name).over(again))
        other = F.col("made") != F.col("first_made")
        seen = self._table([(t, g, e) for (t, g), e in self.small.visible.items()], "task string, generation long, seen long")
        part = part.join(seen, ["task", "generation"], "left")
        again_visible = F.coalesce(F.col("epoch") <= F.col("seen"), F.lit(False))  # a sink leaves out what is there already
        state = ~other & ~again_visible & ~F.col("state").eqNullSafe(F.col("first_state"))
        source = F.col("rule") == "SOURCE"
        more = {"a": F.col("first_generation"), "b": F.col("epoch")}
        return _exploded(part, [_no("source-differs", other & source, **more), _no("task-differs", other & ~source, **more),
                                _no("state-differs", state, **more)])  # fmt: skip

    def _commits(self, steps: DataFrame) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        small = self.small
        durable = F.col("is_border") if small.atomic else F.col("rule") == "SNAPSHOT"
        part = steps.filter((F.col("rule").isin("COMMIT", "SNAPSHOT")) | F.col("is_border"))
        past = Window.partitionBy("task").orderBy("generation", "index").rowsBetween(Window.unboundedPreceding, -1)
        commit, epoch = F.col("rule") == "COMMIT", F.col("epoch")

        def reached(mask: Column) -> Column:
            return F.coalesce(F.max(F.when(mask, epoch)).over(past), F.lit(FIRST_EPOCH - 1))

        part = part.withColumn("stored", reached(durable)).withColumn("border_before", reached(F.col("is_border"))) \
            .withColumn("visible", reached(commit)).withColumn("then", F.last(F.when(commit, F.col("generation")), ignorenulls=True).over(past)) \
            .withColumn("stores", F.max(durable.cast("int")).over(Window.partitionBy("task")) == 1) \
            .withColumn("nth", F.row_number().over(Window.partitionBy("task", "generation", "epoch", "rule").orderBy("index")))  # fmt: skip
        # A snapshot that was damaged may take a recovery below what is visible: then it stays visible, and is replayed.
        cuts = _least_after({g: None if small.lost[g] else end for g, end in small.ends.items()})
        ends = [(g, small.starts[g], cuts[g], small.reached[g], small.common[g]) for g in small.starts]
        part = part.join(self._table(ends, "generation long, start long, cut long, reached long, common long"), "generation", "left")
        visible = F.col("visible")
        new = F.coalesce(epoch > F.col("start"), F.lit(True))
        redone = F.coalesce(F.col("then") < F.col("generation"), F.lit(False))
        snapshot = F.col("rule") == "SNAPSHOT"
        rules = [
            _no("snapshot-early", snapshot & (F.col("border_before") < epoch), a=epoch),
            _no("snapshot-twice", snapshot & (F.col("nth") > 1), a=epoch),
            _no("commit-before-own", commit & new & F.col("stores") & (F.col("stored") < epoch), a=epoch),
            _no("commit-early", commit & new & (F.col("reached") < epoch), a=epoch, b=F.col("common")),
            _no("commit-back", commit & (F.col("cut") < epoch), a=epoch, b=F.col("cut")),
            _no("commit-twice", commit & (epoch == visible) & ~redone, a=epoch),
            _no("commit-order", commit & (epoch < visible), a=epoch, b=visible),
        ]
        return _exploded(part, rules).unionByName(self._heard(part.filter(commit), steps))

    def _heard(self, commits: DataFrame, steps: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        told = steps.filter(F.col("rule") == "SNAPSHOT").select("generation", F.explode("told").alias("m"))
        told = told.groupBy(F.col("m.stream").alias("stream"), F.col("m.n").alias("n")).agg(F.collect_set("generation").alias("when"))
        acks = F.transform(F.filter("heard", lambda m: m["n"] == F.col("epoch")), lambda m: m["stream"])
        wanted = F.array(*(F.lit(f"{ACK}{task}") for task in self.small.tasks))
        named = commits.filter(F.lit(self.acknowledged))
        deaf = named.withColumn("ack", F.explode(F.array_except(wanted, acks)))
        missing = _exploded(deaf, [_no("commit-deaf", F.lit(True), a=F.col("epoch"), other=F.substring("ack", len(ACK) + 1, 1 << 20))])
        heard = commits.select("task", "generation", "index", "epoch", "start", F.explode("heard").alias("m")).select(
            "task", "generation", "index", "epoch", "start", F.col("m.stream").alias("stream"), F.col("m.n").alias("n")).join(told, ["stream", "n"], "left")  # fmt: skip
        now = F.coalesce(F.array_contains("when", F.col("generation")), F.lit(False))
        kept = F.coalesce(F.col("n") <= F.col("start"), F.lit(False))
        return missing.unionByName(_exploded(heard, [_no("commit-unfounded", ~now & ~kept, a=F.col("epoch"), message=True)]))

    def _explanation(self) -> None:
        """The kept steps alone, as one generation (Theorem 6.9)."""
        from pyspark.sql import functions as F

        cuts = self._table(list(self.small.cuts.items()), "generation long, cut long")
        kept = self.steps.join(cuts, "generation", "left").filter(F.col("work") & (F.col("cut").isNull() | (F.col("epoch") <= F.col("cut"))))
        # Within a task the index already goes over all generations; a wrong trace may have it otherwise, and is told so.
        alone = self._placed(kept.drop("cut").withColumn("generation", F.lit(0).cast("long")))
        self._messages(alone, kept=True)
        self._ask(_exploded(alone, self._epochs()), kept=True)
        inputs, outputs = self._degree(self.small.inputs), self._degree([(t, s) for t, s, _ in self.small.outputs])
        wide = alone.join(inputs.withColumnRenamed("degree", "ins"), "task", "left").join(outputs.withColumnRenamed("degree", "outs"), "task", "left")
        ins, outs, took, made = F.coalesce("ins", F.lit(0)), F.coalesce("outs", F.lit(0)), F.size("consumed").cast("long"), F.size("produced").cast("long")
        self._ask(_exploded(wide, [_no("border-inputs", F.col("is_border") & (took != ins), a=took, b=ins),
                                       _no("border-outputs", F.col("is_border") & (made != outs), a=made, b=outs)]), kept=True)  # fmt: skip

    def explained(self) -> Any:
        """The failure-free trace, counted."""
        from pellucid.failures.audit.crashes import Explained

        small = self.small
        order = sorted(small.starts)
        kept = tuple(self.kept.get(g, (0, 0))[0] for g in order)
        discarded = tuple(self.kept.get(g, (0, 0))[1] for g in order)
        recovered = tuple(start for g in order if g and (start := small.starts[g]) is not None)
        return Explained(kept, discarded, recovered, small.common[order[-1]], self.committed)


def _least_after(ends: dict[int, int | None]) -> dict[int, int | None]:
    """By generation: the least epoch that a recovery after it went to."""
    return {g: min((e for h, e in ends.items() if h >= g and e is not None), default=None) for g in ends}


def _no(kind: str, when: Column, *, task: Any = None, index: Any = None, message: bool = False, **more: Any) -> Column:
    """A violation, where the condition holds; null otherwise."""
    from pyspark.sql import functions as F

    def value(name: str, type_: str) -> Column:
        return (more[name] if name in more else F.lit(None)).cast(type_).alias(name)

    fields = [F.lit(kind).alias("kind"), (F.col("task") if task is None else task).alias("task"), F.col("generation").alias("generation"),
              (F.col("index") if index is None else index).alias("index"),
              (F.col("stream") if message else F.lit(None).cast("string")).alias("stream"), (F.col("n") if message else F.lit(None).cast("long")).alias("n"),
              value("a", "long"), value("b", "long"), value("other", "string")]  # fmt: skip
    return F.when(when, F.struct(*fields))


def _exploded(df: DataFrame, checks: list[Column]) -> DataFrame:
    """One row for each violation of each step."""
    from pyspark.sql import functions as F

    if not checks:
        raise UsageError("no rules to ask")
    found = df.select(F.explode(F.filter(F.array(*checks), lambda v: v.isNotNull())).alias("v"))
    return found.select(*(F.col(f"v.{name}").alias(name) for name in _FIELDS))
