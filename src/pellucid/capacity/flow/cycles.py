"""Bolts that go in a circle: where flow still decides, and where theory ends.

A tuple that goes round comes back as the product of the ratios on its way.  If that is below 1 on every circle
(``one``), or if the matrix of ratios has a spectral radius below 1 (``all``), what goes round dies out, and every flow
that the network allows can be had from empty queues.  That queues are *bounded* needs more:

- ``all`` with shared queues: nobody chooses, and the queues are those of a network with fixed routes, which depend
  continuously on what comes (Harrison and Reiman, 1981): bounded at equality, too.
- ``one``: a queue *b* gets, beyond what the flow allows, at most what was stored elsewhere when it was last empty, each
  tuple times the gain of its way to *b*.  So the longest queues satisfy Q ≤ G·Q + constants, and they are bounded if
  the matrix of gains has a spectral radius below 1; else *unknown*.

All of it with exact numbers: a matrix M of numbers from 0 on has a spectral radius below 1 exactly if 1 − M can be
eliminated with positive pivots (it is then a nonsingular M-matrix).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pellucid.capacity.topology import Topology
from pellucid.internal.model import components, on_time


def circles(topology: Topology) -> list[list[str]]:
    """The bolts that can come back to themselves, those that belong together in one list.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> bolts = {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio="1/2"), "C": Bolt(1, "B")}
    >>> circles(Topology({"S": Spout(1)}, bolts))
    [['A', 'B']]
    """
    names = list(topology.bolts)
    found = []
    for group in components({b: list(topology.listeners(b)) for b in names}):
        if len(group) > 1 or any(b in topology.listeners(b) for b in group):
            found.append(sorted(group, key=names.index))
    return sorted(found, key=lambda group: names.index(group[0]))


def below_one(matrix: Sequence[Sequence[Fraction]]) -> bool:
    """Whether the spectral radius of a matrix of numbers from 0 on is below 1.

    >>> half, one = Fraction(1, 2), Fraction(1)
    >>> below_one([[half]]), below_one([[one]]), below_one([[half, half], [half, half]]), below_one([[0, 2], [half, 0]])
    (True, False, False, False)
    >>> below_one([[0, Fraction(7, 4)], [half, 0]])
    True
    """
    n = len(matrix)
    rows = [[Fraction(i == j) - matrix[i][j] for j in range(n)] for i in range(n)]
    for i in range(n):
        if rows[i][i] <= 0:
            return False
        for k in range(i + 1, n):
            on_time()
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return True


def gains(topology: Topology, group: Sequence[str]) -> dict[tuple[str, str], Fraction]:
    """The largest product of ratios on a way from one bolt of a circle to another, or back to itself."""
    inside = set(group)
    best = {(a, b): topology.bolts[a].ratio for a in group for b in topology.listeners(a) if b in inside}
    for via in group:
        for a in group:
            on_time()
            if (a, via) not in best:
                continue
            for b in group:
                if (via, b) in best:
                    best[a, b] = max(best.get((a, b), Fraction(0)), best[a, via] * best[via, b])
    return best


def judged(topology: Topology, group: Sequence[str]) -> tuple[bool, bool, str]:
    """Of a circle: whether what goes round dies out, whether flow says which queues are bounded, and in words why not.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> def ring(ratio): return Topology({"S": Spout(1)}, {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio=ratio)})
    >>> judged(ring("1/2"), ["A", "B"])
    (True, True, '')
    >>> judged(ring("2"), ["A", "B"])
    (False, False, 'a tuple that goes round the circle A, B can come back as 1 or more')
    """
    ring = ", ".join(group)
    gain = gains(topology, group)
    shared = all(topology.bolts[b].queue == "shared" for b in group)
    if topology.routing == "all":
        ratios = [
            [topology.bolts[a].ratio if b in topology.listeners(a) else Fraction(0) for b in group] for a in group
        ]
        if not below_one(ratios):
            return False, False, f"the ratios of the circle {ring} have a spectral radius of 1 or more"
        if shared:
            return True, True, ""
    elif max(gain[b, b] for b in group) >= 1:
        return False, False, f"a tuple that goes round the circle {ring} can come back as 1 or more"
    if not shared:
        return True, False, f"in the circle {ring} somebody chooses the queue of a worker"
    stored = [[gain[a, b] if a != b else Fraction(0) for a in group] for b in group]
    if below_one(stored):
        return True, True, ""
    return True, False, f"in the circle {ring} one queue can store what makes others longer"
