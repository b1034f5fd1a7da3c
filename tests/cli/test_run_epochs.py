"""``pellucid run --epoch-size``: what is said, what is refused, and how a run is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid import sinks
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs.store import _alive

PIPELINES = """\
from pellucid import Stream, merge, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def inverse(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 1000 // v, id="inverse")


@pipeline
def both(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return merge(x, y)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PIPELINES)
    (tmp_path / "in.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(1, 501)))
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["run", *args])


TOTAL = ("p.py:total", "--in", "in.csv", "--out", "out.csv", "--epoch-size", "100", "--state", "state")


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return result.output.strip()


def test_a_report(folder: Path) -> None:
    result = run(*TOTAL, "--json", "--record")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {
        k: document[k]
        for k in ("pellucid", "verb", "pipeline", "pushes", "events_out", "epochs", "resumed_from", "recoveries")
    } == {
        "pellucid": 1,
        "verb": "run",
        "pipeline": "total",
        "pushes": 500,
        "events_out": {"out": 500},
        "epochs": 5,
        "resumed_from": None,
        "recoveries": 0,
    }
    assert Path(document["trace"]).is_file()
    again = run(*TOTAL)
    assert "going on after epoch 5" in again.stderr
    assert "in all 500 pushes in, 500 rows out, 5 epochs; now, after epoch 5: 0 pushes in, " in again.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--epoch-size", "10"], "--epoch-size needs a folder for the snapshots: give --state FOLDER"),
        (["--state", "s"], "--state is for a run with epochs: give --epoch-size N, or --every SECONDS"),
        (["--epoch-size", "10", "--state", "s", "--on", "spark"], "--epoch-size goes with the local engine"),
        (["--epoch-size", "10", "--state", "s", "--wait", "3"], "--wait goes with --on spark"),
        (
            ["--epoch-size", "10", "--state", "s", "--workers", "2"],
            "--workers 2: several workers share the work by a key: give --key COLUMN",
        ),
        (
            ["--epoch-size", "10", "--state", "s", "--cut", "sun"],
            "cut='sun': total has no such step; did you mean 'sum'?",
        ),
        (["--every", "nan", "--state", "s"], "--every nan: expected a number of seconds"),
        (
            ["--epoch-size", "10", "--state", "s", "--cut", "x"],
            "cut='x': is a source of total, which is a task of its own already",
        ),
    ],
)
def test_options_that_do_not_go_together(folder: Path, args: list[str], message: str) -> None:
    assert message in refused(run("p.py:total", "--in", "in.csv", "--out", "out.csv", *args))
    assert not (folder / "out.csv").exists() and not (folder / "s").exists()


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (
            ["--in", "-", "--out", "o.csv"],
            "--in -: a pipe cannot be read again after a crash: put its events in a file first",
        ),
        (
            ["--in", "in.csv", "--out", "-"],
            "--out out=-: what is written to a pipe cannot be taken back: with epochs give a file or a table",
        ),
        (["--in", "in.csv", "--out", "kafka://h/t"], "--out kafka://h/t: goes with Spark"),
        (["--in", "in.csv", "--out", "sqlite:x.db"], "--out sqlite:x.db: which table? Expected sqlite:FILE#TABLE"),
        (["--in", "in.csv", "--out", "in.csv"], "in.csv: is the input and the output"),
        (["--in", "in.csv", "--out", "no/o.csv"], "no/o.csv: cannot be written: there is no folder 'no'"),
        (["--in", "no.csv", "--out", "o.csv"], "no.csv: no such file"),
    ],
)
def test_places(folder: Path, places: list[str], message: str) -> None:
    assert message in refused(run("p.py:total", *places, "--epoch-size", "10", "--state", "s"))


def test_a_folder_that_cannot_be_written_in_is_told_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine").mkdir()
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, how: not (str(path).endswith("mine") and how & os.W_OK) and allowed(path, how)
    )  # root may do all
    said = refused(run("p.py:total", "--in", "in.csv", "--out", "mine/o.csv", "--epoch-size", "10", "--state", "s"))
    assert "mine/o.csv: cannot be written: its folder is not yours to write in" in said and not (folder / "s").exists()


