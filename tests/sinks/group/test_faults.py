"""Every classic fault of two-phase commit, against real targets.

=====================================================  ================================================================
fault                                                  test
=====================================================  ================================================================
crash before and after each write of the log           `test_crash_at_each_write_of_the_log`
crash before and after each step of a member           `test_recovery.py::test_whoever_dies_all_have_it_or_none`; of
                                                       runs with epochs, whose members are told by messages,
                                                       `engine/epochs/test_group_commit.py::test_killed_at_every_moment…`;
                                                       of Delta `test_delta_crash.py::test_killed_at_every_moment`
between the first and the second commit                the same, ``sqlite:after-commit`` and ``parquet:after-commit``
recovery while another prepares                        `test_recovery_while_another_group_prepares`,
                                                       `test_recovery_while_the_owner_prepares`,
                                                       `test_who_lost_the_log_takes_nothing_back`,
                                                       `test_a_stranger_has_written_the_epoch_to_one_member`,
                                                       `test_what_an_earlier_query_left_is_cleared`
a prepare that ends after recovery made its list       `test_together.py::test_what_a_late_prepare_left_is_cleared`
a checkpoint that races with the commit record         `test_who_lost_the_log_removes_no_rows`,
                                                       `test_a_member_leaves_while_another_driver_decides`,
                                                       `test_what_may_be_missing_is_not_noted_as_whole`; Spark's own:
                                                       `test_spark.py::test_a_streaming_query`
recoverer and owner decide under different ids         `test_an_attempt_of_another_name_is_not_taken`
a decision only in memory                              `test_recovery.py::test_a_decision_that_is_only_in_memory_is…`,
                                                       `engine/epochs/test_rounds.py::test_nobody_is_told_to_commit…`
a decision that is written and not synced              `test_rows_and_decision_are_synced_before_anybody_commits`
a decision whose writing failed                        `test_together.py::test_a_decision_whose_writing_failed_is…`
readers between the phases                             `test_readers_while_epochs_are_committed`,
                                                       `test_a_reader_that_is_overtaken_reads_again`;
                                                       `test_together.py::test_a_reader_sees_whole_epochs_while…`
an empty epoch, a member without rows                  `test_recovery.py::test_an_empty_epoch`,
                                                       `test_a_member_without_rows`
double commit, commit after abort                      `test_a_group_commits_once_and_not_after_it_gave_up`,
                                                       `test_who_is_interrupted_after_the_decision_takes_nothing_back`,
                                                       `test_together.py::test_commit_after_abort_and_double_commit`
one failing commit must not stop the others            `test_together.py::test_one_that_fails_does_not_stop…`,
                                                       `test_one_that_is_away_does_not_stop_the_recovery_of_others`
a time-out must not abort what is prepared             `test_a_time_out_aborts_nothing_that_is_decided`,
                                                       `test_what_is_prepared_and_decided_is_committed_and_not…`
a late message must not hit the next transaction       `engine/epochs/test_rounds.py::test_a_vote_for_another_epoch…`,
                                                       `test_together.py::test_a_driver_that_was_believed_dead…`
a lost, doubled, reordered vote                        `engine/epochs/test_rounds.py`: `test_a_lost_vote_decides…`,
                                                       `test_a_doubled_vote_is_one`, `test_all_votes_in_any_order`
a read-only participant                                `test_a_member_without_rows`
a coordinator that never comes back                    `test_a_driver_that_never_comes_back`, `test_not_even_its_log`
=====================================================  ================================================================

Places have the same table in `tests/atomic/places/test_classic_faults.py`.  The meaning behind these is
`tests/sinks/group/machine.py`; its mutants are in `test_machine.py`.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.internal.base.files import write_lasting
from pellucid.sinks import decisions as logs
from pellucid.sinks import group as group_sink
from pellucid.sinks.decisions import DecisionLog, make_last
from pellucid.sinks.unresolved import doubt_of_group
from tests.sinks.group.test_together import Moody
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres, server_or_skip

MEMBERS = ("orders", "archive", "totals")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture
def world(tmp_path: Path, server: Postgres) -> World:
    return World(tmp_path, server.database())


@pytest.fixture
def plain(tmp_path: Path) -> World:
    """Without a server."""
    return World(tmp_path, None)


def goes_on(world: World, decided: bool) -> None:
    """The epoch that was tried with attempt 2 comes again, with other rows if it may; all have it once, from one."""
    assert world.write(1, 3).skipped == decided
    whole = expected((0, 1), (1, 2 if decided else 3))
    assert world.have() == world.read() == dict.fromkeys(MEMBERS, whole)
    world.write(2, 4)
    assert world.have() == dict.fromkeys(MEMBERS, sorted(whole + expected((2, 4))))
    assert not [one for sink in world.sinks().values() for one in sink.held(QUERY)]
    assert list((world.log / "rows").iterdir()) == []


# ---------------------------------------------------------------- crashes


def killer(real: Any, nth: int, after: bool) -> Any:
    count = 0

    def call(*about: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*about, **named)
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return call


# What a driver writes in its second epoch, in this order; from the third on it is decided.
WRITES = ("its name", "what is whole", "the decision", "what is whole now")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("what", [*WRITES, "the rows"])
def test_crash_at_each_write_of_the_log(world: World, monkeypatch: pytest.MonkeyPatch, what: str, after: bool) -> None:
    world.write(0, 1)
    with monkeypatch.context() as patch:
        if what == "the rows":
            patch.setattr(group_sink, "make_last", killer(make_last, 1, after))
        else:
            patch.setattr(logs, "write_lasting", killer(write_lasting, WRITES.index(what) + 1, after))
        assert dies(lambda: world.write(1, 2), ""), f"nobody wrote {what}"
    record = DecisionLog(world.log).read()
    assert record is not None
    decided = what == "what is whole now" or (what == "the decision" and after)
    assert (record.batch == 1) == decided
    goes_on(world, decided)


class Watching(Lines):
    """Tells of each commit before it happens."""

    def __init__(self, folder: Path, told: Callable[[], None]) -> None:
        super().__init__(folder)
        self.told = told

    def commit(self, staged: Any) -> None:
        self.told()
        super().commit(staged)


def test_rows_and_decision_are_synced_before_anybody_commits(plain: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kill shows it, only a power failure: a decision that the disk does not have yet is one in memory."""
    synced: list[int] = []
    seen: list[bool] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        synced.append(os.fstat(handle).st_ino)

    def look() -> None:
        (kept,) = (plain.log / "rows").iterdir()
        wanted = [kept, kept.parent, plain.log / "decisions.json", plain.log]
        order = [len(synced) - 1 - synced[::-1].index(path.stat().st_ino) for path in wanted]
        seen.append(order == sorted(order))

    group = sinks.together({name: Watching(plain.folder / name, look) for name in "ab"}, log=plain.log, patience=0)
    monkeypatch.setattr(os, "fsync", fsync)
    for epoch in range(2):
        group.write(rows(epoch, 1), QUERY, epoch)
        synced.clear()
    assert seen == [True] * 4


