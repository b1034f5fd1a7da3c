"""The search itself, compiled: waiting and passed zones, inclusion, nearest first.

A node is a discrete state with a zone.  Nodes wait in lists by their cost (spout emits, or steps), the cheapest are
left first.  A zone that is part of another one of the same discrete state is not kept; one that turns out to be part of
a new one is *covered*: it is not looked at any more, and not left if it costs no less.  What is kept in the end is
closed under steps, which is the certificate.
"""

from __future__ import annotations

from numba import njit

from pellucid.capacity.zones.layout import (
    BAD, BEST, BEST_COST, COST, COUNT, COVERED, EXPANDED, FLAG, FULL, HERE, HERE_ZONE, KEPT, KIND, LEFT, LINK, LISTS,
    LISTS_SIZE, LITERAL, LOWEST, NEXT, NODE, NODE_COST, NODE_COUNT, NODE_HEAD, NODE_KIND, NODE_SIZE, NODE_WHERE,
    NODE_WHO, NODE_ZONE, NODES, NODES_SIZE, PARENT, RESULT, RESULT_HEAD, RESULTS, RESULTS_SIZE, ROWS, SIZE, STATES,
    TABLE, TABLE_SIZE, WAITING, WAITS, WHERE, WHO, WIDTH, ZONES, ZONES_SIZE, ZONES_USED,
)  # fmt: skip
from pellucid.capacity.zones.literal import begin_literally, literal
from pellucid.capacity.zones.matrix import NOTHING, NUMBER, POINTER, compiled, numbers
from pellucid.capacity.zones.urgent import begin, urgent

WORKING, DONE, FOUND, MORE_NODES, MORE_ZONES, MORE_SLOTS, MORE_RESULTS, MORE_COSTS = range(8)
FURTHER = 4096  # a step costs less than this

entry = njit(cache=True, error_model="numpy", nogil=True)


@compiled(POINTER, "pn")
def node_at(c, node):  # type: ignore[no-untyped-def]
    """The numbers of a node."""
    return numbers(c[NODES] + 8 * node * c[NODE])


