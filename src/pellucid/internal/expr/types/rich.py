"""Times: ``datetime``, ``date``, ``timedelta`` as exact 64-bit integers.

A ``datetime`` without a time zone is what it says: microseconds since 1970-01-01 00:00 on the same wall clock.  One
with a time zone, ``Annotated[datetime, UTC]``, is an instant: microseconds since 1970-01-01 00:00 UTC, and a function
gets it in UTC, whatever zone it came with.  The two never mix.  A ``date`` counts days, a ``timedelta`` microseconds.

>>> from datetime import UTC, datetime, timedelta
>>> DATETIME.flatten(datetime(1970, 1, 1, 0, 1)), DATETIME.unflatten((0,))
((60000000,), datetime.datetime(1970, 1, 1, 0, 0))
>>> INSTANT.problem(datetime(2013, 1, 1, 5))
'expected a datetime with a time zone, found 2013-01-01 05:00:00, which has none: say which, as in tzinfo=UTC or 05:00Z,
or declare it as datetime'

Money: ``Decimal`` with a fixed number of places, as an exact 64-bit integer.

``Annotated[Decimal, Scale(2)]`` has two places after the point; 12.50 is the integer 1250.  Any number of up to 18
digits fits; one that does not is an error, as with ``int``.

>>> t = DecimalType(2)
>>> t, t.flatten(Decimal("12.5")), t.unflatten((1250,))
(Decimal(2), (1250,), Decimal('12.50'))
>>> t.problem(Decimal("0.125"))
'0.125 has more than 2 places after the point: round it first, or declare Scale(3)'

``list[T]`` and ``tuple[T, ...]``: a value of any length inside an event.

An engine sees a list as one text, which says what is in it: the leaves of its elements, one after the other, as JSON
has them.  Equal texts are equal lists, so a list goes wherever a text does: it is a code in a kernel, and data in a
saved state.  What looks inside asks the text, once for each different one.  The empty list is the empty text.

>>> from pellucid.internal.expr.types.base import INT, STR
>>> t = ListType(INT)
>>> t, t.flatten([1, 2]), t.unflatten(("1,2",)), t.flatten([])
(list[int], ('1,2',), [1, 2], ('',))
>>> ListType(STR, tuple).flatten(("a,b", ""))
('"a,b",""',)
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

from pellucid.errors import TypeMismatch
from pellucid.internal.expr.types.base import BOOL, FLOAT, INT, STR, EnumType, Type, fits_int

EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TICK = dt.timedelta(microseconds=1)
DAY = 86_400_000_000  # microseconds
_FIRST = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, repr=False)
class TimeType(Type):
    """One of ``DATETIME``, ``INSTANT`` (a datetime with a time zone), ``DATE``, ``TIMEDELTA``."""

    name: str

    def __str__(self) -> str:
        return self.name

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, INT

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if self.name == "date":
            return (value.toordinal() - _FIRST,)
        if self.name == "timedelta":
            return (value // TICK,)
        return ((value - (EPOCH if self.name == "datetime" else EPOCH_UTC)) // TICK,)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, number: int) -> Any:
        """The time that a number is.

        >>> DATE.value(1)
        datetime.date(1970, 1, 2)
        """
        if self.name == "date":
            return dt.date.fromordinal(number + _FIRST)
        if self.name == "timedelta":
            return dt.timedelta(microseconds=int(number))
        return (EPOCH if self.name == "datetime" else EPOCH_UTC) + dt.timedelta(microseconds=int(number))

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return (_LIMITS[self.name],)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        limit = _LIMITS[self.name]
        return (min(max(leaves[0], limit[0]), limit[1]),) if limit is not None else (leaves[0],)

    def problem(self, value: Any) -> str | None:
        wanted = {"date": "date", "timedelta": "timedelta"}.get(self.name, "datetime")
        if is_nat(value):
            return f"expected {self.name}, found NaT, which is no time"
        cls = getattr(dt, wanted)
        if not isinstance(value, cls) or (wanted == "date" and isinstance(value, dt.datetime)):
            return f"expected {self.name}, found {type(value).__name__} {value!r}"
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
            return f"{value} has nanoseconds, and a {wanted} has whole microseconds: round it first"
        if wanted == "datetime":
            aware = value.tzinfo is not None and value.utcoffset() is not None
            if aware and self.name == "datetime":
                return (
                    f"expected a datetime without a time zone, found {value}, which has one: declare it as "
                    "Annotated[datetime, UTC]"
                )
            if not aware and self.name != "datetime":
                return (
                    f"expected a datetime with a time zone, found {value}, which has none: say which, as in tzinfo=UTC "
                    "or 05:00Z, or declare it as datetime"
                )
            if aware and not _has_utc(value):
                return f"{value} is no time in UTC, where the years are 1 to 9999"
        if wanted == "timedelta" and not fits_int(value // TICK):
            return f"{value} does not fit in 64 bits of microseconds"
        return None

    def plain(self, value: Any) -> Any:
        """The value as the exact class, an instant in UTC."""
        if self.name == "date":
            return dt.date(value.year, value.month, value.day)
        if self.name == "timedelta":
            return dt.timedelta(value.days, value.seconds, value.microseconds)
        if self.name != "datetime":
            value = value.astimezone(dt.UTC)
        return dt.datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond,
            tzinfo=None if self.name == "datetime" else dt.UTC,
        )  # fmt: skip


def _has_utc(value: dt.datetime) -> bool:
    try:
        value.astimezone(dt.UTC)
    except OverflowError:
        return False
    return True


def is_nat(value: Any) -> bool:
    """Whether it is pandas' mark for a time that is missing."""
    return type(value).__name__ == "NaTType"


