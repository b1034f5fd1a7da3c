"""A counterexample is shown only if the property is violated on the interpreter: a wrong encoding is noticed, and
named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pellucid import check, pipeline
from pellucid.check.system.run import SystemRun
from pellucid.check.system.variable import FALSE, Slot
from pellucid.internal.expr import node as n

same = pipeline(lambda x: x.map(lambda v: v, id="same"), x=int)
shown = pipeline(lambda x: x, x=int)
kept = pipeline(lambda x: x.filter(lambda v: v == v or v > 0, id="kept"), x=int)
large, larger = (pipeline(lambda x, k=k: x.map(lambda v: v > k), x=int) for k in (3, 2))
moves = check.Transitions([0], lambda s: [(s + 1) % 3], lambda s: {"x": s})
small = pipeline(lambda x: x.map(lambda v: v < 3), x=int)

QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "invariant": lambda ints: check.holds(same, "G (out -> out.value = x.value)", ints=ints),
    "history": lambda ints: check.holds(same, "G (x.value = 1 -> !X (out.value = 1 & x.value = 0))", ints=ints),
    "step": lambda ints: check.equivalent(same, shown, ints=ints),
    "sequence": lambda ints: check.equivalent(same, shown, how="sequence", ints=ints),
    "paper": lambda ints: check.equivalent(same, shown, how="paper", ints=ints),
    "implies": lambda ints: check.implies(large, larger, ints=ints),
    "monitor": lambda ints: check.monitor(moves, small),
}
SILENT: dict[str, Callable[[Any], Any]] = {
    "loop": lambda ints: check.holds(kept, "G (x -> F out)", ints=ints),
    "live": lambda ints: check.live(kept, ints=ints),
    "within": lambda ints: check.live(kept, within=1, ints=ints),
    "falls silent": lambda ints: check.equivalent(kept, shown, how="sequence", ints=ints),
}


def _wrong_map(self: SystemRun, node: Any, ins: Any, cap: Any) -> list[Slot]:
    """One more than it should be, or the opposite."""
    made = []
    for s in ins[0]:
        (value,) = self.call(node.fn, s.leaves, s.present, node.describe())
        made.append(Slot(s.present, (n.not_(value) if str(value.type) == "bool" else n.add(value, n.const(1)),)))
    return made


def _wrong_filter(self: SystemRun, node: Any, ins: Any, cap: Any) -> list[Slot]:
    """Nothing passes."""
    return [Slot(FALSE, s.leaves) for s in ins[0]]


@pytest.mark.parametrize("ints", [range(2), None], ids=["listed", "exact"])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_wrong_value_is_noticed(asked: str, ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SystemRun.STEPS, "map", _wrong_map)
    verdict = QUESTIONS[asked](ints)
    assert verdict.unknown and "interpreter" in " ".join(verdict.notes), verdict
    assert verdict.counterexample is None


@pytest.mark.parametrize("ints", [range(2), None], ids=["listed", "exact"])
@pytest.mark.parametrize("asked", SILENT)
def test_a_wrong_silence_is_noticed(asked: str, ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SystemRun.STEPS, "filter", _wrong_filter)
    verdict = SILENT[asked](ints)
    assert verdict.unknown and "interpreter" in " ".join(verdict.notes), verdict


def test_what_is_violated_is_shown() -> None:
    assert check.holds(same, "G (out -> out.value != 1)").refuted
    assert check.holds(pipeline(lambda x: x.filter(lambda v: v > 0), x=int), "G (x -> F out)", ints=range(2)).refuted
    assert check.live(pipeline(lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= 2), x=int)).refuted
    join = pipeline(lambda x, y: x + y, x=int, y=int)
    assert check.holds(join, "!EF full", queue=2).refuted and check.holds(join, "G !overflow", queue=2).refuted


def test_beyond_64_bits_nothing_is_refuted_that_fails_first() -> None:
    square = pipeline(lambda x: x.map(lambda v: v * v), x=int)
    verdict = check.holds(square, "G (out -> out.value < 9223372036854775807)")
    assert verdict.unknown and "an integer leaves 64 bits" in verdict.notes[0], verdict
