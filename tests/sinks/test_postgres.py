"""PostgreSQL: exact values, one transaction per batch, two drivers at once, names, tables that do not fit."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid import sinks
from pellucid.errors import DataError, StateError, UsageError
from tests.seeds import OF_SPEED
from tests.sinks.postgres import Postgres
from tests.sinks.test_sinks import NAMES, Stopped, ids_in, named_rows, rows, stopping_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def dsn(postgres: Postgres) -> str:
    return postgres.database()


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


def drop(dsn: str, *tables: str) -> None:
    run(dsn, *(f"DROP TABLE IF EXISTS {table}" for table in (*tables, "pellucid_epochs", "pellucid_staging")))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    ["\\.", "a\n\\.\nb", "\\N", '"', "\r\n", " "]
)


@settings(max_examples=40, suppress_health_check=[*OF_SPEED, HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(),
            st.none() | TEXT,
            st.none() | st.booleans(),
            st.none() | st.binary(max_size=4),
        ),
        max_size=5,
    )
)
def test_every_value_comes_back(dsn: str, values: list[tuple[Any, ...]]) -> None:
    drop(dsn, "t")
    kinds = pa.schema({"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "y": pa.binary()})
    given_rows = [dict(zip(kinds.names, value, strict=True)) for value in values]
    sink = sinks.postgres(dsn, "t")
    sink.write(pa.Table.from_pylist(given_rows, kinds), "q", 0)
    assert [repr(row) for row in sink.read().to_pylist()] == [repr(row) for row in given_rows]


@settings(max_examples=20, suppress_health_check=[*OF_SPEED, HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.none() | TEXT, max_size=5))
def test_a_single_column(dsn: str, values: list[str | None]) -> None:
    """The hard case of CSV: an empty line, and a lone backslash and dot."""
    drop(dsn, "t")
    sink = sinks.postgres(dsn, "t")
    sink.write(pa.table({"s": pa.array(values, pa.string())}), "q", 0)
    assert sink.read()["s"].to_pylist() == values


def test_other_types(dsn: str) -> None:
    drop(dsn, "t")
    row = {
        "at": datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        "plain": datetime(1999, 1, 1),
        "d": date(1, 1, 1),
        "n": Decimal("12.340"),
        "r": {"a": 1, "b": ["x", None]},
        "f": 0.1,
    }
    kinds = pa.schema(
        {
            "at": pa.timestamp("us", "UTC"),
            "plain": pa.timestamp("us"),
            "d": pa.date32(),
            "n": pa.decimal128(10, 3),
            "r": pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
            "f": pa.float32(),
        }
    )
    sink = sinks.postgres(dsn, "t")
    sink.write(pa.Table.from_pylist([row], kinds), "q", 0)
    (found,) = sink.read().to_pylist()
    assert {**found, "f": None} == {**row, "f": None} and found["f"] == pytest.approx(0.1)
    with pytest.raises(DataError, match="column 's': a text holds the character NUL"):
        sinks.postgres(dsn, "nul").write(pa.table({"s": ["a\0b"]}), "q", 0)


def test_maps_are_objects_also_when_empty(dsn: str) -> None:
    drop(dsn, "t")
    kind = pa.map_(pa.string(), pa.list_(pa.map_(pa.int64(), pa.string())))
    values = pa.array([[], [("a", [])], [("b", [[], [(1, "x")]])], None], kind)
    sink = sinks.postgres(dsn, "t")
    sink.write(pa.table({"m": values, "l": pa.array([[], [1], None, []], pa.list_(pa.int64()))}), "q", 0)
    with psycopg.connect(dsn) as db:
        found = db.execute("SELECT m, l FROM t").fetchall()
    assert found == [({}, []), ({"a": []}, [1]), ({"b": [{}, {"1": "x"}]}, None), (None, [])]
    assert sink.read()["l"].to_pylist() == [[], [1], None, []]
    texts = ["{}", '{"a": []}', '{"b": [{}, {"1": "x"}]}', None]
    assert sink.read()["m"].to_pylist() == texts  # no type of Arrow has them all


def test_each_batch_once(dsn: str) -> None:
    drop(dsn, "t")
    sink = sinks.postgres(dsn, "t")
    assert sink.last("q") is None
    done = [sink.write(rows(batch), "q", batch).skipped for batch in (0, 1, 1, 0, 2)]
    assert done == [False, False, True, True, False]
    assert not sink.write(rows(7), "another-checkpoint", 0).skipped
    with stopping_at("postgres:before-commit"), pytest.raises(Stopped):
        sink.write(rows(3), "q", 3)
    assert ids_in(sink) == Counter([0, 1, 2, 7]) and sink.last("q") == 2


def test_two_drivers_at_once(dsn: str) -> None:
    drop(dsn, "t")
    ready = threading.Barrier(2)
    skipped: list[bool] = []

    def drive(number: int) -> None:
        sink = sinks.postgres(dsn, "t")
        for batch in range(15):
            ready.wait()
            skipped.append(sink.write(pa.table({"id": [batch] * 3, "driver": [number] * 3}), "q", batch).skipped)

    drivers = [threading.Thread(target=drive, args=(number,)) for number in (1, 2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    found = Counter((row["id"], row["driver"]) for row in sinks.postgres(dsn, "t").read().to_pylist())
    assert sorted(batch for batch, _ in found) == list(range(15)) and set(found.values()) == {3}
    assert Counter(skipped) == {False: 15, True: 15}


def test_a_driver_that_hangs_is_named(dsn: str) -> None:
    drop(dsn, "t")
    sink = sinks.postgres(dsn, "t", wait=0.2)
    sink.write(rows(1), "q", 0)
    with psycopg.connect(dsn) as zombie:
        zombie.execute("SELECT FROM pellucid_epochs FOR UPDATE")
        with pytest.raises(StateError, match=r"another writer has held query 'q' for 0\.2 s: is a second driver"):
            sink.write(rows(2), "q", 1)
        zombie.rollback()


def test_a_table_of_the_users(dsn: str) -> None:
    drop(dsn, "t")
    run(dsn, 'CREATE TABLE t (at timestamptz DEFAULT now(), number bigserial, id numeric, "user" varchar)')
    sinks.postgres(dsn, "t").write(rows(1, 2), "q", 0)
    assert ids_in(sinks.postgres(dsn, "t")) == Counter([1, 2])
    run(dsn, 'ALTER TABLE t DROP COLUMN id, ADD COLUMN more text, ALTER COLUMN "user" TYPE integer USING 0')
    with pytest.raises(DataError) as caught:
        sinks.postgres(dsn, "t").write(rows(3), "q", 1)
    assert str(caught.value) == (
        "table 't' does not fit the batch: column 'id' (bigint) is missing in the table, column 'more' (text) is not "
        "in the batch, "
        "column 'user' is integer in the table and text in the batch; name another table, or alter this one"
    )


def test_unreachable() -> None:
    with pytest.raises(DataError, match="PostgreSQL cannot be reached for table 't'"):
        sinks.postgres("host=127.0.0.1 port=1 connect_timeout=2", "t").write(rows(1), "q", 0)


def test_parallel_counts_only_accepted_tasks(
    dsn: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A task fails after it has put out its rows; Spark runs it again, and the rows are there once."""
    drop(dsn, "t")
    marks = str(tmp_path_factory.mktemp("marks"))

    def fail_once(batches: Any) -> Any:
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and not os.path.exists(marks + "/failed"):
            open(marks + "/failed", "w").close()
            raise RuntimeError("once")

    df = spark.range(1000, numPartitions=3).mapInArrow(fail_once, "id bigint")
    sink = sinks.postgres(dsn, "t", parallel=True)
    assert sink.write(df, "q", 0).rows == 1000
    assert sink.write(df, "q", 0).skipped
    assert ids_in(sink) == Counter(range(1000))


