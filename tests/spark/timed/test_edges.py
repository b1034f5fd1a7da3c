"""Event time on Spark at its edges: keys of every type, frames of several sources in one, rows that cannot be read,
nothing at all."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow as pa
import pytest

from pellucid import DataError, Scale, StepError, join, pipeline
from pellucid.internal.expr.types import INT, STR, OptionalType, type_of
from pellucid.spark import explain
from pellucid.spark.frames import Fields, FrameSource
from pellucid.spark.job import SparkJob, packed
from pellucid.spark.timed.batch import run_partition
from pellucid.spark.timed.clock import Times
from pellucid.spark.timed.rows import TimedRunner
from tests.spark.timed.test_batch import multiset, session_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = datetime(2024, 3, 31, 1, 30)
MINUTE = timedelta(minutes=1)


def count(w: Any) -> Any:
    return w.cumulate(lambda n, e: n + 1, start=0)


def test_keys_come_back_in_the_types_of_their_columns() -> None:
    """Dates and times are numbers in the engine, decimals texts, and null may be a key."""
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, count), x=int)
    kinds = [
        (pa.date32(), INT, [date(2024, 1, 1), date(1969, 12, 31)]),
        (pa.timestamp("us", tz="Asia/Kathmandu"), INT, [datetime(y, 1, 1, tzinfo=UTC) for y in (2024, 2)]),
        (pa.timestamp("us"), INT, [T0, datetime.max]),
        (pa.decimal128(7, 3), STR, [Decimal("-0.010"), Decimal("1234.500")]),
        (pa.int16(), INT, [-7, 7]),
        (pa.bool_(), type_of(bool), [True, False]),
        (pa.string(), OptionalType(STR), [None, ""]),
    ]  # fmt: skip
    key = tuple((f"key{i}", t) for i, (_, t, _) in enumerate(kinds))
    fields = Fields((FrameSource("x", INT, ("x",)),), key)
    kept = tuple((name, f"k{i}") for i, (name, _) in enumerate(key))
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[p.graph.outputs[0][1]].type),), kept, ordered=False)
    columns = {f"k{i}": pa.array(values, kind) for i, (kind, _, values) in enumerate(kinds)}
    table = pa.table(columns | {"v0_0": pa.array([3, 4])})
    (out,) = run_partition(packed(job), iter(table.to_batches()))
    assert [out.schema.field(name).type for name, _ in key] == [kind for kind, _, _ in kinds]
    got = {tuple(repr(row[name]) for name, _ in key): (row["start"], row["value"]) for row in out.to_pylist()}
    rows = table.select([f"k{i}" for i in range(len(key))]).to_pylist()
    assert got == {tuple(map(repr, row.values())): (0, 1) for row in rows}


def test_rows_of_several_sources_in_one_frame() -> None:
    """Null is silence, and a row may bring events to both."""
    p = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=1), x=int, y=int)
    fields = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), wide=True)
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[-1].type),), (), ordered=False)
    table = pa.table({"v0_0": pa.array([1, None, 5]), "v1_0": pa.array([5, 2, None])})
    runner = TimedRunner(job)
    rows = [row for part in (*runner.take(table), *runner.finish()) for row in part.to_pylist()]
    assert sorted(map(tuple, (row.values() for row in rows))) == [(1, 2), (5, 5)]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_the_clock_is_that_of_the_rows_that_are_there(wide: bool, both: bool) -> None:
    """A row of another source is none of this one, whatever its columns hold; nor is one that a filter drops."""

    def near(x: Any, y: Any) -> Any:
        a = x.filter(lambda v: v != -9).map(lambda v: v * 2).at(lambda v: v, id="a")
        return join(a, (y.map(lambda v: v + 1) if both else y).at(lambda v: v, id="b"), within=1)

    p = pipeline(near, x=int, y=int)
    fields = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), wide=wide, tagged=not wide)
    times = Times(SparkJob(p.graph, fields, (), (), ordered=False))

    def seen(x: list[int | None], y: list[int | None]) -> dict[str, int]:
        tags = {} if wide else {"s": pa.array([0 if v is not None else 1 for v in x], pa.int32())}
        return times.of(pa.table(tags | {"v0_0": pa.array(x, pa.int64()), "v1_0": pa.array(y, pa.int64())}))

    more = 1 if both else 0
    assert seen([-7, -3, None], [None, None, -5]) == {"a": -6, "b": -5 + more}
    assert seen([None, None], [-8, -5]) == {"b": -5 + more}
    assert seen([-9, -4], [None, None]) == {"a": -8}
    assert seen([-9], [None]) == {}


class Seen(NamedTuple):
    user: str
    when: datetime | None
    paid: Annotated[Decimal, Scale(2)] | None = None


def test_a_row_without_a_time_is_told_with_its_key() -> None:
    p = pipeline(lambda x: x.filter(lambda e: e.user != "nobody").at("when", id="when").tumbling(MINUTE, count), x=Seen)
    fields = Fields((FrameSource("x", type_of(Seen), ("user", "when", "paid")),), (("shop", INT),))
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[-1].type),), (("shop", "k0"),), ordered=False)
    table = pa.table(
        {
            "k0": pa.array([7, 8]),
            "v0_0": pa.array(["nobody", "ada"]),
            "v0_1": pa.array([None, None], pa.timestamp("us")),
            "v0_2": pa.array([None, None], pa.decimal128(5, 2)),
        }
    )
    with pytest.raises(StepError) as caught:
        list(TimedRunner(job).take(table))
    assert "step 'when'" in str(caught.value) and str(caught.value).endswith("from shop=8"), str(caught.value)
    with pytest.raises(DataError, match="the key column 'shop' is null: give every row a key"):
        list(TimedRunner(job).take(table.set_column(0, "k0", pa.array([7, None]))))


class Naive(NamedTuple):
    user: str | None
    when: datetime


@pytest.mark.long
def test_times_without_a_zone_and_nothing_at_all(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.at("when").session(MINUTE, count), x=Naive)
    rows = [("a", T0 + i * MINUTE / 3) for i in range(9)] + [(None, T0), ("a", T0 + 30 * MINUTE)]
    schema = "user string, when timestamp_ntz"
    table = pa.table({"user": [r[0] for r in rows], "when": pa.array([r[1] for r in rows], pa.timestamp("us"))})
    with session_in(spark, "Europe/Berlin"):  # where 2:30 on that day does not exist
        found = p.spark(spark.createDataFrame(rows, schema), key="user").toArrow()
        assert multiset(found.to_pylist()) == multiset(p(table, key="user").to_pylist())
        assert p.spark(spark.createDataFrame([], schema), key="user").toArrow().num_rows == 0
        late = spark.createDataFrame([("a", None)], schema)
        with pytest.raises(Exception, match="when") as caught:
            p.spark(late, key="user").collect()
    assert "column 'when' is null: expected datetime" in str(explain(caught.value))


SCRIPT = """
from __future__ import annotations
import sys
from datetime import datetime, timedelta
from typing import NamedTuple
from pyspark import cloudpickle
from pellucid import join, pipeline
class Payment(NamedTuple):
    when: datetime
    user: int
def timed(x):
    return x.at("when").key_by(lambda e: e.user)
def pairs(a, b):
    return join(timed(a), timed(b), within=timedelta(1)).map(lambda p: (p[0].user, p[1].user))
def made(x):
    return timed(x).tumbling(timedelta(1), lambda w: w.map(lambda e: e.user)).map(lambda w: w.value)
for p in (pipeline(pairs, a=Payment, b=Payment), pipeline(made, x=Payment)):
    p.graph.digest
    sys.stdout.buffer.write(cloudpickle.dumps(p.graph))
"""
WORKER = """
import pickle, sys
from pellucid.internal.engine.timed.engine import TimedEngine
for _ in range(2):
    print(TimedEngine(pickle.load(sys.stdin.buffer)).why_plain)
"""


def test_records_of_a_script_are_events_on_workers() -> None:
    """The class of a record comes with the pipeline there, and the names of its fields' types do not."""
    pytest.importorskip("pyspark")
    sent = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout
    found = subprocess.run([sys.executable, "-c", WORKER], input=sent, capture_output=True, check=False)
    assert found.stdout.decode().split() == ["None", "None"], found.stderr.decode()
