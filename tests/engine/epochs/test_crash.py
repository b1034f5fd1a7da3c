"""Real kills: at every point, of a task and of the whole tree; a full disk, a torn file, a task that hangs; a planted
bug.
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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid import iterate, pipeline
from pellucid.internal.base.faults import RUNTIME as POINTS
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.recording import trace_table
from pellucid.internal.graph.model import Graph
from pellucid.internal.load import load_pipeline
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.test_times import Paid, literally, paid
from tests.examples.oracles import EXAMPLES, components, example, random_links

DIAMOND = (
    "p.py:diamond",
    "--in",
    "x.jsonl",
    "--out",
    "out.jsonl",
    "--pushes",
    "100",
    "--state",
    "state",
    "--cut",
    "thirds",
    "--cut",
    "half",
)
PLAIN = ("p.py:diamond", "--in", "x.jsonl")

# Points that only come once, or only after a crash.
ONCE = (
    "coordinator:start",
    "coordinator:fork",
    "coordinator:forked",
    "coordinator:finish",
    "coordinator:finished",
    "sink:finish",
    "sink:finished",
    "sink:merge",
    "sink:merged",
    "coordinator:recorded",
)
AFTER = ("recover:load", "recover:loaded", "source:replay")
SOME = (
    "source:border",
    "snapshot:after-write",
    "snapshot:placed",
    "sink:before-commit",
    "sink:after-commit",
    "coordinator:complete",
    "recover:load",
)


def schedule(point: str, action: str) -> str:
    if point == "coordinator:recover":
        return f"{point}={action};worker:event=kill@4"
    if point in AFTER:
        return f"{point}={action}@1/1;worker:event=kill@4"
    return f"{point}={action}@{1 if point in ONCE else 2}"


def crash(runs: Runs, until_done: Any, point: str, action: str) -> None:
    expected = runs.plain(*PLAIN)
    done = until_done(runs, *DIAMOND, "--record", faults=schedule(point, action))
    killed = [d for d in done if d.returncode == -signal.SIGKILL]
    assert runs.read("out.jsonl") == expected
    rules = trace_table(runs.folder / "state")["rule"].to_pylist()
    assert "F-FAIL" in rules or point in ("coordinator:finished",), "nobody was killed"
    assert rules.count("F-RECOVER") >= 1
    if action == "tree" or point.startswith("coordinator"):
        assert killed


@pytest.mark.parametrize("point", SOME)
def test_killed_at_a_point(runs: Runs, until_done: Any, point: str) -> None:
    crash(runs, until_done, point, "tree" if point in SOME[::2] else "kill")


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(runs: Runs, until_done: Any, point: str, action: str) -> None:
    crash(runs, until_done, point, action)


def test_a_task_that_hangs_is_killed(runs: Runs) -> None:
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, "--patience", "6", faults="worker:event[worker.half]=hang@4")
    assert done.returncode == 0
    busy = re.search(r"worker\.half hangs \(has been busy for (\d+\.\d) s\)", done.stderr)
    assert busy is not None and float(busy[1]) >= 6, done.stderr
    assert runs.read("out.jsonl") == expected


def test_a_task_that_is_stopped_is_killed(runs: Runs) -> None:
    """SIGSTOP: it does not even beat any more."""
    (runs.folder / "x.jsonl").write_text("1\n" * 600_000)
    expected = runs.plain(*PLAIN)
    args = [a if a != "100" else "5000" for a in DIAMOND]
    process = runs.start(*args, "--patience", "8")
    pids = wait_for_tasks(runs)
    while not list((runs.folder / "state").glob("committed/out/*")) and process.poll() is None:
        time.sleep(0.01)  # all are started, then
    assert process.poll() is None, "it was over before it could be stopped"
    os.kill(pids["worker.both"], signal.SIGSTOP)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0
    silent = re.search(r"worker\.both hangs \(has not been heard of for (\d+\.\d) s\)", said)
    assert silent is not None and float(silent[1]) >= 8, said
    assert runs.read("out.jsonl") == expected


def wait_for_tasks(runs: Runs) -> dict[str, int]:
    import json

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            found = json.loads((runs.folder / "state" / "tasks.json").read_text())
            return {"coordinator": found["coordinator"], **found["tasks"]}
        except (OSError, ValueError):
            time.sleep(0.02)
    raise AssertionError("no tasks")


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
    assert (
        f"the snapshot of {message}" in done.stderr and "could not be written (No space left on device)" in done.stderr
    )
    assert runs.read("out.jsonl") == expected


def test_a_disk_that_stays_full_stops_the_run(runs: Runs) -> None:
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, "--patience", "1.5", faults="snapshot:before-write[worker.half]=enospc@*/*")
    assert done.returncode == 2
    assert (
        "for 1.5 s no snapshot could be written: is the disk of" in done.stderr
        and "Stopped after epoch 0; nothing is lost" in done.stderr
    )
    assert runs(*DIAMOND).returncode == 0
    assert runs.read("out.jsonl") == expected


def test_a_torn_snapshot_is_left_out(runs: Runs) -> None:
    """The last file that the worker writes is cut in half, as after a power failure; then the tree is killed."""
    expected = runs.plain(*PLAIN)
    done = runs(*DIAMOND, "--record", faults="snapshot:torn[worker.both]=torn@10;coordinator:finish=kill")
    assert done.returncode == -signal.SIGKILL
    again = runs(*DIAMOND, "--record")
    assert again.returncode == 0
    assert (
        "worker.both/000000000010.snap: is no whole snapshot: " in again.stderr
        and "taking an earlier epoch" in again.stderr
    )
    assert "going on after epoch 9\n" in again.stderr
    assert runs.read("out.jsonl") == expected


@pytest.mark.parametrize("how", ["cut", "altered", "removed"])
def test_a_damaged_last_snapshot_falls_back(runs: Runs, how: str) -> None:
    expected = runs.plain(*PLAIN)
    assert runs(*DIAMOND, "--record", faults="coordinator:finish=kill").returncode == -signal.SIGKILL
    path = sorted((runs.folder / "state/snapshots/worker.both").glob("*.snap"))[-1]
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "altered":
        path.write_bytes(data[:-300] + bytes(b ^ 255 for b in data[-300:-200]) + data[-200:])
    else:
        path.unlink()
    again = runs(*DIAMOND, "--record")
    assert again.returncode == 0, again.stderr
    assert "worker.both" in again.stderr and (
        "earlier epoch" in again.stderr or "going back to epoch" in again.stderr
    ), again.stderr
    assert runs.read("out.jsonl") == expected
    assert "F-LOST" in trace_table(runs.folder / "state")["rule"].to_pylist()


def test_the_planted_bug_duplicates(runs: Runs) -> None:
    """Committing before the snapshot is durable: the crash shows in the output, and the trace has a commit without
    acks."""
    expected = runs.plain(*PLAIN)
    faults = "snapshot:before-write[worker.half]=hang@2"
    done = runs(*DIAMOND, "--record", "--patience", "6", faults=faults, module="tests.planted")
    assert done.returncode == 0
    assert len(runs.read("out.jsonl")) > len(expected)
    table = trace_table(runs.folder / "state").to_pylist()
    tasks = {row["task"] for row in table} - {"coordinator"}
    commits = [row for row in table if row["rule"] == "COMMIT"]
    assert any({m["stream"] for m in row["consumed"]} != {f"ack:{t}" for t in tasks} for row in commits)


@pytest.mark.parametrize(
    "faults",
    [
        "snapshot:before-write[worker.half]=kill@2;sink:before-commit=tree@3/1",
        "snapshot:placed[worker.both]=tree@4",  # it lasts, and is not on record
    ],
)
def test_without_the_bug_every_commit_has_its_acks(runs: Runs, until_done: Any, faults: str) -> None:
    until_done(runs, *DIAMOND, "--record", faults=faults)
    table = trace_table(runs.folder / "state").to_pylist()
    tasks = {row["task"] for row in table} - {"coordinator"}
    durable = {
        (m["stream"], m["n"], m["digest"]) for row in table if row["rule"] == "SNAPSHOT" for m in row["produced"]
    }
    # Of a task that died before it could say so, the border is on record, with the state; a recovery went there.
    recovered = {row["epoch"] for row in table if row["rule"] == "F-RECOVER"}
    durable |= {(f"ack:{row['task']}", row["epoch"], row["state"]) for row in table if row["epoch"] in recovered}
    for row in table:
        if row["rule"] == "COMMIT":
            assert {m["stream"] for m in row["consumed"]} == {f"ack:{t}" for t in tasks}
            assert {(m["stream"], m["n"], m["digest"]) for m in row["consumed"]} <= durable
        sent = {m["stream"] for m in row["produced"]}
        assert len(sent) == len(row["produced"])
    audited = CliRunner().invoke(cli, ["audit", str(runs.folder / "state")])
    assert audited.exit_code == 0, audited.output


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_random_kills_from_outside(runs: Runs, until_done: Callable[..., Any], seed: int) -> None:
    """kill -9 of any process at any time, 20 times, by somebody who knows nothing of points."""
    rng = random.Random(seed)
    (runs.folder / "x.jsonl").write_text("".join(f"{(i * 7919) % 1009}\n" for i in range(400_000)))
    expected = runs.plain(*PLAIN)
    args = [a if a != "100" else "3000" for a in DIAMOND]
    kills = 0
    while kills < 20:
        process = runs.start(*args, "--record", "--retries", "50")
        while process.poll() is None and kills < 20:
            pids = wait_for_tasks(runs)
            time.sleep(rng.uniform(0.05, 0.6))
            name = rng.choice([*pids, "coordinator"])
            try:
                os.kill(pids[name], signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
            if name == "coordinator":
                break
        _, said = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), said
        if process.returncode == 0:
            break
    until_done(runs, *args, "--record")
    assert runs.read("out.jsonl") == expected


FORGETS = """\
from pellucid import Stream, pipeline


