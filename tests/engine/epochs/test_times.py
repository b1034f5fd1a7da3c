"""Event time with epochs: an epoch is a batch.  Every output is that of the literal engine with the same batches,
whoever is killed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import Pipeline, Stream, as_of, merge, pipeline
from pellucid.errors import DataError, LateError, PellucidError, StateError, UsageError
from pellucid.internal.data.arrow import output_batch, output_schema
from pellucid.internal.data.columns import Output, columns_of
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.outputs import parts_in
from pellucid.internal.engine.epochs.source import BorderLine, EventTimeBorders
from pellucid.internal.engine.epochs.status import look, type_named
from pellucid.internal.engine.epochs.store import Store
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.engine.timed.literal import Literal, Row
from pellucid.internal.engine.timed.why.answer import Progress
from pellucid.internal.graph.model import Graph
from tests.engine.timed.drawn import drawn, event, times, with_timers
from tests.seeds import seeds


class Paid(NamedTuple):
    """A payment."""

    when: int
    user: str
    amount: int


def total(x: Stream[Any]) -> Stream[Any]:
    """What they amount to."""
    return x.cumulate(lambda t, p: t + p.amount, start=0)


def sums(x: Stream[Paid]) -> Any:
    """Per window of ten; late ones are taken."""
    w = x.at("when", lateness=4, id="when").tumbling(10, total, id="w")
    return {"out": w, "late": w.late}


def paid(seed: int, count: int, spread: int = 40) -> list[Paid]:
    """Payments out of order, some too late for any allowance."""
    rng = random.Random(seed)
    return [Paid(i // 3 - rng.randint(0, spread), rng.choice("abc"), rng.randint(1, 9)) for i in range(count)]


def table(events: list[Any], kind: Any = None) -> pa.Table:
    """Events as columns, in the form in which outputs are written."""
    t = (kind or pipeline(lambda x: x.map(lambda e: e), x=type(events[0])).graph.nodes[0].type) if events else kind
    schema = output_schema(t, "x", {})
    return pa.Table.from_batches([output_batch(Output("x", t, columns_of(t, events)), schema, key=[])])


def literally(
    graph: Graph, rows: dict[str, list[Any]], pushes: int | list[int], idle: dict[int, list[str]] | None = None
) -> tuple[dict[str, list[Any]], Literal]:
    """What comes out of the literal engine, an epoch after so many pushes, or with these borders.  A None is a push
    without a row."""
    run, count = Literal(graph), max(map(len, rows.values()))
    out: dict[str, list[Any]] = {name: [] for name, _ in graph.outputs}
    feeds = feeders(graph)
    ends_at = [min(first + pushes, count) for first in range(0, count, pushes)] if isinstance(pushes, int) else pushes
    for epoch, (first, until) in enumerate(itertools.pairwise([0, *ends_at]), 1):
        some = [
            Row(name, events[push], push=push)
            for push in range(first, until)
            for name, events in rows.items()
            if push < len(events) and events[push] is not None
        ]
        over = {name for name, events in rows.items() if len(events) <= until < count}
        for at in (idle or {}).get(epoch, []):
            run.clocks.idle(graph.position[at])
        ends = [at for at, sources in feeds.items() if over.issuperset(sources)]
        found = [run.batch(some, ends), *([run.finish()] if until == count else [])]
        for part in found:
            for name, items in part.items():
                out[name] += [item.value for item in items]
    return out, run


def expected_table(graph: Graph, name: str, events: list[Any]) -> pa.Table:
    t = graph.nodes[dict(graph.outputs)[name]].type
    schema = output_schema(t, name, {})
    batch = output_batch(Output(name, t, columns_of(t, events)), schema, key=[])
    return pa.Table.from_batches([batch])


# ---------------------------------------------------------------- random pipelines


def agree(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch, count: int, made: Any = drawn) -> None:
    """One pipeline and its rows in files, with epochs, and a kill somewhere; against the literal engine."""
    rng = random.Random(seed)
    p, several = made(rng)
    rows = {
        name: [event(rng, t) for t in times(rng, rng.randint(1, count) if several == 2 else count)]
        for name in "xy"[:several]
    }
    pushes = rng.choice([1, 3, 7, count // 2, count])
    kind = p.graph.nodes[p.graph.sources[0]].type
    for name, events in rows.items():
        pq.write_table(table(events, kind), folder / f"{name}.parquet", row_group_size=rng.choice([2, 1000]))
    outputs = {name: folder / f"{name}.out.parquet" for name, _ in p.graph.outputs}
    point = rng.choice(["worker:event", "worker:border", "source:border", "sink:after-commit", "snapshot:before-ack"])
    monkeypatch.setenv("PELLUCID_FAULTS", f"{point}=kill@{rng.randint(1, 3)}")

    def run() -> Any:
        return run_epochs(
            p, {name: folder / f"{name}.parquet" for name in rows}, outputs, state=folder / "state", pushes=pushes,
            chunk=max(pushes, 1), say=lambda text: None,
        )  # fmt: skip

    wrong: PellucidError | None = None
    try:
        found, literal = literally(p.graph, rows, pushes)
    except PellucidError as error:
        wrong = error
    if wrong is not None:
        with pytest.raises(type(wrong)) as raised:
            run()
        assert str(raised.value).startswith(str(wrong)), f"seed {seed}"
        assert not any(path.exists() for path in outputs.values())
        return
    report = run()
    for name, path in outputs.items():
        got, want = pq.read_table(path), expected_table(p.graph, name, found[name])
        assert got.to_pylist() == want.to_pylist(), f"seed {seed}: {name} of {p.graph}"
        assert got.schema.names == want.schema.names
    assert report.late == literal.late, f"seed {seed}"


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(3))
def test_epochs_are_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        agree(folder, seed, monkeypatch, 20)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(3))
def test_what_a_task_waits_for_is_in_the_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    agree(tmp_path, seed, monkeypatch, 30, with_timers)


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(10, 40))
def test_epochs_are_batches_at_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        agree(folder, seed, monkeypatch, 60)
        shutil.rmtree(folder)


# ---------------------------------------------------------------- the end of the input


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30])
def test_the_end_belongs_to_the_last_epoch(tmp_path: Path, count: int) -> None:
    """Also where the last row is the last of an epoch; and the last line of a text needs no end."""
    p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(7, lambda w: w, id="w"), x=int)
    (tmp_path / "x.csv").write_text("\n".join(["x", *map(str, range(count))]) + ("" if count else "\n"))
    out = tmp_path / "out.jsonl"
    report = run_epochs(p, tmp_path / "x.csv", out, state=tmp_path / "state", pushes=10, say=lambda text: None)
    want = literally(p.graph, {"x": list(range(count))}, 10)[0]["out"] if count else []
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert found == [w._asdict() for w in want] and report.epochs == (count + 9) // 10
    again = run_epochs(p, tmp_path / "x.csv", out, state=tmp_path / "state", pushes=10, say=lambda text: None)
    assert again.rows == {"out": len(want)} and again.epochs == report.epochs


def test_an_input_that_was_read_to_its_end_cannot_grow(tmp_path: Path) -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(7, lambda w: w), x=int)
    source, state = tmp_path / "x.jsonl", tmp_path / "state"
    source.write_text("1\n2\n")
    said = {"state": state, "pushes": 10, "say": lambda text: None}
    run_epochs(p, source, tmp_path / "out.csv", **said)
    source.write_text("1\n2\n3\n")
    with pytest.raises(StateError, match="source 'x': a row came as push 2 or later, after the end of its input"):
        run_epochs(p, source, tmp_path / "out.csv", **said)


def test_a_limit_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One before what was read already leaves no epoch for it."""
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(7, lambda w: w), x=int)
    source, state, out = tmp_path / "x.jsonl", tmp_path / "state", tmp_path / "out.csv"
    source.write_text("".join(f"{v}\n" for v in range(100)))
    said: dict[str, Any] = {"state": state, "pushes": 10, "say": lambda text: None, "retries": 0}
    monkeypatch.setenv("PELLUCID_FAULTS", "source:border=kill@6")
    with pytest.raises(StateError, match="crashes without a new epoch"):
        run_epochs(p, source, out, **said)
    monkeypatch.delenv("PELLUCID_FAULTS")
    with pytest.raises(DataError, match="give a greater limit="):
        run_epochs(p, source, out, **said, limit=45)
    run_epochs(p, source, out, **said, limit=55)
    want = literally(p.graph, {"x": list(range(55))}, 10)[0]["out"]
    assert len(out.read_text().splitlines()) == len(want) + 1


