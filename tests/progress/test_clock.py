"""Summaries as functions, and path summaries against walking along every path."""

from __future__ import annotations

import random
from collections import Counter, deque
from itertools import pairwise, product
from typing import Any

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.internal.model import Run
from pellucid.progress import (
    Builder,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    Operator,
    PathSummaries,
    Product,
    Set,
    Shift,
    Source,
    Step,
    Tagged,
    Target,
    Tracker,
    Worker,
    enter,
    feedback,
    leave,
)
from pellucid.progress.summaries import advance, summary
from tests.progress.meaning import Drawn, draw, draw_loops, families, frontiers, loops_advance, minimal
from tests.progress.models import Views, never_ahead
from tests.seeds import HUNT, seeds

SMALL, ONCE, TWICE = Integers(0, 6), Loop(Integers(0, 3)), Loop(Loop(Integers(0, 3)))
LEX = Lexicographic(Integers(0, 3), Integers(0, 3))
PAIR = Product(Integers(0, 3), Integers(0, 3))

WAYS = [
    *(advance(SMALL, n) for n in (-2, 0, 1, 4)),
    *(summary(PAIR, given) for given in ((0, 0), (1, 0), (0, 2), (Set(1), 0), (-1, 1))),
    *(summary(LEX, given) for given in ((0, 0), (1, -2), (1, Set(0)), (Set(2), Set(1)), (0, 1))),
    enter(Integers(0, 3)), leave(ONCE), feedback(ONCE), enter(ONCE), leave(TWICE), feedback(TWICE), feedback(TWICE, 2),
]  # fmt: skip
TIMES = {
    SMALL: list(range(7)), PAIR: list(product(range(4), repeat=2)), LEX: list(product(range(4), repeat=2)),
    Integers(0, 3): list(range(4)), ONCE: list(product(range(4), range(5))),
    TWICE: list(product(range(4), range(5), range(5))),
}  # fmt: skip


def test_a_composition_is_one_after_the_other() -> None:
    for one, two in product(WAYS, WAYS):
        if one.target != two.source:
            with pytest.raises(PipelineError, match="summaries cannot be composed: one ends in times of"):
                one.followed_by(two)
            continue
        both = one.followed_by(two)
        for time in TIMES[one.source]:
            middle = one.results_in(time)
            end = None if middle is None else two.results_in(middle)
            assert (None if both is None else both.results_in(time)) == end, (one, two, time)


def test_a_composition_remembers_what_did_not_get_through() -> None:
    """Up and down again: what would have overflowed on the way leads nowhere, however the three are put together."""
    ways = [advance(SMALL, n) for n in (-3, -1, 0, 2, 5)]
    for one, two, three in product(ways, ways, ways):
        first, last = one.followed_by(two), two.followed_by(three)
        left = None if first is None else first.followed_by(three)
        right = None if last is None else one.followed_by(last)
        for time in TIMES[SMALL]:
            end: int | None = time
            for way in (one, two, three):
                end = None if end is None else way.results_in(end)
            assert [None if whole is None else whole.results_in(time) for whole in (left, right)] == [end, end]


def test_summaries_are_monotone_and_compared_for_all_times() -> None:
    chained = [one.followed_by(two) for one, two in product(WAYS, WAYS) if one.target == two.source]
    known = [way for way in [*WAYS, *chained] if isinstance(way, Shift)]  # what a graph refuses stays a chain
    for way in known:
        ends = [(t, way.results_in(t)) for t in TIMES[way.source]]
        for (a, x), (b, y) in product(ends, ends):
            if way.source.le(a, b) and x is not None and y is not None:
                assert way.target.le(x, y), (way, a, b)
        if way.source == way.target:
            back = [t for t, then in ends if then is not None and not way.source.le(t, then)]
            assert (way.goes_back() is None) == (not back), (way, back)
            assert (way.stands() is None) == (not any(t == then for t, then in ends)), way
    for one, two in product(known, known):
        if (one.source, one.target) == (two.source, two.target):
            early = all(
                (end := two.results_in(t)) is None or ((x := one.results_in(t)) is not None and one.target.le(x, end))
                for t in TIMES[one.source]
            )
            assert one.less_equal(two) <= early, (
                one,
                two,
            )  # counters have no end: what the samples show may be too much
            if one.source in (SMALL, PAIR, LEX) and not one.carries:
                assert one.less_equal(two) == early, (one, two)


