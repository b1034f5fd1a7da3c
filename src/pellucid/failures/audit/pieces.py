"""The rules asked of a piece of a trace: some steps in their order, or some messages with both their ends.

Each rule compares a step with the one before it in its task, or a message with its producer.  So a trace can be cut
anywhere, if a piece knows what stood before it: the epoch that was due, the last number on each stream, what was
visible.  That is given to it as a few
*ghosts*, which are steps that stand for all those before it (or after it: the next border).  Ghosts are asked no
questions.  The rules are those of `rules`, `messages`, `crashes` and `replayed`, unchanged; what only the whole trace
can say (`Known`) is told to every piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.failures.audit import crashes, messages, recorded, replayed, rules
from pellucid.failures.audit.arrays import Array, Columns, Messages, columns, reordered
from pellucid.failures.audit.crashes import Archives
from pellucid.failures.audit.rules import NEVER, Findings, TraceFrame
from pellucid.failures.audit.words import Violation

if TYPE_CHECKING:
    import pyarrow as pa

# A message says on which side it stands; a SNAPSHOT step goes the same way, as the message that it is.
PRODUCED, CONSUMED, TOLD, HEARD, STORED = range(5)


@dataclass(frozen=True)
class Known:
    """What the whole trace says, and every piece of it must know."""

    tasks: list[str]
    streams: list[str]
    targets: dict[int, int]  # by generation, the epoch that its F-RECOVER went back to
    generations: int
    atomic: bool  # no SNAPSHOT on record: a border is one
    degrees: tuple[Array, Array]
    consumers: Array
    stream_starts: Array
    last_border: Array
    stored: Archives
    storing: Array
    acknowledged: bool
    unknown: list[str]
    limit: int
    kept: bool = False  # the failure-free trace: all that is kept, as one generation (Theorem 6.9)
    cuts: Array | None = None  # by generation, the last epoch that is kept; for the failure-free trace

    def frame(self, c: Columns) -> TraceFrame:
        """What the rules share, from the piece and from the whole."""
        made = rules.frame(c, self.targets, generations=self.generations, atomic=self.atomic)
        return replace(made, last_border=self.last_border, consumers=self.consumers)


@dataclass
class TraceSegment:
    """A task in a generation, as far as a piece has it: what is kept of it, for the joints between generations."""

    task: int
    generation: int
    kept: int
    undone: int
    late: bool  # a kept step is in no kept snapshot
    first: int  # the epoch of the first kept step
    due: int  # the epoch after the last
    border: int  # the last border that is kept


@dataclass
class PieceEnds:
    """The first and the last step of a piece, and whether its indices go up by one in between."""

    piece: int
    first: tuple[int, int]  # task and index
    last: tuple[int, int]
    regular: bool


@dataclass
class Merged:
    """What several pieces found: how many violations of each kind, the first of each in the order of the trace, and
    their ends."""

    limit: int
    counts: dict[tuple[bool, str], int] = field(default_factory=dict)
    first: dict[tuple[bool, str], list[Violation]] = field(default_factory=dict)
    segments: list[TraceSegment] = field(default_factory=list)
    ends: list[PieceEnds] = field(default_factory=list)

    def found(self, other: Findings) -> None:
        """The violations of one piece."""
        by: dict[tuple[bool, str], list[Violation]] = {}
        for v in other.first:
            by.setdefault((v.kept, v.kind), []).append(v)
        self._add(other.counts, by)

    def merge(self, other: Merged) -> None:
        """All that others found."""
        self._add(other.counts, other.first)
        self.segments += other.segments
        self.ends += other.ends

    def _add(self, counts: dict[tuple[bool, str], int], first: dict[tuple[bool, str], list[Violation]]) -> None:
        for key, count in counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        for key, more in first.items():
            self.first[key] = sorted([*self.first.get(key, []), *more], key=lambda v: v.place)[: self.limit]


@dataclass
class _OfPiece(Findings):
    """Violations of real steps: ghosts are asked no questions."""

    real: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def add(self, kind: str, c: Columns, steps: Array, **more: Any) -> None:
        mine = self.real[steps]
        if not mine.all():
            at = np.flatnonzero(mine)
            more = {
                name: value[at]
                if isinstance(value, np.ndarray)
                else [value[i] for i in at]
                if isinstance(value, list)
                else value
                for name, value in more.items()
            }
            steps = steps[at]
        super().add(kind, c, steps, **more)


@dataclass(frozen=True)
class Moved:
    """Messages as plain arrays, one position for each, with what matters about their steps."""

    side: Array
    stream: Array
    generation: Array
    task: Array
    border: Array
    n: Array
    index: Array
    at: Array  # the place in its step
    epoch: Array
    next_border: Array
    digest: Array

    def check(self, k: Known) -> Findings:
        """The rules of what was sent and received: these must be all messages of the same number on the same stream, in
        a generation."""
        order = np.lexsort((self.at, self.index, self.generation, self.task))
        m = Moved(*(getattr(self, name)[order] for name in self.__dataclass_fields__))

        def of(side: int) -> Messages:
            step = np.flatnonzero(m.side == side)
            return Messages(step, m.stream[step], m.n[step], m.border[step], m.digest[step])

        rule = np.where((m.side == STORED) | (m.side == TOLD), recorded.SNAPSHOT, recorded.EVENT).astype(np.int8)
        none = np.zeros(len(order), dtype=np.int64)
        c = Columns(
            k.tasks,
            k.streams,
            m.task,
            m.generation,
            m.index,
            rule,
            m.epoch,
            none,
            none.astype(bool),
            of(CONSUMED),
            of(PRODUCED),
            of(HEARD),
            of(TOLD),
            [],
        )
        f = replace(k.frame(c), next_border=m.next_border)
        found = Findings(k.limit, kept=k.kept)
        messages.delivery(f, found)
        if not k.kept:
            if len(c.heard):
                crashes.unfounded(f, found)
            stored = replace(c, rule=np.where(m.side == STORED, recorded.SNAPSHOT, recorded.EVENT))
            crashes.snapshots_twice(replace(f, c=stored), found)
        return found


def steps_piece(
    number: int, parts: Iterable[pa.Table], before: int, after: int, k: Known
) -> tuple[Findings, Moved, list[TraceSegment], PieceEnds] | None:
    """The rules of the steps of one piece: ``before`` of its rows are ghosts that come before the others, ``after``
    such that come after them.

    None if it has no steps: nothing in it is kept.
    """
    c = columns(parts, k.tasks, k.streams)
    generation = np.maximum(c.generation, 0)
    same = c.task[1:] == c.task[:-1]
    if (same & (generation[1:] < generation[:-1])).any() or (
        same & (generation[1:] == generation[:-1]) & (c.index[1:] < c.index[:-1])
    ).any():
        order = np.lexsort((c.index, generation, c.task))
        c = reordered(c, order, c.generation[order])
    real = np.zeros(len(c), dtype=bool)
    real[before : len(c) - after] = True
    if k.cuts is not None:
        keep = ~real | (
            ((c.rule == recorded.SOURCE) | (c.rule == recorded.EVENT) | (c.rule == recorded.BORDER))
            & (c.epoch <= k.cuts[np.maximum(c.generation, 0)])
        )
        c, real = c.where(keep), real[keep]
        if not real.any():
            return None
    found = _OfPiece(k.limit, kept=k.kept, real=real)
    own = np.flatnonzero(real)
    step = np.diff(c.index[own])
    regular = bool(
        (c.generation >= 0).all() and (np.where(np.diff(c.task[own]) == 0, step == 1, c.index[own][1:] == 0)).all()
    )
    ends = PieceEnds(
        number, (int(c.task[own[0]]), int(c.index[own[0]])), (int(c.task[own[-1]]), int(c.index[own[-1]])), regular
    )
    if not k.kept:
        rules.known_generations(c, found, set(k.targets))
    c = replace(
        c, generation=np.maximum(c.generation, 0) if not k.kept else np.zeros_like(c.generation), unknown=k.unknown
    )
    f = k.frame(c)
    if not k.kept:
        rules.shapes(c, found)
        crashes.snapshots_early(f, found)
        crashes.visible(f, found, k.stored, k.storing)
        if k.acknowledged:
            crashes.deaf(f, found)
    messages.fifo(f, found, k.stream_starts)
    rules.alignment(f, found, k.degrees)
    return found, _moved(f, real), _segments(f, real), ends


def _moved(f: TraceFrame, real: Array) -> Moved:
    c = f.c
    stored = np.flatnonzero((c.rule == recorded.SNAPSHOT) & real)
    zero = np.zeros(len(stored), dtype=np.int64)
    of_steps = Messages(stored, zero, c.epoch[stored], zero.astype(bool), zero)
    told = c.told.chosen(c.rule[c.told.step] == recorded.SNAPSHOT)
    parts = [m.chosen(real[m.step]) for m in (c.produced, c.consumed, told, c.heard)] + [of_steps]
    step = np.concatenate([m.step for m in parts])
    at = np.concatenate([np.arange(len(m)) for m in parts])
    side = np.repeat(np.arange(len(parts)), [len(m) for m in parts])
    stream, n, border, digest = (
        np.concatenate([getattr(m, name) for m in parts]) for name in ("stream", "n", "border", "digest")
    )
    return Moved(
        side,
        stream.astype(np.int64),
        c.generation[step],
        c.task[step].astype(np.int64),
        border,
        n,
        c.index[step],
        at,
        c.epoch[step],
        f.next_border[step],
        digest,
    )


def _segments(f: TraceFrame, real: Array) -> list[TraceSegment]:
    c = f.c
    kept = f.work & real & (c.epoch <= f.cuts[c.generation])
    late = kept & (f.cuts[c.generation] != NEVER) & (f.next_border > f.cuts[c.generation])
    out = []
    own = np.flatnonzero(real)
    begin = np.flatnonzero(np.concatenate([[True], np.diff(f.segment[own]) != 0]))
    for at, end in zip(begin.tolist(), [*begin[1:].tolist(), len(own)], strict=True):
        mine = slice(int(own[at]), int(own[end - 1]) + 1)
        chosen, epoch, border = kept[mine], c.epoch[mine], f.border[mine]
        number = int(f.segment[own[at]])
        out.append(TraceSegment(number // f.generations, number % f.generations, int(chosen.sum()),
                           int((f.work[mine] & ~chosen).sum()), bool(late[mine].any()),
                           int(epoch[chosen].min(initial=NEVER)), int((epoch + border)[chosen].max(initial=-NEVER)),
                           int(epoch[chosen & border].max(initial=-NEVER))))  # fmt: skip
    return out


def replay_piece(parts: Iterable[pa.Table], task: Array, epoch: Array, k: Known) -> Findings:
    """What was done again: ``task`` and ``epoch`` name the epochs of which all steps are there; other rows are
    ghosts."""
    c = rules.resorted(columns(parts, k.tasks, k.streams))
    low = int(c.epoch.min(initial=0))
    width = int(c.epoch.max(initial=0)) - low + 1
    found = _OfPiece(
        k.limit, real=np.isin(c.task.astype(np.int64) * width + c.epoch - low, np.unique(task * width + epoch - low))
    )
    replayed.replay(k.frame(c), found)
    return found
