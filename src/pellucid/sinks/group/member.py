"""A member of a group: one sink, what it has prepared, and how it is brought to where the log says it is.

A sink that can make what it has prepared last (`Sink.hold`: PostgreSQL's ``PREPARE TRANSACTION``) is settled by name
after a crash.  Of every other the transaction is held open until the decision, and the rows are kept beside the log: a
decided batch that it has not is written once more from there, under the same number, which the sink itself leaves out
if it is there.  Two tables of one SQLite file cannot be held at once (a file has one writer): there the rows are tried,
taken back, and written after the decision.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pellucid.errors import DataError, StateError, UsageError, nearest
from pellucid.internal.address import alike
from pellucid.internal.base import faults
from pellucid.sinks.group.log import NOTHING, Record
from pellucid.sinks.group.patience import Patience
from pellucid.sinks.interface import Sink, Staged, checked_query
from pellucid.sinks.kafka_sink import KafkaSink
from pellucid.sinks.once_sink import OnceSink
from pellucid.sinks.postgres_sink import PostgresSink
from pellucid.sinks.split_sink import SplitSink
from pellucid.sinks.sqlite_sink import SQLiteSink

Rows = Callable[[], Any]  # gives the rows anew, as often as it is called

_REFUSED: dict[type[Sink], str] = {
    KafkaSink: "a topic cannot be read up to an epoch, and Kafka gives a transaction up by itself after a time: write "
    "to it from a query of its own",
    OnceSink: "nobody can take back what a function has done",
    SplitSink: "it commits one output after the other: name its sinks here, and say by='output'",
}


def refuse_one_twice(sinks: Mapping[str, Sink], said: str) -> None:
    """One target under two names, such as ``t`` and ``public.t``, or by two addresses of one server: each of the two
    would take what the other has prepared for something that was left."""
    there: dict[str, str] = {}
    for name, sink in sinks.items():
        with contextlib.suppress(DataError, OSError):  # of one that cannot be reached that is said when it is used
            other = there.setdefault(sink.really(), name)
            if other != name:
                raise UsageError(f"{said}: {other!r} and {name!r} are the same target: name it once")


class Member:
    """One sink of a group; everything that is done with it is done by one thread, as some connections want it."""

    def __init__(self, name: str, sink: Sink, *, keeps_open: bool = True) -> None:
        self.name, self.sink, self.keeps_open = name, sink, keeps_open
        self.staged: Staged | None = None
        self.lasts = False  # what is prepared outlives us
        self._attempt = ""
        self._thread: ThreadPoolExecutor | None = None
        sink.grouped = True

    def __str__(self) -> str:
        return f"member {self.name!r} ({self.sink.place})"

    def soon(self, what: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Do something in this member's own thread."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"together-{self.name}")
        return self._thread.submit(what, *arguments)

    def rest(self) -> None:
        """The batch is over: the thread, too."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    # ------------------------------------------------------------ one batch

    def last(self, query: str) -> int:
        """The last batch that it has; `NOTHING` if none."""
        found = self.sink.last(query)
        return NOTHING if found is None else found

    def stage_patiently(
        self,
        rows: Rows,
        query: str,
        batch: int,
        attempt: str,
        clear: Callable[[], int],
        patience: Patience,
        since: int = NOTHING,
    ) -> int:
        """`stage`, and again while the target cannot be reached.  It may have gone away after it had prepared: what is
        left of that is taken back first."""

        def again() -> None:
            self.let_go()
            clear()

        return patience.until_reached(lambda: self.stage(rows, query, batch, attempt, clear, since), again)

    def stage(
        self, rows: Rows, query: str, batch: int, attempt: str, clear: Callable[[], int], since: int = NOTHING
    ) -> int:
        """Take the rows and prepare them, so that they can be committed; how many there are.  ``clear`` takes back what
        others have left prepared and nobody has decided; ``since`` is the batch that must be there already."""
        self.staged, self.lasts, self._attempt = None, False, attempt
        try:
            staged = self.sink.stage(rows(), query, batch)
        except StateError:
            # Somebody holds the query: what an earlier attempt has prepared only now, after we had looked for it?
            if not clear():
                raise
            staged = self.sink.stage(rows(), query, batch)
        if staged.skipped:
            raise StateError(
                f"{self}: it has batch {batch} of query {query!r} already, which nobody has decided: does another "
                "driver or another group write to it?"
            )
        self.staged = staged
        if staged.before is not None and staged.before < since:
            raise StateError(_deleted(query, staged.before, since))
        if not self.keeps_open:  # tried, and out of the way: another member waits for the same file
            self.sink.prepare(staged)
            self.sink.abort(staged)
            self.staged = None
        self._prepare()
        return staged.rows

    def _prepare(self) -> None:
        """After this only the last step is left; where it can be, that lasts."""
        faults.point("together:prepare")
        if self.staged is not None:
            self.sink.prepare(self.staged)
            if self.sink.hold(self.staged, self._attempt):
                self.staged, self.lasts = None, True
        faults.point("together:prepared")

    def let_go(self) -> None:
        """Give up what is held open, as a crash would: what lasts stays as it is."""
        if self.staged is not None:
            self.sink.abort(self.staged)
            self.staged = None

    def abort(self, query: str, batch: int) -> None:
        """Give up what is not decided."""
        self.let_go()
        if self.lasts:
            with contextlib.suppress(Exception):  # else the next who begins finds it
                self.sink.settle(query, batch, self._attempt, commit=False)
            self.lasts = False

    def commit(self, record: Record, rows: Rows | None) -> bool:
        """Bring a decided batch into the target; False if it is there already.  It can be called again and again."""
        if self.staged is not None:
            staged, self.staged = self.staged, None
            try:
                done = self.sink.commit(staged)
                return done is None or not done.skipped
            except BaseException:
                self.sink.abort(staged)
                raise
        if self.sink.settle(record.query, record.batch, record.attempt, commit=True):
            self.lasts = False
            return True
        last = self.last(record.query)
        if last >= record.batch:
            return False
        if max(last, record.members[self.name][1]) < record.before:
            raise StateError(_deleted(record.query, last, record.before))
        if rows is None:
            raise StateError(
                f"{self}: batch {record.batch} of query {record.query!r} is decided, and neither prepared there nor "
                "are its rows kept: was the target restored from an older copy? Bring back a copy that has it"
            )
        return not self.sink.write(rows(), record.query, record.batch).skipped

    def clear(self, query: str, decided: Record) -> int:
        """Take back what attempts have left prepared that are not decided; how many.  Who calls it has the log, so that
        nothing gets decided meanwhile (`DecisionLog.owned`)."""
        count = 0
        for batch, attempt in self.sink.held(query):
            if (batch, attempt) != (decided.batch, decided.attempt):
                count += self.sink.settle(query, batch, attempt, commit=False)
        return count


