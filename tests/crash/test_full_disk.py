"""A disk that is really full: a small tmpfs as state folder, in a mount namespace of the test's own.

`tests/engine/epochs` plants ENOSPC at single writes; here the kernel gives it, to whoever writes: snapshots, staged
rows, the trace, the coordinator.  Where namespaces are not allowed the tests are skipped, and say so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 40_000
PIPELINE = """\
from pellucid import Stream, pipeline

@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")
"""
RUN = (
    '"$PYTHON" -m pellucid run pipeline.py:totals --in x.csv --out out.csv --epoch-size 500 --chunk 500 '
    "--state disk/state"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A pipeline, its input, an empty folder for the disk."""
    (tmp_path / "disk").mkdir()
    tried = in_namespace("mount -t tmpfs -o size=64k none disk", tmp_path) if shutil.which("unshare") else None
    if tried is None or tried.returncode != 0:
        pytest.skip(f"no mount namespace here: {tried.stderr.strip() if tried else 'there is no unshare'}")
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{i % 900}\n" for i in range(ROWS)))
    return tmp_path


def in_namespace(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in which mounting is allowed and seen by nobody else."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHON": sys.executable, "NO_COLOR": "1", "HOME": str(folder)}
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def totals() -> str:
    lines, total = ["out"], 0
    for i in range(ROWS):
        total += i % 900
        lines.append(str(total))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("size", "record"),
    [
        ("400k", ""),
        pytest.param("120k", "", marks=pytest.mark.long),
        pytest.param("400k", "--record", marks=pytest.mark.long),
        pytest.param("120k", "--record", marks=pytest.mark.long),
    ],
)
def test_it_stops_and_with_more_room_the_same_command_goes_on(place: Path, size: str, record: str) -> None:
    script = f"""
        mount -t tmpfs -o size={size} none disk
        {RUN} {record} --patience 6; echo "full: $?"
        test -e out.csv && echo "there is an output"
        mount -o remount,size=64m disk
        {RUN} {record}; echo "larger: $?"
    """
    done = in_namespace(script, place)
    assert done.stdout == "full: 2\nlarger: 0\n", done.stderr
    assert "No space left on device" in done.stderr or "is the disk of" in done.stderr
    assert "Traceback" not in done.stderr
    assert (place / "out.csv").read_text() == totals()


def test_it_waits_and_goes_on_by_itself_when_there_is_room(place: Path) -> None:
    script = f"""
        mount -t tmpfs -o size=3m none disk
        head -c 2800k /dev/zero > disk/filler
        {RUN} --patience 100 2> log & run=$!
        until grep -q "it is tried again" log || ! kill -0 $run; do sleep 0.2; done
        rm disk/filler
        wait $run; echo "run: $?"
    """
    done = in_namespace(script, place)
    log = (place / "log").read_text()
    assert done.stdout == "run: 0\n", done.stderr + log
    assert "No space left on device" in log
    assert (place / "out.csv").read_text() == totals()
