"""What a queue does, from its meaning and from nothing else: the n-th tuple of a bolt with W workers starts at
max(arrival(n), start(n − W) + time), and what it puts out goes in turn to those who hear it (or to all of them).

Only for bolts in no circle, with shared queues.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from pellucid.capacity import Topology


def ordered(t: Topology) -> list[str]:
    done: list[str] = []
    while len(done) < len(t.bolts):
        done += [b for b in t.bolts if b not in done and all(h in done or h in t.spouts for h in t.bolts[b].hears)]
    return done


def told(t: Topology, emits: dict[str, list[Fraction]]) -> dict[str, tuple[int, int, list[Fraction]]]:
    """For each bolt: its longest queue in any and in settled states, and when its tuples started.

    Emits come before takes in an instant, and spouts emit one after the other.
    """
    arrivals: dict[str, list[tuple[Fraction, int]]] = {b: [] for b in t.bolts}  # 0: from bolts, 1: from spouts

    def put(source: str, times: list[Fraction], kind: int) -> None:
        heard = [b for b in t.bolts if source in t.bolts[b].hears]
        for n, time in enumerate(times):
            for b in heard if t.routing == "all" else heard[n % len(heard) :][:1] if heard else []:
                arrivals[b].append((time, kind))

    for spout, times in emits.items():
        put(spout, times, 1)
    found = {}
    for b in ordered(t):
        bolt = t.bolts[b]
        workers = bolt.workers
        assert isinstance(workers, int) and bolt.queue == "shared"
        came = sorted([(Fraction(0), -1)] * bolt.initial + arrivals[b])
        starts: list[Fraction] = []
        for n, (time, _) in enumerate(came):
            starts.append(max(time, starts[n - workers] + bolt.time) if n >= workers else time)
        ends = [s + bolt.time for s in starts]
        owed = [floor((n + 1) * bolt.ratio) - floor(n * bolt.ratio) for n in range(len(ends))]
        put(b, [end for end, many in zip(ends, owed, strict=True) for _ in range(many)], 0)
        found[b] = (*longest(came, starts), starts)
    return found


def longest(came: list[tuple[Fraction, int]], starts: list[Fraction]) -> tuple[int, int]:
    """Of a queue: at each instant what was there before, what bolts bring at once, what spouts bring one by one."""
    any_length = settled = 0
    for at in sorted({time for time, _ in came} | set(starts)):
        before = sum(time < at for time, _ in came) - sum(s < at for s in starts)
        at_once = sum(time == at and kind < 1 for time, kind in came)
        one_by_one = sum(time == at and kind == 1 for time, kind in came)
        free = sum(s == at for s in starts)  # so many start now, which is how many workers are free if there is enough
        any_length = max(any_length, before + at_once)
        waiting = before + at_once
        taken = min(waiting, free)
        waiting, free = waiting - taken, free - taken
        settled = max(settled, waiting)
        for _ in range(one_by_one):
            any_length = max(any_length, waiting + 1)
            if free and not waiting:
                free -= 1
            else:
                waiting += 1
            settled = max(settled, waiting)
    return any_length, settled
