"""How soon an integer can leave 64 bits: never, after very many pushes, or in a run that is found by making it.

* `pushes_before` bounds the size of every integer from the expressions alone.  Where those that grow do so by steps (a
  count, a sum of small numbers), it takes at least so many pushes; what is doubled or squared has no such bound.
* `long_run` makes runs: the same push again and again, and the push that makes the numbers largest.  What doubles
  leaves 64 bits after 63 of them, which no search for a shortest run looks at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.check.belief.pushes import DrawnPushes
from pellucid.check.belief.straight import straight
from pellucid.check.system.build import System
from pellucid.errors import DataError, IntOverflow, StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import INT, INT_MAX
from pellucid.internal.graph.model import Graph

_Size = tuple[float, float]  # (a, c): an integer is at most a * R + c, where R is the largest of those that grow
_ANY: _Size = (math.inf, math.inf)
_LONG = 400  # pushes of one run
_KINDS = 12  # of pushes


def pushes_before(system: System, wide: Expr) -> float | None:
    """How many pushes it takes at least until an integer leaves 64 bits; infinity where none ever does, None where that
    is not known.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> def far(f, ints):
    ...     s = build_system(pipeline(f, x=int).graph, domain_of(ints), strict=True)
    ...     return pushes_before(s, s.wide)
    >>> far(lambda x: x.trim(1) * x, range(100)), far(lambda x: x * x, None)
    (inf, None)
    >>> far(lambda x: x.cumulate(lambda t, v: t + v, start=0), range(9)) > 10**17
    True
    >>> far(lambda x: x.cumulate(lambda t, v: t + t + v, start=0), range(9)) is None
    True
    """
    given = 2**63 if system.domain.values is None else max(map(abs, system.domain.span or (0,)))
    own = [i for i, v in enumerate(system.state) if v.type == INT]
    fixed: dict[int, float] = {
        i: float((system.state[i].size or 1) - 1) for i in own if system.state[i].size is not None
    }
    free = [i for i in own if i not in fixed]
    bound = {i: float(abs(system.state[i].start)) for i in free}
    for _ in range(len(free) + 2):  # what is only handed on is as large as what comes in
        found = _sizes(system, [system.next[i] for i in free], fixed | bound, given, {})
        bound = {i: max(bound[i], c) for i, (_, c) in zip(free, found, strict=True)}
    growing: set[int] = set()
    while True:
        kept = fixed | {i: c for i, c in bound.items() if i not in growing}
        sizes = dict(
            zip(
                free,
                _sizes(system, [system.next[i] for i in free], kept, given, dict.fromkeys(growing, (1.0, 0.0))),
                strict=True,
            )
        )
        more = {i for i in free if i not in growing and (sizes[i][0] > 0 or sizes[i][1] > bound[i])}
        if not more:
            break
        growing |= more
    if any(sizes[i][0] > 1 for i in growing):
        return None
    step = max((sizes[i][1] for i in growing), default=0.0)
    start = max((float(abs(system.state[i].start)) for i in growing), default=0.0)
    far = math.inf
    watched = [e.args[0] for e in walk(wide) if e.op == "overflows"]
    if any(e.type != INT for e in watched) or not watched:
        return None
    for a, c in _sizes(system, watched, kept, given, dict.fromkeys(growing, (1.0, 0.0))):
        if a == 0:
            far = far if c < INT_MAX / 2 else 0.0
        else:
            far = min(far, ((INT_MAX / 2 - c) / a - start) / max(step, 1.0))
    return far if far > 0 else None


def _sizes(
    system: System, roots: Sequence[Expr], kept: Mapping[int, float], given: float, growing: Mapping[int, _Size]
) -> list[_Size]:
    """How large these integers can be."""
    made: dict[int, _Size] = {}
    states = len(system.state)
    for e in walk(*roots):
        if e.type != INT:
            continue
        if e.op == "var":
            variable = (*system.state, *system.inputs)[e.value]
            here = float(variable.size - 1) if variable.size is not None else given
            made[id(e)] = growing.get(e.value) or (0.0, kept[e.value] if e.value < states else here)
        elif e.op == "const":
            made[id(e)] = (0.0, float(abs(e.value)))
        else:
            made[id(e)] = _size(e, [made[id(a)] for a in e.args if a.type == INT])
    return [made[id(e)] for e in roots]


def _size(e: Expr, args: list[_Size]) -> _Size:
    if e.op in ("int_of_bool", "raise"):
        return (0.0, 1.0)
    if math.isinf(sum(a + c for a, c in args)):
        return _ANY
    if e.op in ("neg", "abs", "after", "shr"):
        return args[-1] if e.op == "after" else args[0]
    if e.op == "invert":
        return (args[0][0], args[0][1] + 1)
    if e.op == "floordiv":
        return args[0]
    if e.op == "mod":
        return args[1]
    if e.op == "ite":
        return (max(a for a, _ in args), max(c for _, c in args))
    if e.op in ("add", "sub"):
        return (sum(a for a, _ in args), sum(c for _, c in args))
    if e.op in ("band", "bor", "bxor"):  # at most twice as large as the larger of the two
        return (2 * max(a for a, _ in args), 2 * max(c for _, c in args) + 1)
    if e.op == "mul" and not (args[0][0] and args[1][0]):
        (a, c), (b, d) = args
        return (a * d + b * c, c * d)
    if e.op == "shl" and e.args[1].op == "const" and 0 <= e.args[1].value < 64:
        return (args[0][0] * 2.0 ** e.args[1].value, args[0][1] * 2.0 ** e.args[1].value)
    return _ANY


def long_run(system: System, wide: Expr, graph: Graph) -> list[dict[str, Any]] | None:
    """Pushes after which the interpreter stops with an overflow, of the runs that were made; None: none of them did.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> doubles = pipeline(lambda x: x.cumulate(lambda t, v: t + t + v, start=0), x=int).graph
    >>> s = build_system(doubles, domain_of({2}), strict=True)
    >>> len(long_run(s, s.wide, doubles))
    63
    """
    drawn = DrawnPushes(system, [wide])
    drawn.begin()
    kinds: dict[str, tuple[dict[str, Any], list[Any]]] = {}
    for _ in range(20 * _KINDS):
        push, leaves = drawn.draw()
        if push and not any(name.startswith("lost.") for name in push):
            kinds.setdefault(repr(leaves), (push, leaves))
        if len(kinds) == _KINDS:
            break
    compute = straight([*system.next, wide, system.assume])
    large = [i for i, v in enumerate(system.state) if v.type == INT and v.size is None]
    chosen = list(kinds.values())
    for some in ([kind] for kind in chosen) if len(chosen) > 1 else ():
        found = _made(system, compute, large, some, graph)
        if found is not None:
            return found
    return _made(system, compute, large, chosen, graph)


def _made(
    system: System, compute: Any, large: list[int], kinds: Sequence[tuple[dict[str, Any], list[Any]]], graph: Graph
) -> list[dict[str, Any]] | None:
    """A run that takes each time the push after which the numbers are largest."""
    state: list[Any] = [v.start for v in system.state]
    pushes: list[dict[str, Any]] = []
    for _ in range(_LONG):
        best, most, wide = None, -1, False
        for push, leaves in kinds:
            try:
                *after, leaves_64_bits, assumed = compute([*state, *leaves])
            except Overflow64:
                continue
            size = sum(abs(after[i]) for i in large)
            if assumed and (size > most or leaves_64_bits):
                best, most, wide = (push, after), size, bool(leaves_64_bits)
                if wide:
                    break
        if best is None or (len(kinds) == 1 and best[1] == state):
            return None
        pushes.append(best[0])
        if wide:
            return pushes if _overflows(graph, pushes) else None
        state = best[1]
    return None


def _overflows(graph: Graph, pushes: Sequence[dict[str, Any]]) -> bool:
    """Whether the interpreter says so."""
    run = Interpreter(graph)
    try:
        for push in pushes:
            run.push(push)
    except IntOverflow:
        return True
    except (StepError, DataError):
        return False
    return False
