"""``partition_by``: what comes back exactly from the name of a folder, and what is refused because it would not."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pellucid.errors import DataError
from pellucid.spark import sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT: dict[str, pa.Array] = {
    "texts": pa.array(["007", "null", " a ", "a/b %=ü🦜", "..", "%2F", "two\nlines", "true", "2024-01-01", None]),
    "numbers": pa.array([0, 1, -5, 2**63 - 1, -(2**63), None]),
    "small": pa.array([1, -128, None], pa.int8()),
    "booleans": pa.array([True, False, None]),
    "dates": pa.array([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
}
LOST: dict[str, pa.Array] = {
    "timestamp": pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
    "without a zone": pa.array([datetime(2024, 1, 1)], pa.timestamp("us")),
    "float": pa.array([0.5]),
    "decimal": pa.array([Decimal("1.10")]),
    "bytes": pa.array([b"\xff"]),
}


def table(column: pa.Array) -> pa.Table:
    return pa.table({"c": column, "v": list(range(len(column)))})


def found(sink: sinks.Sink) -> list[Any]:
    return sorted(((row["v"], row["c"]) for row in sink.read().to_pylist()), key=lambda row: row[0])


@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("values", EXACT)
def test_what_comes_back(kind: str, values: str, tmp_path: Path) -> None:
    sink = getattr(sinks, kind)(tmp_path / "out", partition_by="c")
    sink.write(table(EXACT[values]), "q", 0)
    assert found(sink) == list(enumerate(EXACT[values].to_pylist()))
    assert sink.read().schema.field("c").type == EXACT[values].type


@pytest.mark.parametrize("values", EXACT)
def test_what_comes_back_from_spark(spark: SparkSession, values: str, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    sink.write(spark.createDataFrame(table(EXACT[values])).coalesce(1), "q", 0)
    expected = list(enumerate(EXACT[values].to_pylist()))
    assert found(sink) == expected
    assert sorted((row["v"], row["c"]) for row in sinks.read_spark(spark, tmp_path / "out").collect()) == expected


@pytest.mark.parametrize("values", LOST)
def test_what_would_not_come_back_is_refused(values: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"partition_by='c': a .* would not come back exactly .*, such as CAST\(c AS (DATE|STRING)\)"):
        sinks.parquet(tmp_path / "out", partition_by="c").write(table(LOST[values]), "q", 0)
    delta = sinks.delta(tmp_path / "delta", partition_by="c")
    if values in ("decimal", "bytes"):
        with pytest.raises(DataError, match=r"partition_by='c': a .* would not come back exactly"):
            delta.write(table(LOST[values]), "q", 0)
    else:
        delta.write(table(LOST[values]), "q", 0)
        assert delta.read()["c"].to_pylist() == LOST[values].to_pylist()


@pytest.mark.parametrize("name", ["_c", ".c", "a=b", "a/b", "a%", 'a"b', "a\nb"])
def test_names_that_readers_would_miss_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"this name cannot be a folder's that all readers find"):
        sinks.parquet(tmp_path / "out", partition_by=name).write(pa.table({name: ["x"], "v": [1]}), "q", 0)


@pytest.mark.parametrize("name", ["user.id", "a b", "tick`s", "Upper", "select", "ünï"])
def test_other_names_come_back_from_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    quoted = name.replace("`", "``")
    sink = sinks.parquet(tmp_path / "out", partition_by=name)
    sink.write(spark.createDataFrame([("x", 1)], f"`{quoted}` string, v int"), "q", 0)
    assert sink.read().to_pylist() == [{name: "x", "v": 1}]
    assert [row.asDict() for row in sinks.read_spark(spark, tmp_path / "out").collect()] == [{name: "x", "v": 1}]


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_the_text_that_would_be_null_is_refused(text: str, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by=["u", "c"])
    batches = [pa.RecordBatch.from_pydict({"u": ["x"], "c": [value], "v": [1]}) for value in ("fine", text)]
    with pytest.raises(DataError, match=r"partition_by='c': a row has the empty text there .* would come back as null; replace it"):
        sink.write(batches, "q", 0)
    assert sink.last("q") is None
    sink.write(batches[:1], "q", 0)
    assert sink.read()["c"].to_pylist() == ["fine"]


def test_the_empty_text_is_refused_by_delta(tmp_path: Path) -> None:
    sink = sinks.delta(tmp_path / "out", partition_by="c")
    sink.write(pa.table({"c": ["__HIVE_DEFAULT_PARTITION__"], "v": [1]}), "q", 0)
    batches = [pa.RecordBatch.from_pydict({"c": [value], "v": [1]}) for value in ("fine", "fine", "")]
    with pytest.raises(Exception, match=r"partition_by='c': a row has the empty text there"):
        sinks.delta(tmp_path / "out").write(batches, "q", 1)  # the table says by what it is partitioned
    assert sink.last("q") == 0 and sink.read()["c"].to_pylist() == ["__HIVE_DEFAULT_PARTITION__"]
    with pytest.raises(DataError, match=r"partition_by=\['v'\], but the table that is there is partitioned by \['c'\]"):
        sinks.delta(tmp_path / "out", partition_by="v").write(pa.table({"c": ["x"], "v": [1]}), "q", 1)


def test_the_text_that_would_be_null_is_refused_from_spark(spark: SparkSession, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by=["u.x", "c"])
    df = spark.createDataFrame([("x", "fine", 1), ("", "fine", 2)], "`u.x` string, c string, v int")
    with pytest.raises(DataError, match=r"partition_by='u\.x': a row has the empty text there"):
        sink.write(df, "q", 0)
    assert sink.last("q") is None
    sink.write(df.where("`u.x` <> ''"), "q", 0)
    assert sink.read().to_pylist() == [{"u.x": "x", "c": "fine", "v": 1}]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_column_must_be_left_for_the_files(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"partition_by=\['c'\]: no column is left for the files"):
        getattr(sinks, kind)(tmp_path / "out", partition_by="c").write(pa.table({"c": ["x"]}), "q", 0)
