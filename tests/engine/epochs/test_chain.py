"""Real runs that read one another: rows before they are committed, kills of either, what was given up is undone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from pellucid import apply, pipeline, sinks
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs.chain import Digest
from pellucid.internal.engine.epochs.store import Store
from tests.engine.epochs.chain_job import (
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
from tests.engine.epochs.chain_programs import Program


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


def test_rows_of_another_run_by_key(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("who,x\nann,1\nbob,2\nann,3\n")
    sums = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    sums.run_epochs(tmp_path / "x.csv", tmp_path / "a.csv", state=tmp_path / "a", pushes=2, key="who")
    sums.run_epochs(f"epochs:{tmp_path / 'a'}", tmp_path / "b.csv", state=tmp_path / "b", pushes=2, key="who")
    assert (tmp_path / "b.csv").read_text().split() == ["who,out", '"ann",1', '"bob",2', '"ann",5']


# What is refused of a chain: each by name, in one message, with exit code 2 on the command line.

PIPELINES = """\
from datetime import timedelta
from pellucid import Stream, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def loud(x: Stream[str]) -> Stream[str]:
    return x.map(lambda v: v + "!", id="loud")


@pipeline
def two(x: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    return x.map(lambda v: v + 1), x.map(lambda v: v - 1)


@pipeline
def tens(x: Stream[int]) -> Stream[int]:
    return x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda t, v: t + v, start=0)).map(lambda w: w.value)
"""


class Commands:
    """``pellucid run`` in a folder, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "p.py").write_text(PIPELINES)
        (folder / "x.jsonl").write_text("".join(f"{i}\n" for i in range(30)))

    def __call__(self, *args: str) -> tuple[int, str]:
        with contextlib.chdir(self.folder):
            done = CliRunner().invoke(cli, ["run", *args])
        return done.exit_code, " ".join(done.output.split())

    def refused(self, *args: str) -> str:
        code, text = self(*args)
        assert code == 2, text
        assert "Traceback" not in text
        return text

    def upstream(self, out: str = "a.arrow", *more: str, name: str = "total") -> None:
        code, text = self(f"p.py:{name}", "--in", "x.jsonl", "--out", out, "--epoch-size", "10", "--state", "a", *more)
        assert code == 0, text

    def chained(self, given: str = "epochs:a", *more: str, name: str = "total", state: str = "b") -> list[str]:
        return [f"p.py:{name}", "--in", given, "--out", "b.csv", "--epoch-size", "10", "--state", state, *more]


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_a_folder_that_is_no_run(commands: Commands) -> None:
    (commands.folder / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        assert "holds no run with epochs: give the state folder of the run whose rows are to be read, and start that " \
            "run first" in commands.refused(*commands.chained(f"epochs:{folder}"))  # fmt: skip
    assert "expected epochs:STATE#OUTPUT" in commands.refused(*commands.chained("epochs:"))
    assert "is not supported any more: delay the stream in its pipeline" in commands.refused(
        *commands.chained("epochs:a?after=2#out")
    )
    assert not (commands.folder / "b").exists()


def test_another_type(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(name="loud"))
    assert "epochs:a" in text
    assert "the output 'out' of the run there is not what the source 'x' takes" in text


def test_an_output_that_is_not_there_or_not_named(commands: Commands) -> None:
    commands.upstream("a1.arrow", name="total")
    assert "has no output 'ou': it has out; did you mean 'out'?" in commands.refused(*commands.chained("epochs:a#ou"))
    shutil.rmtree(commands.folder / "a")
    code, text = commands(
        "p.py:two",
        "--in",
        "x.jsonl",
        "--out",
        "out1=a.csv",
        "--out",
        "out2=b1.csv",
        "--epoch-size",
        "9",
        "--state",
        "a",
    )
    assert code == 0, text
    assert "which output of two? It has out1, out2: give epochs:a#out1" in commands.refused(*commands.chained())
    code, text = commands(*commands.chained("epochs:a#out2"))
    assert code == 0, text


def test_rows_that_go_to_a_table(commands: Commands) -> None:
    commands.upstream("sqlite:a.db#t")
    text = commands.refused(*commands.chained())
    assert "and are not kept when they are committed: let that run write them to a file as well" in text
    shutil.rmtree(commands.folder / "a")
    commands.upstream("sqlite:a2.db#t", "--out", "rows.arrow")
    code, text = commands(*commands.chained())
    assert code == 0, text
    assert (commands.folder / "b.csv").read_text().split()[:4] == ["out", "0", "1", "4"]


def test_a_chain_onto_itself_and_a_circle(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(state="a"))
    assert "is the state folder of this very run, and a run cannot read its own rows" in text
    assert commands(*commands.chained())[0] == 0
    text = commands.refused("p.py:total", "--in", "epochs:b", "--out", "a.arrow", "--epoch-size", "10", "--state", "a")
    assert "epochs:b: a circle: the run in " in text and "/b reads this one (" in text
    assert commands("p.py:total", "--in", "epochs:b", "--out", "c.arrow", "--epoch-size", "10", "--state", "c")[0] == 0
    text = commands.refused("p.py:total", "--in", "epochs:c", "--out", "a.arrow", "--epoch-size", "10", "--state", "a")
    assert "a circle: the run in " in text


def test_event_time(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(name="tens"))
    assert "and such a pipeline reads files: an epoch that is made again must find the border" in text


def test_rows_of_a_pipeline_by_event_time_can_be_read(commands: Commands) -> None:
    commands.upstream(name="tens")
    code, text = commands(*commands.chained())
    assert code == 0, text


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--order", "out"], "--order does not go with --in epochs:a: rows of another run are read as they come"),
        (["--keep-columns", "all"], "--keep-columns does not go with --in epochs:a"),
        (["--bad", "bad.csv"], "--bad does not go with --in epochs:a"),
        (["--record"], "--record does not go with --in epochs:a: an audit takes it that an epoch"),
    ],
)
def test_what_does_not_go_with_it(commands: Commands, more: list[str], why: str) -> None:
    commands.upstream()
    assert why in commands.refused(*commands.chained("epochs:a", *more))


