"""What every room brings its machines to: one search, one budget, one notion of what is reached and how.

A **machine** has a start, steps with labels, and something that is seen of each of its states (`Machine`).  `Search`
goes through it breadth first within a `Budget`, so that the way to a state is a shortest one; `components` and
`shortest_cycle` look at what was found for runs that never end.  The answer is a `Verdict`; what it found is a
`Counterexample` (for any machine, a `Run`), which has a table, a picture, a JSON document, a test and a replay.
"""

from pellucid.internal.model.counterexample import Counterexample, Run, follow
from pellucid.internal.model.search import (
    Budget,
    CutShort,
    Machine,
    Search,
    components,
    now,
    on_time,
    patiently,
    shortest_cycle,
)
from pellucid.internal.model.verdict import Judgement, Status, Verdict, combined

__all__ = [
    "Budget", "Counterexample", "CutShort", "Judgement", "Machine", "Run", "Search", "Status", "Verdict", "combined",
    "components", "follow", "now", "on_time", "patiently", "shortest_cycle",
]  # fmt: skip
