"""``pellucid run --on spark --stream``: in this process on the tests' own session, and once as a real process with
signals."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from tests.cli.spark.conftest import EVENTS, KEYED, TOTALS, Command, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pellucid.spark.java import JavaHome


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text(EVENTS)
    args = [
        "--in",
        "in",
        *KEYED,
        "--stream",
        "--trigger",
        "once",
        "--checkpoint",
        "check",
        "--out",
        "sqlite:bank.db#totals",
    ]
    done = run("total", *args, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document.pop("seconds") > 0
    assert document == {
        "pellucid": 1,
        "verb": "run",
        "engine": "spark",
        "pipeline": "total",
        "plan": "keys",
        "in": ["in"],
        "out": {"out": "sqlite:bank.db#totals"},
        "rows_in": 3,
        "rows_out": 3,
        "batches": 1,
        "stopped": False,
    }
    (folder / "in" / "2.csv").write_text("user,seq,x\na,3,100\n")
    assert run("total", *args).stderr.startswith("on Spark (keys), 1 micro-batch, 1 in, 1 out, ")
    assert run("total", *args).stderr.startswith("on Spark (keys), 0 micro-batches, 0 in, 0 out, ")
    assert rows(sinks.sqlite(folder / "bank.db", "totals").read()) == sorted([*TOTALS, ("a", 3, 121)])
    refused = run("changed", *args)
    assert refused.exit_code == 2, refused.output
    assert (
        "step 'total' (cumulate) is gone; bring it back as it was, or give up what it remembers with --drop total"
        in refused.stderr
    )
    (folder / "in" / "3.csv").write_text("user,seq,x\na,4,7\na,5,8\n")
    assert run("changed", *args, "--drop", "total").exit_code == 0
    assert rows(sinks.sqlite(folder / "bank.db", "totals").read()) == sorted([*TOTALS, ("a", 3, 121), ("a", 5, 8)])
    other_key = run("total", "--in", "in", "--order", "seq", *args[6:])
    assert "key was user when it began, and is empty now" in other_key.stderr and other_key.exit_code == 2


def test_a_stream_keeps_columns(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    out = ["--stream", "--trigger", "once", "--checkpoint", "check", "--out", "sqlite:bank.db#totals"]
    for name, cells in (("1", "a,1,2,007"), ("2", "a,2,3,\nb,1,5,x")):  # a text from the first file on
        (folder / "in" / f"{name}.csv").write_text(f"user,seq,x,code\n{cells}\n")
        done = run("total", "--in", "in", *KEYED, "--keep-columns", "code", *out)
        assert done.exit_code == 0, done.stderr
    found = sinks.sqlite(folder / "bank.db", "totals").read().to_pylist()
    assert [tuple(row.values()) for row in sorted(found, key=lambda row: (row["user"], row["seq"]))] == [
        ("a", 1, "007", 2), ("a", 2, None, 5), ("b", 1, "x", 5),
    ]  # fmt: skip


def test_a_stream_of_several_outputs_with_late_rows(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("user,seq,x\na,1,2\na,3,4\n")
    out = ["--out", "sums=sums", "--out", "late=sqlite:late.db#late"]
    args = [
        "two",
        "--in",
        "in",
        *KEYED,
        "--stream",
        "--trigger",
        "once",
        "--checkpoint",
        "check",
        "--late",
        "keep",
        *out,
    ]
    assert run(*args).exit_code == 0
    (folder / "in" / "2.csv").write_text("user,seq,x\na,2,100\na,4,1\n")
    done = run(*args)
    assert done.stderr.startswith(
        "not written: evens (no --out evens=…)\non Spark (keys), 1 micro-batch, 2 in, 2 out, "
    ), done.stderr
    assert rows(sinks.read(folder / "sums")) == [("a", 1, 2), ("a", 3, 6), ("a", 4, 7)]
    with closing(sqlite3.connect(folder / "late.db")) as database:
        ((user, seq, late),) = database.execute("SELECT user, seq, late FROM late").fetchall()
    assert (user, seq, json.loads(late)) == ("a", 2, {"x": 100})


def test_a_stream_that_waits_and_prints(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("seq,x\n1,1\n3,30\n")
    args = [
        "total",
        "--in",
        "in",
        "--value",
        "x",
        "--order",
        "seq",
        "--stream",
        "--trigger",
        "once",
        "--checkpoint",
        "check",
        "--wait",
        "2",
    ]
    done = run(*args)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"seq": 1, "out": 1}], done.stderr
    (folder / "in" / "2.csv").write_text("seq,x\n2,5\n5,50\n")
    assert [json.loads(line) for line in run(*args).stdout.splitlines()] == [
        {"seq": 2, "out": 6},
        {"seq": 3, "out": 36},
    ]


def test_a_stream_keeps_the_types_that_it_began_with(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    args = [
        "total",
        "--in",
        "in",
        *KEYED,
        "--stream",
        "--trigger",
        "once",
        "--checkpoint",
        "check",
        "--out",
        "sqlite:bank.db#totals",
    ]
    (folder / "in" / "1.csv").write_text("user,seq,x\n6,1,10\n7,1,20\n")
    assert run(*args).exit_code == 0
    (folder / "in" / "2.csv").write_text("user,seq,x\nsix,1,10\n")
    refused = run(*args)
    assert refused.exit_code == 2, refused.output
    assert (
        refused.stderr
        == "pellucid: in/2.csv: row 1 (line 2): column 'user': expected int, found 'six'; correct the value or remove "
        "the row\n"
    )
    (folder / "in" / "2.csv").write_text("user,seq,x\n6,2,10\n")
    assert run(*args).exit_code == 0
    assert rows(sinks.sqlite(folder / "bank.db", "totals").read()) == [(6, 1, 10), (6, 2, 20), (7, 1, 20)]


def test_bad_streams_are_named(spark: SparkSession, run: Command, folder: Path) -> None:
    more = [*KEYED, "--stream", "--trigger", "once", "--checkpoint", "check", "--out", "out"]
    file = run("total", "--in", "events.csv", *more)
    assert (
        file.stderr == "pellucid: --in events.csv: a stream reads a folder, to which files are added: give the folder\n"
    )
    (folder / "empty").mkdir()
    empty = run("total", "--in", "empty", *more)
    assert (
        empty.stderr
        == "pellucid: empty: which format is it? Give --in-format or --out-format csv, tsv, jsonl or parquet\n"
    )
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("user,seq,x\n6,1,1\n,2,1\n")
    null = run("total", "--in", "in", *more)
    assert null.exit_code == 2
    assert null.stderr.startswith("pellucid: user=None, seq=2: the key column 'user' is null"), null.stderr


# ------------------------------------------------------------------ several targets that commit together

TOGETHER = ["--in", "in", *KEYED, "--stream", "--trigger", "once", "--checkpoint", "check"]


def together(folder: Path, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """What all targets have."""
    made: dict[str, Any] = {
        "out-1": sinks.sqlite(folder / "bank.db", "totals"),
        "out-2": sinks.parquet(folder / "archive"),
    }
    made |= {f"out-{n}": sinks.sqlite(folder / f"{name}.db", name) for n, name in enumerate(tables, 3)}
    found = sinks.read_together(made, log=folder / "check" / "pellucid-together")
    return {name: rows(table) for name, table in found.items()}


def test_several_targets_of_a_stream_commit_together(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text(EVENTS)
    out = ["--out", "sqlite:bank.db#totals", "--out", "archive"]
    done = run("total", *TOGETHER, *out, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["rows_out"] == 3
    assert document["out"] == {"out-1": "sqlite:bank.db#totals", "out-2": "archive"}
    assert together(folder) == {"out-1": TOTALS, "out-2": TOTALS}
    (folder / "in" / "2.csv").write_text("user,seq,x\na,3,100\n")
    with closing(sqlite3.connect(folder / "bank.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another program holds the table
        refused = run("total", *TOGETHER, *out, "--patience", "0.3")
    assert refused.exit_code == 2, refused.output
    assert "another writer has held the database for 0.3 s: is a second run or query, or another" in refused.stderr
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert rows(sinks.read(folder / "archive")) == TOTALS
    assert run("total", *TOGETHER, *out).exit_code == 0
    more = sorted([*TOTALS, ("a", 3, 121)])
    assert together(folder) == {"out-1": more, "out-2": more}

    late = [*out, "--out", "sqlite:late.db#late"]
    (folder / "in" / "3.csv").write_text("user,seq,x\nb,2,1\n")
    refused = run("total", *TOGETHER, *late)
    assert refused.exit_code == 2, refused.output
    assert "member 'out-3' " in refused.stderr
    assert "is new in a group whose last batch is 1: " in refused.stderr
    assert "Say --added out-3 if that is meant" in refused.stderr
    assert run("total", *TOGETHER, *late, "--added", "out-3").exit_code == 0
    assert together(folder, "late") == {
        "out-1": [*more, ("b", 2, 6)],
        "out-2": [*more, ("b", 2, 6)],
        "out-3": [("b", 2, 6)],
    }
    (folder / "in" / "4.csv").write_text("user,seq,x\nb,3,1\n")
    refused = run("total", *TOGETHER, *out)
    assert "member 'out-3' " in refused.stderr
    assert "say --removed out-3" in refused.stderr
    assert run("total", *TOGETHER, *out, "--removed", "out-3").exit_code == 0
    assert together(folder)["out-2"][-1] == ("b", 3, 7)
    alone = run("total", *TOGETHER, "--out", "sqlite:bank.db#totals")
    assert alone.exit_code == 2
    assert "the outputs of this query commit together (out-1: sqlite:" in alone.stderr


def test_outputs_by_name_commit_together_and_what_is_bad_beside_them(
    spark: SparkSession, run: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in").mkdir()
    events = pa.table({"user": ["a", "a", "b"], "seq": [1, 2, 1], "x": [1, None, 4]})
    pq.write_table(events, folder / "in" / "1.parquet")
    out = ["--out", "sums=sums", "--out", "evens=sqlite:evens.db#evens", "--bad", "bad"]
    done = run("two", *TOGETHER, *out)
    assert done.exit_code == 0, done.stderr
    members = {"sums": sinks.parquet(folder / "sums"), "evens": sinks.sqlite(folder / "evens.db", "evens")}
    found = sinks.read_together(members, log=folder / "check" / "pellucid-together")
    assert {name: rows(table) for name, table in found.items()} == {
        "sums": [("a", 1, 1), ("b", 1, 4)], "evens": [("b", 1, 4)]
    }  # fmt: skip
    assert sinks.read(folder / "bad").num_rows == 1


def test_a_query_that_began_apart_goes_on_apart(
    spark: SparkSession, run: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier version: its targets know the micro-batches by other names."""
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text(EVENTS)
    args = ["two", *TOGETHER, "--out", "sums=sums", "--out", "evens=sqlite:evens.db#evens"]
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.internal.cli.spark.can_be_members", lambda places: [])
        assert run(*args).exit_code == 0
    (folder / "in" / "2.csv").write_text("user,seq,x\na,3,100\n")
    done = run(*args)
    assert done.exit_code == 0
    assert done.stderr.startswith(
        "this query began when its outputs were not committed together: each of them has a mi"
    )
    assert len(rows(sinks.read(folder / "sums"))) == 4


