"""What crashes cost a run: events/s with and without borders, and how long a recovery takes against the size of the
state.

``python bench/failures_runtime.py [--events 20000000] [--borders 100000] [--megabytes 1,10,100,1000]``

Throughput: the same input through ``pellucid run`` (one process), through the tasks with one epoch, and with a border
every 100,000 pushes, for one sum and for a sum for each of 1,000 keys; the runs alternate, and the median counts.
Beside the time there is the processor time of all processes together: where others use the machine, it is the better
figure for what a border costs.  Recovery: a worker with a state of some megabytes (one sum for each key) is killed with
``kill -9``; measured is the time from the death to all tasks being ready again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from pellucid import Stream, pipeline
from pellucid.internal.data.feed import Feed
from pellucid.internal.data.files import open_reader
from pellucid.internal.data.outputs import open_writer
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.expr.types import INT


@pipeline
def sums(x: Stream[int]) -> Stream[int]:
    return (
        x.filter(lambda v: v % 2 == 1, id="odd")
        .cumulate(lambda t, v: t + v, start=0, id="sum")
        .decimate(10, id="tenth")
    )


@pipeline
def by_key(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum").trim(1_000_000, id="none")


def plain(source: str, out: str, key: str | None) -> None:
    """One process, no epochs."""
    from pellucid.internal.data.arrow import output_batch, output_schema

    reader = open_reader(source)
    engine = sums.engine(key=int if key else None)
    schema = output_schema(sums.graph.nodes[-1].type, "out", {key: INT} if key else {})
    with open_writer(out, schema) as writer:
        for fed in Feed(sums.graph, {None: reader}, value="x", key=[key] if key else []):
            writer.write(
                output_batch(
                    engine.push_batch(fed.batch, positions=key is not None)[0], schema, key=[key] if key else []
                )
            )
    reader.close()


def processor_seconds() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def throughput(
    folder: Path, events: int, borders: int, rounds: int, key: str | None
) -> tuple[list[dict[str, Any]], bool]:
    """Events per second of the three ways, and whether they have the same output."""
    source = str(folder / "in.parquet")
    rng = np.random.default_rng(1)
    parquet.write_table(
        pa.table({"x": rng.integers(0, 1000, events)} | ({key: rng.integers(0, 1000, events)} if key else {})), source
    )
    seconds: dict[str, list[tuple[float, float]]] = {
        "one process": [],
        "tasks, one epoch": [],
        f"tasks, a border every {borders:,}": [],
    }
    same = True
    for number in range(rounds + 1):  # the first one warms the cache of compiled kernels
        for name in seconds:
            began, used = time.monotonic(), processor_seconds()
            if name == "one process":
                plain(source, str(folder / "plain.parquet"), key)
            else:
                count = events + 1 if "one" in name else borders
                run_epochs(
                    sums,
                    source,
                    folder / "out.parquet",
                    state=folder / f"state {key} {number} {count}",
                    pushes=count,
                    value="x",
                    key=key,
                )
            if number:
                seconds[name].append((time.monotonic() - began, processor_seconds() - used))
            if name != "one process":
                same &= parquet.read_table(folder / "plain.parquet").equals(parquet.read_table(folder / "out.parquet"))
    medians = {
        name: (statistics.median(s for s, _ in found), statistics.median(u for _, u in found))
        for name, found in seconds.items()
    }
    base = medians["tasks, one epoch"]
    rows = [
        {
            "what": name,
            "per key": key is not None,
            "events": events,
            "seconds": round(s, 2),
            "events_per_second": round(events / s),
            "against_one_epoch": round(s / base[0], 3),
            "processor_seconds": round(u, 2),
            "processor_against_one_epoch": round(u / base[1], 3),
        }
        for name, (s, u) in medians.items()
    ]
    return rows, same


def recovery(folder: Path, megabytes: int) -> dict[str, Any]:
    """Seconds from the death of a worker to all tasks being ready, and how large its snapshot is."""
    keys = megabytes * 1_000_000 // 24  # a key, a sum and a count for each
    count = 2 * keys
    source = str(folder / f"keys{megabytes}.parquet")
    order = np.arange(count, dtype=np.int64) * 2_654_435_761 % (1 << 40)
    order[keys:] = order[: count - keys]
    parquet.write_table(pa.table({"x": np.ones(count, dtype=np.int64), "k": order}), source)
    borders = max(count // 4, 1)
    chunks = -(-borders // (1 << 17)) * 3 + 1  # the first batch of the fourth epoch
    os.environ["PELLUCID_FAULTS"] = f"worker:event=kill@{chunks}"
    state = folder / f"state{megabytes}"
    try:
        report = run_epochs(
            by_key,
            source,
            folder / "out.csv",
            state=state,
            pushes=borders,
            key="k",
            value="x",
            patience=600,
            say=lambda text: None,
        )
    finally:
        del os.environ["PELLUCID_FAULTS"]
    sizes = [path.stat().st_size for path in (state / "snapshots" / "worker").glob("*.snap")]
    return {
        "megabytes": megabytes,
        "keys": keys,
        "snapshot_megabytes": round(max(sizes) / 1e6, 1),
        "recoveries": report.recoveries,
        "recovery_seconds": round(report.recovery_seconds[0], 3) if report.recovery_seconds else None,
        "run_seconds": round(report.seconds, 1),
    }


def measure(events: int, borders: int, megabytes: list[int], rounds: int = 3) -> dict[str, Any]:
    """Both, as a document; ``right`` is whether all outputs are the same, and each kill was recovered from."""
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-") as name:
        folder = Path(name)
        rows: list[dict[str, Any]] = []
        same = True
        for key in (None, "k") if events else ():
            found, right = throughput(folder, events, borders, rounds, key)
            rows, same = rows + found, same and right
        recoveries = [recovery(folder, m) for m in megabytes]
        return {
            "throughput": rows,
            "recovery": recoveries,
            "right": same and all(r["recoveries"] == 1 for r in recoveries),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--borders", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", default="1,10,100,1000")
    given = parser.parse_args()
    found = measure(given.events, given.borders, [int(m) for m in given.megabytes.split(",") if m], given.rounds)
    json.dump(found, sys.stdout, indent=1)
    print()
    sys.exit(0 if found["right"] else 1)


if __name__ == "__main__":
    main()
