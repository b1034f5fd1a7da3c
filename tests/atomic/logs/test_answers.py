"""The compiled loops say what the definition says, and what networkx says; chains, rings and stars of a million."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from pellucid.atomic.logs import Committable, cascade, committable, cycles, read_log
from tests.atomic.logs.literal import affected, depths, largest, mutual, through, together
from tests.judge.logs.draw import SHAPES, as_text, log
from tests.seeds import seeds


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(120))
def test_as_it_is_defined(seed: int) -> None:
    drawn = log(seed, 1 + seed % 25)
    statuses, pairs = as_text(drawn) if seed % 3 == 0 else drawn
    found = committable(statuses, pairs)
    assert set(found.ids()) == largest(statuses, pairs)
    sets = list(found.sets())
    assert {frozenset(s) for s in sets} == together(found.ids(), through(statuses, pairs))
    wanted = depths(found.ids(), through(statuses, pairs))
    rows = found.table().to_pylist()
    assert {row["id"]: row["level"] for row in rows} == {t: level for s, level in wanted.items() for t in s}
    done = {t for t, status in statuses.items() if status == "committed"}
    for chosen in sets:  # each can commit once those before it have
        done |= set(chosen)
        assert all(u in done for u, t in pairs if t in chosen)
    assert {frozenset(s) for s in cycles(statuses, pairs).sets()} == mutual(statuses, pairs)
    abort = [t for t, status in statuses.items() if status != "committed"][:2]
    if abort:
        assert set(cascade(statuses, pairs, abort).ids()) == affected(pairs, abort)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_networkx_says(shape: str) -> None:
    statuses, pairs = log(5, 3000, shape)
    graph = nx.DiGraph([pair for pair in pairs if pair[0] != pair[1]])
    graph.add_nodes_from(statuses)
    stops = [t for t in graph if statuses.get(t) not in ("pending", "committed")]
    ways = nx.multi_source_dijkstra_path_length(graph, stops) if stops else {}
    members = {t for t, status in statuses.items() if status == "pending" and t not in ways}
    found = committable(statuses, pairs)
    assert set(found.ids()) == members
    done = {t for t, status in statuses.items() if status == "committed" and t not in ways}
    inner = nx.condensation(graph.subgraph(members | done))  # committed ones come between, and count for nothing
    own = {c: frozenset(members & d["members"]) for c, d in inner.nodes(data=True)}
    assert {frozenset(s) for s in found.sets()} == set(own.values()) - {frozenset()}
    level: dict[int, int] = {}
    for c in nx.topological_sort(inner):
        level[c] = max((level[b] + bool(own[b]) for b in inner.predecessors(c)), default=0)
    depth = {t: level[c] for c, inside in own.items() for t in inside}
    assert dict(zip(*(found.table()[c].to_pylist() for c in ("id", "level")), strict=True)) == depth
    parts = {frozenset(c) for c in nx.strongly_connected_components(graph) if len(c) > 1}
    assert {frozenset(s) for s in cycles(statuses, pairs).sets()} == parts
    abort = [t for t, status in statuses.items() if status != "committed"][:3]
    steps = nx.multi_source_dijkstra_path_length(graph, set(abort))
    rows = cascade(statuses, pairs, abort).table().to_pylist()
    assert {row["id"]: row["steps"] for row in rows} == steps


N = 1_000_000


def arrow(status: str | np.ndarray, needs: np.ndarray, who: np.ndarray, n: int = N) -> tuple[pa.Table, pa.Table]:
    words = pa.array([status]).take(pa.array(np.zeros(n, np.int8))) if isinstance(status, str) else pa.array(status)
    return pa.table({"id": np.arange(n), "status": words}), pa.table({"needs": needs, "who": who})


def test_a_chain_of_a_million() -> None:
    before = np.arange(N - 1)
    tables = arrow("pending", before, before + 1)
    found = committable(*tables)
    assert (found.size, found.count, found.depth) == (N, N, N)
    assert found.ids()[:3] == [0, 1, 2]
    undone = cascade(*tables, [N // 2])
    assert undone.size == N // 2 and undone.path(N - 1)[:2] == [N // 2, N // 2 + 1]
    words = np.array(["pending"] * N, object)
    words[1000] = "aborted"
    blocked = committable(*arrow(words, before, before + 1))
    assert blocked.size == 1000 and blocked.blocked == N - 1001 and len(blocked.why(2000)) == 1001


def test_a_ring_and_a_star_of_a_million() -> None:
    before = np.arange(N)
    ring = cycles(*arrow("pending", before, (before + 1) % N))
    assert (ring.count, ring.size) == (1, N) and set(ring.table()["cycle"].to_pylist()) == {0}
    one = committable(*arrow("pending", before, (before + 1) % N))
    assert (one.size, one.count, one.depth) == (N, 1, 1)
    star = cascade(*arrow("pending", np.zeros(N - 1, np.int64), before[1:]), [0])
    assert star.size == N and set(star.table()["steps"].to_pylist()[1:]) == {1}


def test_a_broken_log_is_told() -> None:
    statuses, pairs = {1: "aborted", 2: "committed", 3: "pending"}, [(1, 2), (2, 3)]
    found = committable(statuses, pairs)
    assert (found.size, found.broken, found.why(3)) == (0, 1, [1, 2, 3])
    assert found.counts()["broken"] == 1 and cascade(statuses, pairs, [1]).counts()["broken"] == 1


def test_a_committed_one_that_needs_a_pending_one() -> None:
    """It breaks A3 as one that needs an active one does, and whoever needs it waits for the pending one."""
    statuses, pairs = {3: "pending", 2: "committed", 1: "pending", 4: "pending"}, [(1, 2), (2, 3), (3, 4)]
    found = committable(statuses, pairs)
    assert (found.size, found.broken, found.depth, list(found.sets())) == (3, 1, 3, [[1], [3], [4]])
    assert cycles(statuses, pairs).broken == cascade(statuses, pairs, [1]).broken == 1
    around = committable(statuses, [*pairs, (3, 1)])  # 1 and 3 need each other through 2
    assert [sorted(one) for one in around.sets()] == [[1, 3], [4]]
    assert around.table().to_pylist()[0]["size"] == 2


def test_nothing_at_all() -> None:
    found = committable({}, [])
    assert (found.size, found.count, found.depth, list(found.sets()), found.table().num_rows) == (0, 0, 0, [], 0)
    assert cycles({}, []).count == 0
    assert isinstance(found, Committable) and read_log({1: "pending"}, []).size == 1
    assert committable({1: "pending"}, []).table().to_pylist() == [{"id": 1, "level": 0, "set": 1, "size": 1}]
