"""Whole numbers with holes in between, which pandas and others keep as floats: the same ints from every place."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import DataError, pipeline

delays = pipeline(lambda x: x.map(lambda v: -1 if v is None else v * 10), x=int | None)
HOLES = pd.DataFrame({"x": [3, None, -4, 2**53]})  # float64: there is no other way in NumPy
EXPECTED = [30, -1, -40, 10 * 2**53]


def test_in_memory() -> None:
    table = pa.Table.from_pandas(HOLES)
    assert pa.types.is_floating(table.schema.field("x").type)
    assert list(delays(HOLES)["out"]) == delays(table)["out"].to_pylist() == EXPECTED
    assert delays(table["x"].cast(pa.float32()).slice(0, 3)).to_pylist() == EXPECTED[:3]
    assert delays(np.array([3.0, -4.0])).tolist() == [30, -40]
    both = pipeline(lambda a, b: a.map(lambda v: v or 0) + b, a=int | None, b=int)
    assert both(pd.DataFrame({"a": [1.0, 2.0], "b": [5, 6]}))["out"].tolist() == [6, 8]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_in_files(tmp_path: Path, form: str) -> None:
    frame = pd.concat([HOLES] * 50, ignore_index=True)
    written = {
        "parquet": frame.to_parquet,
        "arrow": frame.to_feather,
        "csv": lambda path: frame.to_csv(path, index=False),
        "jsonl": lambda path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    }
    written[form](tmp_path / f"in.{form}")
    if form == "csv":
        assert "\n3.0\n" in (tmp_path / "in.csv").read_text()
    delays.run_epochs(tmp_path / f"in.{form}", tmp_path / "out.parquet", state=tmp_path / "state", pushes=90, chunk=33)
    assert pq.read_table(tmp_path / "out.parquet")["out"].to_pylist() == EXPECTED * 50


FLOATS: list[tuple[Any, str]] = [
    (0.5, "but 0.5 is none"),
    (math.inf, "but inf is none"),
    (math.nan, "but nan is none"),
    (2.0**53 + 2, "but 9007199254740994.0 is beyond 2**53, from where on floats skip whole numbers"),
]


@pytest.mark.parametrize(("value", "why"), FLOATS, ids=str)
def test_what_is_no_whole_number_is_refused(value: float, why: str) -> None:
    with pytest.raises(DataError) as caught:
        delays(pa.table({"x": pa.array([1.0, None, value])}))
    assert str(caught.value) == (
        f"pipeline: source 'x': position 2: column 'x': expected a whole number or null, {why}; correct the value, or "
        "declare it as float | None"
    )
