"""Advice that is never wrong: suggested integers tell the pipeline's cases apart, and a verdict over some integers says
that it is one."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, Stream, check, merge, pipeline
from pellucid.check.advice import suggested, thresholds
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.errors import NotTraceable


def after(threshold: int, times: int = 3) -> Any:
    """Says so after so many events above the threshold in a row."""

    def step(n: int, d: int) -> tuple[int, list[int]]:
        n = n + 1 if d > threshold else 0
        return n, [n] if n >= times else []

    return pipeline(lambda d: d.task(step, initial=0, id="row"), d=int)


class Color(Enum):
    RED = 1
    BLUE = 2


class Reading(NamedTuple):
    sensor: int
    value: int
    color: Color


class Named(NamedTuple):
    name: str
    amount: int


THRESHOLDS: dict[str, tuple[Callable[[Any], Any], list[tuple[int, int]]]] = {
    "greater": (lambda x: x.filter(lambda v: v > 80), [(80, 81)]),
    "at least": (lambda x: x.filter(lambda v: v >= 80), [(79, 80)]),
    "equal": (lambda x: x.filter(lambda v: v == 7), [(6, 7)]),
    "negative": (lambda x: x.filter(lambda v: v < -5), [(-6, -5)]),
    "far": (lambda x: x.filter(lambda v: v > 2**40), [(2**40, 2**40 + 1)]),
    "at the edge": (lambda x: x.filter(lambda v: v == 2**63 - 1), [(2**63 - 2, 2**63 - 1)]),
    "through a map": (lambda x: x.map(lambda v: v * 3 + 1).filter(lambda v: v > 60), [(19, 20)]),
    "through a quotient": (lambda x: x.map(lambda v: v // 10).filter(lambda v: v > 60), [(609, 610)]),
    "remainder": (lambda x: x.filter(lambda v: v % 3 == 1), [(0, 1)]),
    "two": (lambda x: x.filter(lambda v: 10 < v < 20), [(10, 11), (19, 20)]),
    "none": (lambda x: x.map(lambda v: v + 1), []),
    "of a state only": (lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= 3), []),
}


@pytest.mark.parametrize("which", THRESHOLDS)
def test_thresholds(which: str) -> None:
    build, expected = THRESHOLDS[which]
    system = build_system(pipeline(build, x=int).graph, domain_of(None))
    assert sorted({(t.last, t.first) for t in thresholds(system)}) == expected
    values = suggested(system)
    assert all(t.told_apart(values) for t in thresholds(system)) and all({a, b} <= set(values) for a, b in expected)


def test_a_suggestion_contains_the_constants() -> None:
    assert suggested(build_system(after(80).graph, domain_of(None))) == [0, 79, 80, 81]
    assert suggested(build_system(pipeline(lambda x: x + 1, x=int).graph, domain_of(None))) == [0, 1, 2, 3]


def test_live_over_exact_integers_is_decided_with_the_pipelines_own_thresholds() -> None:
    verdict = check.live(after(60))
    assert verdict.proved and verdict.notes == (
        "from every state out holds within 3 push(es): d.value = 61; d.value = 61; d.value = 61",
    )
    verdict = check.live(after(60), ints={0, 61})  # the counter has no bound, and matters only up to 3
    assert verdict.proved
    assert verdict.notes == (
        "from every state out holds within 3 push(es): d.value = 61; d.value = 61; d.value = 61",
        "for the events {0, 61} only",
    )


def test_live_over_exact_integers_is_refuted_where_it_ends() -> None:
    def step(dead: bool, v: int) -> tuple[bool, list[int]]:
        return (True, []) if dead or v > 1000 else (False, [v])

    verdict = check.live(pipeline(lambda x: x.task(step, initial=False), x=int))
    assert verdict.refuted and verdict.counterexample is not None
    assert len(verdict.counterexample.inputs) == 1 and verdict.counterexample.inputs[0]["x"] > 1000
    assert "never holds again" in verdict.notes[0]


def test_a_domain_that_misses_a_threshold_is_told() -> None:
    verdict = check.live(after(60), ints=range(4))
    assert verdict.refuted
    assert verdict.notes == (
        "for the events range(0, 4) only, where d.value > 60 is never so: with ints={0, 1, 2, 3, 59, 60, 61}, which "
        "has the pipeline's own thresholds, "
        "the verdict may differ",
    )
    assert verdict.notes[0] in str(verdict)
    verdict = check.holds(after(60), "G !out", ints=range(4))
    assert verdict.proved and "where d.value > 60 is never so" in verdict.notes[0]
    verdict = check.holds(after(60), "G out", ints=range(61, 64))
    assert verdict.refuted and verdict.notes == ()  # a run that breaks it is one, whatever else may come
    assert "d.value > 60 is always so" in check.holds(after(60), "AG EF out", ints=range(61, 64)).notes[-1]


def test_no_word_where_the_values_do_not_matter() -> None:
    assert check.live(pipeline(lambda x: x.decimate(3), x=int), ints=range(4)).notes == ()
    assert check.live(after(1), ints=Mod(4)).notes != ("for the events range(0, 4) only",)
    assert check.holds(
        pipeline(lambda x: x.filter(lambda v: v > 1), x=int), "G (out -> out.value > 1)", ints=range(4)
    ).notes == ("for the events range(0, 4) only",)


def test_records_have_thresholds_of_their_own() -> None:
    @pipeline
    def hot(r: Stream[Reading]) -> Stream[int]:
        return r.filter(lambda e: e.color == Color.RED and e.value > 75).map(lambda e: e.sensor)

    assert check.live(hot).proved
    verdict = check.live(hot, ints={0, 1})
    assert verdict.refuted and "r.value > 75 is never so" in verdict.notes[0]


@pytest.mark.parametrize("kind", [float, str])
def test_no_ints_are_proposed_for_what_is_none(kind: type) -> None:
    p = pipeline(lambda x: x.filter(lambda v: v == kind("1")), x=kind)
    verdict = check.holds(p, "G F out | F G !out | G (out -> X !out)")
    assert verdict.unknown
    assert (
        f"values of type {kind.__name__} cannot be listed: ask an invariant (G …), or make a bool, an enum or an int "
        "of them first" in verdict.notes[0]
    )
    assert "ints=" not in verdict.notes[0]


def test_a_state_that_cannot_be_listed_is_no_matter_of_ints_where_a_text_comes_in() -> None:
    for kind, advised in ((str, False), (int, True)):
        p = pipeline(lambda w: w.task(lambda d, v: ({**d, v: 1}, [len(d)]), {}, to=int), w=kind)
        with pytest.raises(NotTraceable) as refused:
            check.holds(p, "G (out -> out.value >= 0)")
        assert ("ints=" in str(refused.value)) == advised
        assert ("values of type str cannot be listed: make a bool" in str(refused.value)) == (not advised)


def test_the_advice_of_an_unknown_has_the_thresholds() -> None:
    p = pipeline(lambda x, y: merge(x.filter(lambda v: v > 60), y), x=int, y=int)
    verdict = check.holds(p, "G (out -> F (x & X x.value > 100))")
    assert verdict.unknown
    assert (
        "give a finite domain, such as ints={0, 59, 60, 61, 99, 100, 101}, which has the pipeline's own thresholds"
        in verdict.notes[0]
    )


def test_events_at_the_edge_of_64_bits_are_named_in_a_note():
    p = pipeline(lambda x: x.map(lambda v: v), x=int)
    verdict = check.holds(p, "G (x -> x.value <= 3)", ints={2**63 - 1})
    assert verdict.refuted
    assert all("range" not in note for note in verdict.notes)
    assert check.holds(p, "G (x -> x.value > -2)", ints={-(2**63)}).refuted
