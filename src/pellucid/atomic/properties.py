"""What every run keeps: A1 to A3, C1, C2, and two formulations of causal consistency that are false.

u ⇝ t says that t took a message of u, in any log, or is its child.  C and A are the committed and the aborted ones, E
is the closure of A under ⇝.  ``undo`` takes E out of a state: its processes and messages, its records, and what it took
stands there again.  C2 says that the result could have come about without E; C1, that nothing of E is committed.
Causal consistency is both.  *F0* (only A is taken out) and *F1* (doomed readers keep what they took) are kept because
they sound right: the corrected rules break them, too.
"""

from __future__ import annotations

from pellucid.atomic import syntax as s
from pellucid.atomic.layout import TAKES, Item
from pellucid.atomic.machine import Atomic
from pellucid.atomic.state import State
from pellucid.atomic.typing import Checker, IllTyped
from pellucid.internal.model import Budget, Search

SAYS = {
    "A1": "nothing is both committed and aborted",
    "A2": "nothing committed depends on an aborted one",
    "A3": "what a committed one depends on is committed",
    "C1": "nothing doomed is committed",
    "C2": "what remains when the doomed are undone could have come about without them",
    "types": "every state is well typed (Lemma 1)",
    "place": "every transaction runs at one place",
    "F0": "what remains when the aborted alone are undone could have come about without them",
    "F1": "the same as C2, where doomed readers keep what they took",
}
USUAL = ("A1", "A2", "A3", "C1", "C2", "types")


def undo(machine: Atomic, at: State, out: frozenset[str], *, keep: bool = False) -> State:
    """undo_E(N).  Messages that a member took stand there again, as a multiset, unless RED ABORT put them there or
    their sender is a member, too; what made a child that is undone stands there again as well.  ``keep``: not those of
    members that did not abort (F1)."""
    store, aborted = machine.store, machine.view(at).aborted
    soups = [[i for i in soup if store.items[i].trans not in out] for soup in at.soups]
    logs: list[list[int]] = []
    for place, log in enumerate(at.logs):
        kept = []
        for e in log:
            entry = store.entries[e]
            if entry.subject not in out:
                kept.append(e)
                continue
            message = entry.message
            if message is None or message.trans in out:
                continue
            restored = entry.subject in aborted or keep
            if entry.kind == "CHILD" or (entry.kind in TAKES and not restored):
                soups[place].append(store.item(message))
        logs.append(kept)
    return store.state(soups, logs, machine._fresh(at), 0)


class Judge:
    """Which properties a state breaks, and why; remembers what can be reached without which transactions."""

    def __init__(self, machine: Atomic, budget: Budget | None = None) -> None:
        self.machine, self.budget = machine, budget or Budget(None, None)
        self._reach: dict[State, frozenset[State]] = {}
        self._typed: dict[tuple[int, tuple[object, ...]], str] = {}
        self._logs: dict[object, dict[str, str]] = {}
        self.checker = Checker(machine.system)

    def broken(self, at: State, names: tuple[str, ...]) -> dict[str, str]:
        """The properties among these that do not hold in a state, each with why."""
        out = {}
        for name in names:
            why = self._types(at) if name == "types" else self._why(name, at)
            if why:
                out[name] = why
        return out

    def _why(self, name: str, at: State) -> str:
        view = self.machine.view(at)
        if name in ("C2", "F0", "F1"):
            if not view.aborted:
                return ""
            out = view.aborted if name == "F0" else view.doomed()
            return self._undone(at, out, keep=name == "F1")
        found = self._logs.setdefault(view, {})
        if name not in found:
            found[name] = self._by_logs(name, at)
        return found[name]

    def _by_logs(self, name: str, at: State) -> str:
        view = self.machine.view(at)
        if name == "A1":
            both = view.committed & view.aborted
            return f"{_list(both)} is committed and aborted" if both else ""
        if name == "A2":
            for u in sorted(view.aborted):
                readers = frozenset(t for v, t in view.depends if v == u)
                for t in sorted(view.after(readers) & view.committed):
                    return f"{t} is committed and depends on {u}, which is aborted"
            return ""
        if name == "A3":
            for u, t in sorted(view.depends):
                if t in view.committed and u not in view.committed:
                    return f"{t} is committed and depends on {u}, which is not"
            return ""
        doomed = view.doomed() & view.committed
        if not doomed:
            return ""
        t = min(doomed)
        if t in view.aborted:
            return f"{t} is committed, and aborted"
        by = min(u for u in view.aborted if t in view.after(frozenset({u})))
        return f"{t} is committed, and doomed by {by}, which aborted"

    def _undone(self, at: State, out: frozenset[str], *, keep: bool) -> str:
        machine = self.machine
        then = undo(machine, at, out, keep=keep)
        start = undo(machine, machine.start(), frozenset(t for t in out if not t.startswith("~")))
        if then in self._without(start):
            return ""
        return (
            f"when {_list(out)} {'is' if len(out) == 1 else 'are'} undone, what remains could not have come about alone"
        )

    def _without(self, start: State) -> frozenset[State]:
        if start not in self._reach:
            search = Search([start._replace(left=self.machine.unfold)], self.machine.steps, self.budget)
            self._reach[start] = frozenset(found._replace(left=0) for found in search.all())
        return self._reach[start]

    def _types(self, at: State) -> str:
        store = self.machine.store
        gamma: dict[str, s.Type] | None = None
        for soup in at.soups:
            for i in soup:
                key = i, tuple(at.fresh[int(name[1:])] for name in store.item_fresh[i])
                if key not in self._typed:
                    gamma = gamma or dict(store.gamma(at))
                    self._typed[key] = self._no_type(at, store.items[i], gamma)
                if self._typed[key]:
                    return self._typed[key]
        return ""

    def _no_type(self, at: State, item: Item, gamma: dict[str, s.Type]) -> str:
        """Why an item has no type, with the names of the text; nothing if it has one."""
        try:
            self.checker.process(item.process, gamma)
        except IllTyped as wrong:
            store = self.machine.store
            said, names = store.said(at, item), {name: gamma[own] for own, name in store.called(at).items()}
            why = wrong
            try:
                self.checker.process(said.process, {**gamma, **names})
            except IllTyped as as_written:
                why = as_written
            return f"{said} has no type any more: {str(why).splitlines()[0]}"
        return ""


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
