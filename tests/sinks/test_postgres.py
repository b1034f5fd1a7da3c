"""PostgreSQL: exact values, one transaction per batch, two drivers at once, tables that do not fit."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from tests.seeds import OF_SPEED
from tests.sinks.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def dsn(postgres: Postgres) -> str:
    return postgres.database()


def drop(dsn: str, *tables: str) -> None:
    import psycopg

    with psycopg.connect(dsn) as db:
        for table in (*tables, "pellucid_epochs", "pellucid_staging"):
            db.execute(f"DROP TABLE IF EXISTS {table}")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "user": pa.array([f"u{i % 3}" for i in ids], pa.string())})


def ids_in(sink: sinks.Sink) -> Counter[int]:
    return Counter(sink.read()["id"].to_pylist())


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
    import psycopg

    drop(dsn, "t")
    kind = pa.map_(pa.string(), pa.list_(pa.map_(pa.int64(), pa.string())))
    values = pa.array([[], [("a", [])], [("b", [[], [(1, "x")]])], None], kind)
    sink = sinks.postgres(dsn, "t")
    sink.write(pa.table({"m": values, "l": pa.array([[], [1], None, []], pa.list_(pa.int64()))}), "q", 0)
    with psycopg.connect(dsn) as db:
        found = db.execute("SELECT m, l FROM t").fetchall()
    assert found == [({}, []), ({"a": []}, [1]), ({"b": [{}, {"1": "x"}]}, None), (None, [])]
    assert sink.read()["l"].to_pylist() == [[], [1], None, []]
    assert sink.read()["m"].to_pylist() == [
        "{}",
        '{"a": []}',
        '{"b": [{}, {"1": "x"}]}',
        None,
    ]  # no type of Arrow has them all


def test_each_batch_once(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(dsn, "t")
    sink = sinks.postgres(dsn, "t")
    assert sink.last("q") is None
    assert [sink.write(rows(batch), "q", batch).skipped for batch in (0, 1, 1, 0, 2)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert not sink.write(rows(7), "another-checkpoint", 0).skipped
    assert ids_in(sink) == Counter([0, 1, 2, 7]) and sink.last("q") == 2

    def fail(name: str) -> None:
        if name == "postgres:before-commit":
            raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", fail)
        with pytest.raises(RuntimeError, match="stopped"):
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
    import psycopg

    drop(dsn, "t")
    sink = sinks.postgres(dsn, "t", wait=0.2)
    sink.write(rows(1), "q", 0)
    with psycopg.connect(dsn) as zombie:
        zombie.execute("SELECT FROM pellucid_epochs FOR UPDATE")
        with pytest.raises(StateError, match=r"another writer has held query 'q' for 0\.2 s: is a second driver"):
            sink.write(rows(2), "q", 1)
        zombie.rollback()


def test_a_table_of_the_users(dsn: str) -> None:
    import psycopg

    drop(dsn, "t")
    with psycopg.connect(dsn) as db:
        db.execute('CREATE TABLE t (at timestamptz DEFAULT now(), number bigserial, id numeric, "user" varchar)')
    sinks.postgres(dsn, "t").write(rows(1, 2), "q", 0)
    assert ids_in(sinks.postgres(dsn, "t")) == Counter([1, 2])
    with psycopg.connect(dsn) as db:
        db.execute('ALTER TABLE t DROP COLUMN id, ADD COLUMN more text, ALTER COLUMN "user" TYPE integer USING 0')
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