DATETIME = TimeType("datetime")
INSTANT = TimeType("datetime[UTC]")
DATE = TimeType("date")
TIMEDELTA = TimeType("timedelta")

_WALL = ((dt.datetime.min - EPOCH) // TICK, (dt.datetime.max - EPOCH) // TICK)
_LIMITS: dict[str, tuple[int, int] | None] = {
    "datetime": _WALL,
    "datetime[UTC]": _WALL,
    "date": (dt.date.min.toordinal() - _FIRST, dt.date.max.toordinal() - _FIRST),
    "timedelta": None,
}


MOST_PLACES = 18
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Scale:
    """How many places after the point a ``Decimal`` has.

    >>> from typing import Annotated, NamedTuple
    >>> from decimal import Decimal
    >>> class Payment(NamedTuple):
    ...     amount: Annotated[Decimal, Scale(2)]
    """

    places: int

    def __post_init__(self) -> None:
        if isinstance(self.places, bool) or not isinstance(self.places, int) or not 0 <= self.places <= MOST_PLACES:
            raise TypeMismatch(f"Scale(n) wants a whole number from 0 to {MOST_PLACES}, found {self.places!r}")


@dataclass(frozen=True, repr=False)
class DecimalType(Type):
    """A ``Decimal`` with a fixed number of places."""

    places: int

    def __str__(self) -> str:
        return f"Decimal({self.places})"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, INT

    def flatten(self, value: Any) -> tuple[Any, ...]:
        return (int(Decimal(value).scaleb(self.places, _EXACT)),)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, number: int) -> Decimal:
        """The decimal that a number is.

        >>> DecimalType(2).value(-5)
        Decimal('-0.05')
        """
        return Decimal(int(number)).scaleb(-self.places, _EXACT)

    def problem(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
            return f"expected {self}, found {type(value).__name__} {value!r}"
        number = Decimal(value)
        if not number.is_finite():
            return f"expected {self}, found {value}, which is no number"
        places = _places(number)
        if places > self.places:
            return (
                f"{value} has more than {self.places} places after the point: round it first"
                + (f", or declare Scale({places})" if places <= MOST_PLACES else "")
            )  # fmt: skip
        fits = number.is_zero() or (number.adjusted() <= MOST_PLACES and fits_int(self.flatten(number)[0]))
        return None if fits else f"{value} with {self.places} places does not fit in 64 bits"

    def plain(self, value: Any) -> Decimal:
        """The same number with exactly these places."""
        return self.value(self.flatten(value)[0])


def _places(number: Decimal) -> int:
    """How many places after the point a number needs; looked at digit by digit, as arithmetic rounds long ones.

    >>> _places(Decimal("12.500")), _places(Decimal("0.00")), _places(Decimal("1E+5"))
    (1, 0, -5)
    """
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    return 0 if number.is_zero() else -int(exponent) - (len(text) - len(text.rstrip("0")))


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, repr=False)
class ListType(Type):
    """A list, or a tuple of any length, of values of one type."""

    item: Type
    cls: type = list
    kinds: tuple[Type, ...] = field(init=False, compare=False)  # the types of the leaves of an element

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(kind for _, kind in self.item.leaves()))

    def __str__(self) -> str:
        return f"list[{self.item}]" if self.cls is list else f"tuple[{self.item}, ...]"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, STR

    def flatten(self, value: Any) -> tuple[Any, ...]:
        flat = self.item.flatten
        return (written([leaf for item in value for leaf in flat(item)]),)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, text: str) -> Any:
        """The list that a text says.

        >>> from pellucid.internal.expr.types.base import BOOL
        >>> ListType(BOOL).value("true,false")
        [True, False]
        """
        width, found = self.item.width, self.rows(text)
        if width == 1 and self.item == self.kinds[0]:
            return self.cls(found)
        of = self.item.unflatten
        return self.cls(of(found[i : i + width]) for i in range(0, len(found), width))

    def rows(self, text: str) -> list[Any]:
        """The leaves of all elements, one after the other."""
        found: list[Any] = json.loads(f"[{text}]")
        for j, kind in enumerate(self.kinds):
            if isinstance(kind, EnumType):
                members = kind.cls.__members__
                found[j :: len(self.kinds)] = [members[name] for name in found[j :: len(self.kinds)]]
        return found

    def size(self, text: str) -> int:
        """How many elements the list of a text has."""
        return len(json.loads(f"[{text}]")) // len(self.kinds)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """A text that says no list stands for one that is made of it, a short one: a solver gives any text."""
        try:
            if self.flatten(self.value(leaves[0])) == tuple(leaves):
                return tuple(leaves)
        except (ValueError, TypeError, LookupError, AssertionError, AttributeError, OverflowError):
            pass
        number = zlib.crc32(leaves[0].encode("utf-8", "replace")) % 1000
        few = all(kind == BOOL or isinstance(kind, EnumType) for kind in self.kinds)
        digits = [int(d) for d in f"{number % 7:b}"] if few else [number]
        return self.flatten([self.item.event([_standing(kind, d, leaves[0]) for kind in self.kinds]) for d in digits])

    def problem(self, value: Any) -> str | None:
        values = elements(value)
        if values is None:
            return f"expected {self}, found {type(value).__name__} {value!r}"
        for i, item in enumerate(values):
            trouble = self.item.problem(item)
            if trouble:
                return f"element {i}: {trouble}"
        return None


