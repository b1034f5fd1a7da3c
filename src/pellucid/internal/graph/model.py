"""The graph: every engine, checker and picture is a function of it.

A graph is a list of **nodes** in an order in which a push can visit them.  A node is a processor with
one output stream, so a node's id names its step and its stream.  A fork is a stream that is used
twice.  A window holds the graph of its sub-pipeline.

>>> from pellucid import Stream, pipeline
>>> @pipeline
... def total(x: Stream[int]) -> Stream[int]:
...     return x.cumulate(lambda t, v: t + v, start=0, id="sum")
>>> print(total.graph)
x: source → int
sum: cumulate(x; t + v, start=0) → int
out = sum

What a pipeline remembers: which steps keep something from one push to the next, and by which key.

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

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pellucid.errors import CycleError, PipelineError, UsageError, option
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.identity import Identity, identity_of, sha
from pellucid.internal.expr.node import Expr, fails, var
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import FLOAT, ListType, RecordType, Type
from pellucid.internal.graph.processors import PROCESSORS, Processor
from pellucid.internal.graph.timing import Late, Timing, Windowed, clock_of, time_type


@dataclass(frozen=True)
class Node:
    """One processor and its output stream.  ``inputs`` are positions in the graph's nodes."""

    id: str
    kind: str
    inputs: tuple[int, ...]
    type: Type
    fn: Function | None = None
    k: int | None = None
    start: Any = None  # the start value of a cumulate, the initial state of a task
    state: Type | None = None  # its type; None for a task whose state is any Python object
    sub: Graph | None = None
    key: Type | None = None  # the type of the keys that keep its state apart
    where: str = ""  # the user's file and line
    timing: Timing | None = None  # what a timed step is given
    on_time: Function | None = None  # of a task that is notified of times: what it does then

    @property
    def processor(self) -> Processor:
        """What its kind is."""
        return PROCESSORS[self.kind]

    @property
    def queued(self) -> bool:
        """Whether the node waits for its inputs, so that it has a queue for each."""
        return self.processor.inputs == "together" and len(self.inputs) > 1

    @property
    def functions(self) -> tuple[Function, ...]:
        """Its own functions."""
        return tuple(fn for fn in (self.fn, self.on_time) if fn is not None)

    @property
    def starts(self) -> bool:
        """Whether it begins with a start value of the user's."""
        return self.processor.starts or self.on_time is not None

    @property
    def any_object(self) -> bool:
        """Whether its state is any Python object, not made of scalars."""
        return self.starts and self.state is None

    @property
    def earlier(self) -> int:
        """How many events before the present one it looks at, if it keeps its last events."""
        assert self.k is not None and self.processor.keeps == "events"
        return self.k + self.processor.beside - 1

    @property
    def beside(self) -> bool:
        """Whether it emits the elements of a list beside the event that they are from."""
        return self.fn is not None and isinstance(self.fn.result, ListType) and self.type != self.fn.result.item

    def describe(self) -> str:
        """The node for messages: its id, what it does and where it is written."""
        label = f"{self.kind} {self.fn}" if self.fn else self.kind
        return f"step {self.id!r} ({label}{', ' + self.where if self.where else ''})"


def key_of(kind: str, fn: Function | None, inputs: Sequence[Type | None], title: str) -> Type | None:
    """The type of the keys that a step's stream is under: made by ``key_by``, else that of the streams it reads.

    The one rule of keys, for streams while a pipeline is built and for every graph: so a graph's ``digest``, which
    covers kinds, functions and inputs, covers keys as well.

    >>> from pellucid.internal.expr.types import INT
    >>> print(key_of("cumulate", None, [INT], "total"))
    int
    >>> key_of("merge", None, [INT, None], "both")
    Traceback (most recent call last):
    pellucid.errors.PipelineError: both joins streams that are keyed differently: one by int, another by no key; use
    key_by on all of them with keys of one type
    """
    if PROCESSORS[kind].keyed:
        return fn.result if fn is not None else None
    first = inputs[0] if inputs else None
    for other in inputs:
        if other != first:
            raise PipelineError(
                f"{title} joins streams that are keyed differently: one by {first or 'no key'}, another by "
                f"{other or 'no key'}; use key_by on all of them with keys of one type"
            )
    return first


