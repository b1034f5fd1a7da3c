"""Whether formulas prove a system safe: checked with z3 and the plain meaning of the language, apart from the search.

The certificate of a safe system is a list of formulas, each about some distinct processes, that together say which
states are **not** reached.  It is right if

1. no state to start in is in one of them,
2. every unsafe state is in one of them,
3. a transition into one of them comes from a state that is in one of them.

Each is a statement about any number of processes.  A formula names some and a transition names some more; look at a
state with its other processes left out: what init, guards and these formulas say of *all* processes still holds of
those that are left, and what is said of some still holds of them.  So if there is a state that breaks the statement,
there is one with just those processes, where a variable may point to somebody outside.  That is asked of z3.

A formula may also say something of *everybody* (``Granted = True && forall y. Sharer[y] = False``; such a one names
nobody).  That a state is not in it needs somebody of whom it is not true, who may be left out no more: so for each such
formula there may be one process more than those that are named, or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from pellucid.capacity.arrays.language.system import And, Formula, Quantified, States, System, Transition, inside
from pellucid.capacity.arrays.smt import Encoding, Frame
from pellucid.internal.model.budget import Budget, CutShort


class Fault(NamedTuple):
    """What is wrong with a certificate."""

    what: str
    formula: int | None = None
    transition: str = ""

    def __str__(self) -> str:
        where = f" (formula {self.formula + 1})" if self.formula is not None else ""
        return f"{self.what}{where}{f', by {self.transition}' if self.transition else ''}"


class _Around:
    """A state of so many processes that is in none of the formulas, for z3."""

    def __init__(self, system: System, count: int, never: Sequence[States]) -> None:
        self.encoding = e = Encoding(system, count, open=True)
        self.frame, facts = e.frame("now")
        finite = all(of == "proc" or system.values(of) for _, of in system.symbols.values()) and not e.order
        self.solver = e.z3.SolverFor("QF_FD") if finite else e.z3.Solver()
        self.solver.add(*facts)
        for states in never:
            for p in permutations(e.processes, len(states.names)):
                holds = e.holds(states.formula, self.frame, dict(zip(states.names, p, strict=True)))
                self.solver.add(e.z3.Not(holds))

    def possible(self, facts: Sequence[Any]) -> bool:
        """Whether that can be, with these facts."""
        self.solver.push()
        self.solver.add(*facts)
        return _ask(self.encoding.z3, self.solver, pop=True)


def _ask(z3: Any, solver: Any, *, pop: bool = False) -> bool:
    answer, reason = solver.check(), ""
    if answer == z3.unknown:
        reason = solver.reason_unknown()
    if pop:
        solver.pop()
    if reason:
        raise CutShort(f"z3 does not know: {reason}")
    return bool(answer == z3.sat)


def check_certificate(system: System, never: Sequence[States], budget: Budget | None = None) -> Fault | None:
    """What is wrong with a certificate; None if it proves that no unsafe state is ever reached.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition go (x) requires { forall_other y. X[y] = False } { X[x] := True }")
    >>> check_certificate(s, s.unsafe)
    >>> print(check_certificate(s, []))
    an unsafe state is not among them
    """
    budget, rigid = budget or Budget(), system.rigid
    around: dict[int, _Around] = {}
    for i, states in enumerate(never):
        if not _understood(states):
            return Fault("a quantifier stands where the checker knows none", i)
    more = sum(_everybody(states) for states in never)

    def at(count: int) -> Iterator[_Around]:
        for all_ in range(max(count, 1) if more else count, count + more + 1):  # there is at least one process
            if all_ not in around:
                around[all_] = _Around(system, all_, never)
            yield around[all_]

    for i, states in enumerate(never):
        budget.look(i, len(never))
        e = Encoding(system, max(1, rigid + len(states.names)), open=True)  # there is at least one process
        frame, facts = e.frame("now")
        solver = e.z3.Solver()
        solver.add(*facts, e.initial(frame), e.met(states, frame))
        if _ask(e.z3, solver):
            return Fault("a run can start in one of them", i)
    for unsafe in system.unsafe:
        extra = sum(len(p.names) for p in inside(unsafe.formula) if isinstance(p, Quantified))
        for here in at(rigid + len(unsafe.names) + extra):
            if here.possible([here.encoding.met(unsafe, here.frame)]):
                return Fault("an unsafe state is not among them")
    for t, label in zip(system.transitions, system.labels, strict=True):
        for width in sorted({len(s.names) for s in never}):
            group = [s for s in never if len(s.names) == width]
            for count, chosen in _choices(rigid + width, len(t.parameters)):
                budget.look(count, 0)
                if any(_leads(here, t, chosen, group, rigid + width) for here in at(count)):
                    return Fault("a step leads into one of them from outside", None, label)
    return None


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _everybody(states: States) -> int:
    """How many of its parts are about everybody."""
    return sum(isinstance(part, Quantified) for part in _parts(states.formula))


def _understood(states: States) -> bool:
    """Whether a quantifier is only where what is said above is true: a *for all* of one process, where nobody is
    named."""
    for part in _parts(states.formula):
        if isinstance(part, Quantified):
            alone = part.kind == "forall" and not part.other and len(part.names) == 1 and not states.names
            if not alone or any(isinstance(inner, Quantified) for inner in inside(part.part)):
                return False
        elif any(isinstance(inner, Quantified) for inner in inside(part)):
            return False
    return True


def _choices(count: int, parameters: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Which of so many processes, or new ones in order, the parameters are; and how many processes there are then."""
    for chosen in permutations(range(1, count + parameters + 1), parameters):
        new = [p for p in chosen if p > count]
        if new == list(range(count + 1, count + len(new) + 1)):
            yield count + len(new), chosen


def _leads(around: _Around, t: Transition, chosen: tuple[int, ...], group: Sequence[States], width: int) -> bool:
    """Whether a transition leads from outside into one of these formulas, about the first processes."""
    e = around.encoding
    after, facts, _ = e.after(t, chosen, around.frame, "new")
    into = []
    for states in group:
        names = permutations(range(1, width + 1), len(states.names)) if e.system.rigid else [range(1, width + 1)]
        for p in names:
            bound = dict(zip(states.names, p, strict=True))
            if _changed(e, states, after, around.frame, bound):
                into.append(e.holds(states.formula, after, bound))
    if not into:
        return False
    return around.possible([*facts, e.guard(t, chosen, around.frame), e.z3.Or(into)])


def _changed(e: Encoding, states: States, after: Frame, frame: Frame, bound: dict[str, int]) -> bool:
    """Whether the step changes a cell of the formula at all: else it held before."""
    from pellucid.capacity.arrays.language.system import Cell, Compare, Sum

    for part in inside(states.formula):
        if isinstance(part, Quantified):
            return True
        if isinstance(part, Compare):
            for term in (part.left, part.right):
                cells = (
                    [term] if isinstance(term, Cell) else [c for _, c in term.parts] if isinstance(term, Sum) else []
                )
                for cell in cells:
                    place = (cell.name, *(e.process(i, bound) for i in cell.indices))
                    if after[place] is not frame[place]:
                        return True
    return False


__all__ = ["Fault", "check_certificate"]
