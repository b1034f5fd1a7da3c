"""Random well-typed networks: small, with what it takes to break rules: send | commit | abort in one transaction."""

from __future__ import annotations

import random

NAMES = (
    "new t1, t2, t3: Trans. new p, q: Place. new c, d: Chan[<>]. new a: Chan[Chan[<>]]. new k: Key[<>]. "
    "new s: Chan[Packet[<>]]. new m: Chan[Packet[Cap[Chan[<>]] -> ()]]. new j: Key[Cap[Chan[<>]] -> ()]. "
)

SHAPES = [
    ("p[ {0} | {1} | {2} ]", "ppp"),
    ("p[ {0} | {1} ] | q[ {2} ]", "ppq"),
    ("p[ {0} | q[ {1} | {2} ] ]", "pqq"),
]


class Draw:
    """Draws processes for one place."""

    def __init__(self, chance: random.Random, here: str, others: list[str], *, mobile: bool) -> None:
        self.chance, self.here, self.others, self.mobile = chance, here, others, mobile

    def way(self) -> str:
        """Where a message goes: mostly here."""
        if self.others and self.chance.random() < 0.35:
            return f"out {self.here}.in {self.chance.choice(self.others)}."
        return ""

    def send(self) -> str:
        kinds = ["in c, <>", "in c, <>", "in d, <>", "in a, c", "in s, k[<>]"]
        if self.mobile:
            kinds += ["in m.in j, (y) send(y, <>)"] * 2
        return f"send({self.way()}{self.chance.choice(kinds)})"

    def small(self) -> str:
        return self.chance.choice(["commit", "commit", "abort", "0", "(commit | abort)", self.send()])

    def receive(self, depth: int = 1) -> str:
        then = self.receive(depth - 1) if depth and self.chance.random() < 0.3 else self.small()
        later = self.chance.choice(["0", "abort", "commit"])
        kinds = [f"receive(out c, (x) {then}, {later})"] * 3 + [
            f"receive(out d, (x) {then}, {later})",
            f"receive(out a, (y) send(in y, <>) | {then}, {later})",
            f"receive(out s, (z) decrypt(out k, z, (x) {then}), {later})",
        ]
        if self.mobile:
            kinds += [f"open(out m.out j, in d, {then}, {later})", f"forward(out m, in m, {then}, {later})"]
        return self.chance.choice(kinds)

    def one(self) -> str:
        kinds = [self.send] * 3 + [self.receive] * 4 + [lambda: "commit", lambda: "abort"] * 2
        kinds.append(lambda: f"new z: Chan[<>]. send(in a, z) | receive(out z, (x) {self.small()}, 0)")
        kinds.append(lambda: f"child({self.small()})")
        return self.chance.choice(kinds)()

    def transaction(self, parts: int) -> str:
        return " | ".join(f"({self.one()})" for _ in range(parts))


def network(seed: int, *, mobile: bool = True) -> str:
    """The text of a network: two or three transactions at one or two places, beside or inside each other."""
    chance = random.Random(seed)
    shape, homes = chance.choice(SHAPES)
    beside = ["p", "q"] if "] | q[" in shape else []
    filled = []
    count = chance.choice([2, 3])
    for n in range(3):
        there = [place for place in beside if place != homes[n]]
        draw = Draw(chance, homes[n], there, mobile=mobile)
        filled.append(f"t{n + 1}{{{draw.transaction(chance.choice([1, 2, 2, 3]))}}}" if n < count else "0")
    return NAMES + shape.format(*filled)
