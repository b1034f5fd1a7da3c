"""Numbers in cells: the fast parser, the exact one and the grammar agree on every spelling (Spark:
tests/spark/files/test_csv.py)."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid.errors import DataError
from pellucid.internal.data import exact
from pellucid.internal.data.bind import Place
from pellucid.internal.data.files import open_reader
from pellucid.internal.expr.types import BOOL, FLOAT, INT, OptionalType, Type

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
        return exact.csv_columns(data, ",", ["x", "y"], {"x": t}, Place("x", str), True)["x"][0]
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
