"""Graphs: what a node does after a local history, buffer nodes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.errors import PellucidError, PipelineError, StepError, UsageError
from pellucid.progress.graph import Graph, History, Message, Node, Notified, Received, Result, buffer
from pellucid.progress.summaries import Step, advance
from pellucid.progress.times import Domains, Integers, Own, Product

ENDS = {"i": (None, "p"), "o": ("p", None)}


def one(node: Node, **more: Any) -> Graph:
    return Graph({"p": node}, ENDS, **{"times": range(3), **more})


def counts(n: int, edge: str, m: Message) -> Any:
    return n + 1, [m.time], {}


def tells(n: int, t: int) -> Any:
    return 0, [], {"o": [Message(t, n), Message(t)]}


def test_g_is_g1_over_a_local_history() -> None:
    """N − {t} ∪ N′ after a notification, N ∪ N′ after a message; what is sent on an edge is one sequence."""
    graph = one(Node(counts, tells, state=0, requests=[2]))
    start = History(0, frozenset([2]))
    assert graph.g("p", start) == Result(0, frozenset([2]), ((),))
    events = (Received("i", Message(1)), Received("i", Message(0)), Notified(0), Notified(1))
    assert graph.g("p", start._replace(events=events[:2])) == Result(2, frozenset([0, 1, 2]), ((),))
    sent = (Message(0, 2), Message(0), Message(1, 0), Message(1))
    assert graph.g("p", start._replace(events=events)) == Result(0, frozenset([2]), (sent,))


def test_a_notification_that_asks_for_itself_stays_pending() -> None:
    graph = one(Node(None, lambda s, t: (s, [t], {}), requests=[1]))
    assert graph.g("p", History(None, frozenset([1]), (Notified(1),))).requests == frozenset([1])


WRONG: dict[str, tuple[Any, type[PellucidError], str]] = {
    "no node": (
        lambda: Graph({"count": Node()}, {"e": ("count", "cuont")}),
        PipelineError,
        "edge 'e' goes to 'cuont', which is no node: the nodes are count; did you mean 'count'?",
    ),
    "no ends": (
        lambda: Graph({"p": Node()}, {"e": (None, None)}),
        PipelineError,
        "edge 'e' is (None, None): expected (from, to), None on one side for outside",
    ),
    "one name": (
        lambda: Graph({"p": Node()}, {"p": (None, "p")}),
        PipelineError,
        "'p' is both a node and an edge: give one of them another name",
    ),
    "a function": (
        lambda: Graph({"p": counts}, {}),  # type: ignore[dict-item]
        PipelineError,
        "node 'p' is a function: expected a Node(on_message, on_notify)",
    ),
    "times of two domains": (
        lambda: one(Node(), order=Domains({"gmt": Integers(), "pst": Integers()}), times=[("gmt", 0), 1]),
        UsageError,
        "times=: 1 is not a time of the domains gmt, pst: times of two domains cannot be compared; "
        "give a time of this domain, such as ('gmt', 0)",
    ),
    "an order that is none": (
        lambda: Own(lambda a, b: (a, b) in {(0, 1), (1, 2)} or a == b, samples=[0, 1, 2], name="mine"),
        PipelineError,
        "mine is not an order: it is not transitive: 0 ≤ 1 and 1 ≤ 2, but 0 ≤ 2 does not hold",
    ),
    "summaries that cannot be composed": (
        lambda: advance(Integers(), 1).followed_by(advance(Product(Integers(), Integers()), (0, 1))),
        PipelineError,
        "summaries cannot be composed: one ends in times of integers of 64 bits, the next begins with times of "
        "(integers of 64 bits × integers of 64 bits)",
    ),
    "a summary of another order": (
        lambda: one(buffer("o", summaries={"o": advance(Integers(0), 1)})),
        UsageError,
        "node 'p', input 0 to output 0: the summary +1 goes from times of integers from 0 to times of integers from 0; "
        "here times of integers of 64 bits come in and times of integers of 64 bits go out",
    ),
    "a summary for nothing": (
        lambda: one(buffer("o", summaries={"x": 0})),
        PipelineError,
        "node 'p' declares a summary for 'x': its edges are i in, o out; write an output edge, or a pair (input edge, "
        "output edge)",
    ),
    "no times": (
        lambda: Graph({"p": Node()}, ENDS).times,
        UsageError,
        "graph: this is decided for finitely many times: give them, as in times=range(4)",
    ),
    "no location": (
        lambda: one(Node()).known("q"),
        UsageError,
        "'q' is no location of graph: its nodes and edges are p, i, o",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_graph_is_refused(name: str) -> None:
    make, kind, message = WRONG[name]
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == message


DOES: dict[str, tuple[Node, str]] = {
    "no triple": (
        Node(lambda s, e, m: s),
        "returned None: expected (state, times to be notified of, {edge: [Message(time), …]})",
    ),
    "an edge that is not its own": (
        Node(lambda s, e, m: (s, [], {"i": [m]})),
        "sends on 'i', which does not leave it: o does",
    ),
    "no message": (Node(lambda s, e, m: (s, [], {"o": [1]})), "sends 1 on o: expected Message(time, value)"),
    "a time outside": (
        Node(lambda s, e, m: (s, [], {"o": [Message(7)]})),
        "sends on o time 7, which is not among the times of o: 0, 1, 2",
    ),
    "a request outside": (
        Node(lambda s, e, m: (s, [7], {})),
        "asks for time 7, which is not among the times of p: 0, 1, 2",
    ),
    "a state that cannot be hashed": (
        Node(lambda s, e, m: ([], [], {})),
        "the state [] can change: a check keeps what it has seen, so states and values are tuples, "
        "frozensets, texts, numbers, or frozen dataclasses",
    ),
    "an error": (Node(lambda s, e, m: 1 // 0), "ZeroDivisionError: integer division or modulo by zero"),
    "earlier than declared": (
        buffer("o", to=lambda t: 0, summaries={"o": 1}),
        "sends 0 on o, earlier than it declares: +1, so at or after 2",
    ),
}


@pytest.mark.parametrize("name", DOES)
def test_a_node_that_does_wrong_is_told_where(name: str) -> None:
    node, message = DOES[name]
    with pytest.raises(StepError) as caught:
        one(node).g1("p", None, Received("i", Message(1)))
    assert str(caught.value) == f"node 'p', message 1 on i: {message}"


def loop(*by: Any, last: Any = None) -> Graph:
    """a → b → c → a, with these summaries."""
    names = {"a": "ab", "b": "bc", "c": "ca"}
    nodes = {p: buffer(e, summaries={e: s}) for (p, e), s in zip(names.items(), by, strict=True)}
    nodes["c"] = last or nodes["c"]
    return Graph(nodes, {"i": (None, "a"), "ab": ("a", "b"), "bc": ("b", "c"), "ca": ("c", "a")})


def test_a_declared_loop_is_judged_when_it_is_built() -> None:
    assert loop(0, 0, 1).nodes
    with pytest.raises(PipelineError) as caught:
        loop(0, 0, 0)
    assert str(caught.value) == (
        "no time passes on the way ca → a → ab → b → bc → c → ca (together +0): a notification of 'a' for 0 would "
        "never come, as what it sends could come back to it at 0; let one node on the way advance the time"
    )
    with pytest.raises(PipelineError) as caught:
        loop(1, 0, -2)
    assert str(caught.value).startswith("node 'a' sends into the past: Condition 2: (a, ")
    assert str(caught.value).endswith("by ca → a → ab → b → bc → c → ca (together -1)")


def test_a_message_into_the_past_is_refused_with_its_way_back() -> None:
    graph = loop(0, 0, 1, last=buffer("ca", to=lambda t: t - 1, summaries={"ca": 1}))
    with pytest.raises(StepError) as caught:
        graph.g1("c", None, Received("bc", Message(5)))
    assert str(caught.value) == (
        "node 'c', message 5 on bc: sends 4 on ca, earlier than it declares: +1, so at or after 6; that is into its "
        "own past (Condition 2): (c, 5) could result in (bc, 4) by c → ca → a → ab → b → bc"
    )


def test_a_crossed_node_with_two_ports_is_accepted() -> None:
    """In at 0, out at 0, in at 1, out at 1 later: one way round, and it takes time.  One summary for the whole node
    would have a way round that takes none."""
    sends = {"l": "l2", "r": "r2"}

    def cross(s: Any, edge: str, m: Message) -> Any:
        return s, [], {sends[edge]: [m]}

    edges = {"l": ("q", "p"), "l2": ("p", "q2"), "r": ("q2", "p"), "r2": ("p", "q")}
    others = {"q": buffer("l"), "q2": buffer("r")}
    assert Graph({"p": Node(cross, summaries={("l", "l2"): 0, ("r", "r2"): 1}), **others}, edges)
    with pytest.raises(PipelineError, match="no time passes on the way"):
        Graph({"p": Node(cross, summaries={"l2": 0, "r2": 1}), **others}, edges)


def test_a_time_that_leaves_its_domain_leads_nowhere() -> None:
    """A message that comes from it is refused."""
    on = Step("on", lambda t: t + 1 if t < 1 else None, Integers(), samples=range(3))
    graph = one(buffer("o", summaries={"o": on}))
    with pytest.raises(StepError, match="earlier than it declares: on, so nothing there"):
        graph.g1("p", None, Received("i", Message(1)))
