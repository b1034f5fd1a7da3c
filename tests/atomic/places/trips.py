"""What the tests of real places share: a small network, and both sides of a booking."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid.atomic.places import Aborted, Network, NothingCame, connect, new_network

PLACES = {"agent": ["answers"], "airline": ["requests", "seats"], "hotel": ["requests", "rooms"]}
STOCK = {"airline": "seats", "hotel": "rooms"}


def trips(folder: Path) -> Network:
    """Agent, airline, hotel; nothing runs yet."""
    return new_network(folder / "trips", PLACES)


def fill(network: Network, place: str, channel: str, values: list[Any]) -> None:
    with connect(network.folder, place, patience=60) as here, here.transaction() as t:
        for value in values:
            t.send(channel, value)
        assert t.commit(timeout=60) == "committed"


class Aside(threading.Thread):
    """Runs something beside the test; `result` is what it returned or raised."""

    def __init__(self, do: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._do, self._args = do, args
        self.found: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self._do(*self._args)
        except BaseException as error:
            self.found = error

    def result(self, seconds: float = 90) -> Any:
        self.join(seconds)
        assert not self.is_alive(), "still waiting"
        return self.found


def provide(network: Network, place: str) -> str:
    """One request is answered with what is in stock."""
    with connect(network.folder, place, patience=60) as here, here.transaction() as t:
        guest = t.receive("requests", timeout=60)
        t.send("agent.answers", [place, t.receive(STOCK[place], timeout=60), guest])
        return t.commit(timeout=60)


def left(network: Network) -> dict[str, list[Any]]:
    """What lies in the stocks."""
    out = {}
    for place, stock in STOCK.items():
        with connect(network.folder, place, patience=60) as here:
            out[stock] = sorted(here.messages(stock))
    return out


def drain(network: Network, place: str, channel: str) -> None:
    """Take all that lies there; what was of an undone one goes with it."""
    while True:
        with connect(network.folder, place) as here, contextlib.suppress(Aborted), here.transaction() as t:
            with contextlib.suppress(NothingCame):
                while True:
                    t.receive(channel, timeout=0)
            t.commit(timeout=60)
            return