@pipeline
def visits(x: Stream[int]) -> Stream[tuple[int, int]]:
    mine = x.key_by(lambda v: v % 41, id="users").forget(after=20, id="gone")
    return mine.cumulate(lambda s, v: (v % 41, s[1] + 1), start=(0, 0), id="count")
"""


@pytest.mark.parametrize(
    "faults", ["worker:event=kill@3;sink:before-commit=tree@2", "worker:border=tree@4;recover:load=kill@1/1"]
)
def test_keys_that_are_given_up(runs: Runs, until_done: Any, faults: str) -> None:
    """Sessions begin where they would without a kill, and a key is counted once however often its events are read."""
    (runs.folder / "f.py").write_text(FORGETS)
    (runs.folder / "z.jsonl").write_text("".join(f"{(i * i * 7919) % 1009 % 97}\n" for i in range(1500)))
    plain = runs.plain("f.py:visits", "--in", "z.jsonl")
    engine = load_pipeline(f"{runs.folder}/f.py:visits").engine()
    engine.push([int(line) for line in runs.read("z.jsonl").split()])
    assert engine.forgotten["gone"] > 100
    said = ("--in", "z.jsonl", "--out", "out.jsonl", "--pushes", "100", "--state", "state", "--json")
    done = until_done(runs, "f.py:visits", *said, faults=faults)
    assert len(done) > 1 or "going back" in done[0].stderr  # somebody was killed
    assert runs.read("out.jsonl") == plain
    assert runs.report(done[-1])["forgotten"] == engine.forgotten


# Loops with epochs and kills: a loop is over before the border of its epoch, and what its body remembers is in the
# snapshot.

COMPONENTS = example("loop_components")
SAID = (
    "loop_components.py:components",
    "--in",
    "links.csv",
    "--out",
    "out.csv",
    "--pushes",
    "7",
    "--state",
    "state",
    "--json",
)


@pytest.fixture
def network(runs: Runs) -> Runs:
    """A folder with the program and its links."""
    shutil.copy(EXAMPLES / "loop_components.py", runs.folder)
    write(runs.folder, links())
    return runs


def links() -> list[tuple[int, int, int]]:
    return random_links(random.Random(4), 30, 60)


def write(folder: Path, rows: list[tuple[int, int, int]]) -> None:
    (folder / "links.csv").write_text("\n".join(["day,a,b", *(",".join(map(str, row)) for row in rows)]) + "\n")


def check(network: Runs) -> None:
    wanted = COMPONENTS.components([COMPONENTS.Link(*row) for row in links()])
    assert network.read("out.csv").decode().split() == ["node,name", *(f"{c.node},{c.name}" for c in wanted)]
    assert {c.node: c.name for c in wanted} == components([(a, b) for _, a, b in links()])


@pytest.mark.parametrize("point", ["worker:border", "snapshot:after-ack"])
def test_killed_at_a_point_loops(network: Runs, until_done: Any, point: str) -> None:
    done = until_done(network, *SAID, faults=schedule(point, "tree"))
    assert len(done) > 1 or "going back" in done[0].stderr
    check(network)


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point_loops(network: Runs, until_done: Any, point: str, action: str) -> None:
    until_done(network, *SAID, faults=schedule(point, action))
    check(network)


def test_without_times_epochs_change_nothing(tmp_path: Path) -> None:
    """Push by push: the answers of one call, wherever the borders are; also those of sums of a round."""

    def body(x: Any) -> Any:
        total = x.each_round(lambda w: w.cumulate(lambda t, v: t + v, start=0))
        return x.explode(lambda v: [v // 2, v // 3]).filter(lambda v: v > 0), total.cumulate(
            lambda t, v: t + v, start=0
        )

    p = pipeline(lambda x: iterate(x, body), x=int)
    rows = [random.Random(5).randrange(100) for _ in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["x", *map(str, rows)]) + "\n")
    for pushes in (3, 40):
        out = tmp_path / f"out{pushes}.csv"
        run_epochs(p, tmp_path / "in.csv", out, state=tmp_path / f"state{pushes}", pushes=pushes)
        assert [int(v) for v in out.read_text().split()[1:]] == p(rows)


# Event time with real kills: at every point, of a task and of the whole tree, and from outside; on the command line,
# with files and tables.

SHOP = """\
from typing import NamedTuple

