"""The solver itself: z3, asked within a budget."""

from __future__ import annotations

from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.model.budget import Budget, patiently


def load_z3() -> Any:
    """The z3 module, or a clear word on how to get it."""
    try:
        import z3
    except ImportError:
        raise UsageError("the symbolic engine needs the z3 solver: pip install 'pellucid[check]'") from None
    return z3


def ask(solver: Any, clock: Budget, *assumptions: Any, limit: float | None = None) -> bool | None:
    """Whether it can be satisfied; None if the time was not enough (or z3 gave up)."""
    left = clock.left()
    if limit is not None:
        left = limit if left is None else min(left, limit)
    if left is None:
        return _check(solver, 2**32 - 1, assumptions)
    return patiently(left, lambda seconds: _check(solver, max(1, int(seconds * 1000)), assumptions))


def _check(solver: Any, milliseconds: int, assumptions: tuple[Any, ...]) -> bool | None:
    solver.set("timeout", milliseconds)
    answer = str(solver.check(*assumptions))
    if answer == "unknown" and "interrupt" in solver.reason_unknown():
        raise KeyboardInterrupt  # z3 swallows Ctrl-C
    return {"sat": True, "unsat": False}.get(answer)
