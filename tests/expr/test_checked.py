from __future__ import annotations

import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.internal.expr.checked import Int64, wrap
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import INT, INT_MAX, INT_MIN, fits_int
from tests.expr.compare import values
from tests.expr.functions import PAIR, POINT, Pair, Point

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.and_,
    operator.or_,
    operator.xor,
]
ints = values(INT)


@given(st.sampled_from(BINARY), ints, ints)
def test_the_same_numbers_or_an_overflow(op: Any, a: int, b: int) -> None:
    try:
        want = op(a, b)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            op(Int64(a), b)
        return
    for x, y in ((Int64(a), b), (a, Int64(b)), (Int64(a), Int64(b))):
        if fits_int(want):
            assert op(x, y) == want and type(op(x, y)) is Int64
        else:
            with pytest.raises(Overflow64, match="does not fit in 64 bits"):
                op(x, y)


@pytest.mark.parametrize("op", [lambda v: -v, abs])
def test_the_one_number_without_an_opposite(op: Any) -> None:
    assert op(Int64(5)) in (5, -5)
    with pytest.raises(Overflow64):
        op(Int64(INT_MIN))


@given(ints, st.floats())
def test_comparing_with_floats_never_fails(i: int, f: float) -> None:
    for op in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
        assert op(Int64(i), f) == op(i, f) and op(f, Int64(i)) == op(f, i)
    assert repr(sorted([Int64(INT_MIN), -(2.0**63), f if f == f else 0.0])) == repr(
        sorted([INT_MIN, -(2.0**63), f if f == f else 0.0])
    )


def test_divmod_both_ways() -> None:
    assert divmod(Int64(-7), 2) == (-4, 1) and divmod(7, Int64(-2)) == (-4, -1)
    with pytest.raises(Overflow64):
        divmod(INT_MIN, Int64(-1))


def test_a_huge_shift_is_refused_without_computing_it() -> None:
    with pytest.raises(Overflow64):
        Int64(1) << 2**40
    with pytest.raises(Overflow64):
        1 << Int64(2**40)
    assert 0 << Int64(2**40) == 0 and Int64(1) << 62 == 2**62
    with pytest.raises(ValueError, match="negative shift count"):
        Int64(1) << -1


def test_powers_overflow_where_the_trace_does() -> None:
    assert Int64(3) ** 4 == 81 and Int64(5) ** 0 == 1
    with pytest.raises(Overflow64):
        Int64(2) ** 63


def test_rounding_stays_checked() -> None:
    for f in (math.floor, math.ceil, math.trunc, round):
        with pytest.raises(Overflow64):
            f(Int64(INT_MAX)) + 1


def test_with_floats_it_is_a_plain_number() -> None:
    assert type(Int64(3) + 0.5) is float and Int64(3) / 2 == 1.5
    assert Int64(3) == 3.0 and hash(Int64(3)) == hash(3)


def test_wrap_reaches_into_records() -> None:
    p = wrap(PAIR, Pair(Point(1, 2), Point(3, 4)))
    assert type(p.second.y) is Int64 and p == Pair(Point(1, 2), Point(3, 4))
    with pytest.raises(Overflow64):
        wrap(POINT, Point(INT_MAX, 0)).x + 1
