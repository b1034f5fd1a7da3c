"""Columns: how data enters and leaves an engine, one column for each leaf of an event.

A column is

* a NumPy array: ``int64`` (int), ``float64`` (float), ``bool`` (bool), or ``int64`` codes (enum: the
  member's place in its class);
* ``Strings``: codes into a list of texts (str), that is, dictionary-encoded;
* a plain list of Python values, such as enum members or texts, for small data.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.errors import DataError, UsageError, nearest
from pellucid.internal.data.bind import Place, bind, no_nan, shorten, some
from pellucid.internal.data.cells import inner_type
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
    INT,
    STR,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    ScalarType,
    TupleType,
    Type,
    conform,
    no_none,
    simplest,
    type_of_value,
)
from pellucid.internal.expr.types.rich import elements, has_nan
from pellucid.internal.graph.stream import silent

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Strings:
    """A dictionary-encoded column of texts: ``values[codes[i]]``."""

    codes: np.ndarray[Any, Any]
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)


Column: TypeAlias = "np.ndarray[Any, Any] | Strings | list[Any]"


@dataclass
class Batch:
    """``count`` pushes: for each source its leaf columns, and a mask where it may be silent.

    Where ``masks[s]`` is False the row of source ``s`` is no event, whatever its columns hold.
    ``keys`` are the leaf columns of a key that comes with the data, for each source.
    """

    count: int
    columns: list[list[Column]]
    masks: list[np.ndarray[Any, Any] | list[bool] | None] = field(default_factory=list)
    keys: list[list[Column]] | None = None


@dataclass
class Output:
    """What one output stream emitted: leaf columns; where asked for, the push and the key of each event.

    The key is the one that came with the data, if the engine runs per key, else that of ``key_by``.
    """

    name: str
    type: Type
    columns: list[Column]
    positions: Any = None  # the 0-based position of the push that each event came with
    key_type: Type | None = None
    keys: list[Column] | None = None
    inner: list[Column] | None = None  # where both have one, the key of key_by

    def __len__(self) -> int:
        return len(self.columns[0])

    def events(self) -> list[Any]:
        """The events as Python values."""
        return events_of(self.type, self.columns)


def part_of(column: Column, start: int, stop: int) -> Column:
    """Some rows of a column, one after the other."""
    return Strings(column.codes[start:stop], column.values) if isinstance(column, Strings) else column[start:stop]


def columns_of(t: Type, events: Iterable[Any]) -> list[Column]:
    """Events as plain leaf columns."""
    rows = [t.flatten(e) for e in events]
    return [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in range(t.width)]


def values_of(t: Type, column: Column) -> list[Any]:
    """A leaf column as Python values."""
    if isinstance(column, list):
        return column
    if isinstance(column, Strings):
        values = column.values
        return [values[c] for c in column.codes.tolist()]
    plain: list[Any] = column.tolist()
    if isinstance(t, EnumType):
        members = t.members
        return [members[c] for c in plain]
    return plain


def events_of(t: Type, columns: Sequence[Column]) -> list[Any]:
    """The events that these leaf columns hold."""
    leaves = [values_of(kind, c) for (_, kind), c in zip(t.leaves(), columns, strict=True)]
    if isinstance(t, (ScalarType, EnumType)):
        return leaves[0]
    return [t.unflatten(row) for row in zip(*leaves, strict=True)]


# Events that are Python objects, each checked, as the columns of a source.

_EXACT: dict[Type, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str}


@dataclass
class Given:
    """One source's events: its leaf columns, where there is an event (None: everywhere), and by name what its key's
    columns hold, and their leaves."""

    count: int
    columns: list[Column]
    mask: Any = None
    key: dict[str, tuple[Type, list[Column]]] = field(default_factory=dict)


def place_of(graph: str, source: str) -> Place:
    """How a message names a place in data that is in memory."""
    return Place(f"{graph}: source {source!r}", lambda i: f"position {i:,}")


def from_events(
    graph: str, source: str, t: Type, events: Iterable[Any], where: Place | None = None, *, nan: bool = False
) -> Given:
    """Python events, each checked; ``silent`` marks a push without one, ``nan`` says that NaN is a value.  ``where``
    may take notes of bad ones."""
    values = events if type(events) is list else list(events)
    kinds = set(map(type, values))
    exact = _EXACT.get(t)
    if exact is not None and kinds <= {exact} and _in_range(t, values, nan):
        return Given(len(values), [values])
    mask = [v is not silent for v in values] if type(silent) in kinds else None
    place = where or place_of(graph, source)
    out = []
    for i, value in enumerate(values):
        if value is silent:
            continue
        try:
            event = conform(t, value)
        except ValueError as error:
            place.refuse(i, f"{error}{_hint(value)}")
            event = filler(t)
        if not nan:
            _refuse_nan(t, event, place, i)
        out.append(event)
    if mask is not None:
        found = iter(out)
        some = out[0] if out else filler(t)
        out = [next(found) if here else some for here in mask]
    return Given(len(values), columns_of(t, out), mask)


def _in_range(t: Type, values: list[Any], nan: bool) -> bool:
    if not values or t in (BOOL, STR):
        return True
    if t == INT:
        return bool(min(values) >= -(2**63) and max(values) < 2**63)
    return nan or not any(map(math.isnan, values))


def _refuse_nan(t: Type, event: Any, place: Place, i: int) -> None:
    at, leaves = 0, t.flatten(event)
    for path, kind in t.columns():
        inner, own = getattr(kind, "inner", kind), leaves[at : at + kind.width]
        at += kind.width
        inside = isinstance(inner, ListType) and has_nan(inner, inner.value(own[-1]))
        if inside or any(type(leaf) is float and leaf != leaf for leaf in own):
            place.refuse(i, f"{f'field {path!r}: ' if path else ''}{no_nan(kind)}", path or None)


def _hint(value: Any) -> str:
    return ": put `silent` where there is no event, or declare the type as T | None" if value is None else ""


def filler(t: Type) -> Any:
    """Some event of a type, for rows that are none."""
    return t.unflatten([simplest(leaf) for _, leaf in t.leaves()])


# Lists of dicts and of records as tables: fields by their names.


def from_dicts(
    graph: str, source: str, t: Type, rows: Sequence[Any], place: Place, names: Sequence[str], *, nan: bool = False
) -> Given:
    """The events of a source from dicts; each field that is needed is checked, the others are left alone.

    >>> from pellucid.internal.data.columns import place_of
    >>> from_dicts("p", "x", INT, [{"x": 1, "note": None}, {"x": 2}], place_of("p", "x"), ["x", "note"]).columns
    [[1, 2]]
    """
    scalar = next(path for path, _ in t.columns()) == ""
    column = bind(source, t, names, place=place.name, advice="rename one").columns[0] if scalar else ""
    events: list[Any] = []
    for i, row in enumerate(rows):
        if row is silent:
            events.append(row)
            continue
        try:
            if isinstance(row, dict):
                events.append(_event(t, row.get(column), column) if scalar else _event(t, row, ""))
            elif row is None and not scalar and _may_miss(t):
                events.append(row)
            else:
                raise ValueError(f"expected a dict, as the first is one, found {shorten(row)}")
        except ValueError as error:
            field = re.match(r"(?:no )?field '([^']*)'", str(error))
            place.refuse(i, str(error), field.group(1) if field else None)
            events.append(filler(t))
    return from_events(graph, source, t, events, place, nan=nan)


def _event(t: Type, value: Any, path: str) -> Any:
    """A value of JSON's kind as an event: dicts for records, lists for tuples, names or values for enums."""
    if value is None and _may_miss(t):
        return conform(t, None)
    if isinstance(t, OptionalType):
        t = t.inner
    if isinstance(t, RecordType) and isinstance(value, Mapping):
        parts: list[Any] = []
        for name, inner in t.fields:
            inside = f"{path}.{name}" if path else name
            if name not in value and not _may_miss(inner):
                known = list(map(str, value))
                raise ValueError(f"no field {inside!r}: expected {inner}; it has {some(known)}{nearest(name, known)}")
            parts += inner.flatten(_event(inner, value.get(name), inside))
        return t.unflatten(parts)
    if value is None:
        raise ValueError(f"field {path!r}: {no_none(t)}" if path else no_none(t))
    try:
        if isinstance(t, TupleType) and isinstance(value, list) and len(value) == len(t.items):
            pairs = zip(t.items, value, strict=True)
            return tuple(_event(inner, item, f"{path}.{i}") for i, (inner, item) in enumerate(pairs))
        if isinstance(t, ListType) and elements(value) is not None:
            return t.cls(_event(t.item, item, f"{path}[{i}]") for i, item in enumerate(elements(value) or ()))
        if isinstance(t, EnumType) and not isinstance(value, t.cls):
            value = _member(t, value)
        return conform(t, value)
    except ValueError as error:
        raise ValueError(f"field {path!r}: {error}" if path else str(error)) from None


