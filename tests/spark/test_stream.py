"""What a query remembers between micro-batches: by whom, since when, and what happens when starts of it overlap.

Most of it needs no Spark: a task is a function of the plan, the micro-batch's number, the partition's number and the
rows.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pellucid import PellucidError, Pipeline, StateError, UsageError, pipeline
from pellucid.internal.engine.saved import form as saved
from pellucid.internal.expr.types import INT, STR
from pellucid.spark import stream
from pellucid.spark.failure import explain
from pellucid.spark.frames import Fields, FrameSource, SparkJob, packed, unpacked
from pellucid.spark.store import Store
from tests.old_form import old_state
from tests.spark.workers import new_worker, worker  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOTAL = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="total"), x=int)
TENFOLD = pipeline(lambda x: x.cumulate(lambda t, v: t + 10 * v, start=0, id="total"), x=int)
COUNT = pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0, id="count"), x=int)
FIELDS = Fields(
    (FrameSource("x", INT, ("x",)),), (("user", STR),), (("seq", INT),), types=(("k0", "string"), ("o0", "bigint"))
)


class Start:
    """A start of the query: a pipeline on the state folder."""

    def __init__(self, p: Pipeline, folder: Path, *drop: str, buckets: int = 2) -> None:
        store = Store(str(folder))
        self.data = packed(SparkJob(p.graph, FIELDS, (("out", INT),), (("user", "k0"), ("seq", "o0"))))
        self.plan = stream.StreamPlan(store, buckets, drop, store.next_start(), uuid.uuid4().hex)
        store.announce(self.plan.start, self.plan.token)

    def check(self) -> None:
        """What happens on the driver, before the query starts."""
        stream._check_state(unpacked(self.data), self.plan)

    def batch(
        self, monkeypatch: pytest.MonkeyPatch, version: int, *rows: tuple[str, int, int], bucket: int = 0
    ) -> list[int]:
        """The task of one bucket in a micro-batch."""
        monkeypatch.setattr(stream, "_epoch", lambda: ("query", version, bucket))
        columns = (
            [
                pa.array(c, t)
                for c, t in zip(zip(*rows, strict=True), (pa.string(), pa.int64(), pa.int64()), strict=True)
            ]
            if rows
            else []
        )
        table = (
            pa.table([*columns, pa.array([bucket] * len(rows), pa.int32())], names=["k0", "o0", "v0_0", "b"])
            if rows
            else None
        )
        out = stream.run_task(self.data, self.plan, iter(table.to_batches() if table else []))
        return [value for part in out for value in part.column("out").to_pylist()]

    def whole(self, monkeypatch: pytest.MonkeyPatch, version: int, *rows: tuple[str, int, int]) -> list[int]:
        """All tasks of a micro-batch: key a is in bucket 0, key b in bucket 1."""
        return [
            value
            for bucket, key in enumerate("ab")
            for value in self.batch(monkeypatch, version, *[row for row in rows if row[0] == key], bucket=bucket)
        ]


def test_memory_counts_only_while_its_file_is_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Start(TOTAL, tmp_path)
    assert first.batch(monkeypatch, 0, ("a", 1, 1)) == [1]
    assert first.batch(monkeypatch, 1, ("a", 2, 1000)) == [1001]  # another task of this micro-batch fails
    memory, stream._cache = stream._cache, {}
    assert first.batch(monkeypatch, 1, ("a", 2, 1)) == [2]  # the same again in another worker, without a bad row
    stream._cache = memory
    assert first.batch(monkeypatch, 2, ("a", 3, 1)) == [3]


class Last(NamedTuple):
    """What a task of these tests keeps."""

    at: int
    seen: frozenset[int]


def noted(last: dict[str, Last], v: int) -> tuple[dict[str, Last], list[int]]:
    now = Last(v, (last["x"].seen if last else frozenset()) | {v})
    return {"x": now}, [len(now.seen)]


NOTED = pipeline(lambda x: x.task(noted, {}, to=int, id="noted"), x=int)
STRANGE = pipeline(lambda x: x.task(lambda s, v: (s if v < 5 else [object()], [v]), [], to=int, id="strange"), x=int)


def test_states_that_are_not_columns_are_data_in_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Start(NOTED, tmp_path / "a")
    assert first.batch(monkeypatch, 0, ("a", 1, 7), ("b", 2, 7), ("a", 3, 8)) == [1, 1, 2]
    new_worker()
    again = Start(NOTED, tmp_path / "a")
    again.check()
    assert again.batch(monkeypatch, 1, ("a", 4, 9), ("b", 5, 7)) == [3, 1]
    strange = Start(STRANGE, tmp_path / "b")
    assert strange.batch(monkeypatch, 0, ("a", 1, 1)) == [1]
    with pytest.raises(
        StateError, match=r"step 'strange' .*: its state cannot be saved: state\[0\] is a object, which is not data"
    ):
        strange.batch(monkeypatch, 1, ("a", 2, 9))
    assert Store(str(tmp_path / "b")).versions(0) == [0]


def test_a_snapshot_that_was_pickled_is_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Boom:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    Start(NOTED, tmp_path / "s").batch(monkeypatch, 0, ("a", 1, 7))
    store = Store(str(tmp_path / "s"))
    found = store.load(0, 1)
    assert found is not None
    state = saved.unpack(found.state)
    header = {k: v for k, v in state.head.items() if k not in ("about", "blocks", "kind", "checked")}
    evil = pickle.dumps(Boom())
    for version, (form, blocks, words) in enumerate(
        (
            (2, [*state.blocks[:2], evil], "was written by an older version of Pellucid with pickle"),
            (
                3,
                [*state.blocks[:-1], evil],
                r"the snapshot v0.*\.snap in .*: the saved state is damaged \(what step "
                r"'noted' remembers: it does not begin as it must\)",
            ),
        ),
        1,
    ):
        data = saved.pack(header, blocks, about=json.dumps(state.head["about"]))
        data = old_state(state.head, blocks, form) if form == 2 else data
        store.save(0, version, data, bytes(found.extra), found.meta, start=1)
        new_worker()
        with pytest.raises(StateError, match=words):
            Start(NOTED, tmp_path / "s").check()
        with pytest.raises(StateError, match=words):
            Start(NOTED, tmp_path / "s").batch(monkeypatch, version + 1, ("a", 2, 8))
    assert not (tmp_path / "ran").exists()


def test_a_driver_that_was_believed_dead_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Start(TOTAL, tmp_path)
    assert old.batch(monkeypatch, 0, ("a", 1, 1)) == [1]
    new = Start(TENFOLD, tmp_path)
    assert old.batch(monkeypatch, 1, ("a", 2, 1)) == [2]  # nothing has run of the new one yet
    assert new.batch(monkeypatch, 1, ("a", 2, 1)) == [11]
    new_worker()
    with pytest.raises(StateError, match=r"taken over by a later start of the query, so this one ends"):
        old.batch(monkeypatch, 1, ("a", 2, 1))
    assert new.batch(monkeypatch, 2, ("a", 3, 1)) == [21]
    # Even a write that was on its way when the new one took over does not count.
    rows = pa.table({"k0": ["a"], "o0": pa.array([3], pa.int64()), "v0_0": pa.array([1], pa.int64())})
    stream._step(unpacked(old.data), old.plan, "query", 2, 0, rows)
    new_worker()
    assert new.batch(monkeypatch, 3, ("a", 4, 1)) == [31]


def test_two_calls_need_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Start(TOTAL, tmp_path), Start(TOTAL, tmp_path)
    one.batch(monkeypatch, 0, ("a", 1, 1))
    with pytest.raises(StateError, match=r"two calls of p.spark with the same folder \(give each its own\)"):
        other.batch(monkeypatch, 0, ("a", 1, 1))


def test_an_empty_folder_in_the_middle_of_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        StateError, match=r"at micro-batch 3, but the state folder .* is empty.*go on with drop=\['total'\]"
    ):
        Start(TOTAL, tmp_path).batch(monkeypatch, 3, ("a", 1, 1))
    assert Start(TOTAL, tmp_path, "total").batch(monkeypatch, 3, ("a", 1, 1)) == [1]
    assert Start(TOTAL, tmp_path).batch(monkeypatch, 4, ("a", 2, 1)) == [2]


def test_a_micro_batch_without_rows_claims_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(TOTAL, tmp_path)
    assert start.batch(monkeypatch, 0) == []
    assert start.batch(monkeypatch, 1, ("a", 1, 1)) == [1]


def test_rows_that_do_not_come_again_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Start(TOTAL, tmp_path)
    old.batch(monkeypatch, 0, ("a", 1, 1))
    old.batch(
        monkeypatch, 1, ("a", 2, 1000)
    )  # the micro-batch fails elsewhere, and its rows are filtered before the next start
    new = Start(TOTAL, tmp_path)
    assert new.batch(monkeypatch, 1) == []
    assert new.batch(monkeypatch, 2, ("a", 2, 1)) == [2]
    assert new.batch(monkeypatch, 3, ("a", 3, 1)) == [3]


def test_what_is_given_up_is_given_up_in_all_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Start(TOTAL, tmp_path).whole(monkeypatch, 0, ("a", 1, 10), ("b", 1, 10))
    with pytest.raises(StateError, match=r"drop=\['total'\]"):
        Start(COUNT, tmp_path).check()
    Start(COUNT, tmp_path, "total").check()
    assert Start(COUNT, tmp_path, "total").whole(monkeypatch, 1, ("a", 2, 10)) == [1]
    Start(COUNT, tmp_path).check()  # the other bucket has had no row yet
    assert Start(COUNT, tmp_path).whole(monkeypatch, 2, ("a", 3, 10)) == [2]
    back = Start(TOTAL, tmp_path, "count")
    back.check()
    assert back.whole(monkeypatch, 3, ("a", 4, 10), ("b", 2, 10)) == [10, 10]  # the other one anew as well
    assert Start(TOTAL, tmp_path).batch(monkeypatch, 4, ("b", 3, 10), bucket=1) == [20]


def test_what_was_to_be_given_up_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Start(TOTAL, tmp_path).whole(monkeypatch, 0, ("a", 1, 10), ("b", 1, 10))
    Start(COUNT, tmp_path, "total").batch(monkeypatch, 1, ("a", 2, 10))  # fails elsewhere; the old pipeline is put back
    back = Start(TOTAL, tmp_path)
    assert back.whole(monkeypatch, 1, ("a", 2, 10)) == [20]
    assert back.batch(monkeypatch, 2, ("b", 2, 10), bucket=1) == [20]


def test_all_buckets_are_looked_at_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Start(COUNT, tmp_path).batch(monkeypatch, 0, ("a", 1, 10))
    Start(TOTAL, tmp_path).batch(monkeypatch, 0, ("b", 1, 10), bucket=1)  # as if a drop had been lost
    with pytest.raises(StateError, match=r"step 'total' \(cumulate\) is gone"):
        Start(COUNT, tmp_path).check()


def test_a_bucket_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(TOTAL, tmp_path)
    start.batch(monkeypatch, 0, ("a", 1, 10))
    for file in (tmp_path / "bucket-00000").iterdir():
        file.unlink()
    new_worker()
    with pytest.raises(StateError, match=r"bucket 0 of the state folder .* had snapshots, and all of them are gone"):
        start.batch(monkeypatch, 1, ("a", 2, 10))


def test_a_task_that_sees_another_folder_than_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its first micro-batch, and when the folder is removed, replaced, or not mounted any more."""
    folder, away = tmp_path / "state", tmp_path / "away"
    shared = r"must be on a file system that the driver and all workers share, mounted under this path on each"

    def refused(start: Start, version: int) -> None:
        there = sorted(folder.rglob("*"))
        new_worker()
        with pytest.raises(StateError, match=shared):
            start.batch(monkeypatch, version, ("a", 9, 1))
        assert sorted(folder.rglob("*")) == there  # a task makes nothing in a folder that is not the driver's

    first = Start(TOTAL, folder)
    folder.rename(away)
    refused(first, 0)
    away.rename(folder)
    assert first.whole(monkeypatch, 0, ("a", 1, 1)) == [1]
    assert first.whole(monkeypatch, 1, ("b", 1, 5)) == [5]
    stream._claimed.clear()
    folder.rename(away)
    refused(first, 2)
    other = Start(TOTAL, folder)
    other.whole(monkeypatch, 0, ("a", 1, 100))
    with pytest.raises(StateError, match="taken over by a later start"):
        first.batch(monkeypatch, 2, ("a", 2, 1))
    shutil.rmtree(folder)
    shutil.copytree(away, folder)
    assert first.whole(monkeypatch, 2, ("a", 2, 1)) == [2]
    shutil.rmtree(folder)
    shutil.copytree(away, folder)  # a copy that is older by a micro-batch, as from a backup
    new_worker()
    with pytest.raises(StateError, match=r"micro-batch 2 was committed, but bucket 0 .* \(it ran last in 1\)"):
        first.batch(monkeypatch, 3, ("a", 3, 1))


