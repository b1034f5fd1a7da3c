"""Expressions: one object for one meaning, and no simplification that loses a value or a failure."""

from __future__ import annotations

import enum
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import _OPS, UserRaise, evaluate
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, fits_int
from tests.expr.compare import values
from tests.expr.functions import SIDE, Side
from tests.volumes import volumes

I0, I1, F0, F1, B0, B1, S0, E0 = (n.var(i, t) for i, t in enumerate((INT, INT, FLOAT, FLOAT, BOOL, BOOL, STR, SIDE)))
ZERO, ONE = n.const(0), n.const(1)


class _Fail(Exception):  # noqa: N818
    pass


# ---------------------------------------------------------------- random expressions against their definition
# A recipe is (operation, type, arguments); it is built with the constructors, which simplify, and it is also computed
# as it stands.


@st.composite
def recipes(draw: st.DrawFn, t: Any = INT, depth: int = 4) -> Any:
    index = {INT: (0, 1), FLOAT: (2, 3), BOOL: (4, 5)}[t]
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return ("var", t, draw(st.sampled_from(index)))
        small = {
            INT: st.sampled_from([0, 1, -1, 2, 63, INT_MIN, INT_MAX]),
            FLOAT: st.sampled_from([0.0, -0.0, 1.0, -2.5, math.inf]),
        }
        return ("const", t, draw(small.get(t, st.booleans())))
    sub = lambda kind: draw(recipes(kind, depth - 1))
    if t == INT:
        op = draw(
            st.sampled_from(
                [
                    "add",
                    "sub",
                    "mul",
                    "floordiv",
                    "mod",
                    "band",
                    "bor",
                    "bxor",
                    "shl",
                    "shr",
                    "neg",
                    "abs",
                    "invert",
                    "ite",
                    "int_of_bool",
                    "trunc",
                    "after",
                    "raise",
                    "same",
                ]
            )
        )
    elif t == FLOAT:
        op = draw(
            st.sampled_from(
                [
                    "add",
                    "sub",
                    "mul",
                    "floordiv",
                    "mod",
                    "truediv",
                    "itruediv",
                    "neg",
                    "abs",
                    "ite",
                    "float_of_int",
                    "sqrt",
                    "after",
                ]
            )
        )
    else:
        op = draw(
            st.sampled_from(["eq", "lt", "le", "feq", "flt", "fle", "mixed", "beq", "and", "or", "not", "ite", "after"])
        )
    if op == "raise":
        return ("raise", t)
    if op == "ite":
        return (op, t, sub(BOOL), sub(t), sub(t))
    if op == "after":
        return (op, t, sub(INT), sub(t))
    if op == "same":  # x op x, where most simplifications are
        x = sub(INT)
        return (draw(st.sampled_from(["sub", "bxor", "band", "bor", "floordiv", "mod"])), t, x, x)
    if t == BOOL:
        kinds = {"eq": (INT, INT), "lt": (INT, INT), "le": (INT, INT), "mixed": (INT, FLOAT), "not": (BOOL,)}
        if op in ("feq", "flt", "fle"):
            return (op[1:], t, sub(FLOAT), sub(FLOAT))
        if op == "mixed":
            return (draw(st.sampled_from(["eq", "lt", "le"])), t, sub(INT), sub(FLOAT))
        if op == "beq":
            return ("eq", t, sub(BOOL), sub(BOOL))
        return (op, t, *(sub(k) for k in kinds.get(op, (BOOL, BOOL))))
    if op in ("int_of_bool", "float_of_int", "trunc", "sqrt"):
        return (op, t, sub({"int_of_bool": BOOL, "float_of_int": INT}.get(op, FLOAT)))
    if op in ("neg", "abs", "invert"):
        return (op, t, sub(t))
    if op == "itruediv":
        return ("truediv", t, sub(INT), sub(INT))
    return (op, t, sub(t), sub(t))


