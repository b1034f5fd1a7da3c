"""Several targets of one run: an epoch is in all of them, or in none, whoever is killed, down, new or older."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import Stream, pipeline, sinks
from pellucid.errors import DataError, StateError, Unreachable, UsageError
from pellucid.failures.audit import audit
from pellucid.internal.engine.epochs.outputs import PartName, Target
from pellucid.internal.engine.epochs.store import Store
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.postgres_sink import PostgresSink
from pellucid.sinks.unresolved import doubt_of_group
from tests.engine.epochs.conftest import ROOT, Runs
from tests.engine.epochs.together_job import ROWS, expected, have, members, run, total, whole
from tests.sinks.group.test_outside import AWAY
from tests.sinks.group.words import REFUSES, assert_told
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres, hang, server_or_skip


def silent(text: str) -> None:
    """Nobody reads what a run says."""


def start(folder: Path, dsn: str | None, faults: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    command = [sys.executable, "-m", "tests.engine.epochs.together_job", str(folder), dsn or ""]
    environment = {**os.environ, "PYTHONPATH": path, "PELLUCID_FAULTS": faults}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)


# ---------------------------------------------------------------- kills

MOMENTS = (
    "together:prepared[sink.archive]=tree@2",  # two may be prepared, one is not
    "together:before-decision=kill@2;together:before-decision=kill@1/1",  # all are prepared, twice
    "together:decided=kill@2",  # none has committed
    "postgres:after-commit=tree@2",  # one has
)
ALL = (
    *(f"{point}[sink.{m}]={a}@2" for point in ("together:prepare", "sink:before-commit", "sink:after-commit")
      for m in ("orders", "archive", "totals") for a in ("kill", "tree")),
    *(f"{s}:{p}-commit={a}@2" for s in ("postgres", "parquet", "sqlite") for p in ("before", "after") for a in
      ("kill", "tree")),
    "together:before-decision=kill@1", "together:decided=kill@1", "together:decided=kill@4", "parquet:between-moves=tree@2",  # noqa: E501
    "together:decided=kill@2;recover:loaded=tree@1/1;together:prepared=tree@1/2;together:decided=kill@1/3",
)  # fmt: skip


def killed(folder: Path, postgres: Postgres, faults: str) -> None:
    dsn = postgres.database()
    for _ in range(6):
        done = start(folder, dsn, faults)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        if DecisionLog(folder / "state" / "together").read() is not None:
            try:
                seen = whole(folder, dsn)  # whoever died: no epoch that only some have
            except DataError as error:
                assert "no epoch of query" in str(error)  # noqa: PT017
                seen = []
            assert seen == expected()[: len(seen)]
        if done.returncode == 0:
            break
    assert done.returncode == 0
    assert have(folder, dsn) == dict.fromkeys(("orders", "archive", "totals"), expected())
    assert whole(folder, dsn) == expected()
    assert "recover" in done.stderr or "going" in done.stderr, "nobody was killed"


@pytest.mark.parametrize("faults", MOMENTS)
def test_killed_at_a_moment_of_a_round(tmp_path: Path, postgres: Postgres, faults: str) -> None:
    killed(tmp_path, postgres, faults)


@pytest.mark.long
@pytest.mark.parametrize("faults", ALL)
def test_killed_at_every_moment_of_a_round(tmp_path: Path, postgres: Postgres, faults: str) -> None:
    killed(tmp_path, postgres, faults)


# ---------------------------------------------------------------- members that fail


class Moody(Lines):
    """A sink that fails a few times after the decision, or refuses a row before it."""

    def __init__(self, folder: Path, *, fails: int = 0, refuses: int | None = None) -> None:
        super().__init__(folder)
        self.fails, self.refuses = fails, refuses

    def stage(self, data: Any, query: str, batch: int) -> Any:
        staged = super().stage(data, query, batch)
        if not staged.skipped and self.refuses is not None and f'"out": {self.refuses}}}' in staged.held.read_text():
            self.abort(staged)
            raise DataError(f"{self.refuses} is refused")
        return staged

    def commit(self, staged: Any) -> None:
        count = self.folder / "failed"
        failed = int(count.read_text()) if count.exists() else 0
        if failed < self.fails:
            count.write_text(str(failed + 1))
            raise DataError("the server is gone")
        super().commit(staged)


def go(folder: Path, outputs: Any, say: Any = silent, **more: Any) -> Any:
    if not (folder / "x.jsonl").exists():
        (folder / "x.jsonl").write_text("".join(f"{(i * 7919) % 1009}\n" for i in range(ROWS)))
    settings = {"state": folder / "state", "pushes": 100, "say": say, **more}
    return total.run_epochs(folder / "x.jsonl", outputs, **settings)


def outs(own: Lines) -> list[int]:
    return [row["out"] for row in own.rows()]


def test_a_sink_that_is_down_at_the_commit_is_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    own, table = Moody(tmp_path / "own", fails=3), sinks.sqlite(tmp_path / "t.db", "t")
    go(tmp_path, sinks.together(own=own, table=table), said.append)
    assert outs(own) == expected()
    assert table.read()["out"].to_pylist() == expected()
    assert any(
        " decided, and unresolved at own (the server is gone): it is tried again; later epochs wait" in s for s in said
    )


def test_one_that_stays_down_ends_the_run_with_the_epoch_in_doubt(tmp_path: Path) -> None:
    own, table = Moody(tmp_path / "own", fails=10**6), sinks.sqlite(tmp_path / "t.db", "t")
    with pytest.raises(
        StateError,
        match=r"epochs? .* decided, and unresolved: .*own does not have (it|them) after 3 s: the server is gone. The other members have (it|them), .* Nothing is lost",  # noqa: E501
    ) as caught:
        go(tmp_path, sinks.together(own=own, table=table), patience=3)
    assert_told("a member cannot be reached **after** the decision", str(caught.value))
    record = DecisionLog(tmp_path / "state" / "together").read()
    assert record is not None
    assert table.read().num_rows == record.batch  # the other has it
    assert outs(own) == []
    own.fails = 0
    go(tmp_path, sinks.together(own=own, table=table))
    assert outs(own) == expected()
    assert table.read()["out"].to_pylist() == expected()


def test_one_that_refuses_is_all_that_refuse(tmp_path: Path, postgres: Postgres) -> None:
    """Nothing of the epoch is anywhere, and nothing stays prepared on a server."""
    import psycopg

    dsn = postgres.database()
    own, table = Moody(tmp_path / "own", refuses=expected()[550]), sinks.postgres(dsn, "t")
    with pytest.raises(DataError, match=r"is refused") as caught:
        go(tmp_path, sinks.together(own=own, table=table))
    assert_told(REFUSES, str(caught.value))
    rows = len(outs(own))
    assert rows <= 500
    assert rows % 100 == 0
    assert (0 if rows == 0 else table.read().num_rows) == rows
    with psycopg.connect(dsn) as db:
        assert db.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
    own.refuses = None
    go(tmp_path, sinks.together(own=own, table=table))
    assert outs(own) == sorted(table.read()["out"].to_pylist()) == expected()


def test_a_server_that_is_down_when_the_run_begins_again(tmp_path: Path) -> None:
    for server in server_or_skip():
        dsn = server.dsn
        assert start(tmp_path, dsn, "together:decided=kill@2").returncode == -signal.SIGKILL
        server.stop()
        done = start(tmp_path, dsn)
        assert done.returncode == 2
        assert "PostgreSQL cannot be reached for table 'orders'" in done.stderr
        assert "Traceback" not in done.stderr
        server.start()
        assert start(tmp_path, dsn).returncode == 0
        assert have(tmp_path, dsn) == dict.fromkeys(("orders", "archive", "totals"), expected())


def test_a_server_without_prepared_transactions(tmp_path: Path) -> None:
    for server in server_or_skip(prepared=0):
        done = start(tmp_path, server.dsn, "postgres:before-commit=tree@2")
        assert done.returncode == -signal.SIGKILL
        assert done.stderr.count("orders: the server keeps no prepared transactions") == 1
        assert start(tmp_path, server.dsn).returncode == 0
        assert have(tmp_path, server.dsn) == dict.fromkeys(("orders", "archive", "totals"), expected())


# ---------------------------------------------------------------- other members


def test_a_member_that_is_new_gets_all_rows_or_is_refused(tmp_path: Path) -> None:
    assert start(tmp_path, None, "together:decided=kill@3").returncode == -signal.SIGKILL
    more = members(tmp_path, None) | {"late": sinks.sqlite(tmp_path / "late.db", "late")}
    with pytest.raises(
        StateError,
        match=r"the member 'late' .* is new in this group, and would lack what was committed before: read all input again with from_start=True",  # noqa: E501
    ) as caught:
        go(tmp_path, sinks.together(more))
    assert_told("a member is new", str(caught.value))
    said: list[str] = []
    go(tmp_path, sinks.together(more), from_start=True, say=said.append)
    assert any("sink.late has no snapshot of any epoch (it is new, or its files are gone)" in line for line in said)
    for sink in more.values():
        assert sink.read()["out"].to_pylist() == expected()
    for place in ("state", "state/together"):
        assert sinks.read_together(more, log=tmp_path / place)["late"]["out"].to_pylist() == expected()
    go(tmp_path, sinks.together(more))  # and the same call goes on


def test_a_member_that_is_gone_is_refused(tmp_path: Path) -> None:
    assert start(tmp_path, None, "together:decided=kill@3").returncode == -signal.SIGKILL
    fewer = {name: sink for name, sink in members(tmp_path, None).items() if name != "totals"}
    with pytest.raises(
        StateError, match=r"the member 'totals' .* of this group is not given any more, and may not have all"
    ) as caught:
        go(tmp_path, sinks.together(fewer))
    assert_told("a member is gone", str(caught.value))


def test_a_member_back_from_a_backup(tmp_path: Path) -> None:
    assert start(tmp_path, None, "together:decided=kill@2").returncode == -signal.SIGKILL
    shutil.copy(tmp_path / "totals.db", tmp_path / "backup")
    run(tmp_path, None, say=silent)
    shutil.copy(tmp_path / "backup", tmp_path / "totals.db")
    with pytest.raises(StateError, match=r"totals.*are not there any more.*from_start=True") as caught:
        run(tmp_path, None, say=silent)
    assert_told("a member comes back from a backup, or was deleted", str(caught.value))
    run(tmp_path, None, say=silent, from_start=True)
    assert have(tmp_path, None) == dict.fromkeys(("orders", "archive", "totals"), expected())


def test_a_member_that_was_deleted(tmp_path: Path) -> None:
    assert start(tmp_path, None, "together:decided=kill@3").returncode == -signal.SIGKILL
    (tmp_path / "totals.db").unlink()
    with pytest.raises(StateError, match=r"the member 'totals' .* has less than its group.*from_start=True") as caught:
        run(tmp_path, None, say=silent)
    assert_told("a member comes back from a backup, or was deleted", str(caught.value))
    run(tmp_path, None, say=silent, from_start=True)
    assert have(tmp_path, None) == dict.fromkeys(("orders", "archive", "totals"), expected())


def test_a_log_that_is_an_older_copy(tmp_path: Path) -> None:
    """Or none at all: members have what it has not decided."""
    log = tmp_path / "state" / "together"
    assert start(tmp_path, None, "together:decided=kill@2").returncode == -signal.SIGKILL
    shutil.copytree(log, tmp_path / "older")
    run(tmp_path, None, say=silent)
    for older in (tmp_path / "older", None):
        shutil.rmtree(log)
        if older is not None:
            shutil.copytree(older, log)
            found = doubt_of_group(tmp_path / "state")
            assert found.in_doubt
            assert [m.ahead for m in found.members] == [True, True, True]
            assert "orders, archive and totals have more than that: the log is an older copy" in found.lines()[0]
            assert "bring back the log that goes with" in found.lines()[-1]
        with pytest.raises(StateError, match=r"the log is an older copy, or another one.*from_start=True") as caught:
            run(tmp_path, None, say=silent)
        assert_told("the log is an older copy, damaged or of another version", str(caught.value))
        assert have(tmp_path, None) == dict.fromkeys(("orders", "archive", "totals"), expected())
    Store(tmp_path / "state").write("progress.json", {"epoch": ["x"]})  # a hint that is none is no reason to fail
    run(tmp_path, None, say=silent, from_start=True)
    assert have(tmp_path, None) == dict.fromkeys(("orders", "archive", "totals"), expected())
    assert doubt_of_group(tmp_path / "state").in_doubt is False
    run(tmp_path, None, say=silent)


@pytest.mark.parametrize("how", ["DELETE FROM", "DROP TABLE"])
@pytest.mark.parametrize("server", [True, False])
def test_a_member_that_was_emptied(tmp_path: Path, postgres: Postgres, how: str, server: bool) -> None:
    dsn = postgres.database() if server else None
    run(tmp_path, dsn, say=silent)
    if dsn is not None:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(f"{how} orders".encode())
    else:
        with closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as file:
            file.execute(f"{how} orders")
    found = doubt_of_group(tmp_path / "state", members(tmp_path, dsn))
    assert (found.in_doubt, [m.lost for m in found.members]) == (True, [True, False, False])
    with pytest.raises(StateError, match=r"it is empty, yet 1,000 rows were written there.*from_start=True") as caught:
        run(tmp_path, dsn, say=silent)
    assert "checkpoint" not in str(caught.value)
    assert_told("a table of a member was emptied or dropped, and its numbers stayed", str(caught.value))
    run(tmp_path, dsn, say=silent, from_start=True)
    assert have(tmp_path, dsn) == dict.fromkeys(("orders", "archive", "totals"), expected())
    assert doubt_of_group(tmp_path / "state", members(tmp_path, dsn)).in_doubt is False


def test_two_groups_that_share_a_sink(tmp_path: Path) -> None:
    assert start(tmp_path, None, "together:decided=kill@2").returncode == -signal.SIGKILL
    shared = {"archive": sinks.parquet(tmp_path / "archive"), "own": sinks.sqlite(tmp_path / "own.db", "own")}
    with pytest.raises(
        StateError, match=r"archive belongs to another group of outputs, whose log is .*state/together"
    ) as caught:
        go(tmp_path, sinks.together(shared), state=tmp_path / "other")
    assert_told("a target of another group", str(caught.value))
    run(tmp_path, None, say=silent)
    go(tmp_path, sinks.together(shared), state=tmp_path / "other2")  # the first run is over
    assert sinks.read(tmp_path / "archive").num_rows == 2 * ROWS


# ---------------------------------------------------------------- whose rows


@pipeline
def two(x: Stream[int]) -> dict[str, Stream[int]]:
    return {
        "sums": x.cumulate(lambda t, v: t + v, start=0, id="sum"),
        "evens": x.filter(lambda v: v % 2 == 0, id="even"),
    }


def test_each_output_goes_to_the_member_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(ROWS)))
    file = tmp_path / "both.db"
    group = sinks.together(sums=sinks.sqlite(file, "sums"), evens=sinks.sqlite(file, "evens"))
    two.run_epochs(tmp_path / "x.jsonl", group, state=tmp_path / "state", pushes=100, say=silent)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*), max(sums) FROM sums").fetchone() == (ROWS, sum(range(ROWS)))
        assert db.execute("SELECT count(*), max(evens) FROM evens").fetchone() == (ROWS // 2, ROWS - 2)
    tables = sinks.read_together(
        log=tmp_path / "state" / "together", sums=sinks.sqlite(file, "sums"), evens=sinks.sqlite(file, "evens")
    )
    assert tables["evens"].num_rows == ROWS // 2


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            ("sums", "odds"),
            "together: two has no output 'odds' for the member of that name: its outputs are sums, evens",
        ),
        (("orders", "archive"), "together: two has no output 'orders' for the member of that name"),
    ],
)
def test_a_name_that_is_no_output_is_refused(tmp_path: Path, members: tuple[str, ...], words: str) -> None:
    (tmp_path / "x.jsonl").write_text("1\n")
    group = sinks.together({name: sinks.parquet(tmp_path / name) for name in members})
    with pytest.raises(UsageError, match=words):
        two.run_epochs(tmp_path / "x.jsonl", group, state=tmp_path / "state", pushes=1)


def test_options_that_are_for_spark_are_refused(tmp_path: Path) -> None:
    group = sinks.together(a=sinks.parquet(tmp_path / "a"), log=tmp_path / "log")
    with pytest.raises(
        UsageError, match=r"together: log= is for queries of Spark: with epochs the decisions are in the state"
    ):
        total.run_epochs(tmp_path / "x.jsonl", group, state=tmp_path / "state", pushes=1)


# ---------------------------------------------------------------- the command line

TOTAL = ("p.py:total", "--in", "x.jsonl", "--epoch-size", "100", "--state", "state")


def values(lines: bytes) -> list[int]:
    return [json.loads(line)["out"] for line in lines.splitlines()]


def test_several_outputs_on_the_command_line(runs: Runs, postgres: Postgres) -> None:
    dsn = postgres.database()
    out = ["--out", "sqlite:t.db#t", "--out", f"{dsn}#t", "--out", "out.jsonl"]
    done = runs(*TOTAL, *out, faults="postgres:after-commit=tree@2")
    assert done.returncode == -signal.SIGKILL
    report = runs.report(runs(*TOTAL, *out, "--json"))
    assert report["events_out"] == {"out-1": ROWS, "out-2": ROWS, "out-3": ROWS}
    rows = values(runs.plain("p.py:total", "--in", "x.jsonl"))
    assert values(runs.read("out.jsonl")) == rows
    tables = {"out-1": sinks.sqlite(runs.folder / "t.db", "t"), "out-2": sinks.postgres(dsn, "t")}
    log = runs.folder / "state" / "together"
    found = sinks.read_together(tables, log=log)
    assert sorted(found["out-1"]["out"].to_pylist()) == sorted(found["out-2"]["out"].to_pylist()) == sorted(rows)
    with pytest.raises(UsageError, match=r"are out-1, out-2, .* \(not out-3: what is a file is whole when it"):
        sinks.read_together({"out-1": tables["out-1"]}, log=log)
    with pytest.raises(UsageError, match=r"'out.jsonl' is given, which is no sink: .*; leave files out"):
        sinks.read_together({**tables, "out-3": "out.jsonl"}, log=log)


def test_a_recorded_run_that_was_killed_after_a_decision_passes_the_audit(runs: Runs) -> None:
    out = ["--out", "sqlite:t.db#t", "--out", "out.jsonl", "--record"]
    assert runs(*TOTAL, *out, faults="together:decided=kill@2").returncode == -signal.SIGKILL
    assert runs(*TOTAL, *out).returncode == 0
    report = audit(runs.folder / "state")
    assert report, str(report)


def test_a_table_that_another_program_holds(runs: Runs) -> None:
    """It is waited for as long as `--patience` lets it, and said in words that fit a run."""
    out = ["--out", "sqlite:t.db#t", "--out", "out.jsonl"]
    assert runs(*TOTAL, *out, faults="together:decided=kill@2").returncode == -signal.SIGKILL
    with closing(sqlite3.connect(runs.folder / "t.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        done = runs(*TOTAL, *out, "--patience", "2")
    assert done.returncode == 2
    assert (
        "t.db: another writer has held the database for 1 s: is a second run or query, or another prog" in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert runs(*TOTAL, *out).returncode == 0
    assert sinks.sqlite(runs.folder / "t.db", "t").read().num_rows == ROWS


def test_one_table_by_two_names(runs: Runs, postgres: Postgres) -> None:
    """Each would take what the other has prepared for something that was left: rows were lost."""
    dsn = postgres.database()
    done = runs(*TOTAL, "--out", f"{dsn}#t", "--out", f"{dsn}#public.t")
    assert done.returncode == 2
    assert "--out: 'out-1' and 'out-2' are the same target: name it once" in done.stderr
    (runs.folder / "t.db").touch()
    (runs.folder / "same.db").hardlink_to(runs.folder / "t.db")
    done = runs(*TOTAL, "--out", "sqlite:t.db#t", "--out", "sqlite:same.db#T")
    assert done.returncode == 2
    assert "--out: 'out-1' and 'out-2' are the same target: name it once" in done.stderr


def test_two_tables_of_one_file_by_a_link(runs: Runs) -> None:
    """They wait for each other no more than two tables of one name of the file."""
    (runs.folder / "link.db").symlink_to("t.db")
    assert runs(*TOTAL, "--out", "sqlite:t.db#a", "--out", "sqlite:link.db#b").returncode == 0
    for name in "ab":
        assert sinks.sqlite(runs.folder / "t.db", name).read().num_rows == ROWS


@pytest.mark.parametrize("left", [None, "{"], ids=["gone", "damaged"])
def test_the_log_is_lost_and_all_is_read_again(runs: Runs, left: str | None) -> None:
    """Its members say that they are of the group whose log lies there: that is this one."""
    out = ["--out", "sqlite:t.db#t", "--out", "out.jsonl"]
    assert runs(*TOTAL, *out, faults="together:decided=kill@2").returncode == -signal.SIGKILL
    log = runs.folder / "state" / "together" / "decisions.json"
    log.unlink() if left is None else log.write_text(left)
    done = runs(*TOTAL, *out)
    assert done.returncode == 2
    assert "--from-start" in done.stderr or "bring it back from a copy" in done.stderr
    done = runs(*TOTAL, *out, "--from-start", faults="together:decided=kill@1/*")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert runs(*TOTAL, *out).returncode == 0  # without it, too: the target is this group's again
    rows = values(runs.plain("p.py:total", "--in", "x.jsonl"))
    assert values(runs.read("out.jsonl")) == rows
    assert sinks.sqlite(runs.folder / "t.db", "t").read()["out"].to_pylist() == rows


def test_another_run_with_a_copy_of_the_state_folder_is_noticed(tmp_path: Path, postgres: Postgres) -> None:
    """Both are of the same group, and only the target knows what is there: rows came twice."""
    schema = pa.schema([("out", pa.int64())])
    for sink in (sinks.sqlite(tmp_path / "t.db", "t"), sinks.postgres(postgres.database(), "t")):
        sink.write(pa.table({"out": [1, 2, 3]}, schema), "run", 30)
        target = Target(sink, schema)
        path = tmp_path / "part"
        with pa.ipc.new_stream(path, schema) as part:
            part.write_batch(pa.record_batch({"out": [2, 3, 4]}, schema))
        name = PartName.of("run out", 10, 40, 4, 3, 1, 1)
        with pytest.raises(StateError, match="it has the rows up to push 30, and those from push 10 on were to come n"):
            target.stage([(name, path)], "run", 40)
        assert sink.read()["out"].to_pylist() == [1, 2, 3]
        assert sink.last("run") == 30


def test_a_row_that_a_table_refuses(runs: Runs) -> None:
    with closing(sqlite3.connect(runs.folder / "t.db")) as db:
        db.execute("CREATE TABLE t (out INTEGER CHECK (out < 100000))")
    done = runs(*TOTAL, "--out", "sqlite:t.db#t", "--out", "out.jsonl")
    assert done.returncode == 2
    assert_told(REFUSES, done.stderr)
    wrong = next(value for value in expected() if value >= 100000)
    assert "is refused, CHECK constraint failed: out < 100000 (row " in done.stderr
    assert f": out={wrong}): leave it out before the sink" in done.stderr


def test_the_same_target_twice_is_refused(runs: Runs) -> None:
    done = runs(*TOTAL, "--out", "sqlite:t.db#t", "--out", "sqlite:./t.db#t")
    assert done.returncode == 2
    assert "'out-1' and 'out-2' are the same target" in done.stderr
    done = runs(*TOTAL, "--out", "a.csv", "--out", "a.csv")
    assert done.returncode == 2
    assert "--out a.csv: is given twice" in done.stderr


def test_an_output_that_nobody_takes(tmp_path: Path) -> None:
    """Rows go nowhere only if that was said."""
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    p = pipeline(lambda x: {"odd": x.filter(lambda v: v % 2 == 1), "even": x.filter(lambda v: v % 2 == 0)}, x=int)
    odd = sinks.sqlite(tmp_path / "a.db", "odd")
    with pytest.raises(
        UsageError, match=r"nobody takes the output 'even' of .*: name a member even=…, or say even=None"
    ):
        p.run_epochs(tmp_path / "in.csv", sinks.together(odd=odd), state=tmp_path / "s", pushes=2)
    assert not (tmp_path / "s").exists()
    report = p.run_epochs(tmp_path / "in.csv", sinks.together(odd=odd, even=None), state=tmp_path / "s", pushes=2)
    assert report.rows == {"odd": 2}


# A member of a run that cannot be reached before the decision: tried again for ``patience`` seconds, then the epoch is
# given up everywhere.


class Away(Lines):
    """A sink whose server does not answer some times; how often it was asked is counted in a file, as it is a process
    of its own."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(folder)
        self.times = times

    def stage(self, data: Any, query: str, batch: int) -> Any:
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "asked", "a") as asked:
            asked.write("?")
        if (self.folder / "asked").stat().st_size <= self.times:
            raise Unreachable("no route to host")
        return super().stage(data, query, batch)


