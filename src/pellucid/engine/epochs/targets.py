"""Where committed rows go: a file, or a table of a database.

The rows of an epoch are *staged* first: a file of their own in the state folder, on the disk before the sink's snapshot
is.  To commit an epoch is then one step that happens or does not: for a file output the staged part is renamed into the
folder of committed parts; for a table one transaction holds the rows and how far they go.  Each part knows from where
and how far it goes (in pushes), so a target can always say what it has, and nothing is written twice, whatever the run
went back to.

At the end the committed parts, each of them checked, become the whole file, under its name at once.  Its bytes depend
on the rows alone, not on where borders or crashes were.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from pellucid.base.files import no_links, output_draft, sync
from pellucid.data import writers
from pellucid.data.files import format_of
from pellucid.data.packed import Packer
from pellucid.engine.epochs.parts import Chain, Part, PartName, Survey
from pellucid.engine.epochs.store import Store
from pellucid.errors import DataError, StateError

__all__ = ["FileTarget", "Table", "TableTarget", "Target", "whose"]

_ROWS = 1 << 17  # of a batch in the whole file, wherever the borders were
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream: four bytes of ones and a length of zero


class Table(Protocol):
    """A table that remembers, in the same transaction as the rows, how far they go (`pellucid.sinks` has some)."""

    def write(self, data: Any, query: str, batch_id: int) -> Any:
        """Write rows once under this number; nothing if the number, or a greater one, is there."""

    def last(self, query: str) -> int | None:
        """The greatest number that is there for good."""


class Target(Protocol):
    """Where a sink's committed parts go; ``place`` is what to call it, ``mends`` says that what is damaged is to be
    made again."""

    place: str
    mends: bool

    def part(self, path: str | Path) -> Part:
        """A new part."""

    def last(self) -> tuple[int, str]:
        """Up to which push everything is committed; and what is wrong with what comes then, if anything is.  Nothing is
        changed."""

    def begin(self) -> None:
        """The run goes on with what `last` said: what is of no use is set aside."""

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """Make parts visible, in their order, each once."""

    def finish(self, rows: int) -> None:
        """All epochs are committed: so many rows."""


class FileTarget:
    """An output file: parts in the state folder, and the whole file at the end.

    With ``mends`` the content of all committed parts is looked at when it begins, not only when the whole file is made.
    """

    def __init__(
        self,
        store: Store,
        output: str,
        path: str,
        form: str | None,
        schema: Any,
        *,
        run: str = "",
        mends: bool = False,
    ) -> None:
        self.path, self.schema, self.mends = path, schema, mends
        self.form, self.packed = format_of(path, form, option="--out-format")
        self._folder = store.folder("committed", output)
        self.place = str(self._folder)
        self._text = self.form in ("csv", "tsv", "jsonl")
        self._head, tail = (b"", b"") if self._text else (bytes(schema.serialize()), _END)
        self._chain = Chain(self._folder, whose(run, output), self._head, tail)
        self._found = Survey()
        self._merging: threading.Thread | None = None

    def part(self, path: str | Path) -> Part:
        """Rows of a text format are staged as they will be in the file; others as Arrow."""
        if not self._text:
            return arrow_part(path, self._head)
        buffer = io.BytesIO()
        sink = writers._SINKS[self.form](buffer, self.schema)

        def encode(batch: Any) -> bytes:
            buffer.seek(0)
            buffer.truncate()
            sink.write(batch)
            return buffer.getvalue()

        return Part(path, encode, b"", b"")

    def last(self) -> tuple[int, str]:
        """Where the row of committed parts ends."""
        self._found = self._chain.survey(thorough=self.mends)
        return self._found.until, self._found.why

    def begin(self) -> None:
        """Remove what merged parts have as well; set aside what comes behind a gap."""
        for path in self._found.inside:
            path.unlink(missing_ok=True)
        for path in self._found.later:
            os.replace(path, path.with_suffix(".damaged"))
        sync(self._folder)

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """One rename for each."""
        for name, path in parts:
            place = self._folder / str(name)
            os.replace(path, place)
            self._chain.parts.append((name, place))
        sync(self._folder)
        sync(parts[0][1].parent)
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
        found = self._chain.survey()
        if found.why:
            raise StateError(f"{found.why}. Bring it back from a copy, or read all input again with --from-start")
        have = sum(name.rows for name, _ in found.parts)
        if have != rows:
            raise StateError(
                f"{self._folder}: {rows:,} rows were committed, but {have:,} are there: bring the parts back from "
                "a copy, or read all input again with --from-start"
            )
        return self._chain.checked()

    def _join_text(self, parts: Iterable[Path]) -> None:
        target = os.path.realpath(self.path)
        head = io.BytesIO()
        writers._SINKS[self.form](head, self.schema)
        try:
            with output_draft(target) as draft:  # a file or a link that somebody put there is never written to
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


class TableTarget:
    """A table: a transaction for each epoch."""

    def __init__(self, table: Table, place: str, run: str, schema: Any) -> None:
        self.schema, self._table, self._query = schema, table, run
        self.place, self.mends = place, False
        self._head = bytes(schema.serialize())

    def part(self, path: str | Path) -> Part:
        """Rows as Arrow."""
        return arrow_part(path, self._head)

    def last(self) -> tuple[int, str]:
        """What the table itself remembers."""
        return self._table.last(self._query) or 0, ""

    def begin(self) -> None:
        """There is nothing to set aside."""

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """One transaction for each; the part is not needed any more then."""
        for name, path in parts:
            with open(path, "rb", opener=no_links) as file, pa.ipc.open_stream(file) as reader:
                self._table.write(reader, self._query, name.until)
            os.unlink(path)

    def finish(self, rows: int) -> None:
        """Nothing is left to do."""


def arrow_part(path: str | Path, head: bytes) -> Part:
    """A part that is an Arrow stream; its head is the schema."""
    return Part(path, lambda batch: batch.serialize(), head, _END)


def whose(run: str, output: str) -> str:
    """What the seals of an output's parts have in common."""
    return f"{run} {output}"


def _batches(parts: Iterable[Path], schema: Any) -> Iterator[Any]:
    """The rows of all parts, in batches of one size wherever the parts ended."""
    waiting: list[Any] = []
    count = 0
    for path in parts:
        with open(path, "rb", opener=no_links) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
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
