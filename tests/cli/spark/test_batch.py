"""``pellucid run --on spark`` over what is there: in this process on the tests' own session, and what is refused before
Spark starts.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import sinks
from pellucid.internal.cli.main import cli
from tests.cli.spark.conftest import KEYED, TOTALS, Command, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        refused.stderr == "pellucid: --out totals.parquet: is there already: choose another name, remove it, or say "
        "--exists overwrite\n"
    )
    assert (folder / "totals.parquet").read_text() == "a file of somebody"
    for _ in range(2):  # the file, then the folder
        assert run(*args, "--exists", "overwrite").exit_code == 0
        assert rows(pq.read_table(folder / "totals.parquet")) == TOTALS


def test_a_failure_leaves_what_was_there(spark: SparkSession, run: Command, folder: Path) -> None:
    (folder / "zero.csv").write_text("user,seq,x\na,1,5\na,2,0\n")
    (folder / "out.csv").write_text("older")
    done = run("inverse", "--in", "zero.csv", *KEYED, "--out", "out.csv", "--exists", "overwrite")
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
    refused = run(*args, "--exists", "overwrite")
    assert (
        refused.stderr
        == "pellucid: --exists overwrite is for files: rows are added to sqlite:bank.db#totals; empty it first if you "
        "want it new\n"
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


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_columns_come_along_as_they_do_here(spark: SparkSession, run: Command, folder: Path, form: str) -> None:
    """The local run of the same command is the oracle: a cell of CSV that nobody reads is a text, an empty one null."""
    lines = [("b", 1, 5, "007", 1.5), ("a", 2, 20, None, 2.5), ("a", 1, 1, "x y", None)]
    names = ("user", "seq", "x", "code", "share")
    cells = [",".join("" if v is None else str(v) for v in line) for line in lines]
    objects = [json.dumps(dict(zip(names, line, strict=True))) for line in lines]
    (folder / "in.csv").write_text("\n".join([",".join(names), *cells, ""]))
    (folder / "in.jsonl").write_text("\n".join([*objects, ""]))
    for keep in ("code,share", "x=all"):
        args = ("--in", f"in.{form}", *KEYED, "--keep-columns", keep, "--exists", "overwrite")
        here = CliRunner().invoke(cli, ["run", "pipes.py:total", *args, "--out", "here.parquet"])
        done = run("total", *args, "--out", "there.parquet")
        assert (here.exit_code, done.exit_code) == (0, 0), here.stderr + done.stderr
        expected, found = pq.read_table(folder / "here.parquet"), pq.read_table(folder / "there.parquet")
        assert sorted(found.schema.names) == sorted(expected.schema.names) and len(expected) == 3
        assert form == "jsonl" or found.schema.names == expected.schema.names  # Spark sorts the keys of JSON
        assert found.sort_by([("user", "ascending"), ("seq", "ascending")]).to_pylist() == sorted(
            expected.to_pylist(), key=lambda row: (row["user"], row["seq"])
        )


def test_an_instant_in_parquet_is_one_for_every_reader(spark: SparkSession, run: Command, folder: Path) -> None:
    at = dt.datetime(2013, 1, 1, 5, 0, 0, 7, tzinfo=dt.UTC)
    table = pa.table({"user": ["a"], "seq": [1], "x": [3], "at": pa.array([at], pa.timestamp("us", tz="UTC"))})
    pq.write_table(table, folder / "in.parquet")
    done = run("total", "--in", "in.parquet", *KEYED, "--keep-columns", "at", "--out", "out.parquet")
    assert done.exit_code == 0, done.stderr
    found = pq.read_table(folder / "out.parquet")
    assert found.schema.field("at").type == table.schema.field("at").type and found["at"].to_pylist() == [at]


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
            "--gaps goes with --stream: in a batch, what is missing does not come any more",
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
            ["--in", "events.csv", *KEYED, "--head", "3"],
            "--head goes with the local engine: Spark has no first rows",
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
            "difference",
            ["--in", "left=events.csv", "--in", "right=events.csv", *KEYED, "--keep-columns", "left=user"],
            "difference: --keep-columns goes with one DataFrame on Spark: join the columns of several to what comes "
            "out, by key and order",
        ),
        (
            "total",
            ["--in", ".", *KEYED, "--stream", "--checkpoint", "c", "--wait", "3", "--keep-columns", "user"],
            "--keep-columns does not go with rows that wait: leave --wait and --gaps wait out, or join the columns",
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
    for option in (["--master", "local"], ["--stream"], ["--wait", "3"]):
        done = CliRunner().invoke(cli, ["run", "pipes.py:total", "--in", "events.csv", *option])
        assert (done.exit_code, done.stderr) == (2, f"pellucid: {option[0]} goes with --on spark\n")


# ``--bad`` and ``--max-bad`` on Spark: the rows that are set aside are one more output, of a batch and of a query.

FIRST = {"user": ["a", "a", "b", None], "seq": [1, 2, 1, 1], "x": [5, 0, None, 3]}
SECOND = {"user": ["a", "b", "b"], "seq": [3, 2, 3], "x": [2, 0, 10]}


def put(folder: Path, name: str, rows: dict[str, list[object]]) -> None:
    (folder / "events").mkdir(exist_ok=True)
    pq.write_table(pa.table(rows), folder / "events" / f"{name}.parquet")


def test_a_batch(spark: SparkSession, run: Command, folder: Path) -> None:
    put(folder, "1", FIRST)
    said = ["inverse", "--in", "events", *KEYED, "--out", "out.parquet"]
    done = run(*said, "--bad", "bad.jsonl", "--max-bad", 2)
    assert done.exit_code == 2 and "3 rows are bad, and --max-bad 2 allows 2: nothing more is written" in done.output
    assert not Path("out.parquet").exists() and not Path("bad.jsonl").exists()
    done = run(*said, "--bad", "bad.jsonl", "--max-bad", 3)
    assert done.exit_code == 0 and ", 1 out, 3 bad, " in done.output, done.output
    letters = spark.read.json(str(folder / "bad.jsonl")).collect()
    assert sorted((str(row.user), str(row.column), str(row.step)) for row in letters) == [
        ("None", "user", "None"), ("a", "None", "invert"), ("b", "x", "None"),
    ]  # fmt: skip
    assert all(row.file.endswith("events/1.parquet") for row in letters)


def test_a_query(spark: SparkSession, run: Command, folder: Path) -> None:
    """The count goes over all micro-batches; too many end the query before one of them is written."""
    put(folder, "1", FIRST)
    out, bad = (f"sqlite:{folder}/out.db#{name}" for name in ("sums", "bad"))
    said = ["inverse", "--in", "events", *KEYED, "--stream", "--trigger", "once", "--checkpoint", "check"]
    first = run(*said, "--out", out, "--bad", bad, "--max-bad", 3)
    assert first.exit_code == 0 and ", 1 out, 3 bad, " in first.output, first.output
    put(folder, "2", SECOND)
    again = run(*said, "--out", out, "--bad", bad, "--max-bad", 3)
    assert again.exit_code == 2 and "4 rows are bad, and --max-bad 3 allows 3" in again.output
    assert [sinks.sqlite(f"{folder}/out.db", t).read().num_rows for t in ("sums", "bad")] == [1, 3]
    last = run(*said, "--out", out, "--bad", bad, "--max-bad", 4)
    assert last.exit_code == 0 and ", 2 out, 4 bad, " in last.output, last.output
    assert [sinks.sqlite(f"{folder}/out.db", t).read().num_rows for t in ("sums", "bad")] == [3, 4]


def test_what_cannot_be_done(run: Command, folder: Path) -> None:
    put(folder, "1", FIRST)
    for said, why in (
        (["--in", "events.csv", *KEYED, "--bad", "bad.csv"], "--bad: events.csv is csv, which Spark itself reads"),
        (["--in", "events", *KEYED, "--bad", "out.csv"], "--bad out.csv: is where the output 'out' goes"),
        (["--in", "events", "--order", "seq", "--sequence", 1, "--bad", "b.csv"], "--bad does not go with --sequence"),
    ):
        done = run("inverse", *said, "--out", "out.csv")
        assert done.exit_code == 2 and why in done.output, done.output
