"""What a log may have lost: a place syncs when something must last; what it wrote since is a tail that dies with it.

If a record is lost, so are all that came after it in that start of the place.  So a transaction that never asked to
commit, or one of its messages, may be missing although others have seen it: it counts as crashed.  Whatever is followed
by something that is on record cannot have been lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.atomic.places.audit.shapes import Row, name_of, start_in


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
