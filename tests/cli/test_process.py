"""What only a real process shows: pipes, signals, the terminal, imports."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SOURCE = str(Path(__file__).parents[2] / "src")
COMMAND = [sys.executable, "-m", "pellucid"]


def environment(**more: str) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=SOURCE, **more)


def _hang_up_as_usual() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup


def start(*args: str, **more: Any) -> subprocess.Popen[bytes]:
    more.setdefault("preexec_fn", _hang_up_as_usual)
    return subprocess.Popen([*COMMAND, *args], env=environment(), stderr=subprocess.PIPE, **more)


def test_a_reader_that_goes_away(folder: Path) -> None:
    (folder / "a.csv").write_text("x\n" + "1\n" * 20_000)
    command = f"{' '.join(COMMAND)} run pipes.py:total --in a.csv --chunk 1000 | head -1"
    done = subprocess.run(["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], env=environment(), capture_output=True)
    assert done.stdout == b'{"out": 1}\n141\n'
    assert done.stderr == b""


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_that_nobody_reads(flag: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, flag], env=environment(), stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_standard_output_that_is_full_is_named(folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", "pipes.py:total", "--in", "a.csv", "--out-format", "csv"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2 and done.stderr.startswith(b"pellucid: standard output: "), done.stderr


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGHUP, 129, b"hung up"),
    ],
)
def test_a_signal_leaves_no_file(folder: Path, number: int, code: int, word: bytes) -> None:
    (folder / "out.csv").write_text("older")
    process = start("run", "pipes.py:total", "--out", "out.csv", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    deadline = time.monotonic() + 300
    while not any(name.endswith(".part") for name in os.listdir(folder)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=300) == code
    assert process.stderr.read() == b"pellucid: " + word + b"\n"
    process.stdin.close()
    process.stderr.close()
    assert sorted(name for name in os.listdir(folder) if "out" in name) == ["out.csv"]
    assert (folder / "out.csv").read_text() == "older"


def test_a_slow_writer_is_answered_at_once(folder: Path) -> None:
    process = start("run", "pipes.py:total", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    for value, answer in ((1, b'{"out": 1}\n'), (2, b'{"out": 3}\n')):
        process.stdin.write(b"%d\n" % value)
        process.stdin.flush()
        assert process.stdout.readline() == answer
    process.stdin.close()
    assert process.wait(timeout=300) == 0
    process.stdout.close()
    process.stderr.close()


def test_a_progress_bar_only_on_a_terminal(folder: Path) -> None:
    (folder / "a.csv").write_text("x\n" + "1\n" * 100)
    here, there = pty.openpty()
    args = ["run", "pipes.py:total", "--in", "a.csv", "--out", "b.csv", "--chunk", "10"]
    done = subprocess.run([*COMMAND, *args], env=environment(NO_COLOR="1"), stderr=there)
    os.close(there)
    shown = os.read(here, 10_000)
    os.close(here)
    assert done.returncode == 0
    assert b"100% " in shown and b"events/s" in shown
    plain = subprocess.run([*COMMAND, *args], env=environment(), capture_output=True)
    assert plain.stderr.startswith(b"100 in, 100 out, ") and plain.stderr.count(b"\n") == 1


@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_only_where_it_is_wanted(folder: Path, more: dict[str, str], coloured: bool) -> None:
    here, there = pty.openpty()
    env = {k: v for k, v in environment().items() if k != "NO_COLOR"} | more
    done = subprocess.run([*COMMAND, "run", "none.py"], env=env, stderr=there)
    os.close(there)
    shown = os.read(here, 10_000)
    os.close(here)
    assert done.returncode == 2
    assert (b"\x1b[" in shown) is coloured


def test_python_can_be_asked_for_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", "run", "nowhere.py:p"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2 and done.stderr.startswith("pellucid: ") and "Traceback" not in done.stderr


def test_lists_stay_plain_python_and_help_is_quick(folder: Path) -> None:
    code = (
        "import sys, pipes\n"
        "assert pipes.total([1, 2, 3]) == [1, 3, 6]\n"
        "from pellucid.internal.cli.main import cli\n"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr


def shell(text: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    text = text.replace("pellucid", " ".join(COMMAND))
    return subprocess.run(["bash", "-c", text], env=environment(), capture_output=True, timeout=300, **more)


@pytest.mark.parametrize(
    "text",
    [
        "pellucid run pipes.py:total --in <(printf 'x\\n1\\n2\\n') --in-format csv",
        "pellucid run pipes.py:total --in <(printf '1\\n2\\n')",
        "pellucid run pipes.py:total --in <(printf 'x\\n1\\n2\\n') --in-format csv --out /dev/stdout | cat",
        "printf 'x\\n1\\n2\\n' | pellucid run pipes.py:total --in /dev/stdin --in-format csv",
        "printf '1\\n2\\n' | pellucid run pipes.py:total --in /dev/stdin",
        "printf '1\\n2\\n' > a; pellucid run pipes.py:total --in /dev/stdin < a",
        "mkfifo p.csv; printf 'x\\n1\\n2\\n' > p.csv & sleep 0.1; pellucid run pipes.py:total --in p.csv",
        "mkfifo p.csv.gz; printf 'x\\n1\\n2\\n' | gzip > p.csv.gz & sleep 0.1; pellucid run pipes.py:total --in "
        "p.csv.gz",
        "printf '1\\n2\\n' | pellucid run pipes.py:total --out >(cat) | cat",
    ],
)
def test_what_is_no_file_is_read_like_a_pipe(folder: Path, text: str) -> None:
    done = shell(text, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b'{"out": 1}\n{"out": 3}\n', done.stderr
    assert done.stderr.startswith(b"2 in, 2 out, ")


def test_a_pipe_of_arrow_and_a_pipe_of_nothing_known(folder: Path) -> None:
    make = "printf '1\\n2\\n' | pellucid run pipes.py:total --out-format arrow"
    done = shell(f"pellucid run pipes.py:total --in <({make}) --in-format arrow", cwd=folder)
    assert (done.stdout, done.returncode) == (b'{"out": 1}\n{"out": 4}\n', 0), done.stderr
    done = shell("pellucid run pipes.py:total --in <(printf 'x\\n1\\n')", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.endswith(
        b": row 1 (line 1): no JSON value (Expecting value at character 1): 'x'; give one value on each line; "
        b"JSON Lines is assumed on a pipe: for CSV give --in-format csv\n"
    )


def test_empty_lines_that_come_one_by_one(folder: Path) -> None:
    slow = "for line in w a '' b; do echo $line; sleep 0.2; done"
    done = shell(f"({slow}) | pellucid run pipes.py:words --in-format csv", cwd=folder)
    assert (done.stdout, done.returncode) == (b'{"out": ""}\n{"out": "b"}\n', 0), done.stderr
    slow = "for line in x 1 '' 2; do echo $line; sleep 0.2; done"
    done = shell(f"({slow}) | pellucid run pipes.py:total --in-format csv --out o.csv", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        b"pellucid: standard input: row 2 (line 3): column 'x' is null: expected int; fill it, remove the row, or "
        b"declare it as int | None\n"
    )


def wait_for_part(folder: Path, process: subprocess.Popen[bytes]) -> str:
    assert process.stdin is not None
    process.stdin.write(b"1\n")
    process.stdin.flush()
    deadline = time.monotonic() + 300
    while True:
        found = [name for name in os.listdir(folder) if name.endswith(f".{process.pid}.part")]
        if found:
            return found[0]
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def test_nohup_is_obeyed(folder: Path) -> None:
    process = subprocess.Popen(
        ["bash", "-c", f"trap '' HUP; exec {' '.join(COMMAND)} run pipes.py:total --out out.csv"],
        env=environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for_part(folder, process)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(b"1\n", timeout=300)
    assert process.returncode == 0, said
    assert (folder / "out.csv").read_text() == "out\n1\n2\n"


def test_what_a_killed_run_left_goes_with_the_next(folder: Path) -> None:
    killed = start("run", "pipes.py:total", "--out", "out.csv", stdin=subprocess.PIPE)
    living = start("run", "pipes.py:total", "--out", "out.csv", stdin=subprocess.PIPE)
    left, kept = wait_for_part(folder, killed), wait_for_part(folder, living)
    killed.kill()
    killed.communicate(timeout=300)
    assert (folder / left).exists()
    (folder / "a.csv").write_text("x\n1\n")
    done = subprocess.run([*COMMAND, "run", "pipes.py:total", "--in", "a.csv", "--out", "out.csv"], env=environment())
    assert done.returncode == 0
    assert not (folder / left).exists() and (folder / kept).exists()
    _, said = living.communicate(b"5\n", timeout=300)
    assert living.returncode == 0, said
    assert (folder / "out.csv").read_text() == "out\n1\n6\n"
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


def test_a_file_called_as_one_of_pythons_own(folder: Path) -> None:
    place = folder / "project"
    place.mkdir()
    (place / "queue.py").write_text("raise RuntimeError('not this one')\n")
    (place / "helper.py").write_text("two = 2\n")
    (place / "later.py").write_text("three = 3\n")
    (place / "mine.py").write_text(
        "from helper import two\n"
        "from pellucid import Stream, pipeline\n"
        "def late(v: int) -> int:\n"
        "    import queue\n"
        "    from later import three\n"
        "    assert queue.Queue\n"
        "    return v * two * three\n"
        "@pipeline\n"
        "def six(x: Stream[int]) -> Stream[int]:\n"
        "    return x.map(late)\n"
    )
    (place / "bisect.py").write_text((place / "mine.py").read_text())
    for file in ("mine.py", "bisect.py"):
        done = shell(f"echo 1 | pellucid run project/{file}:six", cwd=folder)
        assert (done.stdout, done.returncode) == (b'{"out": 6}\n', 0), done.stderr


# What a run here does not need is not loaded: it would take longer than most runs.

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


# Memory does not grow with the file: 5 GB go through `pellucid run` in less than 600 MB.

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
