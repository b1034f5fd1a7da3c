"""Random small networks: send, commit and abort in one transaction, places in places, places with equal names, private
names, packets, packets passed on, mobile processes, children, recursive types, replication, time-outs, circles,
messages on their way, and messages that nobody can ever read."""

from __future__ import annotations

import random

from tests.judge.atomic.terms import NIL, TRANS, UNIT, Term, path

CHAN: Term = ("Chan", UNIT)
CAP: Term = ("Cap", CHAN)
PLACE: Term = ("Place",)
PAIR: Term = ("tuple", (CHAN, CAP))
MOBILE: Term = ("proc", CAP)
SELF: Term = ("rec", "X", ("Chan", ("var", "X")))  # a channel of itself
SELVES: tuple[Term, ...] = (
    SELF, ("Chan", SELF), ("rec", "Y", ("Chan", ("Chan", ("var", "Y")))),
    ("Chan", ("rec", "Z", ("Chan", ("var", "Z")))),
    ("rec", "X", ("rec", "Y", ("Chan", ("var", "X")))),
)  # fmt: skip
LINK: Term = ("rec", "X", ("Chan", ("tuple", (("var", "X"), CHAN))))
LINKED: tuple[Term, ...] = (
    ("tuple", (LINK, CHAN)), ("rec", "X", ("tuple", (("Chan", ("var", "X")), CHAN))),
    ("tuple", (("Chan", ("tuple", (LINK, CHAN))), CHAN)),
)  # fmt: skip
KINDS: dict[str, Term] = {
    "c": CHAN, "d": CHAN, "a": ("Chan", CHAN), "w": ("Chan", CAP), "v": ("Chan", PAIR), "r": ("Chan", PLACE),
    "s": ("Chan", ("Packet", UNIT)), "k": ("Key", UNIT), "l": ("Key", UNIT), "m": ("Chan", ("Packet", MOBILE)),
    "j": ("Key", MOBILE), "i": ("Key", MOBILE), "e": ("Chan", ("Key", UNIT)), "o": SELVES[0], "f": SELVES[2], "n": LINK,
}  # fmt: skip
ABORT: Term = ("abort",)
COMMIT: Term = ("commit",)


def name(n: str) -> Term:
    return ("name", n)


def into(n: str) -> Term:
    return ("in", name(n))


def out(n: str) -> Term:
    return ("out", name(n))


def par(*parts: Term) -> Term:
    return ("par", parts)


