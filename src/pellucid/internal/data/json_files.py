"""JSON Lines: Arrow's parser, held to the one meaning of a value (see `data.text`).

What Arrow refuses, or might take for something else, is read value by value.  Columns that are kept and not declared
are what their first rows hold; what does not fit later is refused with its row: nothing is left out in silence.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from pellucid.errors import DataError, option
from pellucid.internal.data.arrow import column_at
from pellucid.internal.data.bind import Place, below, shorten
from pellucid.internal.data.cells import inner_type, int_of, is_spelled, whole_of
from pellucid.internal.data.text import (
    CUT,
    SMALL,
    Block,
    TextReader,
    Unreadable,
    advised,
    cell_type,
    is_text_cell,
    lists_in,
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

# ------------------------------------------------------------------ value by value, exactly


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
        hint = advised(error, value if isinstance(value, str) else "", t)
        raise Unreadable(f"{'' if bare else f'column {name!r}: '}{error}{hint}", name) from None


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
    elif isinstance(value, (Whole, float)) or not (is_text_cell(t) and isinstance(value, str)):
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


# ------------------------------------------------------------------ columns that are kept


def json_type(values: Sequence[Any], where: str) -> Any:
    """The Arrow type that holds all of these values; text if there are none.

    >>> json_type([Whole("1"), None, 1.5], "x"), json_type([None], "x"), json_type([[True]], "x")
    (DataType(double), DataType(string), ListType(list<item: bool>))
    """
    try:
        found = pa.array([_value(v) for v in values]).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"{where}: cannot be kept: its first rows hold values of several kinds ({error})") from None
    return _no_nulls(found)


def _no_nulls(t: Any) -> Any:
    """A type without parts of which nothing is known: there, texts are expected."""
    if pa.types.is_null(t):
        return pa.string()
    if pa.types.is_list(t):
        return pa.list_(_no_nulls(t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([(t.field(i).name, _no_nulls(t.field(i).type)) for i in range(t.num_fields)])
    return t


def kept_from_json(data: bytes, types: Mapping[str, Any], place: Place, last: bool) -> dict[str, Any]:
    """The columns of these types in some lines."""
    out: dict[str, list[Any]] = {name: [] for name in types}
    lines = list(json_lines(data))
    for i, (_, line) in enumerate(lines):
        try:
            row = json_value(line, last and i == len(lines) - 1 and not data.endswith(b"\n"))
            values = [_kept(row, name, t) for name, t in types.items()]
        except Unreadable as error:
            place.refuse(i, str(error), error.column)
            values = [None] * len(types)
        for column, value in zip(out.values(), values, strict=True):
            column.append(value)
    return {name: pa.array(values, types[name]) for name, values in out.items()}


def _kept(row: Any, name: str, t: Any) -> Any:
    if not isinstance(row, dict):
        raise Unreadable(f"expected an object, found {shorten(row)}")
    try:
        if isinstance(row, Twice) and name in row.keys_twice:
            raise ValueError(f"the key {name!r} comes twice in one object: leave one out")
        value = _value(row.get(name))
        _refuse_other(value, t)
    except ValueError as error:
        raise Unreadable(f"column {name!r}, which is kept: {error}", name) from None
    return value


def _value(found: Any) -> Any:
    """A value of JSON as Python has it."""
    if isinstance(found, Whole):
        return int(found.text)
    if isinstance(found, Real):
        return float(found)
    if isinstance(found, Twice):
        raise ValueError(f"the key {min(found.keys_twice)!r} comes twice in one object: leave one out")
    if isinstance(found, dict):
        return {name: _value(inner) for name, inner in found.items()}
    if isinstance(found, list):
        return [_value(inner) for inner in found]
    if not isinstance(found, (str, float, bool, int)) and found is not None:
        raise ValueError(f"{found.text} is no JSON")
    return found


def _refuse_other(value: Any, t: Any) -> None:
    """Refuse a value that a column of this type does not hold exactly."""
    kind = type(value)
    if value is None:
        return
    if pa.types.is_struct(t):
        fits = kind is dict
        names = [t.field(i).name for i in range(t.num_fields)]
        if fits:
            more = [name for name in value if name not in names]
            if more:
                raise ValueError(f"the key {more[0]!r} was not there in the first rows: {', '.join(names)} were")
            for name, inner in value.items():
                _refuse_other(inner, t.field(name).type)
    elif pa.types.is_list(t):
        fits = kind is list
        for inner in value if fits else ():
            _refuse_other(inner, t.value_type)
    elif pa.types.is_boolean(t):
        fits = kind is bool
    elif pa.types.is_integer(t):
        fits = kind is int and -(2**63) <= value < 2**63
    elif pa.types.is_floating(t):
        fits = kind is float or (kind is int and int(float(value)) == value)
    else:
        fits = kind is str
    if not fits:
        raise ValueError(f"the first rows hold {t}, found {shorten(value)}: make them of one kind, or keep it not")


# ------------------------------------------------------------------ the reader

_JSON_KINDS = {bool: pa.bool_(), Whole: pa.int64(), float: pa.float64(), str: pa.string()}


class JsonLinesReader(TextReader):
    """JSON Lines: an object on each line, or, for one scalar source, the value itself.

    ``assumed`` names the kind of input for which this format was assumed, as it was not given.
    """

    def __init__(
        self,
        name: str,
        pieces: Iterator[Block],
        total: int,
        close: Callable[[], None] | None = None,
        assumed: str | None = None,
    ) -> None:
        super().__init__(name, pieces, total, close)
        self._assumed = assumed
        self.bare, self.blank = False, True
        self._sample: list[dict[str, Any]] = []
        self._flat: dict[str, bool] = {}
        self._known: set[str] = set()
        self._kept: dict[str, Any] = {}
        if self._first is None:
            return
        wrong: DataError | None = None
        for i, (_, line) in enumerate(json_lines(self._first.data)):
            if i >= 1000:
                break
            if i == 0 and line.lstrip().startswith(b"["):
                raise DataError(
                    f"{name}: is one JSON array: expected a JSON value on each line; convert it, for example with jq "
                    "-c '.[]'"
                )
            if i == 0 and not line.lstrip().startswith(b"{"):
                self.bare = True
                if assumed is not None:
                    with self._doubting():
                        self._looked_at(line, 0)
                break
            try:
                value = self._looked_at(line, i)
            except DataError as error:
                wrong = wrong or error
                continue  # reading for real will say what is wrong, with its row
            if isinstance(value, dict):
                self._sample.append(value)
        if wrong is not None and not self._sample:
            raise wrong
        self.blank = not self.bare and not self._sample
        self.names = ["value"] if self.bare else list(dict.fromkeys(p for v in self._sample for p, _ in _paths(v)))
        self._known = set(self.names)
        there = {p for v in self._sample for p, inner in _paths(v) if inner is not None}
        self.nothing = self._known - there if not self.bare else ()

    def _looked_at(self, line: bytes, i: int) -> Any:
        assert self._first is not None
        try:
            return json_value(line, self._first.last and not self._first.data.endswith(b"\n"))
        except Unreadable as error:
            raise DataError(f"{self._place(self._first, 0).at(i)}: {error}") from None

    @property
    def columns(self) -> list[str]:
        """The keys of the first objects."""
        return list(dict.fromkeys(name for value in self._sample for name in value))

    def kept_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest, whatever it is."""
        if column not in self._kept:
            self._kept[column] = json_type([value.get(column) for value in self._sample], f"{self.name}: {column!r}")
        return self._kept[column]

    @contextlib.contextmanager
    def _doubting(self) -> Iterator[None]:
        """Where the format was only assumed, an error in the very first line may mean that it is another."""
        try:
            yield
        except DataError as error:
            if self._assumed is None or not str(error).startswith(f"{self.name}: row 1 "):
                raise
            raise DataError(
                f"{error}; JSON Lines is assumed on {self._assumed}: for CSV give {option('in_format', 'csv')}"
            ) from None

    def field_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest."""
        for value in self._sample:
            try:
                found = json_path(value, column)
            except ValueError:
                continue  # it comes twice: reading for real will say so
            if found is not None:
                return next((kind for t, kind in _JSON_KINDS.items() if isinstance(found, t)), pa.null())
        return pa.string()

    def _begins(self, block: Block) -> list[int]:
        return [n for n, _ in json_lines(block.data)]

    def _note_bad(self, block: Block, wanted: Mapping[str, Type], place: Place, keep: Collection[str]) -> None:
        bare = next(iter(wanted)) if self.bare else None
        json_columns(block.data, wanted, place, block.last, bare)
        if keep:
            kept_from_json(block.data, {name: self.kept_type(name) for name in keep}, place, block.last)

    def _schema(self, wanted: Mapping[str, Type]) -> Any:
        """Flat fields, or nested ones where the first objects nest them."""
        tree: dict[str, Any] = {}
        for path, t in wanted.items():
            kind = cell_type(t)
            if isinstance(inner_type(t), EnumType):
                kind = self.field_type(path)
                kind = pa.string() if self.bare or pa.types.is_null(kind) else kind
            parts = [path] if self._is_flat(path) else path.split(".")
            at = tree
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            at[parts[-1]] = kind
        return pa.schema(_fields(tree))

    def _is_flat(self, path: str) -> bool:
        if path not in self._flat:
            self._flat[path] = (
                self.bare
                or "." not in path
                or (path not in self._known and below(path, self.nothing) is None)
                or any(path in v for v in self._sample)
            )
        return self._flat[path]

    def _batch(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        bare = next(iter(wanted)) if self.bare else None
        batch = None
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, IndexError):
            batch = self._fast(block.data, wanted, bare)
        if batch is None:
            with self._doubting() if bare is not None else contextlib.nullcontext():
                found = json_columns(block.data, wanted, place, block.last, bare)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(found[n], cell_type(t)) for n, t in wanted.items()], names=list(wanted)
            )
        if not keep:
            return batch
        kept = kept_from_json(block.data, {name: self.kept_type(name) for name in keep}, place, block.last)
        return pa.RecordBatch.from_arrays([*batch.columns, *kept.values()], names=[*batch.schema.names, *kept])

    def _fast(self, data: bytes, wanted: Mapping[str, Type], bare: str | None) -> Any:
        """The columns by Arrow's parser; None where it may take for one thing what is another."""
        if lists_in(wanted):
            return None  # what Arrow takes wrongly inside of them is not looked for
        if not data.isascii():
            data.decode("utf-8")  # Arrow takes texts as they come
        if bare is not None:
            if b":" in data:
                return None  # a line could bring a key of its own
            field = b'{"' + bare.encode() + b'":'
            data = b"\n".join(field + line + b"}" for _, line in json_lines(data)) + b"\n"
        lines = _objects(data)
        if lines is None or (bare is None and self._otherwise(data, wanted)):
            return None
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(block_size=len(data) + 1, use_threads=len(data) > SMALL),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._schema(wanted), unexpected_field_behavior="ignore"
            ),
        )
        batch = table.combine_chunks().to_batches()[0]
        if batch.num_rows != lines:  # several objects on a line
            return None
        for path, t in wanted.items():  # the words NaN and Infinity, which JSON does not have
            if inner_type(t) == FLOAT and pc.all(pc.is_finite(column_at(batch, path))).as_py() is False:
                return None
        return batch

    def _otherwise(self, data: bytes, wanted: Mapping[str, Type]) -> bool:
        """Whether a key may be there in the form that was not expected, flat or nested."""
        dotted = [path for path in wanted if "." in path]
        if not dotted:
            return False
        if b"\\u" in data and re.search(rb'"[^"]*\\u[^"]*"[ \t]*:', data):
            return True
        heads = {path.split(".")[0] for path in dotted if self._is_flat(path)}
        other = [*(path for path in dotted if not self._is_flat(path)), *heads]
        return any(b'"' + name.encode() + b'"' in data for name in other)


def _objects(data: bytes) -> int | None:
    """How many lines there are, blank ones aside; None if one does not begin and end as an object does.

    Then no object goes over several lines, since after an inner one no other can begin.

    >>> _objects(b'{"x": 1}\\n\\n {"x": {}}\\r\\n'), _objects(b'{"x":\\n1}')
    (2, None)
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw == 10)
    inner = ends[:-1] if data.endswith(b"\n") else ends
    if data[:1] == b"{" and data[-3:].rstrip(b"\r\n")[-1:] == b"}":
        before = raw[inner - 1]
        before = np.where(before == 13, raw[inner - 2], before)
        if (before == ord("}")).all() and (raw[inner + 1] == ord("{")).all():
            return len(inner) + 1
    lines = [line for _, line in json_lines(data)]
    for line in lines:
        bare = line.strip(b" \t\r")
        if bare[:1] != b"{" or bare[-1:] != b"}":
            return None
    return len(lines)


def _paths(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _paths(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner


def _fields(tree: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, pa.struct(_fields(t)) if isinstance(t, dict) else t) for name, t in tree.items()]
