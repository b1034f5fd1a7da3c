"""What an engine answers; and what it is asked, as an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from pellucid.check.formula import And, Atom, Formula, Not, Or
from pellucid.check.system.build import System, cone
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, show, walk
from pellucid.internal.expr.types import INT, fits_int
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Judgement, Status


@dataclass(frozen=True)
class Answer(Judgement):
    """A status with its evidence: pushes that refute (from ``loop`` on repeating), or what was proved and how; with
    ``bound``, of which runs, where these are not all."""

    status: Status
    engine: str
    pushes: list[dict[str, Any]] | None = None
    loop: int | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    bound: str = ""
    negated: bool = False  # refuted because its negation is proved


def _expr(atom: Formula) -> Expr:
    assert isinstance(atom.body, Expr)
    return atom.body


def expression(f: Formula, atoms: dict[Any, Expr] | None = None) -> Expr:
    """A formula without temporal operators as one expression."""
    if f.op in ("true", "false"):
        return n.const(f.op == "true")
    if f.op == "atom":
        return atoms[f] if atoms is not None else _expr(f)
    parts = [expression(a, atoms) for a in f.args]
    if f.op == "!":
        return n.not_(parts[0])
    if f.op == "&":
        return n.and_(parts[0], parts[1])
    if f.op == "|":
        return n.or_(parts[0], parts[1])
    if f.op == "->":
        return n.or_(n.not_(parts[0]), parts[1])
    assert f.op == "<->"
    return n.eq(parts[0], parts[1])


# ---------------------------------------------------------------- what is not known, for a formula or against it
# From a certain push on nothing is known of a run (``lost``, which stays true). An atom is then taken for whatever
# helps the formula, or for whatever harms it, according to whether the formula wants it to hold or not. If the
# formula holds with everything counted against it, it holds; if it does not hold with everything counted for it, it
# does not. (This is three-valued model checking, Bruns and Godefroid 1999: the point at which nothing is known stands
# for every point.)


def counted(f: Formula, lost: Expr, *, for_it: bool) -> Formula:
    """The resolved formula with what is not known counted for it, or against it.

    >>> from pellucid.check.formula import G
    >>> from pellucid.internal.expr.types import BOOL
    >>> p, lost = Atom(n.var(0, BOOL), "p"), n.var(1, BOOL)
    >>> counted(G(Not(p)), lost, for_it=False).args[0].args[0].body
    v0 or v1
    """
    if lost is n.FALSE:
        return f
    if f.op == "atom":
        assert isinstance(f.body, Expr)
        return Atom(n.or_(f.body, lost) if for_it else n.and_(f.body, n.not_(lost)), str(f))
    if f.op in ("true", "false"):
        return f
    if f.op == "!":
        return Not(counted(f.args[0], lost, for_it=not for_it))
    if f.op == "->":
        a, b = f.args
        return Formula("->", (counted(a, lost, for_it=not for_it), counted(b, lost, for_it=for_it)))
    if f.op == "<->":
        a, b = f.args
        return counted(And(Or(Not(a), b), Or(a, Not(b))), lost, for_it=for_it)
    # all others only gain where their parts do
    return Formula(f.op, tuple(counted(a, lost, for_it=for_it) for a in f.args))


# Which integers tell a pipeline's cases apart, and what a verdict over some of them is worth.
#
# A pipeline that asks ``d > 60`` behaves alike for all of 0, 1, 2 and 3. So a domain that is suggested holds the
# pipeline's own thresholds, and a verdict over a domain that misses one says so. A threshold is found where a
# comparison depends on one integer of an event and on nothing else: two neighbours, one for which it holds and one for
# which it does not.

_MOST = 16  # values of a suggested domain


@dataclass(frozen=True)
class Threshold:
    """A comparison of the pipeline, in words, and the neighbours between which its answer changes.

    >>> from pellucid.internal.expr import node as n
    >>> Threshold("d > 60", n.lt(n.const(60), n.var(0, INT)), 60, 61).told_apart(range(4))
    False
    """

    words: str
    test: Expr
    last: int  # here it is as below …
    first: int  # … and from here on not

    def told_apart(self, values: Sequence[int]) -> bool:
        """Whether these events show both answers."""
        return len({_holds(self.test, v) for v in values}) > 1


def thresholds(system: System, roots: Sequence[Expr] = ()) -> list[Threshold]:
    """The thresholds of a system, or of the part of it that the roots depend on.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: (x * 2).filter(lambda v: v > 60), x=int)
    >>> [(t.words, t.last, t.first) for t in thresholds(build_system(p.graph, domain_of(None)))]
    [('x.value * 2 > 60', 30, 31)]
    """
    if roots:
        system, roots = cone(system, roots)
    parts = (
        [e for _, slots in system.streams.values() for s in slots for e in (s.present, *s.leaves)] if not roots else []
    )
    names = [v.name for v in (*system.state, *system.inputs)]
    found = []
    for e in walk(*system.next, *parts, *roots, system.failed):
        if e.op not in ("eq", "lt", "le"):
            continue
        used = {part.value: part.type for part in walk(e) if part.op == "var"}
        if len(used) == 1 and min(used) >= len(system.state) and set(used.values()) == {INT}:
            change, limits, name = neighbours(e), _limits(system, min(used)), names[min(used)]
            if change is None or (limits is not None and not all(limits[0] <= v <= limits[1] for v in change)):
                continue
            words = show(e, names)
            if limits is not None:  # a time within its limits is the time itself
                low, high = limits
                words = words.replace(f"({low} if {name} < {low} else {high} if {name} > {high} else {name})", name)
            found.append(Threshold(words, e, *change))
    return list(dict.fromkeys(found))


def _limits(system: System, variable: int) -> tuple[int, int] | None:
    """Between what an event's integer can be: a date ends with the year 9999, which is no threshold of a pipeline."""
    leaf, types = system.inputs[variable - len(system.state)], dict(system.sources)
    return types[leaf.of].limits()[leaf.at] if leaf.role == "leaf" and leaf.of in types else None


