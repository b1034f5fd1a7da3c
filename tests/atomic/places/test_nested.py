"""A tree of places: messages go through the processes between, each checks its own step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from pellucid.atomic.places import Aborted, Capability, Network, connect, end, new_network, start, up
from pellucid.atomic.places.network import PlaceInfo, free_ports
from pellucid.errors import UsageError


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    ports = free_ports(3)
    places = [
        PlaceInfo("corp", "127.0.0.1", ports[0]),
        PlaceInfo("host", "127.0.0.1", ports[1], "corp", ("orders",), ("shop.answers",)),
        PlaceInfo("shop", "127.0.0.1", ports[2], None, ("answers", "secret")),
    ]
    made = new_network(tmp_path_factory.mktemp("nested") / "net", places)
    with up(made):
        yield made


def test_in_and_out(network: Network) -> None:
    with connect(network.folder, "shop") as shop, connect(network.folder, "host") as host:
        one, two = shop.begin(), host.begin()
        one.send("host.orders", "a book")
        assert two.receive("orders", timeout=60) == "a book"
        two.send("shop.answers", "yes")
        assert one.receive("answers", timeout=60) == "yes"
        with pytest.raises(TimeoutError):
            two.commit(timeout=0)
        assert one.commit(timeout=60) == "committed" and two.commit(timeout=60) == "committed"


def test_a_capability_that_was_not_given(network: Network) -> None:
    with connect(network.folder, "host") as host, host.transaction() as t:
        with pytest.raises(UsageError, match=r"host has no capability for 'shop.secret': the token for 'shop.secret'"):
            t.send("shop.secret", 1)
        assert t.commit() == "committed"


def test_the_place_between_is_down_for_a_while(network: Network) -> None:
    end(network, ["corp"])
    with connect(network.folder, "shop") as shop, connect(network.folder, "host") as host:
        one, two = shop.begin(), host.begin()
        one.send("host.orders", "later")
        with pytest.raises(TimeoutError):
            two.receive("orders", timeout=0.3)
        start(network, ["corp"])
        assert two.receive("orders", timeout=60) == "later"
        one.abort()
        with pytest.raises(Aborted, match="cascade"):
            two.commit(timeout=60)


def test_a_capability_that_is_given_in_a_message(network: Network) -> None:
    """The host may not send to the shop's secret channel; with what the shop sends it, it may."""
    with connect(network.folder, "shop") as shop, connect(network.folder, "host") as host:
        with shop.transaction() as t:
            t.send("host.orders", {"reply": [shop.capability("secret")]})
            t.commit(timeout=60)
        with host.transaction() as t:
            (reply,) = t.receive("orders", timeout=60)["reply"]
            assert repr(reply) == "Capability(to='shop', channel='secret')"
            t.send(reply, "psst")
            t.commit(timeout=60)
        with shop.transaction() as t:
            assert t.receive("secret", timeout=60) == "psst"
            t.commit(timeout=60)
        with pytest.raises(UsageError, match=r"host has no capability for 'shop.secret', and cannot give one away"):
            host.capability("shop.secret")
        wide = host.capability("orders")
        assert set(wide.tokens) == {"in host", "host.orders"}  # corp's door is not the host's to give


def test_a_capability_that_is_made_up(network: Network) -> None:
    with connect(network.folder, "host") as host:
        made_up = Capability("shop", "secret", {"shop.secret": bytes(32)})
        t = host.begin()
        t.send(made_up, "psst")
        with contextlib.suppress(Aborted):  # or it commits before the shop has said no: the message is nowhere then
            t.commit(timeout=60)
        with connect(network.folder, "shop") as shop:
            until = time.monotonic() + 60
            while not shop.ask("metrics")["refused"] and time.monotonic() < until:
                time.sleep(0.05)
            assert shop.ask("metrics")["refused"] and shop.messages("secret") == []
        with host.transaction() as t:
            for tokens in ({"shop.secret": "text"}, {"shop.secret": bytes(65)}, {f"in {n}": b"" for n in range(65)}):
                with pytest.raises(UsageError, match="no capability: expected one that was sent in a message"):
                    t.send(Capability("shop", "secret", tokens), 1)  # type: ignore[arg-type]
            assert t.commit() == "committed"
