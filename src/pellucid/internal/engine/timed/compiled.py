"""Compiled loops over columns: a stable sort by whole numbers, and what goes row by row.  Loaded where there are many
rows: below that, NumPy and CPython are faster than reading machine code from disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.base.kept import kept_jit
from pellucid.internal.engine.timed import steps

kept = kept_jit(error_model="numpy", nogil=True)


@kept
def ranked(words: Any, index: Any, other_words: Any, other_index: Any, low: int, bits: int, passes: int) -> bool:
    """Sort words by so many of their bits, from bit ``low`` on, and the row numbers beside them, in so many passes;
    what is equal stays in its order.  The result is in the first two arrays if the answer is false, else in the other
    two."""
    n = len(words)
    width = (bits + passes - 1) // passes
    size = 1 << width
    mask = np.uint64(size - 1)
    counts = np.zeros((passes, size), np.int64)
    for i in range(n):
        w = words[i] >> np.uint64(low)
        for p in range(passes):
            counts[p, w & mask] += 1
            w >>= np.uint64(width)
    swapped = False
    for p in range(passes):
        total, most = 0, 0
        for d in range(size):
            here = counts[p, d]
            most = max(most, here)
            counts[p, d] = total
            total += here
        if most == n:  # all have the same digit
            continue
        shift = np.uint64(low + p * width)
        for i in range(n):
            w = words[i]
            d = (w >> shift) & mask
            at = counts[p, d]
            counts[p, d] = at + 1
            other_words[at] = w
            other_index[at] = index[i]
        words, other_words = other_words, words
        index, other_index = other_index, index
        swapped = not swapped
    return swapped


@kept
def nearly(words: Any, index: Any, most: int) -> bool:
    """Sort words that are nearly in order, and the row numbers beside them, by moving each down to its place; false if
    that took more than so many moves: then they are in some order, each word still beside its row number, but rows that
    are equal as they were."""
    moves = 0
    for i in range(1, len(words)):
        w = words[i]
        if words[i - 1] <= w:
            continue
        row, at = index[i], i
        while at > 0 and words[at - 1] > w:
            words[at], index[at] = words[at - 1], index[at - 1]
            at -= 1
        words[at], index[at] = w, row
        moves += i - at
        if moves > most:
            return False
    return True


@kept
def rising(words: Any) -> bool:
    """Whether numbers never go down."""
    for i in range(1, len(words)):  # noqa: SIM110 - the compiler knows loops
        if words[i] < words[i - 1]:
            return False
    return True


first_ones = kept(steps.first_ones)


@kept
def numbered(values: Any, table: Any, count: int, add: bool, out: Any) -> int:
    """The places of numbers that are places of a table themselves: -1 there is one that has none yet, and gets the next
    if it is to be added.  How many there are then."""
    for i in range(len(values)):
        place = table[values[i]]
        if place < 0 and add:
            place = count
            table[values[i]] = place
            count += 1
        out[i] = place
    return count


@kept
def hashed(
    values: Any, start: int, keys: Any, places: Any, shift: int, count: int, most: int, add: bool, out: Any
) -> tuple[int, int]:
    """The same of any numbers, from ``start`` on: they lie in ``keys``, where their hash or the next free slot is, and
    their places (-1: free) in ``places``.  It stops where one more than ``most`` would be added: how far it came, and
    how many there are."""
    mask = len(keys) - 1
    for i in range(start, len(values)):
        value = values[i]
        slot = np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
        while places[slot] >= 0 and keys[slot] != value:
            slot = (slot + 1) & mask
        place = places[slot]
        if place < 0 and add:
            if count == most:
                return i, count
            place = count
            keys[slot], places[slot] = value, place
            count += 1
        out[i] = place
    return len(values), count


@kept
def reaches(
    keys: Any, times: Any, order: Any, others: Any, their_times: Any, low: int, high: int, starts: Any, stops: Any
) -> int:
    """For rows by key and time (``order`` says which they are), the stretch of others, by key and time as well, that
    have the same key and are from ``low`` to ``high`` after them; how many there are in all."""
    first = last = total = 0
    n = len(others)
    for i in range(len(keys)):
        key, since, until = keys[i], times[i] + low, times[i] + high
        while first < n and (others[first] < key or (others[first] == key and their_times[first] < since)):
            first += 1
        last = max(last, first)
        while last < n and (others[last] < key or (others[last] == key and their_times[last] <= until)):
            last += 1
        starts[order[i]], stops[order[i]] = first, last
        total += last - first
    return total


@kept
def met(
    places: Any,
    other_places: Any,
    times: Any,
    other_times: Any,
    order: Any,
    other_order: Any,
    starts: Any,
    stops: Any,
    other_starts: Any,
    other_stops: Any,
    mine: Any,
    theirs: Any,
    at: Any,
) -> bool:
    """The pairs of two sides, in the order in which their later events come, and of each of these by the time of the
    earlier one; where some of those are equal the answer is true.  Places rise on both sides, and no two are equal."""
    i = j = n = 0
    ties = False
    while i < len(places) or j < len(other_places):
        first = n
        if j == len(other_places) or (i < len(places) and places[i] < other_places[j]):
            place = places[i]
            for q in range(starts[i], stops[i]):
                other = other_order[q]
                if other_places[other] < place:
                    ties = ties or (n > first and other_times[theirs[n - 1]] == other_times[other])
                    mine[n], theirs[n], at[n] = i, other, place
                    n += 1
            i += 1
        else:
            place = other_places[j]
            for q in range(other_starts[j], other_stops[j]):
                other = order[q]
                if places[other] < place:
                    ties = ties or (n > first and times[mine[n - 1]] == times[other])
                    mine[n], theirs[n], at[n] = other, j, place
                    n += 1
            j += 1
    return ties


@kept
def sliced(times: Any, since: int, long: int, limit: int, order: Any, edges: Any) -> None:
    """The numbers of the rows up to a limit by slices of so long from ``since`` on, in each as they came; ``edges``
    (zero) gets where each slice begins in that, and one more."""
    for fill in range(2):
        low = since
        part = 0
        for i in range(len(times)):
            t = times[i]
            if t > limit:
                continue
            if t < low or t - low >= long:  # mostly the slice of the row before
                part = (t - since) // long
                low = since + part * long
            if fill:
                order[edges[part]] = i
                edges[part] += 1
            else:
                edges[part + 1] += 1
        if not fill:
            for p in range(1, len(edges)):
                edges[p] += edges[p - 1]
    for p in range(len(edges) - 1, 0, -1):  # each has gone on to where the next begins
        edges[p] = edges[p - 1]
    edges[0] = 0


@kept
def packed(which: Any, keys: Any, times: Any, least: int, bits: int, words: Any) -> None:
    """Key and time of these rows in one word each, the time counted from the least one, in so many bits."""
    for i in range(len(which)):
        row = which[i]
        words[i] = (keys[row] << np.uint64(bits)) | np.uint64(times[row] - least)


@kept
def cut(words: Any, bits: int, least: int, origin: int, every: int, starts: Any, windows: Any) -> tuple[int, bool]:
    """Where in sorted words a key or a window begins, and which windows these are: how many, and whether there are
    equal words."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    count, ties = 0, False
    key, end = np.uint64(0), np.int64(0)
    for i in range(len(words)):
        word = words[i]
        own, t = word >> np.uint64(bits), np.int64(word & mask) + least
        if i == 0 or own != key or t >= end:
            window = (t - origin) // every
            key, end = own, origin + (window + 1) * every
            starts[count], windows[count] = i, window
            count += 1
        elif word == words[i - 1]:
            ties = True
    return count, ties
