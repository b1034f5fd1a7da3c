"""Text parsed slowly and exactly, once the fast parser has refused a block.

Either the first bad value is found, and named with its row, line and column; or there is none (the fast parser is
stricter in a few spellings, such as ``+5``), and the block's columns are returned.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.internal.data.bind import Place, shorten, some
from pellucid.internal.data.cells import (
    NEVER,
    Missing,
    advice,
    bool_of,
    float_of,
    inner_type,
    int_of,
    is_spelled,
    quoted_cells,
    whole_of,
)
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TupleType,
    Type,
)

CUT = "the file ends in the middle of it and seems cut off"


def csv_rows(data: bytes, delimiter: str, blank: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a block with the number of the line (0-based in the block) on which each begins.

    With ``blank`` an empty line is a row with one empty cell, as in a file of one column; else it is no row.

    >>> list(csv_rows(b"1\\n\\n2\\n", ",")), list(csv_rows(b"1\\n\\n", ",", blank=True))
    ([(0, ['1']), (2, ['2'])], [(0, ['1']), (1, [''])])
    """
    csv.field_size_limit(1 << 30)
    reader = csv.reader(_lines(data), delimiter=delimiter)
    begin = 0
    for row in reader:
        if row or blank:
            yield begin, row or [""]
        begin = reader.line_num


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    # splitlines also parts at characters such as U+2028, which are no line ends in a file
    if len(lines) != data.count(b"\n") + (not data.endswith(b"\n")):
        lines = re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "surrogateescape"))
    return lines


def csv_columns(
    data: bytes,
    delimiter: str,
    header: Sequence[str],
    wanted: Mapping[str, Type],
    place: Place,
    last: bool,
    missing: Missing = NEVER,
) -> dict[str, list[Any]]:
    """The wanted columns of a block; a row with a bad value is refused, or noted, and holds nothing then."""
    places = {name: i for i, name in enumerate(header)}
    where = [(name, t, _reader_of(t), places[name]) for name, t in wanted.items()]
    empty = _Empty(data, delimiter, missing, {places[name] for name in wanted if name in missing.columns})
    found: list[list[Any]] = [[] for _ in where]
    rows = list(csv_rows(data, delimiter, blank=len(header) == 1))
    whole = data.isascii()
    for i, (_, row) in enumerate(rows):
        try:
            if len(row) != len(header):
                cut = last and i == len(rows) - 1 and not data.endswith(b"\n")
                raise Unreadable(_other_length(row, header, cut))
            if not whole:
                _refuse_no_text(row, header)
            gone = empty(rows, i)
            values = [
                row[at] if read is None else None if at in gone else _cell(name, t, read, row[at])
                for name, t, read, at in where
            ]
        except Unreadable as error:
            place.refuse(i, str(error), error.column)
            values = [None] * len(where)
        for out, value in zip(found, values, strict=True):
            out.append(value)
    return {name: out for (name, *_), out in zip(where, found, strict=True)}


class _Empty:
    """Which cells of a row hold a word for nothing, and are not in quotes."""

    def __init__(self, data: bytes, delimiter: str, missing: Missing, places: set[int]) -> None:
        self._words, self._places, self._delimiter = {*missing.words}, places, delimiter
        self._lines = _lines(data) if places and b'"' in data else None

    def __call__(self, rows: Sequence[tuple[int, list[str]]], i: int) -> set[int]:
        begin, row = rows[i]
        found = {at for at in self._places if row[at] in self._words}
        if not found or self._lines is None:
            return found
        end = rows[i + 1][0] if i + 1 < len(rows) else len(self._lines)
        quoted = quoted_cells("".join(self._lines[begin:end]).rstrip("\r\n"), self._delimiter)
        return {at for at in found if not quoted[at]}


class Unreadable(ValueError):  # noqa: N818 - reads as what it is
    """What is wrong with a row, and in which column."""

    def __init__(self, why: str, column: str | None = None) -> None:
        super().__init__(why)
        self.column = column


