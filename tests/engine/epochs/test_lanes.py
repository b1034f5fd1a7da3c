"""An input can be read from any row on, in any format, and a file that changed is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid.data import blocks as text
from pellucid.data.bind import Binding
from pellucid.data.writers import open_writer
from pellucid.engine.columns import values_of
from pellucid.engine.epochs.lanes import Lane, check_unchanged
from pellucid.errors import DataError
from pellucid.expr.types import INT, STR

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


def lane(path: str, at: Any = None, limit: int | None = None) -> Lane:
    OPEN.append(Lane(path, None, BOUND, key=None, rows=50, wide=False, limit=limit, at=at))
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
    monkeypatch.setattr(text.blocks, "__kwdefaults__", {**text.blocks.__kwdefaults__, "size": 700})  # type: ignore[attr-defined]
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


def test_a_bad_value_is_told_with_its_row_also_after_a_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text.blocks, "__kwdefaults__", {**text.blocks.__kwdefaults__, "size": 100})  # type: ignore[attr-defined]
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
        ("in.csv", [("x,w\n1,a\n2,b", 1, 3), ("c\n3,d\n", 2, None), ("4,e\n5", 1, 6), ("", 0, 6), (",f", 0, 6), ("\n", 1, None)]),
        ("in.csv", [("x,w\n1,a\n2,b\r", 1, 3), ("\n", 1, None)]),
        ("in.csv", [('x,w\n1,a\n2,"b\n', 1, 3), ('c"\n', 1, None)]),
        ("in.csv", [("\ufeffx,w\n1,a", 0, 2), ("\n", 1, None)]),
        ("in.jsonl", [('{"x":1,"w":"a"}\n{"x":2,', 1, 2), ('"w":"b"}', 0, 2), ("\n", 1, None)]),
    ],
)
def test_a_last_line_without_its_end_is_held_back(tmp_path: Path, name: str, steps: list[tuple[str, int, int | None]]) -> None:
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
        assert (None if note is None else note.split(" has no end yet and is not read: ")[0]) == (None if held is None else f"{path}: line {held}")
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
