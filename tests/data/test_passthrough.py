"""``keep=`` in memory: an event carries the columns of the row whose push put it out; pandas is the oracle."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.dataset as ds
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from pellucid import DataError, PellucidError, Stream, UsageError, Windowed, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.data.columns import Output
from pellucid.internal.data.outputs import refuse_other_columns, refuse_other_keys
from pellucid.internal.expr.types import FLOAT, INT, STR, OptionalType, TupleType
from pellucid.internal.expr.types import type_of as made


class Flight(NamedTuple):
    carrier: str
    delay: int


@pipeline
def late(f: Stream[Flight]) -> Stream[Flight]:
    return f.filter(lambda e: e.delay > 10)


@pipeline
def total(delay: Stream[int]) -> Stream[int]:
    return delay.filter(lambda v: v > 10).cumulate(lambda t, v: t + v, start=0)


@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return left - right


TABLE = pa.table(
    {
        "carrier": ["UA", "AA", "UA", "B6"],
        "delay": pa.array([30, 5, 11, 12], pa.int16()),
        "tailnum": ["N1", None, None, "N4"],
        "sched": pa.array([dt.datetime(2013, 1, d, 5, tzinfo=dt.UTC) for d in (1, 2, 3, 4)]),
        "price": [Decimal("1.50"), None, Decimal("3.25"), Decimal("0.01")],
        "tags": [["a"], [], None, ["b", None]],
        "where": [{"x": 1, "y": None}, None, {"x": 2, "y": "q"}, {"x": None, "y": "r"}],
        "share": [0.5, float("nan"), None, 2.0],
        "raw": [b"\x00", b"", None, b"z"],
    }
)
LATE = [0, 2, 3]  # the rows whose push puts something out
OTHERS = [n for n in TABLE.column_names if n not in ("carrier", "delay")]


def test_every_column_of_whatever_type() -> None:
    found = late(TABLE, keep=OTHERS)
    assert found.column_names == [*OTHERS, "carrier", "delay"]
    for name in OTHERS:
        assert found.schema.field(name).type == TABLE.schema.field(name).type
        assert repr(found[name].to_pylist()) == repr(TABLE[name].take(LATE).to_pylist())  # repr: NaN is not NaN


def test_all_are_those_that_a_record_has_not_itself() -> None:
    assert late(TABLE, keep=True) == late(TABLE, keep=OTHERS)
    assert total(TABLE, keep=True).column_names == [*TABLE.column_names, "out"]
    assert total(TABLE, keep=True)["delay"].to_pylist() == [30, 11, 12]


def test_after_the_key_and_the_order() -> None:
    found = total(TABLE, key="carrier", order="sched", keep=["tailnum", "carrier", "price"])
    assert found.column_names == ["carrier", "sched", "tailnum", "price", "out"]
    assert found["tailnum"].to_pylist() == ["N1", None, "N4"] and found["out"].to_pylist() == [30, 41, 12]


def test_pandas_keeps_its_own_types_and_labels() -> None:
    frame = TABLE.select(["delay", "tailnum", "sched", "share"]).to_pandas()
    frame["kind"] = pd.Categorical(["x", "y", "x", None])
    frame["thing"] = [1, "a", None, {2}]  # what Arrow cannot hold
    frame.index = pd.Index([7, 5, 3, 1])
    found = total(frame, keep=True)
    expected = frame[frame.delay > 10]
    assert list(found.index) == list(expected.index)
    pd.testing.assert_frame_equal(found.drop(columns="out"), expected)


def test_polars_keeps_its_own_types() -> None:
    frame = pl.DataFrame({"delay": [30, 5, 11], "kind": ["a", "b", None], "n": [1, None, 3]}).with_columns(
        pl.col("kind").cast(pl.Categorical), pl.col("n").cast(pl.UInt8)
    )
    found = total(frame, keep=True)
    assert found.drop("out").equals(frame.filter(pl.col("delay") > 10)) and found.schema["kind"] == pl.Categorical()
    assert found["out"].to_list() == [30, 41]
    assert total(frame.lazy(), keep=["n"]).equals(found.select("n", "out"))


def test_lists_of_dicts() -> None:
    rows = [{"delay": 30, "who": None}, {"delay": 5}, {"delay": 11, "more": [1]}]
    assert total(rows, keep=True) == [
        {"delay": 30, "who": None, "more": None, "out": 30},
        {"delay": 11, "who": None, "more": [1], "out": 41},
    ]
    assert late([{"carrier": "UA", "delay": 30, "x": 1}], keep=["x"]) == [{"x": 1, "carrier": "UA", "delay": 30}]


@pytest.mark.parametrize("kind", ["dataset", "reader", "duckdb", "batch"])
def test_other_tables_of_arrows_kind(kind: str) -> None:
    small = TABLE.select(["delay", "tailnum"])
    data: Any = {
        "dataset": lambda: ds.dataset(small),
        "reader": lambda: small.to_reader(),
        "duckdb": lambda: duckdb.from_arrow(small),
        "batch": lambda: small.to_batches()[0],
    }[kind]()
    found = total(data, keep="tailnum")
    assert isinstance(found, pa.RecordBatch if kind == "batch" else pa.Table)
    assert found.to_pydict() == {"tailnum": ["N1", None, "N4"], "out": [30, 41, 53]}


def test_polars_series_and_frames_of_one_column() -> None:
    assert total(pl.Series("delay", [30, 5, 11])).to_list() == [30, 41]
    assert total(pl.DataFrame({"v": [30, 5, 11]})).equals(pl.DataFrame({"out": [30, 41]}))


def test_several_inputs() -> None:
    left, right = pa.table({"left": [5, 6], "note": ["a", None]}), pa.table({"right": [1, 2], "n": [7, 8]})
    found = difference(left=left, right=right, keep={"left": "note", "right": True})
    assert found.to_pydict() == {"note": ["a", None], "right": [1, 2], "n": [7, 8], "out": [4, 4]}
    wide = pa.table({"left": [5, None], "right": [1, 2], "note": ["a", "b"]})
    assert difference(wide, keep=["note"]).to_pydict() == {"note": ["a"], "out": [4]}
    mixed = difference(left=left.to_pandas(), right=right, keep={"right": ["n"]})
    assert mixed.to_dict("list") == {"n": [7, 8], "out": [4, 4]}


def test_rows_where_the_source_is_silent() -> None:
    wide = pa.table({"left": [5, None, 7], "right": [1, None, 2], "note": ["a", "b", "c"]})
    assert difference(wide, keep=["note"])["note"].to_pylist() == ["a", "c"]


TROUBLE: list[tuple[Any, str]] = [
    (
        lambda: total(TABLE, keep=["tailnumb"]),
        "total: source 'delay': no column 'tailnumb' to keep: its columns are carrier, delay, tailnum, sched, price, "
        "tags, where, share, raw; did you mean 'tailnum'?",
    ),
    (
        lambda: late(TABLE, keep=["delay"]),
        "keep='delay': the output 'out' has a column of this name itself: leave it out of keep=, or rename the column "
        "before",
    ),
    (
        lambda: total(TABLE.rename_columns(["out", *TABLE.column_names[1:]]), keep=True),
        "keep=True: the output 'out' has a column 'out' itself: name those that you want, or rename the column before",
    ),
    (lambda: total(TABLE, keep=["price", "price"]), "keep=: the column 'price' is named twice"),
    (
        lambda: total(TABLE, keep=3),
        "keep=: expected the name of a column, a list of names, or True for all, found 3",
    ),
    (
        lambda: total([30, 5], keep=["x"]),
        "total: keep= names columns, so the source 'delay' must be a table (a DataFrame, an Arrow table, a list of "
        "dicts), found [30, 5]",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep=["price"]),
        "difference has several inputs (left, right): say of which columns pass through, as in keep={'left': "
        "['price']}",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep={"left": "price", "right": "price"}),
        "keep='price': several inputs have a column of this name: keep one of them, or rename one",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep={"lift": "price"}),
        "keep=: difference has no input 'lift': it has left, right; did you mean 'left'?",
    ),
    (
        lambda: total.trace(TABLE, keep=True),
        "total.trace gives events, push by push: keep= goes with a run, as in p(table, keep=…)",
    ),
]


@pytest.mark.parametrize(("call", "said"), TROUBLE)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises((DataError, UsageError, PellucidError)) as caught:
        call()
    assert str(caught.value) == said


# A field of the name of a column of the key or the order: it stands once where both are the same, and is refused where
# they differ, in the same words in every way to run a pipeline.  Plain Python is the oracle.


class Row(NamedTuple):
    k: str
    t: int
    v: int


class Counted(NamedTuple):
    k: str
    t: int
    n: int


PIPES = """\
from typing import NamedTuple
from pellucid import Stream, pipeline

