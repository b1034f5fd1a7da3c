"""Text parsed slowly and exactly, once the fast parser has refused a block.

Either the first bad value is found, and named with its row, line and column; or there is none (the fast parser is
stricter in a few spellings, such as ``+5``), and the block's columns are returned.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.data.bind import Place, shorten
from pellucid.errors import DataError
from pellucid.expr.types import BOOL, FLOAT, INT, EnumType, Type, fits_int

__all__ = ["csv_columns", "csv_lines", "csv_rows", "json_columns", "json_lines", "json_path", "json_value"]

_INT = re.compile(r"[+-]?\d+")
_BOOLS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "1": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "0": False,
}
CUT = "the file ends in the middle of it and seems cut off"


def csv_rows(data: bytes, delimiter: str, blank: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a block with the number of the line (0-based in the block) on which each begins.

    With ``blank`` an empty line is a row with one empty cell, as in a file of one column; else it is no row.

    >>> list(csv_rows(b"1\\n\\n2\\n", ",")), list(csv_rows(b"1\\n\\n", ",", blank=True))
    ([(0, ['1']), (2, ['2'])], [(0, ['1']), (1, [''])])
    """
    csv.field_size_limit(1 << 30)
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    # splitlines also parts at characters such as U+2028, which are no line ends in a file
    if len(lines) != data.count(b"\n") + (not data.endswith(b"\n")):
        lines = re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "surrogateescape"))
    reader = csv.reader(lines, delimiter=delimiter)
    begin = 0
    for row in reader:
        if row or blank:
            yield begin, row or [""]
        begin = reader.line_num


def csv_lines(data: bytes, delimiter: str, row: int, blank: bool = False) -> int:
    """The line (0-based in the block) of a row of the block."""
    for i, (line, _) in enumerate(csv_rows(data, delimiter, blank)):
        if i == row:
            return line
    return 0


def csv_columns(
    data: bytes,
    delimiter: str,
    header: Sequence[str],
    wanted: Mapping[str, Type],
    place: Place,
    last: bool,
    silent: bool,
) -> dict[str, list[Any]]:
    """The wanted columns of a block, or the error of its first bad value."""
    where = {name: header.index(name) for name in wanted}
    out: dict[str, list[Any]] = {name: [] for name in wanted}
    rows = list(csv_rows(data, delimiter, blank=len(header) == 1))
    for i, (_, row) in enumerate(rows):
        if len(row) != len(header):
            text = (
                f"{place.at(i)}: {len(row)} field{'s' * (len(row) != 1)}, expected {len(header)} ({', '.join(header)})"
            )
            if last and i == len(rows) - 1 and not data.endswith(b"\n"):
                raise DataError(f"{text}: {CUT}")
            more = (
                "put a text that holds a comma in quotes" if len(row) > len(header) else "complete the row or remove it"
            )
            raise DataError(f"{text}: {more}")
        for name, t in wanted.items():
            text = row[where[name]]
            if text == "" and (silent or not _is_text(t)):
                out[name].append(None)
                continue
            try:
                out[name].append(_from_text(t, text))
            except ValueError as error:
                raise DataError(f"{place.at(i)}: column {name!r}: {error}{_advice(error)}") from None
    return out


def _advice(error: ValueError) -> str:
    return "; correct the value or remove the row" if str(error).startswith("expected") else ""


def _is_text(t: Type) -> bool:
    return t not in (INT, FLOAT, BOOL)


def _from_text(t: Type, text: str) -> Any:
    bare = text.strip()
    if any("\udc80" <= c <= "\udcff" for c in text):
        raw = text.encode("utf-8", "surrogateescape")
        raise ValueError(f"the text {raw[:40]!r} is not UTF-8: convert the file, for example with iconv -t UTF-8")
    if t == INT:
        if not _INT.fullmatch(bare):
            raise ValueError(f"expected int, found {shorten(text)}")
        return _int(int(bare))
    if t == FLOAT:
        try:
            if "_" in bare:
                raise ValueError
            return float(bare)
        except ValueError:
            raise ValueError(f"expected float, found {shorten(text)}") from None
    if t == BOOL:
        if bare not in _BOOLS:
            raise ValueError(f"expected bool (true or false), found {shorten(text)}")
        return _BOOLS[bare]
    return text


def _int(value: int) -> int:
    if not fits_int(value):
        raise ValueError(f"{value} does not fit in 64 bits: make the source float or str")
    return value


# ------------------------------------------------------------------ JSON Lines


def json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that are not blank, with their numbers (0-based in the block)."""
    for i, line in enumerate(data.split(b"\n")):
        if line.strip():
            yield i, line


def json_columns(
    data: bytes, wanted: Mapping[str, Type], place: Place, last: bool, bare: str | None
) -> dict[str, list[Any]]:
    """The wanted columns of a block, or the error of its first bad value.  ``bare``: each line is the value itself."""
    out: dict[str, list[Any]] = {name: [] for name in wanted}
    lines = list(json_lines(data))
    for i, (_, line) in enumerate(lines):
        cut = last and i == len(lines) - 1 and not data.endswith(b"\n")
        value = json_value(line, place, i, cut)
        if bare is None and not isinstance(value, dict):
            raise DataError(f"{place.at(i)}: expected an object such as {{{_example(wanted)}}}, found {shorten(value)}")
        for name, t in wanted.items():
            found = value if bare is not None else json_path(value, name)
            if found is None:
                out[name].append(None)
                continue
            try:
                out[name].append(_from_json(t, found))
            except ValueError as error:
                column = "" if bare is not None else f"column {name!r}: "
                raise DataError(f"{place.at(i)}: {column}{error}{_advice(error)}") from None
    return out


def json_value(line: bytes, place: Place, i: int, cut: bool) -> Any:
    """The value on a line, or the error of its row."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raw = line[max(0, error.start - 10) : error.start + 20]
        raise DataError(
            f"{place.at(i)}: the text {raw!r} is not UTF-8: convert the file, for example with iconv -t UTF-8"
        ) from None
    except (json.JSONDecodeError, RecursionError) as error:
        if cut:
            raise DataError(f"{place.at(i)}: the line is no whole JSON value: {CUT}") from None
        why = f"{error.msg} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
        text = line.decode("utf-8", "replace").strip()
        raise DataError(f"{place.at(i)}: no JSON value ({why}): {shorten(text)}; give one value on each line") from None


def json_path(value: Mapping[str, Any], path: str) -> Any:
    """What an object holds at a dotted path, flat or nested; None where it holds nothing.

    >>> json_path({"a": {"b": 1}}, "a.b"), json_path({"a.b": 2}, "a.b"), json_path({}, "a.b")
    (1, 2, None)
    """
    if path in value:
        return value[path]
    head, _, rest = path.partition(".")
    inner = value.get(head)
    return json_path(inner, rest) if rest and isinstance(inner, dict) else None


def _from_json(t: Type, value: Any) -> Any:
    if t == INT and isinstance(value, int) and not isinstance(value, bool):
        return _int(value)
    if t == FLOAT and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if t == BOOL and isinstance(value, bool):
        return value
    if isinstance(t, EnumType) and isinstance(value, (str, int, float)):
        return str(value) if not isinstance(value, bool) else str(int(value))
    if not isinstance(t, EnumType) and _is_text(t) and isinstance(value, str):
        return value
    raise ValueError(f"expected {t}, found {shorten(value)}")


def _example(wanted: Mapping[str, Type]) -> str:
    return ", ".join(f'"{name}": …' for name in wanted)
