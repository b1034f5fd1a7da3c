"""Pipelines: their sources and outputs, calling one another, and no cycles."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from pellucid import CycleError, Pipeline, PipelineError, Scale, Stream, TypeMismatch, UsageError, apply, pipeline
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.build import call
from pellucid.internal.graph.model import Graph, Node

Money = Annotated[Decimal, Scale(2)]
Instant = Annotated[datetime, UTC]


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    """The running sum."""
    return x.cumulate(lambda t, v: t + v, start=0)


def build_error(make: Callable[[], Any]) -> str:
    with pytest.raises(PipelineError) as caught:
        make()
    return re.sub(r"test_pipeline\.py:\d+", "HERE", str(caught.value))


def test_a_pipeline_knows_itself() -> None:
    assert (total.name, total.__doc__, repr(total)) == ("total", "The running sum.", "<pipeline total(x: int) -> int>")
    assert pipeline(total) is total


# ---------------------------------------------------------------- annotations, here all of them strings


def test_local_record_classes() -> None:
    @dataclass(frozen=True)
    class Reading:
        celsius: float
        ok: bool

    @pipeline
    def good(x: Stream[Reading]) -> Stream[float]:
        return x.filter(lambda r: r.ok).celsius

    assert good([Reading(1.5, True), Reading(2.5, False)]) == [1.5]


def test_a_local_record_of_a_factory() -> None:
    def make(k: int) -> tuple[Any, Pipeline]:
        class Pair(NamedTuple):
            a: int
            b: int

        @pipeline
        def scaled(x: Stream[Pair]) -> Stream[int]:
            return x.map(lambda p: p.a * k + p.b)

        return Pair, scaled

    pair, scaled = make(3)
    assert scaled([pair(1, 2)]) == [5]


def test_sources_need_a_type() -> None:
    def untyped(x, y: Stream[int]):  # type: ignore[no-untyped-def]
        return x

    assert (
        build_error(lambda: pipeline(untyped)) == "pipeline untyped: the source 'x' has no type: write x: Stream[int]"
    )
    assert pipeline(untyped, x=bool)([True], [1]) == [True]

    def plain(x: int) -> Any:
        return x

    assert (
        build_error(lambda: pipeline(plain))
        == "pipeline plain: the source 'x' must be a Stream[…], found <class 'int'>"
    )

    def unknown(x: Stream[Nowhere]) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert (
        build_error(lambda: pipeline(unknown))
        == "pipeline unknown: the type of a parameter is not known here: name 'Nowhere' is not defined"
    )

    def listed(x: Stream[list]) -> Any:  # type: ignore[type-arg]
        return x

    assert build_error(lambda: pipeline(listed)).startswith(
        "pipeline listed: the source 'x': a list needs the type of what it holds"
    )
    assert build_error(lambda: pipeline(lambda *x: x[0])) == "pipeline pipeline: *x is not possible: name each source"
    assert (
        build_error(lambda: pipeline(lambda: 1))
        == "pipeline pipeline has no source: give it a parameter such as x: Stream[int]"
    )
    assert build_error(lambda: pipeline(lambda x: x, x=int, y=int)) == "pipeline pipeline has no source 'y': it has x"
    wrong = build_error(lambda: pipeline(3))  # type: ignore[call-overload]
    assert wrong == "@pipeline wants a function over streams, found 3"


def test_the_declared_result_is_checked() -> None:
    def wrong(x: Stream[int]) -> Stream[bool]:
        return x.map(lambda v: v + 1, id="m")  # type: ignore[return-value]

    assert build_error(lambda: pipeline(wrong)) == (
        "pipeline wrong declares -> Stream[bool], but its step 'm' (map v + 1, HERE) puts out int: expected bool, "
        "found int"
    )

    def two(x: Stream[int]) -> tuple[Stream[int], Stream[int]]:
        return x  # type: ignore[return-value]

    assert build_error(lambda: pipeline(two)) == "pipeline two declares 2 output(s), but returns 1"


# ---------------------------------------------------------------- several outputs


def test_outputs_by_tuple_dict_and_named_tuple() -> None:
    class Both(NamedTuple):
        odd: Any
        even: Any

    def halves(x: Any) -> Any:
        return x.filter(lambda v: v % 2 == 1), x.filter(lambda v: v % 2 == 0)

    assert pipeline(halves, x=int)([1, 2, 3]) == ([1, 3], [2])
    assert pipeline(lambda x: Both(*halves(x)), x=int)([1, 2, 3]) == {"odd": [1, 3], "even": [2]}
    assert pipeline(lambda x: {"a": x, "b": halves(x)[0]}, x=int)([1, 2]) == {"a": [1, 2], "b": [1]}


def test_a_pipeline_of_two_outputs_inside_another() -> None:
    @pipeline
    def halves(x: Stream[int]) -> tuple[Stream[int], Stream[int]]:
        return x.filter(lambda v: v % 2 == 1), x.filter(lambda v: v % 2 == 0)

    def sums(x: Any) -> Any:
        odd, even = halves(x)
        return apply(lambda a, b: a + b, odd, even)

    assert pipeline(sums, x=int)([1, 2, 3, 4]) == [3, 7]


# ---------------------------------------------------------------- calling one another


def test_called_on_streams_it_becomes_part() -> None:
    p = pipeline(lambda x: total(total(x)), x=int)
    assert p([1, 1, 1]) == [1, 3, 6]
    assert pipeline(lambda x: x.window(2, total), x=int)([1, 2, 3]) == [3, 5]


def test_pipelines_of_one_name_may_call_each_other() -> None:
    def make(inner: Any) -> Pipeline:
        @pipeline
        def step(x: Stream[int]) -> Stream[int]:
            return inner(x) + 1

        return step

    assert make(make(make(lambda x: x)))([0]) == [3]
    q = pipeline(lambda x: x + 1, x=int)
    assert pipeline(lambda x: q(q(x)), x=int)([0]) == [2]


def test_wrong_calls() -> None:
    assert (
        build_error(lambda: pipeline(lambda x: total(x, x), x=int)) == "HERE: pipeline total has 1 source(s), but got 2"
    )
    assert (
        build_error(lambda: pipeline(lambda x: total(x), x=bool))
        == "HERE: pipeline total wants x: Stream[int]: expected int, found bool"
    )
    two = pipeline(lambda a, b: a + b, a=int, b=int)
    assert (
        build_error(lambda: pipeline(lambda x: two(x, [1]), x=int))
        == "HERE: pipeline pipeline: mixes streams and data; 'b' is list"
    )
    assert pipeline(lambda x: two(b=x, a=x * 2), x=int)([1, 2]) == [3, 6]


# ---------------------------------------------------------------- cycles


def test_a_pipeline_that_calls_itself() -> None:
    def make() -> None:
        @pipeline
        def loop(x: Stream[int]) -> Stream[int]:
            return loop(x)  # type: ignore[no-any-return]

    with pytest.raises(
        CycleError, match=r"^pipeline loop calls itself: loop → loop; a pipeline must not have a cycle$"
    ):
        make()


def test_through_another_pipeline() -> None:
    def a(x: Stream[int]) -> Any:
        return call(b, "b", x)

    def b(x: Stream[int]) -> Any:
        return call(a, "a", x)

    with pytest.raises(CycleError, match=r"^pipeline b calls itself: b → a → b; a pipeline must not have a cycle$"):
        pipeline(b, x=int)


def test_a_pipeline_stays_as_it_was_built() -> None:
    """Also inside another one: a closure that changes later does not change it."""
    made = [pipeline(lambda x: x.trim(k), x=int) for k in (1, 2)]  # noqa: B023 - that is the point
    assert [pipeline(lambda x, p=p: p(x), x=int)([1, 2, 3]) for p in made] == [[2, 3], [3]]


def test_a_window_over_itself() -> None:
    def f(x: Any) -> Any:
        return x.window(2, f)

    with pytest.raises(CycleError, match="pipeline f calls itself: f → f; a pipeline must not have a cycle"):
        pipeline(f, x=int)


def node(id: str, *inputs: int) -> Node:
    return Node(id, "map" if inputs else "source", inputs, INT)


def test_a_cycle_in_a_graph_by_hand_is_named() -> None:
    with pytest.raises(CycleError) as caught:
        Graph("loop", (node("x"), node("a", 2), node("b", 1)), (0,), (("out", 2),))
    assert str(caught.value) == "loop: a step depends on its own output: a → b → a; a pipeline must not have a cycle"
    with pytest.raises(CycleError, match="a → a"):
        Graph("loop", (node("x"), node("a", 1)), (0,), ())
    with pytest.raises(
        CycleError, match="step 'a' reads a step that comes after it; list steps in the order of the flow"
    ):
        Graph("order", (node("x"), node("a", 2), node("b", 0)), (0,), ())


def test_graphs_by_hand_are_checked() -> None:
    with pytest.raises(PipelineError, match="two steps are called 'x': give each its own id"):
        Graph("g", (node("x"), node("x", 0)), (0,), ())
    with pytest.raises(PipelineError, match="step 'y': no processor is called 'fold'"):
        Graph("g", (node("x"), Node("y", "fold", (0,), INT)), (0,), ())


def test_graph_text_and_lookup() -> None:
    g = pipeline(lambda x: x.decimate(2, id="d").window(3, total, id="w"), x=int).graph
    assert str(g) == "x: source → int\nd: decimate(x; k=2) → int\nw: window(d; k=3, over total) → int\nout = w"
    assert g["d"].k == 2 and g.readers(0) == [(1, 0)] and g.queues() == []
    assert [fn.name for _, fn in g.functions()] == ["a lambda"] and g.opaque() == []


def test_type_mismatch_is_a_pipeline_error() -> None:
    assert issubclass(TypeMismatch, PipelineError) and issubclass(CycleError, PipelineError)


# ---------------------------------------------------------------- runs with epochs


def test_run_epochs_to_a_table_and_what_it_refuses(tmp_path: Path) -> None:
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    source, state = tmp_path / "x.csv", tmp_path / "state"
    source.write_text("x\n" + "".join(f"{i}\n" for i in range(10)))
    report = total.run_epochs(source, f"sqlite:{tmp_path / 't.db'}#totals", state=state, pushes=4)
    assert (report.epochs, report.rows) == (3, {"out": 10})
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        assert connection.execute("SELECT count(*), max(out) FROM totals").fetchone() == (10, 45)
    with pytest.raises(UsageError, match="has no output 'totals': its outputs are out"):
        total.run_epochs(source, {"totals": tmp_path / "o.csv"}, state=tmp_path / "other", pushes=4)
    with pytest.raises(UsageError, match="run_epochs has no option 'worker': it has pushes, every, key"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other", pushes=4, worker=2)
    with pytest.raises(UsageError, match="when does an epoch end"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other")
    with pytest.warns(DeprecationWarning, match="run_epochs: epochs= is called pushes= now"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "old", epochs=4)
    with pytest.raises(UsageError, match="run_epochs: epochs= is called pushes= now, and both are given"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other", epochs=4, pushes=4)
    with pytest.raises(UsageError, match=r"^when does an epoch end\? Give pushes=N, or every=SECONDS$"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other")
    with pytest.raises(UsageError, match="pushes='4': expected a whole number, at least 1"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other", pushes="4")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"every=True: expected a number, at least 0\.001"):
        total.run_epochs(source, tmp_path / "o.csv", state=tmp_path / "other", every=True)
    assert not (tmp_path / "other").exists()


def test_a_source_and_an_opaque_function_say_what_annotated_says():
    def half(v: Money) -> Money:
        return v / 2

    @pipeline
    def halves(x: Stream[Money]) -> Stream[Money]:
        return x.map(half)

    @pipeline
    def local(x: Stream[Instant | None]) -> Stream[Instant | None]:
        def midnight(at: Instant | None) -> Instant | None:
            return at and at.astimezone(ZoneInfo("Europe/Berlin")).replace(hour=0)

        return x.map(midnight)

    assert halves([Decimal("1.5")]) == [Decimal("0.75")]
    assert local([datetime(2013, 6, 1, 23, tzinfo=UTC), None]) == [datetime(2013, 6, 1, 22, tzinfo=UTC), None]
