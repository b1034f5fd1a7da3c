"""Graphs for the clock: nodes with ports and summaries, edges between ports; paths, loops, and the clock itself.

A *location* is a port of a node: `Target` for an input, `Source` for an output (an edge goes from a source to a
target).  An edge leaves a time as it is; a node takes a time from an input to an output by one of its summaries, and an
input that has none for an output never leads there.

`PathSummaries` are, between any two locations, the ways of which none says less than another.  They give the
conservative *could-result-in*: a message or a notification at one location and time may lead to one at another location
if a path's summary takes its time to one that is not later.  Every answer comes with the path, and the time at each
location on it.

`Builder.build` refuses a graph in which a loop does not advance the time: a notification inside would wait for itself.
A loop whose way back takes some time to itself satisfies the paper's Condition 2, and a clock for it would never let
that time pass.  One that takes a time to an earlier one, or to one that is in no order with it, breaks Condition 2: a
node sends into the past.

`Tracker` is the clock.  Names are those of timely-dataflow's ``progress::reachability``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.internal.model.search import components
from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
from pellucid.progress.summaries import Chain, Same, Set, Shift, Summary, Tagged, layout, pack, summary
from pellucid.progress.times import LEAST, MOST, Domains, Integers, Order, Time, hashed, several, whole

# ---------------------------------------------------------------- the ends of 64 bits
#
# How far the numbers of a time have to stay from the ends of 64 bits, which are no bound that a user chose.
#
# A coordinate that decides alone may come to either end: beyond the upper one there is no time, so it leads nowhere,
# and below the lower one there are all, so it leads to the first.  Among coordinates that decide one after the other
# (`Lexicographic`, the counters of a loop inside a loop) that is not so: ``(1, 2**63 - 1)`` with one more in its last
# number leads to no time that begins with 1, and yet there are later ones, such as ``(2, 0)``, that lead on.  A clock
# that keeps the least times would forget them.  So times that could come that far on their way through the graph are
# refused by name, where they come in: each location adds to a time at most once before the time comes back to it
# later, so no number moves by more than the sum of what all locations add.


class Ends(NamedTuple):
    """For coordinates that must stay away from an end: the least and the greatest number that they may begin with."""

    low: dict[int, int]
    high: dict[int, int]

    def refuse(self, order: Order, time: Time, where: str) -> None:
        """An error for a time that is too near an end.

        >>> from pellucid.progress import Integers, Lexicographic
        >>> Ends({}, {1: MOST - 1}).refuse(Lexicographic(Integers(), Integers()), (7, MOST), "a.in0")
        Traceback (most recent call last):
        pellucid.errors.UsageError: a.in0: the time (7, 9223372036854775807) is too near the end of 64 bits: ...
        """
        if not self.low and not self.high:
            return
        inner, shown = order, time
        if isinstance(order, Domains):
            inner, shown = order.domains[time[0]], time[1]
        if layout(inner) is None:
            return
        for p, n in enumerate(pack(inner, shown)):
            low, high = self.low.get(p, LEAST), self.high.get(p, MOST)
            if not low <= n <= high:
                span = f"at most {high}" if n > high else f"at least {low}"
                raise UsageError(
                    f"{where}: the time {time!r} is too near the end of 64 bits: on its way through the graph its "
                    f"number {n} could leave them, and later times that may still come would be forgotten; it may be "
                    f"{span}"
                )


def ends(orders: Sequence[Order], ways: Sequence[Iterable[tuple[int, Summary]]]) -> Ends:
    """How far from the ends the times of a graph have to stay; refuse a graph in which there is no room left."""
    below, above = _bound(orders)
    if not below and not above:
        return Ends({}, {})
    down, up = dict.fromkeys(below, 0), dict.fromkeys(above, 0)
    for leads in ways:
        most_down, most_up = dict.fromkeys(below, 0), dict.fromkeys(above, 0)
        for _, way in leads:
            for shift in shifts(way):
                for p, move in enumerate(shift.moves):
                    if isinstance(move, int):
                        if p in below:
                            most_down[p] = max(most_down[p], -move)
                        if p in above:
                            most_up[p] = max(most_up[p], move)
        for p, n in most_down.items():
            down[p] += n
        for p, n in most_up.items():
            up[p] += n
    found = Ends({p: LEAST + n for p, n in down.items() if n}, {p: MOST - n for p, n in up.items() if n})
    for leads in ways:
        for _, way in leads:
            _check_set(way, found)
    for p in {*found.low, *found.high}:
        if found.low.get(p, LEAST) > found.high.get(p, MOST) or down.get(p, 0) > MOST or up.get(p, 0) > MOST:
            raise PipelineError(
                f"the summaries of the graph move number {p} of a time by more than 64 bits hold, where numbers decide "
                "one after the other: take smaller ones"
            )
    return found


def _bound(orders: Iterable[Order]) -> tuple[set[int], set[int]]:
    """The coordinates that must not leave 64 bits at the lower end, and at the upper one."""
    below: set[int] = set()
    above: set[int] = set()
    for order in set(orders):
        for one in order.domains.values() if isinstance(order, Domains) else (order,):
            shape = layout(one)
            at = 0
            for size in shape.groups if shape is not None else ():
                assert shape is not None
                for p in range(at, at + size) if size > 1 else ():
                    if shape.low[p] == LEAST:
                        below.add(p)
                    if p > at and shape.high[p] == MOST:
                        above.add(p)
                at += size
    return below, above


def shifts(way: Summary) -> Iterator[Shift]:
    """What a summary adds, wherever it does."""
    if isinstance(way, Shift):
        yield way
    elif isinstance(way, Tagged):
        for _, inner in way.ways.values():
            yield from shifts(inner)
    elif isinstance(way, Chain):
        for inner in way.ways:
            yield from shifts(inner)


def _check_set(way: Summary, found: Ends) -> None:
    for shift in shifts(way):
        for p, move in enumerate(shift.moves):
            if isinstance(move, Set) and not found.low.get(p, LEAST) <= move.to <= found.high.get(p, MOST):
                raise PipelineError(
                    f"the summary {shift} sets a number to {move.to}, which is too near the end of 64 bits: what the "
                    "graph adds to it later leads out of them"
                )


# ---------------------------------------------------------------- graphs

_DENSE = (
    10_000  # pairs of an input and an output that are written down where it is not said which of them are connected
)


class Location(NamedTuple):
    """A port of a node."""

    node: Any
    side: str  # "in" or "out"
    port: int

    @property
    def is_target(self) -> bool:
        """Whether messages come in there.

        >>> Target(0, 1).is_target, Source(0, 1).is_target
        (True, False)
        """
        return self.side == "in"

    @property
    def is_source(self) -> bool:
        """Whether messages go out there.

        >>> Source(0, 1).is_source
        True
        """
        return self.side == "out"

    def __str__(self) -> str:
        return f"{self.node}.{self.side}{self.port}"


def Source(node: Hashable, port: int = 0) -> Location:  # noqa: N802 - as in timely-dataflow
    """An output of a node.

    >>> str(Source(2, 1))
    '2.out1'
    """
    return Location(node, "out", port)


def Target(node: Hashable, port: int = 0) -> Location:  # noqa: N802
    """An input of a node.

    >>> str(Target(2, 1))
    '2.in1'
    """
    return Location(node, "in", port)


class _Node(NamedTuple):
    inputs: tuple[Order, ...]
    outputs: tuple[Order, ...]
    ways: tuple[dict[int, tuple[Summary, ...]], ...]  # for each input: output -> summaries, none of them superfluous


def _refuse_forgetting(way: Summary, where: str) -> None:
    pair = way.forgets()
    if pair is not None:
        lost, later = pair
        raise PipelineError(
            f"{where}: the summary {way} is not monotone on times of {way.source}: {lost!r} leads nowhere and the "
            f"later {later!r} to {way.results_in(later)!r}, which a clock that keeps the least times would forget; "
            "take times without that bound, or a Step that says where the earlier ones lead"
        )


class Builder:
    """A graph under construction.

    >>> graph = Builder()
    >>> graph.add_node(0, 1, 1, [[0]])
    >>> graph.add_node(1, 1, 1, [[0]])
    >>> graph.add_node(2, 1, 1, [[1]])
    >>> graph.add_edge(Source(0), Target(1)); graph.add_edge(Source(1), Target(2)); graph.add_edge(Source(2), Target(0))
    >>> tracker = graph.build()
    >>> tracker.update_source(Source(0), 17, 1)
    >>> tracker.propagate_all()
    >>> [(str(at), time, n) for (at, time), n in tracker.pushed().drain() if at.is_target]
    [('0.in0', 18, 1), ('1.in0', 17, 1), ('2.in0', 17, 1)]
    """

    def __init__(self, order: Order | None = None) -> None:
        """``order``: what the times are at every port unless an order is given there."""
        self.order = Integers() if order is None else order
        if not isinstance(self.order, Order):
            raise UsageError(f"Builder({order!r}): an order of times is needed, such as Integers()")
        self.nodes: dict[Any, _Node] = {}
        self.edges: dict[Location, list[Location]] = {}
        self._plain: dict[Any, tuple[Summary, ...]] = {}  # numbers that were given as summaries: a node may have many

    def add_node(
        self,
        index: Hashable,
        inputs: int,
        outputs: int,
        summaries: Sequence[Any] | None = None,
        *,
        orders_in: Sequence[Order] | None = None,
        orders_out: Sequence[Order] | None = None,
    ) -> None:
        """A node.  ``summaries[i]`` says for input ``i`` how it leads to the outputs: a list with one entry for each
        output, or a dict for those that it leads to.  An entry is a summary (see `summaries`; a number is added), or a
        list or `Antichain` of them; None or an empty one: it never leads there.  Without ``summaries`` every input
        leads to every output and the time stays as it is.  ``orders_in`` and ``orders_out`` are for ports whose
        times are of another order than the builder's.

        >>> Builder().add_node("a", 2, 1, [[0], [{}]])
        Traceback (most recent call last):
        pellucid.errors.UsageError: node 'a', input 1 to output 0: {} is no summary of times of integers of 64 bits...
        """
        name = f"node {index!r}"
        if not hashed(index):
            raise UsageError(f"{name}: a name that can change is none: give a text, a number or a tuple")
        if index in self.nodes:
            raise UsageError(f"{name} is there already; every node has a name of its own")
        for count, what in ((inputs, "inputs"), (outputs, "outputs")):
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise UsageError(f"{name}: {what} is {count!r}; a number of ports is needed, 0 or more")
        ins = self._orders(name, "orders_in", inputs, orders_in)
        outs = self._orders(name, "orders_out", outputs, orders_out)
        if summaries is None:
            if inputs * outputs > _DENSE:
                raise UsageError(
                    f"{name} has {inputs} inputs and {outputs} outputs: say which are connected, summaries=[{{0: 0}}, "
                    "…] with a dict for each input"
                )
            summaries = [[0] * outputs for _ in range(inputs)]
        if not isinstance(summaries, (list, tuple)):
            raise UsageError(f"{name}: summaries={summaries!r}: a list with one entry for each input is expected")
        if len(summaries) != inputs:
            raise UsageError(
                f"{name} has {inputs} inputs; summaries has {len(summaries)} entries, one is for each input"
            )
        ways = [self._ways(f"{name}, input {i}", ins[i], outs, given) for i, given in enumerate(summaries)]
        self.nodes[index] = _Node(ins, outs, tuple(ways))

    def _orders(self, name: str, what: str, count: int, given: Sequence[Order] | None) -> tuple[Order, ...]:
        if given is None:
            return (self.order,) * count
        listed = isinstance(given, (list, tuple)) and all(isinstance(order, Order) for order in given)
        if not listed or len(given) != count:
            raise UsageError(f"{name}: {what} is {given!r}; {count} orders are needed, one for each port")
        return tuple(given)

    def _ways(self, name: str, order: Order, outs: tuple[Order, ...], given: Any) -> dict[int, tuple[Summary, ...]]:
        if isinstance(given, Mapping):
            pairs = list(given.items())
        elif isinstance(given, (list, tuple)) and len(given) == len(outs):
            pairs = list(enumerate(given))
        else:
            raise UsageError(
                f"{name}: {given!r} does not say how it leads to {len(outs)} outputs; give a list or a dict"
            )
        ways: dict[int, tuple[Summary, ...]] = {}
        for port, entry in pairs:
            if not isinstance(port, int) or not 0 <= port < len(outs):
                raise UsageError(f"{name}: there is no output {port!r}; the node has {len(outs)}")
            plain = (id(order), id(outs[port]), entry) if type(entry) is int else None
            if plain in self._plain:
                ways[port] = self._plain[plain]
                continue
            several = list(entry) if isinstance(entry, (list, set, frozenset, Antichain)) else [entry]
            where = f"{name} to output {port}"
            found = [summary(order, one, outs[port], where) for one in several if one is not None]
            for way in found:
                _refuse_forgetting(way, where)
            if found:
                ways[port] = tuple(least(found))
            if plain is not None:
                self._plain[plain] = ways[port]
        return ways

    def add_edge(self, source: Location, target: Location) -> None:
        """An edge from an output to an input.

        >>> graph = Builder(); graph.add_node(0, 1, 1, [[0]])
        >>> graph.add_edge(Source(0), Target(1))
        Traceback (most recent call last):
        pellucid.errors.UsageError: 1.in0 is not in the graph: there is no node 1; there are 0
        """
        if not (
            isinstance(source, Location) and source.is_source and isinstance(target, Location) and target.is_target
        ):
            raise UsageError(
                f"add_edge({source!s}, {target!s}): an edge goes from a Source(node, port) to a Target(node, port)"
            )
        out, into = self.order_at(source), self.order_at(target)
        if out != into:
            raise PipelineError(
                f"{source} → {target}: times of {out} go out and times of {into} come in; times of two domains cannot "
                "be compared: put a node with a summary between them"
            )
        targets = self.edges.setdefault(source, [])
        if target in targets:
            raise UsageError(f"{source} → {target}: this edge is there already")
        targets.append(target)

    def order_at(self, location: Location) -> Order:
        """What the times are at a port; a location that is not in the graph is refused.

        >>> graph = Builder(); graph.add_node(0, 1, 2, [[0, 0]])
        >>> graph.order_at(Source(0, 2))
        Traceback (most recent call last):
        pellucid.errors.UsageError: 0.out2 is not in the graph: node 0 has the outputs 0 to 1
        """
        if not isinstance(location, Location):
            raise UsageError(f"{location!r} is no location: give a Source(node, port) or a Target(node, port)")
        node = self.nodes.get(location.node) if hashed(location.node) else None
        if node is None:
            known = ", ".join(map(str, list(self.nodes)[:8])) + (", …" if len(self.nodes) > 8 else "")
            raise UsageError(
                f"{location} is not in the graph: there is no node {location.node}; there are {known or 'none'}"
            )
        ports = node.inputs if location.is_target else node.outputs
        if type(location.port) is not int or not 0 <= location.port < len(ports):
            side = "input" if location.is_target else "output"
            has = f"the {side}s 0 to {len(ports) - 1}" if ports else f"no {side}"
            raise UsageError(f"{location} is not in the graph: node {location.node} has {has}")
        return ports[location.port]

    def arcs(self) -> Arcs:
        """The graph as locations and the summaries between them."""
        places = [Location(n, "in", i) for n, node in self.nodes.items() for i in range(len(node.inputs))]
        places += [Location(n, "out", i) for n, node in self.nodes.items() for i in range(len(node.outputs))]
        at = {place: i for i, place in enumerate(places)}
        orders = [self.order_at(place) for place in places]
        ways: list[list[tuple[int, Summary]]] = []
        for place, order in zip(places, orders, strict=True):
            if place.is_target:
                node = self.nodes[place.node]
                leads = [(at[Location(place.node, "out", o)], s) for o, ss in node.ways[place.port].items() for s in ss]
            else:
                leads = [(at[target], Same(order)) for target in self.edges.get(place, ())]
            ways.append(leads)
        return Arcs(places, at, orders, ways, ends(orders, ways))

    def is_acyclic(self) -> bool:
        """Whether every loop advances the time.

        >>> graph = Builder(); graph.add_node(0, 2, 2, [{0: 0}, {1: 1}])
        >>> graph.add_edge(Source(0, 0), Target(0, 1)); graph.add_edge(Source(0, 1), Target(0, 0)); graph.is_acyclic()
        True
        """
        return standing_loop(self.arcs()) is None

    def build(self) -> Tracker:
        """The clock of the graph.

        >>> graph = Builder(); graph.add_node("a", 1, 1, [[0]]); graph.add_edge(Source("a"), Target("a"))
        >>> graph.build()
        Traceback (most recent call last):
        pellucid.errors.PipelineError: the loop a.in0 → a.out0 → a.in0 does not advance the time: a notification at node
        a for the time 0 would never come, ...
        """
        arcs = self.arcs()
        found = standing_loop(arcs)
        if found is not None:
            raise PipelineError(found.reason)
        return Tracker(arcs)


def least(found: Iterable[Summary]) -> list[Summary]:
    """Those of which none other says all that they say.

    >>> from pellucid.progress.summaries import advance
    >>> least([advance(Integers(), 2), advance(Integers(), 1), advance(Integers(), 1)])
    [+1]
    """
    out: list[Summary] = []
    for one in found:
        if not any(known.less_equal(one) for known in out):
            out = [known for known in out if not one.less_equal(known)] + [one]
    return out


class Arcs(NamedTuple):
    """A graph as numbered locations and the summaries between them."""

    places: list[Location]
    at: dict[Location, int]
    orders: list[Order]
    ways: list[list[tuple[int, Summary]]]
    ends: Ends

    def check(self, at: int, time: Time) -> Time:
        """The time, if it may come to a location: it is one of its order, and away from the ends of 64 bits."""
        where = str(self.places[at])
        self.orders[at].check(time, where)
        self.ends.refuse(self.orders[at], time, where)
        return time


def arcs_of(graph: Builder | Arcs) -> Arcs:
    """The locations and summaries of a graph under construction, or of one that is known already.

    >>> arcs_of("daily")
    Traceback (most recent call last):
    pellucid.errors.UsageError: a Builder is expected, found a str
    """
    if isinstance(graph, Builder):
        return graph.arcs()
    if not isinstance(graph, Arcs):
        raise UsageError(f"a Builder is expected, found a {type(graph).__name__}")
    return graph


# ---------------------------------------------------------------- paths


class Path(NamedTuple):
    """A way through the graph, and what it does to a time."""

    summary: Summary
    places: tuple[Location, ...]

    def __str__(self) -> str:
        return f"{' → '.join(map(str, self.places))}: {self.summary}"


class Label(NamedTuple):
    """A way that has come so far."""

    summary: Summary
    way: tuple[int, ...]


def spread(arcs: Arcs, start: int, within: Collection[int] | None = None) -> tuple[dict[int, list[Label]], list[Label]]:
    """From one location: the labels of the simple paths to each other one, without those that say nothing more; and
    the loops back to the start."""
    labels: dict[int, list[Label]] = {start: [Label(Same(arcs.orders[start]), (start,))]}
    loops: list[Label] = []
    todo = deque([(start, labels[start][0])])
    while todo:
        here, label = todo.popleft()
        if label not in labels[here]:  # another one says all of it by now
            continue
        for there, way in arcs.ways[here]:
            if within is not None and there not in within:
                continue
            whole = label.summary.followed_by(way)
            if whole is None:
                continue
            longer = Label(whole, (*label.way, there))
            if there == start:
                loops.append(longer)
            elif there not in label.way:
                known = labels.setdefault(there, [])
                if not any(other.summary.less_equal(whole) for other in known):
                    known[:] = [other for other in known if not whole.less_equal(other.summary)] + [longer]
                    todo.append((there, longer))
    return labels, loops


class PathSummaries:
    """The path summaries of a graph, computed for a location when it is asked for.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder()
    >>> for n, by in enumerate([0, 0, 1]): graph.add_node(n, 1, 1, [[by]])
    >>> for n in range(3): graph.add_edge(Source(n), Target((n + 1) % 3))
    >>> paths = PathSummaries(graph)
    >>> print(*paths.between(Source(0), Target(0)))
    0.out0 → 1.in0 → 1.out0 → 2.in0 → 2.out0 → 0.in0: +1
    """

    def __init__(self, graph: Builder | Arcs) -> None:
        self.arcs = arcs_of(graph)
        self._from: dict[int, dict[int, list[Label]]] = {}

    def _at(self, location: Location) -> int:
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            raise UsageError(
                f"{location!s} is not in the graph; its locations are {', '.join(map(str, self.arcs.places[:8]))}"
            )
        return at

    def labels(self, start: int) -> dict[int, list[Label]]:
        """From one location, by number."""
        if start not in self._from:
            self._from[start] = spread(self.arcs, start)[0]
        return self._from[start]

    def between(self, start: Location, end: Location) -> list[Path]:
        """The summaries of all paths, without those that say nothing more; from a location to itself the empty path.

        >>> from pellucid.progress import Source, Target
        >>> graph = Builder(); graph.add_node(0, 1, 1, [[[3, 5]]])
        >>> paths = PathSummaries(graph)
        >>> paths.between(Target(0), Source(0))[0].summary, paths.between(Source(0), Target(0))
        (+3, [])
        """
        found = self.labels(self._at(start)).get(self._at(end), [])
        return [Path(label.summary, tuple(self.arcs.places[n] for n in label.way)) for label in found]

    def could_result_in(
        self, start: Location, time: Time, end: Location, then: Time
    ) -> list[tuple[Location, Time]] | None:
        """The proof that ``(start, time)`` could result in ``(end, then)``: a path, and the least time at each of its
        locations; None if it could not.

        >>> from pellucid.progress import Source, Target
        >>> graph = Builder(); graph.add_node(0, 1, 1, [[2]])
        >>> proof = PathSummaries(graph).could_result_in(Target(0), 3, Source(0), 7)
        >>> [(str(at), t) for at, t in proof]
        [('0.in0', 3), ('0.out0', 5)]
        >>> PathSummaries(graph).could_result_in(Target(0), 3, Source(0), 4)
        """
        one, two = self._at(start), self._at(end)
        self.arcs.check(one, time)
        order = self.arcs.orders[two]
        order.check(then, str(end))
        for label in self.labels(one).get(two, ()):
            least = label.summary.results_in(time)
            if least is not None and order.le(least, then):
                return list(self._times(label.way, time, then))
        return None

    def _times(self, way: tuple[int, ...], time: Time, then: Time) -> Iterator[tuple[Location, Time]]:
        """The times along a way; where an arc has several summaries, one that keeps within the end."""
        for at, t in zip(way, self._along(way, time, then), strict=True):
            yield self.arcs.places[at], t

    def _along(self, way: tuple[int, ...], time: Time, then: Time) -> list[Time]:
        came: list[dict[Time, Time]] = [{time: time}]  # at each location, the times there and those before them
        for here, there in pairwise(way):
            steps = [summary for to, summary in self.arcs.ways[here] if to == there]
            ends = {end: t for t in came[-1] for s in steps if (end := s.results_in(t)) is not None}
            order = self.arcs.orders[there]
            least = Antichain(ends, order).elements()  # a later one leads to nothing that they do not lead to
            came.append({end: ends[end] for end in least})
        found = [next(t for t in came[-1] if self.arcs.orders[way[-1]].le(t, then))]
        for known in reversed(came[1:]):
            found.append(known[found[-1]])
        return found[::-1]


# ---------------------------------------------------------------- loops


class Loop(NamedTuple):
    """A loop, what it does to a time, and a time that shows it."""

    places: tuple[Location, ...]
    summary: Summary
    time: Time
    then: Time
    back: bool  # to a time that is not later, and not the same

    @property
    def reason(self) -> str:
        """Why it is refused, in words."""
        way = " → ".join(map(str, self.places))
        node = next(place.node for place in self.places if place.is_target)
        if self.back:
            return (
                f"the loop {way} leads into the past: its summary {self.summary} takes the time {self.time!r} to "
                f"{self.then!r}, so ({node}, {self.time!r}) could result in a message for {self.then!r} into node "
                f"{node}, and {self.time!r} ≤ {self.then!r} does not hold (Condition 2); let it advance the time"
            )
        return (
            f"the loop {way} does not advance the time: a notification at node {node} for the time {self.time!r} would "
            f"never come, because what it sends could come back to it with the time {self.time!r}; give one of its "
            "nodes a summary that advances the time"
        )


def knots(arcs: Arcs) -> list[list[int]]:
    """The parts of the graph in which one can go round, in no order."""
    graph = {n: [there for there, _ in ways] for n, ways in enumerate(arcs.ways)}
    return [part for part in components(graph) if len(part) > 1 or part[0] in graph[part[0]]]


def standing_loop(arcs: Arcs) -> Loop | None:
    """A loop that does not advance the time, if there is one."""
    for part in knots(arcs):
        inside = set(part)
        found = _by_steps(arcs, part, inside) if _only_forward(arcs, part, inside) else _by_paths(arcs, part, inside)
        if found is not None:
            return found
    return None


def _only_forward(arcs: Arcs, part: list[int], inside: Collection[int]) -> bool:
    """Whether every single step stays in one domain and adds nothing negative: then a loop stands still only if each of
    its steps does."""
    order = arcs.orders[part[0]]
    for n in part:
        for there, way in arcs.ways[n]:
            if there in inside and not isinstance(way, Same):
                if not isinstance(way, Shift) or way.source != way.target:
                    return False
                if not all(isinstance(move, int) and move >= 0 for move in way.moves):
                    return False
        if arcs.orders[n] != order:
            return False
    return True


def stays(way: Summary) -> bool:
    """Whether a single step leaves a time as it is."""
    return isinstance(way, Same) or (isinstance(way, Shift) and all(move == 0 for move in way.moves))


def _by_steps(arcs: Arcs, part: list[int], inside: Collection[int]) -> Loop | None:
    still = {n: [there for there, way in arcs.ways[n] if there in inside and stays(way)] for n in part}
    for knot in components(still):
        if len(knot) > 1 or knot[0] in still[knot[0]]:
            within = set(knot)
            start = min(n for n in knot if arcs.places[n].is_target)
            before = {start: start}
            todo = [start]
            for n in todo:
                for there in still[n]:
                    if there == start:
                        way = [n]
                        while way[-1] != start:
                            way.append(before[way[-1]])
                        return _loop(arcs, Label(Same(arcs.orders[start]), (*reversed(way), start)))
                    if there in within and there not in before:
                        before[there] = n
                        todo.append(there)
    return None


def _by_paths(arcs: Arcs, part: list[int], inside: set[int]) -> Loop | None:
    left = set(inside)
    alike = _adds(arcs, part, inside)
    for start in sorted(part, key=lambda n: (not arcs.places[n].is_target, n)):
        for label in spread(arcs, start, left)[1]:
            found = _loop(arcs, label)
            if found is not None:
                return found
        if alike:
            left.discard(start)  # all loops through it advance, from wherever one begins
    return None


def _adds(arcs: Arcs, part: list[int], inside: set[int]) -> bool:
    """Whether every step adds something: then a loop does the same from each of its places.  One that goes through
    other domains, or sets or drops a coordinate, may lead a time nowhere from one place and into the past from
    another."""
    ways = [way for n in part for there, way in arcs.ways[n] if there in inside]
    return all(
        isinstance(way, Same)
        or (isinstance(way, Shift) and way.source == way.target and all(isinstance(move, int) for move in way.moves))
        for way in ways
    )


def _loop(arcs: Arcs, label: Label) -> Loop | None:
    way, places = label.summary, tuple(arcs.places[n] for n in label.way)
    for time, back in ((way.goes_back(), True), (way.stands(), False)):
        if time is not None:
            return Loop(places, way, time, way.results_in(time), back)
    return None


# ---------------------------------------------------------------- the clock


class Tracker:
    """The clock of a graph: which times may still come to each location, kept as messages come and go; `Builder.build`
    makes it.

    It counts the pointstamps for which work may remain: messages under way at targets, and the right to send at sources
    (what an operator holds, or will send when it is notified).  `propagate_all` brings the frontier of every location
    up to date: the least times that some pointstamp could still lead to there, by the summaries on its way.  A
    notification for a time may be delivered when no input of its node has a frontier at or before it (`complete`).

    It works incrementally, for any order of times.  Each location has a `MutableAntichain` of its own pointstamps and
    one of what comes from there and from elsewhere; only changes of frontiers travel on, and a pointstamp is looked at
    only when no other one that waits could result in it, so each is looked at once.
    """

    def __init__(self, arcs: Arcs) -> None:
        self.arcs = arcs
        self._pushed = ChangeBatch()
        self._inputs: dict[object, list[int]] = {}  # of each node
        self._failed = ""  # why a propagation ended half-way
        self.own = [MutableAntichain(order=order) for order in arcs.orders]
        self.reached = [MutableAntichain(order=order) for order in arcs.orders]
        self.waiting: list[tuple[int, Time, int]] = []
        self.settled = 0  # how many changes were looked at so far: what the clock has cost
        graph = {n: [there for there, _ in ways] for n, ways in enumerate(arcs.ways)}
        parts = list(components(graph))
        self.rank = dict.fromkeys(graph, 0)
        self.inside: dict[int, set[int]] = {}  # for locations on a loop: those that they can go round with
        for rank, part in enumerate(reversed(parts)):
            for n in part:
                self.rank[n] = rank
                if len(part) > 1 or n in graph[n]:
                    self.inside[n] = set(part)
        self._labels: dict[int, dict[int, list[Label]]] = {}

    # ------------------------------------------------------------ what changes

    def update_source(self, source: Location, time: Time, diff: int) -> None:
        """So many more (or fewer) rights to send at an output, for messages of this time or later ones.

        >>> clock = _example(); clock.update_source(Source("count"), 3, 1); clock.propagate_all()
        >>> clock.frontier(Source("count"))
        Antichain([3])
        """
        if not (isinstance(source, Location) and source.is_source):
            raise UsageError(f"update_source: {source!s} is no output; give a Source(node, port)")
        self.update(source, time, diff)

    def update_target(self, target: Location, time: Time, diff: int) -> None:
        """So many more (or fewer) messages of this time under way to an input.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> clock.frontier(Source("count"))
        Antichain([4])
        """
        if not (isinstance(target, Location) and target.is_target):
            raise UsageError(f"update_target: {target!s} is no input; give a Target(node, port)")
        self.update(target, time, diff)

    def update(self, location: Location, time: Time, diff: int) -> None:
        """The same, for either.

        >>> _example().update(Target("sum"), 3, 1)
        Traceback (most recent call last):
        pellucid.errors.UsageError: sum.in0 is not in the graph; its locations are count.in0, count.out0
        """
        at = self._at(location)
        self._goes()
        self.arcs.check(at, time)
        if isinstance(diff, bool) or not isinstance(diff, int):
            raise UsageError(f"{location}: the change {diff!r} of a count is not a whole number")
        self.waiting.append((at, time, diff))

    def update_iter(self, updates: Iterable[tuple[tuple[Location, Time], int]]) -> None:
        """Several changes, in the form in which `pushed` gives them.

        >>> clock = _example(); clock.update_iter([((Target("count"), 3), 1), ((Target("count"), 5), 1)])
        >>> clock.propagate_all(); clock.frontier(Target("count"))
        Antichain([3])
        """
        known = several(updates, "updates: ", "[((Target('count'), 3), 1)]")
        for change in known:  # all of them, before the first one counts
            pair = isinstance(change, (tuple, list)) and len(change) == 2
            if not pair or not isinstance(change[0], (tuple, list)) or len(change[0]) != 2:
                raise UsageError(f"the update {change!r}: a pair is expected, as in ((Target('count'), 3), 1)")
            self.arcs.check(self._at(change[0][0]), change[0][1])
            whole(change[1], f"{change[0][0]}: the change of a count: ")
        for (location, time), diff in known:
            self.update(location, time, diff)

    def propagate_all(self) -> None:
        """Bring all frontiers up to date.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.frontier(Target("count"))
        Antichain([])
        >>> clock.propagate_all(); clock.frontier(Target("count"))
        Antichain([3])
        """
        self._goes()
        try:
            self._propagate()
        except Exception as error:  # of a summary or an order of one's own
            self._failed = str(error)
            raise

    # ------------------------------------------------------------ what is so

    def pushed(self) -> ChangeBatch:
        """How frontiers changed since it was drained last: of ``(location, time)`` by +1 or −1.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> [(str(at), time, diff) for (at, time), diff in clock.pushed().drain()]
        [('count.in0', 3, 1), ('count.out0', 4, 1)]
        """
        self._goes()
        return self._pushed

    def frontier(self, location: Location) -> Antichain:
        """The least times that may still come to a location, as of the last `propagate_all`.

        >>> _example().frontier(Target("count")).is_empty()
        True
        """
        self._goes()
        return self.reached[self._at(location)].frontier()

    def complete(self, node: object, time: Time) -> bool:
        """Whether no message of this time or an earlier one can come to any input of the node any more: its
        notification may be delivered.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 1); clock.propagate_all()
        >>> clock.complete("count", 2), clock.complete("count", 3)
        (True, False)
        """
        if not self._inputs:
            for at, place in enumerate(self.arcs.places):
                known = self._inputs.setdefault(place.node, [])
                if place.is_target:
                    known.append(at)
        self._goes()
        if not hashed(node) or node not in self._inputs:
            raise UsageError(f"there is no node {node!r} in the graph")
        return not any(self.reached[at].less_equal(time) for at in self._inputs[node])

    def pointstamps(self) -> list[tuple[tuple[Location, Time], int]]:
        """What was counted, and is not back at zero.

        >>> clock = _example(); clock.update_target(Target("count"), 3, 2); clock.propagate_all()
        >>> [(str(at), time, count) for (at, time), count in clock.pointstamps()]
        [('count.in0', 3, 2)]
        """
        places = zip(self.arcs.places, self.own, strict=True)
        return [((place, time), count) for place, own in places for time, count in own.updates()]

    def _at(self, location: Location) -> int:
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            known = ", ".join(map(str, self.arcs.places[:8])) + (", …" if len(self.arcs.places) > 8 else "")
            raise UsageError(f"{location!s} is not in the graph; its locations are {known}")
        return at

    def _goes(self) -> None:
        """Refuse to say more after a propagation that ended half-way."""
        if self._failed:
            raise UsageError(f"this clock stopped, and what it would say now would be wrong: {self._failed}")

    def _propagate(self) -> None:
        todo: dict[int, ChangeBatch] = {}  # by rank: what comes before is settled first
        ranks: list[int] = []

        def push(at: int, time: Time, diff: int) -> None:
            rank = self.rank[at]
            if rank not in todo:
                todo[rank] = ChangeBatch()
                heappush(ranks, rank)
            todo[rank].update((at, time), diff)

        changed: dict[int, ChangeBatch] = {}
        for at, time, diff in self.waiting:
            changed.setdefault(at, ChangeBatch()).update(time, diff)
        self.waiting.clear()
        for at, batch in changed.items():
            for time, diff in self.own[at].update_iter(batch):
                push(at, time, diff)
        while ranks:
            rank = heappop(ranks)
            batch = todo[rank]
            while not batch.is_empty():
                self._settle(batch, push)
            del todo[rank]

    def _settle(self, batch: ChangeBatch, push: Callable[[int, Time, int], None]) -> None:
        """One of the pointstamps that wait, of which no other one could result in it."""
        known = [key for key, _ in batch._net.items()]
        at, time = next(key for key in known if not any(self._before(other, key) for other in known if other != key))
        diff = batch._net[at, time]
        self.settled += 1
        batch.update((at, time), -diff)
        for then, change in self.reached[at].update_iter([(time, diff)]):
            self._pushed.update((self.arcs.places[at], then), change)
            for there, way in self.arcs.ways[at]:
                least = way.results_in(then)
                if least is not None:
                    push(there, least, change)

    def _before(self, one: tuple[int, Time], two: tuple[int, Time]) -> bool:
        (at, time), (there, then) = one, two
        if at == there:
            order = self.arcs.orders[at]
            return order.le(time, then) and not order.le(then, time)
        if at not in self.inside:
            return False
        if at not in self._labels:
            self._labels[at] = spread(self.arcs, at, self.inside[at])[0]
        for label in self._labels[at].get(there, ()):
            least = label.summary.results_in(time)
            if least is not None and self.arcs.orders[there].le(least, then):
                return True
        return False


def _example() -> Tracker:
    """For the examples above."""
    graph = Builder()
    graph.add_node("count", 1, 1, [[1]])
    return graph.build()
