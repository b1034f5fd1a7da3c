"""Budgets are kept: by what searches, and by what only computes, reads or runs for long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import check
from pellucid.capacity import ANY, Bolt, Poisson, Spout, Topology, figure_1, flows, simulate
from pellucid.capacity.arrays import decide, read_text
from pellucid.capacity.flow import grow, threshold
from pellucid.capacity.planning import changes, plan, plan_text
from pellucid.capacity.zones.decide import longest
from pellucid.capacity.zones.thresholds import least_gap, least_workers
from pellucid.internal.cli.main import cli
from pellucid.internal.model import Budget, CutShort

MANY = 200


def large(gap: str = "1000") -> Topology:
    """Many bolts, each of which hears two others, with choices for every tuple."""
    spouts = {f"S{i}": Spout(gap) for i in range(5)}
    bolts = {f"B{i}": Bolt(1, [f"S{i}"] if i < 5 else [f"B{i - 5}", f"B{i - 4}"]) for i in range(MANY)}
    return Topology(spouts, bolts, name="large")


def ring() -> Topology:
    """Many bolts in a circle."""
    bolts = {f"B{i}": Bolt(1, [f"B{(i - 1) % MANY}", *(["S"] if not i else [])], ratio="1/2") for i in range(MANY)}
    return Topology({"S": Spout(2)}, bolts, name="ring")


def text(size: int) -> str:
    """A system with so many transitions."""
    head = "var N : int\narray S[proc] : bool\ninit (z) { S[z] = False && N = 0 }\nunsafe () { N < 0 }\n"
    return head + "".join(
        f"transition t{i} (x) requires {{ N = {i} && forall_other y. S[y] = False || N < 3 }} {{ N := {i + 1} }}\n"
        for i in range(size)
    )


def within(began: float, seconds: float) -> None:
    """Not much work beyond, whatever else the machine does, which makes it slower."""
    assert time.process_time() - began < seconds + 5.0


@pytest.mark.parametrize(
    "work",
    [
        lambda: flows(figure_1(gap="0.77")),
        lambda: threshold(figure_1(gap="0.77"), "B3"),
        lambda: grow(figure_1(gap="0.77"), "B1", 5),
        lambda: simulate(figure_1(gap=1), tuples=4_000_000, latencies=False),
        lambda: read_text(text(3)),
        lambda: read_text("(* a comment *)"),
    ],
)
def test_what_knows_no_budget_is_stopped_by_one_that_is_kept(work: object) -> None:
    with pytest.raises(CutShort, match="the time limit of 0 s was reached"), Budget(0).kept():
        work()  # type: ignore[operator]


def test_without_time_everything_is_unknown_and_says_why() -> None:
    t, no = figure_1(gap="0.78"), Budget(0)
    assert longest(t, "B1", budget=no).status == "unknown"
    assert least_gap(t, "B1", 2, budget=no).status == "unknown" and "time limit" in str(
        least_gap(t, "B1", 2, budget=no)
    )
    assert least_workers(t, "B1", 2, budget=no).status == "unknown"
    found = plan(t, {"B1": 2}, backlog={"B2": 7}, budget=no)
    assert found.status == "unknown" and {bolt.status for bolt in found.bolts.values()} == {"unknown"}
    assert found.bolts["B1"].flow.load is None and "the time limit of 0 s was reached" in plan_text(found)
    document = found.document()["bolts"][1]
    assert document["load"] is document["inflow"] is document["utilisation"] is None
    assert document["drained_in"] == "7" and "unknown" in plan_text(found).splitlines()[2]
    said = check.capacity(t.given(workers=ANY), {"B1": 2}, timeout=0.0)
    assert said.status == "unknown" and "time limit" in " ".join(said.notes)


def test_a_proof_that_was_not_checked_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(self: object) -> None:
        raise CutShort("the time limit of 1 s was reached")

    monkeypatch.setattr("pellucid.capacity.zones.proof.certificate.Certificate.check", late)
    found = check.capacity(figure_1(gap=1), {"B1": 2}, timeout=60.0)
    assert found.status == "unknown" and "which was not checked: the time limit of 1 s" in found.notes[0]


def test_what_was_tried_before_the_time_was_up_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(figure_1(gap="0.8", workers={"B2": 3, "B3": 4}), {"B1": 2}, only=("B1",))
    every = changes(found)
    tried = list[str]()

    def stop(words: str) -> None:
        if tried:
            raise CutShort("the time limit was reached")
        tried.append(words)

    assert len(every) > 1 and changes(found, tell=stop) == every[:1]


@pytest.mark.parametrize("many", [large(), ring()], ids=lambda t: t.name)
def test_many_bolts(many: Topology) -> None:
    began = time.process_time()
    found = plan(many, budget=Budget(0.5))
    within(began, 0.5)
    assert len(found.bolts) == MANY and found.status == "unknown"
    began = time.process_time()
    assert check.capacity(many, {f"B{MANY - 1}": 2}, timeout=0.5).status == "unknown"
    within(began, 0.5)


@pytest.mark.parametrize(
    "more", [(), ("--json",), ("--queue-limit", "B7=2"), ("--parallelism", "B7=ANY", "--queue-limit", "B199=2")]
)
def test_the_command_line_keeps_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "large.toml").write_text(large().to_toml())
    began = time.process_time()
    done = CliRunner().invoke(cli, ["capacity", str(tmp_path / "large.toml"), "--timeout", "0.5", *more])
    within(began, 0.5)
    assert done.exit_code == 3, done.output
    assert "time limit" in done.output


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_large_text(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "large.cub").write_text(text(30_000))
    began = time.process_time()
    done = CliRunner().invoke(cli, ["capacity", str(tmp_path / "large.cub"), "--timeout", "0.5", *more])
    within(began, 0.5)
    assert done.exit_code == 3, done.output
    assert "the time limit of 0.5 s was reached" in done.output


def test_a_text_that_is_read_but_not_decided_in_time() -> None:
    system = read_text(text(600))
    began = time.process_time()
    found = decide(system, timeout=0.3)
    within(began, 0.3)
    assert found.status == "unknown" and "time limit" in " ".join(found.notes)


def test_a_long_simulation(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(figure_1(gap=2).to_toml())
    began = time.process_time()
    given = ["capacity", str(tmp_path / "shop.toml"), "--simulate", "8000000", "--timeout", "2"]
    done = CliRunner().invoke(cli, given)
    within(began, 2.0)
    assert done.exit_code in (0, 3) and "simulated: the time limit of 2 s was reached" in done.output, done.output
    run = simulate(figure_1(gap=1), tuples=5000, arrivals=Poisson("1.1"), seed=1)
    assert run.emitted == 10_000
