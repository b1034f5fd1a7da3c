"""How fast a recorded run is audited: steps/s, on a trace of ten million steps with twenty crashes.

``python bench/failures_audit.py [--steps 10000000]``
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
from traces import large_trace

from pellucid.failures.audit import audit


def measure(steps: int) -> tuple[list[dict[str, Any]], bool]:
    """The row of numbers, and whether the trace holds: else they mean nothing."""
    with tempfile.TemporaryDirectory(prefix="pellucid-bench-") as folder:
        place = Path(folder) / "trace.parquet"
        began = time.monotonic()
        trace = large_trace(steps)
        pq.write_table(trace, place, row_group_size=1 << 20)
        print(
            f"{len(trace):,} steps made in {time.monotonic() - began:.1f} s, {os.path.getsize(place) / 1e6:,.0f} MB as "
            "Parquet",
            file=sys.stderr,
        )
        del trace
        began, cpu = time.monotonic(), time.process_time()
        found = audit(place)
        whole, used = time.monotonic() - began, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = {
        "steps": found.steps,
        "seconds": round(whole, 2),
        "steps/s": round(found.steps / whole),
        "steps/s of processor time": round(found.steps / used),
        "peak GB": round(peak, 2),
    }
    return [row], found.holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=lambda text: int(float(text)), default=10_000_000)
    given = parser.parse_args()
    rows, right = measure(given.steps)
    for row in rows:
        print(json.dumps(row))
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
