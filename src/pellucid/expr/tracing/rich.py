"""Symbolic values that are richer than a scalar: what times and decimals have in common while a function is traced."""

from __future__ import annotations

from typing import Any, NoReturn

from pellucid.expr.node import Expr
from pellucid.expr.tracing.symbolic import Sym, Unknown, Untraceable
from pellucid.expr.types import Type


def decide(condition: Expr) -> bool:
    """Which way the path being traced goes."""
    from pellucid.expr.tracing.trace import current_path

    return current_path().decide(condition)


def checked(e: Expr) -> Expr:
    """An expression whose failure the trace must remember."""
    return Sym.checked(e)._expr


def as_int(value: Any) -> Expr | None:
    """The expression of an int, symbolic or plain; None if it is none."""
    from pellucid.expr.convert import promote
    from pellucid.expr.tracing.symbolic import lift_scalar
    from pellucid.expr.types import INT

    e = lift_scalar(value)
    return None if e is None else promote(e, INT)


class Rich(Unknown):
    """A time or a decimal that is not known yet: an int, and what it means."""

    __slots__ = ("_expr", "_type")
    _expr: Expr
    _type: Type

    def __init__(self, expr: Expr, t: Type) -> None:
        object.__setattr__(self, "_expr", expr)
        object.__setattr__(self, "_type", t)

    def __getattr__(self, name: str) -> Any:
        cls = self.__class__
        if hasattr(cls, name):
            raise Untraceable(f"uses {cls.__name__}.{name}")
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{self._type} object has no attribute {name!r}")
