"""`pellucid progress`: verdicts, exit codes, reports; why a time is not complete; what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import Result

from pellucid.internal.engine.timed.why import flow
from pellucid.internal.load import load_pipeline

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
        (
            "good",
            3,
            "bounded  good: liveness: every notification that is asked for can come: nothing found in runs of at "
            "most 1 message on each input, of the times 0, 1",
        ),
        ("past", 1, "p, at its start, on message 1 on i asks for 0, which is in the past: 1 is not at or before 0"),
        ("open_ended", 3, "its times are not listed: give times=, for as many as are to be looked at"),
    ],
)
def test_verdicts_and_exit_codes(pellucid: Command, file: str, name: str, code: int, says: str) -> None:
    result = pellucid("progress", f"{file}:{name}")
    assert result.exit_code == code, result.output
    assert " ".join(says.split()) in " ".join(result.stdout.split())  # its lines are broken where the terminal ends


def test_that_a_bound_is_enough_can_be_said(pellucid: Command, file: str) -> None:
    assert pellucid("progress", f"{file}:good", "--bounded-is-enough").exit_code == 0
    assert pellucid("progress", f"{file}:open_ended", "--bounded-is-enough").exit_code == 3
    assert pellucid("progress", f"{file}:good", "--about", "condition 2").exit_code == 0  # by summaries, for all times


def test_where_nobody_asks_for_a_notification_it_is_said(pellucid: Command, file: str) -> None:
    said = "no node asks for a notification, so this says nothing"
    assert said in pellucid("progress", f"{file}:good", "--about", "liveness").stdout


def test_all_graphs_of_a_file_and_reports(pellucid: Command, file: str, folder: Path) -> None:
    result = pellucid(
        "progress", file, "--json", "--junit", "report.xml", "--svg", "pictures", "--about", "condition 1"
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verb"] == "progress" and document["summary"] == {
        "proved": 0,
        "refuted": 1,
        "bounded": 3,
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
        ("divides", "error"), ("good: condition 1", "bounded"), ("past: condition 1", "refuted"), ("text", "error"),
    ]  # fmt: skip
    assert "node 'p', message 0 on i: ZeroDivisionError" in told["divides"][1]
    assert "'x' is not a time of integers of 64 bits" in told["text"][1]
    assert (folder / "report.xml").read_text().count("<error") == 2
    result = pellucid("progress", "refused.py", "--about", "condition 1")
    assert result.exit_code == 2 and "1 refuted, 1 bounded, 2 errors" in result.stdout
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
    assert result.stdout.startswith("p is not notified of 2013-01-02: 1 pointstamp holds it back\n")


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


# `pellucid progress` of a pipeline: what waits for which clock, whether its times stay in order, and, of the state
# folder of a run, why it is not done; what is refused, with one message and exit code 2.

SHOP = """\
from datetime import datetime, timedelta
from typing import NamedTuple

from pellucid import Stream, join, pipeline
from pellucid.progress import Graph, buffer

class Click(NamedTuple):
    when: datetime
    user: str

def number(w):
    return w.cumulate(lambda n, v: n + 1, start=0)

@pipeline
def hourly(clicks: Stream[Click]):
    print("loaded")
    timed = clicks.at("when", lateness=timedelta(minutes=5), id="when").key_by(lambda c: c.user, id="user")
    return timed.tumbling(timedelta(hours=1), number, id="hours")

@pipeline
def backwards(x: Stream[int], y: Stream[int]):
    pair = join(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), within=(5, 10), how="full", id="pair")
    return pair.tumbling(2, number, id="twos")

