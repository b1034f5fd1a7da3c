"""``read_csv`` and ``read_json``: text files for a pipeline, from Python, as the local engine reads them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
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


class Visit(NamedTuple):
    user: str
    at: datetime
    n: int | None


def test_times_in_a_form_and_ints_with_holes(spark: SparkSession, tmp_path: Path) -> None:
    """From texts and from a DataFrame; the local run is the oracle."""
    visits = pipeline(lambda v: v.map(lambda e: (e.at.day, e.n or 0)), v=Visit)
    lines = ["user,seq,at,n", "a,1,31/12/2013 05:00,3.0", "a,2,1/2/2014 00:30,", "b,1,02/01/2014 1:5,7", ""]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    form = {"at": "%d/%m/%Y %H:%M"}
    df = read_csv(spark, tmp_path / "in.csv", visits, key="user", order="seq")
    here = visits(pcsv.read_csv(tmp_path / "in.csv"), time_format=form)
    told = sorted(tuple(row.values()) for row in here.to_pylist())
    assert told == [(1, 0), (2, 7), (31, 3)]
    assert rows(visits.spark(df, time_format=form), "out_0", "out_1") == told
    sums = pipeline(lambda v: v.cumulate(lambda t, e: t + e.at.day + (e.n or 0), start=0), v=Visit)
    floats = df.withColumn("n", df.n.cast("double"))  # as pandas writes it
    assert rows(sums.spark(floats, key="user", order="seq", time_format=form), "out") == [(9,), (34,), (35,)]
    said = {"key": "user", "order": "seq"}
    with pytest.raises(Exception) as caught:
        sums.spark(floats.withColumn("n", floats.n / 2), time_format=form, **said).collect()
    assert "column 'n': expected a whole number or null, but 1.5 is none" in str(explain(caught.value))
    with pytest.raises(Exception) as caught:
        sums.spark(df, time_format={"at": "%m/%d/%Y %H:%M"}, **said).collect()
    assert "column 'at': expected datetime (as %m/%d/%Y %H:%M), found '31/12/2013 05:00'" in str(explain(caught.value))
    holes = pipeline(lambda n: n.map(lambda v: v or 0), n=int | None)  # Spark's own expressions
    assert rows(holes.spark(floats, value="n"), "out") == [(0,), (3,), (7,)]
    with pytest.raises(Exception) as caught:
        holes.spark(floats.withColumn("n", floats.n / 2), value="n").collect()
    assert "column 'n': expected a whole number or null, but 1.5 is none" in str(explain(caught.value))
    with pytest.raises(UsageError, match="order=: the column 'at' is a text on Spark, and would be put in order"):
        sums.spark(df, key="user", order="at", time_format=form)


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


class Reading(NamedTuple):
    seq: int
    i: int | None
    f: float | None
    s: str | None
    at: datetime | None
    t: str


def test_words_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """As the local engine reads them; where Spark cannot tell a word from the same in quotes, it is refused."""
    same = pipeline(lambda v: v.map(lambda e: e), v=Reading)
    lines = ["seq,i,f,s,at,t", "1,NA,-999,NA,NA,NA", '2,-999,,"",2013-01-02T03:04,x', "3,7,1.5, NA,,-999", ""]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(lines))
    same.run_epochs(str(path), str(tmp_path / "out.parquet"), state=tmp_path / "s", pushes=2, nulls=["NA", "-999"])
    here = sorted(tuple(row.values()) for row in pq.read_table(tmp_path / "out.parquet").to_pylist())
    assert here[0] == (1, None, None, None, None, "NA") and here[2][3] == " NA"
    df = same.spark(read_csv(spark, path, same, nulls=["NA", "-999"]))
    assert rows(df, *Reading._fields) == here
    with pytest.raises(Exception) as caught:
        read_csv(spark, path, {"i": bool | None}, nulls="NA").select("i").collect()
    assert "column 'i': expected bool (true or false), found '-999'" in str(explain(caught.value))
    with pytest.raises(UsageError, match=r"nulls=\['NA'\]: does not go with a stream of CSV files on Spark"):
        read_csv(spark, tmp_path, same, nulls="NA", stream=True)
    with pytest.raises(UsageError, match=r"nulls=\['NA'\]: is for columns that are declared as T | None"):
        read_csv(spark, path, total, value="i", nulls="NA")
    path.write_text('seq,i,f,s,at,t\r\n1,,,x,,"NA"\r\n')
    with pytest.raises(DataError, match=r"stands in quotes \('1,,,x,,\"NA\"'\), which is a text"):
        read_csv(spark, path, same, nulls="NA")
