"""The states that a few processes really reach: found forwards, a whole level at a time, as columns of numbers.

It guides the search backwards (`backward`): a part of a cube that no such state is in is worth a guess.  It need not
be complete, and for numbers it is not: it stops at a number of states.  Reals are tried as whole numbers, or left out
where the text has fractions (a condition on them counts as true); a type without constructors has two values.  Nothing
is proved here.  An unsafe state that is found here gives a run, which is then replayed like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pellucid.capacity.arrays import system as y
from pellucid.capacity.arrays.cubes import Cube, Layout, Place
from pellucid.capacity.arrays.formulas import possible_values
from pellucid.internal.model.search import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns: TypeAlias = "dict[Place, NDArray[Any]]"
_INTEGERS = range(-1, 3)  # tried where a number has no value at the start
_MOST_STARTS = 60_000


def countable(system: y.System) -> bool:
    """Whether all numbers of a text are whole: then a few processes are tried with whole numbers, also for reals."""
    whole = [
        t.value if isinstance(t, y.Number) else t.constant for t in y.terms(system) if isinstance(t, (y.Number, y.Sum))
    ]
    return all(value.denominator == 1 for value in whole)


class Unknown(Exception):  # noqa: N818 - no mistake
    """A value that is left out."""


class Oracle:
    """States of a system with so many processes, at most so many states.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x) { X[x] = True }"
    ...               "transition go (x) requires { forall_other y. X[y] = False } { X[x] := True }")
    >>> oracle = Oracle(s, 2)
    >>> oracle.explore(Budget(), 1000)
    >>> oracle.states, oracle.complete, oracle.unsafe_at
    (3, False, 1)
    """

    def __init__(self, system: y.System, processes: int) -> None:
        self.system, self.processes = system, processes
        self.values = possible_values(system)
        self.counts = countable(system)
        self.columns: Columns = {}
        self.levels: list[int] = []  # where each level begins
        self.complete = False
        self.exact = not any(of == "real" for _, of in system.symbols.values())
        self.unsafe_at: int | None = None  # the level of the first unsafe state
        self._chunks: list[Columns] = []
        self._sets: dict[tuple[Place, int] | tuple[Any, ...], int] = {}

    @property
    def states(self) -> int:
        """How many."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def _left_out(self, name: str) -> bool:
        return self.system.type_of(name) == "real" and not self.counts

    def _places(self) -> list[Place]:
        out: list[Place] = []
        for name, (dimensions, _) in self.system.symbols.items():
            if not self._left_out(name):
                out += [(name, *p) for p in product(range(1, self.processes + 1), repeat=dimensions)]
        return out

    # values, a column at a time

    def _process(self, name: str, bound: Mapping[str, int]) -> int:
        return int(name[1:]) if name.startswith("#") else bound[name]

    def _cell(self, cell: y.Cell, columns: Columns, bound: Mapping[str, int]) -> NDArray[Any]:
        found = columns.get((cell.name, *(self._process(i, bound) for i in cell.indices)))
        if found is None:
            raise Unknown
        return found

    def _value(self, term: y.Term, columns: Columns, bound: Mapping[str, int], of: str) -> Any:
        match term:
            case y.Number(value, _):
                if value.denominator != 1:
                    raise Unknown
                return int(value)
            case y.Value(name):
                return self.system.values(of).index(name)
            case y.Process(name):
                return self._process(name, bound)
            case y.Cell(_, _):
                return self._cell(term, columns, bound)
            case y.Sum(parts, constant):
                if constant.denominator != 1 or any(f.denominator != 1 for f, _ in parts):
                    raise Unknown
                return sum(
                    (int(f) * self._cell(c, columns, bound).astype(np.int64) for f, c in parts), np.int64(int(constant))
                )

    def _type(self, *terms: y.Term) -> str:
        for term in terms:
            match term:
                case y.Cell(name):
                    return self.system.type_of(name)
                case y.Sum(((_, y.Cell(name)), *_)):
                    return self.system.type_of(name)
                case y.Process():
                    return "proc"
                case _:
                    pass
        for term in terms:
            if isinstance(term, y.Value):
                return next(n for n, values in (("bool", ("False", "True")), *self.system.types) if term.name in values)
        return "int"

    def _holds(
        self, formula: y.Formula, columns: Columns, bound: Mapping[str, int], chosen: Sequence[int], size: int
    ) -> Any:
        """A column of truths, or one truth for all; what is left out counts as true, whether it is negated or not."""
        return self._truth(formula, columns, bound, chosen, False)

    def _truth(
        self, formula: y.Formula, columns: Columns, bound: Mapping[str, int], chosen: Sequence[int], no: bool
    ) -> Any:
        match formula:
            case y.Truth(holds):
                return holds != no
            case y.Compare(op, left, right):
                of = self._type(left, right)
                try:
                    a, b = self._value(left, columns, bound, of), self._value(right, columns, bound, of)
                except Unknown:
                    return True
                found: Any = (
                    a == b if op == "=" else a != b if op == "<>" else a < b if op == "<"
                    else a <= b if op == "<=" else a > b if op == ">" else a >= b
                )  # fmt: skip
                return (not found if isinstance(found, bool) else ~found) if no else found
            case y.Not(part):
                return self._truth(part, columns, bound, chosen, not no)
            case y.And(parts) | y.Or(parts):
                return self._join(
                    isinstance(formula, y.And) != no, (self._truth(p, columns, bound, chosen, no) for p in parts)
                )
            case y.Implies(left, right):
                return self._truth(y.Or((y.Not(left), right)), columns, bound, chosen, no)
            case y.Iff(left, right):
                return self._truth(
                    y.And((y.Or((y.Not(left), right)), y.Or((left, y.Not(right))))), columns, bound, chosen, no
                )
            case y.If(c, then, other):
                return self._truth(y.And((y.Or((y.Not(c), then)), y.Or((c, other)))), columns, bound, chosen, no)
            case y.Quantified(kind, other, names, part):
                domain = [p for p in range(1, self.processes + 1) if not other or p not in chosen]
                each = (
                    self._truth(part, columns, {**bound, **dict(zip(names, p, strict=True))}, chosen, no)
                    for p in permutations(domain, len(names))
                )
                return self._join((kind == "forall") != no, each)

    @staticmethod
    def _join(all_: bool, parts: Any) -> Any:
        out: Any = all_
        for p in parts:
            if isinstance(p, (bool, np.bool_)):
                if bool(p) != all_:
                    return not all_
            elif isinstance(out, bool):
                out = p
            else:
                out = out & p if all_ else out | p
        return out

    # levels

    def _start(self) -> Columns:
        """The states before the first step: what ``init`` fixes, and all choices for the rest."""
        fixed: dict[Place, int] = {}
        names = self.system.init.names
        all_processes = range(1, self.processes + 1)
        conjuncts = _conjuncts(self.system.init.formula)
        for p in product(all_processes, repeat=len(names)):
            bound = dict(zip(names, p, strict=True))
            for part in conjuncts:
                match part:
                    case y.Compare("=", y.Cell(name, indices), (y.Number() | y.Value() | y.Process()) as term):
                        if not self._left_out(name):
                            at = (name, *(self._process(i, bound) for i in indices))
                            try:
                                fixed[at] = int(self._value(term, {}, bound, self.system.type_of(name)))
                            except Unknown:
                                continue
                    case _:
                        pass
        choices: list[list[int]] = []
        total = 1
        places = self._places()
        for place in places:
            of = self.system.type_of(place[0])
            if place in fixed:
                options = [fixed[place]]
            elif of == "proc":
                options = [*([0] if self.system.outsiders else []), *all_processes]
            elif not self.system.values(of):
                options = list(_INTEGERS) if of in y.NUMBERS else [0, 1]
                self.exact = False
            else:
                known = self.system.values(of)
                options = [known.index(v) for v in self.values[place[0]]]
            if total * len(options) > _MOST_STARTS:
                options = options[:1]
                self.exact = False
            total *= len(options)
            choices.append(options)
        grid = np.array(list(product(*choices)), dtype=np.int64).reshape(total, len(places))
        columns: Columns = {p: np.ascontiguousarray(grid[:, i]).astype(self._dtype(p[0])) for i, p in enumerate(places)}
        keep: Any = True
        for p in product(all_processes, repeat=len(names)):
            bound = dict(zip(names, p, strict=True))
            keep = self._join(True, [keep, self._holds(self.system.init.formula, columns, bound, (), total)])
        if isinstance(keep, (bool, np.bool_)):
            return columns if keep else {p: c[:0] for p, c in columns.items()}
        return {p: c[keep] for p, c in columns.items()}

    def _dtype(self, name: str) -> Any:
        return np.int64 if self.system.type_of(name) in y.NUMBERS else np.int8

    def _key(self, columns: Columns) -> NDArray[np.uint64]:
        """A number for each state (by hashing: two states with one number would only make the oracle know less)."""
        out: Any = None
        for column in columns.values():
            with np.errstate(over="ignore"):
                mixed = (out * np.uint64(0x9E3779B97F4A7C15)) if out is not None else np.uint64(0x1234567)
                out = mixed + (column.astype(np.uint64) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
                out = out ^ (out >> np.uint64(29))
        if out is None:
            return np.zeros(1, np.uint64)
        return np.asarray(out)

    def explore(self, budget: Budget, most: int, *, deepest: int = 10_000) -> None:
        """Go forwards, level by level, until nothing is new, an unsafe state is there, or there are too many."""
        level = self._start()
        keys = np.unique(self._key(level))
        _, first = np.unique(self._key(level), return_index=True)
        level = {p: c[first] for p, c in level.items()}
        self._chunks = [level]
        known = keys
        self.labels: list[tuple[int, tuple[int, ...]]] = []
        self._parents, self._steps = [np.full(len(first), -1, np.int64)], [np.full(len(first), -1, np.int32)]
        self._label_of: dict[tuple[int, tuple[int, ...]], int] = {}
        self.levels = [0, len(first)]
        while True:
            if self._unsafe(level):
                self.unsafe_at = len(self.levels) - 2
                break
            if len(self.levels) - 2 >= deepest:
                break
            new = self._after(level, budget, known)
            if new is None:
                self.complete = True
                break
            fresh, level, parents, steps = new
            self._parents.append(parents + self.levels[-2])
            self._steps.append(steps)
            known = np.concatenate([known, fresh])
            known.sort()
            self._chunks.append(level)
            self.levels.append(self.levels[-1] + len(fresh))
            budget.look(self.levels[-1], len(fresh))
            if self.levels[-1] > most:
                break
        self.settle()

    def settle(self) -> None:
        """All levels that are there, also if the time was up before the last one."""
        chunks = self._chunks
        self.columns = {p: np.concatenate([c[p] for c in chunks]) for p in chunks[0]} if chunks else {}
        self._sets.clear()

    def way(self) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
        """The steps to the first unsafe state, and which unsafe states it is in."""
        assert self._found is not None
        row, unsafe = self._found
        parents, steps = np.concatenate(self._parents), np.concatenate(self._steps)
        at, out = row + self.levels[-2], list[tuple[int, tuple[int, ...]]]()
        while parents[at] >= 0:
            out.append(self.labels[steps[at]])
            at = int(parents[at])
        return out[::-1], unsafe

    def _unsafe(self, level: Columns) -> bool:
        self._found: tuple[int, int] | None = None
        for i, states in enumerate(self.system.unsafe):
            for p in permutations(range(1, self.processes + 1), len(states.names)):
                bound = dict(zip(states.names, p, strict=True))
                if self._about_reals(states.formula):
                    continue  # unknown
                found = self._holds(states.formula, level, bound, (), 0)
                if found is True or (not isinstance(found, bool) and bool(np.any(found))):
                    self._found = (0 if found is True else int(np.flatnonzero(found)[0])), i
                    return True
        return False

    def _about_reals(self, formula: y.Formula) -> bool:
        cells = [t for part in y.inside(formula) if isinstance(part, y.Compare) for t in (part.left, part.right)]
        named = [
            c.name
            for t in cells
            for c in ([t] if isinstance(t, y.Cell) else [p for _, p in t.parts] if isinstance(t, y.Sum) else [])
        ]
        return any(self._left_out(n) for n in named)

    def _after(self, level: Columns, budget: Budget, known: NDArray[np.uint64]) -> tuple[Any, ...] | None:
        size = len(next(iter(level.values()))) if level else 0
        parts: list[Columns] = []
        found = np.zeros(0, np.uint64)
        parents, steps = list[Any](), list[Any]()
        for number, t in enumerate(self.system.transitions):
            for chosen in permutations(range(1, self.processes + 1), len(t.parameters)):
                bound = dict(zip(t.parameters, chosen, strict=True))
                mask = self._holds(t.requires, level, bound, chosen, size)
                if isinstance(mask, (bool, np.bool_)):
                    if not mask:
                        continue
                    at: Any = np.arange(size)
                else:
                    at = np.flatnonzero(mask)
                    if not len(at):
                        continue
                sub = {p: c[at] for p, c in level.items()}
                for new in self._updated(t.updates, sub, bound):
                    keys = self._key(new)
                    keys, index = np.unique(keys, return_index=True)
                    unseen = ~_isin(keys, known)
                    if len(found):
                        unseen &= ~_isin(keys, found)
                    if unseen.any():
                        index = index[unseen]
                        label = self._label_of.setdefault((number, chosen), len(self._label_of))
                        if label == len(self.labels):
                            self.labels.append((number, chosen))
                        parents.append(at[index])
                        steps.append(np.full(len(index), label, np.int32))
                        parts.append({p: c[index] for p, c in new.items()})
                        found = np.concatenate([found, keys[unseen]])
                        found.sort()
            budget.look(len(known) + len(found), size)
        if not parts:
            return None
        joined = {p: np.concatenate([q[p] for q in parts]) for p in parts[0]}
        return found, joined, np.concatenate(parents), np.concatenate(steps)

    def _updated(self, updates: Sequence[Any], sub: Columns, bound: Mapping[str, int]) -> list[Columns]:
        size = len(next(iter(sub.values()))) if sub else 0
        new, options = dict(sub), list[tuple[Place, list[int]]]()
        for u in updates:
            if self._left_out(u.name):
                continue
            of, kind = self.system.type_of(u.name), self._dtype(u.name)
            if isinstance(u.value, y.Cases):
                for p in product(range(1, self.processes + 1), repeat=len(u.indices)):
                    place, inner = (u.name, *p), {**bound, **dict(zip(u.indices, p, strict=True))}
                    new[place] = self._cases(u.value, sub, inner, of, kind, size)
            else:
                place = (u.name, *(self._process(i, bound) for i in u.indices))
                if isinstance(u.value, y.Anything):
                    known = self.system.values(of)
                    self.exact = self.exact and (of == "proc" or bool(known))
                    every = (
                        list(range(1, self.processes + 1))
                        if of == "proc"
                        else list(_INTEGERS)
                        if of == "int"
                        else [0, 1]
                    )
                    options.append((place, [known.index(v) for v in self.values[u.name]] if known else every))
                else:
                    value = self._value(u.value, sub, bound, of)
                    new[place] = np.full(size, value, kind) if np.isscalar(value) else np.asarray(value).astype(kind)
        if not options:
            return [new]
        return [
            {
                **new,
                **{
                    place: np.full(size, v, self._dtype(place[0]))
                    for (place, _), v in zip(options, values, strict=True)
                },
            }
            for values in product(*(o for _, o in options))
        ]

    def _cases(self, cases: y.Cases, sub: Columns, inner: Mapping[str, int], of: str, kind: Any, size: int) -> Any:
        out: Any = None
        for condition, term in reversed(cases.cases):
            holds = self._holds(condition, sub, inner, (), size)
            if holds is False:
                continue
            value = self._value(term, sub, inner, of)
            if holds is True or out is None:
                out = np.full(size, value, kind) if np.isscalar(value) else np.asarray(value).astype(kind)
            else:
                out = np.where(holds, value, out).astype(kind)
        return out

    # questions

    def reached(self, states: y.States) -> bool:
        """Whether some state is one of these, as far as it is known; a quantifier goes over all processes."""
        for p in permutations(range(1, self.processes + 1), len(states.names)):
            found = self._truth(states.formula, self.columns, dict(zip(states.names, p, strict=True)), (), False)
            if bool(found) if isinstance(found, (bool, np.bool_)) else bool(np.any(found)):
                return True
        return False

    def seen(self, cube: Cube, layout: Layout) -> bool:
        """Whether some state is in a cube, as far as it is known."""
        names = [tuple(range(1, cube.width + 1))]
        if any(v[0] == "#" for a in cube.atoms for v, _ in a[2]):
            names = list(layout.embeddings(cube.width, self.processes))
        for to in names:
            named = layout.rename(cube, to, self.processes) if to != tuple(range(1, cube.width + 1)) else cube
            found = (1 << self.states) - 1
            for f, excluded in layout.touched(named.bits):
                found &= self._set(f.place, excluded, layout)
                if not found:
                    break
            if found:
                for a in named.atoms:
                    found &= self._atom_set(a)
            if found:
                return True
        return False

    def _set(self, place: Place, excluded: int, layout: Layout) -> int:
        key = (place, excluded)
        if key not in self._sets:
            column = self.columns[place]
            allowed = np.zeros(256, bool)
            if place[0] in layout.is_process:
                for p in range(self.processes + 1):
                    allowed[p] = not excluded >> p & 1
            else:
                known = self.system.values(self.system.type_of(place[0]))
                for i, v in enumerate(layout.values[place[0]]):
                    allowed[known.index(v)] = not excluded >> i & 1
            self._sets[key] = _bits(allowed[column])
        return self._sets[key]

    def _atom_set(self, a: Any) -> int:
        if a not in self._sets:
            op, number, factors = a
            total: Any = np.full(self.states, number, np.int32)
            for v, c in factors:
                if v[0] != "#" and self._left_out(v[0]):
                    self._sets[a] = (1 << self.states) - 1
                    return self._sets[a]
                total = total + c * (v[1] if v[0] == "#" else self.columns[v].astype(np.int32))
            self._sets[a] = _bits(
                total <= 0 if op == 0 else total < 0 if op == 1 else total == 0 if op == 2 else total != 0
            )
        return self._sets[a]


def _bits(truth: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(truth, bitorder="little").tobytes(), "little")


def _isin(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each key is among sorted ones."""
    at = np.searchsorted(known, keys)
    at[at == len(known)] = 0
    return np.asarray(known[at] == keys) if len(known) else np.zeros(len(keys), bool)


def _conjuncts(formula: y.Formula) -> list[y.Formula]:
    if isinstance(formula, y.And):
        return [c for p in formula.parts for c in _conjuncts(p)]
    return [formula]


class Guesses:
    """An oracle for cubes of one layout."""

    def __init__(self, oracle: Oracle, layout: Layout) -> None:
        self.oracle, self.layout, self.processes = oracle, layout, oracle.processes

    def seen(self, cube: Cube) -> bool:
        """Whether a state of the cube is reached."""
        return self.oracle.seen(cube, self.layout)


__all__ = ["Fraction", "Guesses", "Oracle"]
