"""The same rows in every kind of table, and what comes out of every kind as plain rows again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tests.judge.row_values import E, Point

__all__ = ["FRAMES", "as_dict", "plain_rows", "schema"]

_US, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
TYPES = {
    "i": pa.int64(), "j": pa.int64(), "f": pa.float64(), "g": pa.float64(), "s": pa.string(), "t": pa.string(),
    "b": pa.bool_(), "c": pa.bool_(),
    "at": _US, "an": _US, "u": _UTC, "un": _UTC, "d": pa.date32(), "dn": pa.date32(), "w": pa.duration("us"),
    "wn": pa.duration("us"),
    "m": pa.decimal128(18, 2), "k": pa.decimal128(18, 4), "col": pa.string(), "cn": pa.string(), "p": _POINT,
    "id": pa.int64(), "note": pa.string(),
}  # fmt: skip


def schema(**changed: pa.DataType) -> pa.Schema:
    """The columns of the rows, some of other types."""
    return pa.schema([(name, changed.get(name, kind)) for name, kind in TYPES.items()])


def as_dict(e: E, n: int, *, names: bool = True) -> dict[str, Any]:
    """A row with its number and a note; an enum by its name, as columns have it."""
    found = {**e._asdict(), "id": n, "note": None if n % 3 == 0 else f"note {n}"}
    found["p"] = e.p._asdict()
    if names:
        found["col"] = e.col.name
        found["cn"] = e.cn and e.cn.name
    for name in ("u", "un"):
        if found[name] is not None:
            found[name] = found[name].astimezone(UTC)
    return found


def _arrow(dicts: list[dict[str, Any]], **changed: pa.DataType) -> pa.Table:
    plain = pa.Table.from_pylist(dicts, schema=schema())
    return pa.table(
        [plain[n].cast(changed[n]) if n in changed else plain[n] for n in plain.column_names], names=plain.column_names
    )


def _odd_arrow(dicts: list[dict[str, Any]]) -> pa.Table:
    """The types that other libraries write."""
    table = _arrow(
        dicts, s=pa.large_string(), w=pa.duration("us"), m=pa.decimal256(40, 2), k=pa.decimal128(38, 4),
        u=pa.timestamp("us", "Asia/Kathmandu"), un=pa.timestamp("us", "-05:00"), d=pa.date64(), note=pa.large_string(),
            col=pa.large_string(),
    )  # fmt: skip
    out = {}
    for name in table.column_names:
        column = table[name]
        if name in ("t", "cn"):
            column = column.dictionary_encode()
        if name == "note":
            column = column.cast(pa.string()).cast(pa.string_view())
        out[name] = column
    return pa.table(out)


def _chunked(dicts: list[dict[str, Any]]) -> pa.Table:
    table = _arrow(dicts)
    cuts = [0, len(dicts) // 3, len(dicts) // 3, len(dicts)]
    return pa.concat_tables([table.slice(a, b - a) for a, b in pairwise(cuts)])


def _pandas(dicts: list[dict[str, Any]]) -> Any:
    return _arrow(dicts).to_pandas()


def _pandas_nullable(dicts: list[dict[str, Any]]) -> Any:
    import pandas

    frame = _pandas(dicts)
    for name, kind in {
        "i": "Int64",
        "j": "Int64",
        "g": "Float64",
        "t": "string",
        "s": "string",
        "b": "boolean",
        "c": "boolean",
    }.items():
        frame[name] = pandas.array([d[name] for d in dicts], dtype=kind)
    frame["col"] = pandas.Categorical(frame["col"])
    frame["cn"] = pandas.Categorical(frame["cn"])
    return frame


def _pandas_arrow(dicts: list[dict[str, Any]]) -> Any:
    import pandas

    return _arrow(dicts).to_pandas(types_mapper=pandas.ArrowDtype)


def _polars(dicts: list[dict[str, Any]]) -> Any:
    import polars

    return polars.from_arrow(_arrow(dicts))


def _duckdb(dicts: list[dict[str, Any]]) -> Any:
    import duckdb

    table = _arrow(dicts)
    return duckdb.connect().from_arrow(table)


FRAMES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "arrow": _arrow,
    "arrow of other types": _odd_arrow,
    "arrow in chunks": _chunked,
    "pandas": _pandas,
    "pandas nullable": _pandas_nullable,
    "pandas of arrow": _pandas_arrow,
    "polars": _polars,
    "polars lazy": lambda d: _polars(d).lazy(),
    "duckdb": _duckdb,
    "dataset": lambda d: pa.dataset.dataset(_arrow(d)),
    "reader": lambda d: pa.RecordBatchReader.from_batches(schema(), _arrow(d).to_batches(max_chunksize=7)),
}


def plain_rows(data: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of whatever kind of table, by that library's own ways."""
    if isinstance(data, list):
        return list(data[0]) if data else [], [{k: _cell(v) for k, v in d.items()} for d in data]
    if isinstance(data, pa.Table):
        return data.column_names, [{k: _cell(v) for k, v in d.items()} for d in data.to_pylist()]
    if type(data).__module__.startswith("polars"):
        return data.columns, [{k: _cell(v) for k, v in d.items()} for d in data.to_dicts()]
    columns = list(data.columns)
    lists = {
        c: pa.array(data[c]).to_pylist() if "pyarrow" in str(data[c].dtype) else data[c].astype(object).tolist()
        for c in columns
    }
    return columns, [{c: _cell(lists[c][n]) for c in columns} for n in range(len(data))]


def _cell(v: Any) -> Any:
    """A value as Python has it: no library's own nothing, no library's own time."""
    if v is None or type(v).__name__ in ("NaTType", "NAType") or (isinstance(v, float) and math.isnan(v)):
        return None
    if type(v).__name__ == "MonthDayNano":
        return timedelta(days=v.days, microseconds=v.nanoseconds // 1000)
    if hasattr(v, "to_pydatetime"):
        v = v.to_pydatetime()
    if hasattr(v, "to_pytimedelta"):
        v = v.to_pytimedelta()
    if hasattr(v, "item"):
        v = v.item()
    if isinstance(v, datetime) and v.tzinfo is not None:
        v = v.astimezone(UTC)
    if isinstance(v, Enum):
        return v.name
    if isinstance(v, Point):
        return v._asdict()
    if isinstance(v, dict):
        return {k: _cell(x) for k, x in v.items()}
    if isinstance(v, Decimal) and v == 0:
        return abs(v)
    return v


def wanted_rows(
    told: Sequence[Any], dicts: Sequence[dict[str, Any]], order_of: Sequence[int], key: Sequence[str],
        order: Sequence[str], keep: Sequence[str]
) -> list[dict[str, Any]]:  # fmt: skip
    """What the table has to be: key, order, kept columns of the row of the push, then the event."""
    found = []
    for e in told:
        source = dicts[order_of[e.push]]
        value = e.value
        if isinstance(value, E | Point):
            own = {k: _cell(v) for k, v in value._asdict().items()}
        elif isinstance(value, tuple):
            own = {f"out_{n}": _cell(v) for n, v in enumerate(value)}
        else:
            own = {"out": _cell(value)}
        beside = {c: _cell(source[c]) for c in [*key, *order, *keep] if c not in own}
        found.append({**beside, **own})
    return found


def equal(a: Any, b: Any) -> bool:
    """The same value and type; a decimal whatever its places; a record field by field."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a == b
    if type(a) is not type(b):
        return isinstance(a, date | timedelta | str) and a == b and type(a) is type(b)
    return a == b and repr(a) == repr(b)
