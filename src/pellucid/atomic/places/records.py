"""What a place writes down: the only things that change its state, in the order in which they happened.

A place's log is a sequence of records.  Its state is what they say (`pellucid.atomic.places.core.state`), a restart
reads them again, and the audit judges them as a run of the calculus.  What has not reached the disk when a place dies
is a *tail*: if a record is lost, so are all that came after it.

===========================================  ==========================================================================
``boot(n, mark)``                            the place started for the n-th time; it lasts before anything else is done
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
``hand(what, outcome, who, when)``           somebody decided an attempt or a transaction by hand: commit or abort;
                                             also one that was lost with a log, after that was accepted
``refused(what, source)``                    input that was not taken, and from whom (only so many are kept)
``met(place, stand)``                        how far the log of another place was, as it said: START/RECORDS
``behind(stand, source)``                    another place has heard of a record that this log lacks: it is an older
                                             copy; nothing that others rely on is done from here
``accepted(stands, who, when)``              somebody accepted that this is lost: the place goes on
===========================================  ==========================================================================

A transaction is ``PLACE:START:N``, a message ``PLACE:START:N/SEQ``, an attempt ``PLACE:START:aN`` (of its coordinator).
A start is its number and a mark that was drawn for it, ``3-k7q2mx``: a log that comes back from an older copy counts
its starts once more, and still no name ever comes again.  (Starts in logs of before marks are a number alone.)
"""

from __future__ import annotations

import re
import secrets
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
    "boot": (("n", "number"), ("mark", "mark?")),
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
    "met": (("place", "text"), ("stand", "stand")),
    "behind": (("stand", "stand"), ("source", "text")),
    "accepted": (("stands", "stands"), ("who", "text"), ("when", "time")),
}

NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_N = "[1-9][0-9]{0,17}"
_MARK = "[0-9a-z]{1,16}"
_ID = re.compile(rf"{NAME}:{_N}(-{_MARK})?:{_N}")
_MID = re.compile(rf"{NAME}:{_N}(-{_MARK})?:{_N}/{_N}")
_ATTEMPT = re.compile(rf"{NAME}:{_N}(-{_MARK})?:a{_N}")
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # none that are read for another


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
        if kind == "boot" and isinstance(found, list) and len(found) == 1:
            found.append(None)  # of before marks
        if names is None or not isinstance(found, list) or len(found) != len(names):
            raise StateError(f"not a record {kind!r}: this version knows no such record with these fields")
        fields = {}
        for (name, what), value in zip(names, found, strict=True):
            if not FITS[what](value):
                raise StateError(f"not a record {kind!r}: its {name} is {shortly(value)!r}, expected: {what}")
            fields[name] = value
        return Record(kind, fields, when, seq)

    def __repr__(self) -> str:
        """As in the table above, without the tokens of paths."""
        shown = {name: plain(v) if what == "path" else v for (name, what), v in self._pairs() if what != "mark?" or v}
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


_stand = _matches(re.compile(rf"{_N}(-{_MARK})?/{_N}"))
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
    "start": _matches(re.compile(rf"{_N}(-{_MARK})?")),
    "stand": _stand,
    "stands": _all(_stand),
    "mark?": _or_none(_matches(re.compile(_MARK))),
    "path": _all(_step, 1),
    "statuses": _all(_status),
}


def plain(path: Any) -> str:
    """A path in words, without its tokens.

    >>> plain([["out", "agent", b"secret"], ["in", "airline", b"secret"], ["in", "requests", b"secret"]])
    'out agent.in airline.in requests'
    """
    return ".".join(f"{move} {name}" for move, name, _ in path)


def shortly(value: Any) -> str:
    """A wrong value, for a log or for people; of bytes, and of what may hold some, only the kind: they may be tokens.

    >>> shortly("p:1:x"), shortly(7), shortly([["in", "hotel", b"secret"]])
    ('p:1:x', '7', 'a list')
    """
    return str(value)[:60] if isinstance(value, (str, int, float)) or value is None else f"a {type(value).__name__}"


# ------------------------------------------------------------ names


def place_of(name: str) -> str:
    """The place of a transaction, a message or an attempt: where it began.

    >>> place_of("hotel:2:7"), place_of("hotel:2:7/1"), place_of("hotel:2:a7")
    ('hotel', 'hotel', 'hotel')
    """
    return name.partition(":")[0]


def new_mark() -> str:
    """What tells a start from any other of the same number: one of a billion.

    >>> fits("mark?", new_mark()), len(new_mark())
    (True, 6)
    """
    return "".join(secrets.choice(_LETTERS) for _ in range(6))


def start_of(name: str) -> str:
    """The start of its place in which a transaction, a message or an attempt was named.

    >>> start_of("hotel:2-k7q2mx:7/1"), start_of("hotel:2:a7")
    ('2-k7q2mx', '2')
    """
    return name.split(":")[1]


def start_text(n: int, mark: str | None) -> str:
    """A start as it is in names.

    >>> start_text(2, "k7q2mx"), start_text(2, None)
    ('2-k7q2mx', '2')
    """
    return f"{n}-{mark}" if mark else str(n)


def stand_of(stand: str) -> tuple[str, int]:
    """The start of a stand, and how many records there were.

    >>> stand_of("3-k7q2mx/120"), in_words("3-k7q2mx/120")
    (('3-k7q2mx', 120), 'records up to 120 of start 3-k7q2mx')
    """
    start, _, n = stand.partition("/")
    return start, int(n)


def in_words(stand: str) -> str:
    """A stand, in words."""
    start, n = stand_of(stand)
    return f"records up to {n:,} of start {start}"


def order(name: str) -> tuple[str, int, str, int]:
    """The order of transactions, and of attempts: by place, then as they began.

    >>> sorted(["q:1-b:1", "p:1-b:10", "p:1-b:9", "p:2-a:1", "p:1:1"], key=order)
    ['p:1:1', 'p:1-b:9', 'p:1-b:10', 'p:2-a:1', 'q:1-b:1']
    """
    place, start, number = name.split(":")
    boot, _, mark = start.partition("-")
    return place, int(boot), mark, int(number.lstrip("a"))


def sender_of(mid: str) -> tuple[str, int]:
    """The transaction that sent a message, and which of its messages it is.

    >>> sender_of("p:1:3/2")
    ('p:1:3', 2)
    """
    t, _, seq = mid.partition("/")
    return t, int(seq)
