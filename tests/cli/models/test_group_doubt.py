"""What is in doubt in a group of sinks, as the command line shows it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner

from pellucid import sinks
from pellucid.internal.cli.main import cli
from pellucid.internal.cli.models.group_doubt import is_group, show_group_doubt
from pellucid.sinks.group.log import DecisionLog
from tests.sinks.postgres import Postgres


def test_a_state_folder_and_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for inner in ("together", "pellucid-together"):
        folder = tmp_path / inner / "of"
        assert not is_group(str(folder))
        log = DecisionLog(folder / inner)
        log.take("orders", {"archive": f"parquet: {tmp_path}/gone", "out": f"file: {tmp_path}/out.csv"})
        log.decide(7, "a1", epoch=2 if inner == "together" else 0)
        assert is_group(str(folder))
        found = show_group_doubt(str(folder), as_json=False)
        assert found.in_doubt
        lines = capsys.readouterr().out.splitlines()
        what = "epoch 2 (up to push 7)" if inner == "together" else "batch 7"
        assert lines[0].startswith(f"{folder / inner}: {what} of 'orders', decided at 2")
        assert lines[1] == f"  archive      lacks it       parquet: {tmp_path}/gone (the folder is gone)"
        assert lines[2].startswith("  out          was not asked  file: ")
        assert lines[3].endswith(" wait for archive")  # a file is put together at the end, and reached by nobody
        show_group_doubt(str(folder), as_json=True)
        document = json.loads(capsys.readouterr().out)
        assert (document["pellucid"], document["verb"]) == (1, "net doubt")
        assert document["group"]["in_doubt"] is True
        assert [m["lacks"] for m in document["group"]["members"]] == [True, None]


def test_one_that_cannot_be_asked_is_not_everywhere(tmp_path: Path) -> None:
    """A server that refuses whoever asks; the finished file beside it is waited for by nobody."""
    log = DecisionLog(tmp_path / "state" / "together")
    (tmp_path / "out.csv").write_text("a\n1\n")
    db = sinks.postgres("postgresql://127.0.0.1:1/shop", "orders").identity
    log.take("orders", {"db": db, "out": f"file: {tmp_path}/out.csv"})
    log.decide(7, "a1", epoch=2)
    log.note_whole("orders", 7)
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "state")])
    assert shown.exit_code == 3
    lines = shown.output.splitlines()
    assert lines[0].endswith("was everywhere when it was committed; whether db still has it cannot be seen from here")
    assert lines[1].startswith("  db           was not asked")
    assert lines[2].startswith("  out          has it ") and lines[2].endswith("(a file, and whole)")
    assert lines[3:] == ["to resolve it: see that db can be reached and read from here, and ask again"]


@pytest.mark.parametrize("epoch", [0, 2])
def test_one_that_has_less_than_its_group(tmp_path: Path, epoch: int) -> None:
    (tmp_path / "out.csv").write_text("a\n1\n")
    sqlite3.connect(tmp_path / "shop.db").execute("CREATE TABLE other (a)").connection.close()
    log = DecisionLog(tmp_path / "log")
    log.take(
        "orders", {"db": sinks.sqlite(tmp_path / "shop.db", "orders").identity, "out": f"file: {tmp_path}/out.csv"}
    )
    log.decide(7, "a1", epoch=epoch)
    log.note_whole("orders", 7)
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
    assert shown.exit_code == 1
    lines = shown.output.splitlines()
    assert lines[0].endswith("was decided and committed, and db does not have all that was")
    assert lines[1].startswith("  db           lost rows ")
    assert lines[3] == f"later {'epochs' if epoch else 'batches'} wait for db"
    start = ", or read all input again with --from-start" if epoch else ""
    assert lines[4:] == [
        f"to resolve it: bring db back from a copy that has all{start}: the same command alone is refused"
    ]


def test_a_file_alone_is_not_to_be_reached(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "together")
    log.take("orders", {"out": f"file: {tmp_path}/out.csv"})
    log.decide(7, "a1", epoch=2)
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path)])
    assert shown.exit_code == 3
    assert "to resolve it: give the same command again: what is decided is committed first\n" in shown.output


def test_a_server_that_does_not_know_who_asks(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has no users: it is said how to give one."""
    made = {"a": sinks.postgres(postgres.database(), "a"), "b": sinks.sqlite(tmp_path / "b.db", "b")}
    sinks.together(made, log=tmp_path / "log").write(pa.table({"x": [1]}), "q", 0)
    hint = "the log keeps no user and no password: PGUSER and PGPASSWORD say as whom it is asked"
    for who, told in ((None, True), ("nobody-there", False), ("postgres", False)):
        monkeypatch.setenv("PGUSER", who) if who else monkeypatch.delenv("PGUSER", raising=False)
        shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
        if shown.exit_code == 0 and who is None:
            continue  # the account of the test is a user of that server
        assert (hint in shown.output, shown.exit_code) == (told, 0 if who == "postgres" else 3), shown.output


