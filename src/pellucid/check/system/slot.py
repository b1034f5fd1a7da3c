"""An event that may be there: what the streams of a system carry in a step."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.expr import node as n
from pellucid.expr.node import Expr

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
