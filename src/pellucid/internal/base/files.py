"""Durable files: whole or not there at all, whichever process is killed and whenever the power fails.

A `Draft` is a file beside its place: written, synced, then under its name at once, and the folder synced, which has the
name.  All durable files of Pellucid are written through it.

* What is for the user alone (a state folder holds events, states and where they go; a cache holds code that is run) has
  folders of mode 0700 and files of mode 0600, and no link is followed when something is written.  Its drafts end with
  ``.tmp``.
* Outputs have the mode that the user's umask says.  Their drafts are called ``.NAME.PID.part``, are locked while they
  are ones, and what a killed process leaves behind the next that writes the same target takes away.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import shutil
import stat
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import DataError, StateError, UsageError, option

TEMPORARY = ".tmp"
FOLDER, PRIVATE, PUBLIC = 0o700, 0o600, 0o666  # the last as the umask has it
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_lasting: set[str] = set()  # folders that this process made sure of
_drafts: set[str] = set()  # files without their name yet, and folders that go with this process


# ---------------------------------------------------------------- folders of the user's own


def own_folder(path: str | os.PathLike[str], asked: str = "state", mark: str = "") -> None:
    """Make a folder that no other user can look into, or make one so that is there; one of another user is refused.

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
            os.mkdir(path, FOLDER)
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{option(asked, path)}: is no folder: choose another name")
        if found.st_uid != own_user():
            raise UsageError(
                f"{option(asked, path)}: belongs to another user (number {found.st_uid}), who could change what is in "
                "it: choose a folder of your own, or run as that user"
            )
        if stat.S_IMODE(found.st_mode) & 0o077 and (not os.listdir(path) or os.path.lexists(os.path.join(path, mark))):
            os.chmod(path, FOLDER)
    except OSError as error:
        raise UsageError(
            f"{option(asked, path)}: cannot be used: {error.strerror or error}; choose another folder"
        ) from None


def own_user() -> int:
    """The number of the user who runs this."""
    return os.geteuid() if hasattr(os, "geteuid") else os.stat(os.path.expanduser("~")).st_uid


def refuse_links(root: str | os.PathLike[str]) -> None:
    """Refuse a folder of ours in which there is a link, or in a folder in it; files farther in are opened
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
            os.mkdir(path, FOLDER)
            made = True
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise _link(path)
    return path, made


def no_links(path: str | os.PathLike[str], flags: int) -> int:
    """An opener for `open` that follows no link, never waits for the other end of a pipe, takes nothing that is no
    regular file, and makes files for the user alone."""
    return _regular(path, os.open(path, flags | _NOFOLLOW | _NONBLOCK, PRIVATE))


def _regular(path: str | os.PathLike[str], handle: int) -> int:
    """The same handle, if it is a file's."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(number, f"is {_kind(mode)} where a file belongs", os.fspath(path))


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    )
    return next((name for of_kind, name in kinds if of_kind(mode)), "a device")


def open_own(path: str | os.PathLike[str], flags: int, *, links: bool = False) -> int:
    """A file of ours, as a handle.  What stands in its place and is no file is refused by its name, and never
    waited for; ``links`` to a file are followed only where others may have put them.

    >>> import tempfile
    >>> open_own(tempfile.mkdtemp(), os.O_RDONLY)
    Traceback (most recent call last):
    pellucid.errors.StateError: ...: is a folder, where a file of Pellucid's belongs: take it away, and bring the file
    back from a copy if there is one
    """
    try:
        if not links:
            return no_links(path, flags)
        return _regular(path, os.open(path, flags | (_NOFOLLOW & ~getattr(os, "O_NOFOLLOW", 0)) | _NONBLOCK, PRIVATE))
    except OSError as error:
        with contextlib.suppress(OSError):
            mode = (os.stat if links else os.lstat)(path).st_mode
            if not stat.S_ISREG(mode):
                raise StateError(
                    f"{os.fspath(path)}: is {_kind(mode)}, where a file of Pellucid's belongs: take it away, and bring "
                    "the file back from a copy if there is one"
                ) from None
        raise error


def read_own(path: str | os.PathLike[str], *, links: bool = False) -> bytes:
    """What a file of ours has; see `open_own`."""
    with open(path, "rb", opener=lambda name, flags: open_own(name, flags, links=links)) as file:
        return file.read()


def irregular(mode: int) -> str | None:
    """What a file is, if it is no regular one."""
    return None if stat.S_ISREG(mode) else f"is no regular file, but {_kind(mode)}"


