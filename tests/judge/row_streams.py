"""Pipelines over rows, drawn at random and told a second time: lists of (push, key, value), a loop for each."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pellucid import Stream, apply, merge, pipeline
from tests.judge.row_functions import Draw, Text
from tests.judge.row_judge import made
from tests.judge.row_values import E, Int64, judged_row, plain

__all__ = ["Drawn", "Event", "drawn_pipeline"]


class Event(NamedTuple):
    """An event of a stream: the push that it came with, its key, and what it is."""

    push: int
    key: Any
    value: Any


def event(value: Any) -> Any:
    """A value as the next function gets it: an instant in UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return E(*map(event, value)) if isinstance(value, E) else value


@dataclass(frozen=True)
class Both:
    """A stream under construction, and the same told."""

    stream: Stream
    told: tuple[Event, ...]
    keyed: bool = False

    def unary(self, stream: Stream, told: Sequence[Event], **changed: Any) -> Both:
        seen = tuple(e._replace(value=event(e.value)) for e in told)
        return Both(stream, seen, **{"keyed": self.keyed, **changed})


@dataclass(frozen=True)
class Drawn:
    """A pipeline as source text, from which both are made."""

    text: str
    kind: str


# of a record and what is remembered: (start, function, type of the result)
FOLDS = [
    ("0", "lambda n, e: n + 1", "int"),
    ("0", "lambda n, e: n + 1 if e.j is not None and e.j > 2 else 0", "int"),
    ("Decimal('0.00')", "lambda t, e: t + e.m", "cents"),
    ("Decimal('0.00')", "lambda t, e: max(t, e.m)", "cents"),
    ("timedelta(0)", "lambda t, e: t + (e.wn or timedelta(0))", "timedelta"),
    ("datetime(1, 1, 1)", "lambda last, e: e.at if e.at > last else last", "datetime"),
    ("datetime(2013, 1, 1, tzinfo=UTC)", "lambda last, e: last if e.un is None else e.un", "instant"),
    ("''", "lambda last, e: e.t or last", "str"),
    ("''", "lambda last, e: (last + e.s)[-3:]", "str"),
    ("date(2000, 1, 1)", "lambda last, e: min(last, e.d)", "date"),
    ("0.0", "lambda t, e: t + (e.g or 0.5)", "float"),
    ("Color.RED", "lambda last, e: e.cn or last", "color"),
    ("False", "lambda seen, e: seen or e.c is True", "bool"),
]
TASKS = [
    (
        "0",
        "def f(n: int, e: E) -> tuple[int, list[int]]:\n    return n + 1, [n, e.p.y or 0] if e.b else []\n",
    ),
    (
        "None",
        "def f(last: str | None, e: E) -> tuple[str | None, list[str]]:\n"
        "    return e.t, [e.s] if e.t == last else []\n",
    ),
    (
        "Decimal('0.00')",
        "def f(t: Cents, e: E) -> tuple[Cents, list[Cents]]:\n"
        "    return (t + e.m, []) if e.b else (Decimal('0.00'), [t])\n",
    ),
    (
        "timedelta(0)",
        "def f(t: timedelta, e: E) -> tuple[timedelta, list[E]]:\n"
        "    return t + e.w, [e, e._replace(j=None)] if t > e.w else []\n",
    ),
    (
        "{}",
        "def f(seen: dict, e: E) -> tuple[dict, list[int]]:\n"
        "    seen[e.t] = seen.get(e.t, 0) + 1\n    return seen, [seen[e.t]]\n",
    ),
]
KEYS = [
    "e.s", "e.t", "e.i", "e.j", "e.b", "e.c", "e.col", "e.cn", "e.d", "e.dn", "e.w", "e.at", "e.un", "e.m", "e.k",
    "(e.t, e.b)", "(e.j, e.d)", "(e.cn, e.t, e.k)",
    "e.s.upper()", "e.at.date()", "e.i % 3", "e.p.y",
]  # fmt: skip
PAIRS = [
    ("lambda now, old: now.i - old.i", "int"), ("lambda now, old: now.at - old.at", "timedelta"),
    ("lambda now, old: now.t == old.t", "bool"),
    ("lambda now, old: now.m - old.m", "cents"), ("lambda now, old: now.s + (old.t or '?')", "str"),
    ("lambda now, old: now.j == old.j", "bool"),
    ("lambda now, old: old if now.b else now", "E"), ("lambda now, old: now.un if old.un is None else old.un",
    "Instant | None"),
]  # fmt: skip


def function(text: str, *, oracle: bool = False) -> Callable[..., Any]:
    """A lambda's text, or that of a function ``f``, with the judge's names."""
    source = text if text.startswith("def") else f"f = {text}\n"
    return made(Text("", source), oracle=oracle)


class Blank:
    """No stream, whatever is done to it: for a telling alone."""

    def __getattr__(self, name: str) -> Callable[..., Blank]:
        return lambda *args, **named: self


