"""The whole campaign for runs with epochs: ``python -m tests.crash.epochs --kills 200``.

Twenty pipelines take their share of the kills, with files, SQLite and PostgreSQL as outputs.  After each run the output
is compared with that of the failure-free run and the recorded trace is audited.  At the end: a table, and exit code 1
if anything shows.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from pellucid.failures.crash import CrashReport, crash
from pellucid.failures.testing import command_for
from tests.crash import epochs_pipelines
from tests.crash.epochs_pipelines import CASES
from tests.sinks.postgres import find_programs, serve

FILE = epochs_pipelines.__file__


def one(
    name: str,
    kills: int,
    seed: int,
    folder: Path,
    *,
    rows: int = 4000,
    dsn: str | None = None,
    keep_going: bool = False,
    verbose: bool = False,
) -> CrashReport:
    """One pipeline, killed so often."""
    folder.mkdir(parents=True, exist_ok=True)
    sources, place, more = CASES[name]
    rng = random.Random(f"{seed} {name}")
    inputs = []
    for source in ["x", "y"][:sources]:
        path = folder / f"{source}.csv"
        lines = [f"{rng.randrange(1000)},{rng.choice('abcde')}" for _ in range(rows)]
        path.write_text(f"{source},k\n" + "\n".join(lines) + "\n")
        inputs.append(f"{source}={path}" if sources > 1 else str(path))
    if place == "POSTGRES":
        place = f"{dsn}#t_{name}" if dsn else "sqlite:x.db#t"
    outputs = ["sums", "firsts"] if name == "two_outputs" else ["out"]
    values = ("--value", "x") if sources == 1 else ()
    command = command_for(
        f"{FILE}:{name}",
        inputs,
        outputs,
        dict.fromkeys(outputs, place),
        folder / "runs",
        pushes=rows // 20,
        chunk=rows // 80,
        more=(*more, *values),
    )
    say = (lambda text: print(f"  {name}: {text}", flush=True)) if verbose else (lambda text: None)
    return crash(command, folder / "runs", kills=kills, seed=rng.randrange(1 << 30), keep_going=keep_going, say=say)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.epochs", description="Kill runs with epochs and compare what they put out."
    )
    parser.add_argument("--kills", type=int, default=200, help="in all, dealt out to the pipelines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pipelines", default=",".join(CASES))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    names = given.pipelines.split(",")
    reports: dict[str, CrashReport] = {}
    began = time.monotonic()
    with ExitStack() as stack:
        place = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-crash-", ignore_cleanup_errors=True))
        )
        programs = find_programs()
        server = stack.enter_context(serve(programs)) if programs else None
        if server is None:
            print("no PostgreSQL here: SQLite takes its part")
        for at, name in enumerate(names):
            share = given.kills // len(names) + (at < given.kills % len(names))
            if not share:
                continue
            report = one(
                name,
                share,
                given.seed,
                place / name,
                rows=given.rows,
                dsn=server.database() if server else None,
                verbose=given.verbose,
            )
            reports[name] = report
            print(f"{name:14} {CASES[name][1]:14} {report}", flush=True)
    hits = [s for r in reports.values() for o in r.outcomes for s in o.round.strikes[: o.round.hits]]
    victims = Counter(s.victim for s in hits)
    places = Counter("a moment" if s.point == "moment" else s.point.partition(":")[0] for s in hits)
    right = bool(reports) and all(r.bounded for r in reports.values())
    print(
        f"\n{len(hits)} kills hit over {len(reports)} pipelines "
        f"({', '.join(f'{n} {v}' for v, n in victims.most_common())}; at "
        f"{', '.join(f'{n} {p}' for p, n in places.most_common())}), {sum(r.missed for r in reports.values())} came "
        "too late; "
        f"{sum(o.audit.steps for r in reports.values() for o in r.outcomes if o.audit):,} steps audited, "
        f"{time.monotonic() - began:.0f} s; "
        f"{'all right' if right else 'WRONG'}"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
