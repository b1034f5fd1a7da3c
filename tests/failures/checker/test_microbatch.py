"""Spark's micro-batches: which order of logs, state and sink keeps the promise."""

from __future__ import annotations

import pytest

from pellucid import Stream, UsageError, check, merge, pipeline
from pellucid.failures.checker.microbatch import BATCH_VARIANTS


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both").cumulate(lambda t, v: 2 * t + v, start=0, id="sum")


def test_spark_keeps_the_promise_with_a_transactional_sink() -> None:
    verdict = check.failures(total, protocol="microbatch", crashes=2)
    assert verdict.bounded and verdict.details["live"]


def test_but_not_where_a_batch_that_is_run_again_may_compute_something_else() -> None:
    """The sink keeps the rows of the first run, the state store the state of the second."""
    verdict = check.failures(both, protocol="microbatch", epochs=2, events=1, crashes=1)
    assert verdict.refuted
    told = str(verdict)
    assert "SINK batch 1: was written before" in told and told.count("COMPUTE batch 1") == 2
    assert check.failures(both, protocol="aligned", epochs=2, events=1, crashes=1).bounded


def test_an_append_sink_duplicates_between_the_write_and_the_commit() -> None:
    verdict = check.failures(total, protocol="microbatch", sink="append", epochs=1, events=1, crashes=1)
    assert [str(label) for label in verdict.counterexample.trace] == [  # type: ignore[union-attr]
        "OFFSETS batch 1: pushes 0 to 0",
        "COMPUTE batch 1: from state version 0: 1",
        "STATE batch 1: version 1 is stored",
        "SINK batch 1: row 1 to sum",
        "CRASH batch 1",
        "RESTART batch 1",
        "COMPUTE batch 1: from state version 0: 1",
        "STATE batch 1: version 1 is stored",
        "SINK batch 1: row 1 to sum",
    ]


@pytest.mark.parametrize(("name", "length"), [("commit-before-sink", 11), ("no-offset-log", 15), ("newest-state", 8)])
def test_mutants(name: str, length: int) -> None:
    verdict = check.failures(total, protocol="microbatch", variant=name, crashes=1, events=2, epochs=2)
    assert verdict.refuted and verdict.counterexample is not None
    assert len(verdict.counterexample.trace) == length  # type: ignore[attr-defined]
    assert verdict.counterexample._repr_html_().startswith("<svg")


def test_every_variant_is_tested() -> None:
    assert set(BATCH_VARIANTS) == {"commit-before-sink", "no-offset-log", "newest-state"}


def test_the_last_batch_can_be_lost_without_a_trace_in_the_output() -> None:
    verdict = check.failures(total, protocol="microbatch", variant="commit-before-sink", crashes=1, events=1, epochs=1)
    assert verdict.refuted and verdict.details["live"] is False
    assert "not all of its input is in the sink" in str(verdict)


def test_a_shuffle_that_changes_the_order_shows_with_an_idempotent_sink() -> None:
    verdict = check.failures(both, protocol="microbatch", sink="idempotent", events=1, epochs=1, crashes=1)
    assert verdict.refuted


def test_a_source_that_forgets() -> None:
    assert check.failures(total, protocol="microbatch", source="not-replayable", crashes=1).refuted


def test_no_such_variant() -> None:
    with pytest.raises(UsageError, match="no variant of micro-batches is called 'x'"):
        check.failures(total, protocol="microbatch", variant="x")


def test_a_bound_gives_unknown() -> None:
    assert check.failures(total, protocol="microbatch", max_states=10).unknown
