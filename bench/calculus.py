"""The calculus of atomic failure: states per second, and how they grow.

    python bench/calculus.py [--json FILE] [--most 200000]

A network has so many transactions at so many places and so many messages on a ring: each transaction sends to the next
and commits when it has read from the one before, or gives up.  *all* is every state with A1 to A3, C1, C2 and types
asked of it.  Times are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from pellucid.atomic import Atomic, parse
from pellucid.atomic.question import explore
from pellucid.internal.model import Budget, CutShort, Search

PLACES = "pqrs"


def ring(transactions: int, places: int, messages: int) -> str:
    """Transactions in a ring over the places; the first ones send a message to the next, up to so many."""
    names = [f"t{i}" for i in range(transactions)]
    rooms: dict[str, list[str]] = {place: [] for place in PLACES[:places]}
    home = [PLACES[i % places] for i in range(transactions)]
    for i, name in enumerate(names):
        to = (i + 1) % transactions
        way = "" if home[i] == home[to] else f"out {home[i]}.in {home[to]}."
        sends = [f"send({way}in c{to}, <>)" for m in range(messages) if m % transactions == i]
        heard = any(m % transactions == (i - 1) % transactions for m in range(messages))
        wait = f"receive(out c{i}, (x) commit, abort)" if heard else "commit"
        rooms[home[i]].append(f"{name}{{{' | '.join([*sends, wait])}}}")
    head = f"new {', '.join(names)}: Trans. new {', '.join(rooms)}: Place. "
    head += f"new {', '.join(f'c{i}' for i in range(transactions))}: Chan[<>]. "
    return head + " | ".join(f"{place}[ {' | '.join(inside)} ]" for place, inside in rooms.items())


def workers(count: int) -> str:
    """Transactions that can be exchanged: each takes one of two messages."""
    names = [f"t{i}" for i in range(count)]
    inside = " | ".join(f"{name}{{receive(out c, (x) commit, abort)}}" for name in names)
    return (
        f"new u, {', '.join(names)}: Trans. new p: Place. new c: Chan[<>]. "
        f"p[ u{{send(in c, <>) | send(in c, <>) | commit}} | {inside} ]"
    )


CASES = {
    **{f"{n} transactions, 2 places, {n} messages": ring(n, 2, n) for n in (2, 3, 4)},
    **{f"4 transactions, {n} places, 4 messages": ring(4, n, 4) for n in (1, 3, 4)},
    **{f"3 transactions, 3 places, {n} messages": ring(3, 3, n) for n in (1, 2, 3, 4, 5)},
    **{f"{n} workers alike, 2 messages": workers(n) for n in (2, 3, 4)},
}


def states(machine: Atomic, most: int) -> int | None:
    """How many; None if more than are allowed."""
    try:
        return len(Search([machine.start()], machine.steps, Budget(None, most)).all())
    except CutShort:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--most", type=int, default=200_000, help="states of a case")
    args = parser.parse_args()
    rows = []
    print(f"{'':40} {'states':>8} {'steps':>9} {'all':>8} {'states/s':>9}")
    for name, text in CASES.items():
        network = parse(text)
        begun = time.process_time()
        found = explore(Atomic(network), budget=Budget(None, args.most))
        seconds = time.process_time() - begun
        machine = Atomic(network)
        begun = time.process_time()
        count = states(machine, args.most)
        searched = time.process_time() - begun
        assert not found.broken
        rate = len(found.search.parents) / searched if count else None
        rows.append({"case": name, "states": count, "transitions": found.search.transitions, "seconds": seconds,
                     "states_per_second": rate})  # fmt: skip
        print(
            f"{name:40} {count or 0:8,} {found.search.transitions:9,} {seconds:7.2f}s {rate or 0:9,.0f}",
            flush=True,
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