def _other_length(row: Sequence[str], header: Sequence[str], cut: bool) -> str:
    text = f"{len(row):,} field{'s' * (len(row) != 1)}, expected {len(header):,} ({some(header)})"
    if cut:
        return f"{text}: {CUT}"
    more = "put a text that holds a comma in quotes" if len(row) > len(header) else "complete the row or remove it"
    return f"{text}: {more}"


def _cell(name: str, t: Type, read: Callable[[str], Any], text: str) -> Any:
    if text == "":
        return None
    try:
        return read(text)
    except ValueError as error:
        raise Unreadable(f"column {name!r}: {error}{_advice(error, text, t)}", name) from None


def _refuse_no_text(row: Sequence[str], header: Sequence[str]) -> None:
    for name, text in zip(header, row, strict=True):
        if any("\udc80" <= c <= "\udcff" for c in text):
            raw = text.encode("utf-8", "surrogateescape")
            why = f"the text {raw[:40]!r} is not UTF-8: convert the file, for example with iconv -t UTF-8"
            raise Unreadable(f"column {name!r}: {why}", name)


def _advice(error: ValueError, text: str, t: Type) -> str:
    return f"; {advice(text, t)}" if str(error).startswith("expected") else ""


def _is_text(t: Type) -> bool:
    return inner_type(t) not in (INT, FLOAT, BOOL) and not is_spelled(t)


def _reader_of(t: Type) -> Callable[[str], Any] | None:
    """What makes a value of a cell that is not empty; None for a text, which may be."""
    if t == OptionalType(INT):
        return whole_of
    readers: dict[Type, Callable[[str], Any]] = {INT: int_of, FLOAT: float_of, BOOL: bool_of}
    return None if _is_text(t) else readers.get(inner_type(t), str)


# ------------------------------------------------------------------ JSON Lines


class Twice(dict[str, Any]):
    """An object in which some keys come twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.keys_twice = {key for key, count in counts.items() if count > 1}


@dataclass(frozen=True)
class Whole:
    """A number without point and exponent, by its digits: what it is depends on what is wanted."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Real(float):
    """A number with a point or an exponent, and its digits: what a decimal needs."""

    text: str

    @classmethod
    def read(cls, text: str) -> Real:
        """The number that a text spells."""
        found = cls(text)
        found.text = text
        return found


@dataclass(frozen=True)
class _Word:
    """``NaN``, ``Infinity``, ``-Infinity``: words that some write, but that JSON does not have."""

    text: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Twice(pairs)


_DECODE = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Whole, parse_float=Real.read, parse_constant=_Word
).decode


