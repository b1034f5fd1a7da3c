"""What is true of somebody: statements about everybody in a proof, and what the checker thinks of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pellucid.capacity.arrays import check_certificate, decide, explain, read, read_text
from pellucid.capacity.arrays.language.interpreter import Instance, explore
from pellucid.capacity.arrays.language.system import (
    And,
    Cell,
    Compare,
    Formula,
    Not,
    Or,
    Quantified,
    States,
    System,
    Value,
)
from tests.capacity.random_systems import random_system

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
