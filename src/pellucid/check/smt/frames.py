"""Runs of a system that a solver found, as pushes; and the same in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.check.smt.encode import default
from pellucid.check.system.build import System
from pellucid.check.system.variable import Variable
from pellucid.expr.evaluate import UserRaise, evaluate
from pellucid.expr.node import Expr
from pellucid.expr.operations import Overflow64
from pellucid.solve.transition import Frames


def pushes_of(frames: Frames, system: System, model: Any) -> list[dict[str, Any]]:
    """The pushes of a model: for each source that is not silent its event."""
    code, out = frames.code, []
    for inputs in frames.inputs:
        push, at = {}, 0
        for name, event in system.sources:
            values = [model.eval(c, model_completion=True) for c in inputs[at : at + 1 + event.width]]
            if code.z3.is_true(values[0]):
                kinds = [t for _, t in event.leaves()]
                push[name] = event.unflatten([code.python(t, v) for t, v in zip(kinds, values[1:], strict=True)])
            at += 1 + event.width
        for v, c in zip(system.inputs[at:], inputs[at:], strict=True):  # choices that no source makes
            chosen = code.python(v.type, model.eval(c, model_completion=True))
            if v.role != "lost" or chosen:
                push[_choice(v)] = chosen
        out.append(push)
    return out


def input_leaves(system: System, push: Mapping[str, Any]) -> list[Any]:
    """The input variables' values in a push."""
    out: list[Any] = []
    for name, event in system.sources:
        out.append(name in push)
        out += event.flatten(push[name]) if name in push else [default(system, t) for _, t in event.leaves()]
    return [*out, *(push.get(_choice(v), default(system, v.type)) for v in system.inputs[len(out) :])]


def _choice(v: Variable) -> str:
    """Under which name a push has a choice that no source makes; no source has a dot in its name."""
    return f"lost.{v.of}" if v.role == "lost" else f"{v.role}.{v.of}.{v.at}"


def replay(system: System, bad: Expr, trace: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether ``bad`` holds in the last push of a trace, by plain evaluation of the system.

    None: an integer leaves 64 bits on the way (the check talks about exact integers).  Where ``bad`` itself fails, it
    does not hold; nor does it where a push is not one of those that are assumed.
    """
    state: list[Any] = [v.start for v in system.state]
    try:
        for i, push in enumerate(trace, 1):
            leaves, memo = state + input_leaves(system, push), dict[int, Any]()
            if not evaluate(system.assume, leaves, memo):
                return False
            if i == len(trace):
                return bool(evaluate(bad, leaves, memo))
            state = [evaluate(e, leaves, memo) for e in system.next]
        return False
    except Overflow64:
        return None
    except (ArithmeticError, ValueError, UserRaise):
        return False
