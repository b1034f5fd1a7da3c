"""What comes next under the `literal` semantics, compiled: the transitions of the paper's appendix, one by one.

Time passes in `time_elapse` only, by more than 0 and by as much as one likes; a tuple whose time is over by then is
done.  So a busy worker is always before its end, and its clock goes when it is done.  The phase of a state has the
flags: *CanTimeElapse*, *DoTake*, *DoEmit*, and what *SetFlags* says is next.  The bolt in question is the one under
analysis.
"""

from __future__ import annotations

from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.compiled.jit import NOTHING, TRUTH, compiled, numbers
from pellucid.capacity.zones.compiled.matrix import ZERO, constrain, copy, relax, reset, up_strictly
from pellucid.capacity.zones.compiled.urgent import clock, listeners, more, put


@compiled(TRUTH, "pp")
def seen(c, s):  # type: ignore[no-untyped-def]
    """Keep the longest queues that were seen, and say whether the limit is reached."""
    any_state, settled_state, places = numbers(c[y.ANY_STATE]), numbers(c[y.SETTLED_STATE]), numbers(c[y.AT])
    settled = True
    for b in range(c[y.BOLTS]):
        at = places[b]
        idle = numbers(c[y.WORKERS])[b] - s[at + y.BUSY] - s[at + y.DONE]
        settled = settled and s[at + y.DONE] == 0 and (s[at + y.LENGTH] == 0 or idle == 0)
    for b in range(c[y.BOLTS]):
        any_state[b] = max(any_state[b], s[places[b] + y.LENGTH])
        if settled:
            settled_state[b] = max(settled_state[b], s[places[b] + y.LENGTH])
    at = places[c[y.TARGET]]
    if c[y.SETTLED] == y.BLOCKED:
        return s[at + y.LENGTH] > 0 and s[at + y.BUSY] + s[at + y.DONE] == numbers(c[y.WORKERS])[c[y.TARGET]]
    if c[y.SETTLED] and not settled:
        return False
    return s[at + y.LENGTH] >= c[y.LIMIT]


@compiled(NOTHING, "pppnnnnn")
def stepped(c, t, z, n, kind, a, b, cost):  # type: ignore[no-untyped-def]
    """A result after a step."""
    put(c, t, z, n, kind, a, b, cost, t[y.PENDING] == 0 and seen(c, t))


