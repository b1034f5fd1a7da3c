"""Progress: which times are still possible, and where (Abadi and Isard, *Timely Dataflow: A Model*, 2015).

Messages carry times of a partial order (`times`); a frontier is the antichain of those that may still come
(`antichain`).
"""

from pellucid.progress.antichain import Antichain, ChangeBatch, MutableAntichain
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

__all__ = [
    "NATURAL", "Antichain", "ChangeBatch", "Domains", "Integers", "Lexicographic", "Loop", "MutableAntichain",
    "Natural", "Order", "Ordered", "Own", "Product", "Stacks",
]  # fmt: skip
