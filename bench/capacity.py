"""How many zones a second, and how time and memory grow with bolts, workers and the limit; the paper's table; protocols
for any number of processes.

    python bench/capacity.py [--json FILE] [--examples FOLDER]

The paper's authors had one answer of four in less than a minute, and ran out of memory for the others; here all four,
in both semantics and both readings.  Times are seconds of a processor on one thread, without the compilation, which is
kept between runs (the first search of an installation waits for it).

``--examples`` is the folder of examples of Cubicle, which are not part of this project: those for which the site of the
tool has a time (with approximations, on a Xeon at 3.2 GHz; the forward search and the backward one together) are
decided, and both times stand beside each other.  Without it, the protocols of the tests.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from pellucid.capacity import Bolt, Spout, Topology, figure_1
from pellucid.capacity.arrays import decide as decide_system
from pellucid.capacity.arrays import read
from pellucid.capacity.zones.decide import decide
from pellucid.capacity.zones.network import Network
from pellucid.capacity.zones.question import paper_table
from pellucid.capacity.zones.search import search
from pellucid.internal.model import Budget

SECONDS = 30.0
PROTOCOLS = Path(__file__).resolve().parents[1] / "tests" / "capacity" / "protocols"
PUBLISHED = {  # seconds, as the site of Cubicle has them
    "motivating": 0.03, "szymanski_at": 0.14, "szymanski_na": 0.20, "german_baukus": 0.25, "german.ctc": 0.29,
    "german_pfs": 0.34, "flash_nodata": 0.36, "flash_buggy": 2.97, "chandra_toueg": 137.0, "flash": 340.0,
}  # fmt: skip


def chain(bolts: int) -> Topology:
    """Two spouts, and so many bolts one after the other."""
    hears = {i: ["S1", "S2"] if i == 0 else [f"B{i - 1}"] for i in range(bolts)}
    return Topology(
        {"S1": Spout(2), "S2": Spout(2)}, {f"B{i}": Bolt(1, heard) for i, heard in hears.items()}, name="chain"
    )


def cases() -> Iterator[tuple[str, Topology, str, int]]:
    """What is measured: a name, a topology, a bolt, and a limit that is kept, so that all is searched."""
    for bolts in (1, 2, 3, 4, 5, 6):
        yield f"{bolts} bolts in a chain", chain(bolts), f"B{bolts - 1}", 3
    for workers in (1, 2, 3, 4, 5, 6):
        yield f"Figure 1, B3, {workers} workers each", figure_1(gap=Fraction(2, workers), workers=workers), "B3", 3
    for limit in (3, 4, 8, 64):
        yield f"Figure 1, B3, 3 workers each, limit {limit}", figure_1(gap="2/3", workers=3), "B3", limit


def measured(name: str, t: Topology, bolt: str, limit: int) -> dict[str, Any]:
    began = time.process_time()
    found = search(Network.of(t, bolt), limit=limit, budget=Budget(SECONDS))
    seconds = time.process_time() - began
    return {
        "case": name,
        "answer": "safe" if found.complete else "cut short" if found.cut else "unsafe",
        "zones": found.zones,
        "expanded": found.expanded,
        "seconds": round(seconds, 4),
        "zones/s": round(found.expanded / max(seconds, 1e-9)),
        "megabytes": round(found.memory / 1e6, 1),
    }


def protocols(examples: Path | None) -> Iterator[dict[str, Any]]:
    """Systems for any number of processes: the answer, what was visited, the time, and Cubicle's, if it is known."""
    files = [(examples or PROTOCOLS) / f"{name}.cub" for name in PUBLISHED] if examples else sorted(PROTOCOLS.glob("*"))
    for file in files:
        began = time.process_time()
        verdict = decide_system(read(file), timeout=60.0, shortest=False)
        yield {
            "protocol": file.stem,
            "answer": verdict.status,
            "visited": verdict.details["visited"],
            "seconds": round(time.process_time() - began, 2),
            "Cubicle": PUBLISHED.get(file.stem, "") if examples else "",
        }


def table_of(rows: Iterable[dict[str, Any]], first: str) -> list[dict[str, Any]]:
    """Each row as soon as it is there."""
    out = list[dict[str, Any]]()
    for row in rows:
        if not out:
            print("  ".join(f"{key:>10}" if key != first else f"{key:44}" for key in row))
        print("  ".join(f"{value!s:>10}" if key != first else f"{value:44}" for key, value in row.items()), flush=True)
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--examples", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    decide(figure_1(gap=2), "B3", 3)  # compiled and loaded
    rows = table_of((measured(*case) for case in cases()), "case")
    began = time.process_time()
    table = paper_table()
    seconds = time.process_time() - began
    print(f"\nThe paper's table, all cells for all their gaps, certificates checked: {seconds:.1f} s")
    print("(the paper: one cell in less than a minute; no answer, and twice out of memory)\n")
    print(table)
    print()
    decided = table_of(protocols(given.examples), "protocol")
    if given.json is not None:
        found = {"cases": rows, "paper": seconds, "protocols": decided}
        given.json.write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