def test_a_state_folder_of_another_pipeline(folder: Path) -> None:
    assert run(*TOTAL).exit_code == 0
    before = (folder / "out.csv").read_bytes()
    (folder / "p.py").write_text(PIPELINES.replace("t + v", "t + 2 * v").replace('"sum")', '"sum").trim(1, id="cut")'))
    said = refused(run(*TOTAL))
    assert (
        "is of 'total' as it was before a change; steps that differ: new: cut; changed: sum. Go on as before, or start "
        "again" in said
    )
    assert (folder / "out.csv").read_bytes() == before


OPAQUE = """\
import random
from pellucid import Stream, pipeline
K, DICE = 2, random.Random(1)
def helper(v): return v * K
def slow(v): return helper(int(str(v)))
def thrown(v): return v + DICE.randint(1, 6)
@pipeline
def scaled(x: Stream[int]) -> Stream[int]:
    return x.map(slow, to=int, id="slow").cumulate(lambda t, v: t + v, start=0, id="sum")
@pipeline
def windowed(x: Stream[int]) -> Stream[int]:
    return x.window(2, lambda w: w.map(slow, to=int), id="pairs")
@pipeline
def dice(x: Stream[int]) -> Stream[int]:
    return x.map(thrown, to=int, id="throw")
"""


@pytest.mark.parametrize(
    ("name", "step", "old", "new", "said"),
    [
        ("scaled", "slow", "K, DICE = 2", "K, DICE = 3", "p.K has changed"),
        ("scaled", "slow", "return v * K", "return v + K", "p.helper() has changed"),
        ("windowed", "pairs", "return v * K", "return v + K", "p.helper() has changed"),
    ],
)
def test_what_an_opaque_function_calls_and_reads_is_part_of_the_pipeline(
    folder: Path, name: str, step: str, old: str, new: str, said: str
) -> None:
    args = (f"p.py:{name}", *TOTAL[1:])
    (folder / "p.py").write_text(OPAQUE)
    assert run(*args).exit_code == 0
    (folder / "p.py").write_text("# a comment\n" + OPAQUE)
    assert run(*args).exit_code == 0
    (folder / "p.py").write_text(OPAQUE.replace(old, new))
    found = refused(run(*args))
    assert f"steps that differ: changed: {step} ({said}). Go on as before" in found
    assert found.endswith(f"may stay as they are, go on with --allow-changed {step}")
    assert run(*args, "--allow-changed", step).exit_code == 0
    assert run(*args).exit_code == 0  # it is the folder's now


def test_changed_is_for_opaque_steps_and_for_no_other_change(folder: Path) -> None:
    (folder / "p.py").write_text(OPAQUE)
    args = ("p.py:scaled", *TOTAL[1:])
    assert "--allow-changed sum: is no step with a function that cannot be traced: those of scaled are slow" in refused(
        run(*args, "--allow-changed", "sum")
    )
    assert run(*args).exit_code == 0
    (folder / "p.py").write_text(OPAQUE.replace("K, DICE = 2", "K, DICE = 3").replace("t + v", "t - v"))
    assert "steps that differ: changed: sum." in refused(run(*args, "--allow-changed", "slow"))


def test_what_a_state_folder_cannot_compare_is_said_in_one_line(folder: Path) -> None:
    (folder / "p.py").write_text(OPAQUE)
    result = run("p.py:dice", *TOTAL[1:])
    assert result.exit_code == 0
    assert "step 'throw' uses what a state folder cannot compare (p.DICE: a source of random numbers)" in result.stderr
    assert "cannot compare" not in run("p.py:scaled", *TOTAL[1:-1], "other").stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--out", "other.csv"], "--out was out="),
        (["--cut", "sum"], "--cut was empty when it began, and is sum now"),
    ],
)
def test_a_state_folder_of_another_run(folder: Path, args: list[str], message: str) -> None:
    assert run(*TOTAL).exit_code == 0
    changed = [a for a in TOTAL if "--out" not in args or a not in ("--out", "out.csv")]
    assert message in refused(run(*changed, *args))


def test_a_state_folder_that_is_something_else(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "photos.txt").write_text("")
    assert "is not empty, and holds no run of Pellucid: choose a folder of its own" in refused(run(*TOTAL))


