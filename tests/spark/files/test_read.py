"""``read_csv`` and ``read_json``: text files for a pipeline, from Python, as the local engine reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pellucid import DataError, UsageError, pipeline
from pellucid.spark import explain, read_csv, read_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
words = pipeline(lambda w: w.map(lambda v: v), w=str)
both = pipeline(lambda a, b: a + b, a=int, b=int)


def rows(df: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.select(*columns).collect())


def test_csv_for_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('user,seq,x\n"a",1, 3\na,2,"4"\nb,1,5\n')
    df = read_csv(spark, tmp_path / "in.csv", total, key="user", order="seq")
    assert rows(df, "user", "seq", "x") == [("a", 1, 3), ("a", 2, 4), ("b", 1, 5)]
    assert rows(total.spark(df, key="user", order="seq"), "out") == [(3,), (5,), (7,)]
    (tmp_path / "in.tsv").write_text('w\n"a\\b"\n""\n')
    assert rows(read_csv(spark, tmp_path / "in.tsv", words, sep="\t"), "w") == [("",), ("a\\b",)]
    assert rows(read_csv(spark, tmp_path / "in.csv", {"seq": float, "x": str}), "seq", "x")[0] == (1.0, " 3")


def test_json_for_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k": "a", "n": 1, "v": 3}\n{"k": "a", "n": 2, "v": 4}\n')
    df = read_json(spark, tmp_path / "in.jsonl", total, value="v", key="k", order="n")
    assert rows(total.spark(df, value="v", key="k", order="n"), "n", "out") == [(1, 3), (2, 7)]
    (tmp_path / "twice.jsonl").write_text('{"w": "a", "w": "b"}\n')
    with pytest.raises(Exception) as caught:
        read_json(spark, tmp_path / "twice.jsonl", words).collect()
    assert "twice" in str(explain(caught.value) or caught.value)


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file or folder"):
        read_csv(spark, "nowhere.csv", total)
    with pytest.raises(UsageError, match="a stream reads a folder"):
        read_csv(spark, tmp_path / "in.csv", both, stream=True)
    with pytest.raises(UsageError, match="expected the pipeline that the rows are for, or a dict"):
        read_csv(spark, tmp_path / "in.csv", "both")
    with pytest.raises(UsageError, match="has no source 'c': its sources are a, b"):
        read_csv(spark, tmp_path / "in.csv", both, source="c")
