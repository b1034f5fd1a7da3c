"""Small topologies by chance, the same for the same number."""

from __future__ import annotations

import random
from fractions import Fraction

from pellucid.capacity import Bolt, Spout, Topology


def topology(number: int, *, routing: str | None = None, ratios: bool = True, single: bool = False) -> Topology:
    chance = random.Random(number)
    spouts = {
        f"S{i}": Spout(Fraction(chance.randint(1, 12), chance.randint(1, 6))) for i in range(chance.randint(1, 3))
    }
    bolts: dict[str, Bolt] = {}
    for i in range(chance.randint(1, 4)):
        known = [*spouts, *bolts]
        hears = chance.sample(known, chance.randint(1, min(3, len(known))))
        bolts[f"B{i}"] = Bolt(
            time=Fraction(chance.randint(1, 6), chance.randint(1, 4)),
            hears=sorted(hears, key=known.index),
            workers=chance.randint(1, 3),
            ratio=chance.choice([1, 1, "1/2", "3/2", 2, "2/3"]) if ratios else 1,
            queue="per worker" if single and chance.random() < 0.3 else "shared",
            initial=chance.choice([0, 0, 0, 2, 5]),
        )
    chosen = routing or chance.choice(["one", "all"])
    return Topology(spouts, bolts, routing=chosen, name=f"random {number}")  # type: ignore[arg-type]