def told(state: Path) -> list[list[Any]]:
    """The borders of a run: epoch, push, who is idle, who has ended, whether it is the last."""
    return [json.loads(line.rpartition(" ")[0]) for line in (state / "borders").read_text().splitlines()]


def test_borders_by_the_clock_on_the_wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are, and whoever is killed: what comes out is what comes out with these borders.  The input is
    several files, of which the last line has no end."""
    p, rows = pipeline(sums, x=Paid), paid(11, 600)
    (tmp_path / "in").mkdir()
    for number, (first, until) in enumerate(itertools.pairwise([0, 170, 171, 600])):
        lines = ["when,user,amount", *(",".join(map(str, row)) for row in rows[first:until])]
        (tmp_path / "in" / f"{number}.csv").write_text("\n".join(lines))
    monkeypatch.setenv("PELLUCID_FAULTS", "worker:border=kill@1;source:border=kill@1/1")
    outputs = {name: tmp_path / f"{name}.parquet" for name in ("out", "late")}
    report = run_epochs(
        p, tmp_path / "in", outputs, state=tmp_path / "state", every=0.001, chunk=7, say=lambda text: None
    )
    borders = [line[1] for line in told(tmp_path / "state")]
    assert report.recoveries == 2 and borders[-1] == 600 and len(borders) == report.epochs > 4
    found, literal = literally(p.graph, {"x": rows}, borders)
    for name, path in outputs.items():
        assert pq.read_table(path).to_pylist() == expected_table(p.graph, name, found[name]).to_pylist()
    assert report.late == literal.late != {}


# ---------------------------------------------------------------- idle sources, and sources that end


def both(x: Stream[int], y: Stream[int]) -> Any:
    """What two sources say in tens of time, where one may be silent."""
    quick, slow = (
        x.at(lambda v: v, id="quick"),
        y.at(lambda v: v, idle=timedelta(microseconds=1), lateness=2, id="slow"),
    )
    w = merge(quick, slow).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), id="w")
    return {"out": w, "late": w.late}


def wide(seed: int, count: int, silence: float) -> dict[str, list[int | None]]:
    """Rows in which a source may have nothing to say."""
    rng = random.Random(seed)
    x = [i // 2 - rng.randint(0, 1) for i in range(count)]
    y: list[int | None] = [v - rng.randint(0, 15) if (i // 10) % 3 == 0 and rng.random() > silence else None
                           for i, v in enumerate(x)]  # fmt: skip
    return {"x": list(x), "y": y}


def idle_of(rows: dict[str, list[int | None]], pushes: int) -> dict[int, list[str]]:
    """The epochs in which y has no row."""
    y = rows["y"]
    starts = range(0, len(y), pushes)
    return {e: ["slow"] for e, first in enumerate(starts, 1) if all(v is None for v in y[first : first + pushes])}


@pytest.mark.parametrize("faults", ["", "worker:border=kill@3", "source:border=kill@5;worker:event=kill@3/1"])
def test_a_silent_source_is_declared_idle_at_a_border(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: str
) -> None:
    p, rows = pipeline(both, x=int, y=int), wide(5, 150, 0.5)
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"x": x, "y": y}) + "\n" for x, y in zip(*rows.values(), strict=True)))
    monkeypatch.setenv("PELLUCID_FAULTS", faults)
    outputs = {name: tmp_path / f"{name}.parquet" for name in ("out", "late")}
    report = run_epochs(p, source, outputs, state=tmp_path / "state", pushes=10, say=lambda text: None)
    assert report.recoveries == faults.count("=")
    found, literal = literally(p.graph, rows, 10, idle_of(rows, 10))
    assert found["late"] and found != literally(p.graph, rows, 10)[0]  # it made a difference
    for name, path in outputs.items():
        assert pq.read_table(path).to_pylist() == expected_table(p.graph, name, found[name]).to_pylist()
    assert report.late == literal.late


def test_idle_is_decided_once(tmp_path: Path) -> None:
    """By the clock on the wall; who comes again goes by what is written down."""
    p = pipeline(lambda x: x.at(lambda v: v, idle=timedelta(hours=1), id="when").tumbling(7, lambda w: w), x=int)
    first = EventTimeBorders(Store(tmp_path), p.graph)
    first.restore(0, 0)
    first.begin()
    first._since["x"] -= 3599
    assert first.decided(1, 10, set(), False)["idle"] == []
    first._since["x"] -= 1
    assert first.decided(2, 20, set(), False)["idle"] == ["when"]
    first.saw({"x": 1})
    first._since["x"] -= 7200
    assert first.decided(3, 30, set(), False)["idle"] == []  # it had a row in this epoch
    first.settle(3)
    first.close()
    with open(tmp_path / "borders", "ab") as file:
        file.write(b"[4, 40, [], [], fal")  # a kill in the middle of a line
    again = EventTimeBorders(Store(tmp_path), p.graph)
    again.restore(1, 10)
    assert [again.stop(epoch) for epoch in (2, 3, 4)] == [20, 30, None]
    again.begin()
    assert again.decided(2, 20, set(), False) == {"idle": ["when"], "ended": [], "end": False}
    assert again.decided(4, 40, {"x"}, False)["ended"] == ["when"]
    again.close()
    assert len((tmp_path / "borders").read_bytes().splitlines()) == 4


def test_the_borders_of_what_is_committed_stay_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are lost after their epochs were committed, and the command that goes on says another length of
    epochs."""
    p, rows, state = pipeline(sums, x=Paid), paid(3, 300), tmp_path / "state"
    pq.write_table(table(rows), tmp_path / "x.parquet")
    outputs = {"out": tmp_path / "out.parquet", "late": tmp_path / "late.parquet"}
    said: dict[str, Any] = {"state": state, "say": lambda text: None}
    monkeypatch.setenv("PELLUCID_FAULTS", "source:border=hang@7")
    with pytest.raises(StateError, match=r"source.x hangs"):
        run_epochs(p, tmp_path / "x.parquet", outputs, pushes=30, patience=8.0, retries=0, **said)
    monkeypatch.delenv("PELLUCID_FAULTS")
    committed = max(name.until for name, _ in parts_in(state / "committed" / "out"))
    assert committed >= 150
    for path in sorted((state / "snapshots" / "worker").iterdir())[1:]:
        path.unlink()
    epochs = Store(state).epochs("worker")
    assert max(epochs, default=0) * 30 < committed  # what is committed has to be made again
    run_epochs(p, tmp_path / "x.parquet", outputs, pushes=70, from_start=True, **said)
    borders = [line[1] for line in told(state)]
    assert borders == [30, 60, 90, 120, 150, 180, 250, 300]
    found, _ = literally(p.graph, {"x": rows}, borders)
    for name, path in outputs.items():
        assert pq.read_table(path).to_pylist() == expected_table(p.graph, name, found[name]).to_pylist() != []
    (state / "borders").write_text("")
    with pytest.raises(StateError, match="borders: is damaged or missing, without which a run by event time"):
        run_epochs(p, tmp_path / "x.parquet", outputs, pushes=30, **said)


