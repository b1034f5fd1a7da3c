"""What a streaming query remembers between micro-batches.

Versioned snapshots, one series for each bucket of keys.

A micro-batch *n* reads the newest snapshot **below** *n* and writes the one of version *n*.  So a micro-batch that is
repeated starts from the same state, whatever its first attempt left behind.

* A snapshot appears whole or not at all (see `store_files`), and is checked when it is read.  One that is damaged is an
  error: the one before it would be the state of another moment.
* A snapshot is a file of its own, named by its version, the attempt and a checksum of its contents.  Tasks that run
  twice at once write the same file, or, should their bytes differ, two files of equal meaning: none overwrites what
  another one builds upon.  The last attempt counts, so a micro-batch that is repeated by a changed pipeline takes its
  place; attempts of a later start of the query count as later, whenever they were written.
* Where little has changed, only that is written, on top of the snapshot before (`store_delta`); at most ten such files,
  and not more than half of the whole, stand on a full one.
* A bucket that has no row in a micro-batch leaves an empty file instead, named by the version.  So each bucket says up
  to which micro-batch it has run, and one that did not run in a micro-batch that Spark has committed is found in the
  next.
* The newest ``keep`` versions stay, with all that they stand on.  If what a micro-batch needs is gone, that is an
  error, not an empty state.

>>> import tempfile
>>> store = Store(tempfile.mkdtemp())
>>> _ = store.save(7, 0, b"state of bucket 7", b"", {"rows": 3})
>>> store.load(7, before=0) is None, bytes(store.load(7, before=1).state)
(True, b'state of bucket 7')
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from pellucid.errors import StateError, UsageError
from pellucid.internal.base import container
from pellucid.internal.base.container import VERSION, Buffer, parts, refuse_other, refused
from pellucid.internal.base.files import FOLDER, PRIVATE, TEMPORARY, make_lasting, write_lasting

# Where snapshots lie: a local folder, or any file system that pyarrow or fsspec reaches.
#
# A file appears whole or not at all.  Locally that is a temporary file beside it, fsync, a rename, and fsync of the
# folder; on an object store one put; on other remote file systems a temporary file and a rename.

# File systems on which a file that is being written cannot be seen: there a rename would be a slow copy.
_OBJECT_STORES = {"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory", "r2"}


class Files(Protocol):
    """The few things that a store does with files; paths are relative to its folder."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""

    def read(self, path: str, size: int = -1) -> bytes:
        """A whole file, or its first bytes; FileNotFoundError if it is not there."""

    def write(self, path: str, pieces: Iterable[Any]) -> None:
        """A file, whole or not at all, and for good."""

    def create(self, path: str, data: bytes) -> None:
        """A file if there is none yet; else nothing."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def age(self, path: str) -> float:
        """Seconds since it was written; 0 if it is gone."""


def open_files(path: str) -> Files:
    """The file system of a path or URI, and the folder in it.

    >>> open_files("file:///some/folder").root
    '/some/folder'
    >>> open_files("nowhere://x")
    Traceback (most recent call last):
    pellucid.errors.UsageError: the state folder 'nowhere://x' is on no file system that pyarrow knows (a path, file://,
    s3://, gs://, hdfs://, abfs://): install fsspec and its package for 'nowhere', or choose another folder
    """
    if "://" not in path and not path.startswith("file:"):
        return LocalFiles(path)
    scheme = urlparse(path).scheme
    if scheme == "file":
        return LocalFiles(unquote(urlparse(path).path))
    from pyarrow import fs

    try:
        found, root = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
        return RemoteFiles(found, root, found.type_name in _OBJECT_STORES)
    except Exception as error:
        try:
            import fsspec  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise UsageError(
                f"the state folder {path!r} is on no file system that pyarrow knows (a path, file://, s3://, gs://, "
                f"hdfs://, abfs://): install fsspec and its package for {scheme!r}, or choose another folder"
            ) from None
        try:
            found, root = fsspec.core.url_to_fs(path)
        except Exception as second:
            raise UsageError(f"the state folder {path!r} cannot be opened: {error}; by fsspec: {second}") from None
        return RemoteFiles(fs.PyFileSystem(fs.FSSpecHandler(found)), root, scheme in _OBJECT_STORES)


class LocalFiles:
    """A folder on this machine (or one that is mounted)."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _make_root(self) -> None:
        """Made by us, the folder is for its user alone; one that is there is as its owner wants it: executors may run
        as others."""
        if not os.path.isdir(self.root):
            make_lasting(os.path.dirname(self.root))
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.root, FOLDER)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._at(folder))
        except FileNotFoundError:
            return []

    def read(self, path: str, size: int = -1) -> bytes:
        with open(self._at(path), "rb", buffering=0) as file:
            return file.read(size)

    def write(self, path: str, pieces: Iterable[Any]) -> None:
        self._place(path, pieces)

    def create(self, path: str, data: bytes) -> None:
        self._place(path, [data], exclusive=True)

    def _place(self, path: str, pieces: Iterable[Any], *, exclusive: bool = False) -> None:
        target = self._at(path)
        try:
            self._make_root()
            make_lasting(os.path.dirname(target))
            mode = PRIVATE | (os.stat(self.root).st_mode & 0o066)  # as open as the folder is
            try:
                write_lasting(target, pieces, mode=mode, exclusive=exclusive)
            except OSError:
                if not exclusive:
                    raise
                if not os.path.exists(target):  # a file system without links
                    write_lasting(target, pieces, mode=mode)
        except OSError as error:
            raise StateError(
                f"{target} cannot be written: {error.strerror or error}; the snapshot before it is whole"
            ) from error

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(path))

    def age(self, path: str) -> float:
        try:
            return time.time() - os.stat(self._at(path)).st_mtime
        except FileNotFoundError:
            return 0.0


