"""What the questions about logs mean, as they are defined and as slow as that: the compiled ones are held against it.

``statuses`` has the status of each transaction, ``pairs`` are (needs, who): who took a message of needs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

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


# Logs drawn at random, of the shapes that logs have.

Log = tuple[dict[Any, str], list[tuple[Any, Any]]]


def _random(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(chance.randrange(n), chance.randrange(n)) for _ in range(int(n * chance.choice([0.3, 1, 2, 4])))]


def _forward(chance: random.Random, n: int) -> list[tuple[int, int]]:
    pairs = [sorted((chance.randrange(n), chance.randrange(n))) for _ in range(2 * n)]
    return [(a, b) for a, b in pairs]


def _chains(chance: random.Random, n: int) -> list[tuple[int, int]]:
    cut = chance.randrange(1, n + 1)
    return [(i, i + 1) for i in range(n - 1) if i != cut] + [(chance.randrange(n), chance.randrange(n))]


def _tree(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(chance.randrange(i), i) for i in range(1, n)]


def _rings(chance: random.Random, n: int) -> list[tuple[int, int]]:
    pairs, at = [], 0
    while at < n:
        size = min(chance.randint(1, 5), n - at)
        pairs += [(at + i, at + (i + 1) % size) for i in range(size)]
        at += size
    return pairs + [(chance.randrange(n), chance.randrange(n)) for _ in range(n // 6)]


def _star(chance: random.Random, n: int) -> list[tuple[int, int]]:
    hub = chance.randrange(n)
    return [(hub, i) for i in range(n)] + [(chance.randrange(n), hub)] * chance.randrange(2)


def _ladder(chance: random.Random, n: int) -> list[tuple[int, int]]:
    """Pipelines behind each other: an epoch needs the one before it, and that of the pipeline before."""
    width = chance.randint(2, 4)
    return [(i - width, i) for i in range(width, n)] + [(i - 1, i) for i in range(1, n) if i % width]


def _double(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(i - 1, i) for i in range(1, n)] + [(i - 2, i) for i in range(2, n)]


SHAPES: dict[str, Callable[[random.Random, int], list[tuple[int, int]]]] = {
    "random": _random, "forward": _forward, "chains": _chains, "tree": _tree, "rings": _rings, "star": _star,
    "ladder": _ladder, "double chain": _double,
}  # fmt: skip


def log(seed: int, n: int, shape: str | None = None, bad: float | None = None) -> Log:
    """A log of about so many transactions; ``bad`` is the share of those that are neither pending nor committed."""
    chance = random.Random(f"{seed} {n} {shape}")
    pairs: list[tuple[Any, Any]] = list(SHAPES[shape or chance.choice(list(SHAPES))](chance, n))
    order = list(range(n))
    if chance.random() < 0.5:
        chance.shuffle(order)  # ids that say nothing of time
    pairs = [(order[a], order[b]) for a, b in pairs]
    chance.shuffle(pairs)
    bad = chance.choice([0.0, 0.02, 0.1, 0.3]) if bad is None else bad
    words = ["pending"] * 6 + ["committed"] * chance.choice([0, 1, 3])
    statuses = {
        i: chance.choice(["active", "aborted"]) if chance.random() < bad else chance.choice(words) for i in range(n)
    }
    if chance.random() < 0.3:
        pairs += [(n + chance.randrange(3), chance.randrange(n)), (chance.randrange(n), n + 5)]  # unknown to the table
    if chance.random() < 0.3:
        pairs += [(i, i) for i in range(0, n, 3)]
    return statuses, pairs


def as_text(drawn: Log) -> Log:
    """The same with text for ids."""
    statuses, pairs = drawn
    return {f"t{t}": s for t, s in statuses.items()}, [(f"t{u}", f"t{t}") for u, t in pairs]
