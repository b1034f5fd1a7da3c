"""The manifests: folding, zombies, readers in the middle of it, and damage."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults, files
from pellucid.sinks import folder
from pellucid.sinks import folder as manifest
from pellucid.sinks import parquet_sink as files_sink
from pellucid.sinks.folder import DataFile, Manifest, ManifestLog
from pellucid.spark.store import Store


def made(batch: int, query: str = "q", attempt: str = "a") -> Manifest:
    return Manifest(query, batch, attempt, (DataFile(f"{query}-{batch}.parquet", "s", batch + 1, 10, "9f"),))


def test_folding_keeps_every_batch_and_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD", 5)
    log = ManifestLog(tmp_path)
    for batch in range(137):
        for query in ("q", "other-query"):
            assert log.commit(made(batch, query))
            log.fold(query, batch)
            assert log.last(query) == batch
    assert [(m.query, m.batch) for m in log.all()] == [(q, b) for q in ("other-query", "q") for b in range(137)]
    assert log.get("q", 3) == made(3) and log.get("q", 136) == made(136) and log.get("q", 137) is None
    names = sorted(path.name for path in (tmp_path / "_manifest").iterdir() if path.name.startswith("q-"))
    # 0..124 (a fold of folds of folds), 125..129, 130..134, 135, 136
    assert names == [
        f"q-{0:020d}..{124:020d}.json",
        f"q-{125:020d}..{129:020d}.json",
        f"q-{130:020d}..{134:020d}.json",
        f"q-{135:020d}.json",
        f"q-{136:020d}.json",
    ]


def test_a_zombie_cannot_commit_a_batch_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD", 5)
    log = ManifestLog(tmp_path)
    for batch in range(5):
        log.commit(made(batch))
    assert not log.commit(made(4, attempt="zombie"))  # the name is taken
    log.fold("q", 4)
    assert not log.commit(made(3, attempt="zombie"))  # the name is free again, but the fold decides
    assert [m.attempt for m in log.all()] == ["a"] * 5
    assert len(list((tmp_path / "_manifest").iterdir())) == 1


def test_a_crash_inside_folding_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD", 5)
    log = ManifestLog(tmp_path)
    for batch in range(5):
        log.commit(made(batch))
    with monkeypatch.context() as patch:
        patch.setattr(folder, "remove", lambda path: (_ for _ in ()).throw(RuntimeError("stopped")))
        with pytest.raises(RuntimeError):
            log.fold("q", 4)
    assert len(list((tmp_path / "_manifest").iterdir())) == 6  # the fold and the five that it covers
    assert [m.batch for m in log.all()] == [0, 1, 2, 3, 4] and log.last("q") == 4


def test_damage_is_named(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    log.commit(made(0))
    (tmp_path / "_manifest" / f"q-{0:020d}.json").write_text('{"format": 1')
    with pytest.raises(StateError, match=r"q-00000000000000000000\.json: not a manifest of pellucid"):
        log.all()


def test_files_of_lost_attempts_do_not_count_and_go(tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path)
    for _ in range(2):  # killed before the commit
        sink.prepare(sink.stage(pa.table({"x": [1, 2]}), "q", 0))
    foreign = tmp_path / "_staging" / f"other-{7:020d}-0"  # another query's attempt, perhaps at work now
    foreign.mkdir()
    assert len(list((tmp_path / "_staging").iterdir())) == 3
    sink.write(pa.table({"x": [1, 2]}), "q", 0)
    assert list((tmp_path / "_staging").iterdir()) == [foreign]
    assert sink.read().to_pydict() == {"x": [1, 2]}
    assert ds.dataset(tmp_path, format="parquet").to_table().to_pydict() == {"x": [1, 2]}


def test_readers_follow_the_manifest_before_the_files_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sinks.parquet(tmp_path, partition_by="k")
    sink.write(pa.table({"x": [0], "k": ["a"]}), "q", 0)

    def fail(name: str) -> None:
        if name == "parquet:between-moves":
            raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", fail)
        with pytest.raises(RuntimeError):
            sink.write(pa.table({"x": [1, 2, 3], "k": ["a", "b", "c"]}), "q", 1)
    by_name = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert by_name.num_rows == 2  # one file of three has moved: fewer rows, never wrong ones
    whole = Counter((row["x"], row["k"]) for row in sink.read().to_pylist())
    assert whole == Counter([(0, "a"), (1, "a"), (2, "b"), (3, "c")])
    sink.write(pa.table({"x": [1, 2, 3], "k": ["a", "b", "c"]}), "q", 1)  # the replay finishes the moves
    assert ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table().num_rows == 4


def test_a_schema_without_a_commit_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the schema and the manifest of the first batch; then another query commits first, with other
    columns."""
    sink = sinks.parquet(tmp_path)

    def fail(manifest: Manifest) -> bool:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(sink.log, "commit", fail)
        with pytest.raises(RuntimeError):
            sink.write(pa.table({"x": ["text"]}), "q", 0)
    assert (tmp_path / "_manifest" / "schema.arrow").exists() and sink.last("q") is None

    def overtake(name: str) -> None:
        if name == "parquet:before-commit":
            monkeypatch.setattr(faults, "point", lambda name: None)
            sinks.parquet(tmp_path).write(pa.table({"x": [1.5]}), "other", 0)

    monkeypatch.setattr(faults, "point", overtake)
    with pytest.raises(DataError, match=r"column 'x' is int64 instead of double; write to another folder"):
        sink.write(pa.table({"x": [1]}), "q", 0)
    assert sink.read().to_pydict() == {"x": [1.5]} and sink.last("q") is None


