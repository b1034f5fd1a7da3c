"""Sinks inside Spark: the rows as Arrow batches, the query's id, a new checkpoint, a failed job, several outputs; rich
values and odd names; the snippets of docs/how-to-sinks.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError, UsageError
from pellucid.sinks import interface
from pellucid.sinks.kafka_sink import _records
from pellucid.sinks.rows import rows_of
from tests.engine.epochs.rich_rows import CORNERS, plain
from tests.engine.epochs.test_rich import TYPES, sqlite_equal, table_of
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres
from tests.sinks.test_sinks import NAMED, NAMES, named_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(3):
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number * 10 + i for i in range(10)]}), file)
        os.utime(file, (number, number))  # Spark reads the oldest first, to the millisecond
    return folder


def stream(spark: SparkSession, source: Path, sink: Any, checkpoint: Path) -> None:
    rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(source))
    query = (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_rows_are_those_of_spark(spark: SparkSession) -> None:
    df = spark.range(25_000, numPartitions=3).selectExpr(
        "id",
        "if(id % 7 = 0, null, concat('u', id)) AS s",
        "timestamp_micros(id) AS at",
        "array(id, null) AS a",
        "cast(id AS decimal(20, 3)) AS d",
    )
    rows = rows_of(df)
    table = pa.Table.from_batches(list(rows), rows.schema)
    assert rows.count == 25_000 and table.sort_by("id").to_pylist() == df.toArrow().sort_by("id").to_pylist()
    assert pa.Table.from_batches(list(rows_of(df.limit(0))), rows.schema).num_rows == 0


@pytest.mark.parametrize("kind", ["sqlite", "delta", "parquet"])
def test_a_job_that_fails_in_the_middle_commits_nothing(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    df = spark.range(40_000, numPartitions=4).selectExpr("if(id = 39999, raise_error('bad row'), id) AS id")
    sink = sinks.sqlite(tmp_path / "a.db", "t") if kind == "sqlite" else getattr(sinks, kind)(tmp_path / "out")
    with pytest.raises(Exception, match="bad row"):
        sink.write(df, "q", 0)
    assert sink.last("q") is None
    sink.write(spark.range(3), "q", 0)
    assert Counter(sink.read()["id"].to_pylist()) == Counter(range(3))


def test_a_sink_of_ones_own(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time nothing is new
        stream(spark, source, Lines(tmp_path / "out"), tmp_path / "checkpoint")
    (query,) = (tmp_path / "out").iterdir()
    shutil.rmtree(tmp_path / "checkpoint" / "commits")  # as after a crash between the sink's commit and Spark's
    sink = Lines(tmp_path / "out")
    stream(spark, source, sink, tmp_path / "checkpoint")
    assert sink.last(query.name) == 2 and sink.calls and set(sink.calls) == {"stage"}
    assert [row["id"] for row in sink.rows()] == list(range(30))


def test_a_new_checkpoint_is_another_query(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    for checkpoint in ("first", "first", "second"):  # the same again: nothing new; another: batches from 0, all written
        stream(spark, source, sinks.parquet(tmp_path / "out"), tmp_path / checkpoint)
    sink = sinks.parquet(tmp_path / "out")
    assert Counter(sink.read()["id"].to_pylist()) == Counter(list(range(30)) * 2)
    assert Counter(row["id"] for row in sinks.read_spark(spark, tmp_path / "out").collect()) == Counter(
        list(range(30)) * 2
    )
    assert sorted(batch for _, batch in sink.log.newest()) == [2, 2]


def test_a_fixed_name_outlives_the_checkpoint(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    for checkpoint in ("first", "second"):
        stream(spark, source, sinks.sqlite(tmp_path / "a.db", "t", query="mine"), tmp_path / checkpoint)
    assert sinks.sqlite(tmp_path / "a.db", "t").read().num_rows == 30


def test_partitions_and_read_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "an out=put"
    df = spark.range(100).selectExpr("id", "concat('k', id % 3, ' %=/ü') AS k", "timestamp'9999-12-31 23:59:59' AS at")
    sink = sinks.parquet(folder, partition_by="k")
    sink.write(df, "q", 0)
    expected = Counter((i, f"k{i % 3} %=/ü") for i in range(100))
    assert Counter((row["id"], row["k"]) for row in sink.read().to_pylist()) == expected
    assert {row["at"].year for row in sink.read().slice(0, 5).to_pylist()} == {9999}
    assert Counter((row["id"], row["k"]) for row in sinks.read_spark(spark, folder).collect()) == expected
    assert spark.read.parquet(str(folder)).count() == 100


def test_a_folder_that_is_not_shared_is_found_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sinks.parquet(tmp_path / "out")
    monkeypatch.setattr(sink, "_staged_files", lambda staging, batch: ())
    with pytest.raises(
        StateError, match=r"the executors wrote 5 rows, but the driver finds 0: the folder must be the same one"
    ):
        sink.write(spark.range(5), "q", 0)


def test_split_in_a_query(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    sink = sinks.split(
        "output", sinks={"odd": sinks.parquet(tmp_path / "odd"), "even": sinks.sqlite(tmp_path / "a.db", "even")}
    )

    def divided(df: Any, batch_id: int) -> None:
        sink(
            df.selectExpr(
                "if(id % 2 = 0, 'even', 'odd') AS output",
                "if(id % 2 = 1, id, null) AS odd",
                "if(id % 2 = 0, id, null) AS even",
            ),
            batch_id,
        )

    stream(spark, source, divided, tmp_path / "checkpoint")
    found = sink.read()
    assert found["odd"].column_names == ["odd"] and sorted(found["odd"]["odd"].to_pylist()) == list(range(1, 30, 2))
    assert sorted(found["even"]["even"].to_pylist()) == list(range(0, 30, 2))


@pytest.mark.parametrize("look", ["nothing", "a part", "its own cache"])
def test_once_computes_every_partition_once_whatever_the_function_looks_at(
    spark: SparkSession, tmp_path: Path, look: str
) -> None:
    """A partition is a bucket of a pipeline's state: one that is not computed forgets the batch."""
    marks = str(tmp_path)

    def computed(batches: Any) -> Any:
        import uuid

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        open(f"{marks}/{context.partitionId()}-{uuid.uuid4().hex}", "w").close()

    def looks(df: Any, batch_id: int) -> None:
        if look == "a part":
            assert len(df.take(1)) == 1
        elif look == "its own cache":
            df.persist()
            df.show(1)
            df.unpersist()

    df = spark.range(30, numPartitions=3).mapInArrow(computed, "id bigint")
    sink = sinks.once(looks, ledger=tmp_path / "ledger")
    assert not sink.write(df, "q", 0).skipped
    assert Counter(path.name[0] for path in tmp_path.glob("?-*")) == {"0": 1, "1": 1, "2": 1}
    assert not df.storageLevel.useMemory and not df.storageLevel.useDisk
    assert sink.write(df, "q", 0).skipped


