"""Random pipelines and random inputs, shared by the tests.

A pipeline is a list of small decisions, made by Hypothesis or by a seeded generator, built through the public API.  The
functions are ordinary Python, of many shapes, some of which fail on some events.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pellucid import Pipeline, Stream, apply, merge, pipeline
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, TupleType, Type, type_of
from tests.judge.streams import Judged, meant_outputs


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    BLUE = "b"


class Point(NamedTuple):
    x: int
    y: float
    color: Color


@dataclass(frozen=True)
class Order:
    name: str
    size: int
    urgent: bool


class Cart(NamedTuple):
    id: int
    sizes: list[int]
    parts: tuple[Order, ...] | None


COLOR, POINT, ORDER, CART = type_of(Color), type_of(Point), type_of(Order), type_of(Cart)


def _clip(v: int) -> int:
    if v > 1000:
        return 1000
    return v if v >= -1000 else -1000


def _describe(c: Color) -> int:
    match c:
        case Color.RED:
            return 1
        case Color.GREEN:
            return 2
    return 3


def _move(p: Point) -> Point:
    if p.color is Color.RED and p.x > 2:
        return p._replace(x=p.x - 1, color=Color.BLUE)
    return p._replace(y=p.y + 1.0)


def _grow(o: Order) -> Order:
    return Order(o.name, o.size * 2 if o.urgent else o.size + 1, not o.urgent)


MAPS: dict[Type, list[Callable[[Any], Any]]] = {
    INT: [
        lambda v: v + 1,
        lambda v: 2 * v - 3,
        lambda v: v % 5,
        lambda v: v // 3,
        lambda v: -v % 7 if v > 2 else abs(v),
        lambda v: min(v, 10) + max(v, -3),
        lambda v: v * v,
        lambda v: v > 3,
        lambda v: v % 2 == 0 or 3 < v < 9,
        lambda v: v / 4,
        lambda v: (v & 6) ^ (v >> 1),
        lambda v: 1,
        lambda v: 100 // (v - 13),
        lambda v: Point(v, v * 0.5, Color.RED if v % 2 else Color.GREEN),
        lambda v: Order("a" if v > 0 else "b", v, v % 3 == 0),
        lambda v: Color.BLUE if v < 0 else Color.RED,
        lambda v: "odd" if v % 2 else "even",
        _clip,
    ],
    BOOL: [lambda b: not b, lambda b: 1 if b else 0, lambda b: b + 2],
    FLOAT: [
        lambda f: f * 0.5,
        lambda f: f + 1.25,
        lambda f: f > 2,
        lambda f: -f,
        lambda f: int(f) if abs(f) < 1e6 else 0,
    ],
    STR: [lambda s: s == "a", lambda s: 1 if s == "odd" or s == "b" else 0, lambda s: s],
    COLOR: [_describe, lambda c: c is not Color.RED, lambda c: {Color.RED: Color.BLUE}.get(c, c)],
    POINT: [_move, lambda p: p.x, lambda p: p.color, lambda p: p.y * p.x],
    ORDER: [_grow, lambda o: o.size, lambda o: o.name, lambda o: o.urgent and o.size > 2],
}
PREDICATES: dict[Type, list[Callable[[Any], Any]]] = {
    INT: [lambda v: v % 2 == 1, lambda v: v > 2, lambda v: v % 3, lambda v: -2 <= v < 6],
    BOOL: [lambda b: b, lambda b: not b],
    FLOAT: [lambda f: f > 1, lambda f: f != 2.5],
    STR: [lambda s: s != "a"],
    COLOR: [lambda c: c is Color.RED, lambda c: c in (Color.RED, Color.BLUE)],
    POINT: [lambda p: p.x % 2 == 0 and p.y < 50],
    ORDER: [lambda o: o.urgent or o.size > 1],
}
ADDERS: list[Callable[[Any, Any], Any]] = [
    lambda a, v: a + v,
    lambda a, v: max(a, v),
    lambda a, v: v if v < a else a,
    lambda a, v: a + v * v,
    lambda a, v: a + v if v > 0 else a,
    lambda a, v: 2 * a - v if a < 500 else v,
    lambda a, v: a * v,
    lambda a, v: (a + 1) % 4,
    lambda a, v: a + 100 // (v - 11),
]
FOLDS: dict[Type, list[tuple[Callable[[Any, Any], Any], Any]]] = {
    INT: [(f, s) for f in ADDERS for s in (0, 3)]
    + [(lambda a, v: (a[1], a[0] + v), (0, 1)), (lambda a, v: a or v > 3, False)],
    BOOL: [(lambda a, b: a and b, True), (lambda a, b: a or b, False), (lambda n, b: n + b, 0)],
    FLOAT: [(lambda a, f: a + f, 0), (lambda a, f: max(a, f), 0.5)],
    STR: [(lambda n, s: n + (s == "a"), 0), (lambda a, s: s if a == "a" else a, "a")],
    COLOR: [(lambda a, c: c if a is Color.RED else a, Color.RED), (lambda n, c: n + _describe(c), 0)],
    POINT: [(lambda n, p: n + p.x, 0), (lambda a, p: p if p.x > a.x else a, Point(0, 0.0, Color.RED))],
    ORDER: [(lambda n, o: n + o.size, 0), (lambda a, o: o if a.urgent else _grow(a), Order("z", 1, True))],
}


def _larger(a: Cart, c: Cart) -> Cart:
    return c if len(c.sizes) > len(a.sizes) else Cart(a.id + 1, a.sizes, c.parts)


#: Of events with lists in them: only where a test asks for such (``lists=True``).
MAPS[CART] = [
    lambda c: c.id,
    lambda c: len(c.sizes),
    lambda c: c.sizes[0],
    lambda c: c.sizes[-1] + len(c.parts or []),
    lambda c: c.sizes[c.id % 3] if c.sizes else -1,
    lambda c: c.parts[0] if c.parts else Order("none", 0, False),
    lambda c: Cart(len(c.sizes), c.sizes, None),
    lambda c: c._replace(sizes=[], id=-c.id),
]
PREDICATES[CART] = [lambda c: c.sizes, lambda c: c.parts is not None, lambda c: not c.parts or len(c.sizes) > 1]
FOLDS[CART] = [(lambda n, c: n + len(c.sizes), 0), (_larger, Cart(0, [], None))]


def _pairs(last: int, v: int) -> tuple[int, list[int]]:
    if v == last:
        return v, []
    return v, [last, v] if v > last else [v]


def _average(state: tuple[int, int], v: int) -> tuple[tuple[int, int], list[float]]:
    total, count = state[0] + v, state[1] + 1
    if v == 7:
        return (0, 0), []
    return (total, count), [total / count]


TASKS: dict[Type, list[tuple[Callable[[Any, Any], Any], Any]]] = {
    INT: [(_pairs, 0), (_average, (0, 0)), (lambda s, v: (v, [s, s, v]), 1)],
    BOOL: [(lambda s, b: (not s if b else s, [s, b]), False)],
    STR: [(lambda s, t: (t, [] if s == t else [s]), "")],
    ORDER: [(lambda s, o: (s + o.size, [Order(o.name, s, o.urgent)]), 0)],
}


def _each(c: Cart) -> list[int]:  # it loops over a list, so it says what it gives
    return [v * c.id for v in c.sizes]


TASKS[CART] = [(lambda s, c: (c, [s, c] if c.sizes else [s]), Cart(7, [3], None))]
#: Functions that give a list: one that they make, or one that comes as data.
EXPLODES: dict[Type, list[Callable[[Any], Any]]] = {
    INT: [lambda v: [v, v + 1] if v % 2 else [v], lambda v: [] if v < 2 else [-v, v, 2], lambda v: (v > 3, v < 6)],
    STR: [lambda s: [s] if s == "a" else [s, "b"]],
    ORDER: [lambda o: [o, _grow(o)] if o.urgent else []],
    CART: [
        lambda c: c.sizes,
        lambda c: c.parts or (),
        lambda c: c.sizes if c.id > 2 else [],
        lambda c: [c.id, len(c.sizes)],
        _each,
    ],
}
KEYS: dict[Type, list[Callable[[Any], Any]]] = {
    CART: [lambda c: c.id % 2, lambda c: len(c.sizes)],
    INT: [lambda v: v % 3, lambda v: v % 2 == 0],
    STR: [lambda s: s],
    COLOR: [lambda c: c],
    POINT: [lambda p: p.color],
    ORDER: [lambda o: (o.name, o.urgent), lambda o: o.name],
}
JOINS: dict[tuple[Type, Type], list[Callable[[Any, Any], Any]]] = {
    (INT, INT): [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a if b > 2 else b, lambda a, b: a < b],
    (BOOL, BOOL): [lambda a, b: a and not b],
    (INT, FLOAT): [lambda a, b: a * b, lambda a, b: a < b],
    (POINT, INT): [lambda p, v: Point(v, p.y, p.color)],
}

EVENTS: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.one_of(st.integers(-5, 15), st.integers(-5, 15), st.sampled_from([2**40, -(2**62), 2**63 - 1, -(2**63)])),
    BOOL: st.booleans(),
    FLOAT: st.sampled_from([0.0, 1.0, 2.5, -3.75, 1e9, 0.1]),
    STR: st.sampled_from(["a", "b", "odd", "x y", ""]),
    COLOR: st.sampled_from(list(Color)),
}
EVENTS[POINT] = st.builds(Point, st.integers(-4, 9), EVENTS[FLOAT], EVENTS[COLOR])
EVENTS[ORDER] = st.builds(Order, EVENTS[STR], st.integers(-4, 9), st.booleans())
EVENTS[CART] = st.builds(
    Cart,
    st.integers(-4, 9),
    st.lists(EVENTS[INT], max_size=4),
    st.none() | st.lists(EVENTS[ORDER], max_size=3).map(tuple),
)


#: Of two events of any type, and whether the answer is a bool or an event.
PAIRS: list[tuple[Callable[[Any], Any], bool]] = [
    (lambda p: p[1], False),
    (lambda p: p[0] == p[1], True),
    (lambda p: p[0] if p[0] == p[1] else p[1], False),
]


class Choice:
    """Where decisions come from."""

    nans = False  # whether floats may be NaN, which only a run with nan="keep" takes
    forgets = False  # whether keys may be given up (`forget`); not under a key that comes with the data

    def of(self, items: Any) -> Any:
        """One of these."""
        raise NotImplementedError

    def event(self, t: Type) -> Any:
        """An event of this type."""
        raise NotImplementedError


class Drawn(Choice):
    """Hypothesis decides, and shrinks what fails."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def of(self, items: Any) -> Any:
        return self.draw(st.sampled_from(items))

    def event(self, t: Type) -> Any:
        return self.draw(EVENTS[t])


