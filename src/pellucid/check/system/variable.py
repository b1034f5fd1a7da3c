"""What a transition system is made of: its variables, and the events that its streams may carry in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import Type


@dataclass(frozen=True)
class Variable:
    """A variable of the state or of the input.

    ``name`` is for people; what a variable is, is said by its ``role`` and by what it belongs to (``of``):

    * of the input: ``present`` (of a source), ``leaf`` (the ``at``-th part of a source's event), ``lost`` (whether a
      step loses its events), ``choice`` (anything else);
    * of the state: ``stopped``, ``state`` and ``event`` (of a step), ``number`` (of a state that is any object),
      ``count`` (of a step: how many events it has seen), ``length`` and ``item`` (of a queue); ``came`` and ``before``
      (whether there was an event of a stream, a part of the last one) and ``memory`` (other bits of the past); ``key``
      (which keys are tracked; of the input: the key that is chosen before the first push).

    ``size`` is the number of its values 0 … size-1 where it is a bounded counter.
    """

    name: str
    type: Type
    start: Any = None
    size: int | None = None
    role: str = "choice"
    of: str = ""
    at: int = 0


TRUE, FALSE = n.const(True), n.const(False)


@dataclass(frozen=True)
class Slot:
    """An event that a stream may carry in a step: whether it does, and its leaves.

    Of a keyed stream ``lanes`` says which of the tracked keys the event is under (at most one), and ``unsure`` where
    nothing is known of the event, because it comes from what a step keeps for a key that is not tracked.
    """

    present: Expr
    leaves: tuple[Expr, ...]
    lanes: tuple[Expr, ...] = ()
    unsure: Expr = FALSE

    @property
    def known(self) -> Expr:
        """It is there, and it is what it is said to be."""
        return n.and_(self.present, n.not_(self.unsure))
