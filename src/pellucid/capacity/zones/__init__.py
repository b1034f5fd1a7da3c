"""Zones: the exact engine for given numbers of workers, and for any number.

With given workers a topology is a timed automaton without diagonals.  A *zone* is a set of values of its clocks (the
time since a spout has emitted, the age of a tuple in a worker's hands): all that satisfy bounds on their differences.
`search` goes through all zones that can be reached (`compiled` is what it is made of), `run` makes an exact run of what
it finds, `proof` a certificate where it finds nothing.  `decide` asks flow first; `thresholds` finds the least gap and
the least workers, `workers` answers for any number of them; `question` is `check.capacity`.
"""