def test_an_input_that_ends_before_another_holds_it_back_no_longer(tmp_path: Path) -> None:
    def apart(x: Stream[int], y: Stream[int]) -> Any:
        w = merge(x.at(lambda v: v), y.at(lambda v: v, id="slow")).tumbling(10, lambda w: w.trim(1), id="w")
        return {"out": w, "late": w.late}

    rng = random.Random(1)
    p, rows = pipeline(apart, x=int, y=int), {"x": [i - rng.randint(0, 15) for i in range(90)], "y": list(range(12))}
    for name, values in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{v}\n" for v in values))
    inputs = {name: tmp_path / f"{name}.jsonl" for name in rows}
    db = tmp_path / "out.db"
    outputs = {"out": f"sqlite:{db}#t", "late": tmp_path / "late.parquet"}
    run_epochs(p, inputs, outputs, state=tmp_path / "state", pushes=10, say=lambda text: None)
    with contextlib.closing(sqlite3.connect(db)) as connection:
        found = connection.execute("select start, end, value from t").fetchall()
    want, _ = literally(p.graph, rows, 10)
    assert found == [tuple(w) for w in want["out"]]
    assert pq.read_table(tmp_path / "late.parquet").to_pylist() == [late._asdict() for late in want["late"]] != []
    lines = told(tmp_path / "state")
    assert [line[3] for line in lines] == [[], *[["slow"]] * 7, []]
    assert [line[4] for line in lines] == [False] * 8 + [True]


