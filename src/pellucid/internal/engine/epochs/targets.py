"""Where committed rows go: a file, or a sink (a table of a database, or one of the user's own).

The rows of an epoch are *staged* first: a file of their own in the state folder, on the disk before the sink's snapshot
is.  To commit an epoch is then one step that happens or does not: for a file output the staged part is renamed into the
folder of committed parts; a sink keeps the rows and how far they go at once.  Each part knows from where
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from pellucid.errors import DataError, StateError, option
from pellucid.internal.base.files import no_links, output_draft, sync
from pellucid.internal.data import writers
from pellucid.internal.data.files import format_of
from pellucid.internal.data.formats.packed import Packer
from pellucid.internal.engine.epochs.parts import Chain, Part, PartName, Survey
from pellucid.internal.engine.epochs.store import Store
from pellucid.sinks.interface import Sink, Staged, Written
from pellucid.sinks.postgres_sink import PostgresSink

_ROWS = 1 << 17  # of a batch in the whole file, wherever the borders were
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream: four bytes of ones and a length of zero


Parts: TypeAlias = "Sequence[tuple[PartName, Path]]"


class Target(Sink):
    """A sink that takes the staged parts of a run, whose number is the push up to which they go.

    This one passes their rows on to another sink (a table, or one of the user's own), as one batch.
    """

    def __init__(self, sink: Sink | None, schema: Any, *, mends: bool = False) -> None:
        super().__init__()
        self.mends = mends  # whether what is damaged is to be made again
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

    To prepare a part there is nothing left to do (it is synced), and to commit it is one rename.  With ``mends`` the
    content of all committed parts is looked at when it begins, not only when the whole file is made.
    """

    kind = "file"

    def __init__(
        self, store: Store, output: str, path: str, form: str | None, schema: Any, *, run: str = "", mends: bool = False
    ) -> None:
        super().__init__(None, schema, mends=mends)
        self.path = path
        self.form, self.packed = format_of(path, form, asked="out_format")
        self._folder = store.folder("committed", output)
        self._text = self.form in ("csv", "tsv", "jsonl")
        head, tail = (b"", b"") if self._text else (self._head, _END)
        self._chain = Chain(self._folder, whose(run, output), head, tail)
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
        self._found = self._chain.survey(thorough=self.mends)
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


def arrow_part(path: str | Path, head: bytes) -> Part:
    """A part that is an Arrow stream; its head is the schema."""
    return Part(path, lambda batch: batch.serialize(), head, _END)


def whose(run: str, output: str) -> str:
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
