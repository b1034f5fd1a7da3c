"""``pellucid explain``, the times of ``--verbose``, and ``--cores``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pellucid.internal.engine import cores

Command = Callable[..., Result]

FLIGHTS = """\
from typing import NamedTuple
from pellucid import Stream, pipeline

class Flight(NamedTuple):
    carrier: str
    delay: int | None

@pipeline
def mean(f: Stream[Flight]) -> Stream[float]:
    flown = f.filter(lambda f: f.delay is not None, id="flown").map(lambda f: f.delay or 0, id="delay")
    return flown.cumulate(lambda t, v: t + v, start=0, id="sum") / flown.cumulate(lambda n, _: n + 1, start=0, id="n")

@pipeline
def coded(f: Stream[Flight]) -> Stream[str]:
    return f.map(lambda f: f.carrier.encode().hex(), to=str, id="code").trim(1, id="rest")
"""


@pytest.fixture
def flights(folder: Path) -> Path:
    (folder / "flights.py").write_text(FLIGHTS)
    rows = [f"{'UA' if i % 3 else 'B6'},{i % 7 if i % 5 else ''}" for i in range(600)]
    (folder / "in.csv").write_text("carrier,delay\n" + "\n".join(rows) + "\n")
    return folder


def test_what_becomes_of_each_step(pellucid: Command, flights: Path) -> None:
    result = pellucid("explain", "flights.py:mean", "--key", "carrier", "--order", "at")
    assert result.exit_code == 0, result.stderr
    assert (
        re.sub(r"apply-\w+", "apply", result.stdout)
        == """\
mean: 5 steps, compiled into one loop
  flown: filter f.delay is not None  (flights.py:10)
    here: compiled
    remembers: nothing
    on Spark: filter: a Column expression, before the shuffle
  delay: map f.delay  (flights.py:10)
    here: compiled
    remembers: nothing
    on Spark: map: a Column expression, before the shuffle
  sum: cumulate t + v  (flights.py:11)
    here: compiled
    remembers: its last value (int), for each key
    on Spark: cumulate: in the fused kernel, keeps state
  n: cumulate n + 1  (flights.py:11)
    here: compiled
    remembers: its last value (int), for each key
    on Spark: cumulate: in the fused kernel, keeps state
  apply: apply /  (flights.py:11)
    here: compiled
    remembers: nothing
    on Spark: apply: in the fused kernel
cores here: all that pay, as keys can be shared among them
on Spark: keys: one shuffle by key, a sort by order within partitions, the kernel inside Arrow batches
  because step 'sum' (cumulate t + v, flights.py:11) remembers
  because step 'n' (cumulate n + 1, flights.py:11) remembers
"""
    )


def test_a_step_that_is_called_says_why(pellucid: Command, flights: Path) -> None:
    result = pellucid("explain", "flights.py:coded")
    assert result.stdout.splitlines()[:9] == [
        "coded: 2 steps, run by CPython event by event, because of code",
        "  code: map λ  (flights.py:15)",
        "    here: called for each event: a lambda uses the method str.encode",
        "    remembers: nothing",
        "    on Spark: see below",
        "  rest: trim 1  (flights.py:15)",
        "    here: a part of the loop in plain Python",
        "    remembers: a count",
        "    on Spark: see below",
    ]
    assert "say which column orders them with --order" in result.stdout
    document = json.loads(pellucid("explain", "flights.py:coded", "--order", "at", "--json").stdout)
    assert (document["verb"], document["compiled"], document["spark"]["way"]) == ("explain", False, "one")
    code, rest = document["steps"]
    assert (code["compiled"], code["why"], code["remembers"]) == (False, "a lambda uses the method str.encode", None)
    assert rest["remembers"] == "a count" and rest["spark"] == "trim: in the fused kernel, keeps state"


def test_verbose_tells_the_time_of_each_step(pellucid: Command, flights: Path) -> None:
    args = ("run", "flights.py:mean", "--in", "in.csv", "--key", "carrier", "--out", "out.csv")
    result = pellucid("--verbose", *args, "--cores", 1)
    assert result.exit_code == 0, result.stderr
    head, *table, how, last = result.stderr.splitlines()
    assert re.fullmatch(
        r"steps: \d+\.\d\d s of processors in them, \d+\.\d\d s in all; in plain Python \(few events\), on one core "
        r"\(so it was said\)",
        head,
    )
    cells = [re.split(r"\s{2,}", line.strip()) for line in table]
    assert cells[0] == ["step", "events in", "events out", "time", "speed"]
    assert [re.sub(r"apply-\w+", "apply", row[0]) for row in cells[1:]] == [
        "f (source)", "flown (filter)", "delay (map)", "sum (cumulate)", "n (cumulate)", "apply (apply)",
        "columns written",
    ]  # fmt: skip
    assert [row[1:3] for row in cells[1:]] == [
        ["600", "600"], ["600", "480"], ["480", "480"], ["480", "480"], ["480", "480"], ["960", "480"], ["480", "480"],
    ]  # fmt: skip
    assert 97 <= sum(int(row[3].removesuffix(" %")) for row in cells[1:]) <= 103
    assert all(re.fullmatch(r"[\d.]+ [kMG]? ?events/s|-", row[4]) for row in cells[1:])
    assert how == "  measured behind each step of the loop in one push of 32, without what the clock itself takes"
    assert last.startswith("600 in, 480 out, ")
    assert "steps:" not in pellucid(*args).stderr
    report = json.loads(pellucid("--verbose", *args, "--json").stdout)
    assert [step["events_out"] for step in report["steps"]] == [600, 480, 480, 480, 480, 480, 480]


def test_cores_change_nothing_but_the_time(pellucid: Command, flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a file that ends in a row that fails: the same message."""
    args = ("run", "flights.py:mean", "--in", "in.csv", "--key", "carrier", "--keep-columns", "all", "--chunk", "100")
    written = []
    for n in (1, 3):
        report = json.loads(pellucid(*args, "--cores", n, "--out", "out.parquet", "--json").stdout)
        assert report["cores"] == n
        written.append((flights / "out.parquet").read_bytes())
    assert written[0] == written[1]
    good = (flights / "in.csv").read_text()
    (flights / "in.csv").write_text(f"{good}B6,{2**62}\nUA,{2**63 - 1}\nB6,{2**62}\n")  # the second and the third fail
    said = [pellucid(*args, "--cores", n, "--out", "bad.parquet") for n in (1, 3)]
    assert said[0].stderr == said[1].stderr and {r.exit_code for r in said} == {2}
    assert "step 'sum'" in said[0].stderr and "from in.csv: row 602" in said[0].stderr
    (flights / "in.csv").write_text(good)
    # what cannot be shared out is said
    result = pellucid("run", "flights.py:coded", "--in", "in.csv", "--head", 5, "--cores", 2, "--out", "o.csv")
    assert "on one core, not 2: only the keys of a run with --key can be shared among cores" in result.stderr
    monkeypatch.setattr(cores, "cores_here", lambda: 1)
    assert "cores" not in pellucid("run", "flights.py:mean", "--in", "in.csv", "--head", 5, "--out", "o.csv").stderr
    for more, why in (
        (("--pushes", 10, "--state", "s"), "--cores goes with a run without epochs: here --workers N shares the keys"),
        (("--on", "spark"), "--cores goes with the local engine: Spark uses those of --master"),
    ):
        refused = pellucid("run", "flights.py:mean", "--in", "in.csv", "--cores", 2, *more)
        assert refused.exit_code == 2 and why in refused.stderr
