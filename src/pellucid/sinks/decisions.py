"""The decisions of a group of sinks: one small file, which is there whole before any member commits.

The log is a folder of the group's own and not a table of one of its databases, because a member may come back from a
backup: a log that came back with it would know nothing of what was decided since, and what is decided in one place
would be taken back in another.  A folder also serves groups that have no database.

Only the last decision is kept: no epoch is decided before the one before it is in every member.  Who takes the log
writes its own name into it; a driver that was believed dead and wakes up finds another name there, and decides nothing
(a decision is taken under a lock of the folder, and only over the name that is one's own).

::

    FOLDER/decisions.json     the group, its members, who decides now, the last decision; lasts
    FOLDER/whole.json         up to where every member has all: a hint, which may be old or gone
    FOLDER/rows/ATTEMPT-…     the rows of an attempt, for members that cannot keep what they have prepared
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from pellucid.internal.base.files import (
    Draft,
    beside,
    checked,
    make_lasting,
    own_folder,
    read_small,
    sealed,
    sync,
    write_lasting,
)
from pellucid.sinks.folder import one_at_a_time
from pellucid.sinks.rows import rows_of

NAME, _WHOLE = "decisions.json", "whole.json"
NOTHING = -1  # the batch before the first
_USER = "user="
FILE = "file: "  # the target of a member that becomes visible as a whole, when the run ends


class Moved(Exception):  # noqa: N818 - no error: the log is read again
    """Another driver has decided something since the log was read."""


@dataclass(frozen=True)
class Record:
    """What the log says.  ``members`` has for each the target and the batch after which it joined."""

    group: str
    owner: str
    query: str
    members: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    batch: int = NOTHING  # the last that is decided
    before: int = NOTHING  # the one before it
    attempt: str = ""
    epoch: int = 0  # of a run with epochs: which one it is
    at: str = ""  # when that was decided, in UTC
    drained: frozenset[str] = frozenset()  # members from which other programs take rows out
    users: Mapping[str, str] = field(default_factory=dict)  # who logs in to them, where that is known

    def document(self) -> dict[str, Any]:
        """As plain data."""
        rest = {name: value for name, value in self.__dict__.items() if name not in ("drained", "users")}
        members = {
            name: [  # earlier versions read the first two
                *one,
                *(["drained"] if name in self.drained else []),
                *([f"{_USER}{self.users[name]}"] if self.users.get(name) else []),
            ]
            for name, one in self.members.items()
        }
        return {"format": 1, **rest, "members": members}

    @staticmethod
    def parse(found: Mapping[str, Any]) -> Record:
        """From plain data."""
        rest = {name: value for name, value in found.items() if name not in ("format", "members")}
        return Record(
            **rest,
            members={name: (one[0], int(one[1])) for name, one in found["members"].items()},
            drained=frozenset(name for name, one in found["members"].items() if "drained" in one[2:]),
            users={
                name: word.removeprefix(_USER)
                for name, one in found["members"].items()
                for word in one[2:]
                if word.startswith(_USER)
            },
        )


class DecisionLog:
    """The log of one group.

    >>> import tempfile
    >>> log = DecisionLog(tempfile.mkdtemp() + "/log")
    >>> log.take("orders", {"archive": "out"}).batch
    -1
    >>> log.decide(0, "a1").batch, log.read().attempt
    (0, 'a1')
    >>> other = DecisionLog(log.folder)
    >>> _ = other.take("orders", {"archive": "out"})
    >>> log.decide(1, "a2")
    Traceback (most recent call last):
    pellucid.errors.StateError: ...: another driver of this group has begun meanwhile, and this one decides nothing any
    more: stop one of the two
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._me = uuid.uuid4().hex
        self.record: Record | None = None  # what we wrote last

    # ------------------------------------------------------------ reading

    def read(self) -> Record | None:
        """What is decided; None if there is no log yet."""
        path = self.folder / NAME
        try:
            found = checked(read_small(path))
            if found["format"] != 1:
                raise StateError(
                    f"{path}: a log of another version of Pellucid (format {found['format']}, and this one knows 1): "
                    "use the version that wrote it, or a later one"
                )
            return Record.parse(found)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(
                f"{path}: the log of decisions cannot be read: {error.strerror or error}: repair that, or bring the "
                "folder back from a copy"
            ) from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StateError(
                f"{path}: not a log of decisions ({error}): the file is damaged; bring it back from a copy"
            ) from None

    def set_aside(self) -> bool:
        """Put a damaged log out of the way, under another name; whether there was one.  (One of another version is not
        damaged.)"""
        path = self.folder / NAME
        try:
            found = checked(read_small(path))
            if found["format"] == 1:
                Record.parse(found)
        except FileNotFoundError:
            return False
        except (ValueError, LookupError, TypeError, AttributeError):
            os.replace(path, path.with_name(f"{NAME}.damaged"))
            return True
        return False

    def whole(self) -> int:
        """Up to which batch of the query every member has all, as far as it was written down."""
        record = self.read()
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = checked(read_small(self.folder / _WHOLE))
            if record is not None and found["query"] == record.query:
                return min(int(found["batch"]), record.batch)
        return NOTHING

    # ------------------------------------------------------------ writing

    def take(
        self,
        query: str,
        members: Mapping[str, str],
        *,
        joined: Mapping[str, int] | None = None,
        seen: Record | bool | None = False,
        drained: Collection[str] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> Record:
        """Be the one who decides from now on; ``members`` are the names and their targets, ``joined`` says of new ones
        after which batch they join, ``drained`` from which others take rows out, ``users`` who logs in (None: as it
        was).

        ``seen`` is what the caller has read, and came to its conclusions by (None: there was no log): if another driver
        has decided something since, nothing is taken, and `Moved` is raised.
        """
        own_folder(self.folder, asked="log", mark=NAME)
        make_lasting(self.folder)
        with one_at_a_time(self.folder):
            there = self.read()
            if not isinstance(seen, bool) and _decided(there) != _decided(seen):
                raise Moved
            found = there or Record(uuid.uuid4().hex, "", query)
            if found.query != query:  # a new checkpoint: what came before was whole, as the caller has seen
                found = Record(found.group, "", query)
            known = {name: after for name, (_, after) in found.members.items()}
            after = known | dict(joined or {})
            made = replace(
                found,
                owner=self._me,
                members={n: (place, after.get(n, NOTHING)) for n, place in members.items()},
                drained=found.drained if drained is None else frozenset(drained),
                users=found.users if users is None else dict(users),
            )
            self._write(made)
        return made

    def decide(self, batch: int, attempt: str, epoch: int = 0) -> Record:
        """Write down that the batch is committed everywhere: from when this returns there is no way back.

        If it raises, `knows` says whether it was written all the same.
        """
        with self.owned() as found:
            if batch <= found.batch:
                return found
            faults.point("together:before-decision")
            made = replace(found, batch=batch, before=found.batch, attempt=attempt, epoch=epoch, at=_now())
            self._write(made)
        faults.point("together:decided")
        return made

    def adopt(self, batch: int, epoch: int) -> Record:
        """The log was lost, or is an older copy: what a member has was decided, by an attempt that is not known any
        more."""
        with self.owned() as found:
            made = replace(found, batch=batch, attempt="", epoch=epoch, at=_now())
            self._write(made)
        return made

    def knows(self, batch: int, attempt: str) -> bool:
        """Whether this attempt is decided, for who was interrupted in `decide`."""
        found = self.read()
        return found is not None and (found.batch, found.attempt) == (batch, attempt)

    def note_whole(self, query: str, batch: int) -> None:
        """Every member has all up to this batch: for who wants to take one away, and who asks what is unresolved."""
        with suppress(OSError):
            write_lasting(self.folder / _WHOLE, [sealed({"query": query, "batch": batch})], lasting=False)

    def _write(self, record: Record) -> None:
        write_lasting(self.folder / NAME, [sealed(record.document())])
        self.record = record

    # ------------------------------------------------------------ kept rows

    def rows_file(self, attempt: str, name: str) -> Path:
        """Where the rows of an attempt are kept: those of a member, or of all."""
        return self.folder / "rows" / f"{attempt}-{name or 'all'}.arrow"

    def forget_rows(self, attempt: str) -> None:
        """The rows of an attempt are not needed any more."""
        with suppress(OSError):  # `sweep` takes them away later
            for path in (self.folder / "rows").glob(f"{attempt}*") if attempt else ():
                path.unlink(missing_ok=True)

    @contextmanager
    def owned(self) -> Iterator[Record]:
        """Alone with the log, which is still ours: for taking back what others have prepared.  No other driver can have
        taken the log, prepared and decided meanwhile, so nothing that is decided is taken back.

        >>> import tempfile
        >>> log = DecisionLog(tempfile.mkdtemp() + "/log")
        >>> _ = log.take("orders", {"archive": "out"})
        >>> with log.owned() as record:
        ...     record.batch
        -1
        """
        with one_at_a_time(self.folder):
            found = self.read()
            if found is None:
                raise StateError(
                    f"{self.folder}: the log of decisions is gone, and nothing is decided without it: bring it back, "
                    "and begin again"
                )
            if found.owner != self._me:
                raise StateError(
                    f"{self.folder}: another driver of this group has begun meanwhile, and this one decides nothing "
                    "any more: stop one of the two"
                )
            yield found

    def sweep(self) -> None:
        """Remove the rows of all attempts, if the log is still ours: another driver keeps rows there by which it
        decides."""
        with suppress(StateError), self.owned():
            for path in (self.folder / "rows").glob("*"):
                path.unlink(missing_ok=True)


def _decided(record: Record | None) -> tuple[str, int, str] | None:
    """What a record says is decided, without who decides next."""
    return None if record is None else (record.query, record.batch, record.attempt)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# The rows of an attempt, kept beside the log until every member has them: for members that cannot keep what they have
# prepared.  They are written once, whatever gave them, and each member reads its own from there.


def keep(
    log: DecisionLog, data: Any, attempt: str, names: list[str], *, by: str | None, outputs: list[str]
) -> tuple[dict[str, Path], dict[str, int]]:
    """Write the rows of an attempt: of each member its own, or with the name "" those of all; the files and how many
    rows each has.  They last when `make_last` has returned.

    >>> import pyarrow as pa, tempfile
    >>> log = DecisionLog(tempfile.mkdtemp())
    >>> files, counts = keep(log, pa.table({"x": [1, 2]}), "a1", [""], by=None, outputs=[])
    >>> counts, reader(files[""])().to_pydict()
    ({'': 2}, {'x': [1, 2]})
    """
    import pyarrow as pa

    make_lasting(log.folder / "rows")
    rows = rows_of(data)
    schemas = {name: _own_schema(rows.schema, name, by, outputs) for name in names}
    if by is not None and by not in rows.schema.names:
        raise DataError(f"together: there is no column {by!r}; there are {', '.join(rows.schema.names)}")
    files = {name: log.rows_file(attempt, name) for name in names}
    drafts = {name: Draft(beside(files[name])) for name in names}
    counts = dict.fromkeys(names, 0)
    try:
        writers = {name: pa.ipc.new_stream(drafts[name].file, schemas[name]) for name in names}
        for batch in rows:
            for name, own in _routed(batch, by, outputs, names):
                counts[name] += own.num_rows
                writers[name].write_batch(own.select(schemas[name].names))
        for name in names:
            writers[name].close()
            drafts[name].place(files[name], lasting=False)
    finally:
        for draft in drafts.values():
            draft.discard()
    return files, counts


def make_last(files: list[Path]) -> None:
    """Have the rows on the disk: no attempt is decided before."""
    for path in files:
        sync(path)
    for folder in {path.parent for path in files}:
        sync(folder)


def reader(path: Path) -> Callable[[], Any]:
    """What gives the rows anew, as often as it is called."""

    def read() -> Any:
        import pyarrow as pa

        try:
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_stream(file).read_all()
        except FileNotFoundError:
            raise StateError(
                f"{path}: the rows of this attempt are gone: another driver of this group has begun meanwhile, or "
                "they were deleted. Stop one of the two, or write the batch again"
            ) from None
        except pa.ArrowInvalid as error:
            raise StateError(
                f"{path}: the rows that are kept here are damaged ({error}): bring the file back from a copy"
            ) from None

    return read


def _own_schema(schema: Any, name: str, by: str | None, outputs: list[str]) -> Any:
    import pyarrow as pa

    if by is None:
        return schema
    return pa.schema(
        [field for field in schema if field.name != by and (field.name == name or field.name not in outputs)]
    )


def _routed(batch: Any, by: str | None, outputs: list[str], names: list[str]) -> Iterator[tuple[str, Any]]:
    if by is None:
        yield "", batch
        return
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(batch.schema.get_field_index(by))
    for found in column.unique().to_pylist():
        if found not in outputs:
            raise DataError(
                f"together: column {by!r} names the output {found!r}, which is no member; there are "
                f"{', '.join(outputs)} (give it None to leave its rows out)"
            )
        if found in names:
            yield found, batch.filter(pc.equal(column, pa.scalar(found, column.type)))
