"""The few operations that compiled kernels need beyond Python's own, for Numba.

Loaded only when a kernel is compiled or read from the cache.  Each is exact: the same result as CPython
for every 64-bit argument, or a flag (1: overflow, 2: Python raises).
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.compiler import Compiler
from numba.extending import intrinsic

from pellucid.internal.base.kept import kept_jit


class Straight(Compiler):  # type: ignore[misc]
    """Numba's compiler, without a pass that takes time for each variable that is set twice: LLVM does that, too."""

    def define_pipelines(self) -> Any:
        """As Numba says."""
        self.state.flags.enable_ssa = False
        return super().define_pipelines()


#: How kernels are compiled.
OPTIONS = {"error_model": "numpy", "nogil": True, "pipeline_class": Straight}
_function = njit(**OPTIONS)

_MIN = np.int64(-(2**63))
_INF = np.inf
_NAN = np.nan


def _with_overflow(name: str) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def op(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = context.cast(builder, args[0], signature.args[0], types.int64)
            y = context.cast(builder, args[1], signature.args[1], types.int64)
            pair = getattr(builder, name)(x, y)
            value, flag = builder.extract_value(pair, 0), builder.extract_value(pair, 1)
            return context.make_tuple(builder, signature.return_type, [value, flag])

        if isinstance(a, types.Integer) and isinstance(b, types.Integer):
            return types.Tuple((types.int64, types.boolean))(a, b), codegen
        return None

    return op


_add = _with_overflow("sadd_with_overflow")
_sub = _with_overflow("ssub_with_overflow")
_mul = _with_overflow("smul_with_overflow")


@intrinsic  # type: ignore[untyped-decorator]
def _rare(typingctx: Any, condition: Any) -> Any:
    """The condition itself, with word to the compiler that it hardly ever holds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bit = ir.IntType(1)
        kind = ir.FunctionType(bit, [bit, bit])
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], kind)
        return builder.call(expect, [args[0], ir.Constant(bit, 0)])

    return types.boolean(condition), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _ask(typingctx: Any, address: Any, table: Any, slot: Any) -> Any:
    """Call the host's function at this address (`engine.kernel.lookups`): the answer is not in a table yet."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _clock(typingctx: Any) -> Any:
    """Nanoseconds of a clock that only goes forward."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, number = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(number, [number, word.as_pointer()])
        clock = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        found = cgutils.alloca_once(builder, ir.ArrayType(word, 2))  # seconds, nanoseconds
        at = builder.bitcast(found, word.as_pointer())
        builder.call(clock, [ir.Constant(number, time.CLOCK_MONOTONIC), at])
        seconds = builder.load(at)
        rest = builder.load(builder.gep(at, [ir.Constant(number, 1)]))
        return builder.add(builder.mul(seconds, ir.Constant(word, 1_000_000_000)), rest)

    return types.int64(), codegen


@njit
def _shl(a, b):  # type: ignore[no-untyped-def]
    if b < 0:
        return np.int64(0), 2
    if a == 0:
        return np.int64(0), 0
    if b > 63:
        return np.int64(0), 1
    value = np.int64(a) << np.int64(b)
    if value >> np.int64(b) != a:
        return np.int64(0), 1
    return value, 0


@njit
def _to_int(x):  # type: ignore[no-untyped-def]
    if not (-9223372036854775808.0 <= x < 9223372036854775808.0):
        # NaN and the infinities raise in Python; the rest does not fit.
        return np.int64(0), 2 if (x != x or x == np.inf or x == -np.inf) else 1
    return np.int64(x), 0


@njit
def _trunc(x):  # type: ignore[no-untyped-def]
    return _to_int(np.trunc(x))


@njit
def _floor(x):  # type: ignore[no-untyped-def]
    return _to_int(np.floor(x))


@njit
def _ceil(x):  # type: ignore[no-untyped-def]
    return _to_int(np.ceil(x))


@njit
def _nearest(x):  # type: ignore[no-untyped-def]
    return _to_int(np.rint(x))


@njit
def _sqrt(x):  # type: ignore[no-untyped-def]
    return math.sqrt(x)


@njit
def _ffloordiv(a, b):  # type: ignore[no-untyped-def]
    """CPython's float ``//``, step by step."""
    mod = np.fmod(a, b)
    div = (a - mod) / b
    if mod != 0.0 and (b < 0.0) != (mod < 0.0):
        div -= 1.0
    if div != 0.0:
        floored = math.floor(div) if abs(div) < 4503599627370496.0 else div
        result = np.float64(floored)
        if div - result > 0.5:
            result += 1.0
        return result if result != 0.0 else math.copysign(0.0, a / b)
    return math.copysign(0.0, a / b)


@njit
def _fmod(a, b):  # type: ignore[no-untyped-def]
    """CPython's float ``%``."""
    mod = np.fmod(a, b)
    if mod != 0.0:
        if (b < 0.0) != (mod < 0.0):
            mod += b
        return mod
    return math.copysign(0.0, b)


@njit
def _idiv(a, b):  # type: ignore[no-untyped-def]
    """``a / b`` of two 64-bit integers, correctly rounded like CPython's."""
    limit = 9007199254740992  # 2**53: up to here both convert exactly
    if -limit <= a <= limit and -limit <= b <= limit:
        return np.float64(a) / np.float64(b)
    negative = (a < 0) != (b < 0)
    ua = np.uint64(a) if a >= 0 else np.uint64(0) - np.uint64(a)
    ub = np.uint64(b) if b >= 0 else np.uint64(0) - np.uint64(b)
    if ua == np.uint64(0):
        return -0.0 if negative else 0.0
    one = np.uint64(1)
    q = ua // ub
    r = ua - q * ub
    shift = 0
    # Long division until 55 bits are there: 53 to keep, one to round, the last one sticky.
    while q < (one << np.uint64(55)):
        q <<= one
        carry = r >> np.uint64(63)
        r <<= one
        if carry != np.uint64(0) or r >= ub:
            r -= ub
            q |= one
        shift += 1
    if r != np.uint64(0):
        q |= one
    value = math.ldexp(np.float64(q), -shift)
    return -value if negative else value


@njit
def _digits(x, scale, whole):  # type: ignore[no-untyped-def]
    """``round(x, n)``, where ``scale`` and ``whole`` are 10**n: the decimal nearest to x, a half to the even one, and
    the double nearest to that."""
    high = x * scale
    if not abs(high) < 18014398509481984.0:  # 2**54: decimals are closer to each other than doubles; nan, inf
        return x
    # x * scale is high + low, exactly: the product in parts of 26 bits (Dekker)
    big = 134217729.0 * x
    x1 = big - (big - x)
    x2 = x - x1
    big = 134217729.0 * scale
    s1 = big - (big - scale)
    s2 = scale - s1
    low = x2 * s2 - (((high - x1 * s1) - x2 * s1) - x1 * s2)
    if abs(high) < 4503599627370496.0:  # 2**52: here doubles have halves
        near = np.rint(high)
        rest = high - near
        if rest == 0.5 and low > 0.0:
            near += 1.0
        elif rest == -0.5 and low < 0.0:
            near -= 1.0
        return math.copysign(near / scale, x)
    count = np.int64(high)
    if low == 0.5 or low == -0.5:
        if count % 2 != 0:
            count += 1 if low > 0.0 else -1
    else:
        count += np.int64(np.rint(low))
    return math.copysign(_idiv(count, whole), x)


@njit
def _cmp_if(i, f):  # type: ignore[no-untyped-def]
    """-1, 0, 1 as the int is below, at or above the float (not NaN), exactly."""
    if f >= 9223372036854775808.0:
        return -1
    if f < -9223372036854775808.0:
        return 1
    whole = np.int64(f)  # towards zero
    if i < whole:
        return -1
    if i > whole:
        return 1
    rest = f - np.float64(whole)
    return -1 if rest > 0.0 else (1 if rest < 0.0 else 0)


@njit
def _eq_if(i, f):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) == 0


