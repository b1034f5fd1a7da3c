"""Times, decimals and values that may be missing: the trace, the code written for it and plain Python agree."""

from __future__ import annotations

import datetime as dt
import enum
import math
import pickle
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, Optional
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import PipelineError, Scale, StepError, TypeMismatch, check, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.tracing.times import Offset, QuarterOffset
from pellucid.internal.expr.types import (
    FLOAT,
    INT,
    ListType,
    OptionalType,
    TupleType,
    conform,
    join,
    type_of,
    type_of_value,
)
from tests.expr.compare import Compiled, values
from tests.expr.written import ROW_SPACE, Row, row_function, rows
from tests.seeds import seeds


def shaped(t: Any, value: Any) -> Any:
    """A result as an event of the type that the pipeline found, or what is wrong with it."""
    return conform(t, value)


def raises(f: Any, row: Row) -> bool:
    try:
        f(row)
    except Exception:
        return True
    return False


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_random_functions(seed: int) -> None:
    rng = random.Random(seed)
    text = row_function(rng)
    f = eval(text, dict(ROW_SPACE))
    try:
        p = pipeline(lambda x: x.map(f, id="f"), x=Row)
    except PipelineError as error:
        assert "fails on every event" in str(error)  # noqa: PT017
        assert all(raises(f, row) for row in rows(rng, 60)), text
        return
    fn = p.graph["f"].fn
    assert fn is not None and fn.traced is not None, (text, fn.reason if fn else None)
    good, want, bad = [], [], []
    for row in rows(rng, 60):
        try:
            value = shaped(fn.result, f(row))
        except Exception:
            bad.append(row)
            continue
        good.append(row)
        want.append(value)
    small = sum(1 for _ in walk(*fn.traced.roots())) < 60  # what takes minutes to compile shows nothing more
    numba = Engine(p.graph, mode="numba") if seed % 6 == 0 and small else None
    for run in (p, lambda events: Engine(p.graph, mode="python").push(events)):
        got = run(good)
        assert list(map(repr, got)) == list(map(repr, want)), text
    if numba is not None and good:
        assert list(map(repr, numba.push(good))) == list(map(repr, want)), text
    for row in bad[:3]:
        with pytest.raises(StepError):
            p([row])


def interpreted(p: Any, events: list[Any]) -> list[Any]:
    run = Interpreter(p.graph)
    return [e for event in events for e in run.push({"x": event})["out"]]


class Flight(NamedTuple):
    tail: str
    at: datetime
    delay: int | None
    gate: Optional[str]  # noqa: UP045 - both spellings are read


FLIGHTS = [
    Flight("N1", datetime(2013, 1, 1, 5), 70, "A"),
    Flight("N1", datetime(2013, 1, 1, 6), None, None),
    Flight("N2", datetime(2013, 1, 1, 7), 0, ""),
]


@pytest.mark.parametrize(
    "f",
    [
        lambda e: e.delay is None,
        lambda e: e.delay or 0,
        lambda e: e.delay is not None and e.delay > 60,
        lambda e: None if e.delay is None else e.delay * 2,
        lambda e: e,
        lambda e: e._replace(delay=1),
        lambda e: e._replace(gate=None),
        lambda e: (e[2], e.gate),
        lambda e: list(e)[2],
        lambda e: e.delay == None,  # noqa: E711 - as some write it
        lambda e: e.delay == 0,
        lambda e: e.gate == "A",
        lambda e: Flight(e.tail, e.at, e.delay, e.gate),
        lambda e: isinstance(e.delay, int),
        lambda e: len([x for x in (e.delay, e.gate) if x is None]),
        lambda e: {None: "?", 70: "!"}.get(70 if e.delay == 70 else None),
        lambda e: e == Flight("N2", datetime(2013, 1, 1, 7), 0, ""),
    ],
)
def test_plain_python(f: Callable[[Any], Any]) -> None:
    p = pipeline(lambda x: x.map(f, id="f"), x=Flight)
    fn = p.graph["f"].fn
    assert fn is not None and fn.traced is not None, fn and fn.reason
    want = [f(e) for e in FLIGHTS]
    assert p(FLIGHTS) == want and interpreted(p, FLIGHTS) == want


