"""Progress: which times are still possible, and where (Abadi and Isard, *Timely Dataflow: A Model*, 2015).

Messages carry times of a partial order (`times`); a frontier is the antichain of those that may still come
(`antichain`).  A graph has ports and summaries of how a time grows on its way (`builder`, `summaries`, `paths`); loops
have to advance it (`loops`).  Its clock says for each port what may still come (`tracker`), also where several workers
share it (`workers`); what is sent is counted by capabilities (`capabilities`).

A `Graph` has nodes that do something: what could result in what follows from that (`reach`), and so does everything
that it can do (`semantics`).  `check.progress` asks whether it keeps its promises (`question`), `why_not` why a time is
not complete (`why`).
"""

from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
from pellucid.progress.could_result_in import builder_of, conservative, exact, inferred
from pellucid.progress.graph import Graph, Message, Node, Recursion, buffer
from pellucid.progress.reachability import Builder, Location, PathSummaries, Source, Target, Tracker
from pellucid.progress.running import Ran, run
from pellucid.progress.semantics import Semantics, Spec12, compose
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
from pellucid.progress.why import WhyNot, why_not
from pellucid.progress.workers import Capability, Notificator, Operator, Views, Worker, never_ahead

__all__ = [
    "Antichain", "Builder", "Capability", "ChangeBatch", "Domains", "Graph", "Integers", "Lexicographic",
    "Location", "Loop", "Message", "MutableAntichain", "Natural", "Node", "Notificator", "Operator", "Order",
    "Ordered", "Own", "PathSummaries", "Product", "Ran", "Recursion", "Semantics", "Set", "Shift", "Source",
    "Spec12", "Stacks", "Step", "Summary", "Tagged", "Target", "Tracker", "Views", "WhyNot", "Worker", "buffer",
    "builder_of", "compose", "conservative", "enter", "exact", "feedback", "inferred", "leave", "never_ahead",
    "run", "why_not",
]  # fmt: skip
