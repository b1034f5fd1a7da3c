"""Dataflow graphs with times (*Timely Dataflow: A Model*, section 2): nodes that keep a state, edges that carry
messages.

A **node** is two functions, the paper's g₁: ``on_message(state, edge, message)`` and ``on_notify(state, time)``.  Each
returns the new state, the times of which it wants to be notified, and the messages for its edges.  A **message** has a
time.  An **edge** comes from a node, or from outside (an input), and goes to a node, or outside (an output); cycles are
allowed, and, where the paper is stricter, an edge from a node to itself.  `Graph.g` extends g₁ to local histories.

Times are values of an order (`pellucid.progress.times`).  What is decided exactly needs finitely many of them
(``times=``), for all locations or for each its own; ``values=`` are what a message can carry besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from pellucid.errors import PellucidError, PipelineError, StepError, UsageError, nearest
from pellucid.internal.model import Budget, CutShort, Search
from pellucid.progress.times import Integers, Order, Time, hashed, kept, named, several, told_apart

State: TypeAlias = Any  # anything that can be hashed
LISTED = 1_000  # states and pending requests of a node, for which local histories are listed unless more are asked for


class Message(NamedTuple):
    """A message: its time, and what it carries.

    >>> Message(3, "ada").time
    3
    """

    time: Time
    value: Any = None

    def __str__(self) -> str:
        return f"{self.time}" if self.value is None else f"{self.value!r} at {self.time}"


class Received(NamedTuple):
    """An event of a node: a message from an edge, the paper's (d, m)."""

    edge: str
    message: Message

    @property
    def time(self) -> Time:
        """The message's time."""
        return self.message.time

    def __str__(self) -> str:
        return f"message {self.message} on {self.edge}"


class Notified(NamedTuple):
    """An event of a node: the notification that a time is complete."""

    time: Time

    def __str__(self) -> str:
        return f"notification {self.time}"


Event: TypeAlias = Received | Notified


class Result(NamedTuple):
    """What a node does: its state, requests for notifications, and messages for each of its edges (in their order)."""

    state: State
    requests: frozenset[Time]
    messages: tuple[tuple[Message, ...], ...]


class History(NamedTuple):
    """A local history of a node: where it starts, and the events that it takes, in order."""

    state: State
    requests: frozenset[Time]
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return ", then ".join(map(str, self.events)) or "at its start"


