"""Real kills: each scenario is another kind of run, killed at another kind of moment, and its output is that of the run
without a kill.  Also full disks, torn and damaged snapshots, a task that hangs or is stopped, a planted bug.

`python -m tests.crash.epochs` kills at every point and at random moments; ``make test-long`` runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import iterate, pipeline
from pellucid.failures.audit import audit
from pellucid.internal.base.faults import RUNTIME as POINTS
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.recording import trace_table
from pellucid.internal.load import load_pipeline
from tests.engine.epochs import rich_rows
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.rich_rows import Told, many, tale
from tests.engine.epochs.test_inputs import ARGS, args, files, mixed, summed, write_ordered
from tests.engine.epochs.test_rich import SOURCES
from tests.engine.epochs.test_times import literally, paid
from tests.examples.oracles import EXAMPLES, components, example, random_links

EPOCHS = ("--epoch-size", "100", "--state", "state")
DIAMOND = ("p.py:diamond", "--in", "x.jsonl", "--out", "out.jsonl", *EPOCHS, "--cut", "thirds", "--cut", "half")
PLAIN = ("p.py:diamond", "--in", "x.jsonl")
PROGRAMS = """\
from typing import NamedTuple

from pellucid import Stream, pipeline


class Paid(NamedTuple):
    when: int
    user: str
    amount: int


def total(x):
    return x.cumulate(lambda t, p: t + p.amount, start=0)


@pipeline
def windows(x: Stream[Paid]):
    w = x.at("when", lateness=4, id="when").key_by(lambda p: p.user, id="user").tumbling(10, total, id="w")
    long = w.map(lambda w: w.value, id="value").session(25, lambda s: s.cumulate(lambda t, v: t + v, start=0), id="s")
    return {"out": w, "late": w.late, "long": long}


@pipeline
def visits(x: Stream[int]) -> Stream[tuple[int, int]]:
    mine = x.key_by(lambda v: v % 41, id="users").forget(after=20, id="gone")
    return mine.cumulate(lambda s, v: (v % 41, s[1] + 1), start=(0, 0), id="count")


