"""Numbers in cells: the fast parser, the exact one and the grammar agree on every spelling (Spark:
tests/spark/test_files.py).
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import UsageError, pipeline
from pellucid.errors import DataError
from pellucid.internal.cli.main import cli
from pellucid.internal.data.bind import Place
from pellucid.internal.data.cells import Missing
from pellucid.internal.data.csv_files import CsvReader, csv_columns, csv_rows, rows_in
from pellucid.internal.data.files import open_reader
from pellucid.internal.data.text import Block
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, Type

BIG = 2**63
CELLS: list[tuple[str, int | None, float | None, bool | None]] = [
    # cell, as int, as float, as bool; None: refused
    ("0", 0, 0.0, False),
    ("1", 1, 1.0, True),
    ("-0", 0, -0.0, None),
    ("+1", 1, 1.0, None),
    (" 1 ", 1, 1.0, True),
    ("\t1\t", 1, 1.0, True),
    ("007", 7, 7.0, None),
    ("00", 0, 0.0, None),
    (str(BIG - 1), BIG - 1, float(BIG), None),
    (str(-BIG), -BIG, -float(BIG), None),
    (str(BIG), None, float(BIG), None),
    ("9" * 400, None, math.inf, None),
    ("9" * 5000, None, math.inf, None),
    ("0" * 5000 + "7", 7, 7.0, None),
    ("0x10", None, None, None),
    ("0X1F", None, None, None),
    ("-0x1", None, None, None),
    ("0b1", None, None, None),
    ("0o7", None, None, None),
    ("1_000", None, None, None),
    ("1e3", None, 1000.0, None),
    ("1E+3", None, 1000.0, None),
    ("1.5e-3", None, 0.0015, None),
    ("1.", None, 1.0, None),
    (".5", None, 0.5, None),
    ("-.5", None, -0.5, None),
    ("+.5e1", None, 5.0, None),
    ("1.0", None, 1.0, None),
    ("1e999", None, math.inf, None),
    ("-1e999", None, -math.inf, None),
    ("1e-999", None, 0.0, None),
    ("4.9e-324", None, 5e-324, None),
    ("inf", None, math.inf, None),
    ("-inf", None, -math.inf, None),
    ("+Inf", None, math.inf, None),
    ("INFINITY", None, math.inf, None),
    ("-Infinity", None, -math.inf, None),
    ("infin", None, None, None),
    (".", None, None, None),
    ("e5", None, None, None),
    ("1e", None, None, None),
    ("1e+", None, None, None),
    ("--1", None, None, None),
    ("+-1", None, None, None),
    ("+ 1", None, None, None),
    ("1 2", None, None, None),
    ("1d", None, None, None),
    ("1f", None, None, None),
    ("1L", None, None, None),
    ("0x1p3", None, None, None),
    ("\u0663", None, None, None),
    ("\uff11", None, None, None),
    ("1\u00a0", None, None, None),
    ("\u20031", None, None, None),
    ("1\x0b", None, None, None),
    ("1\n", None, None, None),
    ("\r1", None, None, None),
    ("1\x00", None, None, None),
    ("\u22121", None, None, None),
    ("1,5", None, None, None),
    ("$1", None, None, None),
    ("true", None, None, True),
    ("True", None, None, True),
    ("TRUE", None, None, True),
    (" false", None, None, False),
    ("False\t", None, None, False),
    ("FALSE", None, None, False),
    ("tRue", None, None, None),
    ("t", None, None, None),
    ("yes", None, None, None),
    ("null", None, None, None),
]
TYPES: list[Type] = [INT, FLOAT, BOOL]


def fast(folder: Path, t: Type, cell: str) -> Any:
    path = folder / "cell.csv"
    path.write_text('x,y\n"' + cell.replace('"', '""') + '",1\n', encoding="utf-8", newline="")
    reader = open_reader(str(path))
    try:
        return next(v for chunk in reader.chunks({"x": t}, rows=10) for v in chunk.batch.column(0).to_pylist())
    except DataError:
        return None
    finally:
        reader.close()


def slow(t: Type, cell: str) -> Any:
    data = ('"' + cell.replace('"', '""') + '",1\n').encode()
    try:
        return csv_columns(data, ",", ["x", "y"], {"x": t}, Place("x", str), True)["x"][0]
    except DataError:
        return None


@pytest.mark.parametrize(("cell", "whole", "number", "truth"), CELLS, ids=[repr(c[0])[:24] for c in CELLS])
def test_every_spelling(tmp_path: Path, cell: str, whole: int | None, number: float | None, truth: bool | None) -> None:
    for t, expected in zip(TYPES, (whole, number, truth), strict=True):
        assert repr(slow(t, cell)) == repr(expected), t
        assert repr(fast(tmp_path, t, cell)) == repr(expected), t


@pytest.mark.parametrize(("cell", "whole"), [(cell, whole) for cell, whole, *_ in CELLS if len(cell) < 99], ids=repr)
def test_where_an_int_may_be_missing_it_may_have_a_point(tmp_path: Path, cell: str, whole: int | None) -> None:
    if re.fullmatch(r"[ \t]*[+-]?\d+\.0*[ \t]*", cell, re.ASCII):
        whole = int(float(cell))
    assert slow(OptionalType(INT), cell) == whole == fast(tmp_path, OptionalType(INT), cell)


def test_beyond_2_to_the_53_a_point_is_refused(tmp_path: Path) -> None:
    for cell, expected in ((f"{2**53}.0", 2**53), (f"-{2**53}.", -(2**53)), (f"{2**53 + 1}.0", None), ("9e9.0", None)):
        assert slow(OptionalType(INT), cell) == expected == fast(tmp_path, OptionalType(INT), cell)


def test_nan_is_read_and_no_event(tmp_path: Path) -> None:
    for cell in ("nan", "NaN", "-nan", " NAN "):
        assert math.isnan(slow(FLOAT, cell)) and math.isnan(fast(tmp_path, FLOAT, cell))
        assert slow(INT, cell) is None and fast(tmp_path, INT, cell) is None


def test_random_cells(tmp_path: Path) -> None:
    """Many cells at once: a block where some cell is odd is read exactly; one alone in its block by the fast parser."""
    rng = random.Random(5)
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
        "(",
        "true",
        "\u0663",
        "\xa0",
    ]
    cells = ["".join(rng.choices(pieces, k=rng.randint(1, 5))) for _ in range(400)]
    for t in TYPES:
        for cell in cells:
            one, other = slow(t, cell), fast(tmp_path, t, cell)
            assert repr(one) == repr(other), (t, cell)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "+2", " 3 ", "-0"], pa.int64()),
        (["1", "0x10"], pa.string()),
        (["0x10", "0x11"], pa.string()),
        (["1", str(BIG)], pa.string()),
        (["1", "\u0663"], pa.string()),
        (["true", "FALSE", " True"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["1", "0"], pa.int64()),
        (["1.5", "2"], pa.string()),
        (["2026-01-01", "2026-01-02"], pa.string()),
        (["1", '""'], pa.string()),
        (["1", ""], pa.int64()),
        (["", ""], pa.string()),
    ],
)
def test_what_a_key_is(tmp_path: Path, cells: list[str], kind: Any) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("k,x\n" + "".join(f"{cell},1\n" for cell in cells), encoding="utf-8")
    reader = open_reader(str(path))
    assert reader.field_type("k") == kind
    reader.close()


# Bad rows of CSV are found by whole columns; what is said of each is what the exact reader says of the whole block.

WANTED: dict[str, Type] = {"i": INT, "m": OptionalType(INT), "f": FLOAT, "b": BOOL, "s": STR}
GOOD = {
    "i": ["7", " -3", "0"],
    "m": ["5", "", "3.0"],
    "f": ["1.5", "inf", "2"],
    "b": ["true", "0"],
    "s": ["a", "ß", ""],
}
ODD = {
    "i": ["+7", "x", "0x10", "9" * 19, "9" * 30, "1e3", "1_0", '"7"', '""', "NA", "٣", "-", "1.0"],
    "m": ["+7", "9007199254740993.0", "3.5", '""', "NA", '"NA"', "0" * 20 + "1", "0x1"],
    "f": ["1d", "-1e999", ".5", "5.", "nan", "NA", "1,5", "infinite", "--1"],
    "b": ["yes", "TRUE", " 1", "2", "NA"],
    "s": ['"a\nb"', '"a,b"', '"say ""x"""', "NA", '"NA"'],
}
BROKEN = ["", "1", "1,2,3,4,5,6,7", ",,,,", "\r"]


