"""Pipelines by event time on the command line: shown, explained and run; where they do not run yet, refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from pellucid.internal.load import load_pipeline

Command = Callable[..., Result]

TIMED = """\
from datetime import datetime, timedelta
from typing import NamedTuple
from pellucid import Stream, Windowed, pipeline

class Payment(NamedTuple):
    when: datetime
    user: str
    amount: float

@pipeline
def hourly(x: Stream[Payment]) -> Stream[Windowed[datetime, float]]:
    paid = x.at("when", lateness=timedelta(minutes=5), id="when").key_by(lambda p: p.user, id="user")
    total = lambda w: w.cumulate(lambda t, p: t + p.amount, start=0.0)
    return paid.tumbling(timedelta(hours=1), total, id="hours").filter(lambda w: w.value > 10, id="much")
"""


@pytest.fixture
def timed(folder: Path) -> Path:
    (folder / "timed.py").write_text(TIMED)
    (folder / "in.csv").write_text("when,user,amount\n2024-05-01T09:00:00,ada,1.5\n")
    return folder


def test_show(pellucid: Command, timed: Path) -> None:
    found = pellucid("show", "timed.py")
    assert found.exit_code == 0, found.stderr
    words = " ".join(found.stdout.split())
    assert "at .when lateness 5 min ─▶ key by p.user ─▶ tumbling 1 h [cumulate t + p.amount]" in words
    document = json.loads(pellucid("show", "timed.py", "--json").stdout)
    steps = {node["id"]: node for node in document["graph"]["nodes"]}
    assert steps["when"]["timing"] == {"times": "datetime", "lateness": 300_000_000}
    assert steps["hours"]["timing"]["size"] == 3_600_000_000


def test_explain(pellucid: Command, timed: Path) -> None:
    found = pellucid("explain", "timed.py")
    assert found.exit_code == 0, found.stderr
    assert re.search(
        r"hours: tumbling 1 h .*\n.*\n +remembers: the events of windows that are not complete, for each", found.stdout
    )
    assert "when: at .when lateness 5 min" in found.stdout
    assert "remembers: the greatest time that it has seen" in found.stdout
    assert "cores here: one, as the clock is of all keys together; so with epochs it is one worker" in found.stdout
    assert "on Spark: inner, by event time: one shuffle by the key that key_by makes" in found.stdout


PAID = """\
when,user,amount
2024-05-01T09:50:00,ada,7.5
2024-05-01T10:01:00,bob,20.0
2024-05-01T09:00:00,ada,4.0
2024-05-01T11:20:00,bob,2.5
2024-05-01T09:59:59,bob,12.0
"""


def test_a_run_over_a_file_knows_all_rows(pellucid: Command, timed: Path) -> None:
    """It is one batch: nothing is late, whatever the chunks are."""
    (timed / "in.csv").write_text(PAID)
    found = pellucid("run", "timed.py", "--in", "in.csv", "--out", "out.csv", "--chunk", "2")
    assert found.exit_code == 0, found.stderr
    assert "5 in, 3 out" in found.stderr
    assert (timed / "out.csv").read_text().splitlines() == [
        "start,end,value",
        "2024-05-01 09:00:00.000000,2024-05-01 10:00:00.000000,11.5",
        "2024-05-01 09:00:00.000000,2024-05-01 10:00:00.000000,12",
        "2024-05-01 10:00:00.000000,2024-05-01 11:00:00.000000,20",
    ]
    shown = pellucid("run", "timed.py", "--in", "in.csv", "--head", "2")
    assert shown.stdout == '{"start": "2024-05-01T10:00:00", "end": "2024-05-01T11:00:00", "value": 20.0}\n'


def test_keys_and_several_outputs(pellucid: Command, timed: Path) -> None:
    """With a key that comes with the data, into Parquet: as p(table, key=…) does; on one stdout, push by push."""
    (timed / "sums.py").write_text(
        "from pellucid import Stream, pipeline\n"
        "@pipeline\n"
        "def sums(x: Stream[int]):\n"
        "    timed = x.at(lambda v: v, id='t')\n"
        "    return {'tens': timed.tumbling(10, lambda w: w.cumulate(lambda s, v: s + v, start=0)), 'all': timed}\n"
    )
    (timed / "v.csv").write_text("x,u\n11,a\n3,b\n4,a\n5,b\n")
    both = ("--in", "v.csv", "--value", "x", "--key", "u")
    found = pellucid("run", "sums.py", *both, "--out", "tens=tens.parquet", "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["events_out"] == {"tens": 3, "all": 4}
    want = load_pipeline(f"{timed}/sums.py")(pa.table({"x": [11, 3, 4, 5], "u": list("abab")}), key="u")["tens"]
    assert pq.read_table(timed / "tens.parquet").to_pylist() == want.to_pylist()
    assert want.to_pylist()[0] == {"u": "a", "start": 0, "end": 10, "value": 4}
    shown = pellucid("run", "sums.py", *both, "--out", "tens=-", "--out", "all=-")
    assert [next(iter(json.loads(line))) for line in shown.stdout.splitlines()] == ["all"] * 4 + ["tens"] * 3


def test_keys_that_are_forgotten(pellucid: Command, timed: Path) -> None:
    (timed / "gone.py").write_text(
        "from pellucid import Stream, pipeline\n"
        "@pipeline\n"
        "def gone(x: Stream[int]):\n"
        "    w = x.at(lambda v: v).tumbling(10, lambda w: w)\n"
        "    return w.key_by(lambda w: w.start % 20).forget(after=1).cumulate(lambda n, w: n + 1, start=0)\n"
    )
    (timed / "v.csv").write_text("x\n1\n11\n21\n41\n")
    found = pellucid("run", "gone.py", "--in", "v.csv", "--chunk", "1")
    assert found.exit_code == 0, found.stderr
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"out": n} for n in load_pipeline(f"{timed}/gone.py")([1, 11, 21, 41])
    ]
    assert " forgotten, " in found.stderr


def test_a_run_in_epochs(pellucid: Command, timed: Path) -> None:
    (timed / "in.csv").write_text(PAID.replace("09:59:59", "10:59:59"))
    args = ("run", "timed.py", "--in", "in.csv", "--out", "out.csv", "--epoch-size", "3", "--state", "s", "--json")
    found = pellucid(*args)
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["epochs"] == 2
    plain = pellucid("run", "timed.py", "--in", "in.csv", "--out", "plain.csv")
    assert plain.exit_code == 0 and (timed / "out.csv").read_text() == (timed / "plain.csv").read_text()


@pytest.mark.parametrize(
    "words",
    [("--keep-columns", "user"), ("--order", "when"), ("--measure", "m.json"),
     ("--epoch-size", "2", "--state", "s", "--bad", "bad.csv"),
     ("--epoch-size", "2", "--state", "s", "--cut", "hours")],
)  # fmt: skip
def test_what_does_not_go_together(pellucid: Command, timed: Path, words: tuple[str, ...]) -> None:
    found = pellucid("run", "timed.py", "--in", "in.csv", "--out", "out.csv", *words)
    option = words[-2]
    assert found.exit_code == 2, (found.stdout, found.stderr)
    assert f"{option} does not go with hourly, which works by event time: " in found.stderr
    assert not (timed / "out.csv").exists() and not (timed / "s").exists()


ON_SPARK = {
    "--order when": "the order of rows is no part of its answers; leave --order out",
    "--late drop": "--late does not go with hourly, which works by event time: what becomes of late",
    "--keep-columns user": "--keep-columns does not go with hourly, which works by event time: an answer",
    "--key start": "--key start: the answers of hourly have a column 'start' of their own, and the key would be lost",
}


@pytest.mark.parametrize("words", list(ON_SPARK))
def test_what_does_not_go_with_event_time_on_spark(words: str, pellucid: Command, timed: Path) -> None:
    """Said before Spark starts."""
    found = pellucid("run", "timed.py", "--in", "in.csv", "--on", "spark", "--out", "out.parquet", *words.split())
    assert found.exit_code == 2, (found.stdout, found.stderr)
    assert ON_SPARK[words] in " ".join(found.stderr.split()), found.stderr


REFUSED = {
    "failures": (["check", "timed.py", "--failures"], "the model of failures"),
    "export": (["export", "timed.py", "--ints", "mod:4"], "NuSMV"),
}


@pytest.mark.parametrize("verb", list(REFUSED))
def test_where_event_time_is_not_known_yet_it_is_refused(verb: str, pellucid: Command, timed: Path) -> None:
    words, who = REFUSED[verb]
    found = pellucid(*words)
    assert found.exit_code == 2, (found.stdout, found.stderr)
    said = " ".join(found.stderr.split())
    assert f"step 'when' (at .when, timed.py:12) works by event time, which {who} does not know yet" in said, said
    assert "Traceback" not in found.stderr


CHECKED = (
    TIMED
    + """
