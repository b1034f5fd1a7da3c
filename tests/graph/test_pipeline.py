"""Pipelines: their sources and outputs, calling one another, and no cycles."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from pellucid import (
    CycleError,
    Pipeline,
    PipelineError,
    Scale,
    Stream,
    TypeMismatch,
    UsageError,
    apply,
    check,
    join,
    merge,
    pipeline,
)
from pellucid.internal.engine.interpreter import Interpreter
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
    with pytest.raises(UsageError, match=r"run_epochs has no option 'worker': it has .*; did you mean 'workers'"):
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
    with pytest.raises(UsageError, match=r"every=True: expected a number of seconds, at least 0\.001"):
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


# Step ids: given or derived, unique, and kept when unrelated parts change.

odd = lambda v: v % 2 == 1
add = lambda t, v: t + v


def ids(build: Callable[..., Any], **types: Any) -> list[str]:
    return [node.id for node in pipeline(build, **(types or {"x": int})).graph.nodes]


def sum_of_odds(x: Any) -> Any:
    return x.filter(odd).cumulate(add, start=0)


MINE = ids(sum_of_odds)


def test_derived_ids_say_the_kind() -> None:
    assert [i.split("-")[0] for i in MINE] == ["x", "filter", "cumulate"]
    assert len(set(MINE)) == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda x: (sum_of_odds(x), x.trim(1)),  # a branch after
        lambda x: (x.trim(1), sum_of_odds(x)),  # … and before
        lambda x: (x.filter(odd).map(abs), sum_of_odds(x)),  # one that begins in the same way
        lambda x: (x.filter(odd).cumulate(add, start=5), sum_of_odds(x)),
        lambda x: sum_of_odds(x).trim(1),  # a step behind it
        lambda x: merge(x.window(2, lambda w: sum_of_odds(w)), sum_of_odds(x)),
    ],
)
def test_unrelated_parts_leave_them_alone(build: Callable[..., Any]) -> None:
    assert set(MINE) <= set(ids(build))


def test_renamed_variables_and_equal_code_leave_them_alone() -> None:
    def other(stream: Any) -> Any:
        kept = stream.filter(lambda number: number % 2 == 1)
        return kept.cumulate(lambda so_far, number: so_far + number, start=0)

    assert ids(other, stream=int)[1:] != MINE[1:]  # another source is another stream
    assert ids(lambda x: other(x)) == MINE


def test_twins_get_numbers_and_their_readers_do_not_move() -> None:
    a = lambda x: x.filter(odd).cumulate(add, start=1)
    b = lambda x: x.filter(odd).cumulate(add, start=2)
    one, two = ids(lambda x: (a(x), b(x))), ids(lambda x: (b(x), a(x)))
    assert len(set(one)) == len(one) == 5
    assert set(one) == set(two)
    assert sorted(i for i in one if i.startswith("filter"))[1].endswith("-2")


def test_its_own_meaning_changes_an_id() -> None:
    assert ids(lambda x: x.filter(odd).cumulate(add, start=1))[2] != MINE[2]
    assert ids(lambda x: x.filter(lambda v: v % 2 == 0).cumulate(add, start=0))[2] != MINE[2]  # its input changed
    assert ids(lambda x: x.trim(1)) != ids(lambda x: x.trim(2))


def test_given_ids() -> None:
    assert ids(lambda x: x.filter(odd, id="odds").cumulate(add, start=0, id="sum")) == ["x", "odds", "sum"]
    # A given id cuts the dependence: what reads it keeps its id when the step itself changes.
    before = ids(lambda x: x.map(abs, id="clean").trim(1))
    assert before == ids(lambda x: x.map(lambda v: v * 2, id="clean").trim(1))


def test_two_steps_of_one_id_are_refused() -> None:
    said = r"two steps are called 'a': give each its own id \(test_pipeline\.py:\d+\)"
    with pytest.raises(PipelineError, match=said):
        pipeline(lambda x: x.map(abs, id="a").trim(1, id="a"), x=int)
    with pytest.raises(PipelineError, match="two steps are called 'x'"):
        pipeline(lambda x: x.map(abs, id="x"), x=int)


def test_ids_of_called_pipelines_have_its_name_in_front() -> None:
    @pipeline
    def inner(x: Stream[int]) -> Stream[int]:
        return x.cumulate(add, start=0, id="sum")

    @pipeline
    def middle(x: Stream[int]) -> Stream[int]:
        return inner(x).trim(1, id="tail")  # type: ignore[no-any-return]

    assert ids(lambda x: inner(x)) == ["x", "inner/sum"]
    assert ids(lambda x: middle(x)) == ["x", "middle/inner/sum", "middle/tail"]
    assert [n.id for n in inner.graph.nodes] == ["x", "sum"]
    twice = ids(lambda x: inner(x).map(abs, id="m") + inner(x * 2))
    assert len(set(twice)) == len(twice) and "inner/sum" in twice
    assert sum(i.startswith("inner/sum") for i in twice) == 2


def test_windows_keep_ids_of_their_own() -> None:
    p = pipeline(lambda x: x.window(2, lambda w: w.map(abs, id="m"), id="w").map(abs, id="m"), x=int)
    sub = p.graph["w"].sub
    assert sub is not None and [n.id for n in sub.nodes] == ["in", "m"]


def test_digest_of_a_graph() -> None:
    assert pipeline(sum_of_odds, x=int).graph.digest == pipeline(sum_of_odds, x=int).graph.digest
    assert pipeline(sum_of_odds, x=int).graph.digest != pipeline(lambda x: x.trim(1), x=int).graph.digest


SCRIPT = """
from pellucid import pipeline
class State:
    pass
