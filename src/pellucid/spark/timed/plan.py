"""Which way a pipeline by event time goes on Spark, and what cannot go there.

Spark promises nothing about the order of rows, and the answers of timed steps do not depend on it.  A step that
remembers *by arrival* does; one behind a window, `as_of`, `lookup` or `dedup` does not, because what those put out
comes in the order of time, here and everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import UsageError, option
from pellucid.internal.data.tables.keep import keep_word
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.types import FLOAT
from pellucid.internal.graph.memory import forgetting, inner_keys, refuse_key, remembering
from pellucid.internal.graph.model import Graph, Node
from pellucid.spark.plan import SparkPlan, no_columns

#: The timed steps whose answers come when the clock moves, in the order of time.
IN_ORDER = ("tumbling", "sliding", "session", "as_of", "lookup", "dedup", "timers")


def choose_timed(
    graph: Graph, *, key: bool, order: bool, streaming: bool, ansi: bool, wide: bool, nan: bool, bad: bool
) -> SparkPlan:
    """The way for a pipeline by event time."""
    mode = "stream" if streaming else "batch"
    steps = _steps(graph)
    why = [f"{node.describe()} waits for the clock" for node in graph.nodes if node.processor.keeps == "times"][:3]
    why = why or [f"{node.describe()} gives times" for node in graph.nodes if node.kind == "at"][:3]

    def plan(way: str, *reasons: str, problem: str | None = None) -> SparkPlan:
        return SparkPlan(way, (*why, *reasons), problem, steps, timed=mode)

    problem = _problem(graph, key=key, order=order, bad=bad)
    if key:
        return plan("keys", problem=problem or (_no_clock(graph) if streaming else None))
    found = _inner(graph, ansi=ansi, wide=wide, nan=nan)
    if isinstance(found, str):
        return plan("one", f"it has no key, and {found}", problem=problem)
    reason = "all that it keeps is kept apart by the key of key_by"
    return plan("inner", reason, problem=problem or (_no_clock(graph) if streaming else None))


def _inner(graph: Graph, *, ansi: bool, wide: bool, nan: bool) -> str | None:
    """Why rows cannot be parted by the key that the pipeline makes itself; None if they can be."""
    keyed = [node for node in graph.nodes if node.processor.keyed]
    if not keyed:
        return "makes none itself (key_by)"
    found = inner_keys(graph)
    if found is None:
        return "its key_by does not keep apart all that it keeps, by one key of the rows as they come"
    if wide:
        return "a row of this DataFrame holds events of several sources, which may be of several keys"
    for i, keys in zip(graph.sources, found, strict=True):
        reason = no_columns(graph.nodes[i].type, keys, ansi=ansi)
        if reason is not None:
            return f"the key that key_by makes {reason}"
        if nan and any(part.op == "var" and part.type == FLOAT for e in keys for part in walk(e)):
            return "the key that key_by makes may come from a NaN, which Spark compares in its own way"
    return None


def _problem(graph: Graph, *, key: bool, order: bool, bad: bool) -> str | None:
    """What is wrong with the question, wherever it runs on Spark."""
    forgets = forgetting(graph)
    if forgets is not None:
        try:
            if key:
                refuse_key(graph)
        except UsageError as error:
            return str(error)
        return f"{forgets.describe()} begins keys anew after events of others, by arrival, and {_NO_ORDER}"
    node = by_arrival(graph)
    if node is not None and node.kind == "iterate":
        return (
            f"{node.describe()} takes rows one by one, in the order in which they arrive, and {_NO_ORDER}: say what an "
            "event's time is, with at: then all events of one time go round together, in an order of their own"
        )
    if order:
        return (
            f"{graph.name} works by event time: the order of rows is no part of its answers; leave {option('order')} "
            "out"
        )
    if bad:
        return f"{option('bad')} does not go with event time on Spark yet: leave bad rows out before"
    if node is not None:
        return (
            f"{node.describe()} remembers what arrives, in the order in which it arrives, and {_NO_ORDER}: put it "
            "behind a window or dedup, whose answers come by time, or inside a window"
        )
    return None


_NO_ORDER = "Spark promises nothing about the order of rows"


def by_arrival(graph: Graph) -> Node | None:
    """An ordinary step whose memory depends on the order in which rows arrive.

    >>> from pellucid import pipeline
    >>> add = lambda t, v: t + v
    >>> before = pipeline(lambda x: x.at(lambda v: v).cumulate(add, start=0, id="sum").tumbling(5, lambda w: w), x=int)
    >>> after = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w).decimate(2), x=int)
    >>> by_arrival(before.graph).id, by_arrival(after.graph)
    ('sum', None)
    """
    memory = {node.id for node in remembering(graph)}
    for i, node in enumerate(graph.nodes):
        if node.kind == "iterate" and graph.clocks[i] is None:
            return node
    lined: list[Any] = []  # the timed step in whose order the events of a stream come; None: by arrival, or mixed
    for i, node in enumerate(graph.nodes):
        before = {lined[j] for j in node.inputs}
        if node.kind in IN_ORDER or node.kind == "iterate":  # with times: others are out already
            lined.append(i)
        elif node.processor.timed or not before:
            lined.append(None)
        else:
            lined.append(before.pop() if len(before) == 1 else None)
            if node.id in memory and lined[-1] is None:
                return node
    return None


def _no_clock(graph: Graph) -> str | None:
    """Why the clock of a micro-batch cannot be known before its rows go to their buckets."""
    behind: list[bool] = []
    for node in graph.nodes:
        behind.append(node.processor.timed or any(behind[j] for j in node.inputs))
        if node.kind == "at" and any(behind[j] for j in node.inputs):
            return (
                f"{node.describe()} gives times to what another timed step puts out: on Spark the clock of a "
                "micro-batch must be known before that, from the rows as they come; make two pipelines of it, or leave "
                "the key out"
            )
    return None


def _steps(graph: Graph) -> tuple[tuple[str, str], ...]:
    """What becomes of each step."""
    memory, out = {node.id for node in remembering(graph)}, []
    for node in graph.nodes:
        if node.kind == "source":
            continue
        where = "in the engine of event time" if node.processor.timed else "in a fused kernel between timed steps"
        opaque = next((fn for fn in node.functions if fn.runs is None), None)
        how = f"called as Python for each event: {opaque.reason}" if opaque is not None else where
        out.append((node.id, f"{node.kind}: {how}{', keeps state' if node.id in memory else ''}"))
    return tuple(out)


def refuse_options(graph: Graph, given: Sequence[tuple[str, Any, Any]]) -> None:
    """Refuse what has no meaning for a pipeline by event time: options by name, as they are and as they would be if
    nothing had been said."""
    whys = {
        "nth": "a row that comes out is the answer of many rows, which no push numbers",
        "late": "what becomes of late events is said at the step (late='drop', or its stream .late)",
        "wait": "how late events may come is said at the step at, with lateness=",
        "sequence": "the order of rows is no part of its answers",
        "gaps": "the order of rows is no part of its answers",
        "keep": "an answer is of many rows; put the fields that you want into the events",
        "bad": "bad rows are not set aside there yet; leave them out before",
        "max_bad": "bad rows are not set aside there yet; leave them out before",
        "drop": "what a step keeps of its times cannot be given up yet; begin anew with a new state folder and a new "
        "checkpoint",
    }
    for name, value, default in given:
        if name in whys and value != default and (value or default):
            word = keep_word() if name == "keep" else option(name)
            raise UsageError(
                f"{graph.name} works by event time, and {word} does not go with that on Spark: {whys[name]}"
            )
