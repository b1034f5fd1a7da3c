"""The channels between tasks: Unix sockets, with messages that are counted at both ends.

A channel holds a batch or two, and its reader two messages; a sender that is faster waits.  So memory is bounded
whatever the input's size.  The link between the coordinator and a task is a socket with small messages, over which each
also hears that the other is gone.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pellucid.internal.engine.epochs.tasks.messages import (
    END,
    FRAME,
    ChannelMessage,
    Shape,
    content,
    decode_parts,
    encode,
    frame_lengths,
)

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

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool, sent: int = 0) -> None:
        self.name, self.sent = name, sent
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

    def __init__(self, name: str, end: socket.socket, shape: Shape, *, noted: bool, taken: int = 0) -> None:
        self.name, self.taken = name, taken
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
            return  # the sender is dead: whoever waits here is recovered, too
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
