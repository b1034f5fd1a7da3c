"""Files of measurements: which kind they are, and the jobs in them.

A file is one JSON document, a list of them, or one on each line (a log).  In Spark's own event logs and what a
listener writes, the lines with progress are read and the others skipped; anything else is refused, by name.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from pellucid.capacity.measured.job import Job, MeasuredStep, Sample, batch_cost, counted, number, objects, only
from pellucid.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

# What ``pellucid run --measure FILE`` writes: how fast the steps of a local run were, and what waited.
#
# All steps are one loop, so they share one worker; a step's busy time is its share of the time in the loop (measured in
# one push of 32) and its capacity what it could take alone.  The run as a whole is a step of its own, called as the
# pipeline: that is the one whose queue is the input.  For files it is not known at what rate their events came.

KIND = "measured run"


def is_local(document: Any) -> bool:
    """Whether a local run wrote this.

    >>> is_local({"pellucid": 1, "kind": "measured run"}), is_local({"pellucid": 1, "verb": "check"})
    (True, False)
    """
    return isinstance(document, Mapping) and document.get("kind") == KIND and "pellucid" in document


def of_local(document: Mapping[str, Any], *, where: str = "the measurements") -> Job:
    """The run and its steps.

    >>> steps = [{"step": "slow", "events_in": 50, "events_out": 25, "seconds": 0.8}]
    >>> job = of_local({"pellucid": 1, "kind": "measured run", "pipeline": "late", "seconds": 2.0, "busy": 1.0,
    ...                 "input": "pipe", "events": 50, "steps": steps, "samples": []})
    >>> job.steps["late"].capacity, job.steps["slow"].capacity, job.steps["slow"].ratio
    (50.0, 62.5, 0.5)
    """
    try:
        name = str(document["pipeline"])
        seconds = counted(document["seconds"], f"{where}: seconds")
        busy = counted(document["busy"], f"{where}: busy")
        events = int(counted(document["events"], f"{where}: events"))
        samples = tuple(_sample(s, f"{where}: sample {i}") for i, s in enumerate(document["samples"]))
        if any(after.at < before.at for before, after in pairwise(samples)):
            raise DataError(f"{where}: the samples are not in the order of time")
        per = 1 / seconds if seconds else 0.0
        alone = _alone(document, events, where)
        waiting = [s.waiting for s in samples if s.waiting is not None]
        piped = document.get("input") == "pipe"
        span = samples[-1].at - samples[0].at if samples else 0.0
        whole = MeasuredStep(
            name,
            rate=sum(s.events for s in samples[1:]) / span if piped and span else None,
            processed=events * per if piped else None,
            busy=min(1.0, busy * per),
            able=_able(samples, events, busy, alone),
            lag=waiting[-1] if waiting else None,
        )
        steps = [_step(s, f"{where}: step {s['step']}", per, piped=piped) for s in document["steps"] if s["step"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: not whole: {error!r}; make it again with pellucid run --measure") from None
    notes = ["the steps of a local run share one worker: what waits, waits for the pipeline as a whole"]
    same = len(samples) > 1 and len({s.events for s in samples}) == 1
    if piped and same and alone is not None and alone > (whole.able or 0):
        notes.append(
            "its batches are all as long: how much of one is there before its first event is not known, so that longer "
            f"ones could take more, up to {alone:.4g} events a second"
        )
    if not piped:
        notes.append("its input was there from the start: at which rate it comes is not known (--rate says it)")
    return Job(name, "local", only([whole, *steps]), seconds=seconds, samples=samples, notes=tuple(notes))


def _alone(document: Mapping[str, Any], events: int, where: str) -> float | None:
    """What the steps could take if nothing were to be done around them; None if they were not one loop on one core."""
    inside = sum(counted(s["seconds"], f"{where}: step {s['step']}: seconds") for s in document["steps"])
    return events / inside if inside > 0 and events and document.get("cores", 1) == 1 else None


def _able(samples: Sequence[Sample], events: int, busy: float, alone: float | None) -> float | None:
    """Events per second in long batches.  A few short ones say little of that: it is never less than what was done
    while it was busy, and never more than the steps could take by themselves.

    >>> few = [Sample(float(i), 1, 0.003) for i in range(9)] + [Sample(9.0, 2, 0.0031)]
    >>> round(_able(few, 11, 0.0301, None)), round(_able(few, 11, 0.0301, 500.0)), round(_able(few, 11, 0.0301, 300.0))
    (10000, 500, 365)
    """
    done = events / busy if busy and events else None
    cost = batch_cost(samples)
    if done is None or cost is None or cost.row <= 0:
        return done
    return max(done, cost.capacity if alone is None else min(cost.capacity, alone))


def _sample(given: Mapping[str, Any], where: str) -> Sample:
    at, events, seconds = (counted(given[name], f"{where}: {name}") for name in ("at", "events", "seconds"))
    return Sample(at, int(events), seconds, number(given.get("waiting"), f"{where}: waiting"))


def _step(given: Mapping[str, Any], where: str, per: float, *, piped: bool) -> MeasuredStep:
    came, out, seconds = (counted(given[n], f"{where}: {n}") for n in ("events_in", "events_out", "seconds"))
    return MeasuredStep(
        str(given["step"]),
        rate=came * per if piped else None,
        processed=came * per if piped else None,
        busy=min(1.0, seconds * per),
        able=came / seconds if seconds and came else None,
        out=out * per if piped else None,
    )


# Records a local run while it goes: ``pellucid run --measure``.
#
# A pipe gives what is there: what a batch finds is what came while the one before was worked on, and waited.  A file
# has been there all the time: what waits is the rest of it, which is estimated from the share that is read.

KEPT = 10_000  # batches, the last ones: a run from a pipe may go on for months


class Recorder:
    """The batches of a run; ``clock`` is the time that passes.

    >>> ticks = iter([0.0, 0.5, 0.75, 1.0, 2.0, 3.0])
    >>> recorder = Recorder(piped=True, clock=lambda: next(ticks))
    >>> with recorder.batch(10, None):
    ...     pass
    >>> with recorder.batch(40, None):
    ...     pass
    >>> found = recorder.document("late", 50, [], {})
    >>> found["busy"], found["samples"][0]
    (1.25, {'at': 0.5, 'events': 10, 'seconds': 0.25, 'waiting': 40})
    """

    def __init__(self, *, piped: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.piped, self._clock = piped, clock
        self._start = clock()
        self._busy, self._events = 0.0, 0
        self._samples: deque[tuple[float, int, float, float | None]] = deque(maxlen=KEPT)

    @contextmanager
    def batch(self, events: int, share: float | None) -> Iterator[None]:
        """Around the work for so many events; ``share`` is the part of all input that is read with them."""
        began = self._clock()
        yield
        seconds = self._clock() - began
        self._busy += seconds
        self._events += events
        left = None if self.piped or not share else self._events * (1 - min(share, 1.0)) / share
        self._samples.append((began - self._start, events, seconds, left))

    def document(
        self, pipeline: str, events: int, steps: Sequence[Mapping[str, Any]], out: Mapping[str, int], cores: int = 1
    ) -> dict[str, Any]:
        """What is written: `pellucid.capacity.measured.read` reads it."""
        seconds = self._clock() - self._start
        samples = list(self._samples)
        found = [sample[1] for sample in samples[1:]] + [None]
        return {
            "pellucid": 1,
            "kind": KIND,
            "pipeline": pipeline,
            "input": "pipe" if self.piped else "files",
            "events": events,
            "events_out": dict(out),
            "cores": cores,
            "seconds": round(seconds, 6),
            "busy": round(self._busy, 6),
            "steps": list(steps),
            "samples": [
                {
                    "at": round(at, 6),
                    "events": count,
                    "seconds": round(spent, 6),
                    "waiting": found[i] if self.piped else None if left is None else round(left),
                }
                for i, (at, count, spent, left) in enumerate(samples)
            ],
        }


# What a Spark query reports about itself: the `StreamingQueryProgress` of its micro-batches.
#
# Spark 3 and 4 write the same fields: a JSON object for each batch with ``timestamp`` (when it began),
# ``numInputRows``, ``inputRowsPerSecond``, ``processedRowsPerSecond``, ``durationMs`` (``triggerExecution`` is the
# whole batch), ``stateOperators`` and, for each of ``sources``, the offsets where the batch began and ended and the
# latest that there was.  A rate that is no number (nothing came, or no time passed) is left out by Spark, so rates are
# computed here, from rows and times.  Offsets are numbers for some sources and ``{topic: {partition: offset}}`` for
# Kafka: then the lag, the number of partitions and the busiest partition are known.
#
# A query is one step: Spark does not time the parts of a plan.  How many cores it had is not told; its workers count as
# 1 ("as it runs now") unless it is given.

_FAR = 2**63  # no offset of Kafka is beyond it
_CLOCK = 1.0  # seconds by which clocks may be wrong
_TAKE_ALL = ("MemoryStream", "RateStream", "TextSocket", "SocketStream")  # sources without a limit per trigger


def is_progress(document: Any) -> bool:
    """Whether this is a `StreamingQueryProgress`.

    >>> is_progress({"batchId": 3, "numInputRows": 10, "durationMs": {}, "timestamp": "…", "sources": []})
    True
    >>> is_progress({"vertices": []})
    False
    """
    return isinstance(document, Mapping) and {"batchId", "durationMs", "sources", "timestamp"} <= document.keys()


def of_query(query: StreamingQuery) -> Job:
    """A query that runs, or has run in this session: from its recent progress."""
    found = [_plain(progress) for progress in query.recentProgress]
    if not found:
        raise UsageError(f"the query {query.name or query.id} has no progress yet: wait for its first micro-batch")
    (job,) = of_progress(found)
    return job


def _plain(progress: Any) -> Mapping[str, Any]:
    """An object of PySpark (from 3.4 on it has ``json``; before, it is a dictionary)."""
    return progress if isinstance(progress, Mapping) else json.loads(progress.json)


def of_progress(documents: Sequence[Mapping[str, Any]], *, where: str = "the progress") -> list[Job]:
    """A job for each query: its batches, in the order of their numbers.

    >>> one = {"id": "q", "runId": "r", "name": "late", "timestamp": "2026-01-01T00:00:00.000Z", "batchId": 0,
    ...        "numInputRows": 100, "durationMs": {"triggerExecution": 500}, "sources": [], "stateOperators": []}
    >>> two = {**one, "batchId": 1, "timestamp": "2026-01-01T00:00:01.000Z"}
    >>> (job,) = of_progress([one, two])
    >>> job.name, job.steps["late"].processed, job.steps["late"].busy
    ('late', 133.33333333333334, 0.6666666666666666)
    """
    queries: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        queries.setdefault(str(document.get("id", document.get("name"))), []).append(document)
    return [_query(batches, where) for batches in queries.values()]


def _query(documents: list[Mapping[str, Any]], where: str) -> Job:
    name = str(documents[-1].get("name") or documents[-1].get("id") or "query")
    batches, notes = _unbroken(_batches(documents, f"{where}: query {name}"), f"{where}: query {name}")
    began = [at for at, _ in batches]
    places = [f"{where}: query {name}, batch {batch.get('batchId')}" for _, batch in batches]
    took = [_took(batch, place) for (_, batch), place in zip(batches, places, strict=True)]
    rows = [_rows(batch, place) for (_, batch), place in zip(batches, places, strict=True)]
    for i, (at, spent) in enumerate(zip(began, took, strict=True)):
        if i + 1 < len(began) and at + spent > began[i + 1] + _CLOCK:
            raise DataError(
                f"{places[i + 1]}: begins {at + spent - began[i + 1]:.3g} s before the batch before it has ended: "
                "expected one after the other (logs of several queries, or of clocks that differ?)"
            )
    left = [_left(batch) for _, batch in batches]
    end = max(at + seconds for at, seconds in zip(began, took, strict=True))
    seconds = round(end - began[0], 6)
    # What waits when a batch is done is what the next one finds: its rows, and those that it leaves.
    waiting = [None if lag is None else count + lag for count, lag in zip(rows[1:], left[1:], strict=True)] + [None]
    samples = tuple(
        Sample(round(at - began[0], 6), count, spent, lag, rest)
        for at, count, spent, lag, rest in zip(began, rows, took, waiting, left, strict=True)
    )
    known = [lag for lag in waiting if lag is not None]
    last = batches[-1][1]
    state = [
        _state(operator, places[-1])
        for operator in objects(last.get("stateOperators"), f"{places[-1]}: stateOperators")
    ]
    shares, partitions = _partitions([batch for _, batch in batches])
    shuffled = [n for _, _, n in state if n]
    limited = any(left[i] for i in range(1, len(left)))
    cost = None if limited else batch_cost(samples)
    step = MeasuredStep(
        name,
        rate=_arrived(began, rows, left, last) if _all_taken(batches, rows, left) else None,
        processed=sum(rows) / seconds if seconds > 0 else None,
        busy=min(1.0, sum(took) / seconds) if seconds > 0 else None,
        able=cost.capacity if cost is not None and cost.row > 0 else None,
        lag=known[-1] if known else left[-1],
        growth=_growth(began, left),
        out=_out([batch for _, batch in batches], places, seconds),
        partitions=partitions or (min(shuffled) if shuffled else None),
        state=sum(n for n, _, _ in state) if state else None,
        state_bytes=sum(size for _, size, _ in state) if state else None,
        skew=max(shares) if len(shares) > 1 and max(shares) > 1.05 / len(shares) else None,
    )
    if None in left:
        notes.append("its sources do not tell how far they could be read: what waits before the query is not known")
    if limited:
        notes.append("its batches leave rows behind (maxOffsetsPerTrigger or the like): longer ones could take more")
    elif cost is None and len(samples) > 1:
        notes.append("its batches are all as long: how much of one is there before its first row is not known, so that "
                     "longer ones could take more")  # fmt: skip
    return Job(name, "spark", {name: step}, seconds=seconds, samples=samples, notes=tuple(notes))


def _arrived(
    began: Sequence[float], rows: Sequence[int], left: Sequence[float | None], last: Mapping[str, Any]
) -> float | None:
    """Rows per second that came between the starts of the first and the last batch; of one batch, what Spark says."""
    if began[-1] <= began[0]:
        return number(last.get("inputRowsPerSecond"), "inputRowsPerSecond")
    first, final = left[0], left[-1]
    more = 0.0 if first is None or final is None else final - first
    return max(0.0, (sum(rows[1:]) + more) / (began[-1] - began[0]))


def _all_taken(
    batches: Sequence[tuple[float, Mapping[str, Any]]], rows: Sequence[int], left: Sequence[float | None]
) -> bool:
    """Whether what came is known from what was taken: the sources tell what was left behind, or they are of a kind that
    leaves nothing, or at some time there was nothing to take.  Else there may be a limit per trigger."""
    if None not in left or 0 in rows[1:]:
        return True
    sources = [str(source.get("description")) for _, batch in batches for source in batch["sources"]]
    return all(source.startswith(_TAKE_ALL) for source in sources)


def _growth(began: Sequence[float], left: Sequence[float | None]) -> float | None:
    """By how many rows a second what is left behind grew; None where a batch left none, or it is not known."""
    known = [rest for rest in left if rest is not None]
    if len(known) < len(left) or not all(known[1:]) or began[-1] <= began[0]:
        return None
    return (known[-1] - known[0]) / (began[-1] - began[0])


def _unbroken(
    batches: Sequence[tuple[float, Mapping[str, Any]]], where: str
) -> tuple[list[tuple[float, Mapping[str, Any]]], list[str]]:
    """The longest stretch of batches with none missing, the last such one: what came meanwhile is not known
    otherwise.  One that was run again after a restart counts once."""
    numbers = [counted(batch.get("batchId"), f"{where}: batchId") for _, batch in batches]
    rows = [_rows(batch, f"{where}, batch {n:.0f}") for (_, batch), n in zip(batches, numbers, strict=True)]
    last = {n: i for i, (n, count) in enumerate(zip(numbers, rows, strict=True)) if count}
    kept = [i for i, n in enumerate(numbers) if last.get(n, i) == i or not rows[i]]
    notes, runs = list[str](), [[kept[0]]]
    for before, i in pairwise(kept):
        if numbers[i] < numbers[before]:
            raise DataError(
                f"{where}: batch {numbers[i]:.0f} began after batch {numbers[before]:.0f}: expected batches in their "
                "order (was the query set back, or are these logs of several queries?)"
            )
        if numbers[i] > numbers[before] + 1:
            runs.append([])
        runs[-1].append(i)
    if len(kept) < len(batches):
        notes.append("batches that were run again after a restart count once")
    best = max(reversed(runs), key=len)
    if len(runs) > 1:
        missing = sum(numbers[b[0]] - numbers[a[-1]] - 1 for a, b in pairwise(runs))
        notes.append(
            f"{missing:.0f} batches are missing: only {numbers[best[0]]:.0f} to {numbers[best[-1]]:.0f} are looked at, "
            "since what came in between is not known"
        )
    return [batches[i] for i in best], notes


def _batches(documents: Iterable[Mapping[str, Any]], where: str) -> list[tuple[float, Mapping[str, Any]]]:
    """Each batch once (an idle query reports the last one again), by time."""
    found: dict[tuple[str, float], Mapping[str, Any]] = {}
    for document in documents:
        text = str(document["timestamp"])
        try:
            at = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise DataError(
                f"{where}: timestamp is {text!r}: expected a time such as 2026-01-01T00:00:00.000Z"
            ) from None
        batch = f"{where}, batch {document.get('batchId')}: sources"
        found[str(document.get("runId")), at] = {**document, "sources": objects(document["sources"], batch)}
    return sorted(((at, document) for (_, at), document in found.items()), key=lambda one: one[0])


def _took(batch: Mapping[str, Any], where: str) -> float:
    durations = batch["durationMs"]
    if not isinstance(durations, Mapping):
        raise DataError(f"{where}: durationMs is {durations!r}: expected an object with triggerExecution")
    if "triggerExecution" in durations:
        return counted(durations["triggerExecution"], f"{where}: durationMs.triggerExecution") / 1000
    return sum(counted(value, f"{where}: durationMs.{name}") for name, value in durations.items()) / 1000


def _rows(batch: Mapping[str, Any], where: str) -> int:
    """The rows of a batch; where the sum was left out, of its sources."""
    if "numInputRows" in batch:
        return int(counted(batch["numInputRows"], f"{where}: numInputRows"))
    return sum(int(counted(s.get("numInputRows"), f"{where}: numInputRows of a source")) for s in batch["sources"])


def _offset(offset: Any) -> float | dict[str, float] | None:
    """Where a source is: a number, or one for each partition of each topic."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if isinstance(offset, (int, float)) and not isinstance(offset, bool):
        return float(offset) if abs(offset) < _FAR else None
    if isinstance(offset, Mapping) and offset and all(isinstance(part, Mapping) for part in offset.values()):
        known = {f"{topic}-{p}": at for topic, parts in offset.items() for p, at in parts.items()}
        return known if all(isinstance(at, int | float) and 0 <= at < _FAR for at in known.values()) else None
    return None