# ---------------------------------------------------------------- two at a time


def test_recovery_while_another_group_prepares(world: World, server: Postgres) -> None:
    """On one server, and for a query of the same name: what is prepared there is not this group's to take back."""
    world.write(0, 1)
    others = {"sums": sinks.postgres(str(world.dsn), "sums"), "more": sinks.sqlite(world.folder / "more.db", "more")}
    other = sinks.together(others, log=world.folder / "other")
    staged = other.stage(rows(0, 7), QUERY, 0)
    other.prepare(staged)
    assert dies(lambda: world.write(1, 2), "together:prepared=kill@3")
    goes_on(world, decided=False)  # with a recovery, and two epochs
    assert others["sums"].held(QUERY) == [(0, staged.held)]
    other.commit(staged)
    assert others["sums"].read()["attempt"].to_pylist() == others["more"].read()["attempt"].to_pylist() == [7] * 3


def two_members(world: World, wait: float = 5.0) -> dict[str, Any]:
    """Members for two drivers at a time: of SQLite a driver that prepares keeps all others out."""
    return {"totals": sinks.postgres(str(world.dsn), "totals", wait=wait), "archive": world.sinks()["archive"]}


def driver(world: World, wait: float = 5.0) -> Any:
    return sinks.together(two_members(world, wait), log=world.log, patience=0.0)


