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

import pytest

SOURCE = str(Path(__file__).parents[2] / "src")
COMMAND = [sys.executable, "-m", "pellucid.cli.main"]


def environment(**more: str) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=SOURCE, **more)


def start(*args: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *args], env=environment(), stderr=subprocess.PIPE, **more)


def test_a_reader_that_goes_away(folder: Path) -> None:
    (folder / "a.csv").write_text("x\n" + "1\n" * 20_000)
    command = f"{' '.join(COMMAND)} run pipes.py:total --in a.csv --chunk 1000 | head -1"
    done = subprocess.run(["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], env=environment(), capture_output=True)
    assert done.stdout == b'{"out": 1}\n141\n'
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, b"terminated"), (signal.SIGINT, 130, b"interrupted")]
)
def test_a_signal_leaves_no_file(folder: Path, number: int, code: int, word: bytes) -> None:
    (folder / "out.csv").write_text("older")
    process = start("run", "pipes.py:total", "--out", "out.csv", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    deadline = time.monotonic() + 20
    while not any(name.endswith(".part") for name in os.listdir(folder)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=20) == code
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
    assert process.wait(timeout=20) == 0
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


def test_lists_stay_plain_python_and_help_is_quick(folder: Path) -> None:
    code = (
        "import sys, pipes\n"
        "assert pipes.total([1, 2, 3]) == [1, 3, 6]\n"
        "from pellucid.cli.main import cli\n"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr
