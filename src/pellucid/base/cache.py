"""The cache: one folder for all that Pellucid can make again, in which nobody else can write."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from pellucid.base import files


def cache_folder() -> Path:
    """Where Pellucid keeps what it can make again: ``$PELLUCID_CACHE``, else in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    >>> os.environ["PELLUCID_CACHE"] = "/var/cache/mine"
    >>> print(cache_folder())
    /var/cache/mine
    >>> del os.environ["PELLUCID_CACHE"]
    """
    chosen = os.environ.get("PELLUCID_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "pellucid"


def own_cache(*names: str) -> Path:
    """A folder in the cache, made if need be, in which nobody else can write; an OSError if there can be none.

    What lies there is run: a folder of another user, or one that is a link, is not used.
    """
    path = cache_folder()
    path.parent.mkdir(parents=True, exist_ok=True)
    for step in (path, *(path.joinpath(*names[: i + 1]) for i in range(len(names)))):
        with contextlib.suppress(FileExistsError):
            os.mkdir(step, files.FOLDER)
        found = os.stat(step) if step == path else os.lstat(step)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != files.own_user():
            raise PermissionError(1, "belongs to another user, or is no folder", str(step))
        if stat.S_IMODE(found.st_mode) & 0o022:
            os.chmod(step, stat.S_IMODE(found.st_mode) & ~0o022)
    return path.joinpath(*names)
