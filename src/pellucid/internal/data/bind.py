"""Which column feeds which leaf of which source.

A scalar source reads the column of its own name, the column that was named explicitly (``value=``), or the
only column there is.  A record source reads one column for each leaf: ``price``, or ``a.b`` for a field in a
field, which is a column of that name or a field of an Arrow struct.
"""

from __future__ import annotations

import json
import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

from pellucid.errors import DataError, UsageError, listener, nearest, option
from pellucid.internal.expr.types import OptionalType, RecordType, TupleType, Type

_C = TypeVar("_C")
_LONG = 60  # characters of a name that a message shows

#: What an input is that ends before the others: an error, or silent from then on.
SHORT = ("fail", "silent")
#: What a NaN is that comes in: an error, or a value.
NAN = ("fail", "keep")


#: What a place says of a row that is not there: an input that is silent in a push.
NO_ROW = "no row"

Note: TypeAlias = "tuple[str | None, str]"  # what is wrong with a row: the column, and why


@dataclass(frozen=True)
class Place:
    """Where data comes from, for messages: ``name`` for all of it, ``row(i)`` for a row of the batch at hand.

    A row that cannot be read is an error; or, where there is a dict for them, noted in ``bad`` by its number.
    """

    name: str
    row: Callable[[int], str]
    text: Callable[[int], str] | None = None  # a row as it stands there, if that is a text
    file: Callable[[int], str] | None = None  # the file of a row, where ``name`` is of several
    bad: dict[int, Note] | None = None

    def at(self, i: int) -> str:
        """The place of one row."""
        return f"{self.name if self.file is None else self.file(i)}: {self.row(i)}"

    def refuse(self, i: int, why: str, column: str | None = None) -> None:
        """A row that cannot be read; a caller that continues must not use what it reads there.

        >>> Place("a.csv", lambda i: f"row {i + 1}").refuse(2, "column 'x' is null", "x")
        Traceback (most recent call last):
        ...
        pellucid.errors.DataError: a.csv: row 3: column 'x' is null
        >>> noted = Place("a.csv", lambda i: f"row {i + 1}", bad={})
        >>> noted.refuse(2, "column 'x' is null", "x")
        >>> noted.bad
        {2: ('x', "column 'x' is null")}
        """
        if self.bad is None:
            raise DataError(f"{self.at(i)}: {why}")
        self.bad.setdefault(int(i), (column, why))

    def refuse_all(self, wrong: Sequence[int], why: Callable[[int], str], column: str | None = None) -> None:
        """Rows that cannot be read; where that is an error, the first of them."""
        for i in wrong:
            self.refuse(i, why(i), column)

    def shifted(self, start: int) -> Place:
        """The place of the rows from one on, with what was noted of them."""
        if not start:
            return self
        text, file = self.text, self.file
        return replace(
            self,
            row=lambda i: self.row(start + i),
            text=None if text is None else lambda i: text(start + i),
            file=None if file is None else lambda i: file(start + i),
            bad=None if self.bad is None else {i - start: note for i, note in self.bad.items() if i >= start},
        )

    def picked(self, which: Callable[[int], int]) -> Place:
        """The place of some rows: what is refused of them is refused here."""
        file = self.file
        of_file = None if file is None else lambda i: file(which(i))
        return _Picked(self.name, lambda i: self.row(which(i)), file=of_file, whole=self, which=which)


@dataclass(frozen=True)
class _Picked(Place):
    whole: Place | None = None
    which: Callable[[int], int] = int

    def refuse(self, i: int, why: str, column: str | None = None) -> None:
        assert self.whole is not None
        self.whole.refuse(self.which(i), why, column)


def together(name: str, places: Sequence[tuple[int, Place]]) -> Place:
    """The place of the rows of several batches, one after the other, of which each has so many; with what was noted of
    them.  ``name`` stands for all rows if they are of several files.

    >>> place = together("a and b", [(n, Place(f, lambda i: f"row {i + 1}")) for f, n in (("a", 2), ("b", 3))])
    >>> place.at(1), place.at(2)
    ('a: row 2', 'b: row 1')
    """
    starts = [0, *accumulate(size for size, _ in places)][:-1]

    def at(i: int) -> tuple[Place, int]:
        found = bisect_right(starts, i) - 1
        return places[found][1], i - starts[found]

    def row(i: int) -> str:
        place, inner = at(i)
        return place.row(inner)

    def text(i: int) -> str:
        place, inner = at(i)
        return "" if place.text is None else place.text(inner)

    def file(i: int) -> str:
        place, inner = at(i)
        return place.name if place.file is None else place.file(inner)

    first = places[0][1]
    several = any(place.file is not None or place.name != first.name for _, place in places)
    bad: dict[int, Note] | None = None
    if first.bad is not None:
        noted = zip(starts, places, strict=True)
        bad = {start + i: note for start, (n, p) in noted for i, note in (p.bad or {}).items() if i < n}
    return Place(name if several else first.name, row, first.text and text, file if several else None, bad)


