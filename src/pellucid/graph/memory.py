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

from typing import Any

from pellucid.errors import UsageError, option
from pellucid.expr.node import Expr, fails, var
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import FLOAT
from pellucid.graph.model import Graph, Node


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


def inner_key(graph: Graph) -> list[Expr] | None:
    """The key inside a pipeline that all its memory is kept apart by, over the source's leaves; None if there is none.

    >>> from pellucid import pipeline
    >>> by_parity = pipeline(lambda x: x.key_by(lambda v: v % 2).cumulate(lambda t, v: t + v, start=0), x=int)
    >>> inner_key(by_parity.graph)
    [v0 % 2]
    """
    if len(graph.sources) != 1 or any(node.key is None for node in remembering(graph)) or forgetting(graph):
        return None  # where keys are given up, it counts what comes of the other keys
    found: list[list[Expr]] = []
    source = graph.nodes[graph.sources[0]].type
    events: list[list[Expr] | None] = []  # each stream's event over the source's leaves, where that can be said
    for node in graph.nodes:
        before = [events[i] for i in node.inputs]
        if node.processor.inputs == "none":
            events.append([var(i, t) for i, (_, t) in enumerate(source.leaves())])
        elif node.processor.passes == "first":
            events.append(before[0])
        elif node.kind == "map" and node.fn is not None and node.fn.traced is not None and before[0] is not None:
            events.append(substitute(node.fn.traced.outputs, before[0]))
        else:
            events.append(None)
        if node.processor.keyed:
            if node.fn is None or node.fn.traced is None or before[0] is None:
                return None
            found.append(substitute(node.fn.traced.outputs, before[0]))
    if not found or any(other != found[0] for other in found) or any(fails(e) or e.type == FLOAT for e in found[0]):
        return None  # a key that fails on a row which a filter drops, and one that Spark would hash by its bits
    return found[0]


def refuse_timed(graph: Graph, who: str) -> None:
    """Refuse a pipeline by event time, in the name of a back-end that knows nothing of it.

    >>> from pellucid import pipeline
    >>> refuse_timed(pipeline(lambda x: x.at(lambda v: v, id="when"), x=int).graph, "a check")
    Traceback (most recent call last):
    pellucid.errors.UsageError: step 'when' (at v, ...) works by event time, which a check does not know yet: such a
    pipeline runs here, as p(data), p.trace(data), p.engine(), p.run_epochs(…) and pellucid run
    """
    node = next((node for node in graph.nodes if node.processor.timed), None)
    if node is not None:
        raise UsageError(
            f"{node.describe()} works by event time, which {who} does not know yet: such a pipeline runs here, as "
            "p(data), p.trace(data), p.engine(), p.run_epochs(…) and pellucid run"
        )
