"""The process of a place: hostile bytes disturb nobody, one process for a place, clear words when it cannot start."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.atomic.places import InDoubt, Network, connect, end, new_network, start, up
from pellucid.atomic.places.connections import Link
from pellucid.atomic.places.host import main
from pellucid.atomic.places.log import open_log, read_log
from pellucid.atomic.places.network import PlaceInfo
from pellucid.atomic.places.operators import decide_by_hand
from pellucid.atomic.places.processes import running
from pellucid.atomic.places.wire import BadFrame, frame, pack
from pellucid.errors import StateError
from pellucid.internal.cli.main import cli
from tests.atomic.places.trips import fill, trips


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    made = trips(tmp_path_factory.mktemp("host"))
    with up(made, ["agent", "airline"]):
        yield made


def said(network: Network, name: str) -> str:
    return (network.folder_of(name) / "said.log").read_text()


def open_socket(network: Network, name: str) -> socket.socket:
    place = network.place(name)
    return socket.create_connection((place.host, place.port), 5)


def until_said(network: Network, name: str, words: str) -> None:
    until = time.monotonic() + 60
    while words not in said(network, name) and time.monotonic() < until:
        time.sleep(0.02)
    assert words in said(network, name)


def ends(made: socket.socket) -> bool:
    """Whether the other hangs up."""
    made.settimeout(10)
    with contextlib.suppress(ConnectionError):
        while made.recv(65536):
            pass
    return True


HOSTILE = {
    "noise": (b"GET / HTTP/1.1\r\n\r\n", "not a connection of this network: HTTP_REQUEST"),
    "a frame without TLS": (frame(pack({"kind": "prepare"})), "not a connection of this network: "),
    "nothing but zeros": (bytes(1000), "not a connection of this network: "),
}


@pytest.mark.parametrize(("data", "words"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_end_their_connection_and_no_other(network: Network, data: bytes, words: str) -> None:
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        t.send("answers", "still here")
        with closing(open_socket(network, "agent")) as made:
            made.sendall(data)
            assert ends(made)
        until_said(network, "agent", words)
        assert t.receive("answers", timeout=5) == "still here"
        assert t.commit() == "committed"


def greeted(network: Network, name: str, peer: str = "agent") -> tuple[socket.socket, Link]:
    """A connection of a place of the network."""
    made, link = open_socket(network, peer), Link(network.tls(name), name, peer)
    made.sendall(link.opening())
    while not link.ready:
        data = made.recv(65536)
        assert data, "it hung up"
        made.sendall(link.receive(data)[1])
    return made, link


def test_a_stranger_is_refused(network: Network, tmp_path: Path) -> None:
    stranger = Link(new_network(tmp_path / "other", {"airline": []}).tls("airline"), "airline", "agent")
    with closing(open_socket(network, "agent")) as made:
        made.sendall(stranger.opening())
        with pytest.raises(BadFrame, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.receive(made.recv(65536))


@pytest.mark.parametrize("changed", ["flipped", "doubled", "out of turn"])
def test_a_place_that_was_changed_on_its_way(network: Network, changed: str) -> None:
    made, link = greeted(network, "airline")
    with closing(made):
        sealed = [link.seal(pack({"kind": "ask", "ids": ["agent:1:1"]})) for _ in range(3)]
        if changed == "flipped":
            sealed[1] = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
        sent = {"flipped": sealed, "doubled": sealed[:1] * 2, "out of turn": sealed[1:]}[changed]
        made.sendall(b"".join(sent))
        assert ends(made)
    until_said(network, "agent", "refused: place airline: not a connection of this network: ")


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "dance"},
        {"kind": "done", "attempt": 7},
        {"kind": "deposit", "mid": "airline:1:1/1", "sender": "airline:1:1", "value": b"", "path": []},
        {"op": "begin"},
        {},
    ],
)
def test_a_place_that_says_what_nobody_says(network: Network, message: dict[str, object]) -> None:
    """It has a certificate, so the connection stays; what it said changes nothing."""
    made, link = greeted(network, "airline")
    with closing(made):
        made.sendall(link.seal(pack(message)))
        with connect(network.folder, "agent") as agent, agent.transaction() as t:
            assert t.commit() == "committed"
        made.settimeout(0.1)
        with pytest.raises(TimeoutError):
            made.recv(1)


def test_a_wrong_capability(network: Network) -> None:
    """A place of the network with tokens that are none: refused, and nothing lies in the channel."""
    made, link = greeted(network, "airline")
    right = network.path(network.secrets("airline"), "airline", "agent.answers")[1:]
    with closing(made):
        for n in range(2):
            path = [[*step] for step in right]
            path[n][2] = bytes(32)
            mid = f"airline:999:{n + 1}"
            deposit = {"kind": "deposit", "mid": f"{mid}/1", "sender": mid, "value": b"\x01", "path": path}
            made.sendall(link.seal(pack(deposit)))
        with connect(network.folder, "agent") as agent:
            until = time.monotonic() + 60
            while agent.ask("metrics")["refused"] < 2 and time.monotonic() < until:
                time.sleep(0.02)
            assert agent.messages("answers") == []
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        t.commit()  # synced, with what was refused before it
    refused = [record for record in read_log(network.log_of("agent"), "agent") if record.kind == "refused"]
    assert any("wrong token for 'in answers'" in record["what"] for record in refused)
    assert any("wrong token for 'in agent'" in record["what"] for record in refused)
    known = network.secrets("agent")
    assert not any(token.hex() in str(refused) for token in known.own.values())


@pytest.mark.parametrize(
    "request_",
    [{"n": 1, "op": "dance"}, {"n": 0, "op": "begin", "parent": None}, {"n": 1, "op": "begin"},
     {"n": 1, "op": "send", "t": "agent:1:1", "path": ["in", "answers"], "value": b""}, {"op": "gone", "n": 1}],
)  # fmt: skip
def test_a_client_that_asks_for_what_there_is_not(network: Network, request_: dict[str, object]) -> None:
    made, link = greeted(network, "agent")
    with closing(made):
        made.sendall(link.seal(pack(request_)))
        assert ends(made)


def test_random_frames_of_a_program_with_a_certificate(network: Network) -> None:
    chance = random.Random(5)
    for _ in range(30):
        made, link = greeted(network, "agent")
        with closing(made), contextlib.suppress(ConnectionError):
            made.sendall(b"".join(link.seal(chance.randbytes(chance.randrange(1, 60))) for _ in range(20)))
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        assert t.commit() == "committed"


def test_many_who_only_connect_keep_nobody_out(network: Network) -> None:
    idle = [open_socket(network, "agent") for _ in range(100)]
    try:
        with connect(network.folder, "agent") as agent, agent.transaction() as t:
            assert t.commit() == "committed"
        until_said(network, "agent", "shows no certificate, and others wait")
    finally:
        for one in idle:
            one.close()


# ---------------------------------------------------------------- one process, clear words


def be(network: Network, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Be a place that cannot start: what it says."""
    assert main([str(network.folder), name]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pellucid: ") and "Traceback" not in said
    return said


def test_a_second_process_is_refused(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"agent runs already (process {running(network, 'agent')}): a place is one process; `pellucid net down "
    assert words in be(network, "agent", capsys)
    with connect(network.folder, "agent") as agent:
        assert agent.begin().id


def test_a_port_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        network = new_network(tmp_path / "net", [PlaceInfo("agent", "127.0.0.1", port, None, ("answers",))])
        words = f"agent: 127.0.0.1:{port} is in use by another program: stop that, or give it another in network.toml"
        assert words in be(network, "agent", capsys)
    assert running(network, "agent") is None


def test_an_address_of_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = new_network(tmp_path / "net", {"agent": ["answers"]})
    file = network.folder / "network.toml"
    file.write_text(file.read_text().replace("127.0.0.1", "192.0.2.7"))
    assert "agent: 192.0.2.7:" in be(network, "agent", capsys)


def test_a_log_of_another_version_and_of_another_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = new_network(tmp_path / "net", {"agent": ["answers"]})
    open_log(network.log_of("agent"), "agent").close()
    with closing(sqlite3.connect(network.log_of("agent"))) as db, db:
        db.execute("UPDATE head SET version = 99")
    assert "log.sqlite: a log of version 99; this Pellucid reads version" in be(network, "agent", capsys)
    with closing(sqlite3.connect(network.log_of("agent"))) as db, db:
        db.execute("UPDATE head SET version = 1, place = 'other'")
    assert "this is the log of the place 'other', not of 'agent'" in be(network, "agent", capsys)


def test_one_that_cannot_start_in_the_background(network: Network, tmp_path: Path) -> None:
    """Why is told to whoever starts it, and stands in its folder; the others run."""
    (folder := network.folder_of("hotel")).mkdir(mode=0o700)
    (folder / "log.sqlite").write_bytes(b"no log" * 1000)
    with pytest.raises(StateError, match=r"hotel did not start: .*log\.sqlite: not a log that SQLite can read"):
        start(network)
    assert "ends: " in said(network, "hotel") and running(network, "agent")


def test_it_ends_in_good_order_and_begins_again(tmp_path: Path) -> None:
    network = new_network(tmp_path / "net", {"agent": ["answers"]})
    for n in (1, 2):
        (pid,) = start(network).values()
        assert start(network) == {"agent": pid}  # it runs already
        fill(network, "agent", "answers", [n])
        if n == 1:
            os.kill(pid, signal.SIGKILL)
            while running(network, "agent"):
                time.sleep(0.01)
        else:
            assert end(network) == ["agent"] and end(network) == []
    kinds = [record.kind for record in read_log(network.log_of("agent"), "agent")]
    assert kinds.count("boot") == 2 and kinds.count("commit") == 2
    for found in network.folder.rglob("*"):
        assert not found.stat().st_mode & 0o077, found


def test_many_commits_share_a_sync(network: Network) -> None:
    """Group commit: far fewer syncs than transactions, when many wait."""
    from tests.atomic.places.trips import Aside

    def numbers() -> dict[str, int]:
        with connect(network.folder, "airline") as here:
            found = here.ask("view")
            return {"committed": found["committed"], "syncs": found["process"]["syncs"]}

    def work() -> None:
        with connect(network.folder, "airline") as here:
            for n in range(15):
                with here.transaction() as t:
                    t.send("seats", n)
                    t.commit()

    before = numbers()
    for one in [Aside(work) for _ in range(8)]:
        one.result()
    after = numbers()
    assert after["committed"] - before["committed"] == 120
    assert after["syncs"] - before["syncs"] < 110


# Real places whose log is gone, or is no file: nothing begins anew in silence.

NOTED = "and the note beside it says that it had some: bring it back; if there is none, `pellucid net accept "


def ran(*args: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)])


