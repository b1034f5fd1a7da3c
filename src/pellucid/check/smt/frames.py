"""Runs of a system in a solver, push by push; and the same in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.check.smt.encode import Encoding, default
from pellucid.check.system.build import System, Variable
from pellucid.expr.evaluate import Overflow64, UserRaise, evaluate
from pellucid.expr.node import Expr

__all__ = ["Frames", "input_leaves", "replay"]


class Frames:
    """A run of a system as constraints: frame t has a state and the inputs of a push.

    With ``start`` the first state is the system's own, otherwise any state of the right types.
    """

    def __init__(self, code: Encoding, solver: Any, *, start: bool) -> None:
        self.code, self.solver = code, solver
        self.states: list[list[Any]] = [code.start] if start else []
        self.inputs: list[list[Any]] = []
        self._made: dict[tuple[int, int], tuple[Any, Any]] = {}
        if not start:
            self._state()
        self._input()

    def _state(self) -> list[Any]:
        t = len(self.states)
        made = [self.code.constant(f"s{i}@{t}", v.type) for i, v in enumerate(self.code.system.state)]
        self.states.append(made)
        self.solver.add(*self.code.typing(made))
        return made

    def _input(self) -> None:
        t = len(self.inputs)
        made = [self.code.constant(f"i{i}@{t}", v.type) for i, v in enumerate(self.code.system.inputs)]
        self.inputs.append(made)
        self.solver.add(*self.code.allowed(made), *self.at(t, [self.code.assume]))

    def extend(self) -> None:
        """One more push."""
        t = len(self.states) - 1
        values = self.at(t, self.code.next)
        for c, v in zip(self._state(), values, strict=True):
            self.solver.add(self.code.same(c, v))
        self._input()

    def at(self, t: int, terms: Sequence[Any]) -> list[Any]:
        """Terms of one frame, at frame t."""
        pairs = list(zip(self.code.state, self.states[t], strict=True))
        pairs += zip(self.code.inputs, self.inputs[t], strict=True)
        out = []
        for term in terms:
            key = t, term.get_id()
            if key not in self._made:  # z3 numbers live terms: the term is kept beside its copy
                self._made[key] = term, self.code.z3.substitute(term, *pairs)
            out.append(self._made[key][1])
        return out

    def distinct(self, t: int) -> Any:
        """State t differs from all the states before it."""
        z3, code = self.code.z3, self.code
        return z3.And([
            z3.Or([z3.Not(code.same(a, b)) for a, b in zip(self.states[t], before, strict=True)])
            for before in self.states[:t]
        ])  # fmt: skip

    def decode(self, model: Any) -> list[dict[str, Any]]:
        """The pushes of a model: for each source that is not silent its event."""
        out = []
        for inputs in self.inputs:
            push, at = {}, 0
            for name, event in self.code.system.sources:
                values = [model.eval(c, model_completion=True) for c in inputs[at : at + 1 + event.width]]
                if self.code.z3.is_true(values[0]):
                    kinds = [t for _, t in event.leaves()]
                    push[name] = event.unflatten(
                        [self.code.python(t, v) for t, v in zip(kinds, values[1:], strict=True)]
                    )
                at += 1 + event.width
            for v, c in zip(self.code.system.inputs[at:], inputs[at:], strict=True):  # choices that no source makes
                chosen = self.code.python(v.type, model.eval(c, model_completion=True))
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
