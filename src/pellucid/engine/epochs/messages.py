"""Batches and borders, and the channels they go through.

A message is a batch of the pushes ``first … until-1`` (some events for each stream that the channel carries, with their push
numbers), a border that ends an epoch, or the end.  A batch is an Arrow IPC stream for each of its streams: what is sent is
memory, not Python objects.  A channel is a Unix socket: it holds some hundred kilobytes, and its reader two messages; a
sender that is faster waits.  So memory is bounded whatever the input's size.

The last batch of an epoch *closes* it: its border is the next message of the stream, with a number of its own, but travels in the
same frame.  So a border wakes nobody.
"""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.data.arrow import array_of, numpy_of
from pellucid.engine.columns import Column, Strings
from pellucid.engine.epochs import recording
from pellucid.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type

__all__ = ["BORDER", "END", "EVENTS", "Events", "Inbox", "Message", "Outbox", "Shape", "decode", "encode", "take", "workers_of"]

EVENTS, BORDER, END = "events", "border", "end"
_FRAME = struct.Struct("<4sIQ")  # mark, length of the head, length of the body
_MARK = b"PEv1"
_ALIGN = 64
_WAITING = 2  # messages that a reader holds


@dataclass
class Events:
    """Events of one stream: leaf columns, push numbers (None: ``first``, ``first + 1``, …), keys."""

    columns: list[Column]
    positions: Any = None
    keys: Column | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass
class Message:
    """A batch, a border, or the end; ``n`` is its number on the stream."""

    kind: str
    epoch: int
    first: int = 0
    until: int = 0
    parts: dict[str, Events] = field(default_factory=dict)
    n: int = 0
    digest: int = 0
    closes: bool = False  # a batch whose border travels with it

    def border(self) -> Message:
        """The border that travels with a batch."""
        return Message(BORDER, self.epoch, self.until, self.until, n=self.n + 1)

    def noted(self, stream: str) -> recording.Message:
        """For the trace."""
        return recording.Message(stream, self.n, self.kind == BORDER, self.digest)


@dataclass(frozen=True)
class Shape:
    """The types that a channel's streams have."""

    types: Mapping[str, Type]
    key: Type | None = None


def positions_of(events: Events, first: int) -> Any:
    """The push numbers as an array."""
    return np.arange(first, first + len(events), dtype=np.int64) if events.positions is None else events.positions


def take(events: Events, rows: Any, first: int) -> Events:
    """Some of the events, by their places."""
    columns = [Strings(c.codes[rows], c.values) if isinstance(c, Strings) else c[rows] for c in events.columns]
    keys = events.keys
    if keys is not None:
        keys = Strings(keys.codes[rows], keys.values) if isinstance(keys, Strings) else keys[rows]
    return Events(columns, positions_of(events, first)[rows], keys)


def as_arrays(t: Type, column: Column) -> Column:
    """A column as an array or as `Strings`, whatever it was."""
    if not isinstance(column, list):
        return column
    if t == STR:
        codes: dict[str, int] = {}
        numbers = np.fromiter((codes.setdefault(v, len(codes)) for v in column), dtype=np.int64, count=len(column))
        return Strings(numbers, list(codes))
    if isinstance(t, EnumType):
        place = {m: i for i, m in enumerate(t.members)}
        return np.fromiter((place[v] for v in column), dtype=np.int64, count=len(column))
    return np.array(column, dtype=np.bool_ if t == BOOL else np.float64 if t == FLOAT else np.int64)


# ---------------------------------------------------------------- as bytes


def encode(message: Message, shape: Shape, *, canonical: bool = False) -> list[Any]:
    """A message as pieces of memory; with ``canonical`` equal content gives equal bytes, whatever codes texts have.

    >>> from pellucid.expr.types import INT
    >>> shape = Shape({"x": INT})
    >>> sent = Message(EVENTS, 1, 0, 2, {"x": Events([np.array([5, 6])])})
    >>> back = decode(b"".join(bytes(p) for p in encode(sent, shape)), shape)
    >>> back.parts["x"].columns, back.until
    ([array([5, 6])], 2)
    """
    bodies, heads = [], []
    for name, events in message.parts.items():
        body = _batch(events, shape.types[name], shape.key, canonical)
        heads.append([name, events.positions is None, len(events), body.size])
        bodies += [body, bytes(-body.size % _ALIGN)]
    head = json.dumps([message.kind, message.epoch, message.first, message.until, message.n, heads, int(message.closes)]).encode()
    head += b" " * (-(_FRAME.size + len(head)) % _ALIGN)
    return [_FRAME.pack(_MARK, len(head), sum(len(b) for b in bodies)), head, *[memoryview(b) for b in bodies]]


def _batch(events: Events, t: Type, key: Type | None, canonical: bool) -> Any:
    arrays, names = [], []
    if events.positions is not None:
        arrays.append(array_of(INT, events.positions))
        names.append("p")
    if key is not None and events.keys is not None:
        arrays.append(_array(key, events.keys, canonical))
        names.append("k")
    for j, ((_, leaf), column) in enumerate(zip(t.leaves(), events.columns, strict=True)):
        arrays.append(_array(leaf, column, canonical))
        names.append(str(j))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return out.getvalue()