@dataclass(frozen=True)
class Node:
    """A node: what it does about a message and about a notification; how it starts.

    A function that is left out does nothing.  ``starts`` are several possible starts, pairs of a state and requests.
    ``summaries`` declare, for an output edge, or for a pair of an input and an output edge, how a time goes on from
    there at the least (`pellucid.progress.summaries`); a message that does not keep to them is refused.

    >>> count = Node(lambda n, edge, m: (n + 1, [m.time], {}), lambda n, t: (0, [], {"out": [Message(t, n)]}), state=0)
    >>> count.initial
    ((0, frozenset()),)
    """

    on_message: Callable[[State, str, Message], Any] | None = None
    on_notify: Callable[[State, Time], Any] | None = None
    state: State = None
    requests: Iterable[Time] = ()
    starts: Sequence[tuple[State, Iterable[Time]]] = ()
    summaries: Mapping[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        such = "[1, 2], times to be notified of"
        object.__setattr__(self, "requests", _requests(self.requests, "requests=", such))
        pairs = several(self.starts, "starts=", "[(0, [1])], states and times to be notified of")
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise UsageError(f"starts=: {pair!r}: a pair of a state and times to be notified of is expected")
        object.__setattr__(self, "starts", tuple((s, _requests(asked, "starts=: ", such)) for s, asked in pairs))
        named(self.summaries, "summaries=", "{'out': 1}, what is added to a time on its way to an output edge")

    @property
    def initial(self) -> tuple[tuple[State, frozenset[Time]], ...]:
        """Initial(p): states and requests that it can start with."""
        given = tuple(self.starts) or ((self.state, self.requests),)
        return tuple((state, frozenset(requests)) for state, requests in given)


def _requests(given: Any, where: str, such: str) -> frozenset[Time]:
    known = several(given, where, such)
    for time in known:
        if not hashed(time):
            raise UsageError(f"{where}{time!r} can change, so it can be no time: give a tuple or a text")
    return frozenset(known)


def buffer(out: str, *, to: Callable[[Time], Time | None] = lambda time: time, **more: Any) -> Node:
    """A buffer node: it relays every message to the edge ``out``, asks for nothing and remembers nothing.

    ``to`` changes the time on the way (None drops the message), for nodes that enter, leave and go round a loop.

    >>> buffer("e").on_message(None, "d", Message(1, "x"))
    (None, (), {'e': [Message(time=1, value='x')]})
    """

    def relay(state: State, edge: str, message: Message) -> Any:
        time = to(message.time)
        return state, (), {} if time is None else {out: [Message(time, message.value)]}

    return Node(relay, **more)


_INTEGERS = Integers()


class Graph:
    """A dataflow graph: ``nodes`` by name, ``edges`` by name as pairs (from, to), None for outside.

    >>> from pellucid.progress.times import Integers
    >>> graph = Graph({"a": buffer("e"), "b": buffer("o")}, {"i": (None, "a"), "e": ("a", "b"), "o": ("b", None)},
    ...               order=Integers(), times=range(3))
    >>> graph.inputs, graph.internal, graph.outputs
    (('i',), ('e',), ('o',))
    >>> graph.g("a", History(None, frozenset(), (Received("i", Message(1)),)))
    Result(state=None, requests=frozenset(), messages=((Message(time=1, value=None),),))
    >>> Graph({"a": Node()}, {"e": ("a", "c")})
    Traceback (most recent call last):
    pellucid.errors.PipelineError: edge 'e' goes to 'c', which is no node: the nodes are a
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        edges: Mapping[str, tuple[str | None, str | None]],
        *,
        order: Order = _INTEGERS,
        times: Iterable[Time] | Mapping[str, Iterable[Time]] | None = None,
        values: Iterable[Any] | Mapping[str, Iterable[Any]] = (None,),
        name: str = "graph",
        checked: bool = True,
    ) -> None:
        """``checked=False`` leaves declared summaries unchecked, for looking at what is wrong with them."""
        if not isinstance(order, Order):
            raise UsageError(f"order={order!r}: an order of times is expected, such as Integers()")
        self.name, self.order = name, order
        self.nodes = dict(named(nodes, "nodes=", "{'read': Node(on_message)}"))
        self.edges = _checked_edges(self.nodes, named(edges, "edges=", "{'in': (None, 'read')}"))
        self.source = {e: a for e, (a, _) in self.edges.items()}
        self.target = {e: b for e, (_, b) in self.edges.items()}
        into: dict[str, list[str]] = {p: [] for p in self.nodes}
        out: dict[str, list[str]] = {p: [] for p in self.nodes}
        for e, (a, b) in self.edges.items():
            if a is not None:
                out[a].append(e)
            if b is not None:
                into[b].append(e)
        self.into = {p: tuple(edges_in) for p, edges_in in into.items()}
        self.out = {p: tuple(edges_out) for p, edges_out in out.items()}
        self.inputs = tuple(e for e, (a, _) in self.edges.items() if a is None)
        self.outputs = tuple(e for e, (_, b) in self.edges.items() if b is None)
        self.internal = tuple(e for e, (a, b) in self.edges.items() if a is not None and b is not None)
        self.locations = (*self.nodes, *self.edges)
        self._times = self._by_location(times, self.locations, "times")
        self._values = self._by_location(values, self.edges, "values") or {}
        self._results: dict[tuple[str, State, Event], Result] = {}
        if checked and any(node.summaries for node in self.nodes.values()):
            from pellucid.progress.could_result_in import check_declared  # it knows what a graph is

            check_declared(self)

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.nodes)} nodes, {len(self.edges)} edges)"

    def _by_location(self, given: Any, locations: Iterable[str], what: str) -> dict[str, tuple[Any, ...]] | None:
        if given is None:
            return None
        such = "range(3)" if what == "times" else "['late', 'early']"
        if not isinstance(given, Mapping):
            shared = told_apart(several(given, f"{what}=", such), f"{what}=")
            if not shared:
                raise UsageError(f"{what}= is empty: nothing could ever happen; give some, as in {what}={such}")
            if what == "times":
                for t in shared:
                    self.order.check(t, "times=")
            return dict.fromkeys(locations, shared)
        for x in given:
            self.known(x)
        own = {
            x: told_apart(several(given.get(x, ()), f"{what}= of {x}: ", such), f"{what}= of {x}") for x in locations
        }
        for x in own if what == "times" else ():
            for t in own[x]:
                self.order.check(t, f"times= of {x}")
        return own

    def known(self, location: str) -> str:
        """The location, if it is one of this graph's; else it is refused.

        >>> Graph({"count": Node()}, {}).known("cuont")
        Traceback (most recent call last):
        pellucid.errors.UsageError: 'cuont' is no location of graph: its nodes and edges are count; ...
        """
        if not hashed(location) or (location not in self.nodes and location not in self.edges):
            have = ", ".join(self.locations) or "none"
            raise UsageError(
                f"{location!r} is no location of {self.name}: its nodes and edges are {have}"
                f"{nearest(str(location), self.locations)}"
            )
        return location

    @property
    def times(self) -> tuple[Time, ...]:
        """All times, of all locations; refused if there are not finitely many."""
        return tuple(dict.fromkeys(t for x in self.locations for t in self.times_at(x)))

    @property
    def finite(self) -> bool:
        """Whether its times are listed."""
        return self._times is not None

    def times_at(self, location: str) -> tuple[Time, ...]:
        """The times of messages of an edge, or of notifications of a node."""
        if self._times is None:
            raise UsageError(f"{self.name}: this is decided for finitely many times: give them, as in {self._such()}")
        return self._times[self.known(location)]

    def _such(self) -> str:
        example = self.order.example()
        return "times=range(4)" if isinstance(self.order, Integers) or example is None else f"times=[{example!r}, …]"

    def values_at(self, edge: str) -> tuple[Any, ...]:
        """What a message of an edge can carry."""
        return self._values[edge]

    def messages(self, edge: str) -> tuple[Message, ...]:
        """All messages that an edge can carry."""
        return tuple(Message(t, v) for t in self.times_at(edge) for v in self._values[edge])

    def events(self, node: str) -> Iterator[Event]:
        """All events that a node can take."""
        yield from map(Notified, self.times_at(node))
        for edge in self.into[node]:
            for message in self.messages(edge):
                yield Received(edge, message)

    def declaring(self, summaries: Mapping[str, Mapping[Any, Any]] | None = None) -> Graph:
        """The same graph, whose nodes declare these summaries; without any, a node that declares nothing declares that
        it passes times on as they are.  What is declared is not checked, so that it can be looked at."""
        given = summaries or {p: node.summaries or dict.fromkeys(self.out[p], 0) for p, node in self.nodes.items()}
        nodes = {p: replace(node, summaries=given[p]) for p, node in self.nodes.items()}
        return Graph(
            nodes, self.edges, order=self.order, times=self._times, values=self._values, name=self.name, checked=False
        )

    # ---------------------------------------------------------------- what a node does

    @property
    def asks(self) -> bool:
        """Whether a node asks for a notification, as far as it was looked at."""
        starts = any(asked for node in self.nodes.values() for _, asked in node.initial)
        return starts or any(result.requests for result in self._results.values())

    def g1(self, node: str, state: State, event: Event) -> Result:
        """One step of one node: the paper's g₁(p)(s, x), looked at before it is believed."""
        key = node, state, event
        if not hashed(key):
            self._refuse_changing(f"node {node!r}, {event}", node, state, [event])
        if key not in self._results:
            result = self.does(node, state, event)
            if not kept(result):
                self._refuse_changing(f"node {node!r}, {event}", node, result.state, result.messages)
            self._results[key] = result
        return self._results[key]

    def _refuse_changing(self, where: str, node: str, state: State, carried: Iterable[Any]) -> None:
        """An error for a state or a value that can change: what was looked at already could not be compared with it."""
        what = f"the state {state!r}" if not kept(state) else f"a message of {list(carried)!r}"
        raise StepError(
            f"{where}: {what} can change: a check keeps what it has seen, so states and values are tuples, frozensets, "
            "texts, numbers, or frozen dataclasses",
            step=node,
        )

    def starts(self, node: str) -> tuple[tuple[State, frozenset[Time]], ...]:
        """The states and requests that a node can start with, for a search: none of them can change."""
        for state, _ in self.nodes[node].initial:
            if not kept(state):
                self._refuse_changing(f"node {node!r}, at its start", node, state, ())
        found: tuple[tuple[State, frozenset[Time]], ...] = self.nodes[node].initial
        return found

    def g(self, node: str, history: History) -> Result:
        """A node after a local history: the paper's g(p)(h)."""
        state, requests = history.state, history.requests
        sent: list[tuple[Message, ...]] = [()] * len(self.out[node])
        for event in history.events:
            after = self.g1(node, state, event)
            state, requests = after.state, pending(requests, event, after)
            sent = [a + b for a, b in zip(sent, after.messages, strict=True)]
        return Result(state, requests, tuple(sent))

    def histories(self, node: str, budget: Budget | None = None) -> Search[tuple[State, frozenset[Time]], Event]:
        """The states and pending requests to which local histories lead, nearest first.

        What cannot be listed (too many of them, or a message with a value that no listed one has) ends it with
        `CutShort`.
        """

        def steps(at: tuple[State, frozenset[Time]]) -> Iterator[tuple[Event, tuple[State, frozenset[Time]]]]:
            for event in self.events(node):
                after = self.g1(node, at[0], event)
                self._listed(node, event, after)
                yield event, (after.state, pending(at[1], event, after))

        return Search(self.starts(node), steps, budget or Budget(None, LISTED))

    def _listed(self, node: str, event: Event, result: Result) -> None:
        for edge, messages in zip(self.out[node], result.messages, strict=True):
            for m in messages if self.target[edge] is not None else ():
                if m.value not in self._values[edge]:
                    raise CutShort(f"node {node!r}, {event}: sends {m} on {edge}, a value that values= does not list")

    def does(self, node: str, state: State, event: Event) -> Result:
        """The same, computed again and not kept: states and values may be anything."""
        p = self.nodes[node]
        where = f"node {node!r}, {event}"
        try:
            if isinstance(event, Received):
                given = p.on_message(state, *event) if p.on_message else (state, (), {})
            else:
                given = p.on_notify(state, event.time) if p.on_notify else (state, (), {})
        except PellucidError:
            raise
        except Exception as error:
            raise StepError(f"{where}: {type(error).__name__}: {error}", step=node) from error
        result = self._read(where, node, given)
        if p.summaries:
            from pellucid.progress.could_result_in import keep_to_summaries

            keep_to_summaries(self, node, event, result)
        return result

    def _read(self, where: str, node: str, given: Any) -> Result:
        expected = "expected (state, times to be notified of, {edge: [Message(time), …]})"
        if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[2], Mapping):
            raise StepError(f"{where}: returned {given!r}: {expected}", step=node)
        state, requests, sent = given
        try:
            asked = frozenset(requests)
            messages = {edge: tuple(carried) for edge, carried in sent.items()}
        except TypeError as error:
            raise StepError(f"{where}: returned {given!r}: {error}: {expected}", step=node) from None
        except PellucidError:
            raise
        except Exception as error:  # in a generator of the user's
            raise StepError(f"{where}: {type(error).__name__}: {error}", step=node) from error
        for edge, carried in messages.items():
            if edge not in self.out[node]:
                have = ", ".join(self.out[node]) or "none"
                raise StepError(f"{where}: sends on {edge!r}, which does not leave it: {have} does", step=node)
            for m in carried:
                if not isinstance(m, Message):
                    raise StepError(f"{where}: sends {m!r} on {edge}: expected Message(time, value)", step=node)
                self._one_of(where, f"sends on {edge}", m.time, edge, node)
        for t in asked:
            self._one_of(where, "asks for", t, node, node)
        return Result(state, asked, tuple(messages.get(edge, ()) for edge in self.out[node]))

    def _one_of(self, where: str, does: str, time: Time, location: str, node: str) -> None:
        self.order.check(time, f"{where}: {does}")
        if self._times is not None and time not in self._times[location]:
            raise StepError(
                f"{where}: {does} time {time!r}, which is not among the times of {location}: "
                f"{', '.join(map(repr, self._times[location])) or 'none'}",
                step=node,
            )


