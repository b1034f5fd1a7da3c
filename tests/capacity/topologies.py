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


# Random small topologies, the same every time.

GAPS = ["1/2", "2/3", "1", "3/2", "2", "3"]
TIMES = ["1/2", "1", "3/2", "2"]


def topology_topologies(seed: int) -> Topology:
    """One or two spouts, one to three bolts, without circles; everything that a topology can have."""
    chance = random.Random(seed)
    spouts = {f"S{i + 1}": Spout(chance.choice(GAPS)) for i in range(chance.choice([1, 1, 2]))}
    bolts: dict[str, Bolt] = {}
    for i in range(chance.choice([1, 2, 2, 3])):
        known = [*spouts, *bolts]
        hears = chance.sample(known, chance.randint(1, min(2, len(known))))
        bolts[f"B{i + 1}"] = Bolt(
            chance.choice(TIMES), hears, workers=chance.choice([1, 1, 2, 3]),
            ratio=chance.choice([1, 1, 1, "1/2", 2, 0]),
            queue=chance.choice(["shared", "shared", "shared", "per worker"]),
            initial=chance.choice([0, 0, 0, 2]),
        )  # fmt: skip
    return Topology(
        spouts, bolts, routing=chance.choice(["one", "all"]), observe=chance.choice(["any", "settled"]),
        name=f"random {seed}",
    )  # fmt: skip
