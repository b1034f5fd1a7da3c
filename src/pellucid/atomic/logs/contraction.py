"""A part of a graph made smaller, so that what is asked of the whole stays the same: compiled, for the rounds on Spark.

A block has *all* edges to its vertices.  What they need from outside are its atoms; the value of each vertex inside is
a function of a few atoms, and vertices with the same function are one:

- for reachability: v is doomed if and only if one of its atoms is;
- for levels: level(v) = max(c, level(a) + w over its atoms a); two that differ by a number of levels are one, too.

A vertex of more than `WIDTH` atoms is an atom itself.  So a block of a deep graph shrinks to as many vertices as there
are ways to need what lies outside: of chains of which each link needs the last few links, one for each block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.atomic.logs.kernels import components, kept, readers

WIDTH = 8  # atoms of a vertex
DOOMED, FREE, GONE = -1, -2, -3
_DOOMED, _FREE, _ATOMS, _ITSELF = 1, 2, 3, 4


def contracted(src: Any, dst: Any, weight: Any, const: Any, *, levels: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the edges of a block what each vertex points to, (v, ptr, pw, pc), and the edges that stay, (src, dst, w, c).

    A pointer says: v is doomed as ``ptr`` is (-1: it is; -2: it is not); level(v) = max(pc, level(ptr) + pw), -2: pc.
    A vertex that points to itself stays, and has edges.

    >>> a = np.array([1, 2, 2, 3, 9], np.int64), np.array([3, 3, 4, 4, 5], np.int64)  # 3 and 4 both need 1 or 2
    >>> w = np.ones(5, np.int64)
    >>> found, edges = contracted(*a, w, 0 * w, levels=False)
    >>> found["v"].tolist(), found["ptr"].tolist(), edges["src"].tolist(), edges["dst"].tolist()
    ([3, 4, 5], [3, 3, 9], [1, 2], [3, 3])
    """
    keys = np.unique(dst)
    at = np.searchsorted(keys, dst).astype(np.int32)
    there = np.minimum(np.searchsorted(keys, src), len(keys) - 1).astype(np.int32)
    local = np.where(keys[there] == src, there, np.int32(-1))
    inner = local >= 0
    start, out = readers(len(keys), local[inner], at[inner])
    found, count = components(start, out, np.ones(len(keys), np.bool_))
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(found, minlength=count), out=first[1:])
    members = np.argsort(found, kind="stable").astype(np.int32)
    start, rows = readers(len(keys), at, np.arange(len(dst), dtype=np.int32))
    ptr, pw, pc, head = _contract(levels, keys, src, local, weight, const, start, rows, found, first, members, WIDTH)
    to = head[at]
    stay = to != GONE
    edges = {"src": src[stay], "dst": to[stay], "w": weight[stay], "c": const[stay]}
    return {"v": keys, "ptr": ptr, "pw": pw, "pc": pc}, edges


@kept
def _contract(
    levels: bool, keys: Any, src: Any, local: Any, weight: Any, const: Any, start: Any, rows: Any, found: Any,
    first: Any, members: Any, width: int,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """What each vertex points to, and who gets the edges to it (`GONE`: they are not needed any more).  Components have
    smaller numbers than those they need: they are gone through backwards."""
    n, count = len(keys), len(first) - 1
    ptr, head = keys.copy(), keys.copy()
    pw, pc = np.zeros(n, np.int64), np.zeros(n, np.int64)
    kind = np.zeros(count, np.int8)
    atoms, coefs = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
    many, least, lowest = np.zeros(count, np.int32), np.zeros(count, np.int64), np.zeros(count, np.int64)
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.full(size, -1, np.int32)
    here, height = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for c in range(count - 1, -1, -1):
        a, b = first[c], first[c + 1]
        if levels and b - a > 1:  # a cycle has no level: its members stay
            kind[c] = _ITSELF
            continue
        length, top = 0, 0
        doomed = itself = False
        for m in range(a, b):
            v = members[m]
            for k in range(start[v], start[v + 1]):
                i = rows[k]
                if levels:
                    top = max(top, const[i])
                if src[i] == DOOMED:
                    doomed = True
                if src[i] < 0 or doomed or itself:
                    continue
                s = local[i]
                d = found[s] if s >= 0 else -1
                if d == c:
                    itself = levels  # it needs itself: a cycle, too
                    continue
                if d >= 0 and kind[d] == _DOOMED:
                    doomed = True
                    continue
                step = weight[i] if levels else 0
                if d >= 0 and kind[d] == _FREE:
                    top = max(top, least[d] + step)
                    continue
                parts = 1
                if d >= 0 and kind[d] == _ATOMS:
                    parts = many[d]
                    top = max(top, least[d] + step)
                for j in range(parts):
                    if d < 0:
                        atom, more = src[i], step
                    elif kind[d] == _ATOMS:
                        atom, more = atoms[d, j], coefs[d, j] + step
                    else:
                        atom, more = keys[s] if levels else keys[members[first[d]]], step
                    x = 0
                    while x < length and here[x] != atom:
                        x += 1
                    if x < length:
                        height[x] = max(height[x], more)
                    elif length == width:
                        itself = True
                    else:
                        here[x], height[x] = atom, more
                        length += 1
        r = keys[members[a]]
        if doomed:
            kind[c] = _DOOMED
            for m in range(a, b):
                ptr[members[m]], head[members[m]] = DOOMED, GONE
            continue
        if itself:
            kind[c] = _ITSELF
            for m in range(a, b):
                ptr[members[m]] = head[members[m]] = r
            continue
        if not length:
            kind[c], least[c] = _FREE, top
            for m in range(a, b):
                ptr[members[m]], head[members[m]], pc[members[m]] = FREE, GONE, top
            continue
        for x in range(1, length):  # by keys
            atom, more, y = here[x], height[x], x
            while y and here[y - 1] > atom:
                here[y], height[y] = here[y - 1], height[y - 1]
                y -= 1
            here[y], height[y] = atom, more
        low = high = height[0]
        for x in range(1, length):
            low, high = min(low, height[x]), max(high, height[x])
        if top <= high:  # no level is below 0: the atoms say at least as much
            top = 0
        kind[c], many[c], least[c], lowest[c] = _ATOMS, length, top, low
        mixed = np.uint64(top - low if top else 1)
        for x in range(length):
            atoms[c, x], coefs[c, x] = here[x], height[x]
            mixed = (mixed ^ np.uint64(here[x])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= (mixed >> np.uint64(29)) + np.uint64(height[x] - low)
        if length == 1:
            for m in range(a, b):
                v = members[m]
                ptr[v], pw[v], pc[v], head[v] = here[0], height[0], top, GONE
            continue
        slot = np.int64(mixed & np.uint64(size - 1))
        e = table[slot]
        while e >= 0:
            same = many[e] == length and (least[e] == 0) == (top == 0)
            same = same and (top == 0 or least[e] - lowest[e] == top - low)
            for x in range(length):
                same = same and atoms[e, x] == here[x] and coefs[e, x] - lowest[e] == height[x] - low
            if same:
                break
            slot = (slot + 1) & (size - 1)
            e = table[slot]
        if e >= 0:
            for m in range(a, b):
                v = members[m]
                ptr[v], pw[v], head[v] = keys[members[first[e]]], low - lowest[e], GONE
            continue
        table[slot] = c
        for m in range(a, b):
            ptr[members[m]] = head[members[m]] = r
    return ptr, pw, pc, head
