"""NaN on Spark, on every way: a value where the run says so, else refused; the local run is the oracle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pellucid import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [("a", 1, 1.5), ("b", 2, math.nan), ("a", 3, math.nan), ("b", 4, -math.inf), ("a", 5, 0.5)]


def _words(v: float | None) -> int:
    return -1 if v is None else (1 if v == v else 0) + (2 if v > 1 else 0) + (4 if not v < 1 else 0)


def _last(x: Any) -> Any:
    return x.filter(lambda v: not v > 1).cumulate(lambda t, v: v if t != t or v > t else t, start=0.0)


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "rows": (pipeline(lambda x: x.map(_words), x=float | None), {}),
    "one": (pipeline(_last, x=float), {"order": "seq"}),
    "keys": (pipeline(_last, x=float), {"order": "seq", "key": "user"}),
}


def test_it_is_a_value_where_the_run_says_so(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, "user string, seq bigint, x double")
    local = [{"user": u, "seq": s, "x": x} for u, s, x in ROWS]
    for way, (p, asked) in WAYS.items():
        said = {name: value for name, value in asked.items() if name != "partitions"}
        want = p(local, nan="keep", keep=["seq"] if way == "rows" else None, **said)
        got = p.spark(df, value="x", nan="keep", keep=["seq"] if way == "rows" else None, **asked).collect()
        found = sorted((row["seq"], row["out"]) for row in got)
        assert repr(found) == repr(sorted((row["seq"], row["out"]) for row in want)), way
        with pytest.raises(Exception, match=r"column 'x' is NaN: NaN is no event.*say nan='keep'"):
            p.spark(df, value="x", **asked).collect()


def test_what_the_first_steps_compute_is_an_event(spark: SparkSession) -> None:
    """They run before the shuffle, as Spark's own expressions: a NaN of theirs (0 * inf) was refused behind it."""
    p = pipeline(lambda x: x.map(lambda v: v * 0.0).filter(lambda v: not v > 5).lag(1), x=float)
    rows = [(1, math.inf), (2, 1.0), (3, math.inf)]
    df = spark.createDataFrame([("a", *row) for row in rows], "user string, seq bigint, x double")
    assert "before the shuffle" in p.spark_plan(key="user", order="seq")
    got = sorted(p.spark(df, value="x", key="user", order="seq").collect())
    assert repr([(row["out_0"], row["out_1"]) for row in got]) == repr(p([x for _, x in rows]))
