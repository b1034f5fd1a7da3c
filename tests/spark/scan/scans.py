"""Scans without Spark: random pipelines that can be cut, and the passes of a scan done by hand, in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid import Pipeline, StepError, Stream, merge, pipeline
from pellucid.data.formats.outputs import arrow_type
from pellucid.engine.interpreter import Interpreter
from pellucid.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type
from pellucid.spark.frames import Fields, FrameSource
from pellucid.spark.job import SparkJob, packed
from pellucid.spark.scan.parts import Cut, cuts
from pellucid.spark.scan.run import run_worker
from tests.spark.worlds import Row, found
from tests.strategies import COLOR, MAPS, ORDER, PAIRS, POINT, PREDICATES, Choice, Color, Order, Point, add_steps

Fold = tuple[Callable[[Any, Any], Any], Any]


def _between(t: tuple[int, int], v: int) -> tuple[int, int]:
    return min(t[0], v), max(t[1], v)


def _statistics(t: tuple[int, int, bool], v: int) -> tuple[int, int, bool]:
    return t[0] + v, t[1] + 1, t[2] or v > 9


FOLDS: dict[Type, list[Fold]] = {
    INT: [
        (lambda t, v: t + v, 0),
        (lambda t, v: t + v, 100),
        (lambda t, v: t - v, -3),
        (lambda t, v: t + v * v - 2 * v, 7),
        (lambda t, v: v + t + 1 if v > 3 else t, 5),
        (lambda t, v: t + v if v % 2 else t - v, 0),
        (lambda t, v: max(t, v), 4),
        (lambda t, v: max(v, t), -(2**63)),
        (lambda t, v: min(t, v * 3), 2),
        (lambda t, v: v if v < t else t, 10),
        (lambda t, v: t if v <= t else v, 0),
        (lambda t, v: max(t, v) if v % 3 else t, 1),
        (lambda t, v: t & v, -1),
        (lambda t, v: t | (v & 12), 1),
        (lambda t, v: t ^ v ^ 5, 3),
        (lambda t, v: v, 9),
        (lambda t, v: v + 1 if v > 4 else t, -9),
        (lambda t, v: t, 8),
        (lambda t, v: t + 1, 0),
        (lambda t, v: t and v > -4, True),
        (lambda t, v: v % 3 == 1 or t, False),
        (lambda t, v: t + 100 // (v - 13), 0),
        (_between, (5, 5)),
        (_statistics, (0, 0, False)),
        (lambda t, v: "big" if v > 5 else t, "none"),
        (lambda t, v: t + 9 // v if v > 2 else t - 1, 2),
    ],
    BOOL: [(lambda t, b: t and b, True), (lambda t, b: t or b, False), (lambda n, b: n + b, 0), (lambda t, b: b, True)],
    FLOAT: [
        (lambda t, f: max(t, f), 0.0),
        (lambda t, f: min(t, f), -0.0),
        (lambda t, f: f if f >= t else t, -0.0),
        (lambda t, f: f if f <= t else t, 0.0),
        (lambda t, f: f, 1.5),
        (lambda n, f: n + (f > 1), 0),
        (lambda t, f: min(t, f * 0.5), float("nan")),
    ],
    STR: [(lambda n, s: n + (s == "a"), 0), (lambda t, s: s, "start"), (lambda t, s: s if s != "b" else t, "")],
    COLOR: [(lambda t, c: c, Color.GREEN), (lambda t, c: t if c is Color.RED else c, Color.BLUE)],
    POINT: [(lambda n, p: n + p.x, 0), (lambda t, p: p, Point(0, 0.0, Color.RED))],
    ORDER: [(lambda n, o: n + o.size, 0), (lambda t, o: o if o.urgent else t, Order("z", 1, True))],
}


def one_step(c: Choice, streams: list[Stream[Any]]) -> Stream[Any]:
    """A random step that a stream can be cut at."""
    x = c.of(streams[-3:][::-1])
    t = x.type
    if t not in MAPS:
        return x.map(lambda p: p[0])
    kind = c.of(["cumulate", "cumulate", "map", "filter", "decimate", "trim", "lag", "window", "merge"])
    if kind == "map":
        return x.map(c.of(MAPS[t]))
    if kind == "filter":
        return x.filter(c.of(PREDICATES[t]))
    if kind in ("decimate", "trim"):
        return getattr(x, kind)(c.of([2, 3, 1, 5]))  # type: ignore[no-any-return]
    if kind == "lag":
        return x.lag(c.of([1, 2, 4])).map(c.of(PAIRS)[0])
    if kind == "window":
        k, inner = c.of([3, 2, 5, 4]), c.of([1, 2])
        return x.window(k, lambda w: add_steps(c, [w], inner, 0, False)[-1])
    if kind == "merge":
        return merge(x, c.of([s for s in streams if s.type == t]))
    return x.cumulate(*c.of(FOLDS[t]))


def make_scannable(c: Choice, *, most: int = 5, sources: int = 1) -> Pipeline:
    """A random pipeline, of which most can be cut."""
    kinds = [INT, INT, INT, FLOAT, BOOL, STR, COLOR, POINT, ORDER]
    types = [c.of(kinds) for _ in range(c.of(range(1, sources + 1)))]
    count, several = c.of(range(1, most + 1)), c.of([False, True])

    def build(*given: Stream[Any]) -> Any:
        streams = list(given)
        for _ in range(count):
            streams.append(one_step(c, streams))
        return (streams[-1], streams[len(given)]) if several and count > 1 else streams[-1]

    names = ["x", "y"][: len(types)]
    fn = eval(f"lambda {', '.join(names)}: build({', '.join(names)})", {"build": build})
    return pipeline(fn, **dict(zip(names, types, strict=True)))


def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


def job_of(p: Pipeline, **more: Any) -> SparkJob:
    """The job of all outputs, in one order column of whole numbers."""
    nodes = [p.graph.nodes[i] for i in p.graph.sources]
    sources = tuple(FrameSource(m.id, m.type, tuple(path or m.id for path, _ in m.type.leaves())) for m in nodes)
    fields = Fields(sources, order=(("seq", INT),), wide=len(sources) > 1)
    outputs = tuple((name, p.graph.nodes[at].type) for name, at in p.graph.outputs)
    return SparkJob(p.graph, fields, outputs, (("seq", "o0"),), **{"nth": "nth", "tag": "output", **more})


def table_of(p: Pipeline, rows: Sequence[Row]) -> Any:
    """The frame's columns of these rows."""
    columns: dict[str, Any] = {"o0": pa.array([r.seq for r in rows], pa.int64())}
    for s, at in enumerate(p.graph.sources):
        node = p.graph.nodes[at]
        events = [node.type.flatten(r.push[node.id]) if node.id in r.push else None for r in rows]
        for j, (_, t) in enumerate(node.type.leaves()):
            leaves = [None if e is None else e[j].name if isinstance(t, EnumType) else e[j] for e in events]
            columns[f"v{s}_{j}"] = pa.array(leaves, arrow_type(t))
    return pa.table(columns)


