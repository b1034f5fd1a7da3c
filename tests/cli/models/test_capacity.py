"""``pellucid capacity``: topologies, measurements, systems in Cubicle's language; exit codes, what is refused."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from click.shell_completion import BashComplete
from click.testing import Result

from pellucid.internal.cli.main import cli
from tests.capacity.recording import RECORDED
from tests.capacity.test_measured import FLINK, GREEDY

Command: TypeAlias = Callable[..., Result]
EXAMPLES = Path(__file__).parents[3] / "examples" / "capacity"

CHAIN = """
name = "chain"
[spouts.S]
gap = 0.5
[bolts.A]
time = 1
hears = ["S"]
[bolts.B]
time = 1
hears = ["A"]
"""
CODE = """
print("loading")
from pellucid.capacity import Bolt, Spout, Topology, figure_1
calm = figure_1(gap=2)
other = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
text = "no topology"
"""
MUTEX = """
type state = Idle | Busy
array S[proc] : state
init (z) { S[z] = Idle }
unsafe (x y) { S[x] = Busy && S[y] = Busy }
transition go (x) requires { S[x] = Idle %s } { S[x] := Busy }
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "chain.toml").write_text(CHAIN)
    (folder / "flow.py").write_text(CODE)
    (folder / "good.cub").write_text(MUTEX % "&& forall_other y. S[y] = Idle")
    (folder / "bad.cub").write_text(MUTEX % "")
    (folder / "late.jsonl").write_text("".join(json.dumps(b) + "\n" for b in GREEDY))
    (folder / "flink.json").write_text(json.dumps(FLINK))
    shutil.copy(EXAMPLES / "payments.toml", folder)
    shutil.copy(RECORDED / "local_calm.json", folder / "calm.json")


def test_a_topology(pellucid: Command, folder: Path) -> None:
    result = pellucid("capacity", "chain.toml", "--queue-limit", "A=3", "--out", "run.svg", "--timeout", "600")
    assert result.exit_code == 1, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["bolt", "verdict", "workers", "longest"]
    assert lines[1].split()[:4] == ["A", "refuted", "1", "unbounded"]
    assert lines[2].split()[:4] == ["B", "proved", "1", "1"]
    assert "first: 2 workers for A and 2 for B (instead of 1 and 1): A unbounded → 1" in lines
    assert any(line.endswith("B gets worse by that") for line in lines)
    assert "chain: a run in which the queue of A is 3 long" in lines
    assert lines[-1].endswith("A 3") or lines[-1].endswith("A 3 ^")
    assert (folder / "run.svg").read_text().startswith("<svg")


def test_what_the_command_line_says_instead(pellucid: Command) -> None:
    result = pellucid(
        "capacity",
        "chain.toml",
        "--parallelism",
        "A=2",
        "--parallelism",
        "B=2",
        "--queue-limit",
        "B=2",
        "--timeout",
        "600",
    )
    assert result.exit_code == 0, result.output
    result = pellucid(
        "capacity", "chain.toml", "--gap", "S=1", "--observe", "settled", "--queue-limit", "A=1", "--json"
    )
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and (found["pellucid"], found["verb"], found["observe"]) == (1, "capacity", "settled")
    assert [bolt["longest"] for bolt in found["bolts"]] == [0, 0] and found["advice"] == []
    result = pellucid("capacity", "chain.toml", "--gap", "S=1", "--backlog", "A=10", "--simulate", "200")
    assert "simulated" in result.stdout and "backlog" in result.stdout and result.exit_code == 0


def test_the_example_of_the_docs(pellucid: Command) -> None:
    result = pellucid("capacity", "payments.toml", "--timeout", "600")
    assert result.exit_code == 1
    assert "first: 3 workers for enrich (instead of 2): enrich unbounded → 1" in result.stdout
    assert pellucid("capacity", "payments.toml", "--parallelism", "enrich=3").exit_code == 0


