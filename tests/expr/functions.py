"""Plain functions of many shapes, with the types of their parameters."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from pellucid import Scale
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type, type_of


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"
    HOLD = "h"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 200


class Word(str, enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Trade(NamedTuple):
    price: float
    size: int
    side: Side


@dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int

    @property
    def norm(self) -> int:
        return abs(self.x) + abs(self.y)

    def moved(self, dx: int) -> Point:
        return dataclasses.replace(self, x=self.x + dx)


@dataclass(frozen=True, order=True)
class Pair:
    first: Point
    second: Point


SIDE, LEVEL, TRADE, POINT, PAIR = map(type_of, (Side, Level, Trade, Point, Pair))
SHAPES: list[tuple[Callable[..., Any], tuple[Type, ...], bool]] = []
LOOSE = False  # two operations may fail at once, and then either may be reported
BONUS = {Side.BUY: 3, Side.SELL: -3, Side.HOLD: 0}
LIMIT = 10


def shape(*params: Type, strict: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        SHAPES.append((f, params, strict))
        return f

    return add


def _add(f: Callable[..., Any], *params: Type, strict: bool = True) -> None:
    SHAPES.append((f, params, strict))


@shape(INT)
def if_elif_else(v: int) -> int:
    if v < 0:
        return -1
    elif v == 0:
        return 0
    else:
        return 1


@shape(INT, INT)
def nested_ifs(a: int, b: int) -> int:
    if a > 0:
        if b > 0:
            r = a - b
        else:
            r = a
    else:
        r = b if b < 5 else 5
    return r


@shape(INT, INT)
def early_returns(a: int, b: int) -> int:
    if a == b:
        return 0
    if a > b:
        return 1
    if a < b:
        return -1
    return 99  # never


@shape(INT, INT, BOOL)
def and_or_not(a: int, b: int, c: bool) -> bool:
    return (a > 3 and b < 7) or (not c and a != b)


@shape(INT, INT)
def and_or_values(a: int, b: int) -> int:
    return (a and b) or 17


@shape(INT, INT)
def conditional_expression(a: int, b: int) -> int:
    return a if a % 2 == 0 else b if b % 3 else -1


@shape(INT, INT, INT)
def min_max_abs(a: int, b: int, c: int) -> int:
    return max(min(a, b, 50), c, -50)


@shape(INT)
def absolute(v: int) -> int:
    return abs(v)


@shape(FLOAT, FLOAT)
def float_extremes(a: float, b: float) -> float:
    return max(a, min(b, 3.5), -1.0)


@shape(INT, FLOAT)
def mixed_extremes(a: int, b: float) -> float:
    return max(a, b) - min(a, b)


@shape(INT, INT)
def floor_division(a: int, b: int) -> int:
    return a // b


@shape(INT, INT)
def remainder(a: int, b: int) -> int:
    return a % b


@shape(INT)
def by_negative_constants(v: int) -> int:
    return v // -7 + v % -7


@shape(INT)
def by_minus_one(v: int) -> int:
    return v // -1 if v > 5 else v % -1


@shape(INT, INT)
def true_division(a: int, b: int) -> float:
    return a / b


@shape(FLOAT, FLOAT)
def float_division(a: float, b: float) -> float:
    return a / b


@shape(FLOAT, FLOAT)
def float_floor_division(a: float, b: float) -> tuple[float, float]:
    return a // b, a % b


@shape(INT, FLOAT, strict=LOOSE)
def mixed_arithmetic(a: int, b: float) -> float:
    return (a + b) * 2 - a / 3 + b // 2


@shape(INT)
def chained_comparison(v: int) -> bool:
    return 0 < v <= LIMIT != v


def _clamp(v: Any, low: Any, high: Any) -> Any:
    if v < low:
        return low
    return high if v > high else v


@shape(INT, INT)
def helper_calls(a: int, b: int) -> int:
    return _clamp(a, 0, 10) * _clamp(b, -5, 5)


def _scaler(k: int) -> Callable[[int], int]:
    def scale(v: int) -> int:
        return v * k

    return scale


_add(_scaler(3), INT)


@shape(INT)
def default_argument(v: int, k: int = 4, *, more: int = 2) -> int:
    return v * k - more


@shape(INT, strict=LOOSE)
def loop_over_constants(v: int) -> int:
    total = 0
    for i, k in enumerate((1, -2, 3)):
        total += v // k + i
    return total


@shape(INT)
def while_loop(v: int) -> int:
    k = 0
    while k < 4 and v > k * 10:
        k += 1
    return k


@shape(INT, INT)
def comprehension(a: int, b: int) -> int:
    return sum([k for k in (a, b) if k > 2])


@shape(SIDE, INT)
def match_on_enum(side: Side, v: int) -> int:
    match side:
        case Side.BUY:
            return v
        case Side.SELL:
            return -v
        case _:
            return 0


@shape(TRADE)
def match_on_record(t: Trade) -> float:
    match t:
        case Trade(price=p, side=Side.HOLD):
            return p
        case Trade(_, 0, _):
            return 0.0
        case Trade(price=p, size=s) if s > 100:
            return p * 2
    return t.price * t.size


@shape(INT)
def match_on_values(v: int) -> int:
    match v:
        case 0 | 1:
            return 10
        case -1:
            return 20
        case int() if v > 100:
            return 30
    return 40


@shape(SIDE, SIDE)
def identity_of_enums(a: Side, b: Side) -> bool:
    return a is b or a is Side.HOLD or b is not Side.BUY


@shape(BOOL, INT)
def identity_of_booleans(flag: bool, v: int) -> int:
    positive = v > 0
    if flag is True and positive is not False:
        return 1
    return 2 if positive is True else 3


@shape(SIDE, INT)
def lookup_by_enum(side: Side, v: int) -> int:
    return v + BONUS[side]


@shape(SIDE)
def enum_handed_through(side: Side) -> Side:
    return Side.HOLD if side == Side.SELL else side


@shape(LEVEL, INT)
def int_enum(level: Level, v: int) -> int:
    if v == Level.HIGH:
        return 1000
    return v + level if v < Level.LOW else level * 2


@shape(STR)
def str_enum(word: str) -> int:
    return 1 if word == Word.BUY else 2 if word in (Word.SELL, "x y") else 0


@shape(STR, STR)
def text_equality(a: str, b: str) -> str:
    if not a:
        return "empty"
    return b if a == b or a != "buy" else "buy"


@shape(POINT)
def record_methods(p: Point) -> Point:
    return p.moved(3) if p.norm > 4 else p


@shape(PAIR)
def nested_records(pair: Pair) -> Pair:
    if pair.first == pair.second:
        return dataclasses.replace(pair, second=Point(0, pair.first.y))
    return Pair(pair.second, pair.first)


@shape(TRADE)
def named_tuple_replaced(t: Trade) -> Trade:
    return t._replace(price=t.price + 1, side=Side.SELL) if t.size else t


@shape(POINT, POINT)
def records_in_order(a: Point, b: Point) -> bool:
    return Pair(a, b) < Pair(b, a)


@shape(BOOL, BOOL, INT)
def boolean_arithmetic(a: bool, b: bool, v: int) -> int:
    return v % 5 + a - b + (v > 3) + (-a) + (a < b)


@shape(BOOL, BOOL)
def boolean_bits(a: bool, b: bool) -> bool:
    return (a & b) | (a ^ b) == (not a)


@shape(INT, INT)
def bits(a: int, b: int) -> int:
    return ((a & b) | (a ^ 12)) ^ ~b


@shape(INT, INT)
def shift_left(a: int, b: int) -> int:
    return a << b


@shape(INT, INT)
def shift_right(a: int, b: int) -> int:
    return a >> b


@shape(FLOAT, INT, BOOL)
def conversions(f: float, i: int, b: bool) -> float:
    return float(i) + int(b) + float(b) + (1.0 if bool(f) else 0.5) + int(i)


@shape(FLOAT)
def to_int(f: float) -> int:
    return int(f)


_add(lambda f: math.floor(f), FLOAT)
_add(lambda f: math.ceil(f), FLOAT)
_add(lambda f: math.trunc(f), FLOAT)


@shape(FLOAT, INT)
def roots(f: float, i: int) -> float:
    return math.sqrt(math.fabs(f)) + math.sqrt(i)


@shape(INT, INT, strict=LOOSE)
def div_mod(a: int, b: int) -> tuple[int, int]:
    q, r = divmod(a, b)
    return q, r


@shape(INT)
def powers(v: int) -> int:
    return v**2 + pow(v, 3)


@shape(INT, INT, INT)
def any_all_sum(a: int, b: int, c: int) -> int:
    if any(v > 10 for v in (a, b)) and all((a, b, c)):
        return sum((a % 100, b % 100, c % 100))
    return -1


@shape(INT, INT)
def sorted_values(a: int, b: int) -> tuple[int, int, int]:
    low, mid, high = sorted([a, b, 5])
    return low, mid, high


def _three(k: int, a: int, b: int) -> int:
    return k - a + b


class _Shifter:
    def __init__(self, by: int) -> None:
        self.by = by

    def shift(self, v: int) -> int:
        return v + self.by

    def __call__(self, v: int) -> int:
        return v - self.by


_add(functools.partial(_three, 7), INT, INT)
_add(_Shifter(9).shift, INT)
_add(_Shifter(9), INT)
_add(operator.add, INT, INT)
_add(operator.mul, INT, FLOAT)
_add(max, INT, INT)
_add(abs, FLOAT)
_add(float, INT)
_add(Point, INT, INT)


@shape(INT)
def early_raise(v: int) -> int:
    if v < 0:
        raise ValueError("negative")
    assert v != 13
    return 100 // (v - 7)


@shape(INT)
def raise_with_a_message(v: int) -> int:
    if v < 0:
        raise ValueError(f"{v} is negative, not {v!r:>10}" + str(v))
    if v > 1000:
        raise LookupError("too large", v)
    return v


@shape(INT, INT)
def unused_failure(a: int, b: int) -> int:
    a // b
    return a


@shape(INT, INT)
def guarded_failure(a: int, b: int) -> bool:
    return b != 0 and a % b == 1


@shape(INT, FLOAT)
def int_against_float(i: int, f: float) -> int:
    return (i < f) + 2 * (i == f) + 4 * (f <= i) + 8 * (i >= 2.5)


@shape(INT, FLOAT)
def big_constants(i: int, f: float) -> int:
    return (i < 2**70) + 2 * (i == 2**63) + 4 * (f < 2**63 + 1) + 8 * (f >= -(10**400)) + 16 * (-(2**63) - 1 > f)


@shape(INT)
def near_the_edge(v: int) -> int:
    return (v + 1) - 1


@shape(FLOAT)
def signed_zero(f: float) -> float:
    return -f if f == 0 else f * -0.0


@shape(FLOAT, FLOAT)
def float_branches(a: float, b: float) -> int:
    if a < b:
        return 1
    elif a == b:
        return 2
    elif a > b:
        return 3
    return 4  # NaN


@shape(INT)
def bool_or_int(v: int) -> int | bool:
    return v > 3 and v


@shape(INT)
def int_or_float(v: int) -> float:
    return v if v > 3 else 0.5


@shape(INT)
def in_ranges(v: int) -> int:
    return 1 if v in (3, 5, 200) else 2 if v in range(7, 10) else 3 if v not in [0] else 4


@shape(INT)
def long_chain(v: int) -> int:
    t = 1
    for _ in range(400):
        t = (t * 3 + v % 7) & 1023
    return t


def running_mean(state: tuple[int, int], v: int) -> tuple[tuple[int, int], list[float]]:
    total, count = state[0] + v, state[1] + 1
    return (total, count), [total / count] if count else []


def split(state: int, v: int) -> tuple[int, list[int]]:
    if v < 0:
        return 0, []
    if v > 100:
        return state, [v, -v, state]
    return state + 1, [v] if v % 2 else []


# Random functions over records with times, decimals and values that may be missing, as Python text.
#
# They are written from the meaning of Python alone: what `eval` makes of the text is the oracle.


@dataclass(frozen=True)
class Row:
    i: int
    f: float
    b: bool
    s: str
    at: datetime
    when: Annotated[datetime, UTC]
    day: date
    took: timedelta
    fee: Annotated[Decimal, Scale(2)]
    oi: int | None
    of: float | None
    ob: bool | None
    os: str | None
    oat: datetime | None
    otook: timedelta | None
    ofee: Annotated[Decimal, Scale(4)] | None


NAMES = {
    "datetime": datetime,
    "date": date,
    "timedelta": timedelta,
    "Decimal": Decimal,
    "UTC": UTC,
    "dt": dt,
    "decimal": decimal,
    "Row": Row,
}
_ROUNDING = [
    "ROUND_HALF_EVEN",
    "ROUND_HALF_UP",
    "ROUND_HALF_DOWN",
    "ROUND_UP",
    "ROUND_DOWN",
    "ROUND_FLOOR",
    "ROUND_CEILING",
]


class Writer:
    """Writes expressions of a wanted kind, no deeper than asked."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def make(self, kind: str, depth: int) -> str:
        """An expression of a kind: int, bool, point, instant, span, day, money."""
        options = getattr(self, f"_{kind}")(depth - 1) if depth > 0 else []
        return str(self.rng.choice([*options, *self.leaves(kind)]))

    def leaves(self, kind: str) -> list[str]:
        rng = self.rng
        return {
            "int": ["e.i", str(rng.randint(-5, 90)), "(e.oi or 3)", "(e.oi if e.oi is not None else -1)"],
            "bool": ["e.b", "e.oi is None", "(e.ob or False)", "e.s == 'a'", "e.os is None", "e.os == 'a'"],
            "point": ["e.at", "datetime(2013, 1, 31, 5, 7, 9, 11)", "(e.oat or e.at)"],
            "instant": ["e.when", "datetime(2000, 2, 29, tzinfo=UTC)"],
            "span": ["e.took", "timedelta(days=1, seconds=7)", "(e.otook or timedelta(minutes=-90))", "timedelta(0)"],
            "day": ["e.day", "date(2012, 2, 29)"],
            "money": ["e.fee", "Decimal('1.25')", "Decimal('-0.05')", "(e.ofee if e.ofee is not None else Decimal(3))"],
        }[kind]

    def _int(self, d: int) -> list[str]:
        m = self.make
        point = m("point", d)
        return [
            f"({m('int', d)} {self.rng.choice('+-*')} {m('int', d)})",
            f"{point}.{self.rng.choice(['year', 'month', 'day', 'hour', 'minute', 'second', 'microsecond'])}",
            f"{m('day', d)}.{self.rng.choice(['year', 'month', 'day', 'weekday()', 'isoweekday()', 'toordinal()'])}",
            f"{m('span', d)}.{self.rng.choice(['days', 'seconds', 'microseconds'])}",
            f"({m('span', d)} // {m('span', d)})",
            f"int({m('money', d)})",
            f"round({m('money', d)})",
            f"({m('int', d)} if {m('bool', d)} else {m('int', d)})",
            f"{m('instant', d)}.hour",
        ]

    def _bool(self, d: int) -> list[str]:
        m, sign = self.make, self.rng.choice(["<", "<=", "==", "!=", ">", ">="])
        kind = self.rng.choice(["int", "point", "instant", "span", "day", "money"])
        return [
            f"({m(kind, d)} {sign} {m(kind, d)})",
            f"({m('money', d)} {sign} {m('int', d)})",
            f"({m('bool', d)} and {m('bool', d)})",
            f"({m('bool', d)} or {m('bool', d)})",
            f"(not {m('bool', d)})",
            f"(e.oat is not None and e.oat {sign} {m('point', d)})",
            f"(e.of is not None and e.of {sign} e.f)",
            f"bool({m('span', d)})",
            f"({m('point', d)} == {m('day', d)})",
        ]

    def _point(self, d: int) -> list[str]:
        m = self.make
        unit = self.rng.choice(
            ["minute=0, second=0, microsecond=0", "hour=0", "day=1", "month=2", "year=2013", "second=59"]
        )
        return [
            f"({m('point', d)} + {m('span', d)})",
            f"({m('point', d)} - {m('span', d)})",
            f"{m('point', d)}.replace({unit})",
            f"({m('point', d)} if {m('bool', d)} else {m('point', d)})",
            f"max({m('point', d)}, {m('point', d)})",
        ]

    def _instant(self, d: int) -> list[str]:
        return [
            f"({self.make('instant', d)} + {self.make('span', d)})",
            f"{self.make('instant', d)}.replace(minute=30)",
        ]

    def _span(self, d: int) -> list[str]:
        m = self.make
        return [
            f"({m('point', d)} - {m('point', d)})",
            f"({m('day', d)} - {m('day', d)})",
            f"({m('instant', d)} - {m('instant', d)})",
            f"({m('span', d)} * {self.rng.randint(-3, 5)})",
            f"({m('span', d)} // {self.rng.choice([1, 2, 7, -3])})",
            f"({m('span', d)} / {self.rng.choice([1, 2, 7, -3])})",
            f"({m('span', d)} % {m('span', d)})",
            f"abs({m('span', d)})",
            f"(-{m('span', d)})",
            f"timedelta(minutes={m('int', d)} % 1000)",
        ]

    def _day(self, d: int) -> list[str]:
        m = self.make
        return [f"{m('point', d)}.date()", f"({m('day', d)} + {m('span', d)})", f"({m('day', d)} - {m('span', d)})",
                f"{m('day', d)}.replace(day=1)"]  # fmt: skip

    def _money(self, d: int) -> list[str]:
        m = self.make
        how = self.rng.choice(_ROUNDING)
        return [
            f"({m('money', d)} {self.rng.choice('+-')} {m('money', d)})",
            f"({m('money', d)} * {self.rng.randint(-3, 4)})",
            f"({m('money', d)} * Decimal('0.5'))",
            f"round({m('money', d)}, {self.rng.randint(0, 2)})",
            f"{m('money', d)}.quantize(Decimal('0.1'), rounding=decimal.{how})",
            f"Decimal({m('int', d)} % 1000)",
            f"abs({m('money', d)})",
            f"(-{m('money', d)})",
            f"(0 + {m('money', d)})",
        ]


