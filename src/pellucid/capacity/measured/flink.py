"""What Flink tells of a job: its vertices and their metrics, as its REST interface has them.

A document is a job (``GET /jobs/ID``: ``name``, ``vertices`` with ``id``, ``name``, ``parallelism``,
``maxParallelism``, and ``plan`` with who hears whom) in which each vertex has its ``metrics``: an object, or the list
that ``/vertices/ID/subtasks/metrics`` gives (``{"id": "busyTimeMsPerSecond", "sum": …, "max": …, "avg": …}``), or the
one of ``/vertices/ID/metrics`` (``{"id": "0.busyTimeMsPerSecond", "value": "12.0"}``, with the number of the subtask).

Of the metrics are read ``busyTimeMsPerSecond`` (on average over the subtasks), ``numRecordsInPerSecond``,
``numRecordsOutPerSecond`` and ``pendingRecords`` (``records-lag-max`` of Kafka) in all.  A source counts what it puts
out where it does not count what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from pellucid.capacity.measured.job import Job, MeasuredStep, number, objects, only
from pellucid.errors import DataError

_SKEWED = 1.05  # a busiest subtask with less than 5 % above its share is none


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
            steps.append(_step(names[key], vertex, tuple(names[i] for i in inputs), f"vertex {names[key]}"))
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


def _step(name: str, vertex: Mapping[str, Any], hears: tuple[str, ...], where: str) -> MeasuredStep:
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
    """The part of all events that the busiest subtask has, if it is more than its share."""
    if not value or workers < 2:
        return None
    most, total = max([value.get("max", 0.0), *_subtasks(value)]), _all(value)
    if not total or most / total <= _SKEWED / workers:
        return None
    return min(1.0, most / total)
