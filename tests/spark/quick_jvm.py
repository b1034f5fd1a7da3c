"""Javas that start quickly: a test's Java lives for seconds, and without this it spends most of them on itself.

Two things cost most of the processor time of a small Spark: its optimising compiler, and reading 13,000 classes from
jars.  So the tests' Javas compile simply, and map the classes from an archive (class data sharing) that ``python -m
tests.spark.quick_jvm`` makes once, from a small job.  Where there is no archive, or one of another Java or Spark, Java
takes the jars, without a word: the answers are the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(sys.prefix) / "spark.jsa"
SIMPLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What only the processes of a cluster load; the job that makes the archive runs in one process.
OF_A_CLUSTER = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
    "org.apache.spark.deploy.client.StandaloneAppClient",
)


def options() -> str:
    """What to put on the command line of a Java that runs Spark."""
    shared = (
        f" -XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:cds*=off -Xlog:class+path=off" if ARCHIVE.exists() else ""
    )
    return SIMPLE + shared


def set_up() -> None:
    """Tell every Spark that this process or a child of it will start; what the caller's shell says stays."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SIMPLE)  # the little Java that finds the command line of the other
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options())
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", options())


def main() -> None:
    """Make the archive; it appears whole or not at all."""
    from pellucid.spark.session import session, stop_if_ours

    with tempfile.TemporaryDirectory(prefix="pellucid-", dir=ARCHIVE.parent) as name:
        folder, made = Path(name), Path(name) / "made.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{SIMPLE} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off"
        spark = session(
            master="local[2]",
            conf={
                "spark.sql.session.timeZone": "UTC",
                "spark.local.dir": str(folder / "local"),
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
            },
        )
        gateway: Any = spark.sparkContext._gateway
        exercise(spark, folder)
        for cluster in OF_A_CLUSTER:
            gateway.jvm.java.lang.Class.forName(cluster)
        stop_if_ours(spark)
        gateway.proc.stdin.close()  # then it ends by itself, and writes the archive as it goes
        gateway.proc.wait(300)
        if made.exists():
            made.replace(ARCHIVE)


def exercise(spark: SparkSession, folder: Path) -> None:
    """A batch and a stream with Python in them, so that what the tests need is loaded."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    rows = spark.range(100).selectExpr(
        "id", "id % 3 AS k", "id / 7D AS x", "CAST(id AS STRING) AS s", "current_timestamp() AS at"
    )
    for kind in ("parquet", "json", "csv"):
        rows.write.format(kind).save(str(folder / kind))
        spark.read.schema(rows.schema).format(kind).load(str(folder / kind)).orderBy("k", "id").collect()
    rows.createOrReplaceTempView("rows")
    spark.sql("SELECT k, sum(x) OVER (PARTITION BY k ORDER BY id), s, at FROM rows WHERE id > 3").toPandas()
    rows.repartitionByRange(2, "id").mapInArrow(same, rows.schema).groupBy("k").applyInArrow(
        lambda table: table, rows.schema
    ).toArrow()
    rows.groupBy("k").applyInPandas(lambda frame: frame, rows.schema).join(rows.select("id"), "id").count()
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "parquet"))

    def take(batch: Any, _: int) -> None:
        batch.persist().collect()
        batch.unpersist()

    for writer in (
        stream.groupBy("k").count().writeStream.outputMode("update").foreachBatch(take),
        stream.mapInArrow(same, rows.schema).writeStream.format("parquet").option("path", str(folder / "out")),
    ):
        checkpoint = tempfile.mkdtemp(dir=folder)
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    try:
        main()
    except UsageError as reason:  # no Spark here, or no Java
        sys.exit(str(reason))
