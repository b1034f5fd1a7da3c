"""Could-result-in (section 3) over finitely many pointstamps: which may lead to which, with proofs and closure.

A relation is made of **links**, one step of computation each: from an edge to the node that it leads to, at the same
time; from a node to an edge that leaves it, at the times that Definition 1 or the declared summaries give.  Definition
2 follows links along locations that are all different.  That can take exponentially many paths, so the least relation
over *all* paths is made first: if no time comes back to its location earlier than it left, going round a cycle gains
nothing and the two are the same; only otherwise are the simple paths gone through one by one.  Sets of times are whole
numbers, a bit for each time.

`exact` is the paper's relation.  Definition 1 looks at all local histories of a node, which for finite nodes is a
search, and forgets on which edge a message came: a node that passes left to left and right to right is one that passes
everything everywhere.  With ``ports=True`` they are kept apart: from an edge to what a message *on it* makes the node
send or ask for, and from a node to what its notifications make it send.

`conservative` is the relation by declared **summaries**.  A node declares, for an output edge ``d``, or for a pair
``(e, d)`` of an input and an output edge, or ``(None, d)`` for what it sends when it is notified, a summary or a list
of them (`pellucid.progress.summaries`; a number is added to the time): the least times at which something comes out.  A
node that declares nothing passes times on as they are, as in Naiad.  What is declared is held to three times: when a
graph is built, no cycle may lead into the past or take no time at all; when a node sends, a message that comes earlier
than declared is refused; and the relation is never smaller than the exact one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pellucid.errors import PipelineError, StepError, UsageError
from pellucid.internal.model import Budget, CutShort, Search
from pellucid.progress.graph import LISTED, Event, Graph, History, Received, Result
from pellucid.progress.reachability import Builder, Location, PathSummaries, Source, Target, standing_loop
from pellucid.progress.summaries import Same, Shift, Step, Summary, layout, pack, summary
from pellucid.progress.times import Time, hashed


class Pointstamp(NamedTuple):
    """A location and a time."""

    location: str
    time: Time

    def __str__(self) -> str:
        return f"({self.location}, {self.time})"


@dataclass(frozen=True)
class Link:
    """From one location to the next: ``because`` says, for pairs of times, how; None where the time stays as it is."""

    target: str
    because: Mapping[tuple[Time, Time], str] | None = None


@dataclass(frozen=True)
class Proof:
    """That one pointstamp could result in another: the path with its times, and why each step is possible.

    The times are those of Definition 2: the first is at or after the time asked, the last at or before the one reached.
    """

    start: Pointstamp
    end: Pointstamp
    path: tuple[Pointstamp, ...]
    because: tuple[str, ...]  # one less than the path

    def __str__(self) -> str:
        head = f"{self.start} could result in {self.end}"
        if len(self.path) == 1:
            return f"{head}: it is the same location, and {self.start.time} ≤ {self.end.time}"
        steps = (f"  {b}: {why}" for b, why in zip(self.path[1:], self.because, strict=True))
        return "\n".join([f"{head}:", f"  {self.path[0]}", *steps])

    def __len__(self) -> int:
        return len(self.path)


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass
class Relation:
    """Could-result-in between the pointstamps of a graph with finitely many times.

    >>> from pellucid.progress.could_result_in import exact
    >>> from pellucid.progress.graph import Graph, buffer
    >>> r = exact(Graph({"a": buffer("o")}, {"i": (None, "a"), "o": ("a", None)}, times=range(3)))
    >>> r.holds(("i", 0), ("o", 2)), r.holds(("i", 2), ("o", 1))
    (True, False)
    >>> print(r.prove(("i", 0), ("o", 2)))
    (i, 0) could result in (o, 2):
      (i, 0)
      (a, 0): i leads to a
      (o, 0): a, at its start, on message 0 on i sends 0 on o
    """

    graph: Graph
    links: Mapping[str, Sequence[Link]] = field(repr=False)
    budget: Budget = field(default_factory=lambda: Budget(None, 1_000_000), repr=False)
    name: str = "could-result-in"

    def __post_init__(self) -> None:
        self.times = self.graph.times
        self.at = {t: i for i, t in enumerate(self.times)}
        le = self.graph.order.le  # the graph has looked at its times
        self.up, self.down = [0] * len(self.times), [0] * len(self.times)
        for i, t in enumerate(self.times):
            self._in_time()
            for j, u in enumerate(self.times):
                if le(t, u):
                    self.up[i] |= 1 << j
                    self.down[j] |= 1 << i
        self.index = {x: i for i, x in enumerate(self.graph.locations)}
        self._moves = {x: [(k.target, self._masks(k)) for k in ks] for x, ks in self.links.items()}
        self._everywhere = {x: [self._all_paths(x, i) for i in range(len(self.times))] for x in self.index}
        rounds = (seen[x] == self.up[i] for x, per in self._everywhere.items() for i, seen in enumerate(per))
        self._reach = self._everywhere if all(rounds) else {x: self._simple_paths(x) for x in self.index}
        self.rows = self._rows(self._reach)  # by the number of a pointstamp: to which ones
        self.closed = self._rows(self._everywhere)

    # ---------------------------------------------------------------- making it

    def _masks(self, link: Link) -> list[int]:
        """For each time: the times at the other end, all later ones with them."""
        if link.because is None:
            return self.up
        masks = [0] * len(self.times)
        for u, v in link.because:
            if u in self.at and v in self.at:  # what leaves the times that are looked at leads nowhere there
                for i in bits(self.down[self.at[u]]):
                    masks[i] |= self.up[self.at[v]]
        return masks

    def _all_paths(self, x: str, time: int) -> dict[str, int]:
        """Where one gets from a location and a time: the times at each, whatever the path."""
        self._in_time()
        seen = {x: self.up[time]}
        waiting = deque([(x, seen[x])])
        while waiting:
            y, new = waiting.popleft()
            for z, masks in self._moves.get(y, ()):
                got = 0
                for i in bits(new):
                    got |= masks[i]
                more = got & ~seen.get(z, 0)
                if more:
                    seen[z] = seen.get(z, 0) | more
                    waiting.append((z, more))
        return seen

    def _in_time(self) -> None:
        if self.budget.over:
            raise CutShort(
                f"the time limit of {self.budget.timeout:g} s was reached while could-result-in was computed"
            )

    def _simple_paths(self, x: str) -> list[dict[str, int]]:
        """The same along paths whose locations are all different."""
        out: list[dict[str, int]] = [{} for _ in self.times]
        stack: list[tuple[str, frozenset[str], list[int]]] = [(x, frozenset([x]), self.up)]
        count = 0
        while stack:
            y, visited, now = stack.pop()
            count += 1
            if not count & 1023:
                self.budget.look(count, len(stack))
            for i, mask in enumerate(now):
                if mask:
                    out[i][y] = out[i].get(y, 0) | mask
            for z, masks in self._moves.get(y, ()):
                if z not in visited:
                    then = [_image(mask, masks) for mask in now]
                    if any(then):
                        stack.append((z, visited | {z}, then))
        return out

    def _rows(self, reach: Mapping[str, Sequence[Mapping[str, int]]]) -> list[int]:
        count = len(self.times)
        return [
            sum(mask << (self.index[y] * count) for y, mask in reach[x][i].items())
            for x in self.index
            for i in range(count)
        ]

    # ---------------------------------------------------------------- asking it

    def number(self, point: tuple[str, Time]) -> int:
        """The number of a pointstamp, the position of its bit."""
        x, t = point
        self.graph.known(x)
        if not hashed(t) or t not in self.at:
            self.graph.order.check(t)
            raise UsageError(f"{self.graph.name}: {t!r} is not among its times: {', '.join(map(repr, self.times))}")
        if type(t) is bool:  # Python takes it for a number
            self.graph.order.check(t)
        return self.index[x] * len(self.times) + self.at[t]

    def pointstamp(self, number: int) -> Pointstamp:
        """The pointstamp with a number."""
        i, j = divmod(number, len(self.times))
        return Pointstamp(self.graph.locations[i], self.times[j])

    def pointstamps(self) -> list[Pointstamp]:
        """All of them."""
        return [Pointstamp(x, t) for x in self.index for t in self.times]

    def holds(self, a: tuple[str, Time], b: tuple[str, Time]) -> bool:
        """Whether a message or notification at ``a`` may lead to one at ``b``."""
        return bool(self.rows[self.number(a)] >> self.number(b) & 1)

    def then(self, a: str, time: int, b: str) -> int:
        """The times, as a number with a bit for each, to which ``a`` at one of the times leads at ``b``."""
        return self._reach[a][time].get(b, 0)

    def close(self, points: Iterable[tuple[str, Time]]) -> frozenset[Pointstamp]:
        """Close↑: the least set with these pointstamps that has, with each, all that it could result in."""
        mask = 0
        for point in points:
            mask |= self.closed[self.number(point)]
        return frozenset(map(self.pointstamp, bits(mask)))

    def prove(self, a: tuple[str, Time], b: tuple[str, Time], *, closed: bool = False) -> Proof | None:
        """A shortest proof that ``a`` could result in ``b``, None if it could not.

        With ``closed``, that ``b`` is in the closure of ``a``: then the path may come to a location twice.
        """
        rows = self.closed if closed else self.rows
        if not rows[self.number(a)] >> self.number(b) & 1:
            return None
        a, b = Pointstamp(*a), Pointstamp(*b)
        if (
            closed or self._reach is self._everywhere
        ):  # a shortest path does not come to a location twice if that gains nothing
            return self._walked(a, b)
        waiting: deque[tuple[tuple[str, ...], int]] = deque([((a.location,), self.up[self.at[a.time]])])
        while True:
            path, mask = waiting.popleft()
            if path[-1] == b.location and mask >> self.at[b.time] & 1:
                return self._with_times(a, b, path)
            for z, masks in self._moves.get(path[-1], ()):
                if z not in path and (got := _image(mask, masks)):
                    waiting.append(((*path, z), got))

    def _walked(self, a: Pointstamp, b: Pointstamp) -> Proof:
        leq = self.graph.order.less_equal
        search: Search[Pointstamp, str] = Search([a], self.follow)
        for at, _ in search:
            if at.location == b.location and leq(at.time, b.time):
                path = [at]
                while (before := search.parents[path[-1]]) is not None:
                    path.append(before[0])
                return Proof(a, b, tuple(path[::-1]), tuple(search.way(at)))
        raise AssertionError((a, b))

    def follow(self, at: Pointstamp) -> Iterator[tuple[str, Pointstamp]]:
        """One link from a pointstamp: why it is there, and where it leads."""
        leq = self.graph.order.less_equal
        for link in self.links.get(at.location, ()):
            if link.because is None:
                yield f"{at.location} leads to {link.target}", Pointstamp(link.target, at.time)
                continue
            for (u, v), why in link.because.items():
                if v in self.at and leq(at.time, u):
                    yield why, Pointstamp(link.target, v)

    def _with_times(self, a: Pointstamp, b: Pointstamp, path: tuple[str, ...]) -> Proof:
        links = [[k for k in self.links[x] if k.target == y] for x, y in pairwise(path)]
        need = [self.down[self.at[b.time]]]  # the times from which the rest of the path leads to b
        for step in reversed(links):
            need.insert(0, sum(1 << i for i in range(len(self.times)) if self._pair(step, i, need[0]) is not None))
        at, points, because = self.at[a.time], [a], []
        for (x, y), step, then in zip(pairwise(path), links, need[1:], strict=True):
            found = self._pair(step, at, then)
            assert found is not None
            at, why = found
            points.append(Pointstamp(y, self.times[at]))
            because.append(why or f"{x} leads to {y}")
        return Proof(a, b, tuple(points), tuple(because))

    def _pair(self, step: Sequence[Link], time: int, need: int) -> tuple[int, str] | None:
        """How one of these links gets from a time to one that is needed: the time there, and why."""
        for link in step:
            if link.because is None:
                if need >> time & 1:
                    return time, ""
                continue
            for (u, v), why in link.because.items():
                if u in self.at and v in self.at and self.up[time] >> self.at[u] & 1 and need >> self.at[v] & 1:
                    return self.at[v], why
        return None

    # ---------------------------------------------------------------- Theorem 1

    def not_transitive(self) -> tuple[Pointstamp, Pointstamp, Pointstamp] | None:
        """Three pointstamps that show that it is not transitive; None if it is."""
        for a, row in enumerate(self.rows):
            for b in bits(row):
                lost = self.rows[b] & ~row
                if lost:
                    return self.pointstamp(a), self.pointstamp(b), self.pointstamp(next(bits(lost)))
        return None


def _image(mask: int, masks: Sequence[int]) -> int:
    got = 0
    for i in bits(mask):
        got |= masks[i]
    return got


def within(a: Relation, b: Relation) -> tuple[Pointstamp, Pointstamp] | None:
    """None if all of ``a`` is in ``b``; else a pair that is not."""
    for i, (row, other) in enumerate(zip(a.rows, b.rows, strict=True)):
        if row & ~other:
            return a.pointstamp(i), a.pointstamp(next(bits(row & ~other)))
    return None


class OneStep(NamedTuple):
    """Definition 1: after a local history an event makes a node send a time on an edge."""

    node: str
    history: History
    event: Event
    edge: str
    time: Time

    def __str__(self) -> str:
        return f"{self.node}, {after(self.history)}, on {self.event} sends {self.time} on {self.edge}"


class Request(NamedTuple):
    """Definition 3: after a local history an event makes a node ask for a time for which no request was pending."""

    node: str
    history: History
    event: Event
    time: Time

    def __str__(self) -> str:
        return f"{self.node}, {after(self.history)}, on {self.event} asks for {self.time}"


def after(history: History) -> str:
    """A history, as it stands in a sentence."""
    return f"after {history}" if history.events else "at its start"


def doings(graph: Graph, node: str, budget: Budget | None = None) -> Iterator[OneStep | Request]:
    """All that a node can send and newly ask for, each once for an event's time and edge, with a shortest local
    history."""
    search = graph.histories(node, budget)
    known: set[tuple[object, ...]] = set()
    for (state, requests), _ in search:
        for event in graph.events(node):
            result = graph.g1(node, state, event)
            came = event.edge if isinstance(event, Received) else None
            for time in result.requests - requests:
                if (came, event.time, time) not in known:
                    known.add((came, event.time, time))
                    yield Request(node, _history(search, (state, requests)), event, time)
            for edge, messages in zip(graph.out[node], result.messages, strict=True):
                for message in messages:
                    if (came, event.time, edge, message.time) not in known:
                        known.add((came, event.time, edge, message.time))
                        yield OneStep(node, _history(search, (state, requests)), event, edge, message.time)


def _history(search: Search[Any, Event], end: Any) -> History:
    events, at = search.way(end), end
    while (before := search.parents[at]) is not None:
        at = before[0]
    return History(at[0], at[1], tuple(events))


def exact(graph: Graph, *, ports: bool = False, budget: Budget | None = None) -> Relation:
    """The relation of Definitions 1 and 2; with ``ports``, one that knows on which edge a message came.

    A node whose local histories cannot be listed is refused; where a ``budget`` is given, that ends with `CutShort`.

    >>> from pellucid.progress.graph import Message, Node
    >>> cross = Node(lambda s, edge, m: (s, [], {edge + "2": [m]}))
    >>> edges = {"l": (None, "p"), "r": (None, "p"), "l2": ("p", None), "r2": ("p", None)}
    >>> graph = Graph({"p": cross}, edges, times=[0])
    >>> [exact(graph, ports=ports).holds(("l", 0), ("r2", 0)) for ports in (False, True)]
    [True, False]
    """
    try:
        return _exact(graph, ports, budget)
    except CutShort as cut:
        if budget is not None:
            raise
        raise UsageError(
            f"{graph.name}: what its nodes can do cannot be listed: {cut}; let them have fewer states and list "
            "values=, or take the relation by summaries, conservative(graph)"
        ) from None


def _exact(graph: Graph, ports: bool, budget: Budget | None) -> Relation:
    links: dict[str, dict[str, dict[tuple[Time, Time], str] | None]] = {x: {} for x in graph.locations}
    for node in graph.nodes:
        if not ports:
            for edge in graph.into[node]:
                links[edge][node] = None
        for doing in doings(graph, node, budget):
            asks = isinstance(doing, Request)
            came = doing.event.edge if ports and isinstance(doing.event, Received) else node
            to = node if isinstance(doing, Request) else doing.edge
            if asks and (came == node or not ports):
                continue
            because = links[came].setdefault(to, {})
            assert because is not None
            because.setdefault((doing.event.time, doing.time), str(doing))
    made = {x: [Link(y, because) for y, because in to.items()] for x, to in links.items()}
    return Relation(graph, made, budget or Budget(None, 1_000_000), "with ports" if ports else "could-result-in")


def summaries_of(graph: Graph, node: str, came: str | None, edge: str) -> tuple[Summary, ...]:
    """What a node declares from an input edge (None: from a notification) to an output edge.

    >>> from pellucid.progress.graph import buffer
    >>> summaries_of(Graph({"a": buffer("o")}, {"i": (None, "a"), "o": ("a", None)}), "a", "i", "o")
    (+0,)
    """
    declared = graph.nodes[node].summaries
    if not declared:
        return (Same(graph.order),)
    return tuple(s for key in (edge, (came, edge)) for s in _several(graph, node, key, declared.get(key, [])))


def _several(graph: Graph, node: str, key: Any, given: Any) -> list[Summary]:
    """What is declared for one pair: a summary, what is added to a time, or a list of those."""
    where = f"node {node!r}, summary for {key!r}"
    each = given if isinstance(given, list) else [given]
    return [s if isinstance(s, Summary) else summary(graph.order, s, where=where) for s in each]


def conservative(graph: Graph, *, ports: bool = False, budget: Budget | None = None) -> Relation:
    """The relation that the summaries give, over the graph's finitely many times: it holds wherever the exact one does.

    With ``ports``, from an input edge only what is declared for it; without, one summary for each node and output edge.

    >>> from pellucid.progress.graph import Message, Node
    >>> silent = Graph({"a": Node()}, {"i": (None, "a"), "o": ("a", None)}, times=[0, 1])
    >>> conservative(silent).holds(("i", 0), ("o", 1))
    True
    """
    links: dict[str, list[Link]] = {x: [] for x in graph.locations}
    times = graph.times
    for node in graph.nodes:
        for came in (None, *graph.into[node]):
            if came is not None:
                links[came].append(Link(node))
            for edge in graph.out[node]:
                because: dict[tuple[Time, Time], str] = {}
                for s in summaries_of(graph, node, came, edge):
                    for t in times:
                        then = s.results_in(t) if s.source.holds(t) else None
                        for known in () if then is None else _from(graph, then):
                            because.setdefault((t, known), f"{node} passes {t} on as {then}, by {s}")
                if because:
                    links[came if ports and came is not None else node].append(Link(edge, because))
    return Relation(graph, links, budget or Budget(None, 1_000_000), name="by summaries")


def usual(graph: Graph) -> Relation:
    """The exact relation where the local histories of all nodes can be listed, else the one by summaries."""
    try:
        return exact(graph, budget=Budget(None, LISTED))
    except CutShort:
        return conservative(graph.declaring())


def _from(graph: Graph, time: Time) -> list[Time]:
    """The least of the graph's times that are at or after a time, which may be none of them."""
    leq = graph.order.less_equal
    later = [t for t in graph.times if leq(time, t)]
    return [t for t in later if not any(leq(u, t) and not leq(t, u) for u in later)]


