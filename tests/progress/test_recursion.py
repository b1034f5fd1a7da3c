"""Recursion (section 3.4): the decision from the stacks, held against going all ways; stacks as times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from random import Random

import pytest

from pellucid.errors import PellucidError, PipelineError, UsageError
from pellucid.progress import Graph, Message, Node, Order, Recursion, exact
from pellucid.progress.graph import Place, Stack
from pellucid.progress.question import condition_2
from tests.seeds import HUNT, seeds

CYCLE = [("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")]


def stacks(recursion: Recursion, depth: int) -> list[Stack]:
    return [stack for n in range(depth + 1) for stack in product(recursion.calls, repeat=n)]


def onward(recursion: Recursion, place: Place) -> list[Place]:
    """The steps of the paper, from the edges alone."""
    p, f = place
    if p.startswith("call-"):
        return [("in", (*f, p[5:]))]
    if p == "out":
        return [(f"ret-{f[-1]}", f[:-1])] if f else []
    name = p.removeprefix("ret-")
    return [(f"call-{b}" if b in recursion.calls else b, f) for a, b in recursion.edges if a == name]


def closure(recursion: Recursion, start: Place, depth: int) -> set[Place]:
    seen, todo = {start}, [start]
    while todo:
        for place in onward(recursion, todo.pop()):
            if len(place[1]) <= depth and place not in seen:
                seen.add(place)
                todo.append(place)
    return seen


def longest_prefix_alone(recursion: Recursion, a: Place, b: Place) -> bool:
    """The paper's decision, which looks at no common prefix but the longest: the walk inside one call."""
    (p, f), (q, g) = a, b
    n = next((i for i, (x, y) in enumerate(zip(f, g, strict=False)) if x != y), min(len(f), len(g)))
    leave = f"ret-{f[n]}" if len(f) > n else p
    enter = f"call-{g[n]}" if len(g) > n else q
    return enter in recursion._walks[leave]


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


def compare(seed: int) -> int:
    """The decision against the closure; how often the paper's one misses something (it never says too much)."""
    rng = Random(seed)
    recursion = random_recursion(rng)
    places = list(product(recursion.nodes, stacks(recursion, 2)))
    missed = 0
    for a in places:
        reached = closure(recursion, a, 4)
        for b in places:
            truth, printed = b in reached, longest_prefix_alone(recursion, a, b)
            assert recursion.reaches(a, b) == truth, (recursion.edges, recursion.calls, a, b)
            assert truth or not printed
            missed += truth and not printed
            if truth and rng.random() < 0.01:
                way = recursion.way(a, b)
                assert way is not None and (way[0], way[-1]) == (a, b)
                assert all(then in onward(recursion, here) for here, then in pairwise(way))
    return missed


@pytest.mark.seeded
def test_the_decision_is_the_closure() -> None:
    assert sum(map(compare, seeds(12))) > 0 or HUNT  # the paper's misses some


@pytest.mark.long
@pytest.mark.seeded
def test_the_decision_is_the_closure_on_many() -> None:
    assert sum(map(compare, seeds(300, 12))) > 100 or HUNT


def test_the_decision_of_the_paper_is_refuted_by_a_cycle_through_a_call() -> None:
    recursion = Recursion(CYCLE, calls=["c"])
    a, b = ("a", ("c",)), ("in", ("c",))
    assert not longest_prefix_alone(recursion, a, b) and recursion.reaches(a, b)
    assert recursion.way(a, b) == [a, ("out", ("c",)), ("ret-c", ()), ("a", ()), ("call-c", ()), b]
    straight = Recursion([("in", "a"), ("a", "c"), ("c", "d"), ("d", "out"), ("a", "out")], calls=["c", "d"])
    for one, two in product(product(straight.nodes, stacks(straight, 2)), repeat=2):
        assert longest_prefix_alone(straight, one, two) == straight.reaches(one, two)


# ---------------------------------------------------------------- stacks as times


class TaggedStacks(Order):
    """A node's name and a stack, compared at that node: the disjoint union of the orders of all nodes."""

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion

    def holds(self, time: Place) -> bool:
        return time[0] in self.recursion.nodes and all(c in self.recursion.calls for c in time[1])

    def le(self, a: Place, b: Place) -> bool:
        return a[0] == b[0] and self.recursion.reaches(a, b)

    def _key(self) -> tuple[object, ...]:
        return self.recursion.edges, self.recursion.calls


def classes(recursion: Recursion, node: str, depth: int) -> dict[Stack, Stack]:
    """Each stack with the first one that is the same time at a node."""
    before, first = recursion.before(node), dict[Stack, Stack]()
    for f in stacks(recursion, depth):
        first[f] = next((g for g in dict.fromkeys(first.values()) if before(f, g) and before(g, f)), f)
    return first


def as_graph(recursion: Recursion, depth: int) -> Graph:
    """The graph with the back edges of calls, whose nodes send to all that the recursion reaches in one step."""
    first = {p: classes(recursion, p, depth) for p in recursion.nodes}
    pairs = {(p, q) for p in recursion.nodes for f in first[p] for q, _ in onward(recursion, (p, f))}
    edges: dict[str, tuple[str | None, str | None]] = {f"{p}>{q}": (p, q) for p, q in sorted(pairs)}
    times = {p: [(p, f) for f in dict.fromkeys(first[p].values())] for p in recursion.nodes}
    times |= {e: times[b] for e, (_, b) in edges.items() if b is not None}

    def sends(name: str) -> Callable[[object, Place], object]:
        def send(state: object, time: Place) -> object:
            sent: dict[str, list[Message]] = {}
            for stack in [s for s, one in first[name].items() if time == (name, one)]:
                for q, f in onward(recursion, (name, stack)):
                    if len(f) <= depth:
                        sent.setdefault(f"{name}>{q}", []).append(Message((q, first[q][f])))
            return state, (), {edge: list(dict.fromkeys(messages)) for edge, messages in sent.items()}

        return send

    def node(name: str) -> Node:
        send = sends(name)
        return Node(lambda state, edge, message: send(state, message.time), send)

    nodes = {p: node(p) for p in recursion.nodes}
    return Graph(nodes, edges, order=TaggedStacks(recursion), times=times, name="recursion")


@pytest.mark.parametrize("edges", [CYCLE, [("in", "a"), ("a", "c"), ("c", "out"), ("a", "out")]])
def test_propositions_4_to_6(edges: list[tuple[str, str]]) -> None:
    """Stacks as times, tagged by nodes, in a graph whose nodes keep to the recursion."""
    recursion = Recursion(edges, calls=["c"])
    graph = as_graph(recursion, 2)
    relation = exact(graph)
    assert relation.not_transitive() is None and condition_2(relation) is None  # Proposition 6
    for a, b in product(relation.pointstamps(), repeat=2):
        if a.location in graph.nodes and b.location in graph.nodes and relation.holds(a, b):
            (p, (q, f)), (p2, (q2, f2)) = a, b
            if (q, q2) == (p, p2):
                assert recursion.reaches((p, f), (p2, f2))  # Proposition 4
            if p != p2:
                assert (q, q2) == (p, p2)  # Proposition 5


def test_stacks_that_reach_each_other_are_one_time() -> None:
    assert set(classes(Recursion(CYCLE, calls=["c"]), "a", 2).values()) == {()}
    straight = Recursion([("in", "a"), ("a", "c"), ("c", "out"), ("a", "out")], calls=["c"])
    assert set(classes(straight, "a", 2).values()) == {(), ("c",), ("c", "c")}


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
