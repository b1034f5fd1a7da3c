"""The search itself, compiled: waiting and passed zones, inclusion, nearest first.

A node is a discrete state with a zone.  Nodes wait in lists by their cost (spout emits, or steps), the cheapest are
left first.  A zone that is part of another one of the same discrete state is not kept; one that turns out to be part of
a new one is *covered*: it is not looked at any more, and not left if it costs no less.  What is kept in the end is
closed under steps, which is the certificate.
"""

from __future__ import annotations

from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.compiled.jit import NOTHING, NUMBER, POINTER, compiled, numbers, together
from pellucid.capacity.zones.compiled.literal import begin_literally, literal
from pellucid.capacity.zones.compiled.urgent import begin, urgent

WORKING, DONE, FOUND, MORE_NODES, MORE_ZONES, MORE_SLOTS, MORE_RESULTS, MORE_COSTS = range(8)
FURTHER = 4096  # a step costs less than this


@compiled(POINTER, "pn")
def node_at(c, node):  # type: ignore[no-untyped-def]
    """The numbers of a node."""
    return numbers(c[y.NODES] + 8 * node * c[y.NODE])


@compiled(NUMBER, "ppn")
def slot_of(c, row, at):  # type: ignore[no-untyped-def]
    """Where the state that begins at ``at`` of a row is in the table, or would be."""
    table, mask, width = numbers(c[y.TABLE]), c[y.TABLE_SIZE] - 1, c[y.WIDTH]
    h = 0x1E3779B97F4A7C15
    for i in range(width):
        h = (h ^ row[at + i]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    slot = (h ^ ((h >> 29) & 0x7FFFFFFFF)) & mask
    while table[slot] >= 0:
        node, same = node_at(c, table[slot]), True
        for k in range(width):
            if node[y.NODE_HEAD + k] != row[at + k]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled(NOTHING, "pnn")
def wait(c, node, cost):  # type: ignore[no-untyped-def]
    """Put a node into the list of its cost."""
    lists = numbers(c[y.LISTS])
    node_at(c, node)[y.LINK] = -1
    if lists[2 * cost] < 0:
        lists[2 * cost] = node
    else:
        node_at(c, lists[2 * cost + 1])[y.LINK] = node
    lists[2 * cost + 1] = node
    c[y.WAITING] += 1
    if cost < c[y.LOWEST]:
        c[y.LOWEST] = cost


@compiled(NUMBER, "ppnn")
def add(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """A new node for a result."""
    number, n = c[y.NODE_COUNT], result[y.SIZE]
    node = node_at(c, number)
    c[y.NODE_COUNT] += 1
    node[y.PARENT], node[y.NODE_SIZE], node[y.NODE_COST], node[y.FLAG], node[y.NODE_ZONE] = (
        parent,
        n,
        cost,
        y.WAITS,
        c[y.ZONES_USED],
    )
    node[y.NODE_KIND], node[y.NODE_WHO], node[y.NODE_WHERE] = result[y.KIND], result[y.WHO], result[y.WHERE]
    node[y.NEXT] = -1
    for i in range(c[y.WIDTH]):
        node[y.NODE_HEAD + i] = result[y.RESULT_HEAD + i]
    zones = numbers(c[y.ZONES])
    for i in range(n * n):
        zones[c[y.ZONES_USED] + i] = result[y.RESULT_HEAD + c[y.WIDTH] + i]
    c[y.ZONES_USED] += n * n
    return number


@compiled(NOTHING, "ppnn")
def keep(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """Keep a result, unless a zone that is known has it; those that it has are covered."""
    slot = slot_of(c, result, y.RESULT_HEAD)
    table, zones = numbers(c[y.TABLE]), numbers(c[y.ZONES])
    count, mine = result[y.SIZE] * result[y.SIZE], y.RESULT_HEAD + c[y.WIDTH]
    head = table[slot]
    number, before = head, -1
    while number >= 0:
        node = node_at(c, number)
        at, part, has = node[y.NODE_ZONE], True, True
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
        after = node[y.NEXT]
        if has and (node[y.FLAG] == y.LEFT or node[y.NODE_COST] >= cost):
            node[y.FLAG] = y.COVERED
            c[y.KEPT] -= 1
            if before < 0:
                head = after
            else:
                node_at(c, before)[y.NEXT] = after
        else:
            before = number
        number = after
    new = add(c, result, parent, cost)
    if table[slot] < 0:
        c[y.STATES] += 1
    node_at(c, new)[y.NEXT] = head
    table[slot] = new
    c[y.KEPT] += 1
    wait(c, new, cost)


@compiled(NOTHING, "pnn")
def absorb(c, parent, cost):  # type: ignore[no-untyped-def]
    """Keep the results of a step; of the bad ones the cheapest."""
    for k in range(c[y.COUNT]):
        result = numbers(c[y.RESULTS] + 8 * k * c[y.RESULT])
        total = cost + result[y.COST]
        if not result[y.BAD]:
            keep(c, result, parent, total)
        elif c[y.BEST] < 0 or total < c[y.BEST_COST]:
            c[y.BEST] = add(c, result, parent, total)
            c[y.BEST_COST] = total


@compiled(NUMBER, "p")
def lacks(c):  # type: ignore[no-untyped-def]
    """What there is not enough of for one more step."""
    most = c[y.RESULTS_SIZE]
    if c[y.NODE_COUNT] + most > c[y.NODES_SIZE]:
        return MORE_NODES
    if c[y.ZONES_USED] + most * c[y.ROWS] * c[y.ROWS] > c[y.ZONES_SIZE]:
        return MORE_ZONES
    if 2 * (c[y.STATES] + most) > c[y.TABLE_SIZE]:
        return MORE_SLOTS
    if c[y.LOWEST] + FURTHER > c[y.LISTS_SIZE]:
        return MORE_COSTS
    return WORKING


@together
def rehash(registers, old):  # type: ignore[no-untyped-def]
    """Fill a new table from an old one."""
    c = numbers(registers.ctypes.data)
    for i in range(old.shape[0]):
        if old[i] >= 0:
            numbers(c[y.TABLE])[slot_of(c, node_at(c, old[i]), y.NODE_HEAD)] = old[i]


@together
def search(registers, turns):  # type: ignore[no-untyped-def]
    """Leave so many nodes, the first time from the beginning; WORKING if there are more, else why it stops."""
    c = numbers(registers.ctypes.data)
    here, zone, lists = numbers(c[y.HERE]), numbers(c[y.HERE_ZONE]), numbers(c[y.LISTS])
    for _ in range(turns):
        lack = lacks(c)
        if lack != WORKING:
            return lack
        if c[y.NODE_COUNT] > 0:
            while c[y.WAITING] > 0 and lists[2 * c[y.LOWEST]] < 0:
                c[y.LOWEST] += 1
            if c[y.BEST] >= 0 and (c[y.BEST_COST] <= c[y.LOWEST] or c[y.WAITING] == 0):
                return FOUND
            if c[y.WAITING] == 0:
                return DONE
            if c[y.LOWEST] + FURTHER > c[y.LISTS_SIZE]:
                return MORE_COSTS
        cost, number = c[y.LOWEST], -1
        c[y.COUNT] = c[y.FULL] = 0
        if c[y.NODE_COUNT] == 0:
            if c[y.LITERAL]:
                begin_literally(c, here)
            else:
                begin(c, here)
        else:
            number = lists[2 * cost]
            node = node_at(c, number)
            if node[y.FLAG] == y.WAITS:
                n, stored = node[y.NODE_SIZE], node[y.NODE_ZONE]
                for i in range(c[y.WIDTH]):
                    here[i] = node[y.NODE_HEAD + i]
                for i in range(n * n):
                    zone[i] = numbers(c[y.ZONES])[stored + i]
                if c[y.LITERAL]:
                    literal(c, here, zone, n)
                else:
                    urgent(c, here, zone, n)
        if c[y.FULL]:
            return MORE_RESULTS
        if number >= 0:
            node = node_at(c, number)
            if node[y.FLAG] == y.WAITS:
                node[y.FLAG] = y.LEFT
                c[y.EXPANDED] += 1
            lists[2 * cost] = node[y.LINK]
            c[y.WAITING] -= 1
        absorb(c, number, cost)
    return WORKING