# ---------------------------------------------------------------- late rows, and what does not go together


def test_a_late_row_ends_the_run(tmp_path: Path) -> None:
    p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w, id="w"), x=int)
    (tmp_path / "x.jsonl").write_text("5\n12\n3\n15\n8\n")
    with pytest.raises(LateError) as raised:
        run_epochs(p, tmp_path / "x.jsonl", tmp_path / "out.csv", state=tmp_path / "state", pushes=3)
    assert "failed at push 4 on the event 8: its time is 8, whose window from 0 to 10 is complete" in str(raised.value)
    assert "the clock is at 12: it is 4 late" in str(raised.value) and "x.jsonl: row 5" in str(raised.value)
    assert not (tmp_path / "out.csv").exists()


def test_a_window_that_fails_is_of_no_row(tmp_path: Path) -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w.map(lambda v: 6 // (v - 3)), id="w"), x=int)
    (tmp_path / "x.jsonl").write_text("5\n3\n15\n")
    with pytest.raises(PellucidError) as raised:
        run_epochs(p, tmp_path / "x.jsonl", tmp_path / "out.csv", state=tmp_path / "state", pushes=3)
    assert "in the window from 0 to 10" in str(raised.value) and "row" not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"cut": ("w",)}, "cut= does not go with sums, which works by event time: such a pipeline is one worker"),
        ({"key": "user", "workers": 2}, "workers= does not go with sums"),
        ({"keep": ["user"]}, "keep= does not go with sums"),
        ({"order": "when"}, "order= does not go with sums"),
        ({"bad": "bad.csv"}, "bad= does not go with sums"),
        ({"changed": ("w",)}, "changed= does not go with sums"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, said: dict[str, Any], why: str) -> None:
    pq.write_table(table(paid(1, 5)), tmp_path / "x.parquet")
    with pytest.raises(UsageError) as raised:
        run_epochs(pipeline(sums, x=Paid), tmp_path / "x.parquet", tmp_path / "out.csv", state=tmp_path / "state",
                   pushes=3, **said)  # fmt: skip
    assert str(raised.value).startswith(why)
    assert not (tmp_path / "state").exists()


