"""Programs that book trips over three places: ``python -m tests.judge.places_clients ROLE DIR SAID SEED [N]``.

An *agent* pays two coins and asks for a seat and a room; the *airline* and the *hotel* take the request, the coin and
one of what they have, and answer.  All three transactions depend on each other: they commit together, or not at all.
Everything is a message: coins, seats, rooms, tickets.  What a program was told it appends to SAID before it goes on; it
ends when there is a file ``stop-ROLE`` beside.  N programs of the role run at once.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pellucid.atomic.places.client import Aborted, InDoubt, NothingCame, NotReached, Place, Transaction, connect
from pellucid.errors import PellucidError

AGENTS = 2
CHANNELS = {
    "agent": ["money", "booked", *(f"answers{n}" for n in range(AGENTS))],
    "airline": ["requests", "goods", "till", "sold"],
    "hotel": ["requests", "goods", "till", "sold"],
}
PATIENCE = 60.0


class Program:
    """One loop of transactions, with a connection of its own."""

    def __init__(self, role: str, folder: Path, said: Path, seed: str) -> None:
        self.role, self.folder, self.said, self.chance = role, folder, said, random.Random(seed)
        self.count = 0
        self.place: Place | None = None

    def say(self, *words: str) -> None:
        """Written by one call: a kill leaves whole lines."""
        line = (" ".join(words) + "\n").encode()
        handle = os.open(self.said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, line)
        os.close(handle)

    def loop(self, one: Callable[[Place], None], stop: Path) -> None:
        while not stop.exists():
            try:
                if self.place is None:
                    self.place = connect(self.folder, self.role, patience=PATIENCE)
                one(self.place)
            except NotReached:
                if self.place is not None:
                    self.place.close()
                self.place = None
                time.sleep(0.05)
        if self.place is not None:
            self.place.close()

    def commit(self, t: Transaction, about: str) -> None:
        """Commit, and write down what was said about it, now or later."""
        self.say("asked", about, t.id)
        try:
            t.commit(timeout=10)
            outcome = "committed"
        except Aborted:
            outcome = "aborted"
        except InDoubt:
            outcome = self.later(t.id)
        self.say(outcome, about, t.id)

    def later(self, t: str) -> str:
        """What became of it, from its place, which may have to start first."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                with connect(self.folder, self.role, patience=5) as place:
                    status = place.status(t)
                if status in ("committed", "aborted"):
                    return status
            except PellucidError:
                pass
            time.sleep(0.1)
        return "doubt"

    # ------------------------------------------------------------ roles

    def book(self, place: Place, number: int) -> None:
        """The agent."""
        self.count += 1
        about = f"{number}.{os.getpid()}.{self.count}"
        try:
            with place.transaction() as t:
                self.say("begun", about, t.id)
                coins = [t.receive("money", timeout=1) for _ in range(2)]
                for where, coin in zip(("airline", "hotel"), coins, strict=True):
                    t.send(f"{where}.requests", {"booking": about, "coin": coin, "answers": f"answers{number}"})
                if self.chance.random() < 0.1:
                    t.abort()
                    self.say("aborted", about, t.id)
                    return
                got = {}
                while len(got) < 2:
                    answer = t.receive(f"answers{number}", timeout=3)
                    if answer["booking"] != about or answer["from"] in got:
                        self.say("odd", about, t.id)  # an answer to a booking that was undone
                        time.sleep(0.02)
                        return
                    got[answer["from"]] = answer["good"]
                t.send("booked", {"booking": about, **got})
                self.commit(t, about)
            time.sleep(self.chance.random() * 0.1)
        except (NothingCame, Aborted) as error:
            self.say("gone", about, type(error).__name__)

    def serve(self, place: Place) -> None:
        """The airline, and the hotel."""
        self.count += 1
        try:
            with place.transaction() as t:
                request = t.receive("requests", timeout=0.5)
                about = request["booking"]
                self.say("begun", about, t.id)
                good = t.receive("goods", timeout=0.5)
                t.send("till", request["coin"])
                t.send("sold", {"booking": about, "good": good})
                t.send(f"agent.{request['answers']}", {"booking": about, "good": good, "from": self.role})
                self.commit(t, about)
        except (NothingCame, Aborted):
            return


def main() -> None:
    role, folder, said, seed = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    stop = said.parent / f"stop-{role}"
    count = int(sys.argv[5]) if len(sys.argv) > 5 else AGENTS
    programs = [Program(role, folder, said, f"{seed} {n}") for n in range(count)]
    threads = []
    for n, program in enumerate(programs):
        one = (lambda place, p=program, n=n: p.book(place, n)) if role == "agent" else program.serve
        threads.append(threading.Thread(target=program.loop, args=(one, stop)))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
