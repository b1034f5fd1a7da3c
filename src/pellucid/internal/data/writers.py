"""Files that appear whole or not at all.

A writer fills a temporary file beside the target.  Only when everything is written, and is on the disk, the target
takes its name; on any error, also on an interrupt, the temporary file goes and an older target stays as it was.
What is no regular file (a pipe, ``/dev/null``, the standard output ``-``) is written as it comes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.base.files import Draft, output_draft, sync, temporary_name
from pellucid.internal.data.arrow import column_names, flattened, numpy_of
from pellucid.internal.data.bind import some
from pellucid.internal.data.files import flows, format_of, packing_of, unpacked
from pellucid.internal.data.passthrough import refuse_no_cells
from pellucid.internal.data.rich import is_list, refuse_odd_times, spelled

# Rows that are packed by gzip on their way into a file.
#
# ``gzip.GzipFile`` does more than is wanted here: it writes the (temporary) name of its file into the header, so
# that the
# same rows are not the same bytes; and one that is given up finishes itself when it is collected, so that whoever
# reads a
# pipe takes half of the rows for all of them (and Python 3.13 complains, if the file is closed by then).  This one
# ends
# when it is told to, or not at all.

_LEVEL = 5
_GZIP = 31  # zlib's word for "with gzip's header and checksum"


class Packer:
    """Packs what is written to it into ``stream``; :meth:`close` writes the end, and leaves ``stream`` open.

    >>> import gzip, io
    >>> file = io.BytesIO()
    >>> packer = Packer(file)
    >>> packer.write(b"x\\n1\\n")
    >>> packer.close()
    >>> gzip.decompress(file.getvalue())
    b'x\\n1\\n'
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def write(self, data: Any) -> None:
        """Pack bytes (anything with a buffer)."""
        self._stream.write(self._packing.compress(data))

    def flush(self) -> None:
        """Let a reader of the stream have all that was written so far."""
        self._stream.write(self._packing.flush(zlib.Z_SYNC_FLUSH))
        self._stream.flush()

    def close(self) -> None:
        """Write gzip's end: without it a reader knows that something is missing."""
        self._stream.write(self._packing.flush())


# ``exists=``: what becomes of an output that is there already: refused, overwritten, or added to.
#
# Also what is added to appears whole or not at all: the old rows are copied into the new file first, which then
# takes the
# name.

#: What is done about an output that is there already.
EXISTS = ("refuse", "overwrite", "append")
_PIECE = 1 << 20


def check_exists(exists: str) -> str:
    """Whether this is one of the three words.

    >>> check_exists("append")
    'append'
    """
    if exists not in EXISTS:
        raise UsageError(f"{option('exists', exists)}: expected refuse, overwrite or append")
    return exists


def refuse_there(path: str) -> None:
    """Refuse an output that is there."""
    if os.path.lexists(path):
        raise DataError(
            f"{path}: is there already: choose another name, remove it, or say {option('exists', 'overwrite')} or "
            f"{option('exists', 'append')}"
        )


def old_lines(path: str, header: bytes, write: Callable[[bytes], Any]) -> None:
    """Copy the lines of a text file; its header must be the one that would be written (empty: it has none)."""
    begin, last = b"", b"\n"
    checked = not header
    with open(path, "rb", buffering=0) as raw:
        stream: Any = unpacked(raw, path) if packing_of(path) else raw
        try:
            while data := stream.read(_PIECE):
                if not checked:
                    begin += data
                    if b"\n" not in begin and len(begin) < _PIECE:
                        continue
                    _refuse_header(path, begin, header)
                    data, checked = begin, True
                write(data)
                last = data[-1:]
        except (EOFError, OSError) as error:
            raise DataError(f"{path}: cannot be read, so nothing can be added to it: {error}") from None
    if not checked and begin:
        _refuse_header(path, begin, header)
        write(begin)
        last = begin[-1:]
    elif not checked:
        write(header)
    if last != b"\n":
        write(b"\n")


