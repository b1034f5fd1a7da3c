"""Events that a system does not know: any that a stream could have carried.

Behind the first events of a queue there are others, of which nothing is kept.  When one moves up it is guessed: an
event of the stream, computed as the stream computes it, from sources and state that may be anything.  Each guess is an
input of the system, in the form of a source of its own, so that every engine knows what to do with it; `only` takes
them out of a push again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import Slot, Variable
from pellucid.errors import PellucidError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.convert import tidy
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type

_MARK = " ~ "  # no id of a step or a source begins so


class NoGuessError(PellucidError):
    """An event depends on something whose values cannot be told."""


def is_guess(name: str) -> bool:
    """Whether a source is none of the pipeline, but a guess.

    >>> is_guess(" ~ join.0 behind 3: x"), is_guess("x")
    (True, False)
    """
    return name.startswith(_MARK)


class Guess:
    """The guesses of one system: sources beside its own, whose variables are numbered from ``mark`` on."""

    def __init__(
        self,
        domain: Domain,
        state: Sequence[Variable],
        inputs: Sequence[Variable],
        sources: Mapping[str, Type],
        first: int,
        mark: int,
    ) -> None:
        self.domain, self.state, self.real, self.types, self.first, self.mark = (
            domain,
            state,
            inputs,
            sources,
            first,
            mark,
        )
        self.sources: list[tuple[str, Type]] = []
        self.inputs: list[Variable] = []
        self._owner: list[tuple[Type, int]] = []  # of each input: the type of its source, and its place there
        self._stand_in: dict[
            str, tuple[Any, str]
        ] = {}  # of a source that is guessed: in which push, and for which source it stands
        self._copies = 0

    def source(self, name: str, t: Type) -> list[Expr]:
        """One more source: its presence and the leaves of its event."""
        name = f"{_MARK}{name}"
        while any(name == known for known, _ in self.sources):
            name += "'"
        self.sources.append((name, t))
        kinds = [(BOOL, "present", 0), *((kind, "leaf", j) for j, (_, kind) in enumerate(t.leaves()))]
        made: list[Expr] = []
        for at, (kind, role, j) in enumerate(kinds):
            made.append(n.var(self.mark + len(self.inputs), kind))
            self.inputs.append(Variable(f"{name}.{role}{j}", kind, role=role, of=name, at=j))
            self._owner.append((t, at))
        return [made[0], *tidy(t, made[1:])]

    def chance(self, name: str) -> Expr:
        """Something that may be so or not."""
        return self.source(name, BOOL)[0]

    def event(self, name: str, slots: Sequence[Slot], otherwise: Sequence[Expr]) -> tuple[Expr, ...]:
        """Any event that one of the slots could carry in some push; where what was guessed makes none, the other
        one."""
        out = tuple(otherwise)
        for k, slot in enumerate(slots):
            taken = self.chance(f"{name}: event {k}") if k else n.TRUE
            present, *leaves = self._copied(name, [slot.present, *slot.leaves])
            here = n.and_(taken, present)
            out = tuple(n.ite(here, a, b) for a, b in zip(leaves, out, strict=True))
        return out

    @property
    def pushes(self) -> list[dict[str, str]]:
        """For each push that is guessed, in part, what stands there for which of the pipeline's sources: what is
        assumed of a push holds of these, too."""
        out: dict[Any, dict[str, str]] = {}
        for guessed, (push, real) in self._stand_in.items():
            out.setdefault(push, {})[real] = guessed
        return list(out.values())

    def _copied(self, name: str, roots: Sequence[Expr]) -> list[Expr]:
        """The same over other sources and another state."""
        made: dict[int, Expr] = {}
        self._copies += 1
        for e in list(walk(*roots)):
            if e.op != "var" or e.value in made:
                continue
            i = e.value
            if i >= self.mark:
                self._copy_guess(name, i - self.mark, made)
            elif i >= self.first:
                self._copy_input(name, i - self.first, made)
            else:
                made[i] = self._any_state(name, i)
        return substitute(roots, _By(made))

    def _copy_guess(self, name: str, i: int, made: dict[int, Expr]) -> None:
        t, at = self._owner[i]
        copied = self.inputs[i].of
        for j, e in enumerate(self.source(f"{name}: guess", t)):
            made[self.mark + i - at + j] = e
        if copied in self._stand_in:  # it was guessed for a guess: of yet another push
            push, real = self._stand_in[copied]
            self._stands_for(real, (self._copies, push))

    def _copy_input(self, name: str, i: int, made: dict[int, Expr]) -> None:
        v = self.real[i]
        if v.role not in ("present", "leaf"):
            made[self.first + i] = self.chance(f"{name}: {v.name}") if v.type == BOOL else self._any_of(name, v)
            return
        head = next(j for j, w in enumerate(self.real) if w.role == "present" and w.of == v.of)
        for j, e in enumerate(self.source(f"{name}: {v.of}", self.types[v.of])):
            made[self.first + head + j] = e
        self._stands_for(v.of, self._copies)

    def _stands_for(self, real: str, push: Any) -> None:
        """The last source that was made stands for one of the pipeline's, in a push that is guessed."""
        self._stand_in[self.sources[-1][0]] = push, real

    def _any_state(self, name: str, i: int) -> Expr:
        """Any value of a variable of the state."""
        v = self.state[i]
        if v.role == "stopped":
            return n.const(0)  # an event came while nothing had stopped
        if v.type == INT and v.size is not None and self.domain.modulus is None:
            value: Expr = n.const(0)
            for bit in range((v.size - 1).bit_length()):
                value = n.add(value, n.ite(self.chance(f"{name}: {v.name} bit {bit}"), n.const(1 << bit), n.const(0)))
            return n.ite(n.lt(value, n.const(v.size)), value, n.const(0))
        return self._any_of(name, v)

    def _any_of(self, name: str, v: Variable) -> Expr:
        """Any value of a variable without a bound."""
        if v.type == FLOAT or (v.type == INT and self.domain.values is not None and self.domain.modulus is None):
            raise NoGuessError(f"{v.name} may have any value, which no source of this domain brings")
        _, leaf = self.source(f"{name}: {v.name}", v.type)
        return leaf


class _By(list[Expr]):
    """Variables by number."""

    def __init__(self, made: dict[int, Expr]) -> None:
        super().__init__()
        self.made = made

    def __getitem__(self, i: Any) -> Any:
        return self.made[i]
