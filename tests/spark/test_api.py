"""``p.spark``: what goes in, what comes out, what is refused."""

from __future__ import annotations

import datetime
import enum
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pellucid import DataError, PellucidError, Pipeline, StateError, Stream, UsageError, apply, merge, pipeline
from pellucid.spark.failure import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


@dataclass(frozen=True)
class Trade:
    side: Side
    price: float
    size: int


@dataclass(frozen=True)
class Level:
    side: Side
    total: int


TOTAL = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="total"), x=int)
CLASH = pipeline(lambda x: {"user": x.cumulate(lambda t, v: t + v, start=0)}, x=int)
DOUBLE = pipeline(lambda x: x.map(lambda v: 2 * v, id="double"), x=int)


def rows(spark: SparkSession, *given: tuple[str, int, int]) -> DataFrame:
    return spark.createDataFrame(list(given), "user string, seq bigint, x bigint")


def values(df: DataFrame, *by: str) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in df.orderBy(*by).collect()]


def test_key_order_value(spark: SparkSession) -> None:
    df = rows(spark, ("b", 1, 5), ("a", 2, 20), ("a", 1, 1))
    out = TOTAL.spark(df, key="user", order="seq")
    assert out.schema.simpleString() == "struct<user:string,seq:bigint,out:bigint>"
    assert values(out, "user", "seq") == [("a", 1, 1), ("a", 2, 21), ("b", 1, 5)]
    renamed = df.selectExpr("user", "seq", "x as amount", "x as other")
    assert values(TOTAL.spark(renamed, value="amount", key=["user"], order=["seq"]), "user", "seq") == values(
        out, "user", "seq"
    )


def test_keys_and_orders_of_many_types(spark: SparkSession) -> None:
    day, time = datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1, 12)
    given = [
        (True, day, Decimal("1.50"), time, 3, "b", 1),
        (True, day, Decimal("1.50"), time, 3, "a", 10),
        (False, day, Decimal("1.50"), time, 3, "c", 100),
    ]
    df = spark.createDataFrame(given, "t boolean, d date, m decimal(5,2), ts timestamp, n tinyint, tie string, x int")
    out = TOTAL.spark(df, key=["t", "d", "m", "n"], order=["ts", "tie"])
    assert [(r.t, r.d, r.m, r.n, r.ts, r.tie, r.out) for r in out.orderBy("t", "tie").collect()] == [
        (False, day, Decimal("1.50"), 3, time, "c", 100),
        (True, day, Decimal("1.50"), 3, time, "a", 10),
        (True, day, Decimal("1.50"), 3, time, "b", 11),
    ]


def test_records_in_and_out(spark: SparkSession) -> None:
    @pipeline
    def depth(trade: Stream[Trade]) -> Stream[Level]:
        return trade.task(lambda total, t: (total + t.size, [Level(t.side, total + t.size)]), 0)

    df = spark.createDataFrame(
        [("a", 1, "BUY", 1.5, 2), ("a", 2, "s", 1.0, 3)], "user string, seq int, side string, price double, size bigint"
    )
    out = depth.spark(df, key="user", order="seq")
    assert out.schema.simpleString() == "struct<user:string,seq:int,side:string,total:bigint>"
    assert values(out, "seq") == [("a", 1, "BUY", 2), ("a", 2, "SELL", 5)]


def test_several_outputs(spark: SparkSession) -> None:
    p = pipeline(
        lambda x: {"sums": x.cumulate(lambda t, v: t + v, start=0), "evens": x.filter(lambda v: v % 2 == 0)}, x=int
    )
    df = rows(spark, ("a", 1, 1), ("a", 2, 2))
    made = p.spark(df, key="user", order="seq")
    assert {name: values(part, "seq") for name, part in made.items()} == {
        "sums": [("a", 1, 1), ("a", 2, 3)],
        "evens": [("a", 2, 2)],
    }
    one = p.spark(df, key="user", order="seq", tag="output")
    assert one.columns == ["user", "seq", "output", "sums", "evens"]
    assert values(one, "output", "seq") == [
        ("a", 2, "evens", None, 2),
        ("a", 1, "sums", 1, None),
        ("a", 2, "sums", 3, None),
    ]


