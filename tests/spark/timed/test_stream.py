"""A streaming query by event time, without Spark: what its tasks do with random micro-batches, in random partitions,
with crashes and restarts, is what the literal engine does with the same micro-batches."""

from __future__ import annotations

import random
import shutil
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid import LateError, PellucidError, Pipeline, StateError, lookup, pipeline
from pellucid.internal.data.columns import Batch, columns_of
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.types import STR, EnumType, Type
from pellucid.internal.graph.model import inner_keys
from pellucid.spark import late_counts, stream
from pellucid.spark.frames import Fields, FrameSource, SparkJob, packed
from pellucid.spark.plan import by_arrival
from pellucid.spark.store import Store
from pellucid.spark.timed import tell
from tests.engine.timed.drawn import drawn, event, times, with_timers
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import HUNT, seeds
from tests.spark.workers import new_worker, worker  # noqa: F401 - a fixture

HOUR = 3_600_000_000


class Row:
    """An event of a source, under a key that comes with the data."""

    def __init__(self, source: int, event: Any, key: str) -> None:
        self.source, self.event, self.key = source, event, key


class Query:
    """A query on its state folder; every crash is followed by a start."""

    def __init__(self, p: Pipeline, folder: Path, *, by: str, buckets: int, rng: random.Random) -> None:
        self.p, self.folder, self.by, self.rng = p, folder, by, rng
        self.types = [p.graph.nodes[i].type for i in p.graph.sources]
        sources = tuple(
            FrameSource(p.graph.nodes[i].id, t, tuple(path or p.graph.nodes[i].id for path, _ in t.columns()))
            for i, t in zip(p.graph.sources, self.types, strict=True)
        )
        key = {"keys": (("user", STR),), "inner": (("key_by", STR),), "one": ()}[by]
        self.fields = Fields(sources, key, tagged=len(sources) > 1, types=(("k0", "string"),))
        outputs = tuple((name, p.graph.nodes[i].type) for name, i in p.graph.outputs)
        kept = (("user", "k0"),) if by == "keys" else ()
        external = by == "keys"
        self.job = SparkJob(p.graph, self.fields, outputs, kept, external=external, ordered=False, tag="output")
        self.data, self.buckets = packed(self.job), buckets if by != "one" else 1
        self.keys = inner_keys(p.graph) if by == "inner" else None
        self.start()

    def start(self) -> None:
        new_worker()
        store = Store(str(self.folder))
        self.plan = stream.StreamPlan(store, self.buckets, (), store.next_start(), uuid.uuid4().hex)
        stream._check_state(self.job, self.plan)
        store.announce(self.plan.start, self.plan.token)

    def key_of(self, row: Row) -> str:
        if self.keys is None:
            return row.key
        leaves = self.types[row.source].flatten(row.event)
        return repr([evaluate(e, leaves) for e in self.keys[row.source]])

    def table(self, rows: list[Row], began: int) -> Any:
        """Rows as Spark hands them to a task."""
        columns: dict[str, Any] = {}
        if self.by != "one":
            columns["k0"] = pa.array([self.key_of(r) for r in rows], pa.string())
        if self.fields.tagged:
            columns["s"] = pa.array([r.source for r in rows], pa.int32())
        for s, t in enumerate(self.types):
            for j, ((path, leaf), name) in enumerate(zip(t.columns(), self.fields.values(s), strict=True)):
                values = [_part(r.event, path, leaf, j) if r.source == s else None for r in rows]
                columns[name] = pa.array(values, _ARROW[str(leaf)])
        columns["n"] = pa.array([began] * len(rows), pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        number = [0 if self.by == "one" else sum(self.key_of(r).encode()) % self.buckets for r in rows]
        return pa.table(columns | {"b": pa.array(number, pa.int32())})

    def batch(self, monkeypatch: pytest.MonkeyPatch, version: int, rows: list[Row], began: int, crash: bool) -> Any:
        """A micro-batch; with ``crash`` only some of its tasks run, and then all of them again, after a start."""
        rows = self.rng.sample(rows, len(rows))
        parts: list[list[Row]] = [[] for _ in range(self.rng.randint(1, 3))]
        for row in rows:
            self.rng.choice(parts).append(row)
        told = []
        for part in parts:
            table = self.table(part, began)
            if self.by == "one":
                told += table.to_batches()
            else:
                told += [b.drop_columns(["r"]) for b in tell(self.data, self.buckets, iter(table.to_batches()))]
        whole = pa.Table.from_batches([b for b in told if b.num_rows]) if any(b.num_rows for b in told) else None
        for attempt in range(2 if crash else 1):
            if attempt:
                self.start()
            out = []
            for bucket in self.rng.sample(range(self.buckets), self.buckets):
                if crash and not attempt and self.rng.random() < 0.5:
                    continue
                monkeypatch.setattr(stream, "_epoch", lambda b=bucket: ("query", version, b))
                mine = [] if whole is None else whole.filter(pa.compute.equal(whole.column("b"), bucket)).to_batches()
                out += list(stream.run_task(self.data, self.plan, iter(mine)))
        return sorted(repr(row) for part in out for row in part.to_pylist())


_ARROW = {
    "int": pa.int64(), "str": pa.string(), "str | None": pa.string(), "float | None": pa.float64(), "bool": pa.bool_(),
    "Colour": pa.string(),
}  # fmt: skip


def _part(value: Any, path: str, leaf: Type, _: int) -> Any:
    found = getattr(value, path) if path else value
    return found.name if isinstance(leaf, EnumType) else found


def literal_rows(engine: LiteralEngine, job: SparkJob, rows: list[Row]) -> list[str]:
    """What the literal engine puts out for a micro-batch, as rows of Spark."""
    from pellucid.spark.timed import TimedRunner

    count, graph = len(rows), engine.graph
    columns, masks = [], []
    for s, i in enumerate(graph.sources):
        t = graph.nodes[i].type
        some = next((r.event for r in rows if r.source == s), None)
        blank = some if some is not None else t.unflatten(tuple(_ZERO[k] for _, k in t.leaves()))
        columns.append(columns_of(t, [r.event if r.source == s else blank for r in rows]))
        masks.append([r.source == s for r in rows])
    keys = [columns_of(STR, [r.key for r in rows]) for _ in columns] if engine.key is not None else None
    outputs = engine.push_batch(Batch(count, columns, masks, keys))
    runner = TimedRunner(job)
    runner._schema = pa.schema([("k0", pa.string())])
    return sorted(repr(row) for part in runner._shown(outputs) for row in part.to_pylist())


class _Zero(dict[Type, Any]):
    def __missing__(self, t: Type) -> Any:
        return t.members[0] if isinstance(t, EnumType) else {"str": "", "bool": False, "float": 0.0}.get(str(t), 0)


_ZERO = _Zero()


def follow(
    seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, made: Any = drawn
) -> tuple[int, str, int]:
    """One query and one literal run; how many rows came out, by which way, and how many came late."""
    rng = random.Random(seed)
    while True:
        p, several = made(rng)
        if by_arrival(p.graph) is None:
            break
    inner = inner_keys(p.graph) is not None
    by = rng.choice(["keys", "one", *(["inner"] * 2 if inner else [])])
    query = Query(p, folder, by=by, buckets=rng.choice([1, 2, 5]), rng=rng)
    literal = LiteralEngine(p.graph, key=STR if by == "keys" else None)
    pools = [times(rng, count) for _ in range(several)]
    rows = [Row(s, event(rng, pools[s][i]), rng.choice("uvw")) for i in range(count) for s in range(several)]
    rows = [r for r in rows if several == 1 or rng.random() < 0.7]
    if rng.random() < 0.5:  # the second source falls silent, and comes back perhaps
        first = rng.randrange(len(rows))
        rows = [r for i, r in enumerate(rows) if r.source == 0 or not first <= i < first + len(rows) // 2]
    began, last, at, out, version = 0, {}, 0, 0, 0
    while at < len(rows):
        stop = at + rng.choice([1, 1, 2, 5, 20, 60])
        some = rows[at:stop]
        at, began = stop, began + rng.choice([HOUR // 60, HOUR // 2])
        if not some:
            continue  # Spark runs no micro-batch without rows
        for source in range(several):
            silent = not any(r.source == source for r in some)
            last[source] = last.get(source, began) if silent else began
            if source == 1 and began - last[1] >= HOUR:
                literal.idle("y")
        found = []
        for run in (
            lambda some=some: literal_rows(literal, query.job, some),
            lambda v=version, s=some, b=began: query.batch(monkeypatch, v, s, b, rng.random() < 0.2),
        ):
            try:
                found.append(run())
            except LateError as error:
                found.append(f"late at {error.step}")
        assert found[0] == found[1], f"seed {seed}, micro-batch {version}, {by}: {p.graph}"
        if isinstance(found[0], str):
            return out, by, 1
        out, version = out + len(found[0]), version + 1
        assert late_counts(str(folder)) == literal.late, f"seed {seed}, micro-batch {version}"
        if rng.random() < 0.2:
            query.start()
    return out, by, sum(literal.late.values())


def judged(some: range, folder: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[int, set[str], int]:
    rows, ways, late = 0, set(), 0
    for seed in some:
        found = follow(seed, folder / str(seed), monkeypatch, count)
        shutil.rmtree(folder / str(seed), ignore_errors=True)
        rows, ways, late = rows + found[0], ways | {found[1]}, late + found[2]
    return rows, ways, late


def test_micro_batches_crashes_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, ways, late = judged(seeds(12), tmp_path, monkeypatch, 40)
    assert HUNT or (rows > 100 and ways == {"keys", "inner", "one"} and late)


@pytest.mark.seeded
def test_a_task_that_is_told_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sum(follow(seed, tmp_path / str(seed), monkeypatch, 40, with_timers)[0] for seed in seeds(6))
    assert HUNT or rows > 60


@pytest.mark.long
def test_many_micro_batches_crashes_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(seeds(300, 1000), tmp_path, monkeypatch, 60)[0] > 5000


def _counts(late: str) -> Pipeline:
    return pipeline(
        lambda x: x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), late=late, id="w"),
        x=int,
    )


def test_a_silent_key_is_told_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its window comes out in the micro-batch that completes it, though no row is of its bucket."""
    query = Query(_counts("fail"), tmp_path, by="keys", buckets=3, rng=random.Random(0))
    assert query.batch(monkeypatch, 0, [Row(0, 3, "a"), Row(0, 4, "a")], 0, False) == []
    (row,) = query.batch(monkeypatch, 1, [Row(0, 10, "b")], 0, False)
    assert row == repr({"user": "a", "output": "out", "out": {"start": 0, "end": 10, "value": 2}})


def test_a_source_that_is_silent_holds_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the beginnings of micro-batches, also across a start; and its next event counts again."""

    def priced(x: Any, y: Any) -> Any:
        table = y.at(lambda v: v, idle=timedelta(hours=1)).key_by(lambda v: v % 2)
        return lookup(x.at(lambda v: v).key_by(lambda v: v % 2), table)

    p = pipeline(priced, x=int, y=int)
    query = Query(p, tmp_path, by="inner", buckets=2, rng=random.Random(0))
    assert query.batch(monkeypatch, 0, [Row(1, 2, ""), Row(0, 4, "")], 0, False) == []
    assert query.batch(monkeypatch, 1, [Row(0, 6, "")], HOUR // 2, False) == []
    query.start()
    out = query.batch(monkeypatch, 2, [Row(0, 8, "")], HOUR, False)  # 8 itself may still have a partner
    assert out == [repr({"output": "out", "out": {"out_0": v, "out_1": 2}}) for v in (4, 6)]
    query.batch(monkeypatch, 3, [Row(1, 8, ""), Row(0, 10, "")], HOUR, False)
    assert query.batch(monkeypatch, 4, [Row(0, 30, "")], HOUR, False) == []  # the table is at 8 again, not silent


@pytest.mark.parametrize("by", ["keys", "one"])
def test_a_source_whose_events_are_all_filtered_is_not_silent(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def priced(x: Any, y: Any) -> Any:
        table = y.filter(lambda v: v < 5).at(lambda v: v, idle=timedelta(hours=1))
        return lookup(x.at(lambda v: v).key_by(lambda v: 0), table.key_by(lambda v: 0))

    query = Query(pipeline(priced, x=int, y=int), tmp_path, by=by, buckets=2, rng=random.Random(0))
    assert query.batch(monkeypatch, 0, [Row(1, 2, "a"), Row(0, 4, "a")], 0, False) == []
    assert query.batch(monkeypatch, 1, [Row(1, 9, "b")], HOUR, False) == []
    assert query.batch(monkeypatch, 2, [Row(0, 6, "b")], HOUR + HOUR // 2, False) == []
    assert query.batch(monkeypatch, 3, [Row(0, 6, "a")], 2 * HOUR, False) != []


def test_a_late_row_ends_the_query_and_says_all_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(_counts("fail"), tmp_path, by="keys", buckets=2, rng=random.Random(0))
    query.batch(monkeypatch, 0, [Row(0, 3, "a"), Row(0, 30, "b")], 0, False)
    with pytest.raises(LateError) as caught:
        query.batch(monkeypatch, 1, [Row(0, 4, "a")], 0, False)
    said = str(caught.value)
    assert "failed on the event 4: its time is 4, whose window from 0 to 10 is complete, and the clock is at 30" in said
    assert said.endswith("from user='a'") and "26 late" in said
    assert query.batch(monkeypatch, 1, [Row(0, 34, "a")], 0, False) == []  # nothing of that micro-batch was kept


def test_late_rows_that_are_dropped_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(_counts("drop"), tmp_path, by="keys", buckets=2, rng=random.Random(0))
    query.batch(monkeypatch, 0, [Row(0, 30, "b")], 0, False)
    query.batch(monkeypatch, 1, [Row(0, 4, "a"), Row(0, 5, "b"), Row(0, 5, "c")], 0, True)
    assert late_counts(str(tmp_path)) == {"w": 3}


def test_the_state_of_another_pipeline_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(_counts("fail"), tmp_path, by="keys", buckets=2, rng=random.Random(0))
    query.batch(monkeypatch, 0, [Row(0, 30, "b")], 0, False)
    with pytest.raises(StateError, match=r"left by another pipeline, .*: one by event time is not"):
        Query(_counts("drop"), tmp_path, by="keys", buckets=2, rng=random.Random(0))


def test_an_empty_folder_in_the_middle_of_a_query_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(_counts("fail"), tmp_path, by="keys", buckets=2, rng=random.Random(0))
    with pytest.raises(
        PellucidError, match=r"micro-batch 3, but the state folder .* is empty.*new checkpoint as well$"
    ):
        query.batch(monkeypatch, 3, [Row(0, 30, "b")], 0, False)
