"""Values that may be missing, over few ints: every engine answers as a list of all short runs does.

What is not there has one form (None), whatever ints are asked about: also where 0 is not among them.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid import Pipeline, check, pipeline


class Kind(enum.Enum):
    IN = 1
    OUT = 2
    BACK = 3


@dataclass(frozen=True)
class Sale:
    price: int | None
    kind: Kind | None


def highest(top: int, v: int | None) -> int:
    return top if v is None or v < top else v


def last_price(state: tuple[int, int], e: Sale) -> tuple[tuple[int, int], list[int]]:
    price, missing = state
    if e.price is None:
        return (price, min(missing + 1, 2)), [price] if e.kind is Kind.OUT else []
    return (e.price, 0), [e.price + missing]


PIPELINES: dict[str, tuple[type, Any]] = {
    "or": (int | None, lambda x: x.map(lambda v: v or 0)),
    "highest": (int | None, lambda x: x.cumulate(highest, start=0)),
    "there": (int | None, lambda x: x.map(lambda v: 1 if v is None else 0)),
    "gone": (int | None, lambda x: x.filter(lambda v: v is not None).map(lambda v: v or 9)),
    "price": (Sale, lambda x: x.task(last_price, initial=(0, 0))),
    "kind": (Sale, lambda x: x.map(lambda e: 0 if e.kind is None else 1 if e.kind == Kind.BACK else 2)),
}  # type: ignore[dict-item]
DOMAINS = [range(5, 8), range(3), {-1, 4}]
OPERATORS: dict[str, Callable[[int, int], bool]] = {"<=": int.__le__, ">=": int.__ge__, "!=": int.__ne__}


def events(of: Any, ints: Iterable[int]) -> list[Any]:
    prices = [None, *ints]
    return [Sale(p, k) for p in prices for k in (None, *Kind)] if of is Sale else prices


def found(p: Pipeline, of: Any, ints: Iterable[int], bad: Callable[[int], bool], most: int) -> int | None:
    """The length of the shortest run that puts out something bad, by trying all."""
    for length in range(1, most + 1):
        for run in itertools.product(events(of, ints), repeat=length):
            if any(map(bad, p(list(run)))):
                return length
    return None


@pytest.mark.parametrize("ints", DOMAINS, ids=str)
@pytest.mark.parametrize("name", PIPELINES)
def test_every_engine_answers_as_all_runs_do(name: str, ints: Any) -> None:
    of, build = PIPELINES[name]
    p = pipeline(build, x=of)
    for op, limit in (("<=", 6), (">=", 5), ("!=", 0), ("<=", 9), (">=", -1), ("!=", 7)):
        holds = OPERATORS[op]
        shortest = found(p, of, sorted(ints), lambda v, limit=limit, holds=holds: not holds(v, limit), 2)
        for engine in ("explicit", "smt"):
            verdict = check.holds(p, f"AG (out -> out.value {op} {limit})", ints=ints, engine=engine)
            assert not verdict.unknown, (engine, op, limit, verdict.notes)
            if shortest is not None:
                assert verdict.refuted and verdict.counterexample is not None, (engine, op, limit)
                assert len(verdict.counterexample.inputs) == shortest and verdict.counterexample.replay()
            elif name != "price":  # which has memory of more than two events
                assert verdict.proved, (engine, op, limit, str(verdict))


def test_a_key_that_may_be_missing() -> None:
    count = pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0), x=int | None)
    for engine in ("explicit", "smt", "auto"):
        verdict = check.holds(count, "AG (out -> out.value < 2)", ints=range(5, 7), engine=engine)
        assert verdict.refuted and verdict.counterexample is not None, (engine, verdict.notes)
        assert len(verdict.counterexample.inputs) == 2 and verdict.counterexample.replay()
    none = check.holds(count, "AG (out & x.value = None -> out.value < 2)", ints=range(5, 7))
    assert none.refuted and none.counterexample is not None
    assert none.counterexample.inputs == [{"x": None}, {"x": None}]


def opaque(v: int | None) -> int:
    return 0 if v is None else int(str(v))


def test_a_function_that_is_called_is_called_with_none() -> None:
    p = pipeline(lambda x: x.map(opaque), x=int | None)
    verdict = check.holds(p, "AG (out -> out.value >= 5)", ints=range(5, 8))
    assert verdict.refuted and verdict.counterexample is not None
    assert verdict.counterexample.inputs == [{"x": None}]
    assert check.holds(p, "AG (out -> out.value >= 0)", ints=range(5, 8)).proved
