"""Every kind of bad input: one clear message, exit 2, no output file left behind.  The texts are pinned."""

from __future__ import annotations

import gzip
import io
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from click.testing import Result

from pellucid.errors import DataError
from pellucid.internal.data.text import blocks
from tests.words import DIVISION

Command = Callable[..., Result]

FIX = "; correct the value or remove the row"
CUT = "the file ends in the middle of it and seems cut off"

CLOSE = "close it, or double it in a cell in quotes; the file may be cut off"
WHOLE = "put the whole cell in quotes, and double a quote in it"
RETURN = "a carriage return that ends no line: give all lines the end \\n or \\r\\n, or put the cell in quotes"

NUL = (
    "NUL bytes, which no text has: the file is sparse or damaged (a write that was cut off leaves such bytes): bring "
    "it back from its source, or remove them, for example with tr -d '\\000'"
)
OPEN = "a quote that is not closed within 16 MiB"

CSV = [
    (
        "total",
        "x\n1\nNA\n",
        "row 2 (line 3): column 'x': expected int, found 'NA'; if 'NA' says that nothing is there: declare int | None, "
        "and say --null NA of the CSV file (in JSON write null)",
    ),
    (
        "total",
        "y,z\n1,2\n",
        "no column 'x' for the source 'x' (int): its columns are y, z; rename one, or name it with --value",
    ),
    ("total", "X,z\n1,2\n", "no column 'x' for the source 'x' (int): its columns are X, z; did you mean 'X'?"),
    (
        "total",
        "x;z\n1;2\n",
        "its header is one column 'x;z': its fields must be parted by commas (or by tabs, with --in-format tsv)",
    ),
    ("total", "x,z\n1,2\n\nabc,4\n", f"row 2 (line 4): column 'x': expected int, found 'abc'{FIX}"),
    ("total", "x,z\n1,2\n1.5,4\n", f"row 2 (line 3): column 'x': expected int, found '1.5'{FIX}"),
    (
        "total",
        "x,z\n1,2\n,4\n",
        "row 2 (line 3): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    ("total", "x,z\n1,2\n3", f"row 2 (line 3): 1 field, expected 2 (x, z): {CUT}"),
    ("total", "x,z\n1,2\n3\n4,5\n", "row 2 (line 3): 1 field, expected 2 (x, z): complete the row or remove it"),
    ("total", "x,z\n1,2,3\n", "row 1 (line 2): 3 fields, expected 2 (x, z): put a text that holds a comma in quotes"),
    (
        "total",
        "x\n99999999999999999999\n",
        "row 1 (line 2): column 'x': 99999999999999999999 does not fit in 64 bits: make the source float or str",
    ),
    (
        "total",
        "x\n1\n\n2\n",
        "row 2 (line 3): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    (
        "total",
        "x\n\n1\n",
        "row 1 (line 2): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    (
        "total",
        "x\r\n1\r\n\r\n",
        "row 2 (line 3): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    (
        "total",
        "\n\nx\n\n",
        "row 1 (line 4): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    ("total", "x\n1\n\nabc\n", f"row 3 (line 4): column 'x': expected int, found 'abc'{FIX}"),
    (
        "halves",
        "x\n1\n\n",
        "row 2 (line 3): column 'x' is null: expected float; fill it, remove the row, or declare it as float | None",
    ),
    (
        "flags",
        "b\n\n",
        "row 1 (line 2): column 'b' is null: expected bool; fill it, remove the row, or declare it as bool | None",
    ),
    (
        "colors",
        "c\nRED\n\n",
        f"row 2 (line 3): column 'c': expected a member of Color (RED, BLUE), found ''{FIX}",
    ),
    ("total", "", "is empty (0 bytes): expected a header line with the columns' names"),
    ("total", "\n\n", "is empty: expected a header line with the columns' names"),
    ("total", "x,x\n1,2\n", "two columns are called 'x': rename one"),
    (
        "total",
        '\ufeffx,"q\nz"\r\n1,"a\nb"\r\n2,c\r\nq,d\r\n',
        f"row 3 (line 6): column 'x': expected int, found 'q'{FIX}",
    ),
    (
        "halves",
        "x\n1\nnan\n",
        "row 2 (line 3): column 'x' is NaN: NaN is no event, as it equals nothing, not even itself: say --nan keep "
        "if it is a value here; if nothing is there, declare it as float | None and give None (from pandas NaN is None "
        "then)",
    ),
    ("halves", "x\n1\n1_0\n", f"row 2 (line 3): column 'x': expected float, found '1_0'{FIX}"),
    (
        "words",
        b"w\nab\n\xff\xfe\n",
        "row 2 (line 3): column 'w': the text b'\\xff\\xfe' is not UTF-8: convert the file, for example with iconv -t "
        "UTF-8",
    ),
    (
        "colors",
        "c\nRED\n2\nGREEN\n",
        f"row 3 (line 4): column 'c': expected a member of Color (RED, BLUE), found 'GREEN'{FIX}",
    ),
    (
        "words",
        b"w,n\na,b\nc,\xe9\n",
        "row 2 (line 3): column 'n': the text b'\\xe9' is not UTF-8: convert the file, for example with iconv -t UTF-8",
    ),
    ("words", b"w,\xe9\na,b\n", "the header b'\\xe9' is not UTF-8: convert the file, for example with iconv -t UTF-8"),
    (
        "words",
        b"w,n\0\na,b\n",
        "the header 'n\\x00' holds a NUL byte, which no text has: the file is sparse or damaged: bring it back from "
        "its source",
    ),
    ("total", bytes(40) + b"x\n1\n", f"line 1: {NUL}"),
    ("total", b"\0x\n1\n", f"line 1: {NUL}"),
    (
        "words",
        'w,n\n"a,1\nb,"2"\n',
        f"line 3: text after a closing quote ('b,\"2\"'): {WHOLE}; the quote that it closes opens 1 line above: close "
        "it there",
    ),
    (
        "total",
        "x\n1\n".encode("utf-16"),
        "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
    ),
    (
        "total",
        "x\n1\n".encode("utf-16-be"),
        "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
    ),
    (
        "total",
        "x\n1\n".encode("utf-32"),
        "is UTF-32, but a text must be UTF-8: convert it, for example with iconv -f UTF-32 -t UTF-8",
    ),
    (
        "total",
        b"\xff\xfe",
        "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
    ),
    ("total", b"\xef\xbb\xbf", "is empty: expected a header line with the columns' names"),
    ("total", '""\n', "is empty: expected a header line with the columns' names"),
    ("total", "x\n1\n2\x00\n", f"row 2 (line 3): column 'x': expected int, found '2\\x00'{FIX}"),
    ("total", 'x\n1\n"2', f"line 3: a quote that is not closed ('\"2'): {CLOSE}"),
    ("total", 'x,y\n1,"a\n2,b\n3,c\n', f"line 2: a quote that is not closed ('1,\"a'): {CLOSE}"),
    ("total", 'x\n"1"2\n', f"line 2: text after a closing quote ('\"1\"2'): {WHOLE}"),
    ("total", 'x,y\n1,"a"b"\n', f'line 2: text after a closing quote (\'1,"a"b"\'): {WHOLE}'),
    ("total", 'x,y\n1,a"b\n', f"line 2: a quote in the middle of a cell ('1,a\"b'): {WHOLE}"),
    ("total", 'x,y\n1, "b"\n', f"line 2: a quote in the middle of a cell ('1, \"b\"'): {WHOLE}"),
    ("total", 'x,"y"z\n1,2\n', f"line 1: text after a closing quote ('x,\"y\"z'): {WHOLE}"),
    ("total", "x\r1\r2\r", f"line 1: {RETURN}"),
    ("total", "x,y\n1,2\n3,\r4\n", f"line 3: {RETURN}"),
    ("total", "x,y\r\n1,2\r\n3,4\r", f"line 3: {RETURN}"),
    ("total", 'x,y\n1,"\r"\n3,4\r5\n', f"line 3: {RETURN}"),
    ("total", "x\n0x10\n", f"row 1 (line 2): column 'x': expected int, found '0x10'{FIX}"),
    ("total", "x,y\n1,0x10\n0XF,0x11\n", f"row 2 (line 3): column 'x': expected int, found '0XF'{FIX}"),
    ("total", "x\n\u0663\n", f"row 1 (line 2): column 'x': expected int, found '\u0663'{FIX}"),
    ("total", "x\n1e3\n", f"row 1 (line 2): column 'x': expected int, found '1e3'{FIX}"),
    ("total", "x\n1\u00a0\n", f"row 1 (line 2): column 'x': expected int, found '1\\xa0'{FIX}"),
    ("halves", "x\n\u0663.5\n", f"row 1 (line 2): column 'x': expected float, found '\u0663.5'{FIX}"),
    ("halves", "x\n1d\n", f"row 1 (line 2): column 'x': expected float, found '1d'{FIX}"),
    (
        "total",
        f"x\n{'9' * 5000}\n",
        f"row 1 (line 2): column 'x': {'9' * 39}… does not fit in 64 bits: make the source float or str",
    ),
    ("flags", "b\ntRue\n", f"row 1 (line 2): column 'b': expected bool (true or false), found 'tRue'{FIX}"),
    ("flags", "b\ntrue\nyes\n", f"row 2 (line 3): column 'b': expected bool (true or false), found 'yes'{FIX}"),
    (
        "same",
        "name,at.x,color\nn,1,RED\n",
        "no column 'at.y' for the source 'x' (Tagged(name: str, at: Point(x: float, y: int), color: Color)): "
        "its columns are name, at.x, color; did you mean 'at.x'?",
    ),
    ("both", "a\n1\n", "no column 'b' for the source 'b' (int): its only column is a; rename one"),
    (
        "points",
        "x.x,x.y,y.x,y.y\n1,2,,\n1,,3,4\n",
        "row 2 (line 3): column 'x.y' is null, but other columns of the source 'x' are not: give all of them, or none "
        "for silence",
    ),
]

JSONL = [
    ("total", '{"x":1}\n{"x":2', f"row 2 (line 2): the line is no whole JSON value: {CUT}"),
    ("total", '{"x":2', f"row 1 (line 1): the line is no whole JSON value: {CUT}"),
    (
        "total",
        '{"x":1}\n\nabc\n',
        "row 2 (line 3): no JSON value (Expecting value at character 1): 'abc'; give one value on each line",
    ),
    ("total", "", "is empty (0 bytes): expected a JSON value on each line"),
    (
        "total",
        '{"x":1}\n{"y":2}\n',
        "row 2 (line 2): column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
    (
        "total",
        '{"y":1,"z":1}\n',
        "no column 'x' for the source 'x' (int): its columns are y, z; rename one, or name it with --value",
    ),
    (
        "total",
        "[1,2]\n",
        "is one JSON array: expected a JSON value on each line; convert it, for example with jq -c '.[]'",
    ),
    ("total", '1\n"a"\n', f"row 2 (line 2): expected int, found 'a'{FIX}"),
    ("total", '{"x":1}\n{"x":1.5}\n', f"row 2 (line 2): column 'x': expected int, found 1.5{FIX}"),
    ("total", '{"x":1}\n{"x":true}\n', f"row 2 (line 2): column 'x': expected int, found True{FIX}"),
    (
        "total",
        '{"x":99999999999999999999}\n',
        "row 1 (line 1): column 'x': 99999999999999999999 does not fit in 64 bits: make the source float or str",
    ),
    ("total", '{"x":1}\n7\n', 'row 2 (line 2): expected an object such as {"x": …}, found 7'),
    (
        "words",
        b'{"w":"a"}\n{"w":"\xff"}\n',
        'row 2 (line 2): the text b\'{"w":"\\xff"}\' is not UTF-8: convert the file, for example with iconv -t UTF-8',
    ),
    (
        "halves",
        '{"x":1}\n{"x":NaN}\n',
        f"row 2 (line 2): column 'x': NaN is no JSON: an infinity is 1e999 or -1e999, and NaN has none{FIX}",
    ),
    (
        "halves",
        '{"x":-Infinity}\n',
        f"row 1 (line 1): column 'x': -Infinity is no JSON: an infinity is 1e999 or -1e999, and NaN has none{FIX}",
    ),
    ("total", "1\nNaN\n", f"row 2 (line 2): NaN is no JSON: an infinity is 1e999 or -1e999, and NaN has none{FIX}"),
    ("total", '{"x":1,"x":1}\n', "row 1 (line 1): column 'x': the key 'x' comes twice in one object: leave one out"),
    (
        "total",
        '{"x":1}\n{"x":1,"\\u0078":2}\n',
        "row 2 (line 2): column 'x': the key 'x' comes twice in one object: leave one out",
    ),
    (
        "same",
        '{"name":"n","at":{"x":1,"y":2},"at":{"x":1,"y":2},"color":"RED"}\n',
        "row 1 (line 1): column 'at.x': the key 'at' comes twice in one object: leave one out",
    ),
    (
        "same",
        '{"name":"n","at":{"x":1,"y":2},"color":"RED"}\n{"name":"n","at":{"x":1,"y":2,"y":3},"color":"RED"}\n',
        "row 2 (line 2): column 'at.y': the key 'y' comes twice in one object: leave one out",
    ),
    (
        "same",
        '{"name":"n","at":{"x":1,"y":2},"color":"RED"}\n{"name":"n","at":{"x":1,"y":2},"at.y":3,"color":"RED"}\n',
        "row 2 (line 2): column 'at.y': the key 'at.y' comes twice in one object: leave one out",
    ),
    (
        "total",
        '{"x":1}{"x":2}\n',
        'row 1 (line 1): no JSON value (Extra data at character 8): \'{"x":1}{"x":2}\'; give one value on each line',
    ),
    (
        "total",
        '{"x":1}\n{"x":\n2}\n',
        "row 2 (line 2): no JSON value (Expecting value at character 6): '{\"x\":'; give one value on each line",
    ),
    (
        "total",
        '{"x":1}{"x":\n2}\n',
        'row 1 (line 1): no JSON value (Extra data at character 8): \'{"x":1}{"x":\'; give one value on each line',
    ),
    (
        "total",
        '1\n2,"y":3\n',
        "row 2 (line 2): no JSON value (Extra data at character 2): '2,\"y\":3'; give one value on each line",
    ),
    (
        "total",
        '{"x":1} x\n',
        "row 1 (line 1): no JSON value (Extra data at character 9): '{\"x\":1} x'; give one value on each line",
    ),
    (
        "total",
        f'{{"x":{"1" * 5000}}}\n',
        f"row 1 (line 1): column 'x': {'1' * 39}… does not fit in 64 bits: make the source float or str",
    ),
    (
        "total",
        f'{{"x":1}}\n{{"x":{"[" * 200_000}}}\n',
        'row 2 (line 2): no JSON value (too deep): \'{"x":' + "[" * 53 + "…; give one value on each line",
    ),
    (
        "words",
        '{"w":"a"}\n{"w":"b\\ud800"}\n',
        "row 2 (line 2): column 'w': the text 'b\\ud800' holds half a surrogate pair (\\ud800), which is no character: "
        "write both halves, or none",
    ),
    (
        "words",
        '"\\udfff\\ud800"\n',
        "row 1 (line 1): the text '\\udfff\\ud800' holds half a surrogate pair (\\udfff), which is no character: write "
        "both halves, or none",
    ),
    (
        "words",
        b'{"w":"\xed\xa0\x80"}\n',
        'row 1 (line 1): the text b\'{"w":"\\xed\\xa0\\x80"}\' is not UTF-8: convert the file, for example with iconv '
        "-t UTF-8",
    ),
    (
        "total",
        '{"x":1}\n'.encode("utf-16"),
        "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
    ),
    (
        "total",
        '{"x":1}\n'.encode("utf-16-le"),
        "is UTF-16, but a text must be UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8",
    ),
    (
        "total",
        '{"x":1}\n'.encode("utf-32"),
        "is UTF-32, but a text must be UTF-8: convert it, for example with iconv -f UTF-32 -t UTF-8",
    ),
    (
        "total",
        '{"x":1}\n{"x":\x00}\n',
        "row 2 (line 2): no JSON value (Expecting value at character 6): '{\"x\":\\x00}'; give one value on each line",
    ),
    (
        "same",
        '{"name":"n","at":{"x":1,"y":2.5},"color":"RED"}\n',
        f"row 1 (line 1): column 'at.y': expected int, found 2.5{FIX}",
    ),
    (
        "both",
        "1\n2\n",
        'holds bare values, but there are several sources: expected objects such as {"a": …, "b": …}',
    ),
]


def refused(result: Result, message: str, folder: Path) -> None:
    """One message, exit 2, nothing written."""
    assert result.stderr == f"pellucid: {message}\n"
    assert result.exit_code == 2
    assert result.stdout == ""
    left = [name for name in os.listdir(folder) if name.startswith("out.") or name.endswith(".part")]
    assert left == []


@pytest.mark.parametrize(("name", "text", "message"), CSV)
def test_csv(pellucid: Command, folder: Path, name: str, text: str | bytes, message: str) -> None:
    (folder / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = pellucid("run", f"pipes.py:{name}", "--in", "a.csv", "--out", "out.parquet")
    refused(result, f"a.csv: {message}", folder)


@pytest.mark.parametrize(("name", "text", "message"), JSONL)
def test_json_lines(pellucid: Command, folder: Path, name: str, text: str | bytes, message: str) -> None:
    (folder / "a.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = pellucid("run", f"pipes.py:{name}", "--in", "a.jsonl", "--out", "out.jsonl.gz")
    refused(result, f"a.jsonl: {message}", folder)


class Slowly(io.RawIOBase):
    """A head and then the same piece for ever, a little at a time, as a pipe gives it."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self._head, self._piece, self.given = head, piece, 0

    def read(self, size: int = -1) -> bytes:
        found, self._head = self._head or self._piece, b""
        self.given += len(found)
        return found


@pytest.mark.parametrize(
    ("head", "piece", "quotes", "message"),
    [
        (b'x,w\n1,"a\nb"\n2,"open\n', b"3,c\n" * 1000, True, f"line 4: {OPEN} ('2,\"open')"),
        (b'x\n"', b"\n" * 4000, True, f"line 2: {OPEN}"),
        (b'x,w\n1,"a\n', b'2,"b"\n' * 700, True, f"line 2: {OPEN} ('1,\"a')"),
        (b"x\n1\n", b"a" * 4000, True, "line 3: one record is longer than 16 MiB"),
        (b'{"x":1}\n{"x":', b'"' * 4000, False, "line 2: one record is longer than 16 MiB"),
        (b"x\n1\n", bytes(4000), True, f"line 3: {NUL}"),
    ],
)  # fmt: skip
def test_a_record_that_does_not_end(head: bytes, piece: bytes, quotes: bool, message: str) -> None:
    stream, begin = Slowly(head, piece), time.process_time()
    with pytest.raises(DataError, match=re.escape(f"a.csv: {message}")):
        for _ in blocks(stream, "a.csv", quotes=quotes):
            pass
    assert stream.given < 17 << 20  # no more is kept
    assert time.process_time() - begin < 10  # each byte is looked at once: it took minutes


@pytest.mark.parametrize("ending", ["jsonl", pytest.param("csv", marks=pytest.mark.long)])
def test_a_wrong_type_in_row_1234567(pellucid: Command, folder: Path, ending: str) -> None:
    line = b"7\n" if ending == "csv" else b'{"x":7}\n'
    head = b"x\n" if ending == "csv" else b""
    (folder / f"a.{ending}").write_bytes(head + line * 1_234_566 + line.replace(b"7", b'"seven"') + line * 10)
    result = pellucid("run", "pipes.py:total", "--in", f"a.{ending}", "--out", "out.parquet")
    at = 1_234_567 + (ending == "csv")
    refused(result, f"a.{ending}: row 1,234,567 (line {at:,}): column 'x': expected int, found 'seven'{FIX}", folder)


def test_a_wrong_type_in_the_second_block(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"x,y\n" + b"7,somewhat wider\n" * 300_000 + b"seven,\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--value", "x", "--out", "out.parquet")
    refused(result, f"a.csv: row 300,001 (line 300,002): column 'x': expected int, found 'seven'{FIX}", folder)


def test_parquet_a_null_far_away(pellucid: Command, folder: Path) -> None:
    values = pa.array([1] * 200_000 + [None] + [1] * 10)
    parquet.write_table(pa.table({"x": values}), "a.parquet")
    result = pellucid("run", "pipes.py:total", "--in", "a.parquet", "--out", "out.parquet")
    refused(
        result,
        "a.parquet: row 200,001: column 'x' is null: expected int; fill it, remove the row, or declare it as int | "
        "None",
        folder,
    )


ARROW = [
    (
        "total",
        pa.array([1.5]),
        "column 'x' holds double: expected int; cast it to int64 first, or make the source float; "
        "if they are whole numbers with holes, int | None",
    ),
    (
        "total",
        pa.array([1]).cast(pa.timestamp("s")),
        "column 'x' holds timestamp[s]: expected int; cast it to int64 first, so that its unit is your choice",
    ),
    (
        "total",
        pa.array([1]).cast(pa.decimal128(20)),
        "column 'x' holds decimal128(20, 0): expected int; cast it to float64 or to whole cents as int64 first",
    ),
    ("total", pa.array(["1"]), "column 'x' holds string: expected int; read it as int, or change the source's type"),
    (
        "total",
        pa.array([1, 2**63], pa.uint64()),
        "row 2: column 'x': 9223372036854775808 does not fit in 64 bits (int is signed): make the source float or str",
    ),
    ("words", pa.array([1]), "column 'x' holds int64: expected str; read it as str, or change the source's type"),
    ("flags", pa.array([1]), "column 'x' holds int64: expected bool; read it as bool, or change the source's type"),
    ("colors", pa.array([1, 3]), f"row 2: column 'x': expected a member of Color (RED, BLUE), found 3{FIX}"),
    (
        "halves",
        pa.array([1.0, float("nan")]),
        "row 2: column 'x' is NaN: NaN is no event, as it equals nothing, not even itself: say --nan keep if it is a "
        "value here; if nothing is there, declare it as float | None and give None (from pandas NaN is None then)",
    ),
]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize(("name", "array", "message"), ARROW)
def test_columns(pellucid: Command, folder: Path, name: str, array: pa.Array, message: str, ending: str) -> None:
    table = pa.table({"x": array})
    if ending == "parquet":
        parquet.write_table(table, "a.parquet")
    else:
        feather.write_feather(table, "a.feather")
    message = message.replace("timestamp[s]", "timestamp[ms]") if ending == "parquet" else message
    result = pellucid("run", f"pipes.py:{name}", "--in", f"a.{ending}", "--out", "out.csv")
    refused(result, f"a.{ending}: {message}", folder)


def test_files_that_are_not_whole(pellucid: Command, folder: Path) -> None:
    parquet.write_table(pa.table({"x": list(range(1000))}), "a.parquet")
    feather.write_feather(pa.table({"x": list(range(1000))}), "a.feather")
    whole, arrow = (folder / "a.parquet").read_bytes(), (folder / "a.feather").read_bytes()
    cases = {
        "cut.parquet": (whole[:500], "is no whole Parquet file: it seems cut off, or is of another format ("),
        "holes.parquet": (
            whole[:100] + bytes(400) + whole[500:],
            "cannot be read after row 0: it is damaged or cut off (",
        ),
        "none.parquet": (b"", "is empty (0 bytes): expected a Parquet file"),
        "cut.feather": (
            arrow[: len(arrow) // 2],
            "is no whole Arrow file: it seems cut off, or is of another format (",
        ),
        "none.arrow": (b"", "is empty (0 bytes): expected an Arrow file"),
        "cut.csv.gz": (
            gzip.compress(b"x\n" + os.urandom(500).hex().encode())[:-50],
            "the compressed file is damaged or cut off (",
        ),
        "plain.csv.gz": (b"x\n1\n", "cannot be read: Not a gzipped file (b'x\\n')"),
    }
    for name, (data, message) in cases.items():
        (folder / name).write_bytes(data)
        result = pellucid("run", "pipes.py:total", "--in", name, "--out", "out.parquet")
        assert result.stderr.startswith(f"pellucid: {name}: {message}"), result.stderr
        assert result.stderr.count("\n") == 1
        assert result.exit_code == 2
        assert not (folder / "out.parquet").exists()


def test_arrow_stream_cut_in_the_middle(pellucid: Command, folder: Path) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])) as writer:
        for _ in range(3):
            writer.write_batch(pa.record_batch({"x": [1, 2, 3]}))
    data = sink.getvalue().to_pybytes()
    (folder / "a.arrows").write_bytes(data[:-120])
    result = pellucid("run", "pipes.py:total", "--in", "a.arrows", "--out", "out.csv")
    assert result.stderr.startswith("pellucid: a.arrows: cannot be read after record batch ")
    assert result.exit_code == 2


PLACES = [
    (["--in", "none.parquet"], "none.parquet: no such file"),
    (["--in", "aa.csv"], "aa.csv: no such file; did you mean 'a.csv'?"),
    (
        ["--in", "dead.csv"],
        "dead.csv: is a link to gone.csv, which does not exist: bring that file back, or take the link away",
    ),
    (
        ["--in", "folder"],
        "folder/d.csv: is a link to ../gone.csv, which does not exist: bring that file back, or take the link away",
    ),
    (["--in", "empty"], "empty: is a folder without files: expected one or more to read"),
    (
        ["--in", "a.dat"],
        "a.dat: cannot tell the format from the name: end it in .csv, .jsonl, .parquet or .arrow, or give --in-format",
    ),
    (["--in", "a.csv", "--out", "a.csv"], "a.csv: is the input and the output: give the output another name"),
    (["--in", "a.csv", "--out", "./link.csv"], "./link.csv: is the input and the output: give the output another name"),
    (["--in", "a.csv", "--out", "no/o.csv"], "no/o.csv: cannot be written: there is no folder 'no'"),
    (["--in", "a.csv", "--out", "a.csv/o.csv"], "a.csv/o.csv: cannot be written: there is no folder 'a.csv'"),
    (["--in", "a.csv", "--out", "."], ".: is a folder: expected the name of a file to write"),
    (
        ["--in", "a.csv", "--out", "new/", "--out-format", "parquet"],
        "new/: is a folder: expected the name of a file to write",
    ),
    (
        ["--in", "a.csv", "--out", "b.csv", "--out", "sqlite:b.db#t"],
        "--out b.csv: there is one output (out), and several targets are given: a run with epochs writes it to all of "
        "them (--epoch-size N --state FOLDER), and so does a query (--on spark --stream); else give one --out",
    ),
    (
        ["--in", "a.csv", "--out", "sqlite:o.db#t"],
        "sqlite:o.db#t: is a table or a topic, not a file: a run without "
        "epochs writes files. Give --epoch-size N --state FOLDER (for sqlite: "
        "and postgresql:), or --on spark",
    ),
    (
        ["--in", "a.csv", "--out", "o.xyz"],
        "o.xyz: cannot tell the format from the name: end it in .csv, .jsonl, .parquet or .arrow, or give --out-format",
    ),
    (
        ["--in", "a.csv", "--out", "o.parquet.gz"],
        "o.parquet.gz: only CSV and JSON Lines can be in .gz: parquet has its own compression",
    ),
    (["--in", "a.csv", "--json"], "--json puts a report on stdout: send the events to a file with --out"),
    (["--in", "a.csv", "--key", "v"], "a.csv: no key column 'v': its only column is x"),
    (["--in", "a.csv", "--value", "xx"], "a.csv: no column 'xx': its only column is x; did you mean 'x'?"),
    (["--in", "y=a.csv"], "total has no source 'y': it has x"),
    (["--in", "x=a.csv", "--in", "x=b.csv"], "b.csv: no such file; did you mean 'a.csv'?"),
    (
        ["--in", "-", "--in-format", "parquet"],
        "standard input: Parquet cannot be read from a pipe, as its index is at the end: give a file, or use arrow",
    ),
    (
        ["--in", "a.csv", "--out", "pipe", "--out-format", "parquet"],
        "pipe: Parquet cannot be written to a pipe: give a file, or use arrow",
    ),
    (
        ["--in", "pipe", "--in-format", "parquet"],
        "pipe: Parquet cannot be read from a pipe, as its index is at the end: give a file, or use arrow",
    ),
    (
        ["--in", "/dev/null", "--in-format", "csv"],
        "/dev/null: is empty: expected a header line with the columns' names",
    ),
    (
        ["--in", "a.csv", "--out-format", "parquet"],
        "standard output: Parquet cannot be written to a pipe: give a file, or use arrow",
    ),
]


@pytest.mark.parametrize(("args", "message"), PLACES)
def test_places(pellucid: Command, folder: Path, args: list[str], message: str) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    (folder / "a.dat").write_text("x\n1\n")
    (folder / "link.csv").symlink_to("a.csv")
    (folder / "dead.csv").symlink_to("gone.csv")
    (folder / "empty").mkdir()
    (folder / "folder").mkdir()
    (folder / "folder" / "c.csv").write_text("x\n1\n")
    (folder / "folder" / "d.csv").symlink_to("../gone.csv")
    os.mkfifo("pipe")
    refused(pellucid("run", "pipes.py:total", *args), message, folder)
    assert (folder / "a.csv").read_text() == "x\n1\n"


def test_several_sources_and_outputs(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("a,b\n1,2\n")
    cases = [
        ("both", ["--in", "a=a.csv"], "both has 2 sources (a, b): no input for b; give --in b=FILE"),
        (
            "both",
            ["--in", "a.csv", "--in", "b.csv"],
            "both has 2 sources (a, b): with several --in say which each is for, as in --in a=a.csv",
        ),
        ("both", ["--in", "a.csv", "--value", "a"], "both has several sources (a, b): --value goes with one only"),
        (
            "two",
            ["--in", "a.csv", "--out", "t.csv"],
            "two has 2 outputs (sums, firsts): give a file for each, as in --out sums=t.csv",
        ),
        (
            "two",
            ["--in", "a.csv", "--out", "sum=t.csv"],
            "two has no output 'sum': it has sums, firsts; did you mean 'sums'?",
        ),
        (
            "two",
            ["--in", "a.csv", "--out-format", "csv"],
            "two has several outputs: on stdout only jsonl can hold them together",
        ),
    ]
    for name, args, message in cases:
        refused(pellucid("run", f"pipes.py:{name}", *args), message, folder)


def test_a_step_that_fails_names_the_event_the_line_and_the_row(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n0\n")
    line = 1 + next(i for i, text in enumerate((folder / "pipes.py").read_text().splitlines()) if "10 // v" in text)
    message = (
        f"step 'invert' (map 10 // v, pipes.py:{line}) failed at push 1 on the event 0: "
        f"{DIVISION}\n"
        f'  pipes.py:{line}, in <lambda>: return x.map(lambda v: 10 // v, id="invert")\n'
        "  from a.csv: row 2 (line 3)"
    )
    refused(pellucid("run", "pipes.py:inverse", "--in", "a.csv", "--out", "out.csv"), message, folder)


ASSUMED = "; JSON Lines is assumed on standard input: for CSV give --in-format csv"
NO_JSON = "row 1 (line 1): no JSON value (Expecting value at character 1): {}; give one value on each line" + ASSUMED
STDIN = [
    ("total", [], "x\n1\n2\n", NO_JSON.format("'x'")),
    ("total", [], "x", f"row 1 (line 1): the line is no whole JSON value: {CUT}{ASSUMED}"),
    ("total", ["--key", "y"], "x,y\r\n1,2\r\n", NO_JSON.format("'x,y'")),
    ("same", [], "name,at.x,at.y,color\n", NO_JSON.format("'name,at.x,at.y,color'")),
    ("both", [], "a,b\n1,2\n", NO_JSON.format("'a,b'")),
    ("total", [], '"x"\n1\n', f"row 1 (line 1): expected int, found 'x'{FIX}{ASSUMED}"),
    (
        "total",
        [],
        "1\nx\n",
        "row 2 (line 2): no JSON value (Expecting value at character 1): 'x'; give one value on each line",
    ),
    ("total", ["--in-format", "jsonl"], "x\n1\n", NO_JSON.format("'x'").removesuffix(ASSUMED)),
]


@pytest.mark.parametrize(("name", "args", "text", "message"), STDIN)
def test_csv_where_json_lines_is_assumed(
    pellucid: Command, folder: Path, name: str, args: list[str], text: str, message: str
) -> None:
    result = pellucid("run", f"pipes.py:{name}", *args, "--out", "out.csv", input=text)
    refused(result, f"standard input: {message}", folder)


PACKED = gzip.compress(b"x\n" + b"1\n" * 500)
CUT_OFF = "the compressed file is damaged or cut off ("
NO_PARQUET = "is no whole Parquet file: it seems cut off, or is of another format ("
NO_ARROW = "is no whole Arrow file: it seems cut off, or is of another format ("
HOSTILE = [
    ("name.csv", b"y" * (5 << 20) + b",z\n1,2\n", "no column 'x' for the source 'x' (int): its columns are yyy"),
    ("names.csv", b",".join([b"c%d" % i for i in range(50_000)]) + b"\n", "no column 'x' for the source 'x' (int): "),
    ("cell.csv", b"x\n" + b"9" * (5 << 20) + b"\n", "row 1 (line 2): column 'x': 999"),
    ("text.jsonl", b'{"x":"' + b"9" * (5 << 20) + b'"}\n', "row 1 (line 1): column 'x': expected int, found '999"),
    ("packed.csv.gz", gzip.compress(b"x\n" + bytes([49]) * (40 << 20), 1), "line 2: one record is longer than 16 MiB"),
    ("nul.jsonl", bytes(1 << 20), f"line 1: {NUL}"),
    ("nuls.csv", b"x\n1\n" + bytes(1 << 20), "row 2 (line 3): column 'x': expected int, found '\\x00"),
    ("nuls.jsonl", b'{"x":1}\n' + bytes(1 << 20), f"row 2 (line 2): the line is no whole JSON value: {CUT}"),
    ("deep.jsonl", b'{"x":' + b"[" * 1_000_000, f"row 1 (line 1): the line is no whole JSON value: {CUT}"),
    ("open.csv", b'"x\n' + b"1\n" * 1_000_000, "line 1: a quote that is not closed ('\"x')"),
    ("empty.csv.gz", b"", "is empty (0 bytes)"),
    ("none.csv.gz", gzip.compress(b""), "is empty: expected a header line"),
    ("sum.csv.gz", PACKED[:-8] + bytes(8), "cannot be read: CRC check failed"),
    ("more.csv.gz", PACKED + b"junk", "cannot be read: Not a gzipped file"),
    ("plain.csv.zst", b"x\n1\n", CUT_OFF),
    ("plain.csv.bz2", b"x\n1\n", CUT_OFF),
    ("plain.csv.xz", b"x\n1\n", CUT_OFF),
    ("text.parquet", b"x\n1\n", NO_PARQUET),
    ("magic.parquet", b"PAR1PAR1", NO_PARQUET),
    ("length.parquet", b"PAR1" + bytes(64) + b"\xff\xff\xff\x7fPAR1", NO_PARQUET),
    ("text.arrow", b"x\n1\n" * 9, NO_ARROW),
    ("magic.arrow", b"ARROW1\0\0", NO_ARROW),
    ("packed.csv", PACKED, ""),
    ("packed.jsonl", PACKED + b"\n", ""),
    ("loop.csv", "loop.csv", "cannot be read: "),
    ("under.csv", "pipes.py/x.csv", ""),
    ("folder.csv", None, "is a folder without files"),
]


@pytest.mark.parametrize(("name", "data", "message"), HOSTILE, ids=[name for name, _, _ in HOSTILE])
@pytest.mark.parametrize("more", [[], ["--epoch-size", "10", "--state", "state"]], ids=["chunks", "epochs"])
def test_hostile_files(
    pellucid: Command, folder: Path, name: str, data: bytes | str | None, message: str, more: list[str]
) -> None:
    if name in ("nuls.csv", "nuls.jsonl", "deep.jsonl") and more:
        pytest.skip("with epochs a last line without an end waits for the rest of it")
    if data is None:
        (folder / name).mkdir()
    elif isinstance(data, str):
        (folder / name).symlink_to(data)
    else:
        (folder / name).write_bytes(data)
    begin = time.process_time()
    result = pellucid("run", "pipes.py:total", "--in", name, "--out", "out.csv", *more)
    assert result.stderr.startswith(f"pellucid: {name}: {message}"), result.stderr[:300]
    assert result.stderr.removesuffix("\n").isprintable() and len(result.stderr) < 600
    assert result.exit_code == 2
    assert not [left for left in os.listdir(folder) if left.startswith("out.") or left.endswith(".part")]
    assert time.process_time() - begin < 5


def test_memory_is_not_blamed_on_the_chunk(pellucid: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8589934592 failed")

    (folder / "a.csv").write_text("x\n1\n")
    monkeypatch.setattr(pa, "concat_batches", full)
    for name in ("one.csv", "two.csv"):
        (folder / name).write_text("x\n1\n")
    args = ["--in", "one.csv", "--in", "two.csv", "--out", "out.csv", "--cores", "1"]
    refused(pellucid("run", "pipes.py:total", *args), "not enough memory: malloc of size 8589934592 failed", folder)


ODD = "a\x1b[31m\nb\u202e"
SHOWN = "a\\x1b[31m\\nb\\u202e"
ODD_CSV = ["--in", f"{ODD}.csv"]


@pytest.mark.parametrize(
    ("args", "text", "message"),
    [
        (["--in", ODD], "", f"{SHOWN}: no file matches"),
        (["--in", "\x1b.csv"], "", "\\x1b.csv: no such file"),
        (ODD_CSV, "x\n1,2\n", f"{SHOWN}.csv: row 1 (line 2): 2 fields, expected 1 (x): "),
        (["--in", "folder"], "x\n1,2\n", f"folder/{SHOWN}.csv: row 1 (line 2): 2 fields, expected 1 (x): "),
        (ODD_CSV, "", f"{SHOWN}.csv: is empty (0 bytes): "),
        (ODD_CSV, f'"{ODD}",y\n1,2\n', f"{SHOWN}.csv: no column 'x' for the source 'x' (int): its columns are {SHOWN}"),
        (ODD_CSV, f'x\n"{ODD}"\n', f"{SHOWN}.csv: row 1 (line 2): column 'x': expected int, found '{SHOWN}'; "),
        ([*ODD_CSV, "--key", ODD], "x\n1\n", f"{SHOWN}.csv: no key column '{SHOWN}': its only column is x"),
        ([*ODD_CSV, "--out", f"{ODD}/o.csv"], "x\n1\n", f"{SHOWN}/o.csv: cannot be written: "),
        ([*ODD_CSV, "--out", f"{ODD}.dat"], "x\n1\n", f"{SHOWN}.dat: cannot tell the format "),
        ([*ODD_CSV, "--out", "o.csv", "--state", ODD_CSV[1], "--epoch-size", "2"], "x\n1\n", "--state /"),
    ],
)  # fmt: skip
def test_nothing_steers_the_terminal(pellucid: Command, folder: Path, args: list[str], text: str, message: str) -> None:
    (folder / "folder").mkdir()
    for place in (folder, folder / "folder"):
        (place / f"{ODD}.csv").write_text(text)
    result = pellucid("run", "pipes.py:total", *args)
    assert result.stderr.startswith(f"pellucid: {message}")
    assert result.exit_code == 2
    assert result.stderr.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    "args", [[f"--{ODD}"], [ODD], ["run", f"--{ODD}"], ["run", "x", "--on", ODD], ["run", "x", ODD]]
)
def test_nothing_on_the_command_line_steers_the_terminal(pellucid: Command, args: list[str]) -> None:
    result = pellucid(*args)
    assert result.exit_code == 2
    assert result.stderr.replace("\n", "").isprintable()
    assert "\nb" not in result.stderr
