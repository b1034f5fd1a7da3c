"""What it costs that an epoch is a transaction over three sinks: beside the slowest of them alone.

``python bench/together.py [--rows 20000] [--epochs 20] [--repeats 3] [--folder .]``

PostgreSQL (with and without prepared transactions), Parquet and SQLite get the same batches, with real fsync on one
disk: each alone by its own ``write``, then all by ``sinks.together`` in one process.  The runs alternate, and the best
counts; beside the time there is the processor time of this process, which tells more where others use the machine.
Then a whole run with epochs, in which every member is a process.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests, which can start a PostgreSQL

import pyarrow as pa
from tests.sinks.postgres import Postgres, find_programs, serve

from pellucid import Stream, pipeline, sinks


def batches(rows: int, epochs: int) -> list[pa.Table]:
    return [
        pa.table(
            {"user": [f"u{i % 997}" for i in range(rows)], "epoch": [e] * rows, "sum": [float(i) for i in range(rows)]}
        )
        for e in range(epochs)
    ]


def timed(sink: Any, given: list[pa.Table]) -> tuple[float, float]:
    sink.write(given[0].slice(0, 1), "bench", 0)  # the tables are there
    began, work = time.perf_counter(), time.process_time()
    for batch, table in enumerate(given, 1):
        sink.write(table, "bench", batch)
    return (time.perf_counter() - began) / len(given), (time.process_time() - work) / len(given)


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


def runtime(server: Postgres, folder: Path, rows: int, epochs: int, repeats: int) -> None:
    """Whole runs with epochs, to each sink and to all."""
    (folder / "x.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(rows * epochs)))
    found: dict[str, list[float]] = {}
    for turn in range(repeats):
        dsn, place = server.database(), folder / f"run{turn}"
        place.mkdir()
        for who in ("postgres", "parquet", "sqlite", "together"):
            made: dict[str, Any] = {
                "postgres": sinks.postgres(dsn, f"to_{who}"),
                "parquet": sinks.parquet(place / f"to_{who}"),
                "sqlite": sinks.sqlite(place / f"to_{who}.db", "t"),
            }
            began = time.perf_counter()
            out = sinks.together(made) if who == "together" else made[who]
            total.run_epochs(folder / "x.csv", out, state=place / who, pushes=rows, say=lambda text: None)
            found.setdefault(who, []).append(time.perf_counter() - began)
    best = {who: min(times) for who, times in found.items()}
    print(f"a run with {epochs} epochs of {rows:,} pushes: " + ", ".join(f"{w} {s:.2f} s" for w, s in best.items()))
    print(f"  together / slowest alone: {best['together'] / max(s for w, s in best.items() if w != 'together'):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", default=".", help="on the disk that is to be measured")
    asked = parser.parse_args()
    given, programs = batches(asked.rows, asked.epochs), find_programs()
    assert programs is not None, "a PostgreSQL is needed: python -m tests.sinks.postgres --install"
    warnings.simplefilter("ignore")
    for prepared in (20, 0):
        with ExitStack() as stack:
            name = os.path.abspath(stack.enter_context(tempfile.TemporaryDirectory(dir=asked.folder)))
            os.chmod(name, 0o755)  # the server may be another user's
            server = stack.enter_context(serve(programs, prepared, fsync=True, under=name))
            found: dict[str, list[tuple[float, float]]] = {}
            for turn in range(asked.repeats):
                folder, dsn = Path(name) / str(turn), server.database()
                folder.mkdir()

                def three(where: str, folder: Path = folder, dsn: str = dsn) -> dict[str, Any]:
                    return {
                        "postgres": sinks.postgres(dsn, where),
                        "parquet": sinks.parquet(folder / where),
                        "sqlite": sinks.sqlite(folder / f"{where}.db", where),
                    }

                makers: dict[str, Callable[[], Any]] = {
                    n: (lambda n=n, three=three: three("alone")[n]) for n in ("postgres", "parquet", "sqlite")
                }
                makers["together"] = lambda three=three, folder=folder: sinks.together(
                    three("group"), log=folder / "log"
                )
                for who, make in makers.items():
                    found.setdefault(who, []).append(timed(make(), given))
            best = {who: min(times) for who, times in found.items()}
            slowest = max(best[who][0] for who in best if who != "together")
            print(f"max_prepared_transactions = {prepared}, {asked.rows:,} rows an epoch")
            for who, (wall, work) in best.items():
                print(f"  {who:9} {1000 * wall:8.1f} ms an epoch, {1000 * work:8.1f} ms of this process")
            print(f"  together / slowest alone: {best['together'][0] / slowest:.2f}")
            runtime(server, Path(name), asked.rows, asked.epochs, asked.repeats)


if __name__ == "__main__":
    main()
