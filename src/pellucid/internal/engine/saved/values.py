"""Python values as bytes: data only.  Reading them imports nothing, calls nothing by a name from the file, and runs no
code.

Values are written in columns: first a **tag** for each value (which kind it is), then for each kind that occurs what
its values hold.  Numbers are arrays, texts one long text with lengths; lists, dicts and records have only their
lengths, and what they hold are columns of the next level: the keys, the values, each field; short columns are put
together.  So a million entries cost a few passes in C, as with pickle.

* A type is exact: ``1``, ``True`` and ``1.0`` differ, as do ``-0.0`` and ``0.0``; a float keeps all its bits, a dict
  its order.
* What can be changed and is held in two places (a list in two entries) is one thing again when it is read, and may hold
  itself.  What cannot be changed is a value: two equal tuples or one are the same.
* The kinds are a fixed table (`value_kinds`), and the dataclasses, named tuples and enums of the pipeline itself
  (`value_records`, `own_types`).  The file has their names, which are looked up among those; any other name is refused.
* Every value costs at least a byte, and there are at most `DEEPEST` levels: a damaged or hostile file is refused with
  `Damage` before it takes more than a multiple of its own size in memory.

>>> data = encode([{"a": (1, True, 1.0)}, None])
>>> decode(data)
[{'a': (1, True, 1.0)}, None]
>>> same = []
>>> (first, second), = decode(encode([[same, same]]))
>>> first is second
True

The columns that `values` writes and reads: whole numbers, floats, texts and bytes.

What is read is never believed: each column says its type and size, and the reader says how many values there must
be.

>>> out = ColumnWriter()
>>> out.ints([1, 2, 300]), out.texts(["a", "größer"]), out.about
(None, None, [['i2', 6], ['i1', 0], ['i1', 2], ['b', 9]])
>>> found = ColumnReader(out.about, memoryview(b"".join(out.pieces)))
>>> found.ints(3).tolist(), found.texts(2)
([1, 2, 300], ['a', 'größer'])
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import gc
import inspect
import json
import struct
import types
import uuid
import zoneinfo
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import chain, compress, islice, repeat
from operator import attrgetter, itemgetter
from sys import getrefcount
from typing import Any

import numpy as np

from pellucid.internal.engine.saved.own_types import OwnTypes, foreign, is_record

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


# The kinds of values that a saved state may hold, and how each is written and read (`encode` has the whole).
#
# A **leaf** holds no other value.  A **box** holds values, which stand on the next level: *immutable* ones are built
# when all that they hold is there; *mutable* ones are made empty first and filled later, so that one may be held twice,
# or hold itself.

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


# Values of the pipeline's own types: dataclasses, named tuples and enums.
#
# An object is its fields: it is made without its ``__init__``, and the fields are set as they were.  What is no field
# would be lost, so it is refused.  A dataclass that is compared by what it holds and is hashable is a value; any other
# keeps its identity, like a list.

_BY_NAME = {kind.about: kind for kind in FIXED.values()}


class Misfit(ValueError):  # noqa: N818 - reads as what it is
    """A value was saved of a type that the pipeline does not have, or has otherwise."""


class _Object(Record):
    """A dataclass."""

    def __init__(self, cls: Any, label: str) -> None:
        self.cls = cls
        self.names = [f.name for f in dataclasses.fields(cls)]
        super().__init__(["dataclass", label, self.names], [attrgetter(name) for name in self.names], cls)
        self.mutable = not _by_value(cls)
        self.computed = {
            k for base in cls.__mro__ for k, v in vars(base).items() if isinstance(v, functools.cached_property)
        }

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        if self.cls.__dictoffset__:
            for value in group:
                for name in vars(value).keys() - self.names:
                    if name not in self.computed:  # what a cached property has found out is found out again
                        raise Unfit(
                            f"is a {self.cls.__name__} with the attribute {name!r}, which is no field of it",
                            advice=f"declare {name!r} as a field",
                        )
        try:
            super().write(group, out, below)
        except AttributeError as error:
            raise Unfit(
                f"is a {self.cls.__name__} that lacks a field ({error})", advice="give every field a value"
            ) from None

    def made(self, count: int, shape: Any) -> list[Any]:
        return [object.__new__(self.cls) for _ in range(count)]

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        boxes = made if self.mutable else self.made(count, shape)
        for name, column in zip(self.names, held, strict=True):
            deque(map(object.__setattr__, boxes, repeat(name), column), maxlen=0)
        return boxes


class _Tuple(Record):
    """A named tuple."""

    def __init__(self, cls: Any, label: str) -> None:
        self.cls = cls
        super().__init__(
            ["namedtuple", label, list(cls._fields)], [itemgetter(i) for i in range(len(cls._fields))], cls
        )

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        rows = zip(*held, strict=True) if held else repeat((), count)
        return list(map(tuple.__new__, repeat(self.cls), rows))


class _Members(Leaf):
    """An enum: its members by their names."""

    def __init__(self, cls: type[enum.Enum], label: str, names: Sequence[str] | None = None) -> None:
        self.cls, self.names = cls, [m.name for m in cls] if names is None else names
        super().__init__(["enum", label, self.names], self._put, self._get)
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def _put(self, out: ColumnWriter, group: Any) -> None:
        out.ints(np.fromiter((self._numbers[m._name_] for m in group), np.int64, len(group)))

    def _get(self, found: ColumnReader, count: int) -> list[Any]:
        numbers = found.ints(count, low=0, below=len(self.names))
        members: list[Any] = [self.cls.__members__.get(name) for name in self.names]
        for i in np.unique(numbers).tolist():
            if members[i] is None:
                raise Misfit(f"the enum {self.cls.__name__} has no member {self.names[i]!r} any more")
        return [members[i] for i in numbers.tolist()]


def kind_of(cls: type, own: OwnTypes) -> ValueKind:
    """How values of a type are saved; :class:`Unfit` if they are not."""
    if cls in FIXED:
        return FIXED[cls]
    if not is_record(cls):
        raise Unfit(f"is a {_title(cls)}, which is not data", advice=_advice(cls))
    problem = _problem(cls)
    if problem:
        raise Unfit(f"is a {_title(cls)}, {problem}", advice="keep its contents in a dataclass or a tuple")
    label = own.label(cls)
    if label is None:
        raise Unfit(
            f"is a {_title(cls)}, which is not found from the pipeline",
            advice="define the type in a module, and name it in the step's function or in the annotation of its state",
        )
    return _record(cls, label)


def _record(cls: Any, label: str) -> ValueKind:
    if issubclass(cls, enum.Flag):
        return Record(["flag", label], [attrgetter("_value_")], cls)
    if issubclass(cls, enum.Enum):
        return _Members(cls, label)
    return _Object(cls, label) if dataclasses.is_dataclass(cls) else _Tuple(cls, label)


def kind_named(about: Any, own: OwnTypes) -> ValueKind:
    """The kind that stands so in a file: one of the fixed ones, or one of the pipeline's types as it is now."""
    match about:
        case str() if about in _BY_NAME:
            return _BY_NAME[about]
        case [str(what), str(label), *rest] if what in ("dataclass", "namedtuple", "enum", "flag"):
            cls = own.find(label)
            if cls is None or not is_record(cls) or _problem(cls):
                raise Misfit(f"the pipeline has no type {label!r}, of which values were saved")
            kind = _record(cls, label)
            if what == "enum" and kind.about[0] == "enum" and len(rest) == 1 and _texts(rest[0]):
                return _Members(cls, label, rest[0])
            if [what, label, *rest] == kind.about:
                return kind
            then = f" with the fields {', '.join(rest[0]) or 'none'}" if len(rest) == 1 and _texts(rest[0]) else ""
            raise Misfit(f"the type {label} has changed: it was a {what}{then}, and is now {_shown(kind.about)}")
    raise Damage("it names a kind of value that there is not")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _shown(about: Any) -> str:
    return f"a {about[0]}" + (
        f" with the fields {', '.join(about[2]) or 'none'}" if about[0] in ("dataclass", "namedtuple") else ""
    )