def _refuse_header(path: str, begin: bytes, header: bytes) -> None:
    found = begin.split(b"\n", 1)[0].rstrip(b"\r").removeprefix(b"\xef\xbb\xbf")
    if found != header.rstrip(b"\n"):
        raise DataError(
            f"{path}: its columns are {found.decode('utf-8', 'replace')[:200]}, but {header.decode().rstrip()} would "
            f"be added: give another file, or say {option('exists', 'overwrite')}"
        )


def old_batches(path: str, form: str, schema: Any, write: Callable[[Any], Any]) -> None:
    """Copy the rows of a Parquet or Arrow file, whose columns must be those that would be written."""
    from pellucid.internal.data.arrow_files import ArrowReader, ParquetReader

    reader: Any = (
        ParquetReader(path) if form == "parquet" else ArrowReader(path, pa.OSFile(path), os.path.getsize(path))
    )
    try:
        names = reader.columns
        kinds = {name: reader.kept_type(name) for name in names}
        other = next((f.name for f in schema if kinds.get(f.name) != f.type), None)
        if names != schema.names or other is not None:
            what = f" ({other!r} holds {kinds.get(other)}, not {schema.field(other).type})" if other in kinds else ""
            raise DataError(
                f"{path}: its columns are {some(names)}, but {some(schema.names)} would be added{what}: give another "
                f"file, or say {option('exists', 'overwrite')}"
            )
        for chunk in reader.chunks({}, rows=1 << 17, keep=names):
            write(pa.RecordBatch.from_arrays([chunk.batch.column(name) for name in names], schema=schema))
    finally:
        reader.close()


_ROW_GROUP = 1 << 17
_TOGETHER = (
    1 << 15
)  # values that are packed at a time: the least and the greatest of texts that are codes cost that often
_LOOKED_AT = 1 << 14
_WAITING = 2  # row groups that wait to be packed


def refuse_same_file(target: str, inputs: Iterable[str]) -> None:
    """An output that is also an input would be overwritten while it is read."""
    try:
        there = os.stat(target)
    except OSError:
        return
    for path in inputs:
        if path == "-" or target == "-" or not stat.S_ISREG(there.st_mode):
            continue
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(path), there):
                raise DataError(f"{target}: is the input and the output: give the output another name")