def neighbours(test: Expr) -> tuple[int, int] | None:
    """Two neighbours of which one passes the test and the other does not, close to the constants of the test."""
    constants = {e.value for e in walk(test) if e.op == "const" and e.type == INT} | {0}
    tried = {c + d for c in constants for d in (-1, 0, 1)} | {-c for c in constants}
    tried |= {
        (a + c) * (b + d) + o
        for a, b in list(combinations(sorted(constants), 2))[:20]
        for c in (0, 1)
        for d in (0, 1)
        for o in (-1, 0, 1)
    }
    answers = [(v, _holds(test, v)) for v in sorted(tried)]
    changes = [(a, b) for (a, x), (b, y) in pairwise([one for one in answers if one[1] is not None]) if x != y]
    if not changes:
        return None
    low, high = min(changes, key=lambda pair: (pair[1] - pair[0], abs(pair[0])))
    here = _holds(test, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _holds(test, middle) == here else (low, middle)
    return low, high


def _holds(test: Expr, value: int) -> bool | None:
    try:
        leaves: Any = _Everywhere(value)
        return bool(evaluate(test, leaves))
    except (ArithmeticError, ValueError, UserRaise):
        return None


class _Everywhere:
    """Every variable has this value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __getitem__(self, index: int) -> int:
        return self.value


def suggested(system: System, roots: Sequence[Expr] = ()) -> list[int]:
    """A few integers that tell the pipeline's cases apart: 0, and around each threshold.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> suggested(build_system(pipeline(lambda d: d.filter(lambda v: v > 60), d=int).graph, domain_of(None)))
    [0, 59, 60, 61]
    """
    out = {0}
    for t in thresholds(system, roots):
        out |= {t.last, t.first} if len(out) > _MOST else {t.last - 1, t.last, t.first}
    out = set(filter(fits_int, out))  # others are no events
    return sorted(out)[: 2 * _MOST] if len(out) > 1 else [0, 1, 2, 3]


def advice(system: System, roots: Sequence[Expr] = ()) -> str:
    """What to do where the events that matter cannot be listed."""
    small = cone(system, roots)[0] if roots else system
    other = small.domain.unlisted(v.type for v in small.inputs)
    if other:
        return (
            f"values of type {' and '.join(other)} cannot be listed: ask an invariant (G …), or make a bool, an "
            "enum or an int of them first"
        )
    values = suggested(system, roots)
    return f"give a finite domain, such as ints={_said(values)}" + (
        ", which has the pipeline's own thresholds" if values != [0, 1, 2, 3] else ""
    )


def _said(values: Sequence[int]) -> str:
    listed = sorted(set(values))
    if len(listed) > 2 and listed[-1] - listed[0] == len(listed) - 1:
        return f"range({listed[0]}, {listed[-1] + 1})"
    return "{" + ", ".join(map(str, listed)) + "}"


def domain_notes(system: System, roots: Sequence[Expr]) -> tuple[str, ...]:
    """What a verdict over some integers leaves out, if their values matter for it: a word for the verdict."""
    values = system.domain.values
    if values is None or system.domain.modulus is not None:
        return ()
    if not any(v.type == INT and v.size is None for v in cone(system, roots)[0].inputs):
        return ()
    missed = [t for t in thresholds(system, roots) if not t.told_apart(values)]
    if not missed:
        return (f"for the events {_said(values)} only",)
    words = f"{missed[0].words} is " + ("always so" if _holds(missed[0].test, values[0]) else "never so")
    better = _said(sorted({*suggested(system, roots), *values}) if len(values) <= 8 else suggested(system, roots))
    return (
        f"for the events {_said(values)} only, where {words}: with ints={better}, which has the pipeline's own "
        "thresholds, the verdict may differ",
    )


def are_events(graph: Graph, pushes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what the sources bring in a run of exact integers has 64 bits."""
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    return not any(t.problem(push[name]) for push in pushes for name, t in types.items() if name in push)
