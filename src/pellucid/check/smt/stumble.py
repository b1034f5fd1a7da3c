"""Runs that are drawn until one breaks a property: for floats, where a solver finds few.

Rounding, infinities and NaN break many a property that holds of real numbers, and a run that shows it is often near the
pipeline's own constants or the edges of doubles, where `pellucid.check.belief.pushes` draws.
"""

from __future__ import annotations

from typing import Any

from pellucid.check.belief.pushes import DrawnPushes
from pellucid.check.belief.straight import straight
from pellucid.check.smt.encode import input_leaves, replay
from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.model.budget import Budget

_FEWEST, _RUNS = 300, 4000  # however little time there is, and however much
_EVENTS, _LONG = 12, 80  # tried again and again, and how often
_SIMPLE = (0.0, 1.0, -1.0, 2.0, 10.0, 100.0)


def stumbled(system: System, bad: Expr, clock: Budget) -> list[dict[str, Any]] | None:
    """The shortest run that was drawn in whose last push ``bad`` holds; None: there was none.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.map(lambda v: v - v), x=float).graph, domain_of(None))
    >>> (value,) = s.value("out")
    >>> [[abs(push["x"]) for push in stumbled(s, n.and_(s.present("out"), n.not_(n.eq(value, value))), Budget(5.0))]]
    [[inf]]
    """
    compute = straight([*system.next, system.assume, system.partial, bad])
    drawn, many = DrawnPushes(system, [bad]), len(system.state)
    if any(v.role not in ("present", "leaf", "lost") for v in system.inputs):
        return None  # choices that no source makes cannot be replayed from what is drawn
    best: list[dict[str, Any]] | None = None
    for i in range(_RUNS):
        if (i > _FEWEST and clock.over) or (best is not None and len(best) == 1):
            break
        state: list[Any] = [v.start for v in system.state]
        trace: list[dict[str, Any]] = []
        for _ in range(min(drawn.begin(), len(best) - 1 if best is not None else 60)):
            push, inputs = drawn.draw()
            try:
                found = compute([*state, *inputs])
            except Overflow64:
                break
            if not found[many] or found[many + 1]:
                break
            trace.append(push)
            if found[-1]:
                if replay(system, bad, trace) is True:
                    best = trace
                break
            state = list(found[:many])
    return best if best is None else _simpler(system, bad, best)


def repeated(system: System, bad: Expr) -> bool:
    """Whether ``bad`` comes about when one source brings the same event again and again, and the others are silent: a
    queue that fills.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda a, b: a + b, a=float, b=float).graph, domain_of(None), 3)
    >>> repeated(s, s.overflow)
    True
    """
    if system.keys is not None or any(v.role not in ("present", "leaf", "lost") for v in system.inputs):
        return False
    compute, many = straight([*system.next, system.assume, bad]), len(system.state)
    drawn = DrawnPushes(system, [bad])
    drawn.begin()
    for _ in range(_EVENTS):
        push, _ = drawn.draw()
        for name in push:
            inputs = input_leaves(system, {name: push[name]}) if "." not in name else []
            state: list[Any] = [v.start for v in system.state]
            for _ in range(_LONG if inputs else 0):
                try:
                    found = compute([*state, *inputs])
                except Overflow64:
                    break
                if not found[many] or (list(found[:many]) == state and not found[-1]):
                    break
                if found[-1]:
                    return True
                state = list(found[:many])
    return False


def _simpler(system: System, bad: Expr, trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The run without pushes and events that can be spared, and with simple numbers where they do."""

    def better(changed: list[dict[str, Any]]) -> bool:
        return replay(system, bad, changed) is True

    for i in reversed(range(len(trace) - 1)):
        fewer = [*trace[:i], *trace[i + 1 :]]
        trace = fewer if better(fewer) else trace
    for i in range(len(trace)):
        for name, event in list(trace[i].items()):
            spared = [*trace[:i], {k: v for k, v in trace[i].items() if k != name}, *trace[i + 1 :]]
            if better(spared):
                trace = spared
            elif isinstance(event, float):
                tried = ([*trace[:i], {**trace[i], name: v}, *trace[i + 1 :]] for v in _SIMPLE if v != event)
                trace = next((t for t in tried if better(t)), trace)
    return trace
