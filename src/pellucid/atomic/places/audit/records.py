"""What an audit of places can say no to, in words: one entry for each way in which recorded logs can be wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# The checks, in the order in which they are reported, with the rule of the calculus that each of them carries.
CHECKS = {
    "well-formed": "every log is whole: numbers without holes, kinds and fields that are known, restarts that count "
    "up, names that never come again",
    "messages": "a message is sent before it is there, is there once, where its path leads, with what was sent",
    "takes": "who takes a message runs here, and the message stands in the channel (RED RECV)",
    "commits": "who commits has asked to, is not decided, and needs only committed ones (RED COMMIT)",
    "aborts": "who aborts is not committed, and what it took stands there again, once (RED ABORT, CASCADE, CRASH)",
    "sets": "a set over several places is prepared by all, decided once, on record before any commits, and whole",
    "by hand": "what was decided by hand agrees with what was decided",
    "causal": "nothing is committed and aborted, and nothing committed depends on what is not (A1, A3, C1)",
    "calculus": "the run, step by step, is one of the extended calculus",
}

# Kinds that break a rule of the calculus, and not only one of the protocol: there the two judges must agree.
RULES = frozenset(
    [
        "take-nothing", "take-elsewhere", "take-twice", "take-decided", "take-aborted-sender", "commit-decided",
        "commit-not-pending", "commit-needs", "commit-empty", "commit-repeated",
        "abort-decided", "abort-keeps", "abort-twice-back", "abort-other-back",
        "cascade-nothing", "begin-orphan",
    ]
)  # fmt: skip

# kind: (check, what is wrong).  {t} is the transaction, {u} another one, {other} what else there is to say.
KINDS: dict[str, tuple[str, str]] = {
    "hole": ("well-formed", "its number should be {other}: a record is missing, or is there twice"),
    "unknown-kind": ("well-formed", "there is no record of kind {other}"),
    "shape": ("well-formed", "{other}"),
    "no-boot": ("well-formed", "a log begins with boot 1, and this one with {other}"),
    "boot": ("well-formed", "this start should be number {other}: starts of a place count up by one"),
    "older-copy": ("well-formed", "the log of {other}, which was told here: it came back from an older copy"),
    "behind": ("well-formed", "this log came back from an older copy: {other}"),
    "less-than-known": ("well-formed", "{other}"),
    "start-unknown": ("well-formed", "{t} is of a start that the log of {other} does not have: it is an older copy"),
    "id-foreign": ("well-formed", "{t} is not at home here: only {other} may write this about it"),
    "id-boot": ("well-formed", "{t} has the number of start {other}: a name of another start may come twice"),
    "id-twice": ("well-formed", "{t} began before, {other}: names of transactions never come again"),
    "unknown": ("well-formed", "{t} never began"),
    "stale": ("well-formed", "{t} ran before this start of the place and had not asked to commit: it can only abort"),
    "begin-orphan": ("well-formed", "its parent {u} {other}"),
    "begin-itself": ("well-formed", "{t} begins as a child of itself"),
    "send-decided": ("messages", "{t} sends, and {other}"),
    "send-twice": ("messages", "{t} has sent a message with this number before, {other}"),
    "deposit-nothing": ("messages", "it was not sent: no log has {other} until then"),
    "deposit-sender": ("messages", "it claims to be of {u}, and its name says {t}"),
    "deposit-twice": ("messages", "the message was deposited before, {other}"),
    "deposit-elsewhere": ("messages", "it was sent to {other}"),
    "deposit-altered": ("messages", "it is not what was sent, {other}"),
    "sent-nothing": ("messages", "it says that {other} has arrived, and no log has it until then"),
    "sent-here": ("messages", "it says that another place has a message that stayed here: {other}"),
    "sent-twice": ("messages", "it says again that {other}"),
    "take-nothing": ("takes", "{t} takes {other}, which is not in the channel and never was"),
    "take-elsewhere": ("takes", "{t} takes a message that is in {other}"),
    "take-twice": ("takes", "{t} takes a message that {u} has taken, {other}"),
    "take-decided": ("takes", "{t} takes a message, and {other}"),
    "take-pending": ("takes", "{t} takes a message after it asked to commit, {other}"),
    "take-sender": ("takes", "{t} takes it as a message of {u}, and it is one of {other}"),
    "take-aborted-sender": ("takes", "{t} takes a message of {u}, which has aborted here, {other}"),
    "pending-late": ("commits", "{t} asks to commit, and {other}"),
    "commit-not-pending": ("commits", "{t} commits and has not asked to"),
    "commit-decided": ("commits", "{t} commits, and {other}"),
    "commit-needs": ("commits", "{t} commits and needs {u} ({other}), which is not committed until then"),
    "commit-empty": ("commits", "an empty set commits: it has at least one transaction"),
    "commit-repeated": ("commits", "{t} commits more than once in one set"),
    "commit-undelivered": ("commits", "{t} commits, and a message that it sent to its own place is not there: {other}"),
    "abort-unknown": ("aborts", "{t} aborts, and never began"),
    "abort-decided": ("aborts", "{t} aborts, and {other}"),
    "abort-keeps": ("aborts", "{t} aborts, and does not put back {other}, which it took"),
    "abort-twice-back": ("aborts", "{t} aborts, and puts back {other} more often than it took it"),
    "abort-other-back": ("aborts", "{t} aborts, and puts back {other}, which it did not take"),
    "abort-dead-back": ("aborts", "{t} aborts, and puts back {other}, which it did not take, and whose sender aborted"),
    "cascade-nothing": ("aborts", "{t} aborts because of {u}, which has not aborted until then"),
    "cascade-other": ("aborts", "{t} aborts because of {u}, on which it does not depend"),
    "set-twice": ("sets", "{t} is in the set more than once"),
    "prepared-twice": ("sets", "{other} was prepared before: attempts never come again"),
    "prepared-not-pending": ("sets", "{t} is prepared, and {other}"),
    "prepared-elsewhere": ("sets", "none of {other} is at home here"),
    "given-up-unprepared": ("sets", "it gives up {other}, which was not prepared here"),
    "given-up-decided": ("sets", "it gives up {other}"),
    "decide-twice": ("sets", "{other} was decided before: attempts never come again"),
    "decide-unprepared": ("sets", "it decides {other}, and has not been prepared there until then"),
    "decide-members": ("sets", "it decides about {other}"),
    "decide-absent": ("sets", "{t} is at home at {other}, which is not asked"),
    "decide-alone": ("sets", "{t} is at home here and is decided, and its commit does not follow at once: {other}"),
    "commit-undecided": ("sets", "{t} commits by {other}, which is not decided on record until then"),
    "commit-half": ("sets", "{other} decided that {t} commits, too: half of a set is committed"),
    "commit-more": ("sets", "{t} commits by {other}, which did not decide about it"),
    "commit-unprepared": ("sets", "it commits by {other}, which was not prepared here"),
    "end-undecided": ("sets", "it ends {other}, which was not decided here"),
    "end-early": ("sets", "it ends before {other} has committed"),
    "end-twice": ("sets", "it ends {other}"),
    "hand-against": ("by hand", "it says {other}"),
    "a1": ("causal", "{t} is committed, and aborted, {other} (A1)"),
    "a3": ("causal", "{t} is committed and depends on {u}, which is not (A3)"),
    "c1": ("causal", "{t} is committed, and doomed by {u}, which aborted (C1)"),
    "not-a-step": ("calculus", "no rule of the calculus lets this happen: {other}"),
}


@dataclass(frozen=True, order=True)
class Violation:
    """One thing that is wrong in the logs, and where.

    >>> print(Violation("commit-needs", "airline", 7, "commit", t="airline:1:2", u="hotel:1:1", other="took it"))
    airline, record 7 (commit): airline:1:2 commits and needs hotel:1:1 (took it), which is not committed until then
    """

    kind: str
    place: str
    seq: int
    record: str = ""
    t: str = ""
    u: str = ""
    other: str = ""

    @property
    def check(self) -> str:
        """The check that it breaks."""
        return KINDS[self.kind][0]

    @property
    def why(self) -> str:
        """The reason, in words."""
        return KINDS[self.kind][1].format(t=self.t, u=self.u, other=self.other)

    def __str__(self) -> str:
        return f"{self.place}, record {self.seq} ({self.record}): {self.why}"

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        out = {"check": self.check, "kind": self.kind, "place": self.place, "record": self.seq, "of": self.record,
               "transaction": self.t, "other": self.u, "why": self.why}  # fmt: skip
        return {name: value for name, value in out.items() if value != ""}


class Findings:
    """What was found: how often each kind, and the first few of each."""

    def __init__(self, limit: int, upto: dict[str, int] | None = None) -> None:
        self.limit, self.upto = limit, upto  # records after these are of a moment that not every log knows
        self.counts: dict[str, int] = {}
        self.first: list[Violation] = []

    def add(self, violation: Violation) -> None:
        """One more."""
        if self.upto is not None and violation.seq > self.upto.get(violation.place, 0):
            return
        count = self.counts[violation.kind] = self.counts.get(violation.kind, 0) + 1
        if count <= self.limit:
            self.first.append(violation)

    def by_check(self) -> dict[str, int]:
        """How many there are in each check."""
        out: dict[str, int] = {}
        for kind, count in self.counts.items():
            out[KINDS[kind][0]] = out.get(KINDS[kind][0], 0) + count
        return out


# What a record looks like: its kind, its fields, the names in it; and which of them make sense at all.
#
# Everything here is read from the outside: the audit does not believe the code that wrote a log.


class Row(NamedTuple):
    """A record of a place's log."""

    place: str
    seq: int
    kind: str
    fields: Mapping[str, Any]

    @property
    def where(self) -> str:
        """Where it stands, in words."""
        return f"by record {self.seq} of {self.place}"


