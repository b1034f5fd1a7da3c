"""The loop of the clock, compiled.  Loaded only when a compiled clock is built.

It is made of `tables` (where which number lies), `nodes`, `forest` and `heap`; here is what ties them together.

What the clock knows is numbers in four arrays, which can grow:

- ``clock``: registers, and a *cell* three times for each location: for its own pointstamps, for what reaches it, and
  for the changes of its frontier that nobody has asked for yet;
- ``nodes``: a *node* is a time with its count in a cell, a row from its address on.  The nodes of a cell with a
  positive count hang in a forest, each below one that is before it; the roots are the cell's frontier (as in
  `MutableAntichain`);
- ``table``: a hash table of the nodes' addresses, by cell and time; its first number is its size less one;
- ``heap``: changes that wait to be settled, in the order of `plan`: rows of a location, a change, a time.

`propagate` returns what it lacks (nodes, or room in the heap), and goes on where it was when it is called again.
"""

from __future__ import annotations

from pellucid.progress.packed.forest import update
from pellucid.progress.packed.heap import pop, push, sooner
from pellucid.progress.packed.nodes import enter, find, forget, new
from pellucid.progress.packed.plan import HEAD
from pellucid.progress.packed.tables import (
    AFTER,
    AT,
    BEFORE,
    CELL,
    CELLS,
    COUNT,
    CURSOR,
    DONE,
    FREE,
    FREES,
    HEAP,
    IN_HEAP,
    LACKS,
    MORE_HEAP,
    MORE_NODES,
    NEXT,
    NODES,
    NOTED,
    NOTES,
    OF,
    OUT,
    OWN,
    PLACE,
    PUSHED,
    PUSHES,
    REACHED,
    ROOTS,
    SETTLED,
    TIME,
    UPDATES,
    kept,
    numbers,
    part,
)


@part
def tell(clock, nodes, table, cell, row, at, diff, w):  # type: ignore[no-untyped-def]
    """A change of a frontier, for those who ask; opposite ones cancel."""
    node = find(nodes, table, cell, row, at, w)
    if node < 0:
        node = new(clock, nodes, table, cell, row, at, w)
        head = clock[PUSHED]
        nodes[node + AFTER] = head
        if head >= 0:
            nodes[head + BEFORE] = node
        clock[PUSHED] = node
        clock[PUSHES] += 1
    nodes[node + COUNT] += diff
    if nodes[node + COUNT] == 0:
        before, after = nodes[node + BEFORE], nodes[node + AFTER]
        if before >= 0:
            nodes[before + AFTER] = after
        else:
            clock[PUSHED] = after
        if after >= 0:
            nodes[after + BEFORE] = before
        clock[PUSHES] -= 1
        forget(clock, nodes, table, node, w)


@part
def spread(clock, nodes, table, heap, graph, w, n):  # type: ignore[no-untyped-def]
    """Hand on the changes that were noted: those of own pointstamps to what reaches the location, those of what
    reaches it along its arcs.  What is lacking is returned, and then nothing was done."""
    size = w + 2
    d, arcs = graph[2], graph[3]
    ranks = HEAD + n + d * w
    starts = ranks + n * (w + 1)
    to = starts + n + 1
    how, ways = to + arcs, to + 2 * arcs
    cell, location, kind = clock[AT], (clock[AT] - CELLS) // (3 * CELL), (clock[AT] - CELLS) // CELL % 3
    noted, node = 0, clock[NOTES]
    while node >= 0:
        noted += 1
        node = nodes[node + NEXT]
    own = kind == OWN
    first, last = graph[starts + location], graph[starts + location + 1]
    rows = noted if own else noted * (last - first)
    if clock[IN_HEAP] + rows > clock[HEAP]:
        clock[LACKS] = rows
        return MORE_HEAP
    if clock[FREES] < noted:
        clock[LACKS] = noted
        return MORE_NODES
    node = clock[NOTES]
    clock[NOTES] = -1
    while node >= 0:
        diff, following = nodes[node + NOTED], nodes[node + NEXT]
        nodes[node + NOTED], nodes[node + NEXT] = 0, -1
        if own:
            o = clock[IN_HEAP] * size
            heap[o], heap[o + 1] = location, diff
            for p in range(w):
                heap[o + 2 + p] = nodes[node + TIME + p]
            push(clock, heap, graph, ranks, w)
        else:
            tell(clock, nodes, table, cell + CELL, nodes, node + TIME, diff, w)
            for a in range(first, last):
                o = clock[IN_HEAP] * size
                heap[o], heap[o + 1] = graph[to + a], diff
                s, through = graph[how + a], True
                if s < 0:
                    for p in range(w):
                        heap[o + 2 + p] = nodes[node + TIME + p]
                else:
                    for p in range(w):
                        way = ways + (s * w + p) * 4
                        x = max(nodes[node + TIME + p], graph[way])  # below the first there are all: the first is meant
                        if x > graph[way + 1]:
                            through = False
                            break
                        heap[o + 2 + p] = graph[way + 3] if graph[way + 2] else x + graph[way + 3]
                if through:
                    push(clock, heap, graph, ranks, w)
        if nodes[node + COUNT] == 0 and nodes[node + PLACE] == OUT:
            forget(clock, nodes, table, node, w)
        node = following
    return DONE