@dataclass(frozen=True)
class Payment:
    payer: str
    cents: int | None
    note: str | None


def test_replace_looks_at_nothing() -> None:
    p = pipeline(lambda x: x.map(lambda e: replace(e, payer="?"), id="f"), x=Payment)
    fn = p.graph["f"].fn
    assert fn is not None and fn.traced is not None
    assert [str(e) for e in fn.traced.outputs[1:]] == ["v1", "v2", "v3", "v4"]
    events = [Payment("a", None, "x"), Payment("b", 5, None)]
    assert p(events) == [replace(e, payer="?") for e in events]


def test_a_state_that_begins_with_none() -> None:
    def gap(last: datetime | None, e: Flight) -> tuple[datetime, list[timedelta]]:
        return e.at, [] if last is None else [e.at - last]

    p = pipeline(lambda x: x.task(gap, initial=None, id="gap"), x=Flight)
    assert p.graph["gap"].state == OptionalType(type_of(datetime))
    assert p(FLIGHTS) == [timedelta(hours=1)] * 2 == interpreted(p, FLIGHTS)
    worst = pipeline(
        lambda x: x.cumulate(lambda m, e: e.delay if m is None or (e.delay or 0) > m else m, None), x=Flight
    )
    assert worst(FLIGHTS) == [70, 70, 70]


