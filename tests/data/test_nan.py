"""NaN that comes in: a value where the run says so, None from pandas where that may be, and refused otherwise.

One rule for every source; what it is asked of is the meaning (docs/explanation/meaning.md), in plain Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from pellucid import DataError, Stream, UsageError, check, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.spark.plan import choose

NAN = math.nan
VALUES = [1.5, NAN, -2.0]


def told(v: float | None) -> str:
    """Every way in which a NaN can be found out."""
    if v is None:
        return "none"
    return f"{v == v} {v != v} {v < 1} {not v < 1} {v >= 1} {v == 1.5} {min(v, 1.0) == 1.0} {max(1, v) == 1}"


def words(v: float | None) -> int:
    """The same as a number, so that it is traced and compiled."""
    if v is None:
        return -1
    return (
        (1 if v == v else 0) + (2 if v != v else 0) + (4 if v < 1 else 0) + (8 if not v < 1 else 0)
        + (16 if v >= 1 else 0) + (32 if v == 1.5 else 0) + (64 if min(v, 1.0) == 1.0 else 0) + (128 if v <= 2 else 0)
    )  # fmt: skip


known = pipeline(lambda x: x.map(words), x=float)
maybe = pipeline(lambda x: x.map(words), x=float | None)

SOURCES: dict[str, Callable[[], Any]] = {
    "list": lambda: list(VALUES),
    "mixed list": lambda: [1.5, NAN, -2],
    "dicts": lambda: [{"x": v} for v in VALUES],
    "numpy": lambda: np.array(VALUES),
    "objects": lambda: np.array(VALUES, dtype=object),
    "structured": lambda: np.array([(v,) for v in VALUES], dtype=[("x", "f8")])["x"],
    "polars": lambda: pl.DataFrame({"x": VALUES}),
    "polars series": lambda: pl.Series("x", VALUES),
    "arrow": lambda: pa.table({"x": VALUES}),
    "float32": lambda: pa.table({"x": pa.array(VALUES, pa.float32())}),
    "dictionary": lambda: pa.table({"x": pa.array(VALUES).dictionary_encode()}),
    "duckdb": lambda: duckdb.sql("select unnest(['1.5'::double, 'nan'::double, '-2'::double]) x"),
}
PANDAS: dict[str, Callable[[], Any]] = {
    "frame": lambda: pd.DataFrame({"x": VALUES}),
    "series": lambda: pd.Series(VALUES),
    "object frame": lambda: pd.DataFrame({"x": VALUES}, dtype=object),
    "object series": lambda: pd.Series(VALUES, dtype=object),
}


def plain(result: Any) -> list[Any]:
    """The numbers of a result of any kind."""
    if isinstance(result, pl.DataFrame | pd.DataFrame):
        return list(result["out"])
    if isinstance(result, pa.Table):
        return list(result.column("out").to_pylist())
    return [row["out"] if isinstance(row, dict) else int(row) for row in result]


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_has_one_rule(kind: str) -> None:
    data = SOURCES[kind]
    for p in (known, maybe):
        assert plain(p(data(), nan="keep")) == [words(v) for v in VALUES]
        with pytest.raises(DataError, match=r"position 1: .*NaN is no event.* say nan='keep' if .*give None"):
            p(data())


@pytest.mark.parametrize("kind", PANDAS)
def test_from_pandas_nan_is_nothing_where_that_may_be(kind: str) -> None:
    data = PANDAS[kind]
    none = [words(None if math.isnan(v) else v) for v in VALUES]
    assert plain(maybe(data())) == plain(maybe(data(), nan="keep")) == none
    assert plain(known(data(), nan="keep")) == [words(v) for v in VALUES]
    with pytest.raises(DataError, match=r"position 1: .*(NaN|null).*float \| None"):
        known(data())


def test_several_sources_in_one_pandas_table_are_silent_there() -> None:
    both = pipeline(lambda x, y: (x.map(words), y.map(words)), x=float, y=float)
    table = {"x": [NAN, 1.5], "y": [2.0, NAN]}
    for nan in ("fail", "keep"):
        x, y = both(pd.DataFrame(table), nan=nan)
        assert (list(x["out1"]), list(y["out2"])) == ([words(1.5)], [words(2.0)])
    x, y = both(pa.table(table), nan="keep")
    assert x.column(0).to_pylist() == [words(NAN), words(1.5)]


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_both_dialects_compare_as_python_does(mode: str) -> None:
    engine, literal = maybe.engine(mode=mode, nan="keep"), Interpreter(maybe.graph)
    values = [NAN, None, 1.0, -NAN, math.inf, 1.5]
    assert engine.push(values) == [words(v) for v in values] == [literal.push(x=v)["out"][0] for v in values]
    texts = pipeline(lambda x: x.map(told), x=float | None)
    assert texts(values, nan="keep") == [told(v) for v in values]


def test_what_is_remembered_goes_through_a_saved_state() -> None:
    last = pipeline(lambda x: x.lag(1).map(lambda e: e[1]), x=float)
    top = pipeline(lambda x: x.cumulate(lambda t, v: v if v > t or t != t else t, start=0.0), x=float)
    for p, wanted in ((last, [NAN, 2.0]), (top, [2.0, 3.0])):
        for mode in ("python", "numba"):
            first, second = (p.engine(mode=mode, nan="keep") for _ in range(2))
            first.push([1.0, NAN])
            second.load(first.save())
            assert repr(second.push([2.0, 3.0])) == repr(wanted)


def test_an_engine_refuses_it_in_lists_and_arrays() -> None:
    for data in ([1.0, NAN], np.array([1.0, NAN])):
        engine = known.engine()
        engine.push([0.5])
        with pytest.raises(DataError, match=r"source 'x', event 2: NaN is no event.* say nan='keep'"):
            engine.push(data)
    with pytest.raises(UsageError, match="nan='maybe': expected fail or keep"):
        known([1.0], nan="maybe")


def test_files_in_and_out(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("from pellucid import pipeline\nsame = pipeline(lambda x: x.map(lambda v: v), x=float)\n")
    (tmp_path / "in.csv").write_text("x\n1.5\nnan\n-2\n")
    parquet.write_table(pa.table({"x": VALUES}), tmp_path / "in.parquet")

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, ["run", f"{program}:same", *args])

    for source in ("in.csv", "in.parquet"):
        for out in ("out.csv", "out.parquet"):
            target = tmp_path / out
            done = run("--in", str(tmp_path / source), "--nan", "keep", "--out", str(target))
            assert done.exit_code == 0, done.stderr
            found = pd.read_csv(target) if out == "out.csv" else parquet.read_table(target).to_pandas()
            assert repr(found["out"].tolist()) == repr(VALUES)
        refused = run("--in", str(tmp_path / source), "--out", str(tmp_path / "no.csv"))
        assert (refused.exit_code, "row 2" in refused.stderr, "say --nan keep" in refused.stderr) == (2, True, True)
    for out in ("no.jsonl", "-"):
        refused = run(
            "--in", str(tmp_path / "in.csv"), "--nan", "keep", "--out", str(tmp_path / out) if out != "-" else out
        )
        assert refused.exit_code == 2
        assert "column 'out' has a NaN, for which JSON has no word: write CSV or Parquet" in refused.stderr


def test_epochs(tmp_path: Path) -> None:
    same = pipeline(lambda x: x.map(lambda v: v), x=float)
    (tmp_path / "in.csv").write_text("x\n1.5\nnan\n-2\n")
    asked = {"state": tmp_path / "state", "pushes": 2}
    with pytest.raises(DataError, match=r"in.csv: row 2 \(line 3\): column 'x' is NaN"):
        same.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", **asked)
    same.run_epochs(tmp_path / "in.csv", tmp_path / "out.csv", nan="keep", **asked)  # the same run goes on
    assert (tmp_path / "out.csv").read_text().split() == ["out", "1.5", "nan", "-2"]


def test_a_table_is_described_with_its_nans(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x,y,z\n1.5,NaN,nan\nnan,,b\n-2,3,c\n")
    parquet.write_table(pa.table({"x": VALUES, "y": [NAN, None, 3.0], "z": ["nan", "b", "c"]}), tmp_path / "in.parquet")
    for source in ("in.csv", "in.parquet"):
        told = CliRunner().invoke(cli, ["tables", str(tmp_path / source)]).stdout
        assert "    x: float  # 1 NaN: a value with nan='keep' (--nan keep), else refused\n" in told
        assert "    y: float | None  # 1 null, 1 NaN: a value with nan='keep'" in told
        assert "    z: str\n" in told or told.rstrip().endswith("    z: str")


def test_json_has_no_nan(tmp_path: Path) -> None:
    """Neither way in: a word that is no JSON is refused, whatever is asked for."""
    program = tmp_path / "p.py"
    program.write_text("from pellucid import pipeline\nsame = pipeline(lambda x: x.map(lambda v: v), x=float)\n")
    (tmp_path / "in.jsonl").write_text(json.dumps({"x": NAN}))
    args = ["run", f"{program}:same", "--in", str(tmp_path / "in.jsonl"), "--nan", "keep"]
    refused = CliRunner().invoke(cli, args)
    assert (refused.exit_code, "NaN is no JSON" in refused.stderr) == (2, True)


def test_a_proof_says_what_it_leaves_out() -> None:
    @pipeline
    def clamped(x: Stream[float]) -> Stream[float]:
        return x.map(lambda v: v if v < 10 else 10.0)

    proof = check.holds(clamped, "G (out -> out.value <= 10)")
    assert proof.proved
    assert any("floats that are not NaN" in note and "nan='keep'" in note for note in proof.notes)
    ints = pipeline(lambda x: x.map(lambda v: abs(v % 5)), x=int)
    assert not any("NaN" in note for note in check.holds(ints, "G (out -> out.value <= 10)").notes)


def test_spark_takes_the_kernel_where_nan_may_come() -> None:
    assert choose(known.graph, key=False, order=False).way == "native"
    found = choose(known.graph, key=False, order=False, nan=True)
    assert found.way == "rows"
    assert "finds it equal to itself" in str(found)
    by = pipeline(lambda x: x.key_by(lambda v: v > 0).cumulate(lambda n, v: n + 1, start=0), x=float)
    assert choose(by.graph, key=False, order=True).way == "inner"
    assert choose(by.graph, key=False, order=True, nan=True).way == "one"
    ints = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    assert choose(ints.graph, key=False, order=False, nan=True).way == "native"