class Name(NamedTuple):
    """The name of a transaction: its place, the start of the place (a number, and a mark if it has one), a number."""

    place: str
    boot: int
    n: int
    mark: str = ""

    @property
    def start(self) -> str:
        """The start, as it is written in names."""
        return f"{self.boot}-{self.mark}" if self.mark else str(self.boot)


def name_of(t: str) -> Name | None:
    """The parts of a transaction's name; None if it is none.

    >>> name_of("air:line:2:17")
    Name(place='air:line', boot=2, n=17, mark='')
    >>> name_of("airline:2-k7q2mx:17").start
    '2-k7q2mx'
    >>> name_of("airline:2") is None, name_of("airline:0:1") is None
    (True, True)
    """
    place, colon, rest = t.rpartition(":")
    place, other, boot = place.rpartition(":")
    boot, dash, mark = boot.partition("-")
    if not (colon and other and place and _counts(boot) and _counts(rest)) or int(boot) < 1:
        return None
    if dash and not _mark(mark):
        return None
    return Name(place, int(boot), int(rest), mark)


def start_in(row: Row) -> str:
    """The start that a `boot` says, as it is written in names."""
    return Name("", row.fields["n"], 0, row.fields.get("mark") or "").start


def home(t: str) -> str:
    """The place at which a transaction is at home."""
    found = name_of(t)
    return found.place if found else ""


