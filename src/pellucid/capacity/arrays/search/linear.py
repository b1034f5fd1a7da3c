"""Conjunctions of linear comparisons: whether they can hold, what follows from them, and forgetting a variable.

An atom is ``(op, constant, ((variable, factor), …))`` for "sum + constant op 0" with whole numbers, in one normal form,
so that equal atoms are equal tuples.  Satisfiability is Fourier and Motzkin's elimination after equalities are put in;
it is exact for reals and for the differences that most systems have.  For whole numbers with other factors it may call
something possible that is not: a search then visits more, and never says *safe* for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import Any, Final, TypeAlias

Variable: TypeAlias = tuple[Any, ...]  # a symbol and processes, or "#" and a process
Atom: TypeAlias = tuple[int, int, tuple[tuple[Variable, int], ...]]
Atoms: TypeAlias = frozenset[Atom]
Combination: TypeAlias = tuple[Fraction, Mapping[Variable, Fraction]]

LE: Final = 0
LT: Final = 1
EQ: Final = 2
NE: Final = 3
_MOST = 3000  # inequalities, before elimination gives up and says "possible"


def atom(op: int, constant: Fraction | int, parts: Mapping[Variable, Fraction | int], whole: bool) -> Atom | bool:
    """The normal form of "sum + constant op 0", or its truth; ``whole`` says that all variables are integers.

    >>> atom(LT, -3, {("X",): 2}, True), atom(LE, 4, {}, True)
    ((0, -1, ((('X',), 1),)), False)
    """
    kept = sorted((v, c) for v, c in parts.items() if c)
    if not kept:
        return constant <= 0 if op == LE else constant < 0 if op == LT else constant == 0 if op == EQ else constant != 0
    scale = lcm(Fraction(constant).denominator, *(Fraction(c).denominator for _, c in kept))
    number, factors = int(constant * scale), [(v, int(c * scale)) for v, c in kept]
    common = gcd(*(c for _, c in factors))
    if whole:
        if op in (EQ, NE) and number % common:
            return op == NE
        if op == LT:
            op, number = LE, number + 1
        number = -(-number // common)
    else:
        common = gcd(common, number)
        number //= common
    factors = [(v, c // common) for v, c in factors]
    if op in (EQ, NE) and factors[0][1] < 0:
        number, factors = -number, [(v, -c) for v, c in factors]
    return op, number, tuple(factors)


@lru_cache(maxsize=100_000)
def negations(a: Atom, whole: bool) -> list[Atom]:
    """What holds if an atom does not: one of these."""
    op, number, factors = a
    minus = {v: -c for v, c in factors}
    if op == LE:
        found = [atom(LT, -number, minus, whole)]
    elif op == LT:
        found = [atom(LE, -number, minus, whole)]
    elif op == NE:
        found = [(EQ, number, factors)]
    else:
        found = [atom(LT, number, dict(factors), whole), atom(LT, -number, minus, whole)]
    return [f for f in found if not isinstance(f, bool)]


def substitute(
    a: Atom, known: Mapping[Variable, Combination], whole: Callable[[Iterable[Variable]], bool]
) -> Atom | bool:
    """An atom with combinations put in for some variables."""
    op, number, factors = a
    if not any(v in known for v, _ in factors):
        return a
    total, parts = Fraction(number), dict[Variable, Fraction | int]()
    for v, c in factors:
        if v in known:
            constant, inner = known[v]
            total += c * constant
            for w, d in inner.items():
                parts[w] = parts.get(w, 0) + c * d
        else:
            parts[v] = parts.get(v, 0) + c
    return atom(op, total, parts, whole(parts))


def _combine(
    a: tuple[bool, int, dict[Variable, int]], b: tuple[bool, int, dict[Variable, int]], v: Variable
) -> tuple[bool, int, dict[Variable, int]]:
    """``a`` has a factor above 0 for v and ``b`` one below: both without v."""
    p, q = a[2][v], -b[2][v]
    g = gcd(p, q)
    p, q = p // g, q // g
    parts = {w: q * c for w, c in a[2].items()}
    for w, c in b[2].items():
        parts[w] = parts.get(w, 0) + p * c
    parts = {w: c for w, c in parts.items() if c}
    number = q * a[1] + p * b[1]
    g = gcd(number, *parts.values())
    if g > 1:
        number, parts = number // g, {w: c // g for w, c in parts.items()}
    return a[0] or b[0], number, parts


def _without(
    equal: tuple[int, dict[Variable, int]], other: tuple[int, dict[Variable, int]], v: Variable
) -> tuple[int, dict[Variable, int]]:
    """An equation put into another sum; the factor of that sum stays above 0."""
    p, q = equal[1][v], other[1][v]
    g = gcd(p, q)
    p, q = p // g, q // g
    if p < 0:
        p, q = -p, -q
    parts = {w: p * c for w, c in other[1].items()}
    for w, c in equal[1].items():
        parts[w] = parts.get(w, 0) - q * c
    return p * other[0] - q * equal[0], {w: c for w, c in parts.items() if c}


@lru_cache(maxsize=200_000)
def possible(atoms: Atoms) -> bool:
    """Whether all can hold together.

    >>> x, y = ("X",), ("Y",)
    >>> less, more = atom(LT, 0, {x: 1, y: -1}, False), atom(LE, 0, {y: 1, x: -1}, False)
    >>> possible(frozenset([less])), possible(frozenset([less, more]))
    (True, False)
    """
    if _FALSE in atoms:
        return False
    if len(atoms) < 2:
        return True
    unequal = [a for a in atoms if a[0] == NE]
    rest = atoms.difference(unequal)
    if unequal:
        if not possible(rest):
            return False
        for _, number, factors in unequal:
            sides = ((LT, number, factors), (LT, -number, tuple((v, -c) for v, c in factors)))
            if not any(possible(rest | {side}) for side in sides):
                return False
        return True
    equal = [(n, dict(f)) for op, n, f in rest if op == EQ]
    less = [(op == LT, n, dict(f)) for op, n, f in rest if op != EQ]
    while equal:
        e = equal.pop()
        if not e[1]:
            if e[0]:
                return False
            continue
        v = min(e[1], key=lambda w: abs(e[1][w]))
        equal = [_without(e, o, v) if v in o[1] else o for o in equal]
        less = [(s, *_without(e, (n, p), v)) if v in p else (s, n, p) for s, n, p in less]
    return _feasible(less)


def _feasible(less: list[tuple[bool, int, dict[Variable, int]]]) -> bool:
    while True:
        kept: dict[tuple[tuple[Variable, int], ...], tuple[bool, int, dict[Variable, int]]] = {}
        for s, n, p in less:
            if not p:
                if n > 0 or (s and n == 0):
                    return False
                continue
            key = tuple(sorted(p.items()))
            old = kept.get(key)
            if old is None or (n, s) > (old[1], old[0]):
                kept[key] = (s, n, p)
        less = list(kept.values())
        counts: dict[Variable, list[int]] = {}
        for _, _, p in less:
            for v, c in p.items():
                counts.setdefault(v, [0, 0])[c < 0] += 1
        if not counts or len(less) > _MOST:
            return True
        v = min(counts, key=lambda w: (counts[w][0] * counts[w][1], w))
        up = [a for a in less if a[2].get(v, 0) > 0]
        down = [a for a in less if a[2].get(v, 0) < 0]
        less = [a for a in less if v not in a[2]] + [_combine(a, b, v) for a in up for b in down]


def follows(atoms: Atoms, a: Atom, whole: Callable[[Iterable[Variable]], bool]) -> bool:
    """Whether an atom holds whenever all these do."""
    if a in atoms:
        return True
    known = variables(atoms)
    if any(v not in known for v, _ in a[2]):
        return False  # nothing is said of that variable
    return _follows(atoms, a, whole(v for v, _ in a[2]))


@lru_cache(maxsize=400_000)
def _follows(atoms: Atoms, a: Atom, whole: bool) -> bool:
    return not any(possible(atoms | {n}) for n in negations(a, whole))


@lru_cache(maxsize=100_000)
def reduced(atoms: Atoms) -> Atoms:
    """The same without atoms that follow from the others.

    >>> x = ("X",)
    >>> [a for a in reduced(frozenset([(LE, -3, ((x, 1),)), (LE, -4, ((x, 1),)), (LT, -4, ((x, 1),))]))]
    [(0, -3, ((('X',), 1),))]
    """
    if len(atoms) < 2:
        return atoms
    out = set(atoms)
    for a in sorted(atoms, key=lambda a: (a[0] != NE, a[0] == EQ, len(a[2]), a)):
        rest = frozenset(out - {a})
        known = variables(rest)
        if all(v in known for v, _ in a[2]) and _follows(rest, a, False):
            out.discard(a)
    return frozenset(out)


@lru_cache(maxsize=100_000)
def variables(atoms: Atoms) -> frozenset[Variable]:
    """All variables."""
    return frozenset(v for a in atoms for v, _ in a[2])


def forget(atoms: Atoms, v: Variable, whole: Callable[[Iterable[Variable]], bool]) -> Atoms:
    """What the atoms say of the other variables: for some value of this one they hold.

    >>> x, y, z = ("X",), ("Y",), ("Z",)
    >>> one, two = atom(LE, 0, {x: 1, y: -1}, False), atom(LT, 0, {y: 1, z: -1}, False)
    >>> forget(frozenset([one, two]), y, lambda variables: False) == {atom(LT, 0, {x: 1, z: -1}, False)}
    True
    """
    with_v = [a for a in atoms if any(w == v for w, _ in a[2])]
    if not with_v:
        return atoms
    out = set(atoms.difference(with_v))
    equal = next((a for a in with_v if a[0] == EQ), None)
    if equal is not None:
        e = (equal[1], dict(equal[2]))
        for a in with_v:
            if a is not equal:
                number, parts = _without(e, (a[1], dict(a[2])), v)
                _add(out, atom(a[0], number, parts, whole(parts)))
        return frozenset(out)
    rows = [(a[0] == LT, a[1], dict(a[2])) for a in with_v if a[0] != NE]
    for up in rows:
        if up[2][v] > 0:
            for down in rows:
                if down[2][v] < 0:
                    strict, number, parts = _combine(up, down, v)
                    _add(out, atom(LT if strict else LE, number, parts, whole(parts)))
    return frozenset(out)


_FALSE: Final[Atom] = (LE, 1, ())


def _add(out: set[Atom], a: Atom | bool) -> None:
    if a is False:
        out.add(_FALSE)
    elif a is not True:
        out.add(a)
