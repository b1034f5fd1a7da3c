"""Simple facts about floats: decided in seconds, with the floats that sources take (infinities, but no NaN)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import check, pipeline

inf = float("inf")

PROVED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "largest so far": (lambda x: x.cumulate(lambda a, b: max(a, b), start=0.0), "G (out -> out.value >= 0)"),
    "the other way round": (lambda x: x.cumulate(lambda a, b: max(b, a), start=0.0), "G (out -> out.value >= 0)"),  # true because no NaN comes in
    "from above": (lambda x: x.cumulate(lambda a, b: min(a, b), start=2.5), "G (out -> out.value <= 2.5)"),
    "between": (lambda x: x.cumulate(lambda a, b: min(max(a, b), 100.0), start=1.5), "G (out -> out.value >= 1.5 & out.value <= 100)"),
    "of one event": (lambda x: x.map(lambda v: max(v, 0.0)), "G (out -> out.value >= 0.0)"),
    "no NaN comes in": (lambda x: x.map(lambda v: v <= v), "G (out -> out.value)"),
    "the last but silent": (lambda x: x.filter(lambda v: v > 3.0).cumulate(lambda a, b: b, start=4.0), "G (out -> out.value > 3)"),
    "held": (lambda x: x.cumulate(lambda a, b: b if b >= 0.0 else a, start=0.0), "G (out -> out.value = out.value)"),
}
REFUTED: dict[str, tuple[Callable[[Any], Any], str, list[float]]] = {
    "starts below": (lambda x: x.cumulate(lambda a, b: max(a, b), start=-1.5), "G (out -> out.value >= 0)", [-1.0]),
    "zero has no sign": (lambda x: x.map(lambda v: -abs(v)), "G (out -> out.value < 0)", [0.0]),
}


@pytest.mark.parametrize("which", PROVED)
def test_proved(which: str) -> None:
    build, formula = PROVED[which]
    began = time.process_time()
    verdict = check.holds(pipeline(build, x=float), formula)
    assert verdict.proved, verdict
    assert time.process_time() - began < 20  # of the whole minute that a check may take


@pytest.mark.parametrize("which", REFUTED)
def test_refuted(which: str) -> None:
    build, formula, values = REFUTED[which]
    verdict = check.holds(pipeline(build, x=float), formula)
    assert verdict.counterexample is not None
    assert [push["x"] for push in verdict.counterexample.inputs] == values


def test_a_nan_that_the_pipeline_makes_is_found() -> None:
    verdict = check.holds(pipeline(lambda x: x.map(lambda v: v - v), x=float), "G (out -> out.value = 0)")
    assert verdict.counterexample is not None and abs(verdict.counterexample.inputs[0]["x"]) == inf
    assert repr(verdict.counterexample.steps[0].streams["out"]) == "[nan]"


@pytest.mark.parametrize("c", [0, -3, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("op", ["lt", "le", "eq"])
def test_a_float_and_an_int_are_compared_exactly(c: int, op: str) -> None:
    """Also where the int is no double: every double near it, against Python."""
    from pellucid.check.domains import domain_of
    from pellucid.check.smt_encode import Encoding
    from pellucid.check.system import build_system
    from pellucid.expr import node as n
    from pellucid.expr.types import FLOAT

    code = Encoding(build_system(pipeline(lambda x: x, x=float).graph, domain_of(None)))
    near = [float(c)]
    for way in (inf, -inf):
        near += [math.nextafter(near[0], way), math.nextafter(math.nextafter(near[0], way), way)]
    for value in [*near, inf, -inf, 0.0, -0.0]:
        x = n.var(len(code.state) + 1, FLOAT)
        for left, right, expected in ((x, n.const(c), _python(op, value, c)), (n.const(c), x, _python(op, c, value))):
            term = code.z3.substitute(code.term(getattr(n, op)(left, right)), (code.inputs[1], code.value(FLOAT, value)))
            assert code.z3.is_true(code.z3.simplify(term)) == expected, (op, value, c)


def _python(op: str, a: Any, b: Any) -> bool:
    return bool({"lt": a < b, "le": a <= b, "eq": a == b}[op])
