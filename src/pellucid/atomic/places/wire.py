"""Capabilities as values: the way to a channel, which can be sent in a message and used by its receiver.

It cannot be made up, because its tokens cannot be guessed, and it gives away no more than that way.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import DataError, PellucidError, UsageError

CODE = 1  # of the extension type in msgpack
MOST_TOKENS = 64


@dataclass(frozen=True)
class Capability:
    """The way to a channel of a place: the tokens for ``in`` on that way, as many as the giver had.

    >>> Capability("agent", "answers", {"agent.answers": b"token"})
    Capability(to='agent', channel='answers')
    """

    to: str
    channel: str
    tokens: dict[str, bytes] = field(repr=False, hash=False)

    def packed(self) -> bytes:
        """As bytes, to be sent."""
        import msgpack

        return msgpack.packb([self.to, self.channel, self.tokens])  # type: ignore[no-any-return]

    @staticmethod
    def unpacked(data: bytes) -> Capability:
        """From bytes; `ValueError` for what is none.

        >>> one = Capability("agent", "answers", {"agent.answers": b"token"})
        >>> Capability.unpacked(one.packed()) == one
        True
        """
        import msgpack

        found = msgpack.unpackb(data, raw=False, strict_map_key=True)
        if type(found) is not list or len(found) != 3 or not fits(found[2]):
            raise ValueError("no capability")
        if type(found[0]) is not str or type(found[1]) is not str:
            raise ValueError("no capability")
        return Capability(*found)


def fits(tokens: Any) -> bool:
    """Whether these can be the tokens of a capability.

    >>> fits({"in corp": b"token"}), fits({"in corp": "token"}), fits([])
    (True, False, False)
    """
    if type(tokens) is not dict or len(tokens) > MOST_TOKENS:
        return False
    return all(
        type(what) is str and len(what) <= 200 and type(token) is bytes and len(token) <= 64
        for what, token in tokens.items()
    )


# What goes over a wire: frames of bounded length, with msgpack inside, read strictly.
#
# A frame is four bytes of length (big-endian) and so many bytes.  A reader trusts nothing: a length beyond the bound is
# refused before a byte of it is kept, an empty frame too, and what is inside has to be one whole msgpack object of
# plain data, with text as keys, not too deep.
#
# Values of users are packed once, by the client, and are bytes for all others.  msgpack would turn a tuple into a list
# and lose who it was; such values are refused, by their place in the value, instead of coming back as others.

MOST = 1 << 20  # bytes of a frame
ROOM = 16384  # bytes of a frame that are not the value of a message: who, the path with its tokens
DEEPEST = 64
LENGTH = struct.Struct(">I")
_LOW, _HIGH = -(2**63), 2**64 - 1
_PLAIN = frozenset({str, bytes, int, float, bool, type(None)})
_SAFE = (_PLAIN - {int}) | {Capability}


class BadFrame(PellucidError):  # noqa: N818 - reads as what it is
    """What came over a wire is not what it should be; the connection ends, and nothing else is disturbed."""


def frame(payload: bytes, most: int = MOST) -> bytes:
    """A payload with its length in front.

    >>> frame(b"abc")
    b'\\x00\\x00\\x00\\x03abc'
    >>> frame(b"abcd", most=3)
    Traceback (most recent call last):
    pellucid.atomic.places.wire.BadFrame: a frame of 4 bytes: at most 3 are allowed
    """
    if not 0 < len(payload) <= most:
        raise BadFrame(f"a frame of {len(payload):,} bytes: at most {most:,} are allowed")
    return LENGTH.pack(len(payload)) + payload


class Frames:
    """Bytes as they come, in pieces of any size; the whole frames among them.

    >>> frames = Frames()
    >>> frames.feed(b"\\x00\\x00\\x00\\x02a"), frames.partial
    ([], True)
    >>> frames.feed(b"b\\x00\\x00\\x00\\x01c"), frames.partial
    ([b'ab', b'c'], False)
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most  # may change from one frame to the next
        self._held = bytearray()
        self._at = 0

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not complete: a slow sender is given a time."""
        return len(self._held) > self._at

    def add(self, data: bytes) -> None:
        """Bytes that came; `next` has the frames."""
        del self._held[: self._at]
        self._at = 0
        self._held += data

    def next(self) -> bytes | None:
        """The next frame, if it is whole."""
        held, at = self._held, self._at
        if len(held) - at < 4:
            return None
        (length,) = LENGTH.unpack_from(held, at)
        if not 0 < length <= self.most:
            raise BadFrame(f"a frame of {length:,} bytes: at least 1 and at most {self.most:,} are allowed")
        if len(held) - at - 4 < length:
            return None
        self._at = at + 4 + length
        return bytes(held[at + 4 : self._at])

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole with these bytes."""
        self.add(data)
        return list(iter(self.next, None))