def _member(t: EnumType, value: Any) -> Any:
    """A member by its name, else by its value; what is neither stays as it is."""
    names = {m.name: m for m in t.members}
    if isinstance(value, str) and value in names:
        return names[value]
    return next((m for m in t.members if type(m.value) is type(value) and m.value == value), value)


def _may_miss(t: Type) -> bool:
    try:
        conform(t, None)
    except (ValueError, AssertionError):
        return False
    return True


def field_values(rows: Sequence[Any], path: str, place: Place, what: str, *, missing: bool = False) -> list[Any]:
    """What dicts or records hold at a dotted path; none of it may be ``missing``, if that is not said."""
    out: list[Any] = []
    for i, row in enumerate(rows):
        if row is silent:
            place.refuse(i, f"is silent, and has no {what} {path!r}: leave such rows out", path)
            out.append(None)
            continue
        value = row
        for step in path.split(".") if not (isinstance(row, dict) and path in row) else [path]:
            if isinstance(value, dict):
                value = value.get(step)
            else:
                value = getattr(value, step, None) if step.isidentifier() else None
        if value is None and not missing:
            known = list(row) if isinstance(row, dict) else _fields(row)
            none = f"no {what} {path!r}" if path.split(".")[0] not in known else f"the {what} {path!r} is null"
            has = f": it has {some(known)}{nearest(path, known)}" if none.startswith("no") and known else ""
            place.refuse(i, f"{none}{has or ': give every row one, or leave such rows out'}", path)
        out.append(value)
    return out


