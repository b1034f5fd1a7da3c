"""Could-result-in, word for word from the paper: every local history of a few events, every sequence of locations and
times.

Nothing here is imported from what it judges, except graphs themselves.
"""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

from pellucid.progress.graph import Graph, History, Received


def histories(graph: Graph, p: str, most: int) -> list[History]:
    """All local histories of at most so many events."""
    layer = [History(s, n) for s, n in graph.nodes[p].initial]
    out = list(layer)
    for _ in range(most):
        layer = [h._replace(events=(*h.events, x)) for h in layer for x in graph.events(p)]
        out += layer
    return out


def definition_1(graph: Graph, p: str, most: int) -> set[tuple[Any, str, Any, Any]]:
    """(t, d, t′) such that (p, t) leads to (d, t′) in one step; and on which edge the event came (None:
    notification)."""
    found = set()
    for h in histories(graph, p, most):
        s = graph.g(p, h).state
        for x in graph.events(p):
            came = x.edge if isinstance(x, Received) else None
            for d, mu in zip(graph.out[p], graph.g1(p, s, x).messages, strict=True):
                found |= {(x.time, d, m.time, came) for m in mu}
    return found


def definition_2(graph: Graph, most: int = 3) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """All pairs of pointstamps."""
    leq, times = graph.order.less_equal, graph.times
    one = {p: definition_1(graph, p, most) for p in graph.nodes}
    pairs = {((x, t), (x, u)) for x in graph.locations for t in times for u in times if leq(t, u)}

    def goes(x: str, t: Any, y: str, u: Any) -> bool:
        if x in graph.edges:
            return graph.target[x] == y and t == u
        return (
            y in graph.edges
            and graph.source[y] == x
            and any(d == y and leq(t, a) and leq(b, u) for a, d, b, _ in one[x])
        )

    for k in range(2, len(graph.locations) + 1):
        for path in permutations(graph.locations, k):
            if not all(_joined(graph, a, b) for a, b in pairwise(path)):
                continue
            ends = {(t, t) for t in times}  # from t₁ to tᵢ
            for x, y in pairwise(path):
                ends = {(t, v) for t, u in ends for v in times if goes(x, u, y, v)}
            pairs |= {
                ((path[0], t0), (path[-1], tk))
                for t1, u in ends
                for t0 in times
                for tk in times
                if leq(t0, t1) and leq(u, tk)
            }
    return pairs


def _joined(graph: Graph, a: str, b: str) -> bool:
    return (a in graph.edges and graph.target[a] == b) or (b in graph.edges and graph.source[b] == a)


def is_transitive(pairs: set[tuple[Any, Any]]) -> bool:
    """Whether a relation is."""
    after: dict[Any, set[Any]] = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)
    return all(after.get(b, set()) <= after[a] for a in after for b in after[a])
