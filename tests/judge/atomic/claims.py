"""The properties by their definitions, over all states."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.judge.atomic.meaning import TAKEN, Atom, Facts, Meaning, State, nameless
from tests.judge.atomic.types import wrong_in

SAFETY = ("A1", "A2", "A3", "C1", "C2")
FALSE = ("F0", "F1")
ALL = (*SAFETY, *FALSE, "types", "place")


class TooLarge(Exception):  # noqa: N818 - an answer
    """More states than the judge goes through."""


def doomed(facts: Facts) -> frozenset[str]:
    """E: the aborted ones, and whoever depends on one, however indirectly."""
    found = set(facts.aborted)
    while more := {t for u, t in facts.depends if u in found} - found:
        found |= more
    return frozenset(found)


def undo(meaning: Meaning, state: State, erased: frozenset[str], *, keep: bool = False) -> State:
    """undo_E(N); ``keep`` is the wrong one, in which doomed readers keep what they took."""
    aborted = meaning.facts(state).aborted
    soups: list[list[Atom]] = []
    logs = []
    for soup, log in zip(state.soups, state.logs, strict=True):
        left = [atom for atom in soup if atom[0] not in erased]
        for record in log:
            if record[1] not in erased:
                continue
            if record[0] in TAKEN and record[1] not in aborted and record[3] not in erased and not keep:
                left.append((record[3], record[4]))
            if record[0] == "child" and record[2] not in erased:
                left.append((record[2], record[3]))
        soups.append(left)
        logs.append([record for record in log if record[1] not in erased])
    return meaning.state(soups, logs, 0)


@dataclass
class Found:
    """All that can become of a network."""

    states: dict[State, tuple[State, str] | None] = field(default_factory=dict)
    next: dict[State, list[tuple[str, State]]] = field(default_factory=dict)
    broken: dict[str, State] = field(default_factory=dict)  # the nearest state in which a property does not hold
    final: set[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)
    reachable: set[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)
    sticks: set[str] = field(default_factory=set)
    why: dict[str, set[str]] = field(default_factory=dict)

    def trace(self, state: State) -> list[str]:
        """A shortest run to a state."""
        words: list[str] = []
        while (before := self.states[state]) is not None:
            state, step = before
            words.append(step)
        return words[::-1]

    def length(self, name: str) -> int:
        """How many steps the shortest run to a broken property has."""
        return len(self.trace(self.broken[name]))


def outcome(facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Committed and aborted, without the numbers of children."""
    return tuple(sorted(map(nameless, facts.committed))), tuple(sorted(map(nameless, facts.aborted)))


def everything(meaning: Meaning, start: State, limit: int) -> Found:
    """All states, nearest first."""
    found = Found({start: None})
    queue = deque([start])
    while queue:
        state = queue.popleft()
        steps = found.next[state] = list(meaning.steps(state))
        for words, then in steps:
            if then not in found.states:
                found.states[then] = (state, words)
                queue.append(then)
                if len(found.states) > limit:
                    raise TooLarge
    return found


def children(state: State) -> set[str]:
    """Those that were made."""
    made = {record[1] for log in state.logs for record in log if record[0] == "child"}
    return {trans for trans in made if trans.startswith("~")}


class Claims:
    """The questions about one network under one set of rules."""

    def __init__(self, meaning: Meaning, limit: int, system: str = "corrected") -> None:
        self.meaning = meaning
        self.limit = limit
        self.system = system
        self.without: dict[frozenset[str], set[State]] = {}

    def could(self, state: State, erased: frozenset[str], *, keep: bool = False) -> bool:
        """Whether what remains could have come about without the erased."""
        meaning = self.meaning
        known = frozenset(trans for trans in erased if not trans.startswith("~"))  # no child is there in the beginning
        if known not in self.without:
            start = undo(meaning, meaning.start, known)
            all_ = everything(meaning, State(start.soups, start.logs, meaning.unfold), self.limit)
            self.without[known] = {State(one.soups, one.logs, 0) for one in all_.states}
        return undo(meaning, state, erased, keep=keep) in self.without[known]

    def broken(self, state: State, names: tuple[str, ...]) -> list[str]:
        """Which of these do not hold here."""
        facts = self.meaning.facts(state)
        committed, aborted, all_ = facts.committed, facts.aborted, doomed(facts)
        above = {t for u, t in facts.depends if u in all_}  # whoever has an aborted one before it
        holds = {
            "A1": lambda: not committed & aborted,
            "A2": lambda: not committed & above,
            "A3": lambda: all(u in committed for u, t in facts.depends if t in committed),
            "C1": lambda: not all_ & committed,
            "C2": lambda: not aborted or self.could(state, all_),
            "F0": lambda: not aborted or self.could(state, aborted),
            "F1": lambda: not aborted or self.could(state, all_, keep=True),
            "types": lambda: not wrong_in(self.meaning, state, self.system),
            "place": lambda: self.one_place(state),
        }
        return [name for name in names if not holds[name]()]

    def one_place(self, state: State) -> bool:
        where: dict[str, set[int]] = {}
        for n, soup in enumerate(state.soups):
            for trans, process in soup:
                if process[0] != "send":
                    where.setdefault(trans, set()).add(n)
        return all(len(places) == 1 for places in where.values())

    def ask(self, names: tuple[str, ...] = SAFETY) -> Found:
        """Go through all states and ask each."""
        meaning = self.meaning
        found = everything(meaning, meaning.start, self.limit)
        for state in found.states:
            facts = meaning.facts(state)
            found.reachable.add(outcome(facts))
            if not found.next[state]:
                found.final.add(outcome(facts))
            open_ = tuple(name for name in names if name not in found.broken)
            for name in self.broken(state, open_):
                found.broken[name] = state
        self.stuck(found)
        return found

    def stuck(self, found: Found) -> None:
        """AG EF decided, by going backwards."""
        before: dict[State, list[State]] = {}
        for state, steps in found.next.items():
            for _, then in steps:
                before.setdefault(then, []).append(state)
        for state, steps in found.next.items():  # a child has another name in every state: ends tell
            facts = self.meaning.facts(state)
            if not steps and {t for t in children(state) if t not in facts.committed | facts.aborted}:
                found.sticks.add("child")
        for trans in self.meaning.homes:
            good = {s for s in found.states if trans in (f := self.meaning.facts(s)).committed | f.aborted}
            queue = list(good)
            while queue:
                for earlier in before.get(queue.pop(), ()):
                    if earlier not in good:
                        good.add(earlier)
                        queue.append(earlier)
            if len(good) < len(found.states):
                found.sticks.add(trans)