@njit
def _lt_if(i, f):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) < 0


@njit
def _le_if(i, f):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) <= 0


@njit
def _eq_fi(f, i):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) == 0


@njit
def _lt_fi(f, i):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) > 0


@njit
def _le_fi(f, i):  # type: ignore[no-untyped-def]
    return f == f and _cmp_if(i, f) >= 0


@kept_jit()
def rehash(table, keys, size, first, rows):  # type: ignore[no-untyped-def]
    """Fill an empty hash table with the keys of the rows from ``first`` on; the mixing is that of the kernels' own
    ``find``."""
    mask = np.uint64(table.size - 1)
    for s in range(first, rows):
        h = np.uint64(0)
        for j in range(size):
            h = (h ^ np.uint64(keys[s * size + j])) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
        h &= mask
        while table[h] != 0:
            h = (h + np.uint64(1)) & mask
        table[h] = s + 1


@kept_jit()
def moved(states, values, keys, size, new_states, new_values, new_keys):  # type: ignore[no-untyped-def]
    """Put the answers of a table into a larger one, where the kernels' own ``look`` finds them."""
    mask = np.uint64(new_states.size - 1)
    for s in range(states.size):
        if states[s] == 0:
            continue
        h = np.uint64(0)
        for j in range(size):
            h = (h ^ np.uint64(keys[s * size + j])) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
        h &= mask
        while new_states[h] != 0:
            h = (h + np.uint64(1)) & mask
        new_states[h] = states[s]
        new_values[h] = values[s]
        for j in range(size):
            new_keys[np.int64(h) * size + j] = keys[s * size + j]


@kept_jit(nogil=True)
def mix_in(mixed, column):  # type: ignore[no-untyped-def]
    """Mix one more part of each key into a number for the key."""
    for i in range(mixed.size):
        h = (mixed[i] ^ np.uint64(column[i])) * np.uint64(0x9E3779B97F4A7C15)
        mixed[i] = h ^ (h >> np.uint64(29))


@kept_jit(nogil=True)
def sorted_rows(places, ends):  # type: ignore[no-untyped-def]
    """The rows by their places, those of one place in their order (a counting sort); ``ends``, a zero for each place,
    then says where the rows of each end."""
    for i in range(places.size):
        ends[places[i]] += 1
    start = 0
    for p in range(ends.size):
        start, ends[p] = start + ends[p], start
    rows = np.empty(places.size, np.int64)
    for i in range(places.size):
        p = places[i]
        rows[ends[p]] = i
        ends[p] += 1
    return rows