class Row(NamedTuple):
    k: str
    t: int
    v: int

class Counted(NamedTuple):
    k: str
    t: int
    n: int

@pipeline
def counted(x: Stream[Row]) -> Stream[Counted]:
    n = x.cumulate(lambda n, e: n + 1, start=0)
    from pellucid import apply
    return apply(lambda e, n: Counted("x" if e.v == 9 else e.k, e.t + (100 if e.v == 8 else 0), n), x, n)
"""
_made: dict[str, Any] = {}
exec(PIPES, _made)
counted = _made["counted"]


def meaning(rows: list[dict[str, Any]], key: str | None, order: str | None) -> Any:
    """The rows that come out; or what is lost first of the key: the name, the field's value, the
    column's."""
    seen: dict[Any, int] = {}
    out = []
    lost: dict[str, tuple[str, Any, Any]] = {}
    for row in rows if order is None else sorted(rows, key=lambda r: r[order]):
        group = row[key] if key else None
        seen[group] = seen.get(group, 0) + 1
        k, t = "x" if row["v"] == 9 else row["k"], row["t"] + (100 if row["v"] == 8 else 0)
        if key == "k" and k != row["k"]:
            lost.setdefault("k", ("key", k, row["k"]))
        out.append({"k": k, "t": t, "n": seen[group]})
    return lost or out


