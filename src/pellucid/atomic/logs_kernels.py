"""Compiled loops over a graph of transactions, each a number: who reads from whom, who is reached, which ones are
mutually dependent, and how deep.

An edge goes from what is needed to who needs it.  Every loop takes time in proportion to vertices and edges, and none
calls itself: a chain of a million is no deeper than one of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.base.kept import kept_jit

kept = kept_jit(error_model="numpy", nogil=True)

NOT_REACHED = -2
ROOT = -1


@kept
def readers(n: int, needs: Any, who: Any) -> tuple[Any, Any]:
    """For each vertex the vertices that need it: ``out[start[v]:start[v + 1]]``, in the order of the table."""
    start = np.zeros(n + 1, np.int64)
    for i in range(len(needs)):
        start[needs[i] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    at = start[:-1].copy()
    out = np.empty(len(who), np.int32)
    for i in range(len(needs)):
        v = needs[i]
        out[at[v]] = who[i]
        at[v] += 1
    return start, out


@kept
def reached(start: Any, out: Any, roots: Any) -> tuple[Any, Any]:
    """From these vertices, by shortest ways: from whom each was reached (`ROOT`, `NOT_REACHED`), in how many steps."""
    n = len(start) - 1
    via = np.full(n, NOT_REACHED, np.int32)
    steps = np.zeros(n, np.int32)
    queue = np.empty(n, np.int32)
    end = 0
    for r in roots:
        if via[r] == NOT_REACHED:
            via[r] = ROOT
            queue[end] = r
            end += 1
    at = 0
    while at < end:
        v = queue[at]
        at += 1
        for i in range(start[v], start[v + 1]):
            w = out[i]
            if via[w] == NOT_REACHED:
                via[w] = v
                steps[w] = steps[v] + 1
                queue[end] = w
                end += 1
    return via, steps


@kept
def components(start: Any, out: Any, inside: Any) -> tuple[Any, int]:
    """The strongly connected components of the vertices inside (Tarjan's algorithm, with a stack of its own): a number
    for each vertex, -1 outside, and how many there are.  A component has a smaller number than those it reads from."""
    n = len(inside)
    found = np.full(n, -1, np.int32)
    number = np.zeros(n, np.int32)  # 0: not seen yet
    low = np.zeros(n, np.int32)
    stack = np.empty(n, np.int32)
    path = np.empty(n, np.int32)
    following = start[:-1].copy()
    seen = top = depth = count = 0
    for s in range(n):
        if not inside[s] or number[s]:
            continue
        seen += 1
        number[s] = low[s] = seen
        path[0] = stack[top] = s
        depth = 1
        top += 1
        while depth:
            v = path[depth - 1]
            i = following[v]
            if i < start[v + 1]:
                following[v] = i + 1
                w = out[i]
                if not inside[w]:
                    continue
                if not number[w]:
                    seen += 1
                    number[w] = low[w] = seen
                    path[depth] = stack[top] = w
                    depth += 1
                    top += 1
                elif found[w] < 0 and number[w] < low[v]:
                    low[v] = number[w]
                continue
            depth -= 1
            if depth and low[v] < low[path[depth - 1]]:
                low[path[depth - 1]] = low[v]
            if low[v] == number[v]:
                while True:
                    top -= 1
                    w = stack[top]
                    found[w] = count
                    if w == v:
                        break
                count += 1
    return found, count


@kept
def levels(start: Any, out: Any, found: Any, count: int, solid: Any) -> Any:
    """For each component how many others, at most, stand before it on a way: 0 where it reads from none.  One counts if
    a member of it is ``solid``."""
    n = len(found)
    first = np.zeros(count + 1, np.int64)
    for v in range(n):
        if found[v] >= 0:
            first[found[v] + 1] += 1
    for c in range(count):
        first[c + 1] += first[c]
    at = first[:-1].copy()
    members = np.empty(first[count], np.int32)
    for v in range(n):
        if found[v] >= 0:
            members[at[found[v]]] = v
            at[found[v]] += 1
    level = np.zeros(count, np.int32)
    for c in range(count - 1, -1, -1):  # those that are read from come first
        above = level[c]
        for m in range(first[c], first[c + 1]):
            if solid[members[m]]:
                above = level[c] + 1
                break
        for m in range(first[c], first[c + 1]):
            v = members[m]
            for i in range(start[v], start[v + 1]):
                d = found[out[i]]
                if d >= 0 and d != c and level[d] < above:
                    level[d] = above
    return level


@kept
def in_order(found: Any, level: Any) -> tuple[Any, Any, Any]:
    """All vertices inside by level, those of a component together, components of a level by their first vertices; where
    each component begins among them; and the size of the component that each vertex is in."""
    n, count = len(found), len(level)
    sizes = np.zeros(count, np.int64)
    by_first = np.empty(count, np.int32)
    met = 0
    for v in range(n):
        c = found[v]
        if c >= 0:
            if not sizes[c]:
                by_first[met] = c
                met += 1
            sizes[c] += 1
    deepest = 0
    for c in range(count):
        deepest = max(deepest, level[c])
    at = np.zeros(deepest + 2, np.int64)
    for c in range(count):
        at[level[c] + 1] += 1
    for k in range(deepest + 1):
        at[k + 1] += at[k]
    sorted_components = np.empty(count, np.int32)
    for k in range(count):
        c = by_first[k]
        sorted_components[at[level[c]]] = c
        at[level[c]] += 1
    begins = np.zeros(count + 1, np.int64)
    place = np.empty(count, np.int64)
    for k in range(count):
        c = sorted_components[k]
        place[c] = begins[k]
        begins[k + 1] = begins[k] + sizes[c]
    members = np.empty(begins[count], np.int32)
    for v in range(n):
        c = found[v]
        if c >= 0:
            members[place[c]] = v
            place[c] += 1
    return members, begins, sizes
