"""What is in doubt in a group of sinks, for an operator: which epoch is decided and not everywhere, since when, who
lacks it, and what resolves it.

`doubt_of_group` takes the folder of the log, a state folder of a run with epochs (``STATE/together``) or the checkpoint
of a query on Spark (``CHECKPOINT/pellucid-together``).  Nothing is changed, nobody is kept waiting.  Members are asked
by what the log says of them, which has no secret in it: a PostgreSQL as ``PGUSER`` and ``PGPASSWORD`` say; or by the
sinks that the caller gives.  Of one that cannot be asked that is said.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pellucid.address import Address
from pellucid.errors import DataError, PellucidError, option
from pellucid.sinks.group.log import FILE, NOTHING, DecisionLog, Record
from pellucid.sinks.interface import Sink

PLACES = ("", "together", "pellucid-together")  # where the log is, in what an operator names
_PARQUET = "parquet: "
_GONE = ("the file is gone", "the folder is gone")


@dataclass(frozen=True)
class MemberDoubt:
    """One member: what it is, the last batch that it has, and whether it lacks what is decided (None: nobody knows)."""

    name: str
    target: str
    last: int | None
    lacks: bool | None
    why: str = ""
    held: tuple[str, ...] = ()  # attempts that are prepared there
    lost: bool = False  # it had more once: it was deleted, or is an older copy

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**self.__dict__, "held": list(self.held)}


@dataclass(frozen=True)
class GroupDoubt:
    """What `doubt_of_group` found; ``in_doubt`` is None if nobody knows."""

    log: str
    query: str
    batch: int
    epoch: int
    since: str
    whole: int
    in_doubt: bool | None
    members: tuple[MemberDoubt, ...]
    epochs: bool = False  # of a run with epochs, else of a query or a program
    resolve: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """As plain data."""
        rest = {name: value for name, value in self.__dict__.items() if name not in ("members", "resolve")}
        return {**rest, "members": [m.document() for m in self.members], "resolve": list(self.resolve)}

    def lines(self) -> list[str]:
        """For a person."""
        if self.batch == NOTHING:
            return [f"{self.log}: nothing is decided yet: nothing is in doubt"]
        what = f"epoch {self.epoch:,} (up to push {self.batch:,})" if self.epochs else f"batch {self.batch:,}"
        lines = [f"{self.log}: {what} of {self.query!r}, decided {_ago(self.since)}, {self._told()}"]
        for member in self.members:
            state = {True: "lacks it", False: "has it", None: "was not asked"}[member.lacks]
            state = "lost rows" if member.lost else state
            lines.append(
                f"  {member.name:<12} {state:<14} {member.target}" + (f" ({member.why})" if member.why else "")
            )
            lines += [f"  {'':<12} prepared there: {attempt}" for attempt in member.held]
        waits = [m.name for m in self.members if m.lacks is not False]
        if self.in_doubt or (waits and self.whole < self.batch):
            lines.append(f"later {'epochs' if self.epochs else 'batches'} wait for {', '.join(waits)}")
        return lines + [f"to resolve it: {line}" for line in self.resolve]

    def _told(self) -> str:
        lost = _listed([m.name for m in self.members if m.lost])
        if lost:
            return f"was decided and committed, and {lost} does not have all that was"
        if self.in_doubt is None and self.whole >= self.batch:
            unseen = _listed([m.name for m in self.members if m.lacks is None])
            return f"was everywhere when it was committed; whether {unseen} still has it cannot be seen from here"
        return {True: "is in doubt", False: "is everywhere: nothing is in doubt", None: "may be in doubt"}[
            self.in_doubt
        ]


def doubt_of_group(path: str | os.PathLike[str], members: Mapping[str, Sink] | None = None) -> GroupDoubt:
    """What a group's log says is decided and not everywhere.  ``members`` are sinks to ask, by their names.

    >>> import pyarrow as pa, tempfile
    >>> from pellucid import sinks
    >>> folder = tempfile.mkdtemp()
    >>> made = {"orders": sinks.sqlite(folder + "/shop.db", "orders"), "archive": sinks.parquet(folder + "/archive")}
    >>> _ = sinks.together(made, log=folder + "/log").write(pa.table({"sum": [3, 5]}), "shop", 0)
    >>> found = doubt_of_group(folder + "/log")
    >>> found.batch, found.in_doubt, [m.lacks for m in found.members]
    (0, False, [False, False])
    """
    log = log_of_group(path)
    record = None if log is None else log.read()
    if log is None or record is None:
        raise DataError(
            f"{os.fspath(path)}: no group of sinks has a log there: give the folder that was its log=, the --state of "
            "a run with epochs, or the --checkpoint of a query"
        )
    whole = log.whole()
    asked = tuple(_asked(name, record, whole, (members or {}).get(name)) for name in record.members)
    if record.batch == NOTHING or all(m.lacks is False for m in asked):
        in_doubt: bool | None = False
    elif any(m.lacks for m in asked):
        in_doubt = True
    else:
        in_doubt = None  # what was written down of one that cannot be asked may be old
    epochs = record.epoch > 0
    resolve = () if in_doubt is False else _resolve(record, asked, epochs, whole)
    return GroupDoubt(
        str(log.folder), record.query, record.batch, record.epoch, record.at, whole, in_doubt, asked, epochs, resolve
    )


def log_of_group(path: str | os.PathLike[str]) -> DecisionLog | None:
    """The log in a folder, or in the state folder or checkpoint that it is; None if there is none."""
    for inner in PLACES:
        folder = Path(path) / inner
        if (folder / "decisions.json").is_file():
            return DecisionLog(folder)
    return None


def _asked(name: str, record: Record, whole: int, given: Sink | None) -> MemberDoubt:
    target, after = record.members[name]
    if record.batch == NOTHING:
        return MemberDoubt(name, target, None, False)
    if given is None and target.startswith(FILE):  # its rows are beside the log, and are put together at the end
        done = _made_since(target.removeprefix(FILE), record.at)
        why = "a file, and whole" if done else "a file, whole when the run ends"
        return MemberDoubt(name, target, None, False if done or whole >= record.batch else None, why)
    sink, why = (given, "") if given is not None else _sink_of(target)
    if sink is None:
        gone = why in _GONE
        return MemberDoubt(name, target, None, gone or None, why, lost=gone and _lost(after, record, whole))
    try:
        last = sink.last(record.query)
        held = tuple(f"{record.query}, batch {batch}, attempt {attempt}" for batch, attempt in sink.held(record.query))
    except (PellucidError, OSError) as error:
        return MemberDoubt(name, target, None, None, f"it cannot be asked: {' '.join(str(error).split())}")
    have = max(NOTHING if last is None else last, after)
    lost = have < record.batch and _lost(have, record, whole)
    why = "what was committed there is gone: deleted, or an older copy" if lost else ""
    return MemberDoubt(name, target, last, have < record.batch, why, held, lost)


def _made_since(path: str, at: str) -> bool:
    """Whether a file is there that is no older than that."""
    try:
        return os.stat(path).st_mtime >= datetime.fromisoformat(at).timestamp() - 1
    except (OSError, ValueError):
        return False


def _lost(have: int, record: Record, whole: int) -> bool:
    """Whether one that has less than is decided had more: no epoch is decided before the one before is everywhere."""
    return have < max(record.before, whole)


def _sink_of(target: str) -> tuple[Sink | None, str]:
    """A sink that can be asked without a secret, and without making anything; or why there is none."""
    from pellucid import sinks

    if target.startswith(_PARQUET):
        folder = target.removeprefix(_PARQUET)
        return (sinks.parquet(folder), "") if os.path.isdir(folder) else (None, _GONE[1])
    address = Address.of(target)
    if address.kind == "sqlite":
        there = os.path.isfile(address.file)
        return (sinks.sqlite(address.file, address.table, wait=1.0), "") if there else (None, _GONE[0])
    if address.kind == "postgres":  # whoever asks may have PGUSER and PGPASSWORD, or a password file
        mark = "&" if "?" in address.connection else "?"
        return sinks.postgres(f"{address.connection}{mark}connect_timeout=5", address.table), ""
    return None, "only its own sink can ask it: doubt_of_group(path, members)"


def _resolve(record: Record, members: tuple[MemberDoubt, ...], epochs: bool, whole: int) -> tuple[str, ...]:
    """What an operator does."""
    lost = [m.name for m in members if m.lost]
    lack = [m.name for m in members if m.lacks is not False and not m.lost]
    told = []
    if lost:
        start = f", or read all input again with {option('from_start', True)}" if epochs else ""
        told.append(f"bring {_listed(lost)} back from a copy that has all{start}: the same command alone is refused")
    if whole >= record.batch and not any(m.lacks and not m.lost for m in members):
        if lack:
            told.append(f"see that {_listed(lack)} can be reached and read from here, and ask again")
        return tuple(told)
    again = (
        "give the same command again: what is decided is committed first"
        if epochs
        else "start the query again, or call sinks.together(…, log=…).recover() from any program: what is decided is "
        "committed first"
    )
    prepared = f"pellucid.….{record.query}.{record.batch}.{record.attempt}"
    if lack:
        told.append(f"see that {_listed(lack)} can be reached and written to; then {again}")
    told.append(
        "never by hand what is decided: ROLLBACK PREPARED of a transaction that is called "
        f"{prepared}, or deleting the log, leaves some with the epoch and some without"
    )
    return tuple(told)


def _listed(names: list[str]) -> str:
    return " and ".join(names)


def _ago(since: str) -> str:
    """A time, and how long it is ago.

    >>> _ago("")
    'at an unknown time'
    """
    try:
        then = datetime.fromisoformat(since)
    except ValueError:
        return "at an unknown time"
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    days, rest = divmod(seconds, 86_400)
    parts = [(days, "d"), (rest // 3600, "h"), (rest // 60 % 60, "min"), (rest % 60, "s")]
    shown = next((i for i, (n, _) in enumerate(parts) if n), 3)
    return f"at {since} ({' '.join(f'{n} {u}' for n, u in parts[shown : shown + 2])} ago)"
