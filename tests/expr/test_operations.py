"""Every operation of expressions in every target: each means the same everywhere, or is declared to be refused.

An operation without an example here, or one that a target has never heard of, fails: one is planted below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pellucid import pipeline
from pellucid.check.belief.smtlib import NotWritten, _Text
from pellucid.check.explicit.program import compile_program
from pellucid.check.smt.order import Ordered
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import Domain
from pellucid.errors import NotNamed, PellucidError
from pellucid.internal.export.smv.expr import SmvKind, SmvWriter
from pellucid.internal.expr import node as n
from pellucid.internal.expr import text
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import OPERATIONS, Operation
from pellucid.internal.expr.printing import show
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, TupleType, Type
from pellucid.internal.solve.terms import Terms
from pellucid.spark.native.column import _Translation, why_not
from tests.expr.compare import Compiled

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


# ---------------------------------------------------------------- one that nobody knows


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Expr:
    monkeypatch.setitem(OPERATIONS, "planted", Operation("nobody knows", "strange"))
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