def inferred(graph: Graph, *, ports: bool = False, budget: Budget | None = None) -> Graph:
    """The graph with summaries that are read off its nodes' local histories: what each output is later by at the least.

    For times of whole numbers that is something added, which says more than was seen; for others exactly what was seen.

    >>> from pellucid.progress.graph import buffer
    >>> later = buffer("o", to=lambda t: t + 1 if t < 2 else None)
    >>> graph = Graph({"a": later}, {"i": (None, "a"), "o": ("a", None)}, times=range(3))
    >>> inferred(graph).nodes["a"].summaries
    {'o': [+1]}
    """
    found: dict[str, dict[Any, Any]] = {}
    for node in graph.nodes:
        seen: dict[Any, list[tuple[Time, Time]]] = {}
        for doing in doings(graph, node, budget):
            if isinstance(doing, OneStep):
                came = doing.event.edge if isinstance(doing.event, Received) else None
                seen.setdefault((came, doing.edge) if ports else doing.edge, []).append((doing.event.time, doing.time))
        found[node] = {key: _least(graph, pairs) for key, pairs in seen.items()}
        for edge in graph.out[node]:  # what is not seen is declared as well: nothing comes from there
            found[node].setdefault(edge, [])
    return graph.declaring(found)


def _least(graph: Graph, pairs: list[tuple[Time, Time]]) -> list[Summary]:
    order = graph.order
    if layout(order) is not None:
        rows = [(pack(order, a), pack(order, b)) for a, b in pairs]
        return [Shift(order, order, [min(b[i] - a[i] for a, b in rows) for i in range(len(rows[0][0]))])]

    def step(until: Time, then: Time) -> Summary:
        return Step(
            f"{until} to {then}", lambda t: then if order.less_equal(t, until) else None, order, samples=graph.times
        )

    return [step(a, b) for a, b in pairs]


