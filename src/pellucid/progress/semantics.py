"""What a graph does (section 4): its state machine, what must be true of every run, graphs put together.

* ``machine``: the actions `InitProp`, `Mess`, `Not`, `Inp`, `Outp`
* ``properties``: Propositions 7 to 9, Theorem 2, completeness of notifications, liveness
* ``running``: one behaviour, for any times, with the incremental clock
* ``compose``: two graphs as one, and `Spec₁₂`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.internal.model import Budget, Machine
from pellucid.progress.could_result_in import Pointstamp, Relation, bits
from pellucid.progress.graph import Graph, Message, Notified, Received, Result
from pellucid.progress.times import Time, hashed, named, several, whole

# The semantics of a graph as a machine (4.2): queues on edges, states and pending requests at nodes.
#
# The actions have the paper's names.  `InitProp` is the first step, which chooses what the input edges hold and how
# each
# node starts; `Mess` takes a message, `Not` a notification, `Inp` puts messages on input edges, `Outp` takes some
# from
# output edges.  *Clock* is the closure of the pointstamps of all messages and requests, and `Not` waits until no
# input
# edge of the node has its time there.
#
# What the paper leaves open, or what its proofs need, can be chosen: ``reorder`` (the variant of `Mess1` in which a
# message may overtake those that are not at or before its time), ``arrivals`` (how many messages `Inp` may bring;
# none
# by default, the hypothesis of Theorem 2), ``harmonious`` (`Inp` with Clock′ ⊆ Clock), ``clock`` (the closure; or
# its
# one-step image, which is what Proposition 3 says), ``test`` (without it `Not` does not look at the clock).

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
        clock: Literal["closure", "image"] = "closure",
        test: bool = True,
        take: bool = True,
    ) -> None:
        for given, name in ((messages, "messages="), (arrivals, "arrivals=")):
            whole(given, name, 0)
        self.graph, self.relation, self.arrivals, self.harmonious = graph, relation, arrivals, harmonious
        self.reorder, self.test, self.take = reorder, test, take
        self.rows: Sequence[int] = relation.closed if clock == "closure" else relation.rows
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
        """What can happen; also what leaves everything as it is, which is a step all the same to who is notified."""
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
            if not self.test or not any(clock >> self.relation.number((e, t)) & 1 for e in self.graph.into[p]):
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


class Inside(Semantics):
    """The same machine, of which everything is seen: for showing runs."""

    def see(self, at: Situation | None) -> Any:
        """Queues, states, requests."""
        if at is None:
            return {}
        held = {e: _several(queue) for e, queue in zip(self.edges, at.queues, strict=True)}
        waits = {
            f"{p} waits": _several(sorted(times, key=self.relation.times.index))
            for p, times in zip(self.graph.nodes, at.requests, strict=True)
        }
        states = {f"{p} state": state for p, state in zip(self.graph.nodes, at.local, strict=True) if state is not None}
        return {**held, **waits, **states}


def stutter_free(states: Iterable[Any]) -> list[Any]:
    """♮σ: a finite sequence without its repetitions.

    >>> stutter_free([1, 1, 2, 2, 1])
    [1, 2, 1]
    """
    out: list[Any] = []
    for state in states:
        if not out or out[-1] != state:
            out.append(state)
    return out


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
                if one not in shorter:  # told at once: there may be too many to be listed
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


# Graphs put together (4.3): two graphs that share edges as one graph, and `Spec₁₂`, what their specifications say
# together.
#
# ``compose(a, b)`` is the whole graph: an output edge of one that is an input edge of the other becomes internal.
# ``Spec12(a, b, …)`` is the conjunction: every step is a step of the first (or none) and a step of the second (or
# none),
# both see the same queues, and not both act on their input and output edges at once.  *Clock* is one clock, that of
# the
# whole graph, for both.
#
# The two are not the same.  `visible_difference` compares what can be seen from outside, up to stuttering; what it
# finds:
#
# - with inputs that are given at the start and outputs that stay, both show the same, as long as no node takes a
# message
#   from the other graph and answers it in the same step;
# - such a node is stuck in Spec₁₂: the other graph would see an output edge get shorter and an input edge get longer
# at
#   once, and neither Inp nor Outp says that.  A buffer node between them helps;
# - an environment that acts (Inp, Outp) may act on one graph while the other makes a step: in the whole these are
# two
#   steps, with something to be seen between them;
# - as complete behaviours Spec₁₂ also has two internal steps at once.


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


class Both(NamedTuple):
    """A step of the first graph and one of the second, at once; None where one does nothing."""

    first: Action | None
    second: Action | None

    def __str__(self) -> str:
        return " & ".join(str(label) for label in self if label is not None)


class Spec12(Semantics):
    """Spec₁ ∧ Spec₂ ∧ □[¬(Acts₁ ∧ Acts₂)], with the clock of the whole graph for both.

    It is a machine over the situations of the whole graph.  ``parts`` are the two graphs.
    """

    def __init__(self, parts: tuple[Graph, Graph], relation: Relation, **more: Any) -> None:
        super().__init__(relation.graph, relation, **more)
        self.parts = parts
        self.between = frozenset(set(parts[0].edges) & set(parts[1].edges))

    def steps(self, at: Situation | None, *, failures: bool = True) -> Iterator[tuple[Any, Situation]]:
        """All joint steps, except those in which neither does anything."""
        if at is None:
            yield from super().steps(at)
            return
        first, second = (list(self._of(at, part)) for part in self.parts)
        for (one, a), (two, b) in ((x, y) for x in first for y in second):
            if one is None and two is None:
                continue
            then = self._joined(at, one, a, two, b)
            if then is not None:
                yield Both(one, two), then

    def _of(self, at: Situation, part: Graph) -> Iterator[tuple[Action | None, Situation]]:
        """What one graph can do by itself, as far as the edges go that it does not share; and nothing."""
        yield None, at
        for label, then in self.acts(at):
            if label.node in part.nodes:
                yield label, then
        if at.arrivals:
            yield from self.inp(at, [e for e in part.inputs if e not in self.between])
        if self.take:
            yield from self.outp(at, [e for e in part.outputs if e not in self.between])

    def _joined(
        self, at: Situation, one: Action | None, a: Situation, two: Action | None, b: Situation
    ) -> Situation | None:
        """Both steps at once, if each graph can see it as one step of its own and not both act."""
        for graph, label, then, others in ((self.parts[1], two, a, one), (self.parts[0], one, b, two)):
            if isinstance(others, Mess | Not) and not self._seen_as_one(at, then, graph, label):
                return None
        if self._acts(at, a, self.parts[0], one) and self._acts(at, b, self.parts[1], two):
            return None
        arrivals = at.arrivals - (at.arrivals - a.arrivals) - (at.arrivals - b.arrivals)
        if arrivals < 0:
            return None
        return Situation(
            tuple(y if y != x else z for x, y, z in zip(at.queues, a.queues, b.queues, strict=True)),
            tuple(
                x if p in self.parts[0].nodes else y for p, x, y in zip(self.graph.nodes, a.local, b.local, strict=True)
            ),
            tuple(
                x if p in self.parts[0].nodes else y
                for p, x, y in zip(self.graph.nodes, a.requests, b.requests, strict=True)
            ),
            arrivals,
        )

    def _seen_as_one(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """What the other graph did to the shared edges, together with this one's own step, is one step of this graph:
        Inp if its inputs got longer, Outp if its outputs got shorter, anything if they stayed."""
        changed = {e for e in self.between if at.queues[self.edge[e]] != then.queues[self.edge[e]]}
        if not changed:
            return True
        if changed <= set(graph.inputs):
            return label is None or isinstance(label, Inp)
        if changed <= set(graph.outputs):
            return label is None or isinstance(label, Outp)
        return False

    def _acts(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """Acts_j: an input edge got shorter, or an output edge longer."""
        if not isinstance(label, Mess | Not):
            return False
        length = [
            (len(at.queues[self.edge[e]]), len(then.queues[self.edge[e]])) for e in (*graph.inputs, *graph.outputs)
        ]
        inputs = len(graph.inputs)
        return any(b < a for a, b in length[:inputs]) or any(b > a for a, b in length[inputs:])


@dataclass(frozen=True)
class Difference:
    """A sequence of visible states that one machine has and the other has not: ``only`` says which, ``labels`` are its
    steps there."""

    only: int  # 0 or 1
    seen: tuple[Any, ...]
    labels: tuple[Any, ...]


def visible_difference(one: Machine, other: Machine, budget: Budget | None = None) -> Difference | None:
    """A shortest externally visible behaviour, without stuttering, that only one of two machines has; None if they show
    the same.

    Goes through the sets of states in which each can be after what was seen so far.
    """
    budget = budget or Budget(None, 200_000)
    machines = (one, other)
    first = tuple(_still(m, {m.start(): ()}, budget) for m in machines)
    waiting: list[tuple[tuple[dict[Any, Any], dict[Any, Any]], tuple[Any, ...]]] = [((first[0], first[1]), ())]
    known = {(frozenset(first[0]), frozenset(first[1]))}
    for pair, seen in waiting:  # it grows meanwhile
        budget.look(len(known), len(waiting))
        after = tuple(_next(m, states) for m, states in zip(machines, pair, strict=True))
        for view in dict.fromkeys([*after[0], *after[1]]):
            for i in (0, 1):
                if view not in after[1 - i]:
                    labels = next(iter(after[i][view].values()))
                    return Difference(i, (*seen, view), labels)
            both = tuple(_still(m, found[view], budget) for m, found in zip(machines, after, strict=True))
            key = frozenset(both[0]), frozenset(both[1])
            if key not in known:
                known.add(key)
                waiting.append(((both[0], both[1]), (*seen, view)))
    return None


def _still(machine: Machine, states: dict[Any, Any], budget: Budget) -> dict[Any, Any]:
    """All states that are reached without anything to be seen, each with the labels that led there."""
    found, waiting = dict(states), list(states)
    for at in waiting:
        for label, then in machine.steps(at):
            if then not in found and machine.see(then) == machine.see(at):
                found[then] = (*found[at], label)
                waiting.append(then)
    return found


def _next(machine: Machine, states: dict[Any, Any]) -> dict[Any, dict[Any, Any]]:
    """By what is seen then: the states after one more visible step."""
    found: dict[Any, dict[Any, Any]] = {}
    for at, labels in states.items():
        for label, then in machine.steps(at):
            view = machine.see(then)
            if view != machine.see(at):
                found.setdefault(view, {}).setdefault(then, (*labels, label))
    return found
