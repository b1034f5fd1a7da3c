"""Lemmas: facts about the reachable states that a proof may use, each one found inductive first.

Candidates are guessed, and dropped when a random run or the solver shows a state that breaks them (Houdini):

* bounds: of counters by their size, by constants of the pipeline, by what random runs show; remainders; ``v <= w``;
* linear relations between the ints, for the whole state and for each value of a small counter or flag (*while the
  queue's length is 2, its first item is the window's second*), as the least affine spaces closed under a push;
* the same with products of two ints, for pipelines whose counters are few.

What is left is inductive together.  No proof trusts that: the certificate is checked as a whole.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

from pellucid.check.smt.encode import Encoding, input_leaves
from pellucid.check.system.build import System
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import ends, length, starts
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, fits_int
from pellucid.internal.model.search import Budget
from pellucid.internal.solve.facts import (
    FLOAT_OPERATIONS,
    INFINITE,
    LARGEST,
    NOT_A_NUMBER,
    FloatOperation,
    Hull,
    facts,
    independent,
)
from pellucid.internal.solve.terms import Frames, ask

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


# Candidates for lemmas about events that wait in queues: bounds that hold while there are so many.
#
# A place of a queue in which nothing waits holds a zero that is no event, so a bound of what came in (``part.value
# >= 1000``) is one of the place only while the queue is long enough.

_MOST_NUMBERS = 12


def waiting_candidates(system: System, bad: Expr, states: Sequence[tuple[Any, ...]]) -> list[Expr]:
    """Bounds of the ints that wait, while they do; no sample breaks any.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda a, b: a + b, a=int, b=int)
    >>> s = build_system(p.graph, domain_of(None, "a.value > 4"), 1)
    >>> from pellucid.check.smt.lemmas import sample_states
    >>> found = [e for e in waiting_candidates(s, n.FALSE, sample_states(s)) if ">= 5" in str(e)]
    >>> print(*found)
    v1 <= 0 or v2 >= 5
    """
    found = {
        e.value + d
        for e in walk(bad, system.assume, *system.next)
        if e.op == "const" and e.type == INT and abs(e.value) < 10**9
        for d in (-1, 0, 1)
    }
    if system.domain.values:
        found |= {min(system.domain.values), max(system.domain.values)}
    numbers = sorted(found, key=lambda c: (abs(c), c))[: 3 * _MOST_NUMBERS]
    out: list[Expr] = []
    for at, size, place in _places(system):
        x, nothing = n.var(at, INT), n.le(n.var(size, INT), n.const(place))
        seen = [s[at] for s in states if s[size] > place]
        out += [n.or_(nothing, n.le(n.const(c), x)) for c in numbers if all(c <= v for v in seen)]
        out += [n.or_(nothing, n.le(x, n.const(c))) for c in numbers if all(v <= c for v in seen)]
    return out


def _places(system: System) -> Iterator[tuple[int, int, int]]:
    """The ints that wait: their variable, that of their queue's length, and how many wait before them."""
    lengths = {v.name: i for i, v in enumerate(system.state) if v.role == "length"}
    for i, v in enumerate(system.state):
        if v.role != "item" or v.type != INT:
            continue
        step, _, label = v.name.partition(f":{v.of}.")
        place, _, rest = label.partition(".")  # the leaf, and the mark of a key
        length = lengths.get(f"{step}:{v.of}.length{rest.lstrip('0123456789')}")
        if length is not None and place.isdigit():
            yield i, length, int(place)


# ---------------------------------------------------------------- enums, and strings that are set to constants
# A status is one of its constants; while a flag is down (*nothing was paid yet*) it is not ``"shipped"``, or it is
# still ``"open"``. Random runs drop most of what is guessed here, the solver the rest
# (`pellucid.check.smt.lemmas.surviving`).


_MOST, _FEW = 400, 8


