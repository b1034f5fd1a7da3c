"""What comes next under the `urgent` semantics, compiled: from a discrete state and its zone to those after one step.

A **settled** state (phase 0) has nothing left to take or to end, and its zone has all the times until the next end.
From there a spout emits, where nothing ends at this very moment (phase 1 until its tuple is put somewhere), or a worker
ends.  All ends of a moment come first (phase 2 + the bolt of the last one, so that each order of them is not gone
through again), then all takes, then time passes: no queue is longer in another order of the same ends and takes, and
all orders leave the same behind.  Workers of a bolt are told apart by the age of their tuples only, the oldest first:
that is the symmetry between them.  `layout` has the state.
"""

from __future__ import annotations

from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.compiled.jit import NOTHING, NUMBER, TRUTH, compiled, numbers
from pellucid.capacity.zones.compiled.matrix import ZERO, close, constrain, copy, exactly, relax, reset, up


@compiled(NUMBER, "ppn")
def clock(c, s, bolt):  # type: ignore[no-untyped-def]
    """Where the clocks of the busy workers of a bolt begin."""
    i = 1 + c[y.SPOUTS]
    for b in range(bolt):
        i += s[numbers(c[y.AT])[b] + y.BUSY]
    return i


@compiled(NUMBER, "ppn")
def longest(c, s, bolt):  # type: ignore[no-untyped-def]
    """The queue of a bolt; of queues per worker the longest."""
    at = numbers(c[y.AT])[bolt]
    if not numbers(c[y.APART])[bolt]:
        return s[at + y.LENGTH]
    most = 0
    for w in range(numbers(c[y.WORKERS])[bolt]):
        if s[at + y.QUEUES + w] > most:
            most = s[at + y.QUEUES + w]
    return most


@compiled(TRUTH, "ppt")
def note(c, s, settled):  # type: ignore[no-untyped-def]
    """Keep the longest queues that were seen, and say whether the limit is reached."""
    any_state, settled_state = numbers(c[y.ANY_STATE]), numbers(c[y.SETTLED_STATE])
    for b in range(c[y.BOLTS]):
        length = longest(c, s, b)
        if length > any_state[b]:
            any_state[b] = length
        if settled and length > settled_state[b]:
            settled_state[b] = length
    if c[y.SETTLED] and not settled:
        return False
    return longest(c, s, c[y.TARGET]) >= c[y.LIMIT]


@compiled(NOTHING, "pppnnnnnt")
def put(c, s, m, n, kind, a, b, cost, bad):  # type: ignore[no-untyped-def]
    """A result, if there is room for it."""
    if c[y.COUNT] >= c[y.RESULTS_SIZE]:
        c[y.FULL] = 1
        return
    to = numbers(c[y.RESULTS] + 8 * c[y.COUNT] * c[y.RESULT])
    c[y.COUNT] += 1
    to[y.SIZE], to[y.COST], to[y.KIND], to[y.WHO], to[y.WHERE] = n, cost, kind, a, b
    to[y.BAD] = 1 if bad else 0
    for i in range(c[y.WIDTH]):
        to[y.RESULT_HEAD + i] = s[i]
    for i in range(n * n):
        to[y.RESULT_HEAD + c[y.WIDTH] + i] = m[i]


@compiled(NOTHING, "ppnn")
def more(c, s, bolt, count):  # type: ignore[no-untyped-def]
    """So many tuples come to a bolt."""
    at = numbers(c[y.AT])[bolt] + y.LENGTH
    s[at] += count
    if not numbers(c[y.APART])[bolt] and s[at] > numbers(c[y.CAP])[bolt]:
        s[at] = numbers(c[y.CAP])[bolt]


@compiled(TRUTH, "pppn")
def nothing_ends(c, s, m, n):  # type: ignore[no-untyped-def]
    """With no worker at the end of its tuple: the oldest of each bolt is before it."""
    for b in range(c[y.BOLTS]):
        busy, end = s[numbers(c[y.AT])[b] + y.BUSY], numbers(c[y.TIME])[b]
        if busy > 0 and not constrain(m, n, clock(c, s, b), 0, 2 * end, c[y.INF]):
            return False
    return True


