"""How a compiled kernel finds an answer that only Python can give (see `engine.kernel.lookups`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pellucid.internal.engine.kernel.layout import KernelLayout, Opened, is_float
from pellucid.internal.expr.codegen import CodeWriter, look_name
from pellucid.internal.expr.text import Pure
from pellucid.internal.expr.types import BOOL, STR, Type


def by_code(kinds: tuple[Type, ...]) -> bool:
    """Whether the answers to these arguments stand in a list by the code of the one text, with no search."""
    return kinds == (STR,)


@contextmanager
def write_elements(w: CodeWriter, opened: Opened, code: str) -> Iterator[list[str]]:
    """A loop over the elements of the list that has this code: yields the leaves of one."""
    at = w.lookup(opened, (STR,))
    kinds = opened.list.kinds
    if not w.numba:
        row = w.fresh("r")
        with w.loop(f"for {row} in L{at}[{code}]:"):
            yield [f"{row}[{j}]" for j in range(len(kinds))]
        return
    begin, flag, place = w.fresh("b"), w.fresh("f"), w.fresh("e")
    w.line(f"{begin}, {flag} = look_code_i({at}, LA, LF, LP, LS{at}, LV{at}, LK{at}, {code})")
    with w.loop(f"for {place} in range({begin} + 1, {begin} + 1 + LN{at}[{begin}]):"):
        yield [f"LX{at}_{j}[{place}]" + (" != 0" if t == BOOL else "") for j, t in enumerate(kinds)]


def lookers(layout: KernelLayout, numba: bool) -> str:
    """For the functions that Python answers: how a compiled kernel finds an answer, and asks where there is none.

    They give the answer and how it went: 1, 2 where it raises, 3 where an int leaves 64 bits.
    """
    shapes = {look_name(f.result, kinds): (f, kinds) for f, kinds in layout.lookups} if numba else {}
    return "\n".join(_looker(name, f, kinds) for name, (f, kinds) in shapes.items())


def _looker(name: str, f: Pure, kinds: tuple[Type, ...]) -> str:
    names = [f"a{j}" for j in range(len(kinds))]
    given = "".join(f"    {'LF' if is_float(t) else 'LA'}[{j}] = a{j}\n" for j, t in enumerate(kinds))
    head = f"@njit\ndef {name}(at, LA, LF, LP, S, V, K, {', '.join(names)}):\n"
    answer = f"    return {'LF' if is_float(f.result) else 'LA'}[7], LA[6]\n"
    if by_code(kinds):
        return (
            f"{head}    if a0 < S.size:\n        s = S[a0]\n        if s != 0: return V[a0], s\n"
            f"{given}    _ask(LP, at, a0)\n{answer}"
        )
    size = len(kinds)
    words = [f"np.float64(a{j}).view(np.int64)" if is_float(t) else f"np.int64(a{j})" for j, t in enumerate(kinds)]
    own = "".join(f"    w{j} = {word}\n" for j, word in enumerate(words))
    mix = "".join(
        f"    h = (h ^ np.uint64(w{j})) * np.uint64(0x9E3779B97F4A7C15)\n    h ^= h >> np.uint64(29)\n"
        for j in range(size)
    )
    same = " and ".join(f"K[s * {size} + {j}] == w{j}" for j in range(size))
    return (
        f"{head}{own}    h = np.uint64(0)\n{mix}    mask = np.uint64(S.size - 1)\n    h &= mask\n"
        "    while True:\n        s = np.int64(h)\n        if S[s] == 0: break\n"
        f"        if {same}: return V[s], S[s]\n        h = (h + np.uint64(1)) & mask\n"
        f"{given}    _ask(LP, at, np.int64(h))\n{answer}"
    )
