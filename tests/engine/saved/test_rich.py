"""Saved states with times, decimals and values that may be missing: cut anywhere and gone on, the answer is that of the
whole run; what would be read as something else is refused with the types."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest

from pellucid import Pipeline, Scale, apply, merge, pipeline
from pellucid.errors import StateError
from tests.engine.epochs.rich_rows import Row, many, tale, told

Cents = Annotated[Decimal, Scale(2)]
Finer = Annotated[Decimal, Scale(4)]
ROWS = many(40)


def waits(x: Any) -> Any:
    """Events of all kinds wait in queues."""
    late = x.map(lambda r: r.oat, id="oat").decimate(3, id="some")
    return apply(lambda r, t: (r.fee, r.ofee, t, r.os, r.otook), x, late, id="pair")


def remembers(x: Any) -> Any:
    """The event three events ago, and a window over the last four."""
    before = x.map(lambda r: (r.otook, r.oday), id="two").lag(3, id="ago")
    longest = x.map(lambda r: r.ofee, id="fee").window(
        4, lambda y: y.cumulate(lambda m, v: v if m is None or (v is not None and v > m) else m, None), id="most"
    )
    return {"before": before, "longest": longest}


def keyed(x: Any) -> Any:
    """A state for each day that may be missing."""
    return x.key_by(lambda r: r.oday, id="day").cumulate(
        lambda t, r: r.oat if r.oat is not None else t, None, id="last"
    )


PIPELINES: dict[str, Pipeline] = {
    "told": told,
    "waits": pipeline(waits, x=Row),
    "remembers": pipeline(remembers, x=Row),
    "keyed": pipeline(keyed, x=Row),
}


def flat(found: Any) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in found.items()} if isinstance(found, dict) else {"out": list(found)}


def test_the_whole_run_is_by_the_book() -> None:
    assert list(told(ROWS)) == tale(ROWS, keyed=False)


@pytest.mark.parametrize("modes", [("numba", "python"), ("python", "numba"), ("python", "python")])
@pytest.mark.parametrize("name", PIPELINES)
def test_saved_and_loaded_it_goes_on(name: str, modes: tuple[str, str]) -> None:
    p = PIPELINES[name]
    whole = flat(p.engine(mode=modes[0]).push(ROWS))
    for cut in (0, 1, 5, 17, 39) if "numba" not in modes else (17,):
        first = p.engine(mode=modes[0])
        before = flat(first.push(ROWS[:cut]))
        for how in ("load", "carry"):
            second = p.engine(mode=modes[1])
            getattr(second, how)(first.save())
            after = flat(second.push(ROWS[cut:]))
            assert {n: before[n] + after[n] for n in whole} == whole, (cut, how)


def sums(t: Any) -> Pipeline:
    return pipeline(lambda x: x.cumulate(lambda s, v: v, start=None, id="last"), x=t)


def queue(t: Any) -> Pipeline:
    return pipeline(
        lambda x, y: apply(lambda a, b: b, x.map(lambda v: v, id="same"), y.decimate(3, id="few"), id="wait"),
        x=t,
        y=int,
    )


def lags(t: Any) -> Pipeline:
    return pipeline(lambda x: x.lag(2, id="ago"), x=t)


def keys(t: Any) -> Pipeline:
    return pipeline(lambda x: x.key_by(lambda v: v, id="key").cumulate(lambda n, v: n + 1, 0, id="count"), x=t)


VALUES: dict[Any, Any] = {
    int: 5, int | None: 5, datetime: datetime(2013, 1, 1), date: date(2013, 1, 1), timedelta: timedelta(1),
    Cents: Decimal("1.25"), Finer: Decimal("1.25"), datetime | None: datetime(2013, 1, 1), float: 1.5,
}  # fmt: skip
CHANGES = [
    (Cents, Finer, "Decimal(2)", "Decimal(4)"),
    (datetime, timedelta, "datetime", "timedelta"),
    (datetime, date, "datetime", "date"),
    (datetime, int, "datetime", "int"),
    (int, Cents, "int", "Decimal(2)"),
    (int, int | None, "int", "int | None"),
    (datetime | None, int | None, "datetime | None", "int | None"),
]


@pytest.mark.parametrize("how", ["load", "carry"])
@pytest.mark.parametrize(("was", "now", "before", "after"), CHANGES)
@pytest.mark.parametrize(
    ("make", "what", "step"), [(queue, "input 1", "wait"), (lags, "input", "ago"), (keys, "key", "count")]
)
def test_another_type_is_refused_by_name(
    make: Any, what: str, step: str, was: Any, now: Any, before: str, after: str, how: str
) -> None:
    old = make(was).engine()
    one = [VALUES[was]] * 4
    old.push(x=one, y=[1] * 4) if make is queue else old.push(one)
    with pytest.raises(StateError) as said:
        getattr(make(now).engine(), how)(old.save())
    assert f"its {what} was {before}, and is now {after}" in str(said.value) and step in str(said.value)


@pytest.mark.parametrize("how", ["load", "carry"])
@pytest.mark.parametrize(("was", "now"), [(c[0], c[1]) for c in CHANGES[:5]])
def test_so_is_another_state(was: Any, now: Any, how: str) -> None:
    old = sums(was).engine()
    old.push([VALUES[was]])
    with pytest.raises(StateError, match=r"its state was .* \| None, and is now .* \| None") as said:
        getattr(sums(now).engine(), how)(old.save())
    assert how == "load" or "give up what it remembers with drop=['last']" in str(said.value)


def test_what_is_given_up_starts_anew() -> None:
    old, new = sums(Cents).engine(), sums(Finer).engine()
    old.push([Decimal("1.25")])
    new.carry(old.save(), drop=["last"])
    assert list(new.push([Decimal("0.0001")])) == [Decimal("0.0001")]


def test_a_name_is_no_type() -> None:
    """A state of the same columns is carried, whatever its class is called."""
    first = pipeline(lambda x: x.cumulate(lambda s, v: v, start=datetime(2013, 1, 1), id="last"), x=datetime)
    second = pipeline(
        lambda x: merge(x.cumulate(lambda s, v: max(s, v), start=datetime(1, 1, 1), id="last"), id="all"), x=datetime
    )
    old, new = first.engine(), second.engine()
    old.push([datetime(2014, 1, 1)])
    new.carry(old.save())
    assert list(new.push([datetime(2012, 1, 1)])) == [datetime(2014, 1, 1)]