def compose(a: Graph, b: Graph) -> Graph:
    """Two graphs as one: an edge that leaves one and enters the other connects them.

    >>> from pellucid.progress.graph import buffer
    >>> one = Graph({"p": buffer("x")}, {"i": (None, "p"), "x": ("p", None)}, times=[0])
    >>> two = Graph({"q": buffer("o")}, {"x": (None, "q"), "o": ("q", None)}, times=[0])
    >>> whole = compose(one, two)
    >>> whole.inputs, whole.internal, whole.outputs
    (('i',), ('x',), ('o',))
    >>> compose(one, one)
    Traceback (most recent call last):
    pellucid.errors.PipelineError: the graphs cannot be put together: both have the node 'p': ...
    """
    for given in (a, b):
        if not isinstance(given, Graph):
            raise UsageError(f"compose takes two progress.Graphs, found a {type(given).__name__}")
    for what, ours, theirs in (
        ("node", a.nodes, b.nodes), ("input edge", a.inputs, b.inputs), ("internal edge", a.internal, b.internal),
        ("output edge", a.outputs, b.outputs),
    ):  # fmt: skip
        if shared := [x for x in ours if x in theirs]:
            raise PipelineError(
                f"the graphs cannot be put together: both have the {what} {shared[0]!r}: give one of them another name"
            )
    for one, other in ((a, b), (b, a)):
        outer = (*other.inputs, *other.outputs, *other.nodes)
        if shared := [x for x in one.internal if x in outer] + [x for x in one.nodes if x in other.edges]:
            raise PipelineError(
                f"the graphs cannot be put together: {shared[0]!r} is inside one of them and stands in the other, too: "
                "give one of them another name"
            )
    if a.order != b.order:
        raise PipelineError(f"the graphs cannot be put together: one has times of {a.order}, the other of {b.order}")
    edges = dict(a.edges)
    for e, (source, target) in b.edges.items():
        before = edges.get(e, (None, None))
        edges[e] = (source if source is not None else before[0], target if target is not None else before[1])
    times: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for graph in (a, b):
        for x in graph.locations:
            times[x] = (*times.get(x, ()), *graph.times_at(x)) if graph.finite else ()
            if x in graph.edges:
                values[x] = (*values.get(x, ()), *graph.values_at(x))
    listed = times if a.finite and b.finite else None
    name = f"{a.name} and {b.name}"
    return Graph({**a.nodes, **b.nodes}, edges, order=a.order, times=listed, values=values, name=name)


