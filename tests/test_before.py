"""What the version before wrote is read, and goes on; what none of the two wrote is refused in one line that names it.

``tests/before`` was written by the version whose three forms were one for states (3), one for tasks' snapshots (2) and
one for buckets of Spark's state (1).
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid import pipeline
from pellucid.errors import PellucidError, StateError
from pellucid.internal.base import container
from pellucid.internal.cli.main import cli
from pellucid.spark.store import Store

BEFORE = Path(__file__).parent / "before"
PIPELINE = """\
from pellucid import Stream, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")
"""

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
last = pipeline(lambda x: x.cumulate(lambda t, v: v if v > t else t, start="", id="last"), x=str)


def one_line(error: pytest.ExceptionInfo[PellucidError]) -> str:
    text = str(error.value)
    assert "\n" not in text and "was written by another version of Pellucid (format 9" in text
    return text


def of_version(version: int = 9) -> bytes:
    """What another version would have written: its number is part of the head's checksum."""
    data = container.pack("state", {}, [b"of tomorrow"])
    (size,) = struct.unpack_from("<I", data, 20)
    check = zlib.crc32(data[24 : 24 + size], version)
    return container.MAGIC + struct.pack("<II", version, check) + data[16:]


# ------------------------------------------------------------------ states


def test_a_saved_state_of_the_version_before_goes_on() -> None:
    for take in ("load", "carry"):
        engine, texts = total.engine(), last.engine()
        getattr(engine, take)((BEFORE / "saved.bin").read_bytes())
        getattr(texts, take)((BEFORE / "saved-texts.bin").read_bytes())
        assert engine.push([4]) == [10] and texts.push(["b", "h"]) == ["größer", "h"]
        again = total.engine()
        again.load(engine.save())
        assert again.push([5]) == [15]


def test_a_damaged_one_is_still_found() -> None:
    data = (BEFORE / "saved.bin").read_bytes()
    for at in range(len(data)):
        with pytest.raises(StateError):
            total.engine().load(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_state_of_another_version_is_refused_in_one_line() -> None:
    with pytest.raises(StateError) as error:
        total.engine().load(of_version())
    one_line(error)
    head = json.dumps({"format": 9, "blocks": []}).encode()
    body = struct.pack("<I", len(head)) + head
    with pytest.raises(StateError) as error:
        total.engine().load(b"PELLUCID STATE\n" + struct.pack("<I", zlib.crc32(body)) + body)
    one_line(error)


# ------------------------------------------------------------------ the state folder of a run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PIPELINE)
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(40)))
    shutil.copytree(BEFORE / "epochs", tmp_path / "state")
    rewritten(
        tmp_path / "state" / "run.json",
        **{"in": {"x": f"{tmp_path}/x.jsonl"}, "out": {"out": f"{tmp_path}/out.jsonl"}},
    )
    return tmp_path


def rewritten(path: Path, **changes: Any) -> None:
    """A small file, changed, with its checksum."""
    found = {**json.loads(path.read_text()), **changes}
    del found["checksum"]
    check = zlib.crc32(json.dumps(found, sort_keys=True).encode())
    path.write_text(json.dumps({**found, "checksum": f"{check:08x}"}))


def run() -> Any:
    words = ["run", "p.py:total", "--in", "x.jsonl", "--out", "out.jsonl", "--pushes", "10", "--state", "state"]
    return CliRunner().invoke(cli, [*words, "--json"])


def test_a_run_of_the_version_before_that_was_killed_goes_on(folder: Path) -> None:
    staged = {path.name for path in (folder / "state" / "staged" / "out").iterdir()}
    result = run()
    assert result.exit_code == 0, result.output
    sums = [sum(range(i + 1)) for i in range(40)]
    assert [json.loads(line)["out"] for line in (folder / "out.jsonl").read_text().splitlines()] == sums
    # It went on: the rows that were staged are the committed ones, by their names, and not made again.
    assert staged <= {path.name for path in (folder / "state" / "committed" / "out").iterdir()}


def test_a_state_folder_of_another_version_is_refused_in_one_line(folder: Path) -> None:
    rewritten(folder / "state" / "run.json", format=9)
    result = run()
    assert result.exit_code == 2 and "state: was written by another version of Pellucid (format 9," in result.output


def test_a_task_snapshot_of_another_version_is_refused_in_one_line(folder: Path) -> None:
    for path in (folder / "state" / "snapshots" / "worker").iterdir():
        path.write_bytes(of_version())
    result = run()
    assert result.exit_code == 2 and "was written by another version of Pellucid (format 9," in result.output


# ------------------------------------------------------------------ the state folder of a query


@pytest.fixture
def spark_store(tmp_path: Path) -> Store:
    shutil.copytree(BEFORE / "spark", tmp_path / "spark")
    return Store(str(tmp_path / "spark"))


def test_a_state_store_of_the_version_before_goes_on(spark_store: Store) -> None:
    assert spark_store.claim("query-1", {"buckets": 2})["pipeline"] == "total"
    whole = bytes(500) + b"changed" + bytes(100_000 - 507)
    first, second = spark_store.load(0, before=1), spark_store.load(0, before=2)
    assert first is not None and second is not None
    assert (bytes(first.state), bytes(first.extra), first.meta) == (bytes(100_000), b"extra", {"rows": 3})
    assert (bytes(second.state), bytes(second.extra), second.meta) == (whole, b"extra", {"rows": 4})
    assert spark_store.about(0) == {"rows": 4} and spark_store.about(1) == {"rows": 3}
    # A delta of this version on top of the deltas of the one before.
    third = spark_store.save(0, 2, whole[:-3] + b"end", b"extra", {"rows": 5}, base=second, start=2)
    assert third.links == 2 and bytes(spark_store.load(0, before=3).state).endswith(b"end")  # type: ignore[union-attr]
    plain = spark_store.load(1, before=1)
    assert plain is not None
    engine = total.engine()
    engine.load(plain.state)  # type: ignore[arg-type]
    assert engine.push([4]) == [10]


def test_a_state_store_of_another_version_is_refused_in_one_line(spark_store: Store, tmp_path: Path) -> None:
    (path,) = (tmp_path / "spark" / "bucket-00001").iterdir()
    path.write_bytes(of_version())
    for look in (lambda: spark_store.load(1, before=1), lambda: spark_store.about(1)):
        with pytest.raises(StateError) as error:
            look()
        one_line(error)
    (tmp_path / "spark" / "identity.json").write_text('{"format": 9, "query": "query-1"}')
    with pytest.raises(StateError) as error:
        spark_store.claim("query-1", {"buckets": 2})
    one_line(error)