def _left(batch: Mapping[str, Any]) -> float | None:
    """Rows that were there when the batch was made and are not in it; None if a source does not say."""
    total = 0.0
    for source in batch["sources"]:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        there, known = _offset(end), _offset(latest)
        if isinstance(there, dict) and isinstance(known, dict):
            total += sum(max(0.0, at - there.get(p, at)) for p, at in known.items())
        elif latest is None or latest != end:  # a number of files or seconds, not of rows
            return None
    return total if batch["sources"] else None


def _partitions(batches: Sequence[Mapping[str, Any]]) -> tuple[list[float], int | None]:
    """The share of all rows that each partition had, and how many partitions there are."""
    counts: dict[str, float] = {}
    for batch in batches:
        for i, source in enumerate(batch["sources"]):
            start, end = _offset(source.get("startOffset")), _offset(source.get("endOffset"))
            if isinstance(end, dict):
                known = start if isinstance(start, dict) else end
                for p, at in end.items():
                    counts[f"{i}-{p}"] = counts.get(f"{i}-{p}", 0.0) + max(0.0, at - known.get(p, at))
    total = sum(counts.values())
    return ([n / total for n in counts.values()] if total else []), len(counts) or None


def _state(operator: Mapping[str, Any], where: str) -> tuple[int, int, int | None]:
    rows, size, parts = (
        number(operator.get(name), f"{where}: stateOperators.{name}")
        for name in ("numRowsTotal", "memoryUsedBytes", "numShufflePartitions")
    )
    return int(rows or 0), int(size or 0), int(parts) if parts else None


