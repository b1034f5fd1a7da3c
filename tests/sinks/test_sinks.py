"""Every sink that needs no server: each batch counts once, whatever happens around it; names, values, lost rows."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from pellucid import pipeline, sinks
from pellucid.errors import DataError, StateError, UsageError
from pellucid.internal.base import faults
from pellucid.sinks import interface, kafka_sink, once_sink, sink_of
from pellucid.sinks.kafka_sink import _records
from pellucid.sinks.rows import Rows, csv_bytes
from tests.sinks.own import Lines

MAKERS: dict[str, Callable[..., Any]] = {
    "parquet": lambda folder, **more: sinks.parquet(folder / "out", **more),
    "partitioned": lambda folder, **more: sinks.parquet(folder / "out", partition_by="user", **more),
    "sqlite": lambda folder, **more: sinks.sqlite(folder / "out.db", "t", **more),
    "delta": lambda folder, **more: sinks.delta(folder / "out", **more),
}
WITH_A_FUNCTION = {
    **{kind: make for kind, make in MAKERS.items() if kind != "partitioned"},
    "once": lambda folder, **more: sinks.once(lambda df, batch_id: None, ledger=folder / "ledger", **more),
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "user": pa.array([f"u{i % 3}" for i in ids], pa.string())})


def ids_in(sink: Any) -> Counter[int]:
    return Counter([row["id"] for row in sink.rows()] if isinstance(sink, Lines) else sink.read()["id"].to_pylist())


class Stopped(Exception):  # noqa: N818 - stands for a process that ends
    pass


def stopping_at(point: str) -> Any:
    """While it is active, whatever passes a fault point whose name ends like this stops there."""

    def stop(name: str) -> None:
        if name.endswith(point):
            raise Stopped(name)

    return mock.patch.object(faults, "point", stop)


class OneSink(RuleBasedStateMachine):
    """Batches in any order, complete, given up, or stopped around the commit, by one driver or a new one; the model is
    the last batch of each query and the rows that count."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="pellucid-sink-")
        self.make = lambda: (Lines if kind == "lines" else MAKERS[kind])(Path(self.folder.name))
        self.sink = self.make()
        self.last: dict[str, int] = {}
        self.ids: Counter[int] = Counter()
        self.next = 0

    def teardown(self) -> None:
        self.sink.close()
        self.folder.cleanup()

    queries, batches, sizes = st.sampled_from(["a", "b-1"]), st.integers(0, 4), st.integers(0, 3)

    def _rows(self, size: int) -> pa.Table:
        self.next += size
        return rows(*range(self.next - size, self.next))

    def _counts(self, query: str, batch: int, given: pa.Table) -> None:
        self.last[query] = batch
        self.ids.update(given["id"].to_pylist())

    @rule(query=queries, batch=batches, size=sizes)
    def write(self, query: str, batch: int, size: int) -> None:
        given, new = self._rows(size), batch > self.last.get(query, -1)
        written = self.sink.write(given, query, batch)
        assert (written.skipped, written.rows) == ((False, size) if new else (True, 0))
        if new:
            self._counts(query, batch, given)

    @rule(query=queries, batch=batches, size=sizes, end=st.sampled_from(["stage", "prepare", "commit"]))
    def step_by_step(self, query: str, batch: int, size: int, end: str) -> None:
        given = self._rows(size)
        staged = self.sink.stage(given, query, batch)
        if staged.skipped:
            assert batch <= self.last[query]
            return
        if end != "stage":
            self.sink.prepare(staged)
            assert self.make().last(query) == self.last.get(query)
        done = self.sink.commit(staged) if end == "commit" else self.sink.abort(staged)
        if done is not None and done.skipped:  # Delta looks for the number only when it commits
            assert batch <= self.last[query]
        elif end == "commit":
            self._counts(query, batch, given)

    @rule(query=queries, batch=batches, size=sizes, point=st.sampled_from(["before-commit", "after-commit"]))
    def stop_around_the_commit(self, query: str, batch: int, size: int, point: str) -> None:
        given = self._rows(size)
        with stopping_at(point):
            try:
                self.sink.write(given, query, batch)
            except Stopped:
                if point == "after-commit":
                    self._counts(query, batch, given)
            else:
                assert batch <= self.last.get(query, -1) or isinstance(self.sink, Lines)
                if batch > self.last.get(query, -1):
                    self._counts(query, batch, given)
        self.restart()

    @rule()
    def restart(self) -> None:
        self.sink = self.make()

    @invariant()
    def what_counts_is_there(self) -> None:
        for query, last in self.last.items():
            assert self.sink.last(query) == last
        if self.last:
            assert ids_in(self.sink) == self.ids


