"""All states of a network, once: what can become of it, what sticks, which properties break and by which shortest run.

No state comes twice, since each step writes into a log or uses something up, and ``!`` has a budget.  So where the
states are finitely many, a transaction can always still be decided (AG EF) exactly if it is decided in every state
without steps.  They are not where a child opens the message that its parent gave back by aborting, and makes the next
child: there the search is cut, and the answer unknown.  Often it is clear before the end that a transaction never will
be decided, however often ``!`` may unfold (`hopeless`): a run ends there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import TOO_DEEP, Atomic, Step
from pellucid.atomic.properties import USUAL, Judge
from pellucid.atomic.state import State
from pellucid.atomic.sticking import hopeless, lost
from pellucid.internal.model import Budget, CutShort, Search

Outcome: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"  # committed, aborted


@dataclass
class Explored:
    """What was found; ``cut`` says why it is not all."""

    machine: Atomic
    search: Search[State, Step]
    reachable: dict[Outcome, State] = field(default_factory=dict)
    final: dict[Outcome, State] = field(default_factory=dict)
    undecided: dict[Outcome, set[tuple[str, ...]]] = field(default_factory=dict)  # at such ends, children as well
    sticks: dict[str, State] = field(default_factory=dict)  # the nearest state from which it is never decided
    broken: dict[str, tuple[State, str]] = field(default_factory=dict)  # the nearest state, and why
    held_back: bool = False  # an unfolding of ! that the budget did not allow
    maybe: dict[str, State] = field(default_factory=dict)  # ends at which more unfoldings might decide it
    lost: dict[str, State] = field(default_factory=dict)  # messages that wait for ever, in words
    cut: str = ""

    def trace(self, at: State) -> list[str]:
        """A shortest run to a state, in words."""
        return [str(step) for step in self.search.way(at)]


def explore(machine: Atomic, properties: tuple[str, ...] = USUAL, budget: Budget | None = None) -> Explored:
    """Go through all states, nearest first.

    >>> from pellucid.atomic import parse
    >>> found = explore(Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | commit} | t2{receive(out c, (x) commit, 0)} ]''')))
    >>> sorted(found.final), found.trace(found.sticks["t2"]), found.broken
    ([(('t1',), ()), (('t1', 't2'), ())], ['RECV TIMEOUT t2'], {})
    """
    budget = budget or Budget(None, None)
    judge = Judge(machine, budget)
    search = Search[State, Step]([], machine.steps, budget)
    found = Explored(machine, search)
    soups: set[tuple[int, tuple[int, ...], tuple[s.Type, ...]]] = set()
    try:
        search.parents[machine.start()] = None
        for at, after in search:
            view = machine.view(at)
            outcome = tuple(sorted(view.committed)), tuple(sorted(view.aborted))
            found.reachable.setdefault(outcome, at)
            held = at.left == 0 and _waits(machine, at)
            found.held_back |= held
            everyone = (*machine.transactions, *machine.children(at))
            if not after:
                found.final.setdefault(outcome, at)
                left = tuple(t for t in everyone if t not in view.committed and t not in view.aborted)
                found.undecided.setdefault(outcome, set()).add(left)
            for t in everyone:
                if t not in view.committed and t not in view.aborted:
                    never = hopeless(machine, at, t)
                    if never or not after:
                        maybe = held and not never and _might(machine, at, t)
                        (found.maybe if maybe else found.sticks).setdefault(t if t[0] != "~" else "child", at)
            for place, soup in enumerate(at.soups):
                if (place, soup, at.fresh) not in soups:
                    soups.add((place, soup, at.fresh))
                    for words in lost(machine, at, place):
                        found.lost.setdefault(words, at)
            open_questions = tuple(name for name in properties if name not in found.broken)
            for name, why in judge.broken(at, open_questions).items():
                found.broken[name] = at, why
    except CutShort as cut:
        found.cut = str(cut)
    except RecursionError:
        found.cut = f"{TOO_DEEP} after {len(search.parents):,} states"
    return found


def _might(machine: Atomic, at: State, t: str) -> bool:
    """Whether more unfoldings of others might still decide it: something is left of it, or it goes where others go."""
    if machine.rules.cascade and any(v == t for _, v in machine.view(at).depends):
        return True
    return any(machine.store.items[i].trans == t for soup in at.soups for i in soup)


def _waits(machine: Atomic, at: State) -> bool:
    """Whether some ! of a transaction that is not aborted could unfold, but for the budget."""
    items, aborted = machine.store.items, machine.view(at).aborted
    return any(
        isinstance(items[i].process, s.Replicate) and items[i].trans not in aborted for soup in at.soups for i in soup
    )
