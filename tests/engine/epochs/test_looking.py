"""A run looked at from outside: while it runs, killed, finished; what waits there, against the literal engine at the
same epoch.  Nothing is changed by looking."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid import Pipeline, Stream, as_of, pipeline
from pellucid.errors import StateError
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.looking import look, type_named
from pellucid.internal.engine.epochs.store import Store
from pellucid.internal.engine.epochs.tasks.times import TimesTold, Told
from pellucid.internal.engine.timed.literal import Literal, Row
from pellucid.internal.engine.timed.why.answer import Progress
from tests.engine.epochs.test_times import Paid, paid

PUSHES, ROWS = 50, paid(3, 600, spread=4)


class Kept(NamedTuple):
    """What is said of a source."""

    status: str
    rows: int | None


def total(x: Stream[Any]) -> Stream[Any]:
    """What they amount to."""
    return x.cumulate(lambda t, p: t + p.amount, start=0)


@pipeline
def sums(x: Stream[Paid]) -> Any:
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


def agree(found: Progress) -> None:
    """What waits is what waits in the literal engine."""
    graph, rows = sums.graph, ROWS
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
    with hanging(sums, folder, 6) as process:
        found = sums.progress(state)
        assert found.about["running"] and found.about["process"] == process
        assert f"running (process {process}), epoch 6 complete, 300 pushes by " in str(found)
        agree(found)
    before = as_it_is(state)
    found = sums.progress(state)
    assert as_it_is(state) == before  # nothing is changed by looking
    assert not found.about["running"] and not found.about["finished"] and not found.complete
    agree(found)
    assert str(found).startswith(f"sums in {state}: not running, epoch 6 complete, 300 pushes by ")
    run(sums, folder)  # and it goes on as if nobody had looked
    again = sums.progress(state)
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
    assert lines[1:] == ["sources", "  x: 200 rows read, its times are not said"]
    assert found.document()["run"]["epoch"] == 4


def test_no_epoch_yet(folder: Path) -> None:
    found = killed(sums, folder, 0)
    assert found.about["epoch"] == 0 and "no epoch complete yet" in str(found)
    assert [at.watermark for source in found.sources for at in source.ats] == [None]


def test_a_key_of_the_data(folder: Path) -> None:
    found = killed(each, folder, 6, key="user")
    (step,) = found.steps
    assert step.keys == 3 and {key for key, _, _ in step.few} == {"a", "b", "c"}


def test_what_is_refused(folder: Path) -> None:
    run(sums, folder)
    state = folder / "state"
    with pytest.raises(StateError, match="belongs to another run: it is of 'sums', not of 'two'; steps that differ: "):
        two.progress(state)
    changed = pipeline(lambda x: x.at("when", lateness=5, id="when").tumbling(10, total, id="w"), x=Paid)
    changed.graph.__dict__["name"] = "sums"
    with pytest.raises(StateError, match="as it was before a change; steps that differ: "):
        look(changed.graph, state)
    for path in (state / "snapshots" / "worker").glob("*.snap"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match="no epoch is whole that could be looked at"):
        sums.progress(state)
    said = json.loads((state / "run.json").read_text())
    (state / "run.json").write_text(json.dumps({**said, "format": 99}))
    with pytest.raises(StateError, match="99"):
        sums.progress(state)
    (state / "run.json").write_text("{")
    with pytest.raises(StateError, match="the state folder is damaged"):
        sums.progress(state)


def test_a_damaged_snapshot_gives_the_epoch_before(folder: Path) -> None:
    killed(sums, folder, 6)
    path = Store(folder / "state").path("worker", 6)
    path.write_bytes(path.read_bytes()[:-20])
    assert sums.progress(folder / "state").about["epoch"] < 6


def test_rows_that_were_not_counted(tmp_path: Path) -> None:
    """A run that was begun by a version that did not write down how many rows it read goes on without saying it."""
    (tmp_path / "borders").write_bytes(Told(1, 10, [], [], False).line())
    told = TimesTold(Store(tmp_path), sums.graph)
    told.restore(1, 10)
    told.saw({"x": 3})
    assert told.met()["x"]["rows"] is None and told.met()["x"]["here"]
    again = TimesTold(Store(tmp_path), sums.graph)
    again.restore(1, 10, {"x": {"rows": 10, "heard": 5.0, "here": True}})
    assert again.met()["x"] == {"rows": 10, "heard": 5.0, "here": False}


def test_types_of_keys_by_name() -> None:
    names = ["str", "(int, str)", "(date,)", "None"]
    assert [str(type_named(name, "s")) for name in names] == names


def test_every_kind_of_flipped_bit_gives_the_epoch_before(folder: Path) -> None:
    """Also one in what is inside a snapshot, which has a checksum of its own."""
    killed(sums, folder, 6)
    path = Store(folder / "state").path("worker", 6)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        data = bytearray(whole)
        data[at] ^= 4
        path.write_bytes(data)
        assert sums.progress(folder / "state").about["epoch"] <= 6
    path.write_bytes(whole)
    assert sums.progress(folder / "state").about["epoch"] == 6
