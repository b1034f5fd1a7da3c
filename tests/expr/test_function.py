from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest

from pellucid import PipelineError
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import BOOL, FLOAT, INT


def test_call_conforms_the_result() -> None:
    assert repr(Function.make(lambda v: v > 3 and v, (INT,)).call(2)) == "0"
    assert repr(Function.make(lambda v: v if v > 3 else 0.5, (INT,)).call(7)) == "7.0"
    assert Function.make(lambda v: [] if v else "x", (INT,), truth=True).call(0) is True


def test_names_and_places() -> None:
    def double(v: int) -> int:
        return v * 2

    f = Function.make(double, (INT,))
    assert (str(f), f.name) == ("double", "double()") and f.where.startswith("test_function.py:")
    assert Function.make(lambda v: v, (INT,)).name == "a lambda"
    assert Function.make(abs, (INT,)).where == "built in"


def test_arity_is_checked_first() -> None:
    with pytest.raises(
        PipelineError, match=r"the function <lambda> gets 2 arguments here, but: too many positional arguments"
    ):
        Function.make(lambda v: v, (INT, INT))

    def f(a: int, b: int) -> int:
        return a + b

    with pytest.raises(
        PipelineError, match=r"the function f gets 1 argument here, but: missing a required argument: 'b'"
    ):
        Function.make(f, (INT,))
    with pytest.raises(PipelineError, match="expected a function, found int 3"):
        Function.make(3, (INT,))  # type: ignore[arg-type]


def test_equal_meaning_equal_digest() -> None:
    def clamp(v: int) -> int:
        if v < 0:
            return 0
        return v

    one = Function.make(clamp, (INT,)).digest
    assert one == Function.make(lambda v: 0 if v < 0 else v, (INT,)).digest
    assert one != Function.make(lambda v: 0 if v < 1 else v, (INT,)).digest
    assert Function.make(lambda v: v, (INT,)).digest != Function.make(lambda v: v, (FLOAT,)).digest
    assert Function.make(functools.partial(pow, 2), (INT,), to=INT).digest != one


SCRIPT = """
from pellucid.internal.expr.evaluate import Overflow64
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import STR
print(Function.make(lambda s: s.upper() in {"a", "b", "c", "d", "e"}, (STR,), truth=True).digest)
"""


def test_digest_of_an_opaque_function_is_the_same_in_every_process() -> None:
    def digest(seed: str) -> str:
        import os

        env: dict[str, Any] = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert digest("1") == digest("2")


def test_the_spot_check_catches_what_the_watch_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function whose trace is wrong at a number it mentions does not get through."""
    from pellucid.internal.expr import function as module

    def f(v: int) -> bool:
        return v == 54321

    real = module.trace
    monkeypatch.setattr(module, "trace", lambda g, params, **kw: real(lambda v: v != v, params, **kw))
    made = Function.make(f, (INT,))
    assert made.traced is None
    assert made.reason == "gives True when called with [54321] where its trace gives False"


def test_two_failures_at_once_are_no_difference() -> None:
    def f(a: int, b: int) -> int:
        q = a // b
        return a * a + q

    assert Function.make(f, (INT, INT)).traced is not None


@pytest.mark.parametrize(
    ("f", "v"),
    [
        (lambda v: int(v) * int(v) % 7, 2**40),
        (lambda v: int(v * 1e10) - int(v * 1e10), 2**40),
        (lambda v: ((v > 0) + v) - 1, 2**63 - 1),
        (lambda v: (min(2**63 - 1, v) + True) - 1, 2**63 - 1),
    ],
)
def test_an_overflow_on_the_way_counts_also_where_python_has_larger_numbers(f: Any, v: int) -> None:
    made = Function.make(f, (INT,))
    assert made.traced is not None and isinstance(made.call(1), int)
    with pytest.raises(Overflow64):
        made.call(v)


def test_filters_ask_for_truth_only() -> None:
    f = Function.make(lambda v: v % 3, (INT,), truth=True)
    assert f.result == BOOL and f.call(4) is True and f.call(3) is False