@dataclass(frozen=True)
class Binding:
    """The columns of one source: one for each of its type, and those of the key."""

    source: str
    type: Type
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    nan: bool = field(default=False, repr=False)  # whether NaN is a value of its floats
    # the columns of the key that may be null, as a source has them
    missing: Mapping[str, Type] = field(default_factory=dict, repr=False, hash=False)
    # the columns of times that are spelled in a form of their own
    formats: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def needed(self) -> list[str]:
        """Every column that must be read."""
        return [*self.columns, *self.key]


def keeps_nan(nan: str) -> bool:
    """Whether NaN is a value: what ``nan=`` says.

    >>> keeps_nan("fail"), keeps_nan("keep")
    (False, True)
    """
    if nan not in NAN:
        raise UsageError(f"{option('nan', nan)}: expected fail, or keep if NaN is a value of float")
    return nan == "keep"


def no_nan(t: Type) -> str:
    """The message about a NaN that was not asked for: it may be a value, or mean that there is none.

    >>> from pellucid.internal.expr.types import FLOAT
    >>> print(no_nan(FLOAT))
    NaN is no event, as it equals nothing, not even itself: say nan='keep' if it is a value here; if nothing is there,
    declare it as float | None and give None (from pandas NaN is None then)
    """
    nothing = "" if isinstance(t, OptionalType) else "declare it as float | None and "
    return (
        f"NaN is no event, as it equals nothing, not even itself: say {option('nan', 'keep')} if it is a value here; "
        f"if nothing is there, {nothing}give None{' (from pandas NaN is None then)' if nothing else ''}"
    )


def key_columns(key: str | Sequence[str] | None, *, who: str = "key=") -> tuple[str, ...]:
    """The columns of a key, one or several, in the order in which they were named.

    >>> key_columns("user"), key_columns(["shop", "user"]), key_columns(None)
    (('user',), ('shop', 'user'), ())
    >>> key_columns(["user", "user"])
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: key=: the column 'user' is named twice
    """
    if key is None:
        return ()
    columns = tuple(key) if isinstance(key, (list, tuple)) else (key,)
    for i, column in enumerate(columns):
        if not isinstance(column, str) or not column:
            raise UsageError(f"{who}: wants the name of a column, or a list of such names, found {column!r}")
        if column in columns[:i]:
            raise UsageError(f"{who}: the column {column!r} is named twice")
    if not columns:
        raise UsageError(f"{who}: names no column: leave it out, or name one")
    return columns


def missing_keys(columns: Iterable[tuple[str, Type]], key: Sequence[str]) -> dict[str, Type]:
    """The columns of a key in which null is a key, among those that the sources read: they are declared so.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> missing_keys([("shop", STR), ("user", OptionalType(STR)), ("x", OptionalType(INT))], ["shop", "user"])
    {'user': str | None}
    """
    return {name: t for name, t in columns if name in key and isinstance(t, OptionalType)}


def parted(types: Iterable[Type], columns: Sequence[_C]) -> list[list[_C]]:
    """The columns of the leaves of some types, type by type.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> parted([OptionalType(INT), STR], ["there", "number", "text"])
    [['there', 'number'], ['text']]
    """
    rest = iter(columns)
    return [[next(rest) for _ in range(t.width)] for t in types]


def type_of_key(key: Mapping[str, Type]) -> Type | None:
    """The type of a key of these columns: what one column holds, a tuple for several; None for no key.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> type_of_key({"user": STR}), type_of_key({"shop": INT, "user": STR}), type_of_key({})
    (str, (int, str), None)
    """
    kinds = tuple(key.values())
    return (kinds[0] if len(kinds) == 1 else TupleType(kinds)) if kinds else None


