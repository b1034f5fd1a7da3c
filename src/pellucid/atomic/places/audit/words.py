"""What an audit of places can say no to, in words: one entry for each way in which recorded logs can be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The checks, in the order in which they are reported, with the rule of the calculus that each of them carries.
CHECKS = {
    "well-formed": "every log is whole: numbers without holes, kinds and fields that are known, restarts that count "
    "up, names that never come again",
    "messages": "a message is sent before it is there, is there once, where its path leads, with what was sent",
    "takes": "who takes a message runs here, and the message stands in the channel (RED RECV)",
    "commits": "who commits has asked to, is not decided, and needs nobody who is not committed (RED COMMIT)",
    "aborts": "who aborts is not committed, and what it took stands there again, once (RED ABORT, CASCADE, CRASH)",
    "sets": "a set over several places is prepared by all, decided once, on record before anybody commits, and whole",
    "by hand": "what was decided by hand agrees with what was decided",
    "causal": "nothing is committed and aborted, and nothing committed depends on what is not (A1, A3, C1)",
    "calculus": "the run, step by step, is one of the extended calculus",
}

# Kinds that break a rule of the calculus, and not only one of the protocol: there the two judges must agree.
RULES = frozenset(
    [
        "take-nothing", "take-elsewhere", "take-twice", "take-decided", "take-aborted-sender", "commit-decided",
        "commit-not-pending", "commit-needs", "commit-nobody", "commit-repeated",
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
    "deposit-nothing": ("messages", "nobody has sent it: no log has {other} until then"),
    "deposit-sender": ("messages", "it is said to be of {u}, and its name says {t}"),
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
    "commit-nobody": ("commits", "nobody commits: a set has at least one transaction"),
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
    "prepared-nobody": ("sets", "nobody of {other} is at home here"),
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
