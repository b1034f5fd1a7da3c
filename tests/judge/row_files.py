"""Cells of CSV and values of JSON Lines at the edges of their types: what is read, or that it is refused with its row;
and rows of every type through every kind of file and back.

What is wanted is written by hand from ``docs/how-to-tables.md`` and ``docs/reference/cli.md``; files are written and
read with ``csv``, ``json`` and ``pyarrow`` alone.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as D  # noqa: N817
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from tests.judge.row_frames import _arrow, as_dict
from tests.judge.row_values import E, rows

U = lambda *a: datetime(*a, tzinfo=UTC)
NO = object()
PIPELINE = """\
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple
from pellucid import Scale, pipeline
from tests.judge.row_values import Color, E

class R(NamedTuple):
    v: {kind}

p = pipeline(lambda x: x.map(lambda e: repr(e.v), to=str), x=R)
same = pipeline(lambda x: x, x=E)
"""
H = timedelta(hours=1)
CSV: dict[str, list[tuple[str, Any]]] = {
    "int | None": [("7", 7), ("", None), (" -7 ", -7), ("+7", 7), ("007", 7), ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", NO), ("1.0", 1), ("1.5", NO), ("9007199254740994.0", NO), ("1_0", NO), ("١", NO), ('""',
    None), ("null", NO), ("1e3", NO), ("0x1",
    NO), ("--1", NO), ("-", NO)],
    "int": [("7", 7), ("", NO)],
    "float | None": [("1.5", 1.5), ("", None), ("-0.0", -0.0), ("1e999", float("inf")), ("-inf", float("-inf")), (".5",
    0.5), ("1.", 1.0), ("5e-324", 5e-324), ("9007199254740993", 9007199254740992.0), ("nan", NO), ("1,5", NO),
        ("1_0.0", NO), ("0x1p3", NO)],
    "str | None": [("a", "a"), ("", None), ('""', ""), ('"a,b"', "a,b"), ('"a""b"', 'a"b'), ('"a\nb"', "a\nb"), (" x ",
    " x "), ("NULL", "NULL"), ("nan", "nan"), ("\\N", "\\N"), ("🙂", "🙂"), ('"\\"', "\\")],
    "str": [("", ""), ('""', "")],
    "bool | None": [("true", True), ("", None), ("0", False), ("FALSE", False), ("yes", NO), ("tRUE", NO), ("2", NO)],
    "datetime | None": [("2013-01-01T05:00:00", datetime(2013, 1, 1, 5)), ("", None), ("2013-01-01 05:00",
    datetime(2013, 1, 1, 5)), ("2013-01-01 05:00:00.000001", datetime(2013, 1, 1, 5, 0, 0, 1)),
    ("2013-01-01 05:00:00.5", datetime(2013, 1, 1, 5, 0, 0, 500000)),
        ("2013-01-01 05:00:00.000001000", datetime(2013, 1, 1, 5, 0, 0, 1)), ("0001-01-01 00:00:00", datetime(1, 1,
        1)), ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
            ("2013-01-01 05:00:00.0000001", NO), ("2013-01-01 05:00:00Z", NO), ("2013-01-01 05:00:00+01:00", NO),
        ("2013-02-29 00:00:00", NO), ("2013-01-01 24:00:00", NO), ("2013-01-01 23:59:60", NO), ("0000-01-01 00:00:00",
        NO), ("10000-01-01 00:00:00", NO), ("1.1.2013", NO), ("2013-01-01 05:00:00 ", None if False else datetime(2013,
            1, 1, 5)), ("٢٠١٣-01-01 05:00:00", NO), ("2013-1-1 5:00", NO), ("1357016400", NO), ("now", NO),
                ("-2013-01-01 00:00:00", NO)],
    "Annotated[datetime, UTC] | None": [("2013-01-01T05:00:00Z", U(2013, 1, 1, 5)), ("", None),
    ("2013-01-01 05:00:00+05:30", U(2012, 12, 31, 23, 30)), ("2013-01-01T05:00-0530", None if False else U(2013, 1, 1,
    10, 30)), ("2013-01-01T05:00:00.000001-23:59", U(2013, 1, 2, 4, 59, 0, 1)), ("2013-01-01T05:00:00", NO),
        ("0001-01-01T00:00:00+01:00", NO),
        ("9999-12-31T23:30:00-01:00", NO), ("2013-01-01T05:00:00 Europe/Berlin", NO), ("2013-01-01T05:00:00+24:00",
        NO), ("2013-01-01T05:00:00.1234567Z", NO)],
    "date | None": [("2013-01-01", date(2013, 1, 1)), ("", None), ("0001-01-01", date(1, 1, 1)), ("9999-12-31",
    date(9999, 12, 31)), ("2012-02-29", date(2012, 2, 29)), ("2013-02-29", NO), ("2013-1-1", NO),
    ("2013-01-01 00:00:00", NO), ("01/02/2013", NO), ("2013-W01-1", date(2012, 12, 31)), ("0000-01-01", NO),
    ("10000-01-01", NO)],
    "timedelta | None": [("PT1H30M", 1.5 * H), ("", None), ("1:30:00", 1.5 * H), ('"2 days, 1:30:00"', 49.5 * H),
    ('"-1 day, 23:59:59.999999"', timedelta(microseconds=-1)), ("PT0.000001S", timedelta(microseconds=1)), ("-PT1H",
    -H), ("P1D", 24 * H), ("P1DT1H", 25 * H), ("PT0S", 0 * H), ("PT36H", 36 * H), ("PT1.5S", timedelta(seconds=1.5)),
        ("P1W", NO),
        ("0:00:00.5", timedelta(milliseconds=500)), ('"1 day, 0:00:00"', 24 * H), ('"-2 days, 0:00:00"', -48 * H),
        ("PT0.0000001S", NO), ("P1Y", NO), ("P1M", NO), ("1h", NO), ("PT", NO), ("P", NO), ("3600", NO), ("PT1M1H",
        NO), ("P106751992D", NO), ("PT9999999999999999999S", NO)],
    "Annotated[Decimal, Scale(2)] | None": [("12.50", D("12.50")), ("", None), ("12.5", D("12.50")), ("-0.00",
    D("0.00")), ("+1", D("1.00")), (" 1.5 ", D("1.50")), ("0.010", D("0.01")), ("92233720368547758.07",
        D("92233720368547758.07")), ("-92233720368547758.08", D("-92233720368547758.08")), ("92233720368547758.08",
            NO), ("1.505", NO), ("NaN", NO), ("inf", NO), ("1_0", NO), ("1,5", NO), ("١", NO), ("abc", NO), ("$1", NO)],
    "Color | None": [("RED", "<Color.RED: 1>"), ("", None), ("red", NO), ("1", "<Color.RED: 1>"), ("9", NO)],
}  # fmt: skip
JSON: dict[str, list[tuple[str, Any]]] = {
    "int | None": [("7", 7), ("null", None), ("MISSING", None), ("-0", 0), ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", NO), ("1.0", 1), ("1.5", NO), ("9007199254740994.0", NO), ("1e3", NO), ('"7"', NO),
    ("true", NO), ("[1]", NO)],
    "int": [("7", 7), ("null", NO), ("MISSING", NO)],
    "float | None": [("1.5", 1.5), ("null", None), ("7", 7.0), ("-0.0", -0.0), ("1e999", float("inf")),
    ("9007199254740993", 2.0**53), ('"1.5"', NO), ("true", NO), ("NaN", NO)],
    "str | None": [('"a"', "a"), ("null", None), ('""', ""), ('"null"', "null"), ('"\\ud83d\\ude42"', "🙂"),
    ('"\\ud83d"', NO), ("5", NO), ('"\\u0000"', "\x00")],
    "bool | None": [("true", True), ("null", None), ("1", NO), ('"true"', NO)],
    "datetime | None": [('"2013-01-01T05:00:00"', datetime(2013, 1, 1, 5)), ("null", None), ('"2013-01-01T05:00:00Z"',
    NO), ('""', NO), ("1357016400", NO), ('"2013-01-01T05:00:00.0000001"', NO)],
    "Annotated[datetime, UTC] | None": [('"2013-01-01T05:00:00Z"', U(2013, 1, 1, 5)), ('"2013-01-01T05:00:00+05:30"',
    U(2012, 12, 31, 23, 30)), ("null", None), ('"2013-01-01T05:00:00"', NO)],
    "date | None": [('"2013-01-01"', date(2013, 1, 1)), ("null", None), ('"2013-01-01T00:00:00"', NO)],
    "timedelta | None": [('"PT1H30M"', 1.5 * H), ("null", None), ('"1:30:00"', 1.5 * H), ("3600", NO)],
    "Annotated[Decimal, Scale(2)] | None": [("12.50", D("12.50")), ("null", None), ("12", D("12.00")), ('"12.5"',
    D("12.50")), ("0.1", D("0.10")), ("92233720368547758.07", D("92233720368547758.07")), ("-0.0", D("0.00")),
        ("1.505", NO), ("0.30000000000000004", NO), ("1e2", D("100.00")), ("true", NO), ('""', NO),
        ("92233720368547758.08", NO), ("9007199254740993.01", D("9007199254740993.01"))],
    "Color | None": [('"RED"', "<Color.RED: 1>"), ("null", None), ('"red"', NO), ("1", "<Color.RED: 1>"), ("9", NO)],
}  # fmt: skip


def run(folder: Path, *args: str) -> tuple[int, str]:
    """The command, here: exit code and what it said."""
    result = CliRunner().invoke(cli, ["run", *args], catch_exceptions=True)
    said = result.output + (result.stderr if hasattr(result, "stderr") else "")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 99, repr(result.exception)
    return result.exit_code, said


def cells(folder: Path, only: str = "") -> Iterator[str]:
    """What is read wrongly, in words."""
    for form, table in (("csv", CSV), ("jsonl", JSON)):
        for m, (kind, cases) in enumerate(table.items() if only in ("", form) else ()):
            (folder / f"p{form}{m}.py").write_text(PIPELINE.format(kind=kind))
            fine = [c for c in cases if c[1] is not NO]
            groups = [fine, *([c] for c in cases if c[1] is NO)]
            for n, group in enumerate(groups):
                yield from _group(folder, form, m, n, kind, group)


def _group(folder: Path, form: str, m: int, n: int, kind: str, group: list[tuple[str, Any]]) -> Iterator[str]:
    source, out = folder / f"in{form}{m}-{n}.{form}", folder / f"out{form}{m}-{n}.jsonl"
    if form == "csv":
        source.write_text("n,v\n" + "".join(f"{k},{cell}\n" for k, (cell, _) in enumerate(group)))
    else:
        source.write_text(
            "".join(
                f'{{"n": {k}}}\n' if c == "MISSING" else f'{{"n": {k}, "v": {c}}}\n' for k, (c, _) in enumerate(group)
            )
        )
    code, said = run(folder, f"{folder}/p{form}{m}.py:p", "--in", str(source), "--out", str(out))
    if group[0][1] is NO:
        if code != 2:
            found = out.read_text().strip() if out.exists() else said
            yield f"{form} {kind}: {group[0][0]!r} should be refused: exit code {code}, {found}"
        return
    if code != 0:
        for k, one in enumerate(group if len(group) > 1 else []):
            yield from _group(folder, form, m, 1000 + k, kind, [one])
        if len(group) == 1:
            yield f"{form} {kind}: {group[0][0]!r} should be {group[0][1]!r}: exit code {code}, {said.strip()[-300:]}"
        return
    found = [json.loads(line)["out"] for line in out.read_text().splitlines()]
    for (cell, wanted), got in zip(group, found, strict=True):
        if got != (wanted if isinstance(wanted, str) and wanted.startswith("<") else repr(wanted)):
            yield f"{form} {kind}: {cell!r} is {got}, should be {wanted!r}"


def there_and_back(folder: Path, seed: int) -> Iterator[str]:
    """Rows of every type through Parquet, CSV, JSON Lines and Arrow: the same at the end."""
    (folder / "all.py").write_text(PIPELINE.format(kind="int"))
    events = rows(random.Random(seed), 60)
    dicts = [as_dict(e, n) for n, e in enumerate(events)]
    pq.write_table(_arrow(dicts), folder / "a.parquet", use_dictionary=True, row_group_size=7)
    places = ["a.parquet", "b.csv", "c.jsonl", "d.arrow", "e.tsv", "f.jsonl.gz", "g.csv.gz", "h.parquet"]
    for a, b in pairwise(places):
        code, said = run(
            folder, f"{folder}/all.py:same", "--in", str(folder / a), "--out", str(folder / b), "--chunk", "11"
        )
        if code:
            yield f"seed {seed}, {a} to {b}: exit code {code}: {said[-400:]}"
            return
    found = pq.read_table(folder / "h.parquet").to_pylist()
    for n, (row, wanted) in enumerate(zip(found, dicts, strict=True)):
        for name in E._fields:
            w = wanted[name]
            if isinstance(w, D):
                w = abs(w) if w == 0 else w
            if row[name] != w or (isinstance(w, float) and repr(row[name]) != repr(w)):
                yield f"seed {seed}, row {n}, {name}: {row[name]!r}, was {w!r}"
    with (folder / "b.csv").open(newline="") as file:
        for n, (cell, wanted) in enumerate(zip(csv.DictReader(file), dicts, strict=True)):
            if D(cell["m"]) != wanted["m"] or cell["s"] != wanted["s"] or cell["d"] != wanted["d"].isoformat():
                yield f"seed {seed}, row {n} of the CSV: {cell}"
    for n, (line, wanted) in enumerate(
        zip((folder / "c.jsonl").read_text().rstrip("\n").split("\n"), dicts, strict=True)
    ):
        value = json.loads(line, parse_float=D)
        if (
            value["m"] != wanted["m"]
            or value["s"] != wanted["s"]
            or value["j"] != wanted["j"]
            or value["t"] != wanted["t"]
        ):
            yield f"seed {seed}, row {n} of the JSON Lines: {line}"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        for word in cells(Path(name)):
            print(word)
        for seed in range(3):
            for word in there_and_back(Path(name), seed):
                print(word)
