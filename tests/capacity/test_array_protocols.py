"""Parameterised protocols in Cubicle's language, each with its verdict in its first line; what the checker refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.capacity.arrays import check_certificate, decide, read, read_text, write_text
from pellucid.capacity.arrays.language.interpreter import Instance, explore
from pellucid.capacity.arrays.language.system import And, Compare, Process, States, Truth

FILES = sorted((Path(__file__).parent / "protocols").glob("*.cub"))


def test_there_are_enough() -> None:
    assert len(FILES) >= 45
    assert sum("unsafe" in f.read_text().split("\n")[0] for f in FILES) >= 20


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_verdict(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    expected = re.match(r"\(\* (safe|unsafe)(?: in (\d+))? \*\)", text)
    assert expected is not None
    system = read(file)
    assert read_text(write_text(system)) == system
    verdict = decide(system, timeout=60)
    assert verdict.status == {"safe": "proved", "unsafe": "refuted"}[expected[1]]
    if verdict.refuted:
        assert verdict.counterexample is not None and verdict.counterexample.replay()
        if expected[2]:
            assert len(verdict.counterexample.steps) == int(expected[2])
        assert "no run is shorter" in verdict.notes[-1]
    else:
        assert check_certificate(system, verdict.details["never"]) is None


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(f, id=f.stem, marks=[pytest.mark.long] if f.stem == "german" else [])
        for f in FILES
        if f.stem in ("german", "mesi", "token", "spin_lock", "szymanski", "two_phase_commit")
    ],
)
def test_the_checker_refuses_damaged_certificates(file: Path) -> None:
    system = read(file)
    never = decide(system).details["never"]
    unsafe = system.unsafe[0]
    assert str(check_certificate(system, [])) == "an unsafe state is not among them"
    # weakened: one that says nothing is reached from the start
    anything = States(unsafe.names, Truth(True))
    assert "a run can start" in str(check_certificate(system, [*never, anything]))
    # the smallest set that is a proof: leaving out any of its formulas makes it none
    kept = list(never)
    for formula in list(kept):
        fewer = [f for f in kept if f is not formula]
        if check_certificate(system, fewer) is None:
            kept = fewer
    for formula in kept:
        assert check_certificate(system, [f for f in kept if f is not formula]) is not None
    # each formula made narrower by one more literal that is not always true
    refused = 0
    for i, formula in enumerate(kept):
        parts = formula.formula.parts if isinstance(formula.formula, And) else (formula.formula,)
        narrower = next(
            (p for f in kept for p in _literals(f) if p not in parts and _about(p) <= set(formula.names)), None
        )
        if narrower is not None:
            damaged = replace(formula, formula=And((*parts, narrower)))
            refused += check_certificate(system, [*kept[:i], damaged, *kept[i + 1 :]]) is not None
    assert refused or len(kept) == 1


def _literals(states: States) -> tuple[object, ...]:
    return states.formula.parts if isinstance(states.formula, And) else (states.formula,)


def _about(part: object) -> set[str]:
    if not isinstance(part, Compare):
        return {"nobody"}
    named = {i for t in (part.left, part.right) for i in getattr(t, "indices", ())}
    return named | {t.name for t in (part.left, part.right) if isinstance(t, Process)}


@pytest.mark.parametrize(
    "file",
    [f for f in FILES if f.stem in ("german", "mesi", "two_phase_commit", "burns", "dragon")],
    ids=lambda f: f.stem,
)
def test_a_few_processes_agree(file: Path) -> None:
    """What the literal interpreter reaches is outside of the proof, state by state."""
    system = read(file)
    never = decide(system).details["never"]
    instance = Instance(system, 2)
    reached, unsafe = explore(instance, instance.initials(), 3000)
    assert unsafe is None
    for state in reached:
        assert all(instance.met(states, state) is None for states in never if len(states.names) <= 2)
