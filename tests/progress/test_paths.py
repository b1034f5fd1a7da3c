"""Summaries as functions, and path summaries against walking along every path."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.progress import (
    Builder,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    PathSummaries,
    Product,
    Set,
    Shift,
    Source,
    Step,
    Tagged,
    Target,
    enter,
    feedback,
    leave,
)
from pellucid.progress.summaries import advance, summary
from tests.progress.meaning import draw, draw_loops, families, frontiers
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
