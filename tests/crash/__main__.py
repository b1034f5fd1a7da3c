"""The whole campaign: ``python -m tests.crash --kills 100 --seed 1``.

Every pipeline runs with all sinks at once and takes its share of the kills; then the newest commit of each query is
deleted by hand and the last batches run again.  At the end: a table of what was killed and what is in the sinks, and
exit code 1 if any of it is not what the interpreter says.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.crash.contents import Verdict
from tests.crash.harness import ROOT, World, schedule, targets
from tests.crash.pipelines import CASES
from tests.sinks.broker import Broker
from tests.sinks.postgres import Postgres, find_programs, serve
from tests.spark.cluster import Cluster, standalone

SINKS = ["parquet", "files", "sqlite", "managed", "postgres", "parallel", "delta", "once"]


@dataclass
class Result:
    """One pipeline's part of the campaign."""

    world: World
    verdicts: dict[str, Verdict]
    replayed: dict[str, Verdict]
    seconds: float
    failure: str | None = None

    @property
    def right(self) -> bool:
        return self.failure is None and all(v.right for v in [*self.verdicts.values(), *self.replayed.values()])


def one(
    name: str,
    kills: int,
    seed: int,
    folder: Path,
    sinks: list[str],
    server: Postgres | None,
    broker: Broker | None = None,
    *,
    replay: bool = True,
    cluster: Cluster | None = None,
) -> Result:
    """One pipeline, killed so often, and then its last batches again."""
    began = time.monotonic()
    rng = random.Random(f"{seed} {name}")
    dsn = server.database() if server else None
    kafka = (broker.address, broker.topic()) if broker else None
    world = World(
        name,
        folder,
        targets(folder, sinks, dsn, kafka),
        seed=rng.randrange(1 << 30),
        files=kills + 2,
        spare=kills // 2 + 2,
    )
    victims: tuple[str, ...] = ()
    if cluster is not None:
        world.master, world.executors = cluster.master, cluster.executors
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # the functions lie in this repository
        world.conf = {
            **cluster.conf,
            "spark.cores.max": "2",
            "spark.task.maxFailures": "20",
            "spark.executorEnv.PYTHONPATH": path,
        }
        victims = ("executor", "executor", "executor", "driver")  # Python workers are killed without a cluster
    planned = schedule(rng, kills, sinks, victims)
    print(f"{name}: seed {seed}: {' '.join(map(str, planned))}", flush=True)
    result = Result(world, {}, {}, 0.0)
    try:
        world.campaign(planned)
        result.verdicts = dict(world.verdicts())
        if replay:
            world.forget_last_commits()
            world.finish()
            result.replayed = dict(world.verdicts())
    except AssertionError as error:
        result.failure = str(error)
    result.seconds = time.monotonic() - began
    return result


def table(results: list[Result]) -> Iterator[str]:
    """A line for each pipeline and sink: kills while it was unfinished, of those with a batch open, rows, verdicts."""
    yield (
        f"{'pipeline':10} {'sink':9} {'kills':>5} {'open':>5} {'starts':>6} {'rows':>6}  verdict; after a replayed "
        "batch"
    )
    for result in results:
        for name in result.world.sinks:
            hits = result.world.hits
            unfinished, open_ = sum(h.unfinished(name) for h in hits), sum(h.within(name) for h in hits)
            last, again = result.verdicts.get(name), result.replayed.get(name)
            yield (
                f"{result.world.name:10} {name:9} {unfinished:5} {open_:5} {result.world.starts:6} "
                f"{last.rows if last else 0:6}  "
                f"{last or 'not reached'}; {again or 'not run'}"
            )
        if result.failure:
            yield f"{result.world.name}: {result.failure}"


@contextmanager
def servers(kafka: bool) -> Iterator[tuple[Postgres | None, Broker | None]]:
    with ExitStack() as stack:
        programs = find_programs()
        server = stack.enter_context(serve(programs)) if programs else None
        broker = None
        if kafka:
            from pellucid.spark import java
            from tests.sinks import broker as brokers

            broker = stack.enter_context(brokers.serve(str(Path(java.find().home) / "bin" / "java")))
        yield server, broker


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description="Kill streaming jobs and compare what is in their sinks."
    )
    parser.add_argument("--kills", type=int, default=100, help="in all, dealt out to the pipelines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pipelines", default=",".join(CASES))
    parser.add_argument("--sinks", default=",".join(SINKS))
    parser.add_argument("--jobs", type=int, default=1, help="pipelines at a time")
    parser.add_argument("--kafka", action="store_true", help="with Kafka: a broker is brought from Maven Central")
    parser.add_argument(
        "--cluster", action="store_true", help="on a master with two workers; executors are killed, too"
    )
    given = parser.parse_args()
    if given.cluster and given.jobs > 1:
        parser.error("--cluster has two cores for one job: leave out --jobs")
    names = given.pipelines.split(",")
    sinks = [*given.sinks.split(","), *(["kafka"] if given.kafka else [])]
    results: list[Result] = []
    with (
        servers(given.kafka) as (server, broker),
        standalone() if given.cluster else nullcontext() as cluster,
        tempfile.TemporaryDirectory(prefix="pellucid-crash-", ignore_cleanup_errors=True) as place,
    ):
        if server is None:
            print("no PostgreSQL here: its sinks are left out")
            sinks = [name for name in sinks if name not in ("postgres", "parallel")]

        def run(at: int) -> None:
            share = given.kills // len(names) + (at < given.kills % len(names))
            folder = Path(place) / names[at]
            result = one(names[at], share, given.seed, folder, sinks, server, broker, cluster=cluster)
            results.append(result)
            print("\n".join(table([result])), f"\n{result.seconds:.0f} s", flush=True)
            if result.right:
                shutil.rmtree(folder, ignore_errors=True)

        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(run, range(len(names))))
    print("\n".join(["", *table(sorted(results, key=lambda r: names.index(r.world.name)))]))
    hits = [hit for result in results for hit in result.world.hits]
    print(
        f"{len(hits)} kills hit "
        f"({', '.join(f'{n} {v}' for v, n in Counter(h.kill.victim for h in hits).most_common())}; by moment "
        f"{', '.join(f'{n} {m}' for m, n in Counter(h.kill.moment for h in hits).most_common())}), "
        f"{sum(r.world.misses for r in results)} came too late; {sum(r.world.starts for r in results)} starts; "
        f"{'all right' if all(r.right for r in results) else 'WRONG'}"
    )
    return 0 if all(r.right for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
