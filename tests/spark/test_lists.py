"""Arrays and structs of Spark as lists and records, in a batch and in a stream: as the local engine has them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import Scale, Stream, pipeline, sinks
from pellucid.errors import DataError
from pellucid.spark.files import read_json
from tests.data.test_lists import SCHEMA, Order, kept, odd, rows_of, told
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sold(NamedTuple):
    id: int
    sku: str
    last: Annotated[Decimal, Scale(2)]
    days: int


@pipeline
def sold(x: Stream[Order]) -> Stream[Sold]:
    """Each item with the price of the one before it."""
    items = x.explode(lambda e: e.items, beside=True).lag(1)
    return items.map(lambda p: Sold(p[0][0].id, p[0][1].sku, p[1][1].price, len(p[0][1].seen)))


def sold_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    items = [(row["id"], item) for row in rows for item in row["items"]]
    pairs = zip(items[1:], items, strict=False)
    return [(id, item["sku"], before["price"], len(item["seen"])) for (id, item), (_, before) in pairs]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [row | {"user": f"u{row['id'] % 3}"} for row in rows_of(seeds(1, 3)[0], 40)]


@pytest.fixture(scope="module")
def folder(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lists")
    schema = SCHEMA.append(pa.field("user", pa.string()))
    for i in (0, 1, 2):
        pq.write_table(pa.Table.from_pylist(rows[15 * i : 15 * (i + 1)], schema), made / f"{i}.parquet")
    return made


def wanted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    users = sorted({row["user"] for row in rows})
    return sorted((user, *one) for user in users for one in sold_of([row for row in rows if row["user"] == user]))


@pytest.mark.seeded
def test_batch(spark: SparkSession, rows: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    df = spark.read.parquet(str(folder))
    found = sold.spark(df, key="user", order="id").collect()
    assert sorted((r["user"], r["id"], r["sku"], r["last"], r["days"]) for r in found) == wanted(rows)
    made = odd.spark(df, order="id")
    assert made.schema["items"].dataType.simpleString() == (
        "array<struct<sku:string,price:decimal(19,2),size:struct<width:double,unit:string>,kind:string,seen:array<date>>>"
    )
    sinks.parquet(tmp_path / "out").write(made, "q", 0)
    assert told(sorted(sinks.parquet(tmp_path / "out").read().to_pylist(), key=lambda r: r["id"])) == told(
        [{n: v for n, v in row.items() if n != "user"} for row in kept(rows)]
    )


@pytest.mark.seeded
def test_stream(spark: SparkSession, rows: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    """Micro-batches of a file each; what waits between them is kept in a snapshot."""
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    out = sinks.parquet(tmp_path / "out")
    query = sold.spark(stream, key="user", order="id", state=str(tmp_path / "state")).writeStream
    query = query.foreachBatch(out).option("checkpointLocation", str(tmp_path / "check"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = out.read().to_pylist()
    assert sorted((r["user"], r["id"], r["sku"], r["last"], r["days"]) for r in found) == wanted(rows)


def test_refused(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    df = spark.read.parquet(str(folder))
    with pytest.raises(DataError, match="the key column 'tags' is array<string>: a key is a whole number"):
        odd.spark(df, key="tags", order="id")
    with pytest.raises(DataError, match=r"column 'tags' holds string: expected list\[str\]; read it as a list"):
        odd.spark(df.withColumn("tags", df["user"]), order="id")
    with pytest.raises(DataError, match="column 'tags' holds int32: expected str"):
        odd.spark(df.withColumn("tags", F.array(F.lit(1))), order="id")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "tags": ["a"]}\n')
    with pytest.raises(DataError, match=r"column 'tags': list\[str\] is not read from JSON Lines on Spark"):
        read_json(spark, tmp_path / "in.jsonl", {"id": int, "tags": list[str]})