def _out(batches: Sequence[Mapping[str, Any]], places: Sequence[str], seconds: float) -> float | None:
    """Rows that the sink was given; -1 says that it does not count them."""
    counts = [
        number(batch["sink"].get("numOutputRows"), f"{place}: sink.numOutputRows")
        for batch, place in zip(batches, places, strict=True)
        if isinstance(batch.get("sink"), Mapping)
    ]
    known = [n for n in counts if n is not None and n >= 0]
    return sum(known) / seconds if counts and len(known) == len(counts) and seconds > 0 else None


def arrivals_of(job: Job) -> list[tuple[float, float, int]]:
    """From when to when the rows of each batch came: since the batch before it began, and those that one left behind.

    >>> arrivals_of(Job("q", "spark", {}, samples=(Sample(0, 5, 0.1), Sample(1, 7, 0.1), Sample(3, 4, 0.1, left=2))))
    [(0, 1, 7), (1, 3, 6)]
    """
    return [
        (before.at, sample.at, max(0, round(sample.events + (sample.left or 0) - (before.left or 0))))
        for before, sample in pairwise(job.samples)
    ]


# What Flink tells of a job: its vertices and their metrics, as its REST interface has them.
#
# A document is a job (``GET /jobs/ID``: ``name``, ``vertices`` with ``id``, ``name``, ``parallelism``,
# ``maxParallelism``, and ``plan`` with who hears whom) in which each vertex has its ``metrics``: an object, or the list
# that ``/vertices/ID/subtasks/metrics`` gives (``{"id": "busyTimeMsPerSecond", "sum": …, "max": …, "avg": …}``), or the
# one of ``/vertices/ID/metrics`` (``{"id": "0.busyTimeMsPerSecond", "value": "12.0"}``, with the number of the
# subtask).
#
# The metrics that are read: ``busyTimeMsPerSecond`` (on average over the subtasks), ``numRecordsInPerSecond``,
# ``numRecordsOutPerSecond`` and ``pendingRecords`` (``records-lag-max`` of Kafka) in all.  A source counts what it puts
# out where it does not count what it takes.