def build(r: Any) -> n.Expr:
    op, t, *args = r
    if op == "var":
        return n.var(args[0], t)
    if op == "const":
        return n.const(args[0])
    if op == "raise":
        return n.raise_(0, t)
    parts = [build(a) for a in args]
    if op == "after":
        return n.after((parts[0],), parts[1])
    special = {
        "ite": n.ite,
        "and": n.and_,
        "or": n.or_,
        "not": n.not_,
        "eq": n.eq,
        "lt": n.lt,
        "le": n.le,
        "sqrt": n.sqrt,
    }
    special |= {"int_of_bool": n.int_of_bool, "float_of_int": n.float_of_int}
    if op in special:
        return special[op](*parts)
    if op == "trunc":
        return n.round_to_int("trunc", *parts)
    return n.unary(op, *parts) if len(parts) == 1 else n.binary(op, *parts)


def compute(r: Any, leaves: tuple[Any, ...]) -> Any:
    op, t, *args = r
    if op == "var":
        return leaves[args[0]]
    if op == "const":
        return args[0]
    if op == "raise":
        raise _Fail
    first = compute(args[0], leaves)
    if op == "ite":
        return compute(args[1] if first else args[2], leaves)
    if op in ("and", "or"):
        return compute(args[1], leaves) if bool(first) == (op == "and") else first
    rest = [compute(a, leaves) for a in args[1:]]
    if op == "after":
        return rest[0]
    try:
        value = _OPS[op](first, *rest)
    except (ArithmeticError, ValueError) as error:
        raise _Fail from error
    if t == INT and not fits_int(value):
        raise _Fail
    return value


@pytest.mark.seeded
@volumes(200, 1500)
@pytest.mark.parametrize("t", [INT, FLOAT, BOOL], ids=str)
def test_simplified_means_the_same(t: Any, examples: int) -> None:
    @settings(max_examples=examples)
    @given(recipes(t), st.tuples(*map(values, (INT, INT, FLOAT, FLOAT, BOOL, BOOL))))
    def same(recipe: Any, leaves: tuple[Any, ...]) -> None:
        expr = build(recipe)
        assert expr.type == t
        try:
            want = repr(compute(recipe, leaves))
        except _Fail:
            want = "fails"
        try:
            got = repr(evaluate(expr, leaves))
        except (Overflow64, UserRaise, ArithmeticError, ValueError):
            got = "fails"
            assert n.fails(expr)
        assert got == want, expr

    same()


@settings(max_examples=150)
@given(recipes(INT), st.tuples(*map(values, (INT, INT, FLOAT, FLOAT, BOOL, BOOL))))
def test_strict_parts_are_always_evaluated(recipe: Any, leaves: tuple[Any, ...]) -> None:
    expr = build(recipe)
    memo: dict[int, Any] = {}
    try:
        evaluate(expr, leaves, memo)
    except Exception:
        return
    assert all(id(part) in memo for part in n.strict_parts(expr))


# ---------------------------------------------------------------- one object for one meaning


def test_equal_expressions_are_the_same_object() -> None:
    assert n.add(I0, n.mul(I1, ONE)) is n.add(I0, I1)
    assert n.const(1) is not n.const(True)
    assert n.const(1) is not n.const(1.0)
    assert n.const(0.0) is not n.const(-0.0)
    assert n.const(math.nan) is n.const(math.nan)
    assert n.const(Side.BUY) is n.const(Side.BUY)
    assert n.var(0, INT) is not n.var(0, FLOAT)
    assert pickle.loads(pickle.dumps(n.add(I0, I1))) is n.add(I0, I1)


