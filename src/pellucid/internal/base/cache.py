"""The cache: one folder for all that Pellucid can make again, in which nobody else can write.

What lies there is run, so nothing there is believed for where it lies.  What is *kept* has a seal: a code over its name
and its content which nobody can make who does not have the folder's key (a file of 32 random bytes, for the user
alone).  It is read whole, from a regular file of this user that nobody else could write, and held against its seal
before anything looks at it.  Whatever fails is thrown away, said once, and made anew by who asked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from pellucid.internal.base import files

SUFFIX, KEY = ".pellucid-kept", "pellucid-seal.key"
_SEAL = hashlib.sha256().digest_size
_MOST = 1 << 28  # bytes of a file: nothing that is kept comes near it, and a planted one must not fill the memory
_LOOP = "k_" + 24 * "[0-9a-f]"  # what versions without seals kept, which is not read any more
_OURS = (f"*{SUFFIX}", f".*{SUFFIX}.*{files.TEMPORARY}", f"{_LOOP}.py", f"__pycache__/{_LOOP}.*")
_said: set[str] = set()


def cache_folder() -> Path:
    """Where Pellucid keeps what it can make again: ``$PELLUCID_CACHE``, else in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    >>> os.environ["PELLUCID_CACHE"] = "/var/cache/mine"
    >>> print(cache_folder())
    /var/cache/mine
    >>> del os.environ["PELLUCID_CACHE"]

    An OSError, where that is in the home folder of a user who has none.
    """
    chosen, base = os.environ.get("PELLUCID_CACHE"), os.environ.get("XDG_CACHE_HOME")
    wanted = chosen or os.path.join(base or os.path.join("~", ".cache"), "pellucid")
    found = os.path.expanduser(wanted)
    if found.startswith("~"):  # nothing is kept below the folder in which the program happens to be
        raise FileNotFoundError(errno.ENOENT, "there is no home folder for the cache: set PELLUCID_CACHE", wanted)
    return Path(found)


def own_cache(*names: str) -> Path:
    """A folder in the cache, made if need be, in which nobody else can write; an OSError if there can be none.

    A folder of another user, or one that is a link, is not used.  One in which others could write until now is closed,
    and what was kept there is thrown away.
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
            # The user may have other things in the folder that was chosen; the folders in it are Pellucid's own.
            _throw_away(_all_kept(path) if step == path else step.iterdir(), f"{step}: others could write in it")
    return path.joinpath(*names)


def trusted(path: Path, others: int = 0o022) -> bytes:
    """What a file has that is a regular one of this user, without these rights for others; else an OSError."""
    with open(path, "rb", opener=files.no_links) as file:
        found = os.fstat(file.fileno())
        if found.st_uid != files.own_user() or stat.S_IMODE(found.st_mode) & others or found.st_size > _MOST:
            raise PermissionError(1, "belongs to another user, is too long, or is open to others", str(path))
        return file.read()


# ---------------------------------------------------------------- what is kept


def keep(name: str, content: bytes) -> None:
    """Keep this under a name, for a later start; where there is no room for it, nothing is kept.

    >>> import tempfile
    >>> os.environ["PELLUCID_CACHE"] = tempfile.mkdtemp() + "/cache"
    >>> keep("loop", b"machine code")
    >>> read_kept("loop"), read_kept("other")
    (b'machine code', None)
    >>> del os.environ["PELLUCID_CACHE"]
    """
    with contextlib.suppress(OSError):
        folder = own_cache()
        seal = _seal(folder, name, content)
        files.write_lasting(folder / f"{name}{SUFFIX}", [content, seal], lasting=False)


def read_kept(name: str) -> bytes | None:
    """What was kept under this name, if it is there as it was written."""
    try:
        folder = own_cache()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        path = folder / f"{name}{SUFFIX}"
        if not os.path.lexists(path):
            return None
        data = trusted(path)
        content, seal = data[:-_SEAL], data[-_SEAL:]
        if hmac.compare_digest(seal, _seal(folder, name, content)):
            return content
    forget(name)
    return None


def forget(name: str) -> None:
    """Throw away what is kept under this name, since it is not what was written there."""
    path = cache_folder() / f"{name}{SUFFIX}"
    _throw_away([path], f"{path}: is not as Pellucid wrote it")


def _seal(folder: Path, name: str, content: bytes) -> bytes:
    return hmac.digest(_key(folder), name.encode() + b"\0" + content, "sha256")


def _key(folder: Path) -> bytes:
    """The key of a folder, made if need be: then nothing that lies there is of any use."""
    path = folder / KEY
    for _ in range(2):
        try:
            key = trusted(path, 0o077)
            if len(key) == _SEAL:
                return key
            raise PermissionError(1, "is not as long as a key", str(path))
        except FileNotFoundError:
            _throw_away([kept for kept in _all_kept(folder) if kept != path])
        except OSError:
            _throw_away(_all_kept(folder), f"{path}: is not as Pellucid wrote it")
        files.write_lasting(path, [secrets.token_bytes(_SEAL)], exclusive=True, lasting=False)
    raise PermissionError(1, "cannot be made", str(path))


def _all_kept(folder: Path) -> list[Path]:
    # The key by its name: a glob without a wildcard does not find a link that leads nowhere.
    return [folder / KEY, *(path for pattern in _OURS for path in folder.glob(pattern))]


def _throw_away(paths: Iterable[Path], why: str = "") -> None:
    """Remove files and folders, as far as that can be done, and say it once in a process."""
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    if why and not _said:
        import logging  # of no use to a start at which nothing is wrong

        _said.add(why)
        logging.getLogger("pellucid").warning("%s: what is not to be trusted there is thrown away, and made anew", why)
