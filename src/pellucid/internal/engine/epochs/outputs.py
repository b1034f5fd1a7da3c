"""Parts: files with the rows of some pushes, which say themselves what they are.

A part's name has the pushes it goes from and up to, its last epoch, its rows and bytes, and a seal: a checksum of all
this, of the run, and of its content.  So a part that is cut, altered, of another run, or under another's name is known,
and as each part begins with the push with which the one before it ended, one that is missing or there twice is known,
too (`Chain`).

Parts of committed epochs are merged as they come (`Chain.merge`): eight neighbours of one magnitude become one, up to
some 32 megabytes, so that an endless run has few of them, and a row is written again once for each magnitude (1 kB, 8
kB, …).  The merged part is on the disk, under its name, before those that it has the rows of are removed; what a kill
leaves between the two lies within it, and is removed later.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from pellucid.errors import DataError, StateError, option
from pellucid.internal.base import faults
from pellucid.internal.base.files import Draft, no_links, output_draft, sync
from pellucid.internal.data import outputs as writers
from pellucid.internal.data.files import format_of
from pellucid.internal.data.outputs import Packer
from pellucid.internal.engine.epochs.store import Store
from pellucid.sinks.interface import Sink, Staged, Written
from pellucid.sinks.postgres_sink import PostgresSink

_SPILL = 1 << 20  # bytes of an epoch that are kept in memory until its border
_NAME = re.compile(r"(\d{16})-(\d{16})-(\d{10})-(\d+)-(\d+)-([0-9a-f]{8})\.part")
_MANY = 8  # neighbours that are merged
_MAGNITUDES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25)  # bytes: what is larger stays as it is
_PIECE = 1 << 20


class PartName(NamedTuple):
    """What a part's file name says: from which push on, up to which, the last epoch in it, rows, bytes (without a
    tail), and the seal."""

    first: int
    until: int
    epoch: int
    rows: int
    size: int
    seal: int

    def __str__(self) -> str:
        return f"{self.first:016d}-{self.until:016d}-{self.epoch:010d}-{self.rows}-{self.size}-{self.seal:08x}.part"

    @staticmethod
    def of(owner: str, first: int, until: int, epoch: int, rows: int, size: int, crc: int) -> PartName:
        """The name of a part of a run's output, whose content has this checksum.

        >>> name = PartName.of("run out", 0, 100, 1, 7, 21, 0xABCD)
        >>> PartName.read(str(name)) == name, name.sealed("run out", 0xABCD), name.sealed("other out", 0xABCD)
        (True, True, False)
        """
        return PartName(
            first, until, epoch, rows, size, zlib.crc32(f"{owner} {first} {until} {epoch} {rows} {size}".encode(), crc)
        )

    def sealed(self, owner: str, crc: int) -> bool:
        """Whether this is the name of a part with such content."""
        return self == PartName.of(owner, *self[:5], crc)

    @staticmethod
    def read(name: str) -> PartName | None:
        """From a file's name; None if it is that of no part.

        >>> PartName.read("0000000000000001-0000000001-1.part") is None
        True
        """
        match = _NAME.fullmatch(name)
        return (
            PartName(int(match[1]), int(match[2]), int(match[3]), int(match[4]), int(match[5]), int(match[6], 16))
            if match
            else None
        )


def parts_in(folder: Path) -> list[tuple[PartName, Path]]:
    """The parts in a folder, in order."""
    found = [(PartName.read(path.name), path) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((name, path) for name, path in found if name is not None)


def checksum(path: Path, size: int) -> int:
    """Of so many bytes from the start of a file."""
    crc = 0
    with open(path, "rb", opener=no_links) as file:
        while size > 0 and (data := file.read(min(size, _PIECE))):
            crc, size = zlib.crc32(data, crc), size - len(data)
    return crc


class Part:
    """The rows of an epoch on their way to the disk; what could not be written is written again, nothing twice.

    Few rows stay in memory until their border, so that the rows of several short epochs can become one file (`absorb`),
    with one sync for all of them.  ``size`` and ``crc`` are those of the file without its ``tail``: of any prefix that
    ends at a border.
    """

    def __init__(self, path: str | Path, encode: Callable[[Any], Any], head: bytes, tail: bytes) -> None:
        self.path, self.rows, self.size, self.crc, self.tail = path, 0, 0, 0, tail
        self.held = 0  # bytes in memory
        self._encode, self._head = encode, head
        self._draft: Draft | None = None
        self._waiting: list[Any] = []

    def write(self, batch: Any) -> None:
        """Add rows; an OSError leaves it as it was, so that the same call can be made again."""
        data = self._encode(batch)
        if self._draft is None and self.held + len(data) <= _SPILL:
            self._waiting.append(data)
            self.held += len(data)
        else:
            self.absorb(self)
            self._append(data)
        self.rows += batch.num_rows

    @property
    def spilled(self) -> bool:
        """Whether some of it is in a file of its own."""
        return self._draft is not None

    @property
    def closed(self) -> bool:
        """Whether all of it is on the disk, and at most its name is not: that was refused."""
        return self._draft is not None and bool(self._draft.file.closed)

    def content(self) -> tuple[int, int]:
        """The bytes and the checksum of the rows so far, wherever they are."""
        crc = self.crc
        for data in self._waiting:
            crc = zlib.crc32(data, crc)
        return self.size + self.held, crc

    def absorb(self, other: Part) -> None:
        """Write what another part (or this one itself) has in memory; after an OSError the same call goes on where it
        was."""
        if self._draft is None:
            self._draft = Draft(self.path, buffering=0, over=True)
        if not self.size:
            self._append(self._head)
        while other._waiting:
            self._append(other._waiting[0])
            other.held -= len(other._waiting.pop(0))

    def _append(self, data: Any) -> None:
        if not len(data):
            return
        assert self._draft is not None
        file, view = self._draft.file, memoryview(data)
        try:
            while len(view):
                view = view[file.write(view) :]
        except OSError:
            with contextlib.suppress(OSError):
                file.seek(self.size)
                file.truncate()
            raise
        self.size += len(data)
        self.crc = zlib.crc32(data, self.crc)

    def finish(self, name: Path) -> None:
        """Make it durable; the folder, which has its name, is for the caller to sync."""
        if self.path == name:
            return
        self.absorb(self)
        assert self._draft is not None
        size, crc = self.size, self.crc
        try:
            if not self.closed:
                self._append(self.tail)
            self._draft.finish()
        finally:  # the tail belongs to no epoch; if it must be written again, then at the same place
            self.size, self.crc = size, crc
            if not self._draft.file.closed:
                self._draft.file.seek(size)
        self._draft.place(name, folder=False)
        self.path = name


# ---------------------------------------------------------------- committed parts


@dataclass
class Survey:
    """What a folder of committed parts has: those in a row from the first push on, and what is wrong with the rest."""

    parts: list[tuple[PartName, Path]] = field(default_factory=list)
    inside: list[Path] = field(default_factory=list)  # rows that a merged part has as well
    later: list[Path] = field(default_factory=list)  # behind a gap, or damaged
    why: str = ""  # what is missing or damaged: the row of parts ends there

    @property
    def until(self) -> int:
        """Up to which push everything is there."""
        return self.parts[-1][0].until if self.parts else 0


def survey(folder: Path, owner: str, tail: int, *, thorough: bool = False) -> Survey:
    """Look at committed parts: their sizes, where they begin and end, and (all of them, if ``thorough``) their content.

    What does not belong there is refused.
    """
    found, out = parts_in(folder), Survey()
    known = {path.name for _, path in found}
    for path in sorted(folder.glob("*.part")):
        if path.name not in known:
            raise StateError(f"{path}: is no part of this run: take it away")
    by_first: dict[int, list[tuple[PartName, Path]]] = {}
    for name, path in reversed(found):  # of those that begin together the one that goes farthest first
        by_first.setdefault(name.first, []).append((name, path))
    while True:
        here = by_first.get(out.until, [])
        for name, path in here:
            wrong = _wrong(name, path, owner, tail, content=thorough or len(here) > 1)
            if not wrong and name.until > name.first:
                out.parts.append((name, path))
                break
            out.why = out.why or wrong
        else:
            break
    used = {path for _, path in out.parts}
    for name, path in found:
        if path in used:
            continue
        if name.until > out.until:
            out.later.append(path)
            at = (
                f"the rows of pushes {out.until:,} to {name.first:,} are missing"
                if name.first > out.until
                else f"a part that begins with push {name.first:,} does not fit"
            )
            out.why = out.why or f"{path}: {at}: the part before it ends with push {out.until:,}"
        elif wrong := _wrong(name, path, owner, tail, content=True):
            raise StateError(
                f"{path}: is no part of this run, or is damaged ({wrong.partition(': ')[2]}), and is not needed: take "
                "it away"
            )
        else:
            out.inside.append(path)
    return out


def _wrong(name: PartName, path: Path, owner: str, tail: int, *, content: bool) -> str:
    """What is wrong with a part; empty if nothing is."""
    size = path.stat().st_size
    if size != name.size + tail:
        return f"{path}: is damaged: expected {name.size + tail:,} bytes, found {size:,}"
    if content and not name.sealed(owner, checksum(path, name.size)):
        return f"{path}: is damaged: its checksum is wrong"
    return ""


class Chain:
    """The committed parts of an output, in order; few of them, as neighbours are merged."""

    def __init__(self, folder: Path, owner: str, head: bytes, tail: bytes) -> None:
        self.folder, self.parts = folder, list[tuple[PartName, Path]]()
        self._owner, self._head, self._tail = owner, head, tail

    def survey(self, *, thorough: bool = False) -> Survey:
        """Look at the folder, and take what is whole."""
        found = survey(self.folder, self._owner, len(self._tail), thorough=thorough)
        self.parts = found.parts
        return found

    def checked(self) -> Iterator[tuple[PartName, Path]]:
        """Each part, after its content was found right."""
        for name, path in self.parts:
            wrong = _wrong(name, path, self._owner, len(self._tail), content=True)
            if wrong:
                again = option("from_start", True)
                raise StateError(f"{wrong}. Bring it back from a copy, or read all input again with {again}")
            yield name, path

    def run_of(self) -> tuple[int, int] | None:
        """Neighbours to merge: from where to where in the list."""
        least = 0
        for most in _MAGNITUDES:
            begin, count = 0, 0
            for at, (name, _) in enumerate(self.parts):
                if name.size >= most:
                    begin, count = at + 1, 0
                elif name.size >= least:  # smaller ones between them go along
                    count += 1
                    if count == _MANY:
                        return begin, at + 1
            least = most
        return None

    def merge(self) -> bool:
        """Merge some neighbours, if there are enough; whether there were.  A part that is damaged is left to who checks
        all."""
        place = self.run_of()
        if place is None:
            return False
        old = self.parts[slice(*place)]
        try:
            with Draft(self.folder / f".merged.{os.getpid()}.tmp", over=True) as draft:
                size, crc = self._write(draft.file, old)
                draft.finish()
                first, last = old[0][0], old[-1][0]
                rows = sum(n.rows for n, _ in old)
                name = PartName.of(self._owner, first.first, last.until, last.epoch, rows, size, crc)
                faults.point("sink:merge")
                draft.place(self.folder / str(name))
        except (OSError, StateError):
            return False
        faults.point("sink:merged")
        self.parts[slice(*place)] = [(name, self.folder / str(name))]
        for _, path in old:
            path.unlink(missing_ok=True)
        return True

    def _write(self, file: Any, old: list[tuple[PartName, Path]]) -> tuple[int, int]:
        """The content of some parts as one file; its bytes and checksum."""
        size, whole = len(self._head), zlib.crc32(self._head)
        file.write(self._head)
        for name, path in old:
            crc, left = 0, name.size
            with open(path, "rb", opener=no_links) as part:
                begin = len(self._head)
                while left > 0 and (data := part.read(min(left, begin if begin else _PIECE))):
                    crc, left = zlib.crc32(data, crc), left - len(data)
                    if begin:
                        begin -= len(data)
                        continue
                    file.write(data)
                    whole, size = zlib.crc32(data, whole), size + len(data)
            if not name.sealed(self._owner, crc):
                raise StateError(f"{path}: is damaged: its checksum is wrong")
        file.write(self._tail)
        return size, whole


# Where committed rows go: a file, or a sink (a table of a database, or one of the user's own).
#
# The rows of an epoch are *staged* first: a file of their own in the state folder, on the disk before the sink's
# snapshot is.  To commit an epoch is then one step that happens or does not: for a file output the staged part is
# renamed into the folder of committed parts; a sink keeps the rows and how far they go at once.  Each part knows from
# where and how far it goes (in pushes), so a target can always say what it has, and nothing is written twice, whatever
# the run went back to.
#
# At the end the committed parts, each of them checked, become the whole file, under its name at once.  Its bytes depend
# on the rows alone, not on where borders or crashes were.

_ROWS = 1 << 17  # of a batch in the whole file, wherever the borders were
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream: four bytes of ones and a length of zero


Parts: TypeAlias = "Sequence[tuple[PartName, Path]]"


class Target(Sink):
    """A sink that takes the staged parts of a run, whose number is the push up to which they go.

    This one passes their rows on to another sink (a table, or one of the user's own), as one batch.
    """

    def __init__(self, sink: Sink | None, schema: Any, *, rebuilds: bool = False) -> None:
        super().__init__()
        self.rebuilds = rebuilds  # whether what is damaged is to be made again
        self.schema, self._sink = schema, sink or self  # a file is its own sink
        self._head = bytes(schema.serialize())

    @property
    def place(self) -> str:
        return self._sink.place

    def part(self, path: str | Path) -> Part:
        """A new part, for rows that come: as Arrow."""
        return arrow_part(path, self._head)

    def last(self, query: str) -> int | None:
        """What the sink itself remembers."""
        return self._sink.last(query)

    def gone(self, query: str) -> str:
        """As the sink sees it."""
        return "" if self._sink is self else self._sink.gone(query)

    def renew(self, query: str) -> bool:
        """As the sink can."""
        return self._sink is not self and self._sink.renew(query)

    def wrong(self) -> str:
        """What is wrong with what comes behind `last`, if anything is."""
        return ""

    def begin(self) -> None:
        """The run goes on with what `last` said: what is of no use is set aside."""

    def stage(self, data: Parts, query: str, batch: int) -> Staged:
        """The parts are on the disk; their rows are staged in the sink."""
        rows = pa.RecordBatchReader.from_batches(self.schema, _rows(path for _, path in data))
        inner = self._sink.stage(rows, query, batch)
        there, first = max(inner.before or 0, 0), data[0][0].first
        if inner.before is not None and there != first:
            self._sink.abort(inner)
            why = (
                "another run with a copy of this state folder writes there. Stop one of the two"
                if there > first
                else "it was deleted, or an older copy was put there, while the run went on. Bring back a copy that "
                f"has them; or {option('from_start', True)} reads all input again"
            )
            raise StateError(
                f"{self.place}: it has the rows up to push {there:,}, and those from push {first:,} on were to come "
                f"next: {why}"
            )
        return Staged(query, batch, inner.rows, (data, inner), inner.skipped)

    def prepare(self, staged: Staged) -> None:
        """As the sink does."""
        self._sink.prepare(staged.held[1])

    def commit(self, staged: Staged) -> Written | None:
        """The parts are not needed any more then."""
        done = self._sink.commit(staged.held[1])
        self.release(staged.held[0])
        return done

    def hold(self, staged: Staged, attempt: str) -> bool:
        """As the sink can."""
        return self._sink is not self and self._sink.hold(staged.held[1], attempt)

    def held(self, query: str) -> list[tuple[int, str]]:
        return [] if self._sink is self else self._sink.held(query)

    def settle(self, query: str, batch: int, attempt: str, *, commit: bool) -> bool:
        return self._sink is not self and self._sink.settle(query, batch, attempt, commit=commit)

    def release(self, parts: Parts) -> None:
        """Remove parts whose rows the sink has."""
        for _, path in parts:
            path.unlink(missing_ok=True)

    def abort(self, staged: Staged) -> None:
        """The parts stay."""
        self._sink.abort(staged.held[1])

    def on_sign_of_life(self, heard: Callable[[], None]) -> None:
        """What to call when a server has said something: who waits for it does not hang."""
        if isinstance(self._sink, PostgresSink):
            self._sink.heard = heard

    def finish(self, rows: int) -> None:
        """All epochs are committed: so many rows."""
        self._sink.close()


class FileTarget(Target):
    """An output file: parts in the state folder, and the whole file at the end.

    To prepare a part there is nothing left to do (it is synced), and to commit it is one rename.  With ``rebuilds`` the
    content of all committed parts is looked at when it begins, not only when the whole file is made.
    """

    kind = "file"

    def __init__(
        self,
        store: Store,
        output: str,
        path: str,
        form: str | None,
        schema: Any,
        *,
        run: str = "",
        rebuilds: bool = False,
    ) -> None:
        super().__init__(None, schema, rebuilds=rebuilds)
        self.path = path
        self.form, self.packed = format_of(path, form, asked="out_format")
        self._folder = store.folder("committed", output)
        self._text = self.form in ("csv", "tsv", "jsonl")
        head, tail = (b"", b"") if self._text else (self._head, _END)
        self._chain = Chain(self._folder, seal_owner(run, output), head, tail)
        self._found = Survey()
        self._merging: threading.Thread | None = None

    @property
    def place(self) -> str:
        return str(self._folder)

    def part(self, path: str | Path) -> Part:
        """Rows of a text format are staged as they will be in the file; others as Arrow."""
        if not self._text:
            return super().part(path)
        buffer = io.BytesIO()
        sink = writers._SINKS[self.form](buffer, self.schema)

        def encode(batch: Any) -> bytes:
            buffer.seek(0)
            buffer.truncate()
            sink.write(batch)
            return buffer.getvalue()

        return Part(path, encode, b"", b"")

    def last(self, query: str) -> int | None:
        """Where the row of committed parts ends."""
        self._found = self._chain.survey(thorough=self.rebuilds)
        return self._found.until

    def wrong(self) -> str:
        return self._found.why

    def begin(self) -> None:
        """Remove what merged parts have as well; set aside what comes behind a gap."""
        for path in self._found.inside:
            path.unlink(missing_ok=True)
        for path in self._found.later:
            os.replace(path, path.with_suffix(".damaged"))
        sync(self._folder)

    def stage(self, data: Parts, query: str, batch: int) -> Staged:
        """They are."""
        return Staged(query, batch, sum(name.rows for name, _ in data), data)

    def prepare(self, staged: Staged) -> None:
        """Nothing is left to do."""

    def abort(self, staged: Staged) -> None:
        """The parts stay staged."""

    def commit(self, staged: Staged) -> None:
        """One rename for each, and one sync for all."""
        for name, path in staged.held:
            place = self._folder / str(name)
            os.replace(path, place)
            self._chain.parts.append((name, place))
        sync(self._folder)
        sync(staged.held[0][1].parent)
        if self._chain.run_of() is not None and (self._merging is None or not self._merging.is_alive()):
            self._merging = threading.Thread(target=self._merge, name="merge", daemon=True)
            self._merging.start()

    def _merge(self) -> None:
        while self._chain.merge():
            pass

    def finish(self, rows: int) -> None:
        """Put the whole file together beside its name, then under it."""
        if self._merging is not None:
            self._merging.join()
        parts = (path for _, path in self._parts(rows))
        if self._text:
            self._join_text(parts)
            return
        with writers.open_writer(self.path, self.schema, self.form) as writer:
            for batch in _batches(parts, self.schema):
                writer.write(batch)

    def _parts(self, rows: int) -> Iterator[tuple[PartName, Path]]:
        """All committed parts, of so many rows."""
        found, again = self._chain.survey(), option("from_start", True)
        if found.why:
            raise StateError(f"{found.why}. Bring it back from a copy, or read all input again with {again}")
        have = sum(name.rows for name, _ in found.parts)
        if have != rows:
            raise StateError(
                f"{self._folder}: {rows:,} rows were committed, but {have:,} are there: bring the parts back from "
                f"a copy, or read all input again with {again}"
            )
        return self._chain.checked()

    def _join_text(self, parts: Iterable[Path]) -> None:
        target = os.path.realpath(self.path)
        head = io.BytesIO()
        writers._SINKS[self.form](head, self.schema)
        try:
            with output_draft(target) as draft:  # a file or a link that was put there is never written to
                out: Any = Packer(draft.file) if self.packed else draft.file
                out.write(head.getvalue())
                for path in parts:
                    with open(path, "rb", opener=no_links) as part:
                        shutil.copyfileobj(part, out, 1 << 20)
                if self.packed:
                    out.close()
                draft.place(target)
        except OSError as error:
            raise DataError(
                f"{self.path}: cannot be written: {error.strerror or error}; its rows are safe in the state folder: "
                "run the same command again"
            ) from None


def arrow_part(path: str | Path, head: bytes) -> Part:
    """A part that is an Arrow stream; its head is the schema."""
    return Part(path, lambda batch: batch.serialize(), head, _END)


def seal_owner(run: str, output: str) -> str:
    """What the seals of an output's parts have in common."""
    return f"{run} {output}"


def _rows(parts: Iterable[Path]) -> Iterator[Any]:
    """The batches of parts that are Arrow streams."""
    for path in parts:
        with open(path, "rb", opener=no_links) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


def _batches(parts: Iterable[Path], schema: Any) -> Iterator[Any]:
    """The rows of all parts, in batches of one size wherever the parts ended."""
    waiting: list[Any] = []
    count = 0
    for batch in _rows(parts):
        while count + batch.num_rows >= _ROWS:
            cut = _ROWS - count
            yield _one([*waiting, batch.slice(0, cut)], schema)
            waiting, count, batch = [], 0, batch.slice(cut)
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
    if waiting:
        yield _one(waiting, schema)


def _one(batches: list[Any], schema: Any) -> Any:
    columns = [pa.concat_arrays([b.column(j) for b in batches]) for j in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
