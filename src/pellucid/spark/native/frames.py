"""Frames made of Spark's own expressions: whole pipelines that remember nothing, and keys that a pipeline makes
itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pellucid.internal.data.bind import Binding
from pellucid.internal.data.formats.fields import own_paths
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType
from pellucid.internal.graph.memory import inner_key
from pellucid.internal.graph.model import Graph
from pellucid.spark.frames import Frame, column_at
from pellucid.spark.job import SparkJob
from pellucid.spark.native.column import NotNative, column
from pellucid.spark.native.stateless import frame as stateless_frame
from pellucid.spark.native.stateless import stateless
from pellucid.spark.reading import never_null, source_leaves, surely_events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def native_frame(job: SparkJob, frame: Frame, *, ansi: bool) -> DataFrame:
    """A pipeline that remembers nothing, as a filter and a projection of the user's DataFrame."""
    if not _surely_met(job, frame):
        raise NotNative("has a field of the name of a column of the key or the order, which may be something else")
    schema = frame.raw.schema
    keys = {name for name, t in frame.fields.key if not isinstance(t, OptionalType)}
    whole = set(frame.fields.along)  # such a column is taken as it is, whatever is in its name
    kept = {n: frame.raw[f"`{n}`"] if n in whole else column_at(schema, n) for n, _ in job.kept}
    keep = [(never_null(c, "key", name, frame.raw) if name in keys else c).alias(name) for name, c in kept.items()]
    names = [name for name, _ in job.outputs]
    leaves, sure = leaves_of(frame)
    return stateless_frame(
        job.graph, frame.raw, leaves, keep, outputs=names, nth=job.nth, ansi=ansi, sure=sure, tag=job.tag
    )


def _surely_met(job: SparkJob, frame: Frame) -> bool:
    """Whether the fields that have the name of a column of the key or the order are that column, as the source reads
    it: else rows are looked at."""
    if not job.met:
        return True
    (source,) = frame.fields.sources
    places, at = {}, 0
    for read, (_, t) in zip(source.columns, source.type.columns(), strict=True):
        places[read] = t, at
        at += t.width
    found, graph = stateless(job.graph), job.graph
    for name, _ in job.outputs:
        output = dict(graph.outputs)[name]
        own = own_paths(graph.nodes[output].type, name)
        for met in job.met:
            (t, first), (found_as, leaf) = own[met.name], places.get(met.name, (None, 0))
            if t != found_as or inner_type(t) == FLOAT:  # a whole number may have been rounded
                return False
            for slot in found.slots[output]:
                leaves = slot.leaves[first : first + t.width]
                if any(e.op != "var" or e.value != leaf + i for i, e in enumerate(leaves)):
                    return False
    return True


def leaves_of(frame: Frame) -> tuple[list[Column], list[bool]]:
    """The leaves of the one source, as columns of the user's DataFrame, and which of them never fail to be read."""
    (source,) = frame.fields.sources
    binding = Binding(source.name, source.type, source.columns, nan=source.nan)
    schema = frame.raw.schema
    return source_leaves(binding, schema, "the DataFrame"), surely_events(binding, schema, "the DataFrame")


def with_inner_key(graph: Graph, frame: Frame, job: SparkJob, *, ansi: bool) -> tuple[Frame, SparkJob]:
    """The frame with the key that the pipeline makes by ``key_by`` as its key; the engine makes it again for itself."""
    leaves, _ = leaves_of(frame)
    found = inner_key(graph)
    assert found is not None
    columns = [column(e, leaves, ansi=ansi).alias(f"k{i}") for i, e in enumerate(found)]
    kept = [e.type if e.type in (INT, BOOL, STR) else STR for e in found]
    key = tuple((f"key_by {i}" if len(found) > 1 else "key_by", t) for i, t in enumerate(kept))
    fields = replace(frame.fields, key=key)
    chosen = (*columns, *frame.columns)
    made = replace(frame, df=frame.raw.select(*chosen), fields=fields, columns=chosen)
    return made, replace(job, fields=fields, external=False)
