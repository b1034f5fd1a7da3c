"""Which group of sinks a folder belongs to: a small file in it, made by the first that asks."""

from __future__ import annotations

import json
from pathlib import Path

from pellucid.errors import StateError
from pellucid.internal.base.small import read_small
from pellucid.sinks.files import folder

_NAME = "_group.json"  # Spark, Arrow and Delta skip names with a leading underscore


def claim(path: Path, group: str, where: str) -> str | None:
    """Say that the folder is of this group, whose log is at ``where``; where the other has its log, if it is another's.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> claim(path, "g1", "one/log"), claim(path, "g1", "one/log"), claim(path, "g2", "two/log")
    (None, None, 'one/log')
    """
    folder.create(path / _NAME, json.dumps({"name": group, "place": where}).encode())
    name, place = _claimed(path / _NAME)
    return None if name == group else place


def unclaim(path: Path, group: str | None) -> None:
    """The group is over, or with None whichever group has the folder: another may have it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> claim(path, "g1", "one/log"), unclaim(path, "g1"), claim(path, "g2", "two/log")
    (None, None, None)
    """
    if (path / _NAME).exists() and group in (None, _claimed(path / _NAME)[0]):
        folder.remove(path / _NAME)


def forget(path: Path) -> str:
    """What gives the folder free again.

    >>> forget(Path("/data/sums"))
    'rm /data/sums/_group.json'
    """
    return f"rm {path / _NAME}"


def _claimed(path: Path) -> tuple[str, str]:
    """The group that a folder belongs to, and where its log is."""
    try:
        found = read_small(path, links=True)
        name, place = found["name"], found["place"]
        if not (isinstance(name, str) and isinstance(place, str)):
            raise ValueError("it names no group")
        return name, place
    except (ValueError, KeyError) as error:
        raise StateError(
            f"{path}: does not say which group of sinks the folder belongs to ({error}): the file is damaged; bring it "
            f"back from a copy, or, if the folder belongs to the group that writes now, `rm {path}`: it is made again"
        ) from None