TABLE = ["--out", "sqlite:a.db#t"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            [*TABLE, "--out", "kafka://h:1/t", "--out", "b"],
            "--out kafka://h:1/t: a Kafka topic cannot be one of several",
        ),
        ([*TABLE, "--out", "b", "--out", "-"], "--out -: the standard output cannot be one of several targets"),
        (
            ["--out", "a", "--out", "b"],
            "several --out of one output are for targets that commit together: at least one",
        ),
        ([*TABLE, "--out", "sqlite:./a.db#T"], "--out: 'out-1' and 'out-2' are the same target: name it once"),
        ([*TABLE, "--patience", "5"], "--patience is for several --out that commit together"),
        ([*TABLE, "--added", "out-1"], "--added is for several --out that commit together"),
        ([*TABLE, "--out", "b", "--checkpoint", "s3a://x/y"], "keep their decisions there, and need a folder of this"),
    ],
)
def test_what_cannot_commit_together_is_refused(run: Command, folder: Path, args: list[str], words: str) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text(EVENTS)
    place = [] if "--checkpoint" in args else ["--checkpoint", "check"]
    done = run("total", *TOGETHER[:-2], *place, *args)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


# ------------------------------------------------------------------ a process of its own

COMMAND = [sys.executable, "-m", "pellucid"]


