"""Recursion: the decision from the stacks, as printed and as corrected, against the closure by brute force."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from pellucid.errors import PellucidError, PipelineError, UsageError
from pellucid.progress.graph import Graph
from pellucid.progress.reach.conditions import condition_2
from pellucid.progress.reach.exact import exact
from pellucid.progress.reach.recursion import Recursion, conforming
from tests.seeds import HUNT, seeds

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
