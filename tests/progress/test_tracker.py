"""The clock against its meaning: literal and plain, after every update."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.progress import Builder, Integers, Loop, Product, Source, Target, Tracker, enter, feedback, leave
from pellucid.progress.tracker import Plain
from tests.progress.meaning import Drawn, draw, draw_loops, families, frontiers, loops_advance, minimal
from tests.seeds import HUNT, seeds

FAMILIES = [*families(), "loops in loops"]


def drawn(name: str, rng: random.Random, nodes: int) -> Drawn:
    return draw_loops(rng, nodes) if name == "loops in loops" else draw(families()[name], rng, nodes)


def clocks(graph: Builder, modes: list[str]) -> list[Tracker]:
    return [graph.build(mode) for mode in modes]


def follow(graph: Drawn, trackers: list[Tracker], rng: random.Random, updates: int) -> None:
    """Updates, some of several counts, some that take back what is there or was never there; then all goes."""
    counts: Counter[Any] = Counter()
    seen: dict[Any, Counter[Any]] = {place: Counter() for place in graph.arcs}
    places = list(graph.arcs)
    for step in range(updates + 1):
        batch: list[tuple[Any, int]] = []
        for _ in range(rng.choice([1, 1, 2, 5])):
            there = [key for key, n in counts.items() if n]
            if there and rng.random() < 0.5:
                key = rng.choice(there)
                batch.append((key, -counts[key] if rng.random() < 0.7 else 1))
            else:
                place = rng.choice(places)
                batch.append(((place, rng.choice(graph.times[place])), rng.choice([1, 1, 2, -1])))
        if step == updates:
            batch = [(key, -n) for key, n in counts.items()]
        for key, n in batch:
            counts[key] += n
        right = frontiers(graph.arcs, counts, graph.le)
        for tracker in trackers:
            tracker.update_iter(batch)
            tracker.propagate_all()
            for place in places:
                assert set(tracker.frontier(place)) == right[place], (type(tracker).__name__, str(place))
            for (place, time), n in tracker.pushed().drain():
                if tracker is trackers[0]:
                    seen[place][time] += n
                    if not seen[place][time]:
                        del seen[place][time]
        assert seen == {place: Counter(dict.fromkeys(times, 1)) for place, times in right.items()}
    assert all(tracker.pointstamps() == [] for tracker in trackers)


@pytest.mark.seeded
@pytest.mark.parametrize("name", FAMILIES)
def test_incremental_is_recomputed(name: str) -> None:
    """On random graphs that are accepted; and those are accepted whose loops advance."""
    built = 0
    for seed in seeds(25):
        rng = random.Random(seed)
        graph = drawn(name, rng, rng.randrange(1, 5))
        advances = loops_advance(graph.arcs, graph.le, graph.times)
        assert graph.builder.is_acyclic() == advances
        if not advances:
            with pytest.raises(
                PipelineError, match=r"does not advance the time: a notification at|leads into the past"
            ):
                graph.builder.build()
            continue
        trackers = clocks(graph.builder, ["plain", "literal"])
        built += 1
        follow(graph, trackers, rng, 12)
    assert HUNT or built > 5


@pytest.mark.long
@pytest.mark.parametrize("name", ["integers", "pairs", "lexicographic", "loops in loops"])
def test_a_hundred_thousand_updates(name: str) -> None:
    done, seed = 0, 0
    while done < 100_000:
        seed += 1
        rng = random.Random(f"{name} {seed}")
        graph = drawn(name, rng, rng.randrange(2, 7))
        if graph.builder.is_acyclic():
            follow(graph, clocks(graph.builder, ["plain"]), rng, 2000)
            done += 2000


def ring(*summaries: int) -> Builder:
    graph = Builder()
    for n, by in enumerate(summaries):
        graph.add_node(n, 1, 1, [[by]])
    for n in range(len(summaries)):
        graph.add_edge(Source(n), Target((n + 1) % len(summaries)))
    return graph


def pushed(tracker: Tracker) -> list[tuple[str, Any, int]]:
    tracker.propagate_all()
    return [(str(at), time, n) for (at, time), n in tracker.pushed().drain() if at.is_target]


@pytest.mark.parametrize("mode", ["plain", "literal"])
def test_a_loop_of_three(mode: str) -> None:
    tracker = ring(0, 0, 1).build(mode)
    tracker.update_source(Source(0), 17, 1)
    assert pushed(tracker) == [("0.in0", 18, 1), ("1.in0", 17, 1), ("2.in0", 17, 1)]
    assert not tracker.complete(1, 17) and tracker.complete(0, 17)
    tracker.update_source(Source(0), 17, -1)
    assert pushed(tracker) == [("0.in0", 18, -1), ("1.in0", 17, -1), ("2.in0", 17, -1)]
    assert all(tracker.frontier(Target(n)).is_empty() and tracker.complete(n, 10**9) for n in range(3))


def test_loops_that_do_not_advance_are_refused() -> None:
    with pytest.raises(PipelineError) as error:
        ring(0, 0, 0).build()
    assert str(error.value) == (
        "the loop 0.in0 → 0.out0 → 1.in0 → 1.out0 → 2.in0 → 2.out0 → 0.in0 does not advance the time: a notification "
        "at node 0 for the time 0 would never come, because what it sends could come back to it with the time 0; give "
        "one of its nodes a summary that advances the time"
    )
    with pytest.raises(PipelineError) as error:
        ring(0, -1).build()
    assert str(error.value) == (
        "the loop 0.in0 → 0.out0 → 1.in0 → 1.out0 → 0.in0 leads into the past: its summary -1 takes the time 0 to "
        "-1, so (0, 0) could result in a message for -1 into node 0, and 0 ≤ -1 does not hold (Condition 2); let it "
        "advance the time"
    )
    assert ring(-1, 2).is_acyclic() and not ring(-1, 1).is_acyclic()


def test_crossed_ports_are_accepted() -> None:
    graph = Builder()
    graph.add_node(0, 2, 2, [{0: 0}, {1: 1}])
    graph.add_edge(Source(0, 0), Target(0, 1))
    graph.add_edge(Source(0, 1), Target(0, 0))
    tracker = graph.build()
    tracker.update_target(Target(0, 0), 5, 1)
    assert pushed(tracker) == [("0.in0", 5, 1), ("0.in1", 5, 1)]


def test_ingress_feedback_egress() -> None:
    """A loop in one graph, with a loop inside it: what is under way in the inner loop holds back the end."""
    epochs, once, twice = Integers(), Loop(Integers()), Loop(Loop(Integers()))
    graph = Builder(epochs)
    inside = {"orders_in": [once], "orders_out": [once]}
    deep = {"orders_in": [twice], "orders_out": [twice]}
    graph.add_node("in", 1, 1, [[enter(epochs)]], orders_out=[once])
    graph.add_node("body", 2, 1, [[0], [0]], orders_in=[once, once], orders_out=[once])
    graph.add_node("deeper", 1, 1, [[enter(once)]], orders_in=[once], orders_out=[twice])
    graph.add_node("inner", 2, 1, [[0], [0]], orders_in=[twice, twice], orders_out=[twice])
    graph.add_node("again", 1, 1, [[feedback(twice)]], **deep)
    graph.add_node("up", 1, 1, [[leave(twice)]], orders_in=[twice], orders_out=[once])
    graph.add_node("round", 1, 1, [[feedback(once)]], **inside)
    graph.add_node("out", 1, 1, [[leave(once)]], orders_in=[once])
    for a, b, port in [
        ("in", "body", 0), ("body", "deeper", 0), ("deeper", "inner", 0), ("inner", "again", 0), ("again", "inner", 1),
        ("inner", "up", 0), ("up", "round", 0), ("up", "out", 0), ("round", "body", 1),
    ]:  # fmt: skip
        graph.add_edge(Source(a), Target(b, port))
    tracker = graph.build()
    tracker.update_target(Target("inner", 1), (7, 3, 5), 1)
    tracker.update_target(Target("in"), 8, 1)
    tracker.propagate_all()
    assert tracker.frontier(Target("inner", 1)).elements() == [(7, 3, 5), (8, 0, 1)]  # its own rounds later are later
    assert tracker.frontier(Target("body", 1)).elements() == [(7, 4), (8, 1)]
    assert tracker.frontier(Target("out")).elements() == [(7, 3), (8, 0)]
    assert tracker.frontier(Source("out")).elements() == [7]
    tracker.update_target(Target("inner", 1), (7, 3, 5), -1)
    tracker.propagate_all()
    assert tracker.frontier(Source("out")).elements() == [8]


def test_bad_input_is_refused() -> None:
    tracker = ring(1).build()
    for call, message in [
        (lambda: tracker.update_source(Source(5), 1, 1), "5.out0 is not in the graph; its locations are 0.in0, 0.out0"),
        (lambda: tracker.update_target(Target(0), (1, 2), 1), r"0.in0: \(1, 2\) is not a time of integers of 64 bits"),
        (lambda: tracker.update_target(Source(0), 1, 1), "update_target: 0.out0 is no input"),
        (lambda: tracker.update_target(Target(0), 1, 1.5), "the change 1.5 of a count is not a whole number"),
        (lambda: tracker.complete(7, 1), "there is no node 7"),
        (lambda: ring(1).build("fast"), "mode='fast': one of auto, plain, literal is known"),
        (lambda: Builder().add_node(0, 1, 1, [[(1, 2)]]), r"node 0, input 0 to output 0: \(1, 2\) is no summary"),
        (lambda: Builder().add_node(0, 1, 1, [[0], [0]]), "node 0 has 1 inputs; summaries has 2 entries"),
        (lambda: Builder().add_node(0, 1, 1, [{1: 0}]), "node 0, input 0: there is no output 1; the node has 1"),
        (lambda: Builder().add_node(0, 1000, 1000), "say which are connected"),
        (lambda: Builder().add_node(0, 1, 1, [[enter(Integers())]]), "here times of integers of 64 bits come in and"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()
    alone = Builder(Product(Integers()))
    alone.add_node(0, 1, 0, [[]])
    with pytest.raises(UsageError, match=r"0.in0: 3 is not a time of \(integers of 64 bits\)"):
        alone.build().update_target(Target(0), 3, 1)
    graph = Builder()
    graph.add_node(0, 0, 1, [])
    graph.add_node(1, 1, 0, [[]], orders_in=[Loop(Integers())])
    with pytest.raises(
        PipelineError, match="times of two domains cannot be compared: put a node with a summary between"
    ):
        graph.add_edge(Source(0), Target(1))


def _one(order: Integers) -> Builder:
    graph = Builder(order)
    graph.add_node(0, 1, 1, [[1]])
    return graph


def test_a_summary_that_overflows_leads_nowhere() -> None:
    for order in (Integers(0, 2**64 - 1), Integers()):
        tracker = _one(order).build()
        tracker.update_target(Target(0), order.high, 1)
        tracker.propagate_all()
        assert tracker.frontier(Target(0)).elements() == [order.high] and tracker.frontier(Source(0)).is_empty()


def test_the_cost_is_that_of_what_changes() -> None:
    """How many changes are looked at: not more in a longer history, nor where there are more ports; none where no
    frontier changes."""
    for ports in (10, 1000):
        graph = Builder()
        graph.add_node(0, ports, ports, [{i: 0} for i in range(ports)])
        tracker = graph.build()
        assert isinstance(tracker, Plain)
        costs = []
        for time in range(300):
            before = tracker.settled
            tracker.update_target(Target(0, 3), time, 1)
            if time:
                tracker.update_target(Target(0, 3), time - 1, -1)
            tracker.propagate_all()
            costs.append(tracker.settled - before)
        assert set(costs[1:]) == {4}
        before = tracker.settled
        for _ in range(100):
            tracker.update_target(Target(0, 3), 1000, 1)
            tracker.propagate_all()
        assert tracker.settled == before


def test_many_times_wait() -> None:
    count = 1600
    graph = Builder(Product(Integers(), Integers()))
    graph.add_node(0, 1, 3, [[(0, 0), (1, 0), [(0, 2), (2, 1)]]])
    rng, tracker = random.Random(7), graph.build()
    times = rng.sample([(a, b) for a in range(200) for b in range(200)], count)
    tracker.update_iter(((Target(0), time), 1) for time in times)
    left = sorted(times, key=lambda t: (t[0] + t[1], t))  # roughly from the front
    while left:
        tracker.propagate_all()
        found = set(tracker.frontier(Target(0)))
        assert found == {t for t in left if not any(u != t and u[0] <= t[0] and u[1] <= t[1] for u in left)}
        moved = {(a, b + 2) for a, b in found} | {(a + 2, b + 1) for a, b in found}
        assert set(tracker.frontier(Source(0, 1))) == {(a + 1, b) for a, b in found}
        assert set(tracker.frontier(Source(0, 2))) == minimal(moved, lambda a, b: a[0] <= b[0] and a[1] <= b[1])
        gone, left = left[: count // 8], left[count // 8 :]
        tracker.update_iter(((Target(0), time), -1) for time in gone)
    tracker.propagate_all()
    assert tracker.frontier(Source(0, 2)).is_empty() and tracker.pushed().is_empty() and tracker.pointstamps() == []
