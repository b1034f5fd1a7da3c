"""Batches and borders, and how they are sent.

A message is a batch of the pushes ``first … until-1`` (some events for each stream that the channel carries, with their
push numbers), a border that ends an epoch, or the end.  A batch is sent as its columns lie in memory, which for numbers
is as Arrow has them: nothing is copied on either side, and no Python object is made for an event.

The last batch of an epoch *closes* it: its border is the next message of the stream, with a number of its own, but
travels in the same frame.  So a border costs no message of its own.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.internal.data.columns import Column, Strings
from pellucid.internal.engine.epochs import recording
from pellucid.internal.engine.saved.form import pack_texts, unpack_texts
from pellucid.internal.expr.types import BOOL, FLOAT, STR, EnumType, Type

EVENTS, BORDER, END = "events", "border", "end"
_FRAME = struct.Struct("<4sIQ")  # mark, length of the head, length of the body
FRAME = _FRAME.size
_MARK = b"PEv1"
_ALIGN = 8


@dataclass
class Events:
    """Events of one stream: leaf columns, push numbers (None: ``first``, ``first + 1``, …), keys."""

    columns: list[Column]
    positions: Any = None
    keys: list[Column] | None = None  # the columns of the key that came with the data

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass
class ChannelMessage:
    """A batch, a border, or the end; ``n`` is its number on the stream."""

    kind: str
    epoch: int
    first: int = 0
    until: int = 0
    parts: dict[str, Events] = field(default_factory=dict)
    n: int = 0
    digest: int = 0
    closes: bool = False  # a batch whose border travels with it
    clock: dict[str, Any] | None = None  # by event time, of the last batch of an epoch: how the clock moves

    def border(self) -> ChannelMessage:
        """The border that travels with a batch."""
        return ChannelMessage(BORDER, self.epoch, self.until, self.until, n=self.n + 1)

    def noted(self, stream: str) -> recording.RecordedMessage:
        """For the trace."""
        return recording.RecordedMessage(stream, self.n, self.kind == BORDER, self.digest)


@dataclass(frozen=True)
class Shape:
    """The types that a channel's streams have."""

    types: Mapping[str, Type]
    key: Type | None = None

    def leaves(self, name: str) -> Iterator[tuple[str, Type]]:
        """The columns of a stream."""
        return self.types[name].leaves()


def positions_of(events: Events, first: int) -> Any:
    """The push numbers as an array."""
    return np.arange(first, first + len(events), dtype=np.int64) if events.positions is None else events.positions


def take(events: Events, rows: Any, first: int) -> Events:
    """Some of the events, by their places."""

    def some(columns: Sequence[Column]) -> list[Column]:
        return [Strings(c.codes[rows], c.values) if isinstance(c, Strings) else c[rows] for c in columns]

    columns = some(events.columns)
    return Events(columns, positions_of(events, first)[rows], None if events.keys is None else some(events.keys))


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
    return np.array(column, dtype=kind_of(t))


def kind_of(t: Type) -> Any:
    """What a column of this type is an array of."""
    return np.bool_ if t == BOOL else np.float64 if t == FLOAT else np.int64


# ---------------------------------------------------------------- as bytes


def encode(message: ChannelMessage, shape: Shape, *, canonical: bool = False) -> list[Any]:
    """A message as pieces of memory; with ``canonical`` equal content gives equal bytes, whatever codes texts have.

    Columns are sent as they lie in memory, each from a multiple of eight bytes on: both sides know their types.

    >>> from pellucid.internal.expr.types import INT
    >>> shape = Shape({"x": INT})
    >>> sent = ChannelMessage(EVENTS, 1, 0, 2, {"x": Events([np.array([5, 6])])})
    >>> back = decode(b"".join(bytes(p) for p in encode(sent, shape)), shape)
    >>> back.parts["x"].columns, back.until
    ([array([5, 6])], 2)
    """
    pieces: list[Any] = []
    heads = []
    for name, events in message.parts.items():
        tables: list[list[int]] = []  # of each column of texts: the bytes of its two blocks
        if events.positions is not None:
            pieces.append(_words(np.int64, events.positions))
        if shape.key is not None and events.keys is not None:
            for (_, leaf), column in zip(shape.key.leaves(), events.keys, strict=True):
                tables += _put(leaf, column, pieces, canonical)
        for (_, leaf), column in zip(shape.leaves(name), events.columns, strict=True):
            tables += _put(leaf, column, pieces, canonical)
        heads.append([name, events.positions is None, len(events), tables])
    head = json.dumps(
        [
            message.kind,
            message.epoch,
            message.first,
            message.until,
            message.n,
            heads,
            int(message.closes),
            message.clock,
        ]
    ).encode()
    return [_FRAME.pack(_MARK, len(head), sum(len(p) for p in pieces)), head, *pieces]


