"""One step back: from which states a transition leads into a cube.

A transition's processes are any distinct ones, those that the cube names or others.  A guard that speaks of *all other*
processes is kept for the processes that are named and forgotten for the rest, as Cubicle does: it is as if the rest had
stopped before.  So what comes out may be too much, never too little; a run that exists only because of that is found
out when it is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from pellucid.capacity.arrays.search.compiled import TRUE, Alternatives, Compiled, merged
from pellucid.capacity.arrays.search.cubes import MOST_PROCESSES, Cube, Field
from pellucid.capacity.arrays.search.linear import Variable, forget, reduced, substitute
from pellucid.internal.model.budget import CutShort


class Before(NamedTuple):
    """States before a transition: its number, its processes in the names of the cube after it, and how those (and the
    cube's own) are named in the new cube; a name that is missing there can be anybody."""

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
                lasting = compiled.lasts(found)
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
