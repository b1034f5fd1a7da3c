"""Capacity: how long can a queue get, for how many workers (Bersani et al., 2016, by array-based systems).

A `Topology` has spouts, bolts and workers (`topology`).
"""

from pellucid.capacity.topology import ANY, Bolt, Spout, Topology

__all__ = ["ANY", "Bolt", "Spout", "Topology"]
