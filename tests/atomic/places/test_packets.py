"""Packets: only who has the key makes and reads them; a change is noticed."""

from __future__ import annotations

import pytest

from pellucid.atomic.places import new_key, seal, unseal
from pellucid.errors import DataError, UsageError


def test_sealed_and_opened() -> None:
    key = new_key()
    for value in (None, [1, {"a": b"x"}], "text", seal(key, "inside")):
        assert unseal(key, seal(key, value)) == value
    assert seal(key, 1) != seal(key, 1)
    assert b"4111" not in seal(key, {"card": "4111"})


def test_every_changed_byte_is_noticed() -> None:
    key = new_key()
    packet = seal(key, "pay 10")
    for n in range(len(packet)):
        wrong = bytearray(packet)
        wrong[n] ^= 1
        with pytest.raises(DataError, match=r"does not open|is no packet"):
            unseal(key, bytes(wrong))


def test_what_is_no_packet_and_no_key() -> None:
    key = new_key()
    for wrong in (b"", b"PK1", "text", None, 7):
        with pytest.raises(DataError, match="that is no packet: expected what seal"):
            unseal(key, wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="another key, or it was changed"):
        unseal(new_key(), seal(key, 1))
    for bad in (b"short", "text" * 8, None):
        with pytest.raises(UsageError, match="expected 32 bytes"):
            seal(bad, 1)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a tuple cannot be sent"):
        seal(key, (1, 2))
