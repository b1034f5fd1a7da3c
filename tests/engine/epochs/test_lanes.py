"""An input can be read from any row on, in any format, and a file that changed is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid.errors import DataError
from pellucid.internal.data import text as blocks
from pellucid.internal.data.bind import Binding
from pellucid.internal.data.columns import values_of
from pellucid.internal.data.outputs import open_writer
from pellucid.internal.engine.epochs.inputs import Lane, Reading, check_unchanged
from pellucid.internal.expr.types import INT, STR

WORDS = [f"word {i % 37}" + ("\nline" if i % 11 == 0 else "") for i in range(500)]
BOUND = [Binding("x", INT, ("x",)), Binding("w", STR, ("w",))]


def write(path: Path) -> str:
    table = pa.table({"x": list(range(500)), "w": WORDS})
    with open_writer(str(path), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=77):
            writer.write(batch)
    return str(path)


OPEN: list[Lane] = []


@pytest.fixture(autouse=True)
def _closing() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def blocks_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Texts are read in blocks of so many bytes."""
    defaults = blocks.blocks.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "size", size)


def lane(path: str, at: Any = None, limit: int | None = None) -> Lane:
    OPEN.append(Lane(path, None, Reading(50, BOUND, limit=limit), at))
    return OPEN[-1]


def rest(opened: Lane, count: int = 64) -> list[tuple[int, str]]:
    out: list[tuple[int, str]] = []
    while not opened.exhausted:
        _, events = opened.take(count)
        if events:
            out += zip(values_of(INT, events["x"].columns[0]), values_of(STR, events["w"].columns[0]), strict=True)
    return out


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow", "csv.gz"])
@pytest.mark.parametrize("at", [0, 1, 49, 50, 77, 123, 499, 500])
def test_from_any_row_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, at: int) -> None:
    blocks_of(monkeypatch, 700)
    path = write(tmp_path / f"in.{ending}")
    first = lane(path)
    taken = 0
    while taken < at:
        taken += first.take(min(at - taken, 31))[0]
    offset = first.offset()
    assert offset["row"] == at
    check_unchanged(path, offset, thorough=True)
    again = lane(path, offset)
    assert rest(again) == list(enumerate(WORDS))[at:]
    if ending in ("csv", "jsonl") and at > 100:
        assert offset["seek"]["byte"] > 0, "it would be read from the start"


def test_a_bad_value_is_told_with_its_row_also_after_a_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks_of(monkeypatch, 100)
    path = tmp_path / "in.csv"
    path.write_text("x,w\n" + "".join(f"{i},a\n" for i in range(100)) + "bad,a\n")
    first = lane(str(path))
    first.take(80)
    with pytest.raises(DataError, match=r"in.csv: row 101 \(line 102\)"):
        rest(lane(str(path), first.offset()))


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (lambda d: d + b"500,more\n", True),
        (lambda d: d.replace(b"\n7,", b"\n8,"), False),
        (lambda d: d[: len(d) // 2], False),
    ],
)
def test_only_growth_is_no_change(tmp_path: Path, change: Any, fits: bool) -> None:
    path = Path(write(tmp_path / "in.csv"))
    first = lane(str(path))
    first.take(300)
    offset = first.offset()
    path.write_bytes(change(path.read_bytes()))
    if fits:
        check_unchanged(str(path), offset, thorough=True)
        assert len(rest(lane(str(path), offset))) == 201
        return
    with pytest.raises(DataError, match="has changed since the last run"):
        check_unchanged(str(path), offset, thorough=True)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "in.csv",
            [
                ("x,w\n1,a\n2,b", 1, 3),
                ("c\n3,d\n", 2, None),
                ("4,e\n5", 1, 6),
                ("", 0, 6),
                (",f", 0, 6),
                ("\n", 1, None),
            ],
        ),
        ("in.csv", [("x,w\n1,a\n2,b\r", 1, 3), ("\n", 1, None)]),
        ("in.csv", [('x,w\n1,a\n2,"b\n', 1, 3), ('c"\n', 1, None)]),
        ("in.csv", [("\ufeffx,w\n1,a", 0, 2), ("\n", 1, None)]),
        ("in.jsonl", [('{"x":1,"w":"a"}\n{"x":2,', 1, 2), ('"w":"b"}', 0, 2), ("\n", 1, None)]),
    ],
)
def test_a_last_line_without_its_end_is_held_back(
    tmp_path: Path, name: str, steps: list[tuple[str, int, int | None]]
) -> None:
    path, count = tmp_path / name, 0
    offset: Any = None
    path.write_text("")
    for more, new, held in steps:
        with path.open("a", newline="") as file:
            file.write(more)
        if offset is not None:
            check_unchanged(str(path), offset, thorough=True)
        found = lane(str(path), offset)
        got = rest(found)
        assert [row for row, _ in got] == list(range(count + 1, count + new + 1))
        note = found.held_back()
        assert (None if note is None else note.split(" has no end yet and is not read: ")[0]) == (
            None if held is None else f"{path}: line {held}"
        )
        offset, count = found.offset(), count + new


