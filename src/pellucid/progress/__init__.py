"""Progress: which times are still possible, and where (Abadi and Isard, *Timely Dataflow: A Model*, 2015).

Messages carry times of a partial order (`times`); a frontier is the antichain of those that may still come
(`antichain`).  A graph has ports and summaries of how a time grows on its way (`builder`, `summaries`, `paths`); loops
have to advance it (`loops`).  Its clock says for each port what may still come (`tracker`).
"""

from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
from pellucid.progress.builder import Builder, Location, Source, Target
from pellucid.progress.paths import PathSummaries
from pellucid.progress.summaries import Set, Shift, Step, Summary, Tagged, enter, feedback, leave
from pellucid.progress.times import (
    NATURAL,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    Natural,
    Order,
    Ordered,
    Own,
    Product,
    Stacks,
)
from pellucid.progress.tracker import Tracker

__all__ = [
    "NATURAL", "Antichain", "Builder", "ChangeBatch", "Domains", "Integers", "Lexicographic", "Location", "Loop",
    "MutableAntichain", "Natural", "Order", "Ordered", "Own", "PathSummaries", "Product", "Set", "Shift", "Source",
    "Stacks", "Step", "Summary", "Tagged", "Target", "Tracker", "enter", "feedback", "leave",
]  # fmt: skip