from pellucid import Stream, pipeline


class Paid(NamedTuple):
    when: int
    user: str
    amount: int


def total(x):
    return x.cumulate(lambda t, p: t + p.amount, start=0)


@pipeline
def sums(x: Stream[Paid]):
    w = x.at("when", lateness=4, id="when").key_by(lambda p: p.user, id="user").tumbling(10, total, id="w")
    long = w.map(lambda w: w.value, id="value").session(25, lambda s: s.cumulate(lambda t, v: t + v, start=0), id="s")
    return {"out": w, "late": w.late, "long": long}
"""
SUMS = (
    "shop.py:sums",
    "--in",
    "paid.csv",
    "--out",
    "out=out.csv",
    "--out",
    "late=late.csv",
    "--out",
    "long=long.jsonl",
)
EPOCHS = ("--pushes", "60", "--state", "state", "--json")


@pytest.fixture
def shop(runs: Runs) -> Runs:
    """A folder with the pipeline and its rows."""
    (runs.folder / "shop.py").write_text(SHOP)
    write_times_crash(runs.folder, paid(7, 600))
    return runs


def write_times_crash(folder: Path, rows: list[Paid]) -> None:
    lines = ["when,user,amount", *(f"{p.when},{p.user},{p.amount}" for p in rows)]
    (folder / "paid.csv").write_text("\n".join(lines) + "\n")


def check_times_crash(shop: Runs, report: dict[str, Any], rows: list[Paid], pushes: int = 60) -> None:
    """What is written is what the literal engine says."""
    graph, own = loaded(shop, rows)
    found, literal = literally(graph, {"x": own}, pushes)
    out = [",".join(map(str, w)) for w in found["out"]]
    assert shop.read("out.csv").decode().split() == ["start,end,value", *out]
    assert len(shop.read("late.csv").splitlines()) == len(found["late"]) + 1 > 1
    assert [json.loads(line) for line in shop.read("long.jsonl").splitlines()] == [w._asdict() for w in found["long"]]
    assert report["late"] == literal.late
    assert report["events_out"] == {name: len(events) for name, events in found.items()}


def loaded(shop: Runs, rows: list[Paid]) -> tuple[Graph, list[Any]]:
    """The pipeline of the folder, and rows as its own events."""
    graph = load_pipeline(f"{shop.folder}/shop.py:sums").graph
    return graph, [graph["x"].type.unflatten(list(row)) for row in rows]


def crash_times_crash(shop: Runs, until_done: Any, point: str, action: str) -> None:
    done = until_done(shop, *SUMS, *EPOCHS, faults=schedule(point, action))
    assert len(done) > 1 or "going back" in done[0].stderr or point == "coordinator:finished", "nobody was killed"
    check_times_crash(shop, shop.report(done[-1]), paid(7, 600))


def test_killed_at_a_point_times_crash(shop: Runs, until_done: Any) -> None:
    crash_times_crash(shop, until_done, "worker:border", "tree")


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point_times_crash(shop: Runs, until_done: Any, point: str, action: str) -> None:
    crash_times_crash(shop, until_done, point, action)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_random_kills_from_outside_times_crash(shop: Runs, until_done: Any, seed: int) -> None:
    """kill -9 of any process at any time, by somebody who knows nothing of points."""
    rng, rows, kills = random.Random(seed), paid(seed, 60_000), 0
    write_times_crash(shop.folder, rows)
    said = (*SUMS, "--pushes", "100", "--state", "state", "--json", "--retries", "50")
    for _ in range(8):
        process = shop.start(*said)
        while process.poll() is None:
            time.sleep(rng.uniform(0.05, 0.8))
            pids = wait_for_tasks(shop)
            if pids["coordinator"] != process.pid:
                continue  # of the run before
            name = rng.choice(["coordinator", *pids])
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[name], signal.SIGKILL)
                    kills += 1
            if name == "coordinator":
                break
        _, text = process.communicate(timeout=300)
        assert process.returncode in (0, -signal.SIGKILL), text
        if process.returncode == 0:
            break
    done = until_done(shop, *said)
    assert kills > 2
    check_times_crash(shop, shop.report(done[-1]), rows, 100)


def test_a_table_has_each_window_once(shop: Runs, until_done: Any) -> None:
    """A row of SQLite is there when its epoch is, and once, whoever is killed around its commit; per key."""
    said = ("shop.py:sums", "--in", "paid.csv", "--out", "out=sqlite:t.db#sums", "--pushes", "50", "--state", "state")
    done = until_done(shop, *said, faults="sink:after-commit=tree@2;worker:border=kill@3/1")
    assert len(done) > 1
    with contextlib.closing(sqlite3.connect(shop.folder / "t.db")) as connection:
        found = connection.execute("select start, end, value from sums").fetchall()
    graph, own = loaded(shop, paid(7, 600))
    assert found == [tuple(w) for w in literally(graph, {"x": own}, 50)[0]["out"]]


def test_a_late_row_is_exit_code_2(shop: Runs) -> None:
    (shop.folder / "shop.py").write_text(SHOP.replace('"late": w.late, ', ""))
    with contextlib.chdir(shop.folder):
        done = CliRunner().invoke(cli, ["run", "shop.py:sums", "--in", "paid.csv", "--out", "out=out.csv", *EPOCHS])
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert (
        "step 'w' (tumbling, shop.py:18) failed at push" in done.stderr
        and " late; allow for so much more" in done.stderr
    )
    assert "paid.csv: row" in done.stderr
    assert not (shop.folder / "out.csv").exists()
