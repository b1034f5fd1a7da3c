"""What every room brings its machines to: one search, one budget, one notion of what is reached and how.

A **machine** has a start, steps with labels, and something that is seen of each of its states (`Machine`).  `Search`
goes through it breadth first within a `Budget`, so that the way to a state is a shortest one; `components` and
`shortest_cycle` look at what was found for runs that never end.
"""

from pellucid.model.budget import Budget, CutShort, now, patiently
from pellucid.model.components import components, shortest_cycle
from pellucid.model.machine import Machine
from pellucid.model.search import Search

__all__ = ["Budget", "CutShort", "Machine", "Search", "components", "now", "patiently", "shortest_cycle"]