def attempts(world: World) -> dict[str, list[int]]:
    return {name: sorted(sink.read()["attempt"].to_pylist()) for name, sink in two_members(world).items()}


def test_recovery_while_the_owner_prepares(world: World) -> None:
    """The owner is alive, and about to decide: whoever takes the log takes back what it has prepared, and from then on
    the owner decides nothing.  Nothing is left prepared."""
    owner = driver(world)
    owner.write(rows(0, 1), QUERY, 0)
    staged = owner.stage(rows(1, 2), QUERY, 1)
    owner.prepare(staged)
    driver(world).write(rows(1, 3), QUERY, 1)
    with pytest.raises(StateError, match=r"another driver of this group has begun meanwhile"):
        owner.commit(staged)
    owner.abort(staged)
    assert attempts(world) == dict.fromkeys(two_members(world), [1] * 3 + [3] * 3)
    assert two_members(world)["totals"].held(QUERY) == []


@pytest.mark.parametrize("decided", [False, True])
def test_who_lost_the_log_takes_nothing_back(world: World, decided: bool) -> None:
    """An owner that was believed dead finds the table held, by what its successor has prepared and perhaps decided: it
    is not the owner's to take back."""
    owner = driver(world, wait=0.3)
    owner.write(rows(0, 1), QUERY, 0)
    successor = driver(world)
    staged = successor.stage(rows(1, 2), QUERY, 1)
    successor.prepare(staged)
    if decided:
        assert successor.log.decide(1, staged.held).batch == 1
    with pytest.raises(StateError, match=r"member 'totals'.*: another driver of this group has begun meanwhile"):
        owner.write(rows(1, 9), QUERY, 1)
    assert two_members(world)["totals"].held(QUERY) == [(1, staged.held)]
    successor.commit(staged)
    assert attempts(world) == dict.fromkeys(two_members(world), [1] * 3 + [2] * 3)


def test_who_lost_the_log_removes_no_rows(world: World) -> None:
    """An owner that was held up at its end goes on when its successor has decided the next epoch and died: the rows by
    which that is committed stay."""
    owner = world.group()
    owner.write(rows(0, 1), QUERY, 0)
    record = owner.log.read()
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    owner.finish(record)
    owner.log.sweep()
    assert len(list((world.log / "rows").iterdir())) == 1
    goes_on(world, decided=True)


def test_a_member_leaves_while_another_driver_decides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log said that all is whole when it was read; an epoch is decided before it is taken."""
    world.write(0, 1)
    fewer = {name: sink for name, sink in world.sinks().items() if name != "totals"}
    group, real = sinks.together(fewer, log=world.log, removed="totals"), DecisionLog.take
    raced: list[bool] = []

    def racing(self: DecisionLog, *about: Any, **named: Any) -> Any:
        if self is group.log and not raced:
            raced.append(dies(lambda: world.write(1, 2), "together:decided=kill"))
        return real(self, *about, **named)

    monkeypatch.setattr(DecisionLog, "take", racing)
    with pytest.raises(StateError, match=r"member 'totals' .* cannot leave the group now: batch 1 is decided"):
        group.write(rows(2, 3), QUERY, 2)
    assert raced == [True]
    goes_on(world, decided=True)


def test_two_groups_that_share_a_table_of_a_server(world: World) -> None:
    world.write(0, 1)
    members = {
        "more": sinks.sqlite(world.folder / "more.db", "more"),
        "sums": sinks.postgres(str(world.dsn), "public.totals"),
    }
    with pytest.raises(
        StateError, match=r"member 'sums' .* belongs to another group, whose log is .*log: .* pellucid_gr"
    ):
        sinks.together(members, log=world.folder / "other").write(rows(0, 7), QUERY, 0)
    assert world.have() == dict.fromkeys(MEMBERS, expected((0, 1)))


def test_a_stranger_has_written_the_epoch_to_one_member(plain: World) -> None:
    """Nobody has decided it: it is neither the group's, nor may it be taken for a vote."""
    group = plain.group()
    group.write(rows(0, 1), QUERY, 0)
    plain.sinks()["archive"].write(rows(1, 9), QUERY, 1)
    already = r"member 'archive' .* has batch 1 of query 'shop' already, which is not decided"
    with pytest.raises(StateError, match=already):
        group.write(rows(1, 2), QUERY, 1)
    assert [plain.have()[name] for name in ("orders", "totals")] == [expected((0, 1))] * 2
    assert group.log.read().batch == 0


