"""Runs that read one another: a downstream run takes the rows of an upstream's epochs before they are committed.

* ``upstream``: what a run publishes about its outputs, and what a reader finds in its state folder
* ``rows``: the rows of parts from any row on, and the checksum by which they are known again
* ``lane``: such rows as an input: what was read ahead, what of it is sure, what was given up
* ``source``: the source task around it, which tells the coordinator what may be committed and what must be undone
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import queue
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, StateError, UsageError, nearest, option
from pellucid.internal.address import Address, epochs_of
from pellucid.internal.base import faults
from pellucid.internal.base.container import refused
from pellucid.internal.base.files import no_links
from pellucid.internal.data import outputs as writers
from pellucid.internal.data.arrow import source_columns
from pellucid.internal.data.arrow_files import ArrowReader, row_place
from pellucid.internal.data.bind import Binding, Place
from pellucid.internal.data.csv_files import CsvReader
from pellucid.internal.data.feed import wanted_columns
from pellucid.internal.data.files import format_of
from pellucid.internal.data.json_files import JsonLinesReader
from pellucid.internal.data.text import blocks
from pellucid.internal.engine.epochs.dead_letters import BAD
from pellucid.internal.engine.epochs.inputs import InputLane, Reading
from pellucid.internal.engine.epochs.outputs import PartName, checksum, parts_in, seal_owner
from pellucid.internal.engine.epochs.source import SourceTask
from pellucid.internal.engine.epochs.store import READ, Store, running_in
from pellucid.internal.engine.epochs.task import wait_for_the_end
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, why_cut
from pellucid.sinks.interface import Sink

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job
    from pellucid.internal.request import Request

# The upstream of a chain: what a run publishes about its outputs, and what a reader finds in its state folder.
#
# Nothing is written there by a reader, and no lock is taken.  The rows of an output lie in parts: those of epochs that
# are not committed in ``staged/``, the others in ``committed/``; a commit moves a part from the one to the other under
# the same name, and committed neighbours are merged.  So a reader looks at the names, in this order, and finds a part
# in both folders rather than in none.  A part's name has a seal of its content, so two parts of one name have the same
# rows.
#
# When an upstream goes back, its staged parts of epochs that are not complete are removed before any new one is there:
# who has read one of them, and opens another, sees that the first is gone.

OUTPUTS = "outputs.json"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream


def publish(job: Job) -> None:
    """Write down which outputs of a run keep their rows in the state folder, how, and their columns: for its
    readers."""
    found = outputs_of(job)
    if job.store.hint(OUTPUTS) != {"outputs": found}:
        job.store.write(OUTPUTS, {"outputs": found})


def outputs_of(job: Job) -> dict[str, Any]:
    """The outputs of a run: how their rows are kept, and their columns; or the table that they go to."""
    found: dict[str, Any] = {}
    for name, place in job.outputs.items():
        if isinstance(place, Sink):
            found[name] = {"table": place.identity}
        elif Address.of(place).kind:
            found[name] = {"table": Address.of(place).identity}
        else:
            asked = None if name == BAD and job.settings.aside else job.settings.out_format
            schema = base64.b64encode(job.schemas[name].serialize()).decode()
            found[name] = {"form": format_of(place, asked, asked="out_format")[0], "schema": schema}
    return found


class View(NamedTuple):
    """What there is of an output at one moment: its parts in a row, each with the number of its first row."""

    parts: list[tuple[int, PartName, Path]]
    committed: int  # rows
    until: int  # the push up to which they go
    names: frozenset[str]  # of all parts that lie there
    shown: frozenset[str]  # of those that are committed

    def at(self, row: int) -> tuple[int, PartName, Path] | None:
        """The part that has a row."""
        return next((part for part in self.parts if part[0] <= row < part[0] + part[1].rows), None)


class Upstream:
    """An output of another run, as ``epochs:STATE#OUTPUT`` names it."""

    def __init__(self, place: str) -> None:
        found = epochs_of(place)
        assert found is not None
        self.name, self.ahead = place, found.ahead
        self._store = Store(found.folder)
        self.root = self._store.root
        run = self._run()
        outputs = self._store.hint(OUTPUTS).get("outputs")
        if outputs is None:
            raise StateError(
                f"{option('in', place)}: the run in {found.folder} does not say how its rows are kept (it was begun by "
                "an earlier version, or has not started yet): give its own command once more, then this one"
            )
        self.run, self.output = str(run["run"]), _choose(place, found.output, outputs, str(run.get("pipeline")))
        self.identity = found._replace(output=self.output).identity
        about = outputs[self.output]
        self.form: str = about["form"]
        self.schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["schema"])))
        self.owner = seal_owner(self.run, self.output)

    def _run(self) -> dict[str, Any]:
        place = option("in", self.name)
        run = self._store.read("run.json") if self._store.root.is_dir() else None
        if run is None:
            raise UsageError(
                f"{place}: {self.root} holds no run with epochs: give the state folder of the run whose rows are to be "
                "read, and start that run first"
            )
        if run.get("format") not in READ:
            raise StateError(refused(place, run.get("format")))
        return run

    # ------------------------------------------------------------ for who binds it

    def reader(self) -> ArrowReader:
        """A reader without rows, which knows the columns."""
        data = bytes(self.schema.serialize()) + _END
        return ArrowReader(self.name, pa.BufferReader(data), len(data))

    def head(self) -> bytes:
        """What stands before the rows where they are kept as text."""
        buffer = io.BytesIO()
        writers._SINKS[self.form](buffer, self.schema)
        return buffer.getvalue()

    @property
    def is_text(self) -> bool:
        """Whether its parts are lines of text."""
        return self.form in ("csv", "tsv", "jsonl")

    # ------------------------------------------------------------ for who reads it

    def look(self) -> View:
        """What is there now."""
        staged = parts_in(self.root / "staged" / self.output) if self.ahead else []
        committed = parts_in(self.root / "committed" / self.output)
        shown = frozenset(path.name for _, path in committed)
        names = shown | {path.name for _, path in staged}
        parts, until, row = _in_a_row(committed, 0, 0)
        ahead, _, _ = _in_a_row(staged, until, row)
        return View([*parts, *ahead], row, until, names, shown)

    def remade(self) -> list[str]:
        """Committed parts that were set aside because they were damaged: their rows were made again."""
        folder = self.root / "committed" / self.output
        return sorted(path.name for path in folder.glob("*.damaged")) if folder.is_dir() else []

    def finished(self) -> bool:
        """Whether the run has come to the end of its inputs."""
        return bool(self._store.hint("progress.json").get("finished"))

    def lacks(self, view: View) -> bool:
        """Whether committed parts of a run that has ended are gone: its record says how far it came."""
        said = self._store.hint("progress.json")
        return bool(said.get("finished")) and view.until < int(said.get("until", 0))

    def running(self) -> bool:
        """Whether a run is alive there; to find out takes some milliseconds."""
        return running_in(self.root) is not None


