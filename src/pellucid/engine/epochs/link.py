"""The link between the coordinator and a task: a socket with small messages, over which each also hears that the other is gone."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

__all__ = ["BEAT", "Link"]

BEAT = 0.2  # seconds between two heartbeats of a task


class Link:
    """Small JSON messages over a socket, one on each line; any thread may send."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._lock = threading.Lock()
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send a message; if the other side is gone, so be it."""
        with self._lock, contextlib.suppress(OSError):
            self.end.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """What is there now; None when the other side has closed."""
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