def forgotten_by(kind: str, own: Any, inputs: Sequence[Any], title: str) -> Any:
    """The ``forget`` that gives up the keys of a step's stream: its own, else that of the streams it reads; None if
    there is none.

    Each counts the events of its own stream, so under two of them a key is given up at different times: such streams do
    not meet.

    >>> forgotten_by("forget", 7, [None], "f"), forgotten_by("map", 8, [7], "m"), forgotten_by("key_by", 9, [7], "k")
    (7, 7, None)
    >>> forgotten_by("merge", 8, [7, None], "both")
    Traceback (most recent call last):
    pellucid.errors.PipelineError: both joins streams of which one gives up keys on its own (forget): write
    x.key_by(…).forget(after=…) once, and use that stream wherever its keys are meant
    """
    if PROCESSORS[kind].keyed:
        return own if PROCESSORS[kind].forgets else None
    first = inputs[0] if inputs else None
    if any(other != first for other in inputs):
        raise PipelineError(
            f"{title} joins streams of which one gives up keys on its own (forget): write x.key_by(…).forget(after=…) "
            "once, and use that stream wherever its keys are meant"
        )
    return first


@dataclass(frozen=True)
class Graph:
    """A pipeline as data: nodes in topological order, sources and named outputs by position."""

    name: str
    nodes: tuple[Node, ...]
    sources: tuple[int, ...]
    outputs: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for i, node in enumerate(self.nodes):
            if node.kind not in PROCESSORS:
                raise PipelineError(f"{self.name}: step {node.id!r}: no processor is called {node.kind!r}")
            if node.id in seen:
                raise PipelineError(
                    f"{self.name}: two steps are called {node.id!r}: give each its own id"
                    + (f" ({node.where})" if node.where else "")
                )
            seen.add(node.id)
            if any(j >= i or j < 0 for j in node.inputs):
                raise CycleError(f"{self.name}: {_cycle(self.nodes, i)}")
            key = key_of(node.kind, node.fn, [self.nodes[j].key for j in node.inputs], node.describe())
            if node.key != key:
                raise PipelineError(
                    f"{self.name}: {node.describe()} is declared to be keyed by {node.key or 'no key'}, but what "
                    f"it reads makes that {key or 'no key'}"
                )
        _ = self.forgotten_by, self.clocks  # refuse streams that do not meet

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """What engines have made of this graph, by the type of its key, for the next engine of it: kernels.  It stays
        here when the graph goes to another process."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "derived"}

    @cached_property
    def clocks(self) -> tuple[Type | None, ...]:
        """For each step the type of the times that its events have, None if they have none."""
        found: list[Type | None] = []
        for node in self.nodes:
            made = time_type(node.fn.result) if node.fn is not None else None
            found.append(clock_of(node.kind, made, [found[j] for j in node.inputs], node.describe()))
        return tuple(found)

    @cached_property
    def timed(self) -> bool:
        """Whether a step waits for event time."""
        return any(node.processor.timed for node in self.nodes)

    @cached_property
    def forgotten_by(self) -> tuple[int | None, ...]:
        """For each step the position of the ``forget`` that gives up its keys, None if none does."""
        found: list[int | None] = []
        for i, node in enumerate(self.nodes):
            found.append(forgotten_by(node.kind, i, [found[j] for j in node.inputs], node.describe()))
        return tuple(found)

    @cached_property
    def position(self) -> dict[str, int]:
        """Where each step stands."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    def __getitem__(self, step: str) -> Node:
        return self.nodes[self.position[step]]

    def readers(self, position: int) -> list[tuple[int, int]]:
        """Who reads a stream: pairs (node, which of its inputs)."""
        return [
            (i, at) for i, node in enumerate(self.nodes) for at, source in enumerate(node.inputs) if source == position
        ]

    def functions(self) -> Iterator[tuple[Node, Function]]:
        """Every function, also those inside windows."""
        for node in self.nodes:
            for fn in node.functions:
                yield node, fn
            if node.sub is not None:
                yield from node.sub.functions()

    def opaque(self) -> list[tuple[Node, Function]]:
        """The functions that could not be traced."""
        return [(node, fn) for node, fn in self.functions() if fn.traced is None]

    def plain(self) -> list[tuple[Node, Function]]:
        """The functions that engines call in plain Python, event by event: those that cannot be compiled."""
        return [(node, fn) for node, fn in self.functions() if fn.runs is None]

    def queues(self) -> list[tuple[str, int, int]]:
        """Every queue of this graph: (its id, the node, which input)."""
        return [
            (f"{node.id}.{at}", i, at)
            for i, node in enumerate(self.nodes)
            if node.queued
            for at in range(len(node.inputs))
        ]

    @property
    def reads_floats(self) -> bool:
        """Whether an event that comes in has a float in it, which may be NaN if a run says so."""
        return any(t == FLOAT for i in self.sources for _, t in self.nodes[i].type.leaves())

    @cached_property
    def digest(self) -> str:
        """Equal for graphs of equal meaning and equal ids, in any process; see `unseen` for what it cannot tell."""
        return self._digest(node_digest)

    @cached_property
    def shape(self) -> str:
        """The same without what opaque functions call and read: it can be asked for before all of that is there."""
        return self._digest(node_shape)

    def _digest(self, of: Callable[[Node, list[str]], str]) -> str:
        h = hashlib.sha256()
        for node in self.nodes:
            h.update(f"{node.id}|{of(node, [self.nodes[i].id for i in node.inputs])};".encode())
        h.update(repr([(name, self.nodes[i].id) for name, i in self.outputs]).encode())
        return h.hexdigest()

    @cached_property
    def reads(self) -> dict[str, Identity]:
        """What the opaque functions of each step call and read, and an initial state that is any Python object."""
        found = {node.id: reads_of(node) for node in self.nodes}
        return {step: identity for step, identity in found.items() if identity is not None}

    @property
    def unseen(self) -> dict[str, tuple[str, ...]]:
        """For each step, what its digest cannot tell: a change there makes no other digest."""
        return {step: identity.unseen for step, identity in self.reads.items() if identity.unseen}

    def __str__(self) -> str:
        lines = []
        for node in self.nodes:
            what = [str(node.fn)] if node.fn else []
            what += [f"k={node.k}"] if node.k is not None else []
            what += [f"on time {node.on_time}"] if node.on_time else []
            what += [f"start={node.start!r}"] if node.starts else []
            what += [f"over {node.sub.name}"] if node.sub else []
            what += [node.timing.words()] if node.timing is not None and node.timing.words() else []
            parts = ", ".join(self.nodes[i].id for i in node.inputs)
            inside = "; ".join(p for p in (parts, ", ".join(what)) if p)
            lines.append(f"{node.id}: {node.kind}{f'({inside})' if inside else ''} → {node.type}")
        lines += [f"{name} = {self.nodes[i].id}" for name, i in self.outputs]
        return "\n".join(lines)


