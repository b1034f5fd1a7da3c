"""One step back: from which states a transition leads into a cube.

A transition's processes are any distinct ones, those that the cube names or others.  A guard that speaks of *all other*
processes is kept for the processes that are named and forgotten for the rest, as Cubicle does: it is as if the rest had
stopped before.  So what comes out may be too much, never too little; a run that exists only because of that is found
out when it is replayed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, count, product
from typing import NamedTuple, Protocol

from pellucid.capacity.arrays.cubes import (
    EQ,
    LE,
    LT,
    MOST_PROCESSES,
    NOTHING,
    Atom,
    Cube,
    Field,
    Layout,
    Variable,
    Visited,
    forget,
    reduced,
    substitute,
    variables,
)
from pellucid.capacity.arrays.formulas import TRUE, Alternatives, Compiled, merged
from pellucid.internal.model.search import Budget, CutShort


class Before(NamedTuple):
    """States before a transition: its number, its processes in the names of the cube after it, and how those (and the
    cube's own) are named in the new cube; a name that is missing there can be any process."""

    cube: Cube
    transition: int
    chosen: tuple[int, ...]
    names: dict[int, int]


@cache
def choices(count: int, parameters: int) -> tuple[tuple[int, ...], ...]:
    """Who the parameters can be: those that are named, or new ones, which come in order.

    >>> choices(1, 2)
    ((1, 2), (2, 1), (2, 3))
    """
    out: list[tuple[int, ...]] = []

    def extend(chosen: tuple[int, ...], fresh: int) -> None:
        if len(chosen) == parameters:
            out.append(chosen)
            return
        for p in range(1, count + 1):
            if p not in chosen:
                extend((*chosen, p), fresh)
        extend((*chosen, fresh), fresh + 1)

    extend((), count + 1)
    return tuple(out)


def before(compiled: Compiled, cube: Cube) -> Iterator[Before]:
    """All cubes one step before."""
    layout = compiled.layout
    touched = list(layout.touched(cube.bits))
    variables = sorted({v for a in cube.atoms for v, _ in a[2] if v[0] != "#"})
    names = {f.place[0] for f, _ in touched} | {v[0] for v in variables}
    for t, updated in enumerate(compiled.updated):
        if names.isdisjoint(updated):
            continue
        for chosen in choices(cube.width, compiled.parameters[t]):
            for found in _before(compiled, cube, touched, variables, t, chosen):
                lasting = compiled.unchanging(found)
                if lasting is None:
                    continue
                if len(lasting.atoms) > 1:
                    lasting = lasting._replace(atoms=reduced(lasting.atoms))
                tidy, new = layout.tidy(lasting)
                yield Before(tidy, t, chosen, new)


def _before(
    compiled: Compiled,
    cube: Cube,
    touched: list[tuple[Field, int]],
    variables: list[Variable],
    t: int,
    chosen: tuple[int, ...],
) -> list[Cube]:
    layout = compiled.layout
    bits, clauses, changed = cube.bits, list[list[Cube]](), False
    updated = compiled.updated[t]
    for f, excluded in touched:
        if f.place[0] not in updated:
            continue
        alternatives = compiled.effect(t, chosen, f.place)
        if alternatives is None:
            continue
        changed = True
        bits &= ~f.full
        clause = _cell_before(compiled, alternatives, f, excluded)
        if not clause:
            return []
        if clause != [TRUE]:
            clauses.append(clause)
    effects = {v: e for v in variables if v[0] in updated and (e := compiled.effect(t, chosen, v)) is not None}
    if not changed and not effects:
        return []
    count = max(cube.width, *chosen) if chosen else cube.width
    if count > MOST_PROCESSES:
        raise CutShort(f"a cube with more than {MOST_PROCESSES} processes")
    guard = compiled.guard(t, chosen, count)
    if guard is None:
        return []
    if effects:
        bases = _numbers_before(compiled, cube, bits, count, effects)
    elif cube.atoms:
        base = layout.settled(Cube(bits, cube.atoms, count))
        bases = [] if base is None else [base]
    else:
        bases = [Cube(bits, cube.atoms, count)]
    for clause in sorted(clauses + guard, key=len):
        bases = layout.product(bases, clause)
        if not bases:
            return []
    return merged(layout, bases) if len(bases) > 1 else bases


def _cell_before(compiled: Compiled, alternatives: Alternatives, f: Field, excluded: int) -> list[Cube]:
    """How a cell of a finite type can have one of the values that are not excluded."""
    layout, out = compiled.layout, list[Cube]()
    for condition, value in alternatives:
        if value.anything:
            out += condition
        elif value.constructor is not None:
            if not excluded >> layout.values[f.place[0]].index(value.constructor) & 1:
                out += condition
        elif value.process is not None:
            if not excluded >> value.process & 1:
                out += condition
        else:
            assert value.place is not None
            allowed = ~excluded & ((1 << f.width) - 1)
            if not f.of_process:
                mine, theirs = layout.values[f.place[0]], layout.values[value.place[0]]
                allowed = sum(1 << i for i, v in enumerate(theirs) if allowed >> mine.index(v) & 1)
            out += layout.product(condition, compiled.among(value.place, allowed))
    return merged(layout, out) if len(out) > 1 else out


def _numbers_before(
    compiled: Compiled, cube: Cube, bits: int, count: int, effects: dict[Variable, Alternatives]
) -> list[Cube]:
    """The atoms with what each variable becomes put in: first what may be anything is forgotten."""
    layout, out = compiled.layout, list[Cube]()
    for combination in product(*effects.values()):
        atoms, known = cube.atoms, {}
        for v, (_, value) in zip(effects, combination, strict=True):
            if value.anything:
                atoms = forget(atoms, v, layout.whole)
            else:
                known[v] = compiled.combination(value)
        new, possible = set(), True
        for a in atoms:
            made = substitute(a, known, layout.whole)
            if made is False:
                possible = False
                break
            if made is not True:
                new.add(made)
        base = layout.settled(Cube(bits, frozenset(new), count)) if possible else None
        cubes = [] if base is None else [base]
        for condition, _ in combination:
            cubes = layout.product(cubes, condition)
        out += cubes
    return out


# Backward reachability: from the unsafe states back, until nothing new comes or a run can begin there.
#
# With an *oracle* (`oracle.Oracle`: the states that a few processes really reach) a node is first made more general:
# the smallest part of it that the oracle never saw takes its place, as in BRAB (Conchon, Goel, Krstić, Mebsout, Zaïdi,
# 2013).  Such a *guess* has to be proved with everything else.  If a run begins in it, it was wrong: it is noted, and
# the search starts again with the other guesses.  What is left at the end is an inductive invariant, however it was
# guessed.


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
        numbers: bool = False,
        believed: Callable[[Node], bool] = lambda node: True,
    ) -> None:
        """``numbers``: guesses may speak of integers.  ``believed`` says of a node of the unsafe states in which a run
        begins whether it is a run; else the search continues (and ends, at best, with nothing proved)."""
        self.compiled, self.budget, self.guesser, self.shortest = compiled, budget, guesser, shortest
        self.most_literals, self.numbers, self.believed = most_literals, numbers, believed
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
        nodes: dict[int, Node] = {}
        waiting: list[tuple[tuple[int, ...], Node]] = []
        visited = Visited(self.layout, lambda: self.budget.look(self.count, len(waiting)))
        seen: dict[Cube, Node] = {}
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
                earlier = seen.get(b.cube)
                # one that waits or was visited; one that goes with its parent has its place taken by this one
                there = earlier is not None and not (earlier.gone or (earlier.parent or earlier).gone)
                if there and not (self.shortest and self.compiled.starts_in(b.cube)):
                    continue
                seen[b.cube] = child = Node(
                    b.cube, node.depth + 1, node.origin, node, (b.transition, b.chosen), b.names
                )
                if not self.shortest and visited.covers(b.cube) and not self.compiled.starts_in(b.cube):
                    continue
                heapq.heappush(waiting, (self._priority(child), child))
        if self.spurious:
            raise CutShort("a run that would need some processes to stop was found, and no other one")
        self._cubes = list(visited.cubes.values())
        return None

    def _general(self, node: Node, made: list[Node]) -> Node:
        """The smallest part of a node that was never seen, if there is one."""
        guesser, compiled = self.guesser, self.compiled
        assert guesser is not None
        for cube in candidates(compiled, self._spoken(node.cube), guesser.processes, self.most_literals, node.cube):
            if cube in self.bad or compiled.starts_in(cube) or guesser.seen(cube):
                continue
            break
        else:
            found = self._shrunk(self._spoken(node.cube))
            if found is None:
                return node
            cube = found
        guess = Node(cube, 0, guess=True)
        made.append(guess)
        return guess

    def _spoken(self, cube: Cube) -> Cube:
        """What guesses may speak of: integers grow, and a few processes do not show how far."""
        of = self.compiled.system.type_of
        if not cube.atoms:
            return cube
        if self.numbers:
            atoms = cube.atoms
            for v in sorted(variables(cube.atoms)):  # what follows of the others, without one of them
                if v[0] != "#" and of(v[0]) in ("int", "real"):
                    atoms |= forget(cube.atoms, v, self.layout.whole)
            return cube._replace(atoms=atoms)
        kept = frozenset(a for a in cube.atoms if all(v[0] == "#" or of(v[0]) not in ("int", "real") for v, _ in a[2]))
        return cube._replace(atoms=kept)

    def _shrunk(self, cube: Cube) -> Cube | None:
        """A part of a cube that was never seen and is seen if anything is left out: literals go one after another."""
        guesser, layout = self.guesser, self.layout
        assert guesser is not None

        def fine(part: Cube) -> bool:
            small = layout.tidy(part)[0]
            return (
                small.width <= guesser.processes
                and small not in self.bad
                and not self.compiled.starts_in(small)
                and not guesser.seen(small)
            )

        for few in combinations(range(1, cube.width + 1), min(guesser.processes, cube.width)):
            part = _about(layout, cube, set(few))
            if layout.tidy(part)[0] == cube or not fine(part):
                continue
            for literal in _literals(layout, part):
                less = Cube(part.bits & ~literal.bits, part.atoms - literal.atoms, part.width)
                if fine(less):
                    part = less
            return layout.tidy(part)[0]
        if cube.width > guesser.processes or not fine(cube):
            return None
        part = cube
        for literal in _literals(layout, cube):
            less = Cube(part.bits & ~literal.bits, part.atoms - literal.atoms, part.width)
            if fine(less):
                part = less
        return layout.tidy(part)[0] if part != cube else None


