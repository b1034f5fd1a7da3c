"""Could-result-in, exactly: Definition 1 looks at all local histories of a node, which for finite nodes is a search.

``exact(graph)`` is the paper's relation.  Definition 1 forgets on which edge a message came: a node that passes left to
left and right to right is one that passes everything everywhere.  ``exact(graph, ports=True)`` keeps them apart: from
an edge to what a message *on it* makes the node send or ask for, and from a node to what its notifications make it
send.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Search
from pellucid.progress.graph import Event, Graph, History, Received
from pellucid.progress.reach.relation import Link, Relation
from pellucid.progress.times import Time


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
