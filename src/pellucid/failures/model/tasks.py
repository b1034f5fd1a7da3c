"""A pipeline as tasks of the model: the user's real functions, one task for each processor or fused to fewer.

What a task does to an event is what `engine.interpreter` says, for every processor: the interpreter is the
oracle, and a task of the model calls its methods.  Between two steps a task's state is an immutable value (`freeze`),
so that a snapshot cannot be changed by a function that changes its argument.

A pipeline's meaning takes events push by push; a task of the model takes them one by one, from any input that has one.
So where a step puts together what comes from several streams, its order may depend on the schedule: a ``merge`` may
interleave in every way, and a keyed step with several inputs may serve its keys in another order.  A pipeline of one
source without such steps gives in every complete failure-free run exactly what it gives when it is called.

The paper's *f* does not know from which input its event came.  Where a step must know, events carry the name of their
stream: ``(stream, value)``.  Under ``key_by`` a value is ``Keyed(key, value)``.

>>> from pellucid import pipeline
>>> p = pipeline(lambda x: x.filter(lambda v: v > 1, id="big").cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
>>> model = tasks_of(p)
>>> model.tasks
{'big': TK⟨big, [x], big⟩, 'sum': TK⟨sum, [big], sum⟩}
>>> from pellucid.failures.model import gce, steps
>>> c = model.initial([[1, 2], [3]])
>>> while enabled := steps(c, failures=False):
...     c = enabled[-1][1]
>>> gce(c), model.results(c), p([1, 2, 3])
(2, {'out': [2, 5]}, [2, 5])
"""

from __future__ import annotations

import dataclasses
import enum
import math
import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import EV, Configuration, Map, Messages, Task, initial, out
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.tracing.purity import Witness, fickle_reason
from pellucid.internal.expr.types import conform
from pellucid.internal.graph.model import Graph, Node, refuse_timed

if TYPE_CHECKING:
    from pellucid.internal.pipeline import Pipeline


class Keyed(NamedTuple):
    """An event of a keyed stream."""

    key: Any
    value: Any


class Tagged(NamedTuple):
    """An event that says which stream of the pipeline it is of."""

    stream: str
    value: Any


@dataclasses.dataclass(frozen=True)
class TaskGraph:
    """The tasks of a pipeline, their initial states, and how to read their streams."""

    graph: Graph
    tasks: Mapping[str, Task]
    states: Mapping[str, Any]
    carries: Mapping[str, tuple[int, ...]]  # the pipeline's streams (positions) that a stream of the model carries
    tagged: frozenset[str]  # the streams whose events say which stream of the pipeline they are of
    outputs: Mapping[str, tuple[str, int]]  # each output: the stream of the model, and the position it shows

    def initial(self, inputs: Any) -> Configuration:
        """The initial configuration for an input: epochs of events, for each source by name if there are several.

        >>> from pellucid import pipeline
        >>> c = tasks_of(pipeline(lambda x: x + 1, x=int)).initial([[1], [2]])
        >>> sorted(str(m) for m in c.M)
        ['0 x ⟨1, EV(1)⟩', '1 x ⟨1, BD⟩', '2 x ⟨2, EV(2)⟩', '3 x ⟨2, BD⟩']
        """
        names = [self.graph.nodes[i].id for i in self.graph.sources]
        if not isinstance(inputs, Mapping):
            if len(names) != 1:
                raise UsageError(
                    f"{self.graph.name} has the sources {', '.join(names)}: give the epochs of each by name"
                )
            inputs = {names[0]: inputs}
        if set(inputs) != set(names):
            odd = sorted(set(inputs) ^ set(names))[0]
            known = (
                "no epochs are given" if odd in names else f"no such source: {self.graph.name} has {', '.join(names)}"
            )
            raise UsageError(f"source {odd!r}: {known}")
        return initial(self.tasks, {s: self._epochs(s, inputs[s]) for s in names}, self.states)

    def _epochs(self, source: str, epochs: Sequence[Sequence[Any]]) -> list[list[Any]]:
        node, done = self.graph[source], []
        for e, events in enumerate(epochs, 1):
            if not isinstance(events, Sequence) or isinstance(events, str):
                raise UsageError(f"source {source!r}, epoch {e}: expected a list of events, found {events!r}")
            try:
                values = [freeze(conform(node.type, w)) for w in events]
            except ValueError as error:
                raise DataError(f"source {source!r}, epoch {e}: {error}") from None
            done.append([Tagged(source, v) for v in values] if source in self.tagged else values)
        return done

    def results(self, c: Configuration) -> dict[str, list[Any]]:
        """The committed events of each output, in their order: what ``out`` shows of it."""
        return self.read(out(c))

    def read(self, messages: Messages) -> dict[str, list[Any]]:
        """The events of each output among these messages, in their order."""
        found: dict[str, list[Any]] = {name: [] for name in self.outputs}
        for m in sorted(messages, key=lambda m: m.n):
            for name, (stream, position) in self.outputs.items():
                if m.s == stream and isinstance(m.d, EV):
                    at, _, value = _decode(self.graph, m.d.w, position)
                    found[name] += [thaw(value)] if at == position else []
        return found


