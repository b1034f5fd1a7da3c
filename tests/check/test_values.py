"""Every operation on every engine of the checks, at the edges of 64 bits and of doubles, against Python itself."""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from pellucid import Mod, Pipeline, Scale, check, pipeline
from pellucid.check import explicit_compiled as machine
from pellucid.check.explicit import compile_program
from pellucid.check.smt.encode import Encoding
from pellucid.check.system.build import System
from pellucid.check.system.domains import Domain
from pellucid.check.system.variables import FALSE, Variable
from pellucid.errors import NotTraceable, TypeMismatch, UsageError
from pellucid.internal.export.smv import export
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import Int64, evaluate
from pellucid.internal.expr.node import Expr, Overflow64
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
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 0.1, 3.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e300, -1e300,
    2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63), math.nextafter(2.0**63, 0),
    math.nextafter(-(2.0**63), -math.inf), 1.7976931348623157e308, math.inf, -math.inf, math.nan,
]  # fmt: skip

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


# Questions at the ends of 64 bits, and numbers of a formula that no float is.

same, money = pipeline(lambda x: x, x=int), pipeline(lambda x: x, x=Annotated[Decimal, Scale(2)])
fits = pipeline(lambda x: x.filter(lambda v: v <= 2**63 - 1), x=int)
MOST = "92233720368547758.07"


@pytest.mark.parametrize("cents", ["90071992547409.93", "9007199254740993.01", "-9007199254740993.01"])
def test_beside_a_decimal_a_number_is_what_is_written(cents):
    assert check.holds(money, f"G !(x.value = {cents})").counterexample.inputs == [{"x": Decimal(cents)}]


def test_what_has_more_than_64_bits_is_no_event():
    assert check.holds(same, f"G (x -> x.value <= {2**63 - 1})").proved
    assert check.holds(same, f"G (x -> x.value < {2**63 - 1})").counterexample.inputs == [{"x": 2**63 - 1}]
    assert check.holds(money, f"G (x -> x.value <= {MOST})").proved
    assert check.holds(money, f"G (x -> x.value < {MOST})").counterexample.inputs == [{"x": Decimal(MOST)}]
    assert check.equivalent(same, fits).proved
    assert check.equivalent(same, fits, how="sequence").unknown
    assert check.live(fits).proved
    above = pipeline(lambda x: x.map(lambda v: v < 2**63), x=int)
    assert check.implies(pipeline(lambda x: x.map(lambda v: v == v), x=int), above).proved


def test_a_range_that_nobody_can_list_is_refused_with_its_size():
    with pytest.raises(UsageError, match="has 18,446,744,073,709,551,616 values: give at most"):
        check.live(same, ints=range(-(2**63), 2**63))


# Questions about pipelines over real tables: times, decimals, and values that may be missing.


@dataclass(frozen=True)
class Flight:
    tail: str
    at: datetime
    delay: int | None


class Alert(NamedTuple):
    tail: str
    at: datetime


def three_in_a_row(run: int, e: Flight) -> tuple[int, list[Alert]]:
    if e.delay is None:  # a cancelled flight changes nothing
        return run, []
    run = run + 1 if e.delay > 60 else 0
    return run, [Alert(e.tail, e.at)] if run >= 3 else []


def rewritten(run: int, e: Flight) -> tuple[int, list[Alert]]:
    if e.delay is not None and e.delay > 60:
        return run + 1, [Alert(e.tail, e.at)] if run >= 2 else []
    return (run, []) if e.delay is None else (0, [])


def wrong(run: int, e: Flight) -> tuple[int, list[Alert]]:
    run = run + 1 if (e.delay or 0) > 60 else 0  # a cancelled flight ends a run
    return run, [Alert(e.tail, e.at)] if run >= 3 else []


def per_plane(f: Callable[..., Any]) -> Pipeline:
    return pipeline(lambda x: x.key_by(lambda e: e.tail).task(f, initial=0, id="run"), x=Flight)


ALERTS = per_plane(three_in_a_row)


def test_an_alert_carries_the_time_of_its_last_event() -> None:
    assert check.holds(ALERTS, "G (out -> out.value.at = x.value.at)").proved


def test_a_cancelled_flight_changes_nothing() -> None:
    without = pipeline(
        lambda x: x.filter(lambda e: e.delay is not None).key_by(lambda e: e.tail).task(three_in_a_row, initial=0),
        x=Flight,
    )
    assert check.equivalent(ALERTS, without).proved
    assert check.holds(ALERTS, "G (x.value.delay = None -> !out)").proved
    assert check.holds(ALERTS, "G (out -> x.value.delay > 60)").proved


