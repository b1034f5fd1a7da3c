"""Loading, showing, starting a project, completion, and what happens when something goes wrong inside."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid.errors import TypeMismatch
from pellucid.internal.cli.main import cli
from pellucid.internal.engine import in_memory as cores
from pellucid.internal.expr.types import type_of

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


# ``pellucid explain``, the times of ``--verbose``, and ``--cores``.

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
        (
            ("--epoch-size", 10, "--state", "s"),
            "--cores goes with a run without epochs: here --workers N shares the keys",
        ),
        (("--on", "spark"), "--cores goes with the local engine: Spark uses those of --master"),
    ):
        refused = pellucid("run", "flights.py:mean", "--in", "in.csv", "--cores", 2, *more)
        assert refused.exit_code == 2 and why in refused.stderr


# ``pellucid export``.


def test_a_model_on_stdout(pellucid: Command) -> None:
    result = pellucid("export", "pipes.py:total", "--format", "smv", "--ints", "mod:3", "--property", "AG EF out")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "-- total: integers modulo 3; written by pellucid as in Model Checking of Stream Processing Pipelines (2021), "
        "section 3"
    )
    assert "MODULE main" in lines and "  pc_1 : 0..2;  -- source x" in lines
    assert "CTLSPEC NAME p_1 := AG (EF out_b);" in lines


def test_a_file(pellucid: Command, folder: Path) -> None:
    more = ["--queue", "2", "--property", "!EF full", "--property", "G F in -> G F out", "--out", "total.smv"]
    result = pellucid("export", "pipes.py:total", "--ints", "mod:4", *more)
    assert (result.exit_code, result.stdout) == (0, "")
    text = (folder / "total.smv").read_text()
    assert text.count("SPEC NAME") == 2 and "INVARSPEC NAME p_1 := !full;" in text
    assert text.endswith(";\n")


def test_queues_by_id(pellucid: Command, folder: Path) -> None:
    (folder / "late.py").write_text(
        "from pellucid import *\nlate = pipeline(lambda x: apply(lambda a, b: a, x, x.trim(1), id='j'), x=int)\n"
    )
    result = pellucid("export", "late.py:late", "--queue", "j.0=1", "--queue", "2")
    assert result.exit_code == 0 and "queues as arrays q_c, q_b of 1, 2 cells" in result.stdout


BAD = [
    (
        ["pipes.py:both"],
        "a merge may carry several events in one push, but a pipe of NuSMV's model carries at most one",
    ),
    (
        ["pipes.py:words"],
        "step 'w' (source): NuSMV has no str: its scalars are Booleans, integers and symbolic constants",
    ),
    (
        ["pipes.py:total", "--ints", "exact"],
        "NuSMV's integers are bounded: give a domain, such as Mod(4) or range(0, 4)",
    ),
    (["pipes.py:total", "--ints", "0..3"], "its values grow beyond 4,096, but NuSMV's integers are bounded"),
    (["pipes.py:total", "--ints", "4"], "--ints takes mod:4, 0..7 or exact, found '4'"),
    (["pipes.py:total", "--queue", "many"], "--queue takes a number, or ID=NUMBER, found 'many'"),
    (["pipes.py:total", "--property", "AG EF outt"], "total has no stream 'outt': did you mean 'out'?"),
    (["pipes.py:total", "--property", "AG EF"], "expected a condition, found the end\n  AG EF\n       ^"),
    (["pipes.py:total", "--format", "promela"], "'promela' is not 'smv'"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_usage(pellucid: Command, args: list[str], message: str) -> None:
    result = pellucid("export", *args)
    assert result.exit_code == 2
    assert message in result.stderr and result.stdout == ""


# ``pellucid schema`` and ``init --from``: the record class of a file, valid Python that works at once.

PLAIN = pa.table(
    {
        "name": ["a", "b"],
        "count": pa.array([1, 2], pa.int16()),
        "share": [0.5, 2.0],
        "good": [True, False],
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "at": [{"x": 1, "y": 2.5}, {"x": 2, "y": 0.0}],
    }
)
ODD = pa.table(
    {
        "n": [1, None],
        "when": [dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 2)],
        "moment": [dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 1, 2, tzinfo=dt.UTC)],
        "day": [dt.date(2013, 1, 1), dt.date(2013, 1, 2)],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "tags": [["a"], []],
        "lines": [[{"sku": "a", "n": 1}, {"sku": "b", "n": None}], None],
        "marks": pa.array([[1.5, None], []]),
        "gaps": [[{"n": 1}, None], []],
        "maps": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        "class": [1, 2],
        "two words": [1, 2],
        "_hidden": [1, 2],
        "fine": [1, 2],
    }
)
NESTED = ("lines", "marks", "gaps", "maps")


def call(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(args))
    assert result.exit_code == code, result.stderr + str(result.exception)
    return result


def made(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made", "exec", dont_inherit=True), scope)
    return scope


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def takes(annotation: Any) -> bool:
    try:
        type_of(annotation)
    except (TypeMismatch, TypeError):
        return False
    return True


def test_the_class_of_a_file(here: Path) -> None:
    pq.write_table(PLAIN, "plain rows.parquet")
    text = call("schema", "plain rows.parquet").stdout
    assert (
        text
        == '''from typing import NamedTuple


class PlainRowAt(NamedTuple):
    """What 'at' holds."""

    x: int
    y: float


class PlainRow(NamedTuple):
    """2 rows of plain rows.parquet."""

    name: str
    count: int
    share: float
    good: bool
    kind: str
    at: PlainRowAt
'''
    )
    found = made(text)["PlainRow"]
    type_of(found)


def test_every_field_can_be_part_of_an_event(here: Path) -> None:
    pq.write_table(ODD, "odd.parquet")
    text = call("schema", "odd.parquet", "--name", "Thing").stdout
    fields = made(text)["Thing"].__annotations__
    assert "fine" in fields and takes(made(text)["Thing"])
    for name in ("gaps", "maps", "class", "two words", "_hidden"):
        assert name not in fields and f"    # {name!r}: " in text
    assert {"n", "when", "moment", "day", "price"} <= set(fields)
    assert "    moment: Annotated[datetime, UTC]\n    day: date\n    price: Annotated[Decimal, Scale(2)]\n" in text
    assert "1 null" in text
    lines = "    tags: list[str]\n    lines: list[ThingLine] | None  # 1 null\n    marks: list[float | None]\n"
    assert lines in text
    assert 'class ThingLine(NamedTuple):\n    """What \'lines\' holds."""\n\n    sku: str\n    n: int | None' in text


