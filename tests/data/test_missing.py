"""Words for nothing in CSV files: None where ``T | None`` is declared and the cell is not in quotes, and nowhere else.

What comes out is compared with what a reader says that is written here, from the meaning: it goes through the
characters of a line, and knows which cells are in quotes.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from click.testing import CliRunner

from pellucid import DataError, Scale, StateError, Stream, UsageError, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.data.describe import describe, record_source


class Row(NamedTuple):
    seq: int
    i: int | None
    f: float | None
    b: bool | None
    s: str | None
    d: dt.date | None
    m: Annotated[Decimal, Scale(2)] | None
    t: str  # may not be missing: NA is a text there


PIPELINES = """
import datetime as dt
from decimal import Decimal
from typing import Annotated, NamedTuple
from pellucid import Scale, Stream, pipeline

class Row(NamedTuple):
    seq: int
    i: int | None
    f: float | None
    b: bool | None
    s: str | None
    d: dt.date | None
    m: Annotated[Decimal, Scale(2)] | None
    t: str

@pipeline
def same(x: Stream[Row]) -> Stream[Row]:
    return x.map(lambda r: r)

class Strict(NamedTuple):
    n: int
    s: str | None
    day: dt.date

@pipeline
def strict(x: Stream[Strict]) -> Stream[int]:
    return x.map(lambda r: r.n)

total = pipeline(lambda x: x.cumulate(lambda a, b: a + b, start=0), x=int)
"""
WORDS = ["NA", "-999", "\\N"]
FIELDS = list(Row._fields)
CELLS = {
    "i": ["7", "NA", "-999", "", "\\N", "-5"],
    "f": ["1.5", "NA", "-999", "", "-999.0", "\\N"],
    "b": ["true", "NA", "", "0"],
    "s": ["NA", '"NA"', "", '""', "word", '"a, ""b"""', "\\N", '"\\N"', "na", " NA"],
    "d": ["2013-01-02", "NA", "", "\\N"],
    "m": ["12.50", "NA", "-999", ""],
    "t": ["NA", '"NA"', "x", "", '""', "-999"],
}


def text(count: int, *, slow: bool, delimiter: str = ",") -> str:
    """Rows of all kinds of cells; ``slow``: with a cell that the fast parser does not take."""
    rng = random.Random(count)
    lines = [delimiter.join(FIELDS)]
    for seq in range(count):
        cells = [str(seq), *(rng.choice(CELLS[name]) for name in FIELDS[1:])]
        if slow and seq % 50 == 1:
            cells[1] = rng.choice(["+5", '"-999"', '""'])
        lines.append(delimiter.join(cells).replace(", ", f"{delimiter} " if delimiter != "," else ", "))
    return "\n".join(lines) + "\n"


def cells_of(line: str, delimiter: str) -> list[tuple[str, bool]]:
    """The cells of a line, and whether each is in quotes: one character after the other."""
    out, cell, quoted, inside, at = [], "", False, False, 0
    while at < len(line):
        c = line[at]
        if inside and c == '"' and line[at + 1 : at + 2] == '"':
            cell, at = cell + '"', at + 1
        elif c == '"':
            inside, quoted = not inside, True
        elif c == delimiter and not inside:
            out.append((cell, quoted))
            cell, quoted = "", False
        else:
            cell += c
        at += 1
    return [*out, (cell, quoted)]


def told(data: str, delimiter: str = ",") -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    reads: dict[str, Any] = {
        "seq": int, "i": int, "f": float, "b": lambda c: c in ("true", "1"), "s": str, "d": str, "m": float, "t": str,
    }  # fmt: skip
    out = []
    for line in data.splitlines()[1:]:
        row: dict[str, Any] = {}
        for name, (cell, quoted) in zip(FIELDS, cells_of(line, delimiter), strict=True):
            nothing = not quoted and (cell == "" or cell in WORDS)
            if cell == "" and name != "s":
                nothing = True  # an empty number is none, quoted or not
            row[name] = (cell if name == "t" else None) if nothing else reads[name](cell)
        out.append(row)
    return out


def run(folder: Path, *args: str) -> Any:
    (folder / "pipelines.py").write_text(PIPELINES)
    return CliRunner().invoke(cli, ["run", f"{folder}/pipelines.py:{args[0]}", *args[1:]])


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


