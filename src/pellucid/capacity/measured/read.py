"""Files of measurements: which kind they are, and the jobs in them.

A file is one JSON document, a list of them, or one on each line (a log).  Of Spark's own event logs and of what a
listener writes the lines with progress are read and the others passed over; anything else is refused, by name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.capacity.measured.flink import is_flink, of_flink
from pellucid.capacity.measured.job import Job
from pellucid.capacity.measured.local import is_local, of_local
from pellucid.capacity.measured.spark import is_progress, of_progress
from pellucid.errors import DataError

KINDS = (
    "the progress of a Spark query (StreamingQueryProgress: batchId, numInputRows, durationMs, sources), "
    "a job of Flink with its vertices and their metrics, or what pellucid run --measure wrote"
)


def read_jobs(path: str | Path) -> list[Job]:
    """The jobs that a file tells of: one for each Spark query, Flink job or local run in it."""
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
    """And whether its last line is not whole, as of a log that is being written."""
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
    """What a listener or an event log puts around a progress."""
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
