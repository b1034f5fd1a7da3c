"""A Parquet target whose files were changed behind its back: each damage is refused by the file's name, with what to
do."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from pellucid.errors import StateError
from pellucid.sinks.files import manifest
from pellucid.sinks.files import read as parquet_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DO = r"restore it from a copy, or write to a new folder from a new checkpoint$"


def written(folder: Path, batches: int = 4) -> Path:
    sink = sinks.parquet(folder)
    for batch in range(batches):
        sink.write(pa.table({"x": [batch * 10 + i for i in range(5)]}), "q", batch)
    return folder


def data(folder: Path, batch: int) -> Path:
    (found,) = folder.glob(f"batch-{batch:020d}-*.parquet")
    return found


def of(folder: Path, batch: int) -> Path:
    return folder / "_manifest" / f"q-{batch:020d}.json"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def reordered(path: Path) -> None:
    """Another file of the same size: the same values in another order."""
    table = pq.read_table(path)
    size = path.stat().st_size
    pq.write_table(table.take([1, 0, 2, 3, 4]), path, compression="snappy")
    content = path.read_bytes()
    path.write_bytes(content[:size].ljust(size, b"\0"))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str, bool]] = {
    "flipped": (
        lambda folder: flip(data(folder, 1)),
        r"batch-0{19}1-[^:]*\.parquet: the file's SHA-256 is not the one "
        r"that was committed; .* \(batch 1 of query 'q'\): " + DO,
        False,
    ),
    "exchanged": (lambda folder: reordered(data(folder, 2)), r"batch-0{19}2-.*: the file's SHA-256 is not", False),
    "cut off": (
        lambda folder: os.truncate(data(folder, 1), 100),
        r"batch-0{19}1-.*: the file has 100 bytes, and \d+ "
        r"were committed; it was cut off or replaced \(batch "
        r"1 of query 'q'\): " + DO,
        True,
    ),
    "missing": (
        lambda folder: data(folder, 3).unlink(),
        r"batch-0{19}3-.*: the file is missing; 5 rows were committed "
        r"in it \(batch 3 of query 'q'\): " + DO,
        True,
    ),
    "foreign": (
        lambda folder: pq.write_table(pa.table({"x": [1]}), folder / "more.parquet"),
        r"more\.parquet: no "
        r"manifest lists this "
        r"file, .*: move it away$",
        True,
    ),
    "no manifest in the middle": (
        lambda folder: of(folder, 2).unlink(),
        r"q-0{19}2\.json: the manifest of batch 2 of "
        r"query 'q' is missing; batch 3 was committed "
        r"after it: " + DO,
        True,
    ),
    "no first manifest": (
        lambda folder: of(folder, 0).unlink(),
        r"q-0{20}\.json: the manifest of batch 0 of query 'q' "
        r"is missing; batch 1",
        True,
    ),
    "no last manifest": (
        lambda folder: of(folder, 3).unlink(),
        r"batch-0{19}3-.*: no manifest lists this file, and "
        r"the folder has no manifest of batch 3: was a file of "
        r"_manifest lost\?",
        True,
    ),
    "no columns": (
        lambda folder: (folder / "_manifest" / "schema.arrow").unlink(),
        r"schema\.arrow: the file with the "
        r"columns of this folder is "
        r"missing; restore it",
        True,
    ),
    "damaged columns": (
        lambda folder: os.truncate(folder / "_manifest" / "schema.arrow", 20),
        r"schema\.arrow: the "
        r"file with the columns "
        r"of this folder is damaged",
        True,
    ),
    "another's manifest": (
        lambda folder: of(folder, 1).write_bytes(of(folder, 2).read_bytes()),
        r"q-0{19}1\.json: not "
        r"a manifest of "
        r"pellucid .*it speaks of batch 2 of query 'q'",
        True,
    ),
    "a later version": (
        lambda folder: changed(of(folder, 1), format=3),
        r"q-0{19}1\.json: not a manifest of pellucid "
        r".*format 3, from a later version",
        True,
    ),
    "other rows": (
        lambda folder: changed(of(folder, 1), rows=6),
        r"q-0{19}1\.json: not a manifest of pellucid .*6 "
        r"rows, but 5 in its files",
        True,
    ),
}


def changed(path: Path, **more: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()) | more))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_when_read_and_when_a_query_starts(damage: str, tmp_path: Path) -> None:
    do, words, at_start = DAMAGES[damage]
    folder = written(tmp_path / "out")
    do(folder)
    with pytest.raises(StateError, match=words):
        sinks.read(folder)
    again = pa.table({"x": [40]})
    if at_start:  # names and sizes are looked at before the first batch; contents are not read through
        with pytest.raises(StateError, match=words):
            sinks.parquet(folder).write(again, "q", 4)
    else:
        sinks.parquet(folder).write(again, "q", 4)
        assert sinks.read(folder, verify=False).num_rows >= 0 if damage == "exchanged" else True


def test_damage_inside_a_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FOLD", 4)
    folder = written(tmp_path / "out", batches=10)
    assert sinks.read(folder).num_rows == 50
    fold = folder / "_manifest" / f"q-{0:020d}..{3:020d}.json"
    document = json.loads(fold.read_bytes())
    del document["batches"][1]
    fold.write_text(json.dumps(document))
    with pytest.raises(
        StateError, match=r"the manifest of batch 1 of query 'q' is missing; batch 2 was committed after it"
    ):
        sinks.read(folder)


def test_numbers_with_gaps_are_a_chain_as_well(tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path)
    for query, batch in (("q", 3), ("other", 0), ("q", 7), ("q", 20)):
        sink.write(pa.table({"x": [batch]}), query, batch)
    assert sinks.read(tmp_path).num_rows == 4
    of(tmp_path, 7).unlink()
    with pytest.raises(StateError, match="the manifest of batch 7 of query 'q' is missing; batch 20"):
        sinks.read(tmp_path)


def old(path: Path) -> None:
    """The manifest as an earlier version wrote it."""
    document = json.loads(path.read_bytes())
    del document["previous"]
    for file in document["files"]:
        del file["sha256"]
    path.write_text(json.dumps(document | {"format": 1}))


def test_a_folder_of_an_earlier_version_is_read_and_said_to_be_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "out", batches=2)
    for batch in range(2):
        old(of(folder, batch))
    sinks.parquet(folder).write(pa.table({"x": [20]}), "q", 2)
    with pytest.warns(
        UserWarning,
        match=r"out: 2 of 3 files were written by a version that kept no checksums: only their sizes and numbers of "
        r"rows",
    ):
        assert sinks.read(folder).num_rows == 11
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sinks.read(folder, verify=False).num_rows == 11
    size = data(folder, 1).stat().st_size
    pq.write_table(pa.table({"x": [1]}), data(folder, 1))
    data(folder, 1).write_bytes(data(folder, 1).read_bytes().ljust(size, b"\0")[:size])
    with pytest.raises(
        StateError, match=r"the file cannot be read as Parquet|the file has 1 rows, and 5 were committed"
    ):
        sinks.read(folder)


@pytest.mark.parametrize("much", [0, 1 << 40])
def test_read_spark_checks_as_well(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, much: int
) -> None:
    """By the executors, and in the driver where it is little."""
    monkeypatch.setattr(parquet_read, "_MUCH", much)
    folder = written(tmp_path / "a*[b]", batches=2)
    written(tmp_path / "a-other", batches=1)  # a pattern a* would find its files, too
    assert sinks.read_spark(spark, folder).count() == 10
    flip(data(folder, 1))
    with pytest.raises(StateError, match=r"batch-0{19}1-.*: the file's SHA-256 is not the one that was committed"):
        sinks.read_spark(spark, folder)
    assert sinks.read_spark(spark, folder, verify=False).columns == ["x"]
