"""A streaming query's state folder, looked at from outside: what waits in all its buckets is what waits in one engine
that had all the rows.  No Spark is needed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid import Pipeline, Stream, merge, pipeline
from pellucid.errors import StateError, UsageError
from tests.spark.timed.test_stream import Query, Row, new_worker


@pytest.fixture(autouse=True)
def worker() -> Iterator[None]:
    new_worker()
    yield
    new_worker()


class Sold(NamedTuple):
    """Something was sold."""

    when: int
    user: str


def count(w: Stream[Any]) -> Stream[Any]:
    """How many."""
    return w.cumulate(lambda n, v: n + 1, start=0)


@pipeline
def keyed(x: Stream[Sold], y: Stream[Sold]) -> Any:
    """By the key of the pipeline's own."""
    both = merge(x.at("when", lateness=3, id="xa"), y.at("when", id="ya"), id="both").key_by(lambda s: s.user, id="by")
    return both.tumbling(10, count, late="drop", id="tens").session(15, count, late="drop", id="long")


@pipeline
def one(x: Stream[Sold], y: Stream[Sold]) -> Any:
    """By the key of the data, or by none."""
    both = merge(x.at("when", lateness=3, id="xa"), y.at("when", id="ya"), id="both")
    return both.tumbling(10, count, late="drop", id="tens")


def batches(seed: int) -> list[list[Row]]:
    """Rows of two sources, of which the second falls silent."""
    rng = random.Random(seed)
    out = []
    for n in range(5):
        sources = [0, 1] if n < 3 else [0]
        rows = [(s, Sold(8 * n + rng.randint(0, 12), rng.choice("abcdef"))) for s in sources for _ in range(6)]
        out.append([Row(s, event, event.user) for s, event in rows])
    return out


def run(p: Pipeline, folder: Path, by: str, monkeypatch: pytest.MonkeyPatch, *, crash: bool = False) -> Any:
    """A query over the batches, and an engine that had the same; of both what waits."""
    query = Query(p, folder / "state", by=by, buckets=3, rng=random.Random(1))
    engine = p.engine(mode="python", key=str if by == "keys" else None)
    for version, rows in enumerate(batches(7)):
        query.batch(monkeypatch, version, rows, 1_700_000_000_000_000 + version * 60_000_000, crash and version == 4)
        own = [[r for r in rows if r.source == s] for s in (0, 1)]
        events = [[r.event for r in some] for some in own]
        keys = {"key": [r.key for r in own[0] + own[1]]} if by == "keys" else {}
        _push(engine, events, keys)
    return p.progress(folder / "state"), p.progress(engine)


def _push(engine: Any, events: list[list[Any]], keys: dict[str, Any]) -> None:
    from pellucid.internal.data.columns import Batch, columns_of

    graph = engine.graph
    count = sum(map(len, events))
    columns: list[Any] = []
    masks: list[Any] = []
    at = 0
    for i, some in zip(graph.sources, events, strict=True):
        filler = some[0] if some else Sold(0, "a")
        spread = [filler] * at + some + [filler] * (count - at - len(some))
        columns.append(columns_of(graph.nodes[i].type, spread))
        masks.append([at <= n < at + len(some) for n in range(count)])
        at += len(some)
    given = [[keys["key"]] for _ in graph.sources] if keys else None
    engine.push_batch(Batch(count, columns, masks, given))


def same(found: Any, wanted: Any) -> None:
    """All but what only a folder knows."""
    for one_, other in zip(found.steps, wanted.steps, strict=True):
        assert (one_.clocks, one_.keys, one_.rows, one_.late) == (other.clocks, other.keys, other.rows, other.late)
        told = [[(w.what, w.count, w.first, w.last, [str(h) for h in w.holds]) for w in s.waits] for s in (one_, other)]
        assert told[0] == told[1] != []
    assert [source.ats for source in found.sources] == [source.ats for source in wanted.sources]


@pytest.mark.parametrize(("p", "by"), [(keyed, "inner"), (one, "keys"), (one, "one")], ids=["inner", "keys", "one"])
def test_what_waits_in_all_buckets(p: Pipeline, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, wanted = run(p, tmp_path, by, monkeypatch, crash=True)
    same(found, wanted)
    assert found.about["micro_batch"] == 4 and not found.complete
    assert {source.name: source.rows for source in found.sources} == {"x": 30, "y": 18}
    y = found.sources[1]
    assert y.silent and y.heard == 1_700_000_120.0
    assert "y: 18 rows read, silent since 2023-11-14 22:15:20 UTC, " in str(found)
    assert any(
        "source y, silent since 2023-11-14 22:15:20 UTC, could still send" in line for line in str(found).splitlines()
    )


def test_the_folder_of_the_command_line_and_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(one, tmp_path, "one", monkeypatch)
    inside = tmp_path / "both"
    inside.mkdir()
    shutil.copytree(tmp_path / "state", inside / "pellucid")
    (inside / "checkpoint").mkdir()
    assert one.progress(inside).about["micro_batch"] == 4
    with pytest.raises(StateError, match="it is of 'one', not of 'keyed'"):
        keyed.progress(tmp_path / "state")
    other = pipeline(lambda x, y: merge(x.at("when"), y.at("when")).tumbling(11, count), x=Sold, y=Sold)
    other.graph.__dict__["name"] = "one"
    with pytest.raises(StateError, match="'one' as it was before a change"):
        other.progress(tmp_path / "state")
    checkpoint = tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    with pytest.raises(UsageError, match="is a checkpoint of Spark, which does not know what waits"):
        one.progress(checkpoint)
