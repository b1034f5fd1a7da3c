"""``pellucid net new|up|down|status|doubt|commit|abort|metrics``: real places, running and stopped; what is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pellucid import sinks
from pellucid.atomic.places import InDoubt, Network, connect, end, start
from pellucid.atomic.places import operators as doubt
from pellucid.atomic.places.core.state import make
from pellucid.atomic.places.log import open_log, read_log
from pellucid.atomic.places.operators import Looked
from pellucid.atomic.places.processes import running
from pellucid.internal.base import faults
from pellucid.internal.cli.main import cli
from pellucid.internal.cli.models.places import is_group, show_group_doubt
from pellucid.sinks.decisions import DecisionLog
from tests.atomic.places.trips import Aside, fill, provide
from tests.sinks.postgres import Postgres

PLACES = ["--place", "agent=answers", "--place", "airline=requests,seats", "--place", "hotel=requests,rooms"]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    monkeypatch.chdir(tmp_path)
    yield lambda *args, **more: CliRunner().invoke(cli, ["net", *map(str, args)], **more)
    if (tmp_path / "trips" / "network.toml").exists():
        end(Network.load(tmp_path / "trips"))


def secrets_of(folder: Path) -> list[str]:
    """Everything that must never be seen."""
    found = []
    for file in (folder / "secrets").iterdir():
        found += [line.split('"')[-2] for line in file.read_text().splitlines() if re.search(r' = "\w{64}"$', line)]
        found += re.findall(r"^[\w+/]{60,}$", file.read_text(), re.M)
    return found


def test_from_new_to_down(net: Callable[..., Result], tmp_path: Path) -> None:
    made = net("new", "trips", *PLACES)
    assert made.exit_code == 0 and "airline" in made.output and "channels requests, seats" in made.output
    before = net("status", "trips")
    assert before.exit_code == 0 and before.output.count("new, 127.0.0.1:") == 3
    up = net("up", "trips")
    assert up.exit_code == 0 and up.output.count("process ") == 3
    network = Network.load("trips")
    fill(network, "airline", "seats", [1, 2, 3])
    with connect("trips", "airline") as here:
        t = here.begin()
        t.receive("seats")
        shown = net("status", "trips", "airline")
        assert "airline      running (process " in shown.output and "1 committed, 0 aborted" in shown.output
        assert "  seats        2 messages, and 1 taken by who has not committed yet" in shown.output
    document = json.loads(net("status", "trips", "--json").stdout)
    assert document["verb"] == "net status" and [one["state"] for one in document["places"]] == ["running"] * 3
    assert all(f"running (process {one['pid']})" in net("status", "trips").output for one in document["places"])
    assert net("unresolved", "trips").output == "nothing is unresolved, and nothing waits\n"
    numbers = json.loads(net("metrics", "trips", "--json").stdout)["places"]["airline"]
    assert numbers["committed"] == 1 and numbers["commits_per_second"] > 0 and numbers["in_doubt"] == 0
    assert numbers["oldest_seconds"] is None and numbers["state"] == "running" and numbers["syncs"] > 0
    down = net("down", "trips", "airline")
    assert down.exit_code == 0 and down.output == "airline      ended\n"
    assert net("down", "trips").output == "agent        ended\nairline      did not run\nhotel        ended\n"
    stopped = net("status", "trips")
    assert stopped.output.count("stopped, 127.0.0.1:") == 3 and "  seats        3 messages" in stopped.output
    metrics = net("metrics", "trips", "airline")
    assert (
        "  aborted                crash: 1\n" in metrics.output and "  state                  stopped" in metrics.output
    )


def test_a_log_does_not_say_how_many_messages_of_others_are_there_for_good(net: Callable[..., Result]) -> None:
    """Their senders may have aborted, which no log has but theirs."""
    net("new", "trips", *PLACES)
    network = Network.load("trips")
    network.folder_of("hotel").mkdir(parents=True, exist_ok=True)
    log = open_log(network.log_of("hotel"), "hotel")
    log.append([
        make("boot", n=1, mark="x"), make("begin", t="hotel:1-x:1"),
        make("deposit", channel="rooms", mid="hotel:1-x:1/1", sender="hotel:1-x:1", value=b""),
        make("pending", t="hotel:1-x:1"), make("commit", members=["hotel:1-x:1"]),
        make("deposit", channel="requests", mid="agent:1-y:1/1", sender="agent:1-y:1", value=b""),
        make("deposit", channel="requests", mid="agent:1-y:2/1", sender="agent:1-y:2", value=b""),
    ], sync=True)  # fmt: skip
    log.close()
    shown = net("status", "trips", "hotel").output
    assert "  requests     up to 2 messages\n" in shown and "  rooms        1 message\n" in shown
    (place,) = json.loads(net("status", "trips", "hotel", "--json").stdout)["places"]
    assert place["channels"]["requests"] == {"waiting": 2, "at_least": 0, "taken": 0}
    assert "  messages               up to 3\n" in net("metrics", "trips", "hotel").output
    numbers = json.loads(net("metrics", "trips", "hotel", "--json").stdout)["places"]["hotel"]
    assert (numbers["messages"], numbers["messages_at_least"]) == (3, 1)


def test_of_a_stopped_place_it_is_not_known_what_has_arrived(net: Callable[..., Result]) -> None:
    net("new", "trips", *PLACES)
    network = Network.load("trips")
    net("up", "trips", "agent", "--background")
    with connect("trips", "agent") as agent, agent.transaction() as t:
        t.send("hotel.requests", "ada")
        t.commit()
    for command, line in (("status", "  on their way  {}1 message to"), ("metrics", "  on their way           {}1\n")):
        assert line.format("") in net(command, "trips", "agent").output
        end(network)
        assert line.format("up to ") in net(command, "trips", "agent").output
        start(network, ["agent"])


def test_one_place_in_the_foreground_ends_by_sigterm(net: Callable[..., Result], tmp_path: Path) -> None:
    net("new", "trips", "--place", "agent=answers")
    process = subprocess.Popen([sys.executable, "-m", "pellucid", "net", "up", "trips", "agent"], cwd=tmp_path)
    with connect("trips", "agent", patience=120) as here, here.transaction() as t:
        t.commit()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def in_doubt(monkeypatch: pytest.MonkeyPatch) -> tuple[str, Network]:
    """A trip whose coordinator, the agent, died before it decided: the attempt that two places are in doubt about."""
    network = Network.load("trips")
    monkeypatch.setenv(faults.VARIABLE, "place:before-decide[agent]=kill")
    start(network)
    monkeypatch.delenv(faults.VARIABLE)
    fill(network, "airline", "seats", [1])
    fill(network, "hotel", "rooms", [1])
    for place in ("airline", "hotel"):
        Aside(provide, network, place)
    with connect("trips", "agent") as agent, agent.transaction() as t:
        for place in ("airline", "hotel"):
            t.send(f"{place}.requests", "ada")
        for _ in range(2):
            t.receive("answers", timeout=60)
        with pytest.raises(InDoubt):
            t.commit()
    until = time.monotonic() + 60
    while running(network, "agent") is not None:  # its connection ends a moment before it does
        assert time.monotonic() < until
        time.sleep(0.02)
    document = json.loads(CliRunner().invoke(cli, ["net", "unresolved", "trips", "--json"]).stdout)
    (what,) = {one["what"] for one in document["doubts"] if one["kind"] == "prepared"}
    return what, network


def test_doubt_and_decisions_by_hand(
    net: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running places and stopped ones; the outcome, the warning, the record."""
    net("new", "trips", *PLACES)
    what, network = in_doubt(monkeypatch)
    shown = net("unresolved", "trips")
    assert shown.exit_code == 1
    assert (
        f"{what}  unresolved at hotel since 20" in shown.output
        and "  waits for  agent: does not run; its log has no decision about it" in shown.output
    )
    assert f"by hand: `pellucid net abort trips {what} --place hotel`, as its log says nothing else" in shown.output
    files = list(Path(network.log_of("agent")).parent.glob(Path(network.log_of("agent")).name + "*"))
    for file in files:
        file.rename(file.with_name("away-" + file.name))
    lost = net("unresolved", "trips").output  # a log that is gone says nothing about what was decided
    assert f"by hand: `pellucid net commit trips {what} --place hotel`, or abort" in lost
    for file in files:
        file.with_name("away-" + file.name).rename(file)
    assert net("metrics", "trips", "hotel").output.count("in doubt               1") == 1
    several = net("commit", "trips", what)
    assert several.exit_code == 2 and "waits at airline, hotel: say where, with --place" in several.stderr
    asked = net("commit", "trips", what, "--place", "hotel", input="n\n")
    assert asked.exit_code == 2 and "nothing was done; --yes does it without asking" in asked.stderr
    assert "warning: agent may have decided otherwise" in asked.stderr
    done = net("commit", "trips", what, "--place", "hotel", "--yes")
    assert done.exit_code == 0 and f"{what} at hotel: committed, by hand; it is written down" in done.stdout
    net("down", "trips", "airline")
    stopped = net("unresolved", "trips", "airline")
    assert (stopped.exit_code == 1 and "start airline" in stopped.output) or "start agent" in stopped.output
    member = json.loads(net("unresolved", "trips", "airline", "--json").stdout)["doubts"][0]["members"][0]
    part = net("abort", "trips", member, "--place", "airline", "--yes")
    assert part.exit_code == 2 and f"decide the attempt {what} as a whole" in part.stderr
    undone = net("abort", "trips", what, "--place", "airline", "--yes", "--json")
    assert undone.exit_code == 0 and json.loads(undone.stdout)["status"] == "aborted"
    assert net("unresolved", "trips", "airline", "hotel").exit_code == 0
    for name, outcome in (("hotel", "commit"), ("airline", "abort")):
        net("down", "trips", name)
        (hand,) = [record for record in read_log(network.log_of(name), name) if record.kind == "hand"]
        assert (hand["what"], hand["outcome"]) == (what, outcome) and "@" in hand["who"] and hand["when"] > 1e9
    again = net("commit", "trips", what, "--yes")
    assert again.exit_code == 2 and "waits to be decided" in again.stderr


