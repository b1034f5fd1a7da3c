"""The text of a kernel: ``loop`` is the whole, ``steps`` what each kind of step becomes, with ``window``, ``forget``
and ``timers`` of their own; they write with ``flows`` (streams inside the loop), ``state`` (words, rows, queues) and
``lookups``."""

from pellucid.internal.engine.kernel.emit.loop import (
    GROW_LOOKUP,
    GROW_OUTPUT,
    GROW_QUEUE,
    GROW_REGION,
    MOST_LINES,
    Kernel,
    emit,
)

__all__ = ["GROW_LOOKUP", "GROW_OUTPUT", "GROW_QUEUE", "GROW_REGION", "MOST_LINES", "Kernel", "emit"]
