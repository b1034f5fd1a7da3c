"""Records that a join did not find: a function that asks whether one is None is refused, as it never is; one that asks
for its fields, or hands it on, is not.  And how such a result is declared."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pellucid import DataError, Late, PipelineError, Stream, TypeMismatch, Windowed, as_of, join, pipeline


class Trade(NamedTuple):
    at: int
    price: float


@dataclasses.dataclass(frozen=True)
class Quote:
    at: int
    price: float


TRADES = [Trade(1, 2.0), Trade(5, 3.0)]
QUOTES = [Quote(2, 1.0)]


def after(f: Callable[[Any], Any], **more: Any) -> list[Any]:
    built = pipeline(lambda t, q: as_of(t.at("at"), q.at("at")).map(f, **more), t=Trade, q=Quote)
    return list(built(TRADES, QUOTES))


def looked_up(both: Any) -> str:
    """Not traced: a dictionary is asked for by what an event has."""
    return {True: "nobody", False: "somebody"}[bool(both[1] is None)] + str(both[0])


ASKING: list[Callable[[Any], Any]] = [
    lambda both: both[1] is None,
    lambda both: both[1] is not None and both[0].at > 0,
    lambda both: both[1].price if both[1] else 0.0,
    lambda both: 0.0 if both[1] is None else (both[1].price if both[1].price is not None else -1.0),
    looked_up,
    lambda both: len([side for side in both if side is not None]),
    lambda both: both[1] == None,  # noqa: E711
]


@pytest.mark.parametrize("f", ASKING)
def test_a_function_that_asks_whether_a_record_is_none_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(PipelineError) as caught:
        after(f)
    said = str(caught.value)
    assert "asks whether the Quote in an event is None, or true, and a record always is there" in said
    assert "where a join found nobody, each of its fields is None; ask for one of them, as in e[1].at is None" in said
    assert said.startswith("map (test_absent.py:")


@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda both: both[1].at is None, [True, False]),
        (lambda both: both[1] is None or both[1].at is None, [True, False]),
        (lambda both: both[1].price if both[1].price is not None else 0.0, [0.0, 1.0]),
        (lambda both: (both[0].at, both[1]), [(1, Quote(None, None)), (5, Quote(2, 1.0))]),  # type: ignore[arg-type]
        (lambda both: both[0].at, [1, 5]),
    ],
)
def test_others_are_not(f: Callable[[Any], Any], found: list[Any]) -> None:
    assert after(f) == found


@pytest.mark.parametrize(
    "f",
    [
        lambda both: str(both[1]),
        lambda both: f"{both[1]!r} of {both[0]}",
        lambda both: json.dumps(both[1].price) + type(both[1]).__name__,
        lambda both: json.dumps(both[0]) + str(isinstance(both[1], Quote)),
    ],
)
def test_one_that_shows_a_record_does_not_ask(f: Callable[[Any], Any]) -> None:
    assert len(after(f, to=str)) == 2


def test_a_tuple_is_never_none_either() -> None:
    with pytest.raises(PipelineError, match=r"asks whether a tuple in an event is None.*as in e\[0\]\[0\] is None"):
        pipeline(
            lambda x, y: join(x.at(lambda e: e[0]), y.at(lambda e: e[0]), within=1, how="full").filter(
                lambda both: both[0] is None
            ),
            x=tuple[int, str],
            y=tuple[int, str],
        )


def test_what_a_join_may_not_find_is_declared_with_none() -> None:
    @pipeline
    def found(t: Stream[Trade], q: Stream[Quote]) -> Stream[tuple[Trade, Quote | None]]:
        return as_of(t.at("at"), q.at("at"))

    assert found(TRADES, QUOTES)[1] == (Trade(5, 3.0), Quote(2, 1.0))
    with pytest.raises(TypeMismatch, match=r"what a join may not find is declared as its type \| None"):

        @pipeline
        def wrong(t: Stream[Trade], q: Stream[Quote]) -> Stream[tuple[Trade, Quote]]:
            return as_of(t.at("at"), q.at("at"))


class Seen(NamedTuple):
    at: int
    quote: Quote | None


NOBODY = Quote(None, None)  # type: ignore[arg-type]


def test_a_record_that_may_be_missing_comes_in_as_one_that_a_join_did_not_find() -> None:
    """As a field, as an item and as the whole event: None in its place is the record with None in each field."""
    field = pipeline(lambda x: x.map(lambda e: (e.at, e.quote.price)), x=Seen)
    assert field([Seen(1, None), Seen(2, Quote(3, 4.0)), Seen(5, NOBODY)]) == [(1, None), (2, 4.0), (5, None)]
    handed = pipeline(lambda x: x.map(lambda e: e[1]), x=tuple[int, Quote | None])
    assert handed([(1, None), (2, Quote(3, 4.0))]) == [NOBODY, Quote(3, 4.0)]
    whole = pipeline(lambda x: x.filter(lambda q: q.at is not None), x=Quote | None)
    assert whole([None, Quote(3, 4.0), NOBODY]) == [Quote(3, 4.0)]
    timed = pipeline(lambda x: x.filter(lambda q: q.at is not None).at("at").tumbling(5, lambda w: w), x=Quote | None)
    assert timed([None, Quote(3, 4.0)]) == [(0, 5, Quote(3, 4.0))]


def test_what_a_join_puts_out_goes_into_the_next_pipeline() -> None:
    found = pipeline(lambda t, q: as_of(t.at("at"), q.at("at")), t=Trade, q=Quote)(TRADES, QUOTES)
    later = pipeline(lambda x: x.map(lambda both: both[1].at), x=tuple[Trade, Quote | None])
    assert later(found) == [None, 2]


def test_a_table_with_nulls_in_all_fields_of_a_record() -> None:
    quotes = pa.array([None, {"at": 2, "price": 1.0}], pa.struct([("at", pa.int64()), ("price", pa.float64())]))
    later = pipeline(lambda x: x.map(lambda e: (e.at, e.quote.price)), x=Seen)
    assert later(pa.table({"at": [1, 5], "quote": quotes})).to_pydict() == {"out_0": [1, 5], "out_1": [None, 1.0]}


def test_only_where_it_is_declared() -> None:
    class Open(NamedTuple):
        """All of it may be None, and still it is there."""

        at: int | None

    plain = pipeline(lambda x: x, x=Open)
    with pytest.raises(DataError, match="expected Open, found NoneType None"):
        plain([None])
    with pytest.raises(PipelineError, match="asks whether the Quote in an event is None, or true"):
        pipeline(lambda x: x.map(lambda e: e.quote is None), x=Seen)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (Late[Trade, int], r"Late\[Trade, int\]: the type of the times comes first, .* as in Late\[int, Trade\]"),
        (Late[float, int], r"Late\[float, int\]: the type of the times comes first"),
        (Windowed[Trade, float], r"Windowed\[Trade, float\]: the type .* as in Windowed\[datetime, float\]"),
    ],
)
def test_the_type_of_times_comes_first(declared: Any, said: str) -> None:
    def late(x: Any) -> Any:
        return x.at("at").tumbling(5, lambda w: w).late

    late.__annotations__ = {"x": Stream[Trade], "return": Stream[declared]}
    with pytest.raises(TypeMismatch, match=rf"pipeline late declares {said}"):
        pipeline(late)
    with pytest.raises(TypeMismatch, match=rf"the source 'x': {said}"):
        pipeline(lambda x: x, x=declared)
