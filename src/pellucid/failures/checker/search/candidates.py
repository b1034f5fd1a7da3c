"""Which failure-free executions can still explain what was seen (Definitions 5.4 to 5.6), exactly.

An execution C is explained by a failure-free C' if its observations, in their order and with repetitions, are found in
those of C' in the same order; C' may show more in between.  So after the observations o1 … ok it is enough to know the
set S of the failure-free configurations at which an explaining C' may stand: all that can be reached from the set
before and show ok.  C is explained as long as S is not empty; a search over pairs (faulty configuration, S) therefore
decides explainability, and the first pair with an empty S is a shortest trace that nothing explains.  Failure-free
executions of a finite input are finite and finitely many, so an infinite execution is explained when all its prefixes
are.

For an observability function that is monotone this is the same as Definition 5.5 (Lemma 5.7); where a sink undoes what
it has shown it is stronger, and that is what an observer would complain about.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


class Candidates:
    """Sets of failure-free configurations by number; number 0 is the empty set, 1 the set before the first step.

    A set is kept as the configurations by which it was entered: the others can be reached from them.

    >>> chain = Candidates([[1], [2], []], ["a", "b", "c"])
    >>> chain.seen(1)
    'a'
    >>> chain.after(1, "c"), chain.after(chain.after(1, "c"), "b")
    (2, 0)
    """

    def __init__(self, successors: Sequence[Sequence[int]], observations: Sequence[Hashable]) -> None:
        self._successors = successors
        self._ids: dict[Hashable, int] = {}
        self._shows = [self._ids.setdefault(seen, len(self._ids)) for seen in observations]
        self._can_show = self._reachable_observations()
        self._entries: list[frozenset[int]] = [frozenset(), frozenset([0])]
        self._seen: list[Hashable] = [None, observations[0]]
        self._number: dict[frozenset[int], int] = {frozenset(): 0, frozenset([0]): 1}
        self._after: dict[tuple[int, Hashable], int] = {}

    def seen(self, number: int) -> Hashable:
        """The observation that all of a set show."""
        return self._seen[number]

    def after(self, number: int, seen: Hashable) -> int:
        """The set after another observation."""
        key = number, seen
        found = self._after.get(key)
        if found is None:
            wanted = self._ids.get(seen)
            entries = frozenset() if wanted is None else self._entered(self._entries[number], wanted)
            found = self._number.get(entries)
            if found is None:
                found = self._number[entries] = len(self._entries)
                self._entries.append(entries)
                self._seen.append(seen)
            self._after[key] = found
        return found

    def next_seen(self, number: int) -> set[Hashable]:
        """Everything that can be seen from a set on, itself included."""
        can = 0
        for s in self._entries[number]:
            can |= self._can_show[s]
        return {seen for seen, i in self._ids.items() if can >> i & 1}

    def __len__(self) -> int:
        return len(self._entries)

    def _entered(self, entries: frozenset[int], wanted: int) -> frozenset[int]:
        """Where the wanted observation is met first, on every way from the entries."""
        can, shows, successors = self._can_show, self._shows, self._successors
        reached, found = set(entries), []
        waiting = [s for s in entries if can[s] >> wanted & 1]
        while waiting:
            at = waiting.pop()
            if shows[at] == wanted:
                found.append(at)
                continue
            for after in successors[at]:
                if after not in reached:
                    reached.add(after)
                    if can[after] >> wanted & 1:
                        waiting.append(after)
        return frozenset(found)

    def _reachable_observations(self) -> list[int]:
        """For each configuration, as bits, the observations that it or something after it shows."""
        can = [1 << shown for shown in self._shows]
        order = self._last_first()
        changed = True
        while changed:  # once, and once more to see that nothing changes, as there are no cycles
            changed = False
            for at in order:
                bits = can[at]
                for after in self._successors[at]:
                    bits |= can[after]
                if bits != can[at]:
                    can[at], changed = bits, True
        return can

    def _last_first(self) -> list[int]:
        order: list[int] = []
        done = [False] * len(self._successors)
        for root in range(len(self._successors)):
            if done[root]:
                continue
            done[root] = True
            work = [(root, iter(self._successors[root]))]
            while work:
                at, more = work[-1]
                following = next((s for s in more if not done[s]), None)
                if following is None:
                    order.append(at)
                    work.pop()
                else:
                    done[following] = True
                    work.append((following, iter(self._successors[following])))
        return order
