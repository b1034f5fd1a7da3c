"""Window functions against the interpreter, key by key; and what does not become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, Stream, merge, pipeline
from pellucid.engine.interpreter import Interpreter
from pellucid.errors import PellucidError
from pellucid.expr.types import BOOL, INT, INT_MAX, Type
from pellucid.spark.native.windows import why_not, window_frame
from tests.seeds import HUNT, seeds
from tests.strategies import JOINS, MAPS, PREDICATES, Seeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
FAILED = "failed"
Row = tuple[int, int, int]  # key, order, event

FOLDS: dict[Type, list[tuple[Any, Any]]] = {
    INT: [
        (lambda a, v: a + v, 0),
        (lambda a, v: v + a, -7),
        (lambda a, v: a + v if v > 2 else a, 1),
        (lambda a, v: a + 1, 0),
        (lambda a, v: max(a, v), 3),
        (lambda a, v: min(v, a), 4),
        (lambda a, v: v if v < a else a, 0),
        (lambda a, v: a if a >= v else v, -2),
        (lambda a, v: a or v > 3, False),
        (lambda a, v: a and v < 9, True),
        (lambda a, v: a + 100 // (v - 13), 0),
        (lambda a, v: a + v * v, 0),
    ],
    BOOL: [
        (lambda a, b: a and b, True),
        (lambda a, b: a or b, False),
        (lambda k, b: k + b, 0),
        (lambda k, b: k + 1 if b else k, 5),
    ],
}


def grow(c: Seeded, x: Stream[Any], count: int) -> Stream[Any]:
    seen = [x]
    for _ in range(count):
        t = x.type
        kind = c.of(
            ["map", "filter", "cumulate", "cumulate", "decimate", "trim", "apply"]
            if t in FOLDS
            else ["map", "decimate", "trim"]
        )
        if kind == "map":
            x = x.map(c.of(MAPS[t]))
        elif kind == "filter":
            x = x.filter(c.of(PREDICATES[t]))
        elif kind == "cumulate":
            x = x.cumulate(*c.of(FOLDS[t]))
        elif kind == "apply":
            other = c.of(seen)
            options = JOINS.get((t, other.type))
            x = x.map(lambda v: v) if not options else _joined(c.of(options), x, other)
        else:
            x = getattr(x, kind)(c.of([1, 2, 3]))
        seen.append(x)
    return x


def _joined(f: Any, x: Stream[Any], other: Stream[Any]) -> Stream[Any]:
    from pellucid import apply

    return apply(f, x, other)


def in_spark(spark: SparkSession, p: Pipeline, rows: list[Row]) -> dict[tuple[int, int], list[Any]]:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(rows, "key bigint, seq bigint, x bigint")
    made = window_frame(
        p.graph,
        df,
        [F.col("x")],
        key=[("key", F.col("key"))],
        order=[("seq", F.col("seq"))],
        nth="nth",
        ansi=True,
        sure=[True],
    )
    out: dict[tuple[int, int], list[Any]] = {(k, o): [] for k, o, _ in rows}
    for r in sorted(made.collect(), key=lambda r: r[:3]):
        out[r[0], r[1]].append([repr(v) for v in r[3:]])
    return out


def here(p: Pipeline, rows: list[Row]) -> Any:
    out: dict[tuple[int, int], list[Any]] = {}
    t = p.graph.nodes[p.graph.outputs[0][1]].type
    runs: dict[int, Interpreter] = {}
    for key, order, event in sorted(rows, key=lambda r: r[1]):
        try:
            events = runs.setdefault(key, Interpreter(p.graph)).push(x=event)["out"]
        except PellucidError:
            return FAILED
        out[key, order] = [[repr(getattr(v, "name", v)) for v in t.flatten(e)] for e in events]
    return out


def check(spark: SparkSession, p: Pipeline, rows: list[Row]) -> None:
    from pyspark.errors import PySparkException

    want = here(p, rows)
    try:
        got: Any = in_spark(spark, p, rows)
    except PySparkException:
        got = FAILED
    assert got == want, (str(p.graph), rows)


def check_seed(spark: SparkSession, seed: int) -> bool:
    c = Seeded(seed)
    p = pipeline(lambda x: grow(c, x, c.of([1, 2, 3, 4])), x=int)
    if why_not(p.graph) is not None:
        return False
    big = c.of([False, False, True])
    events = [c.event(INT) if big else c.event(INT) % 16 for _ in range(16)]
    rows = [(c.of([1, 2, 3]), i * 3, e) for i, e in enumerate(events)]
    check(spark, p, rows[::-1])
    return True


@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_random_pipelines_agree(spark: SparkSession, seed: int) -> None:
    check_seed(spark, seed)


@pytest.mark.seeded
@pytest.mark.long
def test_many_random_pipelines_agree(spark: SparkSession) -> None:
    done = sum(check_seed(spark, seed) for seed in seeds(300))
    assert HUNT or done > 120, done


@pytest.mark.parametrize(
    ("start", "events"),
    [(-5, [INT_MAX, 3]), (5, [INT_MAX]), (-5, [INT_MAX, 6]), (0, [INT_MAX, 1, -1]), (5, [-6, INT_MAX])],
)
def test_a_running_sum_overflows_where_the_pipeline_does(spark: SparkSession, start: int, events: list[int]) -> None:
    p = pipeline(lambda x: x.cumulate(lambda a, v: a + v, start=start), x=int)
    check(spark, p, [(1, i, e) for i, e in enumerate(events)])


def test_a_failure_whose_result_is_not_used(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.cumulate(lambda a, v: a + v, start=0).map(lambda v: 1), x=int)
    rows = [(1, 0, INT_MAX), (1, 1, 1)]
    assert here(p, rows) == FAILED
    check(spark, p, rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 5, 1), (1, 5, 2)], r"\[pellucid\] two rows of one key have this order"),
        (
            [(None, 5, 1)],
            r"\[pellucid\] DataError: the key column 'key' is null: give every row a key, or leave such rows out",
        ),
        (
            [(1, None, 1)],
            r"\[pellucid\] DataError: the order column 'seq' is null: give every row an order, or leave such rows out",
        ),
    ],
)
def test_rows_without_an_order_fail(spark: SparkSession, rows: list[Any], message: str) -> None:
    p = pipeline(lambda x: x.trim(1), x=int)
    with pytest.raises(Exception, match=message):
        in_spark(spark, p, rows)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda x: x.cumulate(lambda a, v: 2 * a + v, start=0), "is no running sum"),
        (lambda x: x.map(lambda v: v * 0.5).cumulate(lambda a, v: a + v, start=0.0), "is no running sum"),
        (lambda x: x.cumulate(lambda a, v: a and 10 // v > 2, start=True), "is no running sum"),
        (lambda x: x.window(2, lambda w: w), "remembers the last events"),
        (lambda x: merge(x, x).trim(1), "may get several events in one push"),
        (lambda x: x.key_by(lambda v: v % 2).trim(1), "keeps its state apart by a key of its own"),
        (lambda x: x.trim(1).map(lambda v: v / 3), "divides integers that may be above 2**53"),
    ],
)
def test_what_does_not_become_a_window_function(build: Any, why: str) -> None:
    assert why in str(why_not(pipeline(build, x=int).graph))


def test_one_shuffle_one_sort_no_python(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    df = spark.range(20).selectExpr("id % 3 as key", "id as seq", "id as x")
    p = pipeline(lambda x: x.filter(lambda v: v > 2).cumulate(lambda a, v: a + v, start=1).decimate(2), x=int)
    made = window_frame(
        p.graph, df, [F.col("x")], key=[("key", F.col("key"))], order=[("seq", F.col("seq"))], ansi=True, sure=[True]
    )
    text = made._jdf.queryExecution().executedPlan().toString()
    assert text.count("Exchange ") == 1 and text.count("Sort ") == 1 and "Python" not in text and "Arrow" not in text
