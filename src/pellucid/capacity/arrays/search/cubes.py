"""Cubes: conjunctions about some distinct processes, small enough to compare in one operation.

The cells of finite types (enumerations, processes) are *fields* of one big number: a bit is set for each value that
the cube **excludes**.  So no bit is "anything may be there", "and" is ``|``, and a cube is more general than another
one when all its bits are set there.  A field of type ``proc`` has bit 0 for "none of those that are named" and bit
*i* for process *i*; the bits of processes that a cube does not name are as bit 0.  What is said of numbers, of values
without constructors and of the order of processes stands beside it, as linear atoms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any, NamedTuple, TypeAlias

from pellucid.capacity.arrays.language.system import System
from pellucid.capacity.arrays.search.linear import (
    EQ,
    NE,
    Atom,
    Atoms,
    Variable,
    atom,
    follows,
    possible,
    substitute,
    variables,
)

MOST_PROCESSES = 11  # in one cube
Place: TypeAlias = tuple[Any, ...]  # a symbol's name and processes
NOTHING: Atoms = frozenset()


class Cube(NamedTuple):
    """What is excluded, what the numbers keep to, and how many processes are named."""

    bits: int
    atoms: Atoms
    width: int


class Field(NamedTuple):
    """Where the bits of a cell are."""

    place: Place
    shift: int
    width: int
    full: int  # all bits, in place
    of_process: bool


class Layout:
    """Where each cell's bits are; a cell gets its bits when it is first asked for.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x) { X[x] = True }")
    >>> layout = Layout(s)
    >>> cube = layout.only(("X", 1), 1 << 1)
    >>> layout.text(Cube(cube, NOTHING, 1))
    'X[#1] = True'
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.rigid = system.rigid
        self.fields: dict[Place, Field] = {}
        self.by_bit: list[Field] = []
        self.values = {name: system.values(of) for name, (_, of) in system.symbols.items()}
        self.is_process = {name for name, (_, of) in system.symbols.items() if of == "proc"}
        self.is_whole = {name for name, (_, of) in system.symbols.items() if of in ("int", "proc")} | {"#"}
        self.impossible: dict[str, int] = {}  # values that a symbol never has
        self._certain = {("#", p): (Fraction(p), dict[Variable, Fraction]()) for p in range(1, self.rigid + 1)}

    def finite(self, name: str) -> bool:
        """Whether a symbol has fields."""
        return bool(self.values[name]) or name in self.is_process

    def whole(self, variables: Iterable[Variable]) -> bool:
        """Whether all these variables are whole numbers."""
        return all(v[0] in self.is_whole for v in variables)

    def field(self, place: Place) -> Field:
        """The field of a cell."""
        found = self.fields.get(place)
        if found is None:
            process = place[0] in self.is_process
            width = MOST_PROCESSES + 1 if process else len(self.values[place[0]])
            shift = len(self.by_bit)
            found = Field(place, shift, width, ((1 << width) - 1) << shift, process)
            self.fields[place] = found
            self.by_bit += [found] * width
        return found

    def only(self, place: Place, allowed: int) -> int:
        """The bits for "the cell has one of these values"."""
        f = self.field(place)
        return f.full & ~(allowed << f.shift)

    def touched(self, bits: int) -> Iterator[tuple[Field, int]]:
        """The fields about which a cube says something, with the bits that it excludes."""
        by_bit = self.by_bit
        while bits:
            f = by_bit[bits.bit_length() - 1]
            yield f, (bits & f.full) >> f.shift
            bits &= ~f.full

    # and

    def conjunction(self, a: Cube, b: Cube) -> Cube | None:
        """Both; None if they cannot hold together."""
        bits = a.bits | b.bits
        rest = b.bits & ~a.bits
        by_bit = self.by_bit
        while rest:
            f = by_bit[rest.bit_length() - 1]
            if bits & f.full == f.full:
                return None
            rest &= ~f.full
        cube = Cube(bits, a.atoms | b.atoms if a.atoms or b.atoms else NOTHING, max(a.width, b.width))
        return self.settled(cube) if cube.atoms else cube

    def settled(self, cube: Cube) -> Cube | None:
        """What bits and atoms say together: processes that are known are put in; None if it is impossible."""
        bits, atoms, count = cube
        for _ in range(100):
            known: dict[Variable, tuple[Fraction, Mapping[Variable, Fraction]]] = {}
            for v in {v for a in atoms for v, _ in a[2] if v[0] in self.is_process}:
                f = self.field(v)
                left = (f.full & ~bits) >> f.shift
                if not left:
                    return None
                if left & (left - 1) == 0 and left != 1:
                    known[v] = Fraction(0), {("#", left.bit_length() - 1): Fraction(1)}
            kept, before = set[Atom](), bits
            for a in atoms:
                new = substitute(a, known, self.whole) if known else a
                if self._certain and not isinstance(new, bool) and new[0] not in (EQ, NE):
                    new = substitute(new, self._certain, self.whole)  # an order: certain processes are the first ones
                new = self._of_processes(new)
                if new is False:
                    return None
                if new is True:
                    continue
                assert not isinstance(new, bool)
                if new[0] in (EQ, NE) and new[1] == 0 and len(new[2]) == 2:
                    (v, c), (w, d) = new[2]
                    if c == 1 and d == -1 and (v[0] == "#") != (w[0] == "#"):
                        p, cell = (v, w) if v[0] == "#" else (w, v)
                        if cell[0] in self.is_process:
                            f = self.field(cell)
                            one = 1 << (f.shift + p[1])
                            bits |= one if new[0] == NE else f.full & ~one
                            if bits & f.full == f.full:
                                return None
                            continue
                kept.add(new)
            atoms = frozenset(kept)
            if not known and bits == before:
                break
        if atoms and not possible(atoms | self._distinct(atoms)):
            return None
        return Cube(bits, atoms, count)

    def _of_processes(self, a: Atom | bool) -> Atom | bool:
        """Distinct processes are never equal: an order between two of them is strict."""
        if isinstance(a, bool) or len(a[2]) != 2 or a[1] not in (0, 1) or any(v[0] != "#" for v, _ in a[2]):
            return a
        if a[0] in (EQ, NE) and a[1] == 0 and {c for _, c in a[2]} == {1, -1}:
            return a[0] == NE
        return atom(0, 1, dict(a[2]), True) if a[0] == 0 and a[1] == 0 else a

    def _distinct(self, atoms: Atoms) -> Atoms:
        procs = sorted({v for a in atoms for v, _ in a[2] if v[0] == "#"})
        later = frozenset((0, self.rigid + 1, ((p, -1),)) for p in procs if self.rigid and p[1] > self.rigid)
        if len(procs) < 2 or all(len(a[2]) == 2 and a[1] in (0, 1) for a in atoms):
            return later
        return later | frozenset((NE, 0, ((p, 1), (q, -1))) for i, p in enumerate(procs) for q in procs[i + 1 :])

    def product(self, cubes: Sequence[Cube], clause: Sequence[Cube]) -> list[Cube]:
        """All ways to hold a cube of each."""
        out: dict[Cube, None] = {}
        for a in cubes:
            for b in clause:
                both = self.conjunction(a, b)
                if both is not None:
                    out[both] = None
        return list(out)

    # generality

    def covers(self, general: Cube, special: Cube) -> bool:
        """Whether one holds wherever the other does, process by process."""
        if general.bits & special.bits != general.bits:
            return False
        return not general.atoms or self.entails(special.atoms, general.atoms)

    def entails(self, atoms: Atoms, wanted: Atoms) -> bool:
        """Whether all wanted atoms follow."""
        if wanted <= atoms:
            return True
        if not variables(wanted) <= variables(atoms):
            return False
        known = atoms | self._distinct(atoms | wanted)
        return all(follows(known, a, self.whole) for a in wanted)

    # names

    def rename(self, cube: Cube, to: Sequence[int], count: int) -> Cube:
        """A cube about other processes: the i-th one becomes ``to[i - 1]``; 0 forgets one that is not used."""
        bits = 0
        for f, excluded in self.touched(cube.bits):
            place = (f.place[0], *(to[p - 1] for p in f.place[1:]))
            if f.of_process:
                new = (1 << f.width) - 2 if excluded & 1 else 0
                for p in range(1, cube.width + 1):
                    t = to[p - 1]
                    if t:
                        new = new | 1 << t if excluded >> p & 1 else new & ~(1 << t)
                excluded = new | (excluded & 1)
            bits |= excluded << self.field(place).shift
        atoms = cube.atoms
        if atoms:
            names: dict[Variable, Variable] = {}
            out: list[Atom] = []
            for op, number, factors in atoms:
                for v, _ in factors:
                    if v not in names:
                        names[v] = (v[0], *(to[p - 1] for p in v[1:]))
                parts = tuple(sorted((names[v], c) for v, c in factors))
                if op in (EQ, NE) and parts[0][1] < 0:
                    number, parts = -number, tuple((v, -c) for v, c in parts)
                out.append((op, number, parts))
            atoms = frozenset(out)
        return Cube(bits, atoms, count)

    def used(self, cube: Cube) -> set[int]:
        """The processes about which a cube says something."""
        found = set(range(1, self.rigid + 1))
        for f, excluded in self.touched(cube.bits):
            found.update(f.place[1:])
            if f.of_process:
                like = (1 << cube.width) - 1 if excluded & 1 else 0
                different = (excluded >> 1 & (1 << cube.width) - 1) ^ like
                while different:
                    found.add(different.bit_length())
                    different &= ~(1 << (different.bit_length() - 1))
        for a in cube.atoms:
            for v, _ in a[2]:
                found.update(v[1:])
        return found

    def tidy(self, cube: Cube) -> tuple[Cube, dict[int, int]]:
        """A cube without processes of which it says nothing, and how those that are left are named now.

        A process of which is said only that a variable points to it is not needed either: then the variable points to
        none of the others.
        """
        cube = self._unpointed(cube)
        used = sorted(self.used(cube))
        names = {p: i + 1 for i, p in enumerate(used)}
        if used == list(range(1, cube.width + 1)):
            return cube, names
        to = [names.get(p, 0) for p in range(1, cube.width + 1)]
        return self.rename(cube, to, len(used)), names

    def _unpointed(self, cube: Cube) -> Cube:
        pins = [
            (f, p.bit_length() - 1)
            for f, excluded in self.touched(cube.bits)
            if f.of_process and (p := ~excluded & ((1 << f.width) - 1)) & (p - 1) == 0 and p != 1
        ]
        for f, p in pins:
            if p <= self.rigid or p in f.place[1:]:
                continue
            rest = cube._replace(bits=cube.bits & ~f.full)
            others = self.used(rest)
            if p not in others:
                excluded = sum(1 << q for q in others | set(f.place[1:]) if 1 <= q <= cube.width)
                return self._unpointed(cube._replace(bits=rest.bits | excluded << f.shift))
        return cube

    def embeddings(self, count: int, into: int) -> Iterator[tuple[int, ...]]:
        """All ways to be so many distinct processes among so many; certain ones stay who they are."""
        fixed = tuple(range(1, self.rigid + 1))
        for rest in permutations(range(self.rigid + 1, into + 1), max(0, count - self.rigid)):
            yield (fixed + rest)[:count] if count < self.rigid else fixed + rest

    # text

    def size(self, cube: Cube) -> int:
        """How much a cube says."""
        return sum(1 for _ in self.touched(cube.bits)) + len(cube.atoms)

    def text(self, cube: Cube) -> str:
        """As a formula of the language, with processes ``#1``, ``#2``, …."""
        out = []
        for f, excluded in sorted(self.touched(cube.bits)):
            name = place_text(f.place)
            if f.of_process:
                left = ~excluded & ((1 << f.width) - 1)
                if left & (left - 1) == 0 and left != 1:
                    out.append(f"{name} = #{left.bit_length() - 1}")
                else:
                    out += [f"{name} <> #{p}" for p in range(1, cube.width + 1) if excluded >> p & 1]
                    if excluded & 1:
                        out.append(
                            " || ".join(f"{name} = #{p}" for p in range(1, cube.width + 1) if not excluded >> p & 1)
                        )
                continue
            values = self.values[f.place[0]]
            kept = [v for i, v in enumerate(values) if not excluded >> i & 1]
            if len(kept) == 1:
                out.append(f"{name} = {kept[0]}")
            else:
                out += [f"{name} <> {v}" for i, v in enumerate(values) if excluded >> i & 1]
        return " && ".join(out + sorted(map(atom_text, cube.atoms))) or "true"


def place_text(place: Place) -> str:
    """A cell.

    >>> place_text(("X", 1, 2)), place_text(("#", 1))
    ('X[#1,#2]', '#1')
    """
    if place[0] == "#":
        return f"#{place[1]}"
    return f"{place[0]}[{','.join(f'#{p}' for p in place[1:])}]" if len(place) > 1 else str(place[0])


def atom_text(a: Atom) -> str:
    """An atom."""
    op, number, factors = a
    sides: tuple[list[str], list[str]] = ([], [])
    for v, c in factors:
        sides[c < 0].append(place_text(v) if abs(c) == 1 else f"{abs(c)} * {place_text(v)}")
    if number or not sides[0] or not sides[1]:
        empty = 1 if not sides[1] else 0 if not sides[0] else (number < 0)
        shown = -number if empty == 1 else number
        sides[empty].append(str(shown))
    return f"{' + '.join(sides[0])} {('<=', '<', '=', '<>')[op]} {' + '.join(sides[1])}"
