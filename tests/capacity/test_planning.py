"""Plans for topologies."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay, simulate
from pellucid.capacity.planning import SHOWN, changes, check_envelopes, envelopes, plan, plan_text
from pellucid.capacity.zones.decide import longest
from pellucid.errors import UsageError
from pellucid.internal.model import Budget
from tests.capacity import topologies as random_topologies
from tests.capacity.topologies import topology_topologies as topology

# Plans for topologies: exact numbers, what to change first, and that a change can make another queue worse.

CHAIN = Topology({"S": Spout(gap="0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})


@pytest.mark.parametrize(
    ("workers", "least"),
    [(1, {"B1": Fraction(1), "B2": Fraction(2), "B3": Fraction(2)}),
     (2, {"B1": Fraction(1, 2), "B2": Fraction(1), "B3": Fraction(1)})],
)  # fmt: skip
def test_figure_1(workers: int, least: dict[str, Fraction]) -> None:
    found = plan(figure_1(gap=2, workers=workers), {"B1": 2, "B2": 2, "B3": 3})
    assert found.status == "proved"
    assert {b: (p.longest, p.gap.gap) for b, p in found.bolts.items() if p.gap} == {
        "B1": (1, least["B1"]), "B2": (1, least["B2"]), "B3": (2, least["B3"])
    }  # fmt: skip
    for name, bolt in found.bolts.items():
        assert bolt.run is not None and bolt.run.longest(name) == bolt.longest
        assert bolt.largest_rate == 1 / least[name]
    assert found.bolts["B3"].found.settled == (1 if workers == 1 else 0)


def test_a_limit_that_nobody_can_keep() -> None:
    found = plan(figure_1(gap=2), {"B3": 2}, only=("B3",))
    bolt = found.bolts["B3"]
    assert found.status == "refuted" and bolt.longest == 2 and bolt.run is not None and bolt.run.emits == 2
    assert bolt.workers is not None and bolt.workers.status == "never" and bolt.gap is not None
    assert "no number of workers of B3 is enough" in plan_text(found)


def test_more_workers_can_make_the_next_queue_worse() -> None:
    found = plan(CHAIN)
    assert [(b.status, b.longest) for b in found.bolts.values()] == [("refuted", None), ("proved", 1)]
    first, second, third = changes(found)
    assert str(first) == "2 workers for A and 2 for B (instead of 1 and 1): A unbounded → 1"
    assert str(second).startswith("a gap of 1 for every spout") and second.solved == ("A",)
    assert third.broken == ("B",) and third.after == {"A": 1, "B": "unbounded"}
    assert plan(first.topology).status == "proved"


def test_nothing_to_change() -> None:
    assert changes(plan(figure_1(gap=4))) == []


def test_every_queue_is_unbounded() -> None:
    found = plan(figure_1(gap="1/4"))
    assert found.warning.startswith("every queue is unbounded at these rates (S1 every 1/4, S2 every 1/4)")
    assert found.status == "refuted" and found.warning in plan_text(found)
    assert changes(found)[0].solved == ("B1", "B2", "B3")


def test_a_backlog() -> None:
    found = plan(figure_1(gap=2, workers=2), backlog={"B2": 9}, only=("B2",)).bolts["B2"]
    assert found.drain(2, Fraction(1)) == (5, 9)  # five rounds of two; 2 are served and 1 comes
    full = plan(figure_1(gap=1, workers=2).given(workers={"B2": 2}), backlog={"B2": 9}, only=("B2",)).bolts["B2"]
    assert full.drain(2, Fraction(1)) == (5, None)
    waiting = Topology({"S": Spout(4)}, {"B": Bolt(1, "S", initial=3)})
    assert "backlog  done in  meanwhile" in plan_text(plan(waiting)) and plan(waiting).bolts["B"].backlog == 3


def test_the_literal_semantics() -> None:
    found = plan(figure_1(gap=1, workers=2).given(semantics="literal"), {"B2": 2}, only=("B2",))
    assert found.bolts["B2"].status == "proved" and found.bolts["B2"].workers.workers == 2
    found = plan(figure_1(gap=9).given(semantics="literal"), {"B2": 2}, only=("B2",))
    assert found.bolts["B2"].status == "refuted" and found.bolts["B2"].run is not None
    assert found.bolts["B2"].unbounded and "B2: unbounded: 2 can come while one is worked on" in plan_text(found)
    assert [str(change) for change in changes(found)] == ["2 workers for B2 (instead of 1): B2 unbounded → 1"]
    found = plan(figure_1(gap="1/3").given(semantics="literal"), only=("B2",))  # 3 + 3 while one is worked on
    assert [str(change) for change in changes(found)] == ["6 workers for B2 (instead of 1): B2 unbounded → 1"]
    with pytest.raises(UsageError, match="the backlog of B2: no time is known"):
        plan(figure_1(gap=9).given(semantics="literal"), backlog={"B2": 3})


@pytest.mark.parametrize(("routing", "observe"), [("one", "any"), ("all", "settled")])
def test_a_bolt_behind_another_has_no_bound_in_the_literal_semantics(routing: str, observe: str) -> None:
    """Flow says that 1/10 comes and 1 is served; as printed, A takes nothing until all of it is there."""
    chain = Topology(
        {"S": Spout(10)}, {"A": Bolt(1, "S", workers=3), "B": Bolt(1, "A")}, semantics="literal", observe=observe
    ).given(routing=routing)
    found = plan(chain).bolts["B"]
    assert found.status == "refuted" and found.unbounded and found.flow.inflow is None and found.flow.load is None
    assert found.run is not None and found.run.longest("B", observe) >= 8
    limited = plan(chain, {"B": 16}, only=("B",)).bolts["B"]
    assert limited.status == "refuted" and limited.run is not None and limited.run.longest("B", observe) >= 16
    assert (limited.gap.status, limited.workers.status) == ("never", "never")
    assert plan(chain.given(semantics="urgent")).status == "proved"


def test_what_was_cut_short_is_unknown() -> None:
    odd = figure_1(gap="7/9", workers=3)
    found = plan(odd, {"B3": 4}, only=("B3",), budget=Budget(20.0, 5))
    assert found.status == "unknown" and found.bolts["B3"].why and "unknown" in plan_text(found)
    found = plan(odd, only=("B3",), budget=Budget(20.0, 5))  # how long it gets is not known; that it has an end, is
    assert found.status == "proved" and found.bolts["B3"].proof == "by flow: no more comes than is served, checked"


def test_a_document() -> None:
    found = plan(CHAIN, {"A": 2}).document()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    a, b = found["bolts"]
    assert (a["longest"], a["least_workers"], a["least_gap"]) == (
        "unbounded", {"status": "at", "value": "2"}, {"status": "at", "value": "1"}
    )  # fmt: skip
    assert b["longest"] == 1 and b["run"]["emits"] >= 1 and b["utilisation"] == "1"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"C": 2}, "there is no bolt C"),
        ({"S": 2}, r"there is no bolt S \(it is a spout, which has no queue\)"),
        ({"A": 0}, "the limit of A: expected a number of tuples from 1 on, got 0"),
    ],
)
def test_questions_that_make_no_sense(limits: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(CHAIN, limits)


def test_any_number_is_not_planned() -> None:
    with pytest.raises(UsageError, match="a plan needs numbers of workers, and B has ANY: ask"):
        plan(CHAIN.given(workers={"B": ANY}))


def test_no_number_of_workers_is_enough_where_each_has_a_queue() -> None:
    one = Bolt("3/2", "S", ratio=2, queue="per worker")
    found = changes(plan(Topology({"S": Spout(1)}, {"A": one, "B": Bolt(1, "A", workers=2)})))
    assert [change.words[:12] for change in found] == ["a gap of 1.5"]


def test_a_backlog_of_an_unbounded_queue_is_done_if_nothing_else_comes() -> None:
    lines = plan_text(plan(CHAIN, backlog={"A": 7})).splitlines()
    assert lines[0].split()[-4:] == ["backlog", "done", "in", "meanwhile"] and lines[1].split()[-3:] == [
        "7",
        "7",
        "never",
    ]


def test_a_backlog_where_each_worker_has_a_queue() -> None:
    t = Topology({"S": Spout(2)}, {"A": Bolt(1, "S", workers=2, queue="per worker")})
    found = plan(t, backlog={"A": 356}).document()["bolts"][0]  # 178 in each; all that comes may go to one of them
    assert (found["drained_in"], found["drained_in_meanwhile"]) == ("178", "356")


# Envelopes are bounds: of what zones say exactly, and of what the simulation does where zones take too long.

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
    for seed in range(20):
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


# Plans against the simulation: no run is longer than a bound, and every bound is reached by the run that is shown.

CHOICES = ("longest", "round robin", "random", "shortest")


def judged(seeds: range) -> tuple[int, int, int]:
    """How many queues are bounded, unbounded and unknown; what is wrong fails."""
    bounded = unbounded = unknown = 0
    for seed in seeds:
        t = topology(seed)
        found = plan(t, budget=Budget(20.0, 60_000))
        runs = [simulate(t, tuples=60, choose=choose, seed=seed) for choose in CHOICES]
        for name, bolt in found.bolts.items():
            if bolt.run is not None:  # the judge of all runs accepts it, step by step
                assert replay(t, bolt.run.steps).longest(name) == bolt.run.longest(name), seed
            if bolt.unbounded:
                unbounded += 1
                assert bolt.status == "refuted" and bolt.run is not None and bolt.run.longest(name) >= SHOWN, seed
            elif bolt.longest is None:
                unknown += 1
            else:
                bounded += 1
                for run in runs:
                    assert run.longest(name) <= bolt.longest, (seed, name, run.longest(name), bolt.longest)
                reached = bolt.run.longest(name) if bolt.run is not None else 0
                assert reached == bolt.longest, (seed, name)
                assert bolt.flow.utilisation <= 1, (seed, name)
                assert bolt.proof.endswith("checked") or "not checked again" in bolt.proof, (seed, bolt.proof)
    return bounded, unbounded, unknown


def test_a_hundred() -> None:
    bounded, unbounded, unknown = judged(range(100))
    assert bounded > 80 and unbounded > 30 and unknown <= 4, (bounded, unbounded, unknown)


@pytest.mark.long
def test_a_thousand() -> None:
    bounded, unbounded, unknown = judged(range(100, 1100))
    assert bounded > 800 and unbounded > 300 and unknown <= 60, (bounded, unbounded, unknown)


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_wrong_bound_is_found(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """The judge says no: of a bound that is exceeded, and of one that is not reached."""
    planning = importlib.import_module("pellucid.capacity.planning")
    right = planning.longest

    def mutant(*args: Any, **more: Any) -> Any:
        found = right(*args, **more)
        if found.any is None:
            return found
        return replace(found, any=max(0, found.any + wrong), settled=max(0, found.settled + wrong))

    monkeypatch.setattr(planning, "longest", mutant)
    with pytest.raises(AssertionError):
        judged(range(12))
