"""Frames: whole, bounded, strict; values that would come back as others are refused."""

from __future__ import annotations

import datetime
import decimal
import random
import struct
from typing import Any

import msgpack
import pytest

from pellucid.atomic.places.capability import Capability
from pellucid.atomic.places.frames import (
    DEEPEST,
    MOST,
    BadFrame,
    Frames,
    frame,
    pack,
    pack_value,
    unpack,
    unpack_value,
)
from pellucid.errors import DataError


def test_pieces_of_any_size_give_the_same_frames() -> None:
    chance = random.Random(1)
    sent = [chance.randbytes(chance.choice([1, 2, 3, 100, 70_000])) for _ in range(40)]
    stream = b"".join(frame(one) for one in sent)
    for size in (1, 3, 4096, len(stream)):
        frames, got = Frames(), []
        for at in range(0, len(stream), size):
            got += frames.feed(stream[at : at + size])
        assert got == sent and not frames.partial


@pytest.mark.parametrize("length", [0, MOST + 1, 2**32 - 1])
def test_a_length_that_is_not_allowed_is_refused_before_the_bytes_come(length: int) -> None:
    with pytest.raises(BadFrame, match=f"a frame of {length:,} bytes: at least 1 and at most {MOST:,} are allowed"):
        Frames().feed(struct.pack(">I", length))


def test_the_largest_frame_is_taken() -> None:
    assert Frames().feed(frame(b"x" * MOST)) == [b"x" * MOST]
    with pytest.raises(BadFrame, match="at most"):
        frame(b"x" * (MOST + 1))
    with pytest.raises(BadFrame, match="a frame of 0 bytes"):
        frame(b"")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


BAD = {
    "nothing": b"",
    "half": pack({"kind": "ask"})[:-1],
    "more": pack({"kind": "ask"}) + b"\x00",
    "a list": msgpack.packb([1, 2]),
    "a number": b"\x07",
    "a reserved byte": b"\xc1",
    "a key that is a number": msgpack.packb({1: 2}),
    "a key that is bytes": msgpack.packb({b"kind": 2}),
    "an extension": msgpack.packb({"kind": msgpack.ExtType(5, b"x")}),
    "a time": msgpack.packb({"kind": [msgpack.Timestamp(1, 2)]}),
    "text that is no UTF-8": b"\x81\xa4kind\xa1\xff",
    "a long list that is not there": b"\x81\xa4kind\xdd\xff\xff\xff\xff",
    "long bytes that are not there": b"\x81\xa4kind\xc6\xff\xff\xff\xff",
    "too deep": msgpack.packb({"kind": nested(DEEPEST + 1)}),
    "far too deep": b"\x81\xa4kind" + b"\x91" * 100_000,
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(data)


def test_random_bytes_are_refused_or_are_messages() -> None:
    chance = random.Random(7)
    good = pack({"kind": "vote", "attempt": "p:1:a1", "yes": True, "statuses": [["p:1:1", "pending", []]]})
    for _ in range(20_000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = unpack(bytes(data[: chance.randrange(1, len(data) + 1)]))
        except BadFrame:
            continue
        assert type(found) is dict and all(type(key) is str for key in found)


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, float("inf"), "ä", b"\x00", [], {}, [1, [2, {"a": None}]]]
)
def test_values_come_back_as_they_were(value: Any) -> None:
    found = unpack_value(pack_value(value))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((1, 2), "value: a tuple cannot be sent: it would come back as a list; send a list"),
        ({"a": [0, {1}]}, r"value\['a'\]\[1\]: a set cannot be sent: send a sorted list"),
        ({1: 2}, "value: the key 1 cannot be sent: expected text as keys of a dictionary"),
        ([2**64], r"value\[0\]: an integer beyond 64 bits cannot be sent: send str\(value\)"),
        (decimal.Decimal("1.5"), r"value: a Decimal cannot be sent: send str\(value\)"),
        (datetime.date(2026, 1, 1), r"value: a date cannot be sent: send value.isoformat\(\)"),
        (object(), "value: a object cannot be sent: send None, bool, int, float, str, bytes, lists and dictionaries"),
        (nested(DEEPEST + 1), f"is nested more than {DEEPEST} deep"),
        ("\ud800", "value: a text in it has half of a pair of surrogates"),
        (b"x" * MOST, "value: takes 1,048,581 bytes: at most 1,032,192 are allowed; send it in pieces"),
    ],
)
def test_a_value_that_cannot_be_carried_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        pack_value(value)


def test_capabilities_are_values() -> None:
    one = Capability("agent", "answers", {"agent.answers": b"token"})
    assert unpack_value(pack_value([{"reply": one}, one])) == [{"reply": one}, one]
    assert "token" not in repr(one)
    for wrong in (b"", b"\x93\x01\x02\x03", msgpack.packb(["a", "b", {"c": 1}]), msgpack.packb(["a", 1, {}])):
        with pytest.raises(BadFrame, match="is not whole, or no msgpack"):
            unpack_value(msgpack.packb([msgpack.ExtType(1, wrong)]))
    with pytest.raises(BadFrame):
        unpack_value(msgpack.packb(msgpack.ExtType(2, b"x")))
    with pytest.raises(BadFrame):
        unpack(msgpack.packb({"kind": msgpack.ExtType(1, one.packed())}))  # in a message of places there is none
