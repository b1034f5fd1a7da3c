"""The snapshot store: the right version or an error, and what is kept."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from pellucid import StateError, UsageError
from pellucid.spark.state.store import Store
from tests.spark.state.stores import BIG, blob, contents, names, touched

# ---------------------------------------------------------------- the ordinary


def test_the_newest_below(store: Store) -> None:
    assert store.load(0, before=10) is None and store.versions(0) == [] and store.buckets() == []
    for version in (2, 5, 9):
        store.save(3, version, blob(version, 10), b"extra", {"n": version})
    assert store.versions(3) == [2, 5, 9] and store.buckets() == [3]
    assert contents(store.load(3, before=10)) == (9, blob(9, 10), b"extra", {"n": 9})
    assert contents(store.load(3, before=9)) == (5, blob(5, 10), b"extra", {"n": 5})
    assert contents(store.load(3, before=3)) == (2, blob(2, 10), b"extra", {"n": 2})
    assert store.load(3, before=2) is None  # there was none before the first
    assert store.load(4, before=10) is None
    crc = zlib.crc32(b"extra" + json.dumps({"n": 2}).encode(), zlib.crc32(blob(2, 10)))
    assert names(store, 3)[0] == f"v{2:020d}-0000-{crc:08x}-full.snap"


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_empty_and_large_and_compressed(tmp_path: Path, compression: str | None) -> None:
    store = Store(str(tmp_path), compression=compression)
    last = None
    for version, (state, extra) in enumerate(
        [(b"", b""), (b"", blob(1)), (bytes(BIG), b""), (blob(2), bytes(BIG)), (touched(blob(2), 500), bytes(BIG))]
    ):
        last = store.save(0, version, state, extra, {}, base=last)
        assert contents(Store(str(tmp_path)).load(0, version + 1)) == (
            version,
            state,
            extra,
            {},
        )  # the file says how it is packed
    assert last is not None and last.links == 1
    if compression:
        assert sum(p.stat().st_size for p in Path(tmp_path, "bucket-00000").iterdir()) < 3 * BIG


def test_it_can_be_pickled_and_takes_uris(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/a%20b")
    store.save(0, 0, b"x", b"", {})
    again: Store = pickle.loads(pickle.dumps(store))
    assert contents(again.load(0, 1)) == (0, b"x", b"", {}) == contents(Store(str(tmp_path / "a b")).load(0, 1))


def test_bad_arguments(store: Store) -> None:
    with pytest.raises(UsageError, match="keeps at least 2 snapshots of each bucket, found keep=1"):
        Store("x", keep=1)
    with pytest.raises(UsageError, match="compression must be None, 'lz4' or 'zstd', found 'gzip'"):
        Store("x", compression="gzip")
    with pytest.raises(UsageError, match="not negative, found bucket 0, version -1"):
        store.save(0, -1, b"", b"", {})


# ---------------------------------------------------------------- whose folder


def test_a_folder_belongs_to_one_query(store: Store) -> None:
    assert store.identity() is None
    about = {"buckets": 8, "pipeline": "total", "digest": "d1", "steps": {"sum": ["cumulate", ""]}}
    assert store.claim("query-1", about) == {"format": 4, "query": "query-1"} | about == store.identity()
    assert store.claim("query-1", about | {"digest": "d2"})["digest"] == "d1"
    with pytest.raises(StateError) as error:
        store.claim("query-2", about)
    assert str(error.value) == (
        f"the state folder {store.path}: belongs to another run: "
        "the query was query-1 when it began, and is query-2 now. "
        "A new checkpoint needs a new state folder, and an old checkpoint its own"
    )
    with pytest.raises(StateError, match=r"the number of buckets was 8 when it began, and is 16 now. It decides"):
        store.claim("query-1", about | {"buckets": 16})
    Path(store.path, "identity.json").write_text("{")
    with pytest.raises(StateError, match=r"identity\.json is damaged"):
        store.identity()
    Path(store.path, "identity.json").write_text('{"format": 7}')
    with pytest.raises(StateError, match=r"was written by another version of Pellucid \(format 7, this one has 4\)"):
        store.identity()


def _claim(path: str, query: str, gate: Any, results: Any) -> None:
    gate.wait()
    try:
        results.put((query, Store(path).claim(query, {"buckets": 2, "who": os.getpid()})["who"]))
    except StateError as error:
        results.put((query, "belongs to another run" in str(error)))


def test_many_claim_at_once_and_all_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        gate, results = context.Barrier(8), context.Queue()
        path = str(tmp_path / str(turn))
        tasks = [context.Process(target=_claim, args=(path, f"q{i % 2}", gate, results)) for i in range(8)]
        for task in tasks:
            task.start()
        got = [results.get(timeout=300) for _ in tasks]
        for task in tasks:
            task.join()
        owner = Store(path).identity()
        assert owner is not None
        assert {who for query, who in got if query == owner["query"]} == {owner["who"]}
        assert [said for query, said in got if query != owner["query"]] == [True] * 4
        assert os.listdir(path) == ["identity.json"]  # no temporary file is left


# ---------------------------------------------------------------- retention


def test_old_versions_go_but_not_what_others_stand_on(store: Store) -> None:
    state = blob(0)
    last = store.save(0, 0, state, b"", {})
    for version in range(1, 9):
        state = touched(state, 1000 * version)
        last = store.save(0, version, state, b"", {}, base=last)
    assert store.versions(0) == list(range(9))  # a chain
    for version in range(9, 12):
        store.save(0, version, blob(version), b"", {})
    assert store.versions(0) == [9, 10, 11]
    with pytest.raises(StateError) as error:
        store.load(0, before=9)
    assert str(error.value) == (
        f"bucket 0 of the state folder {store.path} has no snapshot below version 9 any more: the oldest is 9 "
        "(keep=3); go on with the "
        "checkpoint at micro-batch 10 or later, or start anew with a new checkpoint and a new state folder"
    )


def test_stale_temporary_files_go(store: Store) -> None:
    store.save(0, 0, b"a", b"", {})
    folder = Path(store.path, "bucket-00000")
    (folder / ".x.1.tmp").write_bytes(b"left by a crash")
    (folder / ".y.2.tmp").write_bytes(b"being written")
    (folder / "notes.txt").write_text("not ours")
    os.utime(folder / ".x.1.tmp", (0, time.time() - 4000))
    store.save(0, 1, b"b", b"", {})
    assert names(store)[:2] == [".y.2.tmp", "notes.txt"] and len(names(store)) == 4


def test_a_task_that_was_overtaken_removes_nothing(store: Store) -> None:
    first = store.save(0, 1, blob(1), b"", {})
    second = store.save(0, 2, touched(blob(1), 50), b"", {}, base=first)
    third = store.save(0, 3, touched(bytes(second.state), 5000), b"", {}, base=second)
    store.save(0, 2, blob(7), b"", {})  # the second attempt of micro-batch 2 comes late, with other bytes
    assert contents(store.load(0, 4)) == contents(third)
    assert contents(store.load(0, 3)) == (2, blob(7), b"", {})


def test_what_a_repeated_micro_batch_needs_stays_below_versions_that_were_left_over(tmp_path: Path) -> None:
    store = Store(str(tmp_path), keep=2)
    for version in (4, 8, 5):  # the checkpoint went back to micro-batch 5
        store.save(0, version, blob(version), b"", {})
    assert contents(store.load(0, before=5)) == (4, blob(4), b"", {})
    assert contents(store.load(0, before=6)) == (5, blob(5), b"", {})


def test_going_back(store: Store) -> None:
    for version in range(3):
        for bucket in range(3):
            store.save(bucket, version, blob(version, 10), b"", {})
    assert store.rewind(1) == 6
    assert [store.versions(b) for b in store.buckets()] == [[0]] * 3
    assert store.rewind(0) == 3 and store.versions(0) == []
    for version in range(6):
        store.save(0, version, blob(version, 10), b"", {})
    store.save(1, 5, b"first", b"", {})
    with pytest.raises(StateError, match=r"bucket 0 .* has no snapshot below version 3 any more: the oldest is 3"):
        store.rewind(3)
    assert store.versions(0) == [3, 4, 5] and store.versions(1) == [5]  # nothing was removed
    assert store.rewind(4) == 3 and store.versions(0) == [3]


# ---------------------------------------------------------------- damage


def test_every_damage_is_found_and_named(store: Store) -> None:
    first = store.save(0, 0, blob(0), b"e", {"m": 1})
    store.save(0, 1, touched(blob(0), 100), b"e", {"m": 2}, base=first)
    folder = Path(store.path, "bucket-00000")
    rng = random.Random(0)
    for name in names(store):
        good = (folder / name).read_bytes()
        for bad in (
            b"",
            good[:10],
            good[:30],
            good[:-1],
            good + b"!",
            b"x" + good[1:],
            *[flip(good, rng.randrange(len(good))) for _ in range(60)],
        ):
            (folder / name).write_bytes(bad)
            with pytest.raises(StateError) as error:
                store.load(0, 2)
            assert f"the snapshot {folder / name} is damaged (" in str(error.value)
            assert "Store.rewind" in str(error.value)
        (folder / name).write_bytes(good)
    assert contents(store.load(0, 2)) == (1, touched(blob(0), 100), b"e", {"m": 2})


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


def test_a_missing_base_is_found_and_named(store: Store) -> None:
    first = store.save(0, 0, blob(0), b"", {})
    store.save(0, 1, touched(blob(0), 100), b"", {}, base=first)
    os.unlink(Path(store.path, "bucket-00000", first.file.name))
    with pytest.raises(
        StateError, match=r"the snapshot v0{20}-0000-.* of bucket 0 is missing in .*: put the file back"
    ):
        store.load(0, 2)


def test_a_base_of_other_contents_is_found(store: Store) -> None:
    first = store.save(0, 0, blob(0), b"", {})
    other = Store(store.path + "2").save(0, 0, blob(1), b"", {})
    store.save(0, 1, touched(blob(0), 100), b"", {}, base=first)
    source = Path(store.path + "2", "bucket-00000", other.file.name)
    Path(store.path, "bucket-00000", first.file.name).write_bytes(source.read_bytes())
    with pytest.raises(StateError, match=r"is damaged \(it does not give what was saved"):
        store.load(0, 2)
