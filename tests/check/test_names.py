"""Hostile names: what a user calls a source, a step, an output or a field has no influence on any verdict."""

from __future__ import annotations

import dataclasses

import pytest

from pellucid import check, pipeline

WORDS = ("present", "value", "first", "last", "count", "full", "failed", "G", "true", "out", "stopped", "length", "lost")


def record(*names: str) -> type:
    return dataclasses.make_dataclass("Record", [(name, int) for name in names], frozen=True)


@pytest.mark.parametrize("field", WORDS)
def test_a_field_may_have_any_name(field):
    event = record(field, "other")
    p = pipeline(lambda x: x.map(lambda e: getattr(e, field)), x=event)
    verdict = check.holds(p, "G (out -> out.value = 1)", ints=range(3))
    assert verdict.refuted and p([event(2, 0)]) == [2]
    assert check.live(pipeline(lambda x: x.filter(lambda e: getattr(e, field) == 2), x=event), ints=range(3)).proved
