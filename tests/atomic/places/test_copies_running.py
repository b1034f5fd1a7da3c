"""Real places whose log is put back from an older copy: what they say, and what an operator does about it."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.atomic.places import InDoubt, Network, connect, end, new_network, start
from pellucid.atomic.places import operators as doubt
from pellucid.atomic.places import operators as looking
from pellucid.atomic.places.audit import audit
from pellucid.atomic.places.core.events import MESSAGES
from pellucid.atomic.places.core.state import FIELDS, make
from pellucid.atomic.places.host import Host
from pellucid.atomic.places.log import open_log, read_log
from pellucid.errors import StateError
from pellucid.internal.base import faults
from pellucid.internal.cli.main import cli

COPY = "the log of 'hotel' is an older copy: it lacks records up to "


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = new_network(tmp_path / "trips", {"agent": ["answers"], "hotel": ["rooms"]})
    start(made)
    yield made
    end(made)


def sent(network: Network, value: object) -> str:
    """A message of the hotel to the agent, committed."""
    with connect(network.folder, "hotel", patience=20) as hotel, hotel.transaction() as t:
        t.send("agent.answers", value)
        t.commit(timeout=30)
        return t.id


def answers(network: Network, count: int) -> list[object]:
    """What has come to the agent."""
    with connect(network.folder, "agent") as agent:
        t = agent.begin()
        found = [t.receive("answers", timeout=20) for _ in range(count)]
        t.commit(timeout=30)
        assert agent.messages("answers") == []
        return found


def comes(file: Path, text: str) -> bool:
    """Whether a place says this within a while."""
    for _ in range(200):
        if text in file.read_text():
            return True
        time.sleep(0.1)
    return False


def put_back(network: Network, copy: Path, *, alone: bool = False) -> None:
    """With all that is beside the log, unless it is put back ``alone``."""
    if not alone:
        (network.folder / "places" / "hotel" / "newest").unlink()
    log = network.folder / "places" / "hotel" / "log.sqlite"
    for more in ("-wal", "-shm"):
        Path(f"{log}{more}").unlink(missing_ok=True)
    shutil.copy(copy, log)


def net(*args: object, **more: object) -> Result:
    return CliRunner().invoke(cli, ["net", *map(str, args)], **more)  # type: ignore[arg-type]


def refusal(network: Network) -> str:
    """What a program is told that begins something at the hotel; the moment until it is noticed is waited for."""
    for _ in range(200):
        try:
            with connect(network.folder, "hotel", patience=20) as hotel, hotel.transaction() as t:
                t.receive("rooms", timeout=0.1)
        except StateError as error:
            return str(error)
        except TimeoutError:
            pass
    raise AssertionError("nothing is refused")


def test_a_copy_is_noticed_said_and_accepted(network: Network, tmp_path: Path) -> None:
    folder, said = network.folder, {p: network.folder / "places" / p / "said.log" for p in network.places}
    first = sent(network, "room 1")
    end(network, ["hotel"])
    copy = shutil.copy(folder / "places" / "hotel" / "log.sqlite", tmp_path / "copy")
    start(network, ["hotel"])
    lost = sent(network, "room 1")  # as before, under another name
    assert answers(network, 2) == ["room 1", "room 1"]
    end(network)
    put_back(network, Path(copy))
    stopped = net("doubt", folder)
    assert stopped.exit_code == 1 and COPY in stopped.output and f"net accept {folder} hotel" in stopped.output
    start(network)
    told = refusal(network)
    assert told.startswith(COPY) and told.endswith(
        "which 'agent' has heard of: stop the place and bring its newer log back; if there is none, `pellucid net "
        f"accept {folder} hotel` resumes without what is lost"
    )
    assert comes(said["hotel"], COPY) and comes(said["agent"], COPY)
    assert "  older copy    " + COPY in net("status", folder).output
    doubt = net("doubt", folder, "--json")
    assert doubt.exit_code == 1
    assert [(one["place"], one["by"]) for one in json.loads(doubt.stdout)["copies"]] == [("hotel", "agent")]
    with connect(folder, "hotel") as hotel:
        assert hotel.status(first) == "committed"
        with pytest.raises(Exception, match="is it an older copy"):
            hotel.status(lost)
    found = audit(folder)
    assert not found and "this log came back from an older copy" in str(found)
    asked = net("accept", folder, "hotel", input="n\n")
    assert asked.exit_code == 2 and "nothing was done; --yes does it without asking" in asked.output
    done = net("accept", folder, "hotel", "--yes")
    assert done.exit_code == 0 and "hotel: goes on without records up to " in done.output
    assert "pellucid: warning: " + COPY in done.output and "`pellucid audit` will name it" in done.output
    third = sent(network, "room 1")
    assert third not in (first, lost) and answers(network, 1) == ["room 1"]
    assert "has accepted the loss of records up to " in said["hotel"].read_text()
    assert "  lost          records up to " in net("status", folder).output
    assert net("doubt", folder).exit_code == 0
    again = net("accept", folder, "hotel", "--yes")
    assert again.exit_code == 2 and "no place has heard of a record that its log lacks" in again.output
    assert not audit(folder)  # what is lost is lost


def test_a_copy_of_a_running_place_and_the_newer_log_again(network: Network, tmp_path: Path) -> None:
    import os
    import sqlite3
    from contextlib import closing

    log = network.folder / "places" / "hotel" / "log.sqlite"
    sent(network, "one")
    with closing(sqlite3.connect(log)) as db, closing(sqlite3.connect(tmp_path / "copy")) as backup:
        db.backup(backup)
    sent(network, "two")
    (pid,) = start(network, ["hotel"]).values()
    os.kill(pid, signal.SIGKILL)
    end(network, ["hotel"])
    with closing(sqlite3.connect(log)) as db, closing(sqlite3.connect(tmp_path / "newer")) as backup:
        db.backup(backup)
    put_back(network, tmp_path / "copy", alone=True)
    start(network, ["hotel"])
    assert COPY in (network.folder / "places" / "hotel" / "said.log").read_text()  # before anybody can begin anything
    assert refusal(network).startswith(COPY)
    end(network, ["hotel"])
    put_back(network, tmp_path / "newer", alone=True)
    start(network, ["hotel"])
    sent(network, "three")
    assert answers(network, 3) == ["one", "two", "three"]
    assert audit(network.folder)
    assert not [r for r in read_log(log) if r.kind == "behind"]


def test_what_waits_for_a_start_that_is_lost_is_said_by_name(network: Network, tmp_path: Path) -> None:
    """Also before the place is started again, and it stays in doubt: the copy guesses nothing."""
    end(network, ["hotel"])
    shutil.copy(network.folder / "places" / "hotel" / "log.sqlite", tmp_path / "copy")
    start(network, ["hotel"])
    with connect(network.folder, "hotel") as hotel, connect(network.folder, "agent") as agent:
        lost = hotel.begin()
        lost.send("agent.answers", 1)
        t = agent.begin()
        assert t.receive("answers", timeout=20) == 1
        with pytest.raises(InDoubt):
            t.commit(timeout=0.2)
        lost.send("agent.answers", 2)
        assert t.id and agent.status(t.id) == "pending"
        end(network, ["hotel"])
    put_back(network, tmp_path / "copy")
    start(network, ["hotel"])
    found = net("doubt", network.folder)
    assert (
        found.exit_code == 1
        and (
            f"waits for  {lost.id}: of a start of hotel that its log does not have: it is an older copy, and cannot "
            "say what became of it"
        )
        in found.output
    )
    said = network.folder / "places" / "hotel" / "said.log"
    assert comes(said, f"refused: agent: asked about {lost.id}, of start ")
    with connect(network.folder, "agent") as agent:
        assert agent.status(t.id) == "pending"


def test_status_says_that_the_disk_of_a_place_that_ended_is_full(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its said.log may have had no room for the reason."""
    end(network, ["hotel"])
    assert "bytes are free" not in net("status", network.folder).output
    full = shutil._ntuple_diskusage(9, 9, 4096)  # type: ignore[attr-defined]
    monkeypatch.setattr(looking.shutil, "disk_usage", lambda path: full)
    shown = net("status", network.folder).output
    assert "  disk          4,096 bytes are free: perhaps it ended for want of room" in shown
    assert shown.count("bytes are free") == 1  # the other runs


