"""Real runs, recorded: what is predicted from one is held against what was measured in another.

``python -m tests.capacity.recording FOLDER`` makes the files of ``recorded/`` anew (about two minutes).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parent / "recorded"
ROW = 0.01  # seconds that the slow function of the Spark query takes for a row, on one of two cores
EVERY = 3.0  # seconds between its micro-batches, if it keeps up
RATES = {"steady": 100, "too_fast": 300}  # rows per second


def spark_query(spark: SparkSession, rate: int, seconds: float, *, name: str) -> list[str]:
    """A query with a slow step on Spark's source of rows at a rate: its progress, a JSON text for each batch."""
    from pyspark.sql import functions
    from pyspark.sql.types import LongType

    def slow(value: int) -> int:
        time.sleep(0.01)  # ROW: Spark sends the function by value
        return value % 7

    rows = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
    with tempfile.TemporaryDirectory() as folder:
        query = (
            rows.select(functions.udf(slow, LongType())("value").alias("part")).groupBy("part").count()
            .writeStream.outputMode("update").format("noop").queryName(name)
            .option("checkpointLocation", folder).trigger(processingTime=f"{EVERY} seconds").start()
        )  # fmt: skip
        try:
            time.sleep(seconds)
            return [progress.json for progress in query.recentProgress]
        finally:
            query.stop()


def main(folder: Path) -> None:
    """Make all of them."""
    from pellucid.spark.session import session

    spark = session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    for name, rate in {"warm": 20, **RATES}.items():
        lines = spark_query(spark, rate, 20 if name == "warm" else 60, name=name)
        if name != "warm":  # its first batches start Python
            (folder / f"spark_{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
