"""Real runs, recorded: what is predicted from one is held against what was measured in another.

``python -m tests.capacity.recording FOLDER`` makes the files of ``recorded/`` anew (about two minutes).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parent / "recorded"
ROW = 0.01  # seconds that the slow function of the Spark query takes for a row, on one of two cores
EVERY = 3.0  # seconds between its micro-batches, if it keeps up
RATES = {"slow": 40, "steady": 100, "faster": 130, "too_fast": 300}  # rows per second


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
            rows.select(functions.udf(slow, LongType(), useArrow=False)("value").alias("part")).groupBy("part").count()
            .writeStream.outputMode("update").format("noop").queryName(name)
            .option("checkpointLocation", folder).trigger(processingTime=f"{EVERY} seconds").start()
        )  # fmt: skip
        try:
            time.sleep(seconds)
            return [progress.json for progress in query.recentProgress]
        finally:
            query.stop()


CALM = [(4.0, 100)]  # seconds, and events per second in them
BURST = [(2.0, 100), (3.0, 800), (6.0, 100)]
SLOW = """
import time
from pellucid import Stream, pipeline

def lookup(v: int) -> int:
    time.sleep(0.002)
    return v + 1

@pipeline
def enriched(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v >= 0, id="valid").map(lookup, id="lookup")
"""


def local_run(phases: list[tuple[float, int]]) -> dict[str, Any]:
    """A run of the local engine with a slow step, fed through a pipe at these rates: its measurements, and under
    ``sent`` when so many events had been sent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slow.py").write_text(SLOW)
        command = [sys.executable, "-m", "pellucid", "run", "slow.py:enriched", "--out", "out.csv"]
        process = subprocess.Popen(
            [*command, "--measure", "measured.json"], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdin is not None
        process.stdin.write(b"0\n")  # the first event waits for the imports
        process.stdin.flush()
        while not any(folder.glob("out.csv*")) and not list(folder.glob(".*")) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        sent, count, start, before = list[tuple[float, int]](), 1, time.monotonic(), 0.0
        for seconds, rate in phases:
            done = 0
            while done < rate * seconds:
                due = min(int((time.monotonic() - start - before) * rate), int(rate * seconds))
                process.stdin.write(b"".join(b"%d\n" % n for n in range(count, count + due - done)))
                process.stdin.flush()
                count, done = count + due - done, due
                sent.append((round(time.monotonic() - start, 4), count))
                time.sleep(0.005)
            before += seconds
        process.stdin.close()
        assert process.wait(60) == 0
        found: dict[str, Any] = json.loads((folder / "measured.json").read_text())
    return {**found, "sent": sent[:: max(1, len(sent) // 400)], "sent_all": [sent[-1][0], count]}


def main(folder: Path) -> None:
    """Make all of them."""
    for name, phases in (("calm", CALM), ("burst", BURST)) if "--spark" not in sys.argv else ():
        (folder / f"local_{name}.json").write_text(json.dumps(local_run(phases)) + "\n", encoding="utf-8")
    if "--local" in sys.argv:
        return
    from pellucid.spark.session import session

    spark = session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    for name, rate in {"warm": 20, **RATES}.items():
        lines = spark_query(spark, rate, 25 if name == "warm" else 36, name=name)
        if name != "warm":  # its first batches start Python
            (folder / f"spark_{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
