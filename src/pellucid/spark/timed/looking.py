"""A streaming query by event time, looked at from outside through its state folder: nothing is written, and no Spark is
needed.

All buckets have the same clock, which is told to each in every micro-batch.  What is said is of the last micro-batch
that all of them have a snapshot of.
"""

from __future__ import annotations

import json
import os
from typing import Any

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.engine.epochs.looking import engine_at
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.why.answer import Progress, progress_of
from pellucid.internal.engine.timed.why.words import moment
from pellucid.internal.graph.model import Graph
from pellucid.spark.state.store import BucketSnapshot, Store

_TRIES = 4


def query_folder(folder: str | os.PathLike[str]) -> str | None:
    """The folder of a query's snapshots: this one, or the one inside that `pellucid run --on spark` makes; None if
    there is none."""
    for place in (os.fspath(folder), os.path.join(os.fspath(folder), "pellucid")):
        if os.path.isfile(os.path.join(place, "identity.json")):
            return place
    return None


def look_at_query(graph: Graph, folder: str | os.PathLike[str]) -> Progress:
    """How far a streaming query is, and why what is not done is not."""
    place, found = option("state", folder), query_folder(folder)
    if found is None:
        raise UsageError(f"{place}: holds no state of a streaming query: give the folder that p.spark was given")
    store = Store(found)
    identity = store.identity()
    assert identity is not None
    if identity.get("pipeline") != graph.name:
        raise StateError(
            f"{place}: belongs to another run: it is of {identity.get('pipeline')!r}, not of {graph.name!r}. Give the "
            "pipeline as it was when it ran"
        )
    version, snapshots = _newest(store)
    for snapshot in snapshots.values():
        if snapshot.meta.get("digest") != graph.digest:
            raise StateError(
                f"{place}: belongs to another run: it is of {graph.name!r} as it was before a change. Give the "
                "pipeline as it was when it ran"
            )
    about: dict[str, Any] = {
        "folder": os.fspath(folder), "kind": "spark", "pipeline": graph.name, "micro_batch": version,
        "buckets": len(snapshots),
    }  # fmt: skip
    words = [f"micro-batch {version}" if version is not None else "no micro-batch yet"]
    about["words"] = words
    if not graph.timed:
        many = f"{len(snapshots)} bucket{'s' * (len(snapshots) != 1)} of keys"
        return Progress(graph.name, graph, (), (), {**about, "words": [*words, f"the state of {many} is kept"]}, True)
    engines, extras = [], []
    for snapshot in snapshots.values():
        engines.append(engine_at(graph, snapshot.state, place))
        extras.append(json.loads(bytes(snapshot.extra)))
    rows: dict[str, int] = {}
    for extra in extras:
        for source, count in extra.get("rows", {}).items():
            rows[source] = rows.get(source, 0) + int(count)
    began = max((extra["began"] for extra in extras if extra.get("began") is not None), default=None)
    if began is not None:
        words.append(f"begun {moment(began / 1e6)}")
        about["at"] = moment(began / 1e6)
    heard = _heard(graph, extras)
    silent = [source for source, at in heard.items() if began is not None and at < began / 1e6]
    return progress_of(
        graph, engines or [TimedEngine(graph, mode="python")], rows=rows or None, heard=heard, silent=silent,
        about=about,
    )  # fmt: skip


def _heard(graph: Graph, extras: list[dict[str, Any]]) -> dict[str, float]:
    """When each source had its last row, where a step `at` has it alone."""
    out: dict[str, float] = {}
    for at, sources in feeders(graph).items():
        found = [extra["heard"][at] for extra in extras if at in extra.get("heard", {})]
        if found and len(sources) == 1:
            out[sources[0]] = max(out.get(sources[0], 0.0), max(found) / 1e6)
    return out


def _newest(store: Store) -> tuple[int | None, dict[int, BucketSnapshot]]:
    """The last micro-batch that all buckets have, and their snapshots of it."""
    for attempt in range(_TRIES):
        versions = {bucket: store.versions(bucket) for bucket in store.buckets()}
        there = {bucket: found for bucket, found in versions.items() if found}
        if not there:
            return None, {}
        version = min(found[-1] for found in there.values())
        try:
            loaded = {bucket: store.load(bucket, version + 1) for bucket in there}
        except StateError:  # a query that runs may remove it meanwhile
            if attempt == _TRIES - 1:
                raise
            continue
        return version, {bucket: snapshot for bucket, snapshot in loaded.items() if snapshot is not None}
    raise AssertionError