def test_keys_that_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind windows they are given up as everywhere, and counted once, whoever is killed."""

    def often(x: Stream[int]) -> Any:
        some = x.at(lambda v: v).tumbling(7, lambda w: w).key_by(lambda w: w.start % 5).forget(after=3, id="gone")
        return some.cumulate(lambda n, w: n + 1, start=0)

    p, rows = pipeline(often, x=int), [v * v % 97 + v for v in range(200)]
    (tmp_path / "x.csv").write_text("\n".join(map(str, ["x", *rows])))
    monkeypatch.setenv("PELLUCID_FAULTS", "worker:event=kill@3")
    out = tmp_path / "out.csv"
    with pytest.raises(LateError):
        run_epochs(p, tmp_path / "x.csv", out, state=tmp_path / "late", pushes=30, say=lambda text: None)
    rows.sort()
    (tmp_path / "x.csv").write_text("\n".join(map(str, ["x", *rows])))
    report = run_epochs(p, tmp_path / "x.csv", out, state=tmp_path / "state", pushes=30, say=lambda text: None)
    engine = p.engine()
    found = [e for first in range(0, 200, 30) for e in engine.push(rows[first : first + 30])] + engine.finish()
    assert [int(line) for line in out.read_text().split()[1:]] == found
    assert report.recoveries == 1 and report.forgotten == engine.forgotten != {}


# A run looked at from outside: while it runs, killed, finished; what waits there, against the literal engine at the
# same epoch.  Nothing is changed by looking.

PUSHES, ROWS = 50, paid(3, 600, spread=4)


class Kept(NamedTuple):
    """What is said of a source."""

    status: str
    rows: int | None


@pipeline
def sums_looking(x: Stream[Paid]) -> Any:
    """Windows of ten for each user, and sessions of those."""
    w = x.at("when", lateness=4, id="when").key_by(lambda p: p.user, id="user").tumbling(10, total, late="drop", id="w")
    long = w.map(lambda w: w.value, id="value").session(25, lambda s: s.cumulate(lambda t, v: t + v, start=0), id="s")
    return {"out": w, "long": long}


@pipeline
def two(x: Stream[Paid], y: Stream[Paid]) -> Any:
    """Each payment beside the last one of another stream."""
    a, b = (s.key_by(lambda p: p.user) for s in (x.at("when", id="xa"), y.at("when", id="ya")))
    return as_of(a, b, late="drop", id="asked").map(lambda both: both[0].amount)


@pipeline
def each(x: Stream[Paid]) -> Any:
    """Windows, run for each key of the data."""
    return x.at("when", lateness=4, id="when").tumbling(10, total, late="drop", id="w")


@pipeline
def plain(x: Stream[Paid]) -> Stream[int]:
    """Without event time."""
    return x.cumulate(lambda t, p: t + p.amount, start=0, id="sum")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With rows in files."""
    write(tmp_path / "x.csv", ROWS)
    write(tmp_path / "y.csv", [Paid(i, "a", 1) for i in range(90)])
    return tmp_path


