"""Parquet files with a manifest: the executors write, the manifest commits, the visible folder follows.

A batch goes through three places::

    _staging/<query>-<batch>-<attempt>/part-…   the executors write here; nobody looks
    _manifest/<query>-<batch>.json              created once, exclusively: from now on the batch counts
    batch-<batch>-part-…                        the files move here, one rename each; done again after a crash

The order matters.  Moving first and committing afterwards would show rows of an attempt that never counts to every
reader that does not know the manifest.  Here such a reader sees only rows that count; at worst it misses, for the
moment of the moves or until a crashed query runs again, some files of the newest batch.  :func:`read` misses nothing:
it follows the manifest, and takes a file from staging where it has not moved yet.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from pellucid.internal.base.files import by_any_name, make_lasting, sync
from pellucid.sinks import interface
from pellucid.sinks.files import claimed, folder, partitions
from pellucid.sinks.files.check import checked_places
from pellucid.sinks.files.manifest import DataFile, Manifest, ManifestLog
from pellucid.sinks.files.read import for_spark, read, schema_path, schema_there
from pellucid.sinks.rows import is_spark, rows_of, schema_of
from pellucid.sinks.schema import differences, refuse_doubled

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _Attempt:
    """One attempt at a batch: where its files are, its columns, the batch before it, and what would be its commit."""

    staging: Path
    schema: pa.Schema
    previous: int
    manifest: Manifest | None = None


class ParquetSink(interface.Sink):
    """A folder of Parquet files in which each micro-batch counts once.

    Several queries may write to one folder.  Readers that must not miss anything use :func:`read` or
    :func:`read_spark`. ``first_batch`` says that the sink begins with this batch of an older checkpoint.

    >>> import pyarrow as pa, tempfile
    >>> sink = parquet(tempfile.mkdtemp())
    >>> print(sink.write(pa.table({"user": ["a", "b"], "sum": [1, 2]}), "sums", 0))
    sums: batch 0: 2 rows written
    >>> print(sink.write(pa.table({"user": ["a", "b"], "sum": [1, 2]}), "sums", 0))
    sums: batch 0: left out, its rows are there already
    >>> sink.read().num_rows
    2
    """

    kind: ClassVar[str] = "parquet"
    guarantee: ClassVar[str] = (
        "read() and read_spark() see each batch whole and once; a reader that does not know the manifest sees only "
        "rows that "
        "count, and may miss files of the newest batch while they are moved or until a crashed query runs again"
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: str | list[str] | tuple[str, ...] = (),
        compression: str = "snappy",
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.path = folder.local_folder(path)
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.compression = compression
        self.log = ManifestLog(self.path)
        self._looked = False

    @property
    def place(self) -> str:
        return str(self.path)

    def last(self, query: str) -> int | None:
        return self.log.last(query)

    def read(self) -> pa.Table:
        return read(self.path)

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The executors write files where nobody looks."""
        if not self._looked:  # at the start: do not go on where rows that count are gone
            checked_places(self.path)
            self._looked = True
        last = self.last(query)
        if last is not None:
            self._finish(query, last)
            if batch <= last:
                return interface.Staged(query, batch, skipped=True)
        schema = schema_of(data).remove_metadata()
        refuse_doubled(schema.names)
        partitions.check(self.path, self.partition_by, schema)
        if not self.log.is_empty():
            self._compare(schema)
        staging = self.path / "_staging" / f"{query}-{batch:020d}-{uuid.uuid4().hex}"
        make_lasting(staging.parent)
        before = -1 if last is None else last
        staged = interface.Staged(query, batch, held=_Attempt(staging, schema, before), before=before)
        try:
            staged.rows = self._stage_spark(data, staging) if is_spark(data) else self._stage_arrow(data, staging)
        except Exception:
            if not self.has(query, batch):
                raise
            staged.skipped = True  # another driver has committed this batch, and cleared our attempt away under us
        return staged

    def prepare(self, staged: interface.Staged) -> None:
        """The files are synced, and the manifest is ready: the commit is one hard link."""
        attempt = staged.held
        try:
            files = self._staged_files(attempt.staging, staged.batch)
            attempt.manifest = Manifest(
                staged.query, staged.batch, attempt.staging.name, files, previous=attempt.previous
            )
            if attempt.manifest.rows != staged.rows:
                raise StateError(
                    f"{self.path}: batch {staged.batch}: the executors wrote {staged.rows} rows, but the driver finds "
                    f"{attempt.manifest.rows}: "
                    "the folder must be the same one, shared or mounted, on the driver and on every executor"
                )
        except Exception:
            if not self.has(staged.query, staged.batch):
                raise
            attempt.manifest = None

    def commit(self, staged: interface.Staged) -> interface.Written:
        query, batch, manifest = staged.query, staged.batch, staged.held.manifest
        if manifest is None:
            return interface.Written(query, batch, 0, skipped=True)
        faults.point("parquet:before-commit")
        won = self._commit(manifest, staged.held.schema)
        faults.point("parquet:after-commit")
        self._finish(query, batch)
        if won:
            self.log.fold(query, batch)
        return interface.Written(query, batch, manifest.rows if won else 0, skipped=not won)

    def abort(self, staged: interface.Staged) -> None:
        """The files go, unless they count already: the next batch moves them to where they belong."""
        manifest = staged.held.manifest
        if manifest is None or not self.has(staged.query, staged.batch):
            folder.remove_tree(staged.held.staging)

    # ------------------------------------------------------------ together with others

    def cut(self, query: str, batch: int | None, after: int) -> pa.Table | None:
        """What the manifests up to this batch list."""
        last = self.last(query)
        if (batch is not None and (last is None or last < batch)) or self.log.is_empty():
            return None
        return read(self.path, upto=(query, batch))

    def claim(self, group: str, where: str) -> str | None:
        return claimed.claim(self.path, group, where)

    def really(self) -> str:
        return by_any_name(self.path)

    def unclaim(self, group: str | None) -> None:
        claimed.unclaim(self.path, group)

    @property
    def forget(self) -> str:
        """What gives the target free again."""
        return claimed.forget(self.path)

    def _stage_spark(self, df: Any, staging: Path) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        counted = Observation()
        folds = folder.folds_case(staging.parent)
        df = df.observe(counted, F.count(F.lit(1)).alias("rows"), *partitions.metrics(self.partition_by, folds=folds))
        writer = df.write.mode("error").option("compression", self.compression)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        try:
            writer.parquet(for_spark(staging))
        except Exception as error:  # Spark's own class for it differs from version to version
            partitions.explained(self.path, self.partition_by, str(error))
            raise
        partitions.check_counted(self.path, self.partition_by, counted.get)
        return int(counted.get["rows"])

    def _stage_arrow(self, data: Any, staging: Path) -> int:
        import pyarrow as pa
        import pyarrow.dataset as ds

        rows = rows_of(data)
        names = partitions.FolderNames(
            self.path, self.partition_by, rows.schema, folds=folder.folds_case(staging.parent)
        )
        parts = ds.partitioning(pa.schema([names.schema.field(number) for number in names.numbers]), flavor="hive")
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(names.schema, names.numbered(rows)),
            staging,
            format="parquet",
            partitioning=parts if self.partition_by else None,
            max_partitions=2**31 - 1,
            **_in_order(ds.write_dataset),
            max_open_files=_files_at_once(),
            basename_template=f"part-{uuid.uuid4().hex}-{{i}}.parquet",
            file_options=ds.ParquetFileFormat().make_write_options(compression=self.compression),
        )
        names.rename(staging)
        return rows.count

    def _staged_files(self, staging: Path, batch: int) -> tuple[DataFile, ...]:
        """The files of this attempt, lasting on disk; Spark writes an empty one for an empty batch, which is left
        out."""
        import pyarrow.parquet as pq

        files = []
        for path in folder.files_below(staging, ".parquet"):
            rows = pq.read_metadata(path).num_rows
            if rows:
                sync(path)
                inside = path.relative_to(staging)
                name = inside.with_name(f"batch-{batch:020d}-{inside.name}")
                with path.open("rb") as content:
                    digest = hashlib.file_digest(content, "sha256").hexdigest()
                files.append(DataFile(name.as_posix(), inside.as_posix(), rows, path.stat().st_size, digest))
        for place in {
            parent
            for file in files
            for parent in (staging / file.staged).parents
            if staging.parent in (parent, *parent.parents)
        }:
            sync(place)
        return tuple(files)

    def _finish(self, query: str, batch: int) -> None:
        """Move the files of a committed batch to where every reader sees them, and clear away attempts that lost.

        Only attempts at *committed* batches are cleared: one at a later batch may belong to a driver that is about to
        commit.
        """
        staging = self.path / "_staging"
        stale = [name for name in folder.names(staging) if _is_attempt(name, query, batch)]
        if not stale:
            return
        manifest = self.log.get(query, batch)
        if manifest is not None and manifest.attempt in stale:
            for file in manifest.files:
                folder.move(staging / manifest.attempt / file.staged, self.path / file.name)
                faults.point("parquet:between-moves")
            # the partitions' folders, and the target itself
            for place in {above for file in manifest.files for above in Path(file.name).parents}:
                sync(self.path / place)
        for name in stale:
            folder.remove_tree(staging / name)

    def _commit(self, manifest: Manifest, schema: pa.Schema) -> bool:
        """Make the batch count.  The first one that does decides the columns; an attempt that failed before leaves
        nothing decided."""
        before = -1 if manifest.previous is None else manifest.previous
        if before >= 0 and self.log.is_empty():
            raise StateError(interface.taken_away(str(self.path), before, manifest.batch))
        if self.log.is_empty():
            with folder.one_at_a_time(self.log.folder):
                if self.log.is_empty():
                    folder.replace(schema_path(self.path), schema.serialize().to_pybytes())
                    return self.log.commit(manifest)
        self._compare(schema)
        return self.log.commit(manifest)

    def _compare(self, schema: pa.Schema) -> None:
        """Refuse a batch with other columns than those that are there."""
        different = differences(schema_there(self.path), schema)
        if different:
            raise DataError(f"{self.path}: the batch does not fit what is there: {different}; write to another folder")


def _in_order(write: Any) -> dict[str, bool]:
    """What keeps the rows of a file in the order in which they come; an Arrow that has no word for it does not promise
    any order, also with one thread."""
    known = "preserve_order" in inspect.signature(write).parameters
    return {"preserve_order": True} if known else {"use_threads": False}


def _files_at_once() -> int:
    """How many files may be written side by side: half of what this process may still open."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        there = len(os.listdir("/dev/fd"))
    except OSError:
        there = 256
    return 900 if limit == resource.RLIM_INFINITY else max(4, min(900, (limit - there) // 2))


def _is_attempt(name: str, query: str, upto: int) -> bool:
    """Whether a folder in staging is an attempt of this query at a batch up to ``upto``.

    >>> [_is_attempt(f"orders-{batch:020}-9f", "orders", 7) for batch in (7, 8)]
    [True, False]
    """
    head, _, _ = name.rpartition("-")
    owner, _, number = head.rpartition("-")
    return owner == query and number.isdigit() and int(number) <= upto


parquet = ParquetSink