_SKEWED = 1.05  # a subtask less than 5 % above its share does not count as busiest


def is_flink(document: Any) -> bool:
    """Whether this is a job of Flink.

    >>> is_flink({"vertices": []}), is_flink({"batchId": 1})
    (True, False)
    """
    return isinstance(document, Mapping) and isinstance(document.get("vertices"), Sequence)


def of_flink(document: Mapping[str, Any], *, where: str = "the metrics") -> Job:
    """The job with its vertices as steps.

    >>> metrics = {"busyTimeMsPerSecond": 700, "numRecordsInPerSecond": 140, "numRecordsOutPerSecond": 280}
    >>> job = of_flink({"name": "j", "vertices": [{"id": "a", "name": "map", "parallelism": 2, "metrics": metrics}]})
    >>> job.steps["map"].capacity, job.steps["map"].ratio, job.steps["map"].workers
    (200.0, 2.0, 2)
    """
    name = str(document.get("name") or document.get("jid") or "job")
    vertices = document["vertices"]
    if not vertices:
        raise DataError(f"{where}: the job {name} has no vertices")
    names: dict[str, str] = {}
    for vertex in vertices:
        if not isinstance(vertex, Mapping) or "metrics" not in vertex:
            raise DataError(
                f"{where}: a vertex of the job {name} has no metrics: put what /vertices/ID/subtasks/metrics tells "
                "under its 'metrics'"
            )
        known = str(vertex.get("name") or vertex.get("id"))
        names[str(vertex.get("id") or known)] = f"{known} ({vertex.get('id')})" if known in names.values() else known
    heard = _plan(document, where)
    steps = []
    for key, vertex in zip(names, vertices, strict=True):
        inputs = [_input(given) for given in _list(vertex.get("inputs")) or heard.get(key, [])]
        for one in inputs:
            if one not in names:
                raise DataError(f"{where}: the vertex {names[key]} hears {one}, which is not among the vertices")
        try:
            steps.append(_step_flink(names[key], vertex, tuple(names[i] for i in inputs), f"vertex {names[key]}"))
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return Job(name, "flink", only(steps), seconds=number(document.get("seconds"), "seconds") or 0.0)


