"""Real places whose log is gone, or is no file: nothing begins anew in silence."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.atomic.places import InDoubt, Network, connect, end, new_network, start
from pellucid.atomic.places.serving.doubt import decide_by_hand
from pellucid.atomic.places.serving.lock import running
from pellucid.errors import StateError
from pellucid.internal.cli.main import cli

NOTED = "and the note beside it says that it had some: bring it back; if there is none, `pellucid net accept "


def ran(*args: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)])


def net(*args: object) -> Result:
    return ran("net", *args)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Of one place with five rooms, which was killed: all its records are in the write-ahead log."""
    made = new_network(tmp_path / "inn", {"hotel": ["rooms"]})
    start(made)
    with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
        for room in range(5):
            t.send("rooms", room)
        t.commit()
    pid = running(made, "hotel")
    assert pid
    os.kill(pid, signal.SIGKILL)
    end(made)
    yield made
    end(made)


def folder(network: Network) -> Path:
    return network.folder / "places" / "hotel"


def deleted(where: Path) -> None:
    for file in where.glob("log.sqlite*"):
        file.unlink()


def emptied(where: Path) -> None:
    deleted(where)
    (where / "log.sqlite").touch(0o600)


def without_its_wal(where: Path) -> None:
    for more in ("-wal", "-shm"):
        (where / f"log.sqlite{more}").unlink()


def flipped_at(frame: float) -> object:
    def flip(where: Path) -> None:
        (where / "log.sqlite-shm").unlink()
        wal = bytearray((where / "log.sqlite-wal").read_bytes())
        wal[100 + int((len(wal) - 4200) * frame)] ^= 1
        (where / "log.sqlite-wal").write_bytes(wal)

    return flip


