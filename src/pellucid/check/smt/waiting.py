"""Candidates for lemmas about events that wait in queues: bounds that hold while there are so many.

A place of a queue in which nothing waits holds a zero that nobody put there, so a bound of what came in (``part.value
>= 1000``) is one of the place only while the queue is long enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pellucid.check.system.build import System
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, INT, STR, EnumType

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


# ---------------------------------------------------------------- enums, and strings that are set to constants
# A status is one of its constants; while a flag is down (*nothing was paid yet*) it is not ``"shipped"``, or it is
# still ``"open"``. Random runs drop most of what is guessed here, the solver the rest
# (`pellucid.check.smt.lemmas.surviving`).


_MOST, _FEW = 400, 8


def word_candidates(system: System, bad: Expr, states: Sequence[tuple[Any, ...]]) -> list[Expr]:
    """What single variables are, or are not, always and while another has a certain value; no sample breaks any of it.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x.task(lambda s, v: (("warm" if v > 3 else s), [s]), "cold"), x=int)
    >>> s = build_system(p.graph, domain_of(None))
    >>> from pellucid.check.smt.lemmas import sample_states
    >>> print(*word_candidates(s, n.FALSE, sample_states(s)))
    v1 == 'cold' or v1 == 'warm'
    """
    words = sorted({e.value for e in walk(bad, *system.next) if e.op == "const" and e.type == STR})
    named: list[tuple[int, Expr, list[Any]]] = []
    for i, v in enumerate(system.state):
        values = (
            list(v.type.members)
            if isinstance(v.type, EnumType)
            else list(dict.fromkeys((v.start, *words)))
            if v.type == STR
            else []
        )
        if 1 < len(values) <= _FEW or v.type == STR:
            named.append((i, n.var(i, v.type), values[:_FEW]))
    guards = [(i, n.not_(n.eq(x, n.const(c))), c) for i, x, values in named for c in values]
    guards += [
        (i, e, c)
        for i, v in enumerate(system.state)
        if v.type == BOOL
        for e, c in ((n.var(i, BOOL), False), (n.not_(n.var(i, BOOL)), True))
    ]
    out: list[Expr] = []
    for i, x, values in named:
        if all(s[i] in values for s in states) and x.type == STR:
            any_of: Expr = n.FALSE
            for c in values:
                any_of = n.or_(any_of, n.eq(x, n.const(c)))
            out.append(any_of)
        seen = {s[i] for s in states}
        out += [n.not_(n.eq(x, n.const(c))) for c in values if c not in seen]
        for j, unless, g in guards:
            if j == i:
                continue
            there = {s[i] for s in states if s[j] == g}
            if not there:
                continue
            out += [n.or_(unless, n.not_(n.eq(x, n.const(c)))) for c in values if c not in there and c in seen]
            if len(there) == 1 and x.type == STR and len(seen) > 1:
                out.append(n.or_(unless, n.eq(x, n.const(there.pop()))))
    return [e for e in dict.fromkeys(out) if e.op != "const"][:_MOST]
