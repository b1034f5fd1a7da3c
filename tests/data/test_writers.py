"""Output files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pellucid import DataError
from pellucid.data.writers import json_texts, open_writer

SCHEMA = pa.schema([("x", pa.int64())])
BATCH = pa.record_batch({"x": [1, 2]})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow"])
def test_nothing_is_there_before_the_end_and_all_of_it_after(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    with open_writer(str(target), SCHEMA) as writer:
        writer.write(BATCH)
        assert not target.exists()
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == [name]
    assert writer.rows == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow"])
def test_an_error_leaves_nothing(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    def fail() -> None:
        with open_writer(str(tmp_path / name), SCHEMA) as writer:
            writer.write(BATCH)
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_full_disk(tmp_path: Path) -> None:
    writer = open_writer(str(tmp_path / "a.jsonl"), SCHEMA)

    class Full:
        def write(self, data: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    writer._sink._stream = Full()
    with pytest.raises(DataError, match=r"a\.jsonl: cannot be written: No space left on device$"), writer:
        writer.write(BATCH)
    assert os.listdir(tmp_path) == []


def test_a_file_gets_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with open_writer(str(tmp_path / "a.csv"), SCHEMA):
        pass
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    with open_writer(str(tmp_path / "a.parquet"), SCHEMA) as writer:
        for _ in range(100):
            writer.write(BATCH)
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert (file.metadata.num_rows, file.num_row_groups) == (200, 1)


def test_json_texts() -> None:
    assert json_texts(pa.array([1.5, float("inf"), float("-inf"), float("nan")])) == ["1.5", "1e999", "-1e999", "null"]
    assert json_texts(pa.array([True, False])) == ["true", "false"]
    assert json_texts(pa.array(['a"b\n', "é"])) == ['"a\\"b\\n"', '"é"']
