"""Whole runs without a crash: the same output as without epochs, whatever the tasks, formats, borders and inputs."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pellucid import Pipeline, StateError, Stream, apply, merge, pipeline
from pellucid.errors import DataError, PellucidError, UsageError
from pellucid.internal.data.outputs import open_writer
from pellucid.internal.engine.epochs import run_epochs
from tests.strategies import Seeded, make_input, make_pipeline
from tests.volumes import some_seeds


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def diamond(x: Stream[int]) -> Stream[int]:
    right = x.cumulate(lambda t, v: max(t, v), start=0, id="top").decimate(2, id="half")
    return merge(x.filter(lambda v: v % 3 == 0, id="thirds"), right, id="both")


@pipeline
def pairs(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: 1000 * a + b, x.decimate(3, id="some"), y.trim(1, id="rest"), id="pair")


def numbers(path: Path, values: list[Any], **columns: list[Any]) -> str:
    table = pa.table({"x": values, **columns})
    with open_writer(str(path), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=97):
            writer.write(batch)
    return str(path)


VALUES = [(i * 7919) % 1009 for i in range(1000)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "csv.gz", "jsonl.gz", "parquet", "arrow"])
def test_formats_in_and_out(tmp_path: Path, ending: str) -> None:
    source = numbers(tmp_path / f"in.{ending}", VALUES)
    expected = total(VALUES)
    out = tmp_path / f"out.{ending}"
    report = run_epochs(total, source, out, state=tmp_path / "state", pushes=170, chunk=64)
    assert (report.epochs, report.pushes, report.rows) == (6, 1000, {"out": 1000})
    back = run_epochs(total.graph, out, tmp_path / "back.jsonl", state=tmp_path / "again", pushes=300, value="out")
    assert back.pushes == 1000
    lines = (tmp_path / "back.jsonl").read_text().split("\n")[:-1]
    assert [line.split(": ")[1][:-1] for line in lines] == [str(v) for v in total(expected)]


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "csv.gz"])
def test_the_bytes_do_not_depend_on_borders(tmp_path: Path, ending: str) -> None:
    source = numbers(tmp_path / "in.parquet", VALUES)
    found = set()
    for epochs, chunk in ((1000, 1000), (23, 7), (5000, 64)):
        out = tmp_path / f"out{epochs}.{ending}"
        run_epochs(diamond, source, out, state=tmp_path / f"s{epochs}", pushes=epochs, chunk=chunk)
        found.add(out.read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"pushes": 100}, (1000, 130)),
        ({"every": 0.01}, (40, 900)),
        ({"pushes": 100, "cut": ["some", "rest"]}, (0, 500)),
        ({"pushes": 100, "cut": ["some", "rest"]}, (1000, 1000)),
        ({"every": 0.01, "cut": ["some", "rest"]}, (1000, 130)),
    ],
)
def test_two_inputs_of_any_length(tmp_path: Path, settings: dict[str, Any], sizes: tuple[int, int]) -> None:
    x, y = VALUES[: sizes[0]], VALUES[::-1][: sizes[1]]
    inputs = {"x": numbers(tmp_path / "x.csv", x), "y": numbers(tmp_path / "y.csv", y)}
    if sizes[0] != sizes[1]:  # refused, and with the same state folder it goes on
        short, long = ("x", "y") if sizes[0] < sizes[1] else ("y", "x")
        with pytest.raises(DataError) as caught:
            run_epochs(pairs, inputs, tmp_path / "out.csv", state=tmp_path / "state", chunk=64, **settings)
        assert str(caught.value).startswith(
            f"{inputs[short]}: ends after {min(sizes):,} rows, but {inputs[long]} has more: the i-th push takes"
        )
        assert not (tmp_path / "out.csv").exists()
    run_epochs(pairs, inputs, tmp_path / "out.csv", state=tmp_path / "state", chunk=64, short="silent", **settings)
    assert [int(v) for v in (tmp_path / "out.csv").read_text().split()[1:]] == pairs(x, y, short="silent")


@pytest.mark.parametrize(
    ("workers", "keys"),
    [
        (3, [f"user {v % 13}" for v in VALUES]),
        (2, [v % 29 - 5 for v in VALUES]),
        (2, [v % 2 == 0 for v in VALUES]),
        (1, VALUES),
    ],
)
def test_keys_shared_among_workers(tmp_path: Path, workers: int, keys: list[Any]) -> None:
    source = numbers(tmp_path / "in.parquet", VALUES, user=keys)
    run_epochs(
        total,
        source,
        tmp_path / "out.parquet",
        state=tmp_path / "state",
        pushes=130,
        chunk=64,
        key="user",
        value="x",
        workers=workers,
    )
    sums: dict[Any, int] = {}
    expected = []
    for k, v in zip(keys, VALUES, strict=True):
        sums[k] = sums.get(k, 0) + v
        expected.append({"user": k, "out": sums[k]})
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected


def test_a_key_of_several_columns(tmp_path: Path) -> None:
    """Shared among workers by all of its columns; and a key_by inside does not take the place of the key that came."""
    parity = pipeline(lambda x: x.key_by(lambda v: v % 2 == 0).cumulate(lambda t, v: t + v, start=0), x=int)
    shops, users = [v % 3 for v in VALUES], [f"user {v % 5}" for v in VALUES]
    source = numbers(tmp_path / "in.parquet", VALUES, shop=shops, user=users)
    run_epochs(
        parity,
        source,
        tmp_path / "out.parquet",
        state=tmp_path / "state",
        pushes=300,
        key=["shop", "user"],
        value="x",
        workers=2,
    )
    sums: dict[Any, int] = {}
    expected = []
    for shop, user, v in zip(shops, users, VALUES, strict=True):
        sums[shop, user, v % 2] = sums.get((shop, user, v % 2), 0) + v
        expected.append({"shop": shop, "user": user, "out": sums[shop, user, v % 2]})
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected


def test_keys_and_cuts_together(tmp_path: Path) -> None:
    keys = [v % 17 for v in VALUES]
    source = numbers(tmp_path / "in.parquet", VALUES, user=keys)
    for name, settings in (("whole", {}), ("cut", {"workers": 2, "cut": ["thirds", "half"]})):
        run_epochs(
            diamond,
            source,
            tmp_path / f"{name}.csv",
            state=tmp_path / name,
            pushes=130,
            key="user",
            value="x",
            **settings,
        )
    assert (tmp_path / "cut.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_several_outputs_and_one_that_is_a_source(tmp_path: Path) -> None:
    both = pipeline(lambda x: {"same": x, "sums": x.cumulate(lambda t, v: t + v, start=0)}, x=int)
    source = numbers(tmp_path / "in.csv", VALUES)
    outputs = {"same": tmp_path / "same.csv", "sums": tmp_path / "sums.csv"}
    report = run_epochs(both, source, outputs, state=tmp_path / "state", pushes=300)
    assert report.rows == {"same": 1000, "sums": 1000}
    assert [int(v) for v in outputs["same"].read_text().split()[1:]] == VALUES
    assert [int(v) for v in outputs["sums"].read_text().split()[1:]] == total(VALUES)


def test_a_limit_and_then_more(tmp_path: Path) -> None:
    source = numbers(tmp_path / "in.csv", VALUES)
    for limit in (350, 720, None):
        run_epochs(total, source, tmp_path / "out.csv", state=tmp_path / "state", pushes=100, limit=limit)
        assert [int(v) for v in (tmp_path / "out.csv").read_text().split()[1:]] == total(VALUES[:limit])


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_file_that_grows(tmp_path: Path, ending: str) -> None:
    source = tmp_path / f"in.{ending}"
    head = "x\n" if ending == "csv" else ""
    for size in (350, 351, 1000):
        source.write_text(head + "".join(f"{v}\n" for v in VALUES[:size]))
        run_epochs(total, source, tmp_path / "out.csv", state=tmp_path / "state", pushes=100)
        assert [int(v) for v in (tmp_path / "out.csv").read_text().split()[1:]] == total(VALUES[:size])


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    source, said = tmp_path / "in.csv", []
    for text, expected in [("x\n1\n2", [1]), ("x\n1\n20\n300", [1, 21]), ("x\n1\n20\n300\n", [1, 21, 321])]:
        source.write_text(text)
        run_epochs(total, source, tmp_path / "out.csv", state=tmp_path / "state", pushes=100, say=said.append)
        assert [int(v) for v in (tmp_path / "out.csv").read_text().split()[1:]] == expected
    waits = (
        "has no end yet and is not read: the same command goes on with it once it has one (if it is whole, put a "
        "line end after it)"
    )
    assert [text for text in said if "line" in text] == [f"{source}: line 3 {waits}", f"{source}: line 4 {waits}"]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(6, 60))
def test_random_pipelines(tmp_path: Path, seed: int) -> None:
    """Every step is a cut where that is allowed; the result is that of the pipeline called on the same data."""
    choice = Seeded(seed)
    p = make_pipeline(choice, max_steps=6, forgets=seed % 2 == 1)
    inputs = make_input(choice, p, 60)
    names = [p.graph.nodes[i].id for i in p.graph.sources]
    types = {n: p.graph[n].type for n in names}
    files: dict[str, str] = {}
    data: dict[str, list[Any]] = {}
    from pellucid.internal.data.arrow import output_batch, output_schema
    from pellucid.internal.data.columns import Output, columns_of

    for name in names:
        events = data[name] = [step[name] for step in inputs if name in step]
        schema = output_schema(types[name], name)
        files[name] = str(tmp_path / f"{name}.parquet")
        with open_writer(files[name], schema) as writer:
            if events:
                writer.write(output_batch(Output(name, types[name], columns_of(types[name], events)), schema))
    try:
        expected = p(**data)
    except PellucidError:
        return  # a function fails on an event: what is said then is tested elsewhere
    names = [name for name, _ in p.graph.outputs]
    found = (
        expected
        if isinstance(expected, dict)
        else dict(zip(names, [expected] if len(names) == 1 else expected, strict=True))
    )
    rng = random.Random(seed)
    inner = [n.id for n in p.graph.nodes if n.kind != "source"]
    cut = rng.sample(inner, min(len(inner), 2))
    outputs = {name: tmp_path / f"{name}.out.parquet" for name, _ in p.graph.outputs}
    try:
        run_epochs(p, files, outputs, state=tmp_path / "state", pushes=rng.choice([3, 10, 25]), chunk=4, cut=cut)
    except UsageError as error:
        if not str(error).startswith("cut: the stream of step"):
            raise
        run_epochs(p, files, outputs, state=tmp_path / "state2", pushes=7, chunk=4)
    for name, at in p.graph.outputs:
        t = p.graph.nodes[at].type
        schema = output_schema(t, name)
        wanted = output_batch(Output(name, t, columns_of(t, list(found[name]))), schema)
        assert parquet.read_table(outputs[name]).to_pylist() == wanted.to_pylist()


def test_one_pipeline_one_task(tmp_path: Path) -> None:
    assert isinstance(total, Pipeline)
    with pytest.raises(UsageError, match="several workers share the work by a key"):
        run_epochs(
            total, numbers(tmp_path / "in.csv", [1]), tmp_path / "out.csv", state=tmp_path / "s", pushes=1, workers=2
        )


# Rows that are set aside in a run with epochs: the same as without, once each, whoever is killed.


@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda v, w: 100 // v + w, a, b, id="both")


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
