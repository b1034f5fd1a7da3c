"""The guard by (query, batch), for every sink that needs no server, against a model: a dict of what must be there."""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import sinks
from pellucid.errors import DataError, PellucidError, StateError, UsageError
from pellucid.internal.base import faults
from pellucid.sinks import interface
from pellucid.sinks.kafka_sink import _records
from pellucid.sinks.rows import csv_bytes

MAKERS: dict[str, Callable[[Path], sinks.Sink]] = {
    "parquet": lambda folder: sinks.parquet(folder / "out"),
    "partitioned": lambda folder: sinks.parquet(folder / "out", partition_by="user"),
    "sqlite": lambda folder: sinks.sqlite(folder / "out.db", "out"),
    "delta": lambda folder: sinks.delta(folder / "out"),
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "user": pa.array([f"u{i % 3}" for i in ids], pa.string())})


def ids_in(sink: sinks.Sink) -> Counter[int]:
    return Counter(sink.read()["id"].to_pylist())


@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=15)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["a", "b-1"]), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=8
    )
)
def test_each_batch_of_each_query_counts_once(kind: str, calls: list[tuple[str, int, int]]) -> None:
    """Any order of calls, from a new sink object each time (a restart): a batch at or below the last is left out."""
    last: dict[str, int] = {}
    expected: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as place:
        for number, (query, batch, size) in enumerate(calls):
            sink = MAKERS[kind](Path(place))
            given_rows = rows(*range(number * 10, number * 10 + size))
            written = sink.write(given_rows, query, batch)
            assert written.skipped == (batch <= last.get(query, -1))
            if not written.skipped:
                assert written.rows == size
                last[query] = batch
                expected.update(given_rows["id"].to_pylist())
            assert sink.last(query) == last[query]
        assert ids_in(MAKERS[kind](Path(place))) == expected


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_failure_around_the_commit(kind: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        if name.endswith(point):
            raise RuntimeError("stopped")

    MAKERS[kind](tmp_path).write(rows(1, 2), "q", 0)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", fail)
        with pytest.raises(RuntimeError, match="stopped"):
            MAKERS[kind](tmp_path).write(rows(3, 4, 5), "q", 1)
    sink = MAKERS[kind](tmp_path)
    assert ids_in(sink) == Counter([1, 2] + ([3, 4, 5] if point == "after-commit" else []))
    assert sink.write(rows(3, 4, 5), "q", 1).skipped == (point == "after-commit")
    assert ids_in(sink) == Counter([1, 2, 3, 4, 5])


@pytest.mark.parametrize("kind", MAKERS)
def test_other_columns_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    sink = MAKERS[kind](tmp_path)
    sink.write(rows(1), "q", 0)
    with pytest.raises(DataError, match=r"('id'.*'extra'|'extra'.*'id')"):
        sink.write(pa.table({"id": pa.array(["x"]), "user": ["u"], "extra": [True]}), "q", 1)
    assert sink.last("q") == 0 and ids_in(sink) == Counter([1])


def test_the_words_about_other_columns(tmp_path: Path) -> None:
    sink = sinks.sqlite(tmp_path / "a.db", "out")
    sink.write(rows(1), "q", 0)
    with pytest.raises(DataError) as caught:
        sink.write(pa.table({"id": ["x"], "more": [1]}), "q", 1)
    assert str(caught.value) == (
        f"{tmp_path}/a.db: table 'out' does not fit the batch: column 'more' (INTEGER) is missing in the table, column "
        "'user' (TEXT) is not "
        "in the batch, column 'id' is INTEGER in the table and TEXT in the batch; name another table, or alter this one"
    )


@pytest.mark.parametrize(("query", "batch"), [("", 0), ("a/b", 0), ("x" * 101, 0), ("q", -1), ("q", True), ("q", "1")])
def test_bad_names_and_numbers(query: Any, batch: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"query=|batch_id="):
        sinks.parquet(tmp_path).write(rows(1), query, batch)


def test_outside_foreach_batch_a_name_is_asked_for() -> None:
    with pytest.raises(UsageError, match="query='name'"):
        interface.query_of(object())


def test_not_data(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not dict"):
        sinks.sqlite(tmp_path / "a.db", "t").write({"id": [1]}, "q", 0)


def test_sqlite_values_are_exact_or_refused(tmp_path: Path) -> None:
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    sink.write(
        pa.table({"i": [2**63 - 1, -(2**63)], "f": [0.1, float("-inf")], "s": ["", None], "b": [b"\0", None]}), "q", 0
    )
    assert sink.read().to_pylist() == [
        {"i": 2**63 - 1, "f": 0.1, "s": "", "b": b"\0"},
        {"i": -(2**63), "f": float("-inf"), "s": None, "b": None},
    ]
    with pytest.raises(DataError, match="column 'f' has a NaN"):
        sink.write(pa.table({"i": [1], "f": [float("nan")], "s": ["x"], "b": [b""]}), "q", 1)
    with pytest.raises(DataError, match="column 'at' has a time whose year is not between 1 and 9999"):
        sinks.sqlite(tmp_path / "a.db", "times").write(pa.table({"at": pa.array([2**40], pa.timestamp("s"))}), "q", 0)
    records = sinks.sqlite(tmp_path / "a.db", "records")
    for inside in ({"a": float("nan")}, [1.5, float("nan")]):
        with pytest.raises(DataError, match="column 'r' has a NaN inside, for which JSON has no word"):
            records.write(pa.table({"r": [inside]}), "q", 0)
        with pytest.raises(DataError, match="column 'r' has a NaN inside"):
            csv_bytes(pa.record_batch({"r": [inside]}))  # for PostgreSQL


def test_durations_are_exact_or_refused(tmp_path: Path) -> None:
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    spans = [timedelta(days=1, microseconds=5), -timedelta(microseconds=1), timedelta(0), None]
    sink.write(pa.table({"d": spans}), "q", 0)
    assert sink.read()["d"].to_pylist() == ["P1DT0.000005S", "-PT0.000001S", "PT0S", None]
    sink.write(pa.table({"d": pa.array([90], pa.duration("s"))}), "q", 1)
    assert sink.read()["d"].to_pylist()[-1] == "PT1M30S"
    with pytest.raises(DataError, match="column 'd': a time has a finer part than a microsecond"):
        sink.write(pa.table({"d": pa.array([1001], pa.duration("ns"))}), "q", 2)
    with pytest.raises(DataError, match="column 'd' holds durations, for which Delta has no type: make whole numbers"):
        sinks.delta(tmp_path / "delta").write(pa.table({"d": [timedelta(seconds=1)]}), "q", 0)


def test_sqlite_names_the_column_that_takes_no_null(tmp_path: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute("CREATE TABLE t (id INTEGER NOT NULL, at TEXT NOT NULL)")
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    with pytest.raises(
        DataError, match=r"table 't': column 'at' is NOT NULL there, and a row of batch 0 has None for it"
    ):
        sink.write(pa.table({"id": [1, 2], "at": [datetime(2013, 1, 1), None]}), "q", 0)
    sink.write(pa.table({"id": [1], "at": [datetime(2013, 1, 1)]}), "q", 0)
    assert sink.read().to_pylist() == [{"id": 1, "at": "2013-01-01T00:00:00"}]


@pytest.mark.parametrize("how", ["", "ON CONFLICT FAIL", "ON CONFLICT ROLLBACK"])
def test_sqlite_names_the_row_that_it_refuses(tmp_path: Path, how: str) -> None:
    import sqlite3

    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute(f"CREATE TABLE t (id INTEGER UNIQUE {how}, x TEXT)")
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    ids = [*range(2000), 1700]
    with pytest.raises(
        DataError, match=r"table 't': a row of batch 3 is refused, UNIQUE constraint failed: t.id"
    ) as said:
        sink.write(pa.table({"id": ids, "x": ["y"] * 2001}), "q", 3)
    # where all is rolled back at once nothing tells which one it was
    assert ("(row 2,001: id=1700, x='y'): leave it out" in str(said.value)) == (how != "ON CONFLICT ROLLBACK")
    assert sink.read().num_rows == 0
    sink.write(pa.table({"id": ids[:-1], "x": ["y"] * 2000}), "q", 3)
    assert sink.read()["id"].to_pylist() == ids[:-1]


@pytest.mark.parametrize("declared", ["DATETIME", "DECIMAL(10,2)", "NUMERIC"])
def test_sqlite_refuses_a_column_that_would_make_a_number_of_a_text(declared: str, tmp_path: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute(f"CREATE TABLE t (fee {declared})")
    message = f"column 'fee' is {declared} in the table and TEXT in the batch"
    with pytest.raises(DataError, match=re.escape(message)):
        sinks.sqlite(tmp_path / "a.db", "t").write(pa.table({"fee": [Decimal("12.50")]}), "q", 0)


def test_what_a_text_holds_of_a_record_is_in_iso_8601(tmp_path: Path) -> None:
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    inner = {"at": datetime(2013, 1, 1, 5), "took": timedelta(minutes=90), "fee": Decimal("0.00000000"), "x": None}
    sink.write(pa.table({"r": [inner], "tiny": [Decimal("0.0000001")]}), "q", 0)
    (row,) = sink.read().to_pylist()
    assert json.loads(row["r"]) == {"at": "2013-01-01T05:00:00", "took": "PT1H30M", "fee": "0.00000000", "x": None}
    assert row["tiny"] == "0.0000001"


@pytest.mark.parametrize("value", [None, "0.0000001", "0", "-12345.6789012"])
def test_a_decimal_in_a_message_has_all_its_places(value: str | None) -> None:
    column = pa.array([None if value is None else Decimal(value)], pa.decimal128(19, 7))
    ((key, record),) = _records(pa.record_batch({"fee": column}), "fee", None)
    if value is None:
        assert (key, record) == (None, b'{"fee":null}')
    else:
        text = format(Decimal(value).quantize(Decimal("1e-7")), "f")
        assert key == text.encode() and json.loads(record) == {"fee": text}


def test_sqlite_says_who_holds_the_lock(tmp_path: Path) -> None:
    import sqlite3

    sink = sinks.sqlite(tmp_path / "a.db", "t", wait=0.1)
    sink.write(rows(1), "q", 0)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match=r"another writer has held the database for 0\.1 s"):
            sink.write(rows(2), "q", 1)


def test_once_tells_whether_something_may_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bool]] = []
    sink = sinks.once(lambda df, batch_id, again: seen.append((batch_id, again)), ledger=tmp_path)
    sink.write(rows(1), "q", 0)

    def fail(name: str) -> None:
        if name == "once:before-end":
            raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", fail)
        with pytest.raises(RuntimeError):
            sink.write(rows(1), "q", 1)
    for batch in (1, 1, 2):
        sink.write(rows(1), "q", batch)
    assert seen == [(0, False), (1, False), (1, True), (2, False)]
    assert sink.last("q") == 2 and sink.last("new") is None
    (tmp_path / "q.json").write_text("{")
    with pytest.raises(StateError, match=r"q\.json: not a ledger"):
        sink.last("q")


def test_once_with_a_plain_function(tmp_path: Path) -> None:
    seen: list[int] = []
    sink = sinks.once(lambda df, batch_id: seen.append(batch_id), ledger=tmp_path)
    for batch in (0, 0, 1):
        sink.write(rows(1), "q", batch)
    assert seen == [0, 1]
    with pytest.raises(UsageError, match="read them there"):
        sink.read()


@pytest.mark.parametrize("kind", MAKERS)
def test_a_first_batch_that_failed_decides_nothing(kind: str, tmp_path: Path) -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": ["text"], "user": ["u"]})
        raise ValueError("the step failed")

    batches = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.string(), "user": pa.string()}), fails())
    with pytest.raises(Exception, match="the step failed"):
        MAKERS[kind](tmp_path).write(batches, "q", 0)
    sink = MAKERS[kind](tmp_path)
    sink.write(rows(1), "q", 0)  # after the fix the column is a number
    assert ids_in(sink) == Counter([1])
    with pytest.raises(DataError, match="'id'"):
        sink.write(pa.table({"id": ["x"], "user": ["u"]}), "q", 1)


