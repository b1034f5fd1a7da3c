"""Transition systems in a solver: one frame as terms, and runs of them push by push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import Type
from pellucid.internal.solve.terms import Terms


class Transition(Terms):
    """States with a start, inputs, and what comes next, as terms over one frame.

    Expressions number the variables: those of the state first, then the inputs.

    >>> from pellucid.internal.expr import node as n
    >>> from pellucid.internal.expr.types import INT
    >>> counter = Transition([("count", INT, 0)], [INT])
    >>> counter.define([n.add(n.var(0, INT), n.const(1))])
    >>> counter.next
    [s0 + 1]
    """

    def __init__(
        self,
        state: Sequence[tuple[str, Type, Any]],
        inputs: Sequence[Type],
        *,
        texts: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__(texts=texts, strict=strict)
        self.names = tuple(name for name, _, _ in state)
        self.state_types, self.input_types = [t for _, t, _ in state], list(inputs)
        self.sizes: list[int | None] = [None] * len(state)  # of variables with so many values
        self.state = [self.constant(f"s{i}", t) for i, t in enumerate(self.state_types)]
        self.inputs = [self.constant(f"i{i}", t) for i, t in enumerate(inputs)]
        self.variables = [*self.state, *self.inputs]
        self.start = [self.value(t, v) for _, t, v in state]
        self.next: list[Any] = []
        self.assume: Any = self.z3.BoolVal(True)

    def define(self, following: Sequence[Expr], assume: Expr | None = None) -> None:
        """What each variable of the state is next, and what is assumed of a frame."""
        self.next = self.terms(following)
        if assume is not None:
            self.assume = self.term(assume)

    def typing(self, state: Sequence[Any]) -> list[Any]:
        """What the types alone say of a state."""
        return [b for t, c in zip(self.state_types, state, strict=True) for b in self.bounds(t, c)]

    def allowed(self, inputs: Sequence[Any] | None = None) -> list[Any]:
        """What may come in."""
        inputs = self.inputs if inputs is None else inputs
        return [b for t, c in zip(self.input_types, inputs, strict=True) for b in self.bounds(t, c)]

    def again(self) -> Transition:
        """The same afresh."""
        raise NotImplementedError


class Frames:
    """A run of a system as constraints: frame t has a state and the inputs of a push.

    With ``start`` the first state is the system's own, otherwise any state of the right types.
    """

    def __init__(self, code: Transition, solver: Any, *, start: bool) -> None:
        self.code, self.solver = code, solver
        self.states: list[list[Any]] = [code.start] if start else []
        self.inputs: list[list[Any]] = []
        self._made: dict[tuple[int, int], tuple[Any, Any]] = {}
        if not start:
            self._state()
        self._input()

    def _state(self) -> list[Any]:
        t = len(self.states)
        made = [self.code.constant(f"s{i}@{t}", kind) for i, kind in enumerate(self.code.state_types)]
        self.states.append(made)
        self.solver.add(*self.code.typing(made))
        return made

    def _input(self) -> None:
        t = len(self.inputs)
        made = [self.code.constant(f"i{i}@{t}", kind) for i, kind in enumerate(self.code.input_types)]
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
