"""What is checked: a pipeline or a bare graph of tasks, with an input that is given or made up.

Made-up events are all different where their type allows it, so that an event that is lost, doubled or late can be told
from the others: integers count from 1, texts are a, b, c, …, truth values and enums go round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.errors import UsageError
from pellucid.failures.checker.rules import sink_streams
from pellucid.failures.model import Configuration, valid_initial
from pellucid.failures.model.tasks import TaskGraph, tasks_of
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type
from pellucid.internal.graph.model import Graph


def configuration_of(
    p: Any, epochs: int, events: int, inputs: Any, fuse: bool | Mapping[str, Sequence[str]] = False
) -> tuple[Configuration, tuple[str, ...]]:
    """The initial configuration, and the streams that sinks read.

    >>> from pellucid import pipeline
    >>> c, sinks = configuration_of(pipeline(lambda x: x + 1, x=int), 1, 2, None)
    >>> sorted(str(m) for m in c.M), len(sinks)
    (['0 x ⟨1, EV(1)⟩', '1 x ⟨1, EV(2)⟩', '2 x ⟨1, BD⟩'], 1)
    """
    if isinstance(p, Configuration):
        if inputs is not None:
            raise UsageError("inputs= is for pipelines: a configuration has its input already")
        valid_initial(p)
        return p, sink_streams(p)
    if not isinstance(fuse, bool | Mapping):
        raise UsageError(f"fuse= takes True or a dict from names of tasks to steps, found {fuse!r}")
    if not isinstance(inputs, list | tuple | Mapping | None):
        raise UsageError(f"inputs= takes a list of epochs, or a dict of them by source, found {inputs!r}")
    if isinstance(p, TaskGraph):
        model = p
    elif isinstance(p, Graph) or hasattr(p, "graph"):
        model = tasks_of(p, fuse=fuse)
    else:
        raise UsageError(f"check.failures takes a pipeline or an initial configuration of tasks, found {p!r}")
    if inputs is None:
        sources = [model.graph.nodes[i] for i in model.graph.sources]
        many = epochs * events
        inputs = {}
        for at, node in enumerate(sources):
            values = [made_up(node.type, at * many + k) for k in range(many)]
            inputs[node.id] = [values[e * events : (e + 1) * events] for e in range(epochs)]
    sinks = tuple(dict.fromkeys(stream for stream, _ in model.outputs.values()))
    return model.initial(inputs), sinks


def made_up(t: Type, k: int) -> Any:
    """The k-th event of a type.

    >>> [made_up(INT, 0), made_up(FLOAT, 1), made_up(STR, 2), made_up(BOOL, 3)]
    [1, 2.0, 'c', False]
    """
    return t.event([_leaf(kind, k) for _, kind in t.leaves()])


def _leaf(kind: Type, k: int) -> Any:
    if isinstance(kind, EnumType):
        return kind.members[k % len(kind.members)]
    if kind == BOOL:
        return k % 2 == 0
    if kind == STR:
        return "abcdefghijklmnopqrstuvwxyz"[k % 26] + (str(k // 26) if k >= 26 else "")
    if kind == FLOAT:
        return float(k + 1)
    assert kind == INT
    return k + 1
