"""What a user gives as the data of a source, whatever library made it: how it is read, and how results look.

pandas, polars, Arrow (tables, batches, datasets, streams), DuckDB relations, lists of dicts and of records.  Only the
columns that are needed are taken from a frame; a library is only touched where the data is its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import DataError
from pellucid.internal.data.bind import refuse_twice
from pellucid.internal.graph.stream import silent

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
            f"found {type(data).__name__} {_short(data)}"
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
    reads: tuple[str, ...] | None = None  # the columns that are read; others only come along

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
        """With the columns that are read (None: all) and those that come along; as something that can be read and
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
