"""The forest of a cell: its nodes with a positive count, each below one that is before it; the roots are the frontier.

It is the pairing heap for partial orders of `pellucid.progress.antichain.MutableAntichain`, compiled.
"""

from __future__ import annotations

from pellucid.progress.packed.nodes import find, forget, new
from pellucid.progress.packed.tables import (
    AFTER,
    BEFORE,
    BELOW,
    CHILD,
    COUNT,
    IDLE,
    KNOWN,
    NEXT,
    NOTED,
    NOTES,
    OUT,
    PLACE,
    ROOT,
    ROOTS,
    TIME,
    called,
    part,
)


@part
def le(nodes, graph, ends, a, b, w):  # type: ignore[no-untyped-def]
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


@part
def note(clock, nodes, node, diff):  # type: ignore[no-untyped-def]
    """A change of the frontier of the cell that is at work."""
    nodes[node + NOTED] = diff
    nodes[node + NEXT] = clock[NOTES]
    clock[NOTES] = node


@part
def hang(nodes, parent, node):  # type: ignore[no-untyped-def]
    nodes[node + AFTER] = nodes[parent + CHILD]
    nodes[parent + CHILD] = node
    nodes[node + PLACE] = BELOW


@part
def set_root(clock, nodes, cell, node):  # type: ignore[no-untyped-def]
    head = clock[cell + ROOTS]
    nodes[node + AFTER], nodes[node + BEFORE], nodes[node + PLACE] = head, -1, ROOT
    if head >= 0:
        nodes[head + BEFORE] = node
    clock[cell + ROOTS] = node


@part
def unroot(clock, nodes, cell, node):  # type: ignore[no-untyped-def]
    before, after = nodes[node + BEFORE], nodes[node + AFTER]
    if before >= 0:
        nodes[before + AFTER] = after
    else:
        clock[cell + ROOTS] = after
    if after >= 0:
        nodes[after + BEFORE] = before
    nodes[node + PLACE] = OUT


@part
def plant(clock, nodes, graph, ends, cell, node, w):  # type: ignore[no-untyped-def]
    """A node with a positive count that is in no forest."""
    r = clock[cell + ROOTS]
    while r >= 0:
        if le(nodes, graph, ends, r, node, w):
            hang(nodes, r, node)
            return
        r = nodes[r + AFTER]
    r = clock[cell + ROOTS]
    while r >= 0:
        following = nodes[r + AFTER]
        if le(nodes, graph, ends, node, r, w):
            unroot(clock, nodes, cell, r)
            hang(nodes, node, r)
            note(clock, nodes, r, -1)
        r = following
    set_root(clock, nodes, cell, node)
    note(clock, nodes, node, 1)


@part
def merge(nodes, graph, ends, one, two, w):  # type: ignore[no-untyped-def]
    """Of two antichains of nodes, linked by what comes after, one: what is after another hangs below it."""
    while two >= 0:
        following = nodes[two + AFTER]
        lower = one
        while lower >= 0 and not le(nodes, graph, ends, lower, two, w):
            lower = nodes[lower + AFTER]
        if lower >= 0:
            hang(nodes, lower, two)
        else:
            stay, r = -1, one
            while r >= 0:
                more = nodes[r + AFTER]
                if le(nodes, graph, ends, two, r, w):
                    hang(nodes, two, r)
                else:
                    nodes[r + AFTER] = stay
                    stay = r
                r = more
            nodes[two + AFTER] = stay
            one = two
        two = following
    return one


@part
def opened(nodes, node, todo):  # type: ignore[no-untyped-def]
    """What hangs below a node, before what is to be done already."""
    below = nodes[node + CHILD]
    nodes[node + CHILD] = -1
    while below >= 0:
        following = nodes[below + AFTER]
        nodes[below + AFTER] = todo
        todo = below
        below = following
    return todo


@called
def uproot(clock, nodes, table, graph, ends, cell, gone, w):  # type: ignore[no-untyped-def]
    """A root without a positive count: what was below it, and is below nothing else, is a root now."""
    unroot(clock, nodes, cell, gone)
    note(clock, nodes, gone, -1)
    todo = opened(nodes, gone, -1)
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
            todo = opened(nodes, node, todo)
            if nodes[node + COUNT] == 0:
                forget(clock, nodes, table, node, w)
    while first >= 0 and nodes[first + BEFORE] >= 0:
        two = nodes[first + BEFORE]
        rest = nodes[two + BEFORE]
        one = merge(nodes, graph, ends, first, two, w)
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
        while r >= 0 and not le(nodes, graph, ends, r, node, w):
            r = nodes[r + AFTER]
        if r >= 0:
            hang(nodes, r, node)
        else:
            set_root(clock, nodes, cell, node)
            note(clock, nodes, node, 1)
        node = following


@called
def sweep(clock, nodes, table, cell, w):  # type: ignore[no-untyped-def]
    """Forget what has no count; its cost is paid by as many updates as there are to forget."""
    r = clock[cell + ROOTS]
    while r >= 0:
        todo = opened(nodes, r, -1)
        while todo >= 0:
            node = todo
            todo = opened(nodes, node, nodes[node + AFTER])
            if nodes[node + COUNT] > 0:
                hang(nodes, r, node)
            else:
                nodes[node + PLACE] = OUT
                if nodes[node + COUNT] == 0:
                    forget(clock, nodes, table, node, w)
        r = nodes[r + AFTER]
    clock[cell + IDLE] = 0


@part
def update(clock, nodes, table, graph, ends, cell, row, at, diff, w):  # type: ignore[no-untyped-def]
    """Change a count; the changes of the cell's frontier are noted."""
    node = find(nodes, table, cell, row, at, w)
    if node < 0:
        if diff == 0:
            return
        node = new(clock, nodes, table, cell, row, at, w)
    old = nodes[node + COUNT]
    now = old + diff
    nodes[node + COUNT] = now
    if old <= 0 < now:
        if nodes[node + PLACE] != OUT:
            clock[cell + IDLE] -= 1
        else:
            plant(clock, nodes, graph, ends, cell, node, w)
    elif now <= 0 < old:
        if nodes[node + PLACE] == ROOT:
            uproot(clock, nodes, table, graph, ends, cell, node, w)
        else:
            clock[cell + IDLE] += 1
            if clock[cell + IDLE] > clock[cell + KNOWN] // 2 + 8:
                sweep(clock, nodes, table, cell, w)
    elif now == 0 and nodes[node + PLACE] == OUT:
        forget(clock, nodes, table, node, w)
