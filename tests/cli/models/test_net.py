"""``pellucid net``: run, check, show; exit codes, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.internal.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples" / "atomic"


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    for file in EXAMPLES.glob("*.atf"):
        (tmp_path / file.name).write_text(file.read_text())
    return lambda *args, **more: CliRunner().invoke(cli, ["net", *args], **more)


def test_check(net: Callable[..., Result], tmp_path: Path) -> None:
    good = net("check", "firewalls.atf")
    assert good.exit_code == 0 and "9 proved" in good.output and "progress of server" in good.output
    bad = net("check", "booking.atf", "--svg", "pictures")
    assert bad.exit_code == 1 and "flight took a message of trip, which aborted" in bad.output
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 2
    assert net("check", "booking.atf", "--about", "C1", "--about", "C2").exit_code == 0
    assert net("check", "booking.atf", "--rules", "crash", "--about", "progress").exit_code == 0
    assert net("check", "cycle.atf", "--max-states", "20").exit_code == 3


def test_check_as_json(net: Callable[..., Result]) -> None:
    result = net("check", "booking.atf", "--json", "--about", "progress")
    document = json.loads(result.stdout)
    assert document["verb"] == "net check" and result.exit_code == 1
    assert [r["status"] for r in document["results"]] == ["proved", "refuted", "refuted"]
    everything = {"committed": ["flight", "hotel", "trip"], "aborted": [], "undecided": []}
    assert everything in document["details"]["outcomes"] and document["details"]["complete"]


def test_run_by_seed_and_by_hand(net: Callable[..., Result], tmp_path: Path) -> None:
    first, again = (net("run", "booking.atf", "--seed", "5").output for _ in range(2))
    assert first == again and "aborted    flight, hotel, trip" in first and "agency" in first
    result = net("run", "firewalls.atf", "--take", "1", "--take", "1", "--svg", "run.svg")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("   0  OUT client host\n   1  OUT client corp\n")
    assert "undecided  client, server" in result.output and "next       1  IN client shop" in result.output
    assert (tmp_path / "run.svg").read_text().startswith("<svg")
    asked = net("run", "firewalls.atf", "--ask", input="1\n0\n")
    assert asked.exit_code == 0 and "  1  OUT client host" in asked.output
    document = json.loads(net("run", "firewalls.atf", "--take", "1", "--json").stdout)
    assert document["next"][0] == "OUT client corp" and document["run"]["steps"][0]["step"] == "OUT client host"


def test_who_waits_for_a_large_file_is_told(net: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "large.atf").write_text("#" + " much" * 120_000 + "\n0")
    for verb in ("check", "run", "show"):
        result = net(verb, "large.atf")
        assert result.exit_code == 0 and "pellucid: large.atf: reading 0.6 MB\n" in result.stderr


def test_what_runs_end_with(net: Callable[..., Result], tmp_path: Path) -> None:
    lines = net("check", "firewalls.atf", "--about", "C1").stdout.splitlines()
    assert lines[1:3] == ["ends     committed client · aborted server", "         committed client, server"]
    (tmp_path / "r.atf").write_text("new t: Trans. new p: Place. p[ t{!commit | abort} ]")
    assert "ends found so far  aborted t\n" in net("check", "r.atf", "--unfold", "999", "--max-states", "9").stdout
    few = net("check", "booking.atf", "--about", "C1", "--rules", "crash").stdout
    assert "aborted flight, hotel, trip" in few


def test_nobody_gives_up_where_anything_else_can_happen(net: Callable[..., Result]) -> None:
    for seed in range(6):
        result = net("run", "booking.atf", "--patient", "--seed", str(seed))
        assert result.exit_code == 0 and "committed  flight, hotel, trip" in result.output
    again = net("run", "booking.atf", "--take", "1", "--patient").output  # by hand, then by a seed
    assert "committed  flight, hotel, trip" in again


def test_where_answers_end_the_run_ends(net: Callable[..., Result]) -> None:
    asked = net("run", "firewalls.atf", "--ask", input="1\n")
    assert asked.exit_code == 0 and "   0  OUT client host\n" in asked.output and "Aborted!" not in asked.output


def test_a_message_that_waits_for_ever(net: Callable[..., Result], tmp_path: Path) -> None:
    text = (EXAMPLES / "firewalls.atf").read_text().replace("out host.out corp.in", "out host.in")
    (tmp_path / "w.atf").write_text(text)
    words = "pellucid: warning: client sent a message that waits for ever at corp: send(in shop.in orders, <>) finds no"
    assert words in net("check", "w.atf").stderr and words in net("run", "w.atf", "--patient").stderr


def test_show(net: Callable[..., Result], tmp_path: Path) -> None:
    result = net("show", "firewalls.atf", "--svg", "places.svg")
    assert result.exit_code == 0
    assert result.output.startswith("corp\n  └ host\n    · client{send(") and "orders: Chan[<>]" in result.output
    assert "corp" in (tmp_path / "places.svg").read_text()
    document = json.loads(net("show", "firewalls.atf", "--json").stdout)
    assert document["places"] == {"outside": None, "corp": "outside", "host": "corp", "shop": "outside"}
    assert document["transactions"] == {"client": "host", "server": "shop"}


ROOT = EXAMPLES.parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "how-to-atomic.md"]
CONSOLE = [
    block for page in PAGES for block in re.findall(r"```console\n\$ pellucid (net .*?)```", page.read_text(), re.S)
]


@pytest.mark.parametrize("block", CONSOLE)
def test_what_the_pages_show_is_printed(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command, _, shown = block.partition("\n")
    result = CliRunner().invoke(cli, command.split())
    assert result.exit_code == 0
    timeless = [re.sub(r"[\d.]+ m?s\)", "s)", text) for text in (shown, result.stdout)]
    for part in timeless[0].split("…\n"):
        assert part in timeless[1]


def test_the_pages_show_some() -> None:
    assert len(CONSOLE) == 3


BAD = [
    ("new t: Trans. p[ t{commit ]", "bad.atf, line 1, column 27: `]` is not expected here: `|`, `}` would be\n"),
    (
        "new p: Place. p[ t{commit} ]",
        "bad.atf, line 1, column 18: NET PROCESS: t is free: expected new t: Trans",
    ),
    ("new t: Trans. new p, q: Place. p[ t{commit} ] | q[ t{abort} ]", "one place per transaction: t has processes at"),
    (
        "new t: Trans. new p: Place. p[ t{send(in p, <>)} ]",
        "PROC SEND: where it is sent, in p: expected Cap[Chan[T]]",
    ),
]


BAD += [
    ("", "bad.atf, line 1, column 1: the text ends here: `(`, 0, a name, new would be\n"),
    ("new té: Trans. 0", "line 1, column 6: `é` means nothing here: a name is made of A-Z, a-z, 0-9, _ and '"),
    ("new \0: Trans. 0", "line 1, column 5: the sign U+0000 means nothing here"),
    ("\ufeffnew t: Trans. new p: Place.\r\np[ t{abrt} ]\r\n", "line 2, column 6: `abrt` is not expected here"),
    ("\ufeffnew t: Trans. new p: Place.\r\np[ t{abrt} ]\r\n", "send would be; did you mean 'abort'?\n  p[ t{abrt} ]\n"),
    ("\ufeffnew p: Place. p[ t{commit} ]", "column 18: NET PROCESS: t is free"),
    ("new t: Trans. new p, q: Place.\np[ t{commit} ] | q[ t{abort} ]", "bad.atf, line 2, column 23: one place per tr"),
    ("new t: Trans. new p: Place. p[ t{0}, 0 ]", "bad.atf, line 1, column 32: a log has no entry t{0}"),
    ("new t: Trans. new p: Place. p[ t{" + "!" * 3000 + "commit} ]", "bad.atf is nested too deeply to be read"),
    ("new t: Trans. new p: Place. new c: Chan[<>]. p[ t{" + "receive(out c, (x) " * 250 + "0" + ", 0)" * 250 + "} ]",
     "bad.atf: a process is nested too deeply: use fewer processes inside each other"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
@pytest.mark.parametrize("verb", ["run", "check", "show"])
def test_bad_input_is_2(net: Callable[..., Result], tmp_path: Path, verb: str, text: str, message: str) -> None:
    (tmp_path / "bad.atf").write_text(text)
    result = net(verb, "bad.atf")
    assert result.exit_code == 2 and message in result.output and "Traceback" not in result.output


def test_a_place_that_is_not_there_is_a_warning(net: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "w.atf").write_text(
        "new t: Trans. new p, q: Place. new c: Chan[<>]. p[ t{send(out p.in q.in c, <>) | commit} ]"
    )
    for verb in ("check", "run", "show"):
        result = net(verb, "w.atf")
        assert (
            result.exit_code == 0 and "no place is called q: a message on its way there waits for ever" in result.stderr
        )


def test_replication_is_said(net: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "r.atf").write_text("new t: Trans. new p: Place. p[ t{!commit} ]")
    result = net("check", "r.atf", "--unfold", "1")
    assert result.exit_code == 3
    found = [line for line in result.stdout.splitlines() if line.startswith("bounded")]
    assert len(found) == 7 and all(": nothing found in runs with at most 1 unfolding of !  (" in line for line in found)
    assert net("check", "r.atf", "--unfold", "1", "--bounded-is-enough").exit_code == 0
    assert net("check", "r.atf", "--unfold", "0").exit_code == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["check", "none.atf"], "none.atf: No such file"),
        (["show", "."], ".: Is a directory"),
        (["check", "cycle.atf", "--timeout", "nan"], "--timeout nan: expected a number of seconds above 0"),
        (["show", "cycle.atf", "--rules", "printed"], "No such option '--rules'"),
        (["run", "cycle.atf", "--take", "9"], "--take 9: step 1 has 6 choices: 1 OUT a p"),
        (["run", "cycle.atf", "--ask", "--seed", "1"], "--ask goes by hand: leave --json, --seed and --pat"),
        (["check", "cycle.atf", "--rules", "prints"], "there are no rules 'prints'; did you mean 'printed'?"),
        (["check", "cycle.atf", "--about", "C3"], "there is no question 'C3' about atomic failure"),
        (["run", "cycle.atf", "--seed", "1", "--seed", "2"], "--seed is given twice"),
    ],
)
def test_wrong_usage_is_2(net: Callable[..., Result], args: list[str], message: str) -> None:
    result = net(*args)
    assert result.exit_code == 2 and message in result.output