@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")
"""

# ---------------------------------------------------------------- the runs, and what must come out of them


class Work(NamedTuple):
    """What ``pellucid run`` is called with, and what holds when it is done."""

    command: tuple[str, ...]
    check: Callable[[list[subprocess.CompletedProcess[str]]], None]


def diamond(runs: Runs) -> Work:
    """Several tasks in a row and beside each other; the recorded trace passes the audit."""
    expected = runs.plain(*PLAIN)

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        assert runs.read("out.jsonl") == expected
        table = trace_table(runs.folder / "state").to_pylist()
        assert {"F-FAIL", "F-RECOVER"} <= {row["rule"] for row in table}
        tasks = {row["task"] for row in table} - {"coordinator"}
        for row in table:
            assert row["rule"] != "COMMIT" or {m["stream"] for m in row["consumed"]} == {f"ack:{t}" for t in tasks}
        found = audit(runs.folder / "state")
        assert found.holds, found

    return Work((*DIAMOND, "--record"), check)


def forgotten_keys(runs: Runs) -> Work:
    """Sessions begin where they would without a kill, and a key is counted once however often its events are read."""
    (runs.folder / "z.jsonl").write_text("".join(f"{(i * i * 7919) % 1009 % 97}\n" for i in range(1500)))
    expected = runs.plain("programs.py:visits", "--in", "z.jsonl")
    engine = load_pipeline(f"{runs.folder}/programs.py:visits").engine()
    engine.push([int(line) for line in runs.read("z.jsonl").split()])
    assert engine.forgotten["gone"] > 100

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        assert runs.read("out.jsonl") == expected
        assert runs.report(done[-1])["forgotten"] == engine.forgotten

    return Work(("programs.py:visits", "--in", "z.jsonl", "--out", "out.jsonl", *EPOCHS, "--json"), check)


def event_time(runs: Runs) -> Work:
    """Windows, late rows, and sessions of windows; one output is a table."""
    rows = paid(7, 600)
    lines = ["when,user,amount", *(f"{p.when},{p.user},{p.amount}" for p in rows)]
    (runs.folder / "paid.csv").write_text("\n".join(lines) + "\n")
    graph = load_pipeline(f"{runs.folder}/programs.py:windows").graph
    found, literal = literally(graph, {"x": [graph["x"].type.unflatten(list(row)) for row in rows]}, 60)
    outs = ("--out", "out=sqlite:t.db#sums", "--out", "late=late.csv", "--out", "long=long.jsonl")

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        with contextlib.closing(sqlite3.connect(runs.folder / "t.db")) as connection:
            assert connection.execute("select start, end, value from sums").fetchall() == list(map(tuple, found["out"]))
        assert len(runs.read("late.csv").splitlines()) == len(found["late"]) + 1 > 1
        long = [json.loads(line) for line in runs.read("long.jsonl").splitlines()]
        assert long == [w._asdict() for w in found["long"]]
        report = runs.report(done[-1])
        assert report["late"] == literal.late
        assert report["events_out"] == {name: len(events) for name, events in found.items()}

    epochs = ("--epoch-size", "60", "--state", "state", "--json")
    return Work(("programs.py:windows", "--in", "paid.csv", *outs, *epochs), check)


def loop(runs: Runs) -> Work:
    """A loop is over before the border of its epoch, and what its body remembers is in the snapshot."""
    shutil.copy(EXAMPLES / "loop_components.py", runs.folder)
    links = random_links(random.Random(4), 30, 60)
    lines = ["day,a,b", *(",".join(map(str, row)) for row in links)]
    (runs.folder / "links.csv").write_text("\n".join(lines) + "\n")
    program = example("loop_components")
    wanted = program.components([program.Link(*row) for row in links])
    assert {c.node: c.name for c in wanted} == components([(a, b) for _, a, b in links])

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        assert runs.read("out.csv").decode().split() == ["node,name", *(f"{c.node},{c.name}" for c in wanted)]

    command = ("loop_components.py:components", "--in", "links.csv", "--out", "out.csv", "--epoch-size", "7")
    return Work((*command, "--state", "state"), check)


def dead_letters(runs: Runs) -> Work:
    """Rows that cannot be read, and rows on which a step fails, go to an output of their own."""
    rng = random.Random(5)

    def row(i: int) -> str:
        x = rng.choice(["oops", "", "1,2,3,4", "cut"]) if rng.random() < 0.15 else str(rng.randint(-2, 2))
        return f"k{i}" if x == "cut" else f"k{rng.randint(0, 3)},{x},n{i}"

    for name in ("a.csv", "b.csv"):
        (runs.folder / name).write_text("\n".join(["k,x,n", "k0,1,first", *map(row, range(250)), ""]))
    command = ("programs.py:share", "--in", "a.csv", "--in", "b.csv", "--key", "k", "--keep-columns", "n")
    plain = runs.plain(*command, "--bad", "plain_bad.csv", out="plain.csv")
    letters = runs.read("plain_bad.csv")
    assert letters.count(b"\n") > 60 and b',"share",' in letters and b'"b.csv",' in letters

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        assert (runs.read("out.csv"), runs.read("bad.csv")) == (plain, letters)

    epochs = ("--epoch-size", "40", "--state", "state", "--workers", "2")
    return Work((*command, "--out", "out.csv", "--bad", "bad.csv", *epochs), check)


def sorted_rows(runs: Runs) -> Work:
    """Rows that are put in order before the first is read; with keys, two workers, and passthrough columns."""
    rows = mixed()
    source = write_ordered(runs.folder, "parquet", rows)

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        found = pq.read_table(runs.folder / "out.parquet").to_pylist()
        assert [tuple(row.values()) for row in found] == summed(rows)

    command = ("p.py:total", "--in", source, *ARGS, "--workers", "2", "--chunk", "13", "--out", "out.parquet")
    return Work((*command, "--epoch-size", "31", "--state", "state"), check)


def several_files(runs: Runs) -> Work:
    """A folder of partitions as one input, with passthrough columns."""
    files(runs.folder, "hive")
    command = (*args("hive"), "--keep-columns", "x,part")
    expected = runs.plain(*command)

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        assert runs.read("out.jsonl") == expected

    epochs = ("--epoch-size", "31", "--chunk", "13", "--workers", "2", "--state", "state")
    return Work((*command, "--out", "out.jsonl", *epochs), check)


def rich_states(runs: Runs) -> Work:
    """States of keys that hold times, decimals and values that may be missing."""
    shutil.copy(rich_rows.__file__, runs.folder / "rich.py")
    SOURCES["csv"](runs.folder / "in.csv", many(200))

    def check(done: list[subprocess.CompletedProcess[str]]) -> None:
        rows = pq.read_table(runs.folder / "out.parquet").to_pylist()
        assert [Told(*(row[name] for name in Told._fields)) for row in rows] == tale(many(200), keyed=True)

    command = ("rich.py:told", "--in", "in.csv", "--key", "s", "--workers", "2", "--out", "out.parquet")
    return Work((*command, "--epoch-size", "23", "--state", "state"), check)


# ---------------------------------------------------------------- kills

SCENARIOS: dict[str, tuple[Callable[[Runs], Work], str]] = {
    "a source before its border": (diamond, "source:border=kill@2"),
    "a snapshot that is durable, and not reported": (diamond, "snapshot:placed[worker.both]=tree@4"),
    "twice, the second time before a commit": (
        diamond,
        "snapshot:before-write[worker.half]=kill@2;sink:before-commit=tree@3/1",
    ),
    "a sink after its commit": (diamond, "sink:after-commit=kill@2"),
    "the coordinator when an epoch is complete": (diamond, "coordinator:complete=kill@2"),
    "while all go back": (forgotten_keys, "worker:border=tree@4;recover:load=kill@1/1"),
    "the whole run at a border by event time": (event_time, "worker:border=tree@2;sink:after-commit=kill@2/1"),
    "a loop": (loop, "snapshot:after-ack=tree@2"),
    "the sink of dead letters": (dead_letters, "sink:after-commit[sink.bad]=tree@2;source:border=kill@4"),
    "a sorted input": (sorted_rows, "source:read=kill@20;coordinator:committed=tree@9"),
    "several files": (several_files, "source:read=kill@20"),
    "states of keys in two workers": (rich_states, "sink:before-commit=tree@4;worker:event=kill@3/1"),
}


def killed(runs: Runs, until_done: Any, work: Callable[[Runs], Work], faults: str) -> None:
    (runs.folder / "programs.py").write_text(PROGRAMS)
    command, check = work(runs)
    done = until_done(runs, *command, faults=faults)
    assert len(done) > 1 or "going back" in done[0].stderr or "coordinator:finished" in faults, "nothing was killed"
    check(done)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_does_not_show(runs: Runs, until_done: Any, name: str) -> None:
    killed(runs, until_done, *SCENARIOS[name])


# Points that only come once, or only after a crash.
ONCE = (
    *("coordinator:start", "coordinator:fork", "coordinator:forked", "coordinator:finish", "coordinator:finished"),
    *("sink:finish", "sink:finished", "sink:merge", "sink:merged", "coordinator:recorded"),
)
AFTER = ("recover:load", "recover:loaded", "source:replay")


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(runs: Runs, until_done: Any, point: str, action: str) -> None:
    faults = f"{point}={action}@{1 if point in ONCE else 2}"
    if point == "coordinator:recover":
        faults = f"{point}={action};worker:event=kill@4"
    elif point in AFTER:
        faults = f"{point}={action}@1/1;worker:event=kill@4"
    killed(runs, until_done, diamond, faults)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_kills_from_outside(runs: Runs, until_done: Callable[..., Any], seed: int) -> None:
    """kill -9 of any process at any time, 20 times, without knowledge of points."""
    rng = random.Random(seed)
    (runs.folder / "x.jsonl").write_text("".join(f"{(i * 7919) % 1009}\n" for i in range(400_000)))
    command, check = diamond(runs)
    command = tuple(a if a != "100" else "3000" for a in command)
    kills = 0
    while kills < 20:
        process = runs.start(*command, "--retries", "50")
        while process.poll() is None and kills < 20:
            pids = wait_for_tasks(runs)
            time.sleep(rng.uniform(0.05, 0.6))
            name = rng.choice([*pids, "coordinator"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[name], signal.SIGKILL)
                kills += 1
            if name == "coordinator":
                break
        _, said = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), said
        if process.returncode == 0:
            break
    check(until_done(runs, *command))


# The points of tests count hits, so with them nothing is done in bunches.  Here it is, and the kills hit something else
# each time.
BUNCHED = """
import sys
from pellucid.internal.base import faults
faults.armed = lambda: False
from pellucid.internal.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("faults", "out"),
    [
        ("snapshot:before-ack[source.x]=tree@3;sink:staged=kill@40/1;coordinator:complete=kill@2/2", "out.jsonl"),
        pytest.param(
            "snapshot:torn[sink.out]=torn@4;coordinator:complete=kill@5;worker:border=kill@99/1",
            "out.parquet",
            marks=pytest.mark.long,
        ),
    ],
)
def test_killed_among_bunches_of_short_epochs(runs: Runs, faults: str, out: str) -> None:
    """Short epochs become durable together: one staged file for several."""
    (runs.folder / "x.jsonl").write_text("".join(f"{(i * 7919) % 1009}\n" for i in range(12_000)))
    runs.plain(*PLAIN, out="plain" + out[3:])
    command = ["run", *(a if a != "out.jsonl" else out for a in DIAMOND), "--record"]
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", BUNCHED, *command], env=runs.environment(faults), cwd=runs.folder,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
    assert done.returncode == 0, done.stderr
    if out.endswith("jsonl"):
        assert runs.read(out) == runs.read("plain.jsonl")
    else:
        assert pq.read_table(runs.folder / out).equals(pq.read_table(runs.folder / "plain.parquet"))
    found = audit(runs.folder / "state")
    assert found.holds, found


