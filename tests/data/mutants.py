"""Damaged input files, made by a seed, and what is right to do with each.

    python -m tests.data.mutants [FIRST [COUNT]]

runs ``pellucid run`` on mutants FIRST, FIRST + 1, … in processes of a few hundred each, so that a signal is seen.
Right is: exit 0 with the rows that an independent reader finds, or exit 2 with one line and nothing left behind.  Of a
text it is also known which of the two it must be.  The readers here share no code with Pellucid: CSV is parsed
character by character, JSON by the standard library, the rest is what Arrow reads.
"""

from __future__ import annotations

import enum
import gzip
import io
import json
import math
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
from click.testing import CliRunner

from pellucid import Stream, pipeline
from pellucid.internal.cli.main import cli

SECONDS, MEGABYTES = 20, 600  # what one file may take
PER_PROCESS = 250


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Row:
    a: int
    b: float
    s: str
    t: bool
    e: Color


@pipeline
def same(r: Stream[Row]) -> Stream[Row]:
    return r.filter(lambda v: v.a == v.a)


TEXTS = ["", "a", "x y", 'say "hi"', "é😀", "1,5", "line\nbreak", "\ttab", "0x10", "inf", "n" * 30, "null"]
NAMES = ["a", "b", "s", "t", "e"]


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "a": rng.choice([0, -1, 7, 2**63 - 1, -(2**63), rng.randrange(-1000, 1000)]),
            "b": rng.choice([0.0, -0.0, 1.5, -2e300, math.inf, rng.random()]),
            "s": rng.choice(TEXTS),
            "t": rng.random() < 0.5,
            "e": rng.choice(["RED", "BLUE"]),
        }
        for _ in range(count)
    ]


# ------------------------------------------------------------------ whole files


def _cell(value: Any, rng: random.Random) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    if any(c in text for c in ',"\n\r\t') or rng.random() < 0.1:
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_file(data: list[dict[str, Any]], rng: random.Random, delimiter: str = ",") -> bytes:
    end = rng.choice(["\n", "\n", "\r\n"])
    lines = [delimiter.join(NAMES), *(delimiter.join(_cell(row[n], rng) for n in NAMES) for row in data)]
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    return (b"\xef\xbb\xbf" if rng.random() < 0.1 else b"") + text.encode()


def json_file(data: list[dict[str, Any]], rng: random.Random) -> bytes:
    text = "".join(json.dumps(row, ensure_ascii=rng.random() < 0.5).replace("Infinity", "1e999") + "\n" for row in data)
    return text.encode()


def _table(data: list[dict[str, Any]], rng: random.Random) -> Any:
    table = pa.Table.from_pylist(data)
    if rng.random() < 0.4:
        table = table.set_column(2, "s", table.column("s").dictionary_encode())
    if rng.random() < 0.3:
        table = table.set_column(4, "e", pa.array([1 if row["e"] == "RED" else 2 for row in data], pa.int8()))
    if rng.random() < 0.2:
        table = table.append_column("n", pa.array([{"p": i, "q": [i] * (i % 3)} for i in range(len(data))]))
    return table


def parquet_file(data: list[dict[str, Any]], rng: random.Random) -> bytes:
    out = io.BytesIO()
    parquet.write_table(
        _table(data, rng),
        out,
        compression=rng.choice(["none", "snappy", "zstd"]),
        row_group_size=rng.choice([5, 100]),
        use_dictionary=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        write_page_checksum=rng.random() < 0.3,
        store_schema=rng.random() < 0.7,
    )
    return out.getvalue()


def arrow_file(data: list[dict[str, Any]], rng: random.Random, stream: bool = False) -> bytes:
    out, table = io.BytesIO(), _table(data, rng)
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "lz4", "zstd"]))
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([3, 100]))
    return out.getvalue()


def feather_file(data: list[dict[str, Any]], rng: random.Random) -> bytes:
    out = io.BytesIO()
    feather.write_feather(_table(data, rng), out, compression=rng.choice(["lz4", "uncompressed"]))
    return out.getvalue()