def _choose(place: str, wanted: str, outputs: dict[str, Any], pipeline: str) -> str:
    """The output that is meant, which must be one that keeps its rows."""
    kept = [name for name, about in outputs.items() if "form" in about]
    if not wanted and len(kept) == 1:
        return kept[0]
    if not wanted and len(kept) > 1:
        raise UsageError(
            f"{option('in', place)}: which output of {pipeline}? It has {', '.join(kept)}: give {place}#{kept[0]}"
        )
    if wanted and wanted not in outputs:
        raise UsageError(
            f"{option('in', place)}: the run of {pipeline} there has no output {wanted!r}: it has "
            f"{', '.join(outputs)}{nearest(wanted, list(outputs))}"
        )
    if wanted in kept:
        return wanted
    name = wanted or next(iter(outputs))
    raise UsageError(
        f"{option('in', place)}: the rows of {name!r} go to {outputs[name]['table']}, and are not kept when they are "
        "committed: let that run write them to a file as well (a second --out, such as rows.arrow: the two have an "
        "epoch all, or none), and read that"
    )


def _in_a_row(found: list[tuple[PartName, Path]], until: int, row: int) -> tuple[list[Any], int, int]:
    """The parts that follow one another from a push on; of several that begin there the one that goes farthest.  Also
    the push and the row that come after them."""
    first: dict[int, tuple[PartName, Path]] = {}
    for name, path in found:
        if name.until > name.first and (name.first not in first or name.until > first[name.first][0].until):
            first[name.first] = (name, path)
    out = []
    while until in first:
        name, path = first[until]
        out.append((row, name, path))
        until, row = name.until, row + name.rows
    return out, until, row


