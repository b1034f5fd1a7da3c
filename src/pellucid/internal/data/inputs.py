"""What a user gives as the data of a source, whatever library made it: how it is read, and how results look.

pandas, polars, Arrow (tables, batches, datasets, streams), DuckDB relations, lists of dicts and of records.  Only the
columns that are needed are taken from a frame; a library is only touched where the data is its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, StepError, UsageError, nearest
from pellucid.internal.data.bind import (
    COLUMNS,
    BadOption,
    BadRow,
    BadRows,
    Kept,
    Place,
    as_text,
    kept_columns,
    missing_keys,
    of_row,
    own_paths,
    refuse_order_names,
    refuse_twice,
    row_text,
    schema,
    shorten,
    table_of,
)
from pellucid.internal.data.cells import check_formats
from pellucid.internal.data.columns import (
    Column,
    Given,
    Output,
    Strings,
    events_of,
    field_values,
    from_dicts,
    from_events,
    key_values,
    place_of,
    refuse_scalars,
)
from pellucid.internal.expr.types import RecordType, Type
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import silent

if TYPE_CHECKING:
    from pellucid.internal.data.feed import Keyed, Lineup
    from pellucid.internal.request import Request

#: Kinds that have columns with names.
TABLES = ("DataFrame", "Table", "RecordBatch", "dicts", "polars", "lazy", "Dataset", "stream")
_ARROW = ("Table", "RecordBatch", "ChunkedArray", "Array")


def kind_of(data: Any, who: str = "the input") -> str:
    """What kind of data it is: list, dicts, ndarray, Series, DataFrame, polars, lazy, an Arrow class, stream.

    >>> kind_of([1]), kind_of(range(3)), kind_of([{"x": 1}])
    ('list', 'list', 'dicts')
    """
    numpy, pandas, arrow, polars = (sys.modules.get(name) for name in ("numpy", "pandas", "pyarrow", "polars"))
    if isinstance(data, (list, tuple, range)):
        return "dicts" if isinstance(data, (list, tuple)) and _are_dicts(data) else "list"
    if numpy is not None and isinstance(data, numpy.ndarray):
        return "ndarray"
    if pandas is not None:
        for name in ("Series", "DataFrame"):
            if isinstance(data, getattr(pandas, name, ())):
                return name
    if polars is not None:
        for name, kind in (("DataFrame", "polars"), ("LazyFrame", "lazy"), ("Series", "polars Series")):
            if isinstance(data, getattr(polars, name, ())):
                return kind
    if arrow is not None:
        for name in _ARROW:
            if isinstance(data, getattr(arrow, name, ())):
                return name
        dataset = sys.modules.get("pyarrow.dataset")
        if dataset is not None and isinstance(data, getattr(dataset, "Dataset", ())):
            return "Dataset"
    if not isinstance(data, type) and hasattr(data, "__arrow_c_stream__"):
        return "stream"  # Arrow's own interface: a RecordBatchReader, a DuckDB relation, many others
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise DataError(
            f"{who}: expected a list or another iterable of events, a NumPy array, a pandas, polars or Arrow object, "
            f"found {type(data).__name__} {shorten(data)}"
        )
    if hasattr(data, "to_arrow"):
        raise DataError(
            f"{who}: cannot read a {type(data).__module__}.{type(data).__name__}: call its to_arrow() first"
        )
    return "list"


def _are_dicts(data: Sequence[Any]) -> bool:
    """By the first that is there: `silent` may stand before it, or None, which is a row that is missing."""
    return next((isinstance(value, dict) for value in data if value is not silent and value is not None), False)


@dataclass(frozen=True)
class Input:
    """The data of one source, or of all: ``kind`` says how it is read, ``shows`` how results look."""

    kind: str
    shows: str
    data: Any
    reads: tuple[str, ...] | None = None  # the columns that are read; others only pass through

    @property
    def is_table(self) -> bool:
        """Whether it has columns with names."""
        return self.kind in TABLES

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        if self.kind == "dicts":
            return list(dict.fromkeys(name for row in self.data if isinstance(row, dict) for name in row))
        if self.kind == "DataFrame":
            return [str(name) for name in self.data.columns]
        if self.kind == "lazy":
            return list(self.data.collect_schema().names())
        return list(self.data.columns) if self.kind == "polars" else list(self.data.schema.names)

    def narrowed(self, reads: Sequence[str] | None, keeps: Sequence[str]) -> Input:
        """With the columns that are read (None: all) and the passthrough columns; as something that can be read and
        taken from."""
        if self.kind == "dicts":
            return self
        also = set(reads or ()) | set(keeps)
        needed = None if reads is None else [name for name in self.columns if name in also]
        refuse_twice("the table", needed or ())
        data, kind, shows = self.data, self.kind, self.shows
        if kind == "lazy":
            data, kind = (data if needed is None else data.select(list(needed))).collect(), "polars"
        elif kind == "polars":
            data = data if needed is None else data.select(list(needed))
        elif kind == "DataFrame" and needed is not None:
            wanted = set(needed)
            data = data[[name for name in data.columns if str(name) in wanted]]
        elif kind == "Dataset":
            data, kind = data.to_table(columns=None if needed is None else list(needed)), "Table"
        elif kind == "Table" and needed is not None:
            data = data.select(list(needed))
        return Input(kind, shows, data, None if reads is None else tuple(reads))

    def readable(self) -> tuple[str, Any]:
        """The kind and the data for `data.kinds.read`."""
        if self.kind == "polars":
            return "Table", _polars_table(self.data if self.reads is None else self.data.select(self.reads))
        if self.kind == "DataFrame" and self.reads is not None:
            return self.kind, self.data[[name for name in self.data.columns if str(name) in self.reads]]
        if self.kind == "polars Series":
            import pyarrow as pa

            return "ChunkedArray", pa.chunked_array([self.data.to_arrow()])
        return self.kind, self.data

    def taken(self, column: str, rows: Any) -> Any:
        """The values of a column in these rows, in the form of its own library; nothing where a row is -1."""
        import numpy as np

        rows = np.asarray(rows, dtype=np.int64)
        gaps = bool(len(rows)) and bool((rows < 0).any())
        if self.kind == "dicts":
            return [(self.data[i] or {}).get(column) if i >= 0 else None for i in rows.tolist()]
        if self.kind == "DataFrame":
            series = self.data.iloc[:, [str(name) for name in self.data.columns].index(column)]
            return (series.reset_index(drop=True).reindex(rows) if gaps else series.iloc[rows]).array
        if self.kind == "polars":
            import polars as pl

            wanted = pl.Series(rows) if not gaps else pl.Series([i if i >= 0 else None for i in rows.tolist()])
            return self.data.get_column(column).gather(wanted)
        import pyarrow as pa

        from pellucid.internal.data.arrow import taken

        return taken(self.data.column(column), pa.array(rows, mask=rows < 0))


def input_of(data: Any, who: str) -> Input:
    """What is given, with how it is to be read."""
    kind = kind_of(data, who)
    if kind == "stream":
        import pyarrow as pa

        if kind_of_module(data) == "duckdb":
            return Input("Table", "Table", data.to_arrow_table())
        try:
            return Input("Table", "Table", pa.table(data))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                f"{who}: cannot read a {type(data).__module__}.{type(data).__name__} as a table: {error}"
            ) from None
    if kind == "list" and not isinstance(data, (list, tuple, range)):
        data = list(data)
        kind = "dicts" if _are_dicts(data) else kind
    shows = {"lazy": "polars", "Dataset": "Table"}.get(kind, kind)
    return Input(kind, shows, data)


def _polars_table(frame: Any) -> Any:
    """A polars frame as an Arrow table; a type that Arrow does not have is named with its column."""
    import pyarrow as pa

    try:
        return frame.to_arrow()
    except pa.ArrowException:
        for column in frame:
            try:
                column.to_arrow()
            except pa.ArrowException:
                raise DataError(
                    f"the table: column {column.name!r} holds {column.dtype}, which Arrow does not have: cast it first"
                ) from None
        raise


def kind_of_module(data: Any) -> str:
    """The library that an object is of."""
    return type(data).__module__.partition(".")[0].lstrip("_")


# Which columns of a table a run needs: those of its sources, of the key, of the order, and the passthrough columns.


def needed_columns(
    columns: Sequence[str], sources: Mapping[str, Type], others: Iterable[str], *, wide: bool, key: Sequence[str] = ()
) -> list[str] | None:
    """The columns that these sources and the others need, in the order of the table; None if one is not found: then
    all are, so that the message can say what there is.

    >>> from pellucid.internal.expr.types import INT
    >>> needed_columns(["user", "x", "note"], {"x": INT}, ["user"], wide=False)
    ['user', 'x']
    >>> needed_columns(["user", "note"], {"x": INT}, ["user"], wide=False, key=["user"])
    ['user', 'note']
    """
    found: set[str] = set()
    for source, t in sources.items():
        leaves = [path for path, _ in t.columns()]
        if not leaves[0] and source not in columns and not wide:
            rest = [column for column in columns if column not in key]
            if len(rest) != 1:
                return None
            found.add(rest[0])
            continue
        for path in leaves:
            whole = f"{source}.{path}" if wide and path else path or source
            mine = heads(columns, [whole]) or heads(columns, [f"{source}_{path}"])
            if not mine:
                return None
            found |= set(mine)
    for path in others:
        mine = heads(columns, [path])
        if not mine:
            return None
        found |= set(mine)
    return [column for column in columns if column in found]


def heads(columns: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The columns that hold these dotted paths.

    >>> heads(["a", "ab", "c.d"], ["a.b.c", "c.d"])
    ['a', 'c.d']
    """
    return [c for c in columns if any(p == c or p.startswith(f"{c}.") for p in paths)]


