"""Runs of places, made from what they mean and from nothing else: logs as places that keep the rules would write them,
and the same with one fault planted (`FAULTS`, in the module beside).

There is one world, which everybody sees at once: who is what, what lies where.  Chance says who does something next: a
program begins, sends, takes, asks to commit or gives up; a message arrives; a place dies and starts again; a set that
is closed commits, in one place by one record, over several by prepared, decided, committed, ended, with whatever
happens in between.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.atomic.places.planted_faults import Faults

TREES: list[dict[str, str | None]] = [
    {"agent": None, "airline": None, "hotel": None},
    {"office": None, "agent": "office", "hotel": None},
    {"a": None},
]
CHANNELS = ("c", "d")
LASTING = {"boot", "commit", "prepared", "decide", "hand"}  # synced, and with them all before


@dataclass
class T:
    """A transaction."""

    name: str
    home: str
    status: str = "active"
    took: list[str] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    sent: int = 0
    attempt: str = ""  # a live one
    parent: str = ""


@dataclass
class M:
    """A message."""

    mid: str
    sender: str
    to: str
    channel: str
    value: Any
    there: bool = False
    taken: str = ""
    lost: bool = False  # nobody has it on record that it was sent


@dataclass
class A:
    """An attempt."""

    name: str
    coordinator: str
    members: list[str]
    places: list[str]
    prepared: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    decided: bool = False
    over: bool = False


class World(Faults):
    """All that is, and the logs."""

    def __init__(self, seed: int, fault: str = "", *, equal: bool = True, steps: int = 60) -> None:
        self.chance = random.Random(f"{seed} {fault}")
        self.tree = TREES[2] if self.chance.random() < 0.15 else self.chance.choice(TREES[:2])
        self.places = list(self.tree)
        self.fault, self.equal = fault, equal
        self.planted: tuple[str, int] | None = None
        self.logs: dict[str, list[tuple[int, str, dict[str, Any]]]] = {p: [] for p in self.places}
        self.boots = dict.fromkeys(self.places, 0)
        self.marked = self.chance.random() < 0.8  # else as logs of before marks
        self.numbers = dict.fromkeys(self.places, 0)
        self.ts: dict[str, T] = {}
        self.ms: dict[str, M] = {}
        self.attempts: list[A] = []
        self.synced = dict.fromkeys(self.places, 0)
        for p in self.places:
            self.boot(p)
        for n in range(steps):
            self.act()
            if fault and not self.planted and n > 8:
                self.plant()
        for _ in range(200):
            if not fault or self.planted:
                break
            self.act()
            self.plant()

    # ------------------------------------------------------------ writing

    def write(self, place: str, kind: str, /, **fields: Any) -> tuple[str, int]:
        log = self.logs[place]
        seq = log[-1][0] + 1 if log else 1
        log.append((seq, kind, fields))
        if kind in LASTING:
            self.synced[place] = len(log)
        return place, seq

    def boot(self, place: str) -> None:
        self.boots[place] += 1
        self.numbers[place] = 0
        self.write_boot(place)
        for t in self.of("active", place):
            self.undo(t, "crash")

    def write_boot(self, place: str) -> tuple[str, int]:
        n = self.boots[place]
        return self.write(place, "boot", n=n, **({"mark": f"m{n}"} if self.marked else {}))

    def start(self, place: str) -> str:
        n = self.boots[place]
        return f"{n}-m{n}" if self.marked else str(n)

    # ------------------------------------------------------------ what is

    def of(self, status: str, place: str = "") -> list[T]:
        return [t for t in self.ts.values() if t.status == status and place in ("", t.home)]

    def path(self, start: str, to: str, channel: str) -> list[list[Any]]:
        up, down = self.around(start), self.around(to)
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        steps = [*(["out", p, b""] for p in up), *(["in", p, b""] for p in reversed(down))]
        return [*steps, ["in", channel, b""]]

    def around(self, place: str) -> list[str]:
        out = [place]
        while (parent := self.tree[out[-1]]) is not None:
            out.append(parent)
        return out

    def component(self, t: T) -> list[T]:
        """Those that t needs and that need t, not counting who is committed."""
        return [u for u in self.ts.values() if u.name in self.reach(t) and t.name in self.reach(u)]

    def reach(self, t: T) -> set[str]:
        found, todo = {t.name}, [t.name]
        while todo:
            for u in self.ts[todo.pop()].needs:
                if u not in found and u in self.ts and self.ts[u].status != "committed":
                    found.add(u)
                    todo.append(u)
        return found

    # ------------------------------------------------------------ acts

    def act(self) -> None:
        """Something happens."""
        acts = [self.begin] * 5 + [self.send] * 8 + [self.arrive] * 8 + [self.take] * 9 + [self.ask] * 3
        acts += (
            [self.give_up, self.die, self.cascade, self.cascade]
            + [self.meet] * 4
            + [self.settle] * 5
            + [self.advance] * 8
        )
        before = self.size()
        for _ in range(30):
            self.chance.choice(acts)()
            if self.size() != before:
                return

    def size(self) -> list[int]:
        return [*map(len, self.logs.values()), len(self.attempts)]

    def begin(self, place: str = "", parent: T | None = None) -> T:
        if not place and parent is None and self.chance.random() < 0.2 and (running := self.of("active")):
            parent = self.chance.choice(running)
        place = place or (parent.home if parent else self.chance.choice(self.places))
        self.numbers[place] += 1
        t = T(f"{place}:{self.start(place)}:{self.numbers[place]}", place)
        if parent:
            t.parent = parent.name
            t.needs.add(parent.name)
        self.ts[t.name] = t
        self.write(place, "begin", t=t.name, parent=parent.name if parent else None)
        return t

    def send(self, t: T | None = None, to: str = "") -> M | None:
        if t is None:
            if not (running := self.of("active")):
                return None
            t = self.chance.choice(running)
        t.sent += 1
        mid = f"{t.name}/{t.sent}"
        to, channel = to or self.chance.choice(self.places), self.chance.choice(CHANNELS)
        value = self.chance.randrange(2) if self.equal else f"v{len(self.ms)}"
        m = self.ms[mid] = M(mid, t.name, to, channel, value)
        self.write(t.home, "send", t=t.name, seq=t.sent, path=self.path(t.home, to, channel), value=value)
        if to == t.home:
            self.arrive(m)
        return m

    def arrive(self, m: M | None = None) -> None:
        coming = [one for one in self.ms.values() if not one.there]
        if m is None and not coming:
            return
        m = m or self.chance.choice(coming)
        m.there = True
        self.write(m.to, "deposit", channel=m.channel, mid=m.mid, sender=m.sender, value=m.value)
        home = self.ts[m.sender].home
        if home != m.to and not m.lost and self.chance.random() < 0.7:
            self.synced[m.to] = len(self.logs[m.to])
            self.write(home, "sent", t=m.sender, seq=int(m.mid.rpartition("/")[2]))

    def meet(self) -> None:
        """Two exchange messages and ask to commit: they depend on each other."""
        if len(running := self.of("active")) < 2 or len(self.of("pending")) > 4:
            return
        t, u = self.chance.sample(running, 2)
        for one, other in ((t, u), (u, t)):
            m = self.send(one, other.home)
            assert m is not None
            if not m.there:
                self.arrive(m)
            self.taken(other, m)
        for one in (t, u):
            one.status = "pending"
            self.write(one.home, "pending", t=one.name)

    def can_take(self, t: T) -> list[M]:
        return [
            m for m in self.ms.values()
            if m.there and not m.taken and m.to == t.home
            and not (self.ts[m.sender].status == "aborted" and self.ts[m.sender].home == t.home)
        ]  # fmt: skip

    def take(self) -> None:
        able = [(t, m) for t in self.of("active") for m in self.can_take(t)]
        if able:
            self.taken(*self.chance.choice(able))

    def taken(self, t: T, m: M) -> tuple[str, int]:
        m.taken = t.name
        t.took.append(m.mid)
        if m.sender != t.name:
            t.needs.add(m.sender)
        return self.write(t.home, "take", t=t.name, channel=m.channel, mid=m.mid, sender=m.sender)

    def ask(self) -> None:
        if (running := self.of("active")) and len(self.of("pending")) < 6:
            t = self.chance.choice(running)
            t.status = "pending"
            self.write(t.home, "pending", t=t.name)

    def undo(self, t: T, why: str) -> tuple[str, int]:
        waited, t.status = t.status == "pending", "aborted"
        for mid in t.took:
            if self.ms[mid].taken == t.name:
                self.ms[mid].taken = ""
        where = self.write(t.home, "abort", t=t.name, why=why, back=list(t.took))
        if waited:  # it would ask again after a restart
            self.synced[t.home] = len(self.logs[t.home])
        return where

    def give_up(self) -> None:
        free = [t for t in self.of("active") + self.of("pending") if not t.attempt]
        if free:
            t = self.chance.choice(free)
            self.undo(t, "asked" if t.status == "active" or self.chance.random() < 0.5 else "by hand")

    def die(self) -> None:
        if self.chance.random() < 0.4:
            place = self.chance.choice(self.places)
            if self.chance.random() < 0.6 and not self.planted:
                self.lose(place, self.chance.randint(self.synced[place], len(self.logs[place])))
            self.boot(place)

    def lose(self, place: str, kept: int) -> None:
        """What was not synced dies with the place; what others have seen of it they have seen."""
        dropped = self.logs[place][kept:]
        del self.logs[place][kept:]
        for _, kind, f in reversed(dropped):
            if kind == "begin":
                self.ts[f["t"]].status = "lost"
            elif kind == "send":
                m = self.ms[f"{f['t']}/{f['seq']}"]
                m.lost = True
                if not m.there and (m.to == place or self.chance.random() < 0.5):
                    del self.ms[m.mid]
            elif kind == "deposit":
                self.ms[f["mid"]].there = False
            elif kind == "take":
                t = self.ts[f["t"]]
                self.ms[f["mid"]].taken = ""
                t.took.remove(f["mid"])
                t.needs = {self.ms[mid].sender for mid in t.took} | {t.parent} - {t.name}
                t.needs.discard("")
                t.needs.discard(t.name)
            elif kind == "pending":
                self.ts[f["t"]].status = "active"
            elif kind == "abort":
                t = self.ts[f["t"]]
                t.status = "active"
                for mid in t.took:
                    self.ms[mid].taken = t.name

    def cascade(self) -> None:
        able = [
            (t, u) for t in self.of("active") + self.of("pending") if not t.attempt
            for u in sorted(t.needs) if u in self.ts and self.ts[u].status in ("aborted", "lost")
        ]  # fmt: skip
        if able:
            t, u = self.chance.choice(able)
            self.undo(t, f"cascade from {u}")

    def ready(self) -> list[list[T]]:
        """Closed sets that can commit: everybody has asked, and what they need besides is committed."""
        out = []
        for t in self.of("pending"):
            whole = self.component(t)
            names = {u.name for u in whole}
            outside = {u for one in whole for u in one.needs} - names
            asked = t is whole[0] and all(u.status == "pending" and not u.attempt for u in whole)
            if asked and all(self.ts[u].status == "committed" for u in outside):
                out.append(whole)
        return out

    def settle(self) -> None:
        if not (ready := self.ready()):
            return
        whole = self.chance.choice(ready)
        places = sorted({t.home for t in whole})
        if len(places) == 1:
            self.commit(whole)
            return
        first = min(whole, key=lambda t: (t.home, *(int(n.split("-")[0]) for n in t.name.split(":")[1:])))
        self.numbers[first.home] += 1
        name = f"{first.home}:{self.start(first.home)}:a{self.numbers[first.home]}"
        self.attempts.append(A(name, first.home, [t.name for t in whole], places))
        for t in whole:
            t.attempt = name

    def commit(self, whole: list[T]) -> tuple[str, int]:
        for t in whole:
            t.status = "committed"
        return self.write(whole[0].home, "commit", members=[t.name for t in whole], attempt=None)

    def mine(self, a: A, place: str) -> list[str]:
        return [t for t in a.members if self.ts[t].home == place]

    def advance(self) -> None:
        if live := [a for a in self.attempts if not a.over]:
            self.advanced(self.chance.choice(live))

    def advanced(self, a: A) -> None:
        others = [p for p in a.places if p != a.coordinator]
        left = [p for p in others if p not in a.prepared]
        stuck = any(self.ts[t].status != "pending" for t in a.members)
        if not a.decided and (stuck or self.chance.random() < 0.15):
            for p in sorted(a.prepared):
                self.write(p, "given_up", attempt=a.name)
            for t in a.members:
                self.ts[t].attempt = ""
            a.over = True
        elif left:
            p = self.chance.choice(left)
            a.prepared.add(p)
            self.write(p, "prepared", attempt=a.name, coordinator=a.coordinator, members=self.mine(a, p), needs=[])
        elif not a.decided:
            self.decide(a)
        elif late := [p for p in others if p not in a.done]:
            self.done(a, self.chance.choice(late))
        else:
            self.write(a.coordinator, "end", attempt=a.name)
            a.over = True

    def decide(self, a: A) -> tuple[str, int]:
        a.decided = True
        for t in a.members:
            self.ts[t].status = "committed"
        where = self.write(
            a.coordinator, "decide", attempt=a.name, members=list(a.members), participants=list(a.places)
        )
        self.done(a, a.coordinator)
        return where

    def done(self, a: A, place: str) -> tuple[str, int]:
        a.done.add(place)
        return self.write(place, "commit", members=self.mine(a, place), attempt=a.name)
