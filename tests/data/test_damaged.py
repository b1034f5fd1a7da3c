"""Damaged Parquet and Arrow files: refused before anything in them is touched."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner
from pyarrow import csv

from pellucid.errors import DataError
from pellucid.internal.cli.main import cli
from pellucid.internal.data.arrow_files import _walk, pages_of, refuse_huge_pages
from pellucid.internal.data.files import open_reader
from pellucid.internal.expr.types import DATETIME, INT, STR, OptionalType
from tests.data import mutants
from tests.seeds import seeds

DAMAGED = "cannot be read after record batch 0: it is damaged or cut off (In column 0: Invalid: "


def written(path: Path, array: Any, form: str) -> str:
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(path, batch.schema) as writer:
        writer.write_batch(batch)
    return str(path)


def rows(path: str, t: Any = STR) -> list[Any]:
    reader = open_reader(path)
    try:
        return [v for chunk in reader.chunks({"x": t}, rows=2) for v in chunk.batch.column(0).to_pylist()]
    finally:
        reader.close()


def int32(*numbers: int) -> bytes:
    return np.array(numbers, np.int32).tobytes()


OFFSETS, CODES = int32(0, 70, 77, 80), np.array([2, 0, 1, 1, 2], np.int8).tobytes()
TEXTS = pa.array(["a" * 70, "b" * 7, "c\xe9"])
CODED = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 1, 2], pa.int8()), pa.array(["x", "y", "z"]))


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize(
    ("array", "old", "new", "why"),
    [
        (TEXTS, OFFSETS, int32(0, 70, 1 << 30, 80), "Offset invariant failure"),
        (TEXTS, OFFSETS, int32(0, 70, -77, 80), "Offset invariant failure"),
        (TEXTS, OFFSETS, int32(0, 78, 77, 80), "Offset invariant failure"),
        (TEXTS, b"bbbb", b"b\xff\xfeb", "Invalid UTF8 sequence at string index 1"),
        (CODED, CODES, CODES.replace(b"\x00", b"\x07"), "Dictionary indices invalid"),
        (CODED, CODES, CODES.replace(b"\x00", b"\xf7"), "Dictionary indices invalid"),
    ],
    ids=["offset beyond", "offset below", "offsets falling", "no text", "no such code", "code below"],
)
def test_what_an_arrow_file_says_of_its_memory_is_checked(
    tmp_path: Path, form: str, array: Any, old: bytes, new: bytes, why: str
) -> None:
    path = written(tmp_path / "a.arrow", array, form)
    assert rows(path) == array.to_pylist()
    data = Path(path).read_bytes()
    assert data.count(old) == 1 and len(old) == len(new)
    Path(path).write_bytes(data.replace(old, new))
    with pytest.raises(DataError) as error:
        rows(path)
    assert str(error.value).startswith(f"{path}: {DAMAGED}{why}"), error.value


def test_texts_in_parquet_are_texts(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    parquet.write_table(
        pa.table({"x": pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())}), path
    )
    with pytest.raises(
        DataError,
        match=r"cannot be read after row 0: it is damaged or cut off .*Invalid UTF8 sequence at string index 1",
    ):
        rows(path)


def test_a_parquet_page_that_is_not_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pa.table({"x": list(range(50))}), path, use_dictionary=False, compression="none", write_page_checksum=True
    )
    data = bytearray(path.read_bytes())
    at = data.index(np.arange(50).tobytes())
    data[at + 8] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"cannot be read after row 0: it is damaged or cut off .*checksum"):
        rows(str(path), INT)


def test_an_index_that_promises_more_rows_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": [1, 2, 3]}), path)
    reader: Any = open_reader(str(path))
    reader.total = 1 << 60
    with pytest.raises(
        DataError, match=r"cannot be read after row 3: .* \(its index says 1,152,921,504,606,846,976 rows up to here\)"
    ):
        list(reader.chunks({"x": INT}, rows=2))
    with pytest.raises(
        DataError, match=r"cannot be read after row 3: .* \(its index says 1,152,921,504,606,846,976 rows\)"
    ):
        list(reader.groups({"x": INT}, rows=2, first=0, group=0))
    reader.close()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("coded", [True, False])
def test_every_page_of_a_whole_parquet_file_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, coded: bool
) -> None:
    path = str(tmp_path / "a.parquet")
    table = pa.table(
        {
            "x": list(range(5000)),
            "w": [f"text {i % 70}" * 9 for i in range(5000)],
            "n": [{"p": [i] * 2} for i in range(5000)],
        }
    )
    parquet.write_table(
        table,
        path,
        data_page_version=version,
        use_dictionary=coded,
        row_group_size=3000,
        data_page_size=2000,
        write_page_checksum=coded,
    )
    metadata, groups = parquet.read_metadata(path), pages_of(path)
    assert groups is not None and len(groups) == metadata.num_row_groups
    reader: Any = open_reader(path)
    with open(path, "rb") as file:
        for number, group in enumerate(groups):
            theirs = [metadata.row_group(number).column(i) for i in range(metadata.num_columns)]
            assert [(p.path, p.size, p.memory) for p in group] == [
                (c.path_in_schema, c.total_compressed_size, c.total_uncompressed_size) for c in theirs
            ]
            assert all(_walk(path, file, column) for column in group)
            assert reader.pages_in(number, ["w", "n"]) == group[1:]
            with monkeypatch.context() as patch:  # as of an index that is too large
                patch.setattr("pellucid.internal.data.arrow_files._INDEX", 10)
                reader.pages = pages_of(path)
                assert reader.pages is None and reader.pages_in(number, ["w", "n"]) == group[1:]
            reader.pages = groups
    reader.close()
    refuse_huge_pages(path, groups, ["x", "w", "n"])


def test_a_page_that_claims_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": list(range(50)), "y": [1] * 50}), path, use_dictionary=False, compression="none")
    data = path.read_bytes()
    assert data[4:11] == b"\x15\x00\x15\xac\x06\x15\xac"  # the first page's header: its kind, 406 bytes, 406 bytes
    huge = b"\x15\x00\x15\x80\x80\x80\x80\x08"  # 1 GB
    path.write_bytes(data[:4] + huge + data[9 : 9 + len(data) - 12])
    (tmp_path / "whole.parquet").write_bytes(data)
    groups = pages_of(str(tmp_path / "whole.parquet"))
    refuse_huge_pages(str(tmp_path / "whole.parquet"), groups, ["x", "y"])
    with pytest.raises(DataError, match="is damaged: a page of the column 'x' would take 1,024 MB"):
        refuse_huge_pages(str(path), groups, ["x"])


def test_facts_about_a_column_that_contradict_each_other(tmp_path: Path) -> None:
    """Arrow ends the process if Python asks it about such a column; found by a hunt."""
    assert mutants.judged(1802, tmp_path) is None
    (tmp_path / "a.parquet").write_bytes(mutants.mutant(1802)[1])
    reader: Any = open_reader(str(tmp_path / "a.parquet"))
    with pytest.raises(
        DataError, match=r"is no whole Parquet file: .* \(its index does not say where row group 0 is\)"
    ):
        reader.pages_in(0, ["a", "b"])
    reader.close()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_two_columns_of_one_name(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / f"a.{ending}")
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(DataError, match="two columns are called 'x': rename one"):
        rows(path, INT)


FAR = [dt.datetime(1, 1, 1), None, dt.datetime(1500, 1, 1, 5, 6, 7, 8), dt.datetime(9999, 12, 31)]


def test_old_times_beyond_2262(tmp_path: Path) -> None:
    """INT96, which Spark writes: as nanoseconds they would wrap around, also in columns that only come along."""
    path, many = tmp_path / "old.parquet", FAR * 50
    inner = pa.StructArray.from_arrays([pa.array(many, pa.timestamp("us"))], ["at"])
    table = pa.table({"at": pa.array(many, pa.timestamp("us")), "in": inner, "x": [f"t{i}" for i in range(200)]})
    parquet.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=70)
    reader = open_reader(str(path))
    try:
        wanted = {"at": OptionalType(DATETIME), "in.at": OptionalType(DATETIME)}
        found = pa.Table.from_batches([c.batch for c in reader.chunks(wanted, rows=33, keep=["x"])])
    finally:
        reader.close()
    assert found["at"].to_pylist() == many == [row["at"] for row in found["in"].to_pylist()]


def test_an_old_time_with_nanoseconds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    fine = pa.table({"x": pa.array([0, 1001], pa.timestamp("ns"))})
    parquet.write_table(fine, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(DataError) as caught:
        rows(str(path), DATETIME)
    assert str(caught.value) == (
        f"{path}: row 2: column 'x': 1970-01-01 00:00:00.000001 has 1 nanosecond more, and a time has whole "
        "microseconds: round it first"
    )
    lists = pa.array([[dt.datetime(2013, 1, 1)]], pa.list_(pa.timestamp("us")))
    parquet.write_table(pa.table({"x": lists}), path, use_deprecated_int96_timestamps=True)
    reader = open_reader(str(path))
    with pytest.raises(DataError, match="holds times of the kind INT96 in a list: write them as timestamps"):
        list(reader.chunks({}, rows=2, keep=["x"]))
    reader.close()


@pytest.mark.parametrize("more", [[], ["--epoch-size", "30", "--state", "state"], ["--order", "n"]])
@pytest.mark.parametrize("read", ["at", "kept"])
def test_old_times_with_nanoseconds_are_bad_rows(tmp_path: Path, more: list[str], read: str) -> None:
    """Also those of a column that only comes along."""
    path = tmp_path / "old.parquet"
    at = pa.array([i * 1000 + 7 * (i in (3, 64)) for i in range(100)], pa.timestamp("ns"))
    parquet.write_table(pa.table({"n": range(100), "at": at}), path, use_deprecated_int96_timestamps=True)
    (tmp_path / "p.py").write_text(
        "from datetime import datetime\nfrom typing import NamedTuple\nfrom pellucid import pipeline\n"
        "class Row(NamedTuple):\n    n: int\n" + "    at: datetime\n" * (read == "at")
        + "same = pipeline(lambda x: x.map(lambda r: r.n), x=Row)\n"
    )  # fmt: skip
    given = ["run", f"{tmp_path}/p.py:same", "--in", str(path), "--out", f"{tmp_path}/out.csv"]
    given += ["--keep-columns", "at"] if read == "kept" else []
    given += [str(tmp_path / "state") if part == "state" else part for part in more]
    said = CliRunner().invoke(cli, given)
    assert said.exit_code == 2
    assert "row 4: column 'at': 1970-01-01 00:00:00.000003 has 7 nanoseconds more" in said.stderr
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    done = CliRunner().invoke(cli, [*given, "--bad", f"{tmp_path}/bad.csv"])
    assert done.exit_code == 0, done.output
    letters = csv.read_csv(tmp_path / "bad.csv").to_pylist()
    assert [(row["row"], row["column"]) for row in letters] == [(4, "at"), (65, "at")]
    assert csv.read_csv(tmp_path / "out.csv")["out"].to_pylist() == [i for i in range(100) if i not in (3, 64)]


def test_a_decimal_of_an_impossible_scale(tmp_path: Path) -> None:
    """Arrow opens such a file and finds it valid; computing with it ended the process."""
    path = tmp_path / "a.arrow"
    table = pa.table({"d": pa.array([b"\1" * 16], pa.binary(16)).view(pa.decimal128(18, 8192002))})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"column 'd' holds decimal128\(18, 8192002\): it is damaged"):
        open_reader(str(path))


# Damaged files of every format (``mutants``): the right rows or one line, and never a signal.  ``make test-long`` has
# six thousand.


@pytest.mark.seeded
def test_damaged_files(tmp_path: Path) -> None:
    wrong = {seed: said for seed in seeds(130) if (said := mutants.judged(seed, tmp_path)) is not None}
    assert wrong == {}


def test_the_judge_sees_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would notice a row that is lost, one that is refused without need, and an internal error."""
    whole = b'{"a":1,"b":2,"s":"","t":true,"e":"RED"}\n'
    monkeypatch.setattr(mutants, "mutant", lambda seed: ("jsonl", whole))
    assert mutants.judged(0, tmp_path) is None
    rows = mutants.from_json
    with monkeypatch.context() as patch:
        patch.setattr(mutants, "from_json", lambda data: rows(data) * 2)
        assert "but it is [(1, 2.0, '', True, 'RED'), (1, " in str(mutants.judged(0, tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.internal.data.json_files.JsonLinesReader._batch", lambda *_: 1 / 0)
        assert str(mutants.judged(0, tmp_path)).startswith("exit ")
    monkeypatch.setattr(mutants, "from_json", lambda data: [])
    monkeypatch.setattr(mutants, "mutant", lambda seed: ("jsonl", whole[5:]))
    assert str(mutants.judged(0, tmp_path)).startswith("refused ")


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 6000, 1000))
def test_thousands_of_damaged_files(first: int) -> None:
    assert mutants.hunt(first, 1000) == []
