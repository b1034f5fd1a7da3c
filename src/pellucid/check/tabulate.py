"""A function that is called and not traced, over a finite domain: a table of its results."""

from __future__ import annotations

from itertools import product

from pellucid.check.domains import Domain
from pellucid.check.slot import TRUE
from pellucid.errors import NotTraceable
from pellucid.expr import node as n
from pellucid.expr.function import Function
from pellucid.expr.node import Expr

__all__ = ["tabulate"]


def tabulate(fn: Function, domain: Domain, who: str) -> tuple[Expr, ...]:
    """An opaque function over a finite domain, by calling it on everything."""
    kinds = list(fn.params)
    pools = [domain.events(p) if p is not None else None for p in kinds]
    if fn.task or fn.result is None or any(pool is None for pool in pools):
        raise NotTraceable(
            f"{who}: {fn.name} {fn.reason}, and its arguments cannot be listed; "
            "give a finite domain, such as ints=range(0, 8)"
        )
    rows = list(product(*[pool for pool in pools if pool is not None]))
    if len(rows) > 4096:
        raise NotTraceable(f"{who}: {fn.name} {fn.reason}; its {len(rows):,} arguments are too many to list")
    variables = [n.var(i, t) for i, t in enumerate(t for p in kinds for _, t in p.leaves())]
    out: list[Expr] | None = None
    for row in reversed(rows):
        flat = [leaf for part in row for leaf in part]
        args = [p.unflatten(list(part)) for p, part in zip(kinds, row, strict=True)]
        try:
            values = [n.const(v) for v in fn.result.flatten(fn.call(*args))]
        except Exception:
            values = [n.raise_(0, t) for _, t in fn.result.leaves()]
        test = TRUE
        for v, leaf in zip(variables, flat, strict=True):
            test = n.and_(test, n.eq(v, n.const(leaf)))
        out = values if out is None else [n.ite(test, a, b) for a, b in zip(values, out, strict=True)]
    assert out is not None
    return tuple(out)
