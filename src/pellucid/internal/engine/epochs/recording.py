"""The recorded trace of a run: what each task did, written down *before* it acts on it.

A task of a generation has a file of its own, to which it appends a line for each step with one ``write``: what a
``kill -9`` leaves is a whole prefix of its steps (a last line that was cut is left out).  Whatever a task received
therefore has a sender on record.

A line begins with a checksum of itself and of all lines before it, and ``sealed.json`` knows how long the files were
when it was last written (every now and then, and when a generation is over): a record that was altered, cut or lost is
refused.

Rows, as laid out in ``docs/explanation/failures.md``:

``SOURCE``     a source sends a batch (or, ``border`` true, a border) to each of its readers; ``consumed`` is empty
``I-EVENT``    a batch of the same pushes is taken from each input that has one, and one is sent to each reader
``I-BORDER``   the border is taken from *all* inputs and sent on; ``state`` is the digest of the state that was copied
``SNAPSHOT``   the copy is durable now; it "produces" one message on the stream ``ack:TASK``, numbered by the epoch
``COMMIT``     a sink makes an epoch visible; it "consumes" the ``ack:TASK`` messages that the coordinator waited for
``F-FAIL``     a task died or hung (put there by the coordinator)
``F-LOST``     a snapshot that was durable is damaged or gone; ``task`` and ``epoch`` say which (by the coordinator)
``F-RECOVER``  of the task ``coordinator``: all tasks go back to ``epoch``

Snapshots are asynchronous: a border goes on before the copy is durable, so the archive of the paper is what the
``SNAPSHOT`` rows say (minus ``F-LOST``), and ``gce`` is the greatest epoch that every task has one of.  A source's
``SNAPSHOT`` is its offset, a sink's the staged rows of the epoch.  Old snapshots are removed without a row; nothing
ever asks for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError, option
from pellucid.internal.base.files import Draft, beside, inner_folder, no_links, read_own
from pellucid.internal.engine.epochs.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

COORDINATOR = "coordinator"
RULES = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER")
ACK = "ack:"  # the streams on which a task says that its snapshot of an epoch is durable
FOLDER = "trace"
_SEALED = "sealed.json"
_NAME = re.compile(r"(?P<generation>\d+)\.(?P<task>.+)\.steps")


@dataclass(frozen=True)
class RecordedMessage:
    """A message on a stream: its number there, whether it is a border, and the digest of its content."""

    stream: str
    n: int
    border: bool
    digest: int


def digest(*pieces: Any) -> int:
    """64 bits that any process agrees on.

    >>> digest(b"abc") == digest(b"a", b"bc"), digest(b"abc") == digest(b"abd")
    (True, False)
    """
    found = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        found.update(piece)
    return int.from_bytes(found.digest(), "little", signed=True)


class Recorder:
    """Appends the steps of one task in one generation.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> recorder = Recorder(folder, "source.x", 0)
    >>> recorder.step("SOURCE", 1, produced=[RecordedMessage("source.x>worker", 0, False, 17)])
    >>> recorder.close()
    >>> trace_table(folder).select(["task", "index", "rule", "epoch"]).to_pylist()
    [{'task': 'source.x', 'index': 0, 'rule': 'SOURCE', 'epoch': 1}]
    """

    def __init__(self, state_dir: str | os.PathLike[str], task: str, generation: int) -> None:
        folder, _ = inner_folder(state_dir, FOLDER)
        path = folder / f"{generation:06d}.{task}.steps"
        # Unbuffered: one step is one write.  Appending, as a coordinator writes about a generation before and after it.
        self._file = open(path, "ab", buffering=0, opener=no_links)  # noqa: SIM115 - closed with the recorder
        self._crc, self._lock = _last_crc(path, self._file), threading.Lock()

    def step(
        self,
        rule: str,
        epoch: int,
        *,
        consumed: Iterable[RecordedMessage] = (),
        produced: Iterable[RecordedMessage] = (),
        state: int | None = None,
        task: str | None = None,
    ) -> None:
        """Append one step; ``task`` where the coordinator writes about another."""
        messages = [[[m.stream, m.n, int(m.border), m.digest] for m in side] for side in (consumed, produced)]
        line = [rule, epoch, *messages, state, time.time_ns(), *([task] if task is not None else [])]
        text = json.dumps(line, separators=(",", ":")).encode()
        with self._lock:  # a task writes down its steps, and beside it what became durable
            crc = zlib.crc32(text, self._crc)
            self._append(f"{crc:08x} ".encode() + text + b"\n")
            self._crc = crc

    def _append(self, data: bytes) -> None:
        """The whole line or nothing of it; a run that cannot keep its record stops before it acts, and can go on
        later."""
        at, view = self._file.tell(), memoryview(data)
        try:
            while len(view):
                view = view[self._file.write(view) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(at)
            raise _full(self._file.name, error) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _last_crc(path: Path, file: Any) -> int:
    """The checksum of the last whole line of a file; one that was cut is removed, so that the next does not become a
    part of it."""
    data = read_own(path)
    end = data.rfind(b"\n") + 1
    if end < len(data):
        file.truncate(end)
    begin = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    with contextlib.suppress(ValueError):
        return int(data[begin : begin + 8], 16)
    return 0


def seal(state_dir: str | os.PathLike[str]) -> None:
    """Write down how long the record of each task is by now."""
    store = Store(Path(state_dir) / FOLDER)
    before = store.hint(_SEALED)  # what was longer then, or is gone, was damaged since
    sizes = {path.name: max(_whole_lines(path), before.get(path.name, 0)) for _, _, path in _files(state_dir)}
    if sizes:
        store.write(_SEALED, {**before, **sizes}, durable=False)


def _whole_lines(path: Path) -> int:
    """The bytes up to the end of the last whole line."""
    with open(path, "rb", opener=no_links) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - (1 << 12))
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return 0


def _check_sealed(state_dir: str | os.PathLike[str]) -> None:
    for name, size in Store(Path(state_dir) / FOLDER).hint(_SEALED).items():
        path = Path(state_dir) / FOLDER / name
        found = _whole_lines(path) if path.exists() else -1
        if found < size:
            what = "is missing" if found < 0 else f"was cut: it has {found:,} bytes of whole lines, and had {size:,}"
            raise StateError(f"{path}: {what}: bring it back from a copy, or record the run again")


def last_generation(state_dir: str | os.PathLike[str]) -> int:
    """The greatest generation of which something is recorded; 0 if nothing is.

    >>> last_generation("no such folder")
    0
    """
    return max((generation for generation, _, _ in _files(state_dir)), default=0)


def stored(state_dir: str | os.PathLike[str], before: int) -> dict[str, set[int]]:
    """The snapshots of each task that are on record as durable, in the last generation before one that got anywhere."""
    files = [found for found in _files(state_dir) if found[0] < before]
    for generation in sorted({found[0] for found in files}, reverse=True):
        out: dict[str, set[int]] = {}
        went_on = generation == 0
        for number, task, path in files:
            if number == generation:
                lines = read_own(path).split(b"\n")[:-1]
                went_on |= any(line[9:].startswith(b'["F-RECOVER"') for line in lines)
                with contextlib.suppress(ValueError):  # of a damaged file the audit tells
                    out[task] = {int(json.loads(line[9:])[1]) for line in lines if line[9:].startswith(b'["SNAPSHOT"')}
        if went_on or any(out.values()):
            out.pop(COORDINATOR, None)
            return out
    return {}


def schema() -> pa.Schema:
    """The columns of a trace.

    >>> schema().names
    ['task', 'generation', 'index', 'rule', 'epoch', 'consumed', 'produced', 'state', 'time']
    """
    import pyarrow as pa

    message = pa.struct([("stream", pa.string()), ("n", pa.int64()), ("border", pa.bool_()), ("digest", pa.int64())])
    return pa.schema(
        [
            ("task", pa.string()),
            ("generation", pa.int32()),
            ("index", pa.int64()),
            ("rule", pa.string()),
            ("epoch", pa.int64()),
            ("consumed", pa.list_(message)),
            ("produced", pa.list_(message)),
            ("state", pa.int64()),
            ("time", pa.int64()),
        ]
    )


def trace_table(state_dir: str | os.PathLike[str]) -> pa.Table:
    """The trace that a run recorded in its state folder (also one that was killed), sorted by task and index.

    >>> trace_table("no such folder")
    Traceback (most recent call last):
    pellucid.errors.StateError: no such folder: has no recorded trace: run the pipeline with record=True
    """
    import pyarrow as pa

    found: dict[str, list[tuple[int, list[Any]]]] = {}
    about_others: list[tuple[str, int, list[Any]]] = []
    _check_sealed(state_dir)
    names = sorted(_files(state_dir))
    if not names:
        record = option("record", True)
        raise StateError(f"{os.fspath(state_dir)}: has no recorded trace: run the pipeline with {record}")
    for generation, task, path in names:
        for line in _lines(path):
            if len(line) > 6:
                about_others.append((line[6], generation, line))
            else:
                found.setdefault(task, []).append((generation, line))
    for task, generation, line in about_others:  # after the last step of that generation
        rows = found.setdefault(task, [])
        at = next((i for i, (g, _) in enumerate(rows) if g > generation), len(rows))
        rows.insert(at, (generation, line))
    columns: dict[str, list[Any]] = {name: [] for name in schema().names}
    for task, rows in sorted(found.items()):
        for index, (generation, line) in enumerate(rows):
            rule, epoch, consumed, produced, state, at_time = line[:6]
            values = (task, generation, index, rule, epoch, _messages(consumed), _messages(produced), state, at_time)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    return pa.table(columns, schema=schema())


def _messages(rows: list[list[Any]]) -> list[dict[str, Any]]:
    return [{"stream": s, "n": n, "border": bool(b), "digest": d} for s, n, b, d in rows]


def _files(state_dir: str | os.PathLike[str]) -> Iterable[tuple[int, str, Path]]:
    folder = Path(state_dir) / FOLDER
    if folder.is_dir():
        for path in folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None:
                yield int(match["generation"]), match["task"], path


def _lines(path: Path) -> Iterable[list[Any]]:
    data, crc = read_own(path), 0
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], 1):
        crc = zlib.crc32(line[9:], crc)
        if line[:9] != f"{crc:08x} ".encode():
            raise StateError(
                f"{path}: line {number:,} is damaged, or one before it is missing: bring the file back from a copy, or "
                "record the run again"
            )
        yield json.loads(line[9:])


def write_trace(state_dir: str | os.PathLike[str]) -> Path:
    """Turn the recorded steps into ``trace/trace.parquet``; the steps stay, as a resumed run adds to them."""
    import pyarrow.parquet as parquet

    table = trace_table(state_dir)
    target = Path(state_dir) / FOLDER / "trace.parquet"
    try:
        with Draft(beside(target)) as draft:
            parquet.write_table(table, draft.file, compression="zstd")
            draft.place(target, lasting=False)  # it can be made again
    except OSError as error:
        raise _full(target, error) from None
    return target


def _full(path: object, error: OSError) -> StateError:
    return StateError(
        f"{path}: the trace cannot be written: {error.strerror or error}. Nothing is lost: make room and run the same "
        "command again"
    )
