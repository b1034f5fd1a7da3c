"""Sinks and sources tell apart: which of them keep the promise for which pipelines."""

from __future__ import annotations

import pytest

from pellucid import Stream, UsageError, apply, check, merge, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both")


@pipeline
def paired(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a - b, x * 2, x + 1, id="pair")


@pytest.mark.parametrize(
    ("p", "sink", "status"),
    [
        (total, "transactional", "bounded"),
        (total, "idempotent", "bounded"),
        (total, "append", "refuted"),
        (both, "transactional", "bounded"),
        (both, "idempotent", "refuted"),  # a replay may merge in another order
        (both, "append", "refuted"),
        (paired, "idempotent", "bounded"),  # a synchronous apply gives one result, whatever the schedule
    ],
)
@pytest.mark.parametrize("protocol", ["aligned", "microbatch"])
def test_which_sink_is_enough(p: object, sink: str, status: str, protocol: str) -> None:
    verdict = check.failures(p, sink=sink, protocol=protocol, epochs=2, events=1, crashes=1)
    assert verdict.status == status, str(verdict)


def test_an_append_sink_writes_twice_and_says_so() -> None:
    verdict = check.failures(total, sink="append", crashes=1, inputs=[[5], [7]])
    assert str(verdict.counterexample).splitlines() == [
        "1  sum takes 5 from x and gives 5 to sum",
        "     seen: sum: 5",
        "2  sum crashes",
        "3  all recover (greatest common epoch: 0)",
        "4  sum takes 5 from x and gives 5 to sum",
        "     seen: sum: 5, 5",
        "no failure-free execution shows this: sum: 5, 5; the nearest that one shows is: sum: 5",
    ]


def test_an_idempotent_sink_is_overwritten_with_something_else() -> None:
    verdict = check.failures(both, sink="idempotent", crashes=1, epochs=1, events=1)
    assert "no failure-free execution shows this after what was seen before" in str(verdict)


def test_a_source_that_forgets_loses_events() -> None:
    verdict = check.failures(total, source="not-replayable", epochs=1, events=1, crashes=1)
    assert verdict.refuted and verdict.counterexample is not None
    assert (
        verdict.counterexample.why
        == ("no failure-free execution shows this: x: |; sum: |; the nearest that one shows is: x: 1 |; sum: 1 |")
        or "sum: |; x: |" in verdict.counterexample.why
    )


def test_an_output_that_is_read_inside_as_well_is_a_sink() -> None:
    @pipeline
    def two(x: Stream[int]) -> dict[str, Stream[int]]:
        first = x.map(lambda v: v + 1, id="first")
        return {"first": first, "second": first.map(lambda v: v * 2, id="second")}

    verdict = check.failures(two, sink="append", epochs=1, events=1, crashes=1)
    assert verdict.refuted and "seen: first: 2" in str(verdict)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sink": "file"}, "sink= takes 'transactional', 'idempotent', 'append', found 'file'"),
        ({"source": "socket"}, "source= takes 'replayable', 'not-replayable', found 'socket'"),
        ({"protocol": "abs"}, "protocol= takes 'aligned', 'unaligned', 'microbatch', found 'abs'"),
        ({"epochs": 0}, "epochs= takes a whole number from 1 on, found 0"),
        ({"crashes": -1}, "crashes= takes a whole number from 0 on, found -1"),
        ({"observe": 3}, "observe= takes a function of a configuration, found 3"),
        ({"observe": len, "protocol": "microbatch"}, "which micro-batches do not have"),
    ],
)
def test_bad_arguments(how: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        check.failures(total, **how)  # type: ignore[arg-type]
    assert message in str(error.value)
