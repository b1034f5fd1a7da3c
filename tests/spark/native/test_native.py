"""Catalyst columns against the evaluator, bit for bit, on extremes; failures included."""

from __future__ import annotations

import enum
import math
import random
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError, Stream, apply, merge, pipeline
from pellucid.errors import PellucidError
from pellucid.internal.data.bind import bind
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, STR, Type
from pellucid.internal.graph.model import Graph
from pellucid.spark.column import MARK, MAX_DEPTH, NotNative, barrier, column, why_not
from pellucid.spark.native import Remembers, frame, front, obligations, slots, split, stateless
from pellucid.spark.reading import column_of, event_columns, source_leaves, surely_events
from tests.seeds import HUNT, seeds
from tests.spark.native.random_exprs import CORNERS, KINDS, NAMES, Maker, Side, row
from tests.strategies import JOINS, KEYS, MAPS, ORDER, POINT, PREDICATES, Seeded, add_steps, make_input
from tests.volumes import examples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SCHEMA = "i bigint, j bigint, f double, g double, b boolean, s string, e string"
ARROW = [pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.bool_(), pa.string(), pa.string()]
LITERAL = "spark.sql.execution.arrow.localRelationThreshold"
FAILED = ("failed",)


def leaves() -> list[Column]:
    from pyspark.sql import functions as F

    return [F.col(name) for name in NAMES]