# The rows of an upstream's parts, from any row on; and the checksum by which rows are known again.
#
# A part is read only if its seal is right: it is whole, of that run, and what its name says.

_BLOCK = 1 << 14  # rows that a checksum takes at once


class Digest:
    """A checksum of rows, whatever batches they come in.

    >>> whole, parted = Digest(), Digest()
    >>> batch = pa.record_batch({"x": pa.array([1, None, 3])})
    >>> whole.add(batch)
    >>> parted.add(batch.slice(0, 1)), parted.add(batch.slice(1))
    (None, None)
    >>> whole.text() == parted.text(), whole.text() == Digest().text()
    (True, False)
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._waiting: list[Any] = []
        self._count = 0

    def add(self, batch: Any) -> None:
        """More rows."""
        while batch.num_rows:
            piece = batch.slice(0, _BLOCK - self._count)
            self._waiting.append(piece)
            self._count += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if self._count == _BLOCK:
                self._flush()

    def _flush(self) -> None:
        if self._count:
            columns = [
                part
                for i in range(self._waiting[0].num_columns)
                for part in _parts(pa.concat_arrays([_plain(batch.column(i)) for batch in self._waiting]))
            ]
            whole = [column for column in columns if len(column) == self._count]
            self._hash.update(pa.RecordBatch.from_arrays(whole, [str(i) for i in range(len(whole))]).serialize())
            for column in columns:
                if len(column) != self._count:  # what stands in lists
                    self._hash.update(pa.RecordBatch.from_arrays([column], [""]).serialize())
        self._waiting, self._count = [], 0

    def text(self) -> str:
        """Of all rows; nothing can be added then."""
        self._flush()
        return self._hash.hexdigest()

    def so_far(self) -> str:
        """Of the rows so far; more may come."""
        other = Digest()
        other._hash, other._waiting, other._count = self._hash.copy(), list(self._waiting), self._count
        return other.text()


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _parts(array: Any) -> list[Any]:
    """A column as columns that are equal in all their bytes where its values are equal.

    Below a record or a list that is null there may lie anything: so of these is taken what is there, and what their
    fields or elements are.  Taken anew, the same values have the same bytes: no offset, nothing behind the last bit.
    """
    if pa.types.is_struct(array.type):
        return [array.is_valid(), *(part for field in array.flatten() for part in _parts(field))]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), -1)
        return [lengths, *_parts(array.flatten())]
    return [array.take(pa.array(np.arange(len(array))))]


class PartRows:
    """The rows of one part from some row on; ``FileNotFoundError`` if it is not there any more."""

    def __init__(
        self, upstream: Upstream, part: tuple[int, PartName, Path], row: int, wanted: Mapping[str, Type],
        *, nulls: Collection[str] = (), rows: int = 1 << 16,
    ) -> None:  # fmt: skip
        first, self.name, path = part
        self.left = first + self.name.rows - row  # rows that were not taken yet
        self._file = open(path, "rb", buffering=0, opener=no_links)  # noqa: SIM115 - closed with the part
        if not self.name.sealed(upstream.owner, checksum(path, self.name.size)):
            self._file.close()
            raise DataError(
                f"{path}: is damaged, or of another run than {upstream.name} was: its seal is wrong. Bring it back "
                "from a copy"
            )
        self._batches = self._read(upstream, wanted, nulls, rows)
        self._rest: Any = None
        skip = row - first
        while skip:
            skip -= self._next(skip).num_rows

    def _read(
        self, upstream: Upstream, wanted: Mapping[str, Type], nulls: Collection[str], rows: int
    ) -> Iterator[Any]:  # fmt: skip
        if not upstream.is_text:
            reader = ArrowReader(upstream.name, pa.PythonFile(self._file, "r"), self.name.size)
            yield from (batch for _, batch in reader.batches(wanted))
            return
        stream = _Headed(upstream.head(), self._file)
        pieces = blocks(stream, upstream.name, quotes=upstream.form != "jsonl")
        text: Any
        if upstream.form == "jsonl":
            text = JsonLinesReader(upstream.name, pieces, self.name.size, None)
        else:
            text = CsvReader(upstream.name, pieces, self.name.size, None, "\t" if upstream.form == "tsv" else ",")
        for chunk in text.chunks(wanted, rows=rows, nulls=nulls):
            yield chunk.batch

    def take(self, count: int) -> list[Any]:
        """So many rows, of those that are left."""
        out, need = [], min(count, self.left)
        self.left -= need
        while need:
            out.append(self._next(need))
            need -= out[-1].num_rows
        return out

    def _next(self, most: int) -> Any:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches)
        piece = self._rest.slice(0, most)
        self._rest = self._rest.slice(piece.num_rows)
        return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Headed:
    """A file with something before it."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
            return found
        return bytes(self._file.read(size))


