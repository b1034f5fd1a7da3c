"""What each processor accepts, and what it says when it does not."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pellucid import (
    Pipeline,
    PipelineError,
    Scale,
    StateError,
    Stream,
    TypeMismatch,
    UsageError,
    apply,
    check,
    merge,
    pipeline,
)
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import BOOL, FLOAT, INT, TupleType
from pellucid.internal.graph.model import Graph
from tests.keyed_shapes import EVENTS, SHAPES, add, made, pairs, parity, running, third


class Trade(NamedTuple):
    price: float
    size: int


class Light(enum.Enum):
    RED = 1
    GREEN = 2


def message(build: Callable[..., Any], **types: Any) -> str:
    with pytest.raises(PipelineError) as caught:
        pipeline(build, **types)
    return re.sub(r"test_processors\.py:\d+", "HERE", str(caught.value))


TYPE_OF_RESULT = [
    (lambda x: x.map(lambda v: v > 3), BOOL),
    (lambda x: x.map(lambda v: v / 2), FLOAT),
    (lambda x: x.map(lambda v: (v, v * 0.5)), TupleType((INT, FLOAT))),
    (lambda x: x.filter(lambda v: v % 2), INT),
    (lambda x: x.filter(x > 2), INT),
    (lambda x: x.cumulate(lambda t, v: t + v * 0.5, start=0), FLOAT),  # the start value grows into the type
    (lambda x: x.cumulate(lambda t, v: v, start=0.5), FLOAT),
    (
        lambda x: x.cumulate(lambda t, v: (t[0] + v * 0.5, t[0] + t[1], t[1] + t[2]), start=(0, 0, 0)),
        TupleType((FLOAT,) * 3),
    ),
    (lambda x: x.decimate(2), INT),
    (lambda x: x.trim(0), INT),
    (lambda x: x.lag(2), TupleType((INT, INT))),
    (lambda x: x.window(3, lambda w: w > 1), BOOL),
    (lambda x: x.task(lambda s, v: (s + v, [s > v]), initial=0), BOOL),
    (lambda x: x.task(lambda s, v: (s + 0.5, [s, v]), initial=0), FLOAT),
    (lambda x: apply(lambda a, b: a < b, x, x), BOOL),
    (lambda x: merge(x, x.trim(1)), INT),
    (lambda x: x.key_by(lambda v: v % 2), INT),
]


@pytest.mark.parametrize(("build", "t"), TYPE_OF_RESULT)
def test_types_follow(build: Callable[..., Any], t: Any) -> None:
    p = pipeline(build, x=int)
    assert p.graph.nodes[p.graph.outputs[0][1]].type == t


WRONG: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x: x.filter(x, id="f"),
        "step 'f' (filter, HERE) wants a stream of bool to filter by: expected bool, found int",
    ),
    (
        lambda x: x.cumulate(lambda t, v: "a", start=0),
        "cumulate (HERE) wants its function to return what it accumulates: expected int, found str",
    ),
    (
        lambda x: x.cumulate(lambda t, v: t, start=[]),
        "cumulate (HERE): the start value [] is a list, which cannot be an event; use a scalar, an enum, a record or a "
        "tuple of those, "
        "or a task, whose state may be anything",
    ),
    (
        lambda x: x.task(lambda s, v: ("a", [v]), initial=0),
        "task (HERE) wants its function to return a state like the initial one: expected int, found str",
    ),
    (
        lambda x: x.task(lambda s, v: (s, []), initial=0),
        "task (HERE): its function never emits an event, so the stream has no type: pass to=…",
    ),
    (lambda x: merge(x, x > 1), "merge (HERE) wants all its inputs to carry the same type: expected int, found bool"),
    (lambda x: merge(), "merge (HERE) needs at least one stream"),
    (lambda x: apply(lambda: 1), "apply (HERE) needs at least one stream"),
    (lambda x: apply(lambda a, b: a, x, 3), "apply (HERE) wants streams, found int 3"),
    (lambda x: x.decimate(0), "decimate (HERE): k must be at least 1, found 0"),
    (lambda x: x.decimate(True), "decimate (HERE): k must be an int, found bool True"),
    (lambda x: x.trim(-1), "trim (HERE): k must be at least 0, found -1"),
    (lambda x: x.trim("2"), "trim (HERE): k must be an int, found str '2'"),
    (lambda x: x.lag(0), "lag (HERE): k must be at least 1, found 0"),
    (lambda x: x.lag(1.5, id="l"), "step 'l' (lag, HERE): k must be an int, found float 1.5"),
    (lambda x: x.window(0, lambda w: w), "window (HERE): k must be at least 1, found 0"),
    (lambda x: x.window(2, 3), "window (HERE): the sub-pipeline must be a pipeline or a function of a stream, found 3"),
    (
        lambda x: x.window(2, lambda w: (w, w)),
        "window (HERE): the sub-pipeline must return one stream, found (<Stream[int] of in>, <Stream[int] of in>)",
    ),
    (
        lambda x: x.window(2, lambda w: w + x, id="w"),
        "step 'w' (window, HERE) uses the stream 'x' of another pipeline; inside a sub-pipeline only its own input can "
        "be used",
    ),
    (lambda x: x.map(3), "map (HERE): expected a function, found int 3"),
    (
        lambda x: x.map(lambda a, b: a),
        "map (HERE): the function <lambda> gets 1 argument here, but: missing a required argument: 'b'",
    ),
    (
        lambda x: x.map(lambda v: v * 0.5, to=int),
        "map (HERE): this lambda returns float, not int: expected int, found float",
    ),
    (
        lambda x: x.map(lambda v: v, to=list),
        "map (HERE): a list needs the type of what it holds: write list[int]",
    ),
    (
        lambda x: x.map(lambda v: [v]),
        "map (HERE): this lambda returns a list, which is no event: expected a bool, an int, a float, a str, an enum's "
        "member, a record or a tuple "
        "of those; explode emits the elements of a list; one that is an event itself needs to=list[…]",
    ),
    (lambda x: x.key_by(lambda v: v * 0.5), "key_by (HERE): a key must not contain a float, found float"),
    (
        lambda x: apply(lambda a, b: a, x, x.key_by(lambda v: v)),
        "apply (HERE) joins streams that are keyed differently: one by no key, another by int; use key_by on all of "
        "them with keys of one type",
    ),
    (
        lambda x: merge(x.key_by(lambda v: v > 0), x.key_by(lambda v: v), id="m"),
        "step 'm' (merge, HERE) joins streams that are keyed differently: one by bool, another by int; use key_by on "
        "all of them with keys of one type",
    ),
    (lambda x: x.map(lambda v: v, id="a b"), "map (HERE): an id is letters, digits, '-' and '_', found 'a b'"),
    (lambda x: x.map(lambda v: v, id="3a"), "map (HERE): an id is letters, digits, '-' and '_', found '3a'"),
    (lambda x: x.map(lambda v: v, id=""), "map (HERE): an id is letters, digits, '-' and '_', found ''"),
    (
        lambda x: x if x else x.trim(1),
        "HERE: a stream is not true or false: use x.filter(…) to choose events, and & | ~ on Boolean streams",
    ),
    (lambda x: list(x), "HERE: a stream cannot be looped over while the pipeline is built: use its processors"),
    (lambda x: x + None, "cannot use '+' between a stream of int and None"),
    (lambda x: 3, "pipeline pipeline must return a stream (or a tuple or dict of streams), found 3"),
    (lambda x: (x, 3), "pipeline pipeline: its output 'out2' is no stream but int 3"),
    (
        lambda x: x.map(lambda v: nope(v)),  # type: ignore[name-defined]  # noqa: F821
        "map (HERE): this lambda fails on every event that was tried, such as 1: "
        "NameError: name 'nope' "
        "is not defined (HERE). Correct it; if it works on other events, the type of its result must be given: "
        "annotate "
        "it (-> float) or pass to=…",
    ),
]


@pytest.mark.parametrize(("build", "text"), WRONG, ids=range(len(WRONG)))
def test_messages(build: Callable[..., Any], text: str) -> None:
    assert message(build, x=int) == text


def test_fields_and_attributes() -> None:
    p = pipeline(lambda t: t.price * t.size, t=Trade)
    assert p([Trade(1.5, 2)]) == [3.0]
    with pytest.raises(
        AttributeError,
        match=r"a stream of Trade\(price: float, size: int\) has no processor or field 'weight'; its events have "
        r"price, size",
    ):
        pipeline(lambda t: t.weight, t=Trade)
    with pytest.raises(AttributeError, match="it is a function, from pellucid import apply, as in apply"):
        pipeline(lambda x: x.apply(x, lambda a, b: a + b), x=int)
    with pytest.raises(AttributeError, match="a stream of int has no processor or field 'mapp'"):
        pipeline(lambda x: x.mapp(abs), x=int)


SUGAR: list[tuple[Callable[..., Any], list[Any]]] = [
    (lambda x: x + 1, [2, 0, 8]),
    (lambda x: 1 + x, [2, 0, 8]),
    (lambda x: x - 1, [0, -2, 6]),
    (lambda x: 1 - x, [0, 2, -6]),
    (lambda x: x * 2, [2, -2, 14]),
    (lambda x: 2 * x, [2, -2, 14]),
    (lambda x: x / 2, [0.5, -0.5, 3.5]),
    (lambda x: 7 / x, [7.0, -7.0, 1.0]),
    (lambda x: x // 2, [0, -1, 3]),
    (lambda x: 9 // x, [9, -9, 1]),
    (lambda x: x % 2, [1, 1, 1]),
    (lambda x: 9 % x, [0, 0, 2]),
    (lambda x: x & 6, [0, 6, 6]),
    (lambda x: 6 | x, [7, -1, 7]),
    (lambda x: x ^ 1, [0, -2, 6]),
    (lambda x: -x, [-1, 1, -7]),
    (lambda x: abs(x), [1, 1, 7]),
    (lambda x: ~x, [-2, 0, -8]),
    (lambda x: x < 1, [False, True, False]),
    (lambda x: x <= 1, [True, True, False]),
    (lambda x: x > 1, [False, False, True]),
    (lambda x: 1 >= x, [True, True, False]),
    (lambda x: x == 7, [False, False, True]),
    (lambda x: x != 7, [True, True, False]),
    (lambda x: ~(x > 1) & (x > -1), [True, False, False]),
    (lambda x: x + x * x, [2, 0, 56]),
]


@pytest.mark.parametrize(("build", "want"), SUGAR, ids=range(len(SUGAR)))
def test_operators(build: Callable[..., Any], want: list[Any]) -> None:
    assert repr(pipeline(build, x=int)([1, -1, 7])) == repr(want)


def test_enums_and_text() -> None:
    assert pipeline(lambda x: x == Light.RED, x=Light)([Light.RED, Light.GREEN]) == [True, False]
    assert pipeline(lambda x: x == "a", x=str)(["a", "b"]) == [True, False]


def test_opaque_functions_with_a_type() -> None:
    assert pipeline(lambda x: x.map(lambda v: math.log(v), to=float), x=float)([1.0]) == [0.0]
    assert pipeline(lambda x: x.task(lambda seen, v: (seen | {v}, [len(seen)]), initial=frozenset(), to=int), x=int)(
        [3, 3, 4]
    ) == [0, 1, 1]


def test_a_source_may_be_an_output() -> None:
    p = pipeline(lambda x: {"same": x, "next": x.trim(1)}, x=int)
    assert p([1, 2]) == {"same": [1, 2], "next": [2]}


def test_streams_have_a_text() -> None:
    seen: list[str] = []

    def build(x: Stream[int]) -> Stream[int]:
        seen.extend([repr(x), repr(x.map(abs)), repr(x.map(abs, id="size"))])
        return x

    pipeline(build)
    assert seen == ["<Stream[int] of x>", "<Stream[int] of map>", "<Stream[int] of size>"]


def test_type_errors_name_both_types() -> None:
    with pytest.raises(TypeMismatch, match="expected int, found bool"):
        pipeline(lambda x: merge(x, x > 1), x=int)


# ``x.lag(k)``: each event beside the one k events before it, in every engine and in the checks.

MODES = ["python", "numba"]


class Reading(NamedTuple):
    sensor: str
    value: float
    good: bool


def by_hand(s: tuple[int, int, int], v: int) -> tuple[tuple[int, int, int], list[tuple[int, int]]]:
    first, second, seen = s
    return (second, v, min(seen + 1, 2)), [(v, first)] if seen == 2 else []


@pytest.mark.parametrize("mode", MODES)
def test_every_type_of_event(mode: str) -> None:
    p = pipeline(lambda x: x.lag(1), x=Reading)
    events = [Reading("a", 0.5, True), Reading("b", -0.0, False), Reading("é", 2.0, True)]
    got = Engine(p.graph, mode=mode).push(x=events)
    assert got == [(events[1], events[0]), (events[2], events[1])] == p(events)
    assert repr(got[0][0].value) == "-0.0"


@pytest.mark.parametrize("key", [None, INT])
def test_a_saved_state_goes_on_and_is_carried_over(key: Any) -> None:
    p = pipeline(lambda x: x.lag(3, id="back"), x=int)
    more = pipeline(lambda x: (x.lag(3, id="back"), x.trim(1, id="rest")), x=int)
    whole, first, second, changed = (Engine(q.graph, key=key, mode="python") for q in (p, p, p, more))
    events, keys = list(range(10, 22)), [i % 2 for i in range(12)]

    def push(engine: Engine, a: int, b: int) -> Any:
        return engine.push(x=events[a:b], **({"key": keys[a:b]} if key is not None else {}))

    head, tail = push(whole, 0, 8), push(whole, 8, 12)
    assert push(first, 0, 8) == head
    saved = first.save()
    second.load(saved)
    changed.carry(saved)
    assert push(second, 8, 12) == tail
    assert push(changed, 8, 12)["out1"] == tail


def test_another_k_is_another_memory() -> None:
    old, new = (pipeline(lambda x, k=k: x.lag(k, id="back"), x=int).engine(mode="python") for k in (2, 3))
    with pytest.raises(StateError, match=r"'back' \(lag\) has changed: ring0 was"):
        new.carry(old.save())
    trimmed = pipeline(lambda x: x.trim(2, id="back"), x=int).engine(mode="python")
    with pytest.raises(StateError, match=r"'back' \(lag\) is a trim now"):
        trimmed.carry(old.save())


# ---------------------------------------------------------------- the checks


@pytest.mark.parametrize("how", [{"ints": range(2)}, {"engine": "smt"}])
def test_it_is_the_task_that_one_would_write(how: dict[str, Any]) -> None:
    lag = pipeline(lambda x: x.lag(2).map(lambda p: p[0] - p[1]), x=int)
    task = pipeline(lambda x: x.task(by_hand, (0, 0, 0)).map(lambda p: p[0] - p[1]), x=int)
    assert check.equivalent(lag, task, **how).proved
    late = pipeline(lambda x: x.lag(1).map(lambda p: p[0] - p[1]).trim(1), x=int)
    verdict = check.equivalent(lag, late, **how)
    assert verdict.refuted and verdict.counterexample is not None


# A key belongs to the stream: a pipeline that is called on a keyed stream means what its steps, written there, would
# mean.


def meaning(p: Pipeline, keys: list[int] | None = None) -> dict[str, list[tuple[int, Any]]]:
    """The literal interpreter's events with their pushes; one interpreter for each key that comes with the data."""
    runs: dict[int, Interpreter] = {}
    out: dict[str, list[tuple[int, Any]]] = {name: [] for name, _ in p.graph.outputs}
    for i, v in enumerate(EVENTS):
        run = runs.setdefault(keys[i] if keys else 0, Interpreter(p.graph))
        for name, events in run.push(x=v).items():
            out[name] += [(i, e) for e in events]
    return out