# ---------------------------------------------------------------- tasks that do not answer


def test_a_task_that_hangs_is_killed(runs: Runs) -> None:
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, "--patience", "3", faults="worker:event[worker.half]=hang@4")
    assert done.returncode == 0
    busy = re.search(r"worker\.half hangs \(has been busy for (\d+\.\d) s\)", done.stderr)
    assert busy is not None and float(busy[1]) >= 3, done.stderr
    assert runs.read("out.jsonl") == expected


def test_a_task_that_is_stopped_is_killed(runs: Runs) -> None:
    """SIGSTOP: it does not even send heartbeats any more."""
    (runs.folder / "x.jsonl").write_text("1\n" * 600_000)
    expected = runs.plain(*PLAIN)
    process = runs.start(*(a if a != "100" else "5000" for a in DIAMOND), "--patience", "5")
    pids = wait_for_tasks(runs)
    while not list((runs.folder / "state").glob("committed/out/*")) and process.poll() is None:
        time.sleep(0.01)  # all are started, then
    assert process.poll() is None, "it was over before it could be stopped"
    os.kill(pids["worker.both"], signal.SIGSTOP)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0
    silent = re.search(r"worker\.both hangs \(has not been heard of for (\d+\.\d) s\)", said)
    assert silent is not None and float(silent[1]) >= 5, said
    assert runs.read("out.jsonl") == expected


