"""What a stream can be cut at: for each step that remembers, how a chunk of events changes what it remembers.

A chunk that starts in the middle of a stream is run rightly if every step starts from what it would remember there.  So
each step must be able to sum up a chunk *without knowing where it started*, and sums must combine:

=================  ============================================================================================
``trim``           the number of events that came
``decimate``       the same
``window`` of k    the last k-1 events that came; so of all that keep events: those that they look back on
``cumulate``       for each leaf of its value one associative fold of something that looks at the event alone
=================  ============================================================================================

The folds: ``t + v`` of ints; the least and the greatest; ``and`` and ``or``; ``& | ^``; the last value; none at all.
Each may be under a condition on the event.  A fold of ints is summed up in exact integers, so nothing overflows that
does not overflow in the stream itself.  Floats are compared but never added: a sum of floats depends on where it is
cut. What an event brings to a fold is its **term**; it is computed by the event's own function, so nothing here runs
a function that the stream would not run, on the same event.

A step behind another one that remembers gets its events only once that one starts rightly: it has a higher **level**,
and each level takes a pass of its own.

>>> from pellucid import pipeline
>>> p = pipeline(lambda x: x.trim(3).cumulate(lambda t, v: max(t, v), start=0), x=int)
>>> [(node.kind, reason) for node, reason in scannable(p.graph)]
[('trim', 'a count'), ('cumulate', 'an associative fold (max)')]
>>> scannable(pipeline(lambda x: x.cumulate(lambda t, v: t * 2 + v, start=0, id="hash"), x=int).graph)
"step 'hash' (cumulate t * 2 + v, ...): its function is no associative fold, such as t + v, max(t, v) or t and v"
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pellucid.errors import NotNamed
from pellucid.expr import node as n
from pellucid.expr.evaluate import evaluate_call
from pellucid.expr.function import Function
from pellucid.expr.node import Expr
from pellucid.expr.rewrite import substitute
from pellucid.expr.tracing.trace import Traced
from pellucid.expr.types import TupleType, Type
from pellucid.graph.folds import FoldPart, fold_of
from pellucid.graph.memory import refuse_timed, remembering
from pellucid.graph.model import Graph, Node

LARGEST_WINDOW = 100_000  # events: the last of every chunk are sent to every chunk


@dataclass(frozen=True)
class ScanStep:
    """A step that remembers, and how a chunk is summed up for it: ``count``, ``tail`` or ``fold``."""

    node: Node
    how: str
    parts: tuple[FoldPart, ...] = ()

    @property
    def reason(self) -> str:
        """Why the stream can be cut at this step, in words."""
        if self.how == "count":
            return "a count"
        if self.how == "tail":
            return f"the last {self.node.earlier} event{'s' if self.node.earlier != 1 else ''}"
        names = {"add": "sum", "band": "&", "bor": "|", "bxor": "^", "same": "no change"}
        return f"an associative fold ({', '.join(dict.fromkeys(names.get(p.op, p.op) for p in self.parts))})"


@dataclass(frozen=True)
class Cut:
    """The steps that remember, by level.  There is always a first level, if only to count the pushes of a chunk: a
    failure names its push by number."""

    graph: Graph
    levels: tuple[tuple[ScanStep, ...], ...]


def scannable(graph: Graph) -> list[tuple[Node, str]] | str:
    """For each step that remembers, why the stream can be cut there; or which step cannot be cut, and why."""
    found = cuts(graph)
    return found if isinstance(found, str) else [(s.node, s.reason) for level in found.levels for s in level]


def cuts(graph: Graph) -> Cut | str:
    """The steps that remember, by level, or a sentence that names one at which the stream cannot be cut."""
    refuse_timed(graph, "Spark")
    memory = {node.id for node in remembering(graph)}
    depth: list[int] = []
    opaque: list[tuple[Node, Function] | None] = []  # a function before or in a step that cannot be read
    clean: list[bool] = []  # whether the events are a source's own
    levels: list[list[ScanStep]] = [[]]
    for node in graph.nodes:
        remembers = node.id in memory
        below = max((depth[i] for i in node.inputs), default=0)
        before = next((opaque[i] for i in node.inputs if opaque[i] is not None), None)
        if remembers:
            step = _step(node, before, all(clean[i] for i in node.inputs))
            if isinstance(step, str):
                return f"{node.describe()}{step}"
            while len(levels) <= below:
                levels.append([])
            levels[below].append(step)
        depth.append(below + remembers)
        inside = [(node, node.fn)] if node.fn is not None and node.fn.traced is None else []
        inside += node.sub.opaque() if node.sub is not None else []
        opaque.append(before or (inside[0] if inside else None))
        handed = node.processor.passes or node.processor.inputs == "none"
        clean.append(bool(handed) and all(clean[i] for i in node.inputs))
    return Cut(graph, tuple(map(tuple, levels)))


def _step(node: Node, before: tuple[Node, Function] | None, clean: bool) -> ScanStep | str:
    """How a chunk is summed up for this step, or the rest of a sentence that says why it cannot be."""
    if node.key is not None:
        return " keeps one state for each key that the pipeline makes"
    if before is not None:
        at, fn = before
        return f" comes after {at.describe()}: {fn.name} {fn.reason}, and would be called more than once for an event"
    how = node.processor.cut
    if how == "count":
        return ScanStep(node, "count")
    if how == "tail":
        if node.earlier >= LARGEST_WINDOW:
            many = node.earlier + 1
            return f" has a window of {many:,} events, too many to send to every chunk (at most {LARGEST_WINDOW:,})"
        return ScanStep(node, "tail")
    if how != "fold":
        if not how:
            raise NotNamed(f"the scan does not know the processor {node.kind!r}: whether it can be cut is not said")
        return how
    assert node.fn is not None and node.state is not None
    if node.fn.traced is None:
        return f": {node.fn.name} {node.fn.reason}"
    states = node.state.width
    parts = []
    for i, e in enumerate(node.fn.traced.outputs):
        part = fold_of(e, i, states, clean=clean)
        if isinstance(part, str):
            return f": {part}"
        parts.append(part)
    return ScanStep(node, "fold", tuple(parts))


# ---------------------------------------------------------------- the graph of a level


def level_graph(cut: Cut, level: int) -> Graph:
    """The part of the graph that the steps of a level get their events from; its outputs are these steps' terms.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.trim(3, id="t").cumulate(lambda t, v: t + v * v, start=0, id="sum"), x=int)
    >>> print(level_graph(cuts(p.graph), 1))
    x: source → int
    t: trim(x; k=3) → int
    sum: map(t; FoldTerms) → (int,)
    sum = sum
    """
    graph, steps = cut.graph, cut.levels[level]
    needed = set(graph.sources)
    todo = [i for s in steps for i in s.node.inputs]
    while todo:
        at = todo.pop()
        if at not in needed:
            needed.add(at)
            todo += graph.nodes[at].inputs
    place = {at: i for i, at in enumerate(sorted(needed))}
    nodes = [replace(graph.nodes[at], inputs=tuple(place[i] for i in graph.nodes[at].inputs)) for at in sorted(needed)]
    outputs = []
    for step in steps:
        source = step.node.inputs[0]
        if step.how == "tail":
            outputs.append((step.node.id, place[source]))
        elif _leaves(step):
            outputs.append((step.node.id, len(nodes)))
            fn = _terms(step, graph.nodes[source].type)
            assert fn.result is not None
            # Under the step's own id: what fails here fails there.
            nodes.append(Node(step.node.id, "map", (place[source],), fn.result, fn, where=step.node.where))
    return Graph(graph.name, tuple(nodes), tuple(place[i] for i in graph.sources), tuple(outputs))


def _leaves(step: ScanStep) -> list[Expr]:
    """What is computed for each event: for each term, when it counts (unless always), and its value."""
    if step.how == "count":
        return [n.TRUE]
    return [e for p in step.parts for t in p.terms for e in ((t.value,) if t.when is n.TRUE else (t.when, t.value))]


class FoldTerms:
    """The terms of an event, as a plain function."""

    def __init__(self, traced: Traced) -> None:
        self.traced = traced

    def __call__(self, event: object) -> object:
        """The leaves, as a tuple."""
        return evaluate_call(self.traced, [event])


def _terms(step: ScanStep, event: Type) -> Function:
    states = step.node.state.width if step.node.state is not None and step.how == "fold" else 0
    own = [n.var(j, t) for j, (_, t) in enumerate(event.leaves())]
    exprs = substitute(_leaves(step), [n.const(0)] * states + own)
    result = TupleType(tuple(e.type for e in exprs))
    traced = Traced(
        (event,),
        result,
        tuple(exprs),
        raises=step.node.fn.traced.raises if step.node.fn and step.node.fn.traced else (),
    )
    return Function(FoldTerms(traced), (event,), result, None, False, traced, None)
