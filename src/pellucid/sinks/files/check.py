"""Whether the files of a Parquet target are still what the manifests say.

A manifest lists each file of its batch with its bytes, its rows and its SHA-256, and names the batch before it.  So a
file that is missing, cut off, changed or exchanged is noticed, and so is a manifest that is missing in the middle.  A
file that no manifest lists is refused as well: readers that do not know the manifests would count its rows, and if it
is of the last batch, its manifest is what is missing.

Folders of earlier versions have neither checksums nor the chain; there the bytes and the rows are compared, and a
warning says so.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import StateError
from pellucid.sinks.files import folder
from pellucid.sinks.files.manifest import DataFile, Manifest, ManifestLog

_RESTORE = "restore it from a copy, or write to a new folder from a new checkpoint"
_TRIES = 5


@dataclass(frozen=True)
class Placed:
    """A file that counts: where it is at this moment, and the folder below which its partitions are told."""

    path: Path
    base: Path
    file: DataFile
    batch: str
    query: str = ""
    number: int = -1

    def mended(self, what: str) -> StateError:
        """The refusal: what is wrong with this file, and what to do."""
        return StateError(f"{self.path}: {what} ({self.batch}): {_RESTORE}")


def checked_places(target: Path) -> list[Placed]:
    """The files that count, after a look at their names and sizes: whole chain, each file there, no other file between
    them."""
    for attempt in range(_TRIES):
        # Files come to their places after their manifest: what is listed before the manifests are read must be in them.
        there = {str(path) for path in folder.files_below(target, ".parquet")}
        log = ManifestLog(target)
        manifests = log.all()
        check_chain(log.folder, manifests)
        found = [placed for manifest in manifests for placed in _of(target, manifest, log.newest())]
        try:
            for placed in found:
                _check_size(placed)
        except FileNotFoundError as error:
            if attempt == _TRIES - 1:
                lost = next(placed for placed in found if str(placed.path) == error.filename)
                raise lost.mended(f"the file is missing; {lost.file.rows} rows were committed in it") from None
            time.sleep(0.05)  # the writer moved it from staging to its place while we looked
            continue
        _refuse_foreign(there, found, manifests)
        return found
    raise AssertionError("unreachable")


def check_chain(where: Path, manifests: list[Manifest]) -> None:
    """Refuse a missing manifest: each names the batch before it.

    >>> made = [Manifest("q", batch, "a", (), previous=batch - 1) for batch in (0, 1, 2)]
    >>> check_chain(Path("out/_manifest"), made)
    >>> check_chain(Path("out/_manifest"), [made[0], made[2]])
    Traceback (most recent call last):
    pellucid.errors.StateError: out/_manifest/q-00000000000000000001.json: the manifest of batch 1 of query 'q' is
    missing; batch 2 was committed after it: restore it from a copy, or write to a new folder from a new checkpoint
    """
    known = {(manifest.query, manifest.batch) for manifest in manifests}
    for manifest in manifests:
        before = manifest.previous
        if before is not None and before >= 0 and (manifest.query, before) not in known:
            raise StateError(
                f"{where}/{manifest.query}-{before:020d}.json: the manifest of batch {before} of query "
                f"{manifest.query!r} is missing; batch {manifest.batch} was committed after it: {_RESTORE}"
            )


def _of(target: Path, manifest: Manifest, newest: set[tuple[str, int]]) -> Iterable[Placed]:
    staging = target / "_staging" / manifest.attempt
    on_its_way = (manifest.query, manifest.batch) in newest and staging.exists()
    if on_its_way:
        time.sleep(0.05)  # mostly the writer is just moving them; give it the moment
    words = f"batch {manifest.batch} of query {manifest.query!r}"
    for file in manifest.files:
        staged = on_its_way and not (target / file.name).exists() and (staging / file.staged).exists()
        yield (
            Placed(staging / file.staged, staging, file, words, manifest.query, manifest.batch)
            if staged
            else Placed(target / file.name, target, file, words, manifest.query, manifest.batch)
        )


def _check_size(placed: Placed) -> None:
    size = os.stat(placed.path).st_size
    if size != placed.file.bytes:
        raise placed.mended(
            f"the file has {size} bytes, and {placed.file.bytes} were committed; it was cut off or replaced"
        )


def _refuse_foreign(there: set[str], found: list[Placed], manifests: list[Manifest]) -> None:
    foreign = min(there - {str(placed.path) for placed in found}, default=None)
    if foreign is None:
        return
    number = re.match(r"batch-(\d{20})-", os.path.basename(foreign))
    if number and not any(manifest.batch == int(number[1]) for manifest in manifests):
        raise StateError(
            f"{foreign}: no manifest lists this file, and the folder has no manifest of batch {int(number[1])}: was a "
            "file of _manifest lost? Restore it from a copy; if the file is not of this folder, move it away"
        )
    raise StateError(
        f"{foreign}: no manifest lists this file, so its rows do not count here, but other readers would count them: "
        "move it away"
    )


def check_contents(target: Path, found: list[Placed]) -> None:
    """Compare every file whole with what was committed, several at a time."""

    def check(placed: Placed) -> None:
        with placed.path.open("rb") as file:
            _compare(placed, hashlib.file_digest(file, "sha256").hexdigest())

    with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2))) as threads:
        list(threads.map(check, [placed for placed in found if placed.file.sha256 is not None]))
    _check_old(target, found)


def check_on_spark(spark: Any, target: Path, found: list[Placed]) -> None:
    """The same by the executors, which have more hands than the driver."""
    by_path = {str(placed.path): placed for placed in found if placed.file.sha256 is not None}
    paths = spark.createDataFrame([(path,) for path in by_path], "path string").repartition(
        min(len(by_path), spark.sparkContext.defaultParallelism)
    )
    for path, digest in paths.mapInArrow(_digester(), "path string, digest string").collect():
        if digest is None:
            raise by_path[path].mended(
                "the file was there a moment ago, and an executor does not find it; it was removed, or the folder is "
                "not shared"
            )
        _compare(by_path[path], digest)
    _check_old(target, found)


def _digester() -> Callable[[Any], Any]:
    def run(batches: Any) -> Any:
        import hashlib

        import pyarrow as pa

        for batch in batches:
            paths = batch.column(0).to_pylist()
            digests: list[str | None] = []
            for path in paths:
                try:
                    with open(path, "rb") as file:
                        digests.append(hashlib.file_digest(file, "sha256").hexdigest())
                except FileNotFoundError:
                    digests.append(None)
            yield pa.RecordBatch.from_pydict(
                {"path": paths, "digest": digests}, pa.schema({"path": pa.string(), "digest": pa.string()})
            )

    return run


def _compare(placed: Placed, digest: str) -> None:
    if digest != placed.file.sha256:
        raise placed.mended(
            "the file's SHA-256 is not the one that was committed; its content was changed, or it is another file"
        )


def _check_old(target: Path, found: list[Placed]) -> None:
    """Files of versions without checksums: what their footers say must do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    old = [placed for placed in found if placed.file.sha256 is None]
    if not old:
        return
    for placed in old:
        try:
            rows = pq.read_metadata(placed.path).num_rows
        except pa.ArrowInvalid as error:
            raise placed.mended(f"the file cannot be read as Parquet ({error})") from None
        if rows != placed.file.rows:
            raise placed.mended(f"the file has {rows} rows, and {placed.file.rows} were committed")
    warnings.warn(
        f"{target}: {len(old)} of {len(found)} files were written by a version that kept no checksums: only their "
        "sizes and numbers of rows are compared",
        UserWarning,
        stacklevel=4,
    )
