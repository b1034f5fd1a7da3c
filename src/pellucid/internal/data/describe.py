"""What a table holds, as a record class: names, types, which columns have nulls.

Every row is looked at, so that the answer is true of all of them.  A column of text is a number, a truth value or a
time only if every cell of it is.
"""

from __future__ import annotations

import keyword
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, TypeMismatch, printable
from pellucid.internal.data.cells import NOTHING, bool_of, float_of, int_of
from pellucid.internal.data.feed import is_text
from pellucid.internal.data.files import open_reader
from pellucid.internal.data.rich import is_list
from pellucid.internal.expr import types as expr_types
from pellucid.internal.expr.types.rich import MOST_PLACES

_ROWS = 1 << 16
_NAMED = 3  # rows that cannot be read: so many are named
_DIGITS = MOST_PLACES  # that a decimal of an event holds for sure
_SAFE = re.compile(r"[^0-9a-zA-Z]+")


@dataclass
class ColumnFound:
    """A column: its name, what it holds, how many nulls and how many NaN; for a struct or a list what is inside."""

    name: str
    kind: Any  # an Arrow type
    nulls: int = 0
    nans: int = 0
    instead: Any = None  # the Arrow type that a column of texts would have, if words for nothing were empty cells
    words: list[str] = field(default_factory=list)  # these words
    inside: list[ColumnFound] = field(default_factory=list)
    spelled: bool = False  # a column of texts, all of which are of its kind


@dataclass
class TableFound:
    """What was found in a table."""

    name: str
    rows: int
    columns: list[ColumnFound]
    bad: int = 0  # rows that cannot be read, and are not looked at
    left_out: list[str] = field(default_factory=list)  # the first of them, each with its place and what is wrong


def describe(path: str, form: str | None = None) -> TableFound:
    """Look at every row of a file, a folder or a pattern; one that cannot be read is left out, and named."""
    reader: Any = open_reader(path, form)
    try:
        names = reader.columns
        guesses = {name: _Guess() for name in names} if is_text(reader) and not hasattr(_head(reader), "bare") else {}
        found = {
            name: ColumnFound(name, reader.kept_type(name), inside=_inside(reader.kept_type(name))) for name in names
        }
        rows = bad = 0
        left_out: list[str] = []
        for chunk in reader.chunks({}, rows=_ROWS, keep=names, lenient=True):
            batch = chunk.batch
            notes = {i: why for i, (_, why) in sorted((chunk.place.bad or {}).items()) if i < batch.num_rows}
            if notes:
                bad += len(notes)
                left_out += [f"{chunk.place.at(i)}: {why}" for i, why in notes.items()][: _NAMED - len(left_out)]
                batch = batch.take(pa.array([i for i in range(batch.num_rows) if i not in notes], pa.int64()))
            rows += batch.num_rows
            for name in names:
                column = batch.column(name)
                _count(found[name], column)
                if name in guesses:
                    guesses[name].look(column)
    finally:
        reader.close()
    if bad and not rows:
        raise DataError(left_out[0])
    for name, guess in guesses.items():
        found[name].kind, found[name].spelled = guess.kind(), True
        found[name].instead, found[name].words = guess.instead(), sorted(guess.words)
    return TableFound(path, rows, list(found.values()), bad, left_out)


def _head(reader: Any) -> Any:
    return getattr(reader, "head", reader)


def _inside(kind: Any) -> list[ColumnFound]:
    if is_list(kind):
        return [ColumnFound("element", kind.value_type, inside=_inside(kind.value_type))]
    if not pa.types.is_struct(kind):
        return []
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return [ColumnFound(f.name, f.type, inside=_inside(f.type)) for f in fields]


def _count(found: ColumnFound, column: Any) -> None:
    found.nulls += column.null_count
    if pa.types.is_floating(column.type):
        found.nans += pc.sum(pc.is_nan(column.cast(pa.float64()))).as_py() or 0
    elif pa.types.is_string(column.type):  # a cell of text
        found.nans += pc.sum(pc.match_substring_regex(column, r"^[ \t]*[+-]?[nN][aA][nN][ \t]*$")).as_py() or 0
    if found.inside:
        parts = column.drop_null().flatten()
        for inner, part in zip(found.inside, [parts] if is_list(found.kind) else parts, strict=True):
            _count(inner, part)


