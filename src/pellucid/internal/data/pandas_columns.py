"""Columns of a pandas frame as Arrow arrays, exactly.

A column of objects may hold anything, and Arrow guesses one type for all of it: of a naive and an aware time, or of a
whole number and a float, it makes one kind and loses the difference.  So where a number, a time or a decimal is wanted,
each object is looked at; texts and the columns that pandas itself has types for go to Arrow as they are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.bind import Place
from pellucid.internal.data.cells import inner_type, is_spelled
from pellucid.internal.data.rich import from_objects
from pellucid.internal.expr.types import FLOAT, INT, STR, DecimalType, EnumType, ListType, OptionalType, Type, conform


def pandas_array(
    name: str,
    series: Any,
    types: Mapping[str, Type],
    place: Place | None = None,
    *,
    nan_is_null: bool = False,
    nan: bool = False,
) -> Any:
    """A column as an Arrow array; ``types`` are what is read of it: at ``""`` itself, else at paths inside of it.

    >>> import pandas
    >>> pandas_array("n", pandas.Series([None, None]), {"": OptionalType(INT)}).to_pylist()
    [None, None]
    """
    t = types.get("")
    place = place or Place("the table", lambda i: f"position {i:,}")
    if series.dtype == object:
        found = _records(name, series, types, place, nan) if types and t is None else None
        if found is not None:
            return found
        if t is not None and isinstance(inner_type(t), ListType):
            return _lists(name, t, _present(series, False), len(series), place)
        if t is not None and inner_type(t) != STR and not isinstance(inner_type(t), EnumType):
            values = _present(series, nan and t == FLOAT)
            if not (is_spelled(t) and {type(v) for v in values.values()} <= {str}):
                return _each(name, t, values, len(series), place)
    missing = nan_is_null or isinstance(t, OptionalType) or (t is not None and series.dtype.kind in "mM")
    try:  # in a column of objects a NaN is nothing but a hole
        array = pa.array(series, from_pandas=missing or series.dtype == object)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        if place.bad is not None and t is not None:
            return _each(name, t, _present(series, False), len(series), place)
        raise DataError(f"{place.name}: column {name!r} mixes types: {error}") from None
    if isinstance(t, OptionalType) and array.null_count == len(array):
        return pa.nulls(len(array))  # of a column without a value nobody knows the type: pandas says float
    return array


def _present(series: Any, nan: bool) -> dict[int, Any]:
    """The objects of a column that are there, by their positions; with ``nan`` a NaN is one."""
    gone = series.isna().to_numpy()
    return {i: v for i, v in enumerate(series.tolist()) if not gone[i] or (nan and isinstance(v, float))}


def _each(name: str, t: Type, values: Mapping[int, Any], count: int, place: Place) -> Any:
    """Objects as the values of a type, each of them checked; the others are null."""
    from pellucid.internal.data.arrow import EXACT, arrow_type, no_whole

    out: list[Any] = [None] * count
    inner = inner_type(t)
    for i, value in values.items():
        try:
            if inner == INT and isinstance(t, OptionalType) and isinstance(value, float):
                if not value.is_integer() or abs(value) > EXACT["double"]:
                    raise ValueError(no_whole(value, EXACT["double"]))
                value = int(value)  # ints with holes in between are floats in pandas, in a dict as well
            found = conform(inner, value)
            out[i] = found.name if isinstance(found, enum.Enum) else found
        except ValueError as error:
            place.refuse(i, f"column {name!r}: {error}", name)
    return pa.array(out, pa.decimal128(38, inner.places) if isinstance(inner, DecimalType) else arrow_type(inner))


def _lists(name: str, t: Type, values: Mapping[int, Any], count: int, place: Place) -> Any:
    """Objects as lists, each of them checked; the others are null."""
    from pellucid.internal.data.arrow import arrow_type

    out: list[Any] = [None] * count
    for i, value in values.items():
        try:
            out[i] = from_objects(inner_type(t), value)
        except ValueError as error:
            place.refuse(i, f"column {name!r}: {error}", name)
    return pa.array(out, arrow_type(t))


def _records(name: str, series: Any, types: Mapping[str, Type], place: Place, nan: bool) -> Any:
    """Dicts as a struct of the fields that are read; None if it holds something else, or if a field is nowhere."""
    import pandas as pd

    rows = _present(series, False)
    if not all(isinstance(row, dict) for row in rows.values()):
        return None
    inside: dict[str, dict[str, Type]] = {}
    for path, t in types.items():
        head, _, rest = path.partition(".")
        inside.setdefault(head, {})[rest] = t
    if rows and not all(any(head in row for row in rows.values()) for head in inside):
        return None
    arrays = []
    for head, below in inside.items():
        values = [rows[i].get(head) if i in rows else None for i in range(len(series))]
        arrays.append(pandas_array(f"{name}.{head}", pd.Series(values, dtype=object), below, place, nan=nan))
    return pa.StructArray.from_arrays(arrays, list(inside))
