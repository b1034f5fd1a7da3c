"""Frames: whole, bounded, strict; values that would come back as others are refused."""

from __future__ import annotations

import datetime
import decimal
import random
import struct
from typing import Any

import msgpack
import pytest

from pellucid.atomic.places import new_key, seal, unseal
from pellucid.atomic.places.connections import CLIENT, HELLO_MOST, PLACE, Link
from pellucid.atomic.places.wire import (
    DEEPEST,
    MOST,
    BadFrame,
    Capability,
    Frames,
    frame,
    pack,
    pack_value,
    unpack,
    unpack_value,
)
from pellucid.errors import DataError, UsageError


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


# Packets: only who has the key makes and reads them; a change is noticed.


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


# Links: who shares a key understands each other; everything else ends the connection.

KEY, OTHER = b"k" * 32, b"o" * 32


def pair(one: bytes | None = KEY, two: bytes | None = KEY, role: str = PLACE) -> tuple[Link, Link]:
    """Two ends that have not spoken."""
    return (
        Link(role, "agent", "airline", lambda role, name: one, begins=True),
        Link(PLACE, "airline", "", lambda role, name: two if name == "agent" else None, begins=False),
    )


def opened(role: str = PLACE) -> tuple[Link, Link]:
    agent, airline = pair(role=role)
    _, answer = airline.receive(agent.opening())
    _, confirmed = agent.receive(answer)
    assert airline.receive(confirmed) == ([], b"")
    assert agent.ready and airline.ready
    return agent, airline


@pytest.mark.parametrize("role", [PLACE, CLIENT])
def test_both_understand_each_other(role: str) -> None:
    agent, airline = opened(role)
    assert (airline.peer, airline.peer_role) == ("agent", role)
    sent = [b"1", b"x" * 100_000, b"3"]
    assert airline.receive(b"".join(map(agent.seal, sent))) == (sent, b"")
    assert agent.receive(airline.seal(b"yes")) == ([b"yes"], b"")


def test_byte_by_byte() -> None:
    agent, airline = pair()
    there, back = agent.opening(), b""
    got = []
    for _ in range(3):
        for n in range(len(there)):
            payloads, answer = airline.receive(there[n : n + 1])
            back += answer
            got += payloads
        there = b""
        for n in range(len(back)):
            there += agent.receive(back[n : n + 1])[1]
        back = b""
        if agent.ready and not got:
            there += agent.seal(b"hello")
    assert got[0] == b"hello"


@pytest.mark.parametrize(("one", "two"), [(KEY, OTHER), (OTHER, KEY)])
def test_another_key_does_not_open(one: bytes, two: bytes) -> None:
    agent, airline = pair(one, two)
    _, answer = airline.receive(agent.opening())
    with pytest.raises(BadFrame, match="does not open"):
        agent.receive(answer)
    assert not agent.ready and not airline.ready


def test_a_stranger_is_not_answered() -> None:
    agent, airline = pair(KEY, None)
    with pytest.raises(BadFrame, match="with whom no key is shared"):
        airline.receive(agent.opening())
    short = Link(PLACE, "agent", "airline", lambda role, name: b"short", begins=True)
    with pytest.raises(BadFrame, match="no key is shared"):
        short.receive(pair()[1].receive(short.opening())[1])


def test_every_flipped_bit_is_noticed() -> None:
    chance = random.Random(3)
    for _ in range(200):
        agent, airline = opened()
        sealed = bytearray(agent.seal(b"take one seat"))
        sealed[4 + chance.randrange(len(sealed) - 4)] ^= 1 << chance.randrange(8)
        with pytest.raises(BadFrame, match="does not open"):
            airline.receive(bytes(sealed))


def test_a_flipped_bit_of_a_hello_is_noticed() -> None:
    """Nonce, share and names are part of the keys: whoever changes one of them ends the connection."""
    chance = random.Random(4)
    for _ in range(200):
        agent, airline = pair()
        hello = bytearray(agent.opening())
        hello[4 + chance.randrange(len(hello) - 4)] ^= 1 << chance.randrange(8)
        with pytest.raises(BadFrame):
            agent.receive(airline.receive(bytes(hello))[1])


def test_doubled_left_out_and_out_of_turn() -> None:
    agent, airline = opened()
    first, second = agent.seal(b"1"), agent.seal(b"2")
    with pytest.raises(BadFrame, match="out of turn"):
        airline.receive(second)
    agent, airline = opened()
    first = agent.seal(b"1")
    assert airline.receive(first) == ([b"1"], b"")
    with pytest.raises(BadFrame, match="out of turn"):
        airline.receive(first)


def test_what_was_recorded_cannot_be_played_again() -> None:
    agent, airline = pair()
    hello = agent.opening()
    confirmed = agent.receive(airline.receive(hello)[1])[1]
    said = agent.seal(b"take one seat")
    again = pair()[1]
    again.receive(hello)
    with pytest.raises(BadFrame, match="does not open"):
        again.receive(confirmed + said)
    assert not again.ready


def test_a_frame_sent_back_to_its_sender_does_not_open() -> None:
    agent, _ = opened()
    with pytest.raises(BadFrame, match="does not open"):
        agent.receive(agent.seal(b"mirror"))
    mirror = pair()[0]
    with pytest.raises(BadFrame, match="expected the place airline"):
        mirror.receive(mirror.opening())


def changed(**fields: object) -> bytes:
    said = unpack(pair()[0].opening()[4:])
    return frame(pack({k: v for k, v in {**said, **fields}.items() if v is not None}))


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        (changed(pellucid=2), "speaks version 2 of places, and this is version 1"),
        (changed(to="hotel"), "a hello for another place"),
        (changed(role="boss"), "other values"),
        (changed(nonce=b"short"), "other values"),
        (changed(nonce=None), "other fields"),
        (changed(more=1), "other fields"),
        (changed(share=bytes(32)), "a share that is none"),
        (changed(**{"from": "nobody"}), "no key is shared"),
        (frame(b"\xc1"), "no msgpack"),
        (frame(b"x" * (HELLO_MOST + 1)), "at most 512 are allowed"),
        (pair()[0].opening() + b"\x00", "more than a hello before the answer"),
    ],
    ids=map(str, range(11)),  # not the bytes, which are of chance
)
def test_a_hello_that_is_none(hello: bytes, said: str) -> None:
    airline = pair()[1]
    with pytest.raises(BadFrame, match=said):
        airline.receive(hello)
    assert not airline.ready


def test_nothing_is_sealed_before_the_connection_is_open() -> None:
    with pytest.raises(BadFrame, match="not open yet"):
        pair()[0].seal(b"early")


def test_every_connection_has_other_keys() -> None:
    assert len({opened()[0].seal(b"the same") for _ in range(20)}) == 20


def test_too_much_at_once() -> None:
    agent, _ = opened()
    with pytest.raises(BadFrame, match="at most"):
        agent.seal(b"x" * ((1 << 20) + 1))
