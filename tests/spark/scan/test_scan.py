"""One stream without keys, cut into chunks: equal to the interpreter, wherever it is cut; in one process, without
Spark."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError, merge, pipeline
from pellucid.errors import DataError, IntOverflow, PellucidError
from pellucid.spark.scan import start as scan_start
from pellucid.spark.scan import summary as scan_summary
from pellucid.spark.scan.parts import Cut, cuts
from pellucid.spark.step import Done
from tests.seeds import HUNT, seeds
from tests.spark.scan.scans import (
    agree,
    by_interpreter,
    by_scan,
    job_of,
    make_scannable,
    scanned_by_hand,
    table_of,
    total,
)
from tests.spark.worlds import Row
from tests.strategies import Drawn, Seeded, make_input, make_pipeline
from tests.volumes import examples


def ints(values: list[int], seqs: list[int] | None = None) -> list[Row]:
    return [Row(None, s, {"x": v}) for s, v in zip(seqs or range(len(values)), values, strict=True)]


# ---------------------------------------------------------------- equal, wherever it is cut


@st.composite
def cases(draw: Any) -> tuple[Pipeline, list[Row], list[int], random.Random]:
    c = Drawn(draw)
    p = make_scannable(c, sources=2)
    assume(isinstance(cuts(p.graph), Cut))
    pushes = make_input(c, p, draw(st.integers(0, 25)))
    seqs = draw(
        st.lists(
            st.integers(-(2**40), 2**40) | st.integers(-20, 20), min_size=len(pushes), max_size=len(pushes), unique=True
        )
    )
    rows = [Row(None, s, push) for s, push in zip(seqs, pushes, strict=True)]
    bounds = sorted(draw(st.lists(st.sampled_from(seqs) if seqs else st.just(0), max_size=6)))
    return p, rows, bounds, draw(st.randoms(use_true_random=False))


@settings(max_examples=examples(40, 60))
@given(cases(), st.booleans())
def test_random_pipelines_are_as_the_interpreter_says(case: Any, sort_first: bool) -> None:
    p, rows, bounds, rng = case
    want, got = by_interpreter(p, rows), by_scan(p, rows, bounds, rng, sort_first=sort_first)
    assert agree(want, got), f"{p.graph}\n{want}\n{got}"


@pytest.mark.seeded
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.long) for start in range(50, 400, 50))])
def test_larger_random_pipelines(start: int) -> None:
    count = 0
    for seed in seeds(50, start):
        c = Seeded(seed)
        p = make_scannable(c, most=8, sources=2) if seed % 2 else make_pipeline(c, max_steps=5, keys=False, sources=2)
        if not isinstance(cuts(p.graph), Cut):
            continue
        rng = random.Random(seed)
        seqs = sorted(rng.sample(range(-500, 500), rng.randrange(80)))
        rows = [Row(None, s, push) for s, push in zip(seqs, make_input(c, p, len(seqs)), strict=True)]
        bounds = sorted(rng.choice(seqs) for _ in range(rng.randrange(8)) if seqs)
        want, got = by_interpreter(p, rows), by_scan(p, rows, bounds, rng)
        assert agree(want, got), f"seed {seed}: {p.graph}\n{want}\n{got}"
        count += 1
    assert HUNT or count > 20


def _nan_for_one(v: float) -> float:
    return v * 1e308 * 10.0 * 0.0 if v == 1.0 else v


@pytest.mark.parametrize(
    "places", [(1, 2, 4, 7), pytest.param(range(1, 8), marks=pytest.mark.long)], ids=["few", "all"]
)
def test_float_zeros_keep_their_signs_and_nan_is_no_value(places: Iterable[int]) -> None:
    zeros = [0.0, -0.0, 1.0, -0.0, 0.0, -1.0, -0.0, 0.0]
    for f in (
        lambda t, v: max(t, v),
        lambda t, v: v if v >= t else t,
        lambda t, v: min(t, v),
        lambda t, v: v if v <= t else t,
    ):
        for start in (0.0, -0.0, float("inf"), float("-inf"), float("nan")):
            p = pipeline(lambda x, f=f, start=start: x.map(_nan_for_one).cumulate(f, start=start), x=float)
            rows = [Row(None, i, {"x": v}) for i, v in enumerate(zeros)]
            for at in places:
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
    p = pipeline(
        lambda x: x.map(lambda v: 12 // v, id="twelfth").decimate(2).cumulate(lambda t, v: t + v, start=0), x=int
    )
    rows = ints([1, 2, 3, 4, 5, 6, 0, 8, 0, 9])
    for bounds in ([2, 4, 6, 8], [5], [7], []):
        got = by_scan(p, rows, bounds, random.Random(1))
        assert isinstance(got, StepError) and got.position == 6 and got.step == "twelfth"
        assert "failed at push 6 on the event 0" in str(got) and "from seq=6" in str(got)


def test_a_pipeline_that_remembers_nothing_fails_at_the_push_of_the_stream() -> None:
    """There is nothing to sum up for its steps, but its pushes are counted all the same."""
    p = pipeline(lambda x, y: merge(x.map(lambda v: 2 * v - 3, id="twice"), y), x=int, y=int)
    rows = [Row(None, s, {"y": s}) for s in range(15)] + [Row(None, 15, {"x": -(2**62)}), Row(None, 16, {"y": 16})]
    for bounds in ([8], [3, 8, 15], [15], [15, 15, 16], []):
        got = by_scan(p, rows, bounds, random.Random(1))
        assert (
            isinstance(got, IntOverflow)
            and got.position == 15
            and "failed at push 15 on the event -4611686018427387904" in str(got)
        )
        assert agree(by_interpreter(p, rows), got)


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
    p = pipeline(
        lambda x: total(x.decimate(2)).window(3, lambda w: w.cumulate(lambda t, v: t * 7 % 101 + v, start=1)), x=int
    )
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
    monkeypatch.setattr(
        scan_summary, "_reduced", lambda op, v: int(getattr(np, {"add": "sum", "min": "min"}.get(op, "max"))(v))
    )


@pytest.mark.parametrize(
    "mutant",
    [
        _chunk_skipped,
        _start_forgotten,
        _tail_too_short,
        _tail_of_the_wrong_end,
        _count_of_rows_not_events,
        _wrong_identity,
        _sums_wrap,
    ],
)
def test_mutants_are_caught(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 2**62
    values = [-7, -3, -9, -4, -8, -2, -6, -1, -5, -4, -3]
    ps = [
        (
            pipeline(
                lambda x: x.filter(lambda v: v % 2).window(3, lambda w: w.cumulate(lambda t, v: t * 3 + v, start=0)),
                x=int,
            ),
            values,
        ),
        (pipeline(lambda x: x.cumulate(lambda t, v: max(t, v), start=-100), x=int), values),
        (pipeline(lambda x: x.decimate(2).cumulate(lambda t, v: v if v % 2 else t, start=50), x=int), values),
        (
            pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=7), x=int),
            [-big, -big, big, big, big, -big, 1, 2, 3, 4, 5],
        ),
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