def keep_to_summaries(graph: Graph, node: str, event: Event, result: Result) -> None:
    """Refuse a message that comes earlier than its node declares."""
    leq = graph.order.less_equal
    came = event.edge if isinstance(event, Received) else None
    for edge, messages in zip(graph.out[node], result.messages, strict=True):
        known = summaries_of(graph, node, came, edge)
        least = [then for s in known if s.source.holds(event.time) and (then := s.results_in(event.time)) is not None]
        for m in messages:
            if not any(leq(t, m.time) for t in least):
                says = f"at or after {', '.join(map(str, least))}" if least else "nothing there"
                raise StepError(
                    f"node {node!r}, {event}: sends {m} on {edge}, earlier than it declares: "
                    f"{', '.join(map(str, known)) or 'no summary'}, so {says}"
                    f"{_round(graph, node, event.time, edge, m.time)}",
                    step=node,
                )


def builder_of(graph: Graph) -> Builder:
    """The graph as the clock sees it: edges are ports, in the order in which the graph has them; what a notification
    sends comes from whatever asked for it.

    >>> from pellucid.progress.graph import buffer
    >>> graph = Graph({"a": buffer("e"), "b": buffer("o")}, {"i": (None, "a"), "e": ("a", "b"), "o": ("b", None)})
    >>> clock = builder_of(graph).build()
    >>> clock.update_target(Target("a"), 3, 1); clock.propagate_all(); clock.frontier(Source("b"))
    Antichain([3])
    """
    builder = Builder(graph.order)
    for node in graph.nodes:
        ways = [
            {
                i: [*summaries_of(graph, node, came, edge), *summaries_of(graph, node, None, edge)]
                for i, edge in enumerate(graph.out[node])
            }
            for came in graph.into[node]
        ]
        builder.add_node(node, len(graph.into[node]), len(graph.out[node]), ways)
    for edge in graph.internal:
        a, b = graph.edges[edge]
        assert a is not None and b is not None
        builder.add_edge(Source(a, graph.out[a].index(edge)), Target(b, graph.into[b].index(edge)))
    return builder


