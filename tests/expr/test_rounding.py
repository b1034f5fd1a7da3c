"""``round``: to the nearest int in every target, to a number of digits exactly as Python does in engines."""

from __future__ import annotations

import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import check, pipeline
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import FLOAT, INT
from tests.expr.compare import Compiled, values
from tests.seeds import seeds

HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2.675, 1.005, 0.125, 1e15 + 0.5, 4503599627370497.5]


def test_to_the_nearest_int_is_traced() -> None:
    fn = Function.make(lambda x: round(x), (FLOAT,))
    assert fn.traced is not None and fn.result == INT
    run = Compiled(fn.traced, False)
    for x in [*HALVES, 1e18, -0.0]:
        assert run([x]) == ("value", repr(round(x)))
    assert run([1e19]) == ("overflow",)
    assert run([math.inf]) == run([math.nan]) == ("raise",)


def test_ints_are_as_they_are() -> None:
    fn = Function.make(lambda v: round(v) + round(v, 2), (INT,))
    assert fn.traced is not None and fn.call(3) == 6


@given(values(FLOAT), st.integers(-3, 20))
def test_to_digits(x: float, digits: int) -> None:
    fn = Function.make(lambda v: round(v, digits), (FLOAT,), to=FLOAT)
    assert fn.runs is not None and fn.traced is None
    try:
        want = ("value", repr(round(x, digits)))
    except OverflowError:
        want = ("raise",)
    assert Compiled(fn.runs, False)([x]) == want


def drawn(rng: random.Random) -> float:
    ways = [
        lambda: struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0],
        lambda: rng.uniform(-1000, 1000),
        lambda: rng.randrange(-(10**9), 10**9) / 10 ** rng.randrange(12),
        lambda: (2 * rng.randrange(-(10**7), 10**7) + 1) / 2 ** rng.randrange(12),  # halves of decimals
        lambda: math.nextafter(rng.randrange(-(10**6), 10**6) / 1000 + 0.0005, rng.choice([-1e9, 1e9])),
        lambda: rng.randrange(2**50, 2**56) / 10 ** rng.randrange(18),  # where doubles have no halves any more
    ]
    return float(rng.choice(ways)())


@pytest.mark.parametrize("seed", seeds(2))
def test_the_compiled_one_is_pythons(seed: int) -> None:
    from pellucid.internal.engine.kernel.prims import _digits

    rng = random.Random(seed)
    for _ in range(20_000):
        x, digits = drawn(rng), rng.randrange(19)
        assert repr(float(_digits(x, 10.0**digits, 10**digits))) == repr(round(x, digits)), (x, digits)


def test_in_an_engine_and_in_a_check() -> None:
    p = pipeline(lambda x: x.map(lambda v: round(v * 1.1, 2)), x=float)
    for mode in ("python", "numba"):
        assert p.engine(mode=mode).push([*HALVES]) == [round(v * 1.1, 2) for v in HALVES]
    whole = pipeline(lambda x: x.filter(lambda v: 0 <= v < 100).map(lambda v: round(v)), x=float)
    assert check.holds(whole, "G (out -> out.value <= 100)", warn=False).proved
    assert check.holds(whole, "G (out -> out.value < 100)", warn=False).refuted


def test_what_is_no_number() -> None:
    fn = Function.make(lambda x: (math.isnan(x), math.isinf(x), math.isfinite(x)), (FLOAT,))
    assert fn.traced is not None
    run = Compiled(fn.traced, False)
    for x in (0.0, math.nan, math.inf, -math.inf, 1e308):
        assert run([x]) == ("value", repr((math.isnan(x), math.isinf(x), math.isfinite(x))))
