"""A member of a run that cannot be reached before the decision: tried again for ``patience`` seconds, then the epoch is
given up everywhere."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError, Unreachable
from pellucid.sinks.group.doubt import doubt_of_group
from pellucid.sinks.group.log import DecisionLog
from pellucid.sinks.postgres_sink import PostgresSink
from tests.engine.epochs.test_together import go, outs
from tests.engine.epochs.together_job import expected
from tests.sinks.group.test_unreachable import AWAY
from tests.sinks.group.words import assert_told
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres, hang, server_or_skip


class Away(Lines):
    """A sink whose server does not answer some times; how often it was asked is counted in a file, as it is a process
    of its own."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(folder)
        self.times = times

    def stage(self, data: Any, query: str, batch: int) -> Any:
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "asked", "a") as asked:
            asked.write("?")
        if (self.folder / "asked").stat().st_size <= self.times:
            raise Unreachable("no route to host")
        return super().stage(data, query, batch)


def test_one_that_is_back_in_time(tmp_path: Path) -> None:
    said: list[str] = []
    own, table = Away(tmp_path / "own", 2), sinks.sqlite(tmp_path / "t.db", "t")
    go(tmp_path, sinks.together(own=own, table=table), said.append, patience=60)
    assert outs(own) == table.read()["out"].to_pylist() == expected()
    told = [text for text in said if "cannot be reached" in text]
    assert len(told) == 1
    assert re.fullmatch(
        r"epochs? [\d to]+: own cannot be reached \(no route to host\): it is tried again for 60 s, and until then "
        r"nobody has (it|them)",
        told[0],
    )
    assert_told(AWAY, told[0])


def test_one_that_stays_away(tmp_path: Path) -> None:
    own, table = Away(tmp_path / "own", 10**6), sinks.sqlite(tmp_path / "t.db", "t")
    with pytest.raises(
        Unreachable,
        match=r"^epochs? [\d to]+: the member 'own' cannot be reached, and is given up after 0.3 s \(patience=\): "
        r"nobody has (it|them): no route to host. Nothing is lost: when that is put right, the same command goes on",
    ) as caught:
        go(tmp_path, sinks.together(own=own, table=table), patience=0.3)
    assert_told(AWAY, str(caught.value))
    assert outs(own) == []
    assert table.last(DecisionLog(tmp_path / "state" / "together").read().query) is None  # type: ignore[union-attr]
    own.times = 0
    go(tmp_path, sinks.together(own=own, table=table))
    assert outs(own) == table.read()["out"].to_pylist() == expected()


def test_nobody_is_waited_for_when_another_refuses(tmp_path: Path) -> None:
    """Else the run would hang for as long as it is patient."""
    own = Away(tmp_path / "own", 10**6)

    class Refuses(Lines):
        def stage(self, data: Any, query: str, batch: int) -> Any:
            while not (own.folder / "asked").exists():
                time.sleep(0.01)
            raise DataError("a row is wrong")

    refuses = Refuses(tmp_path / "other")
    with pytest.raises(
        DataError, match=r"the member 'other' does not take (it|them), so nobody has (it|them): a row is wrong"
    ):
        go(tmp_path, sinks.together(own=own, other=refuses), patience=600)


class Stopped(PostgresSink):
    """A member that stops its server when it is to take the second batch."""

    server, mark = 0, Path()

    def stage(self, data: Any, query: str, batch: int) -> Any:
        if self.last(query) is not None and not self.mark.exists():
            self.mark.touch()
            os.kill(self.server, signal.SIGINT)
            while True:
                try:
                    psycopg.connect(self.address.connection).close()
                except psycopg.OperationalError as error:
                    if "refused" in str(error):
                        break
                time.sleep(0.02)
        return super().stage(data, query, batch)