# Data in memory, bound to the sources of a pipeline and checked: what a run needs before its first push.


@dataclass
class Ready:
    """Everything that a run needs."""

    graph: Graph
    inputs: dict[str, Input]
    given: list[Given]
    kept: Kept
    options: Request
    lineup: Lineup | None = None
    places: dict[str, Place] = field(default_factory=dict)  # of each input

    @property
    def apart(self) -> bool:
        """Whether rows of several inputs do not go together by their numbers: event times say which do."""
        return self.graph.timed and "" not in self.inputs

    def rows(self, source: str, pushes: Any) -> Any:
        """The rows of an input that came with these pushes; -1 where there was none."""
        import numpy as np

        pushes = np.asarray(pushes, dtype=np.int64)
        at = 0 if "" in self.inputs else [self.graph.nodes[i].id for i in self.graph.sources].index(source)
        if self.lineup is not None:
            return self.lineup.rows[at][pushes]
        return np.where(pushes < self.given[at].count, pushes, -1)

    def along(self, output: Output, pushes: Any) -> list[tuple[str, Any]]:
        """The passthrough columns of an output, between its key and its events: the order's, and those that are
        kept."""
        from pellucid.internal.data.frames import shown_as

        out: list[tuple[str, Any]] = []
        own = own_paths(output.type, output.name)
        first = next(iter(self.inputs))
        shows = self.inputs[first].shows
        for j, name in enumerate(self.options.order):
            if name in own or name in self.options.key or self.lineup is None:
                continue
            if len(self.inputs) == 1 and self.inputs[first].is_table and name in self.inputs[first].columns:
                out.append((name, self.inputs[first].taken(name, self.rows(first, pushes))))
            else:
                out.append((name, shown_as(shows, self.lineup.order[j].take(_indices(pushes)))))
        for source, name in self.kept.of(output.type, output.name):
            found = self.inputs[source]
            column = found.taken(name, self.rows(source, pushes))
            out.append((name, column if found.shows == shows else shown_as(shows, column)))
        return out

    def where(self, pushes: Any) -> Callable[[int], str]:
        """Names the row of the first input that came with the i-th of these pushes."""
        first = next(iter(self.inputs))

        def at(i: int) -> str:
            row = int(self.rows(first, [pushes[i]])[0])
            return self.places[first].at(row) if row >= 0 else f"{self.graph.name}: push {int(pushes[i]):,}"

        return at


