"""Words for nothing in CSV files: ``--null NA``, ``nulls=["NA", "-999"]``.

In a column that is declared as ``T | None`` a cell that is such a word is ``None``, exactly as an empty one is; in
quotes it is a text, as an empty text in quotes is.  In all other columns a word is what it was without being named: a
text, or what is refused where a number is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import UsageError, option
from pellucid.internal.data.bind import shorten
from pellucid.internal.expr.types import OptionalType, Type


@dataclass(frozen=True)
class Missing:
    """The words for nothing, and the columns in which they are that."""

    words: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.words and self.columns)


NEVER = Missing()


def said_nulls(given: Any) -> tuple[str, ...]:
    """The words for nothing, as a user says them: one, or several.

    >>> said_nulls("NA"), said_nulls(["NA", "-999", "NA"]), said_nulls(None)
    (('NA',), ('NA', '-999'), ())
    >>> said_nulls([None])
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: nulls=: expected words for nothing, as in nulls=['NA', '-999'], found [None]
    """
    words = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(words, (list, tuple, set, frozenset)) or not all(isinstance(word, str) for word in words):
        example = option("null", ["NA", "-999"])
        raise UsageError(f"{option('null')}: expected words for nothing, as in {example}, found {shorten(given)}")
    for word in words:
        if not word:
            raise UsageError(f"{option('null')}: an empty cell is None anyway: leave the empty word out")
        if re.search('["\r\n]', word):
            raise UsageError(
                f"{option('null')}: {word!r} is no cell without quotes: a word for nothing has no quote and no line end"
            )
    return tuple(dict.fromkeys(sorted(words) if isinstance(words, (set, frozenset)) else words))


def missing_in(words: Sequence[str], columns: Iterable[tuple[str, Type]]) -> Missing:
    """In which of these columns, with what they are declared as, words are nothing.

    >>> from pellucid.internal.expr.types import INT
    >>> sorted(missing_in(["NA"], [("x", INT), ("y", OptionalType(INT))]).columns)
    ['y']
    """
    return Missing(tuple(words), frozenset(name for name, t in columns if isinstance(t, OptionalType)))


def check_nulls(words: Sequence[str], columns: Iterable[tuple[str, Type]], graph: str, *, text: bool) -> None:
    """Refuse words that would never be looked for: no column may be missing, or nothing is read from CSV files.

    >>> from pellucid.internal.expr.types import INT
    >>> check_nulls(["NA"], [("x", INT)], "p", text=True)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: nulls=['NA']: is for columns that are declared as T | None, and p reads none: its
    columns are x: int; declare one as int | None
    """
    if not words:
        return
    said, known = option("null", list(words)), list(columns)
    if not any(isinstance(t, OptionalType) for _, t in known):
        listing = ", ".join(f"{name}: {t}" for name, t in known[:12]) + (", …" if len(known) > 12 else "")
        raise UsageError(
            f"{said}: is for columns that are declared as T | None, and {graph} reads none: its columns are {listing}; "
            f"declare one as {known[0][1]} | None"
        )
    if not text:
        raise UsageError(
            f"{said}: is for CSV files, in which nothing has many names: other formats have a null of their own; leave "
            "it out"
        )


def quoted_cells(row: str, delimiter: str) -> list[bool]:
    """Which cells of a row of strict CSV stand in quotes.

    >>> quoted_cells('NA,"NA",,"a ""b"",c"', ",")
    [False, True, False, True]
    """
    part = re.escape(delimiter)
    return [found[1] is not None for found in re.finditer(rf'(?:^|{part})(?:("(?:[^"]|"")*")|[^{part}]*)', row)]