def checked_members(given: dict[str, Any]) -> list[Member]:
    """The members, if they can be ones: names, sinks that can prepare, no target twice."""
    if not given:
        raise UsageError("together: name at least one member, as in together(orders=sinks.sqlite('shop.db', 'orders'))")
    places: dict[str, str] = {}
    for name, sink in given.items():
        checked_query(name)
        if not isinstance(sink, Sink):
            raise UsageError(f"together: {name}={sink!r} is no sink{_like(sink)}")
        why = next((why for kind, why in _REFUSED.items() if isinstance(sink, kind)), None)
        if why is not None or hasattr(sink, "members"):
            raise UsageError(
                f"together: {name} is {sink.kind}, which cannot be one of a group: "
                f"{why or 'a group in a group: name its members here'}"
            )
        other = places.setdefault(alike(sink.identity), name)
        if other != name:
            raise UsageError(f"together: {other!r} and {name!r} are the same target ({sink.place}): name it once")
    files = [sink.file for sink in given.values() if isinstance(sink, SQLiteSink)]
    return [
        Member(n, sink, keeps_open=not isinstance(sink, SQLiteSink) or files.count(sink.file) == 1)
        for n, sink in given.items()
    ]


def _like(given: object) -> str:
    known = ["sqlite", "postgres", "parquet", "delta"]
    return f": an address is one by sinks.sink_of({given!r})" if isinstance(given, str) else nearest(str(given), known)


def told_once(members: list[Member]) -> str:
    """One line about servers that cannot keep what is prepared; empty if there is none."""
    without = [m.name for m in members if isinstance(m.sink, PostgresSink) and not _can_hold(m.sink)]
    if not without:
        return ""
    return (
        f"{', '.join(without)}: the server keeps no prepared transactions (max_prepared_transactions is 0): the rows "
        "of an epoch are kept here until every member has it, and are written from there again after a crash"
    )


def _can_hold(sink: PostgresSink) -> bool:
    try:
        return sink.can_hold()
    except DataError:  # it cannot be reached: whoever writes to it says so
        return True


def users_of(sinks: Mapping[str, Sink]) -> dict[str, str]:
    """Who logs in to them, where that is said: so that an operator can ask as the same.

    >>> from pellucid import sinks
    >>> users_of({"a": sinks.postgres("postgresql://me:S3cret@db/shop", "a"), "b": sinks.sqlite("b.db", "b")})
    {'a': 'me'}
    """
    return {name: sink.user for name, sink in sinks.items() if isinstance(sink, PostgresSink) and sink.user}


def places_of(members: list[Member]) -> dict[str, str]:
    """The members and their targets, for the log."""
    return {m.name: m.sink.identity for m in members}


def _deleted(query: str, last: int, since: int) -> str:
    return (
        f"the last batch of query {query!r} that is there is {shown(last)}, and the group's is {since}: it was "
        "deleted, or an older copy was put there, while the query ran. Batches that are missing there would stay away: "
        "bring back a copy that has them"
    )


def shown(batch: int) -> str:
    """A batch's number, for a message."""
    return "none" if batch == NOTHING else str(batch)