class RemoteFiles:
    """A folder on a file system of pyarrow's."""

    def __init__(self, system: Any, root: str, puts: bool) -> None:
        self.system, self.root, self.puts = system, root.rstrip("/"), puts

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}".rstrip("/")

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        return [
            info.base_name
            for info in self.system.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True))
        ]

    def read(self, path: str, size: int = -1) -> bytes:
        with self.system.open_input_stream(self._at(path)) as file:
            return bytes(file.read(None if size < 0 else size))

    def write(self, path: str, pieces: Iterable[Any]) -> None:
        target = self._at(path)
        folder, _, name = target.rpartition("/")
        place = target if self.puts else f"{folder}/.{name}.{uuid.uuid4().hex}{TEMPORARY}"
        try:
            if not self.puts:
                self.system.create_dir(folder, recursive=True)
            with self.system.open_output_stream(place) as file:
                for piece in pieces:
                    file.write(piece)
            if not self.puts:
                self.system.move(place, target)
        except OSError as error:
            raise StateError(f"{target} cannot be written: {error}; the snapshot before it is whole") from error

    def create(self, path: str, data: bytes) -> None:
        # There is no put that spares an existing file in all of these systems: who comes a moment later wins.  Tasks of
        # one query write the same; of two queries that begin in one folder at the same moment, the next look refuses
        # one.
        try:
            self.read(path)
        except FileNotFoundError:
            self.write(path, [data])

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.system.delete_file(self._at(path))

    def age(self, path: str) -> float:
        written = self.system.get_file_info(self._at(path)).mtime
        return 0.0 if written is None else time.time() - float(written.timestamp())


# What changed between two snapshots, in blocks of 64 bytes.
#
# A saved state has parts (rows, keys, texts, …), each of which grows at its end; so two states are compared part by
# part, and a key that is added moves nothing.  The comparison reads both once, in slices that fit the caches.

BLOCK = 64
_SLICE = 1 << 20  # bytes compared at once


def split(data: Buffer) -> list[memoryview]:
    """A saved state in its parts; anything else is one part."""
    view, start, out = memoryview(data).cast("B"), 0, []
    for stop in parts(view):
        out.append(view[start:stop])
        start = stop
    return out