def test_any_number_of_workers(pellucid: Command, folder: Path) -> None:
    every = [word for name in ("B1", "B2", "B3") for word in ("--parallelism", f"{name}=ANY")]
    result = pellucid("capacity", "flow.py:calm", *every, "--queue-limit", "B1=2", "--queue-limit", "B3=3")
    assert result.exit_code == 0 and result.stdout.count("proved") >= 2, result.output
    assert "for any number of workers, by" in " ".join(result.stdout.split())
    result = pellucid("capacity", "flow.py:calm", *every, "--queue-limit", "B3=2", "--out", "any.svg")
    assert result.exit_code == 1 and "with workers" in result.stdout and "B3 queue" in result.stdout
    assert (folder / "any.svg").read_text().startswith("<svg")
    found = json.loads(pellucid("capacity", "flow.py:calm", *every, "--queue-limit", "B1=2", "--json").stdout)
    assert found["bolts"]["B1"]["status"] == found["status"] == "proved"


def test_the_papers_table(pellucid: Command) -> None:
    result = pellucid("capacity", "--paper")
    assert result.exit_code == 0 and "unsafe" in result.stdout and "zones, checked" in result.stdout, result.output
    found = json.loads(pellucid("capacity", "--paper", "--json").stdout)["paper"]
    assert len(found) == 8 and all(row["checked"] for row in found)
    for row in found:  # by the text one spout feeds it, by the appendix both do
        gap = {"B1": "1", "B2": "2" if row["semantics"] == "urgent" else None}[row["bolt"]]
        assert row["threshold"]["gap"] == gap and row["below_1"].startswith("unsafe"), row
        assert row["above_1"].startswith("safe") == (row["bolt"] == "B1"), row


def test_python_files(pellucid: Command) -> None:
    result = pellucid("capacity", "flow.py:calm", "--queue-limit", "B3=3")
    assert result.exit_code == 0 and "loading" not in result.stdout and "loading" in result.stderr
    assert pellucid("capacity", "flow.py:other").exit_code == 0


def test_measurements(pellucid: Command) -> None:
    result = pellucid("capacity", "late.jsonl")
    assert result.exit_code == 3 and "late  keeps up" in result.stdout and "production: lag / 30 min" in result.stdout
    assert result.stdout.startswith("late (spark): bounded by what was measured: ")  # a recording is no proof
    assert pellucid("capacity", "late.jsonl", "--bounded-is-enough").exit_code == 0
    found = json.loads(pellucid("capacity", "late.jsonl", "--json", "--parallelism", "late=4").stdout)
    assert found["jobs"][0]["steps"][0]["workers"] == 4 and found["jobs"][0]["status"] == "bounded"
    result = pellucid("capacity", "late.jsonl", "--queue-limit", "late=10")
    assert result.exit_code == 1 and "the limit is 10" in result.stdout
    assert pellucid("capacity", "late.jsonl", "--queue-limit", "late=10", "--bounded-is-enough").exit_code == 1
    result = pellucid("capacity", "flink.json", "--target", "0.5", "--catch-up", "60", "--restart", "10")
    assert result.exit_code == 3 and "production: lag / 1 min + rate * 10 s / 1 min + rate / 0.5" in result.stdout
    assert "lookup takes" in pellucid("capacity", "calm.json").stdout
    result = pellucid("capacity", "late.jsonl", "--rate", "late=600")
    assert result.exit_code == 1 and "100 more events wait every second" in result.stdout


def test_systems_in_cubicles_language(pellucid: Command, folder: Path) -> None:
    result = pellucid("capacity", "good.cub")
    assert result.exit_code == 0 and result.stdout.startswith("proved   good: no unsafe state")
    assert "S[x1] = Busy && S[x2] = Busy" in result.stdout
    result = pellucid("capacity", "bad.cub", "--out", "run.svg")
    assert result.exit_code == 1 and "go(#" in result.stdout and (folder / "run.svg").read_text().startswith("<svg")
    found = json.loads(pellucid("capacity", "good.cub", "--json").stdout)
    assert found["status"] == "proved" and found["never"] and found["verb"] == "capacity"
    result = pellucid("capacity", "good.cub", "--out", "no.svg")
    assert result.exit_code == 2 and "there is no run to draw: the system is proved" in result.stderr


