"""CSV on ``pellucid run --on spark``: cell for cell what Python's csv wrote, what the local engine reads, and what
Python's csv reads back.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid import DataError, UsageError, pipeline, sinks
from pellucid.internal.cli.main import cli
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType
from pellucid.spark import explain as explain_of_test_read
from pellucid.spark import files as spark_csv
from pellucid.spark import read_csv, read_json
from pellucid.spark.failure import explain
from pellucid.spark.files import Wanted, blamed, files_of, json_text, objects
from pellucid.spark.store import open_files
from tests.data.test_cells import CELLS, slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINES = """\
from dataclasses import dataclass

from pellucid import Stream, pipeline


@pipeline
def same(s: Stream[str]) -> Stream[str]:
    return s.map(lambda v: v + "")


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@dataclass(frozen=True)
class Mixed:
    i: int
    f: float
    b: bool
    s: str


@pipeline
def record(e: Stream[Mixed]) -> Stream[Mixed]:
    return e.filter(lambda v: True)


@dataclass(frozen=True)
class Inner:
    a: int
    b: float


@dataclass(frozen=True)
class Outer:
    seq: int
    i: Inner
    p: tuple[int, str]


@pipeline
def nested(e: Stream[Outer]) -> Stream[Outer]:
    return e.filter(lambda v: v.i.a > 0)


@pipeline
def two(x: Stream[int]):
    return {"sums": x.cumulate(lambda t, v: t + v, start=0), "evens": x.filter(lambda v: v % 2 == 0)}
