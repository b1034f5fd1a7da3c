"""What the driver itself asks, of the few rows that it has: the graph, the recoveries, and whether one generation goes
on where the other ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.engine.epochs.recording import ACK, COORDINATOR
from pellucid.failures.audit.arrays import Array
from pellucid.failures.audit.cells import Numbers, Passed
from pellucid.failures.audit.kept import Explained
from pellucid.failures.audit.pieces import Known, Merged, TraceSegment
from pellucid.failures.audit.pieces import PieceEnds as PieceEnds
from pellucid.failures.audit.recorded import FIRST_EPOCH
from pellucid.failures.audit.rules import NEVER, UNKNOWN, Findings, way_back
from pellucid.failures.audit.words import KINDS, Violation


def joined(parts: Iterable[TraceSegment]) -> list[TraceSegment]:
    """One for each task in each generation, of those of the pieces; in their order."""
    out: dict[tuple[int, int], TraceSegment] = {}
    for p in parts:
        s = out.setdefault(
            (p.task, p.generation),
            TraceSegment(p.task, p.generation, 0, 0, False, int(NEVER), int(-NEVER), int(-NEVER)),
        )
        s.kept, s.undone, s.late = s.kept + p.kept, s.undone + p.undone, s.late or p.late
        s.first, s.due, s.border = min(s.first, p.first), max(s.due, p.due), max(s.border, p.border)
    return [out[key] for key in sorted(out)]


def in_order(ends: Iterable[PieceEnds]) -> bool:
    """Whether the indices of all pieces go up by one, from 0 in each task."""
    task, index = -1, -1
    for piece in sorted(ends, key=lambda e: e.piece):
        wanted = index + 1 if piece.first[0] == task else 0
        if not piece.regular or piece.first[1] != wanted:
            return False
        task, index = piece.last
    return True


@dataclass
class Ends:
    """The rules that are asked of the ends of generations, and of the graph."""

    names: list[str]
    known: Known
    starts: Array
    cuts: Array
    segments: list[TraceSegment]
    streams: list[tuple[str, str, str, int, Numbers]]  # side, task, stream, generation, numbers
    kept_streams: list[tuple[str, str, str, int, Numbers]]  # of the kept steps
    found: Merged

    def _say(self, violation: Violation) -> None:
        one = Findings(self.found.limit)
        one.say(violation)
        self.found.found(one)

    def kept(self) -> int:
        """How many steps remain after all recoveries."""
        return sum(s.kept for s in self.segments)

    def graph(self) -> None:
        """One producer for each stream; no task depends on itself."""
        first: dict[tuple[str, str], tuple[int, int]] = {}
        above: dict[str, set[str]] = {}
        moved = [row for row in self.streams if not row[2].startswith(ACK)]
        for side, task, stream, generation, row in moved:
            if side == "produced":
                place = (generation, row.index)
                first[stream, task] = min(place, first.get((stream, task), place))
        producers: dict[str, list[str]] = {}
        for (stream, task), (generation, index) in sorted(first.items()):
            before = producers.setdefault(stream, [])
            if before:
                self._say(Violation("two-producers", task, generation, index, stream, other=before[-1]))
            before.append(task)
        for side, task, stream, _, _ in moved:
            if side == "consumed":
                above.setdefault(task, set()).update(producers.get(stream, []))
        for task in sorted(above):
            way = way_back(task, above)
            if way:
                self._say(Violation("cycle", task, 0, -1, other=" → ".join(way)))
                break

    def recoveries(self, rows: list[tuple[str, int, int, str, int]], sums: list[tuple[str, int, Passed]]) -> None:
        """Every recovery goes to the greatest common epoch, after a failure: see
        `pellucid.failures.audit.crashes.recovery`."""
        stored = self.known.stored
        failed = {g for _, g, r in sums if r.failed} | {g for g, lost in enumerate(stored.lost) if lost}
        undone = {s.generation for s in self.segments if s.undone}
        durable_on_record = any(r.snapshot is not None or r.commit is not None for _, _, r in sums)
        last = self.known.last_border.reshape(len(self.names), -1)
        seen: set[int] = set()
        before = 0
        for task, recorded, index, _, epoch in rows:
            generation = max(recorded, 0)
            place = (task, generation, index)
            if generation in seen:
                self._say(Violation("recovery-twice", task, recorded, index))
                continue
            seen.add(generation)
            if generation == 0:
                continue
            ended = set(range(before, generation))
            common = int(stored.common[generation - 1])
            if epoch < common and durable_on_record:
                self._say(Violation("recovery-low", *place, a=epoch, b=common))
            for at, name in enumerate(self.names if epoch > common else ()):
                reached = int(last[at, before:generation].max())
                if name != COORDINATOR and reached < epoch:
                    known = max(reached, int(self.starts[before]), FIRST_EPOCH - 1)
                    self._say(Violation("recovery-high", *place, a=epoch, b=known, other=name))
                    break
            if not failed & ended and undone & ended:
                self._say(Violation("recovery-idle", *place))
            before = generation

    def goes_on(self) -> bool:
        """Whether the kept steps are a failure-free run because each generation is right and one goes on where the
        other ended.

        Within a generation the kept steps of a task come first, so what is right in it stays right without the others.
        What remains is that every kept step is in a kept snapshot, that all tasks end at the same border, and that
        epochs and numbers go on from one generation to the next.
        """
        asked = {"fifo", "messages", "alignment", "snapshot", "well-formed", "streams"}
        if any(KINDS[kind][0] in asked for _, kind in self.found.counts) or any(s.late for s in self.segments):
            return False
        busy = {s.task for s in self.segments if s.kept or s.undone}
        for generation, cut in enumerate(self.cuts):
            borders = {s.task: s.border for s in self.segments if s.generation == generation and s.kept}
            if cut != NEVER and borders and (set(borders) != busy or len(set(borders.values())) > 1):
                return False
        due: dict[int, int] = {}
        for s in self.segments:
            if s.kept:
                if s.first != due.get(s.task, FIRST_EPOCH):
                    return False
                due[s.task] = s.due
        return self._numbers_go_on()

    def _numbers_go_on(self) -> bool:
        ranges: dict[tuple[str, str, str, int], tuple[int, int]] = {}
        for side, task, stream, generation, row in self.kept_streams:
            if not stream.startswith(ACK):
                key = (side, task, stream, generation)
                low, high = ranges.get(key, (row.low, row.high))
                ranges[key] = (min(low, row.low), max(high, row.high))
        wanted: dict[tuple[str, str, str], int] = {}
        for (side, task, stream, _), (low, high) in sorted(ranges.items()):
            if low != wanted.get((side, task, stream), 0):
                return False
            wanted[side, task, stream] = high + 1
        return True

    def explained(self, sums: list[tuple[str, int, Passed]]) -> Explained:
        """The failure-free trace, counted."""
        order = range(len(self.starts))
        kept, undone = (
            tuple(sum(getattr(s, name) for s in self.segments if s.generation == g) for g in order)
            for name in ("kept", "undone")
        )
        visible: dict[str, int] = {}
        for task, _, r in sums:
            if r.commit is not None:
                visible[task] = max(r.commit, visible.get(task, r.commit))
        recovered = tuple(int(e) for e in self.starts[1:] if e != UNKNOWN)
        return Explained(
            kept, undone, recovered, int(self.known.stored.common[-1]), min(visible.values(), default=FIRST_EPOCH - 1)
        )