@compiled(NOTHING, "pppnnnnn")
def takes(c, s, m, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """Every idle worker takes, where there is something to take; then time passes until the next end.

    Where a queue has no end (`cap`: so many or more), what is left of it is anybody's guess: one result for each.
    """
    inf, bolts = c[y.INF], c[y.BOLTS]
    places, workers, apart, cap = numbers(c[y.AT]), numbers(c[y.WORKERS]), numbers(c[y.APART]), numbers(c[y.CAP])
    t, z, where = numbers(c[y.ROW]), numbers(c[y.ZONE]), numbers(c[y.MAP])
    ways = 1
    for o in range(bolts):
        at = places[o]
        if not apart[o] and s[at + y.LENGTH] >= cap[o]:
            ways *= 1 + min(s[at + y.LENGTH], workers[o] - s[at + y.BUSY])
    for way in range(ways):
        copy(s, t, c[y.WIDTH])
        t[y.PHASE] = 0
        code, count = way, 0
        k = 1 + c[y.SPOUTS]
        for i in range(k):
            where[i] = i
        old = k
        for o in range(bolts):
            at = places[o]
            busy, length = s[at + y.BUSY], s[at + y.LENGTH]
            for _ in range(busy):
                where[k] = old
                k += 1
                old += 1
            taken = 0
            if apart[o]:
                while busy + taken < workers[o] and s[at + y.QUEUES + busy + taken] > 0:
                    t[at + y.QUEUES + busy + taken] -= 1
                    taken += 1
            else:
                taken = min(length, workers[o] - busy)
                left = taken
                if length >= cap[o]:
                    left = code % (1 + taken)
                    code //= 1 + taken
                t[at + y.LENGTH] -= left
            t[at + y.BUSY] += taken
            count += taken
            for _ in range(taken):
                where[k] = 0  # a clock that is 0
                k += 1
        for i in range(k):
            for j in range(k):
                z[i * k + j] = m[where[i] * n + where[j]]
        up(z, k, inf)
        i = 1 + c[y.SPOUTS]
        for o in range(bolts):
            for _ in range(t[places[o] + y.BUSY]):
                z[i * k] = 2 * numbers(c[y.TIME])[o] + 1
                i += 1
        if close(z, k, inf):
            relax(z, k, c[y.SPOUTS], numbers(c[y.GAP]), inf)
            bad = note(c, t, True)
            put(c, t, z, k, kind, a, b if ways == 1 else way, cost + (count if c[y.BY_STEPS] else 0), bad)


@compiled(NUMBER, "pn")
def listeners(c, who):  # type: ignore[no-untyped-def]
    """How many choices a tuple of somebody has: the listeners that are looked at, and all others as one."""
    first = numbers(c[y.FIRST])
    return first[who + 1] - first[who] + numbers(c[y.OUTSIDE])[who]


@compiled(NOTHING, "pppnnnnn")
def arrived(c, t, m, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """After tuples came: a limit that is reached, the rest of this moment, or, after a spout, the takes."""
    if note(c, t, False):
        put(c, t, m, n, kind, a, b, cost, True)
        return
    waits = t[y.PENDING] > 0 or t[y.PHASE] != 1
    for o in range(c[y.BOLTS]):
        waits = waits or (numbers(c[y.APART])[o] and t[numbers(c[y.AT])[o] + y.LENGTH] > 0)
    if waits:
        put(c, t, m, n, kind, a, b, cost, False)
    else:
        takes(c, t, m, n, kind, a, b, cost)


@compiled(NOTHING, "pppnnnnnn")
def handed(c, t, m, n, who, count, kind, a, cost):  # type: ignore[no-untyped-def]
    """Tuples of somebody (a spout, or a bolt after all spouts) go to who hears it."""
    low, high, choices = numbers(c[y.FIRST])[who], numbers(c[y.FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[y.ALL]:
        t[y.PENDING], t[y.SOURCE], t[y.FROM] = count, who, 0
        put(c, t, m, n, kind, a, -1, cost, False)
        return
    kept = numbers(c[y.ROW3])
    copy(t, kept, c[y.WIDTH])
    everybody = count == 0 or choices == 0 or c[y.ALL] != 0
    for choice in range(1 if everybody else choices):
        copy(kept, t, c[y.WIDTH])
        for i in range(low, high):
            if everybody or i == low + choice:
                more(c, t, numbers(c[y.HEARD])[i], count)
        arrived(c, t, m, n, kind, a, -1 if everybody else choice, cost)


@compiled(TRUTH, "pppn")
def placed(c, s, m, n):  # type: ignore[no-untyped-def]
    """Tuples that are still to be put somewhere: one of them, everywhere where it can go.  False if there are none."""
    t = numbers(c[y.ROW2])
    bolt, low, high = -1, s[y.FROM], 0
    if s[y.PENDING] > 0:
        high = listeners(c, s[y.SOURCE])
    else:
        for o in range(c[y.BOLTS]):
            if bolt < 0 and numbers(c[y.APART])[o] and s[numbers(c[y.AT])[o] + y.LENGTH] > 0:
                bolt, low, high = o, 0, numbers(c[y.WORKERS])[o]
    for choice in range(low, high):
        copy(s, t, c[y.WIDTH])
        kind, who = y.PLACE, s[y.SOURCE]
        if bolt < 0:
            first = numbers(c[y.FIRST])[who]
            t[y.PENDING] -= 1
            t[y.FROM] = choice
            if t[y.PENDING] == 0:
                t[y.SOURCE] = t[y.FROM] = 0
            if first + choice < numbers(c[y.FIRST])[who + 1]:
                more(c, t, numbers(c[y.HEARD])[first + choice], 1)
        else:
            kind, who, at = y.SLOT, bolt, numbers(c[y.AT])[bolt]
            if choice > s[at + y.BUSY] and s[at + y.QUEUES + choice - 1] == s[at + y.QUEUES + choice]:
                continue  # an idle worker with the same queue as the one before
            t[at + y.LENGTH] -= 1
            t[at + y.QUEUES + choice] += 1
        arrived(c, t, m, n, kind, who, choice, 0)
    return high > 0


@compiled(NOTHING, "ppnn")
def idle_again(c, t, bolt, w):  # type: ignore[no-untyped-def]
    """A worker with a queue of its own is idle: its place is among the idle ones, the longest queue first."""
    at = numbers(c[y.AT])[bolt] + y.QUEUES
    i, q = w, t[at + w]
    while i + 1 < numbers(c[y.WORKERS])[bolt] and (i < t[at - y.QUEUES + y.BUSY] or t[at + i + 1] > q):
        t[at + i] = t[at + i + 1]
        i += 1
    t[at + i] = q


@compiled(NOTHING, "pppnn")
def ended(c, s, m, n, bolt):  # type: ignore[no-untyped-def]
    """A worker ends its tuple: the oldest; with queues per worker, any that is at its end."""
    at, apart = numbers(c[y.AT])[bolt], numbers(c[y.APART])[bolt]
    z, t, zone = numbers(c[y.ZONE]), numbers(c[y.ROW2]), numbers(c[y.ZONE2])
    for w in range(s[at + y.BUSY] if apart else 1):
        copy(m, z, n * n)
        clock_of = clock(c, s, bolt) + w
        if not exactly(z, n, clock_of, numbers(c[y.TIME])[bolt], c[y.INF]):
            continue
        k = 0
        for i in range(n):
            for j in range(n):
                if i != clock_of and j != clock_of:
                    zone[k] = z[i * n + j]
                    k += 1
        copy(s, t, c[y.WIDTH])
        t[y.PHASE] = 2 if c[y.BY_STEPS] else 2 + bolt
        t[at + y.BUSY] -= 1
        if apart:
            idle_again(c, t, bolt, w)
        count = 0
        if listeners(c, c[y.SPOUTS] + bolt) > 0:
            due = t[at + y.DUE] + numbers(c[y.OVER])[bolt]
            t[at + y.DUE] = due % numbers(c[y.UNDER])[bolt]
            count = due // numbers(c[y.UNDER])[bolt]
        cost = 1 if c[y.BY_STEPS] else 0
        handed(c, t, zone, n - 1, c[y.SPOUTS] + bolt, count, y.END, bolt * y.WORKERS_AT_MOST + w, cost)


@compiled(NOTHING, "pppn")
def urgent(c, s, m, n):  # type: ignore[no-untyped-def]
    """All steps from a state."""
    if placed(c, s, m, n):
        return
    phase = s[y.PHASE]
    if phase != 1:
        for b in range(c[y.BOLTS]):
            if s[numbers(c[y.AT])[b] + y.BUSY] > 0 and (phase == 0 or c[y.BY_STEPS] or b >= phase - 2):
                ended(c, s, m, n, b)
    base, z, t = numbers(c[y.ZONE3]), numbers(c[y.ZONE2]), numbers(c[y.ROW2])
    copy(m, base, n * n)
    if not nothing_ends(c, s, base, n):
        return
    if phase > 0:
        takes(c, s, base, n, y.TAKES, 0, 0, 0)
        return
    for spout in range(c[y.SPOUTS]):
        copy(base, z, n * n)
        if constrain(z, n, 0, spout + 1, -2 * numbers(c[y.GAP])[spout], c[y.INF]):
            reset(z, n, spout + 1)
            copy(s, t, c[y.WIDTH])
            t[y.PHASE] = 1
            handed(c, t, z, n, spout, 1, y.EMIT, spout, 1)


@compiled(NOTHING, "pp")
def begin(c, s):  # type: ignore[no-untyped-def]
    """The first state: all clocks at 0, and the initial queues, whose takes come before time passes."""
    n = 1 + c[y.SPOUTS]
    m = numbers(c[y.ZONE2])
    for i in range(n * n):
        m[i] = ZERO
    if note(c, s, False):
        put(c, s, m, n, y.START, 0, 0, 0, True)
    else:
        takes(c, s, m, n, y.START, 0, 0, 0)
