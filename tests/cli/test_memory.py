"""Memory does not grow with the file: 5 GB go through `pellucid run` in less than 600 MB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PIPELINE = """
from pellucid import Stream, pipeline

@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda t, v: t + v, start=0)
"""
# The child's own peak: the parent's pages must not count.
MEASURE = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
)


@pytest.mark.long
def test_five_gigabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("x", pa.int64()), ("user", pa.int64())])
    events = tmp_path / "events.parquet"
    with pq.ParquetWriter(events, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(330):
            columns = {"x": rng.integers(0, 1_000_003, 1_000_000), "user": rng.integers(0, 100_000, 1_000_000)}
            writer.write_table(pa.table(columns, schema=schema))
    assert events.stat().st_size > 5_000_000_000
    (tmp_path / "p.py").write_text(PIPELINE)
    run = ["-m", "pellucid", "run", "p.py:total", "--in", "events.parquet", "--out", "out.parquet"]
    command = [sys.executable, "-c", MEASURE, sys.executable, *run, "--value", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 600_000, done.stderr  # kB
    events.unlink()