def test_once_is_not_given_a_batch_that_cannot_be_computed(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[int, bool]] = []
    sink = sinks.once(lambda df, batch_id, again: calls.append((batch_id, again)), ledger=tmp_path)
    with pytest.raises(Exception, match="bad row"):
        sink.write(spark.range(4, numPartitions=2).selectExpr("if(id = 3, raise_error('bad row'), id) AS id"), "q", 0)
    sink.write(spark.range(4), "q", 0)
    assert calls == [(0, False)]


def test_outside_a_query_a_name_is_needed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot see the id of the streaming query"):
        interface.query_of(spark.range(1))
    sinks.sqlite(tmp_path / "a.db", "t", query="mine")(spark.range(3), 0)
    assert sinks.sqlite(tmp_path / "a.db", "t").last("mine") == 0


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("kind", NAMED)
def test_columns_called_anything(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    kinds = ", ".join(f"`{name.replace('`', '``')}` bigint" for name in NAMES)
    df = spark.createDataFrame([tuple(row.values()) for row in named_rows().to_pylist()], kinds)
    sink = NAMED[kind](tmp_path)
    sink.write(df, "q", 0)
    assert sink.read().to_pylist() == named_rows().to_pylist()
    if kind == "parquet":
        back = sinks.read_spark(spark, tmp_path / "out")
        assert [row.asDict() for row in back.collect()] == named_rows().to_pylist()


def test_split_by_a_column_called_anything(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1, "x"), ("b", 2, "y")], "`out.p``ut` string, n bigint, `user.id` string")
    sink = sinks.split("out.p`ut", sinks={name: sinks.sqlite(tmp_path / "o.db", name) for name in "ab"})
    sink.write(df, "q", 0)
    assert sink.read()["a"].to_pylist() == [{"n": 1, "user.id": "x"}]
    assert sink.read()["b"].to_pylist() == [{"n": 2, "user.id": "y"}]