def block_of(rng: random.Random, rows: int, *, odd: float) -> bytes:
    lines = []
    for _ in range(rows):
        cells = [rng.choice(ODD[n] if rng.random() < odd else GOOD[n]) for n in WANTED]
        lines.append(rng.choice(BROKEN) if rng.random() < odd / 5 else ",".join(cells))
    ends = rng.choice(["\n", "\r\n"])
    text = ends.join(line if line != "\r" else "" for line in lines) + rng.choice(["", ends])
    return text.encode()


def reader_of(data: bytes, missing: Missing) -> CsvReader:
    text = ",".join(WANTED).encode() + b"\n" + data
    reader = CsvReader("x.csv", iter([Block(text, 0, len(text), True)]), 0)
    reader.missing = missing
    return reader


def noted(data: bytes, missing: Missing) -> dict[int, Any]:
    """What the exact reader says of every row."""
    place = Place("x.csv", str, bad={})
    csv_columns(data, ",", list(WANTED), WANTED, place, True, missing)
    assert place.bad is not None
    return place.bad


@pytest.mark.parametrize("seed", range(40))
def test_what_is_noted_is_what_the_exact_reader_notes(seed: int) -> None:
    rng = random.Random(seed)
    missing = Missing(("NA",), frozenset({"m"})) if seed % 2 else Missing()
    data = block_of(rng, rng.choice([1, 7, 300]), odd=rng.choice([0.01, 0.1, 0.5]))
    want = noted(data, missing)
    reader = reader_of(data, missing)
    chunks = list(reader.chunks(WANTED, rows=1 << 20, lenient=True))
    found = chunks[0].place.bad if chunks else {}
    assert found == want
    good = csv_columns(data, ",", list(WANTED), WANTED, Place("x.csv", str, bad={}), True, missing)
    for name in ("i", "m", "f", "b"):
        got = chunks[0].batch.column(name).to_pylist() if chunks else []
        assert [repr(v) for v in got] == [repr(v) for v in good[name]]
    lines = [line for line, _ in csv_rows(data, ",")]
    begins, cells = rows_in(data, ",", blank=False)
    assert begins.tolist() == lines
    assert cells.tolist() == [len(row) for _, row in csv_rows(data, ",")]
    for i in want:  # a message finds the row
        assert f"line {lines[i] + 2:,})" in chunks[0].place.row(i)


