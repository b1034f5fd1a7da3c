"""A group as what ``foreachBatch`` takes: one that is down, batches that come again, rows by a column; and Delta."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.sinks.sqlite_sink import SQLiteSink
from tests.sinks.group.world import QUERY, rows
from tests.sinks.own import Lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Down(Lines):
    """Fails at the commit of one batch."""

    batch = -1

    def commit(self, staged: Any) -> None:
        if staged.batch == self.batch:
            raise DataError("the server is gone")
        super().commit(staged)


def stream(spark: SparkSession, source: Path, sink: Any, checkpoint: Path) -> None:
    read = spark.readStream.schema("output string, id bigint").option("maxFilesPerTrigger", 1)
    query = (
        read.parquet(str(source))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_streaming_query(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()

    def more(number: int) -> None:
        ids = list(range(number * 10, number * 10 + 10))
        table = pa.table({"output": ["even" if i % 2 == 0 else "odd" for i in ids], "id": ids})
        pq.write_table(table, source / f"{number}.parquet")

    own = Down(tmp_path / "own")
    members = {"even": sinks.sqlite(tmp_path / "even.db", "even"), "odd": own}
    more(0)
    stream(spark, source, sinks.together(members, log=tmp_path / "log", by="output"), tmp_path / "checkpoint")
    more(1)
    own.batch = 1
    with pytest.raises(Exception, match=r"batch 1 of query .* is decided, and unresolved: member 'odd'"):
        stream(spark, source, sinks.together(members, log=tmp_path / "log", by="output", patience=0.1),
               tmp_path / "checkpoint")  # fmt: skip
    assert members["even"].read().num_rows == 10
    assert [row["id"] for row in own.rows()] == [1, 3, 5, 7, 9]
    own.batch = -1
    more(2)
    for _ in range(2):
        stream(spark, source, sinks.together(members, log=tmp_path / "log", by="output"), tmp_path / "checkpoint")
        shutil.rmtree(tmp_path / "checkpoint" / "commits")  # as after a crash between our commit and Spark's
    assert sorted(members["even"].read()["id"].to_pylist()) == list(range(0, 30, 2))
    assert sorted(row["id"] for row in own.rows()) == list(range(1, 30, 2))


class DownTable(SQLiteSink):
    """Fails at every commit while it is down."""

    down = False

    def commit(self, staged: Any) -> None:
        if self.down:
            raise DataError("the server is gone")
        super().commit(staged)


def test_delta_is_a_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ahead of another member, and behind it: readers see whole epochs (who dies is in `test_delta_crash.py`)."""
    pytest.importorskip("deltalake")
    table, lake = DownTable(tmp_path / "t.db", "t"), sinks.delta(tmp_path / "lake")
    members = {"table": table, "lake": lake}

    def write(epoch: int) -> None:
        sinks.together(members, log=tmp_path / "log", patience=0).write(rows(epoch, epoch), QUERY, epoch)

    def seen() -> list[int]:
        found = sinks.read_together(members, log=tmp_path / "log")
        assert sorted(found["table"]["epoch"].to_pylist()) == sorted(found["lake"]["epoch"].to_pylist())
        return sorted(set(found["table"]["epoch"].to_pylist()))

    write(0)
    write(1)
    table.down = True
    with pytest.raises(StateError, match=r"batch 2 .* unresolved: member 'table'"):
        write(2)
    assert lake.read().num_rows == 9
    assert seen() == [0, 1]  # the lake is cut by its versions
    table.down = False
    write(3)
    assert seen() == [0, 1, 2, 3]
    with monkeypatch.context() as patch:
        patch.setattr(lake, "_append", lambda *about: (_ for _ in ()).throw(DataError("the store is gone")))
        with pytest.raises(StateError, match=r"batch 4 .* unresolved: member 'lake' .* the store is gone"):
            write(4)
    assert table.read().num_rows == 15
    assert seen() == [0, 1, 2, 3]
    write(5)
    assert seen() == [0, 1, 2, 3, 4, 5]
    assert lake.read().num_rows == 18


def test_two_groups_that_share_a_delta_table(tmp_path: Path) -> None:
    """Each would take what the other has for its own; a table that is not there yet is claimed as well."""
    pytest.importorskip("deltalake")

    def group(name: str) -> Any:
        members = {"lake": sinks.delta(tmp_path / "lake"), "own": sinks.sqlite(tmp_path / f"{name}.db", "t")}
        return sinks.together(members, log=tmp_path / name, patience=0)

    def refused() -> None:
        with pytest.raises(StateError, match=r"member 'lake' .* belongs to another group, whose log is .*first: .*rm "):
            group("second").write(rows(0, 2), QUERY, 0)

    first = group("first")
    first.begin(QUERY)
    refused()
    first.write(rows(0, 1), QUERY, 0)
    refused()
    assert first.read()["lake"]["attempt"].to_pylist() == [1] * 3
    (tmp_path / "lake" / "_group.json").unlink()  # as the message says
    group("second").write(rows(0, 2), "another", 0)
    assert sinks.delta(tmp_path / "lake").read().num_rows == 6
