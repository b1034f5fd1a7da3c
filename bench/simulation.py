"""The simulation of topologies: events per second of a processor, with compiling left out.

    python bench/simulation.py [--tuples 1000000] [--json FILE]

An event is an emit of a spout, a take or the end of a tuple.  The times have to be those of exact arithmetic: the
longest queues are printed beside, and they are those that the bounds allow.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from itertools import pairwise
from pathlib import Path

from pellucid.capacity import Bolt, Poisson, Spout, Topology, figure_1, simulate


def chain(length: int, workers: int) -> Topology:
    names = ["S", *(f"B{i}" for i in range(length))]
    bolts = {b: Bolt(time=1, hears=[before], workers=workers) for before, b in pairwise(names)}
    return Topology({"S": Spout(f"1/{workers}")}, bolts)


CASES = {
    "Figure 1, constant gap": (figure_1(gap=1, workers=2), {}),
    "Figure 1, Poisson, random": (figure_1(gap=1, workers=2), {"arrivals": Poisson("1.1"), "choose": "random"}),
    "Figure 1, all, overloaded": (figure_1(gap=1).given(routing="all"), {}),
    "10 bolts in a row": (chain(10, 4), {}),
    "100 workers": (chain(1, 100), {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    simulate(figure_1(gap=1), tuples=10)  # compiles
    rows = []
    for name, (topology, given) in CASES.items():
        begun = time.process_time()
        run = simulate(topology, tuples=args.tuples, **given)
        seconds = time.process_time() - begun
        last = list(topology.bolts)[-1]
        rows.append({"case": name, "events": run.events, "seconds": seconds, "longest": run.longest(last)})
        print(
            f"{name:28} {run.events:12,} events {run.events / seconds / 1e6:6.1f} M/s   longest {run.longest(last):,}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
