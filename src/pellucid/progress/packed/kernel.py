"""The loop of the clock, compiled.  Loaded only when a compiled clock is built.

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

from numba import njit, types
from numba.extending import intrinsic

from pellucid.progress.packed.plan import HEAD

DONE, MORE_NODES, MORE_HEAP = 0, 1, 2
# registers
IN_HEAP, FREE, FREES, NOTES, AT, CURSOR, PUSHED, PUSHES, SETTLED, LACKS, HEAP, NODES, UPDATES = range(13)
CELLS = 13  # from here on: for each cell its first root, how many nodes it has, and how many of them are idle
ROOTS, KNOWN, IDLE, CELL = 0, 1, 2, 3
OWN, REACHED, TOLD = 0, 1, 2  # the three cells of a location, one behind the other
# a node
COUNT, OF, CHILD, AFTER, BEFORE, PLACE, NOTED, NEXT, TIME = range(9)
OUT, BELOW, ROOT = 0, 1, 2  # places: in no forest, below another node, a root

_jit = njit(cache=True, error_model="numpy", nogil=True)
_part = njit(cache=True, error_model="numpy", nogil=True, forceinline=True)  # a call would cost more than what it does


@intrinsic
def _at(context, address):  # type: ignore[no-untyped-def]
    """The numbers from an address on.  The loop goes over them without counting who holds them, as it would for arrays:
    the tracker holds them while it runs."""
    kind = types.CPointer(types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64), generate


# ---------------------------------------------------------------- nodes, by cell and time


@_part
def _slot(cell, row, at, w, mask):  # type: ignore[no-untyped-def]
    h = cell * 0x1E3779B97F4A7C15
    for p in range(w):
        h = (h ^ row[at + p]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    h ^= (h >> 29) & 0x7FFFFFFFF
    return h & mask


@_part
def _find(nodes, table, cell, row, at, w):  # type: ignore[no-untyped-def]
    """The node of a cell and a time, or −1."""
    mask = table[0]
    i = _slot(cell, row, at, w, mask)
    while table[1 + i] >= 0:
        node = table[1 + i]
        if nodes[node + OF] == cell:
            same = True
            for p in range(w):
                if nodes[node + TIME + p] != row[at + p]:
                    same = False
                    break
            if same:
                return node
        i = (i + 1) & mask
    return -1


@_part
def _enter(nodes, table, node, w):  # type: ignore[no-untyped-def]
    mask = table[0]
    i = _slot(nodes[node + OF], nodes, node + TIME, w, mask)
    while table[1 + i] >= 0:
        i = (i + 1) & mask
    table[1 + i] = node


@_part
def _new(clock, nodes, table, cell, row, at, w):  # type: ignore[no-untyped-def]
    node = clock[FREE]
    clock[FREE] = nodes[node + AFTER]
    clock[FREES] -= 1
    clock[cell + KNOWN] += 1
    nodes[node + COUNT], nodes[node + OF], nodes[node + PLACE], nodes[node + NOTED] = 0, cell, OUT, 0
    nodes[node + CHILD] = nodes[node + AFTER] = nodes[node + BEFORE] = nodes[node + NEXT] = -1
    for p in range(w):
        nodes[node + TIME + p] = row[at + p]
    _enter(nodes, table, node, w)
    return node


@_part
def _forget(clock, nodes, table, node, w):  # type: ignore[no-untyped-def]
    mask = table[0]
    i = _slot(nodes[node + OF], nodes, node + TIME, w, mask)
    while table[1 + i] != node:
        i = (i + 1) & mask
    j = i
    while True:  # close the gap
        table[1 + i] = -1
        while True:
            j = (j + 1) & mask
            other = table[1 + j]
            if other < 0:
                break
            home = _slot(nodes[other + OF], nodes, other + TIME, w, mask)
            if (i <= j and (home <= i or home > j)) or (i > j and home <= i and home > j):
                break
        if other < 0:
            break
        table[1 + i] = other
        i = j
    clock[nodes[node + OF] + KNOWN] -= 1
    nodes[node + OF] = -1
    nodes[node + AFTER] = clock[FREE]
    clock[FREE] = node
    clock[FREES] += 1


# ---------------------------------------------------------------- the forest of a cell


@_part
def _le(nodes, graph, ends, a, b, w):  # type: ignore[no-untyped-def]
    """Whether the time of one node is before that of another; from ``ends`` on stands where the groups of their domain
    end."""
    if w == 1:
        return nodes[a + TIME] <= nodes[b + TIME]
    decided = False
    for p in range(w):
        if not decided:
            x, y = nodes[a + TIME + p], nodes[b + TIME + p]
            if x > y:
                return False
            decided = x < y
        if graph[ends + p]:
            decided = False
    return True


@_part
def _note(clock, nodes, node, diff):  # type: ignore[no-untyped-def]
    """A change of the frontier of the cell that is at work."""
    nodes[node + NOTED] = diff
    nodes[node + NEXT] = clock[NOTES]
    clock[NOTES] = node


@_part
def _hang(nodes, parent, node):  # type: ignore[no-untyped-def]
    nodes[node + AFTER] = nodes[parent + CHILD]
    nodes[parent + CHILD] = node
    nodes[node + PLACE] = BELOW


@_part
def _root(clock, nodes, cell, node):  # type: ignore[no-untyped-def]
    head = clock[cell + ROOTS]
    nodes[node + AFTER], nodes[node + BEFORE], nodes[node + PLACE] = head, -1, ROOT
    if head >= 0:
        nodes[head + BEFORE] = node
    clock[cell + ROOTS] = node


@_part
def _unroot(clock, nodes, cell, node):  # type: ignore[no-untyped-def]
    before, after = nodes[node + BEFORE], nodes[node + AFTER]
    if before >= 0:
        nodes[before + AFTER] = after
    else:
        clock[cell + ROOTS] = after
    if after >= 0:
        nodes[after + BEFORE] = before
    nodes[node + PLACE] = OUT


@_part
def _plant(clock, nodes, graph, ends, cell, node, w):  # type: ignore[no-untyped-def]
    """A node with a positive count that is in no forest."""
    r = clock[cell + ROOTS]
    while r >= 0:
        if _le(nodes, graph, ends, r, node, w):
            _hang(nodes, r, node)
            return
        r = nodes[r + AFTER]
    r = clock[cell + ROOTS]
    while r >= 0:
        following = nodes[r + AFTER]
        if _le(nodes, graph, ends, node, r, w):
            _unroot(clock, nodes, cell, r)
            _hang(nodes, node, r)
            _note(clock, nodes, r, -1)
        r = following
    _root(clock, nodes, cell, node)
    _note(clock, nodes, node, 1)


@_part
def _merge(nodes, graph, ends, one, two, w):  # type: ignore[no-untyped-def]
    """Of two antichains of nodes, linked by what comes after, one: what is after another hangs below it."""
    while two >= 0:
        following = nodes[two + AFTER]
        lower = one
        while lower >= 0 and not _le(nodes, graph, ends, lower, two, w):
            lower = nodes[lower + AFTER]
        if lower >= 0:
            _hang(nodes, lower, two)
        else:
            stay, r = -1, one
            while r >= 0:
                more = nodes[r + AFTER]
                if _le(nodes, graph, ends, two, r, w):
                    _hang(nodes, two, r)
                else:
                    nodes[r + AFTER] = stay
                    stay = r
                r = more
            nodes[two + AFTER] = stay
            one = two
        two = following
    return one


@_part
def _open(nodes, node, todo):  # type: ignore[no-untyped-def]
    """What hangs below a node, before what is to be done already."""
    below = nodes[node + CHILD]
    nodes[node + CHILD] = -1
    while below >= 0:
        following = nodes[below + AFTER]
        nodes[below + AFTER] = todo
        todo = below
        below = following
    return todo


@_jit
def _uproot(clock, nodes, table, graph, ends, cell, gone, w):  # type: ignore[no-untyped-def]
    """A root without a positive count: what was below it, and is below nothing else, is a root now."""
    _unroot(clock, nodes, cell, gone)
    _note(clock, nodes, gone, -1)
    todo = _open(nodes, gone, -1)
    first, last = -1, -1  # a queue of antichains, linked by what is before at their first nodes
    while todo >= 0:
        node = todo
        todo = nodes[node + AFTER]
        if nodes[node + COUNT] > 0:
            nodes[node + AFTER] = nodes[node + BEFORE] = -1
            if last >= 0:
                nodes[last + BEFORE] = node
            else:
                first = node
            last = node
        else:
            clock[cell + IDLE] -= 1
            nodes[node + PLACE] = OUT
            todo = _open(nodes, node, todo)
            if nodes[node + COUNT] == 0:
                _forget(clock, nodes, table, node, w)
    while first >= 0 and nodes[first + BEFORE] >= 0:
        two = nodes[first + BEFORE]
        rest = nodes[two + BEFORE]
        one = _merge(nodes, graph, ends, first, two, w)
        nodes[one + BEFORE] = -1
        if rest >= 0:
            first = rest
            nodes[last + BEFORE] = one
        else:
            first = one
        last = one
    node = first
    while node >= 0:
        following = nodes[node + AFTER]
        r = clock[cell + ROOTS]
        while r >= 0 and not _le(nodes, graph, ends, r, node, w):
            r = nodes[r + AFTER]
        if r >= 0:
            _hang(nodes, r, node)
        else:
            _root(clock, nodes, cell, node)
            _note(clock, nodes, node, 1)
        node = following


@_jit
def _sweep(clock, nodes, table, cell, w):  # type: ignore[no-untyped-def]
    """Forget what has no count; its cost is paid by as many updates as there are to forget."""
    r = clock[cell + ROOTS]
    while r >= 0:
        todo = _open(nodes, r, -1)
        while todo >= 0:
            node = todo
            todo = _open(nodes, node, nodes[node + AFTER])
            if nodes[node + COUNT] > 0:
                _hang(nodes, r, node)
            else:
                nodes[node + PLACE] = OUT
                if nodes[node + COUNT] == 0:
                    _forget(clock, nodes, table, node, w)
        r = nodes[r + AFTER]
    clock[cell + IDLE] = 0


@_part
def _update(clock, nodes, table, graph, ends, cell, row, at, diff, w):  # type: ignore[no-untyped-def]
    """Change a count; the changes of the cell's frontier are noted."""
    node = _find(nodes, table, cell, row, at, w)
    if node < 0:
        if diff == 0:
            return
        node = _new(clock, nodes, table, cell, row, at, w)
    old = nodes[node + COUNT]
    now = old + diff
    nodes[node + COUNT] = now
    if old <= 0 < now:
        if nodes[node + PLACE] != OUT:
            clock[cell + IDLE] -= 1
        else:
            _plant(clock, nodes, graph, ends, cell, node, w)
    elif now <= 0 < old:
        if nodes[node + PLACE] == ROOT:
            _uproot(clock, nodes, table, graph, ends, cell, node, w)
        else:
            clock[cell + IDLE] += 1
            if clock[cell + IDLE] > clock[cell + KNOWN] // 2 + 8:
                _sweep(clock, nodes, table, cell, w)
    elif now == 0 and nodes[node + PLACE] == OUT:
        _forget(clock, nodes, table, node, w)