def tasks_of(p: Pipeline | Graph, *, fuse: bool | Mapping[str, Sequence[str]] = False) -> TaskGraph:
    """The tasks of a pipeline: one for each processor; with ``fuse=True`` one for all; or groups of steps by name.

    An output that is a source as it came gets a task that passes it on: only tasks commit.

    >>> from pellucid import pipeline
    >>> steps = lambda x: x.map(lambda v: v + 1, id="inc").map(lambda v: 2 * v, id="twice").trim(1, id="rest")
    >>> tasks_of(pipeline(steps, x=int), fuse={"both": ["inc", "twice"]}).tasks
    {'both': TK⟨both, [x], both⟩, 'rest': TK⟨rest, [both], rest⟩}
    """
    graph = p if isinstance(p, Graph) else p.graph
    refuse_timed(graph, "the model of failures")
    groups = _groups(graph, fuse)
    home = {i: name for name, members in groups.items() for i in members}
    named = {i for _, i in graph.outputs}
    carries: dict[str, tuple[int, ...]] = {graph.nodes[i].id: (i,) for i in graph.sources}
    for name, members in groups.items():  # what others read of a group, or an output shows
        shown = [i for i in members if i in named or any(home[reader] != name for reader, _ in graph.readers(i))]
        carries[name] = tuple(shown or members[-1:])
    inputs = {
        name: tuple(
            dict.fromkeys(
                home.get(j, graph.nodes[j].id) for i in members for j in graph.nodes[i].inputs if j not in members
            )
        )
        for name, members in groups.items()
    }
    for name, i in graph.outputs:
        if i in graph.sources:
            passing = _free(name, carries)
            groups[passing], carries[passing], inputs[passing] = [], (i,), (graph.nodes[i].id,)
    tagged = {s for s, shown in carries.items() if len(shown) > 1}
    for name, members in groups.items():
        if len(inputs[name]) > 1 and not _plain_merge([graph.nodes[i] for i in members]):
            tagged |= set(inputs[name])
    outputs = {}
    for name, i in graph.outputs:
        stream = (
            home[i] if i in home else next(t for t, members in groups.items() if not members and carries[t] == (i,))
        )
        outputs[name] = (stream, i)
    made = TaskGraph(graph, {}, {}, carries, frozenset(tagged), outputs)
    start = {name: _save(Interpreter(graph), [graph.nodes[i] for i in members]) for name, members in groups.items()}
    tasks = {name: Task(_function(made, name, groups[name]), inputs[name], name) for name in groups}
    return dataclasses.replace(made, tasks=tasks, states=start)


