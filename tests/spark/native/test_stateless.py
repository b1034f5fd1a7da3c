"""Pipelines that remember nothing: Spark's own expressions against the interpreter, failures included."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, Stream, apply, merge, pipeline
from pellucid.errors import PellucidError
from pellucid.internal.data.bind import bind
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type
from pellucid.spark.native.column import NotNative
from pellucid.spark.native.stateless import Remembers, frame, obligations, slots, stateless
from pellucid.spark.reading import column_of, event_columns, source_leaves, surely_events
from tests.seeds import HUNT, seeds
from tests.strategies import JOINS, KEYS, MAPS, ORDER, POINT, PREDICATES, Seeded
from tests.volumes import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
FAILED = "failed"


# ---------------------------------------------------------------- random pipelines


def _twice(s: int, v: int) -> tuple[int, list[int]]:
    return s, [v, v // 2] if v > 3 else [v]


def _picky(s: tuple[int, bool], v: int) -> tuple[tuple[int, bool], list[int]]:
    if v == 9:
        raise ValueError("nine")
    return s, [] if v % 3 else [100 // (v - 6), v + s[0]]


TASKS: dict[Type, list[tuple[Any, Any]]] = {
    INT: [(_twice, 0), (_picky, (5, True))],
    STR: [(lambda s, t: (s, [t, s]), "q")],
    ORDER: [(lambda s, o: (s, [o, o] if o.urgent else []), 0)],
}


def grow(c: Seeded, streams: list[Stream[Any]], count: int, depth: int) -> list[Stream[Any]]:
    for _ in range(count):
        x = c.of(streams[-3:][::-1])
        t = x.type
        same = [s for s in streams if s._step.key == x._step.key]
        kinds = ["map", "map", "filter", "filter", "merge", "decimate", "trim", "apply", "filter_by"]
        kinds += ["window"] if depth else []
        kinds += ["task"] if t in TASKS else []
        kinds += ["key_by"] if t in KEYS else []
        kind = c.of(kinds)
        if kind == "map":
            made = x.map(c.of(MAPS[t]))
        elif kind == "filter":
            made = x.filter(c.of(PREDICATES[t]))
        elif kind == "merge":
            made = merge(x, c.of([s for s in same if s.type == t]))
        elif kind == "decimate":
            made = x.decimate(1)
        elif kind == "trim":
            made = x.trim(0)
        elif kind == "window":
            made = x.window(1, lambda w: grow(c, [w], 2, depth - 1)[-1])
        elif kind == "task":
            made = x.task(*c.of(TASKS[t]))
        elif kind == "key_by":
            made = x.key_by(c.of(KEYS[t]))
        elif kind == "filter_by":
            made = x.filter(x.map(c.of(PREDICATES[t])).map(bool))
        else:
            partners = [(s, f) for s in same for f in JOINS.get((t, s.type), [])]
            other, f = c.of(partners) if partners else (x, lambda a, b: a == b)
            made = apply(f, x, other)
        streams.append(made)
    return streams


def random_pipeline(seed: int) -> tuple[Pipeline, Seeded]:
    c = Seeded(seed)
    kind = c.of([INT, INT, INT, BOOL, FLOAT, STR, POINT, ORDER])
    several = c.of([False, True])

    def build(x: Stream[Any]) -> Any:
        made = grow(c, [x], c.of([1, 2, 3, 4, 5]), 1)
        return (made[-1], made[1]) if several and len(made) > 2 else made[-1]

    return pipeline(build, x=kind), c


# ---------------------------------------------------------------- both sides


def plain(value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value


def dataframe(spark: SparkSession, p: Pipeline, events: list[Any]) -> tuple[DataFrame, list[Any], list[bool]]:
    """The events with their numbers, as a DataFrame; the leaf columns and which of them never fail."""
    t = p.graph.nodes[p.graph.sources[0]].type
    names = [path or "x" for path, _ in t.leaves()]
    binding = bind("x", t, names, place="df")
    sql = {INT: "bigint", FLOAT: "double", BOOL: "boolean"}
    schema = ", ".join(f"`{n}` {sql.get(k, 'string')}" for n, (_, k) in zip(names, t.leaves(), strict=True))
    rows = [(i, *map(plain, t.flatten(e))) for i, e in enumerate(events)]
    df = spark.createDataFrame(rows, "`row no` int, " + schema)
    return df, source_leaves(binding, df.schema, "df"), surely_events(binding, df.schema)


def in_spark(
    spark: SparkSession, p: Pipeline, events: list[Any], names: list[str], tag: str | None
) -> dict[str, list[list[Any]]]:
    df, leaves, sure = dataframe(spark, p, events)
    made = frame(p.graph, df, leaves, [column_of("row no")], outputs=names, nth="nth", ansi=True, sure=sure, tag=tag)
    types = {name: p.graph.nodes[at].type for name, at in p.graph.outputs}
    assert made.columns[: 2 + bool(tag)] == ["row no", *([tag] if tag else []), "nth"]
    out: dict[str, list[list[Any]]] = {name: [[] for _ in events] for name in names}
    for r in sorted(made.collect(), key=lambda r: (r["row no"], r["nth"])):
        name = r[tag] if tag else names[0]
        if tag is None:
            value = tuple(r[2:]) if len(event_columns(types[name], name)) > 1 else r[2]
        else:
            value = r[name]
            assert all(r[other] is None for other in names if other != name)
        assert r["nth"] == len(out[name][r["row no"]])
        out[name][r["row no"]].append(value)
    return out


def shape(t: Type, value: Any) -> Any:
    """An event as Spark shows it."""
    leaves = [repr(plain(v)) for v in t.flatten(value)]
    return leaves


def flat(t: Type, value: Any) -> Any:
    out: list[Any] = []

    def visit(v: Any) -> None:
        if isinstance(v, tuple):
            for item in v:
                visit(item)
        else:
            out.append(repr(v))

    visit(value)
    return out


def check_pipeline(spark: SparkSession, p: Pipeline, events: list[Any], *, tag: bool) -> None:
    names = [name for name, _ in p.graph.outputs]
    want: list[Any] = []
    for event in events:
        try:
            want.append(Interpreter(p.graph).push(x=event))
        except PellucidError:
            want.append(FAILED)
    fine = [e for e, w in zip(events, want, strict=True) if w != FAILED]
    good = [w for w in want if w != FAILED]
    groups = [names] if tag else [[name] for name in names]
    for group in groups:
        got = in_spark(spark, p, fine, group, "output" if tag else None)
        for name in group:
            t = p.graph[p.graph.nodes[dict(p.graph.outputs)[name]].id].type
            for i, w in enumerate(good):
                assert [shape(t, v) for v in w[name]] == [flat(t, v) for v in got[name][i]], (str(p.graph), fine[i])
        for bad in [e for e, w in zip(events, want, strict=True) if w == FAILED][:1]:
            try:
                found = in_spark(spark, p, [bad], group, "output" if tag else None)
            except Exception:
                continue
            raise AssertionError((str(p.graph), bad, group, found))


def check_seed(spark: SparkSession, seed: int) -> bool:
    try:
        p, c = random_pipeline(seed)
        events = [c.event(p.graph.nodes[0].type) for _ in range(14)]
        check_pipeline(spark, p, events, tag=seed % 2 == 0)
    except (Remembers, NotNative):
        return False
    return True


@settings(max_examples=examples(4, 16))
@given(st.integers(0, 2**32))
def test_random_pipelines_agree(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed)


@pytest.mark.seeded
@pytest.mark.long
def test_many_random_pipelines_agree(spark: SparkSession) -> None:
    done = sum(check_seed(spark, seed) for seed in seeds(400))
    assert HUNT or done > 250, done  # or the generator makes pipelines that are refused


# ---------------------------------------------------------------- which steps remember


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda x: x.cumulate(lambda a, v: a + v, start=0), "remembers its last value"),
        (lambda x: x.decimate(2), "remembers how many events it has seen"),
        (lambda x: x.trim(1), "remembers how many events it has seen"),
        (lambda x: x.window(2, lambda w: w), "remembers the last events"),
        (lambda x: x.task(lambda s, v: (s + v, [s]), 0), "remembers its state"),
        (lambda x: x.filter(lambda v: v > 0) + x, "waits for its inputs, which do not always come together"),
        (lambda x: x.map(lambda v: hash(str(v)), to=int), "cannot be traced: a lambda"),
        (lambda x: x.window(1, lambda w: w.trim(1)), "remembers how many events it has seen"),
    ],
)
def test_steps_that_remember(build: Any, why: str) -> None:
    with pytest.raises(Remembers) as error:
        stateless(pipeline(build, x=int).graph)
    assert why in str(error.value) and why in error.value.why


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x.decimate(1).trim(0),
        lambda x: x.window(1, lambda w: w.map(lambda v: v + 1)),
        lambda x: x.task(lambda s, v: (s, [v, v]), 3),
        lambda x: x.filter(lambda v: v > 0).map(lambda v: v + 1) * x.filter(lambda v: v > 0),
        lambda x: x.filter(x.map(lambda v: v > 3)),
        lambda x: apply(lambda a, b: a + b, x.key_by(lambda v: v % 2), x.key_by(lambda v: v % 2)),
    ],
)
def test_steps_that_do_not(spark: SparkSession, build: Any) -> None:
    check_pipeline(spark, pipeline(build, x=int), [0, 1, 2, 5, -3, 2**63 - 1], tag=False)


def test_streams_under_different_keys_do_not_meet_at_once() -> None:
    p = pipeline(lambda x: apply(lambda a, b: a + b, x.key_by(lambda v: v % 2), x.key_by(lambda v: v % 3)), x=int)
    with pytest.raises(Remembers, match="do not always come together"):
        stateless(p.graph)


# ---------------------------------------------------------------- failures


def run(spark: SparkSession, p: Pipeline, events: list[Any], names: list[str] | None = None) -> Any:
    return in_spark(spark, p, events, names or [p.graph.outputs[0][0]], None)


def test_a_step_that_feeds_no_output_still_fails(spark: SparkSession) -> None:
    p = pipeline(lambda x: (x.map(lambda v: 10 // v), x.map(lambda v: v + 1)), x=int)
    names = [name for name, _ in p.graph.outputs]
    assert run(spark, p, [1, 2], names[1:]) == {names[1]: [[2], [3]]}
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"):
        run(spark, p, [1, 0], names[1:])


def test_an_event_that_is_dropped_later_still_fails(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.map(lambda v: (v, 10 // v)).filter(lambda t: t[0] > 0).map(lambda t: t[0]), x=int)
    assert obligations(stateless(p.graph), [3])[0] != []
    assert run(spark, p, [1, -1])["out"] == [[1], []]
    with pytest.raises(Exception, match=r"_BY_ZERO"):
        run(spark, p, [0])


def test_what_a_filter_drops_does_not_fail_later(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.filter(lambda v: v != 0).map(lambda v: 10 // v).filter(lambda v: v > 2), x=int)
    assert run(spark, p, [0, 1, 9, 3])["out"] == [[], [10], [], [3]]


def test_a_null_fails_even_where_no_step_looks(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.map(lambda o: o.size).filter(lambda v: v > 3), x=ORDER)
    df = spark.createDataFrame([("a", 1, None)], "name string, size bigint, urgent boolean")
    binding = bind("x", ORDER, df.columns, place="df")
    made = frame(p.graph, df, source_leaves(binding, df.schema, "df"), [], ansi=True)
    with pytest.raises(Exception, match="column 'urgent' is null"):
        made.collect()


def test_a_raise_names_its_step(spark: SparkSession) -> None:
    def careful(v: int) -> int:
        if v < 0:
            raise ValueError("below zero")
        return v

    p = pipeline(lambda x: x.map(careful, id="first").map(careful, id="second"), x=int)
    with pytest.raises(
        Exception, match=r"\[pellucid\] step 'first' \(map careful, .*\) failed: ValueError: below zero"
    ):
        run(spark, p, [-1])


# ---------------------------------------------------------------- the plan


def plan_of(df: DataFrame) -> list[str]:
    """The operators of the physical plan, from the top."""
    text = df._jdf.queryExecution().executedPlan().toString()
    return [line.strip(" +-:*()0123456789").split("(")[0].split(" ")[0] for line in text.splitlines() if line.strip()]


def framed(p: Pipeline, df: DataFrame, **options: Any) -> DataFrame:
    binding = bind("x", INT, ["x"], place="df")
    leaves, sure = source_leaves(binding, df.schema, "df"), surely_events(binding, df.schema)
    return frame(p.graph, df, leaves, [column_of("id")], ansi=True, sure=sure, **options)


def test_the_plan_is_that_of_hand_written_code(spark: SparkSession) -> None:
    df = spark.range(10).selectExpr("id", "id as x")  # not null
    p = pipeline(lambda x: x.filter(lambda v: v > 3).map(lambda v: v + 1), x=int)
    by_hand = df.filter("x > 3").selectExpr("id", "x + 1 as out")
    ours = framed(p, df)
    assert plan_of(ours) == plan_of(by_hand) == ["Project", "Filter", "Range"]
    text = ours._jdf.queryExecution().optimizedPlan().toString()
    assert "spark_partition_id" not in text.lower() and "raise_error" not in text


def test_a_nullable_column_adds_no_operator(spark: SparkSession, tmp_path: Any) -> None:
    spark.range(20).selectExpr("id", "id as x").write.parquet(str(tmp_path / "t"))
    df = spark.read.parquet(str(tmp_path / "t"))
    p = pipeline(lambda x: x.filter(lambda v: v * v > 30).map(lambda v: v // 3), x=int)
    assert plan_of(framed(p, df)) == plan_of(df.filter("x * x > 30").selectExpr("id", "x div 3 as out"))
    assert [r.out for r in framed(p, df).orderBy("id").collect()] == [v // 3 for v in range(20) if v * v > 30]


def test_several_events_of_one_push_are_exploded(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("id", "id as x")
    p = pipeline(lambda x: merge(x, x.filter(lambda v: v > 0).map(lambda v: v * 10), x), x=int)
    made = framed(p, df, nth="n")
    plan = plan_of(made)
    assert "Generate" in plan and not [op for op in plan if "Python" in op or "Exchange" in op or "Arrow" in op]
    rows = sorted((r.id, r.n, r.out) for r in made.collect())
    assert rows == [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 10), (1, 2, 1), (2, 0, 2), (2, 1, 20), (2, 2, 2)]


def test_several_outputs_need_a_tag(spark: SparkSession) -> None:
    p = pipeline(lambda x: (x.map(lambda v: v + 1), x.map(lambda v: (v, 0.5))), x=int)
    df = spark.range(2).selectExpr("id", "id as x")
    with pytest.raises(ValueError, match="several outputs need a column that tells them apart"):
        framed(p, df)
    made = framed(p, df, tag="output")
    names = [name for name, _ in p.graph.outputs]
    assert made.columns == ["id", "output", *names]
    assert sorted((r.id, r.output, r[names[0]], tuple(r[names[1]] or ())) for r in made.collect()) == sorted(
        [(i, names[0], i + 1, ()) for i in (0, 1)] + [(i, names[1], None, (i, 0.5)) for i in (0, 1)]
    )


def test_slots_are_guarded_expressions() -> None:
    p = pipeline(lambda x: merge(x.filter(lambda v: v > 3), x.map(lambda v: -v)), x=int)
    assert [(str(s.when), str(s.leaves[0])) for s in slots(p.graph, 3)] == [("v0 > 3", "v0"), ("True", "-v0")]


def test_too_many_operations_are_refused(spark: SparkSession) -> None:
    def build(x: Stream[int]) -> Stream[int]:
        for _ in range(12):
            x = x.map(lambda v: v * v + v)
        return x

    with pytest.raises(NotNative, match="operations"):
        framed(pipeline(build, x=int), spark.range(2).selectExpr("id", "id as x"))