def test_a_null_key_is_a_key() -> None:
    p = pipeline(lambda x: x.key_by(lambda e: e.gate).cumulate(lambda k, e: k + 1, 0), x=Flight)
    assert p(FLIGHTS * 2) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda e: e.delay > 60, "uses the field 'delay', which may be None (int | None), as if it were always there"),
        (lambda e: e.delay + 1, "or take `e.delay or 0`"),
        (lambda e: max(e.delay, 3), "which may be None"),
        (lambda e: e.gate.upper(), "`e.gate is not None and …`"),
        (lambda e: e._replace(tail=e.gate), "puts None into the field 'tail' of Flight, which is str"),
    ],
)
def test_unguarded(f: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        pipeline(lambda x: x.map(f, id="f"), x=Flight)
    assert "step 'f' (map, test_rich.py:" in str(caught.value) and said in str(caught.value)


def test_unguarded_argument() -> None:
    with pytest.raises(TypeMismatch, match=r"uses its argument, which may be None \(int \| None\)"):
        pipeline(lambda x: x.filter(lambda v: v > 1), x=int | None)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Decimal, "a Decimal needs the number of places after its point: write Annotated[Decimal, Scale(2)] "),
        (int | str, "an event cannot be int | str: its type must be one, or one | None"),
        (int | str | None, "an event cannot be int | str | None"),
        (Annotated[int, Scale(2)], "Scale goes with a Decimal, found int"),
    ],
)
def test_types_that_are_refused(annotation: Any, said: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        type_of(annotation)
    assert said in str(caught.value)


def test_scale() -> None:
    for wrong in (-1, 19, 1.5, True):
        with pytest.raises(TypeMismatch, match="Scale"):
            Scale(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("t", "value", "said"),
    [
        (datetime, datetime(2013, 1, 1, tzinfo=UTC), "expected a datetime without a time zone"),
        (Annotated[datetime, UTC], datetime(2013, 1, 1), "expected a datetime with a time zone"),
        (date, datetime(2013, 1, 1), "expected date, found datetime"),
        (datetime, date(2013, 1, 1), "expected datetime, found date"),
        (timedelta, timedelta.max, "does not fit in 64 bits of microseconds"),
        (Annotated[Decimal, Scale(2)], Decimal("0.125"), "has more than 2 places after the point"),
        (Annotated[Decimal, Scale(2)], Decimal("NaN"), "which is no number"),
        (Annotated[Decimal, Scale(2)], 1.5, "expected Decimal(2), found float 1.5"),
        (Annotated[Decimal, Scale(2)], Decimal(10**17), "does not fit in 64 bits"),
        (int | None, "a", "expected int, found str 'a'"),
    ],
)
def test_conform_says_why_not(t: Any, value: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        conform(type_of(t), value)
    assert said in str(caught.value)


def test_another_zone_is_the_same_instant() -> None:
    from zoneinfo import ZoneInfo

    there = datetime(2013, 7, 1, 8, tzinfo=ZoneInfo("America/New_York"))
    event = conform(type_of(Annotated[datetime, UTC]), there)
    assert event == there and event.tzinfo is UTC and event.hour == 12


def test_join_of_rich_types() -> None:
    money, fine = type_of(Annotated[Decimal, Scale(2)]), type_of(Annotated[Decimal, Scale(4)])
    assert join(money, fine) == fine and join(type_of(int), money) == money
    assert join(type_of(float), money) is None and join(type_of(datetime), type_of(date)) is None
    nothing = type_of_value(None)
    assert nothing is not None and join(nothing, money) == OptionalType(money)
    assert join(TupleType((nothing, money)), TupleType((money, nothing))) == TupleType((OptionalType(money),) * 2)


def test_overflows() -> None:
    p = pipeline(lambda x: x.map(lambda e: e.fee * 1000, id="f"), x=Row)
    row = rows(random.Random(1), 1)[0]
    with pytest.raises(StepError, match="64-bit"):
        p([replace(row, fee=Decimal(10**15))])
    late = pipeline(lambda x: x.map(lambda e: e.at + timedelta(days=1)), x=Row)
    with pytest.raises(StepError, match="date value out of range"):
        late([replace(row, at=datetime.max)])


def test_a_constant_of_another_zone_is_compared_and_added_to_as_python_does():
    berlin = ZoneInfo("Europe/Berlin")
    twice, noon = datetime(2013, 10, 27, 2, 30, tzinfo=berlin), datetime(2013, 10, 26, 12, tzinfo=berlin)
    instants = [datetime(2013, 10, 27, 0, 30, tzinfo=UTC), noon.astimezone(UTC), datetime(2013, 1, 1, tzinfo=UTC)]
    for f in (
        lambda u: u == twice,  # PEP 495: an hour that comes twice equals no time of another zone
        lambda u: twice != u,
        lambda u: u in (twice, noon),
        lambda u: noon == u,
        lambda u: u < twice,
    ):
        p = pipeline(lambda x, f=f: x.map(f), x=Annotated[datetime, UTC])
        assert p.why_plain is None
        assert p(instants) == [f(u) for u in instants]
    spans = [timedelta(hours=h) for h in (0, 15, 20)]  # across the end of summer time
    for f in (lambda w: noon + w, lambda w: noon - w, lambda w: (w + noon).replace(hour=3)):
        p = pipeline(lambda x, f=f: x.map(f, to=Annotated[datetime, UTC]), x=timedelta)
        assert "by the clock on the wall" in p.why_plain
        assert p(spans) == [f(w).astimezone(UTC) for w in spans]


CENT = Decimal("1.00")


@pytest.mark.parametrize("how", [None, "HALF_UP", "HALF_DOWN", "HALF_EVEN", "UP", "DOWN", "FLOOR", "CEILING"])
def test_quantize_to_a_constant_is_compiled(how):
    named = {"rounding": f"ROUND_{how}"} if how else {}
    cents = [Decimal(n).scaleb(-4) for n in (0, 50, -50, 150, -150, 49, 51, 12500, -12500, 999950, 1, -1)]
    for f in (lambda v: v.quantize(CENT, **named), lambda v: v.quantize(Decimal("0.1"), **named)):
        p = pipeline(lambda x, f=f: x.map(f), x=Annotated[Decimal, Scale(4)])
        assert p.why_plain is None
        assert list(map(str, p(cents))) == [str(f(v) + 0 if f(v) else abs(f(v))) for v in cents]


class Part(NamedTuple):
    """Fields that are called as methods of tuples are."""

    index: int
    count: int | None


class Purse(NamedTuple):
    """Methods of its own where tuples have theirs."""

    cents: int | None

    def __add__(self, other: Any) -> Any:
        return Purse((self.cents or 0) + (other.cents or 0))

    def __lt__(self, other: Any) -> bool:
        return (self.cents or 0) > (other.cents or 0)

    def count(self) -> int:  # type: ignore[override]
        return 0 if self.cents is None else 1


def test_a_named_tuple_with_a_null_has_its_own_fields_and_methods():
    parts = [Part(3, None), Part(0, 2), Part(1, 0)]
    for f in (lambda e: e.count is None, lambda e: e.index * (e.count or 1), lambda e: e._replace(count=4).count):
        p = pipeline(lambda x, f=f: x.map(f), x=Part)
        assert p.why_plain is None
        assert p(parts) == [f(e) for e in parts]
    purses = [Purse(5), Purse(None), Purse(7)]
    added = pipeline(lambda x: x.cumulate(lambda s, e: s + e, start=Purse(0)), x=Purse)
    assert added.why_plain is None and added(purses) == [Purse(5), Purse(5), Purse(12)]
    before = pipeline(lambda x: x.lag(1).map(lambda pair: pair[0] < pair[1]), x=Purse)
    assert before.why_plain is None and before(purses) == [False, True]
    counted = pipeline(lambda x: x.map(lambda e: e.count()), x=Purse)
    assert counted.why_plain is None and counted(purses) == [1, 0, 1]


# Lists as values: what they are to an engine, what a trace does with them, and what is refused.


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


class Item(NamedTuple):
    sku: str
    n: int | None
    tags: list[str]


class Order(NamedTuple):
    id: int
    items: list[Item]
    sizes: tuple[int, ...]
    note: list[str] | None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ELEMENTS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    str: TEXTS,
    Color: st.sampled_from(list(Color)),
    dt.date: st.dates(),
    dt.datetime: st.datetimes(),
    Annotated[dt.datetime, dt.UTC]: st.datetimes(timezones=st.just(dt.UTC)),
    dt.timedelta: st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
    Annotated[Decimal, Scale(2)]: st.decimals(-(10**9), 10**9, places=2),
    int | None: st.none() | st.integers(-5, 5),
    Item: st.builds(Item, TEXTS, st.none() | st.integers(-5, 5), st.lists(TEXTS, max_size=2)),
    list[int]: st.lists(st.integers(-5, 5), max_size=3),
    tuple[int, str]: st.tuples(st.integers(-5, 5), TEXTS),
}


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@given(data=st.data())
def test_a_list_is_a_text_and_back(element: Any, data: st.DataObject) -> None:
    t = type_of(list[element])
    a, b = (data.draw(st.lists(ELEMENTS[element], max_size=4)) for _ in range(2))
    (text,) = t.flatten(conform(t, a))
    assert repr(t.unflatten((text,))) == repr(conform(t, a))
    assert (t.flatten(conform(t, b)) == (text,)) == (repr(conform(t, a)) == repr(conform(t, b)))
    assert t.size(text) == len(a) and (text == "") == (not a)
    assert t.canonical((text,))


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@given(text=TEXTS)
def test_any_text_stands_for_a_list(element: Any, text: str) -> None:
    """A solver knows nothing of what a list's text is like."""
    t = type_of(list[element])
    tidy = t.tidy((text,))
    assert t.tidy(tidy) == tidy and t.flatten(t.event((text,))) == tidy
    assert bool(t.event((text,))) == (text != "")


def test_types_by_their_names() -> None:
    assert str(type_of(list[int])) == "list[int]" and str(type_of(tuple[str, ...])) == "tuple[str, ...]"
    assert type_of(tuple[int, str]) == TupleType((type_of(int), type_of(str)))
    assert str(type_of(list[int | None] | None)) == "list[int | None] | None"
    assert type_of(list[list[float]]) == ListType(ListType(type_of(float)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "expected list[int], found int 3"),
        ("ab", "expected list[int], found str 'ab'"),
        ([1, "a"], "element 1: expected int, found str 'a'"),
        ([1, None], "element 1: expected int, found NoneType None"),
        ([2**63], f"element 0: {2**63} does not fit in 64 bits"),
        (Item("a", 1, []), "expected list[int], found Item Item(sku='a', n=1, tags=[])"),
    ],
)
def test_what_is_no_list(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        conform(type_of(list[int]), value)
    assert str(caught.value) == message


ORDER = type_of(Order)


@pytest.mark.parametrize(
    ("f", "how"),
    [
        (lambda e: e.items, "traced"),
        (lambda e: Order(e.id + 1, e.items, e.sizes, None), "traced"),
        (lambda e: e._replace(sizes=(), note=[]), "traced"),
        (lambda e: 1 if e.items else 0, "traced"),
        (lambda e: e.note is None or not e.note, "traced"),
        (lambda e: len(e.items), "looked up"),
        (lambda e: e.items[0].sku if e.items else "", "looked up"),
        (lambda e: e.sizes[e.id] + e.sizes[-1], "looked up"),
        (lambda e: len(e.items[-1].tags) + len(e.items[0].tags[0]), "looked up"),
        (lambda e: 0 if e.items[0].n is None else e.items[0].n, "looked up"),
        (lambda e: e.items[0], "looked up"),
    ],
)
def test_what_is_traced(f: Any, how: str) -> None:
    made = Function.make(f, (ORDER,))
    assert ("traced" if made.traced is not None else "looked up" if made.runs is not None else made.reason) == how


@pytest.mark.parametrize(
    ("f", "how"),
    [
        (lambda e: sum(e.sizes), "loops over a list, whose length is not known"),
        (lambda e: int(3 in e.sizes), "searches in a list"),
        (lambda e: int(e.sizes == (1, 2)), "compares a list"),
        (lambda e: len(e.sizes[1:]), "takes an element of a list, which only engines can look into"),
    ],
)
def test_what_is_opaque(f: Any, how: str) -> None:
    with pytest.raises(PipelineError, match=r"the type of its result must be given: .* such as to=int if"):
        Function.make(f, (ORDER,))
    made = Function.make(f, (ORDER,), to=INT)
    assert made.runs is None and made.reason == how


def test_messages() -> None:
    for f, kind, message in [
        (lambda x: x.explode(lambda e: e.id), PipelineError, "returns an int: expected a list of events"),
        (
            lambda x: x.explode(lambda e: e.note),
            TypeMismatch,
            "returns list[str] | None, and None is no list of events",
        ),
        (lambda x: x.explode(lambda e: e.note, to=str), TypeMismatch, "write `… or []` for none"),
        (lambda x: x.map(lambda e: e.note[0]), TypeMismatch, "it uses the field 'note', which may be None"),
        (lambda x: x.key_by(lambda e: (e.id, e.sizes)), PipelineError, "a key must not contain a list"),
        (lambda x: x.explode(lambda e: []), PipelineError, "the type of its events must be given"),
        (lambda x: x.map(lambda e: e.items[0].skew), PipelineError, "skew"),
    ]:
        with pytest.raises(kind) as caught:
            pipeline(f, x=Order)
        assert message in str(caught.value), str(caught.value)


def test_an_index_that_is_not_there_fails_as_in_python() -> None:
    from pellucid import StepError

    first = pipeline(lambda x: x.map(lambda e: e.sizes[1], id="second"), x=Order)
    assert first([Order(1, [], (3, 4), None)]) == [4]
    for mode in ("python", "auto"):
        engine = first.engine(mode=mode)
        with pytest.raises(StepError, match=r"'second'.*failed at push 1 .*IndexError: tuple index out of range"):
            engine.push([Order(1, [], (3, 4), None), Order(2, [], (3,), None)])


# Local times, compiled: what Python's ``zoneinfo`` says, around every change of the clocks and at the ends of the
# calendar; what is left to Python is right, too.

INSTANT = Annotated[dt.datetime, dt.UTC]
START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZONES = ["America/New_York", "Australia/Lord_Howe", "Africa/Monrovia", "Pacific/Apia", "Asia/Kathmandu", "UTC"]
NY, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))


