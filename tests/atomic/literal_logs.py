"""What the questions about logs mean, as they are defined and as slow as that: the compiled ones are held against it.

``statuses`` has the status of each transaction, ``pairs`` are (needs, who): who took a message of needs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

Id = Hashable


def affected(pairs: Iterable[tuple[Id, Id]], roots: Iterable[Id]) -> set[Id]:
    """The closure of the roots under needs ⇝ who.

    >>> sorted(affected([(1, 2), (2, 3), (4, 3)], [1]))
    [1, 2, 3]
    """
    pairs = list(pairs)
    found = set(roots)
    while more := {who for needs, who in pairs if needs in found} - found:
        found |= more
    return found


def largest(statuses: Mapping[Id, str], pairs: Collection[tuple[Id, Id]]) -> set[Id]:
    """Pending minus everything reachable from any transaction that is neither pending nor committed.

    >>> largest({1: "pending", 2: "pending", 3: "active", 4: "pending"}, [(1, 2), (2, 1), (3, 4)])
    {1, 2}
    """
    named = {*statuses, *(one for pair in pairs for one in pair)}
    stops = {t for t in named if statuses.get(t) not in ("pending", "committed")}
    return {t for t in named if statuses.get(t) == "pending"} - affected(pairs, stops)


def through(statuses: Mapping[Id, str], pairs: Collection[tuple[Id, Id]]) -> list[tuple[Id, Id]]:
    """Who needs whom, also through committed ones: in a log that keeps A3 that adds nothing between pending ones.

    >>> through({1: "pending", 2: "committed", 3: "pending"}, [(1, 2), (2, 3)])
    [(1, 2), (1, 3), (2, 3)]
    """
    onward = [pair for pair in pairs if statuses.get(pair[0]) == "committed"]
    found = ((needs, t) for needs, who in pairs for t in affected(onward, [who]))
    return sorted(set(found), key=repr)


def together(members: Iterable[Id], pairs: Collection[tuple[Id, Id]]) -> set[frozenset[Id]]:
    """The classes of members that depend on each other through members.

    >>> sorted(map(sorted, together([1, 2, 3], [(1, 2), (2, 1), (2, 3)])))
    [[1, 2], [3]]
    """
    members = set(members)
    inner = [(needs, who) for needs, who in pairs if needs in members and who in members]
    after = {t: affected(inner, [t]) for t in members}
    return {frozenset(u for u in after[t] if t in after[u]) for t in members}


def depths(members: Iterable[Id], pairs: Collection[tuple[Id, Id]]) -> dict[frozenset[Id], int]:
    """Each class of `together`, and the most classes that stand before it on a way.

    >>> depths([1, 2, 3], [(1, 2), (2, 1), (2, 3)]) == {frozenset([1, 2]): 0, frozenset([3]): 1}
    True
    """
    members = set(members)
    classes = together(members, pairs)
    of = {t: c for c in classes for t in c}
    before: dict[frozenset[Id], set[frozenset[Id]]] = {c: set() for c in classes}
    for needs, who in pairs:
        if needs in members and who in members and of[needs] != of[who]:
            before[of[who]].add(of[needs])
    found: dict[frozenset[Id], int] = {}
    while len(found) < len(classes):
        for c in classes:
            if c not in found and all(b in found for b in before[c]):
                found[c] = max((found[b] + 1 for b in before[c]), default=0)
    return found


def mutual(statuses: Mapping[Id, str], pairs: Collection[tuple[Id, Id]]) -> set[frozenset[Id]]:
    """The causal cycles: classes of more than one.

    >>> mutual({}, [(1, 2), (2, 1), (2, 3), (3, 3)])
    {frozenset({1, 2})}
    """
    named = {*statuses, *(one for pair in pairs for one in pair)}
    return {c for c in together(named, pairs) if len(c) > 1}
