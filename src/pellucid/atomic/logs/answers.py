"""The questions about a log: who can commit now, what an abort takes with it, who depends on each other.

u ⇝ t: t took a message of u, so t needs u.  The largest set that can commit is what is pending, minus everything that
⇝ reaches from a transaction that is neither pending nor committed; its least parts, each committable once those before
it have committed, are its strongly connected components, by levels.  In a log that breaks A3, what needs another one
through committed ones needs it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.atomic.logs.tables import COMMITTED, NAMES, PENDING, UNKNOWN, WORDS, Log, Names, read_log
from pellucid.errors import DataError, UsageError, option

if TYPE_CHECKING:
    import pyarrow as pa

NO_ROW = "there is no transaction {!r}: only the dependencies have this id, and no row of the transactions"
NAMED = 3  # transactions that are named where they are wrong


def committable(transactions: Any, dependencies: Any, *, names: Names = NAMES, unknown: str = "block") -> Committable:
    """The largest set of pending transactions that can commit now, in the order in which its parts can.

    Tables are what `read_log` takes.

    >>> found = committable({1: "pending", 2: "pending", 3: "pending", 4: "active", 5: "pending", 6: "committed"},
    ...                     [(1, 2), (2, 1), (2, 3), (4, 5), (6, 1)])
    >>> list(found.sets())
    [[1, 2], [3]]
    >>> found.table().to_pydict()
    {'id': [1, 2, 3], 'level': [0, 0, 1], 'set': [1, 1, 3], 'size': [2, 2, 1]}
    >>> found.why(5), found.why(3)
    ([4, 5], [])
    """
    return Committable(read_log(transactions, dependencies, names=names, unknown=unknown))


def cascade(
    transactions: Any, dependencies: Any, abort: Iterable[Any], *, names: Names = NAMES, unknown: str = "block"
) -> Cascade:
    """What is undone if these abort: they, and whoever took a message of one that is undone.

    >>> found = cascade({"a": "active", "b": "pending", "c": "pending", "d": "pending"},
    ...                 [("a", "b"), ("b", "c"), ("d", "c")], ["a"])
    >>> found.table().to_pylist()[-1], found.path("c")
    ({'id': 'c', 'status': 'pending', 'via': 'b', 'steps': 2}, ['a', 'b', 'c'])
    """
    log = read_log(transactions, dependencies, names=names, unknown=unknown)
    if isinstance(abort, (str, bytes)):
        raise UsageError(f"{option('abort')}: expected several ids, as [{abort!r}], found one text")
    return Cascade(log, roots_of(log, list(abort)))


def cycles(transactions: Any, dependencies: Any, *, names: Names = NAMES, unknown: str = "block") -> Cycles:
    """Transactions that depend on each other: they commit together or not at all.

    >>> found = cycles({"a": "active", "b": "pending", "c": "pending"}, [("a", "b"), ("b", "a"), ("b", "c")])
    >>> list(found.sets()), found.table().to_pylist()[0]
    ([['a', 'b']], {'id': 'a', 'status': 'active', 'cycle': 'a', 'size': 2})
    """
    return Cycles(read_log(transactions, dependencies, names=names, unknown=unknown))


def roots_of(log: Log, abort: list[Any]) -> Any:
    """The vertices of ids that shall abort; a committed one is refused, and one that only dependencies have."""
    if not abort:
        raise UsageError(f"{option('abort')}: expected the id of a transaction, or several")
    found = np.array([log.number(one) for one in abort], np.int32)
    for one, v in zip(abort, found, strict=True):
        if log.status[v] == COMMITTED:
            raise DataError(f"the transaction {one!r} is committed: it cannot abort any more")
        if log.status[v] == UNKNOWN:
            raise DataError(NO_ROW.format(one))
    return found


class _Answer:
    """What every answer knows of its log."""

    log: Log

    @cached_property
    def broken(self) -> int:
        """How many committed transactions depend on one that is not, in the whole log."""
        return int(np.count_nonzero(self._after))

    @cached_property
    def _after(self) -> Any:
        return _broken(self.log)

    def broken_ids(self) -> list[Any]:
        """Some of these."""
        return self.log.listed(np.flatnonzero(self._after)[:NAMED])


class Committable(_Answer):
    """The largest committable set of a log."""

    def __init__(self, log: Log) -> None:
        from pellucid.atomic.logs.kernels import NOT_REACHED, components, in_order, levels, reached

        self.log = log
        start, out = log.graph
        stops = np.flatnonzero((log.status != PENDING) & (log.status != COMMITTED)).astype(np.int32)
        self._via, self._steps = reached(start, out, stops)
        free = self._via == NOT_REACHED
        inside = free & (log.status == PENDING)
        self.size = int(np.count_nonzero(inside))
        self.blocked = int(np.count_nonzero((log.status == PENDING) & ~free))
        # Through committed ones that need a pending one, too: they come between, and count for nothing.
        found, count = components(start, out, inside | (free & self._after) if self.broken else inside)
        level = levels(start, out, found, count, inside)
        if self.broken:
            kept = np.zeros(count, np.bool_)
            kept[found[inside]] = True
            number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)  # the last is that of -1
            found, level = np.where(inside, number[found], np.int32(-1)), level[kept]
        self._found, self._level = found, level
        self._members, self._begins, self._sizes = in_order(self._found, self._level)

    @property
    def count(self) -> int:
        """How many least sets."""
        return len(self._level)

    @property
    def depth(self) -> int:
        """How many levels: sets of one level can commit at the same time."""
        return int(self._level.max()) + 1 if len(self._level) else 0

    def ids(self) -> list[Any]:
        """All of them, needed ones first."""
        return self.log.listed(self._members)

    def sets(self) -> Iterator[list[Any]]:
        """The least sets, in an order in which they can commit one after the other."""
        for a, b in pairwise(self._begins):
            yield self.log.listed(self._members[a:b])

    def table(self) -> pa.Table:
        """A row for each: its id, the level and the least id of its set, and how many are in that."""
        import pyarrow as pa

        members = self._members
        own = self._found[members]
        columns = {
            "id": _array(self.log, members),
            "level": pa.array(self._level[own]),
            "set": _array(self.log, _least(self.log, members, own, self._sizes)),
            "size": pa.array(self._sizes[own]),
        }
        return pa.table(columns)

    def why(self, one: Any) -> list[Any]:
        """A shortest way from a transaction that is neither pending nor committed to this one, which therefore cannot
        commit; nothing if it can, or has."""
        v = self.log.number(one)
        return self.log.listed(_way(self._via, v)) if self.log.status[v] == PENDING else []

    def counts(self) -> dict[str, int]:
        """What a report says."""
        sizes = self._sizes
        return {
            "committable": self.size, "sets": self.count, "levels": self.depth,
            "largest set": int(sizes.max()) if len(sizes) else 0, "blocked": self.blocked, "broken": self.broken,
            **_counts(self.log),
        }  # fmt: skip


class Cascade(_Answer):
    """What an abort takes with it."""

    def __init__(self, log: Log, roots: Any) -> None:
        from pellucid.atomic.logs.kernels import NOT_REACHED, reached

        self.log = log
        start, out = log.graph
        self._via, self._steps = reached(start, out, roots)
        hit = np.flatnonzero(self._via != NOT_REACHED).astype(np.int32)
        self._hit = hit[np.argsort(self._steps[hit], kind="stable")]
        self.size = len(hit)
        self.roots = len(set(roots.tolist()))
        self.taken_back = int(np.count_nonzero(log.status[hit] == COMMITTED))

    def ids(self) -> list[Any]:
        """All that are undone, the nearest first."""
        return self.log.listed(self._hit)

    def path(self, one: Any) -> list[Any]:
        """A shortest way from one that aborts to this one; nothing if it stays."""
        return self.log.listed(_way(self._via, self.log.number(one)))

    def table(self) -> pa.Table:
        """A row for each: its id and status, from whom it was reached (none if it was asked for), in how many steps."""
        import pyarrow as pa

        hit = self._hit
        via = self._via[hit]
        known = via >= 0
        names = _array(self.log, np.where(known, via, 0))
        import pyarrow.compute as pc

        columns = {
            "id": _array(self.log, hit),
            "status": pa.array(np.array(WORDS, dtype=object)[self.log.status[hit]], pa.string()),
            "via": pc.if_else(pa.array(known), names, pa.scalar(None, names.type)),
            "steps": pa.array(self._steps[hit]),
        }
        return pa.table(columns)

    def counts(self) -> dict[str, int]:
        """What a report says."""
        farthest = int(self._steps[self._hit[-1]]) if self.size else 0
        told = {"undone": self.size, "asked": self.roots, "farthest": farthest}
        told |= {"committed undone": self.taken_back, "broken": self.broken}
        return {**told, **_counts(self.log)}


@dataclass(eq=False)
class Cycles(_Answer):
    """Transactions that depend on each other."""

    log: Log

    @cached_property
    def _parts(self) -> tuple[Any, Any, Any, Any]:
        from pellucid.atomic.logs.kernels import components, in_order

        start, out = self.log.graph
        found, count = components(start, out, np.ones(self.log.size, np.bool_))
        sizes = np.bincount(found, minlength=count)
        found = np.where(sizes[found] > 1, found, -1) if count else found
        kept = np.flatnonzero(sizes > 1)
        number = np.full(count + 1, -1, np.int32)  # the last one is that of -1
        number[kept] = np.arange(len(kept), dtype=np.int32)
        found = number[found]
        return (found, *in_order(found, np.zeros(len(kept), np.int32)))

    @property
    def count(self) -> int:
        """How many cycles."""
        return len(self._parts[3])

    @property
    def size(self) -> int:
        """How many transactions are in one."""
        return len(self._parts[1])

    def sets(self) -> Iterator[list[Any]]:
        """The members of each."""
        _, members, begins, _ = self._parts
        for a, b in pairwise(begins):
            yield self.log.listed(members[a:b])

    def table(self) -> pa.Table:
        """A row for each transaction in a cycle: its id and status, the least id of the cycle, how many are in it."""
        import pyarrow as pa

        found, members, _, sizes = self._parts
        own = found[members]
        columns = {
            "id": _array(self.log, members),
            "status": pa.array(np.array(WORDS, dtype=object)[self.log.status[members]], pa.string()),
            "cycle": _array(self.log, _least(self.log, members, own, sizes)),
            "size": pa.array(sizes[own]),
        }
        return pa.table(columns)

    def counts(self) -> dict[str, int]:
        """What a report says."""
        sizes = self._parts[3]
        largest = int(sizes.max()) if len(sizes) else 0
        told = {"cycles": self.count, "in cycles": self.size, "largest": largest, "broken": self.broken}
        return {**told, **_counts(self.log)}


def _broken(log: Log) -> Any:
    """Which committed ones depend, through any number of others, on one that is not: where A3 is broken."""
    from pellucid.atomic.logs.kernels import NOT_REACHED, reached

    done = log.status == COMMITTED
    if not np.any(done[log.who] & ~done[log.needs]):
        return np.zeros(log.size, np.bool_)
    via, _ = reached(*log.graph, np.flatnonzero(~done).astype(np.int32))
    return done & (via != NOT_REACHED)


def _counts(log: Log) -> dict[str, int]:
    """What is counted of every log."""
    many = np.bincount(log.status, minlength=len(WORDS))
    each = {word: int(many[i]) for i, word in enumerate(WORDS)}
    return {
        "transactions": log.size - log.unknown, **each, "dependencies": log.dependencies,
        "self-dependencies": log.selves, "repeated": log.repeated,
    }  # fmt: skip


def _way(via: Any, v: int) -> list[int]:
    """From a root to this one; nothing if it was not reached."""
    from pellucid.atomic.logs.kernels import NOT_REACHED

    if via[v] == NOT_REACHED:
        return []
    way = [v]
    while via[v] >= 0:
        v = int(via[v])
        way.append(v)
    return way[::-1]


def _array(log: Log, vertices: Any) -> Any:
    """The ids of these as a column."""
    import pyarrow as pa

    if not isinstance(log.ids, list):
        return log.named(vertices)
    try:
        return pa.array(log.named(vertices))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(f"ids: a table has no column for them ({error}): use sets(), ids() or path()") from None


def _least(log: Log, members: Any, own: Any, sizes: Any) -> Any:
    """For each member the one with the least id in its component; by their places where ids have no order."""
    least = members.copy()
    several = np.flatnonzero(sizes[own] > 1)
    if not len(several):
        return least
    inside = members[several]
    if isinstance(log.ids, list):
        try:
            order = sorted(range(len(inside)), key=lambda k: log.ids[inside[k]])
        except TypeError:
            order = list(np.argsort(inside, kind="stable"))
        ordered = np.array(order, np.int64)
    else:
        import pyarrow.compute as pc

        ordered = np.asarray(pc.sort_indices(log.named(inside)))
    first = np.full(len(sizes), -1, np.int32)
    backward = ordered[::-1]
    first[own[several][backward]] = inside[backward]  # the least one is written last
    least[several] = first[own[several]]
    return least