def test_what_may_be_missing_is_not_noted_as_whole(plain: World) -> None:
    """A member back from a backup lacks an epoch that comes again: until it has that, nobody says that all have it."""
    plain.write(0, 1)
    shutil.copy(plain.folder / "totals.db", plain.folder / "backup")
    plain.write(1, 2)
    shutil.copy(plain.folder / "backup", plain.folder / "totals.db")
    log = DecisionLog(plain.log)
    log.note_whole(QUERY, 0)
    plain.group().begin(QUERY, 1)
    assert log.whole() == 0
    assert doubt_of_group(plain.log).in_doubt
    assert plain.write(1, 2).skipped
    assert plain.read() == dict.fromkeys(MEMBERS, expected((0, 1), (1, 2)))


def test_an_attempt_of_another_name_is_not_taken(world: World) -> None:
    """Decided is the attempt of the recoverer; prepared is one of the owner, with other rows."""
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    record, totals = DecisionLog(world.log).read(), world.sinks()["totals"]
    assert record is not None
    assert totals.settle(QUERY, 1, record.attempt, commit=False)  # as if it had never been there
    staged = totals.stage(rows(1, 9), QUERY, 1)
    totals.prepare(staged)
    assert totals.hold(staged, "owner")
    goes_on(world, decided=True)  # from the rows that are kept


def test_what_an_earlier_query_left_is_cleared(world: World) -> None:
    """A new checkpoint, and so another query: nobody would ever settle what the one before has left on the server."""
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "together:prepared=kill@3")
    assert len(world.sinks()["totals"].held(QUERY)) == 1
    world.group().write(rows(0, 5), "anew", 0)
    assert world.sinks()["totals"].held(QUERY) == []
    assert world.have() == dict.fromkeys(MEMBERS, expected((0, 1), (0, 5)))


# ---------------------------------------------------------------- readers, empty epochs, once


def test_readers_while_epochs_are_committed(world: World) -> None:
    world.write(0, 1)
    seen: list[int] = []

    def write() -> None:
        group = world.group()
        for epoch in range(1, 6):
            group.write(rows(epoch, 1), QUERY, epoch)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        found = world.read()
        assert len({tuple(part) for part in found.values()}) == 1
        last = found["orders"][-1][0]
        assert found["orders"] == expected(*((epoch, 1) for epoch in range(last + 1)))
        seen.append(last)
    writer.join()
    assert seen == sorted(seen)
    assert world.read()["totals"] == expected(*((epoch, 1) for epoch in range(6)))