def _problem(cls: Any) -> str | None:
    """Why the fields of a type are not all there is to it."""
    if issubclass(cls, enum.Enum):
        return None
    if issubclass(cls, tuple):
        return "which has attributes besides its fields" if cls.__dictoffset__ else None
    try:
        object.__new__(cls)  # without __init__, as it will be read
    except TypeError:
        return "a dataclass that is something else besides"
    names = {f.name for f in dataclasses.fields(cls)}
    slots = {s for base in cls.__mro__ for s in _slots(base)} - {"__dict__", "__weakref__"}
    if slots - names:
        return f"which has the slot {min(slots - names)!r} besides its fields"
    for name in names:
        static = inspect.getattr_static(cls, name, None)
        if hasattr(type(static), "__set__") and not isinstance(static, types.MemberDescriptorType):
            return f"whose field {name!r} is computed"
    if not cls.__dataclass_params__.frozen and _by_value(cls):
        return "a dataclass that is hashed by what it holds and can be changed (write frozen=True)"
    return None


def _by_value(cls: Any) -> bool:
    """Whether it is hashed by what it holds, and so must be complete before it is a key."""
    return cls.__hash__ is not None and cls.__hash__ is not object.__hash__


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _title(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def _advice(cls: type) -> str:
    if cls.__module__.split(".")[0] == "numpy":
        return "keep Python's own numbers and lists (.item(), .tolist())"
    for base in cls.__mro__[1:]:
        if base in FIXED:
            return f"keep a plain {base.__name__}"
    if not foreign(cls.__module__):
        return f"make {cls.__name__} a dataclass of such values, or keep a tuple, a list or a dict"
    return "keep the values that it stands for"


DEEPEST = 500  # levels: Python's own recursion ends at about a thousand calls
_LENGTH = struct.Struct("<I")


# ---------------------------------------------------------------- writing


def encode(values: list[Any], own: OwnTypes | None = None, *, name: str = "state") -> bytes:
    """The values as bytes; `Unfit` says what is no data, and where it is (``name`` is what a value is called).

    >>> encode([[1, print]])
    Traceback (most recent call last):
    pellucid.internal.engine.saved.values.Unfit: state[1] is a builtin_function_or_method, which is not data
    """
    encoder, out = _Encoder(own or OwnTypes()), ColumnWriter()
    level: list[Column] = [values] if values else []
    depth = 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Unfit(
                f"nests more than {DEEPEST} levels deep",
                advice="keep it flatter: a list or a dict in place of a chain",
                where=name,
            )
        below: list[Column] = []
        try:
            for column in level:
                encoder.column(column, out, below)
        except Unfit as error:
            raise error.at(_place(values, encoder.tags, name)) from None
        long, short = _parted(list(map(len, below)))
        level = [below[i] for i in long] + ([[v for i in short for v in below[i]]] if short else [])
    head = {"count": len(values), "kinds": [kind.about for kind in encoder.kinds], "columns": out.about}
    text = json.dumps(head).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *out.pieces])