def word_candidates(system: System, bad: Expr, states: Sequence[tuple[Any, ...]]) -> list[Expr]:
    """What single variables are, or are not, always and while another has a certain value; no sample breaks any of it.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x.task(lambda s, v: (("warm" if v > 3 else s), [s]), "cold"), x=int)
    >>> s = build_system(p.graph, domain_of(None))
    >>> from pellucid.check.smt.lemmas import sample_states
    >>> print(*word_candidates(s, n.FALSE, sample_states(s)))
    v1 == 'cold' or v1 == 'warm'
    """
    words = sorted({e.value for e in walk(bad, *system.next) if e.op == "const" and e.type == STR})
    named: list[tuple[int, Expr, list[Any]]] = []
    for i, v in enumerate(system.state):
        values = (
            list(v.type.members)
            if isinstance(v.type, EnumType)
            else list(dict.fromkeys((v.start, *words)))
            if v.type == STR
            else []
        )
        if 1 < len(values) <= _FEW or v.type == STR:
            named.append((i, n.var(i, v.type), values[:_FEW]))
    guards = [(i, n.not_(n.eq(x, n.const(c))), c) for i, x, values in named for c in values]
    guards += [
        (i, e, c)
        for i, v in enumerate(system.state)
        if v.type == BOOL
        for e, c in ((n.var(i, BOOL), False), (n.not_(n.var(i, BOOL)), True))
    ]
    out: list[Expr] = []
    for i, x, values in named:
        if all(s[i] in values for s in states) and x.type == STR:
            one_of = n.any_of(n.eq(x, n.const(c)) for c in values)
            out.append(one_of)
        seen = {s[i] for s in states}
        out += [n.not_(n.eq(x, n.const(c))) for c in values if c not in seen]
        for j, unless, g in guards:
            if j == i:
                continue
            there = {s[i] for s in states if s[j] == g}
            if not there:
                continue
            out += [n.or_(unless, n.not_(n.eq(x, n.const(c)))) for c in values if c not in there and c in seen]
            if len(there) == 1 and x.type == STR and len(seen) > 1:
                out.append(n.or_(unless, n.eq(x, n.const(there.pop()))))
    return [e for e in dict.fromkeys(out) if e.op != "const"][:_MOST]


# Floats as an order: what is exactly true of doubles, told to z3 in linear arithmetic instead of bits.
#
# A double stands for its real number, an infinity for a number beyond them all, NaN for one beyond that. What an
# operation makes is the value of an unknown function, of which only facts are given that hold of IEEE arithmetic
# (`solve.float_facts`). So
#
# * "nothing satisfies it" is a proof, and is mostly found at once, where bits take minutes;
# * a model may be none of doubles: it counts only if the run replays with doubles in Python.
#
# That 0.0 and -0.0 are one number here loses nothing: no operation tells them apart (``1 / -0.0`` raises, as ``1 /
# 0.0`` does).

_INNER = 6  # arguments of inner operations with which a result is compared