def test_one_that_is_back_in_time(tmp_path: Path) -> None:
    said: list[str] = []
    own, table = Away(tmp_path / "own", 2), sinks.sqlite(tmp_path / "t.db", "t")
    go(tmp_path, sinks.together(own=own, table=table), said.append, patience=60)
    assert outs(own) == table.read()["out"].to_pylist() == expected()
    told = [text for text in said if "cannot be reached" in text]
    assert len(told) == 1
    assert re.fullmatch(
        r"epochs? [\d to]+: own cannot be reached \(no route to host\): it is tried again for 60 s, and until then "
        r"no member has (it|them)",
        told[0],
    )
    assert_told(AWAY, told[0])


def test_one_that_stays_away(tmp_path: Path) -> None:
    own, table = Away(tmp_path / "own", 10**6), sinks.sqlite(tmp_path / "t.db", "t")
    with pytest.raises(
        Unreachable,
        match=r"^epochs? [\d to]+: the member 'own' cannot be reached, and is given up after 0.3 s \(patience=\): "
        r"no member has (it|them): no route to host. Nothing is lost: when that is put right, the same command goes on",
    ) as caught:
        go(tmp_path, sinks.together(own=own, table=table), patience=0.3)
    assert_told(AWAY, str(caught.value))
    assert outs(own) == []
    assert table.last(DecisionLog(tmp_path / "state" / "together").read().query) is None  # type: ignore[union-attr]
    own.times = 0
    go(tmp_path, sinks.together(own=own, table=table))
    assert outs(own) == table.read()["out"].to_pylist() == expected()