class _Tags(dict[type, int]):
    """The number of each type's kind; a type that is new gets the next."""

    def __init__(self, own: OwnTypes, kinds: list[ValueKind]) -> None:
        super().__init__()
        self.own, self.kinds = own, kinds

    def __missing__(self, cls: type) -> int:
        kind = kind_of(cls, self.own)
        self.kinds.append(kind)
        self[cls] = len(self.kinds) - 1
        return self[cls]


def _parted(sizes: list[int]) -> tuple[list[int], list[int]]:
    """The columns of a level that are written by themselves, and those that are written as one."""
    return [i for i, n in enumerate(sizes) if n >= MANY], [i for i, n in enumerate(sizes) if 0 < n < MANY]


class _Encoder:
    def __init__(self, own: OwnTypes) -> None:
        self.kinds: list[ValueKind] = []
        self.tags = _Tags(own, self.kinds)
        self.counts: Counter[int] = Counter()  # for each kind that can be changed: how many there were
        self.seen: dict[int, int] = {}  # and the numbers of those that may come again, by their ids

    def column(self, values: Column, out: ColumnWriter, below: list[Column]) -> None:
        """Write a column; what its values hold is added below."""
        types = set(map(type, values))
        if len(types) == 1:
            tag = self.tags[types.pop()]
            out.ints([tag] if self.kinds[tag].paid else np.full(len(values), tag))
            self._group(tag, values, _ONCE, out, below)
            return
        tags = np.fromiter(map(self.tags.__getitem__, map(type, values)), np.int64, len(values))
        out.ints(tags)
        for tag in np.flatnonzero(np.bincount(tags)).tolist():
            self._group(tag, list(compress(values, (tags == tag).tobytes())), _ONCE + 1, out, below)

    def _group(self, tag: int, group: Column, once: int, out: ColumnWriter, below: list[Column]) -> None:
        kind = self.kinds[tag]
        if isinstance(kind, Box):
            group = self._distinct(tag, group, once, out) if kind.mutable else self._values(group, once, out)
        kind.write(group, out, below)

    def _distinct(self, tag: int, group: Column, once: int, out: ColumnWriter) -> Column:
        """Of what can be changed, those that are new, each once; the numbers of all are written, unless all are new."""
        before = self.counts[tag]
        if max(map(getrefcount, group)) <= once:  # nothing else holds any of them
            self.counts[tag] += len(group)
            out.ints([])
            return group
        new: Column = []
        numbers = []
        for value in group:
            number = self.seen.setdefault(id(value), before + len(new))
            if number == before + len(new):
                new.append(value)
            numbers.append(number)
        self.counts[tag] += len(new)
        out.ints(numbers if len(new) < len(group) else [])
        return new

    @staticmethod
    def _values(group: Column, once: int, out: ColumnWriter) -> Column:
        """Of what cannot be changed, each once in a column: enough that shared parts do not multiply."""
        if max(map(getrefcount, group)) <= once:
            out.ints([])
            return group
        places: dict[int, int] = {}
        numbers = [places.setdefault(id(value), len(places)) for value in group]
        if len(places) == len(group):
            out.ints([])
            return group
        out.ints(numbers)
        return list({id(value): value for value in group}.values())


