"""The semantics of a graph as a machine (section 4.2): queues on edges, states and pending requests at nodes.

The actions have the paper's names.  `InitProp` is the first step, which chooses what the input edges hold and how each
node starts; `Mess` takes a message, `Not` a notification, `Inp` puts messages on input edges, `Outp` takes some from
output edges.  *Clock* is the closure of the pointstamps of all messages and requests, and `Not` waits until no input
edge of the node has its time there.

What the paper leaves open, or what its proofs need, can be chosen: ``reorder`` (the variant of `Mess1` in which a
message may overtake those that are not at or before its time), ``arrivals`` (how many messages `Inp` may bring; none
by default, the hypothesis of Theorem 2), ``harmonious`` (`Inp` with Clock′ ⊆ Clock), ``take`` (whether `Outp` happens).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.progress.could_result_in import Pointstamp, Relation, bits
from pellucid.progress.graph import Graph, Message, Notified, Received, Result
from pellucid.progress.times import Time, hashed, named, several, whole

Queue = tuple[Message, ...]


class Situation(NamedTuple):
    """A state of the machine: a queue for each edge, a state and the pending requests for each node, in the order in
    which the graph has them; how many messages may still arrive."""

    queues: tuple[Queue, ...]
    local: tuple[Any, ...]
    requests: tuple[frozenset[Time], ...]
    arrivals: int = 0


class InitProp(NamedTuple):
    """The initial condition, as a first step: what the input edges hold, and how the nodes start."""

    queues: tuple[tuple[str, Queue], ...]
    starts: tuple[tuple[str, Any, frozenset[Time]], ...]

    def __str__(self) -> str:
        held = [f"{edge} holds {_several(queue)}" for edge, queue in self.queues if queue]
        asks = [f"{node} asks for {_several(times)}" for node, _, times in self.starts if times]
        return f"InitProp {'; '.join(held + asks)}".rstrip()


class Mess(NamedTuple):
    """A node receives a message from an edge; ``position`` is its place in the queue, 0 without reordering."""

    node: str
    edge: str
    message: Message
    position: int = 0

    def __str__(self) -> str:
        return f"Mess {self.node}: {self.message} on {self.edge}"


class Not(NamedTuple):
    """A node is notified of a time."""

    node: str
    time: Time

    def __str__(self) -> str:
        return f"Not {self.node}: {self.time}"


class Inp(NamedTuple):
    """Input edges are extended: what they hold now."""

    queues: tuple[tuple[str, Queue], ...]

    def __str__(self) -> str:
        return "Inp " + "; ".join(f"{edge} holds {_several(queue)}" for edge, queue in self.queues)


class Outp(NamedTuple):
    """Messages are taken from output edges: what these hold now."""

    queues: tuple[tuple[str, Queue], ...]

    def __str__(self) -> str:
        return "Outp " + "; ".join(f"{edge} holds {_several(queue) or 'nothing'}" for edge, queue in self.queues)


Action = InitProp | Mess | Not | Inp | Outp


class Semantics:
    """ISpec of a graph, under a could-result-in relation; a `model.Machine`.

    ``inputs`` says what an input edge holds at the beginning; without it, every content of up to ``messages`` messages
    is possible.

    >>> from pellucid.internal.model import Search
    >>> from pellucid.progress.could_result_in import exact
    >>> from pellucid.progress.graph import buffer
    >>> graph = Graph({"a": buffer("o")}, {"i": (None, "a"), "o": ("a", None)}, times=[0])
    >>> machine = Semantics(graph, exact(graph), messages=1)
    >>> search = Search([machine.start()], machine.steps)
    >>> [str(label) for at in search.all() for label, _ in machine.steps(at) if isinstance(label, Mess)]
    ['Mess a: 0 on i']
    """

    def __init__(
        self,
        graph: Graph,
        relation: Relation,
        *,
        inputs: Mapping[str, Iterable[Message]] | None = None,
        messages: int = 1,
        arrivals: int = 0,
        harmonious: bool = False,
        reorder: bool = False,
        take: bool = True,
    ) -> None:
        for given, name in ((messages, "messages="), (arrivals, "arrivals=")):
            whole(given, name, 0)
        self.graph, self.relation, self.arrivals, self.harmonious = graph, relation, arrivals, harmonious
        self.reorder, self.take = reorder, take
        self.rows: Sequence[int] = relation.closed
        self.edge = {e: i for i, e in enumerate(graph.edges)}
        self.node = {p: i for i, p in enumerate(graph.nodes)}
        self.edges = tuple(graph.edges)
        self._masks: dict[Any, int] = {}
        self.contents = [self._contents(e, inputs, messages) for e in graph.inputs]

    def _contents(self, edge: str, inputs: Mapping[str, Iterable[Message]] | None, messages: int) -> list[Queue]:
        if inputs is None:
            known = self.graph.messages(edge)
            return [queue for n in range(messages + 1) for queue in product(known, repeat=n)]
        for name in named(inputs, "inputs=", "{'in': [Message(1)]}"):
            if name not in self.graph.inputs:
                have = ", ".join(self.graph.inputs) or "none"
                raise UsageError(f"inputs=: {name!r} is no input edge of {self.graph.name}: {have} is")
        given = inputs.get(edge, ())
        if isinstance(given, Message):
            raise UsageError(f"inputs= of {edge}: {given!r} is one message: give a list of them")
        listed = several(given, f"inputs= of {edge}: ", "[Message(1), Message(2)]")
        queue = tuple(m if isinstance(m, Message) else Message(m) for m in listed)
        for m in queue:
            self.relation.number((edge, m.time))
            if not hashed(m.value):
                raise UsageError(f"inputs= of {edge}: {m.value!r} can change: a check needs values that cannot")
        return [queue]

    # ---------------------------------------------------------------- the machine

    def start(self) -> Situation | None:
        """Before InitProp."""
        return None

    def steps(self, at: Situation | None, *, failures: bool = True) -> Iterator[tuple[Action, Situation]]:
        """What can happen; also what leaves everything as it is, which is a step all the same for the node."""
        if at is None:
            yield from self._initial()
            return
        yield from self.acts(at)
        if at.arrivals:
            yield from self.inp(at, self.graph.inputs)
        if self.take:
            yield from self.outp(at, self.graph.outputs)

    def see(self, at: Situation | None) -> Any:
        """The externally visible state: what input and output edges hold."""
        if at is None:
            return None
        return tuple((e, at.queues[self.edge[e]]) for e in (*self.graph.inputs, *self.graph.outputs))

    def complete(self, at: Situation | None) -> bool:
        """A behaviour may stop anywhere: what is asked of it is always asked."""
        return True

    def _initial(self) -> Iterator[tuple[Action, Situation]]:
        for held in product(*self.contents):
            queues = dict(zip(self.graph.inputs, held, strict=True))
            for starts in product(*map(self.graph.starts, self.graph.nodes)):
                label = InitProp(
                    tuple(queues.items()), tuple((p, *s) for p, s in zip(self.graph.nodes, starts, strict=True))
                )
                yield (
                    label,
                    Situation(
                        tuple(queues.get(e, ()) for e in self.edges),
                        tuple(state for state, _ in starts),
                        tuple(requests for _, requests in starts),
                        self.arrivals,
                    ),
                )

    # ---------------------------------------------------------------- the clock

    def pending(self, at: Situation) -> Iterator[Pointstamp]:
        """The pointstamps of all messages and requests."""
        for e, queue in zip(self.edges, at.queues, strict=True):
            for t in dict.fromkeys(m.time for m in queue):
                yield Pointstamp(e, t)
        for p, times in zip(self.graph.nodes, at.requests, strict=True):
            for t in times:
                yield Pointstamp(p, t)

    def clock_bits(self, at: Situation) -> int:
        """Clock, as a number with a bit for each pointstamp."""
        mask = 0
        for key in (*zip(self.edges, at.queues, strict=True), *zip(self.graph.nodes, at.requests, strict=True)):
            if key[1]:
                if key not in self._masks:  # few different queues stand on an edge
                    self._masks[key] = self._mask(*key)
                mask |= self._masks[key]
        return mask

    def _mask(self, x: str, held: Iterable[Any]) -> int:
        mask = 0
        for one in held:
            time = one.time if x in self.edge else one
            mask |= self.rows[self.relation.number((x, time))]
        return mask

    def clock(self, at: Situation) -> frozenset[Pointstamp]:
        """Clock: the pointstamps for which work may remain."""
        return frozenset(map(self.relation.pointstamp, bits(self.clock_bits(at))))

    # ---------------------------------------------------------------- the actions

    def acts(self, at: Situation) -> Iterator[tuple[Mess | Not, Situation]]:
        """Mess and Not, of all nodes."""
        for p in self.graph.nodes:
            yield from self.mess1(at, p)
        if any(at.requests):
            clock = self.clock_bits(at)
            for p in self.graph.nodes:
                yield from self.not1(at, p, clock)

    def mess1(self, at: Situation, p: str) -> Iterator[tuple[Mess, Situation]]:
        """Mess1(p): the first message of an edge into p; with ``reorder``, any that no earlier one holds back."""
        leq = self.graph.order.less_equal
        for e in self.graph.into[p]:
            queue = at.queues[self.edge[e]]
            for i, m in enumerate(queue[: None if self.reorder else 1]):
                if i and any(leq(n.time, m.time) for n in queue[:i]):
                    continue
                yield Mess(p, e, m, i), self.mess2(at, p, e, m, queue[:i] + queue[i + 1 :])

    def mess2(self, at: Situation, p: str, e: str, m: Message, rest: Queue) -> Situation:
        """Mess2(p, e, m): p reacts to the message."""
        result = self.graph.g1(p, at.local[self.node[p]], Received(e, m))
        return self._moved(at, p, result, at.requests[self.node[p]] | result.requests, {e: rest})

    def not1(self, at: Situation, p: str, clock: int) -> Iterator[tuple[Not, Situation]]:
        """Not1(p): a time that p asked for and that is at no edge into p in the clock."""
        for t in sorted(at.requests[self.node[p]], key=self.relation.times.index):
            if not any(clock >> self.relation.number((e, t)) & 1 for e in self.graph.into[p]):
                yield Not(p, t), self.not2(at, p, t)

    def not2(self, at: Situation, p: str, t: Time) -> Situation:
        """Not2(p, t): p reacts to the notification."""
        result = self.graph.g1(p, at.local[self.node[p]], Notified(t))
        return self._moved(at, p, result, (at.requests[self.node[p]] - {t}) | result.requests, {})

    def _moved(
        self, at: Situation, p: str, result: Result, requests: frozenset[Time], queues: dict[str, Queue]
    ) -> Situation:
        for e, more in zip(self.graph.out[p], result.messages, strict=True):
            if more:
                queues[e] = queues.get(e, at.queues[self.edge[e]]) + more
        i = self.node[p]
        return Situation(
            self._with(at, queues),
            (*at.local[:i], result.state, *at.local[i + 1 :]),
            (*at.requests[:i], requests, *at.requests[i + 1 :]),
            at.arrivals,
        )

    def _with(self, at: Situation, queues: Mapping[str, Queue]) -> tuple[Queue, ...]:
        return tuple(queues.get(e, queue) for e, queue in zip(self.edges, at.queues, strict=True))

    def inp(self, at: Situation, edges: Sequence[str]) -> Iterator[tuple[Inp, Situation]]:
        """Inp: queues of input edges become longer, anywhere in them, as long as messages may arrive."""
        before = self.clock_bits(at)
        per = [partial(_longer, at.queues[self.edge[e]], self.graph.messages(e), at.arrivals) for e in edges]
        for label, queues in _changes(edges, at, self.edge, per, Inp):
            more = sum(len(q) - len(at.queues[self.edge[e]]) for e, q in queues.items())
            if more <= at.arrivals:
                then = at._replace(queues=self._with(at, queues), arrivals=at.arrivals - more)
                if not self.harmonious or not self.clock_bits(then) & ~before:
                    yield label, then

    def outp(self, at: Situation, edges: Sequence[str]) -> Iterator[tuple[Outp, Situation]]:
        """Outp: messages are taken from output edges, from anywhere in them."""
        per = [partial(_shorter, at.queues[self.edge[e]]) for e in edges]
        for label, queues in _changes(edges, at, self.edge, per, Outp):
            yield label, at._replace(queues=self._with(at, queues))


class Inside:
    """A semantics of which everything is seen: for showing runs."""

    def __init__(self, machine: Semantics) -> None:
        self.machine = machine
        self.start, self.steps, self.complete = machine.start, machine.steps, machine.complete

    def see(self, at: Situation | None) -> Any:
        """Queues, states, requests."""
        if at is None:
            return {}
        machine, nodes = self.machine, self.machine.graph.nodes
        held = {e: _several(queue) for e, queue in zip(machine.edges, at.queues, strict=True)}
        waits = {
            f"{p} waits": _several(sorted(times, key=machine.relation.times.index))
            for p, times in zip(nodes, at.requests, strict=True)
        }
        states = {f"{p} state": state for p, state in zip(nodes, at.local, strict=True) if state is not None}
        return {**held, **waits, **states}


def _several(things: Iterable[Any]) -> str:
    return ", ".join(map(str, things))


def _changes(
    edges: Sequence[str],
    at: Situation,
    place: Mapping[str, int],
    per: Sequence[Callable[[], Iterable[Queue]]],
    action: Callable[..., Any],
) -> Iterator[tuple[Any, dict[str, Queue]]]:
    """All ways to change the queues of these edges together, except to change none."""
    for chosen in _each(per):
        queues = {e: q for e, q in zip(edges, chosen, strict=True) if q != at.queues[place[e]]}
        if queues:
            yield action(tuple(queues.items())), queues


def _each(per: Sequence[Callable[[], Iterable[Queue]]]) -> Iterator[tuple[Queue, ...]]:
    """All combinations, none of which is made before it is asked for."""
    if not per:
        yield ()
        return
    for first in per[0]():
        for rest in _each(per[1:]):
            yield (first, *rest)


def _shorter(queue: Queue) -> Iterator[Queue]:
    """Its subsequences, itself among them."""
    layer = {queue: None}
    yield queue
    while any(layer):
        shorter: dict[Queue, None] = {}
        for q in layer:
            for i in range(len(q) - 1, -1, -1):
                if q[i : i + 1] == q[i + 1 : i + 2]:
                    continue  # the same as without the next one
                one = q[:i] + q[i + 1 :]
                if one not in shorter:  # one by one: there may be too many to be listed
                    shorter[one] = None
                    yield one
        layer = shorter


def _longer(queue: Queue, known: Sequence[Message], most: int) -> Iterator[Queue]:
    """The sequences that it is a subsequence of, with at most so many messages more, itself among them."""
    seen = {queue: None}
    layer = [queue]
    for _ in range(most):
        layer = list(dict.fromkeys((*q[:i], m, *q[i:]) for q in layer for i in range(len(q) + 1) for m in known))
        seen.update(dict.fromkeys(layer))
    yield from seen
