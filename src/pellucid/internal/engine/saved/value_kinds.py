"""The kinds of values that a saved state may hold, and how each is written and read (`values` has the whole).

A **leaf** holds no other value.  A **box** holds values, which stand on the next level: *immutable* ones are built when
all that they hold is there; *mutable* ones are made empty first and filled later, so that one may be held twice, or
hold itself.
"""

from __future__ import annotations

import collections
import datetime
import functools
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import numpy as np

from pellucid.internal.engine.saved.value_columns import ColumnReader, ColumnWriter, Damage

MANY = 1000  # so many boxes of one length are written place by place
_WIDEST = 32


class Unfit(Exception):  # noqa: N818 - reads as what it is
    """A value is no data that can be saved; ``advice`` says what to keep instead, ``where`` at which place it is."""

    def __init__(self, what: str, *, advice: str = "", where: str = "") -> None:
        super().__init__(f"{where} {what}".strip())
        self.what, self.advice, self.where = what, advice, where

    def at(self, where: str) -> Unfit:
        """The same, with its place."""
        return Unfit(self.what, advice=self.advice, where=where)


Column = list[Any]


class ValueKind:
    """How the values of one type are saved; ``about`` stands for it in the file."""

    about: Any
    paid = True  # whether each value costs a byte at least, besides its tag

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        """Write these values; what they hold goes to the next level, as one column or several."""
        raise NotImplementedError


class Leaf(ValueKind):
    """A value that holds no others."""

    def __init__(
        self,
        about: Any,
        put: Callable[[ColumnWriter, Any], None],
        get: Callable[[ColumnReader, int], list[Any]],
        *,
        paid: bool = True,
    ) -> None:
        self.about, self.put, self.get, self.paid = about, put, get, paid

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        """All of them as columns."""
        self.put(out, group)


class Box(ValueKind):
    """A value that holds others."""

    mutable = False

    def shape(self, count: int, found: ColumnReader) -> tuple[Any, list[int]]:
        """What was written about so many of them, and the sizes of the columns of what they hold."""
        raise NotImplementedError

    def made(self, count: int, shape: Any) -> list[Any]:
        """So many, empty (only of what is mutable)."""
        raise NotImplementedError

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        """All of them, with what they hold; of what is mutable those that were made before."""
        raise NotImplementedError


def _rows(flat: Column, width: int) -> list[Column]:
    """What many boxes of the same length hold, as a column for each place; else one after another."""
    return [flat[i::width] for i in range(width)] if width else [flat]


def _width(lengths: Any) -> int:
    """The length that many boxes share, if they do."""
    same = len(lengths) >= MANY and 0 < lengths[0] <= _WIDEST and (lengths == lengths[0]).all()
    return int(lengths[0]) if same else 0


def _sizes(lengths: Any) -> list[int]:
    width = _width(lengths)
    return [len(lengths)] * width if width else [int(lengths.sum())]


def _each(held: list[Column], lengths: Any) -> Iterator[Iterable[Any]]:
    """What each box holds."""
    if _width(lengths):
        return zip(*held, strict=True)
    flat = iter(held[0])
    return (islice(flat, n) for n in lengths.tolist())


class _Row(Box):
    """A tuple, a list, a set: values one after another."""

    def __init__(self, cls: type, fill: Callable[[Any, Any], None] | None = None) -> None:
        self.about, self.cls, self.fill = cls.__name__, cls, fill
        self.mutable = fill is not None
        self.counted = not issubclass(cls, (tuple, list))  # what is equal is held once

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        lengths = np.fromiter(map(len, group), np.int64, len(group))
        out.ints(lengths)
        below += _rows(list(chain.from_iterable(group)), _width(lengths))

    def shape(self, count: int, found: ColumnReader) -> tuple[Any, list[int]]:
        lengths = found.lengths(count)
        return lengths, _sizes(lengths)

    def made(self, count: int, shape: Any) -> list[Any]:
        return [self.cls() for _ in range(count)]

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        lengths = self._lengths(shape)
        each = _each(held, lengths)
        if self.fill is not None:
            collections.deque(map(self.fill, made, each), maxlen=0)
        else:
            made = list(each) if self.cls is tuple and _width(lengths) else list(map(self.cls, each))
        if self.counted and list(map(len, made)) != lengths.tolist():
            raise Damage(f"a {self.about} holds fewer values than it says")
        return made

    def _lengths(self, shape: Any) -> Any:
        return shape