def engine_says(p: Pipeline, mode: str, chunk: int, keys: list[int] | None = None) -> dict[str, list[tuple[int, Any]]]:
    """The engine's, in chunks; every chunk by an engine that loads what the one before it saved."""
    out: dict[str, list[tuple[int, Any]]] = {name: [] for name, _ in p.graph.outputs}
    saved = None
    for start in range(0, len(EVENTS), chunk):
        engine = Engine(p.graph, key=INT if keys else None, mode=mode)
        if saved is not None:
            engine.load(saved)
        part = EVENTS[start : start + chunk]
        batch = Batch(len(part), [[part]], [None], [[keys[start : start + chunk]]] if keys else None)
        for o in engine.push_batch(batch, positions=True):
            out[o.name] += zip([int(at) for at in o.positions], o.events(), strict=True)
        saved = engine.save()
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_means_what_is_written_out(shape: str) -> None:
    nested, written = made(shape)
    expected = meaning(written)
    assert meaning(nested) == expected
    assert [n.key for n in nested.graph.nodes] == [n.key for n in written.graph.nodes] or shape == "two outputs"
    for chunk in (1, 7, len(EVENTS)):
        assert engine_says(nested, "python", chunk) == expected
        assert engine_says(written, "python", chunk) == expected
    assert engine_says(nested, "auto", len(EVENTS)) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_that_comes_with_the_data_runs_each_shape_once_per_key(shape: str) -> None:
    nested, _ = made(shape)
    keys = [v % 5 // 2 for v in range(len(EVENTS))]
    for chunk in (3, len(EVENTS)):
        assert engine_says(nested, "python", chunk, keys) == meaning(nested, keys)


@pytest.mark.long
@pytest.mark.parametrize("shape", ["a key of another type inside", "a key before two levels", "queues for each key"])
def test_compiled_as_well(shape: str) -> None:
    nested, _ = made(shape)
    keys = [v % 3 for v in range(len(EVENTS))]
    assert engine_says(nested, "numba", 9) == meaning(nested)
    assert engine_says(nested, "numba", 9, keys) == meaning(nested, keys)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "two outputs"])  # its key_by is one step there, two here
