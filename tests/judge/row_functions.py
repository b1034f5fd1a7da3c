"""Functions over rows as people write them, as plain Python text: drawn at random, and some that are picked by hand."""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["PICKED", "Text", "drawn"]


class Text(NamedTuple):
    """A function ``f(e)``: what it returns, and its source."""

    result: str
    source: str


ANNOTATIONS = {
    "int": "int", "float": "float", "bool": "bool", "str": "str", "datetime": "datetime", "instant": "Instant",
    "date": "date", "timedelta": "timedelta", "cents": "Cents", "color": "Color",
}  # fmt: skip
_FIELD = {
    "int": "i", "float": "f", "bool": "b", "str": "s", "datetime": "at", "instant": "u", "date": "d", "timedelta": "w",
    "cents": "m", "color": "col",
}  # fmt: skip
_OPTIONAL = {
    "int": "j", "float": "g", "bool": "c", "str": "t", "datetime": "an", "instant": "un", "date": "dn",
    "timedelta": "wn",
    "fine": "k", "color": "cn",
}  # fmt: skip
_CONSTANTS = {
    "int": ["0", "1", "2", "-1", "3", "60", "7", "1000", "10**18"],
    "float": ["0.0", "0.5", "-1.5", "2.0", "1e17", "0.1", "60.0"],
    "bool": ["True", "False"],
    "str": ["''", "'a'", "'AA'", "','", "'ß'", "'🙂'", "' '", "'12'", "'None'"],
    "datetime": ["datetime(2013, 1, 1, 5)", "datetime(1, 1, 1)", "datetime(2012, 2, 29, 23, 59, 59, 999999)"],
    "instant": ["datetime(2013, 1, 1, 5, tzinfo=UTC)", "datetime(2013, 10, 27, 2, 30, tzinfo=BERLIN)"],
    "date": ["date(2013, 1, 1)", "date(2000, 2, 29)"],
    "timedelta": ["timedelta(hours=1)", "timedelta(0)", "timedelta(microseconds=-1)", "timedelta(days=1, seconds=-3)"],
    "cents": ["Decimal('1.25')", "Decimal('0.00')", "Decimal('-3.50')", "Decimal('0.05')"],
    "fine": ["Decimal('1.2500')", "Decimal('0.0050')"],
    "color": ["Color.RED", "Color.GREEN", "Color.BLUE"],
}
_PARTS = ["year", "month", "day", "hour", "minute", "second", "microsecond"]
_ORDERED = ["int", "float", "str", "datetime", "instant", "date", "timedelta", "cents"]


def _above(text: str) -> str:
    return f"(1 + abs({text}))"


