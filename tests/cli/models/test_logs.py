"""``pellucid net committable|cascade|cycles``: answers, reports, files, exit codes, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid.cli.main import cli
from tests.atomic.logs.test_tables import ODD, odd
from tests.judge.logs.meaning import wrong_cascade

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    (["committable", *TABLES, "--fit", "5"], "--fit goes with --on spark"),
    (["committable", *TABLES, "--on", "spark", "--why", "a"], "--why goes without --on spark"),
    (["committable", *TABLES, "--id", "id", "--id", "id"], "--id is given twice"),
    (["cascade", *TABLES, "--abort", "f"], "the transaction 'f' is committed: it cannot abort any more"),
    (["cascade", *TABLES, "--abort", "z"], "there is no transaction 'z'"),
    (["cascade", *TABLES], "Missing option '--abort'"),
    (["cascade", "t.parquet", "d.parquet", "--abort", "x"], "'x': the ids of this log are whole numbers"),
    (["cycles", "t.csv", "d.parquet"], "d.parquet: 'needs' has int64, and 'id' has string: expected ids of one kind"),
    (["cycles", "t.txt", "d.csv"], "t.txt: no such file or folder"),
    (["cycles", "none.parquet", "d.csv", "--on", "spark"], "none.parquet: no such file or folder"),
    (["cycles", *TABLES, "--on", "spark", "--out", "t.parquet"], "--out t.parquet: is there already"),
    (["cycles", *TABLES, "--on", "spark", "--conf", "x"], "--conf x: expected NAME=VALUE"),
])  # fmt: skip
def test_what_is_refused(net: Net, args: list[str], words: str) -> None:
    done = net(*args)
    assert done.exit_code == 2 and words in done.stderr and "Traceback" not in done.output, done.output


@pytest.mark.parametrize("spark_too", [[], ["--on", "spark"]])
def test_an_answer_is_not_written_over_its_log(net: Net, tmp_path: Path, spark_too: list[str]) -> None:
    (tmp_path / "link.csv").symlink_to("d.csv")
    (tmp_path / "hard.csv").hardlink_to("t.csv")
    (tmp_path / "tables").mkdir()
    pq.write_table(pq.read_table("t.parquet"), "tables/0.parquet")
    for out, words in (
        ("d.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("link.csv", "is the file of DEPENDENCIES (d.csv): choose another name"),
        ("hard.csv", "is the file of TRANSACTIONS (t.csv): choose another name"),
    ):
        done = net("committable", *TABLES, "--out", out, *spark_too)
        assert done.exit_code == 2 and f"--out {out}: {words}" in done.stderr, done.output
    assert Path("t.csv").read_text() == TRANSACTIONS and Path("d.csv").read_text() == DEPENDENCIES
    done = net("committable", "tables", "d.parquet", "--out", "tables/now.parquet", *spark_too)
    assert done.exit_code == 2 and "is in the folder of TRANSACTIONS (tables): choose another place" in done.stderr
    assert [path.name for path in Path("tables").iterdir()] == ["0.parquet"]


def test_odd_files_on_spark_as_here(spark: SparkSession, net: Net, tmp_path: Path) -> None:
    read = [case for case in ODD if not case[2]]
    for text, form, words in [case for case in ODD if case[2]] + read[::4]:
        odd(tmp_path, text, form)
        done = net("committable", f"t.{form}", "d.csv", "--on", "spark", "--json")
        here = net("committable", f"t.{form}", "d.csv", "--json")
        assert (done.exit_code, done.stderr) == (here.exit_code, here.stderr), (text, done.output)
        assert words in done.stderr
        if not words:
            found, expected = json.loads(done.stdout), json.loads(here.stdout)
            assert (found["counts"], found["rows"]) == (expected["counts"], expected["rows"]), text
    (tmp_path / "none.jsonl").write_text("")  # ids of any kind
    for tables in (("t.parquet", "none.jsonl"), ("none.jsonl", "d.parquet"), ("none.jsonl", "none.jsonl")):
        done, here = (net("cycles", *tables, "--json", *more) for more in (["--on", "spark"], []))
        assert done.exit_code == 0 and json.loads(done.stdout)["counts"] == json.loads(here.stdout)["counts"], tables
    pq.write_table(pa.table({"id": ["a", ""], "status": ["pending"] * 2}), "empty.parquet")
    done = net("committable", "empty.parquet", "d.csv", "--on", "spark")
    assert done.exit_code == 2 and "transactions: 'id' is empty in a row: expected an id" in done.stderr


def test_on_spark(spark: SparkSession, net: Net) -> None:
    here, there = (json.loads(net("committable", *TABLES, "--json", *more).stdout) for more in ([], ["--on", "spark"]))
    assert (there["counts"], there["rows"]) == (here["counts"], here["rows"]) and there["rounds"] == {
        "reach": 0,
        "sets": 0,
    }
    # Each needs its last two, and a task takes half of that: by levels alone it took thirty rounds.
    ids = [f"t{i}" for i in range(120)]
    Path("deep.csv").write_text("id,status\n" + "".join(f"{t},pending\n" for t in ids))
    pairs = [(ids[i - d], ids[i]) for i in range(120) for d in (1, 2) if i >= d]
    Path("needs.csv").write_text("needs,who\n" + "".join(f"{u},{t}\n" for u, t in pairs))
    deep = ["deep.csv", "needs.csv", "--abort", "t0", "--fit", "118"]
    done = net("cascade", *deep, "--on", "spark", "--out", "undone.parquet")
    assert done.exit_code == 0 and "120 are undone" in done.stdout, done.output
    assert "cascade: 1 rounds, cascade, ways: 1 rounds" in done.stdout
    made = pq.read_table("undone.parquet").to_pylist()
    assert len(made) == 120 and wrong_cascade(dict.fromkeys(ids, "pending"), pairs, ["t0"], made, shortest=False) == []
    assert not list(Path().glob(".*.part"))
    wrong = net("committable", "d.csv", "t.csv", "--on", "spark")
    assert wrong.exit_code == 2 and "there is no column 'id'" in wrong.stderr
    assert spark.range(1).count() == 1  # a session of another is not stopped


def test_more_on_spark(spark: SparkSession, net: Net) -> None:
    numbers = net("cascade", "t.parquet", "d.parquet", "--abort", "1", "--json", "--on", "spark")
    assert [row["id"] for row in json.loads(numbers.stdout)["rows"]] == [1, 2, 3]
    done = net("cycles", "t.parquet", "d.parquet", "--on", "spark")
    assert done.exit_code == 0 and "1 cycle with 2 transactions" in done.stdout
    Path("broken.csv").write_text("id,status\na,pending\nb,active\nc,committed\n")
    Path("outside.csv").write_text("needs,who\nb,c\n")
    done = net("cascade", "broken.csv", "outside.csv", "--abort", "a", "--on", "spark")
    assert done.exit_code == 1 and "1 is undone: 1 asked for" in done.stdout and "breaks A3" in done.stderr, done.output
