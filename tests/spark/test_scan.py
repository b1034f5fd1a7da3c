"""One stream without keys, cut into chunks: equal to the interpreter, wherever it is cut; and lazily, on Spark."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError, Stream, apply, merge, pipeline
from pellucid.engine.interpreter import Interpreter
from pellucid.errors import DataError, IntOverflow, PellucidError
from pellucid.spark import scan_start, scan_summary
from pellucid.spark.api import Options, run
from pellucid.spark.failure import explain
from pellucid.spark.plan import choose
from pellucid.spark.scan import scannable
from pellucid.spark.scan_parts import Cut, cuts, level_graph
from pellucid.spark.step import Done
from tests.spark.scans import agree, by_interpreter, by_scan, job_of, make_scannable, scanned_by_hand, table_of
from tests.spark.worlds import Row
from tests.strategies import Drawn, Seeded, make_input, make_pipeline


def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


def ints(values: list[int], seqs: list[int] | None = None) -> list[Row]:
    return [Row(None, s, {"x": v}) for s, v in zip(seqs or range(len(values)), values, strict=True)]


# ---------------------------------------------------------------- equal, wherever it is cut


@st.composite
def cases(draw: Any) -> tuple[Pipeline, list[Row], list[int], random.Random]:
    c = Drawn(draw)
    p = make_scannable(c, sources=2)
    assume(isinstance(cuts(p.graph), Cut))
    pushes = make_input(c, p, draw(st.integers(0, 25)))
    seqs = draw(st.lists(st.integers(-(2**40), 2**40) | st.integers(-20, 20), min_size=len(pushes), max_size=len(pushes), unique=True))
    rows = [Row(None, s, push) for s, push in zip(seqs, pushes, strict=True)]
    bounds = sorted(draw(st.lists(st.sampled_from(seqs) if seqs else st.just(0), max_size=6)))
    return p, rows, bounds, draw(st.randoms(use_true_random=False))


@settings(max_examples=150, deadline=None)
@given(cases(), st.booleans())
def test_random_pipelines_are_as_the_interpreter_says(case: Any, sort_first: bool) -> None:
    p, rows, bounds, rng = case
    want, got = by_interpreter(p, rows), by_scan(p, rows, bounds, rng, sort_first=sort_first)
    assert agree(want, got), f"{p.graph}\n{want}\n{got}"


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_larger_random_pipelines(start: int) -> None:
    count = 0
    for seed in range(start, start + 100):
        c = Seeded(seed)
        p = make_scannable(c, most=8, sources=2) if seed % 2 else make_pipeline(c, max_steps=5, keys=False, sources=2)
        if not isinstance(cuts(p.graph), Cut) or not cuts(p.graph).levels:  # type: ignore[union-attr]
            continue
        rng = random.Random(seed)
        seqs = sorted(rng.sample(range(-500, 500), rng.randrange(80)))
        rows = [Row(None, s, push) for s, push in zip(seqs, make_input(c, p, len(seqs)), strict=True)]
        bounds = sorted(rng.choice(seqs) for _ in range(rng.randrange(8)) if seqs)
        want, got = by_interpreter(p, rows), by_scan(p, rows, bounds, rng)
        assert agree(want, got), f"seed {seed}: {p.graph}\n{want}\n{got}"
        count += 1
    assert count > 40


def _nan_for_one(v: float) -> float:
    return v * 1e308 * 10.0 * 0.0 if v == 1.0 else v


def test_float_zeros_keep_their_signs_and_nan_is_no_value() -> None:
    zeros = [0.0, -0.0, 1.0, -0.0, 0.0, -1.0, -0.0, 0.0]
    for f in (lambda t, v: max(t, v), lambda t, v: v if v >= t else t, lambda t, v: min(t, v), lambda t, v: v if v <= t else t):
        for start in (0.0, -0.0, float("inf"), float("-inf"), float("nan")):
            p = pipeline(lambda x, f=f, start=start: x.map(_nan_for_one).cumulate(f, start=start), x=float)
            rows = [Row(None, i, {"x": v}) for i, v in enumerate(zeros)]
            for at in range(1, 8):
                assert agree(by_interpreter(p, rows), by_scan(p, rows, [at, at + 2], random.Random(at)))


def test_a_sum_is_exact_where_a_part_of_it_would_overflow() -> None:
    big = 2**62
    p = pipeline(total, x=int)
    rows = ints([-big, -big, big, big, big, -big, -big])  # the middle alone overflows, the stream does not
    for at in range(1, 7):
        got = by_scan(p, rows, [2, 2 + at], random.Random(at))
        assert agree(by_interpreter(p, rows), got) and not isinstance(got, StepError)
    rows = ints([big, big, -big, 1, 1])
    got = by_scan(p, rows, [2, 3], random.Random(0))
    assert isinstance(got, IntOverflow) and agree(by_interpreter(p, rows), got)


def test_the_failure_is_that_of_the_stream() -> None:
    p = pipeline(lambda x: x.map(lambda v: 12 // v, id="twelfth").decimate(2).cumulate(lambda t, v: t + v, start=0), x=int)
    rows = ints([1, 2, 3, 4, 5, 6, 0, 8, 0, 9])
    for bounds in ([2, 4, 6, 8], [5], [7], []):
        got = by_scan(p, rows, bounds, random.Random(1))
        assert isinstance(got, StepError) and got.position == 6 and got.step == "twelfth"
        assert "failed at push 6 on the event 0" in str(got) and "from seq=6" in str(got)


def test_a_chunk_after_one_that_fails_says_why_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    p = pipeline(lambda x: total(x.map(lambda v: 12 // v, id="twelfth")), x=int)
    begin, seen = scan_start.begin, []

    def watched(runner: Any, cut: Any, level: int, summaries: Any, chunk: int) -> None:
        try:
            begin(runner, cut, level, summaries, chunk)
        except DataError as error:
            seen.append(str(error))
            raise
        if chunk == 1:
            runner.push = lambda table: Done([])  # as if the failing chunk had not failed

    monkeypatch.setattr(scan_start, "begin", watched)
    with pytest.raises(DataError, match=r"^step 'twelfth' .* failed on the event 0"):
        scanned_by_hand(job_of(p), table_of(p, ints([1, 2, 0, 3, 4])), [2, 4], random.Random(1))
    assert seen and "at push" not in seen[0]


def test_several_chunks_in_one_partition_and_empty_ones() -> None:
    p = pipeline(lambda x: total(x.decimate(2)).window(3, lambda w: w.cumulate(lambda t, v: t * 7 % 101 + v, start=1)), x=int)
    rows = ints(list(range(30)), [i * i for i in range(30)])
    for seed in range(20):
        got = by_scan(p, rows, sorted([-5, -5, 3, 4, 4, 100, 101, 5000, 5000]), random.Random(seed))
        assert agree(by_interpreter(p, rows), got)


# ---------------------------------------------------------------- mutants


def _chunk_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan_start.merged
    monkeypatch.setattr(scan_start, "merged", lambda found, steps: real(list(found)[:-1], steps))


def _start_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_start, "_from_start", lambda part, start, total: total)


def _tail_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan_summary._extreme
    monkeypatch.setattr(scan_summary, "_extreme", lambda table, end, k: real(table, end, k - 1 if k > 1 else k))


def _tail_of_the_wrong_end(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scan_summary._extreme
    monkeypatch.setattr(scan_summary, "_extreme", lambda table, end, k: real(table, "early", k))


def _count_of_rows_not_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_summary._Events, "take", lambda self, at: self)


def _wrong_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scan_summary.JOIN, "max", lambda a, b: max(a, b, 0))


def _sums_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_summary, "_reduced", lambda op, v: int(getattr(np, {"add": "sum", "min": "min"}.get(op, "max"))(v)))


@pytest.mark.parametrize(
    "mutant",
    [_chunk_skipped, _start_forgotten, _tail_too_short, _tail_of_the_wrong_end, _count_of_rows_not_events, _wrong_identity, _sums_wrap],
)
def test_mutants_are_caught(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 2**62
    values = [-7, -3, -9, -4, -8, -2, -6, -1, -5, -4, -3]
    ps = [
        (pipeline(lambda x: x.filter(lambda v: v % 2).window(3, lambda w: w.cumulate(lambda t, v: t * 3 + v, start=0)), x=int), values),
        (pipeline(lambda x: x.cumulate(lambda t, v: max(t, v), start=-100), x=int), values),
        (pipeline(lambda x: x.decimate(2).cumulate(lambda t, v: v if v % 2 else t, start=50), x=int), values),
        (pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=7), x=int), [-big, -big, big, big, big, -big, 1, 2, 3, 4, 5]),
    ]

    def all_agree() -> bool:
        for p, found in ps:
            for bounds in ([4, 7], [2, 5]):
                try:
                    if not agree(by_interpreter(p, ints(found)), by_scan(p, ints(found), bounds, random.Random(3))):
                        return False
                except (PellucidError, OverflowError):
                    return False
        return True

    assert all_agree()
    mutant(monkeypatch)
    assert not all_agree()


# ---------------------------------------------------------------- what can be cut, in words


def reasons(p: Pipeline) -> Any:
    found = scannable(p.graph)
    return found if isinstance(found, str) else [reason for _, reason in found]


def test_reasons() -> None:
    p = pipeline(lambda x: x.trim(2).decimate(3).window(4, total).cumulate(lambda t, v: (t[0] + v, max(t[1], v), v), start=(0, 0, 0)), x=int)
    assert reasons(p) == ["a count", "a count", "the last 3 events", "an associative fold (sum, max, last)"]
    assert reasons(pipeline(lambda x: x.window(2, total).cumulate(lambda t, v: t ^ v, start=0), x=int)) == [
        "the last 1 event",
        "an associative fold (^)",
    ]


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda x: x.task(lambda s, v: (s + v, [s]), 0, id="a"), int, "step 'a' (task λ) is a general task: its state can be anything"),
        (lambda x: x.cumulate(lambda t, v: t + v, start=0.0, id="a"), float, "step 'a' (cumulate t + v): a sum of floats is not associative: cut elsewhere, it is rounded elsewhere"),
        (lambda x: x.cumulate(lambda t, v: t * v, start=1, id="a"), int, "step 'a' (cumulate t * v): its function is no associative fold, such as t + v, max(t, v) or t and v"),
        (lambda x: x.cumulate(lambda t, v: t + v if t < 9 else 0, start=1, id="a"), int, "step 'a' (cumulate t + v if t < 9 else 0): its function is no associative fold, such as t + v, max(t, v) or t and v"),
        (lambda x: x.cumulate(lambda t, v: (t[1], t[0] + v), start=(0, 0), id="a"), int, "step 'a' (cumulate t.1, t.0 + v): its function is no associative fold, such as t + v, max(t, v) or t and v"),
        (lambda x: x.cumulate(lambda t, v: t and 9 // v > 1, start=True, id="a"), int, "step 'a' (cumulate t and 9 // v > 1): what follows the old value in its 'and' may fail, and is not evaluated for every event"),
        (lambda x: x.map(lambda v: v - v).cumulate(lambda t, v: max(v, t), start=0.0, id="a"), float, "step 'a' (cumulate t if v < t else v): a value may be NaN, which ends its minimum or maximum"),
        (lambda x: apply(lambda a, b: a + b, x.filter(lambda v: v > 1), x, id="a"), int, "step 'a' (apply a + b) waits for its inputs: what waits depends on all that came before"),
        (lambda x: x.key_by(lambda v: v % 3).trim(2, id="a"), int, "step 'a' (trim) keeps one state for each key that the pipeline makes"),
        (lambda x: x.window(200_000, total, id="a"), int, "step 'a' (window) has a window of 200,000 events, too many to send to every chunk (at most 100,000)"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_and_why(build: Any, kind: type, message: str) -> None:
    import re

    found = scannable(pipeline(build, x=kind).graph)
    assert isinstance(found, str)
    assert re.sub(r", [\w<>]+\.py:\d+\)", ")", found) == message


def test_functions_that_cannot_be_read_are_not_called_twice() -> None:
    seen: list[int] = []

    def note(v: int) -> int:
        seen.append(v)
        return v

    found = scannable(pipeline(lambda x: x.map(note, id="m").trim(2, id="a"), x=int).graph)
    assert isinstance(found, str) and found.startswith("step 'a' (trim") and "note()" in found
    assert found.endswith("and would be called more than once for an event")
    assert reasons(pipeline(lambda x: x.trim(2).map(note), x=int)) == ["a count"]


def test_the_plan_says_it() -> None:
    p = pipeline(lambda x: x.trim(2, id="t").cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    plan = choose(p.graph, key=False, order=True)
    assert plan.way == "scan" and len(plan.reasons) == 2
    assert "step 'sum' (cumulate t + v, test_scan.py:" in plan.reasons[1] and plan.reasons[1].endswith("an associative fold (sum)")
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0.0, id="sum"), x=float)
    plan = choose(p.graph, key=False, order=True)
    assert plan.way == "one" and "it has no key, and cannot be cut into chunks: step 'sum'" in str(plan)


def test_a_level_runs_only_what_it_needs() -> None:
    p = pipeline(lambda x: x.decimate(2, id="d").map(lambda v: 1 // v, id="m").cumulate(lambda t, v: t + v, start=0, id="s").map(lambda v: v + 1), x=int)
    found = cuts(p.graph)
    assert isinstance(found, Cut)
    assert [node.id for node in level_graph(found, 0).nodes] == ["x", "d"]
    assert [node.id for node in level_graph(found, 1).nodes] == ["x", "d", "m", "s"]


# ---------------------------------------------------------------- on Spark


def on_spark(spark: Any, p: Pipeline, df: Any, partitions: int | None = 5, **more: Any) -> list[tuple[Any, ...]]:
    out = run(p.graph, [df], {}, Options(order="seq", partitions=partitions, **more))
    assert "MapInArrow" in out._jdf.queryExecution().toString()
    return sorted(tuple(r) for r in out.collect())


def oracle(p: Pipeline, rows: list[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    it = Interpreter(p.graph)
    return [(seq, e) for seq, v in sorted(rows) for e in it.push(x=v)["out"]]


MANY = pipeline(lambda x: total(x.filter(lambda v: v % 3 != 1).decimate(2)).window(4, lambda w: w.cumulate(lambda t, v: t * 5 % 97 + v, start=0)), x=int)
SUM = pipeline(total, x=int)


def _moment(i: int) -> datetime:
    return datetime(2024, 3, 30, 12) + timedelta(seconds=i * 997, microseconds=i)


@pytest.mark.parametrize("p", [SUM, MANY], ids=["one level", "three levels"])
@pytest.mark.parametrize(
    ("kind", "seqs"),
    [
        ("bigint", list(range(300))),
        ("bigint", [-(2**63), -4, 0, 2**63 - 1, *range(10, 200)]),  # most are close together
        ("int", [5]),
        ("int", []),
        ("smallint", [-3, 7, 1]),
        ("date", [date(1969, 12, 1) + timedelta(days=i) for i in range(60)]),
        ("timestamp", [_moment(i) for i in range(150)]),
        ("timestamp_ntz", [_moment(i) for i in range(150)]),  # over a change to summer time
        ("string", [f"{i * 37 % 1009:05}é" for i in range(200)]),
    ],
    ids=lambda v: v if isinstance(v, str) else str(len(v)) if isinstance(v, list) else None,
)
def test_orders_of_every_kind(spark: Any, p: Pipeline, kind: str, seqs: list[Any]) -> None:
    rng = random.Random(len(seqs))
    rows = [(s, rng.randrange(-50, 50)) for s in seqs]
    shuffled = rng.sample(rows, len(rows))
    df = spark.createDataFrame(shuffled, f"seq {kind}, x bigint").repartition(3)
    assert on_spark(spark, p, df) == oracle(p, rows)


def test_many_rows_through_compiled_kernels(spark: Any) -> None:
    rng = random.Random(5)
    rows = [(i * 3 - 1000, rng.randrange(-1000, 1000)) for i in range(70_000)]
    df = spark.createDataFrame(rng.sample(rows, len(rows)), "seq bigint, x bigint").repartition(4)
    assert on_spark(spark, MANY, df, None) == oracle(MANY, rows)
    out = run(MANY.graph, [df], {}, Options(order="seq", partitions=6))
    sizes = out.rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).collect()
    assert len(sizes) == 6 and min(sizes) > max(sizes) / 2  # all chunks have about equal work


def test_several_outputs_and_tie_breakers(spark: Any) -> None:
    p = pipeline(lambda x: {"sums": total(x), "low": x.cumulate(lambda t, v: min(t, v), start=99)}, x=int)
    rng = random.Random(2)
    rows = [(day, i, rng.randrange(100)) for day in range(7) for i in range(rng.randrange(30))]
    df = spark.createDataFrame(rng.sample(rows, len(rows)), "day int, i int, x bigint").repartition(2)
    out = run(p.graph, [df], {}, Options(order=["day", "i"], step="output", partitions=4))
    it, want = Interpreter(p.graph), []
    for day, i, v in sorted(rows):
        want += [(day, i, name, e) for name, events in it.push(x=v).items() for e in events]
    got = [(r["day"], r["i"], r["output"], r[r["output"]]) for r in out.collect()]
    assert sorted(got) == sorted(want)


def test_nothing_runs_until_somebody_asks(spark: Any) -> None:
    df = spark.range(100).selectExpr("id as seq", "id as x")
    spark.sparkContext.setJobGroup("lazy-scan", "no job may run")
    out = run(MANY.graph, [df], {}, Options(order="seq"))
    assert list(out.columns) == ["seq", "out"]
    out.explain(True)
    tracker = spark.sparkContext.statusTracker()
    assert list(tracker.getJobIdsForGroup("lazy-scan")) == []
    assert out.count() > 0
    assert len(tracker.getJobIdsForGroup("lazy-scan")) > 0
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_sorted_passes_share_one_shuffle(spark: Any, tmp_path: Any) -> None:
    spark.range(1000).selectExpr("id as seq", "id as x").write.parquet(str(tmp_path / "rows"))
    df = spark.read.parquet(str(tmp_path / "rows"))
    out = run(MANY.graph, [df], {}, Options(order="seq", partitions=3))
    plan = out._jdf.queryExecution()
    out._jdf.collectToPython()
    text = plan.executedPlan().toString()
    assert "ReusedExchange [o0#" in text  # by passes 2 and 3, or by the run


def failure_of(df: Any) -> str:
    with pytest.raises(Exception) as caught:
        df.collect()
    found = explain(caught.value)
    assert found is not None
    return f"{type(found).__name__}: {found}"


def test_doubled_and_missing_orders(spark: Any) -> None:
    rows = [(i, 1) for i in range(50)] + [(20, 5)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    said = failure_of(run(SUM.graph, [df], {}, Options(order="seq", partitions=4)))
    assert said == "DataError: seq=20: two rows have this order: add a column to order= that tells them apart, or with late='drop' keep the first"
    rows = [(i, 1) for i in range(50)] + [(None, 5)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    said = failure_of(run(SUM.graph, [df], {}, Options(order="seq", partitions=4)))
    assert said == "DataError: seq=None: the order column 'seq' is null: give every row an order, or leave such rows out"


def test_late_drop_keeps_the_first_in_every_pass(spark: Any) -> None:
    rows = [(i, i) for i in range(60) for _ in range(1 + i % 3)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    for p in (SUM, MANY):
        assert on_spark(spark, p, df, late="drop") == oracle(p, [(i, i) for i in range(60)])


def test_sequences_without_gaps(spark: Any) -> None:
    rows = [(i, i) for i in range(7, 80)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    assert on_spark(spark, SUM, df, sequence=7) == oracle(SUM, rows)
    for gap in (7, 31):
        said = failure_of(run(SUM.graph, [df.where(f"seq != {gap}")], {}, Options(order="seq", partitions=9, sequence=7)))
        assert said.startswith(f"DataError: seq={gap + 1}: seq {gap} is missing: the sequence must go up by one from 7;")


def test_a_failure_on_spark(spark: Any) -> None:
    p = pipeline(lambda x: total(x.map(lambda v: 100 // (v - 40), id="m")), x=int)
    df = spark.range(100).selectExpr("id * 2 as seq", "id as x").repartition(3)
    said = failure_of(run(p.graph, [df], {}, Options(order="seq", partitions=5)))
    assert "step 'm'" in said and "on the event 40: ZeroDivisionError" in said and "from seq=80" in said


def test_what_cannot_be_cut_runs_on_one_core(spark: Any) -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t * 2 % 1001 + v, start=0), x=int)
    rows = [(i, i * i % 17) for i in range(100)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    out = run(p.graph, [df], {}, Options(order="seq"))
    assert out.rdd.getNumPartitions() == 1 and sorted(map(tuple, out.collect())) == oracle(p, rows)
    from pellucid.spark.frames import one_frame
    from pellucid.spark.scan import scanned

    frame = one_frame(p.graph, {None: df}, value=None, key=(), order=("seq",))
    job = job_of(p, tag=None, nth=None)
    assert scanned(job, frame, 4).rdd.getNumPartitions() == 1
    assert scanned(job_of(SUM, tag=None, nth=None), one_frame(SUM.graph, {None: df}, value=None, key=(), order=("seq",)), 1).rdd.getNumPartitions() == 1


def test_two_sources_in_one_frame(spark: Any) -> None:
    p = pipeline(lambda x, y: total(merge(x, y.trim(3))), x=int, y=int)
    rng = random.Random(4)
    rows = [(i, rng.choice([None, i]), rng.choice([None, -i])) for i in range(80)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint, y bigint").repartition(3)
    out = run(p.graph, [df], {}, Options(order="seq", partitions=4))
    it, want = Interpreter(p.graph), []
    for seq, x, y in rows:
        push = {k: v for k, v in (("x", x), ("y", y)) if v is not None}
        want += [(seq, i, e) for i, e in enumerate(it.push(push)["out"])]
    assert sorted(map(tuple, out.collect())) == want


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
@example(seed=1)
def test_random_pipelines_on_spark(spark: Any, seed: int) -> None:
    from tests.spark import worlds

    c = Seeded(seed)
    p = make_scannable(c, most=6, sources=2)
    assume(isinstance(cuts(p.graph), Cut) and cuts(p.graph).levels)  # type: ignore[union-attr]
    rng = random.Random(seed)
    seqs = rng.sample(range(-500, 500), rng.randrange(60))
    rows = [Row(0, s, push) for s, push in zip(sorted(seqs), make_input(c, p, len(seqs)), strict=True)]
    want = by_interpreter(p, rows)
    assume(not isinstance(want, StepError))
    df = spark.createDataFrame(worlds.table_of(p, rng.sample(rows, len(rows)))).repartition(rng.randrange(1, 4))
    out = run(p.graph, [df], {}, Options(order="seq", step="output", nth="nth", partitions=rng.randrange(2, 7)))
    got = worlds.found(p, [{**r.asDict(recursive=True), "user": None} for r in out.collect()])
    assert repr(got) == repr(want)
