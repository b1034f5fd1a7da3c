"""Every operation on every engine of the checks, at the edges of 64 bits and of doubles, against Python itself."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from pellucid import check, pipeline
from pellucid.check.explicit import machine
from pellucid.check.explicit.program import compile_program
from pellucid.check.smt.encode import Encoding
from pellucid.check.system.build import System
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import FALSE, Variable
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.checked import Int64
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.rewrite import failure, overflow
from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type, fits_int

POWERS = [2**31, 2**32, 2**53, 2**62, 2**63]
INTS = sorted(
    v
    for v in {
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        7,
        62,
        63,
        64,
        65,
        -64,
        *(s * p + d for p in POWERS for s in (1, -1) for d in (-1, 0, 1)),
    }
    if fits_int(v)
)
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    0.1,
    3.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e300,
    -1e300,
    2.0**53,
    2.0**53 + 2,
    2.0**62,
    2.0**63,
    -(2.0**63),
    math.nextafter(2.0**63, 0),
    math.nextafter(-(2.0**63), -math.inf),
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
]

Python = Callable[..., Any]
BINARY: dict[str, Python] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}
BITS: dict[str, Python] = {
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "shr": lambda a, b: a >> b,
    "shl": lambda a, b: a << b if b < 100 else (1 << 100 if a else 0),
}
COMPARE: dict[str, tuple[Callable[[Expr, Expr], Expr], Python]] = {
    "eq": (n.eq, lambda a, b: a == b),
    "lt": (n.lt, lambda a, b: a < b),
    "le": (n.le, lambda a, b: a <= b),
    "min": (lambda a, b: n.ite(n.lt(b, a), b, a), min),
    "max": (lambda a, b: n.ite(n.lt(a, b), b, a), max),
}
ONE: dict[str, Python] = {"neg": lambda a: -a, "abs": abs, "invert": lambda a: ~a}
ROUND: dict[str, Python] = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "nearest": round}

Case = tuple[Expr, tuple[Type, ...], Python]


def cases() -> dict[str, Case]:
    i, j, x, y = n.var(0, INT), n.var(1, INT), n.var(0, FLOAT), n.var(1, FLOAT)
    out: dict[str, Case] = {}
    for op, f in {**BINARY, **BITS}.items():
        out[f"int {op}"] = n.binary(op, i, j), (INT, INT), f
    for op, f in BINARY.items():
        out[f"float {op}"] = n.binary(op, x, y), (FLOAT, FLOAT), f
    out["int truediv"] = n.binary("truediv", i, j), (INT, INT), lambda a, b: a / b
    out["float truediv"] = n.binary("truediv", x, y), (FLOAT, FLOAT), lambda a, b: a / b
    for op, (make, f) in COMPARE.items():
        out[f"int {op}"] = make(i, j), (INT, INT), f
        out[f"float {op}"] = make(x, y), (FLOAT, FLOAT), f
        if op in ("eq", "lt", "le"):
            out[f"mixed {op}"] = make(i, n.var(1, FLOAT)), (INT, FLOAT), f
            out[f"mixed swapped {op}"] = make(x, n.var(1, INT)), (FLOAT, INT), f
    for op, f in ONE.items():
        out[f"int {op}"] = n.unary(op, i), (INT,), f
        if op != "invert":
            out[f"float {op}"] = n.unary(op, x), (FLOAT,), f
    for op, f in ROUND.items():
        out[op] = n.round_to_int(op, x), (FLOAT,), f
    out["sqrt"] = n.sqrt(x), (FLOAT,), math.sqrt
    out["float_of_int"] = n.float_of_int(i), (INT,), float
    for c in (0, 1, 3, 31, 62, 63, 64, 65):
        out[f"shl {c}"] = n.binary("shl", i, n.const(c)), (INT,), lambda a, c=c: a << c
        out[f"shr {c}"] = n.binary("shr", i, n.const(c)), (INT,), lambda a, c=c: a >> c
    for c in (1, -1, 2, -3, 2**62, 2**63 - 1, -(2**63)):
        out[f"floordiv {c}"] = n.binary("floordiv", i, n.const(c)), (INT,), lambda a, c=c: a // c
        out[f"mod {c}"] = n.binary("mod", i, n.const(c)), (INT,), lambda a, c=c: a % c
        out[f"mul {c}"] = n.mul(i, n.const(c)), (INT,), lambda a, c=c: a * c
    for c in (0, 1, 7, 2**31 - 1, 2**63 - 1):
        out[f"mask {c}"] = n.binary("band", i, n.const(c)), (INT,), lambda a, c=c: a & c
    for op in ("eq", "lt", "le"):
        make, f = COMPARE[op]
        for c in FLOATS:
            out[f"int {op} {c!r}"] = make(i, n.const(c)), (INT,), lambda a, c=c, f=f: f(a, c)
            out[f"{c!r} {op} int"] = make(n.const(c), i), (INT,), lambda a, c=c, f=f: f(c, a)
        for v in INTS:
            out[f"float {op} {v}"] = make(x, n.const(v)), (FLOAT,), lambda a, v=v, f=f: f(a, v)
            out[f"{v} {op} float"] = make(n.const(v), x), (FLOAT,), lambda a, v=v, f=f: f(v, a)
    return out


CASES = cases()


def edges(kinds: tuple[Type, ...]) -> list[tuple[Any, ...]]:
    return list(product(*[INTS if t == INT else FLOATS for t in kinds]))


def python(f: Python, args: tuple[Any, ...]) -> Any:
    """Python's own value, exact; None where it raises."""
    try:
        return f(*args)
    except (ArithmeticError, ValueError):
        return None


