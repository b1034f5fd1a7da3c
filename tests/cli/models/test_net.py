"""``pellucid net``: run, check, show; exit codes, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
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


# ``pellucid net committable|cascade|cycles``: answers, reports, files, exit codes, what is refused.

TRANSACTIONS = "id,status\na,pending\nb,pending\nc,pending\nd,active\ne,pending\nf,committed\n"
DEPENDENCIES = "needs,who\na,b\nb,a\nb,c\nd,e\nf,a\n"
TABLES = ("t.csv", "d.csv")
Net = Callable[..., Result]


@pytest.fixture
def net_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Net:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TRANSACTIONS)
    (tmp_path / "d.csv").write_text(DEPENDENCIES)
    pq.write_table(pa.table({"id": [1, 2, 3], "status": ["active", "pending", "pending"]}), "t.parquet")
    pq.write_table(pa.table({"needs": [1, 2, 3], "who": [2, 3, 2]}), "d.parquet")
    return lambda *args: CliRunner().invoke(cli, ["net", *args])


def test_committable(net_logs: Net) -> None:
    done = net_logs("committable", *TABLES)
    assert done.exit_code == 0 and done.stderr == "", done.output
    lines = done.stdout.splitlines()
    assert lines[:4] == ["id  level  set  size", "a   0      a    2", "b   0      a    2", "c   1      c    1"]
    assert lines[5] == "3 of 4 pending can commit, as 2 sets on 2 levels (the largest has 2); 1 cannot yet, or never"
    assert lines[6].startswith("6 transactions, 5 dependencies, ")
    assert "why: d ⇝ e\n" in net_logs("committable", *TABLES, "--why", "e").stdout
    assert "why: nothing: it can commit" in net_logs("committable", *TABLES, "--why", "a").stdout


def test_as_json_and_to_files(net_logs: Net) -> None:
    document = json.loads(net_logs("committable", *TABLES, "--json", "--why", "e").stdout)
    assert document["verb"] == "net committable" and document["why"] == ["d", "e"] and document["more"] == 0
    assert document["counts"]["committable"] == 3 and document["rows"][0] == {
        "id": "a",
        "level": 0,
        "set": "a",
        "size": 2,
    }
    for name in ("now.parquet", "now.csv", "now.jsonl"):
        done = net_logs("committable", *TABLES, "--json", "--out", name)
        assert done.exit_code == 0 and json.loads(done.stdout)["out"] == name
    assert pq.read_table("now.parquet")["id"].to_pylist() == ["a", "b", "c"]
    assert pacsv.read_csv("now.csv").to_pylist() == pq.read_table("now.parquet").to_pylist()
    assert [json.loads(line) for line in Path("now.jsonl").read_text().splitlines()] == pq.read_table(
        "now.parquet"
    ).to_pylist()
    assert not list(Path().glob(".*.part"))


def test_cascade_and_cycles(net_logs: Net) -> None:
    done = net_logs("cascade", *TABLES, "--abort", "a", "--path", "c")
    assert done.exit_code == 0, done.output
    assert "path: a ⇝ b ⇝ c\n" in done.stdout and "3 are undone: 1 asked for, the farthest 2 steps away" in done.stdout
    numbers = net_logs("cascade", "t.parquet", "d.parquet", "--abort", "1", "--json")
    assert [row["id"] for row in json.loads(numbers.stdout)["rows"]] == [1, 2, 3]
    done = net_logs("cycles", *TABLES)
    assert done.exit_code == 0 and "1 cycle with 2 transactions (the largest has 2)" in done.stdout


def test_the_words_for_one_and_for_none(net_logs: Net, tmp_path: Path) -> None:
    assert (
        "path: none: the abort does not reach e\n" in net_logs("cascade", *TABLES, "--abort", "a", "--path", "e").stdout
    )
    assert "why: nothing: it is active, not pending\n" in net_logs("committable", *TABLES, "--why", "d").stdout
    (tmp_path / "one.csv").write_text("id,status\na,pending\nb,committed\n")
    (tmp_path / "dep.csv").write_text("needs,who\na,b\n")
    done = net_logs("committable", "one.csv", "dep.csv")
    assert "1 of 1 pending can commit, as 1 set on 1 level (the largest has 1)" in done.stdout
    assert "2 transactions, 1 dependency, " in done.stdout and done.exit_code == 1
    done = net_logs("cycles", "one.csv", "dep.csv")
    assert "no transactions depend on each other" in done.stdout and done.exit_code == 1
    assert "1 committed transaction depends on one that is not: the log breaks A3" in done.stderr
    done = net_logs("cascade", "one.csv", "dep.csv", "--abort", "a")
    words = "1 is undone: 1 asked for, the farthest 1 step away; 1 committed, and would have to be undone"
    assert words in done.stdout and done.exit_code == 1
    (tmp_path / "one.csv").write_text("id,status\na,pending\nb,active\nc,committed\nd,committed\n")
    (tmp_path / "dep.csv").write_text("needs,who\nb,c\nc,d\n")
    done = net_logs("cascade", "one.csv", "dep.csv", "--abort", "a")  # what is broken is elsewhere
    assert "1 is undone: 1 asked for, the farthest 0 steps away\n" in done.stdout and done.exit_code == 1
    assert "2 committed transactions depend on one that is not: the log breaks A3" in done.stderr
    assert done.stderr.endswith(" (what is committed is closed under what it needs): c, d\n")
    many = "".join(f"c{n},committed\n" for n in range(4))
    (tmp_path / "one.csv").write_text(f"id,status\nb,active\n{many}")
    (tmp_path / "dep.csv").write_text("needs,who\n" + "".join(f"b,c{n}\n" for n in range(4)))
    for verb in (["committable"], ["cycles"], ["cascade", "--abort", "b"]):
        done = net_logs(*verb, "one.csv", "dep.csv", "--json")
        assert done.stderr.endswith(": c0, c1, c2, …\n") and json.loads(done.stdout)["broken"] == ["c0", "c1", "c2"]
    assert "broken" not in json.loads(net_logs("cycles", *TABLES, "--json").stdout)
    text = " ".join(net_logs("--help").stdout.split())
    assert "(committable, cascade, cycles)" in text and "`pellucid audit DIR` audits" in text


def test_what_is_odd_is_told(net_logs: Net, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(DEPENDENCIES + "x,c\na,a\nd,f\n")
    (tmp_path / "twice.csv").write_text(TRANSACTIONS + "a,pending\n")
    done = net_logs("committable", "twice.csv", "odd.csv")
    assert done.exit_code == 1
    for words in ("1 id of DEPENDENCIES is in no row of TRANSACTIONS", "1 dependency of a transaction on itself",
                  "1 row of TRANSACTIONS says once more",
                  "1 committed transaction depends on one that is not: the log breaks A3"):  # fmt: skip
        assert f"pellucid: warning: {words}" in done.stderr
    assert net_logs("cascade", *TABLES, "--abort", "d").exit_code == 0
    strange = net_logs("cascade", "t.csv", "odd.csv", "--abort", "x")
    assert (
        strange.exit_code == 2 and "there is no transaction 'x': only the dependencies have this id" in strange.stderr
    )
    (tmp_path / "tabs.csv").write_text("id\tstatus\na\tpending\n")
    tabs = net_logs("cycles", "tabs.csv", "odd.csv")
    assert tabs.exit_code == 2 and "(or by tabs, in a file whose name ends in .tsv)" in tabs.stderr
    (tmp_path / "tabs.csv").rename(tmp_path / "tabs.tsv")
    assert net_logs("cycles", "tabs.tsv", "d.csv").exit_code == 0


@pytest.mark.parametrize(("args", "words"), [
    (["committable", "t.csv", "none.csv"], "none.csv: no such file or folder"),
    (["committable", "d.csv", "t.csv"], "d.csv: there is no column 'id': there are needs, who"),
    (["committable", *TABLES, "--status", "state"], "t.csv: there is no column 'state': there are id, status"),
    (
        ["committable", *TABLES, "--unknown", "refuse", "--id", "status"],
        "d.csv: 6 ids are in no row of the transactions: 'a'",
    ),
    (["committable", *TABLES, "--why", "z"], "there is no transaction 'z'"),
    (["committable", *TABLES, "--out", "now.xls"], "--out now.xls: expected a name that ends in .parquet"),
    (["committable", *TABLES, "--out", "no/where.csv"], "--out no/where.csv: cannot be written"),
    (["committable", *TABLES, "--fit", "5"], "--fit is gone: logs are read on this machine"),
    (["cycles", *TABLES, "--on=spark"], "--on is gone: logs are read on this machine"),
    (["committable", *TABLES, "--id", "id", "--id", "id"], "--id is given twice"),
    (["cascade", *TABLES, "--abort", "f"], "the transaction 'f' is committed: it cannot abort any more"),
    (["cascade", *TABLES, "--abort", "z"], "there is no transaction 'z'"),
    (["cascade", *TABLES], "Missing option '--abort'"),
    (["cascade", "t.parquet", "d.parquet", "--abort", "x"], "'x': the ids of this log are whole numbers"),
    (["cycles", "t.csv", "d.parquet"], "d.parquet: 'needs' has int64, and 'id' has string: expected ids of one kind"),
    (["cycles", "t.txt", "d.csv"], "t.txt: no such file or folder"),
])  # fmt: skip
def test_what_is_refused(net_logs: Net, args: list[str], words: str) -> None:
    done = net_logs(*args)
    assert done.exit_code == 2 and words in done.stderr and "Traceback" not in done.output, done.output


def test_an_answer_is_not_written_over_its_log(net_logs: Net, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("d.csv")
    (tmp_path / "hard.csv").hardlink_to("t.csv")
    (tmp_path / "tables").mkdir()
    pq.write_table(pq.read_table("t.parquet"), "tables/0.parquet")
    for out, words in (
        ("d.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("link.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("hard.csv", "is the file of TRANSACTIONS (t.csv): choose another name"),
    ):
        done = net_logs("committable", *TABLES, "--out", out)
        assert done.exit_code == 2 and f"--out {out}: {words}" in done.stderr, done.output
    assert Path("t.csv").read_text() == TRANSACTIONS and Path("d.csv").read_text() == DEPENDENCIES
    done = net_logs("committable", "tables", "d.parquet", "--out", "tables/now.parquet")
    assert done.exit_code == 2 and "is in the folder of TRANSACTIONS (tables): choose another place" in done.stderr
    assert [path.name for path in Path("tables").iterdir()] == ["0.parquet"]
