"""Backward reachability: from the unsafe states back, until nothing new comes or a run can begin there.

With an *oracle* (`oracle.Oracle`: the states that a few processes really reach) a node is first made more general: the
smallest part of it that the oracle never saw takes its place, as in BRAB (Conchon, Goel, Krstić, Mebsout, Zaïdi, 2013).
Such a *guess* has to be proved with everything else.  If a run begins in it, it was wrong: it is noted, and the search
starts again with the other guesses.  What is left at the end is an inductive invariant, whoever guessed it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count
from typing import Protocol

from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.cubes import NOTHING, Cube
from pellucid.capacity.arrays.search.preimage import before
from pellucid.capacity.arrays.search.visited import Visited
from pellucid.model.budget import Budget, CutShort


class Guesser(Protocol):
    """Who knows states that are reached."""

    def seen(self, cube: Cube) -> bool:
        """Whether a state of the cube is reached, as far as it is known."""

    processes: int


@dataclass(eq=False)
class Node:
    """A cube on the way: after ``step`` comes ``parent``; a root has none."""

    cube: Cube
    depth: int
    root: Node | None = None  # itself, if it is one
    parent: Node | None = None
    step: tuple[int, tuple[int, ...]] | None = None  # a transition, and its processes in the parent's names
    names: dict[int, int] = field(default_factory=dict)  # the parent's and the step's processes, in this cube's names
    guess: bool = False
    unsafe: int | None = None  # which unsafe states a root is, or None for an invariant or a guess
    gone: bool = False

    @property
    def origin(self) -> Node:
        """The root that it comes from."""
        return self.root or self

    def way(self) -> list[Node]:
        """From here to the root."""
        out, node = [self], self
        while node.parent is not None:
            node = node.parent
            out.append(node)
        return out


@dataclass
class Outcome:
    """How a search ended: an invariant, or a node in which a run begins."""

    cubes: list[Cube] | None = None
    reached: Node | None = None
    visited: int = 0
    restarts: int = 0


class Backward:
    """The search."""

    def __init__(
        self,
        compiled: Compiled,
        budget: Budget,
        *,
        guesser: Guesser | None = None,
        shortest: bool = False,
        most_literals: int = 3,
        believed: Callable[[Node], bool] = lambda node: True,
    ) -> None:
        """``believed`` says of a node of the unsafe states in which a run begins whether it is a run; else it goes on
        (and ends, at best, with nothing proved)."""
        self.compiled, self.budget, self.guesser, self.shortest = compiled, budget, guesser, shortest
        self.most_literals, self.believed = most_literals, believed
        self.layout = compiled.layout
        self.bad: set[Cube] = set()
        self.restarts = self.count = 0
        self.deepest: int | None = None  # no further than so many steps
        self.spurious = 0
        self.disproved: list[int] = []  # invariants that do not hold
        self._tick = count()

    def roots(self) -> list[Node]:
        """The unsafe states."""
        out = []
        for i, states in enumerate(self.compiled.system.unsafe):
            out += [Node(cube, 0, unsafe=i) for cube in self.compiled.states(states)]
        return out

    def run(self, guesses: Iterable[Node] = ()) -> Outcome:
        """Search until it ends; wrong guesses are taken back."""
        kept = list(guesses)
        while True:
            made: list[Node] = []
            found = self._once(kept, made)
            if found is None:
                return Outcome(self._cubes, None, self.count, self.restarts)
            if found.origin.unsafe is not None:
                return Outcome(None, found, self.count, self.restarts)
            wrong = found.origin
            self.restarts += 1
            self.bad.add(wrong.cube)
            kept = [
                Node(n.cube, 0, guess=True)
                for n in dict.fromkeys(kept + made)
                if n is not wrong and n.cube not in self.bad
            ]

    def _priority(self, node: Node) -> tuple[int, ...]:
        cube = node.cube
        if self.shortest:
            return node.depth, cube.width, 0, next(self._tick)
        return cube.width, self.layout.size(cube), node.depth, next(self._tick)

    def _once(self, guesses: Sequence[Node], made: list[Node]) -> Node | None:
        """One search; the node in which a run begins, or None at the fixpoint."""
        visited = Visited(self.layout)
        nodes: dict[int, Node] = {}
        waiting: list[tuple[tuple[int, ...], Node]] = []
        seen: set[Cube] = set()
        for node in [*guesses, *self.roots()]:
            heapq.heappush(waiting, (self._priority(node), node))
        removed = 0
        while waiting:
            _, node = heapq.heappop(waiting)
            if node.parent is not None and node.parent.gone:
                node.gone = True
                continue
            self.count += 1
            if self.count % 16 == 0:
                self.budget.look(self.count, len(waiting))
            if self.compiled.starts_in(node.cube):
                if node.origin.unsafe is None or self.believed(node):
                    return node
                self.spurious += 1
            if visited.covers(node.cube) or (visited.cover_together(node.cube) and not self.shortest):
                continue
            if self.guesser is not None and not node.guess:
                node = self._general(node, made)
            for number in list(visited.covered_by(node.cube)):
                nodes[number].gone = True
                visited.remove(number)
                removed += 1
            if removed > 50:
                visited.compact()
                removed = 0
            nodes[visited.add(node.cube)] = node
            if self.deepest is not None and node.depth >= self.deepest:
                continue
            for b in before(self.compiled, node.cube):
                if b.cube in seen:
                    continue
                seen.add(b.cube)
                child = Node(b.cube, node.depth + 1, node.origin, node, (b.transition, b.chosen), b.names)
                if not self.shortest and visited.covers(b.cube) and not self.compiled.starts_in(b.cube):
                    continue
                heapq.heappush(waiting, (self._priority(child), child))
        if self.spurious:
            raise CutShort("a run that would need some processes to stop was found, and no other one")
        self._cubes = list(visited.cubes.values())
        return None

    def _general(self, node: Node, made: list[Node]) -> Node:
        """The smallest part of a node that was never seen, if there is one."""
        for cube in candidates(
            self.compiled, node.cube, self.guesser.processes if self.guesser else 0, self.most_literals
        ):
            if cube in self.bad or self.compiled.starts_in(cube):
                continue
            assert self.guesser is not None
            if not self.guesser.seen(cube):
                guess = Node(cube, 0, guess=True)
                made.append(guess)
                return guess
        return node


def candidates(compiled: Compiled, cube: Cube, processes: int, most: int) -> list[Cube]:
    """Parts of a cube, the most general ones first: few processes, few literals."""
    layout = compiled.layout
    literals = [Cube(excluded << f.shift, NOTHING, cube.width) for f, excluded in layout.touched(cube.bits)]
    literals += [Cube(0, frozenset([a]), cube.width) for a in cube.atoms]
    out: dict[Cube, tuple[int, int]] = {}
    for size in range(1, min(most, len(literals) - 1) + 1):
        for chosen in combinations(literals, size):
            bits, atoms = 0, NOTHING
            for c in chosen:
                bits |= c.bits
                atoms |= c.atoms
            part = layout.tidy(Cube(bits, atoms, cube.width))[0]
            if part.width <= processes and part not in out:
                out[part] = (part.width, size)
    return sorted(out, key=lambda c: out[c])
