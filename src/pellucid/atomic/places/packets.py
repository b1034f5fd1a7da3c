"""Packets: values that only who has the key can make and read; others can pass them on (``crypt`` and ``decrypt``).

A packet is bytes, so it can be part of any value that is sent.  Each is sealed with a key of its own, which is derived
from the shared one and a fresh salt: no number of packets wears a key out, and equal values give unequal packets.
"""

from __future__ import annotations

import os
from typing import Any

from pellucid.atomic.places.frames import BadFrame, pack_value, unpack_value
from pellucid.errors import DataError, UsageError

KEY = 32  # bytes
_MARK, _SALT = b"PK1", 32


def new_key() -> bytes:
    """A key that nobody can guess, for `seal` and `unseal`.

    >>> len(new_key())
    32
    """
    return os.urandom(KEY)


def seal(key: bytes, value: Any) -> bytes:
    """A packet: a value that is closed to everybody without the key, and that nobody can change.

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
    except BadFrame as error:  # whoever has the key put something else in
        raise DataError(f"the packet holds no value: {error}") from None


def _cipher(key: bytes, salt: bytes) -> tuple[Any, bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if not isinstance(key, bytes) or len(key) != KEY:
        raise UsageError(f"a key of a packet: expected {KEY} bytes, as new_key() makes them")
    both = HKDF(SHA256(), KEY + 12, salt, b"pellucid packet 1").derive(key)
    return ChaCha20Poly1305(both[:KEY]), both[KEY:]
