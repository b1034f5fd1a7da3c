"""The folder between two rounds: nobody who is told to end leaves one, and what somebody who was killed left goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.spark.atomic.work import PREFIX, Work

LOCAL: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))


def test_what_somebody_left_goes_and_what_is_used_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = f"""if True:
        import os, sys, tempfile
        from types import SimpleNamespace
        from pellucid.spark.atomic.work import Work
        tempfile.tempdir = {str(tmp_path)!r}
        Work(SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]")), None, 1, 1)
        os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    (left,) = tmp_path.iterdir()
    first = Work(LOCAL, None, 1, 1)
    (mine,) = tmp_path.iterdir()
    assert mine != left and mine.name.startswith(PREFIX)
    second = Work(LOCAL, None, 1, 1)
    assert len(list(tmp_path.iterdir())) == 2
    first.close()
    second.abandon()
    assert list(tmp_path.iterdir()) == []
    second.close()


@pytest.mark.long
@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "int")])
def test_a_command_that_is_told_to_end_leaves_nothing(tmp_path: Path, number: int, code: int, word: str) -> None:
    many, temporary = 100_000, tmp_path / "temporary"
    temporary.mkdir()
    pq.write_table(pa.table({"id": range(many), "status": ["pending"] * many}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"needs": range(many - 1), "who": range(1, many)}), tmp_path / "d.parquet")
    verb = ["net", "committable", str(tmp_path / "t.parquet"), str(tmp_path / "d.parquet")]
    running = subprocess.Popen(
        [sys.executable, "-m", "pellucid", *verb, "--on", "spark", "--master", "local[2]", "--fit", "1000"],
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 300
    while not list(temporary.glob(f"{PREFIX}*/1")):  # the first round is being written
        assert running.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    running.send_signal(number)
    _, said = running.communicate(timeout=300)
    assert running.returncode == code and f"pellucid: {word}" in said, said
    assert not list(temporary.glob(f"{PREFIX}*"))
