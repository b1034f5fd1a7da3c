"""The literal interpreter beside a system: what every stream carried, and the system's own variables read off its
state.

Nothing here is computed from the system's expressions: they are what is held to account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.variable import Variable
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.graph.model import Graph, Node

Reader = Callable[["LiteralRun"], Any]


class LiteralRun(Interpreter):
    """An interpreter that keeps what every stream carried in the last push; ``lost.STEP`` in a push makes that stream
    lose its events.

    >>> from pellucid import pipeline
    >>> run = LiteralRun(pipeline(lambda x: x.decimate(2), x=int).graph)
    >>> run.observe({"x": 7})["out"], run.observe({"x": 8})["out"]
    ([7], [])
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        steps, outputs = {node.id: i for i, node in enumerate(graph.nodes)}, dict(graph.outputs)
        self._names = steps | {f"{HIDDEN}{id}": i for id, i in steps.items() if outputs.get(id, i) != i} | outputs

    def observe(self, push: Mapping[str, Any]) -> dict[str, list[Any]]:
        """One push; the events of every stream, by the ids of steps and the names of outputs, as `System.streams` has
        them."""
        lost = {key[5:] for key in push if key.startswith("lost.")}
        streams: list[list[tuple[Any, Any]]] = []
        for node in self.graph.nodes:
            if node.kind == "source":
                made = [(None, self._event(node, push[node.id]))] if node.id in push else []
            else:
                made = self.step(node, [streams[i] for i in node.inputs])
            streams.append([] if node.id in lost else made)
        self.pushed += 1
        self.give_up()
        return {name: [value for _, value in streams[i]] for name, i in self._names.items()}


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two events have the same leaves: a float is itself also where it is NaN, and 0.0 is not -0.0.

    >>> same((1, float("nan")), (1, float("nan"))), same((0.0,), (-0.0,)), same((2,), (3,))
    (True, False, False)
    """
    if a == b:
        return 0 not in a or repr(a) == repr(b) or all(_same(x, y) for x, y in zip(a, b, strict=True))
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(x: Any, y: Any) -> bool:
    return repr(x) == repr(y) if isinstance(x, float) and isinstance(y, float) else bool(x == y)


def state_readers(system: System) -> list[tuple[int, Variable, Reader]]:
    """For each variable of the state that an interpreter has as well: its number, and how it is read off there.

    What an interpreter does not have is left out: history that a question adds, and states by key.
    """
    graph = system.graph
    if graph is None:
        return []
    nodes = {node.id: node for node in graph.nodes}
    queues = {id: (graph.nodes[i], at) for id, i, at in graph.queues()}
    out = []
    for i, v in enumerate(system.state):
        reader = None
        if v.role in ("length", "item") and v.of in queues:
            node, at = queues[v.of]
            reader = _of_queue(v, node, at)
        elif v.role in ("state", "count", "event") and v.of in nodes:
            reader = _of_step(v, nodes[v.of])
        if reader is not None:
            out.append((i, v, reader))
    return out


def _of_queue(v: Variable, node: Node, at: int) -> Reader | None:
    if node.key is not None:
        return None

    def waiting(run: LiteralRun) -> Sequence[Any]:
        held: Sequence[Any] = run._waiting[node.id].get(None, [()] * len(node.inputs))[at]
        return held

    if v.role == "length":
        return lambda run: len(waiting(run))
    place, leaf = map(int, v.name.rsplit(".", 2)[-2:])
    t = run_type(node, at)

    def item(run: LiteralRun) -> Any:
        held = waiting(run)
        return t(run, held[place])[leaf] if place < len(held) else _ABSENT

    return item


def run_type(node: Node, at: int) -> Callable[[LiteralRun, Any], tuple[Any, ...]]:
    """The leaves of an event in a queue of this step."""
    return lambda run, event: run.graph.nodes[node.inputs[at]].type.flatten(event)


_ABSENT: Any = object()  # a place of a queue or window in which nothing stands: the system may have anything there


def is_absent(value: Any) -> bool:
    """Whether the interpreter has nothing in this place."""
    return value is _ABSENT


def _of_step(v: Variable, node: Node) -> Reader | None:
    if node.key is not None or not v.name.startswith(f"{node.id}:"):
        return None
    label, k = v.name[len(node.id) + 1 :], node.k
    p = node.processor
    if v.role == "state" and node.state is not None and p.starts:
        t = node.state
        labels = [f"state.{path}" if path else "state" for path, _ in t.leaves()]
        if label not in labels:
            return None
        at = labels.index(label)
        return lambda run: t.flatten(run.state[node.id].get(None, node.start))[at]
    if v.role == "count" and k is not None and p.counted is not None:
        left = p.counted
        return lambda run: left(run.state[node.id].get(None, 0), k)
    if v.role == "count" and p.keeps == "events":
        return lambda run: min(len(run.state[node.id].get(None, ())), node.earlier)
    if v.role == "event" and p.keeps == "events":
        place, leaf = map(int, label.removeprefix("event").split("."))
        leaves = run_type(node, 0)

        def event(run: LiteralRun) -> Any:
            kept = run.state[node.id].get(None, ())[-node.earlier :]
            return leaves(run, kept[place])[leaf] if place < len(kept) else _ABSENT

        return event
    return None
