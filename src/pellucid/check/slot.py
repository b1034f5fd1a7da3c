"""An event that may be there: what the streams of a system carry in a step."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.expr import node as n
from pellucid.expr.node import Expr

__all__ = ["FALSE", "TRUE", "Slot"]

TRUE, FALSE = n.const(True), n.const(False)


@dataclass(frozen=True)
class Slot:
    """An event that a stream may carry in a step: whether it does, and its leaves."""

    present: Expr
    leaves: tuple[Expr, ...]
