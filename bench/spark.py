"""The same pipeline on Spark beside PySpark written by hand, on the same data, in one run: seconds and ratios.

    python bench/spark.py [--events 5000000] [--keys 1000 100000] [--rounds 3] [--only batch,stream,small] [--json FILE]

Batch peers: native expressions; repartition, sort on one packed number, ``mapInArrow`` with a Numba loop; SQL window
functions; ``applyInArrow`` by key.  Streaming peers: ``foreachBatch`` with that loop and state files of its own;
``applyInPandasWithState``; ``transformWithStateInPandas`` (where protobuf is installed); for small micro-batches a bare
query. Answers are compared by their number and a checksum before anything is timed; the best of some rounds counts,
peers by turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pellucid import Stream, pipeline
from pellucid.spark.session import session


@pipeline
def doubled(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 3 != 0).map(lambda v: 2 * v + 1)


@pipeline
def sum_of_odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda total, v: total + v, start=0)


SCHEMA = "user bigint, seq bigint, x bigint"
OUT = "user bigint, seq bigint, out bigint"


def events(folder: str, count: int, keys: int, files: int, first: int = 0) -> None:
    """Parquet files of events, as they come: keys mixed, a running number as their order."""
    os.makedirs(folder)
    rng = np.random.default_rng(keys)
    for i in range(files):
        size = count // files
        seq = np.arange(first + i * size, first + (i + 1) * size)
        table = pa.table({"user": rng.integers(0, keys, size), "seq": seq, "x": rng.integers(0, 1000, size)})
        pq.write_table(table, f"{folder}/{first}-{i:05d}.parquet")
        os.utime(f"{folder}/{first}-{i:05d}.parquet", (first + i + 1, first + i + 1))


# ---------------------------------------------------------------- batch, by hand


def native_by_hand(df: DataFrame) -> DataFrame:
    return df.filter("x % 3 != 0").selectExpr("user", "seq", "2 * x + 1 as out")


def _loops() -> Any:
    from numba import njit

    @njit(cache=True)
    def contiguous(user: Any, x: Any, carried: Any, rows: Any, sums: Any) -> Any:
        last, total = carried[0], carried[1]
        n = 0
        for i in range(user.size):
            if user[i] != last:
                last, total = user[i], 0
            if x[i] % 2 == 1:
                total += x[i]
                rows[n] = i
                sums[n] = total
                n += 1
        carried[0], carried[1] = last, total
        return n

    return contiguous


def _numpy(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)


def kernel_by_hand(df: DataFrame, partitions: int) -> DataFrame:
    """Repartition, sort on one packed number, a Numba loop over contiguous keys in Arrow batches."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        loop, carried = _loops(), np.array([-1, 0])
        for batch in batches:
            user, x = _numpy(batch.column("user")), _numpy(batch.column("x"))
            rows, sums = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
            n = loop(user, x, carried, rows, sums)
            kept = batch.select(["user", "seq"]).take(pa.array(rows[:n]))
            yield pa.RecordBatch.from_arrays([*kept.columns, pa.array(sums[:n])], names=["user", "seq", "out"])

    odd = df.filter("x % 2 = 1")  # before the shuffle, as ours does
    packed = odd.withColumn("p", F.shiftleft("user", 40).bitwiseOR(F.col("seq")))
    return (
        packed.repartition(partitions, "user").sortWithinPartitions("p").select("user", "seq", "x").mapInArrow(run, OUT)
    )


def windows_by_hand(df: DataFrame) -> DataFrame:
    over = Window.partitionBy("user").orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    odd = F.col("x") % 2 == 1
    return df.filter(odd).select("user", "seq", F.sum("x").over(over).alias("out"))


def groups_by_hand(df: DataFrame) -> DataFrame:
    """``applyInArrow`` by key, with NumPy."""

    def run(table: Any) -> Any:
        table = table.sort_by("seq")
        x = _numpy(table.column("x").combine_chunks())
        odd = x % 2 == 1
        kept = table.select(["user", "seq"]).filter(pa.array(odd))
        return kept.append_column("out", pa.array(np.cumsum(x[odd])))

    return df.filter("x % 2 = 1").groupBy("user").applyInArrow(run, OUT)


