"""Frames: whole, bounded, strict; values that would come back as others are refused."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import random
import ssl
import struct
from typing import Any

import msgpack
import pytest

from pellucid.atomic.places import Network, connections, new_key, new_network, seal, unseal
from pellucid.atomic.places.connections import CLIENT, PLACE, Link
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


# Links: the certificate of a network opens a connection to its places; everything else ends it.


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Network]:
    folder = tmp_path_factory.mktemp("links")
    return [new_network(folder / name, {"agent": [], "airline": [], "hotel": []}) for name in ("one", "two")]


def converse(one: Link, two: Link, there: bytes) -> None:
    """All that they say to each other from these bytes on, before the first message."""
    while there:
        there = one.receive(two.receive(there)[1])[1]


def opened(one: Link, two: Link) -> tuple[Link, Link]:
    converse(one, two, one.opening())
    return one, two


def shown_nothing(wire: ssl.SSLObject, sent: ssl.MemoryBIO, heard: ssl.MemoryBIO, link: Link) -> None:
    for _ in range(3):
        with contextlib.suppress(ssl.SSLWantReadError):
            wire.do_handshake()
        heard.write(link.receive(sent.read())[1])


def links(here: Network, there: Network, name: str = "agent", peer: str = "airline") -> tuple[Link, Link]:
    return Link(here.tls(name), name, peer), Link(there.tls("airline", server=True), "airline")


@pytest.mark.parametrize(("name", "role"), [("agent", PLACE), ("airline", CLIENT)])
def test_both_understand_each_other(networks: list[Network], name: str, role: str) -> None:
    one, two = opened(*links(networks[0], networks[0], name))
    assert one.ready and two.ready and (two.peer, two.peer_role, one.peer) == (name, role, "airline")
    sent = [b"1", b"x" * 100_000, b"3"]
    stream, got = b"".join(map(one.seal, sent)), []
    for at in range(0, len(stream), 4001):
        got += two.receive(stream[at : at + 4001])[0]
        assert two.partial == (at + 4001 < len(stream)) or got
    assert got == sent and not two.partial
    assert one.receive(two.seal(b"yes")) == ([b"yes"], b"")
    assert b"seat" not in one.seal(b"take a seat")


def test_a_certificate_of_another_network_is_refused_at_both_ends(networks: list[Network]) -> None:
    for here, there in (networks, networks[::-1]):
        with pytest.raises(BadFrame, match=r"not a connection of this network: .*CERTIFICATE_VERIFY_FAILED"):
            opened(*links(here, there))
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # accepts all, and shows nothing
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    heard, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    airline = links(networks[0], networks[0])[1]
    with pytest.raises(BadFrame, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shown_nothing(bare.wrap_bio(heard, sent), sent, heard, airline)
    assert not airline.ready


def test_another_place_than_the_one_that_was_meant(networks: list[Network]) -> None:
    with pytest.raises(BadFrame, match="expected the place hotel at this address, found airline"):
        opened(*links(networks[0], networks[0], peer="hotel"))


def test_every_flipped_bit_is_noticed_and_nothing_is_taken_twice(networks: list[Network]) -> None:
    chance = random.Random(3)
    for n in range(60):
        one, two = links(networks[0], networks[0])
        if n % 3:
            opened(one, two)
        sent = bytearray(one.seal(b"take one seat") if n % 3 else one.opening())
        if n % 3 == 1:
            sent *= 2
        else:
            sent[5 + chance.randrange(len(sent) - 5)] ^= 1 << chance.randrange(8)
        with pytest.raises(BadFrame):
            converse(one, two, bytes(sent))


def test_another_version_and_too_much(networks: list[Network], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = opened(*links(networks[0], networks[0]))
    with pytest.raises(BadFrame, match="at most"):
        one.seal(b"x" * (MOST + 1))
    with pytest.raises(BadFrame, match="not open yet"):
        links(*networks)[0].seal(b"early")
    one, two = links(networks[0], networks[0])
    back = two.receive(one.opening())[1]
    monkeypatch.setattr(connections, "_HELLO", {"pellucid": 3})
    later = one.receive(back)[1]
    monkeypatch.undo()
    with pytest.raises(BadFrame, match="speaks version 3 of places, and this is version 2"):
        two.receive(later)
