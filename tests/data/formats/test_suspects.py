"""Bad rows of CSV are found by whole columns; what is said of each is what the exact reader says of the whole block."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid.errors import DataError
from pellucid.internal.data import exact
from pellucid.internal.data.bind import Place
from pellucid.internal.data.blocks import Block
from pellucid.internal.data.formats.csv import CsvReader
from pellucid.internal.data.formats.missing import Missing
from pellucid.internal.data.formats.suspects import rows_in
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, Type

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
    exact.csv_columns(data, ",", list(WANTED), WANTED, place, True, missing)
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
    good = exact.csv_columns(data, ",", list(WANTED), WANTED, Place("x.csv", str, bad={}), True, missing)
    for name in ("i", "m", "f", "b"):
        got = chunks[0].batch.column(name).to_pylist() if chunks else []
        assert [repr(v) for v in got] == [repr(v) for v in good[name]]
    lines = [line for line, _ in exact.csv_rows(data, ",")]
    begins, cells = rows_in(data, ",", blank=False)
    assert begins.tolist() == lines
    assert cells.tolist() == [len(row) for _, row in exact.csv_rows(data, ",")]
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
