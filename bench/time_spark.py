"""Windows and joins by event time as streaming queries on Spark: Pellucid's, beside Spark's own, in the same run.

    python bench/time_spark.py [--events 1000000] [--batches 10] [--keys 1000] [--case join] [--limit 180]

Events come up to a minute out of order, over a day, in Parquet files, one for each micro-batch (of a join, half of them
on either side); both sides write what comes out to Parquet, and both allow for a minute of lateness.  The answers of
both are compared before any time counts.

A Java that has just started, and workers that have loaded nothing yet, are slow for whoever comes first.  So a small
query of each side goes before, which does not count; the sides take turns; and beside the whole of a query, from its
start to its end, stand its micro-batches from the third on (the *steady* ones).  Both are told in seconds on the wall
and in seconds of processors, Java's and Python's together, which count on a machine that has other things to do; the
best of ``--repeat`` runs is taken.  A query that is not done after ``--limit`` seconds is stopped, and that is said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import time_events
from pyspark import cloudpickle
from pyspark.sql.streaming.listener import StreamingQueryListener
from time_events import Event, drawn, timed, total

from pellucid import Pipeline, join, pipeline
from pellucid.spark.session import session, stop_if_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GAP, NEAR = timedelta(minutes=3), timedelta(seconds=20)
SCHEMA = "when timestamp_ntz, user bigint, amount bigint"
WARM = 2  # micro-batches of a query that are not steady yet


OURS: dict[str, Pipeline] = {
    "tumbling": pipeline(lambda x: timed(x).tumbling(timedelta(minutes=10), total), x=Event),
    "session": pipeline(lambda x: timed(x).session(GAP, total), x=Event),
    "join": pipeline(
        lambda a, b: join(timed(a), timed(b), within=NEAR).map(lambda p: (p[0].amount, p[1].amount)), a=Event, b=Event
    ),
}


def own(case: str) -> Callable[[list[DataFrame], Path], DataFrame]:
    """The case as Pellucid has it."""

    def make(frames: list[DataFrame], where: Path) -> DataFrame:
        out = OURS[case].spark(*frames, state=str(where / "state"))
        return out if case == "join" else out.select("start", "value")

    return make


def sparks(case: str) -> Callable[[list[DataFrame], Path], DataFrame]:
    """The same, written for Spark alone."""
    from pyspark.sql import functions as F

    def make(frames: list[DataFrame], _: Path) -> DataFrame:
        stamped = [df.withColumn("when", F.col("when").cast("timestamp")) for df in frames]
        marked = [df.withWatermark("when", "1 minute") for df in stamped]
        if case == "join":
            a, b = (df.select(*[F.col(c).alias(f"{c}{i}") for c in df.columns]) for i, df in enumerate(marked))
            near = F.expr("when1 between when0 - interval 20 seconds and when0 + interval 20 seconds")
            return a.join(b, (F.col("user0") == F.col("user1")) & near).select("amount0", "amount1")
        window = F.window("when", "10 minutes") if case == "tumbling" else F.session_window("when", "3 minutes")
        sums = marked[0].groupBy("user", window.alias("w")).agg(F.sum("amount").alias("value"))
        return sums.select("w.start", "value")

    return make


SIDES = {"pellucid": own, "spark": sparks}


def files(folder: Path, events: int, batches: int, keys: int, seed: int) -> None:
    """Events in the order of arrival, a file for each micro-batch."""
    when, user, amount = drawn(np.random.default_rng(seed), events, keys)
    folder.mkdir(parents=True)
    for number, at in enumerate(np.array_split(np.arange(events), batches)):
        times = pa.array(when[at], pa.timestamp("us"))
        file = folder / f"{number:03d}.parquet"
        pq.write_table(pa.table({"when": times, "user": user[at], "amount": amount[at]}), file, row_group_size=1 << 16)
        os.utime(file, (number * 10 + 1e9,) * 2)


class Processors:
    """Seconds of processor time of all that this process has started, of Java and of its Python workers.  Workers that
    have ended leave no trace, so what they had is remembered from when they were seen last."""

    def __init__(self) -> None:
        self._used: dict[tuple[int, str], tuple[str, int]] = {}  # by number and start: of whom, and how many ticks

    def now(self) -> dict[str, float]:
        """So far."""
        parents: dict[int, int] = {}
        found: dict[int, Any] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = stat.read_text().rpartition(")")
            except OSError:  # it has ended meanwhile
                continue
            number, fields = int(stat.parent.name), rest.split()
            kind = "java" if name.partition("(")[2] == "java" else "python"
            parents[number] = int(fields[1])
            found[number] = (number, fields[19]), (kind, sum(map(int, fields[11:13])))
        own = {os.getpid()}
        while own:
            self._used.update(found[number] for number in own if number in found)
            own = {number for number, parent in parents.items() if parent in own}
        ticks = os.sysconf("SC_CLK_TCK")
        return {kind: sum(t for k, t in self._used.values() if k == kind) / ticks for kind in ("java", "python")}


class Watch(StreamingQueryListener):
    """The processor time at the end of each micro-batch."""

    def __init__(self) -> None:
        self.processors = Processors()
        self.ends: dict[int, dict[str, float]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.ends = {}

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.ends.setdefault(event.progress.batchId, self.processors.now())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


@dataclass
class Took:
    """What a query took, of all its micro-batches or of some: seconds, those of processors, and its rows."""

    wall: float
    busy: dict[str, float]
    rows: int

    @property
    def processors(self) -> float:
        """Of Java and Python together."""
        return sum(self.busy.values())


@dataclass
class Done:
    """A query that came to its end: the whole, the steady part, and the rows that came out, in an order of its own."""

    whole: Took
    steady: Took
    answer: Any
    batches: list[float] = field(default_factory=list)  # seconds of each


def run(
    spark: SparkSession,
    watch: Watch,
    inputs: list[Path],
    make: Callable[[list[DataFrame], Path], DataFrame],
    limit: float,
) -> Done | str:
    """A query to its end, or how far it came."""
    folder = Path(tempfile.mkdtemp())
    try:
        frames = [spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(p)) for p in inputs]
        begin, busy = time.monotonic(), watch.processors.now()
        out = make(frames, folder).writeStream.format("parquet").option("path", str(folder / "out"))
        query = out.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        if not query.awaitTermination(limit):
            last = query.lastProgress
            query.stop()
            return f"not done after {limit:g} s: {last['batchId'] + 1 if last else 0} micro-batches were"
        wall, end = time.monotonic() - begin, watch.processors.now()
        progress = list(query.recentProgress)
        seconds = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1000 for p in progress}
        rows = {p["batchId"]: p["numInputRows"] for p in progress}
        later = [n for n in seconds if n >= WARM]
        warm = watch.ends.get(WARM - 1, end)
        found = spark.read.parquet(str(folder / "out")).toArrow()
        columns = [_numbers(found.column(i)) for i in range(found.num_columns)]
        return Done(
            Took(wall, _less(end, busy), sum(rows.values())),
            Took(sum(seconds[n] for n in later), _less(end, warm), sum(rows[n] for n in later)),
            np.array(columns)[:, np.lexsort(columns)],
            [seconds[n] for n in sorted(seconds)],
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _less(end: dict[str, float], begin: dict[str, float]) -> dict[str, float]:
    return {kind: end[kind] - begin[kind] for kind in end}


def _numbers(column: Any) -> Any:
    kind = column.type
    return (column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_numpy()


def measured(
    spark: SparkSession, watch: Watch, case: str, warm: list[Path], inputs: list[Path], repeat: int, limit: float
) -> dict[str, Any]:
    """One case: what each side took, the best of some runs, and how Pellucid stands to Spark's own."""
    for make in SIDES.values():
        run(spark, watch, warm, make(case), limit)
    done: dict[str, list[Done]] = {who: [] for who in SIDES}
    stopped: dict[str, str] = {}
    for number in range(repeat):
        for who in list(SIDES) if number % 2 == 0 else list(reversed(SIDES)):
            if who in stopped:
                continue
            found = run(spark, watch, inputs, SIDES[who](case), limit)
            if isinstance(found, str):
                stopped[who] = found
                print(f"{case:9} {who:9} {found}", flush=True)
                continue
            done[who].append(found)
            each = " ".join(f"{s:.2f}" for s in found.batches)
            print(f"{case:9} {who:9} {_said(found.whole)}; steady {_said(found.steady)}; each {each}", flush=True)
    answers = [runs[-1].answer for runs in done.values() if runs]
    if len(answers) == 2 and not np.array_equal(*answers):
        raise SystemExit(f"{case}: the answers differ: {[a.shape for a in answers]}")
    figures: dict[str, Any] = {"stopped": stopped}
    for part in ("whole", "steady"):
        best = {
            who: {
                "seconds": min(getattr(d, part).wall for d in runs),
                "processors": min(getattr(d, part).processors for d in runs),
                "events": getattr(runs[0], part).rows,
            }
            for who, runs in done.items()
            if runs
        }
        figures[part] = {**best}
        if len(best) == 2:
            times = {k: best["spark"][k] / max(best["pellucid"][k], 1e-9) for k in ("seconds", "processors")}
            figures[part]["times"] = times
            rates = ", ".join(f"{who} {b['events'] / max(b['seconds'], 1e-9):,.0f}" for who, b in best.items())
            print(
                f"{case:9} {part}: {rates} events/s; {times['seconds']:.2f} x Spark's own on the wall, "
                f"{times['processors']:.2f} x of processors; {answers[0].shape[1]:,} rows",
                flush=True,
            )
    return figures


