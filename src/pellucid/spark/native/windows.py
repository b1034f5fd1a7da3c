"""Running sums, counts, minima and positions as SQL window functions: no Python worker on the executors.

The argument.  ``decimate`` and ``trim`` ask for the position of an event among those of its key, and a ``cumulate``
that adds, counts, takes the least or the greatest, or joins by ``and`` / ``or`` is a running aggregate; both are a
window function over the key's rows in order.  Everything around them is a slot (`pellucid.spark.native.stateless`): a
window function becomes one more variable, and the slots go on from there.

Exactly equal, also where it fails.  Spark adds a running sum row by row, so it overflows at the row where the pipeline
does, if the start value is added to the *first* event and not to the sums.  An aggregate looks only at the rows on
which its step has an event.  Two rows of one key and one order fail, as does a key or an order that is null.

Not the default.  Measured with Spark 4.3.0 on ``local[2]``, 5 M rows of 10^3 keys from Parquet, three runs of each in
turn after one to warm up, against a hand-written repartition, sort by order and ``mapInArrow`` with a Numba loop.  The
machine was busy with other work, so the seconds are high and the ratios rough; and the hand-written kernel does not
look for two rows of one order, as the window functions do:

===================================  ======================  ======================  ===============
seconds: median (best)               window functions        kernel                  ratio
===================================  ======================  ======================  ===============
a running sum                        19.9 (15.4)             7.6 (3.2)               2.6 (4.8)
filter, running sum, ``decimate(2)``  41.0 (30.1)             18.9 (9.2)              2.2 (3.3)
===================================  ======================  ======================  ===============

So the kernel is the default, and this is for ``native="windows"``, where executors should run no Python.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pellucid.errors import UsageError
from pellucid.expr import node as n
from pellucid.expr.node import TRUE, Expr, fails, walk
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import BOOL, INT, Type, conform
from pellucid.graph.model import Graph, Node
from pellucid.spark.native.column import NotNative, column, failure
from pellucid.spark.native.column import why_not as why_not_column
from pellucid.spark.native.stateless import Frame, Remembers, Slot, Stateless, step
from pellucid.spark.reading import never_null

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pellucid.spark.frames import Frame as AnyFrame
    from pellucid.spark.job import Job

__all__ = ["Windowed", "why_not", "window_frame", "windowed", "windows_frame"]


@dataclass(frozen=True)
class Aggregate:
    """A running aggregate of one value over the rows where a condition holds; its result is a variable."""

    how: str  # "count", "sum", "min" or "max"
    when: Expr
    value: Expr
    result: Expr

    @property
    def sure(self) -> bool:
        """Whether computing it never fails."""
        return self.how != "sum" and not fails(self.value) and not fails(self.when)


@dataclass
class Windowed:
    """A pipeline as running aggregates, one on top of the other, and slots over their results."""

    found: Stateless
    variables: list[Expr]
    aggregates: list[Aggregate] = field(default_factory=list)


def why_not(graph: Graph) -> str | None:
    """Why a pipeline does not become window functions, in words; None if it does.

    >>> from pellucid import pipeline
    >>> why_not(pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0).decimate(3), x=int).graph)
    >>> why_not(pipeline(lambda x: x.cumulate(lambda t, v: 2 * t + v, start=0, id="mix"), x=int).graph)
    "step 'mix' (cumulate 2 * t + v, ...) is no running sum, count, minimum, maximum, 'and' or 'or' over whole numbers"
    """
    try:
        made = windowed(graph)
    except (Remembers, NotNative) as error:
        return str(error)
    slots = [slot for _, at in graph.outputs for slot in made.found.slots[at]]
    parts = [e for slot in slots for e in (slot.when, *slot.leaves)] + [
        e for a in made.aggregates for e in (a.when, a.value)
    ]
    return next((reason for e in parts if (reason := why_not_column(e, ansi=True)) is not None), None)


def windowed(graph: Graph) -> Windowed:
    """The graph as running aggregates and slots; raises ``Remembers`` where a step is neither."""
    found = Stateless(graph)
    source = graph.nodes[graph.sources[0]]
    variables = [n.var(i, t) for i, (_, t) in enumerate(source.type.leaves())]
    out = Windowed(found, variables)
    for i, node in enumerate(graph.nodes):
        if node.kind == "source":
            if i != graph.sources[0]:
                raise Remembers(node, "is a second source")
            found.slots.append([Slot(TRUE, tuple(variables))])
            continue
        inputs = [found.slots[j] for j in node.inputs]
        counts = node.kind in ("decimate", "trim") and node.k != (1 if node.kind == "decimate" else 0)
        if node.kind != "cumulate" and not counts:
            found.slots.append(step(found, node, inputs))
            continue
        if len(inputs[0]) != 1:
            raise Remembers(node, "may get several events in one push, which have no order among the rows")
        if node.key is not None:
            raise Remembers(node, "keeps its state apart by a key of its own")
        found.slots.append([_positioned(out, node, *inputs[0]) if counts else _cumulated(out, node, *inputs[0])])
    return out


def _aggregate(out: Windowed, how: str, when: Expr, value: Expr, t: Type) -> Expr:
    for known in out.aggregates:
        if (known.how, known.when, known.value) == (how, when, value):
            return known.result
    result = n.var(len(out.variables), t)
    out.variables.append(result)
    out.aggregates.append(Aggregate(how, when, value, result))
    return result


def _position(out: Windowed, slot: Slot) -> Expr:
    """Which event of its key this is, from 1."""
    return _aggregate(out, "count", slot.when, TRUE, INT)


def _positioned(out: Windowed, node: Node, slot: Slot) -> Slot:
    assert node.k is not None
    position = _position(out, slot)
    if node.kind == "trim":
        chosen = n.lt(n.const(node.k), position)
    else:
        chosen = n.eq(n.binary("mod", position, n.const(node.k)), n.const(1 % node.k))
    return Slot(n.and_(slot.when, chosen), slot.leaves, slot.key)


def _cumulated(out: Windowed, node: Node, slot: Slot) -> Slot:
    if node.fn is None or node.fn.traced is None or node.type not in (INT, BOOL):
        raise _no_aggregate(node)
    last = n.var(-1, node.type)  # no variable of the slot's
    (whole,) = substitute(node.fn.traced.outputs, (last, *slot.leaves))
    form = _form(whole, last)
    if form is None:
        raise _no_aggregate(node)
    how, value = form
    start = n.const(conform(node.type, node.start))
    if how == "sum":
        if start.value != 0:
            value = n.ite(n.eq(_position(out, slot), n.const(1)), n.add(start, value), value)
        result = _aggregate(out, "sum", slot.when, value, INT)
    elif node.type == BOOL:
        so_far = _aggregate(out, "min" if how == "and" else "max", slot.when, value, BOOL)
        result = n.and_(start, so_far) if how == "and" else n.or_(start, so_far)
    else:
        so_far = _aggregate(out, how, slot.when, value, INT)
        better = n.lt(so_far, start) if how == "min" else n.lt(start, so_far)
        result = n.ite(better, so_far, start)
    return Slot(slot.when, (result,), slot.key)


def _no_aggregate(node: Node) -> Remembers:
    return Remembers(node, "is no running sum, count, minimum, maximum, 'and' or 'or' over whole numbers")


def _form(e: Expr, last: Expr) -> tuple[str, Expr] | None:
    """How the accumulator and a value that does not depend on it are joined, if it is one of the known ways."""
    if e.op in ("add", "and", "or") and e.type in (INT, BOOL):
        for mine, value in (e.args, e.args[::-1]):
            # `and` and `or` do not evaluate the second one for every event, so it must not fail.
            if mine is last and _free(value, last) and (e.op == "add" or not fails(value)):
                return {"add": "sum"}.get(e.op, e.op), value
    if e.op == "ite":
        return _some(e, last) or _extreme(e, last)
    return None


def _free(e: Expr, last: Expr) -> bool:
    return not any(part is last for part in walk(e))


def _some(e: Expr, last: Expr) -> tuple[str, Expr] | None:
    """A sum of some of the events: the others add 0."""
    c, yes, no = e.args
    for skipped, added, keeps in ((no, yes, c), (yes, no, n.not_(c))):
        inner = _form(added, last) if skipped is last and _free(c, last) else None
        if inner is not None and inner[0] == "sum":
            return "sum", n.ite(keeps, inner[1], n.const(0))
    return None


def _extreme(e: Expr, last: Expr) -> tuple[str, Expr] | None:
    """``v if v < last else last`` and its kin."""
    c, yes, no = e.args
    if c.op not in ("lt", "le") or e.type != INT or {c.args[0], c.args[1]} != {yes, no}:
        return None
    value = no if yes is last else yes
    if (yes is last) == (no is last) or not _free(value, last):
        return None
    return ("min" if yes is c.args[0] else "max"), value


# ---------------------------------------------------------------- the DataFrame


def windows_frame(job: Job, frame: AnyFrame) -> DataFrame:
    """A job on the user's DataFrame as window functions; ``pellucid.spark.api`` has asked :func:`why_not` before."""
    from pellucid.spark.frames import column_at
    from pellucid.spark.native.frames import leaves_of

    if job.late.sequence is not None:
        raise UsageError("native='windows' does not look for gaps in a sequence: leave native= or sequence= out")
    if job.late.policy != "fail":
        raise UsageError(
            f"native='windows' does not tell late or doubled rows apart: leave native= or late={job.late.policy!r} out"
        )
    schema = frame.raw.schema
    key, order = (
        [(name, column_at(schema, name)) for name, _ in part] for part in (frame.fields.key, frame.fields.order)
    )
    leaves, sure = leaves_of(frame)
    return window_frame(
        job.graph, frame.raw, leaves, key=key, order=order, outputs=[name for name, _ in job.outputs], nth=job.nth,
        ansi=True, sure=sure, tag=job.tag, kept={name for name, _ in job.kept},
    )  # fmt: skip


