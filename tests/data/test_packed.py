"""What is packed on its way out: the same bytes for the same rows, and an end only where all of it was written."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from pellucid.internal.data.outputs import Packer, open_writer

SCHEMA = pa.schema([("x", pa.int64())])
BATCH = pa.record_batch({"x": [1, 2]})
READ = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"


def test_the_same_rows_are_the_same_bytes_whatever_the_file_is_called(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "another.csv.gz"):
        with open_writer(str(tmp_path / name), SCHEMA) as writer:
            writer.write(BATCH)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.csv.gz", "another.csv.gz"))
    assert first == second and gzip.decompress(first) == b"x\n1\n2\n"


@pytest.mark.parametrize("fails", [False, True])
def test_whoever_reads_a_pipe_can_tell_whether_it_was_all(tmp_path: Path, fails: bool) -> None:
    pipe = tmp_path / "p.csv.gz"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", READ, str(pipe)], stdout=subprocess.PIPE) as reader:
        try:
            with open_writer(str(pipe), SCHEMA) as writer:
                writer.write(BATCH)
                if fails:
                    raise KeyError
        except KeyError:
            assert fails
        data = reader.communicate(timeout=60)[0]
    assert zlib.decompressobj(31).decompress(data) == b"x\n1\n2\n"  # what was written is there at once
    if fails:
        with pytest.raises(EOFError):
            gzip.decompress(data)
    else:
        assert gzip.decompress(data) == b"x\n1\n2\n"


def test_one_that_is_given_up_after_a_full_disk_is_silent() -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError("No space left on device")

    packer = Packer(Full())
    with pytest.raises(OSError, match="No space"):
        packer.write(os.urandom(1 << 20))
    del packer  # a file object would try again now, and Python 3.13 would say that it failed; warnings are errors here
