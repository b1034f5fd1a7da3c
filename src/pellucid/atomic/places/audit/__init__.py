"""Did this network keep the promise?  The audit of the logs of places.

A place writes down what it does before others hear of it, so the logs of a network *are* the run: begin, send, take,
commit, abort.  The audit puts them into one order in which causes come before effects (`order`), goes through it record
by record with the rules of the extended calculus and of the protocol (`judge`), looks at the whole once more by the
definitions (`facts`), and replays small runs on the machine of the calculus itself (`calculus`).  Each check can say
no, and then names the place and the record.

Every prefix of a run is a run: a network that was killed, or still runs, is audited as far as it is on record.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.atomic.places.audit.judge import Judge, Stand, by_hand, causal, older_copy
from pellucid.atomic.places.audit.records import CHECKS, Findings, Row, Tails, Violation, one_run, rows_of
from pellucid.atomic.places.client import Place
from pellucid.atomic.places.log import count_records, each_record, lost_log, noted
from pellucid.atomic.places.network import Network
from pellucid.atomic.places.processes import running
from pellucid.errors import PellucidError, StateError
from pellucid.internal.model import Judgement, Status
from pellucid.internal.model.sheet import versioned
from pellucid.internal.model.verdict import check_lines

if TYPE_CHECKING:
    from pellucid.atomic.running import NetworkRun

__all__ = ["PlacesAudit", "Row", "Violation", "audit", "audit_logs"]

# The logs of a network, read without disturbing it.
#
# Places may be running.  First it is noted how far each log is, then all are read: whatever a record that was there at
# the first look depends on was there before it, and so is there at the second.  Only what was there at the first is
# judged; the rest serves as evidence.  How far each log was, by the note beside it and by what processes that run have
# heard, is asked before that: a log that has less is an older copy.

Record = tuple[int, str, Mapping[str, Any]]


class Logs(NamedTuple):
    """What there is of a network: its tree, the records of every log, how far each was before any was read, and how
    far each must be."""

    tree: dict[str, str | None]
    records: dict[str, list[Record]]
    upto: dict[str, int]
    stands: list[Stand]


def read_network(folder: str | os.PathLike[str]) -> Logs:
    """All that the audit looks at."""
    network = Network.load(folder)
    for name in network.places:
        if (lost := lost_log(network, name)) is not None:
            raise StateError(str(lost))
    there = [name for name in network.places if _there(network, name)]
    if not there:
        raise StateError(f"{folder}: no place of this network has a log: none was ever started")
    stands = list(_stands(network))
    upto = {name: _count(network, name) for name in there}
    logs = {name: _records(network, name) for name in there}
    return Logs(network.tree, {name: logs.get(name, []) for name in network.places}, upto, stands)


def _stands(network: Network) -> Iterator[Stand]:
    """How far logs were, beside what other logs say of that; notes first."""
    for name in network.places:
        if (stand := noted(network.folder_of(name))) is not None:
            yield Stand(name, stand, name)
    for name in network.places:
        if running(network, name):
            with suppress(PellucidError), Place(network, name) as connection:  # it has heard more than it has written
                for other, stand in connection.ask("view")["met"].items():
                    yield Stand(other, stand, name)


def _there(network: Network, name: str) -> bool:
    where = network.log_of(name)
    return "://" in str(where) or Path(where).exists()


def _count(network: Network, name: str) -> int:
    where = network.log_of(name)
    if isinstance(where, Path):
        with suppress(sqlite3.Error):  # who reads it says what is wrong
            return count_records(where)
    return sum(1 for _ in each_record(where, name))


def _records(network: Network, name: str) -> list[Record]:
    found = each_record(network.log_of(name), name)
    return [(number, record.kind, record.fields) for number, record in enumerate(found, 1)]


@dataclass(frozen=True)
class PlacesAudit(Judgement):
    """The answer of an audit; true if everything holds.

    ``violations`` has the first few of each kind, ``counts`` how many there are in each check.  ``standing`` is what
    can be taken for good: for each place and channel the messages of committed transactions, each with its name.
    """

    places: int
    records: int
    restarts: int
    transactions: Mapping[str, str]  # each with what it has come to
    doubt: Mapping[str, str]  # unresolved transactions, and by which attempt
    checks: tuple[str, ...]
    counts: Mapping[str, int]
    violations: tuple[Violation, ...]
    standing: Mapping[tuple[str, str], list[tuple[str, Any]]]
    replay: NetworkRun | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def status(self) -> Status:
        """Proved: nothing is wrong."""
        return "refuted" if any(self.counts.values()) else "proved"

    def count(self, status: str) -> int:
        """How many transactions have come to this."""
        return sum(found == status for found in self.transactions.values())

    def __str__(self) -> str:
        rate = f", {self.records / self.seconds:,.0f} records/s" if self.seconds > 0 else ""
        lines = [f"{self.records:,} records of {self.places} places ({self.seconds:.2f} s{rate})", self._story()]
        lines += check_lines(self.checks, CHECKS, self.counts, self.violations)
        lines += [f"  note: {note}" for note in self.notes]
        lines.append("The network kept the promise." if self.proved else "The network broke the promise.")
        return "\n".join(lines)

    def _story(self) -> str:
        words = [f"{self.count(status):,} {status}" for status in ("committed", "aborted", "pending", "active")]
        doubt = f" ({len(self.doubt):,} unresolved)" if self.doubt else ""
        again = f"{self.restarts:,} restart{'s' if self.restarts != 1 else ''}"
        return f"{len(self.transactions):,} transactions: {', '.join(words)}{doubt}; {again}"

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        statuses = ("committed", "aborted", "pending", "active")
        return {
            "status": self.status, "holds": self.holds, "seconds": round(self.seconds, 6), "places": self.places,
            "records": self.records, "restarts": self.restarts,
            "transactions": {status: self.count(status) for status in statuses}, "doubt": dict(self.doubt),
            "checks": {check: self.counts.get(check, 0) for check in self.checks},
            "violations": [v.document() for v in self.violations], "replayed": self.replay is not None,
            "notes": list(self.notes),
        }  # fmt: skip

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        return versioned({"verb": "audit", **self.document()}, indent=indent)


def audit_logs(
    tree: Mapping[str, str | None],
    logs: Mapping[str, Iterable[Record]],
    *,
    limit: int = 5,
    upto: Mapping[str, int] | None = None,
    replay: bool = True,
    stands: Sequence[Stand] = (),
) -> PlacesAudit:
    """Audit logs: ``tree`` has for each place the one around it, ``logs`` its records (number, kind, fields).

    ``upto``: of logs that were still written to, how far each was before any was read; what comes after serves as
    evidence and is not judged.  ``replay``: whether a small run is replayed on the machine of the calculus, too.
    ``stands``: how far logs were, as is known beside them; one that has less is an older copy.

    >>> bought = [(1, "boot", {"n": 1}), (2, "begin", {"t": "shop:1:1"}), (3, "pending", {"t": "shop:1:1"}),
    ...           (4, "commit", {"members": ["shop:1:1"]})]
    >>> audit_logs({"shop": None}, {"shop": bought}).holds
    True
    >>> undone = [*bought, (5, "abort", {"t": "shop:1:1", "why": "crash", "back": []})]
    >>> print(audit_logs({"shop": None}, {"shop": undone}).violations[0])
    shop, record 5 (abort): shop:1:1 aborts, and is committed, by record 4 of shop
    """
    began = time.monotonic()
    found = Findings(limit, None if upto is None else dict(upto))
    rows = {place: rows_of(place, records, found) for place, records in logs.items()}
    judge = Judge(found, tree, Tails(row for log in rows.values() for row in log))
    run = list(one_run(rows))
    for row in run:
        judge.step(row)
    judge.at_the_end()
    causal(run, found)
    by_hand(judge, found)
    for place, log in rows.items():
        older_copy(place, log, stands, found)
    checks = [check for check in CHECKS if check != "calculus"]
    notes = []
    if judge.refused:
        notes.append(
            f"refused, without any effect (said.log tells which): {judge.refused:,}; what is forged or malformed, "
            "or comes from a place whose log is an older copy"
        )
    if judge.lost:
        notes.append(
            f"{judge.lost:,} messages are of transactions that their place has not on record: none commits on them"
        )
    replayed = None
    if replay:
        replayed, why = _replayed(tree, run, found)
        if replayed is None:
            notes.append(f"not replayed on the machine of the calculus: {why}")
        else:
            checks.append("calculus")
    order = list(CHECKS)
    told = sorted(found.first, key=lambda v: (order.index(v.check), v.place, v.seq, v.kind))
    return PlacesAudit(
        len(rows), sum(map(len, rows.values())), sum(max(n - 1, 0) for n in judge.boots.values()),
        {t: known.status for t, known in judge.transactions.items()}, judge.doubt(), tuple(checks), found.by_check(),
        tuple(told), judge.standing(), replayed, time.monotonic() - began, tuple(notes),
    )  # fmt: skip


def _replayed(tree: Mapping[str, str | None], run: list[Row], found: Findings) -> tuple[NetworkRun | None, str]:
    """The run on the machine of the calculus, as far as it goes; or why it was not tried."""
    from pellucid.atomic.places.audit.calculus import MOST_RECORDS, Replay, TooLarge, translated
    from pellucid.atomic.running import NetworkRun
    from pellucid.errors import DataError

    if found.upto is not None:
        run = [row for row in run if row.seq <= found.upto.get(row.place, 0)]
    if len(run) > MOST_RECORDS:
        return None, f"it has {len(run):,} records, and up to {MOST_RECORDS} are translated"
    if not tree or any(row.place not in tree for row in run):
        return None, "the tree of its places is not known"
    try:
        replay = Replay(translated(tree, run))
        stopped = replay.go()
    except (TooLarge, DataError) as error:
        return None, str(error).splitlines()[0]
    if stopped is not None:
        row, why = stopped
        found.add(Violation("not-a-step", row.place, row.seq, row.kind, other=why))
    said = "it is not a run of the calculus" if stopped else "it is a run of the calculus"
    return NetworkRun((), tuple(replay.steps), None, said, replay.machine, ended=True), ""


def audit(folder: str | os.PathLike[str], *, limit: int = 5, replay: bool = True) -> PlacesAudit:
    """Audit a network: the folder with its ``network.toml`` and the logs of its places.  Only reads, also while its
    places run.  Of each kind the first ``limit`` violations are reported."""

    tree, logs, upto, stands = read_network(folder)
    return audit_logs(tree, logs, limit=limit, upto=upto, replay=replay, stands=stands)