def _indices(pushes: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.asarray(pushes, dtype=np.int64))


def by_source(
    graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any], words: Callable[[], Sequence[str]] = tuple
) -> dict[str, Input]:
    """Each source's data; one table for several sources goes under the name ''.  ``words`` gives the other keywords."""
    sources = [graph.nodes[i].id for i in graph.sources]
    listing = ", ".join(sources)
    if len(data) == 1 and not named and len(sources) > 1:
        whole = input_of(data[0], graph.name)
        if whole.is_table:
            return {"": whole}
    if len(data) > len(sources):
        raise UsageError(f"{graph.name} has {len(sources)} source(s) ({listing}), found {len(data)} inputs")
    given = dict(zip(sources, data, strict=False))
    for name, events in named.items():
        if name not in sources:
            known = [*sources, *words()]
            raise UsageError(f"{graph.name} has no source {name!r}: its sources are {listing}{nearest(name, known)}")
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
    return {name: input_of(events, graph.name) for name, events in given.items()}


def _place(graph: Graph, source: str, options: Request) -> Place:
    """How a message names an input ('': the one of all sources), and whether it takes notes of bad rows."""
    place = place_of(graph.name, source) if source else Place(graph.name, lambda i: f"position {i:,}")
    return replace(place, bad={}) if options.sets_aside else place


