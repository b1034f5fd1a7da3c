"""Times, decimals and values that may be missing: the trace, the code written for it and plain Python agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, Optional
from zoneinfo import ZoneInfo

import pytest

from pellucid import PipelineError, Scale, StepError, TypeMismatch, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.types import OptionalType, TupleType, conform, join, type_of, type_of_value
from tests.expr.rich_functions import NAMES, Row, function_text, rows
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
    text = function_text(rng)
    f = eval(text, dict(NAMES))
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
