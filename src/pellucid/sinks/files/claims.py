"""Which group of sinks a folder belongs to: a small file in it, which the first group makes."""

from __future__ import annotations

import json
from pathlib import Path

from pellucid.base.small import read_small
from pellucid.errors import StateError
from pellucid.sinks.files import folder as folders

NAME = "_group.json"  # readers of Parquet and Delta leave out what begins so


def claim(folder: Path, group: str, where: str) -> str | None:
    """Say that the folder is of this group; where the other group has its log, if it is of another.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> claim(folder, "g1", "log"), claim(folder, "g1", "log"), claim(folder, "g2", "elsewhere")
    (None, None, 'log')
    >>> unclaim(folder, "g1"), claim(folder, "g2", "elsewhere")
    (None, None)
    """
    folders.create(folder / NAME, json.dumps({"name": group, "place": where}).encode())
    name, place = _claimed(folder / NAME)
    return None if name == group else place


def unclaim(folder: Path, group: str | None) -> None:
    """The group is over: another may have the folder.  With None, whichever group has it."""
    path = folder / NAME
    if path.exists() and group in (None, _claimed(path)[0]):
        folders.remove(path)


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