def scanned_by_hand(
    job: SparkJob, table: Any, bounds: Sequence[int], rng: random.Random, *, sort_first: bool = False
) -> list[Any]:
    """All passes of a scan: rows in random partitions, chunks in some partitions, workers one after the other."""
    cut = cuts(job.graph)
    assert isinstance(cut, Cut)
    data = packed(job)
    chunks = np.searchsorted(np.array(bounds, dtype=np.int64), table.column("o0").to_numpy(), side="right")
    table = table.append_column("chunk", pa.array(chunks, pa.int32()))
    parts = rng.randint(1, 3)
    sums = None
    for level in range(len(cut.levels)):
        found = []
        if level == 0 and not sort_first:
            where = np.array([rng.randrange(parts) for _ in range(table.num_rows)], dtype=int)
            for part in range(parts):
                rows = np.flatnonzero(where == part)
                rng.shuffle(rows)
                found += list(run_worker(data, "any", level, _batches(table.take(pa.array(rows)), rng)))
        else:
            for part in range(parts):
                found += list(run_worker(data, "level", level, _sorted(table, part, parts, sums, rng)))
        rng.shuffle(found)
        merged = list(run_worker(data, "merge", level, iter(found)))
        assert len(merged) == (1 if table.num_rows else 0)
        sums = merged[0].column(0)[0].as_py() if merged else None
    out: list[Any] = []
    # A partition for each chunk here, so that the first failure is that of the earliest chunk.
    for chunk in range(len(bounds) + 1):
        out += list(run_worker(data, "run", len(cut.levels), _sorted(table, chunk, len(bounds) + 1, sums, rng)))
    return [row for batch in out for row in batch.to_pylist()]


def _sorted(table: Any, part: int, parts: int, sums: bytes | None, rng: random.Random) -> Any:
    mine = table.filter(pa.array(table.column("chunk").to_numpy() % parts == part)).sort_by("o0")
    blob = pa.array([sums, *[None] * (mine.num_rows - 1)][: mine.num_rows], pa.binary())
    return _batches(mine.append_column("sums", blob), rng)


def _batches(table: Any, rng: random.Random) -> Any:
    return iter(table.to_batches(max_chunksize=rng.choice([1, 3, 1000])) if table.num_rows else [])


def by_interpreter(p: Pipeline, rows: Sequence[Row]) -> list[Any] | StepError:
    """What must come out, as (seq, output, nth, leaves), or how it fails."""
    run = Interpreter(p.graph)
    types = {name: p.graph.nodes[at].type for name, at in p.graph.outputs}
    out = []
    for row in sorted(rows, key=lambda r: r.seq):
        try:
            got = run.push(row.push)
        except StepError as error:
            return error
        for name, events in got.items():
            t = types[name]
            for i, e in enumerate(events):
                leaves = [
                    v.name if isinstance(k, EnumType) else v for (_, k), v in zip(t.leaves(), t.flatten(e), strict=True)
                ]
                out.append((None, row.seq, name, i, tuple(leaves)))
    return sorted(out, key=repr)


def by_scan(
    p: Pipeline, rows: Sequence[Row], bounds: Sequence[int], rng: random.Random, **more: Any
) -> list[Any] | StepError:
    """What comes out of a scan by hand."""
    try:
        got = scanned_by_hand(job_of(p), table_of(p, rows), bounds, rng, **more)
    except StepError as error:
        return error
    return found(p, [{**row, "user": None} for row in got])


def agree(want: list[Any] | StepError, got: list[Any] | StepError) -> bool:
    """Whether both are equal, to the sign of a zero; failures by step, push and first line."""
    if isinstance(want, StepError) or isinstance(got, StepError):
        return isinstance(want, StepError) and isinstance(got, StepError) and _said(want) == _said(got)
    return repr(want) == repr(got)


def _said(error: StepError) -> tuple[str, int, str]:
    return error.step, error.position, str(error).splitlines()[0]
