"""Parameterised protocols in Cubicle's language, each with its verdict in its first line; what the checker refuses."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from pellucid.capacity import Bolt, Spout, Topology
from pellucid.capacity.arrays import backward, check_certificate, decide, explain, read, read_text, write_text
from pellucid.capacity.arrays import backward as preimage
from pellucid.capacity.arrays import cubes as visited
from pellucid.capacity.arrays import decide as backwards
from pellucid.capacity.arrays import formulas as compiled
from pellucid.capacity.arrays.cubes import Layout
from pellucid.capacity.arrays.storm import storm_system
from pellucid.capacity.arrays.system import (
    And,
    Cell,
    Compare,
    Formula,
    Instance,
    Not,
    Or,
    Process,
    Quantified,
    States,
    System,
    Truth,
    Value,
    explore,
)
from pellucid.capacity.zones.decide import decide as decide_of_test_arrays
from tests.capacity.random_systems import random_system

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


# Thousands of small systems made by chance: what the engine says against what a few processes do, one by one.

MOST = 3000


def shortest(system: System) -> tuple[int | None, bool]:
    """The fewest steps in which 1, 2 or 3 processes reach an unsafe state; whether all of their states were seen."""
    best, whole = None, True
    for n in (1, 2, 3):
        instance = Instance(system, n)
        parents, state = explore(instance, instance.initials(), MOST)
        whole = whole and len(parents) <= MOST
        if state is not None:
            steps = 0
            while (before := parents[state]) is not None:
                state, steps = before[0], steps + 1
            best = steps if best is None else min(best, steps)
    return best, whole


def agree(seed: int) -> str:
    """Decide a system and hold the answer against a few processes; the status."""
    system = read_text(random_system(seed))
    assert read_text(write_text(system)) == system
    verdict = decide(system, timeout=4)
    best, whole = shortest(system)
    if verdict.proved:
        assert best is None, seed
        assert check_certificate(system, verdict.details["never"]) is None
    if verdict.refuted:
        assert verdict.counterexample is not None and verdict.counterexample.replay()
        steps, count = len(verdict.counterexample.steps), verdict.details["processes"]
        assert best is None or steps <= best, seed
        if whole and count <= 3:
            assert steps == best, seed
    if best is not None and whole:
        assert verdict.refuted, seed
    return verdict.status


@pytest.mark.parametrize("first", range(20, 80, 20))
def test_random_systems(first: int) -> None:
    statuses = [agree(seed) for seed in range(first, first + 20)]
    assert {"proved", "refuted"} <= set(statuses)
    assert statuses.count("unknown") <= 3  # guards about all others, where nothing is known of those others


def test_a_node_that_takes_the_place_of_one_that_is_gone() -> None:
    """A cube that was made before by a node that another one covers now has to be visited all the same."""
    assert agree(4087) == "proved"


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_systems(first: int) -> None:
    statuses = [agree(seed) for seed in range(first, first + 100)]
    assert statuses.count("unknown") <= 8


def _broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mistake in the engine."""
    if name == "covered too soon":
        monkeypatch.setattr(visited.Visited, "covers", lambda self, cube: bool(self.cubes))
    elif name == "no start is seen":
        monkeypatch.setattr(compiled.Compiled, "starts_in", lambda self, cube: False)
    elif name == "no new processes":
        monkeypatch.setattr(
            preimage,
            "choices",
            lambda count, m: tuple(c for c in _choices(count, m) if max(c, default=0) <= max(count, m)),
        )
    elif name == "no transition":
        monkeypatch.setattr(backward, "before", lambda compiled_, cube: iter(()))
    elif name == "too general":
        monkeypatch.setattr(Layout, "covers", lambda self, general, special: True)
        monkeypatch.setattr(visited.Visited, "cover_together", lambda self, cube, rounds=6: bool(self.cubes))