# ---------------------------------------------------------------- names


def test_columns_called_anything(dsn: str, spark: SparkSession) -> None:
    sink = sinks.postgres(dsn, 'public.a "table" called 100%')
    for batch in (0, 1, 1):
        sink.write(named_rows(batch), "q", batch)
    assert sink.read().to_pylist() == named_rows(0).to_pylist() + named_rows(1).to_pylist()
    kinds = ", ".join(f"`{name.replace('`', '``')}` bigint" for name in NAMES)
    df = spark.createDataFrame([tuple(row.values()) for row in named_rows().to_pylist()], kinds)
    for sink in (sinks.postgres(dsn, "plain"), sinks.postgres(dsn, "50% parallel", parallel=True)):
        sink.write(df, "q", 0)
        assert sink.read().to_pylist() == named_rows().to_pylist(), sink


def test_names_that_postgres_would_change_are_refused(dsn: str) -> None:
    with pytest.raises(DataError, match=r"PostgreSQL cuts a name after 63 bytes"):
        sinks.postgres(dsn, "long").write(pa.table({"x" * 64: [1]}), "q", 0)
    for name in ("", "a.", "a.b.c.d"):
        with pytest.raises(UsageError, match=r"expected 'table' or 'schema\.table'"):
            sinks.postgres(dsn, name)