def wait_for_tasks(runs: Runs) -> dict[str, int]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            found = json.loads((runs.folder / "state" / "tasks.json").read_text())
            return {"coordinator": found["coordinator"], **found["tasks"]}
        except (OSError, ValueError):
            time.sleep(0.02)
    raise AssertionError("no tasks")


# ---------------------------------------------------------------- full disks, and snapshots that are damaged


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("snapshot:before-write[worker.both]=enospc@2", "worker.both for epoch"),
        ("sink:write=enospc@3", "sink.out for epoch"),
    ],
)
def test_a_full_disk_is_waited_for(runs: Runs, faults: str, message: str) -> None:
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, faults=faults)
    assert done.returncode == 0
    assert f"the snapshot of {message}" in done.stderr
    assert "could not be written (No space left on device)" in done.stderr
    assert runs.read("out.jsonl") == expected


def test_a_disk_that_stays_full_stops_the_run(runs: Runs) -> None:
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, "--patience", "1.5", faults="snapshot:before-write[worker.half]=enospc@*/*")
    assert done.returncode == 2
    assert "for 1.5 s no snapshot could be written: is the disk of" in done.stderr
    assert "Stopped after epoch 0; nothing is lost" in done.stderr
    assert runs(*DIAMOND).returncode == 0
    assert runs.read("out.jsonl") == expected