class Draw:
    """Draws expressions of a type: ``self.int(depth)``."""

    def __init__(self, r: random.Random, *, failing: bool = True) -> None:
        self.r = r
        self.failing = failing

    def of(self, kind: str, depth: int) -> str:
        """An expression of this type."""
        r = self.r
        if depth <= 0 or r.random() < 0.15:
            return self.leaf(kind)
        if r.random() < 0.14:
            return f"({self.of(kind, depth - 1)} if {self.of('bool', depth - 1)} else {self.of(kind, depth - 1)})"
        if r.random() < 0.06 and kind in _ORDERED:
            return f"{r.choice(['min', 'max'])}({self.of(kind, depth - 1)}, {self.of(kind, depth - 1)})"
        if r.random() < 0.06 and kind not in ("bool", "color"):
            return f"({self.of(kind, depth - 1)} or {self.of(kind, depth - 1)})"
        if r.random() < 0.05:
            return f"twice_{'n' if kind == 'int' else 'same'}({self.of(kind, depth - 1)})"
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind: str) -> str:
        r, field = self.r, _FIELD.get(kind)
        ways = [r.choice(_CONSTANTS[kind])]
        if field:
            ways += [f"e.{field}"] * 3
        if kind == "int":
            ways += ["e.p.x", "(e.p.y or 0)", "(0 if e.p.y is None else e.p.y)"]
        if kind == "cents":
            return r.choice([*ways, "e.m"])
        if maybe := _OPTIONAL.get(kind):
            c = r.choice(_CONSTANTS[kind])
            ways += [f"(e.{maybe} or {c})", f"(e.{maybe} if e.{maybe} is not None else {c})"]
            ways += [f"({c} if e.{maybe} is None else e.{maybe})"]
        return r.choice(ways)

    def int(self, n: int) -> str:
        r, of = self.r, self.of
        ways = [
            lambda: f"({of('int', n)} {r.choice('+-*')} {of('int', n)})",
            lambda: f"({of('int', n)} {r.choice(['+', '-', '*', '&', '|', '^'])} {of('int', n)})",
            lambda: f"({of('int', n)} {r.choice(['//', '%'])} {r.choice(['7', '-3', _above(of('int', n))])})",
            lambda: f"divmod({of('int', n)}, {r.choice(['7', '-3'])})[{r.choice('01')}]",
            lambda: f"abs({of('int', n)})",
            lambda: f"(-{of('int', n)})",
            lambda: f"len({of('str', n)})",
            lambda: f"{of('str', n)}.{r.choice(['find', 'rfind', 'count'])}({of('str', 0)})",
            lambda: f"{of('datetime', n)}.{r.choice(_PARTS)}",
            lambda: f"{of('instant', n)}.{r.choice(_PARTS)}",
            lambda: f"{of('date', n)}.{r.choice(['year', 'month', 'day', 'weekday()', 'isoweekday()', 'toordinal()'])}",
            lambda: f"{of('instant', n)}.{r.choice(['weekday()', 'isoweekday()', 'toordinal()'])}",
            lambda: f"{of('timedelta', n)}.{r.choice(['days', 'seconds', 'microseconds'])}",
            lambda: f"({of('timedelta', n)} // {r.choice(['timedelta(hours=1)', 'timedelta(seconds=-7)'])})",
            lambda: f"int({of('bool', n)})",
            lambda: f"({of('bool', n)} + {of('int', n)})",
            lambda: f"round({of('cents', n)})",
            lambda: f"int({of('cents', n)})",
            lambda: f"DAYS.get({of('int', n)}, -1)",
            lambda: f"CODES.get({of('str', n)}, {of('int', n)})",
            lambda: f"({of('date', n)} - {of('date', n)}).days",
            lambda: f"PLACES[{of('int', n)} % 3]",
            lambda: f"RANK[{of('color', n)}]",
        ]  # fmt: skip
        if self.failing:
            ways += [
                lambda: f"int({of('str', n)})",
                lambda: f"({of('int', n)} {r.choice(['//', '%'])} {of('int', n)})",
                lambda: f"({of('timedelta', n)} // {of('timedelta', n)})",
                lambda: f"CODES[{of('str', n)}]",
                lambda: f"int({of('float', n)})",
                lambda: f"round({of('float', n)})",
                lambda: f"math.{r.choice(['floor', 'ceil', 'trunc'])}({of('float', n)})",
                lambda: f"ord({of('str', n)}[0])",
            ]
        return r.choice(ways)()

    def float(self, n: int) -> str:
        r, of = self.r, self.of
        ways = [
            lambda: f"({of('float', n)} {r.choice('+-*')} {of('float', n)})",
            lambda: f"({of('float', n)} {r.choice('+-*')} {of('int', n)})",
            lambda: f"({of('int', n)} / {r.choice(['3', '7', '-2', '10.0'])})",
            lambda: f"abs({of('float', n)})",
            lambda: f"(-{of('float', n)})",
            lambda: f"round({of('float', n)}, {r.choice(['0', '1', '2', '-1', '3'])})",
            lambda: f"{of('timedelta', n)}.total_seconds()",
            lambda: f"{of('instant', n)}.timestamp()",
            lambda: f"float({of('int', n)})",
            lambda: f"float({of('cents', n)})",
            lambda: f"({of('timedelta', n)} / timedelta(minutes=7))",
            lambda: f"min({of('float', n)}, {of('float', n)}, {of('float', n)})",
        ]
        if self.failing:
            ways += [
                lambda: f"({of('float', n)} {r.choice(['/', '//', '%'])} {of('float', n)})",
                lambda: f"({of('int', n)} / {of('int', n)})",
                lambda: f"math.sqrt({of('float', n)})",
                lambda: f"float({of('str', n)})",
                lambda: f"({of('timedelta', n)} / {of('timedelta', n)})",
            ]
        return r.choice(ways)()

    def bool(self, n: int) -> str:
        r, of = self.r, self.of
        kind = r.choice(_ORDERED)
        maybe = r.choice(list(_OPTIONAL.values()))
        pair = r.choice(["j", "g", "t", "c", "dn", "wn", "k", "cn", "un", "an"])
        sort = {v: k for k, v in _OPTIONAL.items()}[pair]
        same = {"fine": "cents"}.get(sort, sort)
        ways = [
            lambda: f"({of(kind, n)} {r.choice(['<', '<=', '==', '!=', '>', '>='])} {of(kind, n)})",
            lambda: f"({of(kind, n)} < {of(kind, n)} <= {of(kind, n)})",
            lambda: f"({of('bool', n)} and {of('bool', n)})",
            lambda: f"({of('bool', n)} or {of('bool', n)})",
            lambda: f"(not {of('bool', n)})",
            lambda: f"(e.{maybe} is {r.choice(['', 'not '])}None)",
            lambda: f"(e.{pair} {r.choice(['==', '!='])} {of(same, n)})",
            lambda: f"(e.{pair} == None)",
            lambda: f"(e.{pair} in (None, {of(same, n)}))",
            lambda: f"(e.{pair} is not None and e.{pair} {r.choice(['==', '!='])} {of(same, n)})",
            lambda: f"bool({of(r.choice([*_ORDERED, 'color']), n)})",
            lambda: f"bool(e.{maybe})",
            lambda: f"(e.{pair} == e.{_FIELD.get(sort, 'm')})",
            lambda: f"({of('str', n)} in {of('str', n)})",
            lambda: f"({of('str', n)} {r.choice(['in', 'not in'])} KNOWN)",
            lambda: f"(e.t {r.choice(['in', 'not in'])} MAYBE)",
            lambda: f"(e.j {r.choice(['in', 'not in'])} {{1, None, 60, True}})",
            lambda: f"{of('str', n)}.{r.choice(['startswith', 'endswith'])}({of('str', 0)})",
            lambda: f"{of('str', n)}.{r.choice(['isdigit', 'isalpha', 'isupper', 'isspace', 'isdecimal'])}()",
            lambda: f"({of('color', n)} {r.choice(['is', 'is not', '==', '!='])} {of('color', n)})",
            lambda: f"(e.cn is {r.choice(['Color.RED', 'None', 'Color.GREEN'])})",
            lambda: f"(e.c is {r.choice(['True', 'False', 'None'])})",
            lambda: f"({of('int', n)} {r.choice(['<', '==', '>=', '!='])} {of('float', n)})",
            lambda: f"({of('cents', n)} {r.choice(['<', '==', '>=', '!='])} {of('int', n)})",
            lambda: f"({of('cents', n)} {r.choice(['<', '==', '>=', '!='])} {r.choice(['(e.k or 0)', 'Decimal(7)'])})",
            lambda: f"({of('bool', n)} == {of('int', n)})",
            lambda: f"math.{r.choice(['isnan', 'isinf', 'isfinite'])}({of('float', n)})",
            lambda: f"any(v > 2 for v in ({of('int', n)}, {of('int', n)}))",
        ]  # fmt: skip
        return r.choice(ways)()

    def str(self, n: int) -> str:
        r, of = self.r, self.of
        cut = lambda: r.choice(["", "0", "1", "-1", "2", "-2", "5", "-9", of("int", 0)])
        plain = r.choice(["int", "float", "bool", "str", "datetime", "instant", "date", "timedelta", "cents", "color"])
        method = r.choice(
            ["upper()", "lower()", "strip()", "casefold()", "title()", "capitalize()", "swapcase()", "lstrip()",
                "rstrip('a ')",
             "zfill(5)", "rjust(4, '*')", "center(5)", "ljust(3)", "replace('a', 'ß')", "replace('', '-')",
             "removeprefix('a')",
             "removesuffix(' ')", "expandtabs()", "split(',')[0]", "partition(',')[2]",
             "split()[-1:][0:1] and 'y' or 'n'"]
        )  # fmt: skip
        if method.startswith("split()"):
            method = "rpartition('b')[0]"
        ways = [
            lambda: f"{of('str', n)}.{method}",
            lambda: f"{of('str', n)}.{method}",
            lambda: f"({of('str', n)} + {of('str', n)})",
            lambda: f"{of('str', n)}[{cut()}:{cut()}]",
            lambda: f"{of('str', n)}[{cut()}:{cut()}:{r.choice(['-1', '2', '-2', '1'])}]",
            lambda: f'f"{{{of(plain, 0)}}}"',
            lambda: f'f"<{{{of(plain, n)}!s:>6}}|{{{of("int", n)}:05d}}>"',
            lambda: f"str({of(plain, n)})",
            lambda: f"NAMES.get({of('str', n)}, {of('str', n)})",
            lambda: f"'-'.join([{of('str', n)}, {of('str', n)}])",
            lambda: f"{of('color', n)}.name",
            lambda: f"('%s/%d' % ({of('str', n)}, {of('int', n)}))",
            lambda: f"repr({of('str', n)})",
            lambda: f"({of('str', 0)} * ({of('int', n)} % 3))",
            lambda: f"{of('date', n)}.isoformat()",
            lambda: f"{of('datetime', n)}.strftime('%m/%d')",
            lambda: f"str(e.{r.choice(['j', 't', 'dn', 'k', 'c'])})",
            lambda: f'f"{{{of("cents", n)}:.1f}}"',
        ]
        if self.failing:
            ways += [lambda: f"{of('str', n)}[{of('int', n)}]", lambda: f"{of('str', n)}.split(',')[1]"]
        return r.choice(ways)()

    def _times(self, kind: str, n: int) -> str:
        r, of = self.r, self.of
        ways = [
            lambda: f"({of(kind, n)} {r.choice('+-')} {of('timedelta', n)})",
            lambda: f"({of(kind, n)} + {of('timedelta', 0)})",
            lambda: f"{of(kind, n)}.replace(minute=0, second=0, microsecond=0)",
            lambda: f"{of(kind, n)}.replace(day=1)",
            lambda: f"{of(kind, n)}.replace(hour={of('int', n)} % 24)",
            lambda: self.leaf(kind),
        ]
        if self.failing:
            ways.append(lambda: f"{of(kind, n)}.replace(day=31)")
            ways.append(lambda: f"{of(kind, n)}.replace(year={of('int', 0)} % 3000)")
        return r.choice(ways)()

    def datetime(self, n: int) -> str:
        if self.r.random() < 0.15:
            i = self.of("int", n)
            return f"datetime(2000 + {i} % 100, 1 + {i} % 12, 1 + {i} % 28, {i} % 24)"
        if self.r.random() < 0.1:
            return f"{self.of('instant', n)}.replace(tzinfo=None)"
        return self._times("datetime", n)

    def instant(self, n: int) -> str:
        if self.r.random() < 0.1:
            return f"{self.of('datetime', n)}.replace(tzinfo=UTC)"
        if self.r.random() < 0.1:
            return f"{self.of('instant', n)}.astimezone(BERLIN).replace(hour=0).astimezone(UTC)"
        return self._times("instant", n)

    def date(self, n: int) -> str:
        r, of = self.r, self.of
        return r.choice([
            lambda: f"{of('datetime', n)}.date()",
            lambda: f"{of('instant', n)}.date()",
            lambda: f"({of('date', n)} {r.choice('+-')} {of('timedelta', n)})",
            lambda: f"{of('date', n)}.replace(day=1)",
            lambda: f"({of('date', n)} + timedelta(days={of('int', n)} % 1000))",
            lambda: f"date(1 + abs({of('int', n)} % 9999), 2, 28)",
        ])()  # fmt: skip

    def timedelta(self, n: int) -> str:
        r, of = self.r, self.of
        ways = [
            lambda: f"({of('timedelta', n)} {r.choice('+-')} {of('timedelta', n)})",
            lambda: f"({of('timedelta', n)} * {r.choice(['3', '-2', '(' + of('int', n) + ' % 100)'])})",
            lambda: f"({of('timedelta', n)} // {r.choice(['7', '-3', '2'])})",
            lambda: f"({of('timedelta', n)} % {r.choice(['timedelta(hours=1)', 'timedelta(seconds=-7)'])})",
            lambda: f"({of('timedelta', n)} / {r.choice(['2', '-3', '7'])})",
            lambda: f"({of('datetime', n)} - {of('datetime', n)})",
            lambda: f"({of('instant', n)} - {of('instant', n)})",
            lambda: f"({of('date', n)} - {of('date', n)})",
            lambda: f"abs({of('timedelta', n)})",
            lambda: f"(-{of('timedelta', n)})",
            lambda: f"timedelta(days={of('int', n)} % 50, minutes={of('int', n)} % 5000)",
            lambda: f"divmod({of('timedelta', n)}, timedelta(minutes=7))[1]",
            lambda: f"timedelta(seconds=({of('float', 0)} if abs({of('float', 0)}) < 1e6 else 0.5))",
        ]
        if self.failing:
            ways.append(lambda: f"({of('timedelta', n)} % {of('timedelta', n)})")
        return r.choice(ways)()

    def cents(self, n: int) -> str:
        """Two places at most, so that it fits the type of the result."""
        r, of = self.r, self.of
        return r.choice([
            lambda: f"({of('cents', n)} {r.choice('+-')} {of('cents', n)})",
            lambda: f"({of('cents', n)} * ({of('int', n)} % 9))",
            lambda: f"round({of('fine', n)}, 2)",
            lambda: f"round({of('cents', n)} * {of('cents', 0)}, {r.choice('012')})",
            lambda: f"{of('fine', n)}.quantize(Decimal('0.01'))",
            lambda: f"{of('fine', n)}.quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)",
            lambda: f"{of('fine', n)}.quantize(Decimal('0.1'), ROUND_{r.choice(['DOWN', 'CEILING', 'UP', 'FLOOR'])})",
            lambda: f"abs({of('cents', n)})",
            lambda: f"(-{of('cents', n)})",
            lambda: f"Decimal({of('int', n)} % 1000)",
            lambda: f"({of('cents', n)} + {of('int', n)} % 100)",
            lambda: f"sum([{of('cents', n)}, {of('cents', n)}])",
        ])()  # fmt: skip

    def fine(self, n: int) -> str:
        r, of = self.r, self.of
        return r.choice([
            lambda: f"({of('cents', n)} * {of('cents', 0)})",
            lambda: f"({of('fine', n)} {r.choice('+-')} {of('cents', n)})",
            lambda: self.leaf("fine"),
            lambda: f"(e.k if e.k is not None and {of('bool', n)} else {of('cents', n)})",
            lambda: f"(-{of('fine', n)})",
        ])()  # fmt: skip

    def color(self, n: int) -> str:
        return self.leaf("color")


