"""What is for the user alone stays so, and no planted link is written through."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pellucid import pipeline
from pellucid.errors import DataError, StateError, UsageError
from pellucid.internal.base import files
from pellucid.internal.base import files as cache
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs import store as stores
from pellucid.internal.engine.kernel import compile as compiling
from pellucid.spark.store import LocalFiles

PIPELINE = """\
from pellucid import Stream, pipeline
@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PIPELINE)
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n4\n5\n")
    return tmp_path


@pytest.fixture(autouse=True)
def umask() -> Any:
    old = os.umask(0o022)
    yield
    os.umask(old)


def run(*more: str, out: str = "out.csv") -> Result:
    return CliRunner().invoke(
        cli, ["run", "p.py:total", "--in", "in.csv", "--out", out, "--epoch-size", "2", "--state", "state", *more]
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("out", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_state_folder_is_for_its_user_alone_and_an_output_as_the_umask_says(folder: Path, out: str) -> None:
    assert run("--record", out=out).exit_code == 0
    inside = list((folder / "state").rglob("*"))
    assert len(inside) > 8 and mode(folder / "state") == 0o700
    assert {mode(p) for p in inside if p.is_dir()} == {0o700}
    assert {mode(p) for p in inside if p.is_file()} == {0o600}
    assert mode(folder / out) == 0o644


def test_a_folder_that_others_could_read_is_closed(folder: Path) -> None:
    (folder / "state").mkdir(mode=0o755)
    assert run().exit_code == 0 and mode(folder / "state") == 0o700
    (folder / "state").chmod(0o777)
    assert run().exit_code == 0 and mode(folder / "state") == 0o700


def test_a_folder_of_something_else_is_left_as_it_is(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "photo.jpg").touch()
    (folder / "state").chmod(0o755)
    result = run()
    assert (
        result.exit_code == 2
        and "is not empty, and holds no run of Pellucid" in result.output
        and mode(folder / "state") == 0o755
    )


def test_a_folder_of_another_user_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "state").mkdir(mode=0o777)
    monkeypatch.setattr(files, "own_user", lambda: os.geteuid() + 1)
    result = run()
    assert (
        result.exit_code == 2
        and f"state: belongs to another user (number {os.geteuid()}), who could change what is in it" in result.output
    )
    assert not list((folder / "state").iterdir())


def test_a_file_in_the_place_of_the_folder(folder: Path) -> None:
    (folder / "state").touch()
    assert "state: is no folder: choose another name" in run().output


@pytest.mark.parametrize("name", ["snapshots", "staged", "committed", "trace"])
def test_a_link_in_the_place_of_an_inner_folder_is_refused(folder: Path, name: str) -> None:
    assert run("--record").exit_code == 0
    (folder / "elsewhere").mkdir()
    target = folder / "state" / name
    target.rename(folder / "was")
    target.symlink_to(folder / "elsewhere")
    (folder / "in.csv").write_text("x\n1\n2\n3\n4\n5\n6\n7\n")
    result = run("--record")
    assert result.exit_code == 2 and f"state/{name}: is a link, which no run of Pellucid has made" in result.output
    assert not list((folder / "elsewhere").iterdir())


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    planted = [tmp_path / f".run.json.{os.getpid()}.tmp", tmp_path / ".hint.json.tmp", tmp_path / "part.tmp"]
    for link in planted:
        link.symlink_to(precious)
    store = stores.Store(tmp_path)
    store.write("run.json", {"run": "r"})
    store.write("hint.json", {"epoch": 1}, durable=False)
    from pellucid.internal.engine.epochs.outputs import Part

    part = Part(planted[2], lambda data: data, b"head", b"")
    part.absorb(part)
    part.finish(tmp_path / "done.part")
    assert precious.read_text() == "mine" and (tmp_path / "done.part").read_bytes() == b"head"
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "000000.worker.steps").symlink_to(precious)
    from pellucid.internal.engine.epochs.recording import Recorder

    with pytest.raises(OSError, match="symbolic links"):
        Recorder(tmp_path, "worker", 0)
    assert precious.read_text() == "mine"


def test_an_output_is_not_written_through_a_link_beside_it(folder: Path) -> None:
    precious = folder / "precious"
    precious.write_text("mine")
    text = folder / "report.txt"
    Path(files.temporary_name(str(text))).symlink_to(precious)
    with pytest.raises(DataError, match=r"report\.txt: cannot be written: File exists"):
        files.write_whole(str(text), "new")
    assert precious.read_text() == "mine"


def test_the_cache_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "_loaded", {})
    p = pipeline(lambda x: x.map(lambda v: v * 7919 + 11, id="odd"), x=int)
    assert p.engine(mode="numba").push([1]) == [7930]
    assert mode(tmp_path / "cache") == 0o700 and list((tmp_path / "cache").glob("kernel-*"))
    (tmp_path / "cache").chmod(0o777)
    assert cache.own_cache() == tmp_path / "cache" and mode(tmp_path / "cache") == 0o755
    (tmp_path / "cache" / "in").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="belongs to another user, or is no folder"):
        cache.own_cache("in")


def test_a_cache_of_another_user_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(files, "own_user", lambda: os.geteuid() + 1)
    monkeypatch.setattr(compiling, "_loaded", {})
    assert pipeline(lambda x: x.map(lambda v: v * 7907 + 13, id="odd"), x=int).engine(mode="numba").push([1]) == [7920]
    assert not list((tmp_path / "cache").iterdir())


def test_the_state_folder_of_a_query(tmp_path: Path) -> None:
    own, shared = LocalFiles(str(tmp_path / "own")), tmp_path / "shared"
    own.write("bucket/1.snap", [b"x"])
    assert mode(tmp_path / "own") == 0o700 and mode(tmp_path / "own" / "bucket" / "1.snap") == 0o600
    shared.mkdir()
    shared.chmod(0o770)  # its owner wants it so: executors may run as others of a group
    LocalFiles(str(shared)).write("1.snap", [b"x"])
    assert mode(shared) == 0o770 and mode(shared / "1.snap") == 0o640


def test_words() -> None:
    with pytest.raises(UsageError, match="state='/dev/null': is no folder"):
        files.own_folder("/dev/null")
    with pytest.raises(StateError, match="is a link"):
        files.inner_folder("/proc", "self")