def test_a_torn_snapshot_falls_back(runs: Runs) -> None:
    """As by a power failure; `test_damage.py` has the other ways."""
    expected = runs.plain(*PLAIN)
    faults = "coordinator:finish=kill;snapshot:torn[worker.both]=torn@10"
    assert runs(*DIAMOND, "--record", faults=faults).returncode == -signal.SIGKILL
    again = runs(*DIAMOND, "--record")
    assert again.returncode == 0, again.stderr
    assert "worker.both/000000000010.snap: is no whole snapshot: " in again.stderr
    assert "taking an earlier epoch" in again.stderr and "going on after epoch 9\n" in again.stderr
    assert runs.read("out.jsonl") == expected
    assert "F-LOST" in trace_table(runs.folder / "state")["rule"].to_pylist()


def test_the_planted_bug_duplicates(runs: Runs) -> None:
    """Committing before the snapshot is durable: the crash shows in the output, and the trace has a commit without
    acks."""
    expected = runs.plain(*PLAIN)
    faults = "snapshot:before-write[worker.half]=hang@2"
    done = runs(*DIAMOND, "--record", "--patience", "3", faults=faults, module="tests.planted")
    assert done.returncode == 0
    assert len(runs.read("out.jsonl")) > len(expected)
    table = trace_table(runs.folder / "state").to_pylist()
    tasks = {row["task"] for row in table} - {"coordinator"}
    commits = [row for row in table if row["rule"] == "COMMIT"]
    assert any({m["stream"] for m in row["consumed"]} != {f"ack:{t}" for t in tasks} for row in commits)


# ---------------------------------------------------------------- without kills


def test_a_loop_has_the_same_answers_wherever_epochs_end(tmp_path: Path) -> None:
    """Push by push: the answers of one call; also those of sums of a round."""

    def body(x: Any) -> Any:
        total = x.each_round(lambda w: w.cumulate(lambda t, v: t + v, start=0))
        sums = total.cumulate(lambda t, v: t + v, start=0)
        return x.explode(lambda v: [v // 2, v // 3]).filter(lambda v: v > 0), sums

    p = pipeline(lambda x: iterate(x, body), x=int)
    rows = [random.Random(5).randrange(100) for _ in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["x", *map(str, rows)]) + "\n")
    for pushes in (3, 40):
        out = tmp_path / f"out{pushes}.csv"
        run_epochs(p, tmp_path / "in.csv", out, state=tmp_path / f"state{pushes}", pushes=pushes)
        assert [int(v) for v in out.read_text().split()[1:]] == p(rows)


def test_a_late_row_is_exit_code_2(runs: Runs) -> None:
    (runs.folder / "programs.py").write_text(PROGRAMS.replace('"late": w.late, ', ""))
    (runs.folder / "paid.csv").write_text("when,user,amount\n50,a,1\n90,a,1\n1,a,1\n")
    command = ["run", "programs.py:windows", "--in", "paid.csv", "--out", "out=out.csv", "--epoch-size", "2"]
    with contextlib.chdir(runs.folder):
        done = CliRunner().invoke(cli, [*command, "--state", "state"])
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert "step 'w' (tumbling, programs.py:18) failed at push" in done.stderr
    assert " late; allow for so much more" in done.stderr and "paid.csv: row" in done.stderr
    assert not (runs.folder / "out.csv").exists()