def test_a_place_alone_notices_that_its_log_was_put_back(network: Network, tmp_path: Path) -> None:
    """Nobody else has heard of what is lost; the note beside the log has."""
    with connect(network.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("rooms", 1)
        t.commit()
    end(network, ["hotel"])
    shutil.copy(network.folder / "places" / "hotel" / "log.sqlite", tmp_path / "copy")
    start(network, ["hotel"])
    with connect(network.folder, "hotel") as hotel, hotel.transaction() as t:
        t.receive("rooms")
        t.commit()
    end(network, ["hotel"])
    put_back(network, tmp_path / "copy", alone=True)
    start(network, ["hotel"])
    told = refusal(network)
    assert told.startswith(COPY) and "which is noted beside it: stop the place" in told
    assert net("accept", network.folder, "hotel", "--yes").exit_code == 0
    with connect(network.folder, "hotel") as hotel:
        assert hotel.messages("rooms") == [1]
    end(network, ["hotel"])
    start(network, ["hotel"])
    with connect(network.folder, "hotel") as hotel, hotel.transaction() as t:
        assert t.receive("rooms") == 1


def test_who_works_on_while_others_are_looked_at_is_not_accused(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places are looked at one after the other: the hotel first, which goes on, and says so to the agent."""
    sent(network, 1)
    answers(network, 1)
    real = looking.looked_at
    hotel, agent = real(network, "hotel"), real(network, "agent")
    assert hotel.seen and agent.seen
    (now,) = [start for start in hotel.seen["ends"] if start in agent.seen["met"]["hotel"]]
    before = replace(hotel, seen={**hotel.seen, "ends": {now: 1}})
    views = [before, hotel]
    monkeypatch.setattr(doubt, "looked_at", lambda _, name: views.pop(0) if name == "hotel" else agent)
    assert doubt.doubts(network, ["hotel"]).copies == () and views == []
    views = [before, before]
    (found,) = doubt.doubts(network, ["hotel"]).copies
    assert found == doubt.Copy(network.folder, "hotel", agent.seen["met"]["hotel"], "agent", held=False)
    views = [before, replace(hotel, state="unseen", seen=None)]
    assert doubt.doubts(network, ["hotel"]).copies == ()


def test_a_place_that_is_started_again_says_again_why_it_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told in an earlier start, and who looks at this one has to know."""
    made = new_network(tmp_path / "inn", {"hotel": ["rooms"]})
    log = open_log(made.log_of("hotel"), "hotel")
    log.append([make("boot", n=1, mark="x"), make("behind", stand="7-abc/1200", source="agent")])
    log.close()

    async def one_start() -> None:
        host = Host(made, "hotel")
        await host.serve(host.stop.set)

    asyncio.run(one_start())
    said = capsys.readouterr().out
    assert said.count(f"{COPY}1,200 of start 7-abc, which 'agent' has heard of: stop the place and bring its") == 1
    assert said.index(COPY) < said.index("listens at ")


def test_every_record_and_every_message_is_a_point_at_which_a_place_can_be_killed() -> None:
    """Before and after each record is written, and when each message is on its way."""
    points = {point for point in faults.POINTS if point.startswith("place:")}
    records = {f"place:{when}-{kind.replace('_', '-')}" for kind in FIELDS for when in ("before", "after")}
    assert points == records | {f"place:said-{kind}" for kind in MESSAGES}
