"""Flow: which queues are finite, from which gap on, and runs that make the others as long as one likes."""

from pellucid.capacity.flow.bounds import Flow, Flows, check_flows, flows, not_known
from pellucid.capacity.flow.literal import LiteralBound, literal_bound
from pellucid.capacity.flow.threshold import Threshold, threshold
from pellucid.capacity.flow.witness import Growth, grow

__all__ = [
    "Flow", "Flows", "Growth", "LiteralBound", "Threshold", "check_flows", "flows", "grow", "literal_bound",
    "not_known", "threshold",
]  # fmt: skip