@kept
def propagate(where):  # type: ignore[no-untyped-def]
    """Take the updates (rows of a location, a change, a time) and settle all that follows.  ``where`` has the addresses
    of all arrays."""
    graph, clock, nodes = numbers(where[0]), numbers(where[1]), numbers(where[2])
    table, heap, updates = numbers(where[3]), numbers(where[4]), numbers(where[5])
    w, n = graph[0], graph[1]
    size = w + 2
    ends = HEAD + n
    ranks = ends + graph[2] * w
    while True:
        if clock[NOTES] >= 0:
            lacks = spread(clock, nodes, table, heap, graph, w, n)
            if lacks != DONE:
                return lacks
        if clock[FREES] < 1:
            clock[LACKS] = 1
            return MORE_NODES
        if clock[CURSOR] < clock[UPDATES]:
            o = clock[CURSOR]
            location = updates[o]
            cell = CELLS + CELL * (3 * location + OWN)
            clock[AT] = cell
            domain = ends + graph[HEAD + location] * w
            update(clock, nodes, table, graph, domain, cell, updates, o + 2, updates[o + 1], w)
            clock[CURSOR] += size
            continue
        if clock[IN_HEAP] == 0:
            break
        o = pop(clock, heap, graph, ranks, w)
        location, diff = heap[o], heap[o + 1]
        while clock[IN_HEAP] and sooner(heap, graph, ranks, 0, o, w) == 0:  # the same, once more
            o = pop(clock, heap, graph, ranks, w)
            diff += heap[o + 1]
        clock[SETTLED] += 1
        if diff:
            cell = CELLS + CELL * (3 * location + REACHED)
            clock[AT] = cell
            domain = ends + graph[HEAD + location] * w
            update(clock, nodes, table, graph, domain, cell, heap, o + 2, diff, w)
    clock[CURSOR] = clock[UPDATES] = 0
    return DONE


# ---------------------------------------------------------------- around it


@kept
def reset(where, cells):  # type: ignore[no-untyped-def]
    """An empty clock."""
    clock = numbers(where[1])
    for cell in range(CELLS, CELLS + CELL * cells, CELL):
        clock[cell + ROOTS] = -1
    clock[PUSHED] = clock[NOTES] = clock[FREE] = -1


@kept
def supply(where, size):  # type: ignore[no-untyped-def]
    """The nodes beyond those that there were are free; an empty table has room for all."""
    graph, clock, nodes, table = numbers(where[0]), numbers(where[1]), numbers(where[2]), numbers(where[3])
    w, old = graph[0], clock[NODES]
    clock[NODES] = size
    for node in range(size - (TIME + w), old - 1, -(TIME + w)):
        nodes[node + OF] = -1
        nodes[node + AFTER] = clock[FREE]
        clock[FREE] = node
        clock[FREES] += 1
    for i in range(table[0] + 1):
        table[1 + i] = -1
    for node in range(0, old, TIME + w):
        if nodes[node + OF] >= 0:
            enter(nodes, table, node, w)


@kept
def drain(where, out):  # type: ignore[no-untyped-def]
    """The changes of frontiers since they were asked for last: rows of a location, a change, a time."""
    graph, clock, nodes, table = numbers(where[0]), numbers(where[1]), numbers(where[2]), numbers(where[3])
    w = graph[0]
    node, k = clock[PUSHED], 0
    while node >= 0:
        following = nodes[node + AFTER]
        out[k] = (nodes[node + OF] - CELLS) // (3 * CELL)
        out[k + 1] = nodes[node + COUNT]
        for p in range(w):
            out[k + 2 + p] = nodes[node + TIME + p]
        k += w + 2
        forget(clock, nodes, table, node, w)
        node = following
    clock[PUSHED] = -1
    clock[PUSHES] = 0


@kept
def frontier(where, location, out):  # type: ignore[no-untyped-def]
    """The frontier of a location as rows of times; how many there are, also where the room does not suffice."""
    graph, clock, nodes = numbers(where[0]), numbers(where[1]), numbers(where[2])
    w = graph[0]
    node, k = clock[CELLS + CELL * (3 * location + REACHED) + ROOTS], 0
    while node >= 0:
        if (k + 1) * w <= out.size:
            for p in range(w):
                out[k * w + p] = nodes[node + TIME + p]
        k += 1
        node = nodes[node + AFTER]
    return k


@kept
def counted(where, out):  # type: ignore[no-untyped-def]
    """All own pointstamps: rows of a location, a count, a time; how many there are."""
    graph, clock, nodes = numbers(where[0]), numbers(where[1]), numbers(where[2])
    w = graph[0]
    size, k = w + 2, 0
    for node in range(0, clock[NODES], TIME + w):
        cell = nodes[node + OF]
        if cell >= 0 and (cell - CELLS) // CELL % 3 == OWN and nodes[node + COUNT] != 0:
            if (k + 1) * size <= out.size:
                out[k * size] = (cell - CELLS) // (3 * CELL)
                out[k * size + 1] = nodes[node + COUNT]
                for p in range(w):
                    out[k * size + 2 + p] = nodes[node + TIME + p]
            k += 1
    return k
