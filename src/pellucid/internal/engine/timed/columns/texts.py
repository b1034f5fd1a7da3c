"""The texts of a run: one table for all columns of all its steps, in which a text is its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.internal.data.columns import Strings

_TABLES = 16  # of other engines, that are remembered


class Texts:
    """A table of texts.

    >>> texts = Texts()
    >>> texts.taken(["b", "a", "b"]).tolist(), texts.ranks(np.array([0, 1, 0])).tolist()
    ([0, 1, 0], [1, 0, 1])
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.put(texts)

    def put(self, texts: Iterable[str]) -> None:
        """Exactly these texts, from now on."""
        self.values: list[str] = list(texts)
        self._codes = {text: i for i, text in enumerate(self.values)}
        self._known: dict[int, tuple[Any, Any]] = {}  # tables of others, and what their codes are here
        self._ranks: Any = None  # of all texts, as long as there are no more

    def __len__(self) -> int:
        return len(self.values)

    def _code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.values))
        if code == len(self.values):
            self.values.append(text)
        return code

    def taken(self, column: Any, engines: bool = False) -> Any:
        """A column of texts, of any kind, as codes of this table.  ``engines`` says that its own table is an engine's,
        which only grows."""
        if not isinstance(column, Strings):
            return np.fromiter(map(self._code, column), dtype=np.int64, count=len(column))
        if column.values is self.values:
            return np.ascontiguousarray(column.codes, dtype=np.int64)
        if len(column.codes) < len(column.values):  # a few rows of a long table
            used, places = np.unique(column.codes, return_inverse=True)
            return self.taken([column.values[c] for c in used.tolist()])[places]
        codes = self._map(column.values) if engines else self.taken(list(column.values))
        return codes[column.codes]

    def _map(self, values: Sequence[str]) -> Any:
        """The codes of another table's texts; that of an engine only grows, and is looked at once."""
        last, table = self._known.get(id(values), (None, None))
        if last is not values or table is None:
            table = np.zeros(0, dtype=np.int64)
        if len(table) < len(values):
            table = np.concatenate([table, self.taken(list(values[len(table) :]))])
        self._known = self._known if len(self._known) < _TABLES else {}
        self._known[id(values)] = (values, table)
        return table

    def column(self, codes: Any) -> Strings:
        """Codes as a column of texts that anybody can read; a few of many bring only their own texts."""
        if len(codes) * 4 >= len(self.values):
            return Strings(codes, self.values)
        used, places = np.unique(codes, return_inverse=True)
        return Strings(places.astype(np.int64), [self.values[c] for c in used.tolist()])

    def ranks(self, codes: Any) -> Any:
        """Numbers in the order of the texts, by code points."""
        if self._ranks is not None and len(self._ranks) == len(self.values):
            return self._ranks[codes]
        if len(codes) * 4 < len(self.values):
            used, places = np.unique(codes, return_inverse=True)
            return self._ranked([self.values[c] for c in used.tolist()])[places]
        self._ranks = self._ranked(self.values)
        return self._ranks[codes]

    @staticmethod
    def _ranked(texts: list[str]) -> Any:
        ranks = np.empty(len(texts), dtype=np.int64)
        ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return ranks
