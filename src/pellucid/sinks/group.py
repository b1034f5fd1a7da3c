"""Sinks together: an epoch is a transaction over all of them.

``log`` keeps decisions, ``kept`` rows of an attempt, ``member`` what a member can do, ``sink`` is
`pellucid.sinks.together`, ``read`` is `pellucid.sinks.read_together`, ``doubt`` says what is decided and not
everywhere. The epochs runtime has a process for each member and the same log.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pellucid.errors import DataError, PellucidError, StateError, Unreachable, UsageError, from_outside, nearest, option
from pellucid.internal.address import alike
from pellucid.internal.base import faults
from pellucid.sinks import interface
from pellucid.sinks.decisions import NOTHING, DecisionLog, Moved, Record, keep, make_last, reader
from pellucid.sinks.interface import Sink, Staged, checked_query
from pellucid.sinks.kafka_sink import KafkaSink
from pellucid.sinks.once_sink import OnceSink, SplitSink
from pellucid.sinks.postgres_sink import PostgresSink
from pellucid.sinks.sqlite_sink import SQLiteSink

# For how long a member that cannot be reached is tried again *before* anything is decided.
#
# Nothing is lost by waiting, and nothing by giving up: until the decision no member has the epoch.  So it is tried
# again for some seconds, as a server that is started anew is back by then; after that the epoch is given up everywhere,
# and said. (After the decision nothing is given up, however long it takes.)

AGAIN = (0.05, 0.2, 0.5, 1.0)  # seconds between two attempts

T = TypeVar("T")


class Patience:
    """So many seconds for one attempt at an epoch; ``tell`` is called once with the reason, ``back`` if that
    is over, ``alive`` before each wait, and ``stop`` ends it: another member has refused, and this one need not
    be waited for.

    >>> tries = iter([True, True, False])
    >>> def reach() -> str:
    ...     if next(tries):
    ...         raise Unreachable("no server")
    ...     return "there"
    >>> patience = Patience(10, print, back=lambda: print("it is there again"))
    >>> patience.until_reached(reach, lambda: print("what may be left is taken back"))
    no server
    what may be left is taken back
    what may be left is taken back
    it is there again
    'there'
    """

    def __init__(
        self,
        seconds: float,
        tell: Callable[[Unreachable], object],
        alive: Callable[[], object] = lambda: None,
        back: Callable[[], object] = lambda: None,
    ) -> None:
        self.seconds, self._tell, self._alive, self._back = seconds, tell, alive, back
        self.stop = threading.Event()

    def until_reached(self, what: Callable[[], T], again: Callable[[], object]) -> T:
        """Do it; where the target cannot be reached, ``again`` and it once more, until the time is over."""
        until, turn = time.monotonic() + self.seconds, 0
        while True:
            try:
                if turn:
                    again()
                done = what()
                if turn:
                    self._back()
                return done
            except Unreachable as error:
                left = until - time.monotonic()
                if left <= 0:
                    raise
                if turn == 0:
                    self._tell(error)
                self._alive()
                if self.stop.wait(min(AGAIN[min(turn, len(AGAIN) - 1)], left)):
                    raise
                turn += 1


# A member of a group: one sink, what it has prepared, and how it is brought to where the log says it is.
#
# A sink that can make what it has prepared last (`Sink.hold`: PostgreSQL's ``PREPARE TRANSACTION``) is settled by name
# after a crash.  Of every other the transaction is held open until the decision, and the rows are kept beside the log:
# a decided batch that it has not is written once more from there, under the same number, which the sink itself leaves
# out if it is there.  Two tables of one SQLite file cannot be held at once (a file has one writer): there the rows are
# tried, taken back, and written after the decision.

Rows = Callable[[], Any]  # gives the rows anew, as often as it is called

_REFUSED: dict[type[Sink], str] = {
    KafkaSink: "a topic cannot be read up to an epoch, and Kafka gives a transaction up by itself after a time: write "
    "to it from a query of its own",
    OnceSink: "what a function has done cannot be taken back",
    SplitSink: "it commits one output after the other: name its sinks here, and say by='output'",
}


def refuse_one_twice(sinks: Mapping[str, Sink], said: str) -> None:
    """One target under two names, such as ``t`` and ``public.t``, or by two addresses of one server: each of the two
    would take what the other has prepared for something that was left."""
    there: dict[str, str] = {}
    for name, sink in sinks.items():
        with contextlib.suppress(DataError, OSError):  # one that cannot be reached is reported when it is used
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
        others have left prepared and undecided; ``since`` is the batch that must be there already."""
        self.staged, self.lasts, self._attempt = None, False, attempt
        try:
            staged = self.sink.stage(rows(), query, batch)
        except StateError:
            # The query is held: by what an earlier attempt has prepared only now, after we had looked for it?
            if not clear():
                raise
            staged = self.sink.stage(rows(), query, batch)
        if staged.skipped:
            raise StateError(
                f"{self}: it has batch {batch} of query {query!r} already, which is not decided: does another "
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
        """Give up what is held open, as a crash would: what is durable stays as it is."""
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
    except DataError:  # it cannot be reached: that is reported when it is written to
        return True


def users_of(sinks: Mapping[str, Sink]) -> dict[str, str]:
    """The users that log in to them, where one is given: so that an operator can ask as the same.

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


# What a group says of its members, in errors and in warnings.


def at_the_start(member: Member, error: Exception) -> Exception:
    """The error of a member that cannot be reached when a query begins; of one that refuses, its own.

    >>> from pellucid import sinks
    >>> shop = Member("shop", sinks.sqlite("shop.db", "t"), keeps_open=True)
    >>> print(at_the_start(shop, Unreachable("no route to host")))
    together: member 'shop' (...) cannot be reached (no route to host). Nothing is lost: ...
    """
    if not isinstance(error, Unreachable):
        return of_member(member, error)
    return Unreachable(
        f"together: {member} cannot be reached ({error}). Nothing is lost: when it is up, start the query again, and "
        "what is decided is committed first"
    )


def of_member(member: Member, error: Exception) -> Exception:
    """An error of a member, to be told: what the machine refuses names the member.

    >>> from pellucid import sinks
    >>> shop = Member("shop", sinks.sqlite("shop.db", "t"), keeps_open=True)
    >>> print(of_member(shop, OSError(28, "No space left on device", "shop.db")))
    member 'shop' (...): shop.db: No space left on device
    """
    found = from_outside(error) if isinstance(error, OSError) else None
    return error if found is None else DataError(f"{member}: {found}")


def undecided(query: str, batch: int) -> str:
    """How a message begins about a batch that is given up.

    >>> undecided("shop", 3)
    "batch 3 of query 'shop' is not decided, so no member has it: "
    """
    return f"batch {batch} of query {query!r} is not decided, so no member has it: "


def warned(text: str) -> None:
    """Tell it as a warning.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warned("batch 3 is unresolved")
    >>> str(told[0].message)
    'together: batch 3 is unresolved'
    """
    with suppress(Warning):  # where warnings are errors, a decided batch is committed all the same
        warnings.warn(f"together: {text}", UserWarning, stacklevel=3)


# ``together``: several sinks that have an epoch all, or none.
#
# A batch goes through four steps: its rows are kept beside the log (if a member needs them there), every member takes
# and prepares them, the decision is written down, every member commits.  Before the decision a failure of one is a
# failure of all, and nothing is left of the batch (one that cannot be reached is tried again first, for ``patience``
# seconds); after it there is no way back: who fails then is tried again, the others are not kept waiting, and after
# ``patience`` seconds the query ends with the batch *unresolved*, which is brought to its end before anything else when
# it begins again.  Later batches wait: none is decided before the one before it is everywhere.

_AGAIN = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds between two attempts at a commit


class TogetherSink(interface.Sink):
    """Sinks that have each batch all, or none; every member gets all rows, or with ``by`` those that this column names
    it for (a member of None leaves them out on purpose).

    ``log`` is a folder of the group's own, on a disk that outlives the driver.  ``patience`` is for how many seconds a
    commit that fails is tried again, and before the decision a member that cannot be reached.  ``added`` and
    ``removed`` name members that are new in a group that has batches already, and ones that leave it.

    >>> import pyarrow as pa, tempfile
    >>> from pellucid import sinks
    >>> folder = tempfile.mkdtemp()
    >>> members = {"orders": sinks.sqlite(folder + "/shop.db", "orders"), "archive": sinks.parquet(folder + "/archive")}
    >>> group = together(members, log=folder + "/log")
    >>> print(group.write(pa.table({"user": ["ada", "bob"], "sum": [3, 5]}), "shop", 0))
    shop: batch 0: 2 rows written
    >>> print(group.write(pa.table({"user": ["ada", "bob"], "sum": [3, 5]}), "shop", 0))
    shop: batch 0: left out, its rows are there already
    >>> {name: table.num_rows for name, table in group.read().items()}
    {'orders': 2, 'archive': 2}
    """

    kind: ClassVar[str] = "together"
    guarantee: ClassVar[str] = (
        "each batch is in all members, or in none, whole and once: it counts from one durable decision on, which comes "
        "after all have prepared it; read_together() shows no batch that only some have"
    )

    def __init__(
        self,
        members: Mapping[str, interface.Sink | None] | None = None,
        /,
        *,
        log: str | os.PathLike[str] | None = None,
        by: str | None = None,
        patience: float = 60.0,
        added: str | Sequence[str] = (),
        removed: str | Sequence[str] = (),
        first_batch: int | None = None,
        query: str | None = None,
        **named: interface.Sink | None,
    ) -> None:
        super().__init__(query, first_batch)
        given = {**(members or {}), **named}
        self.members = checked_members({name: sink for name, sink in given.items() if sink is not None})
        self.outputs, self.by, self.patience = list(given), by, patience
        self.added = (added,) if isinstance(added, str) else tuple(added)
        self.removed = (removed,) if isinstance(removed, str) else tuple(removed)
        for name in self.added:
            if given.get(name) is None:
                raise UsageError(
                    f"together: {option('added', name)} is no member: expected the name of a new one, of "
                    f"{', '.join(m.name for m in self.members)}{nearest(name, list(given))}"
                )
        for name in self.removed:
            if given.get(name) is not None:
                raise UsageError(
                    f"together: {option('removed', name)} is a member: leave it out, or do not say removed"
                )
        self.folder = None if log is None else Path(os.path.abspath(log))
        self.log = None if self.folder is None else DecisionLog(self.folder)
        self._record: Record | None = None
        self._open = ""  # the attempt that may be decided
        self._safe: Future[None] | None = None  # when it is done, the rows of the attempt last
        self.say: Callable[[str], None] = warned  # takes a line while a batch is unresolved

    @property
    def place(self) -> str:
        return f"the group of {', '.join(member.name for member in self.members)}"

    @property
    def identity(self) -> str:
        return "together: " + ", ".join(f"{m.name}={m.sink.identity}" for m in self.members)

    def last(self, query: str) -> int | None:
        """The last batch that all have."""
        numbers = [member.last(query) for member in self.members]
        record = None if self.log is None else self.log.read()
        joined = {name: after for name, (_, after) in (record.members if record else {}).items()}
        number = min(max(n, joined.get(m.name, NOTHING)) for n, m in zip(numbers, self.members, strict=True))
        return None if number == NOTHING else number

    def check_turn(self, query: str, batch: int) -> None:
        """The log is asked, when the first batch comes."""

    def read(self) -> dict[str, Any]:
        """The rows of every member, up to the last batch that all have."""
        from pellucid.sinks.unresolved import read_together

        return read_together(self)

    def close(self) -> None:
        for member in self.members:
            if member.staged is not None:
                member.soon(member.let_go).exception()
            member.rest()
            member.sink.close()

    # ------------------------------------------------------------ beginning, and recovery

    def begin(self, query: str, batch: int | None = None) -> Record:
        """Take the log, and bring every member to where it says they are; ``batch`` is what comes next."""
        if self.log is None:
            raise UsageError(
                "together: where are its decisions kept? Give log=FOLDER, a folder of the group's own on a disk that "
                "outlives the driver"
            )
        with self._told():
            return self._begin(self.log, query, batch)

    def _begin(self, log: DecisionLog, query: str, batch: int | None) -> Record:
        while True:
            seen = log.read()
            with suppress(Moved):  # another driver has decided something since: all is looked at again
                record = self._take(query, seen)
                break
        self._claim(record)
        told = told_once(self.members)
        if told:
            self.say(told)
        faults.point("together:recover")
        if seen is not None and seen.query != query:  # what it has decided is everywhere, and the rest is not wanted
            for member in self.members:
                with log.owned():
                    member.clear(seen.query, seen)
        whole = self._recover(record, batch)
        log.sweep()
        self._record = record
        if whole:
            log.note_whole(query, record.batch)
        return record

    @contextmanager
    def _told(self, about: str = "") -> Iterator[None]:
        """What the machine refuses (a disk that is full, a folder that may not be written) becomes one line."""
        try:
            yield
        except OSError as error:
            if self._record is not None and self.log is not None and isinstance(error, FileNotFoundError):
                with self.log.owned():  # is it another driver, which has cleared our rows away?
                    pass
            raise DataError(f"together: {about}{from_outside(error)}") from error

    def recover(self) -> Record:
        """Bring what is decided to every member, and take back what is not, without a new batch: for an operator, when
        the query does not come back.

        >>> import pyarrow as pa, tempfile
        >>> from pellucid import sinks
        >>> folder = tempfile.mkdtemp()
        >>> members = {"orders": sinks.sqlite(folder + "/shop.db", "orders"), "sums": sinks.parquet(folder + "/sums")}
        >>> _ = together(members, log=folder + "/log").write(pa.table({"sum": [3, 5]}), "shop", 0)
        >>> together(members, log=folder + "/log").recover().batch
        0
        """
        found = None if self.log is None else self.log.read()
        if self.log is not None and found is None:
            raise DataError(f"{self.folder}: no log of decisions is there: nothing was written by this group")
        if found is not None and found.epoch:
            raise UsageError(
                f"{self.folder}: is of a run with epochs, whose rows are in its state folder: give the same command "
                "again, and what is decided is committed first"
            )
        return self.begin("" if found is None else found.query)

    def _take(self, query: str, seen: Record | None) -> Record:
        """The log, if the members are those that it knows, and no other group's."""
        assert self.log is not None
        found = seen
        if found is not None and found.query != query:
            self._refuse_open(found, query)
            found = None
        joined = self._members_as_before(found)
        self._claim(found)
        drained = [m.name for m in self.members if getattr(m.sink, "drained", False)]
        users = users_of({m.name: m.sink for m in self.members})
        return self.log.take(query, places_of(self.members), joined=joined, seen=seen, drained=drained, users=users)

    def _members_as_before(self, found: Record | None) -> dict[str, int]:
        """Refuse other members than those of the log, unless asked to; of new ones, after which batch they join."""
        if found is None or found.batch == NOTHING:
            return {}
        now = places_of(self.members)
        for name, (place, _) in found.members.items():
            if name not in now and name not in self.removed:
                raise StateError(
                    f"together: member {name!r} ({place}) is not given any more: give it, or, if no batch after "
                    f"{found.batch} is to go there, say {option('removed', name)}"
                )
            assert self.log is not None
            if name not in now and self.log.whole() < found.batch:
                raise StateError(
                    f"together: member {name!r} ({place}) cannot leave the group now: batch {found.batch} is decided, "
                    "and it is not known whether it is there: begin once more with it, and take it away after that"
                )
            if name in now and alike(now[name]) != alike(place):
                raise StateError(f"together: member {name!r} was {place}, and is {now[name]} now: name the same target")
        new = [name for name in now if name not in found.members]
        for name in new:
            if name not in self.added:
                raise StateError(
                    f"together: member {name!r} ({now[name]}) is new in a group whose last batch is {found.batch}: "
                    f"what came before would never be there. Say {option('added', name)} if that is meant; or copy the "
                    "rows first, or write all again with a new log, a new checkpoint and empty targets"
                )
        return dict.fromkeys(new, found.batch)

    def _claim(self, record: Record | None) -> None:
        """Every target is of one group."""
        if record is None:
            return
        assert self.folder is not None
        refuse_one_twice({member.name: member.sink for member in self.members}, "together")
        for member in self.members:
            try:
                other = member.sink.claim(record.group, str(self.folder))
            except (DataError, OSError) as error:
                if member.name not in record.members:
                    raise at_the_start(member, error) from error
                continue  # it was claimed before: who cannot be reached now does not keep the others waiting
            if other is not None:
                raise StateError(
                    f"together: {member} belongs to another group, whose log is {other}: an epoch would be of two "
                    "groups. Give this one a target of its own; or, if that group is over, give it free: "
                    f"{getattr(member.sink, 'forget', 'as its author says')}"
                )

    def _refuse_open(self, found: Record, query: str) -> None:
        """Another query begins with this log: what the one before has decided must be everywhere."""
        assert self.log is not None
        away = [name for name in found.members if name not in places_of(self.members)]
        if away and self.log.whole() < found.batch:
            raise StateError(
                f"together: {self.folder}: batch {found.batch} of query {found.query!r} is decided, and it is "
                f"unknown whether member {away[0]!r} has it: start that query once more before {query!r} begins"
            )
        for member in self.members:
            after = found.members.get(member.name, ("", found.batch))[1]
            if max(member.last(found.query), after) < found.batch:
                raise StateError(
                    f"together: {self.folder}: batch {found.batch} of query {found.query!r} is decided, and {member} "
                    f"has it not: start that query once more before {query!r} begins"
                )

    def _recover(self, record: Record, batch: int | None) -> bool:
        """What is decided is committed, what is not is taken back; whether all have what is decided.

        Everybody is looked at before anything is changed: by a log that is an older copy nothing is taken back.  One
        that cannot be reached does not keep the others from what is decided; only what is not decided stays then.
        """
        failed: list[tuple[Member, Exception]] = []
        behind: dict[str, bool] = {}
        for member in self.members:
            # What the log says is decided stays so, however old the log is: that is out of the way before anything is
            # looked at that may wait for its locks.
            with suppress(DataError, OSError):
                if (record.batch, record.attempt) in member.sink.held(record.query):
                    member.sink.settle(record.query, record.batch, record.attempt, commit=True)
        for member in self.members:
            try:
                behind[member.name] = self._behind(member, record, batch)
            except (DataError, OSError) as error:
                failed.append((member, error))
        clear, whole = not failed, not failed
        for member in self.members:
            if member.name not in behind:
                continue
            try:
                if clear:
                    self._clear(member, record.query)
                if behind[member.name]:
                    kept = self._kept(record, member)
                    if kept is None and (record.batch, record.attempt) not in member.sink.held(record.query):
                        whole = False  # the batch comes again, with its rows
                    else:
                        member.commit(record, kept)
            except (PellucidError, OSError) as error:
                failed.append((member, error))
        if failed:
            raise at_the_start(*failed[0])
        return whole

    def _behind(self, member: Member, record: Record, batch: int | None) -> bool:
        """Whether it lacks what is decided; refused if what it has, or lacks, is more than that."""
        last, after = member.last(record.query), record.members[member.name][1]
        if last > record.batch and self.first_batch is None:
            raise StateError(
                f"together: {member} has batch {last} of query {record.query!r}, and the last that {self.folder} has "
                f"decided is {shown(record.batch)}: the log is an older copy, or another one: bring back the right one"
            )
        if max(last, after) >= record.batch:
            return False
        kept = self._kept(record, member) is not None
        ready = (record.batch, record.attempt) in member.sink.held(record.query)
        if max(last, after) < record.before or not (kept or ready or batch == record.batch):
            raise StateError(
                f"together: {member}: the last batch of query {record.query!r} that is there is {shown(last)}, and "
                f"the group's is {record.batch}: was it restored from an older copy? Batches that are missing there "
                "would stay away: bring back a copy that has them"
            )
        return True

    def _clear(self, member: Member, query: str) -> int:
        """Take back what attempts have left prepared that are not decided, while the log is ours."""
        assert self.log is not None
        with self.log.owned() as record:
            return member.clear(query, record)

    # ------------------------------------------------------------ one batch

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The rows are kept, and every member has taken and prepared them: none waits for the others between."""
        record = self._record
        if record is None or record.query != query:
            record = self.begin(query, batch)
        self._check_first(record, batch)
        with self._told(undecided(query, batch)):
            return self._stage(record, data, query, batch)

    def _stage(self, record: Record, data: Any, query: str, batch: int) -> interface.Staged:
        if batch <= record.batch:
            if batch == record.batch:
                self._again(data, record)
            return interface.Staged(query, batch, skipped=True)
        attempt = uuid.uuid4().hex[:16]
        staged = interface.Staged(query, batch, held=attempt)
        self._open = attempt
        try:
            rows, counts, files = self._keep(data, attempt)
            self._safe = _in_background(lambda: make_last(files))
            staged.rows = sum(counts.values()) if self.by is not None else max(counts.values())
            faults.point("together:kept")
            self._all(staged, rows)
        except BaseException:
            self.abort(staged)
            raise
        return staged

    def prepare(self, staged: interface.Staged) -> None:
        """Every member can commit; the rows last, too."""
        with self._told(undecided(staged.query, staged.batch)):
            self._rows_last()

    def _rows_last(self) -> None:
        safe, self._safe = self._safe, None
        if safe is not None:
            safe.result()

    def commit(self, staged: interface.Staged) -> None:
        """Decide, then have every member commit."""
        with self._told():
            self._commit(staged)

    def _commit(self, staged: interface.Staged) -> None:
        assert self.log is not None
        self._rows_last()
        if staged.held != self._open and not self.log.knows(staged.batch, staged.held):
            raise StateError(
                f"together: batch {staged.batch} of query {staged.query!r} was given up, and cannot be committed any "
                "more: write it once more"
            )
        try:
            record = self.log.decide(staged.batch, staged.held)
        except Exception as error:
            # it may have been written, or not: only the log knows, and what it knows counts
            found = self.log.read()
            if found is None or (found.batch, found.attempt) != (staged.batch, staged.held):
                if isinstance(error, OSError):
                    about = undecided(staged.query, staged.batch)
                    raise DataError(f"together: {about}{self.folder}: {from_outside(error)}") from error
                raise
            record = found
        if (record.batch, record.attempt) != (staged.batch, staged.held):
            raise StateError(
                f"together: {self.folder}: batch {staged.batch} of query {staged.query!r} is decided already, by "
                "another attempt with rows of its own: start the query again"
            )
        self._record = record
        self.finish(record)

    def finish(self, record: Record) -> None:
        """Commit a decided batch everywhere: one that fails is tried again, and the others do not wait."""
        assert self.log is not None
        waiting, until, turn = list(self.members), time.monotonic() + self.patience, 0
        while True:
            kept = {m.name: self._kept(record, m) for m in waiting}
            done = [(m, m.soon(m.commit, record, kept[m.name])) for m in waiting]
            failed = [(m, error) for m, future in done if (error := future.exception()) is not None]
            waiting = [m for m, _ in failed]
            faults.point("together:committed")
            if not waiting:
                break
            for _, error in failed:
                if not isinstance(error, (PellucidError, OSError)):
                    raise error
            if time.monotonic() >= until:
                self._record = None  # the next start begins with the recovery
                self._rest()
                raise StateError(
                    f"together: batch {record.batch} of query {record.query!r} is decided, and unresolved: "
                    f"{'; '.join(f'{m} does not have it yet: {error}' for m, error in failed)}. The other members have "
                    "it, readers of read_together() do not see it, later batches wait. Nothing is lost: when that is "
                    "put right, start the query again, and it is committed first"
                )
            if turn == 0:
                self.say(
                    f"batch {record.batch} is decided, and unresolved at "
                    f"{'; '.join(f'{m.name} ({error})' for m, error in failed)}: it is tried again for "
                    f"{self.patience:g} s; later batches wait"
                )
            time.sleep(min(_AGAIN[min(turn, len(_AGAIN) - 1)], max(0.0, until - time.monotonic())))
            turn += 1
        if turn:
            self.say(f"batch {record.batch}: committed everywhere now")
        self._rest()
        self.log.note_whole(record.query, record.batch)
        self.log.forget_rows(record.attempt)

    def abort(self, staged: interface.Staged) -> None:
        """Give up an attempt that is not decided; one that is stays."""
        assert self.log is not None
        with suppress(Exception):  # a disk that does not keep the rows is why it is given up
            self._rows_last()
        record = self._record
        if record is None or (record.batch, record.attempt) == (staged.batch, staged.held):
            return
        try:
            if self.log.knows(staged.batch, staged.held):
                return
        except StateError:
            # It is not known: a start with a log that can be read does the right thing.  What is durable stays for
            # that, and so do the rows; what is only held open keeps others from the target, and is let go.
            self._record, self._open = None, ""
            for member in self.members:
                member.soon(member.let_go).exception()
            self._rest()
            return
        if self._open == staged.held:
            self._open = ""
        for member in self.members:
            with_thread = member.soon(member.abort, staged.query, staged.batch)
            with_thread.exception()
        self._rest()
        self.log.forget_rows(staged.held)

    def _all(self, staged: interface.Staged, rows: Mapping[str, Rows]) -> None:
        """Every member takes its rows, side by side; the first failure is that of all, when all have ended."""
        tried = {member.name: self._patience_with(member, staged) for member in self.members}

        def stage(member: Member) -> None:
            try:
                member.stage_patiently(
                    rows[member.name], staged.query, staged.batch, staged.held,
                    lambda: self._clear(member, staged.query), tried[member.name], self._since(member),
                )  # fmt: skip
            except BaseException:
                for other in tried.values():  # who waits for a server waits for nothing now
                    other.stop.set()
                raise

        try:
            futures = [(member, member.soon(stage, member)) for member in self.members]
            errors = [(member, error) for member, future in futures if (error := future.exception()) is not None]
        finally:
            for one in tried.values():  # also where the program is interrupted
                one.stop.set()
        if not errors:
            return
        # Who refuses is the reason, and not who was still waited for then.
        member, error = min(errors, key=lambda found: isinstance(found[1], Unreachable))
        about = f"together: batch {staged.batch} of query {staged.query!r}: {member}"
        if isinstance(error, Unreachable):
            raise Unreachable(
                f"{about} cannot be reached, and is given up after {self.patience:g} s ({option('patience')}): no "
                f"member has it: {error}. When that is put right, start the query again: the batch comes again"
            ) from None
        if isinstance(error, OSError):
            error = of_member(member, error)
        if type(error) not in (DataError, StateError):
            raise error
        raise type(error)(f"{about} does not take it, so no member has it: {error}") from None

    def _since(self, member: Member) -> int:
        """The batch that the member must have before the next."""
        record = self._record
        joined = record is None or record.batch <= record.members[member.name][1]
        return NOTHING if record is None or joined else record.batch

    def _patience_with(self, member: Member, staged: interface.Staged) -> Patience:
        return Patience(
            self.patience,
            lambda error: self.say(
                f"batch {staged.batch}: {member.name} cannot be reached ({error}): it is tried again for "
                f"{self.patience:g} s, and until then no member has it"
            ),
            back=lambda: self.say(f"batch {staged.batch}: {member.name} is reached again"),
        )

    def _rest(self) -> None:
        for member in self.members:
            member.rest()

    def _check_first(self, record: Record, batch: int) -> None:
        if record.batch == NOTHING and batch not in (0, self.first_batch):
            raise StateError(
                f"together: {self.folder}: no batch of query {record.query!r} was decided, yet batch {batch} comes: is "
                "this another log? Give the one that the query had; or, if those before may stay away, say "
                f"first_batch={batch}"
            )
        if record.batch != NOTHING and batch > record.batch + 1 and batch != self.first_batch:
            raise StateError(
                f"together: {self.folder}: the last batch of query {record.query!r} that is decided is {record.batch}, "
                f"yet batch {batch} comes, so those between are missing: is the log an older copy? Bring the right one "
                f"back; or, if they may stay away, say first_batch={batch}"
            )

    def _again(self, data: Any, record: Record) -> None:
        """The batch that was decided last comes once more: who has it not gets it."""
        behind = [m for m in self.members if max(m.last(record.query), record.members[m.name][1]) < record.batch]
        if not behind:
            return
        rows, _, _ = self._keep(data, record.attempt)
        for member in behind:
            member.commit(record, rows[member.name])

    # ------------------------------------------------------------ rows

    def _keep(self, data: Any, attempt: str) -> tuple[dict[str, Rows], dict[str, int], list[Path]]:
        """Write the rows down once, and give each member its own; they are not yet sure to last."""
        assert self.log is not None
        names = [m.name for m in self.members] if self.by is not None else [""]
        files, counts = keep(self.log, data, attempt, names, by=self.by, outputs=self.outputs)
        return {m.name: reader(files[m.name if self.by else ""]) for m in self.members}, counts, list(files.values())

    def _kept(self, record: Record, member: Member) -> Rows | None:
        assert self.log is not None
        path = self.log.rows_file(record.attempt, member.name if self.by else "")
        return reader(path) if record.attempt and path.exists() else None


def _in_background(what: Callable[[], None]) -> Future[None]:
    """Do it beside what comes next."""
    with_thread = ThreadPoolExecutor(1, thread_name_prefix="together-rows")
    try:
        return with_thread.submit(what)
    finally:
        with_thread.shutdown(wait=False)


together = TogetherSink
