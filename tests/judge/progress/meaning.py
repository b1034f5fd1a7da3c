"""What a judge of times says once: orders of tuples, least times, what any path reaches, and loops that stand still."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

LessEqual = Callable[[Any, Any], bool]
Arc = tuple[Hashable, Hashable, Callable[[Any], Any]]


def product(a: Any, b: Any) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def loops(a: Any, b: Any) -> bool:
    """Of loops inside loops around a number: the number, and lexicographically the counters."""
    return a[0] <= b[0] and a[1:] <= b[1:]


def least(times: Iterable[Any], le: LessEqual) -> set[Any]:
    times = set(times)
    return {t for t in times if not any(u != t and le(u, t) for u in times)}


def flooded(stamps: Iterable[tuple[Hashable, Any]], arcs: list[Arc], cap: Callable[[Any], bool]) -> dict[Hashable, set]:
    """Everything that is reached along any path, step by step; ``cap`` ends what has no end."""
    todo, seen = list(stamps), set(stamps)
    leaving: dict[Hashable, list[Arc]] = {}
    for arc in arcs:
        leaving.setdefault(arc[0], []).append(arc)
    while todo:
        at, t = todo.pop()
        for _, to, by in leaving.get(at, ()):
            u = by(t)
            if u is not None and cap(u) and (to, u) not in seen:
                seen.add((to, u))
                todo.append((to, u))
    found: dict[Hashable, set] = {}
    for at, t in seen:
        found.setdefault(at, set()).add(t)
    return found


def standing(places: list, times: list, arcs: list[Arc], le: LessEqual) -> list[tuple[Any, Any]]:
    """Pointstamps that come back to their place at a time that is not after theirs."""
    bad = []
    for at in places:
        for t in times:
            first = [(to, u) for a, to, by in arcs if a == at and (u := by(t)) is not None]
            back = flooded(first, arcs, lambda _: True).get(at, set())
            if any(u == t or not le(t, u) for u in back):
                bad.append((at, t))
    return bad
