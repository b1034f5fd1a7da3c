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
    """A query with a slow step on Spark's source of rows at a rate: its progress, a JSON text for each batch; for so
    many seconds, and on a machine that is busy with other things for longer, until some batches are done."""
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
            until = time.monotonic() + seconds
            while time.monotonic() < until or (
                sum(p.numInputRows > 0 for p in query.recentProgress) < 3 and time.monotonic() < until + 10 * seconds
            ):
                time.sleep(0.5)
            return [progress.json for progress in query.recentProgress]
        finally:
            query.stop()


CALM = [(4.0, 20)]  # seconds, and events per second in them
BURST = [(2.0, 20), (3.0, 200), (7.0, 20)]
SLOW = """
import time
from typing import NamedTuple
from pellucid import Stream, pipeline

class Seen(NamedTuple):
    began: int
    done: int

def lookup(v: int) -> Seen:
    began = time.monotonic_ns()
    time.sleep(0.01)
    return Seen(began, time.monotonic_ns())

@pipeline
def enriched(x: Stream[int]) -> Stream[Seen]:
    return x.filter(lambda v: v >= 0, id="valid").map(lookup, id="lookup")
"""


def local_run(phases: list[tuple[float, int]]) -> dict[str, Any]:
    """A run of the local engine with a slow step, fed through a pipe at these rates: its measurements, and besides what
    the engine has no part in.  ``sent`` says of each writing from when to when it went, and how many events had been
    sent with it; ``seen`` says of each event when the slow function began with it and when it was done, by its own
    clock, which is the sender's.  All times are in seconds since the first event was sent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slow.py").write_text(SLOW)
        command = [sys.executable, "-m", "pellucid", "run", "slow.py:enriched", "--out", "out.csv"]
        process = subprocess.Popen(
            [*command, "--measure", "measured.json"], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        pipe = process.stdin
        assert pipe is not None
        sent, start, count = list[tuple[float, float, int]](), time.monotonic(), 0

        def send(new: int) -> None:
            nonlocal count
            began = time.monotonic() - start
            pipe.write(b"".join(b"%d\n" % n for n in range(count, count + new)))
            pipe.flush()
            count += new
            sent.append((round(began, 4), round(time.monotonic() - start, 4), count))

        send(1)  # the first event waits for the imports
        while not any(folder.glob("out.csv*")) and not list(folder.glob(".*")) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        begin = time.monotonic()
        for seconds, rate in phases:
            done = 0
            while done < rate * seconds:
                due = min(int((time.monotonic() - begin) * rate), int(rate * seconds))
                if due > done:
                    send(due - done)
                    done = due
                time.sleep(0.005)
            begin += seconds
        pipe.close()
        assert process.wait(120) == 0
        found: dict[str, Any] = json.loads((folder / "measured.json").read_text())
        rows = [line.split(",") for line in (folder / "out.csv").read_text().splitlines()[1:]]
    seen = [tuple(round(int(ns) / 1e9 - start, 4) for ns in row[-2:]) for row in rows]
    return {**found, "sent": sent, "seen": seen}


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