def test_the_same_graph(shape: str) -> None:
    nested, written = made(shape)
    assert nested.graph.digest == written.graph.digest
    assert [n.id for n in nested.graph.nodes] == [n.id for n in written.graph.nodes]


def test_what_differs_by_its_key_alone_is_not_the_same_graph() -> None:
    plain = pipeline(lambda x: running(x), x=int)
    keyed = pipeline(lambda x: running(x.key_by(parity)), x=int)
    other = pipeline(lambda x: running(x.key_by(third)), x=int)
    again = pipeline(lambda x: running(x.key_by(third).key_by(parity)), x=int)
    assert len({p.graph.digest for p in (plain, keyed, other, again)}) == 4
    assert check.equivalent(keyed, pipeline(lambda x: x.key_by(parity).cumulate(add, start=0), x=int)).proved
    assert check.equivalent(keyed, again).proved  # the second key_by replaces the first
    for p in (plain, other):
        assert check.equivalent(keyed, p).refuted


def test_the_type_of_an_opaque_key_is_part_of_the_graph() -> None:
    kinds = {1: 1}
    as_int, as_bool = (pipeline(lambda x, t=t: x.key_by(lambda v: kinds[v], to=t).trim(1), x=int) for t in (int, bool))
    assert as_int.graph.digest != as_bool.graph.digest


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "two outputs"])
def test_no_export_takes_a_keyed_step_for_another(shape: str) -> None:
    """Also where the key_by is inside a window."""
    from pellucid.internal.export.smv import refuse_what_smv_cannot

    for p in made(shape):
        with pytest.raises(UsageError, match="cannot be exported"):
            refuse_what_smv_cannot(p.graph)


