"""The literal interpreter over records: what each one may do, by the rules of the extended calculus and the protocol.

It goes through one run (`order`), keeps what stands in each channel and what every transaction has come to, and asks of
each record whether its rule allows it.  It continues after a violation as if the record were right, so that one fault
is reported once and where it is.  A set is committed when its decision is on record; the commits of its places follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pellucid.atomic.places.audit.records import (
    Findings,
    Row,
    Tails,
    Violation,
    cascade_of,
    home,
    leads_to,
    message_of,
    name_of,
    needs_of,
    start_in,
    stays,
)
from pellucid.atomic.places.core.commit import an_older_copy
from pellucid.atomic.places.core.state import has_record, stand_of

Status = Literal["active", "pending", "committed", "aborted"]
_SAYS = {"pending": "has asked to commit", "committed": "is committed", "aborted": "has aborted"}


@dataclass(slots=True)
class Transaction:
    """What a transaction has come to, and by which record."""

    status: Status
    since: Row
    boot: int
    needs: dict[str, str] = field(default_factory=dict)
    took: list[str] = field(default_factory=list)

    @property
    def says(self) -> str:
        """The same in words."""
        return f"{_SAYS.get(self.status, 'is running')}, {self.since.where}"


@dataclass(slots=True)
class Message:
    """A message that stands in a channel, or was taken from it."""

    channel: str
    sender: str
    value: Any
    deposit: Row
    taken: str = ""
    by: Row | None = None


@dataclass(slots=True)
class Attempt:
    """A set that is to commit: where it is prepared, what was decided, which places have committed."""

    prepared: dict[str, Row] = field(default_factory=dict)
    decided: Row | None = None
    done: set[str] = field(default_factory=set)
    given_up: dict[str, Row] = field(default_factory=dict)
    ended: Row | None = None


class Judge:
    """The state of a run, and a method for each kind of record."""

    def __init__(self, found: Findings, tree: Mapping[str, str | None], tails: Tails) -> None:
        self.found, self.tree, self.tails = found, tree, tails
        self.boots: dict[str, int] = {}
        self.starts: dict[str, str] = {}  # the same as it is in names
        self.transactions: dict[str, Transaction] = {}
        self.sends: dict[str, Row] = {}
        self.messages: dict[str, Message] = {}
        self.attempts: dict[str, Attempt] = {}
        self.deciding: dict[str, Row] = {}  # the last record of a place, if it is a decision
        self.here: dict[str, list[str]] = {}  # the messages of each that go no further than its own place
        self.arrived: dict[str, Row] = {}  # by whose record it is known that a message has arrived
        self.hands: list[Row] = []
        self.refused = 0
        self.lost = 0  # deposits whose sender forgot them with a tail: none can commit on them

    def step(self, row: Row) -> None:
        """One record."""
        decided = self.deciding.pop(row.place, None)
        if decided is not None:
            self._followed(decided, row)
        getattr(self, f"on_{row.kind}")(row, row.fields)

    def _no(self, kind: str, row: Row, t: str = "", u: str = "", other: str = "") -> None:
        self.found.add(Violation(kind, row.place, row.seq, row.kind, t, u, other))

    def _followed(self, decided: Row, row: Row) -> None:
        """Whether the coordinator commits its own with the decision: both records are one write."""
        name = decided.fields["attempt"]
        if row.kind != "commit" or row.fields.get("attempt") != name:
            for t in decided.fields["members"]:
                if home(t) == decided.place:
                    self._no("decide-alone", decided, t, other=f"{name}, and record {row.seq} ({row.kind}) follows")

    def _mine(self, row: Row, t: str) -> Transaction | None:
        """A transaction that this place may write about."""
        if home(t) != row.place:
            self._no("id-foreign", row, t, other=home(t))
            return None
        known = self.transactions.get(t)
        if known is None:
            self._no("unknown", row, t)
        return known

    # ---------------------------------------------------------------- a place and its transactions

    def on_boot(self, row: Row, f: Any) -> None:
        """A start: a transaction that ran and had not asked to commit can only abort from now on (CRASH)."""
        expected = self.boots.get(row.place, 0) + 1
        if f["n"] != expected and expected > 1:
            self._no("boot", row, other=str(expected))
        self.boots[row.place], self.starts[row.place] = f["n"], start_in(row)

    def on_begin(self, row: Row, f: Any) -> None:
        """RED CHILD, or a transaction of a program."""
        t, name = f["t"], name_of(f["t"])
        assert name is not None
        if name.place != row.place:
            self._no("id-foreign", row, t, other=name.place)
        elif name.start != self.starts.get(row.place):
            self._no("id-boot", row, t, other=f"{name.start}, and this is start {self.starts.get(row.place, 0)}")
        if t in self.transactions:
            self._no("id-twice", row, t, other=self.transactions[t].since.where)
            return
        made = self.transactions[t] = Transaction("active", row, name.boot)
        if u := f.get("parent"):
            parent = self.transactions.get(u)
            if u != t:
                made.needs[u] = "is its child"
            if u == t:
                self._no("begin-itself", row, t)
            elif parent is None or home(u) != row.place:
                self._no("begin-orphan", row, t, u, "never began here")
            elif parent.status == "aborted":
                self._no("begin-orphan", row, t, u, parent.says)

    def _runs(self, row: Row, t: str, known: Transaction, kind: str) -> bool:
        """Whether it may still do something."""
        if known.status in ("committed", "aborted"):
            self._no(kind, row, t, other=known.says)
        elif known.status == "active" and known.boot < self.boots.get(row.place, 0):
            self._no("stale", row, t)
        else:
            return True
        return False

    # ---------------------------------------------------------------- messages

    def on_send(self, row: Row, f: Any) -> None:
        """A message that will leave: it is on record before it does, and so before its sender commits."""
        t, mid = f["t"], f"{f['t']}/{f['seq']}"
        known = self._mine(row, t)
        if known is not None and self._runs(row, t, known, "send-decided") and known.status == "pending":
            self._no("send-decided", row, t, other=known.says)
        if mid in self.sends:
            self._no("send-twice", row, t, other=self.sends[mid].where)
        self.sends.setdefault(mid, row)
        if stays(row, self.tree):
            self.here.setdefault(t, []).append(mid)

    def on_deposit(self, row: Row, f: Any) -> None:
        """RED IN PLACE, RED OUT PLACE up to the channel."""
        mid = f["mid"]
        t, seq = message_of(mid) or ("", 0)
        if t != f["sender"]:
            self._no("deposit-sender", row, t, f["sender"])
        if mid in self.messages:
            self._no("deposit-twice", row, t, other=self.messages[mid].deposit.where)
            return
        sent = self.sends.get(mid)
        if sent is None and self.tails.unknown(t):
            self._no("start-unknown", row, t, other=home(t))
        elif sent is None and not self.tails.send_lost(t, seq):
            self._no("deposit-nothing", row, t, other=mid)
        elif sent is None:
            self.lost += 1
        else:
            to, channel = leads_to(sent, self.tree)
            if (to, channel) != (row.place, f["channel"]):
                self._no("deposit-elsewhere", row, t, other=f"{to}.{channel}, {sent.where}")
            if sent.fields["value"] != f["value"]:
                self._no("deposit-altered", row, t, other=sent.where)
        self.messages[mid] = Message(f["channel"], f["sender"], f["value"], row)

    def on_sent(self, row: Row, f: Any) -> None:
        """The far place has it."""
        mid = f"{f['t']}/{f['seq']}"
        if home(f["t"]) != row.place:
            self._no("id-foreign", row, f["t"], other=home(f["t"]))
        if mid not in self.messages:
            self._no("sent-nothing", row, f["t"], other=mid)
        elif (deposit := self.messages[mid].deposit).place == row.place:
            self._no("sent-here", row, f["t"], other=f"{mid}, {deposit.where}")
        elif mid in self.arrived:
            self._no("sent-twice", row, f["t"], other=f"{mid} has arrived, {self.arrived[mid].where}")
        self.arrived.setdefault(mid, row)

    def on_take(self, row: Row, f: Any) -> None:
        """RED RECV."""
        t, mid = f["t"], f["mid"]
        known = self._mine(row, t)
        if known is not None and self._runs(row, t, known, "take-decided") and known.status == "pending":
            self._no("take-pending", row, t, other=known.since.where)
        message, u = self.messages.get(mid), f["sender"]
        if message is None:
            self._no("take-nothing", row, t, other=mid)
        elif message.deposit.place != row.place or message.channel != f["channel"]:
            self._no("take-elsewhere", row, t, other=f"{message.deposit.place}.{message.channel}")
        elif message.taken:
            self._no("take-twice", row, t, message.taken, "" if message.by is None else message.by.where)
        elif message.sender != u:
            self._no("take-sender", row, t, u, message.sender)
        sender = self.transactions.get(u)
        if sender is not None and sender.status == "aborted" and home(u) == row.place:
            self._no("take-aborted-sender", row, t, u, sender.since.where)
        if message is not None and not message.taken:
            message.taken, message.by = t, row
        if known is not None:
            known.took.append(mid)
            if u != t:
                known.needs.setdefault(u, f"took {mid}")

    # ---------------------------------------------------------------- commit

    def on_pending(self, row: Row, f: Any) -> None:
        """It asks to commit."""
        known = self._mine(row, f["t"])
        if known is None or not self._runs(row, f["t"], known, "pending-late"):
            return
        if known.status == "pending":
            self._no("pending-late", row, f["t"], other=known.says)
        else:
            known.status, known.since = "pending", row

    def _commit(self, row: Row, members: list[str]) -> None:
        """RED COMMIT: the members at once; whatever they depend on is committed, or among them."""
        if not members:
            self._no("commit-empty", row)
        self._once(row, members, "commit-repeated")
        for t in members:
            known = self.transactions.get(t)
            if known is None:
                self._no("unknown", row, t)
            elif known.status in ("committed", "aborted"):
                self._no("commit-decided", row, t, other=known.says)
            elif known.status != "pending":
                self._no("commit-not-pending", row, t)
            for u, why in known.needs.items() if known else ():
                other = self.transactions.get(u)
                if u not in members and (other is None or other.status != "committed"):
                    self._no("commit-needs", row, t, u, why)
            for mid in self.here.get(t, ()):
                if mid not in self.messages:
                    self._no("commit-undelivered", row, t, other=f"{mid}, {self.sends[mid].where}")
        for t in members:
            if (known := self.transactions.get(t)) is not None and known.status != "aborted":
                known.status, known.since = "committed", row

    def _once(self, row: Row, members: list[str], kind: str) -> None:
        """Whether each is there once."""
        for t, many in Counter(members).items():
            if many > 1:
                self._no(kind, row, t)

    def on_prepared(self, row: Row, f: Any) -> None:
        """A place promises to do what will be decided about its members."""
        attempt = self.attempts.setdefault(f["attempt"], Attempt())
        if row.place in attempt.prepared:
            self._no("prepared-twice", row, other=f["attempt"])
        attempt.prepared.setdefault(row.place, row)
        self._once(row, list(f["members"]), "set-twice")
        mine = [t for t in f["members"] if home(t) == row.place]
        if not mine:
            self._no("prepared-elsewhere", row, other=", ".join(f["members"]))
        for t in mine:
            known = self._mine(row, t)
            if known is not None and known.status != "pending":
                self._no("prepared-not-pending", row, t, other=known.says)

    def on_given_up(self, row: Row, f: Any) -> None:
        """The coordinator gives an attempt up: those that prepared it wait as before."""
        attempt = self.attempts.setdefault(f["attempt"], Attempt())
        if row.place not in attempt.prepared:
            self._no("given-up-unprepared", row, other=f["attempt"])
        attempt.given_up.setdefault(row.place, row)

    def on_decide(self, row: Row, f: Any) -> None:
        """The decision: from here on the set is committed, wherever that is known."""
        name, members = f["attempt"], list(f["members"])
        attempt = self.attempts.setdefault(name, Attempt())
        if attempt.decided is not None:
            self._no("decide-twice", row, other=name)
        for place in f["participants"]:
            if place not in attempt.prepared and place != row.place:
                self._no("decide-unprepared", row, other=f"{name} with {place}")
        for place, prepared in sorted(attempt.prepared.items()):
            here, there = ({t for t in one if home(t) == place} for one in (members, prepared.fields["members"]))
            if here != there:
                these, those = (", ".join(sorted(one)) or "none" for one in (here, there))
                self._no("decide-members", row, other=f"{these}, and {place} prepared {those}, {prepared.where}")
        for t in members:
            if home(t) not in f["participants"] and home(t) != row.place:
                self._no("decide-absent", row, t, other=home(t))
        attempt.decided = self.deciding[row.place] = row
        self._commit(row, members)

    def on_commit(self, row: Row, f: Any) -> None:
        """One place alone, or what was decided for several."""
        name, members = f.get("attempt"), list(f["members"])
        for t in members:
            self._mine(row, t)
        if name is None:
            self._commit(row, members)
            return
        attempt = self.attempts.setdefault(name, Attempt())
        if attempt.decided is None:
            for t in members:
                self._no("commit-undecided", row, t, other=name)
            self._commit(row, members)
        else:
            self._once(row, members, "set-twice")
            decided = [t for t in attempt.decided.fields["members"] if home(t) == row.place]
            for t in sorted({*decided} - {*members}):
                self._no("commit-half", row, t, other=name)
            for t in sorted({*members} - {*decided}):
                self._no("commit-more", row, t, other=name)
            if row.place in attempt.done:
                for t in members:
                    self._no("commit-decided", row, t, other=f"was by {name}")
        if row.place not in attempt.prepared and (attempt.decided is None or attempt.decided.place != row.place):
            self._no("commit-unprepared", row, other=name)
        attempt.done.add(row.place)

    def on_end(self, row: Row, f: Any) -> None:
        """All have committed: none will ask any more."""
        attempt = self.attempts.get(f["attempt"], Attempt())
        if attempt.decided is None or attempt.decided.place != row.place:
            self._no("end-undecided", row, other=f["attempt"])
            return
        places = {home(t) for t in attempt.decided.fields["members"]}
        for place in sorted(places - attempt.done):
            self._no("end-early", row, other=f"{place} ({f['attempt']})")
        if attempt.ended is not None:
            self._no("end-twice", row, other=f"{f['attempt']}, which ended {attempt.ended.where}")
        attempt.ended = attempt.ended or row

    # ---------------------------------------------------------------- abort

    def on_abort(self, row: Row, f: Any) -> None:
        """RED ABORT, CASCADE and CRASH: what it took stands there again, as a multiset."""
        t = f["t"]
        if home(t) != row.place:
            self._no("id-foreign", row, t, other=home(t))
            return
        known = self.transactions.get(t)
        if known is None:
            self._no("abort-unknown", row, t)
            return
        if known.status in ("committed", "aborted"):
            self._no("abort-decided", row, t, other=known.says)
            return
        if u := cascade_of(f.get("why")):
            other = self.transactions.get(u)
            if not (other is not None and other.status == "aborted") and not self.tails.lost_abort(u):
                self._no("cascade-nothing", row, t, u)
            if u not in known.needs:
                self._no("cascade-other", row, t, u)
        if f.get("back") is not None:
            self._back(row, t, known, list(f["back"]))
        for mid in known.took:
            message = self.messages.get(mid)
            if message is not None and message.taken == t:
                message.taken, message.by = "", None
        known.status, known.since = "aborted", row

    def _back(self, row: Row, t: str, known: Transaction, back: list[str]) -> None:
        """What it put back is what it took.  Messages of who has aborted here may be left out: none can take them."""

        def dead(mid: str) -> bool:
            sender = mid.rpartition("/")[0]
            other = self.transactions.get(sender)
            return sender == t or (home(sender) == row.place and other is not None and other.status == "aborted")

        took = Counter(mid for mid in known.took if not dead(mid))
        put = Counter(mid for mid in back if not dead(mid))
        for mid in sorted((took - put).keys()):
            self._no("abort-keeps", row, t, other=mid)
        for mid in sorted((put - took).keys()):
            self._no("abort-twice-back" if mid in took else "abort-other-back", row, t, other=mid)
        for mid in sorted((Counter(back) - Counter(known.took)).keys()):
            if dead(mid):
                self._no("abort-dead-back", row, t, other=mid)

    # ---------------------------------------------------------------- by hand, refused

    def on_hand(self, row: Row, f: Any) -> None:
        """It was decided by hand; whether that agrees is asked at the end."""
        self.hands.append(row)

    def on_refused(self, row: Row, f: Any) -> None:
        """Hostile input, which changed nothing."""
        self.refused += 1

    def on_met(self, row: Row, f: Any) -> None:
        """Another place said how far its log was: so far it must be."""
        if f["place"] in self.tree and self.tails.lacks(f["place"], f["stand"]):
            start, _, n = f["stand"].rpartition("/")
            self._no("older-copy", row, other=f"{f['place']} lacks records up to {int(n):,} of its start {start}")

    def on_behind(self, row: Row, f: Any) -> None:
        """The place was told the same."""
        start, _, n = f["stand"].rpartition("/")
        what = f"it lacks records up to {int(n):,} of its start {start}"
        self._no("behind", row, other=f"{what}, which {f['source']} has heard of")

    def on_accepted(self, row: Row, f: Any) -> None:
        """The loss was accepted; the place resumes, and what is lost is lost."""

    # ---------------------------------------------------------------- at the end

    def at_the_end(self) -> None:
        """What only the whole run tells: no place heard that a decided attempt is given up."""
        for name, attempt in self.attempts.items():
            for row in attempt.given_up.values() if attempt.decided is not None else ():
                assert attempt.decided is not None
                self._no("given-up-decided", row, other=f"{name}, which was decided, {attempt.decided.where}")

    def doubt(self) -> dict[str, str]:
        """Transactions that are prepared and that their place has neither committed nor aborted, with their attempt."""
        out: dict[str, str] = {}
        for name, attempt in self.attempts.items():
            for place, row in attempt.prepared.items():
                for t in row.fields["members"] if place not in {*attempt.done, *attempt.given_up} else ():
                    known = self.transactions.get(t)
                    if home(t) == place and known and (attempt.decided is not None or known.status == "pending"):
                        out[t] = name
        return out

    def standing(self) -> dict[tuple[str, str], list[tuple[str, Any]]]:
        """What can be taken for good: messages of committed ones that were not taken, by place and channel, each
        with its name."""
        out: dict[tuple[str, str], list[tuple[str, Any]]] = {}
        for mid, message in self.messages.items():
            sender = self.transactions.get(message.sender)
            if not message.taken and sender is not None and sender.status == "committed":
                out.setdefault((message.deposit.place, message.channel), []).append((mid, message.value))
        return out


# What the logs say as a whole, without any order: nothing committed and aborted, nothing committed that needs what is
# not (A1, A3, C1), and whether what was decided by hand agrees.  A second look, by the definitions alone.  And whether
# a log is an older copy, by what is known of it outside of all logs.


class Stand(NamedTuple):
    """How far the log of a place was, and who says so: another place, or itself by the note beside its log."""

    place: str
    stand: str
    by: str


def causal(rows: Iterable[Row], found: Findings) -> None:
    """A1, A3 and C1.

    >>> found = Findings(5)
    >>> causal([Row("p", 1, "commit", {"members": ["p:1:1"]}), Row("p", 2, "abort", {"t": "p:1:1"})], found)
    >>> print(found.first[0])
    p, record 1 (commit): p:1:1 is committed, and aborted, by record 2 of p (A1)
    """
    rows = list(rows)
    needs = needs_of(iter(rows))
    committed: dict[str, Row] = {}
    aborted: dict[str, Row] = {}
    for row in rows:
        if row.kind in ("commit", "decide"):
            for t in row.fields["members"]:
                committed.setdefault(t, row)
        elif row.kind == "abort":
            aborted.setdefault(row.fields["t"], row)
    readers: dict[str, list[str]] = {}
    for t, on in needs.items():
        for u in on:
            readers.setdefault(u, []).append(t)
    doomed, todo = {t: t for t in aborted}, list(aborted)
    while todo:
        u = todo.pop()
        for t in readers.get(u, ()):
            if t not in doomed:
                doomed[t] = doomed[u]
                todo.append(t)
    for t, row in committed.items():
        if t in aborted:
            found.add(Violation("a1", row.place, row.seq, row.kind, t, other=aborted[t].where))
        elif t in doomed:
            found.add(Violation("c1", row.place, row.seq, row.kind, t, doomed[t]))
        for u in needs.get(t, {}):
            if u not in committed:
                found.add(Violation("a3", row.place, row.seq, row.kind, t, u))


def by_hand(judge: Judge, found: Findings) -> None:
    """Whether what was decided by hand is what was decided."""
    for row in judge.hands:
        what, outcome = row.fields["what"], row.fields["outcome"]
        attempt, known = judge.attempts.get(what), judge.transactions.get(what)
        other = ""
        if attempt is not None and attempt.decided is not None and outcome == "abort":
            other = f"abort, and {what} was decided, {attempt.decided.where}"
        elif attempt is not None and attempt.decided is None and outcome == "commit":
            other = f"commit, and {what} was never decided"
        elif known is not None and known.status == {"commit": "aborted", "abort": "committed"}.get(outcome):
            other = f"{outcome}, and {what} {known.says}"
        if other:
            found.add(Violation("hand-against", row.place, row.seq, row.kind, what, other=other))


def older_copy(place: str, rows: Sequence[Row], stands: Iterable[Stand], found: Findings) -> None:
    """Whether the log of a place has what is known of it; a loss that was accepted counts.

    >>> rows = [Row("p", 1, "boot", {"n": 1, "mark": "x"}), Row("p", 2, "begin", {"t": "p:1-x:1"})]
    >>> found = Findings(5)
    >>> older_copy("p", rows, [Stand("p", "1-x/2", "p"), Stand("p", "1-x/9", "q"), Stand("q", "1-y/9", "p")], found)
    >>> print(found.first[0])
    p, record 2 (begin): the log of 'p' is an older copy: it lacks records up to 9 of start 1-x, which 'q' has heard of
    """
    ends: dict[str, int] = {}
    accepted: dict[str, int] = {}
    accepted_in: dict[str, int] = {}
    now, boot = "", 0
    for row in rows:
        if row.kind == "boot":
            now, boot = start_in(row), row.fields["n"]
        elif row.kind == "accepted":
            for start, n in map(stand_of, row.fields["stands"]):
                accepted[start] = max(n, accepted.get(start, 0))
                accepted_in.setdefault(start, boot)
        ends[now] = row.seq
    for known in stands:
        if known.place == place and not has_record(known.stand, ends, accepted, accepted_in):
            judged = [row for row in rows if found.upto is None or row.seq <= found.upto.get(place, 0)]
            last = judged[-1] if judged else Row(place, 0, "none", {})
            words = an_older_copy(place, known.stand, known.by)
            found.add(Violation("less-than-known", place, last.seq, last.kind, other=words))
            return
