r"""What a sink is: rows of one batch are staged, prepared, and then committed or aborted; and each batch counts once.

======================  ==============================================================================================
``stage(data, …)``      take the rows of a batch; nothing of it can be seen, and all of it can still go wrong
``prepare(staged)``     make sure that `commit` cannot fail for a reason of its own, as far as the target can do that
``commit(staged)``      make the rows, and the batch's number, visible at once
``abort(staged)``       give up what was staged, at any time before
``last(query)``         which batch is committed
======================  ==============================================================================================

``write`` is the first three in one.  Spark's ``foreachBatch`` and the runs with epochs of the local engine both use
this; several sinks are committed together by preparing all of them first.

A batch is written once because the target itself remembers which one it wrote last.  Spark may run a micro-batch again:
after a crash between the sink's write and Spark's commit, the same batch id comes with the same rows.  So a sink keeps,
*in the same transaction as the rows*, the number of the last batch of this query, and leaves out every batch up to that
number.  A query is known by the id that Spark keeps in the checkpoint: it survives a restart and is new for a new
checkpoint, whose batches count from 0 again.  A query id and a batch id together name an epoch.  (For a run with epochs
the query is the run, and the number is how many pushes there were.)

The number and the rows are one transaction, but one of them may be changed alone: empty the table, restore it from
a copy, lose the numbers.  A sink looks for that once, when it begins.  Spark numbers the batches of a query without a
gap, so a batch that is not the next one after the last in the target tells that the target, or the checkpoint, is not
what it was; and a sink that keeps beside the number how many rows were written notices that they are gone.

Two drivers may work on one checkpoint for a while (one is a zombie that could not be stopped).  A sink therefore never
relies on "I looked and the batch was not there": the look and the write are one transaction, or the commit is
exclusive.

A sink of one's own has three methods at least::

    class Lines(Sink):
        kind, guarantee = "lines", "each batch is in the folder once, because its file has its number as its name"

        def __init__(self, folder):
            super().__init__()
            self.folder = Path(folder)

        def last(self, query):
            return max((int(path.stem) for path in (self.folder / query).glob("*.txt")), default=None)

        def stage(self, data, query, batch):
            if self.has(query, batch):
                return Staged(query, batch, skipped=True)
            lines = [str(row) for piece in rows_of(data) for row in piece.to_pylist()]
            return Staged(query, batch, len(lines), held="\n".join(lines))

        def commit(self, staged):
            folder = self.folder / staged.query
            make_lasting(folder)
            write_lasting(folder / f"{staged.batch}.txt", [staged.held.encode()])
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.address import Address, epochs_of, from_environment


@dataclass(frozen=True)
class Written:
    """What a sink did with one micro-batch.

    >>> str(Written(query="orders", batch=7, rows=120, skipped=False))
    'orders: batch 7: 120 rows written'
    >>> str(Written(query="orders", batch=7, rows=0, skipped=True))
    'orders: batch 7: left out, its rows are there already'
    """

    query: str
    batch: int
    rows: int
    skipped: bool

    def __str__(self) -> str:
        what = "left out, its rows are there already" if self.skipped else f"{self.rows} rows written"
        return f"{self.query}: batch {self.batch}: {what}"


@dataclass
class Staged:
    """The rows of one batch between `Sink.stage` and `Sink.commit`; ``held`` is the sink's own.

    ``skipped`` says that the target has this batch already: then there is nothing to prepare or to commit.
    """

    query: str
    batch: int
    rows: int = 0
    held: Any = None
    skipped: bool = False
    before: int | None = (
        None  # the batch there that it follows on, -1 if none is there; None where the sink did not look
    )


class Untold(Exception):  # noqa: N818 - no error: who reads together says what it means
    """A target does not tell the rows of its last batch apart, and why."""


class Sink(ABC):
    """A target of batches: ``df.writeStream.foreachBatch(sink)``, or an output of ``p.run_epochs``.

    ``guarantee`` says in one sentence what holds; ``last_written`` is what the latest call did (None before the first).
    """

    kind: ClassVar[str] = "own"
    guarantee: ClassVar[str] = "what its author says"
    wait: float | None = None  # seconds to wait for another writer; None: it does not wait

    def __init__(self, query: str | None = None, first_batch: int | None = None) -> None:
        self.query = None if query is None else checked_query(query)
        self.first_batch = None if first_batch is None else checked_batch(first_batch)
        self.last_written: Written | None = None
        self._begun: set[str] = set()

    def __call__(self, df: Any, batch_id: int) -> None:
        """What ``foreachBatch`` calls for each micro-batch."""
        query = self.query or query_of(df)
        if query not in self._begun:
            self.check_turn(query, checked_batch(batch_id))
            self._begun.add(query)
        self.write(df, query, batch_id)

    def check_turn(self, query: str, batch: int) -> None:
        """Refuse to begin with a batch before which others are missing: Spark numbers them without a gap."""
        last = self.last(query)
        if batch in (0, self.first_batch) or (last is not None and batch <= last + 1):
            return
        there = f"the last batch of query {query!r} that is there is {last}"
        if last is None:
            there = f"no batch of query {query!r} is there"
        raise StateError(
            f"{self.place}: {there}, yet Spark gives batch {batch}, so those before it are missing: the target was "
            "emptied, restored from an older copy or lost its numbers, or the query wrote somewhere else until now. "
            "Restore a copy that has them, or begin with a new checkpoint and an empty target; if they may stay away, "
            f"say so with first_batch={batch}"
        )

    @property
    def place(self) -> str:
        """The target, as messages name it."""
        return f"the {self.kind} sink"

    @property
    def identity(self) -> str:
        """Which target it is: the same in every run and for every user; without any secret."""
        return f"{self.kind}: {self.place}"

    # ------------------------------------------------------------ one batch

    @abstractmethod
    def stage(self, data: Any, query: str, batch: int) -> Staged:
        """Take the rows of a batch (a DataFrame of Spark, or Arrow data; `rows_of` gives Arrow batches of both).

        If it raises, nothing is left of the batch.
        """

    def prepare(self, staged: Staged) -> None:  # noqa: B027 - not abstract: where nothing is left to do
        """Do all that can fail, so that only the last step is left."""

    @abstractmethod
    def commit(self, staged: Staged) -> Written | None:
        """The last step: the rows and the batch's number, at once.  What is returned, if anything, is what was done."""

    def abort(self, staged: Staged) -> None:  # noqa: B027 - not abstract: where nothing is kept
        """Give up what was staged or prepared, or what a commit that failed left; it never fails itself."""

    @abstractmethod
    def last(self, query: str) -> int | None:
        """The number of the last batch of ``query`` that is in the target for good; None if there is none."""

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is in the target for good."""
        last = self.last(query)
        return last is not None and batch <= last

    def write(self, data: Any, query: str, batch_id: int) -> Written:
        """Write one batch (a DataFrame of Spark, or Arrow data) as batch ``batch_id`` of ``query``, once."""
        staged = self.stage(data, checked_query(query), checked_batch(batch_id))
        done: Written | None = None
        if not staged.skipped:
            try:
                self.prepare(staged)
                done = self.commit(staged)
            except BaseException:
                self.abort(staged)
                raise
        self.last_written = done or Written(staged.query, staged.batch, staged.rows, staged.skipped)
        if self.last_written.skipped and hasattr(data, "sparkSession"):
            # The rows are there, but the micro-batch must run all the same: Spark refuses to commit one of a stateful
            # query whose state was not written in this run (STATE_STORE_COMMIT_VALIDATION_FAILED).
            data.write.format("noop").mode("overwrite").save()
        return self.last_written

    def read(self) -> Any:
        """All rows that count, as an Arrow table (for :func:`split`, one for each output)."""
        raise UsageError(f"{self.kind}: only its author knows where its rows are; read them there")

    # ------------------------------------------------------------ together with others

    forks = True  # whether a process that has used it can be forked, and the child use it, too
    grouped = False  # whether it is one of several that commit together: then it keeps what a cut reading needs

    def hold(self, staged: Staged, attempt: str) -> bool:
        """Make what is prepared durable under this name, whichever process dies; False where the target cannot
        (nothing is changed then, and the group keeps the rows itself)."""
        return False

    def held(self, query: str) -> list[tuple[int, str]]:
        """What `hold` left and is not settled: batches and attempts."""
        return []

    def settle(self, query: str, batch: int, attempt: str, *, commit: bool) -> bool:
        """Commit, or take back, what was held under this name; False if nothing is (any more)."""
        return False

    def held_name(self, query: str, batch: int, attempt: str) -> str:
        """What the target itself calls something that is held: for an operator."""
        return f"batch {batch} of {query}, attempt {attempt}"

    def gone(self, query: str) -> str:
        """Why rows of the query are not there that its numbers tell of; empty if they are, or if it cannot be told."""
        return ""

    def renew(self, query: str) -> bool:
        """All rows of the query are `gone`, and come again: forget its numbers.  False where that cannot be done, or
        where some are there."""
        return False

    def cut(self, query: str, batch: int | None, after: int) -> Any:
        """The rows up to this batch of the query (None: none of it), without ``after``, the one that comes next, read
        at one moment; None where the last batch is neither of the two, `Untold` where it cannot be told apart."""
        return self.read() if self.last(query) == batch else None

    def claim(self, group: str, where: str) -> str | None:
        """Say that this target is of a group of sinks; where the other group has its log, if it is of another."""
        return None

    def really(self) -> str:
        """Which target it is, as the target itself says: the same however it is spelt."""
        return self.identity

    def unclaim(self, group: str | None) -> None:  # noqa: B027 - not abstract: where nothing was claimed
        """The group is over: another may have the target.  With None, whichever group has it."""

    def wait_at_most(self, seconds: float) -> None:
        """From now on it waits no longer for another writer; one that does not wait stays so.

        >>> from pellucid import sinks
        >>> sink = sinks.sqlite("shop.db", "orders", wait=20)
        >>> sink.wait_at_most(60), sink.wait, sink.wait_at_most(5), sink.wait
        (None, 20, None, 5)
        """
        if self.wait is not None:
            self.wait = min(self.wait, seconds)

    def close(self) -> None:  # noqa: B027 - not abstract: most sinks keep nothing open between two batches
        """Let go of connections."""

    def __repr__(self) -> str:
        return f"<{self.kind} sink: {self.guarantee}>"


class Turns:
    """For each query one call at a time in this process: a query that was stopped and started again may still run the
    earlier call.

    >>> turns = Turns()
    >>> with turns.taken("orders", "topic 'sums'", 0.01), turns.taken("others", "topic 'sums'", 0.01):
    ...     with turns.taken("orders", "topic 'sums'", 0.01):
    ...         pass
    Traceback (most recent call last):
    ...
    pellucid.errors.StateError: topic 'sums': an earlier batch of query 'orders' is still being written in this process
    after 0.01 s: a query that was stopped has not ended yet; start it again later
    """

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()  # a sink may be sent to another process, where no call is running

    @contextmanager
    def taken(self, query: str, what: str, wait: float) -> Iterator[None]:
        lock = self._locks.setdefault(query, threading.Lock())
        if not lock.acquire(timeout=wait):
            raise StateError(
                f"{what}: an earlier batch of query {query!r} is still being written in this process after {wait:g} s: "
                "a query that was stopped has not ended yet; start it again later"
            )
        try:
            yield
        finally:
            lock.release()


def needed(module: str, words: str) -> Any:
    """A package that a sink needs, or these words on how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(words) from None


