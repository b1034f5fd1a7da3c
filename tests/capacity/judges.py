"""Zones before four judges: the replay of what they find, a grid, a simulation, and the checker of certificates."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction

from pellucid.capacity import Bolt, Constant, Recorded, Spout, Topology, simulate
from pellucid.capacity.zones.certificate import certificate
from pellucid.capacity.zones.network import Network
from pellucid.capacity.zones.search import Zones, search, trace
from pellucid.internal.model import Budget
from tests.capacity.grid import grid


def small(number: int, *, semantics: str = "urgent") -> tuple[Topology, str, int]:
    """A small topology by chance, a bolt of it, and a limit; times are multiples of a half."""
    chance = random.Random(number)
    spouts = {
        f"S{i}": Spout(Fraction(chance.randint(1, 6), chance.choice([1, 2]))) for i in range(chance.randint(1, 2))
    }
    bolts: dict[str, Bolt] = {}
    for i in range(chance.randint(1, 3)):
        known = [*spouts, *bolts]
        bolts[f"B{i}"] = Bolt(
            time=Fraction(chance.randint(1, 3), chance.choice([1, 1, 2])),
            hears=chance.sample(known, chance.randint(1, min(2, len(known)))),
            workers=chance.randint(1, 2),
            ratio=chance.choice([1, 1, 1, "1/2", "3/2", 2]),
            queue="per worker" if semantics == "urgent" and chance.random() < 0.3 else "shared",
            initial=chance.choice([0, 0, 0, 1, 2]),
        )
    routing, observe = chance.choice(["one", "all"]), chance.choice(["any", "settled"])
    t = Topology(spouts, bolts, routing, semantics, observe, name=f"small {number}")  # type: ignore[arg-type]
    return t, chance.choice(list(bolts)), chance.randint(1, 3)


@dataclass
class Tally:
    """What the judges said."""

    wrong: list[str] = field(default_factory=list)
    safe: int = 0
    unsafe: int = 0
    cut: int = 0
    certified: int = 0
    on_grid: int = 0

    def __str__(self) -> str:
        return (
            f"{self.safe} safe ({self.certified} certified), {self.unsafe} unsafe ({self.on_grid} also on a grid), "
            f"{self.cut} cut short; wrong: {self.wrong}"
        )


def judge(t: Topology, bolt: str, limit: int, tally: Tally, *, most: int = 3_000) -> Zones:
    """Ask zones, and ask the judges about the answer."""
    found = search(Network.of(t, bolt), limit=limit, budget=Budget(10.0, most))
    near = grid(t, step=Fraction(1, 2), most=limit + 1, bolt=bolt, limit=limit, budget=Budget(None, most // 4))
    reached = near.longest[bolt] >= limit
    if found.way is not None:
        tally.unsafe += 1
        tally.on_grid += reached
        shown = trace(found)  # it replays what it has found
        if not shown.confirmed:
            tally.wrong.append(f"{t.name}: the run is not confirmed")
    elif found.cut:
        tally.cut += 1
    else:
        tally.safe += 1
        if reached:
            tally.wrong.append(f"{t.name}: safe, and a grid reaches {near.longest[bolt]}")
        if found.zones < 250:
            tally.certified += 1
            said = certificate(found).check()
            if said is not None:
                tally.wrong.append(f"{t.name}: {said}")
        if t.semantics == "urgent":
            simulated(t, bolt, limit, tally)
    return found


def simulated(t: Topology, bolt: str, limit: int, tally: Tally) -> None:
    """As fast as the spouts can, and by bursts of chance: no queue is longer than zones say."""
    chance = random.Random(str(t.bolts))
    times: dict[str, object] = {}
    for s, spout in t.spouts.items():
        at, all_times = Fraction(0), []
        for _ in range(60):
            at += spout.gap + Fraction(chance.choice([1, 1, 1, 300, 700]), 1000)
            all_times.append(at)
        times[s] = Recorded(all_times)
    for arrivals in (times, {s: Constant(spout.gap + Fraction(1, 997)) for s, spout in t.spouts.items()}):
        run = simulate(t, tuples=60 * len(t.spouts), arrivals=arrivals, choose="longest")  # type: ignore[arg-type]
        if run.longest(bolt) >= limit:
            tally.wrong.append(f"{t.name}: safe, and a simulation reaches {run.longest(bolt)}")
