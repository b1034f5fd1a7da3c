"""A place in this process, with little patience: slow senders, strangers who say nothing, clients that do not read, a
disk that is full."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pellucid.atomic.places import Network, NotReached, connect, connections, new_network
from pellucid.atomic.places import host as hosts
from pellucid.atomic.places.connections import Link
from pellucid.atomic.places.host import Host, main
from pellucid.atomic.places.log import read_log
from pellucid.atomic.places.wire import pack
from pellucid.internal.base import faults
from tests.sinks.postgres import Postgres


@contextlib.contextmanager
def inside(network: Network) -> Iterator[Host]:
    """The place p, in a thread."""
    made: list[Any] = []
    ready = threading.Event()

    async def serve() -> None:
        made.extend([Host(network, "p"), asyncio.get_running_loop()])
        await made[0].serve(ready.set)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield made[0]
    finally:
        made[1].call_soon_threadsafe(made[0].stop.set)
        thread.join(20)


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return new_network(tmp_path / "net", {"p": ["c"]})


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for who is about it: on a busy machine everybody is slow."""
    monkeypatch.setattr(connections, "SECONDS_TO_GREET", 2.0)
    monkeypatch.setattr(connections, "SECONDS_OF_A_FRAME", 1.0)


def greeted(network: Network) -> tuple[socket.socket, Link]:
    place = network.place("p")
    made = socket.create_connection((place.host, place.port), 5)
    link = Link(network.tls("p"), "p", "p")
    made.sendall(link.opening())
    while not link.ready:
        data = made.recv(65536)
        assert data, "it hung up"
        made.sendall(link.receive(data)[1])
    return made, link


def ended(made: socket.socket) -> bool:
    made.settimeout(10)
    with contextlib.suppress(ConnectionError):
        return made.recv(65536) == b""
    return True


def works(network: Network) -> bool:
    with connect(network.folder, "p") as here, here.transaction() as t:
        t.send("c", 1)
        return t.commit() == "committed"


def refusals(network: Network) -> list[str]:
    return [record["what"] for record in read_log(network.log_of("p"), "p") if record.kind == "refused"]


@pytest.mark.usefixtures("hasty")
def test_strangers_and_slow_senders_are_let_go(network: Network) -> None:
    place = network.place("p")
    with inside(network):
        with closing(socket.create_connection((place.host, place.port), 5)) as silent:
            assert ended(silent)
        made, link = greeted(network)
        with closing(made):
            sealed = link.seal(pack({"n": 1, "op": "begin", "parent": None}))
            began = time.monotonic()
            with contextlib.suppress(ConnectionError):
                for n in range(len(sealed)):  # a byte now and then: the frame has a time, not each byte
                    made.sendall(sealed[n : n + 1])
                    time.sleep(0.05)
                    if time.monotonic() - began > 30:
                        break
            assert ended(made) and time.monotonic() - began < 30
        assert works(network)
    assert {"shows no certificate in time", "sends a frame too slowly"} <= set(refusals(network))


@pytest.mark.usefixtures("hasty")
def test_one_who_is_quiet_between_frames_stays(network: Network) -> None:
    with inside(network), connect(network.folder, "p") as here:
        t = here.begin()
        time.sleep(1.6)
        assert t.commit() == "committed"


def test_a_client_that_does_not_read(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD", 100_000)
    with inside(network):
        with connect(network.folder, "p") as here, here.transaction() as t:
            t.send("c", "x" * 900_000)
            t.commit()
        made, link = greeted(network)
        with closing(made):  # and stays until it is said
            with contextlib.suppress(ConnectionError):
                for n in range(1, 60):
                    made.sendall(link.seal(pack({"n": n, "op": "look", "channel": "c"})))
            assert works(network)
            until = time.monotonic() + 60
            while "does not read what it is sent" not in refusals(network) and time.monotonic() < until:
                time.sleep(0.05)
                assert works(network)
    assert "does not read what it is sent" in refusals(network)


def test_an_answer_that_is_longer_than_a_frame_is_said(network: Network) -> None:
    from pellucid.errors import UsageError

    with inside(network), connect(network.folder, "p") as here:
        with here.transaction() as t:
            for _ in range(2):
                t.send("c", "x" * 900_000)
            t.commit()
        with pytest.raises(UsageError, match=r"the answer takes 1,800,\d+ bytes, and a frame has 1,048,576 at most"):
            here.messages("c")
        assert here.begin().commit() == "committed"


def test_only_so_many_refusals_are_told(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "REPORTED", 5)
    place = network.place("p")
    with inside(network) as host:
        for _ in range(30):
            with closing(socket.create_connection((place.host, place.port), 5)) as made:
                made.sendall(b"\xff" * 8)
                assert ended(made)
        assert works(network)
        assert host.counts["refused"] == 30
    assert 5 <= len(refusals(network)) <= 10  # a minute may end in between


def test_a_full_disk_ends_the_place_and_loses_nothing_that_was_said(
    network: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with inside(network):
        assert works(network)
    monkeypatch.setenv(faults.VARIABLE, "place:before-commit[p]=enospc")
    told: list[BaseException] = []

    def client() -> None:
        try:
            with connect(network.folder, "p", patience=20) as here, here.transaction() as t:
                t.send("c", 2)
                t.commit()
        except BaseException as error:
            told.append(error)

    asking = threading.Thread(target=client)
    asking.start()
    try:
        assert main([str(network.folder), "p"]) == 2
    finally:
        monkeypatch.delenv(faults.VARIABLE)
        faults.arm("", 0, 0)
    asking.join(20)
    assert "pellucid: No space left on device" in capsys.readouterr().err
    assert type(told[0]).__name__ == "InDoubt"  # nobody was told that it is committed
    with pytest.raises(NotReached):
        connect(network.folder, "p")
    with inside(network), connect(network.folder, "p") as here:
        assert here.messages("c") in ([1], [1, 2])


@pytest.mark.filterwarnings("ignore:.*fsync = off")  # the server of the tests
def test_a_log_in_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    from pellucid.atomic.places.network import PlaceInfo, free_ports

    places = [PlaceInfo("p", "127.0.0.1", free_ports(1)[0], None, ("c",), None, postgres.database())]
    network = new_network(tmp_path / "net", places)
    for n in (1, 2):
        with inside(network):
            assert works(network)
        records = read_log(network.log_of("p"), "p")
        assert [record.kind for record in records].count("boot") == n
    with inside(network), connect(network.folder, "p") as here:
        assert here.messages("c") == [1, 1]