def _groups(graph: Graph, fuse: bool | Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Which nodes each task has, in the graph's order."""
    steps = [i for i, node in enumerate(graph.nodes) if node.kind != "source"]
    if fuse is True:
        return {_free(graph.name, {n.id for n in graph.nodes}): steps} if steps else {}
    taken: dict[str, str] = {}
    for name, members in dict(fuse or {}).items():
        for step in members:
            if step not in graph.position or graph[step].kind == "source":
                raise UsageError(f"fuse {name!r}: {graph.name} has no step {step!r} that could be part of a task")
            if step in taken:
                raise UsageError(f"fuse: step {step!r} is in {taken[step]!r} and in {name!r}: put it into one")
            taken[step] = name
        if not members:
            raise UsageError(f"fuse {name!r}: a task needs at least one step")
        if name in graph.position and name not in members:
            raise UsageError(f"fuse {name!r}: a step is called so; give the task another name")
    groups: dict[str, list[int]] = {}
    for i in steps:
        groups.setdefault(taken.get(graph.nodes[i].id, graph.nodes[i].id), []).append(i)
    return groups


def _plain_merge(nodes: Sequence[Node]) -> bool:
    """Whether a task only passes on what comes, so that it need not know from where."""
    return (
        len(nodes) == 1 and nodes[0].processor.inputs == "apart" and len(set(nodes[0].inputs)) == len(nodes[0].inputs)
    )


def _free(name: str, taken: Any) -> str:
    while name in taken:
        name += "'"
    return name


# ---------------------------------------------------------------- one task's function


def _function(made: TaskGraph, name: str, members: Sequence[int]) -> Callable[[Any, Any], tuple[Any, list[Any]]]:
    """f(v, w): what the interpreter does with one event in a push of its own."""
    graph, shown = made.graph, made.carries[name]
    watched: list[tuple[str, Witness]] = []
    nodes = [(i, _watched(graph.nodes[i], watched)) for i in members]
    outside = tuple(dict.fromkeys(j for _, node in nodes for j in node.inputs if j not in members)) or shown

    def f(v: Any, w: Any) -> tuple[Any, list[Any]]:
        run = Interpreter(graph)
        _load(run, v)
        at, key, value = _decode(graph, w, outside[0])
        streams: dict[int, list[tuple[Any, Any]]] = {j: [(key, thaw(value))] if j == at else [] for j in outside}
        for i, node in nodes:
            streams[i] = run.step(node, [streams[j] for j in node.inputs])
        outputs: list[Any] = []
        for i in shown:
            node = graph.nodes[i]
            values = [freeze(value if node.key is None else Keyed(key, value)) for key, value in streams[i]]
            outputs += [Tagged(node.id, value) for value in values] if name in made.tagged else values
        return _save(run, [node for _, node in nodes]), outputs

    f.__name__ = f.__qualname__ = name
    f.watched = watched  # type: ignore[attr-defined] # who asks whether f is a function of its state and its event
    return f


class _Watched(Function):
    """A function that is called and not traced, with the witness of its calls."""

    witness: Witness

    def call(self, *args: Any) -> Any:
        return self.conformed(self.called(self.witness.call, args))


def _watched(node: Node, watched: list[tuple[str, Witness]]) -> Node:
    """The node with witnesses of its opaque functions, by their names; also inside a window."""

    def watch(fn: Function | None) -> Function | None:
        if fn is None or fn.traced is not None:
            return fn
        made = _Watched(**{field.name: getattr(fn, field.name) for field in dataclasses.fields(fn)})
        fickle = [str(fn.reason)] if fickle_reason(fn.reason) else []
        object.__setattr__(made, "witness", Witness(fn.plain, fickle=fickle))
        watched.append((f"{node.describe()}: {fn.name}", made.witness))
        return made

    if node.sub is not None:
        inside = tuple(_watched(step, watched) for step in node.sub.nodes)
        node = dataclasses.replace(node, sub=dataclasses.replace(node.sub, nodes=inside))
    return dataclasses.replace(node, fn=watch(node.fn))


def _decode(graph: Graph, w: Any, untagged: int) -> tuple[int, Any, Any]:
    """The position of the pipeline's stream that an event is of, its key and its value."""
    at, value = (graph.position[w.stream], w.value) if isinstance(w, Tagged) else (untagged, w)
    if graph.nodes[at].key is None:
        return at, None, value
    return at, value.key, value.value


def _save(run: Interpreter, nodes: Sequence[Node]) -> Map[str, Any]:
    """What the interpreter remembers of these nodes, as one value; queues that are empty are as if they had never
    been."""
    saved: dict[str, Any] = {}
    for node in nodes:
        kept = run.state[node.id]
        waiting = {key: queues for key, queues in run._waiting.get(node.id, {}).items() if any(queues)}
        if kept:
            saved[node.id] = Map({freeze(key): freeze(value) for key, value in kept.items()})
        elif waiting:
            saved[node.id] = Map(
                {freeze(k): tuple(tuple(map(freeze, q)) for q in queues) for k, queues in waiting.items()}
            )
    return Map(saved)


def _load(run: Interpreter, saved: Map[str, Any]) -> None:
    for id, kept in saved.items():
        if id in run._waiting:
            run._waiting[id] = {thaw(k): [deque(map(thaw, q)) for q in queues] for k, queues in kept.items()}
        else:
            run.state[id] = {thaw(key): thaw(value) for key, value in kept.items()}


# ---------------------------------------------------------------- states as values


class Frozen(NamedTuple):
    """A thing that can be changed, as a value: what it was, and its parts; one that is pickled is shown as it was.

    >>> import datetime
    >>> (freeze(datetime.date(2013, 1, 1)), 1)
    (datetime.date(2013, 1, 1), 1)
    """

    kind: str
    parts: Any

    def __repr__(self) -> str:
        if self.kind == "pickle":
            return repr(pickle.loads(self.parts))
        return f"Frozen(kind={self.kind!r}, parts={self.parts!r})"


_ATOMS = (bool, int, str, bytes, type(None), enum.Enum)


def freeze(value: Any) -> Any:
    """A value that can be hashed and not be changed, from which `thaw` makes the same thing again.

    Every NaN becomes the same one, so that a state equals itself.  An object of a class of one's own is kept by its
    fields or, if it has others ways, pickled.

    >>> freeze([1, {"a": 2}])
    Frozen(kind='list', parts=(1, Frozen(kind='dict', parts=(('a', 2),))))
    >>> thaw(freeze([1, {"a": 2}]))
    [1, {'a': 2}]
    """
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value
    if isinstance(value, _ATOMS):
        return value
    kind = type(value)
    if isinstance(value, tuple):
        parts = [freeze(v) for v in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if kind in (list, deque):
        return Frozen(kind.__name__, tuple(map(freeze, value)))
    if kind is dict:
        return Frozen("dict", tuple((freeze(k), freeze(v)) for k, v in value.items()))
    if kind is set:
        return Frozen("set", frozenset(map(freeze, value)))
    if kind is frozenset:
        return frozenset(map(freeze, value))
    if dataclasses.is_dataclass(value) and kind.__dataclass_params__.frozen:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        if all(freeze(v) is v for v in fields.values()):
            return value
    try:
        return Frozen("pickle", pickle.dumps(value))
    except Exception as error:
        raise UsageError(
            f"a state of type {kind.__name__} can be neither hashed nor pickled ({error}): "
            "keep a task's state in numbers, texts, tuples, lists, dicts or frozen dataclasses"
        ) from None


def thaw(value: Any) -> Any:
    """The thing that was frozen: a fresh one each time.

    >>> frozen = freeze([1, 2])
    >>> thaw(frozen), thaw(frozen) is thaw(frozen)
    ([1, 2], False)
    """
    if isinstance(value, Frozen):
        match value.kind:
            case "list":
                return [thaw(v) for v in value.parts]
            case "deque":
                return deque(map(thaw, value.parts))
            case "dict":
                return {thaw(k): thaw(v) for k, v in value.parts}
            case "set":
                return {thaw(v) for v in value.parts}
        return pickle.loads(value.parts)
    if isinstance(value, tuple):
        parts = [thaw(v) for v in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(type(value), "_fields") else tuple(parts)
    return frozenset(map(thaw, value)) if isinstance(value, frozenset) else value