def _said(took: Took) -> str:
    return f"{took.wall:.1f} s, of processors {took.busy['java']:.1f} Java + {took.busy['python']:.1f} Python"


def main() -> None:
    """Measure, compare, tell."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--batches", type=int, default=10)
    options.add_argument("--keys", type=int, default=1000)
    options.add_argument("--case", action="append", choices=list(OURS))
    options.add_argument("--repeat", type=int, default=2)
    options.add_argument("--limit", type=float, default=180, help="seconds for a query")
    options.add_argument("--json", type=Path)
    said = options.parse_args()
    cloudpickle.register_pickle_by_value(time_events)  # Spark's workers do not find it
    spark = session(conf={"spark.sql.session.timeZone": "UTC"})
    spark.sparkContext.setLogLevel("ERROR")
    watch = Watch()
    spark.streams.addListener(watch)
    folder = Path(tempfile.mkdtemp())
    for size, events, batches in (("whole", said.events, said.batches), ("small", 20_000, 3)):
        files(folder / size / "x", events, batches, said.keys, 1)
        for number, name in enumerate("ab"):
            files(folder / size / name, events // 2, batches, said.keys, 2 + number)
    found: dict[str, Any] = {}
    for case in said.case or OURS:
        warm, inputs = ([folder / s / n for n in ("ab" if case == "join" else "x")] for s in ("small", "whole"))
        found[case] = measured(spark, watch, case, warm, inputs, said.repeat, said.limit)
    shutil.rmtree(folder, ignore_errors=True)
    spark.streams.removeListener(watch)
    stop_if_ours(spark)
    if said.json:
        counts = {"events": said.events, "batches": said.batches, "keys": said.keys}
        said.json.write_text(json.dumps(counts | {"cases": found}, indent=2))


if __name__ == "__main__":
    main()
