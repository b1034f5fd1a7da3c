"""A connection between two who share a key: nobody else can read it, speak on it, or say something again.

Both send a hello in the clear: who they are, a fresh nonce, a fresh share of a key agreement (X25519).  From the shared
key, the agreement and all that was said, each direction gets a key of its own (HKDF-SHA256); from then on every frame
is sealed (ChaCha20-Poly1305) under its number, and the first one, which is empty, shows that the other has the key.
So a frame that is forged, changed, left out, doubled or from another connection does not open: the connection ends, and
what was lost with it is sent again by those who need it.  What was recorded stays closed to whoever steals the shared
key later.

`Link` does this without a socket: bytes in, bytes and messages out.  The places use it with asyncio, clients with
blocking sockets, tests with neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pellucid.atomic.places.network import Network, PlaceInfo, is_loopback
from pellucid.atomic.places.wire import MOST, BadFrame, Frames, frame, pack, unpack
from pellucid.errors import UsageError

VERSION = 1
HELLO_MOST = 512  # bytes of a hello: who has not shown a key yet gets little room
TAG = 16  # bytes that sealing adds
PLACE, CLIENT = "place", "client"  # what somebody is who connects
_COUNT = struct.Struct("<4xQ")
_FIELDS = {"pellucid": int, "role": str, "from": str, "to": str, "nonce": bytes, "share": bytes}

KeyOf = Callable[[str, str], bytes | None]  # role and name of who connects -> the key shared with them


class Link:
    """One end of a connection.  ``key_of`` gives the key shared with the other end, or None for a stranger.

    >>> agent = Link(PLACE, "agent", "airline", lambda role, name: b"k" * 32, begins=True)
    >>> airline = Link(PLACE, "airline", "", lambda role, name: b"k" * 32, begins=False)
    >>> _, back = airline.receive(agent.opening())
    >>> _, confirm = agent.receive(back)
    >>> _ = airline.receive(confirm)
    >>> agent.ready, airline.ready, airline.peer, airline.peer_role
    (True, True, 'agent', 'place')
    >>> airline.receive(agent.seal(b"a seat, please"))
    ([b'a seat, please'], b'')
    """

    def __init__(self, role: str, name: str, peer: str, key_of: KeyOf, *, begins: bool, most: int = MOST) -> None:
        self.role, self.name, self.peer, self.begins = role, name, peer, begins
        self.peer_role = PLACE
        self.ready = False  # the other has shown that it has the key
        self._key_of, self._most = key_of, most
        self._frames = Frames(HELLO_MOST)
        self._private: Any = None
        self._mine = b""  # the hello that was sent
        self._seal: Any = None
        self._open: Any = None
        self._sent = self._received = 0

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not whole."""
        return self._frames.partial

    def opening(self) -> bytes:
        """The first bytes of whoever begins."""
        return self._hello(self.peer)

    def _hello(self, to: str) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        self._mine = pack({
            "pellucid": VERSION, "role": self.role, "from": self.name, "to": to, "nonce": os.urandom(32),
            "share": self._private.public_key().public_bytes_raw(),
        })  # fmt: skip
        return frame(self._mine, HELLO_MOST)

    def receive(self, data: bytes) -> tuple[list[bytes], bytes]:
        """What the other says in these bytes, and what is to be sent back at once."""
        payloads: list[bytes] = []
        back = b""
        self._frames.add(data)
        while (one := self._frames.next()) is not None:
            if self._open is None:
                back += self._greeted(one)
                self._frames.most = self._most + TAG
                if self._frames.partial and not self.begins:
                    raise BadFrame("more than a hello before the answer to it")
                continue
            payload = self._opened(one)
            if self.ready != bool(payload):
                raise BadFrame("an empty sealed frame" if self.ready else "a first sealed frame that is not empty")
            if payload:
                payloads.append(payload)
            self.ready = True
        return payloads, back

    def seal(self, payload: bytes) -> bytes:
        """A payload as a sealed frame."""
        if self._seal is None:
            raise BadFrame("the connection is not open yet")
        if len(payload) > self._most:
            raise BadFrame(f"a frame of {len(payload):,} bytes: at most {self._most:,} are allowed")
        sealed = self._seal.encrypt(_COUNT.pack(self._sent), payload, None)
        self._sent += 1
        return frame(sealed, self._most + TAG)

    def _opened(self, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        if len(sealed) < TAG:
            raise BadFrame("a sealed frame that is too short")
        try:
            payload: bytes = self._open.decrypt(_COUNT.pack(self._received), sealed, None)
        except InvalidTag:
            raise BadFrame("a frame that does not open: forged, changed, out of turn, or another key") from None
        self._received += 1
        return payload

    def _greeted(self, hello: bytes) -> bytes:
        """The other's hello: whoever waited answers with its own, and both seal from here on."""
        said = _hello_of(hello)
        if self.begins:
            if said["from"] != self.peer or said["role"] != PLACE or said["to"] != self.name:
                raise BadFrame(f"expected the place {self.peer} at this address, found another")
        elif said["to"] != self.name:
            raise BadFrame("a hello for another place")
        else:
            self.peer, self.peer_role = said["from"], said["role"]
        answer = b"" if self.begins else self._hello(self.peer)
        key = self._key_of(self.peer_role if not self.begins else self.role, self.peer)
        if key is None or len(key) < 32:
            raise BadFrame("a hello of somebody with whom no key is shared")
        first, second = (self._mine, hello) if self.begins else (hello, self._mine)
        mine, theirs = self._keys(key, said["share"], first, second)
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        self._seal, self._open = ChaCha20Poly1305(mine), ChaCha20Poly1305(theirs)
        self._private = None
        return answer + self.seal(b"")

    def _keys(self, key: bytes, share: bytes, first: bytes, second: bytes) -> tuple[bytes, bytes]:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        try:
            agreed = self._private.exchange(X25519PublicKey.from_public_bytes(share))
        except ValueError:  # a share of small order
            raise BadFrame("a hello with a share that is none") from None
        said = hashlib.sha256(len(first).to_bytes(4, "big") + first + second).digest()
        both = HKDF(SHA256(), 64, said, b"pellucid places 1").derive(key + agreed)
        return (both[:32], both[32:]) if self.begins else (both[32:], both[:32])


def _hello_of(data: bytes) -> dict[str, Any]:
    said = unpack(data)
    if type(said.get("pellucid")) is int and said["pellucid"] != VERSION:
        raise BadFrame(f"speaks version {said['pellucid']} of places, and this is version {VERSION}")
    if {name: type(value) for name, value in said.items()} != _FIELDS:
        raise BadFrame("a hello with other fields than one has")
    if said["role"] not in (PLACE, CLIENT) or len(said["nonce"]) != 32 or len(said["share"]) != 32:
        raise BadFrame("a hello with other values than one has")
    return said


# Connections of a place: of clients and other places that come, and those to other places that it makes itself.
#
# Whoever connects is a stranger until it has shown a key, and has little room and little time for that.  A
# connection on
# which something does not open, is too large or comes too slowly ends, and that is told; nothing else is disturbed,
# because what is lost with a connection is said again by those who need an answer.

STRANGERS = 64  # connections that have not shown a key
SECONDS_TO_LISTEN = 1.0
SECONDS_TO_GREET = 10.0
SECONDS_OF_A_FRAME = 20.0
UNREAD = 8 << 20  # bytes that the other end has not read
WAITING = 4096  # messages for a place that cannot be reached; older ones are said again by who needs an answer
LONGEST_PAUSE = 1.0
SECONDS_TO_CONNECT = 30.0  # with TLS over a slow link


def keep_alive(made: socket.socket | None) -> None:
    """Have the system notice within seconds that the other end can no longer be reached, also where nothing is said."""
    if made is None or made.family not in (socket.AF_INET, socket.AF_INET6):
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 10_000),
    ):  # fmt: skip
        if hasattr(socket, option):  # not every system has them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Owner(Protocol):
    """Who is told what happens on connections."""

    def opened(self, connection: Connection) -> None:
        """It has shown its key."""

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
        """Who it is: a name if it has shown a key, else where it comes from."""
        if self.open:
            return f"{self.link.peer_role} {self.link.peer}"
        at = self.transport.get_extra_info("peername") if self.transport is not None else None
        return f"{at[0]}" if at else "somebody"

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
            late = "shows no key in time" if not self.open else "sends a frame too slowly"
            self._slow = asyncio.get_running_loop().call_later(seconds, self.end, late)