"""
ON_A_LINE = [
    '"',
    ",",
    "\\",
    " ",
    "\t",
    "é",
    "x",
    "a b",
    "",
    "#",
    "'",
    "\u2028",
    "😀",
    ";",
    "|",
    "\x0b",
    "NULL",
    "nan",
    "007",
    "\x00",
    "\x01",
]
BREAKS = ["\n", "\r", "\r\n"]
KEYED = ["--key", "k", "--order", "seq"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(name: str, *args: Any, engine: str = "spark") -> Result:
    result = CliRunner().invoke(cli, ["run", f"pipes.py:{name}", "--on", engine, *map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]  # not splitlines: U+2028 is no line's end


def drawn(seed: int, pieces: list[str], count: int = 400) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(pieces, k=rng.randint(0, 6))) for _ in range(count)]


def written(file: Path, rows: Iterable[Iterable[Any]], **how: Any) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, **{"lineterminator": "\n", **how}).writerows(rows)


def read_back(folder: Path) -> list[dict[str, str]]:
    out: list[dict[str, str]] = []
    for file in folder.glob("part-*"):
        with file.open(newline="", encoding="utf-8") as stream:
            out += csv.DictReader(stream)
    return out


@pytest.mark.parametrize(
    ("name", "pieces", "how"),
    [
        ("lines.csv", ON_A_LINE, {}),
        ("crlf.tsv", ON_A_LINE, {"lineterminator": "\r\n", "delimiter": "\t", "quoting": csv.QUOTE_ALL}),
        ("breaks.csv", [*ON_A_LINE, *BREAKS], {"quoting": csv.QUOTE_ALL}),
        ("crlf_breaks.csv", [*ON_A_LINE, "\n"], {"lineterminator": "\r\n"}),
    ],
)
def test_random_cells(spark: SparkSession, folder: Path, name: str, pieces: list[str], how: dict[str, Any]) -> None:
    texts, keys = drawn(1, pieces), [k or "-" for k in drawn(2, pieces)]  # an empty cell is no key
    written(
        folder / name,
        [["seq", "k", "s", "end"], *([i, k, t, "."] for i, (k, t) in enumerate(zip(keys, texts, strict=True)))],
        **how,
    )
    local = lines(run("same", "--in", name, "--key", "k", engine="local"))
    assert [row["out"] for row in local] == texts and [row["k"] for row in local] == keys
    found = lines(run("same", "--in", name, "--key", "k", "--order", "seq"))
    assert found == [{"k": k, "seq": i, "out": t} for i, (k, t) in enumerate(zip(keys, texts, strict=True))]
    assert run("same", "--in", name, "--order", "seq", "--out", "out.csv").exit_code == 0
    back = read_back(folder / "out.csv")
    assert {int(row["seq"]): row["out"] for row in back} == dict(enumerate(texts))
    for file in (folder / "out.csv").glob("part-*"):
        again = lines(run("same", "--in", file, "--value", "out", engine="local"))
        with file.open(newline="", encoding="utf-8") as stream:
            assert [row["out"] for row in again] == [texts[int(row["seq"])] for row in csv.DictReader(stream)]


def test_a_stream_reads_the_same_cells(spark: SparkSession, folder: Path) -> None:
    texts = drawn(3, [*ON_A_LINE, *BREAKS])
    (folder / "in").mkdir()
    for part in range(2):
        written(
            folder / "in" / f"{part}.csv",
            [["seq", "s", "end"], *([i, t, "."] for i, t in enumerate(texts) if i % 2 == part)],
            quoting=csv.QUOTE_ALL,
        )
    (folder / "in" / "2.csv").write_bytes(b"seq,s,end\r\n400,plain,.\r\n401,,.\r\n")
    args = ["--in", "in", "--order", "seq", "--stream", "--trigger", "once", "--checkpoint", "check", "--out", "out"]
    done = run("same", *args)
    assert done.exit_code == 0, done.stderr
    found = sinks.read(folder / "out").to_pylist()
    assert {row["seq"]: row["out"] for row in found} == dict(enumerate([*texts, "plain", ""]))
    (folder / "in" / "3.csv").write_text("seq,s,end\n402,a,.,too much\n")
    refused = run("same", *args)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("pellucid: in/3.csv: row 1 (line 2): 4 fields, expected 3 (seq, s, end)"), (
        refused.stderr
    )
    # What Spark would take: all after the quote as one cell.  The micro-batch is refused as often as it comes, and goes
    # on once the file is fixed.
    for text, message in [
        ('402,a,.\n403,"b,.\n404,c,.\n', "line 3: a quote that is not closed ("),
        ('402,"a",.\n403,b"x,.\n', "line 3: a quote in the middle of a cell ("),
    ]:
        (folder / "in" / "3.csv").write_text(f"seq,s,end\n{text}")
        refused = run("same", *args)
        assert refused.exit_code == 2 and refused.stderr.startswith(f"pellucid: in/3.csv: {message}"), refused.stderr
    (folder / "in" / "3.csv").write_text("seq,s,end\n402,a,.\n")
    assert run("same", *args).exit_code == 0
    assert {row["seq"]: row["out"] for row in sinks.read(folder / "out").to_pylist()} == dict(
        enumerate([*texts, "plain", "", "a"])
    )


def test_numbers_headers_and_empty_cells_as_in_the_local_engine(spark: SparkSession, folder: Path) -> None:
    rows = ' 7, 1.5,true,a\n+5,1e3 ,1,""\n-0,+2,FALSE,\n007,-1.25,False, x \n9223372036854775807,.5,True,"1"\n'
    (folder / "mixed.csv").write_bytes(b"\xef\xbb\xbf i,f ,b,s\r\n" + rows.replace("\n", "\r\n").encode())
    here = sorted(map(str, lines(run("record", "--in", "mixed.csv", engine="local"))))
    there = sorted(map(str, lines(run("record", "--in", "mixed.csv"))))
    assert there == here and len(here) == 5
    # Keys: what is no int and no bool is a text; an order with blanks is still a number.
    (folder / "keys.csv").write_text('k, seq,x\n1.50, 10,1\n1.5, 9,2\n"",11,4\n1.5,8,8\n')
    found = {(row["k"], row["seq"]): row["out"] for row in lines(run("total", "--in", "keys.csv", *KEYED))}
    assert found == {("1.50", 10): 1, ("1.5", 8): 8, ("1.5", 9): 10, ("", 11): 4}
    assert {row["k"] for row in lines(run("total", "--in", "keys.csv", "--key", "k", engine="local"))} == {
        "1.50",
        "1.5",
        "",
    }


def test_the_files_of_a_micro_batch(tmp_path: Path) -> None:
    def put(path: str, *documents: Any) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("\n".join(["v1", *map(json.dumps, documents)]))

    def entry(name: str, batch: int) -> dict[str, Any]:
        return {"path": f"file:///in/{name}", "timestamp": 1, "batchId": batch}

    put("offsets/0", {}, {"logOffset": 0}, {"topic": {"0": 5}})
    put("offsets/1", {}, {"logOffset": 2}, {"topic": {"0": 6}})
    put("offsets/2", {}, {"logOffset": 2}, {"topic": {"0": 7}})
    put("sources/0/0", entry("a%20b.csv", 0))
    put("sources/0/1", entry("1.csv", 1), {"path": "s3a://far/away.csv", "batchId": 1})
    put("sources/0/2.compact", entry("a%20b.csv", 0), entry("1.csv", 1), entry("2.csv", 2))
    checkpoint = open_files(str(tmp_path))
    assert list(files_of(checkpoint, 0)) == ["/in/a b.csv"]
    assert sorted(set(files_of(checkpoint, 1))) == ["/in/1.csv", "/in/2.csv"]
    assert list(files_of(checkpoint, 2)) == list(files_of(checkpoint, 3)) == []


def test_every_spelling_of_a_number(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of the local readers, and cells drawn at random: the same numbers, the same refusals."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, DoubleType, LongType

    monkeypatch.setattr(spark_csv, "_refused", lambda cell, name, why: F.lit(None))
    rng = random.Random(6)
    pieces = [
        *"0123456789",
        "0",
        "1",
        "+",
        "-",
        ".",
        "e",
        "E",
        " ",
        "\t",
        "x",
        "_",
        "inf",
        "f",
        "d",
        "D",
        "L",
        "true",
        "False",
        "\u0663",
        "\xa0",
        "\n",
        "\x0b",
    ]
    cells = [cell for cell, *_ in CELLS] + ["".join(rng.choices(pieces, k=rng.randint(1, 5))) for _ in range(1500)]
    df = spark.createDataFrame([(i, cell) for i, cell in enumerate(cells)], "i bigint, cell string")
    kinds = {INT: LongType(), FLOAT: DoubleType(), BOOL: BooleanType(), OptionalType(INT): LongType()}
    made = df.select(
        "i", *(spark_csv._converted(F.col("cell"), kind, "x", False, t).alias(f"as {t}") for t, kind in kinds.items())
    )
    found = {row["i"]: tuple(row)[1:] for row in made.collect()}
    wrong = [
        (cell, t, found[i][k])
        for i, cell in enumerate(cells)
        for k, t in enumerate(kinds)
        if repr(found[i][k]) != repr(slow(t, cell))
    ]
    assert wrong == []


def test_what_is_no_number_is_refused_in_both_engines(spark: SparkSession, folder: Path) -> None:
    for text in ("0x10", "\u0663"):
        (folder / "in.csv").write_text(f"x,k\n1,a\n{text},a\n", encoding="utf-8")
        here, there = (
            run("total", "--in", "in.csv", *more, engine=engine)
            for engine, more in (("local", []), ("spark", ["--key", "k", "--order", "x"]))
        )
        assert here.exit_code == there.exit_code == 2
        assert (
            here.stderr
            == there.stderr
            == f"pellucid: in.csv: row 2 (line 3): column 'x': expected int, found '{text}'; correct the value or "
            "remove the row\n"
        )


def test_infinities_there_and_back(spark: SparkSession, folder: Path) -> None:
    rows = ["1,inf,true,a", "2,-Infinity,false,b", "3,1e999,true,c", "4,-0.0,true,d"]
    (folder / "in.csv").write_text("i,f,b,s\n" + "\n".join(rows) + "\n")
    expected = [(1, "inf", "a"), (2, "-inf", "b"), (3, "inf", "c"), (4, "-0.0", "d")]
    for name in ("out.csv", "out.jsonl"):
        assert run("record", "--in", "in.csv", "--out", name).exit_code == 0
        assert run("record", "--in", "in.csv", "--out", f"local.{name}", engine="local").exit_code == 0
        for source in (folder / f"local.{name}", *(folder / name).glob("part-*")):
            text = source.read_text()
            assert (("inf" in text) if name == "out.csv" else ("1e999" in text)) and "Infinity" not in text
            assert source.suffix in (".csv", ".json", ".jsonl")
        for place, engine in ((name, "spark"), (f"local.{name}", "spark"), (f"local.{name}", "local")):
            more = ["--in-format", "jsonl"] if name == "out.jsonl" else []
            found = sorted(
                (row["i"], repr(row["f"]), row["s"])
                for row in lines(run("record", "--in", place, *more, engine=engine))
            )
            assert found == expected, (place, engine)
    parts = [line for part in (folder / "out.jsonl").glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(parts)[1] == '{"i":2,"f":-1e999,"b":false,"s":"b"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b'k,s\n1,"a\n2,b\n',
            "line 2: a quote that is not closed ('1,\"a'): close it, or double it in a cell in quotes; the file may be "
            "cut off",
        ),
        (
            b'k,s\n1,"a"b\n',
            "line 2: text after a closing quote ('1,\"a\"b'): put the whole cell in quotes, and double a quote in it",
        ),
        (
            b'k,s\n1,a"b\n',
            "line 2: a quote in the middle of a cell ('1,a\"b'): put the whole cell in quotes, and double a quote in "
            "it",
        ),
        (
            b"k,s\n1,2\r3,4\n",
            "line 2: a carriage return that ends no line: give all lines the end \\n or \\r\\n, or put the cell in "
            "quotes",
        ),
        (b"k,s\n1,\xe9\n", "line 2: the text b'\\xe9' is not UTF-8: convert the file, for example with iconv -t UTF-8"),
        (
            "k,s\n1,a\n".encode("utf-16"),
            "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
        ),
    ],
)
def test_csv_is_strict(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, message: str
) -> None:
    (folder / "in.csv").write_bytes(text)
    done = run("same", "--in", "in.csv", "--order", "k")
    assert (done.exit_code, done.stderr) == (2, f"pellucid: in.csv: {message}\n")
    monkeypatch.setattr(
        "pellucid.spark.files._LOOKED_AT_HERE", 0
    )  # as for large files: only what Spark takes for odd is looked through
    done = run("same", "--in", "in.csv", "--order", "k")
    assert done.exit_code == 2 and done.stderr.startswith("pellucid: in.csv: ") and done.stderr.count("\n") == 1, (
        done.stderr
    )


def test_folders(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.spark.files._LOOKED_AT_HERE", 0)  # as for large files: Spark looks for line breaks
    place = folder / "in"
    place.mkdir()
    (place / "a.csv").write_text("k,seq,x\na,1,1\n")
    (place / "empty.csv").write_text("")
    (place / "header.csv").write_text("k,seq,x\n")
    (place / "z.csv.gz").write_bytes(gzip.compress(b'k,seq,x\n"a\nb",2,20\n'))
    both = [("a", 1), ("a\nb", 20)]
    assert sorted((row["k"], row["out"]) for row in lines(run("total", "--in", "in", *KEYED))) == both
    (place / "m.jsonl.gz").write_bytes(gzip.compress(b'{"k": "c", "seq": 3, "x": 300}\n'))
    mixed = run("total", "--in", "in", *KEYED)
    assert (mixed.exit_code, mixed.stderr) == (
        2,
        "pellucid: in: holds csv and jsonl files: say which to read with --in-format csv; only those are read then\n",
    )
    assert (
        sorted((row["k"], row["out"]) for row in lines(run("total", "--in", "in", "--in-format", "csv", *KEYED)))
        == both
    )
    assert lines(run("total", "--in", "in", "--in-format", "jsonl", *KEYED)) == [{"k": "c", "seq": 3, "out": 300}]
    (place / "other.csv").write_text("seq,k,x\n1,b,5\n")
    other = run("total", "--in", "in", "--in-format", "csv", *KEYED)
    assert other.exit_code == 2
    assert (
        ": its header is " in other.stderr
        and "all files of a folder must have the same columns, in the same order" in other.stderr
    )
    (folder / "nothing.csv").write_text("k,seq,x\n")
    nothing = run("total", "--in", "nothing.csv", *KEYED)
    assert (nothing.exit_code, nothing.stdout) == (0, "") and nothing.stderr.startswith("on Spark (keys), 0 out, ")


def test_what_is_wrong_has_its_row(spark: SparkSession, folder: Path) -> None:
    (folder / "start").mkdir()
    (folder / "start" / "1.csv").write_text("k,seq,x\n")
    stream = ["--stream", "--trigger", "once", "--checkpoint", "check", "--out", "out"]
    for text, message in [
        (
            "k,seq,x\na,1,5\na,2,six\n",
            "bad.csv: row 2 (line 3): column 'x': expected int, found 'six'; correct the value or remove the row",
        ),
        (
            "k,seq,x,more\na,1,5,m\na,2,6\n",
            "bad.csv: row 2 (line 3): 3 fields, expected 4 (k, seq, x, more): complete the row or remove it",
        ),
        (
            "k,seq,x\na,1,99999999999999999999\n",
            "bad.csv: row 1 (line 2): column 'x': 99999999999999999999 does not fit in 64 bits",
        ),
        ("k,seq,x\na,1,\n", "bad.csv: k='a', seq=1: column 'x' is null: expected int"),
        ("k,seq,x,x\na,1,1,1\n", "bad.csv: two columns are called 'x': rename one"),
        ("k;seq;x\na;1;1\n", "bad.csv: its header is one column 'k;seq;x': its fields must be parted by commas"),
        ("", "bad.csv: holds no csv file with columns: put one there first"),
        (
            'k,seq,x\n"a\nb",1,1\n"a",2,2\r\n',
            "bad.csv: column 'x': a carriage return is at the end of the line, but not of the first line",
        ),
    ]:
        (folder / "bad.csv").write_bytes(text.encode())
        done = run("total", "--in", "bad.csv", *KEYED, "--out", "out.csv")
        assert done.exit_code == 2 and done.stderr.startswith(f"pellucid: {message}"), done.stderr
        assert not (folder / "out.csv").exists()
    begun = run("total", "--in", "start", *KEYED, *stream)
    assert (
        begun.stderr
        == "pellucid: start: its files hold no rows yet, and nothing shows what is in k, seq: put a file with a row "
        "there first\n"
    )


def test_outputs_that_nobody_wants_are_told(spark: SparkSession, folder: Path) -> None:
    (folder / "in.csv").write_text("seq,x\n1,1\n2,2\n")
    done = run("two", "--in", "in.csv", "--value", "x", "--order", "seq", "--out", "sums=sums.csv")
    assert done.exit_code == 0 and done.stderr.startswith("not written: evens (no --out evens=…)\non Spark (")
    quiet = run("two", "--in", "in.csv", "--value", "x", "--order", "seq", "--out", "sums=more.csv", "--json")
    assert quiet.exit_code == 0 and quiet.stderr.startswith("on Spark (")


@pytest.mark.skipif(not Path("/proc/sys").is_dir(), reason="there is no folder that takes no files from root, either")
def test_a_place_that_takes_no_files_is_refused_before_spark_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(**_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("pellucid.spark.session.session", started)
    (folder / "in.csv").write_text("k,seq,x\na,1,1\n")
    batch = run("total", "--in", "in.csv", *KEYED, "--out", "/proc/x.parquet")
    assert batch.exit_code == 2
    assert (
        batch.stderr.startswith("pellucid: --out /proc/x.parquet: cannot be written: the folder /proc takes no files (")
        and batch.stderr.count("\n") == 1
    )
    stream = ["--stream", "--checkpoint", "/proc/sys/a/b", "--out", "out"]
    query = run("total", "--in", ".", *KEYED, *stream)
    assert query.exit_code == 2 and query.stderr.startswith(
        "pellucid: --checkpoint /proc/sys/a/b: cannot be written: the folder /proc/sys takes no files"
    )
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "pipes.py"]


def test_the_words_of_a_message_stay_where_no_row_is_found(folder: Path) -> None:
    (folder / "good one.csv").write_text("x\n1\n")
    place = (folder / "good one.csv").as_uri()
    assert (
        blamed(f"{place}: Spark cannot read a value: x", ["good one.csv"])
        == "good one.csv: Spark cannot read a value: x"
    )
    assert (
        blamed("file:///no/such.csv: column 'x': expected int, found 'a'", ["in"])
        == "/no/such.csv: column 'x': expected int, found 'a'"
    )
    assert blamed("nothing about files", ["in"]) == "nothing about files"


def test_records_in_records_go_round(spark: SparkSession, folder: Path) -> None:
    """Structs in Parquet, objects in JSON, dotted columns in CSV: the same from Spark and from the local engine, and
    each reads the other's."""
    rows = [
        {"seq": i, "i": {"a": i, "b": b}, "p": {"_0": i, "_1": t}} for i, b, t in ((1, 0.5, "x"), (2, float("inf"), ""))
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row).replace("Infinity", "1e999") + "\n" for row in rows))
    flat = [
        {"seq": str(r["seq"]), "i.a": str(r["seq"]), "i.b": b, "p._0": str(r["seq"]), "p._1": t}
        for r, (b, t) in zip(rows, (("0.5", "x"), ("inf", "")), strict=True)
    ]
    for ending in ("parquet", "csv", "jsonl"):
        assert run("nested", "--in", "in.jsonl", "--out", f"here.{ending}", engine="local").exit_code == 0
        assert run("nested", "--in", f"here.{ending}", "--out", f"there.{ending}").exit_code == 0
        (part,) = [f for f in (folder / f"there.{ending}").iterdir() if f.name.startswith("part-")]
        assert lines(run("nested", "--in", part, "--in-format", ending, engine="local")) == rows
    assert sorted(read_back(folder / "there.csv"), key=lambda row: row["seq"]) == flat
    with (folder / "here.csv").open(newline="", encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == flat


# JSON Lines on ``pellucid run --on spark``: what the local engine reads, refused where it refuses, in a batch and
# in a stream.

PIPELINES_JSON = """\
from typing import NamedTuple

from pellucid import Stream, pipeline


class Inner(NamedTuple):
    f: float
    s: str


class Outer(NamedTuple):
    i: int
    b: bool
    at: Inner


@pipeline
def record(e: Stream[Outer]) -> Stream[Outer]:
    return e.filter(lambda v: True)


@pipeline
def same(s: Stream[str]) -> Stream[str]:
    return s.map(lambda v: v + "")
"""
WANTED = Wanted({"i": INT, "f": FLOAT, "b": BOOL, "s": STR}, keys=["k"])
GOOD = '{"i":1,"f":1,"b":true,"s":"a","k":"k"}\n'


@pytest.fixture
def folder_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES_JSON)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(spark: SparkSession, file: Path) -> list[Any]:
    return [tuple(row[n] for n in "ifbsk") for row in objects(spark, str(file), str(file), False, WANTED).collect()]


