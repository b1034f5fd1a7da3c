"""Documents for programs; versioned, so that a reader can tell what it reads."""

from __future__ import annotations

import datetime
import enum
import json
import math
from decimal import Decimal
from typing import Any

from pellucid.internal.model.sheet import event_fields, time_text

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
    if isinstance(value, (datetime.date, datetime.timedelta, Decimal)):
        return time_text(value)
    if isinstance(value, dict):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [as_json(part) for part in value]
    return repr(value)


def versioned(document: dict[str, Any], *, indent: int | None = None) -> str:
    """The text of a document.

    >>> versioned({"verb": "audit"})
    '{"pellucid": 1, "verb": "audit"}'
    """
    return json.dumps({"pellucid": VERSION, **document}, indent=indent, ensure_ascii=False, allow_nan=False)
