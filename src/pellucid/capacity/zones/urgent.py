"""What comes next under the `urgent` semantics, compiled: from a discrete state and its zone to those after one step.

A **settled** state (phase 0) has nothing left to take or to end, and its zone has all the times until the next end.
From there a spout emits, where nothing ends at this very moment (phase 1 until its tuple is put somewhere), or a worker
ends.  All ends of a moment come first (phase 2 + the bolt of the last one, so that each order of them is not gone
through again), then all takes, then time passes: no queue is longer in another order of the same ends and takes, and
all orders leave the same behind.  Workers of a bolt are told apart by the age of their tuples only, the oldest first:
that is the symmetry between them.  `layout` has the state.
"""

from __future__ import annotations

from pellucid.capacity.zones.layout import (
    ALL, ANY_STATE, APART, AT, BAD, BOLTS, BUSY, BY_STEPS, CAP, COST, COUNT, DUE, EMIT, END, FIRST, FROM, FULL, GAP,
    HEARD, INF, KIND, LENGTH, LIMIT, MAP, OUTSIDE, OVER, PENDING, PHASE, PLACE, QUEUES, RESULT, RESULT_HEAD, RESULTS,
    RESULTS_SIZE, ROW, ROW2, ROW3, SETTLED, SETTLED_STATE, SIZE, SLOT, SOURCE, SPOUTS, START, TAKES, TARGET, TIME,
    UNDER, WHERE, WHO, WIDTH, WORKERS, WORKERS_AT_MOST, ZONE, ZONE2, ZONE3,
)  # fmt: skip
from pellucid.capacity.zones.matrix import NOTHING, NUMBER, TRUTH, ZERO, close, constrain, copy, exactly, compiled, numbers, relax, reset, up


@compiled(NUMBER, "ppn")
def clock(c, s, bolt):  # type: ignore[no-untyped-def]
    """Where the clocks of the busy workers of a bolt begin."""
    i = 1 + c[SPOUTS]
    for b in range(bolt):
        i += s[numbers(c[AT])[b] + BUSY]
    return i


@compiled(NUMBER, "ppn")
def longest(c, s, bolt):  # type: ignore[no-untyped-def]
    """The queue of a bolt; of queues per worker the longest."""
    at = numbers(c[AT])[bolt]
    if not numbers(c[APART])[bolt]:
        return s[at + LENGTH]
    most = 0
    for w in range(numbers(c[WORKERS])[bolt]):
        if s[at + QUEUES + w] > most:
            most = s[at + QUEUES + w]
    return most


@compiled(TRUTH, "ppt")
def note(c, s, settled):  # type: ignore[no-untyped-def]
    """Keep the longest queues that were seen, and say whether the limit is reached."""
    any_state, settled_state = numbers(c[ANY_STATE]), numbers(c[SETTLED_STATE])
    for b in range(c[BOLTS]):
        length = longest(c, s, b)
        if length > any_state[b]:
            any_state[b] = length
        if settled and length > settled_state[b]:
            settled_state[b] = length
    if c[SETTLED] and not settled:
        return False
    return longest(c, s, c[TARGET]) >= c[LIMIT]


@compiled(NOTHING, "pppnnnnnt")
def put(c, s, m, n, kind, a, b, cost, bad):  # type: ignore[no-untyped-def]
    """A result, if there is room for it."""
    if c[COUNT] >= c[RESULTS_SIZE]:
        c[FULL] = 1
        return
    to = numbers(c[RESULTS] + 8 * c[COUNT] * c[RESULT])
    c[COUNT] += 1
    to[SIZE], to[COST], to[KIND], to[WHO], to[WHERE] = n, cost, kind, a, b
    to[BAD] = 1 if bad else 0
    for i in range(c[WIDTH]):
        to[RESULT_HEAD + i] = s[i]
    for i in range(n * n):
        to[RESULT_HEAD + c[WIDTH] + i] = m[i]


@compiled(NOTHING, "ppnn")
def more(c, s, bolt, count):  # type: ignore[no-untyped-def]
    """So many tuples come to a bolt."""
    at = numbers(c[AT])[bolt] + LENGTH
    s[at] += count
    if not numbers(c[APART])[bolt] and s[at] > numbers(c[CAP])[bolt]:
        s[at] = numbers(c[CAP])[bolt]


@compiled(TRUTH, "pppn")
def nothing_ends(c, s, m, n):  # type: ignore[no-untyped-def]
    """With no worker at the end of its tuple: the oldest of each bolt is before it."""
    for b in range(c[BOLTS]):
        if s[numbers(c[AT])[b] + BUSY] > 0:
            if not constrain(m, n, clock(c, s, b), 0, 2 * numbers(c[TIME])[b], c[INF]):
                return False
    return True


