"""Could-result-in: Definitions 1 and 2 against their words, Theorem 1, Propositions 1 and 3, proofs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pellucid.errors import UsageError
from pellucid.progress.could_result_in import Relation, conservative, exact, inferred, within
from pellucid.progress.graph import Graph, Message, Node, buffer
from pellucid.progress.question import condition_1, condition_2, no_time_passes, walk
from pellucid.progress.times import Domains, Integers
from tests.progress.oracle import definition_2, is_transitive
from tests.progress.random_graphs import random_graph
from tests.seeds import HUNT, seeds


def pairs(relation: Relation) -> set[Any]:
    points = relation.pointstamps()
    return {(tuple(a), tuple(b)) for a in points for b in points if relation.holds(a, b)}


def judge(seed: int) -> bool:
    """Everything that section 3 says of one graph; whether it is transitive."""
    rng = Random(seed)
    graph = random_graph(rng, nodes=2, edges=4, self_loops=seed % 3 == 0, kind=seed % 2)
    relation = exact(graph)
    literal = definition_2(graph, most=2)
    assert pairs(relation) == literal  # Definition 2
    transitive = is_transitive(literal)
    assert (relation.not_transitive() is None) == transitive
    leq = graph.order.less_equal
    broken = any(
        not leq(t, u) for (p, t), (e, u) in literal if p in graph.nodes and e in graph.internal and graph.target[e] == p
    )
    assert transitive == (not broken)  # Theorem 1, both ways, self loops too
    assert (condition_2(relation) is not None) == broken
    some = rng.sample(relation.pointstamps(), 2)
    closed = _least_closed(literal, some)
    assert set(map(tuple, relation.close(some))) == closed
    assert not transitive or closed == {b for a, b in literal if a in some}  # Proposition 3
    for a, b in rng.sample(sorted(literal, key=repr), min(8, len(literal))):
        _check_proof(relation, a, b)
    return transitive


def _least_closed(literal: set[Any], some: list[Any]) -> set[Any]:
    closed = set(map(tuple, some))
    while more := {b for a, b in literal if a in closed} - closed:
        closed |= more
    return closed


def _check_proof(relation: Relation, a: Any, b: Any) -> None:
    """A proof is one by Definition 2: different locations, and each step possible."""
    proof, graph, leq = relation.prove(a, b), relation.graph, relation.graph.order.less_equal
    assert proof is not None
    places = [x for x, _ in proof.path]
    assert len(set(places)) == len(places)
    assert places[0] == a[0] and leq(a[1], proof.path[0].time) and places[-1] == b[0] and leq(proof.path[-1].time, b[1])
    for (x, t), (y, u) in zip(proof.path, proof.path[1:], strict=False):
        if x in graph.edges:
            assert graph.target[x] == y and t == u
        else:
            link = next(k for k in relation.links[x] if k.target == y)
            assert link.because is not None and any(leq(t, v) and leq(w, u) for v, w in link.because)


@pytest.mark.seeded
def test_definitions_theorem_1_and_proposition_3() -> None:
    found = [judge(seed) for seed in seeds(40)]
    assert 2 <= found.count(False) <= 38  # both ways round were seen


@pytest.mark.long
@pytest.mark.seeded
def test_definitions_theorem_1_and_proposition_3_on_many() -> None:
    found = [judge(seed) for seed in seeds(1_500, 40)]
    assert HUNT or found.count(False) > 50


def past(*, out: bool = True) -> Graph:
    """p answers 1 with 0 round a loop, and only 0 with a message outside."""

    def back(s: Any, edge: str, m: Message) -> Any:
        return s, [], {"e": [Message(0)]} if m.time else {"o": [m]} if out else {}

    edges = {"i": (None, "p"), "e": ("p", "q"), "f": ("q", "p"), "o": ("p", None)}
    return Graph({"p": Node(back), "q": buffer("f")}, edges, times=[0, 1])


def test_closure_is_more_than_the_image_where_condition_2_fails() -> None:
    relation = exact(past())
    assert condition_2(relation) is not None
    assert ("o", 0) in relation.close([("i", 1)]) and not relation.holds(("i", 1), ("o", 0))
    assert relation.prove(("i", 1), ("o", 0)) is None
    proof = relation.prove(("i", 1), ("o", 0), closed=True)
    assert proof is not None and [x for x, _ in proof.path] == ["i", "p", "e", "q", "f", "p", "o"]


@pytest.mark.seeded
def test_the_simple_paths_and_all_paths_agree_where_no_time_comes_back_early() -> None:
    """Both ways to make the relation, on graphs where either will do."""
    for seed in seeds(30):
        relation = exact(random_graph(Random(seed), edges=5))
        if all(relation.closed[i] == row for i, row in enumerate(relation.rows)):
            assert relation._rows({x: relation._simple_paths(x) for x in relation.index}) == relation.rows


@pytest.mark.seeded
def test_proposition_1() -> None:
    for seed in seeds(20):
        relation = exact(random_graph(Random(seed), nodes=2, kind=1))
        leq = relation.graph.order.less_equal
        for a, b in pairs(relation):
            if a[0] == b[0]:
                assert leq(a[1], b[1])
            elif a[0] in relation.graph.nodes and b[0] in relation.graph.edges:
                proof = relation.prove(a, b)
                assert proof is not None
                step = proof.path[1]
                rest = relation.prove(step, b)
                assert relation.graph.source[step.location] == a[0] and relation.holds(a, step)
                assert rest is not None and len(rest) < len(proof)


# ---------------------------------------------------------------- summaries and ports


def shifted(seed: int) -> Graph:
    """A graph of buffers that shift times by 0, 1 or 2, each declared as it is."""
    rng = Random(seed)
    names = [f"n{i}" for i in range(rng.randint(2, 3))]
    ends: dict[str, tuple[str | None, str | None]] = {f"i{p}": (None, p) for p in names}
    for i, p in enumerate(names):
        ends[f"o{i}"] = (p, rng.choice([q for q in names if q != p] + [None]))  # type: ignore[list-item]
    top = 3

    def to(by: int) -> Any:
        return lambda t: t + by if t + by <= top else None

    nodes = {}
    for i, p in enumerate(names):
        by = rng.randint(0, 2)
        nodes[p] = buffer(f"o{i}", to=to(by), summaries={f"o{i}": by})
    return Graph(nodes, ends, order=Integers(0, top), times=range(top + 1), checked=False)


@pytest.mark.seeded
def test_summaries_that_are_exact_give_the_exact_relation() -> None:
    for seed in seeds(25):
        graph = shifted(seed)
        assert conservative(graph).rows == exact(graph).rows


def test_one_summary_for_a_node_and_an_edge_covers_the_exact_relation() -> None:
    """Like with like; with later messages than declared it is strictly more."""
    node = Node(
        lambda s, e, m: (s, [], {"o": [Message(min(m.time + s, 2))]}), lambda s, t: (1, [], {}), state=0,
        summaries={"o": 0},
    )  # fmt: skip
    graph = Graph({"p": node}, {"i": (None, "p"), "o": ("p", None)}, times=range(3))
    late = Graph({"p": buffer("o", to=lambda t: 2, summaries={"o": 0})}, graph.edges, times=range(3))
    assert within(exact(graph), conservative(graph)) is None
    assert within(exact(late), conservative(late)) is None and within(conservative(late), exact(late)) is not None


def judge_summaries(seed: int) -> bool:
    """Inferred summaries cover the exact relation, like with like; whether they say no more than that.

    With ports a request goes from the edge of its message to the node; by summaries it is in no past (Condition 1).
    """
    graph = random_graph(Random(seed), edges=5, late=True)
    same = True
    for ports in (False, True):
        literal, declared = exact(graph, ports=ports), conservative(inferred(graph, ports=ports), ports=ports)
        assert within(literal, declared) is None, (seed, ports)
        same = same and literal.rows == declared.rows
    return same


@pytest.mark.seeded
def test_inferred_summaries_cover_the_exact_relation() -> None:
    found = [judge_summaries(seed) for seed in seeds(40)]
    assert HUNT or (found.count(True) > 0 and found.count(False) > 0)


@pytest.mark.long
@pytest.mark.seeded
def test_inferred_summaries_cover_the_exact_relation_of_many() -> None:
    exact_ones = [judge_summaries(seed) for seed in seeds(3_000, 40)].count(True)
    assert HUNT or exact_ones > 100


def crossed() -> Graph:
    """Left to left, right to right; a notification is asked for on the left and answered on the right, later."""

    def pass_on(s: Any, edge: str, m: Message) -> Any:
        return s, [m.time] if edge == "l" else [], {edge + "2": [m]}

    node = Node(
        pass_on, lambda s, t: (s, [], {"r2": [Message(t + 1)]} if t < 2 else {}),
        summaries={("l", "l2"): 0, ("r", "r2"): 0, (None, "r2"): 1},
    )  # fmt: skip
    return Graph(
        {"p": node}, {"l": (None, "p"), "r": (None, "p"), "l2": ("p", None), "r2": ("p", None)}, times=range(3)
    )


def test_a_summary_that_leads_before_all_times_leads_to_the_first() -> None:
    """From 0 to −1, which is not looked at; what is after that is."""
    graph = Graph(
        {"p": buffer("o", to=lambda t: 0, summaries={"o": -1})}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1]
    )
    assert conservative(graph).holds(("i", 0), ("o", 0)) and within(exact(graph), conservative(graph)) is None


def test_definition_1_forgets_the_port() -> None:
    graph = crossed()
    paper, ports = exact(graph), exact(graph, ports=True)
    assert paper.holds(("l", 0), ("r2", 0)) and not ports.holds(("l", 0), ("r2", 0))
    assert ports.holds(("l", 0), ("r2", 1))  # by the notification that it asks for
    assert within(ports, paper) is None
    assert within(ports, conservative(graph, ports=True)) is None
    assert within(paper, conservative(graph)) is None
    assert (
        within(paper, conservative(graph, ports=True)) is not None
    )  # summaries of ports do not cover the paper's relation
    assert not conservative(graph, ports=True).holds(("l", 0), ("r2", 0))


def test_what_is_not_in_the_graph_is_refused() -> None:
    relation = exact(crossed())
    with pytest.raises(UsageError, match="'q' is no location of graph: its nodes and edges are p, l, r, l2, r2"):
        relation.holds(("q", 0), ("p", 0))
    with pytest.raises(UsageError, match="graph: 7 is not among its times: 0, 1, 2"):
        relation.holds(("p", 7), ("p", 0))
    with pytest.raises(
        UsageError, match="'x' is not a time of integers of 64 bits: times of two domains cannot be compared"
    ):
        relation.holds(("p", "x"), ("p", 0))


# Conditions 1 and 2, the misprint in Definition 3, and loops in which no time passes.

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


def test_a_node_that_asks_again_for_the_time_of_its_notification_is_accepted() -> None:
    """Definition 3 as printed would refuse this one, and accept the one that asks for the past."""
    assert condition_1(alone(Node(None, lambda s, t: (s, [t], {})))) is None
    assert condition_1(alone(Node(None, lambda s, t: (s, [0] if t == 1 else [], {})))) is not None


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