@pytest.mark.parametrize("kind", [*MAKERS, "lines"])
def test_each_batch_of_each_query_counts_once(kind: str) -> None:
    sized = settings(max_examples=15, stateful_step_count=8)
    run_state_machine_as_test(lambda: OneSink(kind), settings=sized)


@pytest.mark.parametrize("kind", ["parquet", "sqlite", "lines"])
def test_what_is_aborted_leaves_nothing(tmp_path: Path, kind: str) -> None:
    sink = (Lines if kind == "lines" else MAKERS[kind])(tmp_path)
    sink.write(rows(1), "q", 0)
    before = sorted(tmp_path.rglob("*"))
    for prepared in (False, True):
        staged = sink.stage(rows(2), "q", 1)
        if prepared:
            sink.prepare(staged)
        sink.abort(staged)
    assert sorted(tmp_path.rglob("*")) == before and ids_in(sink) == Counter([1])


def test_a_commit_that_fails_is_aborted(tmp_path: Path) -> None:
    class Full(Lines):
        def commit(self, staged: sinks.Staged) -> None:
            raise OSError(28, "No space left on device")

    sink = Full(tmp_path)
    with pytest.raises(OSError, match="No space"):
        sink.write(rows(1), "q", 0)
    assert sink.calls == ["stage", "prepare", "abort"] and not list(tmp_path.glob("*/*"))


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
    with pytest.raises(DataError, match=r"('id'.*'extra'|'extra'.*'id')"):
        sink.write(pa.table({"id": ["x"], "user": ["u"], "extra": [True]}), "q", 1)
    assert sink.last("q") == 0 and ids_in(sink) == Counter([1])


def test_prepare_of_a_table_of_one_file_keeps_others_out(tmp_path: Path) -> None:
    sink, other = (sinks.sqlite(tmp_path / "out.db", table, wait=0.1) for table in ("a", "b"))
    staged = sink.stage(rows(1), "q", 0)
    with pytest.raises(StateError, match=r"another writer has held the database for 0\.1 s"):
        other.stage(rows(1), "q", 0)
    sink.commit(staged)
    assert other.write(rows(1, 2), "q", 0).rows == 2


# ---------------------------------------------------------------- what is asked of a sink


@pytest.mark.parametrize(("query", "batch"), [("", 0), ("a/b", 0), ("x" * 101, 0), ("q", -1), ("q", True), ("q", "1")])
def test_bad_names_and_numbers(query: Any, batch: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"query=|batch_id="):
        sinks.parquet(tmp_path).write(rows(1), query, batch)


def test_what_a_sink_is_not_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="query='name'"):
        interface.query_of(object())
    with pytest.raises(UsageError, match="not dict"):
        sinks.sqlite(tmp_path / "a.db", "t").write({"id": [1]}, "q", 0)
    made = [make(tmp_path) for make in MAKERS.values()]
    for sink in (*made, sinks.once(print, ledger=tmp_path), sinks.kafka("h:1", "t"), sinks.postgres("", "t")):
        assert sink.guarantee.endswith(tuple("abcdefghijklmnopqrstuvwxyz"))
        assert pickle.loads(pickle.dumps(sink)).guarantee == sink.guarantee  # it can be sent to another process


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("sqlite:{}/a.db#t", "sqlite"),
        ("sqlite://{}/a.db#t", "sqlite"),
        ("postgres://db/shop#t", "postgres"),
        ("postgresql://db/shop#t", "postgres"),
        ("delta:{}/lake", "delta"),
        ("kafka://host:9092/topic", "kafka"),
        ("{}/folder", "parquet"),
        ("env:SOME_PLACE#t", "sqlite"),
    ],
)
def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, kind: str) -> None:
    monkeypatch.setenv("SOME_PLACE", f"sqlite:{tmp_path}/a.db")
    sink = sink_of(address.format(tmp_path))
    assert sink.kind == kind
    if kind == "sqlite":
        assert sink.identity == f"sqlite:{tmp_path}/a.db#t"
        sink.write(rows(1), "q", 0)
        assert (tmp_path / "a.db").exists()