def test_what_is_read(spark: SparkSession, folder_json: Path) -> None:
    text = (
        '\ufeff{"i":1,"f":99999999999999999999,"b":true,"s":"\\ud83d\\ude00","k":"k","more":{"x":[1,{"y":2}]}}\r\n'
        ' \t\r\n  {"k":"é","s":"}{","b":false,"f":-1e999,"i":-9223372036854775808}  \n\n'
        '{"i":3,"f":-2.5e-3,"b":true,"s":"\\u0000\\"\\\\","k":null,"more":null}'
    )
    (folder_json / "in.jsonl").write_text(text, encoding="utf-8", newline="")
    assert read(spark, folder_json / "in.jsonl") == [
        (1, 1e20, True, "😀", "k"),
        (-(2**63), float("-inf"), False, "}{", "é"),
        (3, -0.0025, True, '\x00"\\', None),
    ]


def test_a_zero_may_be_negative(spark: SparkSession, folder_json: Path) -> None:
    """Here -0 is the float -0.0, and on Spark refused; as a whole number, or with a point, it is read."""
    (folder_json / "in.jsonl").write_text('{"i":-0,"f":-0.0,"b":true,"s":"\\"f\\":-0,","k":"k"}\n')
    ((i, f, _, _, _),) = read(spark, folder_json / "in.jsonl")
    assert (i, math.copysign(1, f)) == (0, -1)
    (folder_json / "in.jsonl").write_text('{"i":-0,"b":true,"at":{"f":-0,"s":"a"}}\n')
    assert '"f": -0.0' in run("record", "--in", "in.jsonl", engine="local").stdout


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            '{"i":1,"f":1,"b":true,"s":"a","s":"b","k":"k"}',
            "in.jsonl: the key 's' comes twice, in one object or but for",
        ),
        (GOOD.strip() * 2, "more than that on a line"),
        (GOOD.strip() + " more", "more than that on a line"),
        (GOOD.strip() + "," + GOOD.strip(), "more than that on a line"),
        (GOOD.strip() + "],[1", "more than that on a line"),
        ("[" + GOOD.strip() + "]", "no JSON object"),
        ('{"i":1,"f":1,"b":true,"s":"\\ud800","k":"k"}', "no JSON object"),
        ("{'i':1,'f':1,'b':true,'s':'a','k':'k'}", ""),
        ('{"i":1,"f":NaN,"b":true,"s":"a","k":"k"}', ""),
        ('{"i":1,"f":1,"b":true,"s":5,"k":"k"}', "column 's': expected str"),
        ('{"i":1,"f":1,"b":true,"s":"a","k":5}', "column 'k': expected str"),
        ('{"i":99999999999999999999,"f":1,"b":true,"s":"a","k":"k"}', ""),
        (b'{"i":1,"f":1,"b":true,"s":"\xe9","k":"k"}', ""),
        ('{"i":1,"f": -0 ,"b":true,"s":"a","k":"k"}', "column 'f': -0 is 0 for Spark: write -0.0, or 0"),
        ('{"i":1,"\\u0066":-0,"b":true,"s":"a","k":"k"}', "column 'f': -0 is 0 for Spark"),
    ],
)
def test_what_is_refused(spark: SparkSession, folder_json: Path, line: str | bytes, why: str) -> None:
    (folder_json / "in.jsonl").write_bytes(
        GOOD.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n" + GOOD.encode()
    )
    with pytest.raises(Exception) as raised:
        read(spark, folder_json / "in.jsonl")
    ours = explain(raised.value) or raised.value
    assert why in str(ours), ours


