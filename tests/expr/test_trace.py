"""A trace is its function: the same values, and failures in the same places, however it is run."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pellucid.internal.expr.function import Function
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, TupleType, Type
from pellucid.internal.expr.types.of import type_of
from tests.expr import functions as fs
from tests.expr.compare import Compiled, agree, arguments, evaluated, plain, values
from tests.expr.programs import Program
from tests.volumes import some_seeds, volumes

NAMES = [f"{i}-{getattr(f, '__name__', type(f).__name__)}" for i, (f, _, _) in enumerate(fs.SHAPES)]


def test_there_are_many_shapes() -> None:
    assert len(fs.SHAPES) >= 60


@pytest.mark.seeded
@volumes(40, 150)
@pytest.mark.parametrize(("f", "params", "strict"), fs.SHAPES, ids=NAMES)
def test_trace_and_plain_code_equal_the_function(
    f: Callable[..., Any], params: tuple[Type, ...], strict: bool, examples: int
) -> None:
    made = Function.make(f, params)
    assert made.traced is not None, made.reason
    traced = made.traced
    code = Compiled(traced, numba=False)

    @settings(max_examples=examples)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        want = plain(f, traced, args)
        got = evaluated(traced, args)
        assert agree(want, got, strict=strict), (want, got)
        assert agree(code(args), got, strict=strict), code.text

    same()


@pytest.mark.seeded
@pytest.mark.parametrize(
    ("f", "params"),
    [(fs.running_mean, (TupleType((INT, INT)), INT)), (fs.split, (INT, INT))],
    ids=["running_mean", "split"],
)
def test_tasks(f: Callable[..., Any], params: tuple[Type, ...]) -> None:
    traced = trace(f, params, task=True)
    code = Compiled(traced, numba=False)

    @settings(max_examples=150)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        assert plain(f, traced, args) == evaluated(traced, args) == code(args)

    same()


COMPILED = [
    fs.floor_division,
    fs.true_division,
    fs.mixed_arithmetic,
    fs.float_floor_division,
    fs.int_against_float,
    fs.shift_left,
    fs.match_on_record,
    fs.text_equality,
    fs.early_raise,
    fs.boolean_arithmetic,
]


@pytest.mark.seeded
@pytest.mark.numba
@pytest.mark.parametrize("f", COMPILED, ids=lambda f: f.__name__)
def test_machine_code_equals_the_function(f: Callable[..., Any]) -> None:
    params, strict = next((p, s) for g, p, s in fs.SHAPES if g is f)
    traced = trace(f, params)
    code = Compiled(traced, numba=True)

    @settings(max_examples=100)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        want = plain(f, traced, args)
        assert agree(want, code(args), strict=strict), (want, code(args))

    same()


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(40, 100))
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    f = program.function()
    try:
        traced = trace(f, program.params)
    except Untraceable as refused:
        why = refused.reason
        assert why == "raises on every path" or "64 bits" in why or "paths" in why
        return
    code = Compiled(traced, numba=False)

    @settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
    @given(arguments(program.params))
    def same(args: tuple[Any, ...]) -> None:
        want, got = plain(f, traced, args), evaluated(traced, args)
        assert agree(code(args), got, strict=False), program.text
        # Constants and Booleans are plain ints, so plain Python may pass 2**63 on its way where the trace says
        # overflow.
        assert agree(want, got, strict=False) or got == ("overflow",), (want, got, program.text)

    same()


# ---------------------------------------------------------------- what once went wrong


@pytest.mark.parametrize(
    ("f", "params", "args", "want"),
    [
        (lambda v: 1 if v == fs.Level.HIGH else 0, (INT,), (200,), "1"),  # an IntEnum is its number
        (lambda s: 1 if s == fs.Word.BUY else 0, (STR,), ("buy",), "1"),
        (lambda v: (2 if (v > 3) is True else 3) if v > 50_000 else 0, (INT,), (60_000,), "2"),
        (lambda v, b: 1 if v == 60_000 and _is_true(b) else 0, (INT, BOOL), (60_000, True), "1"),  # `is` in a helper
        (lambda v: max((k for k in (1, 2, 3)), default=0) if v == 60_000 else 1, (INT,), (60_000,), "3"),
        (lambda v: min(k for k in (4, v)) if v == 60_000 else 1, (INT,), (60_000,), "4"),
        (lambda f: f < 2**63 + 1, (FLOAT,), (2.0**63,), "True"),  # exact, also beyond 64 bits
        (lambda f: f < 10**400, (FLOAT,), (math.inf,), "False"),
        (lambda f: 10**400 > f, (FLOAT,), (1e308,), "True"),
    ],
)
def test_regressions(f: Callable[..., Any], params: tuple[Type, ...], args: tuple[Any, ...], want: str) -> None:
    traced = trace(f, params)
    assert plain(f, traced, args) == evaluated(traced, args) == ("value", want)


def _is_true(b: bool) -> bool:
    return b is True


def test_paths_that_cannot_be_are_not_taken() -> None:
    def sign(v: int) -> int:  # type: ignore[return]
        if v > 0:
            return 1
        elif v <= 0:
            return 0

    assert str(trace(sign, (INT,)).outputs[0]) == "1 if v0 > 0 else 0"
    assert str(trace(fs.early_returns, (INT, INT)).outputs[0]) == "0 if v0 == v1 else 1 if v1 < v0 else -1"


Month = enum.Enum("Month", "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC ANY")


class Span(NamedTuple):
    first: Month
    last: Month
    due: Month
    n: int


@dataclasses.dataclass(frozen=True)
class Range:
    first: Month
    last: Month
    due: Month
    n: int


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda e: e.n, "v3"),
        (lambda e: e, "v0 v1 v2 v3"),
        (lambda e: dataclasses.replace(e, n=1) if isinstance(e, Range) else e._replace(n=1), "v0 v1 v2 1"),
        (lambda e: e.last == Month.JAN, "v1 == Month.JAN"),
        (lambda e: (e.due, e.n), "v2 v3"),
    ],
)
@pytest.mark.parametrize("cls", [Span, Range])
def test_an_enum_is_tested_where_it_is_read(cls: type, f: Callable[..., Any], want: str) -> None:
    assert " ".join(map(str, trace(f, (type_of(cls),)).outputs)) == want


@pytest.mark.parametrize(
    "f",
    [
        lambda e: e[2] == fs.Side.BUY,
        lambda e: e[-1:] == (fs.Side.BUY,),
        lambda e: [s for _, _, s in (e,)] == [fs.Side.BUY],
        lambda e: e._asdict()["side"] == fs.Side.BUY,
        lambda e: (1, *e)[3] == fs.Side.BUY,
        lambda e: ((1,) + e)[3] == fs.Side.BUY,
        lambda e: (2 * e)[5] == fs.Side.BUY,
        lambda e: f"{e.side}" == "Side.BUY",
        lambda e: fs.Side.BUY in e[2:],
        lambda e: {fs.Side.BUY: True}.get(e.side, False),
    ],
)
def test_each_way_to_read_a_field_tests_it(f: Callable[..., Any]) -> None:
    assert str(trace(f, (fs.TRADE,)).outputs[0]) == "v2 == Side.BUY"


def test_floats_may_be_neither_less_nor_more() -> None:
    traced = trace(fs.float_branches, (FLOAT, FLOAT))
    assert evaluated(traced, (math.nan, 1.0)) == ("value", "4")


# ---------------------------------------------------------------- the primitives of compiled code


@pytest.fixture(scope="module")
def prims() -> Any:
    return pytest.importorskip("pellucid.internal.engine.kernel.prims")


SMALL = [*range(-9, 10), 2**53 - 1, 2**53, 2**53 + 1, 2**62, INT_MAX - 1, INT_MAX, INT_MIN, INT_MIN + 1]
FLOATS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.5, 1e-320, 5e-324, 1e16, 2.0**53, 2.0**62, 2.0**63, 1e300, math.inf]
FLOATS = [s * f for f in FLOATS for s in (1.0, -1.0)]


@pytest.mark.numba
def test_small_values(prims: Any) -> None:
    for a in SMALL:
        for b in SMALL:
            if b:
                assert prims._idiv(a, b) == a / b, (a, b)
        for s in range(-2, 70):
            _check_shl(prims, a, s)
        for f in FLOATS:
            _check_compare(prims, a, f)
    for x in FLOATS:
        for y in FLOATS:
            if y:
                _check_floats(prims, x, y)
        _check_round(prims, x)


@pytest.mark.numba
@settings(max_examples=250)
@given(values(INT), values(INT), values(FLOAT), values(FLOAT), st.integers(-3, 80))
def test_random_values(a: int, b: int, x: float, y: float, s: int) -> None:
    from pellucid.internal.engine.kernel import prims

    if b:
        assert prims._idiv(a, b) == a / b
    _check_shl(prims, a, s)
    _check_compare(prims, a, x)
    if y:
        _check_floats(prims, x, y)
    _check_round(prims, x)
    _check_round(prims, y)


def _check_shl(prims: Any, a: int, s: int) -> None:
    if s < 0:
        want = (0, 2)
    elif not INT_MIN <= a << s <= INT_MAX:
        want = (0, 1)
    else:
        want = (a << s, 0)
    assert prims._shl(a, s) == want, (a, s)


def _check_compare(prims: Any, i: int, f: float) -> None:
    assert (prims._lt_if(i, f), prims._le_if(i, f), prims._eq_if(i, f)) == (i < f, i <= f, i == f), (i, f)
    assert (prims._lt_fi(f, i), prims._le_fi(f, i), prims._eq_fi(f, i)) == (f < i, f <= i, f == i), (i, f)
    if not math.isnan(f):
        assert prims._cmp_if(i, f) == (i > f) - (i < f)


def _check_floats(prims: Any, x: float, y: float) -> None:
    assert repr(float(prims._ffloordiv(x, y))) == repr(x // y), (x, y)
    assert repr(float(prims._fmod(x, y))) == repr(x % y), (x, y)


def _check_round(prims: Any, x: float) -> None:
    for name, f in (
        ("_trunc", math.trunc),
        ("_floor", math.floor),
        ("_ceil", math.ceil),
        ("_nearest", round),
        ("_to_int", math.trunc),
    ):
        try:
            want = (f(x), 0) if INT_MIN <= f(x) <= INT_MAX else (0, 1)
        except (ValueError, OverflowError):
            want = (0, 2)
        assert getattr(prims, name)(x) == want, (name, x)