class Ordered(Encoding):
    """A system as z3 terms in which floats are numbers with an order.

    ``roots`` are all expressions with floats that will be asked for: what is known of their operations is part of
    ``assume``.
    """

    def __init__(self, system: System, roots: Sequence[Expr]) -> None:
        self.roots = tuple(roots)
        self.operations: dict[int, FloatOperation] = {}
        self._functions: dict[str, Any] = {}
        self._near_constants: dict[int, tuple[float, ...]] = {}
        self._constants = _constants(system, roots)
        super().__init__(system)
        self.terms(self.roots)
        self.facts = facts(self.z3, list(self.operations.values()))
        self.assume = self.z3.And(self.assume, *self.facts)

    def again(self) -> Ordered:
        return Ordered(self.system, self.roots)

    def settled(self, terms: Sequence[Any], pairs: list[tuple[Any, Any]]) -> list[Any]:
        """Each operation has the value that it has in Python."""
        z3, pairs = self.z3, list(pairs)
        for o in self.operations.values():  # inner ones come first
            values = [z3.simplify(z3.substitute(a, *pairs)) for a in o.args]
            if not all(map(z3.is_rational_value, values)):
                return []
            whole = o.whole or o.op == "float_of_int"
            given = tuple(v.numerator_as_long() if whole else self.python(FLOAT, v) for v in values)
            pairs.append((o.made, self.value(FLOAT, FloatOperation.compute(o.op, given))))
        return super().settled(terms, pairs)

    # ------------------------------------------------------------ values and variables

    def constant(self, name: str, t: Type) -> Any:
        return self.z3.Real(name) if t == FLOAT else super().constant(name, t)

    def value(self, t: Type, v: Any) -> Any:
        if t != FLOAT:
            return super().value(t, v)
        if math.isnan(v) or math.isinf(v):
            return self.z3.RealVal(NOT_A_NUMBER if math.isnan(v) else INFINITE if v > 0 else -INFINITE)
        exact = Fraction(v)
        return self.z3.Q(exact.numerator, exact.denominator)

    def python(self, t: Type, v: Any) -> Any:
        if t != FLOAT:
            return super().python(t, v)
        exact = Fraction(v.numerator_as_long(), v.denominator_as_long())
        if exact > INFINITE:
            return math.nan
        if abs(exact) > LARGEST:
            return math.inf if exact > 0 else -math.inf
        return float(exact)

    def bounds(self, t: Type, v: Any) -> list[Any]:
        if t != FLOAT:
            return super().bounds(t, v)
        return [self.z3.Or(self.finite(v), v == INFINITE, v == -INFINITE, v == NOT_A_NUMBER)]

    def not_nan(self, v: Any) -> Any:
        return v != NOT_A_NUMBER

    def finite(self, v: Any) -> Any:
        """A double that is neither infinite nor NaN."""
        return self.z3.And(v >= -LARGEST, v <= LARGEST)

    # ------------------------------------------------------------ expressions

    def terms(self, roots: Sequence[Expr]) -> list[Any]:
        for e in walk(*roots):
            if id(e) not in self._near_constants:
                self._near_constants[id(e)] = self._near_of(e)
        return super().terms(roots)

    def _compare(self, op: str, args: list[Any], kinds: list[Type]) -> Any:
        z3, (a, b) = self.z3, args
        if FLOAT not in kinds:
            return super()._compare(op, args, kinds)
        numbers = [self.not_nan(v) for v, t in zip(args, kinds, strict=True) if t == FLOAT]
        if kinds[0] == kinds[1]:
            return z3.And(*numbers, {"eq": a == b, "lt": a < b, "le": a <= b}[op])
        # An int may be larger than any double, but not than infinity.
        double, left = (a, True) if kinds[0] == FLOAT else (b, False)
        x, y = (a, z3.ToReal(b)) if left else (z3.ToReal(a), b)
        exact = {"eq": x == y, "lt": x < y, "le": x <= y}[op]
        above = z3.BoolVal(False) if op == "eq" else (double < 0) == z3.BoolVal(left)
        return z3.And(*numbers, z3.If(self.finite(double), exact, above))

    def _to_constant(self, e: Expr, args: list[Any], kinds: list[Type]) -> Any:
        return None

    def _one(self, e: Expr, args: list[Any]) -> Any:
        if e.type == FLOAT and e.op in FLOAT_OPERATIONS:
            return self._operation(e, args)
        if e.op in ("trunc", "floor", "ceil", "nearest"):
            (a,), z3 = args, self.z3
            down, up = z3.ToInt(a), -z3.ToInt(-a)
            twice = 2 * a - 2 * z3.ToReal(down)  # where it stands between the two
            near = z3.If(z3.Or(twice < 1, z3.And(twice == 1, down % 2 == 0)), down, up)
            whole = {"floor": down, "ceil": up, "trunc": z3.If(a >= 0, down, up), "nearest": near}[e.op]
            return z3.If(self.finite(a), whole, z3.IntVal(0))
        return super()._one(e, args)

    def _operation(self, e: Expr, args: list[Any]) -> Any:
        z3, op, a = self.z3, e.op, args[0]
        near = [self._near_constants[id(x)] for x in e.args]
        if op in ("neg", "abs"):
            return self._minus(a) if op == "neg" else z3.If(a < 0, -a, a)
        args = [z3.ToReal(x) if t.type == INT else x for x, t in zip(args, e.args, strict=True)]
        if op == "sub":  # a - b is a + -b, of infinities and NaN as well
            op, args, near = "add", [args[0], self._minus(args[1])], [near[0], tuple(-c for c in near[1])]
        if op in ("add", "mul") and args[1].get_id() < args[0].get_id():
            args, near = args[::-1], near[::-1]  # they commute: so a + b and b + a are one term
        whole = all(x.type == INT for x in e.args)
        name = f"{op} of ints" if whole and op == "truediv" else op
        if name not in self._functions:
            self._functions[name] = z3.Function(name, *[z3.RealSort()] * (len(args) + 1))
        made = self._functions[name](*args)
        inside = [self.operations[x.get_id()] for x in args if x.get_id() in self.operations]
        inner = {
            d.get_id(): d
            for o in inside
            if not o.whole and o.op != "float_of_int"
            for d in (*o.args, *o.inner)
            if not z3.is_rational_value(d)
        }
        self.operations[made.get_id()] = FloatOperation(
            op, tuple(args), made, tuple(near), whole, tuple(inner.values())[:_INNER]
        )
        return made

    def _minus(self, a: Any) -> Any:
        return self.z3.If(self.not_nan(a), -a, a)

    def _near_of(self, e: Expr) -> tuple[float, ...]:
        """Doubles near which an expression may lie: where the operations on it are looked at one by one."""
        if e.type == INT:
            return tuple(
                sorted(
                    {float(c) for c in self._constants if c == int(c) and abs(c) <= 2**53}
                    | ({float(e.value)} if e.op == "const" and abs(e.value) <= 2**53 else set())
                )
            )[:8]
        if e.type != FLOAT:
            return ()
        if e.op in ("const", "raise"):
            return (e.value,) if e.op == "const" and math.isfinite(e.value) else ()
        if e.op == "var":
            return self._constants
        parts = [self._near_constants[id(a)] for a in e.args if a.type in (INT, FLOAT)]
        if e.op in ("ite", "after"):
            found = {c for part in parts for c in part}
        elif e.op not in FLOAT_OPERATIONS:  # an answer of a function, or an operation that is refused by name
            return ()
        elif len(parts) == 2:
            found = {FloatOperation.compute(e.op, (a, b)) for a in parts[0] for b in parts[1]}
        else:
            found = {FloatOperation.compute(e.op, (a,)) for a in parts[0]} if parts else set()
        kept = sorted((c for c in found if math.isfinite(c)), key=lambda c: (abs(c), c))
        few = {*kept[:4], *(kept and (min(kept), max(kept), kept[-1])), 0.0}
        return tuple(sorted(few))


def _constants(system: System, roots: Sequence[Expr]) -> tuple[float, ...]:
    """The constants of a system that matter to floats, the smallest first; with zero, and what floats start with."""
    found = {float(v.start) for v in system.state if v.type == FLOAT}
    for e in walk(*system.next, *roots, system.assume):
        if e.op in ("eq", "lt", "le") and FLOAT in (a.type for a in e.args):
            found |= {float(a.value) for a in e.args if a.op == "const" and abs(a.value) <= 2**53}
    few = sorted((c for c in found if math.isfinite(c)), key=lambda c: (abs(c), c))
    return tuple(sorted({0.0, *few[:7], *few[-1:]}))
