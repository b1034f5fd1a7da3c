"""Several files as one input that is read from any row on: one lane after the other.

A snapshot keeps the number of the file, where its lane was, and the marks of the files before it, which must not have
changed.  Files that are added behind the last are read when the run goes on; one that comes to stand before what was
read is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.bind import Binding, Place
from pellucid.internal.data.formats.missing import NEVER, Missing
from pellucid.internal.data.tables.folders import Found, part_value, parts_of
from pellucid.internal.engine.epochs.marks import check_unchanged
from pellucid.internal.engine.epochs.tasks.lanes import Lane, events_of
from pellucid.internal.engine.epochs.tasks.messages import Events
from pellucid.internal.expr.types import Type


class ManyLane:
    """Files that are read one after the other; what a source task needs of a `Lane`."""

    def __init__(
        self,
        name: str,
        files: Sequence[Found],
        form: str | None,
        bound: list[Binding],
        *,
        key: Mapping[str, Type],
        rows: int,
        wide: bool,
        limit: int | None = None,
        at: Mapping[str, Any] | None = None,
        keep: Sequence[str] = (),
        typed: Mapping[str, Type] = MappingProxyType({}),
        lenient: bool = False,
        missing: Missing = NEVER,
        whole: bool = False,
    ) -> None:
        self._missing, self._whole = missing, whole
        self.lenient = lenient
        self.last: tuple[Place, Any] | None = None
        self._keep, self._typed = list(keep), typed
        self.path, self._files, self._form, self.bound, self.key = name, list(files), form, bound, key
        self._rows, self.wide, self.limit = rows, wide, limit
        self._parts = parts_of(self._files)
        self._sizes = [os.path.getsize(one.path) for one in files]
        self.row = int(at["row"]) if at else 0
        self._done: list[list[Any]] = [list(one) for one in at["done"]] if at else []  # paths and marks
        self._lane = self._open(at["inner"] if at else None)

    def _open(self, at: Mapping[str, Any] | None) -> Lane:
        one = self._files[len(self._done)]
        parts = {name: pa.scalar(part_value(one, name, kind), kind) for name, kind in self._parts.items()}
        return Lane(
            one.path, self._form, self.bound, key=self.key, rows=self._rows, wide=self.wide, at=at,
            parts=parts, whole=self._whole or not self._at_last,
            keep=self._keep, typed=self._typed, lenient=self.lenient, missing=self._missing,
        )  # fmt: skip

    @property
    def _at_last(self) -> bool:
        return len(self._done) == len(self._files) - 1

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be read."""
        return self._at_last and self._lane.ended and self._lane.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return (self._at_last and self._lane.exhausted) or (self.limit is not None and self.row >= self.limit)

    def take(self, count: int) -> tuple[int, dict[str, Events]]:
        """Up to ``count`` rows (fewer only at the end of the last file): how many, and the events of each source."""
        first = self.row
        have, pieces, places = self.pieces(count)
        found, self.last = events_of(self, pieces, places, first) if have else ({}, None)
        return have, found

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows: how many, their batches, and the places of those."""
        if self.limit is not None:
            count = min(count, self.limit - self.row)
        pieces: list[Any] = []
        places: list[tuple[int, Place]] = []
        have = 0
        while have < count:
            got, more, where = self._lane.pieces(count - have)
            pieces += more
            places += where
            have += got
            if have < count:
                if self._at_last:
                    break
                self._next()
        self.row += have
        return have, pieces, places

    def look(self) -> None:
        """See whether there is one row more: then `exhausted` is sure."""
        self._lane.look()
        while self._lane.exhausted and not self._at_last:
            self._next()
            self._lane.look()

    def _next(self) -> None:
        self._done.append([self._files[len(self._done)].path, self._lane.offset()["mark"]])
        self._lane.close()
        self._lane = self._open(None)

    def share(self) -> float | None:
        """How much is read."""
        at = len(self._done)
        inner = self._lane.share() or 0.0
        return (sum(self._sizes[:at]) + inner * self._sizes[at]) / max(1, sum(self._sizes))

    def offset(self) -> dict[str, Any]:
        """Where it is, and the marks of all that was read."""
        done = list(self._done)  # a snapshot is written later, when more may be done
        return {"row": self.row, "ended": self.ended, "done": done, "inner": self._lane.offset()}

    def held_back(self) -> str | None:
        """What of the last file was not read, as it is no whole line yet; in words."""
        return self._lane.held_back() if self._at_last else None

    def close(self) -> None:
        """Close the files."""
        self._lane.close()


def check_files(
    name: str, files: Sequence[Found], at: Mapping[str, Any], *, thorough: bool, form: str | None = None
) -> None:
    """Refuse files of which something that was read is not what it was."""
    now = [one.path for one in files]
    before = [path for path, _ in at["done"]]
    for i, path in enumerate(before):
        if i >= len(now) or now[i] != path:
            if path not in now:
                raise DataError(
                    f"{path}: no such file in {name}: the run in this state folder has read it; bring it back"
                )
            raise DataError(
                f"{now[i]}: is new, and comes before {path}, which was read: what is added must come behind the last "
                "file; take it away, or start anew in another state folder"
            )
    if len(before) >= len(now):
        raise DataError(f"{name}: the file that the run in this state folder was reading is gone: bring it back")
    for path, mark in at["done"]:
        check_unchanged(path, {"mark": mark}, thorough=False, form=form)
    check_unchanged(now[len(before)], at["inner"], thorough=thorough, form=form)
