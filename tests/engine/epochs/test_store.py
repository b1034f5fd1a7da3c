"""Snapshots are whole or not there; the folder belongs to one run at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import StateError, UsageError
from pellucid.internal.base import container
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, Store


def filled(root: Path, *groups: tuple[int, int]) -> Store:
    store = Store(root)
    for first, last in groups:
        store.save(
            *[Snapshot("w", e, 10 * e, {"a>w": e}, {"n": e}, bytes([e]) * (100 + e)) for e in range(first, last + 1)],
            run="r",
        )
    return store


def test_several_epochs_in_one_file(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 1), (2, 5), (6, 6))
    assert store.epochs("w") == [1, 2, 3, 4, 5, 6]
    for epoch in range(1, 7):
        found = store.load("w", epoch, run="r")
        assert (found.until, found.numbers, found.about, bytes(found.payload)) == (
            10 * epoch,
            {"a>w": epoch},
            {"n": epoch},
            bytes([epoch]) * (100 + epoch),
        )


def test_going_back_leaves_nothing_later(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 3), (4, 7))
    store.go_back("w", 5)
    assert store.epochs("w") == [1, 2, 3, 4, 5]
    assert bytes(store.load("w", 5, run="r").payload) == bytes([5]) * 105
    store.go_back("w", 0)
    assert store.epochs("w") == []


def test_old_files_are_removed(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 1), (2, 4), (5, 5), (6, 6), (7, 7))
    store.forget("w", keep=2, before=6)
    assert store.epochs("w") == [5, 6, 7]


def test_a_damaged_one_is_set_aside_and_earlier_ones_stay(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 4))
    store.set_aside("w", 3)
    assert store.epochs("w") == [1, 2]
    assert bytes(store.load("w", 2, run="r").payload) == bytes([2]) * 102


@given(st.data())
@settings(max_examples=60)
def test_no_cut_and_no_flipped_byte_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = filled(tmp_path_factory.mktemp("s"), (1, 3))
    path = store.path("w", 1)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:at])
    else:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    for epoch in (1, 2, 3):
        try:
            found = store.load("w", epoch, run="r")
        except Damaged:
            continue
        assert bytes(found.payload) == bytes([epoch]) * (100 + epoch)
        assert (found.until, found.numbers) == (10 * epoch, {"a>w": epoch})


def test_a_flipped_version_is_damage_not_another_version(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 1))
    whole = store.path("w", 1).read_bytes()
    at = whole.index(container.MAGIC) + len(container.MAGIC)
    store.path("w", 1).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(Damaged):
        store.load("w", 1, run="r")


def test_of_another_run(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="is the snapshot of another run, task or epoch"):
        filled(tmp_path, (1, 1)).load("w", 1, run="other")


def test_a_second_run_is_refused_and_a_dead_one_is_not_waited_for(tmp_path: Path) -> None:
    code = (
        f"import time; from pellucid.internal.engine.epochs.store import Store; Store({str(tmp_path)!r}).open(); "
        "print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StateError, match=rf"another run \(process {other.pid}\) is using this folder"):
            Store(tmp_path).open()
        other.kill()
    store = Store(tmp_path)
    store.open()
    store.close()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        Store(tmp_path / "file" / "state").open()
    assert os.listdir(tmp_path) == ["file"]