def message_of(mid: str) -> tuple[str, int] | None:
    """The transaction that sent a message, and the number it gave it.

    >>> message_of("airline:1:2/3"), message_of("airline:1:2"), message_of("x/3")
    (('airline:1:2', 3), None, None)
    """
    t, slash, seq = mid.rpartition("/")
    return (t, int(seq)) if slash and _counts(seq) and name_of(t) else None


def _counts(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _mark(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isalnum() and value == value.lower()


def _stand(value: Any) -> bool:
    start, slash, n = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    boot, dash, mark = start.partition("-")
    return bool(slash) and _counts(boot) and _counts(n) and (not dash or _mark(mark))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _transaction(value: Any) -> bool:
    return isinstance(value, str) and name_of(value) is not None


def _message(value: Any) -> bool:
    return isinstance(value, str) and message_of(value) is not None


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _all(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(of, value))


def _maybe(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or of(value)


def _any(value: Any) -> bool:
    return True


def _path(value: Any) -> bool:
    steps = [isinstance(step, (list, tuple)) and len(step) >= 2 and step[0] in ("in", "out") for step in value or ()]
    return bool(steps) and all(steps) and value[-1][0] == "in"


# kind: its fields, each with what it is in words and how that is seen.  Those with ? may be missing.
_Field = tuple[str, Callable[[Any], bool]]
_T: _Field = ("the name of a transaction (PLACE:START:N)", _transaction)
_MID: _Field = ("the name of a message (PLACE:START:N/SEQ)", _message)
_N: _Field = ("a number", _number)
_TEXT: _Field = ("a text", _text)
_STAND: _Field = ("a start and a number of records (START/N)", _stand)
_SET: _Field = ("a list of names of transactions", _all(_transaction))
_ANY: _Field = ("anything", _any)
FIELDS: dict[str, dict[str, _Field]] = {
    "boot": {"n": _N, "mark?": ("letters and digits, or nothing", _maybe(_mark))},
    "begin": {"t": _T, "parent?": ("the name of a transaction, or nothing", _maybe(_transaction))},
    "send": {"t": _T, "seq": _N, "path": ("a path that ends in a channel", _path), "value": _ANY},
    "sent": {"t": _T, "seq": _N},
    "deposit": {"channel": _TEXT, "mid": _MID, "sender": _T, "value": _ANY},
    "take": {"t": _T, "channel": _TEXT, "mid": _MID, "sender": _T},
    "pending": {"t": _T},
    "prepared": {"attempt": _TEXT, "coordinator": _TEXT, "members": _SET, "needs?": _ANY},
    "decide": {"attempt": _TEXT, "members": _SET, "participants": ("a list of places", _all(_text))},
    "commit": {"members": _SET, "attempt?": ("an attempt, or nothing", _maybe(_text))},
    "abort": {"t": _T, "why?": _ANY, "back?": ("a list of names of messages", _maybe(_all(_message)))},
    "given_up": {"attempt": _TEXT},
    "end": {"attempt": _TEXT},
    "hand": {"what": _TEXT, "outcome": _TEXT, "who?": _ANY, "when?": _ANY},
    "refused": {},
    "met": {"place": _TEXT, "stand": _STAND},
    "behind": {"stand": _STAND, "source": _TEXT},
    "accepted": {"stands": ("a list of stands", _all(_stand)), "who?": _ANY, "when?": _ANY},
}


def rows_of(place: str, records: Iterable[tuple[int, str, Mapping[str, Any]]], found: Findings) -> list[Row]:
    """The records of one log that make sense; what does not is reported.

    >>> found = Findings(9)
    >>> rows = rows_of("p", [(1, "boot", {"n": 1}), (3, "take", {"t": "p:1:1"}), (4, "tkae", {})], found)
    >>> [row.kind for row in rows]
    ['boot']
    >>> for one in found.first:
    ...     print(one)
    p, record 3 (take): its number should be 2: a record is missing, or is there twice
    p, record 3 (take): it has no channel: expected a text
    p, record 4 (tkae): there is no record of kind 'tkae'
    """
    out: list[Row] = []
    expected = 1
    for seq, kind, fields in records:
        if seq != expected:
            found.add(Violation("hole", place, seq, kind, other=str(expected)))
        expected = seq + 1
        if kind not in FIELDS:
            found.add(Violation("unknown-kind", place, seq, kind, other=repr(kind)))
            continue
        wrong = _wrong(kind, fields)
        if wrong:
            found.add(Violation("shape", place, seq, kind, other=wrong))
            continue
        if not out and (kind != "boot" or fields["n"] != 1):
            what = f"boot {fields['n']}" if kind == "boot" else f"a record of kind {kind}"
            found.add(Violation("no-boot", place, seq, kind, other=what))
        out.append(Row(place, seq, kind, fields))
    return out


def leads_to(row: Row, tree: Mapping[str, str | None]) -> tuple[str, str]:
    """The place and the channel to which the path of a `send` leads: out of its place as often as it says, then in.

    >>> row = Row("p", 1, "send", {"path": [["out", "p", b"-"], ["in", "q", b"-"], ["in", "c", b"-"]]})
    >>> leads_to(row, {"p": None, "q": None})
    ('q', 'c')
    """
    at: str | None = row.place
    *steps, last = row.fields["path"]
    for move, name, *_ in steps:
        at = tree.get(name) if move == "out" else name
    return at or "nowhere", last[1]


def stays(row: Row, tree: Mapping[str, str | None]) -> bool:
    """Whether the path of a `send` touches no other place: it is deposited with the record that it was sent.

    >>> def sent(*path): return Row("p", 1, "send", {"path": [step.split() for step in path]})
    >>> tree = {"p": None, "q": None}
    >>> [stays(sent(*path), tree) for path in (["in c"], ["out p", "in p", "in c"], ["out p", "in q", "in c"])]
    [True, True, False]
    """
    at: str | None = row.place
    for move, name, *_ in row.fields["path"][:-1]:
        at = tree.get(name) if move == "out" else name
        if at not in (None, row.place):
            return False
    return at == row.place


def _wrong(kind: str, fields: Mapping[str, Any]) -> str:
    for name, (words, fits) in FIELDS[kind].items():
        own = name.rstrip("?")
        if own not in fields:
            if name == own:
                return f"it has no {own}: expected {words}"
        elif not fits(fields[own]):
            return f"its {own} is {fields[own]!r}: expected {words}"
    return ""


def cascade_of(why: Any) -> str:
    """From whom an abort came by cascade; nothing if it did not.

    >>> cascade_of("cascade from hotel:1:2"), cascade_of("asked")
    ('hotel:1:2', '')
    """
    text = why if isinstance(why, str) else ""
    before, word, u = text.partition("cascade from ")
    return u.split()[0] if word and not before and u.split() else ""


# What a log may have lost: a place syncs when something must last; what it wrote since is a tail that dies with it.
#
# If a record is lost, so are all that came after it in that start of the place.  So a transaction that never asked to
# commit, or one of its messages, may be missing although others have seen it: it counts as crashed.  Whatever is
# followed by something that is on record cannot have been lost.


class Tails:
    """What is on record of every start of every place.

    >>> rows = [Row("p", 1, "boot", {"n": 1, "mark": "x"}), Row("p", 2, "begin", {"t": "p:1-x:2"})]
    >>> tails = Tails(rows)
    >>> [tails.lost(t) for t in ("p:1-x:3", "p:1-x:1", "p:1-y:3", "p:1:3", "p:2:1", "q:1:1")]
    [True, False, False, False, False, False]
    >>> tails.lacks("p", "1-x/2"), tails.lacks("p", "1-x/3"), tails.lacks("p", "1-y/1")
    (False, True, True)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._last: dict[tuple[str, str], int] = {}  # the last record of each start of each place
        self._begun: dict[tuple[str, str], int] = {}  # the last transaction of each start
        self._known: set[str] = set()
        self._sent: dict[str, int] = {}
        self._settled: set[str] = set()  # asked to commit, or aborted in its own start: what it did before is on record
        self._aborted: set[str] = set()
        now: dict[str, str] = {}
        for row in rows:
            f = row.fields
            if row.kind == "boot":
                now[row.place] = start_in(row)
            if row.place in now:
                self._last[row.place, now[row.place]] = row.seq
            match row.kind:
                case "begin" if (name := name_of(f["t"])) is not None:
                    self._known.add(f["t"])
                    self._begun[name.place, name.start] = max(name.n, self._begun.get((name.place, name.start), 0))
                case "send":
                    self._sent[f["t"]] = max(f["seq"], self._sent.get(f["t"], 0))
                case "pending":
                    self._settled.add(f["t"])
                case "commit" | "decide":
                    self._settled.update(f["members"])
                case "abort" if (name := name_of(f["t"])) is not None:
                    self._aborted.add(f["t"])
                    if name.start == now.get(name.place):
                        self._settled.add(f["t"])

    def lost(self, t: str) -> bool:
        """Whether all that was written about a transaction may have been lost."""
        name = name_of(t)
        if name is None or t in self._known or t in self._settled or (name.place, name.start) not in self._last:
            return False
        return name.n > self._begun.get((name.place, name.start), 0)

    def lacks(self, place: str, stand: str) -> bool:
        """Whether a log lacks a record of which another place has heard: it lasted, so no crash has lost it."""
        start, _, n = stand.rpartition("/")
        return int(n) > self._last.get((place, start), 0)

    def unknown(self, t: str) -> bool:
        """Whether a name is of a start that the log of its place does not have."""
        name = name_of(t)
        return name is not None and (name.place, name.start) not in self._last

    def send_lost(self, t: str, seq: int) -> bool:
        """Whether the record of a message may have been lost."""
        if t not in self._known:
            return self.lost(t)
        return t not in self._settled and seq > self._sent.get(t, -1)

    def lost_abort(self, t: str) -> bool:
        """Whether the abort of a transaction may have been lost: it never asked to commit, and nothing says how it
        ended."""
        return self.lost(t) or (t in self._known and t not in self._settled and t not in self._aborted)


# Many logs, one run: the records of all places in an order in which causes come before effects.
#
# A log is a sequence; between logs nothing is known but what had to happen first: a message is deposited after it was
# sent, a set is decided after all have prepared it, a transaction commits after those it needs.  Clocks are not asked.
# Any order that keeps this is a run as good as the real one.  Where there is none, because an effect stands before its
# cause, a record goes ahead without its cause, and the rules say what is wrong with it.

Key = tuple[str, ...]  # something that happens: ("sent", message), ("committed", transaction) …


def needs_of(rows: Iterator[Row]) -> dict[str, dict[str, str]]:
    """u ⇝ t by all logs: for each t those it needs, and why in words: it took a message of u, or is its child."""
    needs: dict[str, dict[str, str]] = {}
    for row in rows:
        f = row.fields
        if row.kind == "take" and f["sender"] != f["t"]:
            needs.setdefault(f["t"], {}).setdefault(f["sender"], f"took {f['mid']}")
        elif row.kind == "begin" and f.get("parent"):
            needs.setdefault(f["t"], {}).setdefault(f["parent"], "is its child")
    return needs


def happens(row: Row) -> list[Key]:
    """What happens with a record."""
    f = row.fields
    match row.kind:
        case "send":
            return [("sent", f"{f['t']}/{f['seq']}")]
        case "deposit":
            return [("deposited", f["mid"])]
        case "pending":
            return [("pending", f["t"])]
        case "prepared":
            return [("prepared", f["attempt"], row.place)]
        case "decide":
            return [("decided", f["attempt"]), *(("committed", t) for t in f["members"])]
        case "commit" if f.get("attempt") is None:
            return [("committed", t) for t in f["members"]]
        case "commit":
            return [("done", f["attempt"], row.place)]
        case "abort":
            return [("aborted", f["t"])]
    return []


def causes(row: Row, needs: Mapping[str, Mapping[str, str]]) -> Iterator[Key]:
    """What must have happened before a record."""
    f = row.fields
    match row.kind:
        case "deposit":
            yield "sent", f["mid"]
        case "take":
            yield "deposited", f["mid"]
        case "sent":
            yield "deposited", f"{f['t']}/{f['seq']}"
        case "prepared":
            yield from (("pending", t) for t in f["members"])
        case "decide":
            yield from (("prepared", f["attempt"], place) for place in f["participants"])
            yield from _needed(f["members"], needs)
        case "commit" if f.get("attempt") is None:
            yield from _needed(f["members"], needs)
        case "commit":
            yield "decided", f["attempt"]
        case "abort":
            if u := cascade_of(f.get("why")):
                yield "aborted", u
                yield "last", u  # its abort may have been lost with a tail: then after all that is on record of it
        case "end":
            pass  # who has committed is seen when its turn comes: see `_ends`


def _needed(members: Sequence[str], needs: Mapping[str, Mapping[str, str]]) -> Iterator[Key]:
    for t in members:
        yield "pending", t
        yield from (("committed", u) for u in needs.get(t, {}) if u not in members)


def one_run(logs: Mapping[str, Sequence[Row]]) -> Iterator[Row]:
    """The records of all logs as one run.

    >>> a = [Row("a", 1, "boot", {"n": 1}), Row("a", 2, "abort", {"t": "a:1:1", "why": "cascade from b:1:1"})]
    >>> b = [Row("b", 1, "boot", {"n": 1}), Row("b", 2, "abort", {"t": "b:1:1", "why": "asked"})]
    >>> [(row.place, row.kind) for row in one_run({"a": a, "b": b})]
    [('a', 'boot'), ('b', 'boot'), ('b', 'abort'), ('a', 'abort')]
    """
    needs = needs_of(row for rows in logs.values() for row in rows)
    ends = _ends(logs)
    lasts: dict[str, Row] = {}
    for rows in logs.values():
        lasts.update((row.fields["t"], row) for row in rows if row.kind in ("begin", "send", "take", "pending"))
    first: dict[Key, str] = {}  # where something happens, if it does at all
    for place, rows in logs.items():
        for row in rows:
            for key in happens(row):
                first.setdefault(key, place)
    first.update((("last", t), row.place) for t, row in lasts.items())
    happened: set[Key] = set()
    at = dict.fromkeys(logs, 0)
    waiting: dict[Key, list[str]] = {}
    blocked: dict[str, Key] = {}
    ready = deque(sorted(logs))
    while ready or blocked:
        if not ready:  # an effect stands before its cause
            place = _culprit({p: first[key] for p, key in blocked.items()}, {p: logs[p][at[p]].kind for p in blocked})
            waiting[blocked.pop(place)].remove(place)
            row = logs[place][at[place]]
            yield from _go(row, place, at, lasts, happened, waiting, blocked, ready)
            ready.append(place)
            continue
        place = ready.popleft()
        while at[place] < len(logs[place]):
            row = logs[place][at[place]]
            wanted = ends.get(row.fields["attempt"], ()) if row.kind == "end" else causes(row, needs)
            missing = next((key for key in wanted if key in first and key not in happened), None)
            if missing is not None:
                blocked[place] = missing
                waiting.setdefault(missing, []).append(place)
                break
            yield from _go(row, place, at, lasts, happened, waiting, blocked, ready)


def _culprit(waits: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    """Logs that wait for each other, each at its next record: which goes ahead without its cause?  One of those that
    wait in a circle, and there a decision before anything else: others only wait for them.

    >>> _culprit({"a": "b", "b": "c", "c": "b"}, {"a": "commit", "b": "deposit", "c": "commit"})
    'c'
    """
    seen: list[str] = []
    place = min(waits)
    while place not in seen:
        seen.append(place)
        place = waits[place]
    circle = seen[seen.index(place) :]
    return min(circle, key=lambda p: (kinds[p] not in ("commit", "decide", "abort", "end"), p))


def _go(
    row: Row, place: str, at: dict[str, int], lasts: dict[str, Row], happened: set[Key],
    waiting: dict[Key, list[str]], blocked: dict[str, Key], ready: deque[str],
) -> Iterator[Row]:  # fmt: skip
    yield row
    at[place] += 1
    t = row.fields.get("t", "")
    for key in [*happens(row), *([("last", t)] if lasts.get(t) is row else [])]:
        happened.add(key)
        for other in waiting.pop(key, ()):
            del blocked[other]
            ready.append(other)


def _ends(logs: Mapping[str, Sequence[Row]]) -> dict[str, list[Key]]:
    """What must have happened before an attempt ends: all its places have committed."""
    out: dict[str, list[Key]] = {}
    for rows in logs.values():
        for row in rows:
            if row.kind == "decide":
                places = {home(t) for t in row.fields["members"]}
                out[row.fields["attempt"]] = [("done", row.fields["attempt"], place) for place in sorted(places)]
    return out