# ---------------------------------------------------------------- what waits


@_part
def _sooner(heap, graph, ranks, a, b, w):  # type: ignore[no-untyped-def]
    """−1, 0 or 1: which of two rows is settled first."""
    k, j = ranks + heap[a] * (w + 1), ranks + heap[b] * (w + 1)
    for p in range(w):
        x, y = graph[k + p], graph[j + p]
        if x != y:
            return -1 if x < y else 1
        x, y = heap[a + 2 + p], heap[b + 2 + p]
        if x != y:
            return -1 if x < y else 1
    x, y = graph[k + w], graph[j + w]
    return 0 if x == y else -1 if x < y else 1


@_part
def _swap(heap, a, b, w):  # type: ignore[no-untyped-def]
    for p in range(w + 2):
        x = heap[a + p]
        heap[a + p] = heap[b + p]
        heap[b + p] = x


@_part
def _push(clock, heap, graph, ranks, w):  # type: ignore[no-untyped-def]
    """The row behind the last one comes in."""
    size = w + 2
    i = clock[IN_HEAP]
    clock[IN_HEAP] += 1
    while i > 0:
        up = (i - 1) // 2
        if _sooner(heap, graph, ranks, i * size, up * size, w) >= 0:
            return
        _swap(heap, i * size, up * size, w)
        i = up


