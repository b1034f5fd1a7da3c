"""Capacity of a history that is too big for one machine: logs of many queries or days, as DataFrames in and out.

The functions are those of `pellucid.capacity.measured`, called in Spark's tasks; what they say of a part of the data
is put together so that it is what they would say of all of it:

- the progress of a query is one group, however many queries there are;
- an arrival curve needs the windows of every start: times are cut into stretches as long as the longest window, each
  stretch is given the rows of the next one as well, and the most of all stretches is the most of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.capacity.measured.plan import Curve
from pellucid.errors import DataError, UsageError, nearest

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

QUERIES = (
    "query string, id string, status string, rate double, processed double, busy double, capacity double, lag double, "
    "batches long, fixed double, row double, settled double, longest long, partitions long, state long"
)


def query_plans(logs: DataFrame, *, value: str = "value") -> DataFrame:
    """A row for each query of which the column ``value`` has progress, as JSON: rates, capacity, lag, what a batch
    costs, how long the queue can get; the same as `plan_job` says of each log.

    ``spark.read.text("progress/")`` makes such a DataFrame of files with one JSON on each line; lines of Spark's own
    event logs that are no progress are passed over.
    """
    from pyspark.sql import functions as sql

    _column(logs, value)
    texts = logs.select(sql.col(value).cast("string").alias("value"))
    inner = sql.coalesce(sql.get_json_object("value", "$.progress"), sql.col("value"))
    known = texts.select(inner.alias("value")).withColumn("id", sql.get_json_object("value", "$.id"))
    there = sql.get_json_object("value", "$.durationMs").isNotNull()
    return known.where(there & sql.col("id").isNotNull()).groupBy("id").applyInPandas(_plan, QUERIES)


def _plan(texts: pd.DataFrame) -> pd.DataFrame:
    """One query, in a task."""
    import json

    import pandas as pd

    from pellucid.capacity.measured import of_progress, plan_job

    (job,) = of_progress([json.loads(text) for text in texts["value"]])
    (plan,) = plan_job(job).steps.values()
    step, batch = plan.step, plan.batch
    row = {
        "query": job.name, "id": texts["id"].iloc[0], "status": plan.status, "rate": step.rate,
        "processed": step.processed, "busy": step.busy, "capacity": step.capacity, "lag": step.lag,
        "batches": len(job.samples), "fixed": batch.fixed if batch else None, "row": batch.row if batch else None,
        "settled": plan.settled, "longest": plan.longest, "partitions": step.partitions, "state": step.state,
    }  # fmt: skip
    return pd.DataFrame([row], columns=list(row))


def arrival_curves(
    events: DataFrame, *, at: str, windows: Sequence[float], key: Sequence[str] | str = (), count: str | None = None
) -> DataFrame:
    """For each key and each length of a window the most events in any window of that length: the empirical arrival
    curve, as `arrival_curve` of the times of that key.

    ``at`` is a column of times, or of seconds; ``count`` one with the number of events of a row (1 each without).
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

    keys = [key] if isinstance(key, str) else list(key)
    for name in [at, *keys, *([count] if count else [])]:
        _column(events, name)
    lengths = sorted({float(w) for w in windows})
    if not lengths or lengths[0] < 0 or lengths[-1] == float("inf"):
        raise UsageError(f"windows: expected lengths in seconds, not below 0, got {list(windows)}")
    kind = events.schema[at].dataType
    if isinstance(kind, TimestampNTZType):
        seconds = sql.col(at).cast(TimestampType()).cast("double")
    elif isinstance(kind, (TimestampType, NumericType)):
        seconds = sql.col(at).cast("double")
    else:
        raise UsageError(f"at={at!r}: expected a column of times or of seconds, it has {kind.simpleString()}")
    many = sql.lit(1).cast("long") if count is None else sql.col(count).cast("long")
    stretch = max(lengths[-1], 1.0)
    each = (
        events.select(*[sql.col(k) for k in keys], seconds.alias("_at"), many.alias("_count"))
        .groupBy(*keys, "_at").agg(sql.sum("_count").alias("_count"))
        .withColumn("_part", sql.floor(sql.col("_at") / stretch))
        .withColumn("_part", sql.explode(sql.array(sql.col("_part"), sql.col("_part") - 1)))
    )  # fmt: skip
    shape = ", ".join(
        [*(f"`{k}` {events.schema[k].dataType.simpleString()}" for k in keys), "window double, most long"]
    )

    def most(part: pd.DataFrame) -> pd.DataFrame:
        return _most(part, keys, lengths, stretch)

    found = each.groupBy(*keys, "_part").applyInPandas(most, shape)
    return found.groupBy(*keys, "window").agg(sql.max("most").alias("most"))


