"""``pellucid check``: what is asked, what is told, exit codes, reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pellucid.internal.cli import check as verb
from tests.words import DIVISION

Command = Callable[..., Result]

FILE = """\
from pellucid import Stream, apply, check, pipeline
from pellucid.check import Mod


@pipeline
def thirds(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a + b, x.decimate(3, id="third"), x, id="sum")


@pipeline
def late(x: Stream[int]) -> Stream[int]:
    return x.trim(1)


@pipeline
def later(y: Stream[int]) -> Stream[int]:
    return y.trim(2)


@pipeline
def inverse(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 10 // v, id="invert")
"""

GOOD = """
@check.property
def always_another_output():
    print("hello from the user")
    return check.live(late, ints=Mod(4))


check.properties(late, ["!EF full"])
"""


@pytest.fixture
def ask(pellucid: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    (folder / "shop.py").write_text(FILE)

    def call(*args: Any, add: str = "", **more: Any) -> Result:
        (folder / "shop.py").write_text(FILE + add)
        return pellucid("check", *args, **more)

    return call


def timeless(text: str) -> str:
    return re.sub(r"[\d,]+ states?, ", "N states, ", re.sub(r"(< )?[\d.]+ m?s\)", "T)", text))


def test_every_declared_property_is_asked(ask: Command) -> None:
    result = ask("shop.py", add=GOOD)
    assert timeless(result.stdout) == (
        "proved   always_another_output: AG EF out  (explicit, fixpoints, N states, T)\n"
        "proved   late: !EF full  (simplification, T)\n"
        "\n2 proved\n"
    )
    assert result.stderr == "hello from the user\n" and result.exit_code == 0


def test_one_declared_property_by_name(ask: Command) -> None:
    result = ask("shop.py:always_another_output", add=GOOD)
    assert timeless(result.stdout) == "proved   always_another_output: AG EF out  (explicit, fixpoints, N states, T)\n"
    assert result.exit_code == 0


def test_a_counterexample_is_shown_after_the_lines(ask: Command) -> None:
    result = ask("shop.py", add=GOOD + "check.properties(thirds, {'room': '!EF full'})\n")
    assert timeless(result.stdout).partition("late: !EF full  (simplification, T)\n")[2] == (
        "refuted  thirds: room: !EF full  (explicit, N states, T)\n"
        "\n"
        "thirds: room (shop.py:31)\n"
        "push         0  1    2       3  4\n"
        "x            0  0    0       0  0\n"
        "out          0  -    -       0  -\n"
        "queue sum.1     [0]  [0, 0]     [0, 0, 0]\n"
        "                                ^ here\n"
        "\n2 proved, 1 refuted\n"
    )
    assert result.exit_code == 1


def test_the_usual_questions(ask: Command) -> None:
    assert "full" not in ask("shop.py:inverse", "--ints", "0..3").stdout  # queues have no bound, unless one is given
    result = ask("shop.py:inverse", "--ints", "0..3", "--queue", "3")
    lines = result.stdout.splitlines()
    assert lines[1] == "         for the events range(0, 4) only"
    assert [line.partition("  (")[0] for line in lines if not line.startswith(" ")][:3] == [
        "refuted  liveness: AG EF out",  # nothing comes out of a pipeline that failed
        "proved   no full queue: !EF full",
        "refuted  no failure: !EF failed",
    ]
    assert "step 'invert' (map 10 // v, shop.py:22) failed at push 0" in " ".join(result.stdout.split())
    assert result.exit_code == 1


def test_the_usual_questions_of_several_outputs(ask: Command, folder: Path) -> None:
    result = ask("pipes.py:two", "--ints", "0..1", "--queue", "1")
    assert "liveness of sums: AG EF sums" in result.stdout and "liveness of firsts: AG EF firsts" in result.stdout


def test_formulas_on_the_command_line(ask: Command) -> None:
    result = ask("shop.py:late", "--property", "AG EF out", "--property", "G (x -> out)", "--ints", "mod:4")
    assert timeless(result.stdout) == (
        "proved   late: AG EF out  (explicit, fixpoints, N states, T)\n"
        "refuted  late: G (x -> out)  (explicit, N states, T)\n"
        "\n"
        "late: G (x -> out) (shop.py:late)\n"
        "push  0\nx     0\nout   -\n      ^ here\n"
        "\n1 proved, 1 refuted\n"
    )
    assert result.exit_code == 1


def test_two_pipelines(ask: Command) -> None:
    result = ask("shop.py:late", "shop.py:later", "--equivalent")
    assert timeless(result.stdout) == (
        "refuted  late and later are step equivalent  (explicit, N states, T)\n"
        "\n"
        "late and later are step equivalent (shop.py:late)\n"
        "push     0  1\nx (2:y)  0  0\n1:out    -  0\n2:out    -  -\n            ^ they differ here\n"
    )
    assert result.exit_code == 1
    assert ask("shop.py:late", "shop.py:late", "--equivalent", "step").exit_code == 0
    result = ask("shop.py:late", "shop.py:later", "--equivalent", "sequence", "--ints", "0..1")
    assert "            ^  ^ these should be equal\n" in result.stdout and result.exit_code == 1


def test_unknown_has_its_own_exit_code(ask: Command) -> None:
    result = ask("shop.py:inverse", "--engine", "smt", "--property", "AG AF out")
    assert result.stdout.startswith("unknown  inverse: AG AF out  (")
    assert "         not decided: this is no proof\n" in result.stdout and "proved" not in result.stdout
    assert result.exit_code == 3
    several = ask(
        "shop.py:inverse",
        "--engine",
        "smt",
        "--property",
        "AG AF out",
        "--property",
        "!EF full",
        "--property",
        "AG EF out",
    )
    assert several.stdout.endswith("\n1 proved, 1 refuted, 1 unknown\n") and several.exit_code == 1


def test_states_run_out(ask: Command) -> None:
    formula = "AG (out -> out.value >= 0)"
    result = ask(
        "pipes.py:total", "--property", formula, "--ints", "0..3", "--engine", "explicit", "--max-states", "100"
    )
    assert "the limit of 100 states was reached" in result.stdout and result.exit_code == 3


def test_bounds_of_queues(ask: Command) -> None:
    lengths = []
    for given in (["1"], ["4"], ["sum.1=2"], ["1", "sum.1=3"]):
        more = [part for one in given for part in ("--queue", one)]
        result = ask("shop.py:thirds", "--property", "!EF full", "--json", *more)
        found = json.loads(result.stdout)["results"][0]["counterexample"]["steps"][-1]["queues"]["sum.1"]
        lengths.append(len(found))
    assert lengths == [1, 4, 2, 3]


MISTAKES = [
    (
        ["shop.py"],
        "shop.py: declares no property: write @check.property above a function, or name a pipeline to ask the usual "
        "questions, as in shop.py:thirds",
    ),
    (
        ["shop.py:lat"],
        "shop.py: no pipeline 'lat': its pipelines are thirds, late, later, inverse; did you mean 'late'?",
    ),
    (["shp.py"], "shp.py: no such file; did you mean 'shop.py'?"),
    (
        ["shop.py", "--property", "AG EF out"],
        "shop.py: has 4 pipelines (thirds, late, later, inverse): say which, as in shop.py:thirds",
    ),
    (["shop.py:late", "--property", "G (x -> )"], "expected a condition, found ')'\n  G (x -> )\n          ^"),
    (["shop.py:late", "shop.py:later"], "two pipelines are compared: say so with --equivalent, or give one"),
    (
        ["shop.py:late", "--equivalent"],
        "--equivalent compares two pipelines: give both, as in check a.py:old b.py:new --equivalent",
    ),
    (
        ["shop.py:late", "shop.py:later", "--property", "AG EF out", "--equivalent"],
        "--property asks about one pipeline, --equivalent compares two: give one of them",
    ),
    (["a.py", "b.py", "c.py", "--equivalent"], "check takes one file, or two pipelines to compare, found 3"),
    (["shop.py:late", "--ints", "4"], "--ints takes mod:4, 0..7 or exact, found '4'"),
    (["shop.py:late", "--ints", "mod:1"], "Mod(N) wants a whole number N of at least 2, found 1"),
    (["shop.py:late", "--ints", "7..0"], "--ints 7..0: from 7 to 0 there is no integer: write the smaller one first"),
    (["shop.py:late", "--queue", "x"], "--queue takes a number, or ID=NUMBER, found 'x'"),
    (["shop.py:late", "--queue", "=3"], "--queue takes a number, or ID=NUMBER, found '=3'"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_bad_usage(ask: Command, args: list[str], message: str) -> None:
    result = ask(*args)
    assert (result.stderr, result.exit_code) == (f"pellucid: {message}\n", 2)


def test_a_file_without_anything(ask: Command, folder: Path) -> None:
    (folder / "empty.py").write_text("")
    result = ask("empty.py")
    assert result.stderr == "pellucid: empty.py: declares no property: write @check.property above a function\n"
    assert result.exit_code == 2


BROKEN = (
    GOOD
    + """
@check.property
def wrong_stream():
    return check.holds(late, "AG EF outt")


@check.property
def raises():
    return 1 // 0


@check.property
def says_nothing():
    check.live(late)
"""
)


def test_a_question_that_cannot_be_asked_stops_no_other(ask: Command) -> None:
    result = ask("shop.py", "--junit", "report.xml", "--json", add=BROKEN)
    assert result.exit_code == 2
    logs = result.stderr.splitlines()
    assert "error    wrong_stream" in logs and "error    raises" in logs
    assert any(
        line.startswith("pellucid: wrong_stream (shop.py:32): late has no stream 'outt': did you mean 'out'?")
        for line in logs
    )
    assert f"pellucid: raises (shop.py:37): shop.py:39: {DIVISION}" in logs
    assert "    return 1 // 0" in logs
    assert logs[-3].startswith("pellucid: says_nothing (shop.py:42): property says_nothing (shop.py:42) returned None:")
    assert logs[-1] == "2 proved, 3 errors"
    document = json.loads(result.stdout)
    assert document["summary"] == {"proved": 2, "refuted": 0, "bounded": 0, "unknown": 0, "error": 3}
    suite = ET.parse("report.xml").getroot().find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("errors")) == ("5", "3")


def test_our_own_mistake_is_an_internal_error(ask: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*args: Any, **more: Any) -> Any:
        raise KeyError("lost")

    from pellucid.check import questions

    bug.__code__ = bug.__code__.replace(co_filename=questions.__file__)
    monkeypatch.setattr(questions, "decide_about", bug)
    result = ask("shop.py:late")
    assert "internal error: KeyError" in result.stderr and result.exit_code == 4


def test_options_that_do_not_reach_a_function_are_told(ask: Command) -> None:
    result = ask("shop.py", "--timeout", "9", "--max-states", "9", add=GOOD)
    told = "pellucid: always_another_output (shop.py:24): --max-states, --timeout does not reach it: let it take **"
    assert result.stderr.startswith(told) and result.exit_code == 0


def test_json(ask: Command) -> None:
    result = ask("shop.py:late", "--property", "G (x -> out)", "--json")
    document = json.loads(result.stdout)
    assert {key: document[key] for key in ("pellucid", "verb", "targets", "summary")} == {
        "pellucid": 1,
        "verb": "check",
        "targets": ["shop.py:late"],
        "summary": {"proved": 0, "refuted": 1, "bounded": 0, "unknown": 0, "error": 0},
    }
    (found,) = document["results"]
    assert found["name"] == "late: G (x -> out)" and found["status"] == "refuted"
    assert found["counterexample"]["steps"][0] == {
        "push": 0,
        "in": {"x": 0},
        "streams": {"x": [0], "trim-fc794c": [], "out": []},
        "queues": {},
    }
    assert timeless(result.stderr) == "refuted  late: G (x -> out)  (explicit, N states, T)\n"


def test_pictures_and_tests(ask: Command, folder: Path) -> None:
    result = ask(
        "shop.py",
        "--svg",
        "deep/pictures",
        "--pytest",
        "tests/test_found.py",
        "--junit",
        "report.xml",
        add="check.properties(thirds, ['!EF full', 'G (x -> F out)'])\ncheck.properties(inverse, ['!EF failed'])\n"
        "@check.property\ndef hidden():\n    return check.live(pipeline(lambda x: x.trim(1), x=int), within=1)\n",
    )
    assert result.exit_code == 2 and "tests/test_found.py: cannot be written" in result.stderr
    (folder / "tests").mkdir()
    result = ask(
        "shop.py",
        "--svg",
        "deep/pictures",
        "--pytest",
        "tests/test_found.py",
        add="check.properties(thirds, ['!EF full', 'G (x -> F out)'])\ncheck.properties(inverse, ['!EF failed'])\n"
        "@check.property\ndef hidden():\n    return check.live(pipeline(lambda x: x.trim(1), x=int), within=1)\n",
    )
    assert result.exit_code == 1
    assert "pellucid: hidden: no test is written: its pipeline has no name in the file\n" in result.stderr
    assert sorted(os.listdir("deep/pictures")) == [
        "hidden.svg",
        "inverse_EF_failed.svg",
        "thirds_EF_full.svg",
        "thirds_G_x_F_out.svg",
    ]
    for name in os.listdir("deep/pictures"):
        ET.parse(f"deep/pictures/{name}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "tests",
    ]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0 and "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_nothing_to_write(ask: Command, folder: Path) -> None:
    result = ask("shop.py", "--pytest", "test_found.py", add=GOOD)
    assert result.stderr.endswith("pellucid: test_found.py: not written: there is no counterexample to test\n")
    assert not (folder / "test_found.py").exists() and result.exit_code == 0
    assert ask("shop.py", "--svg", "shop.py", add=GOOD).exit_code == 2


def test_colour_is_for_terminals(ask: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32m\x1b[1mproved \x1b[0m" in ask("shop.py", add=GOOD, color=True).stdout
    assert "\x1b" not in ask("shop.py", add=GOOD).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ask("shop.py", add=GOOD, color=True).stdout


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = verb._Working("p")
    quiet({"states": 5, "waiting": 2})
    quiet.clear()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = verb._Working("p")
    shown({"states": 5000, "waiting": 2})
    shown({"states": 6000, "waiting": 2})  # too soon
    shown.clear()
    text = capsys.readouterr().err
    assert re.search(r"p  5,000 states  [\d.]+ [kMG] states/s  2 waiting", text) and "6,000" not in text
    assert text.endswith("\x1b[1A\x1b[2K")  # the line is erased


def test_help_shows_examples_and_exit_codes(ask: Command) -> None:
    text = ask("--help").stdout
    assert "pellucid check old.py:totals new.py:totals --equivalent sequence" in text
    assert "3 one unknown or bounded and none refuted" in " ".join(text.split())


# ``pellucid check FILE:NAME --failures``: what is told, and the exit codes.

FILE_CHECK_FAILURES = """\
import itertools

from pellucid import Stream, merge, pipeline

clock = itertools.count()


@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both").cumulate(lambda t, v: 2 * t + v, start=0, id="sum")


@pipeline
def stamped(x: Stream[int]) -> Stream[int]:
    return x.task(lambda state, v: (state, [next(clock)]), 0, to=int, id="stamp")
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(FILE_CHECK_FAILURES)
    return str(tmp_path / "shop.py")


def test_bounded(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", "--failures", "--crashes", "1")
    assert done.exit_code == 3
    assert done.stdout.startswith(
        "bounded  totals: failures: crashes cannot be seen (aligned, transactional sink, replayable source): nothing "
        "found in an input of 2 epochs of 2 events each (made up), with at most 1 crash"
    )
    enough = pellucid("check", f"{shop}:totals", "--failures", "--crashes", "1", "--bounded-is-enough")
    assert enough.exit_code == 0 and enough.stdout.startswith("bounded")


def test_refuted(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", "--failures", "--sink", "append", "--epochs", "1", "--events", "1")
    assert done.exit_code == 1
    assert "2  sum crashes" in done.stdout
    assert "no failure-free execution shows this: sum: 1, 1" in done.stdout


def test_spark_with_an_order_that_may_change(pellucid: Command, shop: str) -> None:
    asked = ("check", f"{shop}:both", "--failures", "--events", "1", "--crashes", "1")
    assert pellucid(*asked, "--bounded-is-enough").exit_code == 0
    done = pellucid(*asked, "--protocol", "microbatch")
    assert done.exit_code == 1 and "SINK batch 1: was written before" in done.stdout


def test_a_clock(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:stamped", "--failures", "--events", "1", "--crashes", "1")
    assert done.exit_code == 3 and "uses the iterator 'clock', which it did not make" in done.stdout


def test_unknown(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:both", "--failures", "--max-states", "20")
    assert done.exit_code == 3
    assert "not decided: this is no proof" in done.stdout and "the limit of 20 states was reached" in done.stdout


def test_json_and_pictures(pellucid: Command, shop: str, tmp_path: Path) -> None:
    done = pellucid(
        "check",
        f"{shop}:totals",
        "--failures",
        "--source",
        "not-replayable",
        "--json",
        "--svg",
        str(tmp_path / "pictures"),
    )
    (result,) = json.loads(done.stdout)["results"]
    assert done.exit_code == 1 and result["status"] == "refuted"
    assert result["counterexample"]["kind"] == "not explained"
    assert "F-RECOVER" in result["counterexample"]["steps"]
    assert (tmp_path / "pictures" / "totals_failures.svg").read_text().startswith("<svg")


def test_a_test_is_written_for_a_crash(pellucid: Command, shop: str, tmp_path: Path) -> None:
    done = pellucid(
        "check", f"{shop}:totals", "--failures", "--sink", "append", "--pytest", str(tmp_path / "test_found.py")
    )
    assert done.exit_code == 1 and done.stderr == ""
    assert "example = check.failures(totals, sink='append'" in (tmp_path / "test_found.py").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sink", "append"], "--sink belongs to --failures"),
        (["--failures", "--sink", "file"], "--sink takes transactional, idempotent, append, found 'file'"),
        (["--failures", "--protocol", "abs"], "--protocol takes aligned, unaligned, microbatch, found 'abs'"),
        (["--failures", "--source", "socket"], "--source takes replayable, not-replayable, found 'socket'"),
        (["--failures", "--ints", "mod:4"], "--ints does not go with it"),
        (["--failures", "--property", "AG EF out"], "--property does not go with it"),
    ],
)
def test_bad_options(pellucid: Command, shop: str, options: list[str], message: str) -> None:
    done = pellucid("check", f"{shop}:totals", *options)
    assert done.exit_code == 2 and message in done.stderr


def test_two_pipelines_check_failures(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", f"{shop}:both", "--failures")
    assert done.exit_code == 2 and "--failures asks about one pipeline, found 2" in done.stderr


# Two files in two folders, each with neighbours of its own: ``pellucid check old/p.py:p new/p.py:p``.

TOP = """\
from rates import TIMES
from pellucid import Stream, pipeline


@pipeline
def p(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: TIMES * v)
"""
LATER = """\
from pellucid import Stream, pipeline


def f(v: int) -> int:
    from rates import TIMES

    return TIMES * v


@pipeline
def p(x: Stream[int]) -> Stream[int]:
    return x.map(f)
"""


def two(folder: Path, text: str, times: tuple[int, int]) -> list[str]:
    for name, value in zip(("old", "new"), times, strict=True):
        (folder / name).mkdir()
        (folder / name / "p.py").write_text(text)
        (folder / name / "rates.py").write_text(f"TIMES = {value}\n")
    return ["check", "old/p.py:p", "new/p.py:p", "--equivalent", "step"]


@pytest.mark.parametrize(("times", "status"), [((2, 2), "proved"), ((2, 3), "refuted")])
def test_each_has_its_own_neighbour(pellucid: Command, folder: Path, times: tuple[int, int], status: str) -> None:
    result = pellucid(*two(folder, TOP, times))
    assert result.stdout.startswith(status), result.stderr


def test_a_package_beside_a_file(pellucid: Command, folder: Path) -> None:
    command = two(folder, TOP.replace("from rates", "from shop.rates"), (2, 3))
    for name in ("old", "new"):
        (folder / name / "shop").mkdir()
        (folder / name / "shop" / "__init__.py").touch()
        (folder / name / "rates.py").rename(folder / name / "shop" / "rates.py")
    assert pellucid(*command).stdout.startswith("refuted")


def test_a_neighbour_that_only_one_has_is_shared(pellucid: Command, folder: Path) -> None:
    command = two(folder, "import enum\nfrom kinds import Kind\n" + TOP, (2, 3))
    for name in ("old", "new"):
        (folder / name / "kinds.py").write_text("import enum\nKind = enum.Enum('Kind', 'A B')\n")
    (folder / "new" / "kinds.py").unlink()
    assert pellucid(*command).stdout.startswith("refuted")


def test_an_import_when_it_is_called_is_refused(pellucid: Command, folder: Path) -> None:
    result = pellucid(*two(folder, LATER, (2, 3)))
    old, new = (folder.resolve() / name / "rates.py" for name in ("old", "new"))
    assert result.exit_code == 2
    assert f"f() imports rates when it is called, and there are two: {old} and {new}: " in result.stderr
    assert result.stderr.rstrip().endswith("import it at the top of the file")


def test_so_it_is_where_both_are_loaded(pellucid: Command, folder: Path) -> None:
    both = LATER.replace("from pellucid", "import rates\nfrom pellucid", 1)
    result = pellucid(*two(folder, both, (2, 3)))
    assert result.exit_code == 2 and "there are two" in result.stderr


def test_one_folder_has_one_of_each(pellucid: Command, folder: Path) -> None:
    two(folder, LATER, (2, 3))
    result = pellucid("check", "old/p.py:p", "old/p.py:p", "--equivalent", "step")
    assert result.stdout.startswith("proved"), result.stderr
