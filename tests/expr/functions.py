"""Plain functions of many shapes, with the types of their parameters."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
#: Each with the types of its parameters, and whether it always fails as its trace does.
SHAPES: dict[str, tuple[Callable[..., Any], tuple[Type, ...], bool]] = {}
LOOSE = object()  # two operations may fail at once, and then either may be reported
BONUS = {Side.BUY: 3, Side.SELL: -3, Side.HOLD: 0}
LIMIT = 10


def shape(*params: Type, strict: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        SHAPES[f.__name__] = f, params, strict
        return f

    return add


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


def _clamp(v: Any, low: Any, high: Any) -> Any:
    if v < low:
        return low
    return high if v > high else v


def _scaler(k: int) -> Callable[[int], int]:
    def scale(v: int) -> int:
        return v * k

    return scale


@shape(INT, strict=False)
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


@shape(BOOL, INT)
def identity_of_booleans(flag: bool, v: int) -> int:
    positive = v > 0
    if flag is True and positive is not False:
        return 1
    return 2 if positive is True else 3


@shape(LEVEL, INT)
def int_enum(level: Level, v: int) -> int:
    if v == Level.HIGH:
        return 1000
    return v + level if v < Level.LOW else level * 2


@shape(STR, STR)
def text_equality(a: str, b: str) -> str:
    if not a:
        return "empty"
    return b if a == b or a != "buy" else "buy"


@shape(PAIR)
def nested_records(pair: Pair) -> Pair:
    if pair.first == pair.second:
        return dataclasses.replace(pair, second=Point(0, pair.first.y))
    return Pair(pair.second, pair.first)


@shape(INT, INT, strict=False)
def div_mod(a: int, b: int) -> tuple[int, int]:
    q, r = divmod(a, b)
    return q, r


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
def long_chain(v: int) -> int:
    t = 1
    for _ in range(400):
        t = (t * 3 + v % 7) & 1023
    return t


#: Functions of one expression, and callables that are no plain functions.
EXPRESSIONS: dict[str, tuple[Any, ...]] = {
    "and_or_not": (lambda a, b, c: (a > 3 and b < 7) or (not c and a != b), INT, INT, BOOL),
    "and_or_values": (lambda a, b: (a and b) or 17, INT, INT),
    "conditional_expression": (lambda a, b: a if a % 2 == 0 else b if b % 3 else -1, INT, INT),
    "min_max_abs": (lambda a, b, c: max(min(a, b, 50), c, -50), INT, INT, INT),
    "absolute": (lambda v: abs(v), INT),
    "float_extremes": (lambda a, b: max(a, min(b, 3.5), -1.0), FLOAT, FLOAT),
    "mixed_extremes": (lambda a, b: max(a, b) - min(a, b), INT, FLOAT),
    "floor_division": (lambda a, b: a // b, INT, INT),
    "remainder": (lambda a, b: a % b, INT, INT),
    "by_negative_constants": (lambda v: v // -7 + v % -7, INT),
    "by_minus_one": (lambda v: v // -1 if v > 5 else v % -1, INT),
    "true_division": (lambda a, b: a / b, INT, INT),
    "float_division": (lambda a, b: a / b, FLOAT, FLOAT),
    "float_floor_division": (lambda a, b: (a // b, a % b), FLOAT, FLOAT),
    "mixed_arithmetic": (lambda a, b: (a + b) * 2 - a / 3 + b // 2, INT, FLOAT, LOOSE),
    "chained_comparison": (lambda v: 0 < v <= LIMIT != v, INT),
    "helper_calls": (lambda a, b: _clamp(a, 0, 10) * _clamp(b, -5, 5), INT, INT),
    "default_argument": (lambda v, k=4, *, more=2: v * k - more, INT),
    "comprehension": (lambda a, b: sum([k for k in (a, b) if k > 2]), INT, INT),
    "identity_of_enums": (lambda a, b: a is b or a is Side.HOLD or b is not Side.BUY, SIDE, SIDE),
    "lookup_by_enum": (lambda side, v: v + BONUS[side], SIDE, INT),
    "enum_handed_through": (lambda side: Side.HOLD if side == Side.SELL else side, SIDE),
    "str_enum": (lambda word: 1 if word == Word.BUY else 2 if word in (Word.SELL, "x y") else 0, STR),
    "record_methods": (lambda p: p.moved(3) if p.norm > 4 else p, POINT),
    "named_tuple_replaced": (lambda t: t._replace(price=t.price + 1, side=Side.SELL) if t.size else t, TRADE),
    "records_in_order": (lambda a, b: Pair(a, b) < Pair(b, a), POINT, POINT),
    "boolean_arithmetic": (lambda a, b, v: v % 5 + a - b + (v > 3) + (-a) + (a < b), BOOL, BOOL, INT),
    "boolean_bits": (lambda a, b: (a & b) | (a ^ b) == (not a), BOOL, BOOL),
    "bits": (lambda a, b: ((a & b) | (a ^ 12)) ^ ~b, INT, INT),
    "shift_left": (lambda a, b: a << b, INT, INT),
    "shift_right": (lambda a, b: a >> b, INT, INT),
    "conversions": (
        lambda f, i, b: float(i) + int(b) + float(b) + (1.0 if bool(f) else 0.5) + int(i),
        FLOAT,
        INT,
        BOOL,
    ),
    "to_int": (lambda f: int(f), FLOAT),
    "roots": (lambda f, i: math.sqrt(math.fabs(f)) + math.sqrt(i), FLOAT, INT),
    "powers": (lambda v: v**2 + pow(v, 3), INT),
    "guarded_failure": (lambda a, b: b != 0 and a % b == 1, INT, INT),
    "int_against_float": (lambda i, f: (i < f) + 2 * (i == f) + 4 * (f <= i) + 8 * (i >= 2.5), INT, FLOAT),
    "big_constants": (
        lambda i, f: (
            (i < 2**70) + 2 * (i == 2**63) + 4 * (f < 2**63 + 1) + 8 * (f >= -(10**400)) + 16 * (-(2**63) - 1 > f)
        ),
        INT,
        FLOAT,
    ),
    "near_the_edge": (lambda v: (v + 1) - 1, INT),
    "signed_zero": (lambda f: -f if f == 0 else f * -0.0, FLOAT),
    "bool_or_int": (lambda v: v > 3 and v, INT),
    "int_or_float": (lambda v: v if v > 3 else 0.5, INT),
    "in_ranges": (lambda v: 1 if v in (3, 5, 200) else 2 if v in range(7, 10) else 3 if v not in [0] else 4, INT),
    "closure": (_scaler(3), INT),
    "floor": (lambda f: math.floor(f), FLOAT),
    "ceil": (lambda f: math.ceil(f), FLOAT),
    "trunc": (lambda f: math.trunc(f), FLOAT),
    "partial": (functools.partial(_three, 7), INT, INT),
    "method": (_Shifter(9).shift, INT),
    "callable_object": (_Shifter(9), INT),
    "operator_add": (operator.add, INT, INT),
    "operator_mul": (operator.mul, INT, FLOAT),
    "builtin_max": (max, INT, INT),
    "builtin_abs": (abs, FLOAT),
    "type_float": (float, INT),
    "record_class": (Point, INT, INT),
}
for _name, (_f, *_types) in EXPRESSIONS.items():
    SHAPES[_name] = _f, tuple(t for t in _types if t is not LOOSE), LOOSE not in _types


def running_mean(state: tuple[int, int], v: int) -> tuple[tuple[int, int], list[float]]:
    total, count = state[0] + v, state[1] + 1
    return (total, count), [total / count] if count else []


def split(state: int, v: int) -> tuple[int, list[int]]:
    if v < 0:
        return 0, []
    if v > 100:
        return state, [v, -v, state]
    return state + 1, [v] if v % 2 else []
