"""What the functions of a pipeline do beside answering: a task that reads a clock may answer otherwise after a crash.

A search calls every task twice on what comes, and sees a function that answers differently
(`pellucid.failures.checker.calls`).  A clock of seconds, or a die that seldom falls otherwise, answers the same both
times; it is known by what it calls.
"""

from __future__ import annotations

import copy
from typing import Any

from pellucid.expr.tracing.witness import Witness, fickle_reason
from pellucid.expr.types import Type
from pellucid.failures.checker.given import made_up
from pellucid.graph.model import Graph

_TRIED = 4  # made-up events for each function


def seen_beside(graph: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why a proof cannot be given, and what one relies on; nothing for tasks that are no pipeline.

    >>> import time
    >>> from pellucid import pipeline
    >>> stamped = pipeline(lambda x: x.map(lambda v: int(time.time()), to=int, id="stamp"), x=int)
    >>> seen_beside(stamped.graph)[0][0].split(": ")[1]
    'a lambda calls time.time()'
    """
    if not isinstance(graph, Graph):
        return (), ()
    fickle: list[str] = []
    doubts: list[str] = []
    for node, fn in graph.opaque():
        witness = Witness(fn.plain)
        for k in range(_TRIED):
            try:
                witness.call(*[made_up(t, k) if isinstance(t, Type) else copy.deepcopy(node.start) for t in fn.params])
            except Exception:  # what it raises is seen where it is run
                continue
        if not witness.fickle and fickle_reason(fn.reason):
            witness.fickle.append(str(fn.reason))
        if witness.fickle:
            fickle.append(
                f"{node.describe()}: {fn.name} {witness.fickle[0]}: it answered the same each time it was called here, "
                "but after a crash it may answer otherwise; what it reads must come with the events"
            )
        elif witness.doubts:
            doubts.append(f"if {fn.name} always answers as it did when it was called: it {witness.doubts[0]}")
    return tuple(fickle), tuple(dict.fromkeys(doubts))