def by_any_name(path: str | os.PathLike[str]) -> str:
    """Which file or folder it is, whatever names and links lead there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "link").symlink_to(folder)
    >>> by_any_name(folder / "link") == by_any_name(folder), by_any_name(folder / "link" / "x") == str(folder / "x")
    (True, True)
    """
    with contextlib.suppress(OSError):  # what is not there yet has only the names of its folders
        found = os.stat(path)
        return f"{found.st_dev}:{found.st_ino}"
    return os.path.realpath(path)


def sync(path: str | os.PathLike[str]) -> None:
    """Make a file's content, or the names in a folder, last: without it a rename may be gone after a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_lasting(folder: str | os.PathLike[str]) -> None:
    """Make a folder durable, with all above it: a folder's name is in the folder above, which must be synced,
    too.

    Those above are synced also where they were there already: who made them may have been killed before it did.
    """
    place = os.path.abspath(folder)
    if place in _lasting and os.path.isdir(place):
        return
    os.makedirs(place, exist_ok=True)
    for above in Path(place).parents:
        with contextlib.suppress(PermissionError):  # one that we may not read we have not changed either
            sync(above)
    _lasting.add(place)


# ---------------------------------------------------------------- one file on its way


def beside(target: str | os.PathLike[str]) -> str:
    """A name beside the target that is not used yet, by this process or another, on this machine or another."""
    folder, name = os.path.split(os.path.abspath(target))
    return os.path.join(folder, f".{name}.{os.getpid()}-{uuid.uuid4().hex}{TEMPORARY}")


class Draft:
    """A new file, open for writing bytes (``file``), until it gets its name; use it in a ``with`` block.

    A file or a link under the draft's own name is never written to: it is in the way, or with ``over`` removed.
    Leaving the block without `place` leaves nothing behind.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Draft(beside(folder / "a")) as draft:
    ...     _ = draft.file.write(b"whole")
    ...     draft.place(folder / "a")
    True
    >>> (folder / "a").read_bytes(), os.listdir(folder), oct((folder / "a").stat().st_mode & 0o777)
    (b'whole', ['a'], '0o600')
    """

    def __init__(
        self, path: str | os.PathLike[str], *, mode: int = PRIVATE, buffering: int = -1, over: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self._lock: int | None = None
        if over:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW, mode)
        self.file: Any = os.fdopen(handle, "wb", buffering=buffering)
        self._there = True
        _drafts.add(self.path)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *about: object) -> None:
        self.discard()

    def claim(self) -> Draft:
        """Lock it for as long as it is a draft; a process id says nothing about another machine."""
        with contextlib.suppress(ImportError, OSError):  # not every system and not every disk has locks
            import fcntl

            self._lock = os.dup(self.file.fileno())  # so that it is held until the renaming, when the file is closed
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self

    def finish(self) -> None:
        """All is written: have it on the disk.  Only the name is left."""
        if not self.file.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def place(
        self, target: str | os.PathLike[str], *, exclusive: bool = False, lasting: bool = True, folder: bool = True
    ) -> bool:
        """Give it its name, for good; with ``exclusive`` only if no file has that name, and False if one has.

        Without ``lasting`` it is whole, but a power failure may lose it; without ``folder`` the caller syncs that.
        """
        if lasting:
            self.finish()
        self.file.close()
        if exclusive:
            try:
                os.link(self.path, target)  # unlike a rename, it never takes the place of a file
            except FileExistsError:
                return False
        else:
            os.replace(self.path, target)
            self._there = False
            _drafts.discard(self.path)
        if lasting and folder:
            sync(os.path.dirname(os.path.abspath(target)))
        self.discard()
        return True

    def discard(self) -> None:
        """Leave nothing behind, unless it has its name."""
        with contextlib.suppress(Exception):
            self.file.close()
        if self._there:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            self._there = False
            _drafts.discard(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def discard_drafts() -> None:
    """Remove the drafts of this process, which is about to end, and its scratch folders."""
    for path in list(_drafts):
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)


def scratch_folder(prefix: str) -> str:
    """A new folder that goes when a signal ends this process; else the caller removes it."""
    path = tempfile.mkdtemp(prefix=prefix)
    _drafts.add(path)
    return path


def write_lasting(
    path: str | os.PathLike[str],
    pieces: Iterable[Any],
    *,
    mode: int = PRIVATE,
    exclusive: bool = False,
    lasting: bool = True,
) -> bool:
    """A file of these pieces, there whole, for good, or not at all; False if it is ``exclusive`` and there already.

    >>> import tempfile
    >>> place = tempfile.mkdtemp() + "/a"
    >>> write_lasting(place, [b"x", b"y"]), write_lasting(place, [b"z"], exclusive=True), Path(place).read_bytes()
    (True, False, b'xy')
    """
    with Draft(beside(path), mode=mode) as draft:
        for piece in pieces:
            draft.file.write(piece)
        return draft.place(path, exclusive=exclusive, lasting=lasting)


# ---------------------------------------------------------------- outputs


def temporary_name(target: str) -> str:
    """The file beside an output that this process fills."""
    return os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.part")


def output_draft(target: str) -> Draft:
    """The draft of an output, after what dead processes left of it is gone; a file that is in its way stays."""
    sweep(target)
    return Draft(temporary_name(target), mode=PUBLIC).claim()


def sweep(target: str) -> None:
    """Remove what dead processes left of this target.

    Only a regular file of this user, of exactly this target, whose process is not alive here and which no process
    anywhere has locked.  What is uncertain stays.
    """
    if os.name != "posix":
        return
    folder, head = os.path.dirname(target), f".{os.path.basename(target)}."
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        number = name[len(head) : -len(".part")]
        if not (name == f"{head}{number}.part" and number.isascii() and number.isdecimal()):
            continue
        if not number.startswith("0") and not _alive(int(number)):
            _remove_unused(os.path.join(folder, name))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's, or no number of a process at all: leave it alone
    return True


def _remove_unused(path: str) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(found, os.lstat(path)):
                os.unlink(path)
        finally:
            os.close(fd)


def write_whole(path: str, text: str) -> None:
    """Write a text file as an output; what is no regular file (a pipe, ``/dev/null``) is written as it comes."""
    if os.path.isdir(path):
        raise DataError(f"{path}: is a folder: expected the name of a file to write")
    target = os.path.realpath(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        with output_draft(target) as draft:
            draft.file.write(text.encode())
            draft.place(target)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


# Small JSON files of our own: one way to read them, by which whatever can be wrong with one is a `ValueError` that
# says what, and what is no file is refused by its name.

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


# The cache: one folder for all that Pellucid can make again, in which no other user can write.
#
# What lies there is run, so nothing there is believed for where it lies.  What is *kept* has a seal: a code over its
# name and its content which cannot be made without the folder's key (a file of 32 random bytes, for the user alone).
# It is read whole, from a regular file of this user that no other user could write, and held against its seal before
# anything looks at it.  Whatever fails is thrown away, said once, and made anew by who asked.

SUFFIX, KEY = ".pellucid-kept", "pellucid-seal.key"
_SEAL = hashlib.sha256().digest_size
_MOST = 1 << 28  # bytes of a file: nothing that is kept comes near it, and a planted one must not fill the memory
_LOOP = "k_" + 24 * "[0-9a-f]"  # what versions without seals kept, which is not read any more
_OURS = (f"*{SUFFIX}", f".*{SUFFIX}.*{TEMPORARY}", f"{_LOOP}.py", f"__pycache__/{_LOOP}.*")
_reported: set[str] = set()


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
    """A folder in the cache, made if need be, in which no other user can write; an OSError if there can be none.

    A folder of another user, or one that is a link, is not used.  One in which others could write until now is closed,
    and what was kept there is thrown away.
    """
    path = cache_folder()
    path.parent.mkdir(parents=True, exist_ok=True)
    for step in (path, *(path.joinpath(*names[: i + 1]) for i in range(len(names)))):
        with contextlib.suppress(FileExistsError):
            os.mkdir(step, FOLDER)
        found = os.stat(step) if step == path else os.lstat(step)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != own_user():
            raise PermissionError(1, "belongs to another user, or is no folder", str(step))
        if stat.S_IMODE(found.st_mode) & 0o022:
            os.chmod(step, stat.S_IMODE(found.st_mode) & ~0o022)
            # The user may have other things in the folder that was chosen; the folders in it are Pellucid's own.
            _throw_away(_all_kept(path) if step == path else step.iterdir(), f"{step}: others could write in it")
    return path.joinpath(*names)


def trusted(path: Path, others: int = 0o022) -> bytes:
    """What a file has that is a regular one of this user, without these rights for others; else an OSError."""
    with open(path, "rb", opener=no_links) as file:
        found = os.fstat(file.fileno())
        if found.st_uid != own_user() or stat.S_IMODE(found.st_mode) & others or found.st_size > _MOST:
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
        write_lasting(folder / f"{name}{SUFFIX}", [content, seal], lasting=False)


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
        write_lasting(path, [secrets.token_bytes(_SEAL)], exclusive=True, lasting=False)
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
    if why and not _reported:
        import logging  # of no use to a start at which nothing is wrong

        _reported.add(why)
        logging.getLogger("pellucid").warning("%s: what is not to be trusted there is thrown away, and made anew", why)