def test_every_new_folder_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure a file is there only if each folder on the way to it was synced after the next one was made
    in it."""
    synced: list[Path] = []
    really = files.sync

    def sync(path: Path) -> None:
        synced.append(Path(path))
        really(path)

    for module in (files, files_sink):
        monkeypatch.setattr(module, "sync", sync)
    folder.create(tmp_path / "a" / "b" / "c" / "file", b"")
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"} <= set(synced)
    synced.clear()
    sinks.once(lambda df, batch_id: None, ledger=tmp_path / "d" / "ledger").write(pa.table({"x": [1]}), "q", 0)
    assert {tmp_path, tmp_path / "d", tmp_path / "d" / "ledger"} <= set(synced)
    synced.clear()
    out = tmp_path / "e" / "out"
    sinks.parquet(out, partition_by=["k", "l"]).write(pa.table({"x": [1], "k": ["a"], "l": ["b"]}), "q", 0)
    assert {
        tmp_path,
        tmp_path / "e",
        out,
        out / "_staging",
        out / "_manifest",
        out / "k=a",
        out / "k=a" / "l=b",
    } <= set(synced)
    assert synced.index(out) < synced.index(
        out / "_manifest"
    )  # the staged files can be found before the manifest counts them
    synced.clear()
    Store(str(tmp_path / "f" / "state")).save(0, 0, b"", b"", {})
    assert {tmp_path, tmp_path / "f", tmp_path / "f" / "state", tmp_path / "f" / "state" / "bucket-00000"} <= set(
        synced
    )


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no manifest is there"):
        sinks.read(tmp_path)
    with pytest.raises(DataError, match="partition_by='nope': there is no such column; there are x"):
        sinks.parquet(tmp_path, partition_by="nope").write(pa.table({"x": [1]}), "q", 0)


KINDS = ("parquet", "delta", "sqlite")


def _racing(folder: Path, kind: str) -> Any:
    return getattr(sinks, kind)(folder / kind) if kind != "sqlite" else sinks.sqlite(folder / kind, "t")


def _race(folder: Path, number: int, barrier: object) -> None:
    """One of two drivers that both believe they run batch after batch; its rows carry its number."""
    for kind in KINDS:
        sink = _racing(folder, kind)
        for batch in range(12):
            barrier.wait()  # type: ignore[attr-defined]
            sink.write(pa.table({"batch": [batch] * 3, "driver": [number] * 3}), "q", batch)


def test_two_drivers_at_once(tmp_path: Path) -> None:
    """Two processes write every batch at the same moment: each batch is there once, and from one of them only."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    drivers = [context.Process(target=_race, args=(tmp_path, number, barrier)) for number in (1, 2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(300)
    assert [driver.exitcode for driver in drivers] == [0, 0]
    for kind in KINDS:
        found = Counter((row["batch"], row["driver"]) for row in _racing(tmp_path, kind).read().to_pylist())
        assert sorted(batch for batch, _ in found) == list(range(12)), kind
        assert set(found.values()) == {3}, kind


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"a": [1]}',
        b'{"name": 7, "place": "x"}',
        pytest.param(b"[" * 100_000, id="deep"),
        b"\xff",
        None,
    ],
)
def test_a_damaged_claim_is_told(tmp_path: Path, content: bytes | None) -> None:
    """None: a folder in its place."""
    one = sinks.parquet(tmp_path / "out")
    assert one.claim("g", "log") is None
    path = tmp_path / "out" / "_group.json"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    told = r"_group\.json: (is a folder|does not say which group of sinks .* bring it back from a copy, or, .* `rm )"
    with pytest.raises(StateError, match=told):
        one.claim("g", "log")
    with pytest.raises(StateError, match=told):
        one.unclaim("g")


@pytest.mark.parametrize("content", [pytest.param(b"[" * 100_000, id="deep"), b"[]", b"7"])
def test_a_manifest_of_another_shape_is_told(tmp_path: Path, content: bytes) -> None:
    log = ManifestLog(tmp_path)
    assert log.commit(made(0))
    next((tmp_path / "_manifest").glob("q-*")).write_bytes(content)
    with pytest.raises(StateError, match="not a manifest of pellucid"):
        log.all()