def test_nobody_is_waited_for_when_another_refuses(tmp_path: Path) -> None:
    """Else the run would hang for as long as it is patient."""
    own = Away(tmp_path / "own", 10**6)

    class Refuses(Lines):
        def stage(self, data: Any, query: str, batch: int) -> Any:
            while not (own.folder / "asked").exists():
                time.sleep(0.01)
            raise DataError("a row is wrong")

    refuses = Refuses(tmp_path / "other")
    with pytest.raises(
        DataError, match=r"the member 'other' does not take (it|them), so no member has (it|them): a row is wrong"
    ):
        go(tmp_path, sinks.together(own=own, other=refuses), patience=600)


class Stopped(PostgresSink):
    """A member that stops its server when it is to take the second batch."""

    server, mark = 0, Path()

    def stage(self, data: Any, query: str, batch: int) -> Any:
        if self.last(query) is not None and not self.mark.exists():
            self.mark.touch()
            os.kill(self.server, signal.SIGINT)
            while True:
                try:
                    psycopg.connect(self.address.connection).close()
                except psycopg.OperationalError as error:
                    if "refused" in str(error):
                        break
                time.sleep(0.02)
        return super().stage(data, query, batch)


@pytest.mark.long
@pytest.mark.parametrize("prepared", [20, 0])
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_server_that_is_stopped_before_the_decision(tmp_path: Path, prepared: int, comes_back: bool) -> None:
    for server in server_or_skip(prepared=prepared):
        assert server._process is not None
        orders, table = Stopped(server.database(), "orders"), sinks.sqlite(tmp_path / "t.db", "t")
        orders.server, orders.mark = server._process.pid, tmp_path / "stopped"
        group = sinks.together(orders=orders, table=table)

        def say(text: str, server: Postgres = server) -> None:
            if "cannot be reached" in text and comes_back:
                server.stop()  # its process is ours to bury
                server.start()

        if comes_back:
            go(tmp_path, group, say, patience=60, pushes=20)
        else:
            with pytest.raises(Unreachable, match=r"the member 'orders' cannot be reached, and is given up after 0.5"):
                go(tmp_path, group, say, patience=0.5, pushes=20)
            server.stop()
            server.start()
            found = doubt_of_group(tmp_path / "state", {"orders": orders, "table": table})
            assert not found.in_doubt, found.lines()
            assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist()
            assert 0 < table.read().num_rows < len(expected())
            with psycopg.connect(server.dsn) as db:
                assert db.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
            go(tmp_path, group, say, pushes=20)
        assert orders.mark.exists()
        assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist() == expected()