def _held_once() -> int:
    """What getrefcount says of a value that one box and one column hold."""
    box = [object()]
    column = list(box)
    return max(map(getrefcount, column))


_ONCE = _held_once()


def _place(values: Sequence[Any], tags: _Tags, name: str) -> str:
    """Where the first value is that cannot be saved, as Python would write it."""
    stack = [(name, value) for value in reversed(values)]
    seen: set[int] = set()
    while stack:
        where, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        below: list[Column] = []
        try:
            tags.kinds[tags[type(value)]].write([value], ColumnWriter(), below)
        except Unfit:
            return where
        stack += reversed(list(_parts(where, value, below)))
    return name


def _parts(where: str, value: Any, below: list[Column]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"a key of {where}", key) for key in value)
        yield from ((f"{where}[{_short(key)}]", held) for key, held in value.items())
    elif dataclasses.is_dataclass(value):
        yield from ((f"{where}.{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value))
    elif hasattr(value, "_fields"):
        yield from ((f"{where}.{field}", held) for field, held in zip(value._fields, value, strict=True))
    elif isinstance(value, Sequence):
        yield from ((f"{where}[{i}]", held) for i, held in enumerate(value))
    else:
        yield from ((f"something in {where}", held) for column in below for held in column)


def _short(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 40 else text[:39] + "…"


# ---------------------------------------------------------------- reading


def decode(data: bytes | memoryview, own: OwnTypes | None = None) -> list[Any]:
    """The values again; `Damage` if the bytes are not what `encode` gave, `Misfit` if they need a type that the
    pipeline has not.

    >>> decode(b"cos\\nsystem\\n(S'id'\\ntR.")
    Traceback (most recent call last):
    pellucid.internal.engine.saved.values.Damage: it does not begin as it must
    """
    collecting = gc.isenabled()
    gc.disable()  # a million new objects, none of which is garbage
    try:
        return _Decoder(memoryview(data).cast("B"), own or OwnTypes()).values()
    except (Damage, Misfit):
        raise
    except Exception as error:  # whatever a constructor says of parts that no value has
        raise Damage(f"{type(error).__name__}: {error}") from None
    finally:
        if collecting:
            gc.enable()


@dataclass
class _Part:
    """The boxes of one kind in one column."""

    box: Box
    new: int
    numbers: list[int] | None  # which box each value is; None: each its own
    shape: Any
    sizes: list[int]  # of the columns that they hold
    table: list[Any]  # of what is mutable: all boxes of the kind
    first: int  # where the new ones begin there


@dataclass
class _Read:
    """A column that was read: tags, unless there is one kind only, and for each kind its values, or its boxes."""

    tags: Any
    groups: list[tuple[int, list[Any] | _Part]]


class _Decoder:
    def __init__(self, view: memoryview, own: OwnTypes) -> None:
        if len(view) < _LENGTH.size or _LENGTH.unpack_from(view)[0] > len(view) - _LENGTH.size:
            raise Damage("it does not begin as it must")
        start = _LENGTH.size + _LENGTH.unpack_from(view)[0]
        match json.loads(bytes(view[_LENGTH.size : start])):
            case {"count": int(count), "kinds": list(kinds), "columns": list(columns)}:
                self.count = count
                self.kinds = [kind_named(about, own) for about in kinds]
                self.found = ColumnReader(columns, view[start:])
            case _:
                raise Damage("it does not begin as it must")
        self.room = len(view)  # how many values there may be still: each costs a byte
        self.made: dict[int, list[Any]] = {}  # for each mutable kind: all its boxes, empty until they are filled

    def values(self) -> list[Any]:
        """Down the levels for what is there, and up again to put it together."""
        levels: list[tuple[list[_Read], list[int]]] = []
        sizes = [self.count] if self.count else []
        while any(sizes):
            if len(levels) >= DEEPEST:
                raise Damage("it nests too deeply")
            long, short = _parted(sizes)
            if not levels:  # the first column is by itself, however short it is
                long, short = [0], []
            counts = [sizes[i] for i in long] + ([sum(sizes[i] for i in short)] if short else [])
            level = [self._column(count) for count in counts]
            levels.append((level, sizes))
            sizes = [n for column in level for _, part in column.groups if isinstance(part, _Part) for n in part.sizes]
        self.found.end()
        below: list[Column] = [[] for _ in sizes]
        for level, sizes in reversed(levels):
            held = iter(below)
            columns = [self._built(column, held) for column in level]
            below = _apart(columns, sizes) if level is not levels[0][0] else columns
        return below[0] if below else []

    def _column(self, count: int) -> _Read:
        self.room -= count
        if count < 0 or self.room < 0:
            raise Damage("it says that it holds more values than it has bytes")
        tags = self.found.ints(low=0, below=len(self.kinds))
        if len(tags) == 1 and (count == 1 or self.kinds[tags[0]].paid):
            return _Read(None, [self._group(int(tags[0]), count)])
        if len(tags) != count:
            raise Damage("a column has another length than its values")
        return _Read(tags, [self._group(tag, many) for tag, many in enumerate(np.bincount(tags).tolist()) if many])

    def _group(self, tag: int, many: int) -> tuple[int, list[Any] | _Part]:
        kind = self.kinds[tag]
        if isinstance(kind, Leaf):
            return tag, kind.get(self.found, many)
        assert isinstance(kind, Box)
        table = self.made.setdefault(tag, []) if kind.mutable else []
        first, new = len(table), many
        numbers = self.found.ints(low=0, below=first + many)
        if len(numbers):
            if len(numbers) != many:
                raise Damage("a column has another length than its values")
            new = max(int(numbers.max()) + 1 - first, 0)
        shape, sizes = kind.shape(new, self.found)
        if kind.mutable:
            table += kind.made(new, shape)
        return tag, _Part(kind, new, numbers.tolist() if len(numbers) else None, shape, sizes, table, first)

    @staticmethod
    def _built(column: _Read, below: Iterator[Column]) -> Column:
        groups = []
        for tag, part in column.groups:
            group: Column
            if isinstance(part, _Part):
                made = part.table[part.first : part.first + part.new]
                group = part.box.build(part.new, part.shape, [next(below) for _ in part.sizes], made)
                if part.numbers is not None:
                    group = list(map((part.table if part.box.mutable else group).__getitem__, part.numbers))
            else:
                group = part
            groups.append((tag, group))
        if column.tags is None or len(groups) == 1:
            return groups[0][1]
        out = np.empty(len(column.tags), dtype=object)
        for tag, group in groups:
            out[column.tags == tag] = np.fromiter(group, dtype=object, count=len(group))
        return list(out.tolist())


def _apart(columns: list[Column], sizes: list[int]) -> list[Column]:
    """The columns of a level as they were before the short ones were put together."""
    long, short = _parted(sizes)
    out: list[Column] = [[] for _ in sizes]
    for i, column in zip(long, columns, strict=False):
        out[i] = column
    at = 0
    for i in short:
        out[i] = columns[-1][at : at + sizes[i]]
        at += sizes[i]
    return out