def _special(path: str) -> bool:
    """Whether a path is there and is no regular file: it must not be replaced."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


class Writer:
    """Writes record batches of one schema; use it in a ``with`` block.

    Leaving the block without an error puts the file in place; an error removes it.
    """

    def __init__(
        self, path: str, form: str, schema: Any, *, packed: bool = False, stdout: Any = None, append: bool = False
    ) -> None:
        self.path, self.schema, self.rows = path, schema, 0
        self._draft: Draft | None = None
        self._prepared = False
        self._sink: Any = None
        self._target = os.path.realpath(path) if path != "-" else "-"
        self.live = path == "-" or _special(path)  # somebody may be reading: do not hold lines back
        try:
            self._raw = self._open(stdout)
            self._stream: Any = Packer(self._raw) if packed else self._raw
            adds = append and self._draft is not None and os.path.exists(path)
            if adds and form in ("csv", "tsv", "jsonl"):
                self._sink = self._after_lines(form)
            else:
                self._sink = _SINKS[form](self._stream, schema)
                if adds:
                    old_batches(path, form, schema, self._sink.write)
        except DataError:
            if self._draft is not None:
                self.discard()
            raise
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError) and error.filename is None:
                error.filename = "standard output" if path == "-" else path
            raise

    def _after_lines(self, form: str) -> Any:
        """A sink that goes on behind the lines that are there."""
        header = io.BytesIO()
        sink = _SINKS[form](header, self.schema)
        old_lines(self.path, header.getvalue(), self._stream.write)
        sink._stream = self._stream
        return sink

    def _open(self, stdout: Any) -> Any:
        if self.path == "-":
            return stdout if stdout is not None else sys.stdout.buffer
        folder = os.path.dirname(self._target)
        try:
            if self.live:
                return open(self.path, "wb")  # not the target: what /dev/stdout leads to may have no name
            self._draft = output_draft(self._target)
            return self._draft.file
        except FileExistsError:
            aside = temporary_name(self._target)
            raise DataError(f"{aside}: is in the way: another run may be writing here; else remove it") from None
        except OSError as error:
            if not os.path.isdir(folder):
                raise DataError(
                    f"{self.path}: cannot be written: there is no folder {os.path.dirname(self.path)!r}"
                ) from None
            raise DataError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def write(self, batch: Any) -> None:
        """Write a record batch."""
        if batch.num_rows:
            given = batch if isinstance(self._sink, _ParquetSink) else _undictionaried(batch, self.schema)
            self._guarded(lambda: self._sink.write(given))
            self.rows += batch.num_rows
            if self.live:
                self._guarded(self._stream.flush)

    def write_lines(self, lines: Sequence[str]) -> None:
        """Write ready JSON lines (only in a JSON Lines output)."""
        if lines:
            self._guarded(lambda: self._stream.write(("\n".join(lines) + "\n").encode()))
            self.rows += len(lines)
            if self.live:
                self._guarded(self._stream.flush)

    def prepare(self) -> None:
        """Finish the file under its temporary name, so that only the renaming is left (for several outputs)."""
        if not self._prepared:
            self._guarded(self._finish)
            self._prepared = True

    def commit(self) -> None:
        """Finish the file and put it in place."""
        try:
            self.prepare()
            if self._draft is not None:
                self._draft.place(self._target, folder=False)
                with contextlib.suppress(OSError):  # one that we may write in, but not read
                    sync(os.path.dirname(self._target))
        except BaseException:
            self.discard()
            raise

    def _finish(self) -> None:
        self._sink.close()
        if self._stream is not self._raw:
            self._stream.close()
        if self.path == "-":
            self._raw.flush()
            return
        if self._draft is not None:
            self._draft.finish()
        self._raw.close()

    def discard(self) -> None:
        """Leave nothing behind."""
        abandon = getattr(self._sink, "abandon", None)
        if abandon is not None:
            abandon()
        if self.path != "-":
            with contextlib.suppress(Exception):
                self._raw.close()
        if self._draft is not None:
            self._draft.discard()

    def _guarded(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise BrokenPipeError from None
            name = "standard output" if self.path == "-" else self.path
            raise DataError(f"{name}: cannot be written: {error.strerror or error}") from None


def refuse_packing(path: str) -> None:
    """What is written packed is written as .gz."""
    how = packing_of(path)
    if how not in (None, "gz"):
        raise DataError(f"{path}: cannot be written as .{how}: end it in .gz, or pack it afterwards")


def open_writer(
    path: str, schema: Any, form: str | None = None, *, stdout: Any = None, exists: str = "overwrite"
) -> Writer:
    """A writer for a file, by its ending or the given format; ``-`` is the standard output (JSON Lines).

    ``exists`` says what becomes of a file that is there: ``refuse``, ``overwrite`` or ``append``.
    """
    if path != "-" and (path.endswith("/") or os.path.isdir(path)):
        raise DataError(f"{path}: is a folder: expected the name of a file to write")
    found, packed = format_of(path, form, asked="out_format")
    refuse_packing(path)
    refuse_no_cells(path, found, schema)
    if found == "parquet" and (path == "-" or (flows(path) and os.path.realpath(path) != os.devnull)):
        name = "standard output" if path == "-" else path
        raise DataError(f"{name}: Parquet cannot be written to a pipe: give a file, or use arrow")
    if exists == "refuse" and path != "-" and not _special(path):
        refuse_there(path)
    return Writer(path, found, schema, packed=packed, stdout=stdout, append=exists == "append")


# ------------------------------------------------------------------ one sink for each format


def _natively(t: Any) -> bool:
    """Whether Parquet's own types say all of it."""
    kind = pa.types
    signed = kind.is_signed_integer(t) and t.bit_width >= 32
    if kind.is_timestamp(t):
        return t.unit == "us" and t.tz in (None, "UTC")
    return signed or t in (pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.date32()) or kind.is_decimal128(t)