WHOLE: dict[str, Callable[[list[dict[str, Any]], random.Random], bytes]] = {
    "csv": csv_file,
    "csv.gz": csv_file,
    "tsv": lambda data, rng: csv_file(data, rng, "\t"),
    "jsonl": json_file,
    "jsonl.gz": json_file,
    "parquet": parquet_file,
    "arrow": arrow_file,
    "arrows": lambda data, rng: arrow_file(data, rng, stream=True),
    "feather": feather_file,
}
KINDS = [
    "csv",
    "jsonl",
    "parquet",
    "arrow",
    "arrows",
    "feather",
    "csv",
    "jsonl",
    "parquet",
    "arrow",
    "csv.gz",
    "jsonl.gz",
    "tsv",
]


# ------------------------------------------------------------------ damage

_TOKENS = [
    b'"',
    b'""',
    b"\r",
    b"\n",
    b"\r\n",
    b",",
    b"\t",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\xed\xa0\x80",
    b"0x10",
    b"1e3",
    b"+",
    b"-",
    b" ",
    b"1_0",
    b"nan",
    b"inf",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 25,
    b"9" * 5000,
    "\u0663".encode(),
    b"\\ud800",
    b"\\u0041",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b'"a":1,',
    b'{"a":1}',
    b"[" * 3000,
    b"null",
    b"true",
    b"\xe2\x80\xa8",
    b"\x0b",
    b"\x1f",
    b'"\n',
    b"\n\n",
    b"\xc2\xa0",
]
_NUMBERS = [
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    2**15,
    2**16,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**40,
    2**60,
    2**63 - 1,
    -(2**63),
    7,
    8,
    64,
]


def damaged(data: bytes, rng: random.Random, text: bool) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = _hurt(data, rng, text)
    return data


def _hurt(data: bytes, rng: random.Random, text: bool) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    if not text and rng.random() < 0.5:  # where the file speaks of itself
        at = rng.choice([rng.randrange(min(400, len(data))), max(0, len(data) - 1 - rng.randrange(600))])
    what = rng.random()
    if text and what < 0.45:
        return data[:at] + rng.choice(_TOKENS) + data[at + rng.choice([0, 0, 1, 2]) :]
    if what < 0.35:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if what < 0.55:
        return data[:at] + bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])]) + data[at + 1 :]
    if not text and what < 0.75:
        size = rng.choice([2, 4, 8])
        at -= at % rng.choice([1, size])
        number = (rng.choice(_NUMBERS) % (1 << (8 * size))).to_bytes(size, "little")
        return (data[:at] + number + data[at + size :])[: max(len(data), at + size)]
    other = min(len(data), at + rng.choice([1, 2, 8, 64, rng.randrange(1, 400)]))
    if what < 0.80:
        return data[:at] + data[other:]
    if what < 0.85:
        return data[:other] + data[at:other] + data[other:]
    if what < 0.90:
        return data[:at]
    if what < 0.95:
        return data[:at] + bytes(other - at) + data[other:]
    return data[:at] + rng.randbytes(other - at) + data[other:]


