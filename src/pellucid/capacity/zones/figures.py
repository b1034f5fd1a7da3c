"""The tables of Figure 1: the one that the paper asks for, and how long its queues get.

The paper asks whether the queue of "bolt 1" reaches 2, or 3, for gaps below 1 and above 1, and got one answer of four.
Its bolt 1 hears one spout by the text and both by the indices of the appendix; and the semantics are two.  Each cell is
answered for *all* its gaps, by the exact threshold: below it every gap has a run that reaches the limit, from it on
none has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.paper import figure_1
from pellucid.capacity.topology import ANY, Semantics, Topology, Workers
from pellucid.capacity.zones.decide import Longest, decide, longest
from pellucid.capacity.zones.proof.certificate import certificate
from pellucid.capacity.zones.thresholds import GapThreshold, least_gap
from pellucid.capacity.zones.workers import AnyDecided, decide_any
from pellucid.internal.model import Budget, now
from pellucid.internal.model.show.verdict import seconds_text

READINGS = {"B1": "one spout", "B2": "both spouts"}
BELOW, ABOVE = Fraction(4, 5), Fraction(5, 4)  # gaps at which a run is shown, on either side of 1


@dataclass(frozen=True)
class PaperRow:
    """Two cells of the paper's table, in one semantics and one reading: gaps below 1 and above 1.

    ``run`` and ``run_above`` are the steps and emits of the shortest runs at the gaps 0.8 and 1.25; ``zones`` is the
    size of the certificate at the threshold, None where no gap is safe; ``any_workers`` is the answer at the threshold
    (or at gap 1.25) for any number of workers.
    """

    semantics: Semantics
    bolt: str
    limit: int
    threshold: GapThreshold
    run: tuple[int, int] | None
    run_above: tuple[int, int] | None
    zones: int | None
    wrong: str | None
    any_workers: AnyDecided
    seconds: float

    @property
    def below(self) -> str:
        """Gaps below 1."""
        if self.run is None:
            return f"safe from {self.threshold.gap} on"
        every = self.threshold.status == "never" or (self.threshold.gap or 0) >= 1
        steps, emits = self.run
        return f"unsafe{'' if every else f' below {self.threshold.gap}'}: {steps} steps, {emits} emits at {BELOW}"

    @property
    def above(self) -> str:
        """Gaps above 1."""
        if self.run_above is None:
            return f"safe: {self.zones} zones, {'checked' if self.wrong is None else self.wrong}"
        steps, emits = self.run_above
        if self.threshold.gap is None:
            return f"unsafe at every gap: {steps} steps, {emits} emits at {ABOVE}"
        safe = f"{self.zones} zones, {'checked' if self.wrong is None else self.wrong}"
        return f"unsafe below {self.threshold.gap}: {steps} steps at {ABOVE}; safe from there on: {safe}"

    @property
    def any_number(self) -> str:
        """For any number of workers."""
        found = self.any_workers
        at = f"at gap {next(iter(found.topology.spouts.values())).gap}"
        if found.status == "refuted":
            return f"unsafe {at}: with {found.numbers[self.bolt]}"
        return f"safe {at} and above" if found.status == "proved" else f"unknown {at}: {found.why}"

    def cells(self) -> list[str]:
        """As texts."""
        reading = f"{self.bolt}, {READINGS[self.bolt]}"
        return [
            self.semantics, reading, str(self.limit), self.below, self.above, self.any_number,
            seconds_text(self.seconds),
        ]  # fmt: skip


@dataclass(frozen=True)
class PaperTable:
    """The paper's table, answered."""

    rows: tuple[PaperRow, ...]

    def __str__(self) -> str:
        return _aligned([HEAD, *(row.cells() for row in self.rows)])

    def markdown(self) -> str:
        """For a page."""
        return _markdown([HEAD, *(row.cells() for row in self.rows)])


HEAD = ["semantics", "bolt 1", "limit", "gap < 1", "gap > 1", "any number of workers", "time"]


def paper_table(limits: Sequence[int] = (2, 3)) -> PaperTable:
    """The paper's table, in both semantics and both readings, each cell for all its gaps.

    >>> print(paper_table(limits=[3]))
    semantics  bolt 1           limit  gap < 1  ...
    urgent     B1, one spout    3      unsafe: 57 steps, 12 emits at 4/5  safe: 2 zones, checked ...
    """
    return PaperTable(tuple(
        _row(semantics, bolt, limit)
        for semantics in ("urgent", "literal") for bolt in READINGS for limit in limits
    ))  # fmt: skip