@pipeline
def often(x: Stream[Payment]) -> Stream[Windowed[datetime, float]]:
    paid = x.at("when", lateness=timedelta(minutes=5)).key_by(lambda p: p.user)
    return paid.tumbling(timedelta(hours=1), lambda w: w.map(lambda p: p.amount)).filter(lambda w: w.value > 10)
"""
)
EARLY = "2024-05-01T10:00,2024-05-01T10:59,2024-05-01T11:05"


def test_check_asks_for_the_promises_of_event_time(pellucid: Command, timed: Path) -> None:
    found = pellucid("check", "timed.py:hourly", "--pushes", "2", "--times", EARLY, "--json")
    assert found.exit_code == 3, (found.stdout, found.stderr)
    (result,) = json.loads(found.stdout)["results"]
    assert result["status"] == "bounded" and set(result["details"]["parts"].values()) == {"bounded"}
    assert "promise 2: within their lateness no rows are late" in found.stderr


def test_check_compares_two_and_shows_times(pellucid: Command, timed: Path) -> None:
    (timed / "timed.py").write_text(CHECKED)
    words = ("--times", EARLY, "--ints", "0..1", "--equivalent", "sequence", "--pytest", "test_found.py")
    found = pellucid("check", "timed.py:hourly", "timed.py:often", *words)
    assert found.exit_code == 3, (found.stdout, found.stderr)  # of floats 0.0 and 1.0, no window has more than 10
    assert found.stdout.startswith("bounded")
    (timed / "timed.py").write_text(CHECKED.replace("> 10", "> 0"))
    found = pellucid("check", "timed.py:hourly", "timed.py:often", *words)
    assert found.exit_code == 1, (found.stdout, found.stderr)
    for text in ("batch", "2024-05-01 10:00", "the end", "1:clock", "over"):
        assert text in found.stdout, found.stdout
    assert "engine.finish()" in (timed / "test_found.py").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--property", "AG EF out"), "AG EF out asks for runs that there may be: by event time a formula is asked of"),
        (("--property", "G (out -> Y out)"), "Y looks back, which is not asked by event time yet"),
        (("--property", "G !full"), "no queue has a bound by event time, so nothing is ever full"),
        (("--times", "noon"), "--times takes 0,9,10 or 2024-05-01T10:00,…, found 'noon'"),
        (("--times", "1,2"), "times= takes datetimes, or timedeltas from 1970-01-01 on"),
        (("--property", "G out", "--queue", "2"), "queue= does not go with a pipeline by event time"),
        (("--property", "G out", "--engine", "smt"), "engine= does not go with a pipeline by event time"),
        (("--property", "G out", "--assume", "x.amount >= 0"), "assume= does not go with a pipeline by event time"),
        (("--failures", "--times", "1"), "--times does not go with it"),
    ],
)
def test_what_cannot_be_asked_by_event_time(pellucid: Command, timed: Path, words: tuple[str, ...], said: str) -> None:
    found = pellucid("check", "timed.py:hourly", *words)
    assert found.exit_code == 2, (found.stdout, found.stderr)
    assert said in " ".join(found.stderr.split()), found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(("words", "option"), [(("--cut", "hours"), "--cut"), (("--workers", "2"), "--workers")])
def test_a_crash_test_of_one_worker(pellucid: Command, timed: Path, words: tuple[str, ...], option: str) -> None:
    found = pellucid("crash", "timed.py:hourly", "--in", "in.csv", *words)
    assert found.exit_code == 2
    assert f"{option} does not go with hourly, which works by event time" in " ".join(found.stderr.split())


@pytest.mark.parametrize("more", [(), ("--epoch-size", "5", "--state", "state")])
def test_late_rows_are_said_at_the_step(pellucid: Command, timed: Path, more: tuple[str, ...]) -> None:
    found = pellucid("run", "timed.py", "--in", "in.csv", "--out", "out.csv", "--late", "drop", *more)
    assert found.exit_code == 2
    assert "declared at the step" in found.stderr and "late='drop'" in found.stderr
    assert not (timed / "out.csv").exists()


JOINED = """
from typing import NamedTuple
from pellucid import Stream, join, pipeline


