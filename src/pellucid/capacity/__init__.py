"""Capacity: how long can a queue get, for how many workers (Bersani et al., 2016, by array-based systems).

A `Topology` has spouts, bolts and workers (`topology`), from Python, a file or a pipeline (`files`, `derive`);
`figure_1` is the paper's (`paper`).  What can happen in it is a machine, in two semantics, and `replay` judges runs
(`steps`).  Whether a queue is bounded at all, and from which gap on, is decided by `flows` and `threshold`; `grow` has
the run if it is not (`flow`).  `simulate` runs it with arrivals by the clock, by chance or as recorded (`simulation`).
"""

from pellucid.capacity.flow import (
    Flow,
    Flows,
    Growth,
    LiteralBound,
    Threshold,
    check_flows,
    flows,
    grow,
    literal_bound,
    threshold,
)
from pellucid.capacity.paper import figure_1
from pellucid.capacity.simulation import Bursts, Constant, Poisson, Recorded, Simulation, simulate
from pellucid.capacity.steps import Grid, Literal, Replay, Step, Urgent, Worker, grid, replay
from pellucid.capacity.topology import ANY, Bolt, Spout, Topology

__all__ = [
    "ANY", "Bolt", "Bursts", "Constant", "Flow", "Flows", "Grid", "Growth", "Literal", "LiteralBound", "Poisson",
    "Recorded", "Replay", "Simulation", "Spout", "Step", "Threshold", "Topology", "Urgent", "Worker", "check_flows",
    "figure_1", "flows", "grid", "grow", "literal_bound", "replay", "simulate", "threshold",
]  # fmt: skip
