"""One function, four ways to run it: as the user wrote it, its trace, and the code written for it in two dialects.

An outcome is ``("value", text)``, ``("overflow",)`` or ``("raise",)``; the text is a ``repr``, so that ``-0.0`` and NaN
count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from pellucid import pipeline
from pellucid.internal.engine.kernel.compile import _HEAD, _PLAIN
from pellucid.internal.engine.kernel.emit.pen import lookers
from pellucid.internal.engine.kernel.layout import KernelLayout
from pellucid.internal.engine.kernel.lookups import Lookups
from pellucid.internal.engine.state import TextTable
from pellucid.internal.expr.codegen import OVERFLOW, RAISED, CodeWriter
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call, wrap
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, conform

SITE = 7
Outcome = tuple[str, ...]


def values(t: Type) -> st.SearchStrategy[Any]:
    """Events of a type, with the awkward ones often."""
    if t == INT:
        edges = [
            0,
            1,
            -1,
            2,
            -2,
            3,
            7,
            -7,
            10,
            100,
            200,
            987654,
            2**31,
            -(2**31),
            2**53 + 1,
            INT_MAX,
            INT_MAX - 1,
            INT_MIN,
            INT_MIN + 1,
        ]
        return st.one_of(st.sampled_from(edges), st.integers(-20, 20), st.integers(INT_MIN, INT_MAX))
    if t == FLOAT:
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.5,
            1e16,
            2.0**53,
            2.0**63,
            -(2.0**63),
            1e300,
            5e-324,
            math.inf,
            -math.inf,
            math.nan,
        ]
        return st.one_of(st.sampled_from(edges), st.floats(-10, 10), st.floats())
    if t == BOOL:
        return st.booleans()
    if t == STR:
        return st.sampled_from(["", "a", "buy", "sell", "é", "x y"])
    if isinstance(t, EnumType):
        return st.sampled_from(t.members)
    return st.tuples(*(values(kind) for _, kind in t.leaves())).map(t.unflatten)


def arguments(params: Sequence[Type]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(values, params))


def plain(f: Callable[..., Any], traced: Traced, args: Sequence[Any]) -> Outcome:
    try:
        value = f(*[wrap(t, a) for t, a in zip(traced.params, args, strict=True)])
        if traced.count is None:
            return ("value", repr(conform(traced.result, value)))
        events = [conform(traced.event, e) for e in value[1]] if traced.event else []
        return ("value", repr((conform(traced.result, value[0]), events)))
    except Overflow64:
        return ("overflow",)
    except ValueError as error:
        return ("overflow",) if "64 bits" in str(error) else ("raise",)
    except Exception:
        return ("raise",)


def evaluated(traced: Traced, args: Sequence[Any]) -> Outcome:
    try:
        return ("value", repr(evaluate_call(traced, args)))
    except Overflow64:
        return ("overflow",)
    except (UserRaise, Exception):
        return ("raise",)


class Compiled:
    """The statements that ``Writer`` writes for a trace, as a function."""

    def __init__(self, traced: Traced, numba: bool) -> None:
        self.traced = traced
        w = CodeWriter(numba)
        w.depth = 2
        kinds = [kind for t in traced.params for _, kind in t.leaves()]
        names = [f"a{i}" for i in range(len(kinds))]
        roots = traced.roots()
        results = w.function(roots, names, kinds, SITE)
        zeros = {FLOAT: "0.0", BOOL: "False"}
        lookups = list(w.lookups.items())
        self.lookups = Lookups(lookups, numba)
        self.more = ["LA", "LF", "LP"] if numba and lookups else []
        for at in range(len(lookups)):
            self.more += [f"LS{at}", f"LV{at}", f"LK{at}"] if numba else [f"L{at}"]
        lines = [f"def f({', '.join([*names, 'ei', 'ef', *self.more])}):", "    code = 0; site = 0"]
        lines += [f"    r{i} = {zeros.get(e.type, '0')}" for i, e in enumerate(roots)]
        lines += ["    while True:", *w.lines]
        lines += [f"        r{i} = {text}" for i, text in enumerate(results)]
        lines += ["        break", f"    return code, site, {', '.join(f'r{i}' for i in range(len(roots)))}"]
        self.text = "\n".join(lines)
        self.strings, self.kinds, self.roots, self.numba = dict(w.strings), kinds, roots, numba
        space: dict[str, Any] = dict(_PLAIN)
        if numba:
            looking = lookers(KernelLayout(pipeline(lambda x: x, x=int).graph, None, lookups=lookups), True)
            text = "\n".join([_HEAD, looking, *w.functions, "@njit(error_model='numpy')", self.text])
            space = {"__name__": "kernel_text"}
            exec(compile(text, "<kernel>", "exec"), space)
        else:
            exec(self.text, space)
        self.call = space["f"]

    def __call__(self, args: Sequence[Any]) -> Outcome:
        import numpy as np

        leaves = [leaf for t, a in zip(self.traced.params, args, strict=True) for leaf in t.flatten(a)]
        table = TextTable(self.strings)
        codes: list[Any] = []
        for kind, leaf in zip(self.kinds, leaves, strict=True):
            if isinstance(kind, EnumType):
                codes.append(kind.members.index(leaf))
            else:
                codes.append(table.setdefault(leaf, len(table)) if kind == STR else leaf)
        size = len(codes)
        ei, ef = (np.zeros(size, "int64"), np.zeros(size)) if self.numba else ([None] * size, [None] * size)
        self.lookups.of(table)
        known = self.lookups.arguments()
        code, site, *results = self.call(*codes, ei, ef, *[known[name] for name in self.more])
        self.lookups.check()
        if code:
            assert site == SITE and code in (OVERFLOW, RAISED)
            if not self.numba:  # the arguments are kept for the message
                assert all((ef if k == FLOAT else ei)[i] is codes[i] for i, k in enumerate(self.kinds))
            return ("overflow",) if code == OVERFLOW else ("raise",)
        words = {i: text for text, i in table.items()}
        decoded: list[Any] = []
        for e, r in zip(self.roots, results, strict=True):
            if isinstance(e.type, EnumType):
                decoded.append(e.type.members[r])
            elif e.type == STR:
                decoded.append(words[int(r)])
            else:
                decoded.append({BOOL: bool, INT: int, FLOAT: float}[e.type](r))
        return ("value", repr(self._result(decoded)))

    def _result(self, leaves: list[Any]) -> Any:
        t = self.traced
        width = len(t.outputs)
        result = t.result.unflatten(leaves[:width])
        if t.count is None:
            return result
        count, rest = leaves[width], leaves[width + 1 :]
        size = t.event.width if t.event else 0
        return result, [t.event.unflatten(rest[i * size : (i + 1) * size]) for i in range(count) if t.event]


def agree(one: Outcome, other: Outcome, *, strict: bool) -> bool:
    """Equal; where two things fail at once, the trace may come to the other one first."""
    return one == other or (not strict and one[0] != "value" and other[0] != "value")
