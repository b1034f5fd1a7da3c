"""The snapshot store: a small change makes a small file."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid import pipeline
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT
from pellucid.spark.state.delta import changes, patch, split
from pellucid.spark.state.store import Store
from tests.seeds import seeds
from tests.spark.state.stores import blob, contents, names, touched


def test_a_small_change_is_a_small_file_and_chains_are_bounded(store: Store) -> None:
    state, extra = blob(0), blob(1)
    last = store.save(0, 0, state, extra, {})
    links = []
    for version in range(1, 30):
        state = touched(state, 1000 * version)
        extra = extra + b"more"
        last = store.save(0, version, state, extra, {"v": version}, base=last)
        links.append(last.links)
        loaded = store.load(0, version + 1)
        assert contents(loaded) == (version, state, extra, {"v": version}) and loaded is not None
        assert (loaded.links, loaded.weight) == (last.links, last.weight)
        last = random.Random(version).choice([last, loaded])  # either can be built upon
    assert links == ([*range(1, 11), 0] * 3)[:29]
    sizes = [os.path.getsize(Path(store.path, "bucket-00000", n)) for n in names(store) if "-on-" in n]
    assert sizes and max(sizes) < 1500


def test_what_changed_much_is_written_whole(store: Store) -> None:
    first = store.save(0, 0, blob(0), b"", {})
    assert store.save(0, 1, blob(1), b"", {}, base=first).links == 0
    half = store.save(0, 2, touched(blob(0), 0, blob(9, 40_000)), b"", {}, base=first)
    assert half.links == 1 and 40_000 < half.weight < 50_000
    again = store.save(0, 3, touched(bytes(half.state), 50_000, blob(8, 20_000)), b"", {}, base=half)
    assert again.links == 0  # both together are more than half
    assert store.save(0, 4, b"small", b"", {}, base=again).links == 0
    tiny = store.save(1, 0, b"small", b"", {})
    assert store.save(1, 1, b"smell", b"", {}, base=tiny).links == 0


def test_a_base_that_is_gone_or_later_is_not_built_upon(store: Store) -> None:
    first = store.save(0, 0, blob(0), b"", {})
    for name in names(store):
        os.unlink(Path(store.path, "bucket-00000", name))
    assert store.save(0, 1, blob(0), b"", {}, base=first).links == 0
    later = store.save(0, 7, blob(0), b"7", {})
    assert store.save(0, 7, blob(0), b"again", {}, base=later).links == 0


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(150))
def test_changes_and_patch(seed: int) -> None:
    rng = random.Random(seed)
    old = [rng.randbytes(rng.choice([0, 1, 63, 64, 65, 1000, 5000])) for _ in range(2)]
    contents, kept = old[0], [bytearray(p) for p in split(old[0])]
    for _ in range(4):
        new = bytearray(contents)
        for _ in range(rng.randrange(5)):
            at = rng.randrange(len(new) + 1)
            new[at : at + rng.choice([0, 1, 8])] = rng.randbytes(8)
        new = new[: rng.choice([len(new), rng.randrange(len(new) + 1)])] + rng.randbytes(rng.choice([0, 0, 3, 200]))
        found = changes(contents, bytes(new), 10**9)
        assert found is not None
        kept = patch(kept, json.loads(json.dumps(found[0])), b"".join(found[1]))
        assert b"".join(kept) == bytes(new)
        contents = bytes(new)


def keyed(count: int) -> Engine:
    p = pipeline(lambda x: x.window(3, lambda w: w.cumulate(lambda t, v: t + v, start=0)), x=int)
    engine = Engine(p.graph, key=INT, mode="numba")
    push(engine, np.arange(count) * 1_000_003)
    return engine


def push(engine: Engine, keys: Any) -> None:
    engine.push_batch(Batch(len(keys), [[np.ones(len(keys), np.int64)]], [], [[keys]]))


def test_new_keys_move_nothing(store: Store) -> None:
    """Rows, keys and texts each grow at their end: a state that has grown is mostly what it was."""
    engine = keyed(20_000)
    first = store.save(0, 0, engine.save(), b"", {})
    push(engine, np.arange(19_990, 20_100) * 1_000_003)
    state = engine.save()
    second = store.save(0, 1, state, b"", {}, base=first)
    assert second.links == 1 and second.weight < len(state) // 50
    wrapped = [b"head" + s + b"rest" * i for i, s in enumerate((bytes(first.state), state))]
    found_changes = changes(wrapped[0], wrapped[1], len(state) // 50)  # also behind something else
    assert found_changes is not None
    other = keyed(1)
    found = store.load(0, 2)
    assert found is not None
    other.load(found.state)  # type: ignore[arg-type]
    assert other.save() == state


def test_parts_that_differ_in_number_are_compared_as_a_whole(store: Store) -> None:
    engine = keyed(5_000)
    states = [engine.save(), blob(3, len(engine.save())), engine.save() + b"x", engine.save()]
    last = None
    for version, state in enumerate(states):
        mixed = touched(states[0], len(states[0]) - 1000, state[:500])
        for data in (mixed, b"?" + mixed[1:], mixed):  # no longer a saved state, and one again
            last = store.save(0, 10 * version + len(store.versions(0)), data, data[::-1], {}, base=last)
            assert contents(store.load(0, 10**6))[1:3] == (data, data[::-1])
