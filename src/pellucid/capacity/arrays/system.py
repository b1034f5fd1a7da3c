"""Cubicle's language: what a system is (`system`), how it is read, written and literally run (`interpreter`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import permutations, product
from typing import Any, Literal, TypeAlias

# Array-based systems as data: what Cubicle's language says, and nothing that an engine needs.
#
# A system has an unknown number of *processes*; global variables, and arrays with a cell for each process (or for each
# two).  A transition has processes as parameters, **distinct ones**, a guard and updates that happen at once. ``init``
# holds for all processes (here two names may mean the same one); ``unsafe`` and ``invariant`` say what must not be
# reached for any *distinct* processes: an invariant is written as the bad states, as Cubicle does.
#
# Everything is frozen and compares by value, without the places in the text.

BOOL = ("False", "True")
NUMBERS = ("int", "real")
Op: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Number:
    """A number that is written in the text."""

    value: Fraction
    real: bool = False


@dataclass(frozen=True)
class Value:
    """A constructor of an enumeration; True and False."""

    name: str


@dataclass(frozen=True)
class Process:
    """A process: the name of a parameter, or ``#1``, ``#2``, … for certain ones."""

    name: str


@dataclass(frozen=True)
class Cell:
    """A variable or constant (no indices), or a cell of an array: the indices are names of processes."""

    name: str
    indices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sum:
    """Numbers added up: each part with its factor, and a number at the end."""

    parts: tuple[tuple[Fraction, Cell], ...]
    constant: Fraction = Fraction(0)


Term: TypeAlias = Number | Value | Process | Cell | Sum


@dataclass(frozen=True)
class Truth:
    """True or false."""

    holds: bool


@dataclass(frozen=True)
class Compare:
    """Two terms."""

    op: Op
    left: Term
    right: Term


@dataclass(frozen=True)
class Not:
    """Not."""

    part: Formula


@dataclass(frozen=True)
class And:
    """All of them."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    """One of them."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Implies:
    """If, then."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Iff:
    """Both or none."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class If:
    """One or the other, by a condition."""

    condition: Formula
    then: Formula
    other: Formula


@dataclass(frozen=True)
class Quantified:
    """For all, or for some, processes: distinct from one another, and with ``other`` from the parameters, too."""

    kind: Literal["forall", "exists"]
    other: bool
    names: tuple[str, ...]
    part: Formula


Formula: TypeAlias = Truth | Compare | Not | And | Or | Implies | Iff | If | Quantified


@dataclass(frozen=True)
class Anything:
    """An unknown value."""


@dataclass(frozen=True)
class Cases:
    """The first case whose condition holds; the last one's always does."""

    cases: tuple[tuple[Formula, Term], ...]