def net(*args: object) -> Result:
    return ran("net", *args)


@pytest.fixture
def network_lost_log(tmp_path: Path) -> Iterator[Network]:
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


def folder(network_lost_log: Network) -> Path:
    return network_lost_log.folder / "places" / "hotel"


def deleted(where: Path) -> None:
    for file in where.glob("log.sqlite*"):
        file.unlink()


def emptied(where: Path) -> None:
    deleted(where)
    (where / "log.sqlite").touch(0o600)


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
        (deleted, "is not there"), (emptied, "is empty"), (flipped_at(0), "has no records"),
    ],
    ids=["deleted", "emptied", "the first frame of its WAL"],
)  # fmt: skip
def test_a_log_that_is_gone_is_not_replaced(network_lost_log: Network, lose: object, how: str) -> None:
    lose(folder(network_lost_log))  # type: ignore[operator]
    for args in (["up", network_lost_log.folder], ["up", network_lost_log.folder, "hotel"]):
        up = net(*args)
        assert up.exit_code == 2 and f"the log of 'hotel' {how}, {NOTED}" in up.output and up.output.count("\n") == 1
    status = net("status", network_lost_log.folder).output
    assert "hotel        lost, 127.0.0.1:" in status and how in status
    doubt = net("doubt", network_lost_log.folder)
    assert doubt.exit_code == 1 and f"{NOTED}{network_lost_log.folder} hotel` resumes" in doubt.output
    assert "lost" in net("metrics", network_lost_log.folder).output
    audited = ran("audit", network_lost_log.folder)
    assert audited.exit_code == 2 and NOTED in audited.output
    assert net("accept", network_lost_log.folder, "hotel", "--yes").exit_code == 0
    assert net("up", network_lost_log.folder).exit_code == 0 and net("doubt", network_lost_log.folder).exit_code == 0
    with connect(network_lost_log.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("rooms", "new")
        assert t.commit() == "committed" and hotel.messages("rooms") == ["new"]
    audited = ran("audit", network_lost_log.folder)
    assert audited.exit_code == 1 and "this log came back from an older copy" in audited.output
    end(network_lost_log)
    assert net("up", network_lost_log.folder).exit_code == 0


def test_a_log_with_less_than_is_noted_is_said_by_up(network_lost_log: Network) -> None:
    """The last frames of its write-ahead log are damaged, which SQLite takes for never written."""
    flipped_at(1)(folder(network_lost_log))  # type: ignore[operator]
    before = net("doubt", network_lost_log.folder)
    assert before.exit_code == 1 and "is an older copy: it lacks records up to " in before.output
    up = net("up", network_lost_log.folder)
    assert up.exit_code == 2 and "hotel runs and does nothing: the log of 'hotel' is an older copy" in up.output
    assert f"`pellucid net accept {network_lost_log.folder} hotel` resumes without what is lost" in up.output
    assert net("doubt", network_lost_log.folder).exit_code == 1 and ran("audit", network_lost_log.folder).exit_code == 1


def test_without_the_note_what_the_place_said_shows_that_it_ran(network_lost_log: Network) -> None:
    deleted(folder(network_lost_log))
    (folder(network_lost_log) / "newest").unlink()
    up = net("up", network_lost_log.folder)
    assert up.exit_code == 2 and "is not there, and said.log beside it says that the place has run" in up.output
    assert not (folder(network_lost_log) / "log.sqlite").exists()
    assert net("accept", network_lost_log.folder, "hotel", "--yes").exit_code == 0
    assert net("up", network_lost_log.folder).exit_code == 0


@pytest.mark.parametrize("note", ["newest", "said.log"])
def test_nothing_is_decided_by_hand_in_a_log_that_is_gone(network_lost_log: Network, note: str) -> None:
    """It can vanish while somebody is asked whether they are sure."""
    deleted(folder(network_lost_log))
    (folder(network_lost_log) / ("newest" if note == "said.log" else "said.log")).unlink()
    with pytest.raises(StateError, match=r"log\.sqlite: the log of 'hotel' is not there, .*bring it back"):
        decide_by_hand(network_lost_log, "hotel", "hotel:1:a1", "abort", "ada")
    assert not (folder(network_lost_log) / "log.sqlite").exists()


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


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a named pipe", "a folder"])
@pytest.mark.parametrize(
    "name",
    ["secrets/hotel.toml", "places/hotel/log.sqlite", "places/hotel/newest", "places/hotel/lock",
     "places/hotel/said.log"],
)  # fmt: skip
def test_what_is_no_file_is_refused_and_not_waited_for(network_lost_log: Network, name: str, make: object) -> None:
    file = network_lost_log.folder / name
    kept = file.read_bytes()
    file.unlink()
    make(file)  # type: ignore[operator]

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    try:
        up = net("up", network_lost_log.folder)
        assert up.exit_code == 2 and f"{name}: " in up.output, up.output
        assert re.search("(?i)is (no regular file, but )?a (named pipe|folder|directory)|no such device", up.output)
        for verb in ("status", "doubt", "metrics", "down"):
            assert net(verb, network_lost_log.folder).exit_code in (0, 1, 2, 3)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        file.rmdir() if file.is_dir() else file.unlink()
        file.touch(0o600)
        file.write_bytes(kept)