def environment(home: JavaHome) -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return dict(os.environ, PYTHONPATH=source, JAVA_HOME=str(home.home))


def test_a_master_that_nobody_is_at(folder: Path, java_home: JavaHome) -> None:
    args = [
        "run",
        "pipes.py:total",
        "--on",
        "spark",
        "--in",
        "events.csv",
        *KEYED,
        "--master",
        "spark://127.0.0.1:1",
    ]
    done = subprocess.run([*COMMAND, *args], env=environment(java_home), capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    # Said before a Java is started: Spark itself tries for minutes, and says something else.
    assert done.stderr.startswith(
        "pellucid: The Spark master spark://127.0.0.1:1 cannot be reached (127.0.0.1:1: Connection refused)"
    )
    assert done.stderr.count("\n") == 1


def _contents(file: Path) -> list[tuple[Any, ...]]:
    if not file.exists():
        return []
    with closing(sqlite3.connect(file, timeout=30)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchall():
            return []
        return sorted(database.execute("SELECT user, seq, out FROM totals").fetchall())


def test_a_signal_stops_a_stream_and_the_same_command_goes_on(
    spark: SparkSession, run: Command, folder: Path, java_home: JavaHome
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text(EVENTS)
    settings = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    place = ["--checkpoint", "check", "--out", "sqlite:bank.db#totals"]
    args = ["--stream", "--in", "in", *KEYED, *place, *settings]
    process = subprocess.Popen(
        [*COMMAND, "run", "pipes.py:total", "--on", "spark", *args],
        env=environment(java_home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 600
        while len(_contents(folder / "bank.db")) < 3:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    first, last = err.splitlines()
    assert (process.returncode, out) == (0, "")
    assert first == "streaming; an interrupt (Ctrl-C) or a SIGTERM stops it, and the same command goes on"
    assert last.startswith("on Spark (keys), ") and last.endswith("; stopped: the same command goes on from there")
    (folder / "in" / "2.csv").write_text("user,seq,x\na,3,100\nb,2,1\n")
    again = run("total", *args, "--trigger", "once")  # in this process: the other one is gone
    assert again.exit_code == 0, again.stderr
    assert _contents(folder / "bank.db") == sorted([*TOTALS, ("a", 3, 121), ("b", 2, 6)])
