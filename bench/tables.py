"""A whole table through a pipeline, file to file, beside polars, DuckDB and PySpark by hand, in one run.

    .venv/bin/python bench/tables.py [--times 30] [--repeat 3] [--only 'pellucid|polars'] [--json FILE]

The table is that of all flights that left New York in 2013, so many times over (30: 10.1 million rows), in Parquet,
with 19 columns; what comes out is Parquet, too, with all of them and one more:

* ``mean``: the running mean of dep_delay of each carrier, of the flights that flew (8,255 of 336,776 did not: nulls);
* ``miles``: the running mean of distance of each carrier, which has no nulls;
* ``airline``: the airline's name from a dictionary.

Each run is a process of its own; told are its wall time, its processor time (user and system) and its peak memory, the
least of the repetitions.  On a machine that others use, too, processor time is what can be compared.  The answers are
compared row by row, floats to twelve digits.  Each system has its own defaults, also for how the output is packed: the
size is told.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CASES = ("mean", "miles", "airline")
KEYS = {"mean": "carrier", "miles": "carrier", "airline": None}


# ---------------------------------------------------------------- the pipelines

if __name__ != "__main__":  # loaded by `pellucid run`
    from pellucid import Stream, pipeline

    sys.path.insert(0, str(ROOT / "examples"))
    from flights import AIRLINES

    class Departure(NamedTuple):
        dep_delay: int | None

    class Leg(NamedTuple):
        distance: int

    @pipeline
    def mean(flights: Stream[Departure]) -> Stream[float]:
        minutes = flights.filter(lambda f: f.dep_delay is not None).map(lambda f: f.dep_delay or 0)
        return minutes.cumulate(lambda t, v: t + v, start=0) / minutes.cumulate(lambda n, _: n + 1, start=0)

    @pipeline
    def miles(legs: Stream[Leg]) -> Stream[float]:
        far = legs.map(lambda leg: leg.distance)
        return far.cumulate(lambda t, v: t + v, start=0) / far.cumulate(lambda n, _: n + 1, start=0)

    @pipeline
    def airline(carrier: Stream[str]) -> Stream[str]:
        return carrier.map(lambda code: AIRLINES[code])


def ours(case: str, given: str, out: str, *more: str) -> None:
    from pellucid.internal.cli.main import main as command

    key = KEYS[case]
    sys.argv = ["pellucid", "run", f"{__file__}:{case}", "--in", given, "--keep-columns", "all", "--out", out, *more]
    sys.argv += ["--key", key] if key else ["--value", "carrier"]
    command()


def ours_on_one(case: str, given: str, out: str) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ours(case, given, out, "--cores", "1")


# ---------------------------------------------------------------- the same by hand


def by_polars(case: str, given: str, out: str) -> None:
    import polars as pl

    frame = pl.scan_parquet(given)
    if case == "mean":
        delay = pl.col("dep_delay")
        flown = frame.filter(delay.is_not_null())
        frame = flown.with_columns((delay.cum_sum() / delay.cum_count()).over("carrier").alias("out"))
    elif case == "miles":
        far = pl.col("distance")
        frame = frame.with_columns((far.cum_sum() / far.cum_count()).over("carrier").alias("out"))
    else:
        frame = frame.with_columns(pl.col("carrier").replace_strict(_airlines(), return_dtype=pl.String).alias("out"))
    frame.sink_parquet(out, engine="streaming")


def by_duckdb(case: str, given: str, out: str) -> None:
    import duckdb

    rows = f"(SELECT * FROM read_parquet('{given}', file_row_number=true))"
    if case == "airline":
        names = ", ".join(f"'{code}': '{name}'" for code, name in _airlines().items())
        asked = f"SELECT * EXCLUDE file_row_number, (MAP {{{names}}})[carrier] AS out FROM {rows}"
    else:
        column = "dep_delay" if case == "mean" else "distance"
        asked = (
            f"SELECT * EXCLUDE file_row_number, avg({column}) OVER (PARTITION BY carrier ORDER BY file_row_number ROWS "
            f"UNBOUNDED PRECEDING) AS out FROM {rows} WHERE {column} IS NOT NULL ORDER BY file_row_number"
        )
    duckdb.sql(f"COPY ({asked}) TO '{out}' (FORMAT parquet)")


def by_spark(case: str, given: str, out: str) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from pellucid.spark.session import session

    spark = session()
    frame = spark.read.parquet(given).withColumn("id", F.monotonically_increasing_id())
    if case == "airline":
        pairs = [F.lit(text) for pair in _airlines().items() for text in pair]
        frame = frame.withColumn("out", F.create_map(*pairs)[F.col("carrier")])
    else:
        column = "dep_delay" if case == "mean" else "distance"
        so_far = Window.partitionBy("carrier").orderBy("id").rowsBetween(Window.unboundedPreceding, 0)
        frame = frame.where(F.col(column).isNotNull()).withColumn("out", F.avg(column).over(so_far))
    frame.write.parquet(out)
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # else what the Java took is not counted


def _airlines() -> dict[str, str]:
    sys.path.insert(0, str(ROOT / "examples"))
    from flights import AIRLINES

    return AIRLINES


SYSTEMS: dict[str, Callable[[str, str, str], None]] = {
    "pellucid": ours, "pellucid, one core": ours_on_one, "polars": by_polars, "DuckDB": by_duckdb, "PySpark": by_spark,
}  # fmt: skip


# ---------------------------------------------------------------- run, measure, compare


class Measured(NamedTuple):
    wall: float
    processor: float
    memory: float  # bytes
    size: int


def table(path: Path, times: int) -> None:
    """The flights so many times over, as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sys.path.insert(0, str(ROOT / "examples"))
    from flights_table import table as flights

    found = flights().drop_columns(["rowid"])
    parquet.write_table(pa.concat_tables([found] * times), path)


