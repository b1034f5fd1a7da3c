"""No option is lost to its repetition: it takes several values, or refuses the second."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from pellucid.internal.cli.main import cli

Command = Callable[..., Result]


def single_valued() -> list[tuple[str, str]]:
    """Every option of every verb that takes one value."""
    found = []
    for verb, command in cli.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
                found.append((verb, max(option.opts, key=len)))
    return found


@pytest.mark.parametrize(("verb", "option"), single_valued())
def test_a_second_value_is_refused(pellucid: Command, verb: str, option: str) -> None:
    value = next(p for p in cli.commands[verb].params if option in p.opts)
    width = value.nargs
    result = pellucid(verb, "pipes.py:total", option, *["1"] * width, option, *["2"] * width)
    assert result.exit_code == 2
    assert result.stderr == f"pellucid: {option} is given twice, and takes one value: leave one out\n"


def test_also_with_an_equals_sign_and_the_same_value(pellucid: Command) -> None:
    result = pellucid("run", "pipes.py:total", "--head=3", "--head", "3")
    assert (result.exit_code, result.stderr) == (
        2,
        "pellucid: --head is given twice, and takes one value: leave one out\n",
    )


def test_what_it_is_given_is_read_first(pellucid: Command) -> None:
    result = pellucid("run", "pipes.py:total", "--head", "x", "--nothing")
    assert result.exit_code == 2 and "No such option" in result.stderr and "--nothing" in result.stderr


def test_a_flag_may_be_said_twice(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    assert pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "b.csv", "--json", "--json").exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["check", "pipes.py:total", "--queue", "2", "--queue", "3"], "--queue is given twice: leave one out"),
        (
            ["check", "pipes.py:total", "--queue", "a.0=2", "--queue", "a.0=3"],
            "--queue: 'a.0' is given twice: leave one out",
        ),
        (
            ["export", "pipes.py:total", "--format", "smv", "--queue", "a.0=2", "--queue", "a.0=3"],
            "--queue: 'a.0' is given twice",
        ),
        (
            [
                "run",
                "pipes.py:total",
                "--on",
                "spark",
                "--in",
                "a.csv",
                "--order",
                "x",
                "--conf",
                "a=1",
                "--conf",
                "a=2",
            ],
            "--conf: 'a' is given twice: leave one out",
        ),
        (
            ["crash", "pipes.py:total", "--in", "a.csv", "--out", "x.csv", "--out", "y.csv"],
            "--out: 'out' is given twice",
        ),
        (
            ["run", "pipes.py:both", "--in", "a=a.csv", "--in", "a=b.csv"],
            "b.csv: no such file",
        ),
        (["run", "pipes.py:total", "--in", "a.csv", "--key", "x,x"], "--key: the column 'x' is named twice"),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", "x", "--key", "x"],
            "--key: the column 'x' is named twice",
        ),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", ""],
            "--key '': expected names of columns, as in --key shop,user",
        ),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", "x,"],
            "--key x,: expected names of columns, as in --key shop,user",
        ),
    ],
)
def test_names_that_come_twice(pellucid: Command, folder: Path, args: list[str], said: str) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    result = pellucid(*args)
    assert result.exit_code == 2 and said in result.stderr, result.stderr


@pytest.mark.parametrize("keys", [["--key", "a", "--key", "b"], ["--key", "a,b"], ["--key=a, b"]])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_key_of_several_columns(pellucid: Command, folder: Path, keys: list[str], form: str) -> None:
    rows = [("x", 1, 1), ("y", 1, 2), ("x", 2, 3), ("x", 1, 4)]
    if form == "csv":
        (folder / "in.csv").write_text("a,b,x\n" + "".join(f"{a},{b},{x}\n" for a, b, x in rows))
    else:
        (folder / "in.jsonl").write_text("".join(json.dumps({"a": a, "b": b, "x": x}) + "\n" for a, b, x in rows))
    result = pellucid("run", "pipes.py:total", "--in", f"in.{form}", *keys)
    totals = [1, 2, 3, 5]
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"a": a, "b": b, "out": t} for (a, b, _), t in zip(rows, totals, strict=True)
    ]


def test_a_key_beside_a_key_by_is_written_as_it_came(pellucid: Command, folder: Path) -> None:
    (folder / "k.py").write_text(
        "from pellucid import Stream, pipeline\n"
        "@pipeline\n"
        "def n(v: Stream[int]) -> Stream[int]:\n"
        "    return v.key_by(lambda v: 'odd' if v % 2 else 'even').cumulate(lambda n, v: n + 1, start=0)\n"
    )
    (folder / "in.csv").write_text("u,v\n7,1\n8,2\n7,2\n7,3\n")
    result = pellucid("run", "k.py:n", "--in", "in.csv", "--key", "u")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"u": 7, "out": 1},
        {"u": 8, "out": 1},
        {"u": 7, "out": 1},
        {"u": 7, "out": 2},
    ]


def test_a_key_column_that_is_not_there(pellucid: Command, folder: Path) -> None:
    (folder / "in.csv").write_text("user,x\n1,2\n")
    result = pellucid("run", "pipes.py:total", "--in", "in.csv", "--key", "user,shp")
    assert (result.exit_code, result.stderr) == (2, "pellucid: in.csv: no key column 'shp': its columns are user, x\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "pipes.py:total", "--engine=local", "--on", "local"], "--engine is called --on now"),
        (["run", "pipes.py:total", "--epochs", "x"], "--epochs is called --pushes now"),
        (["run", "pipes.py:total", "--keep", "0"], "--keep is called --snapshots now"),
        (["crash", "pipes.py:total", "--in", "a", "--keep", "f"], "--keep is called --folder now"),
        (["run", "pipes.py:total", "--limit", "x"], "--limit is called --head now"),
        (["audit", "nowhere", "--limit", "3"], "--limit is called --violations now"),
        (["capacity", "no.toml", "--limit", "A=1", "--limit", "B=1"], "--limit is called --queue-limit now"),
        (["capacity", "no.toml", "--workers", "A=1"], "--workers is called --parallelism now"),
    ],
)
def test_names_of_old_are_taken_for_the_new_ones(pellucid: Command, args: list[str], said: str) -> None:
    done = pellucid(*args)
    first, second = done.stderr.splitlines()[0], done.stderr.partition("\n")[2]
    assert (done.exit_code, first) == (2, f"pellucid: {said}")
    assert second and said.split()[0] not in second  # what is wrong is said of the new name


def test_a_run_by_names_of_old(pellucid: Command, folder: Path) -> None:
    (folder / "in.csv").write_text("x\n1\n2\n3\n")
    done = pellucid(
        *("run", "pipes.py:total", "--in", "in.csv", "--out", "out.csv"),
        *("--epochs", "2", "--keep=1", "--state", "state", "--engine", "local"),
    )
    assert done.exit_code == 0, done.stderr
    assert (folder / "out.csv").read_text().split() == ["out", "1", "3", "6"]
