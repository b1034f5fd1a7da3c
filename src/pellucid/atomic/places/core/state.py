"""The durable state of a place: what its records say.  A running place changes it by the same `State.apply` that reads
a log again after a crash, so that nothing can change it without a record.
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid.errors import StateError, UsageError

# What a place writes down: the only things that change its state, in the order in which they happened.
#
# A place's log is a sequence of records.  Its state is what they say (`pellucid.atomic.places.core.state`), a restart
# reads them again, and the audit judges them as a run of the calculus.  What has not reached the disk when a place dies
# is a *tail*: if a record is lost, so are all that came after it.
#
# ===========================================
# ==========================================================================
# ``boot(n, mark)``                            the place started for the n-th time; durable before anything else is done
# ``begin(t, parent)``                         a transaction of this place; a child depends on its parent (else None)
# ``send(t, seq, path, value)``                a message of t, on its way along the path (outbox)
# ``sent(t, seq)``                             the place at the end has it, and there it is durable
# ``deposit(channel, mid, sender, value)``     a message lies in a channel of this place
# ``take(t, channel, mid, sender)``            t took it: t depends on the sender
# ``pending(t)``                               t wants to commit; from here it neither takes nor sends
# ``prepared(attempt, coordinator, members,    members of this place that wait for the coordinator's word alone;
# ``needs``
# needs)``                                     are transactions outside of the attempt that are committed
# ``given_up(attempt)``                        the coordinator gave the attempt up: its members are pending as before
# ``decide(attempt, members, participants)``   THE decision, at the coordinator: all members, here and elsewhere,
# commit
# ``commit(members, attempt)``                 members of this place are committed (``attempt`` None: without others)
# ``abort(t, why, back)``                      t is undone; ``back``, the messages it took, lie in their channels
# again
# ``end(attempt)``                             every participant has the commit of this attempt
# ``hand(what, outcome, who, when)``           an attempt or a transaction was decided by hand: commit or abort;
#                                              also one that was lost with a log, after that was accepted
# ``refused(what, source)``                    input that was not taken, and from whom (only so many are kept)
# ``met(place, stand)``                        how far the log of another place was, as it said: START/RECORDS
# ``behind(stand, source)``                    another place has heard of a record that this log lacks: it is an
# older
#                                              copy; nothing that others rely on is done from here
# ``accepted(stands, who, when)``              an operator accepted that this is lost: the place resumes
# ===========================================
# ==========================================================================
#
# A transaction is ``PLACE:START:N``, a message ``PLACE:START:N/SEQ``, an attempt ``PLACE:START:aN`` (of its
# coordinator).  A start is its number and a mark that was drawn for it, ``3-k7q2mx``: a log that comes back from an
# older copy counts its starts once more, and still no name ever comes again.  (Starts in logs of before marks are a
# number alone.)

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


def summed(value: Any) -> int:
    """By what a message that comes again is known to be the same.

    >>> summed(b"seat 1A") == summed(b"seat 1A"), summed(b"seat 1A") == summed(b"seat 1B")
    (True, False)
    """
    return zlib.crc32(value if type(value) is bytes else repr(value).encode("utf-8", "backslashreplace"))


def _boot(start: str) -> int:
    return int(start.partition("-")[0])


def has_record(
    stand: str, ends: Mapping[str, int], accepted: Mapping[str, int], accepted_in: Mapping[str, int]
) -> bool:
    """Whether a log whose starts end so has the record that another place has heard of, or its loss was accepted.

    Who accepted the loss of a start accepted that of the starts before it, too: others may have heard of one of these
    last.  Only of those that cannot have come after that in this log: their number is another start's here.

    >>> ends, accepted, accepted_in = {"1-new": 7, "2-new": 9}, {"3-old": 50}, {"3-old": 1}
    >>> [has_record(stand, ends, accepted, accepted_in)
    ...  for stand in ("2-new/9", "2-new/10", "3-old/50", "3-old/51", "1-old/20", "2-old/40")]
    [True, False, True, False, True, False]
    """
    start, n = stand_of(stand)
    if n <= max(ends.get(start, 0), accepted.get(start, 0)):
        return True
    if start in ends or start in accepted:
        return False
    return any(lost not in ends and _boot(start) < _boot(lost) and _boot(start) <= m for lost, m in accepted_in.items())


class Lying(NamedTuple):
    """A message in a channel."""

    channel: str
    sender: str
    value: Any


class Own:
    """A transaction of this place that is not decided."""

    __slots__ = ("attempt", "laid", "needs", "pending", "seq", "since", "takes", "unsent")

    def __init__(self, since: float) -> None:
        self.pending = False
        self.attempt: str | None = None  # in which it is prepared
        self.needs: set[str] = set()  # whose messages it took; its parent
        self.takes: dict[str, Lying] = {}  # by message
        self.laid: dict[str, str] = {}  # its messages in channels of this place: their channels
        self.unsent: set[str] = set()  # its messages that are on their way
        self.seq = 0
        self.since = since

    @property
    def state(self) -> str:
        return "prepared" if self.attempt is not None else "pending" if self.pending else "active"


class Prepared(NamedTuple):
    """What waits for the word of a coordinator alone."""

    coordinator: str
    members: tuple[str, ...]
    since: float


class Decision(NamedTuple):
    """What was decided here; ``missing`` are participants that have not said that they have it."""

    members: tuple[str, ...]
    missing: set[str]
    since: float


class State:
    """The state of one place.

    >>> from pellucid.atomic.places.core.state import make
    >>> state = State("p")
    >>> for record in (make("boot", n=1), make("begin", t="p:1:1"), make("begin", t="p:1:2"),
    ...                make("pending", t="p:1:1"), make("commit", members=["p:1:1"])):
    ...     state.apply(record)
    >>> state.status("p:1:1"), state.status("p:1:2"), state.status("p:1:3")
    ('committed', 'active', 'aborted')
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.boot = 0
        self.start = ""  # its number and its mark, as in names
        self.starts: dict[str, int] = {}  # each with the number of its record
        self.ends: dict[str, int] = {}  # of starts before this one: the number of the last record
        self.records = 0
        self.met: dict[str, tuple[str, int]] = {}  # of other places: a start, and how many records last
        self.behind: dict[str, tuple[str, int]] = {}  # starts of which the log lacks records: who knows, and how many
        self.accepted: dict[str, int] = {}  # the same, after the loss was accepted
        self.accepted_in: dict[str, int] = {}  # of these: the number of the start in which it was
        self.noticed: dict[str, int] = {}  # of these: the record of the start in which it was noticed first
        self.count = 0  # transactions of this start
        self.live: dict[str, Own] = {}
        self.outcomes: dict[str, str | None] = {}  # None: committed; else why it aborted
        self.guessed: set[str] = set()  # aborted after a later start
        self.channels: dict[str, OrderedDict[str, Lying]] = {}
        self.known: dict[str, int] = {}  # every message that ever came, and a checksum of its value
        self.outbox: dict[str, tuple[Any, Any]] = {}  # path and value of messages that may not have come
        self.prepared: dict[str, Prepared] = {}
        self.decisions: dict[str, Decision] = {}  # that not all have
        self.decided: set[str] = set()  # attempts, as the coordinator
        self.over: dict[str, str] = {}  # attempts, as a participant: commit, given up, by hand
        self.handed: dict[str, str] = {}  # attempts that were decided by hand, and how
        self.refused = 0
        self.why: dict[str, int] = {}  # how many aborted, by reason
        self.commits = 0
        self._apply: dict[str, Callable[[Record], None]] = {
            kind: getattr(self, f"_{kind}")
            for kind in (
                "boot", "begin", "send", "sent", "deposit", "take", "pending", "prepared", "given_up", "decide",
                "commit", "abort", "end", "hand", "refused", "met", "behind", "accepted",
            )
        }  # fmt: skip

    def apply(self, record: Record) -> None:
        """The state after this record; a `StateError` if it cannot follow on those before it."""
        self.records += 1
        try:
            self._apply[record.kind](record)
        except KeyError as error:
            raise StateError(
                f"{record!r} of place {self.place!r} does not fit what is before it ({error.args[0]!r} is not there): "
                "the log is damaged; bring it back from a copy"
            ) from None

    def status(self, t: str) -> str:
        """Of a transaction of this place; one that is not known is aborted (it was lost with a tail)."""
        own = self.live.get(t)
        if own is not None:
            return own.state
        return "committed" if self.outcomes.get(t, "") is None else "aborted"

    def could_be(self, name: str) -> bool:
        """Whether this place, as far as its log goes, can have given out this name of a transaction (else the log is an
        older copy)."""
        if place_of(name) != self.place or name in self.live:
            return place_of(name) == self.place
        if name in self.outcomes and name not in self.guessed:
            return True
        return self.has_all_of(start_of(name), order(name)[3] <= self.count)

    def has_all_of(self, start: str, now: bool) -> bool:
        """Whether all that lasted of a start is in the log, as far as is known; of this start only if ``now``."""
        begun = self.starts.get(start)
        if begun is None or start in self.behind or start in self.accepted:
            return False
        for lost, noticed in self.noticed.items():
            if lost not in self.starts and begun < noticed and _boot(start) < _boot(lost):
                return False  # the copy ends in one of these; a start in which that was known came after the copy
        return start != self.start or now

    def lost(self, name: str) -> bool:
        """Whether what became of a transaction of this place is lost, was accepted so, and not decided by hand."""
        of_earlier = place_of(name) == self.place and start_of(name) != self.start
        return bool(self.accepted) and of_earlier and not self.could_be(name)

    def has(self, stand: str) -> bool:
        """Whether the record that another place has heard of is in the log, or its loss was accepted."""
        start, n = stand_of(stand)
        if start == self.start:
            return n <= max(self.records, self.accepted.get(start, 0))
        return has_record(stand, self.ends, self.accepted, self.accepted_in)

    def earlier(self, count: int) -> list[str]:
        """How many records there were of the last starts before this one; what was accepted as lost counts."""
        ends = {**self.ends, **{s: max(n, self.ends.get(s, 0)) for s, n in self.accepted.items() if s != self.start}}
        return [f"{start}/{n}" for start, n in list(ends.items())[-count:]]

    # ------------------------------------------------------------ records, one by one

    def _boot(self, record: Record) -> None:
        if record["n"] != self.boot + 1:
            raise StateError(f"{self.place!r}: {record!r} follows on start {self.boot}: records are missing")
        if self.boot:
            self.ends[self.start] = self.records - 1
        self.boot, self.count = record["n"], 0
        self.start = start_text(self.boot, record["mark"])
        self.starts[self.start] = self.records

    def _begin(self, record: Record) -> None:
        t = record["t"]
        place, _, _, number = order(t)
        if place != self.place or start_of(t) != self.start or number <= self.count or t in self.live:
            raise StateError(f"{self.place!r}: {record!r} in start {self.start}, after transaction {self.count}")
        self.count = number
        own = self.live[t] = Own(record.when)
        if record["parent"] is not None:
            own.needs.add(record["parent"])

    def _send(self, record: Record) -> None:
        own, mid = self.live[record["t"]], f"{record['t']}/{record['seq']}"
        own.seq = record["seq"]
        own.unsent.add(mid)
        self.outbox[mid] = record["path"], record["value"]

    def _sent(self, record: Record) -> None:
        self._arrived(f"{record['t']}/{record['seq']}", record["t"])

    def _arrived(self, mid: str, t: str) -> None:
        self.outbox.pop(mid, None)
        if t in self.live:
            self.live[t].unsent.discard(mid)

    def _deposit(self, record: Record) -> None:
        mid, channel, sender = record["mid"], record["channel"], record["sender"]
        self.known[mid] = summed(record["value"])
        self.channels.setdefault(channel, OrderedDict())[mid] = Lying(channel, sender, record["value"])
        if place_of(mid) == self.place:
            self._arrived(mid, sender)
            if sender in self.live:
                self.live[sender].laid[mid] = channel

    def _take(self, record: Record) -> None:
        own, mid = self.live[record["t"]], record["mid"]
        own.takes[mid] = self.channels[record["channel"]].pop(mid)
        own.needs.add(record["sender"])
        own.needs.discard(record["t"])

    def _pending(self, record: Record) -> None:
        own = self.live[record["t"]]
        own.pending, own.since = True, record.when

    def _prepared(self, record: Record) -> None:
        members, attempt = tuple(record["members"]), record["attempt"]
        for t in members:
            self.live[t].attempt = attempt
        self.prepared[attempt] = Prepared(record["coordinator"], members, record.when)

    def _given_up(self, record: Record) -> None:
        for t in self.prepared.pop(record["attempt"]).members:
            if t in self.live:
                self.live[t].attempt = None
        self.over[record["attempt"]] = "given up"

    def _decide(self, record: Record) -> None:
        attempt = record["attempt"]
        self.decisions[attempt] = Decision(tuple(record["members"]), set(record["participants"]), record.when)
        self.decided.add(attempt)

    def _commit(self, record: Record) -> None:
        attempt = record["attempt"]
        for t in record["members"]:
            del self.live[t]
            self.outcomes[t] = None
        self.commits += len(record["members"])
        if attempt is not None and self.prepared.pop(attempt, None) is not None:
            self.over[attempt] = "commit"

    def _abort(self, record: Record) -> None:
        """What it took lies in the channels again, in front (unless it cannot be taken); its own messages are gone."""
        t, why = record["t"], record["why"]
        own = self.live.pop(t)
        self.outcomes[t] = why
        if start_of(t) != self.start:
            self.guessed.add(t)
        reason = why.partition(" from ")[0].partition(":")[0]
        self.why[reason] = self.why.get(reason, 0) + 1
        for mid in reversed(record["back"]):
            lying = own.takes[mid]
            if lying.sender != t and not self.dead(lying.sender):
                channel = self.channels.setdefault(lying.channel, OrderedDict())
                channel[mid] = lying
                channel.move_to_end(mid, last=False)
        for mid, channel_name in own.laid.items():
            self.channels[channel_name].pop(mid, None)
        for mid in own.unsent:
            self.outbox.pop(mid, None)
        if own.attempt in self.prepared:  # by hand
            left = self.prepared[own.attempt]
            rest = tuple(m for m in left.members if m in self.live)
            if rest:
                self.prepared[own.attempt] = left._replace(members=rest)
            else:
                del self.prepared[own.attempt]
                self.over[own.attempt] = "by hand"

    def dead(self, sender: str) -> bool:
        """Whether a transaction of this place has aborted."""
        return place_of(sender) == self.place and sender not in self.live and self.outcomes.get(sender, "") is not None

    def _end(self, record: Record) -> None:
        self.decisions.pop(record["attempt"], None)

    def _hand(self, record: Record) -> None:
        what, outcome = record["what"], record["outcome"]
        if what in self.prepared:
            self.handed[what] = outcome
        elif fits("id", what) and self.lost(what):
            self.outcomes[what] = None if outcome == "commit" else "by hand"

    def _refused(self, record: Record) -> None:
        self.refused += 1

    def _met(self, record: Record) -> None:
        self.met[record["place"]] = stand_of(record["stand"])

    def _behind(self, record: Record) -> None:
        start, n = stand_of(record["stand"])
        self.behind[start] = record["source"], n
        self.noticed.setdefault(start, self.starts[self.start])

    def _accepted(self, record: Record) -> None:
        for start, n in map(stand_of, record["stands"]):
            self.behind.pop(start, None)
            self.accepted[start] = max(n, self.accepted.get(start, 0))
            self.accepted_in.setdefault(start, self.boot)


