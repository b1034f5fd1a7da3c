"""Expressions: one object for one meaning, and no simplification that loses a value or a failure."""

from __future__ import annotations

import enum
import math
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import pipeline
from pellucid.check.certify import NotWritten, _Text
from pellucid.check.explicit import compile_program
from pellucid.check.smt.lemmas import Ordered
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import Domain
from pellucid.errors import NotNamed, PellucidError
from pellucid.internal.export.language import SmvKind, SmvWriter
from pellucid.internal.expr import node as n
from pellucid.internal.expr import rewrite as text
from pellucid.internal.expr.evaluate import Int64, evaluate, wrap
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import OPERATIONS, Expr, Operation, Overflow64, show
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.trace import Traced, trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, TupleType, Type, fits_int, type_of
from pellucid.internal.solve.terms import Terms
from pellucid.spark.column import _Translation, why_not
from tests.expr.compare import Compiled, values
from tests.expr.functions import PAIR, POINT, SIDE, Pair, Point, Side
from tests.expr.written import Program

I0, I1, F0, F1, B0, B1, S0, E0 = (n.var(i, t) for i, t in enumerate((INT, INT, FLOAT, FLOAT, BOOL, BOOL, STR, SIDE)))
ZERO, ONE = n.const(0), n.const(1)


def random_expression(seed: int) -> n.Expr:
    """What a random program computes, as an expression; a leaf where it has no trace."""
    program = Program(seed)
    try:
        return trace(program.function(), program.params).outputs[0]
    except Untraceable:
        return n.var(0, INT)


random_cases = given(st.integers(0, 10**6).map(random_expression), st.tuples(*map(values, Program.params)))


@settings(max_examples=100)
@random_cases
def test_strict_parts_are_always_evaluated(expr: n.Expr, leaves: tuple[Any, ...]) -> None:
    memo: dict[int, Any] = {}
    try:
        evaluate(expr, leaves, memo)
    except Exception:
        return
    assert all(id(part) in memo for part in n.strict_parts(expr))


@settings(max_examples=100)
@random_cases
def test_the_text_is_python_and_means_the_same(expr: n.Expr, leaves: tuple[Any, ...]) -> None:
    text = show(expr, limit=10_000)
    try:
        want = repr(evaluate(expr, leaves))
    except Exception:
        assert n.fails(expr)
        return
    space = {f"v{i}": leaf for i, leaf in enumerate(leaves)} | {"after": lambda *parts: parts[-1]}
    space |= {name: getattr(math, name) for name in ("trunc", "floor", "sqrt", "inf", "nan")}
    if "raise" not in text and "…" not in text:  # else it is no expression of Python's
        assert repr(eval(text, space)) == want, text


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


# Every operation of expressions in every target: each means the same everywhere, or is declared to be refused.
#
# An operation without an example here, or one that a target has never heard of, fails: one is planted below.

I, J, F, G, B, C, S, T = (  # noqa: E741
    n.var(i, t) for i, t in enumerate((INT, INT, FLOAT, FLOAT, BOOL, BOOL, STR, STR))
)
TYPES: tuple[Type, ...] = (INT, INT, FLOAT, FLOAT, BOOL, BOOL, STR, STR)
LEAVES = [-7, 2, 2.5, -0.5, True, False, "abcab", "ab"]
NAMES = ["i", "j", "f", "g", "b", "c", "s", "t"]
UPPER = text.Pure("upper", str.upper, STR, False)
NUMBER = text.Pure("number", int, INT, True)
HALF = text.Pure("half", lambda s: len(s) / 4, FLOAT, False)


@dataclass(frozen=True)
class Case:
    """An expression with the operation at its root, and its value over `LEAVES`."""

    e: Expr
    value: Any