def digest_of(upstream: Upstream, view: View, begin: int, end: int, wanted: Mapping[str, Type], **said: Any) -> str:
    """The checksum of some rows as they are there now."""
    digest = Digest()
    while begin < end:
        part = view.at(begin)
        if part is None:
            raise FileNotFoundError(upstream.name)
        rows = PartRows(upstream, part, begin, wanted, **said)
        try:
            for batch in rows.take(end - begin):
                digest.add(batch)
                begin += batch.num_rows
        finally:
            rows.close()
    return digest.text()


# The rows of an upstream as an input: what was read ahead of its commit, what of it is sure, what was given up.
#
# Rows that are committed when they are read are sure: an upstream does not take them back.  Of the others are kept the
# names of the parts that they came from (`Ahead`), and a checksum for each epoch of this run (`Segment`):
#
# * a part that is found among the committed ones under the same name has the rows that were read.  If it is not to
# be
#   found (parts are merged, and made again when the upstream goes back) and as many rows are committed, these are
# read
#   once more.  With the same checksum the epoch is *sure*, and may be committed here; with another, the upstream has
#   given up what was read, and this run goes back (`Undone`);
# * before another part is read, all parts whose rows are not sure must still be there.  If not, the upstream has
# gone
#   back, and may make other rows: nothing is read on top of rows of another history; what was read is compared
# first,
#   when it is committed again.
#
# All of this is in the snapshots of the source, so a run that was killed asks the same again.

_AHEAD = 256  # epochs of this run whose rows are not sure
# Rows, the last of an epoch, by which committed rows are known again after a start.  A checksum of all that was ever
# read would have to read all of it again at each start: docs/how-to-chain.md says what is not noticed instead.
_KNOWN_BY = 1024


class Segment(NamedTuple):
    """Rows that an epoch of this run has read before they were committed, and their checksum."""

    epoch: int
    begin: int
    end: int
    digest: str


class Ahead(NamedTuple):
    """A part that was not committed when rows of it were read: from which row on, and up to which it goes."""

    name: str
    begin: int
    end: int


class Undone(Exception):  # noqa: N818 - no error: what going back is for
    """The upstream has given up what was read; ``epoch`` is the last of this run that does not depend on it."""

    def __init__(self, epoch: int, why: str) -> None:
        super().__init__(why)
        self.epoch = epoch