def test_bytes_that_are_no_text() -> None:
    reader = reader_of(b"1,2,3,1,a\n1,2,3,1,\xff\nx,2,3,1,b\n", Missing())
    (chunk,) = reader.chunks(WANTED, rows=10, lenient=True)
    assert chunk.place.bad is not None
    assert {i: column for i, (column, _) in chunk.place.bad.items()} == {1: "s", 2: "i"}
    assert "is not UTF-8" in chunk.place.bad[1][1]


def test_in_a_file_of_one_column_an_empty_line_is_a_row() -> None:
    assert rows_in(b"1\n\n\r\n2", ",", blank=True)[0].tolist() == [0, 1, 2, 3]
    assert rows_in(b"1\n\n\r\n2", ",", blank=False)[0].tolist() == [0, 3]


def test_what_is_no_single_row_still_ends_it() -> None:
    with pytest.raises(DataError, match="line 3: text after a closing quote"):
        list(reader_of(b'1,2,3,1,a\n1,2,3,1,"a" b\n', Missing()).chunks(WANTED, rows=10, lenient=True))


# Times in a form of their own: what Python's ``strptime`` reads, or refused with file, row and column.


class Event(NamedTuple):
    when: dt.datetime
    day: dt.date | None
    x: int


class Instant(NamedTuple):
    when: Annotated[dt.datetime, dt.UTC]