def changes(zone: ZoneInfo) -> list[dt.datetime]:
    """The seconds around which a zone changes its clocks, found by halving."""
    out, at = [], dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
    while at.year < 2040:
        after = at + dt.timedelta(days=20)
        if at.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            low, high = at, after
            while high - low > dt.timedelta(seconds=1):
                middle = low + (high - low) // 2
                same = middle.astimezone(zone).utcoffset() == at.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            out += [high + dt.timedelta(microseconds=d) for d in (-1_000_001, -1, 0, 1, 1_000_000)]
        at = after
    return out


def instants(zone: ZoneInfo) -> list[dt.datetime]:
    rng = random.Random(zone.key)
    found = [START + dt.timedelta(microseconds=rng.randrange(-(10**16), 6 * 10**16)) for _ in range(200)]
    return [*changes(zone), *found, dt.datetime(1, 1, 3, tzinfo=dt.UTC), dt.datetime(9999, 12, 29, tzinfo=dt.UTC)]


def fields(zone: dt.tzinfo) -> Callable[[Any], Any]:
    def f(t):  # type: ignore[no-untyped-def]
        here = t.astimezone(zone)
        day, clock = (here.year, here.month, here.day), (here.hour, here.minute, here.second, here.microsecond)
        return day, clock, here.weekday(), here.date(), here.utcoffset(), here.replace(tzinfo=None)

    return f


