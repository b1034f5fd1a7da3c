"""Logs by chance, of shapes that logs have; nothing of Pellucid is imported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

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
    """The same with texts for ids."""
    statuses, pairs = drawn
    return {f"t{t}": s for t, s in statuses.items()}, [(f"t{u}", f"t{t}") for u, t in pairs]