def written(leaves: Sequence[Any]) -> str:
    """The text of a list with these leaves; an enum's member goes by its name.

    >>> written([1, True, 2.5, "a"])
    '1,true,2.5,"a"'
    """
    return _encode([leaf.name if isinstance(leaf, enum.Enum) else leaf for leaf in leaves])[1:-1]


def elements(value: Any) -> Sequence[Any] | None:
    """What a list, a tuple or an array of one dimension holds; None of anything else."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1:
        return value.tolist()  # type: ignore[no-any-return]
    return None


def _standing(kind: Type, number: int, text: str) -> Any:
    """A value of a leaf that stands for a number, or for a text."""
    if isinstance(kind, EnumType):
        return kind.members[number % len(kind.members)]
    return {"bool": number % 2 == 1, "int": number, "float": float(number), "str": text}[str(kind)]


def list_in(t: Type) -> ListType | None:
    """The first list in an event of this type; None if it has none.

    >>> from pellucid.internal.expr.types.base import INT
    >>> from pellucid.internal.expr.types.base import TupleType
    >>> list_in(TupleType((INT, ListType(INT)))), list_in(INT)
    (list[int], None)
    """
    for _, column in t.columns():
        inner = getattr(column, "inner", column)
        if isinstance(inner, ListType):
            return inner
    return None


def comparable(t: ListType) -> bool:
    """Whether two lists are equal just if their texts are: not so with floats, of which 0.0 and -0.0 are one.

    >>> comparable(ListType(STR)), comparable(ListType(FLOAT))
    (True, False)
    """
    inside = [getattr(column, "inner", column) for _, column in t.item.columns()]
    return FLOAT not in t.kinds and all(comparable(u) for u in inside if isinstance(u, ListType))


def has_nan(t: Type, value: Any) -> bool:
    """Whether a NaN is among the elements of a list."""
    if not isinstance(t, ListType) or (FLOAT not in t.kinds and STR not in t.kinds):
        return False
    if t.item == FLOAT:
        return any(item != item for item in value)
    return any((type(leaf) is float and leaf != leaf) for item in value for leaf in t.item.flatten(item)) or any(
        has_nan(column, part) for item in value for column, part in _parts(t.item, item)
    )


def _parts(t: Type, item: Any) -> Iterator[tuple[Type, Any]]:
    """The columns of an element that are lists themselves, with their values."""
    at, leaves = 0, t.flatten(item)
    for _, column in t.columns():
        inner = getattr(column, "inner", column)
        if isinstance(inner, ListType):
            value = column.unflatten(leaves[at : at + column.width])
            if value is not None:
                yield inner, value
        at += column.width