def test_a_damaged_state_folder(folder: Path) -> None:
    assert run(*TOTAL).exit_code == 0
    (folder / "state" / "run.json").write_text("{")
    assert "run.json: the state folder is damaged: this file cannot be read" in refused(run(*TOTAL))


def test_another_version(folder: Path) -> None:
    assert run(*TOTAL).exit_code == 0
    path = folder / "state" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": [0, 1]}))
    assert "was written by another version of Pellucid (format [0, 1], this one has" in refused(run(*TOTAL))


def test_no_snapshot_is_left(folder: Path) -> None:
    assert run(*TOTAL).exit_code == 0
    before = (folder / "out.csv").read_bytes()
    for path in (folder / "state" / "snapshots" / "worker").glob("*.snap"):
        path.write_bytes(path.read_bytes()[:40])
    said = refused(run(*TOTAL))
    assert (
        "epoch 5 was complete, but its snapshot of worker is missing or damaged, and no earlier epoch is whole ("
        in said
    )
    assert re.search(r"snapshots/worker/[0-9-]*000000000005.snap: is no whole snapshot", said)
    assert not list((folder / "state").rglob("*.damaged")), "nothing is changed"
    assert run(*TOTAL, "--from-start").exit_code == 0
    assert (folder / "out.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("\n7\n", "\n8\n"),
            "in.csv: has changed since the last run: what was read of it can not be read again",
        ),
        (lambda text: text[:100], "in.csv: has changed since the last run"),
        (lambda text: None, "in.csv: no such file"),
    ],
)
def test_a_source_that_changed(folder: Path, change: object, message: str) -> None:
    assert run(*TOTAL).exit_code == 0
    before = (folder / "out.csv").read_bytes()
    text = change((folder / "in.csv").read_text())  # type: ignore[operator]
    (folder / "in.csv").unlink()
    if text is not None:
        (folder / "in.csv").write_text(text)
    assert message in refused(run(*TOTAL))
    assert (folder / "out.csv").read_bytes() == before


def test_a_step_that_fails_is_told_once_and_the_run_can_go_on(folder: Path) -> None:
    (folder / "in.csv").write_text("x\n" + "".join(f"{i}\n" for i in (*range(1, 250), 0, *range(250, 300))))
    args = ("p.py:inverse", "--in", "in.csv", "--out", "out.csv", "--epoch-size", "100", "--state", "state")
    said = refused(run(*args))
    assert (
        "step 'inverse'" in said
        and "failed at push 249 on the event 0: ZeroDivisionError" in said
        and "in.csv: row 250" in said
    )
    assert said.count("ZeroDivisionError") == 1
    assert "failed at push 249" in refused(run(*args))


def test_a_row_that_cannot_be_read(folder: Path) -> None:
    (folder / "in.csv").write_text("x\n" + "1\n" * 300 + "one\n" + "1\n" * 30)
    assert "in.csv: row 301 (line 302)" in refused(run(*TOTAL))


COMMAND = [sys.executable, "-m", "pellucid", "run"]


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_stopped_by_a_signal(folder: Path, number: int, code: int, word: str) -> None:
    env = {**os.environ, "PELLUCID_FAULTS": "source:border=hang@3"}
    process = subprocess.Popen([*COMMAND, *TOTAL, "--record"], env=env, stderr=subprocess.PIPE, text=True)
    tasks = folder / "state" / "tasks.json"
    while not tasks.exists() or not list((folder / "state").glob("committed/out/*-0000000002-*")):
        assert process.poll() is None
        time.sleep(0.02)
    pids = json.loads(tasks.read_text())["tasks"].values()
    second = run(*TOTAL, "--record")
    assert f"another run (process {process.pid}) is using this folder" in refused(second)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == code
    assert f"pellucid: {word}: the epoch that was open is dropped; the same command goes on" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not (folder / "out.csv").exists() and (folder / "state/trace/trace.parquet").exists()
    assert run(*TOTAL, "--record").exit_code == 0
    assert (folder / "out.csv").read_text().split()[-1] == str(sum(range(1, 501)))