def test_what_was_read_without_its_end_must_stay_so(tmp_path: Path) -> None:
    """As earlier versions did, which read it."""
    path = tmp_path / "in.csv"
    path.write_text("x,w\n1,a\n2,b\n")
    first = lane(str(path))
    rest(first)
    offset = first.offset()
    offset["mark"] |= {"read": 11, "crc": zlib.crc32(path.read_bytes()[:11])}
    with pytest.raises(DataError, match="its last line was not finished when it was read"):
        check_unchanged(str(path), offset, thorough=True)


def test_formats_with_an_index_must_not_change(tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet")
    first = lane(path)
    first.take(300)
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="only plain CSV and JSON Lines can grow"):
        check_unchanged(path, first.offset(), thorough=False)


def test_a_limit(tmp_path: Path) -> None:
    assert rest(lane(write(tmp_path / "in.csv"), limit=130)) == list(enumerate(WORDS))[:130]


# ---------------------------------------------------------------- the same size, and something else in it

ROWS = 4_000


def _written(path: Path, value: int) -> Path:
    """Two columns, of which x is read; one value in the middle of x is given, and all else stays, byte for byte where
    it can."""
    import gzip

    import numpy as np
    import pyarrow.parquet as parquet

    x = np.arange(ROWS) + 2**40
    x[ROWS // 2] = 2**40 + value
    table = pa.table({"x": x, "y": np.zeros(ROWS, dtype=np.int64)})
    if path.suffix == ".parquet":
        parquet.write_table(
            table, path, compression="none", use_dictionary=False, row_group_size=500, write_statistics=False
        )
    elif path.suffix in (".arrow", ".arrows"):
        new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=500)
    else:
        data = ("x,y\n" + "".join(f"{v},0\n" for v in x)).encode()
        path.write_bytes(gzip.compress(data, 0, mtime=0) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "arrows"])
@pytest.mark.parametrize("keeps_time", [True, False])
def test_a_change_in_the_middle_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, keeps_time: bool
) -> None:
    import os

    from pellucid.internal.engine.epochs import inputs as marks

    monkeypatch.setattr(marks, "_SURE", 0)  # as if the file were large
    blocks_of(monkeypatch, 1000)
    path = _written(tmp_path / f"in.{ending}", 7)
    opened = Lane(str(path), None, Reading(100, [Binding("x", INT, ("x",))]))
    early: Any = None
    try:
        while opened.row < ROWS * 3 // 4:
            opened.take(100)
            early = opened.offset() if opened.row == ROWS // 4 else early
        offset = opened.offset()
    finally:
        opened.close()
    os.utime(path, ns=(0, 0))  # touched, and the same
    check_unchanged(str(path), offset, thorough=True)
    stat = os.stat(path)
    _written(path, 8)
    if keeps_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    with pytest.raises(
        DataError,
        match=r"has changed since the last run: .*\(its first [0-9,]+ (bytes|row groups|record batches) are not the "
        r"same\)",
    ):
        check_unchanged(str(path), offset, thorough=True)
    if ending != "csv.gz":  # the checksum at the end of what is packed would be another, but not before
        check_unchanged(str(path), early, thorough=True)
    if ending == "csv.gz" and early["mark"]["count"] == offset["mark"]["count"]:
        return  # Python 3.12 and later unpack so far ahead that all was read by then
    again = Lane(str(path), None, Reading(100, [Binding("x", INT, ("x",))]), early)  # it goes on with the same checksum
    try:
        while again.row < offset["row"]:
            again.take(100)
        assert (again.offset()["mark"]["crc"] == offset["mark"]["crc"]) is False
        assert again.offset()["mark"].get("count") == offset["mark"].get("count")
    finally:
        again.close()


def test_what_is_stored_in_a_packed_file_has_its_own_checksum_behind_it(tmp_path: Path) -> None:
    """The CRC-32 of the whole file is then the same whatever is in it."""
    import zlib

    from pellucid.internal.engine.epochs.inputs import ReadMark

    found = set()
    for value in (7, 8):
        path = _written(tmp_path / "in.csv.gz", value)
        mark = ReadMark(str(path), "bytes", ["x"], None)
        mark.upto(path.stat().st_size // 2)
        mark.upto(path.stat().st_size)
        found.add((zlib.crc32(path.read_bytes()), mark.crc))
    assert len(found) == 2 and len({crc for crc, _ in found}) == 1


def test_a_column_that_is_not_read_may_change(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    path = _written(tmp_path / "in.parquet", 7)
    opened = Lane(str(path), None, Reading(100, [Binding("x", INT, ("x",))]))
    opened.take(700)
    offset = opened.offset()
    opened.close()
    found = parquet.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[found.data_page_offset + found.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    check_unchanged(str(path), offset, thorough=True)