def words(lost: dict[str, tuple[str, Any, Any]]) -> list[str]:
    """What may be said of it: rows that are looked at together have their key looked at first."""
    return [
        f"the field {name!r} of the output 'out' is {own!r}, and the {what} column of this name is {other!r}: one of "
        "them would be lost; rename the field, or that column before"
        for name, (what, own, other) in lost.items()
    ]


KINDS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda rows: pl.DataFrame(rows).lazy(),
    "arrow": pa.Table.from_pylist,
    "batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "dicts": lambda rows: rows,
    "duckdb": lambda rows: duckdb.from_arrow(pa.Table.from_pylist(rows)),
}


def plain(found: Any) -> Any:
    if isinstance(found, list):
        return found
    if isinstance(found, pd.DataFrame):
        return found.to_dict("records")
    if isinstance(found, pl.LazyFrame):
        found = found.collect()
    return found.to_dicts() if isinstance(found, pl.DataFrame) else found.to_pylist()


def drawn(seed: int) -> tuple[list[dict[str, Any]], str | None, str | None]:
    chance = random.Random(seed)
    odd = chance.choice([0, 0, 0.1, 0.4])
    count = chance.randrange(1, 14)
    times = chance.sample(range(50), count)
    values = [chance.choice([8, 9]) if chance.random() < odd else chance.randrange(8) for _ in times]
    rows = [{"k": chance.choice("abx"), "t": t, "v": v} for t, v in zip(times, values, strict=True)]
    return rows, *chance.choice([("k", None), (None, "t"), ("k", "t")])


def ask(wanted: Any, rows: list[dict[str, Any]], run: Callable[[], Any], where: str | None = None) -> None:
    if isinstance(wanted, list):
        assert plain(run()) == wanted
        return
    with pytest.raises(DataError) as refused:
        run()
    assert any(said in str(refused.value) for said in words(wanted)), str(refused.value)
    assert re.match(where or r"counted: source 'x': position \d+: the field", str(refused.value)), str(refused.value)


@pytest.mark.parametrize("kind", list(KINDS))
def test_in_memory(kind: str) -> None:
    for seed in range(25):
        rows, key, order = drawn(seed)
        said = {name: column for name, column in (("key", key), ("order", order)) if column}
        ask(meaning(rows, key, order), rows, partial(counted, KINDS[kind](rows), **said))


def test_the_row_is_the_users() -> None:
    """With an order the row is named as it came, not as it was sorted."""
    rows = [{"k": "a", "t": 3, "v": 9}, {"k": "a", "t": 1, "v": 0}]
    with pytest.raises(DataError, match=r"^counted: source 'x': position 0: the field 'k'"):
        counted(rows, key="k", order="t")


