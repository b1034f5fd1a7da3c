"""Short epochs that become durable together: one staged file for several, cut where a recovery goes back into the
middle."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pellucid.internal.base.files import Draft
from pellucid.internal.engine.epochs import outputs as parts
from pellucid.internal.engine.epochs.messages import Events
from pellucid.internal.engine.epochs.outputs import FileTarget, parts_in
from pellucid.internal.engine.epochs.plan import TaskPlan
from pellucid.internal.engine.epochs.sink import SinkTask
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, Store
from pellucid.internal.expr.types import INT

SCHEMA = pa.schema([("out", pa.int64())])


class Around:
    """What a sink needs of its process; snapshots wait until the test wants them."""

    name, recorder, now, run = "sink.out", None, 1, "r"

    def __init__(self, store: Store) -> None:
        self.store, self.made, self.sent = store, [], []  # type: ignore[var-annotated]
        self.link = self

    def send(self, *_: Any, **message: Any) -> None:
        self.sent.append(message)

    def snapshot(self, make: Any, epoch: int, size: int, digest: int | None) -> None:
        self.made.append(make)

    def alive(self) -> None:
        pass

    def damaged(self, error: Exception) -> None:
        raise error

    def behind(self, until: int, why: str) -> None:
        raise Damaged(f"{until}: {why}")


def sink_in(folder: Path, form: str) -> SinkTask:
    store = Store(folder)
    target = FileTarget(store, "out", str(folder / f"out.{form}"), None, SCHEMA, run="r")
    job: Any = SimpleNamespace(
        plan=SimpleNamespace(types={"out": INT}), schemas={"out": SCHEMA}, key={}, target=lambda place: target,
        settings=SimpleNamespace(time_format={}), along=SimpleNamespace(names=lambda *_: []),
    )  # fmt: skip
    around: Any = Around(store)
    return SinkTask(around, job, TaskPlan("sink.out", "sink", output="out", place="out", step="out"))


def stage(sink: SinkTask, epochs: range) -> list[Snapshot]:
    """Ten rows in each epoch, all of them on the disk together."""
    for epoch in epochs:
        first = 10 * (epoch - 1)
        sink._stage([(first, Events([np.arange(first, first + 10)]))], first + 10)
        sink._border(epoch, first + 10, [])
    sink._settle(epochs[-1])
    around: Any = sink.context
    return [make() for make in around.made]


def committed(sink: SinkTask, epoch: int) -> list[int]:
    sink._due.append((epoch, []))
    sink._commit()
    sink.target.finish(sum(name.rows for name, _ in parts_in(sink.target._folder)))  # type: ignore[attr-defined]
    target: Any = sink.target
    if target.path.endswith("csv"):
        return [int(line) for line in Path(target.path).read_text().split()[1:]]
    import pyarrow.parquet as parquet

    return parquet.read_table(target.path)["out"].to_pylist()


@pytest.mark.parametrize("spill", [1 << 20, 0, 300])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_back_into_the_middle(tmp_path: Path, form: str, spill: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_SPILL", spill)
    sink = sink_in(tmp_path, form)
    sink.restore(None)
    sink.begin()
    snapshots = stage(sink, range(1, 5))
    ends = [sink._ends(e) for e in (1, 2, 3, 4)]
    assert ends == ([1, 2, 3, 4] if spill == 0 else [4] * 4)
    again = sink_in(tmp_path, form)
    again.restore(snapshots[2])
    again.begin()
    again = sink_in(tmp_path, form)  # killed before it got further
    again.restore(snapshots[2])
    again.begin()
    assert [n.epoch for n, _ in parts_in(tmp_path / "staged/out")] == ([1, 2, 3] if spill == 0 else [3])
    earlier = sink_in(tmp_path, form)  # the snapshot of another task turned out to be damaged
    earlier.restore(snapshots[1])
    earlier.begin()
    earlier.context.now = 3
    stage(earlier, range(3, 6))
    assert committed(earlier, 5) == list(range(50))
    assert not parts_in(tmp_path / "staged/out")
    behind = sink_in(tmp_path, form)  # and one that was committed is not written twice
    behind.restore(snapshots[0])
    behind.begin()
    stage(behind, range(2, 8))
    assert committed(behind, 7) == list(range(70))


def test_no_epoch_is_committed_before_the_last_of_its_file(tmp_path: Path) -> None:
    sink = sink_in(tmp_path, "csv")
    sink.restore(None)
    sink.begin()
    stage(sink, range(1, 4))
    assert committed(sink, 2) == []
    assert committed(sink, 3) == list(range(30))


@pytest.mark.parametrize("how", ["altered", "cut", "removed"])
def test_damaged_rows(tmp_path: Path, how: str) -> None:
    sink = sink_in(tmp_path, "csv")
    sink.restore(None)
    sink.begin()
    snapshots = stage(sink, range(1, 4))
    ((_, path),) = parts_in(tmp_path / "staged/out")
    data = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(data[:9] if how == "cut" else b"7" + data[1:])
    for snapshot in snapshots[1:]:
        with pytest.raises(
            Damaged,
            match=rf"{path.name}: the staged rows of an epoch are {'missing' if how == 'removed' else 'damaged'}",
        ):
            sink_in(tmp_path, "csv").restore(snapshot)


class Filling:
    """A file whose disk is full at one of the writes, after half of it."""

    def __init__(self, file: Any, left: list[int]) -> None:
        self._file, self._left = file, left

    def write(self, data: Any) -> int:
        self._left[0] -= 1
        if self._left[0] == 0:
            self._file.write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("apart", [False, True])  # each epoch a file of its own, as beside a table
@pytest.mark.parametrize("refused", range(1, 10))  # the head, three epochs, the tail; of each file
def test_a_full_disk_in_the_middle_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int, apart: bool
) -> None:
    """Wherever the disk fills up, the same call goes on, and no row is there twice."""
    if refused > 5 and not apart:
        pytest.skip("one file has no more writes")
    sink, left = sink_in(tmp_path, "parquet"), [refused]
    sink._apart = apart
    sink.restore(None)
    sink.begin()

    def filling(*args: Any, **options: Any) -> Draft:
        draft = Draft(*args, **options)
        draft.file = Filling(draft.file, left)
        return draft

    monkeypatch.setattr(parts, "Draft", filling)
    with pytest.raises(OSError, match="No space"):
        stage(sink, range(1, 4))
    snapshots = stage(sink, range(4, 6))
    monkeypatch.undo()
    again = sink_in(tmp_path, "parquet")
    again.restore(snapshots[-1])  # the checksums are right
    again.begin()
    assert committed(again, 5) == list(range(50))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_disk_that_is_too_full_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A rename may need room in the folder; what it is refused after is written, and not written again."""
    sink = sink_in(tmp_path, form)
    sink.restore(None)
    sink.begin()

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="No space"):
            stage(sink, range(1, 4))
    snapshots = stage(sink, range(4, 6))
    again = sink_in(tmp_path, form)
    again.restore(snapshots[-1])
    again.begin()
    assert committed(again, 5) == list(range(50))
