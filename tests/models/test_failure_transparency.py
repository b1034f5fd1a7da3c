# ruff: noqa: N803, N806 - the paper's letters
"""The figures of Failure Transparency in Stateful Dataflow Systems (2024) (failure transparency in stateful dataflow
systems), each as a test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pellucid.failures.model import (
    FL,
    Configuration,
    FFail,
    FRecover,
    Map,
    Message,
    Normal,
    Task,
    apply_actions,
    f_recover,
    gce,
    initial,
    lcs,
    on_stream,
    out,
    steps,
)
from pellucid.failures.model.explain import CausalOrder, Explanation, apply_trace, explain
from pellucid.failures.model.notation import read, read_run, write
from pellucid.failures.model.tasks import tasks_of
from tests.failures.cuts import judge, read_cut

CHAIN = """
    p1: i  -> s1  copy
    p2: s1 -> s2  sum
    p3: s2 -> s3  copy
"""


def explained(Z: list[Any], c: Configuration) -> Explanation:
    found = explain(Z, c, literally=True)
    assert isinstance(found, Explanation), found
    return found


def listing1() -> Any:
    path = Path(__file__).parents[2] / "examples" / "failure_transparency_listing1.py"
    spec = importlib.util.spec_from_file_location("failure_transparency_listing1", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- Figure 2 and Listing 1


def test_figure_2_the_program_in_the_model_gives_what_the_program_gives() -> None:
    """Every complete failure-free run is the average of some interleaving of the two sources.

    As printed, Listing 1's task reads "src_ints" and "src_reset" and leaves the sources' outputs "ints" and "reset"
    unread; it must read the latter.
    """
    module = listing1()
    model = tasks_of(module.averages)
    c = model.initial({"ints": [[10, 20], [6]], "reset": [[True], []]})
    results, seen, stack = set(), {c}, [c]
    while stack:
        at = stack.pop()
        enabled = steps(at, failures=False)
        if not enabled:
            assert gce(at) == 2
            results.add(tuple(model.results(at)["out"]))
        new = {after for _, after in enabled} - seen
        seen |= new
        stack += new
    # the reset is of epoch 1: before 10, between 10 and 20, or after 20
    assert results == {(10.0, 15.0, 12.0), (10.0, 20.0, 13.0), (10.0, 15.0, 6.0)}
    assert (10.0, 15.0, 6.0) == tuple(
        module.averages(ints=[10, 20, module.silent, 6], reset=[module.silent] * 2 + [True, module.silent])
    )


# ---------------------------------------------------------------- Figure 3: three snapshots of p1 → p2 → p3


def test_figure_3a_uncoordinated_snapshots_are_inconsistent() -> None:
    run = read_cut("""
        p1:  >m11  >m12 |
        p2:  <m11  >m21 |  <m12  >m22
        p3:  <m21  <m22 |
    """)
    found = judge(*run)
    assert found.kind == "inconsistent"
    assert str(found) == "inconsistent: message m22 is received by p3, but not sent by p2"


def test_figure_3b_chandy_and_lamport_have_messages_in_flight() -> None:
    run = read_cut("""
        p1:  >m11  >m12 |
        p2:  <m11  >m21  <m12  >m22 |
        p3:  <m21 |  <m22
    """)
    found = judge(*run)
    assert found.kind == "in flight" and found.consistent
    assert str(found) == "consistent, with 1 message in flight: m22 from p2 to p3"


def test_figure_3c_abs_has_none() -> None:
    run = read_cut("""
        p1:  >m11  >m12 |
        p2:  <m11  >m21  <m12  >m22 |
        p3:  <m21  <m22 |
    """)
    assert judge(*run).kind == "complete"


# ---------------------------------------------------------------- Figures 4 and 9: a failure, and what is seen


def test_figure_4_a_failure_and_its_observed_execution() -> None:
    """p2 fails in its second epoch; the observed execution has neither the failure nor the incomplete epoch before
    it."""
    c, Z = read_run(CHAIN + "i: 1 2 | 3 |\n" + "p1 p2 p1 p1| p2 p2| p3 p3 p3| p1 p2 p2! p1| ^ p1 p1| p2 p2| p3 p3|")
    found = explained(Z, c)
    assert write(found.explaining, c) == "p1 p2 p1 p1| p2 p2| p3 p3 p3| p1 p1| p2 p2| p3 p3|"
    assert [g.epoch for g in found.generations] == [1, 2]
    faulty, observed = apply_trace(Z, c), apply_trace(found.explaining, c)
    assert faulty[-1] == observed[-1]
    assert f_recover(faulty[13]) == faulty[14] and faulty[13].Sigma["p2"].volatile is FL


def test_figure_9_the_view_through_the_latest_common_snapshot() -> None:
    """Two epochs are complete, the third is not, and p2 has failed: the view is that of two epochs."""
    epochs = "p1 p1| p2 p2| p3 p3|"
    c, Z = read_run(CHAIN + f"i: 1 | 2 | 3 |\n{epochs} {epochs} p1 p2 p2! p1|")
    end = apply_trace(Z, c)[-1]
    assert gce(end) == 2
    view = apply_trace(read(f"{epochs} {epochs}", c), c)[-1]
    assert lcs(end) == view
    assert {m.e for m in out(end)} == {1, 2} and {m.e for m in end.M - end.D} == {1, 2, 3}


# ---------------------------------------------------------------- Figure 6: production and consumption


def test_figure_6_production_and_consumption() -> None:
    from pellucid.failures.model import EV, Consume, Produce

    there = frozenset(Message(n, "s", 1, EV(n)) for n in range(3))
    produced = apply_actions((Produce("s", 1, EV(3)),), Map({"s": 3}), there)
    assert produced == (Map({"s": 4}), there | {Message(3, "s", 1, EV(3))})
    assert apply_actions((Consume("s", 1, EV(0)),), Map({"s": 0}), there) == (Map({"s": 1}), there)


# ---------------------------------------------------------------- Figure 10: the incremental average


RESET = "Reset"


def average(state: tuple[int, int], event: Any) -> tuple[tuple[int, int], list[float]]:
    if event == RESET:
        return (0, 0), []
    after = (state[0] + event, state[1] + 1)
    return after, [after[0] / after[1]]


def av(state: tuple[int, int]) -> float:
    return state[0] / state[1] if state[1] else 0


def test_figure_10_the_archives() -> None:
    """[E⟨1⟩, BD, E⟨3⟩, fail, recover, Reset, E⟨3⟩, E⟨5⟩, BD]: a0 = [0 ↦ 0], a1 = a0[1 ↦ 1], a2 = a1[2 ↦ 4]."""
    c = initial(
        {"t": Task(average, ("ints", "reset"), "avgs")}, {"ints": [[1], [3, 5]], "reset": [[], [RESET]]}, {"t": (0, 0)}
    )
    Z = read("t<ints t| t<ints t! ^ t<reset t<ints t<ints t|", c)
    C = apply_trace(Z, c)

    def archive(at: Configuration) -> dict[int, float]:
        return {e: av(v) for e, v in at.Sigma["t"].archive.items()}

    a0, a1, a2 = {0: 0}, {0: 0, 1: 1}, {0: 0, 1: 1, 2: 4}
    assert [archive(at) for at in C] == [a0, a0, a1, a1, a1, a1, a1, a1, a1, a2]
    averages = [av(at.Sigma["t"].volatile.v) if isinstance(at.Sigma["t"].volatile, Normal) else "fl" for at in C]
    assert averages == [0, 1, 1, 2, "fl", 1, 0, 3, 4, 4]  # the 2 is never seen again
    found = explained(Z, c)
    assert write(found.explaining, c) == "t<ints t| t<reset t<ints t<ints t|"
    ideal = apply_trace(found.explaining, c)
    assert [archive(at) for at in ideal] == [a0, a0, a1, a1, a1, a1, a2]
    assert [archive(ideal[h]) for h in found.mapping] == [archive(at) for at in C]  # the mapping from top to bottom
    shown = [[m.d for m in sorted(on_stream(out(at), "avgs"), key=lambda m: m.n)] for at in C]
    assert [str(d) for d in shown[-1]] == ["EV(1.0)", "BD", "EV(3.0)", "EV(4.0)", "BD"]


# ---------------------------------------------------------------- Figure 12: the construction


def test_figure_12_the_construction() -> None:
    """Two generations, step by step: the trace, its generations, the reordering, the discarding, the merged trace."""
    c, Z = read_run(
        """
        p1: i  -> s1  copy
        p2: s1 -> s2  sum
        i: 1 | 2 |
        p1 p1| p1 p2 p2| p1| p2 p1! ^   p1 p2 p1| p2|
        """
    )
    found = explained(Z, c)
    first, second = found.generations
    # (a, b) split by the recovery; the first commits epoch 1, the second epoch 2
    assert (first.start, first.stop, first.recovered, first.epoch) == (0, 8, True, 1)
    assert (second.start, second.stop, second.recovered, second.epoch) == (9, 13, False, 2)
    assert found.commits == (4, 12)
    # (c) reordered: the steps of epoch 2 and the failure go behind those of epoch 1
    assert first.kept == (0, 1, 3, 4) and first.discarded == (2, 5, 6, 7)
    order = CausalOrder(Z[:9])
    assert order.keeps(first.reordered)
    assert apply_trace([Z[i] for i in first.reordered], c)[-1] == apply_trace(Z[:9], c)[-1]
    # (d) merged, failure-free, and every observation has its place
    assert write(found.explaining, c) == "p1 p1| p2 p2| p1 p2 p1| p2|"
    assert found.mapping == (0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 8)
    # the last configuration of the stripped generation is the latest common snapshot of the whole one
    assert apply_trace([Z[i] for i in first.kept], c)[-1] == lcs(apply_trace(Z[:8], c)[-1])


@pytest.mark.parametrize("task", ["p1", "p2", "p3"])
def test_theorem_6_9_for_every_point_of_failure_of_a_chain(task: str) -> None:
    """A failure of each task at each point of a run, with the recovery at each later point."""
    whole = ["p1", "p1|", "p2", "p2|", "p1", "p3", "p3|", "p1|", "p2", "p2|", "p3", "p3|"]
    c, _ = read_run(CHAIN + "i: 1 | 2 |")
    for k in range(len(whole) + 1):
        at = apply_trace(read(" ".join(whole[:k]), c), c)[-1]
        prefix = read(" ".join(whole[:k]), c)
        failed = dict(steps(at))[FFail(task)]
        after: list[Any] = []
        while True:
            trace = [*prefix, FFail(task), *after, FRecover()]
            rest: list[Any] = []
            here = f_recover(failed)
            while here is not None and (enabled := steps(here, failures=False)):
                rest.append(enabled[0][0])
                here = enabled[0][1]
            found = explained([*trace, *rest], c)
            assert apply_trace(found.explaining, c)[-1] == here and here is not None and gce(here) == 2
            enabled = steps(failed, failures=False)
            if not enabled:
                break
            label, failed = enabled[-1]
            after.append(label)