def pending(requests: frozenset[Time], event: Event, after: Result) -> frozenset[Time]:
    """The requests after an event: N − {t} ∪ N′, or N ∪ N′."""
    left = requests - {event.time} if isinstance(event, Notified) else requests
    return left | after.requests


def _checked_edges(
    nodes: Mapping[str, Node], edges: Mapping[str, tuple[str | None, str | None]]
) -> dict[str, tuple[str | None, str | None]]:
    for p in (*nodes, *edges):
        if not isinstance(p, str):
            raise PipelineError(f"{p!r} is a {type(p).__name__}: nodes and edges are named by texts")
    for p, node in nodes.items():
        if not isinstance(node, Node):
            raise PipelineError(f"node {p!r} is a {type(node).__name__}: expected a Node(on_message, on_notify)")
    have = ", ".join(nodes) or "none"
    for e, ends in edges.items():
        if e in nodes:
            raise PipelineError(f"{e!r} is both a node and an edge: give one of them another name")
        if not isinstance(ends, tuple) or len(ends) != 2 or ends == (None, None):
            raise PipelineError(f"edge {e!r} is {ends!r}: expected (from, to), None on one side for outside")
        for end, goes in zip(ends, ("comes from", "goes to"), strict=True):
            if end is not None and (not hashed(end) or end not in nodes):
                raise PipelineError(
                    f"edge {e!r} {goes} {end!r}, which is no node: the nodes are {have}{nearest(str(end), list(nodes))}"
                )
    return dict(edges)