class _Places:
    """Reads numbers with as many places after the point as the first has, two or more: money is written so, with the
    zeros at the end that a float has not."""

    _FORM = re.compile(r"-?([0-9]+)\.([0-9]{2,})")

    def __init__(self) -> None:
        self.places = 0

    def __call__(self, text: str) -> None:
        found = self._FORM.fullmatch(text)
        _strictly(found is not None)
        assert found is not None
        self.places = self.places or len(found[2])
        _strictly(len(found[2]) == self.places and len(found[1].lstrip("0")) + self.places <= _DIGITS)


class _Guess:
    """What the cells of a text column can be read as: the first of these that all of them are."""

    KINDS: Sequence[tuple[Any, Callable[[str], Any]]] = (
        (pa.int64(), int_of),
        (pa.float64(), float_of),
        (pa.bool_(), bool_of),
        (pa.date32(), lambda text: _strictly(date.fromisoformat(text).isoformat() == text.strip())),
        (pa.timestamp("us"), lambda text: _strictly(datetime.fromisoformat(text).tzinfo is None)),
        (pa.timestamp("us", tz="UTC"), lambda text: _strictly(datetime.fromisoformat(text).tzinfo is not None)),
    )

    def __init__(self) -> None:
        self._left = self._kinds()
        self._but = self._kinds()  # what all of them are but the words for nothing
        self._any = False
        self._other = False
        self.words: set[str] = set()

    def look(self, column: Any) -> None:
        """Some more cells."""
        values = pc.unique(column).drop_null().to_pylist()
        self._any = self._any or bool(values)
        self._left = [(kind, read) for kind, read in self._left if all(_reads(read, value) for value in values)]
        self.words.update(value for value in values if value in NOTHING)
        others = [value for value in values if value not in NOTHING]
        self._other = self._other or bool(others)
        self._but = [(kind, read) for kind, read in self._but if all(_reads(read, value) for value in others)]

    def kind(self) -> Any:
        """What all cells are."""
        return _kind(*self._left[0]) if self._left and self._any else pa.string()

    def instead(self) -> Any:
        """What all cells of a column of texts are but the words for nothing; None if that is nothing else."""
        return _kind(*self._but[0]) if self._but and self._other and not self._left else None

    def _kinds(self) -> list[tuple[Any, Callable[[str], Any]]]:
        return [self.KINDS[0], (None, _Places()), *self.KINDS[1:]]


def _kind(kind: Any, read: Any) -> Any:
    return pa.decimal128(_DIGITS, read.places) if isinstance(read, _Places) else kind


def _strictly(fits: bool) -> None:
    if not fits:
        raise ValueError


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------ as Python


def record_source(table: TableFound, name: str | None = None) -> str:
    """The module with the record class of a table, which can be imported at once."""
    name = name or class_name(table.name)
    classes = _Classes()
    file = printable(os.path.basename(table.name) or table.name).replace("\\", "\\\\").replace('"', '\\"')
    others = f", without {table.bad:,} that cannot be read" if table.bad else ""
    body = classes.record(name, table.columns, f"{table.rows:,} rows of {file}{others}")
    times = [word for word in ("UTC", "date", "datetime", "timedelta") if word in classes.used]
    imports = [
        *([f"from datetime import {', '.join(times)}"] if times else []),
        *(["from decimal import Decimal"] if "Decimal" in classes.used else []),
        "from typing import " + ", ".join(sorted({"NamedTuple", *classes.typing})),
        *(["", "from pellucid import Scale"] if "Scale" in classes.used else []),
    ]
    return "\n".join(imports) + "\n\n\n" + "\n\n\n".join([*classes.inner, body]) + "\n"


def class_name(path: str) -> str:
    """A name for a row of a file.

    >>> [class_name(path) for path in ("data/flights-2013.csv.gz", "events.parquet", "2013.csv", "bus.csv")]
    ['Flights2013', 'Event', 'Row2013', 'Bus']
    """
    base = os.path.basename(os.path.normpath(path)).split(".")[0]
    words = [word for word in _SAFE.split(base) if word]
    name = "".join(word[0].upper() + word[1:] for word in words) or "Row"
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 3:
        name = name[:-1]
    name = name if not name[0].isdigit() else f"Row{name}"
    return f"{name}Row" if keyword.iskeyword(name) else name