def write(path: Path, rows: list[Paid]) -> None:
    path.write_text("\n".join(["when,user,amount", *(f"{p.when},{p.user},{p.amount}" for p in rows)]) + "\n")


def run(p: Pipeline, folder: Path, **more: Any) -> Any:
    """To the end."""
    inputs = {name: folder / f"{name}.csv" for name in (p.graph.nodes[i].id for i in p.graph.sources)}
    outputs = {name: folder / f"{name}.jsonl" for name, _ in p.graph.outputs}
    said: dict[str, Any] = {"pushes": PUSHES, "chunk": PUSHES, "say": lambda text: None, **more}
    return run_epochs(p, inputs, outputs, state=folder / "state", **said)


def _hangs(p: Pipeline, folder: Path, faults: str, more: dict[str, Any]) -> None:
    os.environ["PELLUCID_FAULTS"] = faults
    run(p, folder, **more)


@contextlib.contextmanager
def hanging(p: Pipeline, folder: Path, epochs: int, **more: Any) -> Iterator[int]:
    """A run in another process that goes no further than so many epochs; it is killed at the end."""
    faults = f"worker:border=hang@{epochs + 1}"
    process = multiprocessing.get_context("fork").Process(target=_hangs, args=(p, folder, faults, more))
    process.start()
    try:
        assert process.pid is not None
        seen, deadline = -1, time.monotonic() + 120
        while seen < epochs and time.monotonic() < deadline and process.is_alive():
            if (folder / "state" / "run.json").exists():
                now = p.progress(folder / "state").about["epoch"]  # looked at while it works, too
                assert now >= seen
                seen = now
            time.sleep(0.02)
        assert process.is_alive() and seen == epochs
        yield process.pid
    finally:
        process.kill()
        process.join()


