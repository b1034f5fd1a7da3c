"""Times, decimals and nulls of a Spark DataFrame in every sink: as they were, or refused by the column's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pellucid import sinks
from pellucid.errors import DataError
from tests.engine.epochs.rich_rows import CORNERS, plain
from tests.engine.epochs.test_rich import TYPES, sqlite_equal, table_of
from tests.sinks.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [plain(row) for row in CORNERS]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    table = table_of(CORNERS)
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True)).coalesce(1)


def test_sqlite(frame: Any, tmp_path: Path) -> None:
    sinks.sqlite(tmp_path / "out.db", "t").write(frame, "q", 0)
    sqlite_equal(tmp_path / "out.db", CORNERS)


@pytest.mark.parametrize("parallel", [False, True])
def test_postgres(frame: Any, postgres: Postgres, parallel: bool) -> None:
    sink = sinks.postgres(postgres.database(), "t", parallel=parallel)
    sink.write(frame, "q", 0)
    assert sink.read().to_pylist() == ROWS


def test_parquet(frame: Any, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out")
    sink.write(frame, "q", 0)
    found = sink.read()
    assert dict(zip(found.schema.names, found.schema.types, strict=True)) == TYPES
    assert found.to_pylist() == ROWS


def test_delta(frame: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    sink = sinks.delta(tmp_path / "out")
    with pytest.raises(DataError, match="column 'took' holds durations, for which Delta has no type"):
        sink.write(frame, "q", 0)
    sink.write(frame.drop("took", "otook"), "q", 0)
    assert sink.read().to_pylist() == [{n: v for n, v in row.items() if n not in ("took", "otook")} for row in ROWS]


def test_a_function(frame: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    sinks.once(lambda df, batch: seen.extend(df.toArrow().to_pylist()), ledger=tmp_path).write(frame, "q", 0)
    assert seen == ROWS


def test_messages(frame: Any) -> None:
    from pellucid.sinks.kafka_sink import _records

    (piece,) = list(sinks.rows_of(frame))
    found = [json.loads(value) for _, value in _records(piece, None, None) if value is not None]
    assert [row["took"] for row in found] == ["PT22H30M", "-PT0.000001S", "P106751991D"]
    assert [row["otook"] for row in found] == [None, "PT0S", "-P106751991D"]
    assert [row["tiny"] for row in found] == ["0.000000000000000001", "0.000000000000000000", "-9.223372036854775808"]
    assert found[0]["when"] == "2013-01-01T05:00:00+00:00"
