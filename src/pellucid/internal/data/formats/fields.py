"""What an event has of itself: its columns, and the fields inside of them by their paths."""

from __future__ import annotations

from pellucid.internal.expr.types import RecordType, TupleType, Type


def own_paths(t: Type, name: str) -> dict[str, tuple[Type, int]]:
    """The columns of an output and all that is inside of them, by dotted paths as files of text have them: what each
    holds, and the place of its first leaf.  An item of a tuple goes by both of its names, ``p._0`` and ``p.0``.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> own_paths(TupleType((INT, TupleType((STR, INT)))), "out")["out_1._1"]
    (int, 2)
    >>> list(own_paths(TupleType((INT, TupleType((STR, INT)))), "out"))
    ['out_0', 'out_1', 'out_1._0', 'out_1.0', 'out_1._1', 'out_1.1']
    """
    out: dict[str, tuple[Type, int]] = {}

    def walk(u: Type, path: str, at: int) -> None:
        out[path] = u, at
        for names, inner in _parts(u):
            for one in names:
                walk(inner, f"{path}.{one}", at)
            at += inner.width

    at = 0
    for (column, *_), inner in _parts(t) if isinstance(t, RecordType) else _items(t, name):
        walk(inner, column, at)
        at += inner.width
    return out


def _parts(t: Type) -> list[tuple[list[str], Type]]:
    """The names of what is inside a field, and its types."""
    if isinstance(t, RecordType):
        return [([field], inner) for field, inner in t.fields]
    return [([f"_{i}", str(i)], inner) for i, inner in enumerate(t.items)] if isinstance(t, TupleType) else []


def _items(t: Type, name: str) -> list[tuple[list[str], Type]]:
    if isinstance(t, TupleType):
        return [([f"{name}_{i}"], inner) for i, inner in enumerate(t.items)]
    return [([name], t)]


def written_path(path: str) -> str:
    """The path of a field as a table has it: the items of a tuple are ``_0``, ``_1`` ….

    >>> written_path("pair.0"), written_path("pair._0"), written_path("user.id")
    ('pair._0', 'pair._0', 'user.id')
    """
    first, *rest = path.split(".")
    return ".".join([first, *(f"_{step}" if step.isdigit() else step for step in rest)])
