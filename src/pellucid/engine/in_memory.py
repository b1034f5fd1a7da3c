"""Data in memory: lists, NumPy arrays, pandas and Arrow objects in, the same kind out.

The first input decides the kind of the result.  Lists stay plain Python from end to end: NumPy, pandas and Arrow are
only touched where the data is theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.data.bind import SHORT, key_columns, type_of_key
from pellucid.data.columns import Batch, Column, Output
from pellucid.data.events import Given, from_events, place_of
from pellucid.errors import DataError, StepError, UsageError, nearest
from pellucid.graph.model import Graph


@dataclass(frozen=True)
class RunOptions:
    """What is said besides the data: the columns of the key, and what an input is that ends before the others."""

    key: tuple[str, ...] = ()
    short: str = "fail"

    @classmethod
    def taken_from(cls, graph: Graph, named: Mapping[str, Any]) -> tuple[RunOptions, dict[str, Any]]:
        """The options among these keywords, and the rest; a source of the same name comes first."""
        sources = {graph.nodes[i].id for i in graph.sources}
        rest = {name: given for name, given in named.items() if name in sources or name not in ("key", "short")}
        given = {name: value for name, value in named.items() if name not in rest}
        short = given.get("short", "fail")
        if short not in SHORT:
            raise UsageError(
                f"short={short!r}: expected 'fail', or 'silent' if an input that ends before the others is silent from "
                "then on"
            )
        return cls(key_columns(given.get("key")), short), rest


def run_in_memory(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Run a graph on data; the result is of the kind of the first input.

    >>> from pellucid import pipeline
    >>> run_in_memory(pipeline(lambda x: x.trim(1), x=int).graph, ([1, 2, 3],), {})
    [2, 3]
    """
    options, named = RunOptions.taken_from(graph, named)
    inputs = _by_source(graph, data, named)
    first = next(iter(inputs.values()))
    kind = kind_of(first, graph.name)
    wants_positions = kind in ("Series", "DataFrame") or bool(options.key)
    outputs, rows = _push_given(graph, _given(graph, inputs, options), positions=wants_positions)
    if kind == "list":
        results = [o.events() for o in outputs]
    else:
        from pellucid.data.kinds import result

        results = [result(kind, o, first, rows, options.key) for o in outputs]
    names = [o.name for o in outputs]
    if len(results) == 1:
        return results[0]
    if names == [f"out{i + 1}" for i in range(len(names))]:
        return tuple(results)
    return dict(zip(names, results, strict=True))


def trace_in_memory(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    """Push by push, the list of events that came out; for several outputs a dict of such lists.

    >>> from pellucid import pipeline
    >>> trace_in_memory(pipeline(lambda x: x.decimate(2), x=int).graph, ([1, 2, 3],), {})
    [[1], [], [3]]
    """
    options, named = RunOptions.taken_from(graph, named)
    given = _given(graph, _by_source(graph, data, named), options)
    count = max(g.count for g in given)
    outputs, rows = _push_given(graph, given, positions=True)
    traces: dict[str, list[list[Any]]] = {o.name: [[] for _ in range(count)] for o in outputs}
    for o in outputs:
        for position, event in zip(o.positions, o.events(), strict=True):
            traces[o.name][int(position) if rows is None else rows[int(position)]].append(event)
    if len(outputs) == 1:
        return traces[outputs[0].name]
    return [{name: trace[i] for name, trace in traces.items()} for i in range(count)]


def kind_of(data: Any, who: str = "the input") -> str:
    """What kind of data it is: list, ndarray, Series, DataFrame, or an Arrow class.

    >>> kind_of([1]), kind_of(range(3))
    ('list', 'list')
    """
    numpy, pandas, arrow = (sys.modules.get(name) for name in ("numpy", "pandas", "pyarrow"))
    if isinstance(data, (list, tuple, range)):
        return "list"
    if numpy is not None and isinstance(data, numpy.ndarray):
        return "ndarray"
    if pandas is not None:
        for name in ("Series", "DataFrame"):
            if isinstance(data, getattr(pandas, name, ())):
                return name
    if arrow is not None:
        for name in ("Table", "RecordBatch", "ChunkedArray", "Array"):
            if isinstance(data, getattr(arrow, name, ())):
                return name
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise DataError(
            f"{who}: expected a list or another iterable of events, a NumPy array, a pandas or an Arrow object, "
            f"found {type(data).__name__} {_short(data)}"
        )
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "to_arrow"):
        raise DataError(
            f"{who}: cannot read a {type(data).__module__}.{type(data).__name__}: call its to_arrow() first"
        )
    return "list"


