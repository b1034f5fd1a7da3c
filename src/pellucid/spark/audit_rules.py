"""The rules of the model as DataFrames: a step and the one before it, a message and its producer.

The steps are sorted once, by task, generation and index; then the messages by stream, once on each side, and they are joined by their
numbers.  A second look, which needs another sort, is taken only where the first one says that something is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pellucid.failures.audit.recorded import FIRST_EPOCH, RULES
from pellucid.spark.audit_frames import Asked, exploded, no

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["StepRules"]

# PySpark's `lead` cannot leave out nulls; the other way, a window sorted backwards, would sort the steps again.
_NEXT_BORDER = "lead(if(is_border, epoch, null), 1) IGNORE NULLS OVER (PARTITION BY task, generation ORDER BY index)"


class StepRules(Asked):
    """Steps, their epochs, the order of messages, and what was sent against what was received."""

    regular = True  # indices go up by one, and generations with them

    def _placed(self, steps: DataFrame) -> DataFrame:
        """Beside each step: the one before it, the snapshot that has it, whether its task had failed."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        starts = [(g, s, self.small.cuts[g]) for g, s in self.small.starts.items()]
        run = Window.partitionBy("task", "generation").orderBy("index")
        past = run.rowsBetween(Window.unboundedPreceding, -1)
        border, epoch = F.col("is_border"), F.col("epoch")
        out = steps.join(self._table(starts, "generation long, start long, cut long"), "generation", "left")
        # All in one window, so that the steps are sorted once.
        out = out.select(
            "*", F.coalesce(F.when(border, epoch), F.expr(_NEXT_BORDER)).alias("next_border"),
            F.max((F.col("rule") == "F-FAIL").cast("int")).over(past).alias("failed"),
            F.last(F.when(F.col("work"), epoch + border.cast("long")), ignorenulls=True).over(past).alias("due"),
            F.lag("index").over(run).alias("index_before"),
        )  # fmt: skip
        return out.withColumn("kept_step", F.col("work") & (F.col("cut").isNull() | (F.col("epoch") <= F.col("cut"))))

    def _of_steps(self, placed: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        known = [0, *(g for g, start in self.small.starts.items() if g and start is not None)]
        rule = F.col("rule")
        taken, made_all, took_borders, made_borders = F.col("all_taken"), F.col("all_made"), F.col("took_borders"), F.col("made_borders")
        took, made, moved = taken - took_borders, made_all - made_borders, taken + made_all
        inputs, outputs = (self._degree(pairs) for pairs in self._graph_of(False))
        joined = placed.join(inputs.withColumnRenamed("degree", "ins"), "task", "left").join(outputs.withColumnRenamed("degree", "outs"), "task", "left")
        ins, outs = F.coalesce("ins", F.lit(0)), F.coalesce("outs", F.lit(0))
        names = sorted(set(RULES))
        checks = [
            no("unknown-rule", ~rule.isin(names), other=rule),
            no("generation-unknown", ~F.col("recorded").isin(known) & ~rule.isin("F-FAIL", "F-LOST")),
            no("event-shape", (rule == "I-EVENT") & ((took + took_borders == 0) | (took_borders != 0)), a=took, b=took_borders),
            no("border-shape", (rule == "I-BORDER") & ((took != 0) | (made != 0)), a=took, b=made),
            no("source-shape", (rule == "SOURCE") & ((took + took_borders != 0) | (made * made_borders != 0)), a=took + took_borders, b=made_borders),
            no("quiet-shape", rule.isin("SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER") & (moved != 0), a=moved, other=rule),
            no("after-fail", (F.col("failed") == 1) & ~rule.isin("F-FAIL", "F-LOST")),
            no("no-snapshot", (rule == "I-BORDER") & F.col("state").isNull()),
            *self._epochs(),
            no("border-inputs", F.col("is_border") & (taken != ins), a=taken, b=ins),
            no("border-outputs", F.col("is_border") & (made_all != outs), a=made_all, b=outs),
        ]
        early = placed.filter((rule == "I-EVENT") & (made_borders > 0)).select("task", F.col("generation"), "index", F.explode("produced").alias("m")).filter("m.border")
        early = early.select(F.lit("border-early").alias("kind"), "task", "generation", "index", F.col("m.stream").alias("stream"), F.col("m.n").alias("n"),
                             *(F.lit(None).cast(t).alias(x) for x, t in (("a", "long"), ("b", "long"), ("other", "string"))))  # fmt: skip
        found = exploded(joined, checks).unionByName(early)
        return found if self.regular else found.unionByName(self._indices(placed))

    def _indices(self, placed: DataFrame) -> DataFrame:
        """Which steps are out of order: about what is recorded, where the other rules are about the trace in order."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        whole = Window.partitionBy("task").orderBy("index", "generation")
        due = F.coalesce(F.lag("index").over(whole), F.lit(-1)) + 1
        beside = placed.select("task", "generation", "index", "recorded", due.alias("index_due"), F.lag("recorded").over(whole).alias("was"))
        return exploded(beside, [no("index", F.col("index") != F.col("index_due"), a=F.col("index_due")),
                                  no("generation-back", F.col("recorded") < F.col("was"), a=F.col("was"))])  # fmt: skip

    def _epochs(self) -> list[tuple[Column, Column]]:
        from pyspark.sql import functions as F

        first, epoch = F.col("due").isNull(), F.col("epoch")
        return [
            no("epoch", F.col("work") & ~first & (epoch != F.col("due")), a=F.col("due"), b=epoch),
            no("epoch-start", F.col("work") & first & (epoch != F.col("start") + 1), a=F.col("start") + 1, b=epoch),
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

    def _in_order(self, placed: DataFrame, consumed: DataFrame, produced: DataFrame, *, kept: bool) -> None:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        starts = self._stream_starts(placed, kept)
        for flat, kind in ((consumed, "fifo-consumed"), (produced, "fifo-produced")):
            run = Window.partitionBy("task", "stream", "generation").orderBy("index", "at")
            ordered = flat.withColumn("before", F.lag("n").over(run)).join(starts, ["stream", "generation"], "left")
            n = F.col("n")
            wrong = [no(kind, n != F.col("before") + 1, a=F.col("before") + 1, message=True),
                     no(f"{kind}-start", F.col("before").isNull() & (n != F.col("first")), a=F.col("first"), message=True)]  # fmt: skip
            self._ask(exploded(ordered, wrong), kept=kept)

    def _stream_starts(self, placed: DataFrame, kept: bool) -> DataFrame:
        """By stream and generation: the first number, which is the one after the border gone back to (Definition 4.5)."""
        from pyspark.sql import functions as F

        names = sorted({s for _, s, _, _ in self.small.outputs} | {s for _, s in self.small.inputs})
        whole = {0: FIRST_EPOCH - 1} if kept else self.small.starts
        base = [(s, g, 0) for s in names for g, start in whole.items() if start == FIRST_EPOCH - 1]
        others = [(g, start) for g, start in whole.items() if start not in (None, FIRST_EPOCH - 1)]
        rows = list(base)
        if others:
            wanted = self._table(others, "next long, epoch long")
            borders = placed.filter("made_borders > 0")
            borders = self._flat(borders, "produced").filter("border")
            last = borders.join(wanted, "epoch").filter(F.col("generation") < F.col("next")).groupBy("stream", "next").agg(
                F.max(F.struct("generation", "n")).alias("last")).collect()  # fmt: skip
            rows += [(r.stream, r.next, r["last"].n + 1) for r in last]
        return self._table(rows, "stream string, generation long, first long")

    def _delivered(self, consumed: DataFrame, produced: DataFrame, *, kept: bool, once: bool) -> DataFrame:
        """``once``: nothing is sent or taken twice, so that need not be looked for."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        key = ["n", "generation", "stream"]  # the number first: it tells messages apart when they are sorted
        fields = ["task", "index", "at", "epoch", "next_border", "border", "digest"]
        struct = F.struct(*fields)
        sent = produced.select(*key, struct.alias("p")) if once else produced.groupBy(*key).agg(F.min(struct).alias("p"))
        readers = self._table([(s, t) for t, s in self._graph_of(kept)[0]], "stream string, task string")
        last = {} if kept else self.small.last_border
        for r in self.segments if kept else ():
            if r.border is not None:
                last[r.task, 0] = max(r.border, last.get((r.task, 0), r.border))
        ends = self._table([(t, g, e) for (t, g), e in last.items()], "task string, generation long, last_border long")
        expected = sent.join(readers, "stream", "inner")
        got = consumed.select("stream", "generation", "n", "task", F.struct("index", "epoch", "next_border", "border", "digest").alias("c"))
        pairs = expected.join(got, [*key, "task"], "full_outer").join(ends, ["task", "generation"], "left")
        p, c = F.col("p"), F.col("c")
        received, nth = c["next_border"], F.lit(1)
        if not once:  # taken twice it is in flight once, and only if no time is early enough
            alike = Window.partitionBy(*key, "task")
            pairs = pairs.withColumn("received", F.min(received).over(alike)).withColumn("nth", F.row_number().over(alike.orderBy(c["index"])))
            received, nth = F.col("received"), F.col("nth")
        both = p.isNotNull() & c.isNotNull()
        at: dict[str, Any] = {"task": F.col("task"), "index": c["index"], "message": True}
        sent_by = {"other": p["task"]}
        crossed = [
            no("never-sent", p.isNull(), **at),
            no("altered", both & (p["digest"] != c["digest"]), a=p["digest"], b=c["digest"], **sent_by, **at),
            no("kind-changed", both & (p["border"] != c["border"]), a=p["border"].cast("long"), b=c["border"].cast("long"), **sent_by, **at),
            no("epoch-crossed", both & (p["epoch"] != c["epoch"]), a=p["epoch"], b=c["epoch"], **sent_by, **at),
            no("orphan", both & c["next_border"].isNotNull() & (p["next_border"].isNull() | (c["next_border"] < p["next_border"])), a=c["next_border"],
                **sent_by, **at),
            no("in-flight", p["next_border"].isNotNull() & (received.isNull() | (received > p["next_border"])) & (nth == 1)
                & (F.col("last_border") >= p["next_border"]), task=p["task"], index=p["index"], message=True, a=p["next_border"], other=F.col("task")),
        ]  # fmt: skip
        return exploded(pairs, crossed)
