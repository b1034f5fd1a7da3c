"""What the rules of the audit on Spark share: the columns of a step, the small tables beside it, and how a rule is asked.

Nearly every step of a trace is right.  So a rule is a condition, which compiled code asks of every step, and a violation, which is
made only where the condition holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError
from pellucid.failures.audit.recorded import ACK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FIELDS", "Asked", "Small", "exploded", "least_after", "no", "steps_of"]

FIELDS = ("kind", "task", "generation", "index", "stream", "n", "a", "b", "other")


def steps_of(df: DataFrame) -> DataFrame:
    """The columns of the audit, with what a step's own row says."""
    from pyspark.sql import functions as F

    def part(side: str, acks: bool) -> Column:
        """The acks, or the other messages.  Functions of arrays are not compiled: most steps have one message, and do without."""
        of = F.col(side)
        fits = of[0]["stream"].startswith(ACK) == acks
        return (F.when(F.size(of) == 0, of).when(F.size(of) == 1, F.when(fits, of).otherwise(F.slice(of, 1, 0)))
                .otherwise(F.filter(of, lambda m: m["stream"].startswith(ACK) == acks)))  # fmt: skip

    def borders(side: str) -> Column:
        of = F.col(side)
        several = F.size(F.filter(of, lambda m: m["border"]))
        return F.when(F.size(of) == 0, 0).when(F.size(of) == 1, of[0]["border"].cast("int")).otherwise(several).cast("long")

    plain = df.select(
        "task", F.col("generation").cast("long").alias("recorded"), F.greatest(F.col("generation").cast("long"), F.lit(0)).alias("generation"),
        F.col("index").cast("long").alias("index"), "rule", F.col("epoch").cast("long").alias("epoch"), F.col("state").cast("long").alias("state"),
        part("consumed", False).alias("consumed"), part("produced", False).alias("produced"), part("consumed", True).alias("heard"),
        part("produced", True).alias("told"),
    )  # fmt: skip
    counted = plain.select(
        "*", borders("consumed").alias("took_borders"), borders("produced").alias("made_borders"), F.size("consumed").cast("long").alias("all_taken"),
        F.size("produced").cast("long").alias("all_made"),
    )  # fmt: skip
    border = (F.col("rule") == "I-BORDER") | ((F.col("rule") == "SOURCE") & (F.col("made_borders") > 0))
    return counted.withColumn("is_border", border).withColumn("work", F.col("rule").isin("SOURCE", "I-EVENT", "I-BORDER"))


@dataclass
class Small:
    """What fits on the driver: the graph, the crashes, the ends of the generations."""

    tasks: list[str]
    starts: dict[int, int | None]
    cuts: dict[int, int | None]
    inputs: list[tuple[str, str]]  # task, stream
    outputs: list[tuple[str, str, int, int]]  # with the first step that did so: its generation and index
    last_border: dict[tuple[str, int], int]
    common: dict[int, int]  # gce at the end of a generation
    reached: dict[int, int]  # the greatest epoch that was common in it, also if it was found damaged afterwards
    lost: dict[int, bool]
    ends: dict[int, int | None]  # the epoch that the recovery at its end went to
    visible: dict[tuple[str, int], int]  # by task: what it had made visible before a generation
    atomic: bool


class Asked:
    """One audit: the steps, what is known of them on the driver, and the violations to be looked for."""

    small: Small
    segments: list[Any]  # one row for each task in each generation: what is kept of it
    ranges: list[tuple[str, str, str, int, int, int]]  # side, task, stream, generation: the least and the greatest number that is kept

    def __init__(self, steps: DataFrame) -> None:
        self.steps, self.spark = steps, steps.sparkSession
        self.asked: list[DataFrame] = []
        self.acknowledged = False  # whether there is any ack on record

    def _graph_of(self, kept: bool) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Who reads and who writes which stream, in the trace or in what is kept of it."""
        if not kept:
            return self.small.inputs, [(task, stream) for task, stream, _, _ in self.small.outputs]
        sides = [sorted({(task, stream) for of, task, stream, *_ in self.ranges if of == side}) for side in ("consumed", "produced")]
        return sides[0], sides[1]

    def _table(self, rows: list[Any], schema: str) -> DataFrame:
        """A small table in the plan itself: `createDataFrame` would start a Python worker for it."""
        from pyspark.sql import functions as F

        names = [field.strip().split(" ")[0] for field in schema.split(",")]
        text = F.lit(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        listed = F.from_json(text, f"array<struct<{schema.replace(', ', ',').replace(' ', ':')}>>")
        return F.broadcast(self.spark.range(1, numPartitions=1).select(F.inline(listed)))

    def _ask(self, violations: DataFrame, *, kept: bool = False) -> None:
        from pyspark.sql import functions as F

        self.asked.append(violations.withColumn("kept", F.lit(kept)))


def least_after(ends: dict[int, int | None]) -> dict[int, int | None]:
    """By generation: the least epoch that a recovery after it went to."""
    return {g: min((e for h, e in ends.items() if h >= g and e is not None), default=None) for g in ends}


def no(kind: str, when: Column, *, task: Any = None, index: Any = None, message: bool = False, **more: Any) -> tuple[Column, Column]:
    """A rule: when it is broken, and the violation there; null otherwise."""
    from pyspark.sql import functions as F

    def value(name: str, type_: str) -> Column:
        return (more[name] if name in more else F.lit(None)).cast(type_).alias(name)

    fields = [F.lit(kind).alias("kind"), (F.col("task") if task is None else task).alias("task"), F.col("generation").alias("generation"),
              (F.col("index") if index is None else index).alias("index"),
              (F.col("stream") if message else F.lit(None).cast("string")).alias("stream"), (F.col("n") if message else F.lit(None).cast("long")).alias("n"),
              value("a", "long"), value("b", "long"), value("other", "string")]  # fmt: skip
    return when, F.when(when, F.struct(*fields))


def exploded(df: DataFrame, checks: list[tuple[Column, Column]]) -> DataFrame:
    """One row for each violation of each step."""
    from pyspark.sql import functions as F

    if not checks:
        raise UsageError("no rules to ask")
    # Nearly all steps are right: they are passed over by compiled code, and only the others are looked at rule by rule.
    wrong = df.filter(reduce(lambda a, b: a | b, (when for when, _ in checks)))
    found = wrong.select(F.explode(F.filter(F.array(*(v for _, v in checks)), lambda v: v.isNotNull())).alias("v"))
    return found.select(*(F.col(f"v.{name}").alias(name) for name in FIELDS))
