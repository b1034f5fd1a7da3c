"""The changes that wait to be settled: a binary heap in the order of `plan`; rows of a location, a change, a time."""

from __future__ import annotations

from pellucid.progress.packed.tables import IN_HEAP, part


@part
def sooner(heap, graph, ranks, a, b, w):  # type: ignore[no-untyped-def]
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


@part
def swap(heap, a, b, w):  # type: ignore[no-untyped-def]
    for p in range(w + 2):
        x = heap[a + p]
        heap[a + p] = heap[b + p]
        heap[b + p] = x


@part
def push(clock, heap, graph, ranks, w):  # type: ignore[no-untyped-def]
    """The row behind the last one comes in."""
    size = w + 2
    i = clock[IN_HEAP]
    clock[IN_HEAP] += 1
    while i > 0:
        up = (i - 1) // 2
        if sooner(heap, graph, ranks, i * size, up * size, w) >= 0:
            return
        swap(heap, i * size, up * size, w)
        i = up


@part
def pop(clock, heap, graph, ranks, w):  # type: ignore[no-untyped-def]
    """The first row goes behind the last one; where that is."""
    size = w + 2
    clock[IN_HEAP] -= 1
    n = clock[IN_HEAP]
    swap(heap, 0, n * size, w)
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and sooner(heap, graph, ranks, (c + 1) * size, c * size, w) < 0:
            c += 1
        if sooner(heap, graph, ranks, c * size, i * size, w) >= 0:
            break
        swap(heap, i * size, c * size, w)
        i = c
    return n * size