gaps = pipeline(lambda e: e.map(lambda v: v.when).lag(1).map(lambda p: p[0] - p[1]), e=Event)
whens = pipeline(lambda e: e.map(lambda v: v.when), e=Event)
days = pipeline(lambda e: e.map(lambda v: v.day), e=Event)
instants = pipeline(lambda e: e.map(lambda v: v.when), e=Instant)

FORMS = ["%d/%m/%Y %H:%M", "%Y%m%d%H%M%S", "%d %b %Y %I:%M %p", "%y-%j %H", "%m/%d/%Y %H:%M:%S.%f", "%d.%m.%Y"]


def texts(form: str, count: int = 60) -> list[str]:
    """Some that the form spells, some with a digit less, some that are none."""
    rng = random.Random(form)
    start = dt.datetime(1970, 1, 1)
    found = [(start + dt.timedelta(seconds=rng.randrange(2_000_000_000))).strftime(form) for _ in range(count)]
    return [*found, *(t.replace("0", "", 1) for t in found[:20]), *(t.replace("1", "9", 1) for t in found[:20])]


def table(when: list[str]) -> Any:
    return pa.table({"when": when, "day": pa.nulls(len(when)), "x": range(len(when))})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [1, 40])  # few are read one by one, many at once
def test_it_is_what_strptime_reads(form: str, times: int) -> None:
    good, bad = [], []
    for text in texts(form):
        try:
            good.append((text, dt.datetime.strptime(text.strip(), form)))
        except ValueError:
            bad.append(text)
    found = whens(table([t for t, _ in good] * times), time_format={"when": form})["out"].to_pylist()
    assert found == [at for _, at in good] * times
    plain = [(t, at) for t, at in good if len(t) == len(at.strftime(form))]
    whole = whens(table([t for t, _ in plain] * 40), time_format={"when": form})["out"].to_pylist()
    assert whole == [at for _, at in plain] * 40
    for text in bad:
        with pytest.raises(DataError) as caught:
            whens(table([good[0][0], text]), time_format={"when": form})
        assert str(caught.value) == (
            f"pipeline: source 'e': position 1: column 'when': expected datetime (as {form}), found {text!r}; correct "
            "the value or remove the row"
        )


ROWS = [("31/12/2013 05:00", "1.2.13", 3), ("01/01/2014 00:30", None, 2), ("30/12/2013 23:59", "28.2.13", 1)]
SAID = {"when": "%d/%m/%Y %H:%M", "day": "%d.%m.%y"}


