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

from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, STR
from pellucid.spark.native.column import MARK, MAX_DEPTH, NotNative, barrier, column, why_not
from tests.spark.native.random_exprs import CORNERS, KINDS, NAMES, Maker, Side, row
from tests.volumes import examples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
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


@SLOW
@given(st.integers(0, 2**32))
def test_random_expressions_are_equal_alone(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    for e in translated(rng, 6, 4):
        compare_alone(spark, e, rng.sample(CORNERS, 25) + [row(rng) for _ in range(25)])


@SLOW
@given(st.integers(0, 2**32))
def test_random_expressions_are_equal_together(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    compare_together(spark, translated(rng, 20, 3), CORNERS + [row(rng) for _ in range(100)])


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


@pytest.mark.parametrize("e", EDGES, ids=str)
def test_edges(spark: SparkSession, e: Expr) -> None:
    compare_alone(spark, e, CORNERS)


def test_edges_together(spark: SparkSession) -> None:
    rng = random.Random(8)
    compare_together(spark, EDGES, CORNERS + [row(rng) for _ in range(300)])


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


def test_a_constant_that_fails_waits_for_a_row(spark: SparkSession) -> None:
    made = column(n.binary("floordiv", c(1), c(0)), leaves(), ansi=True)
    df = spread(spark, [(-1, 0, 0.0, 0.0, True, "", Side.BUY)])
    assert df.filter("i > 0").select(made).collect() == []
    with pytest.raises(Exception, match="ZeroDivisionError"):
        df.select(made).collect()


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


def test_shared_parts_do_not_blow_up() -> None:
    e: Expr = X
    for _ in range(60):
        e = n.add(e, e)
    assert refused(e) == "is written out in more than 2,000 operations"
    e = X
    for _ in range(MAX_DEPTH + 1):
        e = n.add(Y, e)
    assert refused(e) == "nests deeper than 150 operations"


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
