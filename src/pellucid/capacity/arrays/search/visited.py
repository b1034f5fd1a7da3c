"""The cubes that were visited, and whether they cover another one.

Where there are few processes, each cube is kept under all names that they can have among so many, so that one operation
on two numbers says whether it covers another cube; where there are more, names are looked for (`matching`).  Where no
single cube does, several may do so together: if a visited cube leaves only one cell open, that cell has to have one of
the other values (as a solver propagates a clause), and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pellucid.capacity.arrays.search.cubes import Cube, Layout
from pellucid.capacity.arrays.search.linear import Atoms, negations
from pellucid.capacity.arrays.search.matching import Signs

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
        """Forget a cube that another one covers; the tables are made anew when there are many such."""
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
        """Make the tables anew, without cubes that were removed."""
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