@pytest.mark.parametrize(
    ("lose", "how"),
    [
        (deleted, "is not there"), (emptied, "is empty"), (without_its_wal, "has no records"),
        (flipped_at(0), "has no records"),
    ],
    ids=["deleted", "emptied", "without its WAL", "the first frame of its WAL"],
)  # fmt: skip
def test_a_log_that_is_gone_is_not_replaced(network: Network, lose: object, how: str) -> None:
    lose(folder(network))  # type: ignore[operator]
    for args in (["up", network.folder], ["up", network.folder, "hotel"]):
        up = net(*args)
        assert up.exit_code == 2 and f"the log of 'hotel' {how}, {NOTED}" in up.output and up.output.count("\n") == 1
    status = net("status", network.folder).output
    assert "hotel        lost, 127.0.0.1:" in status and how in status
    doubt = net("doubt", network.folder)
    assert doubt.exit_code == 1 and f"{NOTED}{network.folder} hotel` goes on" in doubt.output
    assert "lost" in net("metrics", network.folder).output
    audited = ran("audit", network.folder)
    assert audited.exit_code == 2 and NOTED in audited.output
    assert net("accept", network.folder, "hotel", "--yes").exit_code == 0
    assert net("up", network.folder).exit_code == 0 and net("doubt", network.folder).exit_code == 0
    with connect(network.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("rooms", "new")
        assert t.commit() == "committed" and hotel.messages("rooms") == ["new"]
    audited = ran("audit", network.folder)
    assert audited.exit_code == 1 and "this log came back from an older copy" in audited.output
    end(network)
    assert net("up", network.folder).exit_code == 0


def test_a_log_with_less_than_is_noted_is_said_by_up(network: Network) -> None:
    """The last frames of its write-ahead log are damaged, which SQLite takes for never written."""
    flipped_at(1)(folder(network))  # type: ignore[operator]
    before = net("doubt", network.folder)
    assert before.exit_code == 1 and "is an older copy: it lacks records up to " in before.output
    up = net("up", network.folder)
    assert up.exit_code == 2 and "hotel runs and does nothing: the log of 'hotel' is an older copy" in up.output
    assert f"`pellucid net accept {network.folder} hotel` goes on without what is lost" in up.output
    assert net("doubt", network.folder).exit_code == 1 and ran("audit", network.folder).exit_code == 1


def test_without_the_note_what_the_place_said_shows_that_it_ran(network: Network) -> None:
    deleted(folder(network))
    (folder(network) / "newest").unlink()
    up = net("up", network.folder)
    assert up.exit_code == 2 and "is not there, and said.log beside it says that the place has run" in up.output
    assert not (folder(network) / "log.sqlite").exists()
    assert net("accept", network.folder, "hotel", "--yes").exit_code == 0
    assert net("up", network.folder).exit_code == 0


@pytest.mark.parametrize("note", ["newest", "said.log"])
def test_nothing_is_decided_by_hand_in_a_log_that_is_gone(network: Network, note: str) -> None:
    """It can vanish while somebody is asked whether they are sure."""
    deleted(folder(network))
    (folder(network) / ("newest" if note == "said.log" else "said.log")).unlink()
    with pytest.raises(StateError, match=r"log\.sqlite: the log of 'hotel' is not there, .*bring it back"):
        decide_by_hand(network, "hotel", "hotel:1:a1", "abort", "ada")
    assert not (folder(network) / "log.sqlite").exists()


def test_what_another_place_has_heard_of_is_said_by_up(tmp_path: Path) -> None:
    """Of a folder that is gone as a whole."""
    made = new_network(tmp_path / "trips", {"agent": ["answers"], "hotel": ["rooms"]})
    start(made)
    with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("agent.answers", 1)
        t.commit(timeout=30)
    with connect(made.folder, "agent", patience=20) as agent, agent.transaction() as t:
        t.receive("answers", timeout=20)
        t.commit(timeout=30)
    end(made)
    for file in folder(made).iterdir():
        file.unlink()
    try:
        alone = net("up", made.folder, "hotel", "--background")
        assert alone.exit_code == 2 and "does nothing" not in alone.output
        assert "pellucid: hotel runs, and nobody has told it: the log of 'hotel' is an older copy" in alone.output
        with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
            assert t.commit() == "committed"  # so it does something
        up = net("up", made.folder)
        assert up.exit_code == 2 and "hotel runs and does nothing" in up.output and "'agent' has heard of" in up.output
    finally:
        end(made)


def test_after_a_loss_was_accepted_all_commands_agree(tmp_path: Path) -> None:
    """Although the last that another place has written down is of an earlier start of the log that is lost."""
    made = new_network(tmp_path / "trips", {"agent": ["answers"], "hotel": ["rooms"]})
    start(made)
    try:
        with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
            t.send("agent.answers", 1)
            t.commit(timeout=30)
        with connect(made.folder, "agent", patience=20) as agent, agent.transaction() as u:
            u.receive("answers", timeout=20)
            u.commit(timeout=30)
        end(made, ["hotel"])
        start(made)
        end(made, ["hotel"])
        deleted(folder(made))
        assert net("accept", made.folder, "hotel", "--yes").exit_code == 0
        up = net("up", made.folder)
        assert up.exit_code == 0, up.output
        doubt = net("doubt", made.folder)
        assert doubt.exit_code == 0, doubt.output
        again = net("accept", made.folder, "hotel", "--yes")
        assert again.exit_code == 2 and "there is nothing to accept" in again.output
    finally:
        end(made)


def test_what_is_lost_with_a_log_is_named_and_decided_by_hand(tmp_path: Path) -> None:
    made = new_network(tmp_path / "trips", {"agent": ["answers"], "hotel": ["rooms"]})
    start(made)
    try:
        with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
            t.send("agent.answers", 1)
            t.commit(timeout=30)
        with connect(made.folder, "agent", patience=20) as agent:
            u = agent.begin()
            assert u.receive("answers", timeout=20) == 1
            u.abort()
        end(made)
        deleted(folder(made))
        assert net("accept", made.folder, "hotel", "--yes").exit_code == 0
        stopped = net("doubt", made.folder)
        assert net("up", made.folder).exit_code == 0
        for found in (stopped, net("doubt", made.folder), net("doubt", made.folder, "agent")):
            assert found.exit_code == 1 and f"{t.id}  lost with the log of hotel, which cannot say" in found.output
            assert "  waits      agent: has a message of it, or has taken one\n  resolve    by hand: " in found.output
            assert f"`pellucid net commit {made.folder} {t.id}`, if others have committed with it" in found.output
        with connect(made.folder, "agent", patience=20) as agent:
            u = agent.begin()
            assert u.receive("answers", timeout=20) == 1
            with pytest.raises(InDoubt):
                u.commit(timeout=0)
            pending = net("doubt", made.folder)
            assert f"  resolve    decide {t.id}, which is lost" in pending.output
            done = net("abort", made.folder, t.id, "--yes")
            assert done.exit_code == 0 and f"{t.id} at hotel: aborted, by hand; it is written down" in done.output
            assert f"warning: what became of {t.id} is lost with the log of hotel: if it was" in done.output
            assert net("doubt", made.folder).exit_code == 0
        end(made)
        assert net("doubt", made.folder).exit_code == 0
    finally:
        end(made)


def test_a_place_that_never_ran_and_one_that_is_whole_start(network: Network, tmp_path: Path) -> None:
    assert net("up", network.folder).exit_code == 0
    with connect(network.folder, "hotel") as hotel:
        assert hotel.messages("rooms") == [0, 1, 2, 3, 4]
    assert net("doubt", network.folder).exit_code == 0 and ran("audit", network.folder).exit_code == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a named pipe", "a folder"])
@pytest.mark.parametrize(
    "name",
    ["secrets/hotel.toml", "places/hotel/log.sqlite", "places/hotel/newest", "places/hotel/lock",
     "places/hotel/said.log"],
)  # fmt: skip
def test_what_is_no_file_is_refused_and_not_waited_for(network: Network, name: str, make: object) -> None:
    file = network.folder / name
    kept = file.read_bytes()
    file.unlink()
    make(file)  # type: ignore[operator]

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    try:
        up = net("up", network.folder)
        assert up.exit_code == 2 and f"{name}: " in up.output, up.output
        assert re.search("(?i)is (no regular file, but )?a (named pipe|folder|directory)|no such device", up.output)
        for verb in ("status", "doubt", "metrics", "down"):
            assert net(verb, network.folder).exit_code in (0, 1, 2, 3)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        file.rmdir() if file.is_dir() else file.unlink()
        file.touch(0o600)
        file.write_bytes(kept)
