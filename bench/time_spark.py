"""Windows and joins by event time as streaming queries on Spark: Pellucid's, beside Spark's own, in the same run.

    python bench/time_spark.py [--events 1000000] [--join-events 200000] [--batches 10] [--keys 1000] [--case join]

Events come up to a minute out of order, over a day, in Parquet files, one for each micro-batch; both sides write what
comes out to Parquet, and both allow for a minute of lateness.  The answers of both are compared before any time counts.
Figures are events for each second, from the start of a query to its end, the best of ``--repeat`` runs; beside them is
the time of processors, which counts on a machine that has other things to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import time_events
from pyspark import cloudpickle
from time_events import Event, drawn, timed, total

from pellucid import Pipeline, join, pipeline
from pellucid.spark.session import session, stop_if_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GAP, NEAR = timedelta(minutes=3), timedelta(seconds=20)
SCHEMA = "when timestamp_ntz, user bigint, amount bigint"


OURS: dict[str, Pipeline] = {
    "tumbling": pipeline(lambda x: timed(x).tumbling(timedelta(minutes=10), total), x=Event),
    "session": pipeline(lambda x: timed(x).session(GAP, total), x=Event),
    "join": pipeline(
        lambda a, b: join(timed(a), timed(b), within=NEAR).map(lambda p: (p[0].amount, p[1].amount)), a=Event, b=Event
    ),
}


def in_spark(case: str, frames: list[DataFrame]) -> DataFrame:
    """The same, written for Spark alone."""
    from pyspark.sql import functions as F

    marked = [df.withColumn("when", F.col("when").cast("timestamp")).withWatermark("when", "1 minute") for df in frames]
    if case == "join":
        a, b = (df.select(*[F.col(c).alias(f"{c}{i}") for c in df.columns]) for i, df in enumerate(marked))
        near = F.expr("when1 between when0 - interval 20 seconds and when0 + interval 20 seconds")
        return a.join(b, (F.col("user0") == F.col("user1")) & near).select("amount0", "amount1")
    window = F.window("when", "10 minutes") if case == "tumbling" else F.session_window("when", "3 minutes")
    return marked[0].groupBy("user", window.alias("w")).agg(F.sum("amount").alias("value")).select("w.start", "value")


def files(folder: Path, events: int, batches: int, keys: int, seed: int) -> None:
    """Events in the order of arrival, a file for each micro-batch."""
    when, user, amount = drawn(np.random.default_rng(seed), events, keys)
    folder.mkdir()
    for number, at in enumerate(np.array_split(np.arange(events), batches)):
        times = pa.array(when[at], pa.timestamp("us"))
        file = folder / f"{number:03d}.parquet"
        pq.write_table(pa.table({"when": times, "user": user[at], "amount": amount[at]}), file, row_group_size=1 << 16)
        os.utime(file, (number * 10 + 1e9,) * 2)


def processor() -> float:
    """Seconds of processor time of this process and all that it has started, Java and its Python workers, also those
    that have ended."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        number = int(stat.parent.name)
        parents[number], used[number] = int(fields[1]), sum(map(int, fields[11:15]))
    own, total = {os.getpid()}, 0
    while own:
        total += sum(used.get(number, 0) for number in own)
        own = {number for number, parent in parents.items() if parent in own}
    return total / os.sysconf("SC_CLK_TCK")


def run(
    spark: SparkSession, inputs: list[Path], make: Callable[[list[DataFrame], Path], DataFrame]
) -> tuple[float, float, Any]:
    """A query to its end: seconds on the wall, those of processors, and what came out, in an order of its own."""
    folder = Path(tempfile.mkdtemp())
    frames = [spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(p)) for p in inputs]
    begin, busy = time.monotonic(), processor()
    out = make(frames, folder).writeStream.format("parquet").option("path", str(folder / "out"))
    query = out.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds, busy = time.monotonic() - begin, processor() - busy
    found = spark.read.parquet(str(folder / "out")).toArrow()
    columns = [_numbers(found.column(i)) for i in range(found.num_columns)]
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, busy, np.array(columns)[:, np.lexsort(columns)]


def _numbers(column: Any) -> Any:
    kind = column.type
    return (column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_numpy()


def main() -> None:
    """Measure, compare, tell."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    # A join of a million events did not end within ten minutes.
    options.add_argument("--join-events", type=int, default=200_000, help="of both sides together")
    options.add_argument("--batches", type=int, default=10)
    options.add_argument("--keys", type=int, default=1000)
    options.add_argument("--case", action="append", choices=list(OURS))
    options.add_argument("--repeat", type=int, default=2)
    options.add_argument("--json", type=Path)
    said = options.parse_args()
    cloudpickle.register_pickle_by_value(time_events)  # Spark's workers do not find it
    spark = session(conf={"spark.sql.session.timeZone": "UTC"})
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp())
    files(folder / "x", said.events, said.batches, said.keys, 1)
    for number, name in enumerate("ab"):
        files(folder / name, said.join_events // 2, said.batches, said.keys, 2 + number)
    found: dict[str, dict[str, float]] = {}
    for case, p in OURS.items():
        if case not in (said.case or OURS):
            continue
        inputs = [folder / "a", folder / "b"] if case == "join" else [folder / "x"]

        def own(frames: list[DataFrame], where: Path, p: Pipeline = p, case: str = case) -> DataFrame:
            out = p.spark(*frames, state=str(where / "state"))
            return out if case == "join" else out.select("start", "value")

        def sparks(frames: list[DataFrame], _: Path, case: str = case) -> DataFrame:
            return in_spark(case, frames)

        best, least, answers = {}, {}, {}
        for who, make in (("pellucid", own), ("spark", sparks)):
            runs = [run(spark, inputs, make) for _ in range(said.repeat)]
            best[who], least[who], answers[who] = min(r[0] for r in runs), min(r[1] for r in runs), runs[-1][2]
            took = ", ".join(f"{wall:.1f} ({busy:.1f})" for wall, busy, _ in runs)
            print(f"{case:9} {who}: {took} s on the wall (of processors)", flush=True)
        if not np.array_equal(answers["pellucid"], answers["spark"]):
            raise SystemExit(f"{case}: the answers differ: {[a.shape for a in answers.values()]}")
        events = said.join_events if case == "join" else said.events
        found[case] = {who: events / seconds for who, seconds in best.items()}
        rows = answers["spark"].shape[1]
        shown = ", ".join(f"{who} {rate:,.0f} events/s" for who, rate in found[case].items())
        times = best["spark"] / best["pellucid"], least["spark"] / least["pellucid"]
        print(
            f"{case:9} {shown}; {times[0]:.2f} x Spark's own ({times[1]:.2f} x of processors), {rows:,} rows",
            flush=True,
        )
    shutil.rmtree(folder, ignore_errors=True)
    stop_if_ours(spark)
    counts = {"events": said.events, "join_events": said.join_events}
    if said.json:
        said.json.write_text(json.dumps({"keys": said.keys, "cases": found} | counts, indent=2))


if __name__ == "__main__":
    main()
