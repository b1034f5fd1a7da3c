"""Whether formulas prove a system safe: checked with z3 and the plain meaning of the language, apart from the search.

The certificate of a safe system is a list of formulas, each about some distinct processes, that together say which
states are **not** reached.  It is right if

1. no state to start in is in one of them,
2. every unsafe state is in one of them,
3. a transition into one of them comes from a state that is in one of them.

Each is a statement about any number of processes.  A formula names some and a transition names some more; look at a
state with its other processes left out: what init, guards and these formulas say of *all* processes still holds of
those that are left, and a statement about some still holds of them.  So if there is a state that breaks the statement,
there is one with just those processes, where a variable may point to a process outside.  That is asked of z3.

A formula may also say something of *all* processes (``Granted = True && forall y. Sharer[y] = False``; such a one names
none).  That a state is not in it needs a process of which it is not true, who may be left out no more: so for each such
formula there may be one process more than those that are named, or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple, TypeAlias

from pellucid.capacity.arrays import system as y
from pellucid.capacity.arrays.system import And, Formula, Quantified, States, System, Transition, inside
from pellucid.internal.model.search import Budget, CutShort

__all__ = ["Fault", "check_certificate"]

# A system with a given number of processes for z3, written from the meaning of the language and from nothing else.
#
# The checker of certificates and the maker of concrete runs use it; the search does not, and it does not use the
# search. Enumerations are small bit vectors, processes bit vectors too (integers if they are compared by order or with
# numbers). A guard about *all other* processes is about all of these; where the processes are only some of those that
# there are, that is less than the guard says.

Place: TypeAlias = tuple[Any, ...]
Frame: TypeAlias = "dict[Place, Any]"  # a z3 term for each cell


def ordered(system: y.System) -> bool:
    """Whether processes are compared by order or with numbers."""
    for whole in y.formulas(system):
        for part in y.inside(whole):
            if isinstance(part, y.Compare):
                sides = (part.left, part.right)
                procs = [
                    isinstance(t, y.Process) or (isinstance(t, y.Cell) and system.type_of(t.name) == "proc")
                    for t in sides
                ]
                if any(procs) and (part.op not in ("=", "<>") or any(isinstance(t, y.Number) for t in sides)):
                    return True
    return False


class Encoding:
    """Frames, formulas and transitions over so many processes."""

    def __init__(self, system: y.System, count: int, first: int = 1, *, open: bool = False) -> None:
        """``open``: there may be more processes.  A variable may point to one of those, and the order of these ones is
        any order."""
        import z3

        self.z3, self.system, self.count, self.open = z3, system, count, open
        self.processes = range(first, first + count)
        self.process_values = [*self.processes, *([0] if system.outsiders else [])]  # values of type proc
        self.order = ordered(system)
        pointers = sum(count**d for d, of in system.symbols.values() if of == "proc") + len(system.transitions)
        self.bits = max(1, (first + count + (2 * pointers if open else 0)).bit_length())
        self.facts: list[Any] = []
        if open and self.order:
            ids = [self.process_value(p) for p in self.processes]
            self.facts.append(z3.Distinct(ids or [z3.IntVal(0)]))
            if system.rigid:  # certain processes are the first ones
                self.facts += [process > system.rigid for process in ids[system.rigid :]]

    # terms

    def sort(self, of: str) -> Any:
        """The sort of a type's values."""
        z3 = self.z3
        if of == "proc":
            return z3.IntSort() if self.order else z3.BitVecSort(self.bits)
        if of == "bool":
            return z3.BoolSort()
        values = self.system.values(of)
        if values:
            return z3.BitVecSort(max(1, (len(values) - 1).bit_length()))
        return z3.RealSort() if of == "real" else z3.IntSort()

    def frame(self, name: str) -> tuple[Frame, list[Any]]:
        """A state, and what its values keep to."""
        z3, facts = self.z3, list(self.facts)
        frame: Frame = {}
        for symbol, (dimensions, of) in self.system.symbols.items():
            for p in product(self.processes, repeat=dimensions):
                term = z3.Const(f"{name}.{symbol}{''.join(f'.{i}' for i in p)}", self.sort(of))
                frame[(symbol, *p)] = term
                values = self.system.values(of)
                if of == "proc" and not self.open:
                    facts.append(z3.Or([term == self.process_value(q) for q in self.process_values]))
                elif of != "bool" and values and len(values) < 1 << max(1, (len(values) - 1).bit_length()):
                    facts.append(z3.ULT(term, len(values)))
        return frame, facts

    def process_value(self, p: int) -> Any:
        """A process as a value."""
        if self.open and self.order and p > self.system.rigid:
            return self.z3.Int(f"process.{p}")
        return self.z3.IntVal(p) if self.order else self.z3.BitVecVal(p, self.bits)

    def process(self, name: str, bound: Mapping[str, int]) -> int:
        """Which process a name is."""
        return int(name[1:]) if name.startswith("#") else bound[name]

    def type_of(self, term: y.Term) -> str | None:
        """The type of a term; None for a number that may be of several."""
        match term:
            case y.Cell(name):
                return self.system.type_of(name)
            case y.Sum(parts):
                return self.system.type_of(parts[0][1].name)
            case y.Process():
                return "proc"
            case y.Value(name):
                return next(n for n, v in (("bool", ("False", "True")), *self.system.types) if name in v)
            case y.Number(_, real):
                return "real" if real else None

    def term(self, term: y.Term, frame: Frame, bound: Mapping[str, int], of: str) -> Any:
        """A term in a frame."""
        z3 = self.z3
        match term:
            case y.Number(value, _):
                return z3.RealVal(str(value)) if of == "real" else z3.IntVal(int(value))
            case y.Value(name):
                index = self.system.values(of).index(name)
                return z3.BoolVal(bool(index)) if of == "bool" else z3.BitVecVal(index, self.sort(of).size())
            case y.Process(name):
                return self.process_value(self.process(name, bound))
            case y.Cell(name, indices):
                return frame[(name, *(self.process(i, bound) for i in indices))]
            case y.Sum(parts, constant):
                number = z3.RealVal if of == "real" else z3.IntVal
                total = number(str(constant))
                for factor, cell in parts:
                    total = total + number(str(factor)) * self.term(cell, frame, bound, of)
                return total

    # formulas

    def holds(self, formula: y.Formula, frame: Frame, bound: Mapping[str, int], others: Sequence[int] = ()) -> Any:
        """A formula in a frame."""
        z3 = self.z3
        match formula:
            case y.Truth(holds):
                return z3.BoolVal(holds)
            case y.Compare(op, left, right):
                of = self.type_of(left) or self.type_of(right) or "int"
                a, b = self.term(left, frame, bound, of), self.term(right, frame, bound, of)
                if op in ("=", "<>"):
                    return a == b if op == "=" else a != b
                return a < b if op == "<" else a <= b if op == "<=" else a > b if op == ">" else a >= b
            case y.Not(part):
                return z3.Not(self.holds(part, frame, bound, others))
            case y.And(parts):
                return z3.And([self.holds(p, frame, bound, others) for p in parts])
            case y.Or(parts):
                return z3.Or([self.holds(p, frame, bound, others) for p in parts])
            case y.Implies(left, right):
                return z3.Implies(self.holds(left, frame, bound, others), self.holds(right, frame, bound, others))
            case y.Iff(left, right):
                return self.holds(left, frame, bound, others) == self.holds(right, frame, bound, others)
            case y.If(condition, then, other):
                return z3.If(*(self.holds(p, frame, bound, others) for p in (condition, then, other)))
            case y.Quantified(kind, other, names, part):
                domain = [p for p in self.processes if not other or p not in others]
                each = [
                    self.holds(part, frame, {**bound, **dict(zip(names, p, strict=True))}, others)
                    for p in permutations(domain, len(names))
                ]
                return z3.And(each) if kind == "forall" else z3.Or(each)

    def initial(self, frame: Frame) -> Any:
        """The frame is one to start in."""
        names = self.system.init.names
        chosen = product(self.processes, repeat=len(names))
        return self.z3.And(
            [self.holds(self.system.init.formula, frame, dict(zip(names, p, strict=True))) for p in chosen]
        )

    def met(self, states: y.States, frame: Frame) -> Any:
        """The frame is one of these states, for some distinct processes."""
        chosen = permutations(self.processes, len(states.names))
        return self.z3.Or([self.holds(states.formula, frame, dict(zip(states.names, p, strict=True))) for p in chosen])

    def guard(self, t: y.Transition, chosen: Sequence[int], frame: Frame) -> Any:
        """A transition may happen."""
        return self.holds(t.requires, frame, dict(zip(t.parameters, chosen, strict=True)), chosen)

    def after(
        self, t: y.Transition, chosen: Sequence[int], frame: Frame, fresh: str
    ) -> tuple[Frame, list[Any], dict[str, Any]]:
        """The frame after a transition, as terms over the one before; what chosen values keep to, and those values."""
        z3, new, facts, open_ = self.z3, dict(frame), list[Any](), dict[str, Any]()
        bound = dict(zip(t.parameters, chosen, strict=True))
        for u in t.updates:
            of = self.system.type_of(u.name)
            if isinstance(u.value, y.Cases):
                for p in product(self.processes, repeat=len(u.indices)):
                    inner = {**bound, **dict(zip(u.indices, p, strict=True))}
                    made = None
                    for condition, value in reversed(u.value.cases):
                        term = self.term(value, frame, inner, of)
                        made = term if made is None else z3.If(self.holds(condition, frame, inner), term, made)
                    new[(u.name, *p)] = made
                continue
            place = (u.name, *(self.process(i, bound) for i in u.indices))
            if isinstance(u.value, y.Anything):
                term = z3.Const(f"{fresh}.{u.name}", self.sort(of))
                values = self.system.values(of)
                if of == "proc":
                    facts += [] if self.open else [z3.Or([term == self.process_value(q) for q in self.process_values])]
                elif of != "bool" and values:
                    facts.append(z3.ULE(term, len(values) - 1))
                open_[u.name] = term
                new[place] = term
            else:
                new[place] = self.term(u.value, frame, bound, of)
        return new, facts, open_


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
    """How many of its parts are about all processes."""
    return sum(isinstance(part, Quantified) for part in _parts(states.formula))


def _understood(states: States) -> bool:
    """Whether a quantifier is only where the above holds: a *for all* of one process, where none is
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
    from pellucid.capacity.arrays.system import Cell, Compare, Sum

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
