"""What comes next under the `literal` semantics, compiled: the transitions of the paper's appendix, one by one.

Time passes in `time_elapse` only, by more than 0 and by as much as one likes; a tuple whose time is over by then is
done.  So a busy worker is always before its end, and its clock goes when it is done.  The phase of a state has the
flags: *CanTimeElapse*, *DoTake*, *DoEmit*, and what *SetFlags* says is next.  The bolt in question is the one under
analysis.
"""

from __future__ import annotations

from pellucid.capacity.zones.layout import (
    ALL, ANY_STATE, AT, BOLTS, BUSY, BY_STEPS, CAN, DO_EMIT, DO_TAKE, DONE, DUE, ELAPSE, EMIT, EMITS_FIRST, END, FIRST,
    FROM, GAP, HEARD, INF, LENGTH, LIMIT, MAP, OVER, PENDING, PHASE, PLACE, ROW2, ROW3, SET_EMIT, SET_TAKE, SETTLED,
    SETTLED_STATE, SOURCE, SPOUTS, START, TAKE, TAKES_FIRST, TARGET, TIME, UNDER, WIDTH, WORKERS, ZONE, ZONE2, ZONE3,
)  # fmt: skip
from pellucid.capacity.zones.matrix import NOTHING, TRUTH, ZERO, constrain, copy, compiled, numbers, relax, reset, up_strictly
from pellucid.capacity.zones.urgent import clock, listeners, more, put


@compiled(TRUTH, "pp")
def seen(c, s):  # type: ignore[no-untyped-def]
    """Keep the longest queues that were seen, and say whether the limit is reached."""
    any_state, settled_state, places = numbers(c[ANY_STATE]), numbers(c[SETTLED_STATE]), numbers(c[AT])
    settled = True
    for b in range(c[BOLTS]):
        at = places[b]
        idle = numbers(c[WORKERS])[b] - s[at + BUSY] - s[at + DONE]
        settled = settled and s[at + DONE] == 0 and (s[at + LENGTH] == 0 or idle == 0)
    for b in range(c[BOLTS]):
        any_state[b] = max(any_state[b], s[places[b] + LENGTH])
        if settled:
            settled_state[b] = max(settled_state[b], s[places[b] + LENGTH])
    if c[SETTLED] and not settled:
        return False
    return s[places[c[TARGET]] + LENGTH] >= c[LIMIT]