def note(state, v):
    return state, [v]
p = pipeline(lambda x: (x.map(lambda v: str(v) in {"1", "2", "3"}, to=bool), x.task(note, initial=State(), to=int),
                        x.task(lambda s, v: (s, [v]), initial={"a", "b", "c"}, to=int),
                        x.filter(lambda v: v > 2)), x=int)
print([n.id for n in p.graph.nodes], p.graph.digest)
"""


def test_every_process_derives_the_same_ids() -> None:
    def run(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert run("1") == run("2") != ""


# Steps that are called wrongly: what to write is said, and no plain TypeError comes out; one's own stay one's own.

H = timedelta(hours=1)


class Paid(NamedTuple):
    when: datetime
    user: str
    cents: int


def count(w: Any) -> Any:
    return w.cumulate(lambda n, e: n + 1, start=0)


def _own(a: int) -> int:
    return a


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lateness on a window": (
        lambda x: x.at("when").tumbling(H, count, lateness=H),
        "tumbling (HERE): there is no lateness= here: write tumbling(size, sub), with origin=, tz=, late=, "
        "allowed_lateness=, early=, id=; how late events may come is given where their times are, as in x.at('when', "
        "lateness=…)",
    ),
    "no sub": (
        lambda x: x.at("when").tumbling(H),
        "tumbling (HERE): sub is missing: write tumbling(size, sub), as in x.tumbling(timedelta(hours=1), total) with "
        "a pipeline total",
    ),
    "two missing": (
        lambda x: x.at("when").sliding(H),
        "sliding (HERE): every and sub are missing: write sliding(size, every, sub), as in ",
    ),
    "by keyword only": (
        lambda x: x.at("when").dedup(by="user"),
        "dedup (HERE): within is missing: write dedup(within=…), as in x.dedup(by='order', within=timedelta(days=1))",
    ),
    "too many": (
        lambda x: x.at("when", H),
        "at (HERE): takes 2 positional arguments but 3 were given: write at(f), as in x.at('when', "
        "lateness=timedelta(minutes=5)); the others by their names: lateness=, idle=, to=, id=",
    ),
    "misspelled": (
        lambda x: x.at("when").tumbling(H, count, allowed_latenes=H),
        "tumbling (HERE): there is no allowed_latenes= here: write tumbling(size, sub), with origin=, tz=, late=, "
        "allowed_lateness=, early=, id=; did you mean 'allowed_lateness'?",
    ),
    "in a sub-pipeline": (
        lambda x: x.at("when").tumbling(H, lambda w: w.cumulate()),
        "cumulate (HERE): f and start are missing: write cumulate(f, start), as in ",
    ),
    "a function": (
        lambda x: join(x.at("when")),  # type: ignore[call-arg]
        "join (HERE): b is missing: write join(a, b)",
    ),
}


@pytest.mark.parametrize("which", list(WRONG))
def test_what_to_write(which: str) -> None:
    f, message = WRONG[which]
    with pytest.raises(UsageError) as refused:
        pipeline(f, x=Paid)
    assert re.sub(r"test_pipeline\.py:\d+", "HERE", str(refused.value)).startswith(message), str(refused.value)
    assert refused.value.__cause__ is None


def test_ones_own_mistakes_are_ones_own() -> None:
    with pytest.raises(TypeError, match=r"_own\(\) missing 1 required positional argument"):
        pipeline(lambda x: x.map(lambda e: e.cents) if _own() else x, x=Paid)  # type: ignore[call-arg]

    def at(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match="unexpected keyword argument 'lateness'"):
        pipeline(lambda x: at(x, lateness=H), x=Paid)  # type: ignore[call-arg]


def test_lengths_are_said_as_lengths() -> None:
    second = timedelta(seconds=1)
    for f, message in (
        (lambda x: x.at("when", lateness=-second), "lateness must be at least 0, found -1 s"),
        (lambda x: x.at("when").tumbling(-90 * second, count), "size must be positive, found -1 min 30 s"),
        (lambda x: x.at("when").session(0 * second, count), "gap must be positive, found 0 s"),
        (
            lambda x: join(x.at("when"), x.at("when"), within=(second, -second)),
            "within=(low, high): low must be at most high, found (1 s, -1 s)",
        ),
    ):
        with pytest.raises(PipelineError) as refused:
            pipeline(f, x=Paid)
        assert str(refused.value).endswith(message)


def test_keys_by_name() -> None:
    rows = ((1, "a", 3), (2, "b", 3), (3, "a", 4), (4, "a", 3))
    paid = [Paid(datetime(2024, 5, day), user, cents) for day, user, cents in rows]

    def by(key: Any) -> Any:
        return pipeline(lambda x: count(x.key_by(key)), x=Paid)(paid)

    assert by("user") == by(lambda e: e.user) == [1, 1, 2, 3]
    assert by(["user", "cents"]) == by(lambda e: (e.user, e.cents)) == [1, 1, 1, 2]
    assert by(["user"]) == by("user")
    for key, message in (
        ("usr", "have no field 'usr': its events have when, user, cents; did you mean 'user'?"),
        (["user", 3], "the events of this stream have no field 3: its events have when, user, cents"),
        ([], "no field is named: name one, or give a function"),
    ):
        with pytest.raises(PipelineError) as refused:
            by(key)
        assert str(refused.value).endswith(message)
    with pytest.raises(PipelineError, match="no field 'user': its events are int"):
        pipeline(lambda x: x.key_by("user"), x=int)


def test_keys_by_name_in_checks() -> None:
    from pellucid import check

    class Small(NamedTuple):
        user: bool
        cents: bool

    named = pipeline(lambda x: x.key_by("user").trim(1), x=Small)
    other = pipeline(lambda x: x.key_by(lambda e: e.cents).trim(1), x=Small)
    assert check.equivalent(named, other).refuted


# Steps that put out None and nothing else: they have the type that is declared, or are refused; no event is lost.


def gaps(s: int, e: int) -> tuple[int, list[int | None]]:
    if s < 1:
        return e, [None]
    return 0, []


def still(s: int | None, e: int) -> tuple[int | None, list[int]]:
    return e, [s]  # type: ignore[list-item]


def twice(e: int) -> list[int | None]:
    return [None, None]


def nothing(e: int) -> int | None:
    return None


DECLARED = {
    "task": lambda x: x.task(gaps, initial=0),
    "task to": lambda x: x.task(lambda s, e: (s, [None]), initial=0, to=str | None),
    "explode": lambda x: x.explode(twice),
    "map": lambda x: x.map(nothing),
    "cumulate": lambda x: x.cumulate(lambda s, e: None, start=None, to=int | None),
    "tuple": lambda x: x.map(lambda e: (None, None), to=tuple[int | None, int | None]),
    "state": lambda x: x.task(lambda s, e: (e, [s]), initial=None),  # None at first
    "annotated otherwise": lambda x: x.task(still, initial=None),
    "behind": lambda x: x.task(gaps, initial=0).trim(1).map(lambda e: (e, e is None)),
}


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_is_its_type_and_no_event_is_lost(name: str) -> None:
    p = pipeline(DECLARED[name], x=int)
    events, run = [1, 2, 0, 3], Interpreter(p.graph)
    told = [run.push(x=e)["out"] for e in events]
    assert p.trace(events) == told
    assert p(events) == [e for push in told for e in push] != []


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: x.task(lambda s, e: (s, [None]), initial=0), "emits None and nothing else, which is no event"),
        (
            lambda x: x.explode(lambda e: [None, None]),
            r"say what else it may be, by an annotation of its function or as in to=int \| None",
        ),
        (lambda x: x.cumulate(lambda s, e: None, start=None), "puts out None and nothing else.*to=int | None"),
        (lambda x: x.map(lambda e: (None, None)), r"emits \(None, None\) and nothing else"),
        (lambda x: x.task(lambda s, e: (s, [None]), initial=0, to=str), "expected str, found None"),
    ],
)
def test_without_a_declaration_it_is_refused(build, words) -> None:
    with pytest.raises(TypeMismatch, match=words):
        pipeline(build, x=int)


def test_a_key_that_is_always_none_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"every event has the same key, \(None, None\): leave key_by out"):
        pipeline(lambda x: x.key_by(lambda e: (None, None)).cumulate(lambda n, e: n + 1, start=0), x=int)


def test_two_tasks_that_put_out_none_are_compared() -> None:
    def later(s: int, e: int) -> tuple[int, list[int | None]]:
        return (e, [None]) if s < 2 else (0, [])

    p, q = (pipeline(lambda x, f=f: x.task(f, initial=0), x=int) for f in (gaps, later))
    verdict = check.equivalent(p, q, ints=range(2))
    assert verdict.refuted and verdict.counterexample is not None
    assert verdict.counterexample.inputs == [{"x": 1}, {"x": 0}]