@pytest.mark.parametrize(
    ("made", "simple"),
    [
        (lambda: n.add(I0, ZERO), I0),
        (lambda: n.add(ZERO, I0), I0),
        (lambda: n.sub(I0, I0), ZERO),
        (lambda: n.mul(I0, ZERO), ZERO),
        (lambda: n.binary("floordiv", I0, ONE), I0),
        (lambda: n.binary("mod", I0, ONE), ZERO),
        (lambda: n.binary("bxor", I0, I0), ZERO),
        (lambda: n.binary("band", I0, I0), I0),
        (lambda: n.add(n.const(40), n.const(2)), n.const(42)),
        (lambda: n.not_(n.not_(B0)), B0),
        (lambda: n.and_(B0, n.TRUE), B0),
        (lambda: n.and_(B0, n.not_(B0)), n.FALSE),
        (lambda: n.or_(B0, n.not_(B0)), n.TRUE),
        (lambda: n.ite(B0, n.TRUE, n.FALSE), B0),
        (lambda: n.ite(n.not_(B0), I0, I1), n.ite(B0, I1, I0)),
        (lambda: n.ite(B0, I0, I0), I0),
        (lambda: n.ite(B0, n.ite(B0, I0, I1), I1), n.ite(B0, I0, I1)),
        (lambda: n.ite(B0, n.ite(B1, I0, I1), I1), n.ite(n.and_(B0, B1), I0, I1)),
        (lambda: n.ite(n.eq(I0, ONE), ONE, I0), I0),
        (lambda: n.eq(I0, I0), n.TRUE),
        (lambda: n.lt(F0, F0), n.FALSE),
        (lambda: n.eq(B0, n.FALSE), n.not_(B0)),
        (lambda: n.neg(n.neg(F0)), F0),
        (lambda: n.after((I0,), I1), I1),
        (lambda: n.after((n.add(I0, I1),), n.add(I0, I1)), n.add(I0, I1)),
    ],
)
def test_simplifications(made: Any, simple: n.Expr) -> None:
    assert made() is simple


@pytest.mark.parametrize(
    "made",
    [
        lambda: n.eq(F0, F0),  # NaN
        lambda: n.le(F0, F0),
        lambda: n.add(F0, n.const(0.0)),  # -0.0 + 0.0
        lambda: n.mul(F0, n.const(0.0)),  # inf * 0.0
        lambda: n.sub(F0, F0),
        lambda: n.mul(n.add(I0, I1), ZERO),  # the sum may overflow
        lambda: n.sub(n.add(I0, I1), n.add(I0, I1)),
        lambda: n.neg(n.neg(I0)),  # -INT_MIN
        lambda: n.and_(n.lt(n.add(I0, I1), ONE), n.FALSE),
        lambda: n.ite(n.lt(n.add(I0, I1), ONE), I0, I0),
        lambda: n.add(n.const(INT_MAX), ONE),
        lambda: n.binary("floordiv", ONE, ZERO),
    ],
)
def test_what_must_stay(made: Any) -> None:
    assert made().args


def test_fails() -> None:
    assert n.fails(n.add(I0, I1)) and not n.fails(n.add(F0, F1))
    assert n.fails(n.binary("floordiv", I0, n.const(-1))) and not n.fails(n.binary("mod", I0, n.const(-1)))
    assert not n.fails(n.binary("floordiv", I0, n.const(7)))
    assert n.fails(n.binary("truediv", F0, n.const(-0.0)))
    assert n.fails(n.binary("shr", I0, I1)) and not n.fails(n.binary("shr", I0, n.const(3)))
    assert n.strict_parts(n.ite(B0, n.add(I0, I1), ZERO)) == frozenset()


def test_constants() -> None:
    with pytest.raises(OverflowError, match="the constant 9223372036854775808 does not fit in 64 bits"):
        n.const(2**63)
    with pytest.raises(TypeError, match="not a scalar"):
        n.const([1])


def test_digest_is_of_the_meaning() -> None:
    class Strange(enum.Enum):
        A = object()  # its repr has an address

    assert n.digest(n.add(I0, I1)) == n.digest(n.add(I0, I1)) != n.digest(n.add(I1, I0))
    assert n.digest(n.const(Strange.A)) == n.digest(n.const(Strange.A))
    assert n.digest(n.const(1)) != n.digest(n.const(True))


def test_a_long_chain_is_no_trouble() -> None:
    e = I0
    for _ in range(5000):
        e = n.binary("bxor", n.binary("band", e, n.const(12345)), I1)
    assert isinstance(evaluate(e, (3, 4)), int)
    assert len(n.digest(e)) == 64 and not n.fails(e)
    assert "…" in repr(e)
