"""Columns of JSON Lines that come along: nobody declared them, so their first rows say what they hold.

What does not fit later is refused with its row: a number that becomes a text, a key inside an object that was not there
before.  Nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data import exact
from pellucid.internal.data.bind import Place, shorten


def json_type(values: Sequence[Any], where: str) -> Any:
    """The Arrow type that holds all of these values; text if there are none.

    >>> json_type([exact.Whole("1"), None, 1.5], "x"), json_type([None], "x"), json_type([[True]], "x")
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
    lines = list(exact.json_lines(data))
    for i, (_, line) in enumerate(lines):
        try:
            row = exact.json_value(line, last and i == len(lines) - 1 and not data.endswith(b"\n"))
            values = [_kept(row, name, t) for name, t in types.items()]
        except exact.Unreadable as error:
            place.refuse(i, str(error), error.column)
            values = [None] * len(types)
        for column, value in zip(out.values(), values, strict=True):
            column.append(value)
    return {name: pa.array(values, types[name]) for name, values in out.items()}


def _kept(row: Any, name: str, t: Any) -> Any:
    if not isinstance(row, dict):
        raise exact.Unreadable(f"expected an object, found {shorten(row)}")
    try:
        if isinstance(row, exact.Twice) and name in row.keys_twice:
            raise ValueError(f"the key {name!r} comes twice in one object: leave one out")
        value = _value(row.get(name))
        _refuse_other(value, t)
    except ValueError as error:
        raise exact.Unreadable(f"column {name!r}, which is kept: {error}", name) from None
    return value


def _value(found: Any) -> Any:
    """A value of JSON as Python has it."""
    if isinstance(found, exact.Whole):
        return int(found.text)
    if isinstance(found, exact.Real):
        return float(found)
    if isinstance(found, exact.Twice):
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