def write(folder: Path, form: str) -> Path:
    path = folder / f"in.{form}"
    if form == "csv":
        path.write_text("when,day,x\n" + "".join(f"{w},{d or ''},{x}\n" for w, d, x in ROWS))
    else:
        rows = [{"when": w, "day": d, "x": x} for w, d, x in ROWS]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_from_files_in_order_and_in_epochs(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``order`` is that of the times, not of the texts."""
    path = write(tmp_path, form)
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(
        "from datetime import date, datetime\nfrom typing import NamedTuple\nfrom pellucid import pipeline\n"
        "class Event(NamedTuple):\n    when: datetime\n    day: date | None\n    x: int\n"
        "xs = pipeline(lambda e: e.map(lambda v: v.x), e=Event)\n"
    )
    said = [word for column, f in SAID.items() for word in ("--time-format", f"{column}={f}")]
    command = ["run", "p.py:xs", "--in", path.name, "--order", "when", "--keep-columns", "day", *said]
    epochs = ["--epoch-size", "2", "--state", "s"]
    for more, out in (([], "plain.parquet"), (epochs, "epochs.parquet"), (epochs, "epochs.parquet")):
        done = CliRunner().invoke(cli, [*command, "--out", out, *more])
        assert done.exit_code == 0, done.output
        found = pq.read_table(out).to_pylist()
        assert [(row["when"], row["day"], row["out"]) for row in found] == sorted(
            (dt.datetime.strptime(w, SAID["when"]), d, x) for w, d, x in ROWS
        )
    unsaid = CliRunner().invoke(cli, ["run", "p.py:xs", "--in", path.name, "--out", "plain.parquet"])
    assert unsaid.exit_code == 2 and unsaid.stderr.endswith(
        "; correct the value, or tell its form, such as %d/%m/%Y, with --time-format\n"
    )
    bare = CliRunner().invoke(cli, [*command[:-1], "day"])
    assert "--time-format day: expected COLUMN=FORM, as in --time-format 'when=%d/%m/%Y %H:%M'" in bare.stderr
    other = CliRunner().invoke(cli, [*command[:-1], "day=%d.%m.%Y", "--out", "epochs.parquet", *epochs])
    assert other.exit_code == 2 and "--time-format was" in other.stderr
    Path(path.name).write_text(path.read_text().replace("31/12/2013", "31/13/2013"))
    done = CliRunner().invoke(cli, [*command, "--out", "plain.parquet"])
    where = "row 1 (line 2)" if form == "csv" else "row 1 (line 1)"
    assert (done.exit_code, done.stderr) == (
        2,
        f"pellucid: {path.name}: {where}: column 'when': expected datetime (as %d/%m/%Y %H:%M), found '31/13/2013 "
        "05:00'; correct the value or remove the row\n",
    )


def test_frames_and_instants() -> None:
    frame = pd.DataFrame(ROWS, columns=["when", "day", "x"])
    assert days(frame, order="when", time_format=SAID)["out"].tolist() == [
        dt.date(2013, 2, 28), dt.date(2013, 2, 1), None,
    ]  # fmt: skip
    zones = pa.table({"when": ["1/2/2013 05:00 +0130", "1/2/2013 05:00 Z"]})
    found = instants(zones, time_format={"when": "%d/%m/%Y %H:%M %z"})
    assert found["out"].to_pylist() == [
        dt.datetime(2013, 2, 1, 3, 30, tzinfo=dt.UTC), dt.datetime(2013, 2, 1, 5, tzinfo=dt.UTC),
    ]  # fmt: skip


REFUSED: list[tuple[Any, Any, str]] = [
    (whens, {"when": "%H:%M"}, "time_format={'when': '%H:%M'}: says no year, month and day: a time without"),
    (whens, {"when": "%d/%m/%Y %I:%M"}, "%I needs %p, which says whether it is before noon"),
    (whens, {"when": "%d/%m/%Y %q"}, "%q is not among %Y %y %m %d %b %B %a %A %j %H %I %M %S %f %p %z %%"),
    (whens, {"when": "%d/%m/%Y %d"}, "says %d twice"),
    (whens, {"when": "%x"}, "%x is not among"),
    (whens, {"day": "%d/%m/%Y %H"}, "says a time of the day, and the field is a date: declare it as datetime"),
    (whens, {"when": "%d/%m/%Y %z"}, "says a time zone, and the field is a datetime: declare it as Annotated["),
    (instants, {"when": "%d/%m/%Y"}, "says no time zone, and the field is a datetime with one: add %z, or"),
    (whens, {"wehn": "%d/%m/%Y"}, "no column 'wehn' as a time: it reads when, day as times; did you mean 'when'?"),
    (whens, {"x": "%d/%m/%Y"}, "pipeline reads no column 'x' as a time"),
    (whens, "%d/%m/%Y", "time_format=: expected the form of each column, as in {'when': '%d/%m/%Y %H:%M'}"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "form", "said"), REFUSED, ids=[str(form) for _, form, _ in REFUSED])
def test_what_is_refused(p: Any, form: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        p(pa.table({"when": ["1/2/2013"], "day": ["1/2/2013"], "x": [1]}), time_format=form)
    assert said in str(caught.value)


def test_columns_that_need_no_form_and_lists() -> None:
    times = pa.table({"when": [dt.datetime(2013, 1, 1)], "day": pa.nulls(1), "x": [1]})
    with pytest.raises(DataError, match=r"'when' holds timestamp\[us\], and no texts: leave it out of time_format="):
        whens(times, time_format={"when": "%d/%m/%Y"})
    with pytest.raises(UsageError, match="time_format= is for columns of texts, so the source 'e' must be a DataFrame"):
        whens(times.to_pylist(), time_format={"when": "%d/%m/%Y"})
