"""Random functions as Python text, written from a grammar: what `eval` makes of the text is what a trace must equal."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import linecache
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pellucid import Scale
from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type

Grammar = dict[str, list[str]]


def written(rng: random.Random, grammar: Grammar, leaves: Grammar, kind: str, depth: int) -> str:
    """An expression of a kind; ``{kind}`` in a form is an expression of that kind, one level less deep."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(leaves[kind])
    form = rng.choice(grammar[kind])
    return re.sub(r"\{(\w+)\}", lambda found: written(rng, grammar, leaves, found[1], depth - 1), form)


def forms(text: str) -> list[str]:
    """One form on each line."""
    return [line.strip() for line in text.strip().splitlines()]


def source_of(text: str, space: dict[str, Any]) -> Any:
    """The lambda of a text, which can be read again: as if it stood in a file."""
    name = f"<made {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(text), None, [text + "\n"], name)
    return eval(compile(text, name, "eval"), dict(space))


# ---------------------------------------------------------------- programs with branches, loops and helpers

HEAD = """
import math

def clamp(v, low=-9, high=9):
    if v < low:
        return low
    return min(v, high)

def sign(v):
    return (v > 0) - (v < 0)

K, WEIGHTS = 5, (3, -2, 7)
"""

PROGRAM: Grammar = {
    "int": forms("""
        ({int} + {int})
        ({int} - {int})
        ({int} * {int})
        ({int} // {int})
        ({int} % {int})
        ({int} & {int})
        ({int} ^ {int})
        ({int} | {int})
        ({int} << ({int} & 7))
        ({int} >> {int})
        -{int}
        abs({int})
        ~{int}
        min({int}, {int})
        max({int}, {int}, {int})
        ({int} if {bool} else {int})
        clamp({int})
        sign({number})
        int({bool})
        ({int} or {int})
        ({int} and {int})
        sum([{int}, {int}])
        sorted([{int}, {int}, 3])[1]
        ({int} + {bool})
        divmod({int}, {int})[1]
        (clamp({int}) ** 2)
        max(v for v in ({int}, {int}))
        (lambda v: v {twice} v)({int})"""),
    "float": forms("""
        ({float} + {number})
        ({number} - {float})
        ({float} * {number})
        ({int} / {int})
        ({float} / {number})
        ({float} // {number})
        ({float} % {number})
        -{float}
        abs({float})
        min({float}, {float})
        float({int})
        ({float} if {bool} else {float})
        math.sqrt(abs({float}))
        max({number}, {float}) * 1.0"""),
    "bool": forms("""
        ({number} < {number})
        ({number} <= {number} < {number})
        ({number} == {number})
        ({number} != {number})
        (not {bool})
        ({bool} and {bool})
        ({bool} or {bool})
        ({bool} ^ {bool})
        ({int} in (1, K, {int}))
        bool({number})
        any((c > 0, {bool}))
        ({bool} is True)
        isinstance({number}, int)"""),
    "number": ["{int}", "{int}", "{float}"],
    "twice": ["-", "^", "&", "|", "//", "%"],
}
CONSTANTS = {
    "int": ["0", "1", "-1", "2", "7", "K", "-100", "2**40", "len(WEIGHTS)", "2**63 - 1"],
    "float": ["0.0", "0.5", "-2.25", "1e10", "math.pi"],
    "bool": ["True", "False"],
}


