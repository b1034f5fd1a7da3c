"""The rows of an upstream as an input: what was read ahead of its commit, what of it is sure, what was given up.

Rows that are committed when they are read are sure: an upstream does not take them back.  Of the others are kept the
names of the parts that they came from (`Ahead`), and a checksum for each epoch of this run (`Segment`):

* a part that is found among the committed ones under the same name has the rows that were read.  If it is not to be
  found (parts are merged, and made again when the upstream goes back) and as many rows are committed, these are read
  once more.  With the same checksum the epoch is *sure*, and may be committed here; with another, the upstream has
  given up what was read, and this run goes back (`Undone`);
* before another part is read, all parts whose rows are not sure must still be there.  If not, the upstream has gone
  back, and may make other rows: nothing is read on top of rows of another history; what was read is compared first,
  when it is committed again.

All of this is in the snapshots of the source, so a run that was killed asks the same again.

With a delay of *k* the first *k* pushes find the source silent, and push *i* takes row *i - k*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pellucid.errors import StateError, option
from pellucid.internal.base import faults
from pellucid.internal.data.binary import row_place
from pellucid.internal.data.bind import Binding, Place
from pellucid.internal.data.feed import wanted_columns
from pellucid.internal.engine.epochs.chain.rows import Digest, PartRows, digest_of
from pellucid.internal.engine.epochs.chain.upstream import Upstream, View
from pellucid.internal.engine.epochs.tasks.lanes import events_of
from pellucid.internal.engine.epochs.tasks.messages import Events
from pellucid.internal.expr.types import Type

_AHEAD = 256  # epochs of this run whose rows are not sure
# Rows, the last of an epoch, by which committed rows are known again after a start.  A checksum of all that was ever
# read would have to read all of it again at each start: docs/how-to-chain.md says what is not noticed instead.
_KNOWN_BY = 1024


class Segment(NamedTuple):
    """Rows that an epoch of this run has read before they were committed, and their checksum."""

    epoch: int
    begin: int
    end: int
    digest: str


class Ahead(NamedTuple):
    """A part that was not committed when rows of it were read: from which row on, and up to which it goes."""

    name: str
    begin: int
    end: int


class Undone(Exception):  # noqa: N818 - no error: what going back is for
    """The upstream has given up what was read; ``epoch`` is the last of this run that does not depend on it."""

    def __init__(self, epoch: int, why: str) -> None:
        super().__init__(why)
        self.epoch = epoch


class ChainLane:
    """What a source task needs of a `Lane`, over an output of another run; ``at`` is what a snapshot had of it."""

    def __init__(
        self, upstream: Upstream, bound: list[Binding], *, key: Mapping[str, Type], rows: int, wide: bool,
        limit: int | None = None, at: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.upstream, self.path, self.bound, self.key, self.wide = upstream, upstream.name, bound, key, wide
        self.limit, self._rows, self.lenient = limit, rows, False
        self.last: tuple[Place, Any] | None = None
        self._wanted = wanted_columns(bound, self.key)
        self._nulls = self._wanted if wide else self.key
        self.row = int(at["row"]) if at else 0
        self.delay = upstream.after
        self._waited = int(at["waited"]) if at and self.delay else 0  # of the pushes in which it is silent
        self.ended = False
        self.segments = [Segment(*one) for one in at["segments"]] if at else []
        self._ahead = [Ahead(*one) for one in at["ahead"]] if at else []
        self._checked: Segment | None = Segment(*at["checked"]) if at and at["checked"] else None
        self._sure = int(at["sure"]) if at else 0  # rows
        self._mended = list(at["mended"]) if at else upstream.mended()
        self._part: PartRows | None = None
        self._open: Digest | None = None  # of the rows of the open epoch, from the first that was read ahead
        self._begin = 0  # its number
        self._recent: Any = None  # the last rows of the open epoch
        if at:
            self._refuse_other(str(at["run"]))

    def _refuse_other(self, run: str) -> None:
        """Refuse an upstream of which rows have changed that this run has committed something on."""
        again = "Bring its state folder back from a copy, or start anew in another state folder"
        if run != self.upstream.run:
            raise StateError(
                f"{option('in', self.path)}: is another run than the one that was read before (it was started anew): "
                f"what is committed here depends on the first. {again}"
            )
        view = self.upstream.look()
        lost = view.committed < self._sure
        if not lost and self.upstream.mended() == self._mended:
            checked = self._checked
            if checked is None or self._digest(view, checked) in (checked.digest, None):
                return
        have = f"it has {view.committed:,} of the {self._sure:,} rows" if lost else "they are not what they were"
        raise StateError(
            f"{option('in', self.path)}: rows that this run has committed on were taken back ({have}): the upstream "
            f"has made committed rows again with {option('from_start', True)}, or its state folder was changed. {again}"
        )

    # ------------------------------------------------------------ reading

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return self.ended or (self.limit is not None and self.push >= self.limit)

    @property
    def push(self) -> int:
        """The push that takes the next row."""
        return self.row + self._waited

    def available(self, most: int) -> int:
        """For how many pushes there is what they take, up to so many; nobody waits."""
        if self.limit is not None:
            most = min(most, self.limit - self.push)
        if self._waited < self.delay:
            return min(most, self.delay - self._waited)
        if self._part is not None and not self._part.left:
            self._drop_part()
        if self._part is None and not self._find():
            return 0
        assert self._part is not None
        return min(most, self._part.left)

    def _find(self) -> bool:
        """Open the part with the next row, if it is there, and if all that was read ahead still is."""
        if len(self.segments) >= _AHEAD:
            return False
        view = self.upstream.look()
        part = view.at(self.row)
        if part is None:
            return False
        first, name, _ = part
        try:
            found = PartRows(self.upstream, part, self.row, self._wanted, nulls=self._nulls, rows=self._rows)
        except FileNotFoundError:  # it was committed, merged or given up meanwhile
            return False
        if not self.segments and self._open is None:
            self._ahead = []
        if not self._still_there():  # looked at after the new part was there
            found.close()
            return False
        self._part = found
        end = first + name.rows
        if end > view.committed:
            self._ahead.append(Ahead(str(name), self.row, end))
            faults.point("chain:ahead")
        return True

    def _drop_part(self) -> None:
        if self._part is not None:
            self._part.close()
        self._part = None

    def _still_there(self) -> bool:
        """Whether all parts are there of which rows were read that are not sure."""
        self._confirm(view := self.upstream.look())
        return all(one.name in view.names for one in self._ahead)

    def take(self, count: int) -> tuple[int, dict[str, Events]]:
        """For up to ``count`` pushes what is there: for how many, and the events of each source."""
        if self._waited < self.delay:
            have, self.last = self.available(count), None
            self._waited += have
            return have, {}
        first = self.push
        have, pieces, places = self.pieces(count)
        found, self.last = events_of(self, pieces, places, first) if have else ({}, None)
        return have, found

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows that are there: how many, their batches, and the places of those."""
        have = self.available(count)
        if not have:
            return 0, [], []
        assert self._part is not None
        pieces = self._part.take(have)
        if self._open is None and self._ahead and self._ahead[-1].end > self.row:
            self._open, self._begin = Digest(), self.row
        places, at = [], self.row
        for piece in pieces:
            if self._open is not None:
                self._open.add(piece)
            places.append((piece.num_rows, row_place(self.path, at)))
            at += piece.num_rows
            self._recent = piece
        self.row = at
        return have, pieces, places

    def look(self) -> None:
        """Only by event time somebody has to know whether there is one row more."""

    def share(self) -> float | None:
        """Nobody knows how much will come."""
        return 1.0 if self.ended else None

    def held_back(self) -> str | None:
        """Nothing is."""
        return None

    # ------------------------------------------------------------ what is sure

    def close_epoch(self, epoch: int) -> None:
        """An epoch of this run ends here."""
        if self._open is not None:
            self.segments.append(Segment(epoch, self._begin, self.row, self._open.text()))
            self._open = None
        elif self._recent is not None:  # all of it was committed when it was read
            digest, count = Digest(), min(self._recent.num_rows, _KNOWN_BY)
            digest.add(self._recent.slice(self._recent.num_rows - count))
            self._checked = Segment(epoch, self.row - count, self.row, digest.text())
        self._recent = None

    def sure(self, closed: int) -> int:
        """The last epoch of this run, of those that are closed, all of whose rows are sure."""
        return self.segments[0].epoch - 1 if self.segments else closed

    def check(self, now: int) -> None:
        """Look whether what was read ahead was committed, and as it was read; ``now`` is the epoch that is open."""
        view = self.upstream.look()
        self._confirm(view)
        while self.segments and (self._named(self.segments[0].end) or view.committed >= self.segments[0].end):
            segment = self.segments[0]
            if not self._named(segment.end) and not self._same(view, segment, segment.digest):
                return  # parts are being merged: the next look will find them
            self._checked, self._sure = segment, segment.end
            self.segments.pop(0)
            self._forget(segment.end)
        if self._open is not None and not self.segments:
            if self._named(self.row):
                self._open = None
            elif view.committed >= self.row and not self._still_there():
                self._check_open(view, now)
        if not self.segments and self._open is None:
            self._sure = max(self._sure, min(self.row, view.committed))
        if self.upstream.finished():
            self._end(now)

    def _check_open(self, view: View, now: int) -> None:
        """The upstream has gone back, and nothing more is read before it is known whether the rows of the open epoch
        are the same: no border may come else."""
        assert self._open is not None
        if self._same(view, Segment(now, self._begin, self.row, ""), self._open.so_far()):
            self._drop_part()
            self._open, self._ahead = None, []

    def _confirm(self, view: View) -> None:
        """Parts that are committed under their names have the rows that were read."""
        while self._ahead and self._ahead[0].name in view.shown:
            self._ahead.pop(0)

    def _named(self, end: int) -> bool:
        """Whether all parts with rows before this one were found committed."""
        return not self._ahead or self._ahead[0].begin >= end

    def _same(self, view: View, segment: Segment, digest: str) -> bool:
        """Whether rows that are committed now are those that were read; False if they cannot be read at this moment."""
        found = self._digest(view, segment)
        if found is not None and found != digest:
            raise Undone(segment.epoch - 1, self._given_up(segment.begin, segment.end))
        return found is not None

    def _forget(self, row: int) -> None:
        """All rows before this one are sure."""
        left = [one for one in self._ahead if one.end > row]
        self._ahead = [one._replace(begin=max(one.begin, row)) for one in left]

    def _end(self, now: int) -> None:
        """The upstream has come to its end: as many rows as it has committed, no more."""
        view = self.upstream.look()  # after it was seen to be at the end
        lacks = view.committed <= self.row and self.upstream.lacks(view) and not self.upstream.running()
        if lacks and self.upstream.lacks(self.upstream.look()):  # and parts were not just being merged
            raise StateError(
                f"{option('in', self.path)}: the run there has ended, and not all of its committed rows are in "
                f"{self.upstream.root / 'committed' / self.upstream.output}: bring the files back from a copy, or make "
                "them again: give that run's command again with --from-start"
            )
        if view.committed == self.row:
            self.ended = True
        elif view.committed < self.row and not self.upstream.running() and self.upstream.finished():
            view = self.upstream.look()  # it may have gone on meanwhile, and have ended again
            if view.committed < self.row:
                bad = next((s for s in self.segments if s.end > view.committed), None)
                begin = bad.begin if bad is not None else self._begin
                raise Undone((now if bad is None else bad.epoch) - 1, self._given_up(begin, self.row))

    def _given_up(self, begin: int, end: int) -> str:
        return f"{self.path}: rows {begin + 1:,} to {end:,} were given up by the upstream after they were read here"

    def _digest(self, view: View, segment: Segment) -> str | None:
        """The checksum of some rows as they are committed; None if they cannot be read at this moment."""
        try:
            return digest_of(self.upstream, view, segment.begin, segment.end, self._wanted, nulls=self._nulls)
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------ for a snapshot

    def offset(self) -> dict[str, Any]:
        """Where it is, and what is not sure of it."""
        waited = {"waited": self._waited} if self.delay else {}
        return {
            **waited,
            "row": self.row,
            "ended": self.ended,
            "run": self.upstream.run,
            "sure": self._sure,
            "segments": [list(one) for one in self.segments],
            "checked": list(self._checked) if self._checked is not None else None,
            "ahead": [list(one) for one in self._ahead],
            "mended": self._mended,
        }

    def close(self) -> None:
        """Close the files."""
        self._drop_part()