def refuse_twice(place: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name: which of them is meant?

    >>> refuse_twice("events.csv", ["x", "y", "x"])
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events.csv: two columns are called 'x': rename one
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{place}: two columns are called {name!r}: rename one")
        seen.add(name)


def some(names: Sequence[str]) -> str:
    """Up to twelve names for a message, on one line whatever is in them.

    >>> some(["x", "line\\nbreak"])
    'x, line\\\\nbreak'
    """
    cut = [name if len(name) <= _LONG else f"{name[:_LONG]}…" for name in names[:12]]
    shown = [name if name.isprintable() else repr(name)[1:-1] for name in cut]
    return ", ".join(shown) + (", …" if len(names) > 12 else "")


def shorten(value: object, limit: int = 60) -> str:
    """A value for a message, cut where it is long.

    >>> shorten("a" * 100, 10)
    "'aaaaaaaa…"
    """
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def bind(
    source: str,
    t: Type,
    names: Sequence[str],
    *,
    place: str,
    value: str | None = None,
    key: Sequence[str] = (),
    wide: bool = False,
    advice: str | None = None,
    nan: bool = False,
    nothing: Collection[str] = (),
) -> Binding:
    """The binding of a source to the columns of these names.

    With ``wide`` the columns go by the source's name (``left``, ``left.price``), as one file holds several sources.
    Of the columns that hold ``nothing``, each may be a record that is null in every row: its fields are read as null.

    >>> from pellucid.internal.expr.types import INT
    >>> bind("x", INT, ["x", "user"], place="events.csv", key=["user"])
    Binding(source='x', type=int, columns=('x',), key=('user',))
    >>> bind("x", INT, ["y", "z"], place="events.csv")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events.csv: no column 'x' for the source 'x' (int): its columns are y, z; rename one, or
    name it with value=
    """
    for column in key:
        if column not in names:
            raise DataError(f"{place}: no key column {column!r}: {_listing(names)}{nearest(column, names)}")
    leaves = [path for path, _ in t.columns()]
    scalar = leaves == [""]
    if scalar:
        column = _scalar_column(source, t, names, place, value, key, wide, advice)
        return Binding(source, t, (column,), tuple(key), nan)
    if value is not None:
        raise DataError(
            f"{place}: {option('value')} names one column, but the source {source!r} is a record {t}: it reads "
            f"{', '.join(leaves)}; leave {option('value')} out"
        )
    wanted = [f"{source}.{path}" for path in leaves] if wide else leaves
    known = set(names)
    for i, path in enumerate(wanted):
        if path not in known and not below(path, nothing):
            written = _as_written(path, source)
            if written in known:
                wanted[i] = written
                continue
            raise DataError(
                f"{place}: no column {path!r} for the source {source!r} ({t}): {_listing(names)}{nearest(path, names)}"
            )
    return Binding(source, t, tuple(wanted), tuple(key), nan)


def below(path: str, columns: Iterable[str]) -> str | None:
    """Which of these columns a path is a field of; None if it is of none.

    >>> below("address.city", ["id", "address"]), below("id", ["id", "address"])
    ('address', None)
    """
    return next((column for column in columns if path.startswith(f"{column}.")), None)


def _as_written(path: str, source: str) -> str:
    """How an output writes the items of a tuple: ``p._0`` for ``p.0`` inside a record, ``x_0`` for an event that is a
    tuple itself."""
    first, *rest = path.split(".")
    steps = [
        f"{source}_{first}" if first.isdigit() else first,
        *(f"_{step}" if step.isdigit() else step for step in rest),
    ]
    return ".".join(steps)


def _scalar_column(
    source: str,
    t: Type,
    names: Sequence[str],
    place: str,
    value: str | None,
    key: Sequence[str],
    wide: bool,
    advice: str | None,
) -> str:
    if value is not None:
        if value in names:
            return value
        raise DataError(f"{place}: no column {value!r}: {_listing(names)}{nearest(value, names)}")
    if source in names:
        return source
    others = [name for name in names if name not in key]
    if len(others) == 1 and not wide:
        return others[0]
    hint = nearest(source, others)
    if not hint:
        advice = advice or f"rename one, or name it with {option('value')}"
        hint = "; rename one" if wide else f"; {advice}"
    raise DataError(f"{place}: no column {source!r} for the source {source!r} ({t}): {_listing(others)}{hint}")


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "it has no columns"
    shown = some(names) + (f" ({len(names)} in all)" if len(names) > 12 else "")
    if len(names) == 1 and (";" in shown or "\t" in shown):
        return f"its only column is {names[0]!r}: are its fields parted by commas?"
    return f"its columns are {shown}" if len(names) > 1 else f"its only column is {shown}"


# What an event has of itself: its columns, and the fields inside of them by their paths.


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


# ``keep=``: columns of the row whose push put an event out, whatever they hold.
#
# An event is emitted by the push of a row, so the row at hand has them; the pipeline knows nothing of them.  What comes
# out has, in this order: the key, the order, the kept columns, the event.

KEEP = "the name of a column, a list of names, or True for all"


@dataclass(frozen=True)
class Kept:
    """The passthrough columns, each with the input that has it; ``every``: all that the event has not itself."""

    columns: tuple[tuple[str, str], ...] = ()  # (input, column)
    every: bool = False

    def of(self, t: Type, name: str) -> list[tuple[str, str]]:
        """The passthrough columns of an output."""
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
    """The passthrough columns, of inputs with these columns; ``there`` are the key's and the order's, which are there
    anyway.

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
                f"{graph} has several inputs ({', '.join(inputs)}): say of which columns pass through, as in "
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


# Rows that cannot be read, or on which a step fails: set aside, and written down.
#
# Such a row is as if it had never been pushed: it changes no state and puts nothing out.  Where rows of several inputs
# are one push because they have one number, none of them is pushed, as what comes later must stay side by side.  So
# every row is either pushed, or stands in the dead letters once, with the reason.

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
