"""``pellucid net``: run, check, show; exit codes, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.cli.main import cli

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
    assert {"committed": ["flight", "hotel", "trip"], "aborted": []} in document["details"]["outcomes"]


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


def test_show(net: Callable[..., Result], tmp_path: Path) -> None:
    result = net("show", "firewalls.atf", "--svg", "places.svg")
    assert result.exit_code == 0
    assert result.output.startswith("corp\n  └ host\n    · client{send(") and "orders: Chan[<>]" in result.output
    assert "corp" in (tmp_path / "places.svg").read_text()
    document = json.loads(net("show", "firewalls.atf", "--json").stdout)
    assert document["places"] == {"outside": None, "corp": "outside", "host": "corp", "shop": "outside"}
    assert document["transactions"] == {"client": "host", "server": "shop"}


BAD = [
    ("new t: Trans. p[ t{commit ]", "bad.atf, line 1, column 27: `]` is not expected here: |, } would be\n"),
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
    assert result.exit_code == 0 and "with at most 1 unfolding of !" in result.stderr
    assert net("check", "r.atf", "--unfold", "0").exit_code == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["check", "none.atf"], "none.atf: No such file"),
        (["run", "cycle.atf", "--take", "9"], "--take 9: step 1 has 6 choices: 1 OUT a p"),
        (["run", "cycle.atf", "--ask", "--seed", "1"], "--ask goes by hand: leave --json and --seed out"),
        (["check", "cycle.atf", "--rules", "prints"], "there are no rules 'prints'; did you mean 'printed'?"),
        (["check", "cycle.atf", "--about", "C3"], "there is no question 'C3' about atomic failure"),
        (["run", "cycle.atf", "--seed", "1", "--seed", "2"], "--seed is given twice"),
    ],
)
def test_wrong_usage_is_2(net: Callable[..., Result], args: list[str], message: str) -> None:
    result = net(*args)
    assert result.exit_code == 2 and message in result.output