def test_a_refactoring_and_a_wrong_one() -> None:
    assert check.equivalent(ALERTS, per_plane(rewritten)).proved
    verdict = check.equivalent(ALERTS, per_plane(wrong))
    assert verdict.refuted and verdict.counterexample is not None and verdict.counterexample.replay()
    pushes = [push["x"] for push in verdict.counterexample.inputs]
    assert len(pushes) == 4 and sum(e.delay is None for e in pushes) == 1  # the shortest: two, one cancelled, one
    assert "1970-01-01 00:00" in str(verdict)


def quiet_hour(last: datetime | None, e: Flight) -> tuple[datetime | None, list[datetime]]:
    if last is not None and e.at - last < timedelta(hours=1):
        return last, []
    return e.at, [e.at]


def hasty(last: datetime | None, e: Flight) -> tuple[datetime | None, list[datetime]]:
    if last is not None and e.at - last < timedelta(minutes=59):
        return last, []
    return e.at, [e.at]


@pytest.mark.parametrize(("f", "holds"), [(quiet_hour, True), (hasty, False)])
def test_never_two_alerts_within_an_hour(f: Callable[..., Any], holds: bool) -> None:
    p = pipeline(lambda x: x.task(f, initial=None, id="quiet"), x=Flight)
    first = check.holds(p, 'G (out -> out.value - Y out.value >= "PT1H")', assume="x.value.at >= Y x.value.at")
    assert first.refuted  # the first alert has none before it
    gaps = pipeline(lambda x: x.task(f, initial=None).lag(1).map(lambda pair: pair[0] - pair[1]), x=Flight)
    answer = check.holds(gaps, 'G (out -> out.value >= "PT1H")', assume="x.value.at >= Y x.value.at")
    assert answer.proved is holds and answer.refuted is not holds
    if not holds:
        assert answer.counterexample is not None and answer.counterexample.replay()


class Fee(NamedTuple):
    minutes: int | None
    fee: Annotated[Decimal, Scale(2)]


