"""A counterexample as a document for programs; versioned, so that a reader can tell what it reads."""

from __future__ import annotations

import enum
import json
import math
from typing import Any

from pellucid.check.verdict import Counterexample
from pellucid.report.counterexample_rows import event_fields

__all__ = ["VERSION", "as_json", "counterexample_document", "counterexample_json"]

VERSION = 1


def as_json(value: Any) -> Any:
    """An event as JSON: a record as an object, an enum by its name, a float that JSON lacks as a text.

    >>> as_json(float("inf")), as_json((1, "a")), as_json(True)
    ('inf', [1, 'a'], True)
    """
    fields = event_fields(value)
    if fields is not None:
        return {name: as_json(part) for name, part in fields.items()}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [as_json(part) for part in value]
    return repr(value)


def counterexample_document(example: Counterexample) -> dict[str, Any]:
    """The counterexample as plain data, to stand inside a larger document."""
    if not example.graphs:  # a faulty execution has no pushes
        document: dict[str, Any] = json.loads(example.to_json())["counterexample"]
        return document
    return {
        "pipelines": [graph.name for graph in example.graphs],
        "loop": example.loop,
        "why": example.why,
        "steps": [
            {"push": i, "in": as_json(step.inputs), "streams": as_json(step.streams), "queues": as_json(step.queues)}
            for i, step in enumerate(example.steps)
        ],
    }


def counterexample_json(example: Counterexample, *, indent: int | None = None) -> str:
    """The document as text.

    >>> from pellucid import check, pipeline
    >>> example = check.holds(pipeline(lambda x: x.trim(1), x=int), "G (x -> out)").counterexample
    >>> document = json.loads(counterexample_json(example))
    >>> document["pellucid"], document["counterexample"]["steps"][0]["in"]
    (1, {'x': 0})
    """
    document = {"pellucid": VERSION, "counterexample": counterexample_document(example)}
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
