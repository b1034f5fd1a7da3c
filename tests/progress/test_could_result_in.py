"""Could-result-in: Definitions 1 and 2 against their words, Theorem 1, Propositions 1 to 3, proofs."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from pellucid.errors import PellucidError, PipelineError, UsageError
from pellucid.progress.could_result_in import Relation, conservative, exact, inferred, within
from pellucid.progress.graph import Graph, Message, Node, Recursion, buffer, conforming
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
    universal = relation.universal_time()
    assert (universal is not None) == transitive  # Proposition 2
    if universal is not None:
        for a in relation.pointstamps():
            for b in relation.pointstamps():
                assert relation.holds(a, b) == universal.less_equal(universal.of[a], universal.of[b])
    some = rng.sample(relation.pointstamps(), 2)
    closed = _least_closed(literal, some)
    assert set(map(tuple, relation.close(some))) == closed
    assert set(map(tuple, relation.image(some))) == {b for a, b in literal if a in some}
    if transitive:
        assert relation.close(some) == relation.image(some)  # Proposition 3
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
def test_definitions_theorem_1_and_propositions_2_and_3() -> None:
    found = [judge(seed) for seed in seeds(40)]
    assert 2 <= found.count(False) <= 38  # both ways round were seen


@pytest.mark.long
@pytest.mark.seeded
def test_definitions_theorem_1_and_propositions_2_and_3_on_many() -> None:
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
    assert ("o", 0) in relation.close([("i", 1)]) and ("o", 0) not in relation.image([("i", 1)])
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


# Recursion: the decision from the stacks, as printed and as corrected, against the closure by brute force.

CYCLE = [("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")]


def random_recursion(rng: Random) -> Recursion:
    """With one or two calls; edges by chance, and those that make it a recursion."""
    calls = ["c", "d"][: rng.randint(1, 2)]
    nodes = ["a", "b", *calls]
    while True:
        edges = [("in", "a"), ("a", "out")]
        edges += [(x, y) for x in nodes for y in nodes if rng.random() < 0.3]
        edges += [("in", y) for y in nodes if rng.random() < 0.2] + [(x, "out") for x in nodes if rng.random() < 0.2]
        try:
            return Recursion(edges, calls)
        except PipelineError:
            continue


def compare(seed: int) -> tuple[int, int]:
    """Both decisions against the closure; how often the printed one said no wrongly, and yes wrongly."""
    recursion = random_recursion(Random(seed))
    stacks = list(recursion.stacks(2))
    places = list(product(recursion.nodes, stacks))
    missed = invented = 0
    for a in places:
        reached = recursion.closure(a, 4)
        for b in places:
            truth = b in reached
            assert recursion.reaches(a, b) == truth, (recursion.edges, recursion.calls, a, b)
            printed = recursion.reaches(a, b, decision="printed")
            missed += truth and not printed
            invented += printed and not truth
    return missed, invented


@pytest.mark.seeded
def test_the_corrected_decision_is_the_closure() -> None:
    found = [compare(seed) for seed in seeds(12)]
    assert HUNT or sum(missed for missed, _ in found) > 0  # the printed one misses some
    assert sum(invented for _, invented in found) == 0  # and never says too much


@pytest.mark.long
@pytest.mark.seeded
def test_the_corrected_decision_is_the_closure_on_many() -> None:
    missed = sum(missed for missed, _ in map(compare, seeds(300, 12)))
    assert HUNT or missed > 100


def test_the_printed_decision_is_refuted_by_its_counterexample() -> None:
    recursion = Recursion(CYCLE, calls=["c"])
    a, b = ("a", ("c",)), ("in", ("c",))
    assert not recursion.reaches(a, b, decision="printed") and recursion.reaches(a, b)
    way = recursion.way(a, b)
    assert way == [a, ("out", ("c",)), ("ret-c", ()), ("a", ()), ("call-c", ()), b]
    assert all(then in [x for _, x in recursion.steps(here)] for here, then in pairwise(way))


def test_without_a_cycle_through_a_call_the_printed_one_is_right() -> None:
    recursion = Recursion([("in", "a"), ("a", "c"), ("c", "d"), ("d", "out"), ("a", "out")], calls=["c", "d"])
    places = list(product(recursion.nodes, recursion.stacks(2)))
    for a, b in product(places, repeat=2):
        assert recursion.reaches(a, b, decision="printed") == recursion.reaches(a, b)


@pytest.mark.parametrize("edges", [CYCLE, [("in", "a"), ("a", "c"), ("c", "out"), ("a", "out")]])
def test_propositions_4_to_6(edges: list[tuple[str, str]]) -> None:
    """Stacks as times, tagged by nodes, in a graph whose nodes keep to the recursion."""
    recursion = Recursion(edges, calls=["c"])
    graph: Graph = recursion.graph(conforming, 2)
    relation = exact(graph)
    assert relation.not_transitive() is None and condition_2(relation) is None  # Proposition 6
    for a in relation.pointstamps():
        for b in relation.pointstamps():
            if a.location in graph.nodes and b.location in graph.nodes and relation.holds(a, b):
                (p, (q, f)), (p2, (q2, f2)) = a, b
                if (q, q2) == (p, p2):
                    assert recursion.reaches((p, f), (p2, f2))  # Proposition 4
                if p != p2:
                    assert (q, q2) == (p, p2)  # Proposition 5


def test_stacks_that_reach_each_other_are_one_time() -> None:
    recursion = Recursion(CYCLE, calls=["c"])
    assert set(recursion.times("a", 2).values()) == {()}
    assert recursion.before("a")((), ("c",)) and recursion.before("a")(("c",), ())
    straight = Recursion([("in", "a"), ("a", "c"), ("c", "out"), ("a", "out")], calls=["c"])
    assert set(straight.times("a", 2).values()) == {(), ("c",), ("c", "c")}


@pytest.mark.parametrize(
    ("edges", "calls", "message"),
    [
        (
            [("in", "c"), ("c", "out")],
            ["c"],
            "every way from in to out makes a call: it would never end; add one without",
        ),
        ([("in", "out"), ("in", "a")], [], "out is not reached from 'a': every node must be on a way from in to out"),
        ([("in", "out"), ("a", "out")], [], "'a' is not reached from in: every node must be on a way from in to out"),
        ([("in", "out"), ("out", "in")], [], "no edge may enter in"),
        ([("in", "out")], ["c"], "no edge touches 'c': it needs in, out, and every call"),
        (
            [("in", "call-c"), ("call-c", "out")],
            [],
            "'call-c': names that begin with call- or ret- are made here: take another",
        ),
        ([("in", "out")], ["in"], "'in' cannot be a call"),
    ],
)
def test_what_is_no_recursion_is_refused(edges: list[tuple[str, str]], calls: list[str], message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Recursion(edges, calls)
    assert str(caught.value) == f"recursion: {message}"


def test_places_that_are_none_are_refused() -> None:
    recursion = Recursion(CYCLE, calls=["c"])
    for place, message in ((("b", ()), "'b' is no node: "), (("a", ("d",)), "'d' is no call: c is")):
        with pytest.raises(UsageError) as caught:
            recursion.reaches(place, ("a", ()))
        assert message in str(caught.value) and isinstance(caught.value, PellucidError)