def _array(t: Type, column: Column, canonical: bool) -> Any:
    column = as_arrays(t, column)
    if isinstance(t, EnumType):
        return array_of(INT, column)
    if not isinstance(column, Strings):
        return array_of(t, column)
    codes, values = column.codes, column.values
    if canonical or len(values) > len(codes):
        used, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(firsts)  # in the order in which they come
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        codes, values = rank[codes], [values[c] for c in used[order].tolist()]
    return pa.DictionaryArray.from_arrays(array_of(INT, codes), array_of(STR, list(values)))


def decode(data: Any, shape: Shape) -> Message:
    """A message from one block of memory (nothing is copied)."""
    view = memoryview(data).cast("B")
    _, head, _ = _FRAME.unpack_from(view)
    return _decoded(bytes(view[_FRAME.size : _FRAME.size + head]), pa.py_buffer(view[_FRAME.size + head :]), shape)


def _decoded(head: bytes, body: Any, shape: Shape) -> Message:
    kind, epoch, first, until, n, heads, closes = json.loads(head)
    message, at = Message(kind, epoch, first, until, n=n, closes=bool(closes)), 0
    for name, dense, _, size in heads:
        batch = pa.ipc.open_stream(body.slice(at, size)).read_next_batch()
        at += size + -size % _ALIGN
        columns = list(batch.columns)
        positions = None if dense else numpy_of(columns.pop(0))
        keys = _column(columns.pop(0)) if shape.key is not None else None
        message.parts[name] = Events([_column(c) for c in columns], positions, keys)
    return message


def _column(array: Any) -> Column:
    if pa.types.is_dictionary(array.type):
        return Strings(numpy_of(array.indices), array.dictionary.to_pylist())
    found: Column = numpy_of(array)
    return found


def _content(message: Message, pieces: Sequence[Any]) -> int:
    """The digest of what a message says: not of its number, which has a column of its own."""
    what = f"{message.kind} {message.epoch} {message.first} {message.until} {list(message.parts)}"
    return recording.digest(what.encode(), *pieces)


# ---------------------------------------------------------------- shares of the keys


def workers_of(keys: Column, count: int) -> Any:
    """The worker of each key, the same in any process.

    >>> workers_of(Strings(np.array([0, 1, 0]), ["a", "b"]), 4).tolist()
    [3, 1, 3]
    """
    if isinstance(keys, Strings):
        table = np.array([zlib.crc32(v.encode()) % count for v in keys.values] or [0], dtype=np.int64)
        return table[keys.codes]
    mixed = np.asarray(keys).astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed ^ (mixed >> np.uint64(32))) % np.uint64(count)).astype(np.int64)


# ---------------------------------------------------------------- channels


class Outbox:
    """The sending end of a channel; it counts its messages."""

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool, sent: int = 0) -> None:
        self.name, self.sent = name, sent
        self._end, self._shape, self._noted = end, shape, noted

    def prepare(self, message: Message) -> list[Any]:
        """Give the message its number and digest; what is returned goes to `send`, after the step is on record."""
        if message.kind != END:
            message.n = self.sent
            self.sent += 1
        pieces = encode(message, self._shape, canonical=self._noted)
        if self._noted:
            message.digest = _content(message, pieces[2:])
        return pieces

    def prepare_closing(self, message: Message) -> None:
        """Count a border that travels with the batch before it."""
        message.n = self.sent
        self.sent += 1
        if self._noted:
            message.digest = _content(message, [])

    def send(self, pieces: Sequence[Any]) -> None:
        """Send; waits while the reader is behind."""
        if sum(len(p) for p in pieces) < 1 << 16:
            self._end.sendall(b"".join(pieces))
            return
        for piece in pieces:
            if len(piece):
                self._end.sendall(piece)


class Inbox:
    """The receiving end: a thread reads ahead, two messages at most."""

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool, taken: int = 0) -> None:
        self.name, self.taken = name, taken
        self.head: Message | None = None
        self._end, self._shape, self._noted = end, shape, noted
        self._queue: queue.Queue[tuple[Message, Message | None] | BaseException] = queue.Queue(maxsize=_WAITING)
        self._border: Message | None = None  # it came with the batch that was taken last
        threading.Thread(target=self._read, name=f"read {name}", daemon=True).start()

    def get(self) -> Message:
        """The next message; waits for it."""
        if self._border is not None:
            found, self._border = self._border, None
        else:
            item = self._queue.get()
            if isinstance(item, BaseException):
                raise item
            found, self._border = item
        if found.kind != END:
            if found.n != self.taken:
                raise RuntimeError(f"{self.name}: expected message {self.taken}, found {found.n}")
            self.taken += 1
        return found

    def _read(self) -> None:
        try:
            while True:
                mark, head, body = _FRAME.unpack(self._exactly(_FRAME.size))
                if mark != _MARK:
                    raise RuntimeError(f"{self.name}: no message begins here")
                text, data = bytes(self._exactly(head)), self._exactly(body)
                message = _decoded(text, data, self._shape)
                if self._noted:
                    message.digest = _content(message, [data] if body else [])
                border = message.border() if message.closes else None
                if border is not None and self._noted:
                    border.digest = _content(border, [])
                self._queue.put((message, border))
                if message.kind == END:
                    return
        except EOFError:
            return  # the sender is dead: whoever waits here is recovered, too
        except BaseException as error:  # for the task to raise, whatever it is
            self._queue.put(error)

    def _exactly(self, size: int) -> Any:
        buffer = pa.allocate_buffer(size)
        view, at = memoryview(buffer), 0
        while at < size:
            count = self._end.recv_into(view[at:])
            if not count:
                raise EOFError
            at += count
        return buffer



