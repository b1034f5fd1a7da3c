"""Hostile names: what a user calls a source, a step, an output or a field has no influence on any verdict."""

from __future__ import annotations

import dataclasses

import pytest

from pellucid import check, pipeline
from pellucid.errors import UsageError

WORDS = (
    "present",
    "value",
    "first",
    "last",
    "count",
    "full",
    "failed",
    "G",
    "true",
    "out",
    "stopped",
    "length",
    "lost",
)


def record(*names: str) -> type:
    return dataclasses.make_dataclass("Record", [(name, int) for name in names], frozen=True)


@pytest.mark.parametrize("field", WORDS)
def test_a_field_may_have_any_name(field):
    event = record(field, "other")
    p = pipeline(lambda x: x.map(lambda e: getattr(e, field)), x=event)
    verdict = check.holds(p, "G (out -> out.value = 1)", ints=range(3))
    assert verdict.refuted and p([event(2, 0)]) == [2]
    assert check.live(pipeline(lambda x: x.filter(lambda e: getattr(e, field) == 2), x=event), ints=range(3)).proved


STREAMS = (
    "full",
    "overflow",
    "failed",
    "G",
    "X",
    "U",
    "A",
    "true",
    "out",
    "value",
    "present",
    "first",
    "last",
    "count",
    "any",
    "stream",
    "source",
    "queue",
    "flag",
)


@pytest.mark.parametrize("name", STREAMS)
def test_a_source_may_have_any_name(name):
    scope: dict = {}
    exec(f"f = lambda {name}: {name}.filter(lambda v: v > 5, id='big')", scope)
    p = pipeline(scope["f"], **{name: int})
    assert check.live(p, ints={0, 9}).proved and check.live(p, within=2, ints={0, 9}).refuted
    assert check.holds(
        p, f'G (output("out") -> source("{name}") & source("{name}").value = output("out").value)'
    ).proved
    assert check.holds(p, f'G (step("big") -> source("{name}").value > 5)').proved
    assert check.holds(p, f'G (source("{name}") -> output("out"))').refuted
    assert check.holds_on(p, f'source("{name}").value = 9 & output("out").count = 1', [9]).proved


@pytest.mark.parametrize(
    ("name", "text", "ways"),
    [
        ("full", "G !full", 'full could mean several things in pipeline: write source("full") or flag("full")'),
        (
            "failed",
            "G (failed -> out)",
            'failed could mean several things in pipeline: write source("failed") or flag("failed")',
        ),
        ("out", "G out", 'out could mean several things in pipeline: write output("out") or source("out")'),
        (
            "value",
            "G value > 3",
            'value could mean several things in pipeline: write source("value") or output("out").value',
        ),
    ],
)
def test_a_name_that_could_mean_two_things_is_refused(name, text, ways):
    scope: dict = {}
    exec(f"f = lambda {name}: {name}.filter(lambda v: v > 5)", scope)
    with pytest.raises(UsageError) as error:
        check.holds(pipeline(scope["f"], **{name: int}), text)
    assert str(error.value) == ways


def test_a_step_with_a_name_that_stands_for_another():
    p = pipeline(
        lambda x: x.map(lambda v: v + 1, id="in").map(lambda v: v + 1, id="out").filter(lambda v: v > 5, id="big"),
        x=int,
    )
    for text in ("G in", "G out"):
        with pytest.raises(UsageError, match="could mean several things"):
            check.holds(p, text)
    assert check.holds(p, 'G (x -> step("in").value = x.value + 1 & step("out").value = x.value + 2)').proved
    assert check.holds(
        p, 'G (output("out") -> output("out").value > 5) & G (stream("in") -> stream("in").value > x.value)'
    ).proved
    assert check.holds(p, 'G (flag("failed") -> false)', ints=range(9)).proved