def emptied(place: str, query: str, rows: int, forget: str) -> str:
    """The words about a target whose rows are gone while its numbers stayed."""
    return (
        f"{place}: {empty_yet(rows)}: was "
        "it emptied, or made anew? Batches that are there by their numbers would be left out. Restore the rows from a "
        "copy; or, to write everything again, begin with a new checkpoint or state folder (query "
        f"{query!r} ends with the old one) and "
        f"forget the numbers: {forget}; or, if other programs take the rows out, say drained=True"
    )


def taken_away(place: str, before: int, batch: int) -> str:
    """The words about a target that is gone between the rows and their commit: none is made in its place."""
    return (
        f"{place}: it was deleted or moved while batch {batch} was written: the rows up to batch {before} are not "
        "there any more. Bring it back"
    )


def empty_yet(rows: int) -> str:
    """What is seen of such a target."""
    return f"it is empty, yet {rows:,} rows were written there, as the numbers say that are kept beside it"


# The name becomes part of file names, of Kafka's group and transactional ids, and of database rows.
_QUERY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def checked_query(query: object) -> str:
    """The query's name, if every target can carry it.

    >>> checked_query("orders-by-user")
    'orders-by-user'
    >>> checked_query("orders/2024")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: query='orders/2024': a query's name has 1 to 100 letters, digits, '_' or '-', and starts
    with a letter or a digit
    """
    if isinstance(query, str) and _QUERY.fullmatch(query):
        return query
    raise UsageError(
        f"query={query!r}: a query's name has 1 to 100 letters, digits, '_' or '-', and starts with a letter or a digit"
    )


