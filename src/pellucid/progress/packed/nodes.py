"""The nodes of a compiled clock: times with their counts, found by cell and time in a hash table."""

from __future__ import annotations

from pellucid.progress.packed.tables import (
    AFTER,
    BEFORE,
    CHILD,
    COUNT,
    FREE,
    FREES,
    KNOWN,
    NEXT,
    NOTED,
    OF,
    OUT,
    PLACE,
    TIME,
    part,
)


@part
def slot(cell, row, at, w, mask):  # type: ignore[no-untyped-def]
    h = cell * 0x1E3779B97F4A7C15
    for p in range(w):
        h = (h ^ row[at + p]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    h ^= (h >> 29) & 0x7FFFFFFFF
    return h & mask


@part
def find(nodes, table, cell, row, at, w):  # type: ignore[no-untyped-def]
    """The node of a cell and a time, or −1."""
    mask = table[0]
    i = slot(cell, row, at, w, mask)
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


@part
def enter(nodes, table, node, w):  # type: ignore[no-untyped-def]
    mask = table[0]
    i = slot(nodes[node + OF], nodes, node + TIME, w, mask)
    while table[1 + i] >= 0:
        i = (i + 1) & mask
    table[1 + i] = node


@part
def new(clock, nodes, table, cell, row, at, w):  # type: ignore[no-untyped-def]
    node = clock[FREE]
    clock[FREE] = nodes[node + AFTER]
    clock[FREES] -= 1
    clock[cell + KNOWN] += 1
    nodes[node + COUNT], nodes[node + OF], nodes[node + PLACE], nodes[node + NOTED] = 0, cell, OUT, 0
    nodes[node + CHILD] = nodes[node + AFTER] = nodes[node + BEFORE] = nodes[node + NEXT] = -1
    for p in range(w):
        nodes[node + TIME + p] = row[at + p]
    enter(nodes, table, node, w)
    return node


@part
def forget(clock, nodes, table, node, w):  # type: ignore[no-untyped-def]
    mask = table[0]
    i = slot(nodes[node + OF], nodes, node + TIME, w, mask)
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
            home = slot(nodes[other + OF], nodes, other + TIME, w, mask)
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