def _footer(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file whose index is changed in length, too, and says so."""
    size = int.from_bytes(data[-8:-4], "little")
    index = data[-8 - size : -8]
    at = rng.randrange(len(index))
    large = rng.choice(
        [b"\xfe" + b"\xff" * 8 + b"\x01", b"\x80" * 4 + b"\x10", b"\x80" * 8 + b"\x10", b"\xff" * 3, b""]
    )
    index = index[:at] + large + index[at + 1 :]
    return data[: -8 - size] + index + len(index).to_bytes(4, "little") + b"PAR1"


def mutant(seed: int) -> tuple[str, bytes]:
    """The ending and the content of a damaged file."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    data = WHOLE[kind](rows(rng, rng.choice([1, 3, 12, 40])), rng)
    if not kind.endswith(".gz"):
        if kind == "parquet" and rng.random() < 0.3:
            return kind, _footer(data, rng)
        return kind, damaged(data, rng, kind in ("csv", "tsv", "jsonl"))
    how = rng.random()
    if how < 0.4:
        return kind, gzip.compress(damaged(data, rng, True), 1)
    if how < 0.8:
        return kind, damaged(gzip.compress(data, 1), rng, False)
    at = rng.randrange(len(data) + 1)
    return kind, gzip.compress(data[:at]) + gzip.compress(data[at:]) + rng.choice(
        [b"", b"\0\0\0", b"more", b"\x1f\x8b\x08"]
    )


# ------------------------------------------------------------------ what is right


class RefusedError(Exception):
    """Not a file that says what its rows are."""


def _text(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:2] or data[:4] == b"\0\0\xfe\xff":
        raise RefusedError("UTF-16")
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(str(error)) from None


def csv_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """RFC 4180, one character after the other."""
    at, end = 0, len(text)
    while at < end:
        row: list[str] = []
        while True:
            if at < end and text[at] == '"':
                cell, at = "", at + 1
                while True:
                    if at >= end:
                        raise RefusedError("open quote")
                    if text[at] != '"':
                        cell, at = cell + text[at], at + 1
                    elif text[at + 1 : at + 2] == '"':
                        cell, at = cell + '"', at + 2
                    else:
                        at += 1
                        break
            else:
                begin = at
                while at < end and text[at] not in (delimiter, '"', "\r", "\n"):
                    at += 1
                cell = text[begin:at]
            row.append(cell)
            if at < end and text[at] == delimiter:
                at += 1
                continue
            if at >= end or text[at] == "\n":
                at += 1
            elif text[at : at + 2] == "\r\n":
                at += 2
            else:
                raise RefusedError("a stray character")
            break
        yield row


def from_csv(data: bytes, delimiter: str) -> list[tuple[Any, ...]]:
    table = [row for row in csv_rows(_text(data), delimiter) if row != [""]]
    header = [name.strip() for name in (table or [[]])[0]]
    if len(set(header)) != len(header) or not set(NAMES) <= set(header) or any("\0" in name for name in header):
        raise RefusedError("header")
    out = []
    for row in table[1:]:
        if len(row) != len(header):
            raise RefusedError("cells")
        cells = dict(zip(header, row, strict=True))
        a, b, t = (cells[n].strip(" \t") for n in ("a", "b", "t"))
        number = re.fullmatch(
            r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?inf(inity)?", b, re.IGNORECASE | re.ASCII
        )
        if not re.fullmatch("[-+]?[0-9]+", a) or len(a) > 4000 or not -(2**63) <= int(a) < 2**63 or not number:
            raise RefusedError("number")
        if t.lower() not in ("true", "false", "1", "0") or t not in (t.lower(), t.upper(), t.title()):
            raise RefusedError("bool")
        out.append((int(a), float(b), cells["s"], t.lower() in ("true", "1"), _member(cells["e"])))
    return out


def _member(found: Any) -> str:
    names = {"RED": "RED", "BLUE": "BLUE", "1": "RED", "2": "BLUE", 1: "RED", 2: "BLUE"}
    if isinstance(found, (str, int, float)) and found in names:
        return names[found]
    raise RefusedError("member")


class _NoJson:
    pass


class _MinusZero(int):
    """What ``-0`` is: a whole number, and as a float one with a sign."""


def from_json(data: bytes) -> list[tuple[Any, ...]]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in found:
            out[key] = _NoJson() if key in out else value
        return out

    out = []
    lines = [line for line in _text(data).split("\n") if line.strip(" \t\r")]
    for line in lines:
        try:
            value = json.loads(
                line,
                object_pairs_hook=pairs,
                parse_constant=lambda _: _NoJson(),
                parse_int=lambda text: _MinusZero() if text == "-0" else int(text[:4000]),
            )
        except (ValueError, RecursionError):
            raise RefusedError("json") from None
        if not isinstance(value, dict) or any(value.get(n) is None for n in NAMES):
            raise RefusedError("object")
        a, b, s, t, e = (value[n] for n in NAMES)
        whole = isinstance(a, int) and not isinstance(a, bool) and -(2**63) <= a < 2**63
        if (
            not whole
            or not isinstance(b, (int, float))
            or isinstance(b, bool)
            or not isinstance(s, str)
            or not isinstance(t, bool)
        ):
            raise RefusedError("type")
        try:
            s.encode()
            out.append(
                (
                    a,
                    -0.0 if isinstance(b, _MinusZero) else float(b) if abs(b) < 2**1024 else math.copysign(math.inf, b),
                    s,
                    t,
                    _member(e),
                )
            )
        except UnicodeEncodeError:
            raise RefusedError("surrogate") from None
    return out


def from_arrow(kind: str, data: bytes) -> list[tuple[Any, ...]]:
    try:
        if kind == "parquet":
            file = parquet.ParquetFile(io.BytesIO(data), pre_buffer=False)
            table = pa.Table.from_batches(
                file.iter_batches(columns=NAMES), file.schema_arrow.empty_table().select(NAMES).schema
            )
        else:
            opened = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
            heads = [i for i, name in enumerate(opened(data).schema.names) if name in NAMES]
            table = opened(data, options=pa.ipc.IpcReadOptions(included_fields=heads)).read_all()
        table.validate(full=True)
        columns = [table.column(name).to_pylist() for name in NAMES]
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise RefusedError(str(error)) from None
    return [(a, float(b), s, t, _member(e)) for a, b, s, t, e in zip(*columns, strict=True)]


def right(kind: str, data: bytes) -> list[tuple[Any, ...]]:
    """The rows of a file, or RefusedError."""
    if not data:
        raise RefusedError("empty")
    if kind.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RefusedError(str(error)) from None
    if kind.startswith(("csv", "tsv")):
        return from_csv(data, "\t" if kind == "tsv" else ",")
    return from_json(data) if kind.startswith("jsonl") else from_arrow(kind, data)


# ------------------------------------------------------------------ judged


def judged(seed: int, folder: Path) -> str | None:
    """What is wrong with what Pellucid does with a mutant; None if nothing."""
    kind, data = mutant(seed)
    source, target = folder / f"in.{kind}", folder / "out.jsonl"
    source.write_bytes(data)
    target.unlink(missing_ok=True)
    begin = time.monotonic()
    result = CliRunner().invoke(cli, ["run", f"{__file__}:same", "--in", str(source), "--out", str(target)])
    seconds = time.monotonic() - begin
    left = sorted(set(os.listdir(folder)) - {source.name, target.name})
    source.unlink()
    if seconds > SECONDS:
        return f"took {seconds:.0f} s"
    if left:
        return f"left {left}"
    if result.exit_code == 2:
        if result.stderr.count("\n") != 1 or not result.stderr.startswith("pellucid: ") or target.exists():
            return f"exit 2 with {result.stderr!r}"
        if kind.startswith(("csv", "tsv", "jsonl")):
            try:
                return f"refused {result.stderr!r}, but it is {right(kind, data)}"
            except RefusedError:
                pass
        return None
    if result.exit_code != 0:
        return f"exit {result.exit_code}: {result.stderr!r} {result.exception!r}"
    found = [tuple(json.loads(line)[n] for n in NAMES) for line in target.read_text().split("\n") if line]
    try:
        expected = right(kind, data)
    except RefusedError as why:
        return f"read {len(found)} rows of what should be refused ({why})"
    return None if repr(found) == repr(expected) else f"read {found}, but it is {expected}"


def process(first: int, count: int) -> None:
    """Judge mutants in this process; a line for each, so that the one that ends it is known."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(f"{seed}", end="", flush=True)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            wrong = judged(seed, Path(folder))
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
            if wrong is None and more > MEGABYTES:
                wrong = f"took {more} MB"
            print(f" {json.dumps(wrong)}", flush=True)


def hunt(first: int, count: int) -> list[str]:
    """What is wrong with these mutants, each with its seed."""
    out: list[str] = []
    at = first
    while at < first + count:
        size = min(PER_PROCESS, first + count - at)
        args = [sys.executable, "-m", "tests.data.mutants", "--process", str(at), str(size)]
        done = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False, timeout=SECONDS * size)
        lines = done.stdout.splitlines()
        last = at
        for line in lines:
            seed, _, said = line.partition(" ")
            last = int(seed)
            wrong = json.loads(said) if said else f"ended the process: {done.returncode}"
            if wrong is not None:
                out.append(f"mutant {seed} ({KINDS[last % len(KINDS)]}): {wrong}")
        if not lines:
            out.append(f"mutant {at}: nothing was said, exit {done.returncode}")
        at = last + 1
    return out


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        process(int(sys.argv[2]), int(sys.argv[3]))
    else:
        start, number = int((sys.argv[1:] or ["0"])[0]), int((sys.argv[2:] or ["5000"])[0])
        faults = hunt(start, number)
        print(*faults, f"{number} mutants, {len(faults)} wrong", sep="\n")
        sys.exit(bool(faults))
