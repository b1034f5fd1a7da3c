"""What lasts of a place: what its records say.  A running place changes it by the same `State.apply` that reads a log
again after a crash, so that nothing can change it without a record.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pellucid.atomic.places.records import Record, fits, order, place_of, stand_of, start_of, start_text
from pellucid.errors import StateError


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
    """Whether a log whose starts end so has the record that somebody has heard of, or its loss was accepted.

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

    >>> from pellucid.atomic.places.records import make
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
        self.accepted: dict[str, int] = {}  # the same, after somebody accepted the loss
        self.accepted_in: dict[str, int] = {}  # of these: the number of the start in which somebody did
        self.noticed: dict[str, int] = {}  # of these: the record of the start in which it was noticed first
        self.count = 0  # transactions of this start
        self.live: dict[str, Own] = {}
        self.outcomes: dict[str, str | None] = {}  # None: committed; else why it aborted
        self.guessed: set[str] = set()  # aborted after a later start
        self.channels: dict[str, OrderedDict[str, Lying]] = {}
        self.known: dict[str, int] = {}  # every message that ever came, and a checksum of its value
        self.outbox: dict[str, tuple[Any, Any]] = {}  # path and value of messages that may not have come
        self.prepared: dict[str, Prepared] = {}
        self.decisions: dict[str, Decision] = {}  # that not everybody has
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
        """Of a transaction of this place; one that nobody has heard of is aborted (it was lost with a tail)."""
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
        """Whether what became of a transaction of this place is lost, which was accepted, and nobody has decided it."""
        of_earlier = place_of(name) == self.place and start_of(name) != self.start
        return bool(self.accepted) and of_earlier and not self.could_be(name)

    def has(self, stand: str) -> bool:
        """Whether the record that somebody has heard of is in the log, or its loss was accepted."""
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
        """What it took lies in the channels again, in front (unless nobody can take it); its own messages are gone."""
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
