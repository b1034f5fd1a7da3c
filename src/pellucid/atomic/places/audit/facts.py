"""What the logs say as a whole, without any order: nothing committed and aborted, nothing committed that needs what is
not (A1, A3, C1), and whether what was decided by hand agrees.  A second look, by the definitions alone."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.atomic.places.audit.judge import Judge
from pellucid.atomic.places.audit.order import needs_of
from pellucid.atomic.places.audit.shapes import Row
from pellucid.atomic.places.audit.words import Findings, Violation


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