class ChainLane(InputLane):
    """An output of another run; ``at`` is what a snapshot had of it."""

    def __init__(self, upstream: Upstream, reading: Reading, at: Mapping[str, Any] | None = None) -> None:
        super().__init__(upstream.name, reading, at)
        self.upstream = upstream
        self._wanted = reading.columns()
        self._nulls = self._wanted if reading.wide else reading.key
        self.ended = False
        self.segments = [Segment(*one) for one in at["segments"]] if at else []
        self._ahead = [Ahead(*one) for one in at["ahead"]] if at else []
        self._checked: Segment | None = Segment(*at["checked"]) if at and at["checked"] else None
        self._sure = int(at["sure"]) if at else 0  # rows
        self._remade = list(at["mended"]) if at else upstream.remade()
        self._part: PartRows | None = None
        self._open: Digest | None = None  # of the rows of the open epoch, from the first that was read ahead
        self._begin = 0  # its number
        self._recent: Any = None  # the last rows of the open epoch
        if at:
            self._refuse_other(str(at["run"]))

    def _refuse_other(self, run: str) -> None:
        """Refuse an upstream of which rows have changed that this run has committed something on."""
        again = "Bring its state folder back from a copy, or start anew in another state folder"
        if run != self.upstream.run:
            raise StateError(
                f"{option('in', self.path)}: is another run than the one that was read before (it was started anew): "
                f"what is committed here depends on the first. {again}"
            )
        view = self.upstream.look()
        lost = view.committed < self._sure
        if not lost and self.upstream.remade() == self._remade:
            checked = self._checked
            if checked is None or self._digest(view, checked) in (checked.digest, None):
                return
        have = f"it has {view.committed:,} of the {self._sure:,} rows" if lost else "they are not what they were"
        raise StateError(
            f"{option('in', self.path)}: rows that this run has committed on were taken back ({have}): the upstream "
            f"has made committed rows again with {option('from_start', True)}, or its state folder was changed. {again}"
        )

    # ------------------------------------------------------------ reading

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return self.ended or self._at_limit()

    def available(self, most: int) -> int:
        """For how many pushes there is what they take, up to so many; without waiting."""
        most = self.reading.at_most(most, self.row)
        if self._part is not None and not self._part.left:
            self._drop_part()
        if self._part is None and not self._find():
            return 0
        assert self._part is not None
        return min(most, self._part.left)

    def _find(self) -> bool:
        """Open the part with the next row, if it is there, and if all that was read ahead still is."""
        if len(self.segments) >= _AHEAD:
            return False
        view = self.upstream.look()
        part = view.at(self.row)
        if part is None:
            return False
        first, name, _ = part
        try:
            found = PartRows(self.upstream, part, self.row, self._wanted, nulls=self._nulls, rows=self.reading.rows)
        except FileNotFoundError:  # it was committed, merged or given up meanwhile
            return False
        if not self.segments and self._open is None:
            self._ahead = []
        if not self._still_there():  # looked at after the new part was there
            found.close()
            return False
        self._part = found
        end = first + name.rows
        if end > view.committed:
            self._ahead.append(Ahead(str(name), self.row, end))
            faults.point("chain:ahead")
        return True

    def _drop_part(self) -> None:
        if self._part is not None:
            self._part.close()
        self._part = None

    def _still_there(self) -> bool:
        """Whether all parts are there of which rows were read that are not sure."""
        self._confirm(view := self.upstream.look())
        return all(one.name in view.names for one in self._ahead)

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows that are there: how many, their batches, and the places of those."""
        have = self.available(count)
        if not have:
            return 0, [], []
        assert self._part is not None
        pieces = self._part.take(have)
        if self._open is None and self._ahead and self._ahead[-1].end > self.row:
            self._open, self._begin = Digest(), self.row
        places, at = [], self.row
        for piece in pieces:
            if self._open is not None:
                self._open.add(piece)
            places.append((piece.num_rows, row_place(self.path, at)))
            at += piece.num_rows
            self._recent = piece
        self.row = at
        return have, pieces, places

    def look(self) -> None:
        """Only runs by event time have to know whether there is one row more."""

    def share(self) -> float | None:
        """It is not known how much will come."""
        return 1.0 if self.ended else None

    def held_back(self) -> str | None:
        """Nothing is."""
        return None

    # ------------------------------------------------------------ what is sure

    def close_epoch(self, epoch: int) -> None:
        """An epoch of this run ends here."""
        if self._open is not None:
            self.segments.append(Segment(epoch, self._begin, self.row, self._open.text()))
            self._open = None
        elif self._recent is not None:  # all of it was committed when it was read
            digest, count = Digest(), min(self._recent.num_rows, _KNOWN_BY)
            digest.add(self._recent.slice(self._recent.num_rows - count))
            self._checked = Segment(epoch, self.row - count, self.row, digest.text())
        self._recent = None

    def sure(self, closed: int) -> int:
        """The last epoch of this run, of those that are closed, all of whose rows are sure."""
        return self.segments[0].epoch - 1 if self.segments else closed

    def check(self, now: int) -> None:
        """Look whether what was read ahead was committed, and as it was read; ``now`` is the epoch that is open."""
        view = self.upstream.look()
        self._confirm(view)
        while self.segments and (self._named(self.segments[0].end) or view.committed >= self.segments[0].end):
            segment = self.segments[0]
            if not self._named(segment.end) and not self._same(view, segment, segment.digest):
                return  # parts are being merged: the next look will find them
            self._checked, self._sure = segment, segment.end
            self.segments.pop(0)
            self._forget(segment.end)
        if self._open is not None and not self.segments:
            if self._named(self.row):
                self._open = None
            elif view.committed >= self.row and not self._still_there():
                self._check_open(view, now)
        if not self.segments and self._open is None:
            self._sure = max(self._sure, min(self.row, view.committed))
        if self.upstream.finished():
            self._end(now)

    def _check_open(self, view: View, now: int) -> None:
        """The upstream has gone back, and nothing more is read before it is known whether the rows of the open epoch
        are the same: no border may come else."""
        assert self._open is not None
        if self._same(view, Segment(now, self._begin, self.row, ""), self._open.so_far()):
            self._drop_part()
            self._open, self._ahead = None, []

    def _confirm(self, view: View) -> None:
        """Parts that are committed under their names have the rows that were read."""
        while self._ahead and self._ahead[0].name in view.shown:
            self._ahead.pop(0)

    def _named(self, end: int) -> bool:
        """Whether all parts with rows before this one were found committed."""
        return not self._ahead or self._ahead[0].begin >= end

    def _same(self, view: View, segment: Segment, digest: str) -> bool:
        """Whether rows that are committed now are those that were read; False if they cannot be read at this moment."""
        found = self._digest(view, segment)
        if found is not None and found != digest:
            raise Undone(segment.epoch - 1, self._given_up(segment.begin, segment.end))
        return found is not None

    def _forget(self, row: int) -> None:
        """All rows before this one are sure."""
        left = [one for one in self._ahead if one.end > row]
        self._ahead = [one._replace(begin=max(one.begin, row)) for one in left]

    def _end(self, now: int) -> None:
        """The upstream has come to its end: as many rows as it has committed, no more."""
        view = self.upstream.look()  # after it was seen to be at the end
        lacks = view.committed <= self.row and self.upstream.lacks(view) and not self.upstream.running()
        if lacks and self.upstream.lacks(self.upstream.look()):  # and parts were not just being merged
            raise StateError(
                f"{option('in', self.path)}: the run there has ended, and not all of its committed rows are in "
                f"{self.upstream.root / 'committed' / self.upstream.output}: bring the files back from a copy, or make "
                "them again: give that run's command again with --from-start"
            )
        if view.committed == self.row:
            self.ended = True
        elif view.committed < self.row and not self.upstream.running() and self.upstream.finished():
            view = self.upstream.look()  # it may have gone on meanwhile, and have ended again
            if view.committed < self.row:
                bad = next((s for s in self.segments if s.end > view.committed), None)
                begin = bad.begin if bad is not None else self._begin
                raise Undone((now if bad is None else bad.epoch) - 1, self._given_up(begin, self.row))

    def _given_up(self, begin: int, end: int) -> str:
        return f"{self.path}: rows {begin + 1:,} to {end:,} were given up by the upstream after they were read here"

    def _digest(self, view: View, segment: Segment) -> str | None:
        """The checksum of some rows as they are committed; None if they cannot be read at this moment."""
        try:
            return digest_of(self.upstream, view, segment.begin, segment.end, self._wanted, nulls=self._nulls)
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------ for a snapshot

    def offset(self) -> dict[str, Any]:
        """Where it is, and what is not sure of it."""
        return {
            "row": self.row,
            "ended": self.ended,
            "run": self.upstream.run,
            "sure": self._sure,
            "segments": [list(one) for one in self.segments],
            "checked": list(self._checked) if self._checked is not None else None,
            "ahead": [list(one) for one in self._ahead],
            "mended": self._remade,
        }

    def close(self) -> None:
        """Close the files."""
        self._drop_part()


# What is asked of a run that reads others: which runs these are, and what does not go together with that.
#
# Runs that read one another in a circle are refused, and so is one that reads itself.

Upstreams: TypeAlias = "dict[Any, Upstream]"


def by_chain(
    graph: Graph, inputs: Mapping[str | None, Any], settings: Request, state: str | os.PathLike[str]
) -> Upstreams:
    """The runs that are read, by the name of the input; refused where that cannot be."""
    found: Upstreams = {}
    for name, given in inputs.items():
        several = (given,) if isinstance(given, str) else given
        chained = [place for place in several if epochs_of(place) is not None]
        if chained and not isinstance(given, str):
            raise UsageError(
                f"{option('in', chained[0])}: the rows of a run are an input of their own: no file and no other run "
                "comes before or after them"
            )
        if chained:
            _refuse_with(graph, settings, chained[0])
            found[name] = Upstream(chained[0])
            _refuse_circle(found[name], os.path.realpath(state))
    return found


def _refuse_with(graph: Graph, settings: Request, place: str) -> None:
    if graph.timed:
        raise UsageError(
            f"{option('in', place)}: {graph.name} {why_cut(graph)}, and such a pipeline reads files: an epoch that is "
            "made again must find the border and the clock where they were, and rows of another run may have been "
            "given up meanwhile. Let that run write a file, and read it when it has ended"
        )
    for name, given, why in (
        ("order", settings.order, "rows of another run are read as they come, and cannot be sorted before"),
        ("keep_columns", settings.keep, "put the fields that you want into the events of the first pipeline"),
        ("bad", settings.aside, "a row that was set aside may be given up by the other run: leave it out there"),
        ("record", settings.record, "an audit takes it that an epoch that is made again reads the same rows"),
    ):
        if given:
            raise UsageError(f"{option(name)} does not go with {option('in', place)}: {why}")


def _refuse_circle(upstream: Upstream, state: str) -> None:
    """Follow what an upstream reads, and what that reads, back to the run in a state folder, if it comes there."""
    here, first = option("in", upstream.name), os.path.realpath(upstream.root)
    if first == state:
        raise UsageError(
            f"{here}: is the state folder of this very run, and a run cannot read its own rows: what goes round is a "
            "loop of the pipeline, iterate(…)"
        )
    seen, waiting = {first}, [first]
    while waiting:
        folder = waiting.pop()
        for above in _read_by(folder):
            if above == state:
                raise UsageError(
                    f"{here}: a circle: the run in {folder} reads this one ({state}), and runs cannot read one another "
                    "in a circle: put the pipelines into one, with iterate(…) for what goes round"
                )
            if above not in seen:
                seen.add(above)
                waiting.append(above)


def _read_by(folder: str) -> list[str]:
    """The state folders of the runs that the run in a folder reads, as far as it says."""
    run = None
    with contextlib.suppress(StateError):  # of one farther up: the run that reads it finds that
        run = Store(folder).read("run.json") if Path(folder).is_dir() else None
    if run is None or run.get("format") not in READ:
        return []
    found = [epochs_of(place) for place in run.get("in", {}).values() if isinstance(place, str)]
    return [os.path.realpath(one.folder) for one in found if one is not None]


def fits_types(chained: Upstreams, lanes: Mapping[str, tuple[str, list[Binding]]], wide: bool) -> None:
    """Refuse an output whose columns are of other types than the sources that read it."""
    for name, upstream in chained.items():
        bound = lanes[name][1]
        read = [*wanted_columns(bound, {}), *(column for binding in bound for column in binding.key)]
        heads = {column.split(".")[0] for column in read}
        empty = pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in upstream.schema if field.name in heads],
            schema=pa.schema([field for field in upstream.schema if field.name in heads]),
        )
        for binding in bound:
            try:
                source_columns(binding, empty, row_place(upstream.name, 0), silent=wide)
            except DataError as error:
                raise DataError(
                    f"{error}: the output {upstream.output!r} of the run there is not what the source "
                    f"{binding.source!r} takes"
                ) from None


# A source that reads other runs: it waits for rows, and tells the coordinator which epochs may be committed.
#
# It is one task for all inputs, so that those that have rows wait for those that have not: row *i* of each is push *i*.
# An epoch may be committed (``sure``) when all that it has read is committed upstream; if something of it was given up
# there, the coordinator hears how far to go back (``undone``).

_SOON, _LATE = 0.004, 0.05  # seconds between two looks at an upstream: after something happened, and after long silence
_SILENT = 5.0  # seconds after which it is looked whether a run is alive there


class ChainSource(SourceTask):
    """Reads the rows of other runs, and files beside them."""

    _told = -1  # the epoch that the coordinator was last told to be sure
    _looked = 0.0
    _pause = _SOON
    _since: float | None = None  # nothing has come since
    _said = False

    def _chained(self) -> list[ChainLane]:
        return [lane for lane in self.lanes if isinstance(lane, ChainLane)]

    def run(self) -> None:
        """As every source; and then until all that was read is sure."""
        super().run()
        while self._told < self.epoch - 1:
            self._rest()
            self._tend()

    def _room(self) -> int:
        """How many pushes the next batch may have: as many as all upstreams have rows for; 0 where the
        epoch, or the input, ends first."""
        most = super()._room()
        while not self._ended():
            self._tend()
            waited_for = [lane for lane in self._chained() if not lane.exhausted]
            if not waited_for:
                return most
            have = min(lane.available(most) for lane in waited_for)
            if have:
                self._since, self._said = None, False
                return have
            if self._borders.due(self.at) or self._ended():
                return 0
            self._rest()
            self._report_silence(waited_for)
        return 0

    def _border(self, end: bool = False) -> None:
        for lane in self._chained():
            lane.close_epoch(self.epoch)
        super()._border(end)
        self._pause = _SOON

    def _command(self) -> dict[str, Any]:
        while True:
            try:
                with self.context.waiting():
                    return self.context._commands.get(timeout=self._pause)
            except queue.Empty:
                self._pause = min(_LATE, self._pause * 1.5)
                self._tend()

    def _rest(self) -> None:
        with self.context.waiting():
            time.sleep(self._pause)
        self._pause = min(_LATE, self._pause * 1.5)

    def _tend(self) -> None:
        """Look at the upstreams, not too often; tell what has become sure, or what was given up."""
        now = time.monotonic()
        if now - self._looked < _SOON and not faults.armed():
            return
        self._looked = now
        try:
            for lane in self._chained():
                lane.check(self.epoch)
        except Undone as undone:
            self.context.busy_since = None
            self.context.link.send(undone=undone.epoch, why=str(undone))
            wait_for_the_end()
        sure = min(lane.sure(self.epoch - 1) for lane in self._chained())
        if sure > self._told:
            faults.point("chain:sure")
            self._told, self._pause = sure, _SOON
            self.context.link.send(sure=sure)

    def _report_silence(self, waited_for: list[ChainLane]) -> None:
        """Report once that nothing comes because no run is alive there."""
        now = time.monotonic()
        self._since = self._since or now
        if self._said or now - self._since < _SILENT:
            return
        self._said = True
        for lane in waited_for:
            if not lane.upstream.running():
                self.context.link.send(
                    say=f"{lane.path}: waiting for rows, and no run is alive there: start it again with its own command"
                )
