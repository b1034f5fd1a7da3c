"""Row groups that several threads pack, in one file: read by three libraries that did not write it."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pellucid.data.formats import parquet_groups
from pellucid.data.formats.parquet_groups import Footer, ParquetGroups, written


def table(rows: int) -> Any:
    """All kinds of columns, with nulls, some of them in every row."""
    day = datetime.datetime(2013, 1, 1)
    return pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "late": pa.array([None if n % 7 == 0 else n % 3 == 0 for n in range(rows)], pa.bool_()),
            "mean": pa.array([None if n % 5 == 0 else n / 3 for n in range(rows)], pa.float64()),
            "plane": pa.array([None if n % 11 == 0 else f"N{n % 13}" for n in range(rows)]),
            "carrier": pa.array([f"C{n % 4}" for n in range(rows)]).dictionary_encode(),
            "when": pa.array([day + datetime.timedelta(minutes=n) for n in range(rows)], pa.timestamp("us", "UTC")),
            "fare": pa.array([decimal.Decimal(n).scaleb(-2) for n in range(rows)], pa.decimal128(12, 2)),
            "legs": pa.array([None if n % 17 == 0 else list(range(n % 4)) for n in range(rows)], pa.list_(pa.int64())),
            "nothing": pa.nulls(rows, pa.int32()),
        }
    )


def file_of(whole: Any, size: int, threads: int, **how: Any) -> bytes:
    file = io.BytesIO()
    groups = ParquetGroups(file, lambda stream: parquet.ParquetWriter(stream, whole.schema, **how), threads)
    for start in range(0, whole.num_rows, size):
        groups.write(whole.slice(start, size))
    groups.close()
    return file.getvalue()


@pytest.mark.parametrize("size", [1000, 333, 37, 1000000])
def test_read_by_others(tmp_path: Path, size: int) -> None:
    whole = table(1000)
    path = tmp_path / "out.parquet"
    path.write_bytes(file_of(whole, size, threads=2))
    assert parquet.read_table(path).equals(whole)
    meta = parquet.read_metadata(path)
    assert meta.num_rows == 1000
    assert meta.num_row_groups == -(-1000 // size)
    plain = whole.set_column(4, "carrier", whole["carrier"].cast(pa.string()))
    rows = plain.to_pylist()
    assert polars.read_parquet(path).to_dicts() == rows
    found = duckdb.sql(f'select * exclude ("when"), epoch_us("when") as w from \'{path}\' order by n').fetchall()
    instants = plain["when"].cast(pa.int64()).to_pylist()
    assert found == [(*(v for k, v in row.items() if k != "when"), w) for row, w in zip(rows, instants, strict=True)]


@pytest.mark.parametrize(
    "how", [{}, {"compression": "zstd"}, {"use_dictionary": False}, {"write_page_checksum": True}, {"version": "1.0"}]
)
def test_the_same_bytes_whatever_the_threads(how: dict[str, Any]) -> None:
    whole = table(500)
    files = {file_of(whole, 41, threads, **how) for threads in (1, 2, 5)}
    assert len(files) == 1
    names = ["n", "plane"]
    assert parquet.read_table(io.BytesIO(files.pop()), columns=names).equals(whole.select(names))


def test_one_group_is_the_file_that_arrow_writes() -> None:
    whole = table(100)
    file = io.BytesIO()
    parquet.write_table(whole, file)
    assert file_of(whole, 100, threads=2) == file.getvalue()


def test_no_rows() -> None:
    whole = table(0)
    found = parquet.read_table(io.BytesIO(file_of(whole, 10, threads=2)))
    assert found.schema.names == whole.schema.names
    assert found.num_rows == 0


def test_statistics_pick_the_right_groups() -> None:
    whole = table(1000)
    file = file_of(whole, 100, threads=2)
    found = parquet.read_table(io.BytesIO(file), filters=[("n", ">=", 420), ("n", "<", 430)])
    assert found["n"].to_pylist() == list(range(420, 430))


def test_a_footer_goes_through_as_it_came() -> None:
    for how in ({}, {"write_page_index": True}, {"sorting_columns": [parquet.SortingColumn(0)]}):
        file = io.BytesIO()
        parquet.write_table(table(200), file, row_group_size=9, **how)
        data = file.getvalue()
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        assert written(Footer(footer).structure()) == footer


def test_every_group_is_counted_beyond_sixteen_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pa.table({"n": range(40)})
    monkeypatch.setattr(parquet_groups, "ORDINALS", 32)
    assert parquet.read_table(io.BytesIO(file_of(whole, 1, threads=2))).equals(whole)


def test_what_goes_wrong_while_packing_is_said() -> None:
    whole = table(10)

    def opened(stream: Any) -> Any:
        return parquet.ParquetWriter(stream, whole.schema.remove(0))

    groups = ParquetGroups(io.BytesIO(), opened, 2)
    groups.write(whole)
    with pytest.raises(ValueError, match="schema"):
        groups.close()
    groups.abandon()


def mutant(attribute: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(parquet_groups, attribute, value)


@pytest.mark.parametrize(
    "broken",
    [
        mutant("PAGE_OFFSETS", (9, 10, 14)),  # a dictionary page that stays behind
        mutant("PAGE_OFFSETS", ()),
        mutant("_move", lambda fields, numbers, by: None),
    ],
)
def test_a_footer_that_is_wrong_is_noticed(broken: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        broken(monkeypatch)
        with pytest.raises(RuntimeError, match="not where its footer says"):
            file_of(table(100), 10, threads=2)
