"""Random small topologies, the same every time."""

from __future__ import annotations

import random

from pellucid.capacity import Bolt, Spout, Topology

GAPS = ["1/2", "2/3", "1", "3/2", "2", "3"]
TIMES = ["1/2", "1", "3/2", "2"]


def topology(seed: int) -> Topology:
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
