"""A judge of places: ``python -m tests.judge.kills_places --kills 500 --seed 1``.

Three places and their programs (`tests.judge.places_clients`) run as processes of their own and book trips; places and
programs are killed with ``kill -9`` at random moments, one, some or all, and started again.  Right is, when everybody
has come to an end: every seat, every room and every coin is there once, in its channel or where a booking has put it; a
booking is at all three places or at none; whatever a program was told to be committed is, and what it was told to be
aborted is not; and the audit of the logs finds a run of the calculus.  What the judge knows it knows from the lines
that programs wrote and from the channels, which it reads as any program would.

The machine of the calculus replays runs of some hundred records only.  With ``--small`` networks are so small that it
does: a handful of goods, one program a place, and one kill; how many were replayed is counted.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from pellucid.atomic.places.audit import audit
from pellucid.atomic.places.client import Aborted, NothingCame, Place, connect
from pellucid.atomic.places.network import PlaceInfo, free_ports, new_network
from pellucid.errors import PellucidError
from tests.judge.places_clients import CHANNELS

HANG = 300.0
SMALL = 3  # seats, and rooms, in a small network
PLACES = ("agent", "airline", "hotel")


class Wrong(AssertionError):  # noqa: N818 - an answer
    """What the judge found."""


class Judge:
    """One network, from its first start to its reckoning.  ``planted`` is a program that starts places which are wrong
    on purpose."""

    def __init__(
        self, base: Path, rng: random.Random, counts: Counter[str], planted: list[str] | None = None, *,
        small: bool = False,
    ) -> None:  # fmt: skip
        self.base, self.folder, self.rng, self.counts = base, base / "net", rng, counts
        self.planted, self.small = planted, small
        self.hang = HANG if planted is None else 6.0
        self.patience = 15.0 if not small else 1.0  # sold out soon
        ports = free_ports(len(PLACES))
        new_network(
            self.folder,
            [PlaceInfo(p, "127.0.0.1", port, None, tuple(CHANNELS[p])) for p, port in zip(PLACES, ports, strict=True)],
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.history: list[str] = []
        self.goods = 40

    # ------------------------------------------------------------ processes

    def command(self, who: str) -> list[str]:
        """What starts a place, or the programs of one (``agent!``)."""
        name = who.rstrip("!")
        if not who.endswith("!"):
            return [*(self.planted or [sys.executable, "-m", "pellucid.atomic.places.host"]), str(self.folder), name]
        said, seed = str(self.base / f"{name}.said"), str(self.rng.randrange(10**9))
        agents = ["1"] if self.small else []
        return [sys.executable, "-m", "tests.judge.places_clients", name, str(self.folder), said, seed, *agents]

    def start(self, who: str) -> None:
        with open(self.base / f"{who}.out", "ab") as out:
            self.running[who] = subprocess.Popen(self.command(who), stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def stop_all(self) -> None:
        for process in self.running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self.running.values():
            process.wait()

    def strike(self) -> int:
        """Kill somebody at a random moment; how many."""
        if self.rng.random() < 0.85:  # else while everybody is still starting
            self.until_busy()
        time.sleep(self.rng.random() ** 2 * 0.5)
        how = self.rng.choice(["place", "place", "place", "two", "all", "program", "program", "paused"])
        programs = [f"{p}!" for p in PLACES]
        victims = {
            "two": self.rng.sample(PLACES, 2), "all": list(PLACES), "program": [self.rng.choice(programs)],
        }.get(how, [self.rng.choice(PLACES)])  # fmt: skip
        sleeper = self.rng.choice([p for p in PLACES if p not in victims] or programs) if how == "paused" else ""
        if sleeper:
            self.running[sleeper].send_signal(signal.SIGSTOP)
        self.history.append(f"{how} {' '.join(victims)}")
        for who in victims:
            process = self.running[who]
            if process.poll() is not None:
                out = (self.base / f"{who}.out").read_text(errors="replace")[-1500:]
                raise Wrong(f"{who} ended by itself with {process.returncode}: {out}")
            process.kill()
            process.wait()
        time.sleep(self.rng.random() ** 2 * 0.6)
        if sleeper:
            self.running[sleeper].send_signal(signal.SIGCONT)
        for who in victims:
            self.start(who)
        if self.rng.random() < 0.2:
            self.look()
        self.counts["kills"] += len(victims)
        self.counts[f"kills: {how}"] += len(victims)
        return len(victims)

    def until_begun(self) -> None:
        """Every program has begun something: how long its start takes is no matter."""
        until = time.monotonic() + HANG
        while not all(self.words(place)["begun"] for place in PLACES) and time.monotonic() < until:
            time.sleep(0.05)

    def until_busy(self) -> None:
        """Programs of all places are at work again, as their notes show."""
        notes = [self.base / f"{place}.said" for place in PLACES]
        before = [note.stat().st_size if note.exists() else 0 for note in notes]
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            if all(note.exists() and note.stat().st_size > size for note, size in zip(notes, before, strict=True)):
                return
            time.sleep(0.01)

    def look(self) -> None:
        """The audit, in the middle of everything: what is on record until now must be right."""
        found = audit(self.folder, replay=False)
        self.counts["audits of a running network"] += 1
        if not found:
            raise Wrong(f"the audit of the running network says:\n{found}")

    # ------------------------------------------------------------ from the first coin to the last

    def go(self, kills: int) -> None:
        try:
            for place in PLACES:
                self.start(place)
            self.goods = 20 + 12 * kills if not self.small else SMALL
            self.fill()
            for place in PLACES:
                self.start(f"{place}!")
            self.until_begun()
            self.until_booked(1)
            while kills > 0:
                kills -= self.strike()
            self.until_booked(len(self.told("committed", "agent")) + 1)
            self.calm()
            self.reckon()
        except (PellucidError, AssertionError) as error:
            said = "".join(f"\n--- {p.name}: {p.read_text(errors='replace')[-600:]}" for p in self.base.glob("*.out"))
            for p in self.base.glob("*.said"):
                words = Counter(line.split()[0] for line in p.read_text().splitlines())
                said += f"\n--- {p.name}: {dict(words)}, at last {p.read_text().splitlines()[-4:]}"
            raise Wrong(f"{self.history}: {type(error).__name__}: {error}{said}\n--- {self.opinion()}") from error
        finally:
            self.stop_all()
        self.counts["runs"] += 1

    def opinion(self) -> str:
        """What the audit says, when something is wrong."""
        self.stop_all()
        try:
            return f"the audit says:\n{audit(self.folder)}"
        except PellucidError as error:
            return f"the audit cannot say: {error}"

    def connected(self, place: str) -> Place:
        return connect(self.folder, place, patience=60)

    def fill(self) -> None:
        """Coins, seats and rooms, each a message."""
        for place, channel, what, count in (
            ("agent", "money", "coin", 2 * self.goods), ("airline", "goods", "seat", self.goods),
            ("hotel", "goods", "room", self.goods),
        ):  # fmt: skip
            with self.connected(place) as at, at.transaction() as t:
                for n in range(count):
                    t.send(channel, f"{what} {n}")
                t.commit(timeout=60)

    def told(self, outcome: str, role: str) -> dict[str, str]:
        """What programs wrote: transactions with this outcome, and the booking of each."""
        with suppress(FileNotFoundError):
            lines = (self.base / f"{role}.said").read_text().splitlines()
            return {words[2]: words[1] for words in map(str.split, lines) if words[0] == outcome}
        return {}

    def words(self, role: str) -> Counter[str]:
        """How often programs wrote what."""
        with suppress(FileNotFoundError):
            return Counter(line.split()[0] for line in (self.base / f"{role}.said").read_text().splitlines())
        return Counter()

    def until_booked(self, count: int) -> None:
        """It works while nobody is killed, too: there is something to lose, and in the end everybody recovered."""
        until = time.monotonic() + self.hang
        while len(self.told("committed", "agent")) < count:
            if time.monotonic() > until and self.planted:
                return  # the reckoning says why
            if time.monotonic() > until:
                raise Wrong(f"nothing was booked within {self.hang:g} s after {len(self.told('committed', 'agent'))}")
            for who, process in self.running.items():
                if process.poll() is not None:
                    raise Wrong(f"{who} ended by itself with {process.returncode}")
            if count > 1 and self.sold_out():
                return
            time.sleep(0.05)

    def sold_out(self) -> bool:
        """Whether there is nothing left to book: then nobody will be told so."""
        with self.connected("airline") as at:
            return not at.messages("goods")

    def calm(self) -> None:
        """Programs end, and everything that is undecided is decided."""
        for role in PLACES:
            (self.base / f"stop-{role}").touch()
            if self.running[f"{role}!"].wait(HANG):
                raise Wrong(f"the programs of {role} ended with {self.running[f'{role}!'].returncode}")
        until = time.monotonic() + self.hang
        while open_ones := self.undecided():
            if time.monotonic() > until:
                raise Wrong(f"undecided after {self.hang:g} s: {open_ones}")
            time.sleep(0.1)

    def undecided(self) -> dict[str, Any]:
        out = {}
        for place in PLACES:
            with self.connected(place) as at:
                found = {name: some for name, some in at.ask("doubt").items() if some}
            out.update({place: found} if found else {})
        return out

    # ------------------------------------------------------------ the reckoning

    def drained(self, place: str, channel: str) -> list[Any]:
        """All messages of a channel, taken for good, as any program would."""
        until = time.monotonic() + self.hang
        while time.monotonic() < until:
            out = []
            with self.connected(place) as at:
                try:
                    with at.transaction() as t:
                        with suppress(NothingCame):
                            while True:
                                out.append(t.receive(channel, timeout=0))
                        t.commit(timeout=60)
                        return out
                except Aborted:
                    self.counts["read again"] += 1  # some were of who aborted unseen; now the place knows of these
                    time.sleep(0.02)
        raise Wrong(f"{place}.{channel} cannot be read")

    def reckon(self) -> None:
        found = audit(self.folder, replay=False)
        if not found:
            raise Wrong(f"the audit says:\n{found}")
        have = {(place, channel): self.drained(place, channel) for place in PLACES for channel in CHANNELS[place]}
        booked = {one["booking"]: one for one in have["agent", "booked"]}
        once("bookings", [one["booking"] for one in have["agent", "booked"]], None)
        tills = have["airline", "till"] + have["hotel", "till"]
        once("coins", have["agent", "money"] + tills, {f"coin {n}" for n in range(2 * self.goods)})
        for place, what in (("airline", "seat"), ("hotel", "room")):
            sold = have[place, "sold"]
            goods = [one["good"] for one in sold]
            once(f"{what}s", have[place, "goods"] + goods, {f"{what} {n}" for n in range(self.goods)})
            once(f"sold {what}s", [one["booking"] for one in sold], set(booked))
            for one in sold:
                if booked[one["booking"]][place] != one["good"]:
                    raise Wrong(f"{one['booking']}: {place} sold {one['good']}, booked is {booked[one['booking']]}")
            if len(have[place, "till"]) != len(sold):
                raise Wrong(f"{place}: {len(sold)} sold and {len(have[place, 'till'])} paid")
        self.believe(found.transactions, set(booked))
        again = audit(self.folder)
        self.counts["audits"] += 1
        self.counts["replayed on the calculus"] += again.replay is not None
        if not again or any(again.standing.values()):
            raise Wrong(f"after everything was read: {again.standing}\n{again}")
        self.counts["bookings"] += len(booked)
        self.counts["transactions"] += len(again.transactions)
        self.counts["records"] += again.records
        self.counts["restarts"] += again.restarts

    def believe(self, statuses: Any, booked: set[str]) -> None:
        """What programs were told is so."""
        for role in PLACES:
            for t, booking in self.told("committed", role).items():
                if statuses.get(t) != "committed" or booking not in booked:
                    raise Wrong(
                        f"{role} was told that {t} (booking {booking}) is committed, and it is {statuses.get(t)}"
                    )
            for t, booking in self.told("aborted", role).items():
                if statuses.get(t) == "committed" or (role == "agent" and booking in booked):
                    raise Wrong(
                        f"{role} was told that {t} (booking {booking}) has aborted, and it is {statuses.get(t)}"
                    )
            for word in ("odd", "gone"):
                self.counts[f"{role}: {word}"] += self.words(role)[word]
            self.counts["told committed"] += len(self.told("committed", role))
            self.counts["told aborted"] += len(self.told("aborted", role))
            self.counts["never told"] += len(self.told("doubt", role))


def once(what: str, found: list[Any], expected: set[Any] | None) -> None:
    """Everything is there, and once."""
    twice = [one for one, count in Counter(found).items() if count > 1]
    lost = sorted((expected or set()) - set(found))
    made = sorted(set(found) - expected) if expected is not None else []
    if twice or lost or made:
        raise Wrong(f"{what}: twice {twice[:9]}, lost {lost[:9]}, out of nothing {made[:9]}")


def judge(
    kills: int, seed: int, *, each: int = 25, planted: list[str] | None = None, small: bool = False,
    minutes: float = math.inf,
) -> Counter[str]:  # fmt: skip
    """Kill so often, in networks of their own, none of which begins after so many minutes; what was done."""
    rng, counts = random.Random(seed), Counter[str]()
    until = time.monotonic() + 60 * minutes
    each = 1 if small else each
    while counts["kills"] < kills and time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="pellucid-places-", ignore_cleanup_errors=True) as name:
            Judge(Path(name), rng, counts, planted, small=small).go(min(each, kills - counts["kills"]))
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge.kills_places", description="Kill places and programs.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=25, help="kills in one network")
    parser.add_argument("--small", action="store_true", help="networks that the machine of the calculus can replay")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no network after so many")
    given = parser.parse_args()
    began = time.monotonic()
    try:
        counts = judge(given.kills, given.seed, each=given.each, small=given.small, minutes=given.minutes)
    except Wrong as error:
        print(f"seed {given.seed}, after {time.monotonic() - began:.0f} s: wrong: {error}")
        return 1
    for name, count in sorted(counts.items()):
        print(f"{count:6}  {name}")
    print(f"seed {given.seed}: {counts['kills']} kills in {time.monotonic() - began:.0f} s, nothing wrong")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
