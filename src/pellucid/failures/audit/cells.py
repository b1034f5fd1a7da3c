"""Cells of a trace: a task in a generation, or a range of its indices where that is long; and what is to be known of
each, in a few numbers.

The rules look one step back (and one border ahead), so these numbers are all that a piece of a trace must know of the
cells around it. Sums of the same cell, made in several places, can be merged in any order: what is first or last is
told by its index.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pellucid.failures.audit import recorded as rec
from pellucid.failures.audit.arrays import Array, Columns, Messages
from pellucid.failures.audit.rules import borders

Interval = tuple[int, int]
Place = tuple[int, int]


@dataclass
class IndexSpan:
    """A task in a generation: how many steps it has, and between which indices."""

    task: str
    generation: int
    steps: int
    low: int
    high: int


@dataclass
class Numbers:
    """The messages on one side of a stream."""

    messages: int
    index: int  # of the first step
    last: tuple[Place, int]  # the place of the last message, and its number
    low: int
    high: int

    def merge(self, other: Numbers) -> None:
        """The same of both."""
        self.messages += other.messages
        self.index, self.low, self.high = (
            min(self.index, other.index),
            min(self.low, other.low),
            max(self.high, other.high),
        )
        self.last = max(self.last, other.last)


@dataclass
class Passed:
    """What the steps after these must know of them; ``streams`` by side and stream."""

    low: int
    high: int
    due: Place | None = None  # the index of the last step of work, and the epoch after it
    next_border: Place | None = None  # the index of the first border, and its epoch
    failed: bool = False
    border: int | None = None  # the greatest epoch of each kind
    snapshot: int | None = None
    commit: int | None = None
    last_commit: Place | None = None
    streams: dict[tuple[str, str], Numbers] = field(default_factory=dict)

    def merge(self, other: Passed) -> None:
        """The same of both."""
        self.low, self.high, self.failed = (
            min(self.low, other.low),
            max(self.high, other.high),
            self.failed or other.failed,
        )
        for name in ("due", "border", "snapshot", "commit", "last_commit"):
            there = [v for v in (getattr(self, name), getattr(other, name)) if v is not None]
            setattr(self, name, max(there, default=None))
        self.next_border = min((v for v in (self.next_border, other.next_border) if v is not None), default=None)
        for key, moved in other.streams.items():
            if key in self.streams:
                self.streams[key].merge(moved)
            else:
                self.streams[key] = moved


@dataclass
class CellSum:
    """All steps of a cell, the kept ones alone, and what the crashes are judged by."""

    whole: Passed
    kept: Passed | None
    top: int | None  # the greatest epoch in which there was work
    stored: tuple[list[Interval], list[Interval]]  # epochs with a border, epochs with a snapshot
    borders: dict[tuple[str, int], int]  # by stream and epoch gone back to: the number of its border
    unknown: set[str]

    def merge(self, other: CellSum) -> None:
        """The same of both."""
        self.whole.merge(other.whole)
        if self.kept is None:
            self.kept = other.kept
        elif other.kept is not None:
            self.kept.merge(other.kept)
        self.top = max((v for v in (self.top, other.top) if v is not None), default=None)
        self.stored = (union(self.stored[0] + other.stored[0]), union(self.stored[1] + other.stored[1]))
        for key, n in other.borders.items():
            self.borders[key] = max(n, self.borders.get(key, n))
        self.unknown |= other.unknown


def summed(c: Columns, cut: int, wanted: Array) -> CellSum:
    """Steps of one cell; those of epochs up to ``cut`` are kept, and ``wanted`` are the epochs that recoveries went
    to."""
    border = borders(c)
    work = (c.rule == rec.SOURCE) | (c.rule == rec.EVENT) | (c.rule == rec.BORDER)
    kept = work & (c.epoch <= cut)
    sent = c.produced
    chosen = np.flatnonzero(sent.border & np.isin(c.epoch[sent.step], wanted))
    gone: dict[tuple[str, int], int] = {}
    for stream, epoch, n in zip(
        sent.stream[chosen].tolist(), c.epoch[sent.step[chosen]].tolist(), sent.n[chosen].tolist(), strict=True
    ):
        gone[c.streams[stream], epoch] = max(n, gone.get((c.streams[stream], epoch), n))
    whole = _passed(c, np.ones(len(c), dtype=bool), border, work)
    assert whole is not None
    closed = intervals(c.epoch[border]), intervals(c.epoch[c.rule == rec.SNAPSHOT])
    return CellSum(whole, _passed(c, kept, border, work), _most(c.epoch[work]), closed, gone, set(c.unknown))


def _passed(c: Columns, which: Array, border: Array, work: Array) -> Passed | None:
    at = np.flatnonzero(which)
    if not len(at):
        return None
    index = c.index[at]
    out = Passed(int(index.min()), int(index.max()))
    working, ends, commits = at[work[at]], at[border[at]], at[c.rule[at] == rec.COMMIT]
    if len(working):
        last = working[np.argmax(c.index[working])]
        out.due = (int(c.index[last]), int(c.epoch[last] + border[last]))
    if len(ends):
        first = ends[np.argmin(c.index[ends])]
        out.next_border = (int(c.index[first]), int(c.epoch[first]))
    if len(commits):
        last = commits[np.argmax(c.index[commits])]
        out.last_commit = (int(c.index[last]), int(c.epoch[last]))
    out.failed = bool((c.rule[at] == rec.FAIL).any())
    out.border, out.commit, out.snapshot = (
        _most(c.epoch[ends]),
        _most(c.epoch[commits]),
        _most(c.epoch[at[c.rule[at] == rec.SNAPSHOT]]),
    )
    for side, some in (("consumed", (c.consumed, c.heard)), ("produced", (c.produced, c.told))):
        for m in some:
            out.streams |= {(side, c.streams[s]): moved for s, moved in _moved(c, m.chosen(which[m.step])).items()}
    return out


def _moved(c: Columns, m: Messages) -> dict[int, Numbers]:
    out = {}
    at = np.arange(len(m)) - np.searchsorted(m.step, m.step)
    for stream in np.unique(m.stream).tolist():
        mine = np.flatnonzero(m.stream == stream)
        index, n = c.index[m.step[mine]], m.n[mine]
        last = mine[np.lexsort((at[mine], index))[-1]] if (np.diff(index) < 0).any() else mine[-1]
        out[stream] = Numbers(
            len(mine),
            int(index.min()),
            ((int(c.index[m.step[last]]), int(at[last])), int(m.n[last])),
            int(n.min()),
            int(n.max()),
        )
    return out


def _most(values: Array) -> int | None:
    return int(values.max()) if len(values) else None


def intervals(values: Array) -> list[Interval]:
    """Numbers as ranges.

    >>> intervals(np.array([3, 1, 2, 7]))
    [(1, 3), (7, 7)]
    """
    there = np.unique(values)
    if not len(there):
        return []
    jump = np.flatnonzero(np.diff(there) > 1)
    return list(
        zip(there[np.append(0, jump + 1)].tolist(), there[np.append(jump, len(there) - 1)].tolist(), strict=True)
    )


def union(some: list[Interval]) -> list[Interval]:
    """What is in any of these ranges."""
    out: list[Interval] = []
    for low, high in sorted(some):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def in_all(some: list[list[Interval]]) -> list[Interval]:
    """What is in each of several sets of ranges.

    >>> in_all([[(1, 5), (8, 9)], [(2, 8)]])
    [(2, 5), (8, 8)]
    """
    out = some[0] if some else []
    for other in some[1:]:
        out = [(max(a, c), min(b, d)) for a, b in out for c, d in other if max(a, c) <= min(b, d)]
    return out