def test_events_of_one_push_are_numbered(spark: SparkSession) -> None:
    p = pipeline(lambda x: merge(x, x.map(lambda v: -v)), x=int)
    assert values(p.spark(rows(spark, ("a", 1, 7)), key="user", order="seq"), "nth") == [
        ("a", 1, 0, 7),
        ("a", 1, 1, -7),
    ]
    assert p.spark(rows(spark, ("a", 1, 7)), nth="number").columns == ["number", "out"]


def test_several_sources(spark: SparkSession) -> None:
    p = pipeline(lambda left, right: apply(lambda a, b: a - b, left, right), left=int, right=int)
    left = spark.createDataFrame([("a", 1, 10), ("a", 3, 30)], "user string, seq int, left int")
    right = spark.createDataFrame([("a", 2, 1), ("a", 3, 2)], "user string, seq int, right int")
    wanted = [("a", 2, 9), ("a", 3, 28)]
    assert values(p.spark(left, right, key="user", order="seq"), "seq") == wanted
    assert values(p.spark({"right": right, "left": left}, key="user", order="seq"), "seq") == wanted
    wide = left.join(right, ["user", "seq"], "outer")
    assert values(p.spark(wide, key="user", order="seq"), "seq") == wanted


def test_a_stateless_pipeline_is_native(spark: SparkSession) -> None:
    df = rows(spark, ("a", 1, 1))
    plan = DOUBLE.spark(df, key="user", order="seq")._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan and "MapInArrow" not in plan and "Exchange" not in plan
    by_hand = df.selectExpr("user", "seq", "2 * x as out")._jdf.queryExecution().executedPlan().toString()
    shape = [line.split("(")[0].split("[")[0].strip(" +-:") for line in plan.splitlines()]
    assert shape == [line.split("(")[0].split("[")[0].strip(" +-:") for line in by_hand.splitlines()]


def test_a_keyed_pipeline_shuffles_once(spark: SparkSession) -> None:
    plan = (
        TOTAL.spark(rows(spark, ("a", 1, 1)), key="user", order="seq")._jdf.queryExecution().executedPlan().toString()
    )
    assert plan.count("Exchange") == 1 and plan.count("Sort ") == 1 and plan.count("MapInArrow") == 1


def test_a_key_inside_the_pipeline(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.key_by(lambda v: v % 2).cumulate(lambda t, v: t + v, start=0), x=int)
    df = rows(spark, *[("", i, i) for i in range(20)])
    assert [r.out for r in p.spark(df, order="seq").orderBy("seq").collect()] == p(list(range(20)))
    assert "inner: one shuffle by the key" in p.spark_plan(key=False)


def test_ansi_overflow_stays_an_error(spark: SparkSession) -> None:
    df = rows(spark, ("a", 1, 2**62))
    for p in (DOUBLE, pipeline(lambda x: x.cumulate(lambda t, v: t + 2 * v, start=0), x=int)):
        with pytest.raises(Exception, match=r"OVERFLOW|IntOverflow|overflow") as error:
            p.spark(df, key="user", order="seq").collect()
        assert "64" in str(explain(error.value))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Exception, match="IntOverflow"):
            DOUBLE.spark(df).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


def test_an_event_with_a_field_of_the_keys_name_gives_its_own(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [("SELL", 1, 1.0, 5), ("BUY", 2, 1.0, 7)], "side string, seq int, price double, size int"
    )
    p = pipeline(lambda x: x.cumulate(lambda t, v: Level(v.side, t.total + v.size), start=Level(Side.BUY, 0)), x=Trade)
    assert values(p.spark(df, key="side", order="seq"), "seq") == [(1, "SELL", 5), (2, "BUY", 7)]
    seen = pipeline(
        lambda x: x.map(lambda v: Level(v.side, v.size)).cumulate(
            lambda t, v: Level(v.side, t.total), start=Level(Side.BUY, 0)
        ),
        x=Trade,
    )
    assert seen.spark(df, key="side", order="seq").columns == ["seq", "side", "total"]


