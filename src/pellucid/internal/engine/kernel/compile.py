"""From a kernel's text to something that can be called.

Compiled kernels are kept on disk (`base.kept`), so that a second start does not compile again.
"""

from __future__ import annotations

import copy
import hashlib
import linecache
import sys
import time
from collections.abc import Callable
from types import ModuleType

from pellucid.errors import StepError
from pellucid.internal.engine.kernel.emit import Kernel
from pellucid.internal.engine.kernel.layout import Opened, is_float, leaf_types
from pellucid.internal.expr.codegen import PLAIN
from pellucid.internal.expr.types import BOOL, Type

# ---------------------------------------------------------------- plain


def _fresh(template: list[object]) -> list[object]:
    """A row as it starts; states that are any Python object are copied, so that no two keys share one."""
    return [v if isinstance(v, (int, float)) else copy.deepcopy(v) for v in template]


_PLAIN = {"_fresh": _fresh, "_clock": time.perf_counter_ns, "_StepError": StepError, **PLAIN}


def compile_plain(kernel: Kernel) -> Callable[..., None]:
    """The kernel for CPython."""
    space = dict(_PLAIN)
    _run(kernel.source, space)
    return space["kernel"]  # type: ignore[no-any-return]


def _run(text: str, space: dict[str, object]) -> None:
    """Run the text of a kernel, which is in no file: tracebacks find its lines all the same."""
    label = f"<pellucid kernel {_digest(text)}>"
    linecache.cache[label] = (len(text), None, text.splitlines(True), label)
    exec(compile(text, label, "exec"), space)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


# ---------------------------------------------------------------- numba

_HEAD = """import numpy as np
from numba import njit
from pellucid.internal.engine.kernel.prims import (
    _MIN, _INF, _NAN, _function, _rare, _ask, _add, _sub, _mul, _shl, _trunc, _floor, _ceil, _nearest, _digits, _sqrt,
    _ffloordiv, _fmod, _idiv,
    _eq_if, _lt_if, _le_if, _eq_fi, _lt_fi, _le_fi,
)

"""


def _text(kernel: Kernel) -> str:
    clock = "from pellucid.internal.engine.kernel.prims import _clock\n" if kernel.timed else ""
    return clock + _HEAD + kernel.source


def _signature(kernel: Kernel) -> str:
    """The types of the arguments, so that the kernel is compiled once, for any caller."""
    g, layout = kernel.layout.graph, kernel.layout
    known: dict[str, str] = {"n": "int64", "i": "int64", "M": "int64[::1]", "ei": "int64[::1]", "ef": "float64[::1]"}

    def array(t: Type, writable: bool) -> str:
        kind = "float64" if is_float(t) else "boolean" if t == BOOL else "int64"
        return f"{kind}[::1]" if writable else f"Array({kind}, 1, 'C', readonly=True)"

    for s, at in enumerate(g.sources):
        for j, t in enumerate(leaf_types(g.nodes[at].type)):
            known[f"in{s}_{j}"] = array(t, False)
        known[f"mask{s}"] = array(BOOL, False)
        for j, t in enumerate(leaf_types(layout.external) if layout.external else ()):
            known[f"key{s}_{j}"] = array(t, False)
    for r in range(len(layout.regions)):
        for name in ("SI", "TI", "K", "H"):
            known[f"{name}{r}"] = "int64[::1]"
        known[f"SF{r}"] = "float64[::1]"
        known[f"D{r}"] = "int64"
    for o, (_, at) in enumerate(g.outputs):
        for j, t in enumerate(leaf_types(g.nodes[at].type)):
            known[f"O{o}_{j}"] = array(t, True)
        known[f"P{o}"] = known[f"G{o}"] = "int64[::1]"
    for q, queue in enumerate(layout.queues):
        known[f"Q{q}n"] = "int64[::1]"
        for j, t in enumerate(queue.leaves):
            known[f"Q{q}_{j}"] = "float64[::1]" if is_float(t) else "int64[::1]"
    known |= {"T": "int64[::1]", "C": "int64[::1]"}
    known |= {"UA": "int64[::1]", "UX": "int64[::1]", "UI": "int64[::1]", "UF": "float64[::1]"}
    known |= {"LA": "int64[::1]", "LF": "float64[::1]", "LP": "int64", "LR": "int64[::1]"}
    for at, (f, _) in enumerate(layout.lookups):
        known[f"LS{at}"], known[f"LK{at}"] = "int8[::1]", "int64[::1]"
        known[f"LV{at}"] = "float64[::1]" if is_float(f.result) else "int64[::1]"
        known[f"LN{at}"] = "int64[::1]"
        for j, t in enumerate(f.list.kinds if isinstance(f, Opened) else ()):
            known[f"LX{at}_{j}"] = "float64[::1]" if is_float(t) else "int64[::1]"
    return "void(" + ", ".join(known[name] for name in kernel.params) + ")"


_loaded: dict[tuple[str, str], Callable[..., None]] = {}


def compile_numba(kernel: Kernel) -> Callable[..., None]:
    """The kernel as machine code: from memory, from the cache on disk, or compiled now."""
    text, signature = _text(kernel), _signature(kernel)
    if (text, signature) not in _loaded:
        from pellucid.internal.base.kept import kept_jit
        from pellucid.internal.engine.kernel.prims import OPTIONS

        module = ModuleType(f"pellucid_kernel_{_digest(text + signature)}")
        module.__package__ = __package__  # what it is made of besides its text
        sys.modules[module.__name__] = module  # Numba looks it up when machine code is read
        _run(text, module.__dict__)
        made = kept_jit(text, **OPTIONS)(module.kernel)
        made.compile(signature)
        made.disable_compile()
        _loaded[text, signature] = made
    return _loaded[text, signature]
