"""How the modules of this folder are compiled: once, for pointers and numbers.  Loaded when a search begins."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from pellucid.internal.base.kept import kept_jit

POINTER, NUMBER, TRUTH, NOTHING = types.CPointer(types.int64), types.int64, types.boolean, types.void


def together(function: Any, **options: Any) -> Any:
    """Compiled, and kept for the next time, as long as *none* of the modules of this folder has changed: what one calls
    is part of it."""
    return kept_jit(error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)(function)


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