class Overtaken(Lines):
    """While it is read, something happens; it has no way to read up to an epoch but to look which is its last."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.meanwhile: list[Callable[[], Any]] = []

    def read(self) -> pa.Table:
        while self.meanwhile:
            self.meanwhile.pop()()
        return pa.Table.from_pylist(self.rows())


def test_a_reader_that_is_overtaken_reads_again(plain: World) -> None:
    own = Overtaken(plain.folder / "own")
    group = sinks.together({**plain.sinks(), "own": own}, log=plain.log, patience=0)
    group.write(rows(0, 1), QUERY, 0)
    own.meanwhile.append(lambda: group.write(rows(1, 2), QUERY, 1))
    found = sinks.read_together(group)
    assert own.meanwhile == []
    assert {name: sorted(table["epoch"].to_pylist()) for name, table in found.items()} == dict.fromkeys(
        ["orders", "archive", "totals", "own"], [0] * 3 + [1] * 3
    )


def test_a_member_without_rows(plain: World) -> None:
    """One that nothing of an epoch is for takes part all the same: it knows the epoch, and is not behind."""
    members = {name: sinks.sqlite(plain.folder / f"{name}.db", name) for name in ("sums", "late")}

    def write(batch: int, outputs: list[str]) -> Any:
        table = pa.table({"output": outputs, "n": [batch] * len(outputs)})
        return sinks.together(members, log=plain.log, by="output", patience=0).write(table, QUERY, batch)

    write(0, ["sums", "late"])
    assert dies(lambda: write(1, ["sums", "sums"]), "together:decided=kill")
    assert doubt_of_group(plain.log).in_doubt
    sinks.together(members, log=plain.log, by="output", patience=0).recover()
    assert not doubt_of_group(plain.log).in_doubt
    assert {name: sink.last(QUERY) for name, sink in members.items()} == {"sums": 1, "late": 1}
    assert write(1, ["sums"]).skipped
    assert {name: sink.last(QUERY) for name, sink in members.items()} == {"sums": 1, "late": 1}
    found = sinks.read_together(members, log=plain.log)
    assert (found["sums"]["n"].to_pylist(), found["late"]["n"].to_pylist()) == ([0, 1, 1], [0])


def test_a_group_commits_once_and_not_after_it_gave_up(world: World) -> None:
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    given_up = group.stage(rows(1, 2), QUERY, 1)
    group.prepare(given_up)
    group.abort(given_up)
    with pytest.raises(StateError, match=r"batch 1 of query 'shop' was given up, and cannot be committed any more"):
        group.commit(given_up)
    staged = group.stage(rows(1, 3), QUERY, 1)
    group.prepare(staged)
    with pytest.raises(StateError, match=r"was given up"):
        group.commit(given_up)
    group.commit(staged)
    record = group.log.read()
    group.commit(staged)
    group.abort(staged)  # it is decided: nothing is taken back
    assert group.log.read() == record
    assert world.have() == dict.fromkeys(MEMBERS, expected((0, 1), (1, 3)))


def test_who_is_interrupted_after_the_decision_takes_nothing_back(world: World) -> None:
    """Whoever stops between the decision and the commits gives the attempt up, as everywhere else: it is too late."""
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    staged = group.stage(rows(1, 2), QUERY, 1)
    group.prepare(staged)
    group.log.decide(1, staged.held)
    group.abort(staged)
    assert world.sinks()["totals"].held(QUERY) == [(1, staged.held)]
    assert len(list((world.log / "rows").iterdir())) == 1
    group.commit(staged)
    assert world.have() == dict.fromkeys(MEMBERS, expected((0, 1), (1, 2)))


# ---------------------------------------------------------------- who is away


def test_one_that_is_away_does_not_stop_the_recovery_of_others(plain: World) -> None:
    own = Moody(plain.folder / "own")
    group = sinks.together({"own": own, **plain.sinks()}, log=plain.log, patience=0)
    group.write(rows(0, 1), QUERY, 0)
    assert dies(lambda: group.write(rows(1, 2), QUERY, 1), "together:decided=kill")
    own.down = 1
    again = sinks.together({"own": own, **plain.sinks()}, log=plain.log, patience=0)
    with pytest.raises(DataError, match=r"the server is gone"):
        again.recover()
    assert plain.have() == dict.fromkeys(plain.sinks(), expected((0, 1), (1, 2)))
    again.recover()
    assert [row["attempt"] for row in own.rows()] == [1] * 3 + [2] * 3


def test_a_time_out_aborts_nothing_that_is_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away between the decision and the commit, for longer than anybody waits."""
    for server in server_or_skip():
        world = World(tmp_path, server.database())
        told: list[str] = []
        world.write(0, 1)
        real = DecisionLog.decide

        def decide(self: DecisionLog, *about: Any) -> Any:
            done = real(self, *about)  # noqa: B023
            server.stop()  # noqa: B023
            return done

        group = world.group(patience=0.3)
        group.say = told.append
        with monkeypatch.context() as patch:
            patch.setattr(DecisionLog, "decide", decide)
            with pytest.raises(
                StateError, match=r"batch 1 .* is decided, and unresolved: member 'totals' .* cannot be rea"
            ):
                group.write(rows(1, 2), QUERY, 1)
        assert len(told) == 1
        assert told[0].startswith("batch 1 is decided, and unresolved at totals (")
        assert told[0].endswith("): it is tried again for 0.3 s; later batches wait")
        with pytest.raises(DataError, match=r"PostgreSQL cannot be reached"):
            world.write(1, 9)
        server.start()
        record = DecisionLog(world.log).read()
        assert record is not None
        assert world.sinks()["totals"].held(QUERY) == [(1, record.attempt)]
        goes_on(world, decided=True)


