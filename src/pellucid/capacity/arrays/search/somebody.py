"""What is true of somebody: statements that no cube can make, found where a guard speaks of everybody.

Backwards, a guard about *all other* processes is forgotten for those that are not named, as if they had stopped.  So a
run may be found in which the owner of a line has stopped, and another one is given the line as if nobody had it.  What
forbids that is a statement such as *whenever the line is granted, somebody is in the set of sharers*: the states in
which it is granted and **everybody** is outside that set are never reached.  Candidates are made from the guards
(everybody is so) and from the values of variables; those that a few processes never reached and that the checker of
certificates accepts by themselves are used from then on: wherever the guard says that everybody is so, the variables do
not have these values.  As with any proof, the checker has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice, product
from typing import NamedTuple

from pellucid.capacity.arrays.certificate import check_certificate
from pellucid.capacity.arrays.language import system as y
from pellucid.capacity.arrays.search.compiled import Compiled, conjuncts
from pellucid.capacity.arrays.search.oracle import Oracle
from pellucid.capacity.arrays.search.told import impossible, renamed
from pellucid.internal.model.budget import Budget, CutShort

_WHO = "y1"
_MOST, _TRIED = 3, 60  # lemmas that are used, and candidates that are looked at


class Lemma(NamedTuple):
    """States that are never reached: everybody is so, and variables have these values; and the transitions whose guard
    says that everybody is so."""

    states: y.States
    values: y.Formula
    transitions: tuple[int, ...]


def of_everybody(compiled: Compiled, t: int) -> list[y.Formula]:
    """What the guard of a transition says of everybody, its own processes and all others: formulas about ``y1``.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition go (x) requires { X[x] = False && forall_other y. X[y] = False } { X[x] := True }"
    ...               "transition stay (x) requires { forall_other y. X[y] = False } { X[x] := True }")
    >>> compiled = Compiled(s)
    >>> [[len(of_everybody(compiled, t))] for t in (0, 1)]
    [[1], [0]]
    """
    transition = compiled.system.transitions[t]
    own = tuple(range(compiled.layout.rigid + 1, compiled.layout.rigid + len(transition.parameters) + 1))
    guard = compiled.guard(t, own, compiled.layout.rigid + len(own))
    if guard is None:
        return []
    (simple,), out = guard[0], list[y.Formula]()
    for part in conjuncts(transition.requires):
        if not isinstance(part, y.Quantified) or part.kind != "forall" or len(part.names) != 1:
            continue
        for inner in conjuncts(part.part):
            said = renamed(inner, {part.names[0]: _WHO})
            if any(isinstance(p, y.Quantified) for p in y.inside(inner)) or not _about(said, {_WHO}):
                continue
            if not part.other or all(
                any(compiled.layout.covers(cube, simple) for cube in compiled.cubes(said, {_WHO: p}, len(own)))
                for p in own
            ):
                out.append(said)
    return out


def _about(formula: y.Formula, names: set[str]) -> bool:
    """Whether a formula speaks of these processes only, and of one of them at all."""
    found = {
        name
        for part in y.inside(formula)
        if isinstance(part, y.Compare)
        for term in (part.left, part.right)
        for name in y.processes_of(term)
    }
    return bool(found) and found <= names


def _values(compiled: Compiled, size: int) -> Iterator[tuple[y.Compare, ...]]:
    """What so many variables may be."""
    system = compiled.system
    changed = {u.name for t in system.transitions for u in t.updates}
    each = [
        [y.Compare("=", y.Cell(name), y.Value(value)) for value in compiled.layout.values[name]]
        for name, of in system.variables
        if name in changed and system.values(of)
    ]
    for chosen in combinations(each, size):
        yield from product(*chosen)


def candidates(compiled: Compiled, oracles: Sequence[Oracle], budget: Budget) -> Iterator[Lemma]:
    """What a few processes never reached, as long as there is time: about one variable, then about two."""
    said: dict[y.Formula, list[int]] = {}
    for t in range(len(compiled.system.transitions)):
        for formula in of_everybody(compiled, t):
            said.setdefault(formula, []).append(t)
    known: dict[y.Formula, list[frozenset[y.Compare]]] = {formula: [] for formula in said}
    for size in (1, 2):
        for formula, transitions in said.items():
            for values in _values(compiled, size):
                if budget.over:
                    return
                if any(less <= set(values) for less in known[formula]):
                    continue
                useful = tuple(t for t in transitions if _possible(compiled, t, values))
                states = y.States((), y.And((*values, y.Quantified("forall", False, (_WHO,), formula))))
                if useful and not any(oracle.reached(states) for oracle in oracles):
                    known[formula].append(frozenset(values))
                    yield Lemma(states, y.And(values) if size > 1 else values[0], useful)


def _possible(compiled: Compiled, t: int, values: Sequence[y.Compare]) -> bool:
    """Whether a guard leaves it open that variables have these values."""
    own = tuple(range(compiled.layout.rigid + 1, compiled.layout.rigid + compiled.parameters[t] + 1))
    guard = compiled.guard(t, own, compiled.layout.rigid + len(own))
    if guard is None:
        return False
    cubes = compiled.layout.product([guard[0][0]], compiled.cubes(y.And(tuple(values)), {}, 0))
    return bool(cubes)


def lemmas(compiled: Compiled, oracles: Sequence[Oracle], budget: Budget) -> list[Lemma]:
    """Those that are never reached, by the checker of certificates: each with those before it."""
    safe = replace(compiled.system, unsafe=())
    known, out = impossible(compiled), list[Lemma]()
    for lemma in islice(candidates(compiled, oracles, budget), _TRIED):
        try:
            fault = check_certificate(safe, [*known, lemma.states], budget)
        except CutShort:  # not known: then it is not used
            continue
        if fault is None:
            out.append(lemma)
            known.append(lemma.states)
            if len(out) == _MOST:
                break
    return out
