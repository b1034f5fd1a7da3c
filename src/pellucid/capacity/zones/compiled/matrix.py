"""Difference bound matrices over whole numbers, with strict and weak bounds, compiled.

A zone of n − 1 clocks is an n × n matrix, row by row in one array: entry (i, j) bounds xᵢ − xⱼ, and x₀ is 0.  A bound
is one number: ``2·c`` for *< c*, ``2·c + 1`` for *≤ c*, so that a smaller number is a tighter bound and the sum of two
is one addition.  All operations but `up` keep a matrix closed (every entry as tight as the others imply), which makes
inclusion a comparison entry by entry.
"""

from __future__ import annotations

from pellucid.capacity.zones.compiled.jit import NOTHING, NUMBER, TRUTH, compiled

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