def test_both_engines(spark: SparkSession, folder_json: Path) -> None:
    (folder_json / "in.jsonl").write_text(
        '{"i":1,"b":true,"at":{"f":1e999,"s":"a"}}\n{"i":2,"b":false,"at":{"f":0.1,"s":"é"}}\n', encoding="utf-8"
    )
    assert run("record", "--in", "in.jsonl", "--out", "here.jsonl", engine="local").exit_code == 0
    assert run("record", "--in", "in.jsonl", "--out", "out.jsonl").exit_code == 0
    parts = [
        line
        for part in (folder_json / "out.jsonl").glob("part-*.json")
        for line in part.read_text(encoding="utf-8").split("\n")
        if line
    ]
    assert sorted(parts) == ['{"i":1,"b":true,"at":{"f":1e999,"s":"a"}}', '{"i":2,"b":false,"at":{"f":0.1,"s":"é"}}']
    printed = run("record", "--in", "out.jsonl")
    assert sorted(printed.stdout.split("\n")[:-1]) == sorted(parts), printed.stderr
    (folder_json / "in.jsonl").write_text('{"s":"a","k":1}\n{"s":"b","k":1}{"s":"c","k":2}\n')
    here, there = run("same", "--in", "in.jsonl", engine="local"), run("same", "--in", "in.jsonl", "--order", "k")
    assert here.exit_code == there.exit_code == 2 and here.stderr == there.stderr, there.stderr
    assert here.stderr.startswith("pellucid: in.jsonl: row 2 (line 2): no JSON value (Extra data at character ")