def test_on_all_cores() -> None:
    rows = [{"k": f"k{i % 40}", "t": i, "v": 0} for i in range(4000)]
    table = pa.Table.from_pylist(rows)
    assert counted(table, key="k", cores=2).to_pylist() == meaning(rows, "k", None)
    rows[3210]["v"] = 9
    with pytest.raises(DataError, match=r"position 3,210: the field 'k' of the output 'out' is 'x', and the key"):
        counted(pa.Table.from_pylist(rows), key="k", cores=2)


# ---------------------------------------------------------------- files


def written(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".csv":
        arrow_csv.write_csv(table, path)
    else:
        path.write_text("".join(f'{{"k": "{r["k"]}", "t": {r["t"]}, "v": {r["v"]}}}\n' for r in rows))


def read(path: Path) -> Any:
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".csv":
        return arrow_csv.read_csv(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipes.py").write_text(PIPES)
    for seed in range(8):
        rows, key, order = drawn(seed)
        written(tmp_path / f"in.{ending}", rows)
        said = [word for name, column in (("--key", key), ("--order", order)) if column for word in (name, column)]
        out = tmp_path / f"out{seed}.{ending}"
        found = CliRunner().invoke(
            cli, ["run", "pipes.py:counted", "--in", f"in.{ending}", "--out", str(out), "--chunk", "3", *said]
        )
        wanted = meaning(rows, key, order)
        if isinstance(wanted, list):
            assert found.exit_code == 0, found.stderr
            assert read(out) == wanted
            continue
        assert found.exit_code == 2 and "Traceback" not in found.stderr
        assert any(said in " ".join(found.stderr.split()) for said in words(wanted)), found.stderr
        assert f"in.{ending}: " in found.stderr and not out.exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs(workers: int, tmp_path: Path) -> None:
    for seed in (1, 2, 3, 5):
        rows, key, order = drawn(seed)
        place = tmp_path / str(seed)
        place.mkdir()
        written(place / "in.csv", rows)
        said: dict[str, Any] = {name: column for name, column in (("key", key), ("order", order)) if column}
        if workers > 1 and not key:
            continue

        def run(place: Path = place, said: dict[str, Any] = said) -> Any:
            counted.run_epochs(
                place / "in.csv", place / "out.csv", state=place / "state", pushes=4, workers=workers, **said
            )
            return read(place / "out.csv")

        ask(meaning(rows, key, order), rows, run, where=r".*push \d+: the field")


def test_epochs_keep_what_was_committed_before(tmp_path: Path) -> None:
    """Nothing of the epoch in which they differ is written, and the same command says the same again."""
    rows = [{"k": "a", "t": i, "v": 0} for i in range(6)]
    rows[5]["v"] = 9
    written(tmp_path / "in.csv", rows)
    said: dict[str, Any] = {"state": tmp_path / "state", "pushes": 4, "key": "k"}
    for _ in range(2):
        with pytest.raises(DataError, match="push 5: the field 'k' of the output 'out' is 'x'"):
            counted.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", **said)
        assert not (tmp_path / "out.csv").exists() or len(read(tmp_path / "out.csv")) <= 4


# ---------------------------------------------------------------- what the types tell


class Typed(NamedTuple):
    k: int
    n: int


class Nested(NamedTuple):
    k: Typed
    n: int


def _typed(make: Callable[[Any], Any]) -> Any:
    return pipeline(lambda x: x.map(make), x=Row)


TYPES = {
    "int for str": (_typed(lambda e: Typed(e.v, e.t)), "of type int, and the key column of this name holds string"),
    "a record for str": (_typed(lambda e: Nested(Typed(e.v, e.t), e.t)), "Typed(k: int, n: int), and the key column"),
}


@pytest.mark.parametrize("which", list(TYPES))
def test_types_tell_it_before_anything_is_written(which: str, tmp_path: Path) -> None:
    p, said = TYPES[which]
    rows = [{"k": "a", "t": 1, "v": 2}]
    for kind in ("pandas", "polars", "arrow", "dicts"):
        with pytest.raises(UsageError, match=re.escape(said)):
            p(KINDS[kind](rows), key="k")
    written(tmp_path / "in.parquet", rows)
    with pytest.raises(UsageError, match=re.escape(said)):
        p.run_epochs(tmp_path / "in.parquet", tmp_path / "out.csv", state=tmp_path / "state", pushes=1, key="k")
    assert not (tmp_path / "out.csv").exists() and not (tmp_path / "state").exists()


class Color(Enum):
    RED = "r"
    BLUE = "b"


class Event(NamedTuple):
    day: dt.date
    color: Color
    user: str | None


def test_what_is_read_as_something_else_is_the_same(tmp_path: Path) -> None:
    """A date that a CSV file spells, a member of an enum by its name, a null: the key is the text, the field what is
    read of it."""
    (tmp_path / "in.csv").write_text("day,color,user\n2013-01-01,RED,ada\n2013-01-02,BLUE,\n")
    same = pipeline(lambda x: x.filter(lambda e: True), x=Event)
    for i, key in enumerate((["day"], ["day", "color", "user"])):
        out = tmp_path / f"{i}.jsonl"
        same.run_epochs(tmp_path / "in.csv", out, state=tmp_path / f"s{i}", pushes=1, key=key)
        assert [(r["day"], r["color"], r["user"]) for r in read(out)] == [
            ("2013-01-01", "RED", "ada"), ("2013-01-02", "BLUE", None),
        ]  # fmt: skip
    table = pa.table({"day": [dt.date(2013, 1, 1)], "color": ["RED"], "user": ["ada"]})
    other = pipeline(lambda x: x.map(lambda e: Event(e.day + dt.timedelta(days=1), e.color, None)), x=Event)
    with pytest.raises(DataError, match="the field 'day' of the output 'out' is 2013-01-02, and the key column of this "
                       "name is 2013-01-01"):  # fmt: skip
        other(table, key="day")
    with pytest.raises(DataError, match=r"the field 'user' of the output 'out' is None, and the key .* is 'ada'"):
        other(table, key="user")


def test_items_of_tuples() -> None:
    """``0`` is no column of what comes out, ``out_0`` is one."""
    pairs = pipeline(lambda v: v.map(lambda e: (e, e + 1)), v=int)
    rows = [{"0": 5, "v": 1}, {"0": 6, "v": 2}]
    assert pairs(rows, key="0") == [{"0": 5, "out_0": 1, "out_1": 2}, {"0": 6, "out_0": 2, "out_1": 3}]
    table = pa.table({"out_0": [1, 7], "v": [1, 2]})
    with pytest.raises(DataError, match="position 1: the field 'out_0' of the output 'out' is 2, and the key column"):
        pairs(table, key="out_0")


class User(NamedTuple):
    id: int


class Visit(NamedTuple):
    user: User
    n: int


def test_inside_a_record() -> None:
    same, other = (
        pipeline(lambda x, by=by: x.map(lambda e: Visit(User(e.user.id + by), e.n)), x=Visit) for by in (0, 1)
    )
    table = pa.table({"user.id": [3, 4], "n": [1, 2]})
    assert same(table, key="user.id").to_pylist() == [{"user": {"id": 3}, "n": 1}, {"user": {"id": 4}, "n": 2}]
    with pytest.raises(DataError, match=r"the field 'user.id' of the output 'out' is 4, and the key .* is 3"):
        other(table, key="user.id")
    with pytest.raises(UsageError, match="has a column of this name itself"):
        same(table, keep="user.id")
    assert same(table, keep=True).column_names == ["user", "n"]


def test_two_outputs_each_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @pipeline
    def both(x: Stream[Row]) -> dict[str, Stream[Any]]:
        return {"same": x.filter(lambda e: True), "other": x.map(lambda e: Row("z", e.t, e.v))}

    with pytest.raises(DataError, match="the field 'k' of the output 'other' is 'z', and the key column of this"):
        both([{"k": "a", "t": 1, "v": 2}], key="k")
    text = PIPES + (
        "\n@pipeline\ndef both(x: Stream[Row]) -> dict[str, Stream[Row]]:\n"
        "    return {'same': x.filter(lambda e: True), 'other': x.map(lambda e: Row('z', e.t, e.v))}\n"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipes.py").write_text(text)
    (tmp_path / "in.csv").write_text("k,t,v\nz,1,2\na,1,2\n")
    words = ["run", "pipes.py:both", "--in", "in.csv", "--key", "k", "--out", "same=a.csv", "--out", "other=b.csv"]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 2 and "in.csv: row 2" in found.stderr and "the output 'other' is 'z'" in found.stderr
    assert not (tmp_path / "a.csv").exists() and not (tmp_path / "b.csv").exists()


def test_event_time() -> None:
    """A window's own columns are refused by their names, fields of other answers by what they hold."""

    @pipeline
    def tens(x: Stream[Row]) -> Stream[Windowed[int, int]]:
        return x.at("t").tumbling(10, lambda w: w.cumulate(lambda n, e: n + 1, start=0))

    rows = [{"k": "a", "t": 1, "v": 2, "start": 7}, {"k": "b", "t": 1, "v": 2, "start": 7}]
    with pytest.raises(UsageError, match="key='start': the answers of tens have a column 'start' of their own"):
        tens(pa.Table.from_pylist(rows), key="start")
    named = pipeline(lambda x: tens(x).map(lambda w: Typed(w.start, w.value)), x=Row)
    with pytest.raises(UsageError, match="has a field 'k' of type int, and the key column of this name holds string"):
        named(pa.Table.from_pylist(rows), key="k")
    once = pipeline(lambda x: x.at("t").dedup(by=lambda e: e.t, within=5).map(lambda e: Row("b", e.t, e.v)), x=Row)
    with pytest.raises(DataError, match=r"^the field 'k' of the output 'out' is 'b', and the key column .* is 'a'"):
        once(pa.Table.from_pylist(rows), key="k")


def test_windows_in_files(tmp_path: Path) -> None:
    tens = pipeline(lambda x: x.at("t").tumbling(10, lambda w: w.cumulate(lambda n, e: n + 1, start=0)), x=Row)
    (tmp_path / "in.csv").write_text("k,t,v,end\na,1,2,3\n")
    with pytest.raises(UsageError, match="have a column 'end' of their own, and the key would be lost"):
        tens.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", state=tmp_path / "s", pushes=1, key="end")


# ---------------------------------------------------------------- the comparison itself


VALUES: list[tuple[Any, Any, list[Any], pa.Array, int | None]] = [
    (INT, INT, [1, 2**62], pa.array([1, 2**62]), None),
    (FLOAT, INT, [1.0, float(2**53)], pa.array([1, 2**53]), None),
    (FLOAT, INT, [1.0, float(2**53)], pa.array([1, 2**53 + 1]), 1),  # no float is equal to it
    (OptionalType(INT), INT, [1, None], pa.array([1, None]), None),
    (OptionalType(INT), INT, [1, 0], pa.array([1, None]), 1),
    (OptionalType(STR), STR, ["", None], pa.array([None, None], pa.string()), 0),
    (STR, STR, ["é", ""], pa.array(["é", ""]).dictionary_encode(), None),
    (STR, STR, ["a", "b"], pa.array(["a", None]), 1),
    (made(dt.date), STR, [dt.date(2013, 1, 1)] * 2, pa.array(["2013-01-01", "2013-01-02"]), 1),
    (made(dt.date), STR, [dt.date(2013, 1, 1)] * 2, pa.array(["2013-01-01", "no date"]), 1),
    (made(Color), STR, [Color.RED, Color.RED], pa.array(["RED", "BLUE"]), 1),
    (made(Color), STR, [Color.RED, Color.BLUE], pa.array(["RED", "BLUE"]), None),
]


@pytest.mark.parametrize("at", range(len(VALUES)))
def test_values(at: int) -> None:
    t, _, own, column, differs = VALUES[at]
    rows = [t.flatten(value) for value in own]
    output = Output("f", t, [list(leaf) for leaf in zip(*rows, strict=True)])
    where = lambda i: f"row {i}"
    if differs is None:
        refuse_other_columns("order", output, [("f", column)], where)
    else:
        with pytest.raises(DataError, match=f"^row {differs}: the field 'f' of the output 'f' is "):
            refuse_other_columns("order", output, [("f", column)], where)


def test_a_run_without_keys_is_no_excuse() -> None:
    with pytest.raises(PellucidError, match="has no key of 1 column"):
        refuse_other_keys(Output("f", TupleType((INT, INT)), [[1], [2]]), ["f_0"])
