"""The paper's system of a topology in Cubicle's language: its text, its runs on the literal machine, its cells."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.arrays import decide, read_text, write_text
from pellucid.capacity.arrays.language.interpreter import Step as Fired
from pellucid.capacity.arrays.storm import storm_system
from pellucid.capacity.steps import Step, Worker
from pellucid.errors import UsageError
from pellucid.model import Run


def literal(topology: Topology) -> Topology:
    return topology.given(semantics="literal")


def as_steps(topology: Topology, run: Run) -> list[Step]:
    """The run of the array-based system in the words of the literal machine: a delay is chosen one elapse before."""
    assert run.machine is not None
    delay = Fraction(run.machine.start()[1])
    assert run.machine.places[1] == ("C",)  # type: ignore[attr-defined]
    out = []
    for fired in run.steps:
        assert isinstance(fired, Fired)
        name = fired.transition
        if name == "time_elapse":
            out.append(Step("time_elapse", by=delay))
            delay = Fraction(dict(fired.chosen)["C"])
        elif name.startswith("spout_emit_"):
            who = next(s for s in topology.spouts if name.startswith(f"spout_emit_{s}_"))
            out.append(Step("spout_emit", who, (name.removeprefix(f"spout_emit_{who}_"),)))
        elif name.startswith("bolt_take_"):
            out.append(Step("bolt_take", Worker(name.removeprefix("bolt_take_"), fired.processes[0] - 1)))
        elif name.startswith("bolt_emit_"):
            who = next(b for b in topology.bolts if name.startswith(f"bolt_emit_{b}_"))
            to = (name.removeprefix(f"bolt_emit_{who}_"),)
            out.append(Step("bolt_emit", Worker(who, fired.processes[0] - 1), to))
        else:
            out.append(Step(name))
    return out


def test_written_and_read_again() -> None:
    one = Topology({"S": Spout("0.9")}, {"A": Bolt("0.5", "S", workers=ANY), "B": Bolt(2, ["S", "A"], initial=3)})
    for topology in (figure_1("0.8"), figure_1("1.25", workers=3), one, one.given(routing="all")):
        for bolt in topology.bolts:
            system = storm_system(literal(topology), bolt, 2)
            assert read_text(write_text(system)) == system
    text = write_text(storm_system(literal(one.given(routing="all")), "B", 4))
    assert "unsafe () {\n  L[#2] >= 4\n}" in text and "0.9 < Stime[#1]" in text and "P[#2,x] := 2.0" in text
    assert "N_proc[#2] = #1" in text and "N_proc[#1] =" not in text and "L[#2] = 3" in text
    assert "transition spout_emit_S (" in text


def test_what_the_paper_does_not_have_is_refused() -> None:
    topology = figure_1("0.8")
    with pytest.raises(UsageError, match='semantics="literal"'):
        storm_system(topology, "B1", 2)
    with pytest.raises(UsageError, match="there is no bolt B9"):
        storm_system(literal(topology), "B9", 2)
    with pytest.raises(UsageError, match='observe="any"'):
        storm_system(literal(topology).given(observe="settled"), "B1", 2)
    half = Topology({"S": Spout(1)}, {"A": Bolt(1, "S", ratio="1/2")}, semantics="literal")
    with pytest.raises(UsageError, match="puts out 1/2 tuples"):
        storm_system(half, "A", 2)
    with pytest.raises(UsageError, match="limit: expected 1 or more"):
        storm_system(literal(topology), "B1", 0)
    third = Topology({"S": Spout("1/3")}, {"A": Bolt(1, "S")}, semantics="literal")
    with pytest.raises(UsageError, match="no end as a decimal"):
        write_text(storm_system(third, "A", 2))


def test_the_trace_of_the_paper() -> None:
    """Limit 2, one spout, gap 0.8: the fifteen steps of section 5, by their names; the literal machine makes them."""
    topology = literal(figure_1("0.8"))
    verdict = decide(storm_system(topology, "B1", 2), timeout=60)
    assert verdict.refuted and isinstance(verdict.counterexample, Run)
    names = [step.transition for step in verdict.counterexample.steps]
    assert names == [
        "time_elapse", "setDoTake_F1", "setDoEmit_F1a", "spout_emit_S1_B1", "time_elapse", "setDoTake_T",
        "setDoEmit_F1a", "bolt_take_B1", "setDoTake_F1", "setDoEmit_F1a", "spout_emit_S1_B1", "time_elapse",
        "setDoTake_F2a", "setDoEmit_F1a", "spout_emit_S1_B1",
    ]  # fmt: skip
    assert verdict.notes == ("no run is shorter, for any number of processes",)
    run = replay(topology, as_steps(topology, verdict.counterexample), bolt="B1")
    assert run.longest("B1") == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("gap", "bolt", "limit", "workers", "status", "fewest"),
    [
        ("1.2", "B1", 2, 1, "proved", None),
        ("0.8", "B2", 2, 1, "refuted", 14),
        ("1.2", "B2", 2, 1, "refuted", 14),
        ("9.2", "B2", 2, 1, "refuted", 14),
        ("0.8", "B1", 3, 1, "refuted", None),
        ("1.2", "B1", 3, 1, "proved", None),
        ("0.8", "B2", 3, 1, "refuted", None),
        ("1.2", "B2", 3, 1, "refuted", None),
    ],
)
def test_the_cells_of_the_paper(gap: str, bolt: str, limit: int, workers: int, status: str, fewest: int | None) -> None:
    """Both readings of "bolt 1": B1 hears one spout, B2 both."""
    topology = literal(figure_1(gap, workers=workers))
    verdict = decide(storm_system(topology, bolt, limit), timeout=300)
    assert verdict.status == status
    if verdict.refuted:
        assert isinstance(verdict.counterexample, Run)
        assert fewest is None or len(verdict.counterexample.steps) == fewest
        run = replay(topology, as_steps(topology, verdict.counterexample), bolt=bolt)
        assert run.longest(bolt) >= limit