def test_a_micro_batch_that_was_not_all_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(TOTAL, tmp_path)
    start.whole(monkeypatch, 0, ("a", 1, 1))
    start.batch(monkeypatch, 1, ("a", 2, 1))  # as take(1) does: bucket 1 does not run
    assert start.batch(monkeypatch, 2) == []
    lost = r"micro-batch 1 was committed, but bucket 1 .* did not run in it .*foreachBatch must compute the whole"
    for again in (start, Start(TOTAL, tmp_path)):
        for rows in ((), (("b", 2, 5),)):
            with pytest.raises(StateError, match=lost):
                again.batch(monkeypatch, 2, *rows, bucket=1)
    Store(str(tmp_path)).rewind(1)
    again = Start(TOTAL, tmp_path)
    assert again.whole(monkeypatch, 1, ("a", 2, 1), ("b", 1, 5)) == [2, 5]
    assert again.whole(monkeypatch, 2, ("b", 2, 5)) == [10]
    for version in range(3, 7):
        assert again.whole(monkeypatch, version) == []
    Store(str(tmp_path)).rewind(5)  # of a bucket without rows only the last micro-batch is noted
    assert Start(TOTAL, tmp_path).whole(monkeypatch, 5, ("b", 3, 5)) == [15]
    assert len(list(tmp_path.glob("bucket-*/*.ran"))) <= 2


