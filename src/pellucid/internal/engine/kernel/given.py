"""Chunks of events that a user pushes, as a batch of columns; and what comes out, as the user's kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.data.columns import Batch, Column, Output, columns_of
from pellucid.internal.engine.kernel.pieces import as_array, checked, conformed, padded
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType, ScalarType, Type
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import silent


def batch_given(
    graph: Graph, key: Type | None, pushed: int, nan: bool, data: Sequence[Any], named: dict[str, Any]
) -> tuple[Batch, bool]:
    """One chunk for each source, by position or by name, as a batch; and whether all of them are arrays.

    ``key`` is the type of a key that comes with the data, ``pushed`` how many pushes there have been, ``nan`` whether a
    NaN is a value.
    """
    names = [graph.nodes[i].id for i in graph.sources]
    keys = named.pop("key", None) if key is not None else None
    given = dict(zip(names, data, strict=False)) | named
    if len(data) > len(names) or set(given) != set(names):
        raise UsageError(f"{graph.name} wants one chunk for each source: {', '.join(names)}")
    key_columns = None
    if key is not None:
        given = {name: events if hasattr(events, "__len__") else list(events) for name, events in given.items()}
        key_columns = _keys_given(graph, key, pushed, keys, given)
    arrays = all(type(d).__module__ == "numpy" for d in given.values())
    columns: list[list[Any]] = []
    masks: list[Any] = []
    for name in names:
        t = graph[name].type
        events = given[name]
        if type(events).__module__ == "numpy" and t in (BOOL, INT, FLOAT):
            columns.append([checked(name, t, events, pushed, nan)])
            masks.append([True] * len(events) if len(names) > 1 else None)
            continue
        if hasattr(events, "columns") or isinstance(events, Mapping):  # whose items are columns, or their names
            raise UsageError(
                f"source {name!r}: a chunk is a list of events, found {type(events).__name__}: call the pipeline "
                "itself on a table, or push its rows as events"
            )
        events = list(events)
        masks.append([e is not silent for e in events])
        if len(names) == 1:  # a push in which nothing comes in does nothing
            events, masks[-1] = [e for e in events if e is not silent], None
        fill = next((e for e in events if e is not silent), silent)
        events = [fill if e is silent else e for e in events]
        columns.append(
            columns_of(t, conformed(name, t, events, pushed, nan))
            if fill is not silent
            else [[] for _ in range(t.width)]
        )
    count = max([len(m) for m in masks if m is not None], default=len(columns[0][0]))
    for s, mask in enumerate(masks):
        if mask is not None and (len(mask) < count or len(columns[s][0]) < count):
            masks[s] = mask + [False] * (count - len(mask))
            columns[s] = [
                padded(t, c, count) for (_, t), c in zip(graph[names[s]].type.leaves(), columns[s], strict=True)
            ]
    return Batch(count, columns, masks, key_columns), arrays


def shown(outputs: Sequence[Output], arrays: bool) -> Any:
    """What outputs put out: lists, or arrays; several by name."""
    results = {
        o.name: as_array(o.columns[0]) if arrays and isinstance(o.type, (ScalarType, EnumType)) else o.events()
        for o in outputs
    }
    return next(iter(results.values())) if len(results) == 1 else results


def _keys_given(graph: Graph, key: Type, pushed: int, keys: Any, given: dict[str, Any]) -> list[list[Column]]:
    """The columns of the keys of a chunk, for each source; a key stands beside each push."""
    who, count = f"{graph.name} runs per key here ({key})", max(map(len, given.values()))
    if keys is None or isinstance(keys, str) or not hasattr(keys, "__len__"):
        raise UsageError(
            f"{who}: expected the key of each push, as in push(events, key=[…]), found "
            f"{'none' if keys is None else repr(keys)}"
        )
    if len(keys) != count:
        raise UsageError(f"{who}: expected {count:,} keys, one for each push, found {len(keys):,}")
    plain = [k.item() if type(k).__module__ == "numpy" else k for k in keys]
    if len(given) == 1:  # as for the events: a push in which nothing comes in is left out
        (events,) = given.values()
        plain = [k for k, event in zip(plain, events, strict=True) if event is not silent]
    columns = columns_of(key, conformed("key", key, plain, pushed))
    return [columns for _ in given]
