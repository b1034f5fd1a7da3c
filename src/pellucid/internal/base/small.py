"""Small JSON files of our own: one way to read them, by which whatever can be wrong with one is a `ValueError` that
says what, and what is no file is refused by its name.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from pellucid.internal.base.files import read_own

CHECKSUM = "checksum"


def parsed(data: bytes) -> dict[str, Any]:
    """What the content of a small file says.

    >>> parsed(b"[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    >>> parsed(b"[7]")
    Traceback (most recent call last):
    ValueError: expected a JSON object, found list
    """
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    return found


def read_small(path: str | os.PathLike[str], *, links: bool = False) -> dict[str, Any]:
    """What a small file says; ``links`` as `open_own` has it."""
    return parsed(read_own(path, links=links))


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """What a small file says besides its checksum, if that is right.

    >>> checked(parsed(sealed({"epoch": 3})))
    {'epoch': 3}
    >>> checked({"epoch": 4})
    Traceback (most recent call last):
    ValueError: its checksum is wrong
    """
    rest = {name: value for name, value in found.items() if name != CHECKSUM}
    if found.get(CHECKSUM) != checksum_of(rest):
        raise ValueError("its checksum is wrong")
    return rest


def sealed(document: Mapping[str, Any]) -> bytes:
    """The content of a small file, with a checksum of the rest of it."""
    return json.dumps({**document, CHECKSUM: checksum_of(document)}).encode() + b"\n"


def checksum_of(document: Mapping[str, Any]) -> str:
    """The checksum of a document, in whichever order it is written."""
    try:
        return f"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