_choices = preimage.choices
SEEDS = range(20, 50)
MISTAKES = ["covered too soon", "no start is seen", "no new processes", "no transition", "too general"]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_broken_engine_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mistake in the search no wrong answer comes out, and some right ones do not either."""
    right = [decide(read_text(random_system(seed)), timeout=20).status for seed in SEEDS]  # also on a busy machine
    _broken(name, monkeypatch)
    answers = [decide(read_text(random_system(seed)), timeout=0.3).status for seed in SEEDS]
    for before, after in zip(right, answers, strict=True):
        assert after in (before, "unknown")
    assert answers != right


# What is true of somebody: statements about everybody in a proof, and what the checker thinks of them.

OWNER = Path(__file__).parent / "protocols" / "owner_with_data.cub"
GRANTED = Compare("=", Cell("Granted"), Value("True"))
NOBODY = Quantified("forall", False, ("y",), Compare("=", Cell("Listed", ("y",)), Value("False")))


def proof(system: System) -> list[States]:
    found = decide(system)
    assert found.proved, found
    never: list[States] = found.details["never"]
    return never


def test_an_owner_that_stops_does_not_lose_its_write() -> None:
    system = read(OWNER)
    never = proof(system)
    assert any("forall" in text and "Granted = True" in text for text in explain(never))
    assert check_certificate(system, never) is None
    # without that statement it is no proof, whatever else is said
    about_all = [s for s in never if any(isinstance(p, Quantified) for p in getattr(s.formula, "parts", ()))]
    assert about_all
    for states in about_all:
        assert check_certificate(system, [s for s in never if s is not states]) is not None


ALL_GONE = "transition oops (p) requires { Listed[p] = False } { Listed[j] := case | _ : False }"


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("transition oops (p) requires { Owner[p] = True } { Listed[p] := False }", "a step leads into one"),
        ("transition oops () { Granted := True }", "a step leads into one"),
        ("transition oops (p) { Granted := True; Listed[p] := False }", "a step leads into one"),
        (ALL_GONE, "a step leads into one"),
        ("transition fine (p q) requires { Listed[p] = True } { Listed[q] := False }", ""),
        ("transition fine (p) requires { Granted = False } { Listed[p] := False }", ""),
        ("transition fine (p q) { Listed[j] := case | j = p : False | j = q : True | _ : Listed[j] }", ""),
    ],
)
def test_whether_somebody_is_left(more: str, what: str) -> None:
    """A step that takes the last one away, or not: also one whom it does not name."""
    system = replace(read_text(OWNER.read_text() + more), unsafe=())
    fault = check_certificate(system, [States((), And((GRANTED, NOBODY)))])
    assert str(fault or "").startswith(what) and (fault is None) == (what == "")


@pytest.mark.parametrize(
    "formula",
    [
        Not(NOBODY),
        Or((GRANTED, NOBODY)),
        And((GRANTED, replace(NOBODY, kind="exists"))),
        And((GRANTED, replace(NOBODY, other=True))),
        And((GRANTED, Quantified("forall", False, ("y",), And((NOBODY, GRANTED))))),
    ],
)
def test_quantifiers_that_the_checker_does_not_know(formula: Formula) -> None:
    system = read(OWNER)
    fault = check_certificate(system, [States((), formula)])
    assert str(fault) == "a quantifier stands where the checker knows none (formula 1)"


def test_nobody_is_named_beside_everybody() -> None:
    owner = Compare("=", Cell("Owner", ("x",)), Value("True"))
    fault = check_certificate(read(OWNER), [States(("x",), And((owner, NOBODY)))])
    assert str(fault).startswith("a quantifier stands where")


def _about_all(r: Random, system: System) -> States:
    """A statement about everybody, by chance."""
    cells = [(name, of) for name, count, of in system.arrays if count == 1 and system.values(of)]
    name, of = r.choice(cells)
    said = Compare(r.choice(("=", "<>")), Cell(name, ("y",)), Value(r.choice(system.values(of))))
    everybody = Quantified("forall", False, ("y",), said)
    flags = [name for name, of in system.variables if of == "bool"]
    if flags and r.random() < 0.8:
        return States((), And((Compare("=", Cell(r.choice(flags)), Value(r.choice(("True", "False")))), everybody)))
    return States((), And((everybody,)))


def believed_and_true(seeds: range) -> int:
    """What the checker accepts is not reached by one to four processes; how often it accepts."""
    accepted = 0
    for seed in seeds:
        r = Random(seed)
        system = replace(read_text(random_system(seed)), unsafe=())
        never = [_about_all(r, system) for _ in range(r.choice((1, 1, 2)))]
        if check_certificate(system, never) is not None:
            continue
        accepted += 1
        for n in (1, 2, 3, 4):
            instance = Instance(system, n)
            reached, _ = explore(instance, instance.initials(), 400)
            for state in reached:
                assert all(instance.met(states, state) is None for states in never), (seed, n)
    return accepted


def test_random_statements_about_everybody() -> None:
    assert believed_and_true(range(120)) >= 4


@pytest.mark.long
def test_many_random_statements_about_everybody() -> None:
    assert believed_and_true(range(1000, 6000)) >= 150


def test_a_checker_that_forgets_somebody_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the process more it would believe that those who are named are all that there are."""
    from pellucid.capacity.arrays import certificate

    system = replace(read_text(OWNER.read_text() + ALL_GONE), unsafe=())
    never = [States((), And((GRANTED, NOBODY)))]
    assert certificate.check_certificate(system, never) is not None
    monkeypatch.setattr(certificate, "_everybody", lambda states: 0)
    assert certificate.check_certificate(system, never) is None


# Zones and the array-based system of the paper: forwards over clocks, backwards over formulas, the same answers.


def one_bolt(gaps: list[Fraction], time: Fraction, workers: int) -> Topology:
    spouts = {f"S{i}": Spout(gap) for i, gap in enumerate(gaps)}
    return Topology(spouts, {"B": Bolt(time, list(spouts), workers=workers)}, semantics="literal")


def agree_arrays(t: Topology, limit: int, timeout: float) -> str:
    """What both say; *unknown* of the array-based one is no disagreement."""
    told, found = backwards(storm_system(t, "B", limit), timeout=timeout), decide_of_test_arrays(t, "B", limit)
    assert found.status in ("proved", "refuted") and told.status in ("unknown", found.status), t
    if told.refuted and not told.notes:
        assert found.trace is not None and told.counterexample is not None
        assert len(told.counterexample.steps) >= len(found.trace.steps)
    return told.status


@pytest.mark.parametrize(("gap", "spouts"), [("0.8", 1), ("0.8", 2), ("1", 1), ("1.5", 1), ("1.5", 2)])
def test_one_worker(gap: str, spouts: int) -> None:
    assert agree_arrays(one_bolt([Fraction(gap)] * spouts, Fraction(1), 1), 2, 60.0) != "unknown"


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_by_chance(part: int) -> None:
    chance, said = random.Random(part), dict.fromkeys(("proved", "refuted", "unknown"), 0)
    for _ in range(10):
        gaps = [Fraction(chance.randint(1, 12), chance.randint(2, 6)) for _ in range(chance.choice([1, 1, 2]))]
        t = one_bolt(gaps, Fraction(chance.randint(1, 4), chance.randint(1, 3)), chance.choice([1, 1, 2]))
        said[agree_arrays(t, 2, 8.0)] += 1
    print(f"part {part}: {said}")
    assert said["unknown"] < 6
