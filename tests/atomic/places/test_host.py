"""The process of a place: hostile bytes disturb nobody, one process for a place, clear words when it cannot start."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pellucid.atomic.places import Network, connect, end, new_network, start, up
from pellucid.atomic.places.described import PlaceInfo
from pellucid.atomic.places.frames import frame, pack
from pellucid.atomic.places.host import main
from pellucid.atomic.places.link import CLIENT, PLACE, Link
from pellucid.atomic.places.log import open_log, read_log
from pellucid.atomic.places.serving.lock import running
from pellucid.errors import StateError
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
    "noise": (b"GET / HTTP/1.1\r\n\r\n", "are allowed"),
    "an endless frame": (struct.pack(">I", 2**31), "are allowed"),
    "an empty frame": (bytes(4), "a frame of 0 bytes"),
    "no msgpack": (frame(b"\xc1\xc1\xc1"), "no msgpack"),
    "no hello": (frame(pack({"kind": "prepare"})), "a hello with other fields"),
    "a stranger": (Link(PLACE, "nobody", "agent", lambda r, n: b"k" * 32, begins=True).opening(), "no key is shared"),
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


def greeted(network: Network, role: str, name: str, key: bytes) -> tuple[socket.socket, Link]:
    """A connection of somebody who has a key."""
    made, link = open_socket(network, "agent"), Link(role, name, "agent", lambda r, n: key, begins=True)
    made.sendall(link.opening())
    while not link.ready:
        data = made.recv(65536)
        assert data, "it hung up"
        made.sendall(link.receive(data)[1])
    return made, link


@pytest.mark.parametrize("changed", ["flipped", "doubled", "out of turn"])
def test_a_place_that_was_changed_on_its_way(network: Network, changed: str) -> None:
    key = network.secrets("airline").peers["agent"]
    made, link = greeted(network, PLACE, "airline", key)
    with closing(made):
        sealed = [link.seal(pack({"kind": "ask", "ids": ["agent:1:1"]})) for _ in range(3)]
        if changed == "flipped":
            sealed[1] = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
        sent = {"flipped": sealed, "doubled": sealed[:1] * 2, "out of turn": sealed[1:]}[changed]
        made.sendall(b"".join(sent))
        assert ends(made)
    until_said(network, "agent", "refused: place airline: a frame that does not open")


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
    """It has the key, so the connection stays; what it said changes nothing."""
    made, link = greeted(network, PLACE, "airline", network.secrets("airline").peers["agent"])
    with closing(made):
        made.sendall(link.seal(pack(message)))
        with connect(network.folder, "agent") as agent, agent.transaction() as t:
            assert t.commit() == "committed"
        made.settimeout(0.1)
        with pytest.raises(TimeoutError):
            made.recv(1)


def test_a_wrong_capability(network: Network) -> None:
    """A place with a key of the network, and tokens that are none: refused, and nothing lies in the channel."""
    made, link = greeted(network, PLACE, "airline", network.secrets("airline").peers["agent"])
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
    made, link = greeted(network, CLIENT, "agent", network.secrets("agent").client)
    with closing(made):
        made.sendall(link.seal(pack(request_)))
        assert ends(made)


def test_random_frames_of_somebody_with_a_key(network: Network) -> None:
    chance = random.Random(5)
    for _ in range(30):
        made, link = greeted(network, CLIENT, "agent", network.secrets("agent").client)
        with closing(made), contextlib.suppress(ConnectionError):
            made.sendall(b"".join(link.seal(chance.randbytes(chance.randrange(1, 60))) for _ in range(20)))
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        assert t.commit() == "committed"


def test_many_who_only_connect_keep_nobody_out(network: Network) -> None:
    idle = [open_socket(network, "agent") for _ in range(100)]
    try:
        with connect(network.folder, "agent") as agent, agent.transaction() as t:
            assert t.commit() == "committed"
        until_said(network, "agent", "shows no key, and others wait")
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
    assert "agent would listen at 192.0.2.7:" in be(network, "agent", capsys)


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