def _literals(layout: Layout, cube: Cube) -> list[Cube]:
    found = [Cube(excluded << f.shift, NOTHING, cube.width) for f, excluded in layout.touched(cube.bits)]
    return found + [Cube(0, frozenset([a]), cube.width) for a in sorted(cube.atoms)]


def _about(layout: Layout, cube: Cube, few: set[int]) -> Cube:
    """What a cube says of some processes only."""
    bits = 0
    for f, excluded in layout.touched(cube.bits):
        if few.issuperset(f.place[1:]):
            bits |= excluded << f.shift
    atoms = frozenset(a for a in cube.atoms if all(few.issuperset(v[1:]) for v, _ in a[2]))
    return Cube(bits, atoms, cube.width)


def candidates(compiled: Compiled, cube: Cube, processes: int, most: int, whole: Cube) -> list[Cube]:
    """Parts of a cube, the most general ones first: few processes, few literals; statements about numbers
    also in weaker forms."""
    layout = compiled.layout
    groups = [[c] for c in _literals(layout, cube._replace(atoms=NOTHING))]
    of = compiled.system.type_of
    for a in sorted(cube.atoms):
        number = any(v[0] != "#" and of(v[0]) in ("int", "real") for v, _ in a[2])
        groups.append([Cube(0, frozenset([w]), cube.width) for w in (weaker(a) if number else [a])])
    out: dict[Cube, tuple[int, int, int]] = {}
    for size in range(1, min(most, len(groups) - (cube == whole and not cube.atoms)) + 1):
        for chosen in combinations(groups, size):
            for variant, literals in enumerate(product(*chosen)):
                bits, atoms = 0, NOTHING
                for c in literals:
                    bits |= c.bits
                    atoms |= c.atoms
                part = layout.tidy(Cube(bits, atoms, cube.width))[0]
                if part.width <= processes and part not in out and part != whole:
                    out[part] = (part.width, size, variant)
    return sorted(out, key=lambda c: out[c])


def weaker(a: Atom) -> list[Atom]:
    """What follows from an atom about numbers, the weakest first: a constant nearer to 0, one side of an equation.

    >>> from pellucid.capacity.arrays.cubes import atom_text
    >>> [atom_text(w) for w in weaker((EQ, -2, ((("X",), 1), (("Y",), -1))))]
    ['Y < X', 'Y + 1 < X', 'Y + 2 <= X', 'X <= Y + 2', 'X = Y + 2']
    """
    op, number, factors = a
    minus = tuple((v, -c) for v, c in factors)
    if op == EQ:
        return [*weaker((LE, -number, minus)), *weaker((LE, number, factors)), a]
    if op not in (LE, LT) or number <= 1:
        return [a]
    return [(LT, 0, factors), *([(LT, 1, factors)] if number > 1 else []), a]
