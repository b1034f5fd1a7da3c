"""``partition_by``: what comes back exactly from the name of a folder, and what is refused because it would not."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.sinks import folder
from pellucid.sinks import folder as manifest
from pellucid.sinks import parquet_sink as parquet_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT: dict[str, pa.Array] = {
    "texts": pa.array(["007", "null", " a ", "a/b %=ü🦜", "..", "%2F", "two\nlines", "true", "2024-01-01", None]),
    "odd": pa.array(
        [
            "".join(map(chr, range(1, 32))),
            "\x7f\x80\x85\xa0\u2028\ufeff",
            "".join(chr(i) for i in range(32, 127) if not chr(i).isalnum()),
            ".",
            "a.",
            "a ",
            " ",
            "nan",
            "1.0",
            "1e3",
            "A",
            "a",
            "é",
            "e\u0301",
            "=",
            "a=b",
            "%zz",
            "%C3%A9",
            "漢" * 80,
            "x" * 253,
            "~=0",
            "__HIVE_DEFAULT_PARTITION__x",
            "2024-01-01 00:00:00",
        ]
    ),
    "numbers": pa.array([0, 1, -5, 2**63 - 1, -(2**63), None]),
    "small": pa.array([1, -128, None], pa.int8()),
    "booleans": pa.array([True, False, None]),
    "dates": pa.array([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
}
LOST: dict[str, pa.Array] = {
    "timestamp": pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
    "without a zone": pa.array([datetime(2024, 1, 1)], pa.timestamp("us")),
    "float": pa.array([0.5]),
    "decimal": pa.array([Decimal("1.10")]),
    "bytes": pa.array([b"\xff"]),
}


def table(column: pa.Array) -> pa.Table:
    return pa.table({"c": column, "v": list(range(len(column)))})


def found(sink: sinks.Sink) -> list[Any]:
    return sorted(((row["v"], row["c"]) for row in sink.read().to_pylist()), key=lambda row: row[0])


@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("values", EXACT)
def test_what_comes_back(kind: str, values: str, tmp_path: Path) -> None:
    if kind == "delta" and values == "odd":
        pytest.skip("Delta escapes every byte, so that long names are too long for it")
    sink = getattr(sinks, kind)(tmp_path / "out", partition_by="c")
    sink.write(table(EXACT[values]), "q", 0)
    assert found(sink) == list(enumerate(EXACT[values].to_pylist()))
    assert sink.read().schema.field("c").type == EXACT[values].type


@pytest.mark.parametrize("values", EXACT)
def test_what_comes_back_from_spark(spark: SparkSession, values: str, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    sink.write(spark.createDataFrame(table(EXACT[values])).coalesce(1), "q", 0)
    expected = list(enumerate(EXACT[values].to_pylist()))
    assert found(sink) == expected
    assert sorted((row["v"], row["c"]) for row in sinks.read_spark(spark, tmp_path / "out").collect()) == expected


def test_spark_reads_what_arrow_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """Also beside it: the same value is one folder, whoever writes it, and a reader that knows no manifest finds it,
    too."""
    values = EXACT["odd"].take([0, 1, 2, 12, 18])
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    sink.write(table(values), "q", 0)
    folders = sorted(path.name for path in (tmp_path / "out").glob("c=*"))
    sink.write(spark.createDataFrame(table(values)).coalesce(1), "q", 1)
    assert sorted(path.name for path in (tmp_path / "out").glob("c=*")) == folders
    expected = sorted(list(enumerate(values.to_pylist())) * 2)
    assert sorted((row["v"], row["c"]) for row in sinks.read_spark(spark, tmp_path / "out").collect()) == expected
    assert (
        sorted(
            (row["v"], row["c"])
            for row in spark.read.schema("v bigint, c string").parquet(str(tmp_path / "out")).collect()
        )
        == expected
    )
    assert found(sink) == expected


def test_folders_that_arrow_named_for_earlier_versions(spark: SparkSession, tmp_path: Path) -> None:
    """Every byte beyond ASCII was escaped; Spark takes each for a character, so ``read_spark`` puts them together
    again."""
    import os

    values = pa.array(["Zürich", "🦜/%", "plain"])
    sink = sinks.parquet(tmp_path / "out", partition_by=["c", "d"])
    sink.write(table(values).append_column("d", pa.array([1, 2, 3])), "q", 0)
    (manifest,) = (tmp_path / "out" / "_manifest").glob("*.json")
    for now, before in (("Zürich", "Z%C3%BCrich"), ("🦜%2F%25", "%F0%9F%A6%9C%2F%25")):
        os.rename(tmp_path / "out" / f"c={now}", tmp_path / "out" / f"c={before}")
        manifest.write_text(manifest.read_text().replace(json.dumps(now)[1:-1], before))
    assert found(sink) == list(enumerate(values.to_pylist()))
    assert sorted((row["v"], row["c"]) for row in sinks.read_spark(spark, tmp_path / "out").collect()) == list(
        enumerate(values.to_pylist())
    )


def test_every_character_below_160(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pellucid.sinks.parquet_sink.sync", lambda path: None
    )  # hundreds of files, and no power failure here
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    values = [text for point in range(1, 160) for text in (chr(point), f"x{chr(point)}y")]
    sink.write(table(pa.array(values)), "q", 0)
    assert found(sink) == list(enumerate(values))


REFUSED = {
    "nul": (
        "x\0y",
        r"partition_by='c': a row has the text 'x\\x00y' there, and no folder can have the character NUL in its name; "
        r"replace it",
    ),
    "long": (
        "x" * 254,
        r"partition_by='c': a row has the text 'x{40}'… there, whose folder's name would be longer than 255 bytes; "
        r"shorten it",
    ),
    "long when escaped": ("/" * 85, r"whose folder's name would be longer than 255 bytes"),
    "long in bytes": ("漢" * 85, r"whose folder's name would be longer than 255 bytes"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_no_folder_can_be_called_is_refused(why: str, tmp_path: Path) -> None:
    text, words = REFUSED[why]
    sink = sinks.parquet(tmp_path / "out", partition_by=["u", "c"])
    with pytest.raises(DataError, match=words):
        sink.write(pa.table({"u": ["fine", "fine"], "c": ["fine", text], "v": [1, 2]}), "q", 0)
    assert sink.last("q") is None and not list((tmp_path / "out").glob("u=*"))


@pytest.mark.parametrize("why", ["nul", "long in bytes"])
def test_what_no_folder_can_be_called_is_refused_from_spark(spark: SparkSession, why: str, tmp_path: Path) -> None:
    text, words = REFUSED[why]
    sink = sinks.parquet(tmp_path / "out", partition_by=["u", "c"])
    with pytest.raises(DataError, match=words):
        sink.write(spark.createDataFrame([("fine", "fine", 1), ("fine", text, 2)], "u string, c string, v int"), "q", 0)
    assert sink.last("q") is None


def test_bytes_that_are_no_text_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
    for data in (pa.table({"c": broken, "v": [1]}), spark.sql("SELECT CAST(X'61FF' AS STRING) AS c, 1L AS v")):
        with pytest.raises(DataError, match=r"partition_by='c': a row has bytes there that are no text in UTF-8"):
            sinks.parquet(tmp_path / "out", partition_by="c").write(data, "q", 0)


def test_a_file_system_that_folds_case(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "folds_case", lambda path: True)
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    for values in (["Ada", "bob", "ADA"], ["é", "e\u0301"]):
        for data in (table(pa.array(values)), spark.createDataFrame(table(pa.array(values)))):
            with pytest.raises(
                DataError,
                match=r"partition_by='c': the texts '.*' and '.*' would be one folder here, because this file system",
            ):
                sink.write(data, "q", 0)
    sink.write(table(pa.array(["Ada", "bob"])), "q", 0)
    assert found(sink) == [(0, "Ada"), (1, "bob")]


def test_more_partitions_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.sinks.parquet_sink.sync", lambda path: None)
    sink = sinks.parquet(tmp_path / "out", partition_by="c")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 200, before[1]))
    try:
        sink.write(table(pa.array(range(700))), "q", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(sink.log.all()[0].files) == 700


def test_a_name_too_long_for_delta(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"partition_by=\['c'\]: a value's folder would have a name that is too long for the file system; shorten "
        r"it",
    ):
        sinks.delta(tmp_path / "out", partition_by="c").write(table(pa.array(["x" * 300])), "q", 0)


@pytest.mark.parametrize("values", LOST)
def test_what_would_not_come_back_is_refused(values: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"partition_by='c': a .* would not come back exactly .*, such as CAST\(c AS (DATE|STRING)\)"
    ):
        sinks.parquet(tmp_path / "out", partition_by="c").write(table(LOST[values]), "q", 0)
    delta = sinks.delta(tmp_path / "delta", partition_by="c")
    if values in ("decimal", "bytes"):
        with pytest.raises(DataError, match=r"partition_by='c': a .* would not come back exactly"):
            delta.write(table(LOST[values]), "q", 0)
    else:
        delta.write(table(LOST[values]), "q", 0)
        assert delta.read()["c"].to_pylist() == LOST[values].to_pylist()


@pytest.mark.parametrize("name", ["_c", ".c", "a=b", "a/b", "a%", 'a"b', "a\nb"])
def test_names_that_readers_would_miss_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"this name cannot be a folder's that all readers find"):
        sinks.parquet(tmp_path / "out", partition_by=name).write(pa.table({name: ["x"], "v": [1]}), "q", 0)


@pytest.mark.parametrize("name", ["user.id", "a b", "tick`s", "Upper", "select", "ünï"])
def test_other_names_come_back_from_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    quoted = name.replace("`", "``")
    sink = sinks.parquet(tmp_path / "out", partition_by=name)
    sink.write(spark.createDataFrame([("x", 1)], f"`{quoted}` string, v int"), "q", 0)
    assert sink.read().to_pylist() == [{name: "x", "v": 1}]
    assert [row.asDict() for row in sinks.read_spark(spark, tmp_path / "out").collect()] == [{name: "x", "v": 1}]


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_the_text_that_would_be_null_is_refused(text: str, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by=["u", "c"])
    batches = [pa.RecordBatch.from_pydict({"u": ["x"], "c": [value], "v": [1]}) for value in ("fine", text)]
    with pytest.raises(
        DataError, match=r"partition_by='c': a row has the empty text there .* would come back as null; replace it"
    ):
        sink.write(batches, "q", 0)
    assert sink.last("q") is None
    sink.write(batches[:1], "q", 0)
    assert sink.read()["c"].to_pylist() == ["fine"]


def test_the_empty_text_is_refused_by_delta(tmp_path: Path) -> None:
    sink = sinks.delta(tmp_path / "out", partition_by="c")
    sink.write(pa.table({"c": ["__HIVE_DEFAULT_PARTITION__"], "v": [1]}), "q", 0)
    batches = [pa.RecordBatch.from_pydict({"c": [value], "v": [1]}) for value in ("fine", "fine", "")]
    with pytest.raises(Exception, match=r"partition_by='c': a row has the empty text there"):
        sinks.delta(tmp_path / "out").write(batches, "q", 1)  # the table says by what it is partitioned
    assert sink.last("q") == 0 and sink.read()["c"].to_pylist() == ["__HIVE_DEFAULT_PARTITION__"]
    with pytest.raises(DataError, match=r"partition_by=\['v'\], but the table that is there is partitioned by \['c'\]"):
        sinks.delta(tmp_path / "out", partition_by="v").write(pa.table({"c": ["x"], "v": [1]}), "q", 1)


def test_the_text_that_would_be_null_is_refused_from_spark(spark: SparkSession, tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out", partition_by=["u.x", "c"])
    df = spark.createDataFrame([("x", "fine", 1), ("", "fine", 2)], "`u.x` string, c string, v int")
    with pytest.raises(DataError, match=r"partition_by='u\.x': a row has the empty text there"):
        sink.write(df, "q", 0)
    assert sink.last("q") is None
    sink.write(df.where("`u.x` <> ''"), "q", 0)
    assert sink.read().to_pylist() == [{"u.x": "x", "c": "fine", "v": 1}]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_column_must_be_left_for_the_files(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"partition_by=\['c'\]: no column is left for the files"):
        getattr(sinks, kind)(tmp_path / "out", partition_by="c").write(pa.table({"c": ["x"]}), "q", 0)


# A Parquet target whose files were changed behind its back: each damage is refused by the file's name, with what to
# do.

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
    "an earlier version": (
        lambda folder: changed(of(folder, 1), format=1),
        r"q-0{19}1\.json: not a manifest of pellucid .*format 1, of another version of Pellucid: use that one",
        True,
    ),
    "a later version": (
        lambda folder: changed(of(folder, 1), format=3),
        r"q-0{19}1\.json: not a manifest of pellucid "
        r".*format 3, of another version of Pellucid: use that one",
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