@dataclass(frozen=True)
class Update:
    """What a variable or a cell becomes.  With `Cases` the indices are new names that stand for all processes; else
    they name the one cell that changes."""

    name: str
    indices: tuple[str, ...]
    value: Term | Cases | Anything
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Transition:
    """A step: for some distinct processes, if the guard holds, all updates at once."""

    name: str
    parameters: tuple[str, ...]
    requires: Formula
    updates: tuple[Update, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class States:
    """Some states: a formula about processes."""

    names: tuple[str, ...]
    formula: Formula
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class System:
    """A whole system.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool  init (z) { X[z] = False }  unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition t (x) { X[x] := True }")
    >>> s.type_of("X"), s.values("bool"), s.arity("X"), [t.name for t in s.transitions]
    ('bool', ('False', 'True'), 1, ['t'])
    """

    types: tuple[tuple[str, tuple[str, ...]], ...]  # no constructors: values that can only be compared
    constants: tuple[tuple[str, str], ...]
    variables: tuple[tuple[str, str], ...]
    arrays: tuple[tuple[str, int, str], ...]  # name, dimensions, type
    init: States
    unsafe: tuple[States, ...]
    invariants: tuple[States, ...]
    transitions: tuple[Transition, ...]
    processes: int | None = None  # at most so many (`number_procs`)
    source: str = field(default="", compare=False)

    @cached_property
    def symbols(self) -> Mapping[str, tuple[int, str]]:
        """Each symbol's dimensions and type."""
        found = {name: (0, of) for name, of in (*self.constants, *self.variables)}
        return found | {name: (count, of) for name, count, of in self.arrays}

    def type_of(self, name: str) -> str:
        """The type of a symbol's values."""
        return self.symbols[name][1]

    def arity(self, name: str) -> int:
        """How many indices a symbol has."""
        return self.symbols[name][0]

    @cached_property
    def _values(self) -> Mapping[str, tuple[str, ...]]:
        return {"bool": BOOL} | dict(self.types)

    def values(self, of: str) -> tuple[str, ...]:
        """The constructors of an enumeration; () for other types."""
        return self._values.get(of, ())

    @cached_property
    def rigid(self) -> int:
        """How many certain processes (``#1``, …) are named: the largest number."""
        return max((int(name[1:]) for name in _processes(self) if name.startswith("#")), default=0)

    @cached_property
    def outsiders(self) -> bool:
        """Whether ``init`` says of a variable that it is none of the processes (``Home <> p``): then it is a process
        outside, and a variable of type proc may be that one, 0."""
        for part in inside(self.init.formula):
            match part:
                case Compare("<>", Cell(_, ()), Process(p)) | Compare("<>", Process(p), Cell(_, ())):
                    if p in self.init.names:
                        return True
                case _:
                    pass
        return False

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What each transition is called in a run: its name; where several have one name, as they may, with their
        number behind it.

        >>> from pellucid.capacity.arrays import read_text
        >>> text = "var X : int init () { X = 0 } unsafe () { X = 2 } "
        >>> steps = "transition go () { X := 1 } transition go () { X := 2 } transition stay () { X := 0 }"
        >>> read_text(text + steps).labels
        ('go.1', 'go.2', 'stay')
        """
        names = [t.name for t in self.transitions]
        return tuple(
            name if names.count(name) == 1 else f"{name}.{names[: i + 1].count(name)}" for i, name in enumerate(names)
        )

    def constant(self, name: str) -> bool:
        """Whether a symbol never changes."""
        return any(name == known for known, _ in self.constants)


def formulas(system: System) -> Iterator[Formula]:
    """All formulas of a system that stand alone."""
    yield system.init.formula
    for states in (*system.unsafe, *system.invariants):
        yield states.formula
    for t in system.transitions:
        yield t.requires
        for update in t.updates:
            if isinstance(update.value, Cases):
                yield from (condition for condition, _ in update.value.cases)


def inside(formula: Formula) -> Iterator[Formula]:
    """A formula and all its parts."""
    yield formula
    match formula:
        case Not(part) | Quantified(_, _, _, part):
            yield from inside(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from inside(part)
        case Implies(a, b) | Iff(a, b):
            yield from inside(a)
            yield from inside(b)
        case If(a, b, c):
            for part in (a, b, c):
                yield from inside(part)
        case _:
            pass


def terms(system: System) -> Iterator[Term]:
    """All terms of a system."""
    for whole in formulas(system):
        for part in inside(whole):
            if isinstance(part, Compare):
                yield part.left
                yield part.right
    for t in system.transitions:
        for update in t.updates:
            if isinstance(update.value, Cases):
                yield from (value for _, value in update.value.cases)
            elif not isinstance(update.value, Anything):
                yield update.value
                if update.indices:
                    yield Cell(update.name, update.indices)


def processes_of(term: Term) -> Iterator[str]:
    """The names of processes in a term."""
    match term:
        case Process(name):
            yield name
        case Cell(_, indices):
            yield from indices
        case Sum(parts):
            for _, cell in parts:
                yield from cell.indices
        case _:
            pass


def _processes(system: System) -> Iterator[str]:
    for term in terms(system):
        yield from processes_of(term)


# The meaning of the language, literally: a system with a given number of processes, one state after another.
#
# Nothing here is clever, and no engine imports it: a run that an engine found is believed when this interpreter makes
# it, and small systems are explored here to judge the engines.  A state is a tuple of values, one for each cell:
# constructors as text, processes as numbers, numbers as fractions; values of a type without constructors are numbers
# that are only compared.

Datum: TypeAlias = "str | int | Fraction"
Place: TypeAlias = tuple[Any, ...]  # the name of a symbol and processes
State: TypeAlias = tuple[Datum, ...]


@dataclass(frozen=True)
class Step:
    """A step of a run: a transition, its processes, and what was chosen for unknown values."""

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

    system: System
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

    def value(self, term: Term, state: State, bound: Mapping[str, int]) -> Datum:
        """What a term is in a state."""
        match term:
            case Number(value, _):
                return value
            case Value(name):
                return name
            case Process(name):
                return self.process(name, bound)
            case Cell(name, indices):
                return state[self.at[(name, *(self.process(i, bound) for i in indices))]]
            case Sum(parts, constant):
                return constant + sum(factor * Fraction(self.value(c, state, bound)) for factor, c in parts)

    def holds(self, formula: Formula, state: State, bound: Mapping[str, int], others: Sequence[int] = ()) -> bool:
        """Whether a formula is true in a state; ``others`` are the parameters that an ``_other`` leaves out."""
        match formula:
            case Truth(holds):
                return holds
            case Compare(op, left, right):
                a: Any = self.value(left, state, bound)
                b: Any = self.value(right, state, bound)
                return bool(
                    a == b if op == "=" else a != b if op == "<>" else a < b if op == "<"
                    else a <= b if op == "<=" else a > b if op == ">" else a >= b
                )  # fmt: skip
            case Not(part):
                return not self.holds(part, state, bound, others)
            case And(parts):
                return all(self.holds(p, state, bound, others) for p in parts)
            case Or(parts):
                return any(self.holds(p, state, bound, others) for p in parts)
            case Implies(left, right):
                return not self.holds(left, state, bound, others) or self.holds(right, state, bound, others)
            case Iff(left, right):
                return self.holds(left, state, bound, others) == self.holds(right, state, bound, others)
            case If(condition, then, other):
                chosen = then if self.holds(condition, state, bound, others) else other
                return self.holds(chosen, state, bound, others)
            case Quantified(kind, other, names, part):
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

    def met(self, states: States, state: State) -> tuple[int, ...] | None:
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

    def enabled(self, t: Transition, chosen: Sequence[int], state: State) -> bool:
        """Whether a transition may happen for these processes."""
        bound = dict(zip(t.parameters, chosen, strict=True))
        return len(set(chosen)) == len(chosen) and self.holds(t.requires, state, bound, chosen)

    def after(self, t: Transition, chosen: Sequence[int], state: State, known: Mapping[str, Datum]) -> State:
        """The state after a transition; ``known`` are the values that were chosen."""
        bound, new = dict(zip(t.parameters, chosen, strict=True)), list(state)
        for update in t.updates:
            for place, value in self._written(update, state, bound, known):
                new[self.at[place]] = value
        return tuple(new)

    def _written(
        self, update: Update, state: State, bound: Mapping[str, int], known: Mapping[str, Datum]
    ) -> Iterator[tuple[Place, Datum]]:
        if isinstance(update.value, Cases):
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
            known[update.name] if isinstance(update.value, Anything) else self.value(update.value, state, bound),
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
            open_ = [u.name for u in t.updates if isinstance(u.value, Anything)]
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
                    case Compare("=", Cell(name, indices), (Number() | Value() | Process()) as known):
                        fixed[(name, *(self.process(i, bound) for i in indices))] = self.value(known, (), bound)
                    case _:
                        pass
        choices = [[fixed[p]] if p in fixed else self.domain(self.system.type_of(p[0])) for p in self.places]
        yield from (state for state in product(*choices) if self.initial(state))


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, And):
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
