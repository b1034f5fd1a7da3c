"""Real runs that read one another: rows before they are committed, kills of either, what was given up is undone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid import apply, pipeline, sinks
from pellucid.internal.engine.epochs.store import Store
from tests.engine.epochs.chain.chain_job import (
    ROWS,
    committed,
    first,
    given,
    run,
    second,
    seconds_of,
    table,
    thirds_of,
    unsalted,
)
from tests.engine.epochs.chain.programs import Program


def silent(text: str) -> None:
    """Nobody reads what a run says."""


class Programs:
    """The runs in a folder; what is left at the end is killed."""

    def __init__(self, folder: Path, job: Callable[..., Any] = run) -> None:
        self.folder, self.running, self.job = folder, list[Program](), job

    def start(self, role: str, *, faults: str = "", salt: int = 0, pause: float = 0, **settings: Any) -> Program:
        environment = {"PELLUCID_FAULTS": faults, "SALT": str(salt), "PAUSE": str(pause)}
        said = self.folder / f"said{len(self.running)}"
        self.running.append(Program(said, role, self.folder, environment, settings, self.job))
        return self.running[-1]

    def run(self, role: str, **said: Any) -> tuple[int, str]:
        return self.start(role, **said).end()

    def kill(self) -> None:
        """Kill what is left."""
        for program in self.running:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.end()

    def has_read(self, role: str, rows: int) -> None:
        """Wait until a run has a snapshot behind so many rows of its input."""
        store, until = Store(self.folder / role), time.monotonic() + 600
        while time.monotonic() < until:
            epochs = store.epochs("source.x")
            run = store.hint("run.json").get("run", "")
            if epochs and store.peek("source.x", epochs[-1], run=run)["about"]["lanes"][0]["row"] >= rows:
                return
            time.sleep(0.01)
        raise AssertionError(f"{role} has not read {rows} rows")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    made.kill()


def judge(folder: Path) -> None:
    """All that is committed at the end: each row of ``first`` once, the others what plain Python makes of them."""
    rows = committed(folder, "first")
    assert unsalted(rows) == [given(i) for i in range(ROWS)]
    assert committed(folder, "second") == seconds_of(rows)


# ---------------------------------------------------------------- nobody is killed


def test_one_after_the_other(tmp_path: Path) -> None:
    for role in ("first", "second", "third"):
        run(tmp_path, role, say=silent)
    judge(tmp_path)
    assert table(tmp_path) == thirds_of(seconds_of([given(i) * 10 for i in range(ROWS)]))


@pytest.mark.parametrize(
    "name",
    [
        "rows.csv",
        "rows.arrow",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("rows.tsv", "rows.jsonl", "rows.parquet", "rows.csv.gz")),
    ],
)
def test_whatever_the_rows_are_kept_as(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(30)))
    twice = pipeline(lambda x: x.map(lambda v: v * 2), x=int)
    twice.run_epochs(tmp_path / "x.jsonl", tmp_path / name, state=tmp_path / "a", pushes=7)
    second.run_epochs(f"epochs:{tmp_path / 'a'}", tmp_path / "out.jsonl", state=tmp_path / "b", pushes=9)
    found = [json.loads(line)["out"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == seconds_of([2 * i for i in range(30)])


def test_all_at_once(programs: Programs) -> None:
    """The downstream runs follow while the first is at work, and end when it has ended."""
    folder = programs.folder
    started = [programs.start("first", pause=0.001)]
    for above, role in (("first", "second"), ("second", "third")):
        while not (folder / above / "outputs.json").exists():
            assert started[-1].poll() is None
            time.sleep(0.01)
        started.append(programs.start(role, pushes=30))
    assert [program.end()[0] for program in started] == [0, 0, 0]
    judge(folder)
    assert table(folder) == thirds_of(committed(folder, "second"))


def test_two_upstreams_and_a_file_meet_row_by_row(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(50)))
    for name in ("a", "b"):
        first.run_epochs(tmp_path / "x.jsonl", tmp_path / f"{name}.arrow", state=tmp_path / name, pushes=20, say=silent)
    both = pipeline(lambda x, y, z: apply(lambda a, b, c: a + b + c, x, y, z), x=int, y=int, z=int)
    inputs = {"x": f"epochs:{tmp_path / 'a'}", "y": f"committed:{tmp_path / 'b'}", "z": str(tmp_path / "x.jsonl")}
    both.run_epochs(inputs, tmp_path / "sum.jsonl", state=tmp_path / "c", pushes=17)
    found = [json.loads(line)["out"] for line in (tmp_path / "sum.jsonl").read_text().splitlines()]
    assert found == [21 * i for i in range(50)]


@pytest.mark.long
def test_an_upstream_that_has_grown(tmp_path: Path) -> None:
    run(tmp_path, "first", say=silent)
    run(tmp_path, "second", say=silent)
    with open(tmp_path / "x.jsonl", "a") as file:
        file.writelines(f"{i}\n" for i in range(40))
    run(tmp_path, "first", say=silent)
    run(tmp_path, "second", say=silent)
    rows = committed(tmp_path, "first")
    assert len(rows) == ROWS + 40
    assert committed(tmp_path, "second") == seconds_of(rows)


# ---------------------------------------------------------------- before the commit, and when it is given up


def test_rows_are_read_before_they_are_committed_and_nothing_is_committed_on_them(programs: Programs) -> None:
    """The first run dies when the rows of its third epoch are on the disk, and nobody has a snapshot of it."""
    folder = programs.folder
    assert programs.run("first", faults="sink:staged[sink.out]=tree@3")[0] != 0
    before = committed(folder, "first")
    follower = programs.start("second")
    programs.has_read("second", 150)  # also those that are not committed
    assert len(before) <= 100
    until = time.monotonic() + 600
    while len(have := committed(folder, "second")) < len(seconds_of(before)) and time.monotonic() < until:
        time.sleep(0.02)
    assert have == seconds_of(before)
    time.sleep(0.3)
    assert committed(folder, "second") == have
    assert programs.run("first")[0] == 0  # the same rows again: nothing is undone
    code, said = follower.end()
    assert code == 0, said
    assert "undone 0" in said
    judge(folder)


def test_what_was_given_up_is_undone(programs: Programs) -> None:
    folder = programs.folder
    assert programs.run("first", faults="sink:staged[sink.out]=tree@3")[0] != 0
    follower = programs.start("second", pushes=20)
    programs.has_read("second", 140)
    last = programs.start("third", pushes=10)
    programs.has_read("third", 80)
    assert programs.run("first", salt=7)[0] == 0  # the third epoch has other rows now
    for program in (follower, last):
        code, said = program.end()
        assert code == 0, said
        assert "undone 0" not in said
        assert "were given up by the upstream after they were read here: what depends on them is undone" in said
    judge(folder)
    assert {row % 10 for row in committed(folder, "first")} == {0, 7}
    assert table(folder) == thirds_of(committed(folder, "second"))


@pytest.mark.long
def test_complete_epochs_that_are_given_up_by_starting_over(programs: Programs) -> None:
    """Snapshots are lost, and all input is read again: what was complete, and not committed, has other rows."""
    folder = programs.folder
    assert programs.run("first", faults="sink:before-commit[sink.out]=tree@2")[0] != 0
    follower = programs.start("second", pushes=20)
    programs.has_read("second", 100)
    for path in (folder / "first" / "snapshots").rglob("*.snap"):
        path.unlink()
    code, said = programs.run("first", salt=3, from_start=True)
    assert code == 0, said
    code, said = follower.end()
    assert code == 0, said
    assert "undone 1" in said
    judge(folder)
    assert {row % 10 for row in committed(folder, "first")} == {0, 3}


@pytest.mark.long
def test_fewer_rows_than_were_read(programs: Programs) -> None:
    """What the upstream makes again ends before what was read."""
    folder = programs.folder
    assert programs.run("first", faults="sink:staged[sink.out]=tree@3")[0] != 0
    follower = programs.start("second", pushes=20)
    programs.has_read("second", 140)
    assert programs.run("first", limit=120)[0] == 0
    code, said = follower.end()
    assert code == 0, said
    assert "undone 1" in said
    rows = committed(folder, "first")
    assert len(rows) == 120
    assert committed(folder, "second") == seconds_of(rows)


# ---------------------------------------------------------------- kills of the downstream

SOME = ("chain:sure=tree@2", "chain:undo=kill@1")
MORE = (
    "chain:ahead=tree@1", "sink:before-commit=tree@2", "sink:after-commit=tree@2",
    "chain:ahead=kill@1", "chain:sure=kill@1", "source:border=tree@5", "source:border=kill@3", "worker:border=tree@4",
    "sink:staged=tree@4", "sink:before-commit=kill@1", "sink:after-commit=kill@3", "snapshot:after-write=tree@6",
    "coordinator:complete=kill@4", "coordinator:committed=kill@2", "recover:loaded=tree@1/1;chain:undo=kill@1",
)  # fmt: skip


def _killed_while_rows_are_given_up(programs: Programs, faults: str) -> None:
    folder = programs.folder
    assert programs.run("first", faults="sink:staged[sink.out]=tree@3")[0] != 0
    follower = programs.start("second", pushes=20, faults=faults)
    until = time.monotonic() + 1.0
    while follower.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert programs.run("first", salt=5)[0] == 0
    code, said = follower.end()
    for _ in range(4):
        if code == 0:
            break
        code, said = programs.run("second", pushes=20)
    assert code == 0, said
    judge(folder)


@pytest.mark.parametrize("faults", SOME)
def test_the_downstream_is_killed(programs: Programs, faults: str) -> None:
    _killed_while_rows_are_given_up(programs, faults)


@pytest.mark.long
@pytest.mark.parametrize("faults", MORE)
def test_the_downstream_is_killed_elsewhere(programs: Programs, faults: str) -> None:
    _killed_while_rows_are_given_up(programs, faults)


# ---------------------------------------------------------------- a step that fails on what may be given up


@pytest.mark.parametrize("salt", [1, pytest.param(5, marks=pytest.mark.long)])
def test_a_row_that_fails_counts_when_it_is_committed(programs: Programs, salt: int) -> None:
    """The rows of the first run's first epoch end in 5, on which its reader fails; made again they may not."""
    folder = programs.folder
    assert programs.run("first", faults="sink:staged[sink.out]=tree@1", salt=5)[0] != 0
    follower = programs.start("strict", pushes=20)
    until = time.monotonic() + 600
    while "this may be a row that the upstream gives up again" not in follower.text():
        assert follower.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    assert programs.run("first", salt=salt)[0] == 0
    code, said = follower.end()
    if salt == 5:
        assert code == 2
        assert "ZeroDivisionError" in said
    else:
        assert code == 0, said
        assert len((folder / "strict.csv").read_text().split()) == ROWS + 1


def test_a_group_of_outputs_waits_as_well(tmp_path: Path) -> None:
    """Downstream, too, an epoch is in all outputs or in none, and in none before it is committed above."""
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(30)))
    first.run_epochs(tmp_path / "x.jsonl", tmp_path / "a.arrow", state=tmp_path / "a", pushes=20, say=silent)
    members = {name: sinks.sqlite(tmp_path / f"{name}.db", "t") for name in ("one", "two")}
    report = second.run_epochs(
        f"epochs:{tmp_path / 'a'}", sinks.together(members), state=tmp_path / "b", pushes=11, say=silent
    )
    wanted = seconds_of([10 * i for i in range(30)])
    assert report.rows == {"one": len(wanted), "two": len(wanted)}
    for sink in members.values():
        assert sink.read()["out"].to_pylist() == wanted
