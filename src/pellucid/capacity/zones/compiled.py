"""What is compiled: matrices, steps of both semantics, the search; `layout` says where everything stands."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from pellucid.capacity.zones import layout as y
from pellucid.internal.base.kept import kept_jit

# How the modules of this folder are compiled: once, for pointers and numbers.  Loaded when a search begins.

POINTER, NUMBER, TRUTH, NOTHING = types.CPointer(types.int64), types.int64, types.boolean, types.void


def together(function: Any, **options: Any) -> Any:
    """Compiled, and kept for the next time, as long as *none* of the modules of this folder has changed: what one calls
    is part of it."""
    return kept_jit(error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)(function)


def compiled(result: Any, parameters: str) -> Any:
    """Compiled when it is defined, once: for pointers (``p``), numbers (``n``) and truths (``t``)."""
    kinds = {"p": POINTER, "n": NUMBER, "t": TRUTH}

    def compile_now(function: Any) -> Any:
        made = together(function, no_cpython_wrapper=True)
        made.compile(result(*(kinds[letter] for letter in parameters)))
        made.disable_compile()
        return made

    return compile_now


@intrinsic
def numbers(context, address):  # type: ignore[no-untyped-def]
    """The numbers from an address on.  Arrays would be counted at every call, which is most of what such a call costs,
    and most of the time that it takes to compile it; the caller holds them meanwhile."""
    kind = types.CPointer(types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64), generate


# Difference bound matrices over whole numbers, with strict and weak bounds, compiled.
#
# A zone of n − 1 clocks is an n × n matrix, row by row in one array: entry (i, j) bounds xᵢ − xⱼ, and x₀ is 0.  A bound
# is one number:  ``2·c`` for *< c*, ``2·c + 1`` for *≤ c*, so that a smaller number is a tighter bound and the sum of
# two is one addition.  All operations but `up` keep a matrix closed (every entry as tight as the others imply), which
# makes inclusion a comparison entry by entry.

ZERO = 1  # ≤ 0


@compiled(NOTHING, "ppn")
def copy(a, b, count):  # type: ignore[no-untyped-def]
    """So many numbers."""
    for i in range(count):
        b[i] = a[i]


@compiled(NUMBER, "nnn")
def plus(a, b, inf):  # type: ignore[no-untyped-def]
    """The sum of two bounds: strict if one of them is."""
    return inf if a >= inf or b >= inf else a + b - ((a | b) & 1)


@compiled(TRUTH, "pnn")
def close(m, n, inf):  # type: ignore[no-untyped-def]
    """Make every entry as tight as the others imply; False if nothing is in the zone."""
    for k in range(n):
        for i in range(n):
            a = m[i * n + k]
            if a >= inf:
                continue
            for j in range(n):
                b = m[k * n + j]
                if b < inf:
                    c = a + b - ((a | b) & 1)
                    if c < m[i * n + j]:
                        m[i * n + j] = c
    for i in range(n):
        if m[i * n + i] < ZERO:
            return False
        m[i * n + i] = ZERO
    return True


@compiled(TRUTH, "pnnnnn")
def constrain(m, n, i, j, bound, inf):  # type: ignore[no-untyped-def]
    """With xᵢ − xⱼ at most ``bound`` besides; False if nothing is left.  The matrix stays closed."""
    if bound >= m[i * n + j]:
        return True
    if plus(m[j * n + i], bound, inf) < ZERO:
        return False
    for a in range(n):
        to = plus(m[a * n + i], bound, inf)
        if to >= inf:
            continue
        for b in range(n):
            c = m[j * n + b]
            if c < inf:
                c = to + c - ((to | c) & 1)
                if c < m[a * n + b]:
                    m[a * n + b] = c
    return True


@compiled(TRUTH, "pnnnn")
def exactly(m, n, i, value, inf):  # type: ignore[no-untyped-def]
    """With xᵢ = value besides."""
    return constrain(m, n, i, 0, 2 * value + 1, inf) and constrain(m, n, 0, i, -2 * value + 1, inf)


@compiled(NOTHING, "pnn")
def reset(m, n, i):  # type: ignore[no-untyped-def]
    """xᵢ := 0."""
    for j in range(n):
        m[i * n + j] = m[j]
        m[j * n + i] = m[j * n]
    m[i * n + i] = ZERO


@compiled(NOTHING, "pnn")
def up(m, n, inf):  # type: ignore[no-untyped-def]
    """Any time passes, or none."""
    for i in range(1, n):
        m[i * n] = inf


@compiled(NOTHING, "pnn")
def up_strictly(m, n, inf):  # type: ignore[no-untyped-def]
    """Some time passes: every clock is above what it was at least."""
    for i in range(1, n):
        m[i * n] = inf
        m[i] &= -2


@compiled(NOTHING, "pnnpn")
def relax(m, n, spouts, gap, inf):  # type: ignore[no-untyped-def]
    """Forget what no guard can tell of the clocks of spouts, which are x₁ … : they are only asked whether they are
    above the gap.  So more on such a clock is as good as less: lower bounds go, and so do upper bounds above the gap,
    and all bounds of a clock that is above it (extrapolation by lower and upper constants, with no upper constant)."""
    for s in range(spouts):
        i = s + 1
        past = m[i] <= -2 * gap[s]  # −x < −gap at least
        for j in range(n):
            if j != i and (past or m[i * n + j] > 2 * gap[s] + 1):
                m[i * n + j] = inf
    for s in range(spouts):
        i = s + 1
        for j in range(n):
            if j != i:
                m[j * n + i] = inf
        m[i] = ZERO
    close(m, n, inf)


# What comes next under the `urgent` semantics, compiled: from a discrete state and its zone to those after one step.
#
# A **settled** state (phase 0) has nothing left to take or to end, and its zone has all the times until the next end.
# From there a spout emits, where nothing ends at this very moment (phase 1 until its tuple is put somewhere), or a
# worker ends.  All ends of a moment come first (phase 2 + the bolt of the last one, so that each order of them is not
# gone through again), then all takes, then time passes: no queue is longer in another order of the same ends and takes,
# and all orders leave the same behind.  Workers of a bolt are distinguished by the age of their tuples only, the oldest
# first: that is the symmetry between them.  `layout` has the state.


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

    Where a queue has no end (`cap`: so many or more), what is left of it is not known: one result for each.
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
    """How many choices a tuple of this source has: the listeners that are looked at, and all others as one."""
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
    """Tuples of a source (a spout, or a bolt after all spouts) go to its listeners."""
    low, high, choices = numbers(c[y.FIRST])[who], numbers(c[y.FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[y.ALL]:
        t[y.PENDING], t[y.SOURCE], t[y.FROM] = count, who, 0
        put(c, t, m, n, kind, a, -1, cost, False)
        return
    kept = numbers(c[y.ROW3])
    copy(t, kept, c[y.WIDTH])
    to_all = count == 0 or choices == 0 or c[y.ALL] != 0
    for choice in range(1 if to_all else choices):
        copy(kept, t, c[y.WIDTH])
        for i in range(low, high):
            if to_all or i == low + choice:
                more(c, t, numbers(c[y.HEARD])[i], count)
        arrived(c, t, m, n, kind, a, -1 if to_all else choice, cost)


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


# What comes next under the `literal` semantics, compiled: the transitions of the paper's appendix, one by one.
#
# Time passes in `time_elapse` only, by more than 0 and by as much as one likes; a tuple whose time is over by then is
# done.  So a busy worker is always before its end, and its clock goes when it is done.  The phase of a state has the
# flags:  *CanTimeElapse*, *DoTake*, *DoEmit*, and what *SetFlags* says is next.  The bolt in question is the one under
# analysis.


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
    """Tuples of a source go to its listeners: to all, or each to one."""
    low, high, choices = numbers(c[y.FIRST])[who], numbers(c[y.FIRST])[who + 1], listeners(c, who)
    if count > 1 and choices > 1 and not c[y.ALL]:
        t[y.PENDING], t[y.SOURCE], t[y.FROM] = count, who, 0
        stepped(c, t, z, n, kind, a, -1, cost)
        return
    kept = numbers(c[y.ROW3])
    copy(t, kept, c[y.WIDTH])
    to_all = count == 0 or c[y.ALL] != 0
    for choice in range(1 if to_all else choices):
        copy(kept, t, c[y.WIDTH])
        for i in range(low, high):
            if to_all or i == low + choice:
                more(c, t, numbers(c[y.HEARD])[i], count)
        stepped(c, t, z, n, kind, a, -1 if to_all else choice, cost)


@compiled(NOTHING, "pppn")
def placed_literally(c, s, m, n):  # type: ignore[no-untyped-def]
    """The rest of a `bolt_emit` of several tuples: the next of them, to all that can get it."""
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


# The search itself, compiled: waiting and passed zones, inclusion, nearest first.
#
# A node is a discrete state with a zone.  Nodes wait in lists by their cost (spout emits, or steps), the cheapest are
# left first.  A zone that is part of another one of the same discrete state is not kept; one that turns out to be part
# of a new one is *covered*: it is not looked at any more, and not left if it costs no less.  What is kept in the end is
# closed under steps, which is the certificate.

WORKING, DONE, FOUND, MORE_NODES, MORE_ZONES, MORE_SLOTS, MORE_RESULTS, MORE_COSTS = range(8)
FURTHER = 4096  # a step costs less than this


@compiled(POINTER, "pn")
def node_at(c, node):  # type: ignore[no-untyped-def]
    """The numbers of a node."""
    return numbers(c[y.NODES] + 8 * node * c[y.NODE])


@compiled(NUMBER, "ppn")
def slot_of(c, row, at):  # type: ignore[no-untyped-def]
    """Where the state that begins at ``at`` of a row is in the table, or would be."""
    table, mask, width = numbers(c[y.TABLE]), c[y.TABLE_SIZE] - 1, c[y.WIDTH]
    h = 0x1E3779B97F4A7C15
    for i in range(width):
        h = (h ^ row[at + i]) * 0x3F58476D1CE4E5B9
        h ^= (h >> 31) & 0x1FFFFFFFF
    slot = (h ^ ((h >> 29) & 0x7FFFFFFFF)) & mask
    while table[slot] >= 0:
        node, same = node_at(c, table[slot]), True
        for k in range(width):
            if node[y.NODE_HEAD + k] != row[at + k]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled(NOTHING, "pnn")
def wait(c, node, cost):  # type: ignore[no-untyped-def]
    """Put a node into the list of its cost."""
    lists = numbers(c[y.LISTS])
    node_at(c, node)[y.LINK] = -1
    if lists[2 * cost] < 0:
        lists[2 * cost] = node
    else:
        node_at(c, lists[2 * cost + 1])[y.LINK] = node
    lists[2 * cost + 1] = node
    c[y.WAITING] += 1
    if cost < c[y.LOWEST]:
        c[y.LOWEST] = cost


@compiled(NUMBER, "ppnn")
def add(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """A new node for a result."""
    number, n = c[y.NODE_COUNT], result[y.SIZE]
    node = node_at(c, number)
    c[y.NODE_COUNT] += 1
    node[y.PARENT], node[y.NODE_SIZE], node[y.NODE_COST], node[y.FLAG], node[y.NODE_ZONE] = (
        parent,
        n,
        cost,
        y.WAITS,
        c[y.ZONES_USED],
    )
    node[y.NODE_KIND], node[y.NODE_WHO], node[y.NODE_WHERE] = result[y.KIND], result[y.WHO], result[y.WHERE]
    node[y.NEXT] = -1
    for i in range(c[y.WIDTH]):
        node[y.NODE_HEAD + i] = result[y.RESULT_HEAD + i]
    zones = numbers(c[y.ZONES])
    for i in range(n * n):
        zones[c[y.ZONES_USED] + i] = result[y.RESULT_HEAD + c[y.WIDTH] + i]
    c[y.ZONES_USED] += n * n
    return number


@compiled(NOTHING, "ppnn")
def keep(c, result, parent, cost):  # type: ignore[no-untyped-def]
    """Keep a result, unless a zone that is known has it; those that it has are covered."""
    slot = slot_of(c, result, y.RESULT_HEAD)
    table, zones = numbers(c[y.TABLE]), numbers(c[y.ZONES])
    count, mine = result[y.SIZE] * result[y.SIZE], y.RESULT_HEAD + c[y.WIDTH]
    head = table[slot]
    number, before = head, -1
    while number >= 0:
        node = node_at(c, number)
        at, part, has = node[y.NODE_ZONE], True, True
        for i in range(count):
            a, b = result[mine + i], zones[at + i]
            if a > b:
                part = False
            elif b > a:
                has = False
            if not (part or has):
                break
        if part:
            return
        after = node[y.NEXT]
        if has and (node[y.FLAG] == y.LEFT or node[y.NODE_COST] >= cost):
            node[y.FLAG] = y.COVERED
            c[y.KEPT] -= 1
            if before < 0:
                head = after
            else:
                node_at(c, before)[y.NEXT] = after
        else:
            before = number
        number = after
    new = add(c, result, parent, cost)
    if table[slot] < 0:
        c[y.STATES] += 1
    node_at(c, new)[y.NEXT] = head
    table[slot] = new
    c[y.KEPT] += 1
    wait(c, new, cost)


@compiled(NOTHING, "pnn")
def absorb(c, parent, cost):  # type: ignore[no-untyped-def]
    """Keep the results of a step; of the bad ones the cheapest."""
    for k in range(c[y.COUNT]):
        result = numbers(c[y.RESULTS] + 8 * k * c[y.RESULT])
        total = cost + result[y.COST]
        if not result[y.BAD]:
            keep(c, result, parent, total)
        elif c[y.BEST] < 0 or total < c[y.BEST_COST]:
            c[y.BEST] = add(c, result, parent, total)
            c[y.BEST_COST] = total


@compiled(NUMBER, "p")
def lacks(c):  # type: ignore[no-untyped-def]
    """What there is not enough of for one more step."""
    most = c[y.RESULTS_SIZE]
    if c[y.NODE_COUNT] + most > c[y.NODES_SIZE]:
        return MORE_NODES
    if c[y.ZONES_USED] + most * c[y.ROWS] * c[y.ROWS] > c[y.ZONES_SIZE]:
        return MORE_ZONES
    if 2 * (c[y.STATES] + most) > c[y.TABLE_SIZE]:
        return MORE_SLOTS
    if c[y.LOWEST] + FURTHER > c[y.LISTS_SIZE]:
        return MORE_COSTS
    return WORKING


@together
def rehash(registers, old):  # type: ignore[no-untyped-def]
    """Fill a new table from an old one."""
    c = numbers(registers.ctypes.data)
    for i in range(old.shape[0]):
        if old[i] >= 0:
            numbers(c[y.TABLE])[slot_of(c, node_at(c, old[i]), y.NODE_HEAD)] = old[i]


@together
def search(registers, turns):  # type: ignore[no-untyped-def]
    """Leave so many nodes, the first time from the beginning; WORKING if there are more, else why it stops."""
    c = numbers(registers.ctypes.data)
    here, zone, lists = numbers(c[y.HERE]), numbers(c[y.HERE_ZONE]), numbers(c[y.LISTS])
    for _ in range(turns):
        lack = lacks(c)
        if lack != WORKING:
            return lack
        if c[y.NODE_COUNT] > 0:
            while c[y.WAITING] > 0 and lists[2 * c[y.LOWEST]] < 0:
                c[y.LOWEST] += 1
            if c[y.BEST] >= 0 and (c[y.BEST_COST] <= c[y.LOWEST] or c[y.WAITING] == 0):
                return FOUND
            if c[y.WAITING] == 0:
                return DONE
            if c[y.LOWEST] + FURTHER > c[y.LISTS_SIZE]:
                return MORE_COSTS
        cost, number = c[y.LOWEST], -1
        c[y.COUNT] = c[y.FULL] = 0
        if c[y.NODE_COUNT] == 0:
            if c[y.LITERAL]:
                begin_literally(c, here)
            else:
                begin(c, here)
        else:
            number = lists[2 * cost]
            node = node_at(c, number)
            if node[y.FLAG] == y.WAITS:
                n, stored = node[y.NODE_SIZE], node[y.NODE_ZONE]
                for i in range(c[y.WIDTH]):
                    here[i] = node[y.NODE_HEAD + i]
                for i in range(n * n):
                    zone[i] = numbers(c[y.ZONES])[stored + i]
                if c[y.LITERAL]:
                    literal(c, here, zone, n)
                else:
                    urgent(c, here, zone, n)
        if c[y.FULL]:
            return MORE_RESULTS
        if number >= 0:
            node = node_at(c, number)
            if node[y.FLAG] == y.WAITS:
                node[y.FLAG] = y.LEFT
                c[y.EXPANDED] += 1
            lists[2 * cost] = node[y.LINK]
            c[y.WAITING] -= 1
        absorb(c, number, cost)
    return WORKING
