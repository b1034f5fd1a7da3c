"""The folder of a network: what it may say, ways and capabilities, secrets that stay ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pellucid.atomic.places import NotReached, connect, up
from pellucid.atomic.places import processes as starting
from pellucid.atomic.places.core.events import Arrived, NoWay, Onward, walk
from pellucid.atomic.places.network import (
    Network,
    PlaceInfo,
    free_ports,
    network_of,
    new_network,
)
from pellucid.errors import StateError, UsageError

PLACES = [
    PlaceInfo("corp", "127.0.0.1", 4701),
    PlaceInfo("host", "127.0.0.1", 4702, "corp", ("orders", "more")),
    PlaceInfo("shop", "127.0.0.1", 4703, None, ("answers",), ("host.orders",)),
    PlaceInfo("bank", "127.0.0.1", 4704, None, ("charge",), ()),
]


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return new_network(tmp_path / "net", PLACES)


def test_what_was_made_is_read_again(network: Network) -> None:
    again = network_of(network.folder)
    assert again == network and list(again.places.values()) == PLACES
    assert again.tree == {"corp": None, "host": "corp", "shop": None, "bank": None}
    assert again.log_of("host") == network.folder / "places" / "host" / "log.sqlite"


def test_nobody_else_can_look_in(network: Network) -> None:
    for found in [network.folder, *network.folder.rglob("*")]:
        assert found.stat().st_mode & 0o777 == (0o700 if found.is_dir() else 0o600), found


def test_every_place_has_secrets_of_its_own(network: Network) -> None:
    known = {name: network.secrets(name) for name in network.places}
    assert len({one.authority for one in known.values()}) == 1
    tokens = {token for one in known.values() for token in one.own.values()}
    assert len(tokens) == 2 * 4 + 4
    assert set(known["shop"].held) == {"in corp", "in host", "host.orders"}
    assert known["bank"].held == {}
    assert set(known["host"].held) == {"out corp", "in shop", "in bank", "shop.answers", "bank.charge"}
    assert repr(known["shop"]) == "Secrets()"
    keys = [
        re.findall("KEY-----(.*?)-----END PRIVATE", file.read_text(), re.S) for file in network.folder.rglob("*.toml")
    ]
    assert sorted(map(len, keys)) == [0, 1, 1, 1, 1] and len({key for found in keys for key in found}) == 4


@pytest.mark.parametrize(
    ("start", "path", "way"),
    [
        ("host", "orders", "in orders"),
        ("host", "host.orders", "in orders"),
        ("shop", "host.orders", "out shop.in corp.in host.in orders"),
        ("shop", "corp.host.orders", "out shop.in corp.in host.in orders"),
        ("corp", "host.orders", "in host.in orders"),
        ("host", "shop.answers", "out host.out corp.in shop.in answers"),
        ("host", "out host.out corp.in shop.in answers", "out host.out corp.in shop.in answers"),
        ("host", " out host . out corp . in shop . in answers ", "out host.out corp.in shop.in answers"),
        ("host", "out host.in host.in orders", "out host.in host.in orders"),
    ],
)
def test_ways(network: Network, start: str, path: str, way: str) -> None:
    assert str(network.route(start, path)) == way


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "expected a path, as in 'airline.requests'"),
        ("shop..answers", "expected a path"),
        ("shop.answer", "the place shop has no channel 'answer': it has answers; did you mean 'answers'"),
        ("corp.x", "the place corp has no channel 'x': it has none"),
        ("shp.answers", "has no place 'shp': it has corp, host, shop, bank; did you mean 'shop'"),
        ("bank.host.orders", "host is not there: expected 'corp.host.orders', or 'host.orders'"),
        ("out bank.in shop.in answers", "'out bank': the message is inside shop there"),
        ("out shop", "has to end in a channel"),
        ("out shop.in host.in orders", "'in host': host is inside corp, and the message is outside"),
        ("out shop.in answers", "ends outside of every place"),
        ("out shop.corp.in orders", "'corp': expected 'in NAME' or 'out NAME'"),
        ("out shop.in corp.in host.in order", "has no channel 'order'"),
    ],
)
def test_ways_that_lead_nowhere(network: Network, path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        network.route("shop", path)


def test_a_path_opens_every_place_on_its_way(network: Network) -> None:
    path = network.path(network.secrets("shop"), "shop", "host.orders")
    at, inside = "shop", True
    for expected in ("corp", "host"):
        found = walk(network.tree_of(at, network.secrets(at)), at, path, inside=inside)
        assert isinstance(found, Onward) and found.place == expected
        at, path, inside = found.place, found.rest, False
    assert walk(network.tree_of(at, network.secrets(at)), at, path, inside=False) == Arrived("orders")


def test_a_capability_that_a_place_lacks(network: Network) -> None:
    with pytest.raises(
        UsageError, match=r"shop has no capability for 'host.more': the token for 'host.more' is missing"
    ):
        network.path(network.secrets("shop"), "shop", "host.more")
    with pytest.raises(UsageError, match=r"bank has no capability for 'shop.answers': the token for 'in shop'"):
        network.path(network.secrets("bank"), "bank", "shop.answers")


def test_a_wrong_capability_opens_nothing(network: Network) -> None:
    path = network.path(network.secrets("host"), "host", "shop.answers")[2:]
    tree = network.tree_of("shop", network.secrets("shop"))
    for n, step in enumerate(path):
        for wrong in (b"", bytes(32), step[2][:-1], path[n - 1][2]):
            bad = [[*s] for s in path]
            bad[n][2] = wrong
            with pytest.raises(NoWay, match="wrong token"):
                walk(tree, "shop", bad, inside=False)


GOOD = 'version = 1\n[places.a]\naddress = "127.0.0.1:4701"\nchannels = ["c"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "version = None: expected 1"),
        ("version = 2", "version = 2: expected 1, which this Pellucid reads"),
        ("version = 1", "has no places"),
        ("version = ", "cannot be read"),
        pytest.param("version = " + "[" * 100_000, "cannot be read: it is nested too deeply", id="deep"),
        (GOOD + "[plac]", "'plac' is not known; did you mean 'places'"),
        (GOOD + "adress = 1", r"\[places.a\]: 'adress' is not known; did you mean 'address'"),
        ("version = 1\n[places.a]", r"\[places.a\]: has no address"),
        ('version = 1\n[places."a b"]\naddress = "127.0.0.1:1"', "expected a name of letters"),
        ('version = 1\n[places.a]\naddress = "127.0.0.1"', "expected HOST:PORT, as in 127.0.0.1:4701"),
        ('version = 1\n[places.a]\naddress = "127.0.0.1:70000"', "expected HOST:PORT"),
        ("version = 1\n[places.a]\naddress = 7", "address: expected a str, found a int"),
        (GOOD + 'inside = "b"', "inside = 'b': no such place"),
        (GOOD + 'inside = "a"', "is inside itself: a in a"),
        (GOOD + 'may = ["b.c"]', "may: 'b.c': there is no such channel"),
        (GOOD + 'may = ["c"]', 'may: expected a list of "PLACE.CHANNEL"'),
        (GOOD + 'log = "mysql://x"', "log: expected an address as in postgresql"),
        (GOOD + '[places.b]\naddress = "127.0.0.1:4701"', 'address = "127.0.0.1:4701": is that of a, too'),
        (GOOD + '[places.c]\naddress = "127.0.0.1:4702"', "the channel 'c' is called like a place"),
        (GOOD.replace('["c"]', '["c", "c"]'), "a channel is named twice"),
        (GOOD + '[tls]\nca = "x"', r"\[tls\]: is not used any more: .* certificates of its own .*; remove it"),
    ],
)
def test_a_file_that_says_what_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "network.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        Network.load(tmp_path)


def test_a_folder_that_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no network: it has no network.toml; make one with `pellucid net new"):
        Network.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no network"):
        Network.load(tmp_path / "file")
    with pytest.raises(UsageError, match="is there and not empty"):
        new_network(tmp_path, PLACES)


def test_a_network_is_not_made_twice(network: Network) -> None:
    with pytest.raises(UsageError, match="is a network already"):
        new_network(network.folder, PLACES)


def test_secrets_that_others_can_read_are_refused(network: Network) -> None:
    file = network.folder / "secrets" / "shop.toml"
    os.chmod(file, 0o640)
    with pytest.raises(StateError, match=r"others can read it \(mode 640\), and it holds keys: `chmod 600"):
        network.secrets("shop")
    os.chmod(file, 0o600)
    text, secret = file.read_text(), network.secrets("shop").own["in"].hex()
    for wrong in (
        text.replace(secret, secret[:-1] + "z"),
        re.sub("MI[A-Z]", "MMM", text),
        text.replace("PRIVATE KEY", "KEY"),
    ):
        file.write_text(wrong)
        with pytest.raises(StateError, match="is damaged") as refused:
            network.tls("shop")
        assert secret[:-1] not in str(refused.value)
    file.write_text(text.replace("version = 2", "version = 1"))
    with pytest.raises(
        StateError, match="is of version 1, and this Pellucid reads version 2: make a new network with the"
    ):
        network.secrets("shop")
    file.unlink()
    with pytest.raises(StateError, match="is not there, and the keys of shop are needed: copy it from where"):
        network.secrets("shop")


def test_a_long_log_has_more_time_to_be_read(tmp_path: Path) -> None:
    network = new_network(tmp_path / "trips", {"agent": [], "hotel": []})
    assert starting._to_read(network, ["agent", "hotel"]) == 0
    for name in network.places:
        network.folder_of(name).mkdir(parents=True)
        with open(network.log_of(name), "wb") as file:
            file.truncate(300_000_000)
    assert starting._to_read(network, ["agent", "hotel"]) == 600


def test_a_folder_or_a_pipe_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "network.toml").mkdir()
    with pytest.raises(StateError, match=r"network\.toml: is a folder, where a file of Pellucid's belongs"):
        Network.load(tmp_path)
    (tmp_path / "network.toml").rmdir()
    os.mkfifo(tmp_path / "network.toml")
    with pytest.raises(StateError, match=r"network\.toml: is a named pipe, where a file of Pellucid's belongs"):
        Network.load(tmp_path)


def test_beyond_loopback_as_here(tmp_path: Path) -> None:
    ports = free_ports(2)
    places = [
        PlaceInfo("near", "0.0.0.0", ports[0], None, ("answers",)),
        PlaceInfo("far", "0.0.0.0", ports[1], None, ("asked",)),
    ]
    made = new_network(tmp_path / "net", places)
    with up(made), connect(made.folder, "near") as near, connect(made.folder, "far") as far:
        one, two = near.begin(), far.begin()
        one.send("far.asked", "?")
        assert two.receive("asked", timeout=60) == "?"
        one.commit()
        assert two.commit(timeout=60) == "committed"
        (tmp_path / "net" / "secrets" / "near.toml").write_text(
            (new_network(tmp_path / "other", places).folder / "secrets" / "near.toml").read_text()
        )
        with pytest.raises(NotReached, match="is not that place: not a connection of this network"):
            connect(made.folder, "near")
