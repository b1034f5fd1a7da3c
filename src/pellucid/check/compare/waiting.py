"""Whether what one pipeline has put out comes in the other in the end: the half of sequence equivalence that speaks of
for ever.

Only runs count in which each source brings events again and again.  Proved by a number of **rounds** (in a round each
source brings an event at least once) within which something is compared as long as anything waits; refuted by a run
that repeats: a way, and a loop in which each source brings an event, and in which one of the two speaks while the other
does not, or something waits and nothing is compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pellucid.check.advice import suggested
from pellucid.check.answer import Answer
from pellucid.check.compare.race import Pair, Race
from pellucid.check.decide import Options, decide, decide_invariant, listable
from pellucid.check.explicit.fair import accepting_lasso
from pellucid.check.explicit.search import explore
from pellucid.check.formula import FALSE, TRUE, And, Atom, F, Formula, G, Not, Or
from pellucid.check.formula.buchi import automaton
from pellucid.check.system.build import System
from pellucid.check.system.cells import Cells
from pellucid.check.system.cone import cone
from pellucid.check.system.variable import Slot
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, INT, simplest
from pellucid.internal.model.budget import Budget

_ROUNDS = (1, 2, 4, 8, 16)
_PART = 2000  # states that are searched for a loop where there are too many


def _fair(comes: Sequence[Expr]) -> list[Formula]:
    return [G(F(Atom(e, f"source {i}"))) for i, e in enumerate(comes)]


def fair_lasso(system: System, bad: Formula, options: Options) -> tuple[str, Answer | None]:
    """A run that satisfies a formula of LTL: ``"found"`` with it, ``"none"`` if there is none, or ``"unknown"``.

    Where the events cannot be listed, a few are tried that tell the pipelines' cases apart.
    """
    atoms = bad.atoms()
    roots = [a.body for a in atoms if isinstance(a.body, Expr)]
    small, observed = cone(system, roots)
    whole = listable(small, observed)
    if not whole:
        events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
        few = dataclasses.replace(
            system, domain=dataclasses.replace(system.domain, values=tuple(sorted(events, key=abs)))
        )
        small, observed = cone(few, roots)
        if not listable(small, observed):
            return "unknown", None
    endless = any(v.type == INT and v.size is None for v in small.state)
    many = min(options.max_states, 50_000) if endless else options.max_states
    space = explore(small, observed, budget=Budget(options.left, many if whole else _PART))
    if not space.complete:
        space = explore(small, observed, budget=Budget(max_states=_PART))
    found = accepting_lasso(space, automaton(bad), {a: i for i, a in enumerate(atoms)})
    details = {"states": space.count, "variables": len(small.state)}
    if found is not None:
        choices, loop = found
        return "found", Answer("refuted", "explicit, automaton", space.pushes(choices), loop, details=details)
    return "none" if whole and space.complete else "unknown", None


def _atom(e: Expr, words: str) -> Formula:
    if e.op == "const":
        return TRUE if e.value else FALSE
    return Atom(e, words)


def falls_silent(both: Pair, options: Options) -> Answer | None:
    """A run in which one of the two falls silent for ever while the other speaks again and again."""
    first, second = (_atom(both.speaks(slots), words) for slots, words in ((both.first, "1"), (both.second, "2")))
    one = And(G(F(first)), F(G(Not(second))))
    other = And(G(F(second)), F(G(Not(first))))
    bad = And(And(*_fair(both.comes), G(Not(_atom(both.system.overflow, "overflow")))), Or(one, other))
    return fair_lasso(both.system, bad, options)[1]


def waits_for_ever(race: Race, options: Options) -> tuple[str, Answer | None]:
    """A run in which from some push on something waits and nothing is compared."""
    return fair_lasso(race.system, And(*_fair(race.comes), F(G(_atom(race.stuck, "waits")))), options)


def trapped(race: Race, options: Options) -> Answer | None:
    """A state that can be reached and in which something waits for ever, whatever comes."""
    if race.system.assume is not n.TRUE:
        return None  # what comes then must be such as is assumed
    goes_on = Not(_atom(race.stuck, "waits"))
    answer = decide(race.system, Formula("AG", (Formula("EF", (goes_on,)),)), options)
    if answer.status != "refuted" or answer.pushes is None:
        return None
    # Whatever comes then: to be a run of those that count, an event of each source, again and again.
    event = {name: t.event([_some(race.system, kind) for _, kind in t.leaves()]) for name, t in race.system.sources}
    note = "after these pushes it never does, whatever comes"
    return dataclasses.replace(answer, pushes=[*answer.pushes, event], loop=len(answer.pushes), notes=(note,))


def _some(system: System, kind: Any) -> Any:
    pool = system.domain.leaf(kind)
    return pool[0] if pool else simplest(kind)


def again_and_again(both: Pair, slots: Sequence[Slot], options: Options) -> bool:
    """Whether it is proved that one of the two speaks again and again in every run that counts."""
    speaks = both.speaks(slots)
    found, _ = fair_lasso(both.system, And(*_fair(both.comes), F(G(Not(_atom(speaks, "speaks"))))), options)
    if found != "unknown":
        return found == "none"
    return within_rounds(both.system, n.not_(speaks), both.comes, options) is not None


@n.values_only()
def within_rounds(system: System, waits: Expr, comes: Sequence[Expr], options: Options) -> int | None:
    """A number of rounds within which, as it is proved, waiting comes to an end in every run; None if none is found."""
    for rounds in _ROUNDS:
        cells = Cells(system)
        age = cells.add("rounds", INT, 0, size=rounds + 1)
        done, seen = n.TRUE, []
        for i, e in enumerate(comes):
            came = cells.add(f"came{i}", BOOL, False) if len(comes) > 1 else n.FALSE
            seen.append((came, n.or_(came, e)))
            done = n.and_(done, seen[-1][1])
        older = n.ite(n.lt(age, n.const(rounds)), n.add(age, n.const(1)), age)
        now = n.ite(waits, n.ite(done, older, age), n.const(0))
        cells.follow(age, now)
        for came, after in seen:
            if came is not n.FALSE:
                cells.follow(came, n.and_(n.and_(waits, n.not_(done)), after))
        # What waits after a push may have come in it: it waits for the rounds that follow.
        extended, (late,) = cells.done([n.and_(waits, n.eq(now, n.const(rounds)))])
        answer = decide_invariant(extended, n.not_(late), options)
        if answer.status == "proved":
            return rounds
        if answer.status == "unknown":
            return None
    return None
