"""Small files of our own: whatever is in their place is read, or refused by name, and never waited for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import StateError
from pellucid.internal.base.files import checked, no_links, open_own, parsed, read_own, read_small, sealed
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, Store, running_in, take
from pellucid.sinks.decisions import NOTHING, DecisionLog


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


NO_FILES: dict[str, Callable[[Path], Any]] = {
    "a named pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a socket": bind,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
}
DAMAGED = {
    "empty": b"",
    "deep": b"[" * 100_000,
    "deep inside": b'{"a": ' * 100_000,
    "deep and whole": b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "long number": b"1" * 5000,
    "no text": b'{"\xff": 1}',
    "zeros": bytes(50),
    "another": b'{"a": [1]}',
    "checksum of another kind": b'{"checksum": [1]}',
}


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """What waits for a pipe fails."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def taken(folder: Path) -> DecisionLog:
    log = DecisionLog(folder)
    log.take("q", {"a": "out"})
    log.note_whole("q", 0)
    return log


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    store, log = Store(tmp_path), taken(tmp_path / "log")
    asked: dict[Path, Callable[[], object]] = {
        tmp_path / "run.json": lambda: store.read("run.json"),
        tmp_path / "generation": lambda: store.hint("generation"),
        tmp_path / "lock": lambda: take(tmp_path),
        log.folder / "whole.json": log.whole,
        log.folder / "decisions.json": log.read,
    }
    for path, ask in asked.items():
        path.unlink(missing_ok=True)
        NO_FILES[kind](path)
        with pytest.raises(StateError, match=rf"{path.name}: is {kind}, where a file of Pellucid's belongs: take it"):
            ask()
    with pytest.raises(StateError, match=f"lock: is {kind}"):
        running_in(tmp_path)


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_snapshot_that_is_no_file_is_damaged(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    store.save(Snapshot("w", 1, 10), run="r")
    path = store.path("w", 1)
    path.unlink()
    NO_FILES[kind](path)
    with pytest.raises(Damaged, match=r"000001\.snap: the snapshot cannot be read"):
        store.load("w", 1, run="r")
    with pytest.raises(OSError, match=r"000001\.snap"):
        no_links(path, os.O_RDONLY)


def test_links_where_others_may_put_them(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(sealed({"a": 1}))
    (tmp_path / "link").symlink_to("there")
    assert checked(read_small(tmp_path / "link", links=True)) == {"a": 1}
    (tmp_path / "there").unlink()
    for links in (True, False):
        with pytest.raises(FileNotFoundError if links else StateError):
            read_own(tmp_path / "link", links=links)
    os.mkfifo(tmp_path / "there")
    with pytest.raises(StateError, match="link: is a named pipe"):
        open_own(tmp_path / "link", os.O_RDONLY, links=True)


@pytest.mark.parametrize("how", DAMAGED)
def test_damage_is_told_and_a_hint_that_is_damaged_is_none(tmp_path: Path, how: str) -> None:
    store, log = Store(tmp_path), taken(tmp_path / "log")
    log.decide(0, "a1")
    assert log.whole() == 0
    for path in (tmp_path / "run.json", log.folder / "whole.json"):
        path.write_bytes(DAMAGED[how])
    with pytest.raises(ValueError, match=r".+"):
        checked(parsed(DAMAGED[how]))
    with pytest.raises(StateError, match=r"run\.json: the state folder is damaged: this file cannot be read"):
        store.read("run.json")
    assert store.hint("run.json") == {} and store.number("run.json", "a") == 0
    assert log.whole() == NOTHING
    (log.folder / "decisions.json").write_bytes(DAMAGED[how])
    with pytest.raises(StateError, match=r"decisions\.json: not a log of decisions .*: the file is damaged"):
        log.read()


@pytest.mark.parametrize("members", [[], 7, {"a": []}, {"a": "x"}, {"a": None}])
def test_a_log_of_other_types_is_damaged(tmp_path: Path, members: object) -> None:
    log = taken(tmp_path)
    document = {**log.record.document(), "members": members}  # type: ignore[union-attr]
    (tmp_path / "decisions.json").write_bytes(sealed(document))
    with pytest.raises(StateError, match="not a log of decisions"):
        log.read()


def test_a_number_that_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("progress.json", {"epoch": ["x"]})
    assert store.number("progress.json", "epoch") == 0
