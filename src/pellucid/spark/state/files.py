"""Where snapshots lie: a local folder, or any file system that pyarrow or fsspec reaches.

A file appears whole or not at all.  Locally that is a temporary file beside it, fsync, a rename, and fsync of the
folder; on an object store one put; on other remote file systems a temporary file and a rename.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from pellucid.errors import StateError, UsageError
from pellucid.internal.base.files import FOLDER, PRIVATE, TEMPORARY, make_lasting, write_lasting

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