def frame_lengths(start: Any, name: str) -> tuple[int, int]:
    """Of a frame that begins so: the bytes of its head and of its body."""
    mark, head, body = _FRAME.unpack(start)
    if mark != _MARK:
        raise RuntimeError(f"{name}: no message begins here")
    return head, body


def _put(t: Type, column: Column, pieces: list[Any], canonical: bool) -> list[list[int]]:
    """Add a column; of texts the codes, and the texts as two blocks."""
    column = as_arrays(t, column)
    if not isinstance(column, Strings):
        pieces.append(_words(kind_of(t), column))
        if t == BOOL:
            pieces.append(bytes(-len(pieces[-1]) % _ALIGN))
        return []
    codes, values = column.codes, column.values
    if canonical or len(values) > len(codes):
        used, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(firsts)  # in the order in which they come
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        codes, values = rank[codes], [values[c] for c in used[order].tolist()]
    pieces.append(_words(np.int64, codes))
    sizes = []
    for block in pack_texts(values):
        view = memoryview(block).cast("B") if len(block) else memoryview(b"")
        sizes.append(len(view))
        pieces += [view, bytes(-len(view) % _ALIGN)]
    return [sizes]


def _words(kind: Any, column: Any) -> memoryview:
    array: Any = np.ascontiguousarray(column, dtype=kind)
    return memoryview(array.view(np.uint8)) if len(array) else memoryview(b"")


def decode(data: Any, shape: Shape) -> ChannelMessage:
    """A message from one block of memory (nothing is copied)."""
    view = memoryview(data).cast("B")
    _, head, _ = _FRAME.unpack_from(view)
    body = np.frombuffer(view[_FRAME.size + head :], dtype=np.uint8)
    # where words begin as they must
    return decode_parts(bytes(view[_FRAME.size : _FRAME.size + head]), body.copy(), shape)


def decode_parts(head: bytes, body: Any, shape: Shape) -> ChannelMessage:
    """A message from its head and its body, an array of bytes that begins at a multiple of eight."""
    kind, epoch, first, until, n, heads, closes, clock = json.loads(head)
    message, at = ChannelMessage(kind, epoch, first, until, n=n, closes=bool(closes), clock=clock), 0

    def words(dtype: Any, count: int) -> Any:
        nonlocal at
        size = count * np.dtype(dtype).itemsize
        found = body[at : at + size].view(dtype)
        at += size + -size % _ALIGN
        return found

    for name, dense, count, tables in heads:
        positions = None if dense else words(np.int64, count)

        def column(t: Type, count: int = count, tables: list[list[int]] = tables) -> Column:
            if t != STR:
                found: Column = words(kind_of(t), count)
                return found
            codes = words(np.int64, count)
            blocks = [memoryview(words(np.uint8, size)) for size in tables.pop(0)]
            return Strings(codes, unpack_texts(*blocks))

        keys = [column(leaf) for _, leaf in shape.key.leaves()] if shape.key is not None else None
        message.parts[name] = Events([column(leaf) for _, leaf in shape.leaves(name)], positions, keys)
    return message


def content(message: ChannelMessage, pieces: Sequence[Any]) -> int:
    """The digest of what a message says: not of its number, which has a column of its own."""
    what = f"{message.kind} {message.epoch} {message.first} {message.until} {list(message.parts)}"
    if message.clock is not None:
        what += f" {json.dumps(message.clock)}"
    return recording.digest(what.encode(), *pieces)


# ---------------------------------------------------------------- shares of the keys


def workers_of(keys: Sequence[Column], count: int) -> Any:
    """The worker of each key (its columns, one or several), the same in any process.

    >>> workers_of([Strings(np.array([0, 1, 0]), ["a", "b"])], 4).tolist()
    [3, 1, 3]
    >>> workers_of([Strings(np.array([0, 1, 0]), ["a", "b"]), np.array([7, 7, 8])], 4).tolist()
    [1, 3, 3]
    """
    mixed = _mixed(keys[0])
    for column in keys[1:]:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + _mixed(column)
    return (mixed % np.uint64(count)).astype(np.int64)


def _mixed(column: Column) -> Any:
    if isinstance(column, Strings):
        return np.array([zlib.crc32(v.encode()) for v in column.values] or [0], dtype=np.uint64)[column.codes]
    mixed = np.asarray(column).astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))


