"""Loading, showing, starting a project, completion, and what happens when something goes wrong inside."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

NAMES = "total, halves, same, words, colors, flags, both, two, inverse, points, noisy"

TARGETS = [
    ("pipes.py:totl", f"pipes.py: no pipeline 'totl': its pipelines are {NAMES}; did you mean 'total'?"),
    ("pipes.py:Point", "pipes.py: 'Point' is no pipeline but a type"),
    ("pipes.py:helper", "pipes.py: 'helper' is no pipeline but a function: put @pipeline above it"),
    ("pipes.py", f"pipes.py: has 11 pipelines ({NAMES}): say which, as in pipes.py:total"),
    ("pips.py:total", "pips.py: no such file; did you mean 'pipes.py'?"),
    ("no_such_module:total", "no_such_module: no such file or module: write FILE.py:NAME or package.module:NAME"),
    (".", ".: is a folder: give a Python file, as in ./pipeline.py:NAME"),
    (":total", "':total': no file before the colon: write FILE:NAME"),
]

FILES = [
    ("import os\ndef f(:\n", "bad.py:2: syntax error: invalid syntax\n    def f(:"),
    (
        "import os\nimport no_such_thing\n",
        "bad.py:2: ModuleNotFoundError: No module named 'no_such_thing'\n    import no_such_thing",
    ),
    ("def f():\n    return 1 / 0\nf()\n", "bad.py:2: ZeroDivisionError: division by zero\n    return 1 / 0"),
    (
        "import sys\nsys.exit(3)\n",
        "bad.py:2: the file ends the program while it is loaded (exit code 3): guard that with if __name__ == "
        "'__main__'",
    ),
    ("x = 1\n", "bad.py: has no pipeline: write @pipeline above a function over streams"),
    ("from pellucid import Pipeline\n", "bad.py: has no pipeline: write @pipeline above a function over streams"),
    (
        "from pellucid import Stream, pipeline\n\n@pipeline\ndef f(x: Stream[int]) -> Stream[str]:\n    return "
        "x.map(lambda v: v + 1, id='m')\n",
        "bad.py:3: pipeline f declares -> Stream[str], but its step 'm' (map v + 1, bad.py:5) puts out int: expected "
        "str, found int",
    ),
]


@pytest.mark.parametrize(("target", "message"), TARGETS)
def test_a_target_that_is_not_there(pellucid: Command, target: str, message: str) -> None:
    result = pellucid("run", target)
    assert (result.stderr, result.exit_code) == (f"pellucid: {message}\n", 2)


@pytest.mark.parametrize(("text", "message"), FILES)
def test_a_file_that_is_broken(pellucid: Command, folder: Path, text: str, message: str) -> None:
    (folder / "bad.py").write_text(text)
    result = pellucid("run", "bad.py:f" if "pipeline\n\n" in text else "bad.py")
    assert (result.stderr, result.exit_code) == (f"pellucid: {message}\n", 2)


def test_the_only_pipeline_needs_no_name(pellucid: Command, folder: Path) -> None:
    source = (
        "from pipes import total\nfrom pellucid import Stream, pipeline\nprint('loaded')\n@pipeline\ndef twice(x: "
        "Stream[int]) -> Stream[int]:\n    return total(x).map(lambda v: 2 * v)\n"
    )
    (folder / "mine.py").write_text(source)
    result = pellucid("run", "mine.py", input="1\n2\n")
    assert (result.stdout, result.exit_code) == ('{"out": 2}\n{"out": 6}\n', 0)
    assert result.stderr.startswith("loaded\n")


def test_a_module(pellucid: Command, folder: Path) -> None:
    assert pellucid("run", "pipes:total", input="1\n").stdout == '{"out": 1}\n'


@pytest.mark.parametrize("times", [2, 3])
def test_a_neighbour_of_one_folder_is_not_that_of_another(pellucid: Command, folder: Path, times: int) -> None:
    (folder / "my_neighbour.py").write_text(f"TIMES = {times}\n")
    (folder / "near.py").write_text(
        "from my_neighbour import TIMES\nfrom pellucid import Stream, pipeline\n@pipeline\n"
        "def times(x: Stream[int]) -> Stream[int]:\n    return x.map(lambda v: TIMES * v)\n"
    )
    assert pellucid("run", "near.py", input="1\n").stdout == f'{{"out": {times}}}\n'


def test_wrong_usage_is_2(pellucid: Command) -> None:
    for args in (["run"], ["frobnicate"], ["run", "pipes.py:total", "--head", "x"], ["--nope"]):
        assert pellucid(*args).exit_code == 2


def test_help_has_examples(pellucid: Command) -> None:
    for verb in ("run", "check", "show", "export", "init", "completion"):
        result = pellucid(verb, "--help")
        assert result.exit_code == 0
        assert "Examples:" in result.stdout
    text = " ".join(pellucid("--help").stdout.split())
    assert "pellucid check demo/pipeline.py" in text
    assert "pellucid export demo/pipeline.py:running --ints mod:4" in text
    assert "docs/reference/check-cli.md" in text
    assert (
        "Exit codes: 0 done or proved, 1 refuted, 2 bad usage or bad input, 3 unknown or bounded, 4 internal error."
        in text
    )
    assert pellucid("--version").stdout.startswith("pellucid, version ")


def test_an_internal_error_is_4(pellucid: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import pellucid.internal.data.feed as feed

    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(feed, "Feed", broken)
    result = pellucid("run", "pipes.py:total", input="1\n")
    assert result.exit_code == 4
    assert result.stderr == (
        "pellucid: internal error: RuntimeError: out of order\n"
        "This is a bug in Pellucid, not in your pipeline. Please report it with what `pellucid --verbose …` shows.\n"
    )
    for result in (
        pellucid("--verbose", "run", "pipes.py:total", input="1\n"),
        pellucid("run", "pipes.py:total", input="1\n", env={"PELLUCID_DEBUG": "1"}),
    ):
        assert "Traceback" in result.stderr
        assert result.exit_code == 4


def test_show(pellucid: Command, folder: Path) -> None:
    assert "cumulate" in pellucid("show", "pipes.py:total").stdout
    assert pellucid("show", "pipes.py:total", "--out", "a.svg").exit_code == 0
    assert (folder / "a.svg").read_text().startswith("<svg")
    assert "cumulate" in pellucid("show", "pipes.py:total", "--format", "mermaid").stdout
    document = json.loads(pellucid("show", "pipes.py:total", "--json").stdout)
    assert (document["pellucid"], document["verb"], document["graph"]["name"]) == (1, "show", "total")
    assert [node["kind"] for node in document["graph"]["nodes"]] == ["source", "cumulate"]
    result = pellucid("show", "pipes.py:total", "--out", "no/a.svg")
    assert (result.stderr, result.exit_code) == (
        "pellucid: no/a.svg: cannot be written: No such file or directory\n",
        2,
    )


def test_init_writes_a_project_that_runs(pellucid: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = pellucid("init", "demo")
    assert result.exit_code == 0
    commands = [line.strip().split() for line in result.stdout.splitlines() if line.startswith("  pellucid")]
    monkeypatch.chdir(folder / "demo")
    for command in commands:  # of what the file declares, one is proved and one is refuted
        assert pellucid(*command[1:]).exit_code == (1 if command[1] == "check" else 0)
    last = pellucid("run", "pipeline.py:totals", "--in", "events.csv", "--key", "user")
    assert last.stdout.splitlines()[-1] == '{"user": "bob", "at": "2026-01-06T17:59:59", "cents": 200}'
    source = str(Path(__file__).parents[2] / "src")
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(test, env=dict(os.environ, PYTHONPATH=source), capture_output=True).returncode == 0


def test_what_the_help_shows_works_on_the_starter_project(pellucid: Command, folder: Path) -> None:
    shown = [line.strip().split() for line in pellucid("--help").stdout.splitlines() if "demo" in line]
    commands = [line[1:] for line in shown if line[0] == "pellucid"]
    assert [c[0] for c in commands] == ["init", "run", "show", "explain", "check", "check", "export", "crash"]
    for command in commands:
        words = list(itertools.takewhile(lambda w: w[0].islower() or w[0] in "-0123456789", command))
        last = 2 if command[0] in ("init", "show", "explain", "check") else len(words)
        kills = ["--kills", "1", "--seed", "1"] if command[0] == "crash" else []
        given = [w for w in words[:last] if not (kills and w in ("--kills", "20"))]
        result = pellucid(*given, *kills)
        assert result.exit_code in ((1,) if command[0] == "check" else (0,)), (given, result.stderr)
    assert "1 proved, 1 refuted" in pellucid("check", "demo/pipeline.py").stdout


def test_init_overwrites_nothing(pellucid: Command, folder: Path) -> None:
    (folder / "events.csv").write_text("mine")
    result = pellucid("init", ".")
    assert (result.stderr, result.exit_code) == (
        "pellucid: .: already has events.csv: nothing was written; give another folder\n",
        2,
    )
    assert sorted(os.listdir(folder)) == ["events.csv", "pipes.py"]
    assert pellucid("init", "pipes.py").stderr == "pellucid: pipes.py: is a file: give the name of a folder\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(pellucid: Command, shell: str) -> None:
    result = pellucid("completion", shell)
    assert result.exit_code == 0
    assert "_PELLUCID_COMPLETE" in result.stdout
