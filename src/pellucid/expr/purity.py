"""Is a function a pure function of its arguments?  Watched while it is traced.

Tracing a function that reads a clock would freeze one instant into the trace.  So while a trace runs, a
profile hook looks at every call before it happens: C functions must be on the list below, and Python
code must not set globals, outer variables or attributes.  Captured lists, dicts and sets must be
unchanged afterwards.  Anything else makes the function opaque, with the reason.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from pellucid.expr.symbolic import Untraceable

__all__ = ["asks_identity", "watched"]

_PURE_BUILTINS = {
    "abs", "all", "any", "callable", "chr", "divmod", "format", "getattr", "hasattr", "hash", "isinstance",
    "issubclass", "iter", "len", "max", "min", "next", "ord", "pow", "repr", "round", "sorted", "sum",
}  # fmt: skip
_PURE_TYPES = (
    int, float, bool, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, object, type,
    type(None), types.MappingProxyType,
)  # fmt: skip
_PURE_OBJECTS = {id(getattr(builtins, name)) for name in _PURE_BUILTINS}
_PURE_OBJECTS |= {id(f) for f in vars(math).values() if callable(f)}
_PURE_OBJECTS |= {id(f) for f in vars(operator).values() if callable(f)}
_PURE_OBJECTS.add(id(functools.reduce))
_MAKERS = ("__init__", "__post_init__", "__new__", "__setstate__", "__set_name__")


def _pure_c(f: Any) -> bool:
    if id(f) in _PURE_OBJECTS:
        return True
    owner = getattr(f, "__objclass__", None)
    if owner is None:
        holder = getattr(f, "__self__", None)
        owner = holder if isinstance(holder, type) else type(holder)
        if isinstance(holder, types.ModuleType) or holder is None:
            return False
    return owner in _PURE_TYPES or (isinstance(owner, type) and issubclass(owner, BaseException))


@functools.lru_cache(maxsize=4096)
def _trouble(code: types.CodeType) -> str | None:
    """What a piece of Python code does that a pure function does not."""
    for op in dis.get_instructions(code):
        if op.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return f"sets the global variable {op.argval!r}"
        if op.opname in ("STORE_DEREF", "DELETE_DEREF") and op.argval in code.co_freevars:
            return f"sets the outer variable {op.argval!r}"
        if op.opname in ("STORE_ATTR", "DELETE_ATTR") and code.co_name not in _MAKERS:
            return f"sets the attribute {op.argval!r}"
        if op.opname == "IMPORT_NAME":
            return f"imports {op.argval!r} while it runs"
        if op.opname in ("LOAD_GLOBAL", "LOAD_NAME") and op.argval in ("type", "id", "globals", "locals", "vars"):
            return f"uses {op.argval}(), which cannot tell a symbolic value from a plain one"
    return None


def asks_identity(f: Any) -> bool:
    """Whether the function's code uses ``is``: then symbolic Booleans must become real ones."""
    code = getattr(getattr(f, "__func__", f), "__code__", None)
    return code is not None and any(op.opname == "IS_OP" for op in dis.get_instructions(code))


def _standard(filename: str) -> bool:
    return filename.startswith("<frozen") or filename.startswith(_STDLIB)


_STDLIB = functools.__file__.rsplit("/", 1)[0] + "/"
_HERE = __file__.rsplit("/", 2)[0] + "/"


class watched:  # noqa: N801 - used as `with watched(f):`
    """Run a trace of ``f`` inside: raises ``Untraceable`` at the first impure call.

    A class and not a generator: the hook must not see the context manager's own machinery.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.inside = 0  # how deep in Pellucid's own code: what it does is its own business

    def hook(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event in ("call", "return") and frame.f_code.co_filename.startswith(_HERE):
            self.inside += 1 if event == "call" else -1
        elif self.inside > 0:
            return
        elif event == "call":
            trouble = None if _standard(frame.f_code.co_filename) else _trouble(frame.f_code)
            if trouble:
                raise Untraceable(trouble, effect=not trouble.startswith("uses"))
        elif event == "c_call" and not _pure_c(arg) and not frame.f_code.co_filename.startswith(_HERE):
            raise Untraceable(f"calls {_name(arg)}(), which may read or change the outside world", effect=True)

    def __enter__(self) -> None:
        self.before = _captured(self.f)
        self.old = sys.getprofile()
        self.collecting = gc.isenabled()
        gc.disable()  # a finaliser that happens to run now is not the function's doing
        sys.setprofile(self.hook)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self.old)
        if self.collecting:
            gc.enable()
        _compare_captured(self.before)


def _name(f: Any) -> str:
    module = getattr(f, "__module__", None) or getattr(getattr(f, "__self__", None), "__name__", None)
    if module is None and hasattr(f, "__self__"):
        module = type(f.__self__).__name__
    name: str = getattr(f, "__qualname__", None) or getattr(f, "__name__", repr(f))
    return name if module in (None, "builtins") or "." in name else f"{module}.{name}"


def _captured(f: Any) -> list[tuple[str, Any, Any]]:
    """The mutable things a function can reach by name, each with a copy of its contents."""
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        return []
    reach = [(name, f.__globals__[name]) for name in code.co_names if name in f.__globals__]
    for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            reach.append((name, cell.cell_contents))
    found = []
    for name, value in reach:
        if isinstance(value, (list, bytearray)):
            found.append((name, value, value[:]))
        elif isinstance(value, (dict, set)):
            found.append((name, value, value.copy()))
    return found


def _compare_captured(before: list[tuple[str, Any, Any]]) -> None:
    for name, value, copy in before:
        same = len(value) == len(copy)
        if same and isinstance(value, list):
            same = all(a is b for a, b in zip(value, copy, strict=True))
        elif same and isinstance(value, dict):
            same = all(k in copy and copy[k] is v for k, v in value.items())
        elif same:
            same = value == copy
        if not same:  # put it back as it was, then say no
            if isinstance(value, list):
                value[:] = copy
            else:
                value.clear()
                value.update(copy)
            raise Untraceable(f"changes {name!r}, which it did not make", effect=True)
