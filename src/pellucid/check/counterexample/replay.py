"""Counterexamples happen: the pushes are run on the interpreter and on the kernel engine before they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.functions.called import Fickle
from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Event, Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.types import conform
from pellucid.internal.graph.model import Graph, Node


@dataclass(frozen=True)
class StepView:
    """One push of a counterexample: what came in, what every stream carried, what waits after it.

    ``inputs`` has an entry for each source that is not silent; ``streams`` the events of every named stream (an empty
    list: silence); ``queues`` the contents of every queue after the push.
    """

    inputs: Mapping[str, Any]
    streams: Mapping[str, list[Any]] = field(default_factory=dict)
    queues: Mapping[str, list[Any]] = field(default_factory=dict)


class WatchedInterpreter(Interpreter):
    """An interpreter that remembers what every stream carried in the last push."""

    carried: dict[str, list[Any]]
    lost: frozenset[str] = frozenset()

    def push(self, events: Any = None, **more: Any) -> dict[str, list[Any]]:
        self.carried = {}
        given = {**(events or {}), **more}
        try:
            out = super().push(given)
        except StepError as error:
            refuse_undefined(error, f"step {error.step!r}" if error.step else self.graph.name)
            raise
        sources = [self.graph.nodes[i] for i in self.graph.sources]
        self.carried |= {node.id: [conform(node.type, given[node.id])] if node.id in given else [] for node in sources}
        return out

    def step(self, node: Node, inputs: Sequence[list[Event]]) -> list[Event]:
        out = super().step(node, inputs)  # it runs, and loses what it puts out
        out = [] if node.id in self.lost else out
        self.carried[node.id] = [value for _, value in out]
        return out


def _confirm(g: Graph, engine: Engine, names: list[str], push: dict[str, Any], out: dict[str, list[Any]]) -> None:
    """The kernel engine must do the same; if not, one of them is wrong, and no counterexample is shown."""
    got = engine.push(**{name: [push[name]] if name in push else [] for name in names})
    got = got if isinstance(got, dict) else {g.outputs[0][0]: got}
    called = [fn for _, fn in g.opaque()]
    if repr(got) != repr(out) and called:  # what it remembers has moved on between the two
        who = ", ".join(dict.fromkeys(fn.name for fn in called))
        raise Fickle(
            f"{g.name} puts out {out} and then {got} on the same events: {who} is no function of its arguments, so "
            "nothing is proved or refuted of it"
        )
    if repr(got) != repr(out):
        raise AssertionError(f"{g.name}: the interpreter puts out {out}, the kernel engine {got}")


def _called(g: Graph, *, alone: bool) -> dict[str, str]:
    """How sources and steps are shown whose name is that of another stream, an output."""
    kinds = {g.nodes[at].id: "source" for at in g.sources}
    taken = [
        name for name, at in g.outputs if name in g.position and g.position[name] != at and (alone or name not in kinds)
    ]
    return {name: f'{kinds.get(name, "step")}("{name}")' for name in taken}


def replay(graphs: Sequence[Graph], pushes: Sequence[dict[str, Any]]) -> tuple[StepView, ...]:
    """What really happens on these pushes: every stream and every queue, step by step.

    A pipeline that fails is silent from there on, and where all have the replay ends; the view of that push has the
    streams that were reached.  Of several graphs the names of steps and queues get the graph's place in front
    (``1:out``, ``2:out``), and the pushes name the sources of the first: the others have theirs in the same order.
    ``lost.STEP`` in a push makes that stream lose its events.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.trim(1, id="rest"), x=int)
    >>> [view.streams["rest"] for view in replay([p.graph], [{"x": 1}, {}, {"x": 2}])]
    [[], [], [2]]
    """
    runs = [WatchedInterpreter(g) for g in graphs]
    engines = [Engine(g, mode="python") for g in graphs]
    lossy = any(key.startswith("lost.") for push in pushes for key in push)  # an engine loses nothing
    views = []
    first = [graphs[0].nodes[at].id for at in graphs[0].sources]
    failed: set[int] = set()
    for push in pushes:
        if len(failed) == len(graphs):
            break
        shown = dict(push)
        streams: dict[str, list[Any]] = {}
        queues: dict[str, list[Any]] = {}
        for i, (g, run) in enumerate(zip(graphs, runs, strict=True), 1):
            mark = f"{i}:" if len(graphs) > 1 else ""
            names = [g.nodes[at].id for at in g.sources]
            called = _called(g, alone=len(graphs) == 1)
            if i > 1:
                given = {mine: push[name] for mine, name in zip(names, first, strict=True) if name in push}
                shown |= {name: event for name, event in given.items() if name not in first}
            else:
                given = {name: push[name] for name in names if name in push}
            streams |= {
                called.get(name, name): [given[name]] if name in given else []
                for name in names
                if i == 1 or name not in first
            }
            if i in failed:  # each fails for itself, and is silent from there on
                streams |= {f"{mark}{name}": [] for name, _ in g.outputs}
                continue
            run.lost = frozenset(key[5:] for key in push if key.startswith("lost."))
            try:
                out = run.push({name: event for name, event in given.items() if name not in run.lost})
            except StepError:
                out = {}
                failed.add(i)
            if i not in failed and not lossy:
                _confirm(g, engines[i - 1], names, given, out)
            streams |= {
                f"{mark}{called.get(id, id)}": list(values) for id, values in run.carried.items() if id not in names
            }
            streams |= {f"{mark}{name}": list(values) for name, values in out.items()}
            queues |= {f"{mark}{id}": list(values) for id, values in run.queues.items()}
        views.append(StepView(shown, streams, queues))
    return tuple(views)
