"""Measurements with every field replaced by what nobody expects: read, or refused with the file, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.capacity.measured import plan_job
from pellucid.capacity.measured.read import jobs_of, read_jobs
from pellucid.capacity.measured.show import plan_text
from pellucid.errors import DataError
from tests.capacity.measured.test_read import FLINK

_SOURCE = {
    "startOffset": {"t": {"0": 1, "1": 4}},
    "endOffset": {"t": {"0": 50, "1": 60}},
    "latestOffset": {"t": {"0": 70, "1": 80}},
    "numInputRows": 100,
}
BATCH: dict[str, Any] = {
    "id": "q", "runId": "r", "name": "late", "timestamp": "2026-01-01T00:00:00.000Z", "batchId": 0,
    "numInputRows": 100, "durationMs": {"triggerExecution": 500}, "sources": [_SOURCE], "sink": {"numOutputRows": 7},
    "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100, "numShufflePartitions": 4}],
}  # fmt: skip
SPARK = [BATCH, {**BATCH, "batchId": 1, "timestamp": "2026-01-01T00:00:01.000Z"}]
LOCAL = [
    {
        "pellucid": 1, "kind": "measured run", "pipeline": "late", "input": "pipe", "seconds": 2.0, "busy": 1.0,
        "events": 50, "steps": [{"step": "slow", "events_in": 50, "events_out": 25, "seconds": 0.8}],
        "samples": [{"at": i / 2, "events": 10 + i, "seconds": 0.25, "waiting": 10} for i in range(3)],
    }
]  # fmt: skip
_NAN, _INF = float("nan"), float("inf")
HOSTILE: list[Any] = [None, "x", "", -1, 0, 1.5, 10**30, _NAN, _INF, True, [], [1], [None], {}, {"a": 1}, {"a": None}]
_GONE = object()


def _places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(document, dict):
        for key in document:
            yield from _places(document[key], (*at, key))
    elif isinstance(document, list):
        for i in range(min(2, len(document))):
            yield from _places(document[i], (*at, i))


def _with(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    if value is _GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return changed


@pytest.mark.parametrize("documents", [SPARK, LOCAL, [FLINK]], ids=["spark", "local", "flink"])
def test_every_field_may_be_anything(documents: list[Any]) -> None:
    read, refused = 0, list[str]()
    for at in _places(documents):
        for value in [*HOSTILE, _GONE]:
            try:
                plans = [plan_job(job) for job in jobs_of(_with(documents, at, value), where="m.json")]
            except DataError as error:
                refused.append(str(error))
                continue
            for plan in plans:
                assert plan_text(plan)
                json.dumps(plan.document(), allow_nan=False)
            read += 1
    assert read > 100 and len(refused) > 100
    assert [words for words in refused if not words.startswith("m.json: ")] == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"numInputRows": -5}, "batch 0: numInputRows: expected a number that is not below 0, got -5"),
        ({"numInputRows": _NAN}, "batch 0: numInputRows: expected a number that is not below 0, got nan"),
        ({"numInputRows": None}, "batch 0: numInputRows: expected a number that is not below 0, got None"),
        ({"numInputRows": "many"}, "batch 0: numInputRows: expected a number, got 'many'"),
        (
            {"durationMs": {"triggerExecution": -1}},
            "batch 0: durationMs.triggerExecution: expected a number that is not below 0, got -1",
        ),
        ({"sources": None}, None),
        ({"sources": "x"}, "batch 0: sources: expected a list of objects, got 'x'"),
        ({"stateOperators": [3]}, "batch 0: stateOperators: expected a list of objects, got [3]"),
        ({"sink": {"numOutputRows": "x"}}, "batch 0: sink.numOutputRows: expected a number, got 'x'"),
    ],
)
def test_a_field_is_named(changed: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert jobs_of([{**BATCH, **changed}])
        return
    with pytest.raises(DataError) as caught:
        jobs_of([{**BATCH, **changed}], where="m.json")
    assert str(caught.value) == f"m.json: query late, {message}"


def test_rows_that_are_left_out_are_those_of_the_sources() -> None:
    less = [{key: value for key, value in batch.items() if key != "numInputRows"} for batch in SPARK]
    assert jobs_of(less)[0].samples == jobs_of(SPARK)[0].samples


def test_a_query_to_which_nothing_came() -> None:
    (job,) = jobs_of([{**batch, "numInputRows": 0, "sources": []} for batch in SPARK])
    plan = plan_job(job)
    assert plan.status == "unknown" and plan.steps["late"].why == "no events came while it was measured"
    assert plan.advice == ("no events came while it was measured: record it while they do",)


def test_a_log_whose_last_line_is_cut_off_says_so(tmp_path: Path) -> None:
    log = tmp_path / "p.jsonl"
    lines = "\n".join(json.dumps(batch) for batch in SPARK)
    log.write_text(lines)
    assert not any("cut off" in note for note in read_jobs(log)[0].notes)
    log.write_text(lines[:-9])
    (job,) = read_jobs(log)
    assert len(job.samples) == 1 and job.notes[-1] == f"the last line of {log} is cut off: left out"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[" * 100_000 + "]" * 100_000, "lists in lists, too deep to read"),
        ("[1, 2]", "a number"),
        ("null", "null"),
        ('"x"', "a text"),
        ("[[]]", "a list in a list"),
        ("true", "true or false"),
    ],
)
def test_json_of_another_kind(tmp_path: Path, text: str, kind: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_jobs(file)
    assert str(caught.value).startswith(f"{file}: is JSON of another kind ({kind}): expected the progress of a Spark")
