"""Text files on Spark, read cell for cell as the local engine reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.data.bind import key_columns
from pellucid.internal.data.formats.missing import check_nulls, said_nulls
from pellucid.internal.expr.types import type_of
from pellucid.sinks.address import absolute, on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pellucid.spark.files.csv import Wanted

__all__ = ["read_csv", "read_json"]


def read_csv(
    spark: Any,
    path: str | os.PathLike[str],
    wanted: Any,
    *,
    source: str | None = None,
    value: str | None = None,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    sep: str = ",",
    stream: bool = False,
    nulls: str | Sequence[str] | None = None,
) -> DataFrame:
    """The CSV files at a place (a file or a folder) as a DataFrame, each cell as the local engine reads it.

    ``wanted`` is the pipeline that the rows are for, or a dict from columns to types (``{"x": int}``).  ``source`` is
    the pipeline's source that the files are of, if it has several and each has files of its own; ``value``, ``key`` and
    ``order`` are what `Pipeline.spark` will be told.  Columns that nobody says the type of have what their cells look
    like.  With ``stream``, files that come later are read as they come.  ``nulls`` are words such as ``NA`` that are
    None where ``T | None`` is declared; not of a stream, as Spark does not tell them from the same word in quotes.

    .. code-block:: python

        totals.spark(read_csv(spark, "events.csv", totals, key="user", order="seq"), key="user", order="seq")
    """
    from pellucid.spark.files.csv import cells

    place = _place(path, stream)
    found = _wanted(wanted, source, value, key, order)
    check_nulls(words := said_nulls(nulls), found.types.items(), place, text=True)
    return cells(spark, place, sep, stream, replace(found, nulls=words))


def read_json(
    spark: Any,
    path: str | os.PathLike[str],
    wanted: Any,
    *,
    source: str | None = None,
    value: str | None = None,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    stream: bool = False,
) -> DataFrame:
    """The same for JSON Lines: each line an object, with the meaning that it has in the local engine."""
    from pellucid.spark.files.json import objects

    place = _place(path, stream)
    return objects(spark, place, absolute(place), stream, _wanted(wanted, source, value, key, order))


def _place(path: str | os.PathLike[str], stream: bool) -> str:
    place = os.fspath(path)
    if on_this_machine(place) and not os.path.exists(place):
        raise DataError(f"{place}: no such file or folder")
    if stream and on_this_machine(place) and not os.path.isdir(place):
        raise UsageError(f"{place}: a stream reads a folder, to which files are added: give the folder")
    return place


def _wanted(
    given: Any,
    source: str | None,
    value: str | None,
    key: str | Sequence[str] | None,
    order: str | Sequence[str] | None,
) -> Wanted:
    from pellucid.spark.files.csv import Wanted, wanted_of

    keys, orders = key_columns(key, who=option("key")), key_columns(order, who=option("order"))
    if isinstance(given, Mapping):
        return Wanted({name: type_of(t) for name, t in given.items()}, keys=keys, orders=orders)
    graph = getattr(given, "graph", None)
    if graph is None:
        raise UsageError(
            f"expected the pipeline that the rows are for, or a dict from columns to types, found {given!r}"
        )
    sources = [graph.nodes[i].id for i in graph.sources]
    if source is not None and source not in sources:
        raise UsageError(f"{graph.name} has no source {source!r}: its sources are {', '.join(sources)}")
    return wanted_of(graph, source, value, keys, orders)
