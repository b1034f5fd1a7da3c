"""Connections between places, and of programs to their place: mutual TLS 1.3, frames of bounded length inside.

Both ends show a certificate of the network's own authority (`pellucid.atomic.places.network`); the name in it is who
they are.  A program has the certificate of its place, so who connects to a place under the place's own name is one of
its programs.  The first frame of each end says which version it speaks, and that it has accepted the other.

`Link` does this without a socket: bytes in, bytes and messages out.  The places use it with asyncio, programs with
blocking sockets, tests with neither.  A stranger has little room and little time to show a certificate.  A connection
on which something is forged, too large or too slow ends, which is reported; nothing else is disturbed, because what is
lost with a connection is sent again by those who need an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pellucid.atomic.places.network import Network, PlaceInfo
from pellucid.atomic.places.wire import BadFrame, Frames, frame, pack, unpack
from pellucid.errors import UsageError

VERSION = 2
PLACE, CLIENT = "place", "client"  # who connects
_HELLO = {"pellucid": VERSION}


class Link:
    """One end of a connection of the place ``name``, or of a program at it; ``context`` is `Network.tls`.  The end that
    connects names the ``peer`` that it expects.

    >>> import tempfile
    >>> from pellucid.atomic.places.network import new_network
    >>> network = new_network(tempfile.mkdtemp() + "/net", {"agent": [], "airline": []})
    >>> agent = Link(network.tls("agent"), "agent", "airline")
    >>> airline = Link(network.tls("airline", server=True), "airline")
    >>> _, back = airline.receive(agent.opening())
    >>> _, more = agent.receive(back)
    >>> _, back = airline.receive(more)
    >>> _ = agent.receive(back)
    >>> agent.ready, airline.ready, airline.peer, airline.peer_role
    (True, True, 'agent', 'place')
    >>> airline.receive(agent.seal(b"a seat, please"))
    ([b'a seat, please'], b'')
    """

    def __init__(self, context: ssl.SSLContext, name: str, peer: str = "") -> None:
        self.name, self.peer, self.begins = name, peer, bool(peer)
        self.peer_role = PLACE
        self.ready = False  # both have accepted each other
        self.partial = False  # a frame has begun and is not complete
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=not peer)
        self._secure = False
        self._frames = Frames()

    def opening(self) -> bytes:
        """The first bytes of the end that connects."""
        return self.receive(b"")[1]

    def receive(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The messages that are complete with these bytes, and what is to be sent back at once."""
        payloads: list[bytes] = []
        self._in.write(data)
        read = False
        try:
            if not self._secure:
                self._tls.do_handshake()
                self._accept()
            while piece := self._tls.read(1 << 16):
                read = True
                self._frames.add(piece)
                while (payload := self._frames.next()) is not None:
                    if self.ready:
                        payloads.append(payload)
                    else:
                        self._greeted(payload)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise BadFrame(f"not a connection of this network: {error.reason or error}") from None
        self.partial = self._frames.partial or not read
        return payloads, self._out.read()

    def seal(self, payload: bytes) -> bytes:
        """A message as bytes to be sent."""
        if not self._secure:
            raise BadFrame("the connection is not open yet")
        self._write(payload)
        return self._out.read()

    def _write(self, payload: bytes) -> None:
        left = memoryview(frame(payload))
        while left:
            left = left[self._tls.write(left) :]

    def _accept(self) -> None:
        """The other has shown a certificate of this network: whose it is."""
        self._secure = True
        shown: Any = self._tls.getpeercert() or {}
        found = next((value for [(key, value)] in shown["subject"] if key == "commonName"), "")
        if self.begins and found != self.peer:
            raise BadFrame(f"expected the place {self.peer} at this address, found {found}")
        self.peer = found
        self.peer_role = CLIENT if found == self.name else PLACE
        self._write(pack(_HELLO))

    def _greeted(self, payload: bytes) -> None:
        said = unpack(payload)
        if said != _HELLO:
            raise BadFrame(f"speaks version {said.get('pellucid')} of places, and this is version {VERSION}")
        self.ready = True


STRANGERS = 64  # connections that have not shown a certificate
SECONDS_TO_LISTEN = 1.0
SECONDS_TO_GREET = 10.0
SECONDS_OF_A_FRAME = 20.0
UNREAD = 8 << 20  # bytes that the other end has not read
WAITING = 4096  # messages for a place that cannot be reached; older ones are sent again by those that need an answer
LONGEST_PAUSE = 1.0
SECONDS_TO_CONNECT = 30.0  # over a slow connection


def keep_alive(made: socket.socket | None) -> None:
    """Have the system notice within seconds that the other end can no longer be reached, also on an idle connection."""
    if made is None or made.family not in (socket.AF_INET, socket.AF_INET6):
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 10_000),
    ):  # fmt: skip
        if hasattr(socket, option):  # not every system has them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Owner(Protocol):
    """Who hears what happens on connections."""

    def opened(self, connection: Connection) -> None:
        """The other end has shown its certificate."""

    def heard(self, connection: Connection, payload: bytes) -> None:
        """It says something."""

    def closed(self, connection: Connection) -> None:
        """It is gone."""

    def refused(self, what: str, source: str) -> None:
        """Something was not taken."""