@pytest.mark.parametrize("name", ZONES)
def test_every_field_around_every_change(name: str) -> None:
    zone = ZoneInfo(name)
    f, given = fields(zone), instants(zone)
    p = pipeline(lambda t: t.map(f), t=INSTANT)
    assert p.why_plain is None
    for mode in ("python", "numba") if name in ZONES[:2] else ("python",):
        assert p.engine(mode=mode).push(given) == [f(t) for t in given]


#: What it returns, if it cannot be compiled.
OTHERS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "a fixed offset": (None, fields(INDIA)),
    "the hour of the day": (None, lambda t: 8 <= t.astimezone(NY).hour < 18 and t.astimezone(NY).weekday() < 5),
    "the instant again": (None, lambda t: t.astimezone(NY)),
    "from zone to zone": (None, lambda t: t.astimezone(NY).astimezone(BERLIN).replace(tzinfo=None, minute=0)),
    "earlier on the wall": (None, lambda t: t.astimezone(NY) < dt.datetime(2013, 11, 3, 1, 30, tzinfo=NY)),
    "earlier": (None, lambda t: t.astimezone(NY) <= dt.datetime(2013, 11, 3, 1, 30, tzinfo=BERLIN)),
    "since": (None, lambda t: t.astimezone(NY) - dt.datetime(2013, 11, 3, tzinfo=NY)),
    "since an instant": (None, lambda t: (t - t.astimezone(NY), t.astimezone(BERLIN) - t, t.astimezone(NY) >= t)),
    "names": (None, lambda t: {5: "sat", 6: "sun"}.get(t.astimezone(NY).weekday(), "day")),
    "tomorrow": (dt.datetime, lambda t: (t.astimezone(NY) + dt.timedelta(days=1)).replace(tzinfo=None)),
    "midnight": (INSTANT, lambda t: t.astimezone(NY).replace(hour=0, minute=0, second=0, microsecond=0)),
    "across zones": (bool, lambda t: t.astimezone(NY) == t),
}


