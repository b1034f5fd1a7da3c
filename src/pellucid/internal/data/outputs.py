"""Columns that meet: an event has a field of the name of a column of the key.

A table has a column of one name once.  Where the two hold the same, it stands once; where they differ, one of them
would be lost, so that is refused: before anything is written where the types tell, else at the first row that differs.
Every way to run a pipeline asks here, and says it in the same words.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import io
import json
import math
import os
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.base.files import Draft, output_draft, sync, temporary_name
from pellucid.internal.data.arrow import (
    array_of,
    arrow_type,
    column_leaves,
    column_names,
    event_fields,
    flattened,
    key_array,
    numpy_of,
    one_array,
    output_batch,
    output_schema,
    taken,
    without_views,
)
from pellucid.internal.data.bind import Kept, Place, own_paths, parted, shorten, some
from pellucid.internal.data.cells import inner_type
from pellucid.internal.data.columns import Column, Output, Strings, events_of, part_of
from pellucid.internal.data.files import flows, format_of, packing_of, unpacked
from pellucid.internal.data.rich import is_list, refuse_odd_times, spelled
from pellucid.internal.expr.types import BOOL, FLOAT, RecordType, TupleType, Type

Where: TypeAlias = "Callable[[int], str]"  # names the row whose push put the i-th event out

_NO_FORMATS: Mapping[str, str] = MappingProxyType({})
_AT_ONCE = 1 << 16  # rows that are looked at together: the first that differs ends it
_LOST = "one of them would be lost; rename the field, or that column before"


def refuse_types(what: str, output: str, t: Type, columns: Mapping[str, Any]) -> None:
    """Refuse the columns (of the key or the order: ``what``) of which an output has a field of a type that cannot hold
    the same; ``columns`` are their Arrow types.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> refuse_types("key", "pair", TupleType((INT, STR)), {"user": pa.string(), "pair_1": pa.string()})
    >>> refuse_types("key", "pair", TupleType((INT, STR)), {"pair_0": pa.string()})
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: the output 'pair' has a field 'pair_0' of type int, and the key column of this name
    holds string: one of them would be lost; rename the field, or that column before
    """
    own = own_paths(t, output)
    for column, found in columns.items():
        if column in own and not _can_be(own[column][0], found):
            raise UsageError(_other_type(what, output, column, own[column][0], found))


def refuse_other_keys(
    output: Output, key: Sequence[str], where: Where | None = None, formats: Mapping[str, str] = _NO_FORMATS
) -> None:
    """Refuse an event with a field of the name of a column of its key, and another value."""
    own = own_paths(output.type, output.name)
    if not any(name in own for name in key):
        return
    kinds = [kind for _, kind in output.key_type.columns()] if output.key_type is not None else []
    if output.keys is None or len(kinds) != len(key):
        if not len(output):
            return
        raise DataError(f"the output {output.name!r} has no key of {len(key)} column(s): {', '.join(key)}")
    refuse_types("key", output.name, output.type, dict(zip(key, map(arrow_type, kinds), strict=True)))
    for name, kind, leaves in zip(key, kinds, parted(kinds, output.keys), strict=True):
        if name not in own:
            continue
        t, at = own[name]
        mine = output.columns[at : at + t.width]
        if t == kind and all(map(_same, mine, leaves)):
            continue
        _refuse("key", output.name, name, t, mine, key_array(kind, leaves), where, formats.get(name))


def refuse_other_columns(
    what: str,
    output: Output,
    columns: Iterable[tuple[str, Any]],
    where: Where | None = None,
    formats: Mapping[str, str] = _NO_FORMATS,
) -> None:
    """The same for columns that are at hand as Arrow arrays, a value for each event.

    >>> from pellucid.internal.expr.types import INT
    >>> refuse_other_columns("order", Output("t", INT, [[1, 5]]), [("t", pa.array([1, 2]))], lambda i: f"row {i + 1}")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: row 2: the field 't' of the output 't' is 5, and the order column of this name is 2: one
    of them would be lost; rename the field, or that column before
    """
    own = own_paths(output.type, output.name)
    for name, array in columns:
        if name in own:
            t, at = own[name]
            _refuse(what, output.name, name, t, output.columns[at : at + t.width], array, where, formats.get(name))


def _lenient() -> Place:
    """A place that takes notes of values that are not what is wanted."""
    return Place("", str, bad={})


def _can_be(t: Type, found: Any) -> bool:
    """Whether a column of this Arrow type may hold what a field of this type does: it can be read as one."""
    if isinstance(t, (RecordType, TupleType)):
        return False
    try:
        column_leaves(t, pa.array([], found), column="", place=_lenient(), nan=True)
    except (DataError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _refuse(
    what: str,
    output: str,
    name: str,
    t: Type,
    mine: Sequence[Column],
    array: Any,
    where: Where | None,
    form: str | None,
) -> None:
    """Refuse the first event whose field is not what the column is."""
    if not _can_be(t, array.type):
        raise UsageError(_other_type(what, output, name, t, array.type))
    at = _first_other(t, mine, array, form)
    if at is None:
        return
    own = _said(events_of(t, [part_of(column, at, at + 1) for column in mine])[0])
    place = f"{where(at)}: " if where is not None else ""
    raise DataError(
        f"{place}the field {name!r} of the output {output!r} is {own}, and the {what} column of this name is "
        f"{_said(array[at].as_py())}: {_LOST}"
    )


def _other_type(what: str, output: str, name: str, t: Type, found: Any) -> str:
    return (
        f"the output {output!r} has a field {name!r} of type {t}, and the {what} column of this name holds {found}: "
        f"{_LOST}"
    )


def _first_other(t: Type, mine: Sequence[Column], array: Any, form: str | None) -> int | None:
    """The first row in which a column, read as what a field is declared as, is not what the field is."""
    for start in range(0, len(array), _AT_ONCE):
        part, place = array.slice(start, _AT_ONCE), _lenient()
        theirs, _ = column_leaves(t, part, column="", place=place, nan=True, form=form)
        own = [part_of(column, start, start + len(part)) for column in mine]
        other = ~_equal(key_array(t, own), key_array(t, theirs))
        if inner_type(t) == FLOAT and pa.types.is_integer(part.type):
            other |= _rounded(part)
        other[list(place.bad or ())] = True
        found = np.flatnonzero(other)
        if len(found):
            return start + int(found[0])
    return None


def _rounded(array: Any) -> Any:
    """Where a whole number has no float that is equal to it: two numbers would be one."""
    numbers = numpy_of(one_array(array).fill_null(0))
    out = np.zeros(len(numbers), dtype=bool)
    for i in np.flatnonzero((numbers > 2**53) | (numbers < -(2**53))).tolist():
        out[i] = int(float(numbers[i])) != int(numbers[i])
    return out


def _equal(mine: Any, theirs: Any) -> Any:
    """Where two Arrow arrays of one type are the same; a null is a null, a NaN a NaN."""
    same = pc.fill_null(pc.equal(mine, theirs), False)
    same = pc.or_(same, pc.and_(pc.is_null(mine), pc.is_null(theirs)))
    if pa.types.is_floating(mine.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(mine), pc.is_nan(theirs)), False))
    return numpy_of(same)


def _same(mine: Column, theirs: Column) -> bool:
    """Whether two columns are surely the same: a quick look, after which the others are compared row by row."""
    if isinstance(mine, Strings) and isinstance(theirs, Strings):
        return mine.values is theirs.values and np.array_equal(mine.codes, theirs.codes)
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return bool(np.array_equal(mine, theirs))
    return isinstance(mine, list) and isinstance(theirs, list) and mine == theirs


def _said(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, (dt.date, dt.timedelta, Decimal)) else shorten(value)


# Passthrough columns of an output file: the order's, and those that are kept.


@dataclass(frozen=True)
class Along:
    """The passthrough columns, in their order, and their types."""

    order: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept)
    types: Mapping[str, Any] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)  # of times in texts, by column

    def __bool__(self) -> bool:
        return bool(self.order or self.kept.columns)

    def names(self, t: Type, name: str, key: Sequence[str]) -> list[str]:
        """Those that go with one output: what a record has itself, or the key has, is there already."""
        own = own_paths(t, name)
        order = [column for column in self.order if column not in own and column not in key]
        return [*order, *(column for _, column in self.kept.of(t, name))]

    def schema(self, t: Type, name: str, key: Mapping[str, Type]) -> Any:
        """The columns of an output: the key's, the passthrough columns, the event's."""
        refuse_types("key", name, t, {column: arrow_type(kind) for column, kind in key.items()})
        plain = output_schema(t, name, key)
        at = len(plain) - len(event_fields(t, name))
        fields = list(plain)
        more = [pa.field(column, self.types[column]) for column in self.names(t, name, list(key))]
        return pa.schema([*fields[:at], *more, *fields[at:]])

    def batch(
        self,
        output: Output,
        key: Mapping[str, Type],
        columns: Mapping[str, Any],
        rows: Any,
        schema: Any,
        where: Where | None = None,
    ) -> Any:
        """What an output emitted, with the passthrough columns of these rows; texts may be codes.
        ``where`` names the row of an event."""
        names = self.names(output.type, output.name, list(key))
        refuse_other_keys(output, list(key), where, self.formats)
        width = len(event_fields(output.type, output.name))
        keys = schema.names[: len(schema) - width - len(names)]
        given = bool(names) and all(name in columns for name in keys)  # as they were read: texts may be codes
        known = {} if given else key
        plain = output_batch(output, output_schema(output.type, output.name, known), key=list(known))
        if not names:
            return plain
        pick = _picker(np.asarray(rows, dtype=np.int64), len(columns[names[0]]))
        first = [pick(columns[name]) for name in keys] if given else plain.columns[: len(keys)]
        more = [_coded(pick(columns[name]), self.types[name]) for name in names]
        return pa.RecordBatch.from_arrays([*first, *more, *plain.columns[-width:]], names=schema.names)


def _picker(rows: Any, count: int) -> Callable[[Any], Any]:
    """How these rows are taken from columns of so many: all, those that are there once in their order (which costs a
    fraction of the rest), or any."""
    if bool((rows[1:] > rows[:-1]).all()):
        if len(rows) == count:
            return lambda column: column
        here = np.zeros(count, dtype=bool)
        here[rows] = True
        mask = array_of(BOOL, here)
        return lambda column: without_views(column, lambda plain: plain.filter(mask))
    index = pa.array(rows)
    return lambda column: taken(column, index)


def fits(found: Any, t: Any) -> bool:
    """Whether a column can be written as one of this type: also texts that are codes, which a writer may use.

    >>> fits(pa.dictionary(pa.int32(), pa.string()), pa.string()), fits(pa.int32(), pa.int64())
    (True, False)
    """
    return bool(found == t or (found == pa.dictionary(pa.int32(), pa.string()) and t == pa.string()))


def _coded(array: Any, t: Any) -> Any:
    return array if fits(array.type, t) else fitting(array, t)


def fitting(array: Any, t: Any) -> Any:
    """A column in the type that was announced: a dictionary becomes what it stands for."""
    if array.type == t:
        return array
    return array.cast(t)


_IN_TEXT = (
    pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp,
    pa.types.is_duration,
)  # fmt: skip
_NOT_IN_PARQUET = (pa.types.is_union, pa.types.is_interval, pa.types.is_run_end_encoded)


def refuse_no_cells(path: str, form: str, schema: Any) -> None:
    """Refuse a column for which a file of this format has no form.

    >>> refuse_no_cells("out.csv", "csv", pa.schema([("tags", pa.list_(pa.string()))]))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out.csv: the column 'tags' holds list<item: string>, for which csv has no form: do not
    keep it, or write .jsonl, .parquet or .arrow
    """
    for one in schema:
        if not _has_form(one.type, form):
            others = [f".{other}" for other in ("jsonl", "parquet", "arrow") if _has_form(one.type, other)]
            raise DataError(
                f"{path}: the column {one.name!r} holds {one.type}, for which {form} has no form: do not keep it, or "
                f"write {', '.join(others[:-1])}{' or ' if others[1:] else ''}{others[-1]}"
            )


def _has_form(t: Any, form: str) -> bool:
    """Whether a file of this format can hold values of an Arrow type."""
    if form == "arrow":
        return True
    if pa.types.is_dictionary(t):
        return _has_form(t.value_type, form)
    inside = (t.field(i).type for i in range(t.num_fields))
    if form == "parquet":
        here = not any(kind(t) for kind in _NOT_IN_PARQUET)
        return here and all(_has_form(part, form) for part in inside)
    if pa.types.is_struct(t) or (form == "jsonl" and is_list(t)):
        return all(_has_form(part, form) for part in inside)
    return any(kind(t) for kind in _IN_TEXT)


# Files that appear whole or not at all.
#
# A writer fills a temporary file beside the target.  Only when everything is written, and is on the disk, the target
# takes its name; on any error, also on an interrupt, the temporary file goes and an older target stays as it was.
# What is no regular file (a pipe, ``/dev/null``, the standard output ``-``) is written as it comes.

# Rows that are packed by gzip on their way into a file.
#
# ``gzip.GzipFile`` does more than is wanted here: it writes the (temporary) name of its file into the header, so that
# the same rows are not the same bytes; and one that is given up finishes itself when it is collected, so that what
# reads a pipe takes half of the rows for all of them (and Python 3.13 complains, if the file is closed by then).  This
# one ends when it is closed, or not at all.

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
# Also what is added to appears whole or not at all: the old rows are copied into the new file first, which then takes
# the name.

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
        self.live = path == "-" or _special(path)  # another program may be reading: do not hold lines back
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
        """A sink that appends to the lines that are there."""
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
            while len(self._packing) >= _WAITING:  # raises what went wrong with an earlier one
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
    """The message about a NaN that is to be written as JSON.

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
