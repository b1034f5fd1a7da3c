"""``pellucid net committable|cascade|cycles``: answers, reports, files, exit codes, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid.internal.cli.main import cli

TRANSACTIONS = "id,status\na,pending\nb,pending\nc,pending\nd,active\ne,pending\nf,committed\n"
DEPENDENCIES = "needs,who\na,b\nb,a\nb,c\nd,e\nf,a\n"
TABLES = ("t.csv", "d.csv")
Net = Callable[..., Result]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Net:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TRANSACTIONS)
    (tmp_path / "d.csv").write_text(DEPENDENCIES)
    pq.write_table(pa.table({"id": [1, 2, 3], "status": ["active", "pending", "pending"]}), "t.parquet")
    pq.write_table(pa.table({"needs": [1, 2, 3], "who": [2, 3, 2]}), "d.parquet")
    return lambda *args: CliRunner().invoke(cli, ["net", *args])


def test_committable(net: Net) -> None:
    done = net("committable", *TABLES)
    assert done.exit_code == 0 and done.stderr == "", done.output
    lines = done.stdout.splitlines()
    assert lines[:4] == ["id  level  set  size", "a   0      a    2", "b   0      a    2", "c   1      c    1"]
    assert lines[5] == "3 of 4 pending can commit, as 2 sets on 2 levels (the largest has 2); 1 cannot yet, or never"
    assert lines[6].startswith("6 transactions, 5 dependencies, ")
    assert "why: d ⇝ e\n" in net("committable", *TABLES, "--why", "e").stdout
    assert "why: nothing: it can commit" in net("committable", *TABLES, "--why", "a").stdout


def test_as_json_and_to_files(net: Net) -> None:
    document = json.loads(net("committable", *TABLES, "--json", "--why", "e").stdout)
    assert document["verb"] == "net committable" and document["why"] == ["d", "e"] and document["more"] == 0
    assert document["counts"]["committable"] == 3 and document["rows"][0] == {
        "id": "a",
        "level": 0,
        "set": "a",
        "size": 2,
    }
    for name in ("now.parquet", "now.csv", "now.jsonl"):
        done = net("committable", *TABLES, "--json", "--out", name)
        assert done.exit_code == 0 and json.loads(done.stdout)["out"] == name
    assert pq.read_table("now.parquet")["id"].to_pylist() == ["a", "b", "c"]
    assert pacsv.read_csv("now.csv").to_pylist() == pq.read_table("now.parquet").to_pylist()
    assert [json.loads(line) for line in Path("now.jsonl").read_text().splitlines()] == pq.read_table(
        "now.parquet"
    ).to_pylist()
    assert not list(Path().glob(".*.part"))


def test_cascade_and_cycles(net: Net) -> None:
    done = net("cascade", *TABLES, "--abort", "a", "--path", "c")
    assert done.exit_code == 0, done.output
    assert "path: a ⇝ b ⇝ c\n" in done.stdout and "3 are undone: 1 asked for, the farthest 2 steps away" in done.stdout
    numbers = net("cascade", "t.parquet", "d.parquet", "--abort", "1", "--json")
    assert [row["id"] for row in json.loads(numbers.stdout)["rows"]] == [1, 2, 3]
    done = net("cycles", *TABLES)
    assert done.exit_code == 0 and "1 cycle with 2 transactions (the largest has 2)" in done.stdout


def test_the_words_for_one_and_for_none(net: Net, tmp_path: Path) -> None:
    assert "path: none: the abort does not reach e\n" in net("cascade", *TABLES, "--abort", "a", "--path", "e").stdout
    assert "why: nothing: it is active, not pending\n" in net("committable", *TABLES, "--why", "d").stdout
    (tmp_path / "one.csv").write_text("id,status\na,pending\nb,committed\n")
    (tmp_path / "dep.csv").write_text("needs,who\na,b\n")
    done = net("committable", "one.csv", "dep.csv")
    assert "1 of 1 pending can commit, as 1 set on 1 level (the largest has 1)" in done.stdout
    assert "2 transactions, 1 dependency, " in done.stdout and done.exit_code == 1
    done = net("cycles", "one.csv", "dep.csv")
    assert "no transactions depend on each other" in done.stdout and done.exit_code == 1
    assert "1 committed transaction depends on one that is not: the log breaks A3" in done.stderr
    done = net("cascade", "one.csv", "dep.csv", "--abort", "a")
    words = "1 is undone: 1 asked for, the farthest 1 step away; 1 committed, and would have to be undone"
    assert words in done.stdout and done.exit_code == 1
    (tmp_path / "one.csv").write_text("id,status\na,pending\nb,active\nc,committed\nd,committed\n")
    (tmp_path / "dep.csv").write_text("needs,who\nb,c\nc,d\n")
    done = net("cascade", "one.csv", "dep.csv", "--abort", "a")  # what is broken is elsewhere
    assert "1 is undone: 1 asked for, the farthest 0 steps away\n" in done.stdout and done.exit_code == 1
    assert "2 committed transactions depend on one that is not: the log breaks A3" in done.stderr
    assert done.stderr.endswith(" (what is committed is closed under what it needs): c, d\n")
    many = "".join(f"c{n},committed\n" for n in range(4))
    (tmp_path / "one.csv").write_text(f"id,status\nb,active\n{many}")
    (tmp_path / "dep.csv").write_text("needs,who\n" + "".join(f"b,c{n}\n" for n in range(4)))
    for verb in (["committable"], ["cycles"], ["cascade", "--abort", "b"]):
        done = net(*verb, "one.csv", "dep.csv", "--json")
        assert done.stderr.endswith(": c0, c1, c2, …\n") and json.loads(done.stdout)["broken"] == ["c0", "c1", "c2"]
    assert "broken" not in json.loads(net("cycles", *TABLES, "--json").stdout)
    text = " ".join(net("--help").stdout.split())
    assert "(committable, cascade, cycles)" in text and "`pellucid audit DIR` audits" in text


def test_what_is_odd_is_told(net: Net, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(DEPENDENCIES + "x,c\na,a\nd,f\n")
    (tmp_path / "twice.csv").write_text(TRANSACTIONS + "a,pending\n")
    done = net("committable", "twice.csv", "odd.csv")
    assert done.exit_code == 1
    for words in ("1 id of DEPENDENCIES is in no row of TRANSACTIONS", "1 dependency of a transaction on itself",
                  "1 row of TRANSACTIONS says once more",
                  "1 committed transaction depends on one that is not: the log breaks A3"):  # fmt: skip
        assert f"pellucid: warning: {words}" in done.stderr
    assert net("cascade", *TABLES, "--abort", "d").exit_code == 0
    strange = net("cascade", "t.csv", "odd.csv", "--abort", "x")
    assert (
        strange.exit_code == 2 and "there is no transaction 'x': only the dependencies have this id" in strange.stderr
    )
    (tmp_path / "tabs.csv").write_text("id\tstatus\na\tpending\n")
    tabs = net("cycles", "tabs.csv", "odd.csv")
    assert tabs.exit_code == 2 and "(or by tabs, in a file whose name ends in .tsv)" in tabs.stderr
    (tmp_path / "tabs.csv").rename(tmp_path / "tabs.tsv")
    assert net("cycles", "tabs.tsv", "d.csv").exit_code == 0


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
def test_what_is_refused(net: Net, args: list[str], words: str) -> None:
    done = net(*args)
    assert done.exit_code == 2 and words in done.stderr and "Traceback" not in done.output, done.output


def test_an_answer_is_not_written_over_its_log(net: Net, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("d.csv")
    (tmp_path / "hard.csv").hardlink_to("t.csv")
    (tmp_path / "tables").mkdir()
    pq.write_table(pq.read_table("t.parquet"), "tables/0.parquet")
    for out, words in (
        ("d.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("link.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("hard.csv", "is the file of TRANSACTIONS (t.csv): choose another name"),
    ):
        done = net("committable", *TABLES, "--out", out)
        assert done.exit_code == 2 and f"--out {out}: {words}" in done.stderr, done.output
    assert Path("t.csv").read_text() == TRANSACTIONS and Path("d.csv").read_text() == DEPENDENCIES
    done = net("committable", "tables", "d.parquet", "--out", "tables/now.parquet")
    assert done.exit_code == 2 and "is in the folder of TRANSACTIONS (tables): choose another place" in done.stderr
    assert [path.name for path in Path("tables").iterdir()] == ["0.parquet"]