def test_a_folder_of_the_version_that_did_not_say_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Start(TOTAL, tmp_path)
    old.whole(monkeypatch, 0, ("a", 1, 1), ("b", 1, 5))
    old.whole(monkeypatch, 1, ("b", 2, 5))
    for file in [*tmp_path.glob("bucket-*/*.ran"), *tmp_path.glob("start-*")]:
        file.unlink()
    (tmp_path / "owner.json").write_text(json.dumps({"start": 1, "token": old.plan.token}))
    new = Start(TOTAL, tmp_path)
    assert new.whole(monkeypatch, 2, ("a", 2, 1)) == [2]
    with pytest.raises(StateError, match="micro-batch 3 was committed, but bucket 0"):
        new.batch(monkeypatch, 4, ("a", 3, 1))


# ---------------------------------------------------------------- with Spark


class World:
    """A folder of JSON files as a stream."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "in").mkdir()

    def arrive(self, *rows: tuple[Any, int, int]) -> None:
        self.files += 1
        lines = [json.dumps(dict(zip(("user", "seq", "x"), row, strict=True))) for row in rows]
        (self.folder / "in" / f"{self.files}.json").write_text("\n".join(lines))

    def run(
        self, p: Pipeline, *, user: str = "string", where: str = "true", look: Any = None, **how: Any
    ) -> list[tuple[Any, ...]]:
        df = (
            self.spark.readStream.schema(f"user {user}, seq bigint, x bigint")
            .json(str(self.folder / "in"))
            .where(where)
        )
        given = {"key": "user", "order": "seq", "buckets": 2, **how}
        if given.get("store") != "spark":
            given.setdefault("state", str(self.folder / "state"))
        out: list[tuple[Any, ...]] = []

        def take(part: DataFrame, number: int) -> None:
            out.extend(tuple(row) for row in (look(part) if look else part.collect()))

        query = (
            p.spark(df, **given)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        try:
            query.trigger(availableNow=True).start().awaitTermination()
        except Exception as error:
            raise (explain(error) or error) from None
        return sorted(out)


def test_the_type_of_a_key_cannot_change(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.arrive((1, 1, 5))
    assert world.run(TOTAL, user="int") == [(1, 1, 5)]
    with pytest.raises(StateError, match=r"key type was int when it began, and is bigint now. This cannot change"):
        world.run(TOTAL, user="bigint")


def test_a_key_inside_the_pipeline_cannot_change(spark: SparkSession, tmp_path: Path) -> None:
    def by(n: int) -> Pipeline:
        return pipeline(
            lambda x: x.key_by(lambda v: v % n, id="part").cumulate(lambda t, v: t + v, start=0, id="total"), x=int
        )

    world = World(spark, tmp_path)
    world.arrive(("a", 1, 5))
    assert world.run(by(3), key=None, value="x") == [(1, 5)]
    with pytest.raises(StateError, match=r"key_by was v0 % 3 when it began, and is v0 % 4 now. This cannot change"):
        world.run(by(4), key=None, value="x")


def test_first_micro_batches_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.arrive(("a", 1, 5))
    assert world.run(TOTAL, where="x > 100") == []
    world.arrive(("a", 2, 5))
    assert world.run(TOTAL) == [("a", 2, 5)]


def test_an_old_checkpoint_with_a_new_folder(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.arrive(("a", 1, 100))
    world.run(TOTAL)
    world.arrive(("a", 2, 5))
    with pytest.raises(StateError, match=r"the query is at micro-batch 1, but the state folder .*elsewhere is empty"):
        world.run(TOTAL, state=str(tmp_path / "elsewhere"))
    assert world.run(TOTAL) == [("a", 2, 105)]


@pytest.mark.parametrize("look", [lambda df: df.limit(0).collect(), lambda df: df.take(1)], ids=["limit", "take"])
def test_a_sink_that_looks_at_a_part(spark: SparkSession, tmp_path: Path, look: Any) -> None:
    """What was lost is told by the next micro-batch, here of a new start; once put right, nothing is lost."""
    world = World(spark, tmp_path)
    keys = [(key, 1, 5) for key in "abcdefgh"]
    world.arrive(*keys)
    assert world.run(TOTAL) == keys
    world.arrive(*[(key, 2, 5) for key in "abcdefgh"])
    world.run(TOTAL, look=look)
    world.arrive(("a", 3, 5))
    with pytest.raises(StateError, match=r"micro-batch 1 was committed, but bucket . .* go back to micro-batch 1"):
        world.run(TOTAL)
    for name in ("offsets/1", "offsets/2", "commits/1", "offsets/.1.crc", "offsets/.2.crc", "commits/.1.crc"):
        (tmp_path / "checkpoint" / name).unlink(missing_ok=True)
    Store(str(tmp_path / "state")).rewind(1)
    assert world.run(TOTAL) == sorted([("a", 3, 15), *[(key, 2, 10) for key in "abcdefgh"]])


def test_a_sink_that_looks_at_a_part_with_sparks_own_store(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.arrive(("a", 1, 5))
    with pytest.raises(StateError, match=r"its rows were not all computed; foreachBatch must compute the whole"):
        world.run(TOTAL, store="spark", look=lambda df: df.limit(0).collect())


def test_partitions_that_were_put_together_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.arrive(*[(key, 1, 5) for key in "abcdefgh"])
    with pytest.raises(UsageError, match=r"say repartition\(n\) instead of coalesce\(n\)"):
        world.run(TOTAL, look=lambda df: df.coalesce(1).collect())
    assert len(world.run(TOTAL, look=lambda df: df.repartition(1).collect())) == 8


def test_a_relative_folder_is_the_drivers(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = World(spark, tmp_path)
    world.arrive(("a", 1, 100))
    world.run(TOTAL, state="state")
    assert (tmp_path / "state" / "identity.json").exists()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"buckets": 3},
            r"this checkpoint: belongs to another run: buckets was 2 when it began, and is 3 now",
        ),
        ({"key": "seq", "order": "x", "value": "x"}, r"key was user when it began, and is seq now"),
    ],
)
def test_sparks_own_store_knows_what_cannot_change(
    spark: SparkSession, tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    world = World(spark, tmp_path)
    world.arrive(("a", 1, 5), ("b", 1, 6))
    world.run(TOTAL, store="spark")
    world.arrive(("a", 2, 5))
    with pytest.raises(PellucidError, match=message):
        world.run(TOTAL, store="spark", **how)
    assert world.run(TOTAL, store="spark") == [("a", 2, 10)]
