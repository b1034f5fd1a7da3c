"""`check.capacity`: verdicts with parts, runs in every form, *unknown*, and mistakes by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pellucid import check
from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.zones.question import CapacityPart
from pellucid.errors import UsageError


def test_parts() -> None:
    found = check.capacity(figure_1(gap="1.5", workers={"B2": 2}), {"B1": 2, "B2": 1})
    assert found.refuted and {b: part.status for b, part in found.parts.items()} == {"B1": "proved", "B2": "refuted"}
    part = found.parts["B2"]
    assert isinstance(part, CapacityPart) and part.trace is not None and part.certificate is None
    assert found.counterexample is part.counterexample and found.details["parts"] == {"B1": "proved", "B2": "refuted"}
    assert found.parts["B1"].certificate is not None and found.parts["B1"].certificate.check() is None


def test_a_run_in_every_form() -> None:
    t = figure_1(gap="0.8")
    found = check.capacity(t, {"B1": 2})
    run = found.counterexample
    assert run is not None and run.replay()
    assert "the queue of B1 reaches 2 after 7 emits of the spouts" in run.text()
    assert run.picture("B1").startswith("<svg")
    document = json.loads(found.to_json())["verdict"]
    assert document["details"]["parts"] == {"B1": "refuted"}
    assert document["counterexample"]["steps"][-1]["step"] == "spout_emit S1 → B1"
    assert found.parts["B1"].details["infimum"] == "28/5" and found.parts["B1"].details["emits"] == 7
    assert replay(t, run.steps).longest("B1") == 2


def test_fewest_steps_and_fewest_emits() -> None:
    t = figure_1(gap="0.9", workers={"B3": 1})
    emits = check.capacity(t, {"B3": 4}, fewest="emits").parts["B3"].details
    steps = check.capacity(t, {"B3": 4}, fewest="steps").parts["B3"].details
    assert emits["emits"] <= steps["emits"] and steps["steps"] <= emits["steps"]


def test_unknown() -> None:
    hard = figure_1(gap="2/3", workers=3)
    assert check.capacity(hard, {"B3": 3}, timeout=None, max_states=100).unknown
    few = check.capacity(hard, {"B3": 3}, max_states=100)
    assert few.unknown and "the limit of 100 states was reached" in str(few) and "not decided" in str(few)
    own = Topology({"S": Spout(3)}, {"B": Bolt(1, "S", workers=ANY, queue="per worker")})
    found = check.capacity(own, {"B": 3})
    assert found.unknown and "each worker of B has a queue" in found.notes[0]


def test_bolts_in_a_circle() -> None:
    t = Topology({"S": Spout(3)}, {"A": Bolt(1, ["S", "B"], ratio="1/2"), "B": Bolt(1, "A")})
    assert check.capacity(t, {"A": 3, "B": 3}).proved
    found = check.capacity(t.given(workers=ANY), {"A": 3})
    assert found.unknown
    assert found.notes == ("A: unknown: the bolts go in a circle, and none of them is first; proved for no number",)


def test_memory_is_a_budget_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.capacity.zones.search.MEMORY", 2**20)
    found = check.capacity(figure_1(gap="2/3", workers=3), {"B3": 3})
    assert found.unknown and "GiB of memory was reached after" in found.notes[0]


def test_any_number_that_is_refuted_says_which() -> None:
    t = Topology({"S1": Spout(2), "S2": Spout(2)}, {"A": Bolt(1, ["S1", "S2"], workers=ANY), "B": Bolt(1, "A")})
    found = check.capacity(t, {"B": 2})
    assert found.refuted and "with workers A 2, B 1: the queue of B reaches 2" in found.notes[0]


def test_bolts_behind_others_may_have_any_number() -> None:
    assert check.capacity(figure_1(gap=1, workers={"B3": ANY}), {"B1": 2}).proved


def test_rates_that_make_every_queue_unbounded_are_said_first() -> None:
    assert check.capacity(figure_1(gap="0.4"), {"B1": 2}).notes[0].startswith("every queue is unbounded at these rates")


def test_progress_is_told() -> None:
    told: list[dict[str, int]] = []
    check.capacity(figure_1(gap="2/3", workers=3), {"B3": 3}, progress=told.append, certify=False)
    assert told and {"states", "waiting"} <= told[0].keys()


@pytest.mark.parametrize(
    ("limits", "given", "message"),
    [
        ({"b1": 2}, {}, "there is no bolt b1; did you mean 'B1'"),
        ({"S1": 2}, {}, "there is no bolt S1 (it is a spout, which has no queue)"),
        ({}, {}, "limits={}: expected the limit of at least one bolt, such as"),
        ({"B1": 0}, {}, "the limit of B1: expected a number of tuples from 1 on, got 0."),
        ({"B1": "2"}, {}, "the limit of B1: expected a number of tuples from 1 on, got '2'."),
        ({"B1": 2}, {"fewest": "seconds"}, "fewest='seconds': expected 'emits' or 'steps'"),
        ({"B1": 2}, {"observe": "some"}, "observe='some': expected 'any' or 'settled'"),
        ({"B1": 2}, {"within": 0}, "within: 0 is not above 0."),
    ],
)
def test_mistakes(limits: dict[str, int], given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check.capacity(figure_1(gap=1), limits, **given)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_mistakes_in_what_is_asked_about() -> None:
    with pytest.raises(UsageError, match=r"check\.capacity takes a capacity\.Topology, found a str"):
        check.capacity("Figure 1", {"B1": 2})  # type: ignore[arg-type]
    literal = Topology({"S": Spout(1)}, {"B": Bolt(1, "S", queue="per worker")}, semantics="literal")
    with pytest.raises(UsageError, match='semantics="literal" has one queue for each bolt'):
        check.capacity(literal, {"B": 2})
    fine = Topology({"S": Spout("1/1000000007")}, {"B": Bolt("1/998244353", "S")})
    with pytest.raises(UsageError, match="have no common unit that is coarse enough"):
        check.capacity(fine.given(gap="1000000000/1000000007"), {"B": 2})


def test_nothing_heavy_is_loaded_before_it_is_used() -> None:
    code = "import sys, pellucid.capacity, pellucid.capacity.zones.question; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
