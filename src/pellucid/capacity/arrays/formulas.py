"""Formulas, guards and updates as cubes, for certain processes: what a search backwards works with.

A formula becomes the cubes of its disjunctive normal form; a guard a list of such lists, of which one cube each has to
hold.  What a cell becomes is a list of alternatives: a condition and a value.  Everything is made once for each
transition and each choice of its processes, and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from pellucid.capacity.arrays import system as y
from pellucid.capacity.arrays.cubes import (
    EQ,
    LE,
    LT,
    NE,
    NOTHING,
    Atom,
    Combination,
    Cube,
    Layout,
    Place,
    Variable,
    atom,
    substitute,
)

Bound: TypeAlias = Mapping[str, int]
TRUE = Cube(0, NOTHING, 0)
NONE: Mapping[int, Sequence[y.Formula]] = MappingProxyType({})
_SWAPPED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Known(NamedTuple):
    """A value that a cell becomes: exactly one of these, or nothing is known."""

    constructor: str | None = None
    process: int | None = None
    place: Place | None = None
    sum: Combination | None = None

    @property
    def anything(self) -> bool:
        """Whether it may be any value."""
        return self == Known()


Alternatives: TypeAlias = "list[tuple[list[Cube], Known]]"


def possible_values(system: y.System) -> dict[str, tuple[str, ...]]:
    """The constructors that each symbol can ever have: those it starts with, and those that are put there.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("type t = A | B | C var X : t init () { X = A } unsafe () { X = C } transition go () { X := B }")
    >>> possible_values(s)
    {'X': ('A', 'B')}
    """
    found: dict[str, set[str]] = {}
    for name, (_, of) in system.symbols.items():
        if system.values(of):
            found[name] = set()
    parts = system.init.formula.parts if isinstance(system.init.formula, y.And) else (system.init.formula,)
    for part in parts:
        match part:
            case y.Compare("=", y.Cell(name), y.Value(value)) | y.Compare("=", y.Value(value), y.Cell(name)):
                found[name].add(value)
            case _:
                pass
    for name in found:
        found[name] = found[name] or set(system.values(system.type_of(name)))
    changed = True
    while changed:
        changed = False
        for t in system.transitions:
            for u in t.updates:
                if u.name not in found:
                    continue
                given: set[str] = set()
                match u.value:
                    case y.Anything():
                        given = set(system.values(system.type_of(u.name)))
                    case y.Cases(cases):
                        for _, v in cases:
                            given |= (
                                {v.name}
                                if isinstance(v, y.Value)
                                else found[v.name]
                                if isinstance(v, y.Cell)
                                else set()
                            )
                    case y.Value(name):
                        given = {name}
                    case y.Cell(name):
                        given = found[name]
                    case _:
                        pass
                if not given <= found[u.name]:
                    found[u.name] |= given
                    changed = True
    return {n: tuple(v for v in system.values(system.type_of(n)) if v in values) for n, values in found.items()}


class Compiled:
    """A system, ready for the search."""

    def __init__(self, system: y.System, besides: Mapping[int, Sequence[y.Formula]] = NONE) -> None:
        """``besides``: what holds besides the guard whenever a transition, by its number, happens (`Lemma`)."""
        self.system, self.besides = system, besides
        self.layout = Layout(system)
        self.layout.values |= possible_values(system)
        self._guards: dict[tuple[int, tuple[int, ...], int], list[list[Cube]] | None] = {}
        self._effects: dict[tuple[int, tuple[int, ...]], dict[Place, Alternatives | None]] = {}
        self._init: dict[int, list[Cube]] = {}
        self._fixed: dict[int, tuple[Cube, dict[Variable, Combination]]] = {}
        self.relied = False  # whether what never changes has been made use of
        self.updated = [{u.name: u for u in t.updates} for t in system.transitions]

    # formulas

    def process(self, name: str, bound: Bound) -> int:
        """Which process a name is."""
        return int(name[1:]) if name.startswith("#") else bound[name]

    def place(self, cell: y.Cell, bound: Bound) -> Place:
        """Which cell."""
        return (cell.name, *(self.process(i, bound) for i in cell.indices))

    def known(self, term: y.Term, bound: Bound) -> Known:
        """A term as a value."""
        match term:
            case y.Value(name):
                return Known(constructor=name)
            case y.Process(name):
                return Known(process=self.process(name, bound))
            case y.Number(value, _):
                return Known(sum=(value, {}))
            case y.Cell(_, _):
                return Known(place=self.place(term, bound))
            case y.Sum(parts, constant):
                total: dict[Variable, Fraction] = {}
                for factor, cell in parts:
                    at = self.place(cell, bound)
                    total[at] = total.get(at, Fraction(0)) + factor
                return Known(sum=(constant, total))

    def combination(self, value: Known) -> Combination:
        """A value as a sum."""
        if value.sum is not None:
            return value.sum
        if value.process is not None:
            return Fraction(0), {("#", value.process): Fraction(1)}
        assert value.place is not None
        return Fraction(0), {value.place: Fraction(1)}

    def compare(self, op: str, left: Known, right: Known) -> list[Cube]:
        """The cubes of a comparison."""
        layout = self.layout
        if left.constructor is not None and right.constructor is not None:
            return [TRUE] if (left.constructor == right.constructor) == (op == "=") else []
        if left.constructor is not None:
            left, right = right, left
        if right.constructor is not None:
            assert left.place is not None
            values = layout.values[left.place[0]]
            allowed = sum(1 << i for i, v in enumerate(values) if (v == right.constructor) == (op == "="))
            return self.among(left.place, allowed)
        if left.process is not None and right.process is not None and op in ("=", "<>"):
            return [TRUE] if (left.process == right.process) == (op == "=") else []
        if left.place is not None and right.place is not None and layout.values.get(left.place[0]):
            return self._same(op, left.place, right.place)
        if op in (">", ">="):
            op, left, right = {">": "<", ">=": "<="}[op], right, left
        (c, a), (d, b) = self.combination(left), self.combination(right)
        parts = dict(a)
        for v, factor in b.items():
            parts[v] = parts.get(v, Fraction(0)) - factor
        made = atom({"=": EQ, "<>": NE, "<": LT, "<=": LE}[op], c - d, parts, layout.whole(parts))
        if isinstance(made, bool):
            return [TRUE] if made else []
        found = layout.settled(Cube(0, frozenset([made]), 0))
        return [] if found is None else [found]

    def among(self, place: Place, allowed: int) -> list[Cube]:
        """A cell has one of these values."""
        bits = self.layout.only(place, allowed)
        if bits == 0:
            return [TRUE]
        return [Cube(bits, NOTHING, 0)] if bits != self.layout.field(place).full else []

    def _same(self, op: str, left: Place, right: Place) -> list[Cube]:
        if left == right:
            return [TRUE] if op == "=" else []
        names, others = self.layout.values[left[0]], self.layout.values[right[0]]
        out = []
        for i, name in enumerate(names):
            allowed = sum(1 << j for j, other in enumerate(others) if (other == name) == (op == "="))
            for cube in self.among(right, allowed):
                both = self.layout.conjunction(Cube(self.layout.only(left, 1 << i), NOTHING, 0), cube)
                out += [] if both is None else [both]
        return out

    def cubes(
        self, formula: y.Formula, bound: Bound, count: int, chosen: Sequence[int] = (), no: bool = False
    ) -> list[Cube]:
        """A formula, or its negation, as cubes; quantifiers go over the processes up to ``count``."""
        match formula:
            case y.Truth(holds):
                return [TRUE] if holds != no else []
            case y.Compare(op, left, right):
                return self.compare(_SWAPPED[op] if no else op, self.known(left, bound), self.known(right, bound))
            case y.Not(part):
                return self.cubes(part, bound, count, chosen, not no)
            case y.And(parts) | y.Or(parts):
                each = [self.cubes(p, bound, count, chosen, no) for p in parts]
                return self._all(each) if isinstance(formula, y.And) != no else self._any(each)
            case y.Implies(left, right):
                each = [self.cubes(left, bound, count, chosen, not no), self.cubes(right, bound, count, chosen, no)]
                return self._all(each) if no else self._any(each)
            case y.Iff(left, right):
                return self.cubes(
                    y.And((y.Or((y.Not(left), right)), y.Or((left, y.Not(right))))) if not no
                    else y.Or((y.And((left, y.Not(right))), y.And((y.Not(left), right)))), bound, count, chosen,
                )  # fmt: skip
            case y.If(condition, then, other):
                yes, not_so = (y.Not(then), y.Not(other)) if no else (then, other)
                either = y.Or((y.And((condition, yes)), y.And((y.Not(condition), not_so))))
                return self.cubes(either, bound, count, chosen)
            case y.Quantified(kind, other, names, part):
                domain = [p for p in range(1, count + 1) if not other or p not in chosen]
                each = [
                    self.cubes(part, {**bound, **dict(zip(names, p, strict=True))}, count, chosen, no)
                    for p in product(domain, repeat=len(names))
                    if len(set(p)) == len(p)
                ]
                return self._all(each) if (kind == "forall") != no else self._any(each)

    def _all(self, each: Sequence[Sequence[Cube]]) -> list[Cube]:
        out = [TRUE]
        for cubes in sorted(each, key=len):
            out = self.layout.product(out, cubes)
        return out

    def _any(self, each: Sequence[Sequence[Cube]]) -> list[Cube]:
        return merged(self.layout, [c for cubes in each for c in cubes])

    # guards and updates

    def guard(self, t: int, chosen: tuple[int, ...], count: int) -> list[list[Cube]] | None:
        """What a transition needs: a cube of each list; None if it cannot happen."""
        key = (t, chosen, count)
        if key not in self._guards:
            transition = self.system.transitions[t]
            bound = dict(zip(transition.parameters, chosen, strict=True))
            simple, clauses = TRUE, list[list[Cube]]()
            found: list[list[Cube]] | None = []
            for part in (*conjuncts(transition.requires), *self.besides.get(t, ())):
                for clause in self._clauses(part, bound, count, chosen):
                    if len(clause) == 1:
                        both = self.layout.conjunction(simple, clause[0])
                        if both is None:
                            found = None
                            break
                        simple = both
                    else:
                        clauses.append(clause)
            if found is not None and all(clauses):
                found = [[simple], *sorted(clauses, key=len)]
            else:
                found = None
            self._guards[key] = found
        return self._guards[key]

    def _clauses(self, part: y.Formula, bound: Bound, count: int, chosen: tuple[int, ...]) -> list[list[Cube]]:
        if isinstance(part, y.Quantified) and part.kind == "forall" and len(part.names) == 1:
            domain = [p for p in range(1, count + 1) if not part.other or p not in chosen]
            return [
                self.cubes(inner, {**bound, part.names[0]: p}, count, chosen)
                for p in domain
                for inner in conjuncts(part.part)
            ]
        return [self.cubes(part, bound, count, chosen)]

    def effect(self, t: int, chosen: tuple[int, ...], place: Place) -> Alternatives | None:
        """What a cell becomes; None if it stays as it is."""
        known = self._effects.setdefault((t, chosen), {})
        if place not in known:
            known[place] = self._effect(self.system.transitions[t], self.updated[t].get(place[0]), chosen, place)
        return known[place]

    def _effect(
        self, t: y.Transition, u: y.Update | None, chosen: tuple[int, ...], place: Place
    ) -> Alternatives | None:
        if u is None:
            return None
        bound = dict(zip(t.parameters, chosen, strict=True))
        if not isinstance(u.value, y.Cases):
            if tuple(self.process(i, bound) for i in u.indices) != place[1:]:
                return None
            if isinstance(u.value, y.Anything):
                return [([TRUE], Known())]
            value = self.known(u.value, bound)
            return None if value.place == place else [([TRUE], value)]
        inner = {**bound, **dict(zip(u.indices, place[1:], strict=True))}
        out: Alternatives = []
        left = [TRUE]  # no case before this one applies
        for condition, term in u.value.cases:
            holds = self.layout.product(left, self.cubes(condition, inner, 0))
            if holds:
                out.append((merged(self.layout, holds), self.known(term, inner)))
            left = merged(self.layout, self.layout.product(left, self.cubes(condition, inner, 0, no=True)))
            if not left:
                break
        return None if len(out) == 1 and out[0][1].place == place else out

    # states

    def states(self, states: y.States) -> list[Cube]:
        """Unsafe states as cubes, each with as few processes as it needs."""
        count = self.layout.rigid + len(states.names)
        out: dict[Cube, None] = {}
        choices = [p for p in product(range(1, count + 1), repeat=len(states.names)) if len(set(p)) == len(p)]
        for chosen in choices if self.layout.rigid else [tuple(range(1, count + 1))]:
            bound = dict(zip(states.names, chosen, strict=True))
            for cube in self._exists(states.formula, bound, count):
                out[self.layout.tidy(cube._replace(width=max(count, cube.width)))[0]] = None
        return list(out)

    def _exists(self, formula: y.Formula, bound: Bound, count: int, no: bool = False) -> list[Cube]:
        """As cubes (``no``: of its negation), where ``exists`` may name more processes, the same ones or others."""
        match formula:
            case y.Quantified(kind, _, names, part):
                assert (kind == "exists") != no, "reading refuses other quantifiers here"
                found = []
                extra = count + len(names)
                for p in product(range(1, extra + 1), repeat=len(names)):
                    if len(set(p)) == len(p):
                        inner = {**bound, **dict(zip(names, p, strict=True))}
                        found += [c._replace(width=max(extra, c.width)) for c in self._exists(part, inner, extra, no)]
                return found
            case y.Not(part):
                return self._exists(part, bound, count, not no)
            case y.Implies(left, right):
                return self._exists(y.Or((y.Not(left), right)), bound, count, no)
            case y.Iff(left, right):
                return self._exists(y.And((y.Or((y.Not(left), right)), y.Or((left, y.Not(right))))), bound, count, no)
            case y.If(condition, then, other):
                return self._exists(y.And((y.Or((y.Not(condition), then)), y.Or((condition, other)))), bound, count, no)
            case y.And(parts) | y.Or(parts):
                each = [self._exists(p, bound, count, no) for p in parts]
                if isinstance(formula, y.And) == no:
                    return [c for cubes in each for c in cubes]
                out = [TRUE]
                for cubes in each:
                    out = self.layout.product(out, cubes)
                return out
            case _:
                return self.cubes(formula, bound, count, no=no)

    def init(self, count: int) -> list[Cube]:
        """The states before the first step, for so many processes."""
        if count not in self._init:
            out, names = [TRUE], self.system.init.names
            for chosen in product(range(1, count + 1), repeat=len(names)):
                bound = dict(zip(names, chosen, strict=True))
                out = self.layout.product(out, self.cubes(self.system.init.formula, bound, count))
            if names and not count:
                out = [TRUE]
                for part in conjuncts(self.system.init.formula):
                    if not _mentions(part, set(names)):
                        out = self.layout.product(out, self.cubes(part, {}, 0))
            self._init[count] = out
        return self._init[count]

    @cached_property
    def lasting(self) -> list[y.Formula]:
        """What ``init`` says of symbols that no transition changes: it is so for ever."""
        changed = {u.name for t in self.system.transitions for u in t.updates}
        return [part for part in conjuncts(self.system.init.formula) if not named(part) & changed and named(part)]

    def fixed(self, count: int) -> tuple[Cube, dict[Variable, Combination]]:
        """What never changes, for so many processes: as a cube, and numbers that are known."""
        if count not in self._fixed:
            cube, names = TRUE, self.system.init.names
            for part in self.lasting:
                for chosen in product(range(1, max(count, 1) + 1), repeat=len(names)):
                    found = self.cubes(part, dict(zip(names, chosen, strict=True)), count)
                    both = self.layout.conjunction(cube, found[0]) if len(found) == 1 else cube
                    cube = both if both is not None else cube
            known: dict[Variable, Combination] = {}
            for op, number, factors in cube.atoms:
                if op == EQ and len(factors) == 1:
                    known[factors[0][0]] = Fraction(-number, factors[0][1]), {}
            self._fixed[count] = cube, known
        return self._fixed[count]

    def unchanging(self, cube: Cube) -> Cube | None:
        """A cube without what is so anyway; None if it says otherwise."""
        if not self.lasting:
            return cube
        fixed, known = self.fixed(cube.width)
        if known and cube.atoms:
            atoms = set()
            for a in cube.atoms:
                made = substitute(a, known, self.layout.whole)
                if made is False:
                    self.relied = True
                    return None
                if made is not True:
                    assert not isinstance(made, bool)
                    atoms.add(made)
            found = self.layout.settled(cube._replace(atoms=frozenset(atoms)))
            self.relied = self.relied or found != cube
            if found is None:
                return None
            cube = found
        both = self.layout.conjunction(fixed, cube)
        if both is None:
            self.relied = True
            return None
        bits = both.bits
        for f, _ in self.layout.touched(bits & fixed.bits):
            if not (bits & f.full) & ~fixed.bits:
                bits &= ~f.full
        left = Cube(bits, both.atoms - fixed.atoms if fixed.atoms else both.atoms, cube.width)
        self.relied = self.relied or left != cube
        return left

    def starts_in(self, cube: Cube) -> bool:
        """Whether a run may begin in a cube."""
        return any(self.layout.conjunction(start, cube) is not None for start in self.init(cube.width))

    @cached_property
    def parameters(self) -> list[int]:
        """How many processes each transition has."""
        return [len(t.parameters) for t in self.system.transitions]


def merged(layout: Layout, cubes: Sequence[Cube]) -> list[Cube]:
    """Fewer cubes that say the same: one that is covered goes; two that differ in one cell become one."""
    out: list[Cube] = []
    for cube in dict.fromkeys(cubes):
        new = cube
        again = True
        while again:
            again = False
            for i, old in enumerate(out):
                if old.atoms != new.atoms:
                    if layout.covers(old, new):
                        out[i], new = old, old
                        del out[i]
                        again = True
                        break
                    continue
                if old.bits & new.bits == old.bits:
                    new = old
                    del out[i]
                    again = True
                    break
                if old.bits & new.bits == new.bits:
                    del out[i]
                    again = True
                    break
                different = old.bits ^ new.bits
                f = layout.by_bit[different.bit_length() - 1]
                if different & ~f.full == 0:
                    del out[i]
                    new = Cube(old.bits & new.bits, new.atoms, max(old.width, new.width))
                    again = True
                    break
        out.append(new)
    return out


def conjuncts(formula: y.Formula) -> list[y.Formula]:
    """The parts of a formula that all have to hold."""
    if isinstance(formula, y.And):
        return [c for p in formula.parts for c in conjuncts(p)]
    return [formula]


def named(formula: y.Formula) -> set[str]:
    """The symbols of a formula."""
    return {c.name for c in _cells(formula)}


def _cells(formula: y.Formula) -> Iterator[y.Cell]:
    for part in y.inside(formula):
        if isinstance(part, y.Compare):
            for term in (part.left, part.right):
                if isinstance(term, y.Cell):
                    yield term
                elif isinstance(term, y.Sum):
                    yield from (c for _, c in term.parts)


def _mentions(formula: y.Formula, names: set[str]) -> bool:
    """Whether a formula speaks of one of these processes."""
    if any(names & set(c.indices) for c in _cells(formula)):
        return True
    parts = [p for p in y.inside(formula) if isinstance(p, y.Compare)]
    return any(isinstance(t, y.Process) and t.name in names for p in parts for t in (p.left, p.right))


# Cubes as formulas of the language: what a certificate is made of.


def _name(p: int, rigid: int) -> str:
    return f"#{p}" if p <= rigid else f"x{p - rigid}"


def states_of(compiled: Compiled, cube: Cube) -> y.States:
    """A cube as states of distinct processes ``x1``, ``x2``, ….

    >>> from pellucid.capacity.arrays import read_text
    >>> from pellucid.capacity.arrays.text import formula_text
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
