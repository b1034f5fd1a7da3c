"""Dependency logs too big for one machine: who can commit now, what an abort takes with it, who depends on each other.

`committable`, `cascade` and `cycles` of DataFrames give DataFrames, and say what `pellucid.atomic.logs` says of the
same tables.  No table comes to the driver; a chain of a million is no million of jobs (`rounds`); what fits in one task
is answered in one task, by the compiled loops (`finish`).
"""

from pellucid.spark.atomic.answers import Found, cascade, committable, cycles

__all__ = ["Found", "cascade", "committable", "cycles"]