def test_split_after_a_crash_between_two_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> sinks.Sink:
        return sinks.split(
            "output",
            sinks={
                "odd": sinks.sqlite(tmp_path / "a.db", "odd"),
                "even": sinks.parquet(tmp_path / "even"),
                "late": None,
            },
        )

    batch = pa.table(
        {
            "output": ["odd", "even", "odd", "late"],
            "n": [0, 1, 2, 3],
            "odd": [1, None, 3, None],
            "even": [None, 2, None, None],
            "late": [None, None, None, "x"],
        }
    )

    def fail(name: str) -> None:
        if name == "split:between":
            raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", fail)
        with pytest.raises(RuntimeError):
            made().write(batch, "q", 0)
    assert made().last("q") is None
    assert made().write(batch, "q", 0).rows == 1  # only what was missing
    assert made().write(batch, "q", 0).skipped
    assert made().read()["odd"].to_pylist() == [{"n": 0, "odd": 1}, {"n": 2, "odd": 3}]
    assert made().read()["even"].to_pylist() == [{"n": 1, "even": 2}]


def test_split_refuses_a_stray_output(tmp_path: Path) -> None:
    sink = sinks.split(sinks={"odd": sinks.sqlite(tmp_path / "a.db", "odd")})
    with pytest.raises(DataError, match=r"names the output 'even', which has no sink; there are odd \(give it None"):
        sink.write(pa.table({"output": ["odd", "even"], "odd": [1, 2]}), "q", 0)
    with pytest.raises(DataError, match="no column 'output'"):
        sink.write(rows(1), "q", 0)
    with pytest.raises(UsageError, match=r"wrap a function of your own with once"):
        sinks.split(sinks={"odd": print})  # type: ignore[dict-item]


def test_every_sink_states_its_guarantee(tmp_path: Path) -> None:
    for make in MAKERS.values():
        assert "once" in make(tmp_path).guarantee
    for sink in (
        sinks.kafka("h:1", "t"),
        sinks.postgres("", "t"),
        sinks.once(lambda df, batch_id: None, ledger=tmp_path),
    ):
        assert sink.guarantee.endswith(tuple("abcdefghijklmnopqrstuvwxyz"))
        assert json.dumps(sink.guarantee) and issubclass(type(sink), sinks.Sink)
    assert issubclass(StateError, PellucidError)


@pytest.mark.skipif(
    "preserve_order" not in inspect.signature(pyarrow.dataset.write_dataset).parameters,
    reason="this Arrow cannot keep the order of rows",
)
@pytest.mark.parametrize("partition_by", [(), "user"])
def test_rows_stay_in_order_in_a_file(partition_by: Any, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by=partition_by)
    pieces = [pa.record_batch({"user": ["a", "b"], "n": [2 * i, 2 * i + 1]}) for i in range(500)]
    sink.write(pieces, "q", 0)
    for user in ("a", "b"):
        found = [row["n"] for row in sink.read().to_pylist() if row["user"] == user]
        assert found == sorted(found) and len(found) == 500
