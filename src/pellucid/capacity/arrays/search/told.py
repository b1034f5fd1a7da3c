"""Cubes as formulas of the language: what a certificate is made of."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from pellucid.capacity.arrays.language.system import (
    And,
    Cell,
    Compare,
    Formula,
    If,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Process,
    States,
    Sum,
    System,
    Term,
    Truth,
    Value,
)  # fmt: skip
from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.cubes import Cube
from pellucid.capacity.arrays.search.linear import Atom, Variable


def _name(p: int, rigid: int) -> str:
    return f"#{p}" if p <= rigid else f"x{p - rigid}"


def states_of(compiled: Compiled, cube: Cube) -> States:
    """A cube as states of distinct processes ``x1``, ``x2``, ….

    >>> from pellucid.capacity.arrays import read_text
    >>> from pellucid.capacity.arrays.language.printing import formula_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition go (x) { X[x] := True }")
    >>> compiled = Compiled(s)
    >>> (cube,) = compiled.states(s.unsafe[0])
    >>> formula_text(states_of(compiled, cube).formula)
    'X[x1] = True && X[x2] = True'
    """
    layout, rigid, parts = compiled.layout, compiled.layout.rigid, list[Formula]()

    def cell(place: Any) -> Cell:
        return Cell(place[0], tuple(_name(p, rigid) for p in place[1:]))

    for f, excluded in sorted(layout.touched(cube.bits)):
        if f.of_process:
            named = range(1, cube.width + 1)
            if excluded & 1:  # one of those that are not excluded
                parts.append(
                    _or([Compare("=", cell(f.place), Process(_name(p, rigid))) for p in named if not excluded >> p & 1])
                )
            else:
                parts += [Compare("<>", cell(f.place), Process(_name(p, rigid))) for p in named if excluded >> p & 1]
            continue
        left = [v for i, v in enumerate(layout.values[f.place[0]]) if not excluded >> i & 1]
        parts.append(_or([Compare("=", cell(f.place), Value(v)) for v in left]))
    parts += [_atom(compiled.system, a, rigid) for a in sorted(cube.atoms)]
    names = [_name(p, rigid) for p in range(rigid + 1, cube.width + 1)]
    parts += [Compare("<>", Process(n), Process(_name(p, rigid))) for n in names for p in range(1, rigid + 1)]
    return States(tuple(names), And(tuple(parts)) if len(parts) != 1 else parts[0])


def _or(parts: list[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else Or(tuple(parts)) if parts else Truth(False)


def _atom(system: System, a: Atom, rigid: int) -> Formula:
    op, number, factors = a

    def side(chosen: list[tuple[Variable, int]], constant: int) -> Term:
        real = any(v[0] != "#" and system.type_of(v[0]) == "real" for v, _ in factors)
        if not chosen:
            return Number(Fraction(constant), real)
        if len(chosen) == 1 and chosen[0][1] == 1 and not constant:
            v = chosen[0][0]
            if v[0] == "#":
                return Process(_name(v[1], rigid))
            return Cell(v[0], tuple(_name(p, rigid) for p in v[1:]))
        cells = tuple((Fraction(c), Cell(v[0], tuple(_name(p, rigid) for p in v[1:]))) for v, c in chosen)
        return Sum(cells, Fraction(constant))

    left = [(v, c) for v, c in factors if c > 0]
    right = [(v, -c) for v, c in factors if c < 0]
    # processes only stand alone: their order is strict, and "+ 1 <= 0" is "<"
    if number == 1 and op == 0 and any(v[0] == "#" for v, _ in factors):
        return Compare("<", side(left, 0), side(right, 0))
    name: Any = ("<=", "<", "=", "<>")[op]
    return Compare(name, side(left, max(number, 0)), side(right, max(-number, 0)))


def impossible(compiled: Compiled) -> list[States]:
    """Values that a symbol never has, and what never changes: the search takes that for granted, a proof says it."""
    out, system = [], compiled.system
    for name, (dimensions, of) in system.symbols.items():
        values, kept = system.values(of), compiled.layout.values[name]
        gone = [v for v in values if v not in kept]
        if not gone:
            continue
        # one name for each index, and the diagonal of a matrix for itself
        shapes: list[tuple[str, ...]] = [tuple(f"x{i + 1}" for i in range(dimensions))] + (
            [("x1", "x1")] if dimensions == 2 else []
        )
        for shape in shapes:
            formula = _or([Compare("=", Cell(name, shape), Value(v)) for v in gone])
            out.append(States(tuple(dict.fromkeys(shape)), formula))
    for part in compiled.lasting if compiled.relied else ():
        names = system.init.names
        for who in product(range(len(names)), repeat=len(names)):  # two names may be one process
            if list(who) == [who.index(i) for i in who]:
                as_named = {n: f"x{i + 1}" for n, i in zip(names, who, strict=True)}
                kept = tuple(dict.fromkeys(as_named.values()))
                out.append(States(kept, Not(renamed(part, as_named))))
    return out


def renamed(formula: Formula, names: Mapping[str, str]) -> Formula:
    """A formula without quantifiers, about other processes."""

    def term(t: Term) -> Term:
        match t:
            case Process(name):
                return Process(names.get(name, name))
            case Cell(name, indices):
                return Cell(name, tuple(names.get(i, i) for i in indices))
            case Sum(parts, constant):
                return Sum(
                    tuple((f, Cell(c.name, tuple(names.get(i, i) for i in c.indices))) for f, c in parts), constant
                )
            case _:
                return t

    match formula:
        case Compare(op, left, right):
            return Compare(op, term(left), term(right))
        case Not(part):
            return Not(renamed(part, names))
        case And(parts):
            return And(tuple(renamed(p, names) for p in parts))
        case Or(parts):
            return Or(tuple(renamed(p, names) for p in parts))
        case Implies(left, right):
            return Implies(renamed(left, names), renamed(right, names))
        case Iff(left, right):
            return Iff(renamed(left, names), renamed(right, names))
        case If(condition, then, other):
            return If(renamed(condition, names), renamed(then, names), renamed(other, names))
        case _:
            return formula
