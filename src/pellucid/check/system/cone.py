"""The cone of influence: the part of a system that a question can depend on.

Whether a window puts out an event depends on how many came, not on what they were.  With the rest cut away,
questions about presence have finitely many states over exact integers as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pellucid.check.system.build import System
from pellucid.check.system.variable import Slot
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute


@n.values_only()
def cone(system: System, roots: Sequence[Expr], *, all_inputs: bool = False) -> tuple[System, list[Expr]]:
    """The system with only the variables that the roots depend on, and the roots over it.

    With ``all_inputs`` the inputs stay as they are.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> s = build_system(pipeline(lambda x: x.window(3, total), x=int).graph, domain_of(None))
    >>> small, _ = cone(s, [s.present("out")])
    >>> [v.name.split(":")[1] for v in small.state], [v.name for v in small.inputs]
    (['seen'], ['x.present'])
    """
    system, roots = _frozen(system, roots)
    states = len(system.state)
    needed: set[int] = set()
    waiting = _variables([*roots, system.assume, system.partial])
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.add(i)
            if i < states:
                waiting |= _variables([system.next[i]]) - needed
    if all_inputs:
        needed |= set(range(states, states + len(system.inputs)))
    kept = sorted(needed)
    number = {old: new for new, old in enumerate(kept)}
    kept_states = [i for i in kept if i < states]
    kept_inputs = [i - states for i in kept if i >= states]
    variables = [*system.state, *system.inputs]
    leaves = [n.var(number.get(i, 0), v.type) for i, v in enumerate(variables)]
    flat = substitute([*[system.next[i] for i in kept_states], *roots], leaves)
    streams = {}
    for name, (t, slots) in system.streams.items():
        inside = _variables([e for s in slots for e in (s.present, *s.leaves)]) <= needed
        if inside:
            moved = iter(substitute([e for s in slots for e in (s.present, *s.leaves)], leaves))
            streams[name] = t, tuple(Slot(next(moved), tuple(next(moved) for _ in s.leaves)) for s in slots)
    lengths = {id: substitute([e], leaves)[0] for id, e in system.lengths.items() if _variables([e]) <= needed}
    halted = [
        substitute([e], leaves)[0] if _variables([e]) <= needed else n.const(False)
        for e in (system.overflow, system.failed, system.wide, system.outside)
    ]
    failures = {side: substitute([e], leaves)[0] for side, e in system.failures.items() if _variables([e]) <= needed}
    assume, partial = substitute([system.assume, system.partial], leaves)
    small = dataclasses.replace(
        system,
        state=tuple(system.state[i] for i in kept_states),
        inputs=tuple(system.inputs[i] for i in kept_inputs),
        next=tuple(flat[: len(kept_states)]),
        streams=streams,
        lengths=lengths,
        overflow=halted[0],
        failed=halted[1],
        wide=halted[2],
        outside=halted[3],
        assume=assume,
        partial=partial,
        failures=failures,
    )
    return small, flat[len(kept_states) :]


def _frozen(system: System, roots: Sequence[Expr]) -> tuple[System, Sequence[Expr]]:
    """Put constants in place of variables that never change, until there are none."""
    while True:
        stuck = {i for i, e in enumerate(system.next) if e.op == "var" and e.value == i}
        asked = [*roots, system.assume, system.partial]
        used = _variables([*system.next, *asked]) & stuck
        changing = _variables([e for i, e in enumerate(system.next) if i not in stuck]) | _variables(asked)
        if not used & changing:
            return system, roots
        variables = [*system.state, *system.inputs]
        leaves = [n.const(v.start) if i in stuck else n.var(i, v.type) for i, v in enumerate(variables)]
        roots = substitute(roots, leaves)
        frozen = system.mapped(lambda exprs, leaves=leaves: substitute(exprs, leaves))  # type: ignore[misc]
        following = [
            n.var(i, v.type) if i in stuck else e
            for i, (v, e) in enumerate(zip(system.state, frozen.next, strict=True))
        ]
        system = dataclasses.replace(frozen, next=tuple(following))


def _variables(roots: Sequence[Expr]) -> set[int]:
    return {e.value for e in walk(*roots) if e.op == "var"}
