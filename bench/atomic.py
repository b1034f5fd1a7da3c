"""Transactions per second of places, with real fsync, beside plain commits of SQLite and PostgreSQL.

``python bench/atomic.py [--seconds 4] [--clients 8] [--repeats 3] [--folder .] [--logs 10000000] [--sinks]``

In one run, by turns, on one disk:

- *SQLite*: one row in one commit (WAL, synchronous=FULL), from one connection.
- *PostgreSQL*: the same (fsync on), from one connection and from as many as there are clients; and its own two phases,
  ``PREPARE TRANSACTION`` and ``COMMIT PREPARED``, over 1, 2 and 4 databases.  A coordinator's own decision, which it
  would have to write as well, is not counted.
- *one place*: a program takes a message, sends one, commits; one program, and several side by side.
- *two and four places*: programs of all places take a message of the one before and send one to the next, so that they
  depend on each other in a ring and commit as a set: one set is one agreement over so many places.

The best of the repeats counts; ratios are to SQLite's own commit in the same run.  ``--logs N`` adds the largest
committable set of a log of N transactions, ``--sinks`` an epoch with three sinks beside one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests, which can start a PostgreSQL

from tests.sinks.postgres import Postgres, find_programs, serve

from pellucid.atomic.places.client import connect
from pellucid.atomic.places.network import PlaceInfo, free_ports, new_network


def rate(seconds: float, one: Callable[[], Any]) -> float:
    """How often it can be done in a second."""
    one()
    began, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        one()
        count += 1
    return count / passed


def side_by_side(seconds: float, jobs: list[Callable[[], Any]]) -> float:
    """How often all of them together, each in a thread of its own."""
    found = [0.0] * len(jobs)

    def work(n: int) -> None:
        found[n] = rate(seconds, jobs[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found)


# ---------------------------------------------------------------- the peers


def sqlite(folder: Path, seconds: float) -> float:
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (id INTEGER, value TEXT)"
    )
    numbers = itertools.count()

    def one() -> None:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (?, ?)", (next(numbers), "a seat"))
        connection.execute("COMMIT")

    try:
        return rate(seconds, one)
    finally:
        connection.close()
        for file in folder.glob("plain.db*"):
            file.unlink()


def postgres(server: Postgres, seconds: float, clients: int) -> float:
    import psycopg

    with ExitStack() as stack:
        dsn = server.database()
        made = [stack.enter_context(psycopg.connect(dsn)) for _ in range(clients)]
        made[0].execute("CREATE TABLE t (id bigint, value text)")
        made[0].commit()

        def job(connection: Any) -> Callable[[], None]:
            def one() -> None:
                connection.execute("INSERT INTO t VALUES (1, 'a seat')")
                connection.commit()

            return one

        return side_by_side(seconds, [job(connection) for connection in made])


def two_phases(server: Postgres, seconds: float, places: int) -> float:
    """PostgreSQL's own, over so many databases."""
    import psycopg

    with ExitStack() as stack:
        made = [stack.enter_context(psycopg.connect(server.database(), autocommit=True)) for _ in range(places)]
        for connection in made:
            connection.execute("CREATE TABLE t (id bigint, value text)")
        numbers = itertools.count()

        def one() -> None:
            name = f"b{next(numbers)}"
            for connection in made:
                connection.execute("BEGIN")
                connection.execute("INSERT INTO t VALUES (1, 'a seat')")
                connection.execute(f"PREPARE TRANSACTION '{name}-{made.index(connection)}'")
            for connection in made:
                connection.execute(f"COMMIT PREPARED '{name}-{made.index(connection)}'")

        return rate(seconds, one)


# ---------------------------------------------------------------- places


@contextmanager
def network(folder: Path, places: int, channels: int) -> Iterator[Path]:
    """A network of so many places, running."""
    where = folder / f"net{time.monotonic_ns()}"
    names = [f"p{n}" for n in range(places)]
    infos = [
        PlaceInfo(name, "127.0.0.1", port, None, tuple(f"c{n}" for n in range(channels)))
        for name, port in zip(names, free_ports(places), strict=True)
    ]
    new_network(where, infos)
    out = open(folder / "places.out", "ab")  # noqa: SIM115 - closed below
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "pellucid.atomic.places.host", str(where), name], stdout=out, stderr=out
        )
        for name in names
    ]
    try:
        for name in names:
            connect(where, name, patience=60).close()
        yield where
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)
        out.close()


