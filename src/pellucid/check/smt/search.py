"""Bounded search: the shortest run that breaks a property, then the smallest values in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pellucid.check.smt.encode import Encoding, pushes_of, replay
from pellucid.check.smt.text import about_constants, about_words, words_near
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type
from pellucid.internal.model.budget import Budget
from pellucid.internal.solve.session import ask
from pellucid.internal.solve.transition import Frames


@dataclass(frozen=True)
class FoundRun:
    """A run in whose last push the bad thing holds: for each push the events of the sources that are not silent."""

    trace: list[dict[str, Any]]
    smallest: bool = True  # its values were made as small as they can be
    replays: bool = True  # plain evaluation agrees (or an integer leaves 64 bits on the way: see the notes)
    notes: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """The number of pushes."""
        return len(self.trace)


@dataclass(frozen=True)
class Nothing:
    """No run of at most ``depth`` pushes."""

    depth: int


@dataclass(frozen=True)
class Unknown:
    """The time or a bound was reached, or z3 gave up; nothing is known beyond ``depth`` pushes."""

    reason: str
    depth: int = 0


_ROUNDS = 40  # in which the real answers of functions are learnt


class BoundedSearch:
    """Looks for a run, one push deeper at a time."""

    def __init__(self, code: Encoding, bad: Expr, clock: Budget) -> None:
        self.code, self.bad, self.clock = code, bad, clock
        self.term = code.term(bad)
        self.solver = code.z3.Solver()
        self.frames = Frames(code, self.solver, start=True)
        self.depth = 0  # no run of so many pushes is bad
        self.stuck = False
        self.invented = False  # the runs that were found depend on answers of functions that are not their real ones

    def deeper(self, limit: float | None = None) -> FoundRun | None:
        """Look at runs of one push more; sets ``stuck`` where z3 has no answer."""
        if self.depth > 0 and len(self.frames.states) == self.depth:
            self.frames.extend()
        (bad,) = self.frames.at(self.depth, [self.term])
        answer = ask(self.solver, self.clock, bad, limit=limit)
        if answer is None:
            self.stuck = True
        elif not answer:
            self.solver.add(self.code.z3.Not(bad))
            self.depth += 1
        else:
            model = self._real(self.solver.model(), bad, limit)
            if model is not None:
                self.solver.add(bad)
                return self._found(model)
        return None

    def _real(self, model: Any, bad: Any, limit: float | None) -> Any:
        """A model in which the functions that are called answer as they really do; None if there is none, or none was
        found (then it is stuck)."""
        text, system = self.code.text, self.code.system
        if text is None or not text.calls:
            return model
        for i in range(_ROUNDS):
            if replay(system, self.bad, pushes_of(self.frames, system, model)) is not False:
                return model
            if i == 0:
                self.solver.add(
                    *about_constants(text, system, self.bad),
                    *about_words(text, system, words_near(system, self.bad), self.bad),
                )
            for t in range(len(self.frames.inputs)):
                self.solver.add(*text.learn(partial(self._value, model, t)))
            answer = ask(self.solver, self.clock, bad, *self._of_constants(), limit=limit) if i % 2 == 0 else None
            if not answer:  # not with the pipeline's own strings alone
                answer = ask(self.solver, self.clock, bad, limit=limit)
            if answer is False:
                self.solver.add(self.code.z3.Not(bad))
                self.depth += 1
                return None
            if answer is None:
                break
            model = self.solver.model()
        self.stuck = self.invented = True
        return None

    def _value(self, model: Any, t: int, term: Any) -> Any:
        return model.eval(self.frames.at(t, [term])[0], model_completion=True)

    def _of_constants(self) -> list[Any]:
        """That every string that comes in is one of those that the pipeline or the property names, or close to one."""
        text, z3, kinds = self.code.text, self.code.z3, [v.type for v in self.code.system.inputs]
        assert text is not None
        known = [text.value(t) for t in words_near(self.code.system, self.bad)]
        return [
            z3.Or([c == t for t in known])
            for inputs in self.frames.inputs
            for c, kind in zip(inputs, kinds, strict=True)
            if kind == STR
        ]

    def _found(self, model: Any) -> FoundRun:
        smaller = _Smaller(self.code, self.solver, self.clock, model)
        smaller.run(self.frames)
        trace = pushes_of(self.frames, self.code.system, smaller.model)
        holds = replay(self.code.system, self.bad, trace)
        # with smaller values an answer was invented
        if holds is False and smaller.model is not model and self.code.text is not None:
            trace = pushes_of(self.frames, self.code.system, model)
            holds = replay(self.code.system, self.bad, trace)
        notes = []
        if holds is None:
            notes.append("on the way an integer leaves 64 bits: an engine stops there with an overflow")
        elif not holds:
            notes.append("the run does not replay: the property looks at a value where there is no event")
        return FoundRun(trace, smaller.whole, holds is not False, tuple(notes))


class _Smaller:
    """Makes the inputs of a run as small as they can be: first silent where possible, then value by value."""

    def __init__(self, code: Encoding, solver: Any, clock: Budget, model: Any) -> None:
        self.code, self.solver, self.model = code, solver, model
        self.clock = clock.part(0.5, least=2.0)
        self.whole = True

    def run(self, frames: Frames) -> None:
        system, z3 = self.code.system, self.code.z3
        events: list[tuple[Any, Type]] = []
        for inputs in frames.inputs:
            at = 0
            for _, event in system.sources:
                if self.can(z3.Not(inputs[at])):
                    self.solver.add(z3.Not(inputs[at]))
                else:
                    self.solver.add(inputs[at])
                    kinds = [t for _, t in event.leaves()]
                    events += zip(inputs[at + 1 :], kinds, strict=False)
                at += 1 + event.width
        for leaf, t in events:
            self.leaf(leaf, t)

    def now(self, leaf: Any) -> Any:
        return self.model.eval(leaf, model_completion=True)

    def can(self, wish: Any) -> bool:
        """Whether the wish can be granted; if so it is in the model."""
        if self.code.z3.is_true(self.model.eval(wish, model_completion=True)):
            return True
        answer = ask(self.solver, self.clock, wish, limit=2.0)
        if answer:
            self.model = self.solver.model()
        self.whole = self.whole and answer is not None
        return bool(answer)

    def leaf(self, leaf: Any, t: Type) -> None:
        if t == BOOL:
            self.can(self.code.z3.Not(leaf))
        elif t == FLOAT:
            simple = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 10.0, -10.0, 100.0, 1e3)
            if not any(self.can(self.code.same(leaf, self.code.value(FLOAT, f))) for f in simple):
                self.whole = False
        elif t == STR and self.code.text is not None:
            self.text(leaf)
        else:
            self.number(leaf, t)
        self.solver.add(self.code.same(leaf, self.now(leaf)))

    def text(self, leaf: Any) -> None:
        """A short string, of letters or at least of what can be read, where there is one."""
        z3, text = self.code.z3, self.code.text
        assert text is not None
        size = len(text.python(self.now(leaf)))
        for short in range(min(size, 8)):
            if self.can(z3.Length(leaf) == short):
                break
        self.solver.add(z3.Length(leaf) == len(text.python(self.now(leaf))))
        for first, last in (("a", "c"), ("a", "z"), ("A", "Z"), (" ", "~"), (" ", "\ud7ff")):
            if self.can(z3.InRe(leaf, z3.Star(z3.Range(text.value(first), text.value(last))))):
                return

    def number(self, leaf: Any, t: Type) -> None:
        """The least absolute value, by doubling and halving; of two, the one that is not negative."""
        if self.now(leaf).as_long() == 0:
            return
        z3 = self.code.z3
        low, reach = -1, 0  # nothing is possible up to low
        while not self.can(z3.And(leaf <= reach, leaf >= -reach)):
            if reach >= abs(self.now(leaf).as_long()) or self.clock.over:
                return
            low, reach = reach, 2 * reach + 1
        high = abs(self.now(leaf).as_long())
        while high - low > 1:
            middle = (low + high) // 2
            if self.can(z3.And(leaf <= middle, leaf >= -middle)):
                high = abs(self.now(leaf).as_long())
            else:
                low = middle
        if t == INT and self.now(leaf).as_long() < 0:
            self.can(leaf == high)