class Connection(asyncio.Protocol):
    """A socket with a `Link` on it."""

    def __init__(self, link: Link, owner: Owner) -> None:
        self.link, self.owner = link, owner
        self.transport: Any = None
        self.open = False
        self.number = 0  # of a client
        self._slow: asyncio.TimerHandle | None = None
        self._over = False

    # ---------------------------------------------------------------- as asyncio has it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if self._over:  # let go before it was there
            self.transport.abort()
            return
        keep_alive(transport.get_extra_info("socket"))
        self._within(SECONDS_TO_GREET)
        if self.link.begins:
            self.transport.write(self.link.opening())

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            payloads, back = self.link.receive(data)
        except BadFrame as error:
            self.end(str(error))
            return
        if back:
            self.transport.write(back)
        if self.link.ready:
            if not self.open:
                self.open = True
                self._within(None)
                self.owner.opened(self)
            for payload in payloads:
                self.owner.heard(self, payload)
            if not self.link.partial:
                self._within(None)
            elif payloads or self._slow is None:
                self._within(SECONDS_OF_A_FRAME)

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._within(None)
        self.owner.closed(self)

    # ---------------------------------------------------------------- for the owner

    @property
    def source(self) -> str:
        """Who it is: a name if it has shown a certificate, else where it comes from."""
        if self.open:
            return f"{self.link.peer_role} {self.link.peer}"
        at = self.transport.get_extra_info("peername") if self.transport is not None else None
        return f"{at[0]}" if at else "unknown"

    def send(self, payload: bytes) -> None:
        """Say something; one who does not read what it is sent is let go."""
        if self._over:
            return
        if self.transport.get_write_buffer_size() > UNREAD:
            self.end("does not read what it is sent")
            return
        self.transport.write(self.link.seal(payload))

    def end(self, why: str = "") -> None:
        """End it, at once."""
        if self._over:
            return
        self._over = True
        if why:
            self.owner.refused(why, self.source)
        if self.transport is not None:
            self.transport.abort()

    def _within(self, seconds: float | None) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        if seconds is not None:
            late = "shows no certificate in time" if not self.open else "sends a frame too slowly"
            self._slow = asyncio.get_running_loop().call_later(seconds, self.end, late)


class Listening:
    """The address at which a place can be reached."""

    def __init__(self, network: Network, name: str, owner: Owner) -> None:
        self._network, self._name, self._owner = network, name, owner
        self._tls = network.tls(name, server=True)
        self._strangers: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; an address that is taken, or not of this machine, is refused."""
        place = self._network.place(self._name)
        until = time.monotonic() + SECONDS_TO_LISTEN
        while self._server is None:
            try:
                self._server = await self._listen(place)
            except OSError as error:  # of a process that was killed just now, the system may not have cleared it
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    raise _cannot_listen(self._name, place, error) from None
                await asyncio.sleep(0.05)

    async def _listen(self, place: PlaceInfo) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(self._made, place.host, place.port, backlog=256)

    def _made(self) -> Connection:
        for greeted in [c for c in self._strangers if c.open or c._over]:
            del self._strangers[greeted]
        if len(self._strangers) >= STRANGERS:
            oldest = next(iter(self._strangers))
            oldest.end("shows no certificate, and others wait")
            del self._strangers[oldest]
        connection = Connection(Link(self._tls, self._name), self._owner)
        self._strangers[connection] = None
        return connection

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()


def _cannot_listen(name: str, place: PlaceInfo, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        said = "is in use by another program: stop that"
    elif error.errno == errno.EADDRNOTAVAIL:
        said = "is no address of this machine: start the place where it is"
    else:
        said = f"cannot be listened at: {error.strerror or error}: fix that"
    return UsageError(f"{name}: {place.address} {said}, or give it another in network.toml")


class Outgoing:
    """What this place says to another: a connection that is made when there is something to say, and made again."""

    def __init__(self, network: Network, tls: ssl.SSLContext, name: str, peer: str, owner: Owner) -> None:
        self._network, self._tls, self._name, self.peer, self._owner = network, tls, name, peer, owner
        self._waiting: deque[bytes] = deque(maxlen=WAITING)
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    def send(self, payload: bytes) -> None:
        """Say it as soon as the other can be reached."""
        if self._connection is not None and self._connection.open and not self._connection._over:
            self._connection.send(payload)
            return
        self._waiting.append(payload)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reach())

    async def _reach(self) -> None:
        pause = 0.02
        while self._waiting:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(self._connect(), SECONDS_TO_CONNECT)
                await self._gone.wait()
                pause = 0.02
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self) -> None:
        place = self._network.place(self.peer)
        self._gone = asyncio.Event()
        opened = asyncio.Event()
        self._connection = Connection(
            Link(self._tls, self._name, self.peer), _Notifying(self._owner, opened.set, self._gone.set)
        )
        loop = asyncio.get_running_loop()
        made = self._connection
        await loop.create_connection(lambda: made, place.host, place.port)
        first = [asyncio.ensure_future(event.wait()) for event in (opened, self._gone)]
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in first:
                waiting.cancel()
        if not opened.is_set():
            raise OSError("gone before it was open")
        while self._waiting:
            made.send(self._waiting.popleft())

    def close(self) -> None:
        """Say no more."""
        if self._task is not None:
            self._task.cancel()
        if self._connection is not None:
            self._connection.end()


class _Notifying:
    """Between a connection that is made and its owner: who waits for it is notified, too."""

    def __init__(self, owner: Owner, opened: Callable[[], None], closed: Callable[[], None]) -> None:
        self._owner, self._opened, self._closed = owner, opened, closed

    def opened(self, connection: Connection) -> None:
        self._opened()

    def heard(self, connection: Connection, payload: bytes) -> None:
        connection.end("speaks where it should only listen")

    def closed(self, connection: Connection) -> None:
        self._closed()

    def refused(self, what: str, source: str) -> None:
        self._owner.refused(what, source)