def test_without_epochs_and_as_an_output(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused("p.py:total", "--in", "epochs:a", "--out", "b.csv")
    assert "--in epochs:a: the rows of another run are read by a run with epochs" in text
    more = ["--epoch-size", "5", "--state", "b"]
    text = commands.refused("p.py:total", "--in", "x.jsonl", "--out", "epochs:a", *more)
    assert "other runs read the rows of this one from its own state folder" in text
    text = commands.refused("p.py:total", "--in", "x.jsonl", "--in", "epochs:a", "--out", "b.csv", *more)
    assert "the rows of a run are an input of their own" in text


def test_an_upstream_that_was_started_anew(commands: Commands) -> None:
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    shutil.rmtree(commands.folder / "a")
    commands.upstream()
    assert "is another run than the one that was read before (it was started anew)" in commands.refused(
        *commands.chained()
    )


def test_committed_rows_that_were_made_again(commands: Commands) -> None:
    """Committed rows of the upstream are lost, and made again with --from-start: what is committed here depends on the
    old ones."""
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    kept = sorted((commands.folder / "a" / "committed" / "out").glob("*.part"))
    kept[-1].write_bytes(kept[-1].read_bytes()[:-3])
    commands.upstream("a.arrow", "--from-start")
    text = commands.refused(*commands.chained())
    assert "rows that this run has committed on were taken back" in text
    assert "--from-start" in text


def test_an_earlier_version(commands: Commands) -> None:
    commands.upstream()
    (commands.folder / "a" / "outputs.json").unlink()
    text = commands.refused(*commands.chained())
    assert "give its own command once more, then this one" in text
    commands.upstream()
    assert commands(*commands.chained())[0] == 0


def test_damaged_rows(commands: Commands) -> None:
    commands.upstream()
    for path in (commands.folder / "a" / "committed" / "out").glob("*.part"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert "its seal is wrong" in commands.refused(*commands.chained())


def test_another_upstream_is_another_run(commands: Commands) -> None:
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    shutil.copytree(commands.folder / "a", commands.folder / "c")
    assert "--in" in commands.refused(*commands.chained("epochs:c"))
    assert commands(*commands.chained("committed:a#out"))[0] == 0  # the same rows, waited for


def test_an_upstream_that_is_an_older_copy_and_went_on_with_other_rows_is_refused(commands: Commands) -> None:
    """Also where all rows were committed when they were read, and as many are there again."""
    rows = commands.folder / "x.jsonl"
    rows.write_text("1\n2\n")
    commands.upstream()
    shutil.copytree(commands.folder / "a", commands.folder / "kept")
    rows.write_text("1\n2\n3\n4\n5\n")
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    before = (commands.folder / "b.csv").read_text()
    shutil.rmtree(commands.folder / "a")
    shutil.copytree(commands.folder / "kept", commands.folder / "a")
    rows.write_text("1\n2\n30\n40\n50\n60\n")
    commands.upstream()
    text = commands.refused(*commands.chained())
    assert "rows that this run has committed on were taken back (they are not what they were)" in text
    assert (commands.folder / "b.csv").read_text() == before


@pytest.mark.parametrize("which", ["first", "last", "all"])
@pytest.mark.parametrize("address", ["epochs", "committed"])
def test_committed_rows_of_an_upstream_that_has_ended_are_gone(commands: Commands, which: str, address: str) -> None:
    """A reader took fewer, in silence."""
    assert commands("p.py:total", "--in", "x.jsonl", "--epoch-size", "10", "--state", "a", "--out", "a.csv")[0] == 0
    parts = sorted((commands.folder / "a" / "committed" / "out").iterdir())
    for part in {"first": parts[:1], "last": parts[-1:], "all": parts}[which]:
        part.unlink()
    text = commands.refused(
        "p.py:total", "--in", f"{address}:a", "--epoch-size", "10", "--state", "b", "--out", "b.csv"
    )  # fmt: skip
    assert "the run there has ended, and not all of its committed rows are in" in text
    assert not (commands.folder / "b.csv").exists()


# The checksum by which rows are known again: equal for equal rows, whatever lies below what is null.


def digest(*arrays: Any) -> str:
    found = Digest()
    for array in arrays:
        found.add(pa.RecordBatch.from_arrays([array], ["x"]))
    return found.text()


def record(numbers: list[int | None], texts: list[str | None], null: list[bool]) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(numbers), pa.array(texts)], names=["n", "t"], mask=pa.array(null))