class Draw:
    """One network."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fresh = 0
        self.room = 2  # for messages inside of others
        self.packets_as_keys = False
        self.places: list[tuple[str, int]] = [("", -1)]
        for _ in range(self.chance.choice([1, 1, 2, 2, 3])):
            self.places.append((self.chance.choice("ppq"), self.chance.randrange(len(self.places))))
        self.focus = self.chance.choice(["plain", "plain", "values", "packets", "mobile", "private", "children", "rec"])

    def draw(self) -> Term:
        """The network, with all its names."""
        chance = self.chance
        at: dict[int, list[Term]] = {n: [] for n in range(len(self.places))}
        for n in range(chance.choice([2, 2, 3])):
            home = chance.randrange(1, len(self.places)) if chance.random() < 0.93 else 0
            size = chance.choice([1, 2, 2, 3]) if n < 2 else chance.choice([1, 1, 2])
            mine = [self.part(home) for _ in range(size)]
            at[home].append(("runs", f"t{n + 1}", par(*mine)))
            if chance.random() < 0.08:
                there = chance.randrange(len(self.places))
                message = self.send(there)
                at[there].append(("runs", f"t{n + 1}", message if message[0] == "send" else NIL))
                if all(part[0] == "send" for part in mine):
                    at[home].append(("runs", f"t{n + 1}", COMMIT))
        network = self.net(0, at)
        if chance.random() < 0.12:
            network = ("new", "c", CHAN, network)  # hides the other one of this name
        for own, kind in reversed(KINDS.items()):
            network = ("new", own, kind, network)
        for own in ("q", "p"):
            network = ("new", own, PLACE, network)
        for own in ("t3", "t2", "t1"):
            network = ("new", own, TRANS, network)
        return network

    def net(self, where: int, at: dict[int, list[Term]]) -> Term:
        inner = [self.inside(n, self.net(n, at)) for n, (_, parent) in enumerate(self.places) if parent == where]
        parts = [*at[where], *inner]
        self.chance.shuffle(parts)
        return ("wire", tuple(parts))

    def inside(self, n: int, network: Term) -> Term:
        if self.chance.random() < 0.1:
            network = ("new", self.chance.choice("cd"), CHAN, network)
        return ("place", self.places[n][0], network)

    def variable(self) -> str:
        self.fresh += 1
        return self.chance.choice([f"x{self.fresh}", "x", "y"])

    # -- where messages go

    def above(self, n: int) -> list[int]:
        return [] if n <= 0 else [n, *self.above(self.places[n][1])]

    def way(self, here: int) -> list[Term]:
        """To some place, mostly this one; now and then one that leads nowhere."""
        chance = self.chance
        if chance.random() < 0.6 and here:
            return []
        if chance.random() < 0.08:
            return [chance.choice([into, out])(chance.choice("pq"))]
        there = chance.randrange(1, len(self.places))
        up, down = self.above(here), self.above(there)
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        return [out(self.places[n][0]) for n in up] + [into(self.places[n][0]) for n in reversed(down)]

    def send(self, here: int, known: dict[str, Term] | None = None) -> Term:
        """A message: of a kind that the focus asks for, mostly over the same channel."""
        chance, known = self.chance, known or {}
        way = self.way(here)
        units = ["c", "c", "c", "d", *(x for x, kind in known.items() if kind == CHAN)]

        def to(channel: str, what: Term) -> Term:
            last = into(channel) if chance.random() < 0.97 else out(channel)  # which has a type, too
            return ("send", path(*way, last), what)

        plain = to(chance.choice(units), UNIT)
        caps = [x for x, kind in known.items() if kind == CAP]
        if caps and chance.random() < 0.6:
            return ("send", path(*way, name(chance.choice(caps))), UNIT)
        packets = [x for x, kind in known.items() if kind == ("Packet", UNIT)]
        if packets and chance.random() < 0.7:
            return to("s", name(chance.choice(packets)))
        if chance.random() < 0.35 or self.focus == "plain":
            return plain
        channel = name(chance.choice(units))
        match self.focus:
            case "values":
                return chance.choice([
                    to("a", channel), to("w", ("in", channel)), to("v", ("tuple", (channel, ("in", channel)))),
                    to("r", name(chance.choice("pq"))), to("w", path(into("p"), ("in", channel))),
                ])  # fmt: skip
            case "packets":
                key = chance.choice("kkl")
                return chance.choice([
                    to("s", ("packet", name(key), UNIT)), to("e", name(key)),
                    ("crypt", into(key), UNIT, ("fn", "z", ("Packet", UNIT), to("s", name("z")))),
                ])  # fmt: skip
            case "mobile":
                x = self.variable()
                body = chance.choice([
                    ("send", name(x), UNIT), par(("send", name(x), UNIT), COMMIT), self.end(), NIL,
                    ("receive", out("c"), ("fn", "u", UNIT, self.end()), NIL),
                ])  # fmt: skip
                over, key = [into("m")], chance.choice("jjji")
                seal = into(key)
                if chance.random() < 0.06:  # what nobody can read
                    over, seal = chance.choice([([], seal), (over, out(key)), ([out("m")], seal)])
                return ("send", path(*way, *over, seal), ("fn", x, CAP, body))
            case "rec":
                own = name(chance.choice(["o", "f", *(x for x, kind in known.items() if kind == SELF)]))
                return chance.choice([to(chance.choice("of"), own), to("n", ("tuple", (name("n"), channel)))])
            case "private" if "z" not in known:
                return ("new", "z", CHAN, par(to("a", name("z")), self.receive(here, 0, {"z": CHAN})))
        return plain

    # -- what processes do

    def end(self) -> Term:
        if self.focus == "children" and self.room and self.chance.random() < 0.3:
            self.room -= 1
            return par(("child", self.chance.choice([self.end(), self.receive(1, 0, {})])), self.end())
        return self.chance.choice([COMMIT, COMMIT, ABORT, NIL, par(COMMIT, ABORT)])

    def then(self, here: int, depth: int, known: dict[str, Term]) -> Term:
        chance = self.chance
        pick = chance.random()
        if depth and pick < 0.25:
            return self.receive(here, depth - 1, known)
        if pick < 0.45 and self.room:
            self.room -= 1
            return par(self.send(here, known), self.end())
        return self.end()

    def receive(self, here: int, depth: int, known: dict[str, Term]) -> Term:
        chance = self.chance
        late = chance.choice([NIL, NIL, ABORT, COMMIT])
        x = self.variable()

        def take(channel: str, kind: Term, then: Term) -> Term:
            return ("receive", out(channel), ("fn", x, kind, then), late)

        def go_on(**more: Term) -> Term:
            return self.then(here, depth, {n: k for n, k in known.items() if n not in more and n != x} | more)

        units = ["c", "c", "c", "d", *(n for n, kind in known.items() if kind == CHAN)]
        if chance.random() < 0.4 or self.focus in ("plain", "children"):
            return take(chance.choice(units), UNIT, go_on())
        match self.focus:
            case "values":
                return chance.choice([
                    take("a", CHAN, par(("send", into(x), UNIT), go_on(**{x: CHAN}))),
                    take("a", CHAN, ("receive", out(x), ("fn", "u", UNIT, self.end()), NIL)),
                    take("w", CAP, par(("send", name(x), UNIT), self.end())),
                    take("v", PAIR, ("let", ("g", "h"), name(x), par(("send", into("g"), UNIT), self.end()))),
                    take("r", PLACE, par(("send", path(out(self.places[here][0] or "p"), into(x), into("c")), UNIT),
                                         self.end())),
                    ("app", ("fn", x, CHAN, go_on(**{x: CHAN})), name(chance.choice(units))),
                ])  # fmt: skip
            case "packets":
                key = chance.choice("kkl")
                return chance.choice([
                    take("s", ("Packet", UNIT), ("decrypt", out(key), name(x), ("fn", "u", UNIT, go_on()))),
                    take("s", ("Packet", UNIT), go_on(**{x: ("Packet", UNIT)})),
                    take("s", ("Packet", UNIT), ("decrypt", out(self.opener(x)), name(x), ("fn", "u", UNIT, go_on()))),
                    take("e", ("Key", UNIT),
                         ("decrypt", out(x), ("packet", name(key), UNIT), ("fn", "u", UNIT, go_on()))),
                ])  # fmt: skip
            case "mobile":
                if chance.random() < 0.35:
                    return ("forward", out("m"), path(*self.way(here), into("m")), go_on(), late)
                give = into(chance.choice("cd"))
                return ("open", path(out("m"), out(chance.choice("jjji"))), give, go_on(), late)
            case "rec":
                return chance.choice([
                    take(chance.choice("of"), chance.choice(SELVES), go_on(**{x: SELF})),
                    take(chance.choice("of"), chance.choice(SELVES),
                         par(("send", into(x), name(chance.choice([x, "o", "f"]))), self.end())),
                    take("n", chance.choice(LINKED), ("let", ("g", "h"), name(x), par(
                        ("send", into("h"), UNIT), ("send", into("g"), ("tuple", (name("n"), name("h")))),
                        self.end()))),
                    ("app", ("fn", x, chance.choice(SELVES), go_on(**{x: SELF})), name(chance.choice("of"))),
                ])  # fmt: skip
            case "private":
                return take("a", CHAN, par(("send", into(x), UNIT), go_on(**{x: CHAN})))
        return take("c", UNIT, go_on())

    def opener(self, packet: str) -> str:
        """A key; now and then the packet itself, which as printed has the type of one."""
        return packet if self.packets_as_keys else "k"

    def part(self, here: int) -> Term:
        chance = self.chance
        pick = chance.random()
        if pick < 0.3:
            return self.send(here)
        if pick < 0.65:
            return self.receive(here, 1, {})
        if pick < 0.8:
            return COMMIT
        if pick < 0.92:
            return ABORT
        if pick < 0.95:
            return ("bang", self.send(here))
        if pick < 0.96 or self.focus == "children":
            return ("child", par(chance.choice([self.send(here), self.receive(here, 0, {})]), self.end()))
        return NIL


def network(seed: int) -> Term:
    """The network of a seed."""
    return Draw(seed).draw()


def confused(seed: int) -> Term:
    """A network in which packets are taken for keys."""
    draw = Draw(seed)
    draw.focus, draw.packets_as_keys = "packets", True
    return draw.draw()
