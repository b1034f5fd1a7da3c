"""What a graph must keep to: Conditions 1 and 2 (3.2), and no way round a cycle that takes no time.

Each is answered with what breaks it, as a run that can be shown and replayed, or with None.

*Definition 3 is misprinted*: it says "x = t′ for some t″ such that t ≤ t″".  Read "x = t″ for some t″ with t ≤ t″".
``condition_1(graph, reading="printed")`` takes it as it stands: that refuses nodes that only ask again for the time
that they are told of, and lets through others that ask for the past.

A way round in which the time stays the same *satisfies* Condition 2.  It is refused nevertheless: a notification inside
would wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from pellucid.internal.model import Budget, Run
from pellucid.progress.graph import Event, Graph, Received, pending
from pellucid.progress.reach.exact import Request, doings
from pellucid.progress.reach.relation import Pointstamp, Proof, Relation, bits
from pellucid.progress.times import Time

Reading = Literal["corrected", "printed"]


# ---------------------------------------------------------------- Condition 1


def could_request(graph: Graph, node: str, *, budget: Budget | None = None) -> Iterator[Request]:
    """What is behind Definition 3: every event that makes a node newly ask for a time."""
    return (doing for doing in doings(graph, node, budget) if isinstance(doing, Request))


def condition_1(graph: Graph, *, reading: Reading = "corrected", budget: Budget | None = None) -> Run | None:
    """An event at one time asks for notifications of that time or later; the history that breaks it, or None.

    >>> from pellucid.progress.graph import Node
    >>> late = Node(lambda s, edge, m: (s, [0], {}))
    >>> print(condition_1(Graph({"p": late}, {"i": (None, "p")}, times=[0, 1])))
    step     0          1
             Starts     message 1 on i
    state
    pending  'none'     '0'
    sent     'nothing'
                        ^ p, at its start, on message 1 on i asks for 0, which is in the past: 1 is not at or before 0
    """
    leq = graph.order.less_equal
    for node in graph.nodes:
        for found in could_request(graph, node, budget=budget):
            for t, u in _asked(graph, found, reading):
                if not leq(t, u):
                    literal = reading == "printed" and not isinstance(found.event, Received)
                    why = f"as printed, {t} leads to a request at {u}, too" if literal else "which is in the past"
                    return _story(graph, found, f"{found}, {why}: {t} is not at or before {u}")
    return None


def _asked(graph: Graph, found: Request, reading: Reading) -> Iterator[tuple[Time, Time]]:
    """The pairs (t, t′) for which Definition 3 says, because of this event, that (p, t) leads to a request at (p,
    t′)."""
    leq = graph.order.less_equal
    if reading == "corrected" or isinstance(found.event, Received):
        # all t ≤ the event's time, all t′ ≥ what it asks for: it is enough to look at these two themselves
        yield found.event.time, found.time
    elif leq(found.time, found.event.time):
        for t in graph.times:  # "x = t′": any t will do, as t ≤ t″ for t″ = t
            yield t, found.event.time


def _story(graph: Graph, found: Request, why: str) -> Run:
    labels = (Starts(found.history.state, found.history.requests), *found.history.events, found.event)
    return Run((), labels, None, why, LocalMachine(graph, found.node))


class Starts(NamedTuple):
    """The first entry of a local history."""

    state: Any
    requests: frozenset[Time]

    def __str__(self) -> str:
        return "Starts"


class LocalMachine:
    """One node by itself, taking any events in any order: its runs are its local histories."""

    def __init__(self, graph: Graph, node: str) -> None:
        self.graph, self.node = graph, node

    def start(self) -> Any:
        """Before the first entry."""
        return None

    def steps(self, at: Any, *, failures: bool = True) -> Iterator[tuple[Starts | Event, Any]]:
        """Its starts, then all its events."""
        if at is None:
            for state, requests in self.graph.starts(self.node):
                yield Starts(state, requests), (state, requests, ())
            return
        for event in self.graph.events(self.node):
            result = self.graph.g1(self.node, at[0], event)
            yield event, (result.state, pending(at[1], event, result), result.messages)

    def see(self, at: Any) -> Any:
        """Its state, what it waits for and what it sent last."""
        if at is None:
            return {}
        state, requests, sent = at
        edges = zip(self.graph.out[self.node], sent, strict=False)
        told = [f"{edge}: {', '.join(map(str, several))}" for edge, several in edges if several]
        return {
            "state": state,
            "pending": ", ".join(sorted(map(str, requests))) or "none",
            "sent": "; ".join(told) or "nothing",
        }

    def complete(self, at: Any) -> bool:
        """A history may end anywhere."""
        return True


# ---------------------------------------------------------------- Condition 2, and cycles that take no time


def condition_2(relation: Relation) -> Proof | None:
    """What a node does at a time reaches its own inputs only at that time or later; the proof of one that is earlier,
    or not comparable, or None.

    >>> from pellucid.progress.reach.exact import exact
    >>> from pellucid.progress.graph import Message, Node, buffer
    >>> back = Node(lambda s, edge, m: (s, [], {"e": [Message(max(m.time - 1, 0))]}))
    >>> graph = Graph({"p": back, "q": buffer("f")}, {"e": ("p", "q"), "f": ("q", "p")}, times=[0, 1])
    >>> print(condition_2(exact(graph)))
    (p, 1) could result in (f, 0):
      (p, 1)
      (e, 0): p, at its start, on message 1 on f sends 0 on e
      (q, 0): e leads to q
      (f, 0): q, at its start, on message 0 on e sends 0 on f
    """
    everything = (1 << len(relation.times)) - 1
    return _first_round(relation, [everything & ~later for later in relation.up])


def no_time_passes(relation: Relation) -> Proof | None:
    """A way from a node to one of its own inputs on which no time passes, or None: a notification at the node for the
    time of the proof would never come."""
    return _first_round(relation, relation.down)


def _first_round(relation: Relation, wrong: Sequence[int]) -> Proof | None:
    """A shortest proof that leads from a node to an edge into it at a time that is wrong (a bit of ``wrong`` at the
    time where it begins); with ports also from an edge back to itself."""
    graph, times, best = relation.graph, relation.times, None
    for node in graph.nodes:
        for edge in graph.into[node]:
            if graph.source[edge] is None:
                continue
            for i, t in enumerate(times):
                for j in bits(relation.then(node, i, edge) & wrong[i]):
                    proof = relation.prove((node, t), (edge, times[j]))
                    if proof is not None and (best is None or len(proof) < len(best)):
                        best = proof
    return best or _edge_rounds(relation, wrong)


def _edge_rounds(relation: Relation, wrong: Sequence[int]) -> Proof | None:
    for edge in relation.graph.internal:
        for link in relation.links.get(edge, ()):
            for (a, b), why in (link.because or {}).items():
                pairs = ((t, relation.times[j]) for i, t in enumerate(relation.times) for j in bits(wrong[i]))
                for t, u in pairs:
                    if not relation.graph.order.less_equal(t, a):
                        continue
                    rest = relation.prove((link.target, b), (edge, u))
                    if rest is not None:
                        start = Pointstamp(edge, t)
                        return Proof(start, rest.end, (start, *rest.path), (why, *rest.because))
    return None


class Walk:
    """A relation as a machine: from pointstamp to pointstamp, link by link; its runs are the proofs of Definition 2
    without the demand that locations differ."""

    def __init__(self, relation: Relation, start: Pointstamp) -> None:
        self.relation, self.first = relation, start

    def start(self) -> Pointstamp:
        """Where it begins."""
        return self.first

    def steps(self, at: Pointstamp, *, failures: bool = True) -> Iterator[tuple[str, Pointstamp]]:
        """The links from here."""
        return self.relation.follow(at)

    def see(self, at: Pointstamp) -> Any:
        """The location and the time."""
        return {"at": at.location, "time": at.time}

    def complete(self, at: Pointstamp) -> bool:
        """It may end anywhere."""
        return True


def walk(relation: Relation, proof: Proof, why: str) -> Run:
    """A proof as a run that can be shown and replayed."""
    return Run((), proof.because, None, why, Walk(relation, proof.path[0]))