# ---------------------------------------------------------------- names

NAMES = [
    "user.id", "a.b.c", "a b", 'qu"ote', "q'uote", "tick`s", "100%", "%s", "%(x)s", "Upper", "select", "semi;colon",
    "a=b", "sl/ash", "back\\slash", "{b}", "ünï", "_under", "-- x", "$1", "?",
]  # fmt: skip
NAMED: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda folder: sinks.parquet(folder / "out"),
    "sqlite": lambda folder: sinks.sqlite(folder / "out.db", 'a "table" called `100%`.x'),
    "delta": lambda folder: sinks.delta(folder / "out"),
}


def named_rows(number: int = 0) -> pa.Table:
    return pa.table({name: pa.array([number + place], pa.int64()) for place, name in enumerate(NAMES)})


@pytest.mark.parametrize("kind", NAMED)
def test_columns_called_anything(kind: str, tmp_path: Path) -> None:
    for batch in (0, 1):
        NAMED[kind](tmp_path).write(named_rows(batch), "q", batch)
    found = sorted(NAMED[kind](tmp_path).read().to_pylist(), key=lambda row: row["user.id"])
    assert found == named_rows(0).to_pylist() + named_rows(1).to_pylist()
    with pytest.raises(DataError, match=r"columns 'a', 'a' have one name in the target"):
        NAMED[kind](tmp_path).write(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "q", 2)


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
    for path in ("out/", "./out", f"{tmp_path}/out", f"file://{tmp_path}/out", f"{tmp_path}/a link/out"):
        assert made(path).write(pa.table({"id": [1]}), "q", 0).skipped, path
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sink.write(pa.table({"id": [1]}), "q", 0).skipped


# ---------------------------------------------------------------- SQLite's values


def sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def test_sqlite_values_are_exact_or_refused(tmp_path: Path) -> None:
    def sink(table: str) -> Any:
        return sinks.sqlite(tmp_path / "a.db", table)

    exact = {"i": [2**63 - 1, -(2**63)], "f": [0.1, float("-inf")], "s": ["", None], "b": [b"\0", None]}
    sink("t").write(pa.table(exact), "q", 0)
    assert sink("t").read().to_pydict() == exact
    day, tiny = dt.timedelta(days=1, microseconds=5), dt.timedelta(microseconds=1)
    sink("spans").write(pa.table({"d": [day, -tiny, 0 * day, None]}), "q", 0)
    sink("spans").write(pa.table({"d": pa.array([90], pa.duration("s"))}), "q", 1)
    assert sink("spans").read()["d"].to_pylist() == ["P1DT0.000005S", "-PT0.000001S", "PT0S", None, "PT1M30S"]
    inner = {
        "at": dt.datetime(2013, 1, 1, 5),
        "took": dt.timedelta(minutes=90),
        "fee": Decimal("0.00000000"),
        "x": None,
    }
    sink("records").write(pa.table({"r": [inner], "tiny": [Decimal("0.0000001")]}), "q", 0)
    (row,) = sink("records").read().to_pylist()
    assert json.loads(row["r"]) == {"at": "2013-01-01T05:00:00", "took": "PT1H30M", "fee": "0.00000000", "x": None}
    assert row["tiny"] == "0.0000001"
    nan, no_word = float("nan"), "column 'r' has a NaN inside, for which JSON has no word"
    for refused, why in (
        ({"f": [nan]}, "column 'f' has a NaN"),
        ({"at": pa.array([2**40], pa.timestamp("s"))}, "column 'at' has a time whose year is not between 1 and 9999"),
        ({"d": pa.array([1001], pa.duration("ns"))}, "column 'd': a time has a finer part than a microsecond"),
        ({"r": [{"a": nan}]}, no_word),
        ({"r": [[1.5, nan]]}, no_word),
        ({"n": pa.array([1, 2**64 - 1], pa.uint64())}, "column 'n' has 18446744073709551615, and SQLite's whole"),
    ):
        with pytest.raises(DataError, match=why):
            sink("refused").write(pa.table(refused), "q", 0)
        if why is no_word:
            with pytest.raises(DataError, match=why):
                csv_bytes(pa.record_batch(refused))  # for PostgreSQL
    with pytest.raises(DataError, match="column 'd' holds durations, for which Delta has no type: make whole numbers"):
        sinks.delta(tmp_path / "delta").write(pa.table({"d": [dt.timedelta(seconds=1)]}), "q", 0)


