"""From an event's arrival upstream to its effect downstream: chained, beside waiting for each commit.

``python bench/chain.py [--events 400] [--epoch-size 10] [--slow 0.2] [--repeats 2]``

An event is stamped with the time at which it comes to the first run's function, one every few milliseconds; an epoch
there is a few of them.  The second run keeps the latest stamp; an event's effect is there when a reader of the SQLite
table that the second run writes can see its row.  The two ways alternate in one run: ``epochs:STATE``
reads the rows of an epoch as soon as they are durable upstream, ``committed:STATE`` when the upstream has committed
them.  The upstream writes to a file; or to a file and a table together, where the table takes a while to
prepare an epoch, as a distant server does (``--slow``).  Counted is from the moment on at which the
first effect was seen: until then both runs are starting.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from pellucid import Stream, pipeline
from pellucid.internal.engine.epochs import run_epochs
from pellucid.sinks.interface import Staged
from pellucid.sinks.sqlite_sink import SQLiteSink

WARM = 20  # events that come before anybody is measured


def stamped(v: int) -> float:
    """When an event arrives; a function that cannot be traced.  The first few wait for nobody, the others until their
    effect is seen."""
    while v >= WARM and not os.path.exists(os.environ["SEEN"]):
        time.sleep(0.005)
    time.sleep(float(os.environ["GAP"]))
    return time.time() + 0 * int(json.loads(json.dumps(v)))


@pipeline
def arrivals(x: Stream[int]) -> Stream[float]:
    return x.map(stamped, to=float, id="stamped")


@pipeline
def effects(x: Stream[float]) -> Stream[float]:
    return x.cumulate(lambda last, v: max(last, v), start=0.0, id="latest")


class Distant(SQLiteSink):
    """A table that takes its time to prepare an epoch."""

    def prepare(self, staged: Staged) -> None:
        time.sleep(float(os.environ["SLOW"]))
        super().prepare(staged)


class Reader(threading.Thread):
    """Looks at a table all the time, and notes when a row is first to be seen."""

    def __init__(self, path: Path, events: int, seen: Path) -> None:
        super().__init__(daemon=True)
        self.seen = seen
        self.path, self.events, self.latencies = path, events, list[float]()

    def run(self) -> None:
        while not self.path.exists():
            time.sleep(0.005)
        with closing(sqlite3.connect(self.path, timeout=60)) as db:
            while len(self.latencies) < self.events:
                found = []
                try:
                    rows = db.execute("select out from t where rowid > ? order by rowid", (len(self.latencies),))
                    found = [row[0] for row in rows]
                except sqlite3.OperationalError:
                    pass  # no table yet
                now = time.time()
                self.latencies += [now - stamp for stamp in found]
                if found:
                    self.seen.touch()
                time.sleep(0.003)


def measured(scheme: str, folder: Path, events: int, asked: argparse.Namespace, slow: bool) -> list[float]:
    """The latencies of one run of both pipelines."""
    folder.mkdir()
    (folder / "x.jsonl").write_text("".join(f"{i}\n" for i in range(events)))
    os.environ["SEEN"] = str(folder / "seen")
    settings: dict[str, Any] = {"say": lambda text: None}
    upstream = os.fork()
    if not upstream:
        out: Any = str(folder / "a.arrow")
        if slow:
            out = {"table": Distant(str(folder / "a.db"), "t"), "rows": out}
            settings["members"] = {"table": "out", "rows": "out"}
        run_epochs(arrivals, folder / "x.jsonl", out, state=folder / "a", pushes=asked.pushes, **settings)
        os._exit(0)
    while not (folder / "a" / "outputs.json").exists():
        time.sleep(0.005)
    downstream = os.fork()
    if not downstream:
        place, target = f"{scheme}:{folder / 'a'}", f"sqlite:{folder / 'b.db'}#t"
        run_epochs(effects, place, target, state=folder / "b", every=asked.every, **settings)
        os._exit(0)
    reader = Reader(folder / "b.db", events, Path(os.environ["SEEN"]))
    reader.start()
    for pid in (upstream, downstream):
        assert os.waitpid(pid, 0)[1] == 0, f"{scheme}: a run failed"
    reader.join(10)
    assert len(reader.latencies) == events, f"{len(reader.latencies)} of {events} rows were seen"
    return reader.latencies[WARM:]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--every", type=float, default=0.02)
    parser.add_argument("--epoch-size", type=int, default=10)
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument("--slow", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    os.environ["GAP"], os.environ["SLOW"] = str(asked.gap), str(asked.slow)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for slow in (False, True):
            found: dict[str, list[float]] = {"epochs": [], "committed": []}
            for turn in range(asked.repeats):
                for scheme, latencies in found.items():
                    place = Path(name) / f"{slow}-{turn}-{scheme}"
                    latencies += measured(scheme, place, asked.events + WARM, asked, slow)
            what = f"a file and a table that takes {asked.slow:g} s to prepare" if slow else "a file"
            print(f"upstream to {what}; an event every {1000 * asked.gap:g} ms, {asked.pushes} in an epoch")
            for scheme, latencies in found.items():
                cuts = statistics.quantiles(latencies, n=20)
                print(f"  {scheme:9} {1000 * cuts[9]:6.0f} ms median, {1000 * cuts[18]:6.0f} ms for 95 of 100")
            gain = statistics.median(found["committed"]) - statistics.median(found["epochs"])
            print(f"  the effect of an event is there {1000 * gain:.0f} ms earlier")
    return 0


if __name__ == "__main__":
    sys.exit(main())