class Builder:
    """Draws steps; the stream grows with the telling beside it."""

    def __init__(self, r: random.Random, *, failing: bool = False) -> None:
        self.r = r
        self.failing = failing
        self.log: list[str] = []

    def text(self, kind: str, depth: int = 1) -> str:
        return f"lambda e: {Draw(self.r, failing=self.failing).of(kind, depth)}"

    def each(self, x: Both, text: str, **named: Any) -> Both:
        self.log.append(f".map({text})")
        f = function(text, oracle=True)
        return x.unary(x.stream.map(function(text), **named), [e._replace(value=f(e.value)) for e in x.told])

    def where(self, x: Both, text: str) -> Both:
        self.log.append(f".filter({text})")
        f = function(text, oracle=True)
        return x.unary(x.stream.filter(function(text)), [e for e in x.told if f(e.value)])

    def fold(self, x: Both, start: str, text: str) -> Both:
        self.log.append(f".cumulate({text}, start={start})")
        f, first = function(text, oracle=True), _value(start)
        state: dict[Any, Any] = {}
        told = []
        for e in x.told:
            state[_known(e.key)] = f(state.get(_known(e.key), first), e.value)
            told.append(e._replace(value=state[_known(e.key)]))
        return x.unary(x.stream.cumulate(function(text), start=_value(start, plain=True)), told)

    def task(self, x: Both, start: str, text: str) -> Both:
        self.log.append(f".task({text!r}, initial={start})")
        f = function(text, oracle=True)
        state: dict[Any, Any] = {}
        told = []
        for e in x.told:
            now = state[_known(e.key)] if _known(e.key) in state else copy.deepcopy(_value(start))
            state[_known(e.key)], out = f(now, e.value)
            told += [e._replace(value=v) for v in out]
        return x.unary(x.stream.task(function(text), initial=_value(start, plain=True)), told)

    def some(self, x: Both, how: str, k: int) -> Both:
        self.log.append(f".{how}({k})")
        count: dict[Any, int] = defaultdict(int)
        told = []
        for e in x.told:
            n = count[_known(e.key)]
            count[_known(e.key)] += 1
            if n >= k if how == "trim" else n % k == 0:
                told.append(e)
        return x.unary(getattr(x.stream, how)(k), told)

    def before(self, x: Both, k: int, text: str) -> Both:
        self.log.append(f".lag({k}).map({text})")
        f, g = function(text, oracle=True), function(text)
        past: dict[Any, list[Any]] = defaultdict(list)
        told = []
        for e in x.told:
            seen = past[_known(e.key)]
            seen.append(e.value)
            if len(seen) > k:
                told.append(e._replace(value=f(e.value, seen[-1 - k])))
        return x.unary(x.stream.lag(k).map(lambda pair: g(pair[0], pair[1])), told)

    def over(self, x: Both, k: int, start: str, text: str, where: str) -> Both:
        self.log.append(f".window({k}, filter({where}).cumulate({text}, start={start}))")
        f, w = function(text, oracle=True), function(where, oracle=True)
        sub = pipeline(
            lambda x: x.filter(function(where)).cumulate(function(text), start=_value(start, plain=True)), x=E
        )
        past: dict[Any, list[Any]] = defaultdict(list)
        told = []
        for e in x.told:
            seen = past[_known(e.key)]
            seen.append(e.value)
            if len(seen) >= k:
                kept = [v for v in seen[-k:] if w(v)]
                total = _value(start)
                for v in kept:
                    total = f(total, v)
                if kept:
                    told.append(e._replace(value=total))
        return x.unary(x.stream.window(k, sub), told)

    def by(self, x: Both, text: str) -> Both:
        self.log.append(f".key_by({text})")
        f = function(text, oracle=True)
        told = [e._replace(key=(e.key[0], plain(f(e.value)))) for e in x.told]
        return x.unary(x.stream.key_by(function(text)), told, keyed=True)

    def met(self, a: Both, b: Both, text: str) -> Both:
        """Two branches of one stream, paired one by one under each key."""
        self.log.append(f"apply({text}, …)")
        f = function(text, oracle=True)
        told = [Event(max(v.push, w.push), v.key, f(v.value, w.value)) for v, w in _paired(a.told, b.told)]
        return a.unary(_applied(function(text), a.stream, b.stream), told)

    def merged(self, a: Both, b: Both) -> Both:
        self.log.append("merge(…)")
        told = sorted([*((e, 0) for e in a.told), *((e, 1) for e in b.told)], key=lambda t: (t[0].push, t[1]))
        both = a.stream if isinstance(a.stream, Blank) else merge(a.stream, b.stream)
        return a.unary(both, [e for e, _ in told])

    def build(self, x: Both) -> Both:
        """A few steps on records, then one that may leave them."""
        r = self.r
        if self.failing:
            divisor = r.choice(["e.i", "(e.j or 0)", "e.p.x", "len(e.s)", "(len(e.t or '') - 1)"])
            x = self.each(x, f"lambda e: e._replace(i={Draw(r).of('int', 1)} // {divisor})")
        for _ in range(r.choice([0, 1, 1, 2, 3])):
            way = r.randrange(8)
            if way == 0:
                x = self.where(x, self.text("bool", 2))
            elif way == 1:
                x = self.by(x, f"lambda e: {r.choice(KEYS)}")
            elif way == 2:
                x = self.some(x, r.choice(["trim", "decimate"]), r.choice([1, 2, 3]))
            elif way == 3:
                field, kind = r.choice(
                    [("j", "int"), ("t", "str"), ("at", "datetime"), ("un", "instant"), ("m", "cents"), ("cn", "color")]
                )
                x = self.each(x, f"lambda e: e._replace({field}={Draw(r, failing=self.failing).of(kind, 1)})")
            elif way == 4:
                x = self.before(x, r.choice([1, 2]), "lambda now, old: old if now.b else now")
            elif way == 5:
                start, fold, kind = r.choice(FOLDS)
                limit = {
                    "int": "v > 1",
                    "str": "v != ''",
                    "bool": "v",
                    "color": "v is Color.RED",
                    "cents": "v >= Decimal('1.5')",
                }.get(kind)
                if limit:
                    flags = self.each(self.fold(x, start, fold), f"lambda v: {limit}")
                    self.log.append("filter by it")
                    x = x.unary(
                        x.stream.filter(flags.stream), [e for e, flag in _paired(x.told, flags.told) if flag.value]
                    )
            elif way == 6:
                x = self.met(x, self.where(x, self.text("bool", 1)), "lambda a, b: a if a.i > b.i else b")
            else:
                x = self.by(x, f"lambda e: {r.choice(KEYS)}")
        way = r.randrange(8)
        if way == 0:
            return x
        if way == 1:
            start, fold, _ = r.choice(FOLDS)
            return self.fold(x, start, fold)
        if way == 2:
            start, task = r.choice(TASKS)
            return self.task(x, start, task)
        if way == 3:
            pair, _ = r.choice(PAIRS)
            return self.before(x, r.choice([1, 2]), pair)
        if way == 4:
            start, fold, _ = r.choice(FOLDS)
            return self.over(x, r.choice([2, 3]), start, fold, self.text("bool", 1))
        if way == 5:
            a, b = self.where(x, self.text("bool", 1)), self.each(x, "lambda e: e._replace(j=e.i, t=None)")
            start, fold, _ = r.choice(FOLDS)
            return self.fold(self.merged(a, b), start, fold)
        if way == 6:
            first, second = r.sample(FOLDS, 2)
            a, b = self.fold(self.where(x, self.text("bool", 1)), *first[:2]), self.fold(x, *second[:2])
            self.log.append("pair")
            told = [Event(max(v.push, w.push), v.key, (v.value, w.value)) for v, w in _paired(a.told, b.told)]
            return a.unary(_applied(lambda v, w: (v, w), a.stream, b.stream), told)
        kind = r.choice(["int", "str", "cents", "instant", "bool", "timedelta", "date"])
        return self.each(x, self.text(kind, 2))