def test_sqlite_names_what_a_table_does_not_take(tmp_path: Path) -> None:
    sql(tmp_path / "a.db", "CREATE TABLE t (id INTEGER NOT NULL, at TEXT NOT NULL)", "CREATE TABLE fees (fee NUMERIC)")
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    when = dt.datetime(2013, 1, 1)
    why = r"table 't': column 'at' is NOT NULL there, and a row of batch 0 has None for it"
    with pytest.raises(DataError, match=why):
        sink.write(pa.table({"id": [1, 2], "at": [when, None]}), "q", 0)
    sink.write(pa.table({"id": [1], "at": [when]}), "q", 0)
    assert sink.read().to_pylist() == [{"id": 1, "at": "2013-01-01T00:00:00"}]
    with pytest.raises(DataError) as caught:
        sink.write(pa.table({"id": ["x"], "more": [1]}), "q", 1)
    assert str(caught.value) == (
        f"{tmp_path}/a.db: table 't' does not fit the batch: column 'more' (INTEGER) is missing in the table, column "
        "'at' (TEXT) is not in the batch, column 'id' is INTEGER in the table and TEXT in the batch; name another "
        "table, or alter this one"
    )
    with pytest.raises(DataError, match="column 'fee' is NUMERIC in the table and TEXT in the batch"):
        sinks.sqlite(tmp_path / "a.db", "fees").write(pa.table({"fee": [Decimal("12.50")]}), "q", 0)


@pytest.mark.parametrize("how", ["", "ON CONFLICT FAIL", "ON CONFLICT ROLLBACK"])
def test_sqlite_names_the_row_that_it_refuses(tmp_path: Path, how: str) -> None:
    sql(tmp_path / "a.db", f"CREATE TABLE t (id INTEGER UNIQUE {how}, x TEXT)")
    sink = sinks.sqlite(tmp_path / "a.db", "t")
    ids = [*range(2000), 1700]
    why = r"table 't': a row of batch 3 is refused, UNIQUE constraint failed: t.id"
    with pytest.raises(DataError, match=why) as said:
        sink.write(pa.table({"id": ids, "x": ["y"] * 2001}), "q", 3)
    # where all is rolled back at once nothing tells which one it was
    assert ("(row 2,001: id=1700, x='y'): leave it out" in str(said.value)) == (how != "ON CONFLICT ROLLBACK")
    assert sink.read().num_rows == 0
    sink.write(pa.table({"id": ids[:-1], "x": ["y"] * 2000}), "q", 3)
    assert sink.read()["id"].to_pylist() == ids[:-1]


def test_a_decimal_in_a_message_has_all_its_places() -> None:
    column = pa.array([None, Decimal("0.0000001"), Decimal("-12345.6789012")], pa.decimal128(19, 7))
    found = list(_records(pa.record_batch({"fee": column}), "fee", None))
    assert found[0] == (None, b'{"fee":null}')
    for (key, record), text in zip(found[1:], ("0.0000001", "-12345.6789012"), strict=True):
        assert key == text.encode() and json.loads(record or b"") == {"fee": text}


# ---------------------------------------------------------------- once, split, and sinks of one's own


