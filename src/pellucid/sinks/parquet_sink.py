"""What may be told by the names of folders (``user=ada/``) and come back exactly, and what may not.

A folder's name is text.  Texts, whole numbers, booleans and dates come back from it; a timestamp does not, because
Spark writes it in the session's time zone and a reader may have another, nor a float, a decimal or bytes, on which
Spark and Arrow do not agree.  The empty text and the null have one name in Spark, so the empty text is refused.  So is
a text with the character NUL, which ends a name for the system, one that is no UTF-8, and one whose folder's name would
be longer than file systems take.  All else is escaped as Hive and Spark do it (``%2F``), and as Arrow reads it; Arrow's
own way to write names (every byte beyond ASCII) is not used, because Spark takes such a byte for a character.

Delta keeps a partition's value in its log, so that timestamps and floats come back; but it, too, takes the empty text
for null, and the package ``deltalake`` (1.6) spoils bytes and negative decimals.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from pellucid.internal.base.files import by_any_name, make_lasting, sync
from pellucid.sinks import folder, interface
from pellucid.sinks import folder as claimed
from pellucid.sinks.folder import (
    DataFile,
    Manifest,
    ManifestLog,
    Placed,
    check_contents,
    check_on_spark,
    checked_places,
)
from pellucid.sinks.rows import differences, is_spark, refuse_doubled, rows_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NULL = "__HIVE_DEFAULT_PARTITION__"  # what Spark and Arrow call the folder of the nulls
LONGEST = 255  # bytes of a name, on the usual file systems
_SPECIAL = "/\\=%\"#:*?'{}[]^"  # some writers escape these in a name, and some readers do not know that
# as Spark's ExternalCatalogUtils has it, and Hive before it
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def check(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Refuse a column that is not there, or that cannot be a folder's name.

    >>> import pyarrow as pa
    >>> check("out", ("day",), pa.schema({"day": pa.date32(), "sum": pa.int64()}))
    >>> check("out", ("at",), pa.schema({"at": pa.timestamp("us", "UTC"), "sum": pa.int64()}))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out: partition_by='at': a timestamp[us, tz=UTC] would not come back exactly from the name
    of a partition; partition by a text, a whole number, a boolean or a date made from it, such as CAST(at AS DATE)
    """
    _check_kinds(where, columns, schema, _comes_back, "a text, a whole number, a boolean or a date")
    for name in columns:
        if name.startswith(("_", ".")) or any(char in _SPECIAL or not char.isprintable() for char in name):
            raise DataError(
                f"{where}: partition_by={name!r}: this name cannot be a folder's that all readers find; rename the "
                "column before the sink"
            )


