"""Rows or numbers that somebody took away alone: noticed when a sink begins, and refused with what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import StateError
from pellucid.sinks import kafka_sink

if TYPE_CHECKING:
    from tests.sinks.postgres import Postgres

ROWS = pa.table({"x": [1, 2]})
NONE = ROWS.slice(0, 0)

MAKERS: dict[str, Callable[..., sinks.Sink]] = {
    "parquet": lambda folder, **more: sinks.parquet(folder / "out", query="q", **more),
    "sqlite": lambda folder, **more: sinks.sqlite(folder / "out.db", "t", query="q", **more),
    "delta": lambda folder, **more: sinks.delta(folder / "out", query="q", **more),
    "once": lambda folder, **more: sinks.once(lambda df, batch_id: None, ledger=folder / "ledger", query="q", **more),
}


def sql(folder: Path, *statements: str) -> None:
    db = sqlite3.connect(folder / "out.db")
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize("kind", MAKERS)
def test_a_gap_before_the_first_batch_is_refused(kind: str, tmp_path: Path) -> None:
    """Spark numbers batches without a gap; a target that was restored from an older copy, or emptied with its numbers,
    shows one."""
    with pytest.raises(
        StateError, match=r"no batch of query 'q' is there, yet Spark gives batch 3, .* say so with first_batch=3$"
    ):
        MAKERS[kind](tmp_path)(ROWS, 3)
    MAKERS[kind](tmp_path, first_batch=3)(ROWS, 3)
    sink = MAKERS[kind](tmp_path)
    for batch in (3, 4, 5):
        sink(ROWS, batch)
    with pytest.raises(
        StateError,
        match=r"the last batch of query 'q' that is there is 5, yet Spark gives batch 7, so those before it are "
        r"missing",
    ):
        MAKERS[kind](tmp_path)(ROWS, 7)
    MAKERS[kind](tmp_path)(ROWS, 6)
    assert MAKERS[kind](tmp_path).last("q") == 6


def test_a_gap_of_one_output(tmp_path: Path) -> None:
    def made() -> sinks.Sink:
        return sinks.split(
            sinks={"a": sinks.sqlite(tmp_path / "a.db", "a"), "b": sinks.parquet(tmp_path / "b")}, query="q"
        )

    batch = pa.table({"output": ["a", "b"], "a": [1, None], "b": [None, 2]})
    for number in range(3):
        made()(batch, number)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(StateError, match=r"/b: no batch of query 'q-b' is there, yet Spark gives batch 3"):
        made()(batch, 3)


@pytest.mark.parametrize("do", ["DELETE FROM t", "DROP TABLE t"])
def test_an_emptied_table_of_sqlite(do: str, tmp_path: Path) -> None:
    MAKERS["sqlite"](tmp_path).write(ROWS, "q", 0)
    sql(tmp_path, do)
    for batch in (0, 1):  # also a batch that would be left out
        with pytest.raises(
            StateError,
            match=(
                r"out\.db: table 't': it is empty, yet 2 rows were written there, .*DELETE FROM pellucid_epochs WHERE "
                r"target = 't'; "
                r"or, if other programs take the rows out, say drained=True$"
            ),
        ):
            MAKERS["sqlite"](tmp_path).write(ROWS, "q", batch)
    with pytest.raises(StateError, match="it is empty"):  # another query would go on with a table that lost rows
        MAKERS["sqlite"](tmp_path).write(ROWS, "other", 0)
    sink = MAKERS["sqlite"](tmp_path, drained=True)
    assert sink.write(ROWS, "q", 0).skipped and not sink.write(ROWS, "q", 1).skipped
    sql(tmp_path, "DELETE FROM t", "DELETE FROM pellucid_epochs WHERE target = 't'")
    assert not MAKERS["sqlite"](tmp_path).write(ROWS, "q", 0).skipped


def test_an_empty_table_after_empty_batches_is_none(tmp_path: Path) -> None:
    for kind in ("sqlite", "delta", "parquet"):
        for batch in range(2):
            assert not MAKERS[kind](tmp_path / kind if kind != "sqlite" else tmp_path).write(NONE, "q", batch).skipped


def test_numbers_of_an_earlier_version_are_counted_from_now_on(tmp_path: Path) -> None:
    sql(
        tmp_path,
        "CREATE TABLE pellucid_epochs (target TEXT NOT NULL, query TEXT NOT NULL, batch INTEGER NOT NULL, PRIMARY KEY "
        "(target, query))",
        "INSERT INTO pellucid_epochs VALUES ('t', 'q', 4)",
    )
    sink = MAKERS["sqlite"](tmp_path)
    assert sink.last("q") == 4 and sink.write(ROWS, "q", 4).skipped and not sink.write(ROWS, "q", 5).skipped
    sql(tmp_path, "DELETE FROM t")
    with pytest.raises(StateError, match="it is empty, yet 2 rows were written there"):
        MAKERS["sqlite"](tmp_path).write(ROWS, "q", 6)


def test_an_emptied_delta_table(tmp_path: Path) -> None:
    lake = pytest.importorskip("deltalake")
    MAKERS["delta"](tmp_path).write(ROWS, "q", 0)
    MAKERS["delta"](tmp_path).write(NONE, "q", 1)
    lake.DeltaTable(str(tmp_path / "out")).delete()
    with pytest.raises(
        StateError,
        match=r"/out: the table is empty, yet batch 0 of query 'q' put rows there: was it emptied, .*say drained=True$",
    ):
        MAKERS["delta"](tmp_path).write(ROWS, "q", 2)
    assert not MAKERS["delta"](tmp_path, drained=True).write(ROWS, "q", 2).skipped
    lake.DeltaTable(str(tmp_path / "out")).restore(2)  # both batches, and nothing else
    with pytest.raises(StateError, match=r"the last batch of query 'q' that is there is \d, yet Spark gives batch 9"):
        MAKERS["delta"](tmp_path)(ROWS, 9)


@pytest.mark.parametrize("do", ["TRUNCATE sums", "DELETE FROM sums", "DROP TABLE sums"])
def test_an_emptied_table_of_postgres(postgres: Postgres, do: str) -> None:
    import psycopg

    dsn = postgres.database()
    sinks.postgres(dsn, "sums").write(ROWS, "q", 0)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(do)
    with pytest.raises(
        StateError,
        match=(
            r"table 'public\.sums': it is empty, yet 2 rows were written there, .*DELETE FROM pellucid_epochs WHERE "
            r"target = 'public\.sums'"
        ),
    ):
        sinks.postgres(dsn, "public.sums").write(ROWS, "q", 1)
    assert not sinks.postgres(dsn, "sums", drained=True).write(ROWS, "q", 1).skipped
    assert sinks.postgres(dsn, "sums").write(ROWS, "q", 1).skipped
    with pytest.raises(
        StateError, match=r"table 'sums': the last batch of query 'q' that is there is 1, yet Spark gives batch 4"
    ):
        sinks.postgres(dsn, "sums", query="q")(ROWS, 4)


def test_numbers_of_an_earlier_version_in_postgres(postgres: Postgres) -> None:
    import psycopg

    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(
            "CREATE TABLE pellucid_epochs (target text NOT NULL, query text NOT NULL, batch bigint NOT NULL, at "
            "timestamptz NOT NULL DEFAULT now(), "
            "PRIMARY KEY (target, query))"
        )
        db.execute("INSERT INTO pellucid_epochs VALUES ('public.sums', 'q', 4)")
    sink = sinks.postgres(dsn, "sums")
    assert sink.write(ROWS, "q", 4).skipped and not sink.write(ROWS, "q", 5).skipped


class Topic:
    """Stands for a consumer: what Kafka keeps for the group, and how far each partition goes."""

    def __init__(self, offset: int, metadata: str, ends: list[int]) -> None:
        self.offset, self.metadata, self.ends, self.error = offset, metadata, ends, None

    def committed(self, wanted: Any, timeout: float) -> list[Any]:
        return [self]

    def list_topics(self, topic: str = "t", timeout: float = 0) -> Any:
        self.topics, self.partitions = {"t": self}, dict.fromkeys(range(len(self.ends)))
        return self

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return 0, self.ends[partition.partition]


def test_a_topic_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a broker: a topic's offsets only grow, so fewer of them than committed records tell."""
    pytest.importorskip("confluent_kafka")

    class Producer:
        def __init__(self, config: Any) -> None: ...
        def init_transactions(self, wait: float) -> None: ...

    monkeypatch.setattr(kafka_sink, "_confluent", lambda: type("module", (), {"Producer": Producer}))
    sink = sinks.kafka("nowhere:1", "t")

    def begun(topic: Topic) -> Any:
        monkeypatch.setattr(sink, "_consumer", lambda group, **more: topic)
        return kafka_sink._Session(sink, "q")

    session = begun(Topic(8, "records=300", [200, 150]))  # control records have offsets, too
    assert (session.last, session.records) == (7, 300)
    assert (begun(Topic(8, "", [0, 0])).last, begun(Topic(-1001, "", [0])).last) == (
        7,
        None,
    )  # of an earlier version; none at all
    with pytest.raises(
        StateError,
        match=r"topic 't': 300 records were written there up to batch 7 of query 'q', but it has had only 20: was the "
        r"topic deleted",
    ):
        begun(Topic(8, "records=300", [0, 20]))
    assert json.dumps(sink.place) == "\"topic 't'\""
