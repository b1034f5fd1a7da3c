"""Messages as bytes: what was sent is what arrives, in any pieces; equal content has equal bytes where that is asked
for."""

from __future__ import annotations

import enum
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.internal.data.columns import Strings
from pellucid.internal.engine.epochs.tasks.channels import Inbox, Outbox, channel
from pellucid.internal.engine.epochs.tasks.messages import (
    BORDER,
    END,
    EVENTS,
    ChannelMessage,
    Events,
    Shape,
    as_arrays,
    content,
    decode,
    encode,
    frame_lengths,
)
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, TupleType, Type, type_of


class Side(enum.Enum):
    BUY = 1
    SELL = 2


SIDE = type_of(Side)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(),
    BOOL: st.booleans(),
    STR: st.text(st.characters(), max_size=4),  # with lone surrogates, which JSON can bring
    SIDE: st.sampled_from(Side),
}
TYPES = st.sampled_from(list(VALUES))


@st.composite
def sent(draw: st.DrawFn) -> tuple[ChannelMessage, Shape]:
    """A batch of some streams, with or without keys."""
    types = {name: draw(TYPES) for name in draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3))}
    key = draw(st.none() | TYPES | st.builds(lambda a, b: TupleType((a, b)), TYPES, TYPES))
    parts = {}
    for name, t in types.items():
        count = draw(st.integers(0, 9))

        def column(t: Type, count: int = count) -> Any:
            return as_arrays(t, draw(st.lists(VALUES[t], min_size=count, max_size=count)))

        positions = (
            np.array(sorted(draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))))
            if draw(st.booleans())
            else None
        )
        parts[name] = Events(
            [column(t)], positions, None if key is None else [column(leaf) for _, leaf in key.leaves()]
        )
    kind = draw(st.sampled_from([EVENTS, BORDER, END]))
    return ChannelMessage(
        kind, draw(st.integers(0, 2**40)), 3, 103, parts, n=draw(st.integers(0, 2**40)), closes=draw(st.booleans())
    ), Shape(types, key)


def plain(column: Any) -> list[Any]:
    """A column as values whose bits can be compared."""
    if isinstance(column, Strings):
        return [column.values[c] for c in column.codes]
    array: Any = np.asarray(column)
    found: list[Any] = (array.view(np.int64) if array.dtype == np.float64 else array).tolist()
    return found


def same(a: ChannelMessage, b: ChannelMessage) -> bool:
    if (a.kind, a.epoch, a.first, a.until, a.n, a.closes, list(a.parts)) != (
        b.kind,
        b.epoch,
        b.first,
        b.until,
        b.n,
        b.closes,
        list(b.parts),
    ):
        return False
    for mine, other in zip(a.parts.values(), b.parts.values(), strict=True):
        if (mine.keys is None) != (other.keys is None):
            return False
        pairs = zip(
            [*mine.columns, mine.positions, *(mine.keys or [])],
            [*other.columns, other.positions, *(other.keys or [])],
            strict=True,
        )
        for one, two in pairs:
            if (one is None) != (two is None) or (one is not None and plain(one) != plain(two)):
                return False
    return True


@given(sent(), st.booleans())
@settings(max_examples=150)
def test_what_is_sent_arrives(given_: tuple[ChannelMessage, Shape], canonical: bool) -> None:
    message, shape = given_
    pieces = encode(message, shape, canonical=canonical)
    assert frame_lengths(pieces[0], "a>b") == (len(pieces[1]), sum(len(p) for p in pieces[2:]))
    assert same(decode(b"".join(bytes(p) for p in pieces), shape), message)


def test_equal_texts_have_equal_bytes() -> None:
    """Two workers have other codes for the same texts; the digest of a recorded message must not show it."""
    shape = Shape({"x": STR})
    one = ChannelMessage(EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([0, 1, 0]), ["a", "b"])])})
    two = ChannelMessage(
        EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([7, 3, 7]), ["c", "", "d", "b", "e", "f", "g", "a"])])}
    )
    found = [content(m, encode(m, shape, canonical=True)[2:]) for m in (one, two)]
    assert found[0] == found[1]
    other = ChannelMessage(EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([0, 1, 1]), ["a", "b"])])})
    assert content(other, encode(other, shape, canonical=True)[2:]) != found[0]


def test_through_a_channel_in_order_and_with_the_same_digests() -> None:
    """More bytes than the socket holds, more streams than one call takes, columns with gaps, and a border that travels
    along."""
    sender, receiver = channel()
    shape = Shape({"x": INT, "t": STR, **{f"s{i}": BOOL for i in range(400)}})
    out, box = Outbox("a>b", sender, shape, noted=True), Inbox("a>b", receiver, shape, noted=True)
    wide = {f"s{i}": Events([np.array([True, False, True])]) for i in range(400)}
    gaps = np.arange(3_000_000)[::3]
    messages = [
        ChannelMessage(EVENTS, 1, 0, 1_000_000, {"x": Events([gaps], np.arange(1_000_000) * 2)}),
        ChannelMessage(EVENTS, 1, 0, 3, wide, closes=True),
        ChannelMessage(EVENTS, 2, 3, 5, {"t": Events([Strings(np.array([0, 0]), ["ü"])])}),
    ]

    def send() -> None:
        for message in messages:
            pieces = out.prepare(message)
            if message.closes:
                out.prepare_closing(message.border())
            out.send(pieces)
        out.send(out.prepare(ChannelMessage(END, 0)))
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    got = [box.get() for _ in range(5)]
    thread.join()
    assert [m.kind for m in got] == [EVENTS, EVENTS, BORDER, EVENTS, END] and [m.n for m in got[:4]] == [0, 1, 2, 3]
    for message, found in zip(messages, [got[0], got[1], got[3]], strict=True):
        assert same(message, found) and message.digest == found.digest
    receiver.close()


def test_what_is_no_message_is_said_so() -> None:
    sender, receiver = channel()
    box = Inbox("a>b", receiver, Shape({}), noted=False)
    sender.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RuntimeError, match="a>b: no message begins here"):
        box.get()
    sender.close()
    receiver.close()
