"""Conditions 1 and 2, the misprint in Definition 3, and loops in which no time passes."""

from __future__ import annotations

from typing import Any

from pellucid.progress.graph import Graph, Message, Node, buffer
from pellucid.progress.reach.conditions import condition_1, condition_2, no_time_passes, walk
from pellucid.progress.reach.exact import exact
from pellucid.progress.times import Domains, Integers

IN = {"i": (None, "p")}


def alone(node: Node, times: Any = (0, 1)) -> Graph:
    return Graph({"p": node}, IN, times=times)


def test_condition_1_names_the_shortest_history() -> None:
    """Only in its second state the node asks for the past."""
    node = Node(lambda s, e, m: (True, [0] if s else [m.time], {}), state=False)
    run = condition_1(alone(node))
    assert run is not None and run.replay()
    assert [str(x) for x in run.steps] == ["Starts", "message 1 on i", "message 1 on i"]  # after 0, 0 would be pending
    assert run.why.endswith("on message 1 on i asks for 0, which is in the past: 1 is not at or before 0")


def test_what_is_pending_already_is_not_asked_for_again() -> None:
    """N − N₁: a node that always waits for 0 and asks for it again and again."""
    node = Node(lambda s, e, m: (s, [0], {}), lambda s, t: (s, [0], {}), requests=[0])
    assert condition_1(alone(node, times=[0])) is None
    assert condition_1(Graph({"p": node}, IN, times={"p": [0], "i": [0, 1]})) is None


def test_definition_3_as_printed() -> None:
    """ "x = t′": a node that asks again for the time it is told of is refused by that; one that asks for the past is
    not."""
    again = Node(None, lambda s, t: (s, [t], {}))
    assert condition_1(alone(again)) is None
    run = condition_1(alone(again), reading="printed")
    assert run is not None and run.replay() and len(run.steps) == 2
    assert run.why == (
        "p, at its start, on notification 0 asks for 0, as printed, 1 leads to a request at 0, too: "
        "1 is not at or before 0"
    )
    earlier = Node(None, lambda s, t: (s, [0] if t == 1 else [], {}))
    assert condition_1(alone(earlier)) is not None
    assert condition_1(alone(earlier), reading="printed") is None


def test_requests_of_times_that_cannot_be_compared_are_in_no_future() -> None:
    order = Domains({"gmt": Integers(), "pst": Integers()})
    node = Node(lambda s, e, m: (s, [("pst", 0)], {}))
    times = {"i": [("gmt", 0)], "p": [("pst", 0)]}
    assert condition_1(Graph({"p": node}, IN, order=order, times=times)) is not None


def ring(*shift: int, times: Any = range(3)) -> Graph:
    """p₀ → p₁ → … → p₀, each adding so much to a time."""
    last = max(times)
    edges: dict[str, tuple[str | None, str | None]] = {"i": (None, "p0")}
    nodes = {}
    for k, by in enumerate(shift):
        edges[f"e{k}"] = (f"p{k}", f"p{(k + 1) % len(shift)}")
        nodes[f"p{k}"] = buffer(f"e{k}", to=lambda t, by=by: t + by if 0 <= t + by <= last else None)
    return Graph(nodes, edges, times=times)


def test_condition_2_with_its_proof() -> None:
    assert condition_2(exact(ring(0, 0, 1))) is None
    relation = exact(ring(1, -2, 0))
    proof = condition_2(relation)
    assert proof is not None and proof.end.time == proof.start.time - 1
    run = walk(relation, proof, "")
    assert run.replay() and len(run.steps) == len(proof) - 1


def test_a_self_loop_into_the_past() -> None:
    node = Node(lambda s, e, m: (s, [], {"e": [Message(0)]}))
    graph = Graph({"p": node}, {"e": ("p", "p")}, times=[0, 1])
    assert condition_2(exact(graph)) is not None and exact(graph).not_transitive() is not None


def test_a_zero_loop_satisfies_condition_2_and_is_found_nevertheless() -> None:
    relation = exact(ring(0, 0, 0))
    assert condition_2(relation) is None and relation.not_transitive() is None
    proof = no_time_passes(relation)
    assert proof is not None and proof.start.time == proof.end.time
    assert relation.graph.target[proof.end.location] == proof.start.location
    assert no_time_passes(exact(ring(0, 0, 1))) is None


def test_a_crossed_node_goes_round_only_for_who_forgets_the_ports() -> None:
    def cross(s: Any, edge: str, m: Message) -> Any:
        if edge == "l":
            return s, [], {"l2": [m]}
        return s, [], {"r2": [Message(m.time + 1)]} if m.time < 2 else {}

    edges = {"l": ("q", "p"), "l2": ("p", "q2"), "r": ("q2", "p"), "r2": ("p", "q"), "i": (None, "q")}
    graph = Graph({"p": Node(cross), "q": buffer("l"), "q2": buffer("r")}, edges, times=range(3))
    assert no_time_passes(exact(graph)) is not None
    assert no_time_passes(exact(graph, ports=True)) is None
    still = Graph(
        {"p": Node(lambda s, e, m: (s, [], {e + "2": [m]})), "q": buffer("l"), "q2": buffer("r")}, edges, times=[0]
    )
    proof = no_time_passes(exact(still, ports=True))
    assert proof is not None and proof.start.location == proof.end.location