def make_ready(graph: Graph, inputs: dict[str, Input], options: Request) -> Ready:
    """Bind the inputs to the sources, in the order that is asked for."""
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    outputs = {name: graph.nodes[i].type for name, i in graph.outputs}
    kept = _kept(graph, inputs, outputs, options) if options.keep else Kept()
    if options.time_format:
        _check_formats(graph, types, inputs, options)
    refuse_order_names(outputs, options.order)
    for name, one in inputs.items():
        if one.is_table:
            sources = types if not name else {name: types[name]}
            others = [*options.key, *options.order]
            reads = needed_columns(one.columns, sources, others, wide=not name, key=options.key)
            inputs[name] = one.narrowed(reads, kept.from_input(name))
    places = {name: _place(graph, name, options) for name in inputs}
    run = Ready(graph, inputs, _given(graph, types, inputs, options, places), kept, options, places=places)
    if options.sets_aside and run.apart:
        for given, name in zip(run.given, types, strict=True):
            _silence([given], set(places[name].bad or ()))
    elif options.sets_aside and not options.order:
        _silence(run.given, {i for place in places.values() for i in place.bad or ()})
    if options.order:
        from pellucid.internal.data.feed import as_given, line_up, refuse_different, without_bad

        names = [""] if "" in inputs else list(types)
        keyed = [_keyed(name, types, inputs[name], run.given, options, places[name]) for name in names]
        goods = [without_bad(one) for one in keyed]
        run.lineup = line_up([one for one, _ in goods], options.order, options.late)
        for name, (rows_of, good), doubled in zip(names, goods, run.lineup.doubled, strict=True):
            values: dict[str, Any] = {
                source: events_at(t, g)
                for (source, t), g in zip(types.items(), run.given, strict=True)
                if name in ("", source)
            }
            values |= {column: partial(inputs[name].taken, column) for column in kept.from_input(name)}
            refuse_different(rows_of, options.order, doubled, values, good)
        run.lineup = replace(
            run.lineup, rows=[as_given(r, good) for r, (_, good) in zip(run.lineup.rows, goods, strict=True)]
        )
        pushed = run.lineup.rows * len(run.given) if "" in inputs else run.lineup.rows
        run.given = [lined_up(g, rows) for g, rows in zip(run.given, pushed, strict=True)]
    return run


def _silence(given: list[Given], gone: set[int]) -> None:
    """No source brings anything in these pushes."""
    for one in given:
        if any(i < one.count for i in gone):
            mask = [True] * one.count if one.mask is None else [bool(here) for here in one.mask]
            one.mask = [here and i not in gone for i, here in enumerate(mask)]


def _check_formats(graph: Graph, types: Mapping[str, Type], inputs: Mapping[str, Input], options: Request) -> None:
    check_formats(options.time_format, _read(types, wide="" in inputs), graph.name)
    for name, one in inputs.items():
        if options.time_format and one.kind in ("list", "dicts"):
            raise UsageError(
                f"{graph.name}: time_format= is for columns of texts, so the source {name!r} must be a DataFrame or an "
                f"Arrow table, found {shorten(one.data)}; make times of them with datetime.strptime"
            )