def test_a_log_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "state")])
    assert shown.exit_code == 2
    assert "; and no log of decisions is there (" in shown.output
    assert str(tmp_path / "state" / "together" / "decisions.json") in shown.output
    assert "bring it back from a copy: nothing else knows what was decided" in shown.output


def test_an_address_of_pairs_is_asked(tmp_path: Path, postgres: Postgres) -> None:
    """Without the secrets, which are not in the log."""
    dsn = postgres.database()
    port, name = re.search(r":(\d+)/(\w+)", dsn).groups()  # type: ignore[union-attr]
    pairs = f"host=127.0.0.1 port={port} dbname={name} user=postgres password='S3 cret'"
    made = {"a": sinks.postgres(pairs, "a"), "b": sinks.sqlite(tmp_path / "b.db", "b")}
    sinks.together(made, log=tmp_path / "log").write(pa.table({"x": [1]}), "q", 0)
    assert "S3" not in (tmp_path / "log" / "decisions.json").read_text()
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
    assert (shown.exit_code, "  a            has it  " in shown.output) == (0, True), shown.output


@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("how", ["DELETE FROM {}", "DROP TABLE {}"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_table_that_was_emptied(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, kind: str, how: str, drained: bool
) -> None:
    """Its numbers say that it had rows; where other programs take them out, the log says that."""
    monkeypatch.setenv("PGUSER", "postgres")
    dsn = postgres.database()
    table = (
        sinks.sqlite(tmp_path / "a.db", "t", drained=drained)
        if kind == "sqlite"
        else sinks.postgres(dsn, "t", drained=drained)
    )
    made = {"a": table, "b": sinks.sqlite(tmp_path / "b.db", "b")}
    sinks.together(made, log=tmp_path / "log").write(pa.table({"x": [1, 2]}), "q", 0)
    if kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as db:
            db.execute(how.format("t"))
    else:
        with psycopg.connect(dsn, autocommit=True) as server:
            server.execute(how.format("t").encode())
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
    if drained and (kind, how[:4]) != ("postgres", "DROP"):
        assert shown.exit_code == 0, shown.output
    else:
        assert shown.exit_code == 1
        assert "  a            lost rows " in shown.output
        assert drained or "it is empty, yet 2 rows were written there" in shown.output
        assert "to resolve it: bring a back from a copy that has all" in shown.output


def test_a_server_is_asked_as_the_user_of_the_run(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PGUSER it would be asked as the user of this machine.  The password is nowhere."""
    for name in ("PGUSER", "USER"):
        monkeypatch.delenv(name, raising=False)
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute('CREATE ROLE "a shop/keeper" LOGIN SUPERUSER')
    name = dsn.replace("postgres@", "a%20shop%2Fkeeper:S3cret@")
    made = {"a": sinks.postgres(name, "a"), "b": sinks.sqlite(tmp_path / "b.db", "b")}
    sinks.together(made, log=tmp_path / "log").write(pa.table({"x": [1]}), "q", 0)
    assert "S3cret" not in (tmp_path / "log" / "decisions.json").read_text()
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
    assert shown.exit_code == 0, shown.output
    where = dsn.partition("@")[2]
    assert f"  a            has it         postgresql://a%20shop%2Fkeeper@{where}#a" in shown.output.splitlines()
    monkeypatch.setenv("PGUSER", "nobody-of-this-name")
    shown = CliRunner().invoke(cli, ["net", "doubt", str(tmp_path / "log")])
    assert shown.exit_code == 3
    assert 'role "nobody-of-this-name" does not exist' in shown.output


def test_a_log_without_users_is_read(tmp_path: Path) -> None:
    """Of an earlier version; and what is there for later ones does not disturb."""
    log = DecisionLog(tmp_path / "log")
    record = log.take("q", {"a": "postgresql://db:5432/shop#a"}, drained=["a"], users={"a": "me"})
    document = record.document()
    assert document["members"] == {"a": ["postgresql://db:5432/shop#a", -1, "drained", "user=me"]}
    assert type(record).parse(document) == record == log.read()
    document["members"] = {"a": ["postgresql://db:5432/shop#a", -1]}
    assert type(record).parse(document).users == {}
    assert log.take("q", {"a": "postgresql://db:5432/shop#a"}).users == {"a": "me"}


@pytest.mark.parametrize("gone", ["the file", "the folder", "the rows"])
def test_a_file_that_is_gone(tmp_path: Path, gone: str) -> None:
    """It is not said that it has what was committed."""
    (tmp_path / "x.jsonl").write_text("1\n2\n3\n")
    (tmp_path / "to").mkdir()
    (tmp_path / "p.py").write_text("from pellucid import pipeline\ntotal = pipeline(lambda x: x.trim(1), x=int)\n")
    state = str(tmp_path / "state")
    outs = ["--out", f"sqlite:{tmp_path}/t.db#t", "--out", f"{tmp_path}/to/out.csv"]
    command = ["run", f"{tmp_path}/p.py:total", "--in", f"{tmp_path}/x.jsonl", "--pushes", "1", "--state", state, *outs]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(cli, ["net", "doubt", state]).exit_code == 0
    if gone == "the file":
        (tmp_path / "to" / "out.csv").unlink()
    else:
        shutil.rmtree(tmp_path / "to")
    if gone == "the rows":
        shutil.rmtree(tmp_path / "state" / "committed")
    shown = CliRunner().invoke(cli, ["net", "doubt", state])
    assert shown.exit_code == 1, shown.output
    lines = shown.output.splitlines()
    rows = tmp_path / "state" / "committed" / "out-2"
    if gone == "the rows":
        assert lines[0].endswith("was decided and committed, and out-2 does not have all that was")
        assert lines[2].startswith("  out-2        lost rows ")
        assert lines[2].endswith(f" (the rows that were committed are gone: no folder {rows})")
        return
    assert lines[0].endswith("was decided and committed, and out-2 is gone")
    assert lines[2].startswith("  out-2        is gone ")
    assert lines[2].endswith(f" ({gone} is gone; its rows are in {rows})")
    first = "make the folder anew, and " if gone == "the folder" else ""
    assert lines[3:] == [f"to resolve it: {first}give the same command again: out-2 is made from its rows"]
    (tmp_path / "to").mkdir(exist_ok=True)
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert CliRunner().invoke(cli, ["net", "doubt", state]).exit_code == 0


def test_a_run_with_a_single_target_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from pellucid import pipeline\n\nsame = pipeline(lambda x: x.map(lambda v: v), x=int)\n"
    )
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    state = str(tmp_path / "state")
    where = ["--in", str(tmp_path / "x.csv"), "--out", str(tmp_path / "out.csv"), "--pushes", "1", "--state", state]
    assert CliRunner().invoke(cli, ["run", f"{tmp_path}/p.py:same", *where]).exit_code == 0
    shown = CliRunner().invoke(cli, ["net", "doubt", state])
    assert shown.exit_code == 2
    assert "is of a run with epochs whose outputs are no group, so nothing can be in doubt between them" in shown.stderr