# ---------------------------------------------------------------- messages


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes.

    >>> unpack(pack({"kind": "ask", "ids": ["agent:1:7"]}))
    {'kind': 'ask', 'ids': ['agent:1:7']}
    """
    import msgpack

    return msgpack.packb(message, use_bin_type=True)  # type: ignore[no-any-return]


def unpack(data: bytes, deepest: int = DEEPEST) -> dict[str, Any]:
    """The message that these bytes are; everything else is refused.

    >>> unpack(b"\\x93\\x01\\x02\\x03")
    Traceback (most recent call last):
    pellucid.atomic.places.wire.BadFrame: a message: expected a map, found a list
    >>> unpack(b"\\x81\\xa1a")
    Traceback (most recent call last):
    pellucid.atomic.places.wire.BadFrame: a message: is not whole, or no msgpack
    """
    found = _read(data, "a message", deepest, _no_ext)
    if not isinstance(found, dict):
        raise BadFrame(f"a message: expected a map, found a {type(found).__name__}")
    return found


def _read(data: bytes, what: str, deepest: int, ext: Callable[[int, bytes], Any]) -> Any:
    import msgpack

    try:
        found = msgpack.unpackb(data, raw=False, strict_map_key=True, use_list=True, ext_hook=ext, timestamp=0)
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError, msgpack.exceptions.UnpackException):
        # RecursionError: too many levels; ValueError has all others of msgpack's own
        raise BadFrame(f"{what}: is not whole, or no msgpack") from None
    _no_deeper(found, deepest, what)
    return found


def _no_ext(code: int, data: bytes) -> Any:
    raise ValueError("an extension type")


def _capability(code: int, data: bytes) -> Any:
    if code != CODE:
        raise ValueError("an extension type")
    return Capability.unpacked(data)


def _extension(value: Any) -> Any:
    import msgpack

    return msgpack.ExtType(CODE, value.packed())


def _no_deeper(value: Any, left: int, what: str) -> None:
    kind = type(value)
    if left < 0:
        raise BadFrame(f"{what}: is nested too deeply")
    if kind is list:
        for item in value:
            if type(item) not in _PLAIN:
                _no_deeper(item, left - 1, what)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise BadFrame(f"{what}: expected text as keys, found {type(key).__name__}")
            if type(item) not in _PLAIN:
                _no_deeper(item, left - 1, what)
    elif kind not in _PLAIN and kind is not Capability:
        raise BadFrame(f"{what}: holds a {kind.__name__}")


# ---------------------------------------------------------------- values of users


def pack_value(value: Any, most: int = MOST - ROOM) -> bytes:
    """A value of a user as bytes; what would come back as something else is refused, with its place in the value.

    >>> unpack_value(pack_value({"seat": 12, "for": ["ada", None, 1.5, b"raw", True]}))
    {'seat': 12, 'for': ['ada', None, 1.5, b'raw', True]}
    >>> pack_value({"seats": [1, (2, 3)]})
    Traceback (most recent call last):
    pellucid.errors.DataError: value['seats'][1]: a tuple cannot be sent: it would come back as a list; send a list
    >>> pack_value("x" * 2_000_000)
    Traceback (most recent call last):
    pellucid.errors.DataError: value: takes 2,000,005 bytes: at most 1,032,192 are allowed; send it in pieces, or send
    where it is
    """
    import msgpack

    _carried(value, "value", DEEPEST)
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True, strict_types=True, default=_extension)
    except UnicodeEncodeError:
        raise DataError("value: a text in it has half of a pair of surrogates, which UTF-8 does not have") from None
    if len(packed) > most:
        raise DataError(
            f"value: takes {len(packed):,} bytes: at most {most:,} are allowed; send it in pieces, or send where it is"
        )
    return packed


def unpack_value(data: bytes) -> Any:
    """The value that these bytes are.

    >>> unpack_value(pack_value([1, "two"]))
    [1, 'two']
    """
    return _read(data, "a value", DEEPEST, _capability)


_INSTEAD = {
    "tuple": "it would come back as a list; send a list",
    "set": "send a sorted list",
    "frozenset": "send a sorted list",
    "datetime": "send value.isoformat(), or seconds",
    "date": "send value.isoformat()",
    "Decimal": "send str(value)",
    "bytearray": "send bytes(value)",
}


def _carried(value: Any, where: str, left: int) -> None:
    kind = type(value)
    if kind in _SAFE:
        return
    if kind is int:
        if not _LOW <= value <= _HIGH:
            raise DataError(f"{where}: an integer beyond 64 bits cannot be sent: send str(value)")
        return
    if left <= 0:
        raise DataError(f"{where}: is nested more than {DEEPEST} deep, which cannot be sent")
    if kind is list:
        for n, item in enumerate(value):
            if type(item) not in _SAFE:  # a place is written down for those only that need one
                _carried(item, f"{where}[{n}]", left - 1)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise DataError(f"{where}: the key {key!r:.60} cannot be sent: expected text as keys of a dictionary")
            if type(item) not in _SAFE:
                _carried(item, f"{where}[{key!r}]", left - 1)
    else:
        advice = _INSTEAD.get(kind.__name__, "send None, bool, int, float, str, bytes, lists and dictionaries of them")
        raise DataError(f"{where}: a {kind.__name__} cannot be sent: {advice}")


# Packets: values that only who has the key can make and read; others can pass them on (``crypt`` and ``decrypt``).
#
# A packet is bytes, so it can be part of any value that is sent.  Each is sealed with a key of its own, which is
# derived from the shared one and a fresh salt: no number of packets wears a key out, and equal values give unequal
# packets.

KEY = 32  # bytes
_MARK, _SALT = b"PK1", 32


def new_key() -> bytes:
    """A key that cannot be guessed, for `seal` and `unseal`.

    >>> len(new_key())
    32
    """
    return os.urandom(KEY)


def seal(key: bytes, value: Any) -> bytes:
    """A packet: a value that is closed to all without the key, and that cannot be changed.

    >>> key = new_key()
    >>> unseal(key, seal(key, {"card": "4111"}))
    {'card': '4111'}
    """
    salt = os.urandom(_SALT)
    cipher, nonce = _cipher(key, salt)
    return _MARK + salt + cipher.encrypt(nonce, pack_value(value), _MARK)  # type: ignore[no-any-return]


def unseal(key: bytes, packet: bytes) -> Any:
    """The value in a packet.

    >>> unseal(new_key(), seal(new_key(), "secret"))
    Traceback (most recent call last):
    pellucid.errors.DataError: the packet does not open: it was sealed with another key, or it was changed
    """
    from cryptography.exceptions import InvalidTag

    if not isinstance(packet, bytes) or not packet.startswith(_MARK) or len(packet) < len(_MARK) + _SALT + 16:
        raise DataError(f"a {type(packet).__name__} that is no packet: expected what seal(key, value) has made")
    salt, sealed = packet[len(_MARK) : len(_MARK) + _SALT], packet[len(_MARK) + _SALT :]
    cipher, nonce = _cipher(key, salt)
    try:
        return unpack_value(cipher.decrypt(nonce, sealed, _MARK))
    except InvalidTag:
        raise DataError("the packet does not open: it was sealed with another key, or it was changed") from None
    except BadFrame as error:  # a holder of the key put something else in
        raise DataError(f"the packet holds no value: {error}") from None


def _cipher(key: bytes, salt: bytes) -> tuple[Any, bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if not isinstance(key, bytes) or len(key) != KEY:
        raise UsageError(f"a key of a packet: expected {KEY} bytes, as new_key() makes them")
    both = HKDF(SHA256(), KEY + 12, salt, b"pellucid packet 1").derive(key)
    return ChaCha20Poly1305(both[:KEY]), both[KEY:]