def _input(given: Any) -> str:
    return str(given.get("id") if isinstance(given, Mapping) else given)


def _list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else []


def _plan(document: Mapping[str, Any], where: str) -> dict[str, list[Any]]:
    """Who hears whom."""
    plan = document.get("plan")
    nodes = objects(plan.get("nodes"), f"{where}: plan.nodes") if isinstance(plan, Mapping) else []
    return {str(node.get("id")): _list(node.get("inputs")) for node in nodes}


def _step_flink(name: str, vertex: Mapping[str, Any], hears: tuple[str, ...], where: str) -> MeasuredStep:
    workers = int(number(vertex.get("parallelism"), f"{where}: parallelism") or 1)
    values = _values(vertex["metrics"], where)
    busy = _average(values.get("busyTimeMsPerSecond"))
    came, out = _all(values.get("numRecordsInPerSecond")), _all(values.get("numRecordsOutPerSecond"))
    if not hears and not came:
        came = out
    lag = next((_all(values[k]) for k in ("pendingRecords", "records-lag-max", "lag") if k in values), None)
    growth = _all(values.get("pendingRecordsPerSecond"))
    most = number(vertex.get("maxParallelism"), f"{where}: maxParallelism")
    return MeasuredStep(
        name,
        rate=None if came is None else max(0.0, came + (growth or 0.0)),
        processed=came,
        busy=None if busy is None else min(1.0, busy / 1000),
        lag=lag,
        growth=growth,
        out=out,
        workers=workers,
        keys=None if most is None or most < 1 else int(most),
        partitions=int(p)
        if (p := number(vertex.get("numSourcePartitions"), f"{where}: numSourcePartitions"))
        else None,
        skew=_skew(values.get("numRecordsInPerSecond"), workers),
        hears=hears,
    )