def test_nothing_runs_until_it_is_asked_for(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    df = rows(spark, ("a", 1, 1)).withColumn("x", F.raise_error(F.lit("too early")).cast("bigint"))
    for p, more in ((TOTAL, {"key": "user"}), (TOTAL, {}), (DOUBLE, {})):
        p.spark(df, value="x", order="seq", **more)


@pytest.mark.parametrize(
    ("p", "how", "kind", "message"),
    [
        (
            TOTAL,
            {"key": "user"},
            UsageError,
            "pipeline remembers something (step 'total' (cumulate t + v, test_api.py:",
        ),
        (
            TOTAL,
            {"key": "usr", "order": "seq"},
            DataError,
            "the DataFrame: no key column 'usr': its columns are user, seq, x; did you mean 'user'?",
        ),
        (
            TOTAL,
            {"key": "user", "order": "sq"},
            DataError,
            "the DataFrame: no order column 'sq': its columns are user, seq, x; did you mean 'seq'?",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "value": "user"},
            DataError,
            "the DataFrame: column 'user' holds string: expected int",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "late": "ignore"},
            UsageError,
            "late='ignore': expected fail, drop or keep",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "late": "keep"},
            UsageError,
            "late='keep' gives late rows as an output of their own: say tag='output'",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "native": "yes"},
            UsageError,
            "native='yes': expected auto or off",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "state": "x"},
            UsageError,
            "state= is for streaming DataFrames, and this one is not",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "gaps": "wait", "sequence": 1},
            UsageError,
            "gaps= is for streaming DataFrames",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "partitions": 0},
            UsageError,
            "partitions=0: expected a whole number, at least 1",
        ),
        (TOTAL, {"key": ["user", "user"], "order": "seq"}, UsageError, "key=: the column 'user' is named twice"),
        (
            TOTAL,
            {"key": 3, "order": "seq"},
            UsageError,
            "key=: wants the name of a column, or a list of such names, found 3",
        ),
        (
            TOTAL,
            {"key": "user", "order": "seq", "nth": "out"},
            UsageError,
            "nth='out': there is a column of this name already",
        ),
        (
            CLASH,
            {"key": "user", "order": "seq"},
            UsageError,
            "the column 'user' of the key or order has the name of an output of pipeline: one of them would be lost",
        ),
    ],
)
def test_what_is_refused(
    spark: SparkSession, p: Pipeline, how: dict[str, Any], kind: type[PellucidError], message: str
) -> None:
    with pytest.raises(kind) as error:
        p.spark(rows(spark, ("a", 1, 1)), **how)
    assert str(error.value).startswith(message)


def test_a_key_or_an_order_of_a_wrong_type(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1.5, 1, 1)], "user double, seq int, x int")
    with pytest.raises(DataError) as error:
        TOTAL.spark(df, key="user", order="seq")
    assert str(error.value) == (
        "the DataFrame: the key column 'user' is double: a key is a whole number, a text, a truth value, a date, a "
        "timestamp or a "
        "decimal; round it, or cast it to string"
    )
    with pytest.raises(
        DataError, match="the order column 'user' is double: expected a whole number, a date, a timestamp or a text"
    ):
        TOTAL.spark(df, order="user", value="x")


def test_rows_that_are_refused_are_named(spark: SparkSession) -> None:
    for given, message in [
        ([("a", 1, 1), ("a", 1, 2)], "user='a', seq=1: two rows have this order"),
        ([(None, 1, 1)], "user=None, seq=1: the key column 'user' is null"),
        ([("a", 1, None)], "the DataFrame: user='a', seq=1: column 'x' is null: expected int"),
        ([("a", 1, 1), ("a", 3, 1)], "user='a', seq=3: seq 2 is missing"),
    ]:
        with pytest.raises(Exception, match="pellucid") as error:
            TOTAL.spark(
                spark.createDataFrame(given, "user string, seq int, x int"), key="user", order="seq", sequence=1
            ).collect()
        found = explain(error.value)
        assert isinstance(found, DataError) and str(found).startswith(message)


def test_no_dataframe(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"pipeline.spark wants a Spark DataFrame, found builtins.list"):
        TOTAL.spark([1, 2, 3])
    with pytest.raises(UsageError, match=r"pipeline.spark wants a DataFrame for x"):
        TOTAL.spark()


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    rows(spark, ("a", 1, 1)).write.mode("append").parquet(str(folder))
    return spark.readStream.schema("user string, seq bigint, x bigint").parquet(str(folder))


def test_a_stream_needs_a_place_for_its_state(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"say where with state='FOLDER'"):
        TOTAL.spark(stream_of(spark, tmp_path), key="user", order="seq")
    DOUBLE.spark(stream_of(spark, tmp_path), key="user", order="seq")  # remembers nothing, so keeps nothing


