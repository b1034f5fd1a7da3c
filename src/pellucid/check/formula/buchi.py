"""LTL, with past, to Büchi automata: small, and tested against the definition on every short lasso.

The construction is a tableau with acceptance on transitions (Couvreur 1999; Gastin and Oddoux 2001), in three parts:

1. A **state** is a set of formulas that the rest of the word must satisfy.  Taking a step splits each of them into
   what must hold now (literals) and what must hold next, by the laws ``p U q = q | p & X (p U q)`` and so on.  A step
   that puts an until off *promises* it; a run is accepting if each until is not promised infinitely often.
2. The **past** is remembered: a state also knows, for each ``Y p`` and ``p S q`` that its formulas mention, whether
   ``p`` (or ``p S q``) held in the step before.  What to remember of a step is guessed and added, as it is or negated,
   to what must hold in it; so a past operator may stand over a future one, too.
3. The promises are **counted** (degeneralised): a state gets a level that rises when the next promise is kept; the
   last level accepts.

A step is dropped when another asks for less now, next and in promises: a run that follows the lesser step fulfils
its untils no later.  States with the same future are merged, states without an accepting run are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pellucid.check.formula.nodes import CTL, FALSE, TRUE, And, Formula, Not, Or, S, U, X, Y
from pellucid.errors import UsageError
from pellucid.internal.model import components

# Büchi automata: what they are, and how they are made small.

Guard: TypeAlias = tuple[frozenset[Formula], frozenset[Formula]]  # all of these hold, none of those


@dataclass(frozen=True)
class Buchi:
    """A Büchi automaton: it accepts a run that passes accepting states again and again.

    A transition ``(source, (positive, negative), target)`` may be taken in a step in which all positive atoms hold and
    no negative one does.
    """

    states: int
    initial: frozenset[int]
    transitions: tuple[tuple[int, Guard, int], ...]
    accepting: frozenset[int]
    atoms: tuple[Formula, ...]

    def outgoing(self) -> list[list[tuple[Guard, int]]]:
        """The transitions from each state."""
        out: list[list[tuple[Guard, int]]] = [[] for _ in range(self.states)]
        for source, guard, target in self.transitions:
            out[source].append((guard, target))
        return out

    def __str__(self) -> str:
        lines = [f"{self.states} states, initial {sorted(self.initial)}, accepting {sorted(self.accepting)}"]
        for source, (yes, no), target in self.transitions:
            guard = " & ".join(sorted(map(str, yes)) + sorted(f"!{a}" for a in no)) or "true"
            lines.append(f"{source} → {target}: {guard}")
        return "\n".join(lines)


def tidy(
    size: int, initial: set[int], edges: list[tuple[int, Guard, int]], accepting: set[int], atoms: tuple[Formula, ...]
) -> Buchi:
    """The automaton without dead and unreachable states, equal ones merged, numbered in the order of a walk."""
    numbers = {a: i for i, a in enumerate(atoms)}
    live = _live(size, edges, accepting)
    edges = [e for e in edges if e[0] in live and e[2] in live]
    # A state that is on no cycle may be called accepting or not: here it is not, so that more can be merged.
    kept = accepting & _cyclic(size, edges)
    block = _merge(size, edges, kept)
    merged: dict[int, dict[int, set[Guard]]] = {}
    for source, guard, target in edges:
        merged.setdefault(block[source], {}).setdefault(block[target], set()).add(guard)
    order = list(dict.fromkeys(block[q] for q in sorted(initial & live)))
    starts = len(order)
    for q in order:
        order += [t for t in sorted(merged.get(q, {})) if t not in order]
    place = {q: i for i, q in enumerate(order)}

    def key(guard: Guard) -> tuple[list[int], list[int]]:
        return sorted(numbers[a] for a in guard[0]), sorted(numbers[a] for a in guard[1])

    transitions = []
    for q in order:
        for t, guards in sorted(merged.get(q, {}).items(), key=lambda item: place[item[0]]):
            least = [g for g in guards if not any(h != g and h[0] <= g[0] and h[1] <= g[1] for h in guards)]
            transitions += [(place[q], guard, place[t]) for guard in sorted(least, key=key)]
    final = frozenset(place[block[q]] for q in kept if block[q] in place)
    return Buchi(len(order), frozenset(range(starts)), tuple(transitions), final, atoms)


def _live(size: int, edges: list[tuple[int, Guard, int]], accepting: set[int]) -> set[int]:
    """The states from which an accepting state on a cycle can be reached."""
    into: list[list[int]] = [[] for _ in range(size)]
    for source, _, target in edges:
        into[target].append(source)
    out = set(accepting & _cyclic(size, edges))
    todo = list(out)
    while todo:
        for q in into[todo.pop()]:
            if q not in out:
                out.add(q)
                todo.append(q)
    return out


def _cyclic(size: int, edges: list[tuple[int, Guard, int]]) -> set[int]:
    """The states that lie on a cycle: those in a strongly connected component with an edge inside."""
    follow: list[list[int]] = [[] for _ in range(size)]
    for source, _, target in edges:
        follow[source].append(target)
    alone = {s for s, _, t in edges if s == t}
    return alone.union(*(part for part in components(dict(enumerate(follow))) if len(part) > 1))


def _merge(size: int, edges: list[tuple[int, Guard, int]], accepting: set[int]) -> list[int]:
    """The coarsest partition whose states have the same guards to the same blocks: a block number for each state."""
    outgoing: list[list[tuple[Guard, int]]] = [[] for _ in range(size)]
    for source, guard, target in edges:
        outgoing[source].append((guard, target))
    block = [int(q in accepting) for q in range(size)]
    while True:
        looks = [(block[q], frozenset((guard, block[t]) for guard, t in outgoing[q])) for q in range(size)]
        number = {look: i for i, look in enumerate(dict.fromkeys(looks))}
        new = [number[look] for look in looks]
        if len(number) == len(set(block)):
            return new
        block = new


Set: TypeAlias = frozenset[Formula]
NONE: Set = frozenset()


def automaton(formula: Formula) -> Buchi:
    """The automaton that accepts exactly the runs on which an LTL formula holds.

    >>> from pellucid.check.formula.parse import parse
    >>> print(automaton(parse("G (in -> X out)")))
    2 states, initial [0], accepting [0, 1]
    0 → 0: !in
    0 → 1: true
    1 → 0: out & !in
    1 → 1: out
    """
    for part in formula.walk():
        if part.op in CTL:
            raise UsageError(f"a Büchi automaton is made of an LTL formula, found {part.op} in {formula}")
    initial, steps = _explore(_core(formula))
    untils = sorted({u for out in steps for t in out for u in t.promised}, key=str)
    size, starts, edges, accepting = _count(initial, steps, untils)
    return tidy(size, starts, edges, accepting, tuple(formula.atoms()))


# ---------------------------------------------------------------- the formula in a few operators


def _core(f: Formula) -> Formula:
    """The formula by ``true ! & | X U Y S`` alone, with constants folded away."""
    args = [_core(arg) for arg in f.args]
    match f.op, args:
        case ("!", [p]):
            return _not(p)
        case ("&", [p, q]):
            return _and(p, q)
        case ("|", [p, q]):
            return _or(p, q)
        case ("->", [p, q]):
            return _or(_not(p), q)
        case ("<->", [p, q]):
            return _or(_and(p, q), _and(_not(p), _not(q)))
        case ("X", [p]):
            return p if p in (TRUE, FALSE) else X(p)
        case ("F", [p]):
            return _until(TRUE, p)
        case ("G", [p]):
            return _not(_until(TRUE, _not(p)))
        case ("U", [p, q]):
            return _until(p, q)
        case ("R", [p, q]):
            return _not(_until(_not(p), _not(q)))
        case ("W", [p, q]):
            return _not(_until(_not(q), _and(_not(p), _not(q))))
        case ("Y", [p]):
            return FALSE if p == FALSE else Y(p)
        case ("O", [p]):
            return _since(TRUE, p)
        case ("H", [p]):
            return _not(_since(TRUE, _not(p)))
        case ("S", [p, q]):
            return _since(p, q)
    return f


def _not(p: Formula) -> Formula:
    if p in (TRUE, FALSE):
        return FALSE if p == TRUE else TRUE
    return p.args[0] if p.op == "!" else Not(p)


def _and(p: Formula, q: Formula) -> Formula:
    if FALSE in (p, q) or p == _not(q):
        return FALSE
    return q if p in (TRUE, q) else p if q == TRUE else And(p, q)


def _or(p: Formula, q: Formula) -> Formula:
    if TRUE in (p, q) or p == _not(q):
        return TRUE
    return q if p in (FALSE, q) else p if q == FALSE else Or(p, q)


def _until(p: Formula, q: Formula) -> Formula:
    if q in (TRUE, FALSE) or p in (FALSE, q) or (q.op == "U" and p == q.args[0]):
        return q
    return _until(TRUE, q.args[1]) if p == TRUE and q.op == "U" else U(p, q)  # F (p U q) = F q


def _since(p: Formula, q: Formula) -> Formula:
    if q in (TRUE, FALSE) or p in (FALSE, q) or (q.op == "S" and p == q.args[0]):
        return q
    return _since(TRUE, q.args[1]) if p == TRUE and q.op == "S" else S(p, q)


# ---------------------------------------------------------------- the tableau


@dataclass(frozen=True)
class _Step:
    """One way to take a step: what holds now, what must hold next, what is put off, what is remembered."""

    yes: Set = NONE
    no: Set = NONE
    next: Set = NONE
    promised: Set = NONE
    past: Set = NONE

    def asks_no_more_than(self, other: _Step) -> bool:
        return (
            self.past == other.past
            and self.yes <= other.yes
            and self.no <= other.no
            and self.next <= other.next
            and self.promised <= other.promised
        )


@dataclass(frozen=True)
class _Edge:
    guard: Guard
    promised: Set
    target: int


def _explore(formula: Formula) -> tuple[int, list[list[_Edge]]]:
    """The automaton with promises: from each state its steps; state 0 is initial."""
    start: tuple[Set, Set] = (frozenset({formula}) - {TRUE}, NONE)
    number = {start: 0}
    todo = [start]
    steps: list[list[_Edge]] = []
    for must, past in todo:  # grows while it is read
        out = []
        for step in _steps(must, past):
            state = step.next, step.past
            if state not in number:
                number[state] = len(todo)
                todo.append(state)
            out.append(_Edge((step.yes, step.no), step.promised, number[state]))
        steps.append(out)
    return 0, steps


def _remembered(formulas: Iterable[Formula]) -> list[Formula]:
    """What a state must know of the step before: the argument of each ``Y``, and each ``S`` itself."""
    parts = {part for f in formulas for part in f.walk() if part.op in ("Y", "S")}
    return sorted({part.args[0] if part.op == "Y" else part for part in parts}, key=str)


def _steps(must: Set, past: Set) -> list[_Step]:
    """All ways to take a step from a state, without those that ask for more than another does."""
    found: list[_Step] = []
    memory = _remembered(must)

    def guess(at: int, chosen: Set, base: Set) -> Iterator[_Step]:
        if at == len(memory):
            for step in _split(list(base), _Step(), past):
                wanted = set(_remembered(step.next))
                yield _Step(step.yes, step.no, step.next, step.promised, chosen & wanted)
            return
        p = memory[at]
        yield from guess(at + 1, chosen | {p}, base | {p})
        yield from guess(at + 1, chosen, base | {_not(p)})

    for step in guess(0, NONE, must):
        if not any(other.asks_no_more_than(step) for other in found):
            found = [other for other in found if not step.asks_no_more_than(other)] + [step]
    return found


def _split(todo: list[Formula], step: _Step, past: Set) -> Iterator[_Step]:
    """What must hold now, by cases: literals, next, promises."""
    yes, no, after = set(step.yes), set(step.no), set(step.next)
    todo, choices = list(todo), []
    while todo:
        f = todo.pop()
        sign = f.op != "!"
        g = f if sign else f.args[0]
        if g.op in ("true", "false"):
            if (g.op == "true") != sign:
                return
        elif g.op == "atom":
            if g in (no if sign else yes):
                return
            (yes if sign else no).add(g)
        elif g.op == "X":
            after.add(g.args[0] if sign else _not(g.args[0]))
        elif g.op == "Y":
            if (g.args[0] in past) != sign:
                return
        elif (g.op == "&") == sign and g.op in ("&", "|"):
            todo += g.args if sign else [_not(arg) for arg in g.args]
        else:
            choices.append(f)  # last, because by then it may be made already
    now = _Step(frozenset(yes), frozenset(no), frozenset(after), step.promised)
    while choices:
        f = choices.pop()
        sign = f.op != "!"
        g = f if sign else f.args[0]
        cases = _cases(g, sign, past)
        if any(not later and all(_known(p, now) for p in more) for more, later in cases):
            continue  # a case that asks for nothing more: the others ask for more than it does
        for more, later in cases:
            put_off = now.promised | {g} if later and sign else now.promised
            yield from _split(choices + more, _Step(now.yes, now.no, now.next | later, put_off), past)
        return
    yield now


def _known(f: Formula, step: _Step) -> bool:
    """Whether the step makes the formula true by itself."""
    return f in step.yes or (f.op == "!" and f.args[0] in step.no) or (f.op == "X" and f.args[0] in step.next)


def _cases(g: Formula, sign: bool, past: Set) -> list[tuple[list[Formula], Set]]:
    """A choice: each case is what must hold now, and what must hold next."""
    p, q = g.args
    if g.op in ("&", "|"):
        return [([p], NONE), ([q], NONE)] if sign else [([_not(p)], NONE), ([_not(q)], NONE)]
    if g.op == "U":
        if sign:
            return [([q], NONE), ([p], frozenset({g}))]
        return [([_not(q), _not(p)], NONE), ([_not(q)], frozenset({_not(g)}))]
    assert g.op == "S"
    if sign:
        return [([q], NONE), ([p], NONE)] if g in past else [([q], NONE)]
    return [([_not(q), _not(p)], NONE)] if g in past else [([_not(q)], NONE)]


# ---------------------------------------------------------------- from promises to accepting states


def _count(
    initial: int, steps: list[list[_Edge]], untils: list[Formula]
) -> tuple[int, set[int], list[tuple[int, Guard, int]], set[int]]:
    """Degeneralised: the level is how many untils, in order, have not been promised since the last round."""
    top = len(untils)
    number = {(initial, top): 0}
    todo = [(initial, top)]
    edges: list[tuple[int, Guard, int]] = []
    for q, level in todo:
        for edge in steps[q]:
            rise = level % top if top else 0
            while rise < top and untils[rise] not in edge.promised:
                rise += 1
            target = edge.target, rise
            if target not in number:
                number[target] = len(todo)
                todo.append(target)
            edges.append((number[q, level], edge.guard, number[target]))
    return len(todo), {0}, edges, {i for i, (_, level) in enumerate(todo) if level == top}