def _most(part: pd.DataFrame, keys: list[str], lengths: list[float], stretch: float) -> pd.DataFrame:
    """The fullest windows that begin in one stretch of time; in a task."""
    import numpy as np
    import pandas as pd

    if part["_at"].isna().any() or part["_count"].isna().any():
        raise DataError("a row has no time, or no count: leave it out, or fill it in")
    ordered = part.sort_values("_at")
    times = ordered["_at"].to_numpy(dtype=np.float64)
    before = np.concatenate([[0], np.cumsum(ordered["_count"].to_numpy(dtype=np.int64))])
    own = np.floor(times / stretch) == ordered["_part"].to_numpy()
    rows = []
    for length in lengths:
        ends = np.searchsorted(times, times + length, side="right")
        fullest = (before[ends] - before[:-1])[own]
        if len(fullest):
            rows.append([*(ordered[k].iloc[0] for k in keys), length, int(fullest.max())])
    return pd.DataFrame(rows, columns=[*keys, "window", "most"])


def queue_bounds(
    curves: DataFrame, *, time: float, workers: int = 1, key: Sequence[str] | str = (), limit: int | None = None
) -> DataFrame:
    """What the curves of `arrival_curves` say about a step whose workers need ``time`` for an event: for each key the
    longest queue, the longest wait, and the workers that keep the queue below ``limit``."""
    keys = [key] if isinstance(key, str) else list(key)
    for name in keys:
        _column(curves, name)
    if time <= 0 or workers < 1:
        raise UsageError(f"time={time}, workers={workers}: expected a time above 0, and 1 worker or more")
    shape = [*(f"`{k}` {curves.schema[k].dataType.simpleString()}" for k in keys)]
    shape += ["rate double, longest long, longest_wait double, workers_for_limit long"]

    def bounds(part: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        curve = _curve(part["window"], part["most"])
        wanted = None if limit is None else curve.workers(time, limit - 1)
        row = [*(part[k].iloc[0] for k in keys), curve.rate, curve.queue(time, workers), curve.delay(time, workers)]
        return pd.DataFrame(
            [[*row, wanted]], columns=[*keys, "rate", "longest", "longest_wait", "workers_for_limit"]
        ).astype({"workers_for_limit": "Int64"})

    return curves.groupBy(*keys).applyInPandas(bounds, ", ".join(shape))


def curves_of(curves: DataFrame, *, key: Sequence[str] | str = ()) -> Iterator[tuple[tuple[Any, ...], Curve]]:
    """The curves as values here: each key with its `Curve`."""
    keys = [key] if isinstance(key, str) else list(key)
    found: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for row in curves.collect():
        found.setdefault(tuple(row[k] for k in keys), []).append((row["window"], row["most"]))
    for name, points in sorted(found.items(), key=lambda one: str(one[0])):
        yield name, _curve(*zip(*points, strict=True))


def _curve(windows: Any, most: Any) -> Curve:
    points = sorted(zip((float(w) for w in windows), (int(n) for n in most), strict=True))
    return Curve(tuple(w for w, _ in points), tuple(n for _, n in points))


def _column(df: DataFrame, name: str) -> None:
    if name not in df.columns:
        raise UsageError(f"there is no column {name!r}: there are {', '.join(df.columns)}{nearest(name, df.columns)}")
