"""The loop of the clock, compiled.  Loaded only when a compiled clock is built.

All that the clock knows is one array of numbers, ``clock``, so that it can grow, be copied and be saved as one
thing.  It has

- *cells*: for each of the L locations one of its own pointstamps (cell ``l``), one of what reaches it (``L + l``)
  and one of the changes of its frontier that nobody has asked for yet (``2 L + l``);
- *nodes*: a time with its count in a cell, found by a hash table.  The nodes of a cell with a positive count hang in
  a forest, each below one that is before it; the roots are the cell's frontier (as in `MutableAntichain`);
- the *heap* of changes that wait to be settled, in the order of `plan`.

`propagate` returns what it lacks (nodes, or room in the heap), and goes on where it was when it is called again.
"""

from __future__ import annotations

from numba import njit

from pellucid.progress.packed.plan import HEAD

DONE, MORE_NODES, MORE_HEAP = 0, 1, 2
# the first numbers of the clock
NODES, HEAP, TABLE, IN_HEAP, FREE, FREES, CHANGES, AT, CURSOR, PUSHED, PUSHES, SETTLED, LACKS = range(13)
REGISTERS = 16

_jit = njit(cache=True, error_model="numpy", nogil=True)


@_jit
def tables(graph):  # type: ignore[no-untyped-def]
    """The tables of a graph: domain of each location, ends of groups, ranks, arcs (where they start, lead, and how),
    and what summaries do."""
    w, n, d, a, k = graph[0], graph[1], graph[2], graph[3], graph[4]
    o = HEAD
    domain = graph[o : o + n]
    o += n
    ends = graph[o : o + d * w]
    o += d * w
    ranks = graph[o : o + n * (w + 1)]
    o += n * (w + 1)
    starts = graph[o : o + n + 1]
    o += n + 1
    to = graph[o : o + a]
    o += a
    how = graph[o : o + a]
    o += a
    return domain, ends, ranks, starts, to, how, graph[o : o + k * 4 * w]


@_jit
def views(clock, n, w):  # type: ignore[no-untyped-def]
    """The parts of the clock's array: heads of forests, how many nodes and idle nodes each cell has, the nodes,
    the hash table, what waits, and changes."""
    nodes, heap, table = clock[NODES], clock[HEAP], clock[TABLE]
    o = REGISTERS
    roots = clock[o : o + 3 * n]
    o += 3 * n
    known = clock[o : o + 3 * n]
    o += 3 * n
    idle = clock[o : o + 3 * n]
    o += 3 * n
    time = clock[o : o + nodes * w]
    o += nodes * w
    count = clock[o : o + nodes]
    o += nodes
    cell = clock[o : o + nodes]
    o += nodes
    child = clock[o : o + nodes]
    o += nodes
    after = clock[o : o + nodes]
    o += nodes
    before = clock[o : o + nodes]
    o += nodes
    place = clock[o : o + nodes]
    o += nodes
    hashed = clock[o : o + table]
    o += table
    waiting = clock[o : o + heap * (w + 2)]
    o += heap * (w + 2)
    changes = clock[o : o + (nodes + 2) * (w + 1)]
    return roots, known, idle, time, count, cell, child, after, before, place, hashed, waiting, changes


def size(nodes: int, heap: int, table: int, n: int, w: int) -> int:
    """How many numbers the clock's array has."""
    return REGISTERS + 9 * n + nodes * (w + 6) + table + heap * (w + 2) + (nodes + 2) * (w + 1)


# ---------------------------------------------------------------- nodes, by cell and time


