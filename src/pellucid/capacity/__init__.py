"""Capacity: how long can a queue get, for how many workers (Bersani et al., 2016, by array-based systems).

A `Topology` has spouts, bolts and workers (`topology`), from Python, a file or a pipeline (`files`, `derive`);
`figure_1` is the paper's (`paper`).  What can happen in it is a machine, in two semantics, and `replay` judges runs
(`steps`).  Whether a queue is bounded at all, and from which gap on, is decided by `flows` and `threshold`; `grow` has
the run if it is not (`flow`).  `simulate` runs it with arrivals by the clock, by chance or as recorded (`simulation`).
`longest`, `least_gap`, `least_workers` and `check.capacity` are exact, for given workers or any number (`zones`);
`paper_table` is what the paper asked for.
"""

from pellucid.capacity.flow import Flow, Flows, Growth, LiteralBound, Threshold, check_flows, flows, grow, literal_bound
from pellucid.capacity.flow.bounds import threshold
from pellucid.capacity.simulation import Bursts, Constant, Poisson, Recorded, Simulation, simulate
from pellucid.capacity.steps import Literal, Replay, Step, Urgent, Worker, replay
from pellucid.capacity.topology import ANY, Bolt, Spout, Topology, figure_1
from pellucid.capacity.zones.decide import GapThreshold, Longest, WorkersThreshold, least_gap, least_workers, longest
from pellucid.capacity.zones.question import paper_table

__all__ = [
    "ANY", "Bolt", "Bursts", "Constant", "Flow", "Flows", "GapThreshold", "Growth", "Literal", "LiteralBound",
    "Longest", "Poisson", "Recorded", "Replay", "Simulation", "Spout", "Step", "Threshold", "Topology", "Urgent",
    "Worker", "WorkersThreshold", "check_flows", "figure_1", "flows", "grow", "least_gap", "least_workers",
    "literal_bound", "longest", "paper_table", "replay", "simulate", "threshold",
]  # fmt: skip