NULLS = [part for word in WORDS for part in ("--null", word)]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("count", [3, 4000])
@pytest.mark.parametrize("more", [[], ["--order", "seq"], ["--epoch-size", "700", "--state", "state"]])
def test_a_word_is_none_where_that_is_declared(tmp_path: Path, slow: bool, count: int, more: list[str]) -> None:
    data = text(count, slow=slow)
    (tmp_path / "in.csv").write_text(data)
    more = [str(tmp_path / "state") if part == "state" else part for part in more]
    done = run(tmp_path, "same", "--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.jsonl", *NULLS, *more)
    assert done.exit_code == 0, done.output
    found = rows_in(tmp_path / "out.jsonl")
    assert [{k: row[k] for k in FIELDS} for row in found] == told(data)


@pytest.mark.parametrize("name", ["in.tsv", "in.csv.gz", "folder"])
def test_in_tsv_packed_and_in_folders(tmp_path: Path, name: str) -> None:
    delimiter = "\t" if name == "in.tsv" else ","
    data = text(300, slow=True, delimiter=delimiter)
    if name == "folder":
        (tmp_path / name).mkdir()
        head, *lines = data.splitlines()
        for part in range(3):
            mine = lines[100 * part : 100 * part + 100]
            (tmp_path / name / f"{part}.csv").write_text("\n".join([head, *mine, ""]))
    elif name.endswith("gz"):
        (tmp_path / name).write_bytes(gzip.compress(data.encode()))
    else:
        (tmp_path / name).write_text(data)
    for more in ([], ["--epoch-size", "70", "--state", f"{tmp_path}/state"]):
        done = run(tmp_path, "same", "--in", f"{tmp_path}/{name}", "--out", f"{tmp_path}/out.jsonl", *NULLS, *more)
        assert done.exit_code == 0, done.output
        assert rows_in(tmp_path / "out.jsonl") == told(data, delimiter)


@pytest.mark.parametrize("more", [[], ["--epoch-size", "2", "--state", "state"]])
def test_kept_columns_and_keys(tmp_path: Path, more: list[str]) -> None:
    """A column that comes along is what it is read as, or, where nobody reads it, a text."""
    (tmp_path / "in.csv").write_text('n,s,day,note\n1,NA,2013-01-01,NA\n2,"NA",2013-01-01,x\n3,,2013-01-01,\n')
    more = [str(tmp_path / "state") if part == "state" else part for part in more]
    given = ["--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.jsonl", "--key", "s", "--keep-columns", "note"]
    done = run(tmp_path, "strict", *given, "--null", "NA", *more)
    assert done.exit_code == 0, done.output
    found = [(row["s"], row["note"], row["out"]) for row in rows_in(tmp_path / "out.jsonl")]
    assert found == [(None, "NA", 1), ("NA", "x", 2), (None, None, 3)]


WHERE = "row 1 (line 2): column"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            "NA,a,2013-01-01",
            f"{WHERE} 'n': expected int, found 'NA'; if 'NA' says that nothing is there: declare int | None, and say "
            "--null NA of the CSV file (in JSON write null)",
        ),
        (
            "1,a,NA",
            f"{WHERE} 'day': expected date (such as 2013-01-01), found 'NA'; if 'NA' says that nothing is there: "
            "declare date | None, and say --null NA of the CSV file (in JSON write null)",
        ),
    ],
)
def test_where_nothing_may_be_missing_a_word_is_refused(tmp_path: Path, cells: str, says: str) -> None:
    (tmp_path / "in.csv").write_text(f"n,s,day\n{cells}\n")
    done = run(tmp_path, "strict", "--in", f"{tmp_path}/in.csv", "--null", "NA")
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_word_in_quotes_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(",".join(FIELDS) + '\n0,"NA",,,,,,x\n')
    done = run(tmp_path, "same", "--in", f"{tmp_path}/in.csv", "--null", "NA")
    assert done.exit_code == 2
    assert "column 'i': expected int, found 'NA'; if 'NA' says that nothing is there: say --null NA" in done.stderr


