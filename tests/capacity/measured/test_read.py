"""Measurements of Spark, Flink and local runs are read as what they are, and what is none is refused by name."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.capacity.measured import jobs_of, of_progress, of_query, read_jobs
from pellucid.errors import DataError, UsageError
from tests.capacity.recording import RECORDED


def kafka(batch: int, start: list[int] | None, end: list[int], latest: list[int], ms: int = 500) -> dict[str, Any]:
    def offsets(values: list[int] | None) -> dict[str, dict[str, int]] | None:
        return None if values is None else {"flights": {str(p): at for p, at in enumerate(values)}}

    rows = sum(end) - sum(start if start is not None else end)
    return {
        "id": "0e5c", "runId": "7a", "name": "late", "batchId": batch, "timestamp": f"2026-01-01T00:00:{batch:02}.000Z",
        "numInputRows": rows, "durationMs": {"addBatch": ms - 100, "triggerExecution": ms},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 40, "memoryUsedBytes": 900,
                            "numShufflePartitions": 200}],
        "sources": [{"description": "KafkaV2", "startOffset": offsets(start), "endOffset": offsets(end),
                     "latestOffset": offsets(latest), "numInputRows": rows}],
        "sink": {"description": "Parquet", "numOutputRows": -1},
    }  # fmt: skip


BATCHES = [
    kafka(0, None, [0, 0], [50, 50]),
    kafka(1, [0, 0], [30, 70], [100, 120], ms=600),
    kafka(2, [30, 70], [80, 220], [200, 300], ms=800),
]


GREEDY = [
    kafka(0, None, [0, 0], [0, 0]),
    kafka(1, [0, 0], [30, 70], [30, 70], ms=600),
    kafka(2, [30, 70], [80, 220], [80, 220], ms=800),
]


def test_a_query_on_kafka() -> None:
    (job,) = of_progress(BATCHES)
    step = job.steps["late"]
    assert job.kind == "spark" and job.seconds == 2.8
    # 100 and 200 rows were taken, 100 waited when the first batch was made, 200 when the last was
    assert step.rate == (100 + 200 + 200 - 100) / 2
    assert step.processed == pytest.approx(300 / 2.8) and step.busy == pytest.approx(1.9 / 2.8)
    assert step.partitions == 2 and step.skew == pytest.approx(220 / 300) and step.most == 2
    assert step.state == 40 and step.state_bytes == 900 and step.out is None
    assert [s.waiting for s in job.samples] == [100 + 120, 200 + 200, None] and step.lag == 400
    assert step.able is None and job.notes[0].startswith("its batches leave rows behind")
    assert step.capacity == 150 and step.held and (step.load or 0) > 1  # it has time, and the lag grows


def test_a_query_that_takes_all_there_is() -> None:
    (job,) = of_progress(GREEDY)
    step = job.steps["late"]
    assert step.able == pytest.approx(500) and step.rate == 150  # 0.2 s more for 100 rows more
    assert [s.waiting for s in job.samples] == [100, 200, None] and step.load == pytest.approx(0.3) and job.notes == ()


def test_one_progress_alone_says_what_spark_says() -> None:
    (job,) = of_progress([{**BATCHES[1], "inputRowsPerSecond": 55.5}])
    assert job.steps["late"].rate == 55.5 and job.steps["late"].capacity == pytest.approx(100 / 0.6)
    (idle,) = of_progress([{**BATCHES[0], "inputRowsPerSecond": "NaN"}])
    assert idle.steps["late"].rate is None and idle.steps["late"].capacity is None


def test_a_batch_told_twice_counts_once() -> None:
    assert of_progress([*BATCHES, BATCHES[2]]) == of_progress(BATCHES)


def at(batch: int, second: int, rows: int = 100, run: str = "7a", ms: int = 500) -> dict[str, Any]:
    return {**kafka(batch, [0, 0], [rows, 0], [rows, 0], ms=ms), "runId": run,
            "timestamp": f"2026-01-01T00:00:{second:02}.000Z"}  # fmt: skip


def test_a_log_with_holes_repetitions_and_restarts() -> None:
    """What came while batches are missing is not known: the rate is that of the longest part without a hole."""
    (job,) = of_progress([at(1, 0), at(2, 1), at(9, 20), at(10, 21), at(11, 22)])
    assert job.seconds == 2.5 and job.steps["late"].rate == 100
    assert "6 batches are missing: only 9 to 11 are looked at" in job.notes[0]
    (job,) = of_progress([at(1, 0), at(2, 1), at(2, 10, run="b"), at(3, 11, run="b")])  # run again after a restart
    assert [s.events for s in job.samples] == [100, 100, 100] and job.steps["late"].rate == pytest.approx(200 / 11)
    assert job.notes[0] == "batches that were run again after a restart count once"
    (job,) = of_progress([at(1, 0), at(2, 1, rows=0), at(2, 2, rows=0), at(2, 3)])  # an idle query has the next number
    assert len(job.samples) == 4 and not any("missing" in note for note in job.notes)
    with pytest.raises(DataError, match="batch 2: begins 2 s before the batch before it has ended"):
        of_progress([at(1, 0, ms=3000), at(2, 1)])
    with pytest.raises(DataError, match="batch 3 began after batch 7"):
        of_progress([at(7, 0), at(3, 1)])


def test_a_source_of_files_does_not_tell_what_waits() -> None:
    files = [{**b, "sources": [{"startOffset": {"logOffset": 0}, "endOffset": {"logOffset": 1}, "latestOffset": None}]}
             for b in BATCHES]  # fmt: skip
    (job,) = of_progress(files)
    assert job.steps["late"].lag is None and job.steps["late"].partitions == 200
    assert job.steps["late"].rate is None or 0 in [
        s.events for s in job.samples[1:]
    ]  # there may be a limit per trigger
    assert job.notes == (
        "its sources do not tell how far they could be read: what waits before the query is not known",
    )


def test_a_live_query() -> None:
    progress = [SimpleNamespace(json=json.dumps(b)) for b in BATCHES]
    assert of_query(SimpleNamespace(recentProgress=progress)) == of_progress(BATCHES)[0]
    assert of_query(SimpleNamespace(recentProgress=BATCHES)) == of_progress(BATCHES)[0]
    with pytest.raises(UsageError, match="the query late has no progress yet: wait for its first micro-batch"):
        of_query(SimpleNamespace(recentProgress=[], name="late", id="0e5c"))


def test_files_of_many_forms(tmp_path: Path) -> None:
    wanted = of_progress(BATCHES)
    other = [{**b, "id": "77", "name": "cheap"} for b in BATCHES]
    lines = [json.dumps(b) for pair in zip(BATCHES, other, strict=True) for b in pair]
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    log = [{"Event": "SparkListenerJobStart"}, *({"Event": event, "progress": b} for b in BATCHES)]
    for name, text, jobs in (
        ("list.json", json.dumps(BATCHES), wanted),
        ("log.jsonl", "\n".join(lines) + "\n", [*wanted, *of_progress(other)]),
        ("cut.jsonl", "\n".join(lines[:-1]) + '\n{"id": "77", "na', [*wanted, *of_progress(other[:-1])]),
        ("events", "\n".join(json.dumps(e) for e in log), wanted),
    ):
        (tmp_path / name).write_text(text)
        cut = (f"the last line of {tmp_path / name} is cut off: left out",) if name == "cut.jsonl" else ()
        assert read_jobs(tmp_path / name) == [replace(job, notes=(*job.notes, *cut)) for job in jobs], name
    (tmp_path / "log.json.gz").write_bytes(gzip.compress(json.dumps(BATCHES).encode()))
    assert read_jobs(tmp_path / "log.json.gz") == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"temperature": 21, "city": "Rome"}', r"another kind \(an object with temperature, city\): expected the"),
        ("[1]", r"another kind \(a number\)"),
        ("{}", r"another kind \(an empty object\)"),
        ('{"pellucid": 1, "verb": "check"}', r"another kind \(a report of pellucid check\)"),
        ("", "is empty: expected the progress"),
        ("rates are fine", "is no JSON"),
        ('{"a": 1}\nx\n{"a": 2}', "line 2: is no JSON"),
        ('{"Event": "SparkListenerJobStart"}', "has no progress of a streaming query in it"),
        ("[]", "has no progress"),
        (json.dumps({**BATCHES[0], "timestamp": "noon"}), "query late: timestamp is 'noon': expected a time such as"),
        (json.dumps({**BATCHES[0], "durationMs": 5}), "query late, batch 0: durationMs is 5: expected an object"),
        (json.dumps({**BATCHES[0], "numInputRows": "many"}), "numInputRows: expected a number, got 'many'"),
        ('{"vertices": []}', "the job job has no vertices"),
        ('{"vertices": [{"name": "map"}]}', "a vertex of the job job has no metrics"),
        ('{"vertices": [{"name": "map", "metrics": 3}]}', "vertex map: metrics: expected an object or a list, got 3"),
        ('{"vertices": [{"name": "map", "metrics": [{"value": 3}]}]}', "a metric has no id"),
        ('{"vertices": [{"id": "b", "metrics": {}, "inputs": ["a"]}]}', "the vertex b hears a, which is not among"),
        ('{"vertices": [{"id": "b", "metrics": {"pendingRecords": -2}}]}', "step b: lag is -2.0: expected a number"),
        ('{"pellucid": 1, "kind": "measured run"}', "not whole: KeyError.*make it again with pellucid run --measure"),
    ],
)  # fmt: skip
def test_what_is_none(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "given.json"
    file.write_text(text)
    with pytest.raises(DataError, match=f"given.json: .*{words}|{words}"):
        read_jobs(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_jobs(tmp_path / "none.json")
    (tmp_path / "x.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read_jobs(tmp_path / "x.gz")


FLINK = {
    "name": "late flights",
    "vertices": [
        {"id": "s", "name": "Source", "parallelism": 4, "maxParallelism": 128, "numSourcePartitions": 4,
         "metrics": [{"id": "busyTimeMsPerSecond", "min": 100, "max": 300, "avg": 200, "sum": 800},
                     {"id": "numRecordsInPerSecond", "sum": 0}, {"id": "numRecordsOutPerSecond", "sum": 400},
                     {"id": "pendingRecords", "sum": 6000}]},
        {"id": "m", "name": "Map", "parallelism": 2, "maxParallelism": 128,
         "metrics": [{"id": "0.busyTimeMsPerSecond", "value": "900.0"},
                     {"id": "1.busyTimeMsPerSecond", "value": "100.0"},
                     {"id": "0.numRecordsInPerSecond", "value": "360"},
                     {"id": "1.numRecordsInPerSecond", "value": "40"},
                     {"id": "0.numRecordsOutPerSecond", "value": "NaN"}]},
        {"id": "k", "name": "Map", "parallelism": 1,
         "metrics": {"busyTimeMsPerSecond": 50, "numRecordsInPerSecond": 400}},
    ],
    "plan": {"nodes": [{"id": "s"}, {"id": "m", "inputs": [{"id": "s", "ship_strategy": "HASH"}]},
                       {"id": "k", "inputs": [{"id": "m"}]}]},
}  # fmt: skip


def test_a_job_of_flink() -> None:
    (job,) = jobs_of([FLINK])
    source, hot, last = job.steps.values()
    assert [step.name for step in (source, hot, last)] == ["Source", "Map", "Map (k)"]
    assert source.rate == source.processed == 400 and source.lag == 6000 and source.capacity == 2000
    assert source.most == 4 and source.workers == 4 and source.skew is None
    assert hot.hears == ("Source",) and hot.busy == 0.5 and hot.skew == 0.9 and hot.most == 2
    assert last.hears == ("Map",) and last.workers == 1 and last.capacity == 8000 and last.keys is None


def test_the_recorded_queries() -> None:
    for file in sorted(RECORDED.glob("spark_*.jsonl")):
        (job,) = read_jobs(file)
        (step,) = job.steps.values()
        assert job.name == file.stem.removeprefix("spark_") and step.state == 7 and step.partitions == 2