# The channels between tasks: Unix sockets, with messages that are counted at both ends.
#
# A channel holds a batch or two, and its reader two messages; a sender that is faster waits.  So memory is bounded
# whatever the input's size.  The link between the coordinator and a task is a socket with small messages, over which
# each also hears that the other is gone.

_WAITING = 2  # messages that a reader holds
_PIECES = 512  # that one call takes on any system
_ROOM = 2 << 20  # bytes in the socket: with a whole batch in it, sender and reader need not take turns


class Gone(Exception):  # noqa: N818 - no error: what recovery is for
    """The task at the other end is dead."""


@contextlib.contextmanager
def _alive(name: str) -> Iterator[None]:
    """Whatever the system says about a socket whose other end is closed, it means one thing."""
    try:
        yield
    except (ConnectionError, EOFError):
        raise Gone(name) from None


def channel() -> tuple[socket.socket, socket.socket]:
    """The sending and the receiving end."""
    sender, receiver = socket.socketpair()
    with contextlib.suppress(OSError):  # the system gives as much of it as it likes
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
    return sender, receiver


class Outbox:
    """The sending end of a channel; it counts its messages."""

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool) -> None:
        self.name, self.sent = name, 0
        self._end, self._shape, self._noted = end, shape, noted

    def prepare(self, message: ChannelMessage) -> list[Any]:
        """Give the message its number and digest; what is returned goes to `send`, after the step is on record."""
        if message.kind != END:
            message.n = self.sent
            self.sent += 1
        pieces = encode(message, self._shape, canonical=self._noted)
        if self._noted:
            message.digest = content(message, pieces[2:])
        return pieces

    def prepare_closing(self, message: ChannelMessage) -> None:
        """Count a border that travels with the batch before it."""
        message.n = self.sent
        self.sent += 1
        if self._noted:
            message.digest = content(message, [])

    def send(self, pieces: Sequence[Any]) -> None:
        """Send; waits while the reader is behind."""
        with _alive(self.name):
            sent = self._end.sendmsg(pieces[:_PIECES])
            for piece in pieces:  # what one call did not take
                if sent >= len(piece):
                    sent -= len(piece)
                else:
                    self._end.sendall(memoryview(piece)[sent:])
                    sent = 0


class Inbox:
    """The receiving end: a thread reads ahead, two messages at most."""

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool) -> None:
        self.name, self.taken = name, 0
        self.head: ChannelMessage | None = None
        self._end, self._shape, self._noted = end, shape, noted
        self._queue: queue.Queue[tuple[ChannelMessage, ChannelMessage | None] | BaseException] = queue.Queue(
            maxsize=_WAITING
        )
        self._border: ChannelMessage | None = None  # it came with the batch that was taken last
        threading.Thread(target=self._read, name=f"read {name}", daemon=True).start()

    def get(self) -> ChannelMessage:
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
                head, body = frame_lengths(self._exactly(FRAME), self.name)
                text, data = bytes(self._exactly(head)), self._exactly(body)
                message = decode_parts(text, data, self._shape)
                if self._noted:
                    message.digest = content(message, [data] if body else [])
                border = message.border() if message.closes else None
                if border is not None and self._noted:
                    border.digest = content(border, [])
                self._queue.put((message, border))
                if message.kind == END:
                    return
        except Gone:
            return  # the sender is dead: the task that waits here is recovered, too
        except BaseException as error:  # for the task to raise, whatever it is
            self._queue.put(error)

    def _exactly(self, size: int) -> Any:
        data: Any = np.empty(size, dtype=np.uint8)
        view, at = memoryview(data), 0
        with _alive(self.name):
            while at < size:
                count = self._end.recv_into(view[at:])
                if not count:
                    raise EOFError
                at += count
        return data


# ---------------------------------------------------------------- the link to the coordinator


BEAT = 0.2  # seconds between two heartbeats of a task


class Link:
    """Small JSON messages over a socket, one on each line; any thread may send."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._lock = threading.Lock()
        self._rest = b""
        self._unsent = b""

    def send(self, **message: Any) -> None:
        """Send a message; if the other side is gone, so be it.  What a stopped task does not take yet waits here."""
        with self._lock:
            self._unsent += json.dumps(message).encode() + b"\n"
            self._flush()

    def _flush(self) -> None:
        with contextlib.suppress(OSError):
            while self._unsent:
                self._unsent = self._unsent[self.end.send(self._unsent) :]

    def receive(self) -> list[dict[str, Any]] | None:
        """What is there now; None when the other side has closed."""
        with self._lock:
            self._flush()
        try:
            data = self.end.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]