@pytest.mark.parametrize("more", [[], ["--epoch-size", "100", "--state", "state"]])
def test_with_rows_that_are_bad(tmp_path: Path, more: list[str]) -> None:
    data = text(900, slow=True)
    lines = data.splitlines()
    for at in (5, 300, 301):
        lines[at] = lines[at].replace(f"{at - 1},", f"{at - 1}x,", 1)
    lines[700] = '699,"NA",,,,,,x'  # in quotes: a text, and no int
    lines[701] = "700,NA"
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    more = [str(tmp_path / "state") if part == "state" else part for part in more]
    places = ["--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.jsonl", "--bad", f"{tmp_path}/bad.jsonl"]
    done = run(tmp_path, "same", *places, *NULLS, *more)
    assert done.exit_code == 0, done.output
    gone = {4, 299, 300, 699, 700}
    assert rows_in(tmp_path / "out.jsonl") == [row for row in told(data) if row["seq"] not in gone]
    assert [(row["row"], row["column"]) for row in rows_in(tmp_path / "bad.jsonl")] == [
        (5, "seq"), (300, "seq"), (301, "seq"), (700, "i"), (701, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline_name", "name", "words", "says"),
    [
        (
            "total",
            "in.csv",
            ["NA"],
            "--null NA: is for columns that are declared as T | None, and pipeline reads none: its columns are x: int; "
            "declare one as int | None",
        ),
        (
            "same",
            "in.jsonl",
            ["NA", "-"],
            "--null NA --null -: is for CSV files, in which nothing has many names: other formats have a null of their "
            "own; leave it out",
        ),
        ("same", "in.csv", [""], "--null: an empty cell is None anyway: leave the empty word out"),
        (
            "same",
            "in.csv",
            ['"NA"'],
            "--null: '\"NA\"' is no cell without quotes: a word for nothing has no quote and no line end",
        ),
    ],
)
def test_words_that_say_nothing(tmp_path: Path, pipeline_name: str, name: str, words: list[str], says: str) -> None:
    line = json.dumps(dict.fromkeys(FIELDS)) if name.endswith("jsonl") else "x\n1\n"
    if pipeline_name == "same" and name.endswith("csv"):
        line = text(2, slow=False)
    (tmp_path / name).write_text(line)
    given = [part for word in words for part in ("--null", word)]
    done = run(tmp_path, pipeline_name, "--in", f"{tmp_path}/{name}", *given)
    assert done.exit_code == 2
    assert says in done.stderr


@pipeline
def same(x: Stream[Row]) -> Stream[Row]:
    return x.map(lambda r: r)


def test_a_state_folder_knows_its_words(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", str(tmp_path / "out.jsonl")
    path.write_text(text(50, slow=False))
    said: dict[str, Any] = {"state": tmp_path / "state", "pushes": 10}
    same.run_epochs(str(path), out, nulls=WORDS, **said)
    same.run_epochs(str(path), out, nulls=WORDS[::-1], **said)  # the same words
    for other in (["NA"], None):
        with pytest.raises(StateError, match=r"belongs to another run: nulls= was .*NA.* when it began"):
            same.run_epochs(str(path), out, nulls=other, **said)


def test_in_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nulls=: expected words for nothing, as in nulls=\['NA', '-999'\], found 7"):
        same.run_epochs("in.csv", "out.jsonl", state=tmp_path, pushes=1, nulls=7)
    with pytest.raises(UsageError, match=r"nulls= .*it names cells of CSV files: .*put None in their place"):
        same([], nulls=["NA"])
    with pytest.raises(DataError, match="no such file"):
        same.run_epochs(str(tmp_path / "in.csv"), "out.jsonl", state=tmp_path, pushes=1, nulls="NA")


def test_tables_says_which_words(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x,y\n1,?\nNA,2.5\n,a\n")
    source = record_source(describe(str(tmp_path / "in.csv")))
    assert "x: str | None  # 1 null, int | None with nulls=['NA'] (--null NA)" in source
    assert "y: str\n" in source


def test_a_stream_of_files_on_spark_is_refused_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(text(2, slow=False))
    given = ["--on", "spark", "--in", f"{tmp_path}", "--in-format", "csv", "--null", "NA", "--out", f"{tmp_path}/out"]
    done = run(tmp_path, "same", *given, "--stream", "--checkpoint", f"{tmp_path}/state")
    assert done.exit_code == 2
    assert "--null NA: does not go with a stream of CSV files on Spark, which does not tell NA from" in done.stderr