@compiled(NOTHING, "pppnnnnnn")
def given(c, t, z, n, who, count, kind, a, cost):  # type: ignore[no-untyped-def]
    """Tuples of somebody go to who hears it: to all, or each to one."""
    low, high, choices = numbers(c[y.FIRST])[who], numbers(c[y.FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[y.ALL]:
        t[y.PENDING], t[y.SOURCE], t[y.FROM] = count, who, 0
        stepped(c, t, z, n, kind, a, -1, cost)
        return
    kept = numbers(c[y.ROW3])
    copy(t, kept, c[y.WIDTH])
    everybody = count == 0 or c[y.ALL] != 0
    for choice in range(1 if everybody else choices):
        copy(kept, t, c[y.WIDTH])
        for i in range(low, high):
            if everybody or i == low + choice:
                more(c, t, numbers(c[y.HEARD])[i], count)
        stepped(c, t, z, n, kind, a, -1 if everybody else choice, cost)


@compiled(NOTHING, "pppn")
def placed_literally(c, s, m, n):  # type: ignore[no-untyped-def]
    """The rest of a `bolt_emit` of several tuples: the next of them, to everybody who can get it."""
    t, who = numbers(c[y.ROW2]), s[y.SOURCE]
    low, high = numbers(c[y.FIRST])[who], numbers(c[y.FIRST])[who + 1]
    for choice in range(s[y.FROM], listeners(c, who)):
        copy(s, t, c[y.WIDTH])
        t[y.PENDING] -= 1
        t[y.FROM] = choice
        if t[y.PENDING] == 0:
            t[y.SOURCE] = t[y.FROM] = 0
        if low + choice < high:
            more(c, t, numbers(c[y.HEARD])[low + choice], 1)
        stepped(c, t, m, n, y.PLACE, who, choice, 0)


@compiled(NOTHING, "pppnn")
def time_elapse(c, s, m, n, cost):  # type: ignore[no-untyped-def]
    """Time passes (13); of each bolt the oldest 0, 1, … tuples are done by then."""
    inf, spouts, bolts, places = c[y.INF], c[y.SPOUTS], c[y.BOLTS], numbers(c[y.AT])
    ways = 1
    for b in range(bolts):
        ways *= 1 + s[places[b] + y.BUSY]
    base, z, to, t, where = (
        numbers(c[y.ZONE3]),
        numbers(c[y.ZONE]),
        numbers(c[y.ZONE2]),
        numbers(c[y.ROW2]),
        numbers(c[y.MAP]),
    )
    copy(m, base, n * n)
    up_strictly(base, n, inf)
    for way in range(ways):
        copy(base, z, n * n)
        copy(s, t, c[y.WIDTH])
        t[y.PHASE] = (s[y.PHASE] & (y.TAKES_FIRST | y.EMITS_FIRST)) | y.SET_TAKE
        code, possible = way, True
        k = 1 + spouts
        for i in range(k):
            where[i] = i
        for b in range(bolts):
            busy, first, end = s[places[b] + y.BUSY], clock(c, s, b), numbers(c[y.TIME])[b]
            over = code % (1 + busy)
            code //= 1 + busy
            if over > 0:
                possible = possible and constrain(z, n, 0, first + over - 1, -2 * end + 1, inf)
            if over < busy:
                possible = possible and constrain(z, n, first + over, 0, 2 * end, inf)
            t[places[b] + y.BUSY] -= over
            if listeners(c, spouts + b) > 0:
                t[places[b] + y.DONE] += over
            for i in range(over, busy):
                where[k] = first + i
                k += 1
        if possible:
            for i in range(k):
                for j in range(k):
                    to[i * k + j] = z[where[i] * n + where[j]]
            relax(to, k, spouts, numbers(c[y.GAP]), inf)
            stepped(c, t, to, k, y.ELAPSE, 0, way, cost)


@compiled(NOTHING, "pppnn")
def set_flags(c, s, m, n, cost):  # type: ignore[no-untyped-def]
    """The flags of the bolt under analysis: *DoTake* (6) to (9), then *DoEmit*."""
    flags, at, t = s[y.PHASE], numbers(c[y.AT])[c[y.TARGET]], numbers(c[y.ROW2])
    copy(s, t, c[y.WIDTH])
    if flags & y.SET_TAKE:
        waiting = 1 if s[at + y.LENGTH] > 0 else 0
        can = 1 if waiting and numbers(c[y.WORKERS])[c[y.TARGET]] > s[at + y.BUSY] + s[at + y.DONE] else 0
        t[y.PHASE] = (flags & (y.CAN | y.EMITS_FIRST)) | (can * y.TAKES_FIRST) | y.SET_EMIT
        stepped(c, t, m, n, y.DO_TAKE, can, waiting, cost)
    else:
        can = 1 if s[at + y.DONE] > 0 else 0
        t[y.PHASE] = (flags & (y.CAN | y.TAKES_FIRST)) | (can * y.EMITS_FIRST)
        stepped(c, t, m, n, y.DO_EMIT, can, 0, cost)


@compiled(NOTHING, "pppnn")
def spout_emit(c, s, m, n, after):  # type: ignore[no-untyped-def]
    """Each spout whose time is above the gap (10)."""
    z, t = numbers(c[y.ZONE2]), numbers(c[y.ROW2])
    for spout in range(c[y.SPOUTS]):
        copy(m, z, n * n)
        if constrain(z, n, 0, spout + 1, -2 * numbers(c[y.GAP])[spout], c[y.INF]):
            reset(z, n, spout + 1)
            relax(z, n, c[y.SPOUTS], numbers(c[y.GAP]), c[y.INF])
            copy(s, t, c[y.WIDTH])
            t[y.PHASE] = after
            given(c, t, z, n, spout, 1, y.EMIT, spout, 1)


@compiled(NOTHING, "pppn")
def literal(c, s, m, n):  # type: ignore[no-untyped-def]
    """All transitions from a state."""
    if s[y.PENDING] > 0:
        placed_literally(c, s, m, n)
        return
    flags, t, z, target = s[y.PHASE], numbers(c[y.ROW2]), numbers(c[y.ZONE2]), c[y.TARGET]
    cost = 1 if c[y.BY_STEPS] else 0
    if flags & y.CAN:
        time_elapse(c, s, m, n, cost)
    if flags & (y.SET_TAKE | y.SET_EMIT):
        set_flags(c, s, m, n, cost)
        return
    after = (flags & (y.TAKES_FIRST | y.EMITS_FIRST)) | y.CAN | y.SET_TAKE
    if not flags & (y.TAKES_FIRST | y.EMITS_FIRST):
        spout_emit(c, s, m, n, after)
    for b in range(c[y.BOLTS]):
        at = numbers(c[y.AT])[b]
        if s[at + y.DONE] > 0 and (b != target or flags & y.EMITS_FIRST):  # bolt_emit (11)
            copy(s, t, c[y.WIDTH])
            t[y.PHASE] = after
            t[at + y.DONE] -= 1
            due = t[at + y.DUE] + numbers(c[y.OVER])[b]
            t[at + y.DUE] = due % numbers(c[y.UNDER])[b]
            given(c, t, m, n, c[y.SPOUTS] + b, due // numbers(c[y.UNDER])[b], y.END, b, cost)
        idle = numbers(c[y.WORKERS])[b] - s[at + y.BUSY] - s[at + y.DONE]
        if s[at + y.LENGTH] > 0 and idle > 0 and (b != target or flags & y.TAKES_FIRST):  # bolt_take (12)
            copy(s, t, c[y.WIDTH])
            t[y.PHASE] = after
            t[at + y.LENGTH] -= 1
            t[at + y.BUSY] += 1
            new, k = clock(c, s, b) + s[at + y.BUSY], n + 1
            for i in range(k):
                for j in range(k):
                    p = 0 if i == new else i - (1 if i > new else 0)
                    q = 0 if j == new else j - (1 if j > new else 0)
                    z[i * k + j] = m[p * n + q]
            stepped(c, t, z, k, y.TAKE, b, 0, cost)


@compiled(NOTHING, "pp")
def begin_literally(c, s):  # type: ignore[no-untyped-def]
    """The initial state (4), (5)."""
    n = 1 + c[y.SPOUTS]
    m = numbers(c[y.ZONE2])
    for i in range(n * n):
        m[i] = ZERO
    put(c, s, m, n, y.START, 0, 0, 0, seen(c, s))
