"""What a Spark query tells of itself: the `StreamingQueryProgress` of its micro-batches.

Spark 3 and 4 write the same fields: a JSON object for each batch with ``timestamp`` (when it began), ``numInputRows``,
``inputRowsPerSecond``, ``processedRowsPerSecond``, ``durationMs`` (``triggerExecution`` is the whole batch),
``stateOperators`` and, for each of ``sources``, the offsets where the batch began and ended and the latest that there
was.  A rate that is no number (nothing came, or no time passed) is left out by Spark, so rates are computed here, from
rows and times.  Offsets are numbers for some sources and ``{topic: {partition: offset}}`` for Kafka: then the lag, the
number of partitions and the busiest partition are known.

A query is one step: Spark does not time the parts of a plan.  How many cores it had is not told; its workers count as 1
("as it runs now") unless somebody says it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pellucid.capacity.measured.batches import batch_cost
from pellucid.capacity.measured.job import Job, MeasuredStep, Sample, counted, number, objects
from pellucid.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

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
    """The most batches of which none between them is missing, the last such ones: what came meanwhile is not known
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
    """Each batch once (an idle query tells of the last one again), by time."""
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
    """The rows of a batch; where somebody left the sum out, of its sources."""
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
    """Rows that were there when the batch was made and are not in it; None if a source does not tell."""
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
    """The part of all rows that each partition had, and how many partitions there are."""
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
