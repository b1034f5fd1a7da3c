"""``read_together``: the rows of all members of a group, up to the last epoch that all have.

While an epoch is being committed, or while one member cannot be reached, some have it and others do not.  A reader that
looks at each target by itself sees that; here each is read up to the last epoch that is everywhere: SQLite by the
numbers of rows, PostgreSQL by the transaction that wrote them, Parquet by its manifests, Delta by its versions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, StateError, UsageError, from_outside, option
from pellucid.internal.address import alike
from pellucid.sinks.group.doubt import log_of_group
from pellucid.sinks.group.log import FILE, NOTHING, DecisionLog, Record
from pellucid.sinks.interface import Sink, Untold

if TYPE_CHECKING:
    from pellucid.sinks.group.sink import TogetherSink

_TRIES, _PAUSE = 50, 0.1


class _Uncut(Exception):  # noqa: N818 - an error only if it stays so
    """A member cannot be read without the last epoch, which another lacks."""


def read_together(
    group: TogetherSink | Mapping[str, Sink] | None = None,
    /,
    *,
    log: str | os.PathLike[str] | None = None,
    **members: Sink,
) -> dict[str, Any]:
    """The rows of every member, as Arrow tables by the member's name, cut at the last epoch that all have.

    ``group`` is what `together` made; or give the members, and the folder of the log (or the state folder of a run
    with epochs, or the checkpoint of a query, in which it is).

    >>> import pyarrow as pa, tempfile
    >>> from pellucid import sinks
    >>> folder = tempfile.mkdtemp()
    >>> members = {"orders": sinks.sqlite(folder + "/shop.db", "orders"), "archive": sinks.parquet(folder + "/archive")}
    >>> _ = sinks.together(members, log=folder + "/log").write(pa.table({"sum": [3, 5]}), "shop", 0)
    >>> tables = sinks.read_together(members, log=folder + "/log")
    >>> tables["orders"]["sum"].to_pylist(), tables["archive"]["sum"].to_pylist()
    ([3, 5], [3, 5])
    """
    sinks: dict[str, Sink]
    place: str | os.PathLike[str] | None
    if group is not None and not isinstance(group, Mapping):
        sinks, place = {m.name: m.sink for m in group.members}, group.folder
    else:
        sinks, place = {**(group or {}), **members}, None
    place = place if log is None else log
    if place is None:
        raise UsageError(
            "read_together: where are the group's decisions? Give log=FOLDER: the log= of the group, the state folder "
            "of a run with epochs, or the checkpoint of a query"
        )
    decisions, why = log_of_group(place) or DecisionLog(place), ""
    for _ in range(_TRIES):
        record = decisions.read()
        if record is None:
            raise DataError(f"{decisions.folder}: no log of decisions is there: nothing was written by this group")
        _refuse_others(sinks, record)
        try:
            found, why = _at_once(sinks, record), ""
        except _Uncut as error:  # no matter, if every member has the epoch soon
            found, why = None, str(error)
        except OSError as error:
            raise DataError(f"read_together: {from_outside(error)}") from error
        after = decisions.read()
        if found is not None and after is not None and after.batch == record.batch:
            return found
        time.sleep(_PAUSE)  # the group goes on meanwhile
    if why:
        raise StateError(f"read_together: {why}")
    raise StateError(
        f"{decisions.folder}: the members were not found at one epoch in {_TRIES} attempts: the group is faster than "
        "its rows can be read, or a target does not tell the rows of its last epoch apart; read while no epoch ends"
    )


def _refuse_others(sinks: Mapping[str, Sink], record: Record) -> None:
    needed = {name: None for name, (place, _) in record.members.items() if not place.startswith(FILE)}
    if not set(needed) <= set(sinks) <= set(record.members):
        files = [name for name in record.members if name not in needed]
        raise UsageError(
            f"read_together: the members are {', '.join(needed)}, and given are {', '.join(sinks) or 'none'}: "
            "name all of them"
            + (f" (not {' and '.join(files)}: what is a file is whole when it is there)" if files else "")
        )
    for name, sink in sinks.items():
        if not isinstance(sink, Sink):
            raise UsageError(
                f"read_together: member {name!r} is {record.members[name][0].removeprefix(FILE)}, and {sink!r} is "
                "given, which is no sink: give sinks.sqlite(…), sinks.postgres(…) or another sink; leave files out"
            )
        if alike(sink.identity) != alike(record.members[name][0]):
            raise UsageError(
                f"read_together: member {name!r} is {record.members[name][0]}, and {sink.identity} is given: name the "
                "same target"
            )


def _at_once(sinks: Mapping[str, Sink], record: Record) -> dict[str, Any] | None:
    """Every member at the last epoch that all have; None if they moved on meanwhile."""
    import pyarrow as pa

    lasts = {name: _last(sink, record.query) for name, sink in sinks.items()}
    behind = [name for name, last in lasts.items() if max(last, record.members[name][1]) < record.batch]
    for name in behind:
        if max(lasts[name], record.members[name][1]) < record.before:
            raise StateError(
                f"read_together: member {name!r} ({sinks[name].place}): its last epoch is older than the group's "
                "last whole one: was it deleted, or restored from an older copy? Bring back a copy that has all, or, "
                f"of a run with epochs, give its command with {option('from_start', True)}"
            )
    whole = record.before if behind else record.batch
    if whole == NOTHING:
        raise DataError(f"read_together: no epoch of query {record.query!r} is in every member yet")
    found = {}
    for name, sink in sinks.items():
        gone = "" if name in record.drained else sink.gone(record.query)
        if gone:
            raise StateError(
                f"read_together: member {name!r} ({sink.place}): {gone}: was it emptied, dropped or renamed? Bring the "
                "rows back"
            )
        upto = whole if whole > record.members[name][1] else None  # of one that joined later nothing is before
        if upto is None and lasts[name] == NOTHING:
            found[name] = pa.table({})
            continue
        try:
            table = sink.cut(record.query, upto, record.batch)
        except Untold as error:
            what = f"what was decided last, up to epoch {record.epoch:,}," if record.epoch else f"batch {record.batch}"
            raise _Uncut(
                f"{what} is not yet at {' and '.join(map(repr, behind)) or 'every member'}, and which rows of member "
                f"{name!r} ({sink.place}) are of it cannot be told: {error}. Nothing is lost: "
                + ("give the run's command again" if record.epoch else "start the query again")
                + ", which commits it first, and read when that is done"
            ) from None
        if table is None:
            return None
        found[name] = table
    return found


def _last(sink: Sink, query: str) -> int:
    last = sink.last(query)
    return NOTHING if last is None else last
