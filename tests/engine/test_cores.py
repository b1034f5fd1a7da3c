"""A run per key on several cores: the same events, pushes, keys and failures as on one."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pellucid import StepError, Stream, UsageError, pipeline
from pellucid.internal.data.columns import Batch, Output, Strings, values_of
from pellucid.internal.engine import in_memory as cores
from pellucid.internal.engine.in_memory import OnCores
from pellucid.internal.engine.kernel import buckets
from pellucid.internal.expr.types import INT, STR, TupleType

CARRIERS = ["UA", "B6", "EV", "DL", "AA", "MQ"]
ROWS = 90_000
PIECE = 32_000  # so that there are several


@pipeline
def late(x: Stream[int]) -> dict[str, Any]:
    """Two outputs, of which one is silent in most pushes and one may put out two events."""
    total = x.cumulate(lambda t, v: t + v, start=0)
    return {"third": total.decimate(3), "pairs": x.task(lambda n, v: (n + 1, [n, v] if v % 5 == 0 else []), initial=0)}


def meaning(keys: list[Any], xs: list[int]) -> dict[str, list[tuple[int, Any, int]]]:
    """What `late` puts out per key, as (push, key, event), said with dictionaries."""
    total: dict[Any, int] = defaultdict(int)
    seen: dict[Any, int] = defaultdict(int)
    out: dict[str, list[tuple[int, Any, int]]] = {"third": [], "pairs": []}
    for i, (key, x) in enumerate(zip(keys, xs, strict=True)):
        total[key] += x
        if seen[key] % 3 == 0:
            out["third"].append((i, key, total[key]))
        if x % 5 == 0:
            out["pairs"] += [(i, key, seen[key]), (i, key, x)]
        seen[key] += 1
    return out


def told(outputs: list[Output]) -> dict[str, list[tuple[int, Any, int]]]:
    out = {}
    for o in outputs:
        assert o.keys is not None and o.key_type is not None
        leaves = [values_of(t, c) for (_, t), c in zip(o.key_type.leaves(), o.keys, strict=True)]
        keys = [o.key_type.unflatten(row) for row in zip(*leaves, strict=True)]
        out[o.name] = [*zip((int(p) for p in o.positions), keys, o.events(), strict=True)]
    return out


def drawn(rows: int = ROWS) -> tuple[Any, Any]:
    rng = np.random.default_rng(14)
    # as carriers are: two have most of the rows
    return np.minimum(rng.geometric(0.45, rows), len(CARRIERS)) - 1, rng.integers(-1000, 1000, rows)


def test_a_run_on_three_cores_is_the_run_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_PIECE", PIECE)
    codes, xs = drawn()
    want = meaning([CARRIERS[c] for c in codes.tolist()], xs.tolist())
    batch = Batch(ROWS, [[xs]], [None], [[Strings(codes, CARRIERS)]])
    for wanted in (1, 3):
        run = OnCores(late.graph, key=STR, cores=wanted)
        assert told(run.push_batch(batch, positions=True)) == want
        assert run.cores == wanted
    assert run.why_one is None
    # and again with keys of two parts, chunk after chunk, texts forgotten in between
    monkeypatch.setattr(buckets, "_MANY_STRINGS", 1)
    numbers = xs % 3
    pairs = [(CARRIERS[c], int(n)) for c, n in zip(codes.tolist(), numbers.tolist(), strict=True)]
    want, got = meaning(pairs, xs.tolist()), defaultdict(list)
    run = OnCores(late.graph, key=TupleType((STR, INT)), cores=2)
    for start in range(0, ROWS, 35_000):
        part = slice(start, start + 35_000)
        other = [f"never seen {start}", *CARRIERS]  # texts have other codes in each chunk
        keys: list[Any] = [Strings(codes[part] + 1, other), numbers[part]]
        for name, events in told(
            run.push_batch(Batch(len(xs[part]), [[xs[part]]], [None], [keys]), positions=True)
        ).items():
            got[name] += events
    assert got == want


def test_the_first_failure_in_the_order_of_pushes_is_told() -> None:
    """All keys fail, each at a push of its own; the first of them is what one core meets."""
    inverse = pipeline(lambda x: x.map(lambda v: 1000 // v, id="share"), x=int)
    codes, xs = drawn(40_000)
    xs = np.abs(xs) + 1
    for key in range(len(CARRIERS)):
        xs[np.flatnonzero(codes == key)[-1 - key * 10]] = 0
    said = []
    for wanted in (1, 4):
        run = OnCores(inverse.graph, key=INT, cores=wanted)
        with pytest.raises(StepError) as failure:
            run.push_batch(Batch(40_000, [[xs]], [None], [[codes]]))
        said.append((str(failure.value), failure.value.position))
    assert said[0] == said[1] and said[0][1] == int(np.argmin(xs))
    assert "step 'share' (map 1000 // v" in said[0][0] and f"failed at push {said[0][1]:,} on the event 0" in said[0][0]


def test_tables_in_memory_take_the_word_and_small_ones_stay_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, xs = drawn(3_000)
    table = pa.table({"carrier": [CARRIERS[c] for c in codes.tolist()], "x": xs, "at": np.arange(3_000)[::-1]})
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    for more in ({}, {"order": "at", "keep": True}):
        assert total(table, key="carrier", cores=2, **more).equals(total(table, key="carrier", cores=1, **more))
    monkeypatch.setattr(cores, "cores_here", lambda: 2)
    run = OnCores(total.graph, key=INT)
    run.push_batch(Batch(3_000, [[xs]], [None], [[codes]]))
    assert (run.cores, run.why_one) == (1, "there are few rows")
    with pytest.raises(UsageError, match="cores='all': expected a whole number, at least 1"):
        total(table, key="carrier", cores="all")


def test_it_is_tried_whether_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says, what comes out is the same."""
    monkeypatch.setattr(cores, "cores_here", lambda: 2)
    monkeypatch.setattr(cores, "_FROM", 1_000)
    codes, xs = drawn(2_000)
    batch = Batch(2_000, [[xs]], [None], [[codes]])
    want = meaning(codes.tolist(), xs.tolist())
    for pays, several in ((1e9, True), (0.0, False)):
        monkeypatch.setattr(cores, "_PAYS", pays)
        run = OnCores(late.graph, key=INT)
        assert told(run.push_batch(batch, positions=True)) == want
        assert run.cores == (2 if several else 1)
    assert run.why_one is not None and run.why_one.startswith("sharing the keys out takes longer than it saves: ")


def test_why_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "cores_here", lambda: 4)
    one = pipeline(lambda x: x.map(lambda v: v + 1), x=int).graph
    called = pipeline(lambda x: x.map(lambda v: v + int(0 * time.time()), to=int), x=int).graph
    both = pipeline(lambda a, b: a + b, a=int, b=int).graph
    assert OnCores(one, key=None).why_one == "only the keys of a run with key= can be shared among cores"
    assert OnCores(called, key=INT).why_one == "a step is called in plain Python, which runs on one"
    assert OnCores(both, key=INT, one_key=False).why_one == (
        "its inputs go row by row, and a row's keys may differ; with order= they are the same"
    )
    assert OnCores(both, key=INT, one_key=True).why_one is None
    assert OnCores(one, key=INT, cores=1).why_one == "so it was said"
