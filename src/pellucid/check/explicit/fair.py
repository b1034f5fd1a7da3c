"""LTL on an explored space: is there a run that an automaton accepts?

The product of the space with a Büchi automaton for the negation of the property has an accepting lasso iff the property
fails.  Points that lie on a fair cycle, or lead to one, are found by the Emerson-Lei fixpoint; then the lasso is
made short: the way to it, and the loop through an accepting state.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pellucid.check.explicit.search import Space


def accepting_lasso(space: Space, automaton: Any, atom_number: dict[Any, int]) -> tuple[list[int], int | None] | None:
    """Choices and the start of the loop of an accepted run, or None.

    Where a beginning is enough, whatever follows, there is no loop.

    ``atom_number`` gives the observation (bit) of each atom of the automaton's guards.
    """
    import numpy as np

    size = automaton.states
    sources, targets, labels = [], [], []
    for q, (positive, negative), q2 in automaton.transitions:
        yes = np.uint64(sum(1 << atom_number[a] for a in positive))
        no = np.uint64(sum(1 << atom_number[a] for a in negative))
        s, c = np.nonzero((space.seen & (yes | no)) == yes)
        sources.append(s * size + q)
        targets.append(space.successor[s, c].astype(np.int64) * size + q2)
        labels.append(c)
    if not sources:
        return None
    src, dst, lab = (np.concatenate(a) for a in (sources, targets, labels))
    nodes = space.count * size
    start = list(automaton.initial)
    reach = _reachable(nodes, src, dst, start)
    keep = reach[src]
    src, dst, lab = src[keep], dst[keep], lab[keep]
    fair = np.zeros(nodes, bool)
    for q in automaton.accepting:
        fair[q::size] = True
    core = _fair_core(nodes, src, dst, reach, fair)
    if not core.any():
        return None
    # An accepting state that can always be kept: what has led there refutes the property by itself.
    sinks = {
        q for q, (yes, no), q2 in automaton.transitions if q == q2 and not yes and not no and q in automaton.accepting
    }
    kept = [v for v in core.nonzero()[0].tolist() if v % size in sinks]
    return _short_lasso(src, dst, lab, start, core, fair, set(kept))


def _reachable(nodes: int, src: Any, dst: Any, start: list[int]) -> Any:
    import numpy as np

    order = np.argsort(src, kind="stable")
    first = np.searchsorted(src[order], np.arange(nodes + 1))
    seen = np.zeros(nodes, bool)
    seen[start] = True
    frontier = np.array(start, np.int64)
    while len(frontier):
        spans = [order[first[v] : first[v + 1]] for v in frontier.tolist()]
        nxt = np.unique(dst[np.concatenate(spans)]) if spans else frontier[:0]
        frontier = nxt[~seen[nxt]]
        seen[frontier] = True
    return seen


def _before(nodes: int, src: Any, dst: Any, target: Any) -> Any:
    import numpy as np

    out = np.zeros(nodes, bool)
    out[src[target[dst]]] = True
    return out


def _fair_core(nodes: int, src: Any, dst: Any, inside: Any, fair: Any) -> Any:
    """Emerson-Lei: the nodes that can for ever come back to a fair one, staying inside."""
    z = inside.copy()
    while True:
        goal = z & fair
        y = z & _before(nodes, src, dst, goal)
        while True:
            more = y | (z & _before(nodes, src, dst, y))
            if (more == y).all():
                break
            y = more
        if (y == z).all():
            return z
        z = y


def _short_lasso(
    src: Any, dst: Any, lab: Any, start: list[int], core: Any, fair: Any, enough: set[int]
) -> tuple[list[int], int | None] | None:
    edges: dict[int, list[tuple[int, int]]] = {}
    for s, d, c in sorted(zip(src.tolist(), dst.tolist(), lab.tolist(), strict=True), key=lambda e: (e[0], e[2], e[1])):
        edges.setdefault(s, []).append((d, c))
    far, back = _bfs(edges, start, None)
    candidates = sorted((far[v], v) for v in far if core[v] and fair[v])
    best: tuple[list[int], int | None] | None = None
    for distance, v in candidates[:200]:
        if best is not None and distance + 1 >= len(best[0]):
            break
        if v in enough and distance:
            return _way(back, v), None
        first = {d: (v, c) for d, c in reversed(edges.get(v, [])) if core[d]}
        loop = [first[v][1]] if v in first else None
        if loop is None:
            steps, parents = _bfs(edges, list(first), core)
            if v not in steps:
                continue
            loop, at = [], v
            while parents[at] is not None:
                at, c = parents[at]  # type: ignore[misc]
                loop.append(c)
            loop.append(first[at][1])
            loop.reverse()
        way = _way(back, v)
        if best is None or len(way) + len(loop) < len(best[0]):
            best = (way + loop, len(way))
    return best


def _way(back: dict[int, tuple[int, int] | None], at: int) -> list[int]:
    way = []
    while (before := back[at]) is not None:
        at, c = before
        way.append(c)
    return way[::-1]


def _bfs(
    edges: dict[int, list[tuple[int, int]]], start: list[int], inside: Any
) -> tuple[dict[int, int], dict[int, tuple[int, int] | None]]:
    distance = dict.fromkeys(start, 0)
    parent: dict[int, tuple[int, int] | None] = dict.fromkeys(start)
    waiting = deque(start)
    while waiting:
        v = waiting.popleft()
        for d, c in edges.get(v, []):
            if d not in distance and (inside is None or inside[d]):
                distance[d] = distance[v] + 1
                parent[d] = (v, c)
                waiting.append(d)
    return distance, parent
