"""The topology of the paper's Figure 1."""

from __future__ import annotations

from collections.abc import Mapping

from pellucid.capacity.topology import Bolt, Number, Spout, Topology, Workers


def figure_1(gap: Number, *, workers: Workers | Mapping[str, Workers] = 1) -> Topology:
    """Two spouts and three bolts, a tuple takes 1: B1 hears S1, B2 hears both spouts, B3 hears B1 and B2.

    The paper's question is about "bolt 1", which is B1 by its text (one spout feeds it) and B2 by the indices of its
    appendix (both do): the answers differ.

    >>> figure_1(gap="0.8", workers={"B1": 2}).bolts["B3"].hears
    ('B1', 'B2')
    """
    spouts = {"S1": Spout(gap), "S2": Spout(gap)}
    bolts = {
        "B1": Bolt(time=1, hears=["S1"]),
        "B2": Bolt(time=1, hears=["S1", "S2"]),
        "B3": Bolt(time=1, hears=["B1", "B2"]),
    }
    return Topology(spouts, bolts, name="Figure 1").given(workers=workers)
