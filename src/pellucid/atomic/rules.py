"""The rules of reduction as choices: corrected, as printed, extended, and the mutants that a checker must refute.

Every choice has a name.  The default is *corrected*.  *printed* has RED RECV, RED FORWARD and RED OPEN as the paper
prints them (the indices of their conditions are swapped), *printed_commit_context* its commit contexts (members at
places that are different and not inside each other).  RED COMMIT under RED CTX, where a free transaction goes
unchecked, is *commit_ignores_dependencies*: scope extrusion moves any other transaction's ``new`` outside.  RED ABORT
with a set for the multiset of messages is *abort_restore_as_set*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pellucid.errors import UsageError, nearest


@dataclass(frozen=True)
class Rules:
    """What is asked before a step, and what it does; each field's first choice is the corrected rule."""

    name: str = "corrected"
    conditions: Literal["corrected", "printed"] = "corrected"  # of RECV, FORWARD, OPEN
    receiver_not_committed: bool = True
    receiver_not_aborted: bool = True
    sender_not_aborted: bool = True
    commit: Literal["closed", "any", "none aborted", "all pending"] = "closed"  # what members may depend on
    apart: bool = False  # members of a commit at places that are different and not inside each other
    restore: Literal["multiset", "set", "nothing"] = "multiset"
    abort_committed: bool = False
    kill: bool = True
    drop_messages: bool = False  # of an aborted one, everywhere
    mobile_received: bool = True  # FORWARD and OPEN count as received
    cascade: bool = False
    crash: bool = False


_KNOWN = [
    Rules(),
    Rules("printed", conditions="printed"),
    Rules("printed_commit_context", apart=True),
    Rules("cascade", cascade=True),
    Rules("crash", cascade=True, crash=True),
]
_MUTANTS = [
    Rules("receive_after_commit", receiver_not_committed=False),
    Rules("commit_ignores_dependencies", commit="any"),
    Rules("commit_waits_only_for_no_abort", commit="none aborted"),
    Rules("commit_one_of_cycle", commit="all pending"),
    Rules("abort_no_restore", restore="nothing"),
    Rules("abort_restore_as_set", restore="set"),
    Rules("abort_of_committed", abort_committed=True),
    Rules("no_log_predicate_for_forward_open", mobile_received=False),
]
_EQUIVALENT = [
    Rules("no_check_of_sender", sender_not_aborted=False),
    Rules("no_check_of_receivers_abort", receiver_not_aborted=False),
    Rules("no_kill", kill=False),
    Rules("drop_dead_messages", drop_messages=True),
]

VARIANTS = {rules.name: rules for rules in _KNOWN}
MUTANTS = {rules.name: rules for rules in _MUTANTS}
EQUIVALENT = {rules.name: rules for rules in _EQUIVALENT}  # no property refutes them, and none should
WHY_EQUIVALENT = {
    "no_check_of_sender": "who reads from an aborted one can never commit anyway: the check only avoids such readers",
    "no_check_of_receivers_abort": "what an aborted one takes is undone with it, and it never commits",
    "no_kill": "what is left of an aborted one never commits, and whoever reads from it is doomed",
    "drop_dead_messages": "a message of an aborted one can only doom its reader: without it there are fewer runs",
}


def rules_of(name: str | Rules) -> Rules:
    """The rules with this name.

    >>> rules_of("crash").cascade, rules_of("corrected") == Rules()
    (True, True)
    >>> rules_of("cash")
    Traceback (most recent call last):
    pellucid.errors.UsageError: there are no rules 'cash'; did you mean 'crash'?
    """
    if isinstance(name, Rules):
        return name
    known = VARIANTS | MUTANTS | EQUIVALENT
    if name not in known:
        raise UsageError(f"there are no rules {name!r}{nearest(str(name), list(known)) or ': ' + ', '.join(known)}")
    return known[name]


# ---------------------------------------------------------------- Definition 1: what may commit at once

_FEW = 10  # groups of transactions that commit together: of more, sets are not put in order


def closed_sets(needs: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """All sets whose members need nobody outside, without the empty one.  There may be 2ⁿ of them: where they are
    many they come one by one, the largest first, and are not put in order.

    >>> list(closed_sets({"a": set(), "b": {"a"}, "c": {"d"}, "d": {"c"}, "e": {"f"}}))
    [('a',), ('a', 'b'), ('a', 'b', 'c', 'd'), ('a', 'c', 'd'), ('c', 'd')]
    """
    closures: dict[str, frozenset[str]] = {}
    for t in needs:
        closed, todo = {t}, [t]
        while todo:
            more = needs.get(todo.pop(), set()) - closed
            closed |= more
            todo += more
        if closed <= needs.keys():
            closures[t] = frozenset(closed)
    # who needs each other has one closure; whoever else is needed has a smaller one, and comes before
    groups = sorted(set(closures.values()), key=lambda one: (len(one), sorted(one)))
    found = _unions(groups)
    yield from sorted(found) if len(groups) <= _FEW else found


def _unions(groups: list[frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Every union of these once; each is closed, and what it needs comes before it."""
    own = [group.difference(*(other for other in groups[:k] if other < group)) for k, group in enumerate(groups)]
    stack: list[tuple[int, frozenset[str]]] = [(0, frozenset())]
    while stack:
        k, taken = stack.pop()
        if k == len(groups):
            if taken:
                yield tuple(sorted(taken))
            continue
        stack.append((k + 1, taken))
        if groups[k] - own[k] <= taken:
            stack.append((k + 1, taken | own[k]))


def one_by_one(
    members: Collection[str], depends: Collection[tuple[str, str]], first: Mapping[str, tuple[int, int]]
) -> list[str]:
    """The members of one commit in an order in which they could have committed one after the other, so that to commit
    at once gives no log that would not come about without.  Always next is one that needs nobody else who is left, and
    with it who needs each other; of several the one whose first record is first (``first``: its place and row), before
    these by name who has none.  Names of children depend on the state, and are not asked: each has a record.

    >>> one_by_one(["a", "b", "c", "d"], [("c", "a"), ("d", "b"), ("b", "d")], {"a": (1, 0), "b": (1, 2), "d": (1, 1)})
    ['c', 'a', 'd', 'b']
    """

    def key(t: str) -> tuple[tuple[int, int], str]:
        return first.get(t, (-1, -1)), t

    needs = {t: {u for u, v in depends if v == t and u != t and u in members} for t in members}
    if not any(needs.values()):
        return sorted(members, key=key)
    for t, mine in needs.items():
        while more := {v for u in mine for v in needs[u]} - mine:
            mine |= more
        mine.discard(t)
    left, order = set(members), list[str]()
    while left:
        ready = [t for t in left if all(t in needs[u] for u in needs[t] & left)]
        least = min(ready, key=key)
        together = {least, *(u for u in needs[least] & left if least in needs[u])}
        order += sorted(together, key=key)
        left -= together
    return order
