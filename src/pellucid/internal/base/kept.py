"""Numba's compiled functions, kept in the cache under a seal.  Loaded only where something is compiled.

Numba's own cache (``cache=True``) runs whatever lies in its files, and looks only at the one file that a function is in
to see whether it has changed.  Here machine code is read by `base.cache`, under a name that has all it depends
on: the text of the function with that of all modules of its folder, of which it may be made; the types; the versions;
the processor.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import platform
import sys
from collections.abc import Callable
from importlib import resources
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from pellucid.internal.base import files as cache


def kept_jit(text: str = "", **options: Any) -> Callable[[Any], Any]:
    """Like ``numba.njit``, with what it compiles kept for the next start; ``text`` is that of a function in no file.

    >>> @kept_jit("def twice(n): return n + n", nogil=True)
    ... def twice(n):
    ...     return n + n
    >>> twice(21)
    42
    """

    def decorate(function: Any) -> Any:
        made = numba.njit(**options)(function)
        of = sources(function.__globals__["__package__"])
        if of is not None:
            made._cache = _Kept(function, f"{text}\0{options}\0{of}\0{_versions()}")
        return made

    return decorate


class _Kept(NullCache):  # type: ignore[misc]
    """What Numba asks for machine code, and gives it to, for one function."""

    def __init__(self, function: Any, depends: str) -> None:
        self._function, self._depends = function, f"{function.__module__}.{function.__qualname__}\0{depends}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        data = cache.read_kept(name)
        if data is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception:  # it is as it was written, and of no use here all the same
            cache.forget(name)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not data.lifted and not data.library.has_dynamic_globals:
            cache.keep(self._name(sig, data.codegen), dumps(data._reduce()))

    def _name(self, sig: Any, codegen: Any) -> str:
        of = f"{self._depends}\0{sig}\0{codegen.magic_tuple()}"
        return f"{self._function.__name__}-{hashlib.sha256(of.encode()).hexdigest()[:32]}"


@functools.cache
def sources(package: str | None) -> str | None:
    """A digest of the texts of all modules of a folder, or None if they are not to be had."""
    found, known = hashlib.sha256(), False
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name) if package else ():
        if file.name.endswith(".py"):
            found.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
            known = True
    return found.hexdigest() if known else None


@functools.cache
def _versions() -> str:
    return "|".join((sys.version, platform.machine(), numba.__version__, llvmlite.__version__, np.__version__))
