"""The columns that `values` writes and reads: whole numbers, floats, texts and bytes.

What is read is never believed: each column says its type and size, and whoever reads it says how many values there must
be.

>>> out = ColumnWriter()
>>> out.ints([1, 2, 300]), out.texts(["a", "größer"]), out.about
(None, None, [['i2', 6], ['i1', 0], ['i1', 2], ['b', 9]])
>>> found = ColumnReader(out.about, memoryview(b"".join(out.pieces)))
>>> found.ints(3).tolist(), found.texts(2)
([1, 2, 300], ['a', 'größer'])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_MANY = 64
_FLOAT = np.dtype("<f8")
_INTS: dict[str, Any] = {"i1": np.dtype("<i1"), "i2": np.dtype("<i2"), "i4": np.dtype("<i4"), "i8": np.dtype("<i8")}


class Damage(ValueError):  # noqa: N818 - reads as what it is
    """The bytes are not what was written."""


class ColumnWriter:
    """Columns, one after another."""

    def __init__(self) -> None:
        self.about: list[list[Any]] = []  # type and bytes of each column
        self.pieces: list[Any] = []

    def _add(self, code: str, data: Any) -> None:
        self.about.append([code, len(data)])
        if len(data):
            self.pieces.append(data)

    def ints(self, values: Any) -> None:
        """Whole numbers of 64 bits, in as few bytes as will do."""
        array = np.asarray(values, dtype=np.int64)
        low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
        code = next(c for c, t in _INTS.items() if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
        self._add(code, array.astype(_INTS[code]).tobytes())

    def floats(self, values: Sequence[float]) -> None:
        """Floats with all their bits."""
        self._add("f8", np.fromiter(values, _FLOAT, len(values)).tobytes())

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._add("b", data)

    def texts(self, values: Sequence[str]) -> None:
        """Texts: their lengths in characters, and all of them; where few come often, each once, and their numbers
        before."""
        numbers: list[int] = []
        if len(values) >= _MANY and len(set(values[:_MANY])) <= _MANY // 2:
            once = {text: i for i, text in enumerate(dict.fromkeys(values))}
            if len(once) <= len(values) // 2:
                numbers, values = list(map(once.__getitem__, values)), list(once)
        self.ints(numbers)
        self.ints(np.fromiter(map(len, values), np.int64, len(values)))
        self.raw("".join(values).encode("utf-8", "surrogatepass"))

    def chunks(self, values: Sequence[bytes | bytearray]) -> None:
        """Pieces of bytes: their lengths, and all of them."""
        self.ints(np.fromiter(map(len, values), np.int64, len(values)))
        self.raw(b"".join(values))


class ColumnReader:
    """The columns again, in the same order; :class:`Damage` if they are not as they must be."""

    def __init__(self, about: Iterable[Any], data: memoryview) -> None:
        self._columns = iter(about)
        self._data, self._at = data, 0

    def _next(self, codes: Iterable[str]) -> tuple[str, memoryview]:
        match next(self._columns, None):
            case [str(code), int(size)] if code in codes and 0 <= size <= len(self._data) - self._at:
                self._at += size
                return code, self._data[self._at - size : self._at]
        raise Damage("a column is missing, or is not of its type")

    def ints(self, count: int | None = None, *, low: int | None = None, below: int | None = None) -> Any:
        """Whole numbers; so many, and each in these bounds, if that is known."""
        code, data = self._next(_INTS)
        kind = _INTS[code]
        if len(data) % kind.itemsize or (count is not None and len(data) != count * kind.itemsize):
            raise Damage("a column has another length than its values")
        array = np.frombuffer(data, dtype=kind).astype(np.int64)
        if len(array) and ((low is not None and array.min() < low) or (below is not None and array.max() >= below)):
            raise Damage("a number is out of its bounds")
        return array

    def floats(self, count: int) -> list[float]:
        """So many floats."""
        _, data = self._next(("f8",))
        if len(data) != 8 * count:
            raise Damage("a column has another length than its values")
        return list(np.frombuffer(data, dtype=_FLOAT).tolist())

    def raw(self) -> memoryview:
        """Bytes."""
        return self._next(("b",))[1]

    def texts(self, count: int) -> list[str]:
        """So many texts."""
        numbers = self.ints(low=0, below=count)
        if len(numbers) not in (0, count):
            raise Damage("a column has another length than its values")
        once = int(numbers.max()) + 1 if len(numbers) else count
        texts = _cut(self.lengths(once), str(self.raw(), "utf-8", "surrogatepass"))
        return list(map(texts.__getitem__, numbers.tolist())) if len(numbers) else texts

    def chunks(self, count: int) -> list[bytes]:
        """So many pieces of bytes."""
        return _cut(self.lengths(count), bytes(self.raw()))

    def lengths(self, count: int) -> Any:
        """So many lengths of things that hold values: each value costs at least a byte, so no sum is beyond the
        file."""
        array = self.ints(count, low=0, below=len(self._data) + 1)
        if len(array) and int(array.sum()) > len(self._data):
            raise Damage("it says that it holds more values than it has bytes")
        return array

    def end(self) -> None:
        """Nothing must follow."""
        if next(self._columns, None) is not None or self._at != len(self._data):
            raise Damage("it goes on behind its end")


def _cut(lengths: Any, whole: Any) -> list[Any]:
    stops = np.cumsum(lengths).tolist()
    if (stops[-1] if stops else 0) != len(whole):
        raise Damage("texts have another length than they say")
    return [whole[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]
