from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.printing import show
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type, type_of
from tests.expr.compare import values
from tests.expr.functions import POINT, SIDE, Side
from tests.expr.test_node import build, recipes


@pytest.mark.parametrize(
    ("f", "params", "text"),
    [
        (lambda a, b: (a - b) - (a - (b - 1)), (INT, INT), "v0 - v1 - (v0 - (v1 - 1))"),
        (lambda a: -a // 3, (INT,), "-v0 // 3"),
        (lambda a: ~a & 7, (INT,), "~v0 & 7"),
        (lambda a: a > 3, (INT,), "v0 > 3"),
        (lambda a, b: (a < b) == (a == b), (INT, INT), "(v0 < v1) == (v0 == v1)"),
        (lambda a: not a, (BOOL,), "not v0"),
        (lambda a: abs(a) + 0.5, (INT,), "float(abs(v0)) + 0.5"),
        (lambda a: 1 if a == "x" else 2, (STR,), "1 if v0 == 'x' else 2"),
        (lambda s: 1 if s is Side.BUY else 2, (SIDE,), "1 if v0 == Side.BUY else 2"),
        (lambda a: int(a), (FLOAT,), "trunc(v0)"),
    ],
)
def test_text(f: Callable[..., Any], params: tuple[Type, ...], text: str) -> None:
    assert show(trace(f, params).outputs[0]) == text


@settings(max_examples=200)
@given(
    st.one_of(recipes(INT), recipes(FLOAT), recipes(BOOL)),
    st.tuples(*map(values, (INT, INT, FLOAT, FLOAT, BOOL, BOOL))),
)
def test_the_text_is_python_and_means_the_same(recipe: Any, leaves: tuple[Any, ...]) -> None:
    e = build(recipe)
    try:
        want = repr(evaluate(e, leaves))
    except Exception:
        return
    space = {f"v{i}": leaf for i, leaf in enumerate(leaves)}
    space |= {
        "trunc": math.trunc,
        "sqrt": math.sqrt,
        "inf": math.inf,
        "nan": math.nan,
        "after": lambda *parts: parts[-1],
    }
    text = show(e, limit=10_000)
    if "raise" not in text:  # not an expression of Python's
        assert repr(eval(text, space)) == want, text


def test_names_and_limit() -> None:
    e = trace(lambda a, b: (a + b) * (a - b), (INT, INT)).outputs[0]
    assert show(e, ["left", "right"]) == "(left + right) * (left - right)"
    assert "…" in show(e, limit=3)


def test_a_function_shows_its_text() -> None:
    assert str(Function.make(lambda p: p.x + p.y, (POINT,))) == "p.x + p.y"
    assert str(Function.make(lambda total, v: total + v, (INT, INT))) == "total + v"
    assert str(Function.make(abs, (INT,))) == "abs"


def test_what_may_be_missing_is_asked_for_as_in_python() -> None:
    row = type_of(NamedTuple("Row", [("delay", int | None), ("n", int)]))
    shown = [
        (lambda e: e.delay is None, "e.delay is None"),
        (lambda e: e.delay is not None and e.n > 1, "e.delay is not None and e.n > 1"),
        (lambda e: (e.delay, e.n), "e.delay, e.n"),
    ]
    for f, text in shown:
        assert str(Function.make(f, (row,))) == text