class Hangs(PostgresSink):
    """A member whose server stops in the middle of the second batch, without a word: at ``when``."""

    server, mark, when = 0, Path(), ""

    def _hang(self, here: str) -> None:
        if self.when == here and self.mark.with_suffix(".first").exists() and not self.mark.exists():
            self.mark.touch()
            hang(self.server)

    def prepare(self, staged: Any) -> None:
        self._hang("prepare")
        super().prepare(staged)

    def commit(self, staged: Any) -> Any:
        self._hang("commit")
        done = super().commit(staged)
        self.mark.with_suffix(".first").touch()
        return done

    def settle(self, *about: Any, commit: bool, **named: Any) -> bool:
        if commit:
            self._hang("commit")
        done = super().settle(*about, commit=commit, **named)
        self.mark.with_suffix(".first").touch()
        return done


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("when", "prepared"),
    [("prepare", 20), *(pytest.param(*case, marks=pytest.mark.long) for case in (("commit", 20), ("prepare", 0)))],
)
def test_a_server_that_hangs(tmp_path: Path, prepared: int, when: str) -> None:
    """It takes connections, and never answers: that is said of the member, and no task is taken for one that hangs."""
    for server in server_or_skip(prepared=prepared):
        said: list[str] = []
        assert server._process is not None
        orders, table = Hangs(server.database(), "orders"), sinks.sqlite(tmp_path / "t.db", "t")
        orders.server, orders.mark, orders.when = server._process.pid, tmp_path / "hangs", when
        group = sinks.together(orders=orders, table=table)
        silent = r"PostgreSQL (has not answered for [\d.]+ s|cannot be reached for table 'orders': .*timeout)"
        try:
            if when == "prepare":
                with pytest.raises(
                    Unreachable, match=rf"the member 'orders' cannot be reached, and .* {silent}"
                ) as first:
                    go(tmp_path, group, said.append, patience=5, pushes=20)
                assert_told(AWAY, str(first.value))
                assert any("PostgreSQL has not answered for 4.5 s" in text for text in said), said
            else:
                with pytest.raises(StateError, match=rf"decided, and unresolved: table 'orders' .*{silent}") as second:
                    go(tmp_path, group, said.append, patience=5, pushes=20)
                assert_told("a member cannot be reached **after** the decision", str(second.value))
            assert not [text for text in said if "hangs" in text and "sink" in text], said
            with pytest.raises(
                Unreachable,
                match=r"^the member 'orders' cannot be reached \(PostgreSQL cannot be reached for table 'orders': .*\)"
                r"\. Nothing is lost, and nothing was begun: when it is up, the same command goes on$",
            ) as third:
                go(tmp_path, group, said.append, patience=5, pushes=20)
            assert_told("a member cannot be reached when the run or the query begins", str(third.value))
        finally:
            for one in server.processes():
                os.kill(one, signal.SIGCONT)
        go(tmp_path, group, said.append, pushes=20)
        assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist() == expected()


def test_a_server_that_is_down_when_the_run_begins(tmp_path: Path) -> None:
    """At the very first start, before anything."""
    down = sinks.postgres("postgresql://127.0.0.1:1/shop", "orders")
    with pytest.raises(
        Unreachable, match=r"^the member 'orders' cannot be reached \(.*\). Nothing is lost, and nothing"
    ) as caught:
        go(tmp_path, sinks.together(orders=down, table=sinks.sqlite(tmp_path / "t.db", "t")))
    assert_told("a member cannot be reached when the run or the query begins", str(caught.value))