class Listening:
    """The address at which a place can be reached."""

    def __init__(self, network: Network, name: str, key_of: KeyOf, owner: Owner) -> None:
        self._network, self._name, self._key_of, self._owner = network, name, key_of, owner
        self._strangers: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; an address that is taken, or not of this machine, is refused."""
        place = self._network.place(self._name)
        context = server_tls(self._network, place)
        until = time.monotonic() + SECONDS_TO_LISTEN
        while self._server is None:
            try:
                self._server = await self._listen(place, context)
            except OSError as error:  # of a process that was killed just now, the system may not have cleared it
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    raise _cannot_listen(self._name, place, error) from None
                await asyncio.sleep(0.05)

    async def _listen(self, place: PlaceInfo, context: ssl.SSLContext | None) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._made, place.host, place.port, ssl=context, backlog=256,
            ssl_handshake_timeout=SECONDS_TO_GREET if context else None,
        )  # fmt: skip

    def _made(self) -> Connection:
        for greeted in [c for c in self._strangers if c.open or c._over]:
            del self._strangers[greeted]
        if len(self._strangers) >= STRANGERS:
            oldest = next(iter(self._strangers))
            oldest.end("shows no key, and others wait")
            del self._strangers[oldest]
        connection = Connection(Link(PLACE, self._name, "", self._key_of, begins=False), self._owner)
        self._strangers[connection] = None
        return connection

    def close(self) -> None:
        """Take nobody any more."""
        if self._server is not None:
            self._server.close()


def _cannot_listen(name: str, place: PlaceInfo, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        said = "is in use by another program: stop that"
    elif error.errno == errno.EADDRNOTAVAIL:
        said = "is no address of this machine: start the place where it is"
    else:
        said = f"cannot be listened at: {error.strerror or error}: mend that"
    return UsageError(f"{name}: {place.address} {said}, or give it another in network.toml")


class Outgoing:
    """What this place says to another: a connection that is made when there is something to say, and made again."""

    def __init__(self, network: Network, name: str, peer: str, key_of: KeyOf, owner: Owner) -> None:
        self._network, self._name, self.peer = network, name, peer
        self._key_of, self._owner = key_of, owner
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
            with contextlib.suppress(OSError, asyncio.TimeoutError, ssl.SSLError):
                await asyncio.wait_for(self._connect(), SECONDS_TO_CONNECT)
                await self._gone.wait()
                pause = 0.02
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self) -> None:
        place = self._network.place(self.peer)
        link = Link(PLACE, self._name, self.peer, self._key_of, begins=True)
        self._gone = asyncio.Event()
        opened = asyncio.Event()
        self._connection = Connection(link, _Told(self._owner, opened.set, self._gone.set))
        context = client_tls(self._network, place)
        loop = asyncio.get_running_loop()
        made = self._connection
        await loop.create_connection(lambda: made, place.host, place.port, ssl=context)
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


class _Told:
    """Between a connection that is made and its owner: who waits for it is told, too."""

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


# ---------------------------------------------------------------- TLS, for addresses that other machines can reach


def server_tls(network: Network, place: PlaceInfo) -> ssl.SSLContext | None:
    """For who listens: both ends show a certificate of the network's own authority."""
    if is_loopback(place.host):
        return None
    return _context(network, ssl.PROTOCOL_TLS_SERVER)


def client_tls(network: Network, place: PlaceInfo) -> ssl.SSLContext | None:
    """For who connects; the certificate has to be that of the address."""
    if is_loopback(place.host):
        return None
    return _context(network, ssl.PROTOCOL_TLS_CLIENT)


def _context(network: Network, side: Any) -> ssl.SSLContext:
    if network.tls is None:
        raise UsageError(f"{network.folder}: has places that other machines can reach, and no [tls] in network.toml")
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    for what, file in network.tls.items():
        if not file.is_file():
            raise UsageError(f"{file}: is not there: {what} of [tls] in network.toml")
    if (mode := network.tls["key"].stat().st_mode & 0o777) & 0o077:
        raise UsageError(f"{network.tls['key']}: others can read this key (mode {mode:o}): `chmod 600` it")
    try:
        context.load_verify_locations(network.tls["ca"])
        context.load_cert_chain(network.tls["certificate"], network.tls["key"])
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"[tls] in {network.folder / 'network.toml'}: {error.strerror or error}") from None
    return context
