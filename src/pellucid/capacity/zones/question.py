"""``check.capacity``: does a queue stay below its limit, for given workers or for any number of them?

One part for each bolt that has a limit, each with a verdict of its own; the whole is refuted if one part is, and proved
if all are.  A *refuted* part has a run with the fewest emits of the spouts (or steps), replayed on the machine of the
semantics; a *proved* one has a certificate, which a small checker has accepted where it is not too large for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pellucid.capacity.flow import flows
from pellucid.capacity.topology import ANY, Number, Observation, Semantics, Topology, exact, figure_1
from pellucid.capacity.zones.certificate import AnyCertificate, Certificate, certificate
from pellucid.capacity.zones.decide import (
    AnyDecided,
    Decided,
    GapThreshold,
    decide,
    decide_any,
    least_gap,
)
from pellucid.capacity.zones.network import cone
from pellucid.capacity.zones.search import WITHIN, Fewest, Trace
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Status, Verdict, combined, now
from pellucid.internal.model.verdict import seconds_text

CHECKED = 1_000  # zones of a certificate that is checked at once; a larger one is checked when that is asked for


@dataclass(frozen=True)
class CapacityPart(Verdict):
    """The verdict on one queue; ``trace`` has the run with its exact times, ``certificate`` is the proof."""

    trace: Trace | None = field(default=None, repr=False)
    certificate: Certificate | AnyCertificate | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CapacityVerdict(Verdict):
    """The verdict of `check.capacity`; ``parts`` are those of the bolts."""

    parts: Mapping[str, CapacityPart] = field(default_factory=dict)


def capacity(
    topology: Topology,
    limits: Mapping[str, int],
    *,
    observe: Observation | None = None,
    fewest: Fewest | None = None,
    within: Number = WITHIN,
    certify: bool | None = None,
    timeout: float | None = 60.0,
    max_states: int | None = 2_000_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> CapacityVerdict:
    """Whether the queues of these bolts stay below their limits, in every run.

    ``observe`` is the topology's, unless told: ``"any"`` state, or ``"settled"`` ones.  A no comes with a run with the
    ``fewest`` ``"emits"`` of the spouts (or ``"steps"``, which is usual for the literal semantics); its time is less
    than ``within`` above the infimum of such runs.  A yes comes with a certificate; ``certify`` says whether it is
    checked here (None: if it is not too large).  Bolts may have `ANY` number of workers.

    >>> from pellucid.capacity import ANY, figure_1
    >>> print(capacity(figure_1(gap=1, workers=2), {"B1": 2, "B2": 2}))
    proved   Figure 1: the queue of B1 stays below 2, B2 below 2  (zones, 12 states, ...)
      B1: proved, by 2 zones that no step leaves, checked
      B2: proved, by 5 zones that no step leaves, checked
    >>> found = capacity(figure_1(gap="0.4"), {"B1": 2})
    >>> found.parts["B1"].notes
    ('the queue of B1 reaches 2 after 3 emits of the spouts, in more than 6/5 and as near to it as one
    likes (here in 1203/1000)',)
    >>> [str(step) for step in found.counterexample.steps][-2:], found.counterexample.replay()
    (['time_elapse 401/1000', 'spout_emit S1 → B1'], True)
    >>> capacity(figure_1(gap=2, workers=ANY), {"B1": 2, "B2": 2, "B3": 3}).proved
    True
    """
    if not isinstance(topology, Topology):
        raise UsageError(f"check.capacity takes a capacity.Topology, found a {type(topology).__name__}")
    if not isinstance(limits, Mapping) or not limits:
        raise UsageError(
            f"limits={limits!r}: expected the limit of at least one bolt, such as "
            f'{{"{next(iter(topology.bolts), "B1")}": 2}}'
        )
    for bolt, limit in limits.items():
        topology.bolt(bolt)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"the limit of {bolt}: expected a number of tuples from 1 on, got {limit!r}.")
    if fewest not in (None, "emits", "steps"):
        raise UsageError(f"fewest={fewest!r}: expected 'emits' or 'steps'")
    if observe not in (None, "any", "settled"):
        raise UsageError(f"observe={observe!r}: expected 'any' or 'settled'")
    began = now()
    budget = Budget(timeout, max_states, progress)
    asked = _Asked(topology, observe or topology.observe, fewest, exact(within, "within"), certify, budget)
    with budget.kept():
        parts = {bolt: asked.part(bolt, limit) for bolt, limit in limits.items()}
        return _whole(asked.question(limits), parts, began, asked.warning())


@dataclass
class _Asked:
    topology: Topology
    observe: Observation
    fewest: Fewest | None
    within: Fraction
    certify: bool | None
    budget: Budget

    def question(self, limits: Mapping[str, int]) -> str:
        settled = "settled " if self.observe == "settled" else ""
        first, *rest = limits.items()
        text = f"{self.topology.name}: the {settled}queue of {first[0]} stays below {first[1]}"
        return text + "".join(f", {bolt} below {limit}" for bolt, limit in rest)

    def warning(self) -> tuple[str, ...]:
        """What is worth saying first."""
        if any(b.workers is ANY for b in self.topology.bolts.values()) or self.topology.semantics == "literal":
            return ()
        try:
            said = flows(self.topology).warning
        except CutShort:
            return ()
        return (said,) if said else ()

    def part(self, bolt: str, limit: int) -> CapacityPart:
        """The verdict on one queue."""
        before = now()
        try:
            return self._part(bolt, limit, before)
        except CutShort as cut:
            details = {"limit": limit, "observe": self.observe, "states": 0}
            question = self.question({bolt: limit})
            return CapacityPart("unknown", question, "zones", now() - before, None, (str(cut),), details)

    def _part(self, bolt: str, limit: int, before: float) -> CapacityPart:
        _, upstream = cone(self.topology, bolt)
        if any(self.topology.bolts[b].workers is ANY for b in upstream):
            found: Decided | AnyDecided = decide_any(
                self.topology, bolt, limit, observe=self.observe, fewest=self.fewest, budget=self.budget
            )
        else:
            found = decide(
                self.topology, bolt, limit, observe=self.observe, fewest=self.fewest, within=self.within,
                budget=self.budget,
            )  # fmt: skip
        question = self.question({bolt: limit})
        details: dict[str, Any] = {"limit": limit, "observe": self.observe}
        proof: Certificate | AnyCertificate | None
        if isinstance(found, AnyDecided):
            status, zones, proof, note = self._any(found)
            details["workers"] = dict(found.numbers)
        else:
            status, zones, proof, note = self._given(found)
        details["states"] = zones
        trace = found.trace
        run = None
        if trace is not None:
            run = trace.run()
            details["emits"], details["steps"] = trace.emits, len(trace.steps)
            details["duration"] = str(trace.duration)
            if trace.infimum is not None:
                details["infimum"] = str(trace.infimum)
        return CapacityPart(
            status, question, "zones", now() - before, run, (note,), details, trace, proof
        )  # fmt: skip

    def _given(self, found: Decided) -> tuple[Status, int, Certificate | None, str]:
        if found.status == "proved":
            assert found.zones is not None
            proof = certificate(found.zones)
            status, checked = self._check(proof, len(proof.places))
            return status, found.explored, proof, f"by {len(proof.places):,} zones that no step leaves, {checked}"
        if found.trace is not None:
            return found.status, found.explored, None, _run_text(found.trace, found.why)
        return found.status, found.explored, None, found.why

    def _any(self, found: AnyDecided) -> tuple[Status, int, AnyCertificate | None, str]:
        if found.status == "proved":
            proof = found.certificate
            size = sum(len(case.proof.places) for case in proof.cases)
            status, checked = self._check(proof, size)
            return status, found.zones, proof, f"for any number of workers, by {proof}; {checked}"
        numbers = ", ".join(f"{b} {n}" for b, n in found.numbers.items())
        if found.trace is not None:
            return found.status, found.zones, None, f"with workers {numbers}: {_run_text(found.trace, found.why)}"
        at = f"at workers {numbers}: " if numbers else ""
        return found.status, found.zones, None, f"{at}{found.why}; proved for {found.proved_for}"

    def _check(self, proof: Certificate | AnyCertificate, size: int) -> tuple[Status, str]:
        if self.certify is False or (self.certify is None and size > CHECKED):
            return "proved", "not checked again: certificate.check() does"
        try:
            wrong = proof.check()
        except CutShort as cut:
            return "unknown", f"which was not checked: {cut}"
        return ("proved", "checked") if wrong is None else ("unknown", f"which the checker does not accept: {wrong}")


def _run_text(trace: Trace, why: str) -> str:
    """What is to be said about a run."""
    text = trace.why
    if trace.infimum is not None and trace.infimum == trace.duration > 0:
        text += f", in {trace.infimum}"  # nothing on the way needs more than something: no spout emits
    elif trace.infimum is not None and trace.infimum > 0:
        text += f", in more than {trace.infimum} and as near to it as one likes (here in {trace.duration})"
    return f"{text}; {why}" if why else text


def _whole(question: str, parts: Mapping[str, CapacityPart], began: float, said: tuple[str, ...]) -> CapacityVerdict:
    status = combined(part.status for part in parts.values())
    first = next((part for part in parts.values() if part.refuted), None)
    notes = tuple(
        f"{bolt}: {part.status}{', ' if part.proved else ': '}{part.notes[0]}" for bolt, part in parts.items()
    )
    states = sum(part.details["states"] for part in parts.values())
    details = {"states": states, "parts": {bolt: part.status for bolt, part in parts.items()}}
    example = first.counterexample if first is not None else None
    return CapacityVerdict(status, question, "zones", now() - began, example, (*said, *notes), details, parts)


# The tables of Figure 1: the one that the paper asks for, and how long its queues get.
#
# The paper asks whether the queue of "bolt 1" reaches 2, or 3, for gaps below 1 and above 1, and got one answer of
# four.  Its bolt 1 hears one spout by the text and both by the indices of the appendix; and the semantics are two.
# Each cell is answered for *all* its gaps, by the exact threshold: below it every gap has a run that reaches the limit,
# from it on none has.

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


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