@compiled(NOTHING, "pppnnnnn")
def takes(c, s, m, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """Every idle worker takes, where there is something to take; then time passes until the next end.

    Where a queue has no end (`cap`: so many or more), what is left of it is anybody's guess: one result for each.
    """
    inf, bolts = c[INF], c[BOLTS]
    places, workers, apart, cap = numbers(c[AT]), numbers(c[WORKERS]), numbers(c[APART]), numbers(c[CAP])
    t, z, where = numbers(c[ROW]), numbers(c[ZONE]), numbers(c[MAP])
    ways = 1
    for o in range(bolts):
        at = places[o]
        if not apart[o] and s[at + LENGTH] >= cap[o]:
            ways *= 1 + min(s[at + LENGTH], workers[o] - s[at + BUSY])
    for way in range(ways):
        copy(s, t, c[WIDTH])
        t[PHASE] = 0
        code, count = way, 0
        k = 1 + c[SPOUTS]
        for i in range(k):
            where[i] = i
        old = k
        for o in range(bolts):
            at = places[o]
            busy, length = s[at + BUSY], s[at + LENGTH]
            for _ in range(busy):
                where[k] = old
                k += 1
                old += 1
            taken = 0
            if apart[o]:
                while busy + taken < workers[o] and s[at + QUEUES + busy + taken] > 0:
                    t[at + QUEUES + busy + taken] -= 1
                    taken += 1
            else:
                taken = min(length, workers[o] - busy)
                left = taken
                if length >= cap[o]:
                    left = code % (1 + taken)
                    code //= 1 + taken
                t[at + LENGTH] -= left
            t[at + BUSY] += taken
            count += taken
            for _ in range(taken):
                where[k] = 0  # a clock that is 0
                k += 1
        for i in range(k):
            for j in range(k):
                z[i * k + j] = m[where[i] * n + where[j]]
        up(z, k, inf)
        i = 1 + c[SPOUTS]
        for o in range(bolts):
            for _ in range(t[places[o] + BUSY]):
                z[i * k] = 2 * numbers(c[TIME])[o] + 1
                i += 1
        if close(z, k, inf):
            relax(z, k, c[SPOUTS], numbers(c[GAP]), inf)
            bad = note(c, t, True)
            put(c, t, z, k, kind, a, b if ways == 1 else way, cost + (count if c[BY_STEPS] else 0), bad)


@compiled(NUMBER, "pn")
def listeners(c, who):  # type: ignore[no-untyped-def]
    """How many choices a tuple of somebody has: the listeners that are looked at, and all others as one."""
    first = numbers(c[FIRST])
    return first[who + 1] - first[who] + numbers(c[OUTSIDE])[who]


@compiled(NOTHING, "pppnnnnn")
def arrived(c, t, m, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """After tuples came: a limit that is reached, the rest of this moment, or, after a spout, the takes."""
    if note(c, t, False):
        put(c, t, m, n, kind, a, b, cost, True)
        return
    waits = t[PENDING] > 0 or t[PHASE] != 1
    for o in range(c[BOLTS]):
        waits = waits or (numbers(c[APART])[o] and t[numbers(c[AT])[o] + LENGTH] > 0)
    if waits:
        put(c, t, m, n, kind, a, b, cost, False)
    else:
        takes(c, t, m, n, kind, a, b, cost)


@compiled(NOTHING, "pppnnnnnn")
def handed(c, t, m, n, who, count, kind, a, cost):  # type: ignore[no-untyped-def]
    """Tuples of somebody (a spout, or a bolt after all spouts) go to who hears it."""
    low, high, choices = numbers(c[FIRST])[who], numbers(c[FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[ALL]:
        t[PENDING], t[SOURCE], t[FROM] = count, who, 0
        put(c, t, m, n, kind, a, -1, cost, False)
        return
    kept = numbers(c[ROW3])
    copy(t, kept, c[WIDTH])
    everybody = count == 0 or choices == 0 or c[ALL] != 0
    for choice in range(1 if everybody else choices):
        copy(kept, t, c[WIDTH])
        for i in range(low, high):
            if everybody or i == low + choice:
                more(c, t, numbers(c[HEARD])[i], count)
        arrived(c, t, m, n, kind, a, -1 if everybody else choice, cost)


@compiled(TRUTH, "pppn")
def placed(c, s, m, n):  # type: ignore[no-untyped-def]
    """Tuples that are still to be put somewhere: one of them, everywhere where it can go.  False if there are none."""
    t = numbers(c[ROW2])
    bolt, low, high = -1, s[FROM], 0
    if s[PENDING] > 0:
        high = listeners(c, s[SOURCE])
    else:
        for o in range(c[BOLTS]):
            if bolt < 0 and numbers(c[APART])[o] and s[numbers(c[AT])[o] + LENGTH] > 0:
                bolt, low, high = o, 0, numbers(c[WORKERS])[o]
    for choice in range(low, high):
        copy(s, t, c[WIDTH])
        kind, who = PLACE, s[SOURCE]
        if bolt < 0:
            first = numbers(c[FIRST])[who]
            t[PENDING] -= 1
            t[FROM] = choice
            if t[PENDING] == 0:
                t[SOURCE] = t[FROM] = 0
            if first + choice < numbers(c[FIRST])[who + 1]:
                more(c, t, numbers(c[HEARD])[first + choice], 1)
        else:
            kind, who, at = SLOT, bolt, numbers(c[AT])[bolt]
            if choice > s[at + BUSY] and s[at + QUEUES + choice - 1] == s[at + QUEUES + choice]:
                continue  # an idle worker with the same queue as the one before
            t[at + LENGTH] -= 1
            t[at + QUEUES + choice] += 1
        arrived(c, t, m, n, kind, who, choice, 0)
    return high > 0


@compiled(NOTHING, "ppnn")
def idle_again(c, t, bolt, w):  # type: ignore[no-untyped-def]
    """A worker with a queue of its own is idle: its place is among the idle ones, the longest queue first."""
    at = numbers(c[AT])[bolt] + QUEUES
    i, q = w, t[at + w]
    while i + 1 < numbers(c[WORKERS])[bolt] and (i < t[at - QUEUES + BUSY] or t[at + i + 1] > q):
        t[at + i] = t[at + i + 1]
        i += 1
    t[at + i] = q


@compiled(NOTHING, "pppnn")
def ended(c, s, m, n, bolt):  # type: ignore[no-untyped-def]
    """A worker ends its tuple: the oldest; with queues per worker, any that is at its end."""
    at, apart = numbers(c[AT])[bolt], numbers(c[APART])[bolt]
    z, t, zone = numbers(c[ZONE]), numbers(c[ROW2]), numbers(c[ZONE2])
    for w in range(s[at + BUSY] if apart else 1):
        copy(m, z, n * n)
        clock_of = clock(c, s, bolt) + w
        if not exactly(z, n, clock_of, numbers(c[TIME])[bolt], c[INF]):
            continue
        k = 0
        for i in range(n):
            for j in range(n):
                if i != clock_of and j != clock_of:
                    zone[k] = z[i * n + j]
                    k += 1
        copy(s, t, c[WIDTH])
        t[PHASE] = 2 if c[BY_STEPS] else 2 + bolt
        t[at + BUSY] -= 1
        if apart:
            idle_again(c, t, bolt, w)
        due = t[at + DUE] + numbers(c[OVER])[bolt]
        t[at + DUE] = due % numbers(c[UNDER])[bolt]
        count = due // numbers(c[UNDER])[bolt]
        cost = 1 if c[BY_STEPS] else 0
        handed(c, t, zone, n - 1, c[SPOUTS] + bolt, count, END, bolt * WORKERS_AT_MOST + w, cost)


@compiled(NOTHING, "pppn")
def urgent(c, s, m, n):  # type: ignore[no-untyped-def]
    """All steps from a state."""
    if placed(c, s, m, n):
        return
    phase = s[PHASE]
    if phase != 1:
        for b in range(c[BOLTS]):
            if s[numbers(c[AT])[b] + BUSY] > 0 and (phase == 0 or c[BY_STEPS] or b >= phase - 2):
                ended(c, s, m, n, b)
    base, z, t = numbers(c[ZONE3]), numbers(c[ZONE2]), numbers(c[ROW2])
    copy(m, base, n * n)
    if not nothing_ends(c, s, base, n):
        return
    if phase > 0:
        takes(c, s, base, n, TAKES, 0, 0, 0)
        return
    for spout in range(c[SPOUTS]):
        copy(base, z, n * n)
        if constrain(z, n, 0, spout + 1, -2 * numbers(c[GAP])[spout], c[INF]):
            reset(z, n, spout + 1)
            copy(s, t, c[WIDTH])
            t[PHASE] = 1
            handed(c, t, z, n, spout, 1, EMIT, spout, 1)


@compiled(NOTHING, "pp")
def begin(c, s):  # type: ignore[no-untyped-def]
    """The first state: all clocks at 0, and the initial queues, whose takes come before time passes."""
    n = 1 + c[SPOUTS]
    m = numbers(c[ZONE2])
    for i in range(n * n):
        m[i] = ZERO
    if note(c, s, False):
        put(c, s, m, n, START, 0, 0, 0, True)
    else:
        takes(c, s, m, n, START, 0, 0, 0)
