"""Progress: which times are still possible, and where (Abadi and Isard, *Timely Dataflow: A Model*, 2015).

Messages carry times of a partial order (`times`); a frontier is the antichain of those that may still come
(`antichain`).  A graph has ports and summaries of how a time grows on its way (`summaries`); its loops have to advance
it, and its clock says for each port what may still come (`reachability`).  What is sent is counted by capabilities, and
several workers can share a clock (`workers`).

A `Graph` has nodes that do something (`graph`): what could result in what follows from that (`could_result_in`), and so
does everything that it can do (`semantics`).  It can be run, and `why_not` says why a time is not complete (`running`).
`check.progress` asks whether it keeps its promises (`question`).
"""

from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
from pellucid.progress.could_result_in import builder_of, conservative, exact, inferred
from pellucid.progress.graph import Graph, Message, Node, Recursion, buffer, compose
from pellucid.progress.reachability import Builder, Location, PathSummaries, Source, Target, Tracker
from pellucid.progress.running import Ran, WhyNot, run, why_not
from pellucid.progress.semantics import Semantics
from pellucid.progress.summaries import Set, Shift, Step, Summary, Tagged, enter, feedback, leave
from pellucid.progress.times import (
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
from pellucid.progress.workers import Capability, Notificator, Operator, Worker

__all__ = [
    "Antichain", "Builder", "Capability", "ChangeBatch", "Domains", "Graph", "Integers", "Lexicographic",
    "Location", "Loop", "Message", "MutableAntichain", "Natural", "Node", "Notificator", "Operator", "Order",
    "Ordered", "Own", "PathSummaries", "Product", "Ran", "Recursion", "Semantics", "Set", "Shift", "Source",
    "Stacks", "Step", "Summary", "Tagged", "Target", "Tracker", "WhyNot", "Worker", "buffer", "builder_of",
    "compose", "conservative", "enter", "exact", "feedback", "inferred", "leave", "run", "why_not",
]  # fmt: skip
