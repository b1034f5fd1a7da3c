"""``keep=``: columns of the row whose push put an event out, whatever they hold.

An event is put out by the push of a row, so the row at hand has them; the pipeline knows nothing of them.  What comes
out has, in this order: the key, the order, the kept columns, the event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import DataError, UsageError, listener, nearest, option
from pellucid.internal.data.bind import some
from pellucid.internal.data.formats.fields import own_paths
from pellucid.internal.expr.types import RecordType, TupleType, Type

KEEP = "the name of a column, a list of names, or True for all"


@dataclass(frozen=True)
class Kept:
    """Which columns come along, each with the input that has it; ``every``: all that the event has not itself."""

    columns: tuple[tuple[str, str], ...] = ()  # (input, column)
    every: bool = False

    def of(self, t: Type, name: str) -> list[tuple[str, str]]:
        """The columns that come along with an output."""
        own = own_paths(t, name)
        return [(source, column) for source, column in self.columns if column not in own]

    def from_input(self, name: str) -> list[str]:
        """The columns of one input."""
        return [column for source, column in self.columns if source == name]


def said_keep(keep: Any, *, who: str | None = None) -> Any:
    """What a user may say: True, one name, several, or any of these for each source.

    >>> said_keep("a"), said_keep(["a", "b"]), said_keep(None), said_keep(True), said_keep({"x": "a"})
    (('a',), ('a', 'b'), (), True, {'x': ('a',)})
    """
    who = who or "keep="
    if keep is None or keep is False:
        return ()
    if keep is True:
        return True
    if isinstance(keep, Mapping):
        return {source: said_keep(columns, who=who) for source, columns in keep.items()}
    names = (keep,) if isinstance(keep, str) else tuple(keep) if isinstance(keep, (list, tuple)) else None
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{who}: expected {KEEP}, found {keep!r}")
    for i, name in enumerate(names):
        if name in names[:i]:
            raise UsageError(f"{who}: the column {name!r} is named twice")
    return names


def kept_columns(
    keep: Any,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Type],
    *,
    there: Sequence[str],
    place: Mapping[str, str],
    graph: str,
) -> Kept:
    """The columns that come along, of inputs with these columns; ``there`` are the key's and the order's, which come
    along anyway.

    >>> from pellucid.internal.expr.types import INT
    >>> said = {"inputs": {"x": ["x", "note", "user"]}, "there": ["user"], "place": {"x": "events"}, "graph": "p"}
    >>> kept_columns(True, outputs={"out": INT}, **said).columns
    (('x', 'x'), ('x', 'note'))
    >>> kept_columns(("note",), outputs={"note": INT}, **said)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: keep='note': the output 'note' has a column of this name itself: leave it out of keep=,
    or rename the column before
    """
    if not keep:
        return Kept()
    if not isinstance(keep, Mapping):
        if len(inputs) > 1:
            first = next(iter(inputs))
            example = repr({first: list(keep) if keep is not True else True})
            raise UsageError(
                f"{graph} has several inputs ({', '.join(inputs)}): say of which the columns come along, as in "
                + (
                    f"keep={example}"
                    if listener() == "Python"
                    else f"{keep_word()} {first}={','.join(keep) if keep is not True else 'all'}"
                )
            )
        keep = {next(iter(inputs)): keep}
    found: list[tuple[str, str]] = []
    every = False
    for source, wanted in keep.items():
        if source not in inputs:
            names = list(inputs)
            raise UsageError(
                f"{keep_word()}: {graph} has no input {source!r}: it has {', '.join(names)}"
                f"{nearest(str(source), names)}"
            )
        every = every or wanted is True
        for column in inputs[source] if wanted is True else wanted:
            if column not in inputs[source]:
                known = list(inputs[source])
                raise DataError(
                    f"{place[source]}: no column {column!r} to keep: its columns are {some(known)}"
                    f"{nearest(column, known)}"
                )
            if column in there:
                continue
            if any(column == other for _, other in found):
                raise UsageError(
                    f"{keep_word(column)}: several inputs have a column of this name: keep one of them, or rename one"
                )
            _refuse_own(column, outputs, every=wanted is True)
            found.append((source, column))
    return Kept(tuple(found), every)


def _refuse_own(column: str, outputs: Mapping[str, Type], *, every: bool) -> None:
    """An output's own column and a kept one of the same name: one would be lost.  Of *all* columns those that a record
    has itself are its own."""
    for name, t in outputs.items():
        if column not in own_paths(t, name) or (every and isinstance(t, RecordType)):
            continue
        if every:
            raise UsageError(
                f"{keep_word('all')}: the output {name!r} has a column {column!r} itself: name those that you want, or "
                "rename the column before"
            )
        raise UsageError(
            f"{keep_word(column)}: the output {name!r} has a column of this name itself: leave it out of "
            f"{keep_word()}, or rename the column before"
        )


def refuse_order_names(outputs: Mapping[str, Type], order: Sequence[str]) -> None:
    """A scalar output with the name of an order's column: one of them would be lost."""
    for name, t in outputs.items():
        if name in order and not isinstance(t, (RecordType, TupleType)):
            raise UsageError(
                f"the order column {name!r} has the name of an output: one of them would be lost; rename the column, "
                "or name the output otherwise (a pipeline that returns a dict names its outputs)"
            )


def keep_word(value: object = None) -> str:
    """The option as it is written here and on the command line, where ``--keep`` was another one."""
    if listener() == "Python":
        return option("keep", True if value == "all" else value)
    return option("keep_columns", value)
