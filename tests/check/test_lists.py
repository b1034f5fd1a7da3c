"""Lists inside checks: they are closed.  What hands them on is decided, what looks inside is called, or refused by its
step; never is an answer wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pellucid import check, pipeline
from pellucid.errors import NotTraceable, UsageError
from pellucid.internal.export.smv.model import export


class Order(NamedTuple):
    id: int
    tags: list[str]
    shares: list[float]
    flags: list[bool] | None


def of(build: Any) -> Any:
    return pipeline(build, x=Order)


pairs = of(lambda x: x.filter(lambda e: e.id > 0).map(lambda e: (e.id, e.tags)))


def test_what_hands_lists_on_is_decided() -> None:
    later = of(lambda x: x.map(lambda e: (e.id, e.tags)).filter(lambda p: p[0] > 0))
    assert check.equivalent(pairs, later).proved
    assert check.holds(pairs, "G (out -> out.value.1 = x.value.tags)").proved
    assert check.holds(of(lambda x: x.filter(lambda e: not e.tags).map(lambda e: e.tags)), "G out.count <= 1").proved


def test_a_refutation_has_lists_in_it() -> None:
    wrong = of(lambda x: x.map(lambda e: (e.id, e.tags)).filter(lambda p: p[1]))
    verdict = check.equivalent(pairs, wrong)
    assert verdict.refuted
    (push,) = verdict.counterexample.inputs
    assert pairs([push["x"]]) != wrong([push["x"]])
    assert "['other 1']" in str(verdict)
    moved = check.holds(of(lambda x: x.lag(1)), "G (out -> out.value.0.flags = out.value.1.flags)")
    assert moved.refuted
    first, second = (push["x"].flags for push in moved.counterexample.inputs)
    assert first != second


def test_what_looks_inside_is_never_proved_by_mistake() -> None:
    """The length of a list is known of those that it is called on: that can refute, and prove nothing of the others."""
    long = of(lambda x: x.filter(lambda e: len(e.tags) > 2))
    assert check.equivalent(long, of(lambda x: x)).refuted
    assert not check.holds(long, "G !out").proved
    assert not check.holds(of(lambda x: x.map(lambda e: e.tags[0])), "G !failed").proved


@pytest.mark.parametrize("ints", [None, range(3)])
def test_the_elements_of_a_list_are_refused_by_step(ints: Any) -> None:
    p = of(lambda x: x.explode(lambda e: e.tags, id="each").map(lambda s: len(s)))
    with pytest.raises(NotTraceable, match=r"step 'each' .* gives a list\[str\], and a check cannot look inside"):
        check.holds(p, "G !failed", ints=ints)
    looped = of(lambda x: x.explode(lambda e: [e.id for _ in e.tags], to=int, id="each"))
    with pytest.raises(NotTraceable, match=r"step 'each' .* a lambda loops over a list, whose length is not known, a"):
        check.live(looped, ints=ints)


def test_a_list_that_the_function_makes_is_open() -> None:
    p = pipeline(lambda x: x.explode(lambda v: [v, v + 1] if v > 0 else []), x=int)
    assert check.holds(p, "G (out -> out.count = 2 & out.last > out.first & out.first > 0)").proved
    assert check.holds(p, "G (out -> out.first > 1)").refuted
    task = pipeline(lambda x: x.task(lambda s, v: (s, [v, v + 1] if v > 0 else []), initial=0), x=int)
    assert check.equivalent(p, task).proved
    beside = pipeline(lambda x: x.explode(lambda v: [v, 2 * v], beside=True), x=int)
    assert check.holds(beside, "G (out -> out.first.0 = out.first.1 & out.last.1 = 2 * out.last.0)").proved


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ('out.value.tags = "a"', r"out.value.tags is a list\[str\] and \"a\" is a str: they cannot be compared"),
        ("out.value.tags < x.value.tags", "they have no order that < could ask for"),
        ("out.value.shares = x.value.shares", "lists with floats in them are not compared in a formula"),
        ("out.value.tags.0 = 1", r"out.value.tags is a list\[str\] and has no fields"),
    ],
)
def test_formulas(formula: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check.holds(of(lambda x: x), f"G (out -> {formula})")


def test_nusmv_has_no_lists() -> None:
    with pytest.raises(UsageError, match=r"NuSMV has no list\[str\] \(field 'tags'\)"):
        export(of(lambda x: x).graph, domain=range(3), queue=2, properties=["AG EF out"])


def test_failures_go_with_lists() -> None:
    p = of(lambda x: x.explode(lambda e: e.tags).cumulate(lambda n, s: n + 1, start=0))
    some = [[Order(1, ["a", "b"], [], None)], [Order(2, ["c"], [0.5], [True])]]
    assert check.failures(p, inputs=some).bounded
    assert check.failures(p, inputs=some, sink="append").refuted