# What a place has, as plain data without any value of a user.

MINUTE = 60.0


def view(
    state: State, doubt: dict[str, Any], channels: Sequence[str], met: Mapping[str, tuple[str, int]]
) -> dict[str, Any]:
    """The counts of a place, and what it told of its doubts; no value, and no token.  ``met`` is what it has heard of
    other places, which can be newer than what it has written down of that."""
    undecided = {"active": 0, "pending": 0, "prepared": 0}
    taken: dict[str, int] = {}
    for own in state.live.values():
        undecided[own.state] += 1
        for lying in own.takes.values():
            taken[lying.channel] = taken.get(lying.channel, 0) + 1
    waiting = {channel: len(state.channels.get(channel, ())) for channel in channels}
    return {
        "starts": state.boot,
        "channels": {c: {"waiting": n, "at_least": n, "taken": taken.get(c, 0)} for c, n in waiting.items()},
        "undecided": undecided,
        "committed": state.commits,
        "aborted": dict(state.why),
        "outbox": len(state.outbox),
        "refused": state.refused,
        "behind": [{"stand": f"{start}/{n}", "by": source} for start, (source, n) in state.behind.items()],
        "accepted": [f"{start}/{n}" for start, n in state.accepted.items()],
        "accepted_in": dict(state.accepted_in),
        "met": {place: f"{start}/{n}" for place, (start, n) in met.items()},
        "ends": {**state.ends, state.start: state.records},
        "doubt": doubt,
    }


def commits_a_second(records: Iterable[Record], until: float | None = None) -> float:
    """Of the last minute before a time; of the last record, if none is given.

    >>> members = {"members": ["p:1:1", "p:1:2"], "attempt": None}
    >>> commits_a_second([Record("commit", members, at) for at in (10.0, 100.0, 130.0)], until=130.0)
    0.06666666666666667
    """
    times = [(record.when, len(record.fields["members"])) for record in records if record.kind == "commit"]
    if not times:
        return 0.0
    end = until if until is not None else max(when for when, _ in times)
    return sum(n for when, n in times if end - MINUTE <= when <= end) / MINUTE
