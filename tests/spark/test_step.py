"""The columnar step and the bucket, without Spark: random pipelines, keys, micro-batches, against the interpreter."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import DataError, Pipeline, StepError, pipeline
from pellucid.internal.expr.types import INT, STR
from pellucid.spark.frames import Fields, FrameSource, Late, SparkJob, packed, unpacked
from pellucid.spark.step import Runner, in_chunks
from pellucid.spark.stream import Bucket, in_order, run_bucket
from tests.spark.worlds import Failed, Row, expected, found, rows_of, table_of, tables_of
from tests.strategies import Seeded, make_input, make_pipeline


def job_of(p: Pipeline, key: Any, *, tagged: bool, late: Late | None = None) -> SparkJob:
    sources = tuple(
        FrameSource(n.id, n.type, tuple(path or n.id for path, _ in n.type.leaves()))
        for n in (p.graph.nodes[i] for i in p.graph.sources)
    )
    several = len(sources) > 1
    fields = Fields(sources, (("user", key),), (("seq", INT),), tagged=several and tagged, wide=several and not tagged)
    outputs = tuple((name, p.graph.nodes[at].type) for name, at in p.graph.outputs)
    kept = (("user", "k0"), ("seq", "o0"))
    return SparkJob(p.graph, fields, outputs, kept, late=late or Late(), nth="nth", tag="output")


def frame_of(p: Pipeline, job: SparkJob, rows: list[Row]) -> Any:
    """The internal frame of some rows, as an Arrow table."""
    if not job.fields.tagged:
        wide = table_of(p, rows).flatten()
        return wide.rename_columns(_internal(p, wide.column_names))
    parts = []
    for s, (name, table) in enumerate(tables_of(p, rows).items()):
        t = p.graph[name].type
        columns = {"k0": table["user"], "o0": table["seq"], "s": pa.array([s] * len(table), pa.int32())}
        columns |= {f"v{s}_{j}": table[path or name] for j, (path, _) in enumerate(t.leaves())}
        parts.append(pa.table(columns))
    return pa.concat_tables(parts, promote_options="default")


def _internal(p: Pipeline, names: list[str]) -> list[str]:
    known = {"user": "k0", "seq": "o0"}
    several = len(p.graph.sources) > 1
    for s, at in enumerate(p.graph.sources):
        node = p.graph.nodes[at]
        for j, (path, _) in enumerate(node.type.leaves()):
            name = (f"{node.id}.{path}" if several else path) if path else node.id
            known[name] = f"v{s}_{j}"
    return [known[n] for n in names]


def drawn(data: Any, **limits: Any) -> tuple[Pipeline, list[Row], random.Random]:
    limits = {"max_steps": 6} | limits
    c = Seeded(data.draw(st.integers(0, 2**32), label="seed"))
    p = make_pipeline(c, **limits)
    keys = data.draw(st.sampled_from([[1, 2, 3], ["a", "b", "ß"], [7]]), label="keys")
    return p, rows_of(make_input(c, p, data.draw(st.integers(0, 24), label="size")), keys, c.rng), c.rng


@settings(max_examples=40)
@given(st.data())
def test_a_batch_equals_the_interpreter(data: Any) -> None:
    p, rows, rng = drawn(data)
    job = job_of(p, STR if rows and isinstance(rows[0].key, str) else INT, tagged=rng.random() < 0.5)
    job = unpacked(packed(job))  # as a worker has it
    rng.shuffle(shuffled := list(rows))
    table = in_order(job, frame_of(p, job, shuffled))
    runner = Runner(job)
    out: list[Any] = []
    size = rng.choice([1, 3, 100])
    try:
        for chunk in in_chunks(iter(table.to_batches(max_chunksize=size)), job.fields.tagged):
            out += runner.push(chunk).out
    except StepError:
        with pytest.raises(Failed):
            expected(p, rows)
        return
    assert found(p, [r for b in out for r in b.to_pylist()]) == expected(p, rows)


@settings(max_examples=40)
@given(st.data())
def test_micro_batches_equal_the_interpreter(data: Any) -> None:
    """Boundaries anywhere, state saved and loaded anywhere, some micro-batches run twice."""
    p, rows, rng = drawn(data)
    job = job_of(p, STR if rows and isinstance(rows[0].key, str) else INT, tagged=rng.random() < 0.5)
    bucket = Bucket(Runner(job))
    saved = bucket.save()
    out: list[Any] = []
    at = 0
    try:
        while at < len(rows):
            stop = at + rng.choice([1, 2, 5, 20])
            part = rows[at:stop]
            rng.shuffle(part)
            if rng.random() < 0.5:
                bucket = Bucket(Runner(job))
                bucket.load(*saved, same=True)
            got = run_bucket(job, bucket, frame_of(p, job, part))
            if rng.random() < 0.3:  # a repeated micro-batch
                again = Bucket(Runner(job))
                again.load(*saved, same=True)
                rng.shuffle(part)
                twice = run_bucket(job, again, frame_of(p, job, part))
                assert [b.to_pylist() for b in got] == [b.to_pylist() for b in twice]
                bucket = again
            out += got
            saved = bucket.save()
            at = stop
    except StepError:
        with pytest.raises(Failed):
            expected(p, rows)
        return
    assert found(p, [r for b in out for r in b.to_pylist()]) == expected(p, rows)


def test_a_failure_names_its_row_and_its_push_only_where_that_is_the_streams() -> None:
    """Among the rows of many keys, or behind a filter that Spark has done, the number of a push in a partition says
    nothing."""
    p = pipeline(lambda x: x.map(lambda v: 12 // v, id="twelfth").cumulate(lambda t, v: t + v, start=0), x=int)
    rows = [Row("a", 4, {"x": 3}), Row("b", 5, {"x": 2}), Row("b", 6, {"x": 0})]
    keyed = job_of(p, STR, tagged=False)
    alone = replace(keyed, fields=replace(keyed.fields, key=()), kept=(("seq", "o0"),))
    for job, where, number, row in (
        (keyed, "failed on the event 0", -1, "user='b', seq=6"),
        (alone, "failed at push 2 on the event 0", 2, "seq=6"),
        (replace(alone, ordered=False), "failed on the event 0", -1, "seq=6"),
        (replace(alone, asked="the pipeline before its front was cut off"), "failed on the event 0", -1, "seq=6"),
    ):
        with pytest.raises(StepError) as error:
            Runner(job).push(frame_of(p, job, rows))
        assert where in str(error.value) and str(error.value).endswith(f"\n  from {row}")
        assert (error.value.step, error.value.position) == ("twelfth", number)


# ------------------------------------------------------------------ order

TOTAL = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)


def steps(late: Late, *batches: list[tuple[str, int, int]], p: Pipeline = TOTAL) -> list[tuple[str, int, int]]:
    """Micro-batches of (user, seq, x) through the total: (user, seq, total), in the order in which they come out."""
    job = job_of(p, STR, tagged=False, late=late)
    bucket = Bucket(Runner(job))
    out: list[Any] = []
    for batch in batches:
        fresh = Bucket(Runner(job))
        fresh.load(*bucket.save(), same=True)
        bucket = fresh
        rows = [Row(u, s, {"x": x}) for u, s, x in batch]
        out += [r for b in run_bucket(job, bucket, frame_of(p, job, rows)) for r in b.to_pylist()]
    return [(r["user"], r["seq"], r["out"] if r["output"] == "out" else r["late"]) for r in out]


def test_rows_are_sorted_within_a_micro_batch() -> None:
    assert steps(Late(), [("a", 2, 20), ("a", 1, 1)], [("a", 3, 300)]) == [("a", 1, 1), ("a", 2, 21), ("a", 3, 321)]


def test_a_late_row_fails_with_key_and_numbers() -> None:
    with pytest.raises(DataError) as error:
        steps(Late(), [("a", 5, 1), ("b", 9, 1)], [("a", 4, 1)])
    assert str(error.value) == (
        "user='a', seq=4: the row is late or doubled: seq=5 of the same key was applied before; choose late='drop' or "
        "late='keep', "
        "or allow for it with wait= (in a stream)"
    )


def test_two_rows_of_one_order_fail() -> None:
    with pytest.raises(DataError) as error:
        steps(Late(), [("a", 5, 1), ("a", 5, 2)])
    assert str(error.value) == (
        "user='a', seq=5: two rows have this order: add a column to order= that tells them apart, or if they are the "
        "same row twice choose late='drop'"
    )


def test_late_rows_are_dropped_or_kept() -> None:
    batches = [("a", 5, 1), ("b", 1, 7)], [("a", 4, 10), ("a", 6, 100), ("a", 5, 1)]
    assert steps(Late("drop"), *batches) == [("b", 1, 7), ("a", 5, 1), ("a", 6, 101)]
    assert steps(Late("keep"), *batches) == [
        ("b", 1, 7),
        ("a", 5, 1),
        ("a", 6, 101),
        ("a", 4, {"x": 10}),
        ("a", 5, {"x": 1}),
    ]


def test_a_row_that_is_there_twice_is_one_row_and_two_that_differ_are_refused_however_they_come() -> None:
    for late in (Late("drop"), Late("drop", sequence=4), Late("keep")):
        out = steps(late, [("a", 4, 0), ("a", 5, 1)], [("a", 5, 1)], [("a", 6, 1), ("a", 6, 1)])
        assert [row for row in out if isinstance(row[2], int)] == [("a", 4, 0), ("a", 5, 1), ("a", 6, 2)]
        for rows in itertools.permutations([("a", 4, 0), ("a", 5, 1), ("a", 5, 2)]):
            with pytest.raises(DataError, match=r"user='a', seq=5: two rows .* not the same values \(x=1 and x=2\)"):
                steps(late, list(rows))
        for one, other in ((1, 2), (2, 1)):
            with pytest.raises(DataError, match=rf"user='a', seq=5: a row .* before, with other .* one \(x={other}\)"):
                steps(late, [("a", 4, 0), ("a", 5, one)], [("b", 4, 0), ("a", 5, other)])


def test_one_answer_however_rows_are_ordered_and_cut() -> None:
    """On one machine, as a batch and as a stream: rows that are there twice, or two that differ."""
    plain = [(user, seq, 10 * seq) for user in "ab" for seq in range(1, 6)]
    for extra, right in (([("a", 2, 20), ("b", 5, 50), ("b", 5, 50)], True), ([("a", 2, 20), ("b", 3, 31)], False)):
        answers = set()
        for seed in range(20):
            rng = random.Random(seed)
            rows = [*plain, *extra]
            rng.shuffle(rows)
            table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(("user", "seq", "x"))})
            stream = sorted(rows, key=lambda row: row[1])  # cut anywhere, also between two rows of one order
            ends = [0, *sorted(rng.sample(range(len(rows)), 4)), len(rows)]
            parts = [stream[a:b] for a, b in itertools.pairwise(ends)]
            job = job_of(TOTAL, STR, tagged=False, late=Late("drop"))
            by_order = pa.concat_tables([frame_of(TOTAL, job, [Row(u, s, {"x": x}) for u, s, x in stream])])

            def batch(job: SparkJob = job, rows: Any = by_order) -> list[Any]:
                out = [r for b in Runner(job).push(rows).out for r in b.to_pylist()]
                return [(r["user"], r["seq"], r["out"]) for r in out]

            def alone(table: Any = table) -> list[Any]:
                return [tuple(r.values()) for r in TOTAL(table, key="user", order="seq", late="drop").to_pylist()]

            for way in (alone, batch, lambda parts=parts: steps(Late("drop"), *parts)):  # type: ignore[misc]
                try:
                    answers.add(str(sorted(way())))
                except DataError as error:
                    answers.add("refused" if "seq=3" in str(error) and "'b'" in str(error) else str(error))
        total = [(user, seq, 5 * seq * (seq + 1)) for user in "ab" for seq in range(1, 6)]
        assert answers == ({str(total)} if right else {"refused"})


def test_rows_of_two_dataframes_are_compared_with_their_own() -> None:
    p = pipeline(lambda x, y: x.cumulate(lambda t, v: t + v, start=0) + y, x=int, y=int)
    job = job_of(p, STR, tagged=True, late=Late("drop"))
    rows = [Row("a", 5, {"x": 1}), Row("a", 5, {"y": 7}), Row("a", 5, {"x": 1})]
    runner = Runner(job)
    assert [r["out"] for b in runner.push(frame_of(p, job, rows)).out for r in b.to_pylist()] == [8]
    assert runner.push(frame_of(p, job, rows[:1])).out == runner.push(frame_of(p, job, rows[1:2])).out == []
    with pytest.raises(DataError, match=r"user='a', seq=5: a row of this order was applied before, .* \(y=8\)"):
        runner.push(frame_of(p, job, [Row("a", 5, {"y": 8})]))
    with pytest.raises(DataError, match=r"user='a', seq=6: two rows .* \(x=1 and x=2\)"):
        runner.push(frame_of(p, job, [Row("a", 6, {"x": 2}), Row("a", 6, {"x": 1})]))


def test_rows_wait_until_the_order_has_gone_on() -> None:
    got = steps(Late(wait=10), [("a", 1, 1)], [("a", 12, 100), ("b", 2, 5)], [("a", 3, 10)], [("b", 30, 0)])
    assert got == [("a", 1, 1), ("b", 2, 5), ("a", 3, 11), ("a", 12, 111)]


def test_a_gap_in_a_sequence_fails_or_waits() -> None:
    batches = [("a", 1, 1), ("a", 3, 100), ("b", 1, 5)], [("a", 4, 1000)], [("a", 2, 10)]
    with pytest.raises(DataError) as error:
        steps(Late(sequence=1), *batches)
    assert str(error.value) == (
        "user='a', seq=3: seq 2 is missing: the sequence must go up by one from 1; find the missing rows, or in a "
        "stream "
        "hold back what comes after them with gaps='wait'"
    )
    got = steps(Late(sequence=1, gaps="wait"), *batches)
    assert got == [("a", 1, 1), ("b", 1, 5), ("a", 2, 11), ("a", 3, 111), ("a", 4, 1111)]


def test_a_null_key_and_a_null_value_are_named() -> None:
    job = job_of(TOTAL, STR, tagged=False)
    bad = pa.table({"k0": pa.array(["a", None]), "o0": [1, 2], "v0_0": [1, 2]})
    with pytest.raises(
        DataError,
        match=r"user=None, seq=2: the key column 'user' is null: give every row a key, or leave such rows out",
    ):
        Runner(job).push(bad)
    bad = pa.table({"k0": ["a", "a"], "o0": [1, 2], "v0_0": pa.array([1, None])})
    with pytest.raises(
        DataError,
        match=r"the DataFrame: user='a', seq=2: column 'x' is null: expected int; fill it, remove the row, or declare "
        r"it as int \| None",
    ):
        Runner(job).push(bad)


def test_a_failing_step_is_told_with_its_row() -> None:
    p = pipeline(lambda x: x.map(lambda v: 10 // v), x=int)
    job = job_of(p, STR, tagged=False)
    with pytest.raises(StepError, match=r"(?s)ZeroDivisionError.*\n  from user='b', seq=4"):
        Runner(job).push(pa.table({"k0": ["a", "b"], "o0": [3, 4], "v0_0": [1, 0]}))


def test_a_job_carries_functions_that_cannot_be_traced() -> None:
    import math

    p = pipeline(lambda x: x.map(lambda v: math.gcd(v, 12), to=int), x=int)
    job = unpacked(packed(job_of(p, INT, tagged=False)))
    out = Runner(job).push(pa.table({"k0": [1], "o0": [1], "v0_0": [18]})).out
    assert out[0].to_pylist()[0]["out"] == 6
