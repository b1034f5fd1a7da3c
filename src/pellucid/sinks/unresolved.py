"""What is unresolved in a group of sinks, for an operator: which epoch is decided but not everywhere, since when, which
members lack it, and what resolves it.

`doubt_of_group` takes the folder of the log, a state folder of a run with epochs (``STATE/together``) or the checkpoint
of a query on Spark (``CHECKPOINT/pellucid-together``).  Nothing is changed, and no writer is kept waiting.  Members are
asked with what the log says about them, which holds no secret: a PostgreSQL as the user of the run, or the one that
``PGUSER`` names, with ``PGPASSWORD``; or by the sinks that the caller gives.  One that cannot be asked is named.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, PellucidError, StateError, Unreachable, UsageError, from_outside, option
from pellucid.internal.address import Address, alike, as_user
from pellucid.internal.base.files import checked, read_small
from pellucid.sinks.decisions import FILE, NAME, NOTHING, DecisionLog, Record
from pellucid.sinks.interface import Sink, Untold

if TYPE_CHECKING:
    from pellucid.sinks.group import TogetherSink

PLACES = ("", "together", "pellucid-together")  # where the log is, in what an operator names
_WAIT = 3.0  # seconds for which a server may keep us waiting for a lock
_PARQUET, _DELTA = "parquet: ", "delta: "
_GONE = ("the file is gone", "the folder is gone")


@dataclass(frozen=True)
class MemberDoubt:
    """One member: what it is, the last batch that it has, and whether it lacks what is decided (None: not known)."""

    name: str
    target: str
    last: int | None
    lacks: bool | None
    why: str = ""
    held: tuple[str, ...] = ()  # what is prepared there, and decided
    lost: bool = False  # it had more once: it was deleted, emptied, or is an older copy
    undecided: tuple[str, ...] = ()  # what is prepared there, and not decided: it holds locks
    ahead: bool = False  # it has more than the log has decided
    remade: bool = False  # it is gone, and recreated by the same command

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**self.__dict__, "held": list(self.held), "undecided": list(self.undecided)}


@dataclass(frozen=True)
class GroupDoubt:
    """What `doubt_of_group` found; ``in_doubt`` is None if that is not known."""

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
        open_ = [m.name for m in self.members if m.undecided]
        ahead = [m.name for m in self.members if m.ahead]
        if self.batch == NOTHING:
            lines = [f"{self.log}: nothing is decided yet" + ("" if ahead else self._not_decided(open_))]
            if self.in_doubt is False:
                return lines
        else:
            what = f"epoch {self.epoch:,} (up to push {self.batch:,})" if self.epochs else f"batch {self.batch:,}"
            lines = [f"{self.log}: {what} of {self.query!r}, decided {_ago(self.since)}, {self._told(open_)}"]
        if ahead:
            lines[0] += f"{', and' if self.batch == NOTHING else ''} {_listed(ahead)} {_has(ahead)} more than that: "
            lines[0] += "the log is an older copy, or another one"
        for member in self.members:
            state = {True: "lacks it", False: "has it", None: "was not asked"}[member.lacks]
            state = "lost rows" if member.lost else "has more" if member.ahead else state
            state = "is gone" if member.remade else state
            state = "" if self.batch == NOTHING and not member.ahead and member.lacks is False else state
            lines.append(
                f"  {member.name:<12} {state:<14} {member.target}" + (f" ({member.why})" if member.why else "")
            )
            lines += [f"  {'':<12} prepared there: {name}" for name in member.held]
            lines += [f"  {'':<12} {name} is prepared and not decided: it holds locks" for name in member.undecided]
        waits = [m.name for m in self.members if m.lacks is not False and not m.target.startswith(FILE)]
        if waits and (self.in_doubt or self.whole < self.batch):
            lines.append(f"later {'epochs' if self.epochs else 'batches'} wait for {', '.join(waits)}")
        return lines + [f"to resolve it: {line}" for line in self.resolve]

    def _not_decided(self, names: list[str]) -> str:
        if names:
            return f": what is prepared at {_listed(names)} is not decided"
        unseen = _listed([m.name for m in self.members if m.lacks is None])
        if unseen:
            return f"; whether {unseen} has something prepared cannot be seen from here"
        return ": nothing is unresolved"

    def _told(self, undecided: list[str]) -> str:
        if any(m.ahead for m in self.members):
            return "is the last that is decided here, and"
        lost = _listed([m.name for m in self.members if m.lost])
        if lost:
            return f"was decided and committed, and {lost} does not have all that was"
        remade = [m.name for m in self.members if m.remade]
        if remade and not any(m.lacks or m.undecided for m in self.members if not m.remade):
            return f"was decided and committed, and {_listed(remade)} {'is' if len(remade) == 1 else 'are'} gone"
        if self.in_doubt is None and self.whole >= self.batch:
            unseen = _listed([m.name for m in self.members if m.lacks is None])
            return f"was everywhere when it was committed; whether {unseen} still has it cannot be seen from here"
        if undecided and all(m.lacks is False for m in self.members):
            return f"is everywhere; what is prepared at {_listed(undecided)} after it is not decided"
        return {True: "is unresolved", False: "is everywhere: nothing is unresolved", None: "may be unresolved"}[
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
    asked = [_asked(name, record, whole, (members or {}).get(name), log.folder.parent) for name in record.members]
    now = log.read() or record  # a driver may have decided more while they were asked
    if (now.query, now.batch) != (record.query, record.batch):
        asked = [replace(m, ahead=m.ahead and (m.last or 0) > now.batch, undecided=()) for m in asked]
    found = tuple(asked)
    if any(m.lacks or m.undecided or m.ahead for m in found):
        in_doubt: bool | None = True
    elif all(m.lacks is False for m in found):
        in_doubt = False
    else:
        in_doubt = None  # what was recorded of one that cannot be asked may be out of date
    epochs = record.epoch > 0 or (log.folder.parent / "run.json").is_file()
    resolve = () if in_doubt is False else _resolve(record, found, epochs, whole)
    return GroupDoubt(
        str(log.folder), record.query, record.batch, record.epoch, record.at, whole, in_doubt, found, epochs, resolve
    )


def log_of_group(path: str | os.PathLike[str]) -> DecisionLog | None:
    """The log in a folder, or in the state folder or checkpoint that it is; None if there is none."""
    for inner in PLACES:
        folder = Path(path) / inner
        if (folder / NAME).is_file():
            return DecisionLog(folder)
    return None


def _asked(name: str, record: Record, whole: int, given: Sink | None, state: Path) -> MemberDoubt:
    target, after = record.members[name]
    nothing = record.batch == NOTHING
    if given is None and target.startswith(FILE):
        return _file(name, record, whole, state)
    user = os.environ.get("PGUSER") or record.users.get(name, "")
    sink, why = (given, "") if given is not None else _sink_of(target, user, drained=name in record.drained)
    target = as_user(target, record.users.get(name, ""))
    if sink is None:
        if nothing:
            return MemberDoubt(name, target, None, False)
        gone = why in _GONE
        return MemberDoubt(name, target, None, gone or None, why, lost=gone and _lost(after, record, whole))
    try:
        held = sink.held(record.query)
        names = {one: sink.held_name(record.query, *one) for one in held}
        last, why = sink.last(record.query), sink.gone(record.query)
    except (PellucidError, OSError) as error:
        as_whom = "" if isinstance(error, Unreachable) else _as_whom(target)
        why = f"it cannot be asked: {' '.join(str(error).split())}{as_whom}"
        return MemberDoubt(name, target, None, None, why)
    have = max(NOTHING if last is None else last, after)
    lost = bool(why) or (have < record.batch and _lost(have, record, whole))
    why = why or ("what was committed there is gone: deleted, or an older copy" if lost else "")
    decided = (record.batch, record.attempt)
    return MemberDoubt(
        name, target, last, lost or have < record.batch, why, tuple(names[one] for one in held if one == decided), lost,
        tuple(names[one] for one in held if one != decided), last is not None and last > record.batch,
    )  # fmt: skip


def _file(name: str, record: Record, whole: int, state: Path) -> MemberDoubt:
    """A file: its rows are in the state folder, and are put together when the run ends."""
    target = record.members[name][0]
    path, rows = Path(target.removeprefix(FILE)), state / "committed" / name
    if record.batch == NOTHING:
        return MemberDoubt(name, target, None, False)
    if _made_since(path, record.at):
        return MemberDoubt(name, target, None, False, "a file, and whole")
    if (state / "run.json").is_file() and not rows.is_dir():
        lost = _lost(NOTHING, record, whole)
        return MemberDoubt(
            name, target, None, True, f"the rows that were committed are gone: no folder {rows}", lost=lost
        )
    if _finished(state) and not path.exists():
        why = f"{_GONE[0 if path.parent.is_dir() else 1]}; its rows are in {rows}"
        return MemberDoubt(name, target, None, True, why, remade=True)
    return MemberDoubt(name, target, None, False if whole >= record.batch else None, "a file, whole when the run ends")


def _finished(state: Path) -> bool:
    """Whether a run with epochs has come to its end: then its files were there."""
    try:
        return bool(checked(read_small(state / "progress.json")).get("finished"))
    except (OSError, ValueError, AttributeError):
        return False


def _as_whom(target: str) -> str:
    """Where the log names no user: as which user a server is asked.

    >>> _as_whom("sqlite:/shop.db#t"), _as_whom("postgresql://me@db:5432/shop#t")
    ('', '; PGPASSWORD, or a password file, says the password of me')
    """
    address = Address.of(target)
    if address.kind != "postgres" or os.environ.get("PGPASSWORD"):
        return ""
    user = address.user
    if user:
        return f"; PGPASSWORD, or a password file, says the password of {user}"
    return "; the log knows no user: PGUSER and PGPASSWORD say as whom it is asked"


def _made_since(path: Path, at: str) -> bool:
    """Whether there is a file no older than that."""
    try:
        return os.stat(path).st_mtime >= datetime.fromisoformat(at).timestamp() - 1
    except (OSError, ValueError):
        return False


def _lost(have: int, record: Record, whole: int) -> bool:
    """Whether one with less than is decided once had more: an epoch is decided only when the last is everywhere."""
    return have < max(record.before, whole)


def _sink_of(target: str, user: str, *, drained: bool) -> tuple[Sink | None, str]:
    """A sink that can be asked without a secret, and without making anything; or why there is none."""
    from pellucid import sinks

    if target.startswith(_PARQUET):
        folder = target.removeprefix(_PARQUET)
        return (sinks.parquet(folder), "") if os.path.isdir(folder) else (None, _GONE[1])
    if target.startswith(_DELTA) and "://" not in target:
        folder = target.removeprefix(_DELTA)
        return (sinks.delta(folder, drained=drained), "") if os.path.isdir(folder) else (None, _GONE[1])
    address = Address.of(target)
    if address.kind == "sqlite":
        there = os.path.isfile(address.file)
        return (sinks.sqlite(address.file, address.table, wait=1.0, drained=drained), "") if there else (None, _GONE[0])
    # the operator may have PGPASSWORD, or a password file
    if address.kind == "postgres":
        asked = as_user(address.connection, user)
        asks = f"{asked}{'&' if '?' in asked else '?'}connect_timeout=5"
        return sinks.postgres(asks, address.table, wait=_WAIT, drained=drained), ""
    pairs = address.without_secrets()
    if pairs is not None and address.table:
        return sinks.postgres(f"{pairs} connect_timeout=5", address.table, wait=_WAIT, drained=drained), ""
    return None, "only its own sink can ask it: doubt_of_group(path, members)"


def _resolve(record: Record, members: tuple[MemberDoubt, ...], epochs: bool, whole: int) -> tuple[str, ...]:
    """What an operator does."""
    ahead = [m.name for m in members if m.ahead]
    start = f", or read all input again with {option('from_start', True)}" if epochs else ""
    if ahead:  # from a log that does not know what was decided, nothing can be said about the rest
        return (f"bring back the log that goes with {_listed(ahead)}{start}: the same command alone is refused",)
    lost = [m.name for m in members if m.lost]
    gone = [m for m in members if m.remade]
    waited = [m for m in members if m.lacks is not False and not m.lost and not m.remade]
    # a file is put together at the end, of rows that are beside the log: it need not be reached
    lack = [m.name for m in waited if not m.target.startswith(FILE)]
    told = []
    if gone:
        first = "recreate the folder, and " if any(_GONE[1] in m.why for m in gone) else ""
        told.append(f"{first}give the same command again: {_listed([m.name for m in gone])} is made from its rows")
    if lost:
        told.append(f"bring {_listed(lost)} back from a copy that has all{start}: the same command alone is refused")
    if any(m.undecided for m in members) and not lost and not waited:
        again = "give the same command again" if epochs else "start the query again, or call recover()"
        told.append(f"{again}: what is not decided is taken back, and comes again; one that runs now settles it itself")
        return tuple(told)
    if whole >= record.batch and not any(m.lacks and not m.lost and not m.remade for m in members):
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
    elif not lost:
        told.append(again)
    told.append(
        "never by hand what is decided: ROLLBACK PREPARED of a transaction that is called "
        f"{prepared}, or deleting the log, leaves some with the epoch and some without"
    )
    return tuple(told)


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _listed(names: list[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _ago(since: str) -> str:
    """A time, and how long ago it was.

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


# ``read_together``: the rows of all members of a group, up to the last epoch that all have.
#
# While an epoch is being committed, or while one member cannot be reached, some have it and others do not.  A reader
# that looks at each target by itself sees that; here each is read up to the last epoch that is everywhere: SQLite by
# the numbers of rows, PostgreSQL by the transaction that wrote them, Parquet by its manifests, Delta by its versions.

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
        except _Uncut as error:  # harmless if every member soon has the epoch
            found, why = None, str(error)
        except OSError as error:
            raise DataError(f"read_together: {from_outside(error)}") from error
        after = decisions.read()
        if found is not None and after is not None and after.batch == record.batch:
            return found
        time.sleep(_PAUSE)  # the group continues meanwhile
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
        upto = whole if whole > record.members[name][1] else None  # one that joined later has nothing before
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
