"""Flow: which queues are bounded, from which gap on, and runs that make the others as long as one likes."""

from pellucid.capacity.flow.bounds import Flow, Flows, Threshold, check_flows, flows, not_known, threshold
from pellucid.capacity.flow.growth import Growth, LiteralBound, grow, literal_bound

__all__ = [
    "Flow", "Flows", "Growth", "LiteralBound", "Threshold", "check_flows", "flows", "grow", "literal_bound",
    "not_known", "threshold",
]  # fmt: skip
