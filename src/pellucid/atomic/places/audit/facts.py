"""What the logs say as a whole, without any order: nothing committed and aborted, nothing committed that needs what is
not (A1, A3, C1), and whether what was decided by hand agrees.  A second look, by the definitions alone.  And whether a
log is an older copy, by what is known of it outside of all logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pellucid.atomic.places.audit.judge import Judge
from pellucid.atomic.places.audit.order import needs_of
from pellucid.atomic.places.audit.shapes import Row, start_in
from pellucid.atomic.places.audit.words import Findings, Violation
from pellucid.atomic.places.core.copies import an_older_copy
from pellucid.atomic.places.core.state import has_record
from pellucid.atomic.places.records import stand_of


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
    """Whether what somebody decided is what was decided."""
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
