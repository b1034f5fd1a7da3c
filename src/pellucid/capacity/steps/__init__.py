"""The steps of a topology, exactly: two machines to be read beside the paper, and the judge of every run.

`Urgent` and `Literal` are machines of `model`, with exact fractions for times.  `replay` applies given steps
to them and refuses the first that is not possible: whatever engine found a counterexample, this says whether it is one.
`grid` explores times that are multiples of a step, which gives lower bounds.
"""

from pellucid.capacity.steps.grid import Grid, grid
from pellucid.capacity.steps.literal import Flags, Literal
from pellucid.capacity.steps.machine import Situation, Steps, machine_of
from pellucid.capacity.steps.replay import Replay, replay
from pellucid.capacity.steps.step import Step, Worker
from pellucid.capacity.steps.urgent import Urgent

__all__ = [
    "Flags", "Grid", "Literal", "Replay", "Situation", "Step", "Steps", "Urgent", "Worker", "grid", "machine_of",
    "replay",
]  # fmt: skip
