"""Rows that cannot be read, or on which a step fails: set aside, and written down.

Such a row is as if it had never been pushed: it changes no state and puts nothing out.  Where rows of several inputs
are one push because they have one number, none of them is pushed, as what comes later must stay side by side.  So every
row is either pushed, or stands in the dead letters once, with the reason.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.data.bind import Place

#: What may be said of bad rows besides an address: they end the run, or come as an output called ``bad``.
BAD = ("fail", "keep")
_SEVERAL = 3  # of so many a message tells


@dataclass(frozen=True)
class BadRow:
    """One dead letter: where the row is from, what is wrong with it, and the row itself."""

    file: str | None
    row: int | None
    column: str | None
    step: str | None
    reason: str
    text: str | None

    def __post_init__(self) -> None:
        for name in ("file", "column", "step", "reason", "text"):  # a message or a file's name may be no UTF-8
            found = getattr(self, name)
            if found is not None and not found.isascii():
                object.__setattr__(self, name, found.encode("utf-8", "backslashreplace").decode())

    def __str__(self) -> str:
        at = f": row {self.row:,}" if self.row is not None else ""
        step = f"step {self.step!r}: " if self.step is not None else ""
        return f"{self.file or 'a row'}{at}: {step}{self.reason}"


COLUMNS = tuple(field.name for field in fields(BadRow))


@dataclass(frozen=True)
class BadOption:
    """What is to become of bad rows: ``fail``, ``keep``, or the address where they go; and how many there may be."""

    to: str = "fail"
    most: int | None = None

    def __bool__(self) -> bool:
        return self.to != "fail"

    @property
    def address(self) -> str | None:
        """Where they go, if that is a file or a table."""
        return None if self.to in BAD else self.to


FAIL = BadOption()


def said_bad(bad: Any = "fail", most: Any = None) -> BadOption:
    """What a user says with ``bad=`` and ``max_bad=``.

    >>> said_bad("keep", 3)
    BadOption(to='keep', most=3)
    >>> said_bad("fail", 3)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: max_bad=3 says how many rows may be set aside, but the first one ends the run: say where
    they go with bad=
    """
    if isinstance(bad, os.PathLike):
        bad = os.fspath(bad)
    if bad is None:
        bad = "fail"
    if not isinstance(bad, str) or not bad:
        raise UsageError(
            f"bad={bad!r}: expected 'fail', 'keep' for an output called bad, or the name of a file for the rows that "
            "are set aside"
        )
    if most is not None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise UsageError(f"{option('max_bad')} is how many rows may be set aside, found {most!r}")
        if bad == "fail":
            raise UsageError(
                f"{option('max_bad', most)} says how many rows may be set aside, but the first "
                f"one ends the run: say where they go with {option('bad')}"
            )
    return BadOption(bad, most)


class BadRows:
    """Counts the rows that are set aside, and ends the run when there are too many."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.count = most, 0
        self._first: list[BadRow] = []

    def add(self, rows: Sequence[BadRow]) -> None:
        """So many more."""
        self._first += rows[: _SEVERAL - len(self._first)]
        self.count += len(rows)
        if self.most is not None and self.count > self.most:
            raise too_many(self.count, self.most, self._first)


def too_many(count: int, most: int, rows: Sequence[BadRow]) -> DataError:
    """The error with which a run ends that sets too many rows aside."""
    listing = "".join(f"\n  {row}" for row in rows)
    return DataError(
        f"{count:,} rows are bad, and {option('max_bad', most)} allows {most:,}: nothing more is written; among them"
        f"{listing}"
    )


def of_row(
    place: Place, i: int, why: str, rows: Any = None, *, column: str | None = None, step: str | None = None
) -> BadRow:
    """The dead letter of a row, by its place; ``rows`` is the table that it is in, if it does not stand in a text."""
    numbers = re.findall(r"\b(?:row|position) ([0-9,]+)", place.row(i))
    return BadRow(
        place.name if place.file is None else place.file(i),
        int(numbers[-1].replace(",", "")) if numbers else None,
        column,
        step,
        one_line(why),
        place.text(i) if place.text is not None else row_text(rows, i) if rows is not None else None,
    )


def one_line(why: str) -> str:
    """A reason without line ends."""
    return "; ".join(line.strip() for line in why.splitlines())


def set_aside(places: Sequence[Place], tables: Sequence[Any]) -> list[tuple[int, BadRow]]:
    """The dead letters of all pushes with a row that cannot be read, of inputs whose rows are one push by their number.

    ``tables`` are the rows that the places speak of.
    """
    out: list[tuple[int, BadRow]] = []
    for i in sorted({i for place in places for i in place.bad or ()}):
        other: tuple[str | None, str] = (None, "")
        if len(places) > 1:
            why = next(f"{place.at(i)}: {place.bad[i][1]}" for place in places if place.bad and i in place.bad)
            other = (None, f"its push has a row that cannot be read: {why}")
        for place, table in zip(places, tables, strict=True):
            if i < table.num_rows:
                column, reason = (place.bad or {}).get(i, other)
                out.append((i, of_row(place, i, reason, table, column=column)))
    return out


def row_text(batch: Any, i: int) -> str:
    """A row of a table as text: an object of JSON.

    >>> import pyarrow as pa
    >>> row_text(pa.table({"x": [7], "at": pa.array([2**62], pa.timestamp("us"))}), 0)
    '{"x": 7, "at": "<value out of range: 4611686018427387904>"}'
    """
    row = batch.slice(i, 1)
    try:
        return as_text(row.to_pylist()[0])
    except (ValueError, OverflowError, KeyError):  # a time, or a time zone, that Python does not have
        return as_text({name: _value(column) for name, column in zip(row.schema.names, row.columns, strict=True)})


def _value(column: Any) -> Any:
    """The one value of a column, as Python has it or else as Arrow shows it."""
    try:
        return column[0].as_py()
    except (ValueError, OverflowError, KeyError):
        return " ".join(column.to_string().split()).strip("[] ")


def as_text(row: Any) -> str:
    """A row of Python values as text."""
    if isinstance(row, Mapping):
        try:
            return json.dumps(_numbers(dict(row)), default=_plain, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):  # names that are no texts, lists in themselves
            pass
    return repr(row)


def _numbers(value: Any) -> Any:
    """With texts for the floats that JSON has no number for, as Spark writes them.

    >>> as_text({"a": float("nan"), "b": [1.5, -float("inf")]})
    '{"a": "NaN", "b": [1.5, "-Infinity"]}'
    """
    if isinstance(value, Mapping):
        return {name: _numbers(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _plain(value: Any) -> Any:
    """What JSON has no form for; a number of NumPy is one."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else str(value)


def schema() -> Any:
    """The columns of the dead letters."""
    import pyarrow as pa

    return pa.schema([(name, pa.int64() if name == "row" else pa.string()) for name in COLUMNS])


def table_of(rows: Iterable[BadRow]) -> Any:
    """Dead letters as a record batch.

    >>> table_of([BadRow("a.csv", 3, "x", None, "column 'x' is null", "7,")]).to_pylist()[0]["row"]
    3
    """
    import pyarrow as pa

    given = list(rows)
    columns = [pa.array([getattr(row, field.name) for row in given], field.type) for field in schema()]
    return pa.RecordBatch.from_arrays(columns, schema=schema())