def test_a_set_that_waits_for_a_place_that_is_down_names_it(net: Callable[..., Result]) -> None:
    """The airline is prepared and waits for the agent, which runs; what is missing is the hotel."""
    hotel = Looked("hotel", "stopped", "")
    pending = [{"t": "agent:1:2", "waits": ["airline:1:4", "hotel:1:4"], "since": 1.0}]
    empty = {"doubt": [], "deciding": [], "pending": [], "untold": {}}
    agent = Looked("agent", "running", "", seen={"doubt": {**empty, "pending": pending}})
    airline = Looked("airline", "running", "")
    net("new", "trips", *PLACES)
    one = {"attempt": "agent:1:a3", "coordinator": "agent", "members": ["airline:1:4"], "since": 1.0}
    places = {"agent": agent, "airline": airline, "hotel": hotel}
    found = doubt._prepared(Network.load("trips"), places, "airline", one)
    assert found.resolve == (
        "agent cannot decide it without hotel: start hotel: `pellucid net up trips hotel --background`"
    )


def test_who_waits_for_whom(net: Callable[..., Result]) -> None:
    net("new", "trips", *PLACES)
    net("up", "trips")
    with connect("trips", "agent") as one, connect("trips", "agent") as two:
        first, second = one.begin(), two.begin()
        first.send("answers", 1)
        second.receive("answers", timeout=10)
        with pytest.raises(InDoubt):
            second.commit(timeout=0)
        shown = net("unresolved", "trips")
        assert shown.exit_code == 1 and f"{second.id}  waits at agent since" in shown.output
        assert f"  waits for  {first.id}: of agent, which runs: its program has not ended it" in shown.output
        refused = net("commit", "trips", second.id, "--yes")
        assert refused.exit_code == 2 and f"it commits by itself once {first.id} commit" in refused.stderr
        undone = net("abort", "trips", second.id, "--yes")
        assert undone.exit_code == 0 and "aborted, by hand" in undone.stdout
        assert "is undone, with all that took its messages" in undone.stderr
        assert one.messages("answers") == [1] and two.status(second.id) == "aborted"


