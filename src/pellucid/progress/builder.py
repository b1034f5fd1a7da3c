"""Graphs for the clock: nodes with ports and summaries, edges between ports.

A *location* is a port of a node: `Target` for an input, `Source` for an output (an edge goes from a source to a
target).  An edge leaves a time as it is; a node takes a time from an input to an output by one of its summaries, and an
input that has none for an output never leads there.  `Builder.build` refuses a graph in which a loop does not advance
the time: a notification inside would wait for itself.  Names are those of timely-dataflow's ``progress::reachability``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import PipelineError, UsageError
from pellucid.progress.antichain import Antichain
from pellucid.progress.ends import Ends, ends
from pellucid.progress.given import hashed
from pellucid.progress.summaries import Same, Summary, summary
from pellucid.progress.times import Integers, Order, Time

if TYPE_CHECKING:
    from pellucid.progress.tracker import Tracker

_DENSE = 10_000  # pairs of an input and an output that are written down where nobody says which of them are connected


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
        """``order``: what the times are at every port for which nothing else is said."""
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
        from pellucid.progress.loops import standing_loop

        return standing_loop(self.arcs()) is None

    def build(self, mode: str = "auto") -> Tracker:
        """The clock of the graph.  ``mode``: "plain" (the usual one, incremental), or "literal" (everything is computed
        anew at each propagation: slow, and plainly right).

        >>> graph = Builder(); graph.add_node("a", 1, 1, [[0]]); graph.add_edge(Source("a"), Target("a"))
        >>> graph.build()
        Traceback (most recent call last):
        pellucid.errors.PipelineError: the loop a.in0 → a.out0 → a.in0 does not advance the time: a notification at node
        a for the time 0 would never come, ...
        """
        from pellucid.progress.loops import refuse_standing_loops
        from pellucid.progress.tracker import tracker

        arcs = self.arcs()
        refuse_standing_loops(arcs)
        return tracker(arcs, mode)


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