def _read(types: Mapping[str, Type], *, wide: bool) -> list[tuple[str, Type]]:
    """The columns that sources read, by the names that they have in a table, and what they are declared as."""
    return [
        (f"{source}.{path}" if wide and path else path or source, c)
        for source, t in types.items()
        for path, c in t.columns()
    ]


def _kept(graph: Graph, inputs: Mapping[str, Input], outputs: Mapping[str, Type], options: Request) -> Kept:
    for name, one in inputs.items():
        if not one.is_table and (not isinstance(options.keep, Mapping) or name in options.keep):
            raise UsageError(
                f"{graph.name}: keep= names columns, so the source {name!r} must be a table (a DataFrame, an Arrow "
                f"table, a list of dicts), found {shorten(one.data)}"
            )
    if not next(iter(inputs.values())).is_table:
        raise UsageError(
            f"{graph.name}: with keep= the result is a table, of the kind of the first input: give a table first"
        )
    return kept_columns(
        options.keep,
        {name: one.columns if one.is_table else [] for name, one in inputs.items()},
        outputs,
        there=[*options.key, *options.order],
        place={name: place_of(graph.name, name).name if name else graph.name for name in inputs},
        graph=graph.name,
    )


def _given(
    graph: Graph,
    types: Mapping[str, Type],
    inputs: Mapping[str, Input],
    options: Request,
    places: Mapping[str, Place],
) -> list[Given]:
    if "" in inputs:
        return _given_wide(graph, types, inputs[""], options, places[""])
    out = []
    missing = missing_keys(_read(types, wide=False), options.key) if options.key else {}
    for source, t in types.items():
        one, place = inputs[source], places[source]
        for what in ("key", "order"):
            if getattr(options, what) and not one.is_table:
                if one.kind != "list":
                    _refuse_no_table(graph, source, what, one.data)
                refuse_scalars(graph.name, source, t, what, one.data)
        if one.kind in ("list", "dicts"):
            if one.kind == "list":
                given = from_events(graph.name, source, t, one.data, place, nan=options.nan_is_value)
            else:
                names = [c for c in one.columns if c not in (*options.key, *options.order)] or one.columns
                known = one.columns if source in one.columns else names
                given = from_dicts(graph.name, source, t, one.data, place, known, nan=options.nan_is_value)
            given.key = {name: key_values(one.data, name, place, missing.get(name)) for name in options.key}
            out.append(given)
        else:
            from pellucid.internal.data.frames import read

            kind, data = one.readable()
            out.append(
                read(kind, source, t, data, place, options.key, missing, options.time_format, nan=options.nan_is_value)
            )
    if not options.order:
        _refuse_uneven(graph, types, inputs, out, options)
    return out


def _given_wide(graph: Graph, types: Mapping[str, Type], one: Input, options: Request, place: Place) -> list[Given]:
    if one.kind != "dicts":
        from pellucid.internal.data.frames import read_wide

        return read_wide(
            graph.name, types, one.readable()[1], options.key, place, options.time_format, nan=options.nan_is_value
        )
    out = []
    missing = missing_keys(_read(types, wide=True), options.key)
    key = {name: key_values(one.data, name, place, missing.get(name)) for name in options.key}
    for source, t in types.items():
        if source not in one.columns:
            known = one.columns
            raise DataError(
                f"{graph.name}: no field {source!r} for the source {source!r}: the dicts have {', '.join(known)}"
                f"{nearest(source, known)}"
            )
        record = isinstance(t, RecordType)
        rows: list[Any] = [
            silent if row.get(source) is None else row[source] if record else {source: row[source]} for row in one.data
        ]
        given = from_dicts(graph.name, source, t, rows, place, [source], nan=options.nan_is_value)
        given.key = dict(key)
        out.append(given)
    return out


def _refuse_no_table(graph: Graph, source: str, what: str, data: Any) -> None:
    raise UsageError(
        f"{graph.name}: {what}= names columns, so the source {source!r} must be a table (a DataFrame, an Arrow table, "
        f"a list of dicts or of records), found {shorten(data)}; for a list of keys use "
        "p.engine(key=str).push(events, key=keys)"
    )