@_jit
def _slot(cell, time, at, w, mask):  # type: ignore[no-untyped-def]
    h = cell * 0x1E3779B97F4A7C15
    for p in range(w):
        h = (h ^ time[at + p]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    h ^= (h >> 29) & 0x7FFFFFFFF
    return h & mask


@_jit
def _find(view, which, row, at, w):  # type: ignore[no-untyped-def]
    """The node of a cell and a time, or −1."""
    time, cell, hashed = view[3], view[5], view[10]
    mask = hashed.size - 1
    i = _slot(which, row, at, w, mask)
    while hashed[i]:
        node = hashed[i] - 1
        if cell[node] == which:
            same = True
            for p in range(w):
                if time[node * w + p] != row[at + p]:
                    same = False
                    break
            if same:
                return node
        i = (i + 1) & mask
    return -1


@_jit
def _enter(view, node, w):  # type: ignore[no-untyped-def]
    time, cell, hashed = view[3], view[5], view[10]
    mask = hashed.size - 1
    i = _slot(cell[node], time, node * w, w, mask)
    while hashed[i]:
        i = (i + 1) & mask
    hashed[i] = node + 1


@_jit
def _new(clock, view, which, row, at, w):  # type: ignore[no-untyped-def]
    known, time, count, cell, child, after, before, place = (
        view[1],
        view[3],
        view[4],
        view[5],
        view[6],
        view[7],
        view[8],
        view[9],
    )
    node = clock[FREE]
    clock[FREE] = after[node]
    clock[FREES] -= 1
    for p in range(w):
        time[node * w + p] = row[at + p]
    count[node], cell[node], child[node], after[node], before[node], place[node] = 0, which, -1, -1, -1, 0
    known[which] += 1
    _enter(view, node, w)
    return node


@_jit
def _forget(clock, view, node, w):  # type: ignore[no-untyped-def]
    known, time, cell, after, hashed = view[1], view[3], view[5], view[7], view[10]
    mask = hashed.size - 1
    i = _slot(cell[node], time, node * w, w, mask)
    while hashed[i] != node + 1:
        i = (i + 1) & mask
    j = i
    while True:  # close the gap
        hashed[i] = 0
        while True:
            j = (j + 1) & mask
            if not hashed[j]:
                break
            other = hashed[j] - 1
            home = _slot(cell[other], time, other * w, w, mask)
            if (i <= j and (home <= i or home > j)) or (i > j and home <= i and home > j):
                break
        if not hashed[j]:
            break
        hashed[i] = hashed[j]
        i = j
    known[cell[node]] -= 1
    cell[node] = -1
    after[node] = clock[FREE]
    clock[FREE] = node
    clock[FREES] += 1


# ---------------------------------------------------------------- the forest of a cell


@_jit
def _le(time, ends, e, a, b, w):  # type: ignore[no-untyped-def]
    """Whether the time of one node is before that of another; ``e`` is where the ends of groups of its domain begin."""
    p = 0
    while p < w:
        decided = False
        while True:
            x, y = time[a * w + p], time[b * w + p]
            if not decided:
                if x > y:
                    return False
                decided = x < y
            p += 1
            if ends[e + p - 1]:
                break
    return True


@_jit
def _hang(view, parent, node):  # type: ignore[no-untyped-def]
    child, after, place = view[6], view[7], view[9]
    after[node] = child[parent]
    child[parent] = node
    place[node] = 1


@_jit
def _root(view, which, node):  # type: ignore[no-untyped-def]
    roots, after, before, place = view[0], view[7], view[8], view[9]
    head = roots[which]
    after[node], before[node], place[node] = head, -1, 2
    if head >= 0:
        before[head] = node
    roots[which] = node


@_jit
def _unroot(view, which, node):  # type: ignore[no-untyped-def]
    roots, after, before, place = view[0], view[7], view[8], view[9]
    if before[node] >= 0:
        after[before[node]] = after[node]
    else:
        roots[which] = after[node]
    if after[node] >= 0:
        before[after[node]] = before[node]
    place[node] = 0


@_jit
def _change(clock, view, node, diff, w):  # type: ignore[no-untyped-def]
    time, changes = view[3], view[12]
    o = clock[CHANGES] * (w + 1)
    for p in range(w):
        changes[o + p] = time[node * w + p]
    changes[o + w] = diff
    clock[CHANGES] += 1


@_jit
def _plant(clock, view, ends, e, which, node, w):  # type: ignore[no-untyped-def]
    """few_view node with a positive count that is not in the forest."""
    roots, time, after = view[0], view[3], view[7]
    r = roots[which]
    while r >= 0:
        if _le(time, ends, e, r, node, w):
            _hang(view, r, node)
            return
        r = after[r]
    r = roots[which]
    while r >= 0:
        following = after[r]
        if _le(time, ends, e, node, r, w):
            _unroot(view, which, r)
            _hang(view, node, r)
            _change(clock, view, r, -1, w)
        r = following
    _root(view, which, node)
    _change(clock, view, node, 1, w)


@_jit
def _uproot(clock, view, ends, e, which, gone, w):  # type: ignore[no-untyped-def]
    """few_view root without a positive count: what was below it and is below nothing else is a root now."""
    roots, idle, time, count, child, after, before, place = (
        view[0],
        view[2],
        view[3],
        view[4],
        view[6],
        view[7],
        view[8],
        view[9],
    )
    _unroot(view, which, gone)
    _change(clock, view, gone, -1, w)
    todo = child[gone]
    child[gone] = -1
    if count[gone] == 0:
        _forget(clock, view, gone, w)
    first, last = -1, -1  # a queue of antichains: linked by `before` at their first nodes, each by `after`
    while todo >= 0:
        node = todo
        todo = after[node]
        if count[node] > 0:
            after[node], before[node] = -1, -1
            if last >= 0:
                before[last] = node
            else:
                first = node
            last = node
        else:
            idle[which] -= 1
            place[node] = 0
            below = child[node]
            child[node] = -1
            while below >= 0:
                following = after[below]
                after[below] = todo
                todo = below
                below = following
            if count[node] == 0:
                _forget(clock, view, node, w)
    while first >= 0 and before[first] >= 0:
        one, two = first, before[first]
        first = before[two]
        if first < 0:
            last = -1
        while two >= 0:
            following = after[two]
            lower = one
            while lower >= 0 and not _le(time, ends, e, lower, two, w):
                lower = after[lower]
            if lower >= 0:
                _hang(view, lower, two)
            else:
                stay, r = -1, one
                while r >= 0:
                    more = after[r]
                    if _le(time, ends, e, two, r, w):
                        _hang(view, two, r)
                    else:
                        after[r] = stay
                        stay = r
                    r = more
                after[two] = stay
                one = two
            two = following
        before[one] = -1
        if last >= 0:
            before[last] = one
        else:
            first = one
        last = one
    node = first
    while node >= 0:
        following = after[node]
        r = roots[which]
        while r >= 0 and not _le(time, ends, e, r, node, w):
            r = after[r]
        if r >= 0:
            _hang(view, r, node)
        else:
            _root(view, which, node)
            _change(clock, view, node, 1, w)
        node = following


@_jit
def _sweep(clock, view, which, w):  # type: ignore[no-untyped-def]
    """Forget what has no count; its cost is paid by as many updates as there are to forget."""
    roots, idle, count, child, after, place = view[0], view[2], view[4], view[6], view[7], view[9]
    r = roots[which]
    while r >= 0:
        todo = child[r]
        child[r] = -1
        while todo >= 0:
            node = todo
            todo = after[node]
            below = child[node]
            child[node] = -1
            while below >= 0:
                following = after[below]
                after[below] = todo
                todo = below
                below = following
            if count[node] > 0:
                _hang(view, r, node)
            else:
                place[node] = 0
                if count[node] == 0:
                    _forget(clock, view, node, w)
        r = after[r]
    idle[which] = 0


@_jit
def _update(clock, view, ends, e, which, row, at, diff, w):  # type: ignore[no-untyped-def]
    """Change a count; the changes of the cell's frontier are noted."""
    known, idle, count, place = view[1], view[2], view[4], view[9]
    node = _find(view, which, row, at, w)
    if node < 0:
        if diff == 0:
            return
        node = _new(clock, view, which, row, at, w)
    old = count[node]
    now = old + diff
    count[node] = now
    if old <= 0 < now:
        if place[node]:
            idle[which] -= 1
        else:
            _plant(clock, view, ends, e, which, node, w)
    elif now <= 0 < old:
        if place[node] == 2:
            _uproot(clock, view, ends, e, which, node, w)
        else:
            idle[which] += 1
            if idle[which] > known[which] // 2 + 8:
                _sweep(clock, view, which, w)
    elif now == 0 and place[node] == 0:
        _forget(clock, view, node, w)


# ---------------------------------------------------------------- what waits


@_jit
def _sooner(waiting, ranks, a, b, w):  # type: ignore[no-untyped-def]
    """−1, 0 or 1: which of two that wait is settled first.  few_view row is a location, a change, a time."""
    x, y = a * (w + 2), b * (w + 2)
    k, j = waiting[x] * (w + 1), waiting[y] * (w + 1)
    for p in range(w):
        if ranks[k + p] != ranks[j + p]:
            return -1 if ranks[k + p] < ranks[j + p] else 1
        if waiting[x + 2 + p] != waiting[y + 2 + p]:
            return -1 if waiting[x + 2 + p] < waiting[y + 2 + p] else 1
    if ranks[k + w] != ranks[j + w]:
        return -1 if ranks[k + w] < ranks[j + w] else 1
    return 0


@_jit
def _swap(waiting, a, b, w):  # type: ignore[no-untyped-def]
    for p in range(w + 2):
        x = waiting[a * (w + 2) + p]
        waiting[a * (w + 2) + p] = waiting[b * (w + 2) + p]
        waiting[b * (w + 2) + p] = x


@_jit
def _rise(clock, waiting, ranks, w):  # type: ignore[no-untyped-def]
    """The last row has come."""
    i = clock[IN_HEAP]
    clock[IN_HEAP] += 1
    while i > 0 and _sooner(waiting, ranks, i, (i - 1) // 2, w) < 0:
        _swap(waiting, i, (i - 1) // 2, w)
        i = (i - 1) // 2


@_jit
def _take(clock, waiting, ranks, w):  # type: ignore[no-untyped-def]
    """The first row goes to the place behind the last one."""
    clock[IN_HEAP] -= 1
    n = clock[IN_HEAP]
    _swap(waiting, 0, n, w)
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            return
        if c + 1 < n and _sooner(waiting, ranks, c + 1, c, w) < 0:
            c += 1
        if _sooner(waiting, ranks, c, i, w) >= 0:
            return
        _swap(waiting, i, c, w)
        i = c


@_jit
def _push(clock, view, ranks, location, diff, w):  # type: ignore[no-untyped-def]
    """few_view row whose time stands already behind the last one."""
    waiting = view[11]
    o = clock[IN_HEAP] * (w + 2)
    waiting[o], waiting[o + 1] = location, diff
    _rise(clock, waiting, ranks, w)


@_jit
def _spread(clock, view, tabled, n, w):  # type: ignore[no-untyped-def]
    """Hand on the changes that were noted: those of own pointstamps to what reaches the location, those of what
    reaches it along its arcs.  What is lacking is returned, and then nothing was done."""
    waiting, changes = view[11], view[12]
    ranks, starts, to, how, ways = tabled[2], tabled[3], tabled[4], tabled[5], tabled[6]
    c, which = clock[CHANGES], clock[AT]
    if which < n:
        if clock[IN_HEAP] + c > clock[HEAP]:
            clock[LACKS] = c
            return MORE_HEAP
        for k in range(c):
            o = clock[IN_HEAP] * (w + 2)
            for p in range(w):
                waiting[o + 2 + p] = changes[k * (w + 1) + p]
            _push(clock, view, ranks, which, changes[k * (w + 1) + w], w)
        clock[CHANGES] = 0
        return DONE
    location = which - n
    arcs = starts[location + 1] - starts[location]
    if clock[IN_HEAP] + c * arcs > clock[HEAP]:
        clock[LACKS] = c * arcs
        return MORE_HEAP
    if clock[FREES] < c:
        clock[LACKS] = c
        return MORE_NODES
    for k in range(c):
        at = k * (w + 1)
        diff = changes[at + w]
        _told(clock, view, 2 * n + location, changes, at, diff, w)
        for a in range(starts[location], starts[location + 1]):
            o = clock[IN_HEAP] * (w + 2) + 2
            through = True
            s = how[a] * 4 * w
            for p in range(w):
                x = changes[at + p]
                if s >= 0:
                    if x < ways[s + 4 * p] or x > ways[s + 4 * p + 1]:
                        through = False
                        break
                    x = ways[s + 4 * p + 3] if ways[s + 4 * p + 2] else x + ways[s + 4 * p + 3]
                waiting[o + p] = x
            if through:
                _push(clock, view, ranks, to[a], diff, w)
    clock[CHANGES] = 0
    return DONE


@_jit
def _told(clock, view, which, row, at, diff, w):  # type: ignore[no-untyped-def]
    """few_view change of a frontier, for those who ask; opposite ones cancel."""
    count, after, before = view[4], view[7], view[8]
    node = _find(view, which, row, at, w)
    if node < 0:
        node = _new(clock, view, which, row, at, w)
        after[node], before[node] = clock[PUSHED], -1
        if clock[PUSHED] >= 0:
            before[clock[PUSHED]] = node
        clock[PUSHED] = node
        clock[PUSHES] += 1
    count[node] += diff
    if count[node] == 0:
        if before[node] >= 0:
            after[before[node]] = after[node]
        else:
            clock[PUSHED] = after[node]
        if after[node] >= 0:
            before[after[node]] = before[node]
        clock[PUSHES] -= 1
        _forget(clock, view, node, w)


@_jit
def propagate(graph, clock, updates):  # type: ignore[no-untyped-def]
    """Take the updates (rows of a location, a change, a time) and settle all that follows."""
    w, n = graph[0], graph[1]
    tabled = tables(graph)
    view = views(clock, n, w)
    domain, ends, ranks, waiting = tabled[0], tabled[1], tabled[2], view[11]
    rows = updates.size // (w + 2)
    while True:
        if clock[CHANGES]:
            lacks = _spread(clock, view, tabled, n, w)
            if lacks != DONE:
                return lacks
        if clock[FREES] < 1:
            clock[LACKS] = 1
            return MORE_NODES
        if clock[CURSOR] < rows:
            o = clock[CURSOR] * (w + 2)
            which = updates[o]
            clock[AT] = which
            _update(clock, view, ends, domain[which] * w, which, updates, o + 2, updates[o + 1], w)
            clock[CURSOR] += 1
            continue
        if clock[IN_HEAP] == 0:
            break
        _take(clock, waiting, ranks, w)
        o = clock[IN_HEAP] * (w + 2)
        location, diff = waiting[o], waiting[o + 1]
        while clock[IN_HEAP] and _sooner(waiting, ranks, 0, clock[IN_HEAP], w) == 0:  # the same, once more
            diff += waiting[1]
            _take(clock, waiting, ranks, w)
            o = clock[IN_HEAP] * (w + 2)
        clock[SETTLED] += 1
        if diff:
            clock[AT] = n + location
            _update(clock, view, ends, domain[location] * w, n + location, waiting, o + 2, diff, w)
    clock[CURSOR] = 0
    return DONE


# ---------------------------------------------------------------- around it


@_jit
def reset(graph, clock):  # type: ignore[no-untyped-def]
    """An empty clock of the sizes that stand in its first numbers."""
    w, n = graph[0], graph[1]
    view = views(clock, n, w)
    view[0][:] = -1
    after = view[7]
    nodes = clock[NODES]
    for node in range(nodes):
        after[node] = node + 1
        view[5][node] = -1
    after[nodes - 1] = -1
    clock[FREE], clock[FREES], clock[PUSHED] = 0, nodes, -1


@_jit
def regrow(graph, old, clock):  # type: ignore[no-untyped-def]
    """The clock in a larger array, whose sizes stand in its first numbers."""
    w, n = graph[0], graph[1]
    few_view, many_view = views(old, n, w), views(clock, n, w)
    for part in (0, 1, 2):
        many_view[part][:] = few_view[part]
    few, many = old[NODES], clock[NODES]
    many_view[3][: few * w] = few_view[3]
    for part in (4, 5, 6, 7, 8, 9):
        many_view[part][:few] = few_view[part]
    for node in range(few):
        if many_view[5][node] >= 0:
            _enter(many_view, node, w)
    many_view[11][: old[IN_HEAP] * (w + 2)] = few_view[11][: old[IN_HEAP] * (w + 2)]
    many_view[12][: old[CHANGES] * (w + 1)] = few_view[12][: old[CHANGES] * (w + 1)]
    for r in range(IN_HEAP, REGISTERS):
        clock[r] = old[r]
    for node in range(few, many):
        many_view[5][node] = -1
        many_view[7][node] = node + 1
    if many > few:
        many_view[7][many - 1] = clock[FREE]
        clock[FREE] = few
        clock[FREES] += many - few


@_jit
def drain(graph, clock, out):  # type: ignore[no-untyped-def]
    """The changes of frontiers since they were asked for last: rows of a location, a change, a time."""
    w, n = graph[0], graph[1]
    view = views(clock, n, w)
    time, count, cell, after = view[3], view[4], view[5], view[7]
    node, k = clock[PUSHED], 0
    while node >= 0:
        following = after[node]
        out[k] = cell[node] - 2 * n
        out[k + 1] = count[node]
        for p in range(w):
            out[k + 2 + p] = time[node * w + p]
        k += w + 2
        _forget(clock, view, node, w)
        node = following
    clock[PUSHED], clock[PUSHES] = -1, 0


@_jit
def frontier(graph, clock, location, out):  # type: ignore[no-untyped-def]
    """The frontier of a location as rows of times; how many there are, also where the room does not suffice."""
    w, n = graph[0], graph[1]
    view = views(clock, n, w)
    time, after = view[3], view[7]
    node, k = view[0][n + location], 0
    while node >= 0:
        if (k + 1) * w <= out.size:
            for p in range(w):
                out[k * w + p] = time[node * w + p]
        k += 1
        node = after[node]
    return k


@_jit
def counted(graph, clock, out):  # type: ignore[no-untyped-def]
    """All own pointstamps: rows of a location, a count, a time; how many there are."""
    w, n = graph[0], graph[1]
    view = views(clock, n, w)
    time, count, cell = view[3], view[4], view[5]
    k = 0
    for node in range(clock[NODES]):
        if 0 <= cell[node] < n and count[node] != 0:
            if (k + 1) * (w + 2) <= out.size:
                out[k * (w + 2)], out[k * (w + 2) + 1] = cell[node], count[node]
                for p in range(w):
                    out[k * (w + 2) + 2 + p] = time[node * w + p]
            k += 1
    return k