def one_place(folder: Path, seconds: float, clients: int) -> float:
    with network(folder, 1, clients) as where, ExitStack() as stack:

        def job(n: int) -> Callable[[], None]:
            place = stack.enter_context(connect(where, "p0"))
            with place.transaction() as t:
                t.send(f"c{n}", "a seat")
                t.commit()

            def one() -> None:
                with place.transaction() as t:
                    t.send(f"c{n}", t.receive(f"c{n}", timeout=30))
                    t.commit()

            return one

        return side_by_side(seconds, [job(n) for n in range(clients)])


def ring(folder: Path, seconds: float, places: int, rings: int) -> float:
    """Sets per second: in each, a transaction of every place, which depend on each other."""
    with network(folder, places, rings) as where:
        stop = threading.Event()
        done: list[int] = [0] * rings
        failed: list[BaseException] = []

        def program(n: int, channel: int) -> None:
            after, mine = f"p{(n + 1) % places}.c{channel}", f"c{channel}"
            try:
                with connect(where, f"p{n}") as place:
                    while not stop.is_set():
                        with place.transaction() as t:
                            t.send(after, "a seat")
                            t.receive(mine, timeout=30)
                            t.commit()
                        done[channel] += n == 0
            except BaseException as error:
                if not stop.is_set():
                    failed.append(error)

        threads = [
            threading.Thread(target=program, args=(n, channel), daemon=True)
            for n in range(places)
            for channel in range(rings)
        ]
        for thread in threads:
            thread.start()
        while not all(done) and not failed:
            time.sleep(0.01)
        before, began = sum(done), time.perf_counter()
        time.sleep(seconds)
        count, passed = sum(done) - before, time.perf_counter() - began
        stop.set()
        if failed:
            raise failed[0]
        return count / passed


# ---------------------------------------------------------------- committable sets of large logs


def logs(count: int) -> None:
    """The largest committable set of a log of so many transactions: a measurement of its own."""
    file = Path(__file__).with_name("atomic_logs.py")
    if not file.exists():
        print(f"--logs: {file} is not there, which measures log tables")
        return
    subprocess.run([sys.executable, str(file), "--n", str(count), "--only", "here"], check=True)


def sinks(folder: str) -> None:
    """An epoch with three sinks beside the slowest of them: a measurement of its own."""
    file = Path(__file__).with_name("together.py")
    subprocess.run([sys.executable, str(file), "--folder", folder], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0, help="for each measurement")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", default=".", help="on the disk that is to be measured")
    parser.add_argument("--logs", type=int, default=0, metavar="N", help="the committable set of N transactions, too")
    parser.add_argument("--sinks", action="store_true", help="an epoch with three sinks beside one, too")
    given = parser.parse_args()
    seconds, clients = given.seconds, given.clients
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=given.folder, ignore_cleanup_errors=True))
        ).absolute()
        programs = find_programs()
        server = None
        if programs is None:
            print("no PostgreSQL: python -m tests.sinks.postgres --install; its lines are left out")
        else:
            os.chmod(folder, 0o755)
            server = stack.enter_context(serve(programs, 64, fsync=True, under=str(folder)))
        jobs: dict[str, Callable[[], float]] = {"SQLite, a commit": lambda: sqlite(folder, seconds)}
        if server is not None:
            jobs["PostgreSQL, a commit"] = lambda: postgres(server, seconds, 1)
            jobs[f"PostgreSQL, {clients} clients"] = lambda: postgres(server, seconds, clients)
            for n in (1, 2, 4):
                jobs[f"PostgreSQL, two phases over {n}"] = partial(two_phases, server, seconds, n)
        jobs["1 place, a program"] = lambda: one_place(folder, seconds, 1)
        jobs[f"1 place, {clients} programs"] = lambda: one_place(folder, seconds, clients)
        for n in (2, 4):
            jobs[f"a set over {n} places"] = partial(ring, folder, seconds, n, 1)
            jobs[f"sets over {n} places, {clients} at a time"] = partial(ring, folder, seconds, n, clients)
        for _ in range(given.repeats):
            for name, job in jobs.items():
                found.setdefault(name, []).append(job())
    best = {name: max(times) for name, times in found.items()}
    base = best["SQLite, a commit"]
    for name, per_second in best.items():
        print(f"{name:34} {per_second:10,.0f} /s   {per_second / base:6.2f} × SQLite")
    if given.logs:
        logs(given.logs)
    if given.sinks:
        sinks(given.folder)


if __name__ == "__main__":
    main()