_Value = dict[str, float]  # sum, avg, max; or a number for each subtask


def _values(metrics: Any, where: str) -> dict[str, _Value]:
    """Each metric with what is known of it."""
    out: dict[str, _Value] = {}
    if isinstance(metrics, Mapping):
        for name, value in metrics.items():
            parts = value.items() if isinstance(value, Mapping) else [("all", value)]
            out[str(name)] = _numbers(parts, f"{where}: {name}")
        return out
    if not isinstance(metrics, Sequence) or isinstance(metrics, str):
        raise DataError(f"{where}: metrics: expected an object or a list, got {metrics!r}")
    for metric in metrics:
        if not isinstance(metric, Mapping) or "id" not in metric:
            raise DataError(f"{where}: a metric has no id: {metric!r}")
        subtask, dot, name = str(metric["id"]).partition(".")
        if "value" in metric:
            key, part = (name, subtask) if dot and subtask.isdigit() else (str(metric["id"]), "all")
            out.setdefault(key.rpartition(".")[2], {}).update(_numbers([(part, metric["value"])], f"{where}: {key}"))
        else:
            parts = [(k, v) for k, v in metric.items() if k != "id"]
            out[str(metric["id"])] = _numbers(parts, f"{where}: {metric['id']}")
    return out


def _numbers(parts: Any, where: str) -> _Value:
    return {str(k): found for k, v in parts if (found := number(v, where)) is not None}