CASES: dict[str, list[Case]] = {
    "const": [Case(n.const(3), 3), Case(n.const(1.5), 1.5), Case(n.const("a"), "a")],
    "var": [Case(I, -7), Case(F, 2.5), Case(S, "abcab")],
    "raise": [Case(n.ite(B, I, n.raise_(0, INT)), -7)],
    "add": [Case(n.add(I, J), -5), Case(n.add(F, G), 2.0)],
    "sub": [Case(n.sub(I, J), -9), Case(n.sub(F, G), 3.0)],
    "mul": [Case(n.mul(I, J), -14), Case(n.mul(F, G), -1.25)],
    "floordiv": [Case(n.binary("floordiv", I, J), -4), Case(n.binary("floordiv", F, G), -5.0)],
    "mod": [Case(n.binary("mod", I, J), 1), Case(n.binary("mod", F, G), -0.0)],
    "truediv": [Case(n.binary("truediv", I, J), -3.5), Case(n.binary("truediv", F, G), -5.0)],
    "band": [Case(n.binary("band", I, J), 0), Case(n.binary("band", I, n.const(7)), 1)],
    "bor": [Case(n.binary("bor", I, J), -5)],
    "bxor": [Case(n.binary("bxor", I, J), -5)],
    "shl": [Case(n.binary("shl", I, n.const(2)), -28)],
    "shr": [Case(n.binary("shr", I, n.const(1)), -4)],
    "neg": [Case(n.neg(I), 7), Case(n.neg(F), -2.5)],
    "abs": [Case(n.abs_(I), 7), Case(n.abs_(G), 0.5)],
    "invert": [Case(n.unary("invert", I), 6)],
    "eq": [Case(n.eq(I, J), False), Case(n.eq(F, G), False), Case(n.eq(S, T), False), Case(n.eq(I, F), False)],
    "lt": [Case(n.lt(I, J), True), Case(n.lt(F, G), False), Case(n.lt(J, F), True)],
    "le": [Case(n.le(I, J), True), Case(n.le(F, G), False), Case(n.le(S, T), False)],
    "and": [Case(n.and_(B, C), False)],
    "or": [Case(n.or_(B, C), True)],
    "not": [Case(n.not_(B), False)],
    "ite": [Case(n.ite(B, I, J), -7), Case(n.ite(C, S, T), "ab")],
    "int_of_bool": [Case(n.int_of_bool(B), 1)],
    "float_of_int": [Case(n.float_of_int(I), -7.0)],
    "trunc": [Case(n.round_to_int("trunc", F), 2)],
    "floor": [Case(n.round_to_int("floor", G), -1)],
    "ceil": [Case(n.round_to_int("ceil", F), 3)],
    "nearest": [Case(n.round_to_int("nearest", F), 2), Case(n.round_to_int("nearest", G), 0)],
    "digits": [Case(n.round_to_digits(n.mul(F, F), 1), 6.2), Case(n.round_to_digits(G, 0), -0.0)],
    "sqrt": [Case(n.sqrt(n.add(F, n.const(3.75))), 2.5)],
    "after": [Case(n.after((n.add(I, J),), B), True)],
    "overflows": [Case(n.overflows(n.add(I, J)), False), Case(n.overflows(n.neg(n.const(-(2**63)))), True)],
    "length": [Case(text.length(S), 5)],
    "concat": [Case(text.concat(S, T), "abcabab")],
    "starts": [Case(text.starts(S, T), True)],
    "ends": [Case(text.ends(S, T), True)],
    "holds": [Case(text.holds(T, S), False)],
    "find": [Case(text.find(S, T), 0)],
    "part": [Case(text.part(S, n.const(1), n.const(3)), "bc")],
    "call": [Case(text.call(UPPER, [T]), "AB"), Case(text.call(HALF, [T]), 0.5)],
    "call_fails": [Case(text.call_fails(NUMBER, [T]), True)],
}

# ---------------------------------------------------------------- the targets


def by_evaluation(e: Expr) -> Any:
    return evaluate(e, LEAVES)


def by_rebuilding(e: Expr) -> Any:
    assert substitute([e], [I, J, F, G, B, C, S, T]) == [e]
    return evaluate(substitute([e], [n.const(v) for v in LEAVES])[0], [])


def by_code(e: Expr, numba: bool = False) -> Any:
    kind, got = Compiled(Traced(TYPES, e.type, (e,)), numba)(LEAVES)
    assert kind == "value"
    return eval(got)


def by_z3(e: Expr) -> Any:
    code = terms_of()
    return code.python(e.type, settled(code, code.term(e)))


def terms_of() -> Terms:
    code = Terms(texts=True)
    code.variables = [code.constant(name, t) for name, t in zip(NAMES, TYPES, strict=True)]
    return code


def settled(code: Terms, term: Any) -> Any:
    """A term with the leaves and the functions' answers in it, by rewriting alone."""
    z3 = code.z3
    term = z3.substitute(term, *[(c, code.value(t, v)) for c, t, v in zip(code.variables, TYPES, LEAVES, strict=True)])
    if code.text is not None:
        for f, (value_of, fails) in code.text._functions.items():
            failed, value = f.answer("ab")
            answers = [(value_of, code.value(f.result, value)), (fails, z3.BoolVal(failed))]
            term = z3.substitute(term, *[(g(code.value(STR, "ab")), v) for g, v in answers])
    return z3.simplify(term)


