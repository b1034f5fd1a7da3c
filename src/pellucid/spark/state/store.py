"""Versioned snapshots, one series for each bucket of keys.

A micro-batch *n* reads the newest snapshot **below** *n* and writes the one of version *n*.  So a micro-batch that is
repeated starts from the same state, whatever its first attempt left behind.

* A snapshot appears whole or not at all (see `store_files`), and is checked when it is read.  One that is damaged is an
  error: the one before it would be the state of another moment.
* A snapshot is a file of its own, named by its version, the attempt and a checksum of its contents.  Tasks that run
  twice at once write the same file, or, should their bytes differ, two files of equal meaning: nobody overwrites what
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

import json
import re
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import StateError, UsageError
from pellucid.internal.base import container
from pellucid.internal.base.container import Buffer
from pellucid.internal.base.files import TEMPORARY
from pellucid.spark.state.claims import Claims
from pellucid.spark.state.delta import changes, patch, split

_SMALL = 1 << 16  # bytes: below, a delta saves nothing
_LINKS = 10
_FRONT = 1 << 14  # bytes in which most headers end
_TRIES = 1000  # attempts of one start of the query: those of a later start have higher numbers
_STALE = 3600.0  # seconds after which nobody writes a temporary file any more
_NAME = re.compile(r"v(\d{20})-(\d{4,})-([0-9a-f]{8})-(?:full|on-(\d{20})-(\d{4,})-([0-9a-f]{8}))\.snap")
_RAN = re.compile(r"v(\d{20})\.ran")
_WHAT_NOW = (
    "put the file back from a copy of the folder; or go back to an earlier micro-batch (in the checkpoint, and here "
    "with Store.rewind); or start anew with a new checkpoint and a new state folder"
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
                f"{files[0].version + 1} or later, or start anew with a new checkpoint and a new state folder"
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
        """Remove what nobody needs any more.

        Versions above the new one stay: either they were left by a checkpoint that went back, or the new one was
        written by a task that somebody else has overtaken.
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