def test_right_after_a_kill_the_tasks_are_gone(folder: Path) -> None:
    env = {**os.environ, "PELLUCID_FAULTS": "source:border=hang@3"}
    process = subprocess.Popen([*COMMAND, *TOTAL], env=env, stderr=subprocess.DEVNULL)
    tasks = folder / "state" / "tasks.json"
    while not tasks.exists():
        assert process.poll() is None
        time.sleep(0.02)
    pids = list(json.loads(tasks.read_text())["tasks"].values())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert run(*TOTAL).exit_code == 0
    assert not any(_alive(pid) for pid in pids)
    assert (folder / "out.csv").read_text().split()[-1] == str(sum(range(1, 501)))


def test_rows_to_several_members_are_counted_once(folder: Path) -> None:
    args = ("p.py:total", "--in", "in.csv", "--epoch-size", "100", "--state", "state")
    alone = run(*args[:-1], "alone", "--out", "one.csv")
    both = run(*args, "--out", "a.csv", "--out", "sqlite:b.db#t")
    assert alone.exit_code == both.exit_code == 0, both.stderr
    counts = [one.stderr.strip().splitlines()[-1].split(", ")[:2] for one in (alone, both)]
    assert counts[0] == counts[1]


def test_folders_and_tables_together(folder: Path) -> None:
    outs = ["--out", "archive/", "--out", "delta:lake", "--out", "sqlite:shop.db#sums"]
    asked = ["p.py:total", "--in", "in.csv", *outs, "--epoch-size", "100", "--state", "state"]
    pytest.importorskip("deltalake")
    command = [
        sys.executable,
        "-m",
        "pellucid.internal.cli.main",
        "run",
        *asked,
    ]  # deltalake outlives no fork of this process
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    sums = [i * (i + 1) // 2 for i in range(1, 501)]
    members = {
        "out-1": sinks.parquet("archive"), "out-2": sinks.delta("lake"), "out-3": sinks.sqlite("shop.db", "sums")
    }  # fmt: skip
    tables = sinks.read_together(members, log="state")
    for table in tables.values():  # a Delta table has no order
        assert sorted(table["out"].to_pylist()) == sums
    slashless = [part.rstrip("/") if part == "archive/" else part for part in command]
    again = subprocess.run(slashless, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "0 pushes in" in again.stderr
    doubt = subprocess.run([sys.executable, "-m", "pellucid", "net", "doubt", "state"], capture_output=True, text=True)
    assert doubt.returncode == 0, doubt.stdout
    assert len(re.findall(r"out-\d +has it", doubt.stdout)) == 3


def test_two_folders_are_a_group(folder: Path) -> None:
    (folder / "two.py").write_text(
        "from pellucid import Stream, pipeline\n\n\n@pipeline\ndef two(x: Stream[int]) -> dict[str, Stream[int]]:\n"
        '    return {"odd": x.filter(lambda v: v % 2 == 1), "even": x.filter(lambda v: v % 2 == 0)}\n'
    )
    outs = ("--out", "odd=odd/", "--out", "even=even/")
    result = run("two.py:two", "--in", "in.csv", *outs, "--epoch-size", "100", "--state", "state")
    assert result.exit_code == 0, result.output
    tables = sinks.read_together({name: sinks.parquet(name) for name in ("odd", "even")}, log="state")
    assert {name: table.num_rows for name, table in tables.items()} == {"odd": 250, "even": 250}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--out", "new/", "--out-format", "csv"), "--out-format csv: no output is a file"),
        (
            ("--out", "there"),
            "there: is a folder: expected the name of a file to write, such as rows.parquet, or there/ ",
        ),
        (("--out", "in.csv/"), "in.csv/_manifest: Not a directory"),
        (("--out", "kafka://host:1/topic"), "a folder of Parquet (FOLDER/), delta:FOLDER, sqlite:FILE#TABLE"),
    ],
)
def test_folders_that_are_none(folder: Path, more: tuple[str, ...], why: str) -> None:
    (folder / "there").mkdir()
    assert why in refused(run("p.py:total", "--in", "in.csv", *more, "--epoch-size", "100", "--state", "state"))
    assert not (folder / "new").exists()
