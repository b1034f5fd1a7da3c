"""Several workers: no view is ever ahead of the clock, and in the end all agree; what each hypothesis is for."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import pytest

from pellucid.errors import UsageError
from pellucid.internal.model import Run
from pellucid.progress import Builder, Operator, Source, Target, Views, Worker, never_ahead
from tests.progress.meaning import draw, families, frontiers
from tests.seeds import seeds


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
