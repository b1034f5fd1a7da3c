# ruff: noqa: N806 - the paper's letters
"""Snapshots judged: Figure 3 and its neighbours, and all snapshots of random runs."""

from __future__ import annotations

import random

import pytest

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import FRecover, IBorder
from pellucid.failures.model.notation import read_run
from tests.failures.cuts import Local, Receive, Send, SpaceTime, judge, read_cut, snapshot_of
from tests.failures.random_graphs import random_run
from tests.seeds import HUNT, seeds


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("p: >m | >n  q: <m | <n", "complete", "complete: consistent, and nothing is in flight"),
        ("p: | >m  q: <m |", "inconsistent", "inconsistent: message m is received by q, but not sent by p"),
        ("p: >m |  q: | <m", "in flight", "consistent, with 1 message in flight: m from p to q"),
        ("p: >m >n |  q: <m |", "in flight", "consistent, with 1 message in flight: n from p to nobody yet"),
        ("p: >m |  q: <m |  r: | <m", "in flight", "consistent, with 1 message in flight: m from p to r"),
        ("p: x | y  q: z |", "complete", "complete: consistent, and nothing is in flight"),
        (
            "p: >m | >n  q: | <m <n  r: <n |",
            "inconsistent",
            "inconsistent: message n is received by r, but not sent by p",
        ),
        ("p: >m >n |  q: | <m <n", "in flight", "consistent, with 2 messages in flight: m from p to q; n from p to q"),
    ],
)
def test_cuts(text: str, kind: str, words: str) -> None:
    found = judge(*read_cut(text))
    assert (found.kind, str(found)) == (kind, words)
    assert found.consistent == (kind != "inconsistent")


def test_bad_runs_and_cuts_are_named() -> None:
    for processes, message in [
        ({"p": [Send("m"), Send("m")]}, "message m is sent twice, by p and by p: give each its own name"),
        ({"p": [Receive("m")]}, "message m is received by p, but nobody sends it in this run"),
        ({"p": [Send("m")], "q": [Receive("m"), Receive("m")]}, "message m is received twice by q"),
    ]:
        with pytest.raises(DataError) as caught:
            SpaceTime(processes)
        assert str(caught.value) == message
    run = SpaceTime({"p": [Local()]})
    for cut, message in [
        ({}, "the cut says nothing about process 'p': give the number of its events in the snapshot"),
        ({"p": 2}, "the cut of process 'p' is at 2: it has 1 events"),
        ({"p": 1, "q": 0}, "the cut names process 'q', which is not in the run: there are p"),
    ]:
        with pytest.raises(UsageError) as wrong:
            judge(run, cut)
        assert str(wrong.value) == message


def test_messages_from_outside_are_no_one_elses() -> None:
    run = SpaceTime({"p": [Receive("in")]}, inputs=frozenset({"in"}))
    assert judge(run, {"p": 1}).kind == "complete"


@pytest.mark.seeded
def test_every_snapshot_of_the_protocol_is_complete_and_no_neighbour_goes_unnoticed() -> None:
    """Snapshots at borders are complete; moved to a random place, a cut is what counting sends and receives says."""
    complete = others = 0
    for seed in seeds(120):
        c, Z = random_run(seed, length=60)
        last = max((i + 1 for i, z in enumerate(Z) if isinstance(z, FRecover)), default=0)
        epochs = [{z.epoch for z in Z[last:] if isinstance(z, IBorder) and z.p == p} for p in c.Pi]
        for epoch in set.intersection(*epochs):
            run, cut = snapshot_of(Z, c, epoch)
            assert judge(run, cut).kind == "complete"
            complete += 1
            rng = random.Random(seed)
            moved = {p: rng.randint(0, len(run.processes[p])) for p in cut}
            sent = {e.message for p, n in moved.items() for e in run.processes[p][:n] if isinstance(e, Send)}
            got = {(e.message, p) for p, n in moved.items() for e in run.processes[p][:n] if isinstance(e, Receive)}
            due = {(m, p) for m in sent for p in run.readers[m]}
            wrong = {(m, p) for m, p in got if m not in run.inputs and m not in sent}
            found = judge(run, moved)
            assert {(f.message, f.receiver) for f in found.not_sent} == wrong
            assert {(f.message, f.receiver) for f in found.in_flight} == due - got
            others += found.kind != "complete"
    assert HUNT or (complete > 60 and others > 10)


def test_a_snapshot_that_was_not_taken_is_named() -> None:
    c, Z = read_run("a: i -> m copy\nb: m -> o copy\ni: 1 |\na a|")
    with pytest.raises(DataError) as caught:
        snapshot_of(Z, c, 1)
    assert str(caught.value) == "epoch 1: b has no snapshot of it in the last generation of the trace"
