"""``T`` where ``T | None`` is declared: outputs, merges, arguments of pipelines; and what stays refused."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pellucid import Scale, Stream, TypeMismatch, check, merge, pipeline
from pellucid.internal.engine.interpreter import Interpreter


class Color(enum.Enum):
    RED = 1
    BLUE = 2


TYPES: list[tuple[Any, list[Any]]] = [
    (int, [1, -2]),
    (float, [0.5, 2.0]),
    (bool, [True, False]),
    (str, ["", "a"]),
    (date, [date(2013, 1, 2)] * 2),
    (datetime, [datetime(2013, 1, 2, 3)] * 2),
    (Annotated[datetime, UTC], [datetime(2013, 1, 2, 3, tzinfo=UTC)] * 2),
    (timedelta, [timedelta(hours=1), timedelta(0)]),
    (Annotated[Decimal, Scale(2)], [Decimal("1.25"), Decimal("0.00")]),
    (Color, [Color.RED, Color.BLUE]),
    (list[int], [[], [1, 2]]),
]


def declared(t: Any) -> Any:
    def known(x: Any) -> Any:
        return x.filter(lambda v: v == v)

    known.__annotations__ = {"x": Stream[t], "return": Stream[t | None]}  # type: ignore[valid-type]
    return pipeline(known)


@pytest.mark.parametrize(("t", "values"), TYPES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("mode", ["python", "auto"])
def test_every_type_in_every_engine(t: Any, values: list[Any], mode: str) -> None:
    p = declared(t)
    assert str(p.graph.nodes[p.graph.outputs[0][1]].type).endswith(" | None")
    assert p.engine(mode=mode).push(values) == values
    assert [v for push in p.trace(values) for v in push] == values
    both = pipeline(lambda x, y: merge(x, y, x), x=t, y=t | None)
    want = [v for value in values for v in (value, None, value)]
    assert both.engine(mode=mode).push(values, [None] * len(values)) == want
    assert [v for push in both.trace(values, [None] * len(values)) for v in push] == want


@pipeline
def filled(x: Stream[int | None]) -> Stream[int]:
    return x.map(lambda v: -1 if v is None else v)


@pipeline
def last_of(x: Stream[int]) -> Stream[int | None]:
    return x.cumulate(lambda a, b: b, start=0)


def test_arguments_windows_keys_and_several_outputs() -> None:
    assert pipeline(lambda x: filled(x), x=int)([3, 4]) == [3, 4]
    assert pipeline(lambda x: x.window(2, filled), x=int)([3, 4, 5]) == [4, 5]
    assert pipeline(lambda x: filled(last_of(x)), x=int)([3, 4]) == [3, 4]
    by_parity = lambda s: s.key_by(lambda v: (v or 0) % 2)
    keyed = pipeline(lambda x, y: merge(by_parity(x), by_parity(y)).lag(1), x=int, y=int | None)
    assert keyed([1, 2], [None, 3]) == [(2, None), (3, 1)]

    @pipeline
    def two(x: Stream[int]) -> tuple[Stream[int | None], Stream[int], Stream[tuple[int | None, int]]]:
        return x, x.map(lambda v: v), x.lag(1)

    found = two([1, 2])
    assert list(found) == [[1, 2], [1, 2], [(2, 1)]]
    assert [str(two.graph.nodes[i].type) for _, i in two.graph.outputs] == ["int | None", "int", "(int | None, int)"]


def test_with_constants() -> None:
    @pipeline
    def above(x: Stream[int | None], least: int = 0) -> Stream[int | None]:
        return x.filter(lambda v: v is not None and v > least).map(lambda v: v or 0)

    caller = pipeline(lambda x: above(x, least=3), x=int)
    assert caller([1, 5]) == [5]
    assert str(caller.graph.nodes[caller.graph.outputs[0][1]].type) == "int | None"


def test_it_is_the_pipeline_that_says_it_in_so_many_words() -> None:
    @pipeline
    def short(x: Stream[int], y: Stream[int | None]) -> Stream[int | None]:
        return merge(x, y)

    @pipeline
    def long(x: Stream[int], y: Stream[int | None]) -> Stream[int | None]:
        return merge(x.map(lambda v: v, to=int | None), y)

    @pipeline
    def wrong(x: Stream[int], y: Stream[int | None]) -> Stream[int | None]:
        return merge(x.map(lambda v: None if v == 7 else v, to=int | None), y)

    assert check.equivalent(short, long).status == "proved"
    assert check.equivalent(short, wrong).status == "refuted"
    assert check.holds(short, "G (x & !y -> out.value != None)").status == "proved"
    assert check.holds(short, "G (y -> out.value != None)").status == "refuted"
    assert list(Interpreter(short.graph).push({"x": 1, "y": None}).values()) == [[1, None]]


def test_in_epochs(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    last_of.run_epochs(str(tmp_path / "in.csv"), str(tmp_path / "out.parquet"), state=tmp_path / "s", pushes=2)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.to_pydict() == {"out": [1, 2, 3]}
    assert table.schema.field("out").nullable


class Left(NamedTuple):
    a: int


class Right(NamedTuple):
    a: int | None


@pytest.mark.parametrize(
    ("found", "wanted", "says"),
    [
        (int, float, "expected float, found int"),
        (int, float | None, "expected float | None, found int"),
        (int | None, int, "expected int, found int | None"),
        (list[int], list[int | None], "expected list[int | None], found list[int]"),
        (Left, Right, "expected Right(a: int | None), found Left(a: int)"),
    ],
)
def test_what_is_another_type_stays_refused(found: Any, wanted: Any, says: str) -> None:
    def same(x: Any) -> Any:
        return x.trim(0)

    same.__annotations__ = {"x": Stream[found], "return": Stream[wanted]}
    with pytest.raises(TypeMismatch) as caught:
        pipeline(same)
    assert says in str(caught.value)
    if found != int | None:
        with pytest.raises(TypeMismatch, match=r"merge .* wants all its inputs to carry the same type"):
            pipeline(lambda x, y: merge(x, y), x=found, y=wanted)
