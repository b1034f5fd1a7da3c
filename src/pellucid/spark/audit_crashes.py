"""What a trace says about its crashes, as DataFrames: commits, replays, and the failure-free run (Theorem 6.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.failures.audit.recorded import ACK, FIRST_EPOCH
from pellucid.spark.audit_frames import exploded, least_after, no
from pellucid.spark.audit_rules import StepRules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CrashRules"]


class CrashRules(StepRules):
    """Snapshots, commits and what they waited for; what was done again; the kept steps alone."""

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
        return exploded(part, [no("source-differs", other & source, **more), no("task-differs", other & ~source, **more),
                                no("state-differs", state, **more)])  # fmt: skip

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
        cuts = least_after({g: None if small.lost[g] else end for g, end in small.ends.items()})
        ends = [(g, small.starts[g], cuts[g], small.reached[g], small.common[g]) for g in small.starts]
        part = part.join(self._table(ends, "generation long, start long, cut long, reached long, common long"), "generation", "left")
        visible = F.col("visible")
        new = F.coalesce(epoch > F.col("start"), F.lit(True))
        redone = F.coalesce(F.col("then") < F.col("generation"), F.lit(False))
        snapshot = F.col("rule") == "SNAPSHOT"
        rules = [
            no("snapshot-early", snapshot & (F.col("border_before") < epoch), a=epoch),
            no("snapshot-twice", snapshot & (F.col("nth") > 1), a=epoch),
            no("commit-before-own", commit & new & F.col("stores") & (F.col("stored") < epoch), a=epoch),
            no("commit-early", commit & new & (F.col("reached") < epoch), a=epoch, b=F.col("common")),
            no("commit-back", commit & (F.col("cut") < epoch), a=epoch, b=F.col("cut")),
            no("commit-twice", commit & (epoch == visible) & ~redone, a=epoch),
            no("commit-order", commit & (epoch < visible), a=epoch, b=visible),
        ]
        return exploded(part, rules).unionByName(self._heard(part.filter(commit), steps))

    def _heard(self, commits: DataFrame, steps: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        told = steps.filter(F.col("rule") == "SNAPSHOT").select("generation", F.explode("told").alias("m"))
        told = told.groupBy(F.col("m.stream").alias("stream"), F.col("m.n").alias("n")).agg(F.collect_set("generation").alias("when"))
        acks = F.transform(F.filter("heard", lambda m: m["n"] == F.col("epoch")), lambda m: m["stream"])
        wanted = F.array(*(F.lit(f"{ACK}{task}") for task in self.small.tasks))
        named = commits.filter(F.lit(self.acknowledged))
        deaf = named.withColumn("ack", F.explode(F.array_except(wanted, acks)))
        missing = exploded(deaf, [no("commit-deaf", F.lit(True), a=F.col("epoch"), other=F.substring("ack", len(ACK) + 1, 1 << 20))])
        heard = commits.select("task", "generation", "index", "epoch", "start", F.explode("heard").alias("m")).select(
            "task", "generation", "index", "epoch", "start", F.col("m.stream").alias("stream"), F.col("m.n").alias("n")).join(told, ["stream", "n"], "left")  # fmt: skip
        now = F.coalesce(F.array_contains("when", F.col("generation")), F.lit(False))
        kept = F.coalesce(F.col("n") <= F.col("start"), F.lit(False))
        return missing.unionByName(exploded(heard, [no("commit-unfounded", ~now & ~kept, a=F.col("epoch"), message=True)]))

    def _explanation(self, placed: DataFrame) -> None:
        """The kept steps alone, as one generation (Theorem 6.9)."""
        from pyspark.sql import functions as F

        kept = placed.filter("kept_step").select(*self.steps.columns)
        # Within a task the index already goes over all generations; a wrong trace may have it otherwise, and is told so.
        alone = self._placed(kept.withColumn("generation", F.lit(0).cast("long")))
        consumed, produced = self._flat(alone, "consumed"), self._flat(alone, "produced")
        self._in_order(alone, consumed, produced, kept=True)
        self._ask(self._delivered(consumed, produced, kept=True, once=False), kept=True)
        self._ask(exploded(alone, self._epochs()), kept=True)
        inputs, outputs = (self._degree(pairs) for pairs in self._graph_of(True))
        wide = alone.join(inputs.withColumnRenamed("degree", "ins"), "task", "left").join(outputs.withColumnRenamed("degree", "outs"), "task", "left")
        ins, outs, took, made = F.coalesce("ins", F.lit(0)), F.coalesce("outs", F.lit(0)), F.size("consumed").cast("long"), F.size("produced").cast("long")
        self._ask(exploded(wide, [no("border-inputs", F.col("is_border") & (took != ins), a=took, b=ins),
                                       no("border-outputs", F.col("is_border") & (made != outs), a=made, b=outs)]), kept=True)  # fmt: skip
