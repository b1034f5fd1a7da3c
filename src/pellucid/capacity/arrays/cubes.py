"""The search backwards: cubes as numbers (`cubes`), one step back (`preimage`), the fixpoint (`backward`), guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from math import gcd, lcm
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from pellucid.capacity.arrays.system import System

# Conjunctions of linear comparisons: whether they can hold, what follows from them, and forgetting a variable.
#
# An atom is ``(op, constant, ((variable, factor), …))`` for "sum + constant op 0" with whole numbers, in one normal
# form, so that equal atoms are equal tuples.  Satisfiability is Fourier and Motzkin's elimination after equalities are
# put in; it is exact for reals and for the differences that most systems have.  For whole numbers with other factors it
# may call something possible that is not: a search then visits more, and never says *safe* for that.

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
        return False  # the cube has nothing about that variable
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


# Cubes: conjunctions about some distinct processes, small enough to compare in one operation.
#
# The cells of finite types (enumerations, processes) are *fields* of one big number: a bit is set for each value that
# the cube **excludes**.  So no bit is "anything may be there", "and" is ``|``, and a cube is more general than another
# one when all its bits are set there.  A field of type ``proc`` has bit 0 for "none of those that are named" and bit
# *i* for process *i*; the bits of processes that a cube does not name are as bit 0.  What a cube says of numbers, of
# values without constructors and of the order of processes stands beside it, as linear atoms.

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

        A process of which it is only known that a variable points to it is not needed either: then the variable points
        to none of the others.
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


# Whether one cube covers another under some names of its processes, found without trying all names.
#
# Of many processes there are very many namings, and almost all of them fail at the first process: what a cube says of a
# process alone (its *sign*) has to be said of the one that takes its place.  So names are given one after another, to
# the process with the fewest candidates first, and whatever is about processes that have names by then is looked at at
# once.


class Pointer(NamedTuple):
    """A cell that has a process as its value, or is about two processes: whose, and what is excluded."""

    place: Place
    excluded: int
    of_process: bool


class Signs:
    """A cube, prepared: what it says of no process, of each process alone, and of several of them."""

    def __init__(self, layout: Layout, cube: Cube) -> None:
        self.cube, self.layout = cube, layout
        self.all, self.alone = 0, [0] * (cube.width + 1)
        self.several: dict[Place, Pointer] = {}
        for f, excluded in layout.touched(cube.bits):
            if f.of_process or len(f.place) > 2:
                self.several[f.place] = Pointer(f.place, excluded, f.of_process)
            elif len(f.place) == 1:
                self.all |= excluded << f.shift
            else:
                self.alone[f.place[1]] |= excluded << layout.field((f.place[0], 1)).shift

    def names_in(self, other: Signs) -> Iterator[tuple[int, ...]]:
        """The names under which this cube's cells cover another one's: for each process one of the other's."""
        width, rigid = self.cube.width, self.layout.rigid
        if self.all & other.all != self.all or width > other.cube.width:
            return
        candidates: list[list[int]] = []
        for i in range(1, width + 1):
            sign = self.alone[i]
            who = [i] if i <= rigid else range(rigid + 1, other.cube.width + 1)
            found = [p for p in who if sign & other.alone[p] == sign]
            if not found:
                return
            candidates.append(found)
        order = sorted(range(1, width + 1), key=lambda i: len(candidates[i - 1]))
        # what can be looked at when the n-th of them has a name
        ready: list[list[Pointer]] = [[] for _ in range(width + 1)]
        at = {i: n for n, i in enumerate(order, 1)}
        for pointer in self.several.values():
            ready[max((at[i] for i in pointer.place[1:]), default=0)].append(pointer)
        to = [0] * (width + 1)

        def fits(pointer: Pointer, n: int) -> bool:
            """As far as processes have names: the n first ones."""
            there = other.several.get((pointer.place[0], *(to[i] for i in pointer.place[1:])))
            if there is None:
                return False
            if not pointer.of_process:
                return pointer.excluded & there.excluded == pointer.excluded
            mine, theirs = pointer.excluded, there.excluded
            if mine & 1 & ~theirs:
                return False
            return all(theirs >> to[i] & 1 for i in order[:n] if mine >> i & 1)

        if not all(fits(pointer, 0) for pointer in ready[0]):
            return
        pointing = [pointer for pointer in self.several.values() if pointer.of_process]

        def extend(n: int) -> Iterator[tuple[int, ...]]:
            if n == width:
                yield tuple(to[1:])
                return
            i = order[n]
            for p in candidates[i - 1]:
                if p in to:
                    continue
                to[i] = p
                known = set(order[: n + 1])
                if all(fits(pointer, n + 1) for pointer in ready[n + 1]) and all(
                    fits(pointer, n + 1) for pointer in pointing if known.issuperset(pointer.place[1:])
                ):
                    yield from extend(n + 1)
                to[i] = 0

        yield from extend(0)

    def covers(self, other: Signs) -> bool:
        """Whether this cube holds wherever the other one does, for some names of its processes.

        >>> from pellucid.capacity.arrays import read_text
        >>> from pellucid.capacity.arrays.formulas import Compiled
        >>> s = read_text("array X[proc] : bool array P[proc] : proc init (z) { X[z] = False }"
        ...               "unsafe (x y) { X[y] = True && P[y] = x }"
        ...               "unsafe (x y z) { X[x] = True && P[x] = z && P[y] = y }"
        ...               "transition go (x) { X[x] := True }")
        >>> c = Compiled(s)
        >>> general, special = (Signs(c.layout, c.states(u)[0]) for u in s.unsafe)
        >>> general.covers(special), special.covers(general)
        (True, False)
        """
        layout = self.layout
        return any(
            layout.covers(layout.rename(self.cube, to, other.cube.width), other.cube) for to in self.names_in(other)
        )