@_part
def _pop(clock, heap, graph, ranks, w):  # type: ignore[no-untyped-def]
    """The first row goes behind the last one; where that is."""
    size = w + 2
    clock[IN_HEAP] -= 1
    n = clock[IN_HEAP]
    _swap(heap, 0, n * size, w)
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and _sooner(heap, graph, ranks, (c + 1) * size, c * size, w) < 0:
            c += 1
        if _sooner(heap, graph, ranks, c * size, i * size, w) >= 0:
            break
        _swap(heap, i * size, c * size, w)
        i = c
    return n * size


@_part
def _tell(clock, nodes, table, cell, row, at, diff, w):  # type: ignore[no-untyped-def]
    """A change of a frontier, for those who ask; opposite ones cancel."""
    node = _find(nodes, table, cell, row, at, w)
    if node < 0:
        node = _new(clock, nodes, table, cell, row, at, w)
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
        _forget(clock, nodes, table, node, w)


@_part
def _spread(clock, nodes, table, heap, graph, w, n):  # type: ignore[no-untyped-def]
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
            _push(clock, heap, graph, ranks, w)
        else:
            _tell(clock, nodes, table, cell + CELL, nodes, node + TIME, diff, w)
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
                    _push(clock, heap, graph, ranks, w)
        if nodes[node + COUNT] == 0 and nodes[node + PLACE] == OUT:
            _forget(clock, nodes, table, node, w)
        node = following
    return DONE