def changes(old: Buffer, new: Buffer, limit: int) -> tuple[list[list[int]], list[Any]] | None:
    """How to make ``new`` from ``old``: for each part its numbers, and the pieces to store; None beyond ``limit``
    bytes.

    >>> old = bytes(640)
    >>> new = old[:100] + b"!" + old[101:] + b"more"
    >>> about, pieces = changes(old, new, 1000)
    >>> about, sum(len(bytes(p)) for p in pieces)
    ([[10, 1, 4]], 72)
    >>> bytes(patch([bytearray(old)], about, b"".join(pieces))[0]) == new
    True
    """
    import numpy as np

    before, after = split(old), split(new)
    if len(before) != len(after):
        before, after = [memoryview(old).cast("B")], [memoryview(new).cast("B")]
    about: list[list[int]] = []
    pieces: list[Any] = []
    size = 0
    for a, b in zip(before, after, strict=True):
        blocks = min(len(a), len(b)) // BLOCK
        found = []
        x, y = (np.frombuffer(v[: blocks * BLOCK], dtype=np.uint64) for v in (a, b))
        step = _SLICE // 8
        for start in range(0, blocks * BLOCK // 8, step):
            # Eight words are a block: their eight answers, read as one word, are zero where all are equal.
            differ = (x[start : start + step] != y[start : start + step]).view(np.uint64)
            found.append(np.flatnonzero(differ) + start // (BLOCK // 8))
        where: Any = np.concatenate(found).astype(np.uint32) if found else np.zeros(0, dtype=np.uint32)
        tail = b[blocks * BLOCK :]
        size += len(where) * (BLOCK + 4) + len(tail)
        if size > limit:
            return None
        about.append([blocks, len(where), len(tail)])
        changed: Any = y.reshape(-1, BLOCK // 8)[where]
        pieces += [memoryview(where).cast("B"), memoryview(changed).cast("B"), tail] if len(where) else [tail]
    return about, pieces


def patch(old: list[bytearray], about: list[list[int]], body: Buffer) -> list[bytearray]:
    """The parts after the changes; the old ones are changed in place, so that a chain costs no more than its
    changes."""
    import numpy as np

    view, at = memoryview(body).cast("B"), 0
    if len(old) != len(about):
        whole = bytearray().join(old)  # the two states had other parts, and were compared as a whole
        old = [whole] if len(about) == 1 else [bytearray(part) for part in split(whole)]
    for part, (blocks, count, tail) in zip(old, about, strict=True):
        del part[blocks * BLOCK :]
        if count:
            where = np.frombuffer(view[at : at + 4 * count], dtype=np.uint32)
            at += 4 * count
            words = np.frombuffer(part, dtype=np.uint64).reshape(-1, BLOCK // 8)
            words[where] = np.frombuffer(view[at : at + BLOCK * count], dtype=np.uint64).reshape(-1, BLOCK // 8)
            del words  # a bytearray that is looked at cannot grow
            at += BLOCK * count
        part += view[at : at + tail]
        at += tail
    return old


# Whose a state folder is: one query's, one start of it at a time, with what was given up on the way.
#
# =====================
# =============================================================================================
# ``identity.json``      the query, and what must not change while it lives: buckets, key, order
# ``owner.json``         the newest start of the query.  A start is numbered one higher than the owner that it finds,
# so a
#                        driver that is believed dead and still runs (a zombie) has the lower number and is refused
# ``start-N-….json``     written by the driver before the query starts, and read by tasks, which never make one: so a
# task
#                        whose folder is another one, on a disk of its own, finds none and is refused
# ``dropped-N-….json``   steps whose memory was given up at micro-batch N: in all buckets, also in those without a
# row
#                        then
# =====================
# =============================================================================================

_READ = (1, VERSION)  # 1: the version before
_FACTS = (
    ("query", "the query", "A new checkpoint needs a new state folder, and an old checkpoint its own"),
    ("buckets", "the number of buckets", "It decides where a key is kept: go on with the number as it was"),
)
_STARTED = re.compile(r"start-(\d+)-[0-9a-zA-Z-]+\.json")
_DROPPED = re.compile(r"dropped-(\d{20})-[0-9a-f]{8}\.json")


class Claims:
    """A folder that belongs to a query.  It can be pickled: a task opens the folder again."""

    def __init__(self, path: str) -> None:
        # A task's working folder is another one than the driver's.
        self.path = path if "://" in path or path.startswith("file:") else os.path.abspath(path)
        self._opened: Files | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _files(self) -> Files:
        if self._opened is None:
            self._opened = open_files(self.path)
        return self._opened

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(json.loads(self._files.read(name)))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(
                f"{self.path}/{name} is damaged ({error}): put it back from a copy of the folder, or start again with "
                "a new checkpoint and a new state folder"
            ) from None

    # ------------------------------------------------------------ the query

    def identity(self) -> dict[str, Any] | None:
        """What `claim` wrote, or None if the folder is not claimed yet."""
        found = self._json("identity.json")
        if found is not None and found.get("format") not in _READ:
            raise StateError(refused(f"the state folder {self.path}", found.get("format")))
        return found

    def claim(self, query: str, described: dict[str, Any]) -> dict[str, Any]:
        """Make the folder this query's own, or find that it is; returns its identity as first written.

        ``described`` says what lies in it, such as ``buckets``, ``pipeline``, ``key``.  All tasks of a query may claim
        at once.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.claim("q1", {"buckets": 4})["buckets"], claims.claim("q1", {"buckets": 4})["query"]
        (4, 'q1')
        """
        found = self.identity()
        if found is None:
            self._files.create("identity.json", _dumps({"format": VERSION, "query": query} | described))
            found = self.identity()
            assert found is not None
        was = {"query": found["query"], "buckets": found.get("buckets")}
        now = {"query": query, "buckets": described.get("buckets")}
        for name, word, advice in _FACTS:
            refuse_other(f"the state folder {self.path}", was, now, {name: word}, advice)
        return found

    # ------------------------------------------------------------ its newest start

    def next_start(self) -> int:
        """The number of a start that begins now.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.announce(claims.next_start(), "a")
        >>> claims.own(1, "a", version=5), claims.next_start()
        (5, 2)
        """
        owner = self._json("owner.json")
        return 1 if owner is None else int(owner["start"]) + 1

    def announce(self, start: int, token: str) -> None:
        """Write, on the driver, what every task of this start must find."""
        self._files.create(_started(start, token), _dumps({"token": token}))

    def find(self, start: int, token: str) -> None:
        """Refuse a folder in which the driver has not announced this start: it is another one than the driver's."""
        found = self._json(_started(start, token))
        if found is None or found.get("token") != token:
            raise StateError(
                f"the state folder {self.path} that this task sees on {socket.gethostname()} is not the one in which "
                "p.spark has announced the query: the state folder must be on a file system that the driver and all "
                "workers share, mounted under this path on each of them, and must not be removed or replaced while the "
                "query runs"
            )

    def owned(self, start: int, token: str) -> int | None:
        """Since which micro-batch each bucket says that it has run, if the newest start is this one; None if this one
        has not taken over yet.  Refused if a later one has."""
        owner = self._json("owner.json")
        if owner is None or owner["start"] < start:
            return None
        if (owner["start"], owner["token"]) != (start, token):
            raise StateError(
                f"the state folder {self.path} has been taken over by a later start of the query, so this one ends: "
                "one that was believed dead and went on, a DataFrame from before that start (call p.spark again), or "
                "two calls of p.spark with the same folder (give each its own)"
            )
        return int(owner["since"])

    def own(self, start: int, token: str, version: int = 0) -> int:
        """Go on if no later start than this one has taken over; ``token`` tells apart two that began at the same
        moment.  Gives since which micro-batch each bucket says that it has run: where an older version of Pellucid,
        which did not say it, had the folder before, since this one.

        ``version`` is the micro-batch at which this start begins: what an earlier one gave up then or later, it tried
        in vain.
        """
        since = self.owned(start, token)
        if since is None:
            self.find(start, token)
            self._forget_drops(version, start)
            since = min(version, (self._json("owner.json") or {}).get("since", version))
            self._files.write("owner.json", [_dumps({"start": start, "token": token, "since": since})])
            for name, at in self._numbered(_STARTED):
                if at < start:
                    self._files.remove(name)
        return since

    # ------------------------------------------------------------ what was given up

    def note_drop(self, version: int, steps: Iterable[str], start: int = 0) -> None:
        """The memory of these steps ends at this micro-batch; said before the first bucket without it is saved."""
        data = _dumps({"version": version, "steps": sorted(steps), "start": start})
        self._files.create(f"dropped-{version:020d}-{hashlib.sha256(data).hexdigest()[:8]}.json", data)

    def dropped(self, after: int, before: int) -> set[str]:
        """The steps whose memory ended after the micro-batch ``after`` and before ``before``.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.note_drop(7, ["total"])
        >>> claims.dropped(6, 9), claims.dropped(7, 9), claims.dropped(2, 7)
        ({'total'}, set(), set())
        """
        found: set[str] = set()
        for name, version in self._numbered(_DROPPED):
            if after < version < before:
                found |= set((self._json(name) or {}).get("steps", ()))
        return found

    def _numbered(self, form: re.Pattern[str]) -> list[tuple[str, int]]:
        names = ((name, form.fullmatch(name)) for name in self._files.names(""))
        return [(name, int(match[1])) for name, match in names if match]

    def _forget_drops(self, version: int, start: int | None = None) -> None:
        """Of this micro-batch and later, and of earlier starts if one is named."""
        for name, at in self._numbered(_DROPPED):
            if at >= version and (start is None or (self._json(name) or {}).get("start", 0) < start):
                self._files.remove(name)


def _started(start: int, token: str) -> str:
    return f"start-{start}-{token}.json"


def _dumps(what: dict[str, Any]) -> bytes:
    return json.dumps(what, indent=1, sort_keys=True).encode()


_SMALL = 1 << 16  # bytes: below, a delta saves nothing
_LINKS = 10
_FRONT = 1 << 14  # bytes in which most headers end
_TRIES = 1000  # attempts of one start of the query: those of a later start have higher numbers
_STALE = 3600.0  # seconds after which a temporary file is no longer being written
_NAME = re.compile(r"v(\d{20})-(\d{4,})-([0-9a-f]{8})-(?:full|on-(\d{20})-(\d{4,})-([0-9a-f]{8}))\.snap")
_RAN = re.compile(r"v(\d{20})\.ran")
_WHAT_NOW = (
    "put the file back from a copy of the folder; or go back to an earlier micro-batch (in the checkpoint, and here "
    "with Store.rewind); or start again with a new checkpoint and a new state folder"
)


@dataclass(frozen=True, order=True)
class _File:
    """A snapshot's file, by what its name says."""

    version: int
    attempt: int
    check: int
    base: tuple[int, int, int] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        on = "full" if self.base is None else f"on-{_label(*self.base)}"
        return f"v{_label(self.version, self.attempt, self.check)}-{on}.snap"

    @property
    def id(self) -> tuple[int, int, int]:
        return self.version, self.attempt, self.check


def _label(version: int, attempt: int, check: int) -> str:
    return f"{version:020d}-{attempt:04d}-{check:08x}"


def _file(name: str) -> _File | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    version, attempt, check, *base = found.groups()
    on = (int(base[0]), int(base[1]), int(base[2], 16)) if base[0] is not None else None
    return _File(int(version), int(attempt), int(check, 16), on)


@dataclass(frozen=True)
class BucketSnapshot:
    """One snapshot: the state, what else the caller keeps with it, and a small dict in JSON."""

    version: int
    state: Buffer
    extra: Buffer
    meta: dict[str, Any]
    file: _File = field(repr=False)
    links: int = 0  # how many deltas it stands on
    weight: int = 0  # and their bytes


class Store(Claims):
    """A folder of snapshots, which belongs to a query (`store_claims`).

    ``compression`` is None, ``"lz4"`` or ``"zstd"``: worth it where the way to the files is slow.
    """

    def __init__(self, path: str, keep: int = 3, *, compression: str | None = None) -> None:
        if keep < 2:
            raise UsageError(
                f"a state folder keeps at least 2 snapshots of each bucket, found keep={keep}: the last one may be "
                "half a micro-batch ahead"
            )
        if compression not in (None, "lz4", "zstd"):
            raise UsageError(f"compression must be None, 'lz4' or 'zstd', found {compression!r}")
        super().__init__(str(path))
        self.keep, self.compression = keep, compression

    # ------------------------------------------------------------ what is there

    def buckets(self) -> list[int]:
        """The buckets that have a folder."""
        found = (re.fullmatch(r"bucket-(\d+)", name) for name in self._files.names(""))
        return sorted(int(m[1]) for m in found if m)

    def versions(self, bucket: int) -> list[int]:
        """The versions that a bucket has, in order."""
        return sorted({file.version for file in self._list(bucket)})

    def _list(self, bucket: int) -> list[_File]:
        found = (_file(name) for name in self._files.names(_folder(bucket)))
        return sorted(file for file in found if file is not None)

    def _ran(self, bucket: int) -> list[int]:
        """The micro-batches of which the bucket says that it had no row in them."""
        found = (_RAN.fullmatch(name) for name in self._files.names(_folder(bucket)))
        return sorted(int(match[1]) for match in found if match)

    def generation(self, bucket: int) -> int:
        """The last micro-batch in which the bucket has run, with rows or without; -1 if there is none."""
        return max([*self.versions(bucket), *self._ran(bucket)], default=-1)

    def newest(self, bucket: int, before: int) -> tuple[int, int, int] | None:
        """What `load` would read, by a name that changes with its contents."""
        below = [file for file in self._list(bucket) if file.version < before]
        return below[-1].id if below else None

    # ------------------------------------------------------------ reading

    def about(self, bucket: int) -> dict[str, Any] | None:
        """What was said of the newest snapshot when it was saved; its contents are not read."""
        files = self._list(bucket)
        if not files:
            return None
        path = f"{_folder(bucket)}/{files[-1].name}"
        try:
            data = self._files.read(path, _FRONT)
            size = container.front(data)
            data = data if len(data) >= size else self._files.read(path, size)
            return dict(container.head(data, "bucket").fields["meta"])
        except (container.Broken, container.OtherVersion) as error:
            raise self._wrong(path, error) from None

    def _wrong(self, path: str, error: ValueError) -> StateError:
        place = f"the snapshot {self.path}/{path}"
        if isinstance(error, container.OtherVersion):
            return StateError(container.refused(place, error))
        return StateError(f"{place} is damaged ({error}): {_WHAT_NOW}")

    def load(self, bucket: int, before: int) -> BucketSnapshot | None:
        """The newest snapshot with a version below ``before``; None if the bucket never had one."""
        for attempt in range(4):
            files = self._list(bucket)
            below = [file for file in files if file.version < before]
            if not below:
                self._surely_first(bucket, files, before)
                return None
            try:
                return self._read(bucket, below[-1], files)
            except FileNotFoundError as error:
                # Another task of a later micro-batch may have removed it in the meantime: look again.
                if attempt == 3:
                    raise StateError(
                        f"the snapshot {error.filename or below[-1].name} of bucket {bucket} is missing in "
                        f"{self.path}: {_WHAT_NOW}"
                    ) from None
        raise AssertionError

    def _surely_first(self, bucket: int, files: list[_File], before: int) -> None:
        """Nothing below ``before`` is right only if nothing was removed: else an empty state would be a wrong one."""
        if not files and self._known(bucket):
            raise StateError(
                f"bucket {bucket} of the state folder {self.path} had snapshots, and all of them are gone: {_WHAT_NOW}"
            )
        if files and self._head(bucket, files[0])[0]["previous"] is not None:
            raise StateError(
                f"bucket {bucket} of the state folder {self.path} has no snapshot below version {before} any more: the "
                f"oldest is {files[0].version} (keep={self.keep}); go on with the checkpoint at micro-batch "
                f"{files[0].version + 1} or later, or start again with a new checkpoint and a new state folder"
            )

    def _known(self, bucket: int) -> bool:
        """Whether the bucket ever had a snapshot."""
        return f"{bucket:05d}" in self._files.names("known")

    def _head(self, bucket: int, file: _File) -> tuple[dict[str, Any], list[Buffer]]:
        """A file's header, and what it has of the state and of the rest, all of it checked."""
        path = f"{_folder(bucket)}/{file.name}"
        try:
            found = container.unpack(self._files.read(path), "bucket")
        except (container.Broken, container.OtherVersion) as error:
            raise self._wrong(path, error) from None
        header, blocks = found.head, list[Buffer](found.blocks)
        raw = header["raw"] if isinstance(header["raw"], list) else [header["raw"]]
        if header["codec"]:
            blocks = [_unpacked(header["codec"], block, size) for block, size in zip(blocks, raw, strict=True)]
        if len(blocks) == 1:  # of version 1: both in one
            cut = header["delta_state"] if header["delta"] else header["state"]
            blocks = [blocks[0][:cut], blocks[0][cut:]]
        return header, blocks

    def _read(self, bucket: int, file: _File, files: list[_File]) -> BucketSnapshot:
        chain, known = [file], {f.id: f for f in files}
        while (base := chain[-1].base) is not None:
            if base not in known:
                raise FileNotFoundError(2, "missing", f"v{_label(*base)} (on which {chain[-1].name} stands)")
            chain.append(known[base])
        header, (state, extra) = self._head(bucket, chain.pop())
        if chain:
            kept = [[bytearray(part) for part in split(data)] for data in (state, extra)]
            for link in reversed(chain):
                header, blocks = self._head(bucket, link)
                kept = [patch(old, *new) for old, *new in zip(kept, header["delta"], blocks, strict=True)]
            state, extra = (memoryview(b"".join(part)) for part in kept)
        if _check(state, extra, header["meta"]) != file.check or (len(state), len(extra)) != (
            header["state"],
            header["extra"],
        ):
            raise StateError(
                f"the snapshot {self.path}/{_folder(bucket)}/{file.name} is damaged (it does not give what was saved): "
                f"{_WHAT_NOW}"
            )
        return BucketSnapshot(file.version, state, extra, header["meta"], file, header["links"], header["weight"])

    # ------------------------------------------------------------ writing

    def save(
        self,
        bucket: int,
        version: int,
        state: Buffer,
        extra: Buffer,
        meta: dict[str, Any],
        base: BucketSnapshot | None = None,
        start: int = 0,
    ) -> BucketSnapshot:
        """Write a snapshot, for good when this returns; what it returns can be the ``base`` of the next.

        ``base`` is what was loaded or saved before: where little has changed since, only that is written.  ``start`` is
        the number of the query's start: of one version, what the highest has written counts.
        """
        if version < 0 or bucket < 0:
            raise UsageError(
                f"a snapshot's bucket and version are not negative, found bucket {bucket}, version {version}"
            )
        files = self._list(bucket)
        check = _check(state, extra, meta)
        same = [file for file in files if file.version == version]
        if same and same[-1].check == check and same[-1].attempt // _TRIES >= start:
            found = same[-1]  # another attempt wrote just this; an earlier start may yet write more
            header, _ = self._head(bucket, found)
            return BucketSnapshot(version, state, extra, meta, found, header["links"], header["weight"])
        mine = [file.attempt for file in same if file.attempt // _TRIES == start]
        attempt = mine[-1] + 1 if mine else start * _TRIES
        size = len(state) + len(extra)
        delta = None
        if (
            base is not None
            and base.version < version
            and size >= _SMALL
            and base.links < _LINKS
            and any(f.id == base.file.id for f in files)
        ):
            delta = self._delta(base, state, extra, size // 2 - base.weight)
        blocks: list[Any] = [state, extra] if delta is None else [b"".join(part) for part in delta[1:]]
        raw = [len(block) for block in blocks]
        if self.compression:
            blocks = [_codec(self.compression).compress(block, asbytes=True) if len(block) else b"" for block in blocks]
        below = [f.version for f in files if f.version < version]
        if not below and base is not None and base.version < version:
            below = [base.version]  # removed in the meantime, but there was one
        header = {
            "bucket": bucket,
            "previous": below[-1] if below else None,
            "meta": meta,
            "state": len(state),
            "extra": len(extra),
            "codec": self.compression,
            "raw": raw,
            "delta": delta[0] if delta else None,
            "links": base.links + 1 if delta and base else 0,
            "weight": base.weight + sum(raw) if delta and base else 0,
        }
        file = _File(version, attempt, check, base.file.id if delta and base else None)
        self._files.write(f"{_folder(bucket)}/{file.name}", container.pieces("bucket", header, blocks))
        if len(files) < 2:  # the second time, should a crash have come between the two
            self._files.create(f"known/{bucket:05d}", b"")
        self._clean(bucket, file, files)
        return BucketSnapshot(version, state, extra, meta, file, header["links"], header["weight"])

    @staticmethod
    def _delta(
        base: BucketSnapshot, state: Buffer, extra: Buffer, limit: int
    ) -> tuple[list[Any], list[Any], list[Any]] | None:
        first = changes(base.state, state, limit)
        second = changes(base.extra, extra, limit - sum(len(p) for p in first[1])) if first else None
        return ([first[0], second[0]], first[1], second[1]) if first and second else None

    def _clean(self, bucket: int, new: _File, files: list[_File]) -> None:
        """Remove what is no longer needed.

        Versions above the new one stay: either they were left by a checkpoint that went back, or the new one was
        written by a task that another one has overtaken.
        """
        present = [f for f in files if f.version <= new.version] + [new]
        kept_versions = sorted({f.version for f in present})[-self.keep :]
        needed = {f.id for f in files if f.version > new.version} | {
            f.id for f in present if f.version in kept_versions
        }
        by_id = {f.id: f for f in [*files, new]}
        waiting = list(needed)
        while waiting:
            base = by_id[waiting.pop()].base
            if base is not None and base not in needed and base in by_id:
                needed.add(base)
                waiting.append(base)
        for file in files:
            if file.id not in needed:
                self._files.remove(f"{_folder(bucket)}/{file.name}")
        for name in self._files.names(_folder(bucket)):
            if name.endswith(TEMPORARY) and self._files.age(f"{_folder(bucket)}/{name}") > _STALE:
                self._files.remove(f"{_folder(bucket)}/{name}")

    def settle(self, bucket: int, version: int, start: int) -> None:
        """This micro-batch has no rows for the bucket, which says so; what an attempt of another start left of it does
        not count."""
        files = self._list(bucket)
        stale = [file for file in files if file.version == version and file.attempt // _TRIES != start]
        if stale:
            self._remove(bucket, stale, files)
        if self.generation(bucket) < version:
            self._say_ran(bucket, version)

    def _say_ran(self, bucket: int, version: int) -> None:
        self._files.create(f"{_folder(bucket)}/{_mark(version)}", b"")
        for earlier in self._ran(bucket):
            if earlier < version:
                self._files.remove(f"{_folder(bucket)}/{_mark(earlier)}")

    def _remove(self, bucket: int, doomed: list[_File], files: list[_File]) -> None:
        if len(doomed) == len(files):
            self._files.remove(f"known/{bucket:05d}")
        for file in reversed(doomed):  # what stands on others goes first
            self._files.remove(f"{_folder(bucket)}/{file.name}")

    def rewind(self, version: int) -> int:
        """Remove every snapshot of this version and above, for a checkpoint that went back; returns how many files.

        Refused, with nothing removed, if some bucket would be left without a state that it once had.
        """
        doomed: dict[int, tuple[list[_File], list[_File]]] = {}
        for bucket in self.buckets():
            files = self._list(bucket)
            if all(file.version >= version for file in files):
                self._surely_first(bucket, files, version)
            doomed[bucket] = [file for file in files if file.version >= version], files
        for bucket, (some, files) in doomed.items():
            ran = self.generation(bucket)
            self._remove(bucket, some, files)
            for later in self._ran(bucket):
                if later >= version:
                    self._files.remove(f"{_folder(bucket)}/{_mark(later)}")
            if ran >= version > 0:
                self._say_ran(
                    bucket, version - 1
                )  # it has, as each micro-batch looked whether it had in the one before
        self._forget_drops(version)
        return sum(len(some) for some, _ in doomed.values())


def _folder(bucket: int) -> str:
    return f"bucket-{bucket:05d}"


def _mark(version: int) -> str:
    return f"v{version:020d}.ran"


def _check(state: Buffer, extra: Buffer, meta: dict[str, Any]) -> int:
    return container.checksum([state, extra, json.dumps(meta, sort_keys=True).encode()])


def _unpacked(codec: str, block: Buffer, size: int) -> Buffer:
    return memoryview(_codec(codec).decompress(block, size, asbytes=True)) if size else b""


def _codec(name: str) -> Any:
    import pyarrow as pa

    return pa.Codec("zstd", 1) if name == "zstd" else pa.Codec("lz4_raw")
