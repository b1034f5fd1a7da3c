"""Cubes as formulas of the language: what a certificate is made of."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from pellucid.capacity.arrays.language import system as y
from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.cubes import Cube
from pellucid.capacity.arrays.search.linear import Atom, Variable


def _name(p: int, rigid: int) -> str:
    return f"#{p}" if p <= rigid else f"x{p - rigid}"


def states_of(compiled: Compiled, cube: Cube) -> y.States:
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
    layout, rigid, parts = compiled.layout, compiled.layout.rigid, list[y.Formula]()

    def cell(place: Any) -> y.Cell:
        return y.Cell(place[0], tuple(_name(p, rigid) for p in place[1:]))

    for f, excluded in sorted(layout.touched(cube.bits)):
        if f.of_process:
            named = range(1, cube.width + 1)
            if excluded & 1:  # one of those that are not excluded
                parts.append(
                    _or(
                        [
                            y.Compare("=", cell(f.place), y.Process(_name(p, rigid)))
                            for p in named
                            if not excluded >> p & 1
                        ]
                    )
                )
            else:
                parts += [
                    y.Compare("<>", cell(f.place), y.Process(_name(p, rigid))) for p in named if excluded >> p & 1
                ]
            continue
        left = [v for i, v in enumerate(layout.values[f.place[0]]) if not excluded >> i & 1]
        parts.append(_or([y.Compare("=", cell(f.place), y.Value(v)) for v in left]))
    parts += [_atom(compiled.system, a, rigid) for a in sorted(cube.atoms)]
    names = [_name(p, rigid) for p in range(rigid + 1, cube.width + 1)]
    parts += [y.Compare("<>", y.Process(n), y.Process(_name(p, rigid))) for n in names for p in range(1, rigid + 1)]
    return y.States(tuple(names), y.And(tuple(parts)) if len(parts) != 1 else parts[0])


def _or(parts: list[y.Formula]) -> y.Formula:
    return parts[0] if len(parts) == 1 else y.Or(tuple(parts)) if parts else y.Truth(False)


def _atom(system: y.System, a: Atom, rigid: int) -> y.Formula:
    op, number, factors = a

    def side(chosen: list[tuple[Variable, int]], constant: int) -> y.Term:
        real = any(v[0] != "#" and system.type_of(v[0]) == "real" for v, _ in factors)
        if not chosen:
            return y.Number(Fraction(constant), real)
        if len(chosen) == 1 and chosen[0][1] == 1 and not constant:
            v = chosen[0][0]
            if v[0] == "#":
                return y.Process(_name(v[1], rigid))
            return y.Cell(v[0], tuple(_name(p, rigid) for p in v[1:]))
        cells = tuple((Fraction(c), y.Cell(v[0], tuple(_name(p, rigid) for p in v[1:]))) for v, c in chosen)
        return y.Sum(cells, Fraction(constant))

    left = [(v, c) for v, c in factors if c > 0]
    right = [(v, -c) for v, c in factors if c < 0]
    # processes only stand alone: their order is strict, and "+ 1 <= 0" is "<"
    if number == 1 and op == 0 and any(v[0] == "#" for v, _ in factors):
        return y.Compare("<", side(left, 0), side(right, 0))
    name: Any = ("<=", "<", "=", "<>")[op]
    return y.Compare(name, side(left, max(number, 0)), side(right, max(-number, 0)))


def impossible(compiled: Compiled) -> list[y.States]:
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
            formula = _or([y.Compare("=", y.Cell(name, shape), y.Value(v)) for v in gone])
            out.append(y.States(tuple(dict.fromkeys(shape)), formula))
    for part in compiled.lasting if compiled.relied else ():
        names = system.init.names
        for who in product(range(len(names)), repeat=len(names)):  # two names may be one process
            if list(who) == [who.index(i) for i in who]:
                as_named = {n: f"x{i + 1}" for n, i in zip(names, who, strict=True)}
                kept = tuple(dict.fromkeys(as_named.values()))
                out.append(y.States(kept, y.Not(renamed(part, as_named))))
    return out


def renamed(formula: y.Formula, names: Mapping[str, str]) -> y.Formula:
    """A formula without quantifiers, about other processes."""

    def term(t: y.Term) -> y.Term:
        match t:
            case y.Process(name):
                return y.Process(names.get(name, name))
            case y.Cell(name, indices):
                return y.Cell(name, tuple(names.get(i, i) for i in indices))
            case y.Sum(parts, constant):
                return y.Sum(
                    tuple((f, y.Cell(c.name, tuple(names.get(i, i) for i in c.indices))) for f, c in parts), constant
                )
            case _:
                return t

    match formula:
        case y.Compare(op, left, right):
            return y.Compare(op, term(left), term(right))
        case y.Not(part):
            return y.Not(renamed(part, names))
        case y.And(parts):
            return y.And(tuple(renamed(p, names) for p in parts))
        case y.Or(parts):
            return y.Or(tuple(renamed(p, names) for p in parts))
        case y.Implies(left, right):
            return y.Implies(renamed(left, names), renamed(right, names))
        case y.Iff(left, right):
            return y.Iff(renamed(left, names), renamed(right, names))
        case y.If(condition, then, other):
            return y.If(renamed(condition, names), renamed(then, names), renamed(other, names))
        case _:
            return formula
