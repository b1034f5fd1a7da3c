"""The steps before anything is remembered, as Spark's own expressions: what a filter drops is not shuffled.

A pipeline that begins with maps and filters is cut behind them: the front becomes a filter and a projection of the
user's DataFrame, before the shuffle; the rest is a pipeline of its own, whose source is what the front puts out.  A
push of which the front drops the event does nothing in the rest, so the answers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pellucid.internal.graph.model import Graph, Node
from pellucid.spark.frames import Frame, FrameSource, column_at
from pellucid.spark.job import SparkJob
from pellucid.spark.native.column import NotNative, why_not
from pellucid.spark.native.stateless import Remembers, slots
from pellucid.spark.native.stateless import frame as stateless_frame
from pellucid.spark.reading import event_columns

if TYPE_CHECKING:
    from pyspark.sql import Column


def front(graph: Graph, *, ansi: bool = True) -> list[Node]:
    """The steps that run before the shuffle; none, if that would save nothing.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.map(lambda v: v + 1).filter(lambda v: v > 3).map(lambda v: v * 2).trim(1), x=int)
    >>> [node.kind for node in front(p.graph)]
    ['map', 'filter', 'map']
    >>> front(pipeline(lambda x: x.map(lambda v: v + 1).trim(1), x=int).graph)
    []
    """
    if len(graph.sources) != 1:
        return []
    outputs = {at for _, at in graph.outputs}
    at = graph.sources[0]
    chain: list[Node] = []
    best = 0
    width = graph.nodes[at].type.width
    while at not in outputs:
        readers = graph.readers(at)
        node = graph.nodes[readers[0][0]] if len(readers) == 1 else None
        if node is None or not node.processor.plain:
            break
        at = graph.position[node.id]
        try:
            if any(why_not(e, ansi=ansi) for slot in slots(graph, at) for e in (slot.when, *slot.leaves)):
                break
        except Remembers:
            break
        chain.append(node)
        filtered = any(n.processor.puts == "some" for n in chain)
        if (filtered and node.type.width <= width) or node.type.width < width:
            best = len(chain)
    return chain[:best]


def split(graph: Graph, chain: Sequence[Node]) -> tuple[Graph, Graph]:
    """The front as a pipeline, and the rest as one whose source is what the front puts out."""
    source = graph.nodes[graph.sources[0]]
    last = graph.position[chain[-1].id]
    inside = [graph.sources[0], *(graph.position[n.id] for n in chain)]
    at = {old: new for new, old in enumerate(inside)}
    nodes = [replace(graph.nodes[old], inputs=tuple(at[i] for i in graph.nodes[old].inputs)) for old in inside]
    first = Graph(graph.name, tuple(nodes), (0,), (("out", len(nodes) - 1),))
    rest = [replace(source, type=chain[-1].type)]
    moved = {last: 0}
    for i, node in enumerate(graph.nodes):
        if i not in at:
            moved[i] = len(rest)
            rest.append(replace(node, inputs=tuple(moved[j] for j in node.inputs)))
    outputs = tuple((name, moved[i]) for name, i in graph.outputs)
    return first, Graph(graph.name, tuple(rest), (0,), outputs)


def cut(
    job: SparkJob, frame: Frame, leaves: Sequence[Column], sure: Sequence[bool], *, ansi: bool
) -> tuple[SparkJob, Frame]:
    """The job and its frame with the front done by Spark; as they are, if there is none."""
    late = job.late
    whole = (
        late.policy != "fail" or late.wait or late.sequence is not None
    )  # rows are compared as they came, or counted
    chain = [] if whole or job.fields.tagged or job.fields.wide else front(job.graph, ansi=ansi)
    if not chain:
        return job, frame
    first, rest = split(job.graph, chain)
    kept = [*job.fields.keys, *job.fields.orders, *job.fields.keeps]
    columns = frame.columns[: len(kept)]
    try:
        df = stateless_frame(first, frame.raw, leaves, columns, ansi=ansi, sure=sure)
    except (NotNative, Remembers):
        return job, frame
    t = chain[-1].type
    names = [field.name for field in event_columns(t, "out")]
    paths = [path or "out" for path, _ in t.columns()] if names != ["out"] else ["out"]
    if any(p.split(".")[0] not in names for p in paths):  # a tuple: its items have names of their own
        return job, frame
    values = [column_at(df.schema, path).alias(f"v0_{j}") for j, path in enumerate(paths)]
    source = FrameSource(
        job.fields.sources[0].name,
        t,
        tuple(f"{chain[-1].id}.{p}" if p != "out" else chain[-1].id for p in paths),
        nan=True,  # what the front has computed is an event, whatever it is
    )
    fields = replace(job.fields, sources=(source,))
    return replace(job, graph=rest, fields=fields), replace(frame, df=df.select(*kept, *values), fields=fields)