def function_text(rng: random.Random) -> str:
    """A function of a row: a few values, one of them perhaps missing."""
    w = Writer(rng)
    kinds = rng.sample(["int", "bool", "point", "instant", "span", "day", "money"], 2)
    parts = [w.make(kind, rng.randint(1, 3)) for kind in kinds]
    parts.append(f"({w.make('point', 1)} if {w.make('bool', 2)} else None)")
    parts.append(rng.choice(["e.oi", "e.oat", "e.os", "e.ofee", "e.of", "e.otook", "e.ob"]))
    return f"lambda e: ({', '.join(parts)})"


def rows(rng: random.Random, count: int) -> list[Row]:
    """Random rows, with the awkward ones often."""
    points = [
        datetime(2013, 1, 1, 5),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2000, 2, 29, 12, 34, 56, 789),
    ]
    points += [datetime.min, datetime.max, datetime(1900, 3, 1), datetime(2012, 12, 31, 23, 30)]

    def point() -> datetime:
        if rng.random() < 0.6:
            return rng.choice(points)
        return datetime(rng.randint(1, 9999), rng.randint(1, 12), rng.randint(1, 28)) + timedelta(
            seconds=rng.randint(0, 86399), microseconds=rng.randint(0, 999999)
        )

    def span() -> timedelta:
        return rng.choice(
            [timedelta(0), timedelta(minutes=rng.randint(-999, 999)), timedelta(microseconds=rng.randint(-9, 9)),
             timedelta(days=rng.randint(-400, 400), seconds=rng.randint(0, 86399))]
        )  # fmt: skip

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.35 else value

    def money(places: int) -> Decimal:
        return Decimal(rng.choice([0, 5, -5, 15, 25, 250, rng.randint(-(10**6), 10**6)])).scaleb(-places)

    return [
        Row(
            rng.choice([0, 1, -1, 7, 59, 60, 61, rng.randint(-1000, 1000)]), rng.choice([0.0, -1.5, 2.5, 1e6]),
            rng.random() < 0.5, rng.choice(["", "a", "é"]), point(), point().replace(tzinfo=UTC), point().date(),
            span(), money(2), maybe(rng.choice([0, 1, 61, -7])), maybe(rng.choice([0.0, 2.5])),
            maybe(rng.random() < 0.5), maybe(rng.choice(["", "a"])), maybe(point()), maybe(span()), maybe(money(4)),
        )
        for _ in range(count)
    ]  # fmt: skip