def test_text_is_what_all_cells_are(here: Path) -> None:
    rows = [(str(i), f"{i}.5", "true", "x", "7") for i in range(50_000)] + [("-3", "1e9", "false", "y", "no number")]
    Path("t.csv").write_text("a,b,c,d,e\n" + "".join(",".join(row) + "\n" for row in rows))
    fields = made(call("schema", "t.csv").stdout)["T"].__annotations__
    assert fields == {"a": int, "b": float, "c": bool, "d": str, "e": str}
    Path("na.csv").write_text("a,b,c,d,e\n1,NA,2013-01-01,NA,nan\nNA,NULL,-,x,1\n2,1.5,?,NA,\n")
    text = call("schema", "na.csv").stdout
    assert (
        "    a: str  # int | None with nulls=['NA'] (--null NA)\n"
        "    b: str  # float | None with nulls=['NA', 'NULL'] (--null NA --null NULL)\n"
        "    c: str  # date | None with nulls=['-', '?'] (--null - --null '?')\n"
        "    d: str\n"
    ) in text
    assert made(text)["Na"].__annotations__ == {"a": str, "b": str, "c": str, "d": str, "e": float | None}
    Path("j.jsonl").write_text('{"a": 1, "b": {"c": "x"}}\n{"a": 2, "b": {"c": "y"}}\n')
    assert "    a: int\n    b: JB\n" in call("schema", "j.jsonl", "--name", "J").stdout


