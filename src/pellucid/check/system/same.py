"""Whether two graphs are the same: then nothing needs to be decided.

A function that is called and not traced is the same as another if its code is, and all that it closes over and reads:
as it is **now**, for what it reads may have changed since the graph was built.
"""

from __future__ import annotations

from pellucid.check.functions.arguments import tables_of
from pellucid.check.functions.called import Fickle, ledger
from pellucid.check.side_by_side import same_shape
from pellucid.check.system.domains import Domain
from pellucid.errors import NotTraceable
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.identity import identity_of
from pellucid.internal.expr.tracing.purity import fickle_reason
from pellucid.internal.graph.model import Graph


def same_graph(a: Graph, b: Graph, domain: Domain) -> bool:
    """Whether two graphs do the same because they are the same; what a proof by that relies on is noted in the
    question's ledger.

    >>> from pellucid import pipeline
    >>> def scaled(by: int):
    ...     return lambda v: int(str(v)) * by
    >>> times = lambda k: pipeline(lambda x: x.map(scaled(k), to=int, id="m"), x=int).graph
    >>> two, also_two, three = times(2), times(2), times(3)
    >>> same_graph(two, also_two, Domain()), same_graph(two, three, Domain())
    (True, False)
    """
    if a.digest != b.digest or a.unseen:
        return False
    if not all(same_shape(s.type, t.type) for s, t in zip(a.nodes, b.nodes, strict=True)):
        return False  # enums of one name with other members
    pairs = list(zip(a.opaque(), b.opaque(), strict=True))
    if any(_now(f) != _now(g) for (_, f), (_, g) in pairs):
        return False
    if not pairs:
        return True
    try:
        tables_of(a, domain)  # over a finite domain they are called, and watched
    except Fickle:
        raise
    except NotTraceable:
        for (node, fn), _ in pairs:
            if fickle_reason(fn.reason):
                raise Fickle(
                    f"{node.describe()}: {fn.name} {fn.reason}: it has no meaning that a proof could speak of"
                ) from None
        names = ", ".join(dict.fromkeys(fn.name for (_, fn), _ in pairs))
        ledger().assumed.append(f"that {names} always answers the same to the same arguments: it was not called")
    return True


def _now(fn: Function) -> str:
    return identity_of(fn.plain, types_used=[t for t in (*fn.params, fn.result, fn.event) if t is not None]).digest