def test_a_state_that_cannot_be_saved_is_refused_before_the_query(spark: SparkSession, tmp_path: Path) -> None:
    odd = pipeline(lambda x: x.task(lambda f, v: (f, [f(v)]), abs, to=int, id="odd"), x=int)
    for how in ({"state": str(tmp_path / "state")}, {"store": "spark"}):
        with pytest.raises(
            StateError,
            match=r"step 'odd' .*: its state cannot be saved: state is a builtin_function_or_method, which is not data",
        ):
            odd.spark(stream_of(spark, tmp_path / "in"), key="user", order="seq", **how)


def run_once(df: DataFrame, folder: Path) -> list[Any]:
    out: list[Any] = []
    query = df.writeStream.foreachBatch(lambda part, _: out.extend(part.collect()))
    query.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()
    return out


def test_a_state_folder_belongs_to_one_query(spark: SparkSession, tmp_path: Path) -> None:
    made = TOTAL.spark(stream_of(spark, tmp_path / "in"), key="user", order="seq", state=str(tmp_path / "state"))
    assert [tuple(r) for r in run_once(made, tmp_path / "check")] == [("a", 1, 1)]
    with pytest.raises(Exception, match="belongs to another run: the query was") as error:
        run_once(made, tmp_path / "another")
    assert isinstance(explain(error.value), PellucidError)
    with pytest.raises(PellucidError, match=r"key was user when it began, and is empty now"):
        TOTAL.spark(stream_of(spark, tmp_path / "in"), order="seq", state=str(tmp_path / "state"))


def test_a_changed_pipeline_goes_on_or_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of(spark, tmp_path / "in")
    where = {"key": "user", "order": "seq", "state": str(tmp_path / "state")}
    run_once(TOTAL.spark(stream, **where), tmp_path / "check")
    rows(spark, ("a", 2, 10)).write.mode("append").parquet(str(tmp_path / "in"))
    changed = pipeline(lambda x: x.map(lambda v: v * 3).cumulate(lambda t, v: t + v, start=0, id="total"), x=int)
    assert [tuple(r) for r in run_once(changed.spark(stream, **where), tmp_path / "check")] == [("a", 2, 31)]
    other = pipeline(lambda x: x.trim(1, id="cut"), x=int)
    with pytest.raises(PellucidError, match="total"):
        other.spark(stream, **where)
    rows(spark, ("a", 3, 5), ("a", 4, 6)).write.mode("append").parquet(str(tmp_path / "in"))
    assert [r.out for r in run_once(other.spark(stream, drop=["total"], **where), tmp_path / "check")] == [6]


def test_a_session_of_the_user_is_not_stopped(spark: SparkSession) -> None:
    TOTAL.spark(rows(spark, ("a", 1, 1)), key="user", order="seq").count()
    assert spark.range(1).count() == 1


# The lines of docs/how-to-spark.md, and those of the README that need Spark, run in their order on a real one.

ROOT = Path(__file__).parents[2]


def run_blocks(page: Path, *, only: str = "") -> tuple[dict[str, Any], int]:
    """Run a page's Python blocks; every `call   # result` must come out. The names, and how many results there were."""
    space: dict[str, Any] = {"__name__": "__main__"}  # as in a script: its functions travel with the job
    checked, waiting = 0, ""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        if block.startswith(">>>") or not re.search(only, block):
            continue  # tests/test_docs.py runs those
        for part in re.split(r"(?<=\n)(?=\S)", block):  # what a line shows must hold where it stands
            shown = (
                re.match(r"^(?!print)(\S.*?)\s\s+# (\[.*\]|True|False|\d+)$", part.rstrip()) if not waiting else None
            )
            if shown:
                assert eval(shown[1], space) == eval(shown[2]), part
                checked += 1
                continue
            waiting += part
            try:
                code = compile(waiting, page.name, "exec", dont_inherit=True)  # as a script of its own
            except SyntaxError:
                continue  # a decorator, or the first half of a try
            exec(code, space)
            waiting = ""
        assert not waiting
    return space, checked


def test_the_page_is_true(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space, checked = run_blocks(ROOT / "docs" / "how-to-spark.md")
    assert checked == 17
    assert "step 'total' (cumulate) is gone" in capsys.readouterr().out
    assert space["spark"] is spark


def test_the_readme_is_true_on_spark(spark: SparkSession) -> None:
    _, checked = run_blocks(ROOT / "README.md", only="def sum_of_odds|pellucid.spark")
    assert checked == 1