def finish(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def checksum(df: DataFrame) -> tuple[int, int]:
    row = df.select(F.count("*"), F.expr("bit_xor(hash(user, seq, out))")).first()
    return int(row[0]), int(row[1] or 0)


# ---------------------------------------------------------------- streaming, by hand


def own_state(folder: str, partitions: int) -> Callable[[DataFrame, int], None]:
    """``foreachBatch``: the loop by hand over hash buckets, with a state file of each per micro-batch."""

    def write(df: DataFrame, batch: int) -> None:
        def run(batches: Iterator[Any]) -> Iterator[Any]:
            waiting = list(batches)
            if not waiting:
                return
            table = pa.Table.from_batches(waiting)
            user, x = _numpy(table.column("user").combine_chunks()), _numpy(table.column("x").combine_chunks())
            bucket = int(table.column("b")[0].as_py())
            before = f"{folder}/{bucket}-{batch - 1}.npy"
            state = np.load(before) if os.path.exists(before) else np.zeros((0, 2), np.int64)
            starts = np.flatnonzero(np.r_[True, user[1:] != user[:-1]])
            odd = np.where(x % 2 == 1, x, 0)
            sums = np.cumsum(odd)
            at = np.searchsorted(state[:, 0], user[starts])
            at = np.minimum(at, max(len(state) - 1, 0))
            known = state[at, 0] == user[starts] if len(state) else np.zeros(len(starts), bool)
            begin = np.where(known, state[at, 1] if len(state) else 0, 0) - np.r_[0, sums[starts[1:] - 1]]
            totals = sums + np.repeat(begin, np.diff(np.r_[starts, len(user)]))
            ends = np.r_[starts[1:] - 1, len(user) - 1]
            new = np.column_stack([user[ends], totals[ends]])
            rest = state[~np.isin(state[:, 0], new[:, 0])]
            merged = np.concatenate([rest, new])
            np.save(f"{folder}/{bucket}-{batch}.tmp.npy", merged[np.argsort(merged[:, 0], kind="stable")])
            os.replace(f"{folder}/{bucket}-{batch}.tmp.npy", f"{folder}/{bucket}-{batch}.npy")
            kept = table.select(["user", "seq"]).append_column("out", pa.array(totals)).filter(pa.array(x % 2 == 1))
            yield from kept.to_batches()

        packed = (
            df.filter("x % 2 = 1")
            .withColumn("p", F.shiftleft("user", 40).bitwiseOR(F.col("seq")))
            .withColumn("b", F.pmod(F.hash("user"), F.lit(partitions)))
        )
        finish(
            packed.repartition(partitions, "user")
            .sortWithinPartitions("p")
            .select("user", "seq", "x", "b")
            .mapInArrow(run, OUT)
        )

    return write


def pandas_with_state(df: DataFrame) -> DataFrame:
    """``applyInPandasWithState``, by key, as its documentation shows it."""
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def run(key: Any, frames: Any, state: Any) -> Any:
        total = state.get[0] if state.exists else 0
        whole = pd.concat(list(frames)).sort_values("seq")
        whole = whole[whole.x % 2 == 1]
        sums = total + whole.x.cumsum()
        if len(sums):
            state.update((int(sums.iloc[-1]),))
            yield pd.DataFrame({"user": whole.user, "seq": whole.seq, "out": sums})

    return (
        df.filter("x % 2 = 1")
        .groupBy("user")
        .applyInPandasWithState(run, OUT, "total bigint", "append", GroupStateTimeout.NoTimeout)
    )


def transform_with_state(df: DataFrame) -> DataFrame:
    """``transformWithStateInPandas``, by key."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Sums(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total bigint")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            found = self.total.get() if self.total.exists() else (0,)
            whole = pd.concat(list(rows)).sort_values("seq")
            whole = whole[whole.x % 2 == 1]
            sums = int(found[0]) + whole.x.cumsum()
            if len(sums):
                self.total.update((int(sums.iloc[-1]),))
                yield pd.DataFrame({"user": whole.user, "seq": whole.seq, "out": sums})

        def close(self) -> None:
            pass

    return df.filter("x % 2 = 1").groupBy("user").transformWithStateInPandas(Sums(), OUT, "Append", "none")


def stream_seconds(
    spark: SparkSession, source: str, make: Callable[[DataFrame, str], Any], *, skip: int = 1, patience: float = 240
) -> tuple[list[float], int]:
    """Seconds of each micro-batch (one file each) but the first, which starts the workers; and the rows that came in.

    Nobody is waited for longer than his patience, unless he has not yet done a micro-batch that counts.
    """
    folder = tempfile.mkdtemp()
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
    try:
        query = make(df, folder).option("checkpointLocation", f"{folder}/check").trigger(availableNow=True).start()
        begin = time.perf_counter()
        while not query.awaitTermination(1):
            if time.perf_counter() - begin > patience and sum(p.numInputRows > 0 for p in query.recentProgress) > skip:
                query.stop()
        progress = [p for p in query.recentProgress if p.numInputRows]
        return [p.batchDuration / 1000 for p in progress[skip:]], sum(p.numInputRows for p in progress[skip:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def noop(df: DataFrame) -> Any:
    return df.writeStream.format("noop")


# ---------------------------------------------------------------- the runs


def best(peers: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least time of each peer; they take turns, so that a slow minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, run in peers.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: min(found) for name, found in times.items()}


def table(title: str, seconds: dict[str, float], count: int) -> dict[str, Any]:
    ours = seconds["pellucid"]
    print(f"\n{title}")
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        print(f"  {name:<44} {value:8.2f} s  {count / value / 1000:9,.0f} k events/s   {value / ours:5.2f} × ours")
    return {"title": title, "events": count, "seconds": seconds}


def batch(spark: SparkSession, folder: str, count: int, keys: int, rounds: int) -> list[dict[str, Any]]:
    df = spark.read.schema(SCHEMA).parquet(folder)
    cores = spark.sparkContext.defaultParallelism
    out = []
    ways: dict[str, Callable[[], DataFrame]] = {
        "pellucid": lambda: doubled.spark(df, key="user", order="seq"),
        "by hand: filter and select": lambda: native_by_hand(df),
    }
    out.append(_compared(f"batch, stateless, {count:,} events", ways, count, max(rounds, 5)))
    ways = {
        "pellucid": lambda: sum_of_odds.spark(df, key="user", order="seq"),
        "by hand: repartition, sort, mapInArrow, Numba": lambda: kernel_by_hand(df, cores),
        "by hand: SQL window": lambda: windows_by_hand(df),
        "by hand: applyInArrow by key": lambda: groups_by_hand(df),
    }
    if count > 10_000_000:
        del ways["by hand: applyInArrow by key"]
    out.append(_compared(f"batch, keyed and stateful, {count:,} events, {keys:,} keys", ways, count, rounds))
    return out


def _compared(title: str, ways: dict[str, Callable[[], DataFrame]], count: int, rounds: int) -> dict[str, Any]:
    """Seconds to run what was written down before; writing it down is told apart, as it does not grow with the
    events."""
    answers = {name: checksum(make()) for name, make in ways.items()}  # also starts the workers and compiles
    assert len(set(answers.values())) == 1, answers
    frames = {name: make() for name, make in ways.items()}
    found = table(title, best({name: (lambda df=df: finish(df)) for name, df in frames.items()}, rounds), count)
    found["built"] = best(ways, rounds)
    print("  written down in " + ", ".join(f"{value * 1000:.0f} ms ({name})" for name, value in found["built"].items()))
    return found


def streaming(spark: SparkSession, folder: str, count: int, keys: int) -> dict[str, Any]:
    cores = spark.sparkContext.defaultParallelism
    peers: dict[str, Callable[[DataFrame, str], Any]] = {
        "pellucid": lambda df, f: noop(sum_of_odds.spark(df, key="user", order="seq", state=f"{f}/state")),
        "pellucid, store='spark'": lambda df, f: noop(sum_of_odds.spark(df, key="user", order="seq", store="spark")),
        "by hand: foreachBatch, state files": lambda df, f: df.writeStream.foreachBatch(own_state(f, cores)),
        "by hand: applyInPandasWithState": lambda df, f: noop(pandas_with_state(df)),
    }
    try:
        import google.protobuf  # noqa: F401

        peers["by hand: transformWithStateInPandas"] = lambda df, f: noop(transform_with_state(df))
    except ImportError:
        print("  (transformWithStateInPandas steps aside: it needs protobuf)")
    seconds: dict[str, float] = {}
    counted: dict[str, int] = {}
    quick = [name for name in peers if "WithState" not in name]
    for name in [
        *quick,
        *quick,
        *quick,
        *(name for name in peers if name not in quick),
    ]:  # by turns: the first one meets a cold Java
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKS)
        times, rows = stream_seconds(spark, folder, peers[name])
        seconds[name] = min(sum(times) * count / rows, seconds.get(name, float("inf")))
        counted[name] = len(times)
    title = f"streaming, {count:,} events, {keys:,} keys, micro-batches of a fifth, the first of which does not count"
    for name, batches in counted.items():
        if batches < max(counted.values()):
            print(f"  ({name}: only {batches} micro-batches were waited for)")
    return table(title, seconds, count)


_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def small(spark: SparkSession, folder: str) -> dict[str, Any]:
    """Micro-batches of ten rows: what each costs whatever is in it."""
    cores = spark.sparkContext.defaultParallelism

    def unchanged(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    peers: dict[str, Callable[[DataFrame, str], Any]] = {
        "pellucid": lambda df, f: noop(sum_of_odds.spark(df, key="user", order="seq", state=f"{f}/state")),
        "pellucid, a pipeline without state": lambda df, f: noop(doubled.spark(df, key="user", order="seq")),
        "a bare query": lambda df, f: noop(df),
        "a bare query with one shuffle": lambda df, f: noop(df.repartition(cores, "user")),
        "the same, and an empty mapInArrow": lambda df, f: noop(
            df.repartition(cores, "user").mapInArrow(unchanged, SCHEMA)
        ),
        "a bare query with state of Spark's own": lambda df, f: noop(df.groupBy("user").count()).outputMode("update"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(4):
        for name, make in peers.items():
            times = stream_seconds(spark, folder, make, skip=5)[0]
            seconds[name] += (
                times if turn else []
            )  # in the first turn the JVM is still warming up, for whoever comes first
    found = {name: float(np.median(times)) for name, times in seconds.items()}
    print("\nmicro-batches of ten rows, median")
    for name, value in found.items():
        print(f"  {name:<44} {value * 1000:8.0f} ms   {value / found['a bare query']:5.2f} × a bare query")
    return {"title": "small", "seconds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="batch,stream,small")
    parser.add_argument("--json")
    args = parser.parse_args()
    spark = session(conf={"spark.driver.memory": "4g"})
    print(f"Python {platform.python_version()}, Spark {spark.version}, {spark.sparkContext.defaultParallelism} cores")
    folder = tempfile.mkdtemp()
    results: list[Any] = []
    try:
        for keys in args.keys:
            if "batch" in args.only:
                events(f"{folder}/batch-{keys}", args.events, keys, max(4, args.events // 2_500_000))
                results += batch(spark, f"{folder}/batch-{keys}", args.events, keys, args.rounds)
                shutil.rmtree(f"{folder}/batch-{keys}")
            if "stream" in args.only:
                events(f"{folder}/stream-{keys}", args.events, keys, 5)
                results.append(streaming(spark, f"{folder}/stream-{keys}", args.events, keys))
        if "small" in args.only:
            events(f"{folder}/small", 300, 10, 30)
            results.append(small(spark, f"{folder}/small"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
