"""What a place writes down: the only things that change its state, in the order in which they happened.

A place's log is a sequence of records.  Its state is what they say (`pellucid.atomic.places.core.state`), a restart
reads them again, and the audit judges them as a run of the calculus.  What has not reached the disk when a place dies
is a *tail*: if a record is lost, so are all that came after it.

===========================================  ==========================================================================
``boot(n)``                                  the place started for the n-th time; it lasts before anything else is done
``begin(t, parent)``                         a transaction of this place; a child depends on its parent (else None)
``send(t, seq, path, value)``                a message of t, on its way along the path (outbox)
``sent(t, seq)``                             the place at the end has it, and there it lasts
``deposit(channel, mid, sender, value)``     a message lies in a channel of this place
``take(t, channel, mid, sender)``            t took it: t depends on the sender
``pending(t)``                               t wants to commit; from here it neither takes nor sends
``prepared(attempt, coordinator, members,    members of this place that wait for the coordinator's word alone; ``needs``
needs)``                                     are transactions outside of the attempt that are committed
``given_up(attempt)``                        the coordinator gave the attempt up: its members are pending as before
``decide(attempt, members, participants)``   THE decision, at the coordinator: all members, here and elsewhere, commit
``commit(members, attempt)``                 members of this place are committed (``attempt`` None: without others)
``abort(t, why, back)``                      t is undone; ``back``, the messages it took, lie in their channels again
``end(attempt)``                             every participant has the commit of this attempt
``hand(what, outcome, who, when)``           somebody decided an attempt or a transaction by hand: commit or abort
``refused(what, source)``                    input that was not taken, and from whom (only so many are kept)
===========================================  ==========================================================================

A transaction is ``PLACE:BOOT:N``, a message ``PLACE:BOOT:N/SEQ``, an attempt ``PLACE:BOOT:aN`` (of its coordinator).
Because each start has its own number, none of them ever comes again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.errors import StateError, UsageError

try:
    import msgpack
except ImportError:
    raise UsageError("places need msgpack: pip install 'pellucid[places]'") from None

VERSION = 1  # of the log's format

FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "boot": (("n", "number"),),
    "begin": (("t", "id"), ("parent", "id?")),
    "send": (("t", "id"), ("seq", "number"), ("path", "path"), ("value", "any")),
    "sent": (("t", "id"), ("seq", "number")),
    "deposit": (("channel", "text"), ("mid", "mid"), ("sender", "id"), ("value", "any")),
    "take": (("t", "id"), ("channel", "text"), ("mid", "mid"), ("sender", "id")),
    "pending": (("t", "id"),),
    "prepared": (("attempt", "attempt"), ("coordinator", "text"), ("members", "ids"), ("needs", "ids")),
    "given_up": (("attempt", "attempt"),),
    "decide": (("attempt", "attempt"), ("members", "ids"), ("participants", "texts")),
    "commit": (("members", "ids"), ("attempt", "attempt?")),
    "abort": (("t", "id"), ("why", "text"), ("back", "mids")),
    "end": (("attempt", "attempt"),),
    "hand": (("what", "text"), ("outcome", "text"), ("who", "text"), ("when", "time")),
    "refused": (("what", "text"), ("source", "text")),
}

NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_ID = re.compile(rf"({NAME}):([1-9][0-9]{{0,17}}):([1-9][0-9]{{0,17}})")
_MID = re.compile(rf"({NAME}:[1-9][0-9]{{0,17}}:[1-9][0-9]{{0,17}})/([1-9][0-9]{{0,17}})")
_ATTEMPT = re.compile(rf"({NAME}):([1-9][0-9]{{0,17}}):a([1-9][0-9]{{0,17}})")


@dataclass(slots=True, repr=False)
class Record:
    """One line of a log; ``when`` is the time at which the log wrote it (seconds since 1970),
    ``seq`` its number there, from 1.  Neither is part of its meaning.

    >>> record = make("take", t="q:1:7", channel="requests", mid="p:1:3/1", sender="p:1:3")
    >>> record["t"], record.kind
    ('q:1:7', 'take')
    >>> Record.unpack(record.kind, record.pack()) == record
    True
    """

    kind: str
    fields: Mapping[str, Any]
    when: float = 0.0
    seq: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def pack(self) -> bytes:
        """The fields, in their order, as msgpack."""
        packed: bytes = msgpack.packb([self.fields[name] for name, _ in FIELDS[self.kind]])
        return packed

    @staticmethod
    def unpack(kind: str, data: bytes, when: float = 0.0, seq: int = 0) -> Record:
        """From msgpack; what is no record of this format is a `StateError`.

        >>> Record.unpack("pending", b"123")
        Traceback (most recent call last):
        pellucid.errors.StateError: not a record 'pending': unpack(b) received extra data.
        """
        try:
            found = msgpack.unpackb(data, strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise StateError(f"not a record {kind!r}: {error}") from None
        names = FIELDS.get(kind)
        if names is None or not isinstance(found, list) or len(found) != len(names):
            raise StateError(f"not a record {kind!r}: this version knows no such record with these fields")
        fields = {}
        for (name, what), value in zip(names, found, strict=True):
            if not FITS[what](value):
                raise StateError(f"not a record {kind!r}: its {name} is {str(value)[:80]!r}, expected: {what}")
            fields[name] = value
        return Record(kind, fields, when, seq)

    def __repr__(self) -> str:
        """As in the table above, without the tokens of paths."""
        shown = {name: plain(v) if what == "path" else v for (name, what), v in self._pairs()}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _pairs(self) -> list[tuple[tuple[str, str], Any]]:
        return [(pair, self.fields[pair[0]]) for pair in FIELDS[self.kind]]


def make(kind: str, **fields: Any) -> Record:
    """A record; fields that may be missing are None.

    >>> make("begin", t="p:1:1")
    begin(t='p:1:1', parent=None)
    """
    return Record(kind, {name: fields[name] if what[-1] != "?" else fields.get(name) for name, what in FIELDS[kind]})


def fits(what: str, value: Any) -> bool:
    """Whether a value, of a record or of a message, is what it should be.

    >>> fits("id", "p:1:7"), fits("id", "p:1:a7"), fits("attempt", "p:1:a7"), fits("id?", None), fits("number", True)
    (True, False, True, True, False)
    """
    return FITS[what](value)


STATES = ("active", "pending", "prepared", "committed", "aborted")


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _all(one: Callable[[Any], bool], least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and len(value) >= least and all(map(one, value))


def _or_none(one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or one(value)


def _step(step: Any) -> bool:
    return (
        isinstance(step, (list, tuple))
        and len(step) == 3
        and step[0] in ("in", "out")
        and isinstance(step[1], str)
        and isinstance(step[2], bytes)
    )


def _status(status: Any) -> bool:
    return (
        isinstance(status, (list, tuple))
        and len(status) == 3
        and fits("id", status[0])
        and status[1] in STATES
        and fits("ids", status[2])
    )


_id, _mid, _attempt, _text = _matches(_ID), _matches(_MID), _matches(_ATTEMPT), lambda value: isinstance(value, str)
FITS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "number": lambda value: type(value) is int and 0 <= value < 2**63,
    "time": lambda value: type(value) in (int, float),
    "flag": lambda value: type(value) is bool,
    "text": _text,
    "texts": _all(_text),
    "id": _id,
    "id?": _or_none(_id),
    "ids": _all(_id),
    "mid": _mid,
    "mids": _all(_mid),
    "attempt": _attempt,
    "attempt?": _or_none(_attempt),
    "path": _all(_step, 1),
    "statuses": _all(_status),
}


def plain(path: Any) -> str:
    """A path in words, without its tokens.

    >>> plain([["out", "agent", b"secret"], ["in", "airline", b"secret"], ["in", "requests", b"secret"]])
    'out agent.in airline.in requests'
    """
    return ".".join(f"{move} {name}" for move, name, _ in path)


# ------------------------------------------------------------ names


def place_of(name: str) -> str:
    """The place of a transaction, a message or an attempt: where it began.

    >>> place_of("hotel:2:7"), place_of("hotel:2:7/1"), place_of("hotel:2:a7")
    ('hotel', 'hotel', 'hotel')
    """
    return name.partition(":")[0]


def order(name: str) -> tuple[str, int, int]:
    """The order of transactions, and of attempts: by place, then as they began.

    >>> sorted(["q:1:1", "p:1:10", "p:1:9"], key=order)
    ['p:1:9', 'p:1:10', 'q:1:1']
    """
    place, boot, number = name.split(":")
    return place, int(boot), int(number.lstrip("a"))


def sender_of(mid: str) -> tuple[str, int]:
    """The transaction that sent a message, and which of its messages it is.

    >>> sender_of("p:1:3/2")
    ('p:1:3', 2)
    """
    t, _, seq = mid.partition("/")
    return t, int(seq)