def test_a_stream(spark: SparkSession, folder_json: Path) -> None:
    (folder_json / "in").mkdir()
    (folder_json / "in" / "1.jsonl").write_text('{"s":"a","k":1}\n{"s":"b","k":2}\n')
    args = ["--in", "in", "--order", "k", "--stream", "--trigger", "once", "--checkpoint", "check", "--out", "out"]
    assert run("same", *args).exit_code == 0
    assert [row["out"] for row in sinks.read(folder_json / "out").to_pylist()] == ["a", "b"]
    (folder_json / "in" / "2.jsonl").write_text('{"s":"c","k":3} {"s":"d","k":4}\n')
    refused = run("same", *args)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("pellucid: in/2.jsonl: row 1 (line 1): no JSON value (Extra data at character "), (
        refused.stderr
    )


def test_what_is_written(spark: SparkSession) -> None:
    df = spark.sql(
        "select 1 a, double('-infinity') b, double(null) `c.d`, string(null) e, named_struct('x', float('infinity'), "
        "'y', 'q\"', 'z', double(null)) f, true g, 1e10D h"
    )
    line = df.select(json_text(df.schema)).head()[0]
    assert line == '{"a":1,"b":-1e999,"f":{"x":1e999,"y":"q\\""},"g":true,"h":1.0E10}'
    assert json.loads(line)["f"]["x"] == float("inf")
    nan = spark.sql("select double('nan') mean")
    with pytest.raises(Exception, match="column 'mean' has a NaN, for which JSON has no word"):
        nan.select(json_text(nan.schema)).collect()