def _refuse_uneven(
    graph: Graph, types: Mapping[str, Type], inputs: Mapping[str, Input], given: list[Given], options: Request
) -> None:
    silences = {
        s for s in types if isinstance(inputs[s].data, list) and not inputs[s].data
    }  # said aloud: a source that stays silent
    counts = {s: g.count for s, g in zip(types, given, strict=True) if s not in silences}
    if options.short == "fail" and len(set(counts.values())) > 1:
        least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise DataError(
            f"{graph.name}: the source {least!r} has {counts[least]:,} events, but {most!r} has {counts[most]:,}: the "
            "i-th push takes the i-th of "
            f"each; put `silent` where there is none, or say short='silent' if {least!r} is to be silent from then on"
        )


def _keyed(
    name: str, types: Mapping[str, Type], one: Input, given: list[Given], options: Request, place: Place
) -> Keyed:
    """The columns of an input that say whose a row is, and when it comes."""
    import pyarrow as pa

    from pellucid.internal.data.arrow import column_at, column_names, key_array
    from pellucid.internal.data.bind import some
    from pellucid.internal.data.feed import Keyed, order_values

    mine = given[0] if not name else given[list(types).index(name)]
    key = [key_array(t, leaves) for t, leaves in mine.key.values()]
    order = []
    kind, data = one.readable()
    table = None
    if kind == "DataFrame":
        from pellucid.internal.data.frames import arrow_table

        table = arrow_table(kind, name, data[[c for c in options.order if c in data.columns]])
    elif kind in ("Table", "RecordBatch"):
        table = data
    for column in options.order:
        if table is None:
            values = field_values(one.data, column, place, "order")
            try:
                array = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise DataError(f"{place.name}: the order {column!r} mixes types: {error}") from None
        else:
            known = column_names(table.schema)
            if column not in known:
                raise DataError(
                    f"{place.name}: no order column {column!r}: its columns are {some(one.columns)}"
                    f"{nearest(column, one.columns)}"
                )
            array = column_at(table, column)
        declared = next((t for path, t in _read(types, wide=not name) if path == column), None)
        order.append(order_values(array, column, declared, place, options.time_format.get(column)))
    return Keyed(key, order, place)


def events_at(t: Type, given: Given) -> Callable[[Any], list[Any]]:
    """The events of a source in some rows, None where it has none."""

    def at(rows: Any) -> list[Any]:
        there: Any = [True] * len(rows) if given.mask is None else chosen(given.mask, rows)
        found = events_of(t, [chosen(c, rows) for c in given.columns])
        return [event if here else None for event, here in zip(found, there, strict=True)]

    return at


def lined_up(given: Given, rows: Any) -> Given:
    """The events of a source at the pushes at which they come."""
    import numpy as np

    there = rows >= 0
    mask = None if given.mask is None else np.asarray(given.mask, dtype=bool)
    if mask is not None or not there.all():
        here = np.where(there, rows, 0)
        mask = there if mask is None or not len(mask) else there & mask[here]
    if not given.count:
        given = Given(
            1,
            [_one_more(c) for c in given.columns],
            key={n: (t, [_one_more(c) for c in leaves]) for n, (t, leaves) in given.key.items()},
        )
    picked = np.where(there, rows, 0)
    key = {name: (t, [chosen(c, picked) for c in leaves]) for name, (t, leaves) in given.key.items()}
    return Given(len(rows), [chosen(c, picked) for c in given.columns], mask, key)


def _one_more(column: Any) -> Column:
    """A column of an input without rows, with one that is no event."""
    import numpy as np

    if isinstance(column, list):
        return [0]
    return Strings(np.zeros(1, dtype=np.int64), [""]) if isinstance(column, Strings) else np.zeros(1, column.dtype)


def chosen(column: Any, rows: Any) -> Column:
    """Some rows of a column."""
    if isinstance(column, list):
        return [column[i] for i in (rows if isinstance(rows, list) else rows.tolist())]
    if isinstance(column, Strings):
        return Strings(column.codes[rows], column.values)
    found: Column = column[rows]
    return found


