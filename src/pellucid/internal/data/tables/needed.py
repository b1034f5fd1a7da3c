"""Which columns of a table a run needs: those of its sources, of the key, of the order, and those that come along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pellucid.internal.expr.types import Type


def needed_columns(
    columns: Sequence[str], sources: Mapping[str, Type], others: Iterable[str], *, wide: bool, key: Sequence[str] = ()
) -> list[str] | None:
    """The columns that these sources and the others need, in the order of the table; None if one is not found: then
    all are, so that the message can say what there is.

    >>> from pellucid.internal.expr.types import INT
    >>> needed_columns(["user", "x", "note"], {"x": INT}, ["user"], wide=False)
    ['user', 'x']
    >>> needed_columns(["user", "note"], {"x": INT}, ["user"], wide=False, key=["user"])
    ['user', 'note']
    """
    found: set[str] = set()
    for source, t in sources.items():
        leaves = [path for path, _ in t.columns()]
        if not leaves[0] and source not in columns and not wide:
            rest = [column for column in columns if column not in key]
            if len(rest) != 1:
                return None
            found.add(rest[0])
            continue
        for path in leaves:
            whole = f"{source}.{path}" if wide and path else path or source
            mine = heads(columns, [whole]) or heads(columns, [f"{source}_{path}"])
            if not mine:
                return None
            found |= set(mine)
    for path in others:
        mine = heads(columns, [path])
        if not mine:
            return None
        found |= set(mine)
    return [column for column in columns if column in found]


def heads(columns: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The columns that hold these dotted paths.

    >>> heads(["a", "ab", "c.d"], ["a.b.c", "c.d"])
    ['a', 'c.d']
    """
    return [c for c in columns if any(p == c or p.startswith(f"{c}.") for p in paths)]
