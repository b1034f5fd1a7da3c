"""The paper's system of a topology in Cubicle's language: its text, its runs on the literal machine, its cells."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.arrays import check_certificate, decide, read_text, write_text
from pellucid.capacity.arrays.language.interpreter import Instance
from pellucid.capacity.arrays.language.interpreter import Step as Fired
from pellucid.capacity.arrays.storm import storm_system
from pellucid.capacity.steps import Step, Worker
from pellucid.capacity.zones.network import cone
from pellucid.errors import UsageError
from pellucid.internal.model import Run
from tests.seeds import seeds


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
            out.append(Step("spout_emit", who, (_to(topology, who, name.removeprefix(f"spout_emit_{who}_")),)))
        elif name.startswith("bolt_take_"):
            out.append(Step("bolt_take", Worker(name.removeprefix("bolt_take_"), fired.processes[0] - 1)))
        elif name.startswith("bolt_emit_"):
            who = next(b for b in topology.bolts if name.startswith(f"bolt_emit_{b}_"))
            to = (_to(topology, who, name.removeprefix(f"bolt_emit_{who}_")),)
            out.append(Step("bolt_emit", Worker(who, fired.processes[0] - 1), to))
        else:
            out.append(Step(name))
    return out


def _to(topology: Topology, who: str, name: str) -> str:
    """Who gets it; *elsewhere* is the last of those who hear it, which is not upstream in what is asked here."""
    return topology.listeners(who)[-1] if name == "elsewhere" else name


def test_written_and_read_again() -> None:
    one = Topology({"S": Spout("0.9")}, {"A": Bolt("0.5", "S", workers=ANY), "B": Bolt(2, ["S", "A"], initial=3)})
    for topology in (figure_1("0.8"), figure_1("1.25", workers=3), one, one.given(routing="all")):
        for bolt in topology.bolts:
            for upstream in (False, True):
                system = storm_system(literal(topology), bolt, 2, upstream=upstream)
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


@pytest.mark.parametrize("limit", [2, 3])
def test_any_number_of_workers_keeps_up_with_one_spout(limit: int) -> None:
    """The two cells of the paper that are safe, for any number of workers, by backward reachability: the others, who
    are not upstream, are one step."""
    topology = literal(figure_1("1.2", workers=ANY))
    system = storm_system(topology, "B1", limit, upstream=True)
    verdict = decide(system, timeout=60)
    assert verdict.proved and check_certificate(system, verdict.details["never"]) is None
    assert not decide(storm_system(topology, "B1", 1, upstream=True), timeout=60).proved  # it can say no


@pytest.mark.long
@pytest.mark.parametrize(
    ("gap", "bolt", "limit", "fewest"),
    [("0.8", "B1", 2, 15), ("0.8", "B2", 2, 14), ("1.2", "B2", 2, 14), ("9.2", "B2", 2, 14), ("1.2", "B2", 3, None)],
)
def test_any_number_of_workers_is_unsafe(gap: str, bolt: str, limit: int, fewest: int | None) -> None:
    """With as few workers as the run has; the literal machine of the whole topology makes it."""
    topology = literal(figure_1(gap, workers=ANY))
    verdict = decide(storm_system(topology, bolt, limit, upstream=True), timeout=600)
    assert verdict.refuted and isinstance(verdict.counterexample, Run)
    assert fewest is None or len(verdict.counterexample.steps) == fewest
    machine = verdict.counterexample.machine
    assert machine is not None
    last = machine.places.index(("N_proc", 1))  # type: ignore[attr-defined]
    workers = int(machine.start()[last])
    given = topology.given(workers=workers)
    run = replay(given, as_steps(given, verdict.counterexample), bolt=bolt)
    assert run.longest(bolt) >= limit


@pytest.mark.parametrize(("gap", "bolt", "workers"), [("1.2", "B2", 2), ("0.8", "B1", 1), ("0.8", "B3", 2)])
def test_what_is_upstream_can_do_whatever_the_whole_can(gap: str, bolt: str, workers: int) -> None:
    """Each step of the whole system is one of the smaller one, on the cells that it has."""
    topology = literal(figure_1(gap, workers=workers))
    delays = (Fraction(1, 2), Fraction(5, 4))
    whole, small = (
        Instance(storm_system(topology, bolt, 9, upstream=upstream), 3, numbers=delays) for upstream in (False, True)
    )
    spouts, bolts = cone(topology, bolt)
    number = {name: i for part in (topology.bolts, topology.spouts) for i, name in enumerate(part, 1)}
    about = {"Stime": spouts, **dict.fromkeys(("L", "N_proc", "B", "P"), bolts)}

    def seen(state: tuple[Any, ...]) -> list[Any]:
        """The cells of those who are upstream, as the smaller system has them; None for cells of nobody."""
        found = list[Any]()
        for name, *indices in small.places:
            who = about.get(name)
            if who is None:
                found.append(state[whole.at[(name,)]])
            elif indices[0] > len(who):
                found.append(None)
            else:
                found.append(state[whole.at[(name, number[who[indices[0] - 1]], *indices[1:])]])
        return found

    r, starts = random.Random(*seeds(1)), list(whole.initials())
    state, done = starts[0], set[str]()
    nobody = next(small.initials())  # what cells of nobody have
    for _ in range(300):
        moves = list(whole.steps(state))
        if not moves:  # time may pass once only, and nobody can do anything then
            state = r.choice(starts)
            continue
        step, then = r.choice(moves)
        done.add(step.transition[:9])
        here = tuple(other if mine is None else mine for mine, other in zip(seen(state), nobody, strict=True))
        wanted = seen(then)
        assert any(
            all(mine is None or mine == new for mine, new in zip(wanted, after, strict=True))
            for _, after in small.steps(here)
        )
        state = then
    assert {"spout_emi", "bolt_take", "time_elap"} <= done
