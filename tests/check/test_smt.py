"""Simple facts about floats: decided in seconds, with the floats that sources take (infinities, but no NaN)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import check, pipeline

inf = float("inf")

SUM = pipeline(lambda y: y.cumulate(lambda t, v: t + v, start=0.0), y=float)
PROVED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "largest so far": (lambda x: x.cumulate(lambda a, b: max(a, b), start=0.0), "G (out -> out.value >= 0)"),
    "the other way round": (
        lambda x: x.cumulate(lambda a, b: max(b, a), start=0.0),
        "G (out -> out.value >= 0)",
    ),  # true because no NaN comes in
    "from above": (lambda x: x.cumulate(lambda a, b: min(a, b), start=2.5), "G (out -> out.value <= 2.5)"),
    "between": (
        lambda x: x.cumulate(lambda a, b: min(max(a, b), 100.0), start=1.5),
        "G (out -> out.value >= 1.5 & out.value <= 100)",
    ),
    "of one event": (lambda x: x.map(lambda v: max(v, 0.0)), "G (out -> out.value >= 0.0)"),
    "no NaN comes in": (lambda x: x.map(lambda v: v <= v), "G (out -> out.value)"),
    "the last but silent": (
        lambda x: x.filter(lambda v: v > 3.0).cumulate(lambda a, b: b, start=4.0),
        "G (out -> out.value > 3)",
    ),
    "a square": (lambda x: x.map(lambda v: v * v), "G (out -> out.value >= 0)"),
    "scaled": (
        lambda x: x.filter(lambda v: 0.0 <= v <= 100.0).map(lambda v: v * 1.8 + 32.0),
        "G (out -> out.value >= 32 & out.value <= 212)",
    ),
    "clamped": (lambda x: x.map(lambda v: min(max(v, -1.0), 1.0)), "G (out -> out.value >= -1 & out.value <= 1)"),
    "a sum of what is not negative": (
        lambda x: x.filter(lambda v: v >= 0.0).cumulate(lambda t, v: t + v, start=0.0),
        "G (out -> out.value >= 0)",
    ),
    "it never falls": (
        lambda x: x.filter(lambda v: v >= 0.0).cumulate(lambda t, v: t + v, start=0.0),
        "G (out -> !(out.value < Y out.value))",
    ),
    "a moving average": (
        lambda x: x.filter(lambda v: 0.0 <= v <= 100.0).cumulate(lambda t, v: 0.9 * t + 0.1 * v, start=0.0),
        "G (out -> out.value >= 0 & out.value <= 101)",
    ),
    "the average of three": (
        lambda x: x.filter(lambda v: 0.0 <= v <= 100.0).window(3, SUM).map(lambda v: v / 3),
        "G (out -> out.value >= 0 & out.value <= 100)",
    ),
    "a part of the whole": (
        lambda x: x.filter(lambda v: v > 0.0).map(lambda v: v / (v + 1.0)),
        "G (out -> !(out.value > 1))",
    ),
    "whole numbers": (
        lambda x: x.filter(lambda v: 0.5 <= v <= 99.5).map(lambda v: int(v)),
        "G (out -> out.value >= 0 & out.value <= 99)",
    ),
    "held": (lambda x: x.cumulate(lambda a, b: b if b >= 0.0 else a, start=0.0), "G (out -> out.value = out.value)"),
}
REFUTED: dict[str, tuple[Callable[[Any], Any], str, list[float] | None]] = {
    "starts below": (lambda x: x.cumulate(lambda a, b: max(a, b), start=-1.5), "G (out -> out.value >= 0)", [-1.0]),
    "a mean of two that is too large": (
        lambda x: x.map(lambda v: (v + v) / 2 <= 1e308),
        "G (out -> out.value | in.value > 1e308)",
        None,
    ),
    "infinity over infinity": (
        lambda x: x.filter(lambda v: v > 0.0).map(lambda v: v / v),
        "G (out -> out.value = 1)",
        [inf],
    ),
    "zero has no sign": (lambda x: x.map(lambda v: -abs(v)), "G (out -> out.value < 0)", [0.0]),
}


@pytest.mark.parametrize("which", PROVED)
def test_proved(which: str) -> None:
    build, formula = PROVED[which]
    began = time.process_time()
    verdict = check.holds(pipeline(build, x=float), formula)
    assert verdict.proved, verdict
    assert time.process_time() - began < 8  # of the whole minute that a check may take


@pytest.mark.parametrize("which", REFUTED)
def test_refuted(which: str) -> None:
    build, formula, values = REFUTED[which]
    verdict = check.holds(pipeline(build, x=float), formula)
    assert verdict.counterexample is not None
    assert values is None or [push["x"] for push in verdict.counterexample.inputs] == values


def test_a_nan_that_the_pipeline_makes_is_found() -> None:
    verdict = check.holds(pipeline(lambda x: x.map(lambda v: v - v), x=float), "G (out -> out.value = 0)")
    assert verdict.counterexample is not None and abs(verdict.counterexample.inputs[0]["x"]) == inf
    assert repr(verdict.counterexample.steps[0].streams["out"]) == "[nan]"


@pytest.mark.parametrize("c", [0, -3, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("op", ["lt", "le", "eq"])
def test_a_float_and_an_int_are_compared_exactly(c: int, op: str) -> None:
    """Also where the int is no double: every double near it, against Python."""
    from pellucid.check.smt.encode import Encoding
    from pellucid.check.system.build import build_system
    from pellucid.check.system.domains import domain_of
    from pellucid.internal.expr import node as n
    from pellucid.internal.expr.types import FLOAT

    code = Encoding(build_system(pipeline(lambda x: x, x=float).graph, domain_of(None)))
    near = [float(c)]
    for way in (inf, -inf):
        near += [math.nextafter(near[0], way), math.nextafter(math.nextafter(near[0], way), way)]
    for value in [*near, inf, -inf, 0.0, -0.0]:
        x = n.var(len(code.state) + 1, FLOAT)
        for left, right, expected in ((x, n.const(c), _python(op, value, c)), (n.const(c), x, _python(op, c, value))):
            term = code.z3.substitute(
                code.term(getattr(n, op)(left, right)), (code.inputs[1], code.value(FLOAT, value))
            )
            assert code.z3.is_true(code.z3.simplify(term)) == expected, (op, value, c)


def _python(op: str, a: Any, b: Any) -> bool:
    return bool({"lt": a < b, "le": a <= b, "eq": a == b}[op])


def test_sums_commute_also_of_queues_and_of_infinities() -> None:
    """inf + -inf is NaN whichever comes first, and a NaN is the same as a NaN."""
    one, two = pipeline(lambda a, b: a + b, a=float, b=float), pipeline(lambda a, b: b + a, a=float, b=float)
    assert check.equivalent(one, two).proved
    fahrenheit, turned = (
        pipeline(f, x=float)
        for f in (lambda x: x.map(lambda v: v * 1.8 + 32.0), lambda x: x.map(lambda v: 32.0 + 1.8 * v))
    )
    assert check.equivalent(fahrenheit, turned).proved and check.equivalent(fahrenheit, turned, how="sequence").proved
    less = check.equivalent(one, pipeline(lambda a, b: a - b, a=float, b=float))
    assert less.refuted


def test_the_mean_of_two_is_between_them_unless_their_sum_is_infinite() -> None:
    def between(least: float, most: float) -> Any:
        near = pipeline(
            lambda x: x.filter(lambda v: least <= v <= most).task(
                lambda s, v: (v, [min(s, v) <= (s + v) / 2 <= max(s, v)]), 0.0, to=bool
            ),
            x=float,
        )
        return check.holds(near, "G (out -> out.value)")

    assert between(-1e300, 1e300).proved
    assert between(-inf, inf).refuted


def test_what_is_not_decided_is_said_soon() -> None:
    began = time.process_time()
    average = pipeline(
        lambda x: x.filter(lambda v: 0.0 <= v <= 100.0).task(
            lambda s, v: ((s[0] + v, s[1] + 1), [(s[0] + v) / (s[1] + 1)]), (0.0, 0), to=float
        ),
        x=float,
    )
    assert not check.holds(average, "G (out -> out.value <= 100)").refuted
    assert time.process_time() - began < 8


EDGES = [
    0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-20, 0.1, 0.5, 1.0, -1.0, 1.0000000000000002, 3.0, -7.25,
    100.0, 2.0**53, 2.0**53 + 2, 1e300, -1e300, 8.98846567431158e307, 1.7976931348623157e308, -1.7976931348623157e308,
    inf, -inf, math.nan,
]  # fmt: skip


@pytest.mark.parametrize(
    "op", ["add", "mul", "truediv", "sqrt", "mul by 0.1", "truediv by 3", "float_of_int", "truediv of ints"]
)
def test_what_z3_is_told_of_operations_is_true_of_doubles(op: str) -> None:
    """Every fact, at the edges of doubles, with the result that Python has."""
    import z3

    from pellucid.internal.solve.facts import INFINITE, NOT_A_NUMBER, FloatOperation, facts

    def number(v: float) -> Any:
        if isinstance(v, int):
            return z3.RealVal(v)
        exact = NOT_A_NUMBER if v != v else int(math.copysign(1, v)) * INFINITE if math.isinf(v) else v
        return z3.Q(*exact.as_integer_ratio())

    name, _, rest = op.partition(" ")
    fixed, whole = (float(rest[3:]) if rest.startswith("by") else None), rest == "of ints"
    a, b, made = z3.Reals("a b made")
    args = (a,) if name in ("sqrt", "float_of_int") else (a, b) if fixed is None else (a, number(fixed))
    near = tuple(
        (0.0, 0.1, 1.0, -7.25, 100.0, 1e300) if fixed is None or i == 0 else (fixed,) for i in range(len(args))
    )
    told = z3.And(facts(z3, [FloatOperation(name, args, made, near, whole)]))
    values: list[Any] = [0, 1, -1, 3, 2**53 + 1, -(2**62) + 1, 2**63 - 1] if whole or name == "float_of_int" else EDGES
    others = (values if whole else values[::2] + values[-2:]) if len(args) == 2 and fixed is None else [fixed]
    for x in values:
        for y in others:
            result = FloatOperation.compute(name, (x,) if len(args) == 1 else (x, y))
            raises = (name == "truediv" and y == 0) or (name == "sqrt" and x < 0)
            pairs = [
                (a, number(x)),
                (made, number(result)),
                *([(b, number(y))] if fixed is None and len(args) == 2 else []),
            ]
            assert z3.is_true(z3.simplify(z3.substitute(told, *pairs))) or raises, (op, x, y, result)


def test_two_operations_keep_the_order_of_their_exact_results() -> None:
    import z3

    from pellucid.internal.solve.facts import FloatOperation, facts

    a, one, two = z3.Reals("a one two")
    told = z3.And(
        facts(
            z3,
            [
                FloatOperation("add", (a, z3.RealVal(1)), one, ((0.0,), (1.0,)), False),
                FloatOperation("mul", (a, z3.RealVal(3)), two, ((0.0,), (3.0,)), False),
            ],
        )
    )
    for v in [x for x in EDGES if math.isfinite(x) and abs(x) < 1e300]:
        pairs = [(term, z3.Q(*value.as_integer_ratio())) for term, value in ((a, v), (one, v + 1.0), (two, v * 3.0))]
        assert z3.is_true(z3.simplify(z3.substitute(told, *pairs))), v


def test_a_wrong_fact_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fact is looked at with the values of real runs, and cvc5 is asked as well: nothing rests on z3 alone."""
    import pellucid.check.smt.lemmas as smt_order

    right = smt_order.facts
    monkeypatch.setattr(
        smt_order, "facts", lambda z3, operations: [*right(z3, operations), *(o.made >= 0 for o in operations)]
    )
    verdict = check.holds(pipeline(lambda x: x.map(lambda v: v + 1.5), x=float), "G (out -> out.value >= 0)")
    assert not verdict.proved, verdict
