"""The coordinator of a group of outputs: votes that are lost, doubled, late or in another order; and what becomes of
what was left prepared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.errors import StateError
from pellucid.internal.engine.epochs.group_commit import Rounds, Span, _settle_left
from pellucid.internal.engine.epochs.sink import MemberSink
from pellucid.sinks.decisions import NOTHING, DecisionLog


class Task:
    """A member as the coordinator sees it; what it was told is kept."""

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log, self.committed, self.commanded = name, log, 0, 0
        self.heard: list[str] = []
        self.lasted: list[int] = []  # which epoch the log said was decided, when it was told to commit
        self.last: dict[str, Any] = {}
        self.link = SimpleNamespace(send=self._send, receive=lambda: [{"aborted": True}])

    def _send(self, **message: Any) -> None:
        self.heard.append(next(iter(message)))
        self.last = message
        if "commit" in message and (found := DecisionLog(self.log).read()) is not None:
            self.lasted.append(found.epoch)


class Group:
    def __init__(self, folder: Path, complete: int = 0) -> None:
        self.tasks = {f"sink.{name}": Task(f"sink.{name}", folder / "together") for name in "abc"}
        outputs = {name: f"{folder}/{name}.csv" for name in "abc"}
        job = self.job = SimpleNamespace(log_folder=folder / "together", run="run", members=outputs, outputs=outputs)
        self.log, self.said = DecisionLog(folder / "together"), []  # type: ignore[var-annotated]
        self.rounds = Rounds(job, self.tasks, self.said.append)  # type: ignore[arg-type]
        self.rounds.begin(complete, lambda epoch: [], complete)
        self.rounds.offer(max(1, complete))

    def heard(self) -> list[list[str]]:
        return [task.heard for task in self.tasks.values()]

    def decided(self) -> tuple[int, int]:
        found = self.log.read()
        assert found is not None
        return found.epoch, found.batch


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_all_votes_in_any_order(group: Group, order: str) -> None:
    for n, name in enumerate(order):
        assert group.heard() == [["prepare"]] * 3
        assert group.decided() == (0, NOTHING)
        group.rounds.prepared(f"sink.{name}", 1, 100 + n if name != "b" else None)  # b has no rows
    assert group.decided() == (1, max(100 + n for n, name in enumerate(order) if name != "b"))
    assert group.heard() == [["prepare", "commit"]] * 3


def test_nobody_is_told_to_commit_before_the_log_has_it(group: Group) -> None:
    for epoch in (1, 2):
        for name in "abc":
            group.rounds.prepared(f"sink.{name}", epoch, 100 * epoch)
        for task in group.tasks.values():
            task.committed = epoch
        group.rounds.committed()
        group.rounds.offer(epoch + 1)
    assert [task.lasted for task in group.tasks.values()] == [[1, 2]] * 3


def test_a_doubled_vote_is_one(group: Group) -> None:
    for name in ("a", "b", "a", "b", "b"):
        group.rounds.prepared(f"sink.{name}", 1, 100)
    assert group.decided() == (0, NOTHING)
    group.rounds.prepared("sink.c", 1, 100)
    group.rounds.prepared("sink.c", 1, 100)  # once more, when all is decided
    assert group.heard() == [["prepare", "commit"]] * 3


def test_a_vote_for_another_epoch_does_not_count(group: Group) -> None:
    """A late one of the round before, or one that nobody asked for."""
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 1, 100)
    for task in group.tasks.values():
        task.committed = 1
    group.rounds.committed()
    group.rounds.offer(2)
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 1, 100)
        group.rounds.prepared(f"sink.{name}", 3, 300)
    assert group.decided() == (1, 100)
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 2, 200)
    assert group.decided() == (2, 200)


def test_a_lost_vote_decides_nothing_and_can_be_given_up(group: Group) -> None:
    group.rounds.prepared("sink.a", 1, 100)
    group.rounds.prepared("sink.b", 1, 100)
    group.rounds.give_up("sink.c")
    assert group.decided() == (0, NOTHING)
    assert group.heard() == [["prepare", "abort"], ["prepare", "abort"], ["prepare"]]


def test_what_is_decided_is_not_given_up(group: Group) -> None:
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 1, 100)
    group.rounds.give_up("sink.c")
    assert group.heard() == [["prepare", "commit"]] * 3


def test_the_next_round_waits_for_the_last_member(group: Group) -> None:
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 1, 100)
    group.rounds.offer(2)
    for name in "ab":
        group.tasks[f"sink.{name}"].committed = 1
        group.rounds.committed()
    group.rounds.unresolved("sink.c", Span(1, 1), "the server is gone")
    group.rounds.unresolved("sink.c", Span(1, 1), "the server is gone")
    assert group.said == [
        "epoch 1 is decided, and unresolved at c (the server is gone): it is tried again; later epochs wait"
    ]
    assert group.log.whole() == NOTHING
    assert group.heard() == [["prepare", "commit"]] * 3
    group.tasks["sink.c"].committed = 1
    group.rounds.committed()
    assert group.log.whole() == 100
    assert group.heard() == [["prepare", "commit", "prepare"]] * 3


def test_after_a_restart_what_is_decided_is_committed_before_anything_is_prepared(tmp_path: Path) -> None:
    first = Group(tmp_path)
    for name in "abc":
        first.rounds.prepared(f"sink.{name}", 1, 100)
    again = Group(tmp_path)  # nobody had heard of it
    assert again.heard() == [["prepare"]] * 3  # of a run that does not have the epoch complete it cannot be told
    for task in again.tasks.values():
        task.heard.clear()
    later = Rounds(again.job, again.tasks, again.said.append)  # type: ignore[arg-type]
    later.begin(1, lambda epoch: [], 2)
    assert again.heard() == [["commit"]] * 3
    for task in again.tasks.values():
        task.committed = 1
    later.committed()
    assert again.heard() == [["commit", "prepare"]] * 3


class Left:
    """A target in which attempts have left something prepared."""

    def __init__(self) -> None:
        self.settled: dict[tuple[int, str], bool] = {}

    def held(self, run: str) -> list[tuple[int, str]]:
        return [(100, "decided"), (100, "another"), (200, "decided"), (200, "late")]

    def settle(self, run: str, batch: int, attempt: str, *, commit: bool) -> bool:
        self.settled[batch, attempt] = commit
        return True


@pytest.mark.parametrize("who", ["the run", "the member"])
def test_of_what_is_left_prepared_only_what_is_decided_is_committed(tmp_path: Path, who: str) -> None:
    log, left = DecisionLog(tmp_path / "together"), Left()
    log.take("run", {"a": "somewhere"})
    log.decide(100, "decided", 1)
    if who == "the run":
        _settle_left(log, left, "run")  # type: ignore[arg-type]
    else:
        member = SimpleNamespace(target=left, _log=log, context=SimpleNamespace(run="run"))
        assert MemberSink._take_back(member) == 4  # type: ignore[arg-type]
    assert left.settled == {one: one == (100, "decided") for one in left.held("run")}


def test_who_lost_the_log_settles_nothing(tmp_path: Path) -> None:
    """Another has begun meanwhile, and may decide what is prepared there."""
    log, left = DecisionLog(tmp_path / "together"), Left()
    log.take("run", {"a": "somewhere"})
    DecisionLog(tmp_path / "together").take("run", {"a": "somewhere"})
    with pytest.raises(StateError, match="another driver of this group has begun meanwhile"):
        _settle_left(log, left, "run")  # type: ignore[arg-type]
    assert left.settled == {}


def told(group: Group) -> list[tuple[int, int, int]]:
    """Which epochs each was told to prepare or to commit last."""
    return [(m["first"], m.get("prepare", 0), m.get("commit", 0)) for m in (t.last for t in group.tasks.values())]


def all_commit(group: Group, epoch: int) -> None:
    for task in group.tasks.values():
        task.committed = epoch
    group.rounds.committed()


def test_epochs_that_are_committed_as_one_are_named_all(tmp_path: Path) -> None:
    """Those that were complete while a round was open go together; also after a start that knows of the last one."""
    group = Group(tmp_path)
    group.rounds.offer(14)
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 1, 100)
    assert told(group) == [(1, 0, 1)] * 3
    all_commit(group, 1)
    assert told(group) == [(2, 14, 0)] * 3
    for name in "abc":
        group.rounds.prepared(f"sink.{name}", 14, 1400)
    assert told(group) == [(2, 0, 14)] * 3
    group.rounds.unresolved("sink.c", Span(2, 14), "the server is gone")
    assert group.said == [
        "epochs 2 to 14 are decided, and unresolved at c (the server is gone): it is tried again; later epochs wait"
    ]
    # a new start: with which epoch the decided round began its members know by their rows
    again = Group(tmp_path, 16)
    assert told(again) == [(0, 0, 14)] * 3
    all_commit(again, 14)
    assert told(again) == [(15, 16, 0)] * 3
