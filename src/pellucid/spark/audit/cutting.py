"""How a trace is cut: into cells that can be summed up, cells into pieces that a worker can hold, and what a piece must
know of those before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid.failures.audit.cells import CellSum, IndexSpan, Passed

_MOST = 1 << 12  # pieces: the driver keeps what each must know
_SPARSE = 4  # indices for each step: a range with more holes is not cut


@dataclass(frozen=True)
class TraceCell:
    """Some steps of a task in a generation."""

    task: str
    generation: int
    low: int  # the least index of the task in the generation
    width: int  # how many indices a cell has, if the task in the generation has several; else 0
    steps: int


@dataclass(frozen=True)
class Ghosts:
    """Rows that stand for the steps before a piece and after it."""

    before: list[dict[str, Any]]
    after: list[dict[str, Any]]


def cells_of(spans: Iterable[IndexSpan], piece: int) -> list[TraceCell]:
    """The cells in the order of the trace; where a trace is very long, they are longer than a piece was to be."""
    spans = sorted(spans, key=lambda s: (s.task, s.generation))
    width = max(piece, sum(s.steps for s in spans) // _MOST)
    out: list[TraceCell] = []
    for s in spans:
        reach = s.high - s.low + 1
        if s.steps <= width or reach > _SPARSE * s.steps:
            out.append(TraceCell(s.task, s.generation, s.low, 0, s.steps))
        else:
            out += [
                TraceCell(s.task, s.generation, s.low, width, min(width, reach - at)) for at in range(0, reach, width)
            ]
    return out


def places_of(cells: list[TraceCell]) -> dict[tuple[str, int], tuple[int, int, int]]:
    """By task and generation: the first cell, the least index, the width."""
    out: dict[tuple[str, int], tuple[int, int, int]] = {}
    for at, cell in enumerate(cells):
        out.setdefault((cell.task, cell.generation), (at, cell.low, cell.width))
    return out


def pieces_of(cells: list[TraceCell], piece: int) -> list[int]:
    """For each cell the number of its piece: neighbours together, as long as they are small."""
    out: list[int] = []
    size = number = 0
    for cell in cells:
        if size and size + cell.steps > piece:
            number, size = number + 1, 0
        size += cell.steps
        out.append(number)
    return out


@dataclass
class _Carry:
    """What stands before a cell."""

    due: int | None = None
    failed: bool = False
    border: int | None = None
    durable: int | None = None
    commit: int | None = None
    last_commit: tuple[int, int] | None = None  # its generation and epoch
    last: dict[tuple[str, str], int] = field(default_factory=dict)  # by side and stream: the last number

    def go_on(self, cell: Passed, generation: int) -> None:
        self.due = self.due if cell.due is None else cell.due[1]
        self.failed |= cell.failed
        self.border, self.durable, self.commit = (
            _most(self.border, cell.border),
            _most(self.durable, cell.snapshot),
            _most(self.commit, cell.commit),
        )
        if cell.last_commit is not None:
            self.last_commit = (generation, cell.last_commit[1])
        self.last |= {key: moved.last[1] for key, moved in cell.streams.items()}

    def ghosts(self, task: str, generation: int, low: int, atomic: bool) -> list[dict[str, Any]]:
        """Steps that stand for all before: they do not belong to any question but as the step before."""
        out: list[dict[str, Any]] = []
        # A border is work: in this generation it would be its first step.
        earlier = generation if self.due is not None else max(generation - 1, 0)

        def add(rule: str, epoch: int, of: int, **more: Any) -> None:
            out.append({"task": task, "generation": of, "rule": rule, "epoch": epoch, **more})

        if self.border is not None:
            add("I-BORDER", self.border, earlier)
        if self.durable is not None and not atomic:
            add("SNAPSHOT", self.durable, earlier)
        if self.last_commit is not None and self.commit is not None:
            add("COMMIT", self.commit, self.last_commit[0])
            add("COMMIT", self.last_commit[1], self.last_commit[0])
        if self.due is not None:
            add("I-EVENT", self.due, generation)
        if self.last:
            sides = {
                side: [(s, n, False, 0) for (of, s), n in sorted(self.last.items()) if of == side]
                for side in ("consumed", "produced")
            }
            add("F-LOST", 0, generation, **sides)
        if self.failed:
            add("F-FAIL", 0, generation)
        return [{**row, "index": low - len(out) + at} for at, row in enumerate(out)]


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def ghosts_of(
    cells: list[TraceCell], piece_of: list[int], sums: dict[int, CellSum], *, atomic: bool, kept: bool
) -> dict[int, Ghosts]:
    """The ghosts of each piece, from what is known of each cell; ``kept``: of the kept steps, of which all generations
    of a task are one."""
    there = sorted(sums)
    passed = {at: sums[at].kept if kept else sums[at].whole for at in there}
    out: dict[int, Ghosts] = {}
    carry = _Carry()
    for place, at in enumerate(there):
        cell, row = cells[at], sums[at].whole
        before = cells[there[place - 1]] if place else None
        if before is None or before.task != cell.task:
            carry = _Carry()
        elif before.generation != cell.generation and not kept:
            carry.due, carry.failed, carry.last = None, False, {}
        if place == 0 or piece_of[there[place - 1]] != piece_of[at]:
            out[piece_of[at]] = Ghosts(carry.ghosts(cell.task, cell.generation, row.low, atomic), [])
        if place + 1 < len(there) and piece_of[there[place + 1]] != piece_of[at]:
            epoch = _next_border(cells, passed, there[place + 1 :], cell, kept)
            if epoch is not None:
                out[piece_of[at]].after.append(
                    {
                        "task": cell.task,
                        "generation": cell.generation,
                        "index": row.high + 1,
                        "rule": "I-BORDER",
                        "epoch": epoch,
                    }
                )
        mine = passed[at]
        if mine is not None:
            carry.go_on(mine, cell.generation)
    return out


def _next_border(
    cells: list[TraceCell], passed: dict[int, Passed | None], after: list[int], cell: TraceCell, kept: bool
) -> int | None:
    for at in after:
        if cells[at].task != cell.task or (cells[at].generation != cell.generation and not kept):
            return None
        row = passed[at]
        if row is not None and row.next_border is not None:
            return row.next_border[1]
    return None
