"""The syntax of the model (Figures 5 and 7) and the steps of traces (Definition 6.1), as immutable values.

Each can be hashed and compared, and prints as the paper writes it.  `pellucid.failures.model` has the rules, and all
of these names as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Map(Mapping[K, V], Generic[K, V]):
    """A finite function [k ↦ t]: a mapping that cannot be changed and can be hashed (section 2.4).

    >>> a0 = Map({0: 0})
    >>> a0.updated({1: 1}), a0
    ([0 ↦ 0, 1 ↦ 1], [0 ↦ 0])
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(items)
        self._hash: int | None = None

    def updated(self, g: Mapping[K, V]) -> Map[K, V]:
        """The function update *f g*: g where g is defined, this elsewhere."""
        return Map({**self._items, **g})

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and (self is other or self._items == other._items)

    def __repr__(self) -> str:
        return f"[{', '.join(f'{k} ↦ {v}' for k, v in self._items.items())}]"

    def __reduce__(self) -> Any:  # a hash of texts is of one process only
        return Map, (self._items,)


# ---------------------------------------------------------------- syntax (Figures 5 and 7)


@dataclass(frozen=True, slots=True)
class EV:
    """A normal event EV(w)."""

    w: Any

    def __repr__(self) -> str:
        return f"EV({self.w!r})"


@dataclass(frozen=True, slots=True)
class _Border:
    def __repr__(self) -> str:
        return "BD"

    def __reduce__(self) -> str:  # there is one, also after pickling
        return "BD"


BD: Final = _Border()  # an epoch border

Data = EV | _Border


@dataclass(frozen=True, slots=True)
class Message:
    """A message n s ⟨e, d⟩: number n on stream s, of epoch e."""

    n: int
    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"{self.n} {self.s} ⟨{self.e}, {self.d}⟩"


@dataclass(frozen=True, slots=True)
class Produce:
    """The action + s ⟨e, d⟩."""

    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"+{self.s} ⟨{self.e}, {self.d}⟩"


@dataclass(frozen=True, slots=True)
class Consume:
    """The action − s ⟨e, d⟩."""

    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"-{self.s} ⟨{self.e}, {self.d}⟩"


Actions = tuple[Produce | Consume, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task TK⟨f, S, o⟩ with f(v, w) = (v', outputs); f is pure and its values can be hashed."""

    f: Callable[[Any, Any], tuple[Any, Sequence[Any]]]
    inputs: tuple[str, ...]
    output: str

    def __repr__(self) -> str:
        return f"TK⟨{getattr(self.f, '__name__', 'f')}, [{', '.join(self.inputs)}], {self.output}⟩"


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal volatile state ⟨e, v⟩."""

    e: int
    v: Any

    def __repr__(self) -> str:
        return f"⟨{self.e}, {self.v!r}⟩"


@dataclass(frozen=True, slots=True)
class _Failed:
    def __repr__(self) -> str:
        return "fl"

    def __reduce__(self) -> str:
        return "FL"


FL: Final = _Failed()  # the volatile state of a failed task


@dataclass(frozen=True, slots=True)
class State:
    """A task's state ⟨a, σV⟩: the archive of snapshots, which survives, and the volatile state."""

    archive: Map[int, Any]
    volatile: Normal | _Failed

    def __repr__(self) -> str:
        return f"⟨{self.archive}, {self.volatile}⟩"


Numbers = Map[str, int]  # N_p: the next number of a task on each of its streams
Messages = frozenset[Message]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration ⟨Π, Σ, N, M, D⟩; D is the logged input M0."""

    Pi: Map[str, Task]
    Sigma: Map[str, State]
    N: Map[str, Numbers]
    M: Messages
    D: Messages

    def __hash__(self) -> int:  # Π and D are the same in all configurations of an execution
        return hash((self.Sigma, self.N, self.M))


# ---------------------------------------------------------------- trace steps (Definition 6.1): the labels of steps


@dataclass(frozen=True, slots=True)
class _TaskStep:
    p: str
    N: Numbers
    X: Actions

    def __str__(self) -> str:
        return "  ".join([f"{RULE[type(self)]} {self.p}", *map(str, self.X)])

    @property
    def epoch(self) -> int:
        """The epoch of the step: that of the messages it consumes."""
        return self.X[0].e


@dataclass(frozen=True, slots=True, repr=True)
class IEvent(_TaskStep):
    """⟨I-EVENT, p, N_p, X⟩."""

    __str__ = _TaskStep.__str__


@dataclass(frozen=True, slots=True)
class IBorder(_TaskStep):
    """⟨I-BORDER, p, N_p, X⟩."""

    __str__ = _TaskStep.__str__


@dataclass(frozen=True, slots=True)
class FFail:
    """⟨F-FAIL, p⟩."""

    p: str

    def __str__(self) -> str:
        return f"F-FAIL {self.p}"


@dataclass(frozen=True, slots=True)
class FRecover:
    """⟨F-RECOVER⟩."""

    def __str__(self) -> str:
        return "F-RECOVER"


TraceStep = IEvent | IBorder | FFail | FRecover
RULE: Final[dict[type, str]] = {IEvent: "I-EVENT", IBorder: "I-BORDER", FFail: "F-FAIL", FRecover: "F-RECOVER"}