# ``read_csv`` and ``read_json``: text files for a pipeline, from Python, as the local engine reads them.

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
words = pipeline(lambda w: w.map(lambda v: v), w=str)
both = pipeline(lambda a, b: a + b, a=int, b=int)


def rows(df: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.select(*columns).collect())


def test_csv_for_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('user,seq,x\n"a",1, 3\na,2,"4"\nb,1,5\n')
    df = read_csv(spark, tmp_path / "in.csv", total, key="user", order="seq")
    assert rows(df, "user", "seq", "x") == [("a", 1, 3), ("a", 2, 4), ("b", 1, 5)]
    assert rows(total.spark(df, key="user", order="seq"), "out") == [(3,), (5,), (7,)]
    (tmp_path / "in.tsv").write_text('w\n"a\\b"\n""\n')
    assert rows(read_csv(spark, tmp_path / "in.tsv", words, sep="\t"), "w") == [("",), ("a\\b",)]
    assert rows(read_csv(spark, tmp_path / "in.csv", {"seq": float, "x": str}), "seq", "x")[0] == (1.0, " 3")


class Visit(NamedTuple):
    user: str
    at: datetime
    n: int | None


def test_times_in_a_form_and_ints_with_holes(spark: SparkSession, tmp_path: Path) -> None:
    """From texts and from a DataFrame; the local run is the oracle."""
    visits = pipeline(lambda v: v.map(lambda e: (e.at.day, e.n or 0)), v=Visit)
    lines = ["user,seq,at,n", "a,1,31/12/2013 05:00,3.0", "a,2,1/2/2014 00:30,", "b,1,02/01/2014 1:5,7", ""]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    form = {"at": "%d/%m/%Y %H:%M"}
    df = read_csv(spark, tmp_path / "in.csv", visits, key="user", order="seq")
    here = visits(pcsv.read_csv(tmp_path / "in.csv"), time_format=form)
    told = sorted(tuple(row.values()) for row in here.to_pylist())
    assert told == [(1, 0), (2, 7), (31, 3)]
    assert rows(visits.spark(df, time_format=form), "out_0", "out_1") == told
    sums = pipeline(lambda v: v.cumulate(lambda t, e: t + e.at.day + (e.n or 0), start=0), v=Visit)
    floats = df.withColumn("n", df.n.cast("double"))  # as pandas writes it
    assert rows(sums.spark(floats, key="user", order="seq", time_format=form), "out") == [(9,), (34,), (35,)]
    said = {"key": "user", "order": "seq"}
    with pytest.raises(Exception) as caught:
        sums.spark(floats.withColumn("n", floats.n / 2), time_format=form, **said).collect()
    assert "column 'n': expected a whole number or null, but 1.5 is none" in str(explain_of_test_read(caught.value))
    with pytest.raises(Exception) as caught:
        sums.spark(df, time_format={"at": "%m/%d/%Y %H:%M"}, **said).collect()
    assert "column 'at': expected datetime (as %m/%d/%Y %H:%M), found '31/12/2013 05:00'" in str(
        explain_of_test_read(caught.value)
    )
    holes = pipeline(lambda n: n.map(lambda v: v or 0), n=int | None)  # Spark's own expressions
    assert rows(holes.spark(floats, value="n"), "out") == [(0,), (3,), (7,)]
    with pytest.raises(Exception) as caught:
        holes.spark(floats.withColumn("n", floats.n / 2), value="n").collect()
    assert "column 'n': expected a whole number or null, but 1.5 is none" in str(explain_of_test_read(caught.value))
    with pytest.raises(UsageError, match="order=: the column 'at' is a text on Spark, and would be put in order"):
        sums.spark(df, key="user", order="at", time_format=form)