def _by_source(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Each source's data; one table for several sources goes under the name of each."""
    sources = [graph.nodes[i].id for i in graph.sources]
    listing = ", ".join(sources)
    if (
        len(data) == 1
        and not named
        and len(sources) > 1
        and kind_of(data[0], graph.name) in ("DataFrame", "Table", "RecordBatch")
    ):
        return {"": data[0]}
    if len(data) > len(sources):
        raise UsageError(f"{graph.name} has {len(sources)} source(s) ({listing}), found {len(data)} inputs")
    given = dict(zip(sources, data, strict=False))
    for name, events in named.items():
        if name not in sources:
            raise UsageError(f"{graph.name} has no source {name!r}: its sources are {listing}{nearest(name, sources)}")
        if name in given:
            raise UsageError(f"{graph.name}: the source {name!r} is given twice, by position and by name")
        given[name] = events
    missing = [s for s in sources if s not in given]
    if missing:
        raise UsageError(
            f"{graph.name} has {len(sources)} source(s) ({listing}): no events for {', '.join(missing)}; "
            "give [] for a source that stays silent"
        )
    # in the order the caller gave them: the first decides the kind of the result
    return given


def _given(graph: Graph, inputs: Mapping[str, Any], options: RunOptions) -> list[Given]:
    nodes = [graph.nodes[i] for i in graph.sources]
    if "" in inputs:
        from pellucid.data.kinds import read_wide

        return read_wide(graph.name, {n.id: n.type for n in nodes}, inputs[""], options.key)
    out = []
    for node in nodes:
        events = inputs[node.id]
        kind = kind_of(events, graph.name)
        if options.key and kind not in ("DataFrame", "Table", "RecordBatch"):
            raise UsageError(
                f"{graph.name}: key= names columns, so the source {node.id!r} must be a table (a DataFrame, an Arrow "
                f"table), found {_short(events)}; for a list of keys use p.engine(key=str).push(events, key=keys)"
            )
        if kind == "list":
            out.append(from_events(graph.name, node.id, node.type, events))
        else:
            from pellucid.data.kinds import read

            out.append(read(kind, node.id, node.type, events, place_of(graph.name, node.id), options.key))
    # said aloud: a source that stays silent
    silences = {n.id for n in nodes if isinstance(inputs[n.id], list) and not inputs[n.id]}
    counts = {n.id: g.count for n, g in zip(nodes, out, strict=True) if n.id not in silences}
    if options.short == "fail" and len(set(counts.values())) > 1:
        least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise DataError(
            f"{graph.name}: the source {least!r} has {counts[least]:,} events, but {most!r} has {counts[most]:,}: the "
            "i-th push takes the i-th of "
            f"each; put `silent` where there is none, or say short='silent' if {least!r} is to be silent from then on"
        )
    return out


def _push_given(graph: Graph, given: list[Given], *, positions: bool) -> tuple[list[Output], list[int] | None]:
    """Push all at once.  The second result tells the push of each row, where silent rows were left out."""
    from pellucid.engine.kernel.engine import Engine

    kinds = {name: t for name, (t, _) in given[0].key.items()}
    for g in given[1:]:
        for name, (t, _) in g.key.items():
            if t != kinds[name]:
                raise DataError(
                    f"{graph.name}: the key column {name!r} holds {kinds[name]} in one input and {t} in another: they "
                    "must be of one type"
                )
    engine = Engine(graph, key=type_of_key(kinds))
    rows: list[int] | None = None
    if len(given) == 1 and given[0].mask is not None:
        # A push in which the only source is silent does nothing: leave it out.
        rows = [i for i, here in enumerate(given[0].mask) if here]
        key = {name: (t, _chosen(c, rows)) for name, (t, c) in given[0].key.items()}
        given = [Given(len(rows), [_chosen(c, rows) for c in given[0].columns], key=key)]
    count = max(g.count for g in given)
    columns, masks = [], []
    for g in given:
        mask = g.mask
        if g.count < count:
            silence = count - g.count
            mask = [*(mask if mask is not None else [True] * g.count), *[False] * silence]
            columns.append([_longer(c, silence) for c in g.columns])
        else:
            columns.append(g.columns)
        masks.append(mask)
    keys = [[_longer(c, count - g.count) for _, c in g.key.values()] for g in given] if kinds else None
    try:
        return engine.push_batch(Batch(count, columns, masks, keys), positions=positions), rows
    except StepError as error:
        if rows is None or not 0 <= error.position < len(rows):
            raise
        raise _moved(error, rows[error.position]) from error.__cause__


def _moved(error: StepError, position: int) -> StepError:
    """The same error at another push: silent ones count, though the engine has not seen them."""
    said, meant = (f"failed at push {at:,} " for at in (error.position, position))
    return type(error)(str(error).replace(said, meant, 1), step=error.step, position=position)


def _chosen(column: Any, rows: list[int]) -> Column:
    from pellucid.data.columns import Strings

    if isinstance(column, list):
        return [column[i] for i in rows]
    if isinstance(column, Strings):
        return Strings(column.codes[rows], column.values)
    chosen: Column = column[rows]
    return chosen


def _longer(column: Any, silence: int) -> Column:
    """A column with rows added that are no events."""
    from pellucid.data.columns import Strings

    if isinstance(column, list):
        filler = column[-1] if column else 0
        return column + [filler] * silence
    import numpy as np

    if isinstance(column, Strings):
        return Strings(np.pad(column.codes, (0, silence)), column.values or [""])
    return np.pad(column, (0, silence))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