@pipeline
def plain(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: v + 1)
"""
GRAPH = 'daily = Graph({"p": buffer("o")}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1], name="daily")\n'


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "shop.py").write_text(SHOP)
    rows = [f"2024-05-01T{9 + i // 60:02}:{i % 60:02}:00,{'ab'[i % 2]}" for i in range(200)]
    (folder / "clicks.csv").write_text("\n".join(["when,user", *rows]) + "\n")
    return folder


def _hangs() -> None:
    os.environ["PELLUCID_FAULTS"] = "worker:border=hang@4"
    p = load_pipeline("shop.py:hourly")
    p.run_epochs("clicks.csv", "out.csv", state="state", pushes=20, say=lambda text: None)


@pytest.fixture
def stopped(shop: Path) -> Path:
    """A run that was killed after three epochs of twenty rows."""
    process = multiprocessing.get_context("fork").Process(target=_hangs)
    process.start()
    try:
        p, deadline = load_pipeline("shop.py:hourly"), time.monotonic() + 120
        while time.monotonic() < deadline and process.is_alive():
            if (shop / "state" / "run.json").exists() and p.progress("state").about["epoch"] == 3:
                break
            time.sleep(0.02)
    finally:
        process.kill()
        process.join()
    return shop


def test_a_run_that_was_killed(pellucid: Command, stopped: Path) -> None:
    found = pellucid("progress", "shop.py:hourly", "--state", "state", "--svg", "waiting.svg")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("hourly in state: not running, epoch 3 complete, 60 pushes by 20")
    assert lines[0].endswith(", 2 wait for the clock")
    assert lines[2].startswith("  clicks: 60 rows read, last row read 20")
    assert lines[2].endswith(
        "greatest event time 2024-05-01 09:59:00, watermark 2024-05-01 09:54:00, with a lateness of 5 min, active"
    )
    assert lines[3:] == [
        "steps",
        "  hours (tumbling 1 h): clock at 2024-05-01 09:54:00",
        "    2 keys, first a: 2024-05-01 09:00:00 to 2024-05-01 10:00:00; "
        "b: 2024-05-01 09:00:00 to 2024-05-01 10:00:00",
        "    2 windows are open: 2024-05-01 09:00:00 to 2024-05-01 10:00:00",
        "      source clicks could still send an event of 2024-05-01 09:54:00 (clicks → when → user → hours)",
        "      they come once clicks has sent an event of 2024-05-01 10:05:00 or later, has ended, or is idle",
    ]
    assert "loaded" in found.stderr
    assert 'data-source="clicks"' in (stopped / "waiting.svg").read_text()
    document = json.loads(pellucid("progress", "shop.py:hourly", "--state", "state", "--json").stdout)
    assert (document["pellucid"], document["verb"], document["progress"]["format"]) == (1, "progress", 1)
    assert document["progress"]["run"]["epoch"] == 3 and document["progress"]["complete"] is False
    for args, says in (
        (("shop.py:backwards", "--state", "state"), "--state state: belongs to another run: it is of 'hourly', not of"),
        (
            ("shop.py:hourly", "--state", "state", "--about", "clock"),
            "--state tells how far a run is: leave --about out",
        ),
        (("shop.py:hourly", "--state", "state", "--junit", "x.xml"), "--state tells how far a run is: leave --junit"),
    ):
        wrong = pellucid("progress", *args)
        assert wrong.exit_code == 2 and says in wrong.stderr, wrong.output


def test_without_a_run(pellucid: Command, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pellucid("progress", "shop.py:hourly")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[:4] == [
        "hourly: what waits for which clock",
        "hours (tumbling 1 h): a window comes when the clock is at its end",
        "  the clock of user is that of when",
        "    clicks → when → user → hours (lateness 5 min)",
    ]
    assert "proved   hourly: clock: nothing comes behind the clock of what follows" in found.stdout
    assert pellucid("progress", "shop.py:backwards").exit_code == 0
    wrong = {**flow.SUMMARIES, "join": lambda node: [0, -node.timing.low]}  # a step that puts out earlier times
    monkeypatch.setattr(flow, "SUMMARIES", wrong)
    refuted = pellucid("progress", "shop.py:backwards", "--json", "--junit", "report.xml")
    assert refuted.exit_code == 1
    assert [(r["name"], r["status"]) for r in json.loads(refuted.stdout)["results"]][-1] == (
        "backwards: clock", "refuted",
    )  # fmt: skip
    assert "<failure" in (shop / "report.xml").read_text()
    only = pellucid("progress", "shop.py:backwards", "--about", "acyclic")
    assert only.exit_code == 0 and "clock" not in only.stdout.splitlines()[-1]
    plain = pellucid("progress", "shop.py:plain")
    assert plain.exit_code == 0 and plain.stdout.startswith("plain knows no event time")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("shop.py:hourly", "--state", "empty"), "--state empty: is empty: no run has begun there yet"),
        (("shop.py:hourly", "--state", "nowhere"), "--state nowhere: no such folder: give the state folder of a run"),
        (("shop.py:hourly", "--state", "shop.py"), "--state shop.py: is no folder: give the state folder of a run"),
        (
            ("shop.py:hourly", "--state", "."),
            "--state .: holds no run of Pellucid: give the state folder of a run with",
        ),
        (("shop.py:hourli", "--state", "empty"), "shop.py: no pipeline 'hourli': its pipelines are hourly, backwards"),
        (("shop.py", "--state", "empty"), "shop.py: has 3 pipelines (hourly, backwards, plain): say which"),
        (("shop.py:hourly", "--why", "hours@3"), "--why is for graphs with times, and hourly is a pipeline: give"),
        (("shop.py:hourly", "--pending", "hours@3"), "--pending is for graphs with times, and hourly is a pipeline"),
        (("shop.py:number",), "shop.py: 'number' is no pipeline but a function: put @pipeline above it"),
        (("shop.py:hourly", "--about", "liveness"), "of a pipeline the questions are condition 2, acyclic, clock"),
    ],
)
def test_what_is_refused(pellucid: Command, shop: Path, args: tuple[str, ...], says: str) -> None:
    (shop / "empty").mkdir()
    result = pellucid("progress", *args)
    assert result.exit_code == 2 and says in result.stderr and "Traceback" not in result.output, result.output


def test_a_file_with_graphs_and_pipelines(pellucid: Command, shop: Path) -> None:
    (shop / "shop.py").write_text(SHOP + GRAPH)
    assert "daily: condition 1" in pellucid("progress", "shop.py").stdout
    assert "daily: condition 1" in pellucid("progress", "shop.py:daily").stdout
    assert pellucid("progress", "shop.py:hourly").stdout.startswith("hourly: what waits")
    wrong = pellucid("progress", "shop.py:daily", "--state", "x")
    assert wrong.exit_code == 2 and "'daily' is no pipeline but a Graph" in wrong.stderr
    unknown = pellucid("progress", "shop.py:dayly")
    assert unknown.exit_code == 2 and "no graph 'dayly': its graphs are daily" in unknown.stderr