def node_digest(node: Node, inputs: list[str]) -> str:
    """What a node does, and to which streams, as a text that any process agrees on."""
    start = _start(node).digest if node.any_object else repr(node.start)
    on_time = node.on_time.digest if node.on_time else None
    fn = node.fn.digest if node.fn else None
    return _mark(node, inputs, fn, start, node.sub.digest if node.sub else None, on_time)


def node_shape(node: Node, inputs: list[str]) -> str:
    """The same without what opaque functions call and read: what a step without an id is named after."""
    start = type(node.start).__qualname__ if node.any_object else repr(node.start)
    on_time = node.on_time.shape if node.on_time else None
    fn = node.fn.shape if node.fn else None
    return _mark(node, inputs, fn, start, node.sub.shape if node.sub else None, on_time)


def _mark(node: Node, inputs: list[str], fn: str | None, start: str, sub: str | None, on_time: str | None) -> str:
    # The type of a key: of a traced function its digest has it, and of every other step its inputs.
    key = [str(node.key)] if node.processor.keyed and node.fn is not None and node.fn.traced is None else []
    told = [str(node.timing)] if node.timing is not None else []
    told += [on_time] if on_time is not None else []
    what = (node.kind, inputs, str(node.type), fn, node.k, start, str(node.state), sub, *key, *told)
    return hashlib.sha256(repr(what).encode()).hexdigest()


def reads_of(node: Node) -> Identity | None:
    """What the opaque functions of a step call and read; None if it has none."""
    found = [fn.identity for _, fn in node.sub.opaque()] if node.sub is not None else []
    found += [fn.identity for fn in node.functions if fn.traced is None]
    found += [_start(node)] if node.any_object else []
    if not found:
        return None
    parts: dict[str, str] = {}
    for identity in found:
        for name, mark in identity.parts.items():
            parts[name] = mark if parts.get(name, mark) == mark else sha(parts[name], mark)[: len(mark)]
    return Identity(parts, tuple(sorted({what for identity in found for what in identity.unseen})))


def _start(node: Node) -> Identity:
    return identity_of(node.start, "the initial state")


def _cycle(nodes: tuple[Node, ...], start: int) -> str:
    """The path on which a step depends on itself, in words."""
    for first in (start, *range(len(nodes))):
        path, stack, seen = [first], [iter(nodes[first].inputs)], set()
        while stack:
            nxt = next((j for j in stack[-1] if 0 <= j < len(nodes) and j not in seen), None)
            if nxt is None:
                stack.pop()
                path.pop()
            elif nxt == first:
                names = [nodes[i].id for i in reversed(path)]
                return (
                    "a step depends on its own output: "
                    + " → ".join([names[-1], *names])
                    + "; a pipeline must not have a cycle"
                )
            else:
                seen.add(nxt)
                path.append(nxt)
                stack.append(iter(nodes[nxt].inputs))
    return f"step {nodes[start].id!r} reads a step that comes after it; list steps in the order of the flow"


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
    if graph.timed:
        _refuse(next(node for node in graph.nodes if node.processor.timed), who)


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