def drawn(r: random.Random, *, failing: bool = True) -> Text:
    """A function at random: an expression, or a few lines with early returns."""
    kind, d = r.choice(list(ANNOTATIONS)), Draw(r, failing=failing)
    depth = r.choice([1, 2, 2, 3, 3, 4])
    lines = []
    for _ in range(r.choice([0, 0, 0, 1, 2])):
        way = r.random()
        if way < 0.5:
            lines.append(f"if {d.of('bool', depth - 1)}:\n        return {d.of(kind, depth - 1)}")
        elif way < 0.8:
            maybe = r.choice(list(_OPTIONAL.items()))
            lines.append(f"if e.{maybe[1]} is None:\n        return {d.of(kind, 1)}")
            if failing and r.random() < 0.2:
                lines.append(f"elif {d.of('bool', 1)}:\n        raise ValueError('no')")
        else:
            lines.append(f"n = {d.of('int', 1)}\n    if n > 3:\n        return {d.of(kind, 1)}")
    body = "\n    ".join([*lines, f"return {d.of(kind, depth)}"])
    return Text(kind, f"def f(e: E) -> {ANNOTATIONS[kind]}:\n    {body}\n")


def _one(kind: str, *bodies: str) -> list[Text]:
    return [Text(kind, f"def f(e: E) -> {ANNOTATIONS.get(kind, kind)}:\n    return {body}\n") for body in bodies]


