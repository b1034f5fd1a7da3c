"""The meaning of the language, literally: a system with a given number of processes, one state after another.

Nothing here is clever, and no engine imports it: a run that an engine found is believed when this interpreter makes
it, and small systems are explored here to judge the engines.  A state is a tuple of values, one for each cell:
constructors as text, processes as numbers, numbers as fractions; values of a type without constructors are numbers
that are only compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, product
from typing import Any, TypeAlias

from pellucid.capacity.arrays.language import system as y

Datum: TypeAlias = "str | int | Fraction"
Place: TypeAlias = tuple[Any, ...]  # the name of a symbol and processes
State: TypeAlias = tuple[Datum, ...]


@dataclass(frozen=True)
class Step:
    """A step of a run: a transition, its processes, and what was chosen for values that nobody knows."""

    transition: str
    processes: tuple[int, ...]
    chosen: tuple[tuple[str, Datum], ...] = ()

    def __str__(self) -> str:
        extra = "".join(f" {name}:={_shown(value)}" for name, value in self.chosen)
        return f"{self.transition}({', '.join(f'#{p}' for p in self.processes)}){extra}"


def _shown(value: Datum) -> str:
    if isinstance(value, Fraction):
        return str(value)
    return value if isinstance(value, str) else f"#{value}"


@dataclass(frozen=True)
class Instance:
    """A system with ``count`` processes, as a machine; ``begin`` is where a run starts.

    ``numbers`` are the numbers that may be chosen where any may be; a search needs them, a replay brings its own.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("var T : proc array X[proc] : bool init (z) { X[z] = False && T = #1 }"
    ...               "unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition go (x) requires { T = x } { X[x] := True; T := . }")
    >>> two = Instance(s, 2)
    >>> (begin,) = two.initials()
    >>> [(str(step), two.see(then)) for step, then in two.steps(begin)][1]
    ('go(#1) T:=#2', {'T': '#2', 'X[#1]': 'True', 'X[#2]': 'False'})
    """

    system: y.System
    count: int
    begin: State | None = None
    numbers: tuple[Fraction, ...] = (Fraction(0), Fraction(1))
    first: int = 1
    places: tuple[Place, ...] = field(init=False)
    at: Mapping[Place, int] = field(init=False)

    def __post_init__(self) -> None:
        places: list[Place] = [(name,) for name, _ in (*self.system.constants, *self.system.variables)]
        for name, dimensions, _ in self.system.arrays:
            places += [(name, *p) for p in product(self.processes, repeat=dimensions)]
        object.__setattr__(self, "places", tuple(places))
        object.__setattr__(self, "at", {place: i for i, place in enumerate(places)})

    @property
    def processes(self) -> range:
        """The processes."""
        return range(self.first, self.first + self.count)

    # meaning

    def process(self, name: str, bound: Mapping[str, int]) -> int:
        """Which process a name is."""
        return int(name[1:]) if name.startswith("#") else bound[name]

    def value(self, term: y.Term, state: State, bound: Mapping[str, int]) -> Datum:
        """What a term is in a state."""
        match term:
            case y.Number(value, _):
                return value
            case y.Value(name):
                return name
            case y.Process(name):
                return self.process(name, bound)
            case y.Cell(name, indices):
                return state[self.at[(name, *(self.process(i, bound) for i in indices))]]
            case y.Sum(parts, constant):
                return constant + sum(factor * Fraction(self.value(c, state, bound)) for factor, c in parts)

    def holds(self, formula: y.Formula, state: State, bound: Mapping[str, int], others: Sequence[int] = ()) -> bool:
        """Whether a formula is true in a state; ``others`` are the parameters that an ``_other`` leaves out."""
        match formula:
            case y.Truth(holds):
                return holds
            case y.Compare(op, left, right):
                a: Any = self.value(left, state, bound)
                b: Any = self.value(right, state, bound)
                return bool(
                    a == b if op == "=" else a != b if op == "<>" else a < b if op == "<"
                    else a <= b if op == "<=" else a > b if op == ">" else a >= b
                )  # fmt: skip
            case y.Not(part):
                return not self.holds(part, state, bound, others)
            case y.And(parts):
                return all(self.holds(p, state, bound, others) for p in parts)
            case y.Or(parts):
                return any(self.holds(p, state, bound, others) for p in parts)
            case y.Implies(left, right):
                return not self.holds(left, state, bound, others) or self.holds(right, state, bound, others)
            case y.Iff(left, right):
                return self.holds(left, state, bound, others) == self.holds(right, state, bound, others)
            case y.If(condition, then, other):
                chosen = then if self.holds(condition, state, bound, others) else other
                return self.holds(chosen, state, bound, others)
            case y.Quantified(kind, other, names, part):
                domain = [p for p in self.processes if not other or p not in others]
                each = (
                    self.holds(part, state, {**bound, **dict(zip(names, chosen, strict=True))}, others)
                    for chosen in permutations(domain, len(names))
                )
                return all(each) if kind == "forall" else any(each)

    def initial(self, state: State) -> bool:
        """Whether a run may start here: for all processes, which may be the same one."""
        names = self.system.init.names
        return all(
            self.holds(self.system.init.formula, state, dict(zip(names, chosen, strict=True)))
            for chosen in product(self.processes, repeat=len(names))
        )

    def met(self, states: y.States, state: State) -> tuple[int, ...] | None:
        """Distinct processes for which a state is one of these."""
        for chosen in permutations(self.processes, len(states.names)):
            if self.holds(states.formula, state, dict(zip(states.names, chosen, strict=True))):
                return chosen
        return None

    def unsafe(self, state: State) -> int | None:
        """Which of the unsafe states this is, if any."""
        for i, states in enumerate(self.system.unsafe):
            if self.met(states, state) is not None:
                return i
        return None

    def enabled(self, t: y.Transition, chosen: Sequence[int], state: State) -> bool:
        """Whether a transition may happen for these processes."""
        bound = dict(zip(t.parameters, chosen, strict=True))
        return len(set(chosen)) == len(chosen) and self.holds(t.requires, state, bound, chosen)

    def after(self, t: y.Transition, chosen: Sequence[int], state: State, known: Mapping[str, Datum]) -> State:
        """The state after a transition; ``known`` are the values that were chosen."""
        bound, new = dict(zip(t.parameters, chosen, strict=True)), list(state)
        for update in t.updates:
            for place, value in self._written(update, state, bound, known):
                new[self.at[place]] = value
        return tuple(new)

    def _written(
        self, update: y.Update, state: State, bound: Mapping[str, int], known: Mapping[str, Datum]
    ) -> Iterator[tuple[Place, Datum]]:
        if isinstance(update.value, y.Cases):
            for chosen in product(self.processes, repeat=len(update.indices)):
                inner = {**bound, **dict(zip(update.indices, chosen, strict=True))}
                for condition, value in update.value.cases:
                    if self.holds(condition, state, inner):
                        yield (update.name, *chosen), self.value(value, state, inner)
                        break
            return
        place = (update.name, *(self.process(i, bound) for i in update.indices))
        yield (
            place,
            known[update.name] if isinstance(update.value, y.Anything) else self.value(update.value, state, bound),
        )

    # as a machine

    def domain(self, of: str) -> Sequence[Datum]:
        """The values of a type, as far as they are tried."""
        if of == "proc":
            return [*self.processes, *([0] if self.system.outsiders else [])]
        return self.system.values(of) or self.numbers

    def start(self) -> State:
        """Where the run starts."""
        assert self.begin is not None, "an instance that is run needs a state to begin in"
        return self.begin

    def steps(self, at: State, *, failures: bool = True) -> Iterator[tuple[Step, State]]:
        """All steps from a state."""
        for t, label in zip(self.system.transitions, self.system.labels, strict=True):
            open_ = [u.name for u in t.updates if isinstance(u.value, y.Anything)]
            for chosen in permutations(self.processes, len(t.parameters)):
                if self.enabled(t, chosen, at):
                    for values in product(*(self.domain(self.system.type_of(n)) for n in open_)):
                        known = dict(zip(open_, values, strict=True))
                        yield Step(label, chosen, tuple(known.items())), self.after(t, chosen, at, known)

    def see(self, at: State) -> Any:
        """Every cell."""
        seen = {}
        for (name, *indices), value in zip(self.places, at, strict=True):
            of = self.system.type_of(name)
            text = ("outside" if value == 0 and self.system.outsiders else f"#{value}") if of == "proc" else str(value)
            seen[f"{name}[{','.join(f'#{i}' for i in indices)}]" if indices else name] = text
        return seen

    def complete(self, at: State) -> bool:
        """A run may end anywhere."""
        return True

    def initials(self) -> Iterator[State]:
        """All states to start in, over `domain`: what ``init`` says of a cell is put in first, the rest is tried."""
        fixed: dict[Place, Datum] = {}
        names = self.system.init.names
        for chosen in product(self.processes, repeat=len(names)):
            bound = dict(zip(names, chosen, strict=True))
            for part in _conjuncts(self.system.init.formula):
                match part:
                    case y.Compare("=", y.Cell(name, indices), (y.Number() | y.Value() | y.Process()) as known):
                        fixed[(name, *(self.process(i, bound) for i in indices))] = self.value(known, (), bound)
                    case _:
                        pass
        choices = [[fixed[p]] if p in fixed else self.domain(self.system.type_of(p[0])) for p in self.places]
        yield from (state for state in product(*choices) if self.initial(state))


def _conjuncts(formula: y.Formula) -> Iterator[y.Formula]:
    if isinstance(formula, y.And):
        for part in formula.parts:
            yield from _conjuncts(part)
    else:
        yield formula


def explore(
    instance: Instance, begins: Iterable[State], most: int
) -> tuple[dict[State, tuple[State, Step] | None], State | None]:
    """Breadth first from some states until an unsafe one, nearest first; no more than ``most`` states are kept."""
    parents: dict[State, tuple[State, Step] | None] = dict.fromkeys(begins)
    waiting = list(parents)
    for state in waiting:
        if instance.unsafe(state) is not None:
            return parents, state
        if len(parents) > most:
            continue
        for step, then in instance.steps(state):
            if then not in parents:
                parents[then] = state, step
                waiting.append(then)
    return parents, None