def killed(p: Pipeline, folder: Path, epochs: int, **more: Any) -> Progress:
    """What is said of a run that was killed after so many epochs."""
    with hanging(p, folder, epochs, **more):
        pass
    return p.progress(folder / "state")


def at_epoch(graph: Any, rows: list[Paid], epochs: int, pushes: int) -> Literal:
    """The literal engine after so many epochs."""
    run = Literal(graph)
    for epoch in range(epochs):
        run.batch([Row("x", p, push=i) for i, p in enumerate(rows[epoch * pushes : (epoch + 1) * pushes])])
    return run


def as_it_is(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files of a folder, with the times at which they were changed."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def agree_looking(found: Progress) -> None:
    """What waits is what waits in the literal engine."""
    graph, rows = sums_looking.graph, ROWS
    literal = at_epoch(graph, rows, found.about["epoch"], PUSHES)
    windows = literal.state[graph.position["w"]][0]
    told = found.waiting("w")
    assert sum(waits.count for waits in told) == len(windows)
    assert told[0].first == min((start, end) for _, start, end in windows)
    assert told[-1].last == max((start, end) for _, start, end in windows)
    sessions = [s for kept in literal.state[graph.position["s"]].values() for s in kept]
    assert sum(waits.count for waits in found.waiting("s")) == len(sessions)
    greatest = max(p.when for p in rows[: found.about["pushes"]])
    (source,) = found.sources
    assert source.rows == found.about["pushes"] == PUSHES * found.about["epoch"]
    assert [(at.greatest, at.watermark, at.status) for at in source.ats] == [(greatest, greatest - 4, "active")]
    assert found.steps[0].late == literal.late.get("w", 0)
    assert all(hold.sources == ("x",) and hold.reaches for waits in told for hold in waits.holds)


def test_running_and_killed(folder: Path) -> None:
    state = folder / "state"
    with hanging(sums_looking, folder, 6) as process:
        found = sums_looking.progress(state)
        assert found.about["running"] and found.about["process"] == process
        assert f"running (process {process}), epoch 6 complete, 300 pushes by " in str(found)
        agree_looking(found)
    before = as_it_is(state)
    found = sums_looking.progress(state)
    assert as_it_is(state) == before  # nothing is changed by looking
    assert not found.about["running"] and not found.about["finished"] and not found.complete
    agree_looking(found)
    assert str(found).startswith(f"sums_looking in {state}: not running, epoch 6 complete, 300 pushes by ")
    run(sums_looking, folder)  # and it goes on as without looking
    again = sums_looking.progress(state)
    assert again.about["finished"] and again.complete
    assert str(again).splitlines()[0].endswith("nothing waits")
    assert [Kept(at.status, source.rows) for source in again.sources for at in source.ats] == [Kept("ended", 600)]


def test_two_sources_of_which_one_ends(folder: Path) -> None:
    """While both go on, rows of one wait for the other; one that has ended holds nobody back."""
    found = killed(two, folder, 1)
    said = {source.name: Kept(source.ats[0].status, source.rows) for source in found.sources}
    assert said == {"x": Kept("active", 50), "y": Kept("active", 50)}
    assert {hold.sources for waits in found.waiting("asked") if waits.comes for hold in waits.holds} <= {("y",)}
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder / "out.jsonl")
    (folder / "state").rename(folder / "before")
    found = killed(two, folder, 3)
    said = {source.name: Kept(source.ats[0].status, source.rows) for source in found.sources}
    assert said == {"x": Kept("active", 150), "y": Kept("ended", 90)}
    assert [waits for waits in found.waiting("asked") if waits.comes] == []
    assert [source.silent for source in found.sources] == [False, True]
    assert "y: 90 rows read, silent since 20" in str(found)


