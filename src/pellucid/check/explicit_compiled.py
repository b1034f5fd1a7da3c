"""The register machine of the explicit search, compiled once for all models.

Loaded only when a search runs.  States are packed into 64-bit words; a hash table finds them again.
"""

from __future__ import annotations

import numpy as np

from pellucid.internal.base.kept import kept_jit

MORE_STATES, OVERFLOW, FOUND, DONE = 1, 2, 3, 0

LEAST = -9223372036854775808
_LEAVING = (1, 2, 3, 6, 7, 12, 4)  # add, sub, mul, neg, abs, shl, floordiv, for the operations from 21 on


@kept_jit()
def overflows(op, x, y):  # type: ignore[no-untyped-def]
    """Whether an operation leaves 64 bits, decided before it is computed: a compiler may assume that a signed result
    never does."""
    if op == 1:
        return (y > 0 and x > 9223372036854775807 - y) or (y < 0 and x < LEAST - y)
    if op == 2:
        return (y < 0 and x > 9223372036854775807 + y) or (y > 0 and x < LEAST + y)
    if op == 3:
        if x == 0 or y == 0:
            return False
        high = np.uint64(x) if x > 0 else np.uint64(0) - np.uint64(x)
        low = np.uint64(y) if y > 0 else np.uint64(0) - np.uint64(y)
        room = np.uint64(9223372036854775807) if (x > 0) == (y > 0) else np.uint64(9223372036854775808)
        return high > room // low
    if op == 4:
        return x == LEAST and y == -1
    if op == 6 or op == 7:
        return x == LEAST
    if op == 12:
        if y < 0 or x == 0:
            return False
        return y > 63 or (x > 0 and (y > 62 or x > 9223372036854775807 >> y)) or (x < 0 and x < LEAST >> y)
    return False


@kept_jit(error_model="numpy")
def _execute(code, start, stop, r, strict=False):  # type: ignore[no-untyped-def]
    """Run instructions; True if a 64-bit integer overflowed.

    In a ``strict`` system that is a failure, and the system itself says where it happens: the value is then 0, as
    after a division by 0, and the run goes on.
    """
    for k in range(start, stop):
        op, t, a, b = code[k, 0], code[k, 1], code[k, 2], code[k, 3]
        x, y = r[a], r[b]
        if op < 13 and overflows(op, x, y):
            if not strict:
                return True
            r[t] = 0
            continue
        if op == 20:  # ite
            r[t] = y if x != 0 else r[code[k, 4]]
        elif op == 17:
            r[t] = 1 if x != 0 and y != 0 else 0
        elif op == 18:
            r[t] = 1 if x != 0 or y != 0 else 0
        elif op == 19:
            r[t] = 1 - x
        elif op == 14:
            r[t] = 1 if x == y else 0
        elif op == 15:
            r[t] = 1 if x < y else 0
        elif op == 16:
            r[t] = 1 if x <= y else 0
        elif op == 1:
            r[t] = x + y
        elif op == 2:
            r[t] = x - y
        elif op == 3:
            r[t] = x * y
        elif op == 4:
            if y == 0:
                r[t] = 0  # it fails: the system says so
            elif y == -1:
                r[t] = -x
            else:
                r[t] = x // y
        elif op == 5:
            r[t] = 0 if y == 0 or y == -1 else x % y
        elif op == 6:
            r[t] = -x
        elif op == 7:
            r[t] = abs(x)
        elif op == 8:
            r[t] = ~x
        elif op == 9:
            r[t] = x & y
        elif op == 10:
            r[t] = x | y
        elif op == 11:
            r[t] = x ^ y
        elif op == 12:
            r[t] = 0 if y < 0 or x == 0 else x << y
        elif op == 13:
            r[t] = 0 if y < 0 else x >> min(y, 63)
        elif op == 0:
            r[t] = x
        else:  # from 21 on: whether add, sub, mul, neg, abs, shl, floordiv leave 64 bits
            r[t] = 1 if overflows(_LEAVING[op - 21], x, y) else 0
    return False


