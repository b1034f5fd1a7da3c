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
from typing import NamedTuple

from pellucid import Stream, apply, merge, pipeline
from pellucid.failures.crash import CrashReport, crash
from pellucid.failures.testing import command_for
from tests.sinks.postgres import find_programs, serve

# Twenty pipelines for the crash tests of runs with epochs: each kind of processor and state, one source or two, with
# keys and without.


class Sale(NamedTuple):
    item: str
    price: float


@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda t, v: t + v, start=0)


@pipeline
def windows(x: Stream[int]) -> Stream[int]:
    return x.window(5, lambda w: w.cumulate(lambda t, v: t + v, start=0))


@pipeline
def every_third(x: Stream[int]) -> Stream[int]:
    return x.decimate(3)


@pipeline
def later(x: Stream[int]) -> Stream[int]:
    return x.trim(70).map(lambda v: v * 2)


@pipeline
def steps(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: b - a, x, x.trim(1))


@pipeline
def both_ways(x: Stream[int]) -> Stream[int]:
    return merge(x.map(lambda v: v + 1), x.filter(lambda v: v % 3 == 0))


@pipeline
def doubled(x: Stream[int]) -> Stream[int]:
    return x.task(lambda s, v: (s + v, [s, v] if v % 2 else []), 0)


@pipeline
def halves(x: Stream[int]) -> Stream[float]:
    return x.map(lambda v: v / 2).cumulate(lambda t, v: t * 0.5 + v, start=0.0)


@pipeline
def words(x: Stream[int]) -> Stream[str]:
    return x.map(lambda v: "even" if v % 2 == 0 else "odd")


@pipeline
def flags(x: Stream[int]) -> Stream[bool]:
    return x.cumulate(lambda seen, v: seen or v > 300, start=False)


@pipeline
def sums(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return x + y


@pipeline
def merged(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return merge(x, y.map(lambda v: -v))


@pipeline
def two_outputs(x: Stream[int]):
    return {"sums": x.cumulate(lambda t, v: t + v, start=0), "firsts": x.decimate(4)}


@pipeline
def wide(x: Stream[int]) -> Stream[int]:
    a = x.map(lambda v: v + 1, id="a")
    b = x.filter(lambda v: v % 2 == 0, id="b")
    return merge(a, b, id="meet").cumulate(lambda t, v: t + v, start=0)


@pipeline
def long_chain(x: Stream[int]) -> Stream[int]:
    y = x.map(lambda v: v * 3, id="triple")
    z = y.cumulate(lambda t, v: t + v, start=0, id="sum")
    return z.filter(lambda v: v % 2 == 0, id="even").map(lambda v: v // 2, id="half")


@pipeline
def kept_by_key(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def shared_by_key(x: Stream[int]) -> Stream[int]:
    return x.window(3, lambda w: w.cumulate(lambda t, v: t + v, start=0))


@pipeline
def records(x: Stream[int]) -> Stream[Sale]:
    return x.map(lambda v: Sale("tea" if v % 2 == 0 else "cake", v / 4))


@pipeline
def quiet(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v > 10_000)


# name: (sources, output, options of run)
CASES: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "totals": (1, "x.csv", ()),
    "odds": (1, "x.jsonl", ()),
    "windows": (1, "x.parquet", ()),
    "every_third": (1, "x.csv.gz", ()),
    "later": (1, "sqlite:x.db#t", ()),
    "steps": (1, "x.csv", ()),
    "both_ways": (1, "x.jsonl", ()),
    "doubled": (1, "sqlite:x.db#t", ()),
    "halves": (1, "x.arrow", ()),
    "words": (1, "x.tsv", ()),
    "flags": (1, "x.csv", ()),
    "sums": (2, "x.csv", ()),
    "merged": (2, "sqlite:x.db#t", ()),
    "two_outputs": (1, "x.csv", ()),
    "wide": (1, "x.csv", ("--cut", "a", "--cut", "b")),
    "long_chain": (1, "x.jsonl", ("--cut", "sum", "--cut", "even")),
    "kept_by_key": (1, "POSTGRES", ("--key", "k")),
    "shared_by_key": (1, "x.csv", ("--key", "k", "--workers", "2")),
    "records": (1, "POSTGRES", ()),
    "quiet": (1, "x.csv", ()),
}


FILE = __file__


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
