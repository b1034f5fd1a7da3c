"""Capacity: how long can a queue get, for how many workers (Bersani et al., 2016, by array-based systems).

A `Topology` has spouts, bolts and workers (`topology`); `figure_1` is the paper's (`paper`).  What can happen in it is
a machine, in two semantics, and `replay` judges every run (`steps`).
"""

from pellucid.capacity.paper import figure_1
from pellucid.capacity.steps import Grid, Literal, Replay, Step, Urgent, Worker, grid, replay
from pellucid.capacity.topology import ANY, Bolt, Spout, Topology

__all__ = [
    "ANY", "Bolt", "Grid", "Literal", "Replay", "Spout", "Step", "Topology", "Urgent", "Worker", "figure_1", "grid",
    "replay",
]  # fmt: skip
