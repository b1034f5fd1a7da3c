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

import hashlib
import os
import struct
from collections.abc import Callable
from typing import Any

from pellucid.atomic.places.frames import MOST, BadFrame, Frames, frame, pack, unpack

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
