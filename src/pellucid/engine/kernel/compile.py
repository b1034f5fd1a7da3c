"""From a kernel's text to something that can be called.

Compiled kernels are kept on disk, so that a second start does not compile again: the text goes to a file
named by its digest in the cache folder, and Numba keeps the machine code beside it.  The folder is
``$PELLUCID_CACHE``, or ``pellucid`` in the user's cache folder; it can be deleted at any time.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import linecache
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pellucid.base.cache import own_cache
from pellucid.base.files import write_lasting
from pellucid.engine.kernel.emit import Kernel
from pellucid.engine.kernel.layout import Opened, is_float, leaf_types
from pellucid.errors import StepError
from pellucid.expr.codegen import PLAIN
from pellucid.expr.types import BOOL, Type

_FORMAT = 1  # raise it when the meaning of the primitives changes


# ---------------------------------------------------------------- plain


def _fresh(template: list[object]) -> list[object]:
    """A row as it starts; states that are any Python object are copied, so that no two keys share one."""
    return [v if isinstance(v, (int, float)) else copy.deepcopy(v) for v in template]


_PLAIN = {"_fresh": _fresh, "_clock": time.perf_counter_ns, "_StepError": StepError, **PLAIN}


def compile_plain(kernel: Kernel) -> Callable[..., None]:
    """The kernel for CPython."""
    name = f"<pellucid kernel {hashlib.sha256(kernel.source.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(kernel.source), None, kernel.source.splitlines(True), name)
    space = dict(_PLAIN)
    exec(compile(kernel.source, name, "exec"), space)
    return space["kernel"]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- numba

_HEAD = """# A kernel of Pellucid, written by it; delete this folder at any time.
import numpy as np
from numba import njit
from pellucid.engine.kernel.prims import (
    _MIN, _INF, _NAN, _rare, _ask, _add, _sub, _mul, _shl, _trunc, _floor, _ceil, _nearest, _digits, _sqrt,
    _ffloordiv, _fmod, _idiv,
    _eq_if, _lt_if, _le_if, _eq_fi, _lt_fi, _le_fi,
)

"""


def _text(kernel: Kernel) -> str:
    head, tail = kernel.source.split("def kernel(", 1)
    decorator = f"@njit({_signature(kernel)!r}, cache=True, error_model='numpy', nogil=True)\n"
    clock = "from pellucid.engine.kernel.prims import _clock\n" if kernel.timed else ""
    return clock + _HEAD + head + decorator + "def kernel(" + tail


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


@lru_cache(maxsize=1)
def _versions() -> str:
    from importlib.metadata import version

    return f"{_FORMAT}|{sys.version_info[:2]}|{version('numba')}|{version('numpy')}"


def _digest(text: str) -> str:
    return hashlib.sha256((_versions() + text).encode()).hexdigest()[:24]


_loaded: dict[str, Callable[..., None]] = {}


def compile_numba(kernel: Kernel) -> Callable[..., None]:
    """The kernel as machine code: from memory, from the cache on disk, or compiled now."""
    text = _text(kernel)
    name = _digest(text)
    if name not in _loaded:
        try:
            path = own_cache() / f"k_{name}.py"  # what lies there is run: nobody else may write in it
            _write_once(path, text)
            try:
                _loaded[name] = _import(path)
            except Exception:  # what lies in the cache is damaged: throw it away, and compile again
                for part in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                    part.unlink(missing_ok=True)
                _loaded[name] = _import(path)
        except OSError:  # no place to keep it: compile for this process alone
            _loaded[name] = _in_memory(name, text)
    return _loaded[name]


def _write_once(path: Path, text: str) -> None:
    """Numba trusts the file's time, so a file that is there is never touched again."""
    if not path.exists() or path.stat().st_size != len(text.encode()):
        write_lasting(path, [text.encode()], lasting=False)


def _import(path: Path) -> Callable[..., None]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Numba looks the module up when it reads its cache
    spec.loader.exec_module(module)
    return module.kernel  # type: ignore[no-any-return]


def _in_memory(name: str, text: str) -> Callable[..., None]:
    label = f"<pellucid kernel {name}>"
    linecache.cache[label] = (len(text), None, text.splitlines(True), label)
    space: dict[str, Any] = {}
    exec(compile(text.replace("cache=True, ", ""), label, "exec"), space)
    return space["kernel"]  # type: ignore[no-any-return]