PICKED = [
    # the type of a branch shows in a text
    *_one("str", "f'{e.i if e.b else e.f}'", "str(e.i or e.f)", "str(e.b or e.i)", "str(min(e.i, e.f))",
        "str(max(e.f, e.i))",
          "f'{e.m if e.b else (e.k or 0)}'", "str(e.m + (e.k or 0))", "str(e.m * 2)", "str(max(e.m, 0))",
          "str(e.m or 5)",
          "str(e.b + e.b)", "str(e.b and e.i)", "str(-e.m)", "str(abs(e.m))", "str(round(e.m, 1))", "str(round(e.m))",
          "str(-e.f)", "f'{e.f * 0}'", "f'{e.f:.2f}'", "f'{e.f!r:>10}'", "str(e.i / 1)", "f'{e.f // 1}'",
          "str(e.w)", "f'{e.at}'", "f'{e.u}'", "f'{e.u:%Y-%m-%d %Z}'", "f'{e.d:%d.%m.%Y}'", "str(e.at.date())",
          "e.u.isoformat()",
          "str(e.u.tzinfo)", "str(e.col)", "str(e.col.value)", "f'{e.col}'", "str(e.cn)", "str(e.cn and e.cn.name)",
          "str(e.p)", "f'{e.p.y}'", "str(e.j or e.t)", "str(e.j == e.c)", "f'{e.b:d}'", "f'{e.b}'", "f'{e.i:x}'",
          "f'{e.i:+,}'",
          "str(e.u.timestamp())", "str(round(e.f, 1))", "str(0 if e.b else 0.0)", "str(-0.0 if e.b else 0.0)",
          "str(Decimal(e.i))", "str(Decimal(e.i % 7) * e.m)", "str(e.m.quantize(Decimal('1')))", "f'{e.m:.1f}'",
          "f'{e.m:,.2f}'", "f'{e.m:f}'",
          "str(sum([e.m, e.m]))", "str(sum([e.b, e.b]))", "str(e.i ** 0)", "str(True + 0)", "str(bool(e.i) + 0)",
          "str((e.j, e.t))", "str([e.i])", "str(e.f.is_integer())", "e.f.hex()", "str(e.u.utcoffset())",
          "e.s.encode().hex()",
          "str(e.at.time())", "e.at.strftime('%j %U %a')", "e.at.ctime()", "str(e.at.timetuple().tm_yday)",
          "str(e.d.isocalendar())",
          "str(hash(e.i) == hash(float(e.i)))", "e.s[::-1]", "e.s[-1:-4:-1]", "e.s[e.i % 5 - 2:]",
          "e.s.upper().lower()", "e.s.swapcase()",
          "e.s.translate({97: 'b', 98: None})", "' '.join(e.s.split())", "'%5.1f' % e.f", "'%r' % e.s",
          "'{:>5}|{}'.format(e.s, e.i)",
          "max(e.s, e.t or '')", "min(e.s, 'a', key=len)", "e.s if e.s > 'a' else 'a'", "(e.t or e.s or 'z')",
          "(e.t and e.s) or 'z'"),
    *_one("int", "int(e.s)", "int(e.s, 16)", "int(e.s.strip() or '0')", "len(e.s)", "len(e.s.encode())",
        "e.s.find(e.t or '')", "e.i if e.b else e.b",
          "e.b", "e.i // (e.j or 1)", "e.i % (e.j or 1)", "divmod(e.i, e.j or 1)[1]", "round(e.f)", "int(e.f)",
          "int(e.m)", "round(e.m)", "math.floor(e.m)",
          "math.ceil(e.m)", "math.trunc(e.m)", "e.w // timedelta(seconds=7)",
          "(e.w % timedelta(seconds=-7)).microseconds", "e.w.days", "e.w.seconds",
          "e.w.microseconds", "(-e.w).seconds", "(e.u - datetime(2013, 1, 1, tzinfo=BERLIN)) // timedelta(hours=1)",
          "e.u.astimezone(BERLIN).hour",
          "e.u.astimezone(BERLIN).day", "e.u.astimezone(KATHMANDU).minute",
          "e.at.replace(tzinfo=BERLIN).astimezone(UTC).hour",
          "e.at.replace(tzinfo=BERLIN, fold=1).utcoffset().seconds", "e.d.toordinal()", "e.d.isocalendar()[1]",
          "e.d.isocalendar().week", "e.at.weekday()",
          "e.at.fold", "e.i ** 2", "e.i << 2", "e.i >> 1", "-e.i >> 3", "~e.i", "e.i & 255", "e.i ^ -1",
          "e.i.bit_length()", "e.i.bit_count()",
          "CODES[e.s]", "DAYS[e.i]", "DAYS.get(e.j, 0)", "CODES.get(e.t, -1)", "NAMES_N[e.s, e.i]", "PLACES[e.i]",
          "PLACES[-1 - e.i % 3]",
          "[e.i, 5][e.b]", "(e.i, 5, 7)[e.i % 3]", "{True: 1, False: 0}[e.b]", "{0: 5, 1: 6}.get(e.b, 7)",
          "{1: 5}.get(e.f, 7)", "{None: 1}.get(e.j, 2)",
          "e.i if e.j else 0 if e.j is None else 9", "(e.j or e.i or 7)", "(e.j and e.i) or 7", "e.p.x + (e.p.y or 0)",
          "min(e.i, e.j or e.i)",
          "sum(x for x in (e.i, e.j, e.p.y) if x is not None)", "max((x for x in (e.j, e.p.y) if x), default=-5)",
          "len([x for x in (e.j, e.g, e.t) if x is None])",
          "sorted([e.i, 3, e.p.x])[1]", "len({e.i, e.p.x, 3})", "abs(e.i)", "-e.i", "e.i * e.i", "e.i + 1", "e.i - 1",
          "e.i // -1", "(e.i + 1) - 1", "e.i % -7",
          "e.d.month * 100 + e.d.day", "(e.d - date(1, 1, 1)).days", "(e.d.replace(day=28) + timedelta(days=4)).day",
          "(e.at - datetime(1, 1, 1)).days",
          "round(e.i, -1)", "round(e.i, 2)", "round(e.i / 3)", "int(e.i / 3)", "int(True)", "int('12') + e.i",
          "int(e.b) * 2", "ord(e.s)", "e.col.value if e.col is Color.RED else 5",
          "RANK[e.col]", "RANK.get(e.cn, 9)", "[Color.RED, Color.GREEN, Color.BLUE].index(e.col)",
          "int(e.u.timestamp())", "int(e.w.total_seconds())", "int(e.w / timedelta(hours=1))",
          "e.s.count('a')", "e.s.count('')", "e.s.index('a')", "(e.s + 'a').index('a')", "e.s.rfind('')",
          "len(e.s.split(','))", "len(e.s.splitlines())", "len(e.s.split())", "int(e.s or '0', 10)",
          "int(e.s[:1] or '3')"),
    *_one("bool", "e.j == None", "e.j != None", "e.j == e.i", "e.j == e.p.y", "e.t == e.s", "e.j in (1, None)",
        "e.j in [e.i, None]", "e.t in {'a', None}", "None in (e.j, e.t)", "e.c == 1", "e.c == 0", "e.b == 1",
          "e.c is True", "e.c is not False", "e.c", "bool(e.c)", "not e.c", "not e.w", "not e.m", "not e.f",
          "bool(e.d)", "bool(e.at)", "bool(e.col)", "bool(e.p)", "e.f == e.i", "e.f < e.i", "e.i <= e.f < e.i + 1",
          "e.f == 0", "e.f == -0.0", "e.f is e.f", "e.m == e.i", "e.m < e.i", "e.m == (e.k or 0)", "e.k == e.m",
          "e.m == 1.25", "e.m < 1.5", "e.m > e.f", "e.m == Decimal('1.250')", "e.m < Decimal('1.251')",
          "e.m in (Decimal('1.25'), 1)",
          "e.m in {Decimal('1.2500'): 1}", "e.at == e.u", "e.at == e.d", "e.d == e.at.date()",
          "e.u == datetime(2013, 10, 27, 2, 30, tzinfo=BERLIN)",
          "e.u < datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=BERLIN)", "e.un == e.u", "e.an == e.at", "e.wn == e.w",
          "e.col == 1", "e.col is Color.RED", "e.col in (Color.RED, None)", "e.cn in (Color.RED, None)",
          "e.cn == e.col", "e.col.value == 1", "e.s == ''", "e.s", "'' in e.s", "e.s in 'a,b'", "e.s < (e.t or 'b')",
          "e.s < '🙂'", "e.s <= '\\uffff'", "e.s.isdigit()",
          "e.s.isidentifier()", "e.s.isprintable()", "e.s.istitle()", "e.s.startswith(('a', 'A'))",
          "e.s.endswith(e.t or '')", "e.s.startswith('a', 1)", "e.s in KNOWN", "e.t in MAYBE", "e.j not in MAYBE",
          "e.p == Point(e.i, e.j)", "e.p.y is None", "(e.i, e.s) == (1, 'a')",
          "(e.i, e.s) < (1, 'a')", "(e.d, e.i) <= (date(2013, 1, 1), 5)", "isinstance(e.i, int)",
          "isinstance(e.b, int)", "isinstance(e.at, date)", "e.i is None", "type(e.f) is float", "e.w < timedelta(0)",
          "abs(e.w) < timedelta(seconds=1)", "0 < e.w.total_seconds() < 3600",
          "e.at.date() < e.d", "e.u.date() == e.d", "e.u.year == e.at.year", "e.f != e.f", "math.isnan(e.f - e.f)",
          "e.f - e.f == e.f - e.f", "any((e.b, e.c))", "all((e.b, e.c))", "e.b ^ bool(e.c)", "e.b & (e.c is None)",
          "e.b | (e.i > 3)", "~e.i == -e.i - 1", "not (e.i and e.f)",
          "e.i == e.i + 0.0", "e.i + 0.5 > e.i", "2**63 > e.i", "e.i < 2**63 - 1", "e.f < 2**63", "e.f < 10**400",
          "'a' < e.s < 'b'", "e.s != e.s.lower()", "e.s.upper() == 'SS'", "e.s.casefold() == 'ss'",
          "e.s.lower() == 'i̇'", "len(e.s) == len(e.s.upper())"),
    *_one("float", "e.f % 3.0", "e.f // 3.0", "e.f % -0.3", "-e.f % 1.0", "e.f // -0.1", "divmod(e.f, 0.3)[1]",
        "round(e.f, 2)", "round(e.f, -2)", "round(e.f, 0)", "round(2.675, 2) * e.f", "e.f * 0.0", "abs(e.f)",
        "min(e.f, 0.0)", "max(e.f, -0.0)", "min(0.0, e.f, -0.0)", "e.i / 3",
          "e.i / (e.j or 7)", "e.f / (e.g or 3.0)", "e.f + e.i", "float(e.s)", "float(e.m)", "float(e.m) / 3",
          "e.u.timestamp()", "e.w.total_seconds()", "e.w / timedelta(days=1)", "math.sqrt(e.f)", "math.log(e.f)",
          "math.copysign(1.0, e.f)", "e.g or e.f", "e.g or 0.0", "e.g if e.g else -0.0",
          "float(e.i)", "float(e.b)", "e.i", "e.i if e.b else e.f", "sum((e.f, e.f, e.i))", "sum([0.1] * 10) + e.f",
          "e.f - e.f", "e.f ** 2", "abs(e.i) ** 0.5", "e.f * e.f", "float(e.j or 0)", "float('inf') if e.b else e.f",
          "math.fabs(e.f)", "math.fmod(e.f, 3.0)", "math.hypot(e.f, 1.0)", "math.floor(e.f) + 0.5",
          "e.f.real", "e.f.conjugate()", "(e.f + 1e16) - 1e16", "e.f * 1e300", "1e308 * 10 * e.f", "-0.0 + e.f",
          "0.0 - e.f", "-(e.f)", "e.f if e.f == e.f else 0.0", "e.f or -0.0"),
    *_one("timedelta", "e.w * 2", "e.w // 7", "e.w // -7", "-e.w", "abs(e.w)", "e.w % timedelta(seconds=7)",
        "e.w % timedelta(seconds=-7)", "e.w / 3", "e.w * 0.1", "e.w / 0.3", "e.at - datetime(2013, 1, 1)",
        "e.u - datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=BERLIN)", "e.d - date(2000, 1, 1)",
          "e.w or timedelta(1)", "e.wn or e.w", "timedelta(minutes=e.i)", "timedelta(days=e.i % 100, hours=-3)",
          "timedelta(seconds=e.f)", "timedelta(weeks=e.i % 9, milliseconds=e.i % 7)",
          "e.at - e.at.replace(hour=0, minute=0, second=0, microsecond=0)", "min(e.w, timedelta(0))",
          "sum([e.w, e.w], timedelta())",
          "timedelta(e.w.days, e.w.seconds, e.w.microseconds)", "timedelta(microseconds=e.i)",
          "divmod(e.w, timedelta(seconds=7))[1]", "e.w - e.w", "e.i * e.w", "True * e.w", "e.b * e.w",
          "e.u.utcoffset()", "e.w + timedelta.resolution", "timedelta.max - e.w if e.b else e.w",
          "timedelta(hours=e.i % 5) * (e.j or 0)"),
    *_one("datetime", "e.at + e.w", "e.at - e.w", "e.at.replace(hour=0, minute=0, second=0, microsecond=0)",
        "e.at.replace(microsecond=e.at.microsecond // 1000 * 1000)", "e.at.replace(day=31)", "e.at.replace(month=2)",
        "e.at.replace(year=e.i)", "datetime(e.d.year, e.d.month, e.d.day)", "datetime.combine(e.d, e.at.time())",
        "datetime.fromisoformat('2013-01-01') + e.w",
          "e.u.replace(tzinfo=None)", "e.u.astimezone(BERLIN).replace(tzinfo=None)", "e.an or e.at",
          "max(e.at, datetime(2000, 1, 1))",
          "datetime(2013, 1, 1) + (e.at - datetime(2013, 1, 1)) // timedelta(hours=1) * timedelta(hours=1)",
          "datetime(e.i, 1, 1)", "datetime(2013, e.i % 13, 1)", "datetime.min + e.w", "datetime.max - e.w",
          "e.at + timedelta(days=1)", "e.at - timedelta(days=1)",
          "e.at + timedelta(microseconds=1)", "datetime.strptime('2013', '%Y') + e.w",
          "datetime(2013, 1, 1, e.at.hour)", "e.at.replace(fold=1)", "datetime(1970, 1, 1) + timedelta(seconds=e.i)"),
    *_one("instant", "e.u + e.w", "e.u.replace(hour=0)", "e.at.replace(tzinfo=UTC)", "e.un or e.u",
        "e.u.astimezone(BERLIN)", "e.u.astimezone(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)",
        "e.u.astimezone(BERLIN) + timedelta(days=1)", "e.at.replace(tzinfo=BERLIN)",
        "datetime.fromtimestamp(e.i, UTC)", "datetime(2013, 1, 1, tzinfo=UTC) + e.w",
        "datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=BERLIN)",
          "max(e.u, datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=BERLIN))",
          "datetime(2013, 10, 27, 1, 0, tzinfo=BERLIN) + timedelta(hours=e.i % 5)",
          "datetime.combine(e.d, e.at.time(), UTC)", "e.u.replace(tzinfo=UTC)", "e.u.replace(day=29)",
          "e.u if e.b else datetime(2013, 3, 31, 2, 30, tzinfo=BERLIN)"),
    *_one("date", "e.at.date()", "e.u.date()", "e.d + e.w", "e.d - e.w", "e.d + timedelta(days=e.i % 60)",
        "e.d.replace(day=29)", "e.d.replace(year=e.i % 10000)", "e.u.astimezone(BERLIN).date()", "e.dn or e.d",
        "date(e.i, 1, 1)", "date.fromordinal(e.i)", "date.min + e.w", "e.d - timedelta(days=e.d.weekday())",
        "max(e.d, e.at.date())", "date.fromisoformat('2013-01-01')", "e.d + timedelta(hours=25)",
        "e.d + timedelta(hours=-1)", "e.d - timedelta(microseconds=1)"),
    *_one("cents", "e.m", "-e.m", "abs(e.m)", "e.m * 3", "round(e.m * e.m, 2)", "round(e.m, 1)", "round(e.m, 0)",
        "round(e.m, -1)", "(e.m * e.m).quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)",
        "(e.k or Decimal(0)).quantize(Decimal('0.01'))",
        "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_HALF_UP)",
        "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_HALF_DOWN)",
          "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_FLOOR)",
          "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_CEILING)",
          "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_UP)",
          "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_DOWN)",
          "(e.k or Decimal(0)).quantize(Decimal('0.01'), ROUND_05UP)", "(e.k or e.m).quantize(Decimal('1'))",
          "Decimal(e.i)", "Decimal(e.i) / 4", "e.m / 2", "e.m // 2", "e.m % Decimal('0.3')", "e.m + e.i", "e.m - 1",
          "sum([e.m, e.m])", "min(e.m, 0)", "max(e.m, Decimal('1.5'))", "e.m if e.b else 0",
          "e.m if e.b else Decimal('1.5')", "Decimal('-0.00') if e.b else e.m", "e.m * 0", "-e.m * 0",
          "e.m or Decimal('7.5')", "Decimal(str(e.i))", "Decimal(e.s)",
          "Decimal('1.005').quantize(Decimal('0.01')) + e.m", "e.m.copy_abs()", "e.m.normalize()", "Decimal(e.b)",
          "e.m * e.b", "+e.m", "e.m.to_integral_value()", "e.m * Decimal('1.5') * 2",
          "round(Decimal('0.125') * e.i, 2)", "e.m ** 2"),
    *_one("color", "e.col", "e.cn or Color.BLUE", "Color.RED if e.b else e.col", "Color(1)", "Color(e.i)",
        "Color['RED']", "e.cn if e.cn is not None else e.col", "{1: Color.RED, 2: Color.BLUE}.get(e.i, Color.GREEN)",
        "Color[e.s] if e.s in ('RED',) else e.col"),
    *_one("int | None", "e.j", "e.j if e.b else None", "None if e.i > 3 else e.i", "e.j and e.i", "e.p.y",
        "e.j or None", "DAYS.get(e.i)", "CODES.get(e.t)",
        "max((x for x in (e.j, e.p.y) if x is not None), default=None)", "None", "e.t and len(e.t)"),
    *_one("str | None", "e.t", "e.t and e.t.upper()", "e.s or None", "NAMES.get(e.s)", "NAMES.get(e.t)",
        "e.t if e.t != 'a' else None", "(e.t or '') + e.s", "e.t[0] if e.t else None"),
    *_one("float | None", "e.g", "e.g and e.g / 2", "e.j", "e.f or None", "None if e.g is None else round(e.g, 1)",
        "e.j and e.j / 7", "e.i if e.b else e.g"),
    *_one("Cents | None", "e.m or None", "round(e.k, 2) if e.k is not None else None", "e.k and round(e.k, 2)",
        "e.m if e.b else None", "e.j and Decimal(e.j)", "e.k and 1"),
    *_one("bool | None", "e.c", "e.c and e.b", "e.c or None", "None if e.b else e.c", "e.j and e.j > 3",
        "e.c if e.c is not None else e.j and True"),
    *_one("datetime | None", "e.an", "e.an and e.an + e.w", "e.an or None"), *_one("Instant | None", "e.un",
        "e.un and e.un + timedelta(1)", "e.un and e.un.astimezone(BERLIN)"),
    *_one("timedelta | None", "e.wn", "e.an and e.an - e.at", "e.wn and -e.wn", "e.wn and e.wn // 3"),
        *_one("date | None", "e.dn", "e.an and e.an.date()", "e.dn or None"), *_one("Color | None", "e.cn",
            "e.cn or None", "e.col and e.cn"),
    *_one("Point", "e.p", "Point(e.i, e.j)", "e.p._replace(y=None)", "e.p if e.b else Point(1, e.j)",
        "Point(e.p.x, e.p.y or None)", "e.p._replace(x=e.i)"),
    *_one("E", "e", "e._replace(i=1, j=None)", "e._replace(m=-e.m, w=-e.w)",
        "e._replace(at=e.at.replace(day=1), s=e.s.upper())", "e if e.b else e._replace(p=Point(0, e.j), un=e.u)",
        "e._replace(cn=e.col, c=e.b, k=e.m, t=e.s, dn=e.d)"),
    *_one("tuple[int, str | None]", "(e.i, e.t)", "(e.j or 0, e.s if e.b else None)"),
]  # fmt: skip
