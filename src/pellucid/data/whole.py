"""A small file written whole or not at all, without Arrow."""

from __future__ import annotations

import contextlib
import os

from pellucid.errors import DataError

__all__ = ["write_whole"]


def write_whole(path: str, text: str) -> None:
    """Write a text file: beside the target first, then under its name."""
    target = os.path.realpath(path)
    special = os.path.exists(target) and not os.path.isfile(target)
    if os.path.isdir(target):
        raise DataError(f"{path}: is a folder: expected the name of a file to write")
    temporary = (
        target if special else os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.part")
    )
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        if not special:
            os.replace(temporary, target)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if not special:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