class _Deque(_Row):
    """A deque, with its greatest length."""

    def __init__(self) -> None:
        super().__init__(collections.deque, collections.deque.extend)

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        out.ints([-1 if box.maxlen is None else box.maxlen for box in group])
        super().write(group, out, below)

    def shape(self, count: int, found: ColumnReader) -> tuple[Any, list[int]]:
        most = [None if m < 0 else m for m in found.ints(count).tolist()]
        lengths, sizes = super().shape(count, found)
        return (most, lengths), sizes

    def made(self, count: int, shape: Any) -> list[Any]:
        return [collections.deque(maxlen=most) for most in shape[0]]

    def _lengths(self, shape: Any) -> Any:
        return shape[1]


_FACTORIES: list[Any] = [
    None,
    int,
    float,
    str,
    bool,
    bytes,
    complex,
    list,
    dict,
    set,
    tuple,
    frozenset,
    collections.deque,
    collections.Counter,
]


class _Table(Box):
    """A dict, in its order, or one of its relatives."""

    mutable = True

    def __init__(self, cls: type) -> None:
        self.about, self.cls = cls.__name__, cls
        self.has_factory = cls is collections.defaultdict
        # Counter.update adds up, and dict.update of an OrderedDict forgets the order.
        self.update: Any = collections.OrderedDict.update if cls is collections.OrderedDict else dict.update

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        if self.has_factory:
            strange = [d.default_factory for d in group if d.default_factory not in _FACTORIES]
            if strange:
                name = getattr(strange[0], "__name__", strange[0])
                raise Unfit(
                    f"is a defaultdict that calls {name}, which is not data",
                    advice="use a factory such as int or list, or a dict with setdefault",
                )
            out.ints([_FACTORIES.index(d.default_factory) for d in group])
        elif self.cls is not dict and any(map(vars, group)):
            raise Unfit(f"is a {self.about} with attributes of its own", advice="keep these in a dataclass")
        lengths = np.fromiter(map(len, group), np.int64, len(group))
        out.ints(lengths)
        below += _rows(list(chain.from_iterable(group)), _width(lengths))
        values = map(self.cls.values, group)  # type: ignore[attr-defined]
        below += _rows(list(chain.from_iterable(values)), _width(lengths))

    def shape(self, count: int, found: ColumnReader) -> tuple[Any, list[int]]:
        factories = found.ints(count, low=0, below=len(_FACTORIES)).tolist() if self.has_factory else []
        lengths = found.lengths(count)
        return (factories, lengths), 2 * _sizes(lengths)

    def made(self, count: int, shape: Any) -> list[Any]:
        if self.has_factory:
            return [collections.defaultdict(_FACTORIES[f]) for f in shape[0]]
        return [self.cls() for _ in range(count)]

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        half = len(held) // 2
        keys, values = (_each(columns, shape[1]) for columns in (held[:half], held[half:]))
        collections.deque(map(self.update, made, map(zip, keys, values)), maxlen=0)
        if list(map(len, made)) != shape[1].tolist():
            raise Damage(f"a {self.about} has one key twice")
        return made


class Record(Box):
    """A value of a fixed number of parts, column by column: a date, a fraction, a named tuple."""

    paid = False

    def __init__(self, about: Any, parts: Sequence[Callable[[Any], Any]], make: Callable[..., Any]) -> None:
        self.about, self.parts, self.make = about, parts, make

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        below += [list(map(part, group)) for part in self.parts]

    def shape(self, count: int, found: ColumnReader) -> tuple[Any, list[int]]:
        return None, [count] * len(self.parts)

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        return list(map(self.make, *held))


# ---------------------------------------------------------------- Python's own


