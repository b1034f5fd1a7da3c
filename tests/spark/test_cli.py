"""``pellucid run --on spark``: in this process on the tests' own session, and once as a real process with
signals."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid import sinks
from pellucid.cli.main import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pellucid.spark.java import JavaHome

PIPELINES = """\
from pellucid import Stream, apply, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="total")


@pipeline
def changed(x: Stream[int]) -> Stream[int]:
    return x.trim(1, id="cut")


@pipeline
def doubled(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 2 * v)


@pipeline
def inverse(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 10 // v, id="invert").cumulate(lambda t, v: t + v, start=0)


@pipeline
def words(w: Stream[str]) -> Stream[str]:
    return w.cumulate(lambda t, v: t + v, start=">")


@pipeline
def two(x: Stream[int]):
    return {"sums": x.cumulate(lambda t, v: t + v, start=0), "evens": x.filter(lambda v: v % 2 == 0)}


@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a - b, left, right)
"""

EVENTS = "user,seq,x\nb,1,5\na,2,20\na,1,1\n"
TOTALS = [("a", 1, 1), ("a", 2, 21), ("b", 1, 5)]
KEYED = ["--key", "user", "--order", "seq"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    (tmp_path / "events.csv").write_text(EVENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Command = Callable[..., Result]


@pytest.fixture
def run(folder: Path) -> Command:
    """``pellucid run pipes.py:NAME --on spark …``."""

    def call(name: str, *args: Any, before: tuple[str, ...] = ()) -> Result:
        result = CliRunner().invoke(cli, [*before, "run", f"pipes.py:{name}", "--on", "spark", *map(str, args)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


# ------------------------------------------------------------------ batch


def test_to_the_standard_output(spark: SparkSession, run: Command) -> None:
    done = run("total", "--in", "events.csv", *KEYED)
    assert done.exit_code == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"user": "a", "seq": 1, "out": 1},
        {"user": "b", "seq": 1, "out": 5},
        {"user": "a", "seq": 2, "out": 21},
    ]
    assert done.stderr.startswith("on Spark (keys), 3 out, ") and done.stderr.count("\n") == 1
    assert spark.range(1).count() == 1  # a session of another is not stopped


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_to_files(spark: SparkSession, run: Command, folder: Path, kind: str) -> None:
    done = run("total", "--in", "events.csv", *KEYED, "--out", f"totals.{kind}")
    assert done.exit_code == 0, done.stderr
    files = sorted((folder / f"totals.{kind}").glob("part-*"))
    if kind == "parquet":
        assert rows(pq.read_table(folder / "totals.parquet")) == TOTALS
    elif kind == "csv":
        assert sorted(row for file in files for row in rows(pacsv.read_csv(file))) == TOTALS
    else:
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        assert sorted(tuple(line.values()) for line in lines) == TOTALS
    assert not list(folder.glob(".*.part"))


def test_overwrite_replaces_files_and_folders(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "totals.parquet").write_text("a file of somebody")
    args = ["total", "--in", "events.csv", *KEYED, "--out", "totals.parquet"]
    refused = run(*args)
    assert refused.exit_code == 2
    assert (
        refused.stderr
        == "pellucid: --out totals.parquet: is there already: choose another name, remove it, or say --overwrite\n"
    )
    assert (folder / "totals.parquet").read_text() == "a file of somebody"
    for _ in range(2):  # the file, then the folder
        assert run(*args, "--overwrite").exit_code == 0
        assert rows(pq.read_table(folder / "totals.parquet")) == TOTALS


def test_a_failure_leaves_what_was_there(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "zero.csv").write_text("user,seq,x\na,1,5\na,2,0\n")
    (folder / "out.csv").write_text("older")
    done = run("inverse", "--in", "zero.csv", *KEYED, "--out", "out.csv", "--overwrite")
    assert done.exit_code == 2
    assert "step 'invert' (map 10 // v, pipes.py:" in done.stderr and "on the event 0: ZeroDivisionError" in done.stderr
    assert "from user='a', seq=2" in done.stderr
    assert "Traceback" not in done.stderr and "\tat org." not in done.stderr
    assert (folder / "out.csv").read_text() == "older" and not list(folder.glob(".*.part"))


def test_verbose_shows_the_plan_and_the_trace(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "zero.csv").write_text("user,seq,x\na,1,0\n")
    done = run("inverse", "--in", "zero.csv", *KEYED, "--out", "out.csv", before=("--verbose",))
    assert "inverse on Spark\nkeys: one shuffle by key" in done.stderr
    assert "Traceback" in done.stderr and done.stderr.rstrip().endswith("from user='a', seq=1")


def test_a_report_for_programs(spark: SparkSession, run: Command) -> None:
    done = run("total", "--in", "events.csv", *KEYED, "--out", "totals.parquet", "--json")
    document = json.loads(done.stdout)
    assert document.pop("seconds") > 0
    assert document == {
        "pellucid": 1,
        "verb": "run",
        "engine": "spark",
        "pipeline": "total",
        "plan": "keys",
        "in": ["events.csv"],
        "out": {"out": "totals.parquet"},
        "rows_out": 3,
    }


def test_to_a_database_twice_adds_twice(spark: SparkSession, run: Command, folder: Path) -> None:
    args = ["total", "--in", "events.csv", *KEYED, "--out", "sqlite:bank.db#totals"]
    assert run(*args).exit_code == 0 and run(*args).exit_code == 0
    assert rows(sinks.sqlite(folder / "bank.db", "totals").read()) == sorted(TOTALS * 2)
    refused = run(*args, "--overwrite")
    assert (
        refused.stderr
        == "pellucid: --overwrite is for files: rows are added to sqlite:bank.db#totals; empty it first if you want it "
        "new\n"
    )


def test_several_outputs_and_late_rows(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "twice.csv").write_text("user,seq,x\na,1,2\na,2,4\na,2,4\n")
    out = ["--out", "sums=sums.parquet", "--out", "evens=evens.parquet", "--out", "late=late.parquet"]
    done = run("two", "--in", "twice.csv", *KEYED, "--late", "keep", *out)
    assert done.exit_code == 0, done.stderr
    assert rows(pq.read_table(folder / "sums.parquet")) == [("a", 1, 2), ("a", 2, 6)]
    assert rows(pq.read_table(folder / "evens.parquet")) == [("a", 1, 2), ("a", 2, 4)]
    assert rows(pq.read_table(folder / "late.parquet")) == [("a", 2, 4)]


def test_several_sources(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "left.csv").write_text("user,seq,left\na,1,10\na,3,30\n")
    (folder / "right.jsonl").write_text('{"user": "a", "seq": 2, "right": 1}\n{"user": "a", "seq": 3, "right": 2}\n')
    done = run("difference", "--in", "left=left.csv", "--in", "right=right.jsonl", *KEYED)
    assert done.stderr.startswith("on Spark (keys), 2 out"), done.stderr
    assert [json.loads(line)["out"] for line in done.stdout.splitlines()] == [9, 28]


def test_texts_in_csv_stay_texts(spark: SparkSession, run: Command, folder: Path) -> None:
    """007 is no number where the pipeline takes texts, and an empty cell is the empty text, as in the local engine."""
    (folder / "words.csv").write_text("n,w\n1,007\n2,\n3,1.50\n")
    done = run("words", "--in", "words.csv", "--order", "n")
    assert done.exit_code == 0, done.stderr
    local = CliRunner().invoke(cli, ["run", "pipes.py:words", "--in", "words.csv", "--value", "w"])
    found = [json.loads(line)["out"] for line in done.stdout.splitlines()]
    assert found == [json.loads(line)["out"] for line in local.stdout.splitlines()] == [">007", ">007", ">0071.50"]


def test_a_pipeline_without_memory_needs_no_order(spark: SparkSession, run: Command) -> None:
    done = run("doubled", "--in", "events.csv", "--value", "x")
    assert sorted(json.loads(line)["out"] for line in done.stdout.splitlines()) == [2, 10, 40]
    assert done.stderr.startswith("on Spark (native), 3 out")


def test_bad_data_is_named(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "broken.jsonl").write_text('{"user": "a", "seq": 1, "x": 1}\n{"user": "a", "seq"\n')
    (folder / "word.jsonl").write_text('{"user": "a", "seq": 1, "x": 1}\n{"user": "a", "seq": 2, "x": "six"}\n')
    (folder / "double.csv").write_text("user,seq,x\na,1,1\na,1,2\n")
    for args, message in [
        (["--in", "none.csv"], "none.csv: no such file or folder"),
        (
            ["--in", "double.csv", "--key", "usr", "--order", "seq"],
            "double.csv: no key column 'usr': its columns are user, seq, x; did you mean 'user'?",
        ),
        (
            ["--in", "double.csv", "--key", "user", "--order", "sq"],
            "double.csv: no order column 'sq': its columns are user, seq, x; did you mean 'seq'?",
        ),
        (
            ["--in", "double.csv", "--value", "user", *KEYED],
            "double.csv: row 1 (line 2): column 'user': expected int, found 'a'; correct the value or remove the row\n",
        ),
        (
            ["--in", "double.csv", *KEYED],
            "user='a', seq=1: two rows have this order: add a column to --order that tells them apart, or",
        ),
        (["--in", "double.csv", *KEYED, "--sequence", "0"], "user='a', seq=1: seq 0 is missing"),
        (["--in", "word.jsonl", *KEYED], "word.jsonl: row 2 (line 2): column 'x': expected int, found 'six'"),
        (["--in", "broken.jsonl", *KEYED], "broken.jsonl: row 2 (line 2): no JSON value"),
    ]:
        done = run("total", *args, *([] if "--order" in args else KEYED))
        assert done.exit_code == 2
        assert done.stderr.startswith(f"pellucid: {message}"), done.stderr
        assert "\tat " not in done.stderr and "Traceback" not in done.stderr


# ------------------------------------------------------------------ refused before Spark starts


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        (
            "total",
            ["--in", "events.csv", "--key", "user"],
            "total remembers something (step 'total' (cumulate t + v, pipes.py:6)), and Spark promises nothing about "
            "the order of rows: say which column orders them with --order, and with --key which rows belong together",
        ),
        ("total", KEYED, "Spark does not read the standard input: give a file or a folder with --in"),
        (
            "total",
            ["--in", ".", *KEYED, "--stream"],
            "--stream needs --checkpoint FOLDER: there it keeps how far it has come, and goes on after a stop",
        ),
        ("total", ["--in", "events.csv", *KEYED, "--checkpoint", "c"], "--checkpoint goes with --stream"),
        ("total", ["--in", "events.csv", *KEYED, "--trigger", "once"], "--trigger goes with --stream"),
        ("total", ["--in", "events.csv", *KEYED, "--drop", "total"], "--drop goes with --stream"),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--gaps", "wait"],
            "--gaps wait goes with --stream: in a batch, what is missing does not come any more",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--partitions", "3"],
            "--partitions does not go with --stream",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--trigger", "soon"],
            "--trigger soon: expected once, or an interval such as '10 seconds'",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--wait", "long"],
            "--wait long: expected a number, in the unit of the order column, or a time such as 10s, 5m, 2h, 1d",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--out", "a.csv"],
            "--out a.csv: a stream writes a folder of Parquet files, or to a database: choose another name",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--master", "sc://host"],
            "--stream does not go with Spark Connect (sc://…), whose queries live on the server: use spark://…, or "
            "write the query in Python",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--conf", "spark.memory"],
            "--conf spark.memory: expected NAME=VALUE, as in --conf spark.executor.memory=4g",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "sqlite:a.db"],
            "--out sqlite:a.db: which table? Expected sqlite:FILE#TABLE",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "postgresql://host/db"],
            "--out postgresql://host/db: which table? Expected postgresql://USER@HOST/DATABASE#TABLE",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "kafka://host"],
            "--out kafka://host: expected kafka://HOST:PORT/TOPIC",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "a.arrow"],
            "a.arrow: Spark does not read or write Arrow files: use parquet",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "no/a.csv"],
            "--out no/a.csv: there is no folder 'no': make it first",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out", "a.tsv"],
            "--out a.tsv: Spark writes csv, jsonl or parquet: choose one of them",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--out-format", "csv"],
            "--out-format csv: on the standard output Spark's rows are JSON Lines (jsonl)",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--limit", "3"],
            "--limit goes with the local engine: Spark has no first rows",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--chunk", "3"],
            "--chunk goes with the local engine: Spark chooses how many rows go at a time",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--late", "keep", "--out", "a.csv"],
            "total has 2 outputs (out, late): give a file for each, as in --out out=a.csv",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--late", "keep", "--out", "out=a.csv"],
            "--late keep needs a place for late rows: give --out late=FILE",
        ),
        (
            "total",
            ["--in", "events.csv", *KEYED, "--json"],
            "--json puts a report on stdout: send the events to a file with --out",
        ),
    ],
    ids=lambda x: " ".join(x[-2:]) if isinstance(x, list) else x[:12],
)
def test_refused_without_spark(
    run: Command, monkeypatch: pytest.MonkeyPatch, name: str, args: list[str], message: str
) -> None:
    def started(**_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("pellucid.spark.session.session", started)
    done = run(name, *args)
    assert (done.exit_code, done.stderr) == (2, f"pellucid: {message}\n")


def test_options_of_spark_do_not_go_with_the_local_engine(folder: Path) -> None:
    for option in (["--order", "seq"], ["--master", "local"], ["--stream"], ["--late", "drop"], ["--overwrite"]):
        done = CliRunner().invoke(cli, ["run", "pipes.py:total", "--in", "events.csv", *option])
        assert (done.exit_code, done.stderr) == (2, f"pellucid: {option[0]} goes with --on spark\n")


# ------------------------------------------------------------------ streaming


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
    assert refused.exit_code == 2
    assert (
        "step 'total' (cumulate) is gone; bring it back as it was, or give up what it remembers with --drop total"
        in refused.stderr
    )
    (folder / "in" / "3.csv").write_text("user,seq,x\na,4,7\na,5,8\n")
    assert run("changed", *args, "--drop", "total").exit_code == 0
    assert rows(sinks.sqlite(folder / "bank.db", "totals").read()) == sorted([*TOTALS, ("a", 3, 121), ("a", 5, 8)])
    other_key = run("total", "--in", "in", "--order", "seq", *args[6:])
    assert "key was user when it began, and is empty now" in other_key.stderr and other_key.exit_code == 2


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
    assert refused.exit_code == 2
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


# ------------------------------------------------------------------ a process of its own

COMMAND = [sys.executable, "-m", "pellucid.cli.main"]


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
