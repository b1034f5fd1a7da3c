"""Rows that are set aside in a run with epochs: the same as without, once each, whoever is killed."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pellucid import DataError, StateError, Stream, UsageError, apply, pipeline
from tests.engine.epochs.conftest import Runs

PIPES = """
from pellucid import Stream, pipeline

@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")
"""


@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda v, w: 100 // v + w, a, b, id="both")


def rows(rng: random.Random, count: int) -> str:
    """Lines of a CSV file, with faults: about one in six cannot be read, and some sums become 0."""
    faults = ["oops", "", "1,2,3,4", "cut"]
    lines = []
    for i in range(count):
        x = rng.choice(faults) if rng.random() < 0.15 else str(rng.randint(-2, 2))
        lines.append(f"k{i}" if x == "cut" else f"k{rng.randint(0, 3)},{x},n{i}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "faults",
    [
        "worker:event=kill@3;sink:before-commit=tree@2",
        "sink:after-commit[sink.bad]=tree@2;source:border=kill@4",
        "sink:staged[sink.bad]=kill@2;recover:load=tree@1/1",
    ],
)
def test_once_each_whoever_is_killed(runs: Runs, until_done: Any, faults: str) -> None:
    rng = random.Random(faults)
    (runs.folder / "q.py").write_text(PIPES)
    for name in ("a.csv", "b.csv"):
        (runs.folder / name).write_text("k,x,n\nk0,1,first\n" + rows(rng, 250))
    said = ("q.py:share", "--in", "a.csv", "--in", "b.csv", "--key", "k", "--keep-columns", "n")
    plain = runs.plain(*said, "--bad", "plain_bad.csv", out="plain.csv")
    letters = runs.read("plain_bad.csv")
    assert letters.count(b"\n") > 60 and b',"share",' in letters and b'"b.csv",' in letters
    epochs = ("--out", "out.csv", "--bad", "bad.csv", "--pushes", "40", "--state", "state", "--workers", "2")
    done = until_done(runs, *said, *epochs, faults=faults)
    assert len(done) > 1 or "going back" in done[0].stderr  # somebody was killed
    assert runs.read("out.csv") == plain
    assert runs.read("bad.csv") == letters


def test_letters_that_were_dealt_with_may_be_deleted(tmp_path: Path) -> None:
    """In part or all of them: the run goes on, and none comes back; rows of an output that are gone are refused."""
    place = tmp_path / "in.csv"
    said: dict[str, Any] = {"state": tmp_path / "state", "pushes": 2}
    place.write_text("x\n4\noops\n-4\n6\n")

    def run() -> Any:
        return share.run_epochs(place, f"sqlite:{tmp_path}/b.db#out", bad=f"sqlite:{tmp_path}/b.db#bad", **said)

    def letters(*sql: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / "b.db")) as db, db:
            for one in sql:
                db.execute(one)
            return [row for (row,) in db.execute("SELECT row FROM bad ORDER BY row")]

    assert run().bad == 2
    assert letters() == [2, 3]
    assert letters("DELETE FROM bad WHERE row = 2") == [3]
    run()
    assert letters("DELETE FROM bad") == []
    with place.open("a") as file:
        file.write("9\nwrong\n")
    assert run().bad == 3
    assert letters() == [6]
    letters("DELETE FROM out")
    with place.open("a") as file:
        file.write("3\n")
    with pytest.raises(StateError, match="table 'out': it is empty, yet 3 rows were written there"):
        run()


def test_a_table_of_them(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n4\noops\n-4\n6\n")
    report = share.run_epochs(
        tmp_path / "in.csv", tmp_path / "out.csv", state=tmp_path / "state", pushes=2, bad=f"sqlite:{tmp_path}/b.db#bad"
    )
    assert (report.rows, report.bad) == ({"out": 2}, 2)
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        found = db.execute('SELECT row, "column", step, text FROM bad').fetchall()
    assert found == [(2, "x", None, "oops"), (3, None, "share", "-4")]


def test_rows_of_one_number_stay_side_by_side(tmp_path: Path) -> None:
    for name, cells in (("a", "1 ? 0 4 5"), ("b", "5 6 7 ? 9")):
        (tmp_path / f"{name}.csv").write_text("\n".join([name, *cells.split(), ""]))
    inputs = {name: tmp_path / f"{name}.csv" for name in "ab"}
    report = both.run_epochs(
        inputs, tmp_path / "out.csv", state=tmp_path / "state", pushes=2, bad=tmp_path / "bad.jsonl"
    )
    assert (tmp_path / "out.csv").read_text() == "out\n105\n29\n" and report.bad == 6
    letters = (tmp_path / "bad.jsonl").read_text()
    assert [tuple(m) for m in re.findall(r'(.).csv", "row": (\d).*?"text": "(.)"', letters)] == [
        (name, row, text)
        for row, texts in (("2", "?6"), ("3", "07"), ("4", "4?"))
        for name, text in zip("ab", texts, strict=True)
    ]


def test_too_many_end_the_run_and_its_epoch(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n4\na\nb\n6\nc\n")
    database = tmp_path / "b.db"
    said: dict[str, Any] = {"state": tmp_path / "state", "pushes": 2, "bad": f"sqlite:{database}#bad"}
    with pytest.raises(
        DataError, match="2 rows are bad, and max_bad=1 allows 1: nothing more is written; among them\n"
    ):
        share.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", max_bad=1, **said)
    assert not (tmp_path / "out.csv").exists()
    # The same run with room for more goes on where it was.
    assert share.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", max_bad=3, **said).bad == 3
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT row FROM bad").fetchall() == [(2,), (3,), (5,)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"bad": "keep"}, "bad='keep': with epochs rows that are set aside go to a file or a table: say where"),
        ({"bad": "b.csv", "cut": ["share"]}, "bad= does not go with cut=: a push that fails in one process has gone"),
        ({"bad": "b.csv", "record": True}, "bad= does not go with record=: a recorded trace tells nothing of rows"),
        ({"bad": "b.csv", "order": "x"}, "bad= does not go with order=: with epochs all rows are sorted before"),
        ({"bad": "out.csv"}, "bad='out.csv': is where the output 'out' goes: give another"),
        ({"bad": "kafka://host/topic"}, "goes with Spark: with epochs give a file, a folder of Parquet"),
        ({"max_bad": 3}, "max_bad=3 says how many rows may be set aside"),
    ],
)
def test_what_does_not_go_together(
    said: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("x\n4\n")
    with pytest.raises(UsageError, match=re.escape(why)):
        share.run_epochs("in.csv", "out.csv", state="state", pushes=2, **said)