def window_frame(
    graph: Graph,
    df: DataFrame,
    leaves: Sequence[Column],
    *,
    key: Sequence[tuple[str, Column]],
    order: Sequence[tuple[str, Column]],
    outputs: Sequence[str] | None = None,
    nth: str | None = None,
    ansi: bool,
    sure: Sequence[bool] = (),
    tag: str | None = None,
    kept: Collection[str] | None = None,
) -> DataFrame:
    """The events of a pipeline by window functions over the rows of each key in order; key and order come out as well,
    or those in ``kept``.

    The other arguments are those of `pellucid.spark.native.stateless.frame`.  ``Remembers`` and ``NotNative`` say what
    does not go.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not ansi:
        raise NotNative("a running sum may overflow, which only fails with spark.sql.ansi.enabled")
    made = windowed(graph)
    first = [never_null(c, "key", name, df).alias(f"k{i}") for i, (name, c) in enumerate(key)]
    first += [never_null(c, "order", name, df).alias(f"o{i}") for i, (name, c) in enumerate(order)]
    df = df.select(*first, *[c.alias(f"v{i}") for i, c in enumerate(leaves)])
    keys, orders = [F.col(f"k{i}") for i in range(len(key))], [F.col(f"o{i}") for i in range(len(order))]
    rows = Window.partitionBy(*keys).orderBy(*orders)
    running = rows.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    variables = [F.col(f"v{v.value}") for v in made.variables]
    for a in made.aggregates:
        value = column(a.value, variables, ansi=ansi, raises=made.found.raises)
        value = (
            value if a.when is TRUE else F.when(column(a.when, variables, ansi=ansi, raises=made.found.raises), value)
        )
        df = df.withColumn(f"v{a.result.value}", getattr(F, a.how)(value).over(running))
    df = df.withColumn("again", F.lag(F.struct(*orders)).over(rows) == F.struct(*orders))
    text = "two rows of one key have this order: add a column to order= that tells them apart, or remove one of them"
    double = F.when(F.coalesce(F.col("again"), F.lit(False)), failure(text, BOOL)).otherwise(F.lit(False))
    certain = [*(sure or [False] * len(leaves)), *(a.sure for a in made.aggregates)]
    frame = Frame(
        made.found,
        made.variables,
        variables,
        outputs=outputs,
        ansi=ansi,
        sure=certain,
        tag=tag,
        checks=[(double, BOOL)],
    )
    named = zip([*keys, *orders], [*key, *order], strict=True)
    return frame.over(df, [c.alias(name) for c, (name, _) in named if kept is None or name in kept], nth)