def by_smtlib(e: Expr, value: Any) -> Any:
    import z3

    system = build_system(pipeline(lambda x: x, x=TupleType(TYPES)).graph, Domain(), 2)
    own = substitute([e], [n.var(len(system.state) + 1 + i, t) for i, t in enumerate(TYPES)])[0]  # 0: an event comes
    made = _Text(replace(system, texts=True), True).push().claim(0, n.eq(own, n.const(value)), True)
    if e.op in ("call", "call_fails"):
        assert "(declare-fun call0" in made.done()
        return value
    (*_, claimed) = z3.parse_smt2_string(made.done())
    code = Terms(texts=True)
    given = [(z3.Const(f"i{i + 1}_0", code.constant("c", t).sort()), code.value(t, v))
             for i, (t, v) in enumerate(zip(TYPES, LEAVES, strict=True))]  # fmt: skip
    return value if z3.is_true(z3.simplify(z3.substitute(claimed, *given))) else "another"


def by_order(e: Expr) -> Any:
    """That floats as numbers with an order have a term or a refusal for it, alone and inside another operation."""
    system = replace(build_system(pipeline(lambda x: x, x=TupleType(TYPES)).graph, Domain(), 2), texts=True)
    own = substitute([e], [n.var(len(system.state) + 1 + i, t) for i, t in enumerate(TYPES)])[0]
    roots = [own, n.lt(n.add(own, own), own)] if e.type == FLOAT else [own]
    Ordered(system, roots).terms(roots)
    return None


def by_explicit(e: Expr) -> Any:
    """That every operation has its number; what these do is tested on whole systems."""
    p = pipeline(lambda x: x, x=TupleType((INT, INT, BOOL, BOOL)))
    system = build_system(p.graph, Domain(values=(-7, 2)), 2)
    few = {at: len(system.state) + 1 + i for i, at in enumerate((0, 1, 4, 5))}
    moved = substitute([e], [n.var(few.get(i, i), t) for i, t in enumerate(TYPES)])[0]
    compile_program(system, [moved])
    return None


def by_smv(e: Expr) -> Any:
    small = tuple(range(-8, 9))
    writer = SmvWriter(NAMES, [SmvKind(t, small if t == INT else ()) for t in TYPES])
    return writer(e) and None


def by_column(e: Expr) -> Any:
    """Without a JVM: that there is a rule, and no reason against it."""
    reason = why_not(e, ansi=True)
    if reason is not None:
        raise PellucidError(reason)
    assert e.op in ("var", "const") or e.op in _Translation.STEPS
    return None


def by_printing(e: Expr) -> Any:
    shown = show(e, NAMES)
    import math

    space: dict[str, Any] = dict(zip(NAMES, LEAVES, strict=True)) | {
        "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "nearest": round, "sqrt": math.sqrt,
        "upper": str.upper, "half": lambda s: len(s) / 4,
        "after": lambda *args: args[-1], "overflows": lambda v: not -(2**63) <= v < 2**63,
        "starts": str.startswith, "ends": str.endswith, "holds": lambda a, b: b in a, "find": str.find,
        "part": lambda s, a, b: s[a:b],
    }  # fmt: skip
    return eval(shown.replace("number(t) fails", "not t.isdigit()").replace("raise", "None"), space)


TARGETS: dict[str, Callable[[Expr], Any]] = {
    "evaluate": by_evaluation,
    "rebuild": by_rebuilding,
    "code": by_code,
    "z3": by_z3,
    "order": by_order,
    "explicit": by_explicit,
    "smv": by_smv,
    "column": by_column,
    "printing": by_printing,
}
CHECKS_ONLY = {op for op, o in OPERATIONS.items() if not o.runs}
FLOATS = {"float_of_int", "trunc", "floor", "ceil", "nearest", "sqrt", "truediv"}