def test_one_mark_for_a_table(dsn: str) -> None:
    drop(dsn, "t")
    run(dsn, "CREATE SCHEMA stats")
    database = dsn.rpartition("/")[2]
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
    one = pa.table({"id": [1]})
    for name, others in (("old", "public.old"), ("public.older", "older")):
        sinks.postgres(dsn, name).write(one, "q", 0)
        target = f"public.{name.removeprefix('public.')}"
        run(dsn, f"UPDATE pellucid_epochs SET target = '{name}', batch = 5 WHERE target = '{target}'")
        assert sinks.postgres(dsn, others).last("q") == 5
        assert sinks.postgres(dsn, others).write(one, "q", 5).skipped
        assert not sinks.postgres(dsn, others).write(one, "q", 6).skipped
        assert sinks.postgres(dsn, name).last("q") == 6


def test_a_mark_that_cannot_be_made_is_no_reason_to_leave_the_batch_out(dsn: str) -> None:
    sink = sinks.postgres(dsn, "unmarked")
    sink.write(pa.table({"id": [1]}), "q", 0)
    run(  # as if another program deleted the mark at the wrong moment
        dsn,
        "DELETE FROM pellucid_epochs WHERE target = 'public.unmarked'",
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER t BEFORE INSERT ON pellucid_epochs FOR EACH ROW EXECUTE FUNCTION nothing()",
    )
    try:
        why = r"the mark of query 'q' in pellucid_epochs could not be made, or was removed"
        with pytest.raises(StateError, match=why):
            sink.write(pa.table({"id": [2]}), "q", 1)
        assert sink.read().num_rows == 1
    finally:
        run(dsn, "DROP FUNCTION nothing CASCADE")


# ---------------------------------------------------------------- rows that were taken away


@pytest.mark.parametrize("do", ["TRUNCATE sums", "DROP TABLE sums"])
def test_an_emptied_table(postgres: Postgres, do: str) -> None:
    dsn = postgres.database()
    sinks.postgres(dsn, "sums").write(rows(1, 2), "q", 0)
    run(dsn, do)
    why = (
        r"table 'public\.sums': it is empty, yet 2 rows were written there, .*DELETE FROM pellucid_epochs WHERE "
        r"target = 'public\.sums'"
    )
    with pytest.raises(StateError, match=why):
        sinks.postgres(dsn, "public.sums").write(rows(1), "q", 1)
    assert not sinks.postgres(dsn, "sums", drained=True).write(rows(1), "q", 1).skipped
    assert sinks.postgres(dsn, "sums").write(rows(1), "q", 1).skipped
    why = r"table 'sums': the last batch of query 'q' that is there is 1, yet Spark gives batch 4"
    with pytest.raises(StateError, match=why):
        sinks.postgres(dsn, "sums", query="q")(rows(1), 4)


def test_numbers_of_an_earlier_version(postgres: Postgres) -> None:
    dsn = postgres.database()
    run(
        dsn,
        "CREATE TABLE pellucid_epochs (target text NOT NULL, query text NOT NULL, batch bigint NOT NULL, at "
        "timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, query))",
        "INSERT INTO pellucid_epochs VALUES ('public.sums', 'q', 4)",
    )
    sink = sinks.postgres(dsn, "sums")
    assert sink.write(rows(1), "q", 4).skipped and not sink.write(rows(1), "q", 5).skipped