def _subtasks(value: _Value) -> list[float]:
    return [v for k, v in value.items() if k.isdigit()]


def _all(value: _Value | None) -> float | None:
    if not value:
        return None
    return next((value[k] for k in ("all", "sum") if k in value), None) or sum(_subtasks(value))


def _average(value: _Value | None) -> float | None:
    if not value:
        return None
    if "avg" in value or "all" in value:
        return value.get("avg", value.get("all"))
    return mean(_subtasks(value)) if _subtasks(value) else value.get("max")


def _skew(value: _Value | None, workers: int) -> float | None:
    """The share of all events that the busiest subtask has, if it is more than its share."""
    if not value or workers < 2:
        return None
    most, total = max([value.get("max", 0.0), *_subtasks(value)]), _all(value)
    if not total or most / total <= _SKEWED / workers:
        return None
    return min(1.0, most / total)


KINDS = (
    "the progress of a Spark query (StreamingQueryProgress: batchId, numInputRows, durationMs, sources), "
    "a job of Flink with its vertices and their metrics, or what pellucid run --measure wrote"
)


def read_jobs(path: str | Path) -> list[Job]:
    """The jobs that a file describes: one for each Spark query, Flink job or local run in it."""
    found, cut = _documents(path)
    jobs = jobs_of(found, where=str(path))
    return [
        replace(job, notes=(*job.notes, f"the last line of {path} is cut off: left out")) if cut else job
        for job in jobs
    ]