def _fields(row: Any) -> list[str]:
    if dataclasses.is_dataclass(row):
        return [f.name for f in dataclasses.fields(row)]
    return list(getattr(row, "_fields", ()))


def refuse_scalars(graph: str, source: str, t: Type, what: str, found: Any) -> None:
    """``key=`` and ``order=`` name columns or fields, and these events have none."""
    if not isinstance(t, RecordType):
        raise UsageError(
            f"{graph}: {what}= names columns, so the source {source!r} must be a table (a DataFrame, an Arrow table, a "
            f"list of dicts or of records), found {shorten(found)}; for a list of keys use "
            "p.engine(key=str).push(events, key=keys)"
        )


def key_values(rows: Sequence[Any], path: str, place: Place, missing: Type | None = None) -> tuple[Type, list[Column]]:
    """A key from dicts or records: its type, and its leaves.  ``missing`` is what the source declares it as, where None
    is a key.

    >>> from pellucid.internal.data.columns import place_of
    >>> key_values([{"user": "ada"}, {"user": "bob"}], "user", place_of("p", "x"))
    (str, [['ada', 'bob']])
    >>> key_values([{"user": "ada"}, {"user": None}], "user", place_of("p", "x"), OptionalType(STR))
    (str | None, [[True, False], ['ada', '']])
    """
    optional = isinstance(missing, OptionalType)
    values = field_values(rows, path, place, "key", missing=optional)
    first = next((value for value in values if value is not None), None)
    kind = inner_type(missing or STR) if first is None else type_of_value(first)
    fits = "a key is int, str, bool or a time, and the same in all rows"
    if kind not in (BOOL, INT, STR, DATETIME, INSTANT, DATE):
        at = 0 if first is None else values.index(first)
        raise DataError(f"{place.at(at)}: the key {path!r} is {shorten(first)}: {fits}")
    assert kind is not None
    out: list[Any] = []
    for i, value in enumerate(values):
        try:
            if value is not None and type_of_value(value) != kind:
                raise ValueError(f" is {shorten(value)}: {fits}")
            out += kind.flatten(filler(kind) if value is None else conform(kind, value))
        except ValueError as error:
            place.refuse(i, f"the key {path!r}{'' if str(error).startswith(' is') else ': '}{error}", path)
            out += kind.flatten(filler(kind))
    return (OptionalType(kind), [[v is not None for v in values], out]) if optional else (kind, [out])


def dict_rows(
    output: Output,
    key: Mapping[str, tuple[Type, list[Column]]],
    extra: Sequence[tuple[str, Sequence[Any]]],
    fields: Sequence[tuple[str, Type]],
) -> list[dict[str, Any]]:
    """The events of an output as dicts: the key, the passthrough columns, the event's own columns."""
    columns: list[tuple[str, Sequence[Any]]] = [(name, events_of(t, leaves)) for name, (t, leaves) in key.items()]
    columns += extra
    events = output.events()
    if isinstance(output.type, RecordType):
        columns += [(name, [_plain(getattr(e, name)) for e in events]) for name, _ in fields]
    elif isinstance(output.type, TupleType):
        columns += [(name, [_plain(e[i]) for e in events]) for i, (name, _) in enumerate(fields)]
    else:
        columns.append((fields[0][0], [_plain(e) for e in events]))
    names = [name for name, _ in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*(values for _, values in columns), strict=True)]


def _plain(value: Any) -> Any:
    """A record as a dict."""
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(map(_plain, value))
    names = _fields(value) if not isinstance(value, type) else []
    return {name: _plain(getattr(value, name)) for name in names} if names else value