def utc(value: Any) -> Any:
    """An event is an instant, whatever zone it came with."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


@pytest.mark.parametrize("name", OTHERS)
def test_with_other_times(name: str) -> None:
    to, f = OTHERS[name]
    p = pipeline(lambda t: t.map(f, to=to), t=INSTANT)
    assert (p.why_plain is None) == (to is None)
    given = instants(NY)
    assert p(given) == [utc(f(t)) for t in given]


def test_beyond_the_calendar_it_fails_as_python_does() -> None:
    last = dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC)
    p = pipeline(lambda t: t.map(lambda v: v.astimezone(BERLIN).year), t=INSTANT)
    assert p.why_plain is None
    with pytest.raises(StepError, match="OverflowError: date value out of range"):
        p([START, last])
    with pytest.raises(OverflowError):
        last.astimezone(BERLIN)


def test_they_travel_and_are_asked_in_checks() -> None:
    for made in (Offset("Europe/Berlin"), QuarterOffset("Europe/Berlin")):
        assert pickle.loads(pickle.dumps(made))(0) == 3_600_000_000
    late = pipeline(lambda t: t.filter(lambda v: v.astimezone(BERLIN).hour >= 18), t=INSTANT)
    same = pipeline(lambda t: t.filter(lambda v: not v.astimezone(BERLIN).hour < 18), t=INSTANT)
    other = pipeline(lambda t: t.filter(lambda v: v.astimezone(BERLIN).hour > 18), t=INSTANT)
    assert check.equivalent(late, same).proved
    assert not check.equivalent(late, other).proved
    assert check.failures(late, crashes=1).bounded  # that it changes a time zone is no effect


# ``round``: to the nearest int in every target, to a number of digits exactly as Python does in engines.

HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2.675, 1.005, 0.125, 1e15 + 0.5, 4503599627370497.5]


def test_to_the_nearest_int_is_traced() -> None:
    fn = Function.make(lambda x: round(x), (FLOAT,))
    assert fn.traced is not None and fn.result == INT
    run = Compiled(fn.traced, False)
    for x in [*HALVES, 1e18, -0.0]:
        assert run([x]) == ("value", repr(round(x)))
    assert run([1e19]) == ("overflow",)
    assert run([math.inf]) == run([math.nan]) == ("raise",)


def test_ints_are_as_they_are() -> None:
    fn = Function.make(lambda v: round(v) + round(v, 2), (INT,))
    assert fn.traced is not None and fn.call(3) == 6


@given(values(FLOAT), st.integers(-3, 20))
def test_to_digits(x: float, digits: int) -> None:
    fn = Function.make(lambda v: round(v, digits), (FLOAT,), to=FLOAT)
    assert fn.runs is not None and fn.traced is None
    try:
        want = ("value", repr(round(x, digits)))
    except OverflowError:
        want = ("raise",)
    assert Compiled(fn.runs, False)([x]) == want


def drawn(rng: random.Random) -> float:
    ways = [
        lambda: struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0],
        lambda: rng.uniform(-1000, 1000),
        lambda: rng.randrange(-(10**9), 10**9) / 10 ** rng.randrange(12),
        lambda: (2 * rng.randrange(-(10**7), 10**7) + 1) / 2 ** rng.randrange(12),  # halves of decimals
        lambda: math.nextafter(rng.randrange(-(10**6), 10**6) / 1000 + 0.0005, rng.choice([-1e9, 1e9])),
        lambda: rng.randrange(2**50, 2**56) / 10 ** rng.randrange(18),  # where doubles have no halves any more
    ]
    return float(rng.choice(ways)())


@pytest.mark.parametrize("seed", seeds(2))
def test_the_compiled_one_is_pythons(seed: int) -> None:
    from pellucid.internal.engine.kernel.prims import _digits

    rng = random.Random(seed)
    for _ in range(20_000):
        x, digits = drawn(rng), rng.randrange(19)
        assert repr(float(_digits(x, 10.0**digits, 10**digits))) == repr(round(x, digits)), (x, digits)


def test_in_an_engine_and_in_a_check() -> None:
    p = pipeline(lambda x: x.map(lambda v: round(v * 1.1, 2)), x=float)
    for mode in ("python", "numba"):
        assert p.engine(mode=mode).push([*HALVES]) == [round(v * 1.1, 2) for v in HALVES]
    whole = pipeline(lambda x: x.filter(lambda v: 0 <= v < 100).map(lambda v: round(v)), x=float)
    assert check.holds(whole, "G (out -> out.value <= 100)", warn=False).proved
    assert check.holds(whole, "G (out -> out.value < 100)", warn=False).refuted


def test_what_is_no_number() -> None:
    fn = Function.make(lambda x: (math.isnan(x), math.isinf(x), math.isfinite(x)), (FLOAT,))
    assert fn.traced is not None
    run = Compiled(fn.traced, False)
    for x in (0.0, math.nan, math.inf, -math.inf, 1e308):
        assert run([x]) == ("value", repr((math.isnan(x), math.isinf(x), math.isfinite(x))))
