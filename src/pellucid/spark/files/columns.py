"""The types of a stream's columns, as they were when it began.

In text files types are found by looking, and what is found can change with every file that comes: a column of numbers
becomes one of texts. A query that goes on keeps the types that it began with, so that such a row is an error with its
file, and not another question.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from pellucid.errors import StateError
from pellucid.spark.state.files import open_files

_NAME = "pellucid-columns.json"


def remembered(checkpoint: str) -> dict[str | None, Any]:
    """Of each source its schema, if the query of this checkpoint has done a micro-batch."""
    from pyspark.sql.types import StructType

    files = open_files(checkpoint)
    if not any(name.isdigit() for name in files.names("commits")):
        return {}
    try:
        found = json.loads(files.read(_NAME))
    except (FileNotFoundError, ValueError):
        return {}  # begun without it
    return {name or None: StructType.fromJson(schema) for name, schema in found.items()}


def remember(checkpoint: str, schemas: Mapping[str | None, Any]) -> None:
    """Write them down, until the query begins as often as it takes."""
    data = {name or "": schema.jsonValue() for name, schema in schemas.items()}
    with contextlib.suppress(StateError):  # a checkpoint that cannot be written is Spark's to complain of
        open_files(checkpoint).write(_NAME, [json.dumps(data, indent=1).encode()])


def as_begun(schema: Any, begun: Any) -> Any:
    """A schema with the types that its columns had; columns that are new have what was found."""
    from pyspark.sql.types import StructField, StructType

    types = {} if begun is None else {field.name: field.dataType for field in begun.fields}
    return StructType([StructField(f.name, types.get(f.name, f.dataType), True) for f in schema.fields])
