"""``pellucid run`` on real tables: keys, order and columns that come along, from every format to every format."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from pellucid.internal.data import files as folders
from pellucid.internal.data.files import open_reader
from pellucid.internal.expr.types import INT
from pellucid.internal.load import load_pipeline
from tests.examples.oracles import example

PIPELINE = """
from typing import NamedTuple
from pellucid import Stream, pipeline

class Flight(NamedTuple):
    carrier: str
    delay: int

@pipeline
def late(f: Stream[Flight]) -> Stream[Flight]:
    return f.filter(lambda e: e.delay > 10)

@pipeline
def total(delay: Stream[int]) -> Stream[int]:
    return delay.filter(lambda v: v > 10).cumulate(lambda t, v: t + v, start=0)

@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return left - right

@pipeline
def both(delay: Stream[int]):
    return {"all": delay, "big": delay.filter(lambda v: v > 10)}

@pipeline
def tenth(delay: Stream[int]) -> Stream[int]:
    return delay.map(lambda v: 100 // (v - 5), id="part")
"""

ROWS = pa.table(
    {
        "carrier": ["UA", "AA", "UA", "B6", "UA"],
        "delay": [30, 5, 11, 12, 90],
        "seq": [2, 1, 1, 4, 3],
        "tailnum": ["N1", None, None, "N4", ""],
    }
)
TYPED = ROWS.append_column(
    "sched", pa.array([dt.datetime(2013, 1, d, 5, 6, 7, 8, tzinfo=dt.UTC) for d in (1, 2, 3, 4, 5)])
).append_column("price", pa.array([Decimal("1.50"), None, Decimal("3.25"), Decimal("-0.01"), None]))
NESTED = TYPED.append_column("tags", pa.array([["a"], [], None, ["b", None], ["é"]])).append_column(
    "where", pa.array([{"x": 1, "y": None}, None, {"x": 2, "y": "q"}, {"x": None, "y": "r"}, {"x": 0, "y": ""}])
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PIPELINE)
    return tmp_path


def write(table: pa.Table, path: str) -> None:
    if path.endswith(".csv"):
        pyarrow.csv.write_csv(table, path)
    elif path.endswith(".jsonl"):
        Path(path).write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    elif path.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=2)
    else:
        pyarrow.feather.write_feather(table, path, chunksize=2)


def read(path: str) -> list[dict[str, Any]]:
    if path.endswith(".csv"):
        options = pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        return pyarrow.csv.read_csv(path, convert_options=options).to_pylist()
    if path.endswith(".jsonl"):
        return [json.loads(line) for line in Path(path).read_text().splitlines()]
    return (pq.read_table(path) if path.endswith(".parquet") else pyarrow.feather.read_table(path)).to_pylist()


def run(*args: str, code: int = 0, stdin: bytes | None = None) -> str:
    result = CliRunner().invoke(cli, ["run", *args], input=stdin)
    said = result.stderr + (str(result.exception) if result.exception else "")
    assert result.exit_code == code, said
    return result.stdout if code == 0 else said


@pytest.mark.parametrize("chunk", ["1", "3", "1000"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("to", ["csv", "jsonl", "parquet", "arrow"])
def test_kept_from_every_format_to_every_format(here: Path, form: str, to: str, chunk: str) -> None:
    write(ROWS, f"in.{form}")
    run("p.py:late", "--in", f"in.{form}", "--out", f"out.{to}", "--keep-columns", "tailnum,seq", "--chunk", chunk)
    seq: Any = str if form == "csv" and to != "csv" else int  # a cell that nobody declared is a text
    expected = [
        {"tailnum": r["tailnum"], "seq": seq(r["seq"]), "carrier": r["carrier"], "delay": r["delay"]}
        for r in ROWS.to_pylist()
        if r["delay"] > 10
    ]
    assert read(f"out.{to}") == expected


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_every_type_comes_along_as_it_is(here: Path, form: str) -> None:
    write(NESTED, f"in.{form}")
    run("p.py:total", "--in", f"in.{form}", "--out", "out.parquet", "--keep-columns", "all", "--chunk", "2")
    found = pq.read_table("out.parquet")
    expected = NESTED.filter(pa.compute.greater(NESTED["delay"], 10))
    assert found.column_names == [*NESTED.column_names, "out"]
    assert found.drop_columns("out").to_pylist() == expected.to_pylist()
    assert found.drop_columns("out").schema.equals(expected.schema)
    run("p.py:total", "--in", f"in.{form}", "--out", "out.jsonl", "--keep-columns", "all")
    rows = read("out.jsonl")
    assert rows[0] == {
        "carrier": "UA", "delay": 30, "seq": 2, "tailnum": "N1", "sched": "2013-01-01T05:06:07.000008Z",
        "price": 1.5, "tags": ["a"], "where": {"x": 1, "y": None}, "out": 30,
    }  # fmt: skip
    assert [r["price"] for r in rows] == [1.5, 3.25, -0.01, None] and rows[1]["tags"] is None
    run("p.py:total", "--in", f"in.{form}", "--out", "out.csv", "--keep-columns", "sched,price,where")
    assert Path("out.csv").read_text().splitlines()[:3] == [
        "sched,price,where.x,where.y,out",
        "2013-01-01 05:06:07.000008Z,1.50,1,,30",
        '2013-01-03 05:06:07.000008Z,3.25,2,"q",41',
    ]


def test_json_lines_keep_what_they_hold(here: Path) -> None:
    lines = ['{"delay": 30, "a": {"b": [1, 2.5]}, "c": null}', '{"delay": 20, "a": null, "c": "x"}', '{"delay": 40}']
    Path("in.jsonl").write_text("\n".join(lines) + "\n")
    out = run("p.py:total", "--in", "in.jsonl", "--keep-columns", "a,c")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"a": {"b": [1, 2.5]}, "c": None, "out": 30},
        {"a": None, "c": "x", "out": 50},
        {"a": None, "c": None, "out": 90},
    ]
    Path("in.jsonl").write_text("\n".join([lines[0]] * 1001 + ['{"delay": 1, "a": {"b": [], "z": 1}}']) + "\n")
    said = run("p.py:total", "--in", "in.jsonl", "--out", "o.jsonl", "--keep-columns", "a", code=2)
    assert (
        "in.jsonl: row 1,002 (line 1,002): column 'a', which is kept: the key 'z' was not there in the first rows: b "
        "were" in said
    )


def oracle(frame: pd.DataFrame, key: str | None) -> list[tuple[Any, ...]]:
    """Sorted by pandas (stable), summed in plain Python."""
    sums: dict[Any, int] = {}
    out = []
    for row in frame.sort_values("seq", kind="stable").itertuples(index=False):
        k = getattr(row, key) if key else None
        if row.delay > 10:
            sums[k] = sums.get(k, 0) + row.delay
            out.append((*([k] if key else []), row.seq, sums[k]))
    return out


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("chunk", ["2", "100"])
def test_order_sorts_files(here: Path, form: str, chunk: str) -> None:
    write(ROWS, f"in.{form}")
    expected = oracle(ROWS.to_pandas(), "carrier")
    args = ("p.py:total", "--key", "carrier", "--order", "seq", "--chunk", chunk)
    run(*args, "--in", f"in.{form}", "--out", "out.jsonl")
    assert [tuple(row.values()) for row in read("out.jsonl")] == expected
    table = ROWS.sort_by([("seq", "ascending")])
    write(table, f"sorted.{form}")  # in order already: read chunk by chunk
    run(*args, "--in", f"sorted.{form}", "--out", "out.jsonl", "--keep-columns", "tailnum")
    assert [(r["carrier"], r["seq"], r["out"]) for r in read("out.jsonl")] == oracle(table.to_pandas(), "carrier")
    if form in ("csv", "jsonl"):
        out = run(*args, "--in-format", form, stdin=Path(f"in.{form}").read_bytes())
        assert [tuple(json.loads(line).values()) for line in out.splitlines()] == expected


def test_order_by_times_and_several_columns(here: Path) -> None:
    table = TYPED.set_column(2, "seq", pa.array([1, 1, 1, 1, 1])).take([4, 2, 0, 1, 3])
    write(table, "in.parquet")
    run("p.py:total", "--in", "in.parquet", "--order", "seq,sched", "--out", "out.parquet", "--keep-columns", "tailnum")
    found = pq.read_table("out.parquet")
    assert found.column_names == ["seq", "sched", "tailnum", "out"]
    assert found["out"].to_pylist() == [30, 41, 53, 143]
    assert found.schema.field("sched").type == TYPED.schema.field("sched").type


def test_order_meets_in_several_files(here: Path) -> None:
    write(pa.table({"user": ["a", "a"], "seq": [3, 1], "left": [30, 10]}), "l.csv")
    write(pa.table({"user": ["a", "a"], "seq": [2, 3], "right": [1, 2], "note": ["p", "q"]}), "r.csv")
    args = ("p.py:difference", "--in", "left=l.csv", "--in", "right=r.csv", "--key", "user", "--order", "seq")
    out = run(*args, "--keep-columns", "right=note")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"user": "a", "seq": 2, "note": "p", "out": 9},
        {"user": "a", "seq": 3, "note": "q", "out": 28},
    ]


def test_several_outputs_and_short_inputs(here: Path) -> None:
    write(ROWS, "in.csv")
    out = run("p.py:both", "--in", "in.csv", "--keep-columns", "seq", "--head", "2")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"all": {"seq": "2", "all": 30}}, {"big": {"seq": "2", "big": 30}}, {"all": {"seq": "1", "all": 5}},
    ]  # fmt: skip
    write(pa.table({"left": [5, 6]}), "l.csv")
    write(pa.table({"right": [1], "note": ["n"]}), "r.csv")
    args = ("p.py:difference", "--in", "left=l.csv", "--in", "right=r.csv", "--uneven", "silent")
    assert json.loads(run(*args, "--keep-columns", "right=note")) == {"note": "n", "out": 4}


def test_late_drop(here: Path) -> None:
    write(pa.table({"seq": [1, 1, 2], "delay": [20, 20, 30]}), "in.csv")
    out = run("p.py:total", "--in", "in.csv", "--order", "seq", "--late", "drop")
    assert [json.loads(line)["out"] for line in out.splitlines()] == [20, 50]
    write(pa.table({"seq": [1, 1, 2], "delay": [50, 20, 30], "note": ["a", "b", "c"]}), "in.csv")
    said = run("p.py:total", "--in", "in.csv", "--order", "seq", "--late", "drop", "--keep-columns", "note", code=2)
    assert "(also row 1 (line 2)), but with other values (delay=20 and delay=50, note='a' and note='b')" in said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("total", "--order", "sec"),
            "in.csv: no order column 'sec': its columns are carrier, delay, seq, tailnum; did you mean 'seq'?",
        ),
        (
            ("total", "--order", "seq"),
            "in.csv: row 3 (line 4): order seq=1 is there twice (also row 2 (line 3)): which is first is unknown; "
            "name more columns in --order, or if it is the same row twice say --late drop",
        ),
        (("total", "--late", "drop"), "--late drop needs --order, the columns that say which row comes first"),
        (
            ("total", "--order", "seq", "--late", "keep"),
            "--late keep: an output of the late rows is for Spark: here a table is sorted first, so that only a row "
            "that is there twice is late; say fail or drop",
        ),
        (
            ("total", "--keep-columns", "tail"),
            "in.csv: no column 'tail' to keep: its columns are carrier, delay, seq, tailnum; did you mean 'tailnum'?",
        ),
        (
            ("late", "--keep-columns", "delay"),
            "--keep-columns delay: the output 'out' has a column of this name itself: leave it out of --keep-columns, "
            "or rename the column before",
        ),
        (
            ("difference", "--keep-columns", "note", "--in", "right=in.csv"),
            "difference has several inputs (left, right): say of which columns pass through, as in --keep-columns "
            "left=note",
        ),
        (
            ("tenth", "--order", "seq", "--key", "carrier"),
            "from in.csv: row 2 (line 3)",
        ),
        (
            ("total", "--order", "seq", "--epoch-size", "2", "--state", "s"),
            "in.csv: row 3 (line 4): order seq=1 is there twice (also row 2 (line 3)): which is first is unknown; ",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(here: Path, args: tuple[str, ...], said: str) -> None:
    write(
        ROWS.append_column("left", ROWS["seq"]).append_column("right", ROWS["seq"])
        if args[0] == "difference"
        else ROWS,
        "in.csv",
    )
    source = "left=in.csv" if args[0] == "difference" else "in.csv"
    assert said in run(f"p.py:{args[0]}", "--in", source, "--out", "out.jsonl", *args[1:], code=2)


def test_what_csv_has_no_cell_for(here: Path) -> None:
    write(NESTED, "in.parquet")
    said = run("p.py:total", "--in", "in.parquet", "--out", "out.csv", "--keep-columns", "all", code=2)
    assert (
        "out.csv: the column 'tags' holds list<item: string>, for which csv has no form: do not keep it, or write "
        ".jsonl, .parquet or .arrow" in said
    ) or "list<element: string>" in said
    assert not Path("out.csv").exists()


# ------------------------------------------------------------------ several files, folders, packed files


def parts(folder: Path, form: str) -> None:
    """The rows in three files of a folder, the second without rows."""
    folder.mkdir(parents=True)
    for name, piece in (("1", ROWS.slice(0, 2)), ("2", ROWS.slice(0, 0)), ("3", ROWS.slice(2))):
        write(piece, f"{folder}/{name}.{form}")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_folders_patterns_and_lists(here: Path, form: str) -> None:
    parts(here / "data", form)
    if form == "jsonl":
        (here / "data" / "2.jsonl").write_text("\n")
    (here / "data" / "_SUCCESS").write_text("")
    write(ROWS, f"whole.{form}")
    args = ("p.py:total", "--keep-columns", "tailnum", "--key", "carrier", "--chunk", "2")
    expected = run(*args, "--in", f"whole.{form}")
    assert run(*args, "--in", "data") == expected
    assert run(*args, "--in", f"data/*.{form}") == expected
    assert run(*args, "--in", f"data/1.{form}", "--in", f"data/3.{form}") == expected
    assert run(*args, "--in", f"delay=data/1.{form}", "--in", f"delay=data/3.{form}") == expected
    reverse = run(*args, "--in", f"data/3.{form}", "--in", f"data/1.{form}")
    assert reverse != expected and sorted(json.loads(r)["carrier"] for r in reverse.splitlines()) == sorted(
        json.loads(r)["carrier"] for r in expected.splitlines()
    )
    in_order = ("p.py:total", "--order", "seq", "--key", "carrier")
    assert run(*in_order, "--in", "data") == run(*in_order, "--in", f"whole.{form}")


def test_hive_folders(here: Path) -> None:
    import pyarrow.dataset as ds

    table = pa.table({"year": [2013] * 4, "month": [2, 10, 10, 2], "delay": [20, 30, 40, 50], "who": list("abcd")})
    parted = ds.partitioning(pa.schema([("year", pa.int32()), ("month", pa.int32())]), flavor="hive")
    ds.write_dataset(
        table, "data", format="parquet", partitioning=parted,
    )  # fmt: skip
    run("p.py:total", "--in", "data", "--key", "month", "--keep-columns", "year,who", "--out", "out.parquet")
    found = pq.read_table("out.parquet")
    assert found.to_pydict() == {  # month=2 is read before month=10
        "month": [2, 2, 10, 10], "year": [2013] * 4, "who": ["a", "d", "b", "c"], "out": [20, 70, 30, 70],
    }  # fmt: skip
    read_by_arrow = ds.dataset("data", partitioning="hive").schema
    assert found.schema.field("year").type == read_by_arrow.field("year").type
    out = run("p.py:total", "--in", "data/year=*/month=10")
    assert [json.loads(line)["out"] for line in out.splitlines()] == [30, 70]
    out = run("p.py:total", "--in", "data", "--value", "month")
    assert [json.loads(line)["out"] for line in out.splitlines()] == []


@pytest.mark.parametrize("how", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_packed_files(here: Path, form: str, how: str) -> None:
    import bz2
    import gzip
    import lzma

    write(ROWS, f"in.{form}")
    data = Path(f"in.{form}").read_bytes()
    pack: Any = {
        "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
        "zst": lambda raw: pa.compress(raw, codec="zstd", asbytes=True),
    }[how]  # fmt: skip
    packed = Path(f"in2.{form}.{how}")
    packed.write_bytes(pack(data))
    assert run("p.py:total", "--in", str(packed)) == run("p.py:total", "--in", f"in.{form}")
    packed.write_bytes(pack(data)[:-9])
    said = run("p.py:total", "--in", str(packed), code=2)
    assert f"{packed}: the compressed file is damaged or cut off" in said
    packed.write_bytes(b"no such thing at all")
    assert f"{packed}: " in run("p.py:total", "--in", str(packed), code=2)
    if how != "gz":
        said = run("p.py:total", "--in", f"in.{form}", "--out", f"out.csv.{how}", code=2)
        assert f"out.csv.{how}: cannot be written as .{how}: end it in .gz, or pack it afterwards" in said


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_small_files_are_read_several_at_a_time(here: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "many").mkdir()
    for i in range(40):
        write(pa.table({"delay": [20 + i, 30], "who": [f"a{i}", "b"]}), f"many/{i:02}.{form}")
    looked: list[str] = []
    parts = folders._parts
    monkeypatch.setattr(folders, "_parts", lambda path, base: looked.append(path) or parts(path, base))
    reader = open_reader("many")
    (chunk,) = reader.chunks({"delay": INT}, rows=1000, keep=["who"])
    reader.close()
    assert len(looked) == 1  # the names of a folder are looked at once, not once for each file
    assert chunk.batch.num_rows == 80 and chunk.batch.column("who").to_pylist()[::2] == [f"a{i}" for i in range(40)]
    assert chunk.place.at(5).startswith(f"many/02.{form}: row 2")
    assert [c.batch.num_rows for c in open_reader("many").chunks({"delay": INT}, rows=24)] == [24, 24, 24, 8]
    write(pa.table({"delay": [5, 30], "who": ["", ""]}), f"many/20.{form}")
    (here / "many" / f"30.{form}").write_text("broken")
    said = run("p.py:tenth", "--in", "many", "--value", "delay", "--cores", "1", code=2)
    assert "failed at push 40 on the event 5: " in said and f"from many/20.{form}: row 1" in said  # it comes first
    assert "80" not in run("p.py:total", "--in", "many", "--limit", "9", "--out", "o.csv")  # what is behind is not read


def test_messages_name_the_file_and_its_row(here: Path) -> None:
    parts(here / "data", "csv")
    Path("data/3.csv").write_text("carrier,delay\nUA,3\nUA,x\n")
    said = run("p.py:total", "--in", "data", code=2)
    assert "data/3.csv: row 2 (line 3): column 'delay': expected int, found 'x'" in said
    said = run("p.py:total", "--in", "data", "--keep-columns", "tailnum", code=2)
    assert "data/3.csv: no column 'tailnum', which data/1.csv has" in said
    assert "data/4*.csv: no file matches" in run("p.py:total", "--in", "data/4*.csv", code=2)
    (here / "empty").mkdir()
    assert "empty: is a folder without files: expected one or more to read" in run(
        "p.py:total", "--in", "empty", code=2
    )
    Path("data/notes.txt").write_text("hello")
    assert "data/notes.txt: cannot tell the format from the name" in run("p.py:total", "--in", "data", code=2)
    Path("data/notes.txt").unlink()
    write(ROWS, "data/4.parquet")
    assert "is csv, but data/4.parquet is parquet: the files of an input must be of one format" in run(
        "p.py:total", "--in", "data", code=2
    )
    said = run("p.py:total", "--in", "data/1.csv", "--in", "-", code=2)
    assert "data/1.csv and -: a pipe is no file among several: give files, or the pipe alone" in said
    said = run("p.py:total", "--in", "data/1.csv", "--in", "data/1.cvs", code=2)
    assert "data/1.cvs: no such file; did you mean '1.csv'?" in said
    said = run("p.py:total", "--in", "data/1.csv", "--in", "data/3.csv", "--out", "data/3.csv", code=2)
    assert "data/3.csv: is the input and the output" in said


def test_hive_folders_that_are_refused(here: Path) -> None:
    for folder in ("d/a=1", "d/b=2"):
        (here / folder).mkdir(parents=True)
        write(ROWS, f"{folder}/x.parquet")
    assert "d/b=2/x.parquet: its folders say b, but those of d/a=1/x.parquet a: all must say the same columns" in run(
        "p.py:total", "--in", "d", code=2
    )
    (here / "e/seq=1").mkdir(parents=True)
    write(ROWS, "e/seq=1/x.parquet")
    assert "e/seq=1/x.parquet: has a column 'seq', which its folders say, too: rename one" in run(
        "p.py:total", "--in", "e", code=2
    )
    for folder, said in {
        "g/who=%FF": "g/who=%FF/x.csv: the folder 'who=%FF' says a value that is no UTF-8: rename it",
        "h/who=\udcff": "the folder 'who=\\udcff' says a value that is no UTF-8: rename it",
        "i/who=1/who=2": "i/who=1/who=2/x.csv: its folders say 'who' twice, '1' and '2': rename one",
    }.items():
        (here / folder).mkdir(parents=True)
        (here / folder / "x.csv").write_text("x\n1\n")
        assert said in run("p.py:total", "--in", folder[0], code=2)
    (here / "f/_manifest").mkdir(parents=True)
    assert "f: is written by a sink, whose manifests say which files count" in run("p.py:total", "--in", "f", code=2)


# ------------------------------------------------------------------ an output that is there already


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow"])
def test_refuse_overwrite_append(here: Path, form: str) -> None:
    write(ROWS, "in.csv")
    args = ("p.py:late", "--in", "in.csv", "--keep-columns", "tailnum", "--out", f"out.{form}")

    def rows() -> list[str]:
        return run("p.py:late", "--in", f"out.{form}", "--keep-columns", "tailnum").splitlines()

    run(*args, "--exists", "refuse")
    first = rows()
    whole = Path(f"out.{form}").read_bytes()
    said = run(*args, "--exists", "refuse", code=2)
    assert (
        f"out.{form}: is there already: choose another name, remove it, or say --exists overwrite or --exists append"
        in said
    )
    run(*args, "--exists", "overwrite")
    assert Path(f"out.{form}").read_bytes() == whole
    run(*args, "--exists", "append")
    assert rows() == first + first
    run(*args, "--exists", "append", "--head", "1")
    assert rows() == first + first + first[:1]
    Path(f"new.{form}").unlink(missing_ok=True)
    run(*args[:-1], f"new.{form}", "--exists", "append")
    assert Path(f"new.{form}").read_bytes() == whole
    before = Path(f"out.{form}").read_bytes()
    other = ("p.py:total", "--in", "in.csv", "--out", f"out.{form}", "--exists", "append")
    if "jsonl" not in form:
        said = run(*other, code=2)
        assert f"out.{form}: its columns are tailnum" in said and "out would be added" in said
        assert Path(f"out.{form}").read_bytes() == before
        assert list(here.glob(".out.*")) == []


def test_a_file_without_a_last_line_end_is_added_to(here: Path) -> None:
    write(ROWS, "in.csv")
    Path("out.csv").write_text("out\n1")
    run("p.py:total", "--in", "in.csv", "--out", "out.csv", "--exists", "append")
    assert Path("out.csv").read_text() == "out\n1\n30\n41\n53\n143\n"
    Path("out.csv").write_text("")
    run("p.py:total", "--in", "in.csv", "--out", "out.csv", "--exists", "append")
    assert Path("out.csv").read_text() == "out\n30\n41\n53\n143\n"


def test_exists_with_epochs(here: Path) -> None:
    write(ROWS, "in.csv")
    Path("out.csv").write_text("mine\n")
    args = ("p.py:total", "--in", "in.csv", "--epoch-size", "2", "--state", "s", "--out", "out.csv")
    assert "out.csv: is there already" in run(*args, "--exists", "refuse", code=2)
    assert Path("out.csv").read_text() == "mine\n"
    said = run(*args, "--exists", "append", code=2)
    assert "--exists append: with epochs a file is made of its own run's rows" in said
    said = run(*args[:-1], "sqlite:x.db#t", "--exists", "overwrite", code=2)
    assert "--exists overwrite is for files: rows are added to the output 'out'; empty it first" in said


def test_declared_times_in_a_text_are_times(here: Path) -> None:
    """2013-01-01T00:30+01:00 comes before 2013-01-01T00:00Z, though its text comes after."""
    Path("t.py").write_text(
        "from datetime import UTC, datetime\nfrom typing import Annotated, NamedTuple\nfrom pellucid import pipeline\n"
        "class E(NamedTuple):\n    at: Annotated[datetime, UTC]\n    v: int\n"
        "p = pipeline(lambda x: x.map(lambda e: e.v).cumulate(lambda t, v: t + v, start=0), x=E)\n"
    )
    rows = ["2013-01-01T00:00:00Z,1", "2013-01-01T00:30:00+01:00,10", "2013-01-01T00:00:01Z,100"]
    Path("in.csv").write_text("\n".join(["at,v", *rows]) + "\n")
    out = run("t.py:p", "--in", "in.csv", "--order", "at")
    assert [json.loads(line)["out"] for line in out.splitlines()] == [10, 11, 111]
    Path("sorted.csv").write_text("\n".join(["at,v", rows[1], rows[0], rows[2]]) + "\n")
    assert run("t.py:p", "--in", "sorted.csv", "--order", "at", "--chunk", "2") == out
    kept = run("t.py:p", "--in", "in.csv", "--keep-columns", "at")
    assert [json.loads(line)["at"] for line in kept.splitlines()] == [row.split(",")[0] for row in rows]


@pytest.mark.parametrize(
    ("given", "more"),
    [
        *[(given, more) for given in ("data", "data/*") for more in ([], ["--epoch-size", "2", "--state", "state"])],
        ("data", ["--on", "spark"]),
    ],
)
@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device"])
def test_what_is_no_file_is_refused_in_a_folder(here: Path, kind: str, given: str, more: list[str]) -> None:
    """A pipe that nobody writes to would be waited for, for ever."""
    Path("data").mkdir()
    Path("data/1.csv").write_text("delay\n11\n")
    if kind == "a named pipe":
        os.mkfifo("data/2.csv")
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("data/2.csv")
    else:
        Path("data/2.csv").symlink_to("/dev/null")
    said = run("p.py:total", "--in", given, "--out", "out.csv", *more, code=2)
    assert f"data/2.csv: is {kind}, no file: take it out of the folder, or give it alone" in said
    assert not Path("out.csv").exists()


def test_a_pattern_may_mean_one_pipe(here: Path) -> None:
    os.mkfifo("only.csv")
    threading.Thread(target=Path("only.csv").write_text, args=["delay\n11\n12\n"], daemon=True).start()
    assert run("p.py:total", "--in", "onl?.csv") == '{"out": 11}\n{"out": 23}\n'


# The flights of 2013, whole: keys, order, kept columns and nulls, from CSV and Parquet; pandas is the oracle.

PIPELINE_FLIGHTS = """
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pellucid import Stream, pipeline


class Flight(NamedTuple):
    tailnum: str | None
    dep_delay: float | None
    time_hour: Annotated[datetime, UTC]


class Alert(NamedTuple):
    when: Annotated[datetime, UTC]
    run: int


def count(run: int, f: Flight) -> tuple[int, list[Alert]]:
    if f.dep_delay is None:
        return run, []
    if f.dep_delay > 60:
        return run + 1, [Alert(f.time_hour, run + 1)]
    return 0, []


@pipeline
def alerts(flights: Stream[Flight]) -> Stream[Alert]:
    return flights.task(count, 0, id="run").filter(lambda a: a.run == 3)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("flights")
    flights = example("flights_table").frame()
    flights.insert(0, "rowid", range(len(flights)))
    flights = flights[flights.tailnum.notna()]
    flights.to_csv(out / "flights.csv", index=False)
    table = pa.Table.from_pandas(flights, preserve_index=False)
    at = table.schema.get_field_index("time_hour")
    times = pa.compute.strptime(table["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(pa.timestamp("us", "UTC"))
    table = table.set_column(at, "time_hour", times)
    (out / "parts").mkdir()
    for month in range(1, 13):
        part = out / "parts" / f"month={month}"
        part.mkdir()
        pq.write_table(table.filter(pa.compute.equal(table["month"], month)).drop_columns("month"), part / "x.parquet")
    (out / "p.py").write_text(PIPELINE_FLIGHTS)
    return out


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """In pandas: three delays over an hour in a row per plane, cancelled flights skipped."""
    flights = example("flights_table").frame()
    flights.insert(0, "rowid", range(len(flights)))
    flights = flights[flights.tailnum.notna()].sort_values(["time_hour", "rowid"])
    flown = flights[flights.dep_delay.notna()].copy()
    late = flown.dep_delay > 60
    blocks = (~late).groupby(flown.tailnum).cumsum()
    run = late.astype(int).groupby([flown.tailnum, blocks]).cumsum()
    return flown[late & (run == 3)]


@pytest.mark.parametrize("source", ["flights.csv", "parts"])
def test_three_delays_in_a_row(folder: Path, source: str, expected: pd.DataFrame) -> None:
    out = folder / f"{source}.parquet"
    args = ["--in", str(folder / source), "--out", str(out), "--key", "tailnum", "--order", "time_hour,rowid"]
    done = CliRunner().invoke(cli, ["run", f"{folder}/p.py:alerts", *args, "--keep-columns", "carrier,dest,arr_time"])
    assert done.exit_code == 0, done.stderr
    found = pq.read_table(out)
    assert found.column_names == ["tailnum", "time_hour", "rowid", "carrier", "dest", "arr_time", "when", "run"]
    assert found["rowid"].to_pylist() == expected.rowid.tolist()
    assert found["dest"].to_pylist() == expected.dest.tolist()
    assert [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in found["when"].to_pylist()] == expected.time_hour.tolist()
    arrived = pd.Series(found["arr_time"].to_pylist()).astype(float).tolist()
    assert pd.Series(arrived).equals(pd.Series(expected.arr_time.tolist()))


def test_the_same_in_memory(folder: Path, expected: pd.DataFrame) -> None:
    p = load_pipeline(f"{folder}/p.py:alerts")
    flights = pd.read_parquet(folder / "parts")
    flights["tail"] = flights.tailnum
    found = p(flights, key="tail", order=["time_hour", "rowid"], keep=["carrier"])
    assert found.rowid.tolist() == expected.rowid.tolist() and found.carrier.tolist() == expected.carrier.tolist()