def _applied(f: Callable[..., Any], a: Any, b: Any) -> Any:
    return a if isinstance(a, Blank) else apply(f, a, b)


def _paired(a: Sequence[Event], b: Sequence[Event]) -> list[tuple[Event, Event]]:
    """The n-th of one with the n-th of the other, for each key."""
    lines: tuple[dict[Any, list[Event]], dict[Any, list[Event]]] = (defaultdict(list), defaultdict(list))
    for line, events in zip(lines, (a, b), strict=True):
        for e in events:
            line[_known(e.key)].append(e)
    pairs = [pair for key in lines[0] for pair in zip(lines[0][key], lines[1].get(key, []), strict=False)]
    return sorted(pairs, key=lambda pair: max(pair[0].push, pair[1].push))


def _known(key: Any) -> Any:
    """A key by its type, too: True is no 1."""
    if isinstance(key, tuple):
        return tuple(map(_known, key))
    return type(key).__name__, key


def _value(text: str, *, plain: bool = False) -> Any:
    from tests.judge.row_judge import NAMES

    found = eval(text, dict(NAMES))
    return Int64(found) if type(found) is int and not plain else found


def told_alone(seed: int, events: Sequence[E]) -> list[Event]:
    """What the pipeline of a seed, with functions that fail, puts out on these rows; raises where a step fails."""
    first = [Event(n, (None, None), judged_row(e)) for n, e in enumerate(events)]
    blank: Any = Blank()
    return list(Builder(random.Random(seed), failing=True).build(Both(blank, tuple(first))).told)


def failing_pipeline(seed: int) -> Any:
    """The same pipeline."""
    return pipeline(lambda x: Builder(random.Random(seed), failing=True).build(Both(x, ())).stream, x=E)


def drawn_pipeline(
    seed: int, events: Sequence[E], keys: Sequence[Any] | None = None
) -> tuple[Any, list[Event], list[str]]:
    """A pipeline, what it puts out on these rows (under these keys), and its steps in words."""
    told: list[Event] = []
    log: list[str] = []

    def body(x: Stream) -> Stream:
        b = Builder(random.Random(seed))
        first = [Event(n, (keys[n] if keys else None, None), judged_row(e)) for n, e in enumerate(events)]
        result = b.build(Both(x, tuple(first)))
        told[:] = [e._replace(value=plain(e.value)) for e in result.told]
        log[:] = b.log
        return result.stream

    return pipeline(body, x=E), told, log
