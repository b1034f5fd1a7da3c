"""What a pipeline remembers: which steps keep something from one push to the next, and by which key.

A step that waits for its inputs remembers nothing if they always come together; that is so if they come from one stream
through steps that let the same events through, and put them under the same key.

>>> from pellucid import pipeline
>>> [node.kind for node in remembering(pipeline(lambda x: (x + 1) * x, x=int).graph)]
[]
>>> [node.kind for node in remembering(pipeline(lambda x: x.filter(lambda v: v > 0) * x, x=int).graph)]
['apply']
>>> apart = pipeline(lambda x: x.key_by(lambda v: v % 2) + x.key_by(lambda v: v % 3), x=int)
>>> [node.kind for node in remembering(apart.graph)]
['apply']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import UsageError, option
from pellucid.internal.expr.node import Expr, fails, var
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import FLOAT, RecordType
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import Late, Windowed


def remembering(graph: Graph) -> list[Node]:
    """The steps that remember something."""
    when = presence(graph)
    return [n for n in graph.nodes if remembers(n) or (n.queued and len({when[i] for i in n.inputs}) > 1)]


def presence(graph: Graph) -> list[Any]:
    """When each stream has an event and under which key, as something to compare: equal ones always come together.

    >>> from pellucid import pipeline
    >>> presence(pipeline(lambda x: (x + 1, x.cumulate(max, start=0), x.trim(0), x.trim(1, id="rest")), x=int).graph)
    ['x', 'x', 'x', 'x', 'rest']
    """
    out: list[Any] = []
    for node in graph.nodes:
        p, before = node.processor, {out[i] for i in node.inputs}
        # A window of one event may be silent, if what it holds is.
        same = p.puts == "each" or (p.idle is not None and node.k == p.idle and node.sub is None)
        if p.keyed:  # another key of the same events: they do not meet
            assert node.fn is not None
            out.append((*before, node.inputs, node.fn.digest, node.k))
        else:
            out.append(before.pop() if same and len(before) == 1 and p.inputs != "apart" else node.id)
    return out


def remembers(node: Node) -> bool:
    """Whether it keeps something by itself, besides events that wait."""
    p = node.processor
    if p.idle is not None:
        return node.k != p.idle
    return bool(p.keeps) and not (p.keeps == "state" and _constant_state(node))


def _constant_state(node: Node) -> bool:
    """Whether a task gives back the state it was given."""
    if node.fn is None or node.fn.traced is None or node.state is None:
        return False
    width = node.state.width
    kinds = [t for _, t in node.state.leaves()]
    return list(node.fn.traced.outputs[:width]) == [var(i, t) for i, t in enumerate(kinds)]


def forgetting(graph: Graph) -> Node | None:
    """A step that gives up keys, if there is one."""
    return next((node for node in graph.nodes if node.processor.forgets), None)


def refuse_key(graph: Graph) -> None:
    """Refuse a key that comes with the data where a step gives up keys: it counts the events of the whole stream."""
    node = forgetting(graph)
    if node is not None:
        raise UsageError(
            f"{node.describe()} counts the events of the whole stream, and with {option('key')} the pipeline runs once "
            f"for each key, which sees no other's: leave {option('key')} out, and make the key inside, with key_by"
        )


def refuse_answer_names(graph: Graph, key: Sequence[str]) -> None:
    """Refuse a key that comes with the data if answers by event time have a column of its name that is something else:
    the key would be lost.

    >>> from pellucid import pipeline
    >>> refuse_answer_names(pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w), x=int).graph, ["start"])
    Traceback (most recent call last):
    pellucid.errors.UsageError: key='start': the answers of pipeline have a column 'start' of their own, and the key
    would be lost: rename the key's column
    """
    for _, i in graph.outputs:
        t = graph.nodes[i].type
        if isinstance(t, RecordType) and t.cls in (Windowed, Late):
            for name in key:
                if name in [field for field, _ in t.fields]:
                    raise UsageError(
                        f"{option('key', name)}: the answers of {graph.name} have a column {name!r} of their own, and "
                        "the key would be lost: rename the key's column"
                    )


def inner_key(graph: Graph) -> list[Expr] | None:
    """The key inside a pipeline that all its memory is kept apart by, over the source's leaves; None if there is none.

    >>> from pellucid import pipeline
    >>> by_parity = pipeline(lambda x: x.key_by(lambda v: v % 2).cumulate(lambda t, v: t + v, start=0), x=int)
    >>> inner_key(by_parity.graph)
    [v0 % 2]
    """
    found = inner_keys(graph) if len(graph.sources) == 1 else None
    return None if found is None else found[0]


def inner_keys(graph: Graph) -> list[list[Expr]] | None:
    """The same of several sources: for each the key of its events, over its own leaves.

    >>> from pellucid import join, pipeline
    >>> def near(x, y):
    ...     return join(x.at(lambda v: v).key_by(lambda v: v % 2), y.at(lambda v: v).key_by(lambda v: v % 3), within=5)
    >>> inner_keys(pipeline(near, x=int, y=int).graph)
    [[v0 % 2], [v0 % 3]]
    """
    if any(node.key is None for node in remembering(graph)) or forgetting(graph):
        return None  # where keys are given up, it counts what comes of the other keys
    found: dict[int, list[list[Expr]]] = {i: [] for i in graph.sources}
    events: list[list[Expr] | None] = []  # each stream's event over its source's leaves, where that can be said
    origin: list[int] = []  # and that source
    for i, node in enumerate(graph.nodes):
        before = [events[j] for j in node.inputs]
        origin.append(origin[node.inputs[0]] if node.inputs else i)
        if node.processor.inputs == "none":
            events.append([var(n, t) for n, (_, t) in enumerate(node.type.leaves())])
        elif node.processor.passes == "first":
            events.append(before[0])
        elif node.kind == "map" and node.fn is not None and node.fn.traced is not None and before[0] is not None:
            events.append(substitute(node.fn.traced.outputs, before[0]))
        else:
            events.append(None)
        if node.processor.keyed:
            if node.fn is None or node.fn.traced is None or before[0] is None:
                return None
            found[origin[i]].append(substitute(node.fn.traced.outputs, before[0]))
    keys = [made[0] if made else [] for made in found.values()]
    if any(not made or any(other != made[0] for other in made) for made in found.values()):
        return None
    if any([e.type for e in key] != [e.type for e in keys[0]] for key in keys):
        return None
    if any(fails(e) or e.type == FLOAT for key in keys for e in key):
        return None  # a key that fails on a row which a filter drops, and one that Spark would hash by its bits
    return keys


def why_cut(graph: Graph) -> str:
    """What makes a pipeline one that engines cut at its steps, for messages.

    >>> from pellucid import iterate, pipeline
    >>> why_cut(pipeline(lambda x: iterate(x, lambda v: v // 2), x=int).graph)
    'has a loop'
    >>> why_cut(pipeline(lambda x: x.at(lambda v: v), x=int).graph)
    'works by event time'
    """
    return "works by event time" if any(node.kind == "at" for node in graph.nodes) else "has a loop"


def refuse_timed(graph: Graph, who: str) -> None:
    """Refuse a pipeline by event time, or with a loop, in the name of a back-end that knows nothing of it.

    >>> from pellucid import pipeline
    >>> refuse_timed(pipeline(lambda x: x.at(lambda v: v, id="when"), x=int).graph, "a check")
    Traceback (most recent call last):
    pellucid.errors.UsageError: step 'when' (at v, ...) works by event time, which a check does not know yet: such a
    pipeline runs here, as p(data), p.trace(data), p.engine(), p.run_epochs(…) and pellucid run, and on Spark
    """
    _refuse(next((node for node in graph.nodes if node.processor.timed), None), who)


def refuse_loops(graph: Graph, who: str) -> None:
    """Refuse a pipeline with a loop in the name of who knows event time, but no loops."""
    _refuse(next((node for node in graph.nodes if node.kind == "iterate"), None), who)


def _refuse(node: Node | None, who: str) -> None:
    if node is not None:
        what = "is a loop" if node.kind == "iterate" else "works by event time"
        raise UsageError(
            f"{node.describe()} {what}, which {who} does not know yet: such a pipeline runs here, as "
            "p(data), p.trace(data), p.engine(), p.run_epochs(…) and pellucid run, and on Spark"
        )