# The cubes that were visited, and whether they cover another one.
#
# Where there are few processes, each cube is kept under all names that they can have among so many, so that one
# operation on two numbers says whether it covers another cube; where there are more, names are looked for (`matching`).
# Where no single cube does, several may do so together: if a visited cube leaves only one cell open, that cell has to
# have one of the other values (as a solver propagates a clause), and so on.

N = TypeVar("N")
FEW = 4  # processes of a cube for which all names are kept


class Visited:
    """Cubes, by how many processes another cube has.

    The names of many processes are very many: ``look`` is called every few hundred, and may raise.
    """

    def __init__(self, layout: Layout, look: Callable[[], None] = lambda: None) -> None:
        self.layout, self.look = layout, look
        self.cubes: dict[int, Cube] = {}
        self.signs: dict[int, Signs] = {}
        self._plain: dict[int, list[int]] = {}
        self._with_atoms: dict[int, list[tuple[int, Atoms]]] = {}
        self._next = 0

    def add(self, cube: Cube) -> int:
        """Keep a cube; its number."""
        number = self._next
        self._next += 1
        self.cubes[number], self.signs[number] = cube, Signs(self.layout, cube)
        for count in set(self._plain) | set(self._with_atoms):
            self._enter(cube, count)
        return number

    def remove(self, number: int) -> None:
        """Forget a cube that another one covers; the tables are rebuilt when there are many such."""
        self.cubes.pop(number, None)
        self.signs.pop(number, None)

    def _enter(self, cube: Cube, count: int) -> None:
        if cube.width > count:
            return
        seen = set()
        for named in self._named(cube, count):
            if named in seen:
                continue
            seen.add(named)
            if named.atoms:
                self._with_atoms[count].append((named.bits, named.atoms))
            else:
                self._plain[count].append(named.bits)

    def _named(self, cube: Cube, count: int) -> Iterator[Cube]:
        """A cube under all its names."""
        for i, to in enumerate(self.layout.embeddings(cube.width, count), 1):
            if i % 256 == 0:
                self.look()
            yield self.layout.rename(cube, to, count)

    def _tables(self, count: int) -> tuple[list[int], list[tuple[int, Atoms]]]:
        if count not in self._plain:
            self._plain[count], self._with_atoms[count] = [], []
            for cube in self.cubes.values():
                self._enter(cube, count)
        return self._plain[count], self._with_atoms[count]

    def compact(self) -> None:
        """Rebuild the tables, without cubes that were removed."""
        self._plain.clear()
        self._with_atoms.clear()

    def covers(self, cube: Cube) -> bool:
        """Whether one cube covers this one."""
        if cube.width > FEW:
            mine = Signs(self.layout, cube)
            self.look()
            return any(signs.covers(mine) for signs in self.signs.values())
        plain, with_atoms = self._tables(cube.width)
        bits = cube.bits
        for general in plain:
            if general & bits == general:
                return True
        entails = self.layout.entails
        return any(general & bits == general and entails(cube.atoms, atoms) for general, atoms in with_atoms)

    def cover_together(self, cube: Cube, rounds: int = 6) -> bool:
        """Whether the cubes cover this one together, as far as it is seen without trying cases."""
        if cube.width > FEW:
            return False
        plain, with_atoms = self._tables(cube.width)
        by_bit, layout = self.layout.by_bit, self.layout
        bits, atoms = cube.bits, cube.atoms
        for _ in range(rounds):
            before = bits, atoms
            for general in plain:
                open_ = general & ~bits
                if not open_:
                    return True
                f = by_bit[open_.bit_length() - 1]
                if not open_ & ~f.full:
                    # all but what this cube covers in that cell: the values that it excludes are left
                    bits |= f.full & ~general
            for general, wanted in with_atoms:
                open_ = general & ~bits
                if open_:
                    f = by_bit[open_.bit_length() - 1]
                    if not open_ & ~f.full and atoms and layout.entails(atoms, wanted):
                        bits |= f.full & ~general
                    continue
                missing = [a for a in wanted if a not in atoms and not layout.entails(atoms, frozenset([a]))]
                if not missing:
                    return True
                if len(missing) == 1:
                    others = negations(missing[0], layout.whole(v for v, _ in missing[0][2]))
                    if len(others) == 1:
                        found = layout.settled(Cube(bits, atoms | {others[0]}, cube.width))
                        if found is None:
                            return True
                        bits, atoms = found.bits, found.atoms
            if (bits, atoms) == before:
                return False
        return False

    def covered_by(self, cube: Cube) -> Iterator[int]:
        """The numbers of those that this cube covers."""
        mine = Signs(self.layout, cube)
        for number, old in self.signs.items():
            if mine.covers(old):
                yield number
