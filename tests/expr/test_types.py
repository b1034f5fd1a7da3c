from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from pellucid import TypeMismatch
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    STR,
    DecimalType,
    EnumType,
    TupleType,
    conform,
    join,
    type_of,
    type_of_value,
)
from tests.expr.functions import PAIR, POINT, SIDE, TRADE, Level, Pair, Point, Side, Trade


class Perm(enum.Flag):
    READ = 1
    WRITE = 2


class Empty(enum.Enum):
    pass


@dataclass
class Changing:
    x: int


@dataclass(frozen=True)
class Listed:
    xs: list  # type: ignore[type-arg]


@dataclass(frozen=True)
class Nothing:
    pass


class Untyped(NamedTuple):
    x: "Missing"  # type: ignore[name-defined]  # noqa: F821, UP037


USE = (
    "use bool, int, float, str, datetime, date, timedelta, Annotated[Decimal, Scale(2)], an enum, any of these | None, "
    "list[T] or tuple[T, ...] of these, or a frozen dataclass or NamedTuple of those"
)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (dict, f"an event cannot be a 'dict': {USE}"),
        (list, "a list needs the type of what it holds: write list[int]"),
        (None, f"an event cannot be a 'None': {USE}"),
        (tuple, "a tuple needs the type of what it holds: write tuple[int, ...]"),
        (Empty, "the enum Empty has no members"),
        (Perm, "the enum Perm is a Flag, whose members combine: use an int for its bits"),
        (
            Changing,
            "the dataclass Changing can be changed after it is made: an event must not be; write "
            "@dataclass(frozen=True)",
        ),
        (Listed, "the field 'xs' of Listed: a list needs the type of what it holds: write list[int]"),
        (Nothing, "the record Nothing has no fields: an event needs at least one"),
        (Untyped, "cannot read the field types of Untyped: name 'Missing' is not defined"),
    ],
)
def test_what_is_no_event(annotation: Any, message: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        type_of(annotation)
    assert str(caught.value) == message


def test_leaves() -> None:
    assert [path for path, _ in PAIR.leaves()] == ["first.x", "first.y", "second.x", "second.y"]
    assert PAIR.width == 4 and INT.width == 1
    pair = Pair(Point(1, 2), Point(3, 4))
    assert PAIR.flatten(pair) == (1, 2, 3, 4) and PAIR.unflatten((1, 2, 3, 4)) == pair
    t = TupleType((INT, TRADE))
    assert [path for path, _ in t.leaves()] == ["0", "1.price", "1.size", "1.side"]
    value = (1, Trade(1.5, 2, Side.BUY))
    assert t.unflatten(t.flatten(value)) == value


def test_text() -> None:
    assert str(PAIR) == "Pair(first: Point(x: int, y: int), second: Point(x: int, y: int))"
    assert str(TupleType((INT,))) == "(int,)" and repr(SIDE) == "Side"


def test_type_of_value() -> None:
    assert type_of_value(True) == BOOL and type_of_value(1) == INT
    assert type_of_value(Level.LOW) == EnumType(Level)
    assert (
        type_of_value(np.float64(1.5)) == FLOAT
        and type_of_value(np.int32(1)) == INT
        and type_of_value(np.bool_(1)) == BOOL
    )
    assert type_of_value(Point(1, 2)) == POINT
    assert [type_of_value(v) for v in ([1], (), Changing(1), Perm.READ, {1})] == [None] * 5
    assert type_of_value(None) == NOTHING and type_of_value((1, None)) == TupleType((INT, NOTHING))


def test_join() -> None:
    assert join(BOOL, INT) == INT and join(INT, FLOAT) == FLOAT and join(STR, STR) == STR
    assert join(TupleType((INT, BOOL)), TupleType((FLOAT, BOOL))) == TupleType((FLOAT, BOOL))
    assert join(SIDE, INT) is None and join(TupleType((INT,)), TupleType((INT, INT))) is None


@pytest.mark.parametrize(
    ("t", "value", "message"),
    [
        (INT, 2**63, "9223372036854775808 does not fit in 64 bits"),
        (INT, 1.5, "expected int, found float 1.5"),
        (BOOL, 1, "expected bool, found int 1"),
        (FLOAT, "1", "expected float, found str '1'"),
        (STR, 1, "expected str, found int 1"),
        (SIDE, "b", "expected a member of Side (BUY, SELL, HOLD), found 'b'"),
        (POINT, (1, 2), "expected Point, found tuple (1, 2)"),
        (POINT, Point(1, "a"), "field 'y': expected int, found str 'a'"),  # type: ignore[arg-type]
        (
            PAIR,
            Pair(Point(1, 2), Point(1.5, 2)),  # type: ignore[arg-type]
            "field 'second': field 'x': expected int, found float 1.5",
        ),
        (TupleType((INT, INT)), (1,), "expected a tuple of 2, found (1,)"),
    ],
)
def test_conform_says_why_not(t: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        conform(t, value)
    assert str(caught.value) == message


def test_conform() -> None:
    assert repr(conform(FLOAT, 1)) == "1.0" and repr(conform(INT, True)) == "1"
    assert repr(conform(INT, np.int64(3))) == "3" and repr(conform(INT, Level.HIGH)) == "200"
    assert repr(conform(TRADE, Trade(1, 2, Side.BUY))) == repr(Trade(1.0, 2, Side.BUY))
    assert conform(TupleType((FLOAT, INT)), (1, 2)) == (1.0, 2)


@pytest.mark.parametrize(
    "text", ["12.50" + "0" * 60 + "1", "0." + "0" * 80 + "1", "1" + "0" * 70 + ".001", "1E-3", "-0.005"]
)
def test_no_place_of_a_decimal_is_dropped_however_long_it_is(text: str) -> None:
    """Python's decimal arithmetic rounds to its context; the digits themselves do not."""
    trouble = DecimalType(2).problem(Decimal(text))
    assert trouble is not None and "has more than 2 places after the point" in trouble


@pytest.mark.parametrize("text", ["12.5" + "0" * 80, "0E-90", "1E+5", "-92233720368547758.08", "0E+99"])
def test_a_decimal_is_its_value_however_it_is_written(text: str) -> None:
    t = DecimalType(2)
    assert t.problem(Decimal(text)) is None
    assert t.unflatten(t.flatten(Decimal(text))) == Decimal(text)


@pytest.mark.parametrize("text", ["92233720368547758.08", "1E+17", "1E+999999"])
def test_a_decimal_that_does_not_fit(text: str) -> None:
    trouble = DecimalType(2).problem(Decimal(text))
    assert trouble is not None and "does not fit in 64 bits" in trouble
