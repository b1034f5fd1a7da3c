"""Rows for a pipeline on Spark, as tables and DataFrames, and what must come out of them by the interpreter."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pyarrow as pa

from pellucid import Pipeline, StepError
from pellucid.internal.data.arrow import arrow_type
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.types import EnumType, RecordType, TupleType, Type


class Row(NamedTuple):
    """A push of a key: its order and, for each source that is not silent, its event."""

    key: Any
    seq: int
    push: dict[str, Any]


class Failed(Exception):  # noqa: N818 - reads as what it is
    """The pipeline fails on these rows: the step that does."""


def rows_of(pushes: list[dict[str, Any]], keys: list[Any], rng: random.Random) -> list[Row]:
    """Pushes dealt out to keys, with orders that go up within each key, not always by one."""
    last: dict[Any, int] = {}
    out = []
    for push in pushes:
        key = rng.choice(keys)
        last[key] = last.get(key, rng.randrange(-3, 3)) + rng.choice([1, 1, 1, 4])
        out.append(Row(key, last[key], push))
    return out


def flat(t: Type, event: Any) -> tuple[Any, ...]:
    """An event's leaves as Spark has them: enums by name."""
    return tuple(
        v.name if isinstance(k, EnumType) else v for (_, k), v in zip(t.leaves(), t.flatten(event), strict=True)
    )


def expected(p: Pipeline, rows: list[Row]) -> list[tuple[Any, ...]]:
    """(key, seq, output, nth, leaves), sorted; raises Failed if the pipeline fails."""
    runs: dict[Any, Interpreter] = {}
    types = {name: p.graph.nodes[at].type for name, at in p.graph.outputs}
    out = []
    for row in sorted(rows, key=lambda r: r.seq):
        run = runs.setdefault(row.key, Interpreter(p.graph))
        try:
            got = run.push(row.push)
        except StepError as error:
            raise Failed(error.step) from None
        for name, events in got.items():
            out += [(row.key, row.seq, name, i, flat(types[name], e)) for i, e in enumerate(events)]
    return sorted(out, key=repr)


def _columns(t: Type, name: str, events: list[Any]) -> dict[str, Any]:
    """Arrow columns of a source; None is silence. A scalar goes by its name, a record's fields by theirs."""
    if isinstance(t, RecordType):
        return {
            field: _column(kind, [None if e is None else getattr(e, field) for e in events]) for field, kind in t.fields
        }
    return {name: _column(t, events)}


def _column(t: Type, values: list[Any]) -> Any:
    if isinstance(t, EnumType):
        return pa.array([None if v is None else v.name for v in values], pa.string())
    assert not isinstance(t, (RecordType, TupleType))
    return pa.array(values, arrow_type(t))


def key_column(rows: list[Row]) -> Any:
    """The keys as an Arrow array."""
    return pa.array([r.key for r in rows], pa.string() if rows and isinstance(rows[0].key, str) else pa.int64())


def table_of(p: Pipeline, rows: list[Row]) -> Any:
    """All sources in one table: a single source by its columns, several each in a column (a struct for a record)."""
    columns = {"user": key_column(rows), "seq": pa.array([r.seq for r in rows], pa.int64())}
    nodes = [p.graph.nodes[i] for i in p.graph.sources]
    for node in nodes:
        events = [r.push.get(node.id) for r in rows]
        found = _columns(node.type, node.id, events)
        if len(nodes) > 1 and isinstance(node.type, RecordType):
            mask = pa.array([e is None for e in events], pa.bool_())
            columns[node.id] = pa.StructArray.from_arrays(list(found.values()), names=list(found), mask=mask)
        else:
            columns |= found
    return pa.table(columns)


def tables_of(p: Pipeline, rows: list[Row]) -> dict[str, Any]:
    """One table for each source, with the rows that it has."""
    out = {}
    for at in p.graph.sources:
        node = p.graph.nodes[at]
        mine = [r for r in rows if node.id in r.push]
        columns = {"user": key_column(mine), "seq": pa.array([r.seq for r in mine], pa.int64())}
        if not mine and rows and isinstance(rows[0].key, str):
            columns["user"] = pa.array([], pa.string())
        out[node.id] = pa.table(columns | _columns(node.type, node.id, [r.push[node.id] for r in mine]))
    return out


def found(p: Pipeline, rows: list[dict[str, Any]], *, tag: str = "output") -> list[tuple[Any, ...]]:
    """What came out of Spark with ``tag="output"``, as `expected` has it."""
    types = {name: p.graph.nodes[at].type for name, at in p.graph.outputs}
    out = []
    for row in rows:
        name = row[tag]
        out.append((row["user"], row["seq"], name, row.get("nth", 0), tuple(_leaves(types[name], row[name]))))
    return sorted(out, key=repr)


def _leaves(t: Type, value: Any) -> list[Any]:
    if isinstance(t, RecordType):
        return [leaf for name, kind in t.fields for leaf in _leaves(kind, value[name])]
    if isinstance(t, TupleType):
        return [leaf for kind, part in zip(t.items, value.values(), strict=True) for leaf in _leaves(kind, part)]
    return [value]
