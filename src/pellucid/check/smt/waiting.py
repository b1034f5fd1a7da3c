"""Candidates for lemmas about events that wait in queues: bounds that hold while there are so many.

A place of a queue in which nothing waits holds a zero that nobody put there, so a bound of what came in (``part.value
>= 1000``) is one of the place only while the queue is long enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pellucid.check.system.build import System
from pellucid.expr import node as n
from pellucid.expr.node import Expr, walk
from pellucid.expr.types import INT

_MOST_NUMBERS = 12


def waiting_candidates(system: System, bad: Expr, states: Sequence[tuple[Any, ...]]) -> list[Expr]:
    """Bounds of the ints that wait, while they do; no sample breaks any.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda a, b: a + b, a=int, b=int)
    >>> s = build_system(p.graph, domain_of(None, "a.value > 4"), 1)
    >>> from pellucid.check.smt.lemmas import sample_states
    >>> found = [e for e in waiting_candidates(s, n.FALSE, sample_states(s)) if ">= 5" in str(e)]
    >>> print(*found)
    v1 <= 0 or v2 >= 5
    """
    found = {
        e.value + d
        for e in walk(bad, system.assume, *system.next)
        if e.op == "const" and e.type == INT and abs(e.value) < 10**9
        for d in (-1, 0, 1)
    }
    if system.domain.values:
        found |= {min(system.domain.values), max(system.domain.values)}
    numbers = sorted(found, key=lambda c: (abs(c), c))[: 3 * _MOST_NUMBERS]
    out: list[Expr] = []
    for at, length, place in _places(system):
        x, nothing = n.var(at, INT), n.le(n.var(length, INT), n.const(place))
        seen = [s[at] for s in states if s[length] > place]
        out += [n.or_(nothing, n.le(n.const(c), x)) for c in numbers if all(c <= v for v in seen)]
        out += [n.or_(nothing, n.le(x, n.const(c))) for c in numbers if all(v <= c for v in seen)]
    return out


def _places(system: System) -> Iterator[tuple[int, int, int]]:
    """The ints that wait: their variable, that of their queue's length, and how many wait before them."""
    lengths = {v.name: i for i, v in enumerate(system.state) if v.role == "length"}
    for i, v in enumerate(system.state):
        if v.role != "item" or v.type != INT:
            continue
        step, _, label = v.name.partition(f":{v.of}.")
        place, _, rest = label.partition(".")  # the leaf, and the mark of a key
        length = lengths.get(f"{step}:{v.of}.length{rest.lstrip('0123456789')}")
        if length is not None and place.isdigit():
            yield i, length, int(place)