def _all_different(batch: Any) -> list[str]:
    """The floats of which most are there once, such as running means: a dictionary of them is given up after some work
    that was in vain."""
    rows = min(batch.num_rows, _LOOKED_AT)
    floats = [name for name, t in zip(batch.schema.names, batch.schema.types, strict=True) if pa.types.is_floating(t)]
    return [name for name in floats if 2 * pc.count_distinct(batch.column(name).slice(0, rows)).as_py() > rows]


class _ParquetSink:
    """Rows are gathered, so that a selective pipeline does not make thousands of tiny row groups; these are packed by a
    thread of their own while the next ones are gathered."""

    def __init__(self, stream: Any, schema: Any) -> None:
        self._stream, self._schema = stream, schema
        self._writer: Any = None  # with the first group: only then it is known which texts are codes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pellucid-write")
        self._packing: deque[Future[None]] = deque()
        self._waiting: list[Any] = []
        self._rows = 0

    def _opened(self, schema: Any, plain: Collection[str] = ()) -> Any:
        """Arrow's writer; these columns are written as they are, without a search for values that were there before."""
        if self._writer is None:
            import pyarrow.parquet as parquet

            # A file whose Arrow schema says nothing more than its Parquet schema does without it; then codes are texts.
            self._coded = schema != self._schema and all(map(_natively, self._schema.types))
            self._given = schema if self._coded else self._schema
            how = {
                "store_schema": not self._coded,
                "use_dictionary": [name for name in self._given.names if name not in plain] if plain else True,
                "write_batch_size": _TOGETHER,
            }
            self._writer = parquet.ParquetWriter(self._stream, self._given, **how)
        return self._writer

    def write(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            batches = self._waiting
            writer = self._opened(batches[0].schema, _all_different(batches[0]))
            if self._coded and all(b.schema == batches[0].schema == self._given for b in batches):
                table = pa.Table.from_batches(batches).unify_dictionaries()
            else:
                table = pa.Table.from_batches([_undictionaried(b, self._schema) for b in batches], self._schema)
                table = table.cast(self._given) if table.schema != self._given else table
            while len(self._packing) >= _WAITING:  # what went wrong with an earlier one is said here
                self._packing.popleft().result()
            self._packing.append(self._pool.submit(writer.write_table, table))
        self._waiting, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        while self._packing:
            self._packing.popleft().result()
        self._pool.shutdown()
        self._opened(self._schema).close()

    def abandon(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._writer is not None:
            self._writer.is_open = False  # or it would write a footer when it is collected


class _ArrowSink:
    def __init__(self, stream: Any, schema: Any) -> None:
        # A file has an index at its end; a pipe can only take a stream.
        whole = getattr(stream, "name", None) not in (1, "<stdout>") and stream.seekable()
        self._writer = (pa.ipc.new_file if whole else pa.ipc.new_stream)(stream, schema)
        self.write = self._writer.write_batch
        self.close = self._writer.close


class _CsvSink:
    def __init__(self, stream: Any, schema: Any, delimiter: str = ",") -> None:
        import pyarrow.csv as arrow_csv

        self._stream = stream
        stream.write(delimiter.join(_csv_name(n, delimiter) for n in column_names(schema)).encode() + b"\n")
        self._options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="needed")
        self._write = arrow_csv.write_csv

    def write(self, batch: Any) -> None:
        buffer = pa.BufferOutputStream()
        flat = _undictionaried(flattened(batch), None)
        for name, column in zip(flat.schema.names, flat.columns, strict=True):
            refuse_odd_times(column, name)
        texts = [spelled(column) if _misspelled(column.type) else column for column in flat.columns]
        self._write(pa.RecordBatch.from_arrays(texts, names=flat.schema.names), buffer, self._options)
        self._stream.write(buffer.getvalue())

    def close(self) -> None:
        pass


def _misspelled(t: Any) -> bool:
    """Whether Arrow's own CSV has such values in another form: durations as numbers, small decimals as 1E-7."""
    return bool(pa.types.is_duration(t) or (pa.types.is_decimal(t) and not 0 <= t.scale <= 6))


def _undictionaried(batch: Any, schema: Any) -> Any:
    """With the texts of codes, as the schema has them; without one, with the values of all dictionaries."""
    if not any(pa.types.is_dictionary(t) for t in batch.schema.types):
        return batch
    wanted = [t.value_type if pa.types.is_dictionary(t) else t for t in batch.schema.types]
    if schema is not None:
        wanted = [field.type for field in schema]
    columns = [c if c.type == t else c.cast(t) for c, t in zip(batch.columns, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _csv_name(name: str, delimiter: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in (delimiter, '"', "\n")) else name


class _JsonSink:
    def __init__(self, stream: Any, schema: Any) -> None:
        self._stream = stream
        self._form = _json_form(schema.names) + "\n"

    def write(self, batch: Any) -> None:
        columns = [json_texts(column, name) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        form = self._form
        self._stream.write("".join([form % row for row in zip(*columns, strict=True)]).encode())

    def close(self) -> None:
        pass


def _json_form(names: Iterable[str]) -> str:
    """A JSON object with a place for each value."""
    return "{" + ", ".join(json.dumps(n).replace("%", "%%") + ": %s" for n in names) + "}"


_SINKS: dict[str, Callable[[Any, Any], Any]] = {
    "parquet": _ParquetSink,
    "arrow": _ArrowSink,
    "csv": _CsvSink,
    "tsv": lambda stream, schema: _CsvSink(stream, schema, "\t"),
    "jsonl": _JsonSink,
}


def no_json_nan(column: str) -> str:
    """What is said of a NaN that is to be written as JSON.

    >>> no_json_nan("mean")
    "column 'mean' has a NaN, for which JSON has no word: write CSV or Parquet, or replace it in a map"
    """
    return f"column {column!r} has a NaN, for which JSON has no word: write CSV or Parquet, or replace it in a map"


def json_texts(column: Any, name: str = "value") -> list[str]:
    """An Arrow column as JSON texts.

    JSON has no infinity and no NaN: an infinity is written as ``1e999``, which readers take as one, a NaN is refused.

    >>> json_texts(pa.array([1.5, float("inf")])), json_texts(pa.array(["a", 'b"']))
    (['1.5', '1e999'], ['"a"', '"b\\\\""'])
    >>> import datetime
    >>> json_texts(pa.array([datetime.date(2013, 1, 1), None])), json_texts(pa.array([[1, None], []]))
    (['"2013-01-01"', 'null'], ['[1, null]', '[]'])
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        there = column.is_valid().to_pylist()
        found = iter(json_texts(column.drop_null(), name))
        return [next(found) if here else "null" for here in there]
    if pa.types.is_struct(column.type):
        form = _json_form(column.type.field(i).name for i in range(column.type.num_fields))
        return [form % row for row in zip(*(json_texts(c, name) for c in column.flatten()), strict=True)]
    if pa.types.is_decimal(column.type):
        return ["null" if v is None else v for v in spelled(column).to_pylist()]
    refuse_odd_times(column, name)
    column = spelled(column)
    if column.null_count:
        there = iter(json_texts(column.drop_null(), name))
        return [next(there) if valid else "null" for valid in numpy_of(column.is_valid())]
    values = column.to_pylist()
    if pa.types.is_integer(column.type):
        return [str(v) for v in values]
    if pa.types.is_boolean(column.type):
        return ["true" if v else "false" for v in values]
    if pa.types.is_floating(column.type):
        if np.isfinite(numpy_of(column)).all():
            return [repr(v) for v in values]
        if any(map(math.isnan, values)):
            raise DataError(no_json_nan(name))
        return [repr(v) if math.isfinite(v) else "1e999" if v > 0 else "-1e999" for v in values]
    if pa.types.is_decimal(column.type):
        return [f"{v:f}" for v in values]
    if pa.types.is_temporal(column.type):
        if pa.types.is_duration(column.type):
            return [str(v) for v in column.cast(pa.int64()).to_pylist()]
        return [json.dumps(v.isoformat()) for v in values]
    if is_list(column.type):
        sizes, texts = [len(v) for v in values], iter(json_texts(column.flatten(), name))
        return ["[" + ", ".join(next(texts) for _ in range(size)) + "]" for size in sizes]
    return [json.dumps(v, ensure_ascii=False) for v in values]
