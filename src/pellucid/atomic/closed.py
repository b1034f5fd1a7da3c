"""Sets that may commit at once (Definition 1): whatever a member needs is a member, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
