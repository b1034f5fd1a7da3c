"""Domains: which integers a check talks about.

* exact integers, the default: unbounded, no overflow;
* ``Mod(N)``: integers modulo N, as in Model Checking of Stream Processing Pipelines (2021, section 3.1): every
  operation is followed by ``% N``;
* ``range(lo, hi)`` or an explicit set of values: what may **come in**; arithmetic stays exact.

With them goes what is assumed of the events (`pellucid.check.system.assume`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from pellucid.check.question_arguments import short
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type, fits_int

_MOST = 2_000_000  # integers of a domain


@dataclass(frozen=True)
class Mod:
    """Integers modulo ``n``: the abstraction of Model Checking of Stream Processing Pipelines (2021).

    >>> Mod(4)
    Mod(n=4)
    """

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 2:
            raise UsageError(f"Mod(N) wants a whole number N of at least 2, found {self.n!r}")


@dataclass(frozen=True)
class Domain:
    """What ints may come in (None: any), and whether arithmetic is modulo a number."""

    values: tuple[int, ...] | None = None
    modulus: int | None = None
    given: Any = None
    assume: tuple[Any, ...] = ()  # of `pellucid.check.system.assume.Assumption`

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The smallest and the largest of the ints that may come in; None where any may.

        >>> domain_of({3, -1}).span
        (-1, 3)
        """
        return (min(self.values), max(self.values)) if self.values else None

    @property
    def whole(self) -> bool:
        """Whether they are all the ints between the two."""
        return self.values is not None and self.span is not None and len(self.values) == self.span[1] - self.span[0] + 1

    def leaf(self, t: Type) -> list[Any] | None:
        """All values of a leaf, or None if they cannot be listed."""
        if t == BOOL:
            return [False, True]
        if isinstance(t, EnumType):
            return list(t.members)
        if t == INT:
            return list(self.values) if self.values is not None else None
        return None

    def events(self, t: Type) -> list[tuple[Any, ...]] | None:
        """All events of a type, as leaves, smallest first; None if they cannot be listed."""
        leaves = [self.leaf(kind) for _, kind in t.leaves()]
        if any(values is None for values in leaves):
            return None
        # What is not there has one form, whatever ints there are.
        return list(dict.fromkeys(map(t.tidy, product(*[v for v in leaves if v is not None]))))

    def unlisted(self, types: Iterable[Type]) -> list[str]:
        """The leaves of these types, other than ints, whose values no domain lists.

        >>> from pellucid.internal.expr.types import FLOAT, STR
        >>> Domain().unlisted([INT, STR, BOOL, FLOAT])
        ['float', 'str']
        """
        leaves = {kind for t in types for _, kind in t.leaves()}
        return sorted(str(kind) for kind in leaves if kind != INT and self.leaf(kind) is None)

    def listing(self, types: Iterable[Type], ints: str) -> str:
        """What lists events of these types, as advice: ``ints`` where only integers are in the way.

        >>> from pellucid.internal.expr.types import STR
        >>> print(Domain().listing([INT], "ints=range(0, 8)"))
        give a finite domain, such as ints=range(0, 8)
        >>> print(Domain().listing([INT, STR], "ints=range(0, 8)"))
        values of type str cannot be listed: make a bool, an enum or an int of them in the events that come in
        """
        other = self.unlisted(types)
        if other:
            return (
                f"values of type {' and '.join(other)} cannot be listed: make a bool, an enum or an int of them in the "
                "events that come in"
            )
        if self.values is None:
            return f"give a finite domain, such as {ints}"
        return "its events can be listed, but what is made of them has no end: keep fewer states, or give fewer ints="

    def reduce(self, e: Expr) -> Expr:
        """An integer as this domain has it: what follows every operation."""
        m = self.modulus
        if m is None or (e.op == "mod" and e.args[1].op == "const" and 0 < e.args[1].value <= m):
            return e
        return n.binary("mod", e, n.const(m))

    def __str__(self) -> str:
        if self.modulus is not None:
            return f"integers modulo {self.modulus}"
        if self.values is None:
            return "exact integers"
        return f"exact integers, {len(self.values)} of them as events"


def domain_of(ints: Any, assume: Any = None) -> Domain:
    """The domain that a check's ``ints=`` and ``assume=`` name.

    >>> domain_of(range(0, 3)).values
    (0, 1, 2)
    >>> domain_of(Mod(3)).modulus
    3
    """
    if assume is not None:
        from pellucid.check.system.assume import assumptions

        return dataclasses.replace(domain_of(ints), assume=assumptions(assume))
    if ints is None:
        return Domain()
    if isinstance(ints, Domain):
        return ints
    if isinstance(ints, Mod):
        return Domain(tuple(range(ints.n)), ints.n, ints)
    if isinstance(ints, Iterable) and not isinstance(ints, (str, bytes)):
        if isinstance(ints, range) and (many := -((ints.start - ints.stop) // ints.step)) > _MOST:
            raise UsageError(
                f"ints={ints!r} has {many:,} values: give at most {_MOST:,}, or leave ints= out and say "
                'assume="x.value >= …"'
            )
        if isinstance(ints, range) and len(ints) and fits_int(ints[0]) and fits_int(ints[-1]):
            return Domain(_in_order(ints), None, ints)
        values: Sequence[Any] = list(ints)
        beyond = [v for v in values if isinstance(v, int) and not fits_int(v)]
        if beyond:
            raise UsageError(f"ints={short(ints)}: {beyond[0]} does not fit in 64 bits, so it is no event")
        if values and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return Domain(_in_order(values), None, ints)
    raise UsageError(f"ints= takes Mod(N), range(lo, hi) or a set of whole numbers, found {ints!r}")


def _in_order(values: Sequence[int]) -> tuple[int, ...]:
    """The smallest first, of two as small the one that is not negative."""
    if isinstance(values, range) and values.step > 0 and values.start >= 0:
        return tuple(values)
    return tuple(sorted(set(values), key=lambda v: (abs(v), v < 0)))
