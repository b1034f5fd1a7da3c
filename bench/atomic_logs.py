"""Logs of transactions: the largest committable set, the cascade of an abort and causal cycles, here and
beside networkx and DuckDB's recursive SQL.

    python bench/atomic_logs.py [--n 10000000] [--json FILE] [--only here,peers]

A log has as many transactions as said, twice as many dependencies (on one of the last thousand, so that it is deep), a
transaction that a tenth of all read from, a chain of a hundredth, and rings of three.  One in a hundred thousand is
active or aborted; a third has committed.  Times are wall clock and processor time of a process that has compiled its
loops.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

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
    """The best of some: by the clock, and of this process's processor time."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="here,peers")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    parts = args.only.split(",")
    if "here" in parts:
        here(args.n, found)
    if "peers" in parts:
        peers(found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
