"""Plans for topologies: exact numbers, what to change first, and that a change can make another queue worse."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1
from pellucid.capacity.planning import changes, plan, plan_text
from pellucid.errors import UsageError
from pellucid.internal.model import Budget

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


@pytest.mark.parametrize("routing", ["one", "all"])
@pytest.mark.parametrize("observe", ["any", "settled"])
def test_a_bolt_behind_another_has_no_bound_in_the_literal_semantics(routing: str, observe: str) -> None:
    """Flow says that 1/10 comes and 1 is served; as printed, A takes nothing until all of it is there."""
    chain = Topology(
        {"S": Spout(10)}, {"A": Bolt(1, "S", workers=3), "B": Bolt(1, "A")}, semantics="literal", observe=observe
    ).given(routing=routing)
    found = plan(chain).bolts["B"]
    assert found.status == "refuted" and found.unbounded and found.flow.inflow is None and found.flow.load is None
    assert found.run is not None and found.run.longest("B", observe) >= 8
    limited = plan(chain, {"B": 30}, only=("B",)).bolts["B"]
    assert limited.status == "refuted" and limited.run is not None and limited.run.longest("B", observe) >= 30
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
