"""Logs of transactions: the largest committable set, the cascade of an abort and causal cycles, here, on Spark, and
beside networkx and DuckDB's recursive SQL.

    python bench/atomic_logs.py [--n 10000000] [--json FILE] [--only here,peers,spark,deep]

A log has as many transactions as said, twice as many dependencies (on one of the last thousand, so that it is deep), a
transaction that a tenth of all read from, a chain of a hundredth, and rings of three.  One in a hundred thousand is
active or aborted; a third has committed.  *deep* is a chain of a million, and a log in which each needs its last two,
of which no task takes more than a tenth, so that the rounds do all the work.  Times are wall clock and processor time
of a process that has compiled its loops; Spark's have no start of a Java in them.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pellucid.atomic import logs

WORDS = pa.array(logs.STATUSES)


def log(n: int, *, text: bool = False, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Two tables."""
    chance = np.random.default_rng(seed)
    status = np.where(np.arange(n) < n // 3, 2, 1).astype(np.int8)
    who = chance.integers(1, n, 2 * n)
    needs = np.maximum(who - chance.integers(1, 1000, 2 * n), 0)
    hub, chain = n // 3 + 5, n // 100
    more_needs = [np.full(n // 10, hub), np.arange(n // 2, n // 2 + chain), np.arange(n // 2, n // 2 + 300, 3) + 2]
    more_who = [np.arange(n - n // 10, n), np.arange(n // 2, n // 2 + chain) + 1, np.arange(n // 2, n // 2 + 300, 3)]
    status[chance.integers(2 * n // 3, n, max(1, n // 100_000))] = 0
    status[chance.integers(2 * n // 3, n, max(1, n // 100_000))] = 3
    needs, who = np.concatenate([needs, *more_needs]), np.concatenate([who, *more_who])
    ids: Any = np.arange(n)
    columns = [pa.array(ids), pa.array(needs), pa.array(who)]
    if text:
        columns = [pa.compute.binary_join_element_wise("tx-", c.cast(pa.string()), "") for c in columns]
    return (
        pa.table({"id": columns[0], "status": WORDS.take(pa.array(status))}),
        pa.table({"needs": columns[1], "who": columns[2]}),
    )


def timed(name: str, work: Callable[[], Any], found: dict[str, Any], most: int = 2) -> Any:
    """The best of some: by the clock, and of this process's processor time (Spark's is elsewhere)."""
    best, least, answer = float("inf"), float("inf"), None
    for _ in range(most):
        begin, used = time.perf_counter(), time.process_time()
        answer = work()
        best, least = min(best, time.perf_counter() - begin), min(least, time.process_time() - used)
    found[name] = {"seconds": round(best, 3), "processor": round(least, 3)}
    print(f"{name:58} {best:9.2f} s {least:9.2f} s", flush=True)
    return answer


def here(n: int, found: dict[str, Any]) -> None:
    """The compiled loops, of Arrow tables: reading and numbering the ids included."""
    logs.committable({1: "pending", 2: "pending"}, [(1, 2)]).table()  # compile
    logs.cascade({1: "pending"}, [(1, 1)], [1])
    for text in (False, True):
        tables = log(n, text=text)
        kind = "text" if text else "numbers"
        answer = timed(f"here, committable, {n:,}, {kind}", lambda t=tables: logs.committable(*t), found)
        print("   ", answer.counts())
        hub = answer.log.listed([n // 3 + 5])
        del answer
        timed(f"here, cascade, {n:,}, {kind}", lambda t=tables, h=hub: logs.cascade(*t, h), found)
        timed(f"here, cycles, {n:,}, {kind}", lambda t=tables: logs.cycles(*t).count, found)
    print(f"    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB at most")


def peers(found: dict[str, Any]) -> None:
    """networkx, and recursive SQL, of what they can take."""
    import duckdb
    import networkx as nx

    n = 100_000
    transactions, dependencies = log(n)
    timed(f"here, committable, {n:,}", lambda: logs.committable(transactions, dependencies), found)
    pairs = list(zip(*(c.to_pylist() for c in dependencies.columns), strict=True))
    words = transactions["status"].to_pylist()

    def by_networkx() -> int:
        graph = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(pairs)
        graph.add_node(-1)
        graph.add_edges_from((-1, t) for t in range(n) if words[t] in ("active", "aborted"))
        doomed = nx.descendants(graph, -1)
        free = graph.subgraph([t for t in range(n) if words[t] == "pending" and t not in doomed])
        return sum(map(len, nx.topological_generations(nx.condensation(free))))

    timed(f"networkx, committable with levels, {n:,}", by_networkx, found, 1)
    link = duckdb.connect()
    link.execute("set threads = 2")
    link.register("t", transactions)
    link.register("d", dependencies)
    sql = (
        "with recursive doomed(id) as (select id from t where status in ('active', 'aborted') union select d.who from "
        "doomed join d on d.needs = doomed.id) select count(*) from t where status = 'pending' "
        "and id not in (from doomed)"
    )
    size = timed(f"DuckDB, recursive SQL, the set alone, {n:,}", lambda: link.execute(sql).fetchone(), found, 1)
    assert size == (logs.committable(transactions, dependencies).size,)


def on_spark(n: int, found: dict[str, Any], folder: Path) -> None:
    """The same files on Spark: all in one task where it fits, and in rounds where nothing of this size does."""
    from pellucid.spark import atomic
    from pellucid.spark.session import session

    spark = session(conf={"spark.driver.memory": "4g"})
    transactions, dependencies = log(n)
    pq.write_table(transactions, folder / "t.parquet")
    pq.write_table(dependencies, folder / "d.parquet")
    hub = [n // 3 + 5]
    here = {
        "committable": _told(logs.committable(transactions, dependencies).counts()),
        "cascade": _told(logs.cascade(transactions, dependencies, hub).counts()),
        "cycles": _told(logs.cycles(transactions, dependencies).counts()),
    }
    del transactions, dependencies
    tables = [spark.read.parquet(str(folder / f"{name}.parquet")) for name in "td"]
    questions = {
        "committable": lambda fit: atomic.committable(*tables, fit=fit),
        "cascade": lambda fit: atomic.cascade(*tables, hub, fit=fit),
        "cycles": lambda fit: atomic.cycles(*tables, fit=fit),
    }
    for fit in (50_000_000, n // 10):
        for name, question in questions.items():

            def ask(name: str = name, question: Any = question, fit: int = fit) -> dict[str, int]:
                with question(fit) as answer:
                    assert _told(answer.counts) == here[name], (name, answer.counts, here[name])
                    return dict(answer.rounds)

            print("   ", timed(f"Spark, {name}, {n:,}, a task takes {fit:,}", ask, found, 1), flush=True)


def _told(counts: dict[str, int]) -> dict[str, int]:
    """What both must say: the ways of a cascade need not be the shortest on Spark, so its farthest may be farther."""
    return {name: many for name, many in counts.items() if name != "farthest"}


def deep(found: dict[str, Any]) -> None:
    """A chain of a million, and one of double links, on Spark, where a task takes a tenth."""
    from pellucid.spark import atomic
    from pellucid.spark.atomic import work
    from pellucid.spark.session import session

    spark = session(conf={"spark.driver.memory": "4g"})
    n = 1_000_000
    work.BLOCK = n // 10  # else all of it would be one block
    for name, links in (("a chain", 1), ("double links", 2)):
        for order in ("id", f"(id * 7919) % {n}"):
            transactions = spark.range(n).selectExpr(f"{order} id", "if(id = 10, 'aborted', 'pending') status")
            every = spark.range(n).selectExpr(f"explode(sequence(1, {links})) d", "id").where("id >= d")
            dependencies = every.selectExpr(f"{order.replace('id', '(id - d)')} needs", f"{order} who")
            if links > 1 and order != "id":
                continue  # goes down level by level: refused after 100 rounds

            def ask(t: Any = transactions, d: Any = dependencies) -> Any:
                with atomic.committable(t, d, fit=n // 10) as answer:
                    assert answer.counts["committable"] == 10
                with atomic.cycles(t, d, fit=n // 10) as more:
                    assert more.counts["cycles"] == 0
                return answer.rounds, more.rounds

            kind = "in order" if order == "id" else "in no order"
            print("   ", timed(f"Spark, {name} of {n:,}, {kind}, reach and levels", ask, found, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="here,peers,spark,deep")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    parts = args.only.split(",")
    if "here" in parts:
        here(args.n, found)
    if "peers" in parts:
        peers(found)
    if "spark" in parts:
        with tempfile.TemporaryDirectory() as folder:
            on_spark(args.n, found, Path(folder))
    if "deep" in parts:
        deep(found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