def plain(value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value


def spread(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    """The rows as an RDD (of Arrow, which needs no Python worker).

    A projection of literal rows would be evaluated before Spark rewrites anything, and Spark takes a small table for
    literal rows.
    """
    table = pa.table(
        [pa.array(list(map(plain, values)), kind) for values, kind in zip(zip(*rows, strict=True), ARROW, strict=True)],
        names=NAMES,
    )
    before = spark.conf.get(LITERAL)
    spark.conf.set(LITERAL, "0")
    try:
        return spark.createDataFrame(table)
    finally:
        spark.conf.set(LITERAL, str(before))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_rows_are_no_literals(spark: SparkSession) -> None:
    plan = spread(spark, [(-1, 0, 0.0, -0.0, True, "", Side.BUY)])._jdf.queryExecution().optimizedPlan().toString()
    assert "LogicalRDD" in plan and "LocalRelation" not in plan


def bits(value: Any) -> Any:
    """What two values are compared by: floats by their bits, every NaN alike."""
    value = plain(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    return (type(value), value)


def wanted(e: Expr, leaves: tuple[Any, ...]) -> Any:
    try:
        return bits(evaluate(e, leaves))
    except Exception:
        return FAILED


def translated(rng: random.Random, count: int, depth: int) -> list[Expr]:
    """Random expressions that have a counterpart and are not trivial."""
    out: list[Expr] = []
    while len(out) < count:
        e = Maker(rng).make(rng.choice([INT, FLOAT, BOOL, STR]), rng.randint(1, depth))
        if e.args and why_not(e, ansi=True) is None:
            out.append(e)
    return out


def compare_alone(spark: SparkSession, e: Expr, rows: list[tuple[Any, ...]]) -> None:
    made = column(e, leaves(), ansi=True).alias("out")
    want = [wanted(e, r) for r in rows]
    fine = [r for r, w in zip(rows, want, strict=True) if w != FAILED]
    if fine:
        got = [bits(r.out) for r in spread(spark, fine).select(made).collect()]
        for r, a, b in zip(fine, [w for w in want if w != FAILED], got, strict=True):
            assert a == b, (e, r)
    failing = [r for r, w in zip(rows, want, strict=True) if w == FAILED]
    for r in failing[:: max(1, len(failing) // 2)][:2]:
        try:
            found = spread(spark, [r]).select(made).collect()
        except Exception:
            continue
        raise AssertionError((e, r, found))


def compare_together(spark: SparkSession, exprs: list[Expr], rows: list[tuple[Any, ...]]) -> None:
    """All expressions in one projection, where each looks only at the rows on which it does not fail."""
    from pyspark.sql import functions as F

    rows = [r for r in rows if any(wanted(e, r) != FAILED for e in exprs)]
    table = [(*map(plain, r), [wanted(e, r) != FAILED for e in exprs]) for r in rows]
    if not table:
        return
    df = spark.createDataFrame(table, SCHEMA + ", fine array<boolean>")
    made = [F.when(F.col("fine")[k], column(e, leaves(), ansi=True)).alias(f"c{k}") for k, e in enumerate(exprs)]
    for r, found in zip(rows, df.select(*made).collect(), strict=True):
        for e, value in zip(exprs, found, strict=True):
            want = wanted(e, r)
            assert (want == bits(value)) if want != FAILED else value is None, (e, r)


SLOW = settings(max_examples=examples(1, 4))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@SLOW
@given(st.integers(0, 2**32))
def test_random_expressions_are_equal_alone(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    for e in translated(rng, 6, 4):
        compare_alone(spark, e, rng.sample(CORNERS, 25) + [row(rng) for _ in range(25)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@SLOW
@given(st.integers(0, 2**32))
def test_random_expressions_are_equal_together(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    compare_together(spark, translated(rng, 20, 3), CORNERS + [row(rng) for _ in range(100)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.long
@settings(max_examples=120)
@given(st.integers(0, 2**32))
def test_many_random_expressions_are_equal(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    exprs = translated(rng, 20, 4)
    rows = [row(rng) for _ in range(150)]
    compare_together(spark, exprs, rows)
    for e in exprs[:8]:
        compare_alone(spark, e, rows[:25])


X, Y, F_, G, B, S = (n.var(k, t) for k, t in enumerate(KINDS[:6]))


def c(value: Any) -> Expr:
    return n.const(value)


QUOTIENT = n.binary("floordiv", c(10), X)
NOT_ZERO = n.not_(n.eq(X, c(0)))
EDGES = [
    n.add(n.binary("band", c(2**63 - 2), X), n.add(Y, c(-(2**63) + 1))),  # Catalyst would add the constant last
    n.add(n.add(Y, c(-(2**63) + 1)), X),
    n.add(  # a part that two right sides of `and` share, which Catalyst would compute first
        n.int_of_bool(n.and_(NOT_ZERO, n.lt(QUOTIENT, c(3)))), n.int_of_bool(n.and_(NOT_ZERO, n.lt(QUOTIENT, c(-1))))
    ),
    n.add(
        n.int_of_bool(n.or_(n.eq(X, c(0)), n.lt(QUOTIENT, c(3)))),
        n.int_of_bool(n.or_(n.eq(X, c(0)), n.lt(QUOTIENT, c(-1)))),
    ),
    n.add(n.add(X, c(INT_MAX)), c(-INT_MAX)),  # Catalyst would add the constants first
    n.add(n.add(c(5), X), n.add(Y, c(-5))),
    n.mul(n.mul(X, c(2**62)), c(4)),
    n.binary("shl", n.mul(X, c(2**40)), c(20)),
    n.mul(n.mul(n.mul(X, Y), c(3)), c(-1)),
    n.binary("mul", n.add(X, c(INT_MAX)), c(0)),
    n.ite(n.lt(n.add(X, c(INT_MAX)), Y), c(1), c(1)),  # both branches are equal: the condition may fail
    n.and_(n.lt(n.mul(X, Y), c(5)), c(False)),
    n.or_(n.lt(n.mul(X, Y), c(5)), c(True)),
    n.after((n.binary("floordiv", c(10), X),), Y),
    n.and_(n.not_(n.eq(X, c(0))), n.lt(n.binary("floordiv", c(10), X), c(3))),
    n.or_(n.eq(X, c(0)), n.lt(n.binary("mod", Y, X), c(3))),
    n.binary("floordiv", X, Y),
    n.binary("mod", X, Y),
    n.binary("floordiv", X, c(-1)),
    n.binary("mod", X, c(-7)),
    n.binary("floordiv", X, c(8)),
    n.binary("mod", X, c(8)),
    n.binary("mod", X, c(10)),
    n.binary("mod", F_, G),
    n.binary("truediv", F_, G),
    n.binary("truediv", X, c(-4)),
    n.lt(X, F_),
    n.le(F_, X),
    n.eq(F_, X),
    n.le(c(2**53 + 1), F_),
    n.lt(X, c(2.5)),
    n.lt(F_, n.sub(F_, G)),  # NaN on the right, on the left
    n.le(n.sub(F_, G), G),
    n.eq(n.sub(F_, G), n.binary("mul", F_, G)),
    n.not_(n.eq(n.sub(F_, G), F_)),
    n.neg(F_),
    n.abs_(F_),
    n.neg(X),
    n.abs_(X),
    n.sqrt(F_),
    n.round_to_int("floor", F_),
    n.round_to_int("ceil", F_),
    n.round_to_int("trunc", F_),
    n.binary("shr", X, Y),
    n.binary("shr", X, c(70)),
    n.binary("shr", X, c(-7)),
    n.binary("floordiv", X, c(0)),
    n.binary("mod", X, c(0)),
    n.binary("truediv", F_, c(0.0)),
    n.binary("mod", F_, c(0.0)),
    n.binary("shl", X, n.binary("band", Y, c(7))),
    n.lt(S, c("\U0001f600")),
    n.ite(B, n.raise_(0, STR), S),
    n.ite(n.eq(n.var(6, KINDS[6]), c(Side.HOLD)), c(Side.BUY), n.var(6, KINDS[6])),
    n.float_of_int(X),
    n.binary("truediv", n.binary("mod", X, c(1000)), n.binary("mod", Y, c(10))),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("e", EDGES, ids=str)
def test_edges(spark: SparkSession, e: Expr) -> None:
    compare_alone(spark, e, CORNERS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_edges_together(spark: SparkSession) -> None:
    rng = random.Random(8)
    compare_together(spark, EDGES, CORNERS + [row(rng) for _ in range(300)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_raise_of_the_users_is_marked(spark: SparkSession) -> None:
    def careful(v: int) -> int:
        if v < 0:
            raise ValueError("below zero")
        return v

    traced = trace(careful, (INT,))
    made = column(traced.outputs[0], leaves(), ansi=True, raises=[f"step 'x': {text}" for text in traced.raises])
    with pytest.raises(Exception, match=r"\[pellucid\] step 'x': ValueError: below zero"):
        spread(spark, [(-1, 0, 0.0, 0.0, True, "", Side.BUY)]).select(made).collect()
    assert MARK == "[pellucid] "


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_constant_that_fails_waits_for_a_row(spark: SparkSession) -> None:
    made = column(n.binary("floordiv", c(1), c(0)), leaves(), ansi=True)
    df = spread(spark, [(-1, 0, 0.0, 0.0, True, "", Side.BUY)])
    assert df.filter("i > 0").select(made).collect() == []
    with pytest.raises(Exception, match="ZeroDivisionError"):
        df.select(made).collect()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_barrier_stays_where_it_is(spark: SparkSession) -> None:
    """Spark moves an ordinary filter below a join, where it meets rows that the join would have dropped."""
    from pyspark.sql import functions as F

    left = spread(spark, [(0, 0, 0.0, 0.0, True, "", Side.BUY), (5, 0, 0.0, 0.0, True, "", Side.BUY)])
    right = spark.createDataFrame([(5,)], "i bigint")
    condition = column(n.lt(n.binary("floordiv", c(10), X), c(3)), [F.col("i")], ansi=True)
    joined = left.join(F.broadcast(right), "i")
    assert [r.i for r in joined.filter(barrier(condition)).select("i").collect()] == [5]
    assert barrier_is_needed(joined, condition)


def barrier_is_needed(joined: DataFrame, condition: Column) -> bool:
    try:
        joined.filter(condition).select("i").collect()
    except Exception:
        return True
    return False


def refused(e: Expr, *, ansi: bool = True) -> str:
    with pytest.raises(NotNative) as error:
        column(e, [], ansi=ansi)
    return error.value.reason


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_refusals() -> None:
    assert refused(n.binary("truediv", X, Y)) == "divides integers that may be above 2**53, where Spark rounds twice"
    assert refused(n.binary("floordiv", F_, G)) == "uses // on floats, which Spark does not have"
    assert refused(n.binary("shl", X, Y)) == "shifts left by an amount that may be outside 0 to 62"
    assert refused(n.binary("shl", X, c(63))) == "shifts left by an amount that may be outside 0 to 62"
    assert refused(n.add(F_, c(-0.0))) == "uses the constant -0.0, which Spark takes for 0.0"
    assert refused(n.eq(S, c("\ud800"))) == "uses a text that is not valid Unicode"
    assert refused(n.eq(n.add(X, Y), n.add(Y, X))) == "compares two expressions that Catalyst may take for the same one"
    assert refused(n.add(X, Y), ansi=False) == "may overflow (add), which only fails with spark.sql.ansi.enabled"
    assert (
        refused(n.binary("mod", X, Y), ansi=False) == "may overflow (mod), which only fails with spark.sql.ansi.enabled"
    )
    assert why_not(n.lt(X, Y), ansi=False) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_shared_parts_do_not_blow_up() -> None:
    e: Expr = X
    for _ in range(60):
        e = n.add(e, e)
    assert refused(e) == "is written out in more than 2,000 operations"
    e = X
    for _ in range(MAX_DEPTH + 1):
        e = n.add(Y, e)
    assert refused(e) == "nests deeper than 150 operations"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_without_ansi_what_cannot_overflow_is_equal(spark: SparkSession) -> None:
    rng = random.Random(3)
    exprs = [e for e in translated(rng, 60, 3) if why_not(e, ansi=False) is None and not n.fails(e)][:12]
    assert len(exprs) == 12
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        rows = [row(rng) for _ in range(60)]
        for e in exprs:
            compare_alone(spark, e, rows)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


# Pipelines that remember nothing: Spark's own expressions against the interpreter, failures included.

FAILED_STATELESS = "failed"


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
            want.append(FAILED_STATELESS)
    fine = [e for e, w in zip(events, want, strict=True) if w != FAILED_STATELESS]
    good = [w for w in want if w != FAILED_STATELESS]
    groups = [names] if tag else [[name] for name in names]
    for group in groups:
        got = in_spark(spark, p, fine, group, "output" if tag else None)
        for name in group:
            t = p.graph[p.graph.nodes[dict(p.graph.outputs)[name]].id].type
            for i, w in enumerate(good):
                assert [shape(t, v) for v in w[name]] == [flat(t, v) for v in got[name][i]], (str(p.graph), fine[i])
        for bad in [e for e, w in zip(events, want, strict=True) if w == FAILED_STATELESS][:1]:
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@settings(max_examples=examples(4, 16))
@given(st.integers(0, 2**32))
def test_random_pipelines_agree(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.seeded
@pytest.mark.long
def test_many_random_pipelines_agree(spark: SparkSession) -> None:
    done = sum(check_seed(spark, seed) for seed in seeds(400))
    assert HUNT or done > 250, done  # or the generator makes pipelines that are refused


# ---------------------------------------------------------------- which steps remember


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_streams_under_different_keys_do_not_meet_at_once() -> None:
    p = pipeline(lambda x: apply(lambda a, b: a + b, x.key_by(lambda v: v % 2), x.key_by(lambda v: v % 3)), x=int)
    with pytest.raises(Remembers, match="do not always come together"):
        stateless(p.graph)


# ---------------------------------------------------------------- failures


def run(spark: SparkSession, p: Pipeline, events: list[Any], names: list[str] | None = None) -> Any:
    return in_spark(spark, p, events, names or [p.graph.outputs[0][0]], None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_step_that_feeds_no_output_still_fails(spark: SparkSession) -> None:
    p = pipeline(lambda x: (x.map(lambda v: 10 // v), x.map(lambda v: v + 1)), x=int)
    names = [name for name, _ in p.graph.outputs]
    assert run(spark, p, [1, 2], names[1:]) == {names[1]: [[2], [3]]}
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"):
        run(spark, p, [1, 0], names[1:])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_an_event_that_is_dropped_later_still_fails(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.map(lambda v: (v, 10 // v)).filter(lambda t: t[0] > 0).map(lambda t: t[0]), x=int)
    assert obligations(stateless(p.graph), [3])[0] != []
    assert run(spark, p, [1, -1])["out"] == [[1], []]
    with pytest.raises(Exception, match=r"_BY_ZERO"):
        run(spark, p, [0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_what_a_filter_drops_does_not_fail_later(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.filter(lambda v: v != 0).map(lambda v: 10 // v).filter(lambda v: v > 2), x=int)
    assert run(spark, p, [0, 1, 9, 3])["out"] == [[], [10], [], [3]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_null_fails_even_where_no_step_looks(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.map(lambda o: o.size).filter(lambda v: v > 3), x=ORDER)
    df = spark.createDataFrame([("a", 1, None)], "name string, size bigint, urgent boolean")
    binding = bind("x", ORDER, df.columns, place="df")
    made = frame(p.graph, df, source_leaves(binding, df.schema, "df"), [], ansi=True)
    with pytest.raises(Exception, match="column 'urgent' is null"):
        made.collect()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_plan_is_that_of_hand_written_code(spark: SparkSession) -> None:
    df = spark.range(10).selectExpr("id", "id as x")  # not null
    p = pipeline(lambda x: x.filter(lambda v: v > 3).map(lambda v: v + 1), x=int)
    by_hand = df.filter("x > 3").selectExpr("id", "x + 1 as out")
    ours = framed(p, df)
    assert plan_of(ours) == plan_of(by_hand) == ["Project", "Filter", "Range"]
    text = ours._jdf.queryExecution().optimizedPlan().toString()
    assert "spark_partition_id" not in text.lower() and "raise_error" not in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_nullable_column_adds_no_operator(spark: SparkSession, tmp_path: Any) -> None:
    spark.range(20).selectExpr("id", "id as x").write.parquet(str(tmp_path / "t"))
    df = spark.read.parquet(str(tmp_path / "t"))
    p = pipeline(lambda x: x.filter(lambda v: v * v > 30).map(lambda v: v // 3), x=int)
    assert plan_of(framed(p, df)) == plan_of(df.filter("x * x > 30").selectExpr("id", "x div 3 as out"))
    assert [r.out for r in framed(p, df).orderBy("id").collect()] == [v // 3 for v in range(20) if v * v > 30]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_several_events_of_one_push_are_exploded(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("id", "id as x")
    p = pipeline(lambda x: merge(x, x.filter(lambda v: v > 0).map(lambda v: v * 10), x), x=int)
    made = framed(p, df, nth="n")
    plan = plan_of(made)
    assert "Generate" in plan and not [op for op in plan if "Python" in op or "Exchange" in op or "Arrow" in op]
    rows = sorted((r.id, r.n, r.out) for r in made.collect())
    assert rows == [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 10), (1, 2, 1), (2, 0, 2), (2, 1, 20), (2, 2, 2)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_slots_are_guarded_expressions() -> None:
    p = pipeline(lambda x: merge(x.filter(lambda v: v > 3), x.map(lambda v: -v)), x=int)
    assert [(str(s.when), str(s.leaves[0])) for s in slots(p.graph, 3)] == [("v0 > 3", "v0"), ("True", "-v0")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_too_many_operations_are_refused(spark: SparkSession) -> None:
    def build(x: Stream[int]) -> Stream[int]:
        for _ in range(12):
            x = x.map(lambda v: v * v + v)
        return x

    with pytest.raises(NotNative, match="operations"):
        framed(pipeline(build, x=int), spark.range(2).selectExpr("id", "id as x"))


# A pipeline cut behind its first maps and filters is the same pipeline.


def run_prefix(graph: Graph, pushes: list[dict[str, Any]]) -> list[dict[str, list[Any]]] | str:
    try:
        return Interpreter(graph).run(pushes)
    except StepError:
        return "fails"


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_front_and_rest_equal_the_whole(seed: int) -> None:
    c = Seeded(seed)

    def build(x: Any) -> Any:
        for _ in range(c.of([1, 2, 3])):
            x = x.map(c.of(MAPS[x.type])) if c.of([True, False]) else x.filter(c.of(PREDICATES[x.type]))
        return add_steps(c, [x], c.of([1, 3, 5]), 1, c.of([True, False]))[-1]

    p = pipeline(build, x=c.of([int, float, str]))
    chain = front(p.graph)
    if not chain:
        return
    first, rest = split(p.graph, chain)
    pushes = make_input(c, p, 15)
    between = run_prefix(first, pushes)
    whole = run_prefix(p.graph, pushes)
    if between == "fails":
        assert whole == "fails"
        return
    after = run_prefix(rest, [{"x": step["out"][0]} for step in between if step["out"]])  # type: ignore[index]
    if after == "fails" or whole == "fails":
        assert after == whole
        return
    steps = list(zip(whole, between, strict=True))
    assert [step for step, push in steps if push["out"]] == after  # type: ignore[index]
    dropped = [step for step, push in steps if not push["out"]]  # type: ignore[index]
    assert all(events == [] for step in dropped for events in step.values())  # type: ignore[union-attr]


def test_what_saves_nothing_stays_behind_the_shuffle() -> None:
    assert front(pipeline(lambda x: x.map(lambda v: (v, v)).trim(1), x=int).graph) == []
    assert front(pipeline(lambda x: x.filter(lambda v: v > 0), x=int).graph) != []
    both = pipeline(lambda x: x.filter(lambda v: v > 0) + x, x=int)  # the source is used twice
    assert front(both.graph) == []


def test_ids_of_steps_stay() -> None:
    p = pipeline(lambda x: x.filter(lambda v: v > 0).cumulate(lambda t, v: t + v, start=0, id="total"), x=int)
    _, rest = split(p.graph, front(p.graph))
    assert [node.id for node in rest.nodes] == ["x", "total"]
