"""`pellucid progress`: verdicts, exit codes, reports; why a time is not complete; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import Result

Command: TypeAlias = Callable[..., Result]

GRAPHS = """\
from pellucid.progress import Graph, Message, Node, buffer

EDGES = {"i": (None, "p"), "o": ("p", None)}
good = Graph({"p": buffer("o")}, EDGES, times=[0, 1], name="good")
past = Graph({"p": Node(lambda s, e, m: (s, [0], {}))}, EDGES, times=[0, 1], name="past")
open_ended = Graph({"p": buffer("o")}, EDGES, name="open")
days = Graph({"p": buffer("o")}, EDGES, times=[0, 1], name="days")
noisy = Graph({"p": Node(lambda s, e, m: print("hello") or (s, [], {}))}, EDGES, times=[0])
text = "no graph"
"""


@pytest.fixture
def file(folder: Path) -> str:
    (folder / "graphs.py").write_text(GRAPHS)
    return "graphs.py"


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("good", 0, "proved   good: liveness: every notification that is asked for can come"),
        ("past", 1, "p, at its start, on message 1 on i asks for 0, which is in the past: 1 is not at or before 0"),
        ("open_ended", 3, "its times are not listed: give times=, for as many as are to be looked at"),
    ],
)
def test_verdicts_and_exit_codes(pellucid: Command, file: str, name: str, code: int, says: str) -> None:
    result = pellucid("progress", f"{file}:{name}")
    assert result.exit_code == code, result.output
    assert " ".join(says.split()) in " ".join(result.stdout.split())  # its lines are broken where the terminal ends


def test_all_graphs_of_a_file_and_reports(pellucid: Command, file: str, folder: Path) -> None:
    result = pellucid(
        "progress", file, "--json", "--junit", "report.xml", "--svg", "pictures", "--about", "condition 1"
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verb"] == "progress" and document["summary"] == {
        "proved": 3,
        "refuted": 1,
        "bounded": 0,
        "unknown": 1,
        "error": 0,
    }
    assert [r["name"] for r in document["results"] if r["status"] == "refuted"] == ["past: condition 1"]
    assert "<failure" in (folder / "report.xml").read_text()
    assert [p.name for p in (folder / "pictures").iterdir()] == ["past_condition_1.svg"]
    assert "hello" not in result.stdout and "hello" in result.stderr


REFUSED = """\
from pellucid.progress import Graph, Message, Node, buffer

EDGES = {"i": (None, "p"), "o": ("p", None)}
divides = Graph({"p": Node(lambda s, e, m: 1 // 0)}, EDGES, times=[0, 1])
good = Graph({"p": buffer("o")}, EDGES, times=[0, 1])
past = Graph({"p": Node(lambda s, e, m: (s, [0], {}))}, EDGES, times=[0, 1])
text = Graph({"p": Node(lambda s, e, m: (s, ["x"], {}))}, EDGES, times=[0, 1])
"""


def test_a_graph_that_is_refused_does_not_keep_the_others_from_their_answers(pellucid: Command, folder: Path) -> None:
    (folder / "refused.py").write_text(REFUSED)
    result = pellucid("progress", "refused.py", "--about", "condition 1", "--json", "--junit", "report.xml")
    assert result.exit_code == 2, result.output  # as `pellucid check` has it: one could not be asked
    told = {r["name"]: (r["status"], r.get("message", "")) for r in json.loads(result.stdout)["results"]}
    assert [(name, status) for name, (status, _) in told.items()] == [
        ("divides", "error"), ("good: condition 1", "proved"), ("past: condition 1", "refuted"), ("text", "error"),
    ]  # fmt: skip
    assert "node 'p', message 0 on i: ZeroDivisionError" in told["divides"][1]
    assert "'x' is not a time of integers of 64 bits" in told["text"][1]
    assert (folder / "report.xml").read_text().count("<error") == 2
    result = pellucid("progress", "refused.py", "--about", "condition 1")
    assert result.exit_code == 2 and "1 proved, 1 refuted, 2 errors" in result.stdout
    assert pellucid("progress", "refused.py:past").exit_code == 1
    assert pellucid("progress", "refused.py:divides").exit_code == 2


def test_why(pellucid: Command, file: str, folder: Path) -> None:
    result = pellucid("progress", f"{file}:good", "--why", "o@1", "--pending", "i@0", "--svg", "f.svg")
    assert result.exit_code == 0
    assert result.stdout.startswith("o may still get messages at or before 1: 1 pointstamp holds it back\n")
    assert (folder / "f.svg").read_text().startswith("<svg")
    result = pellucid("progress", f"{file}:good", "--why", "p@1", "--json")
    assert json.loads(result.stdout)["why"]["complete"] is True


def test_a_time_is_written_as_it_is_shown(pellucid: Command, folder: Path) -> None:
    (folder / "days.py").write_text(
        "from datetime import date\nfrom pellucid.progress import Graph, Ordered, buffer\n"
        "days = [date(2013, 1, 1), date(2013, 1, 2)]\nedges = {'i': (None, 'p'), 'o': ('p', None)}\n"
        "daily = Graph({'p': buffer('o')}, edges, order=Ordered(date), times=days)\n"
    )
    result = pellucid("progress", "days.py", "--why", "p@2013-01-02", "--pending", "i@2013-01-01")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("p is not told of 2013-01-02: 1 pointstamp holds it back\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["graphs.py:god"], "graphs.py: no graph 'god': its graphs are good, past, open_ended, days, noisy"),
        (["graphs.py:text"], "graphs.py: 'text' is no pellucid.progress.Graph but a str"),
        (["nothing.py"], "nothing.py: has no graph with times: make one, as in daily = pellucid.progress.Graph(…)"),
        (["graphs.py:good", "--why", "p"], "--why p: expected LOCATION@TIME, as in count@2"),
        (["graphs.py:good", "--why", "q@0"], "'q' is no location of good: its nodes and edges are p, i, o"),
        (["graphs.py:good", "--why", "p@7"], "good: 7 is not among its times: 0, 1"),
        (["graphs.py", "--why", "p@0"], "graphs.py: has 5 graphs (good, past, open_ended, days, noisy): say which"),
        (["graphs.py:good", "--pending", "p@0"], "--pending belongs to --why: give that as well, as in --why count@2"),
        (["graphs.py:good", "--about", "livness"], "about='livness': the questions are "),
        (["broken.py"], "broken.py:2: edge 'e' goes to 'q', which is no node: the nodes are p"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(pellucid: Command, file: str, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "nothing.py").write_text("x = 1\n")
    (folder / "broken.py").write_text(
        'from pellucid.progress import Graph, Node\nGraph({"p": Node()}, {"e": ("p", "q")})\n'
    )
    result = pellucid("progress", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"pellucid: {message}"), result.stderr