def _put_ints(out: ColumnWriter, group: Any) -> None:
    """Whole numbers; those beyond 64 bits as bytes, after the others."""
    try:
        out.ints(np.fromiter(group, np.int64, len(group)))
        places: list[int] = []
    except OverflowError:
        places = [i for i, v in enumerate(group) if not -(2**63) <= v < 2**63]
        large = set(places)
        out.ints(np.fromiter((0 if i in large else v for i, v in enumerate(group)), np.int64, len(group)))
    out.ints(places)
    if places:
        out.chunks([group[i].to_bytes(group[i].bit_length() // 8 + 1, "little", signed=True) for i in places])


def _get_ints(found: ColumnReader, count: int) -> list[Any]:
    values = list(found.ints(count).tolist())
    places = found.ints(low=0, below=count)
    if len(places):
        for i, data in zip(places.tolist(), found.chunks(len(places)), strict=True):
            values[i] = int.from_bytes(data, "little", signed=True)
    return values


def _zone(key: str) -> zoneinfo.ZoneInfo:
    """A time zone that this machine has; a name that it does not know is not looked for."""
    if type(key) is not str or key not in _zones():
        raise Damage(f"there is no time zone {key!r} on this machine")
    return zoneinfo.ZoneInfo(key)


@functools.cache
def _zones() -> set[str]:
    return zoneinfo.available_timezones()


def _zone_key(zone: zoneinfo.ZoneInfo) -> str:
    if zone.key is None or zone.key not in _zones():
        raise Unfit(
            "is a time zone that was not made by its name", advice="use zoneinfo.ZoneInfo(NAME), or datetime.timezone"
        )
    return zone.key


def _typed(make: Callable[..., Any], *kinds: type) -> Callable[..., Any]:
    """A maker that takes parts of these very types: what a constructor would read otherwise (a date from bytes) is
    damage."""

    def made(*parts: Any) -> Any:
        if tuple(map(type, parts)) != kinds:
            raise Damage("a part of a record is not of its type")
        return make(*parts)

    return made


def _moment(
    year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int, fold: int, zone: Any
) -> datetime.datetime:
    return datetime.datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _clock(hour: int, minute: int, second: int, micro: int, fold: int, zone: Any) -> datetime.time:
    return datetime.time(hour, minute, second, micro, zone, fold=fold)


_DAY, _CLOCK = ("year", "month", "day"), ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
_DATE = _typed(datetime.date, int, int, int)


def _getters(*names: str) -> list[Callable[[Any], Any]]:
    return [attrgetter(name) for name in names]


def _nothing(out: ColumnWriter, group: Any) -> None:
    """Nothing to write: the tag says it all."""


FIXED: dict[type, ValueKind] = {
    type(None): Leaf("None", _nothing, lambda found, n: [None] * n, paid=False),
    bool: Leaf("bool", ColumnWriter.ints, lambda found, n: list(map(bool, found.ints(n, low=0, below=2).tolist()))),
    int: Leaf("int", _put_ints, _get_ints),
    float: Leaf("float", ColumnWriter.floats, ColumnReader.floats),
    str: Leaf("str", ColumnWriter.texts, ColumnReader.texts),
    bytes: Leaf("bytes", ColumnWriter.chunks, ColumnReader.chunks),
    tuple: _Row(tuple),
    frozenset: _Row(frozenset),
    list: _Row(list, list.extend),
    set: _Row(set, set.update),
    bytearray: _Row(bytearray, bytearray.extend),
    collections.deque: _Deque(),
    dict: _Table(dict),
    collections.OrderedDict: _Table(collections.OrderedDict),
    collections.Counter: _Table(collections.Counter),
    collections.defaultdict: _Table(collections.defaultdict),
    complex: Record("complex", _getters("real", "imag"), _typed(complex, float, float)),
    range: Record("range", _getters("start", "stop", "step"), _typed(range, int, int, int)),
    Decimal: Record("Decimal", [str], _typed(Decimal, str)),
    Fraction: Record("Fraction", _getters("numerator", "denominator"), _typed(Fraction, int, int)),
    uuid.UUID: Record("UUID", _getters("int"), _typed(lambda n: uuid.UUID(int=n), int)),
    datetime.date: Record("date", _getters(*_DAY), _DATE),
    datetime.time: Record("time", _getters(*_CLOCK), _clock),
    datetime.datetime: Record("datetime", _getters(*_DAY, *_CLOCK), _moment),
    datetime.timedelta: Record(
        "timedelta", _getters("days", "seconds", "microseconds"), _typed(datetime.timedelta, int, int, int)
    ),
    datetime.timezone: Record(
        "timezone", [lambda zone: zone.__getinitargs__()], lambda given: datetime.timezone(*given)
    ),
    zoneinfo.ZoneInfo: Record("ZoneInfo", [_zone_key], _zone),
}