def shape(value: Any) -> Any:
    """Equal for equal values, of floats by their bits; all NaN are one."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("d", value)
    return bool(value) if isinstance(value, bool) else int(value)


def system(kinds: tuple[Type, ...], values: list[int] | None = None) -> System:
    inputs = tuple(Variable(f"v{i}", t) for i, t in enumerate(kinds))
    return System("edges", Domain(tuple(values) if values else None), (), inputs, (), {}, {}, {}, FALSE, FALSE)


@pytest.mark.parametrize(
    "name", [name for name in CASES if " eq " not in name and " lt " not in name and " le " not in name]
)
def test_the_evaluator_and_checked_integers(name: str) -> None:
    e, kinds, f = CASES[name]
    bad, wide = failure(e), overflow(e)
    for args in edges(kinds):
        exact = python(f, args)
        fits = exact is None or e.type != INT or fits_int(exact)
        assert evaluate(bad, args) == (exact is None), args
        assert evaluate(wide, args) == (not fits), args
        try:
            assert shape(evaluate(e, args)) == shape(exact) and fits, args
        except Overflow64:
            assert not fits, args
        except (ArithmeticError, ValueError):
            assert exact is None, args
        try:
            got = f(*[Int64(a) if isinstance(a, int) else a for a in args])
            assert shape(got) == shape(exact), args
            assert fits or "shl" in name or name in ROUND, (
                args
            )  # the table's own guard; a float has no checked integers
        except Overflow64:
            assert not fits, args
        except (ArithmeticError, ValueError):
            assert exact is None, args


@pytest.mark.parametrize("compiled", [True, False])
def test_the_register_machine(compiled: bool) -> None:
    """All operations on ints in one program, on all pairs of edges; also what it says of failures and of 64 bits."""
    whole = {k: c for k, c in CASES.items() if set(c[1]) == {INT} and c[0].type in (INT, BOOL)}
    execute = machine._execute if compiled else machine._execute.py_func
    pairs = edges((INT, INT)) if compiled else edges((INT, INT))[::17]
    for name, (e, kinds, f) in whole.items():
        program = compile_program(system(kinds, INTS), [e, failure(e), overflow(e)])
        r = np.zeros(program.registers, np.int64)
        r[len(kinds) : len(kinds) + len(program.constants)] = program.constants
        for args in dict.fromkeys(pair[: len(kinds)] for pair in pairs):
            exact = python(f, args)
            fits = exact is None or fits_int(exact)
            for strict in (True, False):
                r[: len(kinds)] = args
                with np.errstate(over="ignore"):
                    left = execute(program.code, 0, len(program.code), r, strict)
                assert left == (not fits and not strict), (name, args)
                if left:
                    continue
                value, bad, wide = (int(r[at]) for at in program.observed)
                assert (bad, wide) == (exact is None, not fits), (name, args)
                assert value == int(exact) if fits and exact is not None else value == 0, (name, args)


REFUSED = {"int band", "int bor", "int bxor", "int shl", "int shr", "float floordiv", "float mod"}


@pytest.mark.parametrize("name", CASES)
def test_the_terms_of_the_solver(name: str) -> None:
    """Exact integers; what they refuse is refused by name."""
    e, kinds, f = CASES[name]
    code = Encoding(system(kinds))
    z3 = code.z3
    if name in REFUSED:
        with pytest.raises(UsageError, match="does not do"):
            code.term(e)
        return
    roots = code.terms([e, failure(e), overflow(e)])
    some = edges(kinds)
    for args in some[::3] if len(some) < 100 else some[::29]:
        pairs = [(c, code.value(t, v)) for c, t, v in zip(code.inputs, kinds, args, strict=True)]
        value, bad, wide = (z3.simplify(z3.substitute(root, *pairs)) for root in roots)
        exact = python(f, args)
        assert code.python(BOOL, bad) == (exact is None), args
        if exact is not None:
            assert shape(code.python(e.type, value)) == shape(exact), args
            assert code.python(BOOL, wide) == (e.type == INT and not fits_int(exact)), args


def test_ints_against_floats_in_explicit_search() -> None:
    """A constant float was once cut to an int there."""
    p = pipeline(lambda x: x.map(lambda v: v < 0.5), x=int)
    assert check.holds(p, "G (out -> out.value)", ints={0, -1}, engine="explicit").proved
    q = pipeline(lambda x: x.map(lambda v: v == 1.5), x=int)
    assert check.holds(q, "G (out -> !out.value)", ints={0, 1, 2}, engine="explicit").proved
    assert check.holds(q, "G (out -> out.value)", ints={1}, engine="explicit").refuted


def test_a_product_beyond_64_bits() -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t * 2, start=1), x=int)
    assert not check.holds(p, "G (out -> out.value <= 4611686018427387904)", ints={0}, timeout=5).proved
    assert not check.holds(p, "G (out -> out.value > 0)", ints={0}, timeout=5).refuted
