"""Logs of real transactions: who can commit now, what an abort takes with it, who depends on each other.

`committable`, `cascade` and `cycles` take two tables, (id, status) and (needs, who), and answer for ten million
transactions in seconds.
"""

from pellucid.atomic.logs.answers import Cascade, Committable, Cycles, cascade, committable, cycles
from pellucid.atomic.logs.tables import STATUSES, Log, Names, read_log

__all__ = [
    "STATUSES", "Cascade", "Committable", "Cycles", "Log", "Names", "cascade", "committable", "cycles", "read_log",
]  # fmt: skip