# ---------------------------------------------------------------- times, decimals, nulls

RICH = [plain(row) for row in CORNERS]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    table = table_of(CORNERS)
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True)).coalesce(1)


def test_rich_sqlite(frame: Any, tmp_path: Path) -> None:
    sinks.sqlite(tmp_path / "out.db", "t").write(frame, "q", 0)
    sqlite_equal(tmp_path / "out.db", CORNERS)


@pytest.mark.parametrize("parallel", [False, True])
def test_rich_postgres(frame: Any, postgres: Postgres, parallel: bool) -> None:
    sink = sinks.postgres(postgres.database(), "t", parallel=parallel)
    sink.write(frame, "q", 0)
    assert sink.read().to_pylist() == RICH


def test_rich_parquet(frame: Any, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out")
    sink.write(frame, "q", 0)
    found = sink.read()
    assert dict(zip(found.schema.names, found.schema.types, strict=True)) == TYPES
    assert found.to_pylist() == RICH


def test_rich_delta(frame: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    sink = sinks.delta(tmp_path / "out")
    with pytest.raises(DataError, match="column 'took' holds durations, for which Delta has no type"):
        sink.write(frame, "q", 0)
    sink.write(frame.drop("took", "otook"), "q", 0)
    assert sink.read().to_pylist() == [{n: v for n, v in row.items() if n not in ("took", "otook")} for row in RICH]


def test_rich_function(frame: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    sinks.once(lambda df, batch: seen.extend(df.toArrow().to_pylist()), ledger=tmp_path).write(frame, "q", 0)
    assert seen == RICH


def test_rich_messages(frame: Any) -> None:
    (piece,) = list(sinks.rows_of(frame))
    found = [json.loads(value) for _, value in _records(piece, None, None) if value is not None]
    assert [row["took"] for row in found] == ["PT22H30M", "-PT0.000001S", "P106751991D"]
    assert [row["otook"] for row in found] == [None, "PT0S", "-P106751991D"]
    assert [row["tiny"] for row in found] == ["0.000000000000000001", "0.000000000000000000", "-9.223372036854775808"]
    assert found[0]["when"] == "2013-01-01T05:00:00+00:00"


# ---------------------------------------------------------------- the snippets of the page

PAGE = Path(__file__).parents[2] / "docs" / "how-to-sinks.md"
SHOWN = [("ada", 3), ("bob", 5), ("ada", 40)]


def snippets() -> list[str]:
    return [
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if ">>>" not in block
    ]


def streaming(spark: SparkSession, folder: Path) -> Any:
    spark.createDataFrame(SHOWN, "user string, sum bigint").write.json(str(folder / "in"))
    return spark.readStream.schema("user string, sum bigint").json(str(folder / "in"))


def test_snippets_run(spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"spark": spark, "df": streaming(spark, tmp_path), "dsn": postgres.database()}
    for block in snippets():
        if "sinks.kafka" in block:
            continue
        # Spark resolves a relative checkpoint against the JVM's own folder, which is not the test's.
        exec(compile(block.replace('"state/', f'"{tmp_path}/state/'), PAGE.name, "exec"), space)
        sink = space["sink"]
        if sink.kind not in ("once", "split"):
            assert sorted((row["user"], row["sum"]) for row in sink.read().to_pylist()) == sorted(SHOWN), block
    assert space["frame"].count() == space["table"].num_rows == 3
    assert space["done"] == [(0, 3)] and len(list(Path("lines").glob("*/0.lines"))) == 1
    with closing(sqlite3.connect("own.db")) as db:
        assert dict(db.execute("SELECT user, sum FROM totals")) == {"ada": 43, "bob": 5}
    split = space["sink"].read()
    assert sorted(split["small"]["small"].to_pylist()) == [3, 5] and split["large"].to_pylist() == [
        {"user": "ada", "large": 40}
    ]


def test_each_guarantee_is_on_the_page() -> None:
    page = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8").replace("`", "")).lower()
    page = re.sub(r" ?\([^)]*\)", "", page)  # what is in brackets explains
    for sink in (
        sinks.parquet("x"),
        sinks.postgres("", "t"),
        sinks.sqlite("x", "t"),
        sinks.delta("x"),
        sinks.kafka("h", "t"),
        sinks.once(lambda df, batch_id: None, ledger="x"),
        sinks.split(sinks={"a": None}),
    ):
        assert "guarantee.** " + sink.guarantee.replace("()", "").lower() in page, sink.kind