def _alone(*what: str) -> None:
    """In a process of its own, as all that takes much memory: a child's peak is never below what its parent holds."""
    subprocess.run([sys.executable, __file__, "--run", *what], check=True)


def measured(system: str, case: str, given: str, out: Path) -> Measured:
    """One run, in a process of its own."""
    shutil.rmtree(out, ignore_errors=True) if out.is_dir() else out.unlink(missing_ok=True)
    start = time.monotonic()
    child = subprocess.Popen([sys.executable, __file__, "--run", system, case, given, str(out)], stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{system}, {case}: ended with {child.returncode}\n{said}")
    size = sum(f.stat().st_size for f in out.glob("*.parquet")) if out.is_dir() else out.stat().st_size
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, size)


def compare(ours: Path, other: Path) -> None:
    """The same rows in the same order; on Spark, which promises none, by the number that each row got."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as parquet

    names = parquet.read_schema(ours).names
    order = None
    if other.is_dir():
        order = pc.sort_indices(parquet.read_table(other, columns=["id"])["id"])
    for name in names:
        a, b = (parquet.read_table(path, columns=[name])[name].combine_chunks() for path in (ours, other))
        b = b if order is None else b.take(order)
        a, b = (_plain(c) for c in (a, b))
        if len(a) != len(b):
            raise SystemExit(f"{other}: {len(b):,} rows, but {len(a):,} in ours")
        b = b.cast(a.type)
        if a.equals(b):
            continue
        close = pc.equal(a, b)
        if pa.types.is_floating(a.type):  # DuckDB divides otherwise: the last bit may differ
            close = pc.less_equal(pc.abs(pc.subtract(a, b)), pc.multiply(pc.abs(a), 1e-12))
        if not pc.all(close).as_py():
            at = pc.index(close, False).as_py()
            raise SystemExit(f"{other}: column {name!r}, row {at:,}: {b[at]}, but {a[at]} in ours")


def _plain(column: Any) -> Any:
    import pyarrow as pa

    whole = column if not isinstance(column, pa.ChunkedArray) else pa.concat_arrays(column.chunks)
    whole = whole.cast(whole.type.value_type) if pa.types.is_dictionary(whole.type) else whole
    return whole.cast(pa.large_string()) if pa.types.is_string(whole.type) or "view" in str(whole.type) else whole


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        system, case, given, out = options.run
        if system == "table":
            table(Path(out), int(case))
        elif system == "compare":
            compare(Path(given), Path(out))
        else:
            SYSTEMS[system](case, given, out)
        return
    wanted = [name for name in SYSTEMS if not options.only or name in options.only.split("|")]
    document: dict[str, Any] = {"machine": platform.machine(), "cores": os.cpu_count(), "times": options.times}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        given = str(folder / f"flights-{options.times}.parquet")
        _alone("table", str(options.times), "", given)
        for case in options.cases.split(","):
            found = {}
            for name in wanted:
                out = folder / f"{name.split(',')[0]}.parquet"
                runs = [measured(name, case, given, out) for _ in range(options.repeat)]
                found[name] = Measured(*(min(values) for values in zip(*runs, strict=True)))
                if name.startswith("pellucid"):
                    kept = folder / "ours.parquet"
                    if kept.exists() and out.read_bytes() != kept.read_bytes():
                        raise SystemExit(f"{case}: one core gives other bytes")
                    shutil.copy(out, kept)
                else:
                    _alone("compare", case, str(folder / "ours.parquet"), str(out))
            document[case] = {name: m._asdict() for name, m in found.items()}
            _show(case, found)
            (folder / "ours.parquet").unlink()
    if options.json:
        Path(options.json).write_text(json.dumps(document, indent=2) + "\n")


def _show(case: str, found: dict[str, Measured]) -> None:
    first = next(iter(found.values()))
    print(f"\n{case}: the same rows from all; in brackets, as a multiple of the first")
    print(f"{'':20}{'wall s':>14}{'processor s':>16}{'peak MB':>16}{'file MB':>10}")
    for name, m in found.items():
        cells = [
            f"{m.wall:.2f} ({m.wall / first.wall:.2f})",
            f"{m.processor:.2f} ({m.processor / first.processor:.2f})",
        ]
        cells += [f"{m.memory / 1e6:.0f} ({m.memory / first.memory:.2f})", f"{m.size / 1e6:.0f}"]
        print(f"{name:20}{cells[0]:>14}{cells[1]:>16}{cells[2]:>16}{cells[3]:>10}")


if __name__ == "__main__":
    main()
