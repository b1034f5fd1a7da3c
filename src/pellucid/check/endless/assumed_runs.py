"""Which runs an assumption leaves: whether there are any, whether each beginning goes on, and whether a question
notices the assumption at all.

A run is endless.  Where from every state that can be met some push is assumed, each beginning is the beginning of a
run, and engines that look at beginnings are right.  That push is looked for among a few: silence, the event before
again, one more or less, constants that are mentioned.

Where for **every** choice of what a question depends on (whether an event comes, say) the rest (its value) can be
chosen so that the assumption holds, the question has the same answer without it; `loosened` leaves it out then, and
`filled` puts values into a counterexample that keep to it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from itertools import islice, product
from typing import Any

from pellucid.check.smt.encode import Encoding, input_leaves
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, simplest
from pellucid.internal.model.budget import Budget
from pellucid.internal.solve.session import ask
from pellucid.internal.solve.transition import Frames

NO_RUN = "no run satisfies what is assumed, so there is nothing to prove or refute"

_MOST = 400  # pushes that are tried


@n.values_only()
def ending(system: System) -> str:
    """What is wrong with the runs that satisfy the assumption: ``"none"`` there is none, ``"some"`` a beginning may not
    go on, ``""`` nothing.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x + 1, x=int)
    >>> rising, always, never = "x.value > Y x.value", "x & x.value > Y x.value", "x.value > 9 & x"
    >>> [ending(build_system(p.graph, domain_of(range(3), a))) for a in (rising, always, never)]
    ['', 'none', 'none']
    """
    if system.assume is n.TRUE:
        return ""
    alone, _ = cone(system, [], all_inputs=True)
    pushes = _candidates(alone, set())
    if _always(alone, pushes):
        return ""
    return "some" if _goes_on(alone) else "none"


def _always(system: System, pushes: Sequence[Sequence[Expr]]) -> bool:
    """Whether in every state, after any push that is assumed, one of these pushes is."""
    fitting: Expr = n.FALSE
    for push in pushes:
        leaves = [n.var(i, v.type) for i, v in enumerate(system.state)]
        fits = n.and_(in_domain(system, push), substitute([system.assume], [*leaves, *push])[0])
        if fits is n.TRUE:
            return True
        fitting = n.or_(fitting, fits)
    return _valid(system, fitting)


def _valid(system: System, fact: Expr) -> bool:
    """Whether a fact holds at the start and after every push that is assumed, by z3; False also where that is not
    known."""
    from pellucid.check.decide import has_z3

    if not has_z3():
        return False
    try:
        free = Encoding(dataclasses.replace(system, assume=n.TRUE))  # what is assumed of the last push is the question
        code = free.terms([fact, system.assume])
    except UsageError:
        return False
    for start in (True, False):
        solver = free.z3.Solver()
        frames = Frames(free, solver, start=start)
        if not start:
            solver.add(*frames.at(0, [code[1]]))
            frames.extend()
        solver.add(free.z3.Not(frames.at(0 if start else 1, [code[0]])[0]))
        if ask(solver, Budget(2.0)) is not False:
            return False
    return True


def _goes_on(system: System, pushes: int = 12) -> bool:
    """Whether so many pushes in a row can satisfy the assumption; True where that is not known."""
    from pellucid.check.decide import has_z3, listable
    from pellucid.check.explicit.search import explore

    if listable(system):
        space = explore(system, [], budget=Budget(max_states=20_000))
        if not space.why:
            return True
        if space.expanded == space.count:
            return False
    if not has_z3():
        return True
    code = Encoding(system)
    solver, clock = code.z3.Solver(), Budget(3.0)
    frames = Frames(code, solver, start=True)
    for _ in range(pushes):
        if ask(solver, clock) is False:
            return False
        frames.extend()
    return True


def endless(system: System, pushes: Sequence[dict[str, Any]], more: int = 6) -> bool:
    """Whether these pushes are the beginning of a run: what the assumption remembers repeats itself a few pushes later.
    False: not known."""
    from pellucid.check.decide import has_z3

    if not has_z3():
        return False
    alone, _ = cone(system, [], all_inputs=True)
    state: list[Any] = [v.start for v in alone.state]
    for push in pushes:
        state = [evaluate(e, [*state, *_given(alone, push)]) for e in alone.next]
    there = tuple(dataclasses.replace(v, start=value) for v, value in zip(alone.state, state, strict=True))
    code = Encoding(dataclasses.replace(alone, state=there))
    solver, clock = code.z3.Solver(), Budget(2.0)
    frames = Frames(code, solver, start=True)
    for t in range(1, more + 1):
        frames.extend()
        if ask(solver, clock, code.z3.Not(frames.distinct(t))):
            return True
    return False


@n.values_only()
def loosened(system: System, roots: Sequence[Expr]) -> System:
    """The system without its assumption, where these roots cannot tell; else as it is."""
    if system.assume is n.TRUE:
        return system
    free = dataclasses.replace(system, assume=n.TRUE)
    small, _ = cone(free, roots)
    seen = {(v.role, v.of, v.at) for v in small.inputs}
    if len(seen) == len(system.inputs):
        return system
    alone, _ = cone(system, [], all_inputs=True)
    fixed = {i for i, v in enumerate(alone.inputs) if (v.role, v.of, v.at) in seen}
    pushes = _candidates(alone, fixed)
    # What is fixed may be anything of its domain here: the fact has to hold for every value of it.
    return free if _always(alone, pushes) else system


def filled(system: System, roots: Sequence[Expr], pushes: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The pushes with values that satisfy the assumption, in what the roots do not depend on; None if none is found."""
    small, _ = cone(dataclasses.replace(system, assume=n.TRUE), roots)
    seen = {(v.role, v.of, v.at) for v in small.inputs}
    alone, _ = cone(system, [], all_inputs=True)
    fixed = {i for i, v in enumerate(alone.inputs) if (v.role, v.of, v.at) in seen}
    tried = _candidates(alone, fixed)
    state: list[Any] = [v.start for v in alone.state]
    out = []
    for push in pushes:
        given = _given(alone, push)
        for candidate in ([n.const(v) for v in given], *tried):
            row = [evaluate(e, [*state, *given]) for e in candidate]
            try:
                good = evaluate(in_domain(alone, candidate), [*state, *given]) and evaluate(
                    alone.assume, [*state, *row]
                )
            except (ArithmeticError, ValueError, UserRaise):
                continue
            if good:
                break
        else:
            return None
        made = {name: value for name, value in push.items() if name.startswith("lost.")}
        values = {(v.role, v.of, v.at): leaf for v, leaf in zip(alone.inputs, row, strict=True)}
        for name, t in alone.sources:
            if values["present", name, 0]:
                made[name] = t.event([values["leaf", name, j] for j in range(t.width)])
        out.append(made)
        state = [evaluate(e, [*state, *row]) for e in alone.next]
    return out