@_jit
def propagate(where):  # type: ignore[no-untyped-def]
    """Take the updates (rows of a location, a change, a time) and settle all that follows.  ``where`` has the addresses
    of all arrays."""
    graph, clock, nodes = _at(where[0]), _at(where[1]), _at(where[2])
    table, heap, updates = _at(where[3]), _at(where[4]), _at(where[5])
    w, n = graph[0], graph[1]
    size = w + 2
    ends = HEAD + n
    ranks = ends + graph[2] * w
    while True:
        if clock[NOTES] >= 0:
            lacks = _spread(clock, nodes, table, heap, graph, w, n)
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
            _update(clock, nodes, table, graph, domain, cell, updates, o + 2, updates[o + 1], w)
            clock[CURSOR] += size
            continue
        if clock[IN_HEAP] == 0:
            break
        o = _pop(clock, heap, graph, ranks, w)
        location, diff = heap[o], heap[o + 1]
        while clock[IN_HEAP] and _sooner(heap, graph, ranks, 0, o, w) == 0:  # the same, once more
            o = _pop(clock, heap, graph, ranks, w)
            diff += heap[o + 1]
        clock[SETTLED] += 1
        if diff:
            cell = CELLS + CELL * (3 * location + REACHED)
            clock[AT] = cell
            domain = ends + graph[HEAD + location] * w
            _update(clock, nodes, table, graph, domain, cell, heap, o + 2, diff, w)
    clock[CURSOR] = clock[UPDATES] = 0
    return DONE


# ---------------------------------------------------------------- around it


@_jit
def reset(where, cells):  # type: ignore[no-untyped-def]
    """An empty clock."""
    clock = _at(where[1])
    for cell in range(CELLS, CELLS + CELL * cells, CELL):
        clock[cell + ROOTS] = -1
    clock[PUSHED] = clock[NOTES] = clock[FREE] = -1


@_jit
def supply(where, size):  # type: ignore[no-untyped-def]
    """The nodes beyond those that there were are free; an empty table has room for all."""
    graph, clock, nodes, table = _at(where[0]), _at(where[1]), _at(where[2]), _at(where[3])
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
            _enter(nodes, table, node, w)


@_jit
def drain(where, out):  # type: ignore[no-untyped-def]
    """The changes of frontiers since they were asked for last: rows of a location, a change, a time."""
    graph, clock, nodes, table = _at(where[0]), _at(where[1]), _at(where[2]), _at(where[3])
    w = graph[0]
    node, k = clock[PUSHED], 0
    while node >= 0:
        following = nodes[node + AFTER]
        out[k] = (nodes[node + OF] - CELLS) // (3 * CELL)
        out[k + 1] = nodes[node + COUNT]
        for p in range(w):
            out[k + 2 + p] = nodes[node + TIME + p]
        k += w + 2
        _forget(clock, nodes, table, node, w)
        node = following
    clock[PUSHED] = -1
    clock[PUSHES] = 0


@_jit
def frontier(where, location, out):  # type: ignore[no-untyped-def]
    """The frontier of a location as rows of times; how many there are, also where the room does not suffice."""
    graph, clock, nodes = _at(where[0]), _at(where[1]), _at(where[2])
    w = graph[0]
    node, k = clock[CELLS + CELL * (3 * location + REACHED) + ROOTS], 0
    while node >= 0:
        if (k + 1) * w <= out.size:
            for p in range(w):
                out[k * w + p] = nodes[node + TIME + p]
        k += 1
        node = nodes[node + AFTER]
    return k


@_jit
def counted(where, out):  # type: ignore[no-untyped-def]
    """All own pointstamps: rows of a location, a count, a time; how many there are."""
    graph, clock, nodes = _at(where[0]), _at(where[1]), _at(where[2])
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