def test_json_for_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k": "a", "n": 1, "v": 3}\n{"k": "a", "n": 2, "v": 4}\n')
    df = read_json(spark, tmp_path / "in.jsonl", total, value="v", key="k", order="n")
    assert rows(total.spark(df, value="v", key="k", order="n"), "n", "out") == [(1, 3), (2, 7)]
    (tmp_path / "twice.jsonl").write_text('{"w": "a", "w": "b"}\n')
    with pytest.raises(Exception) as caught:
        read_json(spark, tmp_path / "twice.jsonl", words).collect()
    assert "twice" in str(explain_of_test_read(caught.value) or caught.value)


def test_what_is_refused_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file or folder"):
        read_csv(spark, "nowhere.csv", total)
    with pytest.raises(UsageError, match="a stream reads a folder"):
        read_csv(spark, tmp_path / "in.csv", both, stream=True)
    with pytest.raises(UsageError, match="expected the pipeline that the rows are for, or a dict"):
        read_csv(spark, tmp_path / "in.csv", "both")
    with pytest.raises(UsageError, match="has no source 'c': its sources are a, b"):
        read_csv(spark, tmp_path / "in.csv", both, source="c")


class Reading(NamedTuple):
    seq: int
    i: int | None
    f: float | None
    s: str | None
    at: datetime | None
    t: str