@kept_jit()
def _pack(values, places, word, shift, bits, packed):  # type: ignore[no-untyped-def]
    """Put a state into words; True if a value does not fit its bits."""
    for w in range(packed.size):
        packed[w] = np.uint64(0)
    for i in range(word.size):
        v = values[places[i]]
        if bits[i] < 64 and (v < 0 or v >> bits[i] != 0):
            return True
        packed[word[i]] |= np.uint64(v) << np.uint64(shift[i])
    return False


@kept_jit()
def _unpack(packed, word, shift, bits, r):  # type: ignore[no-untyped-def]
    for i in range(word.size):
        v = packed[word[i]] >> np.uint64(shift[i])
        if bits[i] < 64:
            v &= (np.uint64(1) << np.uint64(bits[i])) - np.uint64(1)
        r[i] = np.int64(v)


@kept_jit()
def _find(table, states, packed):  # type: ignore[no-untyped-def]
    """The slot of a state in the table: its own, or the empty one where it belongs."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for w in range(packed.size):
        h = (h ^ packed[w]) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    mask = np.uint64(table.size - 1)
    h &= mask
    while True:
        s = table[h]
        if s == 0:
            return np.int64(h)
        same = True
        for w in range(packed.size):
            if states[s - 1, w] != packed[w]:
                same = False
                break
        if same:
            return np.int64(h)
        h = (h + np.uint64(1)) & mask


@kept_jit()
def rehash(table, states, count):  # type: ignore[no-untyped-def]
    """Fill a larger table."""
    for s in range(count):
        table[_find(table, states, states[s])] = s + 1


@kept_jit(error_model="numpy")
def search(  # type: ignore[no-untyped-def]
    code, first, r, inputs, choices, following, observed, word, shift, bits,
    states, table, parent, chosen, successor, seen, progress, stop_on, limit, strict, assumed,
):  # fmt: skip
    """Breadth first from where ``progress`` left off; returns what ended it.

    progress: 0 the state being expanded, 1 states found, 2 the choice that stopped it, 3 how many this call expanded.
    ``stop_on`` is a set of observations (bits) any of which ends the search at once.  A push that is not ``assumed``
    leads nowhere: -1.
    """
    at, count = progress[0], progress[1]
    packed = np.zeros(states.shape[1], np.uint64)
    progress[3] = 0
    n = word.size
    while at < count:
        if progress[3] >= limit:
            progress[0], progress[1] = at, count
            return MORE_STATES
        if count + choices.shape[0] > states.shape[0]:
            progress[0], progress[1] = at, count
            return MORE_STATES
        _unpack(states[at], word, shift, bits, r)
        if _execute(code, 0, first, r, strict):
            progress[0], progress[1] = at, count
            return OVERFLOW
        for c in range(choices.shape[0]):
            for j in range(inputs):
                r[n + j] = choices[c, j]
            if _execute(code, first, code.shape[0], r, strict) or _pack(r, following, word, shift, bits, packed):
                if r[assumed] == 0:
                    successor[at, c] = -1
                    continue
                progress[0], progress[1], progress[2] = at, count, c
                return OVERFLOW
            if r[assumed] == 0:
                successor[at, c] = -1
                continue
            marks = np.uint64(0)
            for k in range(observed.size):
                if r[observed[k]] != 0:
                    marks |= np.uint64(1) << np.uint64(k)
            slot = _find(table, states, packed)
            s = table[slot] - 1
            if s < 0:
                s = count
                table[slot] = s + 1
                for w in range(packed.size):
                    states[s, w] = packed[w]
                parent[s], chosen[s] = at, c
                count += 1
            successor[at, c] = s
            seen[at, c] = marks
            if marks & stop_on:
                progress[0], progress[1], progress[2] = at, count, c
                return FOUND
        at += 1
        progress[3] += 1
    progress[0], progress[1] = at, count
    return DONE
