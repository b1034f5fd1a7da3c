"""Logs on Spark: what the local loops say, whether all fits in one task or little does; few rounds; nothing is
left."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.atomic import logs
from pellucid.errors import DataError, UsageError
from pellucid.spark import atomic
from pellucid.spark.atomic import tables as log_tables
from pellucid.spark.atomic import work
from tests.judge.logs.draw import as_text, log
from tests.judge.logs.meaning import wrong_cascade, wrong_committable, wrong_cycles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = Callable[[Any, Any], tuple["DataFrame", "DataFrame"]]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """A log as DataFrames over files, as big ones are."""
    counted = iter(range(1000))

    def made(statuses: dict[Any, str], pairs: Any) -> tuple[DataFrame, DataFrame]:
        kind = pa.string() if any(isinstance(t, str) for t in statuses) else pa.int64()
        ends = list(zip(*pairs, strict=True)) or [(), ()]
        columns = [
            {"id": pa.array(list(statuses), kind), "status": pa.array(list(statuses.values()), pa.string())},
            {"needs": pa.array(list(ends[0]), kind), "who": pa.array(list(ends[1]), kind)},
        ]
        paths = [str(tmp_path / f"{next(counted)}.parquet") for _ in columns]
        for path, table in zip(paths, columns, strict=True):
            pq.write_table(pa.table(table), path)
        return spark.read.parquet(paths[0]), spark.read.parquet(paths[1])

    return made


def rows(found: atomic.Found) -> list[dict[str, Any]]:
    return [row.asDict() for row in found.table.collect()]


def by_id(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(made, key=lambda row: row["id"])


@pytest.mark.parametrize(("shape", "text", "size", "fit"), [
    ("rings", False, 120, 10**6), ("ladder", True, 14, 8), ("ladder", True, 40, 20), ("ladder", True, 120, 60),
])  # fmt: skip
def test_as_here(tables: Tables, shape: str, text: bool, size: int, fit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "BLOCK", min(50, size))
    drawn = log(3, size, shape, bad=0.03)
    statuses, pairs = as_text(drawn) if text else drawn
    frames = tables(statuses, pairs)
    with atomic.committable(*frames, fit=fit) as found:
        here, made = logs.committable(statuses, pairs), rows(found)
        assert by_id(made) == by_id(here.table().to_pylist())
        assert found.counts == here.counts()
        assert wrong_committable(statuses, pairs, made) == []
    abort = [t for t, status in statuses.items() if status != "committed"][:2]
    with atomic.cascade(*frames, abort, fit=fit) as found:
        made = rows(found)
        undone = logs.cascade(statuses, pairs, abort)
        assert {row["id"] for row in made} == set(undone.ids())
        assert wrong_cascade(statuses, pairs, abort, made, shortest=False) == []
        assert {k: v for k, v in found.counts.items() if k != "farthest"} == {
            k: v for k, v in undone.counts().items() if k != "farthest"
        }


def test_cycles_as_here(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rings that lie close by key most are inside a block; what is between blocks fits."""
    monkeypatch.setattr(work, "BLOCK", 40)
    rings = [(i, i - 2 if i % 3 == 2 else i + 1) for i in range(90)] + [(i, i + 3) for i in range(0, 80, 5)] + [(4, 4)]
    statuses = {i: "pending" if i % 4 else "active" for i in range(95)}
    frames = tables(statuses, rings)
    for fit in (10**6, 20):
        with atomic.cycles(*frames, fit=fit) as found:
            here, made = logs.cycles(statuses, rings), rows(found)
            assert by_id(made) == by_id(here.table().to_pylist())
            assert found.counts == here.counts()
            assert wrong_cycles(statuses, rings, made) == []


@pytest.mark.long  # in every run it is part of tests/cli/models/test_logs.py
def test_a_deep_cascade_takes_few_rounds(tables: Tables) -> None:
    """Each needs its last two, and a task takes half of that: by levels alone it would be fifteen rounds."""
    statuses = dict.fromkeys(range(62), "pending")
    pairs = [(i - d, i) for i in range(62) for d in (1, 2) if i >= d]
    with atomic.cascade(*tables(statuses, pairs), [0], fit=60, rounds=3) as found:
        assert found.counts["undone"] == 62 and found.rounds == {"cascade": 1, "cascade, ways": 1}
        assert wrong_cascade(statuses, pairs, [0], rows(found), shortest=False) == []