@compiled(NOTHING, "pppnnnnn")
def stepped(c, t, z, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """A result after a step."""
    put(c, t, z, n, kind, a, b, cost, t[PENDING] == 0 and seen(c, t))


@compiled(NOTHING, "pppnnnnnn")
def given(c, t, z, n, who, count, kind, a, cost):  # type: ignore[no-untyped-def]
    """Tuples of somebody go to who hears it: to all, or each to one."""
    low, high, choices = numbers(c[FIRST])[who], numbers(c[FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[ALL]:
        t[PENDING], t[SOURCE], t[FROM] = count, who, 0
        stepped(c, t, z, n, kind, a, -1, cost)
        return
    kept = numbers(c[ROW3])
    copy(t, kept, c[WIDTH])
    everybody = count == 0 or c[ALL] != 0
    for choice in range(1 if everybody else choices):
        copy(kept, t, c[WIDTH])
        for i in range(low, high):
            if everybody or i == low + choice:
                more(c, t, numbers(c[HEARD])[i], count)
        stepped(c, t, z, n, kind, a, -1 if everybody else choice, cost)


@compiled(NOTHING, "pppn")
def placed_literally(c, s, m, n):  # type: ignore[no-untyped-def]
    """The rest of a `bolt_emit` of several tuples: the next of them, to everybody who can get it."""
    t, who = numbers(c[ROW2]), s[SOURCE]
    low, high = numbers(c[FIRST])[who], numbers(c[FIRST])[who + 1]
    for choice in range(s[FROM], listeners(c, who)):
        copy(s, t, c[WIDTH])
        t[PENDING] -= 1
        t[FROM] = choice
        if t[PENDING] == 0:
            t[SOURCE] = t[FROM] = 0
        if low + choice < high:
            more(c, t, numbers(c[HEARD])[low + choice], 1)
        stepped(c, t, m, n, PLACE, who, choice, 0)


@compiled(NOTHING, "pppnn")
def time_elapse(c, s, m, n, cost):  # type: ignore[no-untyped-def]
    """Time passes (13); of each bolt the oldest 0, 1, … tuples are done by then."""
    inf, spouts, bolts, places = c[INF], c[SPOUTS], c[BOLTS], numbers(c[AT])
    ways = 1
    for b in range(bolts):
        ways *= 1 + s[places[b] + BUSY]
    base, z, to, t, where = numbers(c[ZONE3]), numbers(c[ZONE]), numbers(c[ZONE2]), numbers(c[ROW2]), numbers(c[MAP])
    copy(m, base, n * n)
    up_strictly(base, n, inf)
    for way in range(ways):
        copy(base, z, n * n)
        copy(s, t, c[WIDTH])
        t[PHASE] = (s[PHASE] & (TAKES_FIRST | EMITS_FIRST)) | SET_TAKE
        code, possible = way, True
        k = 1 + spouts
        for i in range(k):
            where[i] = i
        for b in range(bolts):
            busy, first, end = s[places[b] + BUSY], clock(c, s, b), numbers(c[TIME])[b]
            over = code % (1 + busy)
            code //= 1 + busy
            if over > 0:
                possible = possible and constrain(z, n, 0, first + over - 1, -2 * end + 1, inf)
            if over < busy:
                possible = possible and constrain(z, n, first + over, 0, 2 * end, inf)
            t[places[b] + BUSY] -= over
            if listeners(c, spouts + b) > 0:
                t[places[b] + DONE] += over
            for i in range(over, busy):
                where[k] = first + i
                k += 1
        if possible:
            for i in range(k):
                for j in range(k):
                    to[i * k + j] = z[where[i] * n + where[j]]
            relax(to, k, spouts, numbers(c[GAP]), inf)
            stepped(c, t, to, k, ELAPSE, 0, way, cost)


@compiled(NOTHING, "pppnn")
def set_flags(c, s, m, n, cost):  # type: ignore[no-untyped-def]
    """The flags of the bolt under analysis: *DoTake* (6) to (9), then *DoEmit*."""
    flags, at, t = s[PHASE], numbers(c[AT])[c[TARGET]], numbers(c[ROW2])
    copy(s, t, c[WIDTH])
    if flags & SET_TAKE:
        waiting = 1 if s[at + LENGTH] > 0 else 0
        can = 1 if waiting and numbers(c[WORKERS])[c[TARGET]] > s[at + BUSY] + s[at + DONE] else 0
        t[PHASE] = (flags & (CAN | EMITS_FIRST)) | (can * TAKES_FIRST) | SET_EMIT
        stepped(c, t, m, n, DO_TAKE, can, waiting, cost)
    else:
        can = 1 if s[at + DONE] > 0 else 0
        t[PHASE] = (flags & (CAN | TAKES_FIRST)) | (can * EMITS_FIRST)
        stepped(c, t, m, n, DO_EMIT, can, 0, cost)


@compiled(NOTHING, "pppnn")
def spout_emit(c, s, m, n, after):  # type: ignore[no-untyped-def]
    """Each spout whose time is above the gap (10)."""
    z, t = numbers(c[ZONE2]), numbers(c[ROW2])
    for spout in range(c[SPOUTS]):
        copy(m, z, n * n)
        if constrain(z, n, 0, spout + 1, -2 * numbers(c[GAP])[spout], c[INF]):
            reset(z, n, spout + 1)
            relax(z, n, c[SPOUTS], numbers(c[GAP]), c[INF])
            copy(s, t, c[WIDTH])
            t[PHASE] = after
            given(c, t, z, n, spout, 1, EMIT, spout, 1)


@compiled(NOTHING, "pppn")
def literal(c, s, m, n):  # type: ignore[no-untyped-def]
    """All transitions from a state."""
    if s[PENDING] > 0:
        placed_literally(c, s, m, n)
        return
    flags, t, z, target = s[PHASE], numbers(c[ROW2]), numbers(c[ZONE2]), c[TARGET]
    cost = 1 if c[BY_STEPS] else 0
    if flags & CAN:
        time_elapse(c, s, m, n, cost)
    if flags & (SET_TAKE | SET_EMIT):
        set_flags(c, s, m, n, cost)
        return
    after = (flags & (TAKES_FIRST | EMITS_FIRST)) | CAN | SET_TAKE
    if not flags & (TAKES_FIRST | EMITS_FIRST):
        spout_emit(c, s, m, n, after)
    for b in range(c[BOLTS]):
        at = numbers(c[AT])[b]
        if s[at + DONE] > 0 and (b != target or flags & EMITS_FIRST):  # bolt_emit (11)
            copy(s, t, c[WIDTH])
            t[PHASE] = after
            t[at + DONE] -= 1
            due = t[at + DUE] + numbers(c[OVER])[b]
            t[at + DUE] = due % numbers(c[UNDER])[b]
            given(c, t, m, n, c[SPOUTS] + b, due // numbers(c[UNDER])[b], END, b, cost)
        idle = numbers(c[WORKERS])[b] - s[at + BUSY] - s[at + DONE]
        if s[at + LENGTH] > 0 and idle > 0 and (b != target or flags & TAKES_FIRST):  # bolt_take (12)
            copy(s, t, c[WIDTH])
            t[PHASE] = after
            t[at + LENGTH] -= 1
            t[at + BUSY] += 1
            new, k = clock(c, s, b) + s[at + BUSY], n + 1
            for i in range(k):
                for j in range(k):
                    p = 0 if i == new else i - (1 if i > new else 0)
                    q = 0 if j == new else j - (1 if j > new else 0)
                    z[i * k + j] = m[p * n + q]
            stepped(c, t, z, k, TAKE, b, 0, cost)


@compiled(NOTHING, "pp")
def begin_literally(c, s):  # type: ignore[no-untyped-def]
    """The initial state (4), (5)."""
    n = 1 + c[SPOUTS]
    m = numbers(c[ZONE2])
    for i in range(n * n):
        m[i] = ZERO
    put(c, s, m, n, START, 0, 0, 0, seen(c, s))
