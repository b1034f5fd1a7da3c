"""The few file operations on which the Parquet sink rests, on a local (or mounted) folder.

The manifest is the commit, so one operation must be both *atomic* (a file is there whole or not at all, also after a
power failure) and *exclusive* (of two writers one succeeds and the other is told).  Writing a temporary file, syncing
it and making a hard link gives both: ``link`` fails where the name is taken, which ``rename`` does not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pellucid.errors import UsageError
from pellucid.internal.base.files import PUBLIC, make_lasting, write_lasting


def local_folder(path: str | os.PathLike[str]) -> Path:
    """The folder that a path or a ``file:`` URI names.

    >>> local_folder("file:///data/sums").as_posix()
    '/data/sums'
    >>> local_folder("s3a://bucket/sums")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: path='s3a://bucket/sums': the parquet sink needs a local or mounted folder (its commit
    is a hard link); for an object store use pellucid.sinks.delta
    """
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif "://" in text:
        raise UsageError(
            f"path={text!r}: the parquet sink needs a local or mounted folder (its commit is a hard link); "
            "for an object store use pellucid.sinks.delta"
        )
    return Path(os.path.abspath(text))  # without '..', as Spark takes it, too


def create(path: Path, content: bytes) -> bool:
    """Make the file, whole and lasting, or return False because it exists already."""
    make_lasting(path.parent)
    return write_lasting(path, [content], mode=PUBLIC, exclusive=True)


def replace(path: Path, content: bytes) -> None:
    """Make the file, whole and lasting, in the place of one that may be there."""
    make_lasting(path.parent)
    write_lasting(path, [content], mode=PUBLIC)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Alone among those who ask for this folder, where the system and the disk have locks."""
    make_lasting(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def move(source: Path, target: Path) -> None:
    """Move a file if it is still at its source; somebody else, or an earlier attempt, may have moved it.  The caller
    syncs the folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if not target.exists():
            raise


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def files_below(folder: Path, suffix: str) -> Iterator[Path]:
    """The files with this ending that Spark counts as data: nothing below a name with a leading '_' or '.'."""
    for name in names(folder):
        if name.startswith(("_", ".")):
            continue
        path = folder / name
        if path.is_dir():
            yield from files_below(path, suffix)
        elif name.endswith(suffix):
            yield path


def folds_case(folder: Path) -> bool:
    """Whether the file system takes ``A`` and ``a`` for one name.

    >>> folds_case(Path("/proc"))
    False
    """
    name = folder.name.swapcase()
    return name != folder.name and folder.exists() and (folder.parent / name).exists()


def remove(path: Path) -> None:
    """Remove a file that may be gone."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder that may be gone, or that somebody else is removing."""
    shutil.rmtree(path, ignore_errors=True)