class Ping(NamedTuple):
    at: int
    size: int


@pipeline
def near(a: Stream[Ping], b: Stream[Ping]) -> Stream[tuple[int, int]]:
    return join(a.at("at"), b.at("at"), within=1).map(lambda both: (both[0].size, both[1].size))
"""


def test_the_events_of_all_inputs_are_counted(pellucid: Command, timed: Path) -> None:
    """Inputs meet by time here, so a row of each is no push: 4 and 1 are 5 events."""
    (timed / "near.py").write_text(JOINED)
    (timed / "a.csv").write_text("at,size\n1,10\n5,20\n9,30\n13,40\n")
    (timed / "b.csv").write_text("at,size\n10,7\n")
    found = pellucid("run", "near.py", "--in", "a=a.csv", "--in", "b=b.csv", "--out", "out.csv")
    assert found.exit_code == 0, found.stderr
    assert found.stderr.startswith("5 in, 1 out, ")
    found = pellucid("run", "near.py", "--in", "a=a.csv", "--in", "b=b.csv", "--out", "out.json", "--json")
    assert json.loads(found.stdout)["events_in"] == 5


def test_rows_that_cannot_be_read_are_set_aside(pellucid: Command, timed: Path) -> None:
    """As `p(table, bad=…)` does; a step that fails on an event still ends the run."""
    (timed / "in.csv").write_text(
        "when,user,amount\n2024-05-01T09:00:00,ada,11.5\nno time,ada,2\n2024-05-01T09:10:00,bob,x\n"
        "2024-05-01T09:20:00,ada,2\n"
    )
    found = pellucid("run", "timed.py", "--in", "in.csv", "--out", "out.jsonl", "--bad", "bad.jsonl", "--chunk", "2")
    assert found.exit_code == 0, found.stderr
    assert "4 in, 1 out, 2 bad, " in found.stderr
    assert [json.loads(line)["value"] for line in (timed / "out.jsonl").read_text().splitlines()] == [13.5]
    letters = [json.loads(line) for line in (timed / "bad.jsonl").read_text().splitlines()]
    assert [(one["row"], one["column"]) for one in letters] == [(2, "when"), (3, "amount")]
    many = pellucid("run", "timed.py", "--in", "in.csv", "--out", "o.jsonl", "--bad", "b.jsonl", "--max-bad", "1")
    assert many.exit_code == 2 and not (timed / "o.jsonl").exists() and not (timed / "b.jsonl").exists()


def test_by_event_time_a_bad_row_takes_no_row_of_another_input_with_it(pellucid: Command, timed: Path) -> None:
    (timed / "two.py").write_text(
        "from pellucid import Stream, join, pipeline\n"
        "@pipeline\n"
        "def near(x: Stream[int], y: Stream[int]):\n"
        "    return join(x.at(lambda v: v), y.at(lambda v: v), within=1)\n"
    )
    (timed / "x.csv").write_text("x\n1\nno\n5\n")
    (timed / "y.csv").write_text("y\n9\n1\n5\n")
    inputs = ("--in", "x=x.csv", "--in", "y=y.csv")
    found = pellucid("run", "two.py", *inputs, "--out", "out.jsonl", "--bad", "bad.jsonl")
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in (timed / "out.jsonl").read_text().splitlines()]
    assert sorted((r["out_0"], r["out_1"]) for r in rows) == [(1, 1), (5, 5)]
    (letter,) = [json.loads(line) for line in (timed / "bad.jsonl").read_text().splitlines()]
    assert (letter["file"], letter["row"]) == ("x.csv", 2)
    here = load_pipeline(f"{timed}/two.py")(pa.table({"x": [1, None, 5]}), pa.table({"y": [9, 1, 5]}), bad="keep")
    assert sorted(tuple(r.values()) for r in here["out"].to_pylist()) == [(1, 1), (5, 5)]
    assert [r["row"] for r in here["bad"].to_pylist()] == [1] or here["bad"].num_rows == 1