NULL_RECORD = record([1, None, 3], ["a", None, "c"], [False, True, False])
NULL_LIST = pa.array([[1, 2], None, [3]])
EQUAL = {
    "values below a null record": (NULL_RECORD, record([1, 2, 3], ["a", "b", "c"], [False, True, False])),
    "values below a null list": (
        NULL_LIST,
        pa.ListArray.from_arrays([0, 2, 4, 5], pa.array([1, 2, 8, 9, 3]), mask=pa.array([False, True, False])),
    ),
    "a record in a list": (
        pa.array([[{"n": 1}, None], []], pa.list_(pa.struct([("n", pa.int64())]))),
        pa.ListArray.from_arrays(
            [0, 2, 2],
            pa.StructArray.from_arrays([pa.array([1, 7])], names=["n"], mask=pa.array([False, True])),
        ),
    ),
    "an offset": (pa.array([1, None, 3]), pa.array([9, 1, None, 3, 9]).slice(1, 3)),
}
DIFFERENT = {
    "a record of nulls is no null": (NULL_RECORD, record([1, None, 3], ["a", None, "c"], [False, False, False])),
    "an empty list is no null": (NULL_LIST, pa.array([[1, 2], [], [3]])),
    "where a list ends": (pa.array([[1], [2, 3]]), pa.array([[1, 2], [3]])),
    "the order in a list": (pa.array([[1], [2, 3]]), pa.array([[1], [3, 2]])),
    "a null and a nought": (pa.array([1, None]), pa.array([1, 0])),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_rows_have_equal_checksums(name: str) -> None:
    one, other = EQUAL[name]
    assert one.equals(other)
    assert digest(one) == digest(other)
    assert digest(other.slice(0, 1), other.slice(1)) == digest(one)


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_rows_have_other_checksums(name: str) -> None:
    one, other = DIFFERENT[name]
    assert digest(one) != digest(other)


def test_a_bare_column_has_the_checksum_that_saved_states_have() -> None:
    assert digest(pa.array([1, None, 3])) == "1295b809f4ef56acea11dc185f232634"
