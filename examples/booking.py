"""A trip is a flight and a room, or nothing: three places, each a process with a log of its own; one guest changes his
mind, and the hotel is killed (kill -9) between the two phases of a commit and comes back."""

import contextlib
import os
import tempfile
import threading
from pathlib import Path

from pellucid.atomic.places import Aborted, InDoubt, Network, connect, new_network, up

PLACES = {"agent": ["answers"], "airline": ["requests", "seats"], "hotel": ["requests", "rooms"]}
STOCK = {"airline": "seats", "hotel": "rooms"}


def fill(network: Network, place: str, stock: str) -> None:
    """Seats and rooms are messages: to book one is to take it."""
    with connect(network.folder, place) as here, here.transaction() as t:
        for n in range(3):
            t.send(stock, n)
        t.commit()


def provide(network: Network, place: str, stock: str) -> None:
    """Answer a request with a seat or a room: commit together with the guest, or not at all."""
    with connect(network.folder, place, patience=60) as here, here.transaction() as t:
        guest = t.receive("requests", timeout=60)
        t.send("agent.answers", [stock, t.receive(stock, timeout=60), guest])
        with contextlib.suppress(Aborted, InDoubt):
            t.commit()


def book(network: Network, guest: str, sure: bool) -> str:
    others = [threading.Thread(target=provide, args=(network, *one)) for one in STOCK.items()]
    for other in others:
        other.start()
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        for place in STOCK:
            t.send(f"{place}.requests", guest)
        got = sorted(t.receive("answers", timeout=60)[0] for _ in STOCK)
        outcome = t.commit() if sure else "given up"  # left without a commit, it is undone at all three places
    for other in others:
        other.join()
    return f"{guest}: {' and '.join(got)} {outcome}"


if __name__ == "__main__":
    os.environ["PELLUCID_FAULTS"] = "place:after-prepared[hotel]=kill@2"  # for the example: dead at that moment, once
    with tempfile.TemporaryDirectory() as name:
        network = new_network(Path(name) / "trips", PLACES)
        with up(network, again=True) as places:  # one that dies is started again
            for place, stock in STOCK.items():
                fill(network, place, stock)
            for guest, sure in (("ada", True), ("bob", False), ("eve", True)):
                print(book(network, guest, sure))
            for place, stock in STOCK.items():
                with connect(network.folder, place, patience=60) as here:
                    print(f"{stock} left: {len(here.messages(stock))} of 3; started {places.starts[place]} times")
