"""Breadth first through anything that has steps, each state once, with the way that led there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from pellucid.internal.model.budget import Budget

S = TypeVar("S", bound=Hashable)
L = TypeVar("L")


class Search(Generic[S, L]):
    """The states that can be reached, nearest first; each is given with all its steps when it is left.

    ``parents`` says of each state how it was reached first: from which state, by which label.  It is in the order in
    which states were found, so the first that satisfies something is a nearest one.

    >>> search = Search([1], lambda n: [("double", 2 * n), ("less", n - 1)] if 0 < n < 9 else [])
    >>> search.all() == {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16} or sorted(search.all())
    True
    >>> search.way(3)
    ['double', 'double', 'less']
    """

    def __init__(
        self, start: Iterable[S], steps: Callable[[S], Iterable[tuple[L, S]]], budget: Budget | None = None
    ) -> None:
        self.parents: dict[S, tuple[S, L] | None] = dict.fromkeys(start)
        self.steps, self.budget = steps, budget or Budget(None, None)
        self.transitions = 0

    def __iter__(self) -> Iterator[tuple[S, list[tuple[L, S]]]]:
        parents, waiting = self.parents, list(self.parents)
        for done, state in enumerate(waiting):  # it grows meanwhile
            if not done & 127 or self.budget.full(len(parents)):
                self.budget.look(len(parents), len(waiting) - done)
            after: list[tuple[L, S]] = []
            for label, then in self.steps(state):
                after.append((label, then))
                if then not in parents:
                    parents[then] = state, label
                    waiting.append(then)
                if not len(after) & 1023:  # one state may have more steps than there is time for
                    self.budget.look(len(parents), len(waiting) - done)
            self.transitions += len(after)
            yield state, after

    def all(self) -> set[S]:
        """Every state that can be reached."""
        for _ in self:
            pass
        return set(self.parents)

    def way(self, end: S) -> list[L]:
        """The labels of a shortest way from a start."""
        labels = []
        while (before := self.parents[end]) is not None:
            end, label = before
            labels.append(label)
        return labels[::-1]