def test_words_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """As the local engine reads them; where Spark cannot tell a word from the same in quotes, it is refused."""
    same = pipeline(lambda v: v.map(lambda e: e), v=Reading)
    lines = ["seq,i,f,s,at,t", "1,NA,-999,NA,NA,NA", '2,-999,,"",2013-01-02T03:04,x', "3,7,1.5, NA,,-999", ""]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(lines))
    same.run_epochs(str(path), str(tmp_path / "out.parquet"), state=tmp_path / "s", pushes=2, nulls=["NA", "-999"])
    here = sorted(tuple(row.values()) for row in pq.read_table(tmp_path / "out.parquet").to_pylist())
    assert here[0] == (1, None, None, None, None, "NA") and here[2][3] == " NA"
    df = same.spark(read_csv(spark, path, same, nulls=["NA", "-999"]))
    assert rows(df, *Reading._fields) == here
    with pytest.raises(Exception) as caught:
        read_csv(spark, path, {"i": bool | None}, nulls="NA").select("i").collect()
    assert "column 'i': expected bool (true or false), found '-999'" in str(explain_of_test_read(caught.value))
    with pytest.raises(UsageError, match=r"nulls=\['NA'\]: does not go with a stream of CSV files on Spark"):
        read_csv(spark, tmp_path, same, nulls="NA", stream=True)
    with pytest.raises(UsageError, match=r"nulls=\['NA'\]: is for columns that are declared as T | None"):
        read_csv(spark, path, total, value="i", nulls="NA")
    path.write_text('seq,i,f,s,at,t\r\n1,,,x,,"NA"\r\n')
    with pytest.raises(DataError, match=r"stands in quotes \('1,,,x,,\"NA\"'\), which is a text"):
        read_csv(spark, path, same, nulls="NA")