def test_once_tells_whether_something_may_be_there(tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []
    sink = sinks.once(lambda df, batch_id, again: seen.append((batch_id, again)), ledger=tmp_path)
    sink.write(rows(1), "q", 0)
    with stopping_at("once:before-end"), pytest.raises(Stopped):
        sink.write(rows(1), "q", 1)
    for batch in (1, 1, 2):
        sink.write(rows(1), "q", batch)
    assert seen == [(0, False), (1, False), (1, True), (2, False)]
    assert sink.last("q") == 2 and sink.last("new") is None
    (tmp_path / "q.json").write_text("{")
    with pytest.raises(StateError, match=r"q\.json: not a ledger"):
        sink.last("q")
    with pytest.raises(UsageError, match="read them there"):
        sink.read()


def test_split_after_a_crash_between_two_sinks(tmp_path: Path) -> None:
    def made() -> sinks.Sink:
        odd, even = sinks.sqlite(tmp_path / "a.db", "odd"), sinks.parquet(tmp_path / "even")
        return sinks.split("output", sinks={"odd": odd, "even": even, "late": None})

    batch = pa.table(
        {
            "output": ["odd", "even", "odd", "late"],
            "n": [0, 1, 2, 3],
            "odd": [1, None, 3, None],
            "even": [None, 2, None, None],
            "late": [None, None, None, "x"],
        }
    )
    with stopping_at("split:between"), pytest.raises(Stopped):
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


def test_rows_get_the_labels_of_their_schema_also_where_a_record_is_missing() -> None:
    """Spark says of a record that it is never missing, which is so in the rows of its own output; Arrow's cast fails
    on the others."""
    zoned = {zone: pa.timestamp("us", zone) for zone in ("Etc/UTC", "UTC")}
    count = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    last = {zone: pa.struct([pa.field("at", t, nullable=False)]) for zone, t in zoned.items()}
    now = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    came = pa.record_batch(
        [
            pa.array([now] * 3, zoned["Etc/UTC"]),
            pa.array([None, {"n": 1}, {"n": 2}], count),
            pa.array([{"at": now}, None, {"at": now}], last["Etc/UTC"]),
        ],
        names=["when", "count", "last"],
    )
    wanted = pa.schema([("when", zoned["UTC"]), pa.field("count", count, nullable=False), ("last", last["UTC"])])
    for batch in (came, came.slice(1)):
        (got,) = Rows(wanted, [batch])
        assert got.schema == wanted and got.to_pylist() == batch.to_pylist()


# ---------------------------------------------------------------- a run with epochs

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
SUMS = [sum(range(i + 1)) for i in range(50)]


def events(folder: Path) -> Path:
    (folder / "x.jsonl").write_text("".join(f"{i}\n" for i in range(50)))
    return folder / "x.jsonl"


def test_a_run_with_epochs_takes_a_sink_of_ones_own(tmp_path: Path) -> None:
    sink = Lines(tmp_path / "out")
    asked: dict[str, Any] = {"state": tmp_path / "state", "pushes": 10}
    report = total.run_epochs(events(tmp_path), sink, **asked)
    assert report.epochs == 5 and [row["out"] for row in sink.rows()] == SUMS
    again = total.run_epochs(tmp_path / "x.jsonl", {"out": sink}, **asked)
    assert again.epochs == report.epochs and len(sink.rows()) == 50
    why = r"belongs to another run: outputs= was out=lines: .*, and is out=lines: .* now"
    with pytest.raises(StateError, match=why):
        total.run_epochs(tmp_path / "x.jsonl", Lines(tmp_path / "other"), **asked)
    with pytest.raises(UsageError, match="goes with Spark"):
        total.run_epochs(tmp_path / "x.jsonl", "kafka://host/topic", state=tmp_path / "third", pushes=20)


def test_the_sink_of_a_table_is_its_address(tmp_path: Path) -> None:
    """A run that began with the address goes on with the sink itself."""
    source = events(tmp_path)
    total.run_epochs(source, f"sqlite:///{tmp_path}/out.db#sums", state=tmp_path / "state", pushes=10)
    sink = sinks.sqlite(tmp_path / "out.db", "sums")
    total.run_epochs(source, sink, state=tmp_path / "state", pushes=10)
    assert sink.read()["out"].to_pylist() == SUMS
    folder = sinks.parquet(tmp_path / "out")
    total.run_epochs(source, folder, state=tmp_path / "other", pushes=20)
    assert sorted(folder.read()["out"].to_pylist()) == SUMS


PROGRAM = """
import sys
from pathlib import Path
from pellucid import pipeline
from tests.sinks.own import Lines

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
folder = Path(sys.argv[1])
total.run_epochs(folder / "x.jsonl", Lines(folder / "out"), state=folder / "state", pushes=10, chunk=10)
"""


def test_a_crash_does_not_show_in_a_sink_of_ones_own(tmp_path: Path) -> None:
    events(tmp_path)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])]))
    faults_at = "sqlite:before-commit=tree@2;sink:after-commit=kill@1/1"
    codes = []
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env={**os.environ, "PELLUCID_FAULTS": faults_at, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        codes.append(done.returncode)
        if done.returncode == 0:
            break
    assert codes == [-9, 0], done.stderr
    assert [row["out"] for row in Lines(tmp_path / "out").rows()] == SUMS


# ---------------------------------------------------------------- rows or numbers that were taken away


@pytest.mark.parametrize("kind", WITH_A_FUNCTION)
def test_a_gap_before_the_first_batch_is_refused(kind: str, tmp_path: Path) -> None:
    """Spark numbers batches without a gap; a target that was restored from an older copy, or emptied with its numbers,
    shows one."""

    def made(**more: Any) -> Any:
        return WITH_A_FUNCTION[kind](tmp_path, query="q", **more)

    why = r"no batch of query 'q' is there, yet Spark gives batch 3, .* say so with first_batch=3$"
    with pytest.raises(StateError, match=why):
        made()(rows(1), 3)
    made(first_batch=3)(rows(1), 3)
    sink = made()
    for batch in (3, 4, 5):
        sink(rows(1), batch)
    why = r"the last batch of query 'q' that is there is 5, yet Spark gives batch 7, so those before it are missing"
    with pytest.raises(StateError, match=why):
        made()(rows(1), 7)
    made()(rows(1), 6)
    assert made().last("q") == 6


def test_a_gap_of_one_output(tmp_path: Path) -> None:
    def made() -> sinks.Sink:
        both = {"a": sinks.sqlite(tmp_path / "a.db", "a"), "b": sinks.parquet(tmp_path / "b")}
        return sinks.split(sinks=both, query="q")

    batch = pa.table({"output": ["a", "b"], "a": [1, None], "b": [None, 2]})
    for number in range(3):
        made()(batch, number)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(StateError, match=r"/b: no batch of query 'q-b' is there, yet Spark gives batch 3"):
        made()(batch, 3)


@pytest.mark.parametrize("do", ["DELETE FROM t", "DROP TABLE t"])
def test_an_emptied_table_of_sqlite(do: str, tmp_path: Path) -> None:
    make = MAKERS["sqlite"]
    make(tmp_path).write(rows(1, 2), "q", 0)
    sql(tmp_path / "out.db", do)
    why = (
        r"out\.db: table 't': it is empty, yet 2 rows were written there, .*DELETE FROM pellucid_epochs WHERE target = "
        r"'t'; or, if other programs take the rows out, say drained=True$"
    )
    for batch in (0, 1):  # also a batch that would be left out
        with pytest.raises(StateError, match=why):
            make(tmp_path).write(rows(1, 2), "q", batch)
    with pytest.raises(StateError, match="it is empty"):  # another query would go on with a table that lost rows
        make(tmp_path).write(rows(1, 2), "other", 0)
    sink = make(tmp_path, drained=True)
    assert sink.write(rows(1, 2), "q", 0).skipped and not sink.write(rows(1, 2), "q", 1).skipped
    sql(tmp_path / "out.db", "DELETE FROM t", "DELETE FROM pellucid_epochs WHERE target = 't'")
    assert not make(tmp_path).write(rows(1, 2), "q", 0).skipped


def test_numbers_of_an_earlier_version_are_counted_from_now_on(tmp_path: Path) -> None:
    book = "(target TEXT NOT NULL, query TEXT NOT NULL, batch INTEGER NOT NULL, PRIMARY KEY (target, query))"
    sql(
        tmp_path / "out.db",
        f"CREATE TABLE pellucid_epochs {book}",
        "INSERT INTO pellucid_epochs VALUES ('t', 'q', 4)",
    )
    sink = MAKERS["sqlite"](tmp_path)
    assert sink.last("q") == 4 and sink.write(rows(1), "q", 4).skipped and not sink.write(rows(1), "q", 5).skipped
    sql(tmp_path / "out.db", "DELETE FROM t")
    with pytest.raises(StateError, match="it is empty, yet 1 rows were written there"):
        MAKERS["sqlite"](tmp_path).write(rows(1), "q", 6)


def test_an_emptied_delta_table(tmp_path: Path) -> None:
    lake = pytest.importorskip("deltalake")
    make = MAKERS["delta"]
    make(tmp_path).write(rows(1), "q", 0)
    make(tmp_path).write(rows(), "q", 1)
    lake.DeltaTable(str(tmp_path / "out")).delete()
    why = r"/out: the table is empty, yet batch 0 of query 'q' put rows there: was it emptied, .*say drained=True$"
    with pytest.raises(StateError, match=why):
        make(tmp_path).write(rows(1), "q", 2)
    assert not make(tmp_path, drained=True).write(rows(1), "q", 2).skipped
    lake.DeltaTable(str(tmp_path / "out")).restore(2)  # both batches, and nothing else
    with pytest.raises(StateError, match=r"the last batch of query 'q' that is there is \d, yet Spark gives batch 9"):
        make(tmp_path, query="q")(rows(1), 9)


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
    earlier, none = begun(Topic(8, "", [0, 0])), begun(Topic(-1001, "", [0]))
    assert (earlier.last, none.last) == (7, None)
    why = "topic 't': 300 records were written there up to batch 7 of query 'q', but it has had only 20: was the topic"
    with pytest.raises(StateError, match=why):
        begun(Topic(8, "records=300", [0, 20]))


# ---------------------------------------------------------------- a query that was stopped and started again


class Slow:
    """A call that takes until it is released; counts how many run at once, and how many there were."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.now = self.most = self.calls = 0

    def __call__(self, *_: Any) -> None:
        self.now += 1
        self.calls += 1
        self.most = max(self.most, self.now)
        self.begun.set()
        assert self.released.wait(30)
        self.now -= 1


class FakeSession:
    """Stands for a producer and its transaction: ``last`` is what it committed."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.last: int | None = None

    def send(self, rows: Any) -> int:
        self.slow()
        return 1

    def mark(self, batch: int, count: int) -> None:
        pass

    def commit(self, batch: int, count: int) -> None:
        self.last = batch


def slow_sink(kind: str, slow: Slow, folder: Path, monkeypatch: pytest.MonkeyPatch, wait: float) -> sinks.Sink:
    if kind == "once":
        monkeypatch.setattr(once_sink, "_WAIT", wait)
        return sinks.once(slow, ledger=folder)
    pytest.importorskip("confluent_kafka")
    sink = sinks.kafka("nowhere:1", "t", wait=wait)
    session = FakeSession(slow)
    monkeypatch.setattr(sink, "_session", lambda query: session)
    return sink


@pytest.mark.parametrize("kind", ["once", "kafka"])
def test_a_new_call_waits_for_the_earlier_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And sees what that one did; one that does not end is named."""
    slow = Slow()
    sink = slow_sink(kind, slow, tmp_path, monkeypatch, 30)
    written: list[interface.Written] = []
    calls = [threading.Thread(target=lambda: written.append(sink.write(rows(1), "q", 0))) for _ in range(2)]
    calls[0].start()
    assert slow.begun.wait(30)
    calls[1].start()
    calls[1].join(0.2)  # time enough to go wrong
    assert written == [] and slow.most == 1
    slow.released.set()
    for call in calls:
        call.join(30)
    assert sorted(one.skipped for one in written) == [False, True] and slow.calls == 1

    slow = Slow()
    sink = slow_sink(kind, slow, tmp_path / "other", monkeypatch, 0.05)
    call = threading.Thread(target=lambda: sink.write(rows(1), "q", 0))
    call.start()
    assert slow.begun.wait(30)
    why = r"an earlier batch of query 'q' is still being written in this process after 0\.05 s"
    with pytest.raises(StateError, match=why):
        sink.write(rows(1), "q", 0)
    slow.released.set()
    call.join(30)
    assert slow.calls == 1 and sink.write(rows(1), "q", 0).skipped