def documents(path: str | Path) -> list[Any]:
    """All JSON documents of a file: one, a list, or one on each line; .gz is unpacked."""
    return _documents(path)[0]


def _documents(path: str | Path) -> tuple[list[Any], bool]:
    """The same, and whether its last line is incomplete, as in a log still being written."""
    try:
        data = Path(path).read_bytes()
        if str(path).endswith(".gz"):
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if not text.strip():
        raise DataError(f"{path}: is empty: expected {KINDS}")
    try:
        found = json.loads(text)
        return (found if isinstance(found, list) else [found]), False
    except RecursionError:
        raise DataError(
            f"{path}: is JSON of another kind (lists in lists, too deep to read): expected {KINDS}"
        ) from None
    except ValueError as error:
        whole = error
    out = []
    for i, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            out.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not out:
                raise DataError(f"{path}: is no JSON: {whole}") from None
            if i == len(text.splitlines()):
                return out, True
            raise DataError(f"{path}: line {i}: is no JSON: {error}") from None
    return out, False


def jobs_of(found: Iterable[Any], *, where: str = "the measurements") -> list[Job]:
    """The jobs of documents of any of the kinds.

    >>> jobs_of([{"temperature": 21}], where="weather.json")
    Traceback (most recent call last):
    pellucid.errors.DataError: weather.json: is JSON of another kind (an object with temperature): expected the \
progress of a Spark query (StreamingQueryProgress: batchId, numInputRows, durationMs, sources), a job of Flink with \
its vertices and their metrics, or what pellucid run --measure wrote
    """
    progress: list[Mapping[str, Any]] = []
    jobs: list[Job] = []
    others: list[Any] = []
    for document in found:
        inner = _unwrapped(document)
        if is_progress(inner):
            progress.append(inner)
        elif is_flink(inner):
            jobs.append(of_flink(inner, where=where))
        elif is_local(inner):
            jobs.append(of_local(inner, where=where))
        elif not (isinstance(document, Mapping) and "Event" in document):  # another line of a Spark event log
            others.append(document)
    if others:
        raise DataError(f"{where}: is JSON of another kind ({_words(others[0])}): expected {KINDS}")
    jobs = [*of_progress(progress, where=where), *jobs] if progress else jobs
    if not jobs:
        raise DataError(f"{where}: has no progress of a streaming query in it: expected {KINDS}")
    return jobs


def _unwrapped(document: Any) -> Any:
    """A progress report without what a listener or an event log puts around it."""
    inner = document.get("progress") if isinstance(document, Mapping) else None
    if isinstance(inner, str):
        try:
            inner = json.loads(inner)
        except ValueError:
            return document
    return inner if is_progress(inner) else document


def _words(document: Any) -> str:
    if isinstance(document, Mapping):
        names = [str(name) for name in document]
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        if document.get("pellucid") is not None and "verb" in document:
            return f"a report of pellucid {document['verb']}"
        return f"an object with {shown}" if names else "an empty object"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list in a list"}
    return kinds.get(type(document), "null")
