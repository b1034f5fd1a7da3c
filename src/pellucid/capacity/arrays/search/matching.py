"""Whether one cube covers another under some names of its processes, found without trying all names.

Of many processes there are very many namings, and almost all of them fail at the first process: what a cube says of a
process alone (its *sign*) has to be said of the one that takes its place.  So names are given one after another, to the
process with the fewest candidates first, and whatever is about processes that have names by then is looked at at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pellucid.capacity.arrays.search.cubes import Cube, Layout, Place


class Pointer(NamedTuple):
    """A cell that has a process as its value, or is about two processes: whose, and what is excluded."""

    place: Place
    excluded: int
    of_process: bool


class Signs:
    """A cube, prepared: what it says of nobody in particular, of each process alone, and of several of them."""

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
        >>> from pellucid.capacity.arrays.search.compiled import Compiled
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