def test_without_event_time(folder: Path) -> None:
    found = killed(plain, folder, 4)
    assert found.steps == () and found.sources[0].rows == 200
    lines = str(found).splitlines()
    assert lines[0].startswith(f"plain in {folder / 'state'}: not running, epoch 4 complete, 200 pushes by ")
    assert lines[1:] == ["sources", "  x: 200 rows read, its times are not given"]
    assert found.document()["run"]["epoch"] == 4


def test_no_epoch_yet(folder: Path) -> None:
    found = killed(sums_looking, folder, 0)
    assert found.about["epoch"] == 0 and "no epoch complete yet" in str(found)
    assert [at.watermark for source in found.sources for at in source.ats] == [None]


def test_a_key_of_the_data(folder: Path) -> None:
    found = killed(each, folder, 6, key="user")
    (step,) = found.steps
    assert step.keys == 3 and {key for key, _, _ in step.few} == {"a", "b", "c"}


def test_what_is_refused(folder: Path) -> None:
    run(sums_looking, folder)
    state = folder / "state"
    with pytest.raises(StateError, match="it is of 'sums_looking', not of 'two'; steps that differ: "):
        two.progress(state)
    changed = pipeline(lambda x: x.at("when", lateness=5, id="when").tumbling(10, total, id="w"), x=Paid)
    changed.graph.__dict__["name"] = "sums_looking"
    with pytest.raises(StateError, match="as it was before a change; steps that differ: "):
        look(changed.graph, state)
    for path in (state / "snapshots" / "worker").glob("*.snap"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match="no epoch is whole that could be looked at"):
        sums_looking.progress(state)
    said = json.loads((state / "run.json").read_text())
    (state / "run.json").write_text(json.dumps({**said, "format": 99}))
    with pytest.raises(StateError, match="99"):
        sums_looking.progress(state)
    (state / "run.json").write_text("{")
    with pytest.raises(StateError, match="the state folder is damaged"):
        sums_looking.progress(state)


def test_a_damaged_snapshot_gives_the_epoch_before(folder: Path) -> None:
    killed(sums_looking, folder, 6)
    path = Store(folder / "state").path("worker", 6)
    path.write_bytes(path.read_bytes()[:-20])
    assert sums_looking.progress(folder / "state").about["epoch"] < 6


def test_rows_that_were_not_counted(tmp_path: Path) -> None:
    """A run that was begun by a version that did not write down how many rows it read goes on without saying it."""
    (tmp_path / "borders").write_bytes(BorderLine(1, 10, [], [], False).line())
    told = EventTimeBorders(Store(tmp_path), sums_looking.graph)
    told.restore(1, 10)
    told.saw({"x": 3})
    assert told.sources()["x"]["rows"] is None and told.sources()["x"]["here"]
    again = EventTimeBorders(Store(tmp_path), sums_looking.graph)
    again.restore(1, 10, {"x": {"rows": 10, "heard": 5.0, "here": True}})
    assert again.sources()["x"] == {"rows": 10, "heard": 5.0, "here": False}


def test_types_of_keys_by_name() -> None:
    names = ["str", "(int, str)", "(date,)", "None"]
    assert [str(type_named(name, "s")) for name in names] == names


def test_every_kind_of_flipped_bit_gives_the_epoch_before(folder: Path) -> None:
    """Also one in what is inside a snapshot, which has a checksum of its own."""
    killed(sums_looking, folder, 6)
    path = Store(folder / "state").path("worker", 6)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        data = bytearray(whole)
        data[at] ^= 4
        path.write_bytes(data)
        assert sums_looking.progress(folder / "state").about["epoch"] <= 6
    path.write_bytes(whole)
    assert sums_looking.progress(folder / "state").about["epoch"] == 6
