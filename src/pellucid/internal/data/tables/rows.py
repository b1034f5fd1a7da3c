"""Lists of dicts and of records as tables: fields by their names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.errors import DataError, UsageError, nearest
from pellucid.internal.data.bind import Place, bind, shorten, some
from pellucid.internal.data.columns import Column, Output, events_of
from pellucid.internal.data.events import Given, filler, from_events
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    DATETIME,
    INSTANT,
    INT,
    STR,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TupleType,
    Type,
    conform,
    no_none,
    type_of_value,
)
from pellucid.internal.expr.types.lists import elements
from pellucid.internal.graph.stream import silent


def from_dicts(
    graph: str, source: str, t: Type, rows: Sequence[Any], place: Place, names: Sequence[str], *, nan: bool = False
) -> Given:
    """The events of a source from dicts; each field that is needed is checked, the others are left alone.

    >>> from pellucid.internal.data.events import place_of
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

    >>> from pellucid.internal.data.events import place_of
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
    """The events of an output as dicts: the key, what comes along, the event's own columns."""
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