def _round(graph: Graph, node: str, time: Time, edge: str, sent: Time) -> str:
    """Condition 2's proof that such a message comes back too early, if it does."""
    paths = PathSummaries(builder_of(graph))
    for i in range(len(graph.into[node])):
        for path in paths.between(Source(node, graph.out[node].index(edge)), Target(node, i)):
            back = path.summary.results_in(sent)
            if back is not None and not graph.order.less_equal(time, back):
                way = _names(graph, path.places)
                proof = f"({node}, {time}) could result in ({way[-1]}, {back}) by {' → '.join((node, *way))}"
                return f"; that is into its own past (Condition 2): {proof}"
    return ""


def _names(graph: Graph, places: Iterable[Location]) -> tuple[str, ...]:
    """The edges and nodes of a way through the ports."""
    names: list[str] = []
    for place in places:
        edge = (graph.into if place.is_target else graph.out)[place.node][place.port]
        names += [edge] if place.is_source else [edge, place.node]
    kept = [a for a, b in zip(names, [*names[1:], None], strict=True) if a != b]  # an edge has a port at either end
    return tuple(kept[:-1])  # the way ends at an edge


def check_declared(graph: Graph) -> None:
    """Refuse a graph whose summaries do not fit together, lead into the past, or let a time go round unchanged."""
    for node, p in graph.nodes.items():
        for key, given in p.summaries.items():
            came, edge = key if isinstance(key, tuple) and len(key) == 2 else (None, key)
            if edge not in graph.out[node] or (came is not None and came not in graph.into[node]):
                raise PipelineError(
                    f"node {node!r} declares a summary for {key!r}: its edges are {_words(graph.into[node])} in, "
                    f"{_words(graph.out[node])} out; write an output edge, or a pair (input edge, output edge)"
                )
            _several(graph, node, key, given)
    found = standing_loop(builder_of(graph).arcs())
    if found is None:
        return
    way = _names(graph, found.places)
    node = found.places[0].node
    together = f"{' → '.join(way)} (together {found.summary})"
    if found.back:
        raise PipelineError(
            f"node {node!r} sends into the past: Condition 2: ({node}, {found.time}) could result in "
            f"({way[0]}, {found.then}), by {together}"
        )
    raise PipelineError(
        f"no time passes on the way {together}: a notification of {node!r} for {found.time} would never come, as what "
        f"it sends could come back to it at {found.then}; let one node on the way advance the time"
    )


def _words(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"
