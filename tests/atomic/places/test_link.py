"""Links: who shares a key understands each other; everything else ends the connection."""

from __future__ import annotations

import random

import pytest

from pellucid.atomic.places.frames import BadFrame, frame, pack, unpack
from pellucid.atomic.places.link import CLIENT, HELLO_MOST, PLACE, Link

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