# The dead letters of a run over data in memory: rows that were set aside, in the order in which they came.

#: What the output of bad rows is called, where they are kept.
KEPT = "bad"


def refuse_kept(outputs: Sequence[str], bad: BadOption) -> None:
    """Two outputs of one name would be one too few."""
    if bad.to == "keep" and KEPT in outputs:
        raise UsageError(
            "bad='keep' gives the rows that are set aside as an output called 'bad', and there is one: rename it, or "
            "give a file"
        )


def letters(run: Ready, failed: Sequence[StepError], pushed: Sequence[int] | None, bad: BadOption) -> list[BadRow]:
    """The rows that cannot be read, and those in whose push a step failed; ``pushed`` tells the push of each row of
    the engine, where silent ones were left out."""
    if not bad:
        return []
    found: list[tuple[int, BadRow]] = []
    if run.apart:
        for name, place in run.places.items():
            found += [(i, _letter(run, name, i, *note)) for i, note in sorted((place.bad or {}).items())]
    elif run.lineup is None:
        for i in sorted({i for place in run.places.values() for i in place.bad or ()}):
            whys = (f"{p.at(i)}: {p.bad[i][1]}" for p in run.places.values() if p.bad and i in p.bad)
            why = f"its push has a row that cannot be read: {next(whys)}"
            for name in run.places:
                if _is_there(run, name, i):
                    found.append((i, _letter(run, name, i, *(run.places[name].bad or {}).get(i, (None, why)))))
    else:
        for name, place in run.places.items():
            found += [(-1, _letter(run, name, i, *note)) for i, note in sorted((place.bad or {}).items())]
    for error in failed:
        push = error.position if pushed is None else pushed[error.position]
        for name in run.places:
            row = int(run.rows(name, [push])[0])
            if row >= 0 and _is_there(run, name, row):
                found.append((push, _letter(run, name, row, None, error.why, error.step)))
    rows = [row for _, row in sorted(found, key=lambda one: one[0])]
    BadRows(bad.most).add(rows)
    return rows


def _is_there(run: Ready, name: str, row: int) -> bool:
    """Whether an input has this row, and it is no silence."""
    from pellucid.internal.graph.stream import silent

    data = run.inputs[name].data
    return row < len(data) and not (isinstance(data, (list, tuple)) and data[row] is silent)


def _letter(run: Ready, name: str, row: int, column: str | None, why: str, step: str | None = None) -> BadRow:
    letter = of_row(run.places[name], row, why, column=column, step=step)
    return BadRow(letter.file, letter.row, column, step, letter.reason, _text(run.inputs[name], row))


def _text(one: Input, i: int) -> str:
    """A row of an input as text."""
    data = one.data
    if one.kind == "DataFrame":
        return as_text(dict(zip(map(str, data.columns), data.iloc[i].tolist(), strict=True)))
    if one.kind == "polars":
        try:
            return as_text(data.row(i, named=True))
        except (ValueError, OverflowError):  # a time that Python does not have
            return row_text(data.slice(i, 1).to_arrow(), 0)
    if one.kind in ("Table", "RecordBatch"):
        return row_text(data, i)
    if one.kind == "Series":
        return as_text(data.iloc[i])
    return as_text(data[i].as_py() if hasattr(data[i], "as_py") else data[i])


def shown_letters(rows: Sequence[BadRow], shows: str) -> Any:
    """Dead letters as a table of the kind of the first input; for lists, as dicts."""
    if shows in ("DataFrame", "Series"):
        return table_of(rows).to_pandas()
    if shows.startswith("polars"):
        import polars as pl

        return pl.from_arrow(table_of(rows))
    if shows in ("Table", "RecordBatch", "Array", "ChunkedArray"):
        import pyarrow as pa

        return pa.Table.from_batches([table_of(rows)])
    return [{name: getattr(row, name) for name in COLUMNS} for row in rows]


def write_letters(rows: Sequence[BadRow], path: str) -> None:
    """A file of dead letters, which appears whole."""
    from pellucid.internal.data.outputs import open_writer

    with open_writer(path, schema(), None) as writer:
        if rows:
            writer.write(table_of(rows))