def test_a_place_that_starts_while_others_are_looked_at_is_no_older_copy(
    net: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked at before its start, and who took a message of that start after it."""
    net("new", "trips", *PLACES)
    net("up", "trips")
    network = Network.load("trips")
    end(network, ["hotel"])
    before = doubt.looked_at(network, "hotel")
    start(network)
    with connect("trips", "hotel") as hotel, connect("trips", "agent") as agent:
        first, second = hotel.begin(), agent.begin()
        first.send("agent.answers", 1)
        second.receive("answers", timeout=60)
        with pytest.raises(InDoubt):
            second.commit(timeout=0)
        real = doubt._all_places
        monkeypatch.setattr(doubt, "_all_places", lambda network: {**real(network), "hotel": before})
        shown = net("unresolved", "trips")
        assert "older copy" not in shown.output and "start hotel" not in shown.output, shown.output
        assert f"  waits for  {first.id}: of hotel, which runs: its program has not ended it" in shown.output


def test_secrets_are_never_shown(net: Callable[..., Result], tmp_path: Path) -> None:
    outputs = [net("new", "trips", *PLACES).output, net("up", "trips").output]
    network = Network.load("trips")
    fill(network, "airline", "seats", [1])
    for verb in ("status", "unresolved", "metrics"):
        outputs += [net(verb, "trips").output, net(verb, "trips", "--json").output]
    with connect("trips", "agent") as agent, agent.transaction() as t:
        t.send("airline.requests", 1)
        t.commit()
    net("down", "trips")
    outputs += [(network.folder_of(name) / "said.log").read_text() for name in network.places]
    outputs.append((network.folder / "network.toml").read_text())
    secrets = secrets_of(network.folder)
    assert len(secrets) > 20
    for output in outputs:
        assert not [secret for secret in secrets if secret in output]


BAD = {
    "no network": (["up", "."], "is no network: it has no network.toml; make one with `pellucid net new"),
    "no folder": (["status", "nowhere"], "nowhere: is no network"),
    "no such place": (["up", "trips", "agnt"], "has no place 'agnt': it has agent; did you mean 'agent'?"),
    "a place twice": (["new", "x", "--place", "a", "--place", "a"], "--place a: a is given twice: leave one out"),
    "a name": (["new", "x", "--place", "1a=c"], "expected a name of letters"),
    "an address": (["new", "x", "--place", "a@here=c"], "expected HOST:PORT, as in 127.0.0.1:4701"),
    "inside": (["new", "x", "--place", "a", "--inside", "a"], "--inside a: expected PLACE=…"),
    "inside whom": (["new", "x", "--place", "a", "--inside", "b=a"], "--inside b=…: there is no --place b"),
    "inside nothing": (["new", "x", "--place", "a", "--inside", "a=b"], "inside = 'b': no such place"),
    "may": (["new", "x", "--place", "a=c", "--may", "a=b.c"], "may: 'b.c': there is no such channel"),
    "there already": (["new", "trips", "--place", "a"], "trips: is a network already"),
    "not empty": (["new", "full", "--place", "a"], "full: is there and not empty"),
    "nothing in doubt": (["abort", "trips", "agent:1:a1", "--yes"], "agent:1:a1: nothing of that name waits"),
    "a password": (
        ["new", "x", "--place", "a", "--log", "a=postgresql://me:S3cret@db/x"],
        "leave it out (postgresql://me@db:5432/x), and set PGPASSWORD",
    ),
    "a log": (["new", "x", "--place", "a", "--log", "a=mysql://me:S3cret@db/x"], "log: expected an address as in"),
}


@pytest.mark.parametrize(("args", "said"), BAD.values(), ids=BAD)
def test_what_is_refused(net: Callable[..., Result], tmp_path: Path, args: list[str], said: str) -> None:
    net("new", "trips", "--place", "agent=answers")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("")
    refused = net(*args)
    assert refused.exit_code == 2 and said in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr and "S3cret" not in refused.stderr


def test_a_place_that_does_not_answer_cannot_be_seen(net: Callable[..., Result]) -> None:
    net("new", "trips", "--place", "agent=answers")
    os.remove("trips/secrets/agent.toml")
    shown = net("unresolved", "trips")
    assert shown.exit_code == 3 and "agent: cannot be seen: " in shown.output and "the keys of agent" in shown.output


@pytest.mark.parametrize(
    ("pattern", "new", "said"),
    [
        (r'^"out" = ', '"oux" = ', "[own]: has no 'out'"),
        (r'^"in" = .*$', "", "[own]: has no 'in'"),
        (r"^authority = ", "authorities = ", "has no authority"),
        (r"^identity = ", "identities = ", "has no identity"),
        (r"^\[held\]", "[hold]", "has no [held]"),
        (r"^\[own\]", "x = [[", "is damaged"),
    ],
)
def test_secrets_that_lack_a_key_are_named(net: Callable[..., Result], pattern: str, new: str, said: str) -> None:
    net("new", "trips", *PLACES)
    file = Path("trips/secrets/hotel.toml")
    changed = re.sub(pattern, new, file.read_text(), flags=re.M)
    assert changed != file.read_text()
    file.write_text(changed)
    for verb in (
        ["up", "trips"],
        ["up", "trips", "hotel"],
        ["status", "trips"],
        ["unresolved", "trips"],
        ["metrics", "trips"],
    ):
        refused = net(*verb)
        assert refused.exit_code == 2 and f"hotel.toml: {said}" in refused.stderr, refused.stderr


def test_secrets_of_another_place_are_refused_by_name(net: Callable[..., Result]) -> None:
    net("new", "trips", *PLACES)
    shutil.copy("trips/secrets/agent.toml", "trips/secrets/hotel.toml")
    refused = net("up", "trips", "hotel")
    assert refused.exit_code == 2 and "hotel.toml: has the keys of agent, not of hotel: copy it" in refused.stderr


def test_a_folder_that_cannot_be_used_is_called_as_it_was_given(net: Callable[..., Result]) -> None:
    Path("file").touch()
    refused = net("new", "file/trips", *PLACES)
    assert refused.exit_code == 2 and "DIR file/trips: cannot be used" in refused.stderr
    assert "--DIR" not in refused.stderr


def test_a_log_that_is_another_file_is_told(net: Callable[..., Result]) -> None:
    net("new", "trips", "--place", "agent=answers")
    net("up", "trips")
    net("down", "trips")
    Path("trips/places/agent/log.sqlite").write_bytes(b"not a log" * 1000)
    refused = net("up", "trips")
    assert refused.exit_code == 2 and "agent did not start: " in refused.stderr and "log.sqlite" in refused.stderr
    assert "agent        unseen" in net("status", "trips").output
    assert running(Network.load("trips"), "agent") is None


PAGE = Path(__file__).parents[3] / "docs" / "how-to-places.md"
COMMANDS = [
    shlex.split(line, comments=True)[2:]
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.mark.parametrize("command", [one for one in COMMANDS if one[0] == "new"], ids=lambda one: " ".join(one)[:40])
def test_networks_of_the_page_are_made(net: Callable[..., Result], command: list[str]) -> None:
    assert net(*command).exit_code == 0
    assert Network.load(command[1]).places


def test_the_page_knows_the_verbs() -> None:
    assert {one[0] for one in COMMANDS} == {"new", "up", "status", "down", "unresolved", "metrics", "commit"}


def test_doubts_of_a_group_of_sinks(net: Callable[..., Result], tmp_path: Path) -> None:
    """The same verb, the same exit codes; a folder that is neither is refused."""
    folder = tmp_path / "state"
    log = DecisionLog(folder / "together")
    log.take("orders", {"archive": f"parquet: {tmp_path}/gone"})
    log.decide(7, "a1", epoch=2)
    shown = net("unresolved", "state")
    assert shown.exit_code == 1 and "epoch 2 (up to push 7) of 'orders'" in shown.output
    assert json.loads(net("unresolved", "state", "--json").stdout)["group"]["in_doubt"] is True
    named = net("unresolved", "state", "archive")
    assert named.exit_code == 2 and "which has no places: leave archive out" in named.stderr
    for args, instead in (
        (["commit", "state", "agent:1:a7"], "nothing is decided by hand in a group: its log has the decision, and "),
        (["abort", "state/together", "agent:1:a7", "--yes"], "run the same command again (`pellucid run`, the query)"),
        (
            ["metrics", "state", "--json"],
            "`pellucid net unresolved state` says what is in doubt, and since when; numbers ",
        ),
        (["status", "state"], "`pellucid net unresolved state` says what is decided, and who has it"),
        (["accept", "state", "archive"], "`pellucid net unresolved state` says who has less than was decided"),
    ):
        other = net(*args)
        assert other.exit_code == 2 and f"{args[1]}: is of a group of sinks, and no network of places: " in other.stderr
        assert instead in other.stderr and other.stderr.count("\n") == 1
    (tmp_path / "empty").mkdir()
    neither = net("unresolved", "empty")
    assert neither.exit_code == 2 and "empty: is no network" in neither.stderr


# What is in doubt in a group of sinks, as the command line shows it.


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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "state")])
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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path)])
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
        shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
        if shown.exit_code == 0 and who is None:
            continue  # the account of the test is a user of that server
        assert (hint in shown.output, shown.exit_code) == (told, 0 if who == "postgres" else 3), shown.output


def test_a_log_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "state")])
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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
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
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
    assert shown.exit_code == 0, shown.output
    where = dsn.partition("@")[2]
    assert f"  a            has it         postgresql://a%20shop%2Fkeeper@{where}#a" in shown.output.splitlines()
    monkeypatch.setenv("PGUSER", "nobody-of-this-name")
    shown = CliRunner().invoke(cli, ["net", "unresolved", str(tmp_path / "log")])
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
    command = [
        "run",
        f"{tmp_path}/p.py:total",
        "--in",
        f"{tmp_path}/x.jsonl",
        "--epoch-size",
        "1",
        "--state",
        state,
        *outs,
    ]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(cli, ["net", "unresolved", state]).exit_code == 0
    if gone == "the file":
        (tmp_path / "to" / "out.csv").unlink()
    else:
        shutil.rmtree(tmp_path / "to")
    if gone == "the rows":
        shutil.rmtree(tmp_path / "state" / "committed")
    shown = CliRunner().invoke(cli, ["net", "unresolved", state])
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
    assert CliRunner().invoke(cli, ["net", "unresolved", state]).exit_code == 0


def test_a_run_with_a_single_target_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from pellucid import pipeline\n\nsame = pipeline(lambda x: x.map(lambda v: v), x=int)\n"
    )
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    state = str(tmp_path / "state")
    where = ["--in", str(tmp_path / "x.csv"), "--out", str(tmp_path / "out.csv"), "--epoch-size", "1", "--state", state]
    assert CliRunner().invoke(cli, ["run", f"{tmp_path}/p.py:same", *where]).exit_code == 0
    shown = CliRunner().invoke(cli, ["net", "unresolved", state])
    assert shown.exit_code == 2
    assert "is of a run with epochs whose outputs are no group, so nothing can be in doubt between them" in shown.stderr
