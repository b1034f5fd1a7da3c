"""Array-based systems as data: what Cubicle's language says, and nothing that an engine needs.

A system has *processes*, nobody knows how many; global variables, and arrays with a cell for each process (or for each
two).  A transition has processes as parameters, **distinct ones**, a guard and updates that happen at once.  ``init``
holds for all processes (here two names may mean the same one); ``unsafe`` and ``invariant`` say what must not be
reached for any *distinct* processes: an invariant is written as the bad states, as Cubicle does.

Everything is frozen and compares by value, without the places in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

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
    """A value that nobody knows."""


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
        """Whether ``init`` says of a variable that it is none of the processes (``Home <> p``): then it is somebody
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
