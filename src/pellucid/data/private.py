"""Files that are for the user alone: folders of mode 0700, files of mode 0600, and no link is followed when something
is written.

A state folder holds events, states and where they go; a cache holds code that is run.  Neither is for others to read or
to change.  Outputs are not made here: those have the mode that the user's umask says.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from pellucid.errors import StateError, UsageError

__all__ = ["cache_folder", "created", "inner_folder", "no_links", "own_cache", "own_folder", "refuse_links"]

_FOLDER, _FILE = 0o700, 0o600
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def own_folder(path: str | os.PathLike[str], option: str = "--state", mark: str = "") -> None:
    """Make a folder that nobody else can look into, or make one so that is there; one of another user is refused.

    One that is there and holds something else than ours (without the file ``mark``) is left as it is: who asked for it
    made a mistake.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "state"
    >>> own_folder(place)
    >>> oct(place.stat().st_mode & 0o777)
    '0o700'
    """
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _FOLDER)
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{option} {path}: is no folder: choose another name")
        if found.st_uid != _me():
            raise UsageError(
                f"{option} {path}: belongs to another user (number {found.st_uid}), who could change what is in it: "
                "choose a folder of your own, or run as that user"
            )
        if stat.S_IMODE(found.st_mode) & 0o077 and (not os.listdir(path) or os.path.lexists(os.path.join(path, mark))):
            os.chmod(path, _FOLDER)
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be used: {error.strerror or error}; choose another folder") from None


def _me() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else os.stat(os.path.expanduser("~")).st_uid


def refuse_links(root: str | os.PathLike[str]) -> None:
    """Refuse a folder of ours in which somebody has put a link, or in a folder in it; files farther in are opened
    without following any."""
    stack = [(root, 0)]
    while stack:
        folder, depth = stack.pop()
        with os.scandir(folder) as found:
            for entry in found:
                if entry.is_symlink():
                    raise _link(entry.path)
                if depth < 1 and entry.is_dir(follow_symlinks=False):
                    stack.append((entry.path, depth + 1))


def _link(path: str | os.PathLike[str]) -> StateError:
    return StateError(
        f"{path}: is a link, which no run of Pellucid has made: remove it, or start anew in another folder"
    )


def inner_folder(root: str | os.PathLike[str], *names: str) -> tuple[Path, bool]:
    """A folder inside one of ours, made if need be; and whether it was.  A link in its place is refused."""
    path, made = Path(root), False
    for name in names:
        path = path / name
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _FOLDER)
            made = True
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise _link(path)
    return path, made


def created(path: str | os.PathLike[str], *, buffering: int = -1) -> Any:
    """A new file for the user alone, open for writing bytes; what was there under this name is removed, never written
    to.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "link").symlink_to(folder / "precious")
    >>> with created(folder / "link") as file:
    ...     _ = file.write(b"ours")
    >>> (folder / "precious").exists(), (folder / "link").is_symlink(), oct((folder / "link").stat().st_mode & 0o777)
    (False, False, '0o600')
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW, _FILE)
    return os.fdopen(handle, "wb", buffering=buffering)


def no_links(path: str, flags: int) -> int:
    """An opener for `open` that follows no link, and makes files for the user alone."""
    return os.open(path, flags | _NOFOLLOW, _FILE)


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
            os.mkdir(step, _FOLDER)
        found = os.stat(step) if step == path else os.lstat(step)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != _me():
            raise PermissionError(1, "belongs to another user, or is no folder", str(step))
        if stat.S_IMODE(found.st_mode) & 0o022:
            os.chmod(step, stat.S_IMODE(found.st_mode) & ~0o022)
    return path.joinpath(*names)
