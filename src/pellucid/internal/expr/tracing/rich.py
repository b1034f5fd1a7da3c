"""Symbolic values that are richer than a scalar: what times and decimals have in common while a function is traced, and
lists.

A list is handed on, and asked whether it is empty, in every trace.  How long it is and what it holds is asked of Python
itself, once for each different list (`expr.tracing.running`); to a check that stays closed.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> trace(lambda items: items[0] if items else -1, (ListType(INT),), run=True).outputs[0]
-1 if v0 == '' else item_0(v0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pellucid.internal.expr import node as n
from pellucid.internal.expr.convert import promote
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.running import answer_of
from pellucid.internal.expr.tracing.symbolic import Sym, Unknown, Untraceable, lift_scalar
from pellucid.internal.expr.types import BOOL, INT, NOTHING, ListType, Type, conform


def decide(condition: Expr) -> bool:
    """Which way the path being traced goes."""
    from pellucid.internal.expr.tracing.trace import current_path

    return current_path().decide(condition)


def checked(e: Expr) -> Expr:
    """An expression whose failure the trace must remember."""
    return Sym.checked(e)._expr


def as_int(value: Any) -> Expr | None:
    """The expression of an int, symbolic or plain; None if it is none."""
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


# ---------------------------------------------------------------- lists


class ItemLeaf:
    """A leaf of an element of a list: a function of the list's text and the place.

    >>> ItemLeaf(ListType(INT), 0)("7,8,9", -1)
    9
    """

    def __init__(self, t: ListType, leaf: int) -> None:
        self.type, self.leaf = t, leaf

    def __call__(self, text: str, at: int) -> Any:
        rows, width = self.type.rows(text), len(self.type.kinds)
        size = len(rows) // width
        if not -size <= at < size:
            raise IndexError(f"{self.type.cls.__name__} index out of range")
        return rows[at % size * width + self.leaf]


def _closed(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise Untraceable(what)

    return refuse


class SymList(Rich):
    """A list that is not known yet: the text that says it, and its type."""

    __slots__ = ()
    _type: ListType

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._type.cls

    def __bool__(self) -> bool:
        return decide(n.not_(n.eq(self._expr, n.const(""))))

    def _size(self) -> Any:
        """``len(items)``, in the trace for running."""
        self._open("asks for the length of a list")
        return Sym(answer_of("len", self._type.size, [Sym(self._expr)], INT, fails=False, key=self._type))

    def __getitem__(self, at: Any) -> Any:
        from pellucid.internal.expr.tracing.trace import current_path, value_of

        self._open("takes an element of a list")
        place = lift_scalar(at)
        if place is None or place.type not in (INT, BOOL):
            raise Untraceable("takes a part of a list")
        given = [Sym(self._expr), at if place.op != "const" else int(place.value)]
        leaves = [
            answer_of(f"item_{j}", ItemLeaf(self._type, j), given, kind, key=self._type)
            for j, kind in enumerate(self._type.kinds)
        ]
        current_path().note_check(leaves[0])  # also where nobody uses the element
        return value_of(self._type.item, leaves)

    def _open(self, what: str) -> None:
        from pellucid.internal.expr.tracing.trace import current_path

        if not current_path().run:
            raise Untraceable(f"{what}, which only engines can look into")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _closed("compares a list")
    __hash__ = _closed("uses a list as a dictionary key or in a set")
    __iter__ = _closed("loops over a list, whose length is not known")
    __reversed__ = __iter__
    __len__ = _closed("asks for the length of a list, which only engines can look into")
    __contains__ = _closed("searches in a list")
    __add__ = __radd__ = __mul__ = __rmul__ = _closed("makes a list of another one")
    __iadd__ = __imul__ = __setitem__ = __delitem__ = _closed("changes a list that is part of an event")


def list_leaf(value: Any, t: ListType) -> Expr:
    """The text of a list that a function hands on, or makes of constants."""
    if isinstance(value, Rich) and type(value) is SymList:
        if value._type.item == t.item:
            return value._expr
    elif type(value) in (list, tuple):
        try:
            return n.const(t.flatten(conform(t, value))[0])
        except Untraceable:
            raise Untraceable("makes a list of an event's values") from None
        except ValueError:
            pass
    raise Untraceable(f"returns {_type_name(value)} where {t} is wanted")


def _type_name(value: Any) -> str:
    return str(value._type) if isinstance(value, Rich) else type(value).__name__


def result_type(value: Any) -> Type | None:
    """The type of an empty list that a function returns, which is one of anything; None of others."""
    return ListType(NOTHING, type(value)) if type(value) in (list, tuple) and not value else None