def test_what_is_prepared_and_decided_is_committed_and_not_written_again(world: World) -> None:
    """Where the rows beside the log are gone, what the server has prepared is all that there is of the epoch."""
    members = {name: sinks.postgres(str(world.dsn), name, wait=5) for name in ("orders", "totals")}

    def write(epoch: int, attempt: int) -> Any:
        return sinks.together(members, log=world.log, patience=0).write(rows(epoch, attempt), QUERY, epoch)

    write(0, 1)
    assert dies(lambda: write(1, 2), "together:decided=kill")
    shutil.rmtree(world.log / "rows")
    sinks.together(members, log=world.log, patience=0).recover()
    for sink in members.values():
        assert sorted(sink.read()["attempt"].to_pylist()) == [1] * 3 + [2] * 3
        assert sink.held(QUERY) == []


def test_a_driver_that_never_comes_back(world: World) -> None:
    """Whoever has the log and the members brings it to its end; the rows need not come again."""
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "sqlite:after-commit=kill")
    found = doubt_of_group(world.log, world.sinks())
    assert found.in_doubt
    assert {m.name: m.lacks for m in found.members} == {"orders": False, "archive": True, "totals": True}
    assert [m.held != () for m in found.members] == [False, False, True]
    assert "see that archive and totals can be reached" in found.resolve[0]
    assert not dies(lambda: world.group().recover(), "")
    assert not doubt_of_group(world.log, world.sinks()).in_doubt
    assert world.have() == world.read() == dict.fromkeys(MEMBERS, expected((0, 1), (1, 2)))


@pytest.mark.parametrize("decided", [False, True])
def test_not_even_its_log(world: World, decided: bool) -> None:
    """The disk with the log is lost.  What is prepared on the server is settled as docs/how-to-together.md says: if
    another member has the epoch it was decided, and if none has it may be taken back."""
    import psycopg

    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "sqlite:after-commit=kill" if decided else "together:prepared=kill@3")
    shutil.rmtree(world.log)
    with pytest.raises(StateError, match=r"belongs to another group, whose log is .*log: .* give it free"):
        world.write(1, 3)
    with pytest.raises(DataError, match=r"no group of sinks has a log there|no log of decisions"):
        doubt_of_group(world.folder)
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        ((gid,),) = db.execute("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'pellucid.%'").fetchall()
        assert (world.sinks()["orders"].last(QUERY) == 1) == decided
        db.execute(f"{'COMMIT' if decided else 'ROLLBACK'} PREPARED '{gid}'".encode())
    assert world.have()["totals"] == world.have()["orders"]
