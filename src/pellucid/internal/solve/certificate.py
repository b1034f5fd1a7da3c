"""Proofs: k-induction with lemmas, and the small checker that every proof has to pass.

A proof says: (1) the **lemma**, a fact about states, holds at the start and after every push from a state in which it
holds; (2) nothing bad happens in the first k pushes; (3) after k good pushes in a row, all from states in which
the lemma holds, nothing bad happens in the next one.  With k = 0 the lemma alone excludes what is bad: an inductive
invariant.  With ``simple`` the states in (3) are distinct, which is enough: a shortest bad run repeats no state.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, show
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType
from pellucid.internal.model.search import Budget, now, patiently
from pellucid.internal.solve.terms import Frames, Transition, ask

# A second solver: the obligations of a proof, put to cvc5 where it is installed.


@dataclass(frozen=True)
class Opinion:
    """What another solver says of a proof: ``"confirms"``, ``"contradicts"``, ``"did not decide"`` or ``"was not
    asked"``; and where or why."""

    word: str
    why: str = ""


@cache
def has_cvc5() -> bool:
    """Whether the second solver is installed."""
    return importlib.util.find_spec("cvc5") is not None


def ask_cvc5(text: str, seconds: float) -> bool | None:
    """Whether an SMT-LIB text can be satisfied; None if the time ran out or cvc5 cannot read it.

    >>> ask_cvc5("(set-logic ALL)(declare-const x Int)(assert (< x x))(check-sat)", 1.0) if has_cvc5() else False
    False
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(max(1, int(seconds * 1000))))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    answers = []
    try:
        while not (command := parser.nextCommand()).isNull():
            answers.append(str(command.invoke(solver, parser.getSymbolManager())).strip())
    except RuntimeError:  # it has no way to say this
        return None
    return {"sat": True, "unsat": False}.get(answers[-1] if answers else "")


def opinion_on(owed: Iterable[tuple[str, str]], seconds: float, confirmed: str = "") -> Opinion:
    """Whether cvc5 finds all of these impossible: names of obligations, and their texts."""
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    end = now() + seconds
    for name, text in owed:
        answer = patiently(end - now(), partial(ask_cvc5, text))
        if answer is None:
            return Opinion("did not decide", f"in {seconds:.1f} s")
        if answer:
            return Opinion("contradicts", name)
    return Opinion("confirms", confirmed)


@dataclass(frozen=True)
class Proof:
    """A certificate that something bad never happens, for ``check_certificate``.

    ``kind`` is ``"invariant"`` (the lemma alone is enough) or ``"k-induction"``; ``lemmas`` are expressions over the
    state variables, True where there are none.
    """

    k: int
    lemmas: tuple[Expr, ...] = ()
    simple: bool = False
    found_by: str = "induction"
    names: tuple[str, ...] = ()
    checked: str = ""  # what it has passed, in words
    notes: tuple[str, ...] = ()  # what a verdict should say of it

    @property
    def kind(self) -> str:
        """How it proves."""
        return "k-induction" if self.k else "invariant"

    @property
    def lemma(self) -> Expr:
        """All lemmas as one expression."""
        out = n.const(True)
        for e in self.lemmas:
            out = n.and_(out, e)
        return out

    @property
    def certificate(self) -> tuple[str, int | str]:
        """``("k-induction", k)`` or ``("invariant", text)``."""
        return (self.kind, self.k) if self.k else (self.kind, str(self))

    def __str__(self) -> str:
        facts = " and ".join(f"({show(e, self.names or None)})" for e in self.lemmas) or "no lemma"
        return f"{self.k}-induction with {facts}" if self.k else facts


def check_certificate(
    code: Transition, bad: Expr, proof: Proof, timeout: float | None = 60.0, *, texts: list[str] | None = None
) -> bool:
    """Whether a proof proves that ``bad`` never holds, decided from scratch by a fresh solver.

    Also False where the solver does not know.  ``code`` is a transition system that was made for this; ``texts`` gets
    what z3 was asked.

    >>> from pellucid.internal.expr.types import INT
    >>> counter, count = Transition([("count", INT, 0)], []), n.var(0, INT)
    >>> counter.define([n.add(count, n.const(1))])
    >>> bad = n.lt(count, n.const(0))
    >>> check_certificate(counter, bad, Proof(0, (n.le(n.const(0), count),)))
    True
    >>> check_certificate(counter, bad, Proof(0, (n.le(n.const(1), count),)))  # not so at the start
    False
    """
    clock = Budget(timeout)
    z3, (lemma, wrong) = code.z3, code.terms([proof.lemma, bad])
    if any(e.op == "var" and e.value >= len(code.state) for e in n.walk(proof.lemma)) or proof.k < 0:
        return False  # a lemma is about states

    def never(start: bool, pushes: int, what: Any) -> bool:
        """In no run of so many pushes (plus one) does ``what(frames)`` hold."""
        solver = z3.Solver()
        frames = Frames(code, solver, start=start)
        for _ in range(pushes):
            frames.extend()
        solver.add(*what(frames))
        if texts is not None:
            texts.append(solver.to_smt2())
        return ask(solver, clock) is False

    def step(frames: Frames) -> list[Any]:
        out = [frames.at(t, [lemma])[0] for t in range(proof.k + 1)]
        out += [z3.Not(frames.at(t, [wrong])[0]) for t in range(proof.k)]
        out += [frames.distinct(t) for t in range(1, proof.k + 1)] if proof.simple else []
        return [*out, *frames.at(proof.k, [wrong])]

    return (
        never(True, 0, lambda f: [z3.Not(f.at(0, [lemma])[0])])
        and never(False, 1, lambda f: [f.at(0, [lemma])[0], z3.Not(f.at(1, [lemma])[0])])
        and all(never(True, t, lambda f, t=t: f.at(t, [wrong])) for t in range(proof.k))
        and never(False, proof.k, step)
    )


class Induction:
    """The step of k-induction, for k = 0, 1, 2, …; the base case is left to the bounded search."""

    def __init__(self, code: Transition, bad: Expr, lemmas: Sequence[Expr], clock: Budget) -> None:
        self.code, self.bad, self.clock = code, bad, clock
        self.lemmas = list(lemmas)
        z3 = code.z3
        self.term = code.term(bad)
        self.solver = z3.Solver()
        self.switches = [z3.Bool(f"lemma{j}") for j in range(len(self.lemmas))]
        self.frames = Frames(code, self.solver, start=False)
        self.k, self.stuck = 0, False
        self.simple = all(
            size is not None or t == BOOL or isinstance(t, EnumType)
            for size, t in zip(code.sizes, code.state_types, strict=True)
        )
        self._assume(0)

    def _assume(self, t: int) -> None:
        terms = self.frames.at(t, self.code.terms(self.lemmas))
        self.solver.add(*[self.code.z3.Implies(s, e) for s, e in zip(self.switches, terms, strict=True)])

    def deeper(self, limit: float | None = None) -> Proof | None:
        """Try this k; then go on to the next."""
        (bad,) = self.frames.at(self.k, [self.term])
        answer = ask(self.solver, self.clock, *self.switches, bad, limit=limit)
        if answer is False:
            core = {c.get_id() for c in self.solver.unsat_core()}  # by id: text would spell out all that is asked
            used = [e for s, e in zip(self.switches, self.lemmas, strict=True) if s.get_id() in core]
            return Proof(self.k, tuple(used), self.simple and self.k > 0, "induction", self.code.names)
        if answer is None:
            self.stuck = True
            return None
        self.solver.add(self.code.z3.Not(bad))
        self.frames.extend()
        self.k += 1
        self._assume(self.k)
        if self.simple:
            self.solver.add(self.frames.distinct(self.k))
        return None


def shrink(code: Transition, bad: Expr, proof: Proof, clock: Budget) -> Proof:
    """The proof with fewer lemmas: those that are used, those that these need to be inductive, and of them only what
    cannot be spared."""
    z3, solver, lemmas = code.z3, code.z3.Solver(), proof.lemmas
    safety = Induction(code, bad, lemmas, clock)
    used = safety.deeper(limit=2.0)
    while used is None and safety.k <= proof.k and not safety.stuck:
        used = safety.deeper(limit=2.0)
    if used is None or used.k != proof.k:
        return proof
    frames = Frames(code, solver, start=False)
    frames.extend()
    switches = [z3.Bool(f"lemma{j}") for j in range(len(lemmas))]
    before, after = frames.at(0, code.terms(lemmas)), frames.at(1, code.terms(lemmas))
    solver.add(*[z3.Implies(s, e) for s, e in zip(switches, before, strict=True)])
    needed = [lemmas.index(e) for e in used.lemmas]
    for j in needed:  # grows while it is iterated over
        if ask(solver, clock, *switches, z3.Not(after[j]), limit=2.0) is not False:
            return proof
        core = {c.get_id() for c in solver.unsat_core()}
        needed += [i for i, s in enumerate(switches) if s.get_id() in core and i not in needed]
    kept = tuple(lemmas[j] for j in sorted(needed))
    brief = Budget(1.0)
    for e in sorted(kept, key=lambda e: -sum(1 for _ in n.walk(e))):
        if brief.over or clock.over:
            break
        fewer = replace(proof, lemmas=tuple(o for o in kept if o is not e))
        if check_certificate(code.again(), bad, fewer, 0.2):
            kept = fewer.lemmas
    return replace(proof, lemmas=kept)


# Property-directed reachability, by z3's Spacer.
#
# Spacer has been seen to answer "proved" wrongly, so its word counts for nothing: the invariant that it returns is
# translated back into an expression, and `check_certificate` judges it like any other.


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
    """A z3 formula over the state as an expression; None if it has parts for which there are no expressions."""
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
        """An enum member's position as an int: z3 compares positions."""
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
        if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):  # like Python's only for a positive divisor
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
