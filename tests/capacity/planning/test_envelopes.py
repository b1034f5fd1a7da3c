"""Envelopes are bounds: of what zones say exactly, and of what the simulation does where zones take too long."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, simulate
from pellucid.capacity.planning import plan, plan_text
from pellucid.capacity.planning.envelopes import check_envelopes, envelopes
from pellucid.capacity.zones.decide import longest
from pellucid.internal.model import Budget
from tests.capacity import random_topologies
from tests.capacity.planning.topologies import topology

BIG = Topology(
    {"cards": Spout("0.023"), "transfers": Spout("0.11")},
    {
        "check": Bolt("0.05", ["cards", "transfers"], workers=4),
        "enrich": Bolt("0.21", ["check"], workers=13),
        "book": Bolt("0.017", ["enrich"]),
    },
    routing="all",
    name="big",
)


def test_they_bound_what_is_exact() -> None:
    tight = known = 0
    for seed in range(60):
        t = topology(seed)
        table = envelopes(t)
        assert table is not None and check_envelopes(t, table)
        for name, line in table.items():
            if line.at_most is None:
                continue
            found = longest(t, name, budget=Budget(5.0, 20_000))
            assert found.status != "unbounded", (seed, name)
            if found.any is not None:
                known += 1
                tight += found.any == line.at_most
                assert found.any <= line.at_most, (seed, name, found.any, line.at_most)
    assert known > 40 and tight > 10, (known, tight)


def test_they_bound_what_is_simulated() -> None:
    for seed in range(40):
        t = random_topologies.topology(seed, single=True)
        table = envelopes(t)
        assert table is not None
        runs = [simulate(t, tuples=300, choose=choose, seed=seed) for choose in ("longest", "random")]
        for name, line in table.items():
            if line.at_most is not None:
                assert all(run.longest(name, "any") <= line.at_most for run in runs), (seed, name)


@pytest.mark.parametrize("field", ["burst", "rate", "out_burst", "out_rate"])
def test_a_wrong_line_is_not_accepted(field: str) -> None:
    table = envelopes(BIG)
    assert table is not None and check_envelopes(BIG, table)
    for name, line in table.items():
        less = replace(line, **{field: getattr(line, field) - Fraction(1, 1000)})
        assert not check_envelopes(BIG, {**table, name: less}), name
    assert not check_envelopes(BIG, {name: line for name, line in table.items() if name != "book"})


def test_many_workers_and_odd_numbers() -> None:
    """Zones do not come to an end here; flow says that all is bounded, and envelopes how long it gets at most."""
    found = plan(BIG, only=("enrich",), budget=Budget(0.3, 500))
    enrich = found.bolts["enrich"]
    assert enrich.status == "proved" and enrich.longest is None and enrich.at_most == 5
    assert enrich.proof == "by flow: no more comes than is served, checked" and "≤ 5" in plan_text(found)


@pytest.mark.long
def test_a_limit_by_envelopes() -> None:
    enrich = plan(BIG, {"enrich": 6}, only=("enrich",), budget=Budget(0.3, 500)).bolts["enrich"]
    assert enrich.status == "proved" and enrich.proof == "by envelopes: no more than 5 can wait, checked"
    assert plan(BIG, {"enrich": 5}, only=("enrich",), budget=Budget(0.3, 500)).status == "unknown"


def test_where_there_are_none() -> None:
    circle = Topology({"S": Spout(4)}, {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio="1/2")}, routing="all")
    assert envelopes(circle) is None and not check_envelopes(circle, {})
    assert envelopes(figure_1(gap=2, workers=ANY)) is None
    assert envelopes(figure_1(gap=2).given(semantics="literal")) is None