def json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that are not blank, with their numbers (0-based in the block)."""
    for i, line in enumerate(data.split(b"\n")):
        if line.strip(b" \t\r"):
            yield i, line


def json_columns(
    data: bytes, wanted: Mapping[str, Type], place: Place, last: bool, bare: str | None
) -> dict[str, list[Any]]:
    """The wanted columns of a block; a row with a bad value is refused, or noted, and holds nothing then.  ``bare``:
    each line is the value itself."""
    out: dict[str, list[Any]] = {name: [] for name in wanted}
    lines = list(json_lines(data))
    for i, (_, line) in enumerate(lines):
        try:
            value = json_value(line, last and i == len(lines) - 1 and not data.endswith(b"\n"))
            if bare is None and not isinstance(value, dict):
                raise Unreadable(f"expected an object such as {{{_example(wanted)}}}, found {shorten(value)}")
            row = [_json_cell(name, t, value, bare is not None) for name, t in wanted.items()]
        except Unreadable as error:
            place.refuse(i, str(error), error.column)
            row = [None] * len(wanted)
        for cells, cell in zip(out.values(), row, strict=True):
            cells.append(cell)
    return out


def _json_cell(name: str, t: Type, value: Any, bare: bool) -> Any:
    try:
        found = value if bare else json_path(value, name)
        return None if found is None else _from_json(t, found)
    except ValueError as error:
        advised = _advice(error, value if isinstance(value, str) else "", t)
        raise Unreadable(f"{'' if bare else f'column {name!r}: '}{error}{advised}", name) from None


def json_value(line: bytes, cut: bool) -> Any:
    """The value on a line, or what is wrong with it; ``cut``: it may be that the file ends in the middle of it."""
    try:
        return _DECODE(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raw = line[max(0, error.start - 10) : error.start + 20]
        raise Unreadable(f"the text {raw!r} is not UTF-8: convert the file, for example with iconv -t UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        if cut:
            raise Unreadable(f"the line is no whole JSON value: {CUT}") from None
        why = f"{error.msg} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
        text = line.decode("utf-8", "replace").strip()
        raise Unreadable(f"no JSON value ({why}): {shorten(text)}; give one value on each line") from None


def json_path(value: Mapping[str, Any], path: str) -> Any:
    """What an object holds at a dotted path, flat or nested; None where it holds nothing, a ``ValueError`` where it
    holds two.

    >>> json_path({"a": {"b": 1}}, "a.b"), json_path({"a.b": 2}, "a.b"), json_path({}, "a.b")
    (1, 2, None)
    """
    head, _, rest = path.partition(".")
    inner = value.get(head) if rest else None
    nested = json_path(inner, rest) if isinstance(inner, dict) else None
    if path not in value:
        if rest and isinstance(value, Twice) and head in value.keys_twice:
            raise ValueError(f"the key {head!r} comes twice in one object: leave one out")
        return nested
    if nested is not None or (isinstance(value, Twice) and path in value.keys_twice):
        raise ValueError(f"the key {path!r} comes twice in one object: leave one out")
    return value[path]


def _inside(t: Type, value: Any) -> Any:
    """An element of a list, or a part of one: an object for a record."""
    fields = [*t.fields] if isinstance(t, RecordType) else None
    if isinstance(t, TupleType):
        fields = [(f"_{i}", part) for i, part in enumerate(t.items)]
    if value is None or fields is None:
        return None if value is None else _from_json(t, value)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object for {t}, found {shorten(value)}")
    if isinstance(value, Twice):
        raise ValueError(f"the key {min(value.keys_twice)!r} comes twice in one object: leave one out")
    return {name: _inside(part, value.get(name)) for name, part in fields}


def _from_json(t: Type, value: Any) -> Any:
    if t == OptionalType(INT) and isinstance(value, Real):
        return whole_of(value.text)
    t = inner_type(t)
    if isinstance(t, ListType):
        if not isinstance(value, list):
            raise ValueError(f"expected {t}, found {shorten(value)}")
        return [_inside(t.item, item) for item in value]
    if isinstance(t, DecimalType) and isinstance(value, (Whole, Real)):
        return value.text
    if is_spelled(t) and isinstance(value, str):
        return value
    if isinstance(value, Whole) and t == INT:
        return int_of(value.text)
    if isinstance(value, (Whole, float)) and t == FLOAT:
        return float(value.text) if isinstance(value, Whole) else float(value)
    if isinstance(value, _Word):
        raise ValueError(
            f"{value.text} is no JSON: an infinity is 1e999 or -1e999, and NaN has none; correct the value or "
            "remove the row"
        )
    if t == BOOL and isinstance(value, bool):
        return value
    if isinstance(t, EnumType) and isinstance(value, (str, Whole, float, bool)):
        value = str(value.text if isinstance(value, Whole) else int(value) if isinstance(value, bool) else value)
    elif isinstance(value, (Whole, float)) or not (_is_text(t) and isinstance(value, str)):
        raise ValueError(f"expected {t}, found {shorten(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text {shorten(value)} holds half a surrogate pair (\\u{ord(value[error.start]):04x}), which is no "
            "character: write both halves, or none"
        ) from None
    return value


def _example(wanted: Mapping[str, Type]) -> str:
    return ", ".join(f'"{name}": …' for name in wanted)
