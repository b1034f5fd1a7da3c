"""Delta as one of several targets of a run with epochs: it goes on, is deleted, emptied or older; and disks that are
full when a decided epoch is committed, of Delta and of SQLite."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import UsageError
from pellucid.sinks.unresolved import doubt_of_group
from tests.engine.epochs.conftest import ROOT
from tests.engine.epochs.together_job import expected, total
from tests.sinks.group.words import assert_told

deltalake = pytest.importorskip("deltalake")

AFTER = "a member cannot be reached **after** the decision"


def run(folder: Path, *asked: str) -> tuple[int, str]:
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    command = [sys.executable, "-m", "tests.engine.epochs.delta_job", str(folder), *asked]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def whole(folder: Path) -> bool:
    with closing(sqlite3.connect(folder / "t.db")) as db:
        rows = sorted(value for (value,) in db.execute("SELECT out FROM t"))
    lake = sorted(deltalake.DeltaTable(str(folder / "lake")).to_pyarrow_table()["out"].to_pylist())
    return bool(lake == rows == expected())


def test_a_group_with_delta_goes_on(tmp_path: Path) -> None:
    """The program looks at its targets before it forks its tasks: that must not be what they cannot outlive."""
    assert run(tmp_path)[0] == 0
    code, said = run(tmp_path)
    assert (code, said) == (0, "going on after epoch 10\n")
    assert whole(tmp_path)


def test_delta_was_deleted(tmp_path: Path) -> None:
    run(tmp_path)
    shutil.rmtree(tmp_path / "lake")
    code, said = run(tmp_path)
    assert code == 2
    assert "the member 'lake'" in said and "has less than its group" in said
    assert_told("a member comes back from a backup, or was deleted", said)
    assert run(tmp_path, "from-start")[0] == 0
    assert whole(tmp_path)


def test_delta_is_an_older_copy(tmp_path: Path) -> None:
    """What is missing there is written, and nothing twice."""
    run(tmp_path)
    versions = sorted((tmp_path / "lake" / "_delta_log").glob("*.json"))
    assert len(versions) > 1
    versions[-1].unlink()
    code, said = run(tmp_path)
    assert code == 2, said
    assert run(tmp_path, "from-start")[0] == 0
    assert whole(tmp_path)


def test_delta_was_emptied(tmp_path: Path) -> None:
    """It keeps its numbers, so that the rows cannot come again: that is said, and nothing is written."""
    run(tmp_path)
    table = deltalake.DeltaTable(str(tmp_path / "lake"))
    full = table.version()
    table.delete()
    code, said = run(tmp_path)
    assert code == 2
    assert "it is empty, yet batch 1000 put rows there" in said
    code, said = run(tmp_path, "from-start")
    assert code == 2
    assert "and it cannot forget its numbers: bring the rows back from a copy, or start anew in another state" in said
    found = doubt_of_group(tmp_path / "state", {"lake": sinks.delta(tmp_path / "lake")})
    assert [m.lost for m in found.members] == [True, False]
    deltalake.DeltaTable(str(tmp_path / "lake")).restore(full)
    assert run(tmp_path)[0] == 0
    assert whole(tmp_path)


def test_a_program_that_has_used_deltalake(tmp_path: Path) -> None:
    """Its tasks cannot: that is said in words."""
    run(tmp_path)
    lake = sinks.delta(tmp_path / "lake")
    assert lake.read().num_rows == len(expected())
    with pytest.raises(UsageError, match=r"this program has used deltalake before it started the run"):
        total.run_epochs(
            tmp_path / "x.jsonl", sinks.together(lake=lake, table=sinks.sqlite(tmp_path / "t.db", "t")),
            state=tmp_path / "state", pushes=100, say=lambda text: None,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("member", "why"), [("lake", "Delta says: .*File too large"), ("table", "SQLite says: disk I/O error")]
)
def test_a_disk_that_is_full_at_the_commit(tmp_path: Path, member: str, why: str) -> None:
    """The kernel says it; the epoch is decided, so it is unresolved, tried again, and never given up."""
    code, said = run(tmp_path, f"{member}=2")
    assert code == 0
    told = said.splitlines()
    assert len(told) == 2, said
    assert re.fullmatch(r"epochs? .*: committed everywhere now", told[1])
    assert re.search(rf"decided, and unresolved at {member} \(.*{why}", told[0])
    assert_told(AFTER, told[0])
    assert whole(tmp_path)


@pytest.mark.parametrize("member", ["lake", "table"])
def test_a_disk_that_stays_full_at_the_commit(tmp_path: Path, member: str) -> None:
    code, said = run(tmp_path, f"{member}=100000")
    assert code == 2
    assert "does not have" in said.splitlines()[-1] and "Nothing is lost" in said.splitlines()[-1]
    assert_told(AFTER, said.splitlines()[-1])
    assert "\x1b" not in said
    found = doubt_of_group(tmp_path / "state", {"lake": sinks.delta(tmp_path / "lake")})
    assert found.in_doubt
    assert [m.lacks for m in found.members] == [member == "lake", member == "table"]
    code, said = run(tmp_path)
    assert code == 0, said
    assert whole(tmp_path)


def test_a_program_that_has_used_deltalake_and_makes_a_table(tmp_path: Path) -> None:
    """The panic of deltalake comes from another call then."""
    deltalake.write_deltalake(str(tmp_path / "another"), pa.table({"x": [1]}))
    (tmp_path / "x.jsonl").write_text("1\n2\n")
    with pytest.raises(UsageError, match=r"this program has used deltalake before it started the run"):
        total.run_epochs(
            tmp_path / "x.jsonl", f"delta:{tmp_path}/lake", state=tmp_path / "state", pushes=1, say=lambda text: None
        )