def checked_batch(batch: object) -> int:
    """The batch's number, if it is one.

    >>> checked_batch(-1)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: batch_id=-1: a batch id is an integer from 0, as foreachBatch gives it
    """
    if isinstance(batch, int) and not isinstance(batch, bool) and 0 <= batch < 2**63 - 1:
        return batch
    raise UsageError(f"batch_id={batch!r}: a batch id is an integer from 0, as foreachBatch gives it")


def query_of(df: Any) -> str:
    """The id that Spark keeps in the checkpoint of the query whose ``foreachBatch`` is running now."""
    try:
        found = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception:  # Spark Connect and serverless have no SparkContext; each says so with its own class
        found = None
    if found:
        return str(found)
    raise UsageError(
        "the sink cannot see the id of the streaming query (it is called outside foreachBatch, or through Spark "
        "Connect): give the query a name of its own, once for each checkpoint, with query='name'"
    )


# Sinks by their address, on the command line and in Python: ``sqlite:FILE#TABLE``, ``postgresql://…#TABLE``,
# ``delta:FOLDER``, ``kafka://HOST:PORT/TOPIC``, ``env:VARIABLE#TABLE``, or a folder.


def on_this_machine(path: str) -> bool:
    """Whether this is a plain path, not an address such as ``s3a://bucket/folder`` or ``file:/folder``.

    >>> on_this_machine("data/events.csv"), on_this_machine("hdfs://host/events"), on_this_machine("file:/events")
    (True, False, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is None


def absolute(path: str) -> str:
    """A plain path from the root on: the JVM may have been started in another folder.

    >>> absolute("/a/../b"), absolute("s3a://bucket/x")
    ('/b', 's3a://bucket/x')
    """
    return os.path.abspath(path) if on_this_machine(path) else path


def parsed(path: str, asked: str = "out") -> tuple[str, str, str]:
    """(kind, address, table or topic) of a sink; all empty for a path.

    >>> parsed("sqlite:shop.db#totals"), parsed("out/sums")
    (('sqlite', 'shop.db', 'totals'), ('', '', ''))
    """
    found = Address.of(path)
    kind = found.kind
    if kind == "kafka":
        host, _, topic = path[8:].partition("/")
        if not host or not topic:
            raise UsageError(f"{option(asked, path)}: expected kafka://HOST:PORT/TOPIC")
        return kind, host, topic
    if kind == "delta":
        if not path[6:]:
            raise UsageError(f"{option(asked, path)}: expected delta:FOLDER")
        return kind, path[6:], ""
    if not kind:
        return "", "", ""
    wrong = found.misspelt()
    if wrong is not None:
        raise UsageError(f"{option(asked, found)}: {wrong}")
    if not found.table:
        example = "sqlite:FILE#TABLE" if kind == "sqlite" else "postgresql://USER@HOST/DATABASE#TABLE"
        raise UsageError(f"{option(asked, path)}: which table? Expected {example}")
    return kind, found.file if kind == "sqlite" else found.connection, found.table


def is_folder(path: str) -> bool:
    """Whether this is a folder of Parquet on this machine: it ends in ``/``, or the folder has
    manifests already.

    >>> is_folder("out/sums/"), is_folder("out/sums.csv"), is_folder("delta:out/"), is_folder("epochs:state/")
    (True, False, False, False)
    """
    if Address.of(path).kind or epochs_of(path) is not None or not on_this_machine(path):
        return False
    return path.endswith("/") or os.path.isdir(os.path.join(path, "_manifest"))


def sink_of(path: str) -> Sink:
    """The sink at an address; a path without one is a folder of Parquet files.

    >>> sink_of("sqlite:shop.db")
    Traceback (most recent call last):
    pellucid.errors.UsageError: outputs='sqlite:shop.db': which table? Expected sqlite:FILE#TABLE
    """
    from pellucid import sinks

    path = from_environment(path)
    kind, address, name = parsed(path)
    if not kind:
        return sinks.parquet(absolute(path))
    if kind == "delta":
        return sinks.delta(absolute(address))
    made: Sink = getattr(sinks, kind)(address, name)
    return made
