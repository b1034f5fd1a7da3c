"""Which way a pipeline goes on Spark, and why, in words.

========  =======================================================================================
way       what happens
========  =======================================================================================
native    ``Column`` expressions; no Python worker
rows      the kernel over Arrow batches, each row where it is: no shuffle
keys      repartition by key, sort by order, the kernel over Arrow batches
inner     the same, by the key that the pipeline makes itself (``key_by``)
one       one stream without keys, on one core
========  =======================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import UsageError, option
from pellucid.internal.data.cells import inner_type
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import FLOAT, DecimalType, ListType, TimeType, Type
from pellucid.internal.graph.model import Graph, Node, forgetting, inner_key, inner_keys, refuse_key, remembering
from pellucid.spark.column import why_not
from pellucid.spark.native import Remembers, front, slots


@dataclass(frozen=True)
class SparkPlan:
    """The chosen way, the reasons, and what is wrong with the question, if something is."""

    way: str
    reasons: tuple[str, ...] = ()
    problem: str | None = None
    steps: tuple[tuple[str, str], ...] = field(default=())  # (step, what becomes of it)
    timed: str = ""  # by event time, in a "batch" or a "stream"

    def __str__(self) -> str:
        what = f"{TIMED_WAYS[self.way]}; {TIMED_MODES[self.timed, self.way]}" if self.timed else WAYS[self.way]
        lines = [what, *(f"  because {r}" for r in self.reasons)]
        if self.problem is not None:
            lines.append(f"  but: {self.problem}")
        width = max((len(step) for step, _ in self.steps), default=0)
        return "\n".join([*lines, *(f"  {step:<{width}}  {what}" for step, what in self.steps)])


WAYS = {
    "native": "native: Spark's own expressions, no Python worker, no shuffle",
    "rows": "rows: the kernel inside Arrow batches, each row where it is, no shuffle",
    "keys": "keys: one shuffle by key, a sort by order within partitions, the kernel inside Arrow batches",
    "inner": "inner: one shuffle by the key that key_by makes, a sort by order, the kernel inside Arrow batches",
    "one": "one: one stream on one core: everything in one partition, sorted by order, through the kernel",
}


TIMED_WAYS = {
    "keys": "keys, by event time: one shuffle by key, no sort, the engine of event time inside Arrow batches",
    "inner": "inner, by event time: one shuffle by the key that key_by makes, no sort, the engine of event time inside "
    "Arrow batches",
    "one": "one, by event time: everything in one partition, the engine of event time inside Arrow batches",
}
_BATCH = "a batch has all its rows, so nothing is late, and every time is complete at its end"
_STREAM = "a micro-batch is judged by the clock at its beginning, which moves once, at its end"
TIMED_MODES = {
    **{("batch", way): _BATCH for way in TIMED_WAYS},
    **{("stream", way): f"{_STREAM}; the clock goes to every bucket as rows, before the shuffle" for way in TIMED_WAYS},
    ("stream", "one"): _STREAM,
}


def choose(
    graph: Graph,
    *,
    key: bool,
    order: bool,
    streaming: bool = False,
    native: str = "auto",
    ansi: bool = True,
    tagged: bool = False,
    nan: bool = False,
    bad: bool = False,
    wide: bool = False,
) -> SparkPlan:
    """The way for this pipeline on a DataFrame with or without a key and an order; ``nan``: NaN is a value; ``bad``:
    rows that fail are set aside, which only the kernel can do, one after the other; ``wide``: a row holds events of
    several sources."""
    if graph.timed:
        floats = nan and graph.reads_floats
        said = {"key": key, "order": order, "streaming": streaming, "ansi": ansi, "bad": bad}
        return choose_timed(graph, **said, wide=wide, nan=floats)
    memory, forgets = remembering(graph), forgetting(graph)
    if key and forgets is not None:
        try:
            refuse_key(graph)
        except UsageError as error:
            return SparkPlan("keys", (f"{forgets.describe()} counts events of all keys",), str(error))
    floats = nan and graph.reads_floats
    if bad:
        ways = "keys" if key or (not memory and not tagged) else "one"
        if not memory and not (tagged and order):
            return SparkPlan("rows", (_BAD,), steps=_steps(graph, []))
        if order:
            return SparkPlan(ways, (_BAD,), steps=_steps(graph, memory))
    if not memory:
        return _without_memory(graph, native, ansi, tagged, order, key, floats)
    if not order:
        node = memory[0]
        problem = (
            f"{graph.name} remembers something ({node.describe()}), and Spark promises nothing about the order of "
            f"rows: say which column orders them with {option('order')}, and with {option('key')} which rows belong "
            "together"
        )
        return SparkPlan("keys" if key else "one", (f"{node.describe()} remembers",), problem)
    steps = _steps(graph, memory, front(graph, ansi=ansi) if native == "auto" and not tagged and not floats else [])
    why = [f"{node.describe()} remembers" for node in memory[:3]]
    if key:
        return SparkPlan("keys", tuple(why), steps=steps)
    inner = inner_key(graph)
    sees_nan = floats and any(part.op == "var" and part.type == FLOAT for e in inner or () for part in walk(e))
    source = graph.nodes[graph.sources[0]].type
    if inner is not None and not sees_nan and no_columns(source, inner, ansi=ansi) is None:
        return SparkPlan("inner", ("all it remembers is kept apart by the key of key_by",), steps=steps)
    return SparkPlan("one", (*why, "the stream has no key"), steps=steps)


def no_columns(source: Type, exprs: Sequence[Expr], *, ansi: bool) -> str | None:
    """Why expressions over the leaves of a source are not computed by Spark; None if they are.

    >>> from datetime import date
    >>> from pellucid.internal.expr.node import var
    >>> from pellucid.internal.expr.types import INT, type_of
    >>> no_columns(type_of(tuple[int, date]), [var(1, INT)], ansi=True)
    "reads date, which Spark's expressions do not read exactly"
    """
    rich = [t for _, t in source.columns() for _ in range(t.width)]
    for e in exprs:
        reason = why_not(e, ansi=ansi)
        if reason is not None:
            return reason
        for leaf in (part for part in walk(e) if part.op == "var"):
            t = rich[leaf.value]
            if isinstance(inner_type(t), (TimeType, DecimalType, ListType)):
                return f"reads {t}, which Spark's expressions do not read exactly"
    return None


_BAD = "rows that are bad are set aside, which the kernel does one after the other"
_NAN = "a NaN may come in, and Spark finds it equal to itself and above all numbers"


def _without_memory(
    graph: Graph, native: str, ansi: bool, tagged: bool, order: bool, key: bool, floats: bool
) -> SparkPlan:
    if tagged and order:
        return SparkPlan(
            "keys" if key else "one", ("several sources are lined up by their order",), steps=_steps(graph, [])
        )
    if native == "off":
        return SparkPlan("rows", ("native='off' was asked for",), steps=_steps(graph, []))
    if floats:
        return SparkPlan("rows", ("it remembers nothing", _NAN), steps=_steps(graph, []))
    if tagged or len(graph.sources) > 1:
        return SparkPlan("rows", ("it has several sources",), steps=_steps(graph, []))
    reason = why_not_native(graph, ansi)
    if reason is not None:
        return SparkPlan("rows", ("it remembers nothing", reason), steps=_steps(graph, []))
    steps = tuple((n.id, f"{n.kind}: a Column expression") for n in graph.nodes if n.kind != "source")
    return SparkPlan("native", ("it remembers nothing, and every function has an exact equal in Spark",), steps=steps)


def why_not_native(graph: Graph, ansi: bool) -> str | None:
    """Why a pipeline that remembers nothing does not become Column expressions, or None."""
    for node, fn in graph.opaque():
        return f"{node.describe()}: {fn.name} {fn.reason}"
    try:
        for _, at in graph.outputs:
            for slot in slots(graph, at):
                for e in (slot.when, *slot.leaves):
                    reason = why_not(e, ansi=ansi)
                    if reason is not None:
                        return reason
    except Remembers as error:
        return str(error)
    return None


def _steps(graph: Graph, memory: list[Node], before: Sequence[Node] = ()) -> tuple[tuple[str, str], ...]:
    """What becomes of each step where the kernel runs."""
    out = []
    for node in graph.nodes:
        if node.kind == "source":
            continue
        if node in before:
            out.append((node.id, f"{node.kind}: a Column expression, before the shuffle"))
            continue
        opaque = node.fn is not None and node.fn.runs is None
        how = "called as Python for each event: " + str(node.fn.reason) if opaque and node.fn else "in the fused kernel"
        out.append((node.id, f"{node.kind}: {how}{', keeps state' if node in memory else ''}"))
    return tuple(out)


def explain(graph: Graph, *, key: bool | None, order: bool | None, streaming: bool, native: str) -> str:
    """The plan in words; for both cases where it was not said whether there is a key."""
    ordered = order is not False and not (graph.timed and order is None)  # event time needs none
    if not remembering(graph) or key is not None or order is not None:
        plan = choose(graph, key=bool(key), order=ordered, streaming=streaming, native=native)
        return f"{graph.name} on Spark\n{plan}"
    parts = []
    for with_key in (True, False):
        plan = choose(graph, key=with_key, order=ordered, streaming=streaming, native=native)
        parts.append(f"{'with' if with_key else 'without'} key=\n{plan}")
    return f"{graph.name} on Spark\n" + "\n".join(parts)


# Which way a pipeline by event time goes on Spark, and what cannot go there.
#
# Spark promises nothing about the order of rows, and the answers of timed steps do not depend on it.  A step that
# remembers *by arrival* does; one behind a window, `as_of`, `lookup` or `dedup` does not, because what those put out
# comes in the order of time, here and everywhere.

#: The timed steps whose answers come when the clock moves, in the order of time.
IN_ORDER = ("tumbling", "sliding", "session", "as_of", "lookup", "dedup", "timers")


def choose_timed(
    graph: Graph, *, key: bool, order: bool, streaming: bool, ansi: bool, wide: bool, nan: bool, bad: bool
) -> SparkPlan:
    """The way for a pipeline by event time."""
    mode = "stream" if streaming else "batch"
    steps = _steps_plan(graph)
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


def _steps_plan(graph: Graph) -> tuple[tuple[str, str], ...]:
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