@pytest.mark.long
@pytest.mark.parametrize("prepared", [20, 0])
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_server_that_is_stopped_before_the_decision(tmp_path: Path, prepared: int, comes_back: bool) -> None:
    for server in server_or_skip(prepared=prepared):
        assert server._process is not None
        orders, table = Stopped(server.database(), "orders"), sinks.sqlite(tmp_path / "t.db", "t")
        orders.server, orders.mark = server._process.pid, tmp_path / "stopped"
        group = sinks.together(orders=orders, table=table)

        def say(text: str, server: Postgres = server) -> None:
            if "cannot be reached" in text and comes_back:
                server.stop()  # its process is ours to bury
                server.start()

        if comes_back:
            go(tmp_path, group, say, patience=60, pushes=20)
        else:
            with pytest.raises(Unreachable, match=r"the member 'orders' cannot be reached, and is given up after 0.5"):
                go(tmp_path, group, say, patience=0.5, pushes=20)
            server.stop()
            server.start()
            found = doubt_of_group(tmp_path / "state", {"orders": orders, "table": table})
            assert not found.in_doubt, found.lines()
            assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist()
            assert 0 < table.read().num_rows < len(expected())
            with psycopg.connect(server.dsn) as db:
                assert db.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
            go(tmp_path, group, say, pushes=20)
        assert orders.mark.exists()
        assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist() == expected()


class Hangs(PostgresSink):
    """A member whose server stops in the middle of the second batch, without a word: at ``when``."""

    server, mark, when = 0, Path(), ""

    def _hang(self, here: str) -> None:
        if self.when == here and self.mark.with_suffix(".first").exists() and not self.mark.exists():
            self.mark.touch()
            hang(self.server)

    def prepare(self, staged: Any) -> None:
        self._hang("prepare")
        super().prepare(staged)

    def commit(self, staged: Any) -> Any:
        self._hang("commit")
        done = super().commit(staged)
        self.mark.with_suffix(".first").touch()
        return done

    def settle(self, *about: Any, commit: bool, **named: Any) -> bool:
        if commit:
            self._hang("commit")
        done = super().settle(*about, commit=commit, **named)
        self.mark.with_suffix(".first").touch()
        return done


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("when", ["prepare", "commit"])
@pytest.mark.parametrize("prepared", [20, pytest.param(0, marks=pytest.mark.long)])
def test_a_server_that_hangs(tmp_path: Path, prepared: int, when: str) -> None:
    """It takes connections, and never answers: that is said of the member, and no task is taken for one that hangs."""
    for server in server_or_skip(prepared=prepared):
        said: list[str] = []
        assert server._process is not None
        orders, table = Hangs(server.database(), "orders"), sinks.sqlite(tmp_path / "t.db", "t")
        orders.server, orders.mark, orders.when = server._process.pid, tmp_path / "hangs", when
        group = sinks.together(orders=orders, table=table)
        silent = r"PostgreSQL (has not answered for [\d.]+ s|cannot be reached for table 'orders': .*timeout)"
        try:
            if when == "prepare":
                with pytest.raises(
                    Unreachable, match=rf"the member 'orders' cannot be reached, and .* {silent}"
                ) as first:
                    go(tmp_path, group, said.append, patience=8, pushes=20)
                assert_told(AWAY, str(first.value))
                assert any("PostgreSQL has not answered for 7.2 s" in text for text in said), said
            else:
                with pytest.raises(StateError, match=rf"decided, and in doubt: table 'orders' .*{silent}") as second:
                    go(tmp_path, group, said.append, patience=8, pushes=20)
                assert_told("a member cannot be reached **after** the decision", str(second.value))
            assert not [text for text in said if "hangs" in text and "sink" in text], said
            with pytest.raises(
                Unreachable,
                match=r"^the member 'orders' cannot be reached \(PostgreSQL cannot be reached for table 'orders': .*\)"
                r"\. Nothing is lost, and nothing was begun: when it is up, the same command goes on$",
            ) as third:
                go(tmp_path, group, said.append, patience=8, pushes=20)
            assert_told("a member cannot be reached when the run or the query begins", str(third.value))
        finally:
            for one in server.processes():
                os.kill(one, signal.SIGCONT)
        go(tmp_path, group, said.append, pushes=20)
        assert sorted(orders.read()["out"].to_pylist()) == table.read()["out"].to_pylist() == expected()


def test_a_server_that_is_down_when_the_run_begins(tmp_path: Path) -> None:
    """At the very first start, before anything."""
    down = sinks.postgres("postgresql://127.0.0.1:1/shop", "orders")
    with pytest.raises(
        Unreachable, match=r"^the member 'orders' cannot be reached \(.*\). Nothing is lost, and nothing"
    ) as caught:
        go(tmp_path, sinks.together(orders=down, table=sinks.sqlite(tmp_path / "t.db", "t")))
    assert_told("a member cannot be reached when the run or the query begins", str(caught.value))
