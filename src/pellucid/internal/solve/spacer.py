"""Property-directed reachability, by z3's Spacer.

Spacer has been seen to answer "proved" wrongly, so its word counts for nothing: the invariant that it returns is
translated back into an expression, and `check_certificate` decides about it as about any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType
from pellucid.internal.model.budget import Budget, patiently
from pellucid.internal.solve.certificate import Proof
from pellucid.internal.solve.transition import Transition


def spacer(code: Transition, bad: Expr, lemmas: Sequence[Expr], clock: Budget) -> Proof | None:
    """A proof that Spacer suggests, **unchecked**; None if it has none that can be read."""
    if code.text is not None or FLOAT in (*code.state_types, *code.input_types):
        return None
    left = clock.left()
    if left is None:
        return _query(code, bad, lemmas, None)
    return patiently(left, lambda limit: _query(code, bad, lemmas, limit)) if left >= 0.05 else None


def _query(code: Transition, bad: Expr, lemmas: Sequence[Expr], seconds: float | None) -> Proof | None:
    z3 = code.z3
    engine = z3.Fixedpoint()
    options: dict[str, Any] = {"engine": "spacer"} | {
        f"xform.{name}": False
        for name in ("inline_eager", "inline_linear", "slice", "coi", "tail_simplifier_pve", "subsumption_checker")
    }
    if seconds is not None:
        options["timeout"] = max(1, int(seconds * 1000))
    engine.set(**options)
    reached = z3.Function("reached", *[c.sort() for c in code.state], z3.BoolSort())
    failed = z3.Function("bad", z3.BoolSort())
    engine.register_relation(reached, failed)
    engine.declare_var(*code.state, *code.inputs)
    facts = [*code.typing(code.state), *code.allowed(), code.assume, *code.terms(lemmas)]
    try:
        engine.rule(reached(*code.start))
        engine.rule(reached(*code.next), [reached(*code.state), *facts])
        engine.rule(failed(), [reached(*code.state), *facts, code.term(bad)])
        if str(engine.query(failed)) != "unsat":
            return None
        found = _body(z3, engine.get_answer(), reached, code.state)
    except z3.Z3Exception:
        return None
    e = expression_of(code, found) if found is not None else None
    if e is None:
        return None
    return Proof(0, tuple(dict.fromkeys([*lemmas, *_conjuncts(e)])), found_by="spacer", names=code.names)


def _body(z3: Any, answer: Any, relation: Any, state: Sequence[Any]) -> Any:
    """The definition of the relation in an answer ``forall … : relation(…) = body``, over the state."""
    todo = [answer]
    while todo:
        part = todo.pop()
        if z3.is_and(part):
            todo += part.children()
        elif z3.is_quantifier(part) and z3.is_eq(part.body()):
            head, body = part.body().children()
            if z3.is_app(head) and head.decl() == relation:
                at = {z3.get_var_index(a): c for a, c in zip(head.children(), state, strict=True) if z3.is_var(a)}
                if len(at) == len(state):
                    return z3.substitute_vars(body, *[at[i] for i in range(len(at))])
    return None


def _conjuncts(e: Expr) -> list[Expr]:
    return [part for a in e.args for part in _conjuncts(a)] if e.op == "and" else [e]


def expression_of(code: Transition, term: Any) -> Expr | None:
    """A z3 formula over the state as an expression; None if it has parts that expressions have not."""
    z3 = code.z3
    variables = {c.get_id(): n.var(i, t) for i, (c, t) in enumerate(zip(code.state, code.state_types, strict=True))}
    made: dict[int, Expr] = {}

    def fold(op: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
        def many(first: Expr, *rest: Expr) -> Expr:
            for e in rest:
                first = op(first, e)
            return first

        return many

    kinds: dict[int, Callable[..., Expr]] = {
        z3.Z3_OP_TRUE: lambda: n.const(True),
        z3.Z3_OP_FALSE: lambda: n.const(False),
        z3.Z3_OP_AND: fold(n.and_),
        z3.Z3_OP_OR: fold(n.or_),
        z3.Z3_OP_NOT: n.not_,
        z3.Z3_OP_IMPLIES: lambda a, b: n.or_(n.not_(a), b),
        z3.Z3_OP_ITE: n.ite,
        z3.Z3_OP_EQ: n.eq,
        z3.Z3_OP_LE: n.le,
        z3.Z3_OP_LT: n.lt,
        z3.Z3_OP_GE: lambda a, b: n.le(b, a),
        z3.Z3_OP_GT: lambda a, b: n.lt(b, a),
        z3.Z3_OP_ADD: fold(n.add),
        z3.Z3_OP_SUB: fold(n.sub),
        z3.Z3_OP_MUL: fold(n.mul),
        z3.Z3_OP_UMINUS: lambda a: n.sub(n.const(0), a),
    }

    def number_of(v: Expr) -> Expr:
        """An enum's place as an int: z3 compares places."""
        assert isinstance(v.type, EnumType)
        out = n.const(0)
        for place, member in enumerate(v.type.members):
            out = n.ite(n.eq(v, n.const(member)), n.const(place), out)
        return out

    def one(t: Any) -> Expr | None:
        if z3.is_int_value(t):
            value = t.as_long()
            return n.const(value) if abs(value) < 2**63 else None
        if t.get_id() in variables:
            v = variables[t.get_id()]
            if v.type in (BOOL, INT):
                return v
            return number_of(v) if isinstance(v.type, EnumType) else None  # a str has no place
        args = [made[a.get_id()] for a in t.children()]
        kind = t.decl().kind()
        if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):  # as Python's for a positive divisor only
            if args[1].op != "const" or args[1].value <= 0:
                return None
            return n.binary("mod" if kind == z3.Z3_OP_MOD else "floordiv", *args)
        return kinds[kind](*args) if kind in kinds else None

    todo = [(term, False)]
    while todo:
        t, ready = todo.pop()
        if t.get_id() in made:
            continue
        if not z3.is_app(t):
            return None
        if not ready:
            todo += [(t, True), *((a, False) for a in t.children())]
            continue
        e = one(t)
        if e is None:
            return None
        made[t.get_id()] = e
    return made[term.get_id()]