def test_streams_that_are_keyed_differently_do_not_meet_inside_either() -> None:
    said = (
        r"test_processors.py:\d+: pipeline pairs: apply \(keyed_shapes.py:\d+\) joins streams that are keyed "
        r"differently: one by int, another by no key"
    )
    with pytest.raises(PipelineError, match=said):
        pipeline(lambda x: pairs(x.key_by(parity), x), x=int)
    with pytest.raises(PipelineError, match="one by int, another by bool"):
        pipeline(lambda x: pairs(x.key_by(parity), x.key_by(lambda v: v > 2)), x=int)
    named = pipeline(lambda x, y: merge(x, y, id="all"), x=int, y=int)
    with pytest.raises(PipelineError, match=r"pipeline pipeline: step 'pipeline/all' \(merge, .*keyed differently"):
        pipeline(lambda x: named(x, x.key_by(parity)), x=int)
    with pytest.raises(PipelineError, match="one by no key, another by int"):
        pipeline(lambda x: apply(lambda a, b: a + b, x, running(x.key_by(parity))), x=int)


def test_a_graph_whose_keys_are_not_what_its_steps_make_is_refused() -> None:
    graph = pipeline(lambda x: x.key_by(parity).cumulate(add, start=0, id="total"), x=int).graph
    *before, total = graph.nodes
    with pytest.raises(
        PipelineError, match=r"'total' .* is declared to be keyed by no key, but what it reads makes that int"
    ):
        Graph(graph.name, (*before, replace(total, key=None)), graph.sources, graph.outputs)
    with pytest.raises(PipelineError, match="is declared to be keyed by int, but what it reads makes that no key"):
        Graph(graph.name, (graph.nodes[0], replace(total, inputs=(0,))), graph.sources, (("out", 1),))


def test_a_recursive_use_keeps_each_key_apart() -> None:
    """The same pipeline several times over streams of different keys: each copy has its own."""

    @pipeline
    def many(x: Stream[int]) -> tuple[Stream[int], Stream[int], Stream[int]]:
        return running(x), running(x.key_by(parity)), running(running(x.key_by(lambda v: v > 4)))

    assert [str(many.graph.nodes[i].key) for _, i in many.graph.outputs] == ["None", "int", "bool"]
    plain, odd, big = many([1, 5, 2, 6])
    assert (plain, odd, big) == ([1, 6, 8, 14], [1, 6, 2, 8], [1, 5, 4, 16])


# ``T`` where ``T | None`` is declared: outputs, merges, arguments of pipelines; and what stays refused.


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