def test_money() -> None:
    fees = pipeline(lambda x: x.map(lambda e: Fee(e.delay, Decimal(e.delay or 0) * Decimal("1.25"))), x=Flight)
    assert check.holds(fees, "G (x & x.value.delay = None -> out.value.fee = 0)").proved
    assert check.holds(fees, "G (x.value.delay >= 2 -> out.value.fee >= 2.5)").proved
    bad = check.holds(fees, "G (x.value.delay >= 2 -> out.value.fee > 2.5)")
    assert bad.refuted and bad.counterexample is not None
    assert bad.counterexample.inputs[-1]["x"].delay == 2
    same = pipeline(lambda x: x.map(lambda e: Fee(e.delay, round((e.delay or 0) * Decimal("1.250"), 2))), x=Flight)
    verdict = check.equivalent(fees, same)
    assert (
        verdict.refuted and "one leaves 64 bits where the other does not" in verdict.notes[0]
    )  # three places need more
    assert check.equivalent(fees, same, assume="x.value.delay < 1000000 & x.value.delay > -1000000").proved


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("G (out.value.at >= 3)", "out.value.at is a datetime and 3 is an int"),
        ("G (x.value.delay < None)", "have no order that < could ask for"),
        ("G (x.value.tail = None)", "what can be missing is declared as T | None"),
        ('G (x.value.at >= "noon")', "expected datetime (such as 2013-01-01T05:00:00), found 'noon'"),
        ("G (x.value.at + x.value.at = x.value.at)", "+ has no meaning there"),
    ],
)
def test_questions_without_a_meaning(question: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check.holds(ALERTS, question)
    assert said in str(caught.value)


def test_times_are_not_modulo_anything() -> None:
    with pytest.raises(UsageError, match=r"carries datetime, and integers modulo 4 are no times"):
        check.holds(ALERTS, "G (out -> x)", ints=Mod(4))


# Questions about enums that may be missing, pipelines that fail step after step, times over few integers.


class Kind(enum.Enum):
    IN = "in"
    OUT = "out"
    BACK = "back"


@dataclass(frozen=True)
class Sale:
    price: int | None
    kind: Kind | None


SALES = pipeline(lambda x: x.filter(lambda e: e.kind is not Kind.IN), x=Sale)
KINDS = pipeline(lambda x: x.map(lambda e: e.kind, to=Kind | None), x=Sale)


@pytest.mark.parametrize("engine", ["auto", "explicit", "smt"])
@pytest.mark.parametrize(
    ("p", "formula", "proved"),
    [
        (SALES, "G (out -> out.value.kind != Kind.IN)", True),
        (SALES, "G (out -> out.value.kind != OUT)", False),
        (SALES, "G (out -> out.value.kind = Kind.OUT | out.value.kind = BACK)", False),  # it may be missing
        (SALES, "G (out -> out.value.kind = Kind.OUT | out.value.kind = BACK | out.value.kind = None)", True),
        (KINDS, "G (out.last = BACK -> x.value.kind = BACK)", True),
        (KINDS, "G (x -> any(BACK != out.value))", False),
    ],
)
def test_an_enum_that_may_be_missing_is_compared_with_its_members(p, formula, proved, engine) -> None:
    verdict = check.holds(p, formula, ints=range(5, 7), engine=engine)
    assert (verdict.proved, verdict.refuted) == (proved, not proved), str(verdict)


def test_such_an_enum_in_an_assumption_and_in_a_message() -> None:
    assert check.holds(KINDS, "G (out -> out.value = BACK)", assume="x.value.kind = BACK").proved
    assert check.holds(KINDS, "G (out -> out.value = BACK)", assume="x.value.kind != OUT").refuted
    with pytest.raises(UsageError, match="Kind has no member 'BAK': did you mean 'BACK'"):
        check.holds(KINDS, "G (out -> out.value = Kind.BAK)")
    with pytest.raises(UsageError, match="no order that <"):
        check.holds(KINDS, "G (out -> out.value < BACK)")


def raising(s: tuple[int | None, bool], e: Kind) -> tuple[tuple[int | None, bool], list[tuple[int, bool]]]:
    if s[1]:
        return (None, e is not Kind.OUT), [(3, False) if s[2] else (0, True)]  # type: ignore[misc]
    return (s[0], e is Kind.IN), [(0, True)]


def quiet(s: tuple[int | None, bool], e: Kind) -> tuple[tuple[int | None, bool], list[tuple[int, bool]]]:
    return s, [(3, True)]


@pytest.mark.parametrize("which", range(16))
def test_a_step_behind_one_that_fails_is_not_asked_first(which: int) -> None:
    """What a task emits where it fails, and how much, makes no sense; whatever the ids of the steps are."""
    p, q = (
        pipeline(
            lambda x, f=f, i=i: x.task(f, initial=(2, True), id=f"{i}a{which}").map(lambda e: e[1], id=f"{i}b{which}"),
            x=Kind,
        )
        for i, f in (("q", quiet), ("r", raising))
    )
    for ask in (check.implies, check.equivalent):
        verdict = ask(p, q, engine="smt")
        assert verdict.refuted and verdict.counterexample is not None, verdict.notes
        assert len(verdict.counterexample.inputs) == 1


def test_where_the_engine_was_the_reason_it_says_so() -> None:
    verdict = check.holds(SALES, "AG AF out.value.kind != IN", ints=range(2), engine="smt")
    assert verdict.unknown
    assert "can be listed, so leave engine= out, or use engine='explicit'" in verdict.notes[0]
    assert not check.holds(SALES, "AG AF out.value.kind != IN", ints=range(2)).unknown


def test_no_date_is_suggested_that_cannot_come() -> None:
    p = pipeline(lambda x: x.filter(lambda e: e > date(2013, 1, 1)), x=date)
    (note,) = check.holds(p, "G !out", ints=range(3)).notes
    assert "where x.value > 15706 is never so: with ints={0, 1, 2, 15705, 15706, 15707}" in note


def first(e: Sale) -> int | None:
    return e.price


@pytest.mark.parametrize("how", ["step", "sequence", "paper"])
def test_what_may_be_missing_is_compared_with_what_never_is(how: str) -> None:
    maybe = pipeline(lambda x: x.map(first), x=Sale)
    known = pipeline(lambda x: x.filter(lambda e: e.price is not None).map(first), x=Sale)
    never = pipeline(lambda x: x.map(lambda e: e.price or 0), x=Sale)
    asked = pipeline(lambda x: x.filter(lambda e: e.price is not None).map(lambda e: e.price or 0), x=Sale)
    for a, b in ((maybe, never), (never, maybe)):
        verdict = check.equivalent(a, b, how=how)
        assert verdict.refuted and verdict.counterexample is not None
        assert verdict.counterexample.inputs == [{"x": Sale(None, None)}] and verdict.counterexample.replay()
    assert check.equivalent(known, asked, how=how).proved
    assert check.equivalent(asked, known, how=how, ints=range(5, 8)).proved
    with pytest.raises(TypeMismatch, match="they emit"):
        check.equivalent(maybe, KINDS)


# Lists inside checks: they are closed.  What hands them on is decided, what looks inside is called, or refused by its
# step; never is an answer wrong.


class Order(NamedTuple):
    id: int
    tags: list[str]
    shares: list[float]
    flags: list[bool] | None


def of(build: Any) -> Any:
    return pipeline(build, x=Order)


pairs = of(lambda x: x.filter(lambda e: e.id > 0).map(lambda e: (e.id, e.tags)))


def test_what_hands_lists_on_is_decided() -> None:
    later = of(lambda x: x.map(lambda e: (e.id, e.tags)).filter(lambda p: p[0] > 0))
    assert check.equivalent(pairs, later).proved
    assert check.holds(pairs, "G (out -> out.value.1 = x.value.tags)").proved
    assert check.holds(of(lambda x: x.filter(lambda e: not e.tags).map(lambda e: e.tags)), "G out.count <= 1").proved


def test_a_refutation_has_lists_in_it() -> None:
    wrong = of(lambda x: x.map(lambda e: (e.id, e.tags)).filter(lambda p: p[1]))
    verdict = check.equivalent(pairs, wrong)
    assert verdict.refuted
    (push,) = verdict.counterexample.inputs
    assert pairs([push["x"]]) != wrong([push["x"]])
    assert "['other 1']" in str(verdict)
    moved = check.holds(of(lambda x: x.lag(1)), "G (out -> out.value.0.flags = out.value.1.flags)")
    assert moved.refuted
    first, second = (push["x"].flags for push in moved.counterexample.inputs)
    assert first != second


def test_what_looks_inside_is_never_proved_by_mistake() -> None:
    """The length of a list is known of those that it is called on: that can refute, and prove nothing of the others."""
    long = of(lambda x: x.filter(lambda e: len(e.tags) > 2))
    assert check.equivalent(long, of(lambda x: x)).refuted
    assert not check.holds(long, "G !out").proved
    assert not check.holds(of(lambda x: x.map(lambda e: e.tags[0])), "G !failed").proved


@pytest.mark.parametrize("ints", [None, range(3)])
def test_the_elements_of_a_list_are_refused_by_step(ints: Any) -> None:
    p = of(lambda x: x.explode(lambda e: e.tags, id="each").map(lambda s: len(s)))
    with pytest.raises(NotTraceable, match=r"step 'each' .* gives a list\[str\], and a check cannot look inside"):
        check.holds(p, "G !failed", ints=ints)
    looped = of(lambda x: x.explode(lambda e: [e.id for _ in e.tags], to=int, id="each"))
    with pytest.raises(NotTraceable, match=r"step 'each' .* a lambda loops over a list, whose length is not known, a"):
        check.live(looped, ints=ints)


def test_a_list_that_the_function_makes_is_open() -> None:
    p = pipeline(lambda x: x.explode(lambda v: [v, v + 1] if v > 0 else []), x=int)
    assert check.holds(p, "G (out -> out.count = 2 & out.last > out.first & out.first > 0)").proved
    assert check.holds(p, "G (out -> out.first > 1)").refuted
    task = pipeline(lambda x: x.task(lambda s, v: (s, [v, v + 1] if v > 0 else []), initial=0), x=int)
    assert check.equivalent(p, task).proved
    beside = pipeline(lambda x: x.explode(lambda v: [v, 2 * v], beside=True), x=int)
    assert check.holds(beside, "G (out -> out.first.0 = out.first.1 & out.last.1 = 2 * out.last.0)").proved


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ('out.value.tags = "a"', r"out.value.tags is a list\[str\] and \"a\" is a str: they cannot be compared"),
        ("out.value.tags < x.value.tags", "they have no order that < could ask for"),
        ("out.value.shares = x.value.shares", "lists with floats in them are not compared in a formula"),
        ("out.value.tags.0 = 1", r"out.value.tags is a list\[str\] and has no fields"),
    ],
)
def test_formulas(formula: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check.holds(of(lambda x: x), f"G (out -> {formula})")


def test_nusmv_has_no_lists() -> None:
    with pytest.raises(UsageError, match=r"NuSMV has no list\[str\] \(field 'tags'\)"):
        export(of(lambda x: x).graph, domain=range(3), queue=2, properties=["AG EF out"])


def test_failures_go_with_lists() -> None:
    p = of(lambda x: x.explode(lambda e: e.tags).cumulate(lambda n, s: n + 1, start=0))
    some = [[Order(1, ["a", "b"], [], None)], [Order(2, ["c"], [0.5], [True])]]
    assert check.failures(p, inputs=some).bounded
    assert check.failures(p, inputs=some, sink="append").refuted
