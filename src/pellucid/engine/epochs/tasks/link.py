"""The link between the coordinator and a task: a socket with small messages, over which each also hears that the other
is gone."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

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
