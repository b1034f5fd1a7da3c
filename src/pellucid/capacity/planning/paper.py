"""The table of the paper, answered: limits 2 and 3, a gap below and above 1, both semantics, both readings.

The paper asks about "bolt 1" of its Figure 1.  By its text that is B1, which hears one spout; by the indices of its
appendix it is B2, which hears both.  The authors refuted one of four cells and proved none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.capacity.paper import figure_1
from pellucid.capacity.report import table
from pellucid.capacity.topology import Observation, Semantics, Workers
from pellucid.capacity.zones.question import CapacityPart, capacity

LIMITS, GAPS = (2, 3), ("0.8", "1.2")
READINGS = {"B1": "one spout", "B2": "both spouts"}
_THEIRS = {
    (2, "0.8"): "unsafe, under a minute", (2, "1.2"): "no answer (safe expected)",
    (3, "0.8"): "out of memory (unsafe expected)", (3, "1.2"): "out of memory (safe expected)",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One question of the table, and its answer."""

    semantics: Semantics
    bolt: str
    limit: int
    gap: str
    part: CapacityPart

    @property
    def answer(self) -> str:
        """As the paper says it."""
        return {"proved": "safe", "refuted": "unsafe"}.get(self.part.status, "unknown")

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "semantics": self.semantics, "bolt": self.bolt, "reading": READINGS[self.bolt], "limit": self.limit,
            "gap": self.gap, "status": self.part.status, "answer": self.answer, "seconds": round(self.part.seconds, 6),
            "paper": _THEIRS[self.limit, self.gap], "why": list(self.part.notes),
            "details": {k: v for k, v in self.part.details.items() if isinstance(v, (int, str))},
        }  # fmt: skip


def paper_table(
    *,
    workers: Workers = 1,
    observe: Observation | None = None,
    timeout: float = 60.0,
    tell: Callable[[str], None] = lambda words: None,
) -> list[Cell]:
    """All sixteen answers.

    >>> [cell.answer for cell in paper_table() if cell.semantics == "urgent" and cell.bolt == "B1"]
    ['unsafe', 'safe', 'unsafe', 'safe']
    """
    out = []
    semantics: Semantics
    for semantics in ("urgent", "literal"):
        for bolt in READINGS:
            for limit in LIMITS:
                for gap in GAPS:
                    tell(f"{semantics}, {READINGS[bolt]}, limit {limit}, gap {gap}")
                    topology = figure_1(gap=gap, workers=workers).given(semantics=semantics, observe=observe or "any")
                    part = capacity(topology, {bolt: limit}, timeout=timeout).parts[bolt]
                    out.append(Cell(semantics, bolt, limit, gap, part))
    return out


def paper_text(cells: Sequence[Cell]) -> str:
    """For a terminal."""
    head = ["semantics", "bolt 1 is", "limit", "gap", "answer", "time", "shown by", "the paper"]
    rows = []
    for cell in cells:
        part = cell.part
        shown = part.notes[0] if part.notes else ""
        if part.refuted:
            shown = f"a run of {part.details['emits']} emits, {part.details['steps']} steps, replayed"
        rows.append([
            cell.semantics, f"{cell.bolt} ({READINGS[cell.bolt]})", str(cell.limit), cell.gap, cell.answer,
            _time(part.seconds), shown, _THEIRS[cell.limit, cell.gap],
        ])  # fmt: skip
    return table(head, rows)


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