def test_what_takes_too_long_is_unknown(pellucid: Command) -> None:
    same = [word for name in ("B1", "B2", "B3") for word in ("--parallelism", f"{name}=3")]
    gaps = ("--gap", "S1=7/9", "--gap", "S2=7/9")
    result = pellucid("capacity", "flow.py:calm", "--max-states", "5", "--queue-limit", "B3=4", *gaps, *same)
    assert result.exit_code == 3 and "unknown" in result.stdout, result.output


BOLT = "[spouts.S]\ngap = 1\n[bolts.B]\ntime = {time}\nhears = [{hears}]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOLT.format(time=1, hears=""), "bolt B hears no spout"),
        (BOLT.format(time=1, hears='"T"'), "bolt B hears T, which is not there"),
        (BOLT.format(time=0, hears='"S"'), "the time of a bolt: 0 is not above 0"),
        (BOLT.format(time=-1, hears='"S"'), "-1 is not above 0"),
        (BOLT.format(time=1, hears='"S"').replace("gap = 1", "gap = -2"), "the gap of a spout: -2 is not above 0"),
        ("[spouts.S]\ngap = 1\n[bolts.B]\ntime = 1\nhears = [\"B\"]\n", "no spout feeds B"),
        ("gap = = 1", "no TOML"),
    ],
)  # fmt: skip
def test_topologies_that_are_wrong(pellucid: Command, folder: Path, text: str, words: str) -> None:
    (folder / "wrong.toml").write_text(text)
    result = pellucid("capacity", "wrong.toml")
    assert result.exit_code == 2 and words in result.stderr and "wrong.toml" in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def test_a_circle_of_bolts(pellucid: Command, folder: Path) -> None:
    """It is allowed where less comes round than went in; else that is said."""
    bolts = '[bolts.B]\ntime = 1\nhears = ["S", "C"]\n[bolts.C]\ntime = 1\nhears = ["B"]\nratio = {}\n'
    circle = 'routing = "all"\n[spouts.S]\ngap = 4\n' + bolts
    (folder / "dies.toml").write_text(circle.format('"1/2"'))
    result = pellucid("capacity", "dies.toml", "--timeout", "60")
    assert result.exit_code == 0 and "unbounded" not in result.stdout, result.output
    (folder / "grows.toml").write_text(circle.format("1"))
    result = pellucid("capacity", "grows.toml", "--timeout", "2")
    assert result.exit_code in (1, 3), result.output
    assert "unbounded" in result.stdout or "circle" in result.stdout, result.output


