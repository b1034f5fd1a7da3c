"""The snapshot store: whole or not at all, whatever is killed when, and however many write at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pellucid import StateError
from pellucid.spark.store import Store
from tests.spark.state.stores import BIG, blob, contents, names, touched

# ---------------------------------------------------------------- crashes


STAGES = ["mkdir", "open", "write", "fsync", "replace", "fsync folder", "unlink"]


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_at_any_stage_leaves_the_last_snapshot(
    store: Store, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stage != "mkdir":
        for version in range(3):
            store.save(0, version, blob(version), b"", {})
    before = contents(store.load(0, 100))

    def full(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    calls = []
    real = os.fsync

    def second(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            full()
        real(handle)

    with monkeypatch.context() as patched:
        if stage == "write":
            patched.setattr(os, "fdopen", _short)
        elif stage == "fsync folder":
            patched.setattr(os, "fsync", second)
        else:
            patched.setattr(os, stage, full)
        with pytest.raises((StateError, OSError), match="No space left on device"):
            store.save(0, 3, blob(3), b"", {})
    if stage in ("fsync folder", "unlink"):  # the new one is there already
        assert contents(store.load(0, 100)) == (3, blob(3), b"", {})
    else:
        assert contents(store.load(0, 100)) == before
    store.save(0, 3, blob(3), b"", {})
    assert contents(store.load(0, 100)) == (3, blob(3), b"", {})
    assert not [n for n in names(store) if n.endswith(".tmp")]


class _Short:
    """A file whose disk is full after the first piece."""

    def __init__(self, handle: int) -> None:
        self.file, self.pieces = open(handle, "wb"), 0  # noqa: SIM115 - closed by the draft
        self.close = self.file.close

    def write(self, piece: bytes) -> None:
        self.pieces += 1
        if self.pieces == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.write(piece)


def _short(handle: int, *args: Any, **options: Any) -> _Short:
    return _Short(handle)


WRITER = """
import random, sys
from pellucid.spark.store import Store
store, version = Store(sys.argv[1]), int(sys.argv[2])
last = store.load(0, version)
state = bytearray(last.state) if last else bytearray(random.Random(0).randbytes(200_000))
while True:
    at = random.Random(version).randrange(190_000)
    state[at : at + 8] = version.to_bytes(8, "little")
    base = last if version % 7 else None
    last = store.save(0, version, bytes(state), version.to_bytes(8, "little"), {"v": version}, base=base)
    print(version, flush=True)
    version += 1
"""


def expected(version: int) -> bytes:
    state = bytearray(random.Random(0).randbytes(200_000))
    for v in range(version + 1):
        at = random.Random(v).randrange(190_000)
        state[at : at + 8] = v.to_bytes(8, "little")
    return bytes(state)


def test_kill_9_at_any_moment(tmp_path: Path) -> None:
    store, rng, done = Store(str(tmp_path)), random.Random(1), -1
    for _ in range(12):
        task = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(done + 1)], stdout=subprocess.PIPE, text=True
        )
        assert task.stdout is not None
        for _ in range(rng.randrange(1, 12)):
            done = int(task.stdout.readline())
        time.sleep(rng.random() * 0.01)
        task.send_signal(signal.SIGKILL)
        said = [int(line) for line in task.stdout.read().split()]
        task.stdout.close()
        task.wait()
        done = max([done, *said])
        found = store.load(0, 10**9)
        assert found is not None and found.version in (done, done + 1)  # what was said to be saved is there
        assert contents(found) == (
            found.version,
            expected(found.version),
            found.version.to_bytes(8, "little"),
            {"v": found.version},
        )
        before = store.load(0, done + 1)  # what the repeated micro-batch starts from
        assert before is not None and bytes(before.state) == expected(done)
    assert done > 12


# ---------------------------------------------------------------- several at once


def _save(path: str, version: int, gate: Any, states: list[bytes]) -> None:
    store = Store(path)
    base = store.load(0, version)
    gate.wait()
    for state in states:
        store.save(0, version, state, b"x", {"version": version}, base=base)


def test_tasks_that_run_twice_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    store = Store(str(tmp_path))
    store.save(0, 0, blob(0), b"", {})
    for version in range(1, 8):
        state = touched(expected(0)[:BIG], version * 100)
        # The same bytes, and in some turns other bytes of the same meaning.
        variants = [[state], [state], [state + b"pad"] if version % 3 == 0 else [state], [state] * 3]
        gate = context.Barrier(4)
        tasks = [context.Process(target=_save, args=(str(tmp_path), version, gate, v)) for v in variants]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        assert [task.exitcode for task in tasks] == [0] * 4
        found = contents(store.load(0, version + 1))
        assert found[0] == version and found[1] in (state, state + b"pad")
        if version % 3:
            assert len([n for n in names(store) if n.startswith(f"v{version:020d}")]) <= 2  # written at once, or seen
        assert not [n for n in names(store) if n.endswith(".tmp")]


def test_the_same_again_is_not_written_again(store: Store) -> None:
    store.save(0, 0, blob(0), b"", {})
    before = {n: os.stat(Path(store.path, "bucket-00000", n)).st_mtime_ns for n in names(store)}
    store.save(0, 0, blob(0), b"", {})
    assert before == {n: os.stat(Path(store.path, "bucket-00000", n)).st_mtime_ns for n in names(store)}
    store.save(0, 0, blob(1), b"", {})
    store.save(0, 0, blob(0), b"", {})
    assert contents(store.load(0, 1)) == (0, blob(0), b"", {})  # the last attempt counts