def test_what_is_no_summary() -> None:
    clocks = Domains({"gmt": Integers(), "pst": Integers()})
    for call, message in [
        (lambda: Shift(LEX, LEX, [Set(0), 1]), "a number that comes after one that is set must be set, too"),
        (lambda: Shift(Integers(), ONCE, [0, 1]), r"have no coordinate 1: nothing can be added to it; write Set\(1\)"),
        (lambda: Shift(PAIR, PAIR, [1]), r"a summary to times of .* has 2 numbers; \(1,\) has not"),
        (lambda: Shift(clocks, clocks, [1]), "are not whole numbers: give a Step or a Tagged"),
        (lambda: Tagged(Integers(), {}), "integers of 64 bits has no domains"),
        (lambda: Tagged(clocks, {"utc": ("gmt", advance(Integers(), 0))}), "the domain 'utc' has no times of"),
        (lambda: leave(Integers()), "are not the times of a loop; give the Loop that is left"),
        (lambda: feedback(Integers()), "are not the times of a loop; give the Loop that goes round"),
        (lambda: Step("next", lambda t: t + 1, Integers()), "next: give samples="),
        (lambda: Step("half", lambda t: t / 2, Integers(), samples=[1]), r"half of 1: 0.5 is not a time of integers"),
        (lambda: summary(PAIR, 3), r"3 is no summary of times of .* in the form of a time \(such as \(0, 0\)\)"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()


@pytest.mark.seeded
@pytest.mark.parametrize("name", [*families(), "loops in loops"])
def test_path_summaries_are_what_paths_do(name: str) -> None:
    """From one pointstamp they give the frontiers that going along every arc gives; every proof is a way."""
    asked = 0
    for seed in seeds(12, 500):
        rng = random.Random(seed)
        graph = draw_loops(rng, 5) if name == "loops in loops" else draw(families()[name], rng, 3)
        if not graph.builder.is_acyclic():
            continue
        paths = PathSummaries(graph.builder)
        for start in list(graph.arcs)[:4]:
            time = rng.choice(graph.times[start])
            right = frontiers(graph.arcs, {(start, time): 1}, graph.le)
            for end in graph.arcs:
                found = {label.summary.results_in(time) for label in paths.between(start, end)} - {None}
                assert {t for t in found if not any(graph.le[end](u, t) and u != t for u in found)} == right[end]
                then = rng.choice(graph.times[end])
                proof = paths.could_result_in(start, time, end, then)
                assert (proof is not None) == any(graph.le[end](t, then) for t in right[end])
                if proof is not None:
                    asked += 1
                    assert proof[0] == (start, time) and proof[-1][0] == end and graph.le[end](proof[-1][1], then)
                    for (a, t), (b, u) in pairwise(proof):
                        assert any(there == b and way(t) == u for there, way in graph.arcs[a])
    assert HUNT or asked > 5


def test_a_location_that_is_not_there() -> None:
    graph = Builder()
    graph.add_node(0, 1, 1, [[0]])
    with pytest.raises(UsageError, match=r"7.out0 is not in the graph; its locations are 0.in0, 0.out0"):
        PathSummaries(graph).between(Target(0), Source(7))
    with pytest.raises(UsageError, match=r"0.in0: \(1, 1\) is not a time of integers of 64 bits"):
        PathSummaries(graph).could_result_in(Target(0), (1, 1), Source(0), 1)


# The clock against its meaning, after every update.

FAMILIES = [*families(), "loops in loops"]


def drawn(name: str, rng: random.Random, nodes: int) -> Drawn:
    return draw_loops(rng, nodes) if name == "loops in loops" else draw(families()[name], rng, nodes)


def follow(graph: Drawn, tracker: Tracker, rng: random.Random, updates: int) -> None:
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
        tracker.update_iter(batch)
        tracker.propagate_all()
        for place in places:
            assert set(tracker.frontier(place)) == right[place], str(place)
        for (place, time), n in tracker.pushed().drain():
            seen[place][time] += n
            if not seen[place][time]:
                del seen[place][time]
        assert seen == {place: Counter(dict.fromkeys(times, 1)) for place, times in right.items()}
    assert tracker.pointstamps() == []


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
        built += 1
        follow(graph, graph.builder.build(), rng, 12)
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
            follow(graph, graph.builder.build(), rng, 2000)
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


def test_a_loop_of_three() -> None:
    tracker = ring(0, 0, 1).build()
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


# Several workers: no view is ever ahead of the clock, and in the end all agree; what each hypothesis is for.


def relay() -> Builder:
    """One node that reads, one that passes on, with a way back that advances."""
    graph = Builder()
    graph.add_node("read", 0, 1, [])
    graph.add_node("pass", 2, 1, [[0], [0]])
    graph.add_node("again", 1, 1, [[1]])
    graph.add_edge(Source("read"), Target("pass", 0))
    graph.add_edge(Source("pass"), Target("again"))
    graph.add_edge(Source("again"), Target("pass", 1))
    return graph


START = [(Source("read"), 0)]


@pytest.mark.parametrize("telling", ["together", "increases first"])
def test_all_runs_of_a_few_workers(telling: Any) -> None:
    verdict = never_ahead(Views(relay(), START, workers=3, steps=2, telling=telling))
    assert verdict.bounded and verdict.details["states"] > 500


@pytest.mark.long
@pytest.mark.parametrize(("workers", "steps"), [(3, 3), (2, 4)])
def test_all_runs_of_more(workers: int, steps: int) -> None:
    assert never_ahead(Views(relay(), START, workers=workers, steps=steps)).bounded


def test_each_hypothesis_is_needed() -> None:
    """The shortest runs without them: what is ahead, and that it happens again when the run is replayed."""
    for dropped, length in [
        ({"telling": "decreases first"}, 2),  # a step, and half of what is told
        ({"telling": "increases first", "fifo": False}, 2),  # the halves overtake each other
        ({"founded": False}, 2),  # one used it up, and another makes it anew from its frontier
    ]:
        verdict = never_ahead(Views(relay(), START, workers=2, steps=2, **dropped))  # type: ignore[arg-type]
        assert verdict.refuted and isinstance(verdict.counterexample, Run), dropped
        assert len(verdict.counterexample.steps) == length and verdict.counterexample.replay()
        assert "has let 0 pass at" in verdict.counterexample.why
    assert "from its frontier" in verdict.counterexample.steps[1]
    assert never_ahead(
        Views(relay(), START, workers=2, steps=2, fifo=False)
    ).bounded  # in one piece, order does not matter


def test_a_bound_is_not_a_proof() -> None:
    assert never_ahead(Views(relay(), START, workers=3, steps=3), max_states=100).unknown


def test_a_capability_from_the_frontier_is_refused() -> None:
    graph = relay()
    worker = Worker(graph, [(stamp, 1) for stamp in START])
    operator = Operator(worker, "pass")
    assert worker.frontier(Target("pass", 0)).elements() == [0]  # it may still come …
    with pytest.raises(
        UsageError, match=r"pass.out0: nothing that node pass holds gives a capability for 0: .* frontier"
    ):
        operator.capability(0, 0)
    worker.update(Source("pass"), 0, 1)  # … and by hand it is refused as well
    with pytest.raises(UsageError, match=r"a step makes \(pass.out0, 0\) out of nothing"):
        worker.commit()
    with pytest.raises(UsageError, match=r"a capability for again.out0 cannot be used here; ask for one for output 0"):
        operator.send(Operator(worker, "again").start(0, 5), 0)
    with pytest.raises(UsageError, match="it has begun"):
        operator.start(0, 5)


def simulate(workers: int, seed: int, steps: int) -> None:
    """Workers on a random graph take random steps and hear of each other when they do; the truth is kept by the meaning
    of clocks alone."""
    rng = random.Random(seed)
    name = rng.choice(["integers", "pairs"])
    while True:
        graph = draw(families()[name], rng, rng.randrange(2, 5))
        if graph.builder.is_acyclic():
            break
    arcs = graph.builder.arcs()
    places = list(graph.arcs)
    there = Counter((place, rng.choice(graph.times[place])) for place in rng.choices(places, k=3))
    crew = [Worker(arcs, there.items()) for _ in range(workers)]
    under_way: dict[tuple[int, int], deque[Any]] = {}

    def look(who: int) -> None:
        truth = frontiers(graph.arcs, there, graph.le)
        for place in places:
            seen = crew[who].frontier(place)
            assert all(seen.less_equal(time) for time in truth[place]), (seed, who, str(place))

    def hear(key: tuple[int, int]) -> None:
        crew[key[1]].hear(under_way[key].popleft())
        if not under_way[key]:
            del under_way[key]
        look(key[1])

    for _ in range(steps):
        live = [stamp for stamp, count in there.items() if count > 0]
        if live and rng.random() < 0.4:
            who, (place, time) = rng.randrange(workers), rng.choice(live)
            changes = Counter({(place, time): -1})
            for after, way in rng.sample(graph.arcs[place], min(len(graph.arcs[place]), rng.randrange(3))):
                then = way(time)
                if then is not None:
                    changes[after, then] += 1
            for (at, t), diff in changes.items():
                crew[who].update(at, t, diff)
            told = crew[who].commit()
            there.update(dict(told))
            for other in range(workers):
                if other != who:
                    under_way.setdefault((who, other), deque()).append(told)
            for n in rng.sample(range(workers), min(workers, 3)):
                look(n)
        elif under_way:
            hear(rng.choice(list(under_way)))
    while under_way:
        hear(rng.choice(list(under_way)))
    truth = frontiers(graph.arcs, there, graph.le)
    assert all(set(worker.frontier(place)) == truth[place] for worker in crew for place in places)


@pytest.mark.seeded
def test_random_workers_are_never_ahead() -> None:
    for seed in seeds(6):
        simulate(2 + seed % 4, seed, 60)


@pytest.mark.long
@pytest.mark.seeded
def test_many_random_workers_are_never_ahead() -> None:
    for seed in seeds(200):
        simulate(2 + seed % 31, seed, 400)


def test_a_loop_is_refused_from_whichever_place_it_leads_into_the_past() -> None:
    """From the input of ``a`` no time gets round; from that of ``b`` one comes back in another domain."""
    clocks, plus = Domains({"gmt": Integers(), "pst": Integers()}), Shift(Integers(), Integers(), [1])
    graph = Builder(clocks)
    graph.add_node("a", 1, 1, [[Tagged(clocks, {"gmt": ("gmt", plus), "pst": ("gmt", plus)})]])
    graph.add_node("b", 1, 1, [[Tagged(clocks, {"pst": ("pst", plus)})]])
    graph.add_edge(Source("a"), Target("b"))
    graph.add_edge(Source("b"), Target("a"))
    assert not graph.is_acyclic()
    with pytest.raises(PipelineError, match=r"the loop b\.in0 .* into the past.*\('pst', 0\).*Condition 2"):
        graph.build()