@pytest.mark.long
def test_a_cascade_into_cycles(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are entered by ways that nobody who keeps the least of their needs would choose, the second from the
    first."""
    monkeypatch.setattr(work, "BLOCK", 20)
    statuses = dict.fromkeys(range(70), "pending")
    pairs = [(i - d, i) for i in range(7, 70) for d in (1, 2) if i - d > 5]
    pairs += [(2, 3), (3, 4), (4, 2), (69, 3), (0, 1), (1, 0), (4, 1)]
    with atomic.cascade(*tables(statuses, pairs), [7], fit=5, rounds=8) as found:
        assert wrong_cascade(statuses, pairs, [7], rows(found), shortest=False) == []
        assert found.counts["undone"] == logs.cascade(statuses, pairs, [7]).counts()["undone"]
        assert found.rounds["cascade"] <= 5 and found.rounds["cascade, ways"] <= 20, found.rounds


@pytest.mark.long
@pytest.mark.parametrize("cyclic", [False, True])
def test_a_log_that_breaks_a3_as_here(tables: Tables, monkeypatch: pytest.MonkeyPatch, cyclic: bool) -> None:
    """Committed ones need pending ones; whoever needs those comes after them, in one task or in rounds."""
    monkeypatch.setattr(work, "BLOCK", 20)
    statuses = {i: "committed" if i % 3 == 1 else "pending" for i in range(60)} | {58: "active"}
    pairs = [(i, i + 1) for i in range(59)] + [(i, i + 7) for i in range(0, 50, 4)]
    if cyclic:
        pairs += [(6, 2), (22, 20), (35, 33)]
    frames = tables(statuses, pairs)
    here = logs.committable(statuses, pairs)
    assert here.broken == 19
    for fit in (10**6, 12):
        with atomic.committable(*frames, fit=fit) as found:
            assert (by_id(rows(found)), found.counts) == (by_id(here.table().to_pylist()), here.counts())
            assert wrong_committable(statuses, pairs, rows(found)) == []
            assert len(found.broken) == 3 and {statuses[t] for t in found.broken} == {"committed"}
    with atomic.cycles(*frames) as found:
        assert found.counts == logs.cycles(statuses, pairs).counts()


@pytest.mark.long
def test_a_long_chain_takes_few_rounds(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is little, blocks are small, and still there are no more rounds than the logarithm of the depth."""
    monkeypatch.setattr(work, "BLOCK", 500)
    n = 3000
    statuses = dict.fromkeys(range(n), "pending") | {1000: "aborted"}
    pairs = [(i, i + 1) for i in range(n - 1)]
    frames = tables(statuses, pairs)
    with atomic.committable(*frames, fit=40) as found:
        assert found.counts["committable"] == 1000 and found.counts["levels"] == 1000
        assert all(1 <= many <= 5 for many in found.rounds.values()), found.rounds
        assert wrong_committable(statuses, pairs, rows(found)) == []
    with atomic.cascade(*frames, [2900], fit=0) as found:  # pointers alone
        assert found.counts["undone"] == 100 and found.counts["farthest"] == 99
        assert max(found.rounds.values()) <= math.log2(100) + 2, found.rounds
        assert wrong_cascade(statuses, pairs, [2900], rows(found), shortest=True) == []


@pytest.mark.long
def test_one_that_everybody_reads_from(spark: SparkSession, tables: Tables) -> None:
    n = 100_000
    transactions = spark.range(n).selectExpr("id", "if(id = 7, 'active', 'pending') status")
    dependencies = (
        spark.range(8, n).selectExpr("7L needs", "id who").union(spark.range(1, n).selectExpr("id - 1", "id"))
    )
    with atomic.committable(transactions, dependencies, fit=1000) as found:
        assert found.counts["blocked"] == n - 8 and found.counts["committable"] == 7
        assert max(found.rounds.values()) <= 3
    with atomic.cascade(transactions, dependencies, [7], fit=1000) as found:
        assert found.counts["undone"] == n - 7 and found.counts["farthest"] == 1


@pytest.mark.long
def test_a_log_that_does_not_shrink_is_told(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "BLOCK", 200)
    statuses = dict.fromkeys(range(400), "pending")
    pairs = [((i - d) * 7 % 400, i * 7 % 400) for i in range(400) for d in (1, 2) if i >= d]  # in no order by id
    with pytest.raises(
        DataError, match=r"sets: after 1 rounds [\d,]+ edges are left, more than one task takes \(fit=10\)"
    ):
        atomic.committable(*tables(statuses, pairs), fit=10, rounds=1)
    ring = [(i, (i + 1) % 400) for i in range(400)]
    with pytest.raises(DataError, match="cycles: 400 edges lie on cycles or between them, more than one"):
        atomic.cycles(*tables(statuses, ring), fit=10)


def test_nothing_is_left(tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frames = tables(*log(1, 50))
    found = atomic.committable(*frames, work=str(place))
    assert list(place.iterdir())
    found.close()
    assert list(place.iterdir()) == []
    with pytest.raises(DataError, match="there is no transaction"):
        atomic.cascade(*frames, [10**9], work=str(place))
    assert list(place.iterdir()) == []
    with pytest.raises(DataError, match="there is no transaction"):
        atomic.cascade(*frames, [10**9])
    assert list(tmp_path.glob("pellucid-logs-*")) == []


def test_negative_numbers_and_no_rows(tables: Tables, spark: SparkSession) -> None:
    statuses, pairs = (
        {-5: "pending", 3: "pending", 2**62: "active", -7: "pending"},
        [(-5, 3), (3, -5), (2**62, -7), (-9, -7)],
    )
    with atomic.committable(*tables(statuses, pairs)) as found:
        assert by_id(rows(found)) == by_id(logs.committable(statuses, pairs).table().to_pylist())
        assert found.counts["unknown"] == 1
    nothing = spark.createDataFrame([], "id long, status string"), spark.createDataFrame([], "needs long, who long")
    with atomic.committable(*nothing) as found:
        assert rows(found) == [] and found.counts["levels"] == 0


@pytest.mark.long
def test_two_ids_of_one_hash_are_never_one(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys of a few bits a try fails now and then: that is noticed, and another hash is tried; or it is said."""
    frames = tables({"a": "pending", "b": "active", "c": "pending"}, [("b", "c"), ("x", "c")])
    tries = []
    real = log_tables._vertices
    monkeypatch.setattr(log_tables, "_vertices", lambda *args: tries.append(real(*args)) or tries[-1])
    monkeypatch.setattr(log_tables, "_MASK", 3)
    for seed in (0, 2):  # whichever seed it begins with
        monkeypatch.setattr(log_tables, "_kind", lambda *_, seed=seed: seed)
        with atomic.committable(*frames) as found:
            assert rows(found) == [{"id": "a", "level": 0, "set": "a", "size": 1}] and found.counts["unknown"] == 1
    assert len(tries) > 2 and not tries[-1].told["collisions"]
    monkeypatch.setattr(log_tables, "_MASK", 1)  # four ids never have keys of one bit
    with pytest.raises(DataError, match="after 8 tries different ids still have one hash"):
        atomic.committable(*frames)


@pytest.mark.parametrize(("transactions", "dependencies", "words"), [
    ("1 id, 'done' status", "1 needs, 2 who", "transactions: 'status' of 1 is 'done': expected active, pending"),
    ("explode(array(1, 2)) id, 'pending' status", "1 needs, int(null) who", "dependencies: 'who' is empty in a row"),
    ("'x' id, explode(array('active', 'pending')) status", "'x' needs, 'y' who", "'id' 'x' is active and pending"),
    ("'x' id, 'active' status", "'x' needs, '' who", "dependencies: 'who' is empty in a row: expected an id"),
    ("1 id, 'active' status", "1 need, 2 who", "dependencies: there is no column 'needs': there are need, who"),
    ("1 id, 'active' status", "'1' needs, '2' who", "dependencies: 'needs' has string, and 'id' has int: expec"),
    ("1.5 id, 'active' status", "1 needs, 2 who", "'id' has decimal.*: expected whole numbers, text or bytes"),
    ("1 id, 2 status", "1 needs, 2 who", "transactions: 'status' has int: expected active"),
])  # fmt: skip
def test_what_is_refused(spark: SparkSession, transactions: str, dependencies: str, words: str) -> None:
    frames = [spark.sql(f"select {columns}") for columns in (transactions, dependencies)]
    with pytest.raises(DataError, match=words):
        atomic.committable(*frames)


def test_what_cannot_be_asked(spark: SparkSession) -> None:
    frames = spark.sql("select 1 id, 'committed' status"), spark.sql("select 1 needs, 2 who")
    with pytest.raises(DataError, match="the transaction 1 is committed: it cannot abort any more"):
        atomic.cascade(*frames, [1])
    with pytest.raises(DataError, match="there is no transaction 2: only the dependencies have this id"):
        atomic.cascade(*frames, [2])
    with pytest.raises(UsageError, match="abort=: expected the id of a transaction, or several"):
        atomic.cascade(*frames, [])
    with pytest.raises(DataError, match="dependencies: 1 id is in no row of the transactions"):
        atomic.cycles(*frames, unknown="refuse")
    with pytest.raises(UsageError, match="fit=-1: expected a whole number, not below 0"):
        atomic.cycles(*frames, fit=-1)


@pytest.mark.long
def test_ten_million_on_spark(spark: SparkSession) -> None:
    """With a hub of a million readers, a chain of a hundred thousand, and rings."""
    n = 10_000_000
    transactions = spark.range(n).selectExpr(
        "id", "if(id % 1000003 = 1, 'active', if(id % 3 = 0, 'committed', 'pending')) status"
    )
    dependencies = (
        spark.range(n).selectExpr("id - id % 97 needs", "id who")
        .union(spark.range(1_000_000).selectExpr("3L", "id + 2000000"))
        .union(spark.range(100_000).selectExpr("id + 5000000", "id + 5000001"))
        .union(spark.range(0, 30_000, 3).selectExpr("id + 8000002", "id + 8000001"))
    )  # fmt: skip
    here = logs.committable(transactions.toArrow(), dependencies.toArrow())
    for fit in (50_000_000, 1_000_000):
        with atomic.committable(transactions, dependencies, fit=fit) as found:
            assert found.counts == here.counts()
            assert sum(found.rounds.values()) <= 60