def _given(system: System, push: dict[str, Any]) -> list[Any]:
    given = input_leaves(system, push)
    return [*given, *(f"lost.{v.of}" in push for v in system.inputs[len(given) :])]


def in_domain(system: System, push: Sequence[Expr]) -> Expr:
    """Whether the ints of a push are among those that may come in; those that are inputs themselves are."""
    values, out = system.domain.values, n.TRUE
    if values is None and system.strict:
        values = (INT_MIN, INT_MAX)
    guards = {name: dict(enumerate(t.guards())) for name, t in system.sources}
    by = {(v.of, v.at): e for v, e in zip(system.inputs, push, strict=False) if v.role == "leaf"}
    for v, e in zip(system.inputs, push, strict=False) if values is not None else ():
        if e.type == INT and not (e.op == "var" and e.value >= len(system.state)):
            assert values is not None
            low, high = (min(values), max(values)) if system.domain.span is None else system.domain.span
            among = n.and_(n.le(n.const(low), e), n.le(e, n.const(high)))
            if system.domain.values is not None and high - low + 1 != len(values):
                among = n.FALSE
                for value in values:
                    among = n.or_(among, n.eq(e, n.const(value)))
            flags = [by.get((v.of, i), n.TRUE) for i in guards.get(v.of, {}).get(v.at, ())] if v.role == "leaf" else []
            if flags:  # of what is not there, or of a source that is silent
                nothing = n.or_(n.eq(e, n.const(0)), n.eq(e, n.const(values[0])))
                among = n.ite(functools.reduce(n.and_, flags), among, nothing)
            out = n.and_(out, among)
    return out


def _candidates(system: System, fixed: set[int]) -> list[list[Expr]]:
    """Pushes to try, as expressions over the state and, where an input is fixed, that input."""
    states = len(system.state)
    pools: list[list[Expr]] = []
    for i, v in enumerate(system.inputs):
        own = n.var(states + i, v.type)
        pools.append([own] if i in fixed else _pool(system, v))
    return [list(row) for row in islice(product(*pools), _MOST)]


def _pool(system: System, v: Any) -> list[Expr]:
    """A few values for an input."""
    if v.type == BOOL:
        return [n.FALSE, n.TRUE]
    if isinstance(v.type, EnumType):
        return [n.const(m) for m in v.type.members]
    before = [
        n.var(i, s.type)
        for i, s in enumerate(system.state)
        if s.type == v.type and s.of == v.of and s.at == v.at and s.role == "before"
    ]
    mentioned = [n.const(e.value) for e in walk(system.assume) if e.op == "const" and e.type == v.type]
    if v.type == INT:
        one = n.const(1)
        near = [e for c in [*before, *mentioned] for e in (n.add(c, one), n.sub(c, one))]
        listed = [n.const(c) for c in (system.domain.values or (0, 1))[:8]]
        return list(dict.fromkeys([*before, *mentioned, *near, *listed]))[:24]
    return list(
        dict.fromkeys(
            [
                *before,
                *mentioned,
                n.const(simplest(v.type)),
                *([n.const("other 1")] if v.type == STR else []),
                *([n.const(1.0)] if v.type == FLOAT else []),
            ]
        )
    )[:24]
