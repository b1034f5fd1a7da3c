"""Failure transparency measured: one section for each part, in one run.

    python bench/failures.py [--quick] [--json FILE] [--only SECTION]

checker   states and transitions per second of the search for failure transparency, with nothing reduced, on three
          shapes; and the states and seconds of the same question as `check.failures` asks it, reduced.
runtime   events per second with and without borders (every 100,000 events), and the time of a recovery against the size
of the state. audit     steps per second of `pellucid audit` on a trace of 10^7 steps with twenty crashes.

It ends with 1 where a verdict is not the expected one.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid import check
from pellucid.failures.checker.search import explore
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.model import Configuration, Task, initial
from pellucid.internal.model import Budget

Row = dict[str, Any]


# ---------------------------------------------------------------- the checker


def _add(v: int, w: int) -> tuple[int, list[int]]:
    return v + w, [v + w]


def _tenfold(v: int, w: int) -> tuple[int, list[int]]:
    return v, [10 * w]


def _epochs(epochs: int, events: int) -> list[list[int]]:
    return [[e * events + i + 1 for i in range(events)] for e in range(epochs)]


def chain(epochs: int, events: int) -> Configuration:
    tasks = {f"t{i}": Task(_add, (f"s{i}",), f"s{i + 1}") for i in range(3)}
    return initial(tasks, {"s0": _epochs(epochs, events)}, dict.fromkeys(tasks, 0))


def diamond(epochs: int, events: int) -> Configuration:
    tasks = {
        "split": Task(lambda v, w: (v, [w]), ("in",), "a"),
        "left": Task(_add, ("a",), "l"),
        "right": Task(_tenfold, ("a",), "r"),
        "join": Task(_add, ("l", "r"), "out"),
    }
    return initial(tasks, {"in": _epochs(epochs, events)}, dict.fromkeys(tasks, 0))


def merged(epochs: int, events: int) -> Configuration:
    tasks = {
        "left": Task(_add, ("a",), "l"),
        "right": Task(_tenfold, ("b",), "r"),
        "join": Task(lambda v, w: (2 * v + w, [2 * v + w]), ("l", "r"), "out"),
    }
    inputs = {s: _epochs(epochs, events) for s in ("a", "b")}
    return initial(tasks, inputs, dict.fromkeys(tasks, 0))


def checker(quick: bool) -> tuple[list[Row], bool]:
    """States per second, and what the reduction saves."""
    sizes = [(chain, 2, 2), (diamond, 2, 2), (merged, 2, 2)]
    if not quick:
        sizes += [(chain, 6, 6), (merged, 2, 3), (diamond, 2, 3)]
    rows, right = [], True
    for shape, epochs, events in sizes:
        c = shape(epochs, events)
        started, used = time.perf_counter(), time.process_time()
        whole = explore(CrashSystem(c, crashes=2), Budget(None, 20_000_000), reduce=False, reduce_free=True)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        verdict = check.failures(c, crashes=2, timeout=None)
        right &= verdict.proved and whole.unexplained is None and whole.dead_end is None
        rows.append(
            {
                "shape": f"{shape.__name__}, {epochs} epochs x {events} events, 2 crashes",
                "states": whole.states,
                "transitions": whole.transitions,
                "seconds": round(seconds, 3),
                "states/s": round(whole.states / seconds),
                "states/s of processor time": round(whole.states / used),  # the same where nothing else runs
                "transitions/s": round(whole.transitions / seconds),
                "reduced states": verdict.details["states"],
                "reduced seconds": round(verdict.seconds, 3),
                "verdict": verdict.status,
            }
        )
    return rows, right


# ---------------------------------------------------------------- all sections


def audits(quick: bool) -> tuple[list[Row], bool]:
    from failures_audit import measure

    return measure(200_000 if quick else 10_000_000)


def runtime(quick: bool) -> tuple[list[Row], bool]:
    from failures_runtime import measure

    found = measure(2_000_000, 100_000, [1, 10], 1) if quick else measure(20_000_000, 100_000, [1, 10, 100, 1000])
    return [*found["throughput"], *found["recovery"]], found["right"]


SECTIONS: dict[str, Callable[[bool], tuple[list[Row], bool]]] = {
    "checker": checker,
    "runtime": runtime,
    "audit": audits,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
    parser.add_argument("--only", choices=sorted(SECTIONS), help="one section")
    args = parser.parse_args()
    document: dict[str, Any] = {"python": platform.python_version(), "sections": {}}
    right = True
    for name, section in SECTIONS.items():
        if args.only not in (None, name):
            continue
        rows, good = section(args.quick)
        right &= good
        document["sections"][name] = rows
        print(f"\n{name}")
        for row in rows:
            print(
                "  "
                + ", ".join(
                    f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in row.items()
                )
            )
    if args.json is not None:
        args.json.write_text(json.dumps(document, indent=2))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
