"""Questions about enums that may be missing, pipelines that fail step after step, times over few integers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date

import pytest

from pellucid import check, pipeline
from pellucid.errors import TypeMismatch, UsageError


class Kind(enum.Enum):
    IN = "in"
    OUT = "out"
    BACK = "back"


@dataclass(frozen=True)
class Sale:
    price: int | None
    kind: Kind | None


SALES = pipeline(lambda x: x.filter(lambda e: e.kind is not Kind.IN), x=Sale)
KINDS = pipeline(lambda x: x.map(lambda e: e.kind, to=Kind | None), x=Sale)


@pytest.mark.parametrize("engine", ["auto", "explicit", "smt"])
@pytest.mark.parametrize(
    ("p", "formula", "proved"),
    [
        (SALES, "G (out -> out.value.kind != Kind.IN)", True),
        (SALES, "G (out -> out.value.kind != OUT)", False),
        (SALES, "G (out -> out.value.kind = Kind.OUT | out.value.kind = BACK)", False),  # it may be missing
        (SALES, "G (out -> out.value.kind = Kind.OUT | out.value.kind = BACK | out.value.kind = None)", True),
        (KINDS, "G (out.last = BACK -> x.value.kind = BACK)", True),
        (KINDS, "G (x -> any(BACK != out.value))", False),
    ],
)
def test_an_enum_that_may_be_missing_is_compared_with_its_members(p, formula, proved, engine) -> None:
    verdict = check.holds(p, formula, ints=range(5, 7), engine=engine)
    assert (verdict.proved, verdict.refuted) == (proved, not proved), str(verdict)


def test_such_an_enum_in_an_assumption_and_in_a_message() -> None:
    assert check.holds(KINDS, "G (out -> out.value = BACK)", assume="x.value.kind = BACK").proved
    assert check.holds(KINDS, "G (out -> out.value = BACK)", assume="x.value.kind != OUT").refuted
    with pytest.raises(UsageError, match="Kind has no member 'BAK': did you mean 'BACK'"):
        check.holds(KINDS, "G (out -> out.value = Kind.BAK)")
    with pytest.raises(UsageError, match="no order that <"):
        check.holds(KINDS, "G (out -> out.value < BACK)")


def raising(s: tuple[int | None, bool], e: Kind) -> tuple[tuple[int | None, bool], list[tuple[int, bool]]]:
    if s[1]:
        return (None, e is not Kind.OUT), [(3, False) if s[2] else (0, True)]  # type: ignore[misc]
    return (s[0], e is Kind.IN), [(0, True)]


def quiet(s: tuple[int | None, bool], e: Kind) -> tuple[tuple[int | None, bool], list[tuple[int, bool]]]:
    return s, [(3, True)]


@pytest.mark.parametrize("which", range(16))
def test_a_step_behind_one_that_fails_is_not_asked_first(which: int) -> None:
    """What a task puts out where it fails, and how much, makes no sense; whatever the ids of the steps are."""
    p, q = (
        pipeline(
            lambda x, f=f, i=i: x.task(f, initial=(2, True), id=f"{i}a{which}").map(lambda e: e[1], id=f"{i}b{which}"),
            x=Kind,
        )
        for i, f in (("q", quiet), ("r", raising))
    )
    for ask in (check.implies, check.equivalent):
        verdict = ask(p, q, engine="smt")
        assert verdict.refuted and verdict.counterexample is not None, verdict.notes
        assert len(verdict.counterexample.inputs) == 1


def test_where_the_engine_was_the_reason_it_says_so() -> None:
    verdict = check.holds(SALES, "AG AF out.value.kind != IN", ints=range(2), engine="smt")
    assert verdict.unknown
    assert "can be listed, so leave engine= out, or use engine='explicit'" in verdict.notes[0]
    assert not check.holds(SALES, "AG AF out.value.kind != IN", ints=range(2)).unknown


def test_no_date_is_suggested_that_cannot_come() -> None:
    p = pipeline(lambda x: x.filter(lambda e: e > date(2013, 1, 1)), x=date)
    (note,) = check.holds(p, "G !out", ints=range(3)).notes
    assert "where x.value > 15706 is never so: with ints={0, 1, 2, 15705, 15706, 15707}" in note


def first(e: Sale) -> int | None:
    return e.price


@pytest.mark.parametrize("how", ["step", "sequence", "paper"])
def test_what_may_be_missing_is_compared_with_what_never_is(how: str) -> None:
    maybe = pipeline(lambda x: x.map(first), x=Sale)
    known = pipeline(lambda x: x.filter(lambda e: e.price is not None).map(first), x=Sale)
    never = pipeline(lambda x: x.map(lambda e: e.price or 0), x=Sale)
    asked = pipeline(lambda x: x.filter(lambda e: e.price is not None).map(lambda e: e.price or 0), x=Sale)
    for a, b in ((maybe, never), (never, maybe)):
        verdict = check.equivalent(a, b, how=how)
        assert verdict.refuted and verdict.counterexample is not None
        assert verdict.counterexample.inputs == [{"x": Sale(None, None)}] and verdict.counterexample.replay()
    assert check.equivalent(known, asked, how=how).proved
    assert check.equivalent(asked, known, how=how, ints=range(5, 8)).proved
    with pytest.raises(TypeMismatch, match="they put out"):
        check.equivalent(maybe, KINDS)
