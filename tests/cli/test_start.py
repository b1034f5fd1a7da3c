"""What a run here does not need is not loaded: it would take longer than most runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PIPE = "from pellucid import pipeline\ntotal = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)\n"
HEAVY = ("pellucid.spark", "pellucid.capacity", "pellucid.atomic", "pyspark", "z3", "cryptography")


def test_a_run_here_loads_no_spark_and_no_planning(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PIPE)
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    command = [sys.executable, "-X", "importtime", "-m", "pellucid", "run", "p.py:total"]
    done = subprocess.run(
        [*command, "--in", "x.csv", "--out", "out.csv"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and (tmp_path / "out.csv").read_text() == "out\n1\n3\n", done.stderr[-2000:]
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "pellucid.internal.data.feed" in loaded and [name for name in loaded if name.startswith(HEAVY)] == []
