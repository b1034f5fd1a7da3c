"""Where everything stands in the rows of numbers that the compiled code works on.

The *state* of a network is a row: the phase (in `literal` the flags); tuples that are still to be put somewhere, who
puts them, and from which listener on; then each bolt: of a shared queue its length, of queues per worker the tuples
that are still to be put into one; how many workers are busy; the accumulator of its ratio; how many wait to emit (only
in `literal`); and the queues per worker, of the busy ones by age, then of the idle ones, longest first.

The *registers* have the numbers of the network and the addresses of its tables and of the room to work in; whatever is
compiled gets them as ``c``.
"""

from __future__ import annotations

from typing import Final

# the head of a state, and the numbers of a bolt in it
PHASE, PENDING, SOURCE, FROM, HEAD = range(5)
LENGTH, BUSY, DUE, DONE, QUEUES = range(5)

# registers: numbers of the network
(
    SPOUTS, BOLTS, WIDTH, ALL, LITERAL, SETTLED, TARGET, LIMIT, INF, BY_STEPS,
    GAP, TIME, WORKERS, APART, OVER, UNDER, CAP, AT, FIRST, HEARD, OUTSIDE,  # addresses of tables
    ANY_STATE, SETTLED_STATE,  # addresses of the longest queues that were seen
    ROW, ROW2, ROW3, MAP, ZONE, ZONE2, ZONE3, HERE, HERE_ZONE,  # addresses of room to work in
    RESULTS, RESULT, RESULTS_SIZE, COUNT, FULL,  # results of a step: where, how long each is, how many fit, are, lack
    NODES, NODE, NODES_SIZE, ZONES, ZONES_SIZE, TABLE, TABLE_SIZE, LISTS, LISTS_SIZE,  # what was found
    NODE_COUNT, ZONES_USED, KEPT, LOWEST, BEST, BEST_COST, WAITING, STATES, EXPANDED, ROWS,
    REGISTERS,
) = range(57)  # fmt: skip

# a result: its numbers, then the state, then the zone
SIZE, COST, BAD, KIND, WHO, WHERE, RESULT_HEAD = range(7)
# a node: its numbers, then the state
PARENT, NEXT, LINK, NODE_SIZE, NODE_COST, FLAG, NODE_KIND, NODE_WHO, NODE_WHERE, NODE_ZONE, NODE_HEAD = range(11)
WAITS, LEFT, COVERED = 0, 1, 2

# what a step was
EMIT, END, PLACE, SLOT, TAKES, ELAPSE, DO_TAKE, DO_EMIT, TAKE, START = range(10)
WORKERS_AT_MOST: Final = 4096  # an END says the bolt and the worker in one number

BLOCKED = 2  # what is asked of a state: whether something waits while no worker is idle (0: any state, 1: settled ones)

# flags of the literal semantics, in the phase
CAN, TAKES_FIRST, EMITS_FIRST, SET_TAKE, SET_EMIT = 1, 2, 4, 8, 16