class Seeded(Choice):
    """A seed decides: larger pipelines than Hypothesis likes to draw."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def of(self, items: Any) -> Any:
        return self.rng.choice(list(items))

    def event(self, t: Type) -> Any:
        if t == FLOAT and self.nans and self.rng.random() < 0.3:
            return math.nan
        if t == POINT:
            return Point(self.event(INT) % 100, self.event(FLOAT), self.event(COLOR))
        if t == ORDER:
            return Order(self.event(STR), self.event(INT) % 100, self.event(BOOL))
        if t == CART:
            sizes = [self.event(INT) for _ in range(self.rng.choice([0, 1, 2, 5, 20]))]
            parts = tuple(self.event(ORDER) for _ in range(self.rng.choice([0, 1, 3])))
            return Cart(self.event(INT) % 100, sizes, self.of([parts, parts, None]))
        some: dict[Type, list[Any]] = {
            INT: [*range(-5, 16), *range(-5, 16), *range(-5, 16), 2**40, -(2**62)],
            BOOL: [False, True],
            FLOAT: [0.0, 1.0, 2.5, -3.75, 1e9, 0.1],
            STR: ["a", "b", "odd", "x y", ""],
            COLOR: list(Color),
        }
        return self.of(some[t])


def add_steps(c: Choice, streams: list[Any], count: int, depth: int, keys: bool) -> list[Any]:
    """Add random processors to a list of streams, or of streams that are `Judged`."""
    for _ in range(count):
        x = c.of(streams[-3:][::-1])  # mostly go on from what was made last
        t = x.type
        if t not in MAPS:  # a pair: make it a number
            streams.append(x.map(lambda p: p[0] + p[1]))
            continue
        kinds = ["map", "filter", "decimate", "trim", "take", "cumulate", "apply", "merge", "filter_by", "lag"]
        keyed = x._step.key is not None
        kinds += ["window", "call"] * (2 if keyed else 1) if depth > 0 else []
        kinds += ["task"] if t in TASKS else []
        kinds += ["explode"] if t in EXPLODES else []
        kinds += ["key_by"] * (1 if keyed else 3) + ["join"] if keys and t in KEYS else []
        streams.append(one_step(c, c.of(kinds), x, streams, depth, keys))
    return streams


def one_step(c: Choice, kind: str, x: Any, streams: list[Any], depth: int, keys: bool) -> Any:
    """One random processor of this kind on the stream ``x``."""
    t = x.type
    same = [s for s in streams if s._step.key == x._step.key and s._step.forgotten_by is x._step.forgotten_by]
    if kind == "map":
        return x.map(c.of(MAPS[t]))
    if kind == "filter":
        return x.filter(c.of(PREDICATES[t]))
    if kind in ("decimate", "trim", "take"):
        return getattr(x, kind)(c.of([1, 2, 3, 4]))  # type: ignore[no-any-return]
    if kind == "lag":
        behind, (f, truth) = c.of([1, 2, 3]), c.of(PAIRS)
        return x.lag(behind).map(f, to=_given(t, truth))
    if kind == "cumulate":
        return x.cumulate(*c.of(FOLDS[t]))
    if kind == "task":
        return x.task(*c.of(TASKS[t]))
    if kind == "explode":
        made = x.explode(c.of(EXPLODES[t]), beside=c.of([False, False, True]))
        return made.map(lambda p: p[1]) if isinstance(made.type, TupleType) else made
    if kind == "key_by":
        made = x.key_by(c.of(KEYS[t]))
        after = c.of([2, 1, 3, 5, None]) if c.forgets else None
        return made if after is None else made.forget(after=after)
    if kind == "join":  # two streams meet under the same kind of key, often under different keys in one push
        other = c.of([s for s in streams if s.type == t])
        key = c.of(KEYS[t])
        f, truth = c.of([(lambda a, b: a, False), (lambda a, b: b, False), (lambda a, b: a == b, True)])
        return _apply(f, x.key_by(key), other.key_by(key), to=_given(t, truth))
    if kind == "call":
        return _called(c, [x, *[c.of(same) for _ in range(c.of([0, 0, 1]))]], depth, keys)
    if kind == "window":
        k, inner = c.of([3, 2, 5, 1, 4]), c.of([2, 1, 3])
        return x.window(k, lambda w: add_steps(c, [w], inner, depth - 1, c.of([True, False, True]))[-1])
    if kind == "merge":
        others = [s for s in same if s.type == t]
        return _merge(x, *[c.of(others) for _ in range(c.of([1, 2]))])
    if kind == "filter_by":
        flags = [s for s in same if s.type == BOOL]
        to = _given(t, truth=True)
        flags = flags or [x.trim(1).map(lambda v: v == v, to=to), x.decimate(2).map(lambda v: v == v, to=to)]
        return x.filter(c.of(flags))
    partners = [(s, f) for s in same for f in JOINS.get((t, s.type), [])]
    if partners:
        other, f = c.of(partners)
        return _apply(f, x, other)
    return _apply(lambda a, b: a == b, x, c.of([s for s in same if s.type == t]), to=_given(t, truth=True))


def _given(t: Type, truth: bool) -> Any:
    """The type to declare, for a function that compares events: lists are compared by Python, which shows no type."""
    return None if t != CART else bool if truth else Cart


def _apply(f: Any, *streams: Any, to: Any = None) -> Any:
    return (Judged.apply if isinstance(streams[0], Judged) else apply)(f, *streams, to=to)


def _merge(*streams: Any) -> Any:
    return (Judged.merge if isinstance(streams[0], Judged) else merge)(*streams)


def _called(c: Choice, given: list[Any], depth: int, keys: bool) -> Any:
    """A pipeline of its own, called on these streams; sometimes once more, on what came out."""
    count = c.of([2, 1, 3])
    holes: list[Any] = []
    ends: list[Any] = []

    def build(*streams: Stream[Any]) -> Any:
        holes[:] = [Judged.source(s) for s in streams] if isinstance(given[0], Judged) else streams
        ends[:] = add_steps(c, list(holes), count, depth - 1, keys)[-1:]
        return getattr(ends[0], "stream", ends[0])

    def call(streams: list[Any]) -> Any:
        if not isinstance(streams[0], Judged):
            return inner(*streams)
        meant = ends[0].meaning.over({hole.meaning: s.meaning for hole, s in zip(holes, streams, strict=True)})
        return Judged(inner(*(s.stream for s in streams)), meant)

    inner = _pipeline(build, [s.type for s in given])
    out = call(given)
    again = len(given) == 1 and out.type == given[0].type and c.of([False, False, True])
    return call([out]) if again else out


def _pipeline(build: Callable[..., Any], types: list[Type]) -> Pipeline:
    names = ["x", "y", "z"][: len(types)]
    args = ", ".join(names)
    return pipeline(eval(f"lambda {args}: build({args})", {"build": build}), **dict(zip(names, types, strict=True)))


def make_pipeline(c: Choice, **limits: Any) -> Pipeline:
    """A random pipeline."""
    return make_judged(c, **limits)[0]


PipelineMeaning = Callable[[list[dict[str, Any]]], tuple[dict[str, list[Any]], int | None]]


def make_judged(
    c: Choice,
    *,
    max_steps: int = 8,
    windows: int = 2,
    keys: bool = True,
    sources: int = 3,
    forgets: bool = False,
    lists: bool = False,
) -> tuple[Pipeline, PipelineMeaning]:
    """A random pipeline, and what it means: pushes in, events out (see `tests.judge.streams`).

    ``windows`` is how deep windows, and pipelines that are called, may be in one another; with ``lists`` the sources
    bring events with lists in them.
    """
    c.forgets = forgets
    given: list[Judged] = []
    ends: list[Judged] = []

    def build(*streams: Stream[Any]) -> Any:
        given[:] = map(Judged.source, streams)
        made = add_steps(c, list(given), count, windows, keys)
        ends[:] = [made[-1], made[len(streams)]] if several and len(made) > len(streams) + 1 else [made[-1]]
        return tuple(e.stream for e in ends) if len(ends) > 1 else ends[0].stream

    kinds = [CART, CART, CART, ORDER] if lists else [INT, INT, INT, BOOL, FLOAT, STR, COLOR, POINT, ORDER]
    types = [c.of(kinds) for _ in range(c.of(range(1, sources + 1)))]
    count = c.of(range(max_steps, 0, -1))
    several = c.of([False, False, False, True])
    p = _pipeline(build, types)
    names = [p.graph.nodes[i].id for i in p.graph.sources]
    sources_of = {name: (s.meaning, s.type) for name, s in zip(names, given, strict=True)}
    outputs = {name: e.meaning for (name, _), e in zip(p.graph.outputs, ends, strict=True)}
    return p, lambda pushes: meant_outputs(sources_of, outputs, pushes)


def make_input(c: Choice, p: Pipeline, size: int) -> list[dict[str, Any]]:
    """Random pushes: for each source an event or silence (a single source always has an event)."""
    nodes = [p.graph.nodes[i] for i in p.graph.sources]
    return [
        {n.id: c.event(n.type) for n in nodes if len(nodes) == 1 or c.of([True, True, True, False])}
        for _ in range(size)
    ]


@st.composite
def pipelines(draw: Any, **limits: Any) -> Pipeline:
    """A random pipeline, by Hypothesis."""
    return make_pipeline(Drawn(draw), **limits)


@st.composite
def inputs(draw: Any, p: Pipeline, max_size: int = 14) -> list[dict[str, Any]]:
    """Random pushes, by Hypothesis."""
    return make_input(Drawn(draw), p, draw(st.integers(0, max_size)))