def test_rates_that_make_every_queue_unbounded(pellucid: Command) -> None:
    result = pellucid("capacity", "flow.py:other", "--gap", "S=0.4")
    assert result.exit_code == 1 and "every queue is unbounded at these rates (S every 2/5)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FILE is missing: a topology (.toml, .py), a .cub file or measurements (.json); or --paper"),
        (["chain.toml", "--paper"], "--paper takes no FILE: leave chain.toml out"),
        (["chain.toml", "--queue-limit", "C=2"], "there is no bolt C"),
        (["chain.toml", "--queue-limit", "S=2"], "there is no bolt S (it is a spout, which has no queue)"),
        (["chain.toml", "--queue-limit", "A"], "--queue-limit A: expected BOLT=N, as in --queue-limit B1=2"),
        (["chain.toml", "--queue-limit", "A=two"], "--queue-limit A=two: 'two' is no number"),
        (["chain.toml", "--queue-limit", "A=0"], "the limit of A: expected a number of tuples from 1 on, got 0"),
        (["chain.toml", "--queue-limit", "A=1", "--queue-limit", "A=2"], "A is given twice"),
        (["chain.toml", "--parallelism", "A=0"], "expected 1 or more, or ANY, got 0"),
        (["chain.toml", "--parallelism", "Z=2"], "workers: there is no bolt Z: A, B are."),
        (["chain.toml", "--gap", "S=0"], "0 is not above 0"),
        (["chain.toml", "--gap", "A=1"], "gap: there is no spout A: S is."),
        (["none.toml"], "none.toml: No such file or directory"),
        (["flow.py"], "flow.py: has 2 topologies (calm, other): say which, as in flow.py:NAME"),
        (["flow.py:text"], "'text' is no pellucid.capacity.Topology but a str"),
        (["flow.py:clam"], "no topology 'clam': its topologies are calm, other; did you mean 'calm'?"),
        (["pipes.py"], "pipes.py: has no topology: make one"),
        (["table.xlsx"], "the ending .xlsx is not known here"),
        (
            ["late.jsonl", "--queue-limit", "lat=5"],
            "--queue-limit lat: late.jsonl has no step lat; did you mean 'late'?",
        ),
        (["late.jsonl", "--gap", "S=1"], "--gap goes with a plan of a topology, not with measurements"),
        (["late.jsonl", "--out", "a.svg"], "--out goes with a topology: measurements have no run to draw"),
        (["late.jsonl", "--target", "0"], "target: 0.0 is not above 0 and at most 1"),
        (["late.jsonl", "--rate", "late=-1"], "rate late=-1: expected events per second"),
        (["late.jsonl", "--rate", "late=much"], "--rate late=much: 'much' is no number: expected STEP=N"),
        (["flink.json", "--rate", "Map=5"], "rate Map=5: events come to the sources (Source) only"),
        (["chain.toml", "--rate", "A=5"], "--rate goes with measurements: of a topology --gap says how fast"),
        (["weather.json"], "weather.json: there is no such file"),
        (["chain.toml", "--parallelism", "A=ANY"], "any number of workers is a question about a limit: give one"),
        (["chain.toml", "--parallelism", "A=ANY", "--queue-limit", "C=1"], "there is no bolt C"),
        (["--paper", "--gap", "S=1"], "--gap goes with a plan of a topology, not with --paper"),
        (["--paper", "--parallelism", "B1=2"], "--parallelism goes with a plan of a topology, not with --paper"),
        (["good.cub", "--queue-limit", "A=1"], "--queue-limit goes with a plan of a topology, not with .cub"),
    ],
)
def test_what_is_refused(pellucid: Command, arguments: list[str], words: str) -> None:
    result = pellucid("capacity", *arguments)
    assert result.exit_code == 2 and words in result.stderr, result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


def test_files_of_another_kind(pellucid: Command, folder: Path) -> None:
    (folder / "weather.json").write_text('{"temperature": 21}')
    result = pellucid("capacity", "weather.json")
    assert result.exit_code == 2 and "is JSON of another kind (an object with temperature)" in result.stderr
    (folder / "typo.cub").write_text("type state = Idle |\narray S[proc] : state\n")
    result = pellucid("capacity", "typo.cub")
    assert result.exit_code == 2 and "typo.cub" in result.stderr and "^" in result.stderr
    assert "line 2" in result.stderr or ":2:" in result.stderr or "2:1" in result.stderr, result.stderr


def test_it_is_named_where_one_looks(pellucid: Command) -> None:
    assert "pellucid capacity shop.toml" in pellucid("--help").stdout
    assert "Exit codes: 0 proved" in pellucid("capacity", "--help").stdout
    complete = BashComplete(cli, {}, "pellucid", "_PELLUCID_COMPLETE")
    assert [item.value for item in complete.get_completions([], "capac")] == ["capacity"]
    assert "--queue-limit" in [item.value for item in complete.get_completions(["capacity"], "--q")]


def test_what_the_docs_show(pellucid: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and what comes out of them, line by line; … stands for any lines."""
    root = Path(__file__).parents[3]
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "80")
    pages = (root / "docs" / "how-to-capacity.md", root / "README.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = re.findall(r"```(?:text|console)\n\$ pellucid (capacity .*?)\n(.*?)```", text, re.DOTALL)
    assert len(shown) >= 4
    for command, output in shown:
        found = pellucid(*command.split()).stdout
        wanted, cut, _ = output.partition("…\n")
        assert found.startswith(wanted) if cut else found == wanted, found


def test_progress_is_told_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    from pellucid.internal.cli.models.capacity import _Status

    seen = io.StringIO()
    monkeypatch.setattr(seen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", seen)
    status = _Status()
    status._begin -= 2
    status("B1: how long its queue gets")
    status._last = 0.0
    status.states({"states": 12345, "waiting": 7})
    assert "B1: how long its queue gets  12,345 states, 7 waiting" in seen.getvalue()
    status.clear()
    assert seen.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is erased