def refused(target: str, e: Expr) -> str | None:
    """What a target says that does not have this; None: it has it."""
    parts = list(n.walk(e))
    types = {t for p in parts if p.op != "var" for t in (p.type, *(a.type for a in p.args))}
    ops = {p.op for p in parts}
    text_inside = any(p.op in text.TEXT_OPS or text.order_of_text(p) for p in parts)
    if target == "code" and (ops & CHECKS_ONLY or any(map(text.order_of_text, parts))):
        return "does not know the operation"
    if target in ("z3", "order"):
        parted = e.op in ("floordiv", "mod") and e.type == FLOAT
        odd = ops & {"bor", "bxor", "digits"} or parted or (e.op == "band" and e.args[1].op != "const")
        return "does not do" if odd else None
    if target == "smtlib":
        mixed = any(p.op in ("eq", "lt", "le") and p.args[0].type != p.args[1].type for p in parts)
        hard = ops & {"bor", "bxor", "float_of_int", "trunc", "floor", "ceil", "nearest", "digits"}
        odd = (e.op in ("floordiv", "mod") and e.type == FLOAT) or (e.op == "truediv" and e.args[0].type == INT)
        return "" if mixed or hard or odd or (e.op == "band" and e.args[1].op != "const") else None
    if target == "explicit":
        if text_inside:
            return "does not look inside text"
        return "explicit search takes no floats" if FLOAT in types else None
    if target == "smv" and (STR in types or FLOAT in types or "overflows" in ops):
        return "NuSMV has Booleans, integers and symbolic constants only"
    if target == "column":
        if ops & (CHECKS_ONLY | {"call", "digits"}):
            return "which Spark's expressions do not have"
        if e.op == "floordiv" and e.type == FLOAT:
            return "uses // on floats"
        if e.op == "truediv" and e.args[0].type == INT:
            return "divides integers that may be above"
    return None


EVERY = [pytest.param(case, id=f"{op}-{i}") for op, cases in CASES.items() for i, case in enumerate(cases)]


def missing() -> set[str]:
    return set(OPERATIONS) - set(CASES)


def test_every_operation_has_an_example() -> None:
    assert not missing()
    for op, cases in CASES.items():
        assert all(any(part.op == op for part in n.walk(c.e)) or c.e.op == "const" for c in cases), op


@pytest.mark.parametrize("case", EVERY)
@pytest.mark.parametrize("target", list(TARGETS))
def test_every_operation_in_every_target(target: str, case: Case) -> None:
    why = refused(target, case.e)
    if why is not None:
        with pytest.raises((PellucidError, NotNamed), match=why):
            TARGETS[target](case.e)
        return
    got = TARGETS[target](case.e)
    assert got is None or repr(got) == repr(case.value)


@pytest.mark.parametrize("case", EVERY)
def test_every_operation_in_smtlib(case: Case) -> None:
    if refused("smtlib", case.e) is not None:
        with pytest.raises(NotWritten):
            by_smtlib(case.e, case.value)
        return
    assert by_smtlib(case.e, case.value) == case.value


def test_every_operation_compiled() -> None:
    """All that a kernel may hold in one function, as it takes seconds to compile one."""
    cases = [c for cases in CASES.values() for c in cases if refused("code", c.e) is None]
    whole = Traced(TYPES, TupleType(tuple(c.e.type for c in cases)), tuple(c.e for c in cases))
    kind, got = Compiled(whole, True)(LEAVES)
    assert (kind, got) == ("value", repr(tuple(c.value for c in cases)))


# ---------------------------------------------------------------- one that is unknown


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Expr:
    monkeypatch.setitem(OPERATIONS, "planted", Operation("unknown", "strange"))
    monkeypatch.setattr(n, "_nodes", dict(n._nodes))  # it is not left behind
    return n._node("planted", INT, (I, J))


@pytest.mark.parametrize("target", ["evaluate", "rebuild", "code", "z3", "explicit", "smv", "column", "smtlib"])
def test_a_planted_operation_is_refused_by_name(target: str, planted: Expr) -> None:
    system = build_system(pipeline(lambda x: x, x=TupleType((INT, INT))).graph, Domain(values=(1,)), 2)
    own = {  # where `substitute` would refuse it before
        "explicit": lambda e: compile_program(system, [e]),
        "smtlib": lambda e: _Text(system, True).push().term(0, e),
    }
    run = {**TARGETS, **own}[target]
    with pytest.raises((NotNamed, PellucidError, NotWritten), match="planted"):
        run(planted)


def test_a_planted_operation_is_printed_and_missed(planted: Expr) -> None:
    assert show(planted, NAMES) == "planted(i, j)"
    assert missing() == {"planted"}


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
    for f, shown_text in shown:
        assert str(Function.make(f, (row,))) == shown_text


BINARY = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
    operator.xor,
]  # fmt: skip
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


def test_a_huge_shift_is_refused_without_computing_it() -> None:
    with pytest.raises(Overflow64):
        Int64(1) << 2**40
    with pytest.raises(Overflow64):
        1 << Int64(2**40)
    assert 0 << Int64(2**40) == 0 and Int64(1) << 62 == 2**62
    with pytest.raises(ValueError, match="negative shift count"):
        Int64(1) << -1


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