def _row(semantics: Semantics, bolt: str, limit: int) -> PaperRow:
    began = now()
    t = figure_1(gap=1).given(semantics=semantics)
    found = least_gap(t, bolt, limit)
    runs = []
    for gap in (BELOW, ABOVE):
        shown = decide(t.given(gap=gap), bolt, limit).trace
        runs.append((len(shown.steps), shown.emits) if shown is not None else None)
    zones = wrong = None
    if found.gap is not None and found.decided is not None and found.decided.zones is not None:
        proof = certificate(found.decided.zones)
        zones, wrong = len(proof.places), proof.check()
    many = t.given(gap=found.gap if found.gap is not None else ABOVE, workers=ANY)
    return PaperRow(
        semantics, bolt, limit, found, runs[0], runs[1], zones, wrong, decide_any(many, bolt, limit), now() - began
    )  # fmt: skip


@dataclass(frozen=True)
class FigureRow:
    """One choice of workers: for each bolt the threshold of each limit, and how long its queue gets from there on."""

    workers: tuple[Workers, ...]
    thresholds: dict[tuple[str, int], GapThreshold]
    lengths: dict[str, Longest]


def figure_table(
    workers: Iterable[Sequence[int]], limits: Sequence[int] = (2, 3, 4, 8), *, seconds: float = 10.0
) -> list[FigureRow]:
    """Thresholds and longest queues of Figure 1, with these workers of B1, B2 and B3; so many seconds for each.

    >>> (row,) = figure_table([(1, 1, 1)], limits=[2, 3])
    >>> [str(row.thresholds[b, 3].gap) for b in ("B1", "B2", "B3")], str(row.lengths["B3"])
    (['1', '2', '2'], '2/1')
    """
    rows = []
    for numbers in workers:
        t = figure_1(gap=1, workers=dict(zip(("B1", "B2", "B3"), numbers, strict=True)))
        thresholds = {(b, limit): least_gap(t, b, limit, budget=Budget(seconds)) for b in t.bolts for limit in limits}
        lengths = {}
        for b in t.bolts:
            bounded = thresholds[b, limits[-1]]
            at = bounded.by_flow or bounded.gap
            if bounded.status == "always":
                lengths[b] = _at_small_gaps(t, bounded, seconds)
                continue
            assert at is not None
            lengths[b] = longest(t.given(gap=at), b, budget=Budget(seconds))
        rows.append(FigureRow(tuple(numbers), thresholds, lengths))
    return rows


def _at_small_gaps(t: Topology, found: GapThreshold, seconds: float) -> Longest:
    """What the proof for every gap bounds, if it is reached at some gap."""
    assert found.decided is not None and found.decided.zones is not None
    most, settled = found.decided.zones.longest[found.bolt]
    small = t.given(gap=Fraction(1, 100))
    for length, observe in ((most, "any"), (settled, "settled")):
        if length and decide(small, found.bolt, length, observe=observe, budget=Budget(seconds)).trace is None:  # type: ignore[arg-type]
            return Longest(found.bolt, None, None, "unknown", f"no longer than {most}/{settled}")
    return Longest(found.bolt, most, settled)


def figure_markdown(rows: Sequence[FigureRow]) -> str:
    """That table for a page: a line for the workers, a column for each bolt."""
    table = [["workers of B1, B2, B3", "B1", "B2", "B3"]]
    for row in rows:
        line = [", ".join(map(str, row.workers))]
        for b, length in row.lengths.items():
            groups: dict[str, list[str]] = {}
            for (name, limit), found in row.thresholds.items():
                if name == b:
                    groups.setdefault(_gap_text(found), []).append(str(limit))
            parts = [f"{gap} (limit {', '.join(limits)})" for gap, limits in groups.items()]
            line.append(f"{parts[0].split(' (')[0] if len(parts) == 1 else '; '.join(parts)}: {length}")
        table.append(line)
    return _markdown(table)


def _gap_text(found: GapThreshold) -> str:
    words = {
        "never": "no gap",
        "unknown": _between(found),
        "always": "every gap" + (f" from {found.gap} on" if found.gap else ""),
    }
    return words.get(found.status, f"gap {found.gap}")


def _between(found: GapThreshold) -> str:
    return "unknown" if found.kept_from is None else f"between gap {found.gap} and {found.kept_from}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
