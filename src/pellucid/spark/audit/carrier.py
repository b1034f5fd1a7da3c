"""What an audit asks of Spark: to carry steps to its workers, and notes to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F

from pellucid.spark.audit.blobs import NEEDED, ROWS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pellucid.spark.audit.blobs import Worker


class SparkCarrier:
    """A trace as a DataFrame.  It is read twice: a few columns, to see how to cut it, and then all, into blobs, which
    stay on the disks of the workers."""

    def __init__(self, df: DataFrame) -> None:
        long = {name: F.col(name).cast("long") for name in ("generation", "index", "epoch", "state")}
        self.steps = df.select(
            *(long[name].alias(name) if name in long else F.col(name) for name in (*NEEDED, "state"))
        )
        self.blobs: DataFrame | None = None

    @property
    def partitions(self) -> int:
        """How many Spark is set to have after a shuffle."""
        text = str(self.steps.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
        return int(text) if text.isdigit() else 200  # some platforms say "auto"

    def flat(self, worker: Worker) -> list[bytes]:
        """The steps without their messages through a worker."""
        return _notes(
            self.steps.select(*(name for name in NEEDED if name not in ("consumed", "produced"))).mapInArrow(
                worker, ROWS
            )
        )

    def pack(self, worker: Worker, partitions: int) -> None:
        """All steps into blobs, those of a piece in one place."""
        self.blobs = _together(self.steps.mapInArrow(worker, ROWS), partitions).persist(StorageLevel.DISK_ONLY)

    def survey(self, worker: Worker) -> list[bytes]:
        """What is noted beside the blobs."""
        assert self.blobs is not None
        return _notes(self.blobs.drop("blob").mapInArrow(worker, ROWS))

    def through(self, first: Worker, second: Worker, partitions: int) -> list[bytes]:
        """The blobs through two workers, with a shuffle in between."""
        assert self.blobs is not None
        return _notes(_together(self.blobs.drop("note").mapInArrow(first, ROWS), partitions).mapInArrow(second, ROWS))

    def close(self) -> None:
        """Give up the blobs."""
        if self.blobs is not None:
            self.blobs.unpersist()

    def disorder(self, limit: int) -> list[Any]:
        """Which steps are out of order: about what is recorded, where the other rules are about the trace in order."""
        whole = Window.partitionBy("task").orderBy("index", "generation")
        due, was = F.coalesce(F.lag("index").over(whole) + 1, F.lit(0)), F.lag("generation").over(whole)
        beside = self.steps.select("task", "generation", "index", due.alias("due"), was.alias("was"))

        def wrong(kind: str, when: Column, a: str) -> DataFrame:
            return beside.filter(when).select(
                F.lit(kind).alias("kind"), "task", "generation", "index", F.col(a).alias("a")
            )

        both = wrong("index", F.col("index") != F.col("due"), "due").unionAll(
            wrong("generation-back", F.col("generation") < F.col("was"), "was")
        )
        kind = Window.partitionBy("kind")
        ordered = both.withColumn("place", F.row_number().over(kind.orderBy("task", "index", "generation")))
        return list(ordered.withColumn("count", F.count("*").over(kind)).filter(F.col("place") <= limit).collect())


def _together(rows: DataFrame, partitions: int) -> DataFrame:
    return rows.repartition(partitions, "key").sortWithinPartitions("key")


def _notes(rows: DataFrame) -> list[bytes]:
    return [bytes(row.note) for row in rows.select("note").collect()]
