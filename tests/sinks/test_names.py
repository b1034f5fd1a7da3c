"""Names: columns called anything come back from every sink, and a target has one mark however it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError, UsageError
from pellucid.sinks.once_sink import split
from tests.sinks.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "user.id",
    "a.b.c",
    "a b",
    'qu"ote',
    "q'uote",
    "tick`s",
    "100%",
    "%s",
    "%(x)s",
    "Upper",
    "select",
    "semi;colon",
    "a=b",
    "sl/ash",
    "back\\slash",
    "{b}",
    "ünï",
    "_under",
    "-- x",
    "$1",
    "?",
]


def rows(number: int = 0) -> pa.Table:
    return pa.table({name: pa.array([number + place], pa.int64()) for place, name in enumerate(NAMES)})


def in_spark(spark: SparkSession, table: pa.Table) -> Any:
    return spark.createDataFrame(
        [tuple(row.values()) for row in table.to_pylist()],
        ", ".join(f"`{name.replace('`', '``')}` bigint" for name in NAMES),
    )


@pytest.fixture(scope="module")
def dsn(postgres: Postgres) -> str:
    return postgres.database()


LOCAL: dict[str, Callable[[Path], sinks.Sink]] = {
    "parquet": lambda folder: sinks.parquet(folder / "out"),
    "sqlite": lambda folder: sinks.sqlite(folder / "out.db", 'a "table" called `100%`.x'),
    "delta": lambda folder: sinks.delta(folder / "out"),
}


@pytest.mark.parametrize("kind", LOCAL)
def test_columns_called_anything(kind: str, tmp_path: Path) -> None:
    for batch in (0, 1):
        LOCAL[kind](tmp_path).write(rows(batch), "q", batch)
    assert (
        sorted(LOCAL[kind](tmp_path).read().to_pylist(), key=lambda row: row["user.id"])
        == rows(0).to_pylist() + rows(1).to_pylist()
    )


def test_columns_called_anything_in_postgres(dsn: str) -> None:
    sink = sinks.postgres(dsn, 'public.a "table" called 100%')
    for batch in (0, 1, 1):
        sink.write(rows(batch), "q", batch)
    assert sink.read().to_pylist() == rows(0).to_pylist() + rows(1).to_pylist()


def test_columns_called_anything_from_spark(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    df = in_spark(spark, rows())
    for sink in (
        *(make(tmp_path / kind) for kind, make in LOCAL.items() if kind != "sqlite"),
        LOCAL["sqlite"](tmp_path),
        sinks.postgres(dsn, "plain"),
        sinks.postgres(dsn, "50% parallel", parallel=True),
    ):
        sink.write(df, "q", 0)
        assert sink.read().to_pylist() == rows().to_pylist(), sink
    back = sinks.read_spark(spark, tmp_path / "parquet" / "out")
    assert [row.asDict() for row in back.collect()] == rows().to_pylist()


def test_split_by_a_column_called_anything(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1, "x"), ("b", 2, "y")], "`out.p``ut` string, n bigint, `user.id` string")
    sink = split(
        "out.p`ut", sinks={"a": sinks.sqlite(tmp_path / "o.db", "a"), "b": sinks.sqlite(tmp_path / "o.db", "b")}
    )
    sink.write(df, "q", 0)
    assert sink.read()["a"].to_pylist() == [{"n": 1, "user.id": "x"}] and sink.read()["b"].to_pylist() == [
        {"n": 2, "user.id": "y"}
    ]


@pytest.mark.parametrize("kind", LOCAL)
def test_two_columns_of_one_name_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"columns 'a', 'a' have one name in the target"):
        LOCAL[kind](tmp_path).write(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "q", 0)


def test_names_that_postgres_would_change_are_refused(dsn: str) -> None:
    with pytest.raises(DataError, match=r"PostgreSQL cuts a name after 63 bytes"):
        sinks.postgres(dsn, "long").write(pa.table({"x" * 64: [1]}), "q", 0)
    for name in ("", "a.", "a.b.c.d"):
        with pytest.raises(UsageError, match=r"expected 'table' or 'schema\.table'"):
            sinks.postgres(dsn, name)


def test_one_mark_for_a_table_of_postgres(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn) as db:
        db.execute("CREATE SCHEMA stats")
        (database,) = db.execute("SELECT current_database()").fetchone() or ("",)
    one = pa.table({"id": [1]})
    assert not sinks.postgres(dsn, "t").write(one, "q", 0).skipped
    for name in ("public.t", f"{database}.public.t", "t"):
        assert sinks.postgres(dsn, name).write(one, "q", 0).skipped and sinks.postgres(dsn, name).last("q") == 0, name
    elsewhere = f"{dsn}?options=-csearch_path%3Dstats"  # there t is another table, and the marks are in another book
    assert not sinks.postgres(elsewhere, "t").write(one, "q", 0).skipped
    assert sinks.postgres(elsewhere, "public.t").write(one, "q", 0).skipped
    assert not sinks.postgres(elsewhere, "public.t").write(one, "q", 1).skipped
    assert sinks.postgres(dsn, "t").write(one, "q", 1).skipped
    assert sinks.postgres(dsn, "stats.t").write(one, "q", 0).skipped
    assert sinks.postgres(dsn, "t").read().num_rows == 2 and sinks.postgres(dsn, "stats.t").read().num_rows == 1
    assert not sinks.postgres(dsn, "T").write(one, "q", 0).skipped  # PostgreSQL tells T from t, where both are quoted


def test_a_mark_of_an_earlier_release_counts(dsn: str) -> None:
    """It had the name as it was given."""
    import psycopg

    one = pa.table({"id": [1]})
    for name, others in (("old", "public.old"), ("public.older", "older")):
        sinks.postgres(dsn, name).write(one, "q", 0)
        with psycopg.connect(dsn) as db:
            db.execute(
                "UPDATE pellucid_epochs SET target = %s, batch = 5 WHERE target = %s",
                (name, f"public.{name.removeprefix('public.')}"),
            )
        assert sinks.postgres(dsn, others).last("q") == 5
        assert (
            sinks.postgres(dsn, others).write(one, "q", 5).skipped
            and not sinks.postgres(dsn, others).write(one, "q", 6).skipped
        )
        assert sinks.postgres(dsn, name).last("q") == 6


def test_a_mark_that_cannot_be_made_is_no_reason_to_leave_the_batch_out(dsn: str) -> None:
    import psycopg

    sink = sinks.postgres(dsn, "unmarked")
    sink.write(pa.table({"id": [1]}), "q", 0)
    with psycopg.connect(dsn) as db:  # what somebody who deletes the mark at the wrong moment does
        db.execute("DELETE FROM pellucid_epochs WHERE target = 'public.unmarked'")
        db.execute("CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        db.execute("CREATE TRIGGER t BEFORE INSERT ON pellucid_epochs FOR EACH ROW EXECUTE FUNCTION nothing()")
    try:
        with pytest.raises(
            StateError, match=r"the mark of query 'q' in pellucid_epochs could not be made, or was removed"
        ):
            sink.write(pa.table({"id": [2]}), "q", 1)
        assert sink.read().num_rows == 1
    finally:
        with psycopg.connect(dsn) as db:
            db.execute("DROP FUNCTION nothing CASCADE")


def test_one_mark_for_a_table_of_sqlite(tmp_path: Path) -> None:
    one = pa.table({"id": [1]})
    (tmp_path / "link.db").symlink_to("a.db")
    assert not sinks.sqlite(tmp_path / "a.db", "Sums").write(one, "q", 0).skipped
    assert sinks.sqlite(tmp_path / "link.db", "sums").write(one, "q", 0).skipped  # to SQLite the same table
    assert sinks.sqlite(tmp_path / "a.db", "SUMS").last("q") == 0
    assert not sinks.sqlite(tmp_path / "a.db", "sums").write(one, "q", 1).skipped
    assert sinks.sqlite(tmp_path / "a.db", "Sums").write(one, "q", 1).skipped
    assert not sinks.sqlite(tmp_path / "a.db", "main.sums").write(one, "q", 0).skipped  # a table whose name has a dot
    assert sinks.sqlite(tmp_path / "a.db", "Sums").read().num_rows == 2


@pytest.mark.parametrize("kind", ["parquet", "delta", "once"])
def test_one_mark_for_a_folder(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(path: str) -> sinks.Sink:
        return sinks.once(lambda df, batch_id: None, ledger=path) if kind == "once" else getattr(sinks, kind)(path)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a link").symlink_to(tmp_path, target_is_directory=True)
    sink = made("out")
    assert not sink.write(pa.table({"id": [1]}), "q", 0).skipped
    for path in (
        "out/",
        "./out",
        f"{tmp_path}/out",
        f"file://{tmp_path}/out",
        f"{tmp_path}/a link/out",
        f"{tmp_path}/x/../out",
    ):
        assert made(path).write(pa.table({"id": [1]}), "q", 0).skipped, path
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sink.write(pa.table({"id": [1]}), "q", 0).skipped
