"""Nodes that say how times go on from them: declared summaries, and the conservative relation that they give.

A node declares, for an output edge ``d``, or for a pair ``(e, d)`` of an input and an output edge, or ``(None, d)`` for
what it sends when it is notified, a summary or a list of them (`pellucid.progress.summaries`; a number is added to the
time): the least times at which something comes out.  A node that declares nothing passes times on as they are, as in
Naiad.

What is declared is held to three times: when a graph is built, no cycle may lead into the past or take no time at all;
when a node sends, a message that comes earlier than declared is refused; and the relation is never smaller than the
exact one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.errors import PipelineError, StepError
from pellucid.internal.model import Budget, CutShort
from pellucid.progress.builder import Builder, Location, Source, Target
from pellucid.progress.graph import LISTED, Event, Graph, Received, Result
from pellucid.progress.loops import standing_loop
from pellucid.progress.paths import PathSummaries
from pellucid.progress.reach.exact import OneStep, doings, exact
from pellucid.progress.reach.relation import Link, Relation
from pellucid.progress.rows import layout, pack
from pellucid.progress.summaries import Same, Shift, Step, Summary, summary
from pellucid.progress.times import Time


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