class Program:
    """A function ``f(a, b, c, d)`` of two ints, a float and a bool."""

    params: tuple[Type, ...] = (INT, INT, FLOAT, BOOL)

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names: Grammar = {"int": ["a", "b"], "float": ["c"], "bool": ["d"]}
        self.lines: list[str] = []
        self.block(self.rng.randint(2, 5), 1, 2)
        self.lines.append(f"    return {self.expr(self.rng.choice(['int', 'float', 'bool']), 3)}")
        self.text = HEAD + "\ndef f(a, b, c, d):\n" + "\n".join(self.lines)

    def function(self) -> Any:
        space: dict[str, Any] = {"__name__": "random_program"}
        exec(compile(self.text, "<program>", "exec"), space)
        return space["f"]

    def expr(self, kind: str, depth: int) -> str:
        leaves: Grammar = {"twice": PROGRAM["twice"]}
        for k, constants in CONSTANTS.items():  # two thirds of the leaves are names
            leaves[k] = constants + self.names[k] * (len(constants) * 2 // len(self.names[k]))
        leaves["number"] = leaves["int"] + leaves["float"]
        return written(self.rng, PROGRAM, leaves, kind, depth)

    def block(self, size: int, indent: int, depth: int) -> None:
        for _ in range(size):
            pad, roll = "    " * indent, self.rng.random()
            if roll < 0.5 or depth == 0:
                self.assign(pad)
            elif roll < 0.75:
                saved = {k: list(v) for k, v in self.names.items()}
                self.lines.append(f"{pad}if {self.expr('bool', 2)}:")
                self.block(self.rng.randint(1, 2), indent + 1, depth - 1)
                self.names = {k: list(v) for k, v in saved.items()}
                if self.rng.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    if self.rng.random() < 0.3:
                        self.lines.append(f"{pad}    return {self.expr('int', 2)}")
                    else:
                        self.block(1, indent + 1, depth - 1)
                self.names = saved
            elif roll < 0.85:
                self.lines.append(f"{pad}for k in WEIGHTS[:{self.rng.randint(1, 3)}]:")
                name = self.rng.choice(["a", "b"])
                self.lines.append(f"{pad}    {name} = {self.expr('int', 1)} + {name} % 100 - k")
            elif roll < 0.93:
                self.lines.append(f"{pad}if {self.expr('bool', 1)}: raise ValueError('no')")
            else:
                self.lines.append(f"{pad}{self.expr('int', 2)}")  # only for its failure

    def assign(self, pad: str) -> None:
        kind = self.rng.choice(["int", "int", "float", "bool"])
        value = self.expr(kind, 2)
        old = {"int": ["a", "b"], "float": ["c"], "bool": ["d"]}[kind]
        name = self.rng.choice(old) if self.rng.random() < 0.4 else f"t{len(self.lines)}"
        self.lines.append(f"{pad}{name} = {value}")
        if name not in self.names[kind]:
            self.names[kind].append(name)


# ---------------------------------------------------------------- functions of texts

TEXTS = [
    "", "a", "AbC,d", "x y", " 7 ", "-3", "1_000", "a,b,c", "ß", "İ", "ı", "ǆ", "e\u0301", "é", "𝔘x", "٣", "１２", "ﬁn",
    "\u1c90", "Σς", "²", "\u2028line", "tab\tx", "C1", "9223372036854775808", "1e3", "nan", "0x1f", "%s", "{}",
]  # fmt: skip
NAMES = {"a": "Alpha", "ß": "sharp", "C1": "Carrier", "": "empty", "x y": "İ"}
NUMBERS = {"a": 1, "b": -5, "٣": 3, "AbC,d": 2**62}
BY_NUMBER = {0: "none", 1: "one", -3: "minus", 7: "sieben"}
PAIRS = {("a", "a"): 1, ("a", "ß"): 2, ("", "a"): 3}
CODES = {"a", "C1", "ß"}
SPACE: dict[str, Any] = {
    "NAMES": NAMES, "NUMBERS": NUMBERS, "BY_NUMBER": BY_NUMBER, "PAIRS": PAIRS, "CODES": CODES,
    "FEW": frozenset({1, 2, 7}),
}  # fmt: skip

TEXTUAL: Grammar = {
    "str": forms("""
        {str}.upper()
        {str}.lower()
        {str}.strip()
        {str}.title()
        {str}.casefold()
        {str}.swapcase()
        {str}.capitalize()
        {str}.replace({word}, {str})
        ({str} + {str})
        {str}[{place}:{place}]
        {str}[::-1]
        {str}[::2]
        {str}[{place}]
        {str}[:{int}]
        {str}.split({mark})[{place}]
        {str}.split()[{place}]
        {str}.partition({mark})[1]
        NAMES.get({str}, {word})
        NAMES.get({str}, {str})
        NAMES[{str}]
        BY_NUMBER.get({int}, '?')
        str({int})
        ",".join([{str}, {str}])
        " ".join({str}.split())
        "<{}>".format({str})
        "%s|%s" % ({str}, {int})
        {str}.zfill(3)
        {str}.removeprefix({str})
        ({str} if {bool} else {str})
        ({word} + {str})
        ({str} + {word})"""),
    "int": forms("""
        len({str})
        {str}.find({str})
        {str}.index({word})
        {str}.count({word})
        int({str})
        NUMBERS[{str}]
        PAIRS.get(({str}, {str}), 0)
        ord({str})
        {"a": 1, "ß": 2}.get({str}, 0)
        {"a": 1, "": 3}[{str}]
        ({int} + {int})
        ({int} * {int})
        ({int} if {bool} else {int})"""),
    "bool": forms("""
        {str}.startswith({str})
        {str}.endswith(({str}, {word}))
        ({str} < {str})
        ({str} >= {str})
        ({str} == {str})
        ({str} in (s + {str}))
        ({str} in CODES)
        ({str} not in NAMES)
        ({str} in {"a", "ß"})
        ({int} in FEW)
        {str}.isdigit()
        {str}.isalpha()
        {str}.isupper()
        {str}.isspace()
        ({bool} and {bool})
        (not {bool})"""),
}
_WORDS = ['"a"', '"ß"', '","', '" "', '"1"', '""', '"İ"', '"ab"']
_TEXT_LEAVES: Grammar = {
    "str": ["s", "t", "s", "t", "(s + t)", "t.upper()"], "int": ["n", "1", "7"], "bool": ["(s == t)"], "word": _WORDS,
    "place": ["0", "1", "2", "-1", "-2"], "mark": ['","', '"a"'],
}  # fmt: skip
TEXTUAL |= {kind: _TEXT_LEAVES[kind] for kind in ("word", "place", "mark")}


def text_function(rng: random.Random) -> str:
    """A lambda of two texts and a number; now and then with an f-string, which cannot be nested before 3.12."""
    body = written(rng, TEXTUAL, _TEXT_LEAVES, rng.choice(["str", "int", "bool"]), rng.randint(1, 3))
    if rng.random() < 0.2:
        inner = rng.choice(["{s}-{n:03d}", "{s!r}{t:>4}", "{s.upper()}{n}"])
        body = f"({body}, f'{inner}')"
    return f"lambda s, t, n: {body}"


# ---------------------------------------------------------------- functions of rows with times and decimals


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


ROW_SPACE: dict[str, Any] = {
    "datetime": datetime, "date": date, "timedelta": timedelta, "Decimal": Decimal, "UTC": UTC, "dt": dt,
    "decimal": decimal, "Row": Row,
}  # fmt: skip
_ROUNDING = ["HALF_EVEN", "HALF_UP", "HALF_DOWN", "UP", "DOWN", "FLOOR", "CEILING"]
_UNITS = ["minute=0, second=0, microsecond=0", "hour=0", "day=1", "month=2", "year=2013", "second=59"]
ROWS: Grammar = {
    "int": [
        *(f"({{int}} {sign} {{int}})" for sign in "+-*"),
        *(f"{{point}}.{name}" for name in ("year", "month", "day", "hour", "minute", "second", "microsecond")),
        *(f"{{day}}.{name}" for name in ("year", "month", "weekday()", "isoweekday()", "toordinal()")),
        *(f"{{span}}.{name}" for name in ("days", "seconds", "microseconds")),
        "({span} // {span})", "int({money})", "round({money})", "({int} if {bool} else {int})", "{instant}.hour",
    ],
    "bool": [
        *(f"({{{kind}}} {{sign}} {{{kind}}})" for kind in ("int", "point", "instant", "span", "day", "money")),
        "({money} {sign} {int})", "({bool} and {bool})", "({bool} or {bool})", "(not {bool})", "bool({span})",
        "(e.oat is not None and e.oat {sign} {point})", "(e.of is not None and e.of {sign} e.f)", "({point} == {day})",
    ],
    "point": [
        "({point} + {span})", "({point} - {span})", "({point} if {bool} else {point})", "max({point}, {point})",
        *(f"{{point}}.replace({unit})" for unit in _UNITS),
    ],
    "instant": ["({instant} + {span})", "{instant}.replace(minute=30)"],
    "span": [
        "({point} - {point})", "({day} - {day})", "({instant} - {instant})", "({span} * {factor})", "({span} % {span})",
        "({span} // {divisor})", "({span} / {divisor})", "abs({span})", "(-{span})", "timedelta(minutes={int} % 1000)",
    ],
    "day": ["{point}.date()", "({day} + {span})", "({day} - {span})", "{day}.replace(day=1)"],
    "money": [
        "({money} + {money})", "({money} - {money})", "({money} * {factor})", "({money} * Decimal('0.5'))",
        "round({money}, 1)", "abs({money})", "(-{money})", "(0 + {money})", "Decimal({int} % 1000)",
        *(f"{{money}}.quantize(Decimal('0.1'), rounding=decimal.ROUND_{how})" for how in _ROUNDING),
    ],
}  # fmt: skip
_ROW_LEAVES: Grammar = {
    "int": ["e.i", "7", "-3", "61", "(e.oi or 3)", "(e.oi if e.oi is not None else -1)"],
    "bool": ["e.b", "e.oi is None", "(e.ob or False)", "e.s == 'a'", "e.os is None", "e.os == 'a'"],
    "point": ["e.at", "datetime(2013, 1, 31, 5, 7, 9, 11)", "(e.oat or e.at)"],
    "instant": ["e.when", "datetime(2000, 2, 29, tzinfo=UTC)"],
    "span": ["e.took", "timedelta(days=1, seconds=7)", "(e.otook or timedelta(minutes=-90))", "timedelta(0)"],
    "day": ["e.day", "date(2012, 2, 29)"],
    "money": ["e.fee", "Decimal('1.25')", "Decimal('-0.05')", "(e.ofee if e.ofee is not None else Decimal(3))"],
    "sign": ["<", "<=", "==", "!=", ">", ">="],
    "factor": ["-3", "-1", "2", "4"],
    "divisor": ["1", "2", "7", "-3"],
}
ROWS |= {kind: _ROW_LEAVES[kind] for kind in ("sign", "factor", "divisor")}


def row_function(rng: random.Random) -> str:
    """A function of a row: a few values, one of them perhaps missing."""
    make: Callable[[str, int], str] = lambda kind, depth: written(rng, ROWS, _ROW_LEAVES, kind, depth)
    kinds = rng.sample(["int", "bool", "point", "instant", "span", "day", "money"], 2)
    parts = [make(kind, rng.randint(1, 3)) for kind in kinds]
    parts.append(f"({make('point', 1)} if {make('bool', 2)} else None)")
    parts.append(rng.choice(["e.oi", "e.oat", "e.os", "e.ofee", "e.of", "e.otook", "e.ob"]))
    return f"lambda e: ({', '.join(parts)})"


def rows(rng: random.Random, count: int) -> list[Row]:
    """Random rows, with the awkward ones often."""
    points = [
        datetime(2013, 1, 1, 5), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2000, 2, 29, 12, 34, 56, 789),
        datetime.min, datetime.max, datetime(1900, 3, 1), datetime(2012, 12, 31, 23, 30),
    ]  # fmt: skip

    def point() -> datetime:
        if rng.random() < 0.6:
            return rng.choice(points)
        day = datetime(rng.randint(1, 9999), rng.randint(1, 12), rng.randint(1, 28))
        return day + timedelta(seconds=rng.randint(0, 86399), microseconds=rng.randint(0, 999999))

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
