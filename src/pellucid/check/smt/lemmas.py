"""Lemmas: facts about the reachable states that a proof may use, each one found inductive first.

Candidates are guessed, and dropped when a random run or the solver shows a state that breaks them (Houdini):

* bounds: of counters by their size, by constants of the pipeline, by what random runs show; remainders; ``v <= w``;
* linear relations between the ints, for the whole state and for each value of a small counter or flag (*while the
  queue's length is 2, its first item is the window's second*), as the least affine spaces closed under a push;
* the same with products of two ints, for pipelines whose counters are few.

What is left is inductive together.  No proof trusts that: the certificate is checked as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any

from pellucid.check.smt.encode import Encoding, input_leaves
from pellucid.check.system.build import System
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.text import ends, length, starts
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, fits_int
from pellucid.internal.model.budget import Budget
from pellucid.internal.solve.affine import Hull, independent
from pellucid.internal.solve.session import ask
from pellucid.internal.solve.transition import Frames

State = tuple[Any, ...]
_MOST_CANDIDATES, _MOST_CONTEXTS, _FEW_INTS = 1500, 40, 5


def sample_states(
    system: System, exprs: Sequence[Expr] = (), *, runs: int = 24, length: int = 12, clock: Budget | None = None
) -> list[State]:
    """States of random runs, the start first; always the same ones for the same system."""
    rng = random.Random(0)
    words = sorted({e.value for e in walk(*system.next, *exprs) if e.op == "const" and e.type == STR} | {"", "other 1"})
    values = system.domain.values

    def leaf(t: Type) -> Any:
        if t == INT and values is not None:
            return rng.choice((*(system.domain.span or ()), rng.choice(values), rng.choice(values)))
        if t == INT:
            return rng.choice((rng.randint(-3, 4), rng.randint(-20, 20), rng.randint(-3, 4)))
        if t == BOOL or isinstance(t, EnumType):
            return rng.choice(t.members if isinstance(t, EnumType) else [False, True])
        return rng.choice(words) if t == STR else rng.choice((0.0, 1.0, -2.5, 100.0, 0.1))

    start = tuple(v.start for v in system.state)
    seen: dict[State, None] = {start: None}
    for _ in range(runs):
        state, often = start, rng.choice((0.5, 0.9, 1.0))
        for _ in range(length):
            if clock is not None and clock.over:
                break
            push = {
                name: t.event([leaf(kind) for _, kind in t.leaves()])
                for name, t in system.sources
                if rng.random() < often
            }
            leaves, memo = [*state, *input_leaves(system, push)], dict[int, Any]()
            try:
                if not evaluate(system.assume, leaves, memo):
                    continue
                state = tuple(evaluate(e, leaves, memo) for e in system.next)
            except (ArithmeticError, ValueError, UserRaise):
                break
            seen[state] = None
    return list(seen)


def bound_candidates(system: System, bad: Expr, states: Sequence[State]) -> list[Expr]:
    """Bounds and remainders of single variables that no sample breaks."""
    found = {e.value for e in walk(bad, *system.next) if e.op == "const" and e.type == INT and abs(e.value) < 10**6}
    numbers = sorted(found, key=lambda c: (abs(c), c))[:12]
    if system.domain.values:
        numbers += system.domain.span or ()
    given = {float(e.value) for e in walk(bad, *system.next) if e.op == "const" and e.type in (INT, FLOAT)}
    reals = sorted({0.0} | given, key=lambda c: (abs(c), c))[:12]
    divisors = sorted({2, 3} | {c for c in found if 2 <= c <= 16})[:8]
    out: list[Expr] = []
    for i, v in enumerate(system.state):
        x, seen = n.var(i, v.type), [s[i] for s in states]
        constant = all(s == v.start for s in seen)
        if constant and v.type != FLOAT:
            out.append(n.eq(x, n.const(v.start)))
        if v.type == FLOAT:
            out += _float_bounds(x, v.start, seen, reals)
        if v.type == STR and system.texts and not constant:
            out += _about_text(x, v.start, seen, bad)
        if v.type != INT:
            continue
        if v.size is not None:
            out += [n.le(n.const(0), x), n.le(x, n.const(v.size - 1))]
        low, high = min(seen), max(seen)
        out += [n.le(n.const(c), x) for c in dict.fromkeys([0, v.start, low, *numbers]) if c <= low]
        out += [n.le(x, n.const(c)) for c in dict.fromkeys([0, v.start, high, *numbers]) if c >= high]
        for m in divisors if not constant else ():
            if all(s % m == v.start % m for s in seen):
                out.append(n.eq(n.binary("mod", x, n.const(m)), n.const(v.start % m)))
    return [e for e in dict.fromkeys(out) if e.op != "const"]


def _about_text(x: Expr, start: str, seen: Sequence[str], bad: Expr) -> list[Expr]:
    """How a string that grows begins and ends, how long it is at least and at most; what it never is."""
    sizes = sorted(
        {len(start), min(map(len, seen)), max(map(len, seen))}
        | {e.value for e in walk(bad) if e.op == "const" and e.type == INT and e.value < 1000}
    )
    out = [n.le(n.const(c), length(x)) for c in sizes] + [n.le(length(x), n.const(c)) for c in sizes]
    out += [starts(x, n.const(start)), ends(x, n.const(start))] if start else []
    out += [n.not_(n.eq(x, e)) for e in walk(bad) if e.op == "const" and e.type == STR]
    at = int(x.value)
    return [e for e in out if e.op != "const" and all(evaluate(e, [s] * (at + 1)) for s in seen)]


def _float_bounds(x: Expr, start: float, seen: Sequence[float], numbers: Sequence[float]) -> list[Expr]:
    """Bounds of a float, each of which also says that it is not NaN; and that alone."""
    bounds = dict.fromkeys([start, *numbers])
    out = [n.le(n.const(c), x) for c in bounds if all(c <= s for s in seen)]
    out += [n.le(x, n.const(c)) for c in bounds if all(s <= c for s in seen)]
    return [*out, n.eq(x, x)] if all(s == s for s in seen) else out


def pair_candidates(system: System, states: Sequence[State], *, floats: bool = False) -> list[Expr]:
    """Facts about two variables that no sample breaks and that are neither bounds nor linear relations; ``floats``:
    also of those."""
    out: list[Expr] = []
    moving = [
        i for i, v in enumerate(system.state) if any(s[i] != v.start for s in states) and (floats or v.type != FLOAT)
    ]
    for i, j in combinations(moving, 2):
        t = system.state[i].type
        if t != system.state[j].type:
            continue
        x, y = n.var(i, t), n.var(j, t)
        if t == FLOAT:
            out += [n.eq(x, y), n.le(x, y), n.le(y, x)]
        elif t == INT:
            equal = all(s[i] == s[j] for s in states)
            out += [] if equal else [n.le(x, y), n.le(y, x)]
        else:
            out.append(n.eq(x, y))
        if t == BOOL:
            out += [n.or_(x, y), n.not_(n.and_(x, y)), n.or_(n.not_(x), y), n.or_(x, n.not_(y))]
    return [e for e in out[:_MOST_CANDIDATES] if all(evaluate(e, s) for s in states)]


class _Step:
    """One push from any state of which some facts are known."""

    def __init__(self, code: Encoding, known: Sequence[Expr], clock: Budget) -> None:
        self.code, self.clock = code, clock
        self.solver = code.z3.Solver()
        self.frames = Frames(code, self.solver, start=False)
        self.frames.extend()
        for t in (0, 1):
            self.solver.add(*self.frames.at(t, code.terms(known)))

    def broken(self, lemmas: Sequence[Expr], wanted: Sequence[Expr], limit: float) -> Any:
        """A model in which the lemmas hold before the push and a wanted one not after it; False: none; None:
        unknown."""
        terms = self.code.terms([*lemmas, *wanted])
        self.solver.push()
        self.solver.add(*self.frames.at(0, terms[: len(lemmas)]))
        self.solver.add(self.code.z3.Not(self.code.z3.And(self.frames.at(1, terms[len(lemmas) :]))))
        answer = ask(self.solver, self.clock, limit=limit)
        model = self.solver.model() if answer else answer
        self.solver.pop()
        return model


def surviving(code: Encoding, candidates: Sequence[Expr], known: Sequence[Expr], clock: Budget) -> list[Expr]:
    """The largest part of the candidates that is inductive, given what is known (Houdini)."""
    step, kept = _Step(code, known, clock), list(candidates)
    while kept:
        if clock.over:
            return []
        model = step.broken(kept, kept, 2.0)
        if model is False:
            return kept
        if model is None:  # too hard together: drop what is hard alone
            easy = [e for e in kept if not clock.over and step.broken(kept, [e], 0.3) is False]
            if len(easy) == len(kept):
                return kept
            kept = easy
            continue
        after = step.frames.at(1, code.terms(kept))
        holds = [code.z3.is_true(model.eval(t, model_completion=True)) for t in after]
        kept = [e for e, h in zip(kept, holds, strict=True) if h]
        if all(holds):  # the model is partial: cannot happen with completion, and must not loop
            return []
    return []


class _Relations:
    """The affine hull of the samples in each context: everywhere, while a small variable has a value, or while an int
    is even or odd (``(variable, value, modulus)``; the modulus 0 stands for equality)."""

    def __init__(self, system: System, states: Sequence[State], products: bool) -> None:
        ints = [i for i, v in enumerate(system.state) if v.type == INT and v.role != "stopped"]
        self.system = system
        self.columns: list[tuple[int, ...]] = [(i,) for i in ints]
        if products:
            self.columns += combinations_with_replacement(_free(system, states), 2)
        self.hulls: dict[tuple[int, Any, int] | None, Hull] = {None: Hull(len(self.columns))}
        for i, v in enumerate(system.state):
            counter = v.size is not None and v.size <= 9 and v.role in ("count", "length")
            few = counter or v.type == BOOL or isinstance(v.type, EnumType)
            for value in dict.fromkeys(s[i] for s in states) if few and v.role != "stopped" else ():
                if len(self.hulls) <= _MOST_CONTEXTS:
                    self.hulls[i, value, 0] = Hull(len(self.columns))
            if products and v.type == INT and v.size is None:
                for value in (0, 1):
                    self.hulls[i, value, 2] = Hull(len(self.columns))
        for state in states:
            self.join(state)

    def join(self, state: State) -> bool:
        """Let the relations hold of this state, too; whether any had to go."""
        point = []
        for column in self.columns:
            product = 1
            for i in column:
                product *= state[i]
            point.append(product)
        grew = False
        for context, hull in self.hulls.items():
            if context is None or _holds(context, state):
                grew = hull.join(point) or grew
        return grew

    def lemmas(self) -> list[Expr]:
        everywhere = self.hulls[None].relations()
        out = [self._lemma(row) for row in everywhere]
        for context, hull in self.hulls.items():
            if context is None or not hull:
                continue
            i, value, modulus = context
            v: Expr = n.var(i, self.system.state[i].type)
            v = n.binary("mod", v, n.const(modulus)) if modulus else v
            fixed = []
            if (i,) in self.columns and not modulus:
                row = [0] * (len(self.columns) + 1)
                row[0], row[1 + self.columns.index((i,))] = -value, 1
                fixed = [row]
            other = n.not_(n.eq(v, n.const(value)))
            for row in independent([*everywhere, *fixed], hull.relations()):
                lemma = self._lemma(row)
                out.append(n.or_(other, lemma) if lemma is not None else None)
        return [e for e in out if e is not None and e.op != "const"]

    def _lemma(self, row: list[int]) -> Expr | None:
        """The relation as an equation without minus signs; None if its numbers are too large to be meant."""
        if any(abs(c) > 2**31 for c in row):
            return None
        sides: dict[bool, Expr] = {True: n.const(0), False: n.const(0)}
        for c, column in zip(row[1:], self.columns, strict=True):
            if c:
                part = n.const(abs(c))
                for i in column:
                    part = n.mul(part, n.var(i, INT))
                sides[c > 0] = n.add(sides[c > 0], part)
        if row[0]:
            sides[row[0] > 0] = n.add(sides[row[0] > 0], n.const(abs(row[0])))
        return n.eq(sides[True], sides[False])


def _holds(context: tuple[int, Any, int], state: State) -> bool:
    i, value, modulus = context
    return bool((state[i] % modulus if modulus else state[i]) == value)


def _free(system: System, states: Sequence[State]) -> list[int]:
    """Unbounded ints between which the samples show no linear relation; none if they are too many for products."""
    out: list[int] = []
    for i, v in enumerate(system.state):
        if v.type == INT and v.size is None:
            hull = Hull(len(out) + 1)
            for s in states:
                hull.join([s[j] for j in (*out, i)])
            out += [] if hull.relations() else [i]
    return out if len(out) <= _FEW_INTS else []


def linear_lemmas(
    code: Encoding, states: Sequence[State], known: Sequence[Expr], clock: Budget, *, products: bool = False
) -> list[Expr]:
    """Relations between the ints that are inductive, given what is known: samples first, then the solver's states."""
    system = code.system
    relations = _Relations(system, [s for s in states if all(fits_int(v) for v in s if isinstance(v, int))], products)
    if not relations.columns or (products and all(len(c) == 1 for c in relations.columns)):
        return []
    step = _Step(code, known, clock)
    while not clock.over:
        lemmas = relations.lemmas()
        if not lemmas:
            return []
        model = step.broken(lemmas, lemmas, 3.0)
        if model is False:
            return lemmas
        if model is None:
            return surviving(code, lemmas, known, clock)
        after = [model.eval(c, model_completion=True) for c in step.frames.states[1]]
        state = tuple(code.python(v.type, c) for v, c in zip(system.state, after, strict=True))
        if not relations.join(state):  # broken by a relation that was left out: no way on
            return surviving(code, lemmas, known, clock)
    return []
