"""The simulation against the meaning of queues, against the judge of steps, and against what flow says."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import check
from pellucid.capacity import (
    ANY,
    Bolt,
    Bursts,
    Constant,
    Poisson,
    Recorded,
    Spout,
    Topology,
    figure_1,
    flows,
    grow,
    replay,
    simulate,
)
from pellucid.capacity.arrays import decide, read_text
from pellucid.capacity.flow.bounds import threshold
from pellucid.capacity.planning import changes, plan, plan_text
from pellucid.capacity.zones.decide import least_gap, least_workers, longest
from pellucid.errors import UsageError
from pellucid.internal.cli.main import cli
from pellucid.internal.model import Budget, CutShort
from tests.capacity.meaning import told
from tests.capacity.topologies import topology


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_queues_do_what_they_mean(first: int) -> None:
    for number in range(first, first + 50):
        t = topology(number)
        arrivals = {s: [Constant(spout.gap * Fraction(5, 4)), Bursts(3, spout.gap * 7), Constant()][number % 3]
                    for s, spout in t.spouts.items()}  # fmt: skip
        run = simulate(t, tuples=12, arrivals=arrivals)
        assert all(run.kept_gaps.values())
        emits = {s: [run.unit * int(n) for n in a.ticks(t.spouts[s], 12, run.unit, 0)] for s, a in arrivals.items()}
        meant = told(t, {s: times if t.listeners(s) else [] for s, times in emits.items()})
        for b in t.bolts:
            assert (run.longest(b, "any"), run.longest(b, "settled")) == meant[b][:2], (number, b)
        ends = [start + t.bolts[b].time for b, (_, _, starts) in meant.items() for start in starts]
        emitted = [time for s, times in emits.items() if t.listeners(s) for time in times]
        assert run.time == max(ends + emitted, default=0), number


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_every_run_is_one_of_the_urgent_semantics(first: int) -> None:
    for number in range(first, first + 40):
        t = topology(number, single=True)
        choose = ["round robin", "random", "longest", "shortest"][number % 4]
        run = simulate(t, tuples=8, choose=choose, seed=number, log=True)
        judged = replay(t, run.steps())
        for b in t.bolts:
            for observe in ("any", "settled"):
                assert run.longest(b, observe) == judged.longest(b, observe), (number, b)  # type: ignore[arg-type]
        assert judged.emits == run.emitted
        if number % 10 == 0:
            assert judged.counterexample().replay(), number


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_what_is_unbounded_grows_and_what_is_bounded_does_not(first: int) -> None:
    for number in range(first, first + 30):
        t = topology(number, single=True)
        found = flows(t)
        short = simulate(t, tuples=1000, choose="longest")
        long = simulate(t, tuples=8000, choose="longest")
        for b, flow in found.items():
            assert flow.status in ("bounded", "unbounded")
            if flow.status == "bounded":
                assert long.longest(b) <= short.longest(b) + 3, (number, b)
            elif number % 3 == 1:
                wanted = t.bolts[b].initial + 6
                assert replay(t, grow(t, b, wanted).steps).longest(b) >= wanted, (number, b)


def test_figure_1_as_fast_as_it_may_keeps_its_bounds() -> None:
    for workers in (1, 2, 3):
        for gap in ("2/3", "1", "3/2", "2"):
            t = figure_1(gap=gap, workers=workers)
            for choose in ("round robin", "longest", {"S1": ["B2"]}, {"S1": ["B1"]}):
                run = simulate(t, tuples=500, choose=choose)
                found = flows(t)
                worst = {"B1": (1, 0), "B2": (1, 1), "B3": (2, 1)}
                for b in t.bolts:
                    if found[b].status == "bounded":
                        assert run.longest(b, "any") <= worst[b][0] and run.longest(b, "settled") <= worst[b][1]


def test_the_same_arguments_give_the_same_run() -> None:
    t = figure_1(gap=1, workers=2)
    runs = [simulate(t, tuples=3000, arrivals=Poisson("1.1"), choose="random", seed=seed) for seed in (7, 7, 8)]
    tell = [(r.time, r.events, [r.length("B3", p) for p in (50, 90, 99)], r.latency(99)) for r in runs]
    assert tell[0] == tell[1] != tell[2]
    # Pinned: another version of a library must not change a run.
    assert (runs[0].longest("B3"), str(runs[0].latency(50)), runs[0].events) == (42, "3763/1000", 30_000)


def test_arrivals() -> None:
    spout = Spout("0.5")
    unit = Fraction(1, 1000)
    assert Constant().ticks(spout, 3, unit, 0).tolist() == [501, 1002, 1503]
    assert Constant("0.25").ticks(spout, 2, unit, 0).tolist() == [250, 500]
    assert Bursts(2, every=10).ticks(spout, 5, unit, 0).tolist() == [501, 1002, 10501, 11002, 20501]
    assert Recorded(["0.001", 2]).ticks(spout, 9, unit, 0).tolist() == [1, 2000]
    kept = Poisson(1, keep_gap=True).ticks(spout, 2000, unit, 3)
    assert min(b - a for a, b in pairwise(kept)) > 500 and 0.95 < kept[-1] / 2_000_000 < 1.05
    with pytest.raises(UsageError, match="one in 1/2 on average cannot be with more than 1/2 between two"):
        Poisson("0.5", keep_gap=True).ticks(spout, 5, unit, 0)
    with pytest.raises(UsageError, match="a burst of 20 tuples, more than 1/2 apart, does not fit into 10"):
        Bursts(20, every=10).ticks(spout, 5, unit, 0)
    with pytest.raises(UsageError, match="the size of a burst: expected 1 or more, got 0"):
        Bursts(0, every=10)


def test_recorded_times_percentiles_and_latencies() -> None:
    t = Topology({"S": Spout(1)}, {"A": Bolt(2, "S"), "B": Bolt(1, "A")})
    run = simulate(t, arrivals=Recorded([0, 0, 0, 10]))
    # A: 0–2, 2–4, 4–6, 10–12; two wait until 2, one until 4.  B follows at once.
    assert (run.longest("A"), run.longest("A", "settled"), run.time) == (2, 2, 13)
    assert not run.kept_gaps["S"]
    assert [run.length("A", p) for p in (0, 50, 69, 70, 84, 85, 100)] == [0, 0, 0, 1, 1, 2, 2]
    assert [run.latency(p, "A") for p in (0, 50, 51, 100)] == [2, 2, 4, 6]
    assert [run.latency(p) for p in (50, 75, 100)] == [3, 5, 7]
    cut = simulate(t, arrivals=Recorded([0, 0, 0, 10]), until="4.5")
    assert cut.time == Fraction(9, 2) and cut.latency(100) == 3 and cut.emitted == 3
    assert cut.length("A", 100) == 2


def test_until_ends_a_circle_that_never_does() -> None:
    t = Topology({"S": Spout(3)}, {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A")})
    with pytest.raises(
        UsageError, match="can come back as 1 or more: the run may never end, so until= has to say when"
    ):
        simulate(t)
    assert simulate(t, until=1000).longest("A") > 100


@pytest.mark.parametrize(("given", "why"), [
    ({"choose": "worst"}, "choose: expected 'random', 'round robin', 'longest', 'shortest' or a list of bolts"),
    ({"choose": {"S3": ["B1"]}}, "choose: there is no spout and no bolt S3"),
    ({"choose": {"S2": ["B1"]}}, "choose: B1 does not hear S2."),
    ({"arrivals": {"S3": Constant()}}, "arrivals: there is no spout S3"),
    ({"tuples": -1}, "tuples: expected 0 or more, got -1."),
    ({"until": 0}, "until: 0 is not above 0."),
    ({"tuples": 3, "arrivals": Constant(10**18)}, "spout S1 emits for too many ticks of 1/1000"),
])  # fmt: skip
def test_what_cannot_be_simulated_is_said(given: dict, why: str) -> None:
    with pytest.raises(UsageError) as error:
        simulate(figure_1(gap=1), **given)
    assert why in str(error.value)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="bolt B1 has ANY number of workers: a simulation needs one"):
        simulate(figure_1(gap=1, workers=ANY))
    with pytest.raises(UsageError, match="a simulation is of the urgent semantics"):
        simulate(figure_1(gap=1).given(semantics="literal"))
    run = simulate(figure_1(gap=1), tuples=0)
    with pytest.raises(UsageError, match="no tuple was done at B1: there is no latency"):
        run.latency(50, "B1")
    with pytest.raises(UsageError, match=r"the steps were not kept: simulate\(…, log=True\) keeps them"):
        run.steps()
    with pytest.raises(UsageError, match="a percentile is from 0 to 100, not 101"):
        run.length("B1", 101)
    assert run.length("B1", 50) == 0
    with pytest.raises(UsageError, match=r"latencies were not kept: simulate\(…, latencies=True\) keeps them"):
        simulate(figure_1(gap=1), tuples=5, latencies=False).latency(50)


def test_a_spout_that_nobody_hears_emits_nothing_recorded_or_not() -> None:
    t = Topology({"S": Spout(3), "nobody": Spout(2)}, {"B": Bolt(2, "S")})
    for arrivals in (Recorded([4 * i for i in range(1, 20)]), Constant(4)):
        run = simulate(t, tuples=19, arrivals={"S": arrivals, "nobody": Recorded(range(3, 60, 3))})
        assert (run.longest("B"), run.emitted) == (1, 19)


# Budgets are kept: by what searches, and by what only computes, reads or runs for long.

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

    monkeypatch.setattr("pellucid.capacity.zones.certificate.Certificate.check", late)
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