Stack = tuple[str, ...]
Place = tuple[str, Stack]


class Recursion:
    """A graph that calls itself (section 3.4): edges as pairs of nodes, and which nodes are calls.  The stack of open
    calls is the time.

    It has a node ``in``, a node ``out``, ordinary nodes and call nodes.  A call node *c* is split into ``call-c``, from
    which one goes to ``in`` with *c* on the stack, and ``ret-c``, to which one comes back from ``out``.  The relation
    *(p, f) reaches (p′, f′)* is the least reflexive and transitive one with these steps and the ordinary edges, on
    which the stack stays.  At each node it is a pre-order of stacks: `Recursion.before`.

    >>> fib = Recursion([("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")], calls=["c"])
    >>> fib.reaches(("a", ("c",)), ("in", ("c",)))
    True
    >>> fib.way(("a", ("c",)), ("in", ("c",)))
    [('a', ('c',)), ('out', ('c',)), ('ret-c', ()), ('a', ()), ('call-c', ()), ('in', ('c',))]
    """

    def __init__(self, edges: Iterable[tuple[str, str]], calls: Iterable[str] = ()) -> None:
        self.calls = tuple(dict.fromkeys(several(calls, "recursion: calls=", "['c']")))
        pairs = several(edges, "recursion: edges=", "[('in', 'a'), ('a', 'out')]")
        for pair in pairs:
            named = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)
            if not named:
                raise PipelineError(f"recursion: the edge {pair!r}: a pair of names is expected, as in ('in', 'a')")
        self.edges = tuple(dict.fromkeys(pairs))
        ends = dict.fromkeys(p for edge in self.edges for p in edge)
        self._check(ends)
        split = [(self._leaving(a), self._entering(b)) for a, b in self.edges]
        names = dict.fromkeys(p for edge in split for p in edge)
        names.update(dict.fromkeys(part for c in self.calls for part in (f"call-{c}", f"ret-{c}")))
        self.nodes = tuple(names)
        self._inside = {p: [b for a, b in split if a == p] for p in self.nodes}  # ordinary steps
        forward = {p: [*self._inside[p], *(f"ret-{p[5:]}" for _ in [0] if self._is_call(p))] for p in self.nodes}
        self._walks = {p: Search([p], _following(forward)).all() for p in self.nodes}

    def _check(self, ends: Iterable[str]) -> None:
        known = list(ends)
        for needed in ("in", "out", *self.calls):
            if needed not in known:
                raise PipelineError(f"recursion: no edge touches {needed!r}: it needs in, out, and every call")
        for p in known:
            if p.startswith(("call-", "ret-")):
                raise PipelineError(
                    f"recursion: {p!r}: names that begin with call- or ret- are made here: take another"
                )
        for bad, side in (("in", 1), ("out", 0)):
            if bad in self.calls:
                raise PipelineError(f"recursion: {bad!r} cannot be a call")
            if any(edge[side] == bad for edge in self.edges):
                raise PipelineError(f"recursion: no edge may {'enter in' if side else 'leave out'}")
        plain = {p: [b for a, b in self.edges if a == p] for p in known}
        back = {p: [a for a, b in self.edges if b == p] for p in known}
        lost = [p for p in known if p not in Search(["in"], _following(plain)).all()]
        stuck = [p for p in known if p not in Search(["out"], _following(back)).all()]
        if lost or stuck:
            where = f"{lost[0]!r} is not reached from in" if lost else f"out is not reached from {stuck[0]!r}"
            raise PipelineError(f"recursion: {where}: every node must be on a way from in to out")
        base = {p: [b for b in plain[p] if b not in self.calls] for p in known}
        if "out" not in Search(["in"], _following(base)).all():
            raise PipelineError("recursion: every way from in to out makes a call: it would never end; add one without")

    def _is_call(self, p: str) -> bool:
        return p.startswith("call-") and p[5:] in self.calls

    def _leaving(self, p: str) -> str:
        return f"ret-{p}" if p in self.calls else p

    def _entering(self, p: str) -> str:
        return f"call-{p}" if p in self.calls else p

    def _known(self, place: Place) -> Place:
        if not isinstance(place, tuple) or len(place) != 2 or not isinstance(place[1], (tuple, list)):
            raise UsageError(f"recursion: {place!r}: a node and its stack are expected, as in ('in', ('c',))")
        p, f = place
        if p not in self.nodes:
            raise UsageError(f"recursion: {p!r} is no node: {', '.join(self.nodes)} are{nearest(str(p), self.nodes)}")
        for c in f:
            if c not in self.calls:
                raise UsageError(
                    f"recursion: {c!r} is no call: {', '.join(self.calls) or 'none'} is{nearest(c, self.calls)}"
                )
        return p, tuple(f)

    # ---------------------------------------------------------------- the relation

    def steps(self, place: Place) -> Iterator[tuple[str, Place]]:
        """The steps of the relation from a node and a stack, by the number that the paper gives them."""
        p, f = place
        if self._is_call(p):
            yield "1", ("in", (*f, p[5:]))
        elif p == "out" and f:
            yield "2", (f"ret-{f[-1]}", f[:-1])
        for q in self._inside[p]:
            yield "3", (q, f)

    def way(self, a: Place, b: Place) -> list[Place] | None:
        """A shortest way from one to the other, None if there is none."""
        a, b = self._known(a), self._known(b)
        if not self.reaches(a, b):
            return None
        deep = max(len(a[1]), len(b[1])) + 1
        search = Search([a], lambda x: ((then, then) for _, then in self.steps(x) if len(then[1]) <= deep))
        search.all()
        return [a, *search.way(b)]

    def reaches(self, a: Place, b: Place) -> bool:
        """Whether (p, f) reaches (p′, f′), decided from the stacks' common prefixes: leave the calls of f down to a
        prefix, walk inside one call, enter the calls of f′.

        The paper tries the *longest* common prefix alone.  That is wrong where a cycle goes through a call: with in→a,
        a→c, c→a, a→out, from (a, [c]) one comes to (in, [c]) by leaving the call and making it again.  So every common
        prefix is tried.
        """
        (p, f), (q, g) = self._known(a), self._known(b)
        longest = next((i for i, (x, y) in enumerate(zip(f, g, strict=False)) if x != y), min(len(f), len(g)))
        for prefix in range(longest, -1, -1):
            leave = f"ret-{f[prefix]}" if len(f) > prefix else p
            enter = f"call-{g[prefix]}" if len(g) > prefix else q
            if enter in self._walks[leave]:
                return True
        return False

    def before(self, node: str) -> Callable[[Stack, Stack], bool]:
        """The pre-order of stacks at a node, for `pellucid.progress.Stacks`.

        >>> from pellucid.progress.times import Stacks
        >>> fib = Recursion([("in", "a"), ("a", "l"), ("l", "r"), ("r", "out"), ("a", "out")], calls=["l", "r"])
        >>> at_a = Stacks(fib.calls, fib.before("a"))
        >>> at_a.less_equal(("l",), ("r",)), at_a.less_equal(("r",), ("l",))
        (True, False)
        """
        self._known((node, ()))
        return lambda f, g: self.reaches((node, f), (node, g))


def _following(graph: dict[str, list[str]]) -> Callable[[str], Iterator[tuple[str, str]]]:
    return lambda p: ((q, q) for q in graph[p])
