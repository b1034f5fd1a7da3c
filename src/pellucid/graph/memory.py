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

from pellucid.expr.node import Expr, fails, var
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import FLOAT
from pellucid.graph.model import Graph, Node

__all__ = ["inner_key", "remembering"]


def remembering(graph: Graph) -> list[Node]:
    """The steps that remember something."""
    out = []
    presence: list[Any] = []
    for node in graph.nodes:
        before = [presence[i] for i in node.inputs]
        if _remembers(node) or (node.queued and any(b != before[0] for b in before)):
            out.append(node)
            presence.append(node.id)
        else:
            presence.append(_presence(node, before))
    return out


def _remembers(node: Node) -> bool:
    if node.kind == "cumulate":
        return True
    if node.kind in ("decimate", "window"):
        return node.k != 1
    if node.kind == "trim":
        return node.k != 0
    return node.kind == "task" and not _constant_state(node)


def _constant_state(node: Node) -> bool:
    """Whether a task gives back the state it was given."""
    if node.fn is None or node.fn.traced is None or node.state is None:
        return False
    width = node.state.width
    kinds = [t for _, t in node.state.leaves()]
    return list(node.fn.traced.outputs[:width]) == [var(i, t) for i, t in enumerate(kinds)]


def _presence(node: Node, before: list[Any]) -> Any:
    """When the step puts out an event and under which key, as something to compare."""
    if node.kind == "key_by":
        assert node.fn is not None
        return (before[0], node.inputs, node.fn.digest)  # another key of the same events: they do not meet
    if node.kind in ("map", "apply", "decimate", "trim", "window"):
        # A window of one event may be silent, if what it holds is.
        return before[0] if node.kind != "window" else node.id
    return node.id


def inner_key(graph: Graph) -> list[Expr] | None:
    """The key inside a pipeline that all its memory is kept apart by, over the source's leaves; None if there is none.

    >>> from pellucid import pipeline
    >>> by_parity = pipeline(lambda x: x.key_by(lambda v: v % 2).cumulate(lambda t, v: t + v, start=0), x=int)
    >>> inner_key(by_parity.graph)
    [v0 % 2]
    """
    if len(graph.sources) != 1 or any(node.key is None for node in remembering(graph)):
        return None
    found: list[list[Expr]] = []
    source = graph.nodes[graph.sources[0]].type
    events: list[list[Expr] | None] = []  # each stream's event over the source's leaves, where that can be said
    for node in graph.nodes:
        before = [events[i] for i in node.inputs]
        if node.kind == "source":
            events.append([var(i, t) for i, (_, t) in enumerate(source.leaves())])
        elif node.kind in ("filter", "filter_by", "decimate", "trim", "key_by"):
            events.append(before[0])
        elif node.kind == "map" and node.fn is not None and node.fn.traced is not None and before[0] is not None:
            events.append(substitute(node.fn.traced.outputs, before[0]))
        else:
            events.append(None)
        if node.kind == "key_by":
            if node.fn is None or node.fn.traced is None or before[0] is None:
                return None
            found.append(substitute(node.fn.traced.outputs, before[0]))
    if not found or any(other != found[0] for other in found) or any(fails(e) or e.type == FLOAT for e in found[0]):
        return None  # a key that fails on a row which a filter drops, and one that Spark would hash by its bits
    return found[0]