@compiled(NUMBER, "ppn")
def slot_of(c, row, at):  # type: ignore[no-untyped-def]
    """Where the state that begins at ``at`` of a row is in the table, or would be."""
    table, mask, width = numbers(c[TABLE]), c[TABLE_SIZE] - 1, c[WIDTH]
    h = 0x1E3779B97F4A7C15
    for i in range(width):
        h = (h ^ row[at + i]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    slot = (h ^ ((h >> 29) & 0x7FFFFFFFF)) & mask
    while table[slot] >= 0:
        node, same = node_at(c, table[slot]), True
        for k in range(width):
            if node[NODE_HEAD + k] != row[at + k]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled(NOTHING, "pnn")
def wait(c, node, cost):  # type: ignore[no-untyped-def]
    """Put a node into the list of its cost."""
    lists = numbers(c[LISTS])
    node_at(c, node)[LINK] = -1
    if lists[2 * cost] < 0:
        lists[2 * cost] = node
    else:
        node_at(c, lists[2 * cost + 1])[LINK] = node
    lists[2 * cost + 1] = node
    c[WAITING] += 1
    if cost < c[LOWEST]:
        c[LOWEST] = cost


@compiled(NUMBER, "ppnn")
def add(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """A new node for a result."""
    number, n = c[NODE_COUNT], result[SIZE]
    node = node_at(c, number)
    c[NODE_COUNT] += 1
    node[PARENT], node[NODE_SIZE], node[NODE_COST], node[FLAG], node[NODE_ZONE] = parent, n, cost, WAITS, c[ZONES_USED]
    node[NODE_KIND], node[NODE_WHO], node[NODE_WHERE] = result[KIND], result[WHO], result[WHERE]
    node[NEXT] = -1
    for i in range(c[WIDTH]):
        node[NODE_HEAD + i] = result[RESULT_HEAD + i]
    zones = numbers(c[ZONES])
    for i in range(n * n):
        zones[c[ZONES_USED] + i] = result[RESULT_HEAD + c[WIDTH] + i]
    c[ZONES_USED] += n * n
    return number


@compiled(NOTHING, "ppnn")
def keep(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """Keep a result, unless a zone that is known has it; those that it has are covered."""
    slot = slot_of(c, result, RESULT_HEAD)
    table, zones = numbers(c[TABLE]), numbers(c[ZONES])
    count, mine = result[SIZE] * result[SIZE], RESULT_HEAD + c[WIDTH]
    head = table[slot]
    number, before = head, -1
    while number >= 0:
        node = node_at(c, number)
        at, part, has = node[NODE_ZONE], True, True
        for i in range(count):
            a, b = result[mine + i], zones[at + i]
            if a > b:
                part = False
            elif b > a:
                has = False
            if not (part or has):
                break
        if part:
            return
        after = node[NEXT]
        if has and (node[FLAG] == LEFT or node[NODE_COST] >= cost):
            node[FLAG] = COVERED
            c[KEPT] -= 1
            if before < 0:
                head = after
            else:
                node_at(c, before)[NEXT] = after
        else:
            before = number
        number = after
    new = add(c, result, parent, cost)
    if table[slot] < 0:
        c[STATES] += 1
    node_at(c, new)[NEXT] = head
    table[slot] = new
    c[KEPT] += 1
    wait(c, new, cost)


@compiled(NOTHING, "pnn")
def absorb(c, parent, cost):  # type: ignore[no-untyped-def]
    """Keep the results of a step; of the bad ones the cheapest."""
    for k in range(c[COUNT]):
        result = numbers(c[RESULTS] + 8 * k * c[RESULT])
        total = cost + result[COST]
        if not result[BAD]:
            keep(c, result, parent, total)
        elif c[BEST] < 0 or total < c[BEST_COST]:
            c[BEST] = add(c, result, parent, total)
            c[BEST_COST] = total


@compiled(NUMBER, "p")
def lacks(c):  # type: ignore[no-untyped-def]
    """What there is not enough of for one more step."""
    most = c[RESULTS_SIZE]
    if c[NODE_COUNT] + most > c[NODES_SIZE]:
        return MORE_NODES
    if c[ZONES_USED] + most * c[ROWS] * c[ROWS] > c[ZONES_SIZE]:
        return MORE_ZONES
    if 2 * (c[STATES] + most) > c[TABLE_SIZE]:
        return MORE_SLOTS
    if c[LOWEST] + FURTHER > c[LISTS_SIZE]:
        return MORE_COSTS
    return WORKING


@entry
def rehash(registers, old):  # type: ignore[no-untyped-def]
    """Fill a new table from an old one."""
    c = numbers(registers.ctypes.data)
    for i in range(old.shape[0]):
        if old[i] >= 0:
            numbers(c[TABLE])[slot_of(c, node_at(c, old[i]), NODE_HEAD)] = old[i]


@entry
def search(registers, turns):  # type: ignore[no-untyped-def]
    """Leave so many nodes, the first time from the beginning; WORKING if there are more, else why it stops."""
    c = numbers(registers.ctypes.data)
    here, zone, lists = numbers(c[HERE]), numbers(c[HERE_ZONE]), numbers(c[LISTS])
    for _ in range(turns):
        lack = lacks(c)
        if lack != WORKING:
            return lack
        if c[NODE_COUNT] > 0:
            while c[WAITING] > 0 and lists[2 * c[LOWEST]] < 0:
                c[LOWEST] += 1
            if c[BEST] >= 0 and (c[BEST_COST] <= c[LOWEST] or c[WAITING] == 0):
                return FOUND
            if c[WAITING] == 0:
                return DONE
            if c[LOWEST] + FURTHER > c[LISTS_SIZE]:
                return MORE_COSTS
        cost, number = c[LOWEST], -1
        c[COUNT] = c[FULL] = 0
        if c[NODE_COUNT] == 0:
            if c[LITERAL]:
                begin_literally(c, here)
            else:
                begin(c, here)
        else:
            number = lists[2 * cost]
            node = node_at(c, number)
            if node[FLAG] == WAITS:
                n, stored = node[NODE_SIZE], node[NODE_ZONE]
                for i in range(c[WIDTH]):
                    here[i] = node[NODE_HEAD + i]
                for i in range(n * n):
                    zone[i] = numbers(c[ZONES])[stored + i]
                if c[LITERAL]:
                    literal(c, here, zone, n)
                else:
                    urgent(c, here, zone, n)
        if c[FULL]:
            return MORE_RESULTS
        if number >= 0:
            node = node_at(c, number)
            if node[FLAG] == WAITS:
                node[FLAG] = LEFT
                c[EXPANDED] += 1
            lists[2 * cost] = node[LINK]
            c[WAITING] -= 1
        absorb(c, number, cost)
    return WORKING
