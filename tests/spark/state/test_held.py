"""Rows that wait: checked before they wait, and read afterwards as they were read when they came."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pellucid import DataError, Pipeline, StateError, pipeline
from pellucid.internal.expr.types import INT, STR, Type
from pellucid.spark.frames import Fields, FrameSource, Late, SparkJob
from pellucid.spark.native import cut, front, split
from pellucid.spark.step import Runner
from pellucid.spark.stream import Bucket, held_about, run_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

TOTAL = pipeline(lambda amount: amount.cumulate(lambda t, v: t + v, start=0, id="total"), amount=int)
FRONT = pipeline(
    lambda amount: (
        amount.filter(lambda v: v > 3).map(lambda v: v * 100).cumulate(lambda t, v: t + v, start=0, id="total")
    ),
    amount=int,
)
WAIT, GAPS = Late(wait=10), Late(sequence=1, gaps="wait")


class One(NamedTuple):
    a: int


class Two(NamedTuple):
    a: int
    b: int


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Half(enum.Enum):
    BUY = 1


def job_of(p: Pipeline = TOTAL, late: Late = WAIT, *columns: str, types: dict[str, str] | None = None) -> SparkJob:
    node = p.graph.nodes[p.graph.sources[0]]
    names = columns or tuple(path or node.id for path, _ in node.type.leaves())
    kinds = {"k0": "string", "o0": "bigint"} | {f"v0_{j}": "bigint" for j in range(len(names))} | (types or {})
    fields = Fields(
        (FrameSource(node.id, node.type, names),), (("account", STR),), (("seq", INT),), types=tuple(kinds.items())
    )
    outputs = tuple((name, p.graph.nodes[at].type) for name, at in p.graph.outputs)
    return SparkJob(p.graph, fields, outputs, (("account", "k0"), ("seq", "o0")), late=late)


def table(rows: Rows, kind: Any = None) -> Any:
    """(account, seq, values …) as the frame has them."""
    columns = {"k0": pa.array([r[0] for r in rows], pa.string()), "o0": pa.array([r[1] for r in rows], pa.int64())}
    columns |= {f"v0_{j}": pa.array([r[2 + j] for r in rows], kind or pa.int64()) for j in range(len(rows[0]) - 2)}
    return pa.table(columns)


def saved(job: SparkJob, rows: Rows, kind: Any = None) -> tuple[bytes, bytes]:
    bucket = Bucket(Runner(job))
    run_bucket(job, bucket, table(rows, kind))
    assert bucket.held is not None and bucket.read_as == held_about(job)
    return bucket.save()


def gone_on(job: SparkJob, state: tuple[bytes, bytes], rows: Rows, kind: Any = None) -> list[tuple[Any, ...]]:
    """What comes of further rows, in a bucket that goes on from a state of another job."""
    bucket = Bucket(Runner(job))
    bucket.load(*state, same=False)
    return [tuple(r.values()) for b in run_bucket(job, bucket, table(rows, kind)) for r in b.to_pylist()]


# ------------------------------------------------------------------ read as they were


def test_what_does_not_matter_to_a_row_may_change() -> None:
    state = saved(job_of(), [("a", 1, 5)])
    assert gone_on(job_of(late=Late(wait=2)), state, [("a", 4, 7)]) == [("a", 1, 5)]
    assert gone_on(job_of(late=Late("drop")), state, [("a", 4, 7)]) == [("a", 1, 5), ("a", 4, 12)]
    negative = pipeline(
        lambda amount: amount.map(lambda v: -v).cumulate(lambda t, v: t + v, start=0, id="total"), amount=int
    )
    assert gone_on(job_of(negative), state, [("a", 20, 7)]) == [("a", 1, -5)]
    renamed = pipeline(lambda sum: sum.cumulate(lambda t, v: t + v, start=0, id="total"), sum=int)
    assert gone_on(job_of(renamed, WAIT, "amount"), state, [("a", 20, 7)]) == [("a", 1, 5)]


def test_a_wider_or_narrower_number_is_the_same_number() -> None:
    narrow, wide = job_of(types={"v0_0": "int"}), job_of()
    state = saved(narrow, [("a", 1, 5)], pa.int32())
    assert gone_on(wide, state, [("a", 20, 2**40), ("a", 2, 2**40)]) == [("a", 1, 5), ("a", 2, 5 + 2**40)]
    assert gone_on(narrow, saved(wide, [("a", 1, 5)]), [("a", 20, 7)], pa.int32()) == [("a", 1, 5)]
    with pytest.raises(
        StateError,
        match=r"1 row waits in a bucket of the state: what waits cannot be read as new rows are \(Integer value "
        r"1099511627776",
    ):
        gone_on(narrow, saved(wide, [("a", 1, 2**40)]), [("a", 20, 7)], pa.int32())


def test_another_column_is_refused() -> None:
    state = saved(job_of(TOTAL, WAIT, "amount"), [("a", 1, 100), ("b", 2, 7)])
    with pytest.raises(StateError) as error:
        Bucket(Runner(job_of(TOTAL, WAIT, "fee"))).load(*state, same=True)
    assert str(error.value) == (
        "2 rows wait in a bucket of the state: read as key account (string), order seq (bigint), amount (bigint), but "
        "now rows are read as "
        "key account (string), order seq (bigint), fee (bigint); go on with the columns as they were until none waits "
        "(without wait= all go on "
        "with the next rows of their bucket), or start again with a new state folder and a new checkpoint"
    )


def test_another_type_is_refused() -> None:
    state = saved(job_of(), [("a", 1, 5)])
    for column, kind in (("o0", "timestamp"), ("k0", "decimal(5,2)"), ("v0_0", "boolean")):
        with pytest.raises(
            StateError,
            match=rf"1 row waits .* but now rows are read as .*\({kind.replace('(', '.').replace(')', '.')}\)",
        ):
            Bucket(Runner(job_of(types={column: kind}))).load(*state, same=True)


def test_a_record_with_a_field_more_is_refused() -> None:
    one = pipeline(lambda x: x.map(lambda r: r.a).cumulate(lambda t, v: t + v, start=0, id="total"), x=One)
    two = pipeline(lambda x: x.map(lambda r: r.a + r.b).cumulate(lambda t, v: t + v, start=0, id="total"), x=Two)
    with pytest.raises(
        StateError, match=r": read as .*, a \(bigint\), but now rows are read as .*, a \(bigint\), b \(bigint\);"
    ):
        gone_on(job_of(two), saved(job_of(one), [("a", 1, 1)]), [("a", 20, 1, 5)])


def without_front(job: SparkJob) -> SparkJob:
    """The job as `prefix.cut` leaves it: the first steps are done before the rows come."""
    chain = front(job.graph)
    _, rest = split(job.graph, chain)
    source = replace(job.fields.sources[0], type=chain[-1].type)  # the same name: nothing else may tell the two apart
    return replace(job, graph=rest, fields=replace(job.fields, sources=(source,)))


def test_steps_before_the_shuffle_do_not_miss_a_row() -> None:
    """With ``wait=`` all steps run behind it; without, the first run before: a row that waits would not get them."""
    state = saved(job_of(FRONT), [("a", 1, 1), ("a", 2, 5)])
    later = job_of(FRONT, Late())
    assert gone_on(later, state, [("a", 3, 7)]) == [("a", 2, 500), ("a", 3, 1200)]
    assert later.front == "" and without_front(later).front
    with pytest.raises(StateError) as error:
        Bucket(Runner(without_front(later))).load(*state, same=False)
    assert str(error.value).startswith(
        "2 rows wait in a bucket of the state: as the DataFrame has them, but now Spark does the first steps before a "
        "row comes here; go on "
        "with native='off' until none waits"
    )


def test_a_job_knows_its_front(spark: SparkSession) -> None:
    from pellucid.spark.frames import one_frame
    from pellucid.spark.native import leaves_of

    df = spark.createDataFrame([("a", 1, 5)], "account string, seq bigint, amount int")
    frame = one_frame(FRONT.graph, {None: df}, value=None, key=["account"], order=["seq"])
    assert frame.fields.types == (("k0", "string"), ("o0", "bigint"), ("v0_0", "int"))
    for late, fronted in ((Late(), True), (WAIT, False), (GAPS, False)):
        job = replace(job_of(FRONT, late), fields=frame.fields)
        made, _ = cut(job, frame, *leaves_of(frame), ansi=True)
        assert bool(held_about(made)["front"]) == bool(made.front) == fronted


def test_another_key_by_is_refused() -> None:
    def by(n: int) -> SparkJob:
        p = pipeline(
            lambda amount: amount.key_by(lambda v: v % n).cumulate(lambda t, v: t + v, start=0, id="total"), amount=int
        )
        made = job_of(p)
        return replace(made, external=False, fields=replace(made.fields, key=(("key_by", INT),)), kept=(("seq", "o0"),))

    rows = pa.table({"k0": pa.array([1]), "o0": pa.array([1]), "v0_0": pa.array([5])})
    bucket = Bucket(Runner(by(2)))
    run_bucket(by(2), bucket, rows)
    Bucket(Runner(by(2))).load(*bucket.save(), same=True)
    with pytest.raises(
        StateError,
        match=r"1 row waits .* key_by made the key by v0 % 2, but now by v0 % 3; go on with key_by as it was",
    ):
        Bucket(Runner(by(3))).load(*bucket.save(), same=False)


def test_a_row_that_a_new_pipeline_cannot_take_is_refused_at_the_start() -> None:
    def count(t: Any) -> Pipeline:
        return pipeline(lambda side: side.cumulate(lambda n, s: n + 1, start=0, id="count"), side=t)

    state = saved(job_of(count(Side)), [("a", 1, 2)])
    with pytest.raises(
        StateError,
        match=r"what waits does not fit the pipeline any more \(the DataFrame: account='a', seq=1: column 'side': "
        r"expected a member of Half",
    ):
        gone_on(job_of(count(Half)), state, [("a", 20, 1)])


def test_a_state_that_does_not_say_goes_on_as_before() -> None:
    bucket = Bucket(Runner(job_of()))
    run_bucket(job_of(), bucket, table([("a", 1, 5)]))
    state, extra = bucket.save()
    about = json.dumps(held_about(job_of()), sort_keys=True)
    assert about.encode() in extra
    silent = extra.replace(b"pellucid.read_as", b"pellucid.nothing")  # what nobody knows does not count
    assert gone_on(job_of(TOTAL, WAIT, "fee"), (state, silent), [("a", 20, 7)]) == [("a", 1, 5)]


# ------------------------------------------------------------------ checked before they wait


def poison(late: Late, p: Pipeline, rows: Rows, kind: Any = None) -> str:
    """The refusal of a micro-batch that has a bad row among those that would wait."""
    job = job_of(p, late)
    bucket = Bucket(Runner(job))
    with pytest.raises(DataError) as error:
        run_bucket(job, bucket, table(rows, kind))
    assert bucket.held is None
    return str(error.value)


@pytest.mark.parametrize("late", [WAIT, GAPS])
def test_no_bad_row_waits(late: Late) -> None:
    key = "account=None, seq=2: the key column 'account' is null: give every row a key, or leave such rows out"
    assert poison(late, TOTAL, [(None, 2, 5), ("a", 3, 5)]) == key
    value = (
        "the DataFrame: account='a', seq=3: column 'amount' is null: expected int; fill it, remove the row, or "
        "declare it as int | None"
    )
    assert poison(late, TOTAL, [("a", 2, 5), ("a", 3, None)]) == value
    order = "account='a', seq=None: the order column 'seq' is null: give every row an order, or leave such rows out"
    assert poison(late, TOTAL, [("a", 2, 5), ("a", None, 5)]) == order
    mean = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0.0), x=float)
    assert "account='a', seq=2: column 'x' is NaN" in poison(late, mean, [("a", 2, math.nan)], pa.float64())
    sides = pipeline(lambda side: side.cumulate(lambda n, s: n + 1, start=0), side=Side)
    assert "account='a', seq=2: column 'side': expected a member of Side (BUY, SELL), found 3" in poison(
        late, sides, [("a", 2, 3)]
    )


def tagged(t: Type, rows: Rows) -> tuple[SparkJob, Any]:
    p = pipeline(lambda left, right: left.cumulate(lambda n, v: n + v, start=0) + right, left=int, right=int)
    sources = tuple(FrameSource(n, t, ("v",)) for n in ("left", "right"))
    fields = Fields(sources, (("account", STR),), (("seq", INT),), tagged=True)
    columns = {"k0": [r[0] for r in rows], "o0": [r[1] for r in rows], "s": pa.array([r[2] for r in rows], pa.int32())}
    columns |= {f"v{s}_0": pa.array([r[3] if r[2] == s else None for r in rows], pa.int64()) for s in (0, 1)}
    return SparkJob(p.graph, fields, (("out", INT),), (("account", "k0"), ("seq", "o0")), late=WAIT), pa.table(columns)


def test_two_rows_of_a_source_in_one_push_do_not_wait_either() -> None:
    """Nothing that can be said afterwards would get them apart: the order cannot change."""
    job, rows = tagged(INT, [("a", 1, 0, 5), ("a", 1, 1, 6), ("a", 2, 1, 7)])
    bucket = Bucket(Runner(job))
    assert run_bucket(job, bucket, rows) == [] and bucket.held.num_rows == 3
    job, rows = tagged(INT, [("a", 1, 0, 5), ("a", 1, 0, 6)])
    with pytest.raises(DataError, match="account='a', seq=1: the source 'left' has two rows of this order"):
        run_bucket(job, Bucket(Runner(job)), rows)


def test_a_late_row_that_is_dropped_is_not_looked_at() -> None:
    job = job_of(late=Late("drop", wait=10))
    bucket = Bucket(Runner(job))
    run_bucket(job, bucket, table([("a", 1, 1), ("a", 20, 2)]))
    assert run_bucket(job, bucket, table([("a", 0, None)])) == []