class _Classes:
    """Classes as they are written; what has to be imported for them."""

    def __init__(self) -> None:
        self.inner: list[str] = []
        self.used: set[str] = set()
        self.typing: set[str] = set()

    def record(self, name: str, columns: Sequence[ColumnFound], what: str) -> str:
        """The class of a record, or of a struct in it."""
        lines = [f"class {name}(NamedTuple):", f'    """{what}."""', ""]
        fields = 0
        for column in columns:
            wrong = _no_field(column.name)
            written = None if wrong else self._annotation(name, column)
            nulls = f"{column.nulls:,} null{'s' * (column.nulls != 1)}" if column.nulls else ""
            if written is None:
                why = wrong or f"{column.kind} cannot be part of an event"
                why += f", {nulls}" if nulls and not wrong else ""
                lines.append(f"    # {column.name!r}: {why}: keep it with keep= or --keep-columns")
                continue
            fields += 1
            if column.nans and pa.types.is_floating(column.kind):
                nulls += (
                    f"{', ' if nulls else ''}{column.nans:,} NaN: a value with nan='keep' (--nan keep), else refused"
                )
            if column.spelled and pa.types.is_decimal(column.kind):
                nulls += f"{', ' if nulls else ''}always {column.kind.scale} places: float if it is measured, not money"
            if column.instead is not None:
                flags = " ".join(f"--null {shlex.quote(word)}" for word in column.words)
                instead = f"{_written(column.instead)[0]} | None with nulls={column.words} ({flags})"
                nulls += f"{', ' if nulls else ''}{instead}"
            lines.append(f"    {column.name}: {written}" + (f"  # {nulls}" if nulls else ""))
        return "\n".join(lines if fields else [*lines, "    # no column can be part of an event", "    pass"])

    def _list(self, owner: str, column: ColumnFound) -> str | None:
        """A list, by what its elements are; one of structs has a class for them."""
        (element,) = column.inside
        if element.nulls and element.inside and not is_list(element.kind):
            return None
        inner = self._annotation(owner, replace(element, name=column.name))
        return None if inner is None else f"list[{inner}]" + " | None" * bool(column.nulls)

    def _annotation(self, owner: str, column: ColumnFound) -> str | None:
        if is_list(column.kind):
            return self._list(owner, column)
        if column.inside:
            inner = f"{owner}{class_name(column.name)}"
            before = len(self.inner)
            text = self.record(inner, column.inside, f"What {column.name!r} holds")
            if column.nulls or "    # " in "".join(line for line in text.splitlines() if line.startswith("    #")):
                del self.inner[before:]
                return None
            self.inner.append(text)
            return inner
        kind = column.kind
        written, value = _written(kind)
        if written is None:
            return None
        if column.nulls:
            written, value = f"{written} | None", value | None
        if not _can_be_event(value):
            return None
        for word in ("UTC", "datetime", "date", "timedelta", "Decimal", "Scale"):
            if re.search(rf"\b{word}\b", written):
                self.used.add(word)
        if "Annotated" in written:
            self.typing.add("Annotated")
        return written


def _written(kind: Any) -> tuple[str | None, Any]:
    """How an Arrow type is written in Python, and what that is."""
    t = pa.types
    if t.is_dictionary(kind):
        return _written(kind.value_type)
    if t.is_boolean(kind):
        return "bool", bool
    if t.is_integer(kind):
        return "int", int
    if t.is_floating(kind):
        return "float", float
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return "str", str
    if t.is_timestamp(kind):
        return ("datetime", datetime) if kind.tz is None else ("Annotated[datetime, UTC]", Annotated[datetime, UTC])
    if t.is_date(kind):
        return "date", date
    if t.is_duration(kind):
        return "timedelta", timedelta
    if t.is_decimal(kind):
        return _decimal(kind)
    return None, time


def _decimal(kind: Any) -> tuple[str | None, Any]:
    from decimal import Decimal

    scale = getattr(expr_types, "Scale", None)
    if scale is None or kind.precision > 19:  # what 64 bits hold has at most as many digits
        return None, Decimal
    return f"Annotated[Decimal, Scale({kind.scale})]", Annotated[Decimal, scale(kind.scale)]


def _can_be_event(value: Any) -> bool:
    try:
        expr_types.type_of(value)
    except (TypeMismatch, TypeError):
        return False
    return True


def _no_field(name: str) -> str:
    """Why a column cannot be a field of this name."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "is no name that Python can have: rename it"
    return "a field cannot begin with an underscore: rename it" if name.startswith("_") else ""
