"""How the numbers of a compiled clock lie in memory (`kernel` says what they are), and how its loop is compiled."""

from __future__ import annotations

from numba import njit, types
from numba.extending import intrinsic

from pellucid.base.kept import kept_jit

DONE, MORE_NODES, MORE_HEAP = 0, 1, 2
# registers
IN_HEAP, FREE, FREES, NOTES, AT, CURSOR, PUSHED, PUSHES, SETTLED, LACKS, HEAP, NODES, UPDATES = range(13)
CELLS = 13  # from here on: for each cell its first root, how many nodes it has, and how many of them are idle
ROOTS, KNOWN, IDLE, CELL = 0, 1, 2, 3
OWN, REACHED, TOLD = 0, 1, 2  # the three cells of a location, one behind the other
# a node
COUNT, OF, CHILD, AFTER, BEFORE, PLACE, NOTED, NEXT, TIME = range(9)
OUT, BELOW, ROOT = 0, 1, 2  # places: in no forest, below another node, a root

# What is called from Python is kept on disk; what it is made of is in it.
kept = kept_jit(error_model="numpy", nogil=True)
called = njit(error_model="numpy", nogil=True)
part = njit(error_model="numpy", nogil=True, forceinline=True)  # a call would cost more than what it does


@intrinsic
def numbers(context, address):  # type: ignore[no-untyped-def]
    """The numbers from an address on.  The loop goes over them without counting who holds them, as it would for arrays:
    the tracker holds them while it runs."""
    kind = types.CPointer(types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64), generate