def check_delta(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """The same for a Delta table."""
    import pyarrow as pa

    t = pa.types
    _check_kinds(
        where,
        columns,
        schema,
        lambda kind: _comes_back(kind) or t.is_floating(kind) or t.is_timestamp(kind),
        "a text, a number that is no decimal, a boolean, a date or a time",
    )


def _check_kinds(
    where: object, columns: tuple[str, ...], schema: pa.Schema, comes_back: Callable[[pa.DataType], bool], instead: str
) -> None:
    if columns and set(columns) == set(schema.names):
        raise DataError(f"{where}: partition_by={list(columns)}: no column is left for the files; leave one out")
    for name in columns:
        if name not in schema.names:
            raise DataError(
                f"{where}: partition_by={name!r}: there is no such column; there are {', '.join(schema.names)}"
            )
        kind = schema.field(name).type
        if not comes_back(kind):
            made = "DATE" if str(kind).startswith("timestamp") else "STRING"
            raise DataError(
                f"{where}: partition_by={name!r}: a {kind} would not come back exactly from the name of a partition; "
                f"partition by {instead} made from it, such as CAST({name} AS {made})"
            )


def escaped(text: str) -> str:
    """A value as a part of a folder's name, as Spark and Hive write it.

    >>> escaped("a/b = 5 %"), escaped("Zürich")
    ('a%2Fb %3D 5 %25', 'Zürich')
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


class FolderNames:
    """The folders of the rows of one batch of Arrow: while Arrow writes, each value is a number, and afterwards the
    folders get their names.

    Arrow itself would escape every byte beyond ASCII, which Spark does not read back (and a name would be three times
    as long). ``folds`` says that the file system takes ``A`` and ``a`` for one name.
    """

    def __init__(self, where: object, columns: tuple[str, ...], schema: pa.Schema, *, folds: bool) -> None:
        import pyarrow as pa

        self.where, self.columns, self.folds = where, columns, folds
        mark = "~"
        # no column is called so: no folder is in another's way
        while any(name.startswith(mark) for name in schema.names):
            mark += "~"
        self.numbers = [f"{mark}{place}" for place in range(len(columns))]
        self.schema = schema
        for place, name in enumerate(columns):
            self.schema = self.schema.set(schema.get_field_index(name), pa.field(self.numbers[place], pa.int64()))
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in columns}
        self._seen: dict[str, dict[str, str]] = {name: {} for name in columns}

    def numbered(self, rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """The rows with a number for each value; what cannot be a folder's name is refused before it is written."""
        import pyarrow as pa

        for batch in checked_rows(self.where, self.columns, rows):
            columns = list(batch.columns)
            for name in self.columns:
                place = batch.schema.get_field_index(name)
                values = columns[place].cast(pa.string()).dictionary_encode()
                numbers = pa.array([self._number(name, text) for text in values.dictionary.to_pylist()], pa.int64())
                columns[place] = numbers.take(values.indices)
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _number(self, name: str, text: str) -> int:
        numbers = self._numbers[name]
        if text not in numbers:
            _check_name(self.where, name, text)
            if self.folds:
                _check_case(self.where, name, text, self._seen[name])
            numbers[text] = len(numbers)
        return numbers[text]

    def rename(self, staging: Path, level: int = 0) -> None:
        """Give the folders below ``staging`` the names of their values."""
        if level == len(self.columns) or not staging.exists():  # of an empty batch nothing is written
            return
        name = self.columns[level]
        texts = {str(number): escaped(text) for text, number in self._numbers[name].items()}
        for made in [found for found in os.scandir(staging) if found.is_dir()]:
            number = made.name.rpartition("=")[2]
            named = staging / f"{name}={texts.get(number, NULL)}"
            os.rename(made.path, named)
            self.rename(named, level + 1)


def _check_name(where: object, name: str, text: str) -> None:
    if "\0" in text:
        raise DataError(
            f"{where}: partition_by={name!r}: a row has the text {_shown(text)} there, and no folder can have the "
            f"character NUL in its name; replace it before the sink, for instance by replace({name}, '\\0', '')"
        )
    if len(f"{name}={escaped(text)}".encode()) > LONGEST:
        raise DataError(
            f"{where}: partition_by={name!r}: a row has the text {_shown(text)} there, whose folder's name would be "
            f"longer than {LONGEST} bytes; "
            f"shorten it before the sink, for instance by substr({name}, 1, 100), or partition by something shorter"
        )


def _check_case(where: object, name: str, text: str, seen: dict[str, str]) -> None:
    other = seen.setdefault(unicodedata.normalize("NFC", text).casefold(), text)
    if other != text:
        raise DataError(
            f"{where}: partition_by={name!r}: the texts {_shown(other)} and {_shown(text)} would be one folder here, "
            "because this file system does "
            "not tell their letters apart; make them one before the sink, or write to a file system that does"
        )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"


def explained(where: object, columns: tuple[str, ...], failure: str) -> None:
    """Refuse the batch if Spark failed because it could not make a partition's folder; its words have the folder's
    path."""
    for path in re.findall(r"Mkdirs failed to create (.*?) \(exists=", failure, re.DOTALL):
        for name in columns:
            found = re.search(rf"/{re.escape(escaped(name))}=([^/]*)", path)
            if found:
                _check_name(where, name, re.sub("%([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found[1]))


def metrics(columns: tuple[str, ...], *, folds: bool) -> list[Any]:
    """For Spark's ``observe``: how many values of each column (``lost0``, …) have the name of the nulls, how many are
    no UTF-8.

    Where the file system takes ``A`` and ``a`` for one name, the values themselves come, too (``values0``, …).
    """
    from pyspark.sql import functions as F

    made = []
    for place, name in enumerate(columns):
        text = F.col(spark_name(name)).cast("string")
        made.append(F.count_if(text.isin("", NULL)).alias(f"lost{place}"))
        made.append(F.count_if(~F.is_valid_utf8(text)).alias(f"broken{place}"))
        if folds:
            made.append(F.collect_set(text).alias(f"values{place}"))
    return made


def check_counted(where: object, columns: tuple[str, ...], counted: dict[str, Any]) -> None:
    """Refuse the batch if such values were counted."""
    for place, name in enumerate(columns):
        if counted[f"lost{place}"]:
            _refuse(where, name)
        if counted[f"broken{place}"]:
            _refuse_broken(where, name)
        seen: dict[str, str] = {}
        for text in counted.get(f"values{place}", ()):
            _check_case(where, name, text, seen)


def checked_rows(
    where: object, columns: tuple[str, ...], rows: Iterable[Any], nulls: tuple[str, ...] = ("", NULL)
) -> Iterator[pa.RecordBatch]:
    """The same for batches of Arrow, as they pass."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in rows:
        for name in columns:
            column = batch.column(name)
            texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if texts and pc.any(pc.is_in(column, pa.array(nulls, column.type))).as_py():
                _refuse(where, name)
            if texts:
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid:
                    _refuse_broken(where, name)
        yield batch


def spark_name(name: str) -> str:
    """A column's name as Spark's expressions take it: a dot is no field of a record, a backtick is no end.

    >>> spark_name("user.id"), spark_name("a`b")
    ('`user.id`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def _comes_back(kind: pa.DataType) -> bool:
    import pyarrow as pa

    t = pa.types
    return bool(
        t.is_string(kind) or t.is_large_string(kind) or t.is_integer(kind) or t.is_boolean(kind) or t.is_date32(kind)
    )


def _refuse(where: object, name: str) -> None:
    raise DataError(
        f"{where}: partition_by={name!r}: a row has the empty text there (or the text {NULL}), which would come back "
        f"as null; replace it before the sink, for instance by nullif({name}, '') or by a word of your own"
    )


def _refuse_broken(where: object, name: str) -> None:
    raise DataError(
        f"{where}: partition_by={name!r}: a row has bytes there that are no text in UTF-8, which would not come back "
        f"exactly; replace them before the sink, for instance by hex({name})"
    )


# Reading a Parquet target by its manifests: what is committed counts, wherever its files are at this moment.

_MUCH = 256 << 20  # bytes; below, a job of Spark takes longer than the driver alone


def read(path: str | os.PathLike[str], *, verify: bool = True, upto: tuple[str, int | None] | None = None) -> pa.Table:
    """The rows that the manifests list, as an Arrow table, batch by batch.

    Every file is compared with its manifest first; ``verify=False`` leaves out the checksums, which need each file read
    whole.  ``upto`` leaves out the batches of a query after one (after None: all of them).
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    target = folder.local_folder(path)
    # Spark's default for a timestamp is INT96; read as nanoseconds it would overflow in the year 2262.
    form = ds.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
    for attempt in range(5):
        try:
            found = checked_places(target)
            if upto is not None:
                query, last = upto
                found = [one for one in found if one.query != query or (last is not None and one.number <= last)]
            schema = schema_there(target)  # after the look at what counts: from the first commit on, the schema stays
            if verify:
                check_contents(target, found)
            tables = [
                ds.dataset(files, schema=schema, format=form, partitioning="hive", partition_base_dir=base).to_table()
                for base, files in _by_base(found)
            ]
            return pa.concat_tables([schema.empty_table(), *tables])
        except FileNotFoundError:  # it moved from staging to its place while we looked
            if attempt == 4:
                raise
    raise AssertionError("unreachable")


def read_spark(spark: SparkSession, path: str | os.PathLike[str], *, verify: bool = True) -> DataFrame:
    """The rows that the manifests list now, as a DataFrame.

    Every file is compared with its manifest first, by the executors if it is much; ``verify=False`` leaves out the
    checksums.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    target = folder.local_folder(path)
    found = checked_places(target)
    schema = from_arrow_schema(schema_there(target))
    if verify and sum(placed.file.bytes for placed in found) > _MUCH:
        check_on_spark(spark, target, found)
    elif verify:
        check_contents(target, found)
    result = spark.createDataFrame([], schema)
    parts = [
        (base, files, spoilt)
        for spoilt in (False, True)
        for base, files in _by_base([placed for placed in found if _written_by_bytes(placed) == spoilt])
    ]
    for place, (base, files, spoilt) in enumerate(parts):
        part = (
            spark.read.schema(schema)
            .option("basePath", for_spark(base))
            .parquet(*(for_spark(_literal(file)) for file in files))
        )
        columns = [F.col(spark_name(name)) for name in schema.names]
        if spoilt:
            inside = {segment.partition("=")[0] for segment in Path(files[0]).relative_to(base).parts[:-1]}
            columns = [
                F.decode(F.encode(column, "ISO-8859-1"), "UTF-8").alias(field.name)
                if field.name in inside and field.dataType.typeName() == "string"
                else column
                for field, column in zip(schema, columns, strict=True)
            ]
        part = part.select(*columns)
        result = part if place == 0 else result.unionByName(part)
    return result


def _written_by_bytes(placed: Placed) -> bool:
    """Whether a folder's name has bytes beyond ASCII escaped one by one, as Arrow did for earlier versions: Spark takes
    each for a character."""
    return re.search("%[89A-F][0-9A-F]", str(placed.path.relative_to(placed.base).parent)) is not None


def for_spark(path: str | Path) -> str:
    """The path as Spark takes it: with the scheme, and not escaped as in a URI (``k=1`` and a space stay what they
    are)."""
    return f"file://{path}"


def _literal(path: str) -> str:
    """A path that Spark does not take for a pattern.

    >>> print(_literal("out/a*[b]/k=1"))
    out/a\\*\\[b\\]/k=1
    """
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def schema_path(target: Path) -> Path:
    """Where the columns of the target are kept."""
    return target / "_manifest" / "schema.arrow"


def schema_there(target: Path) -> pa.Schema:
    """The columns of the target."""
    import pyarrow as pa

    path = schema_path(target)
    try:
        return pa.ipc.read_schema(pa.BufferReader(path.read_bytes()))
    except FileNotFoundError:
        if ManifestLog(target).is_empty():
            raise DataError(f"{target}: no manifest is there: nothing was written by pellucid.sinks.parquet") from None
        raise StateError(
            f"{path}: the file with the columns of this folder is missing; restore it from a copy"
        ) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise StateError(
            f"{path}: the file with the columns of this folder is damaged ({error}); restore it from a copy"
        ) from None


def _by_base(found: list[Placed]) -> list[tuple[str, list[str]]]:
    """The files by the folder below which their partitions are: the target, and rarely a staging folder."""
    made: dict[str, list[str]] = {}
    for placed in found:
        made.setdefault(str(placed.base), []).append(str(placed.path))
    return list(made.items())


# Parquet files with a manifest: the executors write, the manifest commits, the visible folder follows.
#
# A batch goes through three places::
#
#     _staging/<query>-<batch>-<attempt>/part-…   the executors write here; no reader looks
#     _manifest/<query>-<batch>.json              created once, exclusively: from now on the batch counts
#     batch-<batch>-part-…                        the files move here, one rename each; done again after a crash
#
# The order matters.  Moving first and committing afterwards would show rows of an attempt that never counts to every
# reader that does not know the manifest.  Here such a reader sees only rows that count; at worst it misses, for the
# moment of the moves or until a crashed query runs again, some files of the newest batch.  :func:`read` misses nothing:
# it follows the manifest, and takes a file from staging where it has not moved yet.


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
        """The executors write files where no reader looks."""
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
        check(self.path, self.partition_by, schema)
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
        df = df.observe(counted, F.count(F.lit(1)).alias("rows"), *metrics(self.partition_by, folds=folds))
        writer = df.write.mode("error").option("compression", self.compression)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        try:
            writer.parquet(for_spark(staging))
        except Exception as error:  # Spark's own class for it differs from version to version
            explained(self.path, self.partition_by, str(error))
            raise
        check_counted(self.path, self.partition_by, counted.get)
        return int(counted.get["rows"])

    def _stage_arrow(self, data: Any, staging: Path) -> int:
        import pyarrow as pa
        import pyarrow.dataset as ds

        rows = rows_of(data)
        names = FolderNames(self.path, self.partition_by, rows.schema, folds=folder.folds_case(staging.parent))
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
        before = manifest.previous
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
