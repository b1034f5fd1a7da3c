"""How the modules of this folder are compiled: once, for pointers and numbers.  Loaded when a search begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

POINTER, NUMBER, TRUTH, NOTHING = types.CPointer(types.int64), types.int64, types.boolean, types.void
_HERE = Path(__file__).parent
_STAMP = tuple(
    (name, stat.st_mtime, stat.st_size)
    for name in ("jit", "layout", "matrix", "urgent", "literal", "kernel")
    for stat in [(_HERE / f"{name}.py").stat()]
)


def together(function: Any, **options: Any) -> Any:
    """Compiled, and kept for the next time, as long as *none* of the compiled modules has changed: what one calls is
    part of it, and Numba looks at its own file only."""
    made = njit(cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)(function)
    kept: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_source_stamp"):
        kept._source_stamp = _STAMP
    return made


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
    and most of the time that it takes to compile it; whoever calls holds them meanwhile."""
    kind = types.CPointer(types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64), generate