def test_numbers_with_fixed_places_are_decimals(here: Path) -> None:
    Path("t.csv").write_text(
        "a,b,c,d,e\n12.50,0.5,1.00,,1.00\n-3.00,0.25,1.000,7.25,NA\n" + "9" * 15 + ".99,1.5,2.00,,2.50\n"
    )
    text = call("schema", "t.csv").stdout
    assert "    a: Annotated[Decimal, Scale(2)]  # always 2 places: float if it is measured, not money\n" in text
    assert "    b: float\n    c: float\n    d: Annotated[Decimal, Scale(2)] | None  # 2 nulls, always 2" in text
    assert "    e: str  # Annotated[Decimal, Scale(2)] | None with nulls=['NA'] (--null NA)\n" in text
    assert takes(made(text)["T"])


@pytest.mark.parametrize("several", [False, True])
def test_rows_that_cannot_be_read_are_left_out_and_named(here: Path, several: bool) -> None:
    (here / "data").mkdir()
    place = "data/a.csv"
    Path(place).write_text("x,y\n1,a\n2,b,c\n3\n4,d\n5,,\n6,,\n")
    if several:
        Path("data/0.csv").write_text("x,y\n7,\n")
    result = call("schema", "data")
    assert result.stderr == (
        f"pellucid: left out: {place}: row 2 (line 3): 3 fields, expected 2 (x, y): put a text that holds a comma in "
        f"quotes\npellucid: left out: {place}: row 3 (line 4): 1 field, expected 2 (x, y): complete the row or remove "
        f"it\npellucid: left out: {place}: row 5 (line 6): 3 fields, expected 2 (x, y): put a text that holds a comma "
        "in quotes\npellucid: left out: 1 more row that cannot be read\n"
    )
    rows, null = (3, " | None  # 1 null") if several else (2, "")
    assert (
        f'"""{rows} rows of data, without 4 that cannot be read."""\n\n    x: int\n    y: str{null}\n' in result.stdout
    )
    Path("all.csv").write_text("x,y\n1\n")
    said = call("schema", "all.csv", code=2).stderr
    assert said == "pellucid: all.csv: row 1 (line 2): 1 field, expected 2 (x, y): complete the row or remove it\n"
    Path('a"""\n0/0.csv').parent.mkdir()
    Path('a"""\n0/0.csv').write_text("x\n1\n")
    assert "X" in made(call("schema", 'a"""\n0', "--name", "X").stdout)


def test_folders_and_an_output_file(here: Path) -> None:
    for year in (2013, 2014):
        (here / f"data/year={year}").mkdir(parents=True)
        pq.write_table(PLAIN, f"data/year={year}/x.parquet")
    said = call("init", "demo", "--from", "data/*/x.parquet").stdout
    quoted = f"--in '{here}/data/*/x.parquet' --head 10"
    assert quoted in said and quoted in Path("demo/README.md").read_text()
    call("schema", "data", "--name", "Row", "--out", "row.py")
    assert "4 rows of data" in Path("row.py").read_text() and "    year: int\n" in Path("row.py").read_text()
    said = call("schema", "data", "--out", "row.py", code=2).stderr
    assert said == "pellucid: --out row.py: is there already: nothing was written; give another name\n"
    assert call("schema", "nothing.csv", code=2).stderr == "pellucid: nothing.csv: no such file\n"
    said = call("schema", "data", "--name", "a b", code=2).stderr
    assert said == "pellucid: --name a b: is no name that a class in Python can have\n"


@pytest.mark.parametrize("table", [PLAIN, ODD])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_project_from_a_file_runs(here: Path, table: pa.Table, form: str) -> None:
    if form == "csv":
        flat = table.drop_columns([n for n in ("at", "tags", "kind", *NESTED) if n in table.column_names])
        pyarrow.csv.write_csv(flat, "events.csv")
    else:
        pq.write_table(table, "events.parquet")
    call("init", "demo", "--from", f"events.{form}")
    assert "class Event(NamedTuple):" in Path("demo/pipeline.py").read_text()
    out = call("run", "demo/pipeline.py:counted", "--in", f"events.{form}").stdout
    assert [json.loads(line) for line in out.splitlines()] == [{"out": 1}, {"out": 2}]
    assert "already has" in call("init", "demo", "--from", f"events.{form}", code=2).stderr
