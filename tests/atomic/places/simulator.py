"""Several places, their clients, a network and disks, all in one thread and all by a seed.

The network loses, doubles, delays and reorders.  A place can be killed before and after each write, each sync, each
message and each reply; what was written and not synced is lost from any point on.  Places talk through msgpack, and a
restart reads the records as a log would.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgpack

from pellucid.atomic.places.core import Asked, Core, Effects, Heard, Tick, Tree
from pellucid.atomic.places.core.state import Record
from tests.atomic.places import oracle

Script = Generator[tuple[str, dict[str, Any]], dict[str, Any], None]
Program = Callable[["World", str], Script]


class Killed(Exception):  # noqa: N818 - reads as what it is
    """The place died in the middle of what it was doing."""


class Client:
    """A program at a place; it lives no longer than its connection."""

    def __init__(self, number: int, place: str, script: Script) -> None:
        self.number, self.place, self.script = number, place, script
        self.answer: dict[str, Any] | None = {}
        self.waits = 0
        self.requests = 0


class World:
    """Places of a network, flat unless ``parents`` says otherwise."""

    def __init__(
        self, channels: Mapping[str, Sequence[str]], *, parents: Mapping[str, str | None] | None = None, seed: int = 0,
        core: type[Core] = Core, lazy: bool = False, watch: bool = True,
    ) -> None:  # fmt: skip
        self.random = random.Random(seed)
        self.parents = dict(parents) if parents is not None else dict.fromkeys(channels)
        self.channels, self.core, self.lazy, self.watch = channels, core, lazy, watch
        self.disk: dict[str, list[tuple[str, bytes, float]]] = {p: [] for p in self.parents}
        self.lasting = dict.fromkeys(self.parents, 0)
        self.cores: dict[str, Core | None] = dict.fromkeys(self.parents)
        self.flying: list[tuple[str, str, bytes]] = []
        self.clients: list[Client] = []
        self.now = 1000.0
        self.steps = 0
        self.kill_at: dict[int, str] = {}  # a step, and what is lost of what was written: none, some, all
        self.promised: dict[str, str] = {}
        self.count = self.marks = 0
        self.answers: dict[Any, dict[str, Any]] = {}
        self.said: list[tuple[str, str, dict[str, Any]]] = []  # everything that was ever sent
        for place in self.parents:
            self.start(place)
        self.flying.clear()  # that they have started: nobody has heard of a start before

    # ------------------------------------------------------------ places

    def tree(self, place: str) -> Tree:
        """With the tokens that this place asks for."""
        own = [("in", place), ("out", place), *(("in", c) for c in self.channels.get(place, ()))]
        return Tree(self.parents, self.channels, {step: self.token(place, step) for step in own})

    def token(self, place: str, step: tuple[str, str]) -> bytes:
        return f"{place} {step[0]} {step[1]}".encode()

    def path(self, start: str, place: str, channel: str) -> list[list[Any]]:
        """With the right tokens."""
        route = self.tree(start).route(start, place, channel)
        return [[m, n, self.token(place if n == channel else n, (m, n))] for m, n in route]

    def start(self, place: str) -> None:
        """Read what lasts and go on."""
        records = [Record.unpack(*line) for line in self.disk[place]]
        core = self.core(place, self.tree(place), records)
        self.cores[place] = core
        self._carry(place, core.start(self.now, mark=self.mark(place)))

    def mark(self, place: str) -> str | None:
        """One that was never used."""
        self.marks += 1
        return f"m{self.marks}"

    def up(self, place: str) -> Core:
        core = self.cores[place]
        assert core is not None
        return core

    def kill(self, place: str, lost: str = "all") -> None:
        """``lost``: what becomes of records that were written and not synced."""
        written, sure = len(self.disk[place]), self.lasting[place]
        keep = {"all": sure, "none": written, "some": self.random.randint(sure, written)}[lost]
        del self.disk[place][keep:]
        self.lasting[place] = keep
        self.cores[place] = None
        self.clients = [c for c in self.clients if c.place != place]

    def _carry(self, place: str, effects: Effects) -> None:
        """Write, sync, send, reply; any of it may be the last."""
        if not effects:
            return
        self._step(place)
        self.disk[place] += [(r.kind, r.pack(), r.when) for r in effects.writes]
        if self.lazy:
            self._speak(place, effects)
        if effects.sync:
            self._step(place)
            self.lasting[place] = len(self.disk[place])
            self._step(place)
        if self.watch and effects.sync:
            wrong = oracle.judge(self.logs(lasting=True))
            assert not wrong, wrong
        if not self.lazy:
            self._speak(place, effects)

    def _speak(self, place: str, effects: Effects) -> None:
        for peer, message in effects.sends:
            assert peer != place
            self.said.append((place, peer, message))
            self.flying.append((place, peer, msgpack.packb(message)))
            self._step(place)
        for (number, request), answer in effects.replies:
            self.answers[number, request] = msgpack.unpackb(msgpack.packb(answer))
            client = next((c for c in self.clients if c.number == number), None)
            if client is not None and client.waits == request:
                client.answer, client.waits = self.answers[number, request], 0
            self._step(place)

    def _step(self, place: str) -> None:
        self.steps += 1
        if self.steps in self.kill_at:
            self.kill(place, self.kill_at[self.steps])
            raise Killed(place)

    def logs(self, *, lasting: bool = False) -> dict[str, list[oracle.Line]]:
        """What is on the disks, for the oracle."""
        found: dict[str, list[oracle.Line]] = {}
        for place, lines in self.disk.items():
            kept = lines[: self.lasting[place]] if lasting else lines
            found[place] = [(k, dict(Record.unpack(k, data).fields)) for k, data, _ in kept]
        return found

    # ------------------------------------------------------------ what happens

    def client(self, place: str, program: Program) -> Client:
        """A new one, which has not begun."""
        self.count += 1
        made = Client(self.count, place, program(self, place))
        self.clients.append(made)
        return made

    def go(self, client: Client) -> None:
        """The client takes its answer and asks the next."""
        answer, client.answer = client.answer, None
        try:
            op, args = next(client.script) if client.requests == 0 else client.script.send(answer or {})
        except StopIteration:
            self.gone(client)
            return
        client.requests += 1
        client.waits = client.requests
        asked = Asked((client.number, client.requests), client.number, op, args)
        self._do(client.place, lambda core: core.handle(asked))

    def gone(self, client: Client) -> None:
        self.clients.remove(client)
        self._do(client.place, lambda core: core.handle(Asked((0, 0), client.number, "gone")))

    def deliver(self, which: int, *, keep: bool = False) -> None:
        sender, to, data = self.flying[which] if keep else self.flying.pop(which)
        if self.cores[to] is not None:
            self._do(to, lambda core: core.handle(Heard(sender, msgpack.unpackb(data))))

    def tick(self, seconds: float = 0.3) -> None:
        self.now += seconds
        for place in self.parents:
            if self.cores[place] is not None:
                self._do(place, lambda core: core.handle(Tick(self.now)))

    def _do(self, place: str, what: Callable[[Core], Effects]) -> None:
        core = self.cores[place]
        if core is None:
            return
        with suppress(Killed):
            self._carry(place, what(core))

    def restart_all(self) -> None:
        for place in self.parents:
            while self.cores[place] is None:
                with suppress(Killed):
                    self.start(place)

    def ready(self) -> list[Client]:
        return [c for c in self.clients if c.answer is not None]

    def undecided(self) -> int:
        return sum(len(core.state.live) for core in self.cores.values() if core is not None)

    # ------------------------------------------------------------ by hand, for tests that say what happens when

    def ask(self, place: str, op: str, client: str = "me", **args: Any) -> dict[str, Any]:
        """An operation of a client of its own; the answer, or nothing if there is none yet (see `answers`)."""
        self.count += 1
        self.last = (f"{client} at {place}", self.count)
        asked = Asked(self.last, self.last[0], op, args)
        self._do(place, lambda core: core.handle(asked))
        return self.answers.get(self.last, {})

    def begin(self, place: str, **args: Any) -> str:
        return str(self.ask(place, "begin", **args)["t"])

    def send(self, t: str, place: str, channel: str, value: Any = 0, client: str = "me") -> None:
        """From a transaction to a channel, and it arrives."""
        here = oracle.home(t)
        assert "mid" in self.ask(here, "send", client, t=t, path=self.path(here, place, channel), value=value)
        self.pass_on("deposit")

    def find(self, kind: str, to: str | None = None) -> list[int]:
        """Messages on their way."""
        return [
            n for n, (_, p, data) in enumerate(self.flying) if msgpack.unpackb(data)["kind"] == kind and to in (None, p)
        ]

    def pass_on(self, kind: str, to: str | None = None, *, keep: bool = False) -> int:
        """Deliver those that are on their way now."""
        found = self.find(kind, to)
        for shift, which in enumerate(found):
            self.deliver(which if keep else which - shift, keep=keep)
        return len(found)

    def drop(self, kind: str, to: str | None = None) -> int:
        found = self.find(kind, to)
        self.flying = [f for n, f in enumerate(self.flying) if n not in found]
        return len(found)

    def until(self, kind: str, to: str | None = None, count: int = 1) -> None:
        """Deliver everything else, in order, until so many of this kind are on their way."""
        for _ in range(1000):
            stop = self.find(kind, to)
            if len(stop) >= count:
                return
            rest = [n for n in range(len(self.flying)) if n not in stop]
            if rest:
                self.deliver(rest[0])
            else:
                self.tick()
        raise AssertionError(f"no {kind} comes")

    def status(self, t: str) -> str:
        return str(self.ask(oracle.home(t), "status", t=t)["status"])

    # ------------------------------------------------------------ ways to run

    def run(self, *, rounds: int = 40, patience: float = 0.6) -> None:
        """As it should be: clients in their order, messages in theirs; who died comes back soon."""
        for _ in range(rounds):
            self.quiet()
            self.restart_all()
            if not self.clients and not self.flying and not self.busy():
                return
            self.tick(patience)
        self.quiet()

    def quiet(self) -> None:
        """Until only time can change something."""
        while True:
            if ready := self.ready():
                self.go(ready[0])
            elif self.flying:
                self.deliver(0)
            else:
                return

    def busy(self) -> bool:
        """Whether something is still to be done."""
        for core in self.cores.values():
            if core is None or core.state.live or core.state.outbox or core.state.decisions:
                return True
        return False

    def storm(self, steps: int, *, lose: float = 0.1, double: float = 0.1, kill: float = 0.01) -> None:
        """Everything that can go wrong, by chance."""
        chance = self.random
        for _ in range(steps):
            if kill and chance.random() < kill * 3:
                self.kill_at = {self.steps + chance.randint(1, 12): chance.choice(["all", "some", "none"])}
            down = [p for p, core in self.cores.items() if core is None]
            choice = chance.random()
            if down and choice < 0.15:
                with suppress(Killed):
                    self.start(chance.choice(down))
            elif self.flying and choice < 0.6:
                which = chance.randrange(len(self.flying))
                if chance.random() < lose:
                    self.flying.pop(which)
                else:
                    self.deliver(which, keep=chance.random() < double)
            elif (ready := self.ready()) and choice < 0.97:
                client = chance.choice(ready)
                if chance.random() < 0.02:
                    self.gone(client)
                else:
                    self.go(client)
            else:
                self.tick(chance.choice([0.1, 0.3, 0.6, 0.6, 3.0, 12.0]))
        self.kill_at = {}

    def heal(self, rounds: int = 60) -> None:
        """Nothing fails any more; clients that still wait go away."""
        self.restart_all()
        for _ in range(10):
            self.quiet()
            self.tick(1.0)
        for client in list(self.clients):
            self.gone(client)
        for _ in range(rounds):
            self.quiet()
            if not self.busy():
                break
            self.tick(16.0)

    def judge(self) -> None:
        """Everything is decided and nothing is wrong; what lies in channels is what the logs say."""
        logs = self.logs()
        assert not (wrong := oracle.judge_end(logs)), wrong
        seen = {
            (p, c, m) for p, core in self.cores.items() if core for c, ms in core.state.channels.items() for m in ms
        }
        expected = oracle.lying(logs)
        assert set(expected) <= seen, sorted(set(expected) - seen)
        done = oracle.committed(logs)
        assert not [m for _, _, m in seen - set(expected) if m.split("/")[0] in done]
        told = [(t, state) for _, _, m in self.said for t, state, _ in m.get("statuses", ())]
        for t, state in [*self.promised.items(), *told]:
            if state in ("committed", "aborted"):
                assert (t in done) == (state == "committed"), f"{t} was told to be {state}, and is not"
